/* Resolves the pipeline keys: derives values that follow from several keys, and
 * refuses contradictions. */
#ifndef VP_CONFIG_RESOLVE_H
#define VP_CONFIG_RESOLVE_H

#include "config/config.h"

struct vp_train_config; /* runtime/train_config.h */

/* Sets stages, partition, ratios of every stage, accumulation_steps and untied
 * embeddings, or refuses with one line. The model must have passed
 * vp_resolve_check_model(); `dims` are those of the longest bucket. */
enum vp_status vp_resolve_pipeline(struct vp_config *config,
                                   const struct vp_dims *dims,
                                   struct vp_err *err);

/* Checks the sizes of the model, also for the members of a tensor-parallel
 * group. The message names the key and its place. */
enum vp_status vp_resolve_check_model(const struct vp_config *config,
                                      const struct vp_dims *dims,
                                      struct vp_err *err);

/* Fills in the fields of `train` that follow from the configuration's pipeline
 * keys. `train` borrows the lists of `config`. */
void vp_resolve_train(const struct vp_config *config,
                      struct vp_train_config *train);

/* Key `forecast` of the plan file. */
struct vp_planned_forecast {
    double step_seconds; /* per update; in asp, per minibatch */
    double bubble;
    int64_t memory[VP_MAX_STAGES]; /* bytes per stage */
    int n_memory;                  /* entries of `memory`; 0: not known */
};

/* Reads the forecast. Returns false and writes nothing if there is no plan
 * file, or its forecast has no valid time: another program may have written the
 * file. */
bool vp_resolve_forecast(const struct vp_config *config,
                         struct vp_planned_forecast *out);

#endif
