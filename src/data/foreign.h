/* Recognises files that are not UTF-8 text, so that an error message can name
 * their format. */
#ifndef VP_DATA_FOREIGN_H
#define VP_DATA_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

struct vp_foreign {
    const char *what;   /* "is compressed by gzip" */
    const char *remedy; /* "decompress it with 'gunzip -k FILE'" */
};

/* True for names of token files of nanoGPT, Megatron-LM and fairseq: *.bin and
 * *.idx. */
bool vp_foreign_is_tokens(const char *name);
/* True for names like fairseq's dictionaries: dict.*.txt. The caller must check
 * that token files are in the same folder: text may have such a name, too. */
bool vp_foreign_is_dictionary(const char *name);

/* Detects other encodings, compressed files and common binary formats by the
 * first bytes of a file that is not valid UTF-8 or holds a NUL byte. Returns
 * NULL if the format is unknown. */
const struct vp_foreign *vp_foreign_by_head(const unsigned char *bytes,
                                            size_t n);

#endif
