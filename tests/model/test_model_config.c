/* Model sizes that cannot work are refused, and the config.json files of
 * Hugging Face are read and written. */
#define _POSIX_C_SOURCE 200809L

#include "lib/golden.h"
#include "lib/tiny_model.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Refusals ----------------------------------------------------------- */

#define SIZE_KEY(field) offsetof(struct vp_model_config, field), 'n'
#define RATE_KEY(field) offsetof(struct vp_model_config, field), 'f'
#define DIMS_KEY(field) offsetof(struct vp_dims, field), 'd'

/* One field of a legal configuration is changed. The message is one line and
 * begins with the key to change. */
static void refused_sizes(void **state)
{
    static const struct {
        const char *model;
        size_t at;
        char kind; /* type of the field: 'n', 'f' or 'd', see above */
        double value;
        const char *want;
    } cases[] = {
        { "bert", SIZE_KEY(vocab), 0, "vocab: 0 is not possible" },
        { "bert", SIZE_KEY(vocab), -5, "vocab: -5 is not" },
        { "bert", SIZE_KEY(vocab), 4e9, "vocab: 4000000000 is not" },
        { "bert", SIZE_KEY(hidden), 0, "hidden: 0 is not" },
        { "bert", SIZE_KEY(hidden), 30,
          "heads: 4 heads do not divide hidden "
          "30; use a divisor of hidden, or a hidden that is a multiple of 4" },
        { "gpt2", SIZE_KEY(layers), 0, "layers: 0 is not" },
        { "gpt2", SIZE_KEY(layers), 1e6, "layers: 1000000 is not" },
        { "translation", SIZE_KEY(decoder_layers), 0, "decoder_layers: 0 is" },
        { "cpm", SIZE_KEY(heads), 0, "heads: 0 is not possible; use 1 to 32" },
        { "cpm", SIZE_KEY(heads), 33, "heads: 33 is not" },
        { "cpm", SIZE_KEY(ffn), -1, "ffn: -1 is not" },
        { "cpm", SIZE_KEY(hidden), 4e6,
          "hidden: a tensor of 12000000 x "
          "4000000 numbers is larger than 4 TiB" },
        { "bert", SIZE_KEY(positions), 12,
          "seq_length: 13 is longer than the "
          "model's 12 positions" },
        { "translation", SIZE_KEY(positions), 12, "seq_length: 13 is longer" },
        { "bert", SIZE_KEY(positions), 0, "positions: 0 is not" },
        { "bert", SIZE_KEY(types), 0, "types: 0 is not" },
        { "bert", RATE_KEY(dropout), 1, "dropout: 1 is not a probability" },
        { "bert", RATE_KEY(dropout), -0.1, "dropout: -0.1 is not" },
        { "bert", RATE_KEY(dropout), (double)NAN, "dropout: " },
        { "bert", RATE_KEY(dropout), 0.999, "dropout: 0.999 would drop every" },
        { "gpt2", RATE_KEY(attention_dropout), 2, "attention_dropout: 2 is" },
        { "gpt2", RATE_KEY(label_smoothing), 1, "label_smoothing: 1 is not" },
        { "gpt2", RATE_KEY(eps), 0, "norm_eps: 0 is not" },
        { "gpt2", RATE_KEY(eps), (double)INFINITY, "norm_eps: inf is not" },
        { "gpt2", DIMS_KEY(batch), 0, "batch_size: 0 is not" },
        { "gpt2", DIMS_KEY(batch), 2e8,
          "batch_size: 200000000 samples of 13 "
          "tokens are more than 2^31 rows" },
        { "gpt2", DIMS_KEY(seq), 0, "seq_length: 0 is not" },
        { "gpt2", DIMS_KEY(seq), 17, "seq_length: 17 is longer" },
        { "gpt2", DIMS_KEY(tgt_seq), 1, "model_type: gpt2 has no decoder" },
        { "gpt2", DIMS_KEY(n_labels), 40, "max_pred: 40 is not possible" },
        { "translation", DIMS_KEY(tgt_seq), 0, "seq_length: 0 is not" },
        { "translation", DIMS_KEY(tgt_seq), 17, "seq_length: 17 is longer" },
        { "translation", DIMS_KEY(n_labels), 34,
          "max_pred: 34 is not possible; use 0 to 33" },
        { "bert", DIMS_KEY(n_labels), 40,
          "max_pred: 40 is not possible; use "
          "0 to 39" },
        { "bert", DIMS_KEY(n_labels), -1, "max_pred: -1 is not" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_model_config c = tiny_config(cases[i].model, true);
        struct vp_dims dims = tiny_dims(cases[i].model);
        struct vp_graph graph = { .n_ops = -7 };
        struct vp_err err = { .text = "" };
        char *to = (cases[i].kind == 'd' ? (char *)&dims : (char *)&c) +
                   cases[i].at;

        if (cases[i].kind == 'f')
            *(float *)(void *)to = (float)cases[i].value;
        else
            *(int64_t *)(void *)to = (int64_t)cases[i].value;
        assert_int_equal(
            vp_model_build(find_model(cases[i].model), &c, &dims, &graph, &err),
            VP_ERR_INVALID);
        assert_int_equal(graph.n_ops, -7);
        if (strncmp(err.text, cases[i].want, strlen(cases[i].want)) != 0)
            fail_msg("case %zu: got '%s', want '%s'", i, err.text,
                     cases[i].want);
        assert_null(strchr(err.text, '\n'));
        assert_non_null(strchr(err.text, ';'));
    }
}

static void refused_others(void **state)
{
    struct vp_model_config c = tiny_config("translation", true);
    struct vp_dims dims = tiny_dims("translation");
    struct vp_err err;

    (void)state;
    c.pad = 67;
    assert_int_equal(vp_model_check(find_model("translation"), &c, &dims, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "pad_id: 67 is not"));
    c.pad = 1;
    c.act = VP_ACT_NONE;
    assert_int_equal(vp_model_check(find_model("translation"), &c, &dims, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "activation: "));
    assert_int_equal(vp_model_check(find_model("translation"), &c, &dims, NULL),
                     VP_ERR_INVALID);
    c.act = VP_ACT_RELU;
    c.ffn = 1000000;
    dims.batch = 100000;
    dims.seq = 1;
    assert_int_equal(vp_model_check(find_model("translation"), &c, &dims, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "batch_size: a tensor of 1100000 x "
                                     "1000000 numbers"));
}

/* ---- config.json -------------------------------------------------------- */

static const char *json_path;

static enum vp_status read_json(const char *text, const struct vp_model **model,
                                struct vp_model_config *config,
                                struct vp_err *err)
{
    FILE *file = fopen(json_path, "wb");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return vp_model_read_json(json_path, model, config, err);
}

#define BERT_JSON                                                              \
    "{\"model_type\": \"bert\", \"vocab_size\": 30522, \"hidden_size\": 768, " \
    "\"num_hidden_layers\": 12, \"num_attention_heads\": 12, "                 \
    "\"intermediate_size\": 3072, \"max_position_embeddings\": 512, "          \
    "\"architectures\": [\"BertForMaskedLM\"], \"pad_token_id\": 0"
#define GPT2_JSON                                                          \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_embd\": 1600, " \
    "\"n_layer\": 48, \"n_head\": 25, \"n_positions\": 1024"
#define M2M_JSON                                                          \
    "{\"model_type\": \"m2m_100\", \"vocab_size\": 128112, "              \
    "\"d_model\": 1024, \"encoder_layers\": 12, \"decoder_layers\": 11, " \
    "\"encoder_attention_heads\": 16, \"encoder_ffn_dim\": 4096, "        \
    "\"max_position_embeddings\": 1024"

static void json_bert(void **state)
{
    const struct vp_model *model = NULL;
    struct vp_model_config c;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(read_json(BERT_JSON "}", &model, &c, &err), VP_OK);
    assert_string_equal(model->name, "bert");
    assert_int_equal(c.vocab, 30522);
    assert_int_equal(c.hidden, 768);
    assert_int_equal(c.layers, 12);
    assert_int_equal(c.heads, 12);
    assert_int_equal(c.ffn, 3072);
    assert_int_equal(c.positions, 512);
    assert_int_equal(c.types, 2);
    assert_int_equal(c.act, VP_ACT_GELU_ERF);
    assert_true(c.dropout == 0.1f && c.attention_dropout == 0.1f);
    assert_true(c.eps == 1e-12f && c.tie_embeddings && c.pad == 0);

    assert_int_equal(
        read_json(BERT_JSON
                  ", \"hidden_act\": \"gelu_new\", "
                  "\"type_vocab_size\": 5, \"hidden_dropout_prob\": 0, "
                  "\"attention_probs_dropout_prob\": 0.25, "
                  "\"layer_norm_eps\": 1e-5, \"is_decoder\": false, "
                  "\"position_embedding_type\": \"absolute\", "
                  "\"tie_word_embeddings\": false}",
                  &model, &c, &err),
        VP_OK);
    assert_int_equal(c.act, VP_ACT_GELU_TANH);
    assert_int_equal(c.types, 5);
    assert_true(c.dropout == 0.0f && c.attention_dropout == 0.25f);
    assert_true(c.eps == 1e-5f && !c.tie_embeddings);
}

/* The BERT configuration that Google and NVIDIA published and the original
 * vPipe ships. */
#define GOOGLE_JSON                                                  \
    "{\n  \"attention_probs_dropout_prob\": 0.2,\n"                  \
    "  \"hidden_act\": \"gelu\",\n  \"hidden_dropout_prob\": 0.1,\n" \
    "  \"hidden_size\": 1024,\n  \"initializer_range\": 0.02,\n"     \
    "  \"intermediate_size\": 4096,\n"                               \
    "  \"max_position_embeddings\": 256,\n"                          \
    "  \"num_attention_heads\": 16,\n  \"num_hidden_layers\": 24,\n" \
    "  \"type_vocab_size\": 3,\n  \"vocab_size\": 30522\n"

static void json_google(void **state)
{
    const struct vp_model *model = NULL;
    struct vp_model_config c;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(read_json(GOOGLE_JSON "}\n", &model, &c, &err), VP_OK);
    assert_string_equal(model->name, "bert");
    assert_int_equal(c.vocab, 30528); /* rounded up as in vPipe */
    assert_int_equal(c.hidden, 1024);
    assert_int_equal(c.layers, 24);
    assert_int_equal(c.heads, 16);
    assert_int_equal(c.ffn, 4096);
    assert_int_equal(c.positions, 256);
    assert_int_equal(c.types, 3);
    assert_int_equal(c.act, VP_ACT_GELU_ERF);
    assert_true(c.dropout == 0.1f && c.attention_dropout == 0.2f);

    assert_int_equal(read_json(GOOGLE_JSON ", \"directionality\": \"bidi\", "
                                           "\"pooler_fc_size\": 768}",
                               &model, &c, &err),
                     VP_OK);
    /* ALBERT, and a model_type that is not a string. */
    assert_int_equal(
        read_json(GOOGLE_JSON ", \"embedding_size\": 128}", &model, &c, &err),
        VP_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "embedding_size: 128 differs from "
                                     "hidden_size 1024"));
    assert_int_equal(
        read_json(GOOGLE_JSON ", \"model_type\": null}", &model, &c, &err),
        VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "model_type: is missing or no string"));
}

