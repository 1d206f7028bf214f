/* Lowered lists compute the gradients of the graph, by symbolic execution:
 * random graphs and cuts, several recompute ratios, split or fused weight
 * gradients, one or several minibatches in flight. Memory and layout of the
 * lists are right. */
#include "lib/list_interpreter.h"

#include <string.h>

static void every_cut_gives_the_same_gradients(void **state)
{
    static const double ratios[] = { 0.0, 0.3, 0.5, 1.0 };

    (void)state;
    for (int trial = 0; trial < 400; trial++) {
        struct vp_graph g;
        struct vp_err err;
        struct facts want = { { 0 }, { 0 } };
        int n_blocks = 3 + rand_below(8);

        random_graph(&g, n_blocks, trial % 2);
        assert_int_equal(vp_graph_finish(&g, &err), VP_OK);
        assert_true(g.n_values < MAX_VALUES && g.n_params < MAX_PARAMS);
        oracle(&g, &want);
        for (int i = 0; i < 4 * (int)VP_COUNT_OF(ratios); i++)
            check_one(
                &g, &want,
                1 + rand_below(n_blocks < MAX_STAGES ? n_blocks : MAX_STAGES),
                &(struct vp_stage_spec){ .keep_all = rand_below(2),
                                         .split_w = i % 2,
                                         .one_slot = i / 2 % 2 },
                &(struct recompute){ .ratio = ratios[i / 4] });
        vp_graph_release(&g);
    }
}

/* ---- Memory and layout -------------------------------------------------- */

/* A chain with pre-norm: embed, then n blocks of norm, linear and residual
 * add. */
static void typed_chain(struct vp_graph *g, int n, bool tied,
                        enum vp_dtype dtype)
{
    vp_val ids, labels, x, y;
    vp_par table;

    vp_graph_init(g, BATCH);
    g->dtype = dtype;
    ids = vp_graph_input(g, VP_ROLE_TOKENS, "tokens", ROWS);
    labels = vp_graph_input(g, VP_ROLE_LABELS, "labels", ROWS);
    vp_graph_block(g, "embed");
    vp_graph_line(g);
    table = weight(g, 64, 64);
    x = vp_embed(g, ids, VP_NONE, table, VP_NONE, VP_NONE, 1.0f, -1);
    for (int i = 0; i < n; i++) {
        vp_graph_block(g, "layer");
        vp_graph_line(g);
        y = vp_layernorm(g, x, weight(g, 1, 64), weight(g, 1, 64), 1e-5f);
        vp_graph_line(g);
        y = vp_linear(g, y, weight(g, 64, 64), VP_NONE, VP_ACT_NONE);
        vp_graph_line(g);
        x = vp_add(g, y, x);
    }
    vp_graph_block(g, "head");
    vp_graph_line(g);
    y = vp_linear(g, x, tied ? vp_graph_tied(g, table) : weight(g, 64, 64),
                  VP_NONE, VP_ACT_NONE);
    vp_cross_entropy(g, y, labels, VP_NONE, 0.0f);
}

static void chain_graph(struct vp_graph *g, int n, bool tied)
{
    typed_chain(g, n, tied, VP_DTYPE_F32);
}

static void lower_all(const struct vp_graph *g, double ratio,
                      struct vp_program *p)
{
    struct vp_stage_spec spec = { .n_blocks = g->n_blocks };
    uint64_t sets[MAX_SETS];
    struct vp_err err;

    set_tail(g, ratio, &spec, sets);
    assert_int_equal(vp_program_lower(g, &spec, NULL, NULL, p, &err), VP_OK);
}

static int64_t work_of_chain(int n_layers, int w_linger)
{
    struct vp_stage_spec spec = { .w_linger = w_linger };
    struct vp_graph g;
    struct vp_program p;
    struct vp_err err;
    int64_t work;

    chain_graph(&g, n_layers, false);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    spec.n_blocks = g.n_blocks;
    assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err), VP_OK);
    work = p.n_bytes[VP_SPACE_WORK];
    vp_program_release(&p);
    vp_graph_release(&g);
    return work;
}

/* Work memory does not grow with depth, because buffers are reused. A buffer
 * that W reads is reused only after the `linger` calls that may overtake W. */
