/* model.safetensors.index.json: which tensor is in which file. */
#ifndef VP_HF_INDEX_H
#define VP_HF_INDEX_H

#include "base/memory.h"
#include "base/status.h"

struct vp_hf_place {
    const char *tensor;
    int file; /* of vp_hf_index.files */
};

struct vp_hf_index {
    struct vp_arena arena; /* holds all below */
    int n_places;
    struct vp_hf_place *places; /* sorted by tensor */
    int n_files;
    const char **files; /* sorted; each is the plain name of a file */
};

/* Checks the names of files: no folder, no "..", the ending .safetensors.
 * Messages name no file. Release with vp_hf_index_release(). */
enum vp_status vp_hf_index_parse(const char *bytes, size_t n_bytes,
                                 struct vp_hf_index *out, struct vp_err *err);
/* The same for a file. */
enum vp_status vp_hf_index_read(const char *path, struct vp_hf_index *out,
                                struct vp_err *err);
void vp_hf_index_release(struct vp_hf_index *index);

/* NULL if there is none. */
const struct vp_hf_place *vp_hf_index_find(const struct vp_hf_index *index,
                                           const char *tensor);

#endif
