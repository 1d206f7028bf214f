/* Hugging Face folders are imported as checkpoints and exported again, and a
 * run starts from the imported weights. tests/system/hf.sh tests the same
 * through the program. */
#include "ckpt/ckpt.h"
#include "config/load.h"
#include "hf/folder.h"
#include "lib/removelib.h"
#include "run/checkpoint_facts.h"
#include "run/export.h"
#include "run/first_weights.h"
#include "run/import.h"

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

static char work[256]; /* a new folder for every test */

static int make_work(void **state)
{
    const char *tmp = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";

    (void)state;
    snprintf(work, sizeof(work), "%s/vpipe-import-XXXXXX", tmp);
    return mkdtemp(work) ? 0 : -1;
}

static int remove_work(void **state)
{
    (void)state;
    return remove_tree(work);
}

#define IN_WORK(test) \
    cmocka_unit_test_setup_teardown(test, make_work, remove_work)

/* Returns a path in `work`. The last two results are valid. */
static const char *in_work(const char *name)
{
    static char paths[2][512];
    static int i;

    i = !i;
    snprintf(paths[i], sizeof(paths[i]), "%s/%s", work, name);
    return paths[i];
}

static int n_notes;

static void count_note(void *ctx, const char *line)
{
    (void)ctx;
    assert_null(strchr(line, '\n'));
    n_notes++;
}

static void import_golden(const char *name, const char *to)
{
    struct vp_import_result result;
    struct vp_err err = { .text = "" };
    char from[512];

    snprintf(from, sizeof(from), "%s%s", GOLDEN, name);
    n_notes = 0;
    if (vp_import(from, in_work(to), count_note, NULL, &result, &err) != VP_OK)
        fail_msg("%s", err.text);
}

static enum vp_status export(const char *from, const char *to,
                             struct vp_err *err) {
    const struct vp_export_config config = { .from = in_work(from),
                                             .to = in_work(to),
                                             .type = VP_ST_COUNT,
                                             .note = count_note };
    struct vp_export_result result;

    n_notes = 0;
    return vp_export(&config, &result, err);
}

