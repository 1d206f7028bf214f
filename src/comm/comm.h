/* Message passing between ranks. Knows bytes, never tensors.
 *
 * A channel carries numbered messages to one receiver, who owns a ring of
 * buffers; message j uses buffer j mod n. A sender acquires a buffer before it
 * computes, writes the result straight into it, and posts; the receiver waits,
 * uses the buffer, and releases it: the credit for message j + n.
 *
 *   sender     acquire(j) ... compute into buffer ... post(j)
 *   receiver                                          wait(j) ... release(j)
 *
 * Several ranks may send to one channel (replicas), each its own messages;
 * releases happen in message order. Where both ends are threads of a process,
 * the sender writes into the receiver's buffer; else into one of its own, and
 * has the credit once the transport has taken an earlier message from it. */
#ifndef VP_COMM_COMM_H
#define VP_COMM_COMM_H

#include "base/limit.h"
#include "base/status.h"
#include "device/device.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct vp_channel;
struct vp_group;
struct vp_world;

/* ---- Worlds ------------------------------------------------------------- */

/* All ranks are threads of this process. */
enum vp_status vp_world_create(int n_ranks, struct vp_world **out);

/* How this process was started: one of several, or alone. */
struct vp_processes {
    int n;     /* 1: alone */
    int index; /* of this one; 0 is the lead */
};

/* Rank r is process number processes[r] of those that were started together,
 * each with one rank. Loads libvpipe_<transport>.so. VP_ERR_UNSUPPORTED, with
 * what is missing, where it cannot be used. */
enum vp_status vp_world_join(const char *transport,
                             const struct vp_processes *self, int n_ranks,
                             const int *processes, struct vp_world **out,
                             struct vp_err *err);
/* Which library a transport uses: "Open MPI v4.1.4". Starts nothing. */
enum vp_status vp_transport_describe(const char *transport, char *text,
                                     size_t n_bytes, struct vp_err *err);
/* Frees channels and groups too. After an error, in a world of several
 * processes, this may be the end of the process: say all before. */
void vp_world_free(struct vp_world *world);

int vp_world_n_ranks(const struct vp_world *world);
/* Does the rank live in this process? */
bool vp_world_is_mine(const struct vp_world *world, int rank);
/* Must messages between these ranks be copied? */
bool vp_world_is_apart(const struct vp_world *world, int a, int b);
/* A rank of the process that gives orders and reports. */
int vp_world_lead(const struct vp_world *world);
/* The ranks on this machine. */
int vp_world_n_here(const struct vp_world *world);
/* Lets messages go on, between computations: short, and cheap where there is
 * nothing to do. Any thread. */
void vp_world_poll(struct vp_world *world);

/* The first caller's status and text win; every wait, in all processes, then
 * ends with VP_ERR_ABORTED. `text` may be NULL. Any thread. */
void vp_world_abort(struct vp_world *world, enum vp_status status,
                    const char *text);
/* VP_OK while nobody aborted. The text is empty where another process did: it
 * speaks for itself. */
enum vp_status vp_world_status(const struct vp_world *world,
                               struct vp_err *err);

/* All processes come here, each with how far it got and, if it failed, why.
 * The first failure, in the order of ranks, is everybody's; the text stays
 * where it is its own, and is emptied elsewhere. */
enum vp_status vp_world_agree(struct vp_world *world, enum vp_status status,
                              struct vp_limit limit, struct vp_err *err);
/* All processes get the lead's bytes, at most 4096. */
enum vp_status vp_world_share(struct vp_world *world, void *bytes, size_t n,
                              struct vp_limit limit);

/* ---- Devices ------------------------------------------------------------ */

/* Called by all processes. `address` tells the device of this process from the
 * other devices of its host; "" if it has none. Finds out which devices reach
 * each other. */
enum vp_status vp_world_meet(struct vp_world *world, const char *address,
                             struct vp_limit limit);
/* Returns true if these ranks can send from device to device, without memory of
 * the host. After vp_world_meet(). */
bool vp_world_is_direct(const struct vp_world *world, int a, int b);
/* Returns one line that says why some ranks cannot, if the transport is made for
 * it; else "". */
