/* Reads and writes safetensors files: an 8-byte little-endian length, a JSON
 * header of that length, then the data of all tensors without gaps, row-major
 * and little-endian. The same tensors always give the same bytes, which are
 * those of the Python package. */
#ifndef VP_CKPT_SAFETENSORS_H
#define VP_CKPT_SAFETENSORS_H

#include "base/memory.h"
#include "base/status.h"

#include <stdint.h>

#define VP_ST_MAX_DIMS 8

/* In reverse order of files: tensors of a later type come first. */
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
    int n_dims; /* 0 = scalar */
    int64_t dims[VP_ST_MAX_DIMS];
    int64_t offset; /* from the start of the file */
    int64_t n_bytes;
};

struct vp_st_meta {
    const char *key, *value;
};

/* Writes "F32 [768, 768]". */
void vp_st_describe(const struct vp_st_tensor *tensor, char *text,
                    size_t n_text);

/* ---- Header from memory ------------------------------------------------- */

struct vp_st_header {
    struct vp_arena arena; /* owns the arrays and strings below */
    int n_tensors;
    struct vp_st_tensor *tensors;        /* in the order of their data */
    const struct vp_st_tensor **by_name; /* [n_tensors], sorted by name */
    int n_meta;
    struct vp_st_meta *meta;
};

/* Computes the offset of the data, that is 8 plus the length of the header,
 * from the first 8 bytes of a file. Messages do not name the file; the caller
 * adds it. */
enum vp_status vp_st_head_bytes(const unsigned char first[8],
                                int64_t file_bytes, int64_t *out,
                                struct vp_err *err);

/* Parses `head`, the start of a file of `file_bytes` up to its data. `n_head`
 * must be the result of vp_st_head_bytes(). Checks every rule of the format. */
enum vp_status vp_st_parse(const unsigned char *head, size_t n_head,
                           int64_t file_bytes, struct vp_st_header *out,
                           struct vp_err *err);
void vp_st_header_release(struct vp_st_header *header);

/* Returns NULL if there is no tensor of this name. */
const struct vp_st_tensor *vp_st_header_find(const struct vp_st_header *header,
                                             const char *name);

/* ---- Reading ------------------------------------------------------------ */

/* The path and header of a file. No descriptor is kept open between calls, so
 * many files can be in use. Any number of threads may read. */
struct vp_st_file;

/* Expected size and checksum of a file. */
struct vp_st_seal {
    int64_t n_bytes;
    uint64_t checksum; /* XXH3, 64 bits */
};

/* Opens a file and reads its header. If `seal` is not NULL, the whole file is
 * read and compared with it first. */
enum vp_status vp_st_open(const char *path, const struct vp_st_seal *seal,
                          struct vp_st_file **out, struct vp_err *err);
/* Reads the whole file, which was opened without a seal, and compares it with
 * `seal`. */
enum vp_status vp_st_verify(const struct vp_st_file *file,
                            const struct vp_st_seal *seal, struct vp_err *err);
void vp_st_close(struct vp_st_file *file);
const char *vp_st_path(const struct vp_st_file *file);
const struct vp_st_header *vp_st_header(const struct vp_st_file *file);

/* Reads a whole tensor of the header. Returns VP_ERR_INVALID if the file was
 * changed or replaced since it was opened. */
enum vp_status vp_st_read(const struct vp_st_file *file,
                          const struct vp_st_tensor *tensor, void *buf,
                          struct vp_err *err);

/* Reads bytes [at, at + n_bytes) of a tensor. */
enum vp_status vp_st_read_part(const struct vp_st_file *file,
                               const struct vp_st_tensor *tensor, int64_t at,
                               int64_t n_bytes, void *buf, struct vp_err *err);

/* ---- Writing ------------------------------------------------------------ */

struct vp_st_head {
    unsigned char *bytes; /* length and header: all bytes before the data */
    size_t n_bytes;
    int64_t file_bytes;
};

/* Sets `offset` and `n_bytes` of each tensor and makes the head of the file.
 * Does not reorder `tensors`. Release with free(out->bytes). */
enum vp_status vp_st_layout(struct vp_st_tensor *tensors, int n_tensors,
                            const struct vp_st_meta *meta, int n_meta,
                            struct vp_st_head *out, struct vp_err *err);

/* Writes a file atomically: to <path>.tmp, which is synced and renamed. data[i]
 * holds tensor i. Sets `offset` and `n_bytes` of the tensors like
 * vp_st_layout(). */
enum vp_status vp_st_write(const char *path, struct vp_st_tensor *tensors,
                           const void *const *data, int n_tensors,
                           const struct vp_st_meta *meta, int n_meta,
                           struct vp_err *err);

/* Sets *data_out to the bytes of tensor `i`, which stay valid until the next
 * call. */
typedef enum vp_status (*vp_st_data_fn)(void *ctx, int i, const void **data_out,
                                        struct vp_err *err);

/* Like vp_st_write(), for tensors that are made one at a time: `data` is called
 * once for each, in the order of the file. Its errors are returned
 * unchanged. */
enum vp_status vp_st_write_each(const char *path, struct vp_st_tensor *tensors,
                                int n_tensors, const struct vp_st_meta *meta,
                                int n_meta, vp_st_data_fn data, void *ctx,
                                struct vp_err *err);

#endif
