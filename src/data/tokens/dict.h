/* fairseq's dictionaries: a line "symbol count" for each id from 4 on. Ids 0 to
 * 3 are <s>, <pad>, </s> and <unk>, which have no lines. */
#ifndef VP_DATA_TOKENS_DICT_H
#define VP_DATA_TOKENS_DICT_H

#include "base/status.h"

#include <stdint.h>

enum {
    VP_DICT_BEGIN,
    VP_DICT_PAD,
    VP_DICT_END,
    VP_DICT_UNKNOWN,
    VP_DICT_FIRST, /* id of the first line */
};

/* Checks a dictionary: UTF-8, a count after the last space of every line, no
 * symbol twice unless its line ends in " #fairseq:overwrite". Writes the number
 * of ids, special ones included. */
enum vp_status vp_dict_read(const char *path, int64_t *n_ids_out,
                            struct vp_err *err);

#endif
