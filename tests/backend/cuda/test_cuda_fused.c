/* Fused calls of the CUDA plugin give the results of the same calls made one by
 * one. Skipped where there is no plugin or no device. */
#include "base/halves.h"
#include "lib/cuda_setup.h"
#include "lib/gpulib.h"
#include "lib/one_op.h"
#include "lib/op_modes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* ---- Fused calls -------------------------------------------------------- */

/* The end of a residual branch: out = layernorm(dropout(x) + trunk) with x =
 * linear(few). Of the linear layer only the bias gradient is computed. */
enum { LINEAR, DROPOUT, ADD, LAYERNORM, N_CHAIN };

struct chain {
    char what[160];
    struct vp_graph graph;
    struct vp_mb mb;
    struct image image;
    struct vp_kargs args[N_CHAIN];
    struct tensor *dropped, *out, *again;
};

/* How a chain is called. */
struct chain_mode {
    bool add;       /* gradients are added to their old values */
    bool drop_adds; /* dropout adds to its input gradient */
    bool eval;
    bool plain; /* there is no dropout operator */
};

static void chain_build(struct chain *c, int64_t rows, int64_t cols,
                        enum vp_dtype dtype, bool plain)
{
    struct vp_graph *g = &c->graph;
    vp_val few, x, trunk, sum;
    vp_par weight, bias, gamma, beta;

    vp_graph_init(g, rows % 2 ? 1 : 2);
    g->dtype = dtype;
    vp_graph_block(g, "block");
    vp_graph_line(g);
    trunk = test_matrix(g, "trunk", rows, cols);
    few = test_matrix(g, "few", rows, 4);
    weight = test_param(g, "weight", cols, 4);
    bias = test_param(g, "bias", 1, cols);
    gamma = test_param(g, "gamma", 1, cols);
    beta = test_param(g, "beta", 1, cols);
    x = vp_linear(g, few, weight, bias, VP_ACT_NONE);
    sum = vp_add(g, vp_dropout(g, x, plain ? 0.0f : 0.1f), trunk);
    vp_layernorm(g, sum, gamma, beta, 1e-5f);
    assert_int_equal(g->status, VP_OK);
    assert_int_equal(g->n_ops, N_CHAIN - plain);
}

static const struct vp_op *chain_op(const struct chain *c, int i)
{
    bool plain = c->graph.n_ops < N_CHAIN;

    return &c->graph.ops[plain && i >= DROPOUT ? i - 1 : i];
}

/* Adds a tensor of the chain's shape to the image. It gets its random numbers
 * later, after image_make(). */
static struct tensor *chain_matrix(struct chain *c, const char *name)
{
    const struct vp_value *x = &c->graph.values[0];

    return image_add(&c->image, name, x->rows * x->cols, c->graph.dtype);
}

/* Creates the tensors of the chain and the arguments of its calls. Outputs also
 * hold random numbers before a run, so that a missing call is detected. */
