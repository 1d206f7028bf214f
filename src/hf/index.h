/* Reads model.safetensors.index.json, the map from tensors to files. */
#ifndef VP_HF_INDEX_H
#define VP_HF_INDEX_H

#include "base/memory.h"
#include "base/status.h"

struct vp_hf_place {
    const char *tensor;
    int file; /* index in vp_hf_index.files */
};

struct vp_hf_index {
    struct vp_arena arena; /* owns the lists and strings below */
    int n_places;
    struct vp_hf_place *places; /* sorted by tensor */
    int n_files;
    const char **files; /* names without a folder, sorted, each once */
};

/* Parses an index. Refuses file names with a folder or "..", or without the
 * ending .safetensors. Messages do not name the index file. Release with
 * vp_hf_index_release(). */
enum vp_status vp_hf_index_parse(const char *bytes, size_t n_bytes,
                                 struct vp_hf_index *out, struct vp_err *err);
/* The same for a file; messages begin with `path`. */
enum vp_status vp_hf_index_read(const char *path, struct vp_hf_index *out,
                                struct vp_err *err);
void vp_hf_index_release(struct vp_hf_index *index);

/* Returns NULL if the index does not have the tensor. */
const struct vp_hf_place *vp_hf_index_find(const struct vp_hf_index *index,
                                           const char *tensor);

#endif
