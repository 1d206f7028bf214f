/* Graphs have the right shapes, FLOPs, blocks and lines, and refuse arguments
 * that do not fit. */
#include "graph/graph.h"
#include "graph/opdef.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static vp_par weight(struct vp_graph *g, int64_t rows, int64_t cols)
{
    return vp_graph_param(g, "w", rows, cols, VP_INIT_NORMAL, 1.0f);
}

/* tokens -> embed -> linear+gelu -> linear -> loss, 2 x 3 tokens, 4 wide */
static void small_graph(struct vp_graph *g)
{
    vp_val ids, labels, x;

    vp_graph_init(g, 2);
    ids = vp_graph_input(g, VP_ROLE_TOKENS, "tokens", 6);
    labels = vp_graph_input(g, VP_ROLE_LABELS, "labels", 6);
    vp_graph_block(g, "embed");
    vp_graph_line(g);
    vp_graph_line(g);
    x = vp_embed(g, ids, VP_NONE, weight(g, 11, 4), weight(g, 5, 4), VP_NONE,
                 1.0f, -1);
    vp_graph_block(g, "head");
    vp_graph_line(g);
    x = vp_linear(g, x, weight(g, 7, 4), weight(g, 1, 7), VP_ACT_GELU_ERF);
    vp_graph_line(g);
    x = vp_linear(g, x, weight(g, 11, 7), VP_NONE, VP_ACT_NONE);
    vp_cross_entropy(g, x, labels, VP_NONE, 0.0f);
}

static void shapes_and_counts(void **state)
{
    struct vp_graph g;
    const struct vp_op *gelu;

    (void)state;
    small_graph(&g);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    assert_int_equal(g.n_blocks, 2);
    assert_int_equal(g.n_lines, 4);
    assert_int_equal(g.blocks[1].first_line, 2);
    assert_int_equal(g.blocks[1].n_lines, 2);
    assert_int_equal(g.blocks[1].n_ops, 3);
    assert_int_equal(vp_graph_param_count(&g),
                     11 * 4 + 5 * 4 + 7 * 4 + 7 + 11 * 7);
    gelu = &g.ops[1];
    assert_int_equal(g.values[gelu->out].rows, 6);
    assert_int_equal(g.values[gelu->out].cols, 7);
    assert_int_equal(g.values[gelu->aux[0]].cols, 7);
    assert_int_equal(gelu->line, 2);
    assert_true(vp_op_has_dz(gelu));
    /* 2 * rows * in * out for F, B and W of both products */
    assert_true(vp_graph_flops(&g, 0, 2) == 3.0 * 2 * 6 * (4 * 7 + 7 * 11));
    assert_true(vp_graph_flops(&g, 0, 1) == 0.0);
    assert_int_equal(g.logits, g.ops[2].out);
    vp_graph_release(&g);
}

static void attention_counts(void **state)
{
    struct vp_graph g;
    vp_val ids, mask, x;

    (void)state;
    vp_graph_init(&g, 2);
    ids = vp_graph_input(&g, VP_ROLE_TOKENS, "tokens", 10);
    mask = vp_graph_input(&g, VP_ROLE_MASK, "mask", 10);
    vp_graph_block(&g, "a");
    vp_graph_line(&g);
    x = vp_embed(&g, ids, VP_NONE, weight(&g, 9, 24), VP_NONE, VP_NONE, 1.0f,
                 -1);
    vp_attention(&g, x, VP_NONE, mask, 2, true, 0.0f);
    assert_int_equal(g.status, VP_OK);
    assert_int_equal(g.ops[1].attr.q_len, 5);
    assert_int_equal(g.ops[1].attr.k_len, 5);
    assert_true(g.ops[1].attr.scale == 0.5f); /* head size 4 */
    assert_int_equal(g.values[g.ops[1].out].cols, 8);
    /* two products of 2 * B * S * S * H, halved by the causal mask */
    assert_true(vp_op_flops(&g, &g.ops[1], VP_PHASE_F) ==
                0.5 * 2 * 2 * 2 * 5 * 5 * 8);
    assert_true(vp_op_flops(&g, &g.ops[1], VP_PHASE_B) ==
                0.5 * 5 * 2 * 2 * 5 * 5 * 8);
    vp_graph_release(&g);
}

/* ---- Refusals ----------------------------------------------------------- */

struct bad {
    const char *want;
    void (*build)(struct vp_graph *g, vp_val ids, vp_val x);
};

static void bad_linear(struct vp_graph *g, vp_val ids, vp_val x)
{
    (void)ids;
    vp_linear(g, x, weight(g, 3, 5), VP_NONE, VP_ACT_NONE);
}

static void bad_bias(struct vp_graph *g, vp_val ids, vp_val x)
{
    (void)ids;
    vp_linear(g, x, weight(g, 3, 4), weight(g, 1, 4), VP_ACT_NONE);
}

