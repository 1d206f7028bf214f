/* Counts of pairs are in a hash table; a heap orders pairs by count. Counts in
 * the heap are corrected when an entry reaches the top. */
#include "text/pair_merger.h"

#include <stdlib.h>
#include <string.h>

#define NO_PAIR UINT64_MAX

struct word {
    size_t start; /* in `symbols` */
    uint32_t n;
    int64_t count;
};

/* Indices of words that contain a pair. */
struct places {
    uint32_t *words;
    uint32_t n, capacity;
};

/* The count of a pair, and the words in which it appeared since the last
 * merge. */
struct pair_count {
    uint64_t pair; /* left << 32 | right; NO_PAIR: an empty slot */
    int64_t count;
    struct places fresh;
};

struct entry {
    uint64_t count; /* at the time of the push; vp_pair_merger_next() corrects
                       a count that has fallen since */
    uint64_t pair;
    struct places places;
};

struct vp_pair_merger {
    struct word *words;
    uint32_t n_words, words_capacity;
    uint32_t *symbols;
    size_t n_symbols, symbols_capacity;

    struct pair_count *slots; /* hash table */
    uint32_t n_slots, n_pairs;
    uint64_t *touched; /* pairs with words in `fresh` */
    uint32_t n_touched, touched_capacity;

    struct entry *queue; /* a binary heap ordered by is_before() */
    size_t n_queue, queue_capacity;
    struct entry top; /* the current pair */
};

enum vp_status vp_pair_merger_create(struct vp_pair_merger **out)
{
    *out = calloc(1, sizeof(**out));
    return *out ? VP_OK : VP_ERR_NOMEM;
}

void vp_pair_merger_free(struct vp_pair_merger *merger)
{
    if (!merger)
        return;
    for (uint32_t i = 0; i < merger->n_slots; i++)
        if (merger->slots[i].pair != NO_PAIR)
            free(merger->slots[i].fresh.words);
    for (size_t i = 0; i < merger->n_queue; i++)
        free(merger->queue[i].places.words);
    free(merger->top.places.words);
    free(merger->words);
    free(merger->symbols);
    free(merger->slots);
    free(merger->touched);
    free(merger->queue);
    free(merger);
}

/* Makes room for one more element of `size` bytes in the array of which `array`
 * is the address of the pointer. Returns false if memory is exhausted. */
static bool grow_array(void *array, size_t n, size_t *capacity, size_t size)
{
    void *grown;

    if (n < *capacity)
        return true;
    grown = realloc(*(void **)array, (2 * n + 16) * size);
    if (!grown)
        return false;
    *(void **)array = grown;
    *capacity = 2 * n + 16;
    return true;
}

enum vp_status vp_pair_merger_add(struct vp_pair_merger *merger,
                                  const uint32_t *symbols, size_t n,
                                  int64_t count)
{
    size_t capacity = merger->words_capacity;
    uint32_t *grown;

    if (!grow_array(&merger->words, merger->n_words, &capacity,
                    sizeof(*merger->words)))
        return VP_ERR_NOMEM;
    merger->words_capacity = (uint32_t)capacity;
    if (merger->symbols_capacity - merger->n_symbols < n) {
        capacity = 2 * (merger->n_symbols + n) + 1024;
        grown = realloc(merger->symbols, capacity * sizeof(*grown));
        if (!grown)
            return VP_ERR_NOMEM;
        merger->symbols = grown;
        merger->symbols_capacity = capacity;
    }
    memcpy(merger->symbols + merger->n_symbols, symbols, n * sizeof(*symbols));
    merger->words[merger->n_words++] = (struct word){ merger->n_symbols,
                                                      (uint32_t)n, count };
    merger->n_symbols += n;
    return VP_OK;
}

/* ---- Counts of pairs ---------------------------------------------------- */

static struct pair_count *find_pair(const struct vp_pair_merger *merger,
                                    uint64_t pair)
{
    uint32_t mask = merger->n_slots - 1;
    uint32_t slot = (uint32_t)(pair * UINT64_C(0x9E3779B97F4A7C15) >> 32);

    slot &= mask;
    while (merger->slots[slot].pair != NO_PAIR &&
           merger->slots[slot].pair != pair)
        slot = (slot + 1) & mask;
    return &merger->slots[slot];
}

static enum vp_status grow_slots(struct vp_pair_merger *merger)
{
    struct pair_count *old = merger->slots;
    uint32_t n_old = merger->n_slots;
    uint32_t n_slots = n_old ? 2 * n_old : 1 << 14;
    struct pair_count *slots = malloc(n_slots * sizeof(*slots));

    if (!slots)
        return VP_ERR_NOMEM;
    for (uint32_t i = 0; i < n_slots; i++)
        slots[i].pair = NO_PAIR;
    merger->slots = slots;
    merger->n_slots = n_slots;
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i].pair != NO_PAIR)
            *find_pair(merger, old[i].pair) = old[i];
    free(old);
    return VP_OK;
}

static enum vp_status add_place(struct vp_pair_merger *merger,
                                struct pair_count *pair, uint32_t word)
{
    struct places *fresh = &pair->fresh;
    size_t capacity = fresh->capacity;

