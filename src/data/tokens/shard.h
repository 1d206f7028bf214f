/* A file of token ids as one long row of tokens, with an id put behind every
 * document if that is asked for. */
#ifndef VP_DATA_TOKENS_SHARD_H
#define VP_DATA_TOKENS_SHARD_H

#include "data/tokens/bin.h"
#include "data/tokens/index.h"

struct vp_token_shard {
    struct vp_file_set *set;
    int bin; /* its number in the set */
    enum vp_item item;
    int64_t first_byte;          /* of the ids in the file */
    int32_t minus;               /* the file holds the ids plus this */
    int64_t vocab;               /* an id that is not below it is refused */
    struct vp_token_index index; /* of files that have one */
    bool has_ends;               /* only with an index */
    int32_t end;                 /* behind every document, if has_ends */
    int64_t n_stored;            /* ids in the file */
    int64_t n_tokens;            /* with the ends */
};

/* Adds the file to shard->set and sets the fields that follow, without ends and
 * vocabulary. `nanogpt`: it has no header. */
enum vp_status vp_token_shard_open_plain(struct vp_token_shard *shard,
                                         const char *path, bool nanogpt,
                                         struct vp_err *err);
/* The same for an `.idx` at `path`, with the `.bin` beside it. */
enum vp_status vp_token_shard_open_indexed(struct vp_token_shard *shard,
                                           const char *path,
                                           struct vp_err *err);

/* Reads `n` ids that the file stores, from the one numbered `first` on, as they
 * are. An id outside of the vocabulary is refused with its offset. */
enum vp_status vp_token_shard_stored(const struct vp_token_shard *shard,
                                     int64_t first, int64_t n, int32_t *ids_out,
                                     struct vp_err *err);
/* The same with an end behind every document. */
enum vp_status vp_token_shard_read(const struct vp_token_shard *shard,
                                   int64_t first, int64_t n, int32_t *ids_out,
                                   struct vp_err *err);
/* Checks the ids in the first MiB. */
enum vp_status vp_token_shard_check(const struct vp_token_shard *shard,
                                    struct vp_err *err);

#endif
