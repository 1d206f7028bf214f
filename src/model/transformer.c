/* Encoder-decoder Transformer for translation (Vaswani et al., NIPS 2017),
 * pre-LN, with sinusoidal positions; fairseq's "transformer" and Hugging
 * Face's M2M100.
 *
 * Blocks: source embedding; attention, ffn per encoder layer; encoder layer
 * norm with the target embedding; attention, cross attention, ffn per decoder
 * layer; head. Padding of the source is masked; padding of the target stands
 * at the end, where causal attention cannot see it. With a cache the target rows
 * of a sample are new positions of its text; a source is encoded once, and its
 * keys and values are kept.
 * B: batch, S: source, T: target length, H: hidden, F: ffn, V: vocab. */
#include "model/build.h"
#include "model/model.h"

#include <math.h>

struct transformer {
    struct vp_graph *graph;
    const struct vp_model_config *config;
    const char *side;          /* "encoder" or "decoder" */
    vp_val mask;               /* [B*S] */
    vp_val memory;             /* [B*S, H] encoder output */
    vp_val at, lines, sources; /* with a cache; else VP_NONE */
    vp_par shared;             /* [V, H] where embeddings are tied */
};

int64_t vp_transformer_blocks(const struct vp_model_config *config)
{
    return 3 + 2 * config->layers + 3 * config->decoder_layers;
}

/* The standard deviation of fairseq's uniform (Glorot) start. */
static float glorot_std(int64_t in, int64_t out)
{
    return (float)sqrt(2.0 / ((double)in + (double)out));
}

static const char *layer_name(const struct transformer *t, int64_t layer,
                              const char *part)
{
    return vp_graph_name(t->graph, "model.%s.layers.%lld.%s", t->side,
                         (long long)layer, part);
}

static vp_val layernorm(const struct transformer *t, vp_val x, const char *name)
{
    return vp_build_layernorm(t->graph, x, name, t->config->hidden,
                              t->config->eps);
}

/* The token table of this side; one for all of them when tied. */
static vp_par token_table(struct transformer *t)
{
    const struct vp_model_config *c = t->config;
    const char *name = c->tie_embeddings
                           ? "model.shared.weight"
                           : vp_graph_name(t->graph,
                                           "model.%s.embed_tokens.weight",
                                           t->side);
    vp_par table;

    if (t->shared != VP_NONE)
        return vp_graph_tied(t->graph, t->shared);
    table = vp_build_table(t->graph, name, c->vocab, c->hidden,
                           (float)(1.0 / sqrt((double)c->hidden)));
    if (c->tie_embeddings)
        t->shared = table;
    return table;
}

/* Positions, embedding, scale, "+": four lines. ids: [rows] -> [rows, H]. `at`:
 * positions that are given, or VP_NONE. */
static vp_val embedding(struct transformer *t, vp_val ids, vp_val at)
{
    const struct vp_model_config *c = t->config;
    struct vp_graph *g = t->graph;
    float scale = (float)sqrt((double)c->hidden);
    vp_par table, positions;
    vp_val x;

    vp_graph_line(g);
    table = token_table(t);
    positions = vp_graph_param(
        g, vp_graph_name(g, "model.%s.embed_positions.weights", t->side),
        c->positions, c->hidden, VP_INIT_SINUSOID, 0.0f);
    x = at == VP_NONE
            ? vp_embed(g, ids, VP_NONE, table, positions, VP_NONE, scale,
                       c->pad)
            : vp_embed_at(g, ids, at, table, positions, scale, c->pad);
    x = vp_group_sum(g, x, VP_NONE);
    vp_build_lines(g, 3);
    return x;
}

/* Projections into attention: x [rows, H] -> [rows, n_names * H]. The
 * original packs query, key and value in one [3H, H] matrix and starts it as
 * such. */
static vp_val project(const struct transformer *t, vp_val x, int64_t layer,
                      const char *const *parts, int n_parts)
{
    const struct vp_model_config *c = t->config;
    struct vp_dense dense = { .in = c->hidden,
                              .out = c->hidden,
                              .std = glorot_std(c->hidden, 3 * c->hidden),
                              .bias = c->attention_bias,
                              .slice = VP_SLICE_ROWS };
    const char *names[VP_MAX_PART];

    for (int i = 0; i < n_parts; i++)
        names[i] = layer_name(t, layer, parts[i]);
    return vp_build_linear(t->graph, x, &dense, names, n_parts);
}

