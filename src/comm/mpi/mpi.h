/* Ranks as processes, by MPI. Private to the plugin.
 *
 * One thread at a time may call MPI (MPI_THREAD_SERIALIZED): every call is made
 * between vp_mpi_lock() and vp_mpi_unlock(). Nothing blocks in MPI; waits poll,
 * and any call lets all transfers go on. */
#ifndef VP_COMM_MPI_MPI_H
#define VP_COMM_MPI_MPI_H

#include "comm/transport.h"

#include <mpi.h>

enum { VP_MPI_SHARED_BYTES = 4096 };

struct vp_mpi_world {
    struct vp_world base;
    MPI_Comm comm;   /* process i is rank i */
    MPI_Comm alarms; /* the same, for bad news only */
    int rank;
    int number;             /* of this process: the user's number of `rank` */
    int next_tag, last_tag; /* for channels, in the order they are made */
    pthread_mutex_t calls;
    atomic_llong polled_ns; /* when the last poll was made */
    int news;               /* that was sent: an enum vp_status */
    MPI_Request *sent_news; /* per rank */
    /* What is agreed on and shared: a transfer that was given up may still
     * write here. */
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

/* An error of MPI ends the world. Locked. */
void vp_mpi_check(struct vp_mpi_world *world, int rc, const char *what);

/* True once all requests are complete. Locked. */
bool vp_mpi_done(struct vp_mpi_world *world, int n, MPI_Request *requests);

/* Polls until `test` says true; it is called locked. */
typedef bool (*vp_mpi_test_fn)(void *ctx);
enum vp_status vp_mpi_wait(struct vp_mpi_world *world, vp_mpi_test_fn test,
                           void *ctx, struct vp_limit limit);

/* Gives up transfers at the end of a world: sends that were taken, or receives
 * that nothing will answer. Locked. */
void vp_mpi_drop(int n, MPI_Request *requests, bool receives);

enum vp_status vp_mpi_channel_create(struct vp_world *world,
                                     const struct vp_link *link,
                                     struct vp_channel **out);
enum vp_status vp_mpi_group_create(struct vp_world *base, const int *ranks,
                                   int n_members, size_t n_bytes,
                                   struct vp_group **out);

/* ---- Groups: group.c exchanges, sum.c adds exactly, fast.c does not, ----
 * ---- gather.c gathers --------------------------------------------------- */

enum { VP_MPI_TAG_GATHER }; /* the first one of sums follows */

struct vp_mpi_sum;
struct vp_mpi_fast;
struct vp_mpi_gather;

struct vp_mpi_group {
    struct vp_group base;
    MPI_Comm comm; /* of the members */
    int n_members, me;
    size_t n_bytes;
    /* NULL: nothing was ever added that way. */
    struct vp_mpi_sum *sum;
    struct vp_mpi_fast *fast;
    struct vp_mpi_gather *gather; /* likewise gathered */
    struct vp_sum_part *parts;    /* of exact sums; NULL: all need all */
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
