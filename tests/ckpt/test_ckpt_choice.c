/* All processes resume from the same checkpoint, only damaged ones are skipped,
 * and skipped ones are kept until a newer checkpoint was written and read
 * back. */
#include "ckpt/manifest.h"
#include "lib/ckptlib.h"

#include <errno.h>
#include <math.h>
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
uint64_t XXH3_64bits(const void *bytes, size_t n);

/* ---- Helpers ------------------------------------------------------------ */

/* Saves steps 10, 20 and 30 with the states of turns 1, 2 and 3. */
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

static void assert_names(const char *want)
{
    char names[512];

    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, want);
}

static void flip_byte(const char *path)
{
    size_t n;
    unsigned char *bytes = read_file(path, &n);

    bytes[n - 3] ^= 1;
    write_path(path, bytes, n);
    free(bytes);
}

/* Replaces a text in a manifest and corrects its checksum. */
static void forge(const char *path, const char *from, const char *to)
{
    enum { TAIL = 37 };
    unsigned char *bytes;
    char text[8192], *found;
    size_t n, n_head;

    bytes = read_file(path, &n);
    found = strstr((char *)bytes, from);
    assert_non_null(found);
    n_head = (size_t)(found - (char *)bytes);
    n = (size_t)snprintf(text, sizeof(text), "%.*s%s%.*s", (int)n_head, bytes,
                         to, (int)(n - TAIL - n_head - strlen(from)),
                         found + strlen(from));
    n += (size_t)snprintf(text + n, sizeof(text) - n,
                          ",\n  \"checksum\": \"%016llx\"\n}\n",
                          (unsigned long long)XXH3_64bits(text, n));
    write_path(path, text, n);
    free(bytes);
}

/* Opens the newest checkpoint. `*step_out` is its step, or -1 after an
 * error. */
static enum vp_status open_newest(int64_t *step_out, struct notes *notes,
                                  struct vp_err *err)
{
    struct vp_ckpt *ckpt = NULL;
    enum vp_status st;

    notes->n = 0;
    st = vp_ckpt_open_newest(store(), take_note, notes, &ckpt, err);
    *step_out = -1;
    if (st == VP_OK) {
        check_state(ckpt);
        *step_out = vp_ckpt_step(ckpt);
        vp_ckpt_close(ckpt);
    }
    return st;
}

/* ---- Skipping damaged checkpoints --------------------------------------- */

/* Opening a path that contains fail_path fails with errno fail_error. */
static const char *fail_path;
static int fail_error;

static int open_or_fail(const char *path, int flags, mode_t mode)
{
    if (fail_path && strstr(path, fail_path)) {
        errno = fail_error;
        return -1;
    }
    return vp_io_system.open(path, flags, mode);
}

static void only_damage_is_passed_over(void **state)
{
    static const int errors[] = { EIO, EACCES, EMFILE, ENOMEM, ESTALE };
    struct vp_io table = vp_io_system;
    struct vp_err err = { .text = "" };
    struct notes notes = { 0 };
    int64_t step;

    (void)state;
    save_three();
    table.open = open_or_fail;
    vp_io_swap(&table);
    for (size_t i = 0; i < VP_COUNT_OF(errors); i++) {
        fail_error = errors[i];
        for (int file = 0; file < 2; file++) {
            fail_path = file ? "step-30/block-0002" : "step-30/manifest";
            assert_int_equal(open_newest(&step, &notes, &err), VP_ERR_IO);
            assert_non_null(strstr(err.text, fail_path));
            assert_non_null(strstr(err.text, "; to go on from an older "
                                             "checkpoint: --resume "));
            assert_non_null(strstr(err.text, "checkpoints/step-20"));
            assert_int_equal(notes.n, 0);
        }
    }
    /* The newest checkpoint is damaged and skipped; an I/O error of the next
     * one still ends the search. */
    flip_byte(in_store("step-30/block-0002.safetensors"));
    fail_path = "step-20/manifest";
    assert_int_equal(open_newest(&step, &notes, &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "checkpoints/step-10"));
    fail_path = NULL;
    assert_int_equal(open_newest(&step, &notes, &err), VP_OK);
    assert_int_equal(step, 20);
    assert_int_equal(notes.n, 1);
}

