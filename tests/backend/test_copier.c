/* Copies made by CPU threads beside other work arrive in order, complete, and
 * within their time limit. */
#include "device/copier.h"

#include "backend/backend.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 1 << 16, N_BUFFERS = 4, LONG_MS = 20000 };

struct bench {
    struct vp_backend *backend;
    struct vp_device *device;
    struct vp_stream *stream;
    struct vp_copier *out, *in;
};

static void bench_open(struct bench *b, int delay_us, bool overwrite)
{
    const struct vp_backend_config config = { .n_threads = 1 };
    struct vp_err err = { .text = "" };

    assert_int_equal(
        vp_backend_open(&vp_backend_cpu, &config, &b->backend, &err), VP_OK);
    b->device = vp_backend_device(b->backend);
    assert_int_equal(vp_stream_create(b->device, &b->stream), VP_OK);
    assert_int_equal(vp_copier_create(b->device, &b->out), VP_OK);
    assert_int_equal(vp_copier_create(b->device, &b->in), VP_OK);
    vp_copier_disturb(b->out, delay_us, overwrite);
    vp_copier_disturb(b->in, delay_us, false);
}

static void bench_close(struct bench *b)
{
    vp_copier_free(b->out);
    vp_copier_free(b->in);
    vp_stream_free(b->stream);
    vp_backend_cpu.close(b->backend);
}

static void fill(unsigned char *at, int value)
{
    for (int i = 0; i < N; i++)
        at[i] = (unsigned char)(value * 31 + i);
}

static void assert_filled(const unsigned char *at, int value)
{
    for (int i = 0; i < N; i++)
        assert_int_equal(at[i], (unsigned char)(value * 31 + i));
}

/* Values are copied out and back 400 times through two staging buffers. The
 * copies begin late and overwrite their source afterwards. */
static void values_come_back(void **state)
{
    static unsigned char out[N], in[N], host[N_BUFFERS][N];
    struct vp_copy left[N_BUFFERS], back[N_BUFFERS];
    struct bench b;

    (void)state;
    bench_open(&b, 300, true);
    for (int i = 0; i < N_BUFFERS; i++) {
        assert_int_equal(vp_copy_init(b.device, &left[i]), VP_OK);
        assert_int_equal(vp_copy_init(b.device, &back[i]), VP_OK);
    }
    for (int i = 0; i < 400 + 2; i++) {
        int slot = i % N_BUFFERS, old = (i + 2) % N_BUFFERS;

        if (i >= 2) { /* two copies are in flight */
            assert_int_equal(vp_copier_follow(b.in, b.stream), VP_OK);
            assert_int_equal(vp_copy_wait(&left[old], b.stream, LONG_MS),
                             VP_OK);
            assert_int_equal(
                vp_copier_begin(b.in, &back[old], in, host[old], N), VP_OK);
        }
        if (i < 400) {
            if (i > 0)
                assert_int_equal(
                    vp_copy_wait(&left[(i - 1) % N_BUFFERS], b.stream, LONG_MS),
                    VP_OK);
            fill(out, i);
            assert_int_equal(vp_copier_follow(b.out, b.stream), VP_OK);
            assert_int_equal(
                vp_copier_begin(b.out, &left[slot], host[slot], out, N), VP_OK);
        }
        if (i >= 2) {
            assert_int_equal(vp_copy_wait(&back[old], b.stream, LONG_MS),
                             VP_OK);
            assert_filled(in, i - 2);
        }
    }
    for (int i = 0; i < N_BUFFERS; i++) {
        vp_copy_release(&left[i]);
        vp_copy_release(&back[i]);
    }
    bench_close(&b);
}

/* A wait ends at its time limit. Waiting for a copy that was never started
 * returns at once. */
static void waits_end(void **state)
{
    static unsigned char a[N], c[N];
    struct vp_copy copy;
    struct bench b;

    (void)state;
    bench_open(&b, 0, false);
    assert_int_equal(vp_copy_init(b.device, &copy), VP_OK);
    assert_int_equal(vp_copy_wait(&copy, b.stream, 0), VP_OK);
    vp_copier_disturb(b.out, 900000, false);
    /* At least one of the random delays is longer than the wait. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(vp_copier_begin(b.out, &copy, a, c, N), VP_OK);
    assert_int_equal(vp_copy_wait(&copy, b.stream, 1), VP_ERR_TIMEOUT);
    vp_copy_release(&copy);
    bench_close(&b);
}

/* With more copies than the queue of a copier holds, the caller waits. */
static void many_copies(void **state)
{
    enum { N_COPIES = 3000, LENGTH = 4096 };
    static unsigned char from[N_COPIES][LENGTH], to[N_COPIES][LENGTH];
    struct vp_copy copy;
    struct bench b;

    (void)state;
    bench_open(&b, 0, false);
    assert_int_equal(vp_copy_init(b.device, &copy), VP_OK);
    for (int i = 0; i < N_COPIES; i++) {
        memset(from[i], 1 + i % 200, LENGTH);
        assert_int_equal(vp_copier_begin(b.out, &copy, to[i], from[i], LENGTH),
                         VP_OK);
    }
    assert_int_equal(vp_copy_wait(&copy, b.stream, LONG_MS), VP_OK);
    assert_memory_equal(to, from, sizeof(from));
    vp_copy_release(&copy);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(waits_end),
        cmocka_unit_test(many_copies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
