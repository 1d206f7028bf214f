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

/* Header of a message. */
struct vp_message_header {
    uint64_t minibatch; /* number in the run; checked on arrival */
    uint64_t first_sample;
    int64_t n_samples, n_tokens;
    int bucket;
};

/* A batch, or a message between stages. An asynchronous device may still have
 * to write or read it: events mark when that is done. */
struct vp_stage_message {
    struct vp_message_header header;
    void *tensors; /* values of a boundary, in device memory */
    /* The sender has written it. The sender's event, unless devices of
     * different processes access each other. */
    struct vp_event *written;
    /* The receiver has read it for the last time; for a batch: the device has
     * read `host`. */
    struct vp_event *read;
    /* The values in host memory; equal to `tensors` if that is host memory. Set
     * for batches, and for messages to or from another process unless devices
     * access each other. NULL: the message is passed within the process. */
    void *host;
    void *wire; /* bytes that are sent: `host`, or the compressed message */
};

/* The programs of one length bucket, compiled. */
struct vp_stage_bucket {
    /* NULL: there are no slots of this kind. */
    struct vp_exe *train[VP_SLOT_KINDS];
    struct vp_exe *eval; /* NULL: no evaluation */
};

/* A minibatch in flight. */
struct vp_slot {
    void *data;                       /* SLOT */
    struct vp_stage_message *message; /* IN: the batch or the message */
    struct vp_stage_message *grad;    /* DOUT; may also be read by W */
    int64_t version;                  /* weight version of its forward */
    struct vp_mb mb;
    /* Buffers for RECOMPUTED, and for SWAPPED: written by F, in host memory,
     * and read by R, B and W. */
    void *recomputed, *swap_out, *swap_host, *swap_in;
    struct vp_copy left, back; /* copies of SWAPPED to the host and back */
};

struct vp_shard_table; /* shard_table.h */

struct vp_stage {
    struct vp_stage_config config;
    const struct vp_backend_ops *ops;
    struct vp_backend *backend; /* backend of the rank; borrowed */
    struct vp_device *device;
    struct vp_world *world; /* aborted on failure of a device; borrowed */
    const struct vp_members *members; /* its group; NULL: it has none */
    bool members_apart;               /* they are other processes */
    void *staging; /* host buffer for exchanges; NULL: not needed */
    struct vp_stream *stream;
    struct vp_stage_plan plan;
    struct vp_stage_bucket *buckets; /* per bucket of the plan */

    struct vp_slot *slots;
    struct vp_stage_message *batches; /* stage 0 only: one per slot */
    struct vp_stage_message *act_bufs, *grad_bufs;
    struct vp_stage_message *out_bufs, *din_bufs;
    void **weights; /* ring of versions, in the dtype of the graph */
    _Atomic(struct vp_kept *) kept; /* overwritten versions; NULL: not kept */
    void *master; /* master of the newest version, see optim.h */
    float *grads;
    float *moment[2];
    /* Shards of master and moments that the replicas own; NULL: this replica
     * has all of both. */
    struct vp_shard_table *shard;
    void *work;
    void *cache; /* CACHE; NULL: the model has none */
    void **recomputed, **swap_out, **swap_in; /* rings */
    void *swap_host; /* host memory for the swapped values of all slots */
    /* To the host, and back; NULL: nothing is swapped. */
    struct vp_copier *copier[2];
    int64_t newest; /* newest version = number of updates made or skipped */
    /* Asynchronous training: the first version of the stream; older versions
     * were never in the ring. */
    int64_t oldest;
    /* The last backward included the next update, except tied tensors. */
    bool updated;
    struct vp_scale scale;
    /* Per block: number of updates made minus those of the stage; see
     * vp_block_count. */
    int64_t *ahead;
    bool mixed; /* blocks differ in that number */

