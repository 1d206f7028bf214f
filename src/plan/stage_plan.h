/* One stage of a plan: its programs, its buffers, their bytes. The runtime
 * allocates exactly what stands here, and a plan is priced by adding it up. */
#ifndef VP_PLAN_STAGE_PLAN_H
#define VP_PLAN_STAGE_PLAN_H

#include "graph/program.h"
#include "optim/optim.h"
#include "plan/memory.h"
#include "plan/plan.h"

/* What planning must know about a device. Needs no device: see
 * vp_backend_facts(). */
struct vp_device_facts {
    bool host_memory;        /* the host can use the device's memory */
    bool updates_early;      /* a backward can take the update along */
    int w_linger;            /* see struct vp_stage_spec */
    int64_t grad_linger;     /* likewise; 0: gradients are never used up */
    vp_scratch_fn scratch;   /* NULL: calls need none */
    const void *scratch_ctx; /* borrowed */
    vp_staging_fn staging;   /* NULL: groups need none */
};

/* What is laid out: the model, what training costs beside it, the device. */
struct vp_workload {
    const struct vp_graph *graphs; /* one per length bucket; borrowed */
    int n_graphs;
    bool has_eval; /* evaluations have programs of their own */
    struct vp_optim_config optim;
    struct vp_scale_config scale;
    struct vp_device_facts device;
};

/* Returns true if the norm of the gradients must be known before the weights
 * can be updated. */
bool vp_workload_needs_norm(const struct vp_workload *work);
/* Returns true if updates of a stage can be made within the last backward
 * before them. */
bool vp_workload_updates_early(const struct vp_workload *work,
                               const struct vp_schedule *schedule, int stage);

/* Minibatches in flight of a stage are of two kinds at most: the first slots may
 * keep other values than the rest. There is a program for each kind. */
enum vp_slot_kind { VP_SLOT_REST, VP_SLOT_FIRST, VP_SLOT_KINDS };

/* What a stage is made of: as the rest of its slots has it, and what the first
 * ones recompute and swap in place of that. Arrays are borrowed, and have an entry
 * per block of the stage; NULL: nothing. */
struct vp_stage_choices {
    struct vp_stage_spec spec;
    int n_first_slots; /* 0: all slots are alike */
    const uint64_t *first_recompute, *first_swap;
    /* Replicas that each own a shard of the optimizer's state, see shard.h; 0:
     * every replica has all of it. */
    int n_shards;
};

/* Buffers and counts of a stage, as the schedule asks for them. */
struct vp_stage_shape {
    int n_slots, n_versions;
    int n_first_slots;                       /* of n_slots */
    int n_recomputed, n_swap_out, n_swap_in; /* see struct vp_schedule_stage */
    int n_act_bufs, n_grad_bufs;             /* rings of arriving messages */
    /* Messages that leave for other processes; 0: they are written where they
     * arrive. */
    int n_out_bufs, n_din_bufs;
    /* The edges to the stage before and to the next one. */
    enum vp_edge_kind edge[2];
    bool compress; /* floats travel as BF16 */
    /* Gradients are added in memory of the host: all of the stage, for its
     * replicas in other processes; and `tie_bytes` of uses of tied weights. Only
     * where the device has memory of its own. */
    bool mirrored;
    int64_t tie_bytes;
};

/* Buffers for messages to one receiver in another process: one is written while
 * another leaves. */
enum { VP_STAGE_LEAVING = 2 };

/* Results that the host reads: of the loss, per slot; and of the gradients, two
 * sums of squares per tensor. */
#define VP_STAGE_LOSS_BYTES ((int64_t)(VP_LOSS_COLS * sizeof(float)))
#define VP_STAGE_SUM_BYTES ((int64_t)(2 * sizeof(double)))

/* What the blocks of a stage need, for any shape but one: with a single slot
 * programs lay out memory in another way. */
