/* A trained model in a folder: of a run, of a checkpoint, or of Hugging Face.
 * Provides the configuration that belongs to the weights, and the weights,
 * tensor by tensor. */
#ifndef VP_RUN_MODEL_SOURCE_H
#define VP_RUN_MODEL_SOURCE_H

#include "config/config.h"
#include "run/notice.h"
#include "runtime/state.h"

struct vp_model_source;

/* Opens the model in `path`:
 *
 *   a run folder          its newest checkpoint that is not damaged
 *   its checkpoints/      the same
 *   a checkpoint          <run>/checkpoints/step-<n>, or a copy of it
 *   a Hugging Face folder config.json and safetensors files; see hf/folder.h
 *
 * For any other path the error says in one line what it is. Calls `warn`, which
 * may be NULL, for damaged checkpoints that were skipped. */
enum vp_status vp_model_source_open(const char *path, vp_notice_fn warn,
                                    void *ctx, struct vp_model_source **out,
                                    struct vp_err *err);
/* Opens a live run: the configuration comes from its folder `run`, the weights
 * from `loader`, which is copied. */
enum vp_status vp_model_source_live(const char *run,
                                    const struct vp_loader *loader,
                                    struct vp_model_source **out,
                                    struct vp_err *err);
void vp_model_source_close(struct vp_model_source *source);

/* Returns a description for messages: "checkpoint of step 500", "Hugging Face
 * folder". */
const char *vp_model_source_what(const struct vp_model_source *source);
/* Returns the checksum of the checkpoint's manifest; 0: not a checkpoint. */
uint64_t vp_model_source_checksum(const struct vp_model_source *source);
/* Returns the folder that holds the weights. */
const char *vp_model_source_path(const struct vp_model_source *source);
/* Writes the path of the Hugging Face folder that the model is, or was imported
 * from, to `out`, which has PATH_MAX bytes. Returns false if there is none. */
bool vp_model_source_origin(const struct vp_model_source *source, char *out);

/* Makes the configuration: keys of the model, its data and tokenizer as far as
 * `source` has them, then `sets` ("key=value"); all other keys have their
 * defaults, so there is one stage unless `sets` give more. Only a run folder
 * has the place of the data. To be released with vp_config_release(), also
 * after an error. */
enum vp_status vp_model_source_config(const struct vp_model_source *source,
                                      const char *const *sets, int n_sets,
                                      struct vp_config *out,
                                      struct vp_err *err);

/* Returns a loader of weights for a new run. It reads only the tensors that are
 * requested. */
const struct vp_loader *vp_model_source_loader(
    const struct vp_model_source *source);

#endif
