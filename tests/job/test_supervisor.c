/* A supervisor receives heartbeats of real processes, and names those that
 * died, stopped or failed. Unauthenticated connections cannot disturb it. */
#include "base/machine.h"
#include "job/address.h"
#include "job/blackbox_file.h"
#include "job/dial.h"
#include "job/heartbeat.h"
#include "job/supervisor.h"

#include "base/blocking.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N_RANKS = 3, WATCHDOG = 4 };
enum { UNHEARD = 3 }; /* exit status of a rank without an acknowledgement */

/* ---- Processes in the role of ranks ------------------------------------- */

enum conduct {
    BEATS,      /* sends heartbeats until it is asked to stop */
    FINISHES,   /* its final message is 'done' */
    FAILS,      /* its final message is an error */
    NEVER_ENDS, /* sends heartbeats, ignores requests to stop */
    HANGS,      /* in a file call before its first step */
    WAITS,      /* in the same phase, for other ranks */
};

static atomic_bool asked;

static void on_stop(void *ctx)
{
    (void)ctx;
    atomic_store(&asked, true);
}

static void on_end(void *ctx, const char *why)
{
    (void)ctx;
    (void)why;
    _exit(1);
}

static void pause_ms(int ms)
{
    struct timespec pause = { .tv_sec = ms / 1000,
                              .tv_nsec = ms % 1000 * 1000000L };

    nanosleep(&pause, NULL);
}

static void be_rank(const char *address, const char *folder, int rank,
                    enum conduct conduct)
{
    struct vp_heartbeat_config config = {
        .address = address,
        .rank = rank,
        .n_ranks = N_RANKS,
        .watchdog_seconds = WATCHDOG,
        .on_stop = on_stop,
        .on_end = on_end,
    };
    struct vp_action action = { .kind = VP_ACTION_B, .stage = rank, .peer = 0 };
    struct vp_heartbeat *heartbeat;
    struct vp_err err;
    struct vp_blackbox *blackbox = vp_blackbox_map();
    bool heard;

    if (vp_heartbeat_start(&config, &heartbeat, &err) != VP_OK ||
        vp_blackbox_file_keep(blackbox, folder, rank, &err) != VP_OK) {
        fprintf(stderr, "%s\n", err.text);
        _exit(2);
    }
    vp_heartbeat_show(heartbeat, blackbox);
    if (conduct == HANGS || conduct == WAITS) {
        vp_job_phase_set(VP_JOB_PHASE_DATA, "/data");
        vp_blocking_begin(conduct == HANGS ? VP_BLOCKING_FILE
                                           : VP_BLOCKING_PEERS,
                          "opening", "/data/x", -1);
        for (;;)
            pause_ms(1000);
    }
    vp_heartbeat_set_folder(heartbeat, folder);
    vp_job_phase_set(VP_JOB_PHASE_TRAIN, NULL);
    for (int mb = 0; mb < 10 || conduct == BEATS || conduct == NEVER_ENDS;
         mb++) {
        vp_blackbox_begin(blackbox, &action, mb, false, vp_clock_ns());
        pause_ms(20);
        vp_blackbox_end(blackbox);
        if (atomic_load(&asked) && conduct == BEATS)
            break;
    }
    if (conduct == FAILS)
        heard = vp_heartbeat_report_end(heartbeat, VP_WORD_FAILED,
                                        VP_ERR_NONFINITE, "loss is NaN");
    else
        heard = vp_heartbeat_report_end(
            heartbeat, conduct == BEATS ? VP_WORD_INTERRUPTED : VP_WORD_DONE,
            VP_OK, NULL);
    vp_heartbeat_free(heartbeat);
    _exit(heard ? 0 : UNHEARD);
}

/* Forks a child that is killed when this process ends. */
static pid_t start_child(void)
{
    pid_t pid = fork();

    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    return pid;
}

/* ---- One job ------------------------------------------------------------ */

struct job {
    struct vp_supervisor *supervisor;
    char folder[64];
    pid_t pids[N_RANKS];
};

/* Test state for tests that run with both kinds of sockets: `tcp`, or NULL for
 * a local socket. */
static char tcp[] = "TCP";

