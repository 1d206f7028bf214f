/* The screen of `vpipe train` has the live view and its tables, lines that
 * break between words, and the last lines of a run. */
#include "lib/runlib.h"
#include "progress.h"
#include "run/log.h"
#include "tool.h"

#include <math.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- The screen --------------------------------------------------------- */

struct screen {
    struct progress progress;
    struct fake fake;
    float scale;
    char *text;
    size_t n_bytes;
};

static void open_screen(struct screen *screen, bool terminal)
{
    FILE *out = open_memstream(&screen->text, &screen->n_bytes);

    make_fake(&screen->fake, 1, 1);
    screen->fake.summary.output = "runs/x";
    screen->fake.summary.model = "bert";
    screen->fake.summary.data = "data";
    screen->fake.summary.schedule = "1f1b";
    progress_init(&screen->progress, out, 1);
    screen->progress.terminal = terminal;
    screen->progress.utf8 = false;
    progress_start(&screen->progress, &screen->fake.summary);
}

static void close_screen(struct screen *screen)
{
    fclose(screen->progress.out);
    free(screen->text);
}

/* Returns the text that was written since the last call. */
static const char *look(struct screen *screen)
{
    static char text[16384];

    fflush(screen->progress.out);
    snprintf(text, sizeof(text), "%s", screen->text);
    rewind(screen->progress.out);
    memset(screen->text, 0, screen->n_bytes);
    return text;
}

/* The table has the user's numbers of ranks, not those of the schedule. */
static void test_table_has_user_numbers(void **state)
{
    static const struct {
        int numbers[4];
        const char *ranks[3];
    } cases[] = {
        { { 0, 1, 2, 3 }, { "0", "1-2", "3" } },
        { { 3, 1, 0, 2 }, { "3", "1,0", "2" } },
        { { 0, 3, 1, 2 }, { "0", "3,1", "2" } },
        { { 1, 2, 3, 0 }, { "1", "2-3", "0" } },
    };
    static struct screen screen;

    (void)state;
    for (size_t i = 0; i <= VP_COUNT_OF(cases); i++) {
        size_t k = i % VP_COUNT_OF(cases); /* the last case has no numbers */
        const char *text;

        open_screen(&screen, false);
        look(&screen);
        screen.fake.summary.rank_numbers = i == k ? cases[k].numbers : NULL;
        progress_start(&screen.progress, &screen.fake.summary);
        text = look(&screen);
        for (int s = 0; s < 3; s++) {
            char row[64];

            snprintf(row, sizeof(row), "\n%5d  %5s  ", s, cases[k].ranks[s]);
            if (!strstr(text, row))
                fail_msg("case %d: no '%s' in%s", (int)i, row + 1, text);
        }
        close_screen(&screen);
    }
}

/* A long list of replicas whose numbers are no range is cut, which the table
 * shows. */
static void test_table_cuts_long_lists(void **state)
{
    static struct screen screen;
    int numbers[66];
    const char *text;

    (void)state;
    open_screen(&screen, false);
    for (int r = 0; r < 66; r++)
        numbers[r] = 65 - r;
    screen.fake.stages[1].n_ranks = 64;
    screen.fake.stages[2].first_rank = 65;
    screen.fake.summary.rank_numbers = numbers;
    screen.fake.summary.n_ranks = 66;
    progress_start(&screen.progress, &screen.fake.summary);
    text = strstr(look(&screen), "  64,63,62,");
    assert_non_null(text);
    assert_in_range(strcspn(text + 2, " "), 55, 63);
    assert_memory_equal(text + 2 + strcspn(text + 2, " ") - 4, ",...", 4);
    close_screen(&screen);
}

/* Shows a step in which stage 0 is busy for half of the time, stage 1 always
 * and stage 2 never. */
