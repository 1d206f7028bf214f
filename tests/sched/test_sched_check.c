/* Bad configurations and lists with one fault are refused. On thousands of
 * broken schedules the validator agrees with the checked executor. */
#include "lib/checked_executor.h"
#include "lib/sched_mutants.h"
#include "lib/schedlib.h"
#include "sched/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ---- Replica counts ----------------------------------------------------- */

static const int one_two_one[] = { 1, 2, 1 };

static const int two_one[] = { 2, 1 };

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
      "rank 0, action 3 (0R1): overwrites values recomputed for minibatch 0; "
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
      "rank 1, action 1 (1F0): uses weight version 1 instead of 0" },
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

/* A stage with a greater depth than its predecessor can never start. */
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

/* Fails if the validator and three runs of the executor disagree. Counts
 * invalid schedules in counts[0], valid ones in counts[1]. */
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

/* A random walk from a generated schedule: each step makes one or two changes.
 * Valid results are kept, so the walk moves away from generated schedules. */
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

/* Generated schedules run in the checked executor, too. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_configurations),
        cmocka_unit_test(refusals_name_the_cause),
        cmocka_unit_test(depths_that_hang),
        cmocka_unit_test(validator_agrees_with_executor),
        cmocka_unit_test(generated_schedules_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
