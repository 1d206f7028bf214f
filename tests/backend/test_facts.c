/* A plan can be made for a GPU that is absent: the scratch memory of every
 * operator's kernels and the constants of the device are those of the
 * plugin. */
#include "backend/cuda_facts.h"
#include "backend/facts.h"
#include "backend/planned.h"
#include "backend/plugin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { VOCAB = 512 };

/* One operator on rows of `batch` samples of `len` positions. */
struct op_case {
    const char *name;
    enum vp_op_kind kind;
    enum vp_dtype dtype;
    int64_t batch, len, cols;
    /* Linear: columns of the result. Cross entropy: number of logits. Embed:
     * rows of the table of types, 0: none. Attention: keys of a sample in a
     * second input, 0: the input is packed. */
    int64_t n;
    int heads; /* linear: those of the attention that reads it; 0: none */
    enum vp_act act;
    bool causal, mask;
    float p;
    size_t want[2][VP_PHASE_COUNT]; /* capability 8.0, 9.0 */
};

static vp_par weight(struct vp_graph *g, int64_t rows, int64_t cols)
{
    return vp_graph_param(g, "w", rows, cols, VP_INIT_NORMAL, 0.02f);
}

static vp_val rows_of(struct vp_graph *g, int64_t rows, int64_t cols,
                      int64_t n_types)
{
    vp_val ids = vp_graph_input(g, VP_ROLE_TOKENS, "ids", rows);
    vp_val types = n_types ? vp_graph_input(g, VP_ROLE_TYPES, "types", rows)
                           : VP_NONE;

    return vp_embed(g, ids, types, weight(g, VOCAB, cols), VP_NONE,
                    n_types ? weight(g, n_types, cols) : VP_NONE, 1.0f, -1);
}

static vp_val project(struct vp_graph *g, vp_val x, int64_t n, enum vp_act act)
{
    return vp_linear(g, x, weight(g, n, g->values[x].cols), weight(g, 1, n),
                     act);
}

static void attend(struct vp_graph *g, const struct op_case *c, vp_val x)
{
    int64_t k_len = c->n ? c->n : c->len;
    vp_val q = project(g, x, c->n ? c->cols : 3 * c->cols, VP_ACT_NONE);
    vp_val mask = c->mask ? vp_graph_input(g, VP_ROLE_MASK, "mask",
                                           c->batch * k_len)
                          : VP_NONE;
    vp_val kv = c->n ? rows_of(g, c->batch * k_len, 2 * c->cols, 0) : VP_NONE;

    vp_attention(g, q, kv, mask, c->heads, c->causal, c->p);
}

/* Builds the operator and the operators that make its input. */
static void build(struct vp_graph *g, const struct op_case *c)
{
    int64_t rows = c->batch * c->len;
    vp_val x;

    vp_graph_init(g, c->batch);
    g->dtype = c->dtype;
    vp_graph_block(g, "block");
    vp_graph_line(g);
    x = rows_of(g, rows, c->cols, c->kind == VP_OP_EMBED ? c->n : 0);
    switch (c->kind) {
    case VP_OP_LINEAR:
        if (c->heads)
            attend(g, c, x);
        else
            project(g, x, c->n, c->act);
        break;
    case VP_OP_LAYERNORM:
        vp_layernorm(g, x, weight(g, 1, c->cols), weight(g, 1, c->cols), 1e-5f);
        break;
    case VP_OP_ATTENTION:
        attend(g, c, x);
        break;
    case VP_OP_DROPOUT:
        vp_dropout(g, x, 0.1f);
        break;
    case VP_OP_ADD:
        vp_add(g, x, x);
        break;
    case VP_OP_SCALE:
        vp_scale(g, x, 2.0f);
        break;
    case VP_OP_GATHER:
        vp_gather(g, x,
                  vp_graph_input(g, VP_ROLE_LABEL_ROWS, "rows", c->batch));
        break;
    case VP_OP_CROSS_ENTROPY:
        vp_cross_entropy(g, project(g, x, c->n, VP_ACT_NONE),
                         vp_graph_input(g, VP_ROLE_LABELS, "labels", rows),
                         VP_NONE, 0.0f);
        break;
    default:
        break;
    }
    if (g->status != VP_OK)
        fail_msg("%s: %s", c->name, g->err.text);
}