static void show_step(struct screen *screen, int64_t step)
{
    int64_t s = 1000000000;
    struct vp_stage_stats stats[3] = {
        { .forward_ns = step * s / 4,
          .backward_ns = step * s / 4,
          .n_forward = step + 2,
          .n_backward = step },
        { .forward_ns = step * s,
          .backward_ns = step * s,
          .n_forward = step + 1,
          .n_backward = step },
        { .n_forward = step, .n_backward = step },
    };
    struct vp_step_report report = {
        .step = step,
        .n_steps = 9,
        .loss = 2.5,
        .seconds = 1.0,
        .n_tokens = 1500,
        .n_stages = 3,
        .bubble = 0.25,
        .flops = 1e9,
        .loss_scale = screen->scale,
        .n_skipped = 7,
    };

    screen->progress.drawn_ns = 0;
    progress_stages(&screen->progress, stats);
    progress_step(&screen->progress, &report);
}

/* A step without labels shows neither 0 nor nan as its loss. */
static void test_no_labels(void **state)
{
    static struct screen screen;
    struct vp_step_report report = {
        .step = 1, .n_steps = 9, .loss = (double)NAN, .seconds = 1.0
    };
    struct vp_err err = { .text = "" };
    struct vp_log log;
    const char *text;
    char *lines;

    (void)state;
    open_screen(&screen, false);
    look(&screen);
    progress_step(&screen.progress, &report);
    text = look(&screen);
    assert_non_null(strstr(text, "1/9  no labels "));
    assert_null(strstr(text, "nan"));
    progress_eval(&screen.progress, 1, 1, (double)NAN);
    assert_string_equal(look(&screen),
                        "eval at step 1: no labels in 1 batch\n");
    progress_eval(&screen.progress, 2, 3, 2.5);
    assert_string_equal(look(&screen),
                        "eval at step 2: loss 2.5000 over 3 batches\n");
    close_screen(&screen);

    make_fake(&screen.fake, 1, 1);
    open_log(&log, &screen.fake, "unlabelled");
    for (report.step = 6; report.step <= 8; report.step++) {
        report.loss = report.step == 7 ? 2.5 : (double)NAN;
        assert_int_equal(vp_log_step(&log, &report, &err), VP_OK);
    }
    vp_log_close(&log);
    lines = read_run_text(path_in_run_root("unlabelled", "output.log.3"));
    assert_non_null(strstr(lines, "[6/12]"));
    assert_int_equal(count_lines(lines, "6/12.*Loss: - \\(-\\)"), 1);
    assert_int_equal(count_lines(lines, "7/12.*Loss: 2.5000 \\(2.5000\\)"), 1);
    assert_int_equal(count_lines(lines, "8/12.*Loss: - \\(2.5000\\)"), 1);
    free(lines);
}

static const char rows_1[] =
    "stage 0  [#####-----] busy  50%  bubble  50%  F 3      B 1       1.15 "
    "GiB\x1b[K\n"
    "stage 1  [##########] busy 100%  bubble   0%  F 2      B 1       1.86 "
    "GiB\x1b[K\n"
    "stage 2  [----------] busy   0%  bubble 100%  F 1      B 1        488 "
    "KiB\x1b[K\n"
    "1/9  loss 2.5000  1.5k tokens/s  ETA 0:08  bubble 25%  1.0 GFLOP/s  lr "
    "0.00e+00\x1b[K";

