/* Text files as one file of bytes, for text that is read byte by byte and is too
 * large to be held in memory: what vp_text_read_key() reads, decompressed, of
 * lines of JSON the texts. */
#ifndef VP_DATA_CORPUS_BYTES_H
#define VP_DATA_CORPUS_BYTES_H

#include "data/corpus/corpus.h"

/* Text up to this is held in memory. */
#define VP_CORPUS_HELD_BYTES (INT64_C(64) << 20)

/* True if the text of the files has more bytes than that. Reads no more than
 * needed to know it. */
enum vp_status vp_corpus_is_large(const char *const *paths, int n_paths,
                                  bool *out, struct vp_err *err);

/* Writes the text of config->paths to `path`; of the configuration only paths,
 * text_key, replace and progress are used. */
enum vp_status vp_corpus_write_bytes(const struct vp_corpus_config *config,
                                     const char *path,
                                     struct vp_corpus_result *out,
                                     struct vp_err *err);

#endif
