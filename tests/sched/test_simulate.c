/* The simulator's resources (shared devices, copy engines, ports, posted
 * receives, recomputation) give times that were worked out by hand. More
 * capacity never hurts, and no work is lost. */
#include "base/rng.h"
#include "sched/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Helpers ------------------------------------------------------------ */

static struct vp_schedule make(const struct vp_sched_config *config)
{
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };

    if (vp_schedule_make(config, &schedule, &err) != VP_OK)
        fail_msg("%s", err.text);
    return schedule;
}

static struct vp_timing simulate(const struct vp_schedule *schedule,
                                 const struct vp_sched_costs *costs)
{
    struct vp_timing timing;
    struct vp_err err = { .text = "" };

    if (vp_simulate(schedule, costs, &timing, &err) != VP_OK)
        fail_msg("%s", err.text);
    return timing;
}

static void close_to(double value, double want)
{
    if (fabs(value - want) > 1e-9)
        fail_msg("%.12g, not %.12g", value, want);
}

static double makespan(const struct vp_schedule *schedule,
                       const struct vp_sched_costs *costs)
{
    struct vp_timing timing = simulate(schedule, costs);
    double seconds = timing.makespan;

    vp_timing_release(&timing);
    return seconds;
}

/* The start time of the action with this name, such as "1F0". */
static double start_of(const struct vp_schedule *schedule,
                       const struct vp_timing *timing, const char *name)
{
    for (int i = 0; i < schedule->n_actions; i++) {
        char text[32];

        vp_action_print(&schedule->actions[i], text, sizeof(text));
        if (strcmp(text, name) == 0)
            return timing->spans[i].start;
    }
    fail_msg("no %s", name);
    return 0.0;
}

static const struct vp_stage_costs unit[8] = {
    { .f = 1, .b = 1, .w = 1 }, { .f = 1, .b = 1, .w = 1 },
    { .f = 1, .b = 1, .w = 1 }, { .f = 1, .b = 1, .w = 1 },
    { .f = 1, .b = 1, .w = 1 }, { .f = 1, .b = 1, .w = 1 },
    { .f = 1, .b = 1, .w = 1 }, { .f = 1, .b = 1, .w = 1 },
};

/* ---- Devices ------------------------------------------------------------ */

/* Two stages, GPipe, two minibatches:
 *   0: F F . . . B B B B      ranks that compute: 1 2 1 2 2 1 1 1 1
 *   1: . F F B B B B . . */
static void one_device_does_all_the_work(void **state)
{
    struct vp_sched_config config = { .name = "gpipe",
                                      .n_stages = 2,
                                      .n_mb = 2 };
    struct vp_sched_costs costs = { .stages = unit };
    struct vp_schedule schedule = make(&config);
    struct vp_timing timing;

    (void)state;
    close_to(makespan(&schedule, &costs), 9);
    costs.capacity = 2;
    close_to(makespan(&schedule, &costs), 9);
    /* The three units in which both compute take six. A rank is busy from the
     * start of an action, also at half speed. */
    costs.capacity = 1;
    timing = simulate(&schedule, &costs);
    close_to(timing.makespan, 12);
    close_to(timing.bubble, 1.0 - (6 * 1 + 3 * 2 * 2) / 24.0);
    vp_timing_release(&timing);
    costs.capacity = 1.5;
    close_to(makespan(&schedule, &costs), 6 + 3 * 2 / 1.5);
    vp_schedule_release(&schedule);
}

/* With both ranks computing, actions take twice as long. 1f1b on two stages,
 * two minibatches, B of one unit (no W):
 *   0: F0 0-1, F1 1-3, wait, B0 4-6, wait, B1 7-8
 *   1:         F0 1-3, B0 3-4, F1 4-6, B1 6-7 */