static void chain_make(struct chain *c)
{
    const struct vp_value *value = &c->graph.values[0];
    enum vp_dtype dtype = c->graph.dtype;
    struct image *im = &c->image;
    struct vp_kargs *drop = &c->args[DROPOUT], *sum = &c->args[ADD];
    struct vp_kargs *norm = &c->args[LAYERNORM], *linear = &c->args[LINEAR];
    struct tensor *x = chain_matrix(c, "x"), *trunk = chain_matrix(c, "trunk");
    struct tensor *dropped = chain_matrix(c, "dropped");
    struct tensor *added = chain_matrix(c, "added");
    struct tensor *out = chain_matrix(c, "out"),
                  *dout = chain_matrix(c, "dout");
    struct tensor *dadded = chain_matrix(c, "dadded");
    struct tensor *dx = chain_matrix(c, "dx");
    struct tensor *again = chain_matrix(c, "again");
    struct tensor *stat = image_add(im, "stat", 2 * value->rows, VP_DTYPE_F32);
    struct tensor *gamma = image_add(im, "gamma", value->cols, dtype);
    struct tensor *beta = image_add(im, "beta", value->cols, dtype);
    struct tensor *dgamma = image_add(im, "dgamma", value->cols, VP_DTYPE_F32);
    struct tensor *dbeta = image_add(im, "dbeta", value->cols, VP_DTYPE_F32);
    struct tensor *dbias = image_add(im, "dbias", value->cols, VP_DTYPE_F32);
    struct tensor *scratch[N_CHAIN];

    for (int i = 0; i < N_CHAIN; i++)
        scratch[i] = image_add_scratch(im,
                                       most_scratch(&c->graph, chain_op(c, i)));
    image_make(im);
    for (int i = 0; i < N_CHAIN; i++)
        c->args[i] = (struct vp_kargs){ .graph = &c->graph,
                                        .op = chain_op(c, i),
                                        .mb = &c->mb,
                                        .scratch = image_address(im,
                                                                 scratch[i]) };
    linear->dout = image_address(im, dx);
    linear->dpar[1] = image_address(im, dbias);
    drop->in[0] = image_address(im, x);
    drop->out = image_address(im, dropped);
    c->dropped = dropped;
    sum->in[0] = drop->out;
    sum->in[1] = image_address(im, trunk);
    sum->out = image_address(im, added);
    norm->in[0] = sum->out;
    norm->out = image_address(im, out);
    norm->aux[0] = image_address(im, stat);
    norm->par[0] = image_address(im, gamma);
    norm->par[1] = image_address(im, beta);
    norm->dout = image_address(im, dout);
    norm->din[0] = image_address(im, dadded);
    norm->recomputed_out = image_address(im, again);
    c->out = out;
    c->again = again;
    norm->dpar[0] = image_address(im, dgamma);
    norm->dpar[1] = image_address(im, dbeta);
    drop->dout = norm->din[0];
    drop->din[0] = image_address(im, dx);
}

static void chain_init(struct chain *c, int64_t rows, int64_t cols,
                       enum vp_dtype dtype, struct chain_mode mode)
{
    *c = (struct chain){ 0 };
    c->mb = (struct vp_mb){ .seed = 77,
                            .first_sample = 1000,
                            .loss_grad = 1.0f,
                            .accumulate = mode.add,
                            .train = !mode.eval };
    chain_build(c, rows, cols, dtype, mode.plain);
    chain_make(c);
    if (mode.plain)
        c->args[LINEAR].dout = c->args[LAYERNORM].din[0];
    c->args[LAYERNORM].din_add[0] = mode.add;
    c->args[DROPOUT].din_add[0] = mode.drop_adds;
    for (int i = 0; i < c->image.n_tensors; i++)
        image_fill(&c->image, &c->image.tensors[i], (uint32_t)i);
}

static void chain_release(struct chain *c)
{
    image_free(&c->image);
    vp_graph_release(&c->graph);
}

struct chain_run {
    const char *name;
    int n;
    int op[N_CHAIN];
    enum vp_phase phase[N_CHAIN];
};

static const struct chain_run chain_runs[] = {
    { "dropout, add, layernorm",
      3,
      { DROPOUT, ADD, LAYERNORM },
      { VP_PHASE_F, VP_PHASE_F, VP_PHASE_F } },
    { "dropout, add", 2, { DROPOUT, ADD }, { VP_PHASE_F, VP_PHASE_F } },
    { "add, layernorm", 2, { ADD, LAYERNORM }, { VP_PHASE_F, VP_PHASE_F } },
    { "layernorm B, W",
      2,
      { LAYERNORM, LAYERNORM },
      { VP_PHASE_B, VP_PHASE_W } },
    { "layernorm B, W, dropout B",
      3,
      { LAYERNORM, LAYERNORM, DROPOUT },
      { VP_PHASE_B, VP_PHASE_W, VP_PHASE_B } },
};

/* The fused call also computes the bias gradient and removes it from the
 * arguments of linear W. */
static const struct chain_run bias_run = {
    "layernorm B, W, dropout B, linear W",
    4,
    { LAYERNORM, LAYERNORM, DROPOUT, LINEAR },
    { VP_PHASE_B, VP_PHASE_W, VP_PHASE_B, VP_PHASE_W }
};

static const struct chain_run plain_bias_run = {
    "layernorm B, W, linear W",
    3,
    { LAYERNORM, LAYERNORM, LINEAR },
    { VP_PHASE_B, VP_PHASE_W, VP_PHASE_W }
};

/* Runs calls [first, n) of the run one by one. */
static void run_calls(const struct vp_kargs *args, const struct chain_run *run,
                      int first)
{
    for (int i = first; i < run->n; i++)
        assert_int_equal(gpu.try_call(gpu.backend, &args[i], run->phase[i]),
                         VP_OK);
}

