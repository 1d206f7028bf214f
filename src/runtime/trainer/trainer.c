/* Creates a trainer and its rank threads, and posts jobs to them. */
#include "runtime/trainer/trainer.h"

#include "base/clock.h"
#include "base/cores.h"
#include "base/host.h"
#include "runtime/fit.h"
#include "runtime/rank/watch.h"
#include "runtime/stage/stage_state.h"
#include "runtime/trainer/older_versions.h"

#include <stdlib.h>
#include <time.h>

/* ---- Rank threads ------------------------------------------------------- */

struct thread_arg {
    struct vp_trainer *trainer;
    int index;
};

static void prepare_rank(struct vp_rank *rank, bool allocate)
{
    const struct vp_loader *loader = rank->pipeline->config->loader;
    struct vp_err err = { .text = "" };
    enum vp_status st = VP_OK;

    vp_device_attach(rank->device);
    for (int i = 0; i < rank->n_stages && st == VP_OK; i++) {
        if (allocate)
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
        if (job->kind == VP_JOB_PREPARE || job->kind == VP_JOB_RESTORE)
            prepare_rank(rank, job->kind == VP_JOB_PREPARE);
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

/* Samples the CPU time of this process, at most once per second. */
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

bool vp_trainer_nap(struct vp_trainer *trainer, int rank,
                    struct vp_counter *counter, uint32_t target)
{
    const struct timespec soon = { .tv_nsec = HEAR_SOON_US * 1000 };
    struct vp_pipeline *pipeline = &trainer->pipeline;
    /* After a stop request a rank may end below the count that the lead waits
     * for: poll more often. */
    int slice = pipeline->remote                     ? HEAR_MS
                : atomic_load(&pipeline->stop_asked) ? STOP_MS
                                                     : SLICE_MS;

    if (pipeline->remote && pipeline->is_lead)
        vp_remote_handle_notes(pipeline, trainer->ranks);
    if (trainer->ranks[rank].is_here || !trainer->config.plan.forward_only)
        return vp_counter_wait(counter, target, vp_limit_ms(slice), NULL) ==
               VP_OK;
    /* Only this thread advances the counter, when it takes a report. */
    if (!vp_counter_reached(counter, target))
        nanosleep(&soon, NULL);
    return vp_counter_reached(counter, target);
}

void vp_trainer_wait(struct vp_trainer *trainer, uint32_t n)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;
    struct vp_limit give_up = VP_LIMIT_NEVER;

    vp_limit_restart(&trainer->idle);
    for (int r = 0; r < pipeline->n_ranks; r++)
        while ((pipeline->is_lead || trainer->ranks[r].is_here) &&
               !vp_trainer_nap(trainer, r, &pipeline->n_done[r], n)) {
            bool good = vp_trainer_watch(trainer);

            if (!good && !trainer->ranks[r].is_here)
                break; /* its own process handles the failure */
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
            return VP_ERR_UNSUPPORTED;
        }
        trainer->n_threads++;
    }
    return VP_OK;
}

/* ---- Creating ----------------------------------------------------------- */

static enum vp_status make_schedule(struct vp_trainer *trainer,
                                    struct vp_err *err)
{
    const struct vp_plan *plan = &trainer->config.plan;

    VP_TRY(vp_plan_make_schedule(plan, &trainer->config.graphs[0],
                                 &trainer->schedule, err));
    trainer->generator = vp_generator_find(trainer->schedule.name);
    VP_BUG_ON(trainer->config.scale.dynamic && trainer->generator->stream);
    trainer->sched = vp_plan_sched_config(
        plan, trainer->config.graphs[0].n_blocks, &trainer->stages);
    trainer->sched.version_begin = trainer->version_begin;
    trainer->sched.version_past = trainer->version_past;
    return VP_OK;
}

