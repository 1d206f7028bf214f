/* An argument vector that grows. */
#ifndef VP_BASE_WORDS_H
#define VP_BASE_WORDS_H

#include "base/memory.h"
#include "base/status.h"

#include <stdbool.h>

struct vp_words {
    char **at; /* n of them, then NULL; all zero: none */
    int n, capacity;
    bool failed; /* out of memory; words are missing */
    struct vp_arena arena;
};

void vp_words_add(struct vp_words *words, const char *word);
void vp_words_addf(struct vp_words *words, const char *fmt, ...)
    VP_PRINTF(2, 3);
/* Several, up to a NULL. */
void vp_words_add_all(struct vp_words *words, const char *const *list);
void vp_words_release(struct vp_words *words);

#endif
