/* Stages section: times and memory of each stage. */
#include "report/section.h"

#include "base/memory.h"
#include "base/value.h"
#include "draw/html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROW = 30, LEFT = 70, BAR = 640, RIGHT = 120 };

/* ---- Times -------------------------------------------------------------- */

/* Returns the idle share of the time of the stage's ranks; NAN: unknown. */
static double idle_of(const struct vp_trace *trace,
                      const struct vp_trace_times *times, int stage)
{
    double sum = 0.0;
    int n = 0;

    for (int r = 0; r < trace->n_ranks; r++)
        if (vp_trace_has_stage(trace, r, stage)) {
            sum += times[r].bubble;
            n++;
        }
    return n > 0 ? sum / n : (double)NAN;
}

static void put_ranks(struct vp_strbuf *out, const struct vp_trace *trace,
                      int stage)
{
    int n = 0;

    vp_strbuf_adds(out, "<td>");
    for (int r = 0; r < trace->n_ranks; r++)
        if (vp_trace_has_stage(trace, r, stage)) {
            if (n == 8)
                vp_strbuf_adds(out, ", ...");
            else if (n < 8)
                vp_strbuf_addf(out, "%s%d", n ? ", " : "",
                               trace->ranks[r].number);
            n++;
        }
    vp_strbuf_adds(out, "</td>");
}

static void put_stage(struct vp_strbuf *out, const struct vp_page_run *run,
                      const struct vp_trace_times *times, int s, double mean)
{
    const struct vp_limits *limits = &run->limits;
    const struct vp_stage_work *work = &limits->stages[s];
    const struct vp_metrics_list *memory = &run->data.last.memory;
    double seconds = vp_stage_work_seconds(work);

    vp_strbuf_addf(out, "<tr%s><th scope=\"row\">%d</th>",
                   s == limits->slowest && limits->slowest_ratio >= 1.15
                       ? " class=\"slow\""
                       : "",
                   s);
    put_ranks(out, &run->data.trace, s);
    if (work->n_blocks > 0)
        vp_part_number(out, "%d", work->n_blocks);
    else
        vp_part_number(out, "-");
    vp_part_number(out, "%.3g", 1e3 * work->f);
    vp_part_number(out, "%.3g", 1e3 * work->r);
    vp_part_number(out, "%.3g", 1e3 * (work->b + work->w));
    vp_part_number(out, "%.3g", 1e3 * seconds);
    vp_part_number(out, "%+.0f %%",
                   mean > 0.0 ? 100.0 * (seconds / mean - 1.0) : 0.0);
    vp_part_real(out, "%.1f %%", 100.0 * idle_of(&run->data.trace, times, s));
    vp_part_bytes(out, s < memory->n ? memory->at[s] : (double)NAN);
    vp_strbuf_adds(out, "</tr>\n");
}

static void put_times(struct vp_strbuf *out, const struct vp_page_run *run)
{
    const struct vp_limits *limits = &run->limits;
    struct vp_trace_times *times = calloc((size_t)run->data.trace.n_ranks + 1,
                                          sizeof(*times));
    double mean = 0.0;

    out->failed |= !times;
    if (!times)
        return;
    vp_trace_sum(&run->data.trace, times);
    for (int s = 0; s < limits->n_stages; s++)
        mean += vp_stage_work_seconds(&limits->stages[s]) / limits->n_stages;
    vp_strbuf_adds(out,
                   "<div class=\"scroll\"><table><thead><tr>"
                   "<th scope=\"col\">Stage</th><th scope=\"col\">Rank</th>"
                   "<th scope=\"col\" class=\"num\">Blocks</th>"
                   "<th scope=\"col\" class=\"num\">Forward ms</th>"
                   "<th scope=\"col\" class=\"num\">Recompute ms</th>"
                   "<th scope=\"col\" class=\"num\">Backward ms</th>"
                   "<th scope=\"col\" class=\"num\">Minibatch ms</th>"
                   "<th scope=\"col\" class=\"num\">Against mean</th>"
                   "<th scope=\"col\" class=\"num\">Idle</th>"
                   "<th scope=\"col\" class=\"num\">Memory</th>"
                   "</tr></thead><tbody>\n");
    for (int s = 0; s < limits->n_stages; s++)
        put_stage(out, run, times, s, mean);
    vp_strbuf_adds(out,
                   "</tbody></table></div>\n<p class=\"hint\">Means over the "
                   "last minibatches of the run. Idle: the share of its "
                   "ranks' time without work.</p>\n");
    free(times);
}

/* ---- Memory ------------------------------------------------------------- */

