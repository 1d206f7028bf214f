/* One stage on one device: programs, memory, weight versions, optimizer. */
#ifndef VP_RUNTIME_STAGE_STAGE_H
#define VP_RUNTIME_STAGE_STAGE_H

#include "comm/comm.h"
#include "data/data.h"
#include "device/copier.h"
#include "plan/stage_plan.h"
#include "runtime/stage/stage_config.h"

#include <stdatomic.h>

struct vp_kept;

/* What a message is about. */
struct vp_message_header {
    uint64_t minibatch; /* of the run; checked on arrival */
    uint64_t first_sample;
    int64_t n_samples, n_tokens;
    int bucket;
};

/* A batch, or a message between stages. A device may lag behind its host: what
 * it still has to do for a message is marked by events. */
struct vp_stage_message {
    struct vp_message_header header;
    void *tensors;            /* the values of a boundary, in device memory */
    struct vp_event *written; /* by the sender; its own, unless devices of
                                 several processes reach each other */
    struct vp_event *read;    /* by the receiver, for the last time; of a batch:
                                 its `host`, by the device */
    /* The values in host memory, `tensors` if that is: of a batch, and
     * where another process has the other end and devices do not reach each
     * other; else NULL: messages are handed over. */
    void *host;
    void *wire; /* what travels; `host`, unless messages are compressed */
};

/* The programs of one length bucket, compiled. */
struct vp_stage_bucket {
    struct vp_exe *train[VP_SLOT_KINDS]; /* NULL: there are no such slots */
    struct vp_exe *eval;                 /* NULL without evaluation */
};

/* A minibatch in flight. */
struct vp_slot {
    void *data;                       /* SLOT */
    struct vp_stage_message *message; /* IN: the batch or a message */
    struct vp_stage_message *grad;    /* DOUT: W may read it, too */
    int64_t version;                  /* of the weights its forward used */
    struct vp_mb mb;
    /* RECOMPUTED, and SWAPPED as F writes it, on the host, and as others read
     * it. */
    void *recomputed, *swap_out, *swap_host, *swap_in;
    struct vp_copy left, back; /* of SWAPPED */
};

struct vp_shard_table; /* shard_table.h */

struct vp_stage {
    struct vp_stage_config config;
    const struct vp_backend_ops *ops;
    struct vp_backend *backend;       /* the rank's; borrowed */
    struct vp_device *device;         /* its device */
    struct vp_world *world;           /* to be aborted; borrowed */
    const struct vp_members *members; /* of its group; NULL: it is alone */
    bool members_apart;               /* they are other processes */
    void *staging; /* of what they exchange; NULL: none is needed */
    struct vp_stream *stream;
    struct vp_stage_plan plan;
    struct vp_stage_bucket *buckets; /* per bucket of the plan */

    struct vp_slot *slots;
    struct vp_stage_message *batches; /* first stage: one per slot */
    struct vp_stage_message *act_bufs, *grad_bufs;
    struct vp_stage_message *out_bufs, *din_bufs;
    void **weights; /* a ring of versions, in the graph's dtype */
    _Atomic(struct vp_kept *) kept; /* overwritten versions; NULL: none are */
    void *master;                   /* of the newest one; see optim.h */
    float *grads;
    float *moment[2];
    /* Of which replicas own shards each, like the master; NULL: all is here. */
    struct vp_shard_table *shard;
    void *work;
    void *cache; /* CACHE; NULL: the model has none */
    void **recomputed, **swap_out, **swap_in; /* rings */
    void *swap_host; /* a slab: where swapped values of each slot wait */
    struct vp_copier *copier[2]; /* out and in; NULL: nothing is swapped */
    int64_t newest;              /* version = updates done or skipped */
    int64_t oldest; /* asp: the first version that the stream had; older ones
                       were never in the ring */
    bool updated;   /* the last backward makes the next one, but for ties */
    struct vp_scale scale;
    /* Per block: updates made, beyond those of the stage; see vp_block_count. */
    int64_t *ahead;
    bool mixed; /* not the same of all blocks */

