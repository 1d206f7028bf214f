/* Slices of rows: with `sequence_parallel`, a member of a tensor-parallel group
 * has only some rows of the values between two sums. Training gives the same
 * bits for all partitions, schedules, recomputation, threads and resumption,
 * the losses of one rank up to rounding, needs fewer bytes, and allocates the
 * priced bytes. */
#include "lib/pipelinelib.h"
#include "lib/tensorlib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A sequence of odd length makes the last slices end in padding. */
static struct setup slices_of(const char *model, int members)
{
    struct setup setup = group_of(model, members);

    setup.sequence_parallel = true;
    setup.vocab = 97;
    return setup;
}

static struct setup odd_slices_of(const char *model, int members)
{
    struct setup setup = slices_of(model, members);

    setup.batch = 3;
    setup.shorter = 1;
    return setup;
}

/* ---- Slices in the graph ------------------------------------------------ */

static void build(struct vp_graph *graph, const char *model,
                  const struct setup *setup, struct vp_dims dims)
{
    struct vp_model_config sizes = small_sizes(setup);
    struct vp_err err = { .text = "" };

    if (vp_model_build(vp_model_find(model), &sizes, &dims, graph, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
}

/* Between sums all values are slices. A value that crosses a cut is a slice or
 * a model input. */
static void values_between_sums_are_slices(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = slices_of(models[m], 4);
        struct vp_dims dims = { 3, 19, m == 2 ? 19 : 0, m == 0 ? 10 : 0 };
        struct vp_graph graph;
        int n_kinds[VP_OP_KIND_COUNT] = { 0 };

        build(&graph, models[m], &setup, dims);
        for (int i = 0; i < graph.n_ops; i++) {
            const struct vp_op *op = &graph.ops[i];
            const struct vp_value *out = &graph.values[op->out];

            n_kinds[op->kind]++;
            if (op->kind == VP_OP_LAYERNORM || op->kind == VP_OP_ADD) {
                assert_int_equal(out->spread, VP_SPREAD_ROWS);
                assert_int_equal(out->rows, (out->whole_rows + 3) / 4);
            }
            if (op->kind == VP_OP_ALL_GATHER)
                assert_int_equal(out->rows, out->whole_rows);
        }
        assert_int_equal(n_kinds[VP_OP_GROUP_SUM], 0);
        assert_true(n_kinds[VP_OP_REDUCE_SCATTER] > 4);
        assert_true(n_kinds[VP_OP_ALL_GATHER] > 4);
        for (int b = 1; b < graph.n_blocks; b++)
            for (vp_val v = 0; v < graph.n_values; v++)
                if (graph.values[v].producer != VP_NONE &&
                    graph.values[v].producer < graph.blocks[b].first_op &&
                    graph.values[v].last_reader >= graph.blocks[b].first_op)
                    assert_int_equal(graph.values[v].spread, VP_SPREAD_ROWS);
        vp_graph_release(&graph);
    }
}

/* A member has a partial gradient only of parameters that it applies to slices.
 * Parameters and random streams are those of one rank. */
static void gradients_of_slices_are_parts(void **state)
{
    struct setup setup = slices_of("bert", 2), alone = group_of("bert", 1);
    struct vp_dims dims = { 4, 20, 0, 16 };
    struct vp_graph graph, one;

    (void)state;
    alone.vocab = setup.vocab;
    build(&graph, "bert", &setup, dims);
    build(&one, "bert", &alone, dims);
    assert_int_equal(graph.n_params, one.n_params);
    assert_int_equal(graph.n_streams, one.n_streams);
    for (vp_par par = 0; par < graph.n_params; par++) {
        const struct vp_param *param = &graph.params[par];
        const char *name = param->part[0].name;
        bool part = strstr(name, "LayerNorm") || strstr(name, "transform") ||
                    strstr(name, "output.dense.bias");

        assert_int_equal(param->partial_grad, part);
        assert_int_equal(one.params[par].partial_grad, false);
        if (part)
            assert_int_equal(param->slice.axis, VP_SLICE_NONE);
    }
    vp_graph_release(&graph);
    vp_graph_release(&one);
}

/* A graph of one block with a partial value [10, 8], its slice and its gathered
 * rows. */
struct sketch {
    struct vp_graph graph;
    vp_val ids, part, slice, gathered;
};

static void begin_sketch(struct sketch *s)
{
    vp_par table;

    vp_graph_init(&s->graph, 2);
    s->graph.n_members = 4;
    s->graph.sequence_parallel = true;
    vp_graph_block(&s->graph, "sketch");
    vp_graph_line(&s->graph);
    s->ids = vp_graph_input(&s->graph, VP_ROLE_TOKENS, "ids", 10);
    table = vp_graph_param(&s->graph, "table", 12, 8, VP_INIT_ZERO, 0.0f);
    vp_graph_slice(&s->graph, table, VP_SLICE_ROWS, 1, true);
    s->part = vp_embed(&s->graph, s->ids, VP_NONE, table, VP_NONE, VP_NONE,
                       1.0f, -1);
    s->slice = vp_group_sum(&s->graph, s->part, VP_NONE);
    s->gathered = vp_all_gather(&s->graph, s->slice);
    assert_int_equal(s->graph.status, VP_OK);
    assert_int_equal(s->graph.values[s->slice].rows, 3);
    assert_int_equal(s->graph.values[s->slice].whole_rows, 10);
    assert_int_equal(s->graph.values[s->gathered].rows, 10);
}

static void end_sketch(struct sketch *s, const char *why)
{
    assert_int_equal(s->graph.status, VP_ERR_INVALID);
    if (!strstr(s->graph.err.text, why))
        fail_msg("'%s' does not say '%s'", s->graph.err.text, why);
    vp_graph_release(&s->graph);
}

static void mistakes_of_builders_are_refused(void **state)
{
    struct sketch s;
    vp_par a, b;

    (void)state;
    begin_sketch(&s);
    vp_dropout(&s.graph, s.gathered, 0.1f);
    end_sketch(&s, "dropout: must come before the rows are gathered");

    begin_sketch(&s);
    vp_add(&s.graph, s.gathered, s.gathered);
    end_sketch(&s, "add: needs whole rows, of the same slice");

    begin_sketch(&s);
    a = vp_graph_param(&s.graph, "a", 1, 8, VP_INIT_ONE, 0.0f);
    b = vp_graph_param(&s.graph, "b", 1, 8, VP_INIT_ONE, 0.0f);
    vp_layernorm(&s.graph, s.gathered, a, b, 1e-5f);
    end_sketch(&s, "layernorm: needs whole rows");

    begin_sketch(&s); /* an all-gather is missing before a weight cut by rows */
    a = vp_graph_param(&s.graph, "a", 8, 8, VP_INIT_ONE, 0.0f);
    vp_graph_slice(&s.graph, a, VP_SLICE_ROWS, 1, false);
    vp_linear(&s.graph, s.slice, a, VP_NONE, VP_ACT_NONE);
    end_sketch(&s, "linear: weight and input are not cut alike");

    begin_sketch(&s); /* the gradient of a whole weight would need a sum */
    a = vp_graph_param(&s.graph, "a", 8, 8, VP_INIT_ONE, 0.0f);
    vp_linear(&s.graph, s.gathered, a, VP_NONE, VP_ACT_NONE);
    end_sketch(&s, "linear: weight and input are not cut alike");

    begin_sketch(&s);
    vp_cross_entropy(&s.graph, s.slice,
                     vp_graph_input(&s.graph, VP_ROLE_LABELS, "labels", 3),
                     VP_NONE, 0.0f);
    end_sketch(&s, "cross_entropy: needs all rows");

    begin_sketch(&s);
    vp_attention(&s.graph, s.slice, VP_NONE, VP_NONE, 1, false, 0.0f);
    end_sketch(&s, "attention: query, key and value");
}

/* ---- The same bits for all plans ---------------------------------------- */

static const struct variant variants[] = {
    { "1f1b", 2, 1, 1, 0.0, 0.0, false, false },
    { "1f1b", 3, 1, 3, 0.5, 0.0, false, false },
    { "gpipe", 2, 1, 2, 1.0, 0.0, true, false },
    { "gpipe", 3, 1, 1, 1.0, 0.0, false, true },
    { "zb-h1", 2, 1, 1, 0.0, 0.5, false, false },
    { "interleaved", 2, 2, 1, 0.3, 0.0, false, false },
};

static void same_bits_however_it_is_cut(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < 2; k++) {
            struct setup setup = odd_slices_of(models[m], members_of[k]);

            setup.eval = true;
            setup.n_steps = 2;
            setup.accumulation = 4;
            setup.grad_clip = 0.5f;
            setup.tied = (m + (size_t)k) % 2 == 0;
            check_same_bits(setup, variants, VP_COUNT_OF(variants),
                            m + (size_t)k);
        }
}

