/* A token file as one long sequence of tokens, optionally with an end id after
 * every document. */
#ifndef VP_DATA_TOKENS_SHARD_H
#define VP_DATA_TOKENS_SHARD_H

#include "data/tokens/bin.h"
#include "data/tokens/index.h"

struct vp_token_shard {
    struct vp_file_set *set;
    int bin; /* number of the file in the set */
    enum vp_item item;
    int64_t first_byte;          /* file offset of the first id */
    int32_t minus;               /* stored numbers are ids plus `minus` */
    int64_t vocab;               /* ids must be below it */
    struct vp_token_index index; /* index of the file, if it has one */
    bool has_ends;               /* only with an index */
    int32_t end;                 /* id after every document, if has_ends */
    int64_t n_stored;            /* ids in the file */
    int64_t n_tokens;            /* ids with the ends of documents */
};

/* Adds the file to shard->set, which the caller has set, and fills the other
 * fields except vocab, has_ends and end. `nanogpt`: the file has no header. */
enum vp_status vp_token_shard_open_plain(struct vp_token_shard *shard,
                                         const char *path, bool nanogpt,
                                         struct vp_err *err);
/* The same for the `.idx` at `path` and the `.bin` of the same name. */
enum vp_status vp_token_shard_open_indexed(struct vp_token_shard *shard,
                                           const char *path,
                                           struct vp_err *err);

/* Reads `n` stored ids from number `first` on, without ends of documents. An id
 * outside the vocabulary is refused with its offset. */
enum vp_status vp_token_shard_stored(const struct vp_token_shard *shard,
                                     int64_t first, int64_t n, int32_t *ids_out,
                                     struct vp_err *err);
/* The same with ends of documents, if has_ends; `first` counts them, too. */
enum vp_status vp_token_shard_read(const struct vp_token_shard *shard,
                                   int64_t first, int64_t n, int32_t *ids_out,
                                   struct vp_err *err);
/* Checks the ids in the first MiB. */
enum vp_status vp_token_shard_check(const struct vp_token_shard *shard,
                                    struct vp_err *err);

#endif