static void busy_cores_slow_each_other_down(void **state)
{
    static const struct vp_stage_costs alone[] = { { .f = 1, .b = 1 },
                                                   { .f = 1, .b = 1 } };
    static const struct vp_stage_costs twice[] = { { .f = 2, .b = 2 },
                                                   { .f = 2, .b = 2 } };
    struct vp_sched_config config = { .name = "1f1b",
                                      .n_stages = 2,
                                      .n_mb = 2 };
    struct vp_sched_costs costs = { .stages = alone, .busy = alone };
    struct vp_schedule schedule = make(&config);
    struct vp_timing t;

    (void)state;
    close_to(makespan(&schedule, &costs), 6);
    costs.busy = twice;
    t = simulate(&schedule, &costs);
    close_to(start_of(&schedule, &t, "1B0"), 3);
    close_to(start_of(&schedule, &t, "0B0"), 4);
    close_to(start_of(&schedule, &t, "1B1"), 6);
    close_to(t.makespan, 8);
    vp_timing_release(&t);
    /* On separate devices no rank slows down another. */
    costs.device = (const int[]){ 0, 1 };
    close_to(makespan(&schedule, &costs), 6);
    /* Both at once: each has half of the device, and that at half the speed. */
    costs.device = (const int[]){ 0, 0 };
    close_to(makespan(&schedule, &costs), 1 + 4 + 1 + 4 + 1 + 1);
    vp_schedule_release(&schedule);
}

/* Four ranks, slowdown 4 if all compute: with k at work an action takes
 * 1 + (k - 1) * 3 / 3 = k units. Forwards of three minibatches; the last column
 * is k:
 *   0F0 0-1                      1
 *   0F1 1F0 1-3                  2
 *   0F2 1F1 2F0 3-6              3
 *   1F2 2F1 3F0 6-9              3
 *   2F2 3F1 9-11                 2
 *   3F2 11-12                    1 */
static void slowdown_grows_with_the_load(void **state)
{
    struct vp_sched_config config = { .name = "eval",
                                      .n_stages = 4,
                                      .n_mb = 3 };
    struct vp_stage_costs busy[4];
    struct vp_sched_costs costs = { .stages = unit, .busy = busy };
    struct vp_schedule schedule = make(&config);

    (void)state;
    for (int s = 0; s < 4; s++) {
        busy[s] = unit[s];
        busy[s].f = 4;
    }
    close_to(makespan(&schedule, &costs), 12);
    vp_schedule_release(&schedule);
}

/* Forwards of two minibatches through four stages, one unit each. */
static void two_devices_of_two_ranks(void **state)
{
    static const int pairs[] = { 0, 0, 1, 1 }, odd[] = { 2, 0, 2, 0 };
    struct vp_sched_config config = { .name = "eval",
                                      .n_stages = 4,
                                      .n_mb = 2 };
    struct vp_sched_costs costs = { .stages = unit, .device = pairs };
    struct vp_schedule schedule = make(&config);
    struct vp_stage_costs stages[4];
    struct vp_timing t;

    (void)state;
    /* 0F0 0-1; 0F1 and 1F0 1-3; 1F1 and 2F0 3-4; 2F1 and 3F0 4-6; 3F1 6-7 */
    t = simulate(&schedule, &costs);
    close_to(start_of(&schedule, &t, "1F1"), 3);
    close_to(start_of(&schedule, &t, "2F0"), 3);
    close_to(start_of(&schedule, &t, "3F0"), 4);
    close_to(t.makespan, 7);
    vp_timing_release(&t);
    /* Neighbours are on different devices: no device has two ranks at work. */
    costs.device = odd;
    close_to(makespan(&schedule, &costs), 5);
    costs.device = pairs;
    costs.capacity = 2;
    close_to(makespan(&schedule, &costs), 5);
    vp_schedule_release(&schedule);
    /* A third minibatch, with rings of two buffers: 0F2 and 1F1 3-5, 2F0 3-4,
     * 3F0 4-5; 1F2 and 2F1 5-6; 2F2 and 3F1 6-8; 3F2 8-9. */
    costs.capacity = 1;
    config.n_mb = 3;
    schedule = make(&config);
    t = simulate(&schedule, &costs);
    close_to(start_of(&schedule, &t, "3F0"), 4);
    close_to(start_of(&schedule, &t, "1F2"), 5);
    close_to(t.makespan, 9);
    vp_timing_release(&t);
    /* 0F2 and 1F1 share their device until 5, while 2F0 runs 3-6. */
    memcpy(stages, unit, sizeof(stages));
    stages[2].f = 3;
    costs.stages = stages;
    t = simulate(&schedule, &costs);
    close_to(start_of(&schedule, &t, "3F0"), 6);
    vp_timing_release(&t);
    vp_schedule_release(&schedule);
}