struct vp_stage_sizes {
    int64_t n_bytes[VP_SPACE_COUNT]; /* largest over buckets */
    int64_t moment_bytes;            /* of each moment of the optimizer */
    int64_t master_bytes;            /* of its master weights */
    int64_t train_bytes;             /* of all that is trained, as floats */
    /* Of a message through IN, OUT, DIN or DOUT, as it is and with its floats
     * as BF16. */
    int64_t message[VP_SPACE_COUNT], compressed[VP_SPACE_COUNT];
    int64_t slot_bytes[VP_SLOT_KINDS]; /* SLOT; n_bytes has the larger one */
    /* Of a minibatch of the first bucket. */
    double flops[VP_SLOT_KINDS][VP_LIST_COUNT];
    bool has_floats;      /* in messages: there is something to compress */
    int n_tensors;        /* named ones that are trained */
    int64_t logits_bytes; /* an output, see enum vp_output; else 0 */
    /* Of host memory through which a tensor-parallel group exchanges values. */
    int64_t staging_bytes;
};

struct vp_stage_plan {
    struct vp_stage_spec spec;
    struct vp_stage_shape shape;
    /* Per bucket; `train` has those of VP_SLOT_FIRST behind the others, if there
     * are such slots. eval has no calls where there is no evaluation, or nothing
     * but: then `train` has forwards only. */
    struct vp_program *train, *eval;
    int n_buckets, n_kinds;
    int n_shards; /* as in the choices */
    struct vp_stage_sizes sizes;
    struct vp_memory memory; /* of one replica */
};

/* The operators of a stage that are recomputed, per block (graph/recompute.h):
 * the plan's own sets, or `sets`, filled by the ratio of the stage. `sets` has
 * room for an entry per block of the stage. NULL: none. */
const uint64_t *vp_plan_stage_sets(const struct vp_plan *plan,
                                   const struct vp_graph *graph, int stage,
                                   uint64_t *sets);

/* The operators of a stage that are swapped, likewise; `recompute` are those that
 * are recomputed. NULL: none, or memory is exhausted. */
const uint64_t *vp_plan_stage_swap(const struct vp_plan *plan,
                                   const struct vp_graph *graph, int stage,
                                   const uint64_t *recompute, uint64_t *sets);

/* The choices and shape of a stage. `schedule` is that of the plan, which passed
 * vp_plan_make_schedule(). The choices borrow `sets`, which has room for two
 * entries per block of the stage. */
struct vp_stage_choices vp_plan_stage_choices(
    const struct vp_plan *plan, const struct vp_workload *work,
    const struct vp_schedule *schedule, int stage, uint64_t *sets);
struct vp_stage_shape vp_plan_stage_shape(const struct vp_plan *plan,
                                          const struct vp_graph *graph,
                                          const struct vp_schedule *schedule,
                                          int stage);

/* Lowers every bucket and adds up memory. */
enum vp_status vp_stage_plan_make(const struct vp_workload *work,
                                  const struct vp_stage_choices *choices,
                                  const struct vp_stage_shape *shape,
                                  struct vp_stage_plan *out,
                                  struct vp_err *err);
void vp_stage_plan_release(struct vp_stage_plan *plan);
/* What a slot trains with. */
static inline enum vp_slot_kind vp_stage_slot_kind(
    const struct vp_stage_shape *shape, int slot)
{
    return slot < shape->n_first_slots ? VP_SLOT_FIRST : VP_SLOT_REST;
}
static inline const struct vp_program *vp_stage_plan_program(
    const struct vp_stage_plan *plan, int slot, int bucket)
{
    return &plan->train[vp_stage_slot_kind(&plan->shape, slot) *
                            plan->n_buckets +
                        bucket];
}

/* Memory of one replica of a stage. `first`: it is the first of the pipeline,
 * which has batches in place of messages. */
struct vp_memory vp_stage_memory(const struct vp_workload *work,
                                 const struct vp_stage_sizes *sizes,
                                 const struct vp_stage_shape *shape,
                                 bool first);

/* The edge that messages through IN, OUT, DIN or DOUT cross. */
enum vp_edge_kind vp_stage_edge(const struct vp_stage_shape *shape,
                                enum vp_space space);
/* Returns true if floats of messages through `space` are BF16 on their way. */
bool vp_stage_compresses(const struct vp_stage_sizes *sizes,
                         const struct vp_stage_shape *shape,
                         enum vp_space space);
/* The most bytes that a message through `space` has on its way. */
int64_t vp_stage_wire_bytes(const struct vp_stage_sizes *sizes,
                            const struct vp_stage_shape *shape,
                            enum vp_space space);
/* Bytes of a message of `program` through `space`, with floats as BF16. */
int64_t vp_program_compressed_bytes(const struct vp_program *program,
                                    enum vp_space space);

#endif
