/* Backends: they run the programs of a stage and its optimizer on a device. A
 * backend fills struct vp_backend_ops, and struct vp_device_ops of
 * device/driver.h for its devices. The CPU backend is linked in; others are
 * plugins. */
#ifndef VP_BACKEND_BACKEND_H
#define VP_BACKEND_BACKEND_H

#include "device/device.h"
#include "device/driver.h"
#include "graph/program.h"
#include "optim/optim.h"

/* Changes with any structure that a plugin shares with the program, those of
 * device/driver.h included. */
#define VP_BACKEND_ABI 16

/* An open device. Each backend defines its own struct, whose first member is a
 * struct vp_device. */
struct vp_backend;
struct vp_exe; /* a program compiled for this device */

/* Scalars of one minibatch. Kernels read them at launch; no program contains
 * them. */
struct vp_mb {
    uint64_t seed;
    uint64_t first_sample; /* running count: sample i has id first_sample + i */
    float loss_grad;       /* d(objective)/d(loss of this minibatch) */
    bool accumulate;       /* add weight gradients instead of writing them */
    bool train;            /* false: dropout is the identity */
};

/* The tensor-parallel group that this rank is a member of. All members launch
 * the same lists in the same order, so that their collective calls match. */
struct vp_members {
    int n, me; /* number of members, and this one's index */
    void *ctx;
    /* All-reduce: `data` of every member becomes the sum over all members,
     * added in member order. */
    void (*sum)(void *ctx, const struct vp_op *op, float *data, int64_t n);
    /* All-gather of `n_bytes` per member: `all` gets those of all, in member
     * order. */
    void (*exchange)(void *ctx, const struct vp_op *op, const void *mine,
                     size_t n_bytes, void *all);
    /* Returns the status of the first call of this table that failed, or VP_OK.
     * Calls after a failure do nothing. */
    enum vp_status (*status)(void *ctx);
    /* For slices of rows. Slice t of an array of `n` elements begins at t *
     * slice and has `slice` elements, or fewer at the end of the array. As
     * sum(), but each member gets the result only in its own slice; the rest of
     * its `data` is undefined. */
    void (*reduce_scatter)(void *ctx, const struct vp_op *op, float *data,
                           int64_t n, int64_t slice);
    /* `all` gets the slices of all members; `mine` is this member's own. Here
     * `n` and `slice` count bytes. */
    void (*all_gather)(void *ctx, const struct vp_op *op, const void *mine,
                       void *all, int64_t n, int64_t slice);
    /* Optional: exchange() from device memory to device memory. Enqueues the
     * work on `stream`, a handle of vp_stream_handle(), and returns at once; may
     * be captured in a CUDA graph. NULL: members exchange through host memory. */
    enum vp_status (*gather)(void *ctx, const struct vp_op *op,
                             const void *mine, size_t n_bytes, void *all,
                             void *stream);
    int timeout_ms; /* limit of the wait for the device before an exchange; 0: one
                       minute */
};

/* The most bytes that a device exchanges at once through host memory. */
enum { VP_EXCHANGE_BYTES = 4 << 20 };

struct vp_launch {
    void *base[VP_SPACE_COUNT];
    const struct vp_mb *mb;
    int slot, version; /* identify the bases; keys of captured CUDA graphs */
    const struct vp_members *members; /* NULL: this rank alone */
    /* Host memory from vp_device_host_alloc() through which members exchange,
     * of the size that staging_bytes() returns. NULL if none is needed. */
    void *staging;
    size_t n_staging; /* bytes */

    /* Optional, and only if the backend has updates_early; not for LAMB. All
     * gradients are final at the end of this list: the backend updates each
     * tensor as soon as its gradient is final and no later call of the list
     * reads the tensor. An element whose gradient is not finite keeps its
     * value. */
    const struct vp_optim_step *update;
    double *squares; /* with `update`: gets the sum of squares of each gradient;
                        from vp_device_host_alloc() */
};

struct vp_backend_config {
    int n_threads;
    bool plan_only; /* only checks `config`; the backend opens no device and can
                       run nothing */
    int device;     /* index of the GPU; CPU: see `pinned` */
    bool reference; /* CPU: reference kernels instead of the fast ones */
    bool tf32;      /* GPU: matrix products may use TF32 */
    /* GPU, plan_only: the compute capability to plan for, 90 for 9.0. 0: that
     * of a GPU of this machine, or VP_CUDA_PLANNED_CAPABILITY if there is
     * none. */
    int capability;
    bool pinned; /* CPU: thread i is pinned to core device * n_threads + i of
                       the cores that the process may use */
    /* Optional: the launching thread calls it between kernels and while it
     * waits, to make progress on messages. Returns false if the run was
     * aborted: waits then end with VP_ERR_ABORTED. */
    bool (*between)(void *ctx);
    void *between_ctx;
};

