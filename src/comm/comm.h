/* Message passing between ranks: bytes, never tensors.
 *
 * A channel carries numbered messages to one receiver, which owns a ring of n
 * buffers; message j uses buffer j mod n. A sender acquires a buffer before it
 * computes, writes the result directly into it, and posts; the receiver waits,
 * uses the buffer, and releases it, which gives the credit for message j + n.
 *
 *   sender     acquire(j) ... compute into buffer ... post(j)
 *   receiver                                          wait(j) ... release(j)
 *
 * Several ranks (replicas) may send to one channel, each its own messages;
 * buffers are released in the order of messages. If both ends are threads of
 * one process, the sender writes into the receiver's buffer. Otherwise it
 * writes into a buffer of its own, and has the credit once the transport no
 * longer needs that buffer for an earlier message. */
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

/* Creates a world whose ranks are all threads of this process. */
enum vp_status vp_world_create(int n_ranks, struct vp_world **out);

/* The processes that were started together. */
struct vp_processes {
    int n;     /* number of processes; 1: this one is alone */
    int index; /* number of this process; 0 is the lead */
};

/* Joins the other processes, each with one rank: rank r is in process number
 * processes[r]. Loads libvpipe_<transport>.so. VP_ERR_UNSUPPORTED, with the
 * cause in `err`, if the transport cannot be used. */
enum vp_status vp_world_join(const char *transport,
                             const struct vp_processes *self, int n_ranks,
                             const int *processes, struct vp_world **out,
                             struct vp_err *err);
/* Writes name and version of the transport's library to text[0 .. n_bytes-1]:
 * "Open MPI v4.1.4". Does not start the transport. */
enum vp_status vp_transport_describe(const char *transport, char *text,
                                     size_t n_bytes, struct vp_err *err);
/* Frees the world with its channels and groups. After an error in a world of
 * several processes this may exit the process: print messages before. */
void vp_world_free(struct vp_world *world);

int vp_world_n_ranks(const struct vp_world *world);
/* Returns true if the rank is in this process. */
bool vp_world_is_mine(const struct vp_world *world, int rank);
/* Returns true if messages between these ranks are copied, as they are in
 * different processes. */
bool vp_world_is_apart(const struct vp_world *world, int a, int b);
/* Returns a rank of the lead, the process that gives orders and reports. */
int vp_world_lead(const struct vp_world *world);
/* Returns the number of ranks on this machine. */
int vp_world_n_here(const struct vp_world *world);
/* Makes progress with messages, and looks for an abort of another process. To
 * be called between computations: takes little time. Any thread. */
void vp_world_poll(struct vp_world *world);

/* Aborts the world: every wait, in all processes, then ends with
 * VP_ERR_ABORTED. Only the first call sets status and text. `text` may be NULL.
 * Any thread. */
void vp_world_abort(struct vp_world *world, enum vp_status status,
                    const char *text);
/* Returns the status of vp_world_abort(), VP_OK before it. The text in `err` is
 * empty if another process aborted, as that process reports the error. */
enum vp_status vp_world_status(const struct vp_world *world,
                               struct vp_err *err);

/* Called by all processes, each with its own status and, after a failure, its
 * text in `err`. All return the status of the lowest rank that failed, or
 * VP_OK. The text stays in the process of that rank and is emptied in the
 * others. */
enum vp_status vp_world_agree(struct vp_world *world, enum vp_status status,
                              struct vp_limit limit, struct vp_err *err);
/* Called by all processes. Copies the lead's `bytes` to all others; n is at
 * most 4096. */
enum vp_status vp_world_share(struct vp_world *world, void *bytes, size_t n,
                              struct vp_limit limit);

/* ---- Devices ------------------------------------------------------------ */

/* Called by all processes. Finds out which devices can exchange data directly.
 * `address` identifies the device of this process on its host; "" if it has
 * none. */
enum vp_status vp_world_meet(struct vp_world *world, const char *address,
                             struct vp_limit limit);
/* Returns true if these ranks can send from device to device, without memory of
 * the host. After vp_world_meet(). */
bool vp_world_is_direct(const struct vp_world *world, int a, int b);
/* Returns one line with the reason why some ranks cannot send directly; "" if
 * all can, or if the transport has no direct links. */
