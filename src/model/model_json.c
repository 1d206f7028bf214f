/* Reads and writes Hugging Face's config.json, and reads BERT's
 * bert_config.json: tables of keys per model. */
#include "model/model.h"

#include "base/path.h"
#include "base/value.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_SIZE, KIND_ID, KIND_RATE, KIND_FLAG, KIND_ACT };

/* A key and the field of struct vp_model_config that takes its value. */
struct field {
    const char *key;
    enum kind kind;
    size_t at;
    bool required; /* false: absent or null keeps the default */
};

/* A key of which only `value` is supported; an absent key means the same. */
struct fixed {
    const char *key;
    bool value;
};

struct format {
    const char *model_type; /* NULL: the file has no such key */
    const char *model;      /* its name in the model table */
    const struct field *fields;
    const struct fixed *fixed;
    /* Keys that are only written: copies of other fields, and JSON with
     * constants that the Hugging Face class needs to compute the same
     * function. */
    const struct field *mirrors;
    const char *constants;
    /* Optional: sets defaults of the format before the fields are read. */
    void (*prepare)(struct vp_model_config *config);
    /* Optional: checks and completes the configuration after the fields. */
    enum vp_status (*finish)(const json_t *root, struct vp_model_config *config,
                             struct vp_err *err);
};

#define AT(field) offsetof(struct vp_model_config, field)
#define SIZE(key, field) key, KIND_SIZE, AT(field), true
#define OPTION(key, kind, field) key, kind, AT(field), false

static const struct field bert_fields[] = {
    { SIZE("vocab_size", vocab) },
    { SIZE("hidden_size", hidden) },
    { SIZE("num_hidden_layers", layers) },
    { SIZE("num_attention_heads", heads) },
    { SIZE("intermediate_size", ffn) },
    { SIZE("max_position_embeddings", positions) },
    { OPTION("type_vocab_size", KIND_SIZE, types) },
    { OPTION("hidden_dropout_prob", KIND_RATE, dropout) },
    { OPTION("attention_probs_dropout_prob", KIND_RATE, attention_dropout) },
    { OPTION("layer_norm_eps", KIND_RATE, eps) },
    { OPTION("hidden_act", KIND_ACT, act) },
    { OPTION("pad_token_id", KIND_ID, pad) },
    { OPTION("tie_word_embeddings", KIND_FLAG, tie_embeddings) },
    { 0 },
};

static const struct field no_fields[] = { { 0 } };

static const struct fixed bert_fixed[] = {
    { "is_decoder", false },
    { "add_cross_attention", false },
    { 0 },
};

static const struct field gpt2_fields[] = {
    { SIZE("vocab_size", vocab) },
    { SIZE("n_embd", hidden) },
    { SIZE("n_layer", layers) },
    { SIZE("n_head", heads) },
    { SIZE("n_positions", positions) },
    { OPTION("n_inner", KIND_SIZE, ffn) },
    { OPTION("resid_pdrop", KIND_RATE, dropout) },
    { OPTION("attn_pdrop", KIND_RATE, attention_dropout) },
    { OPTION("layer_norm_epsilon", KIND_RATE, eps) },
    { OPTION("activation_function", KIND_ACT, act) },
    { OPTION("tie_word_embeddings", KIND_FLAG, tie_embeddings) },
    { 0 },
};

static const struct field gpt2_mirrors[] = {
    { OPTION("embd_pdrop", KIND_RATE, dropout) },
    { 0 },
};

static const struct fixed gpt2_fixed[] = {
    { "scale_attn_weights", true },
    { "scale_attn_by_inverse_layer_idx", false },
    { "add_cross_attention", false },
    { 0 },
};

static const struct field m2m_fields[] = {
    { SIZE("vocab_size", vocab) },
    { SIZE("d_model", hidden) },
    { SIZE("encoder_layers", layers) },
    { SIZE("decoder_layers", decoder_layers) },
    { SIZE("encoder_attention_heads", heads) },
    { SIZE("encoder_ffn_dim", ffn) },
    { SIZE("max_position_embeddings", positions) },
    { OPTION("dropout", KIND_RATE, dropout) },
    { OPTION("attention_dropout", KIND_RATE, attention_dropout) },
    { OPTION("activation_function", KIND_ACT, act) },
    { OPTION("pad_token_id", KIND_ID, pad) },
    { OPTION("tie_word_embeddings", KIND_FLAG, tie_embeddings) },
    { OPTION("attention_bias", KIND_FLAG, attention_bias) },
    { 0 },
};

