#include "lib/utf8lib.h"

/* Returns the length that the first byte announces, 0 if no character begins
 * with it. */
static size_t slow_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if ((first & 0xE0) == 0xC0)
        return 2;
    if ((first & 0xF0) == 0xE0)
        return 3;
    return (first & 0xF8) == 0xF0 ? 4 : 0;
}

/* Returns true if some legal code point other than NUL, of the announced
 * length, has these `n` bytes as its first bytes. */
static bool slow_begins(const unsigned char *bytes, size_t n)
{
    static const uint32_t least[] = { 0, 1, 0x80, 0x800, 0x10000 };
    static const uint32_t most[] = { 0, 0x7F, 0x7FF, 0xFFFF, 0x10FFFF };
    static const uint32_t payload[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
    size_t length = slow_length(bytes[0]);
    uint32_t low, high;

    if (length < n)
        return false;
    low = bytes[0] & payload[length];
    for (size_t i = 1; i < n; i++) {
        if (bytes[i] < 0x80 || bytes[i] > 0xBF)
            return false;
        low = low * 64 + (bytes[i] - 0x80u);
    }
    high = low;
    for (size_t i = n; i < length; i++) {
        low = low * 64;
        high = high * 64 + 63;
    }
    if (low < least[length])
        low = least[length];
    if (high > most[length])
        high = most[length];
    return low <= high && !(low >= 0xD800 && high <= 0xDFFF);
}

size_t slow_check(const unsigned char *bytes, size_t n,
                  struct vp_utf8_fault *fault_out)
{
    size_t i = 0;

    while (i < n) {
        const unsigned char *at = bytes + i;
        size_t length = slow_length(at[0]), k = 0;

        while (k < length && i + k < n && slow_begins(at, k + 1))
            k++;
        if (length == 0 || k < length) {
            fault_out->n_bytes = k > 0 ? k : 1;
            fault_out->cut = k > 0 && i + k == n;
            return i;
        }
        i += length;
    }
    return n;
}

size_t slow_replace(const unsigned char *bytes, size_t n, unsigned char *out,
                    int64_t *n_faults)
{
    size_t i = 0, n_out = 0;

    while (i < n) {
        struct vp_utf8_fault fault = { 0, false };
        size_t n_good = slow_check(bytes + i, n - i, &fault);

        for (size_t k = 0; k < n_good; k++)
            out[n_out++] = bytes[i + k];
        i += n_good;
        if (i == n)
            break;
        out[n_out++] = 0xEF;
        out[n_out++] = 0xBF;
        out[n_out++] = 0xBD;
        i += fault.n_bytes;
        (*n_faults)++;
    }
    return n_out;
}
