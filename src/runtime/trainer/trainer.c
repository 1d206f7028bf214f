/* A trainer and its rank threads: creating, planning, giving out jobs. */
#include "base/clock.h"
#include "base/cores.h"
#include "base/host.h"
#include "runtime/rank/watch.h"
#include "runtime/stage/stage_state.h"
#include "runtime/trainer/trainer_internal.h"

#include <stdlib.h>

/* ---- Rank threads ------------------------------------------------------- */

struct thread_arg {
    struct vp_trainer *trainer;
    int index;
};

static void prepare_rank(struct vp_rank *rank)
{
    const struct vp_loader *loader = rank->pipeline->config->loader;
    struct vp_err err = { .text = "" };
    enum vp_status st = VP_OK;

    vp_device_attach(rank->device);
    for (int i = 0; i < rank->n_stages && st == VP_OK; i++) {
        st = vp_stage_allocate(&rank->stages[i].stage, &err);
        if (st == VP_OK && loader)
            st = vp_stage_restore(&rank->stages[i].stage, rank->stages[i].index,
                                  loader, &err);
    }
    if (st != VP_OK)
        vp_world_abort(rank->pipeline->world, st, err.text);
}

static void *thread_main(void *arg)
{
    struct thread_arg *self = arg;
    struct vp_trainer *trainer = self->trainer;
    struct vp_rank *rank = &trainer->ranks[self->index];

    free(self);
    for (uint32_t k = 0;; k++) {
        const struct vp_job *job = &trainer->jobs[k % MAX_JOBS];

        vp_counter_wait(&trainer->n_posted, k + 1, VP_LIMIT_NEVER, NULL);
        if (job->kind == VP_JOB_EXIT)
            return NULL;
        if (job->kind == VP_JOB_PREPARE)
            prepare_rank(rank);
        else if (vp_world_status(trainer->pipeline.world, NULL) == VP_OK)
            vp_rank_run(rank, job);
        vp_counter_add(&trainer->pipeline.n_done[rank->index]);
    }
}

void vp_trainer_post(struct vp_trainer *trainer, const struct vp_job *job)
{
    trainer->jobs[trainer->n_jobs++ % MAX_JOBS] = *job;
    vp_counter_add(&trainer->n_posted);
}

static int64_t actions_done(const struct vp_trainer *trainer)
{
    int64_t n = 0;

    for (int r = 0; r < trainer->pipeline.n_ranks; r++)
        n += atomic_load(&trainer->ranks[r].blackbox->n_actions);
    return n;
}

/* At most once in a second. */
static void note_cores(struct vp_pipeline *pipeline)
{
    int64_t now = vp_clock_ns();
    struct vp_cores time;

    if (now - atomic_load(&pipeline->cores.at_ns) < 1000000000)
        return;
    time = vp_cores_read();
    atomic_store(&pipeline->cores.ran_ns, time.ran_ns);
    atomic_store(&pipeline->cores.delayed_ns, time.delayed_ns);
    atomic_store(&pipeline->cores.at_ns, now);
}

bool vp_trainer_watch(struct vp_trainer *trainer)
{
    int64_t n = actions_done(trainer);
    struct vp_err err = { .text = "" };
    bool over;

    vp_world_poll(trainer->pipeline.world);
    if (n != trainer->seen_actions) {
        vp_limit_restart(&trainer->idle);
        note_cores(&trainer->pipeline);
    }
    trainer->seen_actions = n;
    over = vp_limit_is_over(&trainer->idle);
    atomic_store(&trainer->pipeline.resumed_ns, trainer->idle.clock.resumed_ns);
    if (over && vp_world_status(trainer->pipeline.world, NULL) == VP_OK) {
        vp_watch_report(trainer->ranks, trainer->pipeline.n_ranks, -1, &err);
        vp_world_abort(trainer->pipeline.world, VP_ERR_TIMEOUT, err.text);
    }
    return vp_world_status(trainer->pipeline.world, NULL) == VP_OK;
}

