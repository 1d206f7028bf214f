/* Setups of tensor-parallel groups for tests, and checks of such groups. */
#ifndef VP_TESTS_LIB_TENSORLIB_H
#define VP_TESTS_LIB_TENSORLIB_H

#include "lib/trainlib.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { N_LOSSES = 10 };

extern const int members_of[2];

/* Returns true if VP_TEST_DEVICE puts the ranks on a GPU. */
bool on_gpu(void);

/* Returns the allowed relative difference of gradient norms to those of one
 * rank. */
double norm_tolerance(void);

/* Requires |a - b| <= tolerance |a|; `what` and `i` are for the message. */
void assert_near(double a, double b, double tolerance, const char *what, int i);

struct setup group_of(const char *model, int members);

/* Cuts the model into equal stages; the last one gets the remaining blocks. */
void cut_evenly(struct setup *setup, int n_stages, int *partition);

/* Returns the Euclidean distance of two arrays. */
double distance(const float *a, const float *b, int64_t n);

/* Returns true for a parameter with a key bias of attention, whose gradient is
 * zero up to rounding. */
bool has_key_bias(const struct vp_param *param);

/* ---- Checks -------------------------------------------------------------- */

struct variant {
    const char *schedule;
    int n_stages, n_chunks, threads;
    double recompute, swap;
    bool early, in_backward;
};

/* Trains `setup` unchanged, then with each variant whose index plus `odd` is
 * even. Losses and weights must have the same bits. */
void check_same_bits(struct setup setup, const struct variant *variants,
                     size_t n_variants, size_t odd);

/* Checks that replicas of groups on three stages give the same bits in two
 * schedules. */
void check_replicas(struct setup setup);

/* Checks that losses, norms, an evaluation and gradients of `setup` equal those
 * of one rank up to rounding. A single wrong bit in a dropout mask is
 * detected. */
void check_numbers(struct setup setup);

/* Checks that parameters that are not sliced (layer norms, biases after sums,
 * positions) have the same bits in all members. */
void check_whole_parameters(struct setup setup);

/* Checks that pipedream with two members and three stages has the losses and
 * weights of the literal interpreter. */
void check_asp(struct setup setup);

/* Checks that the devices of two stages allocate exactly the priced bytes. */
void check_memory(struct setup setup);

/* ---- State --------------------------------------------------------------- */

enum { MAX_SNAPSHOT_ITEMS = 1024 };

/* The state of an idle trainer, in memory. */
struct snapshot {
    struct vp_state_item items[MAX_SNAPSHOT_ITEMS];
    float *data[MAX_SNAPSHOT_ITEMS];
    int n;
    struct vp_progress progress;
};

void snapshot_fill(struct snapshot *snapshot, const struct run *run);

void snapshot_empty(struct snapshot *snapshot);

/* Resumes `setup` from `snapshot` with `members` and checks that the state has
 * the same bits and that the next three losses are `losses`, bit for bit if
 * `exact`. */
void snapshot_resume(struct setup setup, const struct snapshot *snapshot,
                     int members, const double *losses, bool exact);

/* ---- Faults -------------------------------------------------------------- */

/* A fault in minibatch 1 of a rank, at an action of this kind. */
struct accident {
    int rank;
    enum vp_action_kind kind;
    enum vp_fault fault;
};

/* Trains two groups of two members with an accident in one member. Checks that
 * the message names the member and one of `places` where others wait
 * ("group_sum", ...). */
void check_accident(struct setup setup, struct accident accident,
                    const char *const *places, int n_places);

#endif
