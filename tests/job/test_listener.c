/* Connections between ranks and supervisor need the right handshake: wrong,
 * replayed and unfinished ones are refused. Sockets are in private folders. */
#include "job/address.h"
#include "job/dial.h"
#include "job/handshake.h"
#include "job/listener.h"
#include "job/peer.h"
#include "job/scratch.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N_RANKS = 3, LIMIT_MS = 10000 };

/* Test state for tests that run with both kinds of sockets: `tcp`, or NULL for
 * a local socket. */
static char tcp[] = "TCP";

static void pause_ms(int ms)
{
    struct timespec pause = { .tv_sec = ms / 1000,
                              .tv_nsec = ms % 1000 * 1000000L };

    nanosleep(&pause, NULL);
}

static struct vp_listener *open_listener(bool by_tcp)
{
    const struct vp_listener_config config = { .n_ranks = N_RANKS,
                                               .local = true,
                                               .contained = by_tcp };
    struct vp_listener *listener;
    struct vp_err err = { .text = "" };

    if (vp_listener_open(&config, &listener, &err) != VP_OK)
        fail_msg("%s", err.text);
    return listener;
}

static struct vp_address address_of(const struct vp_listener *listener)
{
    struct vp_address address;

    assert_true(vp_address_parse(vp_listener_address(listener), &address));
    return address;
}

static struct vp_hello hello_of(int rank)
{
    return (struct vp_hello){ .rank = rank,
                              .n_ranks = N_RANKS,
                              .pid = (int)getpid(),
                              .machine = "m",
                              .host = "h" };
}

/* Serves until a rank has completed the handshake; returns its connection, or
 * -1 if none has within `ms`. */
static int take(struct vp_listener *listener, int ms, struct vp_hello *hello)
{
    int64_t end = vp_clock_ns() + ms * INT64_C(1000000);
    struct pollfd polled = { .fd = vp_listener_fd(listener), .events = POLLIN };
    int fd;

    do {
        poll(&polled, 1, 10);
        vp_listener_serve(listener);
        if (vp_listener_take(listener, &fd, hello))
            return fd;
    } while (vp_clock_ns() < end);
    return -1;
}

static void serve(struct vp_listener *listener, int ms)
{
    struct vp_hello hello;

    assert_int_equal(take(listener, ms, &hello), -1);
}

/* Takes a rank; fails if none connects in time. */
static void take_rank(struct vp_listener *listener, struct vp_hello *hello)
{
    int fd = take(listener, LIMIT_MS, hello);

    assert_true(fd >= 0);
    close(fd);
}

/* Forks a child that is killed when this process ends. */
static pid_t start_child(void)
{
    pid_t pid = fork();

    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    return pid;
}

/* A process that connects with `hello` after `wait_ms`, sends a word after the
 * handshake, and stays. It exits with status 2 if it was refused. */
static pid_t start_rank(const char *address, struct vp_hello hello, int wait_ms)
{
    pid_t pid = start_child();
    struct vp_err err;
    int fd;

    if (pid != 0)
        return pid;
    pause_ms(wait_ms);
    if (vp_dial(address, &hello, LIMIT_MS, &fd, &err) != VP_OK)
        _exit(2);
    if (send(fd, "more", 4, MSG_NOSIGNAL) != 4)
        _exit(3);
    for (;;)
        pause_ms(1000);
}

static void end_process(pid_t pid)
{
    int status;

    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status)); /* it was still running */
}

/* ---- Ranks -------------------------------------------------------------- */

/* The listener takes the pid of a local socket's peer from the kernel, not from
 * the hello. */
