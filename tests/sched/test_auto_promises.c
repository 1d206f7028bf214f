/* The schedule `auto` is valid, within its memory limit, deterministic and
 * found quickly. It recomputes while a rank is idle, and refuses too little
 * memory. */
#include "lib/auto_problems.h"
#include "lib/schedlib.h"
#include "sched/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ---- Helpers ------------------------------------------------------------ */

static char *print_compute(const struct vp_schedule *schedule)
{
    char *text = NULL;

    assert_int_equal(vp_schedule_print(schedule, VP_PRINT_COMPUTE, &text),
                     VP_OK);
    return text;
}

/* ---- Validity, determinism, memory -------------------------------------- */

static void same_lists_every_time(void **state)
{
    uint32_t counter = 3000;

    (void)state;
    for (int place = 0; place < N_PLACES; place++) {
        struct random_case c;
        struct vp_sched_config config;
        struct vp_schedule a, b;
        char *texts[2];

        random_problem(&c, 4, 9, &counter);
        for (int r = 0; r < 4; r++)
            c.limit[r] = 7;
        config = config_of(&c, place, "auto");
        a = make(&config);
        b = make(&config);
        texts[0] = print_compute(&a);
        texts[1] = print_compute(&b);
        assert_string_equal(texts[0], texts[1]);
        for (int i = 0; i < 2; i++)
            free(texts[i]);
        vp_schedule_release(&a);
        vp_schedule_release(&b);
    }
}

/* A schedule that is made again from its printed text has the same actions, R
 * included, and rings of the same lengths. */
static void its_text_makes_it_again(void **state)
{
    uint32_t counter = 3500;

    (void)state;
    for (int n = 0; n < 24; n++) {
        struct random_case c;
        struct vp_sched_config config;
        struct vp_schedule first, again;
        char *text, *copy;

        random_problem(&c, 2 + n % 4, 3 + n % 5, &counter);
        random_extras(&c, n, &counter);
        config = config_of(&c, n % N_PLACES, "auto");
        config.recompute = c.recompute;
        c.costs[0].latency = c.costs[1].latency = n % 3; /* longer rings */
        first = make(&config);
        assert_int_equal(vp_schedule_print(&first, 0, &text), VP_OK);
        config.text = text;
        config.costs = NULL;
        config.limits = NULL;
        again = make(&config);
        assert_int_equal(vp_schedule_print(&again, 0, &copy), VP_OK);
        assert_string_equal(text, copy);
        free(text);
        free(copy);
        vp_schedule_release(&first);
        vp_schedule_release(&again);
    }
}

/* Up to 16 ranks and 64 minibatches in all placements: valid, within memory,
 * and run by the checked executor. */
static void sweep_is_proven(void **state)
{
    static const int ranks[] = { 1, 2, 3, 5, 8, 11, 16 };
    static const int minibatches[] = { 1, 2, 7, 16, 33, 64 };
    uint32_t counter = 5000;
    int n_cases = 0;

    (void)state;
    for (size_t i = 0; i < (SLOW ? 4 : VP_COUNT_OF(ranks)); i++)
        for (size_t k = 0; k < (SLOW ? 4 : VP_COUNT_OF(minibatches)); k++) {
            int p = ranks[i], place = n_cases % N_PLACES;
            struct vp_stage_costs stages[32];
            bool recompute[32];
            double limit[16];
            struct vp_sched_costs costs = { .stages = stages };
            struct vp_sched_limits limits = { .rank = limit };
            struct vp_sched_config config = {
                .name = "auto",
                .n_stages = p,
                .n_chunks = place == 0 ? 1 : 2,
                .v_shape = place == 2,
                .n_mb = minibatches[k],
                .recompute = n_cases % 2 ? recompute : NULL,
                .fused = n_cases % 5 == 4,
                .costs = &costs,
                .limits = &limits,
            };
            struct vp_schedule schedule;

            for (int s = 0; s < 32; s++) {
                stages[s] = (struct vp_stage_costs){
                    .f = between(&counter, 0.5, 1.5),
                    .b = between(&counter, 0.5, 1.5),
                    .w = between(&counter, 0.5, 1.5),
                    .r = between(&counter, 0.5, 1.5),
                };
                recompute[s] = auto_draw(&counter, 2);
            }
            for (int r = 0; r < p; r++)
                limit[r] = 2 + (double)auto_draw(&counter, 2 * (uint32_t)p);
            schedule = make(&config);
            check_auto(&schedule, &config);
            vp_schedule_release(&schedule);
            n_cases++;
        }
    print_message("%d schedules proven\n", n_cases);
}

/* Limits of ranks and sizes of stages may differ, and may be bytes. */
static void memory_in_bytes(void **state)
{
    static const double ranks[] = { 30e6, 20e6, 9e6 };
    static const double stages[] = { 10e6, 7e6, 4e6 };
    struct vp_sched_limits limits = { .rank = ranks, .stage = stages };
    struct vp_sched_config config = { .name = "auto",
                                      .n_stages = 3,
                                      .n_chunks = 1,
                                      .n_mb = 8,
                                      .limits = &limits };
    struct vp_schedule schedule = make(&config);

    (void)state;
    check_auto(&schedule, &config);
    assert_int_equal(schedule.stages[0].n_slots, 3);
    assert_int_equal(schedule.stages[1].n_slots, 2);
    assert_true(schedule.stages[2].n_slots <= 2);
    vp_schedule_release(&schedule);
}

