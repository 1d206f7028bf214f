/* The UTF-8 check agrees with a slow decoder on literal sequences, examples of
 * the Unicode Standard, all starts of up to three bytes, random bytes, and text
 * given in chunks. */
#include "base/utf8.h"

#include "base/rng.h"
#include "base/status.h"
#include "lib/utf8lib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES(text) text, sizeof(text) - 1

/* ---- Literal sequences -------------------------------------------------- */

static const struct {
    const char *name, *bytes;
    size_t n;
} valid[] = {
    { "nothing", BYTES("") },
    { "U+0001", BYTES("\x01") },
    { "U+007F, the last of one byte", BYTES("\x7F") },
    { "U+0080, the first of two bytes", BYTES("\xC2\x80") },
    { "U+07FF, the last of two bytes", BYTES("\xDF\xBF") },
    { "U+0800, the first of three bytes", BYTES("\xE0\xA0\x80") },
    { "U+D7FF, before the surrogates", BYTES("\xED\x9F\xBF") },
    { "U+E000, behind the surrogates", BYTES("\xEE\x80\x80") },
    { "U+FEFF, the byte order mark", BYTES("\xEF\xBB\xBF") },
    { "U+FFFD", BYTES("\xEF\xBF\xBD") },
    { "U+FFFF, a noncharacter", BYTES("\xEF\xBF\xBF") },
    { "U+10000, the first of four bytes", BYTES("\xF0\x90\x80\x80") },
    { "U+10FFFF, the last", BYTES("\xF4\x8F\xBF\xBF") },
    { "a word between others", BYTES("A caf\xC3\xA9, \xE4\xBD\xA0\xE5\xA5\xBD, "
                                     "\xF0\x9F\x98\x80!") },
};

static const struct {
    const char *name, *bytes;
    size_t n, n_good, n_fault;
    bool cut;
} invalid[] = {
    { "NUL", BYTES("ab\0cd"), 2, 1, false },
    { "NUL at the end", BYTES("ab\0"), 2, 1, false },
    { "NUL in the second word", BYTES("0123456789abcd\0f"), 14, 1, false },
    { "a continuation byte alone", BYTES("a\x80z"), 1, 1, false },
    { "the last continuation byte", BYTES("\xBF"), 0, 1, false },
    { "overlong NUL of two bytes", BYTES("\xC0\x80"), 0, 1, false },
    { "overlong U+007F of two bytes", BYTES("\xC1\xBF"), 0, 1, false },
    { "overlong U+07FF of three bytes", BYTES("\xE0\x9F\xBF"), 0, 1, false },
    { "overlong U+FFFF of four bytes", BYTES("\xF0\x8F\xBF\xBF"), 0, 1, false },
    { "the first surrogate", BYTES("\xED\xA0\x80"), 0, 1, false },
    { "the last surrogate", BYTES("\xED\xBF\xBF"), 0, 1, false },
    { "U+110000", BYTES("\xF4\x90\x80\x80"), 0, 1, false },
    { "five bytes", BYTES("\xF8\x88\x80\x80\x80"), 0, 1, false },
    { "F5", BYTES("\xF5\x80\x80\x80"), 0, 1, false },
    { "FE", BYTES("\xFE"), 0, 1, false },
    { "FF", BYTES("\xFF"), 0, 1, false },
    { "two bytes, then ASCII", BYTES("ab\xC3z"), 2, 1, false },
    { "three bytes, then ASCII", BYTES("\xE2\x82z"), 0, 2, false },
    { "three bytes, then another", BYTES("\xE2\x82\xC3\xA9"), 0, 2, false },
    { "four bytes, then ASCII", BYTES("\xF0\x9F\x98z"), 0, 3, false },
    { "Latin-1", BYTES("caf\xE9 au lait"), 3, 1, false },
    { "two bytes, cut", BYTES("ab\xC3"), 2, 1, true },
    { "three bytes, cut behind one", BYTES("\xE2"), 0, 1, true },
    { "three bytes, cut behind two", BYTES("abc\xE2\x82"), 3, 2, true },
    { "four bytes, cut behind one", BYTES("\xF0"), 0, 1, true },
    { "four bytes, cut behind two", BYTES("\xF0\x9F"), 0, 2, true },
    { "four bytes, cut behind three", BYTES("\xF0\x9F\x98"), 0, 3, true },
    { "overlong, cut: nothing can complete it", BYTES("\xE0\x80"), 0, 1,
      false },
    { "a surrogate, cut", BYTES("\xED\xA0"), 0, 1, false },
    { "above U+10FFFF, cut", BYTES("\xF4\x90"), 0, 1, false },
};

