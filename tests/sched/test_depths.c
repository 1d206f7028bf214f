/* Schedules with explicit warm-up depths deadlock only if the order of their
 * actions makes them. The validator and an executor that shares no code with it
 * must agree. */
#include "lib/checked_executor.h"
#include "lib/schedlib.h"
#include "sched/schedule.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = { "pipedream", "macrobatch", "1f1b",
                                     "zb-h1" };

/* The validator and the executor must both accept (`want`) or both refuse. */
static void check(const struct vp_schedule *schedule, bool want, uint32_t seed)
{
    struct vp_err err = { .text = "" };
    const char *why = "";
    char depths[64] = "";
    int n = 0;
    bool proven = vp_schedule_validate(schedule, &err) == VP_OK;
    bool runs = cx_run(schedule, seed, &why) == CX_DONE;

    for (int s = 0; s < schedule->n_stages; s++)
        n += snprintf(depths + n, sizeof(depths) - (size_t)n, " %d",
                      schedule->stages[s].depth);
    if (proven != want || runs != want)
        fail_msg("%s, depths%s: expected %d; validator %d '%s', executor %d "
                 "'%s'",
                 schedule->name, depths, want, proven, err.text, runs,
                 why ? why : "");
}

/* ---- One rank per stage ------------------------------------------------- */

/* A stage with a smaller depth than the next stage deadlocks: it waits for a
 * gradient before it has sent all activations that the next stage needs
 * first. */
static bool can_run(const int *depth, int n_stages)
{
    for (int s = 1; s < n_stages; s++)
        if (depth[s] > depth[s - 1])
            return false;
    return true;
}

static void all_depths(void **state)
{
    enum { MOST = 7 };
    int n_run = 0, n_refused = 0;

    (void)state;
    for (int n_stages = 2; n_stages <= 4; n_stages++) {
        int most = n_stages == 4 ? 5 : MOST, n = 1, depth[4];

        for (int s = 0; s < n_stages; s++)
            n *= most + 1;
        for (int i = 0; i < n; i++)
            for (size_t k = 0; k < VP_COUNT_OF(names); k++) {
                struct vp_sched_config config = { .name = names[k],
                                                  .n_stages = n_stages,
                                                  .n_mb = 2 * MOST + 3,
                                                  .depth = depth };
                struct vp_schedule schedule;
                bool want;

                for (int s = 0, rest = i; s < n_stages; s++) {
                    depth[s] = rest % (most + 1);
                    rest /= most + 1;
                }
                want = can_run(depth, n_stages);
                schedule = make(&config);
                check(&schedule, want, (uint32_t)i);
                vp_schedule_release(&schedule);
                *(want ? &n_run : &n_refused) += 1;
            }
    }
    assert_true(n_run > 1000);
    assert_true(n_refused > 1000);
}

