/* Messages between ranks and supervisor, and what the supervisor concludes:
 * literal tables, a made-up clock, no sockets. */
#include "base/blocking.h"
#include "base/clock.h"
#include "job/address.h"
#include "job/diagnosis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)
#define NONCE "0123456789abcdef0123456789abcdef"
#define PROOF NONCE NONCE

/* ---- Messages ----------------------------------------------------------- */

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

/* A failure's text may hold anything, and be too long. */
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
    /* Frozen until 4.5 s: both start anew. */
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

/* The last ones are there, and no others. */
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

/* ---- Diagnoses ---------------------------------------------------------- */

/* Something that happens to a rank: a line that it sends, or LOST. */
#define LOST "lost"
#define CUT_OFF "cut off" /* its host takes nothing */
#define FROZEN "frozen"   /* the supervisor was, until now */
#define READY "ready"     /* it is silent, and waits for a core */

struct event {
    double at;
    int rank;
    const char *line;
};

enum { MOST_EVENTS = 32 };

struct scenario {
    const char *name;
    int n_ranks;
    const char *hosts; /* a letter for each rank; '-': it never came */
    bool by_hand;
    struct event events[MOST_EVENTS];
    double judged;
    enum vp_outcome outcome;
    enum vp_cause cause;
    int rank;
    const char *host;
    int signal;
    const char *says; /* the first line */
};

#define RUNS "beat train 0 40 F 1 9 2 0 20 0"
#define WAITS_FOR(peer, ms) \
    "beat train 0 40 RECV_ACT 1 9 " #peer " 0 " ms " " ms

