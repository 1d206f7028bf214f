/* The supervisor: reads the messages of all ranks, detects lost and silent
 * ones, and ends ranks. */
#include "job/supervisor.h"

#include "base/clock.h"
#include "base/limit.h"
#include "base/machine.h"
#include "job/blackbox_file.h"
#include "job/listener.h"
#include "job/peer.h"
#include "job/process.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TICK_MS = 100 };
#define SECOND INT64_C(1000000000)
#define SAY_NS (SECOND / 2) /* between two heartbeats of the supervisor */

struct connection {
    int fd; /* -1: not connected */
    char text[VP_MESSAGE_BYTES];
    size_t n_text;
};

struct vp_supervisor {
    struct vp_supervisor_config config;
    char folder[VP_FOLDER_BYTES]; /* run folder; empty: not reported yet */
    char machine[VP_HOST_BYTES];
    struct vp_listener *listener;
    struct connection *connections; /* one per rank */
    struct pollfd *polled;          /* one per rank, then the listener */
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_job_clock clock; /* all times below are of this clock */
    int64_t said_ns;           /* last heartbeat to the ranks */
    int64_t decided_ns;        /* time of the diagnosis, after which the roster
                                  is frozen; 0: none yet */
    bool asked_to_stop;
};

/* Advances the clock. After the supervisor itself was frozen, ranks may still
 * be frozen, so that all limits start anew. */
static void tick(struct vp_supervisor *supervisor)
{
    if (vp_job_clock_tick(&supervisor->clock, vp_clock_ns()) &&
        !supervisor->decided_ns)
        vp_roster_restart(&supervisor->roster, supervisor->clock.ns);
}

static int64_t last_tick(const struct vp_supervisor *supervisor)
{
    return supervisor->clock.ns;
}

/* ---- Opening ------------------------------------------------------------ */

static enum vp_status set_up(struct vp_supervisor *supervisor,
                             struct vp_err *err)
{
    const struct vp_supervisor_config *config = &supervisor->config;
    const struct vp_listener_config listener = {
        .n_ranks = config->n_ranks,
        .local = config->local,
        .contained = config->contained,
        .interface = config->interface,
    };
    size_t n = (size_t)config->n_ranks;

    supervisor->connections = calloc(n, sizeof(struct connection));
    supervisor->polled = calloc(n + 1, sizeof(struct pollfd));
    if (!supervisor->connections || !supervisor->polled ||
        vp_roster_init(&supervisor->roster, config->n_ranks,
                       config->watchdog_seconds, supervisor->clock.ns) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "supervisor: out of memory");
    supervisor->roster.by_hand = config->by_hand;
    for (int r = 0; r < config->n_ranks; r++)
        supervisor->connections[r].fd = -1;
    vp_machine_id(supervisor->machine, sizeof(supervisor->machine));
    return vp_listener_open(&listener, &supervisor->listener, err);
}

enum vp_status vp_supervisor_open(const struct vp_supervisor_config *config,
                                  struct vp_supervisor **out,
                                  struct vp_err *err)
{
    struct vp_supervisor *supervisor = malloc(sizeof(*supervisor));
    enum vp_status st;

    if (!supervisor)
        return vp_err_set(err, VP_ERR_NOMEM, "supervisor: out of memory");
    *supervisor = (struct vp_supervisor){
        .config = *config,
        .clock = { .ns = vp_clock_ns(), .seen_ns = vp_clock_ns() },
        .diagnosis = { .rank = -1 },
    };
    st = set_up(supervisor, err);
    if (st != VP_OK) {
        vp_supervisor_close(supervisor);
        return st;
    }
    *out = supervisor;
    return VP_OK;
}

/* Frees all but the listener. */
static void release(struct vp_supervisor *supervisor)
{
    for (int r = 0; supervisor->connections && r < supervisor->config.n_ranks;
         r++)
        if (supervisor->connections[r].fd >= 0)
            close(supervisor->connections[r].fd);
    vp_roster_release(&supervisor->roster);
    free(supervisor->connections);
    free(supervisor->polled);
    free(supervisor);
}

void vp_supervisor_close(struct vp_supervisor *supervisor)
{
    if (!supervisor)
        return;
    vp_listener_close(supervisor->listener);
    release(supervisor);
}

void vp_supervisor_forget(struct vp_supervisor *supervisor)
{
    vp_listener_forget(supervisor->listener);
    release(supervisor);
}

