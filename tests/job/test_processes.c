/* Child processes report their status and output, and no process is left after
 * their group was ended. */
#include "job/process.h"
#include "job/relay.h"
#include "lib/tempfolder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Processes ---------------------------------------------------------- */

static void pause_ms(long ms)
{
    struct timespec pause = { .tv_nsec = ms * 1000000 };

    nanosleep(&pause, NULL);
}

static bool is_alive(pid_t pid)
{
    return kill(pid, 0) == 0;
}

static pid_t read_pid(const char *path)
{
    for (int i = 0; i < 200; i++) {
        FILE *f = fopen(path, "r");
        int pid = 0;

        if (f && fscanf(f, "%d\n", &pid) == 1) {
            fclose(f);
            return pid;
        }
        if (f)
            fclose(f);
        pause_ms(20);
    }
    fail_msg("no %s", path);
    return 0;
}

static void test_a_missing_program(void **state)
{
    char *argv[] = { "no-such-program", NULL };
    struct vp_process process;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_process_start(argv, -1, -1, &process, &err),
                     VP_ERR_UNSUPPORTED);
    assert_string_equal(err.text, "no-such-program: cannot be started (No such "
                                  "file or directory)");
    vp_process_end(&process, 100);
}

static void test_an_output(void **state)
{
    char *argv[] = { "/bin/sh", "-c", "echo abc; echo def; exit 7", NULL };
    char *silent[] = { "/bin/sh", "-c", "/bin/sleep 60", NULL };
    char *missing[] = { "no-such-program", NULL };
    struct vp_err err = { .text = "" };
    char text[8];

    (void)state;
    assert_int_equal(vp_process_output(argv, 5000, text, sizeof(text), &err),
                     VP_OK);
    assert_string_equal(text, "abc\ndef");
    assert_int_equal(vp_process_output(silent, 100, text, sizeof(text), &err),
                     VP_OK);
    assert_string_equal(text, "");
    assert_int_equal(vp_process_output(missing, 100, text, sizeof(text), &err),
                     VP_ERR_UNSUPPORTED);
}

static void test_a_status(void **state)
{
    char *argv[] = { "/bin/sh", "-c", "exit 7", NULL };
    struct vp_process process;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_process_start(argv, -1, -1, &process, &err), VP_OK);
    for (int i = 0; i < 200 && !vp_process_has_ended(&process); i++)
        pause_ms(10);
    assert_true(process.ended && WIFEXITED(process.status));
    assert_int_equal(WEXITSTATUS(process.status), 7);
}

/* Waits up to 5 s until the process is ready (`want`) or not. Returns true if
 * it is. */
static bool becomes_ready(const struct vp_process *process, bool want)
{
    for (int i = 0; i < 500; i++) {
        if (vp_process_is_ready(process->pid) == want)
            return true;
        pause_ms(10);
    }
    return false;
}

static void test_stopped_and_ready_are_told_apart(void **state)
{
    char *argv[] = { "sh", "-c", "while :; do :; done", NULL };
    struct vp_process process;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_process_start(argv, -1, -1, &process, &err), VP_OK);
    assert_true(becomes_ready(&process, true));
    kill(process.pid, SIGSTOP);
    assert_true(becomes_ready(&process, false));
    kill(process.pid, SIGCONT);
    assert_true(becomes_ready(&process, true));
    vp_process_end(&process, 2000);
    assert_false(vp_process_is_ready(process.pid));
}

/* vp_process_end() and vp_process_end_orphans() end all descendants, also one
 * that left the process group and one that ignores SIGTERM. */
