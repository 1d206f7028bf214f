/* Counts occurrences of words. Words are in the order of their first
 * occurrence. */
#ifndef VP_TEXT_WORD_COUNT_H
#define VP_TEXT_WORD_COUNT_H

#include "base/memory.h"
#include "base/status.h"

#include <stdint.h>

struct vp_counted_word {
    const unsigned char *bytes;
    uint32_t n_bytes;
    int64_t count;
};

/* Initialise to zero. */
struct vp_word_count {
    struct vp_counted_word *words;
    uint32_t n, capacity;
    uint32_t *slots; /* hash table of word + 1; 0: empty */
    uint32_t n_slots;
    struct vp_arena arena;
};

/* Counts one occurrence of a word, which is copied. Returns VP_OK or
 * VP_ERR_NOMEM. */
enum vp_status vp_word_count_add(struct vp_word_count *count,
                                 const unsigned char *bytes, size_t n_bytes);
void vp_word_count_release(struct vp_word_count *count);

#endif
