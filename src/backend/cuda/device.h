/* Structures of one GPU that a rank has opened: library handles, plans of
 * products, streams, events, clock. */
#ifndef VP_BACKEND_CUDA_DEVICE_H
#define VP_BACKEND_CUDA_DEVICE_H

#include "backend/cuda/wgrad_stream.h"

#include <cublasLt.h>
#include <cudnn.h>

#define VP_EXPORT __attribute__((visibility("default")))

struct vp_cuda_plan;      /* product/plan.h */
struct vp_cuda_attention; /* attention/attention.c */
struct vp_cuda_profile;   /* profile/profile.c */
struct vp_cuda_table;     /* backend.c */

struct vp_cuda {
    int device;
    int numa_node; /* nearest node of the host; -1: unknown */
    bool tf32;     /* products of floats may round their inputs */
    cublasLtHandle_t lt;
    struct vp_cuda_plan *plans; /* list of products; grows in first runs */
    cudnnHandle_t cudnn;        /* NULL until first used */
    struct vp_cuda_attention *attentions; /* list; grows in first runs */
    struct vp_cuda_profile *profile;      /* NULL: no profile by call */
    /* Called in waits; returns false to give up. May be NULL. */
    bool (*between)(void *ctx);
    void *between_ctx;
    cudaEvent_t fetched[2]; /* for group/meeting.c: copy of each half is done */
    struct vp_err err;      /* message of the last call that failed */
};

/* Reference points that tie the device's clock to the host's. New ones are
 * taken from time to time, because clocks drift; see clock.c. */
enum { VP_CUDA_MOMENTS = 32 };

struct vp_cuda_clock {
    cudaStream_t stream; /* used for reference points only */
    cudaEvent_t moment[VP_CUDA_MOMENTS], spare;
    int64_t host_ns[VP_CUDA_MOMENTS]; /* time by the host's clock */
    int64_t n;        /* reference points so far; the last ones are kept */
    int64_t tried_ns; /* time of the last attempt; 0: none yet */
    int64_t asked_ns; /* when the spare event was recorded */
    bool is_late;     /* the spare event was not reached in time */
};

/* Backend and stream of a GPU, shared by backend.c, device.c and exe.c. */
struct vp_backend {
    struct vp_device device; /* first, see backend.h */
    struct vp_cuda cuda;
    struct vp_cuda_clock clock;
    bool plan_only;
    struct vp_cuda_table *tables; /* list of tables of tensors */
    int *flag;                    /* result of a check, in device memory */
    struct vp_cuda_mb *mb; /* for calls outside of lists, in device memory */
};

enum { VP_CUDA_UPDATES = 32 }; /* events for single updates */

struct vp_cuda_stream {
    struct vp_stream base;
    struct vp_backend *backend;
    cudaStream_t stream;
    struct vp_cuda_mb *mb; /* scalars of the list being run, in device memory */
    struct vp_cuda_wgrad_stream *wgrad;
    cudaStream_t update_stream; /* see optim/early_update.h */
    cudaEvent_t fork, join, updated[VP_CUDA_UPDATES];
};

struct vp_cuda_event {
    struct vp_event base;
    struct vp_backend *backend;
    cudaEvent_t event;
    struct vp_cuda_clock *clock; /* NULL: it is not timed */
};

static inline struct vp_backend *vp_cuda_backend_of(struct vp_device *device)
{
    return (struct vp_backend *)device;
}

static inline struct vp_cuda_stream *vp_cuda_stream_of(struct vp_stream *stream)
{
    return (struct vp_cuda_stream *)stream;
}

static inline struct vp_cuda_event *vp_cuda_event_of(struct vp_event *event)
{
    return (struct vp_cuda_event *)event;
}

/* Functions of a GPU as a device; those of timed events are in clock.c. */
extern const struct vp_device_ops vp_cuda_device;

/* Turns a CUDA error into a status and a message in cuda->err: "GPU 0: <what>:
 * <reason>". Returns VP_OK, VP_ERR_NOMEM, or VP_ERR_IO for any other
 * failure. */
enum vp_status vp_cuda_check(struct vp_cuda *cuda, cudaError_t error,
                             const char *what);

/* Waits up to `timeout_ms` for an event; 0 polls once. Returns VP_ERR_TIMEOUT,
 * VP_ERR_ABORTED if cuda->between() returned false, or VP_ERR_IO if the device
 * failed. */
enum vp_status vp_cuda_wait(const struct vp_cuda *cuda, cudaEvent_t event,
                            int timeout_ms);

/* backend.c: finds or makes the device's table of a stage's tensors. The
 * backend owns it. */
enum vp_status vp_cuda_find_tensors(struct vp_backend *backend,
                                    const struct vp_optim_tensor *tensors,
                                    int n, struct vp_cuda_tensors **out);

/* clock.c */
enum vp_status vp_cuda_timed_event_create(struct vp_device *device,
                                          struct vp_event **out);
/* Called before a timed event is recorded: takes a new reference point if the
 * last one is old. */
void vp_cuda_clock_look(struct vp_cuda_clock *clock);
/* Sets *ns_out to the time of the event by the host's clock. Returns false if
 * the event was not reached yet, or no reference point is known. */
bool vp_cuda_event_time(struct vp_event *event, int64_t *ns_out);
void vp_cuda_clock_stop(struct vp_cuda_clock *clock);

/* attention/attention.c */
void vp_cuda_attentions_free(struct vp_cuda *cuda);

/* info.c */
enum vp_status vp_cuda_info(int device, bool rates, struct vp_device_info *out,
                            struct vp_err *err);

/* exe.c */
enum vp_status vp_cuda_compile(struct vp_backend *backend,
                               const struct vp_program *program,
                               struct vp_exe **out, struct vp_err *err);
void vp_cuda_exe_free(struct vp_exe *exe);
enum vp_status vp_cuda_launch(struct vp_exe *exe, enum vp_list list,
                              const struct vp_launch *launch,
                              struct vp_stream *stream);
enum vp_status vp_cuda_launch_part(struct vp_exe *exe, enum vp_list list,
                                   int first, int n,
                                   const struct vp_launch *launch,
                                   struct vp_stream *stream);
enum vp_status vp_cuda_launch_checked(struct vp_exe *exe, enum vp_list list,
                                      const struct vp_launch *launch,
                                      struct vp_nonfinite *found_out);

#endif
