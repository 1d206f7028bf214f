/* A checkpoint is read back bit for bit: tensors, facts and manifest. Manifests
 * with impossible values are refused. */
#include "ckpt/manifest.h"
#include "lib/ckpt_steps.h"
#include "lib/ckptlib.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Declared here because only src/ckpt may include the header of libxxhash. */
uint64_t XXH3_64bits(const void *bytes, size_t n_bytes);

/* ---- Saving and reading back -------------------------------------------- */

static void what_is_saved_comes_back(void **state)
{
    struct vp_ckpt_writer *writer;
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };
    char names[256];
    char *text = NULL;

    (void)state;
    writer = open_writer(0);
    assert_int_equal(vp_ckpt_writer_saved(writer), -1);
    save_well(writer, 40, 7, 2.5);
    vp_ckpt_writer_free(writer);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-40 ");
    list_folder(in_store("step-40"), names, sizeof(names));
    assert_string_equal(names, "block-0000.safetensors block-0002.safetensors "
                               "block-0007.safetensors manifest.json ");
    if (vp_ckpt_open(in_store("step-40"), &ckpt, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(check_state(ckpt), 7);
    assert_int_equal(vp_ckpt_step(ckpt), 40);
    assert_true(vp_ckpt_score(ckpt) == 2.5);
    assert_string_equal(vp_ckpt_path(ckpt), in_store("step-40"));
    assert_int_equal(vp_facts_json(vp_ckpt_facts(ckpt), "depths", &text, &err),
                     VP_OK);
    assert_string_equal(text, "[3,2,1,0]");
    free(text);
    for (int i = 1; i < vp_ckpt_n_tensors(ckpt); i++)
        assert_true(strcmp(vp_ckpt_tensor(ckpt, i - 1)->name,
                           vp_ckpt_tensor(ckpt, i)->name) < 0);
    assert_null(vp_ckpt_find(ckpt, "head"));
    assert_int_equal(vp_ckpt_find(ckpt, "head.weight")->n_bytes, 256);
    vp_ckpt_close(ckpt);
    vp_ckpt_close(NULL);
    vp_ckpt_writer_free(NULL);
}

static void reading_checks_type_and_shape(void **state)
{
    static const struct {
        const char *name;
        struct vp_st_tensor want;
        const char *text;
    } cases[] = {
        { "head.weight",
          { .type = VP_ST_F16, .n_dims = 1, .dims = { 64 } },
          "step-30/block-0007.safetensors: tensor head.weight: is F32 [64], "
          "the model wants F16 [64]; resume with the model that was saved" },
        { "head.weight",
          { .type = VP_ST_F32, .n_dims = 1, .dims = { 65 } },
          "is F32 [64], the model wants F32 [65]" },
        { "head.weight",
          { .type = VP_ST_F32, .n_dims = 2, .dims = { 64, 1 } },
          "is F32 [64], the model wants F32 [64, 1]" },
        { "layer.1.weight",
          { .type = VP_ST_F32, .n_dims = 2, .dims = { 7, 5 } },
          "is F32 [5, 7], the model wants F32 [7, 5]" },
        { "layer.9.weight",
          { .type = VP_ST_F32, .n_dims = 2, .dims = { 7, 5 } },
          "step-30: has no tensor layer.9.weight; resume with the model that "
          "was saved" },
    };
    struct vp_ckpt *ckpt = NULL;
    unsigned char buf[512];
    struct vp_err err = { .text = "" };

    (void)state;
    save_three();
    assert_int_equal(vp_ckpt_open(in_store("step-30"), &ckpt, &err), VP_OK);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        assert_int_equal(
            vp_ckpt_read(ckpt, cases[i].name, &cases[i].want, buf, &err),
            VP_ERR_INVALID);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s", err.text);
    }
    vp_ckpt_close(ckpt);
}