/* Returns the last operator of `kind`. */
static const struct vp_op *find_op(const struct vp_graph *g,
                                   enum vp_op_kind kind)
{
    for (int i = g->n_ops - 1; i >= 0; i--)
        if (g->ops[i].kind == kind)
            return &g->ops[i];
    fail();
    return NULL;
}

#define BF16 VP_DTYPE_BF16
#define F16 VP_DTYPE_F16
#define F32 VP_DTYPE_F32

enum { WORK = 33554432 };

/* Expected bytes. They were recorded from an earlier plugin, whose kernel files
 * had these rules: once with a CUDA runtime without a GPU, where the rules of
 * 8.0 applied, and once with a runtime that reports 9.0. */
static const struct op_case cases[] = {
    { "embed", VP_OP_EMBED, F32, 2, 7, 20,
      .want = { { 0, 0, 2098688 }, { 0, 0, 2098688 } } },
    { "embed, types", VP_OP_EMBED, BF16, 8, 512, 1024, .n = 2,
      .want = { { 0, 0, 4325376 }, { 0, 0, 4325376 } } },
    { "embed, few rows, types", VP_OP_EMBED, F16, 1, 16, 32, .n = 3,
      .want = { { 0, 0, 2196736 }, { 0, 0, 2196736 } } },
    { "embed, long", VP_OP_EMBED, BF16, 64, 1024, 768,
      .want = { { 0, 0, 16777216 }, { 0, 0, 16777216 } } },
    { "linear, little", VP_OP_LINEAR, F32, 2, 7, 20, .n = 12,
      .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "linear, large", VP_OP_LINEAR, BF16, 64, 512, 1024, .n = 50304,
      .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "linear, large, relu", VP_OP_LINEAR, F16, 64, 512, 1024, .n = 100000,
      .act = VP_ACT_RELU,
      .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "linear, gelu erf in tiles", VP_OP_LINEAR, BF16, 32, 2048, 1024,
      .n = 25600, .act = VP_ACT_GELU_ERF,
      .want = { { WORK, 52428800, 52428800 }, { WORK, 52428800, 52428800 } } },
    { "linear, gelu tanh", VP_OP_LINEAR, BF16, 32, 2048, 1024, .n = 25600,
      .act = VP_ACT_GELU_TANH,
      .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "linear, gelu erf, few columns", VP_OP_LINEAR, BF16, 2048, 1024, 256,
      .n = 1024, .act = VP_ACT_GELU_ERF,
      .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "linear, gelu erf, a column more", VP_OP_LINEAR, BF16, 2048, 1024, 256,
      .n = 1025, .act = VP_ACT_GELU_ERF,
      .want = { { WORK, 67174400, 67174400 }, { WORK, 67174400, 67174400 } } },
    { "linear, gelu erf, 4095 rows", VP_OP_LINEAR, F32, 4095, 1, 256,
      .n = 300000, .act = VP_ACT_GELU_ERF,
      .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "linear, gelu erf, 4096 rows", VP_OP_LINEAR, F32, 4096, 1, 256,
      .n = 300000, .act = VP_ACT_GELU_ERF,
      .want = { { WORK, 38400000, 38400000 }, { WORK, 38400000, 38400000 } } },
    { "linear for attention, in tiles", VP_OP_LINEAR, BF16, 2048, 128, 1024,
      .heads = 16,
      .want = { { WORK, WORK, WORK }, { WORK, 50331648, 50331648 } } },
    { "linear for attention of 80", VP_OP_LINEAR, BF16, 2048, 128, 1280,
      .heads = 16, .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "linear for attention of 100", VP_OP_LINEAR, F16, 2048, 100, 1024,
      .heads = 16, .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "linear for attention of 256", VP_OP_LINEAR, F16, 1024, 256, 1024,
      .heads = 16, .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "linear for attention, F32", VP_OP_LINEAR, F32, 2048, 128, 1024,
      .heads = 16, .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "layer norm, little", VP_OP_LAYERNORM, F32, 2, 7, 20,
      .want = { { 0, 0, 1024 }, { 0, 0, 1024 } } },
    { "layer norm", VP_OP_LAYERNORM, BF16, 8, 512, 1024,
      .want = { { 0, 0, 1572864 }, { 0, 0, 1572864 } } },
    { "layer norm, one row", VP_OP_LAYERNORM, F16, 1, 1, 4096,
      .want = { { 0, 0, 49152 }, { 0, 0, 49152 } } },
    { "layer norm, long", VP_OP_LAYERNORM, BF16, 64, 1024, 1280,
      .want = { { 0, 0, 2027520 }, { 0, 0, 2027520 } } },
    { "attention, F32", VP_OP_ATTENTION, F32, 4, 128, 1024, .heads = 16,
      .want = { { 0, 32768, 0 }, { 0, 32768, 0 } } },
    { "attention, short", VP_OP_ATTENTION, BF16, 8, 128, 1024, .heads = 16,
      .p = 0.1f, .want = { { 0, 65536, 0 }, { 0, 196608, 0 } } },
    { "attention, short, no dropout", VP_OP_ATTENTION, BF16, 8, 128, 1024,
      .heads = 16,
      .want = { { 1048576, 5373952, 1048576 }, { 1048576, 196608, 1048576 } } },
    { "attention, short, 100", VP_OP_ATTENTION, F16, 8, 100, 1024, .heads = 16,
      .p = 0.1f, .mask = true, .want = { { 0, 51200, 0 }, { 0, 0, 0 } } },
    { "attention, 64", VP_OP_ATTENTION, F16, 3, 64, 768, .heads = 12, .p = 0.1f,
      .want = { { 0, 9216, 0 }, { 0, 27648, 0 } } },
    { "attention, 512", VP_OP_ATTENTION, BF16, 8, 512, 1024, .heads = 16,
      .p = 0.1f, .mask = true, .want = { { 0, 262144, 0 }, { 0, 0, 0 } } },
    { "attention, 513", VP_OP_ATTENTION, BF16, 8, 513, 1024, .heads = 16,
      .want = { { 0, 262656, 0 }, { 0, 41943040, 0 } } },
    { "attention, 1024", VP_OP_ATTENTION, BF16, 4, 1024, 1024, .heads = 16,
      .p = 0.1f, .want = { { 0, 262144, 0 }, { 0, 33554432, 0 } } },
    { "attention, 1024, causal", VP_OP_ATTENTION, F16, 4, 1024, 1024,
      .heads = 16, .causal = true,
      .want = { { 1048576, 135790592, 1048576 },
                { 1048576, 16777216, 1048576 } } },
    { "attention, 1024, causal, dropout", VP_OP_ATTENTION, BF16, 4, 1024, 1024,
      .heads = 16, .causal = true, .p = 0.1f,
      .want = { { 0, 262144, 0 }, { 0, 16777216, 0 } } },
    { "attention, 1025", VP_OP_ATTENTION, BF16, 4, 1025, 1024, .heads = 16,
      .want = { { 0, 262400, 0 }, { 0, 262400, 0 } } },
    { "attention, 2048, cuDNN", VP_OP_ATTENTION, BF16, 2, 2048, 1024,
      .heads = 16, .causal = true,
      .want = { { 1048576, 270008320, 1048576 },
                { 1048576, 270008320, 1048576 } } },
    { "attention, 2048, dropout", VP_OP_ATTENTION, BF16, 2, 2048, 1024,
      .heads = 16, .causal = true, .p = 0.1f,
      .want = { { 0, 262144, 0 }, { 0, 262144, 0 } } },
    { "attention, heads of 80", VP_OP_ATTENTION, BF16, 4, 1024, 2560,
      .heads = 32, .causal = true,
      .want = { { 1048576, 270532608, 1048576 },
                { 1048576, 270532608, 1048576 } } },
    { "attention, heads of 128", VP_OP_ATTENTION, F16, 4, 512, 1024, .heads = 8,
      .want = { { 1048576, 17956864, 1048576 },
                { 1048576, 17956864, 1048576 } } },
    { "attention, heads of 136", VP_OP_ATTENTION, F16, 4, 512, 1088, .heads = 8,
      .want = { { 0, 65536, 0 }, { 0, 65536, 0 } } },
    { "attention, heads of 20", VP_OP_ATTENTION, BF16, 4, 256, 60, .heads = 3,
      .want = { { 0, 12288, 0 }, { 0, 12288, 0 } } },
    { "attention across", VP_OP_ATTENTION, BF16, 4, 96, 512, .n = 128,
      .heads = 8, .p = 0.1f, .want = { { 0, 12288, 0 }, { 0, 0, 0 } } },
    { "attention across, 1024 and 4096 keys", VP_OP_ATTENTION, BF16, 2, 1024,
      512, .n = 4096, .heads = 8, .p = 0.1f,
      .want = { { 0, 65536, 0 }, { 0, 33554432, 0 } } },
    { "attention across, 4097 keys", VP_OP_ATTENTION, BF16, 2, 1024, 512,
      .n = 4097, .heads = 8, .p = 0.1f,
      .want = { { 0, 65536, 0 }, { 0, 65536, 0 } } },
    { "attention across, 32769 keys", VP_OP_ATTENTION, F16, 1, 128, 128,
      .n = 32769, .heads = 2, .want = { { 0, 1024, 0 }, { 0, 1024, 0 } } },
    { "attention across, 256 keys, cuDNN", VP_OP_ATTENTION, F16, 4, 2048, 512,
      .n = 256, .heads = 8,
      .want = { { 1048576, 35127296, 1048576 },
                { 1048576, 35127296, 1048576 } } },
    { "attention, mask", VP_OP_ATTENTION, F16, 2, 2048, 512, .heads = 8,
      .mask = true, .want = { { 0, 131072, 0 }, { 0, 131072, 0 } } },
    { "attention across, 32768 keys", VP_OP_ATTENTION, F16, 1, 128, 128,
      .n = 32768, .heads = 2,
      .want = { { 1048576, 17827840, 1048576 },
                { 1048576, 17827840, 1048576 } } },
    { "linear for attention across", VP_OP_LINEAR, BF16, 2048, 128, 3072,
      .n = 128, .heads = 48,
      .want = { { WORK, WORK, WORK }, { WORK, WORK, WORK } } },
    { "dropout", VP_OP_DROPOUT, BF16, 8, 512, 1024,
      .want = { { 0, 0, 0 }, { 0, 0, 0 } } },
    { "add", VP_OP_ADD, BF16, 8, 512, 1024,
      .want = { { 0, 0, 0 }, { 0, 0, 0 } } },
    { "scale", VP_OP_SCALE, F16, 8, 512, 1024,
      .want = { { 0, 0, 0 }, { 0, 0, 0 } } },
    { "gather", VP_OP_GATHER, F32, 8, 512, 1024,
      .want = { { 0, 0, 0 }, { 0, 0, 0 } } },
    { "cross entropy", VP_OP_CROSS_ENTROPY, BF16, 8, 512, 256, .n = 50304,
      .want = { { 0, 256, 0 }, { 0, 256, 0 } } },
    { "cross entropy, F32", VP_OP_CROSS_ENTROPY, F32, 1, 3, 8, .n = 5,
      .want = { { 0, 256, 0 }, { 0, 256, 0 } } },
};

enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };

/* ---- Scratch memory ----------------------------------------------------- */

static void expect_bytes(const struct vp_backend_ops *ops,
                         const struct op_case *c, int capability,
                         const size_t *want)
{
    const struct vp_backend_config config = { .plan_only = true,
                                              .capability = capability };
    struct vp_device_facts facts = vp_backend_facts(ops, &config);
    struct vp_graph g;

    build(&g, c);
    for (int phase = 0; phase < VP_PHASE_COUNT; phase++) {
        size_t got = facts.scratch(facts.scratch_ctx, &g, find_op(&g, c->kind),
                                   (enum vp_phase)phase);

        if (got != want[phase])
            fail_msg("%s, capability %d, phase %d: %zu bytes, not %zu", c->name,
                     capability, phase, got, want[phase]);
    }
    vp_graph_release(&g);
}

static void scratch_is_as_recorded(void **state)
{
    const struct vp_backend_ops *gpu = vp_backend_planned("cuda");

    (void)state;
    for (int i = 0; i < N_CASES; i++) {
        expect_bytes(gpu, &cases[i], 80, cases[i].want[0]);
        expect_bytes(gpu, &cases[i], 89, cases[i].want[0]);
        expect_bytes(gpu, &cases[i], 90, cases[i].want[1]);
        /* Later GPUs do not have the instructions of 9.0. */
        expect_bytes(gpu, &cases[i], 100, cases[i].want[0]);
        /* The default for an unknown capability. */
        expect_bytes(gpu, &cases[i], 0, cases[i].want[1]);
    }
}