static void chain_args(const struct chain *c, const struct chain_run *run,
                       struct vp_kargs *args_out)
{
    for (int i = 0; i < run->n; i++)
        args_out[i] = c->args[run->op[i]];
}

/* Compares a fused run with the same calls made one by one. Sets `args` to the
 * arguments of the run. Returns the number of calls that were fused. */
static int check_chain(struct chain *c, const struct chain_run *run,
                       struct vp_kargs *args)
{
    int n_done;

    chain_args(c, run, args);
    image_send(&c->image);
    run_calls(args, run, 0);
    image_fetch(&c->image, c->image.again);
    image_send(&c->image);
    n_done = gpu.try_fused(gpu.backend, args, run->phase, run->n);
    assert_in_range(n_done, 0, run->n);
    run_calls(args, run, n_done);
    image_fetch(&c->image, c->image.after);
    image_check_guards(&c->image, c->what);
    /* A fused call need not write a value that only its own next step reads. */
    c->dropped->scratch = run->op[0] == DROPOUT && n_done > 1;
    image_check_same(&c->image, c->image.again, c->what,
                     "differs from the calls one by one");
    c->dropped->scratch = false;
    return n_done;
}

static void name_chain(struct chain *c, const struct chain_run *run,
                       struct chain_mode mode)
{
    const struct vp_value *value = &c->graph.values[0];

    snprintf(c->what, sizeof(c->what), "%s (%s, %dx%d%s%s)", run->name,
             dtype_names[c->graph.dtype], (int)value->rows, (int)value->cols,
             mode.add || mode.drop_adds ? ", added" : "",
             mode.eval ? ", eval" : "");
}

/* Rows of at most 2048 bytes are summed in the order of vp_cuda_column_sums(),
 * so the fused call has to include their bias gradient. */
static void check_bias(struct chain *c, struct chain_mode mode)
{
    const struct vp_value *value = &c->graph.values[0];
    bool must = !mode.eval && !mode.drop_adds && value->cols % 64 == 0 &&
                value->cols * vp_dtype_bytes(c->graph.dtype) <= 2048;
    const struct chain_run *run = mode.plain ? &plain_bias_run : &bias_run;
    struct vp_kargs args[N_CHAIN];

    name_chain(c, run, mode);
    check_chain(c, run, args);
    if (must && args[run->n - 1].dpar[1])
        fail_msg("%s: the bias was left alone", c->what);
}

static void check_chains(int64_t rows, int64_t cols, enum vp_dtype dtype,
                         struct chain_mode mode)
{
    bool must_fuse = cols >= 768 && cols % 64 == 0 && !mode.eval;
    struct chain c;

    chain_init(&c, rows, cols, dtype, mode);
    for (size_t i = 0; i < VP_COUNT_OF(chain_runs) && !mode.plain; i++) {
        const struct chain_run *run = &chain_runs[i];
        /* A dropout that adds to a gradient is not fused. */
        bool alone = mode.drop_adds && run->op[run->n - 1] == DROPOUT;
        struct vp_kargs args[N_CHAIN];
        int n_done;

        name_chain(&c, run, mode);
        n_done = check_chain(&c, run, args);
        if (must_fuse && n_done < run->n - alone)
            fail_msg("%s: only %d of %d calls were fused", c.what, n_done,
                     run->n);
    }
    check_bias(&c, mode);
    chain_release(&c);
}

/* Checks that backward recomputes the output of layer norm bit for bit. */
static void check_again(int64_t rows, int64_t cols, enum vp_dtype dtype)
{
    static const struct chain_run run = { "layernorm F, B",
                                          2,
                                          { LAYERNORM, LAYERNORM },
                                          { VP_PHASE_F, VP_PHASE_B } };
    struct vp_kargs args[N_CHAIN];
    struct chain c;

    chain_init(&c, rows, cols, dtype, (struct chain_mode){ 0 });
    chain_args(&c, &run, args);
    image_send(&c.image);
    run_calls(args, &run, 0);
    image_fetch(&c.image, c.image.after);
    assert_memory_equal(c.image.after + c.out->begin,
                        c.image.after + c.again->begin, c.out->n_bytes);
    chain_release(&c);
}

