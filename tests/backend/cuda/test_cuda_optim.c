/* Optimizer steps, sums of squares, checks for NaN and infinity, and event
 * times of the CUDA plugin agree with the CPU. Skipped where there is no plugin
 * or no device. */
#include "base/clock.h"
#include "base/halves.h"
#include "lib/cuda_setup.h"
#include "lib/gpulib.h"
#include "lib/one_op.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Optimizer ---------------------------------------------------------- */

enum { MAX_TENSORS = 16, MAX_ARRAYS = 6 };

enum { W0, W1, GRAD, MOMENT0, MOMENT1, MASTER };

static const int64_t optim_sizes[] = { 1,    3,     17, 4096, 4097,  16384,
                                       8191, 40000, 0,  300,  100001 };

/* The same arrays on host and device. The host has floats; the device has
 * weights in `dtype` and their master copy. Tensors lie in the arrays with gaps
 * between them; in the gradients they lie in reverse order. */
struct bed {
    char what[160];
    enum vp_dtype dtype;
    struct vp_optim_tensor tensors[MAX_TENSORS];
    int n_tensors;
    int64_t n;
    float *host[MASTER];
    struct image image;
    struct tensor *device[MAX_ARRAYS];
    void *scratch;
};

static void bed_add_arrays(struct bed *bed)
{
    static const char *const names[] = { "w0",      "w1",      "grad",
                                         "moment0", "moment1", "master" };

    for (int k = 0; k < MAX_ARRAYS; k++) {
        enum vp_dtype dtype = k <= W1 ? bed->dtype : VP_DTYPE_F32;

        if (k == MASTER && bed->dtype == VP_DTYPE_BF16)
            dtype = VP_DTYPE_BF16; /* the low 16 bits of the floats */
        bed->device[k] = image_add(&bed->image, names[k], bed->n, dtype);
    }
    image_make(&bed->image);
}

static void bed_init(struct bed *bed, enum vp_dtype dtype)
{
    *bed = (struct bed){ .dtype = dtype,
                         .n_tensors = VP_COUNT_OF(optim_sizes),
                         .n = 64 };
    for (int i = 0; i < bed->n_tensors; i++) {
        bed->tensors[i] = (struct vp_optim_tensor){ .offset = bed->n,
                                                    .n = optim_sizes[i],
                                                    .decay = i % 3 != 1 };
        bed->n = (int64_t)vp_align_up((size_t)(bed->n + optim_sizes[i] + 1),
                                      64);
    }
    for (int i = bed->n_tensors - 1, at = 0; i >= 0; i--) {
        bed->tensors[i].grad = at;
        at += (int)vp_align_up((size_t)optim_sizes[i] + 1, 64);
    }
    bed_add_arrays(bed);
    for (int k = 0; k < MASTER; k++) {
        bed->host[k] = calloc((size_t)bed->n, sizeof(float));
        assert_non_null(bed->host[k]);
        for (int64_t i = 0; i < bed->n; i++)
            if (k != MOMENT0 && k != MOMENT1)
                bed->host[k][i] = (float)(0.1 * test_number(7, (uint32_t)k, i));
    }
    /* Finite as a float, infinite in 16 bits. */
    bed->host[W0][bed->tensors[0].offset] = FLT_MAX;
    bed->scratch = malloc(vp_optim_scratch_bytes(bed->tensors, bed->n_tensors));
    assert_non_null(bed->scratch);
}

static void bed_release(struct bed *bed)
{
    for (int k = 0; k < MASTER; k++)
        free(bed->host[k]);
    free(bed->scratch);
    image_free(&bed->image);
}

static float *bed_address(const struct bed *bed, int array)
{
    return image_address(&bed->image, bed->device[array]);
}

/* Returns true if element `i` belongs to a tensor, false if it is in a gap. */
static bool bed_owns(const struct bed *bed, int64_t i)
{
    for (int t = 0; t < bed->n_tensors; t++) {
        const struct vp_optim_tensor *tensor = &bed->tensors[t];

        if (i >= tensor->offset && i < tensor->offset + tensor->n)
            return true;
    }
    return false;
}

/* Stores float `x` in image.before with the bits that the device should have in
 * `array`. */
static void bed_set(struct bed *bed, int array, int64_t i, float x)
{
    const struct tensor *t = bed->device[array];
    void *to = bed->image.before + t->begin + i * vp_dtype_bytes(t->dtype);
    struct vp_halves halves = vp_halves_split(x);

    if (t->dtype == VP_DTYPE_F32)
        memcpy(to, &x, sizeof(x));
    else if (t->dtype == VP_DTYPE_F16)
        vp_dtype_round(VP_DTYPE_F16, to, &x, 1);
    else if (array == MASTER)
        memcpy(to, &halves.low, sizeof(halves.low));
    else
        memcpy(to, &halves.high, sizeof(halves.high));
}