/* M2M100 has a separate key for the dropout inside the feed-forward layer. */
static const struct field m2m_mirrors[] = {
    { OPTION("num_hidden_layers", KIND_SIZE, layers) },
    { OPTION("decoder_attention_heads", KIND_SIZE, heads) },
    { OPTION("decoder_ffn_dim", KIND_SIZE, ffn) },
    { OPTION("activation_dropout", KIND_RATE, dropout) },
    { 0 },
};

static const struct fixed m2m_fixed[] = {
    { "scale_embedding", true },
    { 0 },
};

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    default:
        return "null";
    }
}

static enum vp_status wrong_type(const char *key, const json_t *value,
                                 const char *wanted, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID, "%s: is %s; it must be %s", key,
                      type_name(value), wanted);
}

/* The first name of an activation here is the one that is written. */
static const struct {
    const char *name;
    enum vp_act act;
} acts[] = {
    { "gelu", VP_ACT_GELU_ERF },
    { "gelu_new", VP_ACT_GELU_TANH },
    { "gelu_pytorch_tanh", VP_ACT_GELU_TANH },
    { "relu", VP_ACT_RELU },
};

static enum vp_status read_act(const char *key, const json_t *value,
                               enum vp_act *out, struct vp_err *err)
{
    if (!json_is_string(value))
        return wrong_type(key, value, "the name of an activation", err);
    for (size_t i = 0; i < VP_COUNT_OF(acts); i++) {
        if (strcmp(acts[i].name, json_string_value(value)) == 0) {
            *out = acts[i].act;
            return VP_OK;
        }
    }
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: %.40s is not known; use gelu, gelu_new, "
                      "gelu_pytorch_tanh or relu",
                      key, json_string_value(value));
}

static enum vp_status read_integer(const struct field *field,
                                   const json_t *value, void *to,
                                   struct vp_err *err)
{
    json_int_t n = json_integer_value(value);

    if (!json_is_integer(value))
        return wrong_type(field->key, value, "a whole number", err);
    if (n < 0 || n > INT32_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: %lld is not possible; use 0 to 2147483647",
                          field->key, (long long)n);
    if (field->kind == KIND_ID)
        *(int32_t *)to = (int32_t)n;
    else
        *(int64_t *)to = n;
    return VP_OK;
}

static enum vp_status read_field(const json_t *root, const struct field *field,
                                 struct vp_model_config *config,
                                 struct vp_err *err)
{
    const json_t *value = json_object_get(root, field->key);
    void *to = (char *)config + field->at;

    if (!value || json_is_null(value)) {
        if (!field->required)
            return VP_OK;
        return vp_err_set(err, VP_ERR_INVALID, "%s: is missing; add it",
                          field->key);
    }
    switch (field->kind) {
    case KIND_RATE:
        if (!json_is_number(value))
            return wrong_type(field->key, value, "a number", err);
        *(float *)to = (float)json_number_value(value);
        return VP_OK;
    case KIND_FLAG:
        if (!json_is_boolean(value))
            return wrong_type(field->key, value, "true or false", err);
        *(bool *)to = json_is_true(value);
        return VP_OK;
    case KIND_ACT:
        return read_act(field->key, value, to, err);
    default:
        return read_integer(field, value, to, err);
    }
}

static enum vp_status check_fixed(const json_t *root, const struct fixed *fixed,
                                  struct vp_err *err)
{
    const char *wanted = fixed->value ? "true" : "false";
    const json_t *value = json_object_get(root, fixed->key);

    if (!value || json_is_null(value))
        return VP_OK;
    if (!json_is_boolean(value))
        return wrong_type(fixed->key, value, wanted, err);
    if (json_is_true(value) != fixed->value)
        return vp_err_set(err, VP_ERR_UNSUPPORTED, "%s: only %s is supported",
                          fixed->key, wanted);
    return VP_OK;
}

/* Refuses a value of `key` other than `have`, the value of key `same_as`: both
 * set the same field here. */
static enum vp_status check_same(const json_t *root, const char *key,
                                 double have, const char *same_as,
                                 struct vp_err *err)
{
    const json_t *value = json_object_get(root, key);

    if (!value || json_is_null(value))
        return VP_OK;
    if (!json_is_number(value))
        return wrong_type(key, value, "a number", err);
    if (fabs(json_number_value(value) - have) <= 1e-6 * fabs(have))
        return VP_OK;
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "%s: %g differs from %s %g; only equal values are "
                      "supported",
                      key, json_number_value(value), same_as, have);
}

/* Refuses relative positions: they are another model. */
static enum vp_status bert_finish(const json_t *root,
                                  struct vp_model_config *config,
                                  struct vp_err *err)
{
    const json_t *value = json_object_get(root, "position_embedding_type");