static void test_fused(void **state)
{
    static const int64_t sizes[][2] = {
        { 1, 1 },   { 3, 5 },    { 7, 37 },    { 33, 64 },   { 9, 770 },
        { 5, 768 }, { 64, 768 }, { 50, 1024 }, { 17, 1600 }, { 2048, 768 },
    };
    static const struct chain_mode chain_modes[] = {
        { 0 },
        { .add = true },
        { .drop_adds = true },
        { .eval = true },
        { .plain = true },
        { .plain = true, .add = true },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
        if (tiny() && sizes[i][0] * sizes[i][1] > 9 * 770)
            continue;
        for (size_t k = 0; k < VP_COUNT_OF(chain_modes); k++) {
            if (tiny() > 1 && k != i % VP_COUNT_OF(chain_modes))
                continue;
            check_chains(sizes[i][0], sizes[i][1], VP_DTYPE_F32,
                         chain_modes[k]);
            check_chains(sizes[i][0], sizes[i][1], VP_DTYPE_BF16,
                         chain_modes[k]);
        }
        check_again(sizes[i][0], sizes[i][1], VP_DTYPE_F32);
        check_again(sizes[i][0], sizes[i][1], VP_DTYPE_BF16);
    }
}

/* ---- Two linear layers -------------------------------------------------- */

/* Backward of linear(gelu(linear(x))): B of the second layer, then B and W of
 * the first. */
enum { FIRST, SECOND, N_LAYERS, N_PAIR_CALLS = 3 };

struct pair {
    char what[80];
    struct vp_graph graph;
    struct vp_mb mb;
    struct image image;
    struct vp_kargs args[N_LAYERS];
    struct tensor *dact;
};

static void pair_build(struct pair *p, int64_t rows, int64_t cols, int64_t wide,
                       enum vp_dtype dtype)
{
    struct vp_graph *g = &p->graph;
    vp_par weight[N_LAYERS], bias[N_LAYERS];
    vp_val x, act;

    vp_graph_init(g, 1);
    g->dtype = dtype;
    vp_graph_block(g, "block");
    vp_graph_line(g);
    x = test_matrix(g, "x", rows, cols);
    weight[FIRST] = test_param(g, "first", wide, cols);
    bias[FIRST] = test_param(g, "first bias", 1, wide);
    weight[SECOND] = test_param(g, "second", cols, wide);
    bias[SECOND] = test_param(g, "second bias", 1, cols);
    act = vp_linear(g, x, weight[FIRST], bias[FIRST], VP_ACT_GELU_ERF);
    vp_linear(g, act, weight[SECOND], bias[SECOND], VP_ACT_NONE);
    assert_int_equal(g->status, VP_OK);
    assert_int_equal(g->n_ops, N_LAYERS);
}

static void pair_make(struct pair *p, int64_t rows, int64_t cols, int64_t wide)
{
    enum vp_dtype dtype = p->graph.dtype;
    struct image *im = &p->image;
    struct vp_kargs *first = &p->args[FIRST], *second = &p->args[SECOND];
    struct tensor *x = image_add(im, "x", rows * cols, dtype);
    struct tensor *z = image_add(im, "z", rows * wide, dtype);
    struct tensor *dy = image_add(im, "dy", rows * cols, dtype);
    struct tensor *dact = image_add(im, "dact", rows * wide, dtype);
    struct tensor *dz = image_add(im, "dz", rows * wide, dtype);
    struct tensor *again = image_add(im, "again", rows * wide, dtype);
    struct tensor *dx = image_add(im, "dx", rows * cols, dtype);
    struct tensor *w1 = image_add(im, "first", wide * cols, dtype);
    struct tensor *w2 = image_add(im, "second", wide * cols, dtype);
    struct tensor *dw1 = image_add(im, "dfirst", wide * cols, VP_DTYPE_F32);
    struct tensor *db1 = image_add(im, "first dbias", wide, VP_DTYPE_F32);
    struct tensor *scratch[N_LAYERS];

    for (int i = 0; i < N_LAYERS; i++)
        scratch[i] = image_add_scratch(
            im, most_scratch(&p->graph, &p->graph.ops[i]));
    image_make(im);
    for (int i = 0; i < N_LAYERS; i++)
        p->args[i] = (struct vp_kargs){ .graph = &p->graph,
                                        .op = &p->graph.ops[i],
                                        .mb = &p->mb,
                                        .scratch = image_address(im,
                                                                 scratch[i]) };
    second->par[0] = image_address(im, w2);
    second->dout = image_address(im, dy);
    second->din[0] = image_address(im, dact);
    first->in[0] = image_address(im, x);
    first->par[0] = image_address(im, w1);
    first->aux[0] = image_address(im, z);
    first->dout = second->din[0];
    first->dz = image_address(im, dz);
    first->recomputed_out = image_address(im, again);
    first->din[0] = image_address(im, dx);
    first->dpar[0] = image_address(im, dw1);
    first->dpar[1] = image_address(im, db1);
    p->dact = dact;
}

