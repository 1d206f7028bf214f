/* Details of a run: rings of notes that rank threads fill without locks, and
 * lines made of them and of the counters. */
#include "run/verbose.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Notes that a rank can write before they are read; further notes are dropped
 * and counted. */
enum { RING = 4096 };

/* One action, or one tensor of a message. */
struct note {
    int64_t step; /* 0: printed already */
    enum vp_action_kind kind;
    int stage, peer;
    int64_t minibatch, version;
    uint64_t message;
    const struct vp_value *value; /* tensor of a SEND; otherwise NULL */
    const char *block;            /* block that produced `value` */
    double norm;
};

struct rank_notes {
    struct note *ring;
    atomic_llong n_written, n_read;
    atomic_llong n_lost;
    int64_t n_lost_said; /* n_lost that was reported */
    /* Counters when time and traffic were last printed, per stage of the
     * rank. */
    struct vp_stage_stats *then;
};

struct vp_verbose_log {
    const struct vp_config *config;
    vp_verbose_fn print;
    void *ctx;
    struct rank_notes *ranks;
    int n_ranks, n_stages;
    int64_t then_step;
};

static bool wants(const struct vp_verbose_log *log, enum vp_verbose what)
{
    return log->config->verbose >> what & 1;
}

static bool is_due(const struct vp_verbose_log *log, int64_t step)
{
    int64_t every = log->config->verbose_frequency;

    return every > 0 && step % every == 0;
}

/* ---- Creating ----------------------------------------------------------- */

static bool make_notes(const struct vp_verbose_log *log,
                       struct rank_notes *notes)
{
    notes->then = calloc((size_t)log->config->chunks, sizeof(*notes->then));
    if (vp_verbose_observer(log))
        notes->ring = calloc(RING, sizeof(*notes->ring));
    return notes->then && (notes->ring || !vp_verbose_observer(log));
}

enum vp_status vp_verbose_create(const struct vp_config *config,
                                 vp_verbose_fn print, void *ctx,
                                 struct vp_verbose_log **out,
                                 struct vp_err *err)
{
    struct vp_verbose_log *log = calloc(1, sizeof(*log));
    bool failed = !log;

    if (log) {
        log->config = config;
        log->print = print;
        log->ctx = ctx;
        log->n_ranks = vp_config_n_ranks(config);
        log->n_stages = vp_config_n_stages(config);
        log->ranks = calloc((size_t)log->n_ranks, sizeof(*log->ranks));
        failed = !log->ranks;
    }
    for (int r = 0; !failed && r < log->n_ranks; r++)
        failed = !make_notes(log, &log->ranks[r]);
    if (failed) {
        vp_verbose_free(log);
        return vp_err_set(err, VP_ERR_NOMEM, "verbose: out of memory");
    }
    *out = log;
    return VP_OK;
}

void vp_verbose_free(struct vp_verbose_log *log)
{
    if (!log)
        return;
    for (int r = 0; log->ranks && r < log->n_ranks; r++) {
        free(log->ranks[r].ring);
        free(log->ranks[r].then);
    }
    free(log->ranks);
    free(log);
}

/* ---- Writing notes, on the threads of ranks ----------------------------- */

static void add_note(struct rank_notes *notes, const struct note *note)
{
    int64_t n = atomic_load_explicit(&notes->n_written, memory_order_relaxed);

    if (n - atomic_load_explicit(&notes->n_read, memory_order_acquire) >=
        RING) {
        atomic_fetch_add_explicit(&notes->n_lost, 1, memory_order_relaxed);
        return;
    }
    notes->ring[n % RING] = *note;
    atomic_store_explicit(&notes->n_written, n + 1, memory_order_release);
}