static void deep_stages(void **state)
{
    static const struct {
        int n_stages, depth[4];
    } cases[] = {
        { 2, { 4, 0 } },         { 2, { 200, 0 } },
        { 3, { 90, 2, 1 } },     { 3, { 90, 90, 0 } },
        { 4, { 60, 59, 3, 3 } }, { 4, { 100, 40, 10, 0 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        for (size_t k = 0; k < VP_COUNT_OF(names); k++) {
            struct vp_sched_config config = { .name = names[k],
                                              .n_stages = cases[i].n_stages,
                                              .n_mb = 450,
                                              .depth = cases[i].depth };
            struct vp_schedule schedule = make(&config);

            check(&schedule, true, (uint32_t)i);
            vp_schedule_release(&schedule);
        }
}

/* ---- Replicas ----------------------------------------------------------- */

static void set_rings(struct vp_schedule *schedule, int n)
{
    for (int s = 0; s < schedule->n_stages; s++) {
        if (s > 0)
            schedule->stages[s].n_act_bufs = n;
        if (s < schedule->n_stages - 1)
            schedule->stages[s].n_grad_bufs = n;
    }
}

/* With rings of one buffer per message only the order of the lists can cause a
 * deadlock. vp_schedule_proof_mb() minibatches prove the same as 100. */
static void depths_of_replicas(void **state)
{
    int n_run = 0, n_refused = 0;

    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        int replicas[4], depth[4], n_stages = 2 + (int)i % 3;
        struct vp_sched_config config = { .name = names[i / 3 % 4],
                                          .n_stages = n_stages,
                                          .n_mb = 100,
                                          .replicas = replicas,
                                          .depth = depth };
        struct vp_schedule schedule, endless, brief;
        bool want;

        for (int s = 0; s < n_stages; s++) {
            struct vp_rng4 bits = vp_rng(11, VP_RNG_TEST, (uint32_t)s, i, 0, 0);

            replicas[s] = 1 + (int)vp_rng_below(bits.v[0], 4);
            depth[s] = (int)vp_rng_below(bits.v[1], i % 5 == 0 ? 12 : 5);
        }
        schedule = make(&config);
        endless = make(&config);
        set_rings(&endless, config.n_mb);
        config.n_mb = (int)vp_schedule_proof_mb(replicas, depth, n_stages);
        brief = make(&config);
        want = vp_schedule_validate(&endless, NULL) == VP_OK;
        check(&schedule, want, i);
        check(&brief, want, i);
        vp_schedule_release(&schedule);
        vp_schedule_release(&endless);
        vp_schedule_release(&brief);
        *(want ? &n_run : &n_refused) += 1;
    }
    assert_true(n_run > 300);
    assert_true(n_refused > 300);
}

/* ---- Ring lengths ------------------------------------------------------- */

static void literal_rings(void **state)
{
    static const struct {
        const char *name;
        int n_stages, depth[4], replicas[4], act[4], grad[4];
    } cases[] = {
        /* Default depths. */
        { "pipedream",
          4,
          { 3, 2, 1, 0 },
          { 1, 1, 1, 1 },
          { 0, 4, 3, 2 },
          { 2, 2, 2, 0 } },
        { "pipedream", 3, { 3, 1, 0 }, { 1, 2, 1 }, { 0, 3, 3 }, { 3, 2, 0 } },
        { "zb-h1", 3, { 2, 1, 0 }, { 1, 1, 1 }, { 0, 4, 4 }, { 2, 3, 0 } },
        /* Rings of activations hold all minibatches that the previous stage has
         * in flight. */
        { "pipedream", 2, { 4, 0 }, { 1, 1 }, { 0, 5 }, { 2, 0 } },
        { "macrobatch", 3, { 6, 6, 1 }, { 1, 1, 1 }, { 0, 8, 7 }, { 2, 2, 0 } },
        { "1f1b", 2, { 9, 2 }, { 1, 1 }, { 0, 10 }, { 2, 0 } },
        { "pipedream", 2, { 5, 0 }, { 2, 1 }, { 0, 11 }, { 2, 0 } },
        { "pipedream", 2, { 9, 0 }, { 1, 3 }, { 0, 4 }, { 4, 0 } },
        { "zb-h1", 2, { 6, 0 }, { 1, 1 }, { 0, 13 }, { 2, 0 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_sched_config config = { .name = cases[i].name,
                                          .n_stages = cases[i].n_stages,
                                          .n_mb = 40,
                                          .replicas = cases[i].replicas,
                                          .depth = cases[i].depth };
        struct vp_schedule schedule = make(&config);

        for (int s = 0; s < schedule.n_stages; s++)
            if (schedule.stages[s].n_act_bufs != cases[i].act[s] ||
                schedule.stages[s].n_grad_bufs != cases[i].grad[s])
                fail_msg("case %d, stage %d: rings of %d and %d", (int)i, s,
                         schedule.stages[s].n_act_bufs,
                         schedule.stages[s].n_grad_bufs);
        vp_schedule_release(&schedule);
    }
}

/* All pieces of a stream have the same rings, and their concatenation is the
 * whole. */
static void pieces_of_deep_stages(void **state)
{
    enum { N = 40, PIECE = 7 };
    static const int depth[] = { 9, 3, 0 };
    struct vp_sched_config config = { .name = "pipedream",
                                      .n_stages = 3,
                                      .n_mb = N,
                                      .segment_end = N,
                                      .depth = depth };
    struct vp_schedule whole = make(&config);
    int n_seen[3] = { 0 };

    (void)state;
    for (int first = 0; first < N; first += PIECE) {
        struct vp_schedule piece;

        config.first_mb = first;
        config.n_mb = first + PIECE < N ? PIECE : N - first;
        config.keep_going = first + PIECE < N;
        piece = make(&config);
        for (int s = 0; s < 3; s++) {
            const struct vp_rank_list *list = &piece.ranks[s];
            const struct vp_schedule_stage *got = &piece.stages[s];
            const struct vp_schedule_stage *want = &whole.stages[s];

            assert_int_equal(got->n_slots, want->n_slots);
            assert_int_equal(got->n_act_bufs, want->n_act_bufs);
            assert_int_equal(got->n_grad_bufs, want->n_grad_bufs);
            assert_memory_equal(
                list->actions, whole.ranks[s].actions + n_seen[s],
                (size_t)list->n_actions * sizeof(*list->actions));
            n_seen[s] += list->n_actions;
        }
        vp_schedule_release(&piece);
    }
    for (int s = 0; s < 3; s++)
        assert_int_equal(n_seen[s], whole.ranks[s].n_actions);
    vp_schedule_release(&whole);
}

/* A stage with a greater depth than its successor does not delay it. */
static void deep_stages_cost_no_time(void **state)
{
    static const int depth[] = { 9, 3, 0 };
    struct vp_stage_costs costs[3];
    struct vp_sched_costs all = { .stages = costs };
    struct vp_sched_config config = { .name = "pipedream",
                                      .n_stages = 3,
                                      .n_mb = 100 };
    struct vp_schedule by_default = make(&config), deep;
    struct vp_timing times[2];
    struct vp_err err = { .text = "" };

    (void)state;
    for (int s = 0; s < 3; s++)
        costs[s] = (struct vp_stage_costs){ .f = 1.0, .b = 1.0, .w = 1.0 };
    config.depth = depth;
    deep = make(&config);
    assert_int_equal(vp_simulate(&by_default, &all, &times[0], &err), VP_OK);
    assert_int_equal(vp_simulate(&deep, &all, &times[1], &err), VP_OK);
    assert_true(times[1].makespan <= times[0].makespan);
    for (int i = 0; i < 2; i++)
        vp_timing_release(&times[i]);
    vp_schedule_release(&by_default);
    vp_schedule_release(&deep);
}

static void too_much_in_flight(void **state)
{
    static const int replicas[] = { 4096, 1 };
    static const int depth[] = { 1 << 20, 0 };
    struct vp_sched_config config = { .name = "pipedream",
                                      .n_stages = 2,
                                      .n_mb = 4,
                                      .replicas = replicas,
                                      .depth = depth };
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_schedule_make(&config, &schedule, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "give a smaller depth"));
}

/* Slots times replicas of a text may exceed an int: the ring length is clamped
 * to INT_MAX. */
static void too_much_in_a_text(void **state)
{
    enum { REPLICAS = 4095 };
    static char text[16 * (REPLICAS + 8)];
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };
    size_t n;

    (void)state;
    n = (size_t)snprintf(text, sizeof(text),
                         "stages=2 minibatches=1 rank=0,%d replicas=%d,1 "
                         "slots=1048576\n",
                         REPLICAS, REPLICAS);
    for (int r = 0; r <= REPLICAS; r++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%d:\n", r);
    if (vp_schedule_parse(text, "text", &schedule, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(schedule.stages[1].n_act_bufs, INT_MAX);
    vp_schedule_release(&schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_depths),
        cmocka_unit_test(deep_stages),
        cmocka_unit_test(depths_of_replicas),
        cmocka_unit_test(literal_rings),
        cmocka_unit_test(pieces_of_deep_stages),
        cmocka_unit_test(deep_stages_cost_no_time),
        cmocka_unit_test(too_much_in_flight),
        cmocka_unit_test(too_much_in_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