const char *vp_world_why_not(const struct vp_world *world);
/* Sets the device of this process, before vp_world_meet(). Borrowed: set NULL
 * before the device is closed; direct links can then only be freed. A transport
 * that reaches the memory of a device waits on the device, not on the host. */
void vp_world_set_device(struct vp_world *world, struct vp_device *device);

/* ---- Making links: all processes make the same ones in the same order --- */

/* Links that are made from now on belong together; returns their number, for
 * vp_world_free_links(). */
int vp_world_begin_links(struct vp_world *world);
/* Frees the channels and groups of that number, before the world. All processes
 * come here when no message of theirs is under way. */
void vp_world_free_links(struct vp_world *world, int number);

/* A message: what it is about, and what it brings. */
struct vp_buffer {
    void *self; /* what acquire() and wait() give */
    void *head;
    size_t n_head;
    void *body;
    size_t n_body; /* the most */
    /* Not NULL if the link is direct: the body is then in memory of the device.
     * The side that has written it, owner or transport, records `written`; the
     * side that has read it records `read`. */
    struct vp_event *written, *read;
};

struct vp_link {
    int receiver;
    const int *senders; /* ranks */
    int n_senders;
    int n_buffers;                   /* of the receiver */
    const struct vp_buffer *buffers; /* likewise; NULL in other processes */
    const struct vp_buffer *out;     /* of a sender that is apart; else NULL */
    int n_out;
    bool direct; /* for all senders */
};

/* Buffers are borrowed, their list is not. */
enum vp_status vp_channel_create(struct vp_world *world,
                                 const struct vp_link *link,
                                 struct vp_channel **out);
/* Member i is rank ranks[i], ascending; each contributes up to `n_bytes` to an
 * exchange. NULL, and no error, in a process that has no member. */
enum vp_status vp_group_create(struct vp_world *world, const int *ranks,
                               int n_members, size_t n_bytes,
                               struct vp_group **out);
/* For sums only, of arrays in memory of the members' devices, which reach each
 * other. Every member has an adder, and says the same of its terms each time;
 * pieces are added from the last to the first. */
enum vp_status vp_direct_group_create(struct vp_world *world, const int *ranks,
                                      int n_members, struct vp_group **out);

/* For gathers on devices, of members whose devices reach each other. All members
 * come here, and links are made now. */
enum vp_status vp_direct_gather_create(struct vp_world *world, const int *ranks,
                                       int n_members, struct vp_group **out);

/* ---- Messages ----------------------------------------------------------- */

/* Waits for the credit of message j; its buffer to write into. Asked again
 * before post(), the same one. */
enum vp_status vp_channel_acquire(struct vp_channel *channel, uint64_t j,
                                  struct vp_limit limit, void **buffer_out);
/* `n_body`: bytes of the body that were written, and travel. */
void vp_channel_post(struct vp_channel *channel, uint64_t j, size_t n_body);
/* Waits for message j to arrive; its buffer to read (and overwrite). */
enum vp_status vp_channel_wait(struct vp_channel *channel, uint64_t j,
                               struct vp_limit limit, void **buffer_out);
void vp_channel_release(struct vp_channel *channel, uint64_t j);

/* ---- Groups ------------------------------------------------------------- */

/* Every member gives `n_bytes` and gets everybody's, in member order, n_bytes
 * apart. Also a barrier. */
enum vp_status vp_group_exchange(struct vp_group *group, int member,
                                 const void *mine, size_t n_bytes, void *all,
                                 struct vp_limit limit);

/* One array that members have parts of: member i has the bytes [ends[i - 1],
 * ends[i]). Only the pointers differ between members. */
struct vp_gather {
    const void *mine; /* its own bytes */
    void *all;        /* all bytes; not read if it is not a receiver */
    const int64_t
        *ends;    /* borrowed, like the bytes, until the gather is done */
    int receiver; /* that gets all bytes; -1: every member does */
    /* Ends when all receivers have taken the bytes of this member. */
    bool taken;
};
/* Begins a gather; does not wait. A member ends one before it begins the next. */
void vp_group_gather(struct vp_group *group, int member,
                     const struct vp_gather *gather);
