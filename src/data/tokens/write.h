/* Writes a token file of llm.c: ids of uint16, or of uint32 if the vocabulary is
 * above 65536; or one of nanoGPT. The file appears under its name when it is complete, and nothing
 * is left behind otherwise. */
#ifndef VP_DATA_TOKENS_WRITE_H
#define VP_DATA_TOKENS_WRITE_H

#include "base/status.h"

#include <stdint.h>

/* The header has 31 bits for the number of tokens. */
#define VP_TOKEN_WRITE_MAX INT64_C(0x7FFFFFFF)

struct vp_token_writer;

/* `n_expected`: tokens that are likely to come, for which there must be disk
 * space; 0: not known. */
enum vp_status vp_token_writer_open(const char *path, int64_t vocab,
                                    int64_t n_expected,
                                    struct vp_token_writer **out,
                                    struct vp_err *err);
/* The same for a file of nanoGPT: no header, uint16 ids, any number of them. */
enum vp_status vp_token_writer_open_plain(const char *path, int64_t vocab,
                                          int64_t n_expected,
                                          struct vp_token_writer **out,
                                          struct vp_err *err);
/* Ids must be below the vocabulary. */
enum vp_status vp_token_writer_add(struct vp_token_writer *writer,
                                   const int32_t *ids, int64_t n,
                                   struct vp_err *err);
/* Completes the file, renames it to its path and frees the writer, after an
 * error too. */
enum vp_status vp_token_writer_close(struct vp_token_writer *writer,
                                     struct vp_err *err);
/* Removes what was written. NULL is legal. */
void vp_token_writer_abandon(struct vp_token_writer *writer);

#endif