static void open_job(struct job *job, bool by_tcp)
{
    struct vp_supervisor_config config = { .n_ranks = N_RANKS,
                                           .watchdog_seconds = WATCHDOG,
                                           .local = true,
                                           .contained = by_tcp };
    struct vp_err err = { .text = "" };

    *job = (struct job){ .supervisor = NULL };
    snprintf(job->folder, sizeof(job->folder), "/tmp/vp-supervisor-XXXXXX");
    assert_non_null(mkdtemp(job->folder));
    assert_int_equal(vp_supervisor_open(&config, &job->supervisor, &err),
                     VP_OK);
}

static void start_ranks(struct job *job, const enum conduct *conduct)
{
    for (int r = 0; r < N_RANKS; r++) {
        job->pids[r] = start_child();
        if (job->pids[r] == 0)
            be_rank(vp_supervisor_address(job->supervisor), job->folder, r,
                    conduct[r]);
    }
}

static void start_job(struct job *job, const enum conduct *conduct)
{
    open_job(job, false);
    start_ranks(job, conduct);
}

static void listen_a_while(struct job *job, int ms)
{
    assert_int_equal(vp_supervisor_listen(job->supervisor, ms),
                     VP_OUTCOME_NONE);
}

static void until_all_came(struct job *job)
{
    for (int i = 0; i < 100; i++) {
        listen_a_while(job, 50);
        if (vp_supervisor_n_connected(job->supervisor) == N_RANKS)
            break;
    }
    listen_a_while(job, 500);
}

static void end_job(struct job *job)
{
    char path[128];

    assert_int_equal(vp_supervisor_end(job->supervisor, 4000), 0);
    vp_supervisor_close(job->supervisor);
    for (int r = 0; r < N_RANKS; r++) {
        int status;

        if (job->pids[r] > 0)
            assert_int_equal(waitpid(job->pids[r], &status, 0), job->pids[r]);
        snprintf(path, sizeof(path), "%s/actions.%d", job->folder, r);
        unlink(path);
    }
    assert_int_equal(rmdir(job->folder), 0);
}

/* Waits until all ranks have exited with status `want`. */
static void check_exits(struct job *job, int want)
{
    for (int r = 0; r < N_RANKS; r++) {
        int status = 0;

        assert_int_equal(waitpid(job->pids[r], &status, 0), job->pids[r]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), want);
        job->pids[r] = 0;
    }
}

static void check_report(struct job *job, int signal, const char *begin,
                         const char *inside)
{
    struct vp_err err;

    vp_supervisor_report(job->supervisor, signal, &err);
    if (strncmp(err.text, begin, strlen(begin)) != 0 ||
        !strstr(err.text, inside))
        fail_msg("not '%s' and '%s':\n%s", begin, inside, err.text);
}

static const enum conduct all_beat[N_RANKS] = { BEATS, BEATS, BEATS };

/* ---- Frozen jobs -------------------------------------------------------- */

/* Runs a supervisor and its ranks as a separate job. Writes to `ready` when all
 * ranks send heartbeats, asks them to stop two seconds later, and exits with
 * status 0 if they did. */
static void be_job(int ready)
{
    struct vp_err err = { .text = "" };
    struct job job;
    enum vp_outcome outcome = VP_OUTCOME_NONE;

    start_job(&job, all_beat);
    until_all_came(&job);
    if (write(ready, "r", 1) != 1)
        _exit(2);
    for (int i = 0; i < 20 && outcome == VP_OUTCOME_NONE; i++)
        outcome = vp_supervisor_listen(job.supervisor, 100);
    vp_supervisor_stop(job.supervisor);
    if (outcome == VP_OUTCOME_NONE)
        outcome = vp_supervisor_listen(job.supervisor, 5000);
    if (outcome == VP_OUTCOME_FAILED)
        vp_supervisor_report(job.supervisor, 0, &err);
    if (outcome != VP_OUTCOME_INTERRUPTED)
        fprintf(stderr, "outcome %d: %s\n", outcome, err.text);
    end_job(&job);
    _exit(outcome == VP_OUTCOME_INTERRUPTED ? 0 : 1);
}

