/* Reads values of a Hugging Face folder as floats, in pieces of a few MiB. */
#include "hf/folder.h"

#include "base/dtype.h"
#include "hf/internal.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 2 << 20 };

/* A buffer for some elements of a tensor. */
struct piece {
    int64_t n;     /* capacity in elements */
    void *raw;     /* elements as they are in the file */
    float *values; /* the same as floats */
};

static enum vp_status make_piece(int64_t n, struct piece *out,
                                 struct vp_err *err)
{
    float *memory = malloc(2 * (size_t)n * sizeof(*memory));

    if (!memory) {
        vp_err_set(err, VP_ERR_NOMEM, "reading tensors: out of memory");
        return VP_ERR_NOMEM;
    }
    *out = (struct piece){ .n = n, .raw = memory, .values = memory + n };
    return VP_OK;
}

static void free_piece(struct piece *piece)
{
    free(piece->raw);
}

/* Reads elements [at, at + n) of a tensor as floats. `raw` is a buffer for `n`
 * elements as they are in the file. */
static enum vp_status read_floats(const struct vp_hf_folder *folder,
                                  const struct vp_hf_tensor *tensor, int64_t at,
                                  int64_t n, void *raw, float *out,
                                  struct vp_err *err)
{
    const struct vp_st_file *file = folder->shards[tensor->shard].file;
    int64_t size = vp_st_type_bytes(tensor->stored->type);
    bool is_f32 = tensor->stored->type == VP_ST_F32;

    VP_TRY(vp_st_read_part(file, tensor->stored, at * size, n * size,
                           is_f32 ? (void *)out : raw, err));
    if (!is_f32)
        vp_dtype_expand(tensor->stored->type == VP_ST_F16 ? VP_DTYPE_F16
                                                          : VP_DTYPE_BF16,
                        out, raw, n);
    return VP_OK;
}

static int64_t count_elements(const struct vp_st_tensor *tensor)
{
    return tensor->n_bytes / vp_st_type_bytes(tensor->type);
}

/* ---- Reading ------------------------------------------------------------ */

static enum vp_status read_plain(const struct vp_hf_folder *folder,
                                 const struct vp_hf_tensor *tensor, int64_t n,
                                 struct piece *piece, float *out,
                                 struct vp_err *err)
{
    for (int64_t at = 0; at < n; at += piece->n) {
        int64_t some = n - at < piece->n ? n - at : piece->n;

        VP_TRY(
            read_floats(folder, tensor, at, some, piece->raw, out + at, err));
    }
    return VP_OK;
}

/* Reads bands of rows of the file, which holds [cols, rows]. out: [rows,
 * cols] */
static enum vp_status read_transposed(const struct vp_hf_folder *folder,
                                      const struct vp_hf_tensor *tensor,
                                      int64_t rows, int64_t cols,
                                      struct piece *piece, float *out,
                                      struct vp_err *err)
{
    int64_t band = piece->n / rows;

    for (int64_t c = 0; c < cols; c += band) {
        int64_t n = cols - c < band ? cols - c : band;

        VP_TRY(read_floats(folder, tensor, c * rows, n * rows, piece->raw,
                           piece->values, err));
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < n; i++)
                out[r * cols + c + i] = piece->values[i * rows + r];
    }
    return VP_OK;
}

enum vp_status vp_hf_read(const struct vp_hf_folder *folder, const char *name,
                          int64_t rows, int64_t cols, bool transposed,
                          float *out, struct vp_err *err)
{
    const struct vp_hf_tensor *tensor = vp_hf_holder(folder, name);
    int64_t most = PIECE_BYTES / (int64_t)sizeof(float);
    struct piece piece;
    enum vp_status st;

    if (!tensor)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.3000s: tensor %.200s is missing", folder->path,
                          name);
    if (count_elements(tensor->stored) != rows * cols) {
        char text[128];

        vp_st_describe(tensor->stored, text, sizeof(text));
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.3000s: tensor %.200s is %s, but the model needs "
                          "%lld x %lld",
                          folder->path, name, text, (long long)rows,
                          (long long)cols);
    }
    VP_TRY(make_piece(rows > most ? rows : most, &piece, err));
    if (transposed)
        st = read_transposed(folder, tensor, rows, cols, &piece, out, err);
    else
        st = read_plain(folder, tensor, rows * cols, &piece, out, err);
    free_piece(&piece);
    return st;
}