static void json_others(void **state)
{
    const struct vp_model *model = NULL;
    struct vp_model_config c;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(read_json(GPT2_JSON
                               ", \"n_inner\": null, "
                               "\"embd_pdrop\": 0.2, \"resid_pdrop\": 0.2}",
                               &model, &c, &err),
                     VP_OK);
    assert_string_equal(model->name, "gpt2");
    assert_int_equal(c.hidden, 1600);
    assert_int_equal(c.layers, 48);
    assert_int_equal(c.heads, 25);
    assert_int_equal(c.ffn, 6400);
    assert_int_equal(c.act, VP_ACT_GELU_TANH);
    assert_true(c.dropout == 0.2f && c.eps == 1e-5f && c.tie_embeddings);
    assert_int_equal(
        read_json(GPT2_JSON ", \"n_inner\": 77}", &model, &c, &err), VP_OK);
    assert_int_equal(c.ffn, 77);

    assert_int_equal(read_json(M2M_JSON ", \"decoder_ffn_dim\": 4096, "
                                        "\"scale_embedding\": true, "
                                        "\"encoder_layerdrop\": 0.05}",
                               &model, &c, &err),
                     VP_OK);
    assert_string_equal(model->name, "translation");
    assert_int_equal(c.layers, 12);
    assert_int_equal(c.decoder_layers, 11);
    assert_int_equal(c.pad, 1);
    assert_int_equal(c.act, VP_ACT_RELU);
    assert_true(c.attention_bias);
}

