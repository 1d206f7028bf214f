/* A wait for a counter keeps its time limit and misses no wake-up; data written
 * before vp_counter_add() is visible after the wait. */
#include "base/clock.h"
#include "base/counter.h"

#include <pthread.h>
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

enum { WATCHDOG_SECONDS = 120 };

static struct vp_limit in_ms(int64_t ms)
{
    return vp_limit_ms(ms);
}

static void set(struct vp_counter *counter, uint32_t value)
{
    memset(counter, 0, sizeof(*counter));
    atomic_store(&counter->value, value);
}

/* ---- One thread --------------------------------------------------------- */

/* Values are compared by their difference, so a counter may wrap past 2^32. */
static void test_reached(void **state)
{
    static const struct {
        uint32_t value, target;
        bool want;
    } cases[] = {
        { 0, 0, true },           { 0, 1, false },
        { 5, 5, true },           { 6, 5, true },
        { 5, 6, false },          { UINT32_MAX, UINT32_MAX, true },
        { UINT32_MAX, 0, false }, { UINT32_MAX, 3, false },
        { 0, UINT32_MAX, true },  { 3, UINT32_MAX - 3, true },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_counter counter;

        set(&counter, cases[i].value);
        assert_int_equal(vp_counter_reached(&counter, cases[i].target),
                         cases[i].want);
    }
}

static void test_add_wraps(void **state)
{
    struct vp_counter counter;

    (void)state;
    set(&counter, UINT32_MAX - 1);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(vp_counter_reached(&counter, UINT32_MAX - 1 + i));
        assert_false(vp_counter_reached(&counter, UINT32_MAX + i));
        vp_counter_add(&counter);
    }
}

/* A wait for a value that was already reached succeeds, even with no time
 * left. */
static void test_wait_for_the_past(void **state)
{
    struct vp_counter counter;
    atomic_bool stop = true;

    (void)state;
    set(&counter, 7);
    assert_int_equal(vp_counter_wait(&counter, 7, VP_LIMIT_NOW, NULL), VP_OK);
    assert_int_equal(vp_counter_wait(&counter, 3, VP_LIMIT_NOW, &stop), VP_OK);
}

static void test_timeout(void **state)
{
    static const int64_t limits_ms[] = { 0, 1, 15, 70 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(limits_ms); i++) {
        struct vp_counter counter;
        int64_t start = vp_clock_ns();
        double took;

        set(&counter, 0);
        assert_int_equal(
            vp_counter_wait(&counter, 1, in_ms(limits_ms[i]), NULL),
            VP_ERR_TIMEOUT);
        took = vp_clock_seconds(start, vp_clock_ns());
        assert_true(took >= (double)limits_ms[i] * 1e-3);
        assert_true(took < (double)limits_ms[i] * 1e-3 + 5.0);
    }
}

/* ---- Several threads ---------------------------------------------------- */

struct waiter {
    pthread_t thread;
    struct vp_counter *counter;
    uint32_t target;
    const atomic_bool *stop;
    enum vp_status status;
};

static void *wait_for_target(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = vp_counter_wait(waiter->counter, waiter->target,
                                     in_ms(60000), waiter->stop);
    return NULL;
}

static void start(struct waiter *waiter)
{
    waiter->status = VP_ERR_IO;
    assert_int_equal(
        pthread_create(&waiter->thread, NULL, wait_for_target, waiter), 0);
}

static void test_stop_ends_a_wait(void **state)
{
    struct vp_counter counter;
    atomic_bool stop = false;
    struct waiter waiter = { .counter = &counter, .target = 1, .stop = &stop };
    int64_t asked;

    (void)state;
    set(&counter, 0);
    start(&waiter);
    usleep(50000);
    asked = vp_clock_ns();
    atomic_store(&stop, true);
    pthread_join(waiter.thread, NULL);
    assert_int_equal(waiter.status, VP_ERR_ABORTED);
    assert_true(vp_clock_seconds(asked, vp_clock_ns()) < 5.0);
}

/* Several threads sleep until targets of their own. vp_counter_add() wakes all,
 * and only those whose target is reached return. */
static void test_wakes_all_sleepers(void **state)
{
    enum { N = 6 };
    struct vp_counter counter;
    struct waiter waiters[N];

    (void)state;
    set(&counter, UINT32_MAX - 2);
    for (uint32_t i = 0; i < N; i++) {
        waiters[i] = (struct waiter){ .counter = &counter,
                                      .target = UINT32_MAX - 1 + i / 2 };
        start(&waiters[i]);
    }
    for (int i = 0; i < N; i += 2) {
        usleep(30000);
        vp_counter_add(&counter);
        pthread_join(waiters[i].thread, NULL);
        pthread_join(waiters[i + 1].thread, NULL);
        assert_int_equal(waiters[i].status, VP_OK);
        assert_int_equal(waiters[i + 1].status, VP_OK);
    }
}

/* Two threads take turns; the plain integer `ball` is passed along. */
struct game {
    struct vp_counter served, returned;
    uint64_t ball;
    int n_wrong;
};

enum { N_RALLIES = 20000 };

static void *return_ball(void *arg)
{
    struct game *game = arg;

    for (uint32_t i = 1; i <= N_RALLIES; i++) {
        if (vp_counter_wait(&game->served, i, in_ms(60000), NULL) != VP_OK)
            return NULL;
        game->n_wrong += game->ball != 2 * (uint64_t)i - 1;
        game->ball++;
        if (i % 1000 == 0)
            usleep(300); /* long enough for the other thread to fall asleep */
        vp_counter_add(&game->returned);
    }
    return NULL;
}

static void test_ping_pong(void **state)
{
    static struct game game;
    pthread_t other;

    (void)state;
    memset(&game, 0, sizeof(game));
    assert_int_equal(pthread_create(&other, NULL, return_ball, &game), 0);
    for (uint32_t i = 1; i <= N_RALLIES; i++) {
        game.ball++;
        if (i % 700 == 0)
            usleep(300);
        vp_counter_add(&game.served);
        assert_int_equal(vp_counter_wait(&game.returned, i, in_ms(60000), NULL),
                         VP_OK);
        assert_int_equal(game.ball, 2 * (uint64_t)i);
    }
    pthread_join(other, NULL);
    assert_int_equal(game.n_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reached),
        cmocka_unit_test(test_add_wraps),
        cmocka_unit_test(test_wait_for_the_past),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_stop_ends_a_wait),
        cmocka_unit_test(test_wakes_all_sleepers),
        cmocka_unit_test(test_ping_pong),
    };

    alarm(WATCHDOG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
