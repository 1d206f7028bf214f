/* A tensor-parallel run resumes with any other number of members, uses the
 * priced memory, and names a lost member. */
#include "lib/tensorlib.h"
#include "lib/trainlib.h"
#include "runtime/trainer/internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- State -------------------------------------------------------------- */

enum { MAX_ITEMS = 1024 };

struct vault {
    struct vp_state_item items[MAX_ITEMS];
    float *data[MAX_ITEMS];
    int n;
    struct vp_progress progress;
};

static enum vp_status vault_begin(void *ctx, int64_t step, int timeout_ms,
                                  struct vp_err *err)
{
    (void)ctx;
    (void)step;
    (void)timeout_ms;
    (void)err;
    return VP_OK;
}

static float *vault_room(void *ctx, int item)
{
    return ((struct vault *)ctx)->data[item];
}

static enum vp_status vault_load(void *ctx, const struct vp_state_item *item,
                                 float *out, struct vp_err *err)
{
    const struct vault *vault = ctx;

    for (int i = 0; i < vault->n; i++) {
        const struct vp_state_item *have = &vault->items[i];

        if (strcmp(have->name, item->name) == 0 && have->kind == item->kind &&
            have->age == item->age && have->rows == item->rows &&
            have->cols == item->cols) {
            memcpy(out, vault->data[i],
                   (size_t)(item->rows * item->cols) * sizeof(float));
            return VP_OK;
        }
    }
    return vp_err_set(err, VP_ERR_INVALID, "no '%s'", item->name);
}

static void vault_fill(struct vault *vault, const struct run *run)
{
    struct vp_saver saver = { vault, 0, vault_begin, vault_room, NULL };
    struct vp_state_item *items;
    struct vp_err err = { .text = "" };

    memset(vault, 0, sizeof(*vault));
    vault->n = vp_trainer_state(run->trainer, &items);
    assert_in_range(vault->n, 1, MAX_ITEMS);
    for (int i = 0; i < vault->n; i++) {
        size_t n = (size_t)(items[i].rows * items[i].cols);

        vault->items[i] = items[i];
        vault->items[i].name = strdup(items[i].name);
        vault->data[i] = malloc(n * sizeof(float));
        for (size_t k = 0; k < n; k++)
            vault->data[i][k] = NAN;
    }
    free(items);
    vault->progress = vp_trainer_progress(run->trainer);
    assert_int_equal(vp_trainer_save(run->trainer, &saver, &err), VP_OK);
}

static void vault_empty(struct vault *vault)
{
    for (int i = 0; i < vault->n; i++) {
        free(vault->data[i]);
        free((char *)vault->items[i].name);
    }
}

static void vaults_are_equal(const struct vault *a, const struct vault *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        assert_string_equal(a->items[i].name, b->items[i].name);
        assert_int_equal(a->items[i].rows, b->items[i].rows);
        assert_int_equal(a->items[i].cols, b->items[i].cols);
        assert_memory_equal(a->data[i], b->data[i],
                            (size_t)(a->items[i].rows * a->items[i].cols) *
                                sizeof(float));
    }
}

/* Goes on from `vault` with `members`: the state comes back with its bits. */
static void resume(struct setup setup, const struct vault *vault, int members,
                   const double *losses, bool exact)
{
    struct vp_loader loader = { .ctx = (void *)vault,
                                .progress = vault->progress,
                                .load = vault_load };
    struct vault again;
    struct vp_err err = { .text = "" };
    struct run run;
    int from = (int)vault->progress.step;

    setup.members = members;
    setup.loader = &loader;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    vault_fill(&again, &run);
    vaults_are_equal(vault, &again);
    vault_empty(&again);
    run.n_steps = from;
    assert_int_equal(vp_trainer_run(run.trainer, 3, keep_step, &run, &err),
                     VP_OK);
    for (int i = from; i < from + 3; i++)
        assert_true(fabs(run.losses[i] - losses[i]) <=
                    (exact ? 0.0 : 1e-6 * losses[i]));
    run_free(&run);
}

static void any_size_resumes_any_other(void **state)
{
    static const int sizes[] = { 1, 2, 4 };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < 3; k++) {
            struct setup setup = group_of(models[m], sizes[k]);
            struct vp_err err = { .text = "" };
            struct vault *vault = calloc(1, sizeof(*vault));
            struct run run;
            int partition[2];

            setup.vocab = 97;
            setup.tied = k != 1;
            cut_evenly(&setup, 2, partition);
            assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
            assert_int_equal(
                vp_trainer_run(run.trainer, 2, keep_step, &run, &err), VP_OK);
            vault_fill(vault, &run);
            assert_int_equal(
                vp_trainer_run(run.trainer, 3, keep_step, &run, &err), VP_OK);
            for (int j = 0; j < 3; j++)
                resume(setup, vault, sizes[j], run.losses, j == k);
            run_free(&run);
            vault_empty(vault);
            free(vault);
        }
}

/* ---- Memory ------------------------------------------------------------- */

static void memory_is_what_was_priced(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct setup setup = group_of("gpt2", members_of[k]);
        struct vp_err err = { .text = "" };
        int64_t want = 0;
        struct run run;
        int partition[2];

        cut_evenly(&setup, 2, partition);
        assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
        for (int s = 0; s < 2; s++)
            want += vp_trainer_prices(run.trainer)[s].memory.total *
                    setup.members;
        if (vp_device_has_host_memory(run.trainer->ranks[0].device))
            assert_int_equal(atomic_load(&n_device_bytes), want);
        run_free(&run);
    }
}

/* ---- Faults ------------------------------------------------------------- */

struct accident {
    int rank;
    enum vp_action_kind kind;
    enum vp_fault fault;
};

static enum vp_fault happen(void *ctx, int rank, const struct vp_action *action)
{
    const struct accident *accident = ctx;

    return rank == accident->rank && action->kind == accident->kind &&
                   action->mb == 1
               ? accident->fault
               : VP_FAULT_NONE;
}

static void a_lost_member_is_named(void **state)
{
    static const struct accident accidents[] = {
        { 1, VP_ACTION_F, VP_FAULT_STALL }, { 2, VP_ACTION_F, VP_FAULT_STALL },
        { 3, VP_ACTION_B, VP_FAULT_STALL }, { 0, VP_ACTION_B, VP_FAULT_STALL },
        { 1, VP_ACTION_B, VP_FAULT_ERROR }, { 3, VP_ACTION_F, VP_FAULT_ERROR },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(accidents); i++) {
        struct setup setup = group_of("gpt2", 2);
        struct accident accident = accidents[i];
        struct vp_err err = { .text = "" };
        int partition[2];
        struct run run;
        char want[64];

        cut_evenly(&setup, 2, partition);
        setup.fault = happen;
        setup.fault_ctx = &accident;
        setup.timeout_ms = 1000;
        assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
        assert_true(vp_trainer_run(run.trainer, 2, keep_step, &run, &err) !=
                    VP_OK);
        if (accident.fault == VP_FAULT_ERROR)
            snprintf(want, sizeof(want),
                     "rank %d, stage %d, minibatch 1: ", accident.rank,
                     accident.rank / 2);
        else
            snprintf(want, sizeof(want), "rank %d is ", accident.rank);
        if (!strstr(err.text, want))
            fail_msg("'%s' does not say '%s'", err.text, want);
        if (accident.fault == VP_FAULT_STALL)
            assert_true(strstr(err.text, "waits in group_") ||
                        strstr(err.text, "waits in cross_entropy"));
        run_free(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_size_resumes_any_other),
        cmocka_unit_test(memory_is_what_was_priced),
        cmocka_unit_test(a_lost_member_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
