/* Trains a vocabulary: counts words, adds single characters or bytes, then
 * merges the most frequent pairs. */
#include "text/vocab_trainer.h"

#include "base/utf8.h"

#include "text/byte_alphabet.h"
#include "text/split.h"
#include "text/vocab_trainer_internal.h"

#include <stdlib.h>
#include <string.h>

enum vp_status vp_vocab_trainer_create(const struct vp_vocab_options *options,
                                       struct vp_vocab_trainer **out)
{
    struct vp_vocab_trainer *trainer = calloc(1, sizeof(*trainer));

    if (!trainer)
        return VP_ERR_NOMEM;
    trainer->options = *options;
    trainer->rules = (struct vp_bert_rules){ true, true, !options->cased,
                                             !options->cased };
    *out = trainer;
    return VP_OK;
}

void vp_vocab_trainer_free(struct vp_vocab_trainer *trainer)
{
    if (!trainer)
        return;
    vp_word_count_release(&trainer->words);
    vp_bert_scratch_release(&trainer->scratch);
    vp_vocabulary_release(&trainer->vocabulary);
    free(trainer->merges);
    free(trainer);
}

/* ---- Counting ----------------------------------------------------------- */

static enum vp_status count_word(void *ctx, const unsigned char *word,
                                 size_t n_bytes, size_t n_chars)
{
    struct vp_vocab_trainer *trainer = ctx;

    (void)n_chars;
    return vp_word_count_add(&trainer->words, word, n_bytes);
}

static enum vp_status count_valid(struct vp_vocab_trainer *trainer,
                                  const unsigned char *text, size_t n)
{
    const unsigned char *end = text + n;

    if (trainer->options.wordpiece)
        return vp_bert_words(&trainer->rules, &trainer->scratch, text, n,
                             count_word, trainer);
    while (text < end) {
        const unsigned char *next = vp_split_next(VP_SPLIT_GPT2, text, end);

        VP_TRY(vp_word_count_add(&trainer->words, text, (size_t)(next - text)));
        text = next;
    }
    return VP_OK;
}

enum vp_status vp_vocab_trainer_add(struct vp_vocab_trainer *trainer,
                                    const void *text, size_t n)
{
    unsigned char *repaired;
    enum vp_status st;

    if (vp_utf8_is_valid(VP_UTF8_ANY, text, n))
        return count_valid(trainer, text, n);
    repaired = malloc(3 * n);
    if (!repaired)
        return VP_ERR_NOMEM;
    st = count_valid(trainer, repaired,
                     vp_utf8_replace(VP_UTF8_ANY, text, n, repaired, NULL));
    free(repaired);
    return st;
}

/* ---- First tokens ------------------------------------------------------- */

/* Adds a token unless the vocabulary has it, and writes its id to `id_out`,
 * which may be NULL. */
static enum vp_status add_token(struct vp_vocab_trainer *trainer,
                                const char *bytes, size_t n, uint32_t *id_out)
{
    struct vp_vocabulary *vocabulary = &trainer->vocabulary;
    int32_t id = vp_vocabulary_find(vocabulary, bytes, n);

    if (id == VP_TOKEN_NONE) {
        id = vocabulary->n;
        VP_TRY(vp_vocabulary_add(vocabulary, bytes, n, id, NULL));
    }
    if (id_out)
        *id_out = (uint32_t)id;
    return VP_OK;
}

/* Writes the token of a character: "x", or "##x" inside a word. Returns its
 * length. */
static size_t spell(uint32_t c, bool inside, char out[8])
{
    size_t n = inside ? strlen(VP_VOCAB_PREFIX) : 0;

    memcpy(out, VP_VOCAB_PREFIX, n);
    return n + vp_code_point_put(c, (unsigned char *)out + n);
}

static enum vp_status add_bytes(struct vp_vocab_trainer *trainer)
{
    char text[8];

    for (uint32_t c = 0; c < 0x200; c++)
        if (vp_byte_alphabet_byte(c) >= 0)
            VP_TRY(add_token(trainer, text, spell(c, false, text), NULL));
    return VP_OK;
}

enum { N_CODE_POINTS = 0x110000 };

struct character {
    uint32_t c;
    int64_t count;
};

/* Orders by descending count, then by code point. */
static int by_count(const void *a, const void *b)
{
    const struct character *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x->c > y->c) - (x->c < y->c);
}

/* Sets counts[c] to 0 for all but the `max` most frequent characters; `max` 0
 * keeps all. */
