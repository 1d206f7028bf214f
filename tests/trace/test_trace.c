/* The timeline of a run: recorder, window, sums, files, pictures. */
#include "base/clock.h"
#include "base/rng.h"
#include "trace/trace.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { MS = 1000000, MAX_RANKS = 8, MAX_STAGES = 8 };

/* ---- Timelines by hand -------------------------------------------------- */

/* One event in milliseconds; `kind` as in the terminal, small: evaluation. */
struct act {
    int rank;
    const char *kind;
    int stage, mb;
    double start, end, wait;
};

static const char *const kind_names[VP_ACTION_KIND_COUNT] = {
    "F",        "R",         "B",         "W",         "SEND_ACT",
    "RECV_ACT", "SEND_GRAD", "RECV_GRAD", "REDUCE",    "UPDATE",
    "SWAP_OUT", "SWAP_FREE", "SWAP_IN",   "SWAP_READY"
};

static struct vp_trace_event event_of(const struct act *act)
{
    struct vp_trace_event event = { .start_ns = (int64_t)(act->start * MS),
                                    .end_ns = (int64_t)(act->end * MS),
                                    .wait_ns = (int64_t)(act->wait * MS),
                                    .mb = act->mb,
                                    .stage = (int16_t)act->stage,
                                    .eval = strcmp(act->kind, "f") == 0 };

    for (int k = 0; k < VP_ACTION_KIND_COUNT; k++)
        if (strcmp(kind_names[k], event.eval ? "F" : act->kind) == 0)
            event.kind = (uint8_t)k;
    return event;
}

static const struct vp_trace_stage stages_by_hand[MAX_STAGES] = {
    { 1000, 10, 0 }, { 2000, 20, 200 }, { 3000, 30, 0 }, { 4000, 40, 0 },
    { 5000, 50, 0 }, { 6000, 60, 0 },   { 7000, 70, 0 }, { 8000, 80, 700 },
};

static void collect(const struct act *acts, int n_acts, int capacity,
                    int n_ranks, int n_stages, struct vp_trace *out)
{
    struct vp_recorder *recorders[MAX_RANKS] = { NULL };
    struct vp_err err = { .text = "" };

    for (int r = 0; r < n_ranks; r++)
        assert_int_equal(vp_recorder_create(capacity, &recorders[r]), VP_OK);
    for (int i = 0; i < n_acts; i++)
        vp_recorder_add(recorders[acts[i].rank], event_of(&acts[i]));
    assert_int_equal(
        vp_trace_collect("by hand",
                         (const struct vp_recorder *const *)recorders, n_ranks,
                         stages_by_hand, n_stages, out, &err),
        VP_OK);
    for (int r = 0; r < n_ranks; r++)
        vp_recorder_free(recorders[r]);
}

#define COLLECT(acts, n_ranks, n_stages, out) \
    collect(acts, (int)VP_COUNT_OF(acts), 64, n_ranks, n_stages, out)

/* 1f1b, two stages, two minibatches: 9 ms from the clock's 100 on. */
static const struct act pipeline[] = {
    { 0, "F", 0, 0, 100, 101, 0 },
    { 0, "SEND_ACT", 0, 0, 101, 101, 0 },
    { 0, "F", 0, 1, 101, 102, 0 },
    { 0, "SEND_ACT", 0, 1, 102, 102, 0 },
    { 0, "RECV_GRAD", 0, 0, 102, 104, 2 },
    { 0, "B", 0, 0, 104, 106, 0 },
    { 0, "RECV_GRAD", 0, 1, 106, 107, 1 },
    { 0, "B", 0, 1, 107, 109, 0 },
    { 1, "RECV_ACT", 1, 0, 100.5, 101, 0.5 },
    { 1, "F", 1, 0, 101, 102, 0 },
    { 1, "B", 1, 0, 102, 104, 0 },
    { 1, "SEND_GRAD", 1, 0, 104, 104, 0 },
    { 1, "F", 1, 1, 104, 105.5, 0.5 },
    { 1, "B", 1, 1, 105.5, 107, 0 },
    { 1, "SEND_GRAD", 1, 1, 107, 107, 0 },
};

/* A trace that looks like a run: every rank busy with anything. */
static void make_random(struct vp_trace *out, uint32_t seed, int n_ranks,
                        int n_stages, int n_events)
{
    struct vp_recorder *recorders[MAX_RANKS];
    struct vp_err err = { .text = "" };
    uint32_t i = 0;

    for (int r = 0; r < n_ranks; r++) {
        int64_t now = 123456789;

        assert_int_equal(vp_recorder_create(n_events, &recorders[r]), VP_OK);
        for (int k = 0; k < n_events; k++) {
            struct vp_rng4 x = vp_rng(seed, VP_RNG_TEST, 1, i++, 0, 0);
            struct vp_trace_event e = { .mb = (int32_t)(x.v[0] % 100) };
            int64_t n_ns = x.v[2] % 2000000;

            e.stage = (int16_t)(x.v[1] % (uint32_t)n_stages);
            e.kind = (uint8_t)(x.v[1] / 256 % VP_ACTION_KIND_COUNT);
            e.start_ns = now + x.v[3] % 1000;
            e.end_ns = now = e.start_ns + n_ns;
            e.wait_ns = n_ns > 0 ? x.v[3] % (uint32_t)n_ns : 0;
            e.eval = e.kind == VP_ACTION_F && x.v[0] % 7 == 0;
            vp_recorder_add(recorders[r], e);
        }
    }
    assert_int_equal(
        vp_trace_collect("random", (const struct vp_recorder *const *)recorders,
                         n_ranks, stages_by_hand, n_stages, out, &err),
        VP_OK);
    for (int r = 0; r < n_ranks; r++)
        vp_recorder_free(recorders[r]);
}

/* ---- The recorder ------------------------------------------------------- */

