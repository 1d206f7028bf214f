/* Prints the tables of `vpipe plan`. */
#include "plan.h"

#include "base/memory.h"
#include "tool.h"

#include <string.h>

/* ---- Numbers ------------------------------------------------------------ */

struct text {
    char at[VP_BYTES_TEXT];
};

static struct text bytes_of(int64_t bytes)
{
    struct text out;

    if (bytes == 0)
        snprintf(out.at, sizeof(out.at), "-");
    else
        vp_bytes_text(bytes, out.at, sizeof(out.at));
    return out;
}

static struct text seconds_of(double seconds)
{
    struct text out;

    if (seconds >= 1.0)
        snprintf(out.at, sizeof(out.at), "%.3g s", seconds);
    else if (seconds >= 1e-3)
        snprintf(out.at, sizeof(out.at), "%.3g ms", 1e3 * seconds);
    else
        snprintf(out.at, sizeof(out.at), "%.3g us", 1e6 * seconds);
    return out;
}

static double rate_of(const struct vp_planning *planning, double per_mb)
{
    return (double)vp_planning_batch(planning) / per_mb;
}

/* ---- Stages ------------------------------------------------------------- */

static void print_stage(FILE *out, const struct vp_search_result *result, int s,
                        int first)
{
    const struct vp_memory *m = &result->prices[s].memory;
    int n = result->plan.partition ? result->plan.partition[s] : 0;
    double f = result->costs[s].f;
    double again = f > 0.0 ? 100.0 * result->recomputed[s] / f : 0.0;

    fprintf(out,
            "%5d %4d %3d-%-3d %9s %6d %5.0f%% %9.0f%% %9s %9s %9s %9s %9s "
            "%9s %9s %9s\n",
            s, result->rank[s], first, first + n - 1,
            seconds_of(result->time.stage_busy[s]).at, result->n_slots[s],
            100.0 - again, again, bytes_of(result->prices[s].swap_bytes).at,
            bytes_of(m->total).at, bytes_of(m->weights).at,
            bytes_of(m->gradients).at, bytes_of(m->moments).at,
            bytes_of(m->activations).at, bytes_of(m->boundary).at,
            bytes_of(m->work).at);
}

void plan_print_stages(const struct vp_planning *planning,
                       const struct vp_search_result *result)
{
    const struct vp_plan *plan = &result->plan;
    FILE *out = tool_table_begin(stdout);
    char schedule[32];
    int first = 0;

    vp_planning_schedule_text(plan, schedule, sizeof(schedule));
    fprintf(out,
            "%5s %4s %7s %9s %6s %6s %10s %9s %9s %9s %9s %9s %9s %9s %9s\n",
            "stage", "rank", "blocks", "time", "flight", "kept", "recomputed",
            "swapped", "memory", "weights", "gradients", "moments", "activ.",
            "boundary", "work");
    for (int s = 0; s < result->n_stages; s++) {
        print_stage(out, result, s, first);
        first += plan->partition ? plan->partition[s] : 0;
    }
    tool_table_end(out, stdout);
    tool_print(
        stdout, 0, 2,
        "time: of one minibatch; flight: minibatches kept at once; kept, "
        "recomputed: share of the forward pass; swapped: bytes of a "
        "minibatch\n");
    tool_print(
        stdout, 0, 2,
        "forecast: %s%s; %s per %s, %.4g samples/s, bubble %.1f %%, "
        "%s on the largest rank\n",
        schedule,
        plan->recompute_in_b    ? ", recomputing inside of backward"
        : plan->early_recompute ? ", recomputing before the gradient "
                                  "arrives"
                                : "",
        seconds_of(result->time.step).at,
        vp_generator_find(plan->schedule)->stream ? "minibatch" : "update",
        rate_of(planning, result->time.per_mb), 100.0 * result->time.bubble,
        bytes_of(vp_search_largest_rank(result)).at);
}

/* ---- Planners ----------------------------------------------------------- */

static void print_planner(FILE *out, const struct vp_planning *planning,
                          const struct vp_planner *planner,
                          const struct vp_search_result *result,
                          const struct vp_search_result *chosen)
{
    bool fits = vp_search_fits(result, vp_planning_input(planning)->limits);
    char schedule[32];

    vp_planning_schedule_text(&result->plan, schedule, sizeof(schedule));
    fprintf(out, "%-10s %-16s %10.4g %8.2f %8.1f%% %10s  %s\n", planner->name,
            schedule, rate_of(planning, result->time.per_mb),
            chosen->time.per_mb / result->time.per_mb,
            100.0 * result->time.bubble,
            bytes_of(vp_search_largest_rank(result)).at,
            fits ? "fits" : "does not fit");
}

