/* The thread pool runs each task exactly once, misses no wake-up, and gives
 * results that do not depend on the number of threads. A watchdog ends a
 * hanging test. */
#include "base/clock.h"
#include "base/pool.h"
#include "base/rng.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_THREADS = 8, WATCHDOG_SECONDS = 120 };

static const int thread_counts[] = { 1, 2, 3, MAX_THREADS };

static struct vp_pool *pool_of(int n_threads)
{
    struct vp_pool *pool = NULL;

    assert_int_equal(vp_pool_create(n_threads, NULL, NULL, &pool), VP_OK);
    assert_int_equal(vp_pool_threads(pool), n_threads);
    return pool;
}

/* ---- Every task once ---------------------------------------------------- */

enum { MAX_TASKS = 5000 };

/* Plain integers on purpose: each has one writer, and vp_pool_run() must make
 * the writes visible to its caller. */
struct counts {
    int n_threads;
    int runs[MAX_TASKS];
    int thread[MAX_TASKS];
};

static void count_task(void *ctx, int task, int thread)
{
    struct counts *counts = ctx;

    counts->runs[task]++;
    counts->thread[task] = thread;
}

static void check_one_job(struct vp_pool *pool, struct counts *counts,
                          int n_tasks)
{
    memset(counts->runs, 0, sizeof(counts->runs));
    vp_pool_run(pool, n_tasks, count_task, counts);
    for (int i = 0; i < n_tasks; i++) {
        assert_int_equal(counts->runs[i], 1);
        assert_in_range(counts->thread[i], 0, counts->n_threads - 1);
    }
    for (int i = n_tasks < 0 ? 0 : n_tasks; i < MAX_TASKS; i++)
        assert_int_equal(counts->runs[i], 0);
}

static void test_every_task_once(void **state)
{
    static const int large[] = { 100, 127, 128, 1000, 4097, MAX_TASKS };
    static struct counts counts;

    (void)state;
    for (size_t t = 0; t < VP_COUNT_OF(thread_counts); t++) {
        struct vp_pool *pool = pool_of(thread_counts[t]);

        counts.n_threads = thread_counts[t];
        for (int n = -1; n <= 33; n++)
            check_one_job(pool, &counts, n);
        for (size_t i = 0; i < VP_COUNT_OF(large); i++)
            check_one_job(pool, &counts, large[i]);
        vp_pool_free(pool);
    }
}

/* ---- Threads ------------------------------------------------------------ */

static atomic_int setup_calls[MAX_THREADS];

static void count_setup(void *ctx, int thread)
{
    assert_ptr_equal(ctx, setup_calls);
    atomic_fetch_add(&setup_calls[thread], 1);
}

static void do_nothing(void *ctx, int task, int thread)
{
    (void)ctx;
    (void)task;
    (void)thread;
}

static void test_setup_runs_once_per_thread(void **state)
{
    (void)state;
    for (size_t t = 0; t < VP_COUNT_OF(thread_counts); t++) {
        struct vp_pool *pool = NULL;

        memset(setup_calls, 0, sizeof(setup_calls));
        assert_int_equal(
            vp_pool_create(thread_counts[t], count_setup, setup_calls, &pool),
            VP_OK);
        vp_pool_run(pool, 100, do_nothing, NULL);
        vp_pool_free(pool);
        for (int i = 0; i < MAX_THREADS; i++)
            assert_int_equal(setup_calls[i], i > 0 && i < thread_counts[t]);
    }
}

/* Setup function of a worker: returns only once `ctx` is true. The pool must
 * not wait for such a worker. */
static void stay_away(void *ctx, int thread)
{
    (void)thread;
    while (!atomic_load((atomic_bool *)ctx))
        sched_yield();
}

static void test_late_workers_are_not_waited_for(void **state)
{
    struct counts *counts = calloc(1, sizeof(*counts));
    atomic_bool may_come = false;
    struct vp_pool *pool = NULL;

    (void)state;
    assert_non_null(counts);
    assert_int_equal(vp_pool_create(3, stay_away, &may_come, &pool), VP_OK);
    for (int i = 0; i < 10; i++)
        check_one_job(pool, counts, 50);
    atomic_store(&may_come, true);
    for (int i = 0; i < 1000; i++)
        check_one_job(pool, counts, 50);
    vp_pool_free(pool);
    free(counts);
}