static void test_ring(void **state)
{
    struct vp_recorder *recorder;

    (void)state;
    assert_int_equal(sizeof(struct vp_trace_event), 32);
    assert_int_equal(vp_recorder_create(5, &recorder), VP_OK);
    for (int n = 0; n <= 30; n++) {
        const struct vp_recorder *list[] = { recorder };
        struct vp_trace trace;
        int kept = n < 8 ? n : 8; /* 5 rounded up */

        assert_int_equal(
            vp_trace_collect("r", list, 1, stages_by_hand, 1, &trace, NULL),
            VP_OK);
        assert_int_equal(trace.ranks[0].n_events, kept);
        for (int i = 0; i < kept; i++) {
            assert_int_equal(trace.ranks[0].events[i].mb, n - kept + i);
            assert_int_equal(trace.ranks[0].events[i].start_ns, 10 * i);
        }
        assert_int_equal(trace.begin_ns, 0);
        assert_int_equal(trace.end_ns, kept > 0 ? 10 * kept - 3 : 0);
        vp_trace_release(&trace);
        vp_recorder_add(recorder,
                        (struct vp_trace_event){ .start_ns = 1000 + 10 * n,
                                                 .end_ns = 1007 + 10 * n,
                                                 .mb = n });
    }
    vp_recorder_free(recorder);
    vp_recorder_free(NULL);
}

static void test_cost(void **state)
{
    enum { N = 10000000 };
    struct vp_recorder *recorder;
    double best = 1e9;

    (void)state;
    if (SANITIZED) {
        print_message("skipped: sanitizers change what an event costs\n");
        skip();
    }
    assert_int_equal(vp_recorder_create(4096, &recorder), VP_OK);
    for (int round = 0; round < 3; round++) {
        int64_t start = vp_clock_ns();
        double ns;

        for (int i = 0; i < N; i++)
            vp_recorder_add(recorder,
                            (struct vp_trace_event){ .start_ns = i,
                                                     .end_ns = i + 1,
                                                     .mb = i,
                                                     .stage = (int16_t)(i & 7),
                                                     .kind = VP_ACTION_B });
        ns = (double)(vp_clock_ns() - start) / N;
        best = ns < best ? ns : best;
    }
    assert_int_equal(recorder->n, 3 * (uint64_t)N);
    assert_int_equal(recorder->events[5].kind, VP_ACTION_B);
    if (best > 20.0)
        fail_msg("%.1f ns for one event", best);
    vp_recorder_free(recorder);
}

/* ---- The window --------------------------------------------------------- */

/* Rank 0 lost its first events, so nothing is known before 6 ms; what rank 1
 * did then is cut there. */
static void test_window(void **state)
{
    static const struct act acts[] = {
        { 0, "F", 0, 0, 0, 2, 0 },  { 0, "F", 0, 1, 2, 6, 0 },
        { 0, "F", 0, 2, 6, 8, 0 },  { 0, "F", 0, 3, 8, 9, 0 },
        { 0, "F", 0, 4, 9, 10, 0 }, { 0, "F", 0, 5, 10, 11, 0 },
        { 1, "F", 1, 0, 2, 6, 0 },  { 1, "RECV_ACT", 1, 1, 5, 9, 3 },
        { 1, "F", 1, 1, 9, 12, 0 },
    };
    struct vp_trace trace;
    const struct vp_trace_event *e;

    (void)state;
    collect(acts, (int)VP_COUNT_OF(acts), 4, 2, 2, &trace);
    assert_int_equal(trace.begin_ns, 0);
    assert_int_equal(trace.end_ns, 6 * MS);
    assert_int_equal(trace.ranks[0].n_events, 4);
    assert_int_equal(trace.ranks[0].events[0].start_ns, 0);
    assert_int_equal(trace.ranks[0].events[0].mb, 2);
    assert_int_equal(trace.ranks[1].n_events, 2);
    e = trace.ranks[1].events;
    assert_int_equal(e->start_ns, 0);
    assert_int_equal(e->end_ns, 3 * MS);
    assert_int_equal(e->wait_ns, 2 * MS);
    vp_trace_release(&trace);
}

static void test_sum(void **state)
{
    struct vp_trace_times times[2];
    struct vp_trace trace;
    double bubble;
    char text[32];

    (void)state;
    COLLECT(pipeline, 2, 2, &trace);
    assert_int_equal(trace.end_ns - trace.begin_ns, 9 * MS);
    bubble = vp_trace_sum(&trace, times);
    assert_int_equal(times[0].busy_ns, 6 * MS);
    assert_int_equal(times[0].wait_ns, 3 * MS);
    assert_float_equal(times[0].bubble, 1.0 - 6.0 / 9.0, 1e-12);
    assert_int_equal(times[1].busy_ns, 5.5 * MS);
    assert_int_equal(times[1].wait_ns, 1 * MS);
    assert_float_equal(times[1].bubble, 1.0 - 5.5 / 9.0, 1e-12);
    assert_float_equal(bubble, 1.0 - 11.5 / 18.0, 1e-12);
    assert_true(vp_trace_has_stage(&trace, 1, 1));
    assert_false(vp_trace_has_stage(&trace, 1, 0));
    vp_trace_list_stages(&trace, 1, text, sizeof(text));
    assert_string_equal(text, "stage 1");
    vp_trace_release(&trace);
}

/* ---- Memory ------------------------------------------------------------- */

static void check_memory(const struct vp_trace *trace, int rank, int stage,
                         const double (*want)[2], int n_want)
{
    struct vp_trace_point *points;
    int n;

    assert_int_equal(vp_trace_memory(trace, rank, stage, &points, &n), VP_OK);
    assert_int_equal(n, n_want);
    for (int i = 0; i < n_want; i++) {
        assert_int_equal(points[i].ns, (int64_t)(want[i][0] * MS));
        assert_int_equal(points[i].bytes, (int64_t)want[i][1]);
    }
    free(points);
}

