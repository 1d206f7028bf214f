/* Schedules: literal staircases; theory, slots and proof over a full sweep;
 * streams cut in pieces; text there and back; and the validator against an
 * executor that asserts, on thousands of broken schedules. */
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
#include "lib/sched_mutants.h"
#include "lib/schedlib.h"

enum { MAX_S = 16, MAX_M = 64, MAX_V = 4 };

/* ---- Helpers ------------------------------------------------------------ */

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* ---- Staircases --------------------------------------------------------- */

static const int one_two_one[] = { 1, 2, 1 };
static const int two_one[] = { 2, 1 };
static const bool second_stage[] = { false, true };

static const struct {
    struct vp_sched_config config;
    const char *want;
} staircases[] = {
    { { .name = "1f1b", .n_stages = 1, .n_mb = 2 },
      "0: 0F0 0B0 0F1 0B1 0UPDATE0\n" },
    { { .name = "1f1b", .n_stages = 3, .n_mb = 4 },
      "0: 0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3 0UPDATE0\n"
      "1: 1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3 1UPDATE0\n"
      "2: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2UPDATE0\n" },
    { { .name = "1f1b", .n_stages = 3, .n_mb = 1, .global_norm = true },
      "0: 0F0 0B0 0REDUCE0 0UPDATE0\n"
      "1: 1F0 1B0 1REDUCE0 1UPDATE0\n"
      "2: 2F0 2B0 2REDUCE0 2UPDATE0\n" },
    { { .name = "1f1b", .n_stages = 2, .n_mb = 3, .replicas = two_one },
      "0: 0F0 0F2 0B0 0B2 0REDUCE0 0UPDATE0\n"
      "1: 0F1 0B1 0REDUCE0 0UPDATE0\n"
      "2: 1F0 1B0 1F1 1B1 1F2 1B2 1UPDATE0\n" },
    { { .name = "1f1b", .n_stages = 2, .n_mb = 2, .recompute = second_stage },
      "0: 0F0 0F1 0B0 0B1 0UPDATE0\n"
      "1: 1F0 1R0 1B0 1F1 1R1 1B1 1UPDATE0\n" },
    { { .name = "gpipe", .n_stages = 2, .n_mb = 3 },
      "0: 0F0 0F1 0F2 0B0 0B1 0B2 0UPDATE0\n"
      "1: 1F0 1F1 1F2 1B0 1B1 1B2 1UPDATE0\n" },
    { { .name = "pipedream", .n_stages = 2, .n_mb = 3 },
      "0: 0F0 0F1 0B0 0UPDATE0 0F2 0B1 0UPDATE1 0B2 0UPDATE2\n"
      "1: 1F0 1B0 1UPDATE0 1F1 1B1 1UPDATE1 1F2 1B2 1UPDATE2\n" },
    { { .name = "pipedream",
        .n_stages = 2,
        .n_mb = 2,
        .segment_begin = 3,
        .first_mb = 5,
        .keep_going = true },
      "0: 0F5 0B4 0UPDATE1 0F6 0B5 0UPDATE2\n"
      "1: 1F5 1B5 1UPDATE2 1F6 1B6 1UPDATE3\n" },
    { { .name = "pipedream",
        .n_stages = 3,
        .n_mb = 3,
        .replicas = one_two_one },
      "0: 0F0 0F1 0F2 0B0 0UPDATE0 0B1 0UPDATE1 0B2 0UPDATE2\n"
      "1: 1F0 1F2 1B0 1REDUCE0 1UPDATE0 1B2\n"
      "2: 1F1 1B1 1REDUCE0 1UPDATE0\n"
      "3: 2F0 2B0 2UPDATE0 2F1 2B1 2UPDATE1 2F2 2B2 2UPDATE2\n" },
    { { .name = "macrobatch", .n_stages = 2, .n_mb = 5 },
      "0: 0F0 0F1 0B0 0F2 0B1 0UPDATE0 0F3 0B2 0F4 0B3 0UPDATE1 0B4\n"
      "1: 1F0 1B0 1F1 1B1 1UPDATE0 1F2 1B2 1F3 1B3 1UPDATE1 1F4 1B4\n" },
    { { .name = "interleaved", .n_stages = 2, .n_mb = 2, .n_chunks = 2 },
      "0: 0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1 0UPDATE0 2UPDATE0\n"
      "1: 1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1 1UPDATE0 3UPDATE0\n" },
    { { .name = "interleaved", .n_stages = 2, .n_mb = 5, .n_chunks = 2 },
      "0: 0F0 0F1 0F2 2F0 2F1 2F2 2B0 0F3 2B1 0F4 2B2 2F3 0B0 2F4 0B1 "
      "0B2 2B3 2B4 0B3 0B4 0UPDATE0 2UPDATE0\n"
      "1: 1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1F3 1B0 1F4 1B1 3F3 1B2 "
      "3F4 3B3 3B4 1B3 1B4 1UPDATE0 3UPDATE0\n" },
    { { .name = "zb-h1", .n_stages = 3, .n_mb = 4 },
      "0: 0F0 0F1 0F2 0B0 0W0 0F3 0B1 0W1 0B2 0W2 0B3 0W3 0UPDATE0\n"
      "1: 1F0 1F1 1B0 1F2 1B1 1W0 1F3 1B2 1W1 1B3 1W2 1W3 1UPDATE0\n"
      "2: 2F0 2B0 2F1 2B1 2F2 2B2 2W0 2F3 2B3 2W1 2W2 2W3 2UPDATE0\n" },
    { { .name = "zb-h2", .n_stages = 2, .n_mb = 4 },
      "0: 0F0 0F1 0F2 0B0 0W0 0F3 0B1 0W1 0B2 0W2 0B3 0W3 0UPDATE0\n"
      "1: 1F0 1B0 1F1 1B1 1F2 1B2 1W0 1F3 1B3 1W1 1W2 1W3 1UPDATE0\n" },
    { { .name = "zb-v", .n_stages = 2, .n_mb = 2 },
      "0: 0F0 0F1 3F0 3B0 3F1 3B1 0B0 3W0 3W1 0B1 0W0 0W1 0UPDATE0 "
      "3UPDATE0\n"
      "1: 1F0 2F0 1F1 2F1 2B0 1B0 2B1 2W0 1B1 1W0 2W1 1W1 1UPDATE0 "
      "2UPDATE0\n" },
    { { .name = "zb-v", .n_stages = 2, .n_mb = 3 },
      "0: 0F0 0F1 0F2 3F0 3B0 3W0 3F1 3B1 3W1 0B0 0W0 3F2 3B2 3W2 0B1 0W1 "
      "0B2 0W2 0UPDATE0 3UPDATE0\n"
      "1: 1F0 2F0 1F1 2F1 2B0 2W0 1B0 1W0 1F2 2F2 2B1 2W1 1B1 2B2 1B2 1W1 "
      "2W2 1W2 1UPDATE0 2UPDATE0\n" },
    { { .name = "eval", .n_stages = 2, .n_mb = 3 },
      "0: 0F0 0F1 0F2\n"
      "1: 1F0 1F1 1F2\n" },
};

static void literal_staircases(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(staircases); i++) {
        struct vp_schedule schedule = make(&staircases[i].config);
        char *text = print(&schedule, VP_PRINT_COMPUTE);

        assert_string_equal(text, staircases[i].want);
        assert_valid(&schedule);
        free(text);
        vp_schedule_release(&schedule);
    }
}

