/* One stage of a plan: its programs, its buffers, their bytes. The runtime
 * allocates exactly these bytes, and the price of a plan is their sum.
 *
 *   plan, schedule  ->  choices: what is lowered (vp_stage_spec)
 *                   ->  shape: number of buffers of each kind
 *   lowering        ->  sizes: bytes of one buffer of each kind
 *
 * A vp_stage_plan holds all of these and the programs. */
#ifndef VP_PLAN_STAGE_PLAN_H
#define VP_PLAN_STAGE_PLAN_H

#include "graph/program.h"
#include "optim/optim.h"
#include "plan/memory.h"
#include "plan/plan.h"

/* Properties of a device that planning needs. See vp_backend_facts(), which
 * needs no device. */
struct vp_device_facts {
    bool host_memory;        /* the host can access device memory */
    bool updates_early;      /* a backward can include the optimizer's update */
    int w_linger;            /* see struct vp_stage_spec */
    int64_t grad_linger;     /* likewise; 0: gradients stay until the update */
    vp_scratch_fn scratch;   /* NULL: calls need none */
    const void *scratch_ctx; /* borrowed */
    vp_staging_fn staging;   /* NULL: groups need no host memory */
};

/* The work to plan for: model, optimizer and device. */
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

/* Choices for a stage: `spec` for all slots but the first n_first_slots, and
 * what those recompute and swap instead. Arrays are borrowed and have an entry
 * per block of the stage; NULL: none. */
struct vp_stage_choices {
    struct vp_stage_spec spec;
    int n_first_slots; /* 0: all slots are equal */
    const uint64_t *first_recompute, *first_swap;
    /* Number of replicas that each own a shard of the optimizer's state, see
     * shard.h; 0: every replica has all of it. */
    int n_shards;
};

/* Number of buffers of a stage, taken from the schedule and the plan. */
struct vp_stage_shape {
    int n_slots, n_versions;
    int n_first_slots;                       /* see struct vp_stage_choices */
    int n_recomputed, n_swap_out, n_swap_in; /* see struct vp_schedule_stage */
    int n_act_bufs, n_grad_bufs;             /* rings of arriving messages */
    /* Buffers of messages that leave for other processes; 0: messages are
     * written directly into the receiver's buffer. */
    int n_out_bufs, n_din_bufs;
    /* Edges to the previous and to the next stage. */
    enum vp_edge_kind edge[2];
    bool compress; /* floats travel as BF16 */
    /* Gradients are added in host memory: those of the whole stage if it has
     * replicas in other processes (`mirrored`), and `tie_bytes` for uses of
     * tied weights. Only for devices with their own memory. */
    bool mirrored;
    int64_t tie_bytes;
};

/* Buffers per receiver in another process: one is written while the other is
 * being sent. */
enum { VP_STAGE_LEAVING = 2 };

/* Bytes of results that the host reads: the loss, per slot; and two sums of
 * squares per tensor of the gradients. */
#define VP_STAGE_LOSS_BYTES ((int64_t)(VP_LOSS_COLS * sizeof(float)))
#define VP_STAGE_SUM_BYTES ((int64_t)(2 * sizeof(double)))

/* Bytes that the blocks of a stage need. They are valid for every shape, except
 * that programs with a single slot are laid out differently. */
struct vp_stage_sizes {
    int64_t n_bytes[VP_SPACE_COUNT]; /* largest over buckets */
    int64_t moment_bytes;            /* one moment of the optimizer */
    int64_t master_bytes;            /* the master of 16-bit weights */
    int64_t train_bytes;             /* all trained parameters, as FP32 */
    /* Bytes of a message through IN, OUT, DIN or DOUT, uncompressed and with
     * its floats as BF16. */
    int64_t message[VP_SPACE_COUNT], compressed[VP_SPACE_COUNT];
    /* SLOT per kind; n_bytes has the maximum */
    int64_t slot_bytes[VP_SLOT_KINDS];
    /* FLOPs per minibatch of the first bucket. */
    double flops[VP_SLOT_KINDS][VP_LIST_COUNT];
    bool has_floats;      /* messages have FP32 values to compress */
    int n_tensors;        /* number of named tensors that are trained */
    int64_t logits_bytes; /* an output, see enum vp_output; else 0 */
    /* Host memory through which a tensor-parallel group exchanges values. */
    int64_t staging_bytes;
};