static void test_nothing_is_left(void **state)
{
    char *argv[] = { "/bin/sh", "-c",
                     "trap '' TERM; echo $$ >p0; /bin/sleep 60 & echo $! >p1; "
                     "/usr/bin/setsid /bin/sleep 60 & echo $! >p2; wait",
                     NULL };
    struct vp_process process;
    struct vp_err err = { .text = "" };
    pid_t pids[3];

    (void)state;
    vp_process_adopt();
    assert_int_equal(vp_process_start(argv, -1, -1, &process, &err), VP_OK);
    pids[0] = read_pid("p0");
    pids[1] = read_pid("p1");
    pids[2] = read_pid("p2");
    for (int i = 0; i < 3; i++)
        assert_true(is_alive(pids[i]));
    vp_process_end(&process, 200);
    vp_process_end_orphans(2000);
    for (int i = 0; i < 3; i++)
        assert_false(is_alive(pids[i]));
}

/* ---- Output of processes ------------------------------------------------ */

/* Prints `n` lines through a relay to `path`. */
static enum vp_status print_through(const char *path, const char *n,
                                    struct vp_err *err)
{
    char script[128];
    char *argv[] = { "/bin/sh", "-c", script, NULL };
    int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    struct vp_process process;
    struct vp_relay *relay;
    enum vp_status st;

    assert_true(to >= 0);
    assert_int_equal(vp_relay_start(to, false, &relay, err), VP_OK);
    snprintf(script, sizeof(script),
             "i=0; while [ $i -lt %s ]; do i=$((i + 1)); echo line $i; done",
             n);
    assert_int_equal(
        vp_process_start(argv, vp_relay_input(relay), -1, &process, err),
        VP_OK);
    assert_true(vp_process_wait(&process, 60000));
    st = vp_relay_finish(relay, NULL, NULL, err);
    assert_int_equal(close(to), 0);
    return st;
}

/* The whole output has arrived when vp_relay_finish() returns. */
static void test_output_is_copied(void **state)
{
    struct vp_err err = { .text = "" };
    char line[64], want[64];
    int n = 0;
    FILE *f;

    (void)state;
    assert_int_equal(vp_relay_finish(NULL, NULL, NULL, &err), VP_OK);
    assert_int_equal(print_through("printed", "9999", &err), VP_OK);
    f = fopen("printed", "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        snprintf(want, sizeof(want), "line %d\n", ++n);
        assert_string_equal(line, want);
    }
    fclose(f);
    assert_int_equal(n, 9999);
}

/* An output of more bytes than a pipe holds cannot be written: the process
 * still runs to its end. */
static void test_output_that_cannot_be_written(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(print_through("/dev/full", "9999", &err), VP_ERR_IO);
    assert_string_equal(err.text, "vpipe: cannot write the output: No space "
                                  "left on device; free some space");
}

static void write_to(struct vp_relay *relay, const char *text)
{
    ssize_t n = (ssize_t)strlen(text);

    assert_int_equal(write(vp_relay_input(relay), text, (size_t)n), n);
    pause_ms(100);
}

static void check_text(const char *path, const char *want)
{
    char text[256] = "";
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(text, want);
}

/* Output that is held back is written first after vp_relay_release(). Without a
 * release the caller gets it from vp_relay_finish(). */
static void test_output_that_is_held(void **state)
{
    static char much[3 * VP_RELAY_HELD];
    char held[VP_RELAY_HELD];
    struct vp_relay *relay;
    struct vp_err err = { .text = "" };
    int to = open("held", O_WRONLY | O_CREAT | O_TRUNC, 0666);

    (void)state;
    assert_int_equal(vp_relay_start(to, true, &relay, &err), VP_OK);
    write_to(relay, "one\n");
    check_text("held", "");
    vp_relay_release(relay);
    pause_ms(100);
    check_text("held", "one\n");
    write_to(relay, "two\n");
    assert_int_equal(vp_relay_finish(relay, NULL, held, &err), VP_OK);
    check_text("held", "one\ntwo\n");
    assert_string_equal(held, "");

    assert_int_equal(vp_relay_start(to, true, &relay, &err), VP_OK);
    write_to(relay, "three\n");
    assert_int_equal(vp_relay_finish(relay, NULL, held, &err), VP_OK);
    assert_string_equal(held, "three\n");

    memset(much, 'x', sizeof(much) - 1);
    assert_int_equal(vp_relay_start(to, true, &relay, &err), VP_OK);
    write_to(relay, much);
    assert_int_equal(vp_relay_finish(relay, NULL, held, &err), VP_OK);
    assert_int_equal(strlen(held), VP_RELAY_HELD - 1);
    check_text("held", "one\ntwo\n");
    close(to);
}

