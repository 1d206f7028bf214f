/* Messages from GPU to GPU, by NCCL. Private to the plugin.
 *
 * A world of MPI with more to it: MPI carries what messages are about, and all
 * else that processes tell each other; NCCL carries the bodies of links that
 * are direct. Who reads or writes a body waits for events on the device. */
#ifndef VP_COMM_NCCL_NCCL_H
#define VP_COMM_NCCL_NCCL_H

#include "comm/nccl/api.h"
#include "comm/transport.h"

struct vp_nccl_channel;

/* Ranks that NCCL has connected, and the stream of their transfers. */
struct vp_nccl_clique {
    struct vp_nccl_clique *next; /* of the world */
    int n, me;
    struct vp_nccl_comm *comm;
    struct vp_stream *stream;
    void *handle;          /* of the stream */
    struct vp_event *done; /* with what it was asked for last */
    void *room;            /* on the device, for sums; NULL: none */
    size_t n_room_bytes;
    bool lost; /* a thread that was given up may still use it: never freed */
};

struct vp_nccl_world {
    struct vp_world_ops ops;        /* first: world->ops points here */
    const struct vp_world_ops *mpi; /* what it builds on */
    struct vp_world *world;
    int rank;
    int *numbers; /* per rank: its process, the user's number of it */
    const struct vp_nccl_api *api; /* NULL: there is none */
    struct vp_err why;             /* not: of this process, then of all */
    struct vp_device *device;
    struct vp_group *everybody;
    int *gpu;    /* per rank: the first rank with the same one */
    bool serves; /* NCCL does; else MPI does it all */
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

/* What a clique is for. PASS: member 0 sends to all others; TRADE: all send to
 * all; REDUCE: they add; GATHER: all get what all have. */
enum vp_nccl_use {
    VP_NCCL_PASS,
    VP_NCCL_TRADE,
    VP_NCCL_REDUCE,
    VP_NCCL_GATHER,
};

/* For all that concerns making links. */
struct vp_limit vp_nccl_limit(void);
/* An error text of what NCCL said. */
enum vp_status vp_nccl_blame(const struct vp_nccl_world *nccl, const char *what,
                             int result, struct vp_err *err);
enum vp_status vp_nccl_make_id(const struct vp_nccl_world *nccl,
                               struct vp_nccl_id *id, struct vp_err *err);
/* All members come here; nobody waits for ever. */
enum vp_status vp_nccl_clique_create(struct vp_nccl_world *nccl,
                                     const struct vp_nccl_id *id, int n, int me,
                                     struct vp_nccl_clique **out,
                                     struct vp_err *err);
/* Likewise, before the first use: NCCL connects and allocates now. */
enum vp_status vp_nccl_clique_connect(struct vp_nccl_world *nccl,
                                      struct vp_nccl_clique *clique,
                                      enum vp_nccl_use use, struct vp_err *err);
void vp_nccl_cliques_free(struct vp_nccl_world *nccl);
/* Ends all transfers at once, of a world that failed. */
void vp_nccl_cliques_abort(struct vp_nccl_world *nccl);
/* Looks for errors that came while a transfer was under way. */
void vp_nccl_cliques_check(struct vp_nccl_world *nccl);

/* ---- The others --------------------------------------------------------- */

/* Ends the world if NCCL or the device did not do it. */
void vp_nccl_check(struct vp_nccl_world *nccl, int result, const char *what);
void vp_nccl_check_device(struct vp_nccl_world *nccl, enum vp_status st,
                          const char *what);

enum vp_status vp_nccl_channel_create(struct vp_world *world,
                                      const struct vp_link *link,
                                      struct vp_channel **out);
/* Asks for all bodies whose heads are here and that there is room for. */
void vp_nccl_receive_all(struct vp_nccl_world *nccl);

#endif
