/* With `pinned`, the threads of the CPU backend are bound to their cores;
 * without it they are not. Invalid settings are refused. */
#include "backend/backend.h"
#include "backend/cpu/fast.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int core_of_index(int index)
{
    cpu_set_t all;
    int n = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all) && n++ == index)
            return core;
    return -1;
}

static int n_cores(void)
{
    cpu_set_t all;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    return CPU_COUNT(&all);
}

/* Returns the core that the calling thread is bound to, -1 if it is not bound
 * to a single one. */
static int bound_core(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) != 1)
        return -1;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &set))
            return core;
    return -1;
}

static void *attach(void *arg)
{
    static int core;

    vp_device_attach(vp_backend_device(arg));
    core = bound_core();
    return &core;
}

/* Attaches a thread of its own, so that the test's own thread stays unbound. */
static int attached_core(struct vp_backend *backend)
{
    pthread_t thread;
    void *core;

    assert_int_equal(pthread_create(&thread, NULL, attach, backend), 0);
    assert_int_equal(pthread_join(thread, &core), 0);
    return *(int *)core;
}

static void test_pinned(void **state)
{
    int n = n_cores();
    struct vp_err err = { .text = "" };

    (void)state;
    for (int first = 0; first < n; first++) {
        struct vp_backend_config config = { .n_threads = 1,
                                            .pinned = true,
                                            .device = first };
        struct vp_backend *backend = NULL;

        assert_int_equal(
            vp_backend_open(&vp_backend_cpu, &config, &backend, &err), VP_OK);
        assert_int_equal(attached_core(backend), core_of_index(first));
        vp_backend_cpu.close(backend);
    }
}

static void note_core(void *ctx, int task, int thread)
{
    int *cores = ctx;

    (void)task;
    cores[thread] = bound_core();
    sched_yield();
}

static void test_pinned_workers(void **state)
{
    struct vp_backend_config config = { .n_threads = 2, .pinned = true };
    int cores[2] = { -1, -1 };
    struct vp_backend *backend = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    if (n_cores() < 2) {
        print_message("skipped: one core only\n");
        skip();
    }
    assert_int_equal(vp_backend_open(&vp_backend_cpu, &config, &backend, &err),
                     VP_OK);
    for (int i = 0; i < 100000 && cores[1] < 0; i++)
        vp_pool_run(vp_cpu_pool(backend), 8, note_core, cores);
    assert_int_equal(cores[1], core_of_index(1));
    assert_int_equal(attached_core(backend), core_of_index(0));
    vp_backend_cpu.close(backend);
}

static void test_not_pinned(void **state)
{
    struct vp_backend_config config = { .n_threads = 1 };
    struct vp_backend *backend = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_backend_open(&vp_backend_cpu, &config, &backend, &err),
                     VP_OK);
    assert_int_equal(attached_core(backend), bound_core());
    vp_backend_cpu.close(backend);
}

static void test_refused(void **state)
{
    const struct vp_backend_config bad[] = {
        { .n_threads = 0 },
        { .n_threads = 100000 },
        { .n_threads = 1, .pinned = true, .device = n_cores() },
        { .n_threads = n_cores() + 1, .pinned = true },
        { .n_threads = 1, .pinned = true, .device = -1 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++) {
        struct vp_backend *backend = NULL;
        struct vp_err err = { .text = "" };

        assert_int_equal(
            vp_backend_open(&vp_backend_cpu, &bad[i], &backend, &err),
            VP_ERR_INVALID);
        assert_null(backend);
        assert_true(err.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_pinned_workers),
        cmocka_unit_test(test_not_pinned),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