static void work_memory_is_reused(void **state)
{
    (void)state;
    for (int linger = 0; linger <= 6; linger += 3)
        assert_int_equal(work_of_chain(6, linger), work_of_chain(20, linger));
    assert_true(work_of_chain(6, 3) > work_of_chain(6, 0));
    assert_true(work_of_chain(20, 6) > work_of_chain(20, 3));
    assert_true(work_of_chain(20, 1000) > work_of_chain(19, 1000));
}

/* Pre-norm layers with two products and an activation between them. */
static void mlp_graph(struct vp_graph *g, int n)
{
    vp_val ids, labels, x, y;

    vp_graph_init(g, BATCH);
    ids = vp_graph_input(g, VP_ROLE_TOKENS, "tokens", ROWS);
    labels = vp_graph_input(g, VP_ROLE_LABELS, "labels", ROWS);
    vp_graph_block(g, "embed");
    vp_graph_line(g);
    x = vp_embed(g, ids, VP_NONE, weight(g, 64, 64), VP_NONE, VP_NONE, 1.0f,
                 -1);
    for (int i = 0; i < n; i++) {
        vp_graph_block(g, "layer");
        vp_graph_line(g);
        y = vp_layernorm(g, x, weight(g, 1, 64), weight(g, 1, 64), 1e-5f);
        y = vp_linear(g, y, weight(g, 256, 64), VP_NONE, VP_ACT_GELU_ERF);
        y = vp_linear(g, y, weight(g, 64, 256), VP_NONE, VP_ACT_NONE);
        x = vp_add(g, y, x);
    }
    vp_graph_block(g, "head");
    vp_graph_line(g);
    x = vp_linear(g, x, weight(g, 64, 64), VP_NONE, VP_ACT_NONE);
    vp_cross_entropy(g, x, labels, VP_NONE, 0.0f);
}

/* Bytes that one more layer needs in a slot. */
static int64_t slot_of_layer(struct vp_stage_spec spec)
{
    int64_t slot[2];

    for (int i = 0; i < 2; i++) {
        struct vp_graph g;
        struct vp_program p;

        mlp_graph(&g, 2 + i);
        assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
        spec.n_blocks = g.n_blocks;
        assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, NULL),
                         VP_OK);
        slot[i] = p.n_bytes[VP_SPACE_SLOT];
        vp_program_release(&p);
        vp_graph_release(&g);
    }
    return slot[1] - slot[0];
}

/* A layer keeps its sum, the statistics of its rows and the input of the
 * activation. It keeps results of layer norm and activation only with keep_all:
 * B computes them again for W, and keeps them if W runs later. */
static void what_backward_can_make_is_not_kept(void **state)
{
    const int64_t row = 4 * ROWS, layer = row * (64 + 256) + VP_TENSOR_ALIGN;
    const int64_t results = row * (64 + 256);

    (void)state;
    assert_int_equal(slot_of_layer((struct vp_stage_spec){ 0 }), layer);
    assert_int_equal(slot_of_layer((struct vp_stage_spec){ .keep_all = true }),
                     layer + results);
    /* With split_w: the inputs of both products and the gradients of their
     * results, instead of values that only B reads. */
    assert_int_equal(slot_of_layer((struct vp_stage_spec){ .split_w = true }),
                     results + row * (256 + 64));
}

/* With one minibatch in flight, temporaries of backward reuse the memory of
 * values that it has read: no work memory, and less memory in total. */
static void one_slot_is_shared_by_all_lists(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct vp_stage_spec spec = { .split_w = i % 2 };
        struct vp_program p, q;
        uint64_t sets[MAX_SETS];
        struct vp_graph g;

        mlp_graph(&g, 6);
        assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
        spec.n_blocks = g.n_blocks;
        set_tail(&g, i / 2 * 0.5, &spec, sets);
        assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, NULL),
                         VP_OK);
        spec.one_slot = true;
        assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &q, NULL),
                         VP_OK);
        assert_int_equal(q.n_bytes[VP_SPACE_WORK], 0);
        assert_int_equal(q.n_bytes[VP_SPACE_RECOMPUTED], 0);
        assert_true(q.n_bytes[VP_SPACE_SLOT] <
                    p.n_bytes[VP_SPACE_SLOT] + p.n_bytes[VP_SPACE_RECOMPUTED] +
                        p.n_bytes[VP_SPACE_WORK]);
        vp_program_release(&p);
        vp_program_release(&q);
        vp_graph_release(&g);
    }
}