static enum vp_status drop_rare(int64_t *counts, int max)
{
    struct character *list;
    size_t n = 0;

    for (uint32_t c = 0; c < N_CODE_POINTS; c++)
        n += counts[c] > 0;
    if (max == 0 || n <= (size_t)max)
        return VP_OK;
    list = malloc(n * sizeof(*list));
    if (!list)
        return VP_ERR_NOMEM;
    n = 0;
    for (uint32_t c = 0; c < N_CODE_POINTS; c++)
        if (counts[c] > 0)
            list[n++] = (struct character){ c, counts[c] };
    qsort(list, n, sizeof(*list), by_count);
    for (size_t i = (size_t)max; i < n; i++)
        counts[list[i].c] = 0;
    free(list);
    return VP_OK;
}

/* Adds all occurrences of c to counts[c], and sets inside[c] if c occurs after
 * the first character of a word. */
static void count_characters(const struct vp_word_count *words, int64_t *counts,
                             bool *inside)
{
    for (uint32_t i = 0; i < words->n; i++) {
        const struct vp_counted_word *word = &words->words[i];
        uint32_t c;

        for (uint32_t k = 0; k < word->n_bytes;) {
            bool first = k == 0;

            k += (uint32_t)vp_code_point_take(word->bytes + k, &c);
            counts[c] += word->count;
            inside[c] |= !first;
        }
    }
}

static enum vp_status add_characters(struct vp_vocab_trainer *trainer)
{
    int64_t *counts = calloc(N_CODE_POINTS, sizeof(*counts));
    bool *inside = calloc(N_CODE_POINTS, sizeof(*inside));
    enum vp_status st = counts && inside ? VP_OK : VP_ERR_NOMEM;
    char text[8];

    if (st == VP_OK) {
        count_characters(&trainer->words, counts, inside);
        st = drop_rare(counts, trainer->options.max_characters);
    }
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t c = 0; st == VP_OK && c < N_CODE_POINTS; c++)
            if (counts[c] > 0 && (pass == 0 || inside[c]))
                st = add_token(trainer, text, spell(c, pass == 1, text), NULL);
    free(counts);
    free(inside);
    return st;
}

/* ---- Words as symbols --------------------------------------------------- */

/* Writes the symbols of a word without characters that have no token. Returns
 * their number. */
static size_t to_symbols(const struct vp_vocab_trainer *trainer,
                         const struct vp_counted_word *word, uint32_t *out)
{
    bool wordpiece = trainer->options.wordpiece;
    size_t n = 0;
    char text[8];

    for (uint32_t k = 0; k < word->n_bytes;) {
        bool first = k == 0;
        uint32_t c;
        int32_t id;

        if (wordpiece)
            k += (uint32_t)vp_code_point_take(word->bytes + k, &c);
        else
            c = vp_byte_alphabet_char(word->bytes[k++]);
        id = vp_vocabulary_find(&trainer->vocabulary, text,
                                spell(c, wordpiece && !first, text));
        if (id != VP_TOKEN_NONE)
            out[n++] = (uint32_t)id;
    }
    return n;
}

static enum vp_status add_words(const struct vp_vocab_trainer *trainer,
                                struct vp_pair_merger *merger)
{
    const struct vp_word_count *words = &trainer->words;
    enum vp_status st = VP_OK;
    uint32_t *symbols, longest = 1;

    for (uint32_t i = 0; i < words->n; i++)
        if (words->words[i].n_bytes > longest)
            longest = words->words[i].n_bytes;
    symbols = malloc(longest * sizeof(*symbols));
    if (!symbols)
        return VP_ERR_NOMEM;
    for (uint32_t i = 0; st == VP_OK && i < words->n; i++)
        st = vp_pair_merger_add(merger, symbols,
                                to_symbols(trainer, &words->words[i], symbols),
                                words->words[i].count);
    free(symbols);
    return st == VP_OK ? vp_pair_merger_start(merger) : st;
}

/* ---- Merges ------------------------------------------------------------- */

static enum vp_status keep_merge(struct vp_vocab_trainer *trainer,
                                 uint32_t left, uint32_t right)
{
    struct vp_vocab_merge *merges;
    int capacity = 2 * trainer->n_merges + 1024;

    if (trainer->n_merges == trainer->capacity) {
        merges = realloc(trainer->merges, (size_t)capacity * sizeof(*merges));
        if (!merges)
            return VP_ERR_NOMEM;
        trainer->merges = merges;
        trainer->capacity = capacity;
    }
    trainer->merges[trainer->n_merges++] = (struct vp_vocab_merge){ left,
                                                                    right };
    return VP_OK;
}

