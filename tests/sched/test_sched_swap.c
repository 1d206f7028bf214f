/* Schedules with swap copy values out and in, in the right order and early
 * enough; recomputed values have separate buffers. */
#include "lib/checked_executor.h"
#include "lib/schedlib.h"
#include "sched/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The compute and swap actions of rank 0 must equal `want`; messages are left
 * out. */
static void assert_list(const struct vp_sched_config *config, const char *want)
{
    struct vp_schedule schedule = make(config);
    char *text = print(&schedule, VP_PRINT_COMPUTE);

    assert_valid(&schedule);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, want);
    free(text);
    vp_schedule_release(&schedule);
}

/* With three buffers values return one backward early; with two they return
 * after the backward that read the buffer. */
static void lists_by_hand(void **state)
{
    static const int three[] = { 3, 3, 3, 3 }, two[] = { 2, 2, 2, 2 };
    static const bool all[] = { true, true, true, true };
    struct vp_sched_config config = {
        .name = "1f1b", .n_stages = 4, .n_mb = 5, .swap = three
    };

    (void)state;
    assert_list(&config,
                "0: 0F0 0SWAP_OUT0 0SWAP_FREE0 0F1 0SWAP_OUT1 0SWAP_FREE1 0F2 "
                "0SWAP_OUT2 0SWAP_IN0 0SWAP_FREE2 0F3 0SWAP_OUT3 0SWAP_IN1 "
                "0SWAP_READY0 0B0 0SWAP_IN2 0SWAP_FREE3 0F4 0SWAP_OUT4 "
                "0SWAP_READY1 0B1 0SWAP_IN3 0SWAP_READY2 0B2 0SWAP_FREE4 "
                "0SWAP_IN4 0SWAP_READY3 0B3 0SWAP_READY4 0B4 0UPDATE0");
    config.swap = two;
    config.recompute = all;
    config.n_mb = 4;
    assert_list(&config,
                "0: 0F0 0SWAP_OUT0 0SWAP_FREE0 0F1 0SWAP_OUT1 0SWAP_FREE1 0F2 "
                "0SWAP_OUT2 0SWAP_IN0 0SWAP_FREE2 0F3 0SWAP_OUT3 0SWAP_READY0 "
                "0R0 0B0 0SWAP_IN1 0SWAP_READY1 0R1 0B1 0SWAP_IN2 0SWAP_READY2 "
                "0R2 0B2 0SWAP_FREE3 0SWAP_IN3 0SWAP_READY3 0R3 0B3 0UPDATE0");
}

/* Stages that do not have more slots than swap buffers keep all values on the
 * device. */
static void too_few_slots_to_swap(void **state)
{
    static const int three[] = { 3, 3, 3, 3 };
    struct vp_sched_config config = {
        .name = "1f1b", .n_stages = 4, .n_mb = 8, .swap = three
    };
    struct vp_schedule schedule = make(&config);

    (void)state;
    assert_int_equal(schedule.stages[0].n_swap_out, 1);
    assert_int_equal(schedule.stages[0].n_swap_in, 2);
    for (int s = 1; s < 4; s++) {
        assert_int_equal(schedule.stages[s].n_swap_out, 0);
        assert_int_equal(schedule.stages[s].n_swap_in, 0);
    }
    vp_schedule_release(&schedule);
}

/* Every generator, with and without recomputation: valid, run by the checked
 * executor, and parsed back from its text. */
static void every_schedule_swaps(void **state)
{
    uint32_t counter = 0;
    int n_swapping = 0, n_ahead = 0, n_generators = 0;

    (void)state;
    while (vp_generator_at(n_generators))
        n_generators++;
    for (int n = 0; n < 1500; n++) {
        const struct vp_generator *generator = vp_generator_at(n %
                                                               n_generators);
        int swap[32];
        bool recompute[32];
        struct vp_sched_config config = {
            .name = generator->name,
            .n_stages = 1 + (int)random_below(&counter, 6),
            .n_mb = 1 + (int)random_below(&counter, 14),
            .n_chunks = generator->chunks && !generator->v_shape
                            ? 1 + (int)random_below(&counter, 3)
                            : 0,
            .swap = swap,
            .recompute = n % 2 ? recompute : NULL,
            .early_recompute = n % 3 == 0,
            .w_recomputed = n % 5 < 2,
        };
        struct vp_schedule schedule, again;
        struct vp_err err = { .text = "" };
        const char *why = "";
        char *text;

        for (int s = 0; s < 32; s++) {
            swap[s] = (int)random_below(&counter, 6);
            recompute[s] = random_below(&counter, 2);
        }
        schedule = make(&config);
        assert_valid(&schedule);
        if (cx_run(&schedule, (uint32_t)n, &why) != CX_DONE)
            fail_msg("%s: %s", schedule.name, why);
        text = print(&schedule, VP_PRINT_FULL);
        if (vp_schedule_parse(text, "text", &again, &err) != VP_OK)
            fail_msg("%s", err.text);
        assert_int_equal(again.n_actions, schedule.n_actions);
        assert_memory_equal(again.actions, schedule.actions,
                            (size_t)again.n_actions * sizeof(*again.actions));
        for (int s = 0; s < schedule.n_stages; s++) {
            n_swapping += schedule.stages[s].n_swap_out > 0;
            n_ahead += schedule.stages[s].n_recomputed > 1;
            assert_int_equal(again.stages[s].n_swap_in,
                             schedule.stages[s].n_swap_in);
            assert_int_equal(again.stages[s].n_recomputed,
                             schedule.stages[s].n_recomputed);
        }
        free(text);
        vp_schedule_release(&again);
        vp_schedule_release(&schedule);
    }
    assert_true(n_swapping > 500 && n_ahead > 50);
}

