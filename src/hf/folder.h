/* Reads weights from a Hugging Face folder:
 *
 *   config.json                     class, sizes
 *   model.safetensors               or, in shards,
 *   model.safetensors.index.json    and the files that it names
 *
 * Opening checks everything except values: headers, sizes, names, types and
 * shapes, and that the folder has each parameter of the model once. No file is
 * kept open, and no tensor is kept in memory.
 *
 *   struct vp_hf_folder *folder;
 *   VP_TRY(vp_hf_open(path, &folder, err));
 *   vp_hf_model(folder), vp_hf_config(folder)    what to build
 *   vp_hf_read(folder, name, rows, cols, transposed, out, err)
 *   vp_hf_close(folder);
 *
 * `name`, `rows`, `cols` and `transposed` are those of struct vp_state_item, or
 * of a part of struct vp_param, so a rank reads only the parameters that it
 * holds. */
#ifndef VP_HF_FOLDER_H
#define VP_HF_FOLDER_H

#include "ckpt/safetensors.h"
#include "hf/names.h"
#include "hf/params.h"
#include "model/model.h"

struct vp_hf_folder;

/* A tensor of the folder's files. */
struct vp_hf_tensor {
    const char *name; /* current name; VP_HF_TIED: name of the parameter that
                         it equals */
    enum vp_hf_kind kind;
    int shard;
    const struct vp_st_tensor *stored; /* with its name in the file */
};

/* Returns true if `path` is a folder with a config.json and safetensors files.
 * Their content is not checked. */
bool vp_hf_is_folder(const char *path);

/* Opens a folder and checks it. Returns VP_ERR_INVALID or VP_ERR_UNSUPPORTED if
 * the content is wrong or not supported, VP_ERR_IO if a file cannot be read. */
enum vp_status vp_hf_open(const char *path, struct vp_hf_folder **out,
                          struct vp_err *err);
void vp_hf_close(struct vp_hf_folder *folder);

const char *vp_hf_path(const struct vp_hf_folder *folder);
const struct vp_hf_arch *vp_hf_arch(const struct vp_hf_folder *folder);
const struct vp_model *vp_hf_model(const struct vp_hf_folder *folder);
const struct vp_model_config *vp_hf_config(const struct vp_hf_folder *folder);
const struct vp_hf_params *vp_hf_params(const struct vp_hf_folder *folder);

/* The safetensors files, sorted by name. */
int vp_hf_n_shards(const struct vp_hf_folder *folder);
const char *vp_hf_shard_name(const struct vp_hf_folder *folder, int shard);
const struct vp_st_header *vp_hf_shard_header(const struct vp_hf_folder *folder,
                                              int shard);

/* All tensors, sorted by name. */
int vp_hf_n_tensors(const struct vp_hf_folder *folder);
const struct vp_hf_tensor *vp_hf_tensor(const struct vp_hf_folder *folder,
                                        int i);

/* Computes a hash of names, shapes, types and the first 64 bytes of every
 * tensor, to detect that a folder has other weights than before. */
enum vp_status vp_hf_fingerprint(const struct vp_hf_folder *folder,
                                 uint64_t *out, struct vp_err *err);

/* Checks values that must be equal or zero: tied tensors that the folder has
 * under both names, and attention biases of a model without them. Reads only
 * these. */
enum vp_status vp_hf_check_values(const struct vp_hf_folder *folder,
                                  struct vp_err *err);

/* Reads a parameter as floats. out: [rows, cols]; if `transposed`, the file
 * holds [cols, rows]. Allocates a buffer of a few MiB. Any number of threads
 * may read. */
enum vp_status vp_hf_read(const struct vp_hf_folder *folder, const char *name,
                          int64_t rows, int64_t cols, bool transposed,
                          float *out, struct vp_err *err);
/* Reads the bytes of a tensor as they are in the file. */
enum vp_status vp_hf_read_raw(const struct vp_hf_folder *folder,
                              const struct vp_hf_tensor *tensor, void *out,
                              struct vp_err *err);

#endif
