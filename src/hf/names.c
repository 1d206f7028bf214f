/* Tables of the supported classes, and translation of tensor names. */
#include "hf/names.h"

#include <stdio.h>
#include <string.h>

/* A pair of names or parts of names. */
struct pair {
    const char *from, *to;
};

struct vp_hf_arch {
    const char *name;
    const char *model;
    /* The lists end with NULL. */
    const char *prefix;         /* beginning of current names */
    const char *const *bare;    /* beginnings of old names without `prefix` */
    const struct pair *ends;    /* old and current ends of names */
    const char *const *buffers; /* ends of names of buffers */
    const struct pair *tied;    /* if embeddings are tied: tensor, parameter */
    const struct pair *copies;  /* if not: tensor, parameter to copy */
};

/* ---- BERT --------------------------------------------------------------- */

static const char *const bert_bare[] = { "embeddings.", "encoder.", "pooler.",
                                         NULL };

/* Names of layer norms from TensorFlow. */
static const struct pair bert_ends[] = {
    { ".LayerNorm.gamma", ".LayerNorm.weight" },
    { ".LayerNorm.beta", ".LayerNorm.bias" },
    { NULL, NULL },
};

static const char *const bert_buffers[] = { ".embeddings.position_ids",
                                            ".embeddings.token_type_ids",
                                            NULL };

static const struct pair bert_tied[] = {
    { "cls.predictions.decoder.weight",
      "bert.embeddings.word_embeddings.weight" },
    { "cls.predictions.decoder.bias", "cls.predictions.bias" },
    { NULL, NULL },
};

/* The class without tied embeddings has this bias, but does not use it. */
static const struct pair bert_copies[] = {
    { "cls.predictions.bias", "cls.predictions.decoder.bias" },
    { NULL, NULL },
};

#define BERT(class_name)                                               \
    {                                                                  \
        .name = (class_name), .model = "bert", .prefix = "bert.",      \
        .bare = bert_bare, .ends = bert_ends, .buffers = bert_buffers, \
        .tied = bert_tied, .copies = bert_copies                       \
    }

/* ---- GPT-2 -------------------------------------------------------------- */

static const char *const gpt2_bare[] = { "wte.", "wpe.", "h.", "ln_f.", NULL };

static const char *const gpt2_buffers[] = { ".attn.bias", ".attn.masked_bias",
                                            NULL };

static const struct pair gpt2_tied[] = {
    { "lm_head.weight", "transformer.wte.weight" },
    { NULL, NULL },
};

static const struct pair no_pairs[] = { { NULL, NULL } };

/* ---- Translation -------------------------------------------------------- */

static const char *const m2m_bare[] = { "encoder.", "decoder.", "shared.",
                                        NULL };

static const char *const m2m_buffers[] = { ".embed_positions.weights", NULL };

static const struct pair m2m_tied[] = {
    { "lm_head.weight", "model.shared.weight" },
    { "model.encoder.embed_tokens.weight", "model.shared.weight" },
    { "model.decoder.embed_tokens.weight", "model.shared.weight" },
    { NULL, NULL },
};

/* The class without tied embeddings has this table, but does not use it. */
static const struct pair m2m_copies[] = {
    { "model.shared.weight", "model.encoder.embed_tokens.weight" },
    { NULL, NULL },
};

/* The first class of a model is the one that vpipe writes. */
static const struct vp_hf_arch archs[] = {
    BERT("BertForMaskedLM"),
    BERT("BertForPreTraining"),
    { .name = "GPT2LMHeadModel",
      .model = "gpt2",
      .prefix = "transformer.",
      .bare = gpt2_bare,
      .ends = no_pairs,
      .buffers = gpt2_buffers,
      .tied = gpt2_tied,
      .copies = no_pairs },
    { .name = "M2M100ForConditionalGeneration",
      .model = "translation",
      .prefix = "model.",
      .bare = m2m_bare,
      .ends = no_pairs,
      .buffers = m2m_buffers,
      .tied = m2m_tied,
      .copies = m2m_copies },
};

const struct vp_hf_arch *vp_hf_arch_find(const char *name)
{
    for (size_t i = 0; i < VP_COUNT_OF(archs); i++)
        if (strcmp(archs[i].name, name) == 0)
            return &archs[i];
    return NULL;
}

