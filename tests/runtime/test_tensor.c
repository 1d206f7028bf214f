/* Tensor-parallel ranks give the same bits for any cut, schedule and
 * recomputation, and the numbers of one rank up to rounding. */
#include "lib/literal.h"
#include "lib/pipelinelib.h"
#include "lib/tensorlib.h"
#include "runtime/trainer/internal.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_MEMBERS = 4, N_LOSSES = 10 };

/* ---- Slices ------------------------------------------------------------- */

struct slice_case {
    struct vp_param param;
    int n_members, member;
    float want[12];
};

static void slices_are_cut_as_drawn(void **state)
{
    /* A part of 4 x 3 (or 5 x 2): elements count from 0. */
    static const struct slice_case cases[] = {
        { { .rows = 2, .cols = 3, .shard = { VP_SHARD_ROWS, 1, 4 } },
          2,
          1,
          { 6, 7, 8, 9, 10, 11 } },
        { { .rows = 2, .cols = 3, .shard = { VP_SHARD_ROWS, 2, 4 } },
          2,
          0,
          { 0, 1, 2, 6, 7, 8 } },
        { { .rows = 4, .cols = 1, .shard = { VP_SHARD_COLS, 1, 3 } },
          3,
          2,
          { 2, 5, 8, 11 } },
        { { .rows = 1, .cols = 6, .shard = { VP_SHARD_COLS, 3, 12 } },
          2,
          1,
          { 2, 3, 6, 7, 10, 11 } },
        /* Filled up with zeros. */
        { { .rows = 3, .cols = 2, .shard = { VP_SHARD_ROWS, 1, 5 } },
          2,
          1,
          { 6, 7, 8, 9, 0, 0 } },
        { { .rows = 2, .cols = 2, .shard = { VP_SHARD_ROWS, 1, 5 } },
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
        vp_shard_take(&param, 0, cases[c].member, cases[c].n_members, whole,
                      slice);
        for (int64_t i = 0; i < n; i++)
            assert_true(slice[i] == cases[c].want[i]);
        memset(back, 0, sizeof(back));
        for (int t = 0; t < cases[c].n_members; t++) {
            vp_shard_take(&param, 0, t, cases[c].n_members, whole, slice);
            vp_shard_put(&param, 0, t, cases[c].n_members, slice, back);
        }
        assert_memory_equal(back, whole, (size_t)n_whole * sizeof(*back));
    }
}

/* Builders name the same parameters, whatever the number of members. */
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

/* What does not divide is refused in one line. */
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

/* ---- The same bits ------------------------------------------------------ */

struct variant {
    const char *schedule;
    int n_stages, n_chunks, threads;
    double recompute, swap;
    bool early, in_backward;
};

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
            struct run one, other;

            setup.eval = true;
            setup.n_steps = 2;
            setup.accumulation = 4;
            setup.grad_clip = 0.5f;
            setup.tied = (m + (size_t)k) % 2 == 0;
            setup.vocab = 97;
            train(&one, &setup);
            for (size_t v = 0; v < VP_COUNT_OF(variants); v++) {
                const struct variant *with = &variants[v];
                int partition[VP_MAX_STAGES];
                double swap[VP_MAX_STAGES];
                struct setup cut = setup;

                if ((v + m + (size_t)k) % 2 != 0)
                    continue; /* each with half of the models */
                cut_evenly(&cut, with->n_stages * with->n_chunks, partition);
                for (int s = 0; s < VP_MAX_STAGES; s++)
                    swap[s] = with->swap;
                cut.n_stages = with->n_stages;
                cut.n_chunks = with->n_chunks;
                cut.schedule = with->schedule;
                cut.threads = with->threads;
                cut.recompute = with->recompute;
                cut.swap_ratios = with->swap > 0.0 ? swap : NULL;
                cut.early = with->early;
                cut.in_backward = with->in_backward;
                train(&other, &cut);
                assert_same(&one, &other, setup.n_steps);
            }
        }
}

