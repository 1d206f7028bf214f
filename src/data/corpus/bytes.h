/* Writes text files as one file of bytes, for byte-level text that is too large
 * for memory. The bytes are the same as those that vp_text_read_key() reads:
 * decompressed, and only the texts of JSONL. */
#ifndef VP_DATA_CORPUS_BYTES_H
#define VP_DATA_CORPUS_BYTES_H

#include "data/corpus/corpus.h"

/* Text up to this size is held in memory. */
#define VP_CORPUS_HELD_BYTES (INT64_C(64) << 20)

/* Sets *out to true if the decompressed files have more than
 * VP_CORPUS_HELD_BYTES. Reads no further than needed for the answer. */
enum vp_status vp_corpus_is_large(const char *const *paths, int n_paths,
                                  bool *out, struct vp_err *err);

/* Writes the text of config->paths to `path`, which must contain a '/'. Uses
 * only paths, text_key, replace and progress of `config`. After an error the
 * file is removed. */
enum vp_status vp_corpus_write_bytes(const struct vp_corpus_config *config,
                                     const char *path,
                                     struct vp_corpus_result *out,
                                     struct vp_err *err);

#endif
