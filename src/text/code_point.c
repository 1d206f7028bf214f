#include "text/code_point.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_later_byte(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* The number of bytes of the character that begins here, by its first byte; 0
 * if none begins so. `low` and `high` limit the second byte (table 3-7 of the
 * Unicode Standard). */
static size_t form_of(unsigned char first, unsigned char *low,
                      unsigned char *high)
{
    *low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    *high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/* Returns the number of bytes of the character or of the maximal subpart that
 * is there instead, at least 1. */
static size_t take_any(const unsigned char *at, size_t n, bool *valid_out)
{
    unsigned char low, high;
    size_t n_form = form_of(at[0], &low, &high), k = 1;

    if (n_form > 1 && n > 1 && at[1] >= low && at[1] <= high) {
        k = 2;
        while (k < n_form && k < n && is_later_byte(at[k]))
            k++;
    }
    *valid_out = k == n_form;
    return k;
}

size_t vp_code_point_check(const unsigned char *bytes, size_t n)
{
    const uint64_t tops = UINT64_C(0x8080808080808080);
    size_t i = 0;
    uint64_t word;
    bool valid;

    while (i < n) {
        size_t k;

        if (n - i >= sizeof(word)) {
            memcpy(&word, bytes + i, sizeof(word));
            if (!(word & tops)) {
                i += sizeof(word);
                continue;
            }
        }
        k = take_any(bytes + i, n - i, &valid);
        if (!valid)
            return i;
        i += k;
    }
    return n;
}

size_t vp_code_point_repair(const unsigned char *bytes, size_t n,
                            unsigned char *out)
{
    size_t i = 0, n_out = 0;
    bool valid;

    while (i < n) {
        size_t good = vp_code_point_check(bytes + i, n - i);

        memcpy(out + n_out, bytes + i, good);
        i += good;
        n_out += good;
        if (i == n)
            break;
        i += take_any(bytes + i, n - i, &valid);
        n_out += vp_code_point_put(VP_CODE_POINT_REPLACEMENT, out + n_out);
    }
    return n_out;
}

enum vp_status vp_code_points_reserve(struct vp_code_points *points,
                                      size_t n_more)
{
    size_t capacity = points->capacity;
    uint32_t *at;

    if (capacity - points->n >= n_more)
        return VP_OK;
    capacity = 2 * (points->n + n_more) + 64;
    at = realloc(points->at, capacity * sizeof(*at));
    if (!at)
        return VP_ERR_NOMEM;
    points->at = at;
    points->capacity = capacity;
    return VP_OK;
}

void vp_code_points_release(struct vp_code_points *points)
{
    free(points->at);
    memset(points, 0, sizeof(*points));
}