static void replicas_of_groups_give_the_same_bits(void **state)
{
    static const int replicas[] = { 2, 1, 2 };
    struct setup setup = group_of("gpt2", 2);
    struct run one, other;
    int partition[3];

    (void)state;
    setup.accumulation = 4;
    cut_evenly(&setup, 3, partition);
    setup.replicas = replicas;
    train(&one, &setup);
    setup.schedule = "gpipe";
    setup.threads = 2;
    setup.bundle_bytes = 4096;
    train(&other, &setup);
    assert_same(&one, &other, setup.n_steps);
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

/* Steps so large that the weights after one are the gradients, but for a factor. */
static void compare_gradients(const struct setup *setup)
{
    struct setup step = *setup;
    struct run one, group, start;
    struct vp_err err = { .text = "" };

    step.optim = VP_OPTIM_SGD;
    step.lr = 1024.0f;
    step.n_steps = 1;
    step.members = 1;
    assert_int_equal(run_create(&start, &step, 0, &err), VP_OK);
    assert_int_equal(run_create(&one, &step, 0, &err), VP_OK);
    step.members = setup->members;
    assert_int_equal(run_create(&group, &step, 0, &err), VP_OK);
    assert_int_equal(vp_trainer_run(one.trainer, 1, keep_step, &one, &err),
                     VP_OK);
    assert_int_equal(vp_trainer_run(group.trainer, 1, keep_step, &group, &err),
                     VP_OK);
    for (vp_par par = 0; par < one.graphs[0].n_params; par++) {
        const struct vp_param *param = &one.graphs[0].params[par];
        int64_t n = count_weights(&one, par);
        float *w0 = trainer_weights(&start, par, 0);
        float *a = trainer_weights(&one, par, 0);
        float *b = trainer_weights(&group, par, 0);

        if (!param->constant && !has_key_bias(param) &&
            distance(a, b, n) > 1e-5 * distance(a, w0, n))
            fail_msg("%s, %d members: gradient of %s differs by %g of %g",
                     setup->model, setup->members, param->part[0].name,
                     distance(a, b, n), distance(a, w0, n));
        free(w0);
        free(a);
        free(b);
    }
    run_free(&start);
    run_free(&one);
    run_free(&group);
}

/* A dropout mask that differs in one bit would show here. */
static void numbers_are_those_of_one_rank(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < 2; k++)
            for (int tied = 0; tied < 2; tied++) {
                struct setup setup = group_of(models[m], 1);
                struct run one, group;

                setup.n_steps = N_LOSSES;
                setup.tied = tied;
                setup.eval = true;
                setup.vocab = 97; /* the last slice is filled up */
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
                compare_gradients(&setup);
            }
}

/* Ids before the label are counted over all slices. */
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

/* ---- What all members have ---------------------------------------------- */

/* Layer norms, biases after sums, positions: the same bits in all members, though
 * nothing makes them equal. */
static void whole_parameters_stay_equal(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = group_of(models[m], 4);
        struct vp_err err = { .text = "" };
        int partition[2], n_compared = 0;
        struct run run;

        cut_evenly(&setup, 2, partition);
        assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
        assert_int_equal(vp_trainer_run(run.trainer, 3, keep_step, &run, &err),
                         VP_OK);
        for (int r = 0; r < run.trainer->pipeline.n_ranks; r++) {
            const struct vp_rank *rank = &run.trainer->ranks[r];
            const struct vp_stage *first =
                &run.trainer->ranks[r - rank->member].stages[0].stage;
            const struct vp_stage *mine = &rank->stages[0].stage;

            for (int i = 0; i < mine->n_tensors; i++) {
                const struct vp_optim_tensor *t = &mine->tensors[i];

                if (mine->tensor_params[i]->shard.axis != VP_SHARD_NONE)
                    continue;
                assert_memory_equal(
                    (float *)vp_stage_weights(mine, mine->newest) + t->offset,
                    (float *)vp_stage_weights(first, first->newest) + t->offset,
                    (size_t)t->n * sizeof(float));
                n_compared++;
            }
        }
        assert_true(n_compared > 8);
        run_free(&run);
    }
}

/* ---- asp ---------------------------------------------------------------- */

/* Members of an interpreter, which add by themselves. */
struct ring {
    pthread_barrier_t barrier;
    int n;
    const void *given[MAX_MEMBERS];
};

struct seat {
    struct ring *ring;
    int me;
};

static void ring_sum(void *ctx, const struct vp_op *op, float *data, int64_t n)
{
    struct seat *seat = ctx;
    struct ring *ring = seat->ring;
    float *sum = calloc((size_t)n, sizeof(*sum));

    (void)op;
    ring->given[seat->me] = data;
    pthread_barrier_wait(&ring->barrier);
    for (int64_t i = 0; i < n; i++) {
        sum[i] = ((const float *)ring->given[0])[i];
        for (int k = 1; k < ring->n; k++)
            sum[i] += ((const float *)ring->given[k])[i];
    }
    pthread_barrier_wait(&ring->barrier);
    memcpy(data, sum, (size_t)n * sizeof(*sum));
    free(sum);
}

