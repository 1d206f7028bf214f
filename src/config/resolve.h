/* The pipeline keys together: what follows from them, and what contradicts. */
#ifndef VP_CONFIG_RESOLVE_H
#define VP_CONFIG_RESOLVE_H

#include "config/config.h"

struct vp_train_config; /* runtime/trainer/trainer.h */

/* Fills in stages, partition, ratios of every stage, accumulation_steps and
 * untied embeddings, or refuses with one line. The model must have passed its
 * own check; `dims` are those of the longest batch. */
enum vp_status vp_resolve_pipeline(struct vp_config *config,
                                   const struct vp_dims *dims,
                                   struct vp_err *err);

/* Checks the sizes of the model as each member of a tensor-parallel group has them. The
 * message names the key and its place. */
enum vp_status vp_resolve_check_model(const struct vp_config *config,
                                      const struct vp_dims *dims,
                                      struct vp_err *err);

/* What a trainer is told of it. `train` borrows the lists of `config`. */
void vp_resolve_train(const struct vp_config *config,
                      struct vp_train_config *train);

/* Key `forecast` of the plan file. */
struct vp_planned_forecast {
    double step_seconds; /* in asp, of a minibatch */
    double bubble;
    int64_t memory[VP_MAX_STAGES]; /* bytes of each stage */
    int n_memory;                  /* 0: not known */
};

/* False, with nothing written, if there is no plan file, or its forecast has no
 * time: the value is anything that another program wrote there. */
bool vp_resolve_forecast(const struct vp_config *config,
                         struct vp_planned_forecast *out);

#endif
