/* The text is split into segments first: at blanks, before and after
 * punctuation and Chinese characters. No run of combining marks crosses such a
 * place, so normalising a segment alone gives the same as normalising the whole
 * text. The ids of a segment therefore depend only on its bytes, and can be
 * cached. */
#include "text/bert.h"

#include "text/unicode.h"

#include <stdlib.h>

void vp_bert_scratch_release(struct vp_bert_scratch *scratch)
{
    vp_code_points_release(&scratch->points);
    free(scratch->word);
    memset(scratch, 0, sizeof(*scratch));
}

static enum vp_status reserve_word(struct vp_bert_scratch *scratch, size_t n)
{
    unsigned char *word;

    if (scratch->capacity >= n)
        return VP_OK;
    word = realloc(scratch->word, 2 * n);
    if (!word)
        return VP_ERR_NOMEM;
    scratch->word = word;
    scratch->capacity = 2 * n;
    return VP_OK;
}

/* ---- Segments ----------------------------------------------------------- */

/* Returns the classes of code points that separate segments. */
static unsigned ends_of(const struct vp_bert_rules *rules)
{
    return (unsigned)VP_UNICODE_PUNCTUATION |
           (rules->clean ? VP_UNICODE_BLANK : VP_UNICODE_SPACE) |
           (rules->cjk ? VP_UNICODE_CJK : 0);
}

/* Returns the end of the segment that begins at `at`: a single separator, or
 * all characters before the next separator. */
static const unsigned char *segment_end(const unsigned char *at,
                                        const unsigned char *end, unsigned ends)
{
    uint32_t c;
    size_t k = vp_code_point_take(at, &c);

    if (vp_unicode_of(c) & ends)
        return at + k;
    do {
        at += k;
        if (at == end)
            break;
        k = vp_code_point_take(at, &c);
    } while (!(vp_unicode_of(c) & ends));
    return at;
}

/* ---- One segment -------------------------------------------------------- */

static enum vp_status decompose(const struct vp_bert_rules *rules,
                                struct vp_code_points *points,
                                const unsigned char *at,
                                const unsigned char *end)
{
    uint32_t c;

    points->n = 0;
    while (at < end) {
        unsigned class;

        at += vp_code_point_take(at, &c);
        class = vp_unicode_of(c);
        if (rules->clean && class & VP_UNICODE_REMOVED)
            continue;
        if (rules->clean && class & VP_UNICODE_BLANK)
            c = ' ';
        if (rules->strip) {
            VP_TRY(vp_unicode_add_nfd(points, c));
        } else {
            VP_TRY(vp_code_points_reserve(points, 1));
            points->at[points->n++] = c;
        }
    }
    return rules->strip ? vp_unicode_sort_marks(points) : VP_OK;
}

/* Splits a normalised segment into words: NFD and lower case can produce
 * punctuation and spaces. */
static enum vp_status take_words(const struct vp_bert_rules *rules,
                                 struct vp_bert_scratch *scratch,
                                 vp_bert_word_fn take, void *ctx)
{
    const struct vp_code_points *points = &scratch->points;
    size_t n_bytes = 0, n_chars = 0;
    uint32_t lower[VP_UNICODE_SEQUENCE] = { 0 };

    for (size_t i = 0; i < points->n; i++) {
        int n_lower = 1;

        if (rules->strip && vp_unicode_of(points->at[i]) & VP_UNICODE_MARK)
            continue;
        lower[0] = points->at[i];
        if (rules->lower)
            n_lower = vp_unicode_to_lower(points->at[i], lower);
        for (int k = 0; k < n_lower; k++) {
            unsigned class = vp_unicode_of(lower[k]);
            bool alone = class & VP_UNICODE_PUNCTUATION;

            if ((alone || class & VP_UNICODE_SPACE) && n_chars > 0) {
                VP_TRY(take(ctx, scratch->word, n_bytes, n_chars));
                n_bytes = n_chars = 0;
            }
            if (class & VP_UNICODE_SPACE)
                continue;
            n_bytes += vp_code_point_put(lower[k], scratch->word + n_bytes);
            n_chars++;
            if (alone) {
                VP_TRY(take(ctx, scratch->word, n_bytes, n_chars));
                n_bytes = n_chars = 0;
            }
        }
    }
    return n_chars > 0 ? take(ctx, scratch->word, n_bytes, n_chars) : VP_OK;
}