/* Sets image.before to the expected contents of the device: the arrays of the
 * host, and the master copy of weights `newest`. Gaps, which no update writes,
 * have the master copy of W0. */
static void bed_expect(struct bed *bed, int newest)
{
    for (int k = 0; k < MASTER; k++)
        for (int64_t i = 0; i < bed->n; i++)
            bed_set(bed, k, i, bed->host[k][i]);
    for (int64_t i = 0; bed->dtype != VP_DTYPE_F32 && i < bed->n; i++)
        bed_set(bed, MASTER, i, bed->host[bed_owns(bed, i) ? newest : W0][i]);
}

static void bed_send(struct bed *bed)
{
    bed_expect(bed, W0);
    image_send(&bed->image);
}

static void bed_compare(struct bed *bed, int newest)
{
    bed_expect(bed, newest);
    image_fetch(&bed->image, bed->image.after);
    for (int k = 0; k < MAX_ARRAYS; k++)
        image_check_bits(&bed->image, bed->device[k], bed->image.before,
                         bed->what, "differs from the host's step");
    image_check_guards(&bed->image, bed->what);
}

/* Returns the array that holds the weights after step `t`. They alternate
 * between W0 and W1, or stay in W0. */
static int bed_weights(int64_t t, bool in_place)
{
    return in_place ? W0 : W0 + (int)(t % 2);
}

static struct vp_optim_step bed_step(const struct bed *bed,
                                     enum vp_optim_kind kind, float decay,
                                     int64_t t, bool in_place)
{
    struct vp_optim_step step = {
        .config = vp_optim_defaults(kind),
        .tensors = bed->tensors,
        .n_tensors = bed->n_tensors,
        .w_old = bed->host[bed_weights(t - 1, in_place)],
        .w_new = bed->host[bed_weights(t, in_place)],
        .grad = bed->host[GRAD],
        .moment = { bed->host[MOMENT0], bed->host[MOMENT1] },
        .lr = 0.01f / (float)t,
        .grad_scale = 0.75f,
        .t = t,
    };

    step.config.weight_decay = decay;
    if (vp_optim_n_moments(kind) < 2)
        step.moment[1] = NULL;
    return step;
}

/* The same step on the device. */
static struct vp_optim_step bed_device_step(const struct bed *bed,
                                            const struct vp_optim_step *host,
                                            bool in_place)
{
    struct vp_optim_step step = *host;

    step.dtype = bed->dtype;
    step.w_old = bed_address(bed, bed_weights(host->t - 1, in_place));
    step.w_new = bed_address(bed, bed_weights(host->t, in_place));
    step.master = bed->dtype == VP_DTYPE_F32 ? NULL : bed_address(bed, MASTER);
    step.grad = bed_address(bed, GRAD);
    step.moment[0] = bed_address(bed, MOMENT0);
    step.moment[1] = host->moment[1] ? bed_address(bed, MOMENT1) : NULL;
    return step;
}

static void check_steps(enum vp_optim_kind kind, float decay,
                        enum vp_dtype dtype, bool in_place)
{
    struct bed bed;

    bed_init(&bed, dtype);
    bed_send(&bed);
    for (int64_t t = 1; t <= 3; t++) {
        struct vp_optim_step step = bed_step(&bed, kind, decay, t, in_place);
        struct vp_optim_step device = bed_device_step(&bed, &step, in_place);

        snprintf(bed.what, sizeof(bed.what), "%s, decay %g, %s%s, step %d",
                 vp_optim_name(kind), (double)decay, dtype_names[dtype],
                 in_place ? ", in place" : "", (int)t);
        for (int64_t i = 0; i < bed.n; i++)
            bed.host[GRAD][i] = (float)(0.01 * test_number(8, (uint32_t)t, i));
        gpu_copy(bed_address(&bed, GRAD), bed.host[GRAD],
                 (size_t)bed.n * sizeof(float));
        vp_optim_step_host(&step, cuda_pool, bed.scratch);
        assert_int_equal(gpu.ops->update(gpu.backend, gpu.stream, &device),
                         VP_OK);
        gpu_sync();
        bed_compare(&bed, bed_weights(t, in_place));
    }
    bed_release(&bed);
}

