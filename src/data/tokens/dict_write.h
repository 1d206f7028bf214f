/* Writes a tokenizer as a fairseq dictionary: one line per id. The ids in the
 * token files are those of the tokenizer plus VP_DICT_FIRST. */
#ifndef VP_DATA_TOKENS_DICT_WRITE_H
#define VP_DATA_TOKENS_DICT_WRITE_H

#include "data/tokens/dict.h"
#include "text/tokenizer.h"

/* Returns the number of ids of the dictionary with its special ids, rounded up
 * to a multiple of 8. */
int64_t vp_dict_size(const struct vp_tokenizer *tokenizer);

/* Writes the dictionary to `path`. counts: [vp_tokenizer_size()]. Ids without a
 * token, or with a token that a line cannot hold, get the symbols
 * madeupword0000, madeupword0001, ... */
enum vp_status vp_dict_write(const char *path,
                             const struct vp_tokenizer *tokenizer,
                             const int64_t *counts, struct vp_err *err);

/* Refuses a dictionary whose symbols differ from those that vp_dict_write()
 * would write; counts may differ. */
enum vp_status vp_dict_check(const char *path,
                             const struct vp_tokenizer *tokenizer,
                             struct vp_err *err);

#endif