#define CHECK_MEMORY(trace, rank, stage, want) \
    check_memory(trace, rank, stage, want, (int)VP_COUNT_OF(want))

static void test_memory(void **state)
{
    static const double rank0[][2] = {
        { 0, 1000 }, { 0, 1010 }, { 1, 1020 }, { 6, 1010 }, { 9, 1000 },
    };
    static const double rank1[][2] = {
        { 0, 2000 }, { 1, 2020 }, { 4, 2000 }, { 4, 2020 }, { 7, 2000 },
    };
    struct vp_trace trace;

    (void)state;
    COLLECT(pipeline, 2, 2, &trace);
    CHECK_MEMORY(&trace, 0, 0, rank0);
    CHECK_MEMORY(&trace, 0, -1, rank0);
    CHECK_MEMORY(&trace, 1, 1, rank1);
    vp_trace_release(&trace);
}

/* Stage 0 is split: W frees, and minibatch 4 was in flight before. Stage 2 is
 * not: B frees. The evaluation keeps nothing. Minibatch 6 stays. */
static void test_memory_split(void **state)
{
    static const struct act acts[] = {
        { 0, "B", 0, 4, 0, 1, 0 }, { 0, "F", 0, 5, 1, 2, 0 },
        { 0, "f", 0, 7, 2, 3, 0 }, { 0, "W", 0, 4, 3, 4, 0 },
        { 0, "F", 2, 5, 4, 5, 0 }, { 0, "B", 2, 5, 5, 6, 0 },
        { 0, "B", 0, 5, 6, 7, 0 }, { 0, "W", 0, 5, 7, 8, 0 },
        { 0, "F", 0, 6, 8, 9, 0 },
    };
    static const double stage0[][2] = {
        { 0, 1010 }, { 1, 1020 }, { 4, 1010 }, { 8, 1000 }, { 8, 1010 },
    };
    static const double stage2[][2] = { { 0, 3000 }, { 4, 3030 }, { 6, 3000 } };
    static const double both[][2] = {
        { 0, 4010 }, { 1, 4020 }, { 4, 4010 }, { 4, 4040 },
        { 6, 4010 }, { 8, 4000 }, { 8, 4010 },
    };
    struct vp_trace trace;
    char text[32];

    (void)state;
    COLLECT(acts, 1, 3, &trace);
    CHECK_MEMORY(&trace, 0, 0, stage0);
    CHECK_MEMORY(&trace, 0, 2, stage2);
    CHECK_MEMORY(&trace, 0, -1, both);
    vp_trace_list_stages(&trace, 0, text, sizeof(text));
    assert_string_equal(text, "stages 0, 2");
    vp_trace_list_stages(&trace, 0, text, 9);
    assert_string_equal(text, "stages 0");
    vp_trace_release(&trace);
}

/* ---- The last minibatches ----------------------------------------------- */

static void test_keep_last(void **state)
{
    static const struct act acts[] = {
        { 0, "F", 0, 0, 0, 2, 0 },    { 0, "F", 0, 1, 2, 4, 0 },
        { 0, "F", 0, 2, 4, 6, 0 },    { 0, "UPDATE", 0, 90, 6, 7, 0 },
        { 0, "f", 0, 50, 7, 30, 0 },  { 1, "F", 1, 0, 2, 3, 0 },
        { 1, "F", 1, 1, 3, 6, 1.5 },  { 1, "F", 1, 2, 6, 9, 0 },
        { 1, "f", 1, 50, 10, 40, 5 },
    };
    static const struct {
        int last, n_mb, n0, n1;
        double begin;
    } cases[] = {
        { 1, 1, 3, 2, 4 },       { 2, 2, 4, 3, 2 },         { 3, 3, 5, 3, 0 },
        { 1000000, 3, 5, 3, 0 }, { INT32_MAX, 3, 5, 3, 0 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const struct vp_trace_event *e;
        struct vp_trace trace;

        COLLECT(acts, 2, 2, &trace);
        assert_int_equal(vp_trace_n_minibatches(&trace), 3);
        vp_trace_keep_last(&trace, cases[i].last);
        assert_int_equal(vp_trace_n_minibatches(&trace), cases[i].n_mb);
        assert_int_equal(trace.begin_ns, (int64_t)(cases[i].begin * MS));
        assert_int_equal(trace.end_ns, 9 * MS); /* no evaluation after it */
        assert_int_equal(trace.ranks[0].n_events, cases[i].n0);
        assert_int_equal(trace.ranks[1].n_events, cases[i].n1);
        e = &trace.ranks[0].events[cases[i].n0 - 1];
        assert_true(e->eval);
        assert_int_equal(e->end_ns, 9 * MS);
        if (cases[i].last == 1) {
            e = &trace.ranks[1].events[0];
            assert_int_equal(e->start_ns, 4 * MS);
            assert_int_equal(e->end_ns, 6 * MS);
            assert_int_equal(e->wait_ns, 0.5 * MS);
        }
        vp_trace_release(&trace);
    }
}

/* Whole groups, at least ranks + 4 minibatches. */
static void test_some(void **state)
{
    static const struct {
        int n_ranks, group, want;
    } cases[] = { { 1, 1, 5 }, { 4, 1, 8 }, { 4, 5, 10 },  { 2, 4, 8 },
                  { 2, 8, 8 }, { 2, 6, 6 }, { 2, 32, 32 }, { 3, 10, 10 } };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct act acts[400];
        struct vp_trace trace;
        int n = 0, t = 0;

        for (int mb = 0; mb < 3 * cases[i].group; mb++) {
            acts[n++] = (struct act){ 0, "F", 0, mb, t, t + 1, 0 };
            acts[n++] = (struct act){ 0, "B", 0, mb, t + 1, t + 2, 0 };
            t += 2;
            if ((mb + 1) % cases[i].group == 0) {
                acts[n++] = (struct act){ 0, "UPDATE", 0, mb, t, t + 1, 0 };
                t++;
            }
        }
        collect(acts, n, 512, cases[i].n_ranks, 1, &trace);
        assert_int_equal(vp_trace_some(&trace), cases[i].want);
        vp_trace_release(&trace);
    }
}

