/* With any set of recomputed operators, backward reads the values that forward
 * computed: for three models and random graphs, by symbolic execution.
 *
 * A slot holds exactly the values that follow from the set, and a recompute
 * ratio is lowered to the bytes and calls that were recorded for it in the
 * table below. */
#include "lib/list_interpreter.h"

#include "model/model.h"

static const char *const models[] = { "bert", "gpt2", "translation" };

static void build_layers(const char *name, int n_layers, float dropout,
                         struct vp_graph *g)
{
    const struct vp_model *model = vp_model_find(name);
    struct vp_model_config sizes = model->sizes[0].config;
    struct vp_dims dims = { 2, 12, 0, 0 };
    struct vp_err err = { .text = "" };

    sizes.vocab = 96;
    sizes.hidden = 32;
    sizes.layers = sizes.decoder_layers = n_layers;
    sizes.heads = 4;
    sizes.ffn = 64;
    sizes.positions = 32;
    sizes.dropout = sizes.attention_dropout = dropout;
    sizes.pad = 0;
    if (model->task == VP_TASK_TRANSLATION)
        dims.tgt_seq = 10;
    if (model->task == VP_TASK_MASKED_LM)
        dims.n_labels = 6;
    if (vp_model_build(model, &sizes, &dims, g, &err) != VP_OK)
        fail_msg("%s", err.text);
}

static void build(const char *name, float dropout, struct vp_graph *g)
{
    build_layers(name, 2, dropout, g);
    assert_true(g->n_values < MAX_VALUES && g->n_params < MAX_PARAMS);
}

static void lower(const struct vp_graph *g, const struct vp_stage_spec *spec,
                  struct vp_program *p)
{
    struct vp_err err = { .text = "" };