void plan_print_planners(const struct vp_planning *planning,
                         const struct vp_search_result *result,
                         const char *planner)
{
    FILE *out;

    puts("");
    out = tool_table_begin(stdout);
    fprintf(out, "%-10s %-16s %10s %8s %9s %10s\n", "planner", "schedule",
            "samples/s", "speed", "bubble", "memory");
    for (int i = 0; vp_planner_at(i); i++) {
        const struct vp_planner *at = vp_planner_at(i);
        struct vp_search_result other;
        struct vp_err err;

        if (strcmp(at->name, planner) == 0) {
            print_planner(out, planning, at, result, result);
            continue;
        }
        if (at->make(vp_planning_search(planning), vp_planning_input(planning),
                     &other, &err) != VP_OK) {
            fprintf(out, "%-10s no plan: %.80s\n", at->name, err.text);
            continue;
        }
        print_planner(out, planning, at, &other, result);
        vp_search_result_release(&other);
    }
    tool_table_end(out, stdout);
}

/* ---- Other schedules ---------------------------------------------------- */

static bool is_best_of_its_name(const struct vp_search_result *result, int i)
{
    const struct vp_search_refusal *at = &result->refused[i];

    for (int k = 0; k < i; k++)
        if (strcmp(result->refused[k].schedule, at->schedule) == 0 &&
            result->refused[k].n_chunks == at->n_chunks)
            return false;
    return true;
}

static void print_refusal(const struct vp_search_result *result,
                          const struct vp_search_refusal *why)
{
    double slower = 100.0 * (why->seconds / result->time.per_mb - 1.0);
    char name[32];

    snprintf(name, sizeof(name), why->n_chunks > 2 ? "%s x%d" : "%s",
             why->schedule, why->n_chunks);
    switch (why->kind) {
    case VP_SEARCH_REFUSED:
        tool_print(stdout, 0, 17, "  %-14s %s\n", name, why->text);
        break;
    case VP_SEARCH_MEMORY:
        tool_print(stdout, 0, 17,
                   "  %-14s lacks %s in all, most on rank %d, with everything "
                   "recomputed\n",
                   name, bytes_of(why->bytes).at, why->rank);
        break;
    default:
        tool_print(stdout, 0, 17, "  %-14s %s per minibatch, %.1f %% slower\n",
                   name, seconds_of(why->seconds).at, slower);
    }
}

void plan_print_refused(const struct vp_search_result *result)
{
    bool any = false;

    for (int i = 0; i < result->n_refused; i++) {
        const struct vp_search_refusal *at = &result->refused[i];

        if (!is_best_of_its_name(result, i) ||
            (strcmp(at->schedule, result->plan.schedule) == 0 &&
             at->n_chunks == result->plan.n_chunks))
            continue;
        if (!any)
            puts("\nother schedules, each with its own best cuts:");
        any = true;
        print_refusal(result, at);
    }
}

/* ---- Memory ------------------------------------------------------------- */

void plan_print_dial(const struct vp_planning *planning,
                     const struct vp_dial_point *points, int n)
{
    int64_t memory = vp_planning_memory(planning);
    FILE *out;

    if (n == 0)
        return;
    tool_print(stdout, 0, 2, "\nspeed against memory; %s is the least\n",
               bytes_of(points[0].bytes).at);
    out = tool_table_begin(stdout);
    fprintf(out, "%10s %10s %8s %8s %11s  %s\n", "memory", "samples/s", "speed",
            "bubble", "recomputed", "schedule");
    for (int i = 0; i < n; i++) {
        bool here = memory > 0 && points[i].bytes <= memory &&
                    (i + 1 == n || points[i + 1].bytes > memory);

        fprintf(out, "%10s %10.4g %8.2f %7.1f%% %10.1f%%  %s%s\n",
                bytes_of(points[i].bytes).at,
                rate_of(planning, points[i].per_mb),
                points[n - 1].per_mb / points[i].per_mb,
                100.0 * points[i].bubble, 100.0 * points[i].recomputed,
                points[i].schedule, here ? "  <- this memory" : "");
    }
    tool_table_end(out, stdout);
}

/* Prints the speed of a new search relative to `result`, such as "1.05x", or
 * its error. */
static void print_one(struct vp_planning *planning, const char *what,
                      const struct vp_search_result *result)
{
    struct vp_search_input input = *vp_planning_input(planning);
    const struct vp_plan *known = &result->plan;
    struct vp_search_result more;
    struct vp_err err;

    input.known = &known;
    input.n_known = 1;
    if (vp_search_run(vp_planning_search(planning), &input, &more, &err) !=
        VP_OK) {
        tool_print(stdout, 0, 2, "%s: %s\n", what, err.text);
        return;
    }
    tool_print(stdout, 0, 2, "%s: %.3fx the speed (%s)\n", what,
               result->time.per_mb / more.time.per_mb, more.plan.schedule);
    vp_search_result_release(&more);
}

void plan_print_more(struct vp_planning *planning,
                     const struct vp_search_result *result)
{
    int64_t memory = vp_planning_memory(planning);

    puts("");
    if (memory > 0) {
        vp_planning_set_memory(planning, 2 * memory);
        print_one(planning, "twice the memory", result);
        vp_planning_set_memory(planning, memory);
    }
    if (vp_planning_scale_links(planning, 2.0) == VP_OK)
        print_one(planning, "twice the links", result);
    if (vp_planning_scale_links(planning, 1.0) != VP_OK)
        tool_print(stdout, 0, 2, "out of memory\n");
}