struct meeting {
    int n_threads;
    atomic_int n_present;
    int seat[MAX_THREADS]; /* task that each thread ran */
};

/* Returns only once all threads are inside a task at the same time. */
static void meet(void *ctx, int task, int thread)
{
    struct meeting *meeting = ctx;

    meeting->seat[thread] = task;
    atomic_fetch_add(&meeting->n_present, 1);
    while (atomic_load(&meeting->n_present) < meeting->n_threads)
        sched_yield();
}

/* The number that each worker noted during a job: that of the caller. Between
 * jobs workers have noted VP_POOL_IDLE. */
struct notes {
    struct meeting meeting; /* makes every thread run a task */
    struct vp_pool *pool;
    int seen[MAX_THREADS];
};

static void look_at_note(void *ctx, int task, int thread)
{
    struct notes *notes = ctx;

    meet(&notes->meeting, task, thread);
    notes->seen[thread] = vp_pool_noted(notes->pool, thread);
}

static void test_notes(void **state)
{
    enum { N = 3 };
    struct notes notes = { .meeting.n_threads = N, .pool = pool_of(N) };

    (void)state;
    for (int i = 0; i < N; i++)
        assert_int_equal(vp_pool_noted(notes.pool, i), VP_POOL_IDLE);
    vp_pool_note(notes.pool, 0, 7);
    vp_pool_run(notes.pool, N, look_at_note, &notes);
    for (int i = 0; i < N; i++)
        assert_int_equal(notes.seen[i], 7);
    assert_int_equal(vp_pool_noted(notes.pool, 0), 7);
    assert_int_equal(vp_pool_noted(notes.pool, 1), VP_POOL_IDLE);
    assert_int_equal(vp_pool_noted(notes.pool, 2), VP_POOL_IDLE);
    vp_pool_free(notes.pool);
}

static void test_all_threads_work_together(void **state)
{
    (void)state;
    for (size_t t = 0; t < VP_COUNT_OF(thread_counts); t++) {
        struct vp_pool *pool = pool_of(thread_counts[t]);
        struct meeting meeting = { .n_threads = thread_counts[t] };
        int seen = 0;

        memset(meeting.seat, -1, sizeof(meeting.seat));
        vp_pool_run(pool, thread_counts[t], meet, &meeting);
        for (int i = 0; i < thread_counts[t]; i++)
            seen |= 1 << meeting.seat[i];
        assert_int_equal(seen, (1 << thread_counts[t]) - 1);
        vp_pool_free(pool);
    }
}

/* ---- Results do not depend on the number of threads --------------------- */

enum { SUM_TASKS = 37, SUM_TERMS = 501 };

struct sums {
    float partial[SUM_TASKS];
};

/* Terms of very different sizes, so that another order of addition changes the
 * sum. */
static void sum_task(void *ctx, int task, int thread)
{
    struct sums *sums = ctx;
    float sum = 0;

    (void)thread;
    for (uint32_t i = 0; i < SUM_TERMS; i++) {
        struct vp_rng4 r = vp_rng(1, VP_RNG_TEST, (uint32_t)task, i, 0, 0);

        sum += (float)(vp_rng_unit(r.v[0]) - 0.5) *
               (float)(1u << vp_rng_below(r.v[1], 30));
    }
    sums->partial[task] = sum;
}

static float sum_on(int n_threads)
{
    struct vp_pool *pool = pool_of(n_threads);
    struct sums sums;
    float total = 0;

    vp_pool_run(pool, SUM_TASKS, sum_task, &sums);
    for (int i = 0; i < SUM_TASKS; i++)
        total += sums.partial[i];
    vp_pool_free(pool);
    return total;
}

static void test_same_bits_on_any_threads(void **state)
{
    float want = sum_on(1);

    (void)state;
    for (size_t t = 0; t < VP_COUNT_OF(thread_counts); t++) {
        for (int repeat = 0; repeat < 5; repeat++) {
            float got = sum_on(thread_counts[t]);

            assert_memory_equal(&got, &want, sizeof(got));
        }
    }
}

/* ---- Many jobs in a row ------------------------------------------------- */

struct chain {
    uint64_t value[64]; /* task i of job j adds j to value[i] */
    uint64_t job;
};

static void add_job(void *ctx, int task, int thread)
{
    struct chain *chain = ctx;

    (void)thread;
    chain->value[task] += chain->job;
}

