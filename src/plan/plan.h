/* A plan: how a model is placed on ranks. It names the schedule and its
 * parameters, the partition into stages, what is recomputed, replicas and
 * devices. The runtime takes the placement from this struct alone; the same
 * data is checked, priced, printed and parsed. No device, no I/O, no
 * threads. */
#ifndef VP_PLAN_PLAN_H
#define VP_PLAN_PLAN_H

#include "graph/graph.h"
#include "sched/schedule.h"

#define VP_MAX_STAGES 64 /* chunks included */

/* How ranks exchange messages and gradients. */
enum vp_edge_kind {
    VP_EDGE_LOCAL,  /* passed on within a process */
    VP_EDGE_HOST,   /* to another process, through host memory */
    VP_EDGE_DEVICE, /* to another process, from device to device */
};

/* Choices for one minibatch in flight (slot) that replace those of the plan:
 * sets in the format of vp_plan.recompute_sets and swap_sets; NULL: the sets of
 * the plan. In each stage only the first slots may differ from the rest, and
 * all of them in the same way. */
struct vp_plan_slot {
    const uint64_t *recompute_sets, *swap_sets;
};

/* Per stage: does it have an action R, and its number of buffers for swapped
 * values. Storage for struct vp_sched_config. */
struct vp_plan_stages {
    bool recompute[VP_MAX_STAGES];
    int swap[VP_MAX_STAGES];
};

/* Plain data. Arrays are borrowed. They have one entry per stage (stages times
 * chunks, in pipeline order) unless the comment says otherwise. NULL and 0 mean
 * the default. */
struct vp_plan {
    /* The schedule. */
    const char *schedule; /* name of a generator; NULL: "1f1b" */
    /* Chunks that a rank may hold; 0: the generator's default. */
    int schedule_memory;
    /* Action lists; NULL: the generator makes them. */
    const char *schedule_text;
    bool schedule_v;        /* schedule "auto": place two chunks in a V */
    bool early_recompute;   /* R may run before the gradient has arrived */
    int accumulation_steps; /* minibatches per update of synchronous training */
    /* Inference: no gradients, no optimizer, and the schedule is "eval". Not
     * part of the file format. */
    bool forward_only;

    /* The partition. */
    int n_stages;         /* pipeline stages, chunks not counted; 0: 1 */
    int n_chunks;         /* stages per rank; 0: 1 */
    const int *partition; /* blocks per stage; NULL: one stage has all blocks */

    /* Activations: kept, recomputed or swapped. */
    /* Fraction of a stage's lines that is recomputed, counted from the stage's
     * end; NULL: 0. */
    const double *recompute_ratio;
    /* Per block of the model: bit i is set if its operator i is recomputed, see
     * graph/recompute.h. NULL: recompute_ratio decides. */
    const uint64_t *recompute_sets;
    /* Recompute within B, block by block, in place of an action R before B. A
     * ratio then excludes operators whose results other blocks read. */
    bool recompute_in_b;
    /* With separate W: recomputed operators have their W there too, not in B. */
    bool w_recomputed;
    /* Fraction of a stage's saved bytes that is swapped, counted from the
     * stage's beginning; NULL: 0. */
    const double *swap_ratio;
    /* Replaces swap_ratio. Per block of the model: bit i is set if the result
     * of operator i, where it is saved, is moved to host memory until backward.
     * NULL: swap_ratio decides. */
    const uint64_t *swap_sets;
    /* Number of buffers on the device for swapped values; see struct
     * vp_sched_config. NULL: VP_SWAP_DEFAULT for each stage that swaps. */
    const int *swap_buffers;
    /* Keep all activations: B recomputes no outputs for W either. */
    bool keep_all;
    /* Per block of the model: where its weights, gradients and moments begin
     * among those of its stage; see struct vp_layout_block. NULL: one after the
     * other. Not part of the file format: a trainer that moves blocks sets
     * it. */
    const int64_t *block_bases;
    /* `n_slots` choices for the first minibatches in flight of every stage. */
    const struct vp_plan_slot *slots;
    int n_slots;

