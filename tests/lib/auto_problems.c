#include "lib/auto_problems.h"

#include "lib/checked_executor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- Helpers ------------------------------------------------------------ */

uint32_t auto_draw(uint32_t *counter, uint32_t n)
{
    uint32_t bits = vp_rng(13, VP_RNG_TEST, 0, (*counter)++, 0, 0).v[0];

    return vp_rng_below(bits, n);
}

double between(uint32_t *counter, double low, double high)
{
    return low + (high - low) * (double)auto_draw(counter, 1 << 20) /
                     (double)(1 << 20);
}

double makespan(const struct vp_schedule *schedule,
                const struct vp_sched_costs *costs)
{
    struct vp_timing timing;
    struct vp_err err = { .text = "" };
    double seconds;

    if (vp_simulate(schedule, costs, &timing, &err) != VP_OK)
        fail_msg("%s", err.text);
    seconds = timing.makespan;
    vp_timing_release(&timing);
    return seconds;
}

/* Returns the memory that a rank needs: all slots of its stages or, with
 * `in_use`, the most that are in use at once. */
static double memory_of(const struct vp_schedule *schedule, int rank,
                        const struct vp_sched_limits *limits)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    enum vp_action_kind last = schedule->split ? VP_ACTION_W : VP_ACTION_B;
    double owned = 0.0, used = 0.0, most = 0.0;

    for (int i = 0; i < list->n_stages; i++)
        owned += schedule->stages[list->stages[i]].n_slots *
                 (limits->stage ? limits->stage[list->stages[i]] : 1.0);
    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *a = &list->actions[i];
        double size = limits->stage ? limits->stage[a->stage] : 1.0;

        used += a->kind == VP_ACTION_F ? size : 0.0;
        most = used > most ? used : most;
        used -= a->kind == last ? size : 0.0;
    }
    return limits->in_use ? most : owned;
}

bool fits(const struct vp_schedule *schedule,
          const struct vp_sched_limits *limits)
{
    for (int r = 0; limits && limits->rank && r < schedule->n_ranks; r++)
        if (memory_of(schedule, r, limits) > limits->rank[r] + 1e-9)
            return false;
    return true;
}

void check_auto(const struct vp_schedule *schedule,
                const struct vp_sched_config *config)
{
    struct vp_err err = { .text = "" };
    const char *why = NULL;

    if (vp_schedule_validate(schedule, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_true(fits(schedule, config->limits));
    assert_string_equal(schedule->name, "auto");
    if (cx_run(schedule, 7, &why) != CX_DONE)
        fail_msg("%s", why);
}

/* ---- Random problems ---------------------------------------------------- */

/* Draws stages with forwards of about half a unit, and backwards and weight
 * gradients in proportion. Stages differ by up to `spread`. */
static void random_stages(struct random_case *c, double spread,
                          uint32_t *counter)
{
    double b = between(counter, 0.8, 1.4), w = between(counter, 0.5, 1.1);
    double link = auto_draw(counter, 2) ? between(counter, 0.0, 0.2) : 0.0;

    for (int s = 0; s < 2 * c->n_ranks; s++) {
        double f = 0.5 * between(counter, 1.0 - spread, 1.0 + spread);

        c->half[s] = (struct vp_stage_costs){
            .f = f, .b = f * b, .w = f * w, .r = f, .act = link, .grad = link
        };
    }
    for (int s = 0; s < c->n_ranks; s++) {
        const struct vp_stage_costs *x = &c->half[2 * s];

        c->whole[s] = (struct vp_stage_costs){ .f = x[0].f + x[1].f,
                                               .b = x[0].b + x[1].b,
                                               .w = x[0].w + x[1].w,
                                               .r = x[0].r + x[1].r,
                                               .act = link,
                                               .grad = link };
        c->sizes[s] = 2.0;
    }
}

void random_problem(struct random_case *c, int n_ranks, int n_mb,
                    uint32_t *counter)
{
    *c = (struct random_case){ .n_ranks = n_ranks, .n_mb = n_mb };
    random_stages(c, between(counter, 0.0, 0.5), counter);
    c->costs[0] = (struct vp_sched_costs){ .stages = c->whole };
    c->costs[1] = (struct vp_sched_costs){ .stages = c->half };
    c->limits[0] = (struct vp_sched_limits){ c->limit, c->sizes, true };
    c->limits[1] = (struct vp_sched_limits){ c->limit, NULL, true };
}

struct vp_sched_config config_of(const struct random_case *c, int place,
                                 const char *name)
{
    return (struct vp_sched_config){ .name = name,
                                     .n_stages = c->n_ranks,
                                     .n_chunks = place == 0 ? 1 : 2,
                                     .v_shape = place == 2,
                                     .n_mb = c->n_mb,
                                     .costs = &c->costs[place > 0],
                                     .limits = &c->limits[place > 0] };
}

/* ---- Comparison with named schedules ------------------------------------ */

void random_extras(struct random_case *c, int n, uint32_t *counter)
{
    for (int i = 0; i < 2; i++) {
        c->costs[i].latency = n % 2 ? between(counter, 0.0, 0.3) : 0.0;
        c->costs[i].one_port = n % 3 == 1;
        c->costs[i].send_blocks = n % 5 == 1;
        c->costs[i].capacity = n % 4 == 3 ? 0.5 * c->n_ranks : 0.0;
        c->limits[i].in_use = n % 2 == 0;
    }
    for (int s = 0; s < 2 * c->n_ranks; s++) {
        c->half[s].update = between(counter, 0.0, 1.0);
        c->half[s].reduce = between(counter, 0.0, 1.0);
        c->half[s].act_copy = n % 7 == 1 ? 0.1 : 0.0;
        c->recompute[s] = n % 3 == 0 && auto_draw(counter, 2);
    }
    for (int s = 0; s < c->n_ranks; s++) {
        c->whole[s].update = c->half[2 * s].update + c->half[2 * s + 1].update;
        c->whole[s].reduce = c->half[2 * s].reduce;
        c->sizes[s] = between(counter, 1.5, 2.5);
        c->limit[s] = n % 6 == 5 ? 1e9
                                 : between(counter, 2.5, 3.0 * c->n_ranks);
    }
}