struct vp_stage_plan {
    struct vp_stage_spec spec;
    struct vp_stage_shape shape;
    /* Programs per bucket. If there are first slots, those of VP_SLOT_FIRST
     * follow the others in `train`. Without evaluation `eval` has no calls. In
     * a forward-only plan `train` has the forwards and `eval` has no calls. */
    struct vp_program *train, *eval;
    int n_buckets, n_kinds;
    int n_shards; /* as in struct vp_stage_choices */
    struct vp_stage_sizes sizes;
    struct vp_memory memory; /* bytes of one replica */
};

/* Returns the operators of a stage that are recomputed, per block
 * (graph/recompute.h): the plan's own sets, or `sets`, filled from the ratio of
 * the stage. `sets` has room for an entry per block of the stage. Returns NULL
 * if none are. */
const uint64_t *vp_plan_stage_sets(const struct vp_plan *plan,
                                   const struct vp_graph *graph, int stage,
                                   uint64_t *sets);

/* Returns the operators of a stage that are swapped, in the same format.
 * `recompute`: the result of vp_plan_stage_sets(). Returns NULL if none are, or
 * if memory is exhausted. */
const uint64_t *vp_plan_stage_swap(const struct vp_plan *plan,
                                   const struct vp_graph *graph, int stage,
                                   const uint64_t *recompute, uint64_t *sets);

/* The choices and the shape of a stage. `schedule` comes from
 * vp_plan_make_schedule() for this plan. The choices borrow `sets`, which has
 * room for two entries per block of the stage. */
struct vp_stage_choices vp_plan_stage_choices(
    const struct vp_plan *plan, const struct vp_workload *work,
    const struct vp_schedule *schedule, int stage, uint64_t *sets);
struct vp_stage_shape vp_plan_stage_shape(const struct vp_plan *plan,
                                          const struct vp_graph *graph,
                                          const struct vp_schedule *schedule,
                                          int stage);

/* Lowers the programs of every bucket and adds up their memory. */
enum vp_status vp_stage_plan_make(const struct vp_workload *work,
                                  const struct vp_stage_choices *choices,
                                  const struct vp_stage_shape *shape,
                                  struct vp_stage_plan *out,
                                  struct vp_err *err);
void vp_stage_plan_release(struct vp_stage_plan *plan);
/* Returns the kind of the programs that `slot` uses. */
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

/* Returns the memory of one replica of a stage. `first`: it is stage 0, which
 * receives batches in place of messages. */
struct vp_memory vp_stage_memory(const struct vp_workload *work,
                                 const struct vp_stage_sizes *sizes,
                                 const struct vp_stage_shape *shape,
                                 bool first);

/* Returns the edge that messages through IN, OUT, DIN or DOUT cross. */
enum vp_edge_kind vp_stage_edge(const struct vp_stage_shape *shape,
                                enum vp_space space);
/* Returns true if FP32 values of messages through `space` are sent as BF16. */
bool vp_stage_compresses(const struct vp_stage_sizes *sizes,
                         const struct vp_stage_shape *shape,
                         enum vp_space space);
/* Returns the largest number of bytes that are sent for a message through
 * `space`. */
int64_t vp_stage_wire_bytes(const struct vp_stage_sizes *sizes,
                            const struct vp_stage_shape *shape,
                            enum vp_space space);
/* Returns the bytes of a message of `program` through `space` with FP32 values
 * as BF16. */
int64_t vp_program_compressed_bytes(const struct vp_program *program,
                                    enum vp_space space);

#endif