/* Computing on a shared device slows down, a link does not: 0F0 0-2, link 2-3,
 * 0F1 2-5 (one unit of it alone), 1F0 3-6 (the last unit alone), link 5-6, 1F1
 * 6-8. */
static void links_go_on_at_full_speed(void **state)
{
    struct vp_sched_config config = { .name = "eval",
                                      .n_stages = 2,
                                      .n_mb = 2 };
    struct vp_stage_costs stages[] = { { .f = 2, .act = 1 }, { .f = 2 } };
    struct vp_sched_costs costs = { .stages = stages, .capacity = 1 };
    struct vp_schedule schedule = make(&config);
    struct vp_timing t = simulate(&schedule, &costs);

    (void)state;
    close_to(start_of(&schedule, &t, "1F0"), 3);
    close_to(start_of(&schedule, &t, "1F1"), 6);
    close_to(t.makespan, 8);
    vp_timing_release(&t);
    /* The second message is on the link while no rank computes. */
    stages[0].act = 4; /* 0F1 2-4, links 2-6-10, 1F0 6-8, 1F1 10-12 */
    close_to(makespan(&schedule, &costs), 12);
    vp_schedule_release(&schedule);
}

/* A reduction takes no share of the device: the gradients of both replicas are
 * reduced 3-8. */
static void only_computing_is_shared(void **state)
{
    static const int replicas[] = { 2 };
    struct vp_sched_config config = {
        .name = "1f1b", .n_stages = 1, .n_mb = 2, .replicas = replicas
    };
    struct vp_stage_costs stages[] = {
        { .f = 1, .b = 1, .w = 1, .reduce = 5, .update = 2 }
    };
    struct vp_sched_costs costs = { .stages = stages };
    struct vp_schedule schedule = make(&config);

    (void)state;
    close_to(makespan(&schedule, &costs), 3 + 5 + 2);
    costs.capacity = 1;
    close_to(makespan(&schedule, &costs), 6 + 5 + 4);
    vp_schedule_release(&schedule);
}

static void devices_that_do_not_exist(void **state)
{
    static const int device[][2] = { { 0, 2 }, { -1, 0 } };
    struct vp_sched_config config = { .name = "1f1b",
                                      .n_stages = 2,
                                      .n_mb = 1 };
    struct vp_schedule schedule = make(&config);
    struct vp_timing timing;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct vp_sched_costs costs = { .stages = unit, .device = device[i] };
        struct vp_err err = { .text = "" };

        assert_int_equal(vp_simulate(&schedule, &costs, &timing, &err),
                         VP_ERR_INVALID);
        assert_non_null(strstr(err.text, "from 0 to 1"));
    }
    vp_schedule_release(&schedule);
}

/* ---- Properties of random schedules ------------------------------------- */

static uint32_t random_below(uint32_t *counter, uint32_t n)
{
    uint32_t bits = vp_rng(11, VP_RNG_TEST, 0, (*counter)++, 0, 0).v[0];

    return vp_rng_below(bits, n);
}

static double cost(uint32_t *counter)
{
    return (double)random_below(counter, 1000) / 64.0;
}

static void random_costs(struct vp_stage_costs *stages, int n,
                         uint32_t *counter)
{
    for (int s = 0; s < n; s++)
        stages[s] = (struct vp_stage_costs){
            .f = cost(counter),
            .b = cost(counter),
            .w = cost(counter),
            .r = cost(counter),
            .act = cost(counter),
            .grad = cost(counter),
            .reduce = cost(counter),
            .update = cost(counter),
        };
}

static struct vp_sched_config random_config(int n, uint32_t *counter)
{
    static const bool recompute[4 * 6] = { true, false, true, true };
    static const int replicas[] = { 2, 1, 3, 1, 2, 1 };
    const struct vp_generator *generator = vp_generator_at(n % 8);

    return (struct vp_sched_config){
        .name = generator->name,
        .n_stages = 1 + (int)random_below(counter, 6),
        .n_mb = 1 + (int)random_below(counter, 12),
        .replicas = generator->chunks || n % 3 == 0 ? NULL : replicas,
        .recompute = n % 2 == 0 ? recompute : NULL,
        .early_recompute = n % 4 == 0,
        .global_norm = n % 5 == 0,
        .segment_begin = generator->stream ? 3 : 0,
        .first_mb = generator->stream ? 5 : 0,
        .keep_going = generator->stream && n % 7 == 0,
    };
}

