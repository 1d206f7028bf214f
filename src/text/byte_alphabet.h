/* The alphabet of byte-level tokens maps each byte to a printable character, so
 * that vocabularies are text: 'A' to itself, a space to U+0120. */
#ifndef VP_TEXT_BYTE_ALPHABET_H
#define VP_TEXT_BYTE_ALPHABET_H

#include "text/code_point.h"

#include <stdbool.h>

/* Returns the character of `byte`. */
uint32_t vp_byte_alphabet_char(unsigned char byte);
/* Returns the byte of `c`, or -1 if `c` is not in the alphabet. */
int vp_byte_alphabet_byte(uint32_t c);

/* Writes the bytes that `token`, valid UTF-8, stands for to `out`, which has
 * room for `n_bytes`. If a character is not in the alphabet, writes the token
 * unchanged. Returns the number of bytes written. */
size_t vp_byte_alphabet_decode(const char *token, size_t n_bytes,
                               unsigned char *out);

#endif
