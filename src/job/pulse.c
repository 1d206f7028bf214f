#include "job/pulse.h"

#include "base/clock.h"
#include "base/limit.h"
#include "base/machine.h"
#include "job/dial.h"
#include "job/duty.h"

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

enum { HEARD_MS = 5000 };
#define SECOND INT64_C(1000000000)
/* A process has so long to end by itself when its supervisor is gone: after
 * its last word it may still have libraries to take down. */
#define GONE_NS (3 * SECOND)
#define ENDING_NS (30 * SECOND)
/* The supervisor says twice a second that it is there. After this silence it is
 * taken to be frozen, and is sent nothing until it speaks again. */
#define SILENT_NS (2 * SECOND)

struct vp_pulse {
    struct vp_pulse_config config;
    int fd;
    int wake; /* an eventfd: there is something to say, or to end */
    pthread_t thread;
    bool started;

    _Atomic(const struct vp_box *) box;
    atomic_bool has_word, heard, quit;
    struct vp_last_word final; /* set before has_word */
    atomic_bool has_folder;
    char folder[VP_FOLDER_BYTES]; /* likewise */

    /* The thread's own. */
    char text[VP_MESSAGE_BYTES];
    size_t n_text;
    struct vp_job_clock clock; /* for the next two */
    int64_t heard_ns;          /* the supervisor */
    int64_t gone_ns;           /* it is gone since; 0: it is there */
    bool said_folder, said_word;
};

/* ---- Talking ------------------------------------------------------------ */

/* Lines are short, and the supervisor reads all the time: what does not go out
 * at once finds nobody there. */
static bool send_message(const struct vp_pulse *pulse,
                         const struct vp_message *message)
{
    char text[VP_MESSAGE_BYTES];
    int n = vp_message_print(message, text);

    return send(pulse->fd, text, (size_t)n, MSG_NOSIGNAL) == n;
}

static bool send_beat(const struct vp_pulse *pulse)
{
    static const struct vp_box nothing;
    const struct vp_box *box = atomic_load(&pulse->box);
    int64_t now = vp_clock_ns(), resumed = pulse->clock.resumed_ns;
    struct vp_message message = {
        .kind = VP_MESSAGE_BEAT,
        .beat = vp_beat_of(box ? box : &nothing, now, resumed),
    };
    struct vp_message vitals = { .kind = VP_MESSAGE_VITALS,
                                 .vitals = vp_vitals_read(now, resumed) };
    struct vp_beat *beat = &message.beat;

    beat->duty = vp_duty_get(NULL);
    beat->stop = pulse->config.stop && *pulse->config.stop;
    return send_message(pulse, &vitals) && send_message(pulse, &message);
}

/* ---- The thread --------------------------------------------------------- */

static void lose(struct vp_pulse *pulse)
{
    if (pulse->gone_ns == 0)
        pulse->gone_ns = pulse->clock.ns;
}

static void take_line(struct vp_pulse *pulse, const char *line)
{
    struct vp_message message;

    if (!vp_message_parse(line, &message)) {
        lose(pulse);
        return;
    }
    pulse->heard_ns = pulse->clock.ns;
    if (message.kind == VP_MESSAGE_HEARD)
        atomic_store(&pulse->heard, true);
    else if (message.kind == VP_MESSAGE_STOP)
        pulse->config.on_stop(pulse->config.ctx);
    else if (message.kind == VP_MESSAGE_END)
        pulse->config.on_end(pulse->config.ctx, "the supervisor ends the job");
}

static void take_lines(struct vp_pulse *pulse)
{
    char *start = pulse->text, *end;

    while ((end = memchr(start, '\n',
                         pulse->n_text - (size_t)(start - pulse->text)))) {
        *end = '\0';
        take_line(pulse, start);
        start = end + 1;
    }
    pulse->n_text -= (size_t)(start - pulse->text);
    memmove(pulse->text, start, pulse->n_text);
    if (pulse->n_text == sizeof(pulse->text))
        lose(pulse);
}

