/* Runs a trainer. The calling thread posts jobs to the rank threads, waits for
 * their counters and reports each step to its caller. Rank threads do not wait
 * for reports, except if the ring of results is full: see wait_for_room() in
 * rank.c. */
#include "runtime/trainer/trainer.h"

#include "base/clock.h"
#include "graph/slice.h"
#include "runtime/rank/save.h"
#include "runtime/trainer/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Waiting for the ranks ---------------------------------------------- */

/* Waits until a counter of a rank reaches its target. Returns false if the job
 * ended or failed before that. */
static bool wait_rank(struct vp_trainer *trainer, int rank,
                      struct vp_counter *counter, uint32_t target)
{
    vp_limit_restart(&trainer->idle);
    while (!vp_trainer_nap(trainer, rank, counter, target)) {
        bool done = vp_counter_reached(&trainer->pipeline.n_done[rank],
                                       trainer->n_jobs);

        if (!vp_trainer_watch(trainer))
            return false;
        if (done)
            return vp_counter_reached(counter, target);
    }
    return true;
}

/* ---- Reports ------------------------------------------------------------ */

static const struct vp_result *result_of(const struct vp_trainer *trainer,
                                         int64_t minibatch)
{
    return &trainer->pipeline.results[minibatch % trainer->pipeline.n_results];
}

/* Returns the mean loss over those of minibatches [first, first + n) that have
 * labels; NAN if none has. */
static double mean_loss(const struct vp_trainer *trainer, int64_t first, int n)
{
    int n_labelled = 0;
    double sum = 0.0;

    for (int64_t m = first; m < first + n; m++)
        n_labelled += result_of(trainer, m)->loss[VP_LOSS_WEIGHT] > 0.0f;
    for (int64_t m = first; m < first + n; m++) {
        const float *loss = result_of(trainer, m)->loss;

        if (loss[VP_LOSS_WEIGHT] > 0.0f)
            sum += (double)loss[VP_LOSS_MEAN] / n_labelled;
    }
    return n_labelled > 0 ? sum : (double)NAN;
}

/* Adds up minibatches [first, first + n). */
static void add_results(const struct vp_trainer *trainer, int64_t first, int n,
                        struct vp_step_report *report)
{
    report->loss = mean_loss(trainer, first, n);
    for (int64_t m = first; m < first + n; m++) {
        const struct vp_result *result = result_of(trainer, m);

        report->n_samples += result->n_samples;
        report->n_tokens += result->n_tokens;
    }
}

/* Reads the norm and loss scale that stage `s` stored at update number `n`. */
static void read_note(struct vp_trainer *trainer, int s, int64_t n)
{
    const struct vp_pipeline *pipeline = &trainer->pipeline;
    int64_t note = (n - 1) % pipeline->n_notes * pipeline->n_stages + s;

    trainer->stage_norms[s] = pipeline->norms[note];
    trainer->scales[s] = pipeline->scales[note];
}

static struct vp_step_report begin_report(struct vp_trainer *trainer,
                                          const struct vp_schedule *schedule,
                                          int n_minibatches)
{
    int64_t per_epoch = vp_data_info(trainer->config.data)->n_batches;
    struct vp_step_report report = {
        .step = ++trainer->n_steps,
        .n_steps = trainer->config.lr.total_steps,
        .lr = (double)vp_lr_at(&trainer->config.lr, trainer->n_steps),
        .loss_scale = trainer->scales[0].value,
        .prices = trainer->prices,
        .n_stages = trainer->pipeline.n_stages,
    };

    add_results(trainer, trainer->n_minibatches, n_minibatches, &report);
    trainer->n_minibatches += n_minibatches;
    report.minibatch = trainer->n_minibatches;
    report.epoch = (trainer->n_minibatches - 1) / per_epoch;
    report.saved = vp_save_is_due_after(
        &trainer->config, schedule, !trainer->generator->stream, report.step);
    return report;
}

/* ---- Failures ----------------------------------------------------------- */