/* ---- Files -------------------------------------------------------------- */

struct temp {
    char path[64];
};

static struct temp make_temp(const char *text, size_t n)
{
    struct temp temp = { "/tmp/vpipe-trace-XXXXXX" };
    int fd = mkstemp(temp.path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), (ssize_t)n);
    close(fd);
    return temp;
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text;
    long n;

    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    text = malloc((size_t)n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    text[n] = '\0';
    fclose(f);
    return text;
}

static char *chrome_text(const struct vp_trace *trace)
{
    struct temp temp = make_temp("", 0);
    struct vp_err err = { .text = "" };
    char *text;

    assert_int_equal(vp_trace_write_chrome(trace, temp.path, &err), VP_OK);
    text = read_all(temp.path);
    remove(temp.path);
    return text;
}

static enum vp_status read_text(const char *text, size_t n,
                                struct vp_trace *out, struct vp_err *err)
{
    struct temp temp = make_temp(text, n);
    enum vp_status st = vp_trace_read_chrome(temp.path, out, err);

    remove(temp.path);
    return st;
}

static void assert_same(const struct vp_trace *a, const struct vp_trace *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->n_ranks, b->n_ranks);
    assert_int_equal(a->n_stages, b->n_stages);
    assert_int_equal(a->begin_ns, b->begin_ns);
    assert_int_equal(a->end_ns, b->end_ns);
    assert_memory_equal(a->stages, b->stages,
                        (size_t)a->n_stages * sizeof(*a->stages));
    for (int r = 0; r < a->n_ranks; r++) {
        assert_int_equal(a->ranks[r].number, b->ranks[r].number);
        assert_int_equal(a->ranks[r].n_events, b->ranks[r].n_events);
        for (int i = 0; i < a->ranks[r].n_events; i++) {
            const struct vp_trace_event *x = &a->ranks[r].events[i];
            const struct vp_trace_event *y = &b->ranks[r].events[i];

            assert_int_equal(x->start_ns, y->start_ns);
            assert_int_equal(x->end_ns, y->end_ns);
            assert_int_equal(x->wait_ns, y->wait_ns);
            assert_int_equal(x->mb, y->mb);
            assert_int_equal(x->stage, y->stage);
            assert_int_equal(x->kind, y->kind);
            assert_int_equal(x->eval, y->eval);
        }
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 20; seed++) {
        struct vp_trace trace, again;
        struct vp_err err = { .text = "" };
        char *text;

        make_random(&trace, seed, 1 + (int)seed % 5, 1 + (int)seed % 7,
                    1 + (int)seed * 13);
        for (int r = 0; r < trace.n_ranks; r++)
            trace.ranks[r].number = trace.n_ranks - 1 - r;
        if (seed % 2)
            vp_trace_keep_last(&trace, 40);
        if (seed % 3 == 0)
            snprintf(trace.name, sizeof(trace.name),
                     "a \"run\" \\ of <caf\xC3\xA9>\n");
        text = chrome_text(&trace);
        if (read_text(text, strlen(text), &again, &err) != VP_OK)
            fail_msg("%s", err.text);
        assert_same(&trace, &again);
        free(text);
        vp_trace_release(&trace);
        vp_trace_release(&again);
    }
}

/* Names are cut between characters; one that is no text is left out. */
static void test_names(void **state)
{
    struct vp_recorder *recorder;
    const struct vp_recorder *list[1];
    struct vp_trace trace, again;
    char name[80], *text;

    (void)state;
    assert_int_equal(vp_recorder_create(1, &recorder), VP_OK);
    list[0] = recorder;
    memset(name, 'x', sizeof(name));
    name[62] = '\xC3';
    name[63] = '\xA9';
    name[79] = '\0';
    assert_int_equal(
        vp_trace_collect(name, list, 1, stages_by_hand, 1, &trace, NULL),
        VP_OK);
    assert_int_equal(strlen(trace.name), 62);
    trace.name[0] = '\xFF';
    text = chrome_text(&trace);
    assert_int_equal(read_text(text, strlen(text), &again, NULL), VP_OK);
    assert_string_equal(again.name, "run");
    assert_int_equal(again.ranks[0].n_events, 0);
    free(text);
    vp_trace_release(&trace);
    vp_trace_release(&again);
    vp_recorder_free(recorder);
}

static int count(const char *text, const char *word)
{
    int n = 0;

    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

/* What Chrome and Perfetto make their picture of. */
static void test_chrome(void **state)
{
    static const char *const wanted[] = {
        "\"displayTimeUnit\":\"ms\"",
        "\"name\":\"process_name\",\"args\":{\"name\":\"by hand\"}",
        "\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"rank 0, "
        "stage 0\"}",
        "\"tid\":2,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":1}",
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":4000.000,\"dur\":1500.000,"
        "\"cat\":\"F\",\"name\":\"F1\",\"args\":{\"stage\":1,\"minibatch\":1,"
        "\"wait_ns\":500000}}",
        "{\"ph\":\"s\",\"pid\":1,\"tid\":1,\"ts\":1000.000,\"cat\":\"message\","
        "\"name\":\"activation\",\"id\":\"a1.0\"}",
        "{\"ph\":\"f\",\"bp\":\"e\",\"pid\":1,\"tid\":2,\"ts\":999.999,"
        "\"cat\":\"message\",\"name\":\"activation\",\"id\":\"a1.0\"}",
        "{\"ph\":\"s\",\"pid\":1,\"tid\":2,\"ts\":7000.000,\"cat\":\"message\","
        "\"name\":\"gradient\",\"id\":\"g0.1\"}",
        "{\"ph\":\"C\",\"pid\":1,\"ts\":6000.000,\"name\":\"memory of stage 0 "
        "on rank 0\",\"args\":{\"bytes\":1010}}",
    };
    struct vp_trace trace;
    char *text;

    (void)state;
    COLLECT(pipeline, 2, 2, &trace);
    text = chrome_text(&trace);
    for (size_t i = 0; i < VP_COUNT_OF(wanted); i++)
        if (!strstr(text, wanted[i]))
            fail_msg("no %s in\n%s", wanted[i], text);
    assert_int_equal(count(text, "\"ph\":\"X\""), VP_COUNT_OF(pipeline));
    assert_int_equal(count(text, "\"ph\":\"s\""), 4);
    assert_int_equal(count(text, "\"ph\":\"f\""), 3);
    assert_int_equal(count(text, "\"ph\":\"C\""), 10);
    free(text);
    vp_trace_release(&trace);
}

