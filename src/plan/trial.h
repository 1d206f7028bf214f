/* One variant of a search: a schedule for which the partition and the choices
 * of each block are searched. Private to plan. */
#ifndef VP_PLAN_TRIAL_H
#define VP_PLAN_TRIAL_H

#include "plan/costs.h"
#include "plan/search_input.h"

/* Models with at most this number of blocks are priced exactly and searched
 * thoroughly; larger ones are estimated first. */
enum { VP_SEARCH_SMALL = 16 };

/* ---- Choices (trial_blocks.c) ------------------------------------------ */

/* One choice for the activations of a block, with the time and memory that the
 * block then adds to a stage. Sizes are estimates: the block is lowered
 * together with its successor. */
struct vp_block_choice {
    uint64_t recompute, swap; /* sets of operators */
    double seconds;           /* seconds that the choice adds */
    double moved_w; /* FLOPs of weight gradients that run in B in place of W */
    double moved_seconds; /* seconds of these weight gradients */
    int64_t slot;         /* bytes kept per minibatch in flight */
    int64_t recomputed;   /* bytes that R writes */
    int64_t work;         /* bytes of temporaries */
    int64_t swapped;      /* bytes copied to the host, and back again */
};

enum { VP_MAX_CHOICES = VP_PROFILE_MAX_SETS + 4 };

struct vp_block_row {
    struct vp_block_choice
        choices[VP_MAX_CHOICES]; /* choice 0 keeps all activations */
    int n_choices;
};

/* Form of the programs: separate W, recomputation within B, swap. */
struct vp_form {
    bool split, in_b, swap;
};
enum { VP_N_FORMS = 8 };

static inline int vp_form_index(struct vp_form form)
{
    return form.split * 4 + form.in_b * 2 + form.swap;
}

/* Sizes of a block lowered as a stage of its own; independent of choices. */
struct vp_block_sizes {
    struct vp_stage_sizes alone;
};

struct vp_search {
    struct vp_workload work;
    const struct vp_device_profile *profile;
    struct vp_pricer *pricer;
    struct vp_cost_table costs;
    struct vp_block_key *keys;
    struct vp_block_sizes *blocks;
    struct vp_block_row *rows[VP_N_FORMS]; /* per block; NULL: not made yet */
    int n_blocks;
    int n_simulated;
};

enum vp_status vp_search_fill_sizes(struct vp_search *search,
                                    struct vp_err *err);
enum vp_status vp_search_fill_rows(struct vp_search *search,
                                   struct vp_form form, struct vp_err *err);

/* ---- Variants (trial_variants.c) ---------------------------------------- */

/* A schedule with its placement and the form of recomputation. */
struct vp_variant {
    const struct vp_generator *generator;
    int n_chunks;
    bool v_shape, in_b;
    int memory; /* chunks that a rank may keep; 0: default */
};

/* Returns the number of variants that `input` allows. */
int vp_search_variants(const struct vp_search *search,
                       const struct vp_search_input *input,
                       struct vp_variant out[VP_SEARCH_MAX_VARIANTS]);

/* ---- Quick times (trial_time.c) ------------------------------------------ */

struct vp_lists_item {
    uint8_t kind, stage; /* F, B or W; stage number */
    int mb;
};

/* The action lists of a schedule, reduced to F, B and W so that they can be
 * timed quickly. Where a stage recomputes, R is timed before each B. */
struct vp_lists {
    const struct vp_schedule *schedule; /* borrowed */
    struct vp_lists_item *at;
    int n;
    int *first;    /* per rank: its first item; one more entry for the end */
    double *times; /* scratch memory, like `next` */
    int *next;     /* per rank */
};

enum vp_status vp_lists_init(struct vp_lists *lists,
                             const struct vp_schedule *schedule);
void vp_lists_release(struct vp_lists *lists);
/* Returns the estimated seconds per minibatch. */
double vp_lists_seconds(const struct vp_lists *lists,
                        const struct vp_plan_costs *costs);

/* ---- One variant ---------------------------------------------------------- */

/* A point of the search: a partition, and a choice per block. */
struct vp_point {
    int partition[VP_MAX_STAGES];
    uint8_t *choice; /* per block: index into its choices */
    bool fits;
    int64_t lacks; /* bytes that all ranks together lack; 0 if it fits */
    int worst_rank;
    double seconds; /* per minibatch; INFINITY: does not fit */
};

