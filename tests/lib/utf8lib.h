/* A slow UTF-8 decoder to compare with: it decodes code points and checks
 * whether they are legal, while src/base/utf8.c compares ranges of bytes. */
#ifndef VP_TESTS_LIB_UTF8LIB_H
#define VP_TESTS_LIB_UTF8LIB_H

#include "base/utf8.h"

#include <stddef.h>
#include <stdint.h>

/* The same as vp_utf8_check(). */
size_t slow_check(const unsigned char *bytes, size_t n,
                  struct vp_utf8_fault *fault_out);

/* The same as vp_utf8_replace(), into memory of the caller. */
size_t slow_replace(const unsigned char *bytes, size_t n, unsigned char *out,
                    int64_t *n_faults);

#endif