/* ---- Files that are wrong ----------------------------------------------- */

static const char good[] =
    "{\"otherData\":{\"format\":\"vpipe trace\",\"version\":1,\"name\":\"x\","
    "\"ranks\":2,\"begin_ns\":1000,\"end_ns\":9000,"
    "\"stages\":[{\"base_bytes\":5,\"slot_bytes\":6}]},"
    "\"traceEvents\":["
    "{\"ph\":\"M\",\"name\":\"process_name\"},"
    "{\"ph\":\"X\",\"tid\":2,\"ts\":1,\"dur\":2.5,\"cat\":\"F\",\"name\":"
    "\"F0\",\"args\":{\"stage\":0,\"minibatch\":7,\"wait_ns\":100}},"
    "{\"ph\":\"X\",\"tid\":2,\"ts\":3.5,\"dur\":1,\"cat\":\"B\","
    "\"args\":{\"stage\":0,\"minibatch\":7,\"wait_ns\":0}}]}";

static char *replace(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    size_t room = strlen(text) + strlen(to) + 1;
    char *out = malloc(room);

    assert_non_null(at);
    assert_non_null(out);
    snprintf(out, room, "%.*s%s%s", (int)(at - text), text, to,
             at + strlen(from));
    return out;
}

static void assert_one_line(const struct vp_err *err)
{
    assert_true(err->text[0] != '\0');
    for (const char *c = err->text; *c; c++)
        assert_true((unsigned char)*c >= ' ');
}

static void test_malformed(void **state)
{
    static const struct {
        const char *from, *to, *cause;
    } cases[] = {
        { "{\"other", "\"other", "not JSON" },
        { ",\"traceEvents\"", ",\"otherData\":1,\"traceEvents\"", "not JSON" },
        { "\"x\"", "\"\x01\n\"", "not JSON" },
        { "otherData", "elseData", "not a trace of vpipe" },
        { "vpipe trace", "other trace", "not a trace of vpipe" },
        { "\"format\":\"vpipe trace\"", "\"format\":[1]", "not a trace" },
        { "\"version\":1", "\"version\":2", "'version' must be 1" },
        { "\"version\":1", "\"version\":1.0", "'version' must be a whole" },
        { "\"ranks\":2", "\"ranks\":0", "'ranks' must be at least 1" },
        { "\"ranks\":2", "\"ranks\":4097", "'ranks'" },
        { "\"ranks\":2", "\"ranks\":-1", "'ranks'" },
        { "\"ranks\":2", "\"ranks\":1", "event 2: 'tid'" },
        { "\"ranks\":2", "\"ranks\":\"2\"", "'ranks'" },
        { "\"stages\"", "\"rank_numbers\":[1],\"stages\"",
          "a number per rank" },
        { "\"stages\"", "\"rank_numbers\":3,\"stages\"", "a number per rank" },
        { "\"stages\"", "\"rank_numbers\":[1,-1],\"stages\"", "whole numbers" },
        { "\"stages\"", "\"rank_numbers\":[4096,0],\"stages\"",
          "whole numbers" },
        { "\"stages\"", "\"rank_numbers\":[1,\"0\"],\"stages\"", "whole numb" },
        { "\"begin_ns\":1000", "\"begin_ns\":9001", "'end_ns'" },
        { "\"begin_ns\":1000", "\"begin_ns\":1001", "event 2: 'ts'" },
        { "\"begin_ns\":1000", "\"begin_ns\":-1", "'begin_ns'" },
        { "\"end_ns\":9000", "\"end_ns\":4499", "event 3: 'dur'" },
        { "\"end_ns\":9000", "\"end_ns\":9000000000000000000", "'end_ns'" },
        { "{\"base_bytes\":5,\"slot_bytes\":6}", "", "'stages'" },
        { "[{\"base_bytes\":5,\"slot_bytes\":6}]", "{}", "'stages'" },
        { "{\"base_bytes\":5,\"slot_bytes\":6}", "5", "stage 0: 'base" },
        { "\"slot_bytes\":6", "\"slot_bytes\":6.5", "stage 0: 'slot" },
        { "\"slot_bytes\":6", "\"slot_bytes\":1e30", "'slot_bytes'" },
        { "\"slot_bytes\":6", "\"slot_bytes\":6,\"host_bytes\":-1",
          "stage 0: 'host" },
        { "traceEvents", "events", "'traceEvents' must be a list" },
        { "{\"ph\":\"M\",\"name\":\"process_name\"}", "7", "event 1: 'ph'" },
        { "\"ph\":\"M\"", "\"ph\":\"Q\"", "event 1: 'ph'" },
        { "\"ph\":\"M\"", "\"ph\":\"\"", "event 1: 'ph'" },
        { "\"ph\":\"M\"", "\"ph\":\"MM\"", "event 1: 'ph'" },
        { "\"tid\":2", "\"tid\":0", "event 2: 'tid'" },
        { "\"tid\":2", "\"tid\":3", "event 2: 'tid'" },
        { "\"ts\":1,", "\"ts\":-1,", "event 2: 'ts'" },
        { "\"ts\":1,", "\"ts\":\"1\",", "event 2: 'ts'" },
        { "\"ts\":1,", "\"ts\":1e300,", "event 2: 'ts'" },
        { "\"ts\":1,", "\"ts\":0.999,", "event 2: 'ts'" },
        { "\"ts\":3.5", "\"ts\":3.499", "event 3: 'ts'" },
        { "\"dur\":2.5", "\"dur\":null", "event 2: 'dur'" },
        { "\"dur\":2.5", "\"dur\":9", "event 2: 'dur'" },
        { "\"dur\":2.5", "\"dur\":1e300", "event 2: 'dur'" },
        { "\"cat\":\"F\"", "\"cat\":\"Z\"", "event 2: 'cat'" },
        { "\"cat\":\"F\"", "\"cat\":3", "event 2: 'cat'" },
        { "\"cat\":\"F\"", "\"cat\":\"E\"", "event 2: 'cat'" },
        { "\"stage\":0", "\"stage\":1", "event 2: 'stage'" },
        { "\"stage\":0", "\"stage\":-1", "event 2: 'stage'" },
        { "\"minibatch\":7", "\"minibatch\":2147483647", "'minibatch'" },
        { "\"wait_ns\":100", "\"wait_ns\":2501", "event 2: 'wait_ns'" },
        { "\"args\":{", "\"arks\":{", "event 2: 'stage'" },
    };
    struct vp_trace trace;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(read_text(good, strlen(good), &trace, &err), VP_OK);
    assert_int_equal(trace.ranks[1].n_events, 2);
    assert_int_equal(trace.ranks[1].events[1].start_ns, 3500);
    vp_trace_release(&trace);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char *text = replace(good, cases[i].from, cases[i].to);

        err.text[0] = '\0';
        if (read_text(text, strlen(text), &trace, &err) != VP_ERR_INVALID)
            fail_msg("accepted: %s", text);
        if (!strstr(err.text, cases[i].cause))
            fail_msg("%s -> %s: %s", cases[i].from, cases[i].to, err.text);
        assert_one_line(&err);
        free(text);
    }
}