static void a_later_format_is_not_passed_over(void **state)
{
    struct vp_err err = { .text = "" };
    struct notes notes = { 0 };
    int64_t step;

    (void)state;
    save_three();
    forge(in_store("step-30/manifest.json"), "\"version\": 2",
          "\"version\": 3");
    assert_int_equal(open_newest(&step, &notes, &err), VP_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "use a newer vpipe"));
    assert_non_null(strstr(err.text, "checkpoints/step-20"));
    for (int i = 1; i < 3; i++)
        assert_int_equal(remove_tree(in_store(i == 1 ? "step-10" : "step-20")),
                         0);
    assert_int_equal(open_newest(&step, &notes, &err), VP_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "; there is no older checkpoint"));
}

/* Another process reports that the checkpoint opened here is damaged: the
 * search continues with the next older one. */
static void another_process_may_reject(void **state)
{
    struct vp_ckpt_search *search = NULL;
    struct vp_ckpt *ckpt = NULL;
    struct notes notes = { 0 };
    struct vp_err err = { .text = "" };

    (void)state;
    save_three();
    assert_int_equal(vp_ckpt_search_create(store(), &search, &err), VP_OK);
    for (int step = 30; step >= 10; step -= 10) {
        assert_int_equal(vp_ckpt_search_next(search, &ckpt, &err), VP_OK);
        assert_int_equal(vp_ckpt_step(ckpt), step);
        vp_ckpt_close(ckpt);
        assert_int_equal(vp_ckpt_search_reject(search, "rank 2: broken", &err),
                         VP_OK);
    }
    vp_ckpt_search_tell(search, 5, take_note, &notes);
    assert_int_equal(notes.n, 3);
    assert_string_equal(notes.last, "rank 2: broken; using step 5");
    assert_int_equal(vp_ckpt_search_next(search, &ckpt, &err), VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "rank 2: broken; none of 3 checkpoints can be "
                        "used; repair it or start a new run");
    vp_ckpt_search_free(search);
}

/* ---- Opening the same checkpoint in all processes ----------------------- */

static struct vp_ckpt_id id_of(const char *name)
{
    struct vp_ckpt *ckpt = NULL;
    struct vp_ckpt_id id;
    struct vp_err err = { .text = "" };

    assert_int_equal(vp_ckpt_open(in_store(name), &ckpt, &err), VP_OK);
    assert_int_equal(vp_ckpt_identify(ckpt, &id, &err), VP_OK);
    vp_ckpt_close(ckpt);
    return id;
}

static enum vp_status open_same(const struct vp_ckpt_id *id, int block,
                                struct vp_err *err)
{
    bool wanted[8] = { false };
    struct vp_ckpt *ckpt = NULL;
    enum vp_status st;

    wanted[block] = true;
    st = vp_ckpt_open_same(id, wanted, 8, &ckpt, err);
    vp_ckpt_close(ckpt);
    return st;
}

static void exactly_that_one_is_opened(void **state)
{
    struct vp_ckpt_writer *writer;
    struct vp_err err = { .text = "" };
    struct vp_ckpt_id id;

    (void)state;
    save_three();
    id = id_of("step-20");
    assert_int_equal(id.step, 20);
    assert_int_equal(open_same(&id, 0, &err), VP_OK);

    /* Another checkpoint was saved for this step. */
    writer = open_writer(0);
    save_well(writer, 20, 9, (double)NAN);
    vp_ckpt_writer_free(writer);
    assert_int_equal(open_same(&id, 0, &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "is not the file that the lead reads"));

    /* A file, then the whole folder, is missing in this process. */
    id = id_of("step-30");
    assert_int_equal(unlink(in_store("step-30/block-0007.safetensors")), 0);
    assert_int_equal(open_same(&id, 0, &err), VP_ERR_IO);
    assert_int_equal(remove_tree(in_store("step-30")), 0);
    assert_int_equal(open_same(&id, 0, &err), VP_ERR_IO);
}