static void json_refused(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "", "line 1, column 0" },
        { "{\"model_type\": \"bert\",\n \"a\": }", "line 2" },
        { "{\"a\": 1, \"a\": 2}", "duplicate" },
        { "[1]", "holds a list; a config.json is an object" },
        { "{}", "model_type: is missing" },
        { "{\"model_type\": 3}", "model_type: is missing or no string" },
        { "{\"model_type\": \"llama\\n\"}", "model_type: llama  is not known; "
                                            "use bert, gpt2 or m2m_100" },
        { "{\"model_type\": \"bert\"}", "vocab_size: is missing" },
        { "{\"model_type\": \"bert\", \"vocab_size\": \"9\"}",
          "vocab_size: is a string; it must be a whole number" },
        { "{\"model_type\": \"bert\", \"vocab_size\": 9.5}",
          "vocab_size: is a fraction" },
        { "{\"model_type\": \"bert\", \"vocab_size\": -4}",
          "vocab_size: -4 is not possible" },
        { "{\"model_type\": \"bert\", \"vocab_size\": null}",
          "vocab_size: is missing" },
        { "{\"model_type\": \"bert\", \"vocab_size\": 99999999999999999999}",
          "too big integer" },
        { BERT_JSON ", \"hidden_act\": \"swish\"}",
          "hidden_act: swish is not known" },
        { BERT_JSON ", \"hidden_act\": 1}", "hidden_act: is a whole number" },
        { BERT_JSON ", \"hidden_dropout_prob\": \"x\"}",
          "hidden_dropout_prob: is a string; it must be a number" },
        { BERT_JSON ", \"hidden_dropout_prob\": 1.5}", "dropout: 1.5 is not" },
        { BERT_JSON ", \"tie_word_embeddings\": 1}",
          "tie_word_embeddings: is a whole number; it must be true or false" },
        { BERT_JSON ", \"is_decoder\": true}",
          "is_decoder: only false is supported" },
        { BERT_JSON ", \"position_embedding_type\": \"relative_key\"}",
          "position_embedding_type: only absolute" },
        { GPT2_JSON ", \"scale_attn_by_inverse_layer_idx\": true}",
          "scale_attn_by_inverse_layer_idx: only false" },
        { GPT2_JSON ", \"embd_pdrop\": 0.3}",
          "embd_pdrop: 0.3 differs from resid_pdrop 0.1" },
        { GPT2_JSON ", \"n_inner\": {}}", "n_inner: is an object" },
        { M2M_JSON ", \"scale_embedding\": false}",
          "scale_embedding: only true" },
        { M2M_JSON ", \"decoder_attention_heads\": 8}",
          "decoder_attention_heads: 8 differs from encoder_attention_heads" },
        { M2M_JSON ", \"decoder_ffn_dim\": []}", "decoder_ffn_dim: is a list" },
        { "{\"model_type\": \"gpt2\", \"vocab_size\": 9, \"n_embd\": 10, "
          "\"n_layer\": 1, \"n_head\": 3, \"n_positions\": 4}",
          "heads: 3 heads do not divide hidden 10" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const struct vp_model *model = NULL;
        struct vp_model_config c = { .vocab = -7 };
        struct vp_err err = { .text = "" };

        if (read_json(cases[i].text, &model, &c, &err) == VP_OK)
            fail_msg("accepted: %s", cases[i].text);
        if (!strstr(err.text, cases[i].want))
            fail_msg("case %zu: got '%s', want '%s'", i, err.text,
                     cases[i].want);
        assert_memory_equal(err.text, json_path, strlen(json_path));
        assert_null(strchr(err.text, '\n'));
        assert_null(model);
        assert_int_equal(c.vocab, -7);
    }
}

