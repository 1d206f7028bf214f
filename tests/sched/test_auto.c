/* The schedule `auto` is close to the optimum where the optimum is known, and
 * never slower than a named schedule. */
#include "lib/auto_problems.h"
#include "lib/exhaustive.h"
#include "lib/schedlib.h"
#include "sched/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- Random problems ---------------------------------------------------- */

static bool same_place(const struct vp_schedule *schedule,
                       const struct vp_sched_config *config)
{
    if (schedule->n_stages != config->n_stages * config->n_chunks)
        return false;
    for (int s = 0; s < schedule->n_stages; s++) {
        int rank, n;

        vp_sched_place(config, s, &rank, &n);
        if (schedule->stages[s].first_rank != rank)
            return false;
    }
    return true;
}

/* The makespan of the shortest named schedule that has the same placement and
 * fits into memory; INFINITY if there is none. */
static double best_named(const struct vp_sched_config *config)
{
    const struct vp_generator *generator;
    double best = INFINITY;

    for (int i = 0; (generator = vp_generator_at(i)); i++) {
        struct vp_sched_config named = *config;
        struct vp_schedule schedule;

        named.name = generator->name;
        if (generator->planned || generator->stream ||
            generator->forward_only ||
            vp_schedule_make(&named, &schedule, NULL) != VP_OK)
            continue;
        if (same_place(&schedule, config) && fits(&schedule, config->limits))
            best = fmin(best, makespan(&schedule, config->costs));
        vp_schedule_release(&schedule);
    }
    return best;
}

static double time_auto(const struct random_case *c, int place)
{
    struct vp_sched_config config = config_of(c, place, "auto");
    struct vp_schedule schedule = make(&config);
    double seconds = makespan(&schedule, config.costs);

    check_auto(&schedule, &config);
    vp_schedule_release(&schedule);
    return seconds;
}

/* ---- Against the optimum ------------------------------------------------ */

struct gap {
    int n_cases, n_open; /* n_open: optimum not found in time */
    double sum, most;
};

/* The same problem with weight gradients as a part of B. */
static struct ex_problem fuse(const struct ex_problem *p)
{
    struct ex_problem fused = *p;

    for (int s = 0; s < p->n_stages; s++) {
        fused.cost[s].b += fused.cost[s].w;
        fused.cost[s].w = 0.0;
    }
    return fused;
}

static void compare(const struct ex_problem *p, bool v_shape, bool fused,
                    struct gap *gap)
{
    const struct ex_problem known = fused ? fuse(p) : *p;
    struct vp_sched_costs costs = { .stages = p->cost, .latency = p->latency };
    struct vp_sched_limits limits = { .rank = p->limit, .in_use = true };
    struct vp_sched_config config = {
        .name = "auto",
        .n_stages = p->n_ranks,
        .n_chunks = p->n_stages / p->n_ranks,
        .v_shape = v_shape,
        .n_mb = p->n_mb,
        .recompute = p->recompute,
        .fused = fused,
        .costs = &costs,
        .limits = &limits,
    };
    struct vp_schedule schedule = make(&config);
    double seconds = makespan(&schedule, &costs);
    double best = ex_shortest(&known, seconds * (1 + 1e-9), 3000000);

    check_auto(&schedule, &config);
    vp_schedule_release(&schedule);
    gap->n_cases++;
    if (best < 0.0) {
        gap->n_open++;
        return;
    }
    gap->sum += seconds / best - 1.0;
    gap->most = seconds / best - 1.0 > gap->most ? seconds / best - 1.0
                                                 : gap->most;
    if (seconds > 1.03 * best)
        fail_msg("%d stages on %d ranks, %d minibatches: %g, optimum %g",
                 p->n_stages, p->n_ranks, p->n_mb, seconds, best);
}