/* The watchdog waits 10 s; silence is noticed after 5. */
static const struct scenario scenarios[] = {
    { .name = "nothing yet",
      .n_ranks = 2,
      .hosts = "aa",
      .judged = 5,
      .outcome = VP_OUTCOME_NONE },
    { .name = "all is well",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 9, 0, RUNS }, { 9.5, 1, WAITS_FOR(0, "9000") } },
      .judged = 10,
      .outcome = VP_OUTCOME_NONE },
    { .name = "done",
      .n_ranks = 2,
      .hosts = "ab",
      .events = { { 9, 0, "word done" },
                  { 9, 0, LOST },
                  { 9, 1, "word done" } },
      .judged = 60,
      .outcome = VP_OUTCOME_DONE },
    { .name = "one of two is done",
      .n_ranks = 2,
      .hosts = "ab",
      .events = { { 9, 0, "word done" }, { 20, 1, RUNS } },
      .judged = 21,
      .outcome = VP_OUTCOME_NONE },
    { .name = "one of two is done, and killed before the other is",
      .n_ranks = 2,
      .hosts = "ab",
      .events = { { 9, 0, "word done" },
                  { 9.5, 0, LOST },
                  { 9.6, 1, RUNS },
                  { 9.7, 1, LOST } },
      .judged = 10,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_DEAD,
      .rank = 0 },
    { .name = "killed before it was done; who was, is ended after it",
      .n_ranks = 3,
      .hosts = "abb",
      .events = { { 9, 2, "word done" },
                  { 9.1, 1, "word done" },
                  { 9.2, 0, LOST },
                  { 9.3, 1, LOST },
                  { 9.3, 2, LOST } },
      .judged = 10,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_DEAD,
      .rank = 0 },
    { .name = "interrupted",
      .n_ranks = 2,
      .hosts = "ab",
      .events = { { 9, 0, "word interrupted" }, { 9, 1, "word done" } },
      .judged = 10,
      .outcome = VP_OUTCOME_INTERRUPTED },
    { .name = "dead",
      .n_ranks = 4,
      .hosts = "aabb",
      .events = { { 1, 2, "beat train 0 99 B 2 17 1 0 300 0" },
                  { 1, 0, RUNS },
                  { 1, 1, RUNS },
                  { 1, 3, RUNS },
                  { 1.1, 2, LOST } },
      .judged = 1.5,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_DEAD,
      .rank = 2,
      .signal = 9,
      .says = "rank 2 on host b is dead: ended by signal 9 (Killed); last "
              "seen in 2B17, stage 2, minibatch 17" },
    { .name = "dead, but perhaps not alone",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, LOST } },
      .judged = 1.2,
      .outcome = VP_OUTCOME_NONE },
    { .name = "the lead is dead, the others are ended",
      .n_ranks = 3,
      .hosts = "aaa",
      .events = { { 1, 0, LOST }, { 1, 1, LOST }, { 1.1, 2, LOST } },
      .judged = 2,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_DEAD,
      .rank = 0,
      .says = "rank 0 on host a is dead: it ended without a word; last seen "
              "in starting" },
    { .name = "seen at once: who was not asked to end died first",
      .n_ranks = 3,
      .hosts = "aaa",
      .events = { { 1, 0, "beat train 1 40 F 0 9 1 0 20 0" },
                  { 1, 1, "beat train 1 40 F 1 9 2 0 20 0" },
                  { 1, 2, RUNS },
                  { 1, 0, LOST },
                  { 1, 1, LOST },
                  { 1, 2, LOST } },
      .judged = 2,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_DEAD,
      .rank = 2 },
    { .name = "a failure ends the others",
      .n_ranks = 3,
      .hosts = "abc",
      .events = { { 1, 1, "word failed 4 non-finite loss, minibatch 7" },
                  { 1, 0, LOST },
                  { 1, 1, LOST },
                  { 1, 2, LOST } },
      .judged = 2,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_FAILED,
      .rank = 1,
      .says = "rank 1 on host b failed: non-finite loss, minibatch 7" },
    { .name = "a death makes others fail",
      .n_ranks = 3,
      .hosts = "abc",
      .events = { { 1, 2, LOST },
                  { 1.1, 1, "word failed 2 connection lost" },
                  { 1.1, 0, "word failed 6 another rank failed" } },
      .judged = 2,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_DEAD,
      .rank = 2 },
    { .name = "who was told to end is not to blame",
      .n_ranks = 3,
      .hosts = "abc",
      .events = { { 1, 0, "word failed 6 another rank failed" },
                  { 1.1, 1, "word failed 3 out of memory" } },
      .judged = 2,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_FAILED,
      .rank = 1,
      .says = "rank 1 on host b failed: out of memory" },
    { .name = "stopped",
      .n_ranks = 3,
      .hosts = "aab",
      .events = { { 1, 0, RUNS },
                  { 1, 1, "beat train 0 40 F 1 9 2 0 20 0" },
                  { 1, 2, RUNS },
                  { 6, 0, RUNS },
                  { 6, 2, WAITS_FOR(1, "4900") } },
      .judged = 6.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STOPPED,
      .rank = 1,
      .says = "rank 1 on host a is stopped: no sign of life for 5.1 s, but "
              "its host answers; last seen in 1F9, stage 1, minibatch 9" },
    { .name = "a short silence is none",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, RUNS }, { 1, 1, RUNS }, { 5.8, 0, RUNS } },
      .judged = 5.9,
      .outcome = VP_OUTCOME_NONE },
    { .name = "the supervisor was frozen with them, and goes on first",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, RUNS }, { 1.9, 1, RUNS }, { 5.9, 0, FROZEN } },
      .judged = 10.8,
      .outcome = VP_OUTCOME_NONE },
    { .name = "one of them is not continued",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, RUNS },
                  { 1.9, 1, RUNS },
                  { 5.9, 0, FROZEN },
                  { 10.8, 0, RUNS } },
      .judged = 10.9,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STOPPED,
      .rank = 1 },
    { .name = "all ranks are stopped, not their supervisor",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, RUNS }, { 1.9, 1, RUNS } },
      .judged = 6.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STOPPED,
      .rank = 0 },
    { .name = "the user stopped all ranks",
      .n_ranks = 2,
      .hosts = "aa",
      .by_hand = true,
      .events = { { 1, 0, RUNS }, { 1.9, 1, RUNS } },
      .judged = 1000,
      .outcome = VP_OUTCOME_NONE },
    { .name = "the user stopped all ranks, and continues one after the other",
      .n_ranks = 2,
      .hosts = "aa",
      .by_hand = true,
      .events = { { 1, 0, RUNS }, { 1.9, 1, RUNS }, { 1000, 0, RUNS } },
      .judged = 1004.9,
      .outcome = VP_OUTCOME_NONE },
    { .name = "the user stopped one rank",
      .n_ranks = 2,
      .hosts = "aa",
      .by_hand = true,
      .events = { { 1, 0, RUNS },
                  { 1, 1, RUNS },
                  { 1.9, 1, RUNS },
                  { 2.8, 1, RUNS },
                  { 3.7, 1, RUNS },
                  { 4.6, 1, RUNS },
                  { 5.5, 1, RUNS } },
      .judged = 6.6,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STOPPED,
      .rank = 0 },
    { .name = "a host with one rank is cut off",
      .n_ranks = 2,
      .hosts = "ab",
      .events = { { 1, 0, RUNS },
                  { 1, 1, RUNS },
                  { 6, 0, RUNS },
                  { 6, 1, CUT_OFF } },
      .judged = 6.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_CUT_OFF,
      .rank = 1,
      .host = "b",
      .says = "host b is cut off: nothing comes from it and nothing reaches "
              "it; rank 1 on host b is cut off: no sign of life for 5.1 s; "
              "last seen in 1F9, stage 1, minibatch 9" },
    { .name = "a host with two ranks is cut off",
      .n_ranks = 4,
      .hosts = "abba",
      .events = { { 1, 0, RUNS },
                  { 1, 1, RUNS },
                  { 1.2, 2, RUNS },
                  { 1, 3, RUNS },
                  { 6.2, 0, RUNS },
                  { 6.2, 3, RUNS },
                  { 6.2, 1, CUT_OFF },
                  { 6.2, 2, CUT_OFF } },
      .judged = 6.3,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_CUT_OFF,
      .rank = 1,
      .host = "b",
      .says = "host b is cut off: all its 2 ranks are silent; rank 1 on host "
              "b is cut off: no sign of life for 5.3 s; last seen in 1F9, "
              "stage 1, minibatch 9" },
    { .name = "their last beats come apart",
      .n_ranks = 3,
      .hosts = "abb",
      .events = { { 1, 1, RUNS },
                  { 1.9, 2, RUNS },
                  { 6, 0, RUNS },
                  { 6, 1, CUT_OFF },
                  { 6, 2, CUT_OFF } },
      .judged = 6.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_CUT_OFF,
      .rank = 1,
      .host = "b" },
    { .name = "one of them is not cut off",
      .n_ranks = 3,
      .hosts = "abb",
      .events = { { 1, 1, RUNS },
                  { 1.9, 2, RUNS },
                  { 6, 0, RUNS },
                  { 6, 1, CUT_OFF } },
      .judged = 6.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_CUT_OFF,
      .rank = 1 },
    { .name = "a host that crashed",
      .n_ranks = 4,
      .hosts = "aabb",
      .events = { { 1, 0, RUNS },
                  { 1, 1, RUNS },
                  { 1, 2, LOST },
                  { 1.1, 3, LOST } },
      .judged = 1.4,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_DEAD,
      .rank = 2,
      .host = "b" },
    { .name = "one of two ranks of a host",
      .n_ranks = 4,
      .hosts = "aabb",
      .events = { { 1, 0, RUNS },
                  { 1, 1, RUNS },
                  { 1, 2, LOST },
                  { 1, 3, RUNS } },
      .judged = 1.4,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_DEAD,
      .rank = 2 },
    { .name = "stuck",
      .n_ranks = 3,
      .hosts = "aaa",
      .events = { { 11, 0, WAITS_FOR(1, "10100") },
                  { 11, 1, WAITS_FOR(2, "10050") },
                  { 11, 2, "beat train 0 40 F 2 9 -1 0 10020 0" } },
      .judged = 11.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 2,
      .says = "rank 0 waited 10.0 s; rank 2 on host a is stuck for 10.0 s; "
              "last seen in 2F9, stage 2, minibatch 9" },
    { .name = "slow",
      .n_ranks = 3,
      .hosts = "aaa",
      .events = { { 11, 0, WAITS_FOR(1, "10100") },
                  { 11, 1, WAITS_FOR(2, "10050") },
                  { 11, 2, "beat train 0 40 F 2 9 -1 0 3000 0" } },
      .judged = 11.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_SLOW,
      .rank = 2,
      .says = "rank 0 waited 10.0 s; rank 2 on host a is slow: 3.0 s so far; "
              "last seen in 2F9, stage 2, minibatch 9" },
    { .name = "waits are followed",
      .n_ranks = 4,
      .hosts = "aaaa",
      .events = { { 11, 0, "beat train 0 40 F 0 9 1 0 9000 0" },
                  { 11, 1, "beat train 0 40 F 1 9 2 0 9000 0" },
                  { 11, 3, WAITS_FOR(1, "10050") },
                  { 11, 2, WAITS_FOR(0, "8000") } },
      .judged = 11.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 1 },
    { .name = "who waits for all waits for who computes",
      .n_ranks = 3,
      .hosts = "aaa",
      .events = { { 11, 0, "beat train 0 40 UPDATE 0 1 -1 0 10500 10400" },
                  { 11, 1, "beat train 0 40 UPDATE 1 1 -1 0 10500 9400" },
                  { 11, 2, "beat train 0 40 B 2 31 1 0 8500 0" } },
      .judged = 11.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 2 },
    { .name = "a rank's own complaint",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 11, 0, WAITS_FOR(1, "9950") },
                  { 11, 1, "beat train 0 40 B 1 31 0 0 9990 0" },
                  { 11, 0, "word failed 5 rank 0 waited 10.0 s" } },
      .judged = 11.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 1 },
    { .name = "one does not start, and the others do not wait for ever",
      .n_ranks = 3,
      .hosts = "aaa",
      .events = { { 11, 0, "beat start 0 0" },
                  { 11, 1, "beat start 0 0" },
                  { 11, 2, "beat start 0 0" },
                  { 11, 0, "word failed 5 the others did not start" },
                  { 11, 2, "word failed 5 the others did not start" } },
      .judged = 11.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 1 },
    { .name = "dead, while another has not come yet",
      .n_ranks = 4,
      .hosts = "aa-a",
      .events = { { 1, 0, "beat start 0 0" },
                  { 1, 3, "beat start 0 0" },
                  { 1.1, 3, LOST },
                  { 1.2, 0, "beat start 1 0" } },
      .judged = 1.5,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_DEAD,
      .rank = 3 },
    { .name = "all that came are dead, but the host is not lost",
      .n_ranks = 3,
      .hosts = "aa-",
      .events = { { 1, 0, LOST }, { 1, 1, LOST } },
      .judged = 1.5,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_DEAD,
      .rank = 0 },
    { .name = "dead before it came, the others are ended",
      .n_ranks = 4,
      .hosts = "aa-a",
      .events = { { 1, 0, "beat start 1 0" },
                  { 1, 1, "beat start 1 0" },
                  { 1.1, 3, "beat start 1 0" },
                  { 2, 0, LOST },
                  { 2, 1, LOST },
                  { 2, 3, LOST } },
      .judged = 2.4,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_ABSENT,
      .rank = 2,
      .says = "rank 2 never came; see what its host says about starting it" },
    { .name = "all wait",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 11, 0, WAITS_FOR(1, "10050") },
                  { 11, 1, WAITS_FOR(0, "10000") } },
      .judged = 11.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_CIRCLE,
      .rank = 1 },
    { .name = "computes for ever, and nobody waits",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, "beat train 0 40 F 0 1 1 0 10 0" },
                  { 1, 1, "beat train 0 40 F 1 1 -1 0 10 0" },
                  { 13, 0, "beat train 0 40 F 0 1 1 0 12010 0" },
                  { 13, 1, "beat train 0 40 F 1 1 -1 0 12010 0" } },
      .judged = 13.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 0 },
    { .name = "nothing happened before the supervisor was frozen",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, "beat train 0 40 F 0 1 1 0 10 0" },
                  { 1, 1, "beat train 0 40 F 1 1 -1 0 10 0" },
                  { 12.9, 0, FROZEN },
                  { 24.8, 0, "beat train 0 40 F 0 1 1 0 4010 0" },
                  { 24.8, 1, "beat train 0 40 F 1 1 -1 0 4010 0" } },
      .judged = 24.8,
      .outcome = VP_OUTCOME_NONE },
    { .name = "what starting took does not count",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 19, 0, "beat start 0 0" },
                  { 19, 1, "beat start 0 0" },
                  { 20, 0, "beat train 0 0 F 0 0 1 0 100 0" },
                  { 20, 1, "beat train 0 0 RECV_ACT 1 0 0 0 100 100" } },
      .judged = 20.1,
      .outcome = VP_OUTCOME_NONE },
    { .name = "a rank hangs before the first step",
      .n_ranks = 3,
      .hosts = "aab",
      .events = { { 1, 0, "vitals 3 10 0 0 100" },
                  { 1, 0, "beat data 0 0" },
                  { 1, 1, "vitals 2 10 0 100 0" },
                  { 1, 1, "beat data 0 0" },
                  { 1, 2, "vitals 0 10 0 0 100" },
                  { 1, 2, "beat data 0 0" },
                  { 61, 0, "vitals 3 9000 0 0 60100" },
                  { 61, 0, "beat data 0 0" },
                  { 61, 1, "vitals 2 900 0 60100 0 opening /d/x.hdf5" },
                  { 61, 1, "beat data 0 0" },
                  { 61, 2, "vitals 0 9000 0 0 60100" },
                  { 61, 2, "beat data 0 0" } },
      .judged = 61.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 1,
      .says = "rank 1 on host a is stuck: opening /d/x.hdf5 for 60.1 s; last "
              "seen in reading data" },
    { .name = "it is not known where",
      .n_ranks = 1,
      .hosts = "a",
      .events = { { 1, 0, "vitals 3 10 0 0 0 /d" },
                  { 1, 0, "beat folder 0 0" },
                  { 61, 0, "vitals 3 900 0 0 0 /d" },
                  { 61, 0, "beat folder 0 0" } },
      .judged = 61.5,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 0,
      .says = "rank 0 on host a is stuck for 60.5 s; last seen in making the "
              "run folder, /d" },
    { .name = "not for long enough",
      .n_ranks = 1,
      .hosts = "a",
      .events = { { 1, 0, "vitals 3 10 0 0 0" },
                  { 1, 0, "beat folder 0 0" },
                  { 60, 0, "vitals 3 900 0 58000 0" },
                  { 60, 0, "beat folder 0 0" } },
      .judged = 60.9,
      .outcome = VP_OUTCOME_NONE },
    { .name = "a start that reads makes progress",
      .n_ranks = 1,
      .hosts = "a",
      .events = { { 1, 0, "vitals 3 10 0 0 0" },
                  { 1, 0, "beat data 0 0" },
                  { 30, 0, "vitals 4 10 0 0 0" },
                  { 30, 0, "beat data 0 0" },
                  { 89, 0, "vitals 4 10 0 58000 0" },
                  { 89, 0, "beat data 0 0" } },
      .judged = 89.5,
      .outcome = VP_OUTCOME_NONE },
    { .name = "one that computes does, too",
      .n_ranks = 1,
      .hosts = "a",
      .events = { { 1, 0, "vitals 3 10 0 0 0" },
                  { 1, 0, "beat plan 0 0" },
                  { 30, 0, "vitals 3 1010 0 0 0" },
                  { 30, 0, "beat plan 0 0" },
                  { 89, 0, "vitals 3 1020 0 0 0" },
                  { 89, 0, "beat plan 0 0" } },
      .judged = 89.5,
      .outcome = VP_OUTCOME_NONE },
    { .name = "a start was frozen",
      .n_ranks = 1,
      .hosts = "a",
      .events = { { 1, 0, "vitals 3 10 0 0 0" },
                  { 1, 0, "beat data 0 0" },
                  { 50, 0, FROZEN },
                  { 100, 0, "vitals 3 10 0 9000 0" },
                  { 100, 0, "beat data 0 0" } },
      .judged = 100.5,
      .outcome = VP_OUTCOME_NONE },
    { .name = "all wait for each other before the first step",
      .n_ranks = 2,
      .hosts = "ab",
      .events = { { 61, 0, "vitals 0 60000 0 0 60100" },
                  { 61, 0, "beat join 0 0" },
                  { 61, 1, "vitals 0 60000 0 0 60000" },
                  { 61, 1, "beat join 0 0" } },
      .judged = 61,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_CIRCLE,
      .rank = 0,
      .says = "rank 0 on host a waits, and so does every other rank: a message "
              "was lost; last seen in joining the other ranks, waits for other "
              "ranks for 60.1 s" },
    { .name = "one waits a little less",
      .n_ranks = 2,
      .hosts = "ab",
      .events = { { 61, 0, "vitals 0 60000 0 0 60100" },
                  { 61, 0, "beat join 0 0" },
                  { 61, 1, "vitals 0 60000 0 0 59000" },
                  { 61, 1, "beat join 0 0" } },
      .judged = 61,
      .outcome = VP_OUTCOME_NONE },
    { .name = "a rank is done, and the wait for it was reported before",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 71, 0, "vitals 9 10 0 0 70000" },
                  { 71, 0, "beat resume 0 0" },
                  { 71.1, 1, "beat save 0 180" },
                  { 71.1, 1, "word done" } },
      .judged = 71.2,
      .outcome = VP_OUTCOME_NONE },
    { .name = "that report came late",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 71.1, 1, "beat save 0 180" },
                  { 71.1, 1, "word done" },
                  { 72.9, 0, "vitals 9 10 0 0 70000" },
                  { 72.9, 0, "beat resume 0 0" } },
      .judged = 73,
      .outcome = VP_OUTCOME_NONE },
    { .name = "a rank is done, and another one still waits",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 71.1, 1, "beat save 0 180" },
                  { 71.1, 1, "word done" },
                  { 73.1, 0, "vitals 9 10 0 0 72100" },
                  { 73.1, 0, "beat resume 0 0" } },
      .judged = 73.2,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_CIRCLE,
      .rank = 0 },
    { .name = "a checkpoint cannot be written",
      .n_ranks = 3,
      .hosts = "aaa",
      .events = { { 11, 0, "beat train 0 40 UPDATE 0 9 -1 0 10100 10100" },
                  { 11, 1, "vitals 9 10 0 9900 0 writing /r/step-9.tmp/b" },
                  { 11, 1, "beat train 0 40 UPDATE 1 9 -1 0 10050 10050" },
                  { 11, 2, "vitals 9 10 0 8100 0 writing /r/step-9.tmp/c" },
                  { 11, 2, WAITS_FOR(1, "9050") } },
      .judged = 11.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 1,
      .says = "rank 0 waited 10.0 s; rank 1 on host a is stuck: writing "
              "/r/step-9.tmp/b for 9.9 s; last seen in 1UPDATE9, stage 1, "
              "minibatch 9" },
    { .name = "a checkpoint takes long to write",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 9, 0, "vitals 8 10 0 0 0" },
                  { 9, 1, "vitals 8 10 0 0 0" },
                  { 11, 0, "beat train 0 40 UPDATE 0 9 -1 0 10100 10100" },
                  { 11, 1, "vitals 9 10 0 70 0 /r" },
                  { 11, 1, "beat train 0 40 UPDATE 1 9 -1 0 10050 10050" } },
      .judged = 11.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_SLOW,
      .rank = 1,
      .says = "rank 0 waited 10.0 s; rank 1 on host a is slow: it still reads "
              "or writes files (/r); last seen in 1UPDATE9, stage 1, minibatch "
              "9" },
    { .name = "it was written long ago",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, "vitals 8 10 0 0 0" },
                  { 1, 1, "vitals 8 10 0 0 0" },
                  { 11, 0, "beat train 0 40 UPDATE 0 9 -1 0 10100 10100" },
                  { 11, 1, "vitals 8 10 0 70 0" },
                  { 11, 1, "beat train 0 40 UPDATE 1 9 -1 0 10050 10050" } },
      .judged = 11.1,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_CIRCLE,
      .rank = 0 },
    { .name = "a rank that computes gets no core",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 1, "vitals 8 5000 700 0 0" },
                  { 1, 1, "beat train 0 40 F 1 9 -1 0 10 0" },
                  { 11, 0, WAITS_FOR(1, "10000") },
                  { 11, 1, "vitals 8 5100 9700 0 0" },
                  { 11, 1, "beat train 0 40 F 1 9 -1 0 9900 0" } },
      .judged = 11,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STARVED,
      .rank = 1,
      .says =
          "rank 0 waited 10.0 s; rank 1 on host a is starved: in 10.0 s its "
          "threads ran for 0.1 s and waited 9.0 s for a core; see what "
          "else its host runs; last seen in 1F9, stage 1, minibatch 9" },
    { .name = "it gets some",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 1, "vitals 8 5000 700 0 0" },
                  { 1, 1, "beat train 0 40 F 1 9 -1 0 10 0" },
                  { 11, 0, WAITS_FOR(1, "10000") },
                  { 11, 1, "vitals 8 9000 6700 0 0" },
                  { 11, 1, "beat train 0 40 F 1 9 -1 0 9900 0" } },
      .judged = 11,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 1 },
    { .name = "a rank that waits gets no core to send with",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 1, "vitals 8 5000 700 0 0" },
                  { 1, 1, WAITS_FOR(0, "10") },
                  { 11, 0, WAITS_FOR(1, "10000") },
                  { 11, 1, "vitals 8 5100 9700 0 0" },
                  { 11, 1, WAITS_FOR(0, "9900") } },
      .judged = 11,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STARVED,
      .rank = 1 },
    { .name = "a silent rank waits for a core",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, RUNS },
                  { 1, 1, RUNS },
                  { 11, 0, RUNS },
                  { 11, 1, READY } },
      .judged = 11,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STARVED,
      .rank = 1,
      .says =
          "rank 1 on host a is starved: no sign of life for 10.0 s, and its "
          "threads wait for a core; see what else its host runs; last seen "
          "in 1F9, stage 1, minibatch 9" },
    { .name = "it may be silent for longer than one that is stopped",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, RUNS },
                  { 1, 1, RUNS },
                  { 10, 0, RUNS },
                  { 10, 1, READY } },
      .judged = 10.9,
      .outcome = VP_OUTCOME_NONE },
    { .name = "the last checkpoint is not written",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, "vitals 9 10 0 0 100" },
                  { 1, 0, "beat save 0 40" },
                  { 1, 1, "vitals 9 10 0 100 0 syncing /r/step-9.tmp/b" },
                  { 1, 1, "beat train 0 40" },
                  { 301, 0, "vitals 9 10 0 0 299900" },
                  { 301, 0, "beat save 0 40" },
                  { 301, 1, "vitals 9 10 0 300000 0 syncing /r/step-9.tmp/b" },
                  { 301, 1, "beat train 0 40" } },
      .judged = 301,
      .outcome = VP_OUTCOME_FAILED,
      .cause = VP_CAUSE_STUCK,
      .rank = 1,
      .says = "rank 1 on host a is stuck: syncing /r/step-9.tmp/b for 300.0 s; "
              "last seen in between two actions" },
    { .name = "it takes four minutes",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, "vitals 9 10 0 0 100" },
                  { 1, 0, "beat save 0 40" },
                  { 1, 1, "vitals 9 10 0 100 0 syncing /r/step-9.tmp/b" },
                  { 1, 1, "beat save 0 40" },
                  { 241, 0, "vitals 9 10 0 0 240000" },
                  { 241, 0, "beat save 0 40" },
                  { 241, 1, "vitals 9 10 0 240000 0 syncing /r/step-9.tmp/b" },
                  { 241, 1, "beat save 0 40" } },
      .judged = 241,
      .outcome = VP_OUTCOME_NONE },
    { .name = "saving takes its time",
      .n_ranks = 2,
      .hosts = "aa",
      .events = { { 1, 0, "beat save 0 40" },
                  { 1, 1, "beat save 0 40" },
                  { 33, 0, "beat save 0 40" },
                  { 33, 1, "beat save 0 40" } },
      .judged = 33.1,
      .outcome = VP_OUTCOME_NONE },
};