/* Messages, slots, versions, rings: the whole text. */
static void literal_text(void **state)
{
    static const struct {
        struct vp_sched_config config;
        int flags;
        const char *want;
    } cases[] = {
        { { .name = "1f1b",
            .n_stages = 2,
            .n_mb = 2,
            .recompute = second_stage },
          0,
          "schedule=1f1b stages=2 minibatches=2 begin=0 end=0 first=0 drain=1 "
          "split=0 forward_only=0 global_norm=0 rank=0,1 replicas=1 depth=1,0 "
          "recompute=0,1 slots=2,1 act=0,2 grad=2,0 versions=1 every=2 lag=0 "
          "base=0 past=0\n"
          "0: 0F0 0SEND_ACT0 0F1 0SEND_ACT1 0RECV_GRAD0 0B0 0RECV_GRAD1 0B1 "
          "0UPDATE0\n"
          "1: 1RECV_ACT0 1F0 1R0 1B0 1SEND_GRAD0 1RECV_ACT1 1F1 1R1 1B1 "
          "1SEND_GRAD1 1UPDATE0\n" },
        { { .name = "pipedream", .n_stages = 2, .n_mb = 3 },
          VP_PRINT_FULL,
          "schedule=pipedream stages=2 minibatches=3 begin=0 end=0 first=0 drain=1 "
          "split=0 forward_only=0 global_norm=0 rank=0,1 replicas=1 depth=1,0 "
          "recompute=0 slots=2,1 act=0,2 grad=2,0 versions=2,1 every=1 "
          "lag=1,0 base=0 past=0\n"
          "0: 0F0@0v0 0SEND_ACT0 0F1@1v0 0SEND_ACT1 0RECV_GRAD0 0B0@0v0 "
          "0UPDATE0v1 0F2@0v1 0SEND_ACT2 0RECV_GRAD1 0B1@1v0 0UPDATE1v2 "
          "0RECV_GRAD2 0B2@0v1 0UPDATE2v3\n"
          "1: 1RECV_ACT0 1F0@0v0 1B0@0v0 1SEND_GRAD0 1UPDATE0v1 1RECV_ACT1 "
          "1F1@0v1 1B1@0v1 1SEND_GRAD1 1UPDATE1v2 1RECV_ACT2 1F2@0v2 1B2@0v2 "
          "1SEND_GRAD2 1UPDATE2v3\n" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_schedule schedule = make(&cases[i].config);
        char *text = print(&schedule, cases[i].flags);

        assert_string_equal(text, cases[i].want);
        free(text);
        vp_schedule_release(&schedule);
    }
}

static void early_recompute_precedes_the_gradient(void **state)
{
    bool all[] = { true, true };
    struct vp_sched_config config = { .name = "1f1b",
                                      .n_stages = 2,
                                      .n_mb = 1,
                                      .recompute = all,
                                      .early_recompute = true };
    struct vp_schedule schedule = make(&config);
    char *text = print(&schedule, 0);

    (void)state;
    assert_non_null(
        strstr(text, "0: 0F0 0SEND_ACT0 0R0 0RECV_GRAD0 0B0 0UPDATE0\n"));
    assert_valid(&schedule);
    free(text);
    vp_schedule_release(&schedule);
}

/* ---- Theory ------------------------------------------------------------- */

/* The makespan in units, written down once more: PEERS C1 for many
 * minibatches; for few the last stage's own chain. */
static double known_makespan(const char *name, int s, int m, int v)
{
    if (strcmp(name, "eval") == 0)
        return v == 1 || m % s == 0 ? v * m + s - 1
                                    : v * s * (m / s) + v * s - 1 + m % s;
    if (strcmp(name, "interleaved") == 0)
        return 3.0 * (m >= s ? v * m + s - 1 : v * s + m - 1);
    if (strcmp(name, "zb-h1") == 0 || strcmp(name, "zb-h2") == 0)
        return m >= s ? 3 * m + s - 1 : 2 * m + 2 * s - 1;
    if (strcmp(name, "zb-v") == 0 || strcmp(name, "dualpipe-v") == 0)
        return m >= s       ? 6 * m + s - 1
               : 2 * m >= s ? 4 * m + 3 * s - 1
                            : 2 * m + 4 * s - 1;
    return 3.0 * (m + s - 1);
}

static void check_slots(const char *name, const struct vp_schedule *schedule,
                        const struct vp_timing *timing, int n_ranks, int m)
{
    for (int s = 0; s < schedule->n_stages; s++) {
        int n = schedule->stages[s].n_slots;

        assert_int_equal(timing->peak_slots[s], least(n, m));
        if (strcmp(name, "gpipe") == 0)
            assert_int_equal(n, m);
        else if (strcmp(name, "1f1b") == 0)
            assert_int_equal(n, least(m, n_ranks - s));
        else if (schedule->stages[s].n_versions > 1 || name[0] == 'p')
            assert_int_equal(n, n_ranks - s); /* streams */
        else if (strcmp(name, "zb-h1") == 0)
            assert_int_equal(n, least(m, n_ranks));
        else if (strcmp(name, "zb-h2") == 0 && m >= 2 * n_ranks - 1)
            assert_int_equal(n, 2 * n_ranks - 1);
        else if (strcmp(name, "eval") == 0)
            assert_int_equal(n, 1);
        if (strcmp(name, "zb-v") == 0) /* both stages of a rank: as 1f1b */
            assert_true(n + schedule->stages[2 * n_ranks - 1 - s].n_slots <=
                        2 * n_ranks);
    }
}

static void check_case(const char *name, int s, int m, int v)
{
    struct vp_sched_config config = {
        .name = name, .n_stages = s, .n_mb = m, .n_chunks = v
    };
    const struct vp_generator *generator = vp_generator_find(name);
    struct vp_schedule schedule = make(&config);
    struct vp_timing timing;
    double work = generator->forward_only ? v * m : 3.0 * v * m;
    double want = known_makespan(name, s, m, v);

    assert_valid(&schedule);
    timing = simulate(&schedule, unit_costs);
    if (timing.makespan != want)
        fail_msg("%s S=%d M=%d v=%d: %g, not %g", name, s, m, v,
                 timing.makespan, want);
    assert_true(fabs(timing.bubble - (1.0 - work / want)) < 1e-12);
    assert_true(fabs(vp_schedule_theory(&config, &unit_costs) - timing.bubble) <
                1e-12);
    check_slots(name, &schedule, &timing, s, m);
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
}

static void theory_is_reached_everywhere(void **state)
{
    const struct vp_generator *generator;

    (void)state;
    for (int i = 0; (generator = vp_generator_at(i)); i++) {
        bool two = generator->v_shape;
        int first = two ? 2 : 1, last = two ? 2 : MAX_V;

        if (generator->planned || strncmp(generator->name, "v-", 2) == 0)
            continue; /* test_auto.c; slower for less memory: test_sched_v.c */
        if (!generator->chunks)
            last = 1;
        for (int v = first; v <= last; v++)
            for (int s = 1; s <= MAX_S; s++)
                for (int m = 1; m <= MAX_M; m++)
                    check_case(generator->name, s, m, v);
    }
}

/* Evaluation in the placement of zb-v, and in the rings of its training. */
static void evaluation_in_a_v(void **state)
{
    (void)state;
    for (int s = 1; s <= MAX_S; s++)
        for (int m = 1; m <= MAX_M; m++) {
            struct vp_sched_config config = {
                .name = "eval", .n_stages = s, .n_mb = m, .v_shape = true
            };
            struct vp_schedule schedule = make(&config);
            struct vp_timing timing = simulate(&schedule, unit_costs);
            double bound = 2 * (s - 1 + m), chain = 2 * s - 1 + m;
            double want = bound > chain ? bound : chain;

            assert_valid(&schedule);
            assert_int_equal(schedule.stages[s].first_rank, s - 1);
            for (int k = 0; k < 2 * s; k++)
                assert_true(schedule.stages[k].n_act_bufs <= 2);
            if (timing.makespan != want)
                fail_msg("S=%d M=%d: %g, not %g", s, m, timing.makespan, want);
            assert_true(fabs(vp_schedule_theory(&config, &unit_costs) -
                             timing.bubble) < 1e-12);
            vp_timing_release(&timing);
            vp_schedule_release(&schedule);
        }
}

/* With recomputation R is work, too, and early it is off the way back. */
static void theory_with_recompute(void **state)
{
    static const char *const names[] = { "1f1b", "gpipe", "interleaved" };
    struct vp_stage_costs cost = { .f = 1, .b = 1, .w = 1, .r = 1 };
    bool all[3 * MAX_S];

    (void)state;
    memset(all, true, sizeof(all));
    for (int early = 0; early < 2; early++)
        for (size_t i = 0; i < VP_COUNT_OF(names); i++)
            for (int s = 1; s <= 6; s++)
                for (int m = 1; m <= 14; m++) {
                    int v = i == 2 ? 3 : 1;
                    double hop = early ? 2 : 3, p = s;
                    double many = (p - 1) * (1 + hop) + v * m * 4;
                    double few = (v * p - 1) * (1 + hop) + m * 4;
                    double want = many > few ? many : few;
                    struct vp_sched_config config = {
                        .name = names[i],
                        .n_stages = s,
                        .n_chunks = v,
                        .n_mb = m,
                        .recompute = all,
                        .early_recompute = early
                    };
                    struct vp_schedule schedule = make(&config);
                    struct vp_timing timing;

                    assert_valid(&schedule);
                    timing = simulate(&schedule, cost);
                    if (i != 2) /* 1f1b and gpipe reach it */
                        assert_true(timing.makespan == want);
                    assert_true(timing.makespan >= want);
                    assert_true(fabs(vp_schedule_theory(&config, &cost) -
                                     (1 - v * m * 4 / want)) < 1e-12);
                    vp_timing_release(&timing);
                    vp_schedule_release(&schedule);
                }
}

/* At other costs it is what no order can beat. */
static void theory_is_a_bound(void **state)
{
    bool all[4 * MAX_S];
    uint32_t counter = 0;
    int n_names = 0;

    (void)state;
    while (vp_generator_at(n_names))
        n_names++;
    memset(all, true, sizeof(all));
    for (int n = 0; n < 2000; n++) {
        const struct vp_generator *generator = vp_generator_at(n % n_names);
        struct vp_stage_costs cost = {
            .f = 1 + random_below(&counter, 5),
            .b = 1 + random_below(&counter, 5),
            .w = random_below(&counter, 5),
            .r = random_below(&counter, 5),
        };
        struct vp_sched_config config = {
            .name = generator->name,
            .n_stages = 1 + (int)random_below(&counter, 6),
            .n_chunks = generator->chunks && !generator->v_shape
                            ? 1 + (int)random_below(&counter, 4)
                            : 0,
            .n_mb = 1 + (int)random_below(&counter, 14),
            .recompute = n % 3 == 0 ? all : NULL,
            .early_recompute = n % 2 == 0,
        };
        struct vp_schedule schedule = make(&config);
        struct vp_timing timing = simulate(&schedule, cost);

        if (timing.bubble < vp_schedule_theory(&config, &cost) - 1e-9)
            fail_msg("%s %d %d: %g", config.name, config.n_stages, config.n_mb,
                     timing.bubble);
        vp_timing_release(&timing);
        vp_schedule_release(&schedule);
    }
}

/* ---- Replicas, depths, streams ------------------------------------------ */

static void default_depths(void **state)
{
    static const struct {
        int n, replicas[4], want[4];
    } cases[] = {
        { 4, { 1, 1, 1, 1 }, { 3, 2, 1, 0 } },
        { 4, { 4, 4, 4, 4 }, { 3, 2, 1, 0 } },
        { 3, { 1, 1, 2 }, { 3, 2, 0 } },
        { 3, { 2, 1, 1 }, { 1, 1, 0 } },
        { 3, { 2, 1, 3 }, { 2, 3, 0 } },
        { 3, { 1, 2, 1 }, { 3, 1, 0 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        for (int s = 0; s < cases[i].n; s++)
            assert_int_equal(
                vp_schedule_depth(cases[i].replicas, cases[i].n, s),
                cases[i].want[s]);
}

/* One buffer beyond what is kept for each rank that sends to one. */
static void rings_with_replicas(void **state)
{
    static const struct {
        int replicas[2], act, grad;
    } cases[] = {
        { { 1, 1 }, 2, 2 }, { { 2, 1 }, 3, 2 }, { { 1, 2 }, 2, 3 },
        { { 2, 2 }, 2, 2 }, { { 4, 2 }, 3, 2 }, { { 2, 3 }, 3, 4 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_sched_config config = { .name = "1f1b",
                                          .n_stages = 2,
                                          .n_mb = 12,
                                          .replicas = cases[i].replicas };
        struct vp_schedule schedule = make(&config);

        assert_int_equal(schedule.stages[1].n_act_bufs, cases[i].act);
        assert_int_equal(schedule.stages[0].n_grad_bufs, cases[i].grad);
        vp_schedule_release(&schedule);
    }
}

static void replicas_are_proven(void **state)
{
    static const char *const names[] = { "1f1b",       "gpipe", "pipedream",
                                         "macrobatch", "zb-h1", "zb-h2",
                                         "eval" };
    uint32_t counter = 0;

    (void)state;
    for (int n = 0; n < 600; n++) {
        int replicas[5], n_stages = 1 + (int)random_below(&counter, 5);
        struct vp_sched_config config = {
            .name = names[n % VP_COUNT_OF(names)],
            .n_stages = n_stages,
            .n_mb = 1 + (int)random_below(&counter, 23),
            .replicas = replicas,
            .global_norm = n % 4 == 0,
        };
        struct vp_schedule schedule;
        struct vp_timing timing;
        const char *why = NULL;

        for (int s = 0; s < n_stages; s++)
            replicas[s] = 1 + (int)random_below(&counter, 4);
        schedule = make(&config);
        assert_valid(&schedule);
        if (cx_run(&schedule, (uint32_t)n, &why) != CX_DONE)
            fail_msg("%s", why);
        timing = simulate(&schedule, unit_costs);
        assert_true(timing.bubble >=
                    vp_schedule_theory(&config, &unit_costs) - 1e-12);
        vp_timing_release(&timing);
        vp_schedule_release(&schedule);
    }
}

/* The version rule, from the text of the design: m of stage s is in round
 * (m - b) / R, which runs on v_b + max(0, r - W). */
static void stream_versions(void **state)
{
    int replicas[] = { 2, 1, 3 }, begin[] = { 5, 11, 4 };
    struct vp_sched_config config = { .name = "pipedream",
                                      .n_stages = 3,
                                      .n_mb = 40,
                                      .replicas = replicas,
                                      .segment_begin = 7,
                                      .first_mb = 7,
                                      .version_begin = begin };
    struct vp_schedule schedule = make(&config);
    int n_compute = 0, n_updates = 0;

    (void)state;
    assert_valid(&schedule);
    for (int i = 0; i < schedule.n_actions; i++) {
        const struct vp_action *a = &schedule.actions[i];
        int depth = vp_schedule_depth(replicas, 3, a->stage);
        int round = (a->mb - 7) / replicas[a->stage];

        if (a->kind == VP_ACTION_F || a->kind == VP_ACTION_B) {
            int stale = round > depth ? round - depth : 0;

            assert_int_equal(a->version, begin[a->stage] + stale);
            assert_int_equal(a->slot, round % (depth + 1));
            n_compute++;
        }
        if (a->kind == VP_ACTION_UPDATE) {
            assert_int_equal(a->version, begin[a->stage] + a->mb + 1);
            n_updates++;
        }
    }
    assert_int_equal(n_compute, 2 * 3 * 40);
    assert_int_equal(n_updates, 2 * 20 + 40 + 3 * 13);
    assert_int_equal(vp_schedule_n_dropped(&schedule, 0), 0);
    assert_int_equal(vp_schedule_n_dropped(&schedule, 2), 1);
    for (int s = 0; s < 3; s++)
        assert_int_equal(schedule.stages[s].n_versions,
                         vp_schedule_depth(replicas, 3, s) + 1);
    vp_schedule_release(&schedule);
}

static void macrobatch_versions(void **state)
{
    struct vp_sched_config config = {
        .name = "macrobatch", .n_stages = 3, .n_mb = 23, .update_every = 4
    };
    struct vp_schedule schedule = make(&config);

    (void)state;
    assert_valid(&schedule);
    for (int i = 0; i < schedule.n_actions; i++) {
        const struct vp_action *a = &schedule.actions[i];
        int group = a->mb / 4;

        if (a->kind == VP_ACTION_F || a->kind == VP_ACTION_B)
            assert_int_equal(a->version, group > 0 ? group - 1 : 0);
    }
    for (int s = 0; s < 3; s++) {
        assert_int_equal(schedule.stages[s].n_versions, 2);
        assert_int_equal(vp_schedule_n_dropped(&schedule, s), 3);
    }
    vp_schedule_release(&schedule);
    config.update_every = 0;
    schedule = make(&config);
    assert_int_equal(schedule.stages[0].update_every, 3); /* W_0 + 1 */
    vp_schedule_release(&schedule);
}

/* Cuts a stream at random places: the pieces of each rank, one after the
 * other, are the whole. */
static void check_pieces(const struct vp_sched_config *whole_config,
                         uint32_t *counter)
{
    struct vp_schedule whole = make(whole_config);
    int *at = calloc((size_t)whole.n_ranks, sizeof(*at));
    int end = whole_config->first_mb + whole_config->n_mb;
    struct vp_sched_config config = *whole_config;

    assert_valid(&whole);
    while (config.first_mb < end) {
        struct vp_schedule piece;
        int n = 1 + (int)random_below(counter, 9);

        config.n_mb = least(n, end - config.first_mb);
        config.keep_going = config.first_mb + config.n_mb < end;
        config.segment_end = end;
        piece = make(&config);
        assert_valid(&piece);
        for (int rank = 0; rank < whole.n_ranks; rank++) {
            const struct vp_rank_list *list = &piece.ranks[rank];

            assert_true(at[rank] + list->n_actions <=
                        whole.ranks[rank].n_actions);
            if (list->n_actions > 0)
                assert_memory_equal(
                    list->actions, &whole.ranks[rank].actions[at[rank]],
                    (size_t)list->n_actions * sizeof(*list->actions));
            at[rank] += list->n_actions;
        }
        config.first_mb += config.n_mb;
        vp_schedule_release(&piece);
    }
    for (int rank = 0; rank < whole.n_ranks; rank++)
        assert_int_equal(at[rank], whole.ranks[rank].n_actions);
    free(at);
    vp_schedule_release(&whole);
}

static void pieces_make_the_whole(void **state)
{
    uint32_t counter = 0;

    (void)state;
    for (int n = 0; n < 400; n++) {
        int replicas[4], begin[4], past[4], swap[4],
            n_stages = 1 + (int)random_below(&counter, 4);
        bool all[4] = { true, n % 3 == 0, true, false };
        int first = (int)random_below(&counter, 10);
        struct vp_sched_config config = {
            .name = n % 2 ? "macrobatch" : "pipedream",
            .n_stages = n_stages,
            .n_mb = 1 + (int)random_below(&counter, 60),
            .replicas = replicas,
            .segment_begin = first,
            .first_mb = first,
            .version_begin = begin,
            .version_past = n % 4 ? past : NULL,
            .recompute = n % 5 == 0 ? all : NULL,
            .early_recompute = n % 10 == 0,
            .swap = n % 7 < 3 ? swap : NULL,
        };

        for (int s = 0; s < 4; s++) {
            swap[s] = (int)random_below(&counter, 6);
            replicas[s] = n % 3 ? 1 : 1 + (int)random_below(&counter, 3);
            begin[s] = (int)random_below(&counter, 5);
            past[s] = (int)random_below(&counter, (uint32_t)begin[s] + 1);
        }
        check_pieces(&config, &counter);
    }
}

/* A stream that ran empty and goes on: versions and updates are those of the
 * stream that never stopped. */
static void stream_goes_on(void **state)
{
    static const char *const names[] = { "pipedream", "macrobatch" };

    (void)state;
    for (int n_stages = 1; n_stages <= 5; n_stages++)
        for (int n = 0; n < 2; n++)
            for (int stop = 1; stop <= 24; stop++) {
                struct vp_sched_config config = { .name = names[n],
                                                  .n_stages = n_stages,
                                                  .n_mb = 48 };
                struct vp_schedule whole = make(&config), rest;
                int begin[5], past[5], every = whole.stages[0].update_every;

                for (int s = 0; s < n_stages; s++)
                    begin[s] = past[s] = stop;
                config.segment_begin = config.first_mb = stop * every;
                config.n_mb = 12;
                config.version_begin = begin;
                config.version_past = past;
                rest = make(&config);
                assert_valid(&rest);
                for (int s = 0; s < n_stages; s++)
                    for (int m = stop * every; m < stop * every + 12; m++)
                        assert_int_equal(vp_schedule_version_of(&rest, s, m),
                                         vp_schedule_version_of(&whole, s, m));
                vp_schedule_release(&rest);
                vp_schedule_release(&whole);
            }
}

/* ---- Time --------------------------------------------------------------- */

/* Two stages, one minibatch each way, by hand. */
static void times_by_hand(void **state)
{
    struct vp_sched_config config = { .name = "1f1b",
                                      .n_stages = 2,
                                      .n_mb = 1 };
    struct vp_stage_costs costs[] = {
        { .f = 2, .b = 3, .w = 1, .act = 5, .grad = 99, .update = 2 },
        { .f = 7, .b = 4, .w = 2, .act = 99, .grad = 1, .update = 3 },
    };
    struct vp_sched_costs table = { .stages = costs, .latency = 0.5 };
    struct vp_schedule schedule = make(&config);
    struct vp_timing t;
    struct vp_err err;

    (void)state;
    /* 0: F 0-2, SEND, RECV at 22, B 22-26, UPDATE 26-28
     * 1: RECV at 7.5, F 7.5-14.5, B 14.5-20.5, SEND, UPDATE 20.5-23.5 */
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.makespan == 28.0);
    assert_true(t.ranks[0].busy == 8.0 && t.ranks[1].busy == 16.0);
    assert_true(fabs(t.bubble - (1 - 24.0 / 56.0)) < 1e-12);
    vp_timing_release(&t);
    /* A sender that waits for the link is busy 5 and 1 longer. */
    table.send_blocks = true;
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.makespan == 28.0);
    assert_true(t.ranks[0].busy == 13.0 && t.ranks[1].busy == 17.0);
    vp_timing_release(&t);
    vp_schedule_release(&schedule);
}

/* In the middle of a stream nobody waits, and the slots are full. */
static void steady_state_has_no_bubble(void **state)
{
    struct vp_sched_config config = { .name = "pipedream",
                                      .n_stages = 4,
                                      .n_mb = 100,
                                      .first_mb = 50,
                                      .keep_going = true };
    struct vp_schedule schedule = make(&config);
    struct vp_timing timing = simulate(&schedule, unit_costs);

    (void)state;
    assert_valid(&schedule);
    assert_true(timing.bubble < 0.02); /* the first messages come at once */
    for (int s = 0; s < 4; s++) {
        assert_int_equal(timing.ranks[s].first_slots, 3 - s);
        assert_int_equal(timing.ranks[s].peak_slots, 4 - s);
        assert_int_equal(timing.peak_slots[s], 4 - s);
    }
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
}

/* A slow link carries one message at a time; credits hold the sender back. */
static void links_and_credits(void **state)
{
    struct vp_sched_config config = { .name = "eval",
                                      .n_stages = 2,
                                      .n_mb = 4 };
    struct vp_stage_costs costs[] = { { .f = 1, .act = 10 }, { .f = 1 } };
    struct vp_schedule schedule = make(&config);
    struct vp_sched_costs table = { .stages = costs };
    struct vp_timing t;
    struct vp_err err;

    (void)state;
    /* Link 1-11-21-31-41, the last F 41-42. */
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.makespan == 42.0);
    vp_timing_release(&t);
    /* Two buffers: F2 waits for the end of 1F0. */
    assert_int_equal(schedule.stages[1].n_act_bufs, 2);
    costs[0].act = 0;
    costs[1].f = 10;
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.spans[4].start == 11.0); /* 0F2 */
    assert_true(t.spans[6].start == 21.0); /* 0F3 */
    assert_true(t.makespan == 41.0);
    vp_timing_release(&t);
    vp_schedule_release(&schedule);
}

/* The middle of three stages sends both ways; each message takes its port 4. */
static void one_port_carries_all(void **state)
{
    struct vp_sched_config config = { .name = "1f1b",
                                      .n_stages = 3,
                                      .n_mb = 2 };
    struct vp_stage_costs costs[] = { { .f = 1, .b = 1 },
                                      { .f = 1, .b = 1, .act = 4, .grad = 4 },
                                      { .f = 1, .b = 1 } };
    struct vp_schedule schedule = make(&config);
    struct vp_sched_costs table = { .stages = costs };
    struct vp_timing t;
    struct vp_err err;

    (void)state;
    /* Onwards 2-6-10; back 9-13-17; 0B1 17-18. */
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.makespan == 18.0);
    vp_timing_release(&t);
    /* Back 10-14-18, after what goes onwards. */
    table.one_port = true;
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.makespan == 19.0);
    vp_timing_release(&t);
    /* A port that takes no time is no port. */
    costs[1].act = costs[1].grad = 0;
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.makespan == 8.0);
    vp_timing_release(&t);
    vp_schedule_release(&schedule);
}