static void read_all(struct vp_pulse *pulse)
{
    while (pulse->gone_ns == 0) {
        ssize_t n = recv(pulse->fd, pulse->text + pulse->n_text,
                         sizeof(pulse->text) - pulse->n_text, 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            lose(pulse);
            return;
        }
        pulse->n_text += (size_t)n;
        take_lines(pulse);
    }
}

/* After this process was frozen, the supervisor may still be. */
static void tick(struct vp_pulse *pulse)
{
    if (!vp_job_clock_tick(&pulse->clock, vp_clock_ns()))
        return;
    pulse->heard_ns = pulse->clock.ns;
    if (pulse->gone_ns)
        pulse->gone_ns = pulse->clock.ns;
}

static void wait_for_something(struct vp_pulse *pulse)
{
    struct pollfd polled[] = {
        { .fd = pulse->wake, .events = POLLIN },
        { .fd = pulse->gone_ns ? -1 : pulse->fd, .events = POLLIN },
    };
    uint64_t n;

    poll(polled, 2, VP_HEARTBEAT_MS);
    tick(pulse);
    if (polled[0].revents)
        (void)!read(pulse->wake, &n, sizeof(n));
    if (polled[1].revents)
        read_all(pulse);
}

/* A supervisor that is only silent is frozen, for the kernel looks after the
 * connection: see watch_connection(). */
static void check_supervisor(struct vp_pulse *pulse)
{
    int64_t patience = atomic_load(&pulse->has_word) ? ENDING_NS : GONE_NS;

    if (pulse->gone_ns && pulse->clock.ns - pulse->gone_ns > patience)
        pulse->config.on_end(pulse->config.ctx, "the supervisor is gone");
}

static void say_once(struct vp_pulse *pulse, const struct vp_message *message,
                     bool *said)
{
    *said = true;
    if (pulse->gone_ns == 0 && !send_message(pulse, message))
        lose(pulse);
}

static void say_news(struct vp_pulse *pulse)
{
    struct vp_message message = { .kind = VP_MESSAGE_FOLDER };

    if (atomic_load(&pulse->has_folder) && !pulse->said_folder) {
        memcpy(message.folder, pulse->folder, sizeof(message.folder));
        say_once(pulse, &message, &pulse->said_folder);
    }
    if (atomic_load(&pulse->has_word) && !pulse->said_word) {
        message = (struct vp_message){ .kind = VP_MESSAGE_WORD,
                                       .final = pulse->final };
        say_once(pulse, &message, &pulse->said_word);
    }
}

static bool is_silent(const struct vp_pulse *pulse)
{
    return pulse->clock.ns - pulse->heard_ns > SILENT_NS;
}

static void *thread_main(void *arg)
{
    struct vp_pulse *pulse = arg;

    while (!atomic_load(&pulse->quit)) {
        if (pulse->gone_ns == 0 && !pulse->said_word && !is_silent(pulse) &&
            !send_beat(pulse))
            lose(pulse);
        say_news(pulse);
        wait_for_something(pulse);
        check_supervisor(pulse);
    }
    return NULL;
}

/* ---- For the rank ------------------------------------------------------- */

/* Nothing is left behind on a host that the supervisor cannot reach: the kernel
 * breaks the connection if the supervisor's host acknowledges nothing for
 * watchdog_seconds. Keepalive probes ask for that while nothing is sent. A
 * supervisor that is frozen has a kernel that answers. */