static void use(const struct vp_trace *trace)
{
    struct vp_trace_times *times = calloc((size_t)trace->n_ranks,
                                          sizeof(*times));
    double bubble = vp_trace_sum(trace, times);
    char *text;

    assert_true(bubble >= 0.0 && bubble <= 1.0);
    for (int r = 0; r < trace->n_ranks; r++)
        assert_true(times[r].bubble >= 0.0 && times[r].bubble <= 1.0);
    free(times);
    assert_int_equal(vp_trace_terminal(trace, 80, true, &text), VP_OK);
    free(text);
    assert_int_equal(vp_trace_svg(trace, NULL, &text), VP_OK);
    free(text);
}

/* Whatever is in the file: a trace that can be used, or one line. */
static void test_mutations(void **state)
{
    static const char bytes[] = "0123456789-.eE\"{}[],:\\nulltrueXMF\x80\x01";
    struct vp_trace original;
    char *clean;
    size_t n;
    int n_read = 0;

    (void)state;
    make_random(&original, 77, 2, 3, 4);
    clean = chrome_text(&original);
    vp_trace_release(&original);
    n = strlen(clean);
    for (uint32_t i = 0; i < 4000; i++) {
        struct vp_rng4 x = vp_rng(5, VP_RNG_TEST, 2, i, 0, 0);
        size_t length = x.v[0] % 8 == 0 ? x.v[1] % n : n;
        char *text = malloc(n + 1);
        struct vp_err err = { .text = "" };
        struct vp_trace trace;

        memcpy(text, clean, n + 1);
        for (uint32_t k = 0; k <= x.v[2] % 3; k++) {
            struct vp_rng4 y = vp_rng(5, VP_RNG_TEST, 3, i, k, 0);

            text[y.v[0] % n] = bytes[y.v[1] % (sizeof(bytes) - 1)];
        }
        if (read_text(text, length, &trace, &err) == VP_OK) {
            n_read++;
            use(&trace);
            vp_trace_keep_last(&trace, 1 + (int)(x.v[3] % 4));
            use(&trace);
            vp_trace_release(&trace);
        } else {
            assert_one_line(&err);
        }
        free(text);
    }
    free(clean);
    assert_in_range(n_read, 100, 3000); /* both happen */
}

static void test_bad_paths(void **state)
{
    struct vp_trace trace;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_trace_read_chrome("/tmp/no/such", &trace, &err),
                     VP_ERR_IO);
    assert_non_null(strstr(err.text, "/tmp/no/such: cannot be read"));
    assert_int_equal(vp_trace_read_chrome("/tmp", &trace, &err),
                     VP_ERR_INVALID);
    assert_one_line(&err);
    COLLECT(pipeline, 2, 2, &trace);
    assert_int_equal(vp_trace_write_chrome(&trace, "/tmp/no/such", &err),
                     VP_ERR_IO);
    assert_non_null(strstr(err.text, "/tmp/no/such: cannot be written"));
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(vp_trace_write_chrome(&trace, "/dev/full", &err),
                         VP_ERR_IO);
        assert_non_null(strstr(err.text, "/dev/full: cannot be written"));
        assert_one_line(&err);
        assert_int_equal(access("/dev/full", W_OK), 0); /* still there */
    }
    vp_trace_release(&trace);
}

/* ---- The terminal ------------------------------------------------------- */

