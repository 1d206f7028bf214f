/* One token file of any format, to look at it or to copy its ids. */
#ifndef VP_DATA_TOKENS_READER_H
#define VP_DATA_TOKENS_READER_H

#include "base/status.h"
#include "data/data_config.h"

struct vp_token_reader;

struct vp_token_info {
    enum vp_data_format format;
    const char *item; /* "uint16": how an id is stored */
    int64_t n_tokens;
    int64_t n_documents; /* -1: the file does not say */
};

/* VP_FORMAT_AUTO: found out by name and content, never nanoGPT. Files of ids
 * with an index are named by either of the two. Other files are refused. */
enum vp_status vp_token_reader_open(const char *path,
                                    enum vp_data_format format,
                                    struct vp_token_reader **out,
                                    struct vp_err *err);
void vp_token_reader_close(struct vp_token_reader *reader);
const struct vp_token_info *vp_token_reader_info(
    const struct vp_token_reader *reader);

/* Reads `n` ids from the one numbered `first` on. */
enum vp_status vp_token_reader_read(const struct vp_token_reader *reader,
                                    int64_t first, int64_t n, int32_t *ids_out,
                                    struct vp_err *err);
/* Reads the number of the first id of a document; of n_documents: the number of
 * ids. Only for files that say it. */
enum vp_status vp_token_reader_document(const struct vp_token_reader *reader,
                                        int64_t document, int64_t *begin_out,
                                        struct vp_err *err);

#endif