static double stage_total(const struct vp_run_data *run, int s)
{
    double sum = 0.0;

    for (int k = 0; k < VP_N_MEMORY_KINDS; k++)
        sum += (double)run->memory[k][s];
    return sum;
}

/* Returns the bytes of the longest bar, or `limit` if that is larger. */
static double longest_bar(const struct vp_run_data *run, int n, int64_t limit)
{
    double most = (double)limit;

    for (int s = 0; s < n; s++)
        most = fmax(most, stage_total(run, s));
    return most > 0.0 ? most : 1.0;
}

static void put_bar(struct vp_strbuf *out, const struct vp_run_data *run, int s,
                    double scale)
{
    double x = LEFT;
    char text[VP_BYTES_TEXT];
    int y = s * ROW;

    vp_strbuf_addf(
        out, "<text class=\"label end\" x=\"%d\" y=\"%d\">stage %d</text>",
        LEFT - 8, y + 19, s);
    for (int k = 0; k < VP_N_MEMORY_KINDS; k++) {
        double width = (double)run->memory[k][s] * scale;

        if (run->memory[k][s] == 0)
            continue;
        vp_bytes_text(run->memory[k][s], text, sizeof(text));
        vp_strbuf_addf(out,
                       "<rect class=\"m%d\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                       "height=\"%d\"><title>stage %d, %s: %s</title></rect>",
                       k, x, y + 4, width, ROW - 8, s, vp_memory_kinds[k],
                       text);
        x += width;
    }
    vp_bytes_text((int64_t)stage_total(run, s), text, sizeof(text));
    vp_strbuf_addf(out, "<text class=\"label\" x=\"%.1f\" y=\"%d\">%s</text>\n",
                   x + 8, y + 19, text);
}

static void put_memory_table(struct vp_strbuf *out,
                             const struct vp_run_data *run, int n)
{
    vp_strbuf_adds(out, "<details><summary>Memory as a table</summary><div "
                        "class=\"scroll\"><table><thead><tr><th "
                        "scope=\"col\">Stage</th>");
    for (int k = 0; k < VP_N_MEMORY_KINDS; k++)
        vp_strbuf_addf(out, "<th scope=\"col\" class=\"num\">%s</th>",
                       vp_memory_kinds[k]);
    vp_strbuf_adds(out, "</tr></thead><tbody>\n");
    for (int s = 0; s < n; s++) {
        vp_strbuf_addf(out, "<tr><th scope=\"row\">%d</th>", s);
        for (int k = 0; k < VP_N_MEMORY_KINDS; k++)
            vp_part_bytes(out, (double)run->memory[k][s]);
        vp_strbuf_adds(out, "</tr>\n");
    }
    vp_strbuf_adds(out, "</tbody></table></div></details>\n");
}

static void put_memory(struct vp_strbuf *out, const struct vp_run_data *run)
{
    const char *text = vp_run_data_config(run, "memory_limit");
    int64_t limit = 0;
    int n = vp_plan_n_stages(&run->plan);
    double scale;

    if (!text || !vp_text_to_bytes(text, &limit))
        limit = 0;
    n = n < VP_MAX_STAGES ? n : VP_MAX_STAGES;
    scale = BAR / longest_bar(run, n, limit);
    vp_strbuf_adds(out, "<h4>Memory by kind</h4>\n<p class=\"legend\">");
    for (int k = 0; k < VP_N_MEMORY_KINDS; k++) {
        char swatch[] = "m0";

        swatch[1] = (char)('0' + k);
        vp_part_key(out, swatch, vp_memory_kinds[k]);
    }
    if (limit > 0)
        vp_part_key(out, "limit", "memory_limit");
    vp_strbuf_addf(out,
                   "</p>\n<div class=\"scroll\"><svg class=\"memory\" "
                   "viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Memory of "
                   "every stage by kind\">\n",
                   LEFT + BAR + RIGHT, n * ROW);
    for (int s = 0; s < n; s++)
        put_bar(out, run, s, scale);
    if (limit > 0)
        vp_strbuf_addf(out, "<path class=\"limit\" d=\"M%.1f 0V%d\"/>",
                       LEFT + (double)limit * scale, n * ROW);
    vp_strbuf_adds(out, "</svg></div>\n");
    put_memory_table(out, run, n);
}

void vp_section_stages(struct vp_strbuf *out, const struct vp_page_run *run)
{
    if (run->data.has_trace && run->limits.n_stages > 0)
        put_times(out, run);
    if (run->data.has_memory)
        put_memory(out, &run->data);
    if (!run->data.has_trace && !run->data.has_memory)
        vp_strbuf_adds(out,
                       "<p class=\"hint\">Neither trace.json nor plan.json "
                       "says anything about stages.</p>\n");
}