static bool is_ascii(const unsigned char *at, const unsigned char *end)
{
    unsigned char all = 0;

    while (at < end)
        all |= *at++;
    return all < 0x80;
}

/* A segment of ASCII has at most one word. */
static enum vp_status take_ascii(const struct vp_bert_rules *rules,
                                 struct vp_bert_scratch *scratch,
                                 const unsigned char *at,
                                 const unsigned char *end, vp_bert_word_fn take,
                                 void *ctx)
{
    size_t n = 0;

    for (; at < end; at++) {
        unsigned class = vp_unicode_of(*at);

        if (class & VP_UNICODE_SPACE ||
            (rules->clean && class & VP_UNICODE_REMOVED))
            continue;
        scratch->word[n++] = rules->lower && *at >= 'A' && *at <= 'Z'
                                 ? (unsigned char)(*at + ('a' - 'A'))
                                 : *at;
    }
    return n > 0 ? take(ctx, scratch->word, n, n) : VP_OK;
}

static enum vp_status take_segment(const struct vp_bert_rules *rules,
                                   struct vp_bert_scratch *scratch,
                                   const unsigned char *at,
                                   const unsigned char *end,
                                   vp_bert_word_fn take, void *ctx)
{
    VP_TRY(reserve_word(scratch, (size_t)(end - at)));
    if (is_ascii(at, end))
        return take_ascii(rules, scratch, at, end, take, ctx);
    VP_TRY(decompose(rules, &scratch->points, at, end));
    VP_TRY(reserve_word(scratch, scratch->points.n * VP_UNICODE_SEQUENCE *
                                     VP_CODE_POINT_BYTES));
    return take_words(rules, scratch, take, ctx);
}

/* ---- A text ------------------------------------------------------------- */

enum vp_status vp_bert_words(const struct vp_bert_rules *rules,
                             struct vp_bert_scratch *scratch,
                             const unsigned char *text, size_t n,
                             vp_bert_word_fn take, void *ctx)
{
    const unsigned char *end = text + n;
    unsigned ends = ends_of(rules);

    while (text < end) {
        const unsigned char *next = segment_end(text, end, ends);

        VP_TRY(take_segment(rules, scratch, text, next, take, ctx));
        text = next;
    }
    return VP_OK;
}

struct output {
    const struct vp_wordpiece *wordpiece;
    struct vp_ids *ids;
};

static enum vp_status encode_word(void *ctx, const unsigned char *word,
                                  size_t n_bytes, size_t n_chars)
{
    const struct output *output = ctx;

    return vp_wordpiece_encode(output->wordpiece, word, n_bytes, n_chars,
                               output->ids);
}

enum vp_status vp_bert_encode(const struct vp_bert_rules *rules,
                              const struct vp_wordpiece *wordpiece,
                              struct vp_bert_scratch *scratch,
                              struct vp_piece_cache *cache,
                              const unsigned char *text, size_t n,
                              struct vp_ids *ids)
{
    const unsigned char *end = text + n;
    struct output output = { wordpiece, ids };
    unsigned ends = ends_of(rules);

    while (text < end) {
        const unsigned char *next;
        struct vp_piece_key key;
        size_t before = ids->n, k;

        if (*text == ' ' || *text == '\n') {
            text++;
            continue;
        }
        next = segment_end(text, end, ends);
        k = (size_t)(next - text);
        VP_TRY(vp_ids_reserve(ids, VP_PIECE_IDS));
        if (k <= VP_PIECE_BYTES) {
            key = vp_piece_key_of(text, k);
            if (vp_piece_cache_get(cache, &key, ids)) {
                text = next;
                continue;
            }
        }
        VP_TRY(take_segment(rules, scratch, text, next, encode_word, &output));
        if (k <= VP_PIECE_BYTES)
            vp_piece_cache_put(cache, &key, ids->at + before, ids->n - before);
        text = next;
    }
    return VP_OK;
}
