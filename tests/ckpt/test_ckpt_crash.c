/* A process that saves is killed at every system call, loses power or has a
 * failing disk: the newest complete checkpoint is found again, and an
 * incomplete one is never opened. */
#include "lib/ckptlib.h"

#include <errno.h>
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

#include <signal.h>
#include <sys/wait.h>

/* Turn i (1, 2, ...) saves steps[i - 1]; step 2 is saved twice. */
static const int64_t steps[] = { 1, 2, 2, 3 };
enum { N_TURNS = VP_COUNT_OF(steps), KEEP = 1 };

/* With sanitizers processes start slowly, so only every third call is tried. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE = 3 };
#else
enum { STRIDE = 1 };
#endif

/* Turn 1 has the best score, so it is kept beside the newest. */
static double score_of(uint32_t turn)
{
    return turn == 1 ? 0.5 : 1.0;
}

/* ---- Checks after an accident ------------------------------------------- */

/* Returns the turn of the newest checkpoint, 0 if there is none. Fails if one
 * was damaged. */
static uint32_t newest_turn(void)
{
    struct vp_ckpt *ckpt = NULL;
    struct notes notes = { 0 };
    struct vp_err err = { .text = "" };
    enum vp_status st;
    uint32_t turn;

    st = vp_ckpt_open_newest(store(), take_note, &notes, &ckpt, &err);
    if (notes.n != 0)
        fail_msg("%s", notes.last);
    if (st == VP_ERR_END)
        return 0;
    if (st != VP_OK)
        fail_msg("%s", err.text);
    turn = check_state(ckpt);
    vp_ckpt_close(ckpt);
    return turn;
}

/* Every listed checkpoint is complete and readable. */
static void check_all(void)
{
    struct vp_ckpt_entry *list = NULL;
    struct vp_err err = { .text = "" };
    int n = 0;

    assert_int_equal(vp_ckpt_list(store(), &list, &n, &err), VP_OK);
    for (int i = 0; i < n; i++) {
        struct vp_ckpt *ckpt = NULL;
        char path[1024];

        snprintf(path, sizeof(path), "%s/%s", store(), list[i].name);
        if (vp_ckpt_open(path, &ckpt, &err) != VP_OK)
            fail_msg("%s", err.text);
        check_state(ckpt);
        vp_ckpt_close(ckpt);
    }
    free(list);
}

/* A new writer removes leftovers, the checkpoint of `turn` is still found, and
 * the next save succeeds. */
static void check_goes_on(uint32_t turn)
{
    struct vp_ckpt_writer *writer = open_writer(KEEP);
    char names[256];

    list_folder(store(), names, sizeof(names));
    assert_null(strstr(names, ".tmp"));
    assert_null(strstr(names, ".trash"));
    assert_null(strstr(names, ".old"));
    assert_int_equal(newest_turn(), turn);
    save_well(writer, 100, 50, 1.0);
    assert_int_equal(newest_turn(), 50);
    check_all();
    vp_ckpt_writer_free(writer);
}

/* ---- Killed or without power at every call ------------------------------ */

/* Saves all turns, with a fault at call `k`. Writes the number of each finished
 * turn to `tell`. */
static void child_main(enum fault_kind kind, int k, int tell)
{
    struct vp_ckpt_writer *writer = NULL;
    struct vp_err err;

    fault_start(kind, k, 0);
    if (vp_ckpt_writer_create(store(), NULL, KEEP, state_items, N_ITEMS,
                              &writer, &err) != VP_OK)
        leave(1);
    for (uint32_t turn = 1; turn <= N_TURNS; turn++) {
        unsigned char byte = (unsigned char)turn;

        if (save_state(writer, steps[turn - 1], turn, score_of(turn), &err) !=
                VP_OK ||
            write(tell, &byte, 1) != 1)
            leave(1);
    }
    vp_ckpt_writer_free(writer);
    leave(0);
}

/* Runs child_main() in a process. Returns the exit status; `*done` is the last
 * turn that it reported. */
