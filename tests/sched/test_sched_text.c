/* A schedule that is printed and parsed again is the same; bad text is refused
 * with its line and column; terminal charts and SVG pictures are complete. */
#include "lib/schedlib.h"
#include "sched/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Literal text ------------------------------------------------------- */

static const int one_two_one[] = { 1, 2, 1 };

static const bool second_stage[] = { false, true };

/* The whole printed text: head line, messages, slots, versions and ring
 * lengths. */
static void literal_text(void **state)
{
    static const struct {
        struct vp_sched_config config;
        int flags;
        const char *want;
    } cases[] = {
        { { .name = "1f1b",
            .n_stages = 2,
            .n_mb = 2,
            .recompute = second_stage },
          0,
          "schedule=1f1b stages=2 minibatches=2 begin=0 end=0 first=0 drain=1 "
          "split=0 forward_only=0 global_norm=0 rank=0,1 replicas=1 depth=1,0 "
          "recompute=0,1 slots=2,1 act=0,2 grad=2,0 versions=1 every=2 lag=0 "
          "base=0 past=0\n"
          "0: 0F0 0SEND_ACT0 0F1 0SEND_ACT1 0RECV_GRAD0 0B0 0RECV_GRAD1 0B1 "
          "0UPDATE0\n"
          "1: 1RECV_ACT0 1F0 1R0 1B0 1SEND_GRAD0 1RECV_ACT1 1F1 1R1 1B1 "
          "1SEND_GRAD1 1UPDATE0\n" },
        { { .name = "pipedream", .n_stages = 2, .n_mb = 3 },
          VP_PRINT_FULL,
          "schedule=pipedream stages=2 minibatches=3 begin=0 end=0 first=0 drain=1 "
          "split=0 forward_only=0 global_norm=0 rank=0,1 replicas=1 depth=1,0 "
          "recompute=0 slots=2,1 act=0,2 grad=2,0 versions=2,1 every=1 "
          "lag=1,0 base=0 past=0\n"
          "0: 0F0@0v0 0SEND_ACT0 0F1@1v0 0SEND_ACT1 0RECV_GRAD0 0B0@0v0 "
          "0UPDATE0v1 0F2@0v1 0SEND_ACT2 0RECV_GRAD1 0B1@1v0 0UPDATE1v2 "
          "0RECV_GRAD2 0B2@0v1 0UPDATE2v3\n"
          "1: 1RECV_ACT0 1F0@0v0 1B0@0v0 1SEND_GRAD0 1UPDATE0v1 1RECV_ACT1 "
          "1F1@0v1 1B1@0v1 1SEND_GRAD1 1UPDATE1v2 1RECV_ACT2 1F2@0v2 1B2@0v2 "
          "1SEND_GRAD2 1UPDATE2v3\n" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_schedule schedule = make(&cases[i].config);
        char *text = print(&schedule, cases[i].flags);

        assert_string_equal(text, cases[i].want);
        free(text);
        vp_schedule_release(&schedule);
    }
}

/* ---- Text --------------------------------------------------------------- */

static void assert_same(const struct vp_schedule *a,
                        const struct vp_schedule *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->n_ranks, b->n_ranks);
    assert_int_equal(a->n_stages, b->n_stages);
    assert_int_equal(a->n_actions, b->n_actions);
    assert_memory_equal(a->actions, b->actions,
                        (size_t)a->n_actions * sizeof(*a->actions));
    for (int s = 0; s < a->n_stages; s++) {
        struct vp_schedule_stage x = a->stages[s], y = b->stages[s];

        assert_int_equal(x.recompute, y.recompute);
        assert_int_equal(x.first_rank, y.first_rank);
        assert_int_equal(x.n_replicas, y.n_replicas);
        assert_int_equal(x.depth, y.depth);
        assert_int_equal(x.n_slots, y.n_slots);
        assert_int_equal(x.n_act_bufs, y.n_act_bufs);
        assert_int_equal(x.n_grad_bufs, y.n_grad_bufs);
        assert_int_equal(x.n_versions, y.n_versions);
        assert_int_equal(x.update_every, y.update_every);
        assert_int_equal(x.version_lag, y.version_lag);
        assert_int_equal(x.version_begin, y.version_begin);
        assert_int_equal(x.version_past, y.version_past);
    }
}

static void check_round_trip(const struct vp_schedule *schedule, int flags)
{
    char *text = print(schedule, flags), *again;
    struct vp_schedule read;
    struct vp_err err = { .text = "" };

    if (vp_schedule_parse(text, "text", &read, &err) != VP_OK)
        fail_msg("%s\n%s", err.text, text);
    assert_same(schedule, &read);
    assert_valid(&read);
    again = print(&read, flags);
    assert_string_equal(text, again);
    free(text);
    free(again);
    vp_schedule_release(&read);
}

