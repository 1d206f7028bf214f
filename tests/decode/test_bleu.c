/* BLEU equals sacreBLEU: literal scores, its tokenization, and random
 * corpora. */
#include "decode/bleu.h"

#include "lib/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last digits may differ between implementations of libm. */
static void check_bleu(double got, double want)
{
    if (fabs(got - want) > 1e-12 * (1.0 + want))
        fail_msg("BLEU %.17g, not %.17g", got, want);
}

/* ---- Literal values ------------------------------------------------------ */

enum { MOST = 2 };
static const struct {
    const char *hypotheses[MOST], *references[MOST];
    int n;
    double want;
} corpora[] = {
    { { "the cat sat on the mat", "there is a dog" },
      { "the cat sat on a mat", "there is one dog here" },
      2,
      38.66252716278831 },
    { { "a b c d e" }, { "a b c d e f" }, 1, 81.87307530779819 },
    { { "the the the the" }, { "the cat" }, 1, 15.97357760615681 },
    { { "a b c d x" }, { "a c b d y" }, 1, 15.106876986783844 },
    { { "a b" }, { "a b" }, 1, 0.0 },
    { { "" }, { "a b" }, 1, 0.0 },
    { { "" }, { "" }, 1, 0.0 },
    { { "a b c d e" }, { "f g h i j" }, 1, 0.0 },
    { { "a b c d e" }, { "a b c d e" }, 1, 100.0 },
};

static void test_reference_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(corpora); i++) {
        struct vp_bleu_counts counts = { .n_reference = 0 };
        struct vp_bleu_result result;

        for (int k = 0; k < corpora[i].n; k++)
            assert_int_equal(vp_bleu_add(&counts, corpora[i].hypotheses[k],
                                         &corpora[i].references[k], 1),
                             VP_OK);
        vp_bleu_score(&counts, &result);
        check_bleu(result.bleu, corpora[i].want);
        if (i == 0) {
            static const int64_t matches[] = { 8, 4, 2, 1 };
            static const int64_t totals[] = { 10, 8, 6, 4 };

            assert_memory_equal(counts.n_matches, matches, sizeof(matches));
            assert_memory_equal(counts.n_total, totals, sizeof(totals));
            check_bleu(result.brevity_penalty, 0.9048374180359595);
        }
    }
}

static void test_the_line(void **state)
{
    const char *reference = "a b c d e f";
    struct vp_bleu_counts counts = { .n_reference = 0 };
    struct vp_bleu_result result;
    char line[VP_BLEU_TEXT];

    (void)state;
    vp_bleu_score(&counts, &result);
    vp_bleu_text(&result, line, sizeof(line));
    assert_string_equal(line, "BLEU = 0.00 0.0/0.0/0.0/0.0 (BP = 1.000 ratio = "
                              "0.000 hyp_len = 0 ref_len = 0)");
    assert_int_equal(vp_bleu_add(&counts, "a b c d e", &reference, 1), VP_OK);
    vp_bleu_score(&counts, &result);
    vp_bleu_text(&result, line, sizeof(line));
    assert_string_equal(line,
                        "BLEU = 81.87 100.0/100.0/100.0/100.0 (BP = 0.819 "
                        "ratio = 0.833 hyp_len = 5 ref_len = 6)");
}

/* The longest line fits into VP_BLEU_TEXT bytes. */
static void test_a_line_of_large_numbers(void **state)
{
    struct vp_bleu_counts counts = { .n_matches = { 1, 1, 1, 1 },
                                     .n_total = { 1, 1, 1, 1 },
                                     .n_hypothesis = INT64_MAX,
                                     .n_reference = 1 };
    struct vp_bleu_result result;
    char line[VP_BLEU_TEXT];

    (void)state;
    vp_bleu_score(&counts, &result);
    vp_bleu_text(&result, line, sizeof(line));
    assert_int_equal(line[strlen(line) - 1], ')');
}

static void check_words(const char *line, const char *want)
{
    struct vp_strbuf words = VP_STRBUF_INIT;

    assert_int_equal(vp_bleu_tokenize(line, &words), VP_OK);
    assert_string_equal(vp_strbuf_text(&words), want);
    vp_strbuf_release(&words);
}