static int run_child(enum fault_kind kind, int k, uint32_t *done)
{
    unsigned char byte;
    int ends[2], status = -1;
    pid_t pid;

    *done = 0;
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child_main(kind, k, ends[1]);
    close(ends[1]);
    while (read(ends[0], &byte, 1) == 1)
        *done = byte;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void stop_everywhere(enum fault_kind kind)
{
    uint32_t seen[N_TURNS + 1] = { 0 };

    for (int k = 1;; k += STRIDE) {
        uint32_t done, turn;
        int status = run_child(kind, k, &done);

        if (status == 0) {
            assert_int_equal(done, N_TURNS);
            assert_int_equal(newest_turn(), N_TURNS);
            print_message("%d calls\n", k - 1);
            assert_in_range(k, 150, 250);
            assert_int_equal(remove_tree(store()), 0);
            break;
        }
        assert_int_equal(status, STOP_STATUS);
        turn = newest_turn();
        assert_in_range(turn, done, done + 1);
        check_all();
        seen[turn]++;
        fault_start(FAULT_NONE, 0, 0);
        check_goes_on(turn);
        fault_end();
        assert_int_equal(remove_tree(store()), 0);
    }
    for (uint32_t turn = 0; turn < N_TURNS; turn++)
        assert_true(seen[turn] > 5);
}

static void stopped_at_every_call(void **state)
{
    (void)state;
    stop_everywhere(FAULT_STOP);
}

static void power_lost_at_every_call(void **state)
{
    (void)state;
    stop_everywhere(FAULT_LOSS);
}

/* ---- Errors at every call ----------------------------------------------- */

/* Call `k` fails, for all k: earlier checkpoints stay, the message names the
 * cause, and the next save succeeds. */
static void fail_everywhere(enum fault_kind kind, int error, int stride)
{
    int n_told = 0;

    if (getenv("VP_FULL"))
        stride = 1;
    for (int k = 1;; k += stride) {
        struct vp_ckpt_writer *writer = NULL;
        struct vp_err err = { .text = "" };
        uint32_t last = 0;
        bool hit;

        fault_start(kind, k, error);
        if (vp_ckpt_writer_create(store(), NULL, KEEP, state_items, N_ITEMS,
                                  &writer, &err) != VP_OK) {
            assert_non_null(strstr(err.text, strerror(error)));
            assert_int_equal(fault.n_open, 0);
            fault_end();
            continue;
        }
        for (uint32_t turn = 1; turn <= N_TURNS; turn++) {
            enum vp_status st = save_state(writer, steps[turn - 1], turn,
                                           score_of(turn), &err);
            enum fault_kind now = fault.kind;
            uint32_t found;
            int n = fault.n;

            assert_int_equal(fault.n_open, 0);
            fault.kind = FAULT_NONE;
            found = newest_turn();
            check_all();
            fault.n = n;
            fault.kind = now;
            assert_in_range(found, st == VP_OK ? turn : last, turn);
            if (st == VP_OK)
                assert_int_equal(vp_ckpt_writer_saved(writer), steps[turn - 1]);
            else {
                assert_int_equal(st, VP_ERR_IO);
                assert_non_null(strstr(err.text, strerror(error)));
                assert_non_null(strstr(err.text, "/checkpoints/step-"));
                if (error == ENOSPC && strstr(err.text, "bytes are needed"))
                    n_told++;
            }
            last = found;
        }
        hit = fault.n >= k;
        fault_end();
        vp_ckpt_writer_free(writer);
        if (!hit) {
            assert_int_equal(last, N_TURNS);
            break;
        }
        fault_start(FAULT_NONE, 0, 0);
        check_goes_on(last);
        fault_end();
        assert_int_equal(remove_tree(store()), 0);
    }
    if (error == ENOSPC)
        assert_true(n_told > 50 / stride);
}

static void any_call_may_fail(void **state)
{
    (void)state;
    fail_everywhere(FAULT_FAIL, EIO, 1);
}

static void any_call_may_find_the_disk_full(void **state)
{
    (void)state;
    fail_everywhere(FAULT_FAIL, ENOSPC, 4);
}

static void the_disk_may_fail_for_good(void **state)
{
    (void)state;
    fail_everywhere(FAULT_PERSIST, EIO, 3);
}

/* Interrupted calls and reads and writes of a few bytes do not change the
 * result. */
static void calls_may_be_cut_short(void **state)
{
    struct vp_ckpt_writer *writer;

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    fault.choppy = true;
    writer = open_writer(KEEP);
    for (uint32_t turn = 1; turn <= N_TURNS; turn++) {
        save_well(writer, steps[turn - 1], turn, score_of(turn));
        assert_int_equal(newest_turn(), turn);
    }
    vp_ckpt_writer_free(writer);
    assert_int_equal(fault.n_open, 0);
    check_all();
}

/* The error of a save is reported once, by the next call; later saves
 * succeed. */
static void errors_are_told_once(void **state)
{
    struct vp_ckpt_writer *writer;
    struct vp_facts *facts = make_facts(1);
    struct vp_err err = { .text = "" };
    char names[256];

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    writer = open_writer(KEEP);
    for (int at_begin = 0; at_begin < 2; at_begin++) {
        assert_int_equal(vp_ckpt_writer_begin(writer, 7, PATIENCE_MS, &err),
                         VP_OK);
        put_state(writer, 1);
        fault.kind = FAULT_FAIL;
        fault.error = ENOSPC;
        fault.at = fault.n + 4; /* the write after unlink, mkdir and open */
        assert_int_equal(vp_ckpt_writer_commit(writer, facts, NAN, &err),
                         VP_OK);
        err.text[0] = '\0';
        assert_int_equal(
            at_begin ? vp_ckpt_writer_begin(writer, 8, PATIENCE_MS, &err)
                     : vp_ckpt_writer_finish(writer, PATIENCE_MS, &err),
            VP_ERR_IO);
        assert_non_null(
            strstr(err.text, "checkpoints/step-7.tmp/block-0000.safetensors: "
                             "cannot be written (No space left on device): "));
        assert_non_null(strstr(err.text, " bytes are needed"));
        assert_int_equal(vp_ckpt_writer_saved(writer), -1);
        list_folder(store(), names, sizeof(names));
        assert_string_equal(names, ""); /* the partial file is removed */
        assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err),
                         VP_OK);
    }
    save_well(writer, 7, 1, 1.0);
    vp_ckpt_writer_free(writer);
    vp_facts_free(facts);
}

