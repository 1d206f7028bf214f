/* One stage on one device: programs, memory, weight versions, optimizer. */
#ifndef VP_RUNTIME_STAGE_H
#define VP_RUNTIME_STAGE_H

#include "runtime/trainer.h"

/* What travels in front of the tensors of a packet. */
struct vp_header {
    uint64_t minibatch; /* of the run; checked on arrival */
    uint64_t first_sample;
    int64_t n_samples, n_tokens;
    int bucket;
};

/* Bytes in front of the tensors, so that these stay aligned. */
#define VP_HEADER_BYTES VP_TENSOR_ALIGN

/* What a stage runs for one length bucket. */
struct vp_stage_bucket {
    struct vp_program train, eval;
    struct vp_exe *train_exe, *eval_exe;
};

/* Buffers and counts of a stage, as the schedule asks for them. */
struct vp_stage_shape {
    int n_slots, n_versions;
    int n_act_bufs, n_grad_bufs; /* rings of arriving messages */
};

/* A minibatch in flight. */
struct vp_slot {
    void *data;      /* SLOT */
    void *packet;    /* header and IN: the batch or a message */
    void *grad;      /* header and DOUT: W may read it, too */
    int64_t version; /* of the weights its forward used */
    struct vp_mb mb;
};

struct vp_stage {
    const struct vp_train_config *config;
    const struct vp_backend_ops *ops;
    struct vp_backend *backend; /* the rank's; borrowed */
    struct vp_stream *stream;
    struct vp_stage_spec spec;
    struct vp_stage_shape shape;

    struct vp_stage_bucket *buckets; /* n_graphs */
    int64_t n_bytes[VP_SPACE_COUNT]; /* largest over buckets */
    struct vp_memory memory;

    struct vp_slot *slots;
    void **batches; /* first stage: a packet per slot */
    void **act_bufs, **grad_bufs;
    float **weights; /* a ring of versions */
    float *grads;
    float *moment[2];
    void *work, *redo;
    int64_t newest; /* version = updates done */

    struct vp_optim_tensor *tensors; /* named tensors of [0, train_bytes) */
    const char **tensor_names;
    const struct vp_param **tensor_params; /* that they are parts of */
    int n_tensors;
    int n_own_tensors; /* the others are copies of tied weights whose
                              owner is in another stage */
    double *sums;      /* per tensor */
};

/* Lowers every bucket and adds up memory. */
enum vp_status vp_stage_init(struct vp_stage *stage,
                             const struct vp_train_config *config,
                             struct vp_backend *backend,
                             const struct vp_stage_spec *spec,
                             const struct vp_stage_shape *shape,
                             struct vp_err *err);
/* Allocates what vp_stage_init() planned, and sets the initial weights. */
enum vp_status vp_stage_allocate(struct vp_stage *stage, struct vp_err *err);
void vp_stage_release(struct vp_stage *stage);

/* The boundary of one launch; NULL where the stage has none. Packets begin
 * with their header. */
struct vp_boundary {
    void *out, *din, *dout;
};

struct vp_header *vp_packet_header(void *packet);

/* Puts a batch into a packet of the first stage. */
enum vp_status vp_stage_load(struct vp_stage *stage, void *packet,
                             const struct vp_batch *batch, uint64_t minibatch);
enum vp_status vp_stage_run(struct vp_stage *stage, const struct vp_slot *slot,
                            enum vp_list list, int64_t version, bool eval,
                            const struct vp_boundary *boundary);
/* What a minibatch trains with. */
const struct vp_program *vp_stage_program(const struct vp_stage *stage,
                                          const struct vp_slot *slot);
/* Calls [first, first + n) of a list of that program. */
enum vp_status vp_stage_run_part(struct vp_stage *stage,
                                 const struct vp_slot *slot, enum vp_list list,
                                 int first, int n, int64_t version,
                                 const struct vp_boundary *boundary);
/* The loss of the slot's minibatch (last stage). */
enum vp_status vp_stage_loss(struct vp_stage *stage, const struct vp_slot *slot,
                             bool eval, float *loss_out);

/* Squares of the gradients, per tensor, into stage->sums. */
enum vp_status vp_stage_sum_grads(struct vp_stage *stage);
/* Writes the next version. */
enum vp_status vp_stage_update(struct vp_stage *stage, float lr,
                               float grad_scale);
float *vp_stage_weights(const struct vp_stage *stage, int64_t version);
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