    if (vp_program_lower(g, spec, some_scratch, NULL, p, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* ---- Values ------------------------------------------------------------- */

static void check_sets(const struct vp_graph *g, int n_trials)
{
    struct facts want = { { 0 }, { 0 } };
    int most = g->n_blocks < MAX_STAGES ? g->n_blocks : MAX_STAGES;

    oracle(g, &want);
    for (int i = 0; i < n_trials; i++) {
        uint64_t sets[MAX_SETS];

        random_sets(g, rand_bits, sets);
        check_one(g, &want, 1 + rand_below(most),
                  &(struct vp_stage_spec){ .keep_all = rand_below(2),
                                           .split_w = i % 2,
                                           .one_slot = i / 2 % 2,
                                           .recompute_in_b = i / 4 % 2 },
                  &(struct recompute){ .sets = sets });
    }
}

static void every_set_gives_the_gradients_of_a_model(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int dropout = 0; dropout < 2; dropout++) {
            struct vp_graph g;

            build(models[m], dropout ? 0.1f : 0.0f, &g);
            check_sets(&g, 300);
            vp_graph_release(&g);
        }
}

static void every_set_gives_the_gradients_of_a_graph(void **state)
{
    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        struct vp_graph g;

        random_graph(&g, 3 + rand_below(8), trial % 2);
        assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
        check_sets(&g, 16);
        vp_graph_release(&g);
    }
}

/* All sets of a small model: embed; norm, product, sum; a head whose logits are
 * a sum. The loss overwrites its logits with their gradient, which the sum
 * passes on to products whose W runs later. */
static void logits_may_be_a_sum(void **state)
{
    struct facts want = { { 0 }, { 0 } };
    vp_val ids, labels, x, y;
    struct vp_graph g;

    (void)state;
    vp_graph_init(&g, BATCH);
    ids = vp_graph_input(&g, VP_ROLE_TOKENS, "tokens", ROWS);
    labels = vp_graph_input(&g, VP_ROLE_LABELS, "labels", ROWS);
    vp_graph_block(&g, "embed");
    vp_graph_line(&g);
    x = vp_embed(&g, ids, VP_NONE, weight(&g, 16, 16), VP_NONE, VP_NONE, 1.0f,
                 -1);
    vp_graph_block(&g, "layer");
    vp_graph_line(&g);
    y = vp_layernorm(&g, x, weight(&g, 1, 16), weight(&g, 1, 16), 1e-5f);
    y = vp_linear(&g, y, weight(&g, 16, 16), VP_NONE, VP_ACT_NONE);
    x = vp_add(&g, y, x);
    vp_graph_block(&g, "head");
    vp_graph_line(&g);
    y = vp_linear(&g, x, weight(&g, 16, 16), VP_NONE, VP_ACT_NONE);
    x = vp_linear(&g, x, weight(&g, 16, 16), VP_NONE, VP_ACT_NONE);
    vp_cross_entropy(&g, vp_add(&g, y, x), labels, VP_NONE, 0.0f);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    assert_int_equal(g.n_ops, 8);
    oracle(&g, &want);
    for (unsigned set = 0; set < 1 << 8; set++) {
        uint64_t sets[3] = { set & 1, set >> 1 & 7, set >> 4 };

        for (int i = 0; i < 16; i++)
            check_one(&g, &want, 1 + rand_below(3),
                      &(struct vp_stage_spec){ .keep_all = i / 4 % 2,
                                               .split_w = i % 2,
                                               .one_slot = i / 2 % 2,
                                               .recompute_in_b = i / 8 },
                      &(struct recompute){ .sets = sets });
    }
    vp_graph_release(&g);
}

/* Block 3 of BERT: 0 layer norm, 1 linear with activation, 2 linear, 3 dropout,
 * 4 sum. W runs together with B for layer norms, for recomputed operators, and
 * if it reads a result of R. Values that B computes again are kept for a later
 * W. */
static void w_runs_with_b_where_values_go(void **state)
{
    static const struct {
        uint64_t set;
        bool keep_all;
        uint64_t later; /* operators whose W is in the list W */
    } cases[] = {
        { 0x00, false, 0x6 }, { 0x01, false, 0x6 }, { 0x02, false, 0x4 },
        { 0x04, false, 0x2 }, { 0x18, false, 0x6 }, { 0x00, true, 0x6 },
        { 0x01, true, 0x4 },  { 0x02, true, 0x0 },  { 0x04, true, 0x2 },
        { 0x1f, false, 0x0 },
    };
    struct vp_graph g;

    (void)state;
    build("bert", 0.1f, &g);
    for (size_t c = 0; c < VP_COUNT_OF(cases); c++)
        for (int one_slot = 0; one_slot < 2; one_slot++) {
            struct vp_stage_spec spec = { .first_block = 3,
                                          .n_blocks = 1,
                                          .recompute = &cases[c].set,
                                          .keep_all = cases[c].keep_all,
                                          .split_w = true,
                                          .one_slot = one_slot };
            uint64_t later = 0;
            struct vp_program p;

            lower(&g, &spec, &p);
            for (int i = 0; i < p.n_calls[VP_LIST_W]; i++)
                later |= UINT64_C(1) << (p.calls[VP_LIST_W][i].op -
                                         &g.ops[g.blocks[3].first_op]);
            assert_int_equal(later, cases[c].later);
            vp_program_release(&p);
        }
    vp_graph_release(&g);
}

/* ---- Sizes of spaces ---------------------------------------------------- */

struct account {
    const struct vp_graph *g;
    const struct vp_stage_spec *spec;
    int first_op, end_op;
};

static bool reads_value(const struct vp_op *op, unsigned needs, vp_val v)
{
    for (int i = 0; i < VP_MAX_IN; i++)
        if ((needs & bit_in[i]) && op->in[i] == v)
            return true;
    for (int i = 0; i < VP_MAX_AUX; i++)
        if ((needs & bit_aux[i]) && op->aux[i] == v)
            return true;
    return (needs & VP_NEED_OUT) && op->out == v;
}

static bool kernels_read(const struct account *a, bool w, vp_val v)
{
    for (int i = a->first_op; i < a->end_op; i++) {
        const struct vp_op *op = &a->g->ops[i];
        const struct vp_op_def *def = &vp_op_defs[op->kind];

        if (a->g->values[op->out].needs_grad &&
            reads_value(op, w ? def->needs_w : def->needs_b, v))
            return true;
    }
    return false;
}

static const struct vp_op *maker(const struct account *a, vp_val v)
{
    int i = a->g->values[v].producer;

    return i >= a->first_op && i < a->end_op ? &a->g->ops[i] : NULL;
}

/* True if backward needs the value and the kernels of B cannot compute it. */
static bool backward_reads(const struct account *a, vp_val v)
{
    const struct vp_op *op = maker(a, v);

    if (kernels_read(a, false, v))
        return true;
    if (op->out == v && !a->spec->keep_all && vp_op_can_recompute_out(op) &&
        a->g->values[op->in[0]].needs_grad)
        return false;
    return kernels_read(a, true, v);
}

static bool is_in_set(const struct account *a, const struct vp_op *op)
{
    const struct vp_block *block = &a->g->blocks[op->block];

    return a->spec->recompute[op->block - a->spec->first_block] &
           UINT64_C(1) << (op - &a->g->ops[block->first_op]);
}

/* True if an operator that R runs again reads the value. */
static bool r_reads(const struct account *a, vp_val v);

static bool runs_again(const struct account *a, const struct vp_op *op)
{
    return is_in_set(a, op) &&
           (backward_reads(a, op->out) || r_reads(a, op->out) ||
            (op->aux[0] != VP_NONE && backward_reads(a, op->aux[0])));
}

static bool r_reads(const struct account *a, vp_val v)
{
    for (int i = a->first_op; i < a->end_op; i++) {
        const struct vp_op *op = &a->g->ops[i];

        if (reads_value(op, VP_NEED_IN0 | VP_NEED_IN1 | VP_NEED_IN2, v) &&
            runs_again(a, op))
            return true;
    }
    return false;
}

/* SLOT holds the loss and, of operators outside of the sets, the values that
 * backward or R reads. RECOMPUTED holds the values of the other operators that
 * backward reads. Each aux value belongs to one operator. */
static void check_bytes(const struct vp_program *p)
{
    const struct vp_stage_spec *spec = &p->spec;
    const struct vp_block *first = &p->graph->blocks[spec->first_block];
    const struct vp_block *last = first + spec->n_blocks - 1;
    struct account a = { p->graph, spec, first->first_op,
                         last->first_op + last->n_ops };
    int64_t slot = 0, recomputed = 0;

    for (vp_val v = 0; v < a.g->n_values; v++) {
        const struct vp_op *op = maker(&a, v);
        int64_t n_bytes = (vp_value_bytes(a.g, v) + 255) / 256 * 256;

        if (!op)
            continue;
        if (v == a.g->loss)
            slot += n_bytes;
        else if (is_in_set(&a, op))
            recomputed += backward_reads(&a, v) ? n_bytes : 0;
        else
            slot += backward_reads(&a, v) || r_reads(&a, v) ? n_bytes : 0;
    }
    assert_int_equal(p->n_bytes[VP_SPACE_SLOT], slot);
    assert_int_equal(p->n_bytes[VP_SPACE_RECOMPUTED], recomputed);
}

static void random_stage(const struct vp_graph *g, struct vp_stage_spec *spec)
{
    spec->first_block = rand_below(g->n_blocks);
    spec->n_blocks = 1 + rand_below(g->n_blocks - spec->first_block);
}

static void a_slot_holds_what_the_set_leaves(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct vp_graph g;

        build(models[m], 0.1f, &g);
        for (int trial = 0; trial < 100; trial++) {
            struct vp_stage_spec spec = { .keep_all = trial % 2 };
            uint64_t sets[MAX_SETS];
            struct vp_program p;

            random_stage(&g, &spec);
            random_sets(&g, rand_bits, sets);
            spec.recompute = sets + spec.first_block;
            lower(&g, &spec, &p);
            check_bytes(&p);
            vp_program_release(&p);
        }
        vp_graph_release(&g);
    }
}

