/* Conversion of stored token ids. */
#include "data/tokens/item.h"

#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "token files are little endian"
#endif

static const struct {
    const char *name;
    int64_t n_bytes;
} items[] = {
    [VP_ITEM_U8] = { "uint8", 1 },   [VP_ITEM_I8] = { "int8", 1 },
    [VP_ITEM_U16] = { "uint16", 2 }, [VP_ITEM_I16] = { "int16", 2 },
    [VP_ITEM_U32] = { "uint32", 4 }, [VP_ITEM_I32] = { "int32", 4 },
    [VP_ITEM_U64] = { "uint64", 8 }, [VP_ITEM_I64] = { "int64", 8 },
};

int64_t vp_item_bytes(enum vp_item item)
{
    return items[item].n_bytes;
}

const char *vp_item_name(enum vp_item item)
{
    return items[item].name;
}

int64_t vp_item_vocab(enum vp_item item)
{
    if (item == VP_ITEM_U8 || item == VP_ITEM_I8)
        return item == VP_ITEM_U8 ? 256 : 128;
    if (item == VP_ITEM_U16 || item == VP_ITEM_I16)
        return item == VP_ITEM_U16 ? 65536 : 32768;
    return VP_ITEM_MAX_VOCAB;
}

static int64_t number_at(enum vp_item item, const unsigned char *bytes)
{
    uint64_t bits = 0;

    memcpy(&bits, bytes, (size_t)items[item].n_bytes);
    switch (item) {
    case VP_ITEM_I8:
        return (int8_t)bits;
    case VP_ITEM_I16:
        return (int16_t)bits;
    case VP_ITEM_I32:
        return (int32_t)bits;
    case VP_ITEM_U64: /* too large for any vocabulary, but not negative */
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    default:
        return (int64_t)bits;
    }
}

static int64_t convert_any(enum vp_item item, const unsigned char *bytes,
                           int64_t n, int32_t minus, int64_t vocab,
                           int32_t *ids_out, int64_t *bad_out)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t number = number_at(item, bytes + i * items[item].n_bytes);

        /* number - minus must not overflow. */
        if (number < minus || number - minus >= vocab) {
            *bad_out = number < INT64_MIN + minus ? number : number - minus;
            return i;
        }
        ids_out[i] = (int32_t)(number - minus);
    }
    return n;
}

/* Converts the most common type without a branch in the loop. Returns the
 * largest id. */
static uint32_t convert_u16(const unsigned char *bytes, int64_t n,
                            int32_t *ids_out)
{
    uint32_t largest = 0;

    for (int64_t i = 0; i < n; i++) {
        uint16_t id;

        memcpy(&id, bytes + 2 * i, sizeof(id));
        largest = id > largest ? id : largest;
        ids_out[i] = id;
    }
    return largest;
}

int64_t vp_item_convert(enum vp_item item, const unsigned char *bytes,
                        int64_t n, int32_t minus, int64_t vocab,
                        int32_t *ids_out, int64_t *bad_out)
{
    if (item == VP_ITEM_U16 && minus == 0 &&
        convert_u16(bytes, n, ids_out) < vocab)
        return n;
    return convert_any(item, bytes, n, minus, vocab, ids_out, bad_out);
}
