/* Sampling without sorting the vocabulary. Greedy search is one pass over the
 * logits. Otherwise candidates are popped from a heap, most likely first: top-k
 * and top-p cost one pass to build the heap and O(log n) for each id that
 * stays. */
#include "decode/sample.h"

#include "base/rng.h"

#include <math.h>
#include <stdbool.h>

enum vp_status vp_sample_check(const struct vp_sample_options *options,
                               struct vp_err *err)
{
    /* Comparisons are written so that NaN is refused. */
    if (!(options->repetition_penalty > 0.0) ||
        isinf(options->repetition_penalty))
        return vp_err_refuse(err, "repetition_penalty",
                             "repetition_penalty is %g; give a number above 0 "
                             "(1: off)",
                             options->repetition_penalty);
    if (!(options->temperature >= 0.0) || isinf(options->temperature))
        return vp_err_refuse(err, "temperature",
                             "temperature is %g; give a number from 0 on (0: "
                             "always the most likely id)",
                             options->temperature);
    if (options->top_k < 0)
        return vp_err_refuse(err, "top_k",
                             "top_k is %d; give a number of ids (0: off)",
                             options->top_k);
    if (!(options->top_p >= 0.0 && options->top_p <= 1.0))
        return vp_err_refuse(err, "top_p",
                             "top_p is %g; give a number from 0 to 1 (1: off)",
                             options->top_p);
    return VP_OK;
}

/* Computes scores: logits with the penalty, divided by the temperature. In
 * float, as in Hugging Face: rounding can make different logits equal. */
static enum vp_status make_scores(const struct vp_sample_options *options,
                                  const struct vp_sample_input *input,
                                  struct vp_sample_candidate *candidates,
                                  struct vp_err *err)
{
    float penalty = (float)options->repetition_penalty;
    float temperature = (float)options->temperature;

    for (int i = 0; i < input->n_ids; i++)
        candidates[i] = (struct vp_sample_candidate){
            .id = i, .score = input->logits[i]
        };
    /* Starts from the logit, so that an id that occurs twice gets the penalty
     * only once. */
    for (int i = 0; i < input->n_history; i++) {
        int32_t id = input->history[i];
        float logit;

        if (id < 0 || id >= input->n_ids)
            continue;
        logit = input->logits[id];
        candidates[id].score = logit < 0.0f ? logit * penalty : logit / penalty;
    }
    for (int i = 0; i < input->n_ids; i++) {
        if (options->temperature > 0.0)
            candidates[i].score /= temperature;
        if (!isfinite(candidates[i].score))
            return vp_err_set(
                err, VP_ERR_NONFINITE,
                "the logit of id %d is %g, and %g after repetition_penalty %g "
                "and temperature %g; check the weights of the model",
                i, (double)input->logits[i], (double)candidates[i].score,
                options->repetition_penalty, options->temperature);
    }
    return VP_OK;
}

/* Orders candidates by falling score, then by id. No two are equal, so the
 * order in which they leave a heap does not depend on how it was built. */
static bool is_before(const struct vp_sample_candidate *a,
                      const struct vp_sample_candidate *b)
{
    return a->score != b->score ? a->score > b->score : a->id < b->id;
}

static void swap(struct vp_sample_candidate *a, struct vp_sample_candidate *b)
{
    struct vp_sample_candidate c = *a;

    *a = *b;
    *b = c;
}

/* Moves heap[i] down until neither child is before it. */
static void sift(struct vp_sample_candidate *heap, int n, int i)
{
    for (;;) {
        int child = 2 * i + 1;

        if (child >= n)
            return;
        if (child + 1 < n && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &heap[i]))
            return;
        swap(&heap[i], &heap[child]);
        i = child;
    }
}

static void heapify(struct vp_sample_candidate *candidates, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--)
        sift(candidates, n, i);
}

/* Removes the first candidate from a heap of `n` and stores it at heap[n -
 * 1]. */
static const struct vp_sample_candidate *take(struct vp_sample_candidate *heap,
                                              int n)
{
    swap(&heap[0], &heap[n - 1]);
    sift(heap, n - 1, 0);
    return &heap[n - 1];
}

/* Moves the `n_taken` candidates that take() stored at the end to the front, in
 * the order in which they were taken. */
static void move_to_front(struct vp_sample_candidate *candidates, int n,
                          int n_taken)
{
    for (int i = 0; i < n_taken && i < n / 2; i++)
        swap(&candidates[i], &candidates[n - 1 - i]);
}

/* Moves the candidates that top-k keeps to the front, in order. Returns their
 * number. */