/* Bytes of a program with `n` minibatches in flight. */
static int64_t bytes_of(const struct vp_program *p, int n)
{
    return n * p->n_bytes[VP_SPACE_SLOT] + p->n_bytes[VP_SPACE_RECOMPUTED] +
           p->n_bytes[VP_SPACE_WORK];
}

/* Sets of whole blocks never make a slot larger. Sets of single operators can:
 * their inputs must be kept, although backward may not need them. */
static void whole_blocks_save_memory(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct vp_graph g;

        build(models[m], 0.1f, &g);
        for (int trial = 0; trial < 100; trial++) {
            struct vp_stage_spec spec = { .split_w = trial % 2,
                                          .keep_all = trial / 2 % 2 };
            uint64_t sets[MAX_SETS];
            struct vp_program p, kept;

            random_stage(&g, &spec);
            lower(&g, &spec, &kept);
            random_sets(&g, rand_bits, sets);
            for (int b = 0; b < spec.n_blocks; b++)
                sets[b] = rand_below(2)
                              ? (UINT64_C(1)
                                 << g.blocks[spec.first_block + b].n_ops) -
                                    1
                              : 0;
            spec.recompute = sets;
            lower(&g, &spec, &p);
            assert_true(p.n_bytes[VP_SPACE_SLOT] <=
                        kept.n_bytes[VP_SPACE_SLOT]);
            vp_program_release(&p);
            vp_program_release(&kept);
        }
        vp_graph_release(&g);
    }
}

