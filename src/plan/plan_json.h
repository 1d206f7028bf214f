/* A plan as JSON. The format has a version, and holds the original's plan file
 * (partition, recompute_ratio) as it is: its readers find their keys, and its
 * files are plans. Keys:
 *
 *   version             1; files without it are the original's
 *   partition           blocks of every stage, chunks counted
 *   recompute_ratio     share of every stage, likewise
 *   recompute           per block, the operators that are recomputed, in place
 *                       of recompute_ratio: [[0, 2], [], ...]
 *   swap_ratio          share of every stage's saved bytes that is swapped
 *   swap                per block, the operators whose results are, in its place
 *   swap_buffers        of swapped values, per stage, on the device
 *   slots               for the first minibatches in flight, all alike:
 *                       {"recompute": ..., "swap": ...}
 *   recompute_in_backward  bool
 *   w_recomputed        bool: W of recomputed operators runs later
 *   keep_all            true: the configuration's recompute is false
 *   schedule            name of a generator
 *   schedule_memory     chunks that a rank may keep
 *   schedule_text       lines of the action lists
 *   schedule_v          auto: two chunks are placed in a V
 *   early_recompute     bool
 *   accumulation_steps  minibatches per update
 *   stages, chunks      along the pipeline, and per rank
 *   replicas            groups of ranks of every stage, chunks not counted
 *   warmup_depths       likewise
 *   ranks               per group
 *   devices             per rank: tensor_parallel entries for each group
 *   tensor_parallel     ranks of a group, which share each operator
 *   sequence_parallel   true: these have slices of the rows between their sums
 *   keep_gathered       true: rows that they gather are kept for W
 *   edges               "local", "host" or "device", from each stage to the next
 *   replica_edges       likewise, among the replicas of each stage
 *   tie_edge            likewise, among ranks that share tied weights
 *   compress_activations, shard_optimizer, bundle_bytes
 *   forecast            {"step_seconds", "memory": bytes per stage, "memory_kinds":
 *                       {"weights": bytes per stage, ...}, "bubble"}; not read
 *   history, moved_at   see run/plan_history.h; not read
 *
 * and those of the original's placement file, which config/placement.h reads:
 * module_to_stage_map, stage_to_rank_map, stage_to_depth_map, mp_size. */
#ifndef VP_PLAN_PLAN_JSON_H
#define VP_PLAN_PLAN_JSON_H

#include "base/json.h"
#include "plan/memory.h"
#include "plan/plan.h"

#define VP_PLAN_VERSION 1

/* What is written about the cost of a plan. */
struct vp_plan_forecast {
    double step_seconds; /* of an update, in asp of a minibatch; 0: not known */
    const int64_t *bytes; /* per stage, for one replica; NULL: not known */
    /* The same by kind, per stage; NULL: not known. */
    const struct vp_memory *const *memory;
    double bubble; /* idle share, simulated */
};

/* The plan as text, to be freed. `n_blocks` of the model; `forecast` may be
 * NULL. Values that are defaults because a pointer is NULL are left out, but
 * for partition and recompute_ratio. */
enum vp_status vp_plan_print(const struct vp_plan *plan, int n_blocks,
                             const struct vp_plan_forecast *forecast,
                             char **text_out);

/* Reads what vp_plan_print() writes, and the original's plan files. What a file
 * does not name is 0 or NULL; n_stages and n_chunks are set if there is a
 * partition. `source` stands in messages, "source:line:column: cause; remedy".
 * The first mistake is returned. Arrays live in `arena`. Checks types, ranges
 * and lengths; vp_plan_check() does the rest. */
enum vp_status vp_plan_parse(const char *text, size_t n_bytes,
                             const char *source, struct vp_arena *arena,
                             struct vp_plan *out, struct vp_err *err);
/* The same for JSON that was read. */
enum vp_status vp_plan_from_json(const struct vp_yaml_node *root,
                                 const char *source, struct vp_arena *arena,
                                 struct vp_plan *out, struct vp_err *err);

#endif
