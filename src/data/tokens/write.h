/* Writes a token file of llm.c (uint16 ids, or uint32 if the vocabulary is
 * above 65536) or of nanoGPT. The file is renamed to its name when it is
 * complete; after an error it is removed. */
#ifndef VP_DATA_TOKENS_WRITE_H
#define VP_DATA_TOKENS_WRITE_H

#include "base/status.h"

#include <stdint.h>

/* The header has 31 bits for the number of tokens. */
#define VP_TOKEN_WRITE_MAX INT64_C(0x7FFFFFFF)

struct vp_token_writer;

/* Creates a file of llm.c. `n_expected`: estimated number of tokens, to check
 * disk space; 0: unknown. */
enum vp_status vp_token_writer_open(const char *path, int64_t vocab,
                                    int64_t n_expected,
                                    struct vp_token_writer **out,
                                    struct vp_err *err);
/* Creates a file of nanoGPT: no header, uint16 ids, any number of tokens. */
enum vp_status vp_token_writer_open_plain(const char *path, int64_t vocab,
                                          int64_t n_expected,
                                          struct vp_token_writer **out,
                                          struct vp_err *err);
/* Appends `n` ids, which must be below the vocabulary. A file of llm.c holds at
 * most VP_TOKEN_WRITE_MAX. */
enum vp_status vp_token_writer_add(struct vp_token_writer *writer,
                                   const int32_t *ids, int64_t n,
                                   struct vp_err *err);
/* Completes the file, renames it to its path and frees the writer, also after
 * an error. */
enum vp_status vp_token_writer_close(struct vp_token_writer *writer,
                                     struct vp_err *err);
/* Removes the written file and frees the writer, which may be NULL. */
void vp_token_writer_abandon(struct vp_token_writer *writer);

#endif