/* Recomputation inside of backward, one block at a time, needs less memory even
 * with one minibatch in flight: the recomputed values of one block, and the
 * results of all blocks. With a separate R action nothing is saved in this
 * case. */
static void blocks_in_backward_lower_the_peak(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int one_slot = 0; one_slot < 2; one_slot++) {
            struct vp_stage_spec spec = { .one_slot = one_slot };
            struct vp_program kept, by_r, in_b;
            uint64_t sets[MAX_SETS];
            struct vp_graph g;

            build_layers(models[m], 8, 0.1f, &g);
            spec.n_blocks = g.n_blocks;
            lower(&g, &spec, &kept);
            set_tail(&g, 1.0, &spec, sets);
            lower(&g, &spec, &by_r);
            vp_recompute_keep_results(&g, 0, g.n_blocks, sets);
            spec.recompute_in_b = true;
            lower(&g, &spec, &in_b);
            assert_int_equal(in_b.n_calls[VP_LIST_R], 0);
            assert_int_equal(in_b.n_bytes[VP_SPACE_RECOMPUTED], 0);
            assert_true(10 * bytes_of(&in_b, 1) < 6 * bytes_of(&by_r, 1));
            assert_true(10 * bytes_of(&in_b, 1) < 6 * bytes_of(&kept, 1));
            vp_program_release(&kept);
            vp_program_release(&by_r);
            vp_program_release(&in_b);
            vp_graph_release(&g);
        }
}

static bool is_read(const struct vp_call *call, vp_val v, struct vp_ref place)
{
    for (int i = 0; i < VP_MAX_IN; i++)
        if (call->op->in[i] == v && call->in[i].space == place.space &&
            call->in[i].offset == place.offset)
            return true;
    return false;
}

/* B runs `n_recomputed` operators again, each once. A result that a later call
 * of backward reads is marked as `out_stays`. */
static void check_again(const struct vp_program *p, int n_recomputed)
{
    const struct vp_call *calls = p->calls[VP_LIST_B];
    int n = 0;

    for (int i = 0; i < p->n_calls[VP_LIST_B]; i++) {
        if (calls[i].phase != VP_PHASE_F)
            continue;
        n++;
        for (int j = i + 1;
             j < p->n_calls[VP_LIST_B] && !is_written_again(p, VP_LIST_B, i);
             j++)
            if (calls[j].phase != VP_PHASE_F &&
                is_read(&calls[j], calls[i].op->out, calls[i].out))
                assert_true(calls[i].out_stays);
    }
    assert_int_equal(n, n_recomputed);
}

static void backward_runs_what_r_would(void **state)
{
    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        struct vp_stage_spec spec = { .split_w = trial % 2,
                                      .keep_all = trial / 2 % 2 };
        struct vp_program p, by_r;
        uint64_t sets[MAX_SETS];
        struct vp_graph g;

        build(models[trial % 3], 0.1f, &g);
        random_stage(&g, &spec);
        random_sets(&g, rand_bits, sets);
        spec.recompute = sets + spec.first_block;
        lower(&g, &spec, &by_r);
        spec.recompute_in_b = true;
        lower(&g, &spec, &p);
        check_again(&p, by_r.n_calls[VP_LIST_R]);
        vp_program_release(&p);
        vp_program_release(&by_r);
        vp_graph_release(&g);
    }
}

