/* Plans may have separate recompute sets for the first slots: their costs are
 * right, the search uses them if memory is left, and weight gradients of
 * recomputed operators may run late. */
#include "lib/searchlib.h"
#include "plan/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

/* Each R takes the time of the recompute set of its slot. */
static void slot_costs(void **state)
{
    static const int partition[] = { 3, 2 };
    static const uint64_t sets[] = { 1, 1, 0, 2, 0 },
                          kept[] = { 1, 0, 0, 0, 0 };
    const struct vp_plan_slot slots[] = { { kept, NULL }, { kept, NULL } };
    const struct vp_plan plan = { .schedule = "gpipe",
                                  .n_stages = 2,
                                  .accumulation_steps = 5,
                                  .partition = partition,
                                  .recompute_sets = sets,
                                  .slots = slots,
                                  .n_slots = 2 };
    struct vp_stage_price prices[2];
    struct vp_search_result result;
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct vp_timing timing;
    struct setup setup;
    struct vp_err err;
    double r[5], want[2] = { 0.0, 0.0 }, rest[2], first[2];

    (void)state;
    make_small(&setup);
    for (int b = 0; b < 5; b++)
        r[b] = vp_cost_recompute(vp_search_costs(setup.search), b, sets[b]);
    rest[0] = r[0] + r[1];
    rest[1] = r[3];
    first[0] = r[0];
    first[1] = 0.0;
    assert_int_equal(
        vp_plan_make_schedule(&plan, &setup.graph, &schedule, &err), VP_OK);
    assert_int_equal(
        vp_plan_bytes(setup.pricer, &plan, &schedule, prices, &err), VP_OK);
    assert_int_equal(vp_plan_costs_make(vp_search_costs(setup.search), &plan,
                                        &schedule, prices, &costs, &err),
                     VP_OK);
    assert_int_equal(vp_simulate(&schedule, &costs.sched, &timing, &err),
                     VP_OK);
    for (int i = 0; i < schedule.n_actions; i++) {
        const struct vp_action *a = &schedule.actions[i];
        double took = timing.spans[i].end - timing.spans[i].start;

        if (a->kind != VP_ACTION_R)
            continue;
        assert_float_equal(took, a->slot < 2 ? first[a->stage] : rest[a->stage],
                           1e-9);
        want[a->stage] += took / 5;
    }
    assert_int_equal(vp_search_price(setup.search, &plan, &result, &err),
                     VP_OK);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(schedule.stages[s].n_slots, 5);
        assert_float_equal(result.recomputed[s], want[s], 1e-9);
        assert_true(want[s] > first[s] && want[s] < rest[s]);
    }
    assert_float_equal(result.time.step, timing.makespan, 1e-9);
    assert_ptr_not_equal(result.plan.slots, slots); /* the result owns copies */
    assert_memory_equal(result.plan.slots[1].recompute_sets, kept,
                        sizeof(kept));
    vp_search_result_release(&result);
    vp_timing_release(&timing);
    vp_plan_costs_release(&costs);
    vp_schedule_release(&schedule);
    release_setup(&setup);
}

/* With memory left over, the first slots recompute less, and the plan is
 * faster. */
static void slots_are_filled(void **state)
{
    struct vp_arena arena = { NULL };
    struct setup setup;
    int n_slots = 0;

    (void)state;
    make_large(&setup, &arena);
    for (int i = 0; i < 3; i++) {
        int64_t limits[MAX_RANKS];
        struct vp_search_input input = { .base = &eight,
                                         .limits = limits,
                                         .stream = i == 2,
                                         .free_schedule = true,
                                         .free_partition = true,
                                         .free_recompute = true };
        struct vp_search_result result, plain;
        struct vp_plan without;
        struct vp_err err;

        for (int r = 0; r < MAX_RANKS; r++)
            limits[r] = INT64_C(2300000000) + i * INT64_C(1000000000);
        assert_int_equal(vp_search_run(setup.search, &input, &result, &err),
                         VP_OK);
        check_fits(&result, &input);
        without = result.plan;
        without.n_slots = 0;
        assert_int_equal(vp_search_price(setup.search, &without, &plain, &err),
                         VP_OK);
        n_slots += result.plan.n_slots > 0;
        assert_true(result.plan.n_slots == 0 ||
                    result.time.per_mb < plain.time.per_mb);
        printf("search: %.1f GB, %.2f ms per minibatch, first slots that keep "
               "more %.2f ms\n",
               1e-9 * (double)limits[0], 1e3 * plain.time.per_mb,
               1e3 * result.time.per_mb);
        vp_search_result_release(&plain);
        input.alike = true;
        assert_int_equal(vp_search_run(setup.search, &input, &plain, &err),
                         VP_OK);
        assert_int_equal(plain.plan.n_slots, 0);
        assert_true(result.time.per_mb <= plain.time.per_mb);
        vp_search_result_release(&plain);
        vp_search_result_release(&result);
    }
    assert_true(n_slots > 0);
    release_setup(&setup);
    vp_arena_release(&arena);
}

/* The search lets W of recomputed operators run late where that is faster and
 * fits. */
static void late_weight_gradients(void **state)
{
    int n_late = 0, n = 0;

    (void)state;
    for (int i = 0; i < (SLOW ? 8 : 60); i++) {
        static const char *const names[] = { "zb-h1", "zb-h2", "zb-v" };
        const struct vp_plan base = { .schedule = names[i % 3],
                                      .n_stages = i % 3 == 2 ? 2 : 2 + i % 2,
                                      .n_chunks = i % 3 == 2 ? 2 : 1,
                                      .accumulation_steps = 6 };
        int64_t limits[MAX_RANKS];
        struct vp_search_input input = { .base = &base,
                                         .limits = limits,
                                         .free_partition = true,
                                         .free_recompute = true };
        struct vp_search_result result, plain;
        struct vp_plan without;
        struct setup setup;
        struct vp_err err;

        make_small(&setup);
        random_limits(&setup, &input, limits);
        if (vp_search_run(setup.search, &input, &result, &err) == VP_OK) {
            check_fits(&result, &input);
            n++;
            n_late += result.plan.w_recomputed;
            without = result.plan;
            without.w_recomputed = false;
            without.n_slots = 0;
            assert_int_equal(
                vp_search_price(setup.search, &without, &plain, &err), VP_OK);
            assert_true(!result.plan.w_recomputed ||
                        result.time.per_mb < plain.time.per_mb);
            vp_search_result_release(&plain);
            vp_search_result_release(&result);
        }
        release_setup(&setup);
    }
    printf("search: W of recomputed operators is late in %d of %d plans\n",
           n_late, n);
    assert_true(SLOW || n_late > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slot_costs),
        cmocka_unit_test(slots_are_filled),
        cmocka_unit_test(late_weight_gradients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