static const struct vp_backend_ops *load_plugin(void)
{
    const struct vp_backend_ops *plugin = NULL;
    struct vp_err why = { .text = "" };

    if (vp_backend_load("cuda", &plugin, &why) != VP_OK) {
        print_message("skipped: %s\n", why.text);
        skip();
    }
    return plugin;
}

static void plugin_has_the_same_scratch(void **state)
{
    const struct vp_backend_ops *plugin = load_plugin();

    (void)state;
    for (int i = 0; i < N_CASES; i++) {
        expect_bytes(plugin, &cases[i], 80, cases[i].want[0]);
        expect_bytes(plugin, &cases[i], 90, cases[i].want[1]);
        if (plugin->n_devices(NULL) == 0)
            expect_bytes(plugin, &cases[i], 0, cases[i].want[1]);
    }
}

/* ---- Function tables for planning --------------------------------------- */

static void tables_are_found_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(vp_backend_planned("cpu"), &vp_backend_cpu);
    assert_string_equal(vp_backend_planned("cuda")->name, "cuda");
    assert_null(vp_backend_planned("cud"));
    assert_null(vp_backend_planned("cuda2"));
}

static void facts_of_a_gpu_need_no_plugin(void **state)
{
    const struct vp_backend_config config = { .plan_only = true };
    struct vp_device_facts facts = vp_backend_facts(vp_backend_planned("cuda"),
                                                    &config);

    (void)state;
    assert_false(facts.host_memory);
    assert_true(facts.updates_early);
    assert_int_equal(facts.w_linger, 6);
    assert_int_equal(facts.grad_linger, 64 << 20);
    assert_ptr_equal(facts.scratch_ctx, &config);
    facts = vp_backend_facts(vp_backend_planned("cpu"), &config);
    assert_true(facts.host_memory);
    assert_false(facts.updates_early);
    assert_int_equal(facts.grad_linger, 0);
}