const char *vp_supervisor_address(const struct vp_supervisor *supervisor)
{
    return vp_listener_address(supervisor->listener);
}

/* ---- Sending ------------------------------------------------------------ */

/* Ignores a full socket buffer: a rank that has not read its earlier messages
 * would not read this one either. */
static void say(const struct connection *connection, enum vp_message_kind kind)
{
    char text[VP_MESSAGE_BYTES];
    int n = vp_message_print(&(struct vp_message){ .kind = kind }, text);

    (void)!send(connection->fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_to_all(const struct vp_supervisor *supervisor,
                       enum vp_message_kind kind)
{
    for (int r = 0; r < supervisor->roster.n_ranks; r++)
        if (supervisor->connections[r].fd >= 0)
            say(&supervisor->connections[r], kind);
}

void vp_supervisor_stop(struct vp_supervisor *supervisor)
{
    supervisor->asked_to_stop = true;
    say_to_all(supervisor, VP_MESSAGE_STOP);
}

/* ---- Receiving ---------------------------------------------------------- */

/* Reads the actions of a rank since its last beat from its blackbox file. */
static void read_last_actions(struct vp_supervisor *supervisor, int rank)
{
    struct vp_watched *it = &supervisor->roster.ranks[rank];
    struct vp_beat beat;
    struct vp_blackbox blackbox;

    if (!supervisor->folder[0] ||
        !vp_blackbox_file_read(supervisor->folder, rank, &blackbox))
        return;
    beat = vp_beat_of(&blackbox, vp_clock_ns(), supervisor->clock.resumed_ns);
    if (beat.n_actions < it->beat.n_actions)
        return;
    beat.phase = it->beat.phase;
    beat.stop = it->beat.stop;
    /* Clocks of other machines cannot be compared with this one's. */
    if (strcmp(it->hello.machine, supervisor->machine) != 0) {
        beat.busy_ms = it->beat.busy_ms;
        beat.wait_ms = beat.wait_ms > 0 ? 1 : 0;
    }
    it->beat = beat;
    for (it->n_last = 0; it->n_last < VP_LAST_ACTIONS; it->n_last++)
        if (!vp_blackbox_last(&blackbox, beat.n_actions - 1 - it->n_last,
                              &it->last[it->n_last]))
            break;
}

static void hang_up(struct vp_supervisor *supervisor, int rank)
{
    close(supervisor->connections[rank].fd);
    supervisor->connections[rank].fd = -1;
    if (supervisor->decided_ns)
        return;
    vp_roster_lose(&supervisor->roster, rank, last_tick(supervisor));
    read_last_actions(supervisor, rank);
}

/* Refuses a rank that has connected before. */
static void add_rank(struct vp_supervisor *supervisor, int fd,
                     const struct vp_hello *hello)
{
    const struct vp_message message = { .kind = VP_MESSAGE_HELLO,
                                        .hello = *hello };
    struct connection *connection;

    if (hello->n_ranks != supervisor->roster.n_ranks ||
        supervisor->roster.ranks[hello->rank].came) {
        close(fd);
        return;
    }
    connection = &supervisor->connections[hello->rank];
    *connection = (struct connection){ .fd = fd };
    vp_roster_hear(&supervisor->roster, hello->rank, &message,
                   last_tick(supervisor));
    say(connection,
        supervisor->asked_to_stop ? VP_MESSAGE_STOP : VP_MESSAGE_HERE);
}

static void take_ranks(struct vp_supervisor *supervisor)
{
    struct vp_hello hello;
    int fd;

    vp_listener_serve(supervisor->listener);
    while (vp_listener_take(supervisor->listener, &fd, &hello))
        add_rank(supervisor, fd, &hello);
}

/* Returns false if the connection has to be closed. */
static bool take_line(struct vp_supervisor *supervisor, int rank,
                      const char *line)
{
    const struct connection *connection = &supervisor->connections[rank];
    struct vp_message message;

    if (!vp_message_parse(line, &message))
        return false;
    if (message.kind == VP_MESSAGE_FOLDER) {
        memcpy(supervisor->folder, message.folder, sizeof(message.folder));
        return true;
    }
    if (message.kind != VP_MESSAGE_BEAT && message.kind != VP_MESSAGE_WORD &&
        message.kind != VP_MESSAGE_VITALS)
        return false;
    if (!supervisor->decided_ns)
        vp_roster_hear(&supervisor->roster, rank, &message,
                       last_tick(supervisor));
    if (message.kind == VP_MESSAGE_WORD)
        say(connection, VP_MESSAGE_HEARD);
    else if (message.kind == VP_MESSAGE_BEAT && message.beat.stop &&
             !supervisor->asked_to_stop)
        vp_supervisor_stop(supervisor);
    return true;
}

static bool take_lines(struct vp_supervisor *supervisor, int rank)
{
    struct connection *connection = &supervisor->connections[rank];
    char *start = connection->text, *end;

    while ((end = memchr(start, '\n',
                         connection->n_text -
                             (size_t)(start - connection->text)))) {
        *end = '\0';
        if (!take_line(supervisor, rank, start))
            return false;
        start = end + 1;
    }
    connection->n_text -= (size_t)(start - connection->text);
    memmove(connection->text, start, connection->n_text);
    return connection->n_text < sizeof(connection->text);
}

static void read_from(struct vp_supervisor *supervisor, int rank)
{
    struct connection *connection = &supervisor->connections[rank];

    for (;;) {
        ssize_t n = recv(connection->fd, connection->text + connection->n_text,
                         sizeof(connection->text) - connection->n_text, 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n > 0)
            connection->n_text += (size_t)n;
        if (n <= 0 || !take_lines(supervisor, rank)) {
            hang_up(supervisor, rank);
            return;
        }
    }
}

/* Sets cut_off if a silent rank's host has not acknowledged the data in the
 * send queue. Not used for local sockets, whose queue holds data that the
 * process has not read. */
static void look_at_queue(struct vp_supervisor *supervisor, int rank)
{
    struct vp_watched *it = &supervisor->roster.ranks[rank];
    int n_waiting = 0;

    it->cut_off = last_tick(supervisor) - it->heard_ns > 2 * SAY_NS &&
                  ioctl(supervisor->connections[rank].fd, SIOCOUTQ,
                        &n_waiting) == 0 &&
                  n_waiting > 0;
}

/* Sets is_ready if a silent process on this machine waits for a core; otherwise
 * it is stopped. */
static void look_at_process(struct vp_supervisor *supervisor, int rank)
{
    struct vp_watched *it = &supervisor->roster.ranks[rank];

    it->is_ready = last_tick(supervisor) - it->heard_ns > 2 * SAY_NS &&
                   strcmp(it->hello.machine, supervisor->machine) == 0 &&
                   vp_process_is_ready(it->hello.pid);
}

static void look_after(struct vp_supervisor *supervisor)
{
    int64_t now = last_tick(supervisor);

    for (int r = 0; r < supervisor->roster.n_ranks; r++) {
        if (supervisor->connections[r].fd < 0 || supervisor->decided_ns)
            continue;
        if (!supervisor->config.local)
            look_at_queue(supervisor, r);
        look_at_process(supervisor, r);
    }
    if (now - supervisor->said_ns < SAY_NS)
        return;
    supervisor->said_ns = now;
    say_to_all(supervisor,
               supervisor->asked_to_stop ? VP_MESSAGE_STOP : VP_MESSAGE_HERE);
}

static void read_all(struct vp_supervisor *supervisor, int events)
{
    const struct pollfd *polled = supervisor->polled;

    for (int r = 0; r < supervisor->roster.n_ranks; r++)
        if (supervisor->connections[r].fd >= 0 && polled[r].fd >= 0 &&
            polled[r].revents & events)
            read_from(supervisor, r);
}

/* Polls all sockets once, for up to `timeout_ms`. Handles closed connections
 * before messages: a rank that has died did so before other ranks complained
 * about it, because a rank that fails waits for the receipt of its last message
 * before it exits. */
static void look(struct vp_supervisor *supervisor, int timeout_ms)
{
    struct pollfd *polled = supervisor->polled;
    int n = supervisor->roster.n_ranks;

    for (int r = 0; r < n; r++)
        polled[r] = (struct pollfd){ .fd = supervisor->connections[r].fd,
                                     .events = POLLIN | POLLRDHUP };
    polled[n] = (struct pollfd){ .fd = vp_listener_fd(supervisor->listener),
                                 .events = POLLIN };
    poll(polled, (nfds_t)n + 1, timeout_ms); /* EINTR: revents are all 0 */
    tick(supervisor);
    read_all(supervisor, POLLRDHUP | POLLHUP | POLLERR);
    read_all(supervisor, POLLIN);
    take_ranks(supervisor);
    look_after(supervisor);
}

/* Freezes the roster, so that later events do not change the report. */
static void decide(struct vp_supervisor *supervisor)
{
    const struct vp_diagnosis *diagnosis = &supervisor->diagnosis;

    supervisor->decided_ns = last_tick(supervisor);
    if (diagnosis->cause == VP_CAUSE_STOPPED ||
        diagnosis->cause == VP_CAUSE_CUT_OFF)
        read_last_actions(supervisor, diagnosis->rank);
}

enum vp_outcome vp_supervisor_listen(struct vp_supervisor *supervisor,
                                     int timeout_ms)
{
    struct vp_limit limit = vp_limit_ms(timeout_ms);
    enum vp_outcome outcome;

    do {
        look(supervisor, timeout_ms < TICK_MS ? timeout_ms : TICK_MS);
        outcome = vp_roster_judge(&supervisor->roster, last_tick(supervisor),
                                  &supervisor->diagnosis);
    } while (outcome == VP_OUTCOME_NONE && !vp_limit_is_over(&limit));
    if (outcome == VP_OUTCOME_FAILED)
        decide(supervisor);
    return outcome;
}

void vp_supervisor_rest(struct vp_supervisor *supervisor, int timeout_ms)
{
    look(supervisor, timeout_ms);
}

int vp_supervisor_n_came(const struct vp_supervisor *supervisor)
{
    int n = 0;

    for (int r = 0; r < supervisor->roster.n_ranks; r++)
        n += supervisor->roster.ranks[r].came;
    return n;
}

int vp_supervisor_n_connected(const struct vp_supervisor *supervisor)
{
    int n = 0;

    for (int r = 0; r < supervisor->roster.n_ranks; r++)
        n += supervisor->connections[r].fd >= 0;
    return n;
}

void vp_supervisor_launcher_ended(struct vp_supervisor *supervisor)
{
    supervisor->roster.start_ns = VP_ROSTER_ENDED;
}

/* ---- Ending ------------------------------------------------------------- */

/* Counts connected ranks without those whose host is cut off: no end of these
 * can be seen. */
static int count_reachable(const struct vp_supervisor *supervisor)
{
    int n = 0;

    for (int r = 0; r < supervisor->roster.n_ranks; r++)
        n += supervisor->connections[r].fd >= 0 &&
             !supervisor->roster.ranks[r].cut_off;
    return n;
}

static void wait_until_gone(struct vp_supervisor *supervisor, int timeout_ms)
{
    struct vp_limit limit = vp_limit_ms(timeout_ms);

    while (count_reachable(supervisor) > 0 && !vp_limit_is_over(&limit))
        look(supervisor, TICK_MS / 4);
}

/* While the connection is open its process exists, so the pid has not been
 * reused. */
void vp_supervisor_signal(const struct vp_supervisor *supervisor, int signal)
{
    for (int r = 0; r < supervisor->roster.n_ranks; r++) {
        int fd = supervisor->connections[r].fd;
        pid_t pid = fd < 0 ? 0
                           : vp_peer_pid(fd,
                                         supervisor->roster.ranks[r].hello.pid);

        if (pid > 0)
            kill(pid, signal);
    }
}

int vp_supervisor_end(struct vp_supervisor *supervisor, int timeout_ms)
{
    say_to_all(supervisor, VP_MESSAGE_END);
    wait_until_gone(supervisor, timeout_ms / 4);
    vp_supervisor_signal(supervisor, SIGKILL);
    wait_until_gone(supervisor, timeout_ms - timeout_ms / 4);
    return vp_supervisor_n_connected(supervisor);
}

/* ---- The diagnosis ------------------------------------------------------ */

const struct vp_diagnosis *vp_supervisor_diagnosis(
    const struct vp_supervisor *supervisor)
{
    return &supervisor->diagnosis;
}

bool vp_supervisor_has_lost(const struct vp_supervisor *supervisor,
                            const char *host)
{
    return vp_roster_has_lost(&supervisor->roster, host,
                              supervisor->decided_ns);
}

void vp_supervisor_report(const struct vp_supervisor *supervisor, int signal,
                          struct vp_err *out)
{
    struct vp_diagnosis diagnosis = supervisor->diagnosis;

    VP_BUG_ON(diagnosis.cause == VP_CAUSE_NONE);
    diagnosis.signal = signal;
    vp_diagnosis_print(&supervisor->roster, &diagnosis, supervisor->decided_ns,
                       out);
}
