/* A slow decoder of UTF-8 to compare with: it decodes to code points and asks
 * whether they are legal, where src/base/utf8.c looks at ranges of bytes. */
#ifndef VP_TESTS_LIB_UTF8LIB_H
#define VP_TESTS_LIB_UTF8LIB_H

#include "base/utf8.h"

#include <stddef.h>
#include <stdint.h>

/* As vp_utf8_check(). */
size_t slow_check(const unsigned char *bytes, size_t n,
                  struct vp_utf8_fault *fault_out);

/* As vp_utf8_replace(), into room that the caller has made. */
size_t slow_replace(const unsigned char *bytes, size_t n, unsigned char *out,
                    int64_t *n_faults);

#endif