/* Returns the slot in which a stage keeps a minibatch, or NULL. */
static const struct vp_slot *find_slot(const struct vp_stage *stage,
                                       uint64_t minibatch)
{
    for (int i = 0; i < stage->plan.shape.n_slots; i++)
        if (stage->slots[i].message &&
            stage->slots[i].message->header.minibatch == minibatch)
            return &stage->slots[i];
    return NULL;
}

/* Names the operator after a loss that was not finite: runs the forward of the
 * minibatch again, stage by stage, until an operator gives such a value. */
static void blame(struct vp_trainer *trainer, struct vp_err *err)
{
    uint64_t minibatch = trainer->pipeline.bad_minibatch;

    if (trainer->pipeline.n_members > 1)
        return; /* a member cannot run without the others */
    for (int s = 0; s < trainer->pipeline.n_stages; s++)
        for (int r = 0; r < trainer->pipeline.n_ranks; r++)
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

    vp_trainer_wait(trainer, trainer->n_jobs);
    st = vp_world_status(trainer->pipeline.world, err);
    if (st == VP_ERR_NONFINITE && trainer->pipeline.has_bad_loss &&
        !trainer->lost && !trainer->pipeline.remote)
        blame(trainer, err);
    return st;
}

/* ---- Traces ------------------------------------------------------------- */

/* Sends the trace of this process's rank to the lead, in the time of its
 * clock. */
static enum vp_status say_trace(struct vp_trainer *trainer, struct vp_err *err)
{
    struct vp_rank *rank = &trainer->ranks[trainer->pipeline.me];
    const struct vp_recorder *recorder = rank->recorder;
    uint64_t n = recorder->n <= recorder->mask ? recorder->n
                                               : recorder->mask + 1;
    struct vp_note note = { .kind = VP_NOTE_TRACE };

    for (uint64_t left = n, k; !trainer->pipeline.is_lead; left -= k) {
        k = left < VP_NOTE_EVENTS ? left : VP_NOTE_EVENTS;
        for (uint64_t i = 0; i < k; i++) {
            struct vp_trace_event *event = &note.of.trace.events[i];

            *event =
                recorder->events[(recorder->n - left + i) & recorder->mask];
            event->start_ns += trainer->pipeline.behind_ns;
            event->end_ns += trainer->pipeline.behind_ns;
        }
        note.of.trace.n = (int)k;
        note.number = (int64_t)(left - k);
        if (vp_remote_send_note(rank, &note) != VP_OK)
            return vp_err_set(err, VP_ERR_TIMEOUT,
                              "sending the trace to rank 0 timed out");
        if (left == k)
            break;
    }
    return VP_OK;
}

/* ---- Orders: carried out by all processes ------------------------------- */

/* Later jobs count the messages of their links from here. */
static void advance_edges(struct vp_trainer *trainer,
                          const struct vp_order *order)
{
    for (int s = 0; s < trainer->pipeline.n_stages; s++) {
        struct vp_stage_links *links = &trainer->pipeline.links[s];
        int n_members = trainer->pipeline.n_members;

        for (int i = 0; i < links->n_replicas * n_members; i++) {
            int r = i / n_members;
            uint64_t n = (uint64_t)((order->n_mb - r + links->n_replicas - 1) /
                                    links->n_replicas * order->n_repeats);

            links->act[i].base += n;
            links->grad[i].base += order->gradients ? n : 0;
        }
    }
}

/* Returns the schedule of a new piece. There are two: the one before the last
 * has been run. */
static struct vp_schedule *next_piece(struct vp_trainer *trainer)
{
    struct vp_schedule *piece = &trainer->pieces[trainer->n_pieces % 2];

    if (trainer->n_pieces++ >= 2)
        vp_trainer_wait(trainer, trainer->n_jobs - 1);
    vp_schedule_release(piece);
    return piece;
}

/* Makes the schedule of the next piece of a stream and posts it. It is not
 * validated: the lists of a stream repeat, and the first minibatches were
 * proved when the trainer was created; see vp_schedule_proof_mb(). */
