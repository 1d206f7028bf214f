/* A string buffer keeps all the text added to it, and a failed allocation is
 * reported once, by vp_strbuf_detach(). */
#include "base/strbuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_pieces_follow_each_other(void **state)
{
    struct vp_strbuf buf = VP_STRBUF_INIT;
    char *text;

    (void)state;
    assert_string_equal(vp_strbuf_text(&buf), "");
    vp_strbuf_adds(&buf, "rank ");
    vp_strbuf_addf(&buf, "%d of %s", 3, "4");
    vp_strbuf_add(&buf, "!?", 1);
    assert_string_equal(vp_strbuf_text(&buf), "rank 3 of 4!");
    assert_int_equal(buf.n_bytes, 12);
    assert_int_equal(vp_strbuf_detach(&buf, &text), VP_OK);
    assert_string_equal(text, "rank 3 of 4!");
    assert_null(buf.at);
    free(text);
}

static void test_nothing_is_an_empty_text(void **state)
{
    struct vp_strbuf buf = VP_STRBUF_INIT;
    char *text;

    (void)state;
    assert_int_equal(vp_strbuf_detach(&buf, &text), VP_OK);
    assert_string_equal(text, "");
    free(text);
    vp_strbuf_release(&buf);
}

/* Tries every length up to MOST, so that the buffer grows at each of its sizes:
 * once by a single call, once byte by byte. */
static void test_all_lengths(void **state)
{
    enum { MOST = 5000 };
    static char long_text[MOST + 1];
    struct vp_strbuf grown = VP_STRBUF_INIT;

    (void)state;
    for (int n = 0; n < MOST; n++) {
        struct vp_strbuf buf = VP_STRBUF_INIT;

        vp_strbuf_addf(&buf, "%s", long_text);
        assert_int_equal(buf.n_bytes, n);
        assert_true(buf.capacity > buf.n_bytes); /* the NUL has room */
        assert_string_equal(vp_strbuf_text(&buf), long_text);
        assert_string_equal(vp_strbuf_text(&grown), long_text);
        vp_strbuf_release(&buf);
        long_text[n] = (char)('a' + n % 26);
        vp_strbuf_add(&grown, &long_text[n], 1);
    }
    vp_strbuf_release(&grown);
}

static void test_no_memory_is_reported_once(void **state)
{
    struct vp_strbuf buf = VP_STRBUF_INIT;
    char *text = NULL;

    (void)state;
    vp_strbuf_adds(&buf, "begin");
    buf.failed = true; /* as after a failed realloc() */
    vp_strbuf_adds(&buf, "lost");
    vp_strbuf_addf(&buf, "%d", 1);
    assert_string_equal(vp_strbuf_text(&buf), "begin");
    assert_int_equal(vp_strbuf_detach(&buf, &text), VP_ERR_NOMEM);
    assert_null(text);
    assert_null(buf.at);
    assert_false(buf.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_follow_each_other),
        cmocka_unit_test(test_nothing_is_an_empty_text),
        cmocka_unit_test(test_all_lengths),
        cmocka_unit_test(test_no_memory_is_reported_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
