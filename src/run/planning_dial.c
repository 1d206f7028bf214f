/* The dial: throughput of the best plan for one memory limit after another, as
 * points and as a drawing. */
#include "run/planning.h"

#include "base/memory.h"
#include "draw/palette.h"
#include "draw/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Points ------------------------------------------------------------- */

void vp_planning_schedule_text(const struct vp_plan *plan, char *out,
                               size_t n_bytes)
{
    bool v = vp_generator_find(plan->schedule)->v_shape || plan->schedule_v;

    if (plan->n_chunks > 1 && !v)
        snprintf(out, n_bytes, "%s x%d", plan->schedule, plan->n_chunks);
    else
        snprintf(out, n_bytes, "%s%s", plan->schedule,
                 plan->schedule_v ? " in a V" : "");
}

static void fill_point(const struct vp_search_result *result, int64_t bytes,
                       struct vp_dial_point *out)
{
    const struct vp_plan *plan = &result->plan;

    *out = (struct vp_dial_point){ .bytes = bytes,
                                   .per_mb = result->time.per_mb,
                                   .bubble = result->time.bubble,
                                   .recomputed = vp_search_recomputed(result) };
    vp_planning_schedule_text(plan, out->schedule, sizeof(out->schedule));
}

/* Returns limit `i`: geometric steps from the least memory that fits to the
 * memory of the fastest plan. */
static int64_t limit_at(int64_t least, int64_t most, int i)
{
    double share = (double)i / (VP_DIAL_MAX - 1);

    if (i == 0)
        return least;
    return i == VP_DIAL_MAX - 1
               ? most
               : (int64_t)((double)least *
                           pow((double)most / (double)least, share));
}

/* Finds the plan for a limit of `bytes`. `last`, the plan for the limit before,
 * is a candidate, and is replaced by the result. */
static enum vp_status find_point(struct vp_planning *planning, int64_t bytes,
                                 struct vp_search_result *last,
                                 struct vp_dial_point *out, struct vp_err *err)
{
    struct vp_search_input input = *vp_planning_input(planning);
    const struct vp_plan *known = &last->plan;
    struct vp_search_result next;

    vp_planning_set_memory(planning, bytes);
    input.known = &known;
    input.n_known = 1;
    VP_TRY(vp_search_run(vp_planning_search(planning), &input, &next, err));
    fill_point(&next, bytes, out);
    vp_search_result_release(last);
    *last = next;
    return VP_OK;
}

enum vp_status vp_planning_dial(struct vp_planning *planning,
                                struct vp_dial_point points[VP_DIAL_MAX],
                                int *n_out, struct vp_err *err)
{
    struct vp_search *search = vp_planning_search(planning);
    int64_t memory = vp_planning_memory(planning), least, most;
    struct vp_search_result result, fastest;
    enum vp_status st;

    *n_out = 0;
    vp_planning_set_memory(planning, 0);
    st = vp_search_run(search, vp_planning_input(planning), &fastest, err);
    if (st == VP_OK) {
        most = vp_search_largest_rank(&fastest);
        vp_search_result_release(&fastest);
        st = vp_search_least(search, vp_planning_input(planning), &least,
                             &result, err);
    }
    if (st == VP_OK) {
        for (int i = 0; i < VP_DIAL_MAX && st == VP_OK; i++) {
            if (i > 0 && limit_at(least, most, i) <= least)
                break; /* the fastest plan is also the smallest */
            st = find_point(planning, limit_at(least, most, i), &result,
                            &points[i], err);
            *n_out += st == VP_OK;
        }
        vp_search_result_release(&result);
    }
    vp_planning_set_memory(planning, memory);
    return st;
}

/* ---- Drawing ------------------------------------------------------------ */

enum {
    LEFT = 150,
    TOP = 76,
    ROW = 26,
    HIGH = 16,
    BAR = 420,
    RIGHT = 260,
    BOTTOM = 44,
};

enum vp_status vp_planning_dial_svg(const struct vp_dial_point *points, int n,
                                    const char *title, int64_t batch,
                                    int64_t chosen, char **text_out)
{
    struct vp_svg svg = VP_SVG_INIT;
    double most = 0.0;

    for (int i = 0; i < n; i++)
        if ((double)batch / points[i].per_mb > most)
            most = (double)batch / points[i].per_mb;
    vp_svg_begin(&svg, LEFT + BAR + RIGHT, TOP + n * ROW + BOTTOM);
    vp_svg_text(&svg, "title", 24, 30, "%s", title);
    vp_svg_text(&svg, "small", 24, 54, "memory of a rank");
    vp_svg_text(&svg, "small", LEFT, 54,
                "samples per second; right part: share of the work that is "
                "recomputation");
    for (int i = 0; i < n; i++) {
        double rate = (double)batch / points[i].per_mb;
        double width = BAR * rate / most, y = TOP + i * ROW;
        double again = width * points[i].recomputed;
        bool marked = chosen > 0 && points[i].bytes <= chosen &&
                      (i + 1 == n || points[i + 1].bytes > chosen);
        char bytes[VP_BYTES_TEXT];

        vp_bytes_text(points[i].bytes, bytes, sizeof(bytes));
        vp_svg_text(&svg, "end", LEFT - 12, y + 13, "%s%s", marked ? "> " : "",
                    bytes);
        vp_svg_box(&svg, &(struct vp_svg_box){ .x = LEFT,
                                               .y = y,
                                               .width = width - again,
                                               .height = HIGH,
                                               .radius = 2,
                                               .fill = VP_SIMULATED });
        vp_svg_box(&svg, &(struct vp_svg_box){
                             .x = LEFT + width - again,
                             .y = y,
                             .width = again,
                             .height = HIGH,
                             .fill = vp_palette[VP_HUE_RECOMPUTE].fill[1] });
        vp_svg_text(&svg, "small", LEFT + width + 8, y + 12,
                    "%.4g  %s, bubble %.1f %%", rate, points[i].schedule,
                    100.0 * points[i].bubble);
    }
    vp_svg_axis(&svg, LEFT, TOP + n * ROW + 8, BAR, most);
    return vp_svg_end(&svg, text_out);
}