bool vp_trainer_nap(struct vp_trainer *trainer, struct vp_counter *counter,
                    uint32_t target)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;
    int slice = pipeline->remote ? HEAR_MS : SLICE_MS;

    if (pipeline->remote && pipeline->is_lead)
        vp_remote_hear(pipeline, trainer->ranks);
    return vp_counter_wait(counter, target, vp_limit_ms(slice), NULL) == VP_OK;
}

void vp_trainer_wait(struct vp_trainer *trainer, uint32_t n)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;
    struct vp_limit give_up = VP_LIMIT_NEVER;

    vp_limit_restart(&trainer->idle);
    for (int r = 0; r < pipeline->n_ranks; r++)
        while ((pipeline->is_lead || trainer->ranks[r].is_here) &&
               !vp_trainer_nap(trainer, &pipeline->n_done[r], n)) {
            bool good = vp_trainer_watch(trainer);

            if (!good && !trainer->ranks[r].is_here)
                break; /* it has its own to look after it */
            if (!good && give_up.length_ns == INT64_MAX)
                give_up = vp_limit_ms(GRACE_MS);
            if (vp_limit_is_over(&give_up)) {
                trainer->lost = true;
                return;
            }
        }
}

static enum vp_status start_threads(struct vp_trainer *trainer)
{
    int n = trainer->pipeline.n_ranks;

    trainer->threads = calloc((size_t)n, sizeof(*trainer->threads));
    trainer->pipeline.n_done = aligned_alloc(64, (size_t)n *
                                                     sizeof(struct vp_counter));
    if (!trainer->threads || !trainer->pipeline.n_done)
        return VP_ERR_NOMEM;
    for (int r = 0; r < n; r++)
        trainer->pipeline.n_done[r] = (struct vp_counter){ .value = 0 };
    for (int r = 0; r < n; r++) {
        struct thread_arg *arg;

        if (!trainer->ranks[r].is_here)
            continue;
        arg = malloc(sizeof(*arg));
        if (!arg)
            return VP_ERR_NOMEM;
        *arg = (struct thread_arg){ trainer, r };
        if (pthread_create(&trainer->threads[trainer->n_threads], NULL,
                           thread_main, arg)) {
            free(arg);
            return VP_ERR_NOMEM;
        }
        trainer->n_threads++;
    }
    return VP_OK;
}

/* ---- Creating ----------------------------------------------------------- */

static enum vp_status check_partition(const struct vp_train_config *config,
                                      int n_stages, struct vp_err *err)
{
    int n_blocks = config->graphs[0].n_blocks, sum = 0;

    if (!config->plan.partition && n_stages == 1)
        return VP_OK;
    if (!config->plan.partition)
        return vp_err_refuse(err, "stages partition",
                             "%d stages need a partition of the %d blocks",
                             n_stages, n_blocks);
    for (int s = 0; s < n_stages; s++) {
        if (config->plan.partition[s] < 1)
            return vp_err_refuse(
                err, "partition",
                "partition: stage %d has %d blocks; give every "
                "stage at least 1",
                s, config->plan.partition[s]);
        sum += config->plan.partition[s];
    }
    if (sum != n_blocks)
        return vp_err_refuse(err, "partition",
                             "partition: the stages have %d blocks, the model "
                             "has %d; make them equal",
                             sum, n_blocks);
    return VP_OK;
}

static enum vp_status check_ties(const struct vp_trainer *trainer,
                                 struct vp_err *err)
{
    const struct vp_graph *graph = &trainer->config.graphs[0];
    bool tied = false;

    for (vp_par par = 0; par < graph->n_params; par++)
        tied |= graph->params[par].tied_to != VP_NONE;
    if (tied && trainer->generator->stream && trainer->schedule.n_stages > 1)
        return vp_err_refuse(
            err, "sync_mode tie_embeddings",
            "tied embeddings in different stages need sync_mode "
            "bsp; set tie_embeddings: false");
    return VP_OK;
}

/* Minibatches of the schedule that is proven and simulated: a group, or enough
 * of a stream. Default depths need no long proof. */
