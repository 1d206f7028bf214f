/* Tensor parallelism: the ranks of a group share each operator. A group gives
 * the same bits for all partitions, schedules, recomputation, threads and
 * resumption, and the losses of one rank up to rounding. VP_TEST_DEVICE=cuda
 * runs the same tests with ranks that share a GPU, and compares with the CPU up
 * to rounding. VP_TEST_FILTER runs only the tests whose names match that
 * pattern. */
#include "lib/pipelinelib.h"
#include "lib/run_part.h"
#include "lib/tensorlib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Slices of parameters ----------------------------------------------- */

struct slice_case {
    struct vp_param param;
    int n_members, member;
    float want[12];
};

static void slices_are_cut_as_drawn(void **state)
{
    /* The whole tensor is 4 x 3 or 5 x 2, with elements 0, 1, 2, ... */
    static const struct slice_case cases[] = {
        { { .rows = 2, .cols = 3, .slice = { VP_SLICE_ROWS, 1, 4 } },
          2,
          1,
          { 6, 7, 8, 9, 10, 11 } },
        { { .rows = 2, .cols = 3, .slice = { VP_SLICE_ROWS, 2, 4 } },
          2,
          0,
          { 0, 1, 2, 6, 7, 8 } },
        { { .rows = 4, .cols = 1, .slice = { VP_SLICE_COLS, 1, 3 } },
          3,
          2,
          { 2, 5, 8, 11 } },
        { { .rows = 1, .cols = 6, .slice = { VP_SLICE_COLS, 3, 12 } },
          2,
          1,
          { 2, 3, 6, 7, 10, 11 } },
        /* Slices that end in padding with zeros. */
        { { .rows = 3, .cols = 2, .slice = { VP_SLICE_ROWS, 1, 5 } },
          2,
          1,
          { 6, 7, 8, 9, 0, 0 } },
        { { .rows = 2, .cols = 2, .slice = { VP_SLICE_ROWS, 1, 5 } },
          4,
          3,
          { 0, 0, 0, 0 } },
        { { .rows = 4, .cols = 3 },
          2,
          1,
          { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 } },
    };
    float whole[12], slice[12], back[12];

    (void)state;
    for (int i = 0; i < 12; i++)
        whole[i] = (float)i;
    for (size_t c = 0; c < VP_COUNT_OF(cases); c++) {
        struct vp_param param = cases[c].param;
        int64_t n = param.rows * param.cols, n_whole;

        param.n_parts = 1;
        param.part[0] = (struct vp_part){ "p", 0, param.rows };
        n_whole = vp_param_whole_count(&param);
        vp_slice_take(&param, 0, cases[c].member, cases[c].n_members, whole,
                      slice);
        for (int64_t i = 0; i < n; i++)
            assert_true(slice[i] == cases[c].want[i]);
        memset(back, 0, sizeof(back));
        for (int t = 0; t < cases[c].n_members; t++) {
            vp_slice_take(&param, 0, t, cases[c].n_members, whole, slice);
            vp_slice_put(&param, 0, t, cases[c].n_members, slice, back);
        }
        assert_memory_equal(back, whole, (size_t)n_whole * sizeof(*back));
    }
}

/* A model has the same whole parameters for any number of members. */
static void whole_shapes_do_not_depend_on_members(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int tied = 0; tied < 2; tied++) {
            struct setup setup = group_of(models[m], 1);
            struct vp_dims dims = { 4, 20, m == 2 ? 20 : 0, 0 };
            struct vp_graph one, four;
            struct vp_err err = { .text = "" };
            struct vp_model_config sizes;

            setup.tied = tied;
            setup.vocab = 97;
            sizes = small_sizes(&setup);
            assert_int_equal(vp_model_build(vp_model_find(models[m]), &sizes,
                                            &dims, &one, &err),
                             VP_OK);
            sizes.n_members = 4;
            assert_int_equal(vp_model_build(vp_model_find(models[m]), &sizes,
                                            &dims, &four, &err),
                             VP_OK);
            assert_int_equal(one.n_params, four.n_params);
            assert_int_equal(one.n_streams, four.n_streams);
            assert_true(vp_graph_param_count(&one) ==
                        vp_graph_param_count(&four));
            for (vp_par par = 0; par < one.n_params; par++) {
                const struct vp_param *a = &one.params[par];
                const struct vp_param *b = &four.params[par];

                assert_int_equal(a->n_parts, b->n_parts);
                for (int i = 0; i < a->n_parts; i++) {
                    struct vp_shape shape = vp_param_whole(b, i);

                    assert_string_equal(a->part[i].name, b->part[i].name);
                    assert_int_equal(a->part[i].rows, shape.rows);
                    assert_int_equal(a->cols, shape.cols);
                }
            }
            vp_graph_release(&one);
            vp_graph_release(&four);
        }
}

