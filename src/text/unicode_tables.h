/* Tables that tools/unicode/make_tables.c generates from src/text/unicode when
 * vpipe is built. unicode.h has the functions that read them. */
#ifndef VP_TEXT_UNICODE_TABLES_H
#define VP_TEXT_UNICODE_TABLES_H

#include <stdint.h>

/* A two-stage table: c >> 8 selects a block of 256 code points, c & 0xFF the
 * class within the block. */
extern const uint8_t vp_unicode_block[];
extern const uint16_t vp_unicode_class[][256];

/* Sorted by `from`. In `lower` and `decompose`, from[0] maps to the sequence
 * `to`; in `compose`, the pair `from` maps to to[0]; in `combining`, the range
 * `from` has the combining class to[0]. */
struct vp_unicode_mapping {
    uint32_t from[2], to[4];
    int n_to;
};

extern const struct vp_unicode_mapping vp_unicode_lower[];
extern const struct vp_unicode_mapping vp_unicode_decompose[];
extern const struct vp_unicode_mapping vp_unicode_compose[];
extern const struct vp_unicode_mapping vp_unicode_combining[];
extern const int vp_unicode_n_lower, vp_unicode_n_decompose,
    vp_unicode_n_compose, vp_unicode_n_combining;

#endif
