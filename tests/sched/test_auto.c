/* The schedule `auto`: close to the optimum where that is known, never behind a
 * named schedule, within its memory, the same every time, and fast. */
#include "base/rng.h"
#include "sched/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "lib/checked_executor.h"
#include "lib/exhaustive.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    !defined(__OPTIMIZE__)
#define SLOW 1
#else
#define SLOW 0
#endif

enum { MAX_P = 8, N_PLACES = 3 };

/* ---- Helpers ------------------------------------------------------------ */

static uint32_t random_below(uint32_t *counter, uint32_t n)
{
    uint32_t bits = vp_rng(13, VP_RNG_TEST, 0, (*counter)++, 0, 0).v[0];

    return vp_rng_below(bits, n);
}

static double between(uint32_t *counter, double low, double high)
{
    return low + (high - low) * (double)random_below(counter, 1 << 20) /
                     (double)(1 << 20);
}

static struct vp_schedule make(const struct vp_sched_config *config)
{
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };

    if (vp_schedule_make(config, &schedule, &err) != VP_OK)
        fail_msg("%s", err.text);
    return schedule;
}

static double makespan(const struct vp_schedule *schedule,
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

static char *print(const struct vp_schedule *schedule)
{
    char *text = NULL;

    assert_int_equal(vp_schedule_print(schedule, VP_PRINT_COMPUTE, &text),
                     VP_OK);
    return text;
}

/* The memory that a rank needs: what its stages own, or keep at once. */
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

static bool fits(const struct vp_schedule *schedule,
                 const struct vp_sched_limits *limits)
{
    for (int r = 0; limits && limits->rank && r < schedule->n_ranks; r++)
        if (memory_of(schedule, r, limits) > limits->rank[r] + 1e-9)
            return false;
    return true;
}

/* Valid, within memory, and it runs. */
static void check(const struct vp_schedule *schedule,
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

/* One model, cut in P stages, or in 2 P for two chunks per rank. */
struct random_case {
    int n_ranks, n_mb;
    struct vp_stage_costs whole[MAX_P], half[2 * MAX_P];
    bool recompute[2 * MAX_P];
    double limit[MAX_P], sizes[MAX_P];
    struct vp_sched_costs costs[2];
    struct vp_sched_limits limits[2];
};

/* Forwards of about half a unit, backwards and weight gradients in proportion;
 * stages differ by up to `spread`. */
static void random_stages(struct random_case *c, double spread,
                          uint32_t *counter)
{
    double b = between(counter, 0.8, 1.4), w = between(counter, 0.5, 1.1);
    double link = random_below(counter, 2) ? between(counter, 0.0, 0.2) : 0.0;

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

static void random_problem(struct random_case *c, int n_ranks, int n_mb,
                           uint32_t *counter)
{
    *c = (struct random_case){ .n_ranks = n_ranks, .n_mb = n_mb };
    random_stages(c, between(counter, 0.0, 0.5), counter);
    c->costs[0] = (struct vp_sched_costs){ .stages = c->whole };
    c->costs[1] = (struct vp_sched_costs){ .stages = c->half };
    c->limits[0] = (struct vp_sched_limits){ c->limit, c->sizes, true };
    c->limits[1] = (struct vp_sched_limits){ c->limit, NULL, true };
}

/* One stage per rank, two in turn, two in a V. */
static struct vp_sched_config config_of(const struct random_case *c, int place,
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

/* The shortest named schedule with the same placement that fits; INFINITY:
 * none does. */
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

    check(&schedule, &config);
    vp_schedule_release(&schedule);
    return seconds;
}

/* ---- Against the optimum ------------------------------------------------ */

struct gap {
    int n_cases, n_open; /* optimum not found in time */
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

    check(&schedule, &config);
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
    bool again = random_below(counter, 4) == 0;
    int n_chunks = v_shape ? 2 : 1;

    *p = (struct ex_problem){ .n_ranks = n_ranks,
                              .n_stages = n_ranks * n_chunks,
                              .n_mb = n_mb };
    p->latency = random_below(counter, 2) ? between(counter, 0.0, 0.5) : 0.0;
    for (int r = 0; r < n_ranks; r++)
        p->limit[r] = n_chunks + (double)random_below(counter, (uint32_t)n_mb);
    for (int s = 0; s < p->n_stages; s++) {
        double link = random_below(counter, 2) ? between(counter, 0.0, 0.5)
                                               : 0.0;

        p->rank[s] = s < n_ranks ? s : 2 * n_ranks - 1 - s;
        p->recompute[s] = again && random_below(counter, 2);
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

/* The search for the optimum finds it also from far above. One minibatch: the
 * way there and back, and the last weight gradient. */
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

/* What the search leaves out of its own times, too: shared devices, copies. */
static void random_extras(struct random_case *c, int n, uint32_t *counter)
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
        c->recompute[s] = n % 3 == 0 && random_below(counter, 2);
    }
    for (int s = 0; s < c->n_ranks; s++) {
        c->whole[s].update = c->half[2 * s].update + c->half[2 * s + 1].update;
        c->whole[s].reduce = c->half[2 * s].reduce;
        c->sizes[s] = between(counter, 1.5, 2.5);
        c->limit[s] = n % 6 == 5 ? 1e9
                                 : between(counter, 2.5, 3.0 * c->n_ranks);
    }
}

static void never_behind_a_named_one(void **state)
{
    uint32_t counter = 1000;
    int n_cases = SLOW ? 12 : 120, n_equal = 0;

    (void)state;
    for (int n = 0; n < n_cases; n++) {
        struct random_case c;
        int n_ranks = 1 + (int)random_below(&counter, MAX_P);
        int n_mb = 1 + (int)random_below(&counter, 20), place = n % N_PLACES;
        struct vp_sched_config config;
        struct vp_schedule schedule;
        double own, named;

        random_problem(&c, n_ranks, n_mb, &counter);
        random_extras(&c, n, &counter);
        config = config_of(&c, place, "auto");
        config.recompute = c.recompute;
        config.global_norm = n % 2 == 1;
        schedule = make(&config);
        check(&schedule, &config);
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

/* With W inside of B: not behind a schedule that is not split, and no W. */
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

        random_problem(&c, 2 + (int)random_below(&counter, MAX_P - 1),
                       2 + (int)random_below(&counter, 12), &counter);
        random_extras(&c, n, &counter);
        config = config_of(&c, n % N_PLACES, "auto");
        config.recompute = c.recompute;
        config.fused = true;
        schedule = make(&config);
        check(&schedule, &config);
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

/* At unit costs and with the memory of zb-v nothing is shorter than zb-v. */
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

/* How much longer the best named schedule takes, over all three placements. */
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

/* Memory: from two thirds of what zb-v keeps to half as much again. */
static void measure_gain(struct gains *gains, uint32_t *counter)
{
    int n_ranks = 2 + (int)random_below(counter, MAX_P - 1);
    int n_mb = n_ranks + (int)random_below(counter, 3 * (uint32_t)n_ranks);
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

/* ---- Other promises ----------------------------------------------------- */

static void same_lists_every_time(void **state)
{
    uint32_t counter = 3000;

    (void)state;
    for (int place = 0; place < N_PLACES; place++) {
        struct random_case c;
        struct vp_sched_config config;
        struct vp_schedule a, b;
        char *texts[2];

        random_problem(&c, 4, 9, &counter);
        for (int r = 0; r < 4; r++)
            c.limit[r] = 7;
        config = config_of(&c, place, "auto");
        a = make(&config);
        b = make(&config);
        texts[0] = print(&a);
        texts[1] = print(&b);
        assert_string_equal(texts[0], texts[1]);
        for (int i = 0; i < 2; i++)
            free(texts[i]);
        vp_schedule_release(&a);
        vp_schedule_release(&b);
    }
}

/* A printed schedule, made again from its text: the same actions, also those of
 * R, in rings of the same lengths. */
static void its_text_makes_it_again(void **state)
{
    uint32_t counter = 3500;

    (void)state;
    for (int n = 0; n < 24; n++) {
        struct random_case c;
        struct vp_sched_config config;
        struct vp_schedule first, again;
        char *text, *copy;

        random_problem(&c, 2 + n % 4, 3 + n % 5, &counter);
        random_extras(&c, n, &counter);
        config = config_of(&c, n % N_PLACES, "auto");
        config.recompute = c.recompute;
        c.costs[0].latency = c.costs[1].latency = n % 3; /* longer rings */
        first = make(&config);
        assert_int_equal(vp_schedule_print(&first, 0, &text), VP_OK);
        config.text = text;
        config.costs = NULL;
        config.limits = NULL;
        again = make(&config);
        assert_int_equal(vp_schedule_print(&again, 0, &copy), VP_OK);
        assert_string_equal(text, copy);
        free(text);
        free(copy);
        vp_schedule_release(&first);
        vp_schedule_release(&again);
    }
}

/* Up to 16 ranks and 64 minibatches, in all placements: proven, within memory,
 * and run by the checked executor. */
static void sweep_is_proven(void **state)
{
    static const int ranks[] = { 1, 2, 3, 5, 8, 11, 16 };
    static const int minibatches[] = { 1, 2, 7, 16, 33, 64 };
    uint32_t counter = 5000;
    int n_cases = 0;

    (void)state;
    for (size_t i = 0; i < (SLOW ? 4 : VP_COUNT_OF(ranks)); i++)
        for (size_t k = 0; k < (SLOW ? 4 : VP_COUNT_OF(minibatches)); k++) {
            int p = ranks[i], place = n_cases % N_PLACES;
            struct vp_stage_costs stages[32];
            bool recompute[32];
            double limit[16];
            struct vp_sched_costs costs = { .stages = stages };
            struct vp_sched_limits limits = { .rank = limit };
            struct vp_sched_config config = {
                .name = "auto",
                .n_stages = p,
                .n_chunks = place == 0 ? 1 : 2,
                .v_shape = place == 2,
                .n_mb = minibatches[k],
                .recompute = n_cases % 2 ? recompute : NULL,
                .fused = n_cases % 5 == 4,
                .costs = &costs,
                .limits = &limits,
            };
            struct vp_schedule schedule;

            for (int s = 0; s < 32; s++) {
                stages[s] = (struct vp_stage_costs){
                    .f = between(&counter, 0.5, 1.5),
                    .b = between(&counter, 0.5, 1.5),
                    .w = between(&counter, 0.5, 1.5),
                    .r = between(&counter, 0.5, 1.5),
                };
                recompute[s] = random_below(&counter, 2);
            }
            for (int r = 0; r < p; r++)
                limit[r] = 2 + (double)random_below(&counter, 2 * (uint32_t)p);
            schedule = make(&config);
            check(&schedule, &config);
            vp_schedule_release(&schedule);
            n_cases++;
        }
    print_message("%d schedules proven\n", n_cases);
}

/* Ranks and stages have their own sizes: bytes, say. */
static void memory_in_bytes(void **state)
{
    static const double ranks[] = { 30e6, 20e6, 9e6 };
    static const double stages[] = { 10e6, 7e6, 4e6 };
    struct vp_sched_limits limits = { .rank = ranks, .stage = stages };
    struct vp_sched_config config = { .name = "auto",
                                      .n_stages = 3,
                                      .n_chunks = 1,
                                      .n_mb = 8,
                                      .limits = &limits };
    struct vp_schedule schedule = make(&config);

    (void)state;
    check(&schedule, &config);
    assert_int_equal(schedule.stages[0].n_slots, 3);
    assert_int_equal(schedule.stages[1].n_slots, 2);
    assert_true(schedule.stages[2].n_slots <= 2);
    vp_schedule_release(&schedule);
}

static void too_little_memory_is_refused(void **state)
{
    static const double ranks[] = { 2, 1.5, 2 };
    struct vp_sched_limits limits = { .rank = ranks };
    struct vp_sched_config config = { .name = "auto",
                                      .n_stages = 3,
                                      .n_chunks = 2,
                                      .v_shape = true,
                                      .n_mb = 4,
                                      .limits = &limits };
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_schedule_make(&config, &schedule, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "schedule auto: rank 1 may keep 1.5, but one minibatch "
                        "takes 2; give it more memory");
    config.replicas = (const int[]){ 1, 2, 1 };
    assert_int_equal(vp_schedule_make(&config, &schedule, &err),
                     VP_ERR_INVALID);
}

/* R stands where it costs nothing: 0F 0-1, R 1-3, then the gradient at 4. With
 * one slot a second minibatch waits for all that. */
static void recomputes_while_it_waits(void **state)
{
    static const bool first[] = { true, false };
    static const double one[] = { 1, 1 };
    struct vp_stage_costs stages[] = { { .f = 1, .b = 1, .w = 1, .r = 2 },
                                       { .f = 1, .b = 2, .w = 1, .r = 99 } };
    struct vp_sched_costs costs = { .stages = stages };
    struct vp_sched_limits limits = { .rank = one };
    struct vp_sched_config config = { .name = "auto",
                                      .n_stages = 2,
                                      .n_chunks = 1,
                                      .n_mb = 1,
                                      .recompute = first,
                                      .costs = &costs,
                                      .limits = &limits };
    struct vp_schedule schedule = make(&config);
    char *text = print(&schedule);

    (void)state;
    assert_string_equal(text, "0: 0F0 0R0 0B0 0W0 0UPDATE0\n"
                              "1: 1F0 1B0 1W0 1UPDATE0\n");
    assert_true(makespan(&schedule, &costs) == 6.0);
    free(text);
    vp_schedule_release(&schedule);
    config.n_mb = 2;
    schedule = make(&config);
    text = print(&schedule);
    assert_string_equal(text, "0: 0F0 0R0 0B0 0W0 0F1 0R1 0B1 0W1 0UPDATE0\n"
                              "1: 1F0 1B0 1W0 1F1 1B1 1W1 1UPDATE0\n");
    assert_true(makespan(&schedule, &costs) == 12.0);
    free(text);
    vp_schedule_release(&schedule);
}

/* Half stages in a V fill the pipe faster, unless messages are slow. */
static void the_best_of_several(void **state)
{
    struct vp_stage_costs whole[4], half[8];
    struct vp_sched_costs costs[] = { { .stages = whole }, { .stages = half } };
    double few[] = { 1, 1, 1, 1 };
    struct vp_sched_limits limits = { .rank = few };
    struct vp_sched_config configs[] = {
        { .name = "auto",
          .n_stages = 4,
          .n_chunks = 1,
          .n_mb = 4,
          .costs = &costs[0] },
        { .name = "auto",
          .n_stages = 4,
          .n_chunks = 2,
          .v_shape = true,
          .n_mb = 4,
          .costs = &costs[1] },
    };
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };
    int best = -1;

    (void)state;
    for (int s = 0; s < 8; s++) {
        whole[s / 2] = (struct vp_stage_costs){ .f = 2, .b = 2, .w = 2 };
        half[s] = (struct vp_stage_costs){ .f = 1, .b = 1, .w = 1 };
    }
    assert_int_equal(vp_schedule_make_best(configs, 2, &schedule, &best, &err),
                     VP_OK);
    assert_int_equal(best, 1);
    assert_int_equal(schedule.n_stages, 8);
    vp_schedule_release(&schedule);
    costs[0].latency = costs[1].latency = 5;
    assert_int_equal(vp_schedule_make_best(configs, 2, &schedule, &best, &err),
                     VP_OK);
    assert_int_equal(best, 0);
    vp_schedule_release(&schedule);
    /* The second one does not fit into memory; then neither does. */
    costs[0].latency = costs[1].latency = 0;
    configs[0].limits = configs[1].limits = &limits;
    assert_int_equal(vp_schedule_make_best(configs, 2, &schedule, NULL, &err),
                     VP_OK);
    assert_int_equal(schedule.n_stages, 4);
    vp_schedule_release(&schedule);
    few[2] = 0.5;
    assert_int_equal(vp_schedule_make_best(configs, 2, &schedule, NULL, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "rank 2 may keep 0.5"));
}

/* All three placements of 8 ranks and 32 minibatches. */
static void fast_enough(void **state)
{
    uint32_t counter = 4000;
    double best = INFINITY;

    (void)state;
    if (SLOW) {
        print_message("skipped: a measurement for optimised code\n");
        return;
    }
    for (int round = 0; round < 5; round++) {
        struct random_case c;
        double seconds[N_PLACES], sum = 0.0;

        random_problem(&c, 8, 32, &counter);
        for (int r = 0; r < 8; r++)
            c.limit[r] = 12;
        for (int place = 0; place < N_PLACES; place++) {
            struct vp_sched_config config = config_of(&c, place, "auto");
            clock_t start = clock();
            struct vp_schedule schedule = make(&config);

            seconds[place] = (double)(clock() - start) / CLOCKS_PER_SEC;
            sum += seconds[place];
            vp_schedule_release(&schedule);
        }
        print_message("one stage %.1f ms, in turn %.1f ms, V %.1f ms\n",
                      1e3 * seconds[0], 1e3 * seconds[1], 1e3 * seconds[2]);
        best = fmin(best, sum);
    }
    assert_true(best < 0.050);
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
        cmocka_unit_test(same_lists_every_time),
        cmocka_unit_test(its_text_makes_it_again),
        cmocka_unit_test(sweep_is_proven),
        cmocka_unit_test(memory_in_bytes),
        cmocka_unit_test(too_little_memory_is_refused),
        cmocka_unit_test(recomputes_while_it_waits),
        cmocka_unit_test(the_best_of_several),
        cmocka_unit_test(fast_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