static void check_pair(int64_t rows, int64_t cols, int64_t wide,
                       enum vp_dtype dtype, bool add)
{
    static const struct chain_run run = { "linear B, linear B, W",
                                          N_PAIR_CALLS,
                                          { SECOND, FIRST, FIRST },
                                          { VP_PHASE_B, VP_PHASE_B,
                                            VP_PHASE_W } };
    struct vp_kargs args[N_PAIR_CALLS];
    struct pair p = {
        .mb = { .loss_grad = 1.0f, .accumulate = add, .train = true }
    };
    int n_done;

    snprintf(p.what, sizeof(p.what), "%s (%s, %dx%dx%d%s)", run.name,
             dtype_names[dtype], (int)rows, (int)cols, (int)wide,
             add ? ", added" : "");
    pair_build(&p, rows, cols, wide, dtype);
    pair_make(&p, rows, cols, wide);
    for (int i = 0; i < p.image.n_tensors; i++)
        image_fill(&p.image, &p.image.tensors[i], (uint32_t)i);
    for (int i = 0; i < run.n; i++)
        args[i] = p.args[run.op[i]];
    image_send(&p.image);
    run_calls(args, &run, 0);
    image_fetch(&p.image, p.image.again);
    image_send(&p.image);
    n_done = gpu.try_fused(gpu.backend, args, run.phase, run.n);
    assert_in_range(n_done, 0, run.n);
    run_calls(args, &run, n_done);
    image_fetch(&p.image, p.image.after);
    image_check_guards(&p.image, p.what);
    p.dact->scratch = n_done > 0; /* a fused call need not write it */
    image_check_same(&p.image, p.image.again, p.what,
                     "differs from the calls one by one");
    image_free(&p.image);
    vp_graph_release(&p.graph);
}

static void test_two_layers(void **state)
{
    static const int64_t sizes[][3] = {
        { 3, 5, 7 },
        { 4099, 72, 1288 },
        { 4096, 256, 1280 },
    };
    static const enum vp_dtype dtypes[] = { VP_DTYPE_F32, VP_DTYPE_BF16,
                                            VP_DTYPE_F16 };

    (void)state;
    if (tiny() > 1) {
        print_message("skipped: too large for VP_TINY=2\n");
        skip();
    }
    for (size_t i = 0; i < VP_COUNT_OF(sizes); i++)
        for (size_t k = 0; k < VP_COUNT_OF(dtypes); k++)
            for (int add = 0; add < 2; add++)
                check_pair(sizes[i][0], sizes[i][1], sizes[i][2], dtypes[k],
                           add);
}

/* ---- Attention that also computes a bias gradient ----------------------- */

struct bias_case {
    int batch, len, heads;
    bool causal, add;
    float p;
};

/* Builds a linear layer whose output is the input of attention. */
static void bias_build(struct vp_graph *g, const struct bias_case *c,
                       enum vp_dtype dtype)
{
    int64_t rows = (int64_t)c->batch * c->len, cols = 3 * 64 * c->heads;
    vp_val few, x;
    vp_par weight, bias;

    vp_graph_init(g, c->batch);
    g->dtype = dtype;
    vp_graph_block(g, "block");
    vp_graph_line(g);
    few = test_matrix(g, "few", rows, 4);
    weight = test_param(g, "weight", cols, 4);
    bias = test_param(g, "bias", 1, cols);
    x = vp_linear(g, few, weight, bias, VP_ACT_NONE);
    vp_attention(g, x, VP_NONE, VP_NONE, c->heads, c->causal, c->p);
    assert_int_equal(g->status, VP_OK);
}

/* Sets args[0] to attention and args[1] to the linear layer, which computes
 * only its bias gradient. */
