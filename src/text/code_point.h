/* Reads and writes code points in UTF-8. */
#ifndef VP_TEXT_CODE_POINT_H
#define VP_TEXT_CODE_POINT_H

#include "base/status.h"

#include <stdint.h>

enum { VP_CODE_POINT_BYTES = 4 }; /* at most, in UTF-8 */

/* Reads one code point of valid UTF-8. Returns its number of bytes. */
static inline size_t vp_code_point_take(const unsigned char *at,
                                        uint32_t *c_out)
{
    if (at[0] < 0x80) {
        *c_out = at[0];
        return 1;
    }
    if (at[0] < 0xE0) {
        *c_out = (at[0] & 0x1Fu) << 6 | (at[1] & 0x3Fu);
        return 2;
    }
    if (at[0] < 0xF0) {
        *c_out = (at[0] & 0x0Fu) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
        return 3;
    }
    *c_out = (at[0] & 0x07u) << 18 | (at[1] & 0x3Fu) << 12 |
             (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu);
    return 4;
}

/* Writes `c` to `out`, which has room for VP_CODE_POINT_BYTES. Returns its
 * number of bytes. */
static inline size_t vp_code_point_put(uint32_t c, unsigned char *out)
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (unsigned char)(0xC0 | c >> 6);
        out[1] = (unsigned char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (unsigned char)(0xE0 | c >> 12);
        out[1] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (unsigned char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (unsigned char)(0xF0 | c >> 18);
    out[1] = (unsigned char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (unsigned char)(0x80 | (c & 0x3F));
    return 4;
}

/* A growing array of code points. Initialise to zero. */
struct vp_code_points {
    uint32_t *at;
    size_t n, capacity;
};

/* Makes room for `n_more` more. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_code_points_reserve(struct vp_code_points *points,
                                      size_t n_more);
void vp_code_points_release(struct vp_code_points *points);

#endif