    (void)config;
    if (!value || json_is_null(value) ||
        (json_is_string(value) &&
         strcmp(json_string_value(value), "absolute") == 0))
        return VP_OK;
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "position_embedding_type: only absolute is supported");
}

/* Google's bert_config.json, as NVIDIA's programs and vPipe read it: they round
 * the vocabulary up to a multiple of 8. Refuses ALBERT's file, which has the
 * same keys but a smaller embedding_size. */
static enum vp_status google_finish(const json_t *root,
                                    struct vp_model_config *config,
                                    struct vp_err *err)
{
    config->vocab = (config->vocab + 7) / 8 * 8;
    return check_same(root, "embedding_size", (double)config->hidden,
                      "hidden_size", err);
}

/* n_inner is null in published files, which means four times the hidden size;
 * gpt2_finish() replaces the 0. */
static void gpt2_prepare(struct vp_model_config *config)
{
    config->ffn = 0;
}

static enum vp_status gpt2_finish(const json_t *root,
                                  struct vp_model_config *config,
                                  struct vp_err *err)
{
    if (config->ffn == 0)
        config->ffn = 4 * config->hidden;
    return check_same(root, "embd_pdrop", (double)config->dropout,
                      "resid_pdrop", err);
}

static void m2m_prepare(struct vp_model_config *config)
{
    config->pad = 1;
    config->attention_bias = true;
}

static enum vp_status m2m_finish(const json_t *root,
                                 struct vp_model_config *config,
                                 struct vp_err *err)
{
    VP_TRY(check_same(root, "decoder_attention_heads", (double)config->heads,
                      "encoder_attention_heads", err));
    return check_same(root, "decoder_ffn_dim", (double)config->ffn,
                      "encoder_ffn_dim", err);
}

static const struct format google = { .model = "bert",
                                      .fields = bert_fields,
                                      .fixed = bert_fixed,
                                      .finish = google_finish };

/* Hugging Face's M2M100 drops layers at random unless layerdrop is 0. */
static const struct format formats[] = {
    { .model_type = "bert",
      .model = "bert",
      .fields = bert_fields,
      .fixed = bert_fixed,
      .mirrors = no_fields,
      .constants = "{\"initializer_range\": 0.02, \"use_cache\": true}",
      .finish = bert_finish },
    { .model_type = "gpt2",
      .model = "gpt2",
      .fields = gpt2_fields,
      .fixed = gpt2_fixed,
      .mirrors = gpt2_mirrors,
      .constants = "{\"initializer_range\": 0.02, \"use_cache\": true}",
      .prepare = gpt2_prepare,
      .finish = gpt2_finish },
    { .model_type = "m2m_100",
      .model = "translation",
      .fields = m2m_fields,
      .fixed = m2m_fixed,
      .mirrors = m2m_mirrors,
      .constants = "{\"encoder_layerdrop\": 0.0, \"decoder_layerdrop\": 0.0, "
                   "\"init_std\": 0.02, \"is_encoder_decoder\": true, "
                   "\"use_cache\": true}",
      .prepare = m2m_prepare,
      .finish = m2m_finish },
};

/* Returns NULL and sets `err` if the file has none of the formats. */
static const struct format *find_format(const json_t *root, struct vp_err *err)
{
    const json_t *type = json_object_get(root, "model_type");

    if (json_typeof(root) != JSON_OBJECT) {
        vp_err_set(err, VP_ERR_INVALID, "holds %s; a config.json is an object",
                   type_name(root));
        return NULL;
    }
    if (!type && json_object_get(root, "num_hidden_layers"))
        return &google;
    if (!json_is_string(type)) {
        vp_err_set(err, VP_ERR_INVALID,
                   "model_type: is missing or no string; use bert, gpt2 or "
                   "m2m_100");
        return NULL;
    }
    for (size_t i = 0; i < VP_COUNT_OF(formats); i++)
        if (strcmp(formats[i].model_type, json_string_value(type)) == 0)
            return &formats[i];
    vp_err_set(err, VP_ERR_INVALID,
               "model_type: %.40s is not known; use bert, gpt2 or m2m_100",
               json_string_value(type));
    return NULL;
}

static enum vp_status read_object(const json_t *root,
                                  const struct vp_model **model_out,
                                  struct vp_model_config *config_out,
                                  struct vp_err *err)
{
    const struct format *format = find_format(root, err);
    const struct vp_model *model;
    struct vp_model_config config;
    struct vp_dims least = { .batch = 1, .seq = 1 };

