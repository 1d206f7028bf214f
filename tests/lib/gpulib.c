#include "lib/gpulib.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- The device --------------------------------------------------------- */

struct gpu gpu;

enum vp_status gpu_open(struct vp_err *err)
{
    struct vp_backend_config config = { .device = 0 };

    VP_TRY(vp_backend_load("cuda", &gpu.ops, err));
    VP_TRY(vp_backend_open(gpu.ops, &config, &gpu.backend, err));
    gpu.device = vp_backend_device(gpu.backend);
    vp_device_attach(gpu.device);
    return VP_OK;
}

/* `fn`: address of a function pointer. */
static bool gpu_find(const char *name, void *fn)
{
    void *symbol = vp_backend_symbol("cuda", name);

    memcpy(fn, &symbol, sizeof(symbol));
    return symbol;
}

bool gpu_start(void)
{
    return gpu_find("vp_cuda_try", &gpu.try_call) &&
           gpu_find("vp_cuda_try_fused", &gpu.try_fused) &&
           gpu_find("vp_cuda_try_nonfinite", &gpu.try_nonfinite) &&
           vp_stream_create(gpu.device, &gpu.stream) == VP_OK &&
           vp_event_create(gpu.device, &gpu.event) == VP_OK;
}

void gpu_stop(void)
{
    vp_event_free(gpu.event);
    vp_stream_free(gpu.stream);
}

void gpu_close(void)
{
    gpu.ops->close(gpu.backend);
}

void gpu_sync(void)
{
    assert_int_equal(vp_event_record(gpu.event, gpu.stream), VP_OK);
    assert_int_equal(vp_event_sync(gpu.event, 60000), VP_OK);
}

void gpu_copy(void *dst, const void *src, size_t n_bytes)
{
    assert_int_equal(vp_stream_copy(gpu.stream, dst, src, n_bytes), VP_OK);
    gpu_sync();
}

/* ---- Element types ------------------------------------------------------ */

const char *const dtype_names[] = {
    [VP_DTYPE_F32] = "fp32",
    [VP_DTYPE_I32] = "int32",
    [VP_DTYPE_BF16] = "bf16",
    [VP_DTYPE_F16] = "fp16",
};

/* Rounds to the upper half of a float, to nearest, ties to even. */
static uint16_t bf16_from(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if (isnan(x))
        return 0xFFFF;
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

static double bf16_value(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof(x));
    return (double)x;
}

/* Rounds to fp16: 1 sign, 5 exponent and 10 fraction bits; steps of 2^-24 below
 * 2^-14. */
static uint16_t fp16_from(float x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs((double)x), steps;
    int exponent;

    if (isnan(x))
        return 0xFFFF;
    frexp(size, &exponent); /* size = f * 2^exponent, 1/2 <= f < 1 */
    exponent = size == 0 || exponent < -13 ? -13 : exponent;
    steps = nearbyint(ldexp(size, 11 - exponent)); /* up to 2048 */
    if (!(ldexp(steps, exponent - 11) <= 65504))
        return sign | 0x7C00;
    /* 1024 steps are one step of the exponent, so a carry gives the right
     * bits. */
    return (uint16_t)(sign + (exponent + 13) * 1024 + (int)steps);
}

static double fp16_value(uint16_t half)
{
    double sign = half & 0x8000 ? -1.0 : 1.0;
    int exponent = half >> 10 & 31, fraction = half & 1023;

    if (exponent == 31)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, -24);
    return sign * ldexp(1024 + fraction, exponent - 25);
}

/* Returns element `i` of a host copy of device memory. */
static double element_get(const void *data, enum vp_dtype dtype, int64_t i)
{
    switch (dtype) {
    case VP_DTYPE_BF16:
        return bf16_value(((const uint16_t *)data)[i]);
    case VP_DTYPE_F16:
        return fp16_value(((const uint16_t *)data)[i]);
    case VP_DTYPE_I32:
        return ((const int32_t *)data)[i];
    default:
        return (double)((const float *)data)[i];
    }
}

void element_set(void *data, enum vp_dtype dtype, int64_t i, double value)
{
    switch (dtype) {
    case VP_DTYPE_BF16:
        ((uint16_t *)data)[i] = bf16_from((float)value);
        break;
    case VP_DTYPE_F16:
        ((uint16_t *)data)[i] = fp16_from((float)value);
        break;
    case VP_DTYPE_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    default:
        ((float *)data)[i] = (float)value;
    }
}

