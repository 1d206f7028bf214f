/* A plan: how a model lies on ranks. It names the schedule and its parameters,
 * the cut into stages, what is recomputed, replicas and devices. The runtime
 * reads nothing else about the layout, and the same data is checked, priced,
 * printed and parsed. Pure: no device, no I/O, no threads. */
#ifndef VP_PLAN_PLAN_H
#define VP_PLAN_PLAN_H

#include "graph/graph.h"
#include "sched/schedule.h"

#define VP_MAX_STAGES 64 /* chunks included */

/* How ranks exchange messages and gradients. */
enum vp_edge_kind {
    VP_EDGE_LOCAL,  /* handed over within a process */
    VP_EDGE_HOST,   /* to another process, through memory of the host */
    VP_EDGE_DEVICE, /* to another process, from device to device */
};

/* What differs for one minibatch in flight from the rest of the plan; sets as
 * those of the plan, NULL: the plan's. In each stage the first slots may differ
 * from the rest, all in the same way. */
struct vp_plan_slot {
    const uint64_t *recompute_sets, *swap_sets;
};

/* Room for what a schedule is asked about stages. */
struct vp_plan_stages {
    bool recompute[VP_MAX_STAGES];
    int swap[VP_MAX_STAGES];
};

/* Plain data. Arrays are borrowed and have an entry per stage (stages times
 * chunks, along the pipeline) unless something else is said; NULL and 0 mean
 * the default. */
struct vp_plan {
    /* The schedule. */
    const char *schedule;      /* a generator; NULL: "1f1b" */
    int schedule_memory;       /* chunks that a rank may keep; 0: its default */
    const char *schedule_text; /* action lists; NULL: the generator's */
    bool schedule_v;           /* auto: two chunks are placed in a V */
    bool early_recompute;      /* R may run before the gradient arrives */
    int accumulation_steps;    /* bsp: minibatches per update */
    /* Nothing is trained: no gradients, no optimizer, and the schedule is "eval".
     * Not part of the format. */
    bool forward_only;

    /* The cut. */
    int n_stages;         /* along the pipeline, without chunks; 0: 1 */
    int n_chunks;         /* stages per rank; 0: 1 */
    const int *partition; /* blocks; NULL: one stage has all */

    /* What backward finds in memory. */
    /* The share of a stage's lines that is recomputed, from its end; NULL: 0. */
    const double *recompute_ratio;
    /* Per block of the model: which of its operators are recomputed, see
     * graph/recompute.h. NULL: by recompute_ratio. */
    const uint64_t *recompute_sets;
    /* Inside of B, block by block, and not as an action R before it; what a ratio
     * means then leaves out operators whose results leave their block. */
    bool recompute_in_b;
    bool w_recomputed; /* W of recomputed operators runs later, if W does */
    /* The share of a stage's saved bytes that is swapped, from its beginning;
     * NULL: 0. */
    const double *swap_ratio;
    /* Per block, in its place: operators whose results wait in memory of the host,
     * if they are saved. NULL: by swap_ratio. */
    const uint64_t *swap_sets;
    /* Of swapped values, on the device; see struct vp_sched_config. NULL:
     * VP_SWAP_DEFAULT of each stage that swaps. */
    const int *swap_buffers;
    bool keep_all; /* B kernels recompute no outputs for W either */
    /* Per block of the model: where its weights, gradients and moments begin
     * among those of its stage; see struct vp_layout_block. NULL: one after the
     * other. Not part of the format: a trainer that moves blocks sets it. */
    const int64_t *block_bases;
    /* Choices of the first minibatches in flight of every stage. */
    const struct vp_plan_slot *slots;
    int n_slots;

    /* Ranks. */
    const int *replicas; /* per stage without chunks; NULL: one each */
    const int *depth;    /* likewise, warm-up; NULL: by the number of ranks */
    /* Ranks that share each operator; 0: 1. Group g is the ranks g * tensor_parallel
     * and those that follow, and counts as one rank of the schedule. */
    int tensor_parallel;
    /* The ranks of a group have slices of the rows between their sums. They keep the
     * rows that they gather in place of gathering them again for W if keep_gathered,
     * or keep_all. */
    bool sequence_parallel;
    bool keep_gathered;
    const int *ranks;   /* per group: the user's number; NULL: 0, 1, ... */
    const int *devices; /* per rank, which is pinned there; NULL: any */

    /* Messages and sums. */
    const enum vp_edge_kind *edges; /* from stage s to s + 1; NULL: all local */
    /* How gradients are added: among the replicas of a stage, NULL: all local;
     * and among ranks with uses of the same tied weights. */
    const enum vp_edge_kind *replica_edges;
    enum vp_edge_kind tie_edge;
    bool compress; /* floats travel between stages as BF16 */
    /* Each replica of a stage has a shard of the optimizer's state, see shard.h. */
    bool shard_optimizer;
    int64_t bundle_bytes; /* gradients that replicas add at once; 0: 2 MiB */
};

/* Stages along the pipeline, chunks included. */
int vp_plan_n_stages(const struct vp_plan *plan);
/* Groups of ranks that share operators, replicas included: ranks of the schedule. */
int vp_plan_n_groups(const struct vp_plan *plan);
/* Ranks, replicas and members of groups included. */
int vp_plan_n_ranks(const struct vp_plan *plan);
/* The plan without what belongs to one machine: devices and transports. */
struct vp_plan vp_plan_portable(const struct vp_plan *plan);

/* Checks the plan against the model and reports every mistake, one line each, in
 * the order of the fields above. Returns the number of mistakes. Whether the
 * schedule can deadlock is left to vp_plan_make_schedule(). */
typedef void (*vp_plan_mistake_fn)(void *ctx, const struct vp_err *mistake);
int vp_plan_check(const struct vp_plan *plan, const struct vp_graph *graph,
                  vp_plan_mistake_fn report, void *ctx);

/* Returns true if entry `slot` of the plan's slots differs from the plan in the
 * blocks [first, first + n). */
bool vp_plan_slot_differs(const struct vp_plan *plan, int slot, int first,
                          int n);
/* Slots of a stage with `n_slots`, from the first on, that differ from the rest in
 * the blocks [first, first + n). */
int vp_plan_n_first_slots(const struct vp_plan *plan, int first, int n,
                          int n_slots);
/* Says for every stage whether it has an action R, and its buffers of swapped
 * values. With sets, the partition must have been checked; `n_blocks` of the
 * model. */
void vp_plan_mark_stages(const struct vp_plan *plan, int n_blocks,
                         struct vp_plan_stages *out);

/* What a generator is asked for. A stream is proven and simulated on as many
 * minibatches as show every deadlock. `stages` is filled and borrowed. The
 * schedule's name must be known; `n_blocks` of the model. */
struct vp_sched_config vp_plan_sched_config(const struct vp_plan *plan,
                                            int n_blocks,
                                            struct vp_plan_stages *stages);
/* Makes and proves the schedule of the plan after vp_plan_check(), whose first
 * mistake is returned. */
enum vp_status vp_plan_make_schedule(const struct vp_plan *plan,
                                     const struct vp_graph *graph,
                                     struct vp_schedule *out,
                                     struct vp_err *err);

#endif
