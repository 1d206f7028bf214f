/* A Hugging Face folder as a source of weights:
 *
 *   config.json                     class, sizes
 *   model.safetensors               or, in shards,
 *   model.safetensors.index.json    and the files that it names
 *
 * Opening checks everything but the values: headers, sizes, names, types and
 * shapes, and that each parameter of the model is there once. No file stays open
 * and no tensor in memory.
 *
 *   struct vp_hf_folder *folder;
 *   VP_TRY(vp_hf_open(path, &folder, err));
 *   vp_hf_model(folder), vp_hf_config(folder)    what to build
 *   vp_hf_read(folder, name, rows, cols, transposed, out, err)
 *   vp_hf_close(folder);
 *
 * `name`, `rows`, `cols` and `transposed` are those of struct vp_state_item, or
 * of a part of struct vp_param: a rank reads what it holds and nothing else. */
#ifndef VP_HF_FOLDER_H
#define VP_HF_FOLDER_H

#include "ckpt/safetensors.h"
#include "hf/names.h"
#include "hf/params.h"
#include "model/model.h"

struct vp_hf_folder;

/* A tensor of the folder's files. */
struct vp_hf_tensor {
    const char *name; /* today's; of VP_HF_TIED: of the parameter it equals */
    enum vp_hf_kind kind;
    int shard;
    const struct vp_st_tensor *stored; /* with the name that the file has */
};

/* True if `path` is a folder with a config.json and safetensors files in it,
 * whatever is in them. */
bool vp_hf_is_folder(const char *path);

/* One line of error: file, cause, remedy. VP_ERR_INVALID and VP_ERR_UNSUPPORTED
 * for what the folder says, VP_ERR_IO for what cannot be read. */
enum vp_status vp_hf_open(const char *path, struct vp_hf_folder **out,
                          struct vp_err *err);
void vp_hf_close(struct vp_hf_folder *folder);

const char *vp_hf_path(const struct vp_hf_folder *folder);
const struct vp_hf_arch *vp_hf_arch(const struct vp_hf_folder *folder);
const struct vp_model *vp_hf_model(const struct vp_hf_folder *folder);
const struct vp_model_config *vp_hf_config(const struct vp_hf_folder *folder);
const struct vp_hf_params *vp_hf_params(const struct vp_hf_folder *folder);

/* The files, in order of their names. */
int vp_hf_n_shards(const struct vp_hf_folder *folder);
const char *vp_hf_shard_name(const struct vp_hf_folder *folder, int shard);
const struct vp_st_header *vp_hf_shard_header(const struct vp_hf_folder *folder,
                                              int shard);

/* All tensors, sorted by name. */
int vp_hf_n_tensors(const struct vp_hf_folder *folder);
const struct vp_hf_tensor *vp_hf_tensor(const struct vp_hf_folder *folder,
                                        int i);

/* A hash of names, shapes, types and the first bytes of every tensor: folders
 * with different weights differ in it. */
enum vp_status vp_hf_fingerprint(const struct vp_hf_folder *folder,
                                 uint64_t *out, struct vp_err *err);

/* Compares what must be equal, or zero, among the values: tensors that are there
 * under both names of a tie, biases of a model without. Reads those only. */
enum vp_status vp_hf_check_values(const struct vp_hf_folder *folder,
                                  struct vp_err *err);

/* Reads a parameter as floats: [rows, cols]; with `transposed` the file holds
 * [cols, rows]. Uses a buffer of a few MiB beside `out`. Any number of threads
 * may read. */
enum vp_status vp_hf_read(const struct vp_hf_folder *folder, const char *name,
                          int64_t rows, int64_t cols, bool transposed,
                          float *out, struct vp_err *err);
/* Reads the bytes of a tensor as they are in the file. */
enum vp_status vp_hf_read_raw(const struct vp_hf_folder *folder,
                              const struct vp_hf_tensor *tensor, void *out,
                              struct vp_err *err);

#endif
