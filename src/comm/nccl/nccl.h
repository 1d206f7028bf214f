/* Messages from GPU to GPU, by NCCL. Private to the plugin.
 *
 * Extends a world of MPI: MPI carries the heads of messages and all other
 * traffic between processes; NCCL carries the bodies of messages on direct
 * links. Reads and writes of a body wait for events on the device, not on the
 * host. */
#ifndef VP_COMM_NCCL_NCCL_H
#define VP_COMM_NCCL_NCCL_H

#include "comm/nccl/api.h"
#include "comm/transport.h"

struct vp_nccl_channel;

/* A communicator of NCCL, and the stream of its transfers. */
struct vp_nccl_clique {
    struct vp_nccl_clique *next; /* in the world's list */
    int n, me;
    struct vp_nccl_comm *comm;
    struct vp_stream *stream;
    void *handle;          /* native handle of `stream` */
    struct vp_event *done; /* reached when the last transfer is complete */
    void *room;            /* memory of the device for sums; NULL: none */
    size_t n_room_bytes;
    bool lost; /* a thread that timed out may still use it: never freed */
};

struct vp_nccl_world {
    struct vp_world_ops ops;        /* first: world->ops points here */
    const struct vp_world_ops *mpi; /* functions of the MPI transport */
    struct vp_world *world;
    int rank;
    int *numbers; /* per rank: number of its process, which users see */
    const struct vp_nccl_api *api; /* NULL: NCCL cannot be loaded */
    struct vp_err why; /* why NCCL is not used: in this process; after meet(),
                          the reason that all agree on */
    struct vp_device *device;
    struct vp_group *everybody; /* all ranks */
    int *gpu;                   /* per rank: the first rank with the same GPU */
    bool serves; /* NCCL is used; false: MPI carries all messages */
    struct vp_nccl_clique *cliques;
    pthread_mutex_t lock; /* protects channels that receive */
    struct vp_nccl_channel *channels;
    atomic_llong polled_ns;
    int64_t n_polls;
};

static inline struct vp_nccl_world *vp_nccl_world_of(
    const struct vp_world *world)
{
    return (struct vp_nccl_world *)(uintptr_t)world->ops;
}

/* ---- clique.c ----------------------------------------------------------- */

/* The use of a clique. PASS: member 0 sends to all others; TRADE: all send to
 * all; REDUCE: all-reduce; GATHER: all-gather. */
enum vp_nccl_use {
    VP_NCCL_PASS,
    VP_NCCL_TRADE,
    VP_NCCL_REDUCE,
    VP_NCCL_GATHER,
};

/* Returns the time limit for making links. */
struct vp_limit vp_nccl_limit(void);
/* Sets `err` to an error of NCCL; `what` names the call. Returns VP_ERR_IO. */
enum vp_status vp_nccl_blame(const struct vp_nccl_world *nccl, const char *what,
                             int result, struct vp_err *err);
enum vp_status vp_nccl_make_id(const struct vp_nccl_world *nccl,
                               struct vp_nccl_id *id, struct vp_err *err);
/* Called by all members. Waits for them, up to vp_nccl_limit(). */
enum vp_status vp_nccl_clique_create(struct vp_nccl_world *nccl,
                                     const struct vp_nccl_id *id, int n, int me,
                                     struct vp_nccl_clique **out,
                                     struct vp_err *err);
/* Called by all members before the first transfer: makes NCCL connect and
 * allocate memory now, not in a training step. */
enum vp_status vp_nccl_clique_connect(struct vp_nccl_world *nccl,
                                      struct vp_nccl_clique *clique,
                                      enum vp_nccl_use use, struct vp_err *err);
void vp_nccl_cliques_free(struct vp_nccl_world *nccl);
/* Aborts all transfers of a world that failed. */
void vp_nccl_cliques_abort(struct vp_nccl_world *nccl);
/* Aborts the world if NCCL reports an asynchronous error of a transfer. */
void vp_nccl_cliques_check(struct vp_nccl_world *nccl);

/* ---- The others --------------------------------------------------------- */

/* Aborts the world if a call of NCCL, or of the device, failed; `what` names
 * the call in the message. */
void vp_nccl_check(struct vp_nccl_world *nccl, int result, const char *what);
void vp_nccl_check_device(struct vp_nccl_world *nccl, enum vp_status st,
                          const char *what);

enum vp_status vp_nccl_channel_create(struct vp_world *world,
                                      const struct vp_link *link,
                                      struct vp_channel **out);
/* Starts to receive all bodies whose heads have arrived and whose buffers are
 * free. */
void vp_nccl_receive_all(struct vp_nccl_world *nccl);

#endif