/* Simulation in time order (devices given) equals simulation in any order (no
 * devices), to the last bit. */
static void own_devices_change_nothing(void **state)
{
    static const int own[] = { 9, 1, 2, 3, 0, 5, 6, 7, 8, 4 };
    uint32_t counter = 0;

    (void)state;
    for (int n = 0; n < 2000; n++) {
        struct vp_sched_config config = random_config(n, &counter);
        struct vp_schedule schedule = make(&config);
        struct vp_stage_costs stages[24];
        struct vp_sched_costs costs = { .stages = stages,
                                        .latency = cost(&counter),
                                        .send_blocks = n % 3 == 1,
                                        .one_port = n % 5 == 1,
                                        .recv_posts = n % 2 == 1 };
        struct vp_timing a, b;
        int device[10];

        for (int r = 0, i = 0; r < 10; r++)
            if (own[r] < schedule.n_ranks)
                device[i++] = own[r];
        random_costs(stages, schedule.n_stages, &counter);
        a = simulate(&schedule, &costs);
        costs.device = device;
        b = simulate(&schedule, &costs);
        assert_memory_equal(a.spans, b.spans,
                            (size_t)schedule.n_actions * sizeof(*a.spans));
        vp_timing_release(&a);
        vp_timing_release(&b);
        vp_schedule_release(&schedule);
    }
}

static void check_room(const struct vp_schedule *schedule)
{
    struct vp_sched_costs costs = { .stages = unit };
    struct vp_timing alone = simulate(schedule, &costs);
    double work = 0.0, before = INFINITY;

    for (int r = 0; r < schedule->n_ranks; r++)
        work += alone.ranks[r].busy;
    for (int room = 1; room <= schedule->n_ranks; room++) {
        struct vp_timing t;

        costs.capacity = room;
        t = simulate(schedule, &costs);
        assert_true(t.makespan >= alone.makespan - 1e-9);
        assert_true(t.makespan >= work / room - 1e-9);
        assert_true(t.makespan <= before + 1e-9);
        assert_true(t.bubble >= -1e-12 && t.bubble < 1.0);
        before = t.makespan;
        if (room == 1)
            close_to(t.makespan, work); /* some rank always computes */
        if (room == schedule->n_ranks) {
            close_to(t.makespan, alone.makespan);
            close_to(t.bubble, alone.bubble);
        }
        vp_timing_release(&t);
    }
    vp_timing_release(&alone);
}

static void more_room_never_hurts(void **state)
{
    static const char *const names[] = { "1f1b", "gpipe", "pipedream",
                                         "zb-h1" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++)
        for (int n_stages = 1; n_stages <= 8; n_stages++)
            for (int n_mb = 1; n_mb <= 12; n_mb++) {
                struct vp_sched_config config = { .name = names[i],
                                                  .n_stages = n_stages,
                                                  .n_mb = n_mb };
                struct vp_schedule schedule = make(&config);

                check_room(&schedule);
                vp_schedule_release(&schedule);
            }
}

/* ---- Messages ----------------------------------------------------------- */

/* Copy out, link, copy in: 0F0 0-1, out 1-4, in 4-7; 0F1 1-2, out 4-7, in 7-10;
 * last F 10-11. */
static void copy_engines_carry_one_message_each(void **state)
{
    struct vp_sched_config config = { .name = "eval",
                                      .n_stages = 2,
                                      .n_mb = 2 };
    struct vp_stage_costs stages[] = { { .f = 1, .act_copy = 3 }, { .f = 1 } };
    struct vp_sched_costs costs = { .stages = stages };
    struct vp_schedule schedule = make(&config);

    (void)state;
    close_to(makespan(&schedule, &costs), 11);
    /* Link 4-6 and 7-9, latency 1: in 7-10 and 10-13. */
    stages[0].act = 2;
    costs.latency = 1;
    close_to(makespan(&schedule, &costs), 14);
    /* With send_blocks the sender is busy until the link is free: 1-6, then F1
     * 6-7, out 7-10, link 10-12, in 13-16. */
    costs.send_blocks = true;
    close_to(makespan(&schedule, &costs), 17);
    vp_schedule_release(&schedule);
}

