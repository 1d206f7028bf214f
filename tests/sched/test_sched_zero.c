/* Schedules that split backward equal the lists printed in the papers, and
 * their bubbles equal the closed forms. With too few minibatches they fall back
 * to the greedy rule, which is tested here as well. */
#include "lib/checked_executor.h"
#include "lib/schedlib.h"
#include "sched/internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_S = 16, MAX_M = 64 };

/* ---- Lists of the papers ------------------------------------------------ */

static void lists_of_the_papers(void **state)
{
    static const struct {
        const char *name;
        int n_stages, n_mb;
        const char *want;
    } cases[] = {
        { "zb-h1", 3, 6,
          "FFFBWFBWFBWFBWBWBW FFBFBWFBWFBWFBWBWW FBFBFBWFBWFBWFBWWW" },
        { "zb-h2", 3, 6,
          "FFFFFBWFBWBWBWBWBW FFFBFBFBWFBWBWBWWW FBFBFBFBFBWFBWWWWW" },
        { "zb-h2", 1, 2, "FBWFBW" },
        { "zb-v", 3, 5,
          "FFFFFfbwfbwfbwBWfbwBWfbwBWBWBW FFFfFfbwfbwBWFfbwBWfbwBbBWBWwW "
          "FfFfFfbwBWFfbwBWFfbwBbBbBWwwWW" },
        { "dualpipe-v", 2, 4,
          "FFFfbwfFbwfBWbwfBWbwBWBW FfFfFbwfBWFbwfBWbwBWbBwW" },
        { "dualpipe-v", 3, 6,
          "FFFFFfbwfbwfFbwfBWbwfBWbwfBWbwBWBWBW "
          "FFFfFfbwfFbwfBWFbwfBWbwfBWbwBWbBwBWW "
          "FfFfFfFbwfBWFbwfBWFbwfBWbwBWbwBbBWwW" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_sched_config config = { .name = cases[i].name,
                                          .n_stages = cases[i].n_stages,
                                          .n_mb = cases[i].n_mb };
        struct vp_schedule schedule = make(&config);
        char letters[256];

        write_letters(&schedule, letters);
        assert_string_equal(letters, cases[i].want);
        vp_schedule_release(&schedule);
    }
}

/* ---- Closed forms ------------------------------------------------------- */

/* Closed form of the idle time of the rank that takes longest, written here a
 * second time. It holds for P stages and at least `least` minibatches; costs
 * are per stage of the schedule. */
static double known_bubble(const char *name, int p, struct vp_stage_costs c)
{
    if (strcmp(name, "zb-h1") == 0)
        return (p - 1) * (c.f + c.b - c.w);
    if (strcmp(name, "zb-h2") == 0)
        return (p - 1) * (c.f + c.b - 2 * c.w);
    if (strcmp(name, "zb-v") == 0)
        return 2 * (p - 1) * (c.b - c.w);
    if (strcmp(name, "dualpipe-v") == 0)
        return (p - 1) * (c.f + c.b - c.w);
    return (p - 1) * (c.f + c.b + c.w);
}

/* Random costs for which the closed form of `name` is exact. */
static struct vp_stage_costs random_costs(const char *name, uint32_t *counter)
{
    double w = random_below(counter, 50);
    double f = w + random_below(counter, 50) + 1;
    double b = w + random_below(counter, 50) + 1;

    if (strcmp(name, "zb-v") == 0)
        b = f + random_below(counter, 50);
    if (strcmp(name, "dualpipe-v") == 0)
        f = b + random_below(counter, (int)w + 1);
    return (struct vp_stage_costs){ .f = f, .b = b, .w = w };
}

static void check_form(const char *name, int p, int m, int v,
                       struct vp_stage_costs c)
{
    struct vp_sched_config config = { .name = name, .n_stages = p, .n_mb = m };
    struct vp_schedule schedule = make(&config);
    struct vp_timing timing = simulate(&schedule, c);
    double bubble = known_bubble(name, p, c);
    double want = bubble / (v * m * (c.f + c.b + c.w) + bubble), theory = -1;

    if (fabs(vp_timing_span(&schedule, &timing) - want) > 1e-9)
        fail_msg("%s P=%d M=%d %g,%g,%g: %g, not %g", name, p, m, c.f, c.b, c.w,
                 vp_timing_span(&schedule, &timing), want);
    assert_true(vp_schedule_span_theory(&config, &c, &theory));
    assert_true(fabs(theory - want) < 1e-12);
    assert_true(timing.bubble > vp_schedule_theory(&config, &c) - 1e-12);
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
}

static void closed_forms_hold(void **state)
{
    static const struct {
        const char *name;
        int least[2], v; /* from least[0] * P + least[1] minibatches */
    } cases[] = {
        { "1f1b", { 0, 1 }, 1 },  { "gpipe", { 0, 1 }, 1 },
        { "zb-h1", { 1, 0 }, 1 }, { "zb-h2", { 2, -1 }, 1 },
        { "zb-v", { 2, -1 }, 2 }, { "dualpipe-v", { 2, 0 }, 2 },
    };
    uint32_t counter = 0;

    (void)state;
    for (int n = 0; n < 2000; n++) {
        size_t i = (size_t)n % VP_COUNT_OF(cases);
        const char *name = cases[i].name;
        int p = 1 + (int)random_below(&counter, 8);
        int m = cases[i].least[0] * p + cases[i].least[1] +
                (int)random_below(&counter, 20);

        check_form(name, p, m, cases[i].v, random_costs(name, &counter));
    }
}

static void interleaved_form_holds(void **state)
{
    uint32_t counter = 0;

    (void)state;
    for (int n = 0; n < 300; n++) {
        int p = 1 + (int)random_below(&counter, 6);

        check_form("interleaved", p, p * (1 + (int)random_below(&counter, 5)),
                   2, random_costs("interleaved", &counter));
    }
}

/* vp_schedule_span_theory() returns false outside of its conditions. */
static void closed_forms_know_their_limits(void **state)
{
    static const int two_one[] = { 2, 1 };
    static const bool all[] = { true, true };
    struct vp_stage_costs long_w = { .f = 1, .b = 3, .w = 2 };
    struct vp_stage_costs long_f = { .f = 3, .b = 2, .w = 1, .r = 1 };
    struct vp_sched_config config = { .name = "zb-h2",
                                      .n_stages = 2,
                                      .n_mb = 3 };
    double bubble;

    (void)state;
    assert_true(vp_schedule_span_theory(&config, &long_f, &bubble));
    assert_false(vp_schedule_span_theory(&config, &long_w, &bubble));
    config.recompute = all;
    assert_false(vp_schedule_span_theory(&config, &long_f, &bubble));
    config.recompute = NULL;
    config.replicas = two_one;
    assert_false(vp_schedule_span_theory(&config, &long_f, &bubble));
    config.replicas = NULL;
    config.depth = two_one;
    assert_false(vp_schedule_span_theory(&config, &long_f, &bubble));
    config.depth = NULL;
    config.n_mb = 2;
    assert_false(vp_schedule_span_theory(&config, &long_f, &bubble));
    config = (struct vp_sched_config){ .name = "zb-v",
                                       .n_stages = 2,
                                       .n_mb = 3 };
    assert_true(vp_schedule_span_theory(&config, &unit_costs, &bubble));
    assert_false(vp_schedule_span_theory(&config, &long_f, &bubble));
    config.name = "dualpipe-v";
    config.n_mb = 4;
    assert_true(vp_schedule_span_theory(&config, &long_f, &bubble));
    long_f.f = 4;
    assert_false(vp_schedule_span_theory(&config, &long_f, &bubble));
    config.name = "pipedream";
    assert_false(vp_schedule_span_theory(&config, &unit_costs, &bubble));
    config.name = "eval";
    assert_false(vp_schedule_span_theory(&config, &unit_costs, &bubble));
}

/* No rank is idle between its first and its last action. */
static void zero_bubble_is_zero(void **state)
{
    static const char *const names[] = { "zb-h2", "zb-v" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++)
        for (int p = 1; p <= MAX_S; p++)
            for (int m = 2 * p - 1; m <= MAX_M; m++) {
                struct vp_sched_config config = { .name = names[i],
                                                  .n_stages = p,
                                                  .n_mb = m };
                struct vp_schedule schedule = make(&config);
                struct vp_timing timing = simulate(&schedule, unit_costs);

                assert_int_equal(schedule.fallback, VP_FALLBACK_NONE);
                assert_true(vp_timing_span(&schedule, &timing) == 0.0);
                vp_timing_release(&timing);
                vp_schedule_release(&schedule);
            }
}

/* The span is the one of the rank that takes longest, which need not be rank 0.
 * Rank 0: F 0-1, B 3-4, W 4-5; rank 1: F 1-2, B 2-3, W 3-13, without a
 * pause. */
static void span_is_that_of_the_longest(void **state)
{
    struct vp_sched_config config = { .name = "zb-h1",
                                      .n_stages = 2,
                                      .n_mb = 1 };
    struct vp_stage_costs costs[] = { { .f = 1, .b = 1, .w = 1 },
                                      { .f = 1, .b = 1, .w = 10 } };
    struct vp_schedule schedule = make(&config);
    struct vp_timing timing;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_simulate(&schedule,
                                 &(struct vp_sched_costs){ .stages = costs },
                                 &timing, &err),
                     VP_OK);
    assert_true(vp_timing_span(&schedule, &timing) == 0.0);
    vp_timing_release(&timing);
    costs[1].w = 1;
    assert_int_equal(vp_simulate(&schedule,
                                 &(struct vp_sched_costs){ .stages = costs },
                                 &timing, &err),
                     VP_OK);
    assert_true(fabs(vp_timing_span(&schedule, &timing) - 0.4) < 1e-12);
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
}

