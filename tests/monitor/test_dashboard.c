/* A dashboard requires its token or cookie and the right host, listens at the
 * given address, and sends lines as events. tests/system/dashboard.sh tests the
 * server. */
#include "base/status.h"
#include "monitor/access.h"
#include "monitor/events.h"
#include "monitor/listen_place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdee"

static void test_token(void **state)
{
    (void)state;
    assert_true(vp_access_is_token(TOKEN, TOKEN, 64));
    assert_false(vp_access_is_token(TOKEN, OTHER, 64));
    assert_false(vp_access_is_token(TOKEN, TOKEN, 63));
    assert_false(vp_access_is_token(TOKEN, TOKEN "0", 65));
    assert_false(vp_access_is_token(TOKEN, "", 0));
    assert_false(vp_access_is_token(TOKEN, NULL, 64));
    assert_true(vp_access_has_bearer(TOKEN, "Bearer " TOKEN));
    assert_true(vp_access_has_bearer(TOKEN, "bearer " TOKEN));
    assert_false(vp_access_has_bearer(TOKEN, "Bearer " OTHER));
    assert_false(vp_access_has_bearer(TOKEN, "Bearer  " TOKEN));
    assert_false(vp_access_has_bearer(TOKEN, "Bearer " TOKEN " "));
    assert_false(vp_access_has_bearer(TOKEN, "Basic " TOKEN));
    assert_false(vp_access_has_bearer(TOKEN, TOKEN));
    assert_false(vp_access_has_bearer(TOKEN, NULL));
}

static void test_cookie(void **state)
{
    static const struct {
        const char *cookies;
        bool good;
    } cases[] = {
        { "v_1=" TOKEN, true },
        { "a=b; v_1=" TOKEN, true },
        { "a=b;v_1=" TOKEN "; c=d", true },
        { "v_1=" OTHER "; v_1=" TOKEN, true },
        { "v_1=" OTHER, false },
        { "v_11=" TOKEN, false },
        { "xv_1=" TOKEN, false },
        { "v_1 =" TOKEN, false },
        { "v_1=" TOKEN "0", false },
        { "v_1", false },
        { "v_1=", false },
        { ";;; ;", false },
        { "", false },
        { NULL, false },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        if (vp_access_has_cookie(TOKEN, "v_1", cases[i].cookies) !=
            cases[i].good)
            fail_msg("%s", cases[i].cookies);
}

static void test_host(void **state)
{
    static const char *const names[] = { "node-1.example", "node-1", NULL };
    static const char *const good[] = {
        "localhost",      "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8080",
        "[::1]:8080",     "[fe80::1]",    "10.1.2.3",  "node-1",
        "Node-1.Example", "node-1:1",
    };
    static const char *const bad[] = {
        "",
        ":80",
        "evil.example",
        "localhost.evil.example",
        "evil.localhost",
        "node-1.example.evil",
        "node-11",
        "localhost:",
        "localhost:x",
        "localhost:80:80",
        "localhost@evil",
        "127.0.0.1.evil",
        "[127.0.0.1]",
        "[localhost]",
        "[::1",
        "[::1]x",
        "::1",
        "[]",
        " localhost",
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(good); i++)
        if (!vp_access_is_host(good[i], names))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++)
        if (vp_access_is_host(bad[i], names))
            fail_msg("%s", bad[i]);
    assert_false(vp_access_is_host(NULL, names));
}

static void test_place(void **state)
{
    static const struct {
        const char *text, *host;
        int port;
    } good[] = {
        { "8080", "127.0.0.1", 8080 }, { "0", "127.0.0.1", 0 },
        { "node-1:80", "node-1", 80 }, { "[::1]:65535", "::1", 65535 },
        { "0.0.0.0:9", "0.0.0.0", 9 },
    };
    static const char *const bad[] = {
        "",     "x",     ":",      ":80",   "a:",    "a:b", "65536",   "-1",
        "a:-1", "1:2:3", "::1:80", "[::1]", "[]:80", "80 ", "a:65536",
    };
    struct vp_listen_place place;
    struct vp_err err;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(good); i++) {
        assert_int_equal(vp_listen_place_parse(good[i].text, &place, &err),
                         VP_OK);
        assert_string_equal(place.host, good[i].host);
        assert_int_equal(place.port, good[i].port);
    }
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++)
        if (vp_listen_place_parse(bad[i], &place, &err) != VP_ERR_INVALID)
            fail_msg("%s", bad[i]);
}

/* A free port is opened; opening it a second time is refused. */
static void test_listen(void **state)
{
    struct vp_listen_place place = { .host = "127.0.0.1" }, again;
    struct vp_err err = { .text = "" };
    int fd, other;

    (void)state;
    assert_int_equal(vp_listen_place_open(&place, &fd, &err), VP_OK);
    assert_true(place.port > 0);
    again = place;
    assert_int_equal(vp_listen_place_open(&again, &other, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "Address already in use"));
    close(fd);
}

static int make_file(const char *text)
{
    char path[] = "/tmp/vpipe-events-XXXXXX";
    int fd = mkstemp(path);

    unlink(path);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

/* Sends the whole lines that fit; an unfinished line is sent when it is
 * complete. */
static void test_events(void **state)
{
    int fd = make_file("{\"a\": 1}\n{\"b\": 2}\n{\"c\"");
    char out[256];
    int64_t at = 0;
    ptrdiff_t n;

    (void)state;
    n = vp_events_of_lines(fd, &at, out, sizeof(out));
    assert_true(n > 0);
    out[n] = '\0';
    assert_string_equal(out, "id: 9\ndata: {\"a\": 1}\n\n"
                             "id: 18\ndata: {\"b\": 2}\n\n");
    assert_int_equal(at, 18);
    assert_int_equal(vp_events_of_lines(fd, &at, out, sizeof(out)), 0);
    assert_int_equal(at, 18);
    assert_int_equal(write(fd, ": 3}\n", 5), 5);
    n = vp_events_of_lines(fd, &at, out, sizeof(out));
    out[n] = '\0';
    assert_string_equal(out, "id: 27\ndata: {\"c\": 3}\n\n");
    at = 0;
    n = vp_events_of_lines(fd, &at, out, 80); /* space for one event */
    out[n] = '\0';
    assert_string_equal(out, "id: 9\ndata: {\"a\": 1}\n\n");
    assert_int_equal(at, 9);
    close(fd);
    assert_int_equal(vp_events_of_lines(fd, &at, out, sizeof(out)), -1);
}

/* A line that never ends is an error, so the stream ends. */
static void test_long_line(void **state)
{
    static char text[20000], out[32768];
    int64_t at = 0;
    int fd;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    fd = make_file(text);
    assert_int_equal(vp_events_of_lines(fd, &at, out, sizeof(out)), -1);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token),     cmocka_unit_test(test_cookie),
        cmocka_unit_test(test_host),      cmocka_unit_test(test_place),
        cmocka_unit_test(test_listen),    cmocka_unit_test(test_events),
        cmocka_unit_test(test_long_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