static void test_a_rank_comes(void **state)
{
    struct vp_listener *listener = open_listener(*state == tcp);
    struct vp_hello claimed = hello_of(1), hello;
    char more[8];
    pid_t pid;
    int fd;

    claimed.pid = 1;
    pid = start_rank(vp_listener_address(listener), claimed, 0);
    fd = take(listener, LIMIT_MS, &hello);
    assert_true(fd >= 0);
    assert_int_equal(hello.rank, 1);
    assert_int_equal(hello.n_ranks, N_RANKS);
    assert_string_equal(hello.machine, "m");
    assert_string_equal(hello.host, "h");
    assert_int_equal(hello.pid, *state == tcp ? 1 : pid);
    assert_int_equal(recv(fd, more, sizeof(more), 0), 4); /* not lost */
    assert_int_equal(vp_peer_pid(fd, 1), *state == tcp ? 0 : pid);
    assert_int_equal(vp_peer_pid(fd, getpid()), *state == tcp ? 0 : pid);
    assert_int_equal(vp_peer_pid(fd, pid), pid);
    close(fd);
    end_process(pid);
    vp_listener_close(listener);
}

/* ---- Handshakes by hand ------------------------------------------------- */

static int connect_by_hand(const struct vp_address *address)
{
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    struct sockaddr_in at = { .sin_family = AF_INET };
    int fd = socket(address->path[0] ? AF_UNIX : AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    if (address->path[0]) {
        memcpy(local.sun_path, address->path, sizeof(local.sun_path));
        assert_int_equal(connect(fd, (struct sockaddr *)&local, sizeof(local)),
                         0);
        return fd;
    }
    at.sin_port = htons((uint16_t)address->port);
    assert_int_equal(inet_pton(AF_INET, address->hosts[0], &at.sin_addr), 1);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

/* Returns the bytes that have arrived on a connection as a string; NULL if the
 * connection is closed. */
static const char *heard(struct vp_listener *listener, int fd)
{
    static char text[1024];
    ssize_t n;

    serve(listener, 60);
    n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return NULL;
    text[n < 0 ? 0 : n] = '\0';
    return text;
}

static void parse(const char *line, struct vp_message *out)
{
    char text[VP_MESSAGE_BYTES];

    assert_non_null(line);
    snprintf(text, sizeof(text), "%s", line);
    text[strcspn(text, "\n")] = '\0';
    assert_true(vp_message_parse(text, out));
}

/* Connects and reads the challenge into `nonce`. */
static int be_challenged(struct vp_listener *listener, char *nonce)
{
    struct vp_address address = address_of(listener);
    int fd = connect_by_hand(&address);
    struct vp_message challenge;

    parse(heard(listener, fd), &challenge);
    assert_int_equal(challenge.kind, VP_MESSAGE_CHALLENGE);
    memcpy(nonce, challenge.nonce, VP_NONCE_BYTES);
    return fd;
}

/* Writes the hello of rank 1 with the proof for `token`. */
static int make_hello(const char *token, const char *challenge, char *text)
{
    struct vp_message hello = { .kind = VP_MESSAGE_HELLO,
                                .hello = hello_of(1) };

    assert_true(vp_nonce_make(hello.nonce));
    vp_prove_hello(token, challenge, &hello, hello.proof);
    return vp_message_print(&hello, text);
}

static void send_text(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* All bytes of a recorded handshake are useless on the next connection. */
static void test_an_overheard_handshake(void **state)
{
    struct vp_listener *listener = open_listener(*state == tcp);
    const struct vp_address address = address_of(listener);
    char nonce[VP_NONCE_BYTES], again[VP_NONCE_BYTES], hello[VP_MESSAGE_BYTES];
    struct vp_message welcome;
    const char *text;
    int fd = be_challenged(listener, nonce), thief;

    make_hello(address.token, nonce, hello);
    assert_null(strstr(hello, address.token));
    send_text(fd, hello);
    text = heard(listener, fd);
    assert_null(strstr(text, address.token));
    parse(text, &welcome);
    assert_int_equal(welcome.kind, VP_MESSAGE_WELCOME);

    thief = be_challenged(listener, again);
    assert_string_not_equal(nonce, again);
    send_text(thief, hello);
    assert_null(heard(listener, thief));
    close(thief);
    close(fd);
    vp_listener_close(listener);
}

/* Each wrong hello closes its connection, and none is taken for a rank. */
static void test_wrong_hellos(void **state)
{
    enum { TOKEN, FIELD, TWO_LINES, NO_END, N };
    struct vp_listener *listener = open_listener(*state == tcp);
    struct vp_address address = address_of(listener);

    for (int i = 0; i < N; i++) {
        char nonce[VP_NONCE_BYTES], text[2 * VP_MESSAGE_BYTES];
        int fd = be_challenged(listener, nonce);
        int n = make_hello(address.token, nonce, text);

        if (i == TOKEN)
            n = make_hello("0123456789abcdef", nonce, text);
        if (i == FIELD) /* the proof covers the rank, which is 1 */
            text[strlen("hello ") + VP_NONCE_BYTES + VP_PROOF_BYTES] = '2';
        if (i == TWO_LINES)
            memcpy(text + n, "beat start 0 0\n", 16);
        if (i == NO_END)
            memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        send_text(fd, text);
        assert_null(heard(listener, fd));
        close(fd);
    }
    vp_listener_close(listener);
}

/* A rank that disconnects before it has acknowledged the welcome is not taken,
 * and may try again. Nor is one that stays silent. */
static void test_a_welcome_that_was_not_heard(void **state)
{
    struct vp_listener *listener = open_listener(*state == tcp);
    struct vp_address address = address_of(listener);
    char nonce[VP_NONCE_BYTES], text[VP_MESSAGE_BYTES];
    struct vp_hello hello;
    int fd;

    for (int i = 0; i < 2; i++) {
        fd = be_challenged(listener, nonce);
        make_hello(address.token, nonce, text);
        send_text(fd, text);
        assert_non_null(heard(listener, fd));
        if (i == 0)
            close(fd);
        serve(listener, 60);
    }
    send_text(fd, "beat start 0 0\n");
    take_rank(listener, &hello);
    assert_int_equal(hello.rank, 1);
    close(fd);
    vp_listener_close(listener);
}

/* ---- Idle connections --------------------------------------------------- */

/* Idle connections that stay open, more than the listener has places. They
 * are opened after a pause, so that the process of the rank is forked before
 * and inherits none of them. */
enum { N_IDLE = N_RANKS + 300, IDLE_MS = 300 };

static pid_t start_idle(const struct vp_address *address)
{
    pid_t pid = start_child();

    if (pid != 0)
        return pid;
    pause_ms(IDLE_MS);
    for (int i = 0; i < N_IDLE; i++)
        connect_by_hand(address);
    for (;;)
        pause_ms(1000);
}

/* The oldest idle connections are closed to make room, and all of them when
 * their time limit has passed. */
static void test_idle_connections(void **state)
{
    struct vp_listener *listener = open_listener(*state == tcp);
    const struct vp_address address = address_of(listener);
    char nonce[VP_NONCE_BYTES];
    struct vp_hello hello;
    pid_t idle, rank;
    int first, last;
    int64_t start;

    idle = start_idle(&address);
    rank = start_rank(vp_listener_address(listener), hello_of(0),
                      IDLE_MS + 1000);
    first = be_challenged(listener, nonce);
    serve(listener, IDLE_MS + 700);
    assert_null(heard(listener, first));
    last = be_challenged(listener, nonce);
    start = vp_clock_ns();
    take_rank(listener, &hello);
    assert_int_equal(hello.rank, 0);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 4.0);
    assert_non_null(heard(listener, last));
    while (vp_clock_seconds(start, vp_clock_ns()) < 5.2)
        serve(listener, 100);
    assert_null(heard(listener, last));
    close(first);
    close(last);
    end_process(rank);
    end_process(idle);
    vp_listener_close(listener);
}

/* A rank can connect although the listener's process has reached its limit of
 * open files. */
static void test_no_more_files(void **state)
{
    struct vp_listener *listener = open_listener(*state == tcp);
    const struct vp_address address = address_of(listener);
    struct rlimit limit, low;
    struct vp_hello hello;
    pid_t idle, rank;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = 40;
    idle = start_idle(&address);
    rank = start_rank(vp_listener_address(listener), hello_of(0),
                      IDLE_MS + 300);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    take_rank(listener, &hello);
    assert_int_equal(hello.rank, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    end_process(rank);
    end_process(idle);
    vp_listener_close(listener);
}

/* A peer with another user id is refused, even if it could enter the folder and
 * knows the token. */
static void test_another_user(void **state)
{
    struct vp_listener *listener;
    struct vp_address address;
    struct vp_scratch folder;
    int status;
    pid_t pid;

    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root\n");
        skip();
    }
    listener = open_listener(false);
    address = address_of(listener);
    assert_int_equal(chmod(address.path, 0777), 0);
    memcpy(folder.path, address.path, sizeof(folder.path));
    *strrchr(folder.path, '/') = '\0';
    assert_int_equal(chmod(folder.path, 0755), 0);
    pid = start_child();
    if (pid == 0) {
        struct vp_hello hello = hello_of(0);
        struct vp_err err;
        int fd;

        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(3);
        _exit(vp_dial(vp_listener_address(listener), &hello, 500, &fd, &err) ==
              VP_OK);
    }
    serve(listener, 1000);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    vp_listener_close(listener);
}

/* ---- False supervisors -------------------------------------------------- */

static int listen_by_hand(struct vp_address *address)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t n = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    *address = (struct vp_address){ .hosts = { "127.0.0.1" },
                                    .n_hosts = 1,
                                    .port = ntohs(at.sin_port),
                                    .token = "0123456789abcdef" };
    return fd;
}

enum conduct {
    CLOSES,
    SAYS_NONSENSE,
    GUESSES,  /* sends a wrong proof */
    REFLECTS, /* sends the rank's proof back */
    IS_RIGHT,
    N_CONDUCTS
};

/* Accepts one connection for each conduct and behaves accordingly. */
static void be_supervisor(int listener, const char *token)
{
    for (int conduct = 0; conduct < N_CONDUCTS; conduct++) {
        struct vp_message challenge = { .kind = VP_MESSAGE_CHALLENGE };
        struct vp_message hello, welcome = { .kind = VP_MESSAGE_WELCOME };
        char text[VP_MESSAGE_BYTES];
        int fd = accept(listener, NULL, NULL);
        ssize_t n;

        vp_nonce_make(challenge.nonce);
        vp_message_print(&challenge, text);
        if (conduct != CLOSES)
            send_text(fd, conduct == SAYS_NONSENSE ? "220 ready\r\n" : text);
        n = conduct == CLOSES ? 0 : recv(fd, text, sizeof(text) - 1, 0);
        if (n > 0) {
            text[n] = '\0';
            parse(text, &hello);
            memset(welcome.proof, '0', VP_PROOF_BYTES - 1);
            if (conduct == REFLECTS)
                memcpy(welcome.proof, hello.proof, VP_PROOF_BYTES);
            if (conduct == IS_RIGHT)
                vp_prove_welcome(token, challenge.nonce, &hello, welcome.proof);
            vp_message_print(&welcome, text);
            send_text(fd, text);
            recv(fd, text, 1, 0);
        }
        close(fd);
    }
}

/* The rank tries again until its peer proves that it knows the token. */
static void test_false_supervisors(void **state)
{
    const struct vp_hello hello = hello_of(0);
    struct vp_address address;
    struct vp_err err = { .text = "" };
    char text[512];
    int status, listener, fd;
    pid_t pid;

    (void)state;
    listener = listen_by_hand(&address);
    vp_address_print(&address, text, sizeof(text));
    pid = start_child();
    if (pid == 0) {
        be_supervisor(listener, address.token);
        _exit(N_CONDUCTS);
    }
    if (vp_dial(text, &hello, LIMIT_MS, &fd, &err) != VP_OK)
        fail_msg("%s", err.text);
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), N_CONDUCTS);
    close(listener);

    listener = listen_by_hand(&address);
    vp_address_print(&address, text, sizeof(text));
    assert_int_equal(vp_dial(text, &hello, 300, &fd, &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "cannot be reached (it does not answer); "
                                     "check the key 'network_interface'"));
    close(listener);
    /* Another program may get the port in between, so try up to five ports. */
    for (int i = 0; i < 5; i++) {
        listener = listen_by_hand(&address);
        vp_address_print(&address, text, sizeof(text));
        close(listener);
        assert_int_equal(vp_dial(text, &hello, 300, &fd, &err), VP_ERR_IO);
        if (strstr(err.text, "(Connection refused)"))
            return;
    }
    fail_msg("%s", err.text);
}