    float (*losses)[VP_LOSS_COLS]; /* per slot, in memory of the host */
    void *logits;                  /* likewise; NULL: not an output, or the host
                                      reads them in the slot */
    struct vp_event **loss_read;   /* per slot: both are there */
    struct vp_event *idle;         /* for vp_stage_wait() */
    struct vp_event *summed;       /* the sums of squares are there */

    struct vp_optim_tensor *tensors; /* named tensors of [0, train_bytes) */
    const char **tensor_names;
    const struct vp_param **tensor_params; /* that they are parts of */
    int n_tensors;
    int n_own_tensors;  /* the others are copies of tied weights whose
                               owner is in another stage */
    int n_free_tensors; /* the first of them: the others are tied */
    double *sums;       /* per tensor, in memory of the host */
    double *next_sums;  /* of the update being made */
    /* LAMB: per tensor, the squares of its weights and of its direction, those
     * of all members of the group, and the trust ratio; NULL: not LAMB. */
    double (*squares)[2], (*all_squares)[2];
    double *ratios;
};

/* Plans the stage and makes its tables. */
enum vp_status vp_stage_init(struct vp_stage *stage,
                             const struct vp_stage_config *config,
                             struct vp_backend *backend,
                             const struct vp_stage_choices *choices,
                             const struct vp_stage_shape *shape,
                             struct vp_err *err);
/* Allocates what vp_stage_init() planned, and sets the initial weights. */
enum vp_status vp_stage_allocate(struct vp_stage *stage, struct vp_err *err);
void vp_stage_release(struct vp_stage *stage);

/* The messages of one launch; NULL where the stage has none. */
struct vp_launch_messages {
    struct vp_stage_message *out, *din, *dout;
};

/* Gives a slot the buffers of its minibatch, the `own`-th of the stage. */
void vp_stage_take_buffers(const struct vp_stage *stage, struct vp_slot *slot,
                           int own);

/* Puts a batch into a message of the first stage. */
enum vp_status vp_stage_load(struct vp_stage *stage,
                             struct vp_stage_message *message,
                             const struct vp_batch *batch, uint64_t minibatch);
enum vp_status vp_stage_run(struct vp_stage *stage, const struct vp_slot *slot,
                            enum vp_list list, int64_t version, bool eval,
                            const struct vp_launch_messages *messages);
/* Runs the last backward before an update, and with it what of that needs to
 * know nothing else: the update of tensors that are not tied. */
enum vp_status vp_stage_run_and_update(
    struct vp_stage *stage, const struct vp_slot *slot, int64_t version,
    const struct vp_launch_messages *messages, float lr, float grad_scale);
/* What a minibatch trains with. */
const struct vp_program *vp_stage_program(const struct vp_stage *stage,
                                          const struct vp_slot *slot);
/* Calls [first, first + n) of a list of that program. */
enum vp_status vp_stage_run_part(struct vp_stage *stage,
                                 const struct vp_slot *slot, enum vp_list list,
                                 int first, int n, int64_t version,
                                 const struct vp_launch_messages *messages);
/* Swapping: memory of the host and copiers; releasing waits for copies under way.
 * Then what SWAP_OUT, SWAP_FREE, SWAP_IN and SWAP_READY do. */
enum vp_status vp_stage_swap_allocate(struct vp_stage *stage);
void vp_stage_swap_release(struct vp_stage *stage);
enum vp_status vp_stage_swap_out(struct vp_stage *stage, struct vp_slot *slot);
enum vp_status vp_stage_swap_free(struct vp_stage *stage,
                                  const struct vp_slot *slot);
enum vp_status vp_stage_swap_in(struct vp_stage *stage, struct vp_slot *slot);
enum vp_status vp_stage_swap_ready(struct vp_stage *stage,
                                   const struct vp_slot *slot);

/* Last stage: the outputs of the slot's minibatch are on their way to the host, and
 * are taken later: meanwhile the device may be given more to do. The loss is all
 * zeros if it is no output. */
enum vp_status vp_stage_fetch_outputs(struct vp_stage *stage,
                                      const struct vp_slot *slot, bool eval);
