/* The time from a model to a plan grows linearly with the number of layers. */
#include "lib/growth.h"
#include "model/model.h"
#include "plan/balance.h"
#include "runtime/fit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_STAGES = 8 };

struct growth_case {
    const char *name, *model, *schedule;
    int n_stages;
    double recompute;
    bool tied, decoder; /* `decoder`: only the decoder grows */
    int replicas;
    int64_t bundle_bytes;
};

static const struct growth_case cases[] = {
    { "one slot", .model = "bert", .schedule = "1f1b", .n_stages = 1 },
    { "versions", .model = "gpt2", .schedule = "pipedream", .n_stages = 3 },
    { "tied and recomputed", .model = "gpt2", .schedule = "1f1b", .n_stages = 1,
      .tied = true, .recompute = 1.0 },
    { "decoder", .model = "translation", .schedule = "1f1b", .n_stages = 1,
      .decoder = true, .tied = true, .recompute = 0.5 },
    { "split", .model = "gpt2", .schedule = "zb-h1", .n_stages = 2 },
    { "replicas", .model = "gpt2", .schedule = "1f1b", .n_stages = 2,
      .replicas = 2, .bundle_bytes = 1024 },
};

static void build(const struct growth_case *c, int n, struct vp_graph *graph)
{
    const struct vp_model *model = vp_model_find(c->model);
    struct vp_model_config sizes = model->sizes[0].config;
    struct vp_dims dims = { .batch = 2, .seq = 8 };
    struct vp_err err = { .text = "" };

    sizes.vocab = 64;
    sizes.hidden = 16;
    sizes.heads = 2;
    sizes.ffn = 32;
    sizes.positions = 8;
    sizes.layers = c->decoder ? 2 : n;
    sizes.decoder_layers = n;
    sizes.tie_embeddings = c->tied;
    if (model->task == VP_TASK_MASKED_LM)
        dims.n_labels = 4;
    if (model->task == VP_TASK_TRANSLATION)
        dims.tgt_seq = 8;
    if (vp_model_build(model, &sizes, &dims, graph, &err) != VP_OK)
        fail_msg("%s", err.text);
}

static void cut(const struct vp_graph *graph, int n_stages, int *partition)
{
    size_t n = (size_t)graph->n_blocks;
    double *costs = calloc(n * (size_t)n_stages, sizeof(*costs));

    assert_non_null(costs);
    for (size_t i = 0; i < n; i++)
        for (size_t s = 0; s < (size_t)n_stages; s++)
            costs[s * n + i] = vp_graph_flops(graph, (int)i, 1);
    assert_int_equal(vp_plan_balance(costs, (int)n, n_stages, partition),
                     VP_OK);
    free(costs);
}

static void plan_model(void *ctx, int n)
{
    const struct growth_case *c = ctx;
    int partition[MAX_STAGES], replicas[MAX_STAGES];
    double ratios[MAX_STAGES];
    struct vp_train_config config;
    struct vp_priced_plan priced;
    struct vp_err err = { .text = "" };
    struct vp_graph graph;

    build(c, n, &graph);
    cut(&graph, c->n_stages, partition);
    for (int s = 0; s < c->n_stages; s++) {
        ratios[s] = c->recompute;
        replicas[s] = c->replicas > 0 ? c->replicas : 1;
    }
    config = (struct vp_train_config){
        .graphs = &graph,
        .n_graphs = 1,
        .backend = &vp_backend_cpu,
        .backend_config = { .n_threads = 1, .plan_only = true },
        .optim = vp_optim_defaults(VP_OPTIM_ADAMW),
        .plan.schedule = c->schedule,
        .plan.n_stages = c->n_stages,
        .plan.partition = partition,
        .plan.recompute_ratio = ratios,
        .plan.replicas = replicas,
        .plan.accumulation_steps = c->n_stages,
        .plan.bundle_bytes = c->bundle_bytes,
        .spread = true,
    };
    if (vp_priced_plan_make(&config, &priced, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_priced_plan_release(&priced);
    vp_graph_release(&graph);
}

static void models_of_many_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct growth_case c = cases[i];

        assert_grows_slowly(c.name, plan_model, &c, 1000);
    }
}