static void random_small(struct ex_problem *p, int n_ranks, int n_mb,
                         bool v_shape, uint32_t *counter)
{
    bool again = auto_draw(counter, 4) == 0;
    int n_chunks = v_shape ? 2 : 1;

    *p = (struct ex_problem){ .n_ranks = n_ranks,
                              .n_stages = n_ranks * n_chunks,
                              .n_mb = n_mb };
    p->latency = auto_draw(counter, 2) ? between(counter, 0.0, 0.5) : 0.0;
    for (int r = 0; r < n_ranks; r++)
        p->limit[r] = n_chunks + (double)auto_draw(counter, (uint32_t)n_mb);
    for (int s = 0; s < p->n_stages; s++) {
        double link = auto_draw(counter, 2) ? between(counter, 0.0, 0.5) : 0.0;

        p->rank[s] = s < n_ranks ? s : 2 * n_ranks - 1 - s;
        p->recompute[s] = again && auto_draw(counter, 2);
        p->cost[s] = (struct vp_stage_costs){
            .f = between(counter, 0.5, 2.0),
            .b = between(counter, 0.5, 2.0),
            .w = between(counter, 0.2, 2.0),
            .r = between(counter, 0.2, 2.0),
            .act = link,
            .grad = link,
        };
    }
}

static void close_to_the_optimum(void **state)
{
    static const struct {
        int n_ranks, n_mb, n_cases;
        bool v_shape;
    } sizes[] = {
        { 1, 4, 5, false },  { 2, 1, 10, false }, { 2, 2, 20, false },
        { 2, 3, 20, false }, { 2, 4, 20, false }, { 3, 1, 10, false },
        { 3, 2, 20, false }, { 3, 3, 20, false }, { 3, 4, 20, false },
        { 1, 3, 5, true },   { 2, 2, 20, true },  { 2, 3, 10, true },
        { 3, 2, 10, true },
    };
    uint32_t counter = 0;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
        struct gap gap = { .n_cases = 0 };

        for (int n = 0; n < (SLOW ? 2 : sizes[i].n_cases); n++) {
            struct ex_problem problem;

            random_small(&problem, sizes[i].n_ranks, sizes[i].n_mb,
                         sizes[i].v_shape, &counter);
            compare(&problem, sizes[i].v_shape, n % 5 == 4, &gap);
        }
        print_message("%d ranks, %d minibatches%s: %d cases, %d open, over the "
                      "optimum by %.2f %% on average, %.2f %% at most\n",
                      sizes[i].n_ranks, sizes[i].n_mb,
                      sizes[i].v_shape ? ", V" : "", gap.n_cases, gap.n_open,
                      100.0 * gap.sum / (gap.n_cases - gap.n_open),
                      100.0 * gap.most);
        if (!SLOW)
            assert_true(gap.n_open <= gap.n_cases / 2);
    }
}

/* The exhaustive search finds the same optimum from any starting bound. For one
 * minibatch the optimum is the chain of forward, backward, messages and the
 * last W. */
static void the_optimum_is_one(void **state)
{
    uint32_t counter = 0;

    (void)state;
    for (int n = 0; n < 20; n++) {
        struct ex_problem p;
        double best, chain;

        random_small(&p, 2, 1 + n % 2, n % 4 > 1, &counter);
        best = ex_shortest(&p, 1e6, 3000000);
        assert_true(best > 0.0 && best < 1e6);
        assert_true(fabs(ex_shortest(&p, best * 1.001, 3000000) - best) < 1e-9);
        if (n % 4 != 0)
            continue;
        p.recompute[0] = p.recompute[1] = false;
        chain = p.cost[0].f + p.cost[0].act + p.cost[1].f + p.cost[1].b +
                p.cost[1].grad + p.cost[0].b + 2 * p.latency;
        chain += p.cost[0].w;
        best = ex_shortest(&p, 1e6, 3000000);
        assert_true(fabs(best - chain) < 1e-9 || best > chain);
        p.cost[1].w = 0.0;
        assert_true(fabs(ex_shortest(&p, 1e6, 3000000) - chain) < 1e-9);
    }
}

/* ---- Against named schedules -------------------------------------------- */

