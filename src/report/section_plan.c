/* Plan section: the plan, its forecast compared with the measurement, and moves
 * to other plans; and the section of events. */
#include "report/section.h"

#include "base/json.h"
#include "draw/html.h"

#include <math.h>
#include <string.h>

/* ---- The plan ----------------------------------------------------------- */

/* Returns true for keys of plan.json that other tables or pictures show. */
static bool is_shown_elsewhere(const char *key)
{
    return strcmp(key, "forecast") == 0 || strcmp(key, "history") == 0 ||
           strcmp(key, "version") == 0;
}

static void put_plan(struct vp_strbuf *out, struct vp_page_run *run)
{
    enum { LONG = 400 };

    vp_strbuf_adds(out,
                   "<div class=\"scroll\"><table class=\"pairs\"><tbody>\n");
    for (const struct vp_yaml_node *at = run->data.plan_root->child; at;
         at = at->next) {
        const char *text;

        if (is_shown_elsewhere(at->key))
            continue;
        text = vp_node_text(&run->data.arena, at);
        vp_strbuf_adds(out, "<tr><th scope=\"row\">");
        vp_html_text(out, at->key);
        vp_strbuf_adds(out, "</th><td>");
        vp_html_textf(out, "%.*s%s", LONG, text,
                      strlen(text) > LONG ? " ..." : "");
        vp_strbuf_adds(out, "</td></tr>\n");
    }
    vp_strbuf_adds(out, "</tbody></table></div>\n");
}

/* ---- The forecast ------------------------------------------------------- */

static void put_forecast_row(struct vp_strbuf *out, const char *name,
                             double forecast, double measured, double scale,
                             const char *fmt)
{
    vp_strbuf_addf(out, "<tr><th scope=\"row\">%s</th>", name);
    vp_part_real(out, fmt, forecast * scale);
    vp_part_real(out, fmt, measured * scale);
    if (forecast > 0.0 && isfinite(measured))
        vp_part_number(out, "%+.1f %%", 100.0 * (measured / forecast - 1.0));
    else
        vp_part_number(out, "-");
    vp_strbuf_adds(out, "</tr>\n");
}

static void put_forecast(struct vp_strbuf *out, const struct vp_run_data *run)
{
    const struct vp_metrics_record *f = &run->forecast;

    if (f->step < 0)
        return;
    vp_strbuf_addf(out,
                   "<h4>Forecast and measurement</h4>\n<p class=\"hint\">The "
                   "forecast is %s.</p>\n<div class=\"scroll\"><table><thead>"
                   "<tr><th scope=\"col\"></th><th scope=\"col\" "
                   "class=\"num\">Forecast</th><th scope=\"col\" "
                   "class=\"num\">Measured</th><th scope=\"col\" "
                   "class=\"num\">Difference</th></tr></thead><tbody>\n",
                   strcmp(f->forecast_by, "plan") == 0
                       ? "that of the plan"
                       : "simulated from the times of the first steps");
    put_forecast_row(out, "Time of a step", f->step_seconds_forecast,
                     f->step_seconds_measured, 1e3, "%.4g ms");
    put_forecast_row(out, "Bubble", f->bubble_forecast, f->bubble_measured,
                     100.0, "%.1f %%");
    vp_strbuf_adds(out, "</tbody></table></div>\n");
}

/* ---- Moves to other plans ----------------------------------------------- */

static void put_partition(struct vp_strbuf *out,
                          const struct vp_metrics_list *list)
{
    vp_strbuf_adds(out, "<td>[");
    for (int i = 0; i < list->n; i++)
        vp_strbuf_addf(out, "%s%.0f", i ? ", " : "", list->at[i]);
    vp_strbuf_adds(out, "]</td>");
}