/* ---- Too few minibatches ------------------------------------------------ */

/* Below `least` minibatches the greedy rule writes the lists, and a rank keeps
 * no more slots than in the named schedule. (test_sched.c proves that they are
 * as short as possible.) */
static void few_minibatches_fall_back(void **state)
{
    static const struct {
        const char *name;
        int least, keeps; /* minibatches and slots of a rank, minus 2P */
    } cases[] = { { "zb-h2", -1, -1 },
                  { "zb-v", -1, 0 },
                  { "dualpipe-v", 0, 1 } };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        for (int p = 1; p <= MAX_S; p++)
            for (int m = 1; m <= 2 * p + 1; m++) {
                struct vp_sched_config config = { .name = cases[i].name,
                                                  .n_stages = p,
                                                  .n_mb = m };
                struct vp_schedule schedule = make(&config);
                int least = 2 * p + cases[i].least;

                assert_int_equal(schedule.least_mb, least);
                assert_int_equal(schedule.fallback, m < least
                                                        ? VP_FALLBACK_FEW_MB
                                                        : VP_FALLBACK_NONE);
                if (m < least)
                    assert_int_equal(schedule.stages[0].depth, 0);
                for (int r = 0; r < p; r++)
                    assert_true(slots_of(&schedule, r) <=
                                2 * p + cases[i].keeps);
                vp_schedule_release(&schedule);
            }
}

