#include "lib/vault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- A saver in memory -------------------------------------------------- */

enum vp_status vault_begin(void *ctx, int64_t step, int timeout_ms,
                           struct vp_err *err)
{
    struct vault *vault = ctx;

    (void)timeout_ms;
    (void)err;
    pthread_mutex_lock(&vault->lock);
    while (vault->open != 0 && vault->open != step) {
        vault->n_waits++;
        pthread_cond_wait(&vault->done, &vault->lock);
    }
    vault->open = step;
    pthread_mutex_unlock(&vault->lock);
    return VP_OK;
}

float *vault_room(void *ctx, int item)
{
    struct vault *vault = ctx;

    return vault->copies[vault->n_copies].data[item];
}

void vault_commit(struct vault *vault)
{
    pthread_mutex_lock(&vault->lock);
    assert_true(vault->n_copies < MAX_COPIES);
    vault->copies[vault->n_copies].progress = vp_trainer_progress(
        vault->trainer);
    assert_int_equal(vault->copies[vault->n_copies].progress.step, vault->open);
    vault->n_copies++;
    vault->open = 0;
    pthread_cond_broadcast(&vault->done);
    pthread_mutex_unlock(&vault->lock);
}

static bool vault_step(void *ctx, const struct vp_step_report *report)
{
    struct vault *vault = ctx;

    if (report->saved)
        vault_commit(vault);
    return keep_step(vault->run, report);
}

void vault_open(struct vault *vault, struct run *run)
{
    struct vp_state_item *items;

    vault->run = run;
    vault->trainer = run->trainer;
    vault->n_items = vp_trainer_state(run->trainer, &items);
    assert_in_range(vault->n_items, 1, MAX_ITEMS);
    memcpy(vault->items, items, (size_t)vault->n_items * sizeof(*items));
    free(items);
    for (int i = 0; i < vault->n_items; i++)
        vault->items[i].name = strdup(vault->items[i].name);
    for (int c = 0; c < MAX_COPIES; c++)
        for (int i = 0; i < vault->n_items; i++) {
            vault->copies[c].data[i] = calloc(
                (size_t)(vault->items[i].rows * vault->items[i].cols),
                sizeof(float));
            assert_non_null(vault->copies[c].data[i]);
        }
}

struct vault *vault_new(void)
{
    struct vault *vault = calloc(1, sizeof(*vault));

    assert_non_null(vault);
    pthread_mutex_init(&vault->lock, NULL);
    pthread_cond_init(&vault->done, NULL);
    return vault;
}

void vault_free(struct vault *vault)
{
    for (int c = 0; c < MAX_COPIES; c++)
        for (int i = 0; i < vault->n_items; i++)
            free(vault->copies[c].data[i]);
    for (int i = 0; i < vault->n_items; i++)
        free((char *)vault->items[i].name);
    free(vault);
}

/* ---- A loader of a copy ------------------------------------------------- */

enum vp_status load(void *ctx, const struct vp_state_item *item, float *out,
                    struct vp_err *err)
{
    const struct source *source = ctx;

    for (int i = 0; i < source->vault->n_items; i++) {
        const struct vp_state_item *have = &source->vault->items[i];

        if (strcmp(have->name, item->name) != 0 || have->kind != item->kind ||
            have->age != item->age)
            continue;
        assert_int_equal(have->rows, item->rows);
        assert_int_equal(have->cols, item->cols);
        memcpy(out, source->vault->copies[source->copy].data[i],
               (size_t)(item->rows * item->cols) * sizeof(float));
        return VP_OK;
    }
    return vp_err_set(err, VP_ERR_INVALID, "no '%s'", item->name);
}

/* ---- Runs --------------------------------------------------------------- */

void train_saving(struct setup setup, int64_t every, struct run *run,
                  struct vault *vault)
{
    struct vp_saver saver = { vault, every, vault_begin, vault_room, NULL };
    struct vp_err err = { .text = "" };

    setup.saver = &saver;
    if (run_create(run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    vault_open(vault, run);
    if (vp_trainer_run(run->trainer, setup.n_steps, vault_step, vault, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
    run->weights = hash_weights(run);
    run_free(run);
}

void check_resume(struct setup setup, const struct vault *vault, int copy,
                  const struct run *whole)
{
    struct source source = { vault, copy };
    struct vp_loader loader = { .ctx = &source,
                                .progress = vault->copies[copy].progress,
                                .load = load };
    struct vp_err err = { .text = "" };
    struct run run;
    int from = (int)loader.progress.step;

    /* A copy of a synchronous run may be resumed with any number of stages, so
     * the progress of every stage is set here. */
    for (int s = 0; s < VP_MAX_STAGES && !setup.loader; s++)
        if (!vp_generator_find(setup.schedule ? setup.schedule : "1f1b")
                 ->stream) {
            loader.progress.updates[s] = from;
            loader.progress.scale[s] = loader.progress.scale[0];
        }
    setup.loader = &loader;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    run.n_steps = from;
    memcpy(run.losses, whole->losses, (size_t)from * sizeof(double));
    memcpy(run.norms, whole->norms, (size_t)from * sizeof(double));
    if (setup.n_steps > from &&
        vp_trainer_run(run.trainer, setup.n_steps - from, keep_step, &run,
                       &err) != VP_OK)
        fail_msg("%s", err.text);
    run.weights = hash_weights(&run);
    assert_same(&run, whole, setup.n_steps);
    for (int i = from; i < setup.n_steps; i++) {
        assert_true(run.scales[i] == whole->scales[i]);
        assert_int_equal(run.skipped[i], whole->skipped[i]);
    }
    run_free(&run);
}

static void assert_same_copies(const struct vault *a, const struct vault *b)
{
    assert_int_equal(a->n_copies, b->n_copies);
    assert_int_equal(a->n_items, b->n_items);
    assert_true(a->n_copies > 0);
    for (int c = 0; c < a->n_copies; c++)
        for (int i = 0; i < a->n_items; i++) {
            const struct vp_state_item *item = &a->items[i];

            assert_string_equal(item->name, b->items[i].name);
            if (memcmp(a->copies[c].data[i], b->copies[c].data[i],
                       (size_t)(item->rows * item->cols) * sizeof(float)) != 0)
                fail_msg("%s, kind %d, copy %d", item->name, (int)item->kind,
                         c);
        }
}

void train_shards(struct setup setup, int64_t every, struct run *want,
                  struct vault *whole, struct vault *sharded)
{
    struct run got;

    setup.shard = false;
    train_saving(setup, every, want, whole);
    setup.shard = true;
    train_saving(setup, every, &got, sharded);
    assert_same(want, &got, setup.n_steps);
    assert_same_copies(whole, sharded);
    check_resume(setup, whole, 0, want);
    setup.shard = false;
    check_resume(setup, sharded, sharded->n_copies - 1, want);
}