    /* Ranks. */
    /* Ranks or groups per stage, chunks not counted; NULL: one each. */
    const int *replicas;
    /* Warm-up depth, likewise; NULL: from the number of ranks. */
    const int *depth;
    /* Ranks that share each operator; 0: 1. Group g has the ranks g *
     * tensor_parallel to (g + 1) * tensor_parallel - 1, and counts as one rank
     * of the schedule. */
    int tensor_parallel;
    /* Each rank of a group has a slice of the rows between two sums of the
     * group. With keep_gathered or keep_all, ranks keep the gathered rows;
     * without, they gather them again for W. */
    bool sequence_parallel;
    bool keep_gathered;
    /* Per group: its rank number for the user; NULL: 0, 1, ... */
    const int *ranks;
    const int *devices; /* per rank: the device that it must use; NULL: any */

    /* Messages and sums. */
    const enum vp_edge_kind *edges; /* from stage s to s + 1; NULL: all local */
    /* How gradients are added: among the replicas of a stage (NULL: all local),
     * and among ranks that use the same tied weights. */
    const enum vp_edge_kind *replica_edges;
    enum vp_edge_kind tie_edge;
    bool compress; /* floats travel between stages as BF16 */
    /* Each replica of a stage has a shard of the optimizer's state, see
     * shard.h. */
    bool shard_optimizer;
    /* Size of a bundle of gradients that replicas add; 0: 2 MiB. */
    int64_t bundle_bytes;
};

/* Returns the number of stages of the pipeline, chunks included. */
int vp_plan_n_stages(const struct vp_plan *plan);
/* Returns the number of groups of ranks that share operators, replicas
 * included. The schedule counts a group as one rank. */
int vp_plan_n_groups(const struct vp_plan *plan);
/* Returns the number of ranks, replicas and members of groups included. */
int vp_plan_n_ranks(const struct vp_plan *plan);
/* Returns the plan without devices and edges, which belong to one machine. */
struct vp_plan vp_plan_portable(const struct vp_plan *plan);

/* Checks the plan against the model and reports every mistake in one line, in
 * the order of the fields above. Returns the number of mistakes. Deadlocks of
 * the schedule are found by vp_plan_make_schedule(). */
typedef void (*vp_plan_mistake_fn)(void *ctx, const struct vp_err *mistake);
int vp_plan_check(const struct vp_plan *plan, const struct vp_graph *graph,
                  vp_plan_mistake_fn report, void *ctx);

/* Returns true if entry `slot` of the plan's slots differs from the plan in the
 * blocks [first, first + n). */
bool vp_plan_slot_differs(const struct vp_plan *plan, int slot, int first,
                          int n);
/* Returns how many of the `n_slots` slots of a stage, from the first on, differ
 * from the rest in the blocks [first, first + n). */
int vp_plan_n_first_slots(const struct vp_plan *plan, int first, int n,
                          int n_slots);
/* Sets for every stage if it has an action R, and its number of buffers for
 * swapped values. A plan with sets must have passed the check of its partition.
 * The model has `n_blocks` blocks. */
void vp_plan_mark_stages(const struct vp_plan *plan, int n_blocks,
                         struct vp_plan_stages *out);

/* Returns the parameters of the plan's schedule. Fills `stages`, which the
 * result points to. A stream gets a number of minibatches in which every
 * possible deadlock shows. The schedule's name must be valid. The model has
 * `n_blocks` blocks. */
struct vp_sched_config vp_plan_sched_config(const struct vp_plan *plan,
                                            int n_blocks,
                                            struct vp_plan_stages *stages);
/* Runs vp_plan_check() and returns its first mistake, or makes the schedule and
 * proves that it cannot deadlock. Release `out` with vp_schedule_release()
 * after VP_OK. */
enum vp_status vp_plan_make_schedule(const struct vp_plan *plan,
                                     const struct vp_graph *graph,
                                     struct vp_schedule *out,
                                     struct vp_err *err);

#endif
