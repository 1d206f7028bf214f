/* Reads one token file of any format, to inspect or convert it. */
#ifndef VP_DATA_TOKENS_READER_H
#define VP_DATA_TOKENS_READER_H

#include "base/status.h"
#include "data/data_config.h"

struct vp_token_reader;

struct vp_token_info {
    enum vp_data_format format;
    const char *item; /* type of a stored id: "uint16" */
    int64_t n_tokens;
    int64_t n_documents; /* -1: the format does not store documents */
};

/* VP_FORMAT_AUTO: detected by name and content, never nanoGPT. For files with
 * an index `path` may be the .idx or the .bin. Refuses files without token
 * ids. */
enum vp_status vp_token_reader_open(const char *path,
                                    enum vp_data_format format,
                                    struct vp_token_reader **out,
                                    struct vp_err *err);
void vp_token_reader_close(struct vp_token_reader *reader);
const struct vp_token_info *vp_token_reader_info(
    const struct vp_token_reader *reader);

/* Reads `n` ids from number `first` on. */
enum vp_status vp_token_reader_read(const struct vp_token_reader *reader,
                                    int64_t first, int64_t n, int32_t *ids_out,
                                    struct vp_err *err);
/* Reads the number of the first id of a document; for n_documents: n_tokens.
 * Only if info.n_documents is not -1. */
enum vp_status vp_token_reader_document(const struct vp_token_reader *reader,
                                        int64_t document, int64_t *begin_out,
                                        struct vp_err *err);

#endif
