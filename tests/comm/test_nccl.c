/* NCCL itself on one GPU, called as the transport calls it: a single rank sends
 * to itself. test_comm_processes and mpi.sh use several ranks. */
#include "base/clock.h"
#include "comm/nccl/api.h"

#include "lib/gpulib.h"

#include <string.h>

enum { MAX_BYTES = (16 << 20) + 3, N_LAGS = 40, N_ROUNDS = 20 };

static const struct vp_nccl_api *nccl;
static struct vp_nccl_comm *comm;
static struct vp_stream *transfers;
static struct vp_event *written, *read_event;
static unsigned char *from, *to; /* on the device */
static unsigned char *host;

static void *allocate(void)
{
    void *out;

    assert_int_equal(vp_device_alloc(gpu.device, MAX_BYTES, &out), VP_OK);
    return out;
}

static int start(void **state)
{
    struct vp_nccl_id id;
    void *pinned;

    (void)state;
    assert_int_equal(vp_stream_create(gpu.device, &gpu.stream), VP_OK);
    assert_int_equal(vp_event_create(gpu.device, &gpu.event), VP_OK);
    assert_int_equal(vp_stream_create(gpu.device, &transfers), VP_OK);
    assert_int_equal(vp_event_create(gpu.device, &written), VP_OK);
    assert_int_equal(vp_event_create(gpu.device, &read_event), VP_OK);
    assert_int_equal(vp_device_host_alloc(gpu.device, MAX_BYTES, &pinned),
                     VP_OK);
    host = pinned;
    from = allocate();
    to = allocate();
    assert_int_equal(nccl->make_id(&id), VP_NCCL_OK);
    assert_int_equal(nccl->join(&comm, 1, id, 0), VP_NCCL_OK);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    vp_device_free(gpu.device, from, MAX_BYTES);
    vp_device_free(gpu.device, to, MAX_BYTES);
    vp_device_host_free(gpu.device, host);
    vp_event_free(written);
    vp_event_free(read_event);
    vp_stream_free(transfers);
    gpu_stop();
    return 0;
}

static void pass_on(size_t n)
{
    void *stream = vp_stream_handle(transfers);

    assert_int_equal(nccl->group_start(), VP_NCCL_OK);
    assert_int_equal(nccl->send(from, n, VP_NCCL_BYTES, 0, comm, stream),
                     VP_NCCL_OK);
    assert_int_equal(nccl->receive(to, n, VP_NCCL_BYTES, 0, comm, stream),
                     VP_NCCL_OK);
    assert_int_equal(nccl->group_end(), VP_NCCL_OK);
}

static unsigned char byte_of(size_t i, int round)
{
    return (unsigned char)(i * 31 + i / 251 + (size_t)round * 7);
}

static void fill(int round, size_t n)
{
    for (size_t i = 0; i < n; i++)
        host[i] = byte_of(i, round);
}

static void all_bytes_come_back(void **state)
{
    static const size_t sizes[] = { 1, 3, 1000, 65536, 1000003, MAX_BYTES };

    (void)state;
    for (size_t s = 0; s < VP_COUNT_OF(sizes); s++) {
        fill((int)s, sizes[s]);
        gpu_copy(from, host, sizes[s]);
        pass_on(sizes[s]);
        assert_int_equal(vp_event_record(read_event, transfers), VP_OK);
        assert_int_equal(vp_event_sync(read_event, 20000), VP_OK);
        memset(host, 0, sizes[s]);
        gpu_copy(host, to, sizes[s]);
        for (size_t i = 0; i < sizes[s]; i++)
            if (host[i] != byte_of(i, (int)s))
                fail_msg("byte %zu of %zu", i, sizes[s]);
    }
}

/* Only events order the write, the transfer and the next write of a message,
 * while the device is far behind the host. */
static void transfers_keep_to_events(void **state)
{
    unsigned char *other = allocate();
    size_t n = MAX_BYTES / 2;

    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        fill(round, n);
        gpu_copy(other, host, n);
        for (int i = 0; i < N_LAGS; i++)
            assert_int_equal(vp_stream_copy(gpu.stream, from, from + n, n),
                             VP_OK);
        assert_int_equal(vp_stream_copy(gpu.stream, from, other, n), VP_OK);
        assert_int_equal(vp_event_record(written, gpu.stream), VP_OK);
        assert_int_equal(vp_stream_wait(transfers, written), VP_OK);
        pass_on(n);
        assert_int_equal(vp_event_record(read_event, transfers), VP_OK);
        assert_int_equal(vp_stream_wait(gpu.stream, read_event), VP_OK);
        assert_int_equal(vp_stream_copy(gpu.stream, from, from + n, n), VP_OK);
        gpu_copy(host, to, n);
        for (size_t i = 0; i < n; i++)
            if (host[i] != byte_of(i, round))
                fail_msg("round %d, byte %zu", round, i);
    }
    vp_device_free(gpu.device, other, MAX_BYTES);
}

static void a_sum_of_one_is_that_one(void **state)
{
    float *floats = (float *)(void *)host;
    void *stream = vp_stream_handle(transfers);
    int n = 100003;

    (void)state;
    for (int i = 0; i < n; i++)
        floats[i] = (float)i * 0.1f;
    gpu_copy(from, host, (size_t)n * sizeof(float));
    assert_int_equal(nccl->all_reduce(from, to, (size_t)n, VP_NCCL_FLOATS,
                                      VP_NCCL_SUM, comm, stream),
                     VP_NCCL_OK);
    assert_int_equal(vp_event_record(read_event, transfers), VP_OK);
    assert_int_equal(vp_event_sync(read_event, 20000), VP_OK);
    gpu_copy(host, to, (size_t)n * sizeof(float));
    for (int i = 0; i < n; i++)
        assert_true(floats[i] == (float)i * 0.1f);
}

/* With transfers in flight, an abort returns soon and leaves the device
 * usable. */
static void abort_is_soon_over(void **state)
{
    int64_t begin = vp_clock_ns();
    int found = VP_NCCL_OK;

    (void)state;
    assert_int_equal(nccl->async_error(comm, &found), VP_NCCL_OK);
    assert_int_equal(found, VP_NCCL_OK);
    for (int i = 0; i < 200; i++)
        pass_on(MAX_BYTES);
    assert_int_equal(nccl->break_off(comm), VP_NCCL_OK);
    assert_int_equal(vp_event_record(read_event, transfers), VP_OK);
    assert_int_equal(vp_event_sync(read_event, 10000), VP_OK);
    assert_true(vp_clock_seconds(begin, vp_clock_ns()) < 10.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_bytes_come_back),
        cmocka_unit_test(transfers_keep_to_events),
        cmocka_unit_test(a_sum_of_one_is_that_one),
        cmocka_unit_test(abort_is_soon_over), /* ends the communicator */
    };
    struct vp_err err = { .text = "" };
    int n_failed;

    if (gpu_open(&err) != VP_OK || vp_nccl_load(&nccl, &err) != VP_OK) {
        print_message("skipped: %s\n", err.text);
        return 0;
    }
    n_failed = cmocka_run_group_tests(tests, start, stop);
    gpu_close();
    return n_failed;
}