static void ring_exchange(void *ctx, const struct vp_op *op, const void *mine,
                          size_t n_bytes, void *all)
{
    struct seat *seat = ctx;
    struct ring *ring = seat->ring;

    (void)op;
    ring->given[seat->me] = mine;
    pthread_barrier_wait(&ring->barrier);
    for (int k = 0; k < ring->n; k++)
        memcpy((char *)all + (size_t)k * n_bytes, ring->given[k], n_bytes);
    pthread_barrier_wait(&ring->barrier);
}

static enum vp_status ring_status(void *ctx)
{
    (void)ctx;
    return VP_OK;
}

struct reader {
    pthread_t thread;
    struct seat seat;
    struct vp_members members;
    const struct async_case *how;
    const struct run *run;
    const int *partition;
    struct literal lit;
    double losses[MAX_STEPS], norms[MAX_STEPS];
};

static void *read_literally(void *arg)
{
    struct reader *reader = arg;

    literal_open_member(&reader->lit, reader->run, &reader->run->config,
                        reader->how, reader->partition, &reader->members);
    literal_run(&reader->lit, 0, reader->run->n_steps, reader->losses,
                reader->norms);
    return NULL;
}

/* Slices of the interpreter's members, put together. */
static void compare_weights(const struct run *run, struct reader *readers,
                            int n_members, int s)
{
    const struct vp_graph *graph = &run->graphs[0];
    const struct vp_layout *layout =
        &readers[0].lit.stages[s].stage.plan.train[0].layout;

    for (int e = 0; e < layout->n_entries; e++) {
        vp_par par = layout->entries[e].par;
        const struct vp_param *param = &graph->params[par];
        int64_t n = count_weights(run, par),
                n_slice = param->rows * param->cols;
        float *got = trainer_weights(run, par, 0);
        float *want = calloc((size_t)n, sizeof(*want));
        float *slice = calloc((size_t)n_slice, sizeof(*slice));

        for (int t = 0; t < n_members; t++) {
            int64_t at = 0;

            assert_int_equal(vp_stage_get_weights(
                                 &readers[t].lit.stages[s].stage,
                                 layout->entries[e].offset / 4, n_slice, slice),
                             VP_OK);
            for (int i = 0; i < param->n_parts; i++) {
                struct vp_shape shape = vp_param_whole(param, i);

                vp_shard_put(param, i, t, n_members,
                             slice + param->part[i].row * param->cols,
                             want + at);
                at += shape.rows * shape.cols;
            }
        }
        assert_memory_equal(got, want, (size_t)n * sizeof(*want));
        free(got);
        free(want);
        free(slice);
    }
}

static void asp_is_what_the_interpreter_does(void **state)
{
    static const struct async_case how = { "pipedream", 3,
                                           { 1, 1, 1 }, { 2, 1, 0 },
                                           { 2, 1, 0 }, { 1, 1, 1 },
                                           false,       0 };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = group_of(models[m], 2);
        struct vp_err err = { .text = "" };
        struct reader *readers = calloc(2, sizeof(*readers));
        struct ring ring = { .n = 2 };
        struct run run;
        int partition[3];

        cut_evenly(&setup, 3, partition);
        setup.schedule = "pipedream";
        setup.tied = false;
        setup.accumulation = 1;
        setup.n_steps = 9;
        assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
        if (vp_trainer_run(run.trainer, setup.n_steps, keep_step, &run, &err) !=
            VP_OK)
            fail_msg("%s", err.text);
        pthread_barrier_init(&ring.barrier, NULL, 2);
        for (int t = 0; t < 2; t++) {
            readers[t] = (struct reader){ .seat = { &ring, t },
                                          .how = &how,
                                          .run = &run,
                                          .partition = partition };
            readers[t].members = (struct vp_members){
                2, t, &readers[t].seat, ring_sum, ring_exchange, ring_status
            };
            pthread_create(&readers[t].thread, NULL, read_literally,
                           &readers[t]);
        }
        for (int t = 0; t < 2; t++)
            pthread_join(readers[t].thread, NULL);
        for (int i = 0; i < setup.n_steps; i++)
            assert_memory_equal(&run.losses[i], &readers[0].losses[i],
                                sizeof(double));
        for (int s = 0; s < 3; s++)
            compare_weights(&run, readers, 2, s);
        for (int t = 0; t < 2; t++)
            literal_close(&readers[t].lit);
        pthread_barrier_destroy(&ring.barrier);
        run_free(&run);
        free(readers);
    }
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
        cmocka_unit_test(evaluations_count_the_same_ranks),
        cmocka_unit_test(whole_parameters_stay_equal),
        cmocka_unit_test(asp_is_what_the_interpreter_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