/* Recomputes random sets: also a sum without the product before it, or a
 * product without the all-gather. */
static void same_bits_whatever_is_recomputed(void **state)
{
    (void)state;
    srand(5);
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = odd_slices_of(models[m], 2);
        uint64_t sets[64];
        struct run one, other;
        int partition[2];

        setup.n_steps = 2;
        train(&one, &setup);
        cut_evenly(&setup, 2, partition);
        setup.sets = sets;
        for (int trial = 0; trial < 6; trial++) {
            struct vp_graph graph;

            build(&graph, models[m], &setup,
                  (struct vp_dims){ 3, 19, m == 2 ? 19 : 0, m == 0 ? 12 : 0 });
            for (int b = 0; b < graph.n_blocks; b++)
                sets[b] = ((uint64_t)rand() ^ (uint64_t)rand() << 20) &
                          ((UINT64_C(1) << graph.blocks[b].n_ops) - 1);
            vp_graph_release(&graph);
            setup.in_backward = trial % 2;
            setup.keep_all = trial == 2;
            setup.keep_gathered = trial == 3 || trial == 5;
            setup.schedule = trial > 3 ? "zb-h1" : "1f1b";
            setup.w_recomputed = trial == 4;
            train(&other, &setup);
            assert_same(&one, &other, setup.n_steps);
        }
    }
}

