/* The origin: all that a Hugging Face folder holds besides the weights that
 * vpipe trains. It is kept so that an export can write it again: configuration
 * and tokenizer files, tensors that vpipe's model does not have, and the file
 * and type of each tensor.
 *
 *   <origin>/layout.json           files, metadata, tensors and their types
 *   <origin>/carried.safetensors   tensors that are carried, if any
 *   <origin>/config.json, tokenizer.json, ...   copies */
#ifndef VP_HF_ORIGIN_H
#define VP_HF_ORIGIN_H

#include "base/memory.h"
#include "ckpt/safetensors.h"
#include "hf/folder.h"

/* Receives one line for the user. */
typedef void (*vp_hf_note_fn)(void *ctx, const char *line);

/* Calls `note` for each kind of tensors that an export will write differently
 * than the folder: old names, tied tensors with two names, buffers; and for
 * carried tensors. */
void vp_hf_origin_tell(const struct vp_hf_folder *folder, vp_hf_note_fn note,
                       void *ctx);

/* Writes the origin of a folder to `path`, which is created if it is
 * missing. */
enum vp_status vp_hf_origin_save(const struct vp_hf_folder *folder,
                                 const char *path, struct vp_err *err);

struct vp_hf_layout_tensor {
    const char *name;
    enum vp_st_type type;
};

struct vp_hf_layout_shard {
    const char *file;
    int n_meta;
    struct vp_st_meta *meta;
    int n_tensors;
    struct vp_hf_layout_tensor *tensors;
};

struct vp_hf_origin {
    struct vp_arena arena; /* owns all fields below except `carried` */
    const char *path;
    const char *arch; /* class that config.json names */
    bool tied;        /* its embeddings are tied */
    int n_shards;
    struct vp_hf_layout_shard *shards;
    struct vp_st_file *carried; /* NULL: none */
};

/* Opens an origin. Returns VP_ERR_END if `path` has no layout.json. Close with
 * vp_hf_origin_close(). */
enum vp_status vp_hf_origin_open(const char *path, struct vp_hf_origin **out,
                                 struct vp_err *err);
void vp_hf_origin_close(struct vp_hf_origin *origin);

/* Copies an origin to `to`, which is created if it is missing. */
enum vp_status vp_hf_origin_copy(const char *from, const char *to,
                                 struct vp_err *err);

/* Copies the tokenizer files of the folder `from`. *n_out: their number. */
enum vp_status vp_hf_copy_tokenizer(const char *from, const char *to,
                                    int *n_out, struct vp_err *err);
/* Copies config.json and generation_config.json, if they exist. */
enum vp_status vp_hf_copy_config(const char *from, const char *to,
                                 struct vp_err *err);

#endif
