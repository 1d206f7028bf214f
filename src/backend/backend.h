/* Programs on a device: what runs the lists of a stage and its optimizer. A
 * backend fills one table, and one of device/driver.h for its devices; CPU is
 * linked in, others are plugins. */
#ifndef VP_BACKEND_BACKEND_H
#define VP_BACKEND_BACKEND_H

#include "device/device.h"
#include "device/driver.h"
#include "graph/program.h"
#include "optim/optim.h"

/* Changes with any structure that a plugin shares with the program, those of
 * device/driver.h included. */
#define VP_BACKEND_ABI 16

/* An open one. Every backend has its own; the first member is a struct
 * vp_device. */
struct vp_backend;
struct vp_exe; /* a program compiled for this device */

/* Scalars of one minibatch, read by kernels; never baked into a program. */
struct vp_mb {
    uint64_t seed;
    uint64_t first_sample; /* running count: sample i has id first_sample + i */
    float loss_grad;       /* d(objective)/d(loss of this minibatch) */
    bool accumulate;       /* add weight gradients instead of writing them */
    bool train;            /* false: dropout is the identity */
};

/* The tensor-parallel group that this rank is a member of. All members launch the
 * same lists in the same order, so that their sums and exchanges meet. */
struct vp_members {
    int n, me;
    void *ctx;
    /* data += those of the other members, added in member order. */
    void (*sum)(void *ctx, const struct vp_op *op, float *data, int64_t n);
    /* Every member gives `n_bytes` and gets those of all, in member order. */
    void (*exchange)(void *ctx, const struct vp_op *op, const void *mine,
                     size_t n_bytes, void *all);
    /* Of the first call of this table that failed; those after it do nothing. */
    enum vp_status (*status)(void *ctx);
    /* With slices of rows: member t has `slice` elements from t * slice on of an array
     * of n, or those that are left.
     * As sum(), but only the own slice has the result; the rest is undefined. */
    void (*reduce_scatter)(void *ctx, const struct vp_op *op, float *data,
                           int64_t n, int64_t slice);
    /* `mine` is the own slice of `all`; all in bytes. */
    void (*all_gather)(void *ctx, const struct vp_op *op, const void *mine,
                       void *all, int64_t n, int64_t slice);
    /* Does what exchange() does, from device memory to device memory, as work of
     * `stream`, a handle as vp_stream_handle() gives it: waits for nothing, and may
     * be captured. NULL: members exchange through memory of the host. */
    enum vp_status (*gather)(void *ctx, const struct vp_op *op,
                             const void *mine, size_t n_bytes, void *all,
                             void *stream);
    int timeout_ms; /* for the device, before an exchange; 0: a minute */
};

/* The most that a device exchanges at once through memory of the host. */
enum { VP_EXCHANGE_BYTES = 4 << 20 };

struct vp_launch {
    void *base[VP_SPACE_COUNT];
    const struct vp_mb *mb;
    int slot, version; /* which bases these are: keys for captured graphs */
    const struct vp_members *members; /* NULL: this rank alone */
    /* From vp_device_host_alloc(), as many bytes as staging_bytes() says: what
     * members exchange goes through it. NULL: it goes nowhere else. */
    void *staging;
    size_t n_staging;

    /* Not NULL: the list makes all gradients final, and every tensor is updated
     * as soon as its own is and nothing in the list reads it any more. Only
     * where the table says updates_early; not LAMB. Where a gradient is not
     * finite an element stays as it is. */
    const struct vp_optim_step *update;
    double *squares; /* of the gradients, per tensor; from
                        vp_device_host_alloc() */
};

struct vp_backend_config {
    int n_threads;
    bool plan_only; /* checks `config` and touches no device: it can run
                       nothing */
    int device;     /* ordinal; CPU: the set of n_threads cores, if pinned */
    bool reference; /* CPU: plain-C twins instead of the fast kernels */
    bool tf32;      /* GPU: products may round floats to 10 bits */
    /* GPU, plan_only: the capability that is planned for, 90 for 9.0. 0: that
     * of a GPU of this machine, or VP_CUDA_PLANNED_CAPABILITY. */
    int capability;
    bool pinned; /* CPU: thread i stays on core device * n_threads + i,
                       counting those that the process may use */
    /* Called by the thread that launches, where it is kept busy, between
     * kernels, or waits: messages go on. False: the run is over, and waits
     * end with VP_ERR_ABORTED. NULL: nothing to do. */
    bool (*between)(void *ctx);
    void *between_ctx;
};

