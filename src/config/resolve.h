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

/* What a trainer is told of it. `train` borrows the lists of `config`. */
void vp_resolve_train(const struct vp_config *config,
                      struct vp_train_config *train);

#endif
