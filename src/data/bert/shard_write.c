/* Writing of HDF5 shards: packing of chunks, and all calls of libhdf5 that
 * write. */
#include "data/bert/shard_write.h"

#include <hdf5.h>
#ifdef VP_HAVE_ZLIB
#include <zlib.h>
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_IDS = 1 << 16, MIN_ROWS = 16, MAX_ROWS = 1024, LEVEL = 4 };

static const struct {
    const char *name;
    int width;      /* bytes of a number */
    bool is_seq;    /* [rows, seq] */
    bool is_vector; /* [rows] */
} sets[VP_BERT_SETS] = {
    [VP_BERT_IDS] = { "input_ids", 4, true, false },
    [VP_BERT_MASK] = { "input_mask", 1, true, false },
    [VP_BERT_TYPES] = { "segment_ids", 1, true, false },
    [VP_BERT_POSITIONS] = { "masked_lm_positions", 4, false, false },
    [VP_BERT_LABELS] = { "masked_lm_ids", 4, false, false },
    [VP_BERT_NEXT] = { "next_sentence_labels", 1, false, true },
};

struct vp_bert_shard {
    hid_t file, set[VP_BERT_SETS];
    struct vp_bert_options options;
    int64_t n_chunk; /* rows of a chunk */
    char *path;
};

static int64_t columns(const struct vp_bert_options *options,
                       enum vp_bert_set set)
{
    if (sets[set].is_vector)
        return 1;
    return sets[set].is_seq ? options->seq : options->max_pred;
}

int64_t vp_bert_chunk_rows(const struct vp_bert_options *options,
                           int64_t n_rows)
{
    int64_t n = CHUNK_IDS / options->seq;

    n = n < MIN_ROWS ? MIN_ROWS : n > MAX_ROWS ? MAX_ROWS : n;
    return n < n_rows ? n : n_rows;
}

/* ---- Chunks ------------------------------------------------------------- */

void vp_bert_chunk_release(struct vp_bert_chunk *chunk)
{
    free(chunk->raw);
    free(chunk->bytes);
    *chunk = (struct vp_bert_chunk){ NULL, NULL, 0, 0, 0 };
}

static bool reserve(unsigned char **bytes, size_t *capacity, size_t n)
{
    unsigned char *grown;

    if (*capacity >= n)
        return true;
    grown = realloc(*bytes, n);
    if (!grown)
        return false;
    *bytes = grown;
    *capacity = n;
    return true;
}

/* Writes one row of a data set; `out` holds zeros before. */
static void pack_row(unsigned char *out, enum vp_bert_set set,
                     const struct vp_bert_row *row)
{
    size_t width = sizeof(int32_t);

    switch (set) {
    case VP_BERT_IDS:
        memcpy(out, row->tokens, (size_t)row->n_tokens * width);
        break;
    case VP_BERT_MASK:
        memset(out, 1, (size_t)row->n_tokens);
        break;
    case VP_BERT_TYPES:
        memset(out + row->n_first, 1, (size_t)(row->n_tokens - row->n_first));
        break;
    case VP_BERT_POSITIONS:
        memcpy(out, row->positions, (size_t)row->n_labels * width);
        break;
    case VP_BERT_LABELS:
        memcpy(out, row->labels, (size_t)row->n_labels * width);
        break;
    default:
        out[0] = (unsigned char)row->is_random;
        break;
    }
}

static enum vp_status compress_chunk(struct vp_bert_chunk *chunk, size_t n)
{
#ifdef VP_HAVE_ZLIB
    uLongf n_out = compressBound((uLong)n);

    if (!reserve(&chunk->bytes, &chunk->capacity, n_out) ||
        compress2(chunk->bytes, &n_out, chunk->raw, (uLong)n, LEVEL) != Z_OK)
        return VP_ERR_NOMEM;
    chunk->n_bytes = n_out;
#else
    if (!reserve(&chunk->bytes, &chunk->capacity, n))
        return VP_ERR_NOMEM;
    memcpy(chunk->bytes, chunk->raw, n);
    chunk->n_bytes = n;
#endif
    return VP_OK;
}

enum vp_status vp_bert_chunk_pack(struct vp_bert_chunk *chunk,
                                  const struct vp_bert_options *options,
                                  enum vp_bert_set set,
                                  const struct vp_bert_rows *rows,
                                  int64_t first, int64_t n, int64_t n_chunk)
{
    size_t row_bytes = (size_t)(columns(options, set) * sets[set].width);
    size_t n_bytes = row_bytes * (size_t)n_chunk;
    struct vp_bert_row row;

    if (!reserve(&chunk->raw, &chunk->raw_capacity, n_bytes))
        return VP_ERR_NOMEM;
    memset(chunk->raw, 0, n_bytes);
    for (int64_t i = 0; i < n; i++) {
        vp_bert_rows_get(rows, options, first + i, &row);
        pack_row(chunk->raw + (size_t)i * row_bytes, set, &row);
    }
    return compress_chunk(chunk, n_bytes);
}

