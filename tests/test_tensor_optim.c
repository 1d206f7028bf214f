/* Optimizers in tensor-parallel groups: LAMB's trust ratios are those of whole tensors,
 * with the same bits over cuts, schedules, threads and resumption. */
#include "vault.h"

#include "runtime/trainer/internal.h"

enum { N_LOSSES = 10 };

static const char *const model_names[] = { "bert", "gpt2", "translation" };
static const int members_of[] = { 2, 4 };

static struct setup group_of(const char *model, int members,
                             enum vp_optim_kind optim)
{
    struct setup setup = usual;

    setup.model = model;
    setup.members = members;
    setup.optim = optim;
    setup.threads = 1;
    setup.n_steps = 3;
    setup.vocab = 97; /* the last slice is filled up */
    return setup;
}

/* Equal parts, the last one with the rest. */
static void cut_evenly(struct setup *setup, int n_stages, int *partition)
{
    struct vp_model_config sizes = small_sizes(setup);
    int n = (int)vp_model_find(setup->model)->n_blocks(&sizes);

    for (int s = 0; s < n_stages; s++)
        partition[s] = s + 1 < n_stages ? n / n_stages
                                        : n - n / n_stages * (n_stages - 1);
    setup->n_stages = n_stages;
    setup->partition = partition;
}

/* ---- Against one rank --------------------------------------------------- */

static double distance(const float *a, const float *b, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum);
}

/* The key bias of attention has a gradient of zero, up to rounding. */
static bool has_key_bias(const struct vp_param *param)
{
    for (int i = 0; i < param->n_parts; i++)
        if (param->rows == 3 || strstr(param->part[i].name, "c_attn.bias"))
            return true;
    return false;
}

static void run_steps(struct run *run, const struct setup *setup, int n)
{
    struct vp_err err = { .text = "" };

    if (run_create(run, setup, 0, &err) != VP_OK ||
        (n > 0 && vp_trainer_run(run->trainer, n, keep_step, run, &err)))
        fail_msg("%s", err.text);
}

/* The step of every whole tensor: a ratio of slices would scale parts of it by other
 * factors. With a large eps the direction is the gradient, so that rounding of its
 * small elements stays small. */
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
            struct setup setup = group_of(model_names[m], 1, VP_OPTIM_LAMB);
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

/* ---- The same bits ------------------------------------------------------ */

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
        struct setup setup = group_of(model_names[m], members_of[m % 2],
                                      VP_OPTIM_LAMB);
        struct run one, other;

        setup.dtype = *state ? VP_DTYPE_BF16 : VP_DTYPE_F32;
        setup.accumulation = 4;
        setup.grad_clip = 0.5f;
        setup.tied = m != 1;
        setup.vocab = 2001; /* slices of several chunks */
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

/* ---- What all members have, and what none has --------------------------- */

/* Elements of a slice that are in no whole tensor. */
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
        struct setup setup = group_of(model_names[m], 4, VP_OPTIM_LAMB);
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

/* ---- State -------------------------------------------------------------- */

/* Goes on from a copy of a group of another size: the losses agree up to rounding. */
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
        struct setup setup = group_of("bert", sizes[k], VP_OPTIM_LAMB);
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
