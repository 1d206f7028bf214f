/* The buckets (sets of lengths) of a run, and the graph of each. */
#ifndef VP_CONFIG_BUCKETS_H
#define VP_CONFIG_BUCKETS_H

#include "config/config.h"

enum { VP_MAX_BUCKETS = 12 };

/* Writes the buckets of a run and returns their number. Masked LM: one bucket
 * with max_pred scored rows per sequence, and one with all rows, for batches
 * that have more. Translation: four lengths; batch_size counts tokens. */
int vp_buckets_make(const struct vp_config *config,
                    struct vp_dims dims[VP_MAX_BUCKETS]);

/* Builds a graph for each bucket. The caller releases all n graphs, also after
 * a failure; they must be zero before. */
enum vp_status vp_buckets_build(const struct vp_config *config,
                                const struct vp_dims *dims, int n,
                                struct vp_graph *graphs, struct vp_err *err);

/* Builds a graph for inference: without dropout and label smoothing. `outputs`
 * is a set of enum vp_output. */
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
