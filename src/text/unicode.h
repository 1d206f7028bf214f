/* Classes of code points, lower case and normal forms, as in Hugging Face
 * `tokenizers`, which mixes several versions of Unicode. */
#ifndef VP_TEXT_UNICODE_H
#define VP_TEXT_UNICODE_H

#include "text/code_point.h"
#include "text/unicode_tables.h"

/* Bits of a class, in the order of tools/unicode/make_tables.c. */
enum {
    VP_UNICODE_REMOVED = 1 << 0,     /* a control that BERT drops */
    VP_UNICODE_BLANK = 1 << 1,       /* BERT replaces it by U+0020 */
    VP_UNICODE_CJK = 1 << 2,         /* a word of its own for BERT */
    VP_UNICODE_MARK = 1 << 3,        /* an accent that BERT strips */
    VP_UNICODE_PUNCTUATION = 1 << 4, /* a word of its own for BERT */
    VP_UNICODE_LETTER = 1 << 5,      /* \p{L} */
    VP_UNICODE_NUMBER = 1 << 6,      /* \p{N} */
    VP_UNICODE_SPACE = 1 << 7,       /* \s */
    VP_UNICODE_UNSTABLE = 1 << 8,    /* NFC may change it or the one before */
    VP_UNICODE_UPPER = 1 << 9,       /* has another lower-case form */
    VP_UNICODE_COMPOSED = 1 << 10,   /* NFD changes it; Hangul lacks the bit */
    VP_UNICODE_COMBINING = 1 << 11,  /* its combining class is not 0 */
};

/* Returns the class bits of `c`. */
static inline unsigned vp_unicode_of(uint32_t c)
{
    return vp_unicode_class[vp_unicode_block[c >> 8]][c & 0xFF];
}

enum { VP_UNICODE_SEQUENCE = 4 }; /* the longest result of a mapping */

/* Writes the lower-case form of `c`, independent of context. Returns its
 * length. */
int vp_unicode_to_lower(uint32_t c, uint32_t out[VP_UNICODE_SEQUENCE]);

/* Appends the canonical decomposition of `c`. After the last one,
 * vp_unicode_sort_marks() completes NFD. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_unicode_add_nfd(struct vp_code_points *points, uint32_t c);
/* Puts combining marks into canonical order. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_unicode_sort_marks(struct vp_code_points *points);
/* Converts NFD to NFC in place. */
void vp_unicode_compose_all(struct vp_code_points *points);

#endif
