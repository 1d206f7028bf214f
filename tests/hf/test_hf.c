/* Hugging Face folders written by transformers (tests/golden/make_hf.py) are
 * read with the right names and values, written folders are read back, and
 * damaged or hostile folders are refused. */
#include "base/dtype.h"
#include "base/rng.h"
#include "hf/folder.h"
#include "hf/index.h"
#include "hf/write.h"
#include "lib/removelib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN VP_SOURCE_DIR "/tests/golden/hf/"

static const char *const folders[] = { "gpt2",      "gpt2_old",    "bert",
                                       "bert_old",  "bert_untied", "m2m",
                                       "m2m_untied" };

static struct vp_hf_folder *open_golden(const char *name)
{
    struct vp_hf_folder *folder = NULL;
    struct vp_err err = { .text = "" };
    char path[512];

    snprintf(path, sizeof(path), "%s%s", GOLDEN, name);
    if (vp_hf_open(path, &folder, &err) != VP_OK)
        fail_msg("%s", err.text);
    return folder;
}

/* ---- Tensor names ------------------------------------------------------- */

static void old_names_are_todays(void **state)
{
    static const struct {
        const char *arch;
        bool tied, bias;
        const char *name, *want;
        enum vp_hf_kind kind;
    } cases[] = {
        { "GPT2LMHeadModel", true, true, "h.3.attn.c_attn.bias",
          "transformer.h.3.attn.c_attn.bias", VP_HF_WEIGHT },
        { "GPT2LMHeadModel", true, true, "transformer.h.3.ln_1.weight",
          "transformer.h.3.ln_1.weight", VP_HF_WEIGHT },
        { "GPT2LMHeadModel", true, true, "h.0.attn.bias",
          "transformer.h.0.attn.bias", VP_HF_BUFFER },
        { "GPT2LMHeadModel", true, true, "transformer.h.0.attn.masked_bias",
          "transformer.h.0.attn.masked_bias", VP_HF_BUFFER },
        { "GPT2LMHeadModel", true, true, "lm_head.weight",
          "transformer.wte.weight", VP_HF_TIED },
        { "GPT2LMHeadModel", false, true, "lm_head.weight", "lm_head.weight",
          VP_HF_WEIGHT },
        { "BertForMaskedLM", true, true, "embeddings.LayerNorm.gamma",
          "bert.embeddings.LayerNorm.weight", VP_HF_WEIGHT },
        { "BertForMaskedLM", true, true,
          "bert.encoder.layer.1.output.LayerNorm.beta",
          "bert.encoder.layer.1.output.LayerNorm.bias", VP_HF_WEIGHT },
        { "BertForMaskedLM", true, true, "embeddings.position_ids",
          "bert.embeddings.position_ids", VP_HF_BUFFER },
        { "BertForPreTraining", true, true, "cls.predictions.decoder.bias",
          "cls.predictions.bias", VP_HF_TIED },
        { "BertForPreTraining", true, true, "cls.predictions.decoder.weight",
          "bert.embeddings.word_embeddings.weight", VP_HF_TIED },
        { "BertForPreTraining", false, true, "cls.predictions.decoder.weight",
          "cls.predictions.decoder.weight", VP_HF_WEIGHT },
        { "M2M100ForConditionalGeneration", true, true, "lm_head.weight",
          "model.shared.weight", VP_HF_TIED },
        { "M2M100ForConditionalGeneration", true, true,
          "decoder.embed_tokens.weight", "model.shared.weight", VP_HF_TIED },
        { "M2M100ForConditionalGeneration", true, true,
          "model.encoder.embed_positions.weights",
          "model.encoder.embed_positions.weights", VP_HF_BUFFER },
        { "M2M100ForConditionalGeneration", true, false,
          "model.decoder.layers.0.encoder_attn.out_proj.bias",
          "model.decoder.layers.0.encoder_attn.out_proj.bias", VP_HF_ZERO },
        { "M2M100ForConditionalGeneration", true, true,
          "model.decoder.layers.0.encoder_attn.out_proj.bias",
          "model.decoder.layers.0.encoder_attn.out_proj.bias", VP_HF_WEIGHT },
    };
    char name[VP_HF_NAME_BYTES];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const struct vp_model_config config = {
            .tie_embeddings = cases[i].tied, .attention_bias = cases[i].bias
        };
        enum vp_hf_kind kind;

        assert_int_equal(vp_hf_name(vp_hf_arch_find(cases[i].arch), &config,
                                    cases[i].name, &kind, name, NULL),
                         VP_OK);
        assert_string_equal(name, cases[i].want);
        assert_int_equal(kind, cases[i].kind);
    }
}

