/* Copies of the state of a run, taken while it trains, and runs that go on from
 * them. */
#ifndef VP_TESTS_LIB_VAULT_H
#define VP_TESTS_LIB_VAULT_H

#include "lib/trainlib.h"

#include <pthread.h>
#include <stdint.h>

enum { MAX_COPIES = 16, MAX_ITEMS = 2048 };

/* ---- A saver that keeps everything in memory ---------------------------- */

struct copy {
    float *data[MAX_ITEMS];
    struct vp_progress progress;
};

struct vault {
    struct vp_state_item items[MAX_ITEMS];
    int n_items;
    struct copy copies[MAX_COPIES];
    int n_copies; /* complete */
    int64_t open; /* step being saved, 0: none */
    pthread_mutex_t lock;
    pthread_cond_t done;
    struct vp_trainer *trainer;
    struct run *run;
    int n_waits; /* for the copy before */
};

enum vp_status vault_begin(void *ctx, int64_t step, int timeout_ms,
                           struct vp_err *err);

float *vault_room(void *ctx, int item);

/* Closes the copy of a step. */
void vault_commit(struct vault *vault);

void vault_open(struct vault *vault, struct run *run);

struct vault *vault_new(void);

void vault_free(struct vault *vault);

/* ---- A loader over a copy ----------------------------------------------- */

struct source {
    const struct vault *vault;
    int copy;
};

enum vp_status load(void *ctx, const struct vp_state_item *item, float *out,
                    struct vp_err *err);

/* ---- Runs --------------------------------------------------------------- */

/* Trains `setup` with a copy every `every` steps. */
void train_saving(struct setup setup, int64_t every, struct run *run,
                  struct vault *vault);

/* Goes on from a copy, under another pipeline, and compares. */
void check_resume(struct setup setup, const struct vault *vault, int copy,
                  const struct run *whole);

#endif