/* Heads that cannot be divided among the members are refused in one line. */
static void heads_must_divide(void **state)
{
    struct setup setup = group_of("bert", 3);
    struct vp_model_config sizes = small_sizes(&setup);
    struct vp_dims dims = { 4, 20, 0, 0 };
    struct vp_err err = { .text = "" };
    struct vp_graph graph;

    (void)state;
    assert_int_equal(
        vp_model_build(vp_model_find("bert"), &sizes, &dims, &graph, &err),
        VP_ERR_INVALID);
    assert_string_equal(err.text, "mp_size: 3 ranks cannot share 4 heads; use "
                                  "a divisor of heads");
    sizes.n_members = 4;
    sizes.ffn = 66;
    assert_int_equal(
        vp_model_build(vp_model_find("bert"), &sizes, &dims, &graph, &err),
        VP_ERR_INVALID);
    assert_string_equal(err.text, "mp_size: 4 ranks cannot share ffn 66; use a "
                                  "divisor of ffn");
}

/* ---- The same bits for all plans ---------------------------------------- */

static void same_bits_however_it_is_cut(void **state)
{
    static const struct variant variants[] = {
        { "1f1b", 2, 1, 1, 0.0, 0.0, false, false },
        { "1f1b", 3, 1, 3, 0.5, 0.0, false, false },
        { "gpipe", 2, 1, 2, 1.0, 0.0, true, false },
        { "gpipe", 3, 1, 1, 1.0, 0.0, false, true },
        { "zb-h1", 2, 1, 1, 0.0, 0.5, false, false },
        { "interleaved", 2, 2, 1, 0.3, 0.0, false, false },
    };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < 2; k++) {
            struct setup setup = group_of(models[m], members_of[k]);

            setup.eval = true;
            setup.n_steps = 2;
            setup.accumulation = 4;
            setup.grad_clip = 0.5f;
            setup.tied = (m + (size_t)k) % 2 == 0;
            setup.vocab = 97;
            /* Each model takes half of the variants. */
            check_same_bits(setup, variants, VP_COUNT_OF(variants),
                            m + (size_t)k);
        }
}

static void replicas_of_groups_give_the_same_bits(void **state)
{
    (void)state;
    check_replicas(group_of("gpt2", 2));
}

static void bf16_gives_the_same_bits(void **state)
{
    struct setup setup = group_of("gpt2", 2);
    struct run one, other;
    int partition[2];

    (void)state;
    setup.dtype = VP_DTYPE_BF16;
    train(&one, &setup);
    cut_evenly(&setup, 2, partition);
    setup.recompute = 0.7;
    train(&other, &setup);
    assert_same(&one, &other, setup.n_steps);
}

/* ---- Comparison with one rank ------------------------------------------- */

static void numbers_are_those_of_one_rank(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < 2; k++)
            for (int tied = 0; tied < 2; tied++) {
                struct setup setup = group_of(models[m], members_of[k]);

                setup.n_steps = N_LOSSES;
                setup.tied = tied;
                setup.eval = true;
                setup.vocab = 97; /* the last slice is padded */
                setup.grad_clip = 0.5f;
                check_numbers(setup);
            }
}

static void numbers_are_those_of_the_cpu(void **state)
{
    (void)state;
    for (size_t m = 0; on_gpu() && m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < 2; k++) {
            struct setup setup = group_of(models[m], members_of[k]);
            struct run cpu, gpu;

            setup.n_steps = 4;
            setup.eval = true;
            setup.vocab = 97;
            setup.tied = k == 0;
            train(&gpu, &setup);
            setup.device = &vp_backend_cpu;
            train(&cpu, &setup);
            for (int i = 0; i < setup.n_steps; i++) {
                assert_near(cpu.losses[i], gpu.losses[i], 1e-5, "loss", i);
                assert_near(cpu.norms[i], gpu.norms[i], norm_tolerance(),
                            "norm", i);
            }
            assert_near(cpu.eval_loss, gpu.eval_loss, 1e-5, "evaluation", 0);
        }
}