static void text_round_trip(void **state)
{
    const struct vp_generator *generator;
    int replicas[] = { 2, 1, 3, 1, 2 };
    bool recompute[15] = { true, false, true, true, false };

    (void)state;
    for (int i = 0; (generator = vp_generator_at(i)); i++)
        for (int s = 1; s <= 5; s++)
            for (int m = 1; m <= 9; m += 2) {
                struct vp_sched_config config = {
                    .name = generator->name,
                    .n_stages = s,
                    .n_mb = m,
                    .n_chunks = generator->chunks ? 2 : 1,
                    .replicas = generator->chunks ? NULL : replicas,
                    .recompute = recompute,
                    .global_norm = m == 3,
                    .segment_begin = generator->stream ? 4 : 0,
                    .first_mb = generator->stream ? 6 : 0,
                    .keep_going = generator->stream && m == 5,
                };
                struct vp_schedule schedule = make(&config);

                check_round_trip(&schedule, 0);
                check_round_trip(&schedule, VP_PRINT_FULL);
                vp_schedule_release(&schedule);
            }
}

/* Slots that differ from the rule (own index mod n_slots) are printed and
 * parsed. */
static void odd_slots_survive(void **state)
{
    struct vp_sched_config config = { .name = "1f1b",
                                      .n_stages = 2,
                                      .n_mb = 3 };
    struct vp_schedule schedule = make(&config);
    char *text;

    (void)state;
    for (int i = 0; i < schedule.n_actions; i++)
        if (schedule.actions[i].stage == 0 && schedule.actions[i].slot >= 0)
            schedule.actions[i].slot = 1 - schedule.actions[i].slot;
    assert_valid(&schedule);
    text = print(&schedule, VP_PRINT_COMPUTE);
    assert_string_equal(text, "0: 0F0@1 0F1@0 0B0@1 0F2@1 0B1@0 0B2@1 "
                              "0UPDATE0\n"
                              "1: 1F0 1B0 1F1 1B1 1F2 1B2 1UPDATE0\n");
    free(text);
    check_round_trip(&schedule, 0);
    vp_schedule_release(&schedule);
}

static void short_text_is_enough(void **state)
{
    static const char text[] = "stages=2 minibatches=1\n"
                               "0: 0F0 0SEND_ACT0 0RECV_GRAD0 0B0 0UPDATE0\n"
                               "1: 1RECV_ACT0 1F0 1B0 1SEND_GRAD0 1UPDATE0\n\n";
    struct vp_schedule schedule;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_schedule_parse(text, "x", &schedule, &err), VP_OK);
    assert_valid(&schedule);
    assert_string_equal(schedule.name, "custom");
    assert_int_equal(schedule.stages[1].n_act_bufs, 2);
    vp_schedule_release(&schedule);
}

static void bad_text_names_the_place(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "", "f:1:1: 'stages=' or 'minibatches='" },
        { "stages=2", "f:1:1: 'stages=' or 'minibatches='" },
        { "stages=0 minibatches=1", "f:1:8: the number is too small" },
        { "stages=5000 minibatches=1", "f:1:8: the number is too large" },
        { "stages=2 stages=2", "f:1:10: 'stages=' is given twice" },
        { "stages=x", "f:1:8: a number belongs here" },
        { "stages=2 colour=3", "f:1:10: 'colour' is not a key" },
        { "slots=1 stages=2", "f:1:7: 'stages=' must come before 'slots='" },
        { "stages=3 slots=1,2 minibatches=1", "f:1:19: slots has 2 values" },
        { "stages=2 slots=1,2,3", "f:1:20: slots has more values" },
        { "stages=2 minibatches", "f:1:10: 'key=value'" },
        { "schedule= stages=2", "f:1:10: a name" },
        { "stages=1 minibatches=1 begin=3 first=2", "f:1:1: minibatches 2" },
        { "stages=1 minibatches=1\n", "f:2:1: the list of rank 0 is missing" },
        { "stages=1 minibatches=1\n1: 0F0", "f:2:1: the list of rank 0" },
        { "stages=1 minibatches=1\n0: 0X0", "f:2:5: an action is F, B" },
        { "stages=1 minibatches=1\n0: 1F0", "f:2:4: the number is too large" },
        { "stages=1 minibatches=1\n0: 0F", "f:2:6: a number belongs here" },
        { "stages=1 minibatches=1\n0: 0F0,", "f:2:7: a space belongs" },
        { "stages=1 minibatches=1\n0: 0F0@", "f:2:8: a number belongs here" },
        { "stages=1 minibatches=1\n0: 0REDUCE0@1", "f:2:12: this action has" },
        { "stages=1 minibatches=1\n0: 0SEND_ACT0v1", "f:2:14: this action" },
        { "stages=1 minibatches=1\n0: 0F0\n\n0", "f:4:1: the lists of all 1" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_schedule schedule;
        struct vp_err err = { .text = "" };

        assert_int_equal(vp_schedule_parse(cases[i].text, "f", &schedule, &err),
                         VP_ERR_INVALID);
        if (strncmp(err.text, cases[i].want, strlen(cases[i].want)) != 0)
            fail_msg("'%s': %s", cases[i].text, err.text);
    }
}