static enum vp_status begin_piece(struct vp_trainer *trainer,
                                  const struct vp_order *order,
                                  struct vp_err *err)
{
    struct vp_sched_config sched = trainer->sched;
    struct vp_schedule *piece = next_piece(trainer);

    sched.segment_begin = order->segment_begin;
    sched.segment_end = order->segment_end;
    sched.first_mb = (int)order->first_mb;
    sched.n_mb = order->n_mb;
    sched.keep_going = order->keep_going;
    sched.version_begin = order->version_begin;
    sched.version_past = order->version_past;
    VP_TRY(vp_schedule_make(&sched, piece, err));
    vp_trainer_post(trainer, &(struct vp_job){ .kind = VP_JOB_TRAIN,
                                               .schedule = piece,
                                               .n_repeats = 1 });
    return VP_OK;
}

static enum vp_status begin_eval(struct vp_trainer *trainer,
                                 const struct vp_order *order,
                                 struct vp_err *err)
{
    struct vp_sched_config sched = trainer->sched;
    struct vp_schedule *piece = next_piece(trainer);

    sched.name = "eval";
    sched.v_shape |= trainer->generator->v_shape;
    sched.n_mb = order->n_mb;
    sched.recompute = NULL;
    sched.global_norm = false;
    VP_TRY(vp_schedule_make(&sched, piece, err));
    vp_trainer_post(trainer, &(struct vp_job){ .kind = VP_JOB_EVAL,
                                               .schedule = piece,
                                               .sync = true,
                                               .n_repeats = 1,
                                               .first_mb = order->first_mb });
    return VP_OK;
}

static enum vp_status obey(struct vp_trainer *trainer,
                           const struct vp_order *order, struct vp_err *err)
{
    switch (order->kind) {
    case VP_ORDER_ROUNDS:
        vp_trainer_post(trainer,
                        &(struct vp_job){ .kind = VP_JOB_TRAIN,
                                          .schedule = &trainer->schedule,
                                          .sync = true,
                                          .n_repeats = order->n_repeats,
                                          .first_mb = order->first_mb });
        return VP_OK;
    case VP_ORDER_PIECE:
        return begin_piece(trainer, order, err);
    case VP_ORDER_EVAL:
        return begin_eval(trainer, order, err);
    case VP_ORDER_ADVANCE:
        vp_trainer_wait(trainer, trainer->n_jobs);
        advance_edges(trainer, order);
        return vp_world_status(trainer->pipeline.world, err);
    case VP_ORDER_SAVE:
        return vp_trainer_save_here(trainer, trainer->config.saver, order->step,
                                    err);
    case VP_ORDER_TRACE:
        return say_trace(trainer, err);
    default:
        return VP_OK;
    }
}

/* Gives an order of the lead to all processes and runs it here. */
static enum vp_status order(struct vp_trainer *trainer,
                            const struct vp_order *what, struct vp_err *err)
{
    enum vp_status st = vp_remote_send_order(&trainer->pipeline, what);

    if (st == VP_ERR_ABORTED)
        return vp_world_status(trainer->pipeline.world, err);
    if (st != VP_OK)
        return vp_err_set(err, st,
                          "another process does not respond; see its log");
    return obey(trainer, what, err);
}

bool vp_trainer_is_lead(const struct vp_trainer *trainer)
{
    return trainer->pipeline.is_lead;
}

bool vp_trainer_stopped(const struct vp_trainer *trainer)
{
    return atomic_load(&trainer->pipeline.stopped);
}

/* Waits for the next order. During an evaluation none comes before the rank of
 * this process has finished, and the next one soon after. */
static void pause_following(struct vp_trainer *trainer, int64_t order_ns)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;
    struct vp_counter *done = &pipeline->n_done[pipeline->me];
    bool soon = trainer->config.plan.forward_only &&
                vp_clock_ns() - order_ns < SOON_MS * INT64_C(1000000);
    const struct timespec pause = { .tv_nsec = soon ? HEAR_SOON_US * 1000
                                                    : HEAR_MS * 1000000 };

    if (soon && !vp_counter_reached(done, trainer->n_jobs))
        vp_counter_wait(done, trainer->n_jobs, vp_limit_ms(HEAR_MS), NULL);
    else
        nanosleep(&pause, NULL);
}