/* Block 3 of BERT is a feed-forward block whose sum block 4 reads. The last
 * block of a stage has no reader within the stage. */
static void what_leaves_a_block_is_kept(void **state)
{
    uint64_t sets[MAX_SETS];
    struct vp_graph g;

    (void)state;
    build("bert", 0.1f, &g);
    for (int b = 0; b < g.n_blocks; b++)
        sets[b] = (UINT64_C(1) << g.blocks[b].n_ops) - 1;
    vp_recompute_keep_results(&g, 2, 2, sets + 2);
    assert_int_equal(g.blocks[3].n_ops, 5);
    assert_int_equal(sets[3], 0x1f);
    assert_int_equal(sets[2], (UINT64_C(1) << (g.blocks[2].n_ops - 1)) - 1);
    vp_recompute_keep_results(&g, 0, g.n_blocks, sets);
    assert_int_equal(sets[3], 0x0f);
    vp_graph_release(&g);
}

static void assert_same_ref(struct vp_ref a, struct vp_ref b)
{
    assert_int_equal(a.space, b.space);
    assert_int_equal(a.offset, b.offset);
}

static void assert_same_call(const struct vp_call *a, const struct vp_call *b)
{
    assert_int_equal(a->op->kind, b->op->kind);
    assert_int_equal(a->op->id, b->op->id);
    assert_int_equal(a->phase, b->phase);
    for (int i = 0; i < VP_MAX_IN; i++) {
        assert_same_ref(a->in[i], b->in[i]);
        assert_same_ref(a->din[i], b->din[i]);
        assert_int_equal(a->din_add[i], b->din_add[i]);
    }
    for (int i = 0; i < VP_MAX_AUX; i++)
        assert_same_ref(a->aux[i], b->aux[i]);
    for (int i = 0; i < VP_MAX_PARAM; i++)
        assert_same_ref(a->dpar[i], b->dpar[i]);
    assert_same_ref(a->out, b->out);
    assert_same_ref(a->dout, b->dout);
    assert_same_ref(a->dz, b->dz);
    assert_same_ref(a->recomputed_out, b->recomputed_out);
    assert_same_ref(a->scratch, b->scratch);
    assert_int_equal(a->out_stays, b->out_stays);
}

static void assert_same_program(const struct vp_program *a,
                                const struct vp_program *b)
{
    for (int space = 0; space < VP_SPACE_COUNT; space++)
        assert_int_equal(a->n_bytes[space], b->n_bytes[space]);
    for (int list = 0; list < VP_LIST_COUNT; list++) {
        assert_int_equal(a->n_calls[list], b->n_calls[list]);
        for (int i = 0; i < a->n_calls[list]; i++)
            assert_same_call(&a->calls[list][i], &b->calls[list][i]);
    }
}

/* An array of empty sets equals no array; in evaluation any sets equal no
 * array. */
static void empty_sets_are_no_sets(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct vp_graph g;

        build(models[m], 0.1f, &g);
        for (int i = 0; i < 16; i++) {
            struct vp_stage_spec spec = { .split_w = i % 2,
                                          .one_slot = i / 2 % 2,
                                          .keep_all = i / 4 % 2,
                                          .forward_only = i / 8 % 2 };
            uint64_t sets[MAX_SETS] = { 0 };
            struct vp_program with, without;

            random_stage(&g, &spec);
            lower(&g, &spec, &without);
            if (spec.forward_only)
                random_sets(&g, rand_bits, sets);
            spec.recompute = spec.forward_only ? sets + spec.first_block : sets;
            lower(&g, &spec, &with);
            assert_same_program(&with, &without);
            vp_program_release(&with);
            vp_program_release(&without);
        }
        vp_graph_release(&g);
    }
}

