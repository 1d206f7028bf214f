/* The byte alphabet of GPT-2, computed from three ranges. */
#include "text/byte_alphabet.h"

#include <string.h>

/* Bytes that are printable characters of Latin-1 map to themselves. The other
 * 68 map to U+0100 and up, in ascending order: 00 to 20, 7F to A0, AD. */
enum {
    OTHERS = 0x100,
    LAST_LOW = 0x20,
    FIRST_HIGH = 0x7F,
    LAST_HIGH = 0xA0,
    SOFT_HYPHEN = 0xAD,
    HIGH_OTHERS = OTHERS + LAST_LOW + 1,
    LAST_OTHER = HIGH_OTHERS + (LAST_HIGH - FIRST_HIGH) + 1,
};

uint32_t vp_byte_alphabet_char(unsigned char byte)
{
    if (byte <= LAST_LOW)
        return OTHERS + (uint32_t)byte;
    if (byte >= FIRST_HIGH && byte <= LAST_HIGH)
        return HIGH_OTHERS + (uint32_t)(byte - FIRST_HIGH);
    return byte == SOFT_HYPHEN ? (uint32_t)LAST_OTHER : byte;
}

int vp_byte_alphabet_byte(uint32_t c)
{
    if (c > LAST_OTHER)
        return -1;
    if (c == LAST_OTHER)
        return SOFT_HYPHEN;
    if (c >= HIGH_OTHERS)
        return (int)c - HIGH_OTHERS + FIRST_HIGH;
    if (c >= OTHERS)
        return (int)c - OTHERS;
    return vp_byte_alphabet_char((unsigned char)c) == c ? (int)c : -1;
}

size_t vp_byte_alphabet_decode(const char *token, size_t n_bytes,
                               unsigned char *out)
{
    const unsigned char *at = (const unsigned char *)token;
    const unsigned char *end = at + n_bytes;
    size_t n = 0;
    uint32_t c;

    while (at < end) {
        int byte;

        at += vp_code_point_take(at, &c);
        byte = vp_byte_alphabet_byte(c);
        if (byte < 0) {
            memcpy(out, token, n_bytes);
            return n_bytes;
        }
        out[n++] = (unsigned char)byte;
    }
    return n;
}