static void test_live(void **state)
{
    static struct screen screen;
    const char *text;

    (void)state;
    open_screen(&screen, true);
    assert_null(strchr(look(&screen), '\x1b'));
    show_step(&screen, 1);
    text = look(&screen);
    assert_memory_equal(text, "\x1b[?25l\r", 7);
    assert_string_equal(text + 7, rows_1);
    show_step(&screen, 2);
    text = look(&screen);
    assert_memory_equal(text, "\r\x1b[3Astage 0  [#####-----] busy  50%", 36);
    assert_non_null(strstr(text, "F 4      B 2 "));
    assert_null(strstr(text, "\x1b[?25"));

    /* Other lines replace the view, and it is drawn again below them. */
    progress_notice(&screen.progress, "hello");
    assert_string_equal(look(&screen), "\x1b[3A\r\x1b[J\x1b[?25hhello\n");
    show_step(&screen, 3);
    assert_memory_equal(look(&screen), "\x1b[?25l\rstage 0 ", 15);
    progress_detail(&screen.progress, 1, "quiet");
    assert_string_equal(look(&screen), "");
    screen.progress.details = true;
    progress_detail(&screen.progress, 1, "loud");
    assert_string_equal(look(&screen), "\x1b[3A\r\x1b[J\x1b[?25h[1] loud\n");

    /* After the answer to a signal, no line above it is drawn over. */
    show_step(&screen, 3);
    look(&screen);
    progress_interject("stopping\n");
    show_step(&screen, 3);
    assert_memory_equal(look(&screen), "\x1b[?25h\x1b[?25l\rstage 0 ", 21);

    /* A window that is too small shows only the line of the step. */
    show_step(&screen, 4);
    look(&screen);
    screen.progress.height = 4;
    show_step(&screen, 5);
    text = look(&screen);
    assert_memory_equal(text, "\r\x1b[3A\x1b[J5/9 ", 12);
    assert_null(strstr(text, "stage"));
    screen.progress.height = 5;
    screen.progress.width = 77;
    show_step(&screen, 6);
    assert_null(strstr(look(&screen), "stage"));
    screen.progress.width = 78;
    show_step(&screen, 7);
    assert_non_null(strstr(look(&screen), "stage 2"));
    progress_break(&screen.progress);
    assert_string_equal(look(&screen), "\n\x1b[?25h");
    progress_break(&screen.progress);
    assert_string_equal(look(&screen), "");
    close_screen(&screen);
}

/* No row is wider than announced, even with large numbers. */
static void test_live_width(void **state)
{
    static struct screen screen;
    const char *text;

    (void)state;
    open_screen(&screen, true);
    look(&screen);
    show_step(&screen, 899999);
    text = look(&screen) + 7;
    for (int s = 0; s < 3; s++) {
        size_t n = strcspn(text, "\x1b");

        assert_true(n <= 77);
        text = strchr(text, '\n') + 1;
    }
    close_screen(&screen);
}

static void test_pipe(void **state)
{
    static struct screen screen;

    (void)state;
    open_screen(&screen, false);
    look(&screen);
    show_step(&screen, 1);
    assert_string_equal(look(&screen),
                        "step 1/9  loss 2.5000  1.5k tokens/s  ETA 0:08  "
                        "bubble 25%  1.0 GFLOP/s  lr 0.00e+00\n");
    screen.scale = 0x1p24f;
    show_step(&screen, 1);
    assert_non_null(strstr(
        look(&screen), "bubble 25%  scale 16777216, 7 skipped  1.0 GFLOP/s"));
    progress_detail(&screen.progress, 2, "inside");
    assert_string_equal(look(&screen), "[2] inside\n");
    progress_break(&screen.progress);
    assert_string_equal(look(&screen), "");
    close_screen(&screen);
}

/* ---- Text --------------------------------------------------------------- */

static char *text_of(FILE *out, char **text)
{
    assert_int_equal(fclose(out), 0);
    return *text;
}