/* Ends it: a receiver has all bytes; one that only gives may change its own. Where
 * every member receives, its own bytes may change after a later sum, exchange or
 * gather of the group, or at once if it asked for `taken`, as all members then do. */
enum vp_status vp_group_end_gather(struct vp_group *group, int member,
                                   struct vp_limit limit);

/* Of vp_direct_gather_create(): every member gives `n_bytes` of its device and gets
 * those of all in its device, in member order, n_bytes apart. Work of `stream`, a
 * handle as vp_stream_handle() gives it; may be captured. Members ask for the same
 * gathers in the same order. */
enum vp_status vp_group_gather_direct(struct vp_group *group, const void *mine,
                                      size_t n_bytes, void *all, void *stream);

/* One array in a sum over a group. */
struct vp_term {
    float *data;
    int order;     /* terms are added in ascending order; no two are equal */
    bool receives; /* only gets the result */
};

enum { VP_MAX_TERMS = 256 }; /* of all members together */

/* Adds elements [begin, end) of `terms`: the first n_added of them in their
 * order; all n_terms get the sum. Done when it returns; what fails aborts the
 * world. */
typedef void (*vp_adder_fn)(void *ctx, const struct vp_term *terms, int n_added,
                            int n_terms, int64_t begin, int64_t end);
/* For arrays that the host cannot reach; before the first sum. Otherwise
 * members add on their own threads. */
void vp_group_set_adder(struct vp_group *group, int member, vp_adder_fn add,
                        void *ctx);

/* Adds n floats over the terms of all members, in their order: the same bits
 * everywhere, on every transport. All arrays are overwritten with the sum. */
enum vp_status vp_group_add(struct vp_group *group, int member,
                            const struct vp_term *terms, int n_terms, int64_t n,
                            struct vp_limit limit);

/* Sums of this group may be added in any order, by the transport's own means,
 * which may be faster; bits then differ. Each member has one term. Before the
 * first sum. */
void vp_group_set_fast(struct vp_group *group);

/* A part of a sum: up to element `end`, from the end of the part before. */
struct vp_sum_part {
    int64_t end;
    int owner; /* the member that adds it, and needs it; -1: all need it */
};
/* Says which members need which parts of all sums: where a part has an owner, the
 * arrays of the other members are undefined there after the sum. Parts are
 * ascending, and the last one ends where the sum does. Before vp_group_cut(), once,
 * by every process; copied. Fast sums give all parts to all members. Not for
 * members with an adder. */
enum vp_status vp_group_set_parts(struct vp_group *group,
                                  const struct vp_sum_part *parts, int n_parts);

/* The same, piece by piece while members still compute:
 *
 *   offer(2)  progress  offer(0)  progress ...  offer_rest
 *   while (!done) { while (progress) ; await(&done) }
 *
 * A piece belongs to the sum once it was offered: nobody else may touch it
 * until the sum is done. Each member adds its slice of every piece, and only
 * when all members have offered that; the order of offers is free. */

/* The ends of the pieces, ascending; the first one begins at 0. Before the
 * first sum, once; all sums of the group then have these pieces. */
enum vp_status vp_group_cut(struct vp_group *group, const int64_t *ends,
                            int n_pieces);
/* What a member brings to its next sum and all that follow; borrowed. Not
 * while a sum is made. */
void vp_group_set_terms(struct vp_group *group, int member,
                        const struct vp_term *terms, int n_terms);
void vp_group_offer(struct vp_group *group, int member, int piece);
/* All pieces that were not offered yet. */
void vp_group_offer_rest(struct vp_group *group, int member);
/* Adds one slice, if there is one to add; never waits. */
bool vp_group_progress(struct vp_group *group, int member);
/* After offer_rest: waits until there is a slice to add, or until the sum is
 * done everywhere and the arrays are the member's own again. */
enum vp_status vp_group_await(struct vp_group *group, int member,
                              struct vp_limit limit, bool *done_out);

#endif
