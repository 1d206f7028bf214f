/* Writes sequences of token ids as `.idx` and `.bin` of Megatron-LM or fairseq
 * (mmap); index.h shows the layouts. Memory does not grow with the number of
 * sequences. Both files are renamed to their names when they are complete;
 * after an error they are removed. */
#ifndef VP_DATA_TOKENS_INDEX_WRITE_H
#define VP_DATA_TOKENS_INDEX_WRITE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_index_writer;

/* `stem`: the path without `.idx`. `fairseq`: the format; false: Megatron-LM.
 * Ids are stored as uint16 if `vocab` is below 65500, otherwise in 32 bits.
 * `n_expected`: estimated number of tokens, to check disk space; 0: unknown. */
enum vp_status vp_index_writer_open(const char *stem, bool fairseq,
                                    int64_t vocab, int64_t n_expected,
                                    struct vp_index_writer **out,
                                    struct vp_err *err);
/* Adds one sequence. Ids must be below the vocabulary. */
enum vp_status vp_index_writer_add(struct vp_index_writer *writer,
                                   const int32_t *ids, int64_t n,
                                   struct vp_err *err);
/* Appends ids to the last sequence. */
enum vp_status vp_index_writer_extend(struct vp_index_writer *writer,
                                      const int32_t *ids, int64_t n,
                                      struct vp_err *err);
/* Ends a document; the next sequence begins a new one. Ignored if the document
 * is empty, and in files of fairseq, which have no documents. */
enum vp_status vp_index_writer_end_document(struct vp_index_writer *writer,
                                            struct vp_err *err);
int64_t vp_index_writer_sequences(const struct vp_index_writer *writer);

/* Ends the last document, completes and renames the files and frees the writer,
 * also after an error. */
enum vp_status vp_index_writer_close(struct vp_index_writer *writer,
                                     struct vp_err *err);
/* Removes the written files and frees the writer, which may be NULL. */
void vp_index_writer_abandon(struct vp_index_writer *writer);

#endif
