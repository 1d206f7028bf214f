/* Short pieces are merged by scanning all pairs, long ones with a heap, so that
 * time stays below quadratic. */
#include "text/bpe.h"

#include "text/byte_alphabet.h"

#include <stdlib.h>
#include <string.h>

/* Pieces of up to FEW symbols are merged by scanning all pairs. */
enum { FEW = 64 };
#define UNMERGED UINT64_MAX

void vp_bpe_init(struct vp_bpe *bpe, const struct vp_vocabulary *vocabulary)
{
    memset(bpe, 0, sizeof(*bpe));
    for (int byte = 0; byte < 256; byte++) {
        unsigned char text[VP_CODE_POINT_BYTES];
        size_t n = vp_code_point_put(vp_byte_alphabet_char((unsigned char)byte),
                                     text);

        bpe->byte_ids[byte] = vp_vocabulary_find(vocabulary, (char *)text, n);
    }
}

void vp_bpe_release(struct vp_bpe *bpe)
{
    free(bpe->merges);
    memset(bpe, 0, sizeof(*bpe));
}

void vp_bpe_scratch_release(struct vp_bpe_scratch *scratch)
{
    free(scratch->symbols);
    free(scratch->heap);
    memset(scratch, 0, sizeof(*scratch));
}

/* ---- The table of merges ------------------------------------------------ */

static struct vp_bpe_merge *find_slot(const struct vp_bpe *bpe, uint64_t pair)
{
    uint32_t mask = bpe->n_slots - 1;
    uint32_t slot = (uint32_t)(pair * UINT64_C(0x9E3779B97F4A7C15) >> 32);

    slot &= mask;
    while (bpe->merges[slot].pair != VP_BPE_NO_PAIR &&
           bpe->merges[slot].pair != pair)
        slot = (slot + 1) & mask;
    return &bpe->merges[slot];
}

static enum vp_status grow(struct vp_bpe *bpe)
{
    struct vp_bpe old = *bpe;

    bpe->n_slots = old.n_slots ? 2 * old.n_slots : 1024;
    bpe->merges = malloc(bpe->n_slots * sizeof(*bpe->merges));
    if (!bpe->merges) {
        *bpe = old;
        return VP_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < bpe->n_slots; i++)
        bpe->merges[i].pair = VP_BPE_NO_PAIR;
    for (uint32_t i = 0; i < old.n_slots; i++)
        if (old.merges[i].pair != VP_BPE_NO_PAIR)
            *find_slot(bpe, old.merges[i].pair) = old.merges[i];
    free(old.merges);
    return VP_OK;
}

enum vp_status vp_bpe_add(struct vp_bpe *bpe, uint32_t left, uint32_t right,
                          uint32_t id)
{
    uint64_t pair = (uint64_t)left << 32 | right;

    if (4 * (bpe->n_merges + 1) > bpe->n_slots)
        VP_TRY(grow(bpe));
    *find_slot(bpe, pair) = (struct vp_bpe_merge){ pair, bpe->n_merges++, id };
    return VP_OK;
}

/* Returns the merge of two symbols as rank << 32 | id, so that the smallest is
 * the next to do. UNMERGED if there is none. */
static uint64_t merge_of(const struct vp_bpe *bpe, uint32_t left,
                         uint32_t right)
{
    const struct vp_bpe_merge *merge;

    if (bpe->n_slots == 0)
        return UNMERGED;
    merge = find_slot(bpe, (uint64_t)left << 32 | right);
    return merge->pair == VP_BPE_NO_PAIR
               ? UNMERGED
               : (uint64_t)merge->rank << 32 | merge->id;
}

/* ---- Short pieces ------------------------------------------------------- */

static size_t lowest(const uint64_t *merges, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (merges[i] < merges[best])
            best = i;
    return best;
}

/* Merges n > 1 symbols in place. Returns the number of symbols left. */
static size_t merge_few(const struct vp_bpe *bpe, uint32_t *ids, size_t n)
{
    uint64_t merges[FEW]; /* n - 1 entries: merge of symbols i and i + 1 */

    for (size_t i = 0; i + 1 < n; i++)
        merges[i] = merge_of(bpe, ids[i], ids[i + 1]);
    while (n > 1) {
        size_t i = lowest(merges, n - 1);

        if (merges[i] == UNMERGED)
            break;
        ids[i] = (uint32_t)merges[i];
        n--;
        memmove(ids + i + 1, ids + i + 2, (n - i - 1) * sizeof(*ids));
        if (i + 1 < n)
            memmove(merges + i, merges + i + 1, (n - 1 - i) * sizeof(*merges));
        if (i > 0)
            merges[i - 1] = merge_of(bpe, ids[i - 1], ids[i]);
        if (i + 1 < n)
            merges[i] = merge_of(bpe, ids[i], ids[i + 1]);
    }
    return n;
}