    if (fresh->n > 0 && fresh->words[fresh->n - 1] == word)
        return VP_OK;
    if (fresh->n == 0) {
        size_t touched = merger->touched_capacity;

        if (!grow_array(&merger->touched, merger->n_touched, &touched,
                        sizeof(*merger->touched)))
            return VP_ERR_NOMEM;
        merger->touched_capacity = (uint32_t)touched;
        merger->touched[merger->n_touched++] = pair->pair;
    }
    if (!grow_array(&fresh->words, fresh->n, &capacity, sizeof(uint32_t)))
        return VP_ERR_NOMEM;
    fresh->capacity = (uint32_t)capacity;
    fresh->words[fresh->n++] = word;
    return VP_OK;
}

/* Counts that a pair appears (`sign` 1) or disappears (-1) once in a word. */
static enum vp_status change_count(struct vp_pair_merger *merger, uint32_t left,
                                   uint32_t right, int sign, uint32_t word)
{
    uint64_t pair = (uint64_t)left << 32 | right;
    struct pair_count *found;

    if (2 * (merger->n_pairs + 1) > merger->n_slots)
        VP_TRY(grow_slots(merger));
    found = find_pair(merger, pair);
    if (found->pair == NO_PAIR) {
        *found = (struct pair_count){ .pair = pair };
        merger->n_pairs++;
    }
    found->count += sign * merger->words[word].count;
    return sign > 0 ? add_place(merger, found, word) : VP_OK;
}

/* ---- The queue ---------------------------------------------------------- */

/* Returns true if `a` comes first: higher count, then smaller ids. */
static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static enum vp_status push(struct vp_pair_merger *merger, struct entry entry)
{
    size_t i = merger->n_queue;
    struct entry *heap;

    if (!grow_array(&merger->queue, merger->n_queue, &merger->queue_capacity,
                    sizeof(*merger->queue)))
        return VP_ERR_NOMEM;
    heap = merger->queue;
    merger->n_queue++;
    for (; i > 0 && is_before(&entry, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = entry;
    return VP_OK;
}

/* Replaces the first entry of the heap by `entry` and restores the order. */
static void replace_first(struct entry *heap, size_t n, struct entry entry)
{
    size_t i = 0, child;

    while ((child = 2 * i + 1) < n) {
        if (child + 1 < n && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &entry))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = entry;
}

/* Moves the `fresh` words of all touched pairs to the queue. */
static enum vp_status push_fresh(struct vp_pair_merger *merger)
{
    enum vp_status st = VP_OK;

    for (uint32_t i = 0; i < merger->n_touched; i++) {
        struct pair_count *pair = find_pair(merger, merger->touched[i]);
        struct places fresh = pair->fresh;

        pair->fresh = (struct places){ .n = 0 };
        if (st == VP_OK && pair->count > 0)
            st = push(merger, (struct entry){ (uint64_t)pair->count, pair->pair,
                                              fresh });
        if (st != VP_OK || pair->count <= 0)
            free(fresh.words);
    }
    merger->n_touched = 0;
    return st;
}

/* ---- Merging ------------------------------------------------------------ */

enum vp_status vp_pair_merger_start(struct vp_pair_merger *merger)
{
    for (uint32_t w = 0; w < merger->n_words; w++) {
        const struct word *word = &merger->words[w];
        const uint32_t *symbols = merger->symbols + word->start;

        for (uint32_t i = 0; i + 1 < word->n; i++)
            VP_TRY(change_count(merger, symbols[i], symbols[i + 1], 1, w));
    }
    return push_fresh(merger);
}

bool vp_pair_merger_next(struct vp_pair_merger *merger, struct vp_pair *out)
{
    while (merger->n_queue > 0) {
        struct entry top = merger->queue[0];
        uint64_t count = (uint64_t)find_pair(merger, top.pair)->count;

        if (top.count != count) {
            top.count = count;
            replace_first(merger->queue, merger->n_queue, top);
            continue;
        }
        merger->n_queue--;
        if (merger->n_queue > 0)
            replace_first(merger->queue, merger->n_queue,
                          merger->queue[merger->n_queue]);
        free(merger->top.places.words);
        merger->top = top;
        *out = (struct vp_pair){ (uint32_t)(top.pair >> 32), (uint32_t)top.pair,
                                 count };
        return true;
    }
    return false;
}

/* Merges in one word, from left to right without overlap. The count of the
 * merged pair itself is not lowered, as in Hugging Face. */
static enum vp_status merge_word(struct vp_pair_merger *merger, uint32_t w,
                                 uint32_t left, uint32_t right, uint32_t symbol)
{
    struct word *word = &merger->words[w];
    uint32_t *at = merger->symbols + word->start;
    uint32_t n = 0;

    for (uint32_t i = 0; i < word->n; n++) {
        if (at[i] != left || i + 1 == word->n || at[i + 1] != right) {
            at[n] = at[i++];
            continue;
        }
        if (n > 0) {
            VP_TRY(change_count(merger, at[n - 1], left, -1, w));
            VP_TRY(change_count(merger, at[n - 1], symbol, 1, w));
        }
        i += 2;
        if (i < word->n) {
            VP_TRY(change_count(merger, right, at[i], -1, w));
            VP_TRY(change_count(merger, symbol, at[i], 1, w));
        }
        at[n] = symbol;
    }
    word->n = n;
    return VP_OK;
}

enum vp_status vp_pair_merger_merge(struct vp_pair_merger *merger,
                                    uint32_t symbol)
{
    uint32_t left = (uint32_t)(merger->top.pair >> 32);
    uint32_t right = (uint32_t)merger->top.pair;

    for (uint32_t i = 0; i < merger->top.places.n; i++)
        VP_TRY(merge_word(merger, merger->top.places.words[i], left, right,
                          symbol));
    return push_fresh(merger);
}