static void bad_norm(struct vp_graph *g, vp_val ids, vp_val x)
{
    (void)ids;
    vp_layernorm(g, x, weight(g, 1, 4), weight(g, 1, 3), 1e-5f);
}

static void bad_heads(struct vp_graph *g, vp_val ids, vp_val x)
{
    vp_val qkv = vp_linear(g, x, weight(g, 12, 4), VP_NONE, VP_ACT_NONE);

    (void)ids;
    vp_attention(g, qkv, VP_NONE, VP_NONE, 3, false, 0.0f);
}

static void bad_add(struct vp_graph *g, vp_val ids, vp_val x)
{
    vp_val y = vp_linear(g, x, weight(g, 5, 4), VP_NONE, VP_ACT_NONE);

    (void)ids;
    vp_add(g, y, x);
}

static void bad_positions(struct vp_graph *g, vp_val ids, vp_val x)
{
    (void)x;
    vp_embed(g, ids, VP_NONE, weight(g, 9, 4), weight(g, 2, 4), VP_NONE, 1.0f,
             -1);
}

static void bad_dropout(struct vp_graph *g, vp_val ids, vp_val x)
{
    (void)ids;
    vp_dropout(g, x, 1.0f);
}

static void bad_labels(struct vp_graph *g, vp_val ids, vp_val x)
{
    vp_val labels = vp_graph_input(g, VP_ROLE_LABELS, "labels", 5);

    (void)ids;
    vp_cross_entropy(g, x, labels, VP_NONE, 0.0f);
}

static void no_loss(struct vp_graph *g, vp_val ids, vp_val x)
{
    (void)ids;
    vp_scale(g, x, 2.0f);
}

static void twice_used(struct vp_graph *g, vp_val ids, vp_val x)
{
    vp_par w = weight(g, 4, 4);

    x = vp_linear(g, x, w, VP_NONE, VP_ACT_NONE);
    x = vp_linear(g, x, w, VP_NONE, VP_ACT_NONE);
    vp_cross_entropy(g, x, ids, VP_NONE, 0.0f);
}

static void mistakes_are_named(void **state)
{
    static const struct bad cases[] = {
        { "linear: weight does not fit", bad_linear },
        { "linear: bias does not fit", bad_bias },
        { "layernorm: gamma and beta", bad_norm },
        { "heads do not divide the hidden size", bad_heads },
        { "add: the inputs differ in shape", bad_add },
        { "the position table is shorter than a sequence", bad_positions },
        { "dropout: the dropout probability is not in 0 .. 1", bad_dropout },
        { "labels do not match the logits", bad_labels },
        { "the last operator must be the loss", no_loss },
        { "a parameter must be used exactly once", twice_used },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_graph g;
        struct vp_err err = { .text = "" };
        vp_val ids, x;

        vp_graph_init(&g, 2);
        ids = vp_graph_input(&g, VP_ROLE_TOKENS, "tokens", 6);
        vp_graph_block(&g, "block");
        vp_graph_line(&g);
        x = vp_embed(&g, ids, VP_NONE, weight(&g, 9, 4), VP_NONE, VP_NONE, 1.0f,
                     -1);
        cases[i].build(&g, ids, x);
        assert_int_equal(vp_graph_finish(&g, &err), VP_ERR_INVALID);
        if (!strstr(err.text, cases[i].want))
            fail_msg("wanted '%s', got '%s'", cases[i].want, err.text);
        vp_graph_release(&g);
    }
}

/* vp_graph_finish() reports the first mistake, not a later one. */
static void first_mistake_sticks(void **state)
{
    struct vp_graph g;
    struct vp_err err;
    vp_val ids, x;

    (void)state;
    vp_graph_init(&g, 2);
    ids = vp_graph_input(&g, VP_ROLE_TOKENS, "tokens", 6);
    vp_graph_block(&g, "block");
    vp_graph_line(&g);
    x = vp_linear(&g, ids, weight(&g, 3, 1), VP_NONE, VP_ACT_NONE);
    x = vp_dropout(&g, x, 0.5f);
    x = vp_add(&g, x, x);
    vp_cross_entropy(&g, x, ids, VP_NONE, 0.0f);
    assert_int_equal(vp_graph_finish(&g, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "linear"));
    vp_graph_release(&g);
}

/* Builds a block of `n_ops` operators, followed by the block of the loss. */
static enum vp_status finish_long_block(int n_ops, struct vp_err *err)
{
    struct vp_graph g;
    enum vp_status st;
    vp_val ids, x;

    vp_graph_init(&g, 2);
    ids = vp_graph_input(&g, VP_ROLE_TOKENS, "tokens", 6);
    vp_graph_block(&g, "long");
    vp_graph_line(&g);
    x = vp_embed(&g, ids, VP_NONE, weight(&g, 9, 4), VP_NONE, VP_NONE, 1.0f,
                 -1);
    for (int i = 1; i < n_ops; i++)
        x = vp_scale(&g, x, 0.5f);
    vp_graph_block(&g, "head");
    vp_graph_line(&g);
    vp_cross_entropy(&g, x, ids, VP_NONE, 0.0f);
    st = vp_graph_finish(&g, err);
    vp_graph_release(&g);
    return st;
}