/* The program keeps a copy of the sets. */
static void the_array_may_go(void **state)
{
    struct vp_stage_spec spec = { .first_block = 1, .n_blocks = 2 };
    uint64_t sets[] = { 5, 6 };
    struct vp_program p;
    struct vp_graph g;

    (void)state;
    build("bert", 0.1f, &g);
    spec.recompute = sets;
    lower(&g, &spec, &p);
    sets[0] = sets[1] = UINT64_MAX;
    assert_int_equal(p.spec.recompute[0], 5);
    assert_int_equal(p.spec.recompute[1], 6);
    vp_program_release(&p);
    vp_graph_release(&g);
}

/* ---- Ratios ------------------------------------------------------------- */

static const struct tail_case {
    const char *model;
    int first_block, n_blocks;
    double ratio;
    bool split_w, one_slot;
    int64_t slot, work, recomputed;
    int n_calls[VP_LIST_COUNT];
} tails[] = {
    { "bert", 0, 1, 0.3, 0, 0, 19200, 12288, 0, { 11, 0, 10, 0 } },
    { "bert", 0, 1, 0.5, 1, 0, 31488, 7168, 0, { 11, 0, 8, 2 } },
    { "bert", 0, 1, 0.7, 0, 1, 31488, 0, 0, { 11, 0, 10, 0 } },
    { "bert", 0, 1, 1, 1, 1, 31488, 0, 0, { 11, 5, 10, 0 } },
    { "bert", 1, 2, 0.3, 1, 0, 34304, 12800, 0, { 13, 0, 12, 3 } },
    { "bert", 1, 2, 0.5, 0, 0, 9472, 19456, 13056, { 13, 3, 15, 0 } },
    { "bert", 1, 2, 0.7, 1, 1, 34816, 0, 0, { 13, 5, 13, 2 } },
    { "bert", 1, 2, 1, 0, 1, 34816, 0, 0, { 13, 8, 15, 0 } },
    { "bert", 3, 2, 0.3, 0, 1, 26112, 0, 0, { 11, 3, 17, 0 } },
    { "bert", 3, 2, 0.5, 1, 1, 25600, 0, 0, { 11, 6, 15, 2 } },
    { "bert", 3, 2, 0.7, 0, 0, 12800, 18944, 5376, { 11, 8, 17, 0 } },
    { "bert", 3, 2, 1, 1, 0, 256, 18944, 11776, { 11, 11, 17, 0 } },
    { "bert", 0, 5, 0.3, 1, 1, 93440, 0, 0, { 30, 8, 34, 8 } },
    { "bert", 0, 5, 0.5, 0, 1, 73472, 0, 0, { 30, 13, 42, 0 } },
    { "bert", 0, 5, 0.7, 1, 0, 50432, 19456, 30976, { 30, 19, 38, 4 } },
    { "bert", 0, 5, 1, 0, 0, 256, 22528, 59648, { 30, 30, 42, 0 } },
    { "gpt2", 0, 2, 0.3, 0, 0, 6400, 18944, 12800, { 9, 2, 10, 0 } },
    { "gpt2", 0, 2, 0.5, 1, 0, 3072, 18944, 13056, { 9, 3, 10, 0 } },
    { "gpt2", 0, 2, 0.7, 0, 1, 28416, 0, 0, { 9, 4, 10, 0 } },
    { "gpt2", 0, 2, 1, 1, 1, 28416, 0, 0, { 9, 5, 10, 0 } },
    { "gpt2", 2, 2, 0.3, 1, 0, 40192, 9728, 0, { 12, 0, 12, 4 } },
    { "gpt2", 2, 2, 0.5, 0, 0, 9472, 19456, 13056, { 12, 3, 16, 0 } },
    { "gpt2", 2, 2, 0.7, 1, 1, 34816, 0, 0, { 12, 4, 14, 2 } },
    { "gpt2", 2, 2, 1, 0, 1, 34816, 0, 0, { 12, 8, 16, 0 } },
    { "gpt2", 4, 2, 0.3, 0, 1, 32000, 0, 0, { 8, 2, 13, 0 } },
    { "gpt2", 4, 2, 0.5, 1, 1, 32000, 0, 0, { 8, 3, 11, 2 } },
    { "gpt2", 4, 2, 0.7, 0, 0, 9728, 18944, 12800, { 8, 4, 13, 0 } },
    { "gpt2", 4, 2, 1, 1, 0, 256, 18944, 19200, { 8, 8, 13, 0 } },
    { "gpt2", 0, 6, 0.3, 1, 1, 76288, 0, 0, { 27, 8, 31, 6 } },
    { "gpt2", 0, 6, 0.5, 0, 1, 76288, 0, 0, { 27, 15, 37, 0 } },
    { "gpt2", 0, 6, 0.7, 1, 0, 28672, 22528, 47872, { 27, 20, 35, 2 } },
    { "gpt2", 0, 6, 1, 0, 0, 256, 22528, 64000, { 27, 27, 37, 0 } },
    { "translation", 0, 4, 0.3, 0, 0, 34816, 18944, 16128, { 23, 5, 26, 0 } },
    { "translation", 0, 4, 0.5, 1, 0, 28416, 18944, 28416, { 23, 8, 24, 2 } },
    { "translation", 0, 4, 0.7, 0, 1, 60160, 0, 0, { 23, 14, 26, 0 } },
    { "translation", 0, 4, 1, 1, 1, 60160, 0, 0, { 23, 17, 26, 0 } },
    { "translation", 4, 4, 0.3, 1, 0, 44800, 18432, 14592, { 25, 6, 27, 4 } },
    { "translation", 4, 4, 0.5, 0, 0, 21504, 31744, 28160, { 25, 11, 31, 0 } },
    { "translation", 4, 4, 0.7, 1, 1, 56320, 0, 0, { 24, 13, 29, 2 } },
    { "translation", 4, 4, 1, 0, 1, 56320, 0, 0, { 24, 19, 31, 0 } },
    { "translation", 8, 5, 0.3, 0, 1, 73728, 0, 0, { 28, 7, 40, 0 } },
    { "translation", 8, 5, 0.5, 1, 1, 73728, 0, 0, { 28, 11, 33, 7 } },
    { "translation", 8, 5, 0.7, 0, 0, 16128, 18432, 49152, { 28, 21, 40, 0 } },
    { "translation", 8, 5, 1, 1, 0, 256, 18432, 62464, { 28, 28, 40, 0 } },
    { "translation", 0, 13, 0.3, 1, 1, 171264, 0, 0, { 70, 24, 80, 15 } },
    { "translation", 0, 13, 0.5, 0, 1, 171264, 0, 0, { 70, 41, 95, 0 } },
    { "translation",
      0,
      13,
      0.7,
      1,
      0,
      68864,
      43520,
      109056,
      { 70, 50, 89, 6 } },
    { "translation", 0, 13, 1, 0, 0, 256, 43520, 160000, { 70, 70, 95, 0 } },
};