/* With all operators recomputed, the slot holds only the loss. */
static void full_recompute_keeps_only_the_loss(void **state)
{
    struct vp_graph g;
    struct vp_program p;

    (void)state;
    chain_graph(&g, 3, false);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    lower_all(&g, 1.0, &p);
    assert_int_equal(p.n_bytes[VP_SPACE_SLOT], VP_TENSOR_ALIGN);
    assert_true(p.n_bytes[VP_SPACE_RECOMPUTED] > 0);
    vp_program_release(&p);
    lower_all(&g, 0.0, &p);
    assert_int_equal(p.n_bytes[VP_SPACE_RECOMPUTED], 0);
    assert_int_equal(p.n_calls[VP_LIST_R], 0);
    vp_program_release(&p);
    vp_graph_release(&g);
}

/* The ratio counts lines from the end of the stage: 0.3 of 11 lines are 3, the
 * head's line and the linear and add of the last layer. The head has two
 * operators. */
static void ratio_counts_lines_from_the_end(void **state)
{
    struct vp_graph g;
    struct vp_program p;

    (void)state;
    chain_graph(&g, 3, false);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    assert_int_equal(g.n_lines, 11);
    lower_all(&g, 0.3, &p); /* int(0.3 * 11) = 3 lines */
    assert_int_equal(p.n_calls[VP_LIST_R], 4);
    assert_int_equal(p.calls[VP_LIST_R][0].op->kind, VP_OP_LINEAR);
    assert_int_equal(p.calls[VP_LIST_R][1].op->kind, VP_OP_ADD);
    assert_int_equal(p.calls[VP_LIST_R][2].op->kind, VP_OP_LINEAR);
    assert_int_equal(p.calls[VP_LIST_R][3].op->kind, VP_OP_CROSS_ENTROPY);
    vp_program_release(&p);
    vp_graph_release(&g);
}

/* Tied weights are stored once and have a gradient per block. */
static void tied_weights_share_storage(void **state)
{
    struct vp_graph g;
    struct vp_program p;
    const struct vp_layout_entry *owner, *user;

    (void)state;
    chain_graph(&g, 2, true);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    lower_all(&g, 0.0, &p);
    owner = &p.layout.entries[0];
    user = &p.layout.entries[p.layout.n_entries - 1];
    assert_int_equal(user->storage, 0);
    assert_int_equal(user->offset, owner->offset);
    assert_true(user->grad_offset >= p.layout.train_bytes);
    assert_int_equal(p.layout.grad_bytes, p.layout.train_bytes + 64 * 64 * 4);
    vp_program_release(&p);
    vp_graph_release(&g);
}

/* ---- Bundles ------------------------------------------------------------ */

static bool writes(const struct vp_program *p, const struct vp_call *call,
                   const struct vp_bundle *bundle)
{
    for (int i = 0; i < VP_MAX_PARAM; i++) {
        int64_t at = call->dpar[i].offset;
        const struct vp_param *param;

        if (call->dpar[i].space != VP_SPACE_GRAD)
            continue;
        param = &p->graph->params[call->op->par[i]];
        if (at < bundle->end &&
            at + param->rows * param->cols * 4 > bundle->begin)
            return true;
    }
    return false;
}

/* A bundle is final after the last call that writes it; calls of B come before
 * calls of W. */
static void check_final(const struct vp_program *p,
                        const struct vp_bundle *bundle)
{
    enum vp_list list = VP_LIST_B;
    int n_calls = 0;

    for (int l = VP_LIST_B; l <= VP_LIST_W; l++)
        for (int i = 0; i < p->n_calls[l]; i++)
            if (writes(p, &p->calls[l][i], bundle)) {
                list = (enum vp_list)l;
                n_calls = i + 1;
            }
    assert_int_equal(bundle->list, list);
    assert_int_equal(bundle->n_calls, n_calls);
}

/* True if a gradient begins at `at`, or the space ends there. */
static bool is_edge(const struct vp_program *p, int64_t at)
{
    for (int i = 0; i < p->layout.n_entries; i++)
        if (p->layout.entries[i].grad_offset == at)
            return true;
    return at == p->layout.grad_bytes;
}

