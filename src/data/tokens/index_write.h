/* Writes sequences of token ids as `.idx` and `.bin` of Megatron-LM or fairseq
 * (mmap), whose layouts index.h shows. Memory does not grow with the number of
 * sequences. Both files appear under their names when they are complete, and
 * nothing is left behind otherwise. */
#ifndef VP_DATA_TOKENS_INDEX_WRITE_H
#define VP_DATA_TOKENS_INDEX_WRITE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_index_writer;

/* `stem`: the path without `.idx`. `fairseq`: else Megatron-LM. Ids are stored
 * as uint16 if `vocab` is below 65500, else in 32 bits. `n_expected`: tokens
 * that are likely to come, for which there must be disk space; 0: unknown. */
enum vp_status vp_index_writer_open(const char *stem, bool fairseq,
                                    int64_t vocab, int64_t n_expected,
                                    struct vp_index_writer **out,
                                    struct vp_err *err);
/* Adds one sequence. Ids must be below the vocabulary. */
enum vp_status vp_index_writer_add(struct vp_index_writer *writer,
                                   const int32_t *ids, int64_t n,
                                   struct vp_err *err);
/* Adds to the sequence that was added last. */
enum vp_status vp_index_writer_extend(struct vp_index_writer *writer,
                                      const int32_t *ids, int64_t n,
                                      struct vp_err *err);
/* The next sequence begins a document. No document is empty. Files of fairseq
 * have none: the call is ignored. */
enum vp_status vp_index_writer_end_document(struct vp_index_writer *writer,
                                            struct vp_err *err);
int64_t vp_index_writer_sequences(const struct vp_index_writer *writer);

/* Ends the last document, completes and renames the files and frees the writer,
 * after an error too. */
enum vp_status vp_index_writer_close(struct vp_index_writer *writer,
                                     struct vp_err *err);
/* Removes what was written. NULL is legal. */
void vp_index_writer_abandon(struct vp_index_writer *writer);

#endif
