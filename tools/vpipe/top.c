/* Prints the state of a run as the screen of `vpipe top`. */
#include "top.h"

#include "base/memory.h"
#include "tool.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CURVE_COLUMNS = 60, LINE_BYTES = 1024 };

bool top_has_ended(const struct top_view *view)
{
    return view->news == TOP_NEWS_DIED || view->live->state >= VP_LIVE_DONE;
}

/* ---- Lines -------------------------------------------------------------- */

/* Appends a line, cut to the width; a UTF-8 character counts as one column.
 * Replaces control characters, which the name of a folder may contain. */
static void add_line(const struct top_view *view, struct vp_strbuf *out,
                     const char *line)
{
    int column = 0;
    size_t n = 0;

    while (line[n]) {
        column += ((unsigned char)line[n] & 0xC0) != 0x80;
        if (view->width > 0 && column > view->width)
            break;
        vp_strbuf_add(out, iscntrl((unsigned char)line[n]) ? "?" : line + n, 1);
        n++;
    }
    vp_strbuf_adds(out, "\n");
}

/* Appends a field to a line; ", " separates fields. */
static void add_field(char line[LINE_BYTES], const char *field)
{
    size_t n = strlen(line);

    snprintf(line + n, LINE_BYTES - n, "%s%s", n > 0 ? ", " : "", field);
}

/* Appends "12.3k `unit`"; nothing for NAN. */
static void add_count(char line[LINE_BYTES], double value, const char *unit)
{
    char count[32], field[64];

    if (!isfinite(value))
        return;
    tool_count_text(value, count, sizeof(count));
    snprintf(field, sizeof(field), "%s %s", count, unit);
    add_field(line, field);
}

static void add_real(char line[LINE_BYTES], const char *name, int digits,
                     double value)
{
    char field[64];

    if (!isfinite(value))
        return;
    snprintf(field, sizeof(field), "%s %.*f", name, digits, value);
    add_field(line, field);
}

static void add_head(const struct top_view *view, struct vp_strbuf *out)
{
    const struct vp_live *live = view->live;
    char line[LINE_BYTES];

    snprintf(line, sizeof(line),
             "%.400s: %s, schedule %s, %d stage%s, %s, process %lld on host %s",
             view->folder, live->model, live->schedule, live->metrics.n_stages,
             live->metrics.n_stages == 1 ? "" : "s", live->transport,
             (long long)live->pid, live->host);
    add_line(view, out, line);
}

static void add_state(const struct top_view *view, struct vp_strbuf *out)
{
    const struct vp_live *live = view->live;
    bool saved = isfinite(live->metrics.run[VP_RUN_METRIC_CHECKPOINT_STEP]);
    char line[LINE_BYTES];

    if (live->state == VP_LIVE_DONE)
        snprintf(line, sizeof(line), "done: the run has ended");
    else if (live->state == VP_LIVE_INTERRUPTED)
        snprintf(line, sizeof(line),
                 "interrupted by a signal; go on with --resume %.400s",
                 view->folder);
    else if (live->state == VP_LIVE_FAILED)
        snprintf(line, sizeof(line), "failed: %s", live->line);
    else if (view->news == TOP_NEWS_DIED)
        snprintf(line, sizeof(line),
                 "died: the run ended without a last state, %.0f s ago%s%.400s",
                 view->age, saved ? "; go on with --resume " : "",
                 saved ? view->folder : "");
    else if (view->news == TOP_NEWS_STALE)
        snprintf(line, sizeof(line),
                 "%s, but no news for %.0f s: the run is stopped, or its disk "
                 "does not answer",
                 vp_live_state_name(live->state), view->age);
    else
        snprintf(line, sizeof(line), "%s", vp_live_state_name(live->state));
    add_line(view, out, line);
}

