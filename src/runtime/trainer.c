/* The conductor: makes schedules, gives jobs to rank threads, and turns what
 * they did into reports. Rank threads do everything else. */
#include "runtime/trainer.h"

#include "base/clock.h"
#include "runtime/crew.h"

#include <math.h>
#include <stdlib.h>

/* A job that is posted before the last one ends keeps the pipe full. */
enum { MAX_JOBS = 4, PIECE = 256 };

struct vp_trainer {
    struct vp_train_config config;
    struct vp_sched_config sched;  /* as the user asked, for one group */
    const struct vp_generator *generator;
    struct vp_schedule schedule;   /* a group, or the plan of a stream */
    bool recompute[VP_MAX_STAGES];
    int version_begin[VP_MAX_STAGES];
    struct vp_crew crew;
    struct vp_rank *ranks;
    pthread_t *threads;
    int n_threads;
    struct vp_memory *memory;      /* per stage */
    double *stage_norms;           /* of the step being reported */

    struct vp_job jobs[MAX_JOBS];
    struct vp_counter n_posted;
    struct vp_counter *n_done;     /* per rank */
    uint32_t n_jobs;

    int64_t n_steps;               /* reported */
    int64_t n_minibatches;         /* trained on */
    int64_t report_ns, wait_ns;    /* clocks at the last report */
};

/* ---- Rank threads ------------------------------------------------------- */

struct thread_arg {
    struct vp_trainer *trainer;
    int index;
};

static void prepare_rank(struct vp_rank *rank)
{
    struct vp_err err = { "" };
    enum vp_status st = VP_OK;

    rank->crew->config->backend->attach(rank->backend);
    for (int i = 0; i < rank->n_stages && st == VP_OK; i++)
        st = vp_stage_allocate(&rank->stages[i].stage, &err);
    if (st != VP_OK)
        vp_world_abort(rank->crew->world, st, err.text);
}

static void *thread_main(void *arg)
{
    struct thread_arg *self = arg;
    struct vp_trainer *trainer = self->trainer;
    struct vp_rank *rank = &trainer->ranks[self->index];
    const int64_t forever = INT64_MAX;

    free(self);
    for (uint32_t k = 0;; k++) {
        const struct vp_job *job = &trainer->jobs[k % MAX_JOBS];

        vp_counter_wait(&trainer->n_posted, k + 1, forever, NULL);
        if (job->kind == VP_JOB_EXIT)
            return NULL;
        if (job->kind == VP_JOB_PREPARE)
            prepare_rank(rank);
        else if (vp_world_status(trainer->crew.world, NULL) == VP_OK)
            vp_rank_run(rank, job);
        vp_counter_add(&trainer->n_done[rank->index]);
    }
}

static void post_job(struct vp_trainer *trainer, const struct vp_job *job)
{
    trainer->jobs[trainer->n_jobs++ % MAX_JOBS] = *job;
    vp_counter_add(&trainer->n_posted);
}

/* Ranks end their jobs in time: each of their waits has a limit. */
static void wait_jobs(struct vp_trainer *trainer, uint32_t n)
{
    for (int r = 0; r < trainer->crew.n_ranks; r++)
        vp_counter_wait(&trainer->n_done[r], n, INT64_MAX, NULL);
}

static enum vp_status start_threads(struct vp_trainer *trainer)
{
    int n = trainer->crew.n_ranks;

