/* safetensors files: an 8-byte little-endian length, a JSON header of that
 * length, then the data of all tensors without gaps. Row-major, little-endian.
 * The same tensors give the same bytes, those of the Python package. */
#ifndef VP_CKPT_SAFETENSORS_H
#define VP_CKPT_SAFETENSORS_H

#include "base/memory.h"
#include "base/status.h"

#include <stdint.h>

#define VP_ST_MAX_DIMS 8

/* Ordered as in files: tensors of a later type come first. */
enum vp_st_type {
    VP_ST_BOOL,
    VP_ST_U8,
    VP_ST_I8,
    VP_ST_I16,
    VP_ST_U16,
    VP_ST_F16,
    VP_ST_BF16,
    VP_ST_I32,
    VP_ST_U32,
    VP_ST_F32,
    VP_ST_F64,
    VP_ST_I64,
    VP_ST_U64,
    VP_ST_COUNT
};

const char *vp_st_type_name(enum vp_st_type type);
int vp_st_type_bytes(enum vp_st_type type);

struct vp_st_tensor {
    const char *name;
    enum vp_st_type type;
    int n_dims; /* 0 = one number */
    int64_t dims[VP_ST_MAX_DIMS];
    int64_t offset; /* from the start of the file */
    int64_t n_bytes;
};

struct vp_st_meta {
    const char *key, *value;
};

/* "F32 [768, 768]" */
void vp_st_describe(const struct vp_st_tensor *tensor, char *text,
                    size_t n_text);

/* ---- Header from memory ------------------------------------------------- */

struct vp_st_header {
    struct vp_arena arena; /* holds all below */
    int n_tensors;
    struct vp_st_tensor *tensors;        /* in the order of their data */
    const struct vp_st_tensor **by_name; /* [n_tensors], sorted */
    int n_meta;
    struct vp_st_meta *meta;
};

/* Length of the header and what comes before it, from a file's first 8 bytes.
 * Messages name no file: the caller puts it in front. */
enum vp_status vp_st_head_bytes(const unsigned char first[8],
                                int64_t file_bytes, int64_t *out,
                                struct vp_err *err);

/* `head` is the start of a file of `file_bytes` up to its data, `n_head` being
 * what vp_st_head_bytes() says. Every rule of the format is checked. */
enum vp_status vp_st_parse(const unsigned char *head, size_t n_head,
                           int64_t file_bytes, struct vp_st_header *out,
                           struct vp_err *err);
void vp_st_header_release(struct vp_st_header *header);

/* NULL if there is none. */
const struct vp_st_tensor *vp_st_header_find(const struct vp_st_header *header,
                                             const char *name);

/* ---- Reading ------------------------------------------------------------ */

/* Names a file and knows its header; holds no descriptor between calls, so
 * many files can be in use. Any number of threads may read. */
struct vp_st_file;

/* What the bytes of a file must be like. */
struct vp_st_seal {
    int64_t n_bytes;
    uint64_t checksum; /* XXH3, 64 bits */
};

/* With a seal (NULL = none) the whole file is read and compared first. */
enum vp_status vp_st_open(const char *path, const struct vp_st_seal *seal,
                          struct vp_st_file **out, struct vp_err *err);
/* Reads the whole file, which was opened without a seal, and compares it. */
enum vp_status vp_st_verify(const struct vp_st_file *file,
                            const struct vp_st_seal *seal, struct vp_err *err);
void vp_st_close(struct vp_st_file *file);
const char *vp_st_path(const struct vp_st_file *file);
const struct vp_st_header *vp_st_header(const struct vp_st_file *file);

/* The whole tensor, one of the header. VP_ERR_INVALID if the file is no longer
 * the one that was opened. */
enum vp_status vp_st_read(const struct vp_st_file *file,
                          const struct vp_st_tensor *tensor, void *buf,
                          struct vp_err *err);

/* The same of bytes [at, at + n_bytes) of the tensor. */
enum vp_status vp_st_read_part(const struct vp_st_file *file,
                               const struct vp_st_tensor *tensor, int64_t at,
                               int64_t n_bytes, void *buf, struct vp_err *err);

/* ---- Writing ------------------------------------------------------------ */

struct vp_st_head {
    unsigned char *bytes; /* all that comes before the data */
    size_t n_bytes;
    int64_t file_bytes;
};

/* Places the tensors: sets `offset` and `n_bytes` of each and makes the head.
 * `tensors` keeps its order. Release with free(out->bytes). */
enum vp_status vp_st_layout(struct vp_st_tensor *tensors, int n_tensors,
                            const struct vp_st_meta *meta, int n_meta,
                            struct vp_st_head *out, struct vp_err *err);

/* Writes a file at once: to <path>.tmp, synced, then renamed. `data[i]` holds
 * tensor i; `tensors` are placed as by vp_st_layout(). */
enum vp_status vp_st_write(const char *path, struct vp_st_tensor *tensors,
                           const void *const *data, int n_tensors,
                           const struct vp_st_meta *meta, int n_meta,
                           struct vp_err *err);

/* Returns the bytes of tensor `i` in `*data_out`; they are borrowed until the
 * next call. */
typedef enum vp_status (*vp_st_data_fn)(void *ctx, int i, const void **data_out,
                                        struct vp_err *err);

/* The same for tensors that are made one at a time: `data` is called once for
 * each, in the order of the file. Its error is returned as it is. */
enum vp_status vp_st_write_each(const char *path, struct vp_st_tensor *tensors,
                                int n_tensors, const struct vp_st_meta *meta,
                                int n_meta, vp_st_data_fn data, void *ctx,
                                struct vp_err *err);

#endif
