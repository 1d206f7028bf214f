#include "lib/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

const struct vp_model *find_model(const char *name)
{
    const struct vp_model *model = vp_model_find(name);

    if (!model)
        fail_msg("no model %s", name);
    return model;
}

struct vp_model_config model_size(const char *model, const char *size)
{
    const struct vp_model_size *found = vp_model_size_find(find_model(model),
                                                           size);
    struct vp_model_config config = { 0 };

    if (found)
        config = found->config;
    else
        fail_msg("%s has no size %s", model, size ? size : "(default)");
    return config;
}

struct vp_model_config tiny_config(const char *model, bool tied)
{
    struct vp_model_config c = model_size(model, NULL);

    c.vocab = 67;
    c.layers = 2;
    c.dropout = c.attention_dropout = 0.0f;
    c.tie_embeddings = tied;
    if (strcmp(model, "bert") == 0) {
        c.hidden = 32;
        c.heads = 4;
        c.ffn = 56;
        c.positions = 19;
    } else if (strcmp(model, "translation") == 0) {
        c.hidden = 24;
        c.heads = 3;
        c.ffn = 40;
        c.positions = 16;
        c.decoder_layers = 2;
        c.pad = 1;
        c.attention_bias = tied;
    } else {
        c.hidden = 32;
        c.heads = 2;
        c.ffn = 72;
        c.positions = 16;
    }
    return c;
}

struct vp_dims tiny_dims(const char *model)
{
    struct vp_dims dims = { .batch = 3, .seq = 13 };

    if (strcmp(model, "bert") == 0)
        dims.n_labels = 5;
    if (strcmp(model, "translation") == 0)
        dims.tgt_seq = 11;
    return dims;
}

void build_outputs(const char *model, const struct vp_model_config *config,
                   const struct vp_dims *dims, unsigned outputs,
                   struct vp_graph *graph)
{
    struct vp_err err = { .text = "" };

    if (vp_model_build_outputs(find_model(model), config, dims, outputs, graph,
                               &err) != VP_OK)
        fail_msg("%s: %s", model, err.text);
}

void build_model(const char *model, const struct vp_model_config *config,
                 const struct vp_dims *dims, struct vp_graph *graph)
{
    build_outputs(model, config, dims, VP_OUTPUT_LOSS, graph);
}
