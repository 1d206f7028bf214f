/* The recorder keeps the last events at little cost. The window, the sums and
 * the memory curves of a timeline are right. */
#include "base/clock.h"
#include "base/rng.h"
#include "lib/tracelib.h"
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

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
        int kept = n < 8 ? n : 8; /* the capacity 5 is rounded up to 8 */

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

/* Rank 0 has overwritten its first events, so the window begins at 6 ms; events
 * of rank 1 before that are cut. */
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
    COLLECT(pipeline_by_hand, 2, 2, &trace);
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
    COLLECT(pipeline_by_hand, 2, 2, &trace);
    CHECK_MEMORY(&trace, 0, 0, rank0);
    CHECK_MEMORY(&trace, 0, -1, rank0);
    CHECK_MEMORY(&trace, 1, 1, rank1);
    vp_trace_release(&trace);
}

/* Stage 0 has a separate W, which frees the slot; minibatch 4 was in flight
 * before the window. Stage 2 has none: B frees the slot. An evaluation keeps no
 * slot. Minibatch 6 stays in flight. */
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
        assert_int_equal(trace.end_ns, 9 * MS); /* before the evaluation */
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

/* The timeline shows whole groups, and at least ranks + 4 minibatches. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),      cmocka_unit_test(test_cost),
        cmocka_unit_test(test_window),    cmocka_unit_test(test_sum),
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_memory_split),
        cmocka_unit_test(test_keep_last), cmocka_unit_test(test_some),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
