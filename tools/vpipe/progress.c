/* Draws the progress of a run, and prints its first and last screen. */
#include "progress.h"

#include "base/clock.h"
#include "base/memory.h"
#include "run/command.h"
#include "tool.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MAX_WIDTH = 200, MIN_BAR = 8, MAX_BAR = 30, ROW_BAR = 10 };
enum {
    ROW_WIDTH = 77, /* columns of a stage's row */
    LABEL = 10,     /* "output    " */
    N_FIELDS = 8
};

/* Shortest time between two drawings of the line. */
#define DRAW_NS (50 * 1000 * 1000)
/* Decay of the sums per step: rates are over about the last ten steps. */
#define MEMORY 0.9

/* ---- The terminal ------------------------------------------------------- */

void progress_init(struct progress *progress, FILE *out, int64_t every)
{
    *progress = (struct progress){
        .out = out,
        .every = every,
        .width = 80,
        .height = 24,
        .unigram_loss = NAN,
        .eval_loss = NAN,
        .terminal = tool_draws(out),
    };
    /* Only LC_CTYPE, so that numbers keep their decimal point. */
    if (setlocale(LC_CTYPE, ""))
        progress->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Called for every line, because the size of a window may change. */
static int terminal_width(const struct progress *progress)
{
    int width = tool_width(progress->out, progress->width);

    return width < MAX_WIDTH ? width : MAX_WIDTH;
}

static int terminal_height(const struct progress *progress)
{
    struct winsize size;

    if (ioctl(fileno(progress->out), TIOCGWINSZ, &size) == 0 && size.ws_row > 0)
        return size.ws_row;
    return progress->height;
}

/* The cursor is hidden while a line is redrawn in place. */
static volatile sig_atomic_t cursor_hidden;
static const char show_cursor[] = "\x1b[?25h";

static void leave(struct progress *progress)
{
    if (progress->shown)
        fputs(show_cursor, progress->out);
    cursor_hidden = 0;
    progress->shown = false;
    progress->n_rows = 0;
}

static volatile sig_atomic_t interjected;

/* Ends the current line after an interjection, so that it is not
 * overwritten. */
static void pass_interjection(struct progress *progress)
{
    if (interjected)
        leave(progress);
    interjected = 0;
}

void progress_break(struct progress *progress)
{
    pass_interjection(progress);
    if (progress->shown)
        fputc('\n', progress->out);
    leave(progress);
    tool_flush(progress->out);
}

void progress_abandon(void)
{
    ssize_t n = 0;

    if (cursor_hidden)
        n = write(STDOUT_FILENO, show_cursor, sizeof(show_cursor) - 1);
    (void)n;
}

void progress_interject(const char *line)
{
    int error = errno;
    ssize_t n = 0;

    if (cursor_hidden)
        n = write(STDOUT_FILENO, "\n", 1);
    n += write(STDOUT_FILENO, line, strlen(line));
    interjected = 1;
    errno = error;
    (void)n;
}

/* Clears the line and its rows; the next text is printed in their place. */
static void clear_line(struct progress *progress)
{
    pass_interjection(progress);
    if (progress->shown && progress->n_rows > 0)
        fprintf(progress->out, "\x1b[%dA", progress->n_rows);
    if (progress->shown)
        fputs("\r\x1b[J", progress->out);
    leave(progress);
}

/* ---- The line ----------------------------------------------------------- */

static void append(char *line, size_t n_bytes, const char *text)
{
    size_t used = strlen(line);

    snprintf(line + used, n_bytes - used, "%s", text);
}

/* Writes fields from the most to the least important until `width` is used
 * up. */
static void fields_text(const struct progress *progress,
                        const struct vp_step_report *report, int width,
                        char *out, size_t n_bytes)
{
    double left = (double)(report->n_steps - report->step) * progress->seconds /
                  progress->steps;
    char field[N_FIELDS][48] = { { 0 } }, count[32];

    /* Fields have constant widths where possible, so that they do not move. */
    snprintf(count, sizeof(count), "%lld", (long long)report->n_steps);
    snprintf(field[0], sizeof(field[0]), "%*lld/%s", (int)strlen(count),
             (long long)report->step, count);
    if (isfinite(report->loss))
        snprintf(field[1], sizeof(field[1]), "  loss %.4f", report->loss);
    else
        snprintf(field[1], sizeof(field[1]), "  no labels  ");
    tool_count_text(progress->tokens / progress->seconds, count, sizeof(count));
    snprintf(field[2], sizeof(field[2]), "  %s tokens/s", count);
    tool_time_text(left, count, sizeof(count));
    snprintf(field[3], sizeof(field[3]), "  ETA %s", count);
    if (report->n_stages > 1)
        snprintf(field[4], sizeof(field[4]), "  bubble %2.0f%%",
                 100.0 * progress->waited / progress->seconds);
    if (report->loss_scale > 0.0f)
        snprintf(field[5], sizeof(field[5]), "  scale %.8g, %lld skipped",
                 (double)report->loss_scale, (long long)report->n_skipped);
    tool_flops_text(progress->flops / progress->seconds, count, sizeof(count));
    snprintf(field[6], sizeof(field[6]), "  %s/s", count);
    snprintf(field[7], sizeof(field[7]), "  lr %.2e", report->lr);
    out[0] = 0;
    for (int i = 0; i < N_FIELDS; i++) {
        if ((int)(strlen(out) + strlen(field[i])) > width)
            break;
        append(out, n_bytes, field[i]);
    }
}

/* Writes a bar of `cells` columns; in UTF-8 with a resolution of an eighth. */
static void bar_text(const struct progress *progress, double done, int cells,
                     char *out, size_t n_bytes)
{
    static const char *const part[] = {
        " ",      "\u258F", "\u258E", "\u258D", "\u258C",
        "\u258B", "\u258A", "\u2589", "\u2588",
    };
    int eighths = (int)(done * cells * 8 + 0.5);

    out[0] = 0;
    append(out, n_bytes, progress->utf8 ? "\u2595" : "[");
    for (int i = 0; i < cells; i++) {
        int fill = eighths - 8 * i;

        fill = fill < 0 ? 0 : fill > 8 ? 8 : fill;
        if (progress->utf8)
            append(out, n_bytes, part[fill]);
        else
            append(out, n_bytes, fill >= 4 ? "#" : "-");
    }
    append(out, n_bytes, progress->utf8 ? "\u258F " : "] ");
}

/* Returns the number of rows: one per stage, 0 if the terminal is too small. */
static int count_rows(const struct progress *progress)
{
    int n = progress->n_stages;

    return n > 1 && n <= PROGRESS_MAX_ROWS &&
                   terminal_width(progress) > ROW_WIDTH &&
                   terminal_height(progress) >= n + 2
               ? n
               : 0;
}

/* Returns the share of its ranks' time in which a stage computes. */
static double busy_share(const struct progress *progress, int s)
{
    const struct progress_stage *stage = &progress->stages[s];
    double share = stage->busy / progress->seconds / stage->n_ranks;

    return share < 1.0 ? share : 1.0;
}

/* Returns the share of time in which the stage's ranks compute no stage. */
static double wait_share(const struct progress *progress, int s)
{
    double wait = 1.0;

    for (int i = 0; i < progress->n_stages; i++)
        if (progress->stages[i].first_rank == progress->stages[s].first_rank)
            wait -= busy_share(progress, i);
    return wait > 0.0 ? wait : 0.0;
}

static void row_text(const struct progress *progress, int s, char *out,
                     size_t n_bytes)
{
    const struct progress_stage *stage = &progress->stages[s];
    double busy = busy_share(progress, s);
    char bar[8 * ROW_BAR], memory[VP_BYTES_TEXT];

    bar_text(progress, busy, ROW_BAR, bar, sizeof(bar));
    vp_bytes_text(stage->n_bytes, memory, sizeof(memory));
    snprintf(
        out, n_bytes,
        "stage %-2d %sbusy %3.0f%%  bubble %3.0f%%  F %-6lld B %-6lld  %8s", s,
        bar, 100.0 * busy, 100.0 * wait_share(progress, s),
        (long long)stage->n_forward, (long long)stage->n_backward, memory);
}

/* Puts the rows into the frame, at the place of the last ones. */
static void draw_rows(struct progress *progress)
{
    char *frame = progress->frame;
    size_t n_bytes = sizeof(progress->frame);
    int n = count_rows(progress);
    char row[MAX_WIDTH + 8 * ROW_BAR];

    frame[0] = 0;
    append(frame, n_bytes, progress->shown ? "\r" : "\x1b[?25l\r");
    if (progress->n_rows > 0) {
        snprintf(row, sizeof(row), "\x1b[%dA", progress->n_rows);
        append(frame, n_bytes, row);
    }
    if (progress->n_rows > n)
        append(frame, n_bytes, "\x1b[J");
    for (int s = 0; s < n; s++) {
        row_text(progress, s, row, sizeof(row));
        append(frame, n_bytes, row);
        append(frame, n_bytes, "\x1b[K\n");
    }
    progress->n_rows = n;
}

static void draw(struct progress *progress, const struct vp_step_report *report)
{
    char fields[MAX_WIDTH + 8], bar[4 * MAX_WIDTH];
    int width = terminal_width(progress) - 1; /* the last column wraps */
    double done = report->n_steps > 0
                      ? (double)report->step / (double)report->n_steps
                      : 0.0;
    int cells;

    fields_text(progress, report, width, fields, sizeof(fields));
    pass_interjection(progress);
    cells = width - (int)strlen(fields) - 3;
    cells = cells > MAX_BAR ? MAX_BAR : cells;
    bar[0] = 0;
    if (cells >= MIN_BAR)
        bar_text(progress, done, cells, bar, sizeof(bar));
    draw_rows(progress);
    append(progress->frame, sizeof(progress->frame), bar);
    append(progress->frame, sizeof(progress->frame), fields);
    append(progress->frame, sizeof(progress->frame), "\x1b[K");
    cursor_hidden = 1;
    fputs(progress->frame, progress->out);
    tool_flush(progress->out);
    progress->shown = true;
    progress->drawn_ns = vp_clock_ns();
}

static void print_line(struct progress *progress,
                       const struct vp_step_report *report)
{
    char fields[MAX_WIDTH + 8];

    fields_text(progress, report, MAX_WIDTH, fields, sizeof(fields));
    fprintf(progress->out, "step %s\n", fields);
    tool_flush(progress->out);
}

/* ---- The first screen --------------------------------------------------- */

static void print_memory(FILE *out, const struct vp_memory *m, int stage)
{
    char total[VP_BYTES_TEXT], parts[VP_MEMORY_TEXT];

    vp_bytes_text(m->total, total, sizeof(total));
    vp_memory_text(m, parts);
    tool_print(out, 0, LABEL, "stage %-2d  %s (%s)\n", stage, total, parts);
}

/* Writes "3" or "3-5". */
static void range_text(int first, int n, char *out, size_t n_bytes)
{
    if (n == 1)
        snprintf(out, n_bytes, "%d", first);
    else
        snprintf(out, n_bytes, "%d-%d", first, first + n - 1);
}

/* Writes the ranks of a stage in the user's numbering: "3", "3-5" or "2,0".
 * Ends with "..." if `out` is too short for all of them. */
static void ranks_text(const struct vp_run_summary *summary,
                       const struct vp_run_stage *stage, char *out,
                       size_t n_bytes)
{
    char range[32];

    out[0] = '\0';
    for (int i = 0, n; i < stage->n_ranks; i += n) {
        int at = stage->first_rank + i;
        int first = vp_summary_rank_number(summary, at);

        n = 1;
        while (i + n < stage->n_ranks &&
               vp_summary_rank_number(summary, at + n) == first + n)
            n++;
        range_text(first, n, range, sizeof(range));
        if (strlen(out) + strlen(range) + sizeof(",...") > n_bytes) {
            append(out, n_bytes, ",...");
            return;
        }
        append(out, n_bytes, i > 0 ? "," : "");
        append(out, n_bytes, range);
    }
}

static void print_stage(FILE *out, const struct vp_run_summary *summary, int s)
{
    const struct vp_run_stage *stage = &summary->stages[s];
    char blocks[32], ranks[64], params[32], again[32] = "-";
    char memory[VP_BYTES_TEXT];
    double total = 0.0;

    for (int i = 0; i < summary->n_stages; i++)
        total += summary->stages[i].gflops;
    range_text(stage->first_block, stage->n_blocks, blocks, sizeof(blocks));
    ranks_text(summary, stage, ranks, sizeof(ranks));
    tool_count_text((double)stage->n_params, params, sizeof(params));
    vp_bytes_text(stage->memory->total, memory, sizeof(memory));
    if (stage->n_recomputed_lines > 0)
        snprintf(again, sizeof(again), "%d/%d", stage->n_recomputed_lines,
                 stage->n_lines);
    fprintf(out, "%5d  %5s  %-7s  %6s %9s  %5d  %5d  %8d %9s %3.0f %%\n", s,
            ranks, blocks, params, memory, stage->depth, stage->n_slots,
            stage->n_versions, again,
            total > 0.0 ? 100.0 * stage->gflops / total : 0.0);
}

/* Prints a line for each stage that swaps. */
static void print_swap(FILE *out, const struct vp_run_summary *summary)
{
    for (int s = 0; s < summary->n_stages; s++) {
        const struct vp_run_stage *stage = &summary->stages[s];
        char each[VP_BYTES_TEXT], all[VP_BYTES_TEXT];

        if (stage->swap_bytes == 0)
            continue;
        vp_bytes_text(stage->swap_bytes, each, sizeof(each));
        vp_bytes_text(stage->swap_host_bytes, all, sizeof(all));
        tool_print(out, 0, LABEL,
                   "swap      stage %d: %s of each minibatch, %s of the host; "
                   "%d + %d buffers for %d slots\n",
                   s, each, all, stage->n_swap_out, stage->n_swap_in,
                   stage->n_slots);
    }
}

static void print_pipeline(FILE *out, const struct vp_run_summary *summary)
{
    char groups[48] = "";
    FILE *table;

    if (summary->n_members > 1)
        snprintf(groups, sizeof(groups), " in groups of %d",
                 summary->n_members);
    tool_print(
        out, 0, LABEL,
        "schedule  %s (%s): %d actions for %d minibatch%s on %d ranks%s\n"
        "proof     each minibatch once, in order; nothing overwritten in "
        "use; no deadlock\n",
        summary->schedule, summary->asp ? "asp" : "bsp", summary->n_actions,
        summary->group_size, summary->group_size == 1 ? "" : "es",
        summary->n_ranks, groups);
    if (summary->lists[0])
        tool_print(out, 0, LABEL, "lists     %s\n", summary->lists);
    tool_print(
        out, 0, LABEL, "bubble    simulated %.1f %%, in theory %.1f %%\n\n",
        100.0 * summary->bubble_simulated, 100.0 * summary->bubble_theory);
    table = tool_table_begin(out);
    /* recompute: recomputed lines of the stage, from its end, and all lines. */
    fputs("stage   rank  blocks   params    memory  depth  slots  versions "
          "recompute  work\n",
          table);
    for (int s = 0; s < summary->n_stages; s++)
        print_stage(table, summary, s);
    tool_table_end(table, out);
    fputc('\n', out);
    print_swap(out, summary);
}

static void keep_summary(struct progress *progress,
                         const struct vp_run_summary *summary)
{
    progress->asp = summary->asp;
    progress->pipeline = summary->n_stages > 1 || summary->n_members > 1;
    progress->n_stages = summary->n_stages;
    progress->output = summary->output;
    progress->n_steps = summary->n_steps;
    progress->n_busy = summary->n_ranks * summary->n_threads;
    progress->n_cores = summary->n_cores;
    progress->bubble_simulated = summary->bubble_simulated;
    progress->bubble_theory = summary->bubble_theory;
    progress->unigram_loss = summary->unigram_loss;
    for (int s = 0; s < summary->n_stages; s++)
        progress->stages[s] = (struct progress_stage){
            .first_rank = summary->stages[s].first_rank,
            .n_ranks = summary->stages[s].n_ranks,
            .n_bytes = summary->stages[s].memory->total,
        };
}

static const char *unit(const struct progress *progress)
{
    return progress->asp ? "minibatches" : "updates";
}

void progress_start(struct progress *progress,
                    const struct vp_run_summary *summary)
{
    FILE *out = progress->out;
    char params[32], tokens[32], flops[32], steps[32] = "";

    keep_summary(progress, summary);
    tool_count_text((double)summary->n_params, params, sizeof(params));
    tool_count_text((double)summary->tokens_per_step, tokens, sizeof(tokens));
    tool_flops_text(summary->gflops_per_step * 1e9, flops, sizeof(flops));
    if (summary->n_steps > 0)
        snprintf(steps, sizeof(steps), "%lld ", (long long)summary->n_steps);
    tool_print(out, 0, LABEL,
               "model     %s: %lld blocks, %s parameters\n"
               "data      %s\n",
               summary->model, (long long)summary->n_blocks, params,
               summary->data);
    if (summary->forward_only)
        tool_print(out, 0, LABEL,
                   "work      forward only: the held-out data, nothing is "
                   "trained\n");
    else
        tool_print(out, 0, LABEL,
                   "work      %s%s of %s tokens and %s, %d thread%s%s\n", steps,
                   unit(progress), tokens, flops, summary->n_threads,
                   summary->n_threads == 1 ? "" : "s",
                   progress->pipeline ? " per rank" : "");
    if (progress->pipeline)
        print_pipeline(out, summary);
    /* Details of memory only for one stage and for dry runs. */
    for (int s = 0; s < summary->n_stages; s++)
        if (!progress->pipeline || (!summary->output && !summary->forward_only))
            print_memory(out, summary->stages[s].memory, s);
    if (isfinite(summary->unigram_loss))
        tool_print(out, 0, LABEL,
                   "to beat   loss %.4f, the best guess without context\n",
                   summary->unigram_loss);
    if (summary->output)
        fprintf(out, "output    %s\n", summary->output);
    if (summary->resumed > 0)
        fprintf(out, "Resumed from checkpoint step %lld\n",
                (long long)summary->resumed);
    if (summary->missing)
        fprintf(out, "this machine lacks: %s\n", summary->missing);
    tool_flush(out);
}

/* ---- Events ------------------------------------------------------------- */

void progress_plan(struct progress *progress,
                   const struct vp_run_summary *summary)
{
    keep_summary(progress, summary);
}

void progress_stages(struct progress *progress,
                     const struct vp_stage_stats *stats)
{
    for (int s = 0; s < progress->n_stages; s++) {
        struct progress_stage *stage = &progress->stages[s];
        int64_t busy_ns = stats[s].forward_ns + stats[s].backward_ns +
                          stats[s].update_ns;

        stage->busy = MEMORY * stage->busy +
                      (double)(busy_ns - stage->busy_ns) * 1e-9;
        stage->busy_ns = busy_ns;
        stage->n_forward = stats[s].n_forward;
        stage->n_backward = stats[s].n_backward;
    }
}

void progress_step(struct progress *progress,
                   const struct vp_step_report *report)
{
    bool last = report->step == report->n_steps;

    progress->steps = MEMORY * progress->steps + 1.0;
    progress->seconds = MEMORY * progress->seconds + report->seconds;
    progress->tokens = MEMORY * progress->tokens + (double)report->n_tokens;
    progress->flops = MEMORY * progress->flops + report->flops;
    progress->waited = MEMORY * progress->waited +
                       report->bubble * report->seconds;
    if (progress->terminal) {
        if (last || vp_clock_ns() - progress->drawn_ns >= DRAW_NS)
            draw(progress, report);
    } else if (last || report->step == 1 ||
               report->step % progress->every == 0) {
        print_line(progress, report);
    }
}

void progress_eval(struct progress *progress, int64_t step, int64_t n_batches,
                   double loss)
{
    char what[48] = "no labels in";

    progress->eval_loss = loss;
    if (isfinite(loss))
        snprintf(what, sizeof(what), "loss %.4f over", loss);
    clear_line(progress);
    tool_print(progress->out, 0, LABEL, "eval at step %lld: %s %lld batch%s\n",
               (long long)step, what, (long long)n_batches,
               n_batches == 1 ? "" : "es");
    tool_flush(progress->out);
}

void progress_detail(struct progress *progress, int rank, const char *line)
{
    if (progress->terminal && !progress->details)
        return;
    clear_line(progress);
    tool_print(progress->out, 0, LABEL, "[%d] %s\n", rank, line);
}

void progress_notice(struct progress *progress, const char *line)
{
    clear_line(progress);
    tool_print(progress->out, 0, LABEL, "%s\n", line);
    tool_flush(progress->out);
}

void progress_warning(struct progress *progress, const char *line)
{
    clear_line(progress);
    fflush(progress->out);
    fprintf(stderr, "%s\n", line);
}

/* Also reports threads that shared cores: theory excludes waits for cores. */
static void print_bubble(const struct progress *progress,
                         const struct vp_run_result *result)
{
    char shared[64] = "";

    if (progress->n_busy > progress->n_cores)
        snprintf(shared, sizeof(shared), "; %d threads shared %d core%s",
                 progress->n_busy, progress->n_cores,
                 progress->n_cores == 1 ? "" : "s");
    tool_print(progress->out, 0, LABEL,
               "bubble    measured %.1f %%, simulated %.1f %%, in theory %.1f "
               "%%%s\n",
               100.0 * result->bubble, 100.0 * progress->bubble_simulated,
               100.0 * progress->bubble_theory, shared);
}

static int64_t counted_ns(const struct vp_stage_stats *stats)
{
    return stats->forward_ns + stats->backward_ns + stats->reduce_ns +
           stats->update_ns + stats->wait_ns + stats->receive_ns +
           stats->send_ns + stats->message_ns;
}

/* Returns the time of a stage's ranks that no counter covers, in percent of one
 * rank's time. Of stages that share a rank, only the last one has it; returns a
 * negative number for the others. */
static double other_share(const struct progress *progress,
                          const struct vp_run_result *result, int s)
{
    const struct progress_stage *stages = progress->stages;
    double left = 100.0 * stages[s].n_ranks * result->seconds;

    for (int i = 0; i < progress->n_stages; i++) {
        if (stages[i].first_rank != stages[s].first_rank)
            continue;
        if (i > s)
            return -1.0;
        left -= (double)counted_ns(&result->stats[i]) * 1e-7;
    }
    return left > 0.0 ? left / result->seconds / stages[s].n_ranks : 0.0;
}

static void print_share(FILE *out, double all_ns, int64_t ns, int width)
{
    fprintf(out, "%*.1f %%", width, 100.0 * (double)ns / all_ns);
}

static void print_shares(FILE *out, const struct progress *progress,
                         const struct vp_run_result *result, int s)
{
    const struct vp_stage_stats *stats = &result->stats[s];
    double all_ns = result->seconds * 1e9 * progress->stages[s].n_ranks;
    double other = other_share(progress, result, s);

    fprintf(out, "%5d", s);
    print_share(out, all_ns, stats->forward_ns, 6);
    print_share(out, all_ns, stats->backward_ns, 7);
    print_share(out, all_ns, stats->reduce_ns, 6);
    print_share(out, all_ns, stats->update_ns, 6);
    print_share(out, all_ns, stats->wait_ns, 6);
    print_share(out, all_ns, stats->receive_ns, 6);
    print_share(out, all_ns, stats->send_ns + stats->message_ns, 6);
    if (other < 0.0)
        fprintf(out, "%8s", "-");
    else
        fprintf(out, "%6.1f %%", other);
    fprintf(out, "%7.1f MB\n", (double)stats->bytes_sent * 1e-6);
}

/* Prints the shares of every stage's time; the rows of a rank add up to 100
 * %. */
static void print_stages(const struct progress *progress,
                         const struct vp_run_result *result)
{
    FILE *table;

    if (result->seconds <= 0.0)
        return; /* no step was trained */
    fputc('\n', progress->out);
    table = tool_table_begin(progress->out);
    fputs("stage forward backward  reduce  update    wait receive    send"
          "   other      sent\n",
          table);
    for (int s = 0; s < progress->n_stages; s++)
        print_shares(table, progress, result, s);
    tool_table_end(table, progress->out);
}

static void print_timeline(const struct progress *progress,
                           const struct vp_run_result *result)
{
    char *text;

    if (result->seconds <= 0.0)
        return;
    if (vp_trace_terminal(result->trace, terminal_width(progress),
                          tool_colour(progress->out), &text) != VP_OK)
        return;
    fprintf(progress->out, "\nthe last minibatches\n\n%s", text);
    free(text);
}

/* Prints the label and program of a command for the user to type. */
static void put_program(const struct progress *progress, const char *label)
{
    fprintf(progress->out, "%-10s", label);
    vp_command_write_word(progress->out, tool_program());
}

/* Prints " train CONFIG": the user file, or the copy in the run folder. */
static void put_train(const struct progress *progress)
{
    char path[1024 + 16];

    snprintf(path, sizeof(path), "%s/config.yml", progress->output);
    fputs(" train ", progress->out);
    vp_command_write_word(progress->out,
                          progress->config ? progress->config : path);
}

/* Prints the command that resumes the run. */
static void print_resume(const struct progress *progress)
{
    fputc('\n', progress->out);
    put_program(progress, "go on");
    put_train(progress);
    fputs(" --resume ", progress->out);
    vp_command_write_word(progress->out, progress->output);
    fputc('\n', progress->out);
}

static void print_advice(const struct progress *progress,
                         const struct vp_run_result *result)
{
    if (result->n_left > 0)
        print_resume(progress);
    else
        fputc('\n', progress->out);
    put_program(progress, "try next");
    fprintf(progress->out, " trace %s        (report.html shows it, too)\n",
            progress->output);
    put_program(progress, "");
    fputs(" schedule zb-h1 --stages 4 --minibatches 8\n", progress->out);
    put_program(progress, "");
    put_train(progress);
    fputs(" --dry-run\n", progress->out);
}

/* Prints the steps of this process; after a resume also those of the run. */
static void print_work(const struct progress *progress,
                       const struct vp_run_result *result)
{
    FILE *out = progress->out;
    char tokens[32], flops[32], all[48] = "";

    if (result->n_trained == 0 && !result->interrupted) {
        tool_print(out, 0, LABEL,
                   "done      nothing: %lld %s are trained already, and %s "
                   "ends the run at %lld; raise it to go on\n",
                   (long long)result->n_steps, unit(progress), result->limit,
                   (long long)progress->n_steps);
        return;
    }
    if (result->n_trained < result->n_steps)
        snprintf(all, sizeof(all), " (%lld in all)",
                 (long long)result->n_steps);
    tool_count_text(result->tokens_per_second, tokens, sizeof(tokens));
    tool_flops_text(result->gflops_per_second * 1e9, flops, sizeof(flops));
    tool_print(out, 0, LABEL, "%s  %lld %s%s in %.1f s, %s tokens/s, %s/s\n",
               result->interrupted ? "stopped " : "done    ",
               (long long)result->n_trained, unit(progress), all,
               result->seconds, tokens, flops);
}

/* Compares the held-out loss with the entropy of token frequencies, unless that
 * is 0: a text of one symbol has nothing to learn. */
static void print_learned(const struct progress *progress, double loss)
{
    double unigram = progress->unigram_loss;

    if (unigram > 0.0)
        tool_print(progress->out, 0, LABEL,
                   "learned   %s: held-out loss %.4f is %.3f of %.4f, the best "
                   "guess without context\n",
                   loss < unigram ? "yes" : "no", loss, loss / unigram,
                   unigram);
}

void progress_end(struct progress *progress, const struct vp_run_result *result)
{
    FILE *out = progress->out;

    progress_break(progress);
    print_work(progress, result);
    if (progress->pipeline && result->seconds > 0.0)
        print_bubble(progress, result);
    if (result->forecast)
        tool_print(out, 0, LABEL, "forecast  %s\n", result->forecast);
    if (isfinite(result->first_loss) && isfinite(result->last_loss))
        tool_print(out, 0, LABEL,
                   "loss      %.4f -> %.4f, means of the first and last "
                   "tenth\n",
                   result->first_loss, result->last_loss);
    if (isfinite(result->eval_loss))
        print_learned(progress, result->eval_loss);
    if (progress->pipeline) {
        print_stages(progress, result);
        print_timeline(progress, result);
    }
    print_advice(progress, result);
    tool_flush(out);
}