static void happen(struct vp_roster *roster, const struct event *event)
{
    int64_t now = (int64_t)(event->at * 1e9);
    struct vp_message message;

    if (strcmp(event->line, LOST) == 0) {
        vp_roster_lose(roster, event->rank, now);
    } else if (strcmp(event->line, READY) == 0) {
        roster->ranks[event->rank].is_ready = true;
    } else if (strcmp(event->line, FROZEN) == 0) {
        vp_roster_restart(roster, now);
    } else if (strcmp(event->line, CUT_OFF) == 0) {
        roster->ranks[event->rank].cut_off = true;
    } else {
        assert_true(vp_message_parse(event->line, &message));
        vp_roster_hear(roster, event->rank, &message, now);
    }
}

static void arrive(struct vp_roster *roster, const struct scenario *scenario)
{
    for (int r = 0; r < scenario->n_ranks; r++) {
        struct vp_message message = { .kind = VP_MESSAGE_HELLO };

        if (scenario->hosts[r] == '-')
            continue;
        message.hello = (struct vp_hello){ .rank = r,
                                           .pid = 100 + r,
                                           .host = { scenario->hosts[r] } };
        vp_roster_hear(roster, r, &message, SECOND / 10);
    }
}

static void check_scenario(const struct scenario *scenario)
{
    int64_t now = (int64_t)(scenario->judged * 1e9);
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_err err;

    assert_int_equal(vp_roster_init(&roster, scenario->n_ranks, 10, 0), VP_OK);
    roster.by_hand = scenario->by_hand;
    if (scenario->events[0].line)
        arrive(&roster, scenario);
    for (int i = 0; i < MOST_EVENTS && scenario->events[i].line; i++)
        happen(&roster, &scenario->events[i]);
    if (vp_roster_judge(&roster, now, &diagnosis) != scenario->outcome ||
        diagnosis.cause != scenario->cause)
        fail_msg("%s: cause %d", scenario->name, diagnosis.cause);
    if (scenario->outcome == VP_OUTCOME_FAILED) {
        if (diagnosis.rank != scenario->rank ||
            !diagnosis.host != !scenario->host)
            fail_msg("%s: rank %d, host %s", scenario->name, diagnosis.rank,
                     diagnosis.host ? diagnosis.host : "-");
        if (scenario->host)
            assert_string_equal(diagnosis.host, scenario->host);
        assert_int_equal(vp_diagnosis_allows_restart(&diagnosis),
                         scenario->cause != VP_CAUSE_FAILED);
        diagnosis.signal = scenario->signal;
        vp_diagnosis_print(&roster, &diagnosis, now, &err);
        if (scenario->says) {
            err.text[strcspn(err.text, "\n")] = '\0';
            assert_string_equal(err.text, scenario->says);
        }
    }
    vp_roster_release(&roster);
}