/* The output projection on the attention line, then dropout and "+". */
static vp_val attention_end(const struct transformer *t, vp_val y, vp_val x,
                            const char *name)
{
    const struct vp_model_config *c = t->config;
    struct vp_dense out = { .in = c->hidden,
                            .out = c->hidden,
                            .std = glorot_std(c->hidden, c->hidden),
                            .bias = c->attention_bias,
                            .slice = VP_SLICE_COLS };

    y = vp_build_linear(t->graph, y, &out, &name, 1);
    vp_graph_line(t->graph);
    y = vp_dropout(t->graph, y, c->dropout);
    vp_graph_line(t->graph);
    return vp_add(t->graph, y, x);
}

/* LN, attention, dropout, "+"; the first of a side has the embedding's
 * dropout and a transposition (not needed here) in front. */
static vp_val self_attention(const struct transformer *t, vp_val x,
                             int64_t layer, bool causal)
{
    static const char *const parts[] = {
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
    };
    const struct vp_model_config *c = t->config;
    struct vp_graph *g = t->graph;
    vp_val y;

    vp_graph_block(
        g, vp_graph_name(g, "%s attention %lld", t->side, (long long)layer));
    if (layer == 0) {
        vp_graph_line(g);
        x = vp_dropout(g, x, c->dropout);
        vp_build_lines(g, 1);
    }
    vp_graph_line(g);
    y = layernorm(t, x, layer_name(t, layer, "self_attn_layer_norm"));
    vp_graph_line(g);
    y = project(t, y, layer, parts, 3);
    if (causal && t->lines != VP_NONE)
        y = vp_cached_attention(g, y, t->at, t->lines, (int)c->heads,
                                g->cache.n_lines);
    else
        y = vp_attention(g, y, VP_NONE, causal ? VP_NONE : t->mask,
                         vp_build_heads(g, c->heads), causal,
                         c->attention_dropout);
    return attention_end(t, y, x, layer_name(t, layer, "self_attn.out_proj"));
}

/* x: [B*T, H] attends to memory [B*S, H]. Four lines. */
static vp_val cross_attention(const struct transformer *t, vp_val x,
                              int64_t layer)
{
    static const char *const q_part[] = { "encoder_attn.q_proj" };
    static const char *const kv_parts[] = { "encoder_attn.k_proj",
                                            "encoder_attn.v_proj" };
    const struct vp_model_config *c = t->config;
    struct vp_graph *g = t->graph;
    vp_val q, kv, y;

    vp_graph_block(g,
                   vp_graph_name(g, "cross attention %lld", (long long)layer));
    vp_graph_line(g);
    y = layernorm(t, x, layer_name(t, layer, "encoder_attn_layer_norm"));
    vp_graph_line(g);
    q = project(t, y, layer, q_part, 1);
    kv = project(t, t->memory, layer, kv_parts, 2);
    if (t->sources != VP_NONE)
        y = vp_cached_cross_attention(g, q, kv, t->sources, (int)c->heads,
                                      g->cache.n_sources,
                                      g->cache.n_source_positions);
    else
        y = vp_attention(g, q, kv, t->mask, vp_build_heads(g, c->heads), false,
                         c->attention_dropout);
    return attention_end(t, y, x,
                         layer_name(t, layer, "encoder_attn.out_proj"));
}