static void wanted_blocks_are_verified(void **state)
{
    static const struct vp_st_tensor shape = { .type = VP_ST_F32,
                                               .n_dims = 1,
                                               .dims = { 64 } };
    bool none[8] = { false };
    struct vp_err err = { .text = "" };
    struct vp_ckpt *ckpt = NULL;
    struct vp_ckpt_id id;
    float head[64];

    (void)state;
    save_three();
    id = id_of("step-30");
    flip_byte(in_store("step-30/block-0007.safetensors"));
    assert_int_equal(open_same(&id, 7, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "block-0007.safetensors: checksum "
                                     "differs"));
    assert_int_equal(open_same(&id, 2, &err), VP_OK);

    /* A block that was not requested is verified before it is read. */
    assert_int_equal(vp_ckpt_open_same(&id, none, 8, &ckpt, &err), VP_OK);
    assert_int_equal(vp_ckpt_read(ckpt, "head.weight", &shape, head, &err),
                     VP_ERR_INVALID);
    vp_ckpt_close(ckpt);
}

/* ---- Setting newer checkpoints aside ------------------------------------ */

static void newer_ones_are_set_aside(void **state)
{
    struct vp_ckpt_entry *list = NULL;
    struct vp_ckpt_writer *writer;
    struct vp_err err = { .text = "" };
    struct notes notes = { 0 };
    int64_t step;
    int n = -1;

    (void)state;
    save_three();
    assert_int_equal(vp_ckpt_set_aside(store(), "step-10", &err), VP_OK);
    assert_names("step-10 step-20.aside-1 step-30.aside-1 ");
    assert_int_equal(open_newest(&step, &notes, &err), VP_OK);
    assert_int_equal(step, 10);
    assert_int_equal(vp_ckpt_list_aside(store(), &list, &n, &err), VP_OK);
    assert_int_equal(n, 2);
    assert_string_equal(list[0].name, "step-30.aside-1");
    free(list);

    /* Opening a writer keeps them; the first save removes them. */
    writer = open_writer(1);
    assert_names("step-10 step-20.aside-1 step-30.aside-1 ");
    save_well(writer, 15, 4, (double)NAN);
    assert_names("step-15 ");
    vp_ckpt_writer_free(writer);
}

static void numbers_go_on(void **state)
{
    (void)state;
    save_three();
    assert_int_equal(vp_ckpt_set_aside(store(), "step-20", NULL), VP_OK);
    assert_int_equal(mkdir(in_store("step-30"), 0777), 0);
    assert_int_equal(vp_ckpt_set_aside(store(), "step-20", NULL), VP_OK);
    assert_names("step-10 step-20 step-30.aside-1 step-30.aside-2 ");
    assert_int_equal(vp_ckpt_set_aside(store(), NULL, NULL), VP_OK);
    assert_names("step-10.aside-1 step-20.aside-1 step-30.aside-1 "
                 "step-30.aside-2 ");
}

static void nothing_is_set_aside_for_one_that_is_gone(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    save_three();
    assert_int_equal(vp_ckpt_set_aside(store(), "step-15", &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "step-15: is gone"));
    assert_names("step-10 step-20 step-30 ");
}

/* The process was killed while step 30 was saved a second time, and the second
 * checkpoint is incomplete: the run resumes from the first one, step-30.old. */
