/* fairseq's dictionaries: a line "symbol count" for each id from 4 on. Ids 0 to
 * 3 are <s>, <pad>, </s> and <unk>, which stand in no line. */
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

/* Reads a dictionary to see that it is one: UTF-8, a count behind the last space
 * of every line, no symbol twice unless " #fairseq:overwrite" ends its line.
 * Writes the number of ids. */
enum vp_status vp_dict_read(const char *path, int64_t *n_ids_out,
                            struct vp_err *err);

#endif