/* 42 columns on a time of 42 / 2 ms: two columns per millisecond. */
static void test_terminal(void **state)
{
    static const struct act acts[] = {
        { 0, "F", 0, 8, 0, 2, 0 },
        { 0, "R", 0, 12, 2, 4.5, 0 },
        { 0, "B", 0, 12, 6.5, 10, 0 },
        { 0, "UPDATE", 0, 3, 10, 10.4, 0 }, /* the most of a column */
        { 0, "F", 0, 13, 10.4, 10.5, 0 },
        { 0, "F", 0, 14, 10.6, 10.8, 0 }, /* less than half of one */
        { 1, "RECV_ACT", 1, 8, 0, 2, 2 },
        { 1, "F", 1, 8, 2, 6, 1 },
        { 1, "B", 1, 8, 6, 10, 0 },
        { 1, "REDUCE", 1, 3, 10, 12, 0 },
        { 1, "f", 1, 8, 18, 21, 0 },
    };
    static const char want[] =
        "rank 0   F8  R12  ....B12    U.....................   58.6 %\n"
        "rank 1   ......F8    B8      +3  ............E8       42.9 %\n"
        "         0                                    21 ms    bubble\n"
        "         F forward  R recompute  B backward  + reduce\n"
        "         U update  E evaluation  . idle\n";
    struct vp_trace trace;
    char *text;

    (void)state;
    COLLECT(acts, 2, 2, &trace);
    assert_int_equal(vp_trace_terminal(&trace, 61, false, &text), VP_OK);
    assert_string_equal(text, want);
    free(text);
    vp_trace_release(&trace);
}

static void strip_colours(char *text)
{
    char *out = text;

    while (*text) {
        if (*text == '\x1b')
            text += strcspn(text, "m") + 1;
        else
            *out++ = *text++;
    }
    *out = '\0';
}

/* Colours change nothing else, and no row is too long. */
static void test_colours(void **state)
{
    (void)state;
    for (int width = 1; width < 200; width += 7) {
        struct vp_trace trace;
        char *plain, *colour;

        make_random(&trace, (uint32_t)width, 3, 4, 60);
        assert_int_equal(vp_trace_terminal(&trace, width, false, &plain),
                         VP_OK);
        assert_int_equal(vp_trace_terminal(&trace, width, true, &colour),
                         VP_OK);
        assert_non_null(strstr(colour, "\x1b[0;38;5;16;48;5;"));
        assert_null(strchr(plain, '\x1b'));
        strip_colours(colour);
        assert_string_equal(plain, colour);
        for (int row = 0; row < 4; row++) {
            assert_true(strcspn(plain, "\n") <=
                        (size_t)(width > 40 ? width : 40));
            memmove(plain, strchr(plain, '\n') + 1,
                    strlen(strchr(plain, '\n') + 1) + 1);
        }
        free(plain);
        free(colour);
        vp_trace_release(&trace);
    }
}

/* ---- The drawing -------------------------------------------------------- */

/* Every tag is closed, in order; attributes have quotes; no stray < or &. */
static void check_xml(const char *text)
{
    char open[16][16];
    int depth = 0;

    while (*text) {
        size_t n, name;
        bool closing;

        if (*text == '&')
            assert_true(strncmp(text, "&amp;", 5) == 0 ||
                        strncmp(text, "&lt;", 4) == 0 ||
                        strncmp(text, "&gt;", 4) == 0);
        assert_true(*text != '>');
        if (*text != '<') {
            text++;
            continue;
        }
        closing = text[1] == '/';
        text += 1 + closing;
        n = strcspn(text, "<>");
        assert_true(text[n] == '>');
        name = strspn(text, "abcdefghijklmnopqrstuvwxyz");
        assert_in_range(name, 1, 15);
        if (closing) {
            assert_true(depth > 0 && name == n);
            assert_memory_equal(open[--depth], text, name);
            assert_int_equal(open[depth][name], '\0');
        } else if (text[n - 1] != '/') {
            assert_true(depth < 16);
            snprintf(open[depth++], 16, "%.*s", (int)name, text);
        }
        text += n + 1;
    }
    assert_int_equal(depth, 0);
}

static void test_svg(void **state)
{
    static const char *const wanted[] = {
        ">two &lt;stages&gt; &amp; more</text>",
        "2 minibatches in 9 ms on 2 ranks: 36.1 % of their time",
        ">rank 1</text>",
        ">stage 1</text>",
        ">33.3 %</text>", /* bubbles */
        ">38.9 %</text>",
        ">forward</text>",
        ">backward</text>",
        ">waiting</text>",
        "<title>F1 of stage 1: 1 ms</title>",
        "<title>F1 of stage 1 waits 0.5 ms</title>",
        "<title>RECV_GRAD0 of stage 0 waits 2 ms</title>",
        ">1020 B</text>", /* peaks */
        ">1.97 KiB</text>",
        ">host 200 B</text>",
    };
    struct vp_trace trace;
    char *text;

    (void)state;
    COLLECT(pipeline, 2, 2, &trace);
    assert_int_equal(vp_trace_svg(&trace, "two <stages> & more", &text), VP_OK);
    check_xml(text);
    for (size_t i = 0; i < VP_COUNT_OF(wanted); i++)
        if (!strstr(text, wanted[i]))
            fail_msg("no %s in\n%s", wanted[i], text);
    assert_null(strstr(text, ">recompute</text>"));
    assert_int_equal(count(text, "fill=\"#3b82f6\""), 1 + 4);
    assert_int_equal(count(text, "fill=\"#10a37f\""), 1 + 4);
    assert_int_equal(count(text, "fill=\"#dde5f0\""), 1 + 4);
    assert_int_equal(count(text, "<path"), 2);
    free(text);
    memset(trace.stages, 0, 2 * sizeof(*trace.stages));
    assert_int_equal(vp_trace_svg(&trace, NULL, &text), VP_OK);
    check_xml(text);
    assert_non_null(strstr(text, ">by hand</text>"));
    assert_null(strstr(text, "<path"));
    free(text);
    vp_trace_release(&trace);
}