static void a_tail_is_lowered_as_recorded(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(tails); i++) {
        const struct tail_case *c = &tails[i];
        struct vp_stage_spec spec = { .first_block = c->first_block,
                                      .n_blocks = c->n_blocks,
                                      .split_w = c->split_w,
                                      .one_slot = c->one_slot };
        uint64_t sets[MAX_SETS];
        struct vp_program p;
        struct vp_graph g;

        build(c->model, 0.1f, &g);
        set_tail(&g, c->ratio, &spec, sets);
        lower(&g, &spec, &p);
        assert_int_equal(p.n_bytes[VP_SPACE_SLOT], c->slot);
        assert_int_equal(p.n_bytes[VP_SPACE_WORK], c->work);
        assert_int_equal(p.n_bytes[VP_SPACE_RECOMPUTED], c->recomputed);
        for (int list = 0; list < VP_LIST_COUNT; list++)
            assert_int_equal(p.n_calls[list], c->n_calls[list]);
        vp_program_release(&p);
        vp_graph_release(&g);
    }
}

/* Blocks 2 and 3 of BERT: layer norm, product and attention, product, dropout,
 * sum; then layer norm, product with activation, product, dropout, sum. */
static void a_tail_counts_lines_from_the_end(void **state)
{
    static const struct {
        double ratio;
        uint64_t sets[2];
        int n_tail, n_lines; /* lines by the ratio; lines by the sets */
    } cases[] = {
        { 0.0, { 0, 0 }, 0, 0 },       { 0.0999, { 0, 0 }, 0, 0 },
        { 0.1, { 0, 0x10 }, 1, 1 },    { 0.45, { 0, 0x1e }, 4, 4 },
        { 0.5, { 0, 0x1f }, 5, 5 },    { 0.8, { 0x38, 0x1f }, 8, 8 },
        { 0.9, { 0x3e, 0x1f }, 9, 9 }, { 1.0, { 0x3f, 0x1f }, 10, 10 },
    };
    struct vp_err err = { .text = "" };
    uint64_t sets[2] = { 7, 7 };
    struct vp_graph g;

    (void)state;
    build("bert", 0.1f, &g);
    assert_int_equal(g.blocks[2].n_ops, 6);
    assert_int_equal(g.blocks[3].n_ops, 5);
    assert_int_equal(vp_recompute_n_lines(&g, 2, 2), 10);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        double ratio = cases[i].ratio;

        assert_int_equal(vp_recompute_tail(&g, 2, 2, ratio, sets, &err), VP_OK);
        assert_memory_equal(sets, cases[i].sets, sizeof(sets));
        assert_int_equal(vp_recompute_tail_lines(&g, 2, 2, ratio),
                         cases[i].n_tail);
        assert_int_equal(vp_recompute_count_lines(&g, 2, 2, sets),
                         cases[i].n_lines);
        assert_int_equal(vp_recompute_any(sets, 2), cases[i].n_lines > 0);
    }
    sets[0] = 0x6; /* two operators of one line */
    sets[1] = 0x11;
    assert_int_equal(vp_recompute_count_lines(&g, 2, 2, sets), 3);
    vp_graph_release(&g);
}