enum vp_status vp_trainer_follow(struct vp_trainer *trainer,
                                 const volatile sig_atomic_t *stop,
                                 enum vp_followed *out, struct vp_err *err)
{
    int64_t order_ns = vp_clock_ns();
    struct vp_pipeline *pipeline = &trainer->pipeline;
    struct vp_order next = { .kind = VP_ORDER_ADVANCE };
    enum vp_status st = VP_OK;

    while (st == VP_OK && next.kind != VP_ORDER_END &&
           next.kind != VP_ORDER_PREPARE && next.kind != VP_ORDER_MOVE) {
        if (stop && *stop)
            atomic_store(&pipeline->stop_asked, true);
        vp_world_poll(pipeline->world);
        if (vp_remote_take_order(pipeline, &next)) {
            st = obey(trainer, &next, err);
            order_ns = vp_clock_ns();
        } else if (vp_world_status(pipeline->world, NULL) != VP_OK) {
            st = end_jobs(trainer, err);
        } else {
            pause_following(trainer, order_ns);
        }
    }
    *out = next.kind == VP_ORDER_PREPARE ? VP_FOLLOWED_PREPARE
           : next.kind == VP_ORDER_MOVE  ? VP_FOLLOWED_MOVE
                                         : VP_FOLLOWED_END;
    return st;
}

/* ---- Synchronous training ----------------------------------------------- */

/* Waits for all results of a report on update `n`; for the last one also for
 * the end of the run. */
static bool wait_round(struct vp_trainer *trainer, int64_t n, bool last)
{
    for (int r = 0; r < trainer->pipeline.n_ranks; r++)
        if (!wait_rank(trainer, r, &trainer->ranks[r].n_updates,
                       (uint32_t)(n * trainer->ranks[r].n_stages)))
            return false;
    if (!last)
        return true;
    vp_trainer_wait(trainer, trainer->n_jobs);
    return vp_world_status(trainer->pipeline.world, NULL) == VP_OK;
}

static enum vp_status run_rounds(struct vp_trainer *trainer, int64_t n,
                                 vp_step_fn fn, void *ctx, struct vp_err *err)
{
    struct vp_pipeline *pipeline = &trainer->pipeline;
    int64_t begin = trainer->n_steps, end = begin + n;
    int n_mb = trainer->schedule.n_mb;

    atomic_store(&pipeline->stop_asked, atomic_load(&pipeline->stopped));
    vp_measure_begin(trainer);
    VP_TRY(order(trainer,
                 &(struct vp_order){ .kind = VP_ORDER_ROUNDS,
                                     .n_repeats = n,
                                     .first_mb = trainer->n_minibatches },
                 err));
    while (trainer->n_steps < end && wait_round(trainer, trainer->n_steps + 1,
                                                trainer->n_steps + 1 == end)) {
        struct vp_step_report report = begin_report(trainer, &trainer->schedule,
                                                    n_mb);

        vp_measure_step(trainer, report.step - begin, n, &report);
        report.grad_norm =
            pipeline->global_norms[(report.step - 1) % pipeline->n_notes];
        for (int s = 0; s < pipeline->n_stages; s++)
            read_note(trainer, s, report.step);
        report.n_skipped = trainer->scales[0].n_skipped;
        atomic_store(&pipeline->n_reported, trainer->n_minibatches);
        if (fn && !fn(ctx, &report))
            atomic_store(&pipeline->stop_asked, true);
    }
    VP_TRY(end_jobs(trainer, err));
    return order(trainer,
                 &(struct vp_order){ .kind = VP_ORDER_ADVANCE,
                                     .n_mb = n_mb,
                                     .n_repeats = trainer->ranks[0].repeat,
                                     .gradients = true },
                 err);
}

/* ---- Asynchronous training ---------------------------------------------- */

/* Minibatches that start and end with an empty pipeline. They are posted in
 * pieces, the next one before the last one ends. */
struct stream {
    int begin, n_mb; /* minibatch numbers within the run */
    int n_posted;    /* number of posted minibatches */
    int64_t start_ns;
};