static int n_planned(const struct vp_train_config *config, bool stream,
                     int n_stages)
{
    int64_t n = PIECE;

    if (!stream)
        return config->plan.accumulation_steps;
    if (config->plan.depth)
        n = vp_schedule_proof_mb(config->plan.replicas, config->plan.depth,
                                 n_stages);
    return n < PIECE ? PIECE : n < INT32_MAX ? (int)n : INT32_MAX;
}

static enum vp_status make_schedule(struct vp_trainer *trainer,
                                    struct vp_err *err)
{
    const struct vp_train_config *config = &trainer->config;
    int n_stages = config->plan.n_stages > 0 ? config->plan.n_stages : 1;
    int n_chunks = config->plan.n_chunks > 0 ? config->plan.n_chunks : 1;
    static const char fallback[] = "1f1b";
    enum vp_status st;

    trainer->generator = vp_generator_find(
        config->plan.schedule ? config->plan.schedule : fallback);
    if (!trainer->generator)
        return vp_err_refuse(err, "schedule", "unknown schedule '%s'",
                             config->plan.schedule);
    VP_BUG_ON(config->scale.dynamic && trainer->generator->stream);
    if (n_stages * n_chunks > VP_MAX_STAGES)
        return vp_err_refuse(err, "stages", "%d stages; at most %d",
                             n_stages * n_chunks, VP_MAX_STAGES);
    for (int s = 0; s < n_stages * n_chunks; s++)
        trainer->recompute[s] = config->plan.recompute_ratio &&
                                config->plan.recompute_ratio[s] > 0.0;
    trainer->sched = (struct vp_sched_config){
        .name = trainer->generator->name,
        .n_stages = n_stages,
        .n_chunks = n_chunks,
        .memory = config->plan.schedule_memory,
        .text = config->plan.schedule_text,
        .n_mb = n_planned(config, trainer->generator->stream, n_stages),
        .replicas = config->plan.replicas,
        .depth = config->plan.depth,
        .recompute = trainer->recompute,
        .early_recompute = config->plan.early_recompute,
        .global_norm = !trainer->generator->stream,
        .version_begin = trainer->version_begin,
        .version_past = trainer->version_past,
    };
    st = vp_schedule_make(&trainer->sched, &trainer->schedule, err);
    if (st == VP_OK)
        st = vp_schedule_validate(&trainer->schedule, err);
    if (st != VP_OK) {
        err->fields = "schedule chunks stages replicas warmup_depths";
        return st;
    }
    VP_TRY(check_partition(config, trainer->schedule.n_stages, err));
    return check_ties(trainer, err);
}

static bool fits_limit(const struct vp_trainer *trainer, struct vp_err *err)
{
    size_t limit = trainer->config.memory_limit;

    for (int s = 0; limit > 0 && s < trainer->schedule.n_stages; s++) {
        const struct vp_memory *m = &trainer->memory[s];
        char needs[VP_BYTES_TEXT], has[VP_BYTES_TEXT], parts[VP_MEMORY_TEXT];

        if ((size_t)m->total <= limit)
            continue;
        vp_bytes_texts(m->total, (int64_t)limit, needs, has, sizeof(needs));
        vp_memory_text(m, parts);
        vp_err_refuse(err, "memory_limit",
                      "stage %d needs %s (%s), memory_limit is %s", s, needs,
                      parts, has);
        return false;
    }
    return true;
}

/* What a stage and the copy that is made to save it take; replicas are alike, and
 * one is saved. */
static size_t host_bytes(const struct vp_train_config *config,
                         const struct vp_rank_stage *rs)
{
    const struct vp_memory *m = &rs->stage.plan.memory;
    bool saves = config->saver || config->backend_config.plan_only;
    int64_t copy = saves && rs->replica == 0 ? m->weights + m->moments : 0;

    return (size_t)(m->total + copy);
}

/* Beyond what is planned, a process maps stacks of threads that are not started
 * yet (of ranks, readers and the writer), two arenas of malloc(), and what
 * oneDNN makes at its first products: code, and packed tiles per thread. */
enum { EXTRA_THREADS = 2 };
#define LIBRARY_BYTES ((size_t)64 << 20)
#define TILES_BYTES ((size_t)4 << 20)

