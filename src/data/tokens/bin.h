/* Headers of `.bin` token files.
 *
 *   llm.c, GPT-2     256 int32: 20240520, 1, number of tokens, zeros; uint16 ids
 *   llm.c, Llama-3   256 int32: 20240801, 7, number of tokens, zeros; uint32 ids
 *   nanoGPT          no header; uint16 ids to the end of the file
 *
 * A file without a header cannot be recognised, so it is read as one of nanoGPT
 * only if data_format is nanogpt. */
#ifndef VP_DATA_TOKENS_BIN_H
#define VP_DATA_TOKENS_BIN_H

#include "data/file_set.h"
#include "data/tokens/item.h"

#include <stdbool.h>

enum { VP_BIN_HEADER_BYTES = 1024 };

struct vp_token_bin {
    enum vp_item item;
    int64_t first_byte; /* file offset of the first id */
    int64_t n_tokens;
};

/* Returns true if the file at `path` begins with the magic number of a token
 * file of llm.c; false also if it cannot be read. */
bool vp_token_bin_is_llmc(const char *path);

/* Reads and checks the header of a file of llm.c against the file's size. */
enum vp_status vp_token_bin_llmc(struct vp_file_set *set, int file,
                                 struct vp_token_bin *out, struct vp_err *err);
/* Checks the size of a file of nanoGPT, and that it has no llm.c header. */
enum vp_status vp_token_bin_nanogpt(struct vp_file_set *set, int file,
                                    struct vp_token_bin *out,
                                    struct vp_err *err);
/* Writes the header of a file of llm.c. `item`: VP_ITEM_U16 or VP_ITEM_U32. */
void vp_token_bin_header(enum vp_item item, int64_t n_tokens,
                         unsigned char out[VP_BIN_HEADER_BYTES]);

#endif