static void too_little_memory_is_refused(void **state)
{
    static const double ranks[] = { 2, 1.5, 2 };
    struct vp_sched_limits limits = { .rank = ranks };
    struct vp_sched_config config = { .name = "auto",
                                      .n_stages = 3,
                                      .n_chunks = 2,
                                      .v_shape = true,
                                      .n_mb = 4,
                                      .limits = &limits };
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_schedule_make(&config, &schedule, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "schedule auto: rank 1 may keep 1.5, but one minibatch "
                        "takes 2; give it more memory");
    config.replicas = (const int[]){ 1, 2, 1 };
    assert_int_equal(vp_schedule_make(&config, &schedule, &err),
                     VP_ERR_INVALID);
}

/* R runs while the rank is idle: 0F 0-1, R 1-3, gradient at 4. With one slot
 * the second minibatch starts after the first has ended. */
static void recomputes_while_it_waits(void **state)
{
    static const bool first[] = { true, false };
    static const double one[] = { 1, 1 };
    struct vp_stage_costs stages[] = { { .f = 1, .b = 1, .w = 1, .r = 2 },
                                       { .f = 1, .b = 2, .w = 1, .r = 99 } };
    struct vp_sched_costs costs = { .stages = stages };
    struct vp_sched_limits limits = { .rank = one };
    struct vp_sched_config config = { .name = "auto",
                                      .n_stages = 2,
                                      .n_chunks = 1,
                                      .n_mb = 1,
                                      .recompute = first,
                                      .costs = &costs,
                                      .limits = &limits };
    struct vp_schedule schedule = make(&config);
    char *text = print_compute(&schedule);

    (void)state;
    assert_string_equal(text, "0: 0F0 0R0 0B0 0W0 0UPDATE0\n"
                              "1: 1F0 1B0 1W0 1UPDATE0\n");
    assert_true(makespan(&schedule, &costs) == 6.0);
    free(text);
    vp_schedule_release(&schedule);
    config.n_mb = 2;
    schedule = make(&config);
    text = print_compute(&schedule);
    assert_string_equal(text, "0: 0F0 0R0 0B0 0W0 0F1 0R1 0B1 0W1 0UPDATE0\n"
                              "1: 1F0 1B0 1W0 1F1 1B1 1W1 1UPDATE0\n");
    assert_true(makespan(&schedule, &costs) == 12.0);
    free(text);
    vp_schedule_release(&schedule);
}

/* Half stages in a V fill the pipe faster; with slow messages whole stages
 * win. */
static void the_best_of_several(void **state)
{
    struct vp_stage_costs whole[4], half[8];
    struct vp_sched_costs costs[] = { { .stages = whole }, { .stages = half } };
    double few[] = { 1, 1, 1, 1 };
    struct vp_sched_limits limits = { .rank = few };
    struct vp_sched_config configs[] = {
        { .name = "auto",
          .n_stages = 4,
          .n_chunks = 1,
          .n_mb = 4,
          .costs = &costs[0] },
        { .name = "auto",
          .n_stages = 4,
          .n_chunks = 2,
          .v_shape = true,
          .n_mb = 4,
          .costs = &costs[1] },
    };
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };
    int best = -1;

    (void)state;
    for (int s = 0; s < 8; s++) {
        whole[s / 2] = (struct vp_stage_costs){ .f = 2, .b = 2, .w = 2 };
        half[s] = (struct vp_stage_costs){ .f = 1, .b = 1, .w = 1 };
    }
    assert_int_equal(vp_schedule_make_best(configs, 2, &schedule, &best, &err),
                     VP_OK);
    assert_int_equal(best, 1);
    assert_int_equal(schedule.n_stages, 8);
    vp_schedule_release(&schedule);
    costs[0].latency = costs[1].latency = 5;
    assert_int_equal(vp_schedule_make_best(configs, 2, &schedule, &best, &err),
                     VP_OK);
    assert_int_equal(best, 0);
    vp_schedule_release(&schedule);
    /* Only the first configuration fits into memory; then neither does. */
    costs[0].latency = costs[1].latency = 0;
    configs[0].limits = configs[1].limits = &limits;
    assert_int_equal(vp_schedule_make_best(configs, 2, &schedule, NULL, &err),
                     VP_OK);
    assert_int_equal(schedule.n_stages, 4);
    vp_schedule_release(&schedule);
    few[2] = 0.5;
    assert_int_equal(vp_schedule_make_best(configs, 2, &schedule, NULL, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "rank 2 may keep 0.5"));
}

/* Planning 8 ranks and 32 minibatches in all three placements takes less than
 * 50 ms of CPU time. */
static void fast_enough(void **state)
{
    uint32_t counter = 4000;
    double best = INFINITY;

    (void)state;
    if (SLOW) {
        print_message("skipped: a measurement for optimised code\n");
        return;
    }
    for (int round = 0; round < 5; round++) {
        struct random_case c;
        double seconds[N_PLACES], sum = 0.0;

        random_problem(&c, 8, 32, &counter);
        for (int r = 0; r < 8; r++)
            c.limit[r] = 12;
        for (int place = 0; place < N_PLACES; place++) {
            struct vp_sched_config config = config_of(&c, place, "auto");
            clock_t start = clock();
            struct vp_schedule schedule = make(&config);

            seconds[place] = (double)(clock() - start) / CLOCKS_PER_SEC;
            sum += seconds[place];
            vp_schedule_release(&schedule);
        }
        print_message("one stage %.1f ms, in turn %.1f ms, V %.1f ms\n",
                      1e3 * seconds[0], 1e3 * seconds[1], 1e3 * seconds[2]);
        best = fmin(best, sum);
    }
    assert_true(best < 0.050);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_lists_every_time),
        cmocka_unit_test(its_text_makes_it_again),
        cmocka_unit_test(sweep_is_proven),
        cmocka_unit_test(memory_in_bytes),
        cmocka_unit_test(too_little_memory_is_refused),
        cmocka_unit_test(recomputes_while_it_waits),
        cmocka_unit_test(the_best_of_several),
        cmocka_unit_test(fast_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
