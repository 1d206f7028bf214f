/* Lines of JSON: one object each, of which one string is wanted. */
#ifndef VP_DATA_JSONL_H
#define VP_DATA_JSONL_H

#include <stdbool.h>
#include <stddef.h>

/* Where a line is wrong, and how. */
struct vp_jsonl_fault {
    size_t at;
    const char *cause;
};

enum { VP_JSONL_DEPTH = 64 }; /* of arrays and objects */

/* Finds the string at `keys` (n_keys of them, each in the object of the one
 * before) and sets *at_out, *n_out to what stands between its quotes. The whole
 * line is checked to be one object, in UTF-8 as the caller has checked. Keys are
 * compared as they are written, without escapes. Returns false and sets *fault
 * if it is no object, or if the string is missing, stands there twice, or is
 * another type. */
bool vp_jsonl_find(const unsigned char *line, size_t n, const char *const *keys,
                   int n_keys, size_t *at_out, size_t *n_out,
                   struct vp_jsonl_fault *fault);

/* Writes the characters of such a string in UTF-8, at most `n` bytes; `out` may
 * be the string itself, or lie before it. A NUL character and half of a
 * surrogate pair become U+FFFD if `replace` is true; else *fault is set and
 * false returned. */
bool vp_jsonl_unescape(const unsigned char *string, size_t n, bool replace,
                       unsigned char *out, size_t *n_out,
                       struct vp_jsonl_fault *fault);

#endif
