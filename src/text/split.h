/* Splits text into the pieces that byte-level BPE encodes independently, as the
 * regular expressions of published tokenizers do. */
#ifndef VP_TEXT_SPLIT_H
#define VP_TEXT_SPLIT_H

#include "base/status.h"

/* The regular expressions; split.c has their text. */
enum vp_split {
    VP_SPLIT_GPT2,
    VP_SPLIT_LLAMA3, /* digits in groups of up to three */
    VP_SPLIT_QWEN2,  /* as Llama 3, with single digits */
    VP_SPLIT_COUNT,
};

/* Returns the expression as tokenizer.json writes it; NULL for GPT-2, whose
 * expression tokenizer.json does not write. */
const char *vp_split_regex(enum vp_split split);

/* Returns the end of the piece that begins at `at` < `end`, in valid UTF-8. */
const unsigned char *vp_split_next(enum vp_split split, const unsigned char *at,
                                   const unsigned char *end);

#endif