/* Makes the schedule and opens a device for each rank. */
static enum vp_status open_ranks(struct vp_trainer *trainer, struct vp_err *err)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;
    size_t n_ranks, n_stages;

    vp_host_share_arenas();
    VP_TRY(make_schedule(trainer, err));
    pipeline->n_members = trainer->config.graphs[0].n_members;
    n_ranks = (size_t)trainer->schedule.n_ranks * (size_t)pipeline->n_members;
    n_stages = (size_t)trainer->schedule.n_stages;
    pipeline->config = &trainer->config;
    pipeline->n_ranks = (int)n_ranks;
    pipeline->n_stages = (int)n_stages;
    trainer->ranks = aligned_alloc(64, n_ranks * sizeof(*trainer->ranks));
    for (size_t r = 0; trainer->ranks && r < n_ranks; r++)
        trainer->ranks[r] = (struct vp_rank){ .index = (int)r };
    trainer->prices = calloc(n_stages, sizeof(*trainer->prices));
    trainer->ahead = calloc((size_t)trainer->config.graphs[0].n_blocks,
                            sizeof(*trainer->ahead));
    trainer->stage_norms = calloc(n_stages, sizeof(*trainer->stage_norms));
    trainer->stats = calloc(n_stages, sizeof(*trainer->stats));
    trainer->windows = calloc(n_ranks, sizeof(*trainer->windows));
    if (!trainer->ranks || !trainer->prices || !trainer->ahead ||
        !trainer->stage_norms || !trainer->stats || !trainer->windows)
        return vp_err_set(err, VP_ERR_NOMEM, "trainer: out of memory");
    return vp_pipeline_open(pipeline, trainer->ranks, err);
}

static struct vp_stage_price price_of(const struct vp_stage *stage)
{
    return vp_stage_price_of(&stage->config.work, &stage->plan.sizes,
                             &stage->plan.shape,
                             stage->plan.spec.first_block == 0);
}

static enum vp_status plan(struct vp_trainer *trainer, struct vp_err *err)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;

    VP_TRY(vp_pipeline_plan(pipeline, trainer->ranks, &trainer->schedule, err));
    for (int r = 0; r < pipeline->n_ranks; r++)
        for (int i = 0; i < trainer->ranks[r].n_stages; i++) {
            const struct vp_rank_stage *rs = &trainer->ranks[r].stages[i];

            trainer->prices[rs->index] = price_of(&rs->stage);
            trainer->scales[rs->index] = rs->stage.scale;
        }
    vp_trainer_number_items(trainer);
    return vp_fit_lacks(&trainer->config, &trainer->schedule, trainer->prices,
                        err) == VP_LACK_NONE
               ? VP_OK
               : VP_ERR_INVALID;
}

static void set_block_counts(struct vp_trainer *trainer)
{
    const struct vp_block_count *blocks = trainer->config.loader->blocks;
    const struct vp_progress *from = &trainer->config.loader->progress;
    int block = 0;

    for (int s = 0; blocks && s < trainer->pipeline.n_stages; s++)
        for (int b = 0; b < vp_trainer_n_blocks(trainer, s); b++, block++)
            trainer->ahead[block] = (struct vp_block_count){
                blocks[block].updates - from->updates[s],
                blocks[block].n_skipped - from->scale[s].n_skipped
            };
}

void vp_trainer_set_progress(struct vp_trainer *trainer)
{
    const struct vp_progress *from = &trainer->config.loader->progress;

    set_block_counts(trainer);
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
    enum vp_status st;

    if (trainer->config.loader)
        vp_trainer_set_progress(trainer);
    st = open_world(trainer);
    if (st == VP_OK)
        st = start_threads(trainer);
    if (st == VP_ERR_UNSUPPORTED)
        return vp_err_thread(err, "a rank's thread");
    if (st != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "trainer: out of memory");
    vp_trainer_post(trainer, &(struct vp_job){ .kind = VP_JOB_PREPARE });
    for (int r = 0; r < pipeline->n_ranks; r++)
        if (!trainer->ranks[r].is_here)
            vp_counter_add(&pipeline->n_done[r]);
    vp_trainer_wait(trainer, trainer->n_jobs);
    return vp_world_status(pipeline->world, err);
}

