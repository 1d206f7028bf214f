/* The screen of `vpipe top` has the whole expected text for prepared states. */
#include "monitor/status_file.h"
#include "top.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The state of a run of three stages, the second one on two ranks, with some
 * unknown keys. */
static const char status[] =
    "{\"number\": 9, \"state\": \"%s\", \"line\": \"%s\", \"version\": "
    "\"0.1.0\", \"host\": \"node-1\", \"pid\": 4711, \"model\": \"bert\", "
    "\"schedule\": \"zb-h1\", \"transport\": \"mpi\", \"steps_total\": 120, "
    "\"target_steps\": 1000, \"epoch\": 1, \"loss\": 5.12345, \"eval_loss\": "
    "5.25, \"learning_rate\": 0.001, \"gradient_norm\": 1.5, \"loss_scale\": "
    "null, \"tokens_per_second\": 12345, \"samples_per_second\": 96, "
    "\"flops_per_second\": 1.5e12, \"step_seconds\": 0.25, \"bubble_ratio\": "
    "0.125, \"eta_seconds\": 3723, \"checkpoint_step\": 100, \"later\": [{}], "
    "\"stages\": [{\"first_rank\": 0, \"ranks\": 1, \"first_block\": 0, "
    "\"blocks\": 3, \"forward_seconds_total\": 1.2, \"forwards_total\": 120, "
    "\"backward_seconds_total\": 3, \"backwards_total\": 119, \"busy_ratio\": "
    "0.8, \"memory_bytes\": 1073741824}, {\"first_rank\": 1, \"ranks\": 2, "
    "\"first_block\": 3, \"blocks\": 1, \"busy_ratio\": 0.5}, {\"first_rank\": "
    "3, \"ranks\": 1, \"first_block\": 4, \"blocks\": 2}], \"ranks\": "
    "[{\"rank\": 3, \"doing\": \"forward\", \"stage\": 0, \"minibatch\": 130, "
    "\"seconds\": 0.4}, {\"rank\": 0, \"doing\": \"\", \"stage\": -1}, "
    "{\"rank\": 1, \"doing\": \"receive\", \"stage\": 1, \"minibatch\": 128, "
    "\"waits\": true, \"seconds\": 3.2}, {\"rank\": 2, \"doing\": "
    "\"backward\", \"stage\": 2, \"minibatch\": 7, \"eval\": true}], "
    "\"losses\": [9, 8, 7, 6, 5.5, 5.25, 5.125, 5.0625, 5]}";

static void read_status(const char *state, const char *line,
                        struct vp_live *out)
{
    char text[4096];
    struct vp_err err = { .text = "" };
    int n = snprintf(text, sizeof(text), status, state, line);

    if (vp_status_parse("s", text, (size_t)n, out, &err) != VP_OK)
        fail_msg("%s", err.text);
}

static void check_screen(const struct top_view *view, const char *want)
{
    struct vp_strbuf text = VP_STRBUF_INIT;

    top_print(view, &text);
    assert_string_equal(vp_strbuf_text(&text), want);
    vp_strbuf_release(&text);
}

#define TABLE                                                                  \
    "stage  blocks   ranks  now                              F ms     B ms   " \
    "busy bubble     memory\n"                                                 \
    "0      0-2      3      forward 130                      10.0     25.2   " \
    "80 %   20 %      1 GiB\n"                                                 \
    "1      3        0,1    receive 128, waits 3 s              -        -   " \
    "50 %   50 %          -\n"                                                 \
    "2      4-5      2      backward 7 (eval)                   -        -   " \
    "   -      -          -\n"

static void test_training(void **state)
{
    struct vp_live live;
    struct top_view view = { .folder = "runs/\x1b[31mx", .live = &live };

    (void)state;
    read_status("training", "", &live);
    assert_false(top_has_ended(&view));
    check_screen(&view,
                 "runs/?[31mx: bert, schedule zb-h1, 3 stages, mpi, process "
                 "4711 on host node-1\n"
                 "training\n"
                 "step 120 of 1000 (12 %), epoch 1, ETA 1:02:03, checkpoint of "
                 "step 100\n"
                 "loss 5.1235, held-out loss 5.2500, learning rate 1.00e-03, "
                 "gradient norm 1.5000\n"
                 "12.3k tokens/s, 96 samples/s, 1.5 TFLOP/s, seconds per step "
                 "0.250, bubble 12 %\n"
                 "losses #+=:.____ 5 to 9\n" TABLE);
    vp_status_release(&live);
}