    if (!format)
        return VP_ERR_INVALID;
    model = vp_model_find(format->model);
    config = model->sizes[0].config;
    if (format->prepare)
        format->prepare(&config);
    for (const struct field *f = format->fields; f->key; f++)
        VP_TRY(read_field(root, f, &config, err));
    for (const struct fixed *f = format->fixed; f->key; f++)
        VP_TRY(check_fixed(root, f, err));
    if (format->finish)
        VP_TRY(format->finish(root, &config, err));
    if (model->task == VP_TASK_TRANSLATION)
        least.tgt_seq = 1;
    VP_TRY(vp_model_check(model, &config, &least, err));
    *model_out = model;
    *config_out = config;
    return VP_OK;
}

static enum vp_status load(const char *path, json_t **out, struct vp_err *err)
{
    FILE *file;
    json_error_t error;

    if (vp_path_is_special(path))
        return vp_err_set(err, VP_ERR_IO, "is not a file; give a JSON file");
    file = fopen(path, "rb");
    if (!file)
        return vp_err_set(err, VP_ERR_IO,
                          "cannot be opened: %s; check the path",
                          strerror(errno));
    *out = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (*out)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "line %d, column %d: %s; it must be valid JSON",
                      error.line, error.column, error.text);
}

/* Replaces control characters: messages quote the file, which may hold line
 * ends. */
static void keep_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            *text = ' ';
}

enum vp_status vp_model_read_json(const char *path,
                                  const struct vp_model **model_out,
                                  struct vp_model_config *config_out,
                                  struct vp_err *err)
{
    json_t *root = NULL;
    enum vp_status status = load(path, &root, err);

    if (root)
        status = read_object(root, model_out, config_out, err);
    json_decref(root);
    if (status != VP_OK && err) {
        vp_err_prefix(err, "%s", path);
        keep_one_line(err->text);
    }
    return status;
}

/* ---- Writing ------------------------------------------------------------ */

/* Writes the shortest decimal number that reads back as the same float: 0.1,
 * not 0.100000001490116. */
static json_t *rate_value(float value)
{
    char text[32];

    vp_float_to_text(value, text, sizeof(text));
    return json_real(strtod(text, NULL));
}

static json_t *field_value(const struct field *field,
                           const struct vp_model_config *config)
{
    const void *from = (const char *)config + field->at;

    switch (field->kind) {
    case KIND_RATE:
        return rate_value(*(const float *)from);
    case KIND_FLAG:
        return json_boolean(*(const bool *)from);
    case KIND_ID:
        return json_integer(*(const int32_t *)from);
    case KIND_ACT:
        for (size_t i = 0; i < VP_COUNT_OF(acts); i++)
            if (acts[i].act == *(const enum vp_act *)from)
                return json_string(acts[i].name);
        return json_null();
    default:
        return json_integer(*(const int64_t *)from);
    }
}

static json_t *id_value(int32_t id)
{
    return id >= 0 ? json_integer(id) : json_null();
}

static void add_ids(const struct vp_model *model,
                    const struct vp_model_ids *ids, json_t *root)
{
    if (model->task == VP_TASK_MASKED_LM)
        return;
    json_object_set_new(root, "bos_token_id", id_value(ids->begin));
    json_object_set_new(root, "eos_token_id", id_value(ids->end));
    if (model->task == VP_TASK_TRANSLATION)
        json_object_set_new(root, "decoder_start_token_id",
                            id_value(ids->start));
}

static const struct format *format_of(const struct vp_model *model)
{
    for (size_t i = 0; i < VP_COUNT_OF(formats); i++)
        if (vp_model_find(formats[i].model)->build == model->build)
            return &formats[i];
    vp_bug(__FILE__, __LINE__, "a model without a config.json");
}

enum vp_status vp_model_format_json(const struct vp_model *model,
                                    const struct vp_model_config *config,
                                    const struct vp_model_ids *ids,
                                    const char *class_name, const char *dtype,
                                    char **text_out)
{
    const struct format *format = format_of(model);
    json_t *root = json_loads(format->constants, 0, NULL);

    if (!root)
        return VP_ERR_NOMEM;
    json_object_set_new(root, "architectures", json_pack("[s]", class_name));
    json_object_set_new(root, "model_type", json_string(format->model_type));
    json_object_set_new(root, "dtype", json_string(dtype));
    for (const struct field *f = format->fields; f->key; f++)
        json_object_set_new(root, f->key, field_value(f, config));
    for (const struct field *f = format->mirrors; f->key; f++)
        json_object_set_new(root, f->key, field_value(f, config));
    for (const struct fixed *f = format->fixed; f->key; f++)
        json_object_set_new(root, f->key, json_boolean(f->value));
    add_ids(model, ids, root);
    *text_out = json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS |
                                     JSON_REAL_PRECISION(9));
    json_decref(root);
    return *text_out ? VP_OK : VP_ERR_NOMEM;
}
