/* Integer types of token ids in files, and conversion to int32. All are little
 * endian. */
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

/* Ids must be below this, whatever the type. */
enum { VP_ITEM_MAX_VOCAB = 1 << 24 };

int64_t vp_item_bytes(enum vp_item item);
const char *vp_item_name(enum vp_item item); /* "uint16" */
/* Returns the smallest vocabulary that is certain to hold every id of the type,
 * at most VP_ITEM_MAX_VOCAB. */
int64_t vp_item_vocab(enum vp_item item);

/* Writes `n` ids: the stored numbers minus `minus`. Returns `n`, or the index
 * of the first id that is not in 0 to vocab - 1; then *bad_out is that id, and
 * the content of ids_out is undefined. */
int64_t vp_item_convert(enum vp_item item, const unsigned char *bytes,
                        int64_t n, int32_t minus, int64_t vocab,
                        int32_t *ids_out, int64_t *bad_out);

#endif
