/* The heartbeat thread of a rank: sends beats, vitals and the last message to
 * the supervisor, and handles its requests. */
#include "job/heartbeat.h"

#include "base/clock.h"
#include "base/limit.h"
#include "base/machine.h"
#include "job/dial.h"
#include "job/job_phase.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECEIPT_MS = 5000 }; /* limit for the receipt of the last message */
#define SECOND INT64_C(1000000000)
/* Time that a process has to exit by itself when its supervisor is gone. It is
 * longer after the last message, while libraries shut down. */
#define GONE_NS (3 * SECOND)
#define ENDING_NS (30 * SECOND)
/* The supervisor sends VP_MESSAGE_HERE twice a second. After this silence it
 * counts as frozen, and beats are held back until its next message. */
#define SILENT_NS (2 * SECOND)

struct vp_heartbeat {
    struct vp_heartbeat_config config;
    int fd;
    int wake; /* an eventfd, written when has_word or `quit` is set */
    pthread_t thread;
    bool started;

    _Atomic(const struct vp_blackbox *) blackbox;
    atomic_bool has_word, heard, quit;
    struct vp_last_word final; /* written before has_word is set */
    atomic_bool has_folder;
    char folder[VP_FOLDER_BYTES]; /* written before has_folder is set */

    /* Used only by the thread. */
    char text[VP_MESSAGE_BYTES]; /* received, not yet parsed */
    size_t n_text;
    struct vp_job_clock clock; /* clock of heard_ns and gone_ns */
    int64_t heard_ns;          /* time of the supervisor's last message */
    int64_t gone_ns;           /* time at which the connection broke; 0: it
                                  is open */
    bool said_folder, said_word;
};

/* ---- Sending ------------------------------------------------------------ */

/* Returns false if the line cannot be sent at once. Lines are short and the
 * supervisor reads all the time, so this means that the supervisor is gone. */
static bool send_message(const struct vp_heartbeat *heartbeat,
                         const struct vp_message *message)
{
    char text[VP_MESSAGE_BYTES];
    int n = vp_message_print(message, text);

    return send(heartbeat->fd, text, (size_t)n, MSG_NOSIGNAL) == n;
}

static bool send_beat(const struct vp_heartbeat *heartbeat)
{
    static const struct vp_blackbox nothing;
    const struct vp_blackbox *blackbox = atomic_load(&heartbeat->blackbox);
    int64_t now = vp_clock_ns(), resumed = heartbeat->clock.resumed_ns;
    struct vp_message message = {
        .kind = VP_MESSAGE_BEAT,
        .beat = vp_beat_of(blackbox ? blackbox : &nothing, now, resumed),
    };
    struct vp_message vitals = { .kind = VP_MESSAGE_VITALS,
                                 .vitals = vp_vitals_read(now, resumed) };
    struct vp_beat *beat = &message.beat;

    beat->phase = vp_job_phase_get(NULL);
    beat->stop = heartbeat->config.stop && *heartbeat->config.stop;
    return send_message(heartbeat, &vitals) &&
           send_message(heartbeat, &message);
}

/* ---- The thread --------------------------------------------------------- */

static void lose(struct vp_heartbeat *heartbeat)
{
    if (heartbeat->gone_ns == 0)
        heartbeat->gone_ns = heartbeat->clock.ns;
}

/* A line that cannot be parsed counts as a broken connection. */
static void take_line(struct vp_heartbeat *heartbeat, const char *line)
{
    struct vp_message message;

    if (!vp_message_parse(line, &message)) {
        lose(heartbeat);
        return;
    }
    heartbeat->heard_ns = heartbeat->clock.ns;
    if (message.kind == VP_MESSAGE_HEARD)
        atomic_store(&heartbeat->heard, true);
    else if (message.kind == VP_MESSAGE_STOP)
        heartbeat->config.on_stop(heartbeat->config.ctx);
    else if (message.kind == VP_MESSAGE_END)
        heartbeat->config.on_end(heartbeat->config.ctx,
                                 "the supervisor ends the job");
}

static void take_lines(struct vp_heartbeat *heartbeat)
{
    char *start = heartbeat->text, *end;

    while (
        (end = memchr(start, '\n',
                      heartbeat->n_text - (size_t)(start - heartbeat->text)))) {
        *end = '\0';
        take_line(heartbeat, start);
        start = end + 1;
    }
    heartbeat->n_text -= (size_t)(start - heartbeat->text);
    memmove(heartbeat->text, start, heartbeat->n_text);
    if (heartbeat->n_text == sizeof(heartbeat->text))
        lose(heartbeat);
}