static void never_behind_a_named_one(void **state)
{
    uint32_t counter = 1000;
    int n_cases = SLOW ? 12 : 120, n_equal = 0;

    (void)state;
    for (int n = 0; n < n_cases; n++) {
        struct random_case c;
        int n_ranks = 1 + (int)auto_draw(&counter, MAX_P);
        int n_mb = 1 + (int)auto_draw(&counter, 20), place = n % N_PLACES;
        struct vp_sched_config config;
        struct vp_schedule schedule;
        double own, named;

        random_problem(&c, n_ranks, n_mb, &counter);
        random_extras(&c, n, &counter);
        config = config_of(&c, place, "auto");
        config.recompute = c.recompute;
        config.global_norm = n % 2 == 1;
        schedule = make(&config);
        check_auto(&schedule, &config);
        own = makespan(&schedule, config.costs);
        named = best_named(&config);
        if (own > named * (1.0 + 1e-12))
            fail_msg("case %d: %d ranks, %d minibatches: %g, named %g", n,
                     n_ranks, n_mb, own, named);
        n_equal += own == named;
        for (int k = 0; k < schedule.n_stages; k++)
            schedule.stages[k].n_act_bufs = schedule.stages[k].n_grad_bufs =
                n_mb;
        if (config.costs->capacity == 0.0) /* longer rings do not help */
            assert_true(makespan(&schedule, config.costs) == own);
        vp_schedule_release(&schedule);
    }
    print_message("%d of %d cases as fast as a named schedule\n", n_equal,
                  n_cases);
}

/* With W fused into B, `auto` is not slower than any unsplit schedule, and
 * writes no W. */
static void fused_lists_compete(void **state)
{
    uint32_t counter = 1500;
    int n_shorter = 0, n_cases = SLOW ? 6 : 60;

    (void)state;
    for (int n = 0; n < n_cases; n++) {
        struct random_case c;
        struct vp_sched_config config;
        struct vp_schedule schedule;
        double own, named = INFINITY;

        random_problem(&c, 2 + (int)auto_draw(&counter, MAX_P - 1),
                       2 + (int)auto_draw(&counter, 12), &counter);
        random_extras(&c, n, &counter);
        config = config_of(&c, n % N_PLACES, "auto");
        config.recompute = c.recompute;
        config.fused = true;
        schedule = make(&config);
        check_auto(&schedule, &config);
        assert_false(schedule.split);
        own = makespan(&schedule, config.costs);
        for (int i = 0; vp_generator_at(i); i++) {
            const struct vp_generator *generator = vp_generator_at(i);
            struct vp_sched_config other = config;
            struct vp_schedule it;

            other.name = generator->name;
            if (generator->planned || generator->stream || generator->split ||
                generator->forward_only ||
                vp_schedule_make(&other, &it, NULL) != VP_OK)
                continue;
            if (same_place(&it, &config) && fits(&it, config.limits))
                named = fmin(named, makespan(&it, config.costs));
            vp_schedule_release(&it);
        }
        assert_true(own <= named * (1.0 + 1e-12));
        n_shorter += named < INFINITY && own < 0.99 * named;
        vp_schedule_release(&schedule);
    }
    print_message(
        "fused: %d of %d cases at least 1 %% shorter than 1f1b, gpipe "
        "and interleaved\n",
        n_shorter, n_cases);
}

/* With unit costs and the memory of zb-v, `auto` is as short as zb-v, which is
 * optimal. */
static void as_good_as_the_closed_forms(void **state)
{
    struct vp_stage_costs unit = { .f = 1, .b = 1, .w = 1 };
    double limit[6];

    (void)state;
    for (int p = 1; p <= 6; p++)
        for (int m = 1; m <= 9; m += 2) {
            struct vp_sched_limits limits = { .rank = limit };
            struct vp_sched_config config = { .name = "auto",
                                              .n_stages = p,
                                              .n_chunks = 2,
                                              .v_shape = true,
                                              .n_mb = m,
                                              .limits = &limits };
            struct vp_stage_costs stages[12];
            struct vp_schedule schedule;
            struct vp_timing timing;
            struct vp_err err;

            for (int s = 0; s < 2 * p; s++)
                stages[s] = unit;
            for (int r = 0; r < p; r++)
                limit[r] = 2 * p;
            schedule = make(&config);
            assert_int_equal(
                vp_simulate(&schedule,
                            &(struct vp_sched_costs){ .stages = stages },
                            &timing, &err),
                VP_OK);
            assert_true(fabs(timing.bubble -
                             vp_schedule_theory(&config, &unit)) < 1e-12);
            vp_timing_release(&timing);
            vp_schedule_release(&schedule);
        }
}

