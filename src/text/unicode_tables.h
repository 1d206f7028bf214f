/* Tables that tools/unicode/make_tables.c writes when vpipe is built, from
 * src/text/unicode. unicode.h has the functions that read them. */
#ifndef VP_TEXT_UNICODE_TABLES_H
#define VP_TEXT_UNICODE_TABLES_H

#include <stdint.h>

/* Two stages: the block of 256 code points, then the class in the block. */
extern const uint8_t vp_unicode_block[];
extern const uint16_t vp_unicode_class[][256];

/* Sorted by `from`. lower, decompose: from[0] to a sequence; compose: the pair
 * `from` to to[0]; combining: the range `from` has the class to[0]. */
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