static void names_have_a_limit(void **state)
{
    const struct vp_model_config config = { .tie_embeddings = true };
    const struct vp_hf_arch *arch = vp_hf_arch_find("GPT2LMHeadModel");
    struct vp_err err = { .text = "" };
    char name[VP_HF_NAME_BYTES + 1], out[VP_HF_NAME_BYTES];
    enum vp_hf_kind kind;

    (void)state;
    memset(name, 'h', sizeof(name));
    name[1] = '.';
    name[VP_HF_NAME_BYTES - 1] = '\0'; /* fits, but not with its prefix */
    assert_int_equal(vp_hf_name(arch, &config, name, &kind, out, &err),
                     VP_ERR_INVALID);
    name[VP_HF_NAME_BYTES - 1 - (int)strlen("transformer.")] = '\0';
    assert_int_equal(vp_hf_name(arch, &config, name, &kind, out, &err), VP_OK);
}

/* ---- Reading folders ---------------------------------------------------- */

static void all_folders_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(folders); i++) {
        struct vp_hf_folder *folder = open_golden(folders[i]);
        struct vp_err err = { .text = "" };

        if (vp_hf_check_values(folder, &err) != VP_OK)
            fail_msg("%s", err.text);
        assert_int_equal(vp_hf_config(folder)->vocab, 48);
        vp_hf_close(folder);
    }
}

static int count_kind(const struct vp_hf_folder *folder, enum vp_hf_kind kind)
{
    int n = 0;

    for (int i = 0; i < vp_hf_n_tensors(folder); i++)
        n += vp_hf_tensor(folder, i)->kind == kind;
    return n;
}

/* Tensors that vpipe does not train: pooler and next-sentence head of
 * BertForPreTraining, attention masks of old GPT-2 files. */
static void what_is_not_trained_is_known(void **state)
{
    struct vp_hf_folder *folder = open_golden("bert");
    float pooler[16];

    (void)state;
    assert_int_equal(vp_hf_n_shards(folder), 4);
    assert_string_equal(vp_hf_shard_name(folder, 1),
                        "model-00002-of-00004.safetensors");
    assert_int_equal(count_kind(folder, VP_HF_CARRIED), 4);
    assert_string_equal(vp_hf_arch_name(vp_hf_arch(folder)),
                        "BertForPreTraining");
    assert_int_equal(vp_hf_read(folder, "bert.pooler.dense.bias", 1, 16, false,
                                pooler, NULL),
                     VP_ERR_INVALID);
    vp_hf_close(folder);
    folder = open_golden("gpt2_old");
    assert_int_equal(count_kind(folder, VP_HF_BUFFER), 4);
    assert_int_equal(count_kind(folder, VP_HF_TIED), 1);
    assert_int_equal(count_kind(folder, VP_HF_CARRIED), 0);
    vp_hf_close(folder);
    folder = open_golden("m2m_untied");
    assert_int_equal(count_kind(folder, VP_HF_CARRIED), 1);
    vp_hf_close(folder);
}

