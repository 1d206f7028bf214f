/* Runs of ASCII are skipped eight bytes at a time; other characters are checked
 * one by one. */
#include "base/utf8.h"

#include <string.h>

/* Length of a character and range of its second byte, as its first byte
 * determines them. Later bytes are 80 to BF. */
struct form {
    size_t n_bytes; /* 0: no character begins with this byte */
    unsigned char low, high;
};

/* `least` is the smallest byte that is text: 0 or 1. */
static struct form form_of(unsigned char first, unsigned char least)
{
    if (first < 0xC2) /* ASCII, continuation bytes, overlong forms of ASCII */
        return (struct form){ first >= least && first < 0x80, 0, 0 };
    if (first < 0xE0)
        return (struct form){ 2, 0x80, 0xBF };
    if (first < 0xF0)
        return (struct form){ 3, first == 0xE0 ? 0xA0 : 0x80,
                              first == 0xED ? 0x9F : 0xBF };
    if (first < 0xF5)
        return (struct form){ 4, first == 0xF0 ? 0x90 : 0x80,
                              first == 0xF4 ? 0x8F : 0xBF };
    return (struct form){ 0, 0, 0 };
}

/* Returns the length of the character at `bytes`, n >= 1, or 0 and describes
 * the fault. */
static size_t take_character(const unsigned char *bytes, size_t n,
                             unsigned char least,
                             struct vp_utf8_fault *fault_out)
{
    struct form form = form_of(bytes[0], least);
    size_t k = 1;

    if (form.n_bytes > 1 && n > 1 && bytes[1] >= form.low &&
        bytes[1] <= form.high) {
        k = 2;
        while (k < form.n_bytes && k < n && (bytes[k] & 0xC0) == 0x80)
            k++;
    }
    if (k == form.n_bytes)
        return k;
    fault_out->n_bytes = k;
    fault_out->cut = k == n && form.n_bytes > 0;
    return 0;
}

/* Returns the first position from `i` on whose byte is not in `least` to 7F;
 * `least` is 0 or 1. Eight bytes at a time: subtracting 1 from each byte sets
 * the top bit of a zero byte, and other bytes do not borrow from each other. */
static size_t skip_ascii(const unsigned char *bytes, size_t i, size_t n,
                         unsigned char least)
{
    const uint64_t each = UINT64_C(0x0101010101010101), tops = each << 7;
    const uint64_t ones = each * least;
    uint64_t word;

    for (; n - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, bytes + i, sizeof(word));
        if (((word - ones) | word) & tops)
            break;
    }
    while (i < n && bytes[i] >= least && bytes[i] < 0x80)
        i++;
    return i;
}

size_t vp_utf8_check(enum vp_utf8_rule rule, const unsigned char *bytes,
                     size_t n, struct vp_utf8_fault *fault_out)
{
    const unsigned char least = rule == VP_UTF8_TEXT;
    size_t i = skip_ascii(bytes, 0, n, least);

    while (i < n) {
        size_t k = take_character(bytes + i, n - i, least, fault_out);

        if (k == 0)
            return i;
        i += k;
        if (i < n && bytes[i] < 0x80)
            i = skip_ascii(bytes, i, n, least);
    }
    return n;
}

bool vp_utf8_is_valid(enum vp_utf8_rule rule, const unsigned char *bytes,
                      size_t n)
{
    struct vp_utf8_fault ignored;

    return vp_utf8_check(rule, bytes, n, &ignored) == n;
}

size_t vp_utf8_replace(enum vp_utf8_rule rule, const unsigned char *bytes,
                       size_t n, unsigned char *out, int64_t *n_faults)
{
    size_t i = 0, n_out = 0;

    while (i < n) {
        struct vp_utf8_fault fault;
        size_t k = vp_utf8_check(rule, bytes + i, n - i, &fault);

        if (out)
            memmove(out + n_out, bytes + i, k);
        i += k;
        n_out += k;
        if (i == n)
            break;
        if (out)
            memcpy(out + n_out, "\xEF\xBF\xBD", 3);
        i += fault.n_bytes;
        n_out += 3;
        if (n_faults)
            (*n_faults)++;
    }
    return n_out;
}