/* Each direction has a copy engine: the middle stage copies in 4-7-10 and
 * copies out 8-11-14; 2F1 17-18. */
static void copy_engines_go_one_way(void **state)
{
    struct vp_sched_config config = { .name = "eval",
                                      .n_stages = 3,
                                      .n_mb = 2 };
    struct vp_stage_costs stages[] = { { .f = 1, .act_copy = 3 },
                                       { .f = 1, .act_copy = 3 },
                                       { .f = 1 } };
    struct vp_sched_costs costs = { .stages = stages };
    struct vp_schedule schedule = make(&config);

    (void)state;
    close_to(makespan(&schedule, &costs), 18);
    vp_schedule_release(&schedule);
}

/* Two replicas send at the same time to ranks of another device. */
static void ranks_share_copy_engines(void **state)
{
    static const int together[] = { 0, 0, 1, 1 }, apart[] = { 0, 1, 2, 3 };
    static const int left[] = { 0, 0, 1, 2 }, right[] = { 0, 1, 2, 2 };
    static const int replicas[] = { 2, 2 };
    struct vp_sched_config config = {
        .name = "eval", .n_stages = 2, .n_mb = 2, .replicas = replicas
    };
    struct vp_stage_costs stages[] = { { .f = 1, .act_copy = 4 }, { .f = 1 } };
    struct vp_sched_costs costs = { .stages = stages, .capacity = 2 };
    struct vp_schedule schedule = make(&config);

    (void)state;
    costs.device = apart; /* out 1-5, in 5-9 */
    close_to(makespan(&schedule, &costs), 10);
    costs.device = left; /* out 1-5-9, in 9-13 */
    close_to(makespan(&schedule, &costs), 14);
    costs.device = right; /* out 1-5, in 5-9-13 */
    close_to(makespan(&schedule, &costs), 14);
    costs.device = together; /* out 1-5-9, in 5-9-13 */
    close_to(makespan(&schedule, &costs), 14);
    vp_schedule_release(&schedule);
}

/* The middle one of three stages receives activations over a slow link and
 * gradients by slow copies. Its copy engine serves messages in order of arrival,
 * not in the order in which they were sent:
 *   0: F0 0-1, out 1-2, link 2-12     in 12-13; F1: link 12-22; F2: link 22-32
 *   1: F0 13-14                       gradient 0: out 16-20.5, in 20.5-25
 *      activation 1: in 25-26         F1 26-27, B0 27-28
 *      activation 2: in 32-33         F2 33-34
 *      gradient 1: in 33.5-38         B1 38-39
 *      gradient 2: in 40.5-45         B2 45-46, and 0B2 46-47 */
static void copies_come_in_order_of_arrival(void **state)
{
    struct vp_sched_config config = { .name = "1f1b",
                                      .n_stages = 3,
                                      .n_mb = 3 };
    struct vp_stage_costs stages[] = {
        { .f = 1, .b = 1, .act = 10, .act_copy = 1 },
        { .f = 1, .b = 1 },
        { .f = 1, .b = 1, .grad_copy = 4.5 },
    };
    struct vp_sched_costs costs = { .stages = stages };
    struct vp_schedule schedule = make(&config);
    struct vp_timing t = simulate(&schedule, &costs);

    (void)state;
    close_to(start_of(&schedule, &t, "1F1"), 26);
    close_to(start_of(&schedule, &t, "1F2"), 33);
    close_to(start_of(&schedule, &t, "1B1"), 38);
    close_to(start_of(&schedule, &t, "1B2"), 45);
    close_to(t.makespan, 47);
    vp_timing_release(&t);
    vp_schedule_release(&schedule);
}

/* Two replicas send messages of three units to one rank. */
static void ranks_of_a_device_share_its_port(void **state)
{
    static const int together[] = { 0, 0, 1 }, apart[] = { 0, 1, 2 };
    static const int replicas[] = { 2, 1 };
    struct vp_sched_config config = {
        .name = "eval", .n_stages = 2, .n_mb = 2, .replicas = replicas
    };
    struct vp_stage_costs stages[] = { { .f = 1, .act = 3 }, { .f = 1 } };
    struct vp_sched_costs costs = { .stages = stages,
                                    .device = together,
                                    .capacity = 2 };
    struct vp_schedule schedule = make(&config);

    (void)state;
    close_to(makespan(&schedule, &costs), 6); /* both 1-4, F 4-5-6 */
    costs.one_port = true;
    close_to(makespan(&schedule, &costs), 8); /* 1-4-7, F 4-5, 7-8 */
    costs.device = apart;
    close_to(makespan(&schedule, &costs), 6);
    vp_schedule_release(&schedule);
}