/* LN, Linear, ReLU, Dropout, Linear, Dropout, "+": seven lines. */
static vp_val ffn(const struct transformer *t, vp_val x, int64_t layer)
{
    const struct vp_model_config *c = t->config;
    struct vp_graph *g = t->graph;
    struct vp_dense fc1 = { .in = c->hidden,
                            .out = c->ffn,
                            .std = glorot_std(c->hidden, c->ffn),
                            .act = c->act,
                            .bias = true,
                            .slice = VP_SLICE_ROWS };
    struct vp_dense fc2 = { .in = c->ffn,
                            .out = c->hidden,
                            .std = glorot_std(c->ffn, c->hidden),
                            .bias = true,
                            .slice = VP_SLICE_COLS };
    const char *fc1_name = layer_name(t, layer, "fc1");
    const char *fc2_name = layer_name(t, layer, "fc2");
    vp_val y;

    vp_graph_block(g,
                   vp_graph_name(g, "%s ffn %lld", t->side, (long long)layer));
    vp_graph_line(g);
    y = layernorm(t, x, layer_name(t, layer, "final_layer_norm"));
    vp_graph_line(g);
    y = vp_build_linear(g, y, &fc1, &fc1_name, 1);
    vp_build_lines(g, 1);
    vp_graph_line(g);
    y = vp_dropout(g, y, c->dropout);
    vp_graph_line(g);
    y = vp_build_linear(g, y, &fc2, &fc2_name, 1);
    vp_graph_line(g);
    y = vp_dropout(g, y, c->dropout);
    vp_graph_line(g);
    return vp_add(g, y, x);
}

/* LN, transposition, output layer: three lines. x: [B*T, H] */
static void head(const struct transformer *t, vp_val x,
                 const struct vp_dims *dims)
{
    const struct vp_model_config *c = t->config;
    struct vp_graph *g = t->graph;
    vp_val labels = vp_build_labels(g, dims);
    vp_par weight;

    vp_graph_block(g, "head");
    vp_graph_line(g);
    x = layernorm(t, vp_build_rows(g, x, dims), "model.decoder.layer_norm");
    vp_build_lines(g, 1);
    vp_graph_line(g);
    if (c->tie_embeddings)
        weight = vp_graph_tied(g, t->shared);
    else
        weight = vp_build_table(g, "lm_head.weight", c->vocab, c->hidden,
                                (float)(1.0 / sqrt((double)c->hidden)));
    x = vp_linear(g, vp_all_gather(g, x), weight, VP_NONE, VP_ACT_NONE);
    vp_build_end(g, x, labels, c->label_smoothing);
}

void vp_transformer_build(const struct vp_model_config *config,
                          const struct vp_dims *dims, struct vp_graph *graph)
{
    struct transformer t = { .graph = graph,
                             .config = config,
                             .side = "encoder",
                             .shared = VP_NONE,
                             .at = VP_NONE,
                             .lines = VP_NONE,
                             .sources = VP_NONE };
    vp_val source = vp_graph_input(graph, VP_ROLE_TOKENS, "source",
                                   vp_dims_role(dims, VP_ROLE_TOKENS));
    vp_val target = vp_graph_input(graph, VP_ROLE_TARGET_TOKENS, "target",
                                   vp_dims_role(dims, VP_ROLE_TARGET_TOKENS));
    vp_val x;

    t.mask = vp_graph_input(graph, VP_ROLE_MASK, "mask",
                            vp_dims_role(dims, VP_ROLE_MASK));
    if (graph->cache.n_lines > 0) {
        t.at = vp_graph_input(graph, VP_ROLE_POSITIONS, "positions",
                              dims->batch * dims->tgt_seq);
        t.lines = vp_graph_input(graph, VP_ROLE_LINES, "lines",
                                 dims->batch * graph->cache.n_positions);
        t.sources = vp_graph_input(graph, VP_ROLE_SOURCES, "sources",
                                   dims->batch * 3);
    }
    vp_graph_block(graph, "source embedding");
    x = embedding(&t, source, VP_NONE);
    for (int64_t i = 0; i < config->layers; i++) {
        x = self_attention(&t, x, i, false);
        x = ffn(&t, x, i);
    }
    vp_graph_block(graph, "encoder end, target embedding");
    vp_graph_line(graph);
    t.memory = layernorm(&t, x, "model.encoder.layer_norm");
    t.side = "decoder";
    x = embedding(&t, target, t.at);
    for (int64_t i = 0; i < config->decoder_layers; i++) {
        x = self_attention(&t, x, i, true);
        x = cross_attention(&t, x, i);
        x = ffn(&t, x, i);
    }
    head(&t, x, dims);
}
