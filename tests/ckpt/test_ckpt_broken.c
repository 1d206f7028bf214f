/* A checkpoint with a flipped byte, a cut file or a missing file is skipped and
 * reported by name, and folders that are not checkpoints are ignored. */
#include "lib/ckpt_steps.h"
#include "lib/ckptlib.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Declared here because only src/ckpt may include the header of libxxhash. */
uint64_t XXH3_64bits(const void *bytes, size_t n_bytes);

static const char *const files_of_a_step[] = {
    "step-30/manifest.json",
    "step-30/block-0000.safetensors",
    "step-30/block-0002.safetensors",
    "step-30/block-0007.safetensors",
};

/* Step 30 is damaged in `file`: step 20 must be opened, with one note that
 * contains `file` and `what`. */
static void falls_back(const char *file, const char *what)
{
    struct notes notes;
    char tail[] = "; using step 20";
    size_t n;

    assert_int_equal(newest_turn(&notes), 20);
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
            write_path(path, bytes, i);
            falls_back(files_of_a_step[f], "cut");
        }
        write_path(path, bytes, n + 1); /* one byte too many */
        falls_back(files_of_a_step[f], "cut or changed");
        write_path(path, bytes, n);
        assert_int_equal(newest_turn(&notes), 30);
        assert_int_equal(notes.n, 0);
        assert_int_equal(unlink(path), 0);
        falls_back(files_of_a_step[f], "cannot be opened (No such file");
        write_path(path, bytes, n);
        free(bytes);
    }
}

static void odd_folders_are_passed_over(void **state)
{
    struct notes notes;
    char names[256];

    (void)state;
    save_three();
    /* Additional files in a checkpoint, and folders with other names. */
    write_path(in_store("step-30/notes.txt"), "x", 1);
    write_path(in_store("step-30/block-0099.safetensors"), "x", 1);
    assert_int_equal(mkdir(in_store("step-007"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-"), 0777), 0);
    assert_int_equal(mkdir(in_store("step--5"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-99x"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-99.tmp.bak"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-9999999999999999999"), 0777), 0);
    assert_int_equal(mkdir(in_store("other.tmp"), 0777), 0);
    assert_int_equal(newest_turn(&notes), 30);
    assert_int_equal(notes.n, 0);

    /* A newer checkpoint that is being written, and one that is being
     * removed. */
    assert_int_equal(mkdir(in_store("step-40.tmp"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-50.trash"), 0777), 0);
    assert_int_equal(newest_turn(&notes), 30);
    assert_int_equal(notes.n, 0);

    /* The newest entry is a file, an empty folder, the checkpoint of another
     * step. */
    write_path(in_store("step-60"), "x", 1);
    assert_int_equal(newest_turn(&notes), 30);
    assert_int_equal(notes.n, 1);
    assert_non_null(strstr(notes.last, "step-60/manifest.json: cannot be "
                                       "opened (Not a directory); using "
                                       "step 30"));
    assert_int_equal(unlink(in_store("step-60")), 0);
    assert_int_equal(mkdir(in_store("step-60"), 0777), 0);
    assert_int_equal(newest_turn(&notes), 30);
    assert_non_null(strstr(notes.last, "step-60/manifest.json: cannot be "
                                       "opened (No such file"));
    assert_int_equal(rmdir(in_store("step-60")), 0);
    assert_int_equal(rename(in_store("step-20"), in_store("step-60")), 0);
    assert_int_equal(newest_turn(&notes), 30);
    assert_non_null(strstr(notes.last, "step-60/manifest.json: belongs to "
                                       "step 20; using step 30"));

    /* Opening a writer removes leftovers of vpipe and nothing else. */
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
    assert_non_null(strstr(err.text, "none of 3 checkpoints can be used"));
    assert_int_equal(notes.n, 0);
    assert_null(ckpt);
}

/* Each damaged checkpoint gets a note of its own with the step that is used. */
static void every_broken_one_is_named(void **state)
{
    struct notes notes;

    (void)state;
    save_three();
    assert_int_equal(unlink(in_store("step-30/block-0007.safetensors")), 0);
    assert_int_equal(truncate(in_store("step-20/manifest.json"), 99), 0);
    assert_int_equal(newest_turn(&notes), 10);
    assert_int_equal(notes.n, 2);
    assert_non_null(strstr(notes.last, "step-20/manifest.json: checksum "
                                       "differs"));
    assert_non_null(strstr(notes.last, "; using step 10"));
}

/* Two files contain the same tensor, and all checksums are correct. */
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
    write_path(in_store("step-30/block-0002.safetensors"), zero, n_zero);
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
    write_path(in_store("step-30/manifest.json"), text, (size_t)(end - text));
    assert_int_equal(vp_ckpt_open(in_store("step-30"), &ckpt, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, ": is in another file too"));
    free(zero);
    free(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(any_flipped_byte_is_noticed),
        TEST_IN_FOLDER(any_cut_is_noticed),
        TEST_IN_FOLDER(odd_folders_are_passed_over),
        TEST_IN_FOLDER(all_broken_is_refused),
        TEST_IN_FOLDER(every_broken_one_is_named),
        TEST_IN_FOLDER(a_name_in_two_files_is_refused),
    };

    return cmocka_run_group_tests_name("ckpt_broken", tests, NULL, NULL);
}