static void test_updates(void **state)
{
    static const enum vp_dtype dtypes[] = { VP_DTYPE_F32, VP_DTYPE_BF16,
                                            VP_DTYPE_F16 };

    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++) {
        for (size_t i = 0; i < VP_COUNT_OF(dtypes); i++) {
            check_steps((enum vp_optim_kind)kind, 0.1f, dtypes[i], true);
            check_steps((enum vp_optim_kind)kind, 0.0f, dtypes[i], false);
        }
    }
}

/* Updates all tensors once, then each half of them in a call of its own with a
 * different step number. */
static void test_updates_of_parts(void **state)
{
    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++) {
        struct bed bed;

        bed_init(&bed, VP_DTYPE_F32);
        bed_send(&bed);
        snprintf(bed.what, sizeof(bed.what), "%s, two parts",
                 vp_optim_name((enum vp_optim_kind)kind));
        for (int i = 0; i < 3; i++) { /* all; the first half; the rest */
            struct vp_optim_step step = bed_step(&bed, (enum vp_optim_kind)kind,
                                                 0.1f, 1 + 2 * i, true);
            struct vp_optim_step device;
            int half = bed.n_tensors / 2;

            step.tensors += i == 2 ? half : 0;
            step.n_tensors = i == 0   ? bed.n_tensors
                             : i == 1 ? half
                                      : bed.n_tensors - half;
            device = bed_device_step(&bed, &step, true);
            vp_optim_step_host(&step, cuda_pool, bed.scratch);
            assert_int_equal(gpu.ops->update(gpu.backend, gpu.stream, &device),
                             VP_OK);
            gpu_sync();
        }
        bed_compare(&bed, W0);
        bed_release(&bed);
    }
}

static void test_sum_squares(void **state)
{
    double *got, want[MAX_TENSORS];
    struct bed bed;

    (void)state;
    assert_int_equal(
        vp_device_host_alloc(gpu.device, sizeof(want), (void **)&got), VP_OK);
    bed_init(&bed, VP_DTYPE_F32);
    bed_send(&bed);
    vp_optim_sum_squares_host(bed.tensors, bed.n_tensors, bed.host[W0], want,
                              cuda_pool, bed.scratch);
    assert_int_equal(gpu.ops->sum_squares(gpu.backend, gpu.stream, bed.tensors,
                                          bed.n_tensors, bed_address(&bed, W0),
                                          got),
                     VP_OK);
    gpu_sync();
    for (int i = 0; i < bed.n_tensors; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-12 * want[i]))
            fail_msg("sum of squares of tensor %d, %lld elements: %.17g, not "
                     "%.17g",
                     i, (long long)bed.tensors[i].n, got[i], want[i]);
    vp_device_host_free(gpu.device, got);
    bed_release(&bed);
}

/* Adds from even and odd offsets: addresses need not be multiples of 16
 * bytes. */
static void test_add_floats(void **state)
{
    static const int64_t counts[] = { 1, 3, 4, 1000, 100003 };
    struct bed bed;

    (void)state;
    bed_init(&bed, VP_DTYPE_F32);
    for (size_t k = 0; k < VP_COUNT_OF(counts); k++) {
        for (int64_t from = 0; from < 2; from++) {
            snprintf(bed.what, sizeof(bed.what), "add %d floats from %d",
                     (int)counts[k], (int)from);
            bed_send(&bed);
            assert_int_equal(gpu.ops->add(gpu.backend, gpu.stream,
                                          bed_address(&bed, W0) + from,
                                          bed_address(&bed, GRAD) + from,
                                          counts[k]),
                             VP_OK);
            gpu_sync();
            for (int64_t i = from; i < from + counts[k]; i++)
                bed.host[W0][i] += bed.host[GRAD][i];
            bed_compare(&bed, W0);
        }
    }
    bed_release(&bed);
}

/* Covers all values of the upper 16 bits, each with lower halves that are
 * rounded down, up and to even. The result has the bits of the host. */
static void test_shorten(void **state)
{
    static const uint32_t ends[] = { 0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF };
    enum { N = 0x10000 * (int)VP_COUNT_OF(ends) };
    float *want = malloc(N * sizeof(float)), *got = malloc(N * sizeof(float));
    void *data;

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t bits = i / VP_COUNT_OF(ends) << 16 |
                        ends[i % VP_COUNT_OF(ends)];

        memcpy(&want[i], &bits, sizeof(bits));
    }
    assert_int_equal(vp_device_alloc(gpu.device, N * sizeof(float), &data),
                     VP_OK);
    assert_int_equal(vp_stream_copy(gpu.stream, data, want, N * sizeof(float)),
                     VP_OK);
    assert_int_equal(gpu.ops->shorten(gpu.backend, gpu.stream, data, N), VP_OK);
    assert_int_equal(vp_stream_copy(gpu.stream, got, data, N * sizeof(float)),
                     VP_OK);
    gpu_sync();
    vp_dtype_shorten(VP_DTYPE_BF16, want, N);
    assert_memory_equal(want, got, N * sizeof(float));
    vp_device_free(gpu.device, data, N * sizeof(float));
    free(want);
    free(got);
}