/* ---- Long pieces -------------------------------------------------------- */

/* Symbols form a doubly linked list; the heap orders their merges by rank, then
 * by place. Heap entries whose symbols have changed since are skipped. */
struct vp_bpe_symbol {
    uint32_t id;
    uint32_t before, after; /* neighbours; the number of symbols: none */
    uint64_t merge;         /* with the symbol `after`: see merge_of() */
};

static enum vp_status reserve(struct vp_bpe_scratch *scratch, size_t n)
{
    if (scratch->capacity >= n)
        return VP_OK;
    vp_bpe_scratch_release(scratch);
    if (n > UINT32_MAX / 2)
        return VP_ERR_NOMEM;
    scratch->symbols = malloc(2 * n * sizeof(*scratch->symbols));
    /* Each symbol is pushed once, and each of at most n merges pushes two. */
    scratch->heap = malloc(2 * n * 3 * sizeof(*scratch->heap));
    if (!scratch->symbols || !scratch->heap) {
        vp_bpe_scratch_release(scratch);
        return VP_ERR_NOMEM;
    }
    scratch->capacity = 2 * n;
    return VP_OK;
}

static void heap_push(uint64_t *heap, size_t *n, uint64_t entry)
{
    size_t i = (*n)++;

    for (; i > 0 && heap[(i - 1) / 2] > entry; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = entry;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
    uint64_t top = heap[0], last = heap[--*n];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < *n) {
        if (child + 1 < *n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* Pushes the merge of the symbol at `place` with the next symbol, if any. */
static void push_merge(const struct vp_bpe *bpe, struct vp_bpe_scratch *scratch,
                       uint32_t place, size_t *n_heap)
{
    struct vp_bpe_symbol *symbol = &scratch->symbols[place];

    symbol->merge = merge_of(bpe, symbol->id,
                             scratch->symbols[symbol->after].id);
    if (symbol->merge != UNMERGED)
        heap_push(scratch->heap, n_heap, (symbol->merge >> 32 << 32) | place);
}

/* Merges n > 1 symbols in place. Returns the number of symbols left. */
static size_t merge_many(const struct vp_bpe *bpe,
                         struct vp_bpe_scratch *scratch, uint32_t *ids,
                         size_t n)
{
    struct vp_bpe_symbol *symbols = scratch->symbols;
    uint32_t none = (uint32_t)n;
    size_t n_heap = 0, n_left = 0;

    for (uint32_t i = 0; i < n; i++)
        symbols[i] = (struct vp_bpe_symbol){ ids[i], i > 0 ? i - 1 : none,
                                             i + 1, UNMERGED };
    for (uint32_t i = 0; i + 1 < n; i++)
        push_merge(bpe, scratch, i, &n_heap);
    while (n_heap > 0) {
        uint64_t top = heap_pop(scratch->heap, &n_heap);
        struct vp_bpe_symbol *left = &symbols[(uint32_t)top], *right;

        if (left->merge == UNMERGED || left->merge >> 32 != top >> 32)
            continue;
        right = &symbols[left->after];
        left->id = (uint32_t)left->merge;
        left->after = right->after;
        left->merge = right->merge = UNMERGED;
        if (left->after != none) {
            symbols[left->after].before = (uint32_t)top;
            push_merge(bpe, scratch, (uint32_t)top, &n_heap);
        }
        if (left->before != none)
            push_merge(bpe, scratch, left->before, &n_heap);
    }
    for (uint32_t i = 0; i != none; i = symbols[i].after)
        ids[n_left++] = symbols[i].id;
    return n_left;
}

/* ---- A piece ------------------------------------------------------------ */

enum vp_status vp_bpe_encode(const struct vp_bpe *bpe,
                             struct vp_bpe_scratch *scratch,
                             const unsigned char *piece, size_t n,
                             struct vp_ids *ids)
{
    uint32_t *out;
    size_t n_symbols = 0;

    VP_TRY(vp_ids_reserve(ids, n));
    out = ids->at + ids->n;
    for (size_t i = 0; i < n; i++) {
        int32_t id = bpe->byte_ids[piece[i]];

        if (id != VP_TOKEN_NONE)
            out[n_symbols++] = (uint32_t)id;
    }
    if (n_symbols > FEW) {
        VP_TRY(reserve(scratch, n_symbols));
        n_symbols = merge_many(bpe, scratch, out, n_symbols);
    } else if (n_symbols > 1) {
        n_symbols = merge_few(bpe, out, n_symbols);
    }
    ids->n += n_symbols;
    return VP_OK;
}
