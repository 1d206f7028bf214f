/* The V-shaped schedules v-half, v-min and v-auto stay within the memory that
 * they promise and take the promised time. */
#include "lib/checked_executor.h"
#include "lib/schedlib.h"
#include "sched/internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_S = 16, MAX_M = 64 };

/* Idle time and memory of a schedule at unit costs, in units of one chunk. */
struct facts {
    int all, span, peak; /* idle time of all, within the span; kept chunks */
};

static struct facts measure(const struct vp_sched_config *config)
{
    struct vp_schedule schedule = make(config);
    struct vp_timing timing = simulate(&schedule, unit_costs);
    double work = 6.0 * config->n_mb, span = vp_timing_span(&schedule, &timing);
    struct facts facts = { .all = (int)lround(timing.makespan - work),
                           .span = (int)lround(work * span / (1.0 - span)) };

    assert_valid(&schedule);
    for (int r = 0; r < schedule.n_ranks; r++)
        if (timing.ranks[r].peak_slots > facts.peak)
            facts.peak = timing.ranks[r].peak_slots;
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
    return facts;
}

/* Chunks that a rank keeps at once; the closed form, written here a second
 * time. */
static int keeps_of(const char *name, int p)
{
    return strcmp(name, "v-half") == 0 ? p % 2 == 0 ? p + 2 : p + 1
                                       : 2 * ((p + 4) / 3);
}

static int form(int p, int keeps)
{
    return 6 * p - 1 - 3 * keeps;
}

/* ---- v-half and v-min --------------------------------------------------- */

