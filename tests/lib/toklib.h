/* Tokenizers for tests, from folders that a test writes and from
 * tests/golden/tokenizers. */
#ifndef VP_TESTS_LIB_TOKLIB_H
#define VP_TESTS_LIB_TOKLIB_H

#include "text/encoder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TOKENIZERS VP_SOURCE_DIR "/tests/golden/tokenizers/"

struct tok_folder {
    char path[64];
};

struct tok_folder tok_folder_make(void);

void tok_folder_write(const struct tok_folder *folder, const char *name,
                      const char *bytes, size_t n);

void tok_folder_remove(const struct tok_folder *folder);

struct vp_tokenizer *tok_open(const char *path);

/* Returns the contents of a file; the caller frees them. */
unsigned char *tok_read(const char *path, size_t *n_out);

#endif