static double norm_of(const void *values, enum vp_dtype dtype, int64_t n)
{
    enum { BLOCK = 1024 };
    float block[BLOCK];
    double sum = 0.0;

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;

        if (dtype == VP_DTYPE_F32)
            memcpy(block, (const float *)values + at,
                   (size_t)m * sizeof(float));
        else
            vp_dtype_expand(dtype, block, (const uint16_t *)values + at, m);
        for (int64_t i = 0; i < m; i++)
            sum += (double)block[i] * (double)block[i];
    }
    return sqrt(sum);
}

static const char *block_name(const struct vp_graph *graph,
                              const struct vp_value *value)
{
    if (value->producer == VP_NONE)
        return "input";
    return graph->blocks[graph->ops[value->producer].block].name;
}

/* Leaves out masks and labels, which pass through but are not computed. */
static void note_tensors(struct rank_notes *notes, struct note note,
                         const struct vp_observation *what)
{
    for (int i = 0; what->boundary && i < what->boundary->n_entries; i++) {
        const struct vp_boundary_value *entry = &what->boundary->entries[i];
        const struct vp_value *value = &what->graph->values[entry->value];

        if (value->dtype == VP_DTYPE_I32)
            continue;
        note.value = value;
        note.block = block_name(what->graph, value);
        note.norm = what->values
                        ? norm_of(what->values + entry->offset, value->dtype,
                                  value->rows * value->cols)
                        : (double)NAN;
        add_note(notes, &note);
    }
}

static void take_note(void *ctx, const struct vp_observation *what)
{
    struct vp_verbose_log *log = ctx;
    struct rank_notes *notes = &log->ranks[what->rank];
    const struct vp_action *action = what->action;
    struct note note = {
        .step = what->minibatch / log->config->accumulation_steps + 1,
        .kind = action->kind,
        .stage = action->stage,
        .peer = action->peer,
        .minibatch = what->minibatch,
        .version = what->version,
        .message = what->message,
    };

    if (!is_due(log, note.step))
        return;
    switch (action->kind) {
    case VP_ACTION_SEND_ACT:
    case VP_ACTION_SEND_GRAD:
        if (wants(log, VP_VERBOSE_TENSORS))
            note_tensors(notes, note, what);
        break;
    case VP_ACTION_F:
    case VP_ACTION_R:
    case VP_ACTION_B:
    case VP_ACTION_W:
    case VP_ACTION_UPDATE:
        if (wants(log, VP_VERBOSE_VERSIONS))
            add_note(notes, &note);
        break;
    default:
        break;
    }
}

vp_observe_fn vp_verbose_observer(const struct vp_verbose_log *log)
{
    return wants(log, VP_VERBOSE_TENSORS) || wants(log, VP_VERBOSE_VERSIONS)
               ? take_note
               : NULL;
}

/* ---- Lines -------------------------------------------------------------- */

static enum vp_status say(struct vp_verbose_log *log, int rank,
                          struct vp_err *err, const char *fmt, ...)
    VP_PRINTF(4, 5);

