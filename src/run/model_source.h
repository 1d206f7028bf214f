/* A trained model, named by a folder: that of a run, a checkpoint, or one of
 * Hugging Face. Gives the configuration that belongs to the weights, and the
 * weights, tensor by tensor. */
#ifndef VP_RUN_MODEL_SOURCE_H
#define VP_RUN_MODEL_SOURCE_H

#include "config/config.h"
#include "run/notice.h"
#include "runtime/state.h"

struct vp_model_source;

/* Opens what `path` is:
 *
 *   a run folder          the newest checkpoint that is not damaged
 *   its checkpoints/      the same
 *   a checkpoint          <run>/checkpoints/step-<n>, or a copy of it
 *   a Hugging Face folder config.json and safetensors files; see hf/folder.h
 *
 * Says in one line what `path` is if it is none of them. `warn` (NULL: not told)
 * hears of damaged checkpoints that were passed over. */
enum vp_status vp_model_source_open(const char *path, vp_notice_fn warn,
                                    void *ctx, struct vp_model_source **out,
                                    struct vp_err *err);
/* A run that trains: the configuration of its folder `run`, weights by `loader`,
 * which is copied. */
enum vp_status vp_model_source_live(const char *run,
                                    const struct vp_loader *loader,
                                    struct vp_model_source **out,
                                    struct vp_err *err);
void vp_model_source_close(struct vp_model_source *source);

/* For people: "checkpoint of step 500", "Hugging Face folder". */
const char *vp_model_source_what(const struct vp_model_source *source);
/* Checksum of the manifest of a checkpoint; 0: the model is none. */
uint64_t vp_model_source_checksum(const struct vp_model_source *source);
/* The folder that the weights are in. */
const char *vp_model_source_path(const struct vp_model_source *source);
/* The Hugging Face folder that the model is or comes from: its path in `out`, of
 * PATH_MAX bytes. False if there is none. */
bool vp_model_source_origin(const struct vp_model_source *source, char *out);

/* The configuration: keys of the model, of its data and tokenizer as they are
 * known of `source`, then `sets` ("key=value"); all others have their defaults, so
 * there is one stage unless `sets` ask for more. Only the folder of a run knows
 * where the data is. Release with
 * vp_config_release(), also after an error. */
enum vp_status vp_model_source_config(const struct vp_model_source *source,
                                      const char *const *sets, int n_sets,
                                      struct vp_config *out,
                                      struct vp_err *err);

/* Weights alone, at the start of a run. Reads no other tensor than it is asked
 * for. */
const struct vp_loader *vp_model_source_loader(
    const struct vp_model_source *source);

#endif
