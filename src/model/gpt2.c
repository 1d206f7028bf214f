/* GPT-2 (Radford et al., 2019) and CPM, its Chinese sibling: pre-LN decoder.
 *
 * Block 0 is the embedding, then attention and MLP alternate, the last is the
 * final layer norm and the output layer. Rows need no padding mask: padding
 * stands at the end, where causal attention cannot see it. With a cache the rows
 * of a sample are new positions of its text, wherever they begin.
 * B: batch, S: sequence, H: hidden, F: ffn, V: vocab. */
#include "model/build.h"
#include "model/model.h"

#include <math.h>

#define INIT_STD 0.02f

struct gpt2 {
    struct vp_graph *graph;
    const struct vp_model_config *config;
    const struct vp_dims *dims;
    vp_val at, lines;   /* with a cache; else VP_NONE */
    float residual_std; /* of projections that end in a residual */
};

int64_t vp_gpt2_blocks(const struct vp_model_config *config)
{
    return 2 * config->layers + 2;
}

static const char *layer_name(const struct gpt2 *m, int64_t layer,
                              const char *part)
{
    return vp_graph_name(m->graph, "transformer.h.%lld.%s", (long long)layer,
                         part);
}

/* Hugging Face keeps GPT-2's layers as Conv1D: weights are [in, out]. */
static vp_val conv1d(const struct gpt2 *m, vp_val x, const char *name,
                     struct vp_dense layer)
{
    layer.bias = layer.stored_transposed = true;
    return vp_build_linear(m->graph, x, &layer, &name, 1);
}

static vp_val layernorm(const struct gpt2 *m, vp_val x, const char *name)
{
    return vp_build_layernorm(m->graph, x, name, m->config->hidden,
                              m->config->eps);
}

static vp_val attend(const struct gpt2 *m, vp_val qkv)
{
    const struct vp_model_config *c = m->config;

    if (m->lines != VP_NONE)
        return vp_cached_attention(m->graph, qkv, m->at, m->lines,
                                   (int)c->heads, m->graph->cache.n_lines);
    return vp_attention(m->graph, qkv, VP_NONE, VP_NONE,
                        vp_build_heads(m->graph, c->heads), true,
                        c->attention_dropout);
}

/* LN, attention with its projection and dropout, "+": three lines. */
static vp_val attention(const struct gpt2 *m, vp_val x, int64_t layer)
{
    const struct vp_model_config *c = m->config;
    struct vp_graph *g = m->graph;
    vp_val y;

    vp_graph_line(g);
    y = layernorm(m, x, layer_name(m, layer, "ln_1"));
    vp_graph_line(g);
    y = conv1d(m, y, layer_name(m, layer, "attn.c_attn"),
               (struct vp_dense){ .in = c->hidden,
                                  .out = 3 * c->hidden,
                                  .std = INIT_STD,
                                  .slice = VP_SLICE_ROWS,
                                  .n_sections = 3 });
    y = attend(m, y);
    y = conv1d(m, y, layer_name(m, layer, "attn.c_proj"),
               (struct vp_dense){ .in = c->hidden,
                                  .out = c->hidden,
                                  .std = m->residual_std,
                                  .slice = VP_SLICE_COLS });
    y = vp_dropout(g, y, c->dropout);
    vp_graph_line(g);
    return vp_add(g, y, x);
}

/* LN, MLP with its dropout, "+": three lines. */
static vp_val mlp(const struct gpt2 *m, vp_val x, int64_t layer)
{
    const struct vp_model_config *c = m->config;
    struct vp_graph *g = m->graph;
    vp_val y;

    vp_graph_line(g);
    y = layernorm(m, x, layer_name(m, layer, "ln_2"));
    vp_graph_line(g);
    y = conv1d(m, y, layer_name(m, layer, "mlp.c_fc"),
               (struct vp_dense){ .in = c->hidden,
                                  .out = c->ffn,
                                  .std = INIT_STD,
                                  .act = c->act,
                                  .slice = VP_SLICE_ROWS });
    y = conv1d(m, y, layer_name(m, layer, "mlp.c_proj"),
               (struct vp_dense){ .in = c->ffn,
                                  .out = c->hidden,
                                  .std = m->residual_std,
                                  .slice = VP_SLICE_COLS });
    y = vp_dropout(g, y, c->dropout);
    vp_graph_line(g);
    return vp_add(g, y, x);
}

/* Final LN, output layer: two lines. */
static void head(const struct gpt2 *m, vp_val x, vp_par word_table)
{
    const struct vp_model_config *c = m->config;
    struct vp_graph *g = m->graph;
    vp_val labels = vp_build_labels(g, m->dims);
    vp_par weight;

    vp_graph_line(g);
    x = layernorm(m, vp_build_rows(g, x, m->dims), "transformer.ln_f");
    vp_graph_line(g);
    if (c->tie_embeddings)
        weight = vp_graph_tied(g, word_table);
    else
        weight = vp_build_table(g, "lm_head.weight", c->vocab, c->hidden,
                                INIT_STD);
    x = vp_linear(g, vp_all_gather(g, x), weight, VP_NONE, VP_ACT_NONE);
    vp_build_end(g, x, labels, c->label_smoothing);
}

static vp_val embed(const struct gpt2 *m, vp_val ids, vp_par words,
                    vp_par positions)
{
    if (m->at != VP_NONE)
        return vp_embed_at(m->graph, ids, m->at, words, positions, 1.0f, -1);
    return vp_embed(m->graph, ids, VP_NONE, words, positions, VP_NONE, 1.0f,
                    -1);
}

void vp_gpt2_build(const struct vp_model_config *config,
                   const struct vp_dims *dims, struct vp_graph *graph)
{
    struct gpt2 m = { .graph = graph,
                      .config = config,
                      .dims = dims,
                      .at = VP_NONE,
                      .lines = VP_NONE };
    vp_val ids = vp_graph_input(graph, VP_ROLE_TOKENS, "tokens",
                                vp_dims_role(dims, VP_ROLE_TOKENS));
    vp_par words, positions;
    vp_val x;

    if (graph->cache.n_lines > 0) {
        m.at = vp_graph_input(graph, VP_ROLE_POSITIONS, "positions",
                              dims->batch * dims->seq);
        m.lines = vp_graph_input(graph, VP_ROLE_LINES, "lines",
                                 dims->batch * graph->cache.n_positions);
    }
    m.residual_std = (float)(INIT_STD / sqrt(2.0 * (double)config->layers));
    vp_graph_block(graph, "embeddings");
    vp_graph_line(graph);
    words = vp_build_table(graph, "transformer.wte.weight", config->vocab,
                           config->hidden, INIT_STD);
    positions = vp_graph_param(graph, "transformer.wpe.weight",
                               config->positions, config->hidden,
                               VP_INIT_NORMAL, INIT_STD);
    x = vp_group_sum(graph, embed(&m, ids, words, positions), VP_NONE);
    vp_build_lines(graph, 2); /* positions, "+" */
    for (int64_t i = 0; i < config->layers; i++) {
        vp_graph_block(graph,
                       vp_graph_name(graph, "attention %lld", (long long)i));
        if (i == 0) {
            vp_graph_line(graph);
            x = vp_dropout(graph, x, config->dropout);
        }
        x = attention(&m, x, i);
        vp_graph_block(graph, vp_graph_name(graph, "mlp %lld", (long long)i));
        x = mlp(&m, x, i);
    }
    vp_graph_block(graph, "head");
    head(&m, x, words);
}
