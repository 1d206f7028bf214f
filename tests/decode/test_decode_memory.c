/* src/decode reports a failed allocation at every place and leaks nothing;
 * sampling an id and a step of beam search allocate nothing. */
#include "decode/beam.h"
#include "decode/bleu.h"
#include "decode/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int n_left = -1; /* allocations before the one that fails; -1: none */
static int n_allocations;

/* Only one allocation fails and later ones succeed, so that code which forgets
 * the failure is caught. */
static bool is_refused(void)
{
    n_allocations++;
    return n_left >= 0 && n_left-- == 0;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t n);

void *__wrap_malloc(size_t n)
{
    return is_refused() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_refused() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t n)
{
    return is_refused() ? NULL : __real_realloc(old, n);
}

enum { N_IDS = 4, N_BEAMS = 2 };

static enum vp_status make_beam(struct vp_beam **beam_out, struct vp_err *err)
{
    /* Larger than one chunk of an arena. */
    static const int max_tokens[] = { 3, 100000 };
    struct vp_beam_options options = vp_beam_defaults(VP_BEAM_HF);

    options.n_ids = N_IDS;
    options.n_beams = N_BEAMS;
    return vp_beam_create(&options, 2, max_tokens, beam_out, err);
}

static void test_beam_without_memory(void **state)
{
    struct vp_beam *beam = NULL;
    struct vp_err err;
    int n_good = 0;

    (void)state;
    for (;; n_good++) {
        enum vp_status status;

        n_left = n_good;
        status = make_beam(&beam, &err);
        n_left = -1;
        if (status == VP_OK)
            break;
        assert_int_equal(status, VP_ERR_NOMEM);
        assert_null(beam);
        assert_non_null(strstr(err.text, "2 sentences of 2 beams"));
    }
    assert_true(n_good >= 3);
    vp_beam_free(beam);
}

/* Lets each allocation of vp_bleu_add() fail once. Returns their number. */
static int fail_bleu(const char *hypothesis, const char *const *references,
                     int n_references)
{
    struct vp_bleu_counts counts = { .n_reference = 5 };
    const struct vp_bleu_counts before = counts;
    int n_good = 0;

    for (;; n_good++) {
        enum vp_status status;

        n_left = n_good;
        status = vp_bleu_add(&counts, hypothesis, references, n_references);
        n_left = -1;
        if (status == VP_OK)
            return n_good;
        assert_int_equal(status, VP_ERR_NOMEM);
        assert_memory_equal(&counts, &before, sizeof(counts));
    }
}

/* In the second case the words take 1023 bytes, so that only the last '\n'
 * makes their buffer of 1 KiB grow. */
static void test_bleu_without_memory(void **state)
{
    const char *references[] = { "a b, c &amp; d e f", "a b c d e" };
    char hypothesis[501] = "", reference[523] = "";
    const char *one = reference;

    (void)state;
    assert_true(fail_bleu("a b c d, e", references, 2) > 10);
    memset(hypothesis, 'h', sizeof(hypothesis) - 1);
    memset(reference, 'r', sizeof(reference) - 1);
    assert_true(fail_bleu(hypothesis, &one, 1) > 10);
}

static void test_tokens_without_allocations(void **state)
{
    static const float logits[2 * N_BEAMS * N_IDS];
    static const struct vp_sample_options options = { 1.2, 0.7, 3, 0.9 };
    static const struct vp_sample_input input = { .logits = logits,
                                                  .n_ids = N_IDS };
    static const struct vp_sample_key key = { .seed = 1 };
    struct vp_sample_candidate work[N_IDS];
    struct vp_beam_row next[2 * N_BEAMS];
    struct vp_beam *beam;
    int32_t id;

    (void)state;
    assert_int_equal(make_beam(&beam, NULL), VP_OK);
    n_allocations = 0;
    for (int step = 0; step < 5; step++) {
        assert_int_equal(vp_beam_step(beam, logits, next, NULL), VP_OK);
        assert_int_equal(vp_sample(&options, &input, &key, work, &id, NULL),
                         VP_OK);
    }
    assert_int_equal(n_allocations, 0);
    vp_beam_free(beam);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beam_without_memory),
        cmocka_unit_test(test_bleu_without_memory),
        cmocka_unit_test(test_tokens_without_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