static void add_progress(const struct top_view *view, struct vp_strbuf *out)
{
    const double *run = view->live->metrics.run;
    double n = run[VP_RUN_METRIC_STEPS], all = run[VP_RUN_METRIC_TARGET_STEPS];
    char line[LINE_BYTES] = "", field[64], left[32];

    if (isfinite(all))
        snprintf(field, sizeof(field), "step %.0f of %.0f (%.0f %%)", n, all,
                 all > 0.0 ? 100.0 * n / all : 100.0);
    else
        snprintf(field, sizeof(field), "step %.0f", n);
    if (isfinite(n))
        add_field(line, field);
    add_real(line, "epoch", 0, run[VP_RUN_METRIC_EPOCH]);
    if (!top_has_ended(view) && isfinite(run[VP_RUN_METRIC_ETA_SECONDS])) {
        tool_time_text(run[VP_RUN_METRIC_ETA_SECONDS], left, sizeof(left));
        snprintf(field, sizeof(field), "ETA %s", left);
        add_field(line, field);
    }
    add_real(line, "checkpoint of step", 0, run[VP_RUN_METRIC_CHECKPOINT_STEP]);
    add_line(view, out, line);
    line[0] = '\0';
    add_real(line, "loss", 4, run[VP_RUN_METRIC_LOSS]);
    add_real(line, "held-out loss", 4, run[VP_RUN_METRIC_EVAL_LOSS]);
    if (isfinite(run[VP_RUN_METRIC_LEARNING_RATE])) {
        snprintf(field, sizeof(field), "learning rate %.2e",
                 run[VP_RUN_METRIC_LEARNING_RATE]);
        add_field(line, field);
    }
    add_real(line, "gradient norm", 4, run[VP_RUN_METRIC_GRADIENT_NORM]);
    add_real(line, "loss scale", 0, run[VP_RUN_METRIC_LOSS_SCALE]);
    if (line[0])
        add_line(view, out, line);
}

static void add_rates(const struct top_view *view, struct vp_strbuf *out)
{
    const double *run = view->live->metrics.run;
    char line[LINE_BYTES] = "", flops[32], field[64];

    add_count(line, run[VP_RUN_METRIC_TOKENS_PER_SECOND], "tokens/s");
    add_count(line, run[VP_RUN_METRIC_SAMPLES_PER_SECOND], "samples/s");
    if (isfinite(run[VP_RUN_METRIC_FLOPS_PER_SECOND])) {
        tool_flops_text(run[VP_RUN_METRIC_FLOPS_PER_SECOND], flops,
                        sizeof(flops));
        snprintf(field, sizeof(field), "%s/s", flops);
        add_field(line, field);
    }
    add_real(line, "seconds per step", 3, run[VP_RUN_METRIC_STEP_SECONDS]);
    if (isfinite(run[VP_RUN_METRIC_BUBBLE])) {
        snprintf(field, sizeof(field), "bubble %.0f %%",
                 100.0 * run[VP_RUN_METRIC_BUBBLE]);
        add_field(line, field);
    }
    if (line[0])
        add_line(view, out, line);
}

/* ---- Losses ------------------------------------------------------------- */

/* Returns the mean of the points that belong to a column. */
static double mean_of(const struct vp_loss_curve *curve, int column,
                      int n_columns)
{
    int from = column * curve->n_points / n_columns;
    int to = (column + 1) * curve->n_points / n_columns;
    double sum = 0.0;

    for (int i = from; i < to; i++)
        sum += curve->points[i];
    return sum / (to - from);
}

static void add_curve(const struct top_view *view, struct vp_strbuf *out)
{
    static const char *const blocks[] = { "\u2581", "\u2582", "\u2583",
                                          "\u2584", "\u2585", "\u2586",
                                          "\u2587", "\u2588" };
    static const char *const plain[] = {
        "_", ".", ":", "-", "=", "+", "*", "#"
    };
    const struct vp_loss_curve *curve = &view->live->losses;
    int n = curve->n_points < CURVE_COLUMNS ? curve->n_points : CURVE_COLUMNS;
    double low = INFINITY, high = -INFINITY;
    char line[LINE_BYTES];
    size_t used;

    if (n == 0)
        return;
    for (int i = 0; i < n; i++) {
        low = fmin(low, mean_of(curve, i, n));
        high = fmax(high, mean_of(curve, i, n));
    }
    used = (size_t)snprintf(line, sizeof(line), "losses ");
    for (int i = 0; i < n; i++) {
        double share = (mean_of(curve, i, n) - low) / (high - low);
        /* The lowest level if all losses are equal (share is NaN). */
        int level = share > 0.0 && share <= 1.0 ? (int)(7.0 * share + 0.5) : 0;

        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s",
                                 (view->utf8 ? blocks : plain)[level]);
    }
    snprintf(line + used, sizeof(line) - used, " %.4g to %.4g", low, high);
    add_line(view, out, line);
}

/* ---- Stages ------------------------------------------------------------- */

/* Writes "3" or "3-5". */
static void range_text(int first, int n, char *out, size_t n_bytes)
{
    if (n == 1)
        snprintf(out, n_bytes, "%d", first);
    else
        snprintf(out, n_bytes, "%d-%d", first, first + n - 1);
}