/* Clocks of machines differ; traces use the clock of the lead. */
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
                                    "no answer from the other processes about "
                                    "their devices");
}

/* Processes exchange devices when each has opened its own, and continue when
 * all are ready; the failure of one is reported to all. There is no time limit,
 * because reading a checkpoint may take long: the watchdog ends a start without
 * progress. */
static enum vp_status set_up(struct vp_trainer *trainer, struct vp_err *err)
{
    struct vp_world *world = trainer->config.world;
    enum vp_status st = open_ranks(trainer, err);

    if (world)
        st = vp_world_agree(world, st, VP_LIMIT_NEVER, err);
    VP_TRY(st);
    if (world)
        st = meet(trainer, err);
    if (st == VP_OK)
        st = plan(trainer, err);
    if (st == VP_OK)
        st = prepare(trainer, err);
    if (world)
        st = vp_world_agree(world, st, VP_LIMIT_NEVER, err);
    if (world && st == VP_OK)
        st = set_clock(&trainer->pipeline);
    if (st == VP_OK)
        st = vp_pipeline_connect(&trainer->pipeline, trainer->ranks,
                                 &trainer->schedule, err);
    if (st == VP_OK && !trainer->config.takes_over)
        st = vp_pipeline_open_readers(trainer->ranks, &trainer->schedule, err);
    return st;
}

enum vp_status vp_trainer_create(const struct vp_train_config *config,
                                 struct vp_trainer **out, struct vp_err *err)
{
    struct vp_trainer *trainer = aligned_alloc(64, sizeof(*trainer));
    enum vp_status st;

    if (!trainer)
        return vp_err_set(err, VP_ERR_NOMEM, "trainer: out of memory");
    *trainer = (struct vp_trainer){ .config = *config, .idle = VP_LIMIT_NEVER };
    /* Until it has taken over, it is freed without an order to other
     * processes. */
    trainer->pipeline.is_left = config->takes_over && config->world;
    st = set_up(trainer, err);
    /* Longer than the time limit of ranks, whose reports are more precise. */
    trainer->idle.length_ns = (config->timeout_ms + GRACE_MS) *
                              INT64_C(1000000);
    if (st != VP_OK) {
        vp_trainer_free(trainer);
        return st;
    }
    *out = trainer;
    return VP_OK;
}

/* Returns true if other processes may still send into memory of the trainer. */
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
    vp_older_versions_release(&trainer->older);
    if (trainer->pipeline.is_lead && trainer->pipeline.remote &&
        !trainer->pipeline.is_left)
        vp_remote_send_order(&trainer->pipeline,
                             &(struct vp_order){ .kind = VP_ORDER_END });
    if (trainer->n_threads > 0)
        vp_trainer_post(trainer, &(struct vp_job){ .kind = VP_JOB_EXIT });
    for (int r = 0; r < trainer->n_threads; r++)
        pthread_join(trainer->threads[r], NULL);
    if (trainer->pipeline.is_left && trainer->pipeline.links_number > 0)
        vp_world_free_links(trainer->config.world,
                            trainer->pipeline.links_number);
    vp_pipeline_release(&trainer->pipeline, trainer->ranks);
    vp_schedule_release(&trainer->schedule);
    for (int i = 0; i < 2; i++)
        vp_schedule_release(&trainer->pieces[i]);
    free(trainer->ranks);
    free(trainer->threads);
    free(trainer->pipeline.n_done);
    free(trainer->prices);
    free(trainer->ahead);
    free(trainer->stage_norms);
    free(trainer->stats);
    free(trainer->windows);
    free(trainer);
    return true;
}

const struct vp_stage_price *vp_trainer_prices(const struct vp_trainer *trainer)
{
    return trainer->prices;
}

int vp_trainer_n_stages(const struct vp_trainer *trainer)
{
    return trainer->schedule.n_stages;
}
