/* Strict conversions between text and numbers. The whole text must be the
 * value: spaces, hexadecimal, underscores, NaN and infinity are refused. */
#ifndef VP_BASE_VALUE_H
#define VP_BASE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first four return false, and write nothing, if `text` is not such a
 * value. */

/* Decimal with an optional sign and no leading zeros, within 64 bits. */
bool vp_text_to_i64(const char *text, int64_t *out);
/* 1, -0.5, .5, 1., 5e-5; within the range of a double. */
bool vp_text_to_real(const char *text, double *out);
/* true, yes, on, false, no, off; each also as True and TRUE. */
bool vp_text_to_bool(const char *text, bool *out);
/* 512M, 11G, 1.5G, 4096; units K M G T, powers of 1024, with or without iB. */
bool vp_text_to_bytes(const char *text, int64_t *out);

/* Writes the shortest decimal that converts back to the same value. */
void vp_float_to_text(float value, char *out, size_t n_bytes);
void vp_real_to_text(double value, char *out, size_t n_bytes);

#endif