static void facts_come_back(void **state)
{
    static const int64_t ints[] = { 0, -1, INT64_MAX, INT64_MIN, 42 };
    static const uint64_t bits[] = { 0, 1, UINT64_MAX, 0x8000000000000000u };
    static const double reals[] = { 0.0,    -0.0,   1.0 / 3, 1e308,
                                    5e-324, -1e-17, 3.0 };
    struct vp_facts *facts = NULL;
    struct vp_err err = { .text = "" };
    const char *text = NULL;
    uint64_t b;
    int64_t n;
    double r;

    (void)state;
    assert_int_equal(vp_facts_create(&facts), VP_OK);
    for (size_t i = 0; i < VP_COUNT_OF(ints); i++) {
        assert_int_equal(vp_facts_set_int(facts, "n", ints[i]), VP_OK);
        assert_int_equal(vp_facts_int(facts, "n", &n, &err), VP_OK);
        assert_true(n == ints[i]);
    }
    for (size_t i = 0; i < VP_COUNT_OF(bits); i++) {
        assert_int_equal(vp_facts_set_bits(facts, "b", bits[i]), VP_OK);
        assert_int_equal(vp_facts_bits(facts, "b", &b, &err), VP_OK);
        assert_true(b == bits[i]);
    }
    for (size_t i = 0; i < VP_COUNT_OF(reals); i++) {
        char *json = NULL;

        assert_int_equal(vp_facts_set_real(facts, "r", reals[i]), VP_OK);
        assert_int_equal(vp_facts_json(facts, "r", &json, &err), VP_OK);
        assert_int_equal(vp_facts_set_json(facts, "again", json), VP_OK);
        assert_int_equal(vp_facts_real(facts, "again", &r, &err), VP_OK);
        assert_memory_equal(&r, &reals[i], sizeof(r));
        free(json);
    }
    assert_int_equal(vp_facts_set_real(facts, "x", NAN), VP_ERR_INVALID);
    assert_int_equal(vp_facts_set_real(facts, "x", INFINITY), VP_ERR_INVALID);
    assert_int_equal(vp_facts_set_text(facts, "x", "\xff"), VP_ERR_INVALID);
    assert_int_equal(vp_facts_set_json(facts, "x", "{"), VP_ERR_INVALID);
    assert_false(vp_facts_has(facts, "x"));
    assert_true(vp_facts_has(facts, "r"));
    assert_int_equal(vp_facts_text(facts, "x", &text, &err), VP_ERR_INVALID);
    assert_string_equal(err.text, "x: is missing");
    assert_int_equal(vp_facts_text(facts, "n", &text, &err), VP_ERR_INVALID);
    assert_string_equal(err.text, "n: is not a text");
    assert_int_equal(vp_facts_int(facts, "r", &n, &err), VP_ERR_INVALID);
    assert_int_equal(vp_facts_real(facts, "n", &r, &err), VP_ERR_INVALID);
    for (const char *const *bad =
             (const char *const[]){ "0x123", "0x000000000000000G",
                                    "0X0000000000000000", "0x00000000000000FF",
                                    "0000000000000000ff", NULL };
         *bad; bad++) {
        assert_int_equal(vp_facts_set_text(facts, "b", *bad), VP_OK);
        assert_int_equal(vp_facts_bits(facts, "b", &b, &err), VP_ERR_INVALID);
    }
    vp_facts_free(facts);
    vp_facts_free(NULL);
}

/* ---- The manifest ------------------------------------------------------- */