/* Two adjacent bundles are together larger than `limit`, and a gradient is cut
 * only if it is larger than `limit`. */
static void check_edge(const struct vp_program *p, int i, int64_t limit)
{
    const struct vp_bundle *b = &p->bundles[i];
    int64_t at = b->end, begin = at - 1, end = at + 1;

    while (begin > 0 && !is_edge(p, begin))
        begin--;
    while (end < p->layout.grad_bytes && !is_edge(p, end))
        end++;
    if (!is_edge(p, at))
        assert_true(end - begin > limit);
    else if (i + 1 < p->n_bundles && is_edge(p, p->bundles[i + 1].end))
        assert_true(p->bundles[i + 1].end - begin > limit);
}

static void check_bundles(const struct vp_program *p, int64_t limit)
{
    bool seen[2048] = { false };
    int64_t end = 0;

    assert_in_range(p->n_bundles, 1, VP_COUNT_OF(seen));
    for (int i = 0; i < p->n_bundles; i++) {
        const struct vp_bundle *b = &p->bundles[i];

        assert_int_equal(b->begin, end);
        assert_int_equal(b->begin % VP_TENSOR_ALIGN, 0);
        assert_true(b->end > b->begin || p->layout.grad_bytes == 0);
        assert_true(b->end - b->begin <= limit);
        end = b->end;
        check_final(p, b);
        check_edge(p, i, limit);
    }
    assert_int_equal(end, p->layout.grad_bytes);
    for (int i = 0; i < p->n_bundles; i++) {
        const struct vp_bundle *b = &p->bundles[p->bundle_order[i]];
        const struct vp_bundle *before = b;

        if (i > 0)
            before = &p->bundles[p->bundle_order[i - 1]];
        assert_false(seen[p->bundle_order[i]]);
        seen[p->bundle_order[i]] = true;
        assert_true(before->list < b->list ||
                    (before->list == b->list && before->n_calls <= b->n_calls));
    }
}

/* Bundles are cut by the layout alone, so all programs of a stage have the same
 * bundles. */
static void bundles_are_offered_when_final(void **state)
{
    static const double ratios[] = { 0.0, 0.3, 0.5, 1.0 };
    struct vp_err err;

    (void)state;
    for (int trial = 0; trial < 150; trial++) {
        int n_blocks = 3 + rand_below(6);
        struct vp_graph g;
        struct vp_stage_spec spec = {
            .bundle_bytes = 1 + rand_below(1 << rand_below(14))
        };
        int64_t limit = (int64_t)vp_align_up((size_t)spec.bundle_bytes,
                                             VP_TENSOR_ALIGN);
        struct vp_program p, first = { .graph = NULL };
        uint64_t sets[MAX_SETS], model_sets[MAX_SETS];

        random_graph(&g, n_blocks, rand_below(2));
        assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
        spec.first_block = rand_below(n_blocks);
        spec.n_blocks = 1 + rand_below(n_blocks - spec.first_block);
        random_sets(&g, rand_bits, model_sets);
        for (int i = 0; i < 10; i++) {
            spec.split_w = i % 2;
            spec.recompute_in_b = rand_below(2);
            if (i < 8)
                set_tail(&g, ratios[i / 2], &spec, sets);
            else
                spec.recompute = model_sets + spec.first_block;
            assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err),
                             VP_OK);
            check_bundles(&p, limit);
            if (i == 0) {
                first = p;
                continue;
            }
            assert_int_equal(p.n_bundles, first.n_bundles);
            for (int b = 0; b < p.n_bundles; b++)
                assert_int_equal(p.bundles[b].end, first.bundles[b].end);
            vp_program_release(&p);
        }
        vp_program_release(&first);
        spec.bundle_bytes = 0;
        assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err),
                         VP_OK);
        assert_int_equal(p.n_bundles, 0);
        vp_program_release(&p);
        vp_graph_release(&g);
    }
}

/* ---- Gradients that share memory ---------------------------------------- */

/* A gradient: its bytes and the time at which it is written. Time is counted in
 * bytes of matrices that W calls have written. */
struct grad {
    int64_t begin, end;
    int64_t first, last; /* first < 0: at any time */
    bool stays;
};

