/* The lengths that a run's programs are made for, and their graphs. */
#ifndef VP_CONFIG_BUCKETS_H
#define VP_CONFIG_BUCKETS_H

#include "config/config.h"

enum { VP_MAX_BUCKETS = 12 };

/* Masked LM: a program for max_pred scored rows per sequence, and one with
 * room for every row, should a batch exceed that. Translation: four lengths,
 * batch_size counting tokens. Returns their number. */
int vp_buckets_make(const struct vp_config *config,
                    struct vp_dims dims[VP_MAX_BUCKETS]);

/* A graph for each, to be released by the caller, after a failure too. */
enum vp_status vp_buckets_build(const struct vp_config *config,
                                const struct vp_dims *dims, int n,
                                struct vp_graph *graphs, struct vp_err *err);

/* A graph of the trained model to run forward: without dropout and label
 * smoothing. `outputs` is a set of enum vp_output. */
enum vp_status vp_buckets_build_outputs(const struct vp_config *config,
                                        const struct vp_dims *dims,
                                        unsigned outputs,
                                        struct vp_graph *graph_out,
                                        struct vp_err *err);
/* The same with a key-value cache. */
enum vp_status vp_buckets_build_cached(const struct vp_config *config,
                                       const struct vp_dims *dims,
                                       const struct vp_cache_size *cache,
                                       unsigned outputs,
                                       struct vp_graph *graph_out,
                                       struct vp_err *err);

#endif
