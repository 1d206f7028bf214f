/* What a Hugging Face folder holds beside the weights that vpipe trains, kept so
 * that an export gives it back: files of the configuration and the tokenizer,
 * tensors that vpipe's model does not have, and which tensor is in which file
 * with which type.
 *
 *   <origin>/layout.json           files, metadata, tensors and their types
 *   <origin>/carried.safetensors   tensors that are carried, if any
 *   <origin>/config.json, tokenizer.json, ...   as they were */
#ifndef VP_HF_ORIGIN_H
#define VP_HF_ORIGIN_H

#include "base/memory.h"
#include "ckpt/safetensors.h"
#include "hf/folder.h"

/* One line for the user. */
typedef void (*vp_hf_note_fn)(void *ctx, const char *line);

/* Calls `note` for what an export will not write as it is in the folder: old
 * names, tied tensors under two names, buffers; and for what is carried. */
void vp_hf_origin_tell(const struct vp_hf_folder *folder, vp_hf_note_fn note,
                       void *ctx);

/* Writes the origin of a folder to `path`, which is made if it is missing. */
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
    struct vp_arena arena; /* holds all below but `carried` */
    const char *path;
    const char *arch; /* the class that config.json names */
    bool tied;        /* its embeddings are */
    int n_shards;
    struct vp_hf_layout_shard *shards;
    struct vp_st_file *carried; /* NULL: none */
};

/* VP_ERR_END if `path` has no layout.json. Close with vp_hf_origin_close(). */
enum vp_status vp_hf_origin_open(const char *path, struct vp_hf_origin **out,
                                 struct vp_err *err);
void vp_hf_origin_close(struct vp_hf_origin *origin);

/* Copies an origin to `to`, which is made if it is missing. */
enum vp_status vp_hf_origin_copy(const char *from, const char *to,
                                 struct vp_err *err);

/* Copies the files of a tokenizer that are in the folder `from`; returns their
 * number in `*n_out`. */
enum vp_status vp_hf_copy_tokenizer(const char *from, const char *to,
                                    int *n_out, struct vp_err *err);
/* Copies config.json, generation_config.json and the like, those that exist. */
enum vp_status vp_hf_copy_config(const char *from, const char *to,
                                 struct vp_err *err);

#endif
