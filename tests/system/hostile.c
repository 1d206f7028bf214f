/* Hostile clients of a dashboard.
 *   hostile PORT TOKEN-FILE N_REQUESTS N_STUCK
 * Sends N_REQUESTS requests, of which none may succeed. Opens N_STUCK connections
 * that neither finish a request nor read an answer, holds them for two seconds and
 * closes them. Before and after, a good client must get /metrics in the format of
 * Prometheus. Prints a line for each failure and exits with status 1. */
#include "lib/prom_text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ANSWER = 256 * 1024, HUGE_BYTES = 96 * 1024, TOKEN = 64 };

static int port, n_failures;
static char token[TOKEN + 2];
static char answer[MAX_ANSWER + 1];

static void complain(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("FAILED: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    n_failures++;
}

static int connect_there(int receive_bytes)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    const struct timeval limit = { .tv_sec = 20 };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (receive_bytes > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                   sizeof(receive_bytes));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Sends `n` bytes, which the server may refuse to read. Returns the status of
 * the answer; 0 if the connection was closed without one, -1 if none came in
 * time. */
static int ask(const char *bytes, size_t n)
{
    int fd = connect_there(0);
    size_t used = 0;
    ssize_t got = 0;
    int status = 0;

    if (fd < 0)
        return -1;
    (void)!send(fd, bytes, n, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    while (used < MAX_ANSWER &&
           (got = recv(fd, answer + used, MAX_ANSWER - used, 0)) > 0)
        used += (size_t)got;
    answer[used] = '\0';
    if (got < 0 && errno == EAGAIN)
        status = -1;
    else if (strncmp(answer, "HTTP/1.", 7) == 0)
        status = (int)strtol(answer + 9, NULL, 10);
    close(fd);
    return status;
}

/* ---- Requests that must fail -------------------------------------------- */

#define HOST "Host: localhost\r\n"
#define END "\r\n"

/* %s is the token. */
static const struct {
    const char *text;
    int status; /* 0: any error status */
} requests[] = {
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n" END "hello", 405 },
    { "PUT /metrics HTTP/1.1\r\n" HOST "Authorization: Bearer %s\r\n"
      "Content-Length: 1000000000000\r\n" END,
      405 },
    { "DELETE / HTTP/1.1\r\n" HOST END, 405 },
    { "HEAD /metrics HTTP/1.1\r\n" HOST "Authorization: Bearer %s\r\n" END,
      405 },
    { "OPTIONS * HTTP/1.1\r\n" HOST END, 405 },
    { "TRACE / HTTP/1.1\r\n" HOST END, 405 },
    { "CONNECT a:1 HTTP/1.1\r\n" HOST END, 405 },
    { "BREW /pot HTTP/1.1\r\n" HOST END, 405 },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n" END
      "zz\r\n\r\n",
      0 },
    { "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n"
      "Authorization: Bearer %s\r\n" END,
      421 },
    { "GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n"
      "Authorization: Bearer %s\r\n" END,
      421 },
    { "GET /metrics HTTP/1.1\r\nHost: localhost:80:80\r\n"
      "Authorization: Bearer %s\r\n" END,
      421 },
    { "GET /metrics HTTP/1.1\r\nHost: localhost@evil\r\n"
      "Authorization: Bearer %s\r\n" END,
      421 },
    { "GET /metrics HTTP/1.1\r\nHost: [::1\r\n"
      "Authorization: Bearer %s\r\n" END,
      421 },
    { "GET /metrics HTTP/1.1\r\nHost:\r\nAuthorization: Bearer %s\r\n" END, 0 },
    { "GET /metrics HTTP/1.0\r\nAuthorization: Bearer %s\r\n" END, 421 },
    { "GET /metrics HTTP/1.1\r\nAuthorization: Bearer %s\r\n" END, 0 },
    { "GET / HTTP/1.1\r\n" HOST END, 401 },
    { "GET /metrics HTTP/1.1\r\n" HOST END, 401 },
    { "GET /events HTTP/1.1\r\n" HOST END, 401 },
    { "GET /?token= HTTP/1.1\r\n" HOST END, 401 },
    { "GET /?token HTTP/1.1\r\n" HOST END, 401 },
    { "GET /?token=%s0 HTTP/1.1\r\n" HOST END, 401 },
    { "GET /metrics?token=%s HTTP/1.1\r\n" HOST END, 401 },
    { "GET /events?token=%s HTTP/1.1\r\n" HOST END, 401 },
    { "GET / HTTP/1.1\r\n" HOST "Cookie: token=%s\r\n" END, 401 },
    { "GET / HTTP/1.1\r\n" HOST "Cookie: vpipe_1=%s\r\n" END, 401 },
    { "GET /metrics HTTP/1.1\r\n" HOST "Authorization: Basic %s\r\n" END, 401 },
    { "GET /metrics HTTP/1.1\r\n" HOST "Authorization: Bearer %s0\r\n" END,
      401 },
    { "GET /metrics HTTP/1.1\r\n" HOST "Authorization: Bearer\r\n" END, 401 },
    { "GET /../../etc/passwd HTTP/1.1\r\n" HOST
      "Authorization: Bearer %s\r\n" END,
      404 },
    { "GET /%%2e%%2e/dashboard.token HTTP/1.1\r\n" HOST
      "Authorization: Bearer %s\r\n" END,
      404 },
    { "GET /"
      "/metrics HTTP/1.1\r\n" HOST "Authorization: Bearer %s\r\n" END,
      404 },
    { "GET /metrics/ HTTP/1.1\r\n" HOST "Authorization: Bearer %s\r\n" END,
      404 },
    { "GET /status.json HTTP/1.1\r\n" HOST "Authorization: Bearer %s\r\n" END,
      404 },
    { "GET http://localhost/x HTTP/1.1\r\n" HOST
      "Authorization: Bearer %s\r\n" END,
      404 },
    { "GET /METRICS HTTP/1.1\r\n" HOST "Authorization: Bearer %s\r\n" END,
      404 },
    { "GET  /metrics\r\n" END, 0 },
    { "GET / HTTP/9.9\r\n" HOST END, 0 },
    { "GET / HTTP/1.1\nHost: localhost\n\n", 401 },
};
enum { N_KINDS = sizeof(requests) / sizeof(requests[0]) };

static void send_request(int i)
{
    char text[1024];
    int status, n;

    /* Each %s is the token. */
    n = snprintf(text, sizeof(text), requests[i].text, token, token);
    status = ask(text, (size_t)n);
    if (status < 0 || status == 200 || status == 303 ||
        (requests[i].status > 0 && status != requests[i].status))
        complain("status %d, not %d: %.60s", status, requests[i].status, text);
    if (strstr(answer, token))
        complain("the token is in the answer to: %.60s", text);
}

/* A request line, headers without an end, and a header line, each longer than
 * the server's buffer. */
static void send_huge(int kind)
{
    static char text[HUGE_BYTES];
    size_t n = (size_t)snprintf(text, sizeof(text),
                                kind == 0 ? "GET /"
                                          : "GET /metrics HTTP/1.1\r\n" HOST);
    int status;

    while (kind == 1 && n + 16 < sizeof(text))
        n += (size_t)snprintf(text + n, sizeof(text) - n, "X%zu: y\r\n", n);
    if (kind != 1)
        memset(text + n, 'a', sizeof(text) - n);
    status = ask(text, kind == 1 ? n : sizeof(text));
    if (status < 0 || (status != 0 && status < 400))
        complain("status %d for a huge request %d", status, kind);
}

/* ---- Clients that stop halfway ------------------------------------------ */

static void hold_stuck(int n)
{
    static const char *const starts[] = {
        "",
        "GET",
        "\r\n\r\n\r\n",
        "\x16\x03\x01\x02\x01\x01\xfc\x03\x03",
        "GET / HTTP/1.1\r\nHost: local",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 100\r\n",
        /* Reads no byte of the event stream. */
        "GET /events?from=0 HTTP/1.1\r\n" HOST
        "Authorization: Bearer %s\r\n" END,
    };
    enum { N_STARTS = sizeof(starts) / sizeof(starts[0]) };
    const struct timespec hold = { .tv_sec = 2 };
    int *fds = calloc((size_t)n, sizeof(*fds));
    char text[512];

    for (int i = 0; fds && i < n; i++) {
        fds[i] = connect_there(2048);
        snprintf(text, sizeof(text), starts[i % N_STARTS], token);
        if (fds[i] >= 0)
            (void)!send(fds[i], text, strlen(text), MSG_NOSIGNAL);
    }
    nanosleep(&hold, NULL);
    for (int i = 0; fds && i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(fds);
}

/* ---- A good client ------------------------------------------------------ */

static void get_metrics(const char *when)
{
    static struct prom_text checked;
    const char *body;
    char text[512];
    int status, n = snprintf(text, sizeof(text),
                             "GET /metrics HTTP/1.1\r\n" HOST
                             "Authorization: Bearer %s\r\n"
                             "Connection: close\r\n" END,
                             token);

    status = ask(text, (size_t)n);
    body = strstr(answer, "\r\n\r\n");
    if (status != 200 || !body)
        complain("%s: status %d for /metrics", when, status);
    else if (!prom_check(body + 4, &checked))
        complain("%s: /metrics: %s", when, checked.why);
    else if (checked.n_samples < 20)
        complain("%s: only %d samples", when, checked.n_samples);
}

static bool read_token(const char *path)
{
    FILE *f = fopen(path, "r");
    bool good = f && fgets(token, sizeof(token), f);

    token[strcspn(token, "\n")] = '\0';
    if (f)
        fclose(f);
    return good && strlen(token) == TOKEN;
}

int main(int argc, char **argv)
{
    int n_requests, n_stuck;

    if (argc != 5 || !read_token(argv[2])) {
        printf("usage: hostile PORT TOKEN-FILE N_REQUESTS N_STUCK\n");
        return 2;
    }
    port = (int)strtol(argv[1], NULL, 10);
    n_requests = (int)strtol(argv[3], NULL, 10);
    n_stuck = (int)strtol(argv[4], NULL, 10);
    get_metrics("before");
    for (int i = 0; i < n_requests; i++) {
        if (i % 50 < 3)
            send_huge(i % 50);
        else
            send_request(i % N_KINDS);
    }
    hold_stuck(n_stuck);
    get_metrics("after");
    printf("hostile: %d requests, %d stuck, %d failures\n", n_requests, n_stuck,
           n_failures);
    return n_failures > 0;
}
