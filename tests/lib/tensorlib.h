/* Tensor-parallel groups in tests: their setups, and checks of any group. */
#ifndef VP_TESTS_LIB_TENSORLIB_H
#define VP_TESTS_LIB_TENSORLIB_H

#include "lib/trainlib.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { N_LOSSES = 10 };

extern const int members_of[2];

/* Whether VP_TEST_DEVICE puts the ranks on a GPU. */
bool on_gpu(void);

/* How far norms of gradients may be from those of one rank. */
double norm_tolerance(void);

/* Requires |a - b| <= tolerance |a|; `what` and `i` are for the message. */
void assert_near(double a, double b, double tolerance, const char *what, int i);

struct setup group_of(const char *model, int members);

/* Equal parts, the last one with the rest. */
void cut_evenly(struct setup *setup, int n_stages, int *partition);

/* Euclidean distance of two arrays. */
double distance(const float *a, const float *b, int64_t n);

/* The key bias of attention has a gradient of zero, up to rounding. */
bool has_key_bias(const struct vp_param *param);

/* ---- Checks -------------------------------------------------------------- */

struct variant {
    const char *schedule;
    int n_stages, n_chunks, threads;
    double recompute, swap;
    bool early, in_backward;
};

/* Trains `setup` unchanged, then with each variant whose index plus `odd` is even:
 * losses and weights must have the same bits. */
void check_same_bits(struct setup setup, const struct variant *variants,
                     size_t n_variants, size_t odd);

/* Losses, norms, an evaluation and gradients of `setup` are those of one rank up to
 * rounding. A dropout mask that differs in one bit would show here. */
void check_numbers(struct setup setup);

/* Parameters that are not sliced (layer norms, biases after sums, positions) have the
 * same bits in all members. */
void check_whole_parameters(struct setup setup);

/* pipedream with two members and three stages gives the losses and weights of the
 * literal interpreter. */
void check_asp(struct setup setup);

/* The devices of a group of two stages allocate the bytes that were priced. */
void check_memory(struct setup setup);

/* ---- State --------------------------------------------------------------- */

enum { MAX_SNAPSHOT_ITEMS = 1024 };

/* State of an idle trainer, in memory. */
struct snapshot {
    struct vp_state_item items[MAX_SNAPSHOT_ITEMS];
    float *data[MAX_SNAPSHOT_ITEMS];
    int n;
    struct vp_progress progress;
};

void snapshot_fill(struct snapshot *snapshot, const struct run *run);

void snapshot_empty(struct snapshot *snapshot);

/* Resumes `setup` from `snapshot` with `members`: the state has the same bits, and
 * the next three losses are `losses`, bit for bit if `exact`. */
void snapshot_resume(struct setup setup, const struct snapshot *snapshot,
                     int members, const double *losses, bool exact);

/* ---- Faults -------------------------------------------------------------- */

struct accident {
    int rank;
    enum vp_action_kind kind;
    enum vp_fault fault;
};

/* Trains two groups of two with an accident in one member: the message names the
 * member and one of `places`, where the others wait ("group_sum", ...). */
void check_accident(struct setup setup, struct accident accident,
                    const char *const *places, int n_places);

#endif