/* zb-h2 with replicas or explicit depths does not fall back to the greedy
 * rule. */
static void rule_takes_replicas_and_depths(void **state)
{
    static const int two_one[] = { 2, 1 }, depth[] = { 1, 0 };
    struct vp_sched_config config = {
        .name = "zb-h2", .n_stages = 2, .n_mb = 2, .replicas = two_one
    };
    struct vp_schedule schedule = make(&config);

    (void)state;
    assert_int_equal(schedule.fallback, VP_FALLBACK_NONE);
    assert_valid(&schedule);
    vp_schedule_release(&schedule);
    config.replicas = NULL;
    config.depth = depth;
    schedule = make(&config);
    assert_int_equal(schedule.fallback, VP_FALLBACK_NONE);
    assert_int_equal(schedule.stages[0].depth, 1);
    vp_schedule_release(&schedule);
}

/* ---- Replicas of chunks ------------------------------------------------- */

/* Replica `copy` of every rank has the lists of `one`, the schedule of a
 * pipeline without replicas. */
static void check_copy(const struct vp_schedule *schedule,
                       const struct vp_schedule *one, int copy, int n_copies)
{
    for (int rank = 0; rank < one->n_ranks; rank++) {
        const struct vp_rank_list *want = &one->ranks[rank];
        const struct vp_rank_list *list =
            &schedule->ranks[rank * n_copies + copy];
        int n = 0;

        for (int i = 0; i < list->n_actions; i++) {
            const struct vp_action *a = &list->actions[i];

            if (a->kind == VP_ACTION_REDUCE || a->kind == VP_ACTION_UPDATE)
                continue;
            while (want->actions[n].kind == VP_ACTION_UPDATE)
                n++;
            assert_int_equal(a->kind, want->actions[n].kind);
            assert_int_equal(a->stage, want->actions[n].stage);
            assert_int_equal(a->mb, want->actions[n].mb * n_copies + copy);
            n++;
        }
        for (; n < want->n_actions; n++)
            assert_int_equal(want->actions[n].kind, VP_ACTION_UPDATE);
    }
}

/* Raises `most` to the sizes of `one`: a stage's sizes are the maximum over its
 * replicas. */