static void a_block_has_64_operators_at_most(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(finish_long_block(64, &err), VP_OK);
    assert_int_equal(finish_long_block(65, &err), VP_ERR_INVALID);
    assert_string_equal(err.text, "model graph, long: a block has more than 64 "
                                  "operators; cut it in two");
}

/* Values that are read by one operator, by two, twice by the same one, and by
 * none. */
static void readers_are_found(void **state)
{
    struct vp_graph g;
    vp_val ids, x, y, twice, end;

    (void)state;
    vp_graph_init(&g, 2);
    ids = vp_graph_input(&g, VP_ROLE_TOKENS, "tokens", 6);
    vp_graph_block(&g, "block");
    vp_graph_line(&g);
    x = vp_embed(&g, ids, VP_NONE, weight(&g, 11, 4), weight(&g, 5, 4), VP_NONE,
                 1.0f, -1);
    y = vp_linear(&g, x, weight(&g, 4, 4), VP_NONE, VP_ACT_NONE);
    twice = vp_add(&g, y, x);
    end = vp_add(&g, twice, twice);
    assert_int_equal(g.status, VP_OK);
    assert_ptr_equal(vp_graph_reader(&g, ids), &g.ops[0]);
    assert_null(vp_graph_reader(&g, x));
    assert_ptr_equal(vp_graph_reader(&g, y), &g.ops[2]);
    assert_null(vp_graph_reader(&g, twice));
    assert_null(vp_graph_reader(&g, end));
    vp_graph_release(&g);
}

static void check_range(const struct vp_graph *g, enum vp_role role,
                        int32_t first, int64_t limit)
{
    struct vp_input_range range;

    assert_true(vp_graph_input_range(g, role, &range));
    assert_int_equal(range.first, first);
    assert_int_equal(range.limit, limit);
}

/* With tensor-parallel groups, ids and labels range over the whole vocabulary,
 * although each member has a slice of it. */
static void ranges_of_a_group(void **state)
{
    struct vp_input_range range;
    struct vp_graph g;
    vp_val ids, labels, x;
    vp_par table, head;

    (void)state;
    vp_graph_init(&g, 2);
    g.n_members = 2;
    ids = vp_graph_input(&g, VP_ROLE_TOKENS, "tokens", 6);
    labels = vp_graph_input(&g, VP_ROLE_LABELS, "labels", 6);
    vp_graph_block(&g, "block");
    vp_graph_line(&g);
    table = weight(&g, 11, 4);
    vp_graph_slice(&g, table, VP_SLICE_ROWS, 1, true);
    head = weight(&g, 11, 4);
    vp_graph_slice(&g, head, VP_SLICE_ROWS, 1, true);
    x = vp_embed(&g, ids, VP_NONE, table, VP_NONE, VP_NONE, 1.0f, -1);
    x = vp_group_sum(&g, x, VP_NONE);
    x = vp_linear(&g, x, head, VP_NONE, VP_ACT_NONE);
    vp_cross_entropy(&g, x, labels, VP_NONE, 0.0f);
    assert_int_equal(g.status, VP_OK);
    check_range(&g, VP_ROLE_TOKENS, 0, 11);
    check_range(&g, VP_ROLE_LABELS, -1, 11);
    assert_false(vp_graph_input_range(&g, VP_ROLE_MASK, &range));
    vp_graph_release(&g);
}

/* Positions that are given as an input must be rows of the position table, or
 * -1. */
static void ranges_of_given_positions(void **state)
{
    struct vp_graph g;
    vp_val ids, at;

    (void)state;
    vp_graph_init(&g, 2);
    g.outputs = VP_OUTPUT_LOGITS;
    ids = vp_graph_input(&g, VP_ROLE_TOKENS, "tokens", 6);
    at = vp_graph_input(&g, VP_ROLE_POSITIONS, "positions", 6);
    vp_graph_block(&g, "block");
    vp_graph_line(&g);
    vp_embed_at(&g, ids, at, weight(&g, 11, 4), weight(&g, 5, 4), 1.0f, -1);
    assert_int_equal(g.status, VP_OK);
    check_range(&g, VP_ROLE_TOKENS, 0, 11);
    check_range(&g, VP_ROLE_POSITIONS, -1, 5);
    vp_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_are_found),
        cmocka_unit_test(shapes_and_counts),
        cmocka_unit_test(attention_counts),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(first_mistake_sticks),
        cmocka_unit_test(a_block_has_64_operators_at_most),
        cmocka_unit_test(ranges_of_a_group),
        cmocka_unit_test(ranges_of_given_positions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