/* Gradients share memory with other values, as on a GPU. */
static void lower_with_shared_gradients(void *ctx, int n)
{
    const struct growth_case *c = ctx;
    struct vp_stage_spec spec = { .one_slot = true, .grad_linger = 8192 };
    struct vp_program program;
    struct vp_err err = { .text = "" };
    struct vp_graph graph;

    build(c, n, &graph);
    spec.n_blocks = graph.n_blocks;
    if (vp_program_lower(&graph, &spec, NULL, NULL, &program, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_program_release(&program);
    vp_graph_release(&graph);
}

static void shared_gradients_of_many_layers(void **state)
{
    struct growth_case c = cases[2];

    (void)state;
    assert_grows_slowly("shared gradients", lower_with_shared_gradients, &c,
                        1000);
}

static void lower_graph(struct vp_graph *g, vp_val x)
{
    struct vp_stage_spec spec = { .n_blocks = g->n_blocks };
    struct vp_program program;
    struct vp_err err = { .text = "" };

    vp_cross_entropy(g, x, vp_graph_input(g, VP_ROLE_LABELS, "labels", 1),
                     VP_NONE, 0.0f);
    if (vp_graph_finish(g, &err) != VP_OK ||
        vp_program_lower(g, &spec, NULL, NULL, &program, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_program_release(&program);
    vp_graph_release(g);
}

static void begin_block(struct vp_graph *g)
{
    vp_graph_block(g, "block");
    vp_graph_line(g);
}

static vp_val begin_graph(struct vp_graph *g)
{
    vp_graph_init(g, 1);
    begin_block(g);
    return vp_embed(g, vp_graph_input(g, VP_ROLE_TOKENS, "ids", 1), VP_NONE,
                    vp_graph_param(g, "table", 4, 4, VP_INIT_ZERO, 0.0f),
                    VP_NONE, VP_NONE, 1.0f, -1);
}

/* A residual network: all values of its trunk share one gradient. */
static void lower_trunk(void *ctx, int n)
{
    struct vp_graph g;
    vp_val x = begin_graph(&g);

    (void)ctx;
    for (int i = 0; i < n; i++) {
        begin_block(&g);
        x = vp_add(&g, vp_scale(&g, vp_scale(&g, x, 0.5f), 0.5f), x);
    }
    lower_graph(&g, x);
}

static void long_trunk(void **state)
{
    (void)state;
    assert_grows_slowly("trunk", lower_trunk, NULL, 10000);
}

/* Backward recomputes the output of the layer norm. The weight gradients of all
 * its readers wait for that. */
static void lower_readers(void *ctx, int n)
{
    struct vp_graph g;
    vp_val x = begin_graph(&g);
    vp_val y = vp_layernorm(
        &g, x, vp_graph_param(&g, "gamma", 1, 4, VP_INIT_ONE, 0),
        vp_graph_param(&g, "beta", 1, 4, VP_INIT_ZERO, 0), 1e-5f);

    (void)ctx;
    for (int i = 0; i < n; i++) {
        begin_block(&g);
        x = vp_add(&g,
                   vp_linear(&g, y,
                             vp_graph_param(&g, "w", 4, 4, VP_INIT_ZERO, 0),
                             VP_NONE, VP_ACT_NONE),
                   x);
    }
    lower_graph(&g, x);
}

static void many_readers(void **state)
{
    (void)state;
    assert_grows_slowly("readers", lower_readers, NULL, 10000);
}

/* Cross-attention of every decoder layer reads the encoder's output, which
 * backward recomputes at the end. The weight gradients that wait for it keep
 * their order. */
static void waiting_calls_keep_their_order(void **state)
{
    struct vp_stage_spec spec = { .first_block = 0 };
    struct growth_case c = cases[3];
    struct vp_program program;
    struct vp_err err = { .text = "" };
    struct vp_graph graph;
    int n_pairs = 0;

    (void)state;
    build(&c, 5, &graph);
    spec.n_blocks = graph.n_blocks;
    if (vp_program_lower(&graph, &spec, NULL, NULL, &program, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int i = 1; i < program.n_calls[VP_LIST_B]; i++) {
        const struct vp_call *a = &program.calls[VP_LIST_B][i - 1];
        const struct vp_call *b = a + 1;

        if (a->phase != VP_PHASE_W || b->phase != VP_PHASE_W ||
            a->op->in[0] != b->op->in[0])
            continue;
        assert_true(a->op->id > b->op->id);
        n_pairs++;
    }
    assert_int_equal(n_pairs, 4);
    vp_program_release(&program);
    vp_graph_release(&graph);
}

static void balance_blocks(void *ctx, int n)
{
    int n_stages = *(int *)ctx, partition[64], sum = 0;
    size_t n_costs = (size_t)n * (size_t)n_stages;
    double *costs = calloc(n_costs, sizeof(*costs));

    assert_non_null(costs);
    for (size_t i = 0; i < n_costs; i++)
        costs[i] = i % (size_t)n == (size_t)n - 1 ? 40.0
                                                  : 1.0 + (double)(i % 2);
    assert_int_equal(vp_plan_balance(costs, n, n_stages, partition), VP_OK);
    for (int s = 0; s < n_stages; s++)
        sum += partition[s];
    assert_int_equal(sum, n);
    free(costs);
}

static void cuts_of_many_blocks(void **state)
{
    static const int n_stages[] = { 1, 4, 63 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(n_stages); i++) {
        int n = n_stages[i];

        assert_grows_slowly("cuts", balance_blocks, &n, 5000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_of_many_layers),
        cmocka_unit_test(shared_gradients_of_many_layers),
        cmocka_unit_test(long_trunk),
        cmocka_unit_test(many_readers),
        cmocka_unit_test(waiting_calls_keep_their_order),
        cmocka_unit_test(cuts_of_many_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
