/* Writes fairseq's dictionary of a tokenizer: a line for each of its ids, which
 * is id + VP_DICT_FIRST in the files. */
#ifndef VP_DATA_TOKENS_DICT_WRITE_H
#define VP_DATA_TOKENS_DICT_WRITE_H

#include "data/tokens/dict.h"
#include "text/tokenizer.h"

/* Ids of the dictionary, VP_DICT_FIRST included: a multiple of 8. */
int64_t vp_dict_size(const struct vp_tokenizer *tokenizer);

/* counts: [vp_tokenizer_size()]. Ids without a token, or with one that cannot
 * stand in a line, are called madeupword0000, madeupword0001, ... */
enum vp_status vp_dict_write(const char *path,
                             const struct vp_tokenizer *tokenizer,
                             const int64_t *counts, struct vp_err *err);

/* Refuses a dictionary whose symbols are not those that vp_dict_write() writes;
 * counts may differ. */
enum vp_status vp_dict_check(const char *path,
                             const struct vp_tokenizer *tokenizer,
                             struct vp_err *err);

#endif
