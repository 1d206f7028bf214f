/* Optimizers in tensor-parallel groups: LAMB's trust ratios are those of whole
 * tensors, with the same bits for all partitions, schedules, threads and
 * resumption. Replicas of groups own shards of the optimizer's state. */
#include "lib/pipelinelib.h"
#include "lib/tensorlib.h"
#include "lib/vault.h"
#include "runtime/trainer/internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const model_names[] = { "bert", "gpt2", "translation" };

static struct setup trained_by(const char *model, int members,
                               enum vp_optim_kind optim)
{
    struct setup setup = group_of(model, members);

    setup.optim = optim;
    setup.vocab = 97; /* the last slice is padded */
    return setup;
}

/* ---- Comparison with one rank ------------------------------------------- */

static void run_steps(struct run *run, const struct setup *setup, int n)
{
    struct vp_err err = { .text = "" };

    if (run_create(run, setup, 0, &err) != VP_OK ||
        (n > 0 && vp_trainer_run(run->trainer, n, keep_step, run, &err)))
        fail_msg("%s", err.text);
}

/* Compares the step of every whole tensor: with one trust ratio per slice, the
 * parts of a tensor would be scaled by different factors. With a large eps the
 * direction is the gradient, so that rounding errors of its small elements stay
 * small. */
static void compare_steps(struct setup setup)
{
    struct run one, group, start;
    int members = setup.members;

    setup.lr = 0.5f;
    setup.eps = 1.0f;
    run_steps(&group, &setup, 1);
    setup.members = 1;
    run_steps(&start, &setup, 0);
    run_steps(&one, &setup, 1);
    for (vp_par par = 0; par < one.graphs[0].n_params; par++) {
        const struct vp_param *param = &one.graphs[0].params[par];
        int64_t n = count_weights(&one, par);
        float *w0 = trainer_weights(&start, par, 0);
        float *a = trainer_weights(&one, par, 0);
        float *b = trainer_weights(&group, par, 0);

        if (!param->constant && !has_key_bias(param) &&
            distance(a, b, n) > 1e-5 * distance(a, w0, n))
            fail_msg("%s, %d members: the step of %s differs by %g of %g",
                     setup.model, members, param->part[0].name,
                     distance(a, b, n), distance(a, w0, n));
        free(w0);
        free(a);
        free(b);
    }
    run_free(&start);
    run_free(&one);
    run_free(&group);
}

static void lamb_is_that_of_one_rank(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(model_names); m++)
        for (int k = 0; k < 2; k++) {
            struct setup setup = trained_by(model_names[m], 1, VP_OPTIM_LAMB);
            struct run one, group;

            setup.n_steps = N_LOSSES;
            setup.tied = k == 0;
            setup.eval = true;
            setup.grad_clip = 0.5f;
            train(&one, &setup);
            setup.members = members_of[k];
            train(&group, &setup);
            for (int i = 0; i < N_LOSSES; i++) {
                assert_true(fabs(one.losses[i] - group.losses[i]) <=
                            1e-6 * one.losses[i]);
                assert_true(fabs(one.norms[i] - group.norms[i]) <=
                            1e-5 * one.norms[i]);
            }
            assert_true(fabs(one.eval_loss - group.eval_loss) <=
                        1e-6 * one.eval_loss);
            compare_steps(setup);
        }
}

/* ---- The same bits for all plans ---------------------------------------- */