/* Writes the ranks of a stage in the user's numbering: "3", "3,1,2". */
static void ranks_text(const struct vp_live *live, int s, char *out,
                       size_t n_bytes)
{
    const struct vp_live_stage *stage = &live->stages[s];
    size_t n = 0;

    out[0] = '\0';
    for (int i = 0; i < stage->n_ranks && n < n_bytes; i++) {
        int r = stage->first_rank + i;

        n += (size_t)snprintf(
            out + n, n_bytes - n, "%s%d", i ? "," : "",
            r >= 0 && r < live->n_ranks ? live->ranks[r].number : r);
    }
}

/* Writes the action of the first rank that works for stage `s`; "-": none. */
static void now_text(const struct vp_live *live, int s, char *out,
                     size_t n_bytes)
{
    const struct vp_live_stage *stage = &live->stages[s];
    int n;

    snprintf(out, n_bytes, "-");
    for (int r = stage->first_rank;
         r >= 0 && r < live->n_ranks && r < stage->first_rank + stage->n_ranks;
         r++) {
        const struct vp_live_rank *rank = &live->ranks[r];

        if (rank->stage != s)
            continue;
        n = snprintf(out, n_bytes, "%s %lld%s%s", rank->doing,
                     (long long)rank->mb, rank->eval ? " (eval)" : "",
                     rank->waits ? ", waits" : "");
        if (rank->seconds >= 1.0 && n > 0 && (size_t)n < n_bytes)
            snprintf(out + n, n_bytes - (size_t)n, " %.0f s", rank->seconds);
        return;
    }
}

/* Writes the milliseconds per minibatch. */
static void mean_text(double seconds, double n, char *out, size_t n_bytes)
{
    if (isfinite(seconds) && n > 0.0)
        snprintf(out, n_bytes, "%.1f", 1e3 * seconds / n);
    else
        snprintf(out, n_bytes, "-");
}

static void share_text(double share, char *out, size_t n_bytes)
{
    if (isfinite(share))
        snprintf(out, n_bytes, "%.0f %%", 100.0 * share);
    else
        snprintf(out, n_bytes, "-");
}

/* Returns the share of time in which the ranks of stage `s` compute none of
 * their stages. */
static double bubble_of(const struct vp_live *live, int s)
{
    double idle = 1.0;

    for (int i = 0; i < live->metrics.n_stages; i++)
        if (live->stages[i].first_rank == live->stages[s].first_rank)
            idle -= live->metrics.stages[i][VP_STAGE_METRIC_BUSY];
    return idle < 0.0 ? 0.0 : idle;
}

static void add_stage(const struct top_view *view, int s, struct vp_strbuf *out)
{
    const struct vp_live_stage *stage = &view->live->stages[s];
    const double *numbers = view->live->metrics.stages[s];
    double bytes = numbers[VP_STAGE_METRIC_MEMORY];
    char blocks[32], ranks[32], now[40], forward[32], backward[32], busy[32],
        bubble[32], memory[VP_BYTES_TEXT] = "-", line[LINE_BYTES];

    range_text(stage->first_block, stage->n_blocks, blocks, sizeof(blocks));
    ranks_text(view->live, s, ranks, sizeof(ranks));
    now_text(view->live, s, now, sizeof(now));
    mean_text(numbers[VP_STAGE_METRIC_FORWARD_SECONDS],
              numbers[VP_STAGE_METRIC_FORWARDS], forward, sizeof(forward));
    mean_text(numbers[VP_STAGE_METRIC_BACKWARD_SECONDS],
              numbers[VP_STAGE_METRIC_BACKWARDS], backward, sizeof(backward));
    share_text(numbers[VP_STAGE_METRIC_BUSY], busy, sizeof(busy));
    share_text(bubble_of(view->live, s), bubble, sizeof(bubble));
    if (bytes >= 0.0 && bytes < 1e18)
        vp_bytes_text((int64_t)bytes, memory, sizeof(memory));
    snprintf(line, sizeof(line), "%-5d  %-7s  %-5s  %-28s %8s %8s %6s %6s %10s",
             s, blocks, ranks, now, forward, backward, busy, bubble, memory);
    add_line(view, out, line);
}

void top_print(const struct top_view *view, struct vp_strbuf *out)
{
    add_head(view, out);
    add_state(view, out);
    add_progress(view, out);
    add_rates(view, out);
    add_curve(view, out);
    add_line(view, out,
             "stage  blocks   ranks  now                              F ms     "
             "B ms   busy bubble     memory");
    for (int s = 0; s < view->live->metrics.n_stages; s++)
        add_stage(view, s, out);
}