/* A rank does not wait for a local socket on which no process listens. */
static void test_a_supervisor_that_is_gone(void **state)
{
    struct vp_listener *listener = open_listener(false);
    const struct vp_hello hello = hello_of(0);
    int64_t start = vp_clock_ns();
    struct vp_err err = { .text = "" };
    char text[512];
    int fd;

    (void)state;
    snprintf(text, sizeof(text), "%s", vp_listener_address(listener));
    vp_listener_close(listener);
    assert_int_equal(vp_dial(text, &hello, LIMIT_MS, &fd, &err), VP_ERR_IO);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 5.0);
    assert_int_equal(vp_dial("nowhere", &hello, LIMIT_MS, &fd, &err),
                     VP_ERR_INVALID);
}

/* ---- Scratch folders ---------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static void touch(const char *folder, const char *name)
{
    char path[512];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* Makes a scratch folder as a killed job leaves it, with files, folders and
 * links in it. */
static void make_left(enum vp_scratch_place place, struct vp_scratch *out)
{
    struct vp_scratch other;
    char below[256];
    int status;
    pid_t pid;

    assert_int_equal(vp_scratch_make(place, out, NULL), VP_OK);
    snprintf(below, sizeof(below), "%s/below", out->path);
    assert_int_equal(mkdir(below, 0700), 0);
    touch(below, "file");
    touch(below, "lock");
    snprintf(below, sizeof(below), "%s/link", out->path);
    assert_int_equal(symlink("/tmp", below), 0);
    /* A child process still holds the lock, so the folder is not removed
     * yet. */
    pid = start_child();
    if (pid == 0)
        for (;;)
            pause_ms(1000);
    close(out->lock);
    assert_int_equal(vp_scratch_make(place, &other, NULL), VP_OK);
    assert_true(exists(out->path));
    vp_scratch_remove(&other);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void test_what_killed_jobs_left(void **state)
{
    static const enum vp_scratch_place places[] = { VP_SCRATCH_SOCKET,
                                                    VP_SCRATCH_MEMORY };
    struct vp_scratch left, now;
    struct stat st;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(places); i++) {
        make_left(places[i], &left);
        /* A job that uses the other place removes it as well. */
        assert_int_equal(vp_scratch_make(places[1 - i], &now, NULL), VP_OK);
        assert_false(exists(left.path));
        assert_int_equal(stat(now.path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        touch(now.path, "file");
        vp_scratch_remove(&now);
        assert_int_equal(now.path[0], '\0');
        vp_scratch_remove(&now);
    }
}

/* Folders with a similar name that do not belong to vpipe or to this user are
 * kept. */
static void test_folders_of_others(void **state)
{
    char name[64], link[64], wide[128], target[] = "/tmp/vp-listener-XXXXXX";
    struct vp_scratch now;
    unsigned uid = (unsigned)geteuid();

    (void)state;
    assert_non_null(mkdtemp(target));
    touch(target, "lock");
    snprintf(name, sizeof(name), "/tmp/vpipe-%u-other-%d", uid, getpid());
    snprintf(link, sizeof(link), "/tmp/vpipe-%u-ln%04d", uid, getpid() % 10000);
    snprintf(wide, sizeof(wide), "/tmp/vpipe-%u-wd%04d", uid, getpid() % 10000);
    assert_int_equal(mkdir(name, 0700), 0);
    touch(name, "lock");
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(mkdir(wide, 0755), 0);
    touch(wide, "lock");

    assert_int_equal(vp_scratch_make(VP_SCRATCH_SOCKET, &now, NULL), VP_OK);
    assert_true(exists(name) && exists(link) && exists(wide));
    if (uid == 0) { /* a folder of another user */
        assert_int_equal(chown(wide, 65534, 65534), 0);
        assert_int_equal(chmod(wide, 0700), 0);
        vp_scratch_remove(&now);
        assert_int_equal(vp_scratch_make(VP_SCRATCH_SOCKET, &now, NULL), VP_OK);
        assert_true(exists(wide));
        assert_int_equal(chown(wide, 0, 0), 0);
    }
    chmod(wide, 0700); /* now it may be removed */
    vp_scratch_remove(&now);
    assert_int_equal(vp_scratch_make(VP_SCRATCH_SOCKET, &now, NULL), VP_OK);
    assert_false(exists(wide)); /* it belongs to this user again */
    vp_scratch_remove(&now);

    assert_int_equal(unlink(link), 0);
    snprintf(wide, sizeof(wide), "%s/lock", name);
    assert_int_equal(unlink(wide) | rmdir(name), 0);
    snprintf(wide, sizeof(wide), "%s/lock", target);
    assert_int_equal(unlink(wide) | rmdir(target), 0);
}

/* If XDG_RUNTIME_DIR is unusable, the socket is in /tmp. */
static void test_runtime_folder(void **state)
{
    static const char *const bad[] = {
        "relative",
        "/no/such/folder",
        "/tmp/a:b",
        "/tmp/0123456789012345678901234567890123456789012345678901234567890123",
    };
    char place[] = "/tmp/vp-listener-XXXXXX";
    struct vp_listener *listener;
    struct vp_address address;

    (void)state;
    assert_non_null(mkdtemp(place));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", place, 1), 0);
    listener = open_listener(false);
    address = address_of(listener);
    assert_int_equal(strncmp(address.path, place, strlen(place)), 0);
    assert_true(exists(address.path));
    vp_listener_close(listener);
    assert_false(exists(address.path));
    assert_int_equal(rmdir(place), 0); /* the folder is empty */
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++) {
        assert_int_equal(setenv("XDG_RUNTIME_DIR", bad[i], 1), 0);
        listener = open_listener(false);
        address = address_of(listener);
        assert_int_equal(strncmp(address.path, "/tmp/vpipe-", 11), 0);
        vp_listener_close(listener);
    }
    unsetenv("XDG_RUNTIME_DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_comes),
        cmocka_unit_test_prestate(test_a_rank_comes, tcp),
        cmocka_unit_test(test_an_overheard_handshake),
        cmocka_unit_test_prestate(test_an_overheard_handshake, tcp),
        cmocka_unit_test(test_wrong_hellos),
        cmocka_unit_test_prestate(test_wrong_hellos, tcp),
        cmocka_unit_test(test_a_welcome_that_was_not_heard),
        cmocka_unit_test_prestate(test_idle_connections, tcp),
        cmocka_unit_test(test_no_more_files),
        cmocka_unit_test(test_another_user),
        cmocka_unit_test(test_false_supervisors),
        cmocka_unit_test(test_a_supervisor_that_is_gone),
        cmocka_unit_test(test_what_killed_jobs_left),
        cmocka_unit_test(test_folders_of_others),
        cmocka_unit_test(test_runtime_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