/* The first call of a list whose output holds a NaN or infinity. */
struct vp_nonfinite {
    const struct vp_op *op;
    enum vp_phase phase;
};

/* Properties of a device. Rates are measured. */
struct vp_device_info {
    char name[64];
    int capability; /* compute capability, 90 for 9.0 */
    int n_processors;
    size_t bytes, free_bytes;
    double copy_rate;            /* bytes read and written per second */
    double bf16_rate, fp32_rate; /* FLOP/s of matrix products */
};

struct vp_backend_ops {
    const char *name;
    const struct vp_device_ops *device; /* table of its devices */
    bool updates_early;                 /* see `update` of struct vp_launch */
    int w_linger;                       /* see struct vp_stage_spec */
    int64_t grad_linger; /* likewise; 0: gradients do not share memory */
    /* Returns the number of devices. If it is 0 and `why` is not NULL, `why`
     * gets the reason. */
    int (*n_devices)(struct vp_err *why);
    /* Optional. Fills `out`; its rates only if `rates`, which takes about a
     * second. */
    enum vp_status (*info)(int device, bool rates, struct vp_device_info *out,
                           struct vp_err *err);
    /* Writes an identifier of the device that is unique on its host to `text`,
     * which has `n_bytes`. Returns false on failure. NULL: devices need no
     * identifier, since ranks may share one. */
    bool (*address)(int device, char *text, size_t n_bytes);
    /* Called by vp_backend_open(), which sets the device's table. */
    enum vp_status (*open)(const struct vp_backend_config *config,
                           struct vp_backend **out, struct vp_err *err);
    void (*close)(struct vp_backend *backend);

    /* `ctx` is the struct vp_backend_config with which the device would be
     * opened. */
    vp_scratch_fn scratch_bytes;
    /* Optional: returns the bytes of staging that the lists of a program need;
     * see struct vp_launch. NULL: none. */
    vp_staging_fn staging_bytes;
    enum vp_status (*compile)(struct vp_backend *backend,
                              const struct vp_program *program,
                              struct vp_exe **out, struct vp_err *err);
    void (*exe_free)(struct vp_exe *exe);
    enum vp_status (*launch)(struct vp_exe *exe, enum vp_list list,
                             const struct vp_launch *launch,
                             struct vp_stream *stream);
    /* Runs calls [first, first + n) of a list. The parts of a list are launched
     * in order, with the same `launch` and no other launch between them. */
    enum vp_status (*launch_part)(struct vp_exe *exe, enum vp_list list,
                                  int first, int n,
                                  const struct vp_launch *launch,
                                  struct vp_stream *stream);
    /* Runs a list call by call and checks every output. Slow: used to find the
     * operator that first produced a NaN or infinity. `found_out->op` is NULL
     * if all outputs are finite. */
    enum vp_status (*launch_checked)(struct vp_exe *exe, enum vp_list list,
                                     const struct vp_launch *launch,
                                     struct vp_nonfinite *found_out);

    /* dst += src, element by element; adds gradients of tied parameters. */
    enum vp_status (*add)(struct vp_backend *backend, struct vp_stream *stream,
                          float *dst, const float *src, int64_t n);
    /* Rounds each float to the nearest BF16 value, as vp_dtype_round(), in
     * place: the result of sending it in a compressed message. */
    enum vp_status (*shorten)(struct vp_backend *backend,
                              struct vp_stream *stream, float *data, int64_t n);
    /* sums_out[i] = the sum of squares of gradient i, added in a fixed order.
     * `sums_out` is from vp_device_host_alloc() and may be read once the work
     * of `stream` is done. */
    enum vp_status (*sum_squares)(struct vp_backend *backend,
                                  struct vp_stream *stream,
                                  const struct vp_optim_tensor *tensors,
                                  int n_tensors, const float *grad,
                                  double *sums_out);
    enum vp_status (*update)(struct vp_backend *backend,
                             struct vp_stream *stream,
                             const struct vp_optim_step *step);
};

extern const struct vp_backend_ops vp_backend_cpu;

/* Opens a device to run programs on; the caller closes it with ops->close(). */
enum vp_status vp_backend_open(const struct vp_backend_ops *ops,
                               const struct vp_backend_config *config,
                               struct vp_backend **out, struct vp_err *err);
/* Returns the device of an open backend; ops->close() frees it. */
struct vp_device *vp_backend_device(struct vp_backend *backend);

#endif
