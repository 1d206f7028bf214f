/* libFuzzer target: reads any bytes as a safetensors file. The header parser
 * must refuse them, or return tensors that cover the data without gaps or
 * overlap. */
#include "ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void check(const struct vp_st_header *header, int64_t at,
                  int64_t file_bytes)
{
    for (int i = 0; i < header->n_tensors; i++) {
        const struct vp_st_tensor *t = &header->tensors[i];

        if (t->offset != at || vp_st_header_find(header, t->name) != t)
            abort();
        at += t->n_bytes;
    }
    if (at != file_bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    struct vp_st_header header;
    struct vp_err err = { .text = "" };
    int64_t n_head = 0;

    if (n_bytes < 8 ||
        vp_st_head_bytes(bytes, (int64_t)n_bytes, &n_head, &err) != VP_OK)
        n_head = (int64_t)n_bytes;
    if (vp_st_parse(bytes, (size_t)n_head, (int64_t)n_bytes, &header, &err) ==
        VP_OK) {
        check(&header, n_head, (int64_t)n_bytes);
        vp_st_header_release(&header);
    } else if (!err.text[0] || strchr(err.text, '\n')) {
        abort();
    }
    return 0;
}