static void lists_of_the_papers(void **state)
{
    static const struct {
        const char *name, *want;
    } cases[] = {
        { "v-half", "FFFFFfbwfbwfBbWfwFBbWfwFBbWfwFBbWfbwBwWfbBwBWWBW "
                    "FFFFffbwfbwBWFfbwBWFfbwBWFfbwBFWfbwBbWfwBbBWwWBW "
                    "FFFfffbwFbBwWfFBbWfwFBbWfwFBbWfwFBbWfbBwBbwWBWwW "
                    "FfFfFfbwBWFfbwBWFfbwBWFfbwBFWfbBwFWfbBbBwWbBwWwW" },
        { "v-min", "FFFfbwfbwBWFfbBwWFfbBwWFfbBwWFfbBwWFfbBwWfbBwWBW "
                   "FFffbwFBbWwfFBbWwfFBbWwfFBbWwfFBbWwfFBbWwfBbWwBW "
                   "FFffbwFBWbfwBFWbfwBFWbfwBFWbfwBFWbfwBFWbfwBWbwBW "
                   "FfFfbBwWFfbBwWFfbBwWFfbBwWFfbBwWFfbBwWFfbBwWbBwW" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_sched_config config = { .name = cases[i].name,
                                          .n_stages = 4,
                                          .n_mb = 8 };
        struct vp_schedule schedule = make(&config);
        struct facts facts = measure(&config);
        char letters[256];

        write_letters(&schedule, letters);
        assert_string_equal(letters, cases[i].want);
        assert_int_equal(48 + facts.all, i == 0 ? 53 : 59);
        assert_int_equal(48 + facts.span, i == 0 ? 53 : 59);
        assert_int_equal(facts.peak, i == 0 ? 6 : 4);
        vp_schedule_release(&schedule);
    }
}

/* Every case is valid and within its memory. With at least 2P minibatches the
 * idle time is that of the papers (v-min with 5, 8, ... stages: 4 more). */
static void sweep_of_half_and_min(void **state)
{
    static const char *const names[] = { "v-half", "v-min" };

    (void)state;
    for (int n = 0; n < 2; n++)
        for (int p = 1; p <= MAX_S; p++)
            for (int m = 1; m <= MAX_M; m++) {
                struct vp_sched_config config = { .name = names[n],
                                                  .n_stages = p,
                                                  .n_mb = m };
                struct facts facts = measure(&config);
                int keeps = keeps_of(names[n], p);
                int want = form(p, keeps) + (n == 1 && p % 3 == 2 ? 4 : 0);

                assert_true(facts.peak <= keeps);
                if (m >= 2 * p && p >= 3 && facts.span != want)
                    fail_msg("%s P=%d M=%d: %d, not %d", names[n], p, m,
                             facts.span, want);
                if (m >= 2 * p)
                    assert_int_equal(facts.peak, keeps);
                if (p == 1)
                    assert_int_equal(facts.all, 0);
            }
}

/* With unequal costs each further minibatch of v-half takes its work and a
 * known stall. */
static void stall_of_v_half(void **state)
{
    uint32_t counter = 0;

    (void)state;
    for (int n = 0; n < 60; n++) {
        struct vp_stage_costs c = { .f = 5 + random_below(&counter, 10),
                                    .b = 5 + random_below(&counter, 10),
                                    .w = 1 + random_below(&counter, 10) };
        double stall = fmax(0.0, 2 * fabs(c.b - c.f) - c.w), time[2];

        for (int i = 0; i < 2; i++) {
            struct vp_sched_config config = { .name = "v-half",
                                              .n_stages = 4,
                                              .n_mb = i == 0 ? 30 : 40 };
            struct vp_schedule schedule = make(&config);
            struct vp_timing timing = simulate(&schedule, c);

            time[i] = timing.makespan;
            vp_timing_release(&timing);
            vp_schedule_release(&schedule);
        }
        if (fabs(time[1] - time[0] - 10 * (2 * (c.f + c.b + c.w) + stall)) >
            1e-9)
            fail_msg("%g,%g,%g: %g", c.f, c.b, c.w,
                     (time[1] - time[0]) / 10 - 2 * (c.f + c.b + c.w));
    }
}

/* ---- v-auto ------------------------------------------------------------- */

static struct facts measure_auto(int p, int m, int keeps)
{
    struct vp_sched_config config = {
        .name = "v-auto", .n_stages = p, .n_mb = m, .memory = keeps
    };

    return measure(&config);
}

/* More memory never costs time; with an even number of chunks the idle time
 * equals the closed form. */
static void dial_of_v_auto(void **state)
{
    (void)state;
    for (int p = 2; p <= MAX_S; p++) {
        int least = keeps_of("v-min", p);
        struct facts last = { .all = 1000, .span = 1000 };

        for (int keeps = least; keeps <= 2 * p; keeps++) {
            struct facts facts = measure_auto(p, 2 * p, keeps);
            int want = form(p, keeps) > 0 ? form(p, keeps) : 0;
            int late = 3 * p - 1 - keeps;

            assert_true(facts.peak <= keeps);
            assert_true(facts.all <= last.all && facts.span <= last.span);
            if (keeps % 2 == 0 && facts.span != want)
                fail_msg("P=%d, %d chunks: %d, not %d", p, keeps, facts.span,
                         want);
            if (keeps % 2 == 0)
                assert_int_equal(facts.all, want > late ? want : late);
            last = facts;
        }
        assert_int_equal(last.span, 0);
    }
}

/* v-auto is never slower than v-half and v-min with the same memory. */
static void v_auto_beats_half_and_min(void **state)
{
    static const char *const names[] = { "v-half", "v-min" };

    (void)state;
    for (int n = 0; n < 2; n++)
        for (int p = 2; p <= MAX_S; p++)
            for (int m = p; m <= 3 * p; m += p) {
                struct vp_sched_config config = { .name = names[n],
                                                  .n_stages = p,
                                                  .n_mb = m };
                struct facts named = measure(&config);
                struct facts facts = measure_auto(p, m, keeps_of(names[n], p));

                assert_true(facts.all <= named.all);
                if (n == 1 && p % 3 == 2 && p > 2 && m > p)
                    assert_int_equal(named.span - facts.span, 4);
            }
}

/* All sizes with varying memory limits: valid, and within the limit. */
static void sweep_of_v_auto(void **state)
{
    (void)state;
    for (int p = 1; p <= MAX_S; p++)
        for (int m = 1; m <= MAX_M; m += m < 2 * p ? 1 : 5) {
            int keeps = 2 + (p + 7 * m) % (2 * p - 1);
            struct facts facts = measure_auto(p, m, keeps);

            assert_true(facts.peak <= keeps);
        }
}

static void memory_of_v_auto(void **state)
{
    struct vp_sched_config config = { .name = "v-auto",
                                      .n_stages = 4,
                                      .n_mb = 8 };
    static const struct {
        int memory, n_mb, keeps;
        enum vp_fallback fallback;
    } cases[] = {
        { 0, 8, 8, VP_FALLBACK_NONE },   { 6, 8, 6, VP_FALLBACK_NONE },
        { 99, 8, 8, VP_FALLBACK_NONE },  { 4, 4, 4, VP_FALLBACK_NONE },
        { 3, 8, 3, VP_FALLBACK_MEMORY }, { 2, 8, 2, VP_FALLBACK_MEMORY },
        { 4, 3, 4, VP_FALLBACK_FEW_MB }, { 3, 3, 3, VP_FALLBACK_FEW_MB },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_schedule schedule;

        config.memory = cases[i].memory;
        config.n_mb = cases[i].n_mb;
        schedule = make(&config);
        assert_int_equal(schedule.keeps, cases[i].keeps);
        assert_int_equal(schedule.fallback, cases[i].fallback);
        assert_true(measure(&config).peak <= cases[i].keeps);
        vp_schedule_release(&schedule);
    }
}

static void bad_memory_is_refused(void **state)
{
    static const struct {
        struct vp_sched_config config;
        const char *want;
    } cases[] = {
        { { .name = "zb-v", .n_stages = 2, .n_mb = 4, .memory = 4 },
          "schedule zb-v has no memory to set" },
        { { .name = "v-auto", .n_stages = 2, .n_mb = 4, .memory = 1 },
          "give at least 2" },
        { { .name = "v-auto", .n_stages = 2, .n_mb = 4, .memory = -1 },
          "give at least 2" },
        { { .name = "v-auto", .n_stages = 65, .n_mb = 4 },
          "is made for at most 64 stages" },
        { { .name = "v-min", .n_stages = 1025, .n_mb = 4 },
          "is made for at most 1024 stages" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_schedule schedule;
        struct vp_err err = { .text = "" };

        assert_int_equal(vp_schedule_make(&cases[i].config, &schedule, &err),
                         VP_ERR_INVALID);
        if (!strstr(err.text, cases[i].want))
            fail_msg("%s", err.text);
    }
}

/* ---- Closed forms ------------------------------------------------------- */

static void forms_are_those_of_the_lists(void **state)
{
    static const char *const names[] = { "v-half", "v-min", "v-auto" };

    (void)state;
    for (int n = 0; n < 3; n++)
        for (int p = 1; p <= 10; p++)
            for (int keeps = 2; keeps <= (n == 2 ? 2 * p : 2); keeps++) {
                struct vp_sched_config config = {
                    .name = names[n],
                    .n_stages = p,
                    .n_mb = 2 * p + 1,
                    .memory = n == 2 ? keeps : 0,
                };
                struct vp_schedule schedule = make(&config);
                struct vp_timing timing = simulate(&schedule, unit_costs);
                double bubble;
                bool known = vp_schedule_span_theory(&config, &unit_costs,
                                                     &bubble);

                assert_int_equal(known, n == 0 ? p >= 3
                                        : n == 1
                                            ? p >= 2
                                            : keeps % 2 == 0 &&
                                                  keeps >= keeps_of("", p));
                if (known)
                    assert_true(fabs(vp_timing_span(&schedule, &timing) -
                                     bubble) < 1e-12);
                bubble = vp_schedule_theory(&config, &unit_costs);
                assert_true(bubble <= timing.bubble + 1e-12);
                if (known)
                    assert_true(fabs(bubble - timing.bubble) < 1e-12);
                vp_timing_release(&timing);
                vp_schedule_release(&schedule);
            }
}

/* The checked executor runs the lists with the ring lengths of the schedule. */
static void lists_run(void **state)
{
    static const char *const names[] = { "v-half", "v-min", "v-auto" };

    (void)state;
    for (int n = 0; n < 3; n++)
        for (int p = 1; p <= 6; p++)
            for (int m = 1; m <= 13; m++) {
                struct vp_sched_config config = { .name = names[n],
                                                  .n_stages = p,
                                                  .n_mb = m,
                                                  .memory = n == 2 ? p + 1
                                                                   : 0 };
                struct vp_schedule schedule;
                const char *why = NULL;

                schedule = make(&config);
                if (cx_run(&schedule, (uint32_t)(64 * n + 13 * p + m), &why) !=
                    CX_DONE)
                    fail_msg("%s %d %d: %s", names[n], p, m, why);
                vp_schedule_release(&schedule);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_the_papers),
        cmocka_unit_test(sweep_of_half_and_min),
        cmocka_unit_test(stall_of_v_half),
        cmocka_unit_test(dial_of_v_auto),
        cmocka_unit_test(v_auto_beats_half_and_min),
        cmocka_unit_test(sweep_of_v_auto),
        cmocka_unit_test(memory_of_v_auto),
        cmocka_unit_test(bad_memory_is_refused),
        cmocka_unit_test(forms_are_those_of_the_lists),
        cmocka_unit_test(lists_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