static void replicas_of_groups_give_the_same_bits(void **state)
{
    (void)state;
    check_replicas(odd_slices_of("gpt2", 2));
}

static void bf16_gives_the_same_bits(void **state)
{
    struct setup setup = odd_slices_of("gpt2", 2);
    struct run one, other, plain;
    int partition[2];

    (void)state;
    setup.dtype = VP_DTYPE_BF16;
    train(&one, &setup);
    cut_evenly(&setup, 2, partition);
    setup.recompute = 0.7;
    train(&other, &setup);
    assert_same(&one, &other, setup.n_steps);
    setup.sequence_parallel = false;
    train(&plain, &setup);
    for (int i = 0; i < setup.n_steps; i++)
        assert_true(fabs(one.losses[i] - plain.losses[i]) <=
                    2e-3 * plain.losses[i]);
}

/* The plain-C kernels are a second implementation of the same operators. */
static void twins_give_the_same_numbers(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = odd_slices_of(models[m], 2);
        struct run fast, twin;

        setup.n_steps = 2;
        train(&fast, &setup);
        setup.reference = true;
        train(&twin, &setup);
        for (int i = 0; i < setup.n_steps; i++) {
            assert_true(fabs(fast.losses[i] - twin.losses[i]) <=
                        1e-5 * twin.losses[i]);
            assert_true(fabs(fast.norms[i] - twin.norms[i]) <=
                        1e-4 * twin.norms[i]);
        }
    }
}

/* ---- Comparison with one rank ------------------------------------------- */

static void numbers_are_those_of_one_rank(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < 2; k++)
            for (int odd = 0; odd < 2; odd++) {
                struct setup setup = odd ? odd_slices_of(models[m],
                                                         members_of[k])
                                         : slices_of(models[m], members_of[k]);

                setup.n_steps = N_LOSSES;
                setup.tied = odd;
                setup.eval = true;
                setup.grad_clip = 0.5f;
                check_numbers(setup);
            }
}

/* With fewer rows than members, some members have only padding. */
static void members_without_rows(void **state)
{
    struct setup setup = slices_of("gpt2", 4);

    (void)state;
    setup.batch = 1;
    setup.shorter = 18;
    setup.n_steps = 4;
    check_numbers(setup);
}

/* Parameters that all members have stay equal, because their gradients are sums
 * over the members. */
static void whole_parameters_stay_equal(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        check_whole_parameters(odd_slices_of(models[m], 4));
}

static void asp_is_what_the_interpreter_does(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        check_asp(odd_slices_of(models[m], 2));
}

/* ---- Resumption --------------------------------------------------------- */

/* A state that was saved with slices of rows can be resumed without them, and
 * vice versa. */