static void assert_same_file(const char *a, const char *b)
{
    static char bytes[2][1 << 16];
    FILE *files[2] = { fopen(a, "rb"), fopen(b, "rb") };
    size_t n[2];

    for (int i = 0; i < 2; i++) {
        assert_non_null(files[i]);
        n[i] = fread(bytes[i], 1, sizeof(bytes[i]), files[i]);
        fclose(files[i]);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
}

static void what_is_imported_comes_back(void **state)
{
    struct vp_err err = { .text = "" };
    struct vp_ckpt *ckpt = NULL;

    (void)state;
    import_golden("bert_untied", "ckpt");
    assert_int_equal(n_notes, 1); /* cls.predictions.bias is carried */
    assert_int_equal(vp_ckpt_open(in_work("ckpt/step-0"), &ckpt, &err), VP_OK);
    assert_int_equal(vp_ckpt_step(ckpt), 0);
    assert_true(vp_checkpoint_facts_imported(vp_ckpt_facts(ckpt)));
    vp_ckpt_close(ckpt);
    if (export("ckpt", "back", &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(n_notes, 1); /* a missing tokenizer; not a stale step */
    assert_same_file(in_work("back/model.safetensors"),
                     GOLDEN "bert_untied/model.safetensors");
    assert_same_file(in_work("back/config.json"),
                     GOLDEN "bert_untied/config.json");
    if (export("ckpt/step-0", "again", &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_same_file(in_work("again/model.safetensors"),
                     GOLDEN "bert_untied/model.safetensors");
}

static void nothing_is_written_over(void **state)
{
    struct vp_import_result result;
    struct vp_err err = { .text = "" };

    (void)state;
    import_golden("gpt2", "ckpt");
    assert_int_equal(vp_import(GOLDEN "gpt2", in_work("ckpt"), count_note, NULL,
                               &result, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "is not empty"));
    assert_int_equal(export("ckpt", "ckpt", &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "is not empty"));
    assert_int_equal(mkdir(in_work("empty"), 0700), 0);
    assert_int_equal(export("ckpt", "empty", &err), VP_OK);
    assert_int_equal(export("empty", "x", &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "Hugging Face folder already"));
    assert_int_equal(export("nothing", "x", &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "holds no checkpoint"));
}

/* The origin is found in the run folder or beside step-0, not in folders
 * above. */
static void origins_are_found_in_their_place(void **state)
{
    char found[512];

    (void)state;
    import_golden("gpt2", "ckpt");
    assert_true(
        vp_first_weights_origin(in_work("ckpt/step-0"), found, sizeof(found)));
    assert_int_equal(mkdir(in_work("run"), 0700), 0);
    assert_int_equal(mkdir(in_work("run/checkpoints"), 0700), 0);
    assert_int_equal(mkdir(in_work("run/checkpoints/step-1"), 0700), 0);
    assert_false(vp_first_weights_origin(in_work("run/checkpoints/step-1"),
                                         found, sizeof(found)));
    assert_int_equal(
        vp_first_weights_pass_on(in_work("ckpt/step-0"), in_work("run"), NULL),
        VP_OK);
    assert_true(vp_first_weights_origin(in_work("run/checkpoints/step-1"),
                                        found, sizeof(found)));
    assert_int_equal(mkdir(in_work("run/other"), 0700), 0);
    assert_int_equal(mkdir(in_work("run/other/step-1"), 0700), 0);
    assert_false(vp_first_weights_origin(in_work("run/other/step-1"), found,
                                         sizeof(found)));
}

static void load(const char *yaml, struct vp_config *out)
{
    struct vp_err err = { .text = "" };

    if (vp_config_parse("a.yml", yaml, strlen(yaml), NULL, 0, out, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
}

/* The folder of `init` decides the model. Keys of the user replace its values,
 * and are refused if the weights do not agree with them. */
static void init_decides_the_model(void **state)
{
    static const char yaml[] = "init: " GOLDEN "m2m\n"
                               "seq_length: 8\n";
    static const char wider[] = "init: " GOLDEN "gpt2\n"
                                "hidden: 32\n";
    struct vp_first_weights *first = NULL;
    struct vp_resume_config with = { .path = GOLDEN "gpt2" };
    struct vp_err err = { .text = "" };
    struct vp_config config;
    bool agreed = false;

    (void)state;
    load(yaml, &config);
    assert_string_equal(config.model->name, "translation");
    assert_int_equal(config.sizes.vocab, 48);
    assert_int_equal(config.sizes.ffn, 24);
    assert_int_equal(config.sizes.pad, 1);
    vp_config_release(&config);
    load(wider, &config);
    assert_int_equal(config.sizes.hidden, 32);
    with.config = &config;
    assert_int_equal(vp_first_weights_open(&with, &first, &agreed, &err),
                     VP_ERR_INVALID);
    assert_non_null(
        strstr(err.text, "hidden is 32 (a.yml:2), but " GOLDEN "gpt2 has 16"));
    vp_config_release(&config);
}

/* First weights have the imported values, zero moments, and no step. */
static void first_weights_have_no_past(void **state)
{
    static const char yaml[] = "init: " GOLDEN "gpt2\n";
    const struct vp_state_item weight = { .name = "transformer.h.0.mlp.c_fc."
                                                  "weight",
                                          .kind = VP_STATE_WEIGHT,
                                          .rows = 64,
                                          .cols = 16,
                                          .transposed = true };
    struct vp_state_item moment = weight;
    struct vp_first_weights *first = NULL;
    struct vp_err err = { .text = "" };
    struct vp_resume_config with = { .path = GOLDEN "gpt2" };
    struct vp_hf_folder *folder = NULL;
    const struct vp_loader *loader;
    float want[64 * 16], out[64 * 16];
    struct vp_config config;
    bool agreed = false;

    (void)state;
    load(yaml, &config);
    with.config = &config;
    assert_int_equal(vp_first_weights_open(&with, &first, &agreed, &err),
                     VP_OK);
    loader = vp_first_weights_loader(first);
    assert_int_equal(loader->progress.step, 0);
    assert_int_equal(vp_hf_open(GOLDEN "gpt2", &folder, &err), VP_OK);
    assert_int_equal(vp_hf_read(folder, weight.name, 64, 16, true, want, &err),
                     VP_OK);
    assert_int_equal(loader->load(loader->ctx, &weight, out, &err), VP_OK);
    assert_memory_equal(out, want, sizeof(out));
    moment.kind = VP_STATE_MOMENT2;
    assert_int_equal(loader->load(loader->ctx, &moment, out, &err), VP_OK);
    for (int i = 0; i < 64 * 16; i++)
        assert_true(out[i] == 0.0f);
    vp_hf_close(folder);
    vp_first_weights_close(first);
    vp_config_release(&config);
}

/* An untied model can start from a tied one: its output layer gets the values
 * of the embedding table. */
static void ties_can_be_cut(void **state)
{
    static const char yaml[] = "init: " GOLDEN "gpt2\n"
                               "tie_embeddings: false\n";
    struct vp_state_item item = { .kind = VP_STATE_WEIGHT,
                                  .rows = 48,
                                  .cols = 16 };
    struct vp_err err = { .text = "" };
    float head[48 * 16], table[48 * 16];
    struct vp_config config;

    (void)state;
    import_golden("gpt2", "ckpt");
    load(yaml, &config);
    for (int i = 0; i < 2; i++) {
        struct vp_resume_config with = { .path = i ? in_work("ckpt")
                                                   : GOLDEN "gpt2",
                                         .config = &config,
                                         .notice = count_note,
                                         .warn = count_note };
        struct vp_first_weights *first = NULL;
        const struct vp_loader *loader;
        bool agreed = false;

        n_notes = 0;
        if (vp_first_weights_open(&with, &first, &agreed, &err) != VP_OK)
            fail_msg("%s", err.text);
        assert_int_equal(n_notes, 1);
        loader = vp_first_weights_loader(first);
        item.name = "lm_head.weight";
        assert_int_equal(loader->load(loader->ctx, &item, head, &err), VP_OK);
        item.name = "transformer.wte.weight";
        assert_int_equal(loader->load(loader->ctx, &item, table, &err), VP_OK);
        assert_memory_equal(head, table, sizeof(head));
        vp_first_weights_close(first);
    }
    vp_config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORK(what_is_imported_comes_back),
        IN_WORK(nothing_is_written_over),
        IN_WORK(origins_are_found_in_their_place),
        cmocka_unit_test(init_decides_the_model),
        cmocka_unit_test(first_weights_have_no_past),
        IN_WORK(ties_can_be_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