static void plugin_has_the_same_facts(void **state)
{
    const struct vp_backend_ops *plugin = load_plugin();
    const struct vp_backend_ops *planned = vp_backend_planned("cuda");

    (void)state;
    assert_int_equal(plugin->device->host_memory, planned->device->host_memory);
    assert_int_equal(plugin->updates_early, planned->updates_early);
    assert_int_equal(plugin->w_linger, planned->w_linger);
    assert_int_equal(plugin->grad_linger, planned->grad_linger);
}

static void without_a_plugin_gpus_only_plan(void **state)
{
    const struct vp_backend_ops *gpu = vp_backend_planned("cuda");
    struct vp_backend_config config = { .plan_only = true };
    struct vp_backend *backend = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(gpu->n_devices(&err), 0);
    assert_string_equal(err.text, "the plugin for GPUs is not loaded");
    assert_int_equal(gpu->n_devices(NULL), 0);
    assert_int_equal(vp_backend_open(gpu, &config, &backend, &err), VP_OK);
    assert_false(vp_device_has_host_memory(vp_backend_device(backend)));
    gpu->close(backend);
    config.plan_only = false;
    backend = NULL;
    assert_int_equal(vp_backend_open(gpu, &config, &backend, &err),
                     VP_ERR_UNSUPPORTED);
    assert_null(backend);
    assert_string_equal(err.text, "device cuda: the plugin for GPUs is not "
                                  "loaded; use device: cpu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scratch_is_as_recorded),
        cmocka_unit_test(plugin_has_the_same_scratch),
        cmocka_unit_test(tables_are_found_by_name),
        cmocka_unit_test(facts_of_a_gpu_need_no_plugin),
        cmocka_unit_test(plugin_has_the_same_facts),
        cmocka_unit_test(without_a_plugin_gpus_only_plan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