static size_t unplanned_bytes(const struct vp_trainer *trainer)
{
    size_t n_here = 0, stack = 0;
    pthread_attr_t attr;

    for (int r = 0; r < trainer->pipeline.n_ranks; r++)
        n_here += trainer->ranks[r].is_here;
    if (pthread_attr_init(&attr) == 0) {
        pthread_attr_getstacksize(&attr, &stack);
        pthread_attr_destroy(&attr);
    }
    return (2 * n_here + EXTRA_THREADS) * stack +
           n_here * (size_t)trainer->config.backend_config.n_threads *
               TILES_BYTES +
           VP_HOST_ARENAS * VP_HOST_ARENA_BYTES + LIBRARY_BYTES;
}

struct vp_host_need vp_trainer_host_need(const struct vp_trainer *trainer)
{
    const struct vp_train_config *config = &trainer->config;
    struct vp_host_need need = {
        .memory_left = vp_host_memory(""),
        .space_left = vp_host_address_space(""),
    };

    if (!config->backend->device->host_memory)
        return need;
    for (int r = 0; r < trainer->pipeline.n_ranks; r++)
        for (int i = 0; i < trainer->ranks[r].n_stages; i++)
            if (trainer->ranks[r].is_here)
                need.memory += host_bytes(config, &trainer->ranks[r].stages[i]);
    need.space = need.memory + unplanned_bytes(trainer);
    return need;
}

/* A device refuses what it has no room for. The host would give pages until it
 * has to kill a process, and oneDNN crashes where it cannot map memory. */
static enum vp_lack host_lacks(const struct vp_trainer *trainer,
                               struct vp_err *err)
{
    struct vp_host_need need = vp_trainer_host_need(trainer);
    char needs[VP_BYTES_TEXT], has[VP_BYTES_TEXT];

    if (trainer->config.spread)
        return VP_LACK_NONE;
    if (need.memory > need.memory_left) {
        vp_bytes_texts((int64_t)need.memory, (int64_t)need.memory_left, needs,
                       has, sizeof(needs));
        vp_err_refuse(
            err, "batch_size recompute_ratio stages",
            "the stages here and the copies to save them need %s, this "
            "machine has %s left",
            needs, has);
        return VP_LACK_MEMORY;
    }
    if (need.space > need.space_left) {
        vp_bytes_texts((int64_t)need.space, (int64_t)need.space_left, needs,
                       has, sizeof(needs));
        vp_err_refuse(err, "batch_size threads_per_stage",
                      "the stages here, their threads and libraries need %s of "
                      "address space, ulimit -v or -d leaves %s",
                      needs, has);
        return VP_LACK_ADDRESSES;
    }
    return VP_LACK_NONE;
}

enum vp_lack vp_trainer_lacks(const struct vp_trainer *trainer,
                              struct vp_err *err)
{
    return fits_limit(trainer, err) ? host_lacks(trainer, err) : VP_LACK_LIMIT;
}

/* The schedule, and a device for each rank. */
static enum vp_status open_ranks(struct vp_trainer *trainer, struct vp_err *err)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;
    size_t n_ranks, n_stages;

    vp_host_share_arenas();
    VP_TRY(make_schedule(trainer, err));
    n_ranks = (size_t)trainer->schedule.n_ranks;
    n_stages = (size_t)trainer->schedule.n_stages;
    pipeline->config = &trainer->config;
    pipeline->n_ranks = (int)n_ranks;
    pipeline->n_stages = (int)n_stages;
    trainer->ranks = aligned_alloc(64, n_ranks * sizeof(*trainer->ranks));
    for (size_t r = 0; trainer->ranks && r < n_ranks; r++)
        trainer->ranks[r] = (struct vp_rank){ .index = (int)r };
    trainer->memory = calloc(n_stages, sizeof(*trainer->memory));
    trainer->stage_norms = calloc(n_stages, sizeof(*trainer->stage_norms));
    trainer->stats = calloc(n_stages, sizeof(*trainer->stats));
    trainer->windows = calloc(n_ranks, sizeof(*trainer->windows));
    if (!trainer->ranks || !trainer->memory || !trainer->stage_norms ||
        !trainer->stats || !trainer->windows)
        return vp_err_set(err, VP_ERR_NOMEM, "trainer: out of memory");
    return vp_pipeline_open(pipeline, trainer->ranks, err);
}

