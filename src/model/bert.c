/* BERT with a masked-LM head (Devlin et al., NAACL 2019): post-LN encoder.
 *
 * A block starts with the layer norm that closes the previous residual, so
 * blocks 0 .. 2 layers - 1 are attention, feed-forward, attention, ... and the
 * last is the head. B: batch, S: sequence, H: hidden, F: ffn, V: vocab. */
#include "model/build.h"
#include "model/model.h"

#define INIT_STD 0.02f

struct bert {
    struct vp_graph *graph;
    const struct vp_model_config *config;
    vp_val mask;       /* [B*S] */
    vp_par word_table; /* [V, H] */
};

int64_t vp_bert_blocks(const struct vp_model_config *config)
{
    return 2 * config->layers + 1;
}

static const char *layer_name(const struct bert *b, int64_t layer,
                              const char *part)
{
    return vp_graph_name(b->graph, "bert.encoder.layer.%lld.%s",
                         (long long)layer, part);
}

/* x: [B*S, in] -> [B*S, out] */
static vp_val dense(const struct bert *b, vp_val x, const char *name,
                    int64_t in, int64_t out, enum vp_act act,
                    enum vp_slice_axis slice)
{
    struct vp_dense layer = { .in = in,
                              .out = out,
                              .std = INIT_STD,
                              .act = act,
                              .bias = true,
                              .slice = slice };

    return vp_build_linear(b->graph, x, &layer, &name, 1);
}

static vp_val layernorm(const struct bert *b, vp_val x, const char *name)
{
    return vp_build_layernorm(b->graph, x, name, b->config->hidden,
                              b->config->eps);
}

/* Embeddings, layer norm and dropout: one line. -> [B*S, H] */
static vp_val embeddings(struct bert *b, const struct vp_dims *dims)
{
    const struct vp_model_config *c = b->config;
    struct vp_graph *g = b->graph;
    vp_val ids = vp_graph_input(g, VP_ROLE_TOKENS, "tokens",
                                vp_dims_role(dims, VP_ROLE_TOKENS));
    vp_val types = vp_graph_input(g, VP_ROLE_TYPES, "types",
                                  vp_dims_role(dims, VP_ROLE_TYPES));
    vp_par positions, type_table;
    vp_val x;

    vp_graph_line(g);
    b->word_table = vp_build_table(g, "bert.embeddings.word_embeddings.weight",
                                   c->vocab, c->hidden, INIT_STD);
    positions = vp_graph_param(g, "bert.embeddings.position_embeddings.weight",
                               c->positions, c->hidden, VP_INIT_NORMAL,
                               INIT_STD);
    type_table = vp_graph_param(g,
                                "bert.embeddings.token_type_embeddings.weight",
                                c->types, c->hidden, VP_INIT_NORMAL, INIT_STD);
    x = vp_embed(g, ids, types, b->word_table, positions, type_table, 1.0f, -1);
    x = vp_group_sum(g, x, VP_NONE);
    x = layernorm(b, x, "bert.embeddings.LayerNorm");
    return vp_dropout(g, x, c->dropout);
}

/* Four lines: attention, Linear, Dropout, "+". x: [B*S, H] -> [B*S, H] */
static vp_val attention(const struct bert *b, vp_val x, int64_t layer)
{
    const struct vp_model_config *c = b->config;
    struct vp_graph *g = b->graph;
    struct vp_dense packed = { .in = c->hidden,
                               .out = c->hidden,
                               .std = INIT_STD,
                               .bias = true,
                               .slice = VP_SLICE_ROWS };
    const char *names[] = {
        layer_name(b, layer, "attention.self.query"),
        layer_name(b, layer, "attention.self.key"),
        layer_name(b, layer, "attention.self.value"),
    };
    vp_val y;

    vp_graph_line(g);
    y = vp_build_linear(g, x, &packed, names, 3);
    y = vp_attention(g, y, VP_NONE, b->mask, vp_build_heads(g, c->heads), false,
                     c->attention_dropout);
    vp_graph_line(g);
    y = dense(b, y, layer_name(b, layer, "attention.output.dense"), c->hidden,
              c->hidden, VP_ACT_NONE, VP_SLICE_COLS);
    vp_graph_line(g);
    y = vp_dropout(g, y, c->dropout);
    vp_graph_line(g);
    return vp_add(g, y, x);
}