static void test_lines_break_between_words(void **state)
{
    static const struct {
        int width, indent;
        const char *text, *want;
    } cases[] = {
        { 12, 2, "one two three\nfour\n", "one two\n  three\nfour\n" },
        { 13, 2, "one two three\n", "one two three\n" },
        { 10, 6, "name  one two\n\nx\n", "name  one\n      two\n\nx\n" },
        { 8, 0, "   indented text\n", "   indented\ntext\n" },
        { 6, 2, "a 12.5 %, b\n", "a\n  12.5 %,\n  b\n" },
        { 4, 0, "toolong x\n", "toolong\nx\n" },
        { 0, 4,
          "no terminal, no end of the line, however long it may be or "
          "become\n",
          "no terminal, no end of the line, however long it may be or become\n" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char *text;
        size_t n_bytes;
        FILE *out = open_memstream(&text, &n_bytes);

        tool_print(out, cases[i].width, cases[i].indent, "%s", cases[i].text);
        assert_string_equal(text_of(out, &text), cases[i].want);
        free(text);
    }
}

static void test_tables_break_between_columns(void **state)
{
    static const char table[] = "name  stages    a b   last\n"
                                "one        1    1.5    2 %\n"
                                "three             -\n";
    static const char in_three[] = "name  stages\n"
                                   "one        1\n"
                                   "three\n"
                                   "\n"
                                   "name     a b\n"
                                   "one      1.5\n"
                                   "three      -\n"
                                   "\n"
                                   "name    last\n"
                                   "one      2 %\n"
                                   "three\n";
    static const struct {
        int width;
        const char *want;
    } cases[] = {
        { 26, table },
        { 25, "name  stages    a b\n"
              "one        1    1.5\n"
              "three             -\n"
              "\n"
              "name    last\n"
              "one      2 %\n"
              "three\n" },
        { 14, in_three },
        { 12, in_three },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char *text;
        size_t n_bytes;
        FILE *out = open_memstream(&text, &n_bytes);

        tool_table(out, cases[i].width, table);
        assert_string_equal(text_of(out, &text), cases[i].want);
        free(text);
    }
}

static void test_rates_have_a_unit_that_fits(void **state)
{
    static const struct {
        double flops;
        const char *want;
    } cases[] = {
        { 0.0, "0.0 GFLOP" },        { 12.34e9, "12.3 GFLOP" },
        { 999.94e9, "999.9 GFLOP" }, { 999.96e9, "1.0 TFLOP" },
        { 1.5e12, "1.5 TFLOP" },     { 1234e12, "1234.0 TFLOP" },
    };
    char text[32];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        tool_flops_text(cases[i].flops, text, sizeof(text));
        assert_string_equal(text, cases[i].want);
    }
}

/* Flags may be spelled with underscores, as in the original; values are not
 * changed. */
static void test_flags_take_underscores(void **state)
{
    static const struct tool_flag flags[] = { { "--num-minibatches", "N", "" },
                                              { "--dry-run", NULL, "" } };
    char *argv[] = { "train",        "--num_minibatches=a_b", "--dry_run",
                     "--dry-run",    "--num-minibatches",     "c_d",
                     "--dry_run-now" };
    struct tool_args args = { .command = "vpipe train",
                              .argc = 7,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = 2,
                              .at = 1 };
    const char *value;

    (void)state;
    assert_int_equal(args_next(&args, &value), 0);
    assert_string_equal(value, "a_b");
    assert_int_equal(args_next(&args, &value), 1);
    assert_int_equal(args_next(&args, &value), 1);
    assert_int_equal(args_next(&args, &value), 0);
    assert_string_equal(value, "c_d");
    assert_int_equal(args_next(&args, &value), ARGS_BAD);
}

/* ---- The last lines of a run -------------------------------------------- */

static const char *show_end(struct screen *screen, struct vp_run_result *result)
{
    static const struct vp_stage_stats stats[3] = {
        { .forward_ns = 500000000, .wait_ns = 250000000 },
        { .forward_ns = 1000000000,
          .backward_ns = 2000000000,
          .reduce_ns = 100000000,
          .update_ns = 200000000,
          .wait_ns = 300000000,
          .receive_ns = 60000000,
          .send_ns = 30000000,
          .message_ns = 10000000,
          .bytes_sent = 1250000 },
        { .forward_ns = 1500000000, .receive_ns = 500000000 },
    };
    static struct vp_trace trace;

    result->first_loss = result->last_loss = result->eval_loss = (double)NAN;
    result->stats = stats;
    result->trace = &trace;
    result->limit = "total_steps";
    progress_end(&screen->progress, result);
    return look(screen);
}

