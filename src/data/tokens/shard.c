/* Random access to the ids of a token file. */
#include "data/tokens/shard.h"

#include "data/tokens/find.h"

#include <limits.h>

enum { BUFFER_BYTES = 16 << 10, FIRST_BYTES = 1 << 20 };

enum vp_status vp_token_shard_open_plain(struct vp_token_shard *shard,
                                         const char *path, bool nanogpt,
                                         struct vp_err *err)
{
    struct vp_token_bin bin;

    VP_TRY(vp_file_set_add(shard->set, path, &shard->bin, err));
    if (nanogpt)
        VP_TRY(vp_token_bin_nanogpt(shard->set, shard->bin, &bin, err));
    else
        VP_TRY(vp_token_bin_llmc(shard->set, shard->bin, &bin, err));
    shard->item = bin.item;
    shard->first_byte = bin.first_byte;
    shard->n_stored = shard->n_tokens = bin.n_tokens;
    return VP_OK;
}

enum vp_status vp_token_shard_open_indexed(struct vp_token_shard *shard,
                                           const char *path, struct vp_err *err)
{
    char bin[PATH_MAX];
    int file;

    vp_token_files_beside(path, ".bin", bin, sizeof(bin));
    VP_TRY(vp_file_set_add(shard->set, path, &file, err));
    VP_TRY(vp_file_set_add(shard->set, bin, &shard->bin, err));
    VP_TRY(vp_token_index_open(shard->set, file,
                               vp_file_set_bytes(shard->set, shard->bin),
                               &shard->index, err));
    shard->item = shard->index.item;
    shard->minus = shard->index.layout == VP_INDEX_LEGACY;
    shard->n_stored = shard->n_tokens = shard->index.n_tokens;
    return VP_OK;
}

static enum vp_status fail_id(const struct vp_token_shard *shard, int64_t place,
                              int64_t id, struct vp_err *err)
{
    return vp_err_set(
        err, VP_ERR_INVALID,
        "%s: offset %lld: id %lld is not in 0 to %lld; set vocab "
        "to that of the tokenizer, or copy or write the file "
        "anew",
        vp_file_set_path(shard->set, shard->bin),
        (long long)(shard->first_byte + place * vp_item_bytes(shard->item)),
        (long long)id, (long long)shard->vocab - 1);
}

enum vp_status vp_token_shard_stored(const struct vp_token_shard *shard,
                                     int64_t first, int64_t n, int32_t *ids_out,
                                     struct vp_err *err)
{
    unsigned char bytes[BUFFER_BYTES];
    int64_t width = vp_item_bytes(shard->item), most = BUFFER_BYTES / width;

    while (n > 0) {
        int64_t here = n < most ? n : most, bad = 0, n_good;

        VP_TRY(vp_file_set_read(shard->set, shard->bin,
                                shard->first_byte + first * width, here * width,
                                bytes, err));
        n_good = vp_item_convert(shard->item, bytes, here, shard->minus,
                                 shard->vocab, ids_out, &bad);
        if (n_good < here)
            return fail_id(shard, first + n_good, bad, err);
        first += here;
        ids_out += here;
        n -= here;
    }
    return VP_OK;
}

/* Returns the number of the token with which document `d` begins, where the
 * ends of the documents before it count, too. */
static enum vp_status begin_of(const struct vp_token_shard *shard, int64_t d,
                               int64_t *out, struct vp_err *err)
{
    VP_TRY(vp_token_index_document(shard->set, &shard->index, d, out, err));
    *out += d;
    return VP_OK;
}

/* Finds the last document that begins at or before `token`, by binary search.
 * Even with a damaged index, begin <= token < next afterwards. */
static enum vp_status find_document(const struct vp_token_shard *shard,
                                    int64_t token, int64_t *d_out,
                                    int64_t *begin_out, int64_t *next_out,
                                    struct vp_err *err)
{
    int64_t low = 0, high = shard->index.n_documents, begin = 0;
    int64_t next = shard->n_tokens;

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2, at;

        VP_TRY(begin_of(shard, middle, &at, err));
        if (at <= token) {
            low = middle;
            begin = at;
        } else {
            high = middle;
            next = at;
        }
    }
    *d_out = low;
    *begin_out = begin;
    *next_out = next;
    return VP_OK;
}

static enum vp_status fail_order(const struct vp_token_shard *shard, int64_t d,
                                 struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: document %lld ends before it begins; copy or write "
                      "the .idx and .bin files anew",
                      vp_file_set_path(shard->set, shard->index.file),
                      (long long)d);
}

enum vp_status vp_token_shard_read(const struct vp_token_shard *shard,
                                   int64_t first, int64_t n, int32_t *ids_out,
                                   struct vp_err *err)
{
    int64_t d, begin, next;

    if (!shard->has_ends)
        return vp_token_shard_stored(shard, first, n, ids_out, err);
    VP_TRY(find_document(shard, first, &d, &begin, &next, err));
    for (;;) {
        int64_t n_ids = next - 1 - first; /* without the end id */
        int64_t here = n_ids < n ? n_ids : n;

        if (next <= first || first - d + here > shard->n_stored)
            return fail_order(shard, d, err);
        VP_TRY(vp_token_shard_stored(shard, first - d, here, ids_out, err));
        if (here == n)
            return VP_OK;
        ids_out[here] = shard->end;
        n -= here + 1;
        if (n == 0)
            return VP_OK;
        ids_out += here + 1;
        first = next;
        d++;
        if (d == shard->index.n_documents)
            return fail_order(shard, d, err);
        VP_TRY(begin_of(shard, d + 1, &next, err));
    }
}

enum vp_status vp_token_shard_check(const struct vp_token_shard *shard,
                                    struct vp_err *err)
{
    int64_t n = FIRST_BYTES / vp_item_bytes(shard->item);
    int32_t ids[4096];

    n = n < shard->n_stored ? n : shard->n_stored;
    for (int64_t i = 0; i < n; i += 4096)
        VP_TRY(vp_token_shard_stored(shard, i, n - i < 4096 ? n - i : 4096, ids,
                                     err));
    return VP_OK;
}
