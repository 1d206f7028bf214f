/* The file actions.<rank> can be read after its rank was killed, and a damaged
 * file does not harm the rank. */
#include "job/blackbox_file.h"

#include "base/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/vpipe_blackbox_XXXXXX";
static char path[128]; /* the file of rank 3 */

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof(path), "%s/actions.3", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void pause_ms(int ms)
{
    struct timespec pause = { .tv_sec = ms / 1000,
                              .tv_nsec = ms % 1000 * 1000000L };

    nanosleep(&pause, NULL);
}

/* ---- Children ----------------------------------------------------------- */

/* Opens the file of rank 3 for a new blackbox; exits on an error. (run_child()
 * resets SIGBUS, for which sanitizers install handlers.) */
static struct vp_blackbox *keep(void)
{
    struct vp_blackbox *blackbox = vp_blackbox_map();
    struct vp_err err = { .text = "" };

    if (!blackbox ||
        vp_blackbox_file_keep(blackbox, folder, 3, &err) != VP_OK) {
        fprintf(stderr, "%s\n", err.text);
        _exit(99);
    }
    return blackbox;
}

static void act(struct vp_blackbox *blackbox, int mb)
{
    const struct vp_action action = { .kind = VP_ACTION_B, .peer = 1 };

    vp_blackbox_begin(blackbox, &action, mb, false, vp_clock_ns());
    vp_blackbox_end(blackbox);
}

static int wait_for(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Returns the exit status of a child that runs `fn`, or minus the signal that
 * ended it. */
static int run_child(int (*fn)(void))
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGBUS, SIG_DFL);
        alarm(60);
        _exit(fn());
    }
    return wait_for(pid);
}

/* ---- Tests -------------------------------------------------------------- */

/* After SIGKILL the file holds the rank's last actions, to the last one; no
 * call was needed to write them. */
static void a_killed_rank_leaves_its_actions(void **state)
{
    struct vp_action action;
    struct vp_blackbox blackbox;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        struct vp_blackbox *mine = keep();

        for (int mb = 0; mb < 1000; mb++)
            act(mine, mb);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(wait_for(pid), -SIGKILL);
    assert_true(vp_blackbox_file_read(folder, 3, &blackbox));
    assert_int_equal(vp_blackbox_read(&blackbox).n_actions, 1000);
    assert_true(vp_blackbox_last(&blackbox, 999, &action));
    assert_int_equal(action.mb, 999);
    assert_false(vp_blackbox_file_read(folder, 4, &blackbox));
}

static int act_on_truncated(void)
{
    struct vp_blackbox *blackbox = keep();
    struct vp_action action;

    act(blackbox, 0);
    if (truncate(path, 0) != 0)
        return 1;
    for (int mb = 1; mb < 100; mb++)
        act(blackbox, mb);
    if (!vp_blackbox_last(blackbox, vp_blackbox_read(blackbox).n_actions - 1,
                          &action))
        return 2;
    return action.mb == 99 ? 0 : 3;
}

static void a_truncated_file_does_not_kill(void **state)
{
    struct vp_blackbox blackbox;

    (void)state;
    assert_int_equal(run_child(act_on_truncated), 0);
    assert_false(vp_blackbox_file_read(folder, 3, &blackbox));
}

static void *look_on(void *blackbox)
{
    for (int i = 0; i < 200000; i++)
        vp_blackbox_read(blackbox);
    return NULL;
}

/* One thread writes actions and three read them while the file is truncated
 * again and again. */
static int act_and_look(void)
{
    struct vp_blackbox *blackbox = keep();
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, look_on, blackbox) != 0)
            return 1;
    for (int mb = 0; mb < 1000; mb++) {
        act(blackbox, mb);
        if (truncate(path, mb % 2 ? 0 : 3) != 0)
            return 2;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return vp_blackbox_read(blackbox).n_actions > 0 ? 0 : 3;
}

static void threads_survive_truncation_together(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(run_child(act_and_look), 0);
}

/* Maps a page behind the end of another file: an access raises SIGBUS. */
static volatile char *map_nothing(void)
{
    char name[] = "/tmp/vpipe_nothing_XXXXXX";
    int fd = mkstemp(name);

    unlink(name);
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static int touch_nothing(void)
{
    keep();
    return *map_nothing();
}

static void on_bus_error(int number)
{
    (void)number;
    _exit(42);
}

static int touch_nothing_with_a_handler(void)
{
    signal(SIGBUS, on_bus_error);
    return touch_nothing();
}

static void on_bus_error_with_address(int number, siginfo_t *info, void *ctx)
{
    (void)number;
    (void)ctx;
    _exit(info->si_addr ? 43 : 44);
}

static int touch_nothing_with_a_long_handler(void)
{
    struct sigaction action = { .sa_sigaction = on_bus_error_with_address,
                                .sa_flags = SA_SIGINFO };

    sigaction(SIGBUS, &action, NULL);
    return touch_nothing();
}

/* A SIGBUS for another mapping ends the process, or calls the handler that was
 * installed before. */
static void other_faults_are_passed_on(void **state)
{
    (void)state;
    assert_int_equal(run_child(touch_nothing), -SIGBUS);
    assert_int_equal(run_child(touch_nothing_with_a_handler), 42);
    assert_int_equal(run_child(touch_nothing_with_a_long_handler), 43);
}

/* A second rank with the same number replaces the file of a running rank and
 * does not truncate it. */
static void a_new_rank_leaves_the_file_of_an_old_one(void **state)
{
    struct stat before, after;
    struct vp_blackbox blackbox;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        struct vp_blackbox *mine;

        alarm(60);
        mine = keep();
        for (int mb = 0;; mb++)
            act(mine, mb);
    }
    for (int i = 0; i < 1000 && !(vp_blackbox_file_read(folder, 3, &blackbox) &&
                                  vp_blackbox_read(&blackbox).n_actions > 0);
         i++)
        pause_ms(5);
    assert_int_equal(stat(path, &before), 0);
    assert_non_null(keep());
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino != after.st_ino);
    kill(pid, SIGKILL);
    assert_int_equal(wait_for(pid), -SIGKILL);
    assert_true(vp_blackbox_file_read(folder, 3, &blackbox));
    assert_int_equal(vp_blackbox_read(&blackbox).n_actions, 0);
}

/* A FIFO in place of the file does not block a reader and is replaced by a
 * regular file. */
static void a_special_file_is_replaced(void **state)
{
    struct vp_blackbox blackbox;
    struct stat info;

    (void)state;
    unlink(path);
    assert_int_equal(mkfifo(path, 0666), 0);
    alarm(60);
    assert_false(vp_blackbox_file_read(folder, 3, &blackbox));
    assert_non_null(keep());
    alarm(0);
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISREG(info.st_mode));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_leaves_its_actions),
        cmocka_unit_test(a_truncated_file_does_not_kill),
        cmocka_unit_test(threads_survive_truncation_together),
        cmocka_unit_test(other_faults_are_passed_on),
        cmocka_unit_test(a_new_rank_leaves_the_file_of_an_old_one),
        cmocka_unit_test(a_special_file_is_replaced),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