static void read_all(struct vp_heartbeat *heartbeat)
{
    while (heartbeat->gone_ns == 0) {
        ssize_t n = recv(heartbeat->fd, heartbeat->text + heartbeat->n_text,
                         sizeof(heartbeat->text) - heartbeat->n_text, 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            lose(heartbeat);
            return;
        }
        heartbeat->n_text += (size_t)n;
        take_lines(heartbeat);
    }
}

/* Advances the clock. After this process was frozen, the supervisor may still
 * be frozen, so its limits start anew. */
static void tick(struct vp_heartbeat *heartbeat)
{
    if (!vp_job_clock_tick(&heartbeat->clock, vp_clock_ns()))
        return;
    heartbeat->heard_ns = heartbeat->clock.ns;
    if (heartbeat->gone_ns)
        heartbeat->gone_ns = heartbeat->clock.ns;
}

/* Waits up to VP_HEARTBEAT_MS for a message or for vp_heartbeat_*() calls. */
static void wait_for_event(struct vp_heartbeat *heartbeat)
{
    struct pollfd polled[] = {
        { .fd = heartbeat->wake, .events = POLLIN },
        { .fd = heartbeat->gone_ns ? -1 : heartbeat->fd, .events = POLLIN },
    };
    uint64_t n;

    poll(polled, 2, VP_HEARTBEAT_MS);
    tick(heartbeat);
    if (polled[0].revents)
        (void)!read(heartbeat->wake, &n, sizeof(n));
    if (polled[1].revents)
        read_all(heartbeat);
}

/* Ends the process some time after the connection broke. Silence alone does not
 * count: the supervisor is frozen then, because the kernel breaks connections
 * to lost hosts (watch_connection()). */
static void check_supervisor(struct vp_heartbeat *heartbeat)
{
    int64_t patience = atomic_load(&heartbeat->has_word) ? ENDING_NS : GONE_NS;

    if (heartbeat->gone_ns &&
        heartbeat->clock.ns - heartbeat->gone_ns > patience)
        heartbeat->config.on_end(heartbeat->config.ctx,
                                 "the supervisor is gone");
}

static void send_once(struct vp_heartbeat *heartbeat,
                      const struct vp_message *message, bool *sent)
{
    *sent = true;
    if (heartbeat->gone_ns == 0 && !send_message(heartbeat, message))
        lose(heartbeat);
}

/* Sends the run folder and the last message as soon as they are set. */
static void send_news(struct vp_heartbeat *heartbeat)
{
    struct vp_message message = { .kind = VP_MESSAGE_FOLDER };

    if (atomic_load(&heartbeat->has_folder) && !heartbeat->said_folder) {
        memcpy(message.folder, heartbeat->folder, sizeof(message.folder));
        send_once(heartbeat, &message, &heartbeat->said_folder);
    }
    if (atomic_load(&heartbeat->has_word) && !heartbeat->said_word) {
        message = (struct vp_message){ .kind = VP_MESSAGE_WORD,
                                       .final = heartbeat->final };
        send_once(heartbeat, &message, &heartbeat->said_word);
    }
}

static bool is_silent(const struct vp_heartbeat *heartbeat)
{
    return heartbeat->clock.ns - heartbeat->heard_ns > SILENT_NS;
}

static void *thread_main(void *arg)
{
    struct vp_heartbeat *heartbeat = arg;

    while (!atomic_load(&heartbeat->quit)) {
        if (heartbeat->gone_ns == 0 && !heartbeat->said_word &&
            !is_silent(heartbeat) && !send_beat(heartbeat))
            lose(heartbeat);
        send_news(heartbeat);
        wait_for_event(heartbeat);
        check_supervisor(heartbeat);
    }
    return NULL;
}

/* ---- Called by the rank ------------------------------------------------- */

/* Makes the kernel break the connection if the supervisor's host acknowledges
 * nothing for watchdog_seconds, so that no rank stays on a host that was cut
 * off. Keepalive probes detect this while nothing is sent. The kernel of a
 * frozen supervisor still answers them. */