static void with_resumes_without(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int with = 0; with < 2; with++) {
            struct setup setup = odd_slices_of(models[m], 2);
            struct vp_err err = { .text = "" };
            struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
            struct run run;
            int partition[2];

            setup.sequence_parallel = with;
            cut_evenly(&setup, 2, partition);
            assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
            assert_int_equal(
                vp_trainer_run(run.trainer, 2, keep_step, &run, &err), VP_OK);
            snapshot_fill(snapshot, &run);
            assert_int_equal(
                vp_trainer_run(run.trainer, 3, keep_step, &run, &err), VP_OK);
            for (int again = 0; again < 2; again++) {
                setup.sequence_parallel = again;
                snapshot_resume(setup, snapshot, 2, run.losses, again == with);
                snapshot_resume(setup, snapshot, 4, run.losses, false);
            }
            setup.sequence_parallel = false;
            snapshot_resume(setup, snapshot, 1, run.losses, false);
            run_free(&run);
            snapshot_empty(snapshot);
            free(snapshot);
        }
}

/* ---- Bytes and memory --------------------------------------------------- */

static struct vp_stage_price price_of(struct setup setup, int stage)
{
    struct vp_err err = { .text = "" };
    struct vp_stage_price price;
    struct run run;
    int partition[2];

    cut_evenly(&setup, 2, partition);
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    price = vp_trainer_prices(run.trainer)[stage];
    run_free(&run);
    return price;
}

static void memory_is_what_was_priced(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < 2; k++) {
            struct setup setup = odd_slices_of(models[m], members_of[k]);

            check_memory(setup);
            setup.dtype = VP_DTYPE_BF16;
            setup.schedule = "zb-h1";
            check_memory(setup);
            setup.keep_gathered = true;
            check_memory(setup);
        }
}

/* Gradients at a cut have 1/n of the bytes, and values except labels as well.
 * Gathered rows are not kept by default, which saves activations; keep_gathered
 * keeps them. */
static void slices_save_bytes(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct setup setup = slices_of("gpt2", members_of[k]);
        struct vp_stage_price with, kept, without;
        int64_t din = price_of(setup, 1).grad_bytes;

        with = price_of(setup, 0);
        setup.keep_gathered = true;
        kept = price_of(setup, 0);
        setup.keep_gathered = false;
        setup.sequence_parallel = false;
        without = price_of(setup, 0);
        assert_int_equal(din * members_of[k], price_of(setup, 1).grad_bytes);
        assert_true(with.act_bytes < without.act_bytes);
        assert_true(with.memory.activations < without.memory.activations);
        assert_true(with.memory.activations < kept.memory.activations);
        assert_true(with.memory.total < without.memory.total);
        assert_int_equal(with.memory.weights, without.memory.weights);
    }
}

/* ---- Lost members ------------------------------------------------------- */

static void a_lost_member_is_named(void **state)
{
    static const struct accident accidents[] = {
        { 1, VP_ACTION_F, VP_FAULT_STALL },
        { 3, VP_ACTION_B, VP_FAULT_STALL },
        { 0, VP_ACTION_B, VP_FAULT_ERROR },
    };
    static const char *const places[] = { "reduce_scatter", "all_gather",
                                          "cross_entropy" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(accidents); i++)
        check_accident(slices_of("gpt2", 2), accidents[i], places,
                       VP_COUNT_OF(places));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_between_sums_are_slices),
        cmocka_unit_test(gradients_of_slices_are_parts),
        cmocka_unit_test(mistakes_of_builders_are_refused),
        cmocka_unit_test(same_bits_however_it_is_cut),
        cmocka_unit_test(same_bits_whatever_is_recomputed),
        cmocka_unit_test(replicas_of_groups_give_the_same_bits),
        cmocka_unit_test(bf16_gives_the_same_bits),
        cmocka_unit_test(twins_give_the_same_numbers),
        cmocka_unit_test(numbers_are_those_of_one_rank),
        cmocka_unit_test(members_without_rows),
        cmocka_unit_test(whole_parameters_stay_equal),
        cmocka_unit_test(asp_is_what_the_interpreter_does),
        cmocka_unit_test(with_resumes_without),
        cmocka_unit_test(memory_is_what_was_priced),
        cmocka_unit_test(slices_save_bytes),
        cmocka_unit_test(a_lost_member_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