/* CPM is GPT-2 with another vocabulary. */
const struct vp_hf_arch *vp_hf_arch_of(const struct vp_model *model)
{
    const char *name = strcmp(model->name, "cpm") == 0 ? "gpt2" : model->name;

    for (size_t i = 0; i < VP_COUNT_OF(archs); i++)
        if (strcmp(archs[i].model, name) == 0)
            return &archs[i];
    return NULL;
}

const char *vp_hf_arch_name(const struct vp_hf_arch *arch)
{
    return arch->name;
}

const char *vp_hf_arch_model(const struct vp_hf_arch *arch)
{
    return arch->model;
}

const char *vp_hf_arch_names(void)
{
    return "BertForMaskedLM, BertForPreTraining, GPT2LMHeadModel, "
           "M2M100ForConditionalGeneration";
}

/* ---- Classifying -------------------------------------------------------- */

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);

    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* Converts an old name to the current one: adds a missing prefix and replaces
 * an old end. Returns false if the name is too long. */
static bool modernise(const struct vp_hf_arch *arch, const char *name,
                      char out[VP_HF_NAME_BYTES])
{
    const char *prefix = "", *end = "";
    size_t n = strlen(name), cut = 0;

    for (int i = 0; arch->bare[i]; i++)
        if (starts_with(name, arch->bare[i]))
            prefix = arch->prefix;
    for (const struct pair *p = arch->ends; p->from; p++) {
        if (ends_with(name, p->from)) {
            cut = strlen(p->from);
            end = p->to;
        }
    }
    return snprintf(out, VP_HF_NAME_BYTES, "%s%.*s%s", prefix, (int)(n - cut),
                    name, end) < VP_HF_NAME_BYTES;
}

/* Returns true if `name` is the weight or bias (`end`) of an attention
 * projection. */
static bool is_projection(const char *name, const char *end)
{
    static const char *const parts[] = { "q_proj", "k_proj", "v_proj",
                                         "out_proj" };
    char tail[32];

    for (size_t i = 0; i < VP_COUNT_OF(parts); i++) {
        snprintf(tail, sizeof(tail), "_attn.%s.%s", parts[i], end);
        if (ends_with(name, tail))
            return true;
    }
    return false;
}

static bool lacks_biases(const struct vp_hf_arch *arch,
                         const struct vp_model_config *config)
{
    return strcmp(arch->model, "translation") == 0 && !config->attention_bias;
}

const char *vp_hf_name_tied(const struct vp_hf_arch *arch, const char *name)
{
    for (const struct pair *p = arch->tied; p->from; p++)
        if (strcmp(name, p->from) == 0)
            return p->to;
    return NULL;
}

enum vp_status vp_hf_name(const struct vp_hf_arch *arch,
                          const struct vp_model_config *config,
                          const char *name, enum vp_hf_kind *kind_out,
                          char out[VP_HF_NAME_BYTES], struct vp_err *err)
{
    if (!modernise(arch, name, out))
        return vp_err_set(err, VP_ERR_INVALID,
                          "tensor %.80s...: the name is longer than %d bytes",
                          name, VP_HF_NAME_BYTES - 1);
    *kind_out = VP_HF_WEIGHT;
    for (int i = 0; arch->buffers[i]; i++)
        if (ends_with(out, arch->buffers[i]))
            *kind_out = VP_HF_BUFFER;
    if (lacks_biases(arch, config) && is_projection(out, "bias"))
        *kind_out = VP_HF_ZERO;
    if (config->tie_embeddings && vp_hf_name_tied(arch, out)) {
        snprintf(out, VP_HF_NAME_BYTES, "%s", vp_hf_name_tied(arch, out));
        *kind_out = VP_HF_TIED;
    }
    return VP_OK;
}

/* ---- Writing ------------------------------------------------------------ */

bool vp_hf_name_copy(const struct vp_hf_arch *arch,
                     const struct vp_model_config *config, int i,
                     const char **name_out, const char **of_out)
{
    const struct pair *p = arch->copies;

    for (int k = 0; p->from && k < i; k++)
        p++;
    if (config->tie_embeddings || !p->from)
        return false;
    *name_out = p->from;
    *of_out = p->to;
    return true;
}

bool vp_hf_name_bias(const struct vp_hf_arch *arch,
                     const struct vp_model_config *config, const char *name,
                     char out[VP_HF_NAME_BYTES])
{
    size_t n = strlen(name) - strlen("weight");

    if (!lacks_biases(arch, config) || !is_projection(name, "weight"))
        return false;
    return snprintf(out, VP_HF_NAME_BYTES, "%.*sbias", (int)n, name) <
           VP_HF_NAME_BYTES;
}
