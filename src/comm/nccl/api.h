/* What vpipe uses of NCCL, declared here: building needs no NCCL, and the
 * library is found when a run wants it. Where its own header is at hand, the
 * build compares (check.c). */
#ifndef VP_COMM_NCCL_API_H
#define VP_COMM_NCCL_API_H

#include "base/status.h"

struct vp_nccl_comm; /* their communicator */

struct vp_nccl_id {
    char bytes[128];
};

enum {
    VP_NCCL_OK = 0,
    VP_NCCL_BYTES = 0,                     /* type: of one byte */
    VP_NCCL_FLOATS = 7,                    /* type: float */
    VP_NCCL_SUM = 0,                       /* reduction */
    VP_NCCL_OLDEST = 2 * 10000 + 18 * 100, /* version that is good enough */
};

/* All calls return VP_NCCL_OK or what error_text() explains. Streams are the
 * device's own. */
struct vp_nccl_api {
    int (*version)(int *version);
    const char *(*error_text)(int result);
    const char *(*last_error)(struct vp_nccl_comm *comm);
    int (*make_id)(struct vp_nccl_id *id);
    int (*join)(struct vp_nccl_comm **comm, int n, struct vp_nccl_id id,
                int rank);
    int (*destroy)(struct vp_nccl_comm *comm);
    int (*break_off)(struct vp_nccl_comm *comm);
    int (*async_error)(struct vp_nccl_comm *comm, int *result);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *data, size_t n, int type, int peer,
                struct vp_nccl_comm *comm, void *stream);
    int (*receive)(void *data, size_t n, int type, int peer,
                   struct vp_nccl_comm *comm, void *stream);
    int (*all_gather)(const void *data, void *all, size_t n, int type,
                      struct vp_nccl_comm *comm, void *stream);
    int (*all_reduce)(const void *data, void *sum, size_t n, int type, int op,
                      struct vp_nccl_comm *comm, void *stream);
};

/* The library, once it is loaded. VP_ERR_UNSUPPORTED, with what is missing. */
enum vp_status vp_nccl_load(const struct vp_nccl_api **out, struct vp_err *err);

#endif
