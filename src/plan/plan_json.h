/* A plan as JSON. The format has a version, and contains the plan file of the
 * original vPipe (partition, recompute_ratio) unchanged: the original can read
 * these files, and its own files are valid plans. Keys:
 *
 *   version             1; files without it are those of the original
 *   partition           number of blocks of every stage, chunks included
 *   recompute_ratio     recomputed fraction of every stage, likewise
 *   recompute           per block, the operators that are recomputed, in place
 *                       of recompute_ratio: [[0, 2], [], ...]
 *   swap_ratio          swapped fraction of every stage's saved bytes
 *   swap                per block, the operators with swapped results, likewise
 *   swap_buffers        buffers for swapped values on the device, per stage
 *   slots               choices for the first minibatches in flight, all equal:
 *                       {"recompute": ..., "swap": ...}
 *   recompute_in_backward  bool
 *   w_recomputed        bool: recomputed operators have their W in W, not in B
 *   keep_all            true: the configuration's recompute is false
 *   schedule            name of a generator
 *   schedule_memory     chunks that a rank may hold
 *   schedule_text       lines of the action lists
 *   schedule_v          bool, "auto" only: two chunks are placed in a V
 *   early_recompute     bool
 *   accumulation_steps  minibatches per update
 *   stages, chunks      stages of the pipeline, and chunks per rank
 *   replicas            groups of ranks per stage, chunks not counted
 *   warmup_depths       warm-up depth per stage, likewise
 *   ranks               rank number of each group
 *   devices             device of each rank: tensor_parallel entries per group
 *   tensor_parallel     number of ranks that share each operator
 *   sequence_parallel   true: these ranks have slices of rows between sums
 *   keep_gathered       true: gathered rows are kept for W
 *   edges               "local", "host" or "device", from each stage to the next
 *   replica_edges       likewise, among the replicas of each stage
 *   tie_edge            likewise, among ranks that use the same tied weights
 *   compress_activations, shard_optimizer, bundle_bytes
 *   forecast            {"step_seconds", "memory": bytes per stage, "memory_kinds":
 *                       {"weights": bytes per stage, ...}, "bubble"}; not read
 *   history, moved_at   see run/plan_history.h; not read
 *
 * and keys of the original's placement file, which config/placement.h reads:
 * module_to_stage_map, stage_to_rank_map, stage_to_depth_map, mp_size. */
#ifndef VP_PLAN_PLAN_JSON_H
#define VP_PLAN_PLAN_JSON_H

#include "base/json.h"
#include "plan/memory.h"
#include "plan/plan.h"

#define VP_PLAN_VERSION 1

/* Forecast that is written with a plan. */
struct vp_plan_forecast {
    /* Seconds per update, for streams per minibatch; 0: unknown. */
    double step_seconds;
    const int64_t *bytes; /* per stage, for one replica; NULL: unknown */
    /* Per stage: the same bytes by kind; NULL: unknown. */
    const struct vp_memory *const *memory;
    double bubble; /* idle fraction, simulated */
};

/* Writes the plan as text, which the caller frees. The model has `n_blocks`
 * blocks; `forecast` may be NULL. Leaves out fields whose pointer is NULL,
 * except partition and recompute_ratio. */
enum vp_status vp_plan_print(const struct vp_plan *plan, int n_blocks,
                             const struct vp_plan_forecast *forecast,
                             char **text_out);

/* Reads the output of vp_plan_print() and the original's plan files. Fields
 * that the file does not name are 0 or NULL; n_stages and n_chunks are set if
 * there is a partition. Messages have the form "source:line:column: cause;
 * remedy"; only the first mistake is reported. Arrays live in `arena`. Checks
 * types, ranges and lengths; vp_plan_check() checks the rest. */
enum vp_status vp_plan_parse(const char *text, size_t n_bytes,
                             const char *source, struct vp_arena *arena,
                             struct vp_plan *out, struct vp_err *err);
/* The same for JSON that has been parsed. */
enum vp_status vp_plan_from_json(const struct vp_yaml_node *root,
                                 const char *source, struct vp_arena *arena,
                                 struct vp_plan *out, struct vp_err *err);

#endif