/* ---- NaN and infinity --------------------------------------------------- */

/* Searches `n` elements from `from` on. A NaN lies before and behind them. */
static void check_nonfinite(enum vp_dtype dtype, int64_t n, int64_t from,
                            int64_t place, double value)
{
    struct image image = { .n_tensors = 0 };
    struct tensor *t = image_add(&image, "data", from + n + 1, dtype);
    bool found = false;

    image_make(&image); /* all NaN */
    for (int64_t i = 0; i < n; i++)
        image_put(&image, t, from + i, test_number(3, 1, i));
    if (place >= 0)
        image_put(&image, t, from + place, value);
    image_send(&image);
    assert_int_equal(gpu.try_nonfinite(gpu.backend,
                                       (char *)image_address(&image, t) +
                                           from * vp_dtype_bytes(dtype),
                                       n, dtype, &found),
                     VP_OK);
    if (found != (place >= 0))
        fail_msg("%s, %d elements from %d, %g at %d: %s", dtype_names[dtype],
                 (int)n, (int)from, value, (int)place,
                 found ? "found" : "not found");
    image_free(&image);
}

static void test_nonfinite(void **state)
{
    static const enum vp_dtype dtypes[] = { VP_DTYPE_F32, VP_DTYPE_BF16,
                                            VP_DTYPE_F16 };
    static const int64_t counts[] = { 1, 7, 1000, 100003 };

    (void)state;
    for (size_t d = 0; d < VP_COUNT_OF(dtypes); d++) {
        for (size_t k = 0; k < VP_COUNT_OF(counts); k++) {
            for (int64_t from = 0; from < 2; from++) {
                int64_t n = counts[k];

                check_nonfinite(dtypes[d], n, from, -1, 0);
                check_nonfinite(dtypes[d], n, from, 0, (double)NAN);
                check_nonfinite(dtypes[d], n, from, n / 2, (double)-INFINITY);
                check_nonfinite(dtypes[d], n, from, n - 1, (double)NAN);
            }
        }
    }
}

/* ---- Clocks ------------------------------------------------------------- */

/* Checks that the event was reached between two readings of the host's clock,
 * within the error of the clocks' calibration. */
static void check_event_time(struct vp_event *event)
{
    const int64_t off_ns = 20000;
    int64_t before = vp_clock_ns(), after, ns = 0;

    assert_int_equal(vp_event_record(event, gpu.stream), VP_OK);
    assert_int_equal(vp_event_sync(event, 1000), VP_OK);
    after = vp_clock_ns();
    assert_true(vp_event_time(event, &ns));
    if (ns < before - off_ns || ns > after + off_ns)
        fail_msg("reached %lld ns after it was recorded, seen after %lld",
                 (long long)(ns - before), (long long)(after - before));
}

/* Repeats the check over several seconds, because clocks drift and are
 * calibrated again. */
static void test_event_times(void **state)
{
    const struct timespec pause = { .tv_sec = 1, .tv_nsec = 100000000 };
    struct vp_event *event = NULL;

    (void)state;
    assert_int_equal(vp_event_create_timed(gpu.device, &event), VP_OK);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 100; k++)
            check_event_time(event);
        nanosleep(&pause, NULL);
    }
    vp_event_free(event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_updates_of_parts),
        cmocka_unit_test(test_sum_squares),
        cmocka_unit_test(test_add_floats),
        cmocka_unit_test(test_shorten),
        cmocka_unit_test(test_nonfinite),
    };
    const struct CMUnitTest large[] = {
        cmocka_unit_test(test_event_times),
    };
    struct vp_err err = { .text = "" };
    int n_failed;

    if (gpu_open(&err) != VP_OK) {
        print_message("skipped: %s\n", err.text);
        return 0;
    }
    n_failed = cmocka_run_group_tests(tests, start_gpu, stop_gpu);
    if (tiny() == 0)
        n_failed += cmocka_run_group_tests(large, start_gpu, stop_gpu);
    gpu_close();
    return n_failed;
}