/* The rank of the label counts the ids with larger logits in all slices. */
static void evaluations_count_the_same_ranks(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = group_of(models[m], 1);
        struct vp_score score[2] = { { .loss = 0.0 } };

        setup.eval = true;
        setup.vocab = 97;
        setup.accumulation = 1;
        for (int k = 0; k < 2; k++) {
            struct vp_err err = { .text = "" };
            struct run run;

            setup.members = k == 0 ? 1 : 4;
            assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
            assert_int_equal(
                vp_trainer_eval_part(run.trainer, 0, 4, &score[k], &err),
                VP_OK);
            run_free(&run);
        }
        assert_true(score[0].n_labels > 0.0);
        assert_true(score[0].n_labels == score[1].n_labels);
        assert_true(score[0].top1 == score[1].top1);
        assert_true(score[0].top5 == score[1].top5);
    }
}

/* ---- Parameters that all members have ----------------------------------- */

/* Parameters that are not sliced keep the same bits in all members, although no
 * message makes them equal. */
static void whole_parameters_stay_equal(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        check_whole_parameters(group_of(models[m], 4));
}

/* ---- Asynchronous training ---------------------------------------------- */

static void asp_is_what_the_interpreter_does(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2 * VP_COUNT_OF(models); m++) {
        struct setup setup = group_of(models[m / 2], 2);

        setup.optim = m % 2 ? VP_OPTIM_LAMB : VP_OPTIM_ADAMW;
        if (setup.optim == VP_OPTIM_ADAMW || !on_gpu())
            check_asp(setup);
    }
}

/* ---- Resumption by other group sizes ------------------------------------ */

static void any_size_resumes_any_other(void **state)
{
    static const int sizes[] = { 1, 2, 4 };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < 3; k++) {
            struct setup setup = group_of(models[m], sizes[k]);
            struct vp_err err = { .text = "" };
            struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
            struct run run;
            int partition[2];

            setup.vocab = 97;
            setup.tied = k != 1;
            cut_evenly(&setup, 2, partition);
            assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
            assert_int_equal(
                vp_trainer_run(run.trainer, 2, keep_step, &run, &err), VP_OK);
            snapshot_fill(snapshot, &run);
            assert_int_equal(
                vp_trainer_run(run.trainer, 3, keep_step, &run, &err), VP_OK);
            for (int j = 0; j < 3; j++)
                snapshot_resume(setup, snapshot, sizes[j], run.losses, j == k);
            run_free(&run);
            snapshot_empty(snapshot);
            free(snapshot);
        }
}

/* ---- Priced memory ------------------------------------------------------ */

static void memory_is_what_was_priced(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        check_memory(group_of("gpt2", members_of[k]));
}

/* ---- Lost members ------------------------------------------------------- */

static void a_lost_member_is_named(void **state)
{
    static const struct accident accidents[] = {
        { 1, VP_ACTION_F, VP_FAULT_STALL }, { 2, VP_ACTION_F, VP_FAULT_STALL },
        { 3, VP_ACTION_B, VP_FAULT_STALL }, { 0, VP_ACTION_B, VP_FAULT_STALL },
        { 1, VP_ACTION_B, VP_FAULT_ERROR }, { 3, VP_ACTION_F, VP_FAULT_ERROR },
    };

    static const char *const places[] = { "group_", "cross_entropy" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(accidents); i++)
        check_accident(group_of("gpt2", 2), accidents[i], places,
                       VP_COUNT_OF(places));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_cut_as_drawn),
        cmocka_unit_test(whole_shapes_do_not_depend_on_members),
        cmocka_unit_test(heads_must_divide),
        cmocka_unit_test(same_bits_however_it_is_cut),
        cmocka_unit_test(replicas_of_groups_give_the_same_bits),
        cmocka_unit_test(bf16_gives_the_same_bits),
        cmocka_unit_test(numbers_are_those_of_one_rank),
        cmocka_unit_test(numbers_are_those_of_the_cpu),
        cmocka_unit_test(evaluations_count_the_same_ranks),
        cmocka_unit_test(whole_parameters_stay_equal),
        cmocka_unit_test(asp_is_what_the_interpreter_does),
        cmocka_unit_test(any_size_resumes_any_other),
        cmocka_unit_test(memory_is_what_was_priced),
        cmocka_unit_test(a_lost_member_is_named),
    };

    return run_part(tests, VP_COUNT_OF(tests));
}
