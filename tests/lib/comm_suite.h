/* Tests that every transport must pass. Ranks are threads or, if comm_processes
 * is set, processes. */
#ifndef VP_TESTS_LIB_COMM_SUITE_H
#define VP_TESTS_LIB_COMM_SUITE_H

#include "comm/comm.h"
#include "device/driver.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* LONG_MS: longer than any wait on a busy machine. */
enum { MAX_RANKS = 8, LONG_MS = 60 * 1000 };

struct vp_limit in_ms(int64_t ms);

/* ---- Worlds ------------------------------------------------------------- */

extern struct vp_world *comm_processes; /* NULL: ranks are threads */

extern bool comm_direct; /* devices of processes reach each other */

extern struct vp_event *comm_mark; /* event of all messages between devices */

/* Returns a world of at least `n` ranks; NULL if the processes are fewer. */
struct vp_world *open_world(int n);

void close_world(struct vp_world *world);

bool is_mine(int rank);

struct vp_group *make_group(struct vp_world *world, int n, size_t n_bytes);

/* Makes a group of `n` members for sums. Devices that reach each other add. */
struct vp_group *make_adding_group(struct vp_world *world, int n);

/* Makes a channel from ranks 1 .. n_senders to rank 0. */
struct vp_channel *make_channel(struct vp_world *world, int n_senders,
                                int n_buffers, const struct vp_buffer *buffers);

/* ---- Rank threads ------------------------------------------------------- */

struct rank {
    pthread_t thread;
    int index;
    void *job;
    void (*main)(struct rank *rank);
    int n_errors;
};

/* Runs `main` on threads for the local ranks of `n`, and fails if they count
 * errors. */
void run_ranks(int n, void (*main)(struct rank *rank), void *job);

/* ---- Channels ----------------------------------------------------------- */

/* A message: a number as its head, and a body that follows from it. */
struct letter {
    int number;
    int64_t body[3];
};

void wrap_letters(struct letter *letters, int n, struct vp_buffer *buffers);

void messages_arrive_in_order(void **state);

/* Waits until all processes of the job have called it with the same `what`, for
 * at most a minute. Uses a counter in shared memory that is named after Open
 * MPI's job. */
void meet_all(const char *what);

/* ---- Abort -------------------------------------------------------------- */

void abort_frees_everybody(void **state);

/* ---- Groups ------------------------------------------------------------- */

/* Returns element `i` of a member's term. */
float term(int member, int64_t i);

void sums_are_exact_in_their_order(void **state);

/* ---- Sums by pieces ----------------------------------------------------- */

enum { MAX_PIECES = 12, N_SUMS = 60 };

struct pieces {
    struct vp_world *world;
    struct vp_group *group;
    int n_members, n_pieces;
    int64_t ends[MAX_PIECES];
    float *data[MAX_RANKS];
    struct vp_sum_part parts[3 * MAX_RANKS]; /* none: all are needed */
    int n_parts;
};

/* Returns false if there are too few ranks. */
bool open_pieces(struct pieces *p, int n_members, int n_pieces, bool parts);

void close_pieces(struct pieces *p);

float sum_of(const struct pieces *p, int64_t i, int round);

void write_piece(struct pieces *p, int member, int piece, int round);

void pieces_are_added_in_any_order(void **state);

/* A member may have anything in a part that it does not need. */
void parts_go_to_their_owners(void **state);

/* ---- Gathers ------------------------------------------------------------ */

void gathers_bring_all_bytes(void **state);

#endif