/* Returns the tensor with this name in the file. */
static const struct vp_hf_tensor *find_raw(const struct vp_hf_folder *folder,
                                           const char *name)
{
    for (int i = 0; i < vp_hf_n_tensors(folder); i++)
        if (strcmp(vp_hf_tensor(folder, i)->stored->name, name) == 0)
            return vp_hf_tensor(folder, i);
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Converts `n` values of type `type` to floats. */
static void expand(enum vp_st_type type, const void *raw, int64_t n, float *out)
{
    if (type == VP_ST_F32)
        memcpy(out, raw, (size_t)n * sizeof(*out));
    else
        vp_dtype_expand(type == VP_ST_F16 ? VP_DTYPE_F16 : VP_DTYPE_BF16, out,
                        raw, n);
}

static void values_are_floats(void **state)
{
    static const struct {
        const char *folder, *name, *raw;
        int64_t rows, cols;
        bool transposed;
    } cases[] = {
        { "gpt2", "transformer.wte.weight", "transformer.wte.weight", 48, 16,
          false },
        { "gpt2", "transformer.h.1.mlp.c_fc.weight",
          "transformer.h.1.mlp.c_fc.weight", 64, 16, true },
        { "gpt2_old", "transformer.h.1.attn.c_attn.weight",
          "h.1.attn.c_attn.weight", 48, 16, true },
        { "bert_old", "bert.encoder.layer.0.output.LayerNorm.bias",
          "encoder.layer.0.output.LayerNorm.beta", 1, 16, false },
        { "bert_old", "cls.predictions.bias", "cls.predictions.decoder.bias", 1,
          48, false },
        { "m2m_untied", "lm_head.weight", "lm_head.weight", 48, 16, false },
    };
    float raw_values[64 * 64], out[64 * 64];
    unsigned char raw[sizeof(out)];
    struct vp_err err = { .text = "" };

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(cases); k++) {
        int64_t rows = cases[k].rows, cols = cases[k].cols;
        struct vp_hf_folder *folder = open_golden(cases[k].folder);
        const struct vp_hf_tensor *t = find_raw(folder, cases[k].raw);

        assert_int_equal(vp_hf_read_raw(folder, t, raw, &err), VP_OK);
        expand(t->stored->type, raw, rows * cols, raw_values);
        if (vp_hf_read(folder, cases[k].name, rows, cols, cases[k].transposed,
                       out, &err) != VP_OK)
            fail_msg("%s", err.text);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
                assert_true(out[r * cols + c] ==
                            raw_values[cases[k].transposed ? c * rows + r
                                                           : r * cols + c]);
        assert_int_equal(
            vp_hf_read(folder, cases[k].name, rows, cols + 1, false, out, &err),
            VP_ERR_INVALID);
        vp_hf_close(folder);
    }
}

/* ---- model.safetensors.index.json --------------------------------------- */

static void only_plain_file_names_are_taken(void **state)
{
    static const char *const bad[] = {
        "../model.safetensors",    "/tmp/model.safetensors",
        "a/model.safetensors",     ".model.safetensors",
        "pytorch_model.bin",       ".safetensors",
        "a..b.safetensors",        "a\\\\b.safetensors",
        "..\\\\model.safetensors",
    };
    struct vp_hf_index index;
    char text[256];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++) {
        struct vp_err err = { .text = "" };

        snprintf(text, sizeof(text), "{\"weight_map\": {\"a\": \"%s\"}}",
                 bad[i]);
        assert_int_equal(vp_hf_index_parse(text, strlen(text), &index, &err),
                         VP_ERR_INVALID);
        assert_non_null(strstr(err.text, "is not the name of a file"));
    }
    snprintf(text, sizeof(text),
             "{\"weight_map\": {\"b\": \"2.safetensors\", \"a\": "
             "\"1.safetensors\", \"c\": \"1.safetensors\"}}");
    assert_int_equal(vp_hf_index_parse(text, strlen(text), &index, NULL),
                     VP_OK);
    assert_int_equal(index.n_files, 2);
    assert_int_equal(index.n_places, 3);
    assert_int_equal(vp_hf_index_find(&index, "b")->file, 1);
    assert_int_equal(vp_hf_index_find(&index, "c")->file, 0);
    assert_null(vp_hf_index_find(&index, "d"));
    vp_hf_index_release(&index);
}

/* ---- Damaged and hostile folders ---------------------------------------- */

static char work[256]; /* new folder for every test */