static void lamb_has_the_same_bits_however_it_is_cut(void **state)
{
    static const struct {
        const char *schedule;
        int n_stages, n_chunks, threads;
        double recompute;
    } variants[] = {
        { "1f1b", 2, 1, 1, 0.0 },
        { "gpipe", 3, 1, 3, 1.0 },
        { "zb-h1", 2, 1, 2, 0.0 },
        { "interleaved", 2, 2, 1, 0.3 },
    };

    for (size_t m = 0; m < VP_COUNT_OF(model_names); m++) {
        struct setup setup = trained_by(model_names[m], members_of[m % 2],
                                        VP_OPTIM_LAMB);
        struct run one, other;

        setup.dtype = *state ? VP_DTYPE_BF16 : VP_DTYPE_F32;
        setup.accumulation = 4;
        setup.grad_clip = 0.5f;
        setup.tied = m != 1;
        setup.vocab = 2001; /* slices have several chunks */
        train(&one, &setup);
        for (size_t v = 0; v < VP_COUNT_OF(variants); v++) {
            int partition[VP_MAX_STAGES];
            struct setup cut = setup;

            cut_evenly(&cut, variants[v].n_stages * variants[v].n_chunks,
                       partition);
            cut.n_stages = variants[v].n_stages;
            cut.n_chunks = variants[v].n_chunks;
            cut.schedule = variants[v].schedule;
            cut.threads = variants[v].threads;
            cut.recompute = variants[v].recompute;
            train(&other, &cut);
            assert_same(&one, &other, setup.n_steps);
        }
    }
}

/* ---- Padding and whole parameters --------------------------------------- */

/* Checks that the padding of a slice is 0, in weights and moments. Returns the
 * number of its elements. */
static int count_filled(const struct vp_stage *stage, int tensor, int member,
                        int n_members)
{
    const struct vp_param *param = stage->tensor_params[tensor];
    const struct vp_optim_tensor *t = &stage->tensors[tensor];
    const float *w = (float *)vp_stage_weights(stage, stage->newest) +
                     t->offset;
    struct vp_shape whole = vp_param_whole(param, 0);
    int64_t left = whole.rows * whole.cols - member * t->n;

    if (param->slice.axis == VP_SLICE_NONE || param->n_parts != 1 ||
        whole.rows * whole.cols == n_members * t->n)
        return 0;
    left = left < 0 ? 0 : left;
    for (int64_t i = left; i < t->n; i++) {
        assert_true(w[i] == 0.0f);
        assert_true(stage->moment[0][t->offset + i] == 0.0f);
        assert_true(stage->moment[1][t->offset + i] == 0.0f);
    }
    return left < t->n ? (int)(t->n - left) : 0;
}

static void filling_stays_zero_and_wholes_equal(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(model_names); m++) {
        struct setup setup = trained_by(model_names[m], 4, VP_OPTIM_LAMB);
        int partition[2], n_filled = 0, n_compared = 0;
        struct run run;

        setup.lr = 0.1f;
        setup.tied = m == 1;
        cut_evenly(&setup, 2, partition);
        run_steps(&run, &setup, 3);
        for (int r = 0; r < run.trainer->pipeline.n_ranks; r++) {
            const struct vp_rank *rank = &run.trainer->ranks[r];
            const struct vp_stage *first =
                &run.trainer->ranks[r - rank->member].stages[0].stage;
            const struct vp_stage *mine = &rank->stages[0].stage;

            for (int i = 0; i < mine->n_tensors; i++) {
                const struct vp_optim_tensor *t = &mine->tensors[i];

                n_filled += count_filled(mine, i, rank->member, 4);
                if (mine->tensor_params[i]->slice.axis != VP_SLICE_NONE)
                    continue;
                assert_memory_equal(
                    (float *)vp_stage_weights(mine, mine->newest) + t->offset,
                    (float *)vp_stage_weights(first, first->newest) + t->offset,
                    (size_t)t->n * sizeof(float));
                n_compared++;
            }
        }
        assert_true(n_filled >= 3 * 32);
        assert_true(n_compared > 8);
        run_free(&run);
    }
}

/* ---- Resumption by other group sizes ------------------------------------ */

/* Resumes from a copy of a group of another size: the losses agree up to
 * rounding. */
