/* Recognises files that are not text, so that a message can name them. */
#ifndef VP_DATA_FOREIGN_H
#define VP_DATA_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

struct vp_foreign {
    const char *what;   /* "is compressed by gzip" */
    const char *remedy; /* "decompress it with 'gunzip -k FILE'" */
};

/* Files of token ids as nanoGPT, Megatron-LM and fairseq write them: *.bin and
 * *.idx. */
bool vp_foreign_is_tokens(const char *name);
/* A name as fairseq gives to its dictionaries: dict.*.txt. It is one if files
 * of token ids are in the same folder. */
bool vp_foreign_is_dictionary(const char *name);

/* By the first bytes of a file that is known not to be UTF-8, or to hold a NUL
 * byte: other encodings, compressed files, common binary formats. Returns NULL
 * if they say nothing. */
const struct vp_foreign *vp_foreign_by_head(const unsigned char *bytes,
                                            size_t n);

#endif