static int make_work(void **state)
{
    const char *tmp = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";

    (void)state;
    snprintf(work, sizeof(work), "%s/vpipe-hf-XXXXXX", tmp);
    return mkdtemp(work) ? 0 : -1;
}

static int remove_work(void **state)
{
    (void)state;
    return remove_tree(work);
}

static const char *in_work(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", work, name);
    return path;
}

struct bytes {
    char *at;
    size_t n;
};

static struct bytes read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct bytes out = { .at = malloc(1 << 17) };

    assert_non_null(file);
    assert_non_null(out.at);
    out.n = fread(out.at, 1, (1 << 17) - 1, file);
    out.at[out.n] = '\0';
    fclose(file);
    return out;
}

static void write_all(const char *path, const char *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static const char *const copied[] = {
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-00001-of-00004.safetensors",
    "model-00002-of-00004.safetensors",
    "model-00003-of-00004.safetensors",
    "model-00004-of-00004.safetensors",
};

/* Copies the golden folder `name` to `work`. */
static void copy_golden(const char *name)
{
    for (size_t i = 0; i < VP_COUNT_OF(copied); i++) {
        char from[512];
        struct bytes bytes;

        unlink(in_work(copied[i]));
        snprintf(from, sizeof(from), "%s%s/%s", GOLDEN, name, copied[i]);
        if (access(from, F_OK) != 0)
            continue;
        bytes = read_all(from);
        write_all(in_work(copied[i]), bytes.at, bytes.n);
        free(bytes.at);
    }
}

/* Replaces the first `from` in a file of `work` by `to`. */
static void replace(const char *file, const char *from, const char *to)
{
    struct bytes bytes = read_all(in_work(file));
    char *at = memmem(bytes.at, bytes.n, from, strlen(from));
    char *out = malloc(bytes.n + strlen(to) + 1);
    size_t before, n;

    assert_non_null(at);
    assert_non_null(out);
    before = (size_t)(at - bytes.at);
    n = before + strlen(to);
    memcpy(out, bytes.at, before);
    memcpy(out + before, to, strlen(to));
    memcpy(out + n, at + strlen(from), bytes.n - before - strlen(from));
    write_all(in_work(file), out, bytes.n - strlen(from) + strlen(to));
    free(out);
    free(bytes.at);
}

/* Opening or checking `work` fails with one line that contains `part`. */
static void expect_refusal(const char *part)
{
    struct vp_hf_folder *folder = NULL;
    struct vp_err err = { .text = "" };
    enum vp_status st = vp_hf_open(work, &folder, &err);

    if (st == VP_OK) {
        st = vp_hf_check_values(folder, &err);
        vp_hf_close(folder);
    }
    if (st != VP_ERR_INVALID && st != VP_ERR_UNSUPPORTED)
        fail_msg("%s: %s: %s", part, vp_status_name(st), err.text);
    if (!strstr(err.text, part) || strchr(err.text, '\n'))
        fail_msg("%s: %s", part, err.text);
}

static void lies_cost_one_line(void **state)
{
    static const struct {
        const char *folder, *file, *from, *to, *part;
    } cases[] = {
        { "gpt2", "config.json", "\"gpt2\"", "\"gpt3\"", "gpt3 is not known" },
        { "gpt2", "config.json", "GPT2LMHeadModel", "GPT2Model",
          "GPT2Model is not supported" },
        { "gpt2", "config.json", "GPT2LMHeadModel", "BertForMaskedLM",
          "does not belong" },
        { "gpt2", "config.json", "\"n_layer\": 2", "\"n_layer\": 60000",
          "requires 60000 layers" },
        { "gpt2", "config.json", "\"n_layer\": 2", "\"n_layer\": 3",
          "transformer.h.2" },
        { "gpt2", "config.json", "\"vocab_size\": 48", "\"vocab_size\": 49",
          "F32 [48, 16], but config.json requires F32 [49, 16]" },
        { "gpt2", "config.json", "\"n_embd\": 16", "\"n_embd\": 160",
          "requires" },
        { "gpt2", "config.json", "{", "[", "config.json: line" },
        { "gpt2", "model.safetensors", "transformer.ln_f.bias",
          "transformer.ln_g.bias", "transformer.ln_f.bias is missing" },
        { "gpt2", "model.safetensors", "transformer.h.0.ln_1.bias",
          "transformer.h.0.ln_2.bias", "model.safetensors: header" },
        { "gpt2", "model.safetensors", "\"F32\"", "\"F64\"", "tensor" },
        { "gpt2", "model.safetensors", "\"F32\"", "\"I32\"",
          "must be F32, F16 or BF16" },
        { "bert_old", "model.safetensors",
          "encoder.layer.0.output.LayerNorm.gamma",
          "encoder.layer.0.output.LayerNorm.gama", "" },
        { "bert", "model.safetensors.index.json", "model-00002", "../el-00002",
          "is not the name of a file" },
        { "bert", "model.safetensors.index.json", "model-00002", "model-00009",
          "cannot be opened" },
        { "bert", "model.safetensors.index.json", "bert.pooler.dense.bias",
          "bert.pooler.dense.bais", "is not in this file" },
        { "bert", "model.safetensors.index.json",
          "\"bert.embeddings.LayerNorm.bias\": \"model-00001",
          "\"bert.embeddings.LayerNorm.bias\": \"model-00002",
          "is not in this file" },
        { "bert", "model.safetensors.index.json",
          "\"bert.pooler.dense.bias\": \"model-00003-of-00004.safetensors\",",
          "", "which model.safetensors.index.json does not name" },
        { "bert", "model.safetensors.index.json", "weight_map", "weight_mop",
          "weight_map is missing" },
        { "m2m", "config.json", "\"architectures\"",
          "\"attention_bias\": false, \"architectures\"", "is not zero" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        copy_golden(cases[i].folder);
        replace(cases[i].file, cases[i].from, cases[i].to);
        expect_refusal(cases[i].part);
    }
}

static void files_that_are_not_plain_are_refused(void **state)
{
    (void)state;
    copy_golden("gpt2");
    assert_int_equal(unlink(in_work("model.safetensors")), 0);
    expect_refusal("holds neither");
    assert_int_equal(
        symlink(GOLDEN "gpt2/model.safetensors", in_work("model.safetensors")),
        0);
    expect_refusal("is a symbolic link");
    assert_int_equal(unlink(in_work("model.safetensors")), 0);
    assert_int_equal(mkdir(in_work("model.safetensors"), 0700), 0);
    expect_refusal("is not a file");
    assert_int_equal(rmdir(in_work("model.safetensors")), 0);
    assert_int_equal(mkfifo(in_work("model.safetensors"), 0600), 0);
    expect_refusal("is not a file");
    write_all(in_work("pytorch_model.bin"), "x", 1);
    assert_int_equal(unlink(in_work("model.safetensors")), 0);
    expect_refusal("holds pytorch_model.bin");
    assert_int_equal(unlink(in_work("config.json")), 0);
    expect_refusal("holds no config.json");
}

/* Tied tensors stored under both names must be equal. The test changes a byte
 * of the second one. */
static void ties_must_hold(void **state)
{
    struct bytes bytes;

    (void)state;
    copy_golden("gpt2_old");
    bytes = read_all(in_work("model.safetensors"));
    {
        struct vp_hf_folder *folder = NULL;
        int64_t at;

        assert_int_equal(vp_hf_open(work, &folder, NULL), VP_OK);
        at = find_raw(folder, "lm_head.weight")->stored->offset;
        vp_hf_close(folder);
        bytes.at[at + 1000] ^= 1;
    }
    write_all(in_work("model.safetensors"), bytes.at, bytes.n);
    expect_refusal("differ, but config.json ties them");
    free(bytes.at);
}

/* Each of the seven folders is damaged 200 times: 100 times a file is cut, 100
 * times a bit in its first 4096 bytes is flipped. It opens or is refused with
 * one line; sanitizers find the rest. */
static void damage_is_refused(void **state)
{
    int n_refused = 0;

    (void)state;
    for (uint32_t k = 0; k < 1400; k++) {
        struct vp_rng4 random = vp_rng(11, VP_RNG_TEST, 0, k, 0, 0);
        const char *name = copied[random.v[0] % VP_COUNT_OF(copied)];
        struct vp_hf_folder *folder = NULL;
        struct vp_err err = { .text = "" };
        struct bytes bytes;
        enum vp_status st;

        copy_golden(folders[k % 7]);
        if (access(in_work(name), F_OK) != 0)
            continue;
        bytes = read_all(in_work(name));
        if (k % 2 == 0)
            bytes.n = random.v[1] % bytes.n;
        else
            bytes.at[random.v[1] % (bytes.n < 4096 ? bytes.n : 4096)] ^=
                (char)(1u << random.v[2] % 8);
        write_all(in_work(name), bytes.at, bytes.n);
        free(bytes.at);
        st = vp_hf_open(work, &folder, &err);
        vp_hf_close(folder);
        n_refused += st != VP_OK;
        if (st != VP_OK && (!err.text[0] || strchr(err.text, '\n')))
            fail_msg("%u: %s", k, err.text);
    }
    assert_true(n_refused > 200);
}

/* ---- Writing folders ---------------------------------------------------- */

/* Value of all parameters; the largest F16 is 65504. */
static float fill_value;

static enum vp_status fill(void *ctx, const struct vp_hf_param *param,
                           float *out, struct vp_err *err)
{
    (void)ctx;
    (void)err;
    for (int64_t i = 0; i < vp_hf_param_elements(param); i++)
        out[i] = fill_value;
    return VP_OK;
}

static const struct vp_model_config small = { .vocab = 24,
                                              .hidden = 8,
                                              .layers = 1,
                                              .decoder_layers = 1,
                                              .heads = 2,
                                              .ffn = 8,
                                              .positions = 8,
                                              .types = 1,
                                              .eps = 1e-5f,
                                              .act = VP_ACT_RELU };

static enum vp_status write_sized(const char *model,
                                  const struct vp_model_config *config,
                                  enum vp_st_type type, int64_t shard_bytes,
                                  struct vp_err *err)
{
    const struct vp_hf_write write = { .model = vp_model_find(model),
                                       .config = config,
                                       .ids = { -1, -1, -1 },
                                       .type = type,
                                       .shard_bytes = shard_bytes,
                                       .read = fill };

    return vp_hf_write(work, &write, err);
}

static enum vp_status write_model(const char *model, enum vp_st_type type,
                                  int64_t shard_bytes, struct vp_err *err)
{
    return write_sized(model, &small, type, shard_bytes, err);
}

/* Untied models, and a translation model without attention biases. The class in
 * transformers has biases that vpipe's model lacks: they are written as zeros.
 * A table with one row keeps two dimensions. */
static void what_is_written_is_read(void **state)
{
    static const char *const names[] = { "bert", "gpt2", "translation" };
    static const enum vp_st_type types[] = { VP_ST_COUNT, VP_ST_F16,
                                             VP_ST_BF16 };
    float out[24 * 8];

    (void)state;
    fill_value = 0.25f;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        struct vp_hf_folder *folder = NULL;
        struct vp_err err = { .text = "" };
        const struct vp_hf_tensor *t;

        if (write_model(names[i], types[i], i == 2 ? 700 : 0, &err) != VP_OK ||
            (i == 2 && unlink(in_work("model.safetensors")) != 0) ||
            vp_hf_open(work, &folder, &err) != VP_OK ||
            vp_hf_check_values(folder, &err) != VP_OK)
            fail_msg("%s: %s", names[i], err.text);
        assert_int_equal(vp_hf_config(folder)->attention_bias, false);
        assert_true(i == 2 ? vp_hf_n_shards(folder) > 3
                           : vp_hf_n_shards(folder) == 1);
        t = find_raw(folder, i == 0 ? "cls.predictions.decoder.weight"
                                    : "lm_head.weight");
        assert_int_equal(t->stored->type,
                         types[i] == VP_ST_COUNT ? VP_ST_F32 : types[i]);
        assert_int_equal(vp_hf_read(folder, t->name, 24, 8, false, out, &err),
                         VP_OK);
        assert_true(out[0] == 0.25f && out[24 * 8 - 1] == 0.25f);
        if (i == 0)
            assert_int_equal(
                find_raw(folder, "bert.embeddings.token_type_embeddings.weight")
                    ->stored->n_dims,
                2);
        if (i == 2)
            assert_int_equal(count_kind(folder, VP_HF_ZERO), 12);
        vp_hf_close(folder);
    }
}

/* A tied table is written once, under the name that the class uses. */
static void ties_are_written_once(void **state)
{
    static const char *const names[] = { "bert", "gpt2", "translation" };
    struct vp_model_config tied = small;

    (void)state;
    tied.tie_embeddings = true;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        struct vp_hf_folder *folder = NULL;
        struct vp_err err = { .text = "" };

        if (write_sized(names[i], &tied, VP_ST_COUNT, 0, &err) != VP_OK ||
            vp_hf_open(work, &folder, &err) != VP_OK)
            fail_msg("%s: %s", names[i], err.text);
        assert_int_equal(count_kind(folder, VP_HF_TIED), 0);
        assert_int_equal(count_kind(folder, VP_HF_CARRIED), 0);
        vp_hf_close(folder);
    }
}

