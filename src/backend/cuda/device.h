/* One GPU as a rank uses it: handles, plans of products, settings. */
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
    int numa_node; /* of the host, next to the GPU; -1: not known */
    bool tf32;     /* products of floats may round their inputs */
    cublasLtHandle_t lt;
    struct vp_cuda_plan *plans; /* of products: a list, grows in first runs */
    cudnnHandle_t cudnn;        /* NULL until something needs it */
    struct vp_cuda_attention *attentions; /* a list, likewise */
    struct vp_cuda_profile *profile;      /* NULL: none is taken call by call */
    bool (*between)(void *ctx);           /* called in waits; may be NULL */
    void *between_ctx;
    cudaEvent_t fetched[2]; /* of group/meeting.c: halves of staging are here */
    struct vp_err err;      /* of the last call that failed */
};

/* What ties the device's time to the host's: moments known by both clocks, now
 * and then a new one, as clocks drift; see clock.c. */
enum { VP_CUDA_MOMENTS = 32 };

struct vp_cuda_clock {
    cudaStream_t stream; /* empty but for these */
    cudaEvent_t moment[VP_CUDA_MOMENTS], spare;
    int64_t host_ns[VP_CUDA_MOMENTS]; /* what the host's clock said then */
    int64_t n;        /* moments so far; the last ones are kept */
    int64_t tried_ns; /* the last attempt */
    int64_t asked_ns; /* the spare event was recorded */
    bool is_late;     /* it is not reached yet */
};

/* backend.c and exe.c see the same structures. */
struct vp_backend {
    struct vp_device device; /* first, see backend.h */
    struct vp_cuda cuda;
    struct vp_cuda_clock clock;
    bool plan_only;
    struct vp_cuda_table *tables; /* of tensors: a list */
    int *flag;                    /* on the device */
    struct vp_cuda_mb *mb;        /* of calls outside of lists */
};

enum { VP_CUDA_UPDATES = 32 }; /* that can be waited for one by one */

struct vp_cuda_stream {
    struct vp_stream base;
    struct vp_backend *backend;
    cudaStream_t stream;
    struct vp_cuda_mb *mb; /* on the device: of the list being run */
    struct vp_cuda_wgrad_stream *wgrad;
    cudaStream_t update_stream; /* see optim/early_update.h */
    cudaEvent_t fork, join, updated[VP_CUDA_UPDATES];
};

struct vp_cuda_event {
    struct vp_event base;
    struct vp_backend *backend;
    cudaEvent_t event;
    struct vp_cuda_clock *clock; /* NULL: it has no time */
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

/* The table of a GPU; a timed event is clock.c's. */
extern const struct vp_device_ops vp_cuda_device;

/* Says what CUDA said: VP_ERR_NOMEM, or VP_ERR_IO for a device that fails. */
enum vp_status vp_cuda_check(struct vp_cuda *cuda, cudaError_t error,
                             const char *what);

/* Waits up to `timeout_ms` for an event, 0: only looks. VP_ERR_IO: the device
 * failed. */
enum vp_status vp_cuda_wait(const struct vp_cuda *cuda, cudaEvent_t event,
                            int timeout_ms);

/* backend.c: the device's table of a stage's tensors, made when they are first
 * seen. */
enum vp_status vp_cuda_find_tensors(struct vp_backend *backend,
                                    const struct vp_optim_tensor *tensors,
                                    int n, struct vp_cuda_tensors **out);

/* clock.c */
enum vp_status vp_cuda_timed_event_create(struct vp_device *device,
                                          struct vp_event **out);
/* Before a timed event is recorded. */
void vp_cuda_clock_look(struct vp_cuda_clock *clock);
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