enum vp_status vp_hf_read_raw(const struct vp_hf_folder *folder,
                              const struct vp_hf_tensor *tensor, void *out,
                              struct vp_err *err)
{
    return vp_st_read(folder->shards[tensor->shard].file, tensor->stored, out,
                      err);
}

/* ---- Checking values ---------------------------------------------------- */

/* Sets *same_out to true if the tensor equals `other`, or is zero if `other` is
 * NULL. */
static enum vp_status compare(const struct vp_hf_folder *folder,
                              const struct vp_hf_tensor *tensor,
                              const struct vp_hf_tensor *other, bool *same_out,
                              struct vp_err *err)
{
    int64_t n = count_elements(tensor->stored);
    struct piece a, b;
    enum vp_status st;

    *same_out = !other || count_elements(other->stored) == n;
    VP_TRY(make_piece(PIECE_BYTES / (int64_t)sizeof(float), &a, err));
    st = make_piece(a.n, &b, err);
    if (st != VP_OK) {
        free_piece(&a);
        return st;
    }
    for (int64_t at = 0; at < n && *same_out && st == VP_OK; at += a.n) {
        int64_t some = n - at < a.n ? n - at : a.n;

        st = read_floats(folder, tensor, at, some, a.raw, a.values, err);
        if (st == VP_OK && other)
            st = read_floats(folder, other, at, some, b.raw, b.values, err);
        for (int64_t i = 0; i < some && st == VP_OK && *same_out; i++)
            *same_out = other ? a.values[i] == b.values[i]
                              : a.values[i] == 0.0f;
    }
    free_piece(&b);
    free_piece(&a);
    return st;
}

static bool is_float(const struct vp_hf_tensor *tensor)
{
    return tensor->stored->type == VP_ST_F32 ||
           tensor->stored->type == VP_ST_F16 ||
           tensor->stored->type == VP_ST_BF16;
}

static enum vp_status check_one(const struct vp_hf_folder *folder,
                                const struct vp_hf_tensor *tensor,
                                struct vp_err *err)
{
    bool zero = tensor->kind == VP_HF_ZERO, same = false;
    const struct vp_hf_tensor *other = zero
                                           ? NULL
                                           : vp_hf_holder(folder, tensor->name);

    if (other == tensor)
        return VP_OK;
    if (is_float(tensor))
        VP_TRY(compare(folder, tensor, other, &same, err));
    if (same)
        return VP_OK;
    if (zero)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.3000s: tensor %.200s is not zero, but config.json "
                          "has attention_bias false; set it to true",
                          folder->path, tensor->stored->name);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%.3000s: tensors %.200s and %.200s differ, but "
                      "config.json ties them; set tie_word_embeddings to false",
                      folder->path, tensor->stored->name, other->stored->name);
}

enum vp_status vp_hf_check_values(const struct vp_hf_folder *folder,
                                  struct vp_err *err)
{
    for (int i = 0; i < folder->n_tensors; i++) {
        const struct vp_hf_tensor *t = &folder->tensors[i];

        if (t->kind == VP_HF_TIED || t->kind == VP_HF_ZERO)
            VP_TRY(check_one(folder, t, err));
    }
    return VP_OK;
}

/* ---- Fingerprint -------------------------------------------------------- */

/* FNV-1a, 64 bits. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * 0x100000001B3u;
    return hash;
}

enum vp_status vp_hf_fingerprint(const struct vp_hf_folder *folder,
                                 uint64_t *out, struct vp_err *err)
{
    uint64_t hash = 0xCBF29CE484222325u;
    unsigned char first[64];

    for (int i = 0; i < folder->n_tensors; i++) {
        const struct vp_hf_tensor *t = &folder->tensors[i];
        int64_t n = t->stored->n_bytes < (int64_t)sizeof(first)
                        ? t->stored->n_bytes
                        : (int64_t)sizeof(first);

        VP_TRY(vp_st_read_part(folder->shards[t->shard].file, t->stored, 0, n,
                               first, err));
        hash = hash_bytes(hash, t->name, strlen(t->name) + 1);
        hash = hash_bytes(hash, &t->stored->type, sizeof(t->stored->type));
        hash = hash_bytes(hash, t->stored->dims, sizeof(t->stored->dims));
        hash = hash_bytes(hash, first, (size_t)n);
    }
    *out = hash;
    return VP_OK;
}