static void large_stream_is_fast(void **state)
{
    struct vp_sched_config config = { .name = "pipedream",
                                      .n_stages = 8,
                                      .n_mb = 10000 };
    clock_t start = clock();
    struct vp_schedule schedule = make(&config);
    struct vp_timing timing;

    (void)state;
    assert_valid(&schedule);
    timing = simulate(&schedule, unit_costs);
    assert_true(timing.makespan == 3 * (10000 + 7));
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 5.0);
}

/* ---- Text --------------------------------------------------------------- */

static void assert_same(const struct vp_schedule *a,
                        const struct vp_schedule *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->n_ranks, b->n_ranks);
    assert_int_equal(a->n_stages, b->n_stages);
    assert_int_equal(a->n_actions, b->n_actions);
    assert_memory_equal(a->actions, b->actions,
                        (size_t)a->n_actions * sizeof(*a->actions));
    for (int s = 0; s < a->n_stages; s++) {
        struct vp_schedule_stage x = a->stages[s], y = b->stages[s];

        assert_int_equal(x.recompute, y.recompute);
        assert_int_equal(x.first_rank, y.first_rank);
        assert_int_equal(x.n_replicas, y.n_replicas);
        assert_int_equal(x.depth, y.depth);
        assert_int_equal(x.n_slots, y.n_slots);
        assert_int_equal(x.n_act_bufs, y.n_act_bufs);
        assert_int_equal(x.n_grad_bufs, y.n_grad_bufs);
        assert_int_equal(x.n_versions, y.n_versions);
        assert_int_equal(x.update_every, y.update_every);
        assert_int_equal(x.version_lag, y.version_lag);
        assert_int_equal(x.version_begin, y.version_begin);
        assert_int_equal(x.version_past, y.version_past);
    }
}

