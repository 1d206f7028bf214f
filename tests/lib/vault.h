/* Copies of the state of a run, taken during training, and runs that resume
 * from them. */
#ifndef VP_TESTS_LIB_VAULT_H
#define VP_TESTS_LIB_VAULT_H

#include "lib/trainlib.h"

#include <pthread.h>
#include <stdint.h>

enum { MAX_COPIES = 16, MAX_ITEMS = 2048 };

/* ---- A saver in memory -------------------------------------------------- */

struct copy {
    float *data[MAX_ITEMS];
    struct vp_progress progress;
};

struct vault {
    struct vp_state_item items[MAX_ITEMS];
    int n_items;
    struct copy copies[MAX_COPIES];
    int n_copies; /* complete copies */
    int64_t open; /* step being saved, 0: none */
    pthread_mutex_t lock;
    pthread_cond_t done;
    struct vp_trainer *trainer;
    struct run *run;
    int n_waits; /* waits for an earlier copy to be complete */
};

enum vp_status vault_begin(void *ctx, int64_t step, int timeout_ms,
                           struct vp_err *err);

float *vault_room(void *ctx, int item);

/* Completes the copy of a step. */
void vault_commit(struct vault *vault);

void vault_open(struct vault *vault, struct run *run);

struct vault *vault_new(void);

void vault_free(struct vault *vault);

/* ---- A loader of a copy ------------------------------------------------- */

/* A copy of a vault, as the context of load(). */
struct source {
    const struct vault *vault;
    int copy;
};

enum vp_status load(void *ctx, const struct vp_state_item *item, float *out,
                    struct vp_err *err);

/* ---- Runs --------------------------------------------------------------- */

/* Trains `setup` and saves a copy every `every` steps. */
void train_saving(struct setup setup, int64_t every, struct run *run,
                  struct vault *vault);

/* Resumes from a copy with the pipeline of `setup`, and checks that results
 * equal those of the run `whole`. */
void check_resume(struct setup setup, const struct vault *vault, int copy,
                  const struct run *whole);

/* Trains `setup` with and without shards of the optimizer's state: bits and copies
 * must be equal. Then resumes each run from a copy of the other. `want` is the run
 * without shards; the caller frees both vaults. */
void train_shards(struct setup setup, int64_t every, struct run *want,
                  struct vault *whole, struct vault *sharded);

#endif