/* Returns the length of the next piece; two pieces keep all ranks busy. */
static int piece_size(const struct vp_trainer *trainer,
                      const struct stream *stream)
{
    int least = (int)vp_pipeline_ahead(&trainer->schedule) + 1;
    double seconds = vp_clock_seconds(stream->start_ns, vp_clock_ns());
    double n = (double)(trainer->n_minibatches - stream->begin) /
               (seconds > 0.0 ? seconds : 1.0) * PIECE_SECONDS;

    if (n < least)
        return least;
    return n < PIECE ? (int)n : PIECE > least ? PIECE : least;
}

static enum vp_status post_piece(struct vp_trainer *trainer,
                                 struct stream *stream, struct vp_err *err)
{
    int left = stream->n_mb - stream->n_posted;
    int n = piece_size(trainer, stream);
    struct vp_order piece = { .kind = VP_ORDER_PIECE,
                              .segment_begin = stream->begin,
                              .segment_end = stream->begin + stream->n_mb,
                              .first_mb = stream->begin + stream->n_posted,
                              .n_mb = left < n ? left : n,
                              .keep_going = n < left };

    if (left == 0)
        return VP_OK;
    memcpy(piece.version_begin, trainer->version_begin,
           sizeof(piece.version_begin));
    memcpy(piece.version_past, trainer->version_past,
           sizeof(piece.version_past));
    VP_TRY(order(trainer, &piece, err));
    stream->n_posted += piece.n_mb;
    return VP_OK;
}

/* Waits for the loss of a minibatch that belongs to no complete round: no
 * update waits for it. */
static bool wait_result(struct vp_trainer *trainer, int m)
{
    const struct vp_result *result = result_of(trainer, m);
    const struct timespec pause = { .tv_nsec = 50000 };

    while (atomic_load(&result->n_minibatches) != m + 1) {
        if (!vp_trainer_watch(trainer))
            return false;
        vp_remote_handle_notes(&trainer->pipeline, trainer->ranks);
        nanosleep(&pause, NULL);
    }
    return vp_world_status(trainer->pipeline.world, NULL) == VP_OK;
}

/* Waits for all results of a report on minibatch m. */
static bool wait_minibatch(struct vp_trainer *trainer,
                           const struct stream *stream, int m)
{
    const struct vp_schedule *schedule = &trainer->schedule;
    struct vp_pipeline *pipeline = &trainer->pipeline;

    for (int s = 0; s < pipeline->n_stages; s++) {
        const struct vp_schedule_stage *plan = &schedule->stages[s];
        int n_rounds = stream->n_mb / plan->update_every;
        int round = (m - stream->begin) / plan->update_every;
        int n_updates = round + 1 < n_rounds ? round + 1 : n_rounds;
        int n = pipeline->n_members;

        for (int r = plan->first_rank * n;
             r < (plan->first_rank + plan->n_replicas) * n; r++)
            if (!wait_rank(trainer, r, &trainer->ranks[r].n_updates,
                           (uint32_t)(trainer->version_begin[s] + n_updates)))
                return false;
        if (n_updates > 0)
            read_note(trainer, s, trainer->version_begin[s] + n_updates);
    }
    if (vp_measure_needs_end(trainer, m - stream->begin + 1, stream->n_mb))
        vp_trainer_wait(trainer, trainer->n_jobs);
    return wait_result(trainer, m);
}

static bool report_minibatch(struct vp_trainer *trainer,
                             const struct stream *stream, vp_step_fn fn,
                             void *ctx)
{
    int64_t step = trainer->n_minibatches - stream->begin + 1;
    struct vp_step_report report = begin_report(
        trainer, &trainer->pieces[(trainer->n_pieces - 1) % 2], 1);
    double square = 0.0;

    vp_measure_step(trainer, step, stream->n_mb, &report);
    for (int s = 0; s < trainer->pipeline.n_stages; s++) {
        square += trainer->stage_norms[s] * trainer->stage_norms[s];
        report.n_skipped += trainer->scales[s].n_skipped;
    }
    report.grad_norm = sqrt(square);
    report.stage_norms = trainer->stage_norms;
    atomic_store(&trainer->pipeline.n_reported, trainer->n_minibatches);
    return !fn || fn(ctx, &report);
}