/* Starts a job in a new process group. Returns the pid of its supervisor. */
static pid_t start_job_apart(void)
{
    int ready[2], byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        close(ready[0]);
        be_job(ready[1]);
    }
    setpgid(pid, pid);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void check_job(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Jobs go on after SIGSTOP and SIGCONT, even if they were stopped for longer
 * than the watchdog and the ranks' limit without a supervisor. One job is
 * stopped completely, of another one only the supervisor. */
static void test_frozen_jobs_go_on(void **state)
{
    pid_t job = start_job_apart(), supervisor = start_job_apart();

    (void)state;
    kill(-job, SIGSTOP);
    kill(supervisor, SIGSTOP);
    pause_ms((WATCHDOG + 4) * 1000);
    kill(-job, SIGCONT);
    kill(supervisor, SIGCONT);
    check_job(job);
    check_job(supervisor);
}

/* ---- Tests -------------------------------------------------------------- */

static void test_all_end_well(void **state)
{
    static const enum conduct conduct[] = { FINISHES, FINISHES, FINISHES };
    struct job job;

    (void)state;
    start_job(&job, conduct);
    assert_int_equal(vp_supervisor_listen(job.supervisor, 10000),
                     VP_OUTCOME_DONE);
    check_exits(&job, 0);
    end_job(&job);
}

/* The supervisor asks the ranks to stop and then reads nothing more: each rank
 * notices that its final message was not acknowledged. */
static void test_a_lost_last_message_is_noticed(void **state)
{
    struct job job;

    (void)state;
    start_job(&job, all_beat);
    until_all_came(&job);
    vp_supervisor_stop(job.supervisor);
    check_exits(&job, UNHEARD);
    end_job(&job);
}

static void test_a_killed_rank_is_named(void **state)
{
    struct vp_blackbox blackbox;
    struct job job;

    (void)state;
    start_job(&job, all_beat);
    until_all_came(&job);
    kill(job.pids[1], SIGKILL);
    assert_int_equal(vp_supervisor_listen(job.supervisor, 2000),
                     VP_OUTCOME_FAILED);
    check_report(&job, SIGKILL, "rank 1 on host ",
                 " is dead: ended by signal 9 (Killed); last seen in 1B");
    check_report(&job, SIGKILL, "rank 1 on host ", "; before that 1B");
    assert_true(vp_blackbox_file_read(job.folder, 1, &blackbox));
    assert_true(vp_blackbox_read(&blackbox).n_actions > 10);
    end_job(&job);
}

static void test_a_stopped_rank_is_named(void **state)
{
    int64_t start;
    struct job job;

    (void)state;
    start_job(&job, all_beat);
    until_all_came(&job);
    start = vp_clock_ns();
    kill(job.pids[0], SIGSTOP);
    assert_int_equal(vp_supervisor_listen(job.supervisor, WATCHDOG * 1000),
                     VP_OUTCOME_FAILED);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < WATCHDOG);
    check_report(&job, 0, "rank 0 on host ", " is stopped: no heartbeat");
    end_job(&job); /* also ends a stopped process */
}

static void test_a_rank_that_hangs_at_the_start_is_named(void **state)
{
    static const enum conduct conduct[] = { WAITS, HANGS, WAITS };
    struct job job;

    (void)state;
    setenv(VP_JOB_PHASE_VARIABLE, "1", 1); /* then WATCHDOG is the limit */
    start_job(&job, conduct);
    until_all_came(&job);
    assert_int_equal(vp_supervisor_listen(job.supervisor, WATCHDOG * 2000),
                     VP_OUTCOME_FAILED);
    check_report(&job, 0, "rank 1 on host ", " is stuck: opening /data/x for ");
    check_report(&job, 0, "rank 1 on host ", "; last seen in reading data\n");
    check_report(&job, 0, "rank 1 on host ",
                 ": reading data, /data, waits for other ranks for ");
    unsetenv(VP_JOB_PHASE_VARIABLE);
    end_job(&job);
}

static void test_the_first_error_is_named(void **state)
{
    static const enum conduct conduct[] = { BEATS, BEATS, FAILS };
    struct vp_err err;
    struct job job;

    (void)state;
    start_job(&job, conduct);
    assert_int_equal(vp_supervisor_listen(job.supervisor, 10000),
                     VP_OUTCOME_FAILED);
    check_report(&job, 0, "rank 2 on host ", " failed: loss is NaN");
    vp_supervisor_report(job.supervisor, 0, &err);
    assert_string_equal(strrchr(err.text, ':'), ": loss is NaN");
    assert_false(
        vp_diagnosis_allows_restart(vp_supervisor_diagnosis(job.supervisor)));
    end_job(&job);
}

