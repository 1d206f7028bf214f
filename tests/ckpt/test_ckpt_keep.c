/* Pruning keeps the newest, the best and all unreadable checkpoints; a step can
 * be saved again, and removal never leaves its folder. */
#include "lib/ckpt_steps.h"
#include "lib/ckptlib.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Which checkpoints are kept ----------------------------------------- */

/* Compares the checkpoints left after each save with a second implementation of
 * the rule. */
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

/* Damaged checkpoints are not counted among the newest, and those newer than
 * the save are kept. */
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
    /* 45 and 30 are the newest complete ones; 40 is damaged but newer than 30;
     * 10 is the best; 50 and 60 are newer than the save. */
    assert_string_equal(names, "step-10 step-30 step-40 step-45 step-50 "
                               "step-60 ");
    assert_int_equal(vp_ckpt_set_aside(store(), "step-45", NULL), VP_OK);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-10 step-30 step-40 step-45 "
                               "step-50.aside-1 step-60.aside-1 ");
    save_well(writer, 46, 9, (double)NAN);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-10 step-45 step-46 ");
    /* A damaged checkpoint cannot be the best. */
    assert_int_equal(truncate(in_store("step-10/block-0000.safetensors"), 9),
                     0);
    save_well(writer, 47, 9, (double)NAN);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-46 step-47 ");
    vp_ckpt_writer_free(writer);
}

/* A temporary disk error must remove neither the best checkpoint nor the
 * newest. In turn open, pread and close of each manifest fail, the newest
 * first. */
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
        /* If step 1 were ignored, step 2 would be the best. */
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

    /* Over a file with the name of the step. */
    write_path(in_store("step-50"), "x", 1);
    save_well(writer, 50, 9, (double)NAN);
    assert_int_equal(newest_turn(&notes), 50);
    vp_ckpt_writer_free(writer);

    /* Killed between the two renames: the former checkpoint is found and
     * renamed back. */
    assert_int_equal(rename(in_store("step-50"), in_store("step-50.old")), 0);
    assert_int_equal(mkdir(in_store("step-50.tmp"), 0777), 0);
    assert_int_equal(newest_turn(&notes), 50);
    assert_int_equal(notes.n, 0);
    assert_int_equal(vp_ckpt_prepare(store(), &err), VP_OK);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-10 step-20 step-30 step-50 ");

    /* Killed after both renames: the former checkpoint is removed. */
    assert_int_equal(rename(in_store("step-20"), in_store("step-50.old")), 0);
    assert_int_equal(vp_ckpt_prepare(store(), &err), VP_OK);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "step-10 step-30 step-50 ");
    assert_int_equal(newest_turn(&notes), 50);
}

/* Removing all checkpoints during a run does not make later saves fail. */
static void a_removed_folder_is_made_again(void **state)
{
    struct vp_ckpt_writer *writer = open_writer(0);
    struct notes notes;

    (void)state;
    save_well(writer, 10, 1, (double)NAN);
    assert_int_equal(vp_io_remove(store()), 0);
    save_well(writer, 20, 2, (double)NAN);
    vp_ckpt_writer_free(writer);
    assert_int_equal(newest_turn(&notes), 20);
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

/* ---- Removing folders --------------------------------------------------- */

static void removing_stays_inside(void **state)
{
    char names[256];
    struct vp_err err;

    (void)state;
    assert_int_equal(mkdir(at("precious"), 0777), 0);
    write_path(at("precious/data"), "x", 1);
    assert_int_equal(vp_ckpt_prepare(store(), &err), VP_OK);
    assert_int_equal(mkdir(in_store("step-1.tmp"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-1.tmp/deep"), 0777), 0);
    assert_int_equal(mkdir(in_store("step-1.tmp/deep/er"), 0777), 0);
    write_path(in_store("step-1.tmp/deep/er/f"), "x", 1);
    assert_int_equal(symlink(at("precious"), in_store("step-1.tmp/link")), 0);
    assert_int_equal(symlink(at("precious"), in_store("step-2.tmp")), 0);
    assert_int_equal(symlink("/nowhere", in_store("step-3.trash")), 0);
    if (vp_ckpt_prepare(store(), &err) != VP_OK)
        fail_msg("%s", err.text);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "");
    list_folder(at("precious"), names, sizeof(names));
    assert_string_equal(names, "data ");

    write_path(at("file"), "x", 1);
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

/* ---- Free disk space ---------------------------------------------------- */

static void space_is_asked_for(void **state)
{
    struct vp_err err = { .text = "" };
    long long needed = 0, there = 0;

    (void)state;
    assert_int_equal(vp_ckpt_space(folder, 4096, &err), VP_OK);
    assert_int_equal(vp_ckpt_space(at("not/yet/there"), 4096, &err), VP_OK);
    assert_int_equal(vp_ckpt_space("not-yet", 4096, &err), VP_OK);
    assert_int_equal(vp_ckpt_space("/not-yet/there", 1, &err), VP_OK);
    /* A file system that reports no blocks passes this check. */
    assert_int_equal(vp_ckpt_space("/proc/not-yet", 4096, &err), VP_OK);
    assert_int_equal(vp_ckpt_space(at("not/yet"), INT64_MAX, &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "not/yet: not enough space: "));
    assert_int_equal(sscanf(strstr(err.text, "space: "),
                            "space: %lld bytes are needed, %lld are free",
                            &needed, &there),
                     2);
    assert_true(needed == INT64_MAX && there > 4096 && there < needed);
}

/* ---- Checkpoints of several processes ----------------------------------- */

/* Another process that writes late and then reports `st`. */
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
    write_path(at("checkpoints/step-5.tmp/block-0009.safetensors"), "x", 1);
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

/* The lead removes an unfinished checkpoint only after it has heard from all
 * processes, so that none writes to it any more. */
static void a_failed_team_leaves_nothing(void **state)
{
    const struct vp_ckpt_image image = { 0, (const unsigned char *)"abc", 3 };
    struct vp_io broken = vp_io_system;
    char names[64];

    (void)state;
    broken.fsync = no_fsync;
    for (int own = 0; own < 2; own++) {
        struct late late = { own ? VP_OK : VP_ERR_IO, 0 };
        const struct vp_ckpt_team team = { .ctx = &late,
                                           .is_lead = true,
                                           .collect_files = hear_late,
                                           .max_parts = 2 };
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests_name("ckpt_keep", tests, NULL, NULL);
}