enum { N_STEPS = 8 };

/* Histogram of the time that the best named schedule takes beyond `auto`, over
 * all three placements. */
struct gains {
    int n_cases, n_none, n_better;
    int n[N_STEPS];
    int by_place[N_PLACES];
};

static void add_gain(struct gains *gains, double gain, int place)
{
    static const double steps[N_STEPS] = { 0.0,  0.01, 0.02, 0.03,
                                           0.05, 0.1,  0.2,  0.4 };
    int i = N_STEPS - 1;

    while (i > 0 && gain < steps[i])
        i--;
    gains->n[i]++;
    gains->n_cases++;
    gains->n_better += gain >= 0.01;
    gains->by_place[place]++;
}

/* Each rank keeps 2/3 to 3/2 of the slots that zb-v keeps. */
static void measure_gain(struct gains *gains, uint32_t *counter)
{
    int n_ranks = 2 + (int)auto_draw(counter, MAX_P - 1);
    int n_mb = n_ranks + (int)auto_draw(counter, 3 * (uint32_t)n_ranks);
    double named = INFINITY, own = INFINITY, limit;
    struct random_case c;
    int best = 0;

    random_problem(&c, n_ranks, n_mb, counter);
    limit = floor(n_ranks * between(counter, 4.0 / 3.0, 3.0));
    for (int r = 0; r < n_ranks; r++)
        c.limit[r] = limit < 2.0 ? 2.0 : limit;
    for (int place = 0; place < N_PLACES; place++) {
        struct vp_sched_config config = config_of(&c, place, "auto");

        named = fmin(named, best_named(&config));
    }
    if (named == INFINITY) {
        gains->n_none++;
        return;
    }
    for (int place = 0; place < N_PLACES; place++) {
        double seconds = time_auto(&c, place);

        best = seconds < own ? place : best;
        own = fmin(own, seconds);
    }
    assert_true(own <= named * (1.0 + 1e-12));
    add_gain(gains, named / own - 1.0, best);
}

static void gains_over_named_schedules(void **state)
{
    struct gains gains = { .n_cases = 0 };
    int n_cases = SLOW ? 10 : 500;
    uint32_t counter = 2000;

    (void)state;
    while (gains.n_cases < n_cases)
        measure_gain(&gains, &counter);
    print_message(
        "at least 1 %% better than every named schedule: %d of %d (%.1f %%)\n"
        "gain  < 1 %%: %d, 1-2: %d, 2-3: %d, 3-5: %d, 5-10: %d, 10-20: %d, "
        "20-40: %d, more: %d\n"
        "placement  one stage: %d, in turn: %d, V: %d; no named one fits: %d "
        "more cases\n",
        gains.n_better, gains.n_cases, 100.0 * gains.n_better / gains.n_cases,
        gains.n[0], gains.n[1], gains.n[2], gains.n[3], gains.n[4], gains.n[5],
        gains.n[6], gains.n[7], gains.by_place[0], gains.by_place[1],
        gains.by_place[2], gains.n_none);
    assert_true(10 * gains.n_better >= 3 * gains.n_cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_optimum_is_one),
        cmocka_unit_test(close_to_the_optimum),
        cmocka_unit_test(never_behind_a_named_one),
        cmocka_unit_test(fused_lists_compete),
        cmocka_unit_test(as_good_as_the_closed_forms),
        cmocka_unit_test(gains_over_named_schedules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
