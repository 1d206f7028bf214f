/* JSONL (one JSON object per line): finds one string of an object by its
 * key. */
#ifndef VP_DATA_JSONL_H
#define VP_DATA_JSONL_H

#include <stdbool.h>
#include <stddef.h>

/* Offset of an error in a line, and its cause. */
struct vp_jsonl_fault {
    size_t at;
    const char *cause; /* static string */
};

enum { VP_JSONL_DEPTH = 64 }; /* deepest nesting of arrays and objects */

/* Finds the string at the path `keys` (n_keys of them, each a key in the object
 * of the one before) and sets *at_out and *n_out to offset and length of the
 * text between its quotes, escapes included. Checks that the whole line is one
 * JSON object; the caller has checked that it is UTF-8. Keys are compared
 * without interpreting escapes. Returns false and sets *fault if the line is
 * not an object, or if the string is missing, occurs twice or is of another
 * type. */
bool vp_jsonl_find(const unsigned char *line, size_t n, const char *const *keys,
                   int n_keys, size_t *at_out, size_t *n_out,
                   struct vp_jsonl_fault *fault);

/* Writes such a string to `out` with its escapes replaced by UTF-8, at most `n`
 * bytes. `out` may be the string itself, or begin before it. Escapes of a NUL
 * character or of half a surrogate pair become U+FFFD if `replace` is true;
 * otherwise sets *fault and returns false. */
bool vp_jsonl_unescape(const unsigned char *string, size_t n, bool replace,
                       unsigned char *out, size_t *n_out,
                       struct vp_jsonl_fault *fault);

#endif