/* A reader that has closed its end is VP_ERR_END, not a write error. */
static void test_output_whose_reader_has_gone(void **state)
{
    struct vp_relay *relay;
    struct vp_err err = { .text = "" };
    int ends[2];

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(vp_relay_start(ends[1], false, &relay, &err), VP_OK);
    write_to(relay, "unread\n");
    assert_int_equal(vp_relay_finish(relay, NULL, NULL, &err), VP_ERR_END);
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL);
}

/* stdout and stderr of a process can go to different files. */
static void test_both_outputs(void **state)
{
    char *argv[] = { "/bin/sh", "-c", "echo out; echo err >&2", NULL };
    int out = open("stdout", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int errors = open("stderr", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    struct vp_process process;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_process_start(argv, out, errors, &process, &err),
                     VP_OK);
    assert_true(vp_process_wait(&process, 60000));
    check_text("stdout", "out\n");
    check_text("stderr", "err\n");
    close(out);
    close(errors);
}

/* A reader that starts late gets all bytes, also those in the pipe at the
 * end. */
static void test_output_that_is_read_late(void **state)
{
    enum { MUCH = 100 * 1024 }; /* a pipe holds 64 KiB */
    static char much[MUCH];
    char *argv[] = { "/bin/sh", "-c", "sleep 0.3; exec cat <&9 >late", NULL };
    struct vp_process reader;
    struct vp_relay *relay;
    struct vp_err err = { .text = "" };
    struct stat info;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(vp_relay_start(ends[1], false, &relay, &err), VP_OK);
    assert_int_equal(write(vp_relay_input(relay), much, MUCH), MUCH);
    assert_int_equal(fcntl(ends[1], F_SETFD, FD_CLOEXEC), 0);
    assert_int_equal(dup2(ends[0], 9), 9);
    assert_int_equal(vp_process_start(argv, -1, -1, &reader, &err), VP_OK);
    assert_int_equal(vp_relay_finish(relay, NULL, NULL, &err), VP_OK);
    close(ends[1]);
    assert_true(vp_process_wait(&reader, 60000));
    close(9);
    close(ends[0]);
    assert_int_equal(stat("late", &info), 0);
    assert_int_equal(info.st_size, MUCH);
}

/* vp_relay_finish() waits for a reader that reads nothing until the second
 * signal has come. */
static void test_output_that_is_not_read(void **state)
{
    static char much[256 * 1024];
    volatile sig_atomic_t stop = 2;
    struct vp_relay *relay;
    struct vp_err err = { .text = "" };
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(vp_relay_start(ends[1], false, &relay, &err), VP_OK);
    assert_int_equal(
        fcntl(vp_relay_input(relay), F_SETFL, O_WRONLY | O_NONBLOCK), 0);
    for (int i = 0; i < 100; i++) { /* until both pipes are full */
        (void)!write(vp_relay_input(relay), much, sizeof(much));
        pause_ms(2);
    }
    assert_int_equal(vp_relay_finish(relay, &stop, NULL, &err), VP_ERR_IO);
    assert_string_equal(err.text, "vpipe: the output was not read to its end; "
                                  "send it to a file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_missing_program),
        cmocka_unit_test(test_an_output),
        cmocka_unit_test(test_a_status),
        cmocka_unit_test(test_stopped_and_ready_are_told_apart),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_output_is_copied),
        cmocka_unit_test(test_output_that_cannot_be_written),
        cmocka_unit_test(test_output_that_is_held),
        cmocka_unit_test(test_output_whose_reader_has_gone),
        cmocka_unit_test(test_both_outputs),
        cmocka_unit_test(test_output_that_is_read_late),
        cmocka_unit_test(test_output_that_is_not_read),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
