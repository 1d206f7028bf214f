/* Messages between ranks and supervisor are printed and parsed without loss,
 * and bad ones are refused. A blackbox keeps a rank's last actions, and
 * addresses are parsed. */
#include "job/address.h"
#include "lib/scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NONCE "0123456789abcdef0123456789abcdef"

#define PROOF NONCE NONCE

static void test_lines_survive(void **state)
{
    static const char *const lines[] = {
        "challenge " NONCE,
        "hello " NONCE " " PROOF " 3 4 4711 b00t/pid:[7] node-1.x",
        "welcome " PROOF,
        "beat start 0 0",
        "beat train 1 12345678901",
        "beat train 0 17 F 0 9 1 0 12 0",
        "beat train 0 17 RECV_GRAD 63 2147483647 62 0 60001 60000",
        "beat train 0 17 UPDATE 2 4 -1 0 5 1",
        "beat save 1 17 B 2 4 1 1 0 0",
        "beat join 0 0",
        "beat data 0 0",
        "beat resume 0 0",
        "beat plan 0 0",
        "beat folder 0 0",
        "vitals 0 0 0 0 0",
        "vitals 1 22 333 4444 55555",
        "vitals 1 22 333 4444 0 reading /a/b c",
        "folder /a/b c",
        "word done",
        "word interrupted",
        "word failed 4 rank 1: non-finite loss, minibatch 7",
        "here",
        "heard",
        "stop",
        "end",
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(lines); i++) {
        char text[VP_MESSAGE_BYTES];
        struct vp_message message;

        assert_true(vp_message_parse(lines[i], &message));
        assert_int_equal(vp_message_print(&message, text),
                         strlen(lines[i]) + 1);
        assert_int_equal(text[strlen(lines[i])], '\n');
        text[strlen(lines[i])] = '\0';
        assert_string_equal(text, lines[i]);
    }
}

static void test_bad_lines_are_refused(void **state)
{
    static const char *const lines[] = {
        "",
        " ",
        "hell",
        "hello",
        "hello " NONCE " " PROOF " 0 4 4711 m",
        "hello " NONCE " " PROOF " 4 4 4711 m h",
        "hello " NONCE " " PROOF " -1 4 4711 m h",
        "hello " NONCE " " PROOF " 0 4 0 m h",
        "hello " NONCE " " PROOF " 0 4 4711 m h more",
        "hello " NONCE " " NONCE " 0 4 4711 m h",
        "hello " NONCE " " PROOF "0 0 4 4711 m h",
        "hello " NONCE " 0 4 4711 m h",
        "challenge",
        "challenge " PROOF,
        "challenge 0123456789abcdef0123456789abcdeF",
        "challenge " NONCE " 0",
        "welcome",
        "welcome " NONCE,
        "beat",
        "beat run 0 0",
        "beat train 2 0",
        "beat train 0 -1",
        "beat train 0 1 ",
        "beat train 0 1 F",
        "beat train 0 1 X 0 9 1 0 12 0",
        "beat train 0 1 F 256 9 1 0 12 0",
        "beat train 0 1 F 0 9 -2 0 12 0",
        "beat train 0 1 F 0 9 1 0 12",
        "beat train 0 1 F 0 9 1 0 12 0 0",
        "beat train 0 1 F 0 99999999999 1 0 12 0",
        "vitals",
        "vitals 0 0 0 0",
        "vitals 0 0 0 0 0 ",
        "vitals 0 0 -1 0 0",
        "vitals 0 0 0 0 x",
        "folder",
        "folder ",
        "word",
        "word none",
        "word failed",
        "word failed 0 fine",
        "word failed 11 beyond",
        "word done more",
        "here you are",
        "stop ",
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(lines); i++) {
        struct vp_message message;

        if (vp_message_parse(lines[i], &message))
            fail_msg("'%s' was taken", lines[i]);
    }
}

/* The text of a failure is cut and cleaned so that it fits one line. */
static void test_failures_fit_a_line(void **state)
{
    struct vp_message message = { .kind = VP_MESSAGE_WORD }, back;
    char text[VP_MESSAGE_BYTES];
    int n;

    (void)state;
    message.final.word = VP_WORD_FAILED;
    message.final.status = VP_ERR_IO;
    memset(message.final.line, 'x', sizeof(message.final.line) - 1);
    memcpy(message.final.line, "a\n\tb", 4);
    n = vp_message_print(&message, text);
    assert_int_equal(text[n - 1], '\n');
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
    text[n - 1] = '\0';
    assert_true(vp_message_parse(text, &back));
    assert_memory_equal(back.final.line, "a  bxxx", 7);
    assert_int_equal(strlen(back.final.line), sizeof(back.final.line) - 1);
}