static void the_former_one_takes_its_place(void **state)
{
    struct vp_err err = { .text = "" };
    struct notes notes = { 0 };
    int64_t step;

    (void)state;
    save_three();
    assert_int_equal(rename(in_store("step-30"), in_store("step-30.old")), 0);
    assert_int_equal(mkdir(in_store("step-30"), 0777), 0);
    assert_int_equal(open_newest(&step, &notes, &err), VP_OK);
    assert_int_equal(step, 30);
    assert_int_equal(vp_ckpt_set_aside(store(), "step-30.old", &err), VP_OK);
    assert_int_equal(vp_ckpt_prepare(store(), &err), VP_OK);
    assert_names("step-10 step-20 step-30 step-30.aside-1 ");
    assert_int_equal(open_newest(&step, &notes, &err), VP_OK);
    assert_int_equal(step, 30);
    assert_int_equal(notes.n, 0);
}

/* Writes succeed and reads fail while fail_reads is set. */
static bool fail_reads;

static ssize_t read_or_fail(int fd, void *buf, size_t n, off_t where)
{
    if (fail_reads) {
        errno = EIO;
        return -1;
    }
    return vp_io_system.pread(fd, buf, n, where);
}

static void they_stay_until_a_save_is_read_back(void **state)
{
    struct vp_io table = vp_io_system;
    struct vp_err err = { .text = "" };
    struct vp_ckpt_writer *writer;

    (void)state;
    save_three();
    assert_int_equal(vp_ckpt_set_aside(store(), "step-20", &err), VP_OK);
    writer = open_writer(0);
    table.pread = read_or_fail;
    fail_reads = true;
    vp_io_swap(&table);
    assert_int_equal(save_state(writer, 25, 5, (double)NAN, &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "step-25/manifest.json: cannot be read"));
    assert_names("step-10 step-20 step-25 step-30.aside-1 ");
    fail_reads = false;
    save_well(writer, 26, 6, (double)NAN);
    assert_names("step-10 step-20 step-25 step-26 ");
    vp_ckpt_writer_free(writer);
}

/* ---- The callback before publishing ------------------------------------- */

struct barrier {
    int n_calls;
    bool fails;
};

/* Called when all files are complete and still in step-10.tmp. */
static enum vp_status before_publish(void *ctx, struct vp_err *err)
{
    struct barrier *barrier = ctx;

    barrier->n_calls++;
    assert_int_equal(access(in_store("step-10.tmp/manifest.json"), F_OK), 0);
    assert_int_not_equal(access(in_store("step-10"), F_OK), 0);
    return barrier->fails ? vp_err_set(err, VP_ERR_IO, "metrics are not synced")
                          : VP_OK;
}

static void the_caller_comes_before_the_name(void **state)
{
    struct barrier barrier = { .fails = true };
    struct vp_ckpt_writer *writer;
    struct vp_err err = { .text = "" };

    (void)state;
    writer = open_writer(0);
    vp_ckpt_writer_before_publish(writer, before_publish, &barrier);
    assert_int_equal(save_state(writer, 10, 1, (double)NAN, &err), VP_ERR_IO);
    assert_string_equal(err.text, "metrics are not synced");
    assert_names("");
    barrier.fails = false;
    save_well(writer, 10, 1, (double)NAN);
    assert_int_equal(barrier.n_calls, 2);
    assert_names("step-10 ");
    vp_ckpt_writer_free(writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(only_damage_is_passed_over),
        TEST_IN_FOLDER(a_later_format_is_not_passed_over),
        TEST_IN_FOLDER(another_process_may_reject),
        TEST_IN_FOLDER(exactly_that_one_is_opened),
        TEST_IN_FOLDER(wanted_blocks_are_verified),
        TEST_IN_FOLDER(newer_ones_are_set_aside),
        TEST_IN_FOLDER(numbers_go_on),
        TEST_IN_FOLDER(nothing_is_set_aside_for_one_that_is_gone),
        TEST_IN_FOLDER(the_former_one_takes_its_place),
        TEST_IN_FOLDER(they_stay_until_a_save_is_read_back),
        TEST_IN_FOLDER(the_caller_comes_before_the_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