/* ---- The file ----------------------------------------------------------- */

static enum vp_status fail_library(const struct vp_bert_shard *shard,
                                   struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_IO,
                      "%s: libhdf5 cannot write it%s%s; free disk space, or "
                      "write elsewhere",
                      shard->path, errno ? ": " : "",
                      errno ? strerror(errno) : "");
}

/* The first dimension is unlimited, because rows are added later. */
static hid_t create_set(const struct vp_bert_shard *shard, enum vp_bert_set set)
{
    hsize_t size[2] = { 0, (hsize_t)columns(&shard->options, set) };
    hsize_t most[2] = { H5S_UNLIMITED, size[1] };
    hsize_t chunk[2] = { (hsize_t)shard->n_chunk, size[1] };
    int rank = sets[set].is_vector ? 1 : 2;
    hid_t space = H5Screate_simple(rank, size, most), id = -1;
    hid_t how = H5Pcreate(H5P_DATASET_CREATE);

    if (space >= 0 && how >= 0 && H5Pset_chunk(how, rank, chunk) >= 0 &&
#ifdef VP_HAVE_ZLIB
        H5Pset_deflate(how, LEVEL) >= 0 &&
#endif
        H5Pset_obj_track_times(how, false) >= 0)
        id = H5Dcreate2(shard->file, sets[set].name,
                        sets[set].width == 1 ? H5T_STD_I8LE : H5T_STD_I32LE,
                        space, H5P_DEFAULT, how, H5P_DEFAULT);
    if (how >= 0)
        H5Pclose(how);
    if (space >= 0)
        H5Sclose(space);
    return id;
}

static bool create_sets(struct vp_bert_shard *shard)
{
    for (int k = 0; k < VP_BERT_SETS; k++) {
        shard->set[k] = create_set(shard, k);
        if (shard->set[k] < 0)
            return false;
    }
    return true;
}

/* Returns false if libhdf5 reported an error. */
static bool close_file(struct vp_bert_shard *shard)
{
    bool ok = true;

    for (int k = 0; k < VP_BERT_SETS; k++)
        if (shard->set[k] >= 0)
            ok = H5Dclose(shard->set[k]) >= 0 && ok;
    if (shard->file >= 0)
        ok = H5Fclose(shard->file) >= 0 && ok;
    return ok;
}

enum vp_status vp_bert_shard_create(const char *path,
                                    const struct vp_bert_options *options,
                                    int64_t n_chunk, struct vp_bert_shard **out,
                                    struct vp_err *err)
{
    struct vp_bert_shard *shard = calloc(1, sizeof(*shard));
    enum vp_status st;

    if (shard)
        shard->path = strdup(path);
    if (!shard || !shard->path) {
        free(shard);
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    }
    shard->options = *options;
    shard->n_chunk = n_chunk;
    for (int k = 0; k < VP_BERT_SETS; k++)
        shard->set[k] = -1;
    /* Stop libhdf5 from printing errors. */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    errno = 0;
    shard->file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (shard->file >= 0 && create_sets(shard)) {
        *out = shard;
        return VP_OK;
    }
    st = fail_library(shard, err);
    close_file(shard);
    free(shard->path);
    free(shard);
    return st;
}

enum vp_status vp_bert_shard_write(struct vp_bert_shard *shard,
                                   enum vp_bert_set set, int64_t number,
                                   int64_t n_rows,
                                   const struct vp_bert_chunk *chunk,
                                   struct vp_err *err)
{
    hsize_t size[2] = { (hsize_t)n_rows,
                        (hsize_t)columns(&shard->options, set) };
    hsize_t at[2] = { (hsize_t)(number * shard->n_chunk), 0 };

    errno = 0;
    if (H5Dset_extent(shard->set[set], size) < 0 ||
        H5Dwrite_chunk(shard->set[set], H5P_DEFAULT, 0, at, chunk->n_bytes,
                       chunk->bytes) < 0)
        return fail_library(shard, err);
    return VP_OK;
}

enum vp_status vp_bert_shard_close(struct vp_bert_shard *shard,
                                   struct vp_err *err)
{
    enum vp_status st = VP_OK;
    int fd;

    errno = 0;
    if (!close_file(shard))
        st = fail_library(shard, err);
    fd = open(shard->path, O_RDONLY | O_CLOEXEC);
    if (st == VP_OK && (fd < 0 || fsync(fd) != 0))
        st = vp_err_write(err, shard->path, errno);
    if (fd >= 0)
        close(fd);
    free(shard->path);
    free(shard);
    return st;
}