/* Adds the token that two others make, without the prefix of the second. */
static enum vp_status join(struct vp_vocab_trainer *trainer, uint32_t left,
                           uint32_t right, uint32_t *id_out)
{
    const struct vp_token *a = &trainer->vocabulary.tokens[left];
    const struct vp_token *b = &trainer->vocabulary.tokens[right];
    size_t skip = 0, n_prefix = strlen(VP_VOCAB_PREFIX), n;
    enum vp_status st;
    char *joined;

    if (trainer->options.wordpiece && b->n_bytes >= n_prefix &&
        memcmp(b->bytes, VP_VOCAB_PREFIX, n_prefix) == 0)
        skip = n_prefix;
    n = a->n_bytes + b->n_bytes - skip;
    joined = malloc(n + 1);
    if (!joined)
        return VP_ERR_NOMEM;
    memcpy(joined, a->bytes, a->n_bytes);
    memcpy(joined + a->n_bytes, b->bytes + skip, b->n_bytes - skip);
    st = add_token(trainer, joined, n, id_out);
    free(joined);
    return st;
}

static enum vp_status merge_all(struct vp_vocab_trainer *trainer,
                                struct vp_pair_merger *merger)
{
    uint64_t min_count = trainer->options.min_count > 1
                             ? (uint64_t)trainer->options.min_count
                             : 1;
    struct vp_pair pair;

    while (trainer->vocabulary.n < trainer->options.size &&
           vp_pair_merger_next(merger, &pair) && pair.count >= min_count) {
        uint32_t id;

        VP_TRY(join(trainer, pair.left, pair.right, &id));
        VP_TRY(keep_merge(trainer, pair.left, pair.right));
        VP_TRY(vp_pair_merger_merge(merger, id));
    }
    return VP_OK;
}

/* A merge with its rank, ordered by by_pair(). */
struct ranked {
    uint64_t pair;
    int rank;
};

static int by_pair(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->pair != y->pair)
        return x->pair < y->pair ? -1 : 1;
    return x->rank - y->rank;
}

/* Keeps only the last merge of each pair. A pair is merged again if later
 * merges of other pairs produce its tokens anew. */
static enum vp_status drop_repeated(struct vp_vocab_trainer *trainer)
{
    struct vp_vocab_merge *merges = trainer->merges;
    int n = trainer->n_merges, kept = 0;
    struct ranked *list = malloc(((size_t)n + 1) * sizeof(*list));

    if (!list)
        return VP_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        list[i] = (struct ranked){
            (uint64_t)merges[i].left << 32 | merges[i].right, i
        };
    qsort(list, (size_t)n, sizeof(*list), by_pair);
    for (int i = 0; i + 1 < n; i++)
        if (list[i].pair == list[i + 1].pair)
            merges[list[i].rank] = (struct vp_vocab_merge){ UINT32_MAX, 0 };
    free(list);
    for (int i = 0; i < n; i++)
        if (merges[i].left != UINT32_MAX)
            merges[kept++] = merges[i];
    trainer->n_merges = kept;
    return VP_OK;
}

enum vp_status vp_vocab_trainer_run(struct vp_vocab_trainer *trainer,
                                    struct vp_err *err)
{
    const struct vp_vocab_options *options = &trainer->options;
    struct vp_pair_merger *merger;
    enum vp_status st;

    for (int i = 0; i < options->n_special; i++)
        VP_TRY(add_token(trainer, options->special[i],
                         strlen(options->special[i]), NULL));
    VP_TRY(options->wordpiece ? add_characters(trainer) : add_bytes(trainer));
    if (trainer->vocabulary.n > options->size)
        return vp_err_refuse(err, "size",
                             "special tokens and single characters are %d "
                             "tokens, more than %d; ask for more tokens%s",
                             trainer->vocabulary.n, options->size,
                             options->wordpiece ? " or fewer characters" : "");
    VP_TRY(vp_pair_merger_create(&merger));
    st = add_words(trainer, merger);
    if (st == VP_OK)
        st = merge_all(trainer, merger);
    vp_pair_merger_free(merger);
    return st == VP_OK ? drop_repeated(trainer) : st;
}

struct vp_vocab_result vp_vocab_trainer_result(
    const struct vp_vocab_trainer *trainer)
{
    return (struct vp_vocab_result){ trainer->vocabulary.n, trainer->n_merges,
                                     trainer->words.n };
}