static void test_words_of_13a(void **state)
{
    (void)state;
    check_words("Hello, world! It's 3.5% of 1,000-2,000 (approx.)",
                "Hello , world ! It's 3.5 % of 1,000 - 2,000 ( approx . )");
    check_words("a,,b..c .5 5. 1-2 x-y A/B",
                "a , , b . . c . 5 5 . 1 - 2 x-y A / B");
    check_words("&amp;lt; &quot;a&quot;", "< \" a \"");
    check_words("semi-\nfinal\nwon -\n", "semifinal won -");
    check_words("", "");
    check_words(" \t\xC2\xA0 ", "");
    /* Not UTF-8: the line ends inside a character. */
    check_words("a\xE2\x80", "a\xE2\x80");
    check_words("a\xC2", "a\xC2");
}

/* The shorter of two references equally close in length counts, and matches are
 * clipped by the reference with the most. */
static void test_several_references(void **state)
{
    const char *references[] = { "a a x y z", "a a a", "b" };
    struct vp_bleu_counts counts = { .n_reference = 0 };

    (void)state;
    assert_int_equal(vp_bleu_add(&counts, "a a a a", references, 3), VP_OK);
    assert_int_equal(counts.n_hypothesis, 4);
    assert_int_equal(counts.n_reference, 3);
    assert_int_equal(counts.n_matches[0], 3);
    assert_int_equal(counts.n_matches[1], 2);
    assert_int_equal(counts.n_matches[2], 1);
    assert_int_equal(counts.n_matches[3], 0);
    assert_int_equal(counts.n_total[3], 1);
}

/* ---- Stored corpora of sacreBLEU ----------------------------------------- */

/* Reads the zero-terminated fields of the file in order. */
struct reader {
    const char *at, *end;
};

static const char *next_field(struct reader *reader)
{
    const char *field = reader->at;

    assert_true(field < reader->end);
    reader->at += strlen(field) + 1;
    return field;
}

static void check_counts(const struct vp_bleu_counts *got, const char *numbers)
{
    long long want[2 * VP_BLEU_ORDERS + 2];

    assert_int_equal(sscanf(numbers, "%lld%lld%lld%lld%lld%lld%lld%lld%lld%lld",
                            &want[0], &want[1], &want[2], &want[3], &want[4],
                            &want[5], &want[6], &want[7], &want[8], &want[9]),
                     10);
    for (int i = 0; i < VP_BLEU_ORDERS; i++) {
        assert_int_equal(got->n_matches[i], want[i]);
        assert_int_equal(got->n_total[i], want[VP_BLEU_ORDERS + i]);
    }
    assert_int_equal(got->n_hypothesis, want[2 * VP_BLEU_ORDERS]);
    assert_int_equal(got->n_reference, want[2 * VP_BLEU_ORDERS + 1]);
}

static void check_corpus(struct reader *reader)
{
    const char *head = next_field(reader), *line = next_field(reader);
    struct vp_bleu_counts counts = { .n_reference = 0 };
    struct vp_bleu_result result;
    char text[VP_BLEU_TEXT];
    int n_sentences, n_references, n_read;
    double want;

    assert_int_equal(sscanf(head, "%d %d %lf%n", &n_sentences, &n_references,
                            &want, &n_read),
                     3);
    for (int i = 0; i < n_sentences; i++) {
        const char *hypothesis = next_field(reader), *references[3];

        check_words(hypothesis, next_field(reader));
        assert_in_range(n_references, 1, VP_COUNT_OF(references));
        for (int k = 0; k < n_references; k++)
            references[k] = next_field(reader);
        assert_int_equal(
            vp_bleu_add(&counts, hypothesis, references, n_references), VP_OK);
    }
    check_counts(&counts, head + n_read);
    vp_bleu_score(&counts, &result);
    check_bleu(result.bleu, want);
    vp_bleu_text(&result, text, sizeof(text));
    assert_string_equal(text, line);
}

static void test_corpora_of_sacrebleu(void **state)
{
    int64_t n_bytes;
    char *bytes = golden_slurp(VP_SOURCE_DIR "/tests/golden/bleu", ".bin",
                               &n_bytes);
    struct reader reader = { bytes, bytes + n_bytes };
    int n = 0;

    (void)state;
    for (; reader.at < reader.end; n++)
        check_corpus(&reader);
    assert_int_equal(n, 60);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_values),
        cmocka_unit_test(test_the_line),
        cmocka_unit_test(test_a_line_of_large_numbers),
        cmocka_unit_test(test_words_of_13a),
        cmocka_unit_test(test_several_references),
        cmocka_unit_test(test_corpora_of_sacrebleu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