static void check_round_trip(const struct vp_schedule *schedule, int flags)
{
    char *text = print(schedule, flags), *again;
    struct vp_schedule read;
    struct vp_err err = { .text = "" };

    if (vp_schedule_parse(text, "text", &read, &err) != VP_OK)
        fail_msg("%s\n%s", err.text, text);
    assert_same(schedule, &read);
    assert_valid(&read);
    again = print(&read, flags);
    assert_string_equal(text, again);
    free(text);
    free(again);
    vp_schedule_release(&read);
}

static void text_round_trip(void **state)
{
    const struct vp_generator *generator;
    int replicas[] = { 2, 1, 3, 1, 2 };
    bool recompute[15] = { true, false, true, true, false };

    (void)state;
    for (int i = 0; (generator = vp_generator_at(i)); i++)
        for (int s = 1; s <= 5; s++)
            for (int m = 1; m <= 9; m += 2) {
                struct vp_sched_config config = {
                    .name = generator->name,
                    .n_stages = s,
                    .n_mb = m,
                    .n_chunks = generator->chunks ? 2 : 1,
                    .replicas = generator->chunks ? NULL : replicas,
                    .recompute = recompute,
                    .global_norm = m == 3,
                    .segment_begin = generator->stream ? 4 : 0,
                    .first_mb = generator->stream ? 6 : 0,
                    .keep_going = generator->stream && m == 5,
                };
                struct vp_schedule schedule = make(&config);

                check_round_trip(&schedule, 0);
                check_round_trip(&schedule, VP_PRINT_FULL);
                vp_schedule_release(&schedule);
            }
}

