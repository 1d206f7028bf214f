/* Simulated times equal times worked out by hand: for two stages, in the steady
 * state, with slow links, with few buffers and with one port. */
#include "lib/schedlib.h"
#include "sched/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

/* Two stages and one minibatch, worked out by hand. */
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
    /* With send_blocks a sender is busy until the link is free: 5 and 1
     * longer. */
    table.send_blocks = true;
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.makespan == 28.0);
    assert_true(t.ranks[0].busy == 13.0 && t.ranks[1].busy == 17.0);
    vp_timing_release(&t);
    vp_schedule_release(&schedule);
}

/* In the middle of a stream no rank is idle, and all slots are in use. */
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
    assert_true(timing.bubble < 0.02); /* the first messages need no wait */
    for (int s = 0; s < 4; s++) {
        assert_int_equal(timing.ranks[s].first_slots, 3 - s);
        assert_int_equal(timing.ranks[s].peak_slots, 4 - s);
        assert_int_equal(timing.peak_slots[s], 4 - s);
    }
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
}

/* A slow link carries one message at a time; a sender waits for a free
 * buffer. */
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
    /* Link busy 1-11-21-31-41, last F 41-42. */
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.makespan == 42.0);
    vp_timing_release(&t);
    /* Two buffers: 0F2 waits for the end of 1F0. */
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

/* The middle one of three stages sends in both directions; each message
 * occupies the port for 4 units. */
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
    /* Activations 2-6-10, gradients 9-13-17, 0B1 17-18. */
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.makespan == 18.0);
    vp_timing_release(&t);
    /* Gradients 10-14-18, after the activations. */
    table.one_port = true;
    assert_int_equal(vp_simulate(&schedule, &table, &t, &err), VP_OK);
    assert_true(t.makespan == 19.0);
    vp_timing_release(&t);
    /* Messages that take no time do not wait for the port. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_by_hand),
        cmocka_unit_test(steady_state_has_no_bubble),
        cmocka_unit_test(links_and_credits),
        cmocka_unit_test(one_port_carries_all),
        cmocka_unit_test(large_stream_is_fast),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