static void put_moves(struct vp_strbuf *out, const struct vp_run_data *run)
{
    if (run->n_moves == 0)
        return;
    vp_strbuf_adds(out,
                   "<h4>Moves to another plan</h4>\n<div class=\"scroll\">"
                   "<table><thead><tr><th scope=\"col\" class=\"num\">After "
                   "step</th><th scope=\"col\">Why</th><th scope=\"col\">"
                   "Partition from then on</th><th scope=\"col\" "
                   "class=\"num\">Blocks moved</th><th scope=\"col\" "
                   "class=\"num\">Bytes</th><th scope=\"col\" "
                   "class=\"num\">Time</th></tr></thead><tbody>\n");
    for (int i = 0; i < run->n_moves; i++) {
        const struct vp_metrics_record *move = &run->moves[i];

        vp_strbuf_adds(out, "<tr>");
        vp_part_number(out, "%lld", (long long)move->step);
        vp_part_cell(out, move->why);
        put_partition(out, &move->partition);
        vp_part_real(out, "%.0f", move->blocks_moved);
        vp_part_bytes(out, move->bytes_moved);
        vp_part_real(out, "%.3g s", move->move_seconds);
        vp_strbuf_adds(out, "</tr>\n");
    }
    vp_strbuf_adds(out, "</tbody></table></div>\n");
}

void vp_section_plan(struct vp_strbuf *out, struct vp_page_run *run)
{
    if (run->data.has_plan)
        put_plan(out, run);
    else
        vp_strbuf_adds(out,
                       "<p class=\"hint\">There is no plan.json that could "
                       "be read.</p>\n");
    put_forecast(out, &run->data);
    put_moves(out, &run->data);
}

/* ---- Events ------------------------------------------------------------- */

/* Insertion sort, because it is stable: events of the same step stay in the
 * order in which they happened. */
static void sort_by_step(const struct vp_run_event **events, int n)
{
    for (int i = 1; i < n; i++) {
        const struct vp_run_event *event = events[i];
        int k = i;

        for (; k > 0 && events[k - 1]->step > event->step; k--)
            events[k] = events[k - 1];
        events[k] = event;
    }
}

static void put_event(struct vp_strbuf *out, const struct vp_run_event *event)
{
    static const char *const kinds[] = {
        [VP_EVENT_CHECKPOINT] = "checkpoint",
        [VP_EVENT_RESUME] = "resume",
        [VP_EVENT_SKIPPED] = "skipped",
        [VP_EVENT_PLAN] = "plan",
        [VP_EVENT_NOTE] = "log",
    };

    vp_strbuf_adds(out, "<tr>");
    if (event->step >= 0)
        vp_part_number(out, "%lld", (long long)event->step);
    else
        vp_part_number(out, "-");
    vp_strbuf_addf(out, "<td><span class=\"tag %s\">%s</span></td>",
                   kinds[event->kind], kinds[event->kind]);
    vp_part_cell(out, event->text ? event->text : "");
    vp_strbuf_adds(out, "</tr>\n");
}

void vp_section_events(struct vp_strbuf *out, const struct vp_page_run *run)
{
    const struct vp_run_event *events[VP_RUN_DATA_EVENTS];
    int n = vp_run_data_n_kept(&run->data);

    if (n == 0) {
        vp_strbuf_adds(out, "<p class=\"hint\">No checkpoint, resume, skipped "
                            "update or warning.</p>\n");
        return;
    }
    for (int i = 0; i < n; i++)
        events[i] = vp_run_data_event(&run->data, i);
    sort_by_step(events, n);
    if (run->data.n_events > n)
        vp_strbuf_addf(out, "<p class=\"hint\">The last %d of %lld.</p>\n", n,
                       (long long)run->data.n_events);
    vp_strbuf_adds(out, "<div class=\"scroll tall\"><table><thead><tr><th "
                        "scope=\"col\" class=\"num\">Step</th><th "
                        "scope=\"col\">Kind</th><th scope=\"col\">Event</th>"
                        "</tr></thead><tbody>\n");
    for (int i = 0; i < n; i++)
        put_event(out, events[i]);
    vp_strbuf_adds(out, "</tbody></table></div>\n");
}
