/* Checkpoints: what is saved comes back to the bit, what is broken is passed
 * over by name, old ones go and the best stays, training never waits for more
 * than a copy. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ckpt/manifest.h"
#include "lib/ckptlib.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

/* libxxhash has it; its header belongs to src/ckpt. */
uint64_t XXH3_64bits(const void *bytes, size_t n_bytes);

/* ---- Counting vpipe's allocations, per thread --------------------------- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static _Thread_local int n_allocated;
static atomic_int allocations_left = INT_MAX; /* then one fails */

static bool may_allocate(void)
{
    n_allocated++;
    return atomic_fetch_sub(&allocations_left, 1) != 1;
}

void *__wrap_malloc(size_t n)
{
    return may_allocate() ? __real_malloc(n) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return may_allocate() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
    return may_allocate() ? __real_realloc(p, n) : NULL;
}

/* ---- Short forms -------------------------------------------------------- */

/* Opens the newest and checks it; returns its step. */
static int64_t newest(struct notes *notes)
{
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };
    int64_t step;

    notes->n = 0;
    if (vp_ckpt_open_newest(store(), take_note, notes, &ckpt, &err) != VP_OK)
        fail_msg("%s", err.text);
    check_state(ckpt);
    step = vp_ckpt_step(ckpt);
    vp_ckpt_close(ckpt);
    return step;
}

/* Steps 10, 20, 30 of turns 1, 2, 3. */
static void save_three(void)
{
    struct vp_ckpt_writer *writer = open_writer(0);

    for (uint32_t turn = 1; turn <= 3; turn++)
        save_well(writer, 10 * turn, turn, (double)NAN);
    vp_ckpt_writer_free(writer);
}

static const char *in_store(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "checkpoints/%s", name);
    return at(path);
}

/* ---- What is saved comes back ------------------------------------------- */

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

/* A manifest with a right checksum that says something impossible. */
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
          "block-0001.safetensors: bytes is no size" },
        { M("2", "3", "null", "{}", F("block-0001.safetensors", "8", "123")),
          "xxh3 is not 16 hexadecimal digits" },
        { M("2", "3", "null", "{}",
            F("block-0001.safetensors", "8", "0123456789ABCDEF")),
          "xxh3 is not 16 hexadecimal digits" },
        { M("2", "3", "null", "{}",
            F("block-0001.safetensors", "8",
              SUM) ", " F("block-0001.safetensors", "8", SUM)),
          "stands after" },
        { M("2", "3", "null", "{}",
            F("block-10000.safetensors", "8",
              SUM) ", " F("block-9999.safetensors", "8", SUM)),
          "block-9999.safetensors stands after block-10000.safetensors" },
        { "{\"format\": \"other\", \"version\": 2", "this is no checkpoint" },
        { "{\"version\": 2", "this is no checkpoint" },
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

/* Whatever a manifest with a right checksum says, it is read or refused. */
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

/* ---- Broken checkpoints ------------------------------------------------- */

static const char *const files_of_a_step[] = {
    "step-30/manifest.json",
    "step-30/block-0000.safetensors",
    "step-30/block-0002.safetensors",
    "step-30/block-0007.safetensors",
};

/* Step 30 is broken in `file`: step 20 is used and the file named. */
static void falls_back(const char *file, const char *what)
{
    struct notes notes;
    char tail[] = "; using step 20";
    size_t n;

    assert_int_equal(newest(&notes), 20);
    assert_int_equal(notes.n, 1);
    n = strlen(notes.last);
    if (!strstr(notes.last, file) || !strstr(notes.last, what) ||
        n < sizeof(tail) ||
        strcmp(notes.last + n + 1 - sizeof(tail), tail) != 0)
        fail_msg("%s, %s: %s", file, what, notes.last);
}

static void any_flipped_byte_is_noticed(void **state)
{
    size_t step = getenv("VP_FULL") ? 1 : 3, n_tried = 0;

    (void)state;
    save_three();
    for (size_t f = 0; f < VP_COUNT_OF(files_of_a_step); f++) {
        unsigned char *bytes;
        char path[512];
        size_t n;

        snprintf(path, sizeof(path), "%s", in_store(files_of_a_step[f]));
        bytes = read_file(path, &n);
        for (size_t i = f; i<n; i += i + 40> n ? 1 : step) {
            int fd = open(path, O_WRONLY);
            unsigned char bad = bytes[i] ^ (unsigned char)(1u << i % 8);

            assert_int_equal(pwrite(fd, &bad, 1, (off_t)i), 1);
            falls_back(files_of_a_step[f], "checksum differs");
            assert_int_equal(pwrite(fd, &bytes[i], 1, (off_t)i), 1);
            close(fd);
            n_tried++;
        }
        free(bytes);
    }
    assert_true(n_tried > 500);
}