static enum vp_status plan(struct vp_trainer *trainer, struct vp_err *err)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;

    VP_TRY(vp_pipeline_plan(pipeline, trainer->ranks, &trainer->schedule, err));
    for (int r = 0; r < pipeline->n_ranks; r++)
        for (int i = 0; i < trainer->ranks[r].n_stages; i++) {
            const struct vp_rank_stage *rs = &trainer->ranks[r].stages[i];

            trainer->memory[rs->index] = rs->stage.plan.memory;
            trainer->scales[rs->index] = rs->stage.scale;
        }
    vp_trainer_number_items(trainer);
    if (trainer->config.any_size ||
        vp_trainer_lacks(trainer, err) == VP_LACK_NONE)
        return VP_OK;
    return VP_ERR_INVALID;
}

/* Counts go on where the run that is restored ended. */
static void set_progress(struct vp_trainer *trainer)
{
    const struct vp_progress *from = &trainer->config.loader->progress;

    trainer->n_steps = from->step;
    trainer->n_minibatches = trainer->stream_begin = from->minibatch;
    atomic_store(&trainer->pipeline.n_reported, from->minibatch);
    for (int s = 0; s < trainer->pipeline.n_stages; s++) {
        trainer->version_begin[s] = (int)from->updates[s];
        trainer->version_past[s] = from->past[s];
        trainer->scales[s] = vp_scale_resume(&trainer->config.scale,
                                             &from->scale[s]);
    }
    for (int r = 0; r < trainer->pipeline.n_ranks; r++) {
        struct vp_rank *rank = &trainer->ranks[r];

        for (int i = 0; i < rank->n_stages; i++) {
            struct vp_rank_stage *rs = &rank->stages[i];

            rs->stage.scale = trainer->scales[rs->index];
            atomic_fetch_add(&rank->n_updates.value,
                             (unsigned)from->updates[rs->index]);
        }
    }
}

static enum vp_status open_world(struct vp_trainer *trainer)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;

    pipeline->world = trainer->config.world;
    if (!pipeline->world)
        VP_TRY(vp_world_create(pipeline->n_ranks, &pipeline->world));
    pipeline->is_lead = vp_world_is_mine(pipeline->world,
                                         vp_world_lead(pipeline->world));
    return VP_OK;
}

/* Each rank of this process allocates on its own thread. */
static enum vp_status prepare(struct vp_trainer *trainer, struct vp_err *err)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;

    if (trainer->config.loader)
        set_progress(trainer);
    if (open_world(trainer) != VP_OK || start_threads(trainer) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "starting %d rank threads failed",
                          pipeline->n_ranks);
    vp_trainer_post(trainer, &(struct vp_job){ .kind = VP_JOB_PREPARE });
    for (int r = 0; r < pipeline->n_ranks; r++)
        if (!trainer->ranks[r].is_here)
            vp_counter_add(&pipeline->n_done[r]);
    vp_trainer_wait(trainer, trainer->n_jobs);
    return vp_world_status(pipeline->world, err);
}

/* Machines count from different times; traces are in the lead's. */
static enum vp_status set_clock(struct vp_pipeline *pipeline)
{
    int64_t lead_ns = vp_clock_ns();

    if (vp_world_n_here(pipeline->world) == pipeline->n_ranks)
        return VP_OK;
    VP_TRY(vp_world_share(pipeline->world, &lead_ns, sizeof(lead_ns),
                          VP_LIMIT_NEVER));
    pipeline->behind_ns = lead_ns - vp_clock_ns();
    return VP_OK;
}

static enum vp_status meet(struct vp_trainer *trainer, struct vp_err *err)
{
    enum vp_status st = vp_pipeline_meet(&trainer->pipeline, trainer->ranks,
                                         VP_LIMIT_NEVER);