/* Slots that differ from the rule are written and read. */
static void odd_slots_survive(void **state)
{
    struct vp_sched_config config = { .name = "1f1b",
                                      .n_stages = 2,
                                      .n_mb = 3 };
    struct vp_schedule schedule = make(&config);
    char *text;

    (void)state;
    for (int i = 0; i < schedule.n_actions; i++)
        if (schedule.actions[i].stage == 0 && schedule.actions[i].slot >= 0)
            schedule.actions[i].slot = 1 - schedule.actions[i].slot;
    assert_valid(&schedule);
    text = print(&schedule, VP_PRINT_COMPUTE);
    assert_string_equal(text, "0: 0F0@1 0F1@0 0B0@1 0F2@1 0B1@0 0B2@1 "
                              "0UPDATE0\n"
                              "1: 1F0 1B0 1F1 1B1 1F2 1B2 1UPDATE0\n");
    free(text);
    check_round_trip(&schedule, 0);
    vp_schedule_release(&schedule);
}

static void short_text_is_enough(void **state)
{
    static const char text[] = "stages=2 minibatches=1\n"
                               "0: 0F0 0SEND_ACT0 0RECV_GRAD0 0B0 0UPDATE0\n"
                               "1: 1RECV_ACT0 1F0 1B0 1SEND_GRAD0 1UPDATE0\n\n";
    struct vp_schedule schedule;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_schedule_parse(text, "x", &schedule, &err), VP_OK);
    assert_valid(&schedule);
    assert_string_equal(schedule.name, "custom");
    assert_int_equal(schedule.stages[1].n_act_bufs, 2);
    vp_schedule_release(&schedule);
}

static void bad_text_names_the_place(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "", "f:1:1: 'stages=' or 'minibatches='" },
        { "stages=2", "f:1:1: 'stages=' or 'minibatches='" },
        { "stages=0 minibatches=1", "f:1:8: the number is too small" },
        { "stages=5000 minibatches=1", "f:1:8: the number is too large" },
        { "stages=2 stages=2", "f:1:10: 'stages=' stands twice" },
        { "stages=x", "f:1:8: a number belongs here" },
        { "stages=2 colour=3", "f:1:10: 'colour' is not a key" },
        { "slots=1 stages=2", "f:1:7: 'stages=' must come before 'slots='" },
        { "stages=3 slots=1,2 minibatches=1", "f:1:19: slots has 2 values" },
        { "stages=2 slots=1,2,3", "f:1:20: slots has more values" },
        { "stages=2 minibatches", "f:1:10: 'key=value'" },
        { "schedule= stages=2", "f:1:10: a name" },
        { "stages=1 minibatches=1 begin=3 first=2", "f:1:1: minibatches 2" },
        { "stages=1 minibatches=1\n", "f:2:1: the list of rank 0 is missing" },
        { "stages=1 minibatches=1\n1: 0F0", "f:2:1: the list of rank 0" },
        { "stages=1 minibatches=1\n0: 0X0", "f:2:5: an action is F, B" },
        { "stages=1 minibatches=1\n0: 1F0", "f:2:4: the number is too large" },
        { "stages=1 minibatches=1\n0: 0F", "f:2:6: a number belongs here" },
        { "stages=1 minibatches=1\n0: 0F0,", "f:2:7: a space belongs" },
        { "stages=1 minibatches=1\n0: 0F0@", "f:2:8: a number belongs here" },
        { "stages=1 minibatches=1\n0: 0REDUCE0@1", "f:2:12: this action has" },
        { "stages=1 minibatches=1\n0: 0SEND_ACT0v1", "f:2:14: this action" },
        { "stages=1 minibatches=1\n0: 0F0\n\n0", "f:4:1: the schedule has 1" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_schedule schedule;
        struct vp_err err = { .text = "" };

        assert_int_equal(vp_schedule_parse(cases[i].text, "f", &schedule, &err),
                         VP_ERR_INVALID);
        if (strncmp(err.text, cases[i].want, strlen(cases[i].want)) != 0)
            fail_msg("'%s': %s", cases[i].text, err.text);
    }
}

