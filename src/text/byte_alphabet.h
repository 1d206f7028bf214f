/* The alphabet of byte-level tokens: a printable character for each byte, so
 * that vocabularies are text. 'A' is itself, a space is U+0120. */
#ifndef VP_TEXT_BYTE_ALPHABET_H
#define VP_TEXT_BYTE_ALPHABET_H

#include "text/code_point.h"

#include <stdbool.h>

/* The character of a byte. */
uint32_t vp_byte_alphabet_char(unsigned char byte);
/* The byte of a character, or -1. */
int vp_byte_alphabet_byte(uint32_t c);

/* Writes the bytes that a token stands for to `out`, which has room for
 * n_bytes. If a character is not of the alphabet, the token stands for itself.
 * Returns their number. The token is valid UTF-8. */
size_t vp_byte_alphabet_decode(const char *token, size_t n_bytes,
                               unsigned char *out);

#endif
