/* One schedule of a search: where the model is cut, and what its blocks keep.
 * Private to plan. */
#ifndef VP_PLAN_TRIAL_H
#define VP_PLAN_TRIAL_H

#include "plan/costs.h"
#include "plan/search_input.h"

/* Models with at most this number of blocks are priced exactly, not estimated,
 * and searched thoroughly. */
enum { VP_SEARCH_SMALL = 16 };

/* ---- Choices (trial_blocks.c) ------------------------------------------ */

/* One way to treat the activations of a block, with what the block adds to a
 * stage then. Sizes are estimated: those of this block before its neighbour. */
struct vp_block_choice {
    uint64_t recompute, swap; /* operators */
    double seconds;           /* that it adds */
    double moved_w;           /* weight gradients that run with B, FLOPs */
    double moved_seconds;     /* likewise */
    int64_t slot;             /* bytes kept per minibatch in flight */
    int64_t recomputed;       /* bytes that R writes */
    int64_t work;             /* temporaries */
    int64_t swapped;          /* bytes that go to the host and back */
};

enum { VP_MAX_CHOICES = VP_PROFILE_MAX_SETS + 4 };

struct vp_block_row {
    struct vp_block_choice
        choices[VP_MAX_CHOICES]; /* the first keeps everything */
    int n_choices;
};

/* How stages are lowered. */
struct vp_form {
    bool split, in_b, swap;
};
enum { VP_N_FORMS = 8 };

static inline int vp_form_index(struct vp_form form)
{
    return form.split * 4 + form.in_b * 2 + form.swap;
}

/* Sizes of a block as a stage of its own: what does not depend on choices. */
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
    uint8_t kind, stage; /* F, B or W */
    int mb;
};

/* The lists of a schedule in a form that is quick to time; R stands before each
 * B, where the stage recomputes. */
struct vp_lists {
    const struct vp_schedule *schedule; /* borrowed */
    struct vp_lists_item *at;
    int n;
    int *first;    /* per rank, and the end */
    double *times; /* scratch, as `next` */
    int *next;     /* per rank */
};

enum vp_status vp_lists_init(struct vp_lists *lists,
                             const struct vp_schedule *schedule);
void vp_lists_release(struct vp_lists *lists);
/* Seconds per minibatch. */
double vp_lists_seconds(const struct vp_lists *lists,
                        const struct vp_plan_costs *costs);

/* ---- One variant ---------------------------------------------------------- */

/* A point of the search: a cut and a choice per block. */
struct vp_point {
    int partition[VP_MAX_STAGES];
    uint8_t *choice; /* per block */
    bool fits;
    int64_t lacks; /* bytes, of all ranks, if it does not */
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
    struct vp_plan plan; /* partition and sets are those of a point */
    int n_stages, n_blocks;
    struct vp_schedule shape; /* without recomputation: slots and rings */
    struct vp_lists lists;    /* of `shape` */
    struct vp_stage_shape shapes[VP_MAX_STAGES]; /* of the point fitted last */
    int64_t limit[VP_MAX_STAGES]; /* per rank of the pipeline, replicas one */
    uint64_t *sets, *swaps;       /* per block, of the point being priced */
    uint64_t *room;               /* two per block */
    bool exact;                   /* sizes by lowering, else estimated */
    struct vp_arena arena;
};

enum vp_status vp_trial_init(struct vp_trial *trial, struct vp_search *search,
                             const struct vp_search_input *input,
                             const struct vp_variant *variant,
                             struct vp_err *err);
void vp_trial_release(struct vp_trial *trial);

/* Gives the trial the rings of the stages that recompute in `point`;
 * `changed_out`: they are others than before. */
enum vp_status vp_trial_reshape(struct vp_trial *trial,
                                const struct vp_point *point, bool *changed_out,
                                struct vp_err *err);

/* The rank of a stage, counted without replicas. */
int vp_trial_rank(const struct vp_trial *trial, int stage);

/* Replicas of a stage that have shards of the optimizer's state; 1: all have all. */
static inline int vp_trial_n_shards(const struct vp_trial *trial, int stage)
{
    return trial->plan.shard_optimizer ? trial->shape.stages[stage].n_replicas
                                       : 1;
}

/* trial_fit.c: the cheapest choices with which every rank fits; sets `fits`,
 * `lacks` and `worst_rank` of the point. */
enum vp_status vp_trial_fit(struct vp_trial *trial, struct vp_point *point,
                            struct vp_err *err);
/* trial_fit.c: improves a point that fits by other choices of the blocks of one
 * rank, where these are few. */
enum vp_status vp_trial_polish(struct vp_trial *trial, struct vp_point *point,
                               struct vp_err *err);
/* trial_fit.c: sizes of a stage of a point, estimated or exact. */
enum vp_status vp_trial_sizes(struct vp_trial *trial,
                              const struct vp_point *point, int stage,
                              struct vp_stage_sizes *out, struct vp_err *err);

/* trial.c: seconds of the point that was fitted last, with any choices. Points
 * that cannot take less than `bound` are not simulated. */
enum vp_status vp_trial_seconds(struct vp_trial *trial, struct vp_point *point,
                                double bound, struct vp_err *err);
/* Both: fits and prices. */
enum vp_status vp_trial_judge(struct vp_trial *trial, struct vp_point *point,
                              double bound, struct vp_err *err);
/* Returns true if `a` is the better point: it fits, it is faster, it lacks
 * less. */
bool vp_point_better(const struct vp_point *a, const struct vp_point *b);
void vp_point_copy(const struct vp_trial *trial, struct vp_point *to,
                   const struct vp_point *from);

/* trial_cuts.c: the best of several first cuts; and moves of blocks between
 * neighbours until none helps. */
enum vp_status vp_trial_seed(struct vp_trial *trial, struct vp_point *best,
                             struct vp_err *err);
enum vp_status vp_trial_improve(struct vp_trial *trial, struct vp_point *best,
                                int n_passes, struct vp_err *err);
/* Looks for any cut that fits: all cuts if they are few, else by moves that make
 * ranks lack less. */
enum vp_status vp_trial_make_fit(struct vp_trial *trial, struct vp_point *best,
                                 struct vp_err *err);

/* trial.c: the plan of a point; borrows the trial and the point. */
struct vp_plan vp_trial_plan(struct vp_trial *trial,
                             const struct vp_point *point);

#endif