static bool is_tied(const struct vp_graph *g, vp_par par)
{
    for (vp_par p = 0; p < g->n_params; p++)
        if (g->params[p].tied_to == par)
            return true;
    return g->params[par].tied_to != VP_NONE;
}

static int find_grad(const struct vp_program *p, vp_par par)
{
    for (int i = 0; i < p->layout.n_entries; i++)
        if (p->layout.entries[i].par == par)
            return i;
    fail_msg("parameter %d is not in its stage", par);
    return -1;
}

/* Returns the gradient that `call` writes as number `j` if it is that of a
 * matrix, else NULL. */
static struct grad *written(const struct vp_program *p,
                            const struct vp_call *call, int j,
                            struct grad *grads)
{
    struct grad *grad;

    if (call->dpar[j].space == VP_SPACE_NONE)
        return NULL;
    grad = &grads[find_grad(p, call->op->par[j])];
    assert_int_equal(call->dpar[j].offset, grad->begin);
    return p->graph->params[call->op->par[j]].rows == 1 ? NULL : grad;
}

static void list_grads(const struct vp_program *p, struct grad *grads)
{
    const struct vp_graph *g = p->graph;
    int64_t now = 0, begin;

    for (int i = 0; i < p->layout.n_entries; i++) {
        const struct vp_layout_entry *entry = &p->layout.entries[i];
        const struct vp_param *param = &g->params[entry->par];

        grads[i] = (struct grad){ entry->grad_offset,
                                  entry->grad_offset +
                                      param->rows * param->cols * 4,
                                  -1, -1, is_tied(g, entry->par) };
        assert_int_equal(grads[i].begin % VP_TENSOR_ALIGN, 0);
        assert_in_range(grads[i].end, 1, p->n_bytes[VP_SPACE_GRAD]);
    }
    for (int i = 0; i < p->n_calls[VP_LIST_B]; i++) {
        const struct vp_call *call = &p->calls[VP_LIST_B][i];
        struct grad *grad;

        begin = now;
        for (int j = 0; j < VP_MAX_PARAM; j++)
            if ((grad = written(p, call, j, grads)))
                now += grad->end - grad->begin;
        for (int j = 0; j < VP_MAX_PARAM; j++)
            if ((grad = written(p, call, j, grads))) {
                grad->first = grad->first < 0 ? begin : grad->first;
                grad->last = now;
            }
    }
}

/* True if `b` may reuse the bytes of `a`: `a` has been used, and `linger` more
 * bytes have been written since. */
static bool gives_way(const struct grad *a, const struct grad *b,
                      int64_t linger)
{
    return a->first >= 0 && b->first >= 0 && !a->stays &&
           a->last + linger <= b->first;
}

/* Returns the number of pairs that share bytes. */
static int check_places(const struct vp_program *p)
{
    struct grad grads[MAX_PARAMS] = { { .first = -1 } };
    int64_t linger = p->spec.grad_linger;
    int n = 0;

    list_grads(p, grads);
    for (int i = 0; i < p->layout.n_entries; i++)
        for (int j = 0; j < i; j++) {
            const struct grad *a = &grads[i], *b = &grads[j];

            if (a->begin >= b->end || b->begin >= a->end)
                continue;
            assert_true(gives_way(a, b, linger) || gives_way(b, a, linger));
            n++;
        }
    return n;
}

static void used_up_gradients_give_way(void **state)
{
    int n_shared = 0;

    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        int n_blocks = 3 + rand_below(8);
        struct vp_stage_spec spec = {
            .grad_linger = 1 + rand_below(1 << rand_below(14)),
            .one_slot = rand_below(2),
            .recompute_in_b = rand_below(2),
        };
        uint64_t sets[MAX_SETS];
        struct vp_program p;
        struct vp_graph g;
        struct vp_err err;

        random_graph(&g, n_blocks, trial % 2);
        assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
        spec.first_block = rand_below(n_blocks);
        spec.n_blocks = 1 + rand_below(n_blocks - spec.first_block);
        random_sets(&g, rand_bits, sets);
        if (rand_below(2))
            spec.recompute = sets + spec.first_block;
        assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err),
                         VP_OK);
        n_shared += check_places(&p);
        vp_program_release(&p);
        vp_graph_release(&g);
    }
    assert_true(n_shared > 400);
}