    float (*losses)[VP_LOSS_COLS]; /* per slot, in host memory */
    /* Likewise; NULL: logits are no output, or the host reads them in the
     * slot. */
    void *logits;
    struct vp_event **loss_read; /* per slot: both have been copied */
    struct vp_event *idle;       /* used by vp_stage_wait() */
    struct vp_event *summed;     /* the sums of squares have been computed */

    struct vp_optim_tensor *tensors; /* named trained tensors */
    const char **tensor_names;
    const struct vp_param **tensor_params; /* per tensor: its parameter */
    int n_tensors;
    /* The first tensors; the others are copies of tied weights whose owner is
     * in another stage. */
    int n_own_tensors;
    int n_free_tensors; /* the first of these; the others are tied */
    double *sums;       /* per tensor, in host memory */
    double *next_sums;  /* those of the update that is being made */
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
/* Allocates the planned memory and sets the initial weights. */
enum vp_status vp_stage_allocate(struct vp_stage *stage, struct vp_err *err);
void vp_stage_release(struct vp_stage *stage);

/* The messages of one launch; NULL if the stage has none. */
struct vp_launch_messages {
    struct vp_stage_message *out, *din, *dout;
};

/* Assigns ring buffers to a slot, for minibatch number `own` of this stage. */
void vp_stage_take_buffers(const struct vp_stage *stage, struct vp_slot *slot,
                           int own);

/* Copies a batch into a message of stage 0. */
enum vp_status vp_stage_load(struct vp_stage *stage,
                             struct vp_stage_message *message,
                             const struct vp_batch *batch, uint64_t minibatch);
enum vp_status vp_stage_run(struct vp_stage *stage, const struct vp_slot *slot,
                            enum vp_list list, int64_t version, bool eval,
                            const struct vp_launch_messages *messages);
/* Runs the last backward before an update together with the update of all
 * tensors that are not tied. */
enum vp_status vp_stage_run_and_update(
    struct vp_stage *stage, const struct vp_slot *slot, int64_t version,
    const struct vp_launch_messages *messages, float lr, float grad_scale);
/* Returns the training program of the slot's minibatch. */
const struct vp_program *vp_stage_program(const struct vp_stage *stage,
                                          const struct vp_slot *slot);
/* Runs calls [first, first + n) of a list of that program. */
enum vp_status vp_stage_run_part(struct vp_stage *stage,
                                 const struct vp_slot *slot, enum vp_list list,
                                 int first, int n, int64_t version,
                                 const struct vp_launch_messages *messages);
/* Swapping. allocate: host memory and copiers; release waits for copies in
 * progress. The others run the actions SWAP_OUT, SWAP_FREE, SWAP_IN and
 * SWAP_READY. */
enum vp_status vp_stage_swap_allocate(struct vp_stage *stage);
void vp_stage_swap_release(struct vp_stage *stage);
enum vp_status vp_stage_swap_out(struct vp_stage *stage, struct vp_slot *slot);
enum vp_status vp_stage_swap_free(struct vp_stage *stage,
                                  const struct vp_slot *slot);
enum vp_status vp_stage_swap_in(struct vp_stage *stage, struct vp_slot *slot);
enum vp_status vp_stage_swap_ready(struct vp_stage *stage,
                                   const struct vp_slot *slot);

/* Last stage: starts to copy the outputs of the slot's minibatch to the host.
 * The device may be given more work before vp_stage_take_loss() waits for them.
 * The loss is all zeros if it is no output. */
enum vp_status vp_stage_fetch_outputs(struct vp_stage *stage,
                                      const struct vp_slot *slot, bool eval);
enum vp_status vp_stage_take_loss(struct vp_stage *stage,
                                  const struct vp_slot *slot,
                                  float loss_out[VP_LOSS_COLS]);
/* Returns the logits in host memory, after vp_stage_take_loss(); NULL: no
 * output. They are valid until the slot is used again. */
const void *vp_stage_logits(const struct vp_stage *stage,
                            const struct vp_slot *slot, bool eval);
/* A vp_adder_fn for gradients in device memory; `ctx` is the stage. */
void vp_stage_add_terms(void *ctx, const struct vp_term *terms, int n_added,
                        int n_terms, int64_t begin, int64_t end);
/* Adds the gradients [n] of a tied parameter whose uses are all in this stage,
 * in the order of `terms`. They share the weights of the first term, which
 * alone gets the sum. Does not wait for the device. */
enum vp_status vp_stage_add_uses(struct vp_stage *stage,
                                 const struct vp_term *terms, int n_terms,
                                 int64_t n);
/* Waits until the device has finished all work of the stage's stream. */
enum vp_status vp_stage_wait(struct vp_stage *stage);

/* Starts to compute the squares of the gradients per tensor. stage->sums is
 * valid after vp_stage_wait_sums() and until the next call. Replicas with
 * shards of the state exchange sums here, so all must call it. */
enum vp_status vp_stage_sum_grads(struct vp_stage *stage);
enum vp_status vp_stage_wait_sums(struct vp_stage *stage);
/* LAMB on a rank that has parts of tensors (shards or slices): updates the
 * moments and adds the squares of its tensors over the replicas that own
 * shards. Otherwise does nothing. */
enum vp_status vp_stage_measure(struct vp_stage *stage, float lr,
                                float grad_scale);
/* To be called after vp_stage_measure(), by all members: adds the squares of
 * slices in member order and sets the trust ratios of whole tensors.
 * vp_stage_update() does the rest. */
enum vp_status vp_stage_set_ratios(struct vp_stage *stage);
/* Returns true if vp_stage_update() needs both calls before it. */
bool vp_stage_is_measured(const struct vp_stage *stage);
/* Writes the next version, or the part of it that the backward left. The
 * optimizer counts the updates of each block. With a shard: starts to gather
 * the weights of the other shards. */
enum vp_status vp_stage_update(struct vp_stage *stage, float lr,
                               float grad_scale);
/* Skips an update: the next version is a copy of the newest. */
enum vp_status vp_stage_skip(struct vp_stage *stage);
void *vp_stage_weights(const struct vp_stage *stage, int64_t version);
/* Sets the initial weights of all parameters, or of constants only. */
enum vp_status vp_stage_init_weights(struct vp_stage *stage);
/* vp_stage_set_weights() copies n floats, from element `at` of one parameter
 * on, into every version and into the master. vp_stage_get_weights() returns
 * the newest ones with the same bits; not for stages with a shard. */
enum vp_status vp_stage_set_weights(struct vp_stage *stage, int64_t at,
                                    int64_t n, const float *host);
enum vp_status vp_stage_get_weights(const struct vp_stage *stage, int64_t at,
                                    int64_t n, float *host);
/* Other replicas of a stage in this process. Their threads are idle; the caller
 * acts for them. */
struct vp_peers {
    struct vp_stage **at;
    int n;
};
/* Like vp_stage_get_weights() for any stage; with a shard, all replicas take
 * part as in vp_stage_shard_fetch(). */
enum vp_status vp_stage_collect_weights(struct vp_stage *stage,
                                        const struct vp_peers *peers,
                                        int64_t at, int64_t n, float *host);
/* Returns the gradient of layout entry `entry`. */
float *vp_stage_grad(const struct vp_stage *stage, int entry);

/* Runs the slot's forward again and sets `err` to the first operator that gives
 * a non-finite value. Returns VP_OK if all values are finite. */
enum vp_status vp_stage_blame_forward(struct vp_stage *stage, int index,
                                      const struct vp_slot *slot,
                                      struct vp_err *err);
/* Sets `err` to a tensor whose sum of squares is not finite. Returns VP_OK if
 * there is none. */
enum vp_status vp_stage_blame_grads(const struct vp_stage *stage, int index,
                                    uint64_t minibatch, struct vp_err *err);

#endif