/* Any bytes: an error or a schedule that can be checked and printed. */
static void parser_survives_noise(void **state)
{
    static const char letters[] = "0123456789FBWR@v=,: \nSEND_ACTstages";
    struct vp_sched_config config = {
        .name = "pipedream", .n_stages = 3, .n_mb = 4, .replicas = one_two_one
    };
    struct vp_schedule schedule = make(&config);
    char *text = print(&schedule, VP_PRINT_FULL);
    size_t n = strlen(text);
    uint32_t counter = 0;
    int n_read = 0;

    (void)state;
    vp_schedule_release(&schedule);
    for (int i = 0; i < 20000; i++) {
        char *copy = malloc(n + 1);
        struct vp_err err;

        memcpy(copy, text, n + 1);
        for (int k = (int)random_below(&counter, 3); k >= 0; k--)
            copy[random_below(&counter, (int)n)] =
                letters[random_below(&counter, sizeof(letters) - 1)];
        if (vp_schedule_parse(copy, "noise", &schedule, &err) == VP_OK) {
            char *again = print(&schedule, 0);

            (void)vp_schedule_validate(&schedule, &err);
            free(again);
            vp_schedule_release(&schedule);
            n_read++;
        }
        free(copy);
    }
    free(text);
    assert_true(n_read > 100);
}

/* ---- Refusals ----------------------------------------------------------- */

static void bad_configurations(void **state)
{
    static const int negative[] = { 1, -1 }, zero[] = { 0, 1 };
    static const struct {
        struct vp_sched_config config;
        const char *want;
    } cases[] = {
        { { .name = "best", .n_stages = 1, .n_mb = 1 },
          "schedule 'best' is unknown; choose one of 1f1b, gpipe" },
        { { .name = NULL, .n_stages = 1, .n_mb = 1 }, "schedule '' is" },
        { { .name = "1f1b", .n_stages = 0, .n_mb = 1 }, "0 stages" },
        { { .name = "1f1b", .n_stages = 1, .n_mb = 0 }, "0 minibatches" },
        { { .name = "1f1b", .n_stages = 4096, .n_mb = 4097 },
          "are too many for one list" },
        { { .name = "1f1b", .n_stages = 2, .n_mb = 1, .n_chunks = 2 },
          "one chunk per rank" },
        { { .name = "zb-v", .n_stages = 2, .n_mb = 1, .n_chunks = 3 },
          "a V has two chunks per rank" },
        { { .name = "interleaved", .n_stages = 64, .n_mb = 1, .n_chunks = 65 },
          "at most 4096 stages" },
        { { .name = "interleaved",
            .n_stages = 2,
            .n_mb = 1,
            .replicas = two_one },
          "need the same number everywhere" },
        { { .name = "1f1b", .n_stages = 2, .n_mb = 1, .replicas = zero },
          "0 replicas of stage 0" },
        { { .name = "1f1b", .n_stages = 2, .n_mb = 1, .depth = negative },
          "depth -1 of stage 1" },
        { { .name = "gpipe", .n_stages = 2, .n_mb = 1, .depth = two_one },
          "no warm-up depth" },
        { { .name = "1f1b", .n_stages = 2, .n_mb = 1, .keep_going = true },
          "has no pieces" },
        { { .name = "pipedream",
            .n_stages = 2,
            .n_mb = 1,
            .first_mb = 2,
            .segment_begin = 3 },
          "the segment first" },
        { { .name = "pipedream",
            .n_stages = 2,
            .n_mb = 4,
            .segment_end = 3,
            .keep_going = true },
          "the piece ends at minibatch 4, the segment at 3" },
        { { .name = "pipedream", .n_stages = 2, .n_mb = 4, .segment_end = 5 },
          "the last piece ends with its segment" },
        { { .name = "pipedream",
            .n_stages = 2,
            .n_mb = 1,
            .version_begin = negative },
          "begins with version -1" },
        { { .name = "macrobatch", .n_stages = 4, .n_mb = 9, .update_every = 3 },
          "give at least 4" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_schedule schedule;
        struct vp_err err = { .text = "" };

        assert_int_equal(vp_schedule_make(&cases[i].config, &schedule, &err),
                         VP_ERR_INVALID);
        if (!strstr(err.text, cases[i].want))
            fail_msg("'%s' is not in '%s'", cases[i].want, err.text);
    }
}

#define TWO "stages=2 minibatches=2 slots=2,1 act=2 grad=2\n"
#define GOOD_1 \
    "1: 1RECV_ACT0 1F0 1B0 1SEND_GRAD0 1RECV_ACT1 1F1 1B1 1SEND_GRAD1 1UPDATE0"
#define GOOD_0                                                          \
    "0: 0F0 0SEND_ACT0 0F1 0SEND_ACT1 0RECV_GRAD0 0B0 0RECV_GRAD1 0B1 " \
    "0UPDATE0\n"

static const struct {
    const char *text, *want;
} refusals[] = {
    { TWO "0: 0F0 0SEND_ACT0 0RECV_GRAD0 0B0 0F1 0SEND_ACT1 0RECV_GRAD1 "
          "0B1 0UPDATE0\n"
          "1: 1RECV_ACT0 1F0 1RECV_ACT1 1F1@1 1B0 1SEND_GRAD0 1B1 "
          "1SEND_GRAD1 1UPDATE0",
      "rank 1, action 3 (1F1): slot 1 of 1 does not exist" },
    { "stages=2 minibatches=2\n"
      "0: 0F0 0SEND_ACT0 0RECV_GRAD0 0B0 0F1 0SEND_ACT1 0RECV_GRAD1 0B1 "
      "0UPDATE0\n"
      "1: 1RECV_ACT0 1F0 1RECV_ACT1 1F1 1B0 1SEND_GRAD0 1B1 1SEND_GRAD1 "
      "1UPDATE0",
      "rank 0, action 2 (0RECV_GRAD0): waits forever for 1SEND_GRAD0 of "
      "rank 1; cycle rank 0 -> rank 1 -> rank 0" },
    { "stages=2 minibatches=2 slots=2 act=1 grad=1\n"
      "0: 0F0 0SEND_ACT0 0F1 0SEND_ACT1 0RECV_GRAD0 0B0 0RECV_GRAD1 0B1 "
      "0UPDATE0\n"
      "1: 1RECV_ACT0 1F0 1RECV_ACT1 1F1 1B0 1SEND_GRAD0 1B1 1SEND_GRAD1 "
      "1UPDATE0",
      "rank 0, action 2 (0F1): waits forever for the buffer that is free "
      "after 1B0 of rank 1; cycle rank 0 -> rank 1 -> rank 0" },
    { TWO "0: 0F1 0SEND_ACT1 0F0 0SEND_ACT0 0RECV_GRAD0 0B0 0RECV_GRAD1 "
          "0B1 0UPDATE0\n" GOOD_1,
      "rank 0, action 0 (0F1): out of order: 0F0 comes next" },
    { TWO "0: 0F0 0SEND_ACT0 0F1@0 0SEND_ACT1 0RECV_GRAD0 0B0 "
          "0RECV_GRAD1 0B1@0 0UPDATE0\n" GOOD_1,
      "rank 0, action 2 (0F1): slot 0 still holds minibatch 0" },
    { TWO "0: 0F0 0SEND_ACT0 0F1 0SEND_ACT1 0RECV_GRAD0 0B0@1 "
          "0RECV_GRAD1 0B1 0UPDATE0\n" GOOD_1,
      "rank 0, action 5 (0B0): slot 1 does not hold the minibatch" },
    { TWO "0: 0F0 0SEND_ACT0 0F1 0SEND_ACT1 0B0 0RECV_GRAD0 0RECV_GRAD1 "
          "0B1 0UPDATE0\n" GOOD_1,
      "rank 0, action 4 (0B0): 0RECV_GRAD0 must come before" },
    { "stages=1 minibatches=2 recompute=1\n"
      "0: 0F0 0F1 0R0 0R1 0B0 0B1 0UPDATE0\n",
      "rank 0, action 3 (0R1): overwrites what was recomputed for minibatch 0; "
      "0B0 must come before" },
    { TWO "0: 0SEND_ACT0 0F0 0F1 0SEND_ACT1 0RECV_GRAD0 0B0 0RECV_GRAD1 "
          "0B1 0UPDATE0\n" GOOD_1,
      "rank 0, action 0 (0SEND_ACT0): 0F0 must come before" },
    { TWO "0: 0F0 0SEND_ACT0 0F1 0SEND_ACT1 0RECV_GRAD0 0B0 0UPDATE0 "
          "0RECV_GRAD1 0B1\n" GOOD_1,
      "rank 0, action 6 (0UPDATE0): 0B1 of its round comes later" },
    { TWO "0: 0F0 0SEND_ACT0 0F1 0SEND_ACT1 0RECV_GRAD0 0B0 0RECV_GRAD1 "
          "0B1\n" GOOD_1,
      "rank 0, end of the list: 0UPDATE0 is missing" },
    { TWO GOOD_0 "1: 1RECV_ACT0 1F0 1F0 1B0 1SEND_GRAD0 1RECV_ACT1 1F1 "
                 "1B1 1SEND_GRAD1 1UPDATE0",
      "rank 1, action 2 (1F0): out of order: 1F1 comes next" },
    { TWO GOOD_0 "1: 1RECV_ACT0 1F0 1R0 1B0 1SEND_GRAD0 1RECV_ACT1 1F1 "
                 "1B1 1SEND_GRAD1 1UPDATE0",
      "rank 1, action 2 (1R0): stage 1 has no R in this schedule" },
    { TWO GOOD_0 GOOD_1 " 1UPDATE1",
      "rank 1, action 9 (1UPDATE1): all 1 UPDATE of this stage came" },
    { TWO GOOD_0 "1: 1RECV_ACT0 1F0v1 1B0v1 1SEND_GRAD0 1RECV_ACT1 1F1 "
                 "1B1 1SEND_GRAD1 1UPDATE0",
      "rank 1, action 1 (1F0): uses weight version 1; the rule says 0" },
    { TWO GOOD_0 "1: 0F0", "rank 1, action 0 (0F0): stage 0 is not on" },
    { "stages=1 minibatches=2 every=1 lag=1 slots=2\n"
      "0: 0F0 0F1 0B0 0UPDATE0 0B1 0UPDATE1",
      "rank 0, action 3 (0UPDATE0): overwrites weight version 0, which "
      "minibatch 1 in flight still needs" },
    { "stages=1 minibatches=2 every=1 lag=1\n"
      "0: 0F0 0B0 0UPDATE0 0F1 0B1 0UPDATE1",
      "rank 0, action 3 (0F1): weight version 0 was overwritten by 1; the stage "
      "needs more than 1 versions" },
    { "stages=1 minibatches=2 every=1 versions=2\n"
      "0: 0F0 0F1 0B0 0UPDATE0 0B1 0UPDATE1",
      "rank 0, action 1 (0F1): weight version 1 is not written yet" },
    { "stages=1 minibatches=2 every=1 lag=1 versions=2\n"
      "0: 0F0 0F1 0B0 0B1 0UPDATE0 0UPDATE1",
      "rank 0, action 3 (0B1): adds to round 1, but 0UPDATE0 comes" },
    { "stages=1 minibatches=2 replicas=2\n"
      "0: 0F0 0B0 0REDUCE0 0UPDATE0\n1: 0F1 0B1 0UPDATE0 0REDUCE0",
      "rank 1, action 2 (0UPDATE0): 0REDUCE0 must come before" },
    { "stages=2 minibatches=1 rank=0 global_norm=1\n"
      "0: 0F0 0SEND_ACT0 1RECV_ACT0 1F0 1B0 1SEND_GRAD0 1REDUCE0 1UPDATE0 "
      "0RECV_GRAD0 0B0 0REDUCE0 0UPDATE0",
      "rank 0, action 7 (1UPDATE0): waits forever for 0REDUCE0 of rank 0; "
      "cycle rank 0 -> rank 0" },
};

static void refusals_name_the_cause(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(refusals); i++) {
        struct vp_schedule schedule;
        struct vp_err err = { .text = "" };

        if (vp_schedule_parse(refusals[i].text, "text", &schedule, &err) !=
            VP_OK)
            fail_msg("%s", err.text);
        assert_int_equal(vp_schedule_validate(&schedule, &err), VP_ERR_INVALID);
        if (strncmp(err.text, refusals[i].want, strlen(refusals[i].want)) != 0)
            fail_msg("case %d: '%s'", (int)i, err.text);
        vp_schedule_release(&schedule);
    }
}