static int cut_top_k(struct vp_sample_candidate *candidates, int n, int top_k)
{
    int n_taken = 0;
    float border = 0.0f;

    heapify(candidates, n);
    while (n_taken < n && (n_taken < top_k || candidates[0].score == border)) {
        border = take(candidates, n - n_taken)->score;
        n_taken++;
    }
    move_to_front(candidates, n, n_taken);
    return n_taken;
}

/* The same for top-p. The probabilities sum to 1, so 1 minus those taken so far
 * is the sum from the smallest up to the next candidate. */
static int cut_top_p(struct vp_sample_candidate *candidates, int n,
                     double top_p)
{
    double left = 1.0;
    int n_taken = 0;

    heapify(candidates, n);
    do {
        left -= take(candidates, n - n_taken)->probability;
        n_taken++;
    } while (n_taken < n && left > 1.0 - top_p);
    move_to_front(candidates, n, n_taken);
    return n_taken;
}

static void softmax(struct vp_sample_candidate *candidates, int n)
{
    float largest = candidates[0].score;
    double sum = 0.0;

    for (int i = 1; i < n; i++)
        if (candidates[i].score > largest)
            largest = candidates[i].score;
    for (int i = 0; i < n; i++) {
        double score = candidates[i].score;

        candidates[i].probability = exp(score - (double)largest);
        sum += candidates[i].probability;
    }
    for (int i = 0; i < n; i++)
        candidates[i].probability /= sum;
}

enum vp_status vp_sample_filter(const struct vp_sample_options *options,
                                const struct vp_sample_input *input,
                                struct vp_sample_candidate *candidates,
                                int *n_out, struct vp_err *err)
{
    int n = input->n_ids;

    VP_TRY(make_scores(options, input, candidates, err));
    if (options->temperature == 0.0) {
        for (int i = 1; i < n; i++)
            if (is_before(&candidates[i], &candidates[0]))
                swap(&candidates[i], &candidates[0]);
        n = 1;
    } else if (options->top_k > 0) {
        n = cut_top_k(candidates, n, options->top_k);
    }
    softmax(candidates, n);
    if (options->top_p < 1.0) {
        n = cut_top_p(candidates, n, options->top_p);
        softmax(candidates, n);
    }
    *n_out = n;
    return VP_OK;
}

enum { LANES = 16 };

/* Returns the largest of `n` logits; NAN if one is not finite. Works in LANES
 * independent lanes, which compilers vectorise. */
static float find_largest(const float *logits, int n)
{
    float most[LANES], bad[LANES] = { 0.0f };
    int i = 0;

    for (int j = 0; j < LANES; j++)
        most[j] = logits[0];
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float x = logits[i + j];

            most[j] = x > most[j] ? x : most[j];
            bad[j] += x * 0.0f; /* NaN if x is NaN or infinite */
        }
    for (; i < n; i++) {
        most[0] = logits[i] > most[0] ? logits[i] : most[0];
        bad[0] += logits[i] * 0.0f;
    }
    for (int j = 1; j < LANES; j++) {
        most[0] = most[j] > most[0] ? most[j] : most[0];
        bad[0] += bad[j];
    }
    return bad[0] == 0.0f ? most[0] : NAN;
}

/* Returns the first id with the largest logit, or -1 if a logit is not
 * finite. */
static int32_t find_best(const struct vp_sample_input *input)
{
    float largest = find_largest(input->logits, input->n_ids);
    int32_t id = 0;

    if (isnan(largest))
        return -1;
    while (input->logits[id] != largest)
        id++;
    return id;
}

int32_t vp_sample_draw(const struct vp_sample_candidate *candidates, int n,
                       const struct vp_sample_key *key)
{
    struct vp_rng4 bits = vp_rng(key->seed, VP_RNG_SAMPLING, 0, key->position,
                                 0, key->sequence);
    double rest = vp_rng_unit(bits.v[0]);
    int i = 0;

    /* The last candidate gets the remainder that rounding leaves. */
    while (i < n - 1 && rest >= candidates[i].probability)
        rest -= candidates[i++].probability;
    return candidates[i].id;
}

enum vp_status vp_sample(const struct vp_sample_options *options,
                         const struct vp_sample_input *input,
                         const struct vp_sample_key *key,
                         struct vp_sample_candidate *work, int32_t *id_out,
                         struct vp_err *err)
{
    int32_t best = -1;
    int n;

    if (options->temperature == 0.0 && options->repetition_penalty == 1.0)
        best = find_best(input);
    if (best >= 0) {
        *id_out = best;
        return VP_OK;
    }
    VP_TRY(vp_sample_filter(options, input, work, &n, err));
    *id_out = vp_sample_draw(work, n, key);
    return VP_OK;
}