    trainer->threads = calloc((size_t)n, sizeof(*trainer->threads));
    trainer->n_done = aligned_alloc(64, (size_t)n * sizeof(*trainer->n_done));
    if (!trainer->threads || !trainer->n_done)
        return VP_ERR_NOMEM;
    for (int r = 0; r < n; r++) {
        struct thread_arg *arg = malloc(sizeof(*arg));

        trainer->n_done[r] = (struct vp_counter){ .value = 0 };
        if (!arg)
            return VP_ERR_NOMEM;
        *arg = (struct thread_arg){ trainer, r };
        if (pthread_create(&trainer->threads[r], NULL, thread_main, arg)) {
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

    if (!config->partition && n_stages == 1)
        return VP_OK;
    if (!config->partition)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%d stages need a partition of the %d blocks",
                          n_stages, n_blocks);
    for (int s = 0; s < n_stages; s++) {
        if (config->partition[s] < 1)
            return vp_err_set(err, VP_ERR_INVALID,
                              "partition: stage %d has %d blocks; give every "
                              "stage at least 1",
                              s, config->partition[s]);
        sum += config->partition[s];
    }
    if (sum != n_blocks)
        return vp_err_set(err, VP_ERR_INVALID,
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
        return vp_err_set(err, VP_ERR_INVALID,
                          "tied embeddings in different stages need sync_mode "
                          "bsp; set tie_embeddings: false");
    return VP_OK;
}

static enum vp_status make_schedule(struct vp_trainer *trainer,
                                    struct vp_err *err)
{
    const struct vp_train_config *config = &trainer->config;
    int n_stages = config->n_stages > 0 ? config->n_stages : 1;
    int n_chunks = config->n_chunks > 0 ? config->n_chunks : 1;
    static const char fallback[] = "1f1b";

    trainer->generator =
        vp_generator_find(config->schedule ? config->schedule : fallback);
    if (!trainer->generator)
        return vp_err_set(err, VP_ERR_INVALID, "unknown schedule '%s'",
                          config->schedule);
    if (n_stages * n_chunks > VP_MAX_STAGES)
        return vp_err_set(err, VP_ERR_INVALID, "%d stages; at most %d",
                          n_stages * n_chunks, VP_MAX_STAGES);
    for (int s = 0; s < n_stages * n_chunks; s++)
        trainer->recompute[s] =
            config->recompute_ratio && config->recompute_ratio[s] > 0.0;
    trainer->sched = (struct vp_sched_config){
        .name = trainer->generator->name,
        .n_stages = n_stages,
        .n_chunks = n_chunks,
        .n_mb = trainer->generator->stream ? PIECE
                                           : config->accumulation_steps,
        .replicas = config->replicas,
        .depth = config->depth,
        .recompute = trainer->recompute,
        .early_recompute = config->early_recompute,
        .global_norm = !trainer->generator->stream,
        .version_begin = trainer->version_begin,
    };
    VP_TRY(vp_schedule_make(&trainer->sched, &trainer->schedule, err));
    VP_TRY(vp_schedule_validate(&trainer->schedule, err));
    VP_TRY(check_partition(config, trainer->schedule.n_stages, err));
    return check_ties(trainer, err);
}

static enum vp_status check_fit(const struct vp_trainer *trainer,
                                struct vp_err *err)
{
    size_t limit = trainer->config.memory_limit;
    const double mb = 1e-6;

    for (int s = 0; limit > 0 && s < trainer->schedule.n_stages; s++) {
        const struct vp_memory *m = &trainer->memory[s];

        if ((size_t)m->total <= limit)
            continue;
        return vp_err_set(
            err, VP_ERR_INVALID,
            "stage %d needs %.1f MB (weights %.1f, gradients %.1f, moments "
            "%.1f, activations %.1f, boundary %.1f, work %.1f), memory_limit "
            "is %.1f MB; use a smaller batch_size, recompute_ratio or more "
            "stages",
            s, (double)m->total * mb, (double)m->weights * mb,
            (double)m->gradients * mb, (double)m->moments * mb,
            (double)m->activations * mb, (double)m->boundary * mb,
            (double)m->work * mb, (double)limit * mb);
    }
    return VP_OK;
}

static enum vp_status plan(struct vp_trainer *trainer, struct vp_err *err)
{
    struct vp_crew *crew = &trainer->crew;
    size_t n_ranks, n_stages;

    VP_TRY(make_schedule(trainer, err));
    n_ranks = (size_t)trainer->schedule.n_ranks;
    n_stages = (size_t)trainer->schedule.n_stages;
    crew->config = &trainer->config;
    crew->n_ranks = (int)n_ranks;
    crew->n_stages = (int)n_stages;
    trainer->ranks = aligned_alloc(64, n_ranks * sizeof(*trainer->ranks));
    trainer->memory = calloc(n_stages, sizeof(*trainer->memory));
    trainer->stage_norms = calloc(n_stages, sizeof(*trainer->stage_norms));
    if (!trainer->ranks || !trainer->memory || !trainer->stage_norms)
        return vp_err_set(err, VP_ERR_NOMEM, "trainer: out of memory");
    for (size_t r = 0; r < n_ranks; r++)
        trainer->ranks[r] = (struct vp_rank){ .index = (int)r };
    VP_TRY(vp_crew_plan(crew, trainer->ranks, &trainer->schedule, err));
    for (size_t r = 0; r < n_ranks; r++)
        for (int i = 0; i < trainer->ranks[r].n_stages; i++) {
            const struct vp_rank_stage *rs = &trainer->ranks[r].stages[i];

            trainer->memory[rs->index] = rs->stage.memory;
        }
    return check_fit(trainer, err);
}

static enum vp_status prepare(struct vp_trainer *trainer, struct vp_err *err)
{
    struct vp_crew *crew = &trainer->crew;

    if (vp_world_create(crew->n_ranks, &crew->world) != VP_OK ||
        start_threads(trainer) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "starting %d rank threads failed",
                          crew->n_ranks);
    post_job(trainer, &(struct vp_job){ .kind = VP_JOB_PREPARE });
    wait_jobs(trainer, trainer->n_jobs);
    VP_TRY(vp_world_status(crew->world, err));
    return vp_crew_connect(crew, trainer->ranks, &trainer->schedule, err);
}

enum vp_status vp_trainer_create(const struct vp_train_config *config, bool dry,
                                 struct vp_trainer **out, struct vp_err *err)
{
    struct vp_trainer *trainer = aligned_alloc(64, sizeof(*trainer));
    enum vp_status st;

    if (!trainer)
        return vp_err_set(err, VP_ERR_NOMEM, "trainer: out of memory");
    *trainer = (struct vp_trainer){ .config = *config };
    st = plan(trainer, err);
    if (st == VP_OK && !dry)
        st = prepare(trainer, err);
    if (st != VP_OK) {
        vp_trainer_free(trainer);
        return st;
    }
    *out = trainer;
    return VP_OK;
}

void vp_trainer_free(struct vp_trainer *trainer)
{
    if (!trainer)
        return;
    if (trainer->n_threads > 0)
        post_job(trainer, &(struct vp_job){ .kind = VP_JOB_EXIT });
    for (int r = 0; r < trainer->n_threads; r++)
        pthread_join(trainer->threads[r], NULL);
    vp_crew_release(&trainer->crew, trainer->ranks);
    vp_schedule_release(&trainer->schedule);
    free(trainer->ranks);
    free(trainer->threads);
    free(trainer->n_done);
    free(trainer->memory);
    free(trainer->stage_norms);
    free(trainer);
}

const struct vp_memory *vp_trainer_memory(const struct vp_trainer *trainer)
{
    return trainer->memory;
}

int vp_trainer_n_stages(const struct vp_trainer *trainer)
{
    return trainer->schedule.n_stages;
}

/* ---- Waiting for the ranks ---------------------------------------------- */

/* Waits until a counter of a rank reaches its target; false when the job has
 * ended, or failed, without that. */
static bool wait_rank(struct vp_trainer *trainer, int rank,
                      struct vp_counter *counter, uint32_t target)
{
    const int64_t slice = 50 * 1000000;

    while (vp_counter_wait(counter, target, vp_clock_ns() + slice, NULL) !=
           VP_OK) {
        bool done = vp_counter_reached(&trainer->n_done[rank],
                                       trainer->n_jobs);

        if (vp_world_status(trainer->crew.world, NULL) != VP_OK)
            return false;
        if (done)
            return vp_counter_reached(counter, target);
    }
    return true;
}

/* ---- Reports ------------------------------------------------------------ */

static int64_t waited(const struct vp_trainer *trainer)
{
    int64_t ns = 0;

    for (int r = 0; r < trainer->crew.n_ranks; r++)
        ns += atomic_load_explicit(&trainer->ranks[r].wait_ns,
                                   memory_order_relaxed);
    return ns;
}

static void start_clock(struct vp_trainer *trainer)
{
    trainer->report_ns = vp_clock_ns();
    trainer->wait_ns = waited(trainer);
}

static void stop_clock(struct vp_trainer *trainer,
                       struct vp_step_report *report)
{
    int64_t now = vp_clock_ns(), wait = waited(trainer);
    int64_t wall = (now - trainer->report_ns) * trainer->crew.n_ranks;

    report->seconds = vp_clock_seconds(trainer->report_ns, now);
    report->bubble =
        wall > 0 ? (double)(wait - trainer->wait_ns) / (double)wall : 0.0;
    trainer->report_ns = now;
    trainer->wait_ns = wait;
}

/* Sums up minibatches [first, first + n). */
static void add_results(const struct vp_trainer *trainer, int64_t first, int n,
                        struct vp_step_report *report)
{
    for (int64_t m = first; m < first + n; m++) {
        const struct vp_result *result =
            &trainer->crew.results[m % VP_RESULT_RING];

        report->loss += (double)result->loss / n;
        report->n_samples += result->n_samples;
        report->n_tokens += result->n_tokens;
        report->flops += result->flops;
    }
}

static struct vp_step_report begin_report(struct vp_trainer *trainer,
                                          int n_minibatches)
{
    int64_t per_epoch = vp_data_info(trainer->config.data)->n_batches;
    struct vp_step_report report = {
        .step = ++trainer->n_steps,
        .n_steps = trainer->config.lr.total_steps,
        .lr = (double)vp_lr_at(&trainer->config.lr, trainer->n_steps),
        .memory = trainer->memory,
        .n_stages = trainer->crew.n_stages,
    };

    add_results(trainer, trainer->n_minibatches, n_minibatches, &report);
    trainer->n_minibatches += n_minibatches;
    report.minibatch = trainer->n_minibatches;
    report.epoch = (trainer->n_minibatches - 1) / per_epoch;
    stop_clock(trainer, &report);
    return report;
}

/* ---- Failures ----------------------------------------------------------- */

/* The slot in which a stage keeps a minibatch, or NULL. */
static const struct vp_slot *find_slot(const struct vp_stage *stage,
                                       uint64_t minibatch)
{
    for (int i = 0; i < stage->shape.n_slots; i++)
        if (stage->slots[i].packet &&
            vp_packet_header(stage->slots[i].packet)->minibatch == minibatch)
            return &stage->slots[i];
    return NULL;
}

/* The loss of a minibatch was not finite: its forward runs again, stage by
 * stage, until an operator gives a value that is not. */
static void blame(struct vp_trainer *trainer, struct vp_err *err)
{
    uint64_t minibatch = trainer->crew.bad_minibatch;

    for (int s = 0; s < trainer->crew.n_stages; s++)
        for (int r = 0; r < trainer->crew.n_ranks; r++)
            for (int i = 0; i < trainer->ranks[r].n_stages; i++) {
                struct vp_rank_stage *rs = &trainer->ranks[r].stages[i];
                const struct vp_slot *slot = find_slot(&rs->stage, minibatch);

                if (rs->index == s && slot &&
                    vp_stage_blame_forward(&rs->stage, s, slot, err) != VP_OK)
                    return;
            }
}

static enum vp_status end_jobs(struct vp_trainer *trainer, struct vp_err *err)
{
    enum vp_status st;

    wait_jobs(trainer, trainer->n_jobs);
    st = vp_world_status(trainer->crew.world, err);
    if (st == VP_ERR_NONFINITE && trainer->crew.has_bad_loss)
        blame(trainer, err);
    return st;
}

/* Messages of a finished job count from now on. */
static void advance_edges(struct vp_trainer *trainer, int64_t n_mb,
                          int64_t n_repeats, bool gradients)
{
    for (int s = 0; s < trainer->crew.n_stages; s++) {
        struct vp_stage_links *links = &trainer->crew.links[s];

        for (int r = 0; r < links->n_replicas; r++) {
            uint64_t n = (uint64_t)((n_mb - r + links->n_replicas - 1) /
                                    links->n_replicas * n_repeats);

            links->act[r].base += n;
            links->grad[r].base += gradients ? n : 0;
        }
    }
}

/* ---- Synchronous training ----------------------------------------------- */

static bool wait_group(struct vp_trainer *trainer, int64_t n)
{
    for (int r = 0; r < trainer->crew.n_ranks; r++)
        if (!wait_rank(trainer, r, &trainer->ranks[r].n_updates,
                       (uint32_t)(n * trainer->ranks[r].n_stages)))
            return false;
    return true;
}

static enum vp_status run_groups(struct vp_trainer *trainer, int64_t n,
                                 vp_step_fn fn, void *ctx, struct vp_err *err)
{
    struct vp_crew *crew = &trainer->crew;
    int n_mb = trainer->schedule.n_mb;

    atomic_store(&crew->stop_asked, false);
    start_clock(trainer);
    post_job(trainer, &(struct vp_job){ .kind = VP_JOB_TRAIN,
                                        .schedule = &trainer->schedule,
                                        .sync = true,
                                        .n_repeats = n,
                                        .first_mb = trainer->n_minibatches });
    while (n-- > 0 && wait_group(trainer, trainer->n_steps + 1)) {
        struct vp_step_report report = begin_report(trainer, n_mb);

        report.grad_norm =
            crew->global_norms[(report.step - 1) % VP_RESULT_RING];
        atomic_store(&crew->n_reported, trainer->n_minibatches);
        if (fn && !fn(ctx, &report))
            atomic_store(&crew->stop_asked, true);
    }
    VP_TRY(end_jobs(trainer, err));
    advance_edges(trainer, n_mb, trainer->ranks[0].repeat, true);
    return VP_OK;
}

/* ---- Asynchronous training ---------------------------------------------- */

/* A stretch of minibatches that starts and ends with an empty pipe, made of
 * pieces: the next is posted before the last one ends. */
struct stream {
    int begin, n_mb;       /* minibatches of the run */
    int n_posted;          /* minibatches */
    struct vp_schedule pieces[2];
    int n_pieces;
};

static enum vp_status post_piece(struct vp_trainer *trainer,
                                 struct stream *stream, struct vp_err *err)
{
    struct vp_sched_config sched = trainer->sched;
    int left = stream->n_mb - stream->n_posted;
    struct vp_schedule *piece = &stream->pieces[stream->n_pieces % 2];

    if (left == 0)
        return VP_OK;
    /* The piece before the last one has ended; its list can go. */
    if (stream->n_pieces >= 2)
        wait_jobs(trainer, trainer->n_jobs - 1);
    vp_schedule_release(piece);
    sched.segment_begin = stream->begin;
    sched.first_mb = stream->begin + stream->n_posted;
    sched.n_mb = left < PIECE ? left : PIECE;
    sched.keep_going = sched.n_mb < left;
    VP_TRY(vp_schedule_make(&sched, piece, err));
    stream->n_posted += sched.n_mb;
    stream->n_pieces++;
    post_job(trainer, &(struct vp_job){ .kind = VP_JOB_TRAIN,
                                        .schedule = piece,
                                        .n_repeats = 1 });
    return VP_OK;
}

/* Waits for everything a report on minibatch m tells. */
static bool wait_minibatch(struct vp_trainer *trainer,
                           const struct stream *stream, int m)
{
    const struct vp_schedule *schedule = &trainer->schedule;
    struct vp_crew *crew = &trainer->crew;

    for (int s = 0; s < crew->n_stages; s++) {
        const struct vp_schedule_stage *plan = &schedule->stages[s];
        int n_rounds = stream->n_mb / plan->update_every;
        int round = (m - stream->begin) / plan->update_every;
        int first = plan->first_rank;
        int n_updates = round + 1 < n_rounds ? round + 1 : n_rounds;

        if (!wait_rank(trainer, first, &trainer->ranks[first].n_updates,
                       (uint32_t)(trainer->version_begin[s] + n_updates)))
            return false;
        if (n_updates > 0)
            trainer->stage_norms[s] =
                crew->norms[(size_t)((trainer->version_begin[s] + n_updates -
                                      1) %
                                     VP_RESULT_RING) *
                                (size_t)crew->n_stages +
                            (size_t)s];
    }
    return vp_world_status(crew->world, NULL) == VP_OK;
}

static void report_minibatch(struct vp_trainer *trainer, vp_step_fn fn,
                             void *ctx, bool *stop)
{
    struct vp_step_report report = begin_report(trainer, 1);
    double square = 0.0;

    for (int s = 0; s < trainer->crew.n_stages; s++)
        square += trainer->stage_norms[s] * trainer->stage_norms[s];
    report.grad_norm = sqrt(square);
    report.stage_norms = trainer->stage_norms;
    atomic_store(&trainer->crew.n_reported, trainer->n_minibatches);
    if (fn && !fn(ctx, &report))
        *stop = true;
}

static enum vp_status run_stream(struct vp_trainer *trainer, int64_t n,
                                 vp_step_fn fn, void *ctx, struct vp_err *err)
{
    struct stream stream = { .begin = (int)trainer->n_minibatches,
                             .n_mb = (int)n };
    enum vp_status st = VP_OK;
    bool stop = false;

    for (int s = 0; s < trainer->crew.n_stages; s++) {
        int rank = trainer->schedule.stages[s].first_rank;

        trainer->version_begin[s] =
            (int)trainer->ranks[rank].stages[0].stage.newest;
    }
    start_clock(trainer);
    for (int m = stream.begin; m < stream.begin + stream.n_mb; m++) {
        if (stream.n_posted <= m - stream.begin + PIECE / 2)
            st = post_piece(trainer, &stream, err);
        if (st != VP_OK || !wait_minibatch(trainer, &stream, m))
            break;
        report_minibatch(trainer, fn, ctx, &stop);
    }
    if (st == VP_OK)
        st = end_jobs(trainer, err);
    for (int i = 0; i < 2; i++)
        vp_schedule_release(&stream.pieces[i]);
    VP_TRY(st);
    advance_edges(trainer, stream.n_mb, 1, true);
    return VP_OK;
}

/* ---- Running ------------------------------------------------------------ */

enum vp_status vp_trainer_run(struct vp_trainer *trainer, int64_t n,
                              vp_step_fn fn, void *ctx, struct vp_err *err)
{
    if (trainer->generator->stream)
        return run_stream(trainer, n, fn, ctx, err);
    return run_groups(trainer, n, fn, ctx, err);
}

static bool keep_report(void *ctx, const struct vp_step_report *report)
{
    *(struct vp_step_report *)ctx = *report;
    return true;
}

enum vp_status vp_trainer_step(struct vp_trainer *trainer,
                               struct vp_step_report *report_out,
                               struct vp_err *err)
{
    return vp_trainer_run(trainer, 1, keep_report, report_out, err);
}

static enum vp_status eval_some(struct vp_trainer *trainer, int64_t first,
                                int n, double *sum, struct vp_err *err)
{
    struct vp_sched_config sched = trainer->sched;
    struct vp_schedule schedule;
    enum vp_status st;

    sched.name = "eval";
    sched.n_mb = n;
    sched.recompute = NULL;
    sched.global_norm = false;
    VP_TRY(vp_schedule_make(&sched, &schedule, err));
    post_job(trainer, &(struct vp_job){ .kind = VP_JOB_EVAL,
                                        .schedule = &schedule,
                                        .sync = true,
                                        .n_repeats = 1,
                                        .first_mb = first });
    st = end_jobs(trainer, err);
    vp_schedule_release(&schedule);
    VP_TRY(st);
    advance_edges(trainer, n, 1, false);
    for (int64_t m = first; m < first + n; m++)
        *sum += (double)trainer->crew.results[m % VP_RESULT_RING].loss;
    return VP_OK;
}

enum vp_status vp_trainer_eval(struct vp_trainer *trainer, int64_t n_batches,
                               double *loss_out, struct vp_err *err)
{
    double sum = 0.0;

    for (int64_t m = 0; m < n_batches; m += PIECE) {
        int64_t left = n_batches - m;

        VP_TRY(eval_some(trainer, m, (int)(left < PIECE ? left : PIECE), &sum,
                         err));
    }
    *loss_out = sum / (double)n_batches;
    return VP_OK;
}

const float *vp_trainer_weights(const struct vp_trainer *trainer, vp_par par,
                                int replica)
{
    for (int r = 0; r < trainer->crew.n_ranks; r++)
        for (int i = 0; i < trainer->ranks[r].n_stages; i++) {
            const struct vp_rank_stage *rs = &trainer->ranks[r].stages[i];
            const struct vp_layout *layout = &rs->stage.buckets[0].train.layout;

            for (int e = 0; rs->replica == replica && e < layout->n_entries;
                 e++)
                if (layout->entries[e].par == par)
                    return vp_stage_weights(&rs->stage, rs->stage.newest) +
                           layout->entries[e].offset / (int64_t)sizeof(float);
        }
    return NULL;
}