static void test_diagnoses(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(scenarios); i++)
        check_scenario(&scenarios[i]);
}

static void test_who_never_came_is_named(void **state)
{
    struct vp_message hello = { .kind = VP_MESSAGE_HELLO };
    struct vp_message beat = { .kind = VP_MESSAGE_BEAT };
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 2, 10, 0), VP_OK);
    hello.hello = (struct vp_hello){ .rank = 0, .pid = 7, .host = "a" };
    vp_roster_hear(&roster, 0, &hello, SECOND);
    beat.beat.idle = true;
    for (int t = 2; t <= 60; t++)
        vp_roster_hear(&roster, 0, &beat, t * SECOND);
    assert_int_equal(vp_roster_judge(&roster, 59 * SECOND, &diagnosis),
                     VP_OUTCOME_NONE);
    assert_int_equal(vp_roster_judge(&roster, 60 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    assert_int_equal(diagnosis.cause, VP_CAUSE_ABSENT);
    assert_int_equal(diagnosis.rank, 1);
    vp_diagnosis_print(&roster, &diagnosis, 60 * SECOND, &err);
    assert_string_equal(err.text,
                        "rank 1 never came; see what its host says about "
                        "starting it\n"
                        "  rank 1: not there yet\n"
                        "  rank 0 (a, pid 7): starting; 0 actions done");
    vp_roster_release(&roster);
}

/* A start that lasts as long as another start does not count twice. */
static void test_a_frozen_start_starts_anew(void **state)
{
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 2, 10, 0), VP_OK);
    vp_roster_restart(&roster, 59 * SECOND);
    assert_int_equal(vp_roster_judge(&roster, 118 * SECOND, &diagnosis),
                     VP_OUTCOME_NONE);
    assert_int_equal(vp_roster_judge(&roster, 119 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    assert_int_equal(diagnosis.cause, VP_CAUSE_ABSENT);
    /* Unless mpirun has ended. */
    roster.start_ns = VP_ROSTER_ENDED;
    vp_roster_restart(&roster, 119 * SECOND);
    assert_int_equal(vp_roster_judge(&roster, 120 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    vp_roster_release(&roster);
}

/* At least a minute, five at the end; more if the user says so. */
static void test_phases_have_limits(void **state)
{
    (void)state;
    unsetenv(VP_JOB_PHASE_VARIABLE);
    for (int d = 0; d < VP_JOB_PHASE_COUNT; d++) {
        enum vp_job_phase phase = (enum vp_job_phase)d;
        int64_t least = phase == VP_JOB_PHASE_SAVE ? 300 * SECOND : 60 * SECOND;

        if (phase == VP_JOB_PHASE_TRAIN) {
            assert_int_equal(vp_job_phase_limit_ns(phase, SECOND), INT64_MAX);
            continue;
        }
        assert_int_equal(vp_job_phase_limit_ns(phase, SECOND), least);
        assert_int_equal(vp_job_phase_limit_ns(phase, 600 * SECOND),
                         600 * SECOND);
        setenv(VP_JOB_PHASE_VARIABLE, "3", 1);
        assert_int_equal(vp_job_phase_limit_ns(phase, SECOND), 3 * SECOND);
        setenv(VP_JOB_PHASE_VARIABLE, "x", 1);
        assert_int_equal(vp_job_phase_limit_ns(phase, SECOND), least);
        unsetenv(VP_JOB_PHASE_VARIABLE);
    }
}

/* What this process says of itself. */
/* A rank that has waited for another one begins anew when the wait ends. */
static void test_waiting_is_no_standstill(void **state)
{
    struct vp_vitals vitals = { .n_calls = 5, .ran_ms = 100 };
    struct vp_pace pace = { .phase = VP_JOB_PHASE_COUNT };

    (void)state;
    vp_pace_note(&pace, VP_JOB_PHASE_RESUME, &vitals, SECOND);
    vp_pace_note(&pace, VP_JOB_PHASE_RESUME, &vitals, 3 * SECOND);
    assert_int_equal(pace.moved_ns, SECOND);
    vitals.wait_ms = 9000;
    vp_pace_note(&pace, VP_JOB_PHASE_RESUME, &vitals, 12 * SECOND);
    vitals.wait_ms = 0;
    vp_pace_note(&pace, VP_JOB_PHASE_RESUME, &vitals, 13 * SECOND);
    assert_int_equal(pace.moved_ns, 12 * SECOND);
}

static void test_vitals(void **state)
{
    int64_t now = vp_clock_ns();
    struct vp_vitals vitals;
    int file, peers;

    (void)state;
    vp_job_phase_set(VP_JOB_PHASE_DATA, "/data");
    vitals = vp_vitals_read(now, 0);
    assert_string_equal(vitals.text, "/data");
    assert_int_equal(vitals.call_ms, 0);
    assert_int_equal(vitals.wait_ms, 0);
    assert_int_equal(vitals.n_calls, vp_blocking_count());
    file = vp_blocking_begin(VP_BLOCKING_FILE, "reading", "/data/x", -1);
    vitals = vp_vitals_read(vp_clock_ns(), 0);
    assert_true(vitals.call_ms >= 1);
    assert_string_equal(vitals.text, "/data"); /* too short for a word */
    now = vp_clock_ns() + 4 * SECOND;
    peers = vp_blocking_begin(VP_BLOCKING_PEERS, "waiting", NULL, -1);
    vitals = vp_vitals_read(now, 0);
    assert_true(vitals.call_ms >= 4000 && vitals.wait_ms >= 3000);
    assert_string_equal(vitals.text, "reading /data/x");
    /* Frozen until a second ago. */
    vitals = vp_vitals_read(now, now - SECOND);
    assert_int_equal(vitals.call_ms, 1001);
    assert_int_equal(vitals.wait_ms, 1001);
    vp_blocking_end(file);
    vp_blocking_end(peers);
    assert_int_equal(vp_job_phase_get(NULL), VP_JOB_PHASE_DATA);
    vp_job_phase_set(VP_JOB_PHASE_START, NULL);
    assert_string_equal(vp_vitals_read(now, 0).text, "");
}

/* A rank may say any number. */
static void test_huge_times(void **state)
{
    static const char *const lines[] = {
        "beat train 0 40 RECV_ACT 1 9 0 0 5 9223372036854775807",
        "beat train 0 40 F 1 9 0 0 9223372036854775807 0",
    };
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_message message;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 2, 10, 0), VP_OK);
    for (int r = 0; r < 2; r++) {
        message = (struct vp_message){ .kind = VP_MESSAGE_HELLO,
                                       .hello = { .host = "a" } };
        vp_roster_hear(&roster, r, &message, SECOND);
        assert_true(vp_message_parse(lines[r], &message));
        vp_roster_hear(&roster, r, &message, SECOND);
    }
    assert_int_equal(vp_roster_judge(&roster, SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    assert_int_equal(diagnosis.cause, VP_CAUSE_STUCK);
    assert_int_equal(diagnosis.rank, 1);
    vp_diagnosis_print(&roster, &diagnosis, SECOND, &err);
    assert_non_null(strstr(err.text, "rank 1 on host a is stuck"));
    vp_roster_release(&roster);
}

/* One screen, whoever is on it. */
static void test_the_screen(void **state)
{
    static const struct scenario dead = {
        .n_ranks = 3,
        .hosts = "aab",
        .events = { { 1, 0, "beat train 0 12 RECV_GRAD 0 3 1 0 250 250" },
                    { 1, 1, "beat train 0 11 B 1 3 0 0 40 0" },
                    { 1, 2, "beat train 0 13 UPDATE 2 0 -1 0 1200 100" },
                    { 1.1, 1, LOST } },
    };
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 3, 10, 0), VP_OK);
    arrive(&roster, &dead);
    for (int i = 0; i < 4; i++)
        happen(&roster, &dead.events[i]);
    assert_int_equal(vp_roster_judge(&roster, 2 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    vp_diagnosis_print(&roster, &diagnosis, 2 * SECOND, &err);
    assert_string_equal(
        err.text,
        "rank 1 on host a is dead: it ended without a word; last seen in 1B3, "
        "stage 1, minibatch 3\n"
        "  rank 1 (a, pid 101): 1B3, stage 1, minibatch 3 for 0.0 s, "
        "computes; 11 actions done; dead\n"
        "  rank 0 (a, pid 100): 0RECV_GRAD3, stage 0, minibatch 3 for 0.2 s, "
        "waits for rank 1; 12 actions done\n"
        "  rank 2 (b, pid 102): 2UPDATE0, stage 2, minibatch 0 for 1.2 s, "
        "waits for the others; 13 actions done");
    vp_roster_release(&roster);
}

/* A rank's own error is one line, whatever the others do. */
static void test_an_error_is_one_line(void **state)
{
    static const struct scenario failed = {
        .n_ranks = 2,
        .hosts = "ab",
        .events = { { 1, 0, RUNS },
                    { 1, 1, "word failed 2 disk full; free some space" } },
    };
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 2, 10, 0), VP_OK);
    arrive(&roster, &failed);
    for (int i = 0; i < 2; i++)
        happen(&roster, &failed.events[i]);
    assert_int_equal(vp_roster_judge(&roster, 2 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    vp_diagnosis_print(&roster, &diagnosis, 2 * SECOND, &err);
    assert_string_equal(err.text, "rank 1 on host b failed: disk full; free "
                                  "some space");
    vp_roster_release(&roster);
}

static void test_many_ranks_fit(void **state)
{
    struct vp_message hello = { .kind = VP_MESSAGE_HELLO };
    struct vp_message beat;
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 128, 10, 0), VP_OK);
    assert_true(vp_message_parse(RUNS, &beat));
    for (int r = 0; r < 128; r++) {
        hello.hello = (struct vp_hello){ .rank = r, .pid = 1 + r, .host = "n" };
        vp_roster_hear(&roster, r, &hello, SECOND);
        vp_roster_hear(&roster, r, &beat, SECOND);
    }
    vp_roster_lose(&roster, 100, SECOND);
    assert_int_equal(vp_roster_judge(&roster, 2 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    vp_diagnosis_print(&roster, &diagnosis, 2 * SECOND, &err);
    assert_non_null(strstr(err.text, "rank 100 on host n is dead"));
    assert_non_null(strstr(err.text, "\n  and 104 more"));
    vp_roster_release(&roster);
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
        cmocka_unit_test(test_diagnoses),
        cmocka_unit_test(test_who_never_came_is_named),
        cmocka_unit_test(test_a_frozen_start_starts_anew),
        cmocka_unit_test(test_phases_have_limits),
        cmocka_unit_test(test_waiting_is_no_standstill),
        cmocka_unit_test(test_vitals),
        cmocka_unit_test(test_huge_times),
        cmocka_unit_test(test_the_screen),
        cmocka_unit_test(test_an_error_is_one_line),
        cmocka_unit_test(test_many_ranks_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