const char *vp_world_indirect_reason(const struct vp_world *world);
/* Sets the device of this process; called before vp_world_meet(). The world
 * borrows it: set NULL before the device is closed, after which direct links
 * can only be freed. Transfers of a direct link wait for events on the device;
 * the host does not wait. */
void vp_world_set_device(struct vp_world *world, struct vp_device *device);

/* ---- Making links: all processes make the same ones in the same order --- */

/* Begins a set of links: those that are made from now on belong to it. Returns
 * the number of the set, for vp_world_free_links(). */
int vp_world_begin_links(struct vp_world *world);
/* Frees the channels and groups of set `number`. Called by all processes, when
 * no message of these links is in flight. */
void vp_world_free_links(struct vp_world *world, int number);

/* The memory of a message: a short head, which describes it, and a body. */
struct vp_buffer {
    void *self; /* pointer that acquire() and wait() return for this buffer */
    void *head;
    size_t n_head;
    void *body;
    size_t n_body; /* bytes of the longest body */
    /* NULL unless the link is direct, with the body in memory of the device.
     * The side that writes the body, rank or transport, then records `written`;
     * the side that reads it records `read`. */
    struct vp_event *written, *read;
};

struct vp_link {
    int receiver;
    const int *senders; /* ranks */
    int n_senders;
    int n_buffers;                   /* length of the receiver's ring */
    const struct vp_buffer *buffers; /* the ring; NULL in other processes */
    const struct vp_buffer *out;     /* buffers of a sender in another process
                                        than the receiver; NULL elsewhere */
    int n_out;
    bool direct; /* device to device, for all senders */
};

/* Borrows the memory of the buffers; copies the lists of the link. */
enum vp_status vp_channel_create(struct vp_world *world,
                                 const struct vp_link *link,
                                 struct vp_channel **out);
/* Creates a group whose member i is rank ranks[i], in ascending order. Each
 * member contributes up to `n_bytes` to an exchange. *out is NULL in a process
 * that has no member. */
enum vp_status vp_group_create(struct vp_world *world, const int *ranks,
                               int n_members, size_t n_bytes,
                               struct vp_group **out);
/* Creates a group for sums of arrays in memory of the members' devices, which
 * must be able to exchange data directly. Every member has an adder, and the
 * same number and order of terms in every sum. Pieces are added from the last
 * to the first. */
enum vp_status vp_direct_group_create(struct vp_world *world, const int *ranks,
                                      int n_members, struct vp_group **out);

/* Creates a group for gathers on devices that can exchange data directly.
 * Called by all members: connections are made now. */
enum vp_status vp_direct_gather_create(struct vp_world *world, const int *ranks,
                                       int n_members, struct vp_group **out);

/* ---- Messages ----------------------------------------------------------- */

/* Waits for the credit of message j and returns the buffer to write. Called
 * again before post(), it returns the same buffer. */
enum vp_status vp_channel_acquire(struct vp_channel *channel, uint64_t j,
                                  struct vp_limit limit, void **buffer_out);
/* Sends message j, with the first `n_body` bytes of its body. */
void vp_channel_post(struct vp_channel *channel, uint64_t j, size_t n_body);
/* Waits for message j to arrive and returns its buffer, which the receiver may
 * read and overwrite until it calls release(). */
enum vp_status vp_channel_wait(struct vp_channel *channel, uint64_t j,
                               struct vp_limit limit, void **buffer_out);
void vp_channel_release(struct vp_channel *channel, uint64_t j);

/* ---- Groups ------------------------------------------------------------- */

/* All-gather: copies `n_bytes` of every member to `all` of every member, in the
 * order of members. Also a barrier. */
enum vp_status vp_group_exchange(struct vp_group *group, int member,
                                 const void *mine, size_t n_bytes, void *all,
                                 struct vp_limit limit);

/* One array that is spread over the members: member i has the bytes from ends[i
 * - 1] up to ends[i]. All members give the same ends, receiver and taken. All
 * pointers are borrowed until the gather has ended. */
struct vp_gather {
    const void *mine;    /* the member's own bytes */
    void *all;           /* gets all bytes; not used unless it receives */
    const int64_t *ends; /* per member */
    int receiver;        /* the member that gets all bytes; -1: all members */
    bool taken; /* the gather ends when all receivers have copied the bytes */
};
/* Begins a gather; does not wait. A member ends one before it begins the next. */
void vp_group_gather(struct vp_group *group, int member,
                     const struct vp_gather *gather);
