#include "lib/tracelib.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Timelines ---------------------------------------------------------- */

static const char *const kind_names[VP_ACTION_KIND_COUNT] = {
    "F",        "R",         "B",         "W",         "SEND_ACT",
    "RECV_ACT", "SEND_GRAD", "RECV_GRAD", "REDUCE",    "UPDATE",
    "SWAP_OUT", "SWAP_FREE", "SWAP_IN",   "SWAP_READY"
};

struct vp_trace_event event_of(const struct act *act)
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

const struct vp_trace_stage stages_by_hand[MAX_STAGES] = {
    { 1000, 10, 0 }, { 2000, 20, 200 }, { 3000, 30, 0 }, { 4000, 40, 0 },
    { 5000, 50, 0 }, { 6000, 60, 0 },   { 7000, 70, 0 }, { 8000, 80, 700 },
};

void collect(const struct act *acts, int n_acts, int capacity, int n_ranks,
             int n_stages, struct vp_trace *out)
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

const struct act pipeline_by_hand[] = {
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

void make_random(struct vp_trace *out, uint32_t seed, int n_ranks, int n_stages,
                 int n_events)
{
    struct vp_recorder *recorders[MAX_RANKS] = { NULL };
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

char *chrome_text(const struct vp_trace *trace)
{
    struct temp temp = make_temp("", 0);
    struct vp_err err = { .text = "" };
    char *text;

    assert_int_equal(vp_trace_write_chrome(trace, temp.path, &err), VP_OK);
    text = read_all(temp.path);
    remove(temp.path);
    return text;
}

enum vp_status read_text(const char *text, size_t n, struct vp_trace *out,
                         struct vp_err *err)
{
    struct temp temp = make_temp(text, n);
    enum vp_status st = vp_trace_read_chrome(temp.path, out, err);

    remove(temp.path);
    return st;
}

int count_in(const char *text, const char *word)
{
    int n = 0;

    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}
