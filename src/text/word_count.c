/* Words are in an array in order of appearance; an open hash table finds
 * them. */
#include "text/word_count.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash_word(const unsigned char *bytes, size_t n)
{
    uint64_t hash = n;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 32);
}

void vp_word_count_release(struct vp_word_count *count)
{
    free(count->words);
    free(count->slots);
    vp_arena_release(&count->arena);
    memset(count, 0, sizeof(*count));
}

static uint32_t find_slot(const struct vp_word_count *count,
                          const unsigned char *bytes, size_t n)
{
    uint32_t mask = count->n_slots - 1, slot = hash_word(bytes, n) & mask;

    for (; count->slots[slot] != 0; slot = (slot + 1) & mask) {
        const struct vp_counted_word *word =
            &count->words[count->slots[slot] - 1];

        if (word->n_bytes == n && memcmp(word->bytes, bytes, n) == 0)
            break;
    }
    return slot;
}

static enum vp_status grow(struct vp_word_count *count)
{
    uint32_t n_slots = count->n_slots ? 2 * count->n_slots : 1 << 12;
    uint32_t *slots = calloc(n_slots, sizeof(*slots));
    struct vp_counted_word *words = realloc(count->words,
                                            n_slots / 2 * sizeof(*words));

    if (words)
        count->words = words;
    if (!slots || !words) {
        free(slots);
        return VP_ERR_NOMEM;
    }
    free(count->slots);
    count->slots = slots;
    count->n_slots = n_slots;
    count->capacity = n_slots / 2;
    for (uint32_t i = 0; i < count->n; i++)
        slots[find_slot(count, words[i].bytes, words[i].n_bytes)] = i + 1;
    return VP_OK;
}

enum vp_status vp_word_count_add(struct vp_word_count *count,
                                 const unsigned char *bytes, size_t n_bytes)
{
    uint32_t slot;
    unsigned char *copy;

    if (count->n == count->capacity)
        VP_TRY(grow(count));
    slot = find_slot(count, bytes, n_bytes);
    if (count->slots[slot] != 0) {
        count->words[count->slots[slot] - 1].count++;
        return VP_OK;
    }
    copy = vp_arena_alloc(&count->arena, n_bytes);
    if (!copy)
        return VP_ERR_NOMEM;
    memcpy(copy, bytes, n_bytes);
    count->words[count->n] = (struct vp_counted_word){ copy, (uint32_t)n_bytes,
                                                       1 };
    count->slots[slot] = ++count->n;
    return VP_OK;
}