/* Ranks stand in the order of the schedule, under the user's numbers. */
static void test_numbers(void **state)
{
    struct vp_trace trace;
    const char *first;
    char *text;

    (void)state;
    COLLECT(pipeline, 2, 2, &trace);
    assert_int_equal(trace.ranks[1].number, 1);
    trace.ranks[0].number = 5;
    trace.ranks[1].number = 3;
    assert_int_equal(vp_trace_terminal(&trace, 61, false, &text), VP_OK);
    assert_ptr_equal(strstr(text, "rank 5 "), text);
    assert_non_null(strstr(text, "\nrank 3 "));
    free(text);
    assert_int_equal(vp_trace_svg(&trace, NULL, &text), VP_OK);
    first = strstr(text, ">rank 5</text>");
    assert_non_null(first);
    assert_true(strstr(text, ">rank 3</text>") > first);
    assert_int_equal(count(text, ">rank 5</text>"), 2); /* memory, too */
    assert_int_equal(count(text, ">rank 0</text>"), 0);
    free(text);
    text = chrome_text(&trace);
    assert_non_null(strstr(text, "\"rank_numbers\":[5,3]"));
    assert_non_null(strstr(text, "\"name\":\"rank 5, stage 0\""));
    assert_non_null(strstr(text, "memory of stage 1 on rank 3\""));
    free(text);
    vp_trace_release(&trace);
}

/* Boxes do not leave their lane, whatever the run. */
static void test_svg_bounds(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 30; seed++) {
        struct vp_trace trace;
        double width, x, y, w;
        char *text;

        make_random(&trace, seed, 1 + (int)seed % 8, 8, 1 + (int)seed * 20);
        assert_int_equal(vp_trace_svg(&trace, NULL, &text), VP_OK);
        check_xml(text);
        assert_int_equal(
            sscanf(strstr(text, "width=\""), "width=\"%lf\"", &width), 1);
        for (const char *at = text; (at = strstr(at, "<rect x=\"")); at++)
            if (sscanf(at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\"", &x, &y,
                       &w) == 3)
                assert_true(x >= 127.99 && w >= 0 && x + w <= width - 91.98);
        free(text);
        vp_trace_release(&trace);
    }
}

static void test_empty(void **state)
{
    struct vp_trace_times times[2];
    struct vp_trace trace;
    char *text;

    (void)state;
    collect(NULL, 0, 4, 2, 2, &trace);
    assert_int_equal(vp_trace_n_minibatches(&trace), 0);
    vp_trace_keep_last(&trace, vp_trace_some(&trace));
    assert_float_equal(vp_trace_sum(&trace, times), 0.0, 0.0);
    assert_int_equal(vp_trace_svg(&trace, NULL, &text), VP_OK);
    check_xml(text);
    free(text);
    assert_int_equal(vp_trace_terminal(&trace, 80, false, &text), VP_OK);
    assert_non_null(strstr(text, "rank 1   ......."));
    free(text);
    vp_trace_release(&trace);
    vp_trace_release(&trace);
}

/* A run that had four stages and then two: the trace has both plans, and shows
 * where the second one begins. */
static void test_new_plan(void **state)
{
    static const struct act acts[] = {
        { 0, "F", 0, 0, 100, 101, 0 }, { 0, "F", 3, 0, 101, 102, 0 },
        { 0, "B", 3, 0, 102, 103, 0 }, { 0, "F", 0, 1, 104, 106, 0 },
        { 0, "B", 0, 1, 106, 108, 0 },
    };
    struct vp_recorder *recorder;
    const struct vp_recorder *list[1];
    struct vp_trace_point *points;
    struct vp_trace trace, again;
    char *text;
    int n;

    (void)state;
    assert_int_equal(vp_recorder_create(64, &recorder), VP_OK);
    for (size_t i = 0; i < VP_COUNT_OF(acts); i++)
        vp_recorder_add(recorder, event_of(&acts[i]));
    recorder->plan_ns = (int64_t)103500 * 1000;
    list[0] = recorder;
    assert_int_equal(
        vp_trace_collect("moved", list, 1, stages_by_hand, 2, &trace, NULL),
        VP_OK);
    assert_int_equal(trace.n_stages, 4);
    assert_int_equal(trace.stages[3].slot_bytes, 0);
    assert_int_equal(trace.plan_ns, 3500000);
    assert_int_equal(vp_trace_memory(&trace, 0, 3, &points, &n), VP_OK);
    free(points);
    text = chrome_text(&trace);
    assert_int_equal(count(text, "\"name\":\"new plan\""), 1);
    assert_int_equal(read_text(text, strlen(text), &again, NULL), VP_OK);
    assert_int_equal(again.plan_ns, 3500000);
    assert_int_equal(again.n_stages, 4);
    free(text);
    assert_int_equal(vp_trace_svg(&again, NULL, &text), VP_OK);
    assert_int_equal(count(text, ">new plan<"), 1);
    free(text);
    vp_trace_keep_last(&again, 1); /* which is after the move */
    assert_int_equal(vp_trace_svg(&again, NULL, &text), VP_OK);
    assert_int_equal(count(text, ">new plan<"), 0);
    free(text);
    vp_trace_release(&trace);
    vp_trace_release(&again);
    vp_recorder_free(recorder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),       cmocka_unit_test(test_cost),
        cmocka_unit_test(test_window),     cmocka_unit_test(test_sum),
        cmocka_unit_test(test_memory),     cmocka_unit_test(test_memory_split),
        cmocka_unit_test(test_keep_last),  cmocka_unit_test(test_some),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_names),
        cmocka_unit_test(test_chrome),     cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_mutations),  cmocka_unit_test(test_bad_paths),
        cmocka_unit_test(test_terminal),   cmocka_unit_test(test_colours),
        cmocka_unit_test(test_svg),        cmocka_unit_test(test_svg_bounds),
        cmocka_unit_test(test_numbers),    cmocka_unit_test(test_empty),
        cmocka_unit_test(test_new_plan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
