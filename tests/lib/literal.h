/* A literal interpreter of asynchronous training, to compare with: minibatches
 * run one after the other, and every version of the weights is kept. */
#ifndef VP_TESTS_LIB_LITERAL_H
#define VP_TESTS_LIB_LITERAL_H

#include "lib/trainlib.h"

#include <stdint.h>

enum { MAX_ROUNDS = 64, MAX_REPLICAS = 4, MAX_LITERAL = 24 };

/* One stage of the interpreter. */
struct literal_stage {
    struct vp_stage stage;
    int n_replicas;
    int every; /* minibatches of a round */
    int lag;   /* rounds between a version and its use */
    int begin; /* round that its segment starts with */
    struct vp_stage_message *out, *din; /* messages to the neighbours */
    float *grads[MAX_REPLICAS];
    int64_t n_floats;
    double norm;
};

struct literal {
    const struct vp_train_config *config;
    struct vp_backend *backend;
    struct literal_stage stages[VP_MAX_STAGES];
    int n_stages;
    struct vp_batch *batch;
    const struct vp_members *members; /* NULL: a group of one */
};

void literal_close(struct literal *lit);

/* Returns the mean loss per prediction of `n` held-out batches, after `done`
 * minibatches. */
double literal_eval(struct literal *lit, int n, int done);

/* An asynchronous pipeline, and the lags and rounds that it must have. */
struct async_case {
    const char *schedule;
    int n_stages;
    int replicas[MAX_LITERAL];
    int depth[MAX_LITERAL]; /* warm-up depths, default or given */
    int lag[MAX_LITERAL];   /* rounds between a version and its use */
    int every[MAX_LITERAL]; /* minibatches per update */
    bool give_depth;
    int eval_after; /* minibatches; 0: no evaluation */
};

/* Opens one member of a tensor-parallel group. Norms are those of its own
 * gradients. */
void literal_open_member(struct literal *lit, const struct run *run,
                         const struct vp_train_config *config,
                         const struct async_case *c, const int *partition,
                         const struct vp_members *members);

void literal_open(struct literal *lit, const struct run *run,
                  const struct vp_train_config *config,
                  const struct async_case *c, const int *partition);

/* Trains minibatches [first, first + n). */
void literal_run(struct literal *lit, int first, int n, double *losses,
                 double *norms);

#endif