static void check_close(struct setup setup, const struct vault *vault, int copy,
                        const struct run *whole)
{
    struct source source = { vault, copy };
    struct vp_loader loader = { .ctx = &source,
                                .progress = vault->copies[copy].progress,
                                .load = load };
    struct run run;
    int from = (int)loader.progress.step;
    struct vp_err err = { .text = "" };

    setup.loader = &loader;
    run_steps(&run, &setup, 0);
    run.n_steps = from;
    if (vp_trainer_run(run.trainer, setup.n_steps - from, keep_step, &run,
                       &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int i = from; i < setup.n_steps; i++)
        assert_true(fabs(run.losses[i] - whole->losses[i]) <=
                    1e-6 * whole->losses[i]);
    run_free(&run);
}

static void lamb_resumes_with_any_size(void **state)
{
    static const int sizes[] = { 1, 2, 4 };

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct setup setup = trained_by("bert", sizes[k], VP_OPTIM_LAMB);
        struct vault *vault = vault_new();
        struct run whole;
        int partition[2];

        setup.n_steps = 5;
        cut_evenly(&setup, 2, partition);
        train_saving(setup, 2, &whole, vault);
        for (int j = 0; j < 3; j++) {
            setup.members = sizes[j];
            if (j == k)
                check_resume(setup, vault, 0, &whole);
            else
                check_close(setup, vault, 0, &whole);
        }
        vault_free(vault);
    }
}

/* ---- Shards of slices --------------------------------------------------- */

/* Also resumes groups of other sizes from a sharded copy. */
static void check_shards(struct setup setup, int64_t every)
{
    struct vault *whole = vault_new(), *sharded = vault_new();
    struct run want;

    train_shards(setup, every, &want, whole, sharded);
    for (int members = 1; members <= 4 && setup.dtype == VP_DTYPE_F32;
         members *= 2) {
        setup.shard = members < 4;
        if (members == setup.members)
            continue;
        setup.members = members;
        check_close(setup, sharded, 0, &want);
        setup.members = want.config.plan.tensor_parallel;
    }
    vault_free(whole);
    vault_free(sharded);
}

static const enum vp_optim_kind kinds[] = { VP_OPTIM_LAMB, VP_OPTIM_ADAM,
                                            VP_OPTIM_SGD };

static void shards_of_slices_have_the_same_bits(void **state)
{
    static const int replicas[][3] = { { 2, 1, 2 }, { 1, 3, 2 }, { 2, 2, 2 } };
    static const char *const schedules[] = { "1f1b", "gpipe", "zb-h1" };

    for (int n = 0; n < 6; n++) {
        struct setup setup = trained_by(model_names[n % 3], members_of[n % 2],
                                        kinds[n % 3]);
        int partition[3];

        setup.dtype = *state ? VP_DTYPE_BF16 : VP_DTYPE_F32;
        setup.vocab = n % 2 ? 2001 : 97;
        setup.accumulation = 3 + n % 3;
        setup.schedule = schedules[(n + 1) % 3];
        setup.replicas = replicas[n / 2];
        setup.tied = n % 2 == 0;
        setup.threads = 1 + n % 2;
        setup.grad_clip = n % 3 ? 0.5f : 0.0f;
        setup.n_steps = 5;
        cut_evenly(&setup, 3, partition);
        check_shards(setup, 2);
    }
}

/* Asynchronous schedules, with a ring of weight versions. */
static void shards_of_streams_have_the_same_bits(void **state)
{
    static const int replicas[] = { 2, 1, 2 }, depth[] = { 2, 3, 0 };

    for (int n = 0; n < 2; n++) {
        struct setup setup = trained_by("gpt2", 2, kinds[n]);
        int partition[3];

        setup.dtype = *state ? VP_DTYPE_BF16 : VP_DTYPE_F32;
        setup.vocab = 2001;
        setup.schedule = n ? "macrobatch" : "pipedream";
        setup.replicas = replicas;
        setup.depth = depth;
        setup.tied = false;
        setup.grad_clip = n ? 0.0f : 0.5f;
        setup.n_steps = 12;
        cut_evenly(&setup, 3, partition);
        check_shards(setup, 6);
    }
}

