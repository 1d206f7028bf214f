/* The search passes over refused candidates, keeps the fixed parts of a plan
 * and respects different limits per rank. The planners that it is compared with
 * are right as well. */
#include "lib/searchlib.h"
#include "plan/planner.h"
#include "plan/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ---- Refusals ----------------------------------------------------------- */

/* The fixed slots allow only a cut behind the first block. The search refuses
 * schedules whose best cut is elsewhere, and goes on with the others. */
static void refused_candidates(void **state)
{
    static const uint64_t one[] = { 1, 0, 0, 0, 0 }, two[] = { 1, 1, 0, 0, 0 };
    static const uint64_t none[] = { 0, 0, 0, 0, 0 };
    static const int partition[] = { 2, 3 };
    const struct vp_plan_slot slots[] = { { two, NULL }, { one, NULL } };
    struct vp_plan base = { .n_stages = 2,
                            .accumulation_steps = 6,
                            .recompute_sets = none,
                            .slots = slots,
                            .n_slots = 2 };
    const struct vp_search_input input = { .base = &base,
                                           .free_schedule = true,
                                           .free_partition = true };
    struct vp_search_result result;
    struct setup setup;
    struct vp_err err;
    int n_refused = 0;
    int64_t least;

    (void)state;
    make_small(&setup);
    vp_search_free(setup.search);
    for (int i = 0; i < setup.profile.n_blocks; i++) {
        double seconds = i == 0 ? 2.0 : 1.0; /* the embedding */

        setup.blocks[i].alone = (struct vp_block_seconds){ seconds, seconds,
                                                           seconds };
    }
    assert_int_equal(
        vp_search_create(&setup.work, &setup.profile, &setup.search), VP_OK);
    if (vp_search_run(setup.search, &input, &result, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(result.plan.partition[0], 1);
    for (int i = 0; i < result.n_refused; i++)
        if (result.refused[i].kind == VP_SEARCH_REFUSED &&
            strstr(result.refused[i].text, "slots: entr"))
            n_refused++;
    assert_true(n_refused > 0);
    vp_search_result_release(&result);
    if (vp_search_least(setup.search, &input, &least, &result, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(result.plan.partition[0], 1);
    vp_search_result_release(&result);
    /* Priced directly, such a plan is an error. */
    base.schedule = "1f1b";
    base.partition = partition;
    assert_int_equal(vp_search_price(setup.search, &base, &result, &err),
                     VP_ERR_INVALID);
    release_setup(&setup);
}

/* ---- Fixed parts of a plan ---------------------------------------------- */

static void fixed_parts(void **state)
{
    static const int partition[] = { 3, 2 };
    static const uint64_t sets[] = { 1, 0, 0, 2, 0 };
    const struct vp_plan base = { .schedule = "zb-h1",
                                  .n_stages = 2,
                                  .n_chunks = 1,
                                  .accumulation_steps = 4,
                                  .partition = partition,
                                  .recompute_sets = sets };
    struct vp_search_input input = { .base = &base, .free_schedule = true };
    struct vp_search_result result;
    struct setup setup;
    struct vp_err err;

    (void)state;
    make_small(&setup);
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err), VP_OK);
    assert_memory_equal(result.plan.partition, partition, sizeof(partition));
    assert_memory_equal(result.plan.recompute_sets, sets, sizeof(sets));
    vp_search_result_release(&result);

    input.free_schedule = false;
    input.free_recompute = true;
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err), VP_OK);
    assert_string_equal(result.plan.schedule, "zb-h1");
    assert_memory_equal(result.plan.partition, partition, sizeof(partition));
    assert_null(result.plan.recompute_sets);
    vp_search_result_release(&result);

    input.free_recompute = false;
    input.free_partition = true;
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err), VP_OK);
    assert_string_equal(result.plan.schedule, "zb-h1");
    assert_memory_equal(result.plan.recompute_sets, sets, sizeof(sets));
    vp_search_result_release(&result);
    release_setup(&setup);
}

/* Fixed swap settings: ratios per stage allow no other number of stages, and
 * sets per block do not depend on the partition. The arrays are on the heap so
 * that AddressSanitizer finds reads beyond their ends. */
static void fixed_swapping(void **state)
{
    static const double ratios[] = { 0.5, 0.0 };
    static const uint64_t sets[] = { 1, 1, 0, 1, 0 };
    double *ratio = malloc(sizeof(ratios));
    uint64_t *swap = malloc(sizeof(sets));
    struct vp_plan base = { .schedule = "1f1b",
                            .n_stages = 2,
                            .n_chunks = 1,
                            .accumulation_steps = 8,
                            .swap_ratio = ratio };
    const struct vp_search_input input = { .base = &base,
                                           .free_schedule = true,
                                           .free_partition = true };
    struct vp_variant variants[VP_SEARCH_MAX_VARIANTS];
    struct vp_search_result result;
    struct setup setup;
    struct vp_err err;

    (void)state;
    assert_true(ratio && swap);
    memcpy(ratio, ratios, sizeof(ratios));
    memcpy(swap, sets, sizeof(sets));
    make_small(&setup);
    for (int i = vp_search_variants(setup.search, &input, variants); i > 0; i--)
        assert_int_equal(variants[i - 1].n_chunks, 1);
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err), VP_OK);
    assert_memory_equal(result.plan.swap_ratio, ratios, sizeof(ratios));
    vp_search_result_release(&result);

    base.swap_ratio = NULL;
    base.swap_sets = swap;
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err), VP_OK);
    assert_memory_equal(result.plan.swap_sets, sets, sizeof(sets));
    vp_search_result_release(&result);
    release_setup(&setup);
    free(ratio);
    free(swap);
}

