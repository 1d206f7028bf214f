/* The last line of a run says whether it learned, and --require-loss-below
 * decides the exit status. */
#include "goal.h"
#include "tool.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double none = (double)NAN;

/* Returns the text that a run of one stage prints at its end. The caller frees
 * it. */
static char *end_of(double unigram, double eval_loss)
{
    const struct vp_memory memory = { .total = 1 };
    const struct vp_run_stage stage = { .n_ranks = 1, .memory = &memory };
    const struct vp_run_summary summary = { .model = "bert",
                                            .data = "data",
                                            .output = "run",
                                            .stages = &stage,
                                            .n_stages = 1,
                                            .unigram_loss = unigram };
    const struct vp_run_result result = { .n_steps = 1,
                                          .n_trained = 1,
                                          .limit = "total_steps",
                                          .first_loss = none,
                                          .last_loss = none,
                                          .eval_loss = eval_loss };
    struct progress progress;
    char *text;
    size_t n_bytes;
    FILE *out = open_memstream(&text, &n_bytes);

    assert_non_null(out);
    progress_init(&progress, out, 1);
    assert_true(isnan(progress.unigram_loss) && isnan(progress.eval_loss));
    progress_start(&progress, &summary);
    progress_eval(&progress, 1, 8, eval_loss);
    assert_true(progress.unigram_loss == unigram);
    assert_true(isnan(eval_loss) || progress.eval_loss == eval_loss);
    progress_end(&progress, &result);
    fclose(out);
    return text;
}

static void test_the_end_says_whether_it_learned(void **state)
{
    static const struct {
        double unigram, eval_loss;
        const char *want; /* NULL: no such line */
    } cases[] = {
        { 3.0, 1.5,
          "\nlearned   yes: held-out loss 1.5000 is 0.500 of 3.0000, the best "
          "guess without context\n" },
        { 3.0, 3.0,
          "\nlearned   no: held-out loss 3.0000 is 1.000 of 3.0000, the best "
          "guess without context\n" },
        { 3.0, 4.5,
          "\nlearned   no: held-out loss 4.5000 is 1.500 of 3.0000, the best "
          "guess without context\n" },
        { 0.0, 0.5, NULL }, /* a text of one symbol */
        { 3.0, (double)NAN, NULL },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char *text = end_of(cases[i].unigram, cases[i].eval_loss);
        const char *line = strstr(text, "\nlearned ");

        if (!cases[i].want)
            assert_null(line);
        else
            assert_memory_equal(line, cases[i].want, strlen(cases[i].want));
        free(text);
    }
}

static void test_the_goal_decides(void **state)
{
    static const struct {
        const char *text; /* NULL: not given */
        double unigram, eval_loss;
        const char *want; /* NULL: reached */
    } cases[] = {
        { NULL, 3.0, 9.0, NULL },
        { "unigram", 3.0, 2.9999, NULL },
        { "unigram", 3.0, 3.0,
          "held-out loss 3.0000 is not below 3.0000, the best guess without "
          "context, as --require-loss-below requires; raise total_steps or "
          "change learning_rate" },
        { "3.5", 3.0, 3.4, NULL },
        { "2.5", 3.0, 2.6,
          "held-out loss 2.6000 is not below 2.5000, as --require-loss-below "
          "requires; raise total_steps or change learning_rate" },
        { "2.5", 3.0, (double)NAN,
          "there is no held-out loss for --require-loss-below: the run ended "
          "before its first evaluation; lower eval_every or raise "
          "total_steps" },
        /* A process that gets no losses. */
        { "unigram", (double)NAN, (double)NAN, NULL },
        { "2.5", (double)NAN, (double)NAN, NULL },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const struct vp_run_summary summary = {
            .unigram_loss = cases[i].unigram
        };
        struct progress progress = { .unigram_loss = none, .eval_loss = none };
        struct goal goal = { NULL, 0.0 };
        struct vp_err err = { .text = "" };
        enum vp_status st;

        if (cases[i].text)
            assert_int_equal(goal_set(&goal, cases[i].text), TOOL_OK);
        goal_keep_start(&progress, &summary);
        goal_keep_eval(&progress, 1, 8, cases[i].eval_loss);
        st = goal_check(&goal, &progress, &err);
        assert_int_equal(st, cases[i].want ? VP_ERR_UNMET : VP_OK);
        assert_string_equal(err.text, cases[i].want ? cases[i].want : "");
    }
}

static void test_the_goal_needs_an_evaluation(void **state)
{
    struct vp_config config = { .eval_every = 0 };
    struct goal goal = { NULL, 0.0 };
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(goal_check_config(&goal, &config, &err), VP_OK);
    goal_set(&goal, "unigram");
    assert_int_equal(goal_check_config(&goal, &config, &err), VP_ERR_INVALID);
    assert_string_equal(err.text, "vpipe train: option '--require-loss-below' "
                                  "compares the held-out loss, but eval_every "
                                  "is 0; set eval_every");
    config.forward_only = true;
    assert_int_equal(goal_check_config(&goal, &config, &err), VP_OK);
    config.forward_only = false;
    config.eval_every = 1;
    assert_int_equal(goal_check_config(&goal, &config, &err), VP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_end_says_whether_it_learned),
        cmocka_unit_test(test_the_goal_decides),
        cmocka_unit_test(test_the_goal_needs_an_evaluation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