static void watch_connection(const struct vp_pulse *pulse)
{
    const int on = 1, seconds = 1;
    const unsigned limit_ms = (unsigned)pulse->config.watchdog_seconds * 1000;

    setsockopt(pulse->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(pulse->fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
    setsockopt(pulse->fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds,
               sizeof(seconds));
    setsockopt(pulse->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms,
               sizeof(limit_ms));
}

static enum vp_status connect_to_supervisor(struct vp_pulse *pulse,
                                            struct vp_err *err)
{
    const struct vp_pulse_config *config = &pulse->config;
    /* The supervisor may be starved or frozen while the job starts. It waits
     * just as long for this rank. */
    const int64_t limit_ns = vp_duty_limit_ns(
        VP_DUTY_JOIN, config->watchdog_seconds * SECOND);
    struct vp_hello hello = { .rank = config->rank,
                              .n_ranks = config->n_ranks,
                              .pid = (int)getpid() };

    vp_machine_id(hello.machine, sizeof(hello.machine));
    if (config->host)
        snprintf(hello.host, sizeof(hello.host), "%s", config->host);
    else
        vp_machine_name(hello.host, sizeof(hello.host));
    return vp_dial(config->address, &hello, limit_ns / 1000000, &pulse->fd,
                   err);
}

static enum vp_status start(struct vp_pulse *pulse, struct vp_err *err)
{
    VP_TRY(connect_to_supervisor(pulse, err));
    pulse->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pulse->wake < 0)
        return vp_err_set(err, VP_ERR_IO, "heartbeat: no eventfd (%s)",
                          strerror(errno));
    watch_connection(pulse);
    pulse->clock = (struct vp_job_clock){ .ns = SECOND,
                                          .seen_ns = vp_clock_ns() };
    pulse->heard_ns = pulse->clock.ns;
    if (pthread_create(&pulse->thread, NULL, thread_main, pulse) != 0)
        return vp_err_set(err, VP_ERR_NOMEM, "starting a thread failed");
    pulse->started = true;
    return VP_OK;
}

enum vp_status vp_pulse_start(const struct vp_pulse_config *config,
                              struct vp_pulse **out, struct vp_err *err)
{
    struct vp_pulse *pulse = malloc(sizeof(*pulse));
    enum vp_status st;

    if (!pulse)
        return vp_err_set(err, VP_ERR_NOMEM, "pulse: out of memory");
    *pulse = (struct vp_pulse){ .config = *config, .fd = -1, .wake = -1 };
    st = start(pulse, err);
    if (st != VP_OK) {
        vp_pulse_free(pulse);
        return st;
    }
    *out = pulse;
    return VP_OK;
}

void vp_pulse_show(struct vp_pulse *pulse, const struct vp_box *box)
{
    if (pulse)
        atomic_store(&pulse->box, box);
}

/* One that does not fit, or breaks a line, is not said. */
void vp_pulse_set_folder(struct vp_pulse *pulse, const char *folder)
{
    char full[PATH_MAX];

    if (!pulse || atomic_load(&pulse->has_folder) || !realpath(folder, full) ||
        strlen(full) >= sizeof(pulse->folder) || strpbrk(full, "\n\r"))
        return;
    snprintf(pulse->folder, sizeof(pulse->folder), "%s", full);
    atomic_store(&pulse->has_folder, true);
}

static void wake(const struct vp_pulse *pulse)
{
    const uint64_t one = 1;

    (void)!write(pulse->wake, &one, sizeof(one));
}

void vp_pulse_say(struct vp_pulse *pulse, enum vp_word word,
                  enum vp_status status, const char *line)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    struct vp_limit limit = vp_limit_ms(HEARD_MS);

    if (!pulse || atomic_load(&pulse->has_word))
        return;
    pulse->final = (struct vp_last_word){ .word = word, .status = status };
    snprintf(pulse->final.line, sizeof(pulse->final.line), "%s",
             line ? line : "");
    atomic_store(&pulse->has_word, true);
    wake(pulse);
    while (!atomic_load(&pulse->heard) && !vp_limit_is_over(&limit))
        nanosleep(&pause, NULL);
}

void vp_pulse_free(struct vp_pulse *pulse)
{
    if (!pulse)
        return;
    if (pulse->started) {
        atomic_store(&pulse->quit, true);
        wake(pulse);
        pthread_join(pulse->thread, NULL);
    }
    if (pulse->fd >= 0)
        close(pulse->fd);
    if (pulse->wake >= 0)
        close(pulse->wake);
    free(pulse);
}