static void raise_sizes(struct vp_schedule_stage *most,
                        const struct vp_schedule *one)
{
    for (int s = 0; s < one->n_stages; s++) {
        const struct vp_schedule_stage *stage = &one->stages[s];

        if (stage->n_slots > most[s].n_slots)
            most[s].n_slots = stage->n_slots;
        if (stage->n_act_bufs > most[s].n_act_bufs)
            most[s].n_act_bufs = stage->n_act_bufs;
        if (stage->n_grad_bufs > most[s].n_grad_bufs)
            most[s].n_grad_bufs = stage->n_grad_bufs;
        most[s].first_rank = stage->first_rank;
    }
}

static void check_sizes(const struct vp_schedule *schedule,
                        const struct vp_schedule_stage *most, int n_copies)
{
    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_schedule_stage *stage = &schedule->stages[s];

        assert_int_equal(stage->n_slots, most[s].n_slots);
        assert_int_equal(stage->n_act_bufs, most[s].n_act_bufs);
        assert_int_equal(stage->n_grad_bufs, most[s].n_grad_bufs);
        assert_int_equal(stage->first_rank, most[s].first_rank * n_copies);
        assert_int_equal(stage->n_replicas, n_copies);
    }
}

static void replicas_of_chunks_are_copies(void **state)
{
    const struct vp_generator *generator;

    (void)state;
    for (int i = 0; (generator = vp_generator_at(i)); i++)
        for (int n = 0; generator->chunks && !generator->planned && n < 60;
             n++) {
            int p = 1 + n % 4, n_copies = 2 + n % 3, m = 1 + n * 7 % 23;
            int replicas[4] = { n_copies, n_copies, n_copies, n_copies };
            struct vp_sched_config config = { .name = generator->name,
                                              .n_stages = p,
                                              .n_chunks = 2,
                                              .n_mb = m,
                                              .replicas = replicas };
            struct vp_schedule schedule = make(&config);
            struct vp_timing timing = simulate(&schedule, unit_costs);
            struct vp_schedule_stage most[8] = { { .n_slots = 0 } };
            const char *why = NULL;

            assert_valid(&schedule);
            assert_true(timing.bubble >=
                        vp_schedule_theory(&config, &unit_costs) - 1e-12);
            if (cx_run(&schedule, (uint32_t)n, &why) != CX_DONE)
                fail_msg("%s %d %d: %s", generator->name, p, m, why);
            config.replicas = NULL;
            for (int copy = 0; copy < n_copies && copy < m; copy++) {
                struct vp_schedule one;

                config.n_mb = (m - copy + n_copies - 1) / n_copies;
                one = make(&config);
                check_copy(&schedule, &one, copy, n_copies);
                raise_sizes(most, &one);
                if (copy == 0)
                    assert_int_equal(schedule.fallback, one.fallback);
                vp_schedule_release(&one);
            }
            check_sizes(&schedule, most, n_copies);
            vp_timing_release(&timing);
            vp_schedule_release(&schedule);
        }
}

/* ---- The greedy rule ---------------------------------------------------- */

struct random_case {
    struct vp_stage_costs costs[8];
    double sizes[8], limit[4];
};

/* A schedule with the placement of zb-v (or zb-h1) and without lists. */
static struct vp_schedule empty_schedule(bool v, int p, int m)
{
    struct vp_sched_config config = { .name = v ? "zb-v" : "zb-h1",
                                      .n_stages = p,
                                      .n_mb = m };
    struct vp_schedule schedule = make(&config);

    for (int s = 0; s < schedule.n_stages; s++) {
        schedule.stages[s].depth = 0;
        schedule.stages[s].n_slots = 0;
        schedule.stages[s].n_act_bufs = 0;
        schedule.stages[s].n_grad_bufs = 0;
    }
    free(schedule.actions);
    schedule.actions = NULL;
    return schedule;
}

/* Random costs and slot sizes; each rank has memory for one slot per stage and
 * a random rest. */
static struct random_case draw(const struct vp_schedule *schedule,
                               uint32_t *counter)
{
    struct random_case c = { .limit = { 0 } };

    for (int s = 0; s < schedule->n_stages; s++) {
        c.costs[s] = (struct vp_stage_costs){ .f = random_below(counter, 9),
                                              .b = random_below(counter, 9),
                                              .w = random_below(counter, 9) };
        c.sizes[s] = 1 + random_below(counter, 4);
        c.limit[schedule->stages[s].first_rank] += c.sizes[s];
    }
    for (int r = 0; r < schedule->n_ranks; r++)
        c.limit[r] += random_below(counter, 12);
    return c;
}