static void bias_make(struct image *im, const struct vp_graph *g,
                      const struct vp_mb *mb, struct vp_kargs *args)
{
    const struct vp_op *linear = &g->ops[0], *attention = &g->ops[1];
    const struct vp_value *in = &g->values[linear->out];
    const struct vp_value *value = &g->values[attention->out];
    int64_t n = value->rows * value->cols;
    struct tensor *qkv = image_add(im, "qkv", 3 * n, g->dtype);
    struct tensor *out = image_add(im, "out", n, g->dtype);
    struct tensor *lse = image_add(
        im, "lse", value->rows * attention->attr.heads, VP_DTYPE_F32);
    struct tensor *dout = image_add(im, "dout", n, g->dtype);
    struct tensor *dqkv = image_add(im, "dqkv", 3 * n, g->dtype);
    struct tensor *dbias = image_add(im, "dbias", in->cols, VP_DTYPE_F32);
    struct tensor *scratch[2] = {
        image_add_scratch(im, most_scratch(g, attention)),
        image_add_scratch(im, most_scratch(g, linear)),
    };

    image_make(im);
    for (int i = 0; i < im->n_tensors; i++)
        image_fill(im, &im->tensors[i], (uint32_t)i);
    for (int i = 0; i < 2; i++)
        args[i] = (struct vp_kargs){ .graph = g,
                                     .op = i ? linear : attention,
                                     .mb = mb,
                                     .scratch = image_address(im, scratch[i]) };
    args[0].in[0] = image_address(im, qkv);
    args[0].out = image_address(im, out);
    args[0].aux[0] = image_address(im, lse);
    args[0].dout = image_address(im, dout);
    args[0].din[0] = image_address(im, dqkv);
    args[1].dout = args[0].din[0];
    args[1].dpar[1] = image_address(im, dbias);
}

/* Checks that B of attention also computes the bias gradient of the linear
 * layer, with the bits of the linear layer's W. */
static void check_attention_bias(const struct bias_case *c, enum vp_dtype dtype)
{
    static const enum vp_phase phases[] = { VP_PHASE_B, VP_PHASE_W };
    struct vp_mb mb = { .seed = 77, .accumulate = c->add, .train = true };
    struct image im = { 0 };
    struct vp_graph graph;
    struct vp_kargs args[2];
    char what[80];

    snprintf(what, sizeof(what), "attention and bias (%s, %dx%dx%d)",
             dtype_names[dtype], c->batch, c->len, c->heads);
    bias_build(&graph, c, dtype);
    bias_make(&im, &graph, &mb, args);
    image_send(&im);
    assert_int_equal(gpu.try_call(gpu.backend, &args[0], VP_PHASE_F), VP_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(gpu.try_call(gpu.backend, &args[i], phases[i]), VP_OK);
    image_fetch(&im, im.again);
    image_send(&im);
    assert_int_equal(gpu.try_call(gpu.backend, &args[0], VP_PHASE_F), VP_OK);
    if (gpu.try_fused(gpu.backend, args, phases, 2) != 1 || args[1].dpar[1])
        fail_msg("%s: the bias was left alone", what);
    image_fetch(&im, im.after);
    image_check_guards(&im, what);
    image_check_same(&im, im.again, what, "differs from the calls one by one");
    image_free(&im);
    vp_graph_release(&graph);
}

static void test_attention_bias(void **state)
{
    static const struct bias_case cases[] = {
        { .batch = 1, .len = 64, .heads = 1 },
        { .batch = 1, .len = 128, .heads = 3, .p = 0.1f },
        { .batch = 3, .len = 128, .heads = 2, .p = 0.1f },
        { .batch = 5, .len = 128, .heads = 3, .causal = true },
        { .batch = 40, .len = 128, .heads = 16, .add = true, .p = 0.1f },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        if (tiny() > 1 && cases[i].batch > 1)
            continue;
        check_attention_bias(&cases[i], VP_DTYPE_BF16);
        check_attention_bias(&cases[i], VP_DTYPE_F16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_attention_bias),
        cmocka_unit_test(test_two_layers),
    };
    struct vp_err err = { .text = "" };
    int n_failed;

    if (gpu_open(&err) != VP_OK) {
        print_message("skipped: %s\n", err.text);
        return 0;
    }
    n_failed = cmocka_run_group_tests(tests, start_gpu, stop_gpu);
    gpu_close();
    return n_failed;
}
