/* What a device offers: buffers, copies, streams, events, compiled programs.
 * A backend fills one table; CPU is linked in, others are plugins. */
#ifndef VP_BACKEND_BACKEND_H
#define VP_BACKEND_BACKEND_H

#include "graph/program.h"
#include "optim/optim.h"

/* Changes with any structure that a plugin shares with the program. */
#define VP_BACKEND_ABI 8

struct vp_backend;
struct vp_stream;
struct vp_event;
struct vp_exe; /* a program compiled for this device */

/* Scalars of one minibatch, read by kernels; never baked into a program. */
struct vp_mb {
    uint64_t seed;
    uint64_t first_sample; /* running count: sample i has id first_sample + i */
    float loss_grad;       /* d(objective)/d(loss of this minibatch) */
    bool accumulate;       /* add weight gradients instead of writing them */
    bool train;            /* false: dropout is the identity */
};

struct vp_launch {
    void *base[VP_SPACE_COUNT];
    const struct vp_mb *mb;
    int slot, version; /* which bases these are: keys for captured graphs */

    /* Not NULL: the list makes all gradients final, and every tensor is updated
     * as soon as its own is and nothing in the list reads it any more. Only
     * where the table says updates_early; not LAMB. Where a gradient is not
     * finite an element stays as it is. */
    const struct vp_optim_step *update;
    double *squares; /* of the gradients, per tensor; from host_alloc() */
};

struct vp_backend_config {
    int n_threads;
    bool plan_only; /* touches no device: only scratch_bytes() will be asked */
    int device;     /* ordinal; CPU: the set of n_threads cores, if pinned */
    bool reference; /* CPU: plain-C twins instead of the fast kernels */
    bool tf32;      /* GPU: products may round floats to 10 bits */
    bool pinned;    /* CPU: thread i stays on core device * n_threads + i,
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
    bool host_memory;    /* the host can use what alloc() gives */
    bool updates_early;  /* launch() takes an update along */
    int w_linger;        /* see struct vp_stage_spec */
    int64_t grad_linger; /* likewise; 0: gradients are never used up */
    /* If there are none, `why` says for what reason, unless it is NULL. */
    int (*n_devices)(struct vp_err *why);
    /* NULL where there is nothing to say. Measuring `rates` takes a second. */
    enum vp_status (*info)(int device, bool rates, struct vp_device_info *out,
                           struct vp_err *err);
    /* What tells a device from all others of its host, within `n_bytes`. NULL:
     * ranks need not share devices. */
    bool (*address)(int device, char *text, size_t n_bytes);
    enum vp_status (*open)(const struct vp_backend_config *config,
                           struct vp_backend **out, struct vp_err *err);
    void (*close)(struct vp_backend *backend);
    /* The calling thread is the one that launches from now on. */
    void (*attach)(struct vp_backend *backend);
    /* More about the last call that failed; "" if there is nothing to say. */
    const char *(*last_error)(const struct vp_backend *backend);

    /* Zeroed. The size is given back on free. */
    enum vp_status (*alloc)(struct vp_backend *backend, size_t n_bytes,
                            void **out);
    void (*free)(struct vp_backend *backend, void *buffer, size_t n_bytes);

    /* Memory of the host that copies reach without the host's help. */
    enum vp_status (*host_alloc)(struct vp_backend *backend, size_t n_bytes,
                                 void **out);
    void (*host_free)(struct vp_backend *backend, void *buffer);

    enum vp_status (*stream_create)(struct vp_backend *backend,
                                    struct vp_stream **out);
    void (*stream_free)(struct vp_stream *stream);
    /* For libraries made for the device: its own kind of stream. NULL where
     * there is none. */
    void *(*stream_handle)(struct vp_stream *stream);
    enum vp_status (*event_create)(struct vp_backend *backend,
                                   struct vp_event **out);
    void (*event_free)(struct vp_event *event);
    enum vp_status (*event_record)(struct vp_event *event,
                                   struct vp_stream *stream);
    /* The stream waits on the device, the host does not. */
    enum vp_status (*stream_wait)(struct vp_stream *stream,
                                  struct vp_event *event);
    /* The host waits; VP_ERR_TIMEOUT after `timeout_ms`. */
    enum vp_status (*event_sync)(struct vp_event *event, int timeout_ms);
    /* An event that knows when the device reached it. NULL: the device does
     * not lag behind its host, whose clock says as much. */
    enum vp_status (*timed_event_create)(struct vp_backend *backend,
                                         struct vp_event **out);
    /* That time by vp_clock_ns(); waits for nothing. False: not reached yet, or
     * recorded more than a minute ago. */
    bool (*event_time)(struct vp_event *event, int64_t *ns_out);

    /* Any pair of host and device addresses; ordered in the stream. The host
     * may use its side at once, unless that is from host_alloc(). */
    enum vp_status (*copy)(struct vp_backend *backend, struct vp_stream *stream,
                           void *dst, const void *src, size_t n_bytes);

    size_t (*scratch_bytes)(struct vp_backend *backend,
                            const struct vp_graph *graph,
                            const struct vp_op *op, enum vp_phase phase);
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
     * `sums_out`, which is from host_alloc(), after the stream. */
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

#endif