/* A rank has 1 / (members x replicas) of the moments, and allocates the priced
 * bytes. */
static void memory_of_shards_is_what_was_priced(void **state)
{
    static const int replicas[] = { 3, 3 };
    int64_t moments[2][2];

    (void)state;
    for (int k = 0; k < 4; k++) {
        struct setup setup = trained_by("gpt2", k % 2 ? 2 : 1, VP_OPTIM_LAMB);
        const struct vp_stage_price *prices;
        int partition[2];
        struct run run;

        setup.vocab = 8000;
        setup.shard = k / 2;
        setup.replicas = replicas;
        cut_evenly(&setup, 2, partition);
        run_steps(&run, &setup, 0);
        prices = vp_trainer_prices(run.trainer);
        assert_int_equal(atomic_load(&n_device_bytes),
                         (prices[0].memory.total + prices[1].memory.total) *
                             setup.members * 3);
        moments[k / 2][k % 2] = prices[0].memory.moments;
        /* A checkpoint has the moments of all shards. */
        assert_true(prices[0].snapshot >=
                    prices[0].memory.weights * setup.members +
                        moments[0][k % 2] * setup.members);
        run_free(&run);
    }
    for (int k = 0; k < 2; k++) {
        assert_true(moments[1][k] >= moments[0][k] / 3);
        assert_true(moments[1][k] <= moments[0][k] / 3 + 2 * 16384 * 8);
    }
    assert_true(moments[1][1] < moments[1][0] * 2 / 3);
}

/* A rank that stalls in UPDATE is named: others wait for its sums over members
 * or over replicas. */
struct trap {
    int rank, countdown;
};

static enum vp_fault spring(void *ctx, int rank, const struct vp_action *action)
{
    struct trap *trap = ctx;

    return rank == trap->rank && action->kind == VP_ACTION_UPDATE &&
                   trap->countdown-- == 0
               ? VP_FAULT_STALL
               : VP_FAULT_NONE;
}

static void a_rank_that_misses_an_update_is_named(void **state)
{
    static const int replicas[] = { 2 };

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct setup setup = trained_by("bert", 2, VP_OPTIM_LAMB);
        struct trap trap = { .rank = i, .countdown = 1 };
        struct vp_err err = { .text = "" };
        struct run run;
        char want[64];

        setup.n_stages = 1;
        setup.replicas = replicas;
        setup.shard = true;
        setup.fault = spring;
        setup.fault_ctx = &trap;
        setup.timeout_ms = 1000;
        run_steps(&run, &setup, 0);
        assert_true(vp_trainer_run(run.trainer, 3, keep_step, &run, &err) !=
                    VP_OK);
        snprintf(want, sizeof(want), "rank %d is stuck", i);
        if (!strstr(err.text, want))
            fail_msg("'%s' does not say '%s'", err.text, want);
        run_free(&run);
    }
}

int main(void)
{
    bool bf16 = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lamb_is_that_of_one_rank),
        cmocka_unit_test(lamb_has_the_same_bits_however_it_is_cut),
        { "lamb in bf16", lamb_has_the_same_bits_however_it_is_cut, NULL, NULL,
          &bf16 },
        cmocka_unit_test(filling_stays_zero_and_wholes_equal),
        cmocka_unit_test(lamb_resumes_with_any_size),
        cmocka_unit_test(shards_of_slices_have_the_same_bits),
        cmocka_unit_test(shards_of_streams_have_the_same_bits),
        { "shards in bf16", shards_of_slices_have_the_same_bits, NULL, NULL,
          &bf16 },
        { "streams in bf16", shards_of_streams_have_the_same_bits, NULL, NULL,
          &bf16 },
        cmocka_unit_test(memory_of_shards_is_what_was_priced),
        cmocka_unit_test(a_rank_that_misses_an_update_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