static double time_of(int n_buffers, double copy)
{
    int swap[] = { n_buffers, 0, 0, 0 };
    struct vp_sched_config config = {
        .name = "1f1b", .n_stages = 4, .n_mb = 12, .swap = swap
    };
    struct vp_schedule schedule = make(&config);
    struct vp_timing timing = simulate(
        &schedule,
        (struct vp_stage_costs){
            .f = 1, .b = 1, .w = 1, .swap_out = copy, .swap_in = copy });
    double makespan = timing.makespan;

    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
    return makespan;
}

/* In the steady state F and B of one minibatch take 3 units. A copy out can
 * overlap B (2 units); a copy in that starts one action early can overlap F
 * (1 unit). */
static void copies_are_hidden_or_cost_time(void **state)
{
    double all = time_of(0, 0);

    (void)state;
    assert_true(time_of(2, 0) == all);
    assert_true(time_of(3, 1.0) == all);
    assert_true(time_of(2, 4.0) > time_of(3, 4.0));
    assert_true(time_of(3, 4.0) > all + 6.0);
    for (double copy = 0.0; copy < 6.0; copy += 0.25) {
        assert_true(time_of(3, copy) >= all);
        assert_true(time_of(2, copy) >= time_of(3, copy));
        assert_true(time_of(3, copy) <= time_of(3, copy + 0.25));
    }
}

/* Ranks on one device share its copy engines. */
static void copies_share_engines(void **state)
{
    static const int swap[] = { 2, 2, 0, 0 }, one[] = { 0, 0, 0, 0 };
    struct vp_sched_config config = {
        .name = "1f1b", .n_stages = 4, .n_mb = 12, .swap = swap
    };
    struct vp_stage_costs costs[4];
    struct vp_sched_costs table = { .stages = costs, .capacity = 4 };
    struct vp_schedule schedule = make(&config);
    struct vp_timing apart, shared;
    struct vp_err err;

    (void)state;
    for (int s = 0; s < 4; s++)
        costs[s] = (struct vp_stage_costs){
            .f = 1, .b = 1, .w = 1, .swap_out = 2, .swap_in = 2
        };
    assert_int_equal(vp_simulate(&schedule,
                                 &(struct vp_sched_costs){ .stages = costs },
                                 &apart, &err),
                     VP_OK);
    table.device = one;
    assert_int_equal(vp_simulate(&schedule, &table, &shared, &err), VP_OK);
    assert_true(shared.makespan > apart.makespan);
    vp_timing_release(&apart);
    vp_timing_release(&shared);
    vp_schedule_release(&schedule);
}

static void refused(const char *text, const char *want)
{
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };

    assert_int_equal(vp_schedule_parse(text, "t", &schedule, &err), VP_OK);
    assert_int_equal(vp_schedule_validate(&schedule, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, want));
    vp_schedule_release(&schedule);
}

#define HEAD "stages=1 minibatches=3 slots=3 swap_out=1 swap_in=1\n0: "

static void what_the_validator_says(void **state)
{
    (void)state;
    refused(HEAD "0F0 0SWAP_OUT0 0F1",
            "rank 0, action 2 (0F1): overwrites values left by minibatch 0; "
            "0SWAP_FREE0 must come before");
    refused(HEAD "0F0 0SWAP_FREE0", "0SWAP_OUT0 must come before");
    refused(HEAD "0F0 0SWAP_OUT0 0SWAP_IN0", "0SWAP_FREE0 must come before");
    refused(HEAD "0F0 0SWAP_OUT0 0SWAP_FREE0 0SWAP_IN0 0B0",
            "0SWAP_READY0 must come before");
    refused(HEAD "0F0 0SWAP_OUT0 0SWAP_FREE0 0F1 0SWAP_OUT1 0SWAP_FREE1 "
                 "0SWAP_IN0 0SWAP_IN1",
            "overwrites values swapped in for minibatch 0; 0B0 must come "
            "before");
    refused("stages=1 minibatches=2 slots=2 swap_in=1\n0: 0F0",
            "1 for swapped values");
    refused("stages=1 minibatches=2 slots=2 split=1 recompute=1 "
            "w_recomputed=1\n0: 0F0 0F1 0R0 0B0 0R1",
            "overwrites values recomputed for minibatch 0; 0W0 must come "
            "before");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_by_hand),
        cmocka_unit_test(too_few_slots_to_swap),
        cmocka_unit_test(every_schedule_swaps),
        cmocka_unit_test(copies_are_hidden_or_cost_time),
        cmocka_unit_test(copies_share_engines),
        cmocka_unit_test(what_the_validator_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