static void test_all_are_asked_to_stop(void **state)
{
    struct job job;

    (void)state;
    start_job(&job, all_beat);
    until_all_came(&job);
    vp_supervisor_stop(job.supervisor);
    assert_int_equal(vp_supervisor_listen(job.supervisor, 5000),
                     VP_OUTCOME_INTERRUPTED);
    end_job(&job);
}

static void test_nobody_outlives_the_supervisor(void **state)
{
    static const enum conduct conduct[] = { NEVER_ENDS, NEVER_ENDS,
                                            NEVER_ENDS };
    struct job job;
    int64_t start;

    (void)state;
    start_job(&job, conduct);
    until_all_came(&job);
    vp_supervisor_close(job.supervisor); /* as if it had been killed */
    start = vp_clock_ns();
    for (int r = 0; r < N_RANKS; r++) {
        int status;

        assert_int_equal(waitpid(job.pids[r], &status, 0), job.pids[r]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        job.pids[r] = 0;
    }
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 10.0);
    for (int r = 0; r < N_RANKS; r++) {
        char path[128];

        snprintf(path, sizeof(path), "%s/actions.%d", job.folder, r);
        unlink(path);
    }
    rmdir(job.folder);
}

/* ---- Connections without the token -------------------------------------- */

/* Connects without a handshake. */
static int connect_as_stranger(const char *text)
{
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    struct sockaddr_in at = { .sin_family = AF_INET };
    struct vp_address address;
    int fd;

    assert_true(vp_address_parse(text, &address));
    if (address.path[0]) {
        memcpy(local.sun_path, address.path, sizeof(local.sun_path));
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&local, sizeof(local)),
                         0);
        return fd;
    }
    at.sin_port = htons((uint16_t)address.port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

/* Reads all available bytes. Returns true if the supervisor has closed the
 * connection. */
static bool is_closed(int fd)
{
    char text[256];
    ssize_t n;

    do
        n = recv(fd, text, sizeof(text), MSG_DONTWAIT);
    while (n > 0);
    return n == 0 || errno == ECONNRESET;
}

/* A connection without a valid proof is closed, and no rank is affected. */
static void test_strangers_are_sent_away(void **state)
{
#define ZEROS "00000000000000000000000000000000"
    static const char *const lines[] = {
        "hello " ZEROS " " ZEROS ZEROS " 1 3 4711 m h\n",
        "word failed 2 by me\n",
        "GET / HTTP/1.1\r\n\r\n",
    };
    char noise[4096];
    struct job job;

    open_job(&job, *state == tcp);
    memset(noise, 'x', sizeof(noise));
    for (int come = 0; come < 2; come++) { /* without ranks, with ranks */
        for (size_t i = 0; i <= VP_COUNT_OF(lines); i++) {
            int fd = connect_as_stranger(vp_supervisor_address(job.supervisor));

            if (i < VP_COUNT_OF(lines))
                assert_true(send(fd, lines[i], strlen(lines[i]), MSG_NOSIGNAL) >
                            0);
            else
                assert_true(send(fd, noise, sizeof(noise), MSG_NOSIGNAL) > 0);
            listen_a_while(&job, 120);
            assert_true(is_closed(fd));
            close(fd);
        }
        assert_int_equal(vp_supervisor_n_came(job.supervisor),
                         come ? N_RANKS : 0);
        if (come == 0) {
            start_ranks(&job, all_beat);
            until_all_came(&job);
        }
    }
    assert_int_equal(vp_supervisor_n_connected(job.supervisor), N_RANKS);
    end_job(&job);
}

/* Opens idle connections until it is killed, and keeps the last `n_kept` of
 * them open. */
static void flood(const char *address, int n_kept)
{
    int *kept = calloc((size_t)n_kept, sizeof(*kept));

    for (int i = 0;; i++) {
        if (i >= n_kept)
            close(kept[i % n_kept]);
        kept[i % n_kept] = connect_as_stranger(address);
        if (i > n_kept)
            pause_ms(1);
    }
}

/* Ranks can connect although idle connections occupy all places for connections
 * without a handshake. */
static void test_a_flood_keeps_no_rank_out(void **state)
{
    struct job job;
    pid_t pid;

    open_job(&job, *state == tcp);
    pid = start_child();
    if (pid == 0)
        flood(vp_supervisor_address(job.supervisor), N_RANKS + 500);
    listen_a_while(&job, 1000); /* until all places are occupied */
    start_ranks(&job, all_beat);
    until_all_came(&job);
    assert_int_equal(vp_supervisor_n_connected(job.supervisor), N_RANKS);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    vp_supervisor_stop(job.supervisor);
    assert_int_equal(vp_supervisor_listen(job.supervisor, 5000),
                     VP_OUTCOME_INTERRUPTED);
    end_job(&job);
}

/* ---- Which processes are killed ----------------------------------------- */

/* A rank that sends the pid of another process, and reads nothing. */
static void be_liar(const char *address, int pid)
{
    struct vp_hello hello = { .rank = 0, .n_ranks = N_RANKS, .pid = pid };
    struct vp_err err;
    int fd;

    vp_machine_id(hello.machine, sizeof(hello.machine));
    snprintf(hello.host, sizeof(hello.host), "h");
    if (vp_dial(address, &hello, 5000, &fd, &err) != VP_OK ||
        send(fd, "beat start 0 0\n", 15, 0) != 15)
        _exit(2);
    for (;;)
        pause_ms(1000);
}

/* The supervisor kills only a process that is the peer of a connection. */
static void test_a_forged_pid_is_not_killed(void **state)
{
    struct job job;
    pid_t victim;
    int status;

    open_job(&job, *state == tcp);
    victim = start_child();
    if (victim == 0)
        for (;;)
            pause_ms(1000);
    job.pids[0] = start_child();
    if (job.pids[0] == 0)
        be_liar(vp_supervisor_address(job.supervisor), victim);
    for (int i = 0; i < 100; i++) {
        listen_a_while(&job, 50);
        if (vp_supervisor_n_connected(job.supervisor) == 1)
            break;
    }
    vp_supervisor_end(job.supervisor, 1000);
    pause_ms(100);
    assert_int_equal(waitpid(victim, &status, WNOHANG), 0);
    if (*state != tcp) /* a local socket gives the peer's real pid */
        assert_int_equal(vp_supervisor_n_connected(job.supervisor), 0);
    kill(victim, SIGKILL);
    kill(job.pids[0], SIGKILL);
    assert_int_equal(waitpid(victim, &status, 0), victim);
    end_job(&job);
}

/* Over TCP the supervisor kills a stopped rank that sent its real pid. */
static void test_a_stopped_rank_is_killed_by_tcp(void **state)
{
    struct job job;
    int status;

    (void)state;
    open_job(&job, true);
    start_ranks(&job, all_beat);
    until_all_came(&job);
    kill(job.pids[0], SIGSTOP);
    assert_int_equal(waitpid(job.pids[0], &status, WUNTRACED), job.pids[0]);
    assert_true(WIFSTOPPED(status)); /* it cannot exit by itself any more */
    assert_int_equal(vp_supervisor_end(job.supervisor, 4000), 0);
    assert_int_equal(waitpid(job.pids[0], &status, 0), job.pids[0]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    job.pids[0] = 0;
    end_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_end_well),
        cmocka_unit_test(test_a_lost_last_message_is_noticed),
        cmocka_unit_test(test_a_killed_rank_is_named),
        cmocka_unit_test(test_a_stopped_rank_is_named),
        cmocka_unit_test(test_a_rank_that_hangs_at_the_start_is_named),
        cmocka_unit_test(test_the_first_error_is_named),
        cmocka_unit_test(test_all_are_asked_to_stop),
        cmocka_unit_test(test_nobody_outlives_the_supervisor),
        cmocka_unit_test(test_frozen_jobs_go_on),
        cmocka_unit_test(test_strangers_are_sent_away),
        cmocka_unit_test_prestate(test_strangers_are_sent_away, tcp),
        cmocka_unit_test(test_a_flood_keeps_no_rank_out),
        cmocka_unit_test_prestate(test_a_flood_keeps_no_rank_out, tcp),
        cmocka_unit_test(test_a_forged_pid_is_not_killed),
        cmocka_unit_test_prestate(test_a_forged_pid_is_not_killed, tcp),
        cmocka_unit_test(test_a_stopped_rank_is_killed_by_tcp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