/* The plan fits if either rank has much less memory than the other. */
static void different_memory(void **state)
{
    const struct vp_plan base = { .n_stages = 2, .accumulation_steps = 6 };
    int64_t limits[MAX_RANKS], least;
    struct vp_search_input input = { .base = &base,
                                     .limits = limits,
                                     .free_schedule = true,
                                     .free_partition = true,
                                     .free_recompute = true };
    struct vp_search_result result;
    struct setup setup;
    struct vp_err err;

    (void)state;
    make_small(&setup);
    assert_int_equal(
        vp_search_least(setup.search, &input, &least, &result, &err), VP_OK);
    vp_search_result_release(&result);
    for (int small = 0; small < 2; small++) {
        limits[small] = least;
        limits[1 - small] = 4 * least;
        assert_int_equal(vp_search_run(setup.search, &input, &result, &err),
                         VP_OK);
        check_fits(&result, &input);
        vp_search_result_release(&result);
    }
    limits[0] = limits[1] = least / 2;
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err),
                     VP_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no plan fits"));
    release_setup(&setup);
}

/* With a sharded optimizer the search finds plans in less memory; the
 * difference is nearly the part of the state that a rank does not keep. */
static void slices_need_less(void **state)
{
    static const int replicas[] = { 2, 2, 2, 2 };
    struct vp_plan base = { .schedule = "1f1b",
                            .n_stages = 4,
                            .accumulation_steps = 8,
                            .replicas = replicas };
    struct vp_search_input input = { .base = &base,
                                     .free_partition = true,
                                     .free_recompute = true,
                                     .alike = true };
    struct vp_arena arena = { NULL };
    struct vp_search_result result;
    int64_t least[2], moments = 0;
    struct setup setup;
    struct vp_err err;

    (void)state;
    make_large(&setup, &arena);
    for (int k = 0; k < 2; k++) {
        base.shard_optimizer = k;
        assert_int_equal(
            vp_search_least(setup.search, &input, &least[k], &result, &err),
            VP_OK);
        assert_int_equal(result.plan.shard_optimizer, k);
        for (int s = 0; s < result.n_stages && k == 0; s++)
            if (result.prices[s].memory.total > least[0] * 255 / 256)
                moments = result.prices[s].memory.moments;
        vp_search_result_release(&result);
    }
    assert_true(moments > 0);
    assert_true(least[0] - least[1] > moments / 2 * 9 / 10);
    release_setup(&setup);
    vp_arena_release(&arena);
}

/* ---- Other planners ----------------------------------------------------- */

static double slowest(const struct setup *setup, const int *partition, int n)
{
    double most = 0.0;
    int b = 0;

    for (int s = 0; s < n; s++) {
        double sum = 0.0;

        for (int i = 0; i < partition[s]; i++, b++) {
            const struct vp_block_seconds *block =
                &vp_search_costs(setup->search)->blocks[b].alone;

            sum += block->f + block->b + block->w;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* The slowest stage of PipeDream's plan is as fast as that of the best cut. */
static void pipedream_cuts(void **state)
{
    const struct vp_plan base = { .n_stages = 3, .accumulation_steps = 4 };
    const struct vp_search_input input = { .base = &base, .stream = true };
    struct setup setup;

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct vp_search_result result;
        double best = INFINITY;
        struct vp_err err;

        make_small(&setup);
        assert_int_equal(vp_planner_find("pipedream")
                             ->make(setup.search, &input, &result, &err),
                         VP_OK);
        for (int a = 1; a <= 3; a++)
            for (int b = 1; a + b <= 4; b++) {
                const int cut[] = { a, b, 5 - a - b };
                double most = slowest(&setup, cut, 3);

                best = most < best ? most : best;
            }
        assert_float_equal(slowest(&setup, result.plan.partition, 3), best,
                           1e-9);
        assert_string_equal(result.plan.schedule, "pipedream");
        assert_null(result.plan.recompute_ratio);
        vp_search_result_release(&result);
        release_setup(&setup);
    }
}

static void baselines(void **state)
{
    const struct vp_plan base = { .n_stages = 2, .accumulation_steps = 4 };
    const struct vp_search_input input = { .base = &base,
                                           .free_schedule = true,
                                           .free_partition = true,
                                           .free_recompute = true };
    struct vp_search_result result;
    struct setup setup;
    struct vp_err err;
    double best = 0.0;

    (void)state;
    make_small(&setup);
    for (int i = 0; vp_planner_at(i); i++) {
        const struct vp_planner *planner = vp_planner_at(i);

        if (strcmp(planner->name, "given") == 0)
            continue;
        assert_int_equal(planner->make(setup.search, &input, &result, &err),
                         VP_OK);
        if (i == 0)
            best = result.time.per_mb;
        assert_true(best <= result.time.per_mb);
        if (strcmp(planner->name, "gpipe") == 0) {
            assert_string_equal(result.plan.schedule, "gpipe");
            assert_true(result.plan.recompute_ratio[1] == 1.0);
            assert_int_equal(result.n_slots[0], 4);
        }
        if (strcmp(planner->name, "even") == 0)
            assert_in_range(result.plan.partition[0], 2, 3);
        vp_search_result_release(&result);
    }
    assert_null(vp_planner_find("nothing"));
    release_setup(&setup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_candidates),
        cmocka_unit_test(fixed_parts),
        cmocka_unit_test(fixed_swapping),
        cmocka_unit_test(different_memory),
        cmocka_unit_test(slices_need_less),
        cmocka_unit_test(pipedream_cuts),
        cmocka_unit_test(baselines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