/* Checks the second line of the screen, and whether the run counts as ended. */
static void check_state(const char *state, const char *line, enum top_news news,
                        double age, bool ended, const char *want)
{
    struct vp_live live;
    struct top_view view = {
        .folder = "r", .live = &live, .news = news, .age = age
    };
    struct vp_strbuf text = VP_STRBUF_INIT;
    char second[512];
    const char *at;

    read_status(state, line, &live);
    top_print(&view, &text);
    at = strchr(vp_strbuf_text(&text), '\n') + 1;
    snprintf(second, sizeof(second), "%.*s", (int)strcspn(at, "\n"), at);
    assert_string_equal(second, want);
    assert_int_equal(top_has_ended(&view), ended);
    assert_int_equal(!strstr(vp_strbuf_text(&text), "ETA"), ended);
    vp_strbuf_release(&text);
    vp_status_release(&live);
}

static void test_states(void **state)
{
    (void)state;
    check_state("evaluating", "", TOP_NEWS_FRESH, 0.0, false, "evaluating");
    check_state("training", "", TOP_NEWS_STALE, 12.4, false,
                "training, but no news for 12 s: the run is stopped, or its "
                "disk does not answer");
    check_state("training", "", TOP_NEWS_DIED, 70.0, true,
                "died: the run ended without a last state, 70 s ago; go on "
                "with --resume r");
    check_state("done", "", TOP_NEWS_FRESH, 1e6, true,
                "done: the run has ended");
    check_state("interrupted", "", TOP_NEWS_FRESH, 1.0, true,
                "interrupted by a signal; go on with --resume r");
    check_state("failed", "stage 1: \\u001b[2J\\u009bloss is NaN\\n",
                TOP_NEWS_FRESH, 1.0, true,
                "failed: stage 1: ?[2J??loss is NaN?");
}

/* On a terminal, UTF-8 is used and no line is wider than the screen. */
static void test_terminal(void **state)
{
    struct vp_live live;
    struct top_view view = {
        .folder = "r", .live = &live, .utf8 = true, .width = 17
    };

    (void)state;
    read_status("training", "", &live);
    live.metrics.n_stages = 0;
    check_screen(&view, "r: bert, schedule\n"
                        "training\n"
                        "step 120 of 1000 \n"
                        "loss 5.1235, held\n"
                        "12.3k tokens/s, 9\n"
                        "losses \u2588\u2586\u2585\u2583\u2582\u2581\u2581"
                        "\u2581\u2581 \n"
                        "stage  blocks   r\n");
    vp_status_release(&live);
}

/* The state right after the start, and a state with absurd numbers. */
static void test_little_is_known(void **state)
{
    static const char *const texts[] = {
        "{\"state\": \"training\"}",
        "{\"state\": \"training\", \"stages\": [{\"first_rank\": 9, \"ranks\": "
        "2147483647, \"blocks\": -5, \"first_block\": 99, \"memory_bytes\": "
        "-1, \"busy_ratio\": 1e308}], \"steps_total\": 1e308, \"eta_seconds\": "
        "1e308, \"ranks\": [{\"stage\": 0, \"seconds\": 1e308}], \"losses\": "
        "[1e308, -1e308]}",
    };
    struct vp_live live;
    struct top_view view = { .folder = "r", .live = &live };
    struct vp_strbuf text = VP_STRBUF_INIT;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(
        vp_status_parse("s", texts[0], strlen(texts[0]), &live, &err), VP_OK);
    check_screen(&view, "r: , schedule , 0 stages, , process 0 on host \n"
                        "training\n\n"
                        "stage  blocks   ranks  now                            "
                        "  F ms     B ms   busy bubble     memory\n");
    vp_status_release(&live);
    assert_int_equal(
        vp_status_parse("s", texts[1], strlen(texts[1]), &live, &err), VP_OK);
    top_print(&view, &text);
    assert_true(text.n_bytes > 0 && text.n_bytes < 4096);
    vp_strbuf_release(&text);
    vp_status_release(&live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_little_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