static void watch_connection(const struct vp_heartbeat *heartbeat)
{
    const int on = 1, seconds = 1;
    const unsigned limit_ms = (unsigned)heartbeat->config.watchdog_seconds *
                              1000;

    setsockopt(heartbeat->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(heartbeat->fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds,
               sizeof(seconds));
    setsockopt(heartbeat->fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds,
               sizeof(seconds));
    setsockopt(heartbeat->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms,
               sizeof(limit_ms));
}

static enum vp_status connect_to_supervisor(struct vp_heartbeat *heartbeat,
                                            struct vp_err *err)
{
    const struct vp_heartbeat_config *config = &heartbeat->config;
    /* The supervisor may be starved or frozen while the job starts. It waits
     * for this rank for the same time. */
    const int64_t limit_ns = vp_job_phase_limit_ns(
        VP_JOB_PHASE_JOIN, config->watchdog_seconds * SECOND);
    struct vp_hello hello = { .rank = config->rank,
                              .n_ranks = config->n_ranks,
                              .pid = (int)getpid() };

    vp_machine_id(hello.machine, sizeof(hello.machine));
    if (config->host)
        snprintf(hello.host, sizeof(hello.host), "%s", config->host);
    else
        vp_machine_name(hello.host, sizeof(hello.host));
    return vp_dial(config->address, &hello, limit_ns / 1000000, &heartbeat->fd,
                   err);
}

static enum vp_status start(struct vp_heartbeat *heartbeat, struct vp_err *err)
{
    VP_TRY(connect_to_supervisor(heartbeat, err));
    heartbeat->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (heartbeat->wake < 0)
        return vp_err_set(err, VP_ERR_IO, "heartbeat: eventfd() failed (%s)",
                          strerror(errno));
    watch_connection(heartbeat);
    heartbeat->clock = (struct vp_job_clock){ .ns = SECOND,
                                              .seen_ns = vp_clock_ns() };
    heartbeat->heard_ns = heartbeat->clock.ns;
    if (pthread_create(&heartbeat->thread, NULL, thread_main, heartbeat) != 0)
        return vp_err_set(err, VP_ERR_NOMEM, "starting a thread failed");
    heartbeat->started = true;
    return VP_OK;
}

enum vp_status vp_heartbeat_start(const struct vp_heartbeat_config *config,
                                  struct vp_heartbeat **out, struct vp_err *err)
{
    struct vp_heartbeat *heartbeat = malloc(sizeof(*heartbeat));
    enum vp_status st;

    if (!heartbeat)
        return vp_err_set(err, VP_ERR_NOMEM, "heartbeat: out of memory");
    *heartbeat = (struct vp_heartbeat){ .config = *config,
                                        .fd = -1,
                                        .wake = -1 };
    st = start(heartbeat, err);
    if (st != VP_OK) {
        vp_heartbeat_free(heartbeat);
        return st;
    }
    *out = heartbeat;
    return VP_OK;
}

void vp_heartbeat_show(struct vp_heartbeat *heartbeat,
                       const struct vp_blackbox *blackbox)
{
    if (heartbeat)
        atomic_store(&heartbeat->blackbox, blackbox);
}

/* A path that does not fit or contains a newline is not reported. */
void vp_heartbeat_set_folder(struct vp_heartbeat *heartbeat, const char *folder)
{
    char full[PATH_MAX];

    if (!heartbeat || atomic_load(&heartbeat->has_folder) ||
        !realpath(folder, full) || strlen(full) >= sizeof(heartbeat->folder) ||
        strpbrk(full, "\n\r"))
        return;
    snprintf(heartbeat->folder, sizeof(heartbeat->folder), "%s", full);
    atomic_store(&heartbeat->has_folder, true);
}

static void wake(const struct vp_heartbeat *heartbeat)
{
    const uint64_t one = 1;

    (void)!write(heartbeat->wake, &one, sizeof(one));
}

bool vp_heartbeat_report_end(struct vp_heartbeat *heartbeat, enum vp_word word,
                             enum vp_status status, const char *line)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    struct vp_limit limit = vp_limit_ms(RECEIPT_MS);

    if (!heartbeat)
        return false;
    if (atomic_load(&heartbeat->has_word))
        return atomic_load(&heartbeat->heard);
    heartbeat->final = (struct vp_last_word){ .word = word, .status = status };
    snprintf(heartbeat->final.line, sizeof(heartbeat->final.line), "%s",
             line ? line : "");
    atomic_store(&heartbeat->has_word, true);
    wake(heartbeat);
    while (!atomic_load(&heartbeat->heard) && !vp_limit_is_over(&limit))
        nanosleep(&pause, NULL);
    return atomic_load(&heartbeat->heard);
}

void vp_heartbeat_free(struct vp_heartbeat *heartbeat)
{
    if (!heartbeat)
        return;
    if (heartbeat->started) {
        atomic_store(&heartbeat->quit, true);
        wake(heartbeat);
        pthread_join(heartbeat->thread, NULL);
    }
    if (heartbeat->fd >= 0)
        close(heartbeat->fd);
    if (heartbeat->wake >= 0)
        close(heartbeat->wake);
    free(heartbeat);
}