/* Waits for the end of a gather: a receiver then has all bytes. A member that
 * does not receive may change its own bytes then; with `taken` all members may.
 * Without `taken`, if all members receive, a member may change its own bytes
 * after a later sum, exchange or gather of the group. */
enum vp_status vp_group_end_gather(struct vp_group *group, int member,
                                   struct vp_limit limit);

/* All-gather on devices, in a group of vp_direct_gather_create(): copies
 * `n_bytes` at `mine` of every member to `all` of every member, in the order of
 * members. Both are memory of the device. Puts the work into `stream`, a handle
 * from vp_stream_handle(), which may be capturing a graph. All members call
 * this in the same order. */
enum vp_status vp_group_gather_direct(struct vp_group *group, const void *mine,
                                      size_t n_bytes, void *all, void *stream);

/* One array in a sum over a group. */
struct vp_term {
    float *data;
    int order;     /* terms are added in ascending order; no two are equal */
    bool receives; /* only gets the result */
};

enum { VP_MAX_TERMS = 256 }; /* in a sum, over all members */

/* Adds elements [begin, end) of terms 0 .. n_added-1, in this order, and writes
 * the sum to all n_terms terms. Returns when that is done; aborts the world on
 * failure. */
typedef void (*vp_adder_fn)(void *ctx, const struct vp_term *terms, int n_added,
                            int n_terms, int64_t begin, int64_t end);
/* Sets the function that adds arrays which the host cannot access; called
 * before the first sum. Without it members add on their own threads. */
void vp_group_set_adder(struct vp_group *group, int member, vp_adder_fn add,
                        void *ctx);

/* Adds n floats over the terms of all members, in the order of the terms: the
 * same bits on every member and with every transport. Overwrites all arrays
 * with the sum. */
enum vp_status vp_group_add(struct vp_group *group, int member,
                            const struct vp_term *terms, int n_terms, int64_t n,
                            struct vp_limit limit);

/* Lets the transport add in any order, as in an all-reduce of its library,
 * which may be faster; bits then differ between transports. Each member has one
 * term. Called before the first sum. */
void vp_group_set_fast(struct vp_group *group);

/* A part of a sum: from the end of the part before it up to element `end`. */
struct vp_sum_part {
    int64_t end;
    int owner; /* the only member that needs the part; -1: all need it */
};
/* Sets the parts of all sums. If a part has an owner, the owner adds it, and
 * there the arrays of the other members are undefined after the sum. Parts are
 * ascending, and the last one ends where the sum does. Called once by every
 * process, before vp_group_cut(); copies `parts`. Fast sums give all parts to
 * all members. Not for members with an adder. */
enum vp_status vp_group_set_parts(struct vp_group *group,
                                  const struct vp_sum_part *parts, int n_parts);

/* A sum in pieces, added while members still compute:
 *
 *   offer(2)  progress  offer(0)  progress ...  offer_rest
 *   while (!done) { while (progress) ; await(&done) }
 *
 * After a member has offered a piece, it may not read or write the piece until
 * the sum is done. Each member adds its slice of every piece, once all members
 * have offered the piece. Pieces may be offered in any order. */

/* Sets the ends of the pieces, ascending; the first piece begins at 0. Called
 * once, before the first sum; all sums of the group then have these pieces. */
enum vp_status vp_group_cut(struct vp_group *group, const int64_t *ends,
                            int n_pieces);
/* Sets the terms of a member for its next sum and all later ones; borrowed. Not
 * called between the first offer and the end of a sum. */
void vp_group_set_terms(struct vp_group *group, int member,
                        const struct vp_term *terms, int n_terms);
void vp_group_offer(struct vp_group *group, int member, int piece);
/* Offers all pieces that were not offered yet. */
void vp_group_offer_rest(struct vp_group *group, int member);
/* Adds one slice, if one is ready, and returns true; returns false if none is.
 * Never waits. */
bool vp_group_progress(struct vp_group *group, int member);
/* Called after vp_group_offer_rest(). Waits until a slice can be added
 * (*done_out = false), or until all members are done and the member may use its
 * arrays again (true). */
enum vp_status vp_group_await(struct vp_group *group, int member,
                              struct vp_limit limit, bool *done_out);

#endif