static void literal_sequences_are_judged(void **state)
{
    struct vp_utf8_fault fault;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(valid); i++) {
        const unsigned char *bytes = (const unsigned char *)valid[i].bytes;

        if (vp_utf8_check(VP_UTF8_TEXT, bytes, valid[i].n, &fault) !=
            valid[i].n)
            fail_msg("refused: %s", valid[i].name);
    }
    for (size_t i = 0; i < VP_COUNT_OF(invalid); i++) {
        const unsigned char *bytes = (const unsigned char *)invalid[i].bytes;
        size_t n_good = vp_utf8_check(VP_UTF8_TEXT, bytes, invalid[i].n,
                                      &fault);

        if (n_good != invalid[i].n_good ||
            fault.n_bytes != invalid[i].n_fault || fault.cut != invalid[i].cut)
            fail_msg("%s: %zu good bytes, a fault of %zu, cut %d",
                     invalid[i].name, n_good, fault.n_bytes, fault.cut);
    }
}

#define R "\xEF\xBF\xBD"

/* The first four cases are tables 3-8 to 3-11 of the Unicode Standard, version
 * 15.0. */
static const struct {
    const char *bytes;
    size_t n;
    const char *want;
    size_t n_want;
    int64_t n_faults;
} replaced[] = {
    { BYTES("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), BYTES(R R R R R R R R "A"),
      8 },
    { BYTES("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), BYTES(R R R R R R R R "A"),
      8 },
    { BYTES("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
      BYTES(R R R R R "A" R R "B"), 7 },
    { BYTES("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), BYTES(R R R R "A"), 4 },
    { BYTES("a\0b\0"), BYTES("a" R "b" R), 2 },
    { BYTES("\0\0\0"), BYTES(R R R), 3 },
    { BYTES("caf\xE9\n"), BYTES("caf" R "\n"), 1 },
    { BYTES("caf\xC3\xA9 \xE2\x82"), BYTES("caf\xC3\xA9 " R), 1 },
    { BYTES("plain"), BYTES("plain"), 0 },
    { BYTES(""), BYTES(""), 0 },
};

static void faults_become_u_fffd(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(replaced); i++) {
        unsigned char out[64];
        size_t n = replaced[i].n, growth = replaced[i].n_want - n;
        int64_t n_faults = 0;

        assert_int_equal(
            vp_utf8_replace(VP_UTF8_TEXT,
                            (const unsigned char *)replaced[i].bytes, n, NULL,
                            &n_faults),
            replaced[i].n_want);
        assert_int_equal(n_faults, replaced[i].n_faults);
        /* In place: the input stands at the end of the output buffer. */
        memcpy(out + growth, replaced[i].bytes, n);
        assert_int_equal(
            vp_utf8_replace(VP_UTF8_TEXT, out + growth, n, out, &n_faults),
            replaced[i].n_want);
        assert_int_equal(n_faults, 2 * replaced[i].n_faults);
        assert_memory_equal(out, replaced[i].want, replaced[i].n_want);
    }
}

/* ---- Comparison with a slow decoder ------------------------------------- */

static void compare(const unsigned char *bytes, size_t n)
{
    struct vp_utf8_fault got = { 0, false }, want = { 0, false };
    size_t n_good = vp_utf8_check(VP_UTF8_TEXT, bytes, n, &got);

    if (n_good != slow_check(bytes, n, &want) || got.n_bytes != want.n_bytes ||
        got.cut != want.cut)
        fail_msg("%02X %02X %02X %02X of %zu: %zu good bytes, a fault of %zu, "
                 "cut %d; %zu and %d are right",
                 bytes[0], bytes[1], bytes[2], bytes[3], n, n_good, got.n_bytes,
                 got.cut, want.n_bytes, want.cut);
}

/* Tries every first byte and, after those that begin a character, every second
 * and third byte; the fourth is at the border of a range. */
static void every_start_agrees_with_the_slow_decoder(void **state)
{
    static const unsigned char last[] = { 0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90,
                                          0x9F, 0xA0, 0xBF, 0xC0, 0xE0, 0xFF };

    (void)state;
    for (unsigned long i = 0; i < 0x1000000; i += i < 0xC00000 ? 0x10000 : 1) {
        unsigned char bytes[4] = { (unsigned char)(i >> 16),
                                   (unsigned char)(i >> 8), (unsigned char)i,
                                   last[i % VP_COUNT_OF(last)] };

        compare(bytes, 4);
        if ((i & 0xFF) < 2) {
            compare(bytes, 3);
            compare(bytes, 2);
            compare(bytes, 1);
        }
    }
}

/* Returns a random byte, most often one at the border of a valid range. */
static unsigned char random_byte(uint32_t r)
{
    static const unsigned char likely[] = {
        0x00, 0x0A, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0,
        0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1,
        0xF3, 0xF4, 0xF5, 0xFF, 0x80, 0xBF, 0x80, 0xBF, 0x61, 0x62,
    };
    uint32_t kind = r >> 8 & 3;

    if (kind == 0)
        return (unsigned char)r;
    return kind == 1 ? (unsigned char)(0x20 + r % 0x50)
                     : likely[r % VP_COUNT_OF(likely)];
}

static void random_bytes_agree_with_the_slow_decoder(void **state)
{
    unsigned char bytes[48], want[3 * sizeof(bytes)], got[3 * sizeof(bytes)];

    (void)state;
    for (uint32_t i = 0; i < 200000; i++) {
        size_t n = vp_rng(1, VP_RNG_TEST, i, 0, 0, 0).v[0] % sizeof(bytes);
        int64_t n_want = 0, n_got = 0;
        size_t n_out;

        for (size_t k = 0; k < sizeof(bytes); k += 4) {
            struct vp_rng4 r = vp_rng(1, VP_RNG_TEST, i, 1, 0, (uint64_t)k);

            for (size_t j = 0; j < 4; j++)
                bytes[k + j] = random_byte(r.v[j]);
        }
        compare(bytes, n);
        n_out = slow_replace(bytes, n, want, &n_want);
        assert_int_equal(vp_utf8_replace(VP_UTF8_TEXT, bytes, n, got, &n_got),
                         n_out);
        assert_int_equal(n_got, n_want);
        assert_memory_equal(got, want, n_out);
        assert_true(n_out >= n && n_out <= 3 * n);
        assert_int_equal(slow_check(got, n_out, NULL), n_out);
    }
}

/* ---- Text in chunks ----------------------------------------------------- */

/* Checks the text in chunks of `chunk` bytes, as utf8.h describes: a cut
 * character is passed again with the next chunk. Returns like
 * vp_utf8_check(). */
static size_t check_in_chunks(const unsigned char *bytes, size_t n,
                              size_t chunk, struct vp_utf8_fault *fault)
{
    size_t checked = 0, seen = 0;

    while (seen < n) {
        seen = seen + chunk < n ? seen + chunk : n;
        checked += vp_utf8_check(VP_UTF8_TEXT, bytes + checked, seen - checked,
                                 fault);
        if (checked < seen && !(fault->cut && seen < n))
            return checked;
    }
    return checked;
}

static void chunks_may_end_anywhere(void **state)
{
    static const char text[] = "A caf\xC3\xA9, \xE4\xBD\xA0\xE5\xA5\xBD and "
                               "\xF0\x9F\x98\x80 in one line.\n";
    unsigned char bytes[sizeof(text) + 4];
    struct vp_utf8_fault whole = { 0, false }, parts = { 0, false };

    (void)state;
    for (size_t chunk = 1; chunk <= sizeof(text); chunk++) {
        memcpy(bytes, text, sizeof(text) - 1);
        assert_int_equal(
            check_in_chunks(bytes, sizeof(text) - 1, chunk, &parts),
            sizeof(text) - 1);
        /* Damages each byte in turn, and cuts the text at each length. */
        for (size_t i = 0; i < sizeof(text) - 1; i++) {
            size_t n_good;

            memcpy(bytes, text, sizeof(text) - 1);
            bytes[i] = 0xE2;
            n_good = vp_utf8_check(VP_UTF8_TEXT, bytes, sizeof(text) - 1,
                                   &whole);
            assert_int_equal(
                check_in_chunks(bytes, sizeof(text) - 1, chunk, &parts),
                n_good);
            if (n_good < sizeof(text) - 1)
                assert_int_equal(parts.n_bytes, whole.n_bytes);
            n_good = vp_utf8_check(VP_UTF8_TEXT, (const unsigned char *)text, i,
                                   &whole);
            assert_int_equal(
                check_in_chunks((const unsigned char *)text, i, chunk, &parts),
                n_good);
        }
    }
}

/* NUL is found at every position; the check reads words of eight bytes. */
static void nul_is_a_fault_of_text_only(void **state)
{
    (void)state;
    for (size_t i = 0; i < 20; i++) {
        unsigned char bytes[20], out[60];
        struct vp_utf8_fault fault;
        int64_t n_faults = 0;

        memset(bytes, 'a', sizeof(bytes));
        bytes[i] = '\0';
        assert_int_equal(vp_utf8_check(VP_UTF8_TEXT, bytes, 20, &fault), i);
        assert_int_equal(fault.n_bytes, 1);
        assert_true(vp_utf8_is_valid(VP_UTF8_ANY, bytes, 20));
        assert_int_equal(
            vp_utf8_replace(VP_UTF8_ANY, bytes, 20, out, &n_faults), 20);
        assert_int_equal(n_faults, 0);
        bytes[i] = 0x80;
        assert_int_equal(vp_utf8_check(VP_UTF8_ANY, bytes, 20, &fault), i);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(nul_is_a_fault_of_text_only),
        cmocka_unit_test(literal_sequences_are_judged),
        cmocka_unit_test(faults_become_u_fffd),
        cmocka_unit_test(every_start_agrees_with_the_slow_decoder),
        cmocka_unit_test(random_bytes_agree_with_the_slow_decoder),
        cmocka_unit_test(chunks_may_end_anywhere),
    };

    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
