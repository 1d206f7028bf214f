/* A folder in memory where fuzzers write the files of a tokenizer. */
#ifndef VP_TESTS_FUZZ_TOKEN_FOLDER_H
#define VP_TESTS_FUZZ_TOKEN_FOLDER_H

#include "text/encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char token_folder[64];

static inline void token_folder_write(const char *name, const void *bytes,
                                      size_t n)
{
    char path[128];
    FILE *file;

    if (!token_folder[0]) {
        snprintf(token_folder, sizeof(token_folder),
                 "/dev/shm/vpipe-fuzz-XXXXXX");
        VP_BUG_ON(!mkdtemp(token_folder));
    }
    snprintf(path, sizeof(path), "%s/%s", token_folder, name);
    file = fopen(path, "wb");
    VP_BUG_ON(!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0);
}

/* Encodes a text and decodes the ids, which every tokenizer that opens must be
 * able to do. */
static inline void token_folder_use(const struct vp_tokenizer *tokenizer)
{
    static const char text[] = "It's a t\xC3\xA9st, \xE4\xBD\xA0 [MASK] 1234"
                               "<|endoftext|>\t\x80 \xF0\x9F\x98\x80\r\n";
    struct vp_strbuf out = VP_STRBUF_INIT;
    struct vp_err err = { .text = "" };
    struct vp_ids ids = { .n = 0 };
    struct vp_encoder *encoder;

    VP_BUG_ON(vp_encoder_create(tokenizer, &encoder) != VP_OK);
    for (int ordinary = 0; ordinary < 2; ordinary++)
        VP_BUG_ON(vp_encoder_add(encoder, text, sizeof(text) - 1, ordinary,
                                 &ids) != VP_OK);
    for (size_t i = 0; i < ids.n; i++)
        VP_BUG_ON(ids.at[i] >= (uint32_t)vp_tokenizer_size(tokenizer));
    VP_BUG_ON(vp_tokenizer_decode(tokenizer, ids.at, ids.n, false, &out,
                                  &err) != VP_OK);
    vp_strbuf_release(&out);
    vp_ids_release(&ids);
    vp_encoder_free(encoder);
}

/* Opens the folder: the files are refused with one line, or the tokenizer
 * works. */
static inline void token_folder_try(void)
{
    struct vp_err err = { .text = "" };
    struct vp_tokenizer *tokenizer;

    if (vp_tokenizer_open(token_folder, &tokenizer, &err) != VP_OK) {
        VP_BUG_ON(!strstr(err.text, "; ") || strchr(err.text, '\n'));
        return;
    }
    token_folder_use(tokenizer);
    vp_tokenizer_free(tokenizer);
}

#endif
