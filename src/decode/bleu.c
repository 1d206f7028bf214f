/* Counts n-grams and computes BLEU from the counts. Words of a sentence and its
 * references are replaced by numbers; n-grams are sorted to count them. */
#include "decode/bleu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    const char *at;
    size_t n_bytes;
    int32_t *number; /* receives its number; equal words get the same */
};

struct gram {
    const int32_t *numbers;
    int n;
};

/* A hypothesis or a reference. */
struct text {
    const int32_t *numbers; /* numbers of its words */
    size_t n_words;
    struct gram *grams; /* room for n_words */
    size_t n_grams;
};

/* A sentence: the hypothesis, then the references. */
struct sentence {
    struct vp_strbuf bytes; /* words separated by ' ', texts ended by '\n' */
    struct text *texts;
    int n_texts;
    /* Memory for all texts; each text uses a part of it. */
    struct word *words;
    int32_t *numbers;
    struct gram *grams;
};

/* ---- Words -------------------------------------------------------------- */

static int compare_words(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    size_t n = x->n_bytes < y->n_bytes ? x->n_bytes : y->n_bytes;
    int order = memcmp(x->at, y->at, n);

    if (order != 0)
        return order;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

static void number_words(struct word *words, size_t n)
{
    int32_t number = 0;

    if (n > 0)
        qsort(words, n, sizeof(*words), compare_words);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && compare_words(&words[i - 1], &words[i]) != 0)
            number++;
        *words[i].number = number;
    }
}

/* Finds the words of all texts. Returns the number of words. */
static size_t cut_words(struct sentence *sentence)
{
    const char *at = vp_strbuf_text(&sentence->bytes);
    size_t n = 0;

    for (int i = 0; i < sentence->n_texts; i++) {
        struct text *text = &sentence->texts[i];
        size_t first = n;

        text->numbers = sentence->numbers + first;
        text->grams = sentence->grams + first;
        while (*at != '\n') {
            size_t n_bytes = strcspn(at, " \n");

            sentence->words[n] = (struct word){ at, n_bytes,
                                                &sentence->numbers[n] };
            n++;
            at += n_bytes + (at[n_bytes] == ' ');
        }
        at++;
        text->n_words = n - first;
    }
    return n;
}

static void release(struct sentence *sentence)
{
    vp_strbuf_release(&sentence->bytes);
    free(sentence->texts);
    free(sentence->words);
    free(sentence->numbers);
    free(sentence->grams);
}

static enum vp_status make_sentence(struct sentence *sentence,
                                    const char *hypothesis,
                                    const char *const *references,
                                    int n_references)
{
    size_t room = 1;

    sentence->n_texts = 1 + n_references;
    for (int i = 0; i < sentence->n_texts; i++) {
        VP_TRY(vp_bleu_tokenize(i == 0 ? hypothesis : references[i - 1],
                                &sentence->bytes));
        vp_strbuf_adds(&sentence->bytes, "\n");
    }
    if (sentence->bytes.failed)
        return VP_ERR_NOMEM;
    for (const char *c = vp_strbuf_text(&sentence->bytes); *c; c++)
        room += *c == ' ' || *c == '\n';
    sentence->texts = calloc((size_t)sentence->n_texts,
                             sizeof(*sentence->texts));
    sentence->words = calloc(room, sizeof(*sentence->words));
    sentence->numbers = calloc(room, sizeof(*sentence->numbers));
    sentence->grams = calloc(room, sizeof(*sentence->grams));
    if (!sentence->texts || !sentence->words || !sentence->numbers ||
        !sentence->grams)
        return VP_ERR_NOMEM;
    number_words(sentence->words, cut_words(sentence));
    return VP_OK;
}

/* ---- Grams -------------------------------------------------------------- */

static int compare_grams(const void *a, const void *b)
{
    const struct gram *x = a, *y = b;

    for (int i = 0; i < x->n; i++)
        if (x->numbers[i] != y->numbers[i])
            return x->numbers[i] < y->numbers[i] ? -1 : 1;
    return 0;
}

static void sort_grams(struct text *text, int n)
{
    text->n_grams = text->n_words >= (size_t)n ? text->n_words - (size_t)n + 1
                                               : 0;
    for (size_t i = 0; i < text->n_grams; i++)
        text->grams[i] = (struct gram){ text->numbers + i, n };
    if (text->n_grams > 0)
        qsort(text->grams, text->n_grams, sizeof(*text->grams), compare_grams);
}

/* Returns the number of consecutive sorted grams, from index `first` on, that
 * are equal to `gram`. */
static size_t run_length(const struct text *text, size_t first,
                         const struct gram *gram)
{
    size_t end = first;

    while (end < text->n_grams && compare_grams(&text->grams[end], gram) == 0)
        end++;
    return end - first;
}

static size_t count_gram(const struct text *text, const struct gram *gram)
{
    size_t low = 0, high = text->n_grams;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_grams(&text->grams[middle], gram) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return run_length(text, low, gram);
}