static void test_a_blackbox_shows_the_action(void **state)
{
    struct vp_blackbox blackbox = { 0 };
    struct vp_action action = { .kind = VP_ACTION_RECV_GRAD,
                                .stage = 63,
                                .peer = 4093 },
                     last;
    struct vp_beat beat = vp_beat_of(&blackbox, 5 * SECOND, 0);

    (void)state;
    assert_true(beat.idle);
    assert_int_equal(beat.n_actions, 0);
    vp_blackbox_begin(&blackbox, &action, INT32_MAX, true, 2 * SECOND);
    beat = vp_beat_of(&blackbox, 5 * SECOND, 0);
    assert_false(beat.idle);
    assert_true(beat.eval);
    assert_int_equal(beat.action.kind, VP_ACTION_RECV_GRAD);
    assert_int_equal(beat.action.stage, 63);
    assert_int_equal(beat.action.mb, INT32_MAX);
    assert_int_equal(beat.action.peer, 4093);
    assert_int_equal(beat.busy_ms, 3000);
    assert_int_equal(beat.wait_ms, 0);
    atomic_store(&blackbox.waits_ns, 4 * SECOND);
    assert_int_equal(vp_beat_of(&blackbox, 5 * SECOND, 0).wait_ms, 1001);
    /* The process was frozen until 4.5 s: both times count from there. */
    beat = vp_beat_of(&blackbox, 5 * SECOND, 9 * SECOND / 2);
    assert_int_equal(beat.busy_ms, 500);
    assert_int_equal(beat.wait_ms, 501);
    vp_blackbox_end(&blackbox);
    assert_true(vp_blackbox_last(&blackbox, 0, &last));
    assert_int_equal(last.kind, VP_ACTION_RECV_GRAD);
    assert_false(vp_blackbox_last(&blackbox, 1, &last));
    vp_blackbox_rest(&blackbox);
    beat = vp_beat_of(&blackbox, 5 * SECOND, 0);
    assert_true(beat.idle);
    assert_int_equal(beat.n_actions, 1);
}

/* A blackbox holds the last VP_BLACKBOX_LAST actions and no older ones. */
static void test_a_blackbox_keeps_the_last_actions(void **state)
{
    struct vp_action action = { .kind = VP_ACTION_F }, last;
    struct vp_blackbox blackbox = { 0 };

    (void)state;
    for (int mb = 0; mb < VP_BLACKBOX_LAST + 10; mb++) {
        vp_blackbox_begin(&blackbox, &action, mb, false, SECOND);
        vp_blackbox_end(&blackbox);
    }
    for (int i = 10; i < VP_BLACKBOX_LAST + 10; i++) {
        assert_true(vp_blackbox_last(&blackbox, i, &last));
        assert_int_equal(last.mb, i);
    }
    assert_false(vp_blackbox_last(&blackbox, 9, &last));
    assert_false(vp_blackbox_last(&blackbox, -1, &last));
    assert_false(vp_blackbox_last(&blackbox, VP_BLACKBOX_LAST + 10, &last));
}

static void test_addresses(void **state)
{
    static const char *const good[] = {
        "10.0.0.1:4711:abc",
        "10.0.0.1,192.168.7.9:1:0123456789abcdef0123456789abcdef",
        "/run/user/7/vpipe-7-aBcDeF/socket:0123456789abcdef",
    };
    static const char *const bad[] = {
        "",
        ":1:a",
        "a:1",
        "a:0:t",
        "a:65536:t",
        "a::t",
        "a:1:",
        "a,:1:t",
        ",a:1:t",
        "a:1:t t",
        "1,2,3,4,5,6,7,8,9:1:t",
        "/tmp/socket",
        "/tmp/socket:",
        "/tmp/socket:1:t",
        "/tmp/socket:t t",
        "/tmp/" NONCE NONCE NONCE "/socket:t",
    };
    struct vp_address address;
    char text[512];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(good); i++) {
        assert_true(vp_address_parse(good[i], &address));
        vp_address_print(&address, text, sizeof(text));
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++)
        if (vp_address_parse(bad[i], &address))
            fail_msg("'%s' was taken", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_survive),
        cmocka_unit_test(test_bad_lines_are_refused),
        cmocka_unit_test(test_failures_fit_a_line),
        cmocka_unit_test(test_a_blackbox_shows_the_action),
        cmocka_unit_test(test_a_blackbox_keeps_the_last_actions),
        cmocka_unit_test(test_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