enum vp_status vp_stage_take_loss(struct vp_stage *stage,
                                  const struct vp_slot *slot,
                                  float loss_out[VP_LOSS_COLS]);
/* Logits in memory of the host, once the loss was taken; NULL: no output. They stay
 * until the slot is used again. */
const void *vp_stage_logits(const struct vp_stage *stage,
                            const struct vp_slot *slot, bool eval);
/* A vp_adder_fn for the memory of a stage's device; `ctx` is the stage. */
void vp_stage_add_terms(void *ctx, const struct vp_term *terms, int n_added,
                        int n_terms, int64_t begin, int64_t end);
/* Adds the gradients [n] of a tied parameter whose uses are all in this stage, in the
 * order of `terms`. They share the weights of the first term, which alone gets the sum.
 * Does not wait for the device. */
enum vp_status vp_stage_add_uses(struct vp_stage *stage,
                                 const struct vp_term *terms, int n_terms,
                                 int64_t n);
/* Until the device has done all it was given. */
enum vp_status vp_stage_wait(struct vp_stage *stage);

/* Squares of the gradients, per tensor, are on their way to stage->sums. They
 * may be read after the wait, and until the next ones are asked for. Replicas with
 * shards of the state exchange sums here: all come. */
enum vp_status vp_stage_sum_grads(struct vp_stage *stage);
enum vp_status vp_stage_wait_sums(struct vp_stage *stage);
/* LAMB where this rank has parts of tensors, shards or slices: moves the moments on,
 * and adds up the squares of its tensors over the replicas that own shards. All else:
 * nothing. */
enum vp_status vp_stage_measure(struct vp_stage *stage, float lr,
                                float grad_scale);
/* Then: adds the squares of slices in the order of the members, who all come here,
 * and sets the trust ratios of whole tensors; vp_stage_update() does the rest. */
enum vp_status vp_stage_set_ratios(struct vp_stage *stage);
/* Returns true if vp_stage_update() needs both calls before it. */
bool vp_stage_is_measured(const struct vp_stage *stage);
/* Writes the next version, or what the backward left of it. The optimizer counts
 * the updates of each block. Of a shard: begins to gather the others. */
enum vp_status vp_stage_update(struct vp_stage *stage, float lr,
                               float grad_scale);
/* Skips an update: the next version holds the weights of the newest. */
enum vp_status vp_stage_skip(struct vp_stage *stage);
void *vp_stage_weights(const struct vp_stage *stage, int64_t version);
/* Makes the first weights of all parameters, or of constants only. */
enum vp_status vp_stage_init_weights(struct vp_stage *stage);
/* n weights of one parameter, from element `at` on, as floats: into every
 * version, with what the optimizer needs to know of them; and the newest ones
 * back, with the same bits: not of a shard. */
enum vp_status vp_stage_set_weights(struct vp_stage *stage, int64_t at,
                                    int64_t n, const float *host);
enum vp_status vp_stage_get_weights(const struct vp_stage *stage, int64_t at,
                                    int64_t n, float *host);
/* Other replicas of a stage in this process, whose threads are idle: the caller
 * acts for them. */
struct vp_peers {
    struct vp_stage **at;
    int n;
};
/* As vp_stage_get_weights(), of any stage; of a shard, like a fetch. */
enum vp_status vp_stage_collect_weights(struct vp_stage *stage,
                                        const struct vp_peers *peers,
                                        int64_t at, int64_t n, float *host);
/* The gradient of layout entry `entry`. */
float *vp_stage_grad(const struct vp_stage *stage, int entry);

/* Runs the slot's forward again and names the first operator that gives a
 * non-finite value; VP_OK if all is finite. */
enum vp_status vp_stage_blame_forward(struct vp_stage *stage, int index,
                                      const struct vp_slot *slot,
                                      struct vp_err *err);
/* Names a tensor whose sum of squares is not finite. */
enum vp_status vp_stage_blame_grads(const struct vp_stage *stage, int index,
                                    uint64_t minibatch, struct vp_err *err);

#endif