/* Four lines: Linear with activation, Linear, Dropout, "+". */
static vp_val ffn(const struct bert *b, vp_val x, int64_t layer)
{
    const struct vp_model_config *c = b->config;
    struct vp_graph *g = b->graph;
    vp_val y;

    vp_graph_line(g);
    y = dense(b, x, layer_name(b, layer, "intermediate.dense"), c->hidden,
              c->ffn, c->act, VP_SLICE_ROWS);
    vp_graph_line(g);
    y = dense(b, y, layer_name(b, layer, "output.dense"), c->ffn, c->hidden,
              VP_ACT_NONE, VP_SLICE_COLS);
    vp_graph_line(g);
    y = vp_dropout(g, y, c->dropout);
    vp_graph_line(g);
    return vp_add(g, y, x);
}

/* Weight and bias of the decoder. Untied, the Hugging Face model no longer
 * reads cls.predictions.bias: the decoder owns both. */
static vp_val decoder(const struct bert *b, vp_val x)
{
    const struct vp_model_config *c = b->config;
    struct vp_graph *g = b->graph;
    vp_par weight, bias;

    if (c->tie_embeddings) {
        weight = vp_graph_tied(g, b->word_table);
        bias = vp_build_output_bias(g, "cls.predictions.bias", c->vocab);
    } else {
        weight = vp_build_table(g, "cls.predictions.decoder.weight", c->vocab,
                                c->hidden, INIT_STD);
        bias = vp_build_output_bias(g, "cls.predictions.decoder.bias",
                                    c->vocab);
    }
    return vp_linear(g, vp_all_gather(g, x), weight, bias, VP_ACT_NONE);
}

/* Five lines: LN, Linear with activation, LN, decoder, bias. Where the batch
 * names the labelled rows, only those are computed: the rows are taken before
 * the layer norm that closes the last layer. */
static void head(const struct bert *b, vp_val x, const struct vp_dims *dims)
{
    const struct vp_model_config *c = b->config;
    struct vp_graph *g = b->graph;
    vp_val labels = vp_build_labels(g, dims);

    vp_graph_line(g);
    x = vp_build_rows(g, x, dims);
    x = layernorm(b, x, layer_name(b, c->layers - 1, "output.LayerNorm"));
    vp_graph_line(g);
    x = dense(b, x, "cls.predictions.transform.dense", c->hidden, c->hidden,
              c->act, VP_SLICE_NONE);
    vp_graph_line(g);
    x = layernorm(b, x, "cls.predictions.transform.LayerNorm");
    vp_graph_line(g);
    x = decoder(b, x);
    vp_build_lines(g, 1);
    vp_build_end(g, x, labels, c->label_smoothing);
}

void vp_bert_build(const struct vp_model_config *config,
                   const struct vp_dims *dims, struct vp_graph *graph)
{
    struct bert b = { .graph = graph, .config = config };
    vp_val x;

    b.mask = vp_graph_input(graph, VP_ROLE_MASK, "mask",
                            vp_dims_role(dims, VP_ROLE_MASK));
    vp_graph_block(graph, "embeddings, attention 0");
    x = embeddings(&b, dims);
    x = attention(&b, x, 0);
    for (int64_t i = 0; i < config->layers; i++) {
        if (i > 0) {
            vp_graph_block(
                graph, vp_graph_name(graph, "attention %lld", (long long)i));
            vp_graph_line(graph);
            x = layernorm(&b, x, layer_name(&b, i - 1, "output.LayerNorm"));
            x = attention(&b, x, i);
        }
        vp_graph_block(graph, vp_graph_name(graph, "ffn %lld", (long long)i));
        vp_graph_line(graph);
        x = layernorm(&b, x, layer_name(&b, i, "attention.output.LayerNorm"));
        x = ffn(&b, x, i);
    }
    vp_graph_block(graph, "head");
    head(&b, x, dims);
}