    return st == VP_OK ? VP_OK
                       : vp_err_set(err, st,
                                    "the other processes do not say which "
                                    "devices they have");
}

/* Processes meet when all have a device, and go on when all are ready: what
 * one cannot do, the others hear of. How long the others take to read their
 * part of a checkpoint is not known here: a watchdog outside ends a start
 * without progress. */
static enum vp_status set_up(struct vp_trainer *trainer, bool dry,
                             struct vp_err *err)
{
    struct vp_world *world = dry ? NULL : trainer->config.world;
    enum vp_status st = open_ranks(trainer, err);

    if (world)
        st = vp_world_agree(world, st, VP_LIMIT_NEVER, err);
    VP_TRY(st);
    if (world)
        st = meet(trainer, err);
    if (st == VP_OK)
        st = plan(trainer, err);
    if (st == VP_OK && !dry)
        st = prepare(trainer, err);
    if (world)
        st = vp_world_agree(world, st, VP_LIMIT_NEVER, err);
    if (world && st == VP_OK)
        st = set_clock(&trainer->pipeline);
    if (st == VP_OK && !dry)
        st = vp_pipeline_connect(&trainer->pipeline, trainer->ranks,
                                 &trainer->schedule, err);
    return st;
}

enum vp_status vp_trainer_create(const struct vp_train_config *config, bool dry,
                                 struct vp_trainer **out, struct vp_err *err)
{
    struct vp_trainer *trainer = aligned_alloc(64, sizeof(*trainer));
    enum vp_status st;

    if (!trainer)
        return vp_err_set(err, VP_ERR_NOMEM, "trainer: out of memory");
    *trainer = (struct vp_trainer){ .config = *config, .idle = VP_LIMIT_NEVER };
    st = set_up(trainer, dry, err);
    /* Ranks that wait for others complain first. */
    trainer->idle.length_ns = (config->timeout_ms + GRACE_MS) *
                              INT64_C(1000000);
    if (st != VP_OK) {
        vp_trainer_free(trainer);
        return st;
    }
    *out = trainer;
    return VP_OK;
}

/* Others may still send into what the trainer owns. */
static bool is_torn(const struct vp_trainer *trainer)
{
    return trainer->pipeline.remote &&
           vp_world_status(trainer->pipeline.world, NULL) != VP_OK;
}

bool vp_trainer_free(struct vp_trainer *trainer)
{
    if (!trainer)
        return true;
    if (trainer->lost || is_torn(trainer))
        return false;
    if (trainer->pipeline.is_lead && trainer->pipeline.remote)
        vp_remote_give(&trainer->pipeline,
                       &(struct vp_order){ .kind = VP_ORDER_END });
    if (trainer->n_threads > 0)
        vp_trainer_post(trainer, &(struct vp_job){ .kind = VP_JOB_EXIT });
    for (int r = 0; r < trainer->n_threads; r++)
        pthread_join(trainer->threads[r], NULL);
    vp_pipeline_release(&trainer->pipeline, trainer->ranks);
    vp_schedule_release(&trainer->schedule);
    for (int i = 0; i < 2; i++)
        vp_schedule_release(&trainer->pieces[i]);
    free(trainer->ranks);
    free(trainer->threads);
    free(trainer->pipeline.n_done);
    free(trainer->memory);
    free(trainer->stage_norms);
    free(trainer->stats);
    free(trainer->windows);
    free(trainer);
    return true;
}

const struct vp_memory *vp_trainer_memory(const struct vp_trainer *trainer)
{
    return trainer->memory;
}

double vp_trainer_recompute_flops(const struct vp_trainer *trainer, int stage)
{
    double flops = 0.0;

    for (int r = 0; r < trainer->pipeline.n_ranks; r++)
        for (int i = 0; i < trainer->ranks[r].n_stages; i++) {
            const struct vp_rank_stage *rs = &trainer->ranks[r].stages[i];

            if (rs->index == stage && rs->replica == 0)
                flops = rs->stage.plan.train[0].flops[VP_LIST_R];
        }
    return flops;
}

int vp_trainer_n_stages(const struct vp_trainer *trainer)
{
    return trainer->schedule.n_stages;
}
