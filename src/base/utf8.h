/* Checks UTF-8 as the Unicode Standard 15.0 defines it (table 3-7): no overlong
 * forms, no surrogates, nothing above U+10FFFF. */
#ifndef VP_BASE_UTF8_H
#define VP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vp_utf8_rule {
    VP_UTF8_ANY,  /* the standard's definition */
    VP_UTF8_TEXT, /* a NUL byte is a fault too: text files have none */
};

/* A fault: a NUL byte, or a maximal subpart of an ill-formed sequence (Unicode,
 * D93b), which is the longest valid start of a character, or else one byte. */
struct vp_utf8_fault {
    size_t n_bytes; /* 1 to 3 */
    bool cut;       /* the bytes end inside a character; the bytes that follow
                       may complete it */
};

/* Returns the number of bytes before the first fault, or `n` if there is none.
 * Writes `fault_out` only if there is a fault. To check a stream in chunks: if
 * fault_out->cut is true, pass the bytes from the fault on again, followed by
 * the next chunk. */
size_t vp_utf8_check(enum vp_utf8_rule rule, const unsigned char *bytes,
                     size_t n, struct vp_utf8_fault *fault_out);
/* Returns true if there is no fault. */
bool vp_utf8_is_valid(enum vp_utf8_rule rule, const unsigned char *bytes,
                      size_t n);

/* Copies `bytes` to `out` with U+FFFD (EF BF BD) in place of every fault, and
 * adds the number of faults to *n_faults, which may be NULL. Returns the number
 * of bytes written, which is at least `n` and at most 3 n. `out` NULL: only
 * counts. `out` may overlap `bytes` if it begins before `bytes` by at least the
 * growth. */
size_t vp_utf8_replace(enum vp_utf8_rule rule, const unsigned char *bytes,
                       size_t n, unsigned char *out, int64_t *n_faults);

#endif