static int64_t grads_of_chain(int n_layers, bool tied, int64_t linger)
{
    struct vp_stage_spec spec = { .grad_linger = linger };
    struct vp_program p;
    struct vp_graph g;
    struct vp_err err;
    int64_t n_bytes;

    chain_graph(&g, n_layers, tied);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    spec.n_blocks = g.n_blocks;
    assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err), VP_OK);
    n_bytes = p.n_bytes[VP_SPACE_GRAD];
    vp_program_release(&p);
    vp_graph_release(&g);
    return n_bytes;
}

/* Two matrices alternate, with one more for each matrix that lingers. Vectors
 * and both uses of a tied matrix have their own bytes. */
static void a_few_gradients_are_enough(void **state)
{
    const int64_t matrix = 64 * 64 * 4, vectors = 2 * 256;

    (void)state;
    for (int n = 4; n < 20; n += 5) {
        assert_int_equal(grads_of_chain(n, false, 1), 2 * matrix + n * vectors);
        assert_int_equal(grads_of_chain(n, false, 2 * matrix),
                         4 * matrix + n * vectors);
        assert_int_equal(grads_of_chain(n, true, 1), 3 * matrix + n * vectors);
        assert_int_equal(grads_of_chain(n, false, 0),
                         (n + 2) * matrix + n * vectors);
    }
}

/* Weights and activations have two bytes per element; gradients of weights and
 * statistics of rows keep four. A tensor begins at the same element in every
 * space. */
static void two_byte_types(void **state)
{
    struct vp_graph g, wide;
    struct vp_program p, q;

    (void)state;
    typed_chain(&g, 3, true, VP_DTYPE_BF16);
    chain_graph(&wide, 3, true);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    assert_int_equal(vp_graph_finish(&wide, NULL), VP_OK);
    lower_all(&g, 0.0, &p);
    lower_all(&wide, 0.0, &q);
    for (int i = 0; i < p.layout.n_entries; i++) {
        const struct vp_layout_entry *entry = &p.layout.entries[i];

        assert_int_equal(entry->offset % VP_TENSOR_ALIGN, 0);
        assert_int_equal(entry->grad_offset % VP_TENSOR_ALIGN, 0);
        if (entry->storage == i)
            assert_int_equal(entry->grad_offset, 2 * entry->offset);
        assert_int_equal(2 * entry->n_bytes, q.layout.entries[i].n_bytes);
    }
    assert_int_equal(p.layout.train_bytes, 2 * p.layout.param_bytes);
    assert_true(p.layout.grad_bytes >= p.layout.train_bytes + 64 * 64 * 4);
    for (vp_val v = 0; v < g.n_values; v++) {
        const struct vp_value *value = &g.values[v];
        bool small = value->producer != VP_NONE && value->cols > 2 &&
                     v != g.loss;

        assert_int_equal(vp_value_bytes(&g, v),
                         value->rows * value->cols * (small ? 2 : 4));
    }
    assert_int_equal(2 * p.dout.n_bytes, q.dout.n_bytes);
    vp_program_release(&p);
    vp_program_release(&q);
    vp_graph_release(&g);
    vp_graph_release(&wide);
}

static void bad_stages_are_refused(void **state)
{
    struct vp_graph g;
    struct vp_program p;
    struct vp_err err;
    struct vp_stage_spec spec = { .first_block = 2, .n_blocks = 9 };

    (void)state;
    chain_graph(&g, 2, false);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "the model has blocks 0..3"));
    vp_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same_gradients),
        cmocka_unit_test(work_memory_is_reused),
        cmocka_unit_test(what_backward_can_make_is_not_kept),
        cmocka_unit_test(one_slot_is_shared_by_all_lists),
        cmocka_unit_test(full_recompute_keeps_only_the_loss),
        cmocka_unit_test(ratio_counts_lines_from_the_end),
        cmocka_unit_test(tied_weights_share_storage),
        cmocka_unit_test(bundles_are_offered_when_final),
        cmocka_unit_test(used_up_gradients_give_way),
        cmocka_unit_test(a_few_gradients_are_enough),
        cmocka_unit_test(two_byte_types),
        cmocka_unit_test(bad_stages_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
