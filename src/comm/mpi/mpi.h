/* The transport for ranks that are processes, by MPI. Private to the plugin.
 *
 * One thread at a time may call MPI (MPI_THREAD_SERIALIZED): every call is made
 * between vp_mpi_lock() and vp_mpi_unlock(). No call blocks in MPI: waits poll,
 * and every call of MPI makes progress with all transfers. "Locked" in a
 * comment: the caller holds this lock. */
#ifndef VP_COMM_MPI_MPI_H
#define VP_COMM_MPI_MPI_H

#include "comm/transport.h"

#include <mpi.h>

enum { VP_MPI_SHARED_BYTES = 4096 };

struct vp_mpi_world {
    struct vp_world base;
    MPI_Comm comm;   /* process i is rank i */
    MPI_Comm alarms; /* the same processes, for abort messages only */
    int rank;
    int number;             /* number of this process, which users see */
    int next_tag, last_tag; /* for channels, in the order they are made */
    pthread_mutex_t calls;
    atomic_llong polled_ns;   /* time of the last poll */
    int abort_status;         /* sent by tell_abort(): an enum vp_status */
    MPI_Request *abort_sends; /* per rank */
    /* Buffers of agree() and share(). They are here because a transfer whose
     * wait timed out may still write to them. */
    int mine, first, said;
    char shared[VP_MPI_SHARED_BYTES];
};

static inline struct vp_mpi_world *vp_mpi_world_of(struct vp_world *world)
{
    return (struct vp_mpi_world *)world;
}

static inline void vp_mpi_lock(struct vp_mpi_world *world)
{
    pthread_mutex_lock(&world->calls);
}

static inline void vp_mpi_unlock(struct vp_mpi_world *world)
{
    pthread_mutex_unlock(&world->calls);
}

/* Aborts the world if `rc` is an error of MPI; `what` names the call in the
 * message. Locked. */
void vp_mpi_check(struct vp_mpi_world *world, int rc, const char *what);

/* Returns true once all requests are complete. Locked. */
bool vp_mpi_done(struct vp_mpi_world *world, int n, MPI_Request *requests);

/* Polls until `test` returns true; `test` is called locked. VP_ERR_TIMEOUT,
 * VP_ERR_ABORTED. */
typedef bool (*vp_mpi_test_fn)(void *ctx);
enum vp_status vp_mpi_wait(struct vp_mpi_world *world, vp_mpi_test_fn test,
                           void *ctx, struct vp_limit limit);

/* Frees requests that may not be complete, when their channel or group is
 * freed. Receives are cancelled, as no message will come. Locked. */
void vp_mpi_drop(int n, MPI_Request *requests, bool receives);

enum vp_status vp_mpi_channel_create(struct vp_world *world,
                                     const struct vp_link *link,
                                     struct vp_channel **out);
enum vp_status vp_mpi_group_create(struct vp_world *base, const int *ranks,
                                   int n_members, size_t n_bytes,
                                   struct vp_group **out);

/* ---- Groups: group.c exchanges, sum.c adds exactly, fast.c does not, ----
 * ---- gather.c gathers --------------------------------------------------- */

enum { VP_MPI_TAG_GATHER }; /* tags of sums follow in sum.c */

struct vp_mpi_sum;
struct vp_mpi_fast;
struct vp_mpi_gather;

struct vp_mpi_group {
    struct vp_group base;
    MPI_Comm comm; /* communicator of the members */
    int n_members, me;
    size_t n_bytes;
    /* State of exact sums, fast sums and gathers; NULL before the first one. */
    struct vp_mpi_sum *sum;
    struct vp_mpi_fast *fast;
    struct vp_mpi_gather *gather;
    struct vp_sum_part *parts; /* in exact sums; NULL: all need the whole sum */
    int n_parts;
};

static inline struct vp_mpi_group *vp_mpi_group_of(struct vp_group *group)
{
    return (struct vp_mpi_group *)group;
}

enum vp_status vp_mpi_cut(struct vp_group *base, const int64_t *ends,
                          int n_pieces);
enum vp_status vp_mpi_set_length(struct vp_group *base, int member, int64_t n);
void vp_mpi_set_terms(struct vp_group *base, int member,
                      const struct vp_term *terms, int n_terms);
void vp_mpi_offer(struct vp_group *base, int member, int piece);
void vp_mpi_offer_rest(struct vp_group *base, int member);
bool vp_mpi_progress(struct vp_group *base, int member);
enum vp_status vp_mpi_await(struct vp_group *base, int member,
                            struct vp_limit limit, bool *done_out);
void vp_mpi_sum_free(struct vp_mpi_group *group);

enum vp_status vp_mpi_fast_cut(struct vp_group *base, const int64_t *ends,
                               int n_pieces);
enum vp_status vp_mpi_fast_set_length(struct vp_group *base, int member,
                                      int64_t n);
void vp_mpi_fast_set_terms(struct vp_group *base, int member,
                           const struct vp_term *terms, int n_terms);
void vp_mpi_fast_offer(struct vp_group *base, int member, int piece);
void vp_mpi_fast_offer_rest(struct vp_group *base, int member);
bool vp_mpi_fast_progress(struct vp_group *base, int member);
enum vp_status vp_mpi_fast_await(struct vp_group *base, int member,
                                 struct vp_limit limit, bool *done_out);
void vp_mpi_fast_free(struct vp_mpi_group *group);

#endif