double element_rounded(enum vp_dtype dtype, double value)
{
    float memory;

    element_set(&memory, dtype, 0, value);
    return element_get(&memory, dtype, 0);
}

/* ---- Images ------------------------------------------------------------- */

static struct tensor *image_add_bytes(struct image *image, const char *name,
                                      size_t n_bytes)
{
    struct tensor *t = &image->tensors[image->n_tensors++];

    assert_true(image->n_tensors <= MAX_IMAGE);
    t->name = name;
    t->begin = vp_align_up(image->n_bytes + GUARD_BYTES, VP_TENSOR_ALIGN);
    t->n_bytes = n_bytes;
    image->n_bytes = t->begin + n_bytes;
    return t;
}

struct tensor *image_add(struct image *image, const char *name, int64_t n,
                         enum vp_dtype dtype)
{
    size_t n_bytes = (size_t)(n * vp_dtype_bytes(dtype));
    struct tensor *t = image_add_bytes(image, name, n_bytes);

    t->n = n;
    t->dtype = dtype;
    return t;
}

struct tensor *image_add_scratch(struct image *image, size_t n_bytes)
{
    struct tensor *t = image_add_bytes(image, "scratch", n_bytes);

    t->scratch = true;
    return t;
}

void image_make(struct image *image)
{
    void *device;

    image->n_bytes += GUARD_BYTES;
    image->before = malloc(3 * image->n_bytes);
    assert_non_null(image->before);
    image->after = image->before + image->n_bytes;
    image->again = image->after + image->n_bytes;
    memset(image->before, GUARD, image->n_bytes);
    for (int i = 0; i < image->n_tensors; i++)
        memset(image->before + image->tensors[i].begin, 0xFF,
               image->tensors[i].n_bytes);
    assert_int_equal(vp_device_alloc(gpu.device, image->n_bytes, &device),
                     VP_OK);
    image->device = device;
}

void image_free(struct image *image)
{
    vp_device_free(gpu.device, image->device, image->n_bytes);
    free(image->before);
}

void *image_address(const struct image *image, const struct tensor *t)
{
    return image->device + t->begin;
}

void image_put(struct image *image, const struct tensor *t, int64_t i,
               double value)
{
    element_set(image->before + t->begin, t->dtype, i, value);
}

double image_get(const struct image *image, const struct tensor *t, int64_t i)
{
    return element_get(image->after + t->begin, t->dtype, i);
}

void image_fill(struct image *image, const struct tensor *t, uint32_t stream)
{
    for (int64_t i = 0; i < t->n; i++)
        image_put(image, t, i, test_number(3, stream, i));
}

void image_send(struct image *image)
{
    gpu_copy(image->device, image->before, image->n_bytes);
}

void image_fetch(struct image *image, unsigned char *to)
{
    gpu_copy(to, image->device, image->n_bytes);
}

static void image_check_zone(const struct image *image, size_t begin,
                             size_t end, const char *behind, const char *what)
{
    for (size_t i = begin; i < end; i++)
        if (image->after[i] != GUARD)
            fail_msg("%s: written out of bounds, %d bytes behind the end of %s",
                     what, (int)(i - begin), behind);
}

void image_check_guards(const struct image *image, const char *what)
{
    const char *behind = "nothing";
    size_t at = 0;

    for (int i = 0; i < image->n_tensors; i++) {
        const struct tensor *t = &image->tensors[i];

        image_check_zone(image, at, t->begin, behind, what);
        at = t->begin + t->n_bytes;
        behind = t->name;
    }
    image_check_zone(image, at, image->n_bytes, behind, what);
}

void image_check_bits(const struct image *image, const struct tensor *t,
                      const unsigned char *other, const char *what,
                      const char *why)
{
    const unsigned char *a = image->after + t->begin, *b = other + t->begin;
    int64_t i = 0, size = vp_dtype_bytes(t->dtype);

    if (t->n_bytes == 0 || memcmp(a, b, t->n_bytes) == 0)
        return;
    while (memcmp(a + i * size, b + i * size, (size_t)size) == 0)
        i++;
    fail_msg("%s: %s: element %lld of %s is %.9g, not %.9g", what, why,
             (long long)i, t->name, element_get(a, t->dtype, i),
             element_get(b, t->dtype, i));
}

void image_check_same(const struct image *image, const unsigned char *other,
                      const char *what, const char *why)
{
    for (int i = 0; i < image->n_tensors; i++)
        if (!image->tensors[i].scratch)
            image_check_bits(image, &image->tensors[i], other, what, why);
}