static void json_no_file(void **state)
{
    const struct vp_model *model = NULL;
    struct vp_model_config c;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(
        vp_model_read_json("/no/such/config.json", &model, &c, &err),
        VP_ERR_IO);
    assert_non_null(strstr(err.text, "/no/such/config.json: cannot be opened"));
    assert_int_equal(
        vp_model_read_json("/no/such/config.json", &model, &c, NULL),
        VP_ERR_IO);
    assert_int_equal(vp_model_read_json("/", &model, &c, &err), VP_ERR_INVALID);
}

/* Damaged files are parsed, or refused in one line; they never crash. */
static void json_damaged(void **state)
{
    static const char *const texts[] = { BERT_JSON "}", GPT2_JSON "}",
                                         M2M_JSON "}" };
    static const char alphabet[] = "{}[]\",:0123456789.eE-+\\ntf\n x\x80\xff";

    (void)state;
    for (uint32_t i = 0; i < 1500; i++) {
        struct vp_rng4 r = vp_rng(4, VP_RNG_TEST, 0, i, 0, 0);
        const struct vp_model *model = NULL;
        struct vp_model_config c;
        struct vp_err err = { .text = "" };
        char text[512];
        uint32_t n;

        snprintf(text, sizeof(text), "%s", texts[i % VP_COUNT_OF(texts)]);
        n = (uint32_t)strlen(text);
        text[vp_rng_below(r.v[0], n)] =
            alphabet[vp_rng_below(r.v[1], sizeof(alphabet) - 1)];
        if (i % 4 == 0)
            text[vp_rng_below(r.v[2], n)] = 0;
        if (read_json(text, &model, &c, &err) == VP_OK)
            assert_non_null(model);
        else
            assert_memory_equal(err.text, json_path, strlen(json_path));
        assert_null(strchr(err.text, '\n'));
    }
}

