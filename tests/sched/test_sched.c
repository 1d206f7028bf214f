/* Generators write the literal staircases; over a full sweep of stages and
 * minibatches the bubble and the slots equal theory. Replicas, and streams that
 * are cut into pieces, are covered as well. */
#include "lib/checked_executor.h"
#include "lib/schedlib.h"
#include "sched/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

/* The makespan in units, written here a second time: one formula for many
 * minibatches, one for few, where the chain of one minibatch through the last
 * stage is longest. */
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
            assert_int_equal(n, n_ranks - s); /* schedules that are streams */
        else if (strcmp(name, "zb-h1") == 0)
            assert_int_equal(n, least(m, n_ranks));
        else if (strcmp(name, "zb-h2") == 0 && m >= 2 * n_ranks - 1)
            assert_int_equal(n, 2 * n_ranks - 1);
        else if (strcmp(name, "eval") == 0)
            assert_int_equal(n, 1);
        if (strcmp(name, "zb-v") == 0) /* a rank has the memory of 1f1b */
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
            continue; /* `auto`: test_auto.c; v-*: test_sched_v.c */
        if (!generator->chunks)
            last = 1;
        for (int v = first; v <= last; v++)
            for (int s = 1; s <= MAX_S; s++)
                for (int m = 1; m <= MAX_M; m++)
                    check_case(generator->name, s, m, v);
    }
}

/* Evaluation with the placement of zb-v needs no longer rings than its
 * training. */
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

/* Recomputation counts as work; early recomputation does not delay the gradient
 * on its way back. */
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
                    if (i != 2) /* 1f1b and gpipe reach the bound */
                        assert_true(timing.makespan == want);
                    assert_true(timing.makespan >= want);
                    assert_true(fabs(vp_schedule_theory(&config, &cost) -
                                     (1 - v * m * 4 / want)) < 1e-12);
                    vp_timing_release(&timing);
                    vp_schedule_release(&schedule);
                }
}

/* With other costs the theory is a lower bound that no order of actions can
 * beat. */
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

/* A ring has one buffer for each value that is kept, and one more for each rank
 * that sends to one receiver. */
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

/* Weight versions, by the rule in schedule.h: minibatch m of stage s is in
 * round r = (m - segment_begin) / replicas, which uses version version_begin +
 * max(0, r - depth). */
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

/* Cuts a stream at random places. The concatenated pieces of each rank must
 * equal the whole list. */
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

/* A stream is drained and continued: its versions and updates are those of the
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literal_staircases),
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