static enum vp_status say(struct vp_verbose_log *log, int rank,
                          struct vp_err *err, const char *fmt, ...)
{
    char line[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    return log->print(log->ctx, rank, line, err);
}

static int number(const struct vp_verbose_log *log, int rank)
{
    return vp_config_rank_number(log->config, rank);
}

static enum vp_status say_note(struct vp_verbose_log *log, int rank,
                               const struct note *note, struct vp_err *err)
{
    static const char *const words[VP_ACTION_KIND_COUNT] = {
        [VP_ACTION_F] = "F",
        [VP_ACTION_R] = "R",
        [VP_ACTION_B] = "B",
        [VP_ACTION_W] = "W",
    };

    if (note->value)
        return say(log, rank, err,
                   "tensors: minibatch %lld: %s%s.%s [%lld x %lld] norm %.6g, "
                   "rank %d -> rank %d, message %llu",
                   (long long)note->minibatch,
                   note->kind == VP_ACTION_SEND_GRAD ? "gradient of " : "",
                   note->block, note->value->name, (long long)note->value->rows,
                   (long long)note->value->cols, note->norm, number(log, rank),
                   number(log, note->peer), (unsigned long long)note->message);
    if (note->kind == VP_ACTION_UPDATE)
        return say(log, rank, err,
                   "versions: stage %d: update after minibatch %lld writes "
                   "version %lld",
                   note->stage, (long long)note->minibatch,
                   (long long)note->version);
    return say(log, rank, err,
               "versions: stage %d: %s of minibatch %lld uses version %lld",
               note->stage, words[note->kind], (long long)note->minibatch,
               (long long)note->version);
}

/* Prints the notes of `step`, which are complete once the step was reported.
 * Notes of later steps may lie between them, and stay in the ring. */
static enum vp_status say_notes(struct vp_verbose_log *log, int rank,
                                int64_t step, struct vp_err *err)
{
    struct rank_notes *notes = &log->ranks[rank];
    int64_t end = atomic_load_explicit(&notes->n_written, memory_order_acquire);
    int64_t begin = atomic_load_explicit(&notes->n_read, memory_order_relaxed);
    int64_t lost = atomic_load_explicit(&notes->n_lost, memory_order_relaxed);

    for (int64_t i = begin; i < end; i++) {
        struct note *note = &notes->ring[i % RING];

        if (note->step == step)
            VP_TRY(say_note(log, rank, note, err));
        if (note->step <= step)
            note->step = 0;
    }
    while (begin < end && notes->ring[begin % RING].step == 0)
        begin++;
    atomic_store_explicit(&notes->n_read, begin, memory_order_release);
    if (lost > notes->n_lost_said)
        VP_TRY(say(log, rank, err,
                   "verbose: %lld more were dropped; raise verbose_frequency",
                   (long long)(lost - notes->n_lost_said)));
    notes->n_lost_said = lost;
    return VP_OK;
}

/* ---- Traffic and time --------------------------------------------------- */

static enum vp_status say_link(struct vp_verbose_log *log, int rank, int from,
                               int to, const struct vp_way_stats *now,
                               const struct vp_way_stats *then,
                               struct vp_err *err)
{
    if (to < 0 || to >= log->n_stages)
        return VP_OK;
    return say(log, rank, err,
               "communication: stage %d -> stage %d: %lld messages, %lld bytes",
               from, to, (long long)(now->n_sent - then->n_sent),
               (long long)(now->bytes_sent - then->bytes_sent));
}

/* Prints a table in the format of the original vPipe: means over `n`
 * minibatches, keys in alphabetical order. */
static enum vp_status say_table(struct vp_verbose_log *log, int rank,
                                const char *title, int64_t compute_ns,
                                const struct vp_way_stats *way, int64_t n,
                                struct vp_err *err)
{
    const struct {
        const char *key;
        double value;
        const char *unit;
    } rows[] = {
        { "compute_time", (double)compute_ns * 1e-9, "seconds" },
        { "receive_tensors", (double)way->receive_ns * 1e-9, "seconds" },
        { "receive_tensors_size", (double)way->bytes_received, "bytes" },
        { "send_tensors", (double)way->send_ns * 1e-9, "seconds" },
        { "send_tensors_size", (double)way->bytes_sent, "bytes" },
    };

    VP_TRY(say(log, rank, err, "%s", title));
    for (size_t i = 0; i < VP_COUNT_OF(rows); i++)
        VP_TRY(say(log, rank, err, "\t %s %.3f %s", rows[i].key,
                   n > 0 ? rows[i].value / (double)n : 0.0, rows[i].unit));
    return VP_OK;
}

static struct vp_way_stats since(const struct vp_way_stats *now,
                                 const struct vp_way_stats *then)
{
    return (struct vp_way_stats){
        .receive_ns = now->receive_ns - then->receive_ns,
        .send_ns = now->send_ns - then->send_ns,
        .bytes_sent = now->bytes_sent - then->bytes_sent,
        .bytes_received = now->bytes_received - then->bytes_received,
    };
}

static enum vp_status say_time(struct vp_verbose_log *log, int rank,
                               const struct vp_stage_stats *now,
                               const struct vp_stage_stats *then, int64_t steps,
                               struct vp_err *err)
{
    struct vp_way_stats act = since(&now->act, &then->act);
    struct vp_way_stats grad = since(&now->grad, &then->grad);