/* A stage that warms up more than the one before it can never start. */
static void depths_that_hang(void **state)
{
    int bad[] = { 0, 2, 0 }, fine[] = { 2, 2, 0 }, *depths[] = { bad, fine };

    (void)state;
    for (int going = 0; going < 2; going++)
        for (int i = 0; i < 2; i++) {
            struct vp_sched_config config = { .name = "pipedream",
                                              .n_stages = 3,
                                              .n_mb = 9,
                                              .keep_going = going,
                                              .depth = depths[i] };
            struct vp_schedule schedule = make(&config);
            struct vp_err err = { .text = "" };

            assert_int_equal(vp_schedule_validate(&schedule, &err),
                             i == 0 ? VP_ERR_INVALID : VP_OK);
            if (i == 0)
                assert_non_null(strstr(err.text,
                                       "rank 0, action 2 (0RECV_GRAD0): waits "
                                       "forever for 1SEND_GRAD0 of rank 1"));
            vp_schedule_release(&schedule);
        }
}

/* ---- Validator against executor ----------------------------------------- */

/* Whether they agree; counts what both say. */
static void compare(const struct vp_schedule *schedule, uint32_t seed,
                    int counts[2])
{
    struct vp_err err = { .text = "" };
    bool valid = vp_schedule_validate(schedule, &err) == VP_OK;

    for (uint32_t i = 0; i < 3; i++) {
        const char *why = "";
        enum cx_result result = cx_run(schedule, 3 * seed + i, &why);

        if (valid != (result == CX_DONE))
            fail_msg("%s: validator '%s', executor '%s'", schedule->name,
                     valid ? "fine" : err.text, why);
    }
    counts[valid]++;
}

/* A walk from a generated schedule: every step is one change, legal ones are
 * kept, so that it drifts away from what generators write. */
static void walk(const struct vp_sched_config *config, int n_steps,
                 uint32_t *counter, int counts[2])
{
    struct vp_schedule first = make(config);
    struct mutant here = mutant_copy(&first);

    for (int i = 0; i < n_steps; i++) {
        struct mutant next = mutant_copy(&here.schedule);
        int before = counts[1];

        for (int k = random_below(counter, 4) ? 1 : 2; k > 0; k--)
            switch (random_below(counter, 8)) {
            case 0:
                mutate_size(&next, counter);
                break;
            case 1:
            case 2:
                mutate_field(&next, counter);
                break;
            default:
                mutate_order(&next, counter);
                break;
            }
        compare(&next.schedule, *counter, counts);
        if (counts[1] > before) {
            mutant_release(&here);
            here = next;
        } else {
            mutant_release(&next);
        }
    }
    mutant_release(&here);
    vp_schedule_release(&first);
}

