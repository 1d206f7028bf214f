/* Options for training a vocabulary. */
#ifndef VP_TEXT_VOCAB_OPTIONS_H
#define VP_TEXT_VOCAB_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct vp_vocab_options {
    bool wordpiece;             /* else byte-level BPE */
    bool cased;                 /* WordPiece: keeps case and accents */
    int size;                   /* tokens, at most */
    int64_t min_count;          /* pairs that occur less often are not merged */
    int max_characters;         /* WordPiece: keeps the most frequent; 0: all */
    const char *const *special; /* special tokens, which get the first ids */
    int n_special;
};

#endif