/* A receive stands before a forward that does not need its message: without
 * recv_posts the rank waits for it, with recv_posts it goes on. */
static void receives_wait_or_are_posted(void **state)
{
    static const char text[] =
        "schedule=1f1b stages=2 minibatches=2 drain=1 rank=0,1 depth=1,0 "
        "slots=2,1 act=0,2 grad=2,0 every=2\n"
        "0: 0F0 0SEND_ACT0 0RECV_GRAD0 0F1 0SEND_ACT1 0B0 0RECV_GRAD1 0B1 "
        "0UPDATE0\n"
        "1: 1RECV_ACT0 1F0 1B0 1SEND_GRAD0 1RECV_ACT1 1F1 1B1 1SEND_GRAD1 "
        "1UPDATE0\n";
    struct vp_sched_costs costs = { .stages = unit };
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };

    (void)state;
    if (vp_schedule_parse(text, "text", &schedule, &err) != VP_OK)
        fail_msg("%s", err.text);
    /* 0F0 0-1, 1F0 1-2, 1B0 2-4, 0F1 4-5, 1F1 5-6, 1B1 6-8, 0B1 8-10 */
    close_to(makespan(&schedule, &costs), 10);
    /* 0F1 1-2, 0B0 and 1F1 from 4, 1B1 5-7, 0B1 7-9 */
    costs.recv_posts = true;
    close_to(makespan(&schedule, &costs), 9);
    costs.device = (const int[]){ 1, 0 };
    close_to(makespan(&schedule, &costs), 9);
    vp_schedule_release(&schedule);
}

/* ---- Recomputation ------------------------------------------------------ */

/* Two stages, one minibatch; stage 0 recomputes for two units: early, while it
 * waits for the gradient (0F 0-1, R 1-3, 0B 4-6), or after the gradient has
 * arrived. */
static void recomputation_has_its_own_time(void **state)
{
    static const bool first[] = { true, false };
    struct vp_stage_costs stages[] = { { .f = 1, .b = 1, .w = 1, .r = 2 },
                                       { .f = 1, .b = 1, .w = 1, .r = 99 } };
    struct vp_sched_costs costs = { .stages = stages };

    (void)state;
    for (int early = 0; early < 2; early++) {
        struct vp_sched_config config = { .name = "1f1b",
                                          .n_stages = 2,
                                          .n_mb = 1,
                                          .recompute = first,
                                          .early_recompute = early };
        struct vp_schedule schedule = make(&config);

        costs.capacity = 0;
        close_to(makespan(&schedule, &costs), early ? 6 : 8);
        /* On one device R and the actions of stage 1 share its time: 0F 0-1, R
         * and 1F 1-3, R and 1B 3-5, 1B 5-6, 0B 6-8. */
        costs.capacity = 1;
        close_to(makespan(&schedule, &costs), 8);
        vp_schedule_release(&schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_does_all_the_work),
        cmocka_unit_test(busy_cores_slow_each_other_down),
        cmocka_unit_test(slowdown_grows_with_the_load),
        cmocka_unit_test(two_devices_of_two_ranks),
        cmocka_unit_test(links_go_on_at_full_speed),
        cmocka_unit_test(only_computing_is_shared),
        cmocka_unit_test(devices_that_do_not_exist),
        cmocka_unit_test(own_devices_change_nothing),
        cmocka_unit_test(more_room_never_hurts),
        cmocka_unit_test(copy_engines_carry_one_message_each),
        cmocka_unit_test(copy_engines_go_one_way),
        cmocka_unit_test(ranks_share_copy_engines),
        cmocka_unit_test(copies_come_in_order_of_arrival),
        cmocka_unit_test(ranks_of_a_device_share_its_port),
        cmocka_unit_test(receives_wait_or_are_posted),
        cmocka_unit_test(recomputation_has_its_own_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
