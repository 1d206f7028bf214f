/* Token ids as files store them: integers of several widths, little endian. */
#ifndef VP_DATA_TOKENS_ITEM_H
#define VP_DATA_TOKENS_ITEM_H

#include <stdint.h>

enum vp_item {
    VP_ITEM_U8,
    VP_ITEM_I8,
    VP_ITEM_U16,
    VP_ITEM_I16,
    VP_ITEM_U32,
    VP_ITEM_I32,
    VP_ITEM_U64,
    VP_ITEM_I64,
};

/* Ids are below this, whatever the type. */
enum { VP_ITEM_MAX_VOCAB = 1 << 24 };

int64_t vp_item_bytes(enum vp_item item);
const char *vp_item_name(enum vp_item item); /* "uint16" */
/* The smallest vocabulary that is known to hold every id. */
int64_t vp_item_vocab(enum vp_item item);

/* Writes `n` ids: the stored numbers less `minus`. Returns `n`, or the place of
 * the first id that is not in 0 to vocab - 1, and that id in *bad_out; what is
 * in ids_out then is undefined. */
int64_t vp_item_convert(enum vp_item item, const unsigned char *bytes,
                        int64_t n, int32_t minus, int64_t vocab,
                        int32_t *ids_out, int64_t *bad_out);

#endif
