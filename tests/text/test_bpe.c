/* Text is split into the expected pieces by each pre-tokenizer expression, and
 * BPE merges equal a slow implementation of their definition. */
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/split.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Splitting into pieces ---------------------------------------------- */

static const struct {
    enum vp_split split;
    const char *pieces; /* separated by '|' */
} cuts[] = {
    { VP_SPLIT_GPT2, "I|'m| it|'s| we|'ve| they|'re| I|'ll| he|'d| can|'t" },
    { VP_SPLIT_GPT2, "DON|'|T| '|S" },
    { VP_SPLIT_GPT2, "it|'s|'s|''|s" },
    { VP_SPLIT_GPT2, "a| | b|  | c|\n\n| d| \t| e|   " },
    { VP_SPLIT_GPT2, "a|\xC2\xA0|b" },
    { VP_SPLIT_GPT2, "x|1234| 5| $|6|.|7|!?" },
    { VP_SPLIT_GPT2, "\n|\n|a" },
    { VP_SPLIT_GPT2, "'|\xC5\xBF" }, /* U+017F */
    { VP_SPLIT_LLAMA3, "I|'M| it|'S| we|'Ve| they|'RE|'lL|'D|'t" },
    { VP_SPLIT_LLAMA3, "x|'\xC5\xBF|a" },
    { VP_SPLIT_LLAMA3, "'x|'|1" },
    { VP_SPLIT_LLAMA3, "123|456|7|a" },
    { VP_SPLIT_LLAMA3, "\tx|(y| z|-| | |9" },
    { VP_SPLIT_LLAMA3, "a|  \n \n| | b" },
    { VP_SPLIT_LLAMA3, "a| !?\r\n\n|  | b" },
    { VP_SPLIT_LLAMA3, "a|\n\n|b|  " },
    { VP_SPLIT_QWEN2, "1|2|3| |4|a" },
};

static void test_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cuts); i++) {
        unsigned char text[256];
        char got[256] = "";
        const unsigned char *at = text, *end = text;
        size_t n = 0;

        for (const char *c = cuts[i].pieces; *c; c++)
            if (*c != '|')
                text[n++] = (unsigned char)*c;
        end += n;
        n = 0;
        while (at < end) {
            const unsigned char *next = vp_split_next(cuts[i].split, at, end);

            assert_true(next > at && next <= end);
            n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%.*s",
                                  at > text ? "|" : "", (int)(next - at),
                                  (const char *)at);
            at = next;
        }
        assert_string_equal(got, cuts[i].pieces);
    }
}

static void test_alphabet_of_bytes(void **state)
{
    static const struct {
        unsigned char byte;
        uint32_t c;
    } some[] = { { 0x00, 0x100 }, { 0x09, 0x109 }, { 0x20, 0x120 },
                 { 'A', 'A' },    { 0x7F, 0x121 }, { 0x80, 0x122 },
                 { 0xA0, 0x142 }, { 0xA1, 0xA1 },  { 0xAD, 0x143 },
                 { 0xFF, 0xFF } };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(some); i++)
        assert_int_equal(vp_byte_alphabet_char(some[i].byte), some[i].c);
    for (int byte = 0; byte < 256; byte++)
        assert_int_equal(
            vp_byte_alphabet_byte(vp_byte_alphabet_char((unsigned char)byte)),
            byte);
    assert_int_equal(vp_byte_alphabet_byte(0x20), -1);
    assert_int_equal(vp_byte_alphabet_byte(0xAD), -1);
    assert_int_equal(vp_byte_alphabet_byte(0x144), -1);
}

/* ---- Merges of random rules --------------------------------------------- */

enum { N_LETTERS = 3, MAX_RULES = 60, MAX_PIECE = 400 };

struct rule {
    uint32_t left, right, id;
};

/* Slow merging by the definition: applies the rule of lowest rank that matches,
 * at its first place, until no rule matches. Returns the number of ids. */
static size_t merge_plainly(const struct rule *rules, int n_rules,
                            uint32_t *ids, size_t n)
{
    bool merged = true;

    while (merged) {
        merged = false;
        for (int r = 0; r < n_rules && !merged; r++)
            for (size_t i = 0; i + 1 < n && !merged; i++)
                if (ids[i] == rules[r].left && ids[i + 1] == rules[r].right) {
                    ids[i] = rules[r].id;
                    n--;
                    memmove(ids + i + 1, ids + i + 2,
                            (n - i - 1) * sizeof(*ids));
                    merged = true;
                }
    }
    return n;
}

static uint32_t draw(uint32_t seed, uint32_t i)
{
    return vp_rng(33, VP_RNG_TEST, seed, i, 0, 0).v[0];
}

/* Makes random rules. Each has a new symbol as its result, so that many rules
 * match. */
static int make_rules(uint32_t seed, struct vp_bpe *bpe, struct rule *rules)
{
    int n = 0;

    memset(bpe, 0, sizeof(*bpe));
    for (int byte = 0; byte < 256; byte++)
        bpe->byte_ids[byte] = byte - 'a' < N_LETTERS ? byte - 'a' : -1;
    for (uint32_t i = 0; i < MAX_RULES; i++) {
        uint32_t n_symbols = N_LETTERS + (uint32_t)n;
        struct rule rule = { draw(seed, 2 * i) % n_symbols,
                             draw(seed, 2 * i + 1) % n_symbols, n_symbols };
        bool known = false;

        for (int r = 0; r < n; r++)
            known |= rules[r].left == rule.left && rules[r].right == rule.right;
        if (known)
            continue;
        assert_int_equal(vp_bpe_add(bpe, rule.left, rule.right, rule.id),
                         VP_OK);
        rules[n++] = rule;
    }
    return n;
}

static void test_merges_follow_the_definition(void **state)
{
    struct vp_bpe_scratch scratch = { NULL };
    struct vp_ids ids = { .n = 0 };

    (void)state;
    for (uint32_t seed = 0; seed < 300; seed++) {
        struct rule rules[MAX_RULES];
        struct vp_bpe bpe;
        int n_rules = make_rules(seed, &bpe, rules);
        unsigned char piece[MAX_PIECE];
        uint32_t want[MAX_PIECE];
        size_t n = draw(seed, 1000) % MAX_PIECE, n_want;

        for (uint32_t i = 0; i < n; i++) {
            uint32_t letter = draw(seed, 1001 + i) % N_LETTERS;

            if (draw(seed, 2000 + i) % 4 == 0)
                letter = 0; /* runs of one letter */
            piece[i] = (unsigned char)('a' + letter);
            want[i] = letter;
        }
        n_want = merge_plainly(rules, n_rules, want, n);
        ids.n = 0;
        assert_int_equal(vp_bpe_encode(&bpe, &scratch, piece, n, &ids), VP_OK);
        assert_int_equal(ids.n, n_want);
        if (n_want > 0)
            assert_memory_equal(ids.at, want, n_want * sizeof(*want));
        vp_bpe_release(&bpe);
    }
    vp_ids_release(&ids);
    vp_bpe_scratch_release(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_alphabet_of_bytes),
        cmocka_unit_test(test_merges_follow_the_definition),
    };

    return cmocka_run_group_tests_name("bpe", tests, NULL, NULL);
}