static void assert_within(const struct vp_schedule *schedule,
                          const struct random_case *c)
{
    for (int r = 0; r < schedule->n_ranks; r++) {
        double used = 0.0;

        for (int i = 0; i < schedule->ranks[r].n_stages; i++) {
            int s = schedule->ranks[r].stages[i];

            used += schedule->stages[s].n_slots * c->sizes[s];
        }
        assert_true(used <= c->limit[r]);
    }
}

/* Random costs (zero, too), slot sizes and limits: the greedy lists are valid,
 * run in the checked executor and stay within the memory limit. */
static void greedy_is_proven(void **state)
{
    uint32_t counter = 0;

    (void)state;
    for (int n = 0; n < 600; n++) {
        int p = 1 + (int)random_below(&counter, 4);
        struct vp_schedule schedule = empty_schedule(
            n % 2, p, 1 + (int)random_below(&counter, 12));
        struct random_case c = draw(&schedule, &counter);
        struct vp_sched_list lists[4] = { { .at = NULL } };
        struct vp_greedy in = { .schedule = &schedule,
                                .costs = c.costs,
                                .sizes = c.sizes,
                                .limit = c.limit,
                                .latency = random_below(&counter, 3) };
        const char *why = NULL;

        assert_int_equal(vp_greedy_write(&in, lists), VP_OK);
        assert_int_equal(vp_passes_run(&schedule, lists,
                                       &(struct vp_passes){ .stream = false }),
                         VP_OK);
        assert_valid(&schedule);
        assert_within(&schedule, &c);
        if (cx_run(&schedule, (uint32_t)n, &why) != CX_DONE)
            fail_msg("%s", why);
        c.limit[0] = -1.0;
        assert_int_equal(vp_greedy_write(&in, lists), VP_ERR_INVALID);
        vp_schedule_release(&schedule);
    }
}

#define COST(F, B, W)          \
    {                          \
        .f = F, .b = B, .w = W \
    }

/* Greedy lists that were worked out by hand. */
static void greedy_literally(void **state)
{
    static const struct {
        int p, m;
        struct vp_stage_costs costs[3];
        double limit, latency;
        const char *want;
    } cases[] = {
        /* Rank 0 has time for a W between two gradients. */
        { 2, 2, { COST(1, 1, 1), COST(10, 1, 1) }, 2, 0, "FFBWBW FBFBWW" },
        /* With one slot W comes before the next F. */
        { 2, 2, { COST(1, 1, 1), COST(1, 1, 1) }, 1, 0, "FBWFBW FBWFBW" },
        /* The first gradient arrives at time 3; with latency 3 at time 9. */
        { 2,
          4,
          { COST(1, 1, 1), COST(1, 1, 1) },
          4,
          0,
          "FFFBFBWBWWBW FBFBFBWFBWWW" },
        { 2,
          4,
          { COST(1, 1, 1), COST(1, 1, 1) },
          4,
          3,
          "FFFFBWBWBWBW FBFBFBFBWWWW" },
        /* Rank 1 idles for 1 unit instead of running a W of 2 units; rank 0
         * then ends 1 unit sooner. */
        { 3,
          2,
          { COST(3, 3, 2), COST(2, 4, 2), COST(2, 3, 3) },
          3,
          0,
          "FFBWBW FFBBWW FBFBWW" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        double limit[] = { cases[i].limit, cases[i].limit, cases[i].limit };
        struct vp_schedule schedule = empty_schedule(false, cases[i].p,
                                                     cases[i].m);
        struct vp_sched_list lists[3] = { { .at = NULL } };
        struct vp_greedy in = { .schedule = &schedule,
                                .costs = cases[i].costs,
                                .limit = limit,
                                .latency = cases[i].latency };
        char letters[64];

        assert_int_equal(vp_greedy_write(&in, lists), VP_OK);
        assert_int_equal(vp_passes_run(&schedule, lists,
                                       &(struct vp_passes){ .stream = false }),
                         VP_OK);
        write_letters(&schedule, letters);
        assert_string_equal(letters, cases[i].want);
        vp_schedule_release(&schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_the_papers),
        cmocka_unit_test(closed_forms_hold),
        cmocka_unit_test(interleaved_form_holds),
        cmocka_unit_test(closed_forms_know_their_limits),
        cmocka_unit_test(zero_bubble_is_zero),
        cmocka_unit_test(span_is_that_of_the_longest),
        cmocka_unit_test(few_minibatches_fall_back),
        cmocka_unit_test(rule_takes_replicas_and_depths),
        cmocka_unit_test(replicas_of_chunks_are_copies),
        cmocka_unit_test(greedy_is_proven),
        cmocka_unit_test(greedy_literally),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
