/* An argument vector (argv) that grows, for programs that vpipe starts. */
#ifndef VP_BASE_WORDS_H
#define VP_BASE_WORDS_H

#include "base/memory.h"
#include "base/status.h"

#include <stdbool.h>

/* Initialise to zero. */
struct vp_words {
    char **at; /* `n` words, then NULL; NULL if there are none */
    int n, capacity;
    bool failed; /* out of memory or a word too long; words are missing */
    struct vp_arena arena;
};

/* Both copy the word; vp_words_addf() accepts up to 2047 characters. An error
 * sets `failed`. */
void vp_words_add(struct vp_words *words, const char *word);
void vp_words_addf(struct vp_words *words, const char *fmt, ...)
    VP_PRINTF(2, 3);
/* Adds the words of `list`, which ends with NULL. */
void vp_words_add_all(struct vp_words *words, const char *const *list);
void vp_words_release(struct vp_words *words);

#endif