static void f16_must_hold_the_weights(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    fill_value = 65504.0f;
    assert_int_equal(write_model("gpt2", VP_ST_F16, 0, &err), VP_OK);
    fill_value = -65536.0f;
    assert_int_equal(write_model("gpt2", VP_ST_F16, 0, &err), VP_ERR_INVALID);
    assert_non_null(
        strstr(err.text, "holds -65536, which is beyond the range of F16"));
    assert_int_equal(write_model("gpt2", VP_ST_BF16, 0, &err), VP_OK);
}

/* config.json is written last, so an incomplete folder has none. */
static void an_export_that_fails_is_not_a_model(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    fill_value = 1e9f;
    assert_int_equal(write_model("gpt2", VP_ST_F16, 0, &err), VP_ERR_INVALID);
    assert_int_equal(access(in_work("config.json"), F_OK), -1);
    assert_int_equal(access(in_work("model.safetensors"), F_OK), -1);
}

static void a_model_without_a_class_is_not_exported(void **state)
{
    struct vp_model model = *vp_model_find("gpt2");
    const struct vp_hf_write write = { .model = &model,
                                       .config = &small,
                                       .ids = { -1, -1, -1 },
                                       .type = VP_ST_COUNT,
                                       .read = fill };
    struct vp_err err = { .text = "" };

    (void)state;
    model.name = "own";
    assert_int_equal(vp_hf_write(work, &write, &err), VP_ERR_UNSUPPORTED);
    assert_non_null(strstr(
        err.text, "model_type own: Hugging Face has no class for this model; "
                  "export one of BertForMaskedLM, "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_names_are_todays),
        cmocka_unit_test(names_have_a_limit),
        cmocka_unit_test(all_folders_open),
        cmocka_unit_test(what_is_not_trained_is_known),
        cmocka_unit_test(values_are_floats),
        cmocka_unit_test(only_plain_file_names_are_taken),
        cmocka_unit_test_setup_teardown(lies_cost_one_line, make_work,
                                        remove_work),
        cmocka_unit_test_setup_teardown(files_that_are_not_plain_are_refused,
                                        make_work, remove_work),
        cmocka_unit_test_setup_teardown(ties_must_hold, make_work, remove_work),
        cmocka_unit_test_setup_teardown(damage_is_refused, make_work,
                                        remove_work),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, make_work,
                                        remove_work),
        cmocka_unit_test_setup_teardown(ties_are_written_once, make_work,
                                        remove_work),
        cmocka_unit_test_setup_teardown(f16_must_hold_the_weights, make_work,
                                        remove_work),
        cmocka_unit_test_setup_teardown(an_export_that_fails_is_not_a_model,
                                        make_work, remove_work),
        cmocka_unit_test_setup_teardown(a_model_without_a_class_is_not_exported,
                                        make_work, remove_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