static void any_cut_is_noticed(void **state)
{
    size_t step = getenv("VP_FULL") ? 1 : 5;
    struct notes notes;

    (void)state;
    save_three();
    for (size_t f = 0; f < VP_COUNT_OF(files_of_a_step); f++) {
        unsigned char *bytes;
        char path[512];
        size_t n;

        snprintf(path, sizeof(path), "%s", in_store(files_of_a_step[f]));
        bytes = read_file(path, &n);
        for (size_t i = 0; i < n; i += i < 64 || i + 64 > n ? 1 : step) {
            write_file(path, bytes, i);
            falls_back(files_of_a_step[f], "cut");
        }
        write_file(path, bytes, n + 1); /* and one byte too many */
        falls_back(files_of_a_step[f], "cut or changed");
        write_file(path, bytes, n);
        assert_int_equal(newest(&notes), 30);
        assert_int_equal(notes.n, 0);
        assert_int_equal(unlink(path), 0);
        falls_back(files_of_a_step[f], "cannot be opened (No such file");
        write_file(path, bytes, n);
        free(bytes);
    }
}

static void odd_folders_are_passed_over(void **state)
{
    struct notes notes;
    char names[256];

    (void)state;
    save_three();
    /* A file that does not belong, and names that are not ours. */
    write_file(in_store("step-30/notes.txt"), "x", 1);
    write_file(in_store("step-30/block-0099.safetensors"), "x", 1);
    assert_int_equal(mkdir(in_store("step-007"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-"), 0777), 0);
    assert_int_equal(mkdir(in_store("step--5"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-99x"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-99.tmp.bak"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-9999999999999999999"), 0777), 0);
    assert_int_equal(mkdir(in_store("other.tmp"), 0777), 0);
    assert_int_equal(newest(&notes), 30);
    assert_int_equal(notes.n, 0);

    /* A newer one that is being written, one that is being removed. */
    assert_int_equal(mkdir(in_store("step-40.tmp"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-50.trash"), 0777), 0);
    assert_int_equal(newest(&notes), 30);
    assert_int_equal(notes.n, 0);

    /* A file, an empty folder and another step's content as the newest. */
    write_file(in_store("step-60"), "x", 1);
    assert_int_equal(newest(&notes), 30);
    assert_int_equal(notes.n, 1);
    assert_non_null(strstr(notes.last, "step-60/manifest.json: cannot be "
                                       "opened (Not a directory); using "
                                       "step 30"));
    assert_int_equal(unlink(in_store("step-60")), 0);
    assert_int_equal(mkdir(in_store("step-60"), 0777), 0);
    assert_int_equal(newest(&notes), 30);
    assert_non_null(strstr(notes.last, "step-60/manifest.json: cannot be "
                                       "opened (No such file"));
    assert_int_equal(rmdir(in_store("step-60")), 0);
    assert_int_equal(rename(in_store("step-20"), in_store("step-60")), 0);
    assert_int_equal(newest(&notes), 30);
    assert_non_null(strstr(notes.last, "step-60/manifest.json: belongs to "
                                       "step 20; using step 30"));

    /* Starting to write again clears our own leftovers only. */
    vp_ckpt_writer_free(open_writer(0));
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "other.tmp step- step--5 step-007 step-10 "
                               "step-30 step-60 step-99.tmp.bak "
                               "step-9999999999999999999 step-99x ");
}

static void all_broken_is_refused(void **state)
{
    struct vp_ckpt *ckpt = NULL;
    struct notes notes = { 0 };
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(
        vp_ckpt_open_newest(store(), take_note, &notes, &ckpt, &err),
        VP_ERR_END);
    assert_non_null(strstr(err.text, "checkpoints: holds no checkpoint"));
    save_three();
    for (int step = 10; step <= 30; step += 10) {
        char name[64];

        snprintf(name, sizeof(name), "step-%d/block-0002.safetensors", step);
        assert_int_equal(truncate(in_store(name), 50), 0);
    }
    assert_int_equal(
        vp_ckpt_open_newest(store(), take_note, &notes, &ckpt, &err),
        VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "step-30/block-0002.safetensors: has 50 "
                                     "bytes instead of "));
    assert_non_null(strstr(err.text, "no checkpoint of 3 can be used"));
    assert_int_equal(notes.n, 0);
    assert_null(ckpt);
}

/* Several broken ones: a line for each, all with the step that is used. */
static void every_broken_one_is_named(void **state)
{
    struct notes notes;

    (void)state;
    save_three();
    assert_int_equal(unlink(in_store("step-30/block-0007.safetensors")), 0);
    assert_int_equal(truncate(in_store("step-20/manifest.json"), 99), 0);
    assert_int_equal(newest(&notes), 10);
    assert_int_equal(notes.n, 2);
    assert_non_null(strstr(notes.last, "step-20/manifest.json: checksum "
                                       "differs"));
    assert_non_null(strstr(notes.last, "; using step 10"));
}

/* The same name in two files, both with right checksums. */
static void a_name_in_two_files_is_refused(void **state)
{
    unsigned char *zero, *manifest, *body;
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };
    size_t n_zero, n_manifest, n_body;
    char text[2048], *end;

    (void)state;
    save_three();
    zero = read_file(in_store("step-30/block-0000.safetensors"), &n_zero);
    write_file(in_store("step-30/block-0002.safetensors"), zero, n_zero);
    manifest = read_file(in_store("step-30/manifest.json"), &n_manifest);
    body = (unsigned char *)strstr((char *)manifest, "\"files\"");
    n_body = (size_t)(body - manifest);
    memcpy(text, manifest, n_body);
    end = text + n_body;
    end += snprintf(end, 1000,
                    "\"files\": [{\"name\": \"block-0000.safetensors\", "
                    "\"bytes\": %d, \"xxh3\": \"%016llx\"}, {\"name\": "
                    "\"block-0002.safetensors\", \"bytes\": %d, \"xxh3\": "
                    "\"%016llx\"}]",
                    (int)n_zero, (unsigned long long)XXH3_64bits(zero, n_zero),
                    (int)n_zero, (unsigned long long)XXH3_64bits(zero, n_zero));
    end += snprintf(
        end, 100, ",\n  \"checksum\": \"%016llx\"\n}\n",
        (unsigned long long)XXH3_64bits(text, (size_t)(end - text)));
    write_file(in_store("step-30/manifest.json"), text, (size_t)(end - text));
    assert_int_equal(vp_ckpt_open(in_store("step-30"), &ckpt, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, ": is in another file too"));
    free(zero);
    free(manifest);
}

/* ---- Keeping ------------------------------------------------------------ */

/* The rule, written another way: what is left after each save. */
static void check_keep(uint32_t seed)
{
    enum { N = 9 };
    double scores[N + 1];
    bool there[N + 1] = { false };
    int keep = 1 + (int)(seed % 4);
    struct vp_ckpt_writer *writer = open_writer(keep);

    for (int step = 1; step <= N; step++) {
        uint32_t r = vp_rng(seed, VP_RNG_TEST, 1, (uint32_t)step, 0, 0).v[0];
        char want[256] = "", got[256];
        int best = 0;

        scores[step] = r % 3 == 0 ? (double)NAN : (double)(r / 3 % 5);
        save_well(writer, step, (uint32_t)step, scores[step]);
        there[step] = true;
        for (int s = 1; s <= step; s++)
            if (there[s] && !isnan(scores[s]) &&
                (best == 0 || scores[s] < scores[best]))
                best = s;
        for (int s = 1; s <= step; s++) {
            there[s] = there[s] && (s > step - keep || s == best);
            if (there[s])
                snprintf(want + strlen(want), sizeof(want) - strlen(want),
                         "step-%d ", s);
        }
        list_folder(store(), got, sizeof(got));
        assert_string_equal(got, want);
        if (best > 0) {
            int64_t best_step = -1;
            double score = -1;

            assert_int_equal(vp_ckpt_best(store(), &best_step, &score, NULL),
                             VP_OK);
            assert_int_equal(best_step, best);
            assert_true(score == scores[best]);
        }
    }
    vp_ckpt_writer_free(writer);
    assert_int_equal(remove_tree(store()), 0);
}

static void newest_and_best_are_kept(void **state)
{
    int64_t step = -1;
    double score;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_ckpt_best(store(), &step, &score, &err), VP_ERR_END);
    assert_non_null(strstr(err.text, "no checkpoint was evaluated"));
    fault_start(FAULT_NONE, 0, 0);
    for (uint32_t seed = 0; seed < 40; seed++)
        check_keep(seed);
    assert_int_equal(fault.n_open, 0);
}

/* Broken ones do not count; what is newer than the save stays. */
static void keeping_counts_complete_ones(void **state)
{
    struct vp_ckpt_writer *writer;
    char names[256];

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    writer = open_writer(0);
    for (uint32_t turn = 1; turn <= 6; turn++)
        save_well(writer, 10 * turn, turn, turn == 1 ? 0.5 : 2.0);
    vp_ckpt_writer_free(writer);
    assert_int_equal(truncate(in_store("step-20/block-0000.safetensors"), 9),
                     0);
    assert_int_equal(unlink(in_store("step-40/manifest.json")), 0);

    writer = open_writer(2);
    save_well(writer, 45, 9, (double)NAN);
    list_folder(store(), names, sizeof(names));
    /* 45 and 30 are complete; 40 is newer than 30; 10 is best; 50, 60 are the
     * caller's business. */
    assert_string_equal(names, "step-10 step-30 step-40 step-45 step-50 "
                               "step-60 ");
    assert_int_equal(vp_ckpt_set_aside(store(), "step-45", NULL), VP_OK);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-10 step-30 step-40 step-45 "
                               "step-50.aside-1 step-60.aside-1 ");
    save_well(writer, 46, 9, (double)NAN);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-10 step-45 step-46 ");
    /* A broken best is none. */
    assert_int_equal(truncate(in_store("step-10/block-0000.safetensors"), 9),
                     0);
    save_well(writer, 47, 9, (double)NAN);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-46 step-47 ");
    vp_ckpt_writer_free(writer);
}

/* A disk that fails for a moment must cost neither the best checkpoint nor the
 * newest: open, pread or close of any manifest fails, newest first. */
static void what_cannot_be_read_is_kept(void **state)
{
    static const char *const left[] = {
        "step-1 step-3 step-4 ",
        "step-1 step-3 step-4 ",
        "step-1 step-4 ",
        "step-1 step-3 step-4 ",
        "step-1 step-3 step-4 ",
        "step-1 step-4 ",
        "step-1 step-2 step-4 ",
        "step-1 step-2 step-4 ",
        "step-1 step-4 ",
        /* without step 1, step 2 would be best */
        "step-1 step-2 step-4 ",
        "step-1 step-2 step-4 ",
        "step-1 step-4 ",
    };

    (void)state;
    for (int k = 1; k <= (int)VP_COUNT_OF(left); k++) {
        struct vp_ckpt_writer *writer;
        char names[256];

        fault_start(FAULT_NONE, 0, 0);
        writer = open_writer(0);
        for (uint32_t turn = 1; turn <= 4; turn++)
            save_well(writer, turn, turn, turn == 1 ? 0.5 : 2.0);
        vp_ckpt_writer_free(writer);
        fault_start(FAULT_FAIL, k, EIO);
        assert_int_equal(vp_ckpt_prune(store(), 4, 1, NULL), VP_OK);
        list_folder(store(), names, sizeof(names));
        assert_string_equal(names, left[k - 1]);
        assert_int_equal(remove_tree(store()), 0);
    }
}

/* ---- Saving a step again ------------------------------------------------ */

static void a_step_can_be_saved_again(void **state)
{
    struct vp_ckpt_writer *writer;
    struct vp_ckpt *ckpt = NULL;
    struct notes notes;
    struct vp_err err;
    char names[256];

    (void)state;
    save_three();
    writer = open_writer(0);
    save_well(writer, 30, 8, (double)NAN);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-10 step-20 step-30 ");
    assert_int_equal(vp_ckpt_open(in_store("step-30"), &ckpt, &err), VP_OK);
    assert_int_equal(check_state(ckpt), 8);
    vp_ckpt_close(ckpt);

    /* Over something that is not even a folder. */
    write_file(in_store("step-50"), "x", 1);
    save_well(writer, 50, 9, (double)NAN);
    assert_int_equal(newest(&notes), 50);
    vp_ckpt_writer_free(writer);

    /* Ended between the two renames: the former one is used and comes back. */
    assert_int_equal(rename(in_store("step-50"), in_store("step-50.old")), 0);
    assert_int_equal(mkdir(in_store("step-50.tmp"), 0777), 0);
    assert_int_equal(newest(&notes), 50);
    assert_int_equal(notes.n, 0);
    assert_int_equal(vp_ckpt_prepare(store(), &err), VP_OK);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-10 step-20 step-30 step-50 ");

    /* Ended after both: the former one goes. */
    assert_int_equal(rename(in_store("step-20"), in_store("step-50.old")), 0);
    assert_int_equal(vp_ckpt_prepare(store(), &err), VP_OK);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-10 step-30 step-50 ");
    assert_int_equal(newest(&notes), 50);
}

/* A user who removes all checkpoints of a live run loses them, not the run. */
static void a_removed_folder_is_made_again(void **state)
{
    struct vp_ckpt_writer *writer = open_writer(0);
    struct notes notes;

    (void)state;
    save_well(writer, 10, 1, (double)NAN);
    assert_int_equal(vp_io_remove(store()), 0);
    save_well(writer, 20, 2, (double)NAN);
    vp_ckpt_writer_free(writer);
    assert_int_equal(newest(&notes), 20);
}

static void too_many_open_files_are_named(void **state)
{
    struct rlimit limit, none;
    struct vp_err err = { .text = "" };
    enum vp_status st;

    (void)state;
    save_three();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    st = vp_ckpt_prepare(store(), &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(st, VP_ERR_IO);
    assert_non_null(strstr(err.text, "checkpoints: cannot be read (Too many "
                                     "open files); raise the limit of open "
                                     "files (ulimit -n)"));
}

/* ---- Removing ----------------------------------------------------------- */

static void removing_stays_inside(void **state)
{
    char names[256];
    struct vp_err err;

    (void)state;
    assert_int_equal(mkdir(at("precious"), 0777), 0);
    write_file(at("precious/data"), "x", 1);
    assert_int_equal(vp_ckpt_prepare(store(), &err), VP_OK);
    assert_int_equal(mkdir(in_store("step-1.tmp"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-1.tmp/deep"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-1.tmp/deep/er"), 0777), 0);
    write_file(in_store("step-1.tmp/deep/er/f"), "x", 1);
    assert_int_equal(symlink(at("precious"), in_store("step-1.tmp/link")), 0);
    assert_int_equal(symlink(at("precious"), in_store("step-2.tmp")), 0);
    assert_int_equal(symlink("/nowhere", in_store("step-3.trash")), 0);
    if (vp_ckpt_prepare(store(), &err) != VP_OK)
        fail_msg("%s", err.text);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "");
    list_folder(at("precious"), names, sizeof(names));
    assert_string_equal(names, "data ");

    write_file(at("file"), "x", 1);
    assert_int_equal(vp_ckpt_prepare(at("file"), &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "file: cannot be created (Not a dir"));
    assert_int_equal(vp_ckpt_prepare(at("no/such"), &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "no/such: cannot be created (No such"));
}

static void removing_gives_up_in_depth(void **state)
{
    char path[1024];
    size_t n;

    (void)state;
    snprintf(path, sizeof(path), "%s", at("a"));
    n = strlen(path);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(mkdir(path, 0777), 0);
        n += (size_t)snprintf(path + n, sizeof(path) - n, "/a");
    }
    assert_int_equal(vp_io_remove(at("a")), ELOOP);
    assert_int_equal(vp_io_remove(at("nothing")), 0);
}

/* ---- Space -------------------------------------------------------------- */

static void space_is_asked_for(void **state)
{
    struct vp_err err = { .text = "" };
    long long needed = 0, there = 0;

    (void)state;
    assert_int_equal(vp_ckpt_space(folder, 4096, &err), VP_OK);
    assert_int_equal(vp_ckpt_space(at("not/yet/there"), 4096, &err), VP_OK);
    assert_int_equal(vp_ckpt_space("not-yet", 4096, &err), VP_OK);
    assert_int_equal(vp_ckpt_space("/not-yet/there", 1, &err), VP_OK);
    /* No blocks: whether a file can be made there is another question. */
    assert_int_equal(vp_ckpt_space("/proc/not-yet", 4096, &err), VP_OK);
    assert_int_equal(vp_ckpt_space(at("not/yet"), INT64_MAX, &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "not/yet: not enough space: "));
    assert_int_equal(sscanf(strstr(err.text, "space: "),
                            "space: %lld bytes are needed, %lld are free",
                            &needed, &there),
                     2);
    assert_true(needed == INT64_MAX && there > 4096 && there < needed);
}

/* ---- A team ------------------------------------------------------------- */

/* Another process that is late, and may fail. */
struct late {
    enum vp_status st;
    int n_heard;
};

static enum vp_status hear_late(void *ctx, int64_t step,
                                struct vp_ckpt_part *parts, int *n_out,
                                const atomic_bool *give_up, struct vp_err *err)
{
    struct late *late = ctx;

    (void)step;
    (void)parts;
    (void)give_up;
    late->n_heard++;
    write_file(at("checkpoints/step-5.tmp/block-0009.safetensors"), "x", 1);
    *n_out = 0;
    return late->st == VP_OK ? VP_OK
                             : vp_err_set(err, late->st, "rank 1 failed");
}

static int no_fsync(int fd)
{
    (void)fd;
    errno = EIO;
    return -1;
}

/* The lead removes what is unfinished when nobody writes to it any more. */
static void a_failed_team_leaves_nothing(void **state)
{
    const struct vp_ckpt_image image = { 0, (const unsigned char *)"abc", 3 };
    struct vp_io broken = vp_io_system;
    char names[64];

    (void)state;
    broken.fsync = no_fsync;
    for (int own = 0; own < 2; own++) {
        struct late late = { own ? VP_OK : VP_ERR_IO, 0 };
        const struct vp_ckpt_team team = {
            .ctx = &late, .is_lead = true, .hear = hear_late, .max_parts = 2
        };
        const struct vp_ckpt_save save = { .step = 5,
                                           .score = (double)NAN,
                                           .facts = "{}",
                                           .n_images = 1,
                                           .images = &image,
                                           .team = &team };
        struct vp_err err = { .text = "" };

        assert_int_equal(vp_ckpt_prepare(store(), &err), VP_OK);
        vp_io_swap(own ? &broken : &vp_io_system);
        assert_int_equal(vp_ckpt_save(store(), &save, &err), VP_ERR_IO);
        vp_io_swap(&vp_io_system);
        assert_non_null(strstr(err.text, own ? "block-0000" : "rank 1 failed"));
        assert_int_equal(late.n_heard, 1);
        list_folder(store(), names, sizeof(names));
        assert_string_equal(names, "");
    }
}

/* ---- The writer --------------------------------------------------------- */

static void writer_refuses_bad_items(void **state)
{
    static const struct vp_ckpt_item twice[] = {
        { 0, "a", VP_ST_F32, 1, { 4 }, false },
        { 1, "b", VP_ST_F32, 1, { 4 }, false },
        { 2, "a", VP_ST_F16, 1, { 4 }, false },
    };
    static const struct vp_ckpt_item odd = { 0, "\xff", VP_ST_F32,
                                             0, { 0 },  false };
    static const struct vp_ckpt_item huge = {
        0, "a", VP_ST_U8, 1, { INT64_MAX / 4 }, false
    };
    struct vp_ckpt_writer *writer = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(
        vp_ckpt_writer_create(store(), NULL, 1, twice, 3, &writer, &err),
        VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "tensor a: the name is used twice"));
    assert_int_equal(
        vp_ckpt_writer_create(store(), NULL, 1, &odd, 1, &writer, &err),
        VP_ERR_INVALID);
    assert_int_equal(
        vp_ckpt_writer_create(store(), NULL, 1, &huge, 1, &writer, &err),
        VP_ERR_NOMEM);
    assert_int_equal(
        vp_ckpt_writer_create(at("no/such"), NULL, 1, twice, 2, &writer, &err),
        VP_ERR_IO);
    assert_null(writer);
    /* No tensors at all is odd but possible. */
    assert_int_equal(
        vp_ckpt_writer_create(store(), NULL, 1, NULL, 0, &writer, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_bytes(writer), 0);
    assert_int_equal(vp_ckpt_writer_begin(writer, 0, 1000, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_commit(writer, NULL, NAN, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_saved(writer), 0);
    vp_ckpt_writer_free(writer);
}

static void every_item_must_be_put(void **state)
{
    struct vp_ckpt_writer *writer = open_writer(0);
    unsigned char bytes[MAX_ITEM_BYTES] = { 0 };
    struct vp_err err = { .text = "" };

    (void)state;
    for (int missing = 0; missing < N_ITEMS; missing++) {
        assert_int_equal(vp_ckpt_writer_begin(writer, 5, 0, &err), VP_OK);
        for (int i = 0; i < N_ITEMS; i++)
            if (i != missing)
                vp_ckpt_writer_put(writer, i, bytes);
        assert_int_equal(vp_ckpt_writer_commit(writer, NULL, NAN, &err),
                         VP_ERR_INVALID);
        assert_non_null(strstr(err.text, "step 5: tensor "));
        assert_non_null(strstr(err.text, state_items[missing].name));
        assert_non_null(strstr(err.text, " was not put"));
    }
    assert_int_equal(vp_ckpt_writer_finish(writer, 0, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_saved(writer), -1);
    vp_ckpt_writer_free(writer);
}

struct putter {
    struct vp_ckpt_writer *writer;
    uint32_t turn;
    int first; /* items first, first + 4, ... */
};

static void *put_some(void *arg)
{
    const struct putter *p = arg;
    unsigned char bytes[MAX_ITEM_BYTES];

    for (int i = p->first; i < N_ITEMS; i += 4) {
        if (i % 2 == 0) {
            state_fill(p->turn, i, vp_ckpt_writer_buffer(p->writer, i));
        } else {
            state_fill(p->turn, i, bytes);
            vp_ckpt_writer_put(p->writer, i, bytes);
        }
    }
    return NULL;
}

/* Reads all tensors; NULL if they are those of turn 20. */
static void *read_all(void *arg)
{
    unsigned char want[MAX_ITEM_BYTES], got[MAX_ITEM_BYTES];
    struct vp_err err;

    for (int i = 0; i < N_ITEMS; i++) {
        const struct vp_ckpt_item *item = &state_items[i];
        const struct vp_st_tensor *t = vp_ckpt_find(arg, item->name);

        state_fill(20, i, want);
        if (vp_ckpt_read(arg, item->name, t, got, &err) != VP_OK ||
            memcmp(got, want, item_bytes(item)) != 0)
            return arg;
    }
    return NULL;
}

/* Ranks put at once, the next begin comes while the disk is still busy. */
static void ranks_put_at_once(void **state)
{
    struct vp_ckpt_writer *writer;
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };
    pthread_t readers[4];

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    fault.sync_ms = 1;
    writer = open_writer(0);
    for (uint32_t turn = 1; turn <= 20; turn++) {
        struct vp_facts *facts = make_facts(turn);
        struct putter putters[4];
        pthread_t threads[4];

        assert_int_equal(vp_ckpt_writer_begin(writer, turn, PATIENCE_MS, &err),
                         VP_OK);
        for (int t = 0; t < 4; t++) {
            putters[t] = (struct putter){ writer, turn, t };
            assert_int_equal(
                pthread_create(&threads[t], NULL, put_some, &putters[t]), 0);
        }
        for (int t = 0; t < 4; t++)
            pthread_join(threads[t], NULL);
        assert_int_equal(vp_ckpt_writer_commit(writer, facts, NAN, &err),
                         VP_OK);
        vp_facts_free(facts);
    }
    assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_saved(writer), 20);
    vp_ckpt_writer_free(writer);
    for (uint32_t turn = 1; turn <= 20; turn++) {
        char name[32];

        snprintf(name, sizeof(name), "step-%u", turn);
        assert_int_equal(vp_ckpt_open(in_store(name), &ckpt, &err), VP_OK);
        assert_int_equal(check_state(ckpt), turn);
        for (int t = 0; t < 4 && turn == 20; t++)
            assert_int_equal(pthread_create(&readers[t], NULL, read_all, ckpt),
                             0);
        for (int t = 0; t < 4 && turn == 20; t++) {
            void *bad = ckpt;

            pthread_join(readers[t], &bad);
            assert_null(bad);
        }
        vp_ckpt_close(ckpt);
    }
}

/* What the training threads do for a checkpoint allocates nothing. */
static void saving_allocates_nothing(void **state)
{
    struct vp_ckpt_writer *writer;
    struct vp_facts *facts = make_facts(1);
    char *large = calloc(1, 200000);
    struct vp_err err = { .text = "" };

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    writer = open_writer(1);
    memset(large, 'x', 199999);
    assert_int_equal(vp_facts_set_text(facts, "large", large), VP_OK);
    for (int step = 0; step < 5; step++) {
        int before = n_allocated;

        assert_int_equal(vp_ckpt_writer_begin(writer, step, PATIENCE_MS, &err),
                         VP_OK);
        put_state(writer, 1);
        assert_int_equal(vp_ckpt_writer_commit(writer, facts, NAN, &err),
                         VP_OK);
        /* Only facts larger than any before make room once. */
        assert_int_equal(n_allocated - before, step == 0);
    }
    assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err), VP_OK);
    vp_ckpt_writer_free(writer);
    vp_facts_free(facts);
    free(large);
}

/* Saves and opens; the status of the first that fails. */
static enum vp_status save_and_open(struct vp_err *err)
{
    struct vp_ckpt_writer *writer = NULL;
    struct vp_ckpt *ckpt = NULL;
    struct vp_facts *facts = NULL;
    enum vp_status st = vp_facts_create(&facts);

    if (st == VP_OK)
        st = vp_ckpt_writer_create(store(), NULL, 2, state_items, N_ITEMS,
                                   &writer, err);
    if (st == VP_OK)
        st = vp_ckpt_writer_begin(writer, 2, PATIENCE_MS, err);
    if (st == VP_OK) {
        put_state(writer, 1);
        st = vp_ckpt_writer_commit(writer, facts, 0.5, err);
    }
    if (st == VP_OK)
        st = vp_ckpt_writer_finish(writer, PATIENCE_MS, err);
    vp_ckpt_writer_free(writer);
    if (st == VP_OK)
        st = vp_ckpt_open_newest(store(), NULL, NULL, &ckpt, err);
    if (st == VP_OK)
        assert_int_equal(vp_ckpt_step(ckpt), 2); /* never an older one */
    vp_ckpt_close(ckpt);
    vp_facts_free(facts);
    return st;
}

static void any_allocation_may_fail(void **state)
{
    struct vp_ckpt_writer *writer;
    int n_failed = 0;

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    for (int k = 1;; k++) {
        struct vp_err err = { .text = "" };
        enum vp_status st;
        bool hit;

        writer = open_writer(1);
        save_well(writer, 1, 1, 0.9);
        vp_ckpt_writer_free(writer);
        atomic_store(&allocations_left, k);
        st = save_and_open(&err);
        hit = atomic_exchange(&allocations_left, INT_MAX) <= 0;
        assert_int_equal(fault.n_open, 0);
        assert_int_equal(remove_tree(store()), 0);
        if (!hit) {
            assert_int_equal(st, VP_OK);
            break;
        }
        /* Pruning puts up with it. */
        assert_true(st == VP_ERR_NOMEM || st == VP_OK);
        n_failed += st == VP_ERR_NOMEM;
    }
    assert_true(n_failed > 30);
}

/* Large files are written past the page cache, whatever the file system
 * thinks of it. */
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
        if (fault.n_direct > 0) /* 2 x 4 MiB, then the tail is refused */
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

/* A file holds a matrix the other way round than it was put; sizes around
 * those of the squares that are transposed at once. */
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
        vp_ckpt_writer_touch(writer); /* changes nothing, at any time */
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

static void waits_have_a_limit(void **state)
{
    struct vp_ckpt_writer *writer;
    struct vp_err err = { .text = "" };
    int64_t start;

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    writer = open_writer(0);
    fault.sync_ms = 60;
    assert_int_equal(vp_ckpt_writer_begin(writer, 3, 10, &err), VP_OK);
    put_state(writer, 1);
    start = vp_clock_ns();
    assert_int_equal(vp_ckpt_writer_commit(writer, NULL, NAN, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_begin(writer, 4, 10, &err), VP_ERR_TIMEOUT);
    assert_non_null(strstr(err.text, "checkpoints: step 3 is not written "
                                     "within 10 ms; check the disk"));
    assert_int_equal(vp_ckpt_writer_finish(writer, -7, &err), VP_ERR_TIMEOUT);
    assert_int_equal(vp_ckpt_writer_saved(writer), -1);
    assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_saved(writer), 3);
    /* Six syncs: three blocks, manifest, two folders. */
    assert_true(vp_clock_seconds(start, vp_clock_ns()) >= 0.36);
    vp_ckpt_writer_free(writer);
}

static void commit_and_free(int sync_ms, int delay_us)
{
    struct vp_facts *facts = make_facts(5);
    struct vp_ckpt_writer *writer;
    struct vp_err err = { .text = "" };

    fault_start(FAULT_NONE, 0, 0);
    writer = open_writer(0);
    fault.sync_ms = sync_ms;
    assert_int_equal(vp_ckpt_writer_begin(writer, 8, 10, &err), VP_OK);
    put_state(writer, 5);
    assert_int_equal(vp_ckpt_writer_commit(writer, facts, NAN, &err), VP_OK);
    usleep((useconds_t)delay_us);
    vp_ckpt_writer_free(writer);
    vp_facts_free(facts);
    fault_end();
    assert_int_equal(fault.n_open, 0);
}

/* Freed at any moment: a checkpoint is there whole or not at all. */
static void freeing_gives_up(void **state)
{
    struct notes notes;
    char names[256];

    (void)state;
    for (int delay_us = 0; delay_us < 20000; delay_us += 1000) {
        commit_and_free(2, delay_us);
        list_folder(store(), names, sizeof(names));
        if (names[0]) {
            assert_string_equal(names, "step-8 ");
            assert_int_equal(newest(&notes), 8);
        }
        assert_int_equal(remove_tree(store()), 0);
    }
    /* Not all six syncs are waited for. */
    commit_and_free(200, 20000);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "");
}

/* ---- Cost --------------------------------------------------------------- */

/* What training sees of a checkpoint, against one copy of the state. Prints
 * figures; only with VP_FULL=1, as it needs 800 MB. */
static void saving_costs_a_copy(void **state)
{
    enum { BLOCKS = 50 };
    const int64_t n_bytes = (400 << 20) / BLOCKS;
    struct vp_ckpt_item items[BLOCKS];
    char names[BLOCKS][32];
    struct vp_ckpt_writer *writer = NULL;
    struct vp_err err = { .text = "" };
    unsigned char *from, *to;

    (void)state;
    if (!getenv("VP_FULL")) {
        print_message("skipped: a measurement; set VP_FULL=1\n");
        skip();
    }
    for (int i = 0; i < BLOCKS; i++) {
        snprintf(names[i], sizeof(names[i]), "block.%d", i);
        items[i] = (struct vp_ckpt_item){ i, names[i],        VP_ST_F32,
                                          1, { n_bytes / 4 }, false };
    }
    from = malloc((size_t)n_bytes * BLOCKS);
    to = malloc((size_t)n_bytes * BLOCKS);
    memset(from, 1, (size_t)n_bytes * BLOCKS);
    memset(to, 2, (size_t)n_bytes * BLOCKS);
    if (vp_ckpt_writer_create(store(), NULL, 1, items, BLOCKS, &writer, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
    for (int round = 0; round < 6; round++) {
        int64_t t[6];

        t[0] = vp_clock_ns();
        for (int i = 0; i < BLOCKS; i++)
            memcpy(to + i * n_bytes, from + i * n_bytes, (size_t)n_bytes);
        t[1] = vp_clock_ns();
        assert_int_equal(vp_ckpt_writer_begin(writer, round, 0, &err), VP_OK);
        for (int i = 0; i < BLOCKS; i++)
            vp_ckpt_writer_put(writer, i, from + i * n_bytes);
        assert_int_equal(vp_ckpt_writer_commit(writer, NULL, NAN, &err), VP_OK);
        t[2] = vp_clock_ns();
        for (int i = 0; i < BLOCKS; i++) /* while the thread writes */
            memcpy(to + i * n_bytes, from + i * n_bytes, (size_t)n_bytes);
        t[3] = vp_clock_ns();
        assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err),
                         VP_OK);
        t[4] = vp_clock_ns();
        print_message("copy %.1f ms, begin+put+commit %.1f ms (%.2fx), copy "
                      "while writing %.1f ms, on disk after %.0f ms\n",
                      vp_clock_seconds(t[0], t[1]) * 1e3,
                      vp_clock_seconds(t[1], t[2]) * 1e3,
                      (double)(t[2] - t[1]) / (double)(t[1] - t[0]),
                      vp_clock_seconds(t[2], t[3]) * 1e3,
                      vp_clock_seconds(t[2], t[4]) * 1e3);
    }
    vp_ckpt_writer_free(writer);
    free(from);
    free(to);
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
        TEST_IN_FOLDER(any_flipped_byte_is_noticed),
        TEST_IN_FOLDER(any_cut_is_noticed),
        TEST_IN_FOLDER(odd_folders_are_passed_over),
        TEST_IN_FOLDER(all_broken_is_refused),
        TEST_IN_FOLDER(every_broken_one_is_named),
        TEST_IN_FOLDER(a_name_in_two_files_is_refused),
        TEST_IN_FOLDER(newest_and_best_are_kept),
        TEST_IN_FOLDER(keeping_counts_complete_ones),
        TEST_IN_FOLDER(what_cannot_be_read_is_kept),
        TEST_IN_FOLDER(a_step_can_be_saved_again),
        TEST_IN_FOLDER(a_removed_folder_is_made_again),
        TEST_IN_FOLDER(too_many_open_files_are_named),
        TEST_IN_FOLDER(removing_stays_inside),
        TEST_IN_FOLDER(removing_gives_up_in_depth),
        TEST_IN_FOLDER(space_is_asked_for),
        TEST_IN_FOLDER(a_failed_team_leaves_nothing),
        TEST_IN_FOLDER(writer_refuses_bad_items),
        TEST_IN_FOLDER(every_item_must_be_put),
        TEST_IN_FOLDER(ranks_put_at_once),
        TEST_IN_FOLDER(saving_allocates_nothing),
        TEST_IN_FOLDER(any_allocation_may_fail),
        TEST_IN_FOLDER(large_files_come_back),
        TEST_IN_FOLDER(matrices_are_transposed),
        TEST_IN_FOLDER(waits_have_a_limit),
        TEST_IN_FOLDER(freeing_gives_up),
        TEST_IN_FOLDER(saving_costs_a_copy),
    };

    return cmocka_run_group_tests_name("ckpt", tests, NULL, NULL);
}