/* Returns the clipped number of matches: each gram of the hypothesis counts at
 * most as often as it occurs in the reference that has it most often. */
static int64_t count_matches(const struct sentence *sentence)
{
    const struct text *hypothesis = &sentence->texts[0];
    size_t n_matches = 0, n_same;

    for (size_t i = 0; i < hypothesis->n_grams; i += n_same) {
        const struct gram *gram = &hypothesis->grams[i];
        size_t most = 0;

        n_same = run_length(hypothesis, i, gram);
        for (int k = 1; k < sentence->n_texts; k++) {
            size_t n = count_gram(&sentence->texts[k], gram);

            if (n > most)
                most = n;
        }
        n_matches += n_same < most ? n_same : most;
    }
    return (int64_t)n_matches;
}

/* Returns the length in words of the reference closest in length to the
 * hypothesis; of two equally close, the shorter. */
static int64_t closest_length(const struct sentence *sentence)
{
    int64_t want = (int64_t)sentence->texts[0].n_words;
    int64_t best = (int64_t)sentence->texts[1].n_words;

    for (int i = 2; i < sentence->n_texts; i++) {
        int64_t n = (int64_t)sentence->texts[i].n_words;
        int64_t gain = llabs(best - want) - llabs(n - want);

        if (gain > 0 || (gain == 0 && n < best))
            best = n;
    }
    return best;
}

enum vp_status vp_bleu_add(struct vp_bleu_counts *counts,
                           const char *hypothesis,
                           const char *const *references, int n_references)
{
    struct sentence sentence = { .bytes = VP_STRBUF_INIT };
    enum vp_status status;

    VP_BUG_ON(n_references < 1);
    status = make_sentence(&sentence, hypothesis, references, n_references);
    if (status != VP_OK)
        goto done;
    counts->n_hypothesis += (int64_t)sentence.texts[0].n_words;
    counts->n_reference += closest_length(&sentence);
    for (int order = 0; order < VP_BLEU_ORDERS; order++) {
        for (int i = 0; i < sentence.n_texts; i++)
            sort_grams(&sentence.texts[i], order + 1);
        counts->n_total[order] += (int64_t)sentence.texts[0].n_grams;
        counts->n_matches[order] += count_matches(&sentence);
    }

done:
    release(&sentence);
    return status;
}

/* ---- Score -------------------------------------------------------------- */

/* Computes precisions in percent, with exponential smoothing: the first order
 * without a match counts 1/2 match, the next one 1/4, and so on. Orders for
 * which all hypotheses are too short stay 0. */
static void find_precisions(const struct vp_bleu_counts *counts,
                            double precision[VP_BLEU_ORDERS])
{
    double smooth = 1.0;

    for (int i = 0; i < VP_BLEU_ORDERS && counts->n_total[i] > 0; i++) {
        double total = (double)counts->n_total[i];

        if (counts->n_matches[i] > 0) {
            precision[i] = 100.0 * (double)counts->n_matches[i] / total;
        } else {
            smooth *= 2.0;
            precision[i] = 100.0 / (smooth * total);
        }
    }
}

void vp_bleu_score(const struct vp_bleu_counts *counts,
                   struct vp_bleu_result *result_out)
{
    struct vp_bleu_result result = {
        .brevity_penalty = 1.0,
        .n_hypothesis = counts->n_hypothesis,
        .n_reference = counts->n_reference,
    };
    int64_t n_matches = 0;
    double sum = 0.0;

    for (int i = 0; i < VP_BLEU_ORDERS; i++)
        n_matches += counts->n_matches[i];
    if (counts->n_hypothesis == 0 && counts->n_reference > 0)
        result.brevity_penalty = 0.0;
    else if (counts->n_hypothesis < counts->n_reference)
        result.brevity_penalty = exp(1.0 - (double)counts->n_reference /
                                               (double)counts->n_hypothesis);
    if (n_matches > 0) {
        find_precisions(counts, result.precision);
        /* log(0) is -INFINITY and makes BLEU 0. */
        for (int i = 0; i < VP_BLEU_ORDERS; i++)
            sum += log(result.precision[i]);
        result.bleu = result.brevity_penalty * exp(sum / VP_BLEU_ORDERS);
    }
    *result_out = result;
}

void vp_bleu_text(const struct vp_bleu_result *result, char *out,
                  size_t n_bytes)
{
    const double *p = result->precision;
    double ratio = 0.0;

    if (result->n_reference > 0)
        ratio = (double)result->n_hypothesis / (double)result->n_reference;
    snprintf(out, n_bytes,
             "BLEU = %.2f %.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len "
             "= %lld ref_len = %lld)",
             result->bleu, p[0], p[1], p[2], p[3], result->brevity_penalty,
             ratio, (long long)result->n_hypothesis,
             (long long)result->n_reference);
}