/* A run with steps left prints the command to resume it, with all changes of
 * --set. */
static void test_end_says_how_to_go_on(void **state)
{
    struct vp_run_result result = {
        .n_steps = 103, .n_trained = 103, .n_left = 2, .interrupted = true
    };
    static struct screen screen;

    (void)state;
    open_screen(&screen, false);
    look(&screen);
    assert_non_null(strstr(show_end(&screen, &result),
                           "\n\ngo on     vpipe train runs/x/config.yml "
                           "--resume runs/x\ntry next  "));
    /* The proposed next command names an existing file. */
    assert_non_null(strstr(show_end(&screen, &result),
                           " vpipe train runs/x/config.yml --dry-run\n"));
    screen.progress.config = "a file.yml";
    assert_non_null(strstr(show_end(&screen, &result),
                           "vpipe train 'a file.yml' --resume runs/x\n"));
    assert_non_null(strstr(show_end(&screen, &result),
                           " vpipe train 'a file.yml' --dry-run\n"));
    result.n_left = 0;
    assert_null(strstr(show_end(&screen, &result), "resume"));
    close_screen(&screen);
}

static void test_end_counts_its_own_work(void **state)
{
    struct vp_run_result result = { .n_steps = 400,
                                    .n_trained = 400,
                                    .seconds = 2.0 };
    static struct screen screen;

    (void)state;
    open_screen(&screen, false);
    screen.progress.n_steps = 300;
    look(&screen);
    assert_non_null(
        strstr(show_end(&screen, &result), "done      400 updates in 2.0 s"));
    result.n_trained = 300;
    assert_non_null(strstr(show_end(&screen, &result),
                           "done      300 updates (400 in all) in 2.0 s"));
    result.n_trained = 0;
    result.seconds = 0.0;
    assert_non_null(strstr(show_end(&screen, &result),
                           "done      nothing: 400 updates are trained "
                           "already, and total_steps ends the run at 300; "
                           "raise it to go on\n"));
    close_screen(&screen);
}

/* The rows of each rank add up to 100 %, for stages that share a rank
 * together. */
static void test_end_table_adds_up(void **state)
{
    struct vp_run_result result = { .n_trained = 1, .seconds = 2.0 };
    static struct screen screen;

    (void)state;
    open_screen(&screen, false);
    look(&screen);
    assert_non_null(strstr(
        show_end(&screen, &result),
        "\nstage forward backward  reduce  update    wait receive    send   "
        "other      sent\n"
        "    0  25.0 %    0.0 %   0.0 %   0.0 %  12.5 %   0.0 %   0.0 %  "
        "62.5 %    0.0 MB\n"
        "    1  25.0 %   50.0 %   2.5 %   5.0 %   7.5 %   1.5 %   1.0 %   "
        "7.5 %    1.2 MB\n"
        "    2  75.0 %    0.0 %   0.0 %   0.0 %   0.0 %  25.0 %   0.0 %   "
        "0.0 %    0.0 MB\n"));
    screen.progress.stages[2].first_rank = 0;
    assert_non_null(
        strstr(show_end(&screen, &result), "   0.0 %       -    0.0 MB\n"));
    close_screen(&screen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_labels),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_live_width),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_table_has_user_numbers),
        cmocka_unit_test(test_table_cuts_long_lists),
        cmocka_unit_test(test_lines_break_between_words),
        cmocka_unit_test(test_tables_break_between_columns),
        cmocka_unit_test(test_rates_have_a_unit_that_fits),
        cmocka_unit_test(test_flags_take_underscores),
        cmocka_unit_test(test_end_says_how_to_go_on),
        cmocka_unit_test(test_end_counts_its_own_work),
        cmocka_unit_test(test_end_table_adds_up),
    };

    return cmocka_run_group_tests(tests, make_run_root, remove_run_root);
}