/* After a stop request: ends the stream after the posted minibatches and those
 * that complete a round of every stage. The last piece empties the pipeline. */
static void shorten(const struct vp_trainer *trainer, struct stream *stream)
{
    int end = stream->n_posted + 1;
    bool full = false;

    if (stream->n_posted == stream->n_mb)
        return;
    for (; end < stream->n_mb && !full; end += !full) {
        full = true;
        for (int s = 0; s < trainer->pipeline.n_stages; s++)
            full &= end % trainer->schedule.stages[s].update_every == 0;
    }
    stream->n_mb = end;
}

/* A stream continues where the last one ended. */
static void begin_stream(struct vp_trainer *trainer)
{
    struct vp_progress progress = vp_trainer_progress(trainer);

    trainer->stream_begin = trainer->n_minibatches;
    for (int s = 0; s < trainer->pipeline.n_stages; s++) {
        trainer->version_begin[s] = (int)progress.updates[s];
        trainer->version_past[s] = progress.past[s];
    }
}

static enum vp_status run_stream(struct vp_trainer *trainer, int64_t n,
                                 vp_step_fn fn, void *ctx, struct vp_err *err)
{
    struct stream stream = { .begin = (int)trainer->n_minibatches,
                             .n_mb = (int)n,
                             .start_ns = vp_clock_ns() };
    int ahead = (int)vp_pipeline_ahead(&trainer->schedule);
    enum vp_status st = VP_OK;

    begin_stream(trainer);
    vp_measure_begin(trainer);
    for (int m = stream.begin; m < stream.begin + stream.n_mb; m++) {
        if (stream.n_posted <= m - stream.begin + ahead)
            st = post_piece(trainer, &stream, err);
        if (st != VP_OK || !wait_minibatch(trainer, &stream, m))
            break;
        if (!report_minibatch(trainer, &stream, fn, ctx) ||
            vp_trainer_stopped(trainer))
            shorten(trainer, &stream);
    }
    VP_TRY(st);
    VP_TRY(end_jobs(trainer, err));
    return order(trainer,
                 &(struct vp_order){ .kind = VP_ORDER_ADVANCE,
                                     .n_mb = stream.n_mb,
                                     .n_repeats = 1,
                                     .gradients = true },
                 err);
}

/* ---- Running ------------------------------------------------------------ */

enum vp_status vp_trainer_run(struct vp_trainer *trainer, int64_t n,
                              vp_step_fn fn, void *ctx, struct vp_err *err)
{
    if (trainer->generator->stream)
        return run_stream(trainer, n, fn, ctx, err);
    return run_rounds(trainer, n, fn, ctx, err);
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
                                int n, struct vp_score *score,
                                struct vp_err *err)
{
    VP_TRY(order(trainer,
                 &(struct vp_order){
                     .kind = VP_ORDER_EVAL, .n_mb = n, .first_mb = first },
                 err));
    VP_TRY(end_jobs(trainer, err));
    VP_TRY(order(trainer,
                 &(struct vp_order){
                     .kind = VP_ORDER_ADVANCE, .n_mb = n, .n_repeats = 1 },
                 err));
    for (int64_t m = first; m < first + n; m++) {
        const float *loss = result_of(trainer, m)->loss;

        score->n_labels += loss[VP_LOSS_WEIGHT];
        score->loss += (double)loss[VP_LOSS_MEAN] *
                       (double)loss[VP_LOSS_WEIGHT];
        score->top1 += loss[VP_LOSS_TOP1];
        score->top5 += loss[VP_LOSS_TOP5];
    }
    return VP_OK;
}

enum vp_status vp_trainer_eval_part(struct vp_trainer *trainer, int64_t first,
                                    int64_t n, struct vp_score *score,
                                    struct vp_err *err)
{
    for (int64_t m = 0; m < n; m += PIECE) {
        int64_t left = n - m;

        VP_TRY(eval_some(trainer, first + m, (int)(left < PIECE ? left : PIECE),
                         score, err));
    }
    return VP_OK;
}