static void the_manifest_is_plain_text(void **state)
{
    struct vp_manifest_file files[] = {
        { "block-0000.safetensors", { 120, 0x0123456789ABCDEFu } },
        { "block-12345.safetensors", { 0, 0 } },
    };
    struct vp_manifest manifest = { .step = 40,
                                    .score = 2.5,
                                    .n_files = 2,
                                    .files = files },
                       got;
    static const char want[] = "{\n"
                               "  \"format\": \"vpipe checkpoint\",\n"
                               "  \"version\": 2,\n"
                               "  \"step\": 40,\n"
                               "  \"score\": 2.5,\n"
                               "  \"facts\": {\n"
                               "    \"seed\": \"0x0000000000000005\"\n"
                               "  },\n"
                               "  \"files\": [\n"
                               "    {\n"
                               "      \"name\": \"block-0000.safetensors\",\n"
                               "      \"bytes\": 120,\n"
                               "      \"xxh3\": \"0123456789abcdef\"\n"
                               "    },\n"
                               "    {\n"
                               "      \"name\": \"block-12345.safetensors\",\n"
                               "      \"bytes\": 0,\n"
                               "      \"xxh3\": \"0000000000000000\"\n"
                               "    }\n"
                               "  ],\n"
                               "  \"checksum\": \"fbe0b072c30607d1\"\n"
                               "}\n";
    struct vp_err err = { .text = "" };
    char *text = NULL;
    size_t n = 0;

    (void)state;
    assert_int_equal(vp_facts_create(&manifest.facts), VP_OK);
    assert_int_equal(vp_facts_set_bits(manifest.facts, "seed", 5), VP_OK);
    assert_int_equal(vp_manifest_format(&manifest, &text, &n, &err), VP_OK);
    assert_int_equal(n, strlen(text));
    assert_string_equal(text, want);
    if (vp_manifest_parse(text, n, &got, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(got.step, 40);
    assert_true(got.score == 2.5);
    assert_int_equal(got.n_files, 2);
    assert_string_equal(got.files[1].name, files[1].name);
    assert_true(got.files[0].seal.checksum == files[0].seal.checksum);
    assert_int_equal(got.files[0].seal.n_bytes, 120);
    vp_manifest_release(&got);
    free(text);
    vp_facts_free(manifest.facts);
}

/* Manifests with a correct checksum but impossible values. */
static void impossible_manifests_are_refused(void **state)
{
#define M(version, step, score, facts, files)                       \
    "{\"format\": \"vpipe checkpoint\", \"version\": " version      \
    ", \"step\": " step ", \"score\": " score ", \"facts\": " facts \
    ", \"files\": [" files "]"
#define F(name, bytes, sum) \
    "{\"name\": \"" name "\", \"bytes\": " bytes ", \"xxh3\": \"" sum "\"}"
#define SUM "0123456789abcdef"
    static const struct {
        const char *body, *want;
    } cases[] = {
        { M("2", "3", "null", "{}", ""), NULL },
        { M("2", "3", "0.5", "{}", F("block-0001.safetensors", "8", SUM)),
          NULL },
        { M("3", "3", "null", "{}", ""), "version: 3 is later than 2" },
        { M("1", "3", "null", "{}", ""), "version: 1 is earlier than 2" },
        { M("0", "3", "null", "{}", ""), "version: is missing" },
        { M("\"1\"", "3", "null", "{}", ""), "version: is missing" },
        { M("2", "-3", "null", "{}", ""), "step: is missing" },
        { M("2", "3.0", "null", "{}", ""), "step: is missing" },
        { M("2", "3", "\"low\"", "{}", ""), "score: is missing" },
        { M("2", "3", "null", "[]", ""), "facts: is missing" },
        { M("2", "3", "null", "{}", "7"), "an entry without name is not" },
        { M("2", "3", "null", "{}", F("../x", "8", SUM)),
          "../x is not the name of a block file" },
        { M("2", "3", "null", "{}", F("block-1.safetensors", "8", SUM)),
          "is not the name" },
        { M("2", "3", "null", "{}", F("block--001.safetensors", "8", SUM)),
          "is not the name" },
        { M("2", "3", "null", "{}", F("block-00001.safetensors", "8", SUM)),
          "is not the name" },
        { M("2", "3", "null", "{}", F("block-0001.safetensors/", "8", SUM)),
          "is not the name" },
        { M("2", "3", "null", "{}", F("block-0001.safetensors", "-8", SUM)),
          "block-0001.safetensors: bytes is not a size" },
        { M("2", "3", "null", "{}", F("block-0001.safetensors", "8", "123")),
          "xxh3 is not 16 hexadecimal digits" },
        { M("2", "3", "null", "{}",
            F("block-0001.safetensors", "8", "0123456789ABCDEF")),
          "xxh3 is not 16 hexadecimal digits" },
        { M("2", "3", "null", "{}",
            F("block-0001.safetensors", "8",
              SUM) ", " F("block-0001.safetensors", "8", SUM)),
          " is after " },
        { M("2", "3", "null", "{}",
            F("block-10000.safetensors", "8",
              SUM) ", " F("block-9999.safetensors", "8", SUM)),
          "block-9999.safetensors is after block-10000.safetensors" },
        { "{\"format\": \"other\", \"version\": 2",
          "this is not a checkpoint" },
        { "{\"version\": 2", "this is not a checkpoint" },
        { "{\"format\": \"vpipe checkpoint\", \"format\": 1", "line 1" },
        { "{\"format\" \"vpipe checkpoint\"", "line 1, column" },
        { M("2", "3", "null", "{}", "") ", \"step\": 4", "duplicate" },
        { "{\"format\": \"vpipe checkpoint\", \"version\": 2, \"step\": 3, "
          "\"score\": null, \"facts\": {}",
          "files: is missing" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_manifest manifest;
        struct vp_err err = { .text = "" };
        enum vp_status st;
        char text[1024];
        int n;

        n = snprintf(text, sizeof(text),
                     "%s,\n  \"checksum\": \"%016llx\"\n}\n", cases[i].body,
                     (unsigned long long)XXH3_64bits(cases[i].body,
                                                     strlen(cases[i].body)));
        st = vp_manifest_parse(text, (size_t)n, &manifest, &err);
        if (!cases[i].want) {
            assert_int_equal(st, VP_OK);
            vp_manifest_release(&manifest);
        } else if (st == VP_OK || !strstr(err.text, cases[i].want)) {
            fail_msg("%s: %s", cases[i].body, err.text);
        }
        if (strstr(err.text, "later") || strstr(err.text, "earlier"))
            assert_int_equal(st, VP_ERR_UNSUPPORTED);
    }
}

/* Random changes to a manifest with a correct checksum: it is parsed or refused
 * with one line. */
static void no_text_breaks_the_manifest(void **state)
{
    enum { ROOM = 4096 };
    uint32_t n_mutants = getenv("VP_FULL") ? 1000000 : 30000, n_accepted = 0;
    unsigned char *text, *seed_text;
    size_t n_seed;

    (void)state;
    save_three();
    seed_text = read_file(in_store("step-30/manifest.json"), &n_seed);
    text = malloc(ROOM);
    for (uint32_t m = 0; m < n_mutants; m++) {
        struct vp_manifest manifest;
        struct vp_err err = { .text = "" };
        size_t n = n_seed - 37;

        memcpy(text, seed_text, n);
        n = mutate(text, n, ROOM - 100, m);
        n += (size_t)snprintf((char *)text + n, ROOM - n,
                              ",\n  \"checksum\": \"%016llx\"\n}\n",
                              (unsigned long long)XXH3_64bits(text, n));
        if (vp_manifest_parse((char *)text, n, &manifest, &err) == VP_OK) {
            assert_true(manifest.step >= 0 && manifest.n_files >= 0);
            vp_manifest_release(&manifest);
            n_accepted++;
        } else {
            assert_true(err.text[0] != '\0');
            assert_null(strchr(err.text, '\n'));
        }
    }
    assert_in_range(n_accepted, n_mutants / 200, n_mutants / 2);
    free(text);
    free(seed_text);
}

/* ---- Large and transposed tensors --------------------------------------- */

/* Large files are written with O_DIRECT where the file system supports it. The
 * result is the same if it accepts, refuses or shortens such writes. */
static void large_files_come_back(void **state)
{
    static const struct vp_ckpt_item items[] = {
        { 0, "small", VP_ST_U8, 1, { 77 }, false },
        { 1, "large", VP_ST_U8, 1, { (9 << 20) + 12345 }, false },
    };
    size_t n = item_bytes(&items[1]);
    unsigned char *large = malloc(n), *got = malloc(n);

    (void)state;
    for (size_t i = 0; i < n; i++)
        large[i] = (unsigned char)(i * 2654435761u >> 13);
    for (int direct = DIRECT_ANY; direct <= DIRECT_CHOPPY; direct++) {
        struct vp_ckpt_writer *writer = NULL;
        struct vp_ckpt *ckpt = NULL;
        struct vp_st_tensor want = { .type = VP_ST_U8, .n_dims = 1 };
        struct vp_err err = { .text = "" };

        fault_start(FAULT_NONE, 0, 0);
        fault.direct = (enum direct)direct;
        if (vp_ckpt_writer_create(store(), NULL, 1, items, 2, &writer, &err) !=
            VP_OK)
            fail_msg("%s", err.text);
        assert_int_equal(vp_ckpt_writer_begin(writer, 1, 0, &err), VP_OK);
        vp_ckpt_writer_put(writer, 0, large);
        vp_ckpt_writer_put(writer, 1, large);
        assert_int_equal(vp_ckpt_writer_commit(writer, NULL, NAN, &err), VP_OK);
        if (vp_ckpt_writer_finish(writer, PATIENCE_MS, &err) != VP_OK)
            fail_msg("%s", err.text);
        vp_ckpt_writer_free(writer);
        if (fault.n_direct > 0) /* 2 writes of 4 MiB; the tail is refused */
            assert_int_equal(fault.n_direct, direct == DIRECT_ANY    ? 3
                                             : direct == DIRECT_NONE ? 1
                                                                     : 1823);
        if (vp_ckpt_open(in_store("step-1"), &ckpt, &err) != VP_OK)
            fail_msg("%s", err.text);
        want.dims[0] = (int64_t)n;
        assert_int_equal(vp_ckpt_read(ckpt, "large", &want, got, &err), VP_OK);
        assert_memory_equal(got, large, n);
        vp_ckpt_close(ckpt);
    }
    free(large);
    free(got);
}

/* Files hold these matrices transposed. The sizes are around those of the tiles
 * that are transposed at once. */
static void matrices_are_transposed(void **state)
{
    enum { MOST = 50 * 70 };
    static const struct vp_ckpt_item items[] = {
        { 0, "first", VP_ST_F32, 2, { 3, 5 }, true },
        { 0, "plain", VP_ST_F32, 2, { 16, 2 }, false },
        { 1, "even", VP_ST_F32, 2, { 32, 16 }, true },
        { 1, "large", VP_ST_F32, 2, { 50, 70 }, true },
        { 1, "none", VP_ST_F32, 2, { 0, 4 }, true },
        { 2, "row", VP_ST_F32, 2, { 1, 33 }, true },
    };
    struct vp_ckpt_writer *writer = NULL;
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };
    float put[MOST], got[MOST];

    (void)state;
    assert_int_equal(vp_ckpt_writer_create(store(), NULL, 1, items,
                                           VP_COUNT_OF(items), &writer, &err),
                     VP_OK);
    for (int turn = 1; turn <= 2; turn++) {
        vp_ckpt_writer_touch(writer); /* allowed at any time; changes no data */
        assert_int_equal(vp_ckpt_writer_begin(writer, turn, PATIENCE_MS, &err),
                         VP_OK);
        for (int k = 0; k < (int)VP_COUNT_OF(items); k++) {
            vp_ckpt_writer_touch(writer);
            for (int i = 0; i < MOST; i++)
                put[i] = (float)(10000 * turn + i);
            vp_ckpt_writer_put(writer, k, put);
        }
        assert_int_equal(vp_ckpt_writer_commit(writer, NULL, NAN, &err), VP_OK);
    }
    assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err), VP_OK);
    vp_ckpt_writer_free(writer);
    assert_int_equal(vp_ckpt_open_newest(store(), NULL, NULL, &ckpt, &err),
                     VP_OK);
    for (int k = 0; k < (int)VP_COUNT_OF(items); k++) {
        int rows = (int)items[k].dims[0], cols = (int)items[k].dims[1];
        struct vp_st_tensor shape = { .type = VP_ST_F32,
                                      .n_dims = 2,
                                      .dims = { rows, cols } };

        assert_int_equal(vp_ckpt_read(ckpt, items[k].name, &shape, got, &err),
                         VP_OK);
        for (int i = 0; i < rows * cols; i++) {
            int from = items[k].transposed ? i % cols * rows + i / cols : i;

            assert_true(got[i] == put[from]);
        }
        if (!items[k].transposed)
            continue;
        assert_int_equal(
            vp_ckpt_read_transposed(ckpt, items[k].name, &shape, got, &err),
            VP_OK);
        assert_memory_equal(got, put, (size_t)(rows * cols) * sizeof(*got));
    }
    vp_ckpt_close(ckpt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(what_is_saved_comes_back),
        TEST_IN_FOLDER(reading_checks_type_and_shape),
        cmocka_unit_test(facts_come_back),
        cmocka_unit_test(the_manifest_is_plain_text),
        cmocka_unit_test(impossible_manifests_are_refused),
        TEST_IN_FOLDER(no_text_breaks_the_manifest),
        TEST_IN_FOLDER(large_files_come_back),
        TEST_IN_FOLDER(matrices_are_transposed),
    };

    return cmocka_run_group_tests_name("ckpt", tests, NULL, NULL);
}