/* Each model's first size with every value changed is written and read without
 * loss. */
static void json_written_is_read(void **state)
{
    static const char *const names[] = { "bert", "gpt2", "cpm", "translation" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        const struct vp_model *model = vp_model_find(names[i]), *read;
        const struct vp_model_ids ids = { 5, 6, 7 };
        struct vp_model_config c = model->sizes[0].config, back;
        struct vp_err err = { .text = "" };
        char *text;

        c.vocab = 1001;
        c.hidden = 96;
        c.heads = 3;
        c.layers = 5;
        c.ffn = 97;
        c.positions = 33;
        c.dropout = 0.13f;
        c.attention_dropout = 0.07f;
        c.act = VP_ACT_GELU_TANH;
        c.tie_embeddings = false;
        if (model->task != VP_TASK_TRANSLATION)
            c.eps = 3e-7f;
        if (model->task != VP_TASK_CAUSAL_LM)
            c.pad = 9;
        c.decoder_layers = model->task == VP_TASK_TRANSLATION ? 4 : 0;
        c.types = model->task == VP_TASK_MASKED_LM ? 3 : 0;
        assert_int_equal(
            vp_model_format_json(model, &c, &ids, "Class", "float16", &text),
            VP_OK);
        assert_non_null(strstr(text, "\"dtype\": \"float16\""));
        assert_int_equal(strstr(text, "\"eos_token_id\": 6") != NULL,
                         model->task != VP_TASK_MASKED_LM);
        assert_int_equal(strstr(text, "\"decoder_start_token_id\": 7") != NULL,
                         model->task == VP_TASK_TRANSLATION);
        assert_int_equal(strstr(text, "\"encoder_layerdrop\": 0.0,") != NULL,
                         model->task == VP_TASK_TRANSLATION);
        if (read_json(text, &read, &back, &err) != VP_OK)
            fail_msg("%s", err.text);
        assert_int_equal(read->task, model->task);
        assert_memory_equal(&back, &c, sizeof(c));
        free(text);
    }
}

static int make_json_path(void **state)
{
    static char path[] = "/tmp/vpipe_test_model_config_XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    if (fd < 0)
        return -1;
    json_path = path;
    return close(fd);
}

static int remove_json_path(void **state)
{
    (void)state;
    return unlink(json_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_sizes),
        cmocka_unit_test(refused_others),
        cmocka_unit_test(json_bert),
        cmocka_unit_test(json_google),
        cmocka_unit_test(json_others),
        cmocka_unit_test(json_refused),
        cmocka_unit_test(json_no_file),
        cmocka_unit_test(json_damaged),
        cmocka_unit_test(json_written_is_read),
    };

    return cmocka_run_group_tests(tests, make_json_path, remove_json_path);
}