enum vp_status vp_trainer_eval(struct vp_trainer *trainer, int64_t n_batches,
                               double *loss_out, struct vp_err *err)
{
    struct vp_score score = { .loss = 0.0 };

    VP_TRY(vp_trainer_eval_part(trainer, 0, n_batches, &score, err));
    *loss_out = vp_score_loss(&score);
    return VP_OK;
}

/* ---- Traces and schedules ----------------------------------------------- */

const char *vp_trainer_schedule_text(const struct vp_trainer *trainer)
{
    return trainer->config.plan.schedule_text;
}

const struct vp_schedule *vp_trainer_schedule(const struct vp_trainer *trainer)
{
    return &trainer->schedule;
}

/* Results of recomputation count as allocated all the time. A trace has slots
 * of equal size, so the mean is used. */
static struct vp_trace_stage trace_stage(const struct vp_stage *stage)
{
    const struct vp_stage_shape *shape = &stage->plan.shape;
    const int64_t *bytes = stage->plan.sizes.slot_bytes;
    int64_t mean = (bytes[VP_SLOT_REST] *
                        (shape->n_slots - shape->n_first_slots) +
                    bytes[VP_SLOT_FIRST] * shape->n_first_slots) /
                   shape->n_slots;

    return (struct vp_trace_stage){
        .base_bytes = stage->plan.memory.total - mean * shape->n_slots,
        .slot_bytes = mean,
        .host_bytes = stage->plan.sizes.n_bytes[VP_SPACE_SWAPPED] *
                      shape->n_slots,
    };
}

/* Waits for the traces of all ranks. */
static enum vp_status gather_traces(struct vp_trainer *trainer,
                                    struct vp_err *err)
{
    const struct timespec pause = { .tv_nsec = HEAR_MS * 1000000 };

    vp_limit_restart(&trainer->idle);
    for (int r = 0; r < trainer->pipeline.n_ranks; r++)
        if (!trainer->ranks[r].is_here) {
            /* All events will be sent again. */
            trainer->ranks[r].recorder->n = 0;
            atomic_store(&trainer->ranks[r].is_heard, false);
        }
    VP_TRY(order(trainer, &(struct vp_order){ .kind = VP_ORDER_TRACE }, err));
    for (int r = 0; r < trainer->pipeline.n_ranks; r++)
        while (!trainer->ranks[r].is_here &&
               !atomic_load(&trainer->ranks[r].is_heard)) {
            vp_remote_handle_notes(&trainer->pipeline, trainer->ranks);
            if (!vp_trainer_watch(trainer))
                return vp_world_status(trainer->pipeline.world, err);
            nanosleep(&pause, NULL);
        }
    return VP_OK;
}

enum vp_status vp_trainer_trace(struct vp_trainer *trainer, const char *name,
                                struct vp_trace *out, struct vp_err *err)
{
    const struct vp_recorder *recorders[VP_TRACE_MAX_RANKS];
    struct vp_trace_stage stages[VP_MAX_STAGES];

    if (trainer->pipeline.n_ranks > VP_TRACE_MAX_RANKS)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "a trace has at most %d ranks", VP_TRACE_MAX_RANKS);
    VP_TRY(gather_traces(trainer, err));
    for (int r = 0; r < trainer->pipeline.n_ranks; r++) {
        const struct vp_rank *rank = &trainer->ranks[r];

        recorders[r] = rank->recorder;
        for (int i = 0; i < rank->n_stages; i++)
            stages[rank->stages[i].index] = trace_stage(&rank->stages[i].stage);
    }
    VP_TRY(vp_trace_collect(name, recorders, trainer->pipeline.n_ranks, stages,
                            trainer->pipeline.n_stages, out, err));
    for (int r = 0; r < out->n_ranks; r++)
        out->ranks[r].number = vp_rank_number(&trainer->pipeline, r);
    return VP_OK;
}