/* The first call of a list whose output holds a NaN or infinity. */
struct vp_nonfinite {
    const struct vp_op *op;
    enum vp_phase phase;
};

/* What a device is; rates are measured. */
struct vp_device_info {
    char name[64];
    int capability; /* 90 for 9.0 */
    int n_processors;
    size_t bytes, free_bytes;
    double copy_rate;            /* bytes read and written per second */
    double bf16_rate, fp32_rate; /* of products, operations per second */
};

struct vp_backend_ops {
    const char *name;
    const struct vp_device_ops *device; /* of its devices */
    bool updates_early;                 /* launch() takes an update along */
    int w_linger;                       /* see struct vp_stage_spec */
    int64_t grad_linger; /* likewise; 0: gradients are never used up */
    /* If there are none, `why` says for what reason, unless it is NULL. */
    int (*n_devices)(struct vp_err *why);
    /* NULL where there is nothing to say. Measuring `rates` takes a second. */
    enum vp_status (*info)(int device, bool rates, struct vp_device_info *out,
                           struct vp_err *err);
    /* What tells a device from all others of its host, within `n_bytes`. NULL:
     * ranks need not share devices. */
    bool (*address)(int device, char *text, size_t n_bytes);
    /* Called by vp_backend_open(), which sets the device's table. */
    enum vp_status (*open)(const struct vp_backend_config *config,
                           struct vp_backend **out, struct vp_err *err);
    void (*close)(struct vp_backend *backend);

    /* `ctx` is a struct vp_backend_config: how the device would be opened. */
    vp_scratch_fn scratch_bytes;
    /* Bytes of staging that a list of the program wants; see struct vp_launch.
     * NULL: none. */
    vp_staging_fn staging_bytes;
    enum vp_status (*compile)(struct vp_backend *backend,
                              const struct vp_program *program,
                              struct vp_exe **out, struct vp_err *err);
    void (*exe_free)(struct vp_exe *exe);
    enum vp_status (*launch)(struct vp_exe *exe, enum vp_list list,
                             const struct vp_launch *launch,
                             struct vp_stream *stream);
    /* Calls [first, first + n) of a list. The parts of one follow each other,
     * with the same launch and nothing else between them. */
    enum vp_status (*launch_part)(struct vp_exe *exe, enum vp_list list,
                                  int first, int n,
                                  const struct vp_launch *launch,
                                  struct vp_stream *stream);
    /* Runs a list call by call and looks at every output: slow, for naming
     * the culprit after the fact. `*found_out` has op NULL if all is finite. */
    enum vp_status (*launch_checked)(struct vp_exe *exe, enum vp_list list,
                                     const struct vp_launch *launch,
                                     struct vp_nonfinite *found_out);

    /* dst += src, element by element: gradients of tied parameters. */
    enum vp_status (*add)(struct vp_backend *backend, struct vp_stream *stream,
                          float *dst, const float *src, int64_t n);
    /* Each float to the nearest one that BF16 has, as vp_dtype_round(): what a
     * compressed message would bring. */
    enum vp_status (*shorten)(struct vp_backend *backend,
                              struct vp_stream *stream, float *data, int64_t n);
    /* Sum of squares of each gradient, in a fixed order; the host reads
     * `sums_out`, which is from vp_device_host_alloc(), after the stream. */
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

/* Opens a device to run programs on; ops->close() ends it. */
enum vp_status vp_backend_open(const struct vp_backend_ops *ops,
                               const struct vp_backend_config *config,
                               struct vp_backend **out, struct vp_err *err);
/* Its device; freed by ops->close(). */
struct vp_device *vp_backend_device(struct vp_backend *backend);

#endif