static void validator_agrees_with_executor(void **state)
{
    static const bool all[] = { true, true, true, true, true, true };
    static const int two[] = { 2, 2, 2, 2, 2, 2 }, three[] = { 3, 3, 3, 3 };
    static const struct vp_sched_config configs[] = {
        { .name = "1f1b", .n_stages = 1, .n_mb = 3 },
        { .name = "1f1b", .n_stages = 3, .n_mb = 4, .swap = two },
        { .name = "1f1b",
          .n_stages = 4,
          .n_mb = 5,
          .swap = three,
          .recompute = all },
        { .name = "pipedream", .n_stages = 4, .n_mb = 7, .swap = three },
        { .name = "zb-h1", .n_stages = 3, .n_mb = 4, .swap = three },
        { .name = "zb-h1",
          .n_stages = 3,
          .n_mb = 5,
          .recompute = all,
          .w_recomputed = true },
        { .name = "1f1b", .n_stages = 3, .n_mb = 4, .global_norm = true },
        { .name = "1f1b", .n_stages = 2, .n_mb = 3, .recompute = all },
        { .name = "1f1b", .n_stages = 3, .n_mb = 5, .replicas = one_two_one },
        { .name = "1f1b", .n_stages = 2, .n_mb = 1, .replicas = two_one },
        { .name = "gpipe", .n_stages = 3, .n_mb = 3 },
        { .name = "gpipe", .n_stages = 2, .n_mb = 4, .replicas = two_one },
        { .name = "pipedream", .n_stages = 3, .n_mb = 6 },
        { .name = "pipedream",
          .n_stages = 3,
          .n_mb = 7,
          .replicas = one_two_one,
          .segment_begin = 3,
          .first_mb = 3 },
        { .name = "pipedream",
          .n_stages = 2,
          .n_mb = 5,
          .recompute = all,
          .early_recompute = true,
          .replicas = two_one },
        { .name = "macrobatch", .n_stages = 3, .n_mb = 10 },
        { .name = "macrobatch", .n_stages = 2, .n_mb = 9, .replicas = two_one },
        { .name = "interleaved",
          .n_stages = 2,
          .n_mb = 3,
          .n_chunks = 2,
          .global_norm = true },
        { .name = "interleaved", .n_stages = 1, .n_mb = 2, .n_chunks = 3 },
        { .name = "zb-h1", .n_stages = 3, .n_mb = 4 },
        { .name = "zb-h1", .n_stages = 2, .n_mb = 3, .recompute = all },
        { .name = "zb-h2", .n_stages = 3, .n_mb = 5 },
        { .name = "zb-h2", .n_stages = 3, .n_mb = 3 },
        { .name = "zb-h2", .n_stages = 2, .n_mb = 4, .replicas = two_one },
        { .name = "dualpipe-v", .n_stages = 2, .n_mb = 4 },
        { .name = "v-half", .n_stages = 3, .n_mb = 4 },
        { .name = "v-min", .n_stages = 3, .n_mb = 3, .recompute = all },
        { .name = "v-auto", .n_stages = 2, .n_mb = 3, .memory = 3 },
        { .name = "zb-v", .n_stages = 2, .n_mb = 3 },
        { .name = "zb-v", .n_stages = 1, .n_mb = 3, .global_norm = true },
        { .name = "eval", .n_stages = 3, .n_mb = 4 },
        { .name = "eval", .n_stages = 2, .n_mb = 5, .replicas = two_one },
    };
    uint32_t counter = 0;
    int counts[2] = { 0, 0 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(configs); i++)
        walk(&configs[i], 1000, &counter, counts);
    assert_true(counts[0] > 5000 && counts[1] > 1000);
}

/* What generators write runs, too. */
static void generated_schedules_run(void **state)
{
    const struct vp_generator *generator;

    (void)state;
    for (int i = 0; (generator = vp_generator_at(i)); i++)
        for (int s = 1; s <= 5; s++)
            for (int m = 1; m <= 11; m++) {
                struct vp_sched_config config = {
                    .name = generator->name,
                    .n_stages = s,
                    .n_mb = m,
                    .n_chunks = generator->chunks ? 2 : 1,
                };
                struct vp_schedule schedule = make(&config);
                const char *why = NULL;

                if (cx_run(&schedule, (uint32_t)(16 * s + m), &why) != CX_DONE)
                    fail_msg("%s %d %d: %s", generator->name, s, m, why);
                vp_schedule_release(&schedule);
            }
}

/* ---- Pictures ----------------------------------------------------------- */

static void literal_chart(void **state)
{
    static const struct {
        struct vp_sched_config config;
        int width;
        const char *want;
    } cases[] = {
        { { .name = "1f1b", .n_stages = 2, .n_mb = 3 },
          80,
          "rank 0   F0F1....B0  F2B1  ..B2  \n"
          "rank 1   ..F0B0  F1B1  F2B2  ....\n" },
        { { .name = "zb-v", .n_stages = 2, .n_mb = 2 },
          80,
          "rank 0   F0F1..f0b0f1b1B0w0w1B1W0W1\n"
          "rank 1   ..F0f0F1f1b0B0b1w0B1W0w1W1\n" },
        { { .name = "gpipe", .n_stages = 2, .n_mb = 4 },
          32,
          "rank 0   FFFF...B0B1B2B3\n"
          "rank 1   .FFFFB0B1B2B3..\n" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_schedule schedule = make(&cases[i].config);
        struct vp_timing timing = simulate(&schedule, unit_costs);
        char *text;

        assert_int_equal(
            vp_schedule_chart(&schedule, &timing, cases[i].width, false, &text),
            VP_OK);
        assert_string_equal(text, cases[i].want);
        free(text);
        assert_int_equal(
            vp_schedule_chart(&schedule, &timing, cases[i].width, true, &text),
            VP_OK);
        assert_non_null(strstr(text, "\x1b[0m\n"));
        free(text);
        vp_timing_release(&timing);
        vp_schedule_release(&schedule);
    }
}

static int count(const char *text, const char *word)
{
    int n = 0;

    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

/* Every tag is closed, every action has its box. */
static void svg_is_complete(void **state)
{
    static const char *const tags[] = { "svg",  "style",   "defs", "title",
                                        "text", "pattern", "path" };
    struct vp_sched_config config = { .name = "zb-h1",
                                      .n_stages = 3,
                                      .n_mb = 5 };
    struct vp_schedule schedule = make(&config);
    struct vp_timing timing = simulate(&schedule, unit_costs);
    char *text;

    (void)state;
    assert_int_equal(vp_schedule_svg(&schedule, &timing, "a < b & c", &text),
                     VP_OK);
    for (size_t i = 0; i < VP_COUNT_OF(tags); i++) {
        char open[16], open_with[16], close[16];
        int n_open;

        snprintf(open, sizeof(open), "<%s>", tags[i]);
        snprintf(open_with, sizeof(open_with), "<%s ", tags[i]);
        snprintf(close, sizeof(close), "</%s>", tags[i]);
        n_open = count(text, open) + count(text, open_with);
        if (strcmp(tags[i], "path") == 0)
            assert_int_equal(n_open, 3); /* one curve per rank */
        else
            assert_int_equal(n_open, count(text, close));
    }
    assert_int_equal(count(text, ", slot "), 3 * 3 * 5);
    assert_int_equal(count(text, "<title>update"), 3);
    assert_int_equal(count(text, "a &lt; b &amp; c"), 1);
    free(text);
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literal_staircases),
        cmocka_unit_test(literal_text),
        cmocka_unit_test(early_recompute_precedes_the_gradient),
        cmocka_unit_test(theory_is_reached_everywhere),
        cmocka_unit_test(evaluation_in_a_v),
        cmocka_unit_test(theory_with_recompute),
        cmocka_unit_test(theory_is_a_bound),
        cmocka_unit_test(default_depths),
        cmocka_unit_test(rings_with_replicas),
        cmocka_unit_test(replicas_are_proven),
        cmocka_unit_test(stream_versions),
        cmocka_unit_test(stream_goes_on),
        cmocka_unit_test(macrobatch_versions),
        cmocka_unit_test(pieces_make_the_whole),
        cmocka_unit_test(times_by_hand),
        cmocka_unit_test(steady_state_has_no_bubble),
        cmocka_unit_test(links_and_credits),
        cmocka_unit_test(one_port_carries_all),
        cmocka_unit_test(large_stream_is_fast),
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(odd_slots_survive),
        cmocka_unit_test(short_text_is_enough),
        cmocka_unit_test(bad_text_names_the_place),
        cmocka_unit_test(parser_survives_noise),
        cmocka_unit_test(bad_configurations),
        cmocka_unit_test(refusals_name_the_cause),
        cmocka_unit_test(depths_that_hang),
        cmocka_unit_test(validator_agrees_with_executor),
        cmocka_unit_test(generated_schedules_run),
        cmocka_unit_test(literal_chart),
        cmocka_unit_test(svg_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