    VP_TRY(say_table(log, rank,
                     "Forward Stats:", now->forward_ns - then->forward_ns, &act,
                     now->n_forward - then->n_forward, err));
    VP_TRY(say_table(log, rank,
                     "Backward Stats:", now->backward_ns - then->backward_ns,
                     &grad, now->n_backward - then->n_backward, err));
    return say(log, rank, err, "Optimizer step took: %.3f",
               (double)(now->update_ns - then->update_ns) * 1e-9 /
                   (double)(steps > 0 ? steps : 1));
}

/* Prints the counters of stage number `i` of a rank since the last call. */
static enum vp_status say_stats(struct vp_verbose_log *log, int rank, int i,
                                int stage, const struct vp_stage_stats *now,
                                int64_t steps, struct vp_err *err)
{
    struct vp_stage_stats *then = &log->ranks[rank].then[i];

    if (wants(log, VP_VERBOSE_COMMUNICATION)) {
        VP_TRY(
            say_link(log, rank, stage, stage + 1, &now->act, &then->act, err));
        VP_TRY(say_link(log, rank, stage, stage - 1, &now->grad, &then->grad,
                        err));
    }
    if (wants(log, VP_VERBOSE_TIME)) {
        if (log->config->chunks > 1)
            VP_TRY(say(log, rank, err, "time: stage %d", stage));
        VP_TRY(say_time(log, rank, now, then, steps, err));
    }
    *then = *now;
    return VP_OK;
}

/* ---- Steps -------------------------------------------------------------- */

enum vp_status vp_verbose_start(struct vp_verbose_log *log,
                                const struct vp_run_summary *summary,
                                struct vp_err *err)
{
    log->then_step = summary->resumed;
    if (!wants(log, VP_VERBOSE_STAGES))
        return VP_OK;
    for (int r = 0; r < summary->n_ranks; r++)
        for (int s = 0; s < summary->n_stages; s++) {
            const struct vp_run_stage *stage = &summary->stages[s];

            if (r < stage->first_rank ||
                r >= stage->first_rank + stage->n_ranks)
                continue;
            VP_TRY(say(log, r, err,
                       "stages: rank %d has stage %d of %d: blocks %d-%d, %lld "
                       "parameters, depth %d, %d slots, %d versions, %d of %d "
                       "lines recomputed, %lld bytes",
                       number(log, r), s, summary->n_stages, stage->first_block,
                       stage->first_block + stage->n_blocks - 1,
                       (long long)stage->n_params, stage->depth, stage->n_slots,
                       stage->n_versions, stage->n_recomputed_lines,
                       stage->n_lines, (long long)stage->memory->total));
        }
    return VP_OK;
}

enum vp_status vp_verbose_step(struct vp_verbose_log *log,
                               const struct vp_trainer *trainer,
                               const struct vp_step_report *report,
                               struct vp_err *err)
{
    struct vp_stage_stats now;
    int stage;

    if (!is_due(log, report->step))
        return VP_OK;
    for (int r = 0; r < log->n_ranks; r++) {
        if (log->ranks[r].ring)
            VP_TRY(say_notes(log, r, report->step, err));
        for (int i = 0; vp_trainer_rank_stats(trainer, r, i, &stage, &now); i++)
            VP_TRY(say_stats(log, r, i, stage, &now,
                             report->step - log->then_step, err));
    }
    log->then_step = report->step;
    return VP_OK;
}