/* Waits between jobs: mostly not at all, sometimes about as long as workers
 * spin, sometimes until they sleep. */
static void pause_between_jobs(uint64_t job)
{
    struct vp_rng4 r = vp_rng(7, VP_RNG_TEST, 3, (uint32_t)job, 0, 0);
    int64_t until;

    if (r.v[0] % 8 != 0)
        return;
    if (r.v[0] % 256 == 0) {
        usleep(500);
        return;
    }
    until = vp_clock_ns() + vp_rng_below(r.v[1], 60000);
    while (vp_clock_ns() < until)
        ;
}

/* Runs jobs whose sums are right only if no job is lost, run twice or mixed
 * with the next one. Returns the number of wrong values. */
static int run_chain(struct vp_pool *pool, int n_jobs)
{
    struct chain chain = { .job = 0 };
    uint64_t want[64] = { 0 };
    int n_wrong = 0;

    for (int job = 1; job <= n_jobs; job++) {
        int n_tasks = 1 +
                      (int)vp_rng_below(
                          vp_rng(7, VP_RNG_TEST, 4, (uint32_t)job, 0, 0).v[0],
                          64);

        chain.job = (uint64_t)job;
        vp_pool_run(pool, n_tasks, add_job, &chain);
        for (int i = 0; i < n_tasks; i++)
            want[i] += (uint64_t)job;
        pause_between_jobs((uint64_t)job);
    }
    for (int i = 0; i < 64; i++)
        n_wrong += chain.value[i] != want[i];
    return n_wrong;
}

static void test_many_jobs(void **state)
{
    static const int n_jobs[] = { 20000, 20000, 10000, 2000 };

    (void)state;
    for (size_t t = 0; t < VP_COUNT_OF(thread_counts); t++) {
        struct vp_pool *pool = pool_of(thread_counts[t]);

        assert_int_equal(run_chain(pool, n_jobs[t]), 0);
        vp_pool_free(pool);
    }
}

/* Waits until all workers sleep before every job, so that each of them needs a
 * wake-up. */
static void test_wakes_sleepers(void **state)
{
    (void)state;
    for (size_t t = 1; t < VP_COUNT_OF(thread_counts); t++) {
        struct vp_pool *pool = pool_of(thread_counts[t]);

        for (int i = 0; i < 200; i++) {
            struct meeting meeting = { .n_threads = thread_counts[t] };

            usleep(1000);
            vp_pool_run(pool, thread_counts[t], meet, &meeting);
            assert_int_equal(meeting.n_present, thread_counts[t]);
        }
        vp_pool_free(pool);
    }
}

static void test_create_and_free(void **state)
{
    (void)state;
    vp_pool_free(NULL);
    for (int i = 0; i < 300; i++) {
        struct vp_pool *pool = pool_of(thread_counts[i % 4]);

        if (i % 3 == 0)
            vp_pool_run(pool, 5, do_nothing, NULL);
        if (i % 7 == 0)
            usleep(300);
        vp_pool_free(pool);
    }
}

/* ---- Several pools in one process --------------------------------------- */

static void *own_a_pool(void *arg)
{
    int *n_wrong = arg;
    struct vp_pool *pool = NULL;

    if (vp_pool_create(2, NULL, NULL, &pool) != VP_OK)
        return NULL;
    *n_wrong = run_chain(pool, 3000);
    vp_pool_free(pool);
    return NULL;
}

static void test_pools_do_not_disturb_each_other(void **state)
{
    enum { N = 4 };
    pthread_t owner[N];
    int n_wrong[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        n_wrong[i] = -1;
        assert_int_equal(
            pthread_create(&owner[i], NULL, own_a_pool, &n_wrong[i]), 0);
    }
    for (int i = 0; i < N; i++)
        pthread_join(owner[i], NULL);
    for (int i = 0; i < N; i++)
        assert_int_equal(n_wrong[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_once),
        cmocka_unit_test(test_setup_runs_once_per_thread),
        cmocka_unit_test(test_all_threads_work_together),
        cmocka_unit_test(test_late_workers_are_not_waited_for),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_same_bits_on_any_threads),
        cmocka_unit_test(test_many_jobs),
        cmocka_unit_test(test_wakes_sleepers),
        cmocka_unit_test(test_create_and_free),
        cmocka_unit_test(test_pools_do_not_disturb_each_other),
    };

    alarm(WATCHDOG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