/* Saving a step again with one failed call: step-7 is the former or the new
 * checkpoint. */
static void saving_again_may_fail(void **state)
{
    (void)state;
    for (int k = 1;; k++) {
        struct vp_ckpt_writer *writer;
        struct vp_err err = { .text = "" };
        enum vp_status st;
        char names[256];
        bool hit;

        fault_start(FAULT_NONE, 0, 0);
        writer = open_writer(KEEP);
        save_well(writer, 7, 1, 1.0);
        fault.kind = FAULT_FAIL;
        fault.error = EIO;
        fault.at = fault.n + k;
        st = save_state(writer, 7, 2, 1.0, &err);
        hit = fault.n >= fault.at;
        fault.kind = FAULT_NONE;
        list_folder(store(), names, sizeof(names));
        assert_memory_equal(names, "step-7 ", 7);
        assert_null(strstr(names, ".tmp"));
        assert_in_range(newest_turn(), st == VP_OK ? 2 : 1, 2);
        vp_ckpt_writer_free(writer);
        fault_end();
        assert_int_equal(remove_tree(store()), 0);
        if (!hit) {
            assert_int_equal(st, VP_OK);
            break;
        }
    }
}

/* ---- Killed at random times --------------------------------------------- */

/* Saves turn after turn until it is killed. Writes the number of each finished
 * turn to `tell`. */
static void endless_main(uint32_t turn, int tell)
{
    struct vp_ckpt_writer *writer = NULL;
    struct vp_err err;

    fault_start(FAULT_NONE, 0, 0);
    fault.syncing = getenv("VP_FULL") != NULL;
    if (vp_ckpt_writer_create(store(), NULL, KEEP, state_items, N_ITEMS,
                              &writer, &err) != VP_OK)
        leave(1);
    for (;; turn++) {
        if (save_state(writer, turn, turn, -(double)turn, &err) != VP_OK ||
            write(tell, &turn, sizeof(turn)) != sizeof(turn))
            leave(1);
    }
}

/* Starts a child that saves from turn `from` on, waits for `n_wait` finished
 * turns and `delay_us`, then kills it. Returns the last turn that it reported,
 * 0 for none. */
static uint32_t kill_child(uint32_t from, uint32_t n_wait, uint32_t delay_us)
{
    uint32_t done = 0, told;
    int ends[2], status;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        endless_main(from, ends[1]);
    close(ends[1]);
    for (uint32_t i = 0; i < n_wait; i++)
        assert_int_equal(read(ends[0], &done, sizeof(done)), sizeof(done));
    usleep(delay_us);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    while (read(ends[0], &told, sizeof(told)) == sizeof(told))
        done = told;
    close(ends[0]);
    return done;
}

static void killed_at_any_moment(void **state)
{
    bool full = getenv("VP_FULL") != NULL;
    uint32_t n_kills = full ? 1000 : 30, turn = 0, n_lost = 0;

    (void)state;
    vp_ckpt_writer_free(open_writer(KEEP));
    for (uint32_t i = 0; i < n_kills; i++) {
        struct vp_rng4 r = vp_rng(5, VP_RNG_TEST, 0, i, 0, 0);
        uint32_t done = kill_child(turn + 1, vp_rng_below(r.v[0], 3),
                                   vp_rng_below(r.v[1], full ? 30000 : 3000));
        uint32_t found = newest_turn();
        char names[256];

        if (done == 0)
            done = turn;
        assert_in_range(found, done, done + 1);
        check_all();
        turn = found;
        list_folder(store(), names, sizeof(names));
        n_lost += strstr(names, ".tmp") || strstr(names, ".trash");
    }
    print_message("%u kills, %u in the middle of a save, %u checkpoints\n",
                  n_kills, n_lost, turn);
    fault_start(FAULT_NONE, 0, 0);
    vp_ckpt_writer_free(open_writer(KEEP));
    assert_int_equal(newest_turn(), turn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(stopped_at_every_call),
        TEST_IN_FOLDER(power_lost_at_every_call),
        TEST_IN_FOLDER(any_call_may_fail),
        TEST_IN_FOLDER(any_call_may_find_the_disk_full),
        TEST_IN_FOLDER(the_disk_may_fail_for_good),
        TEST_IN_FOLDER(calls_may_be_cut_short),
        TEST_IN_FOLDER(errors_are_told_once),
        TEST_IN_FOLDER(saving_again_may_fail),
        TEST_IN_FOLDER(killed_at_any_moment),
    };

    return cmocka_run_group_tests_name("ckpt_crash", tests, NULL, NULL);
}
