/* Cuts text into the pieces that byte-level BPE encodes one by one, as the
 * regular expressions of the published tokenizers do. */
#ifndef VP_TEXT_SPLIT_H
#define VP_TEXT_SPLIT_H

#include "base/status.h"

/* Which expression. split.c has each of them as text. */
enum vp_split {
    VP_SPLIT_GPT2,
    VP_SPLIT_LLAMA3, /* digits in groups of up to three */
    VP_SPLIT_QWEN2,  /* the same, single digits */
    VP_SPLIT_COUNT,
};

/* The expression as tokenizer.json has it; NULL for GPT-2, whose expression is
 * not written there. */
const char *vp_split_regex(enum vp_split split);

/* Returns the end of the piece that begins at `at` < `end`, in valid UTF-8. */
const unsigned char *vp_split_next(enum vp_split split, const unsigned char *at,
                                   const unsigned char *end);

#endif