static void lines_without_operators_count(void **state)
{
    uint64_t sets[2];
    struct vp_graph g;

    (void)state;
    build("bert", 0.0f, &g);
    assert_int_equal(vp_recompute_n_lines(&g, 2, 2), 10);
    assert_int_equal(vp_recompute_tail(&g, 2, 2, 0.2, sets, NULL), VP_OK);
    assert_int_equal(sets[0], 0);
    assert_int_equal(sets[1], 0x8); /* the sum; without dropout */
    assert_int_equal(vp_recompute_tail_lines(&g, 2, 2, 0.2), 2);
    assert_int_equal(vp_recompute_count_lines(&g, 2, 2, sets), 1);
    vp_graph_release(&g);
}

static void bad_sets_are_refused(void **state)
{
    struct vp_stage_spec spec = { .first_block = 2, .n_blocks = 2 };
    uint64_t sets[] = { 0x3f, 0x20 };
    struct vp_err err = { .text = "" };
    struct vp_program p;
    struct vp_graph g;

    (void)state;
    build("bert", 0.1f, &g);
    spec.recompute = sets;
    assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "recomputation of block 3: the set 0x20 has bits above "
                        "4; the block has 5 operators");
    assert_int_equal(vp_recompute_tail(&g, 2, 2, 1.5, sets, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text, "recompute_ratio 1.5 is outside 0..1");
    assert_string_equal(err.fields, "recompute_ratio");
    assert_int_equal(vp_recompute_tail(&g, 2, 2, -0.1, sets, &err),
                     VP_ERR_INVALID);
    assert_int_equal(sets[1], 0x20); /* written only on success */
    vp_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_gives_the_gradients_of_a_model),
        cmocka_unit_test(every_set_gives_the_gradients_of_a_graph),
        cmocka_unit_test(logits_may_be_a_sum),
        cmocka_unit_test(w_runs_with_b_where_values_go),
        cmocka_unit_test(a_slot_holds_what_the_set_leaves),
        cmocka_unit_test(whole_blocks_save_memory),
        cmocka_unit_test(blocks_in_backward_lower_the_peak),
        cmocka_unit_test(backward_runs_what_r_would),
        cmocka_unit_test(what_leaves_a_block_is_kept),
        cmocka_unit_test(empty_sets_are_no_sets),
        cmocka_unit_test(the_array_may_go),
        cmocka_unit_test(a_tail_is_lowered_as_recorded),
        cmocka_unit_test(a_tail_counts_lines_from_the_end),
        cmocka_unit_test(lines_without_operators_count),
        cmocka_unit_test(bad_sets_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