/* The search within one variant. */
struct vp_trial {
    struct vp_search *search;
    const struct vp_search_input *input;
    struct vp_variant variant;
    struct vp_form form;
    struct vp_block_row *rows;
    /* Its partition and sets are those of the current point. */
    struct vp_plan plan;
    int n_stages, n_blocks;
    /* The schedule, at first without R. */
    struct vp_schedule shape;
    struct vp_lists lists; /* lists of `shape` */
    /* Those of the last fitted point. */
    struct vp_stage_shape shapes[VP_MAX_STAGES];
    /* Bytes per pipeline rank; replicas count as one. */
    int64_t limit[VP_MAX_STAGES];
    uint64_t *sets, *swaps; /* per block, for the point that is being priced */
    uint64_t *room;         /* scratch memory, two entries per block */
    bool exact;             /* sizes by lowering; false: estimated */
    struct vp_arena arena;
};

enum vp_status vp_trial_init(struct vp_trial *trial, struct vp_search *search,
                             const struct vp_search_input *input,
                             const struct vp_variant *variant,
                             struct vp_err *err);
void vp_trial_release(struct vp_trial *trial);

/* Makes the schedule with R for the stages that recompute in `point`.
 * `changed_out`: the number of buffers differs from that of the schedule
 * before. */
enum vp_status vp_trial_reshape(struct vp_trial *trial,
                                const struct vp_point *point, bool *changed_out,
                                struct vp_err *err);

/* Returns the rank of a stage; replicas count as one rank. */
int vp_trial_rank(const struct vp_trial *trial, int stage);

/* Returns the number of replicas of a stage that have shards of the optimizer's
 * state; 1: every replica has all of it. */
static inline int vp_trial_n_shards(const struct vp_trial *trial, int stage)
{
    return trial->plan.shard_optimizer ? trial->shape.stages[stage].n_replicas
                                       : 1;
}

/* trial_fit.c: finds the cheapest choices with which every rank fits; sets
 * `fits`, `lacks` and `worst_rank` of the point. */
enum vp_status vp_trial_fit(struct vp_trial *trial, struct vp_point *point,
                            struct vp_err *err);
/* trial_fit.c: improves a point that fits by trying other choices for the
 * blocks of one rank at a time, if the rank has few combinations. */
enum vp_status vp_trial_polish(struct vp_trial *trial, struct vp_point *point,
                               struct vp_err *err);
/* trial_fit.c: sizes of one stage of a point, estimated or exact. */
enum vp_status vp_trial_sizes(struct vp_trial *trial,
                              const struct vp_point *point, int stage,
                              struct vp_stage_sizes *out, struct vp_err *err);

/* trial.c: computes `seconds` of the point. The point must have been fitted
 * last; its choices may have changed since. If a lower bound already reaches
 * `bound`, `seconds` is that lower bound and nothing is simulated. */
enum vp_status vp_trial_seconds(struct vp_trial *trial, struct vp_point *point,
                                double bound, struct vp_err *err);
/* vp_trial_fit(), then vp_trial_seconds() if the point fits. */
enum vp_status vp_trial_judge(struct vp_trial *trial, struct vp_point *point,
                              double bound, struct vp_err *err);
/* Returns true if `a` is better than `b`: it fits and `b` does not, or it is
 * faster, or it lacks fewer bytes. */
bool vp_point_better(const struct vp_point *a, const struct vp_point *b);
void vp_point_copy(const struct vp_trial *trial, struct vp_point *to,
                   const struct vp_point *from);

/* trial_cuts.c: vp_trial_seed() takes the best of several first partitions;
 * vp_trial_improve() moves blocks between neighbouring stages until no move
 * helps, at most `n_passes` times. */
enum vp_status vp_trial_seed(struct vp_trial *trial, struct vp_point *best,
                             struct vp_err *err);
enum vp_status vp_trial_improve(struct vp_trial *trial, struct vp_point *best,
                                int n_passes, struct vp_err *err);
/* Looks for any partition that fits: tries all if there are few, else moves
 * blocks to reduce the bytes that ranks lack. */
enum vp_status vp_trial_make_fit(struct vp_trial *trial, struct vp_point *best,
                                 struct vp_err *err);

/* trial.c: returns the plan of a point. It borrows the trial and the point. */
struct vp_plan vp_trial_plan(struct vp_trial *trial,
                             const struct vp_point *point);

#endif