/* A text with random bytes replaced gives an error, or a schedule that can be
 * validated and printed. */
static void parser_survives_noise(void **state)
{
    static const char letters[] = "0123456789FBWR@v=,: \nSEND_ACTstages";
    struct vp_sched_config config = {
        .name = "pipedream", .n_stages = 3, .n_mb = 4, .replicas = one_two_one
    };
    struct vp_schedule schedule = make(&config);
    char *text = print(&schedule, VP_PRINT_FULL);
    size_t n = strlen(text);
    uint32_t counter = 0;
    int n_read = 0;

    (void)state;
    vp_schedule_release(&schedule);
    for (int i = 0; i < 20000; i++) {
        char *copy = malloc(n + 1);
        struct vp_err err;

        memcpy(copy, text, n + 1);
        for (int k = (int)random_below(&counter, 3); k >= 0; k--)
            copy[random_below(&counter, (int)n)] =
                letters[random_below(&counter, sizeof(letters) - 1)];
        if (vp_schedule_parse(copy, "noise", &schedule, &err) == VP_OK) {
            char *again = print(&schedule, 0);

            (void)vp_schedule_validate(&schedule, &err);
            free(again);
            vp_schedule_release(&schedule);
            n_read++;
        }
        free(copy);
    }
    free(text);
    assert_true(n_read > 100);
}

/* ---- Charts and SVG ----------------------------------------------------- */

static void literal_chart(void **state)
{
    static const struct {
        struct vp_sched_config config;
        int width;
        const char *want;
    } cases[] = {
        { { .name = "1f1b", .n_stages = 2, .n_mb = 3 },
          80,
          "rank 0   F0F1....B0  F2B1  ..B2  \n"
          "rank 1   ..F0B0  F1B1  F2B2  ....\n" },
        { { .name = "zb-v", .n_stages = 2, .n_mb = 2 },
          80,
          "rank 0   F0F1..f0b0f1b1B0w0w1B1W0W1\n"
          "rank 1   ..F0f0F1f1b0B0b1w0B1W0w1W1\n" },
        { { .name = "gpipe", .n_stages = 2, .n_mb = 4 },
          32,
          "rank 0   FFFF...B0B1B2B3\n"
          "rank 1   .FFFFB0B1B2B3..\n" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_schedule schedule = make(&cases[i].config);
        struct vp_timing timing = simulate(&schedule, unit_costs);
        char *text;

        assert_int_equal(
            vp_schedule_chart(&schedule, &timing, cases[i].width, false, &text),
            VP_OK);
        assert_string_equal(text, cases[i].want);
        free(text);
        assert_int_equal(
            vp_schedule_chart(&schedule, &timing, cases[i].width, true, &text),
            VP_OK);
        assert_non_null(strstr(text, "\x1b[0m\n"));
        free(text);
        vp_timing_release(&timing);
        vp_schedule_release(&schedule);
    }
}

static int count(const char *text, const char *word)
{
    int n = 0;

    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

/* Every tag is closed, and every action has a box with a title. */
static void svg_is_complete(void **state)
{
    static const char *const tags[] = { "svg",  "style",   "defs", "title",
                                        "text", "pattern", "path" };
    struct vp_sched_config config = { .name = "zb-h1",
                                      .n_stages = 3,
                                      .n_mb = 5 };
    struct vp_schedule schedule = make(&config);
    struct vp_timing timing = simulate(&schedule, unit_costs);
    char *text;

    (void)state;
    assert_int_equal(vp_schedule_svg(&schedule, &timing, "a < b & c", &text),
                     VP_OK);
    for (size_t i = 0; i < VP_COUNT_OF(tags); i++) {
        char open[16], open_with[16], close[16];
        int n_open;

        snprintf(open, sizeof(open), "<%s>", tags[i]);
        snprintf(open_with, sizeof(open_with), "<%s ", tags[i]);
        snprintf(close, sizeof(close), "</%s>", tags[i]);
        n_open = count(text, open) + count(text, open_with);
        if (strcmp(tags[i], "path") == 0)
            assert_int_equal(n_open, 3); /* one curve per rank */
        else
            assert_int_equal(n_open, count(text, close));
    }
    assert_int_equal(count(text, ", slot "), 3 * 3 * 5);
    assert_int_equal(count(text, "<title>update"), 3);
    assert_int_equal(count(text, "a &lt; b &amp; c"), 1);
    free(text);
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literal_text),
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(odd_slots_survive),
        cmocka_unit_test(short_text_is_enough),
        cmocka_unit_test(bad_text_names_the_place),
        cmocka_unit_test(parser_survives_noise),
        cmocka_unit_test(literal_chart),
        cmocka_unit_test(svg_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
