/* The CUDA plugin against the CPU: every operator in every mode and type, real
 * sizes, fused calls against the same calls one by one, the optimizer. Skipped
 * where there is no plugin or no device. */
#include "backend/cpu/fast.h"
#include "base/clock.h"
#include "base/halves.h"
#include "base/pool.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/gpulib.h"
#include "lib/one_op.h"
#include "lib/op_cases.h"
#include "lib/op_modes.h"

enum { MAX_THREADS = 16 };

static struct vp_pool *pool; /* for the fast CPU kernels */

/* ---- An operator on both sides ------------------------------------------ */

/* The device's side of `host`, whose arrays hold the same numbers in another
 * type. Tensors that share memory there share it here. */
struct mirror {
    struct one_op *host;
    char what[160]; /* case, type and mode, for messages */
    struct image image;
    const void *source[MAX_IMAGE]; /* of each tensor: an array of `host` */
    struct vp_kargs args;          /* device addresses */
};

static const struct tensor *mirror_find(const struct mirror *m,
                                        const void *source)
{
    for (int i = 0; i < m->image.n_tensors; i++)
        if (m->source[i] == source)
            return &m->image.tensors[i];
    return NULL;
}

static void mirror_add(struct mirror *m, const char *name, const void *source,
                       int64_t n, enum vp_dtype dtype)
{
    if (!source || mirror_find(m, source))
        return;
    m->source[m->image.n_tensors] = source;
    image_add(&m->image, name, n, dtype);
}

static enum vp_dtype value_dtype(const struct one_op *t, vp_val value)
{
    return value == VP_NONE ? VP_DTYPE_F32 : t->graph.values[value].dtype;
}

static void mirror_add_all(struct mirror *m)
{
    static const char *const in[] = { "in0", "in1", "in2" };
    static const char *const aux[] = { "aux0", "aux1" };
    static const char *const par[] = { "par0", "par1", "par2" };
    static const char *const din[] = { "din0", "din1", "din2" };
    static const char *const dpar[] = { "dpar0", "dpar1", "dpar2" };
    const struct one_op *t = m->host;
    const struct vp_kargs *a = &t->args;
    enum vp_dtype out = value_dtype(t, a->op->out);

    mirror_add(m, "out", a->out, t->n_out, out);
    mirror_add(m, "dout", a->dout, t->n_out, out);
    mirror_add(m, "dz", a->dz, t->n_out, out);
    mirror_add(m, "again", a->recomputed_out, t->n_out, out);
    for (int k = 0; k < VP_MAX_IN; k++) {
        enum vp_dtype dtype = value_dtype(t, a->op->in[k]);

        mirror_add(m, in[k], a->in[k], t->n_in[k], dtype);
        mirror_add(m, din[k], a->din[k], t->n_in[k], dtype);
    }
    for (int k = 0; k < VP_MAX_AUX; k++)
        mirror_add(m, aux[k], a->aux[k], t->n_aux[k],
                   value_dtype(t, a->op->aux[k]));
    for (int k = 0; k < VP_MAX_PARAM; k++) {
        mirror_add(m, par[k], a->par[k], t->n_par[k], t->graph.dtype);
        mirror_add(m, dpar[k], a->dpar[k], t->n_par[k], VP_DTYPE_F32);
    }
}

static size_t most_scratch(const struct vp_graph *graph, const struct vp_op *op)
{
    struct vp_backend_config config = { .device = 0 };
    size_t most = 0;

    for (int phase = 0; phase < VP_PHASE_COUNT; phase++) {
        size_t n = gpu.ops->scratch_bytes(&config, graph, op,
                                          (enum vp_phase)phase);

        most = n > most ? n : most;
    }
    return most;
}

static void *mirror_address(const struct mirror *m, const void *source)
{
    return source ? image_address(&m->image, mirror_find(m, source)) : NULL;
}

static void mirror_resolve(struct mirror *m, const struct tensor *scratch)
{
    struct vp_kargs *a = &m->args;

    *a = m->host->args;
    a->pool = NULL;
    a->out = mirror_address(m, a->out);
    a->dout = mirror_address(m, a->dout);
    a->dz = mirror_address(m, a->dz);
    a->recomputed_out = mirror_address(m, a->recomputed_out);
    for (int k = 0; k < VP_MAX_IN; k++) {
        a->in[k] = mirror_address(m, a->in[k]);
        a->din[k] = mirror_address(m, a->din[k]);
    }
    for (int k = 0; k < VP_MAX_AUX; k++)
        a->aux[k] = mirror_address(m, a->aux[k]);
    for (int k = 0; k < VP_MAX_PARAM; k++) {
        a->par[k] = mirror_address(m, a->par[k]);
        a->dpar[k] = mirror_address(m, a->dpar[k]);
    }
    a->scratch = scratch->n_bytes ? image_address(&m->image, scratch) : NULL;
}

static double source_get(const struct mirror *m, int tensor, int64_t i)
{
    if (m->image.tensors[tensor].dtype == VP_DTYPE_I32)
        return ((const int32_t *)m->source[tensor])[i];
    return one_op_get(m->host, m->source[tensor], i);
}

/* The host's numbers are rounded to what the device can hold, and put into the
 * image: both sides go on from the same. */
static void mirror_take(struct mirror *m, int tensor)
{
    const struct tensor *t = &m->image.tensors[tensor];

    for (int64_t i = 0; i < t->n; i++) {
        double x = source_get(m, tensor, i);

        image_put(&m->image, t, i, x);
        if (t->dtype != VP_DTYPE_I32)
            one_op_set(m->host, m->source[tensor], i,
                       element_rounded(t->dtype, x));
    }
}

/* Backward reads what the host's forward saved, on both sides: the error of
 * one does not enter the other. */
static void mirror_take_forward(struct mirror *m)
{
    struct written w[MAX_WRITTEN];
    int n = written_by(m->host, PHASE_BIT(VP_PHASE_F), w);

    for (int i = 0; i < n; i++)
        mirror_take(m, (int)(mirror_find(m, w[i].data) - m->image.tensors));
}

static void mirror_init(struct mirror *m, struct one_op *host, int mode)
{
    const struct tensor *scratch;

    *m = (struct mirror){ .host = host };
    snprintf(m->what, sizeof(m->what), "%s, %s, mode %d", host->spec.name,
             dtype_names[host->spec.dtype], mode);
    mirror_add_all(m);
    scratch = image_add_scratch(&m->image,
                                most_scratch(&host->graph, host->args.op));
    image_make(&m->image);
    mirror_resolve(m, scratch);
    for (int i = 0; i < m->image.n_tensors; i++)
        mirror_take(m, i);
}

static bool has_phase(const struct one_op *t, unsigned phases, int phase)
{
    return phases & PHASE_BIT(phase) && one_op_kernel(t, (enum vp_phase)phase);
}

static void mirror_run(struct mirror *m, unsigned phases, unsigned char *to)
{
    image_send(&m->image);
    for (int phase = 0; phase < VP_PHASE_COUNT; phase++) {
        enum vp_status st;

        if (!has_phase(m->host, phases, phase))
            continue;
        st = gpu.try_call(gpu.backend, &m->args, (enum vp_phase)phase);
        if (st != VP_OK)
            fail_msg("%s: phase %d: %s", m->what, phase, vp_status_name(st));
    }
    image_fetch(&m->image, to);
}

/* ---- How far the device may be off -------------------------------------- */

/* fp32: the promise of the design, relative to the largest element. */
#define FP32_TOLERANCE 1e-5

/* Roundings to a type of two bytes between the inputs and what is compared,
 * each worth 2^-8 (bf16) or 2^-11 (fp16) of the largest element; everything
 * else is float on both sides. */
static const struct {
    int values; /* of activations and their gradients */
    int sums;   /* of what stays float: statistics, weights' gradients */
} roundings[VP_OP_KIND_COUNT] = {
    [VP_OP_EMBED] = { 1, 0 },
    /* z, then act(z), whose slope may be 1.13; dz, then dz times weights.
     * Weights' gradients see the rounded dz. */
    [VP_OP_LINEAR] = { 3, 1 },
    [VP_OP_LAYERNORM] = { 1, 0 },
    /* Probabilities and their gradients before each product, the output that
     * backward reads, the result. */
    [VP_OP_ATTENTION] = { 4, 0 },
    /* The result; probabilities stay float. */
    [VP_OP_CACHED_ATTENTION] = { 1, 0 },
    [VP_OP_DROPOUT] = { 1, 0 },
    [VP_OP_ADD] = { 1, 0 },
    [VP_OP_SCALE] = { 1, 0 },
    [VP_OP_GATHER] = { 1, 0 },
    [VP_OP_CROSS_ENTROPY] = { 1, 0 },
    [VP_OP_COPY] = { 1, 0 },
};

static double tolerance_of(const struct op_spec *spec, enum vp_dtype tensor)
{
    double one = spec->dtype == VP_DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
    int n = tensor == VP_DTYPE_F32 ? roundings[spec->kind].sums
                                   : roundings[spec->kind].values;

    if (spec->dtype == VP_DTYPE_F32)
        return FP32_TOLERANCE;
    return n * one + FP32_TOLERANCE;
}

/* What errors are measured by, besides the largest element: a softmax over a
 * single key has no gradient, and only noise could be compared. */
static double least_size(const struct one_op *t)
{
    if (t->spec.kind != VP_OP_ATTENTION)
        return 0;
    return 1.0 / (double)t->args.op->attr.k_len;
}

/* Dropped elements are exact zeros, the same ones on both sides. */
static bool shows_mask(const struct mirror *m, const char *name)
{
    return m->host->spec.kind == VP_OP_DROPOUT &&
           (strcmp(name, "out") == 0 || !m->args.din_add[0]);
}

static void compare_tensor(const struct mirror *m, const struct written *want)
{
    const struct tensor *t = mirror_find(m, want->data);
    double size = least_size(m->host), allowed;
    bool mask = shows_mask(m, want->name);

    for (int64_t i = 0; i < t->n; i++)
        size = fmax(size, fabs(one_op_get(m->host, want->data, i)));
    allowed = size * tolerance_of(&m->host->spec, t->dtype);
    for (int64_t i = 0; i < t->n; i++) {
        double got = image_get(&m->image, t, i);
        double right = one_op_get(m->host, want->data, i);

        if (want->apart)
            allowed = fabs(right) * tolerance_of(&m->host->spec, t->dtype);
        if (!(fabs(got - right) <= allowed))
            fail_msg("%s: element %lld of %s is %.9g, not %.9g: off by %.3g "
                     "of the largest, %.9g; allowed are %.3g",
                     m->what, (long long)i, want->name, got, right,
                     fabs(got - right) / size, size, allowed / size);
        if (mask && (got == 0) != (right == 0))
            fail_msg("%s: element %lld of %s is %.9g, not %.9g: dropped on "
                     "one side only",
                     m->what, (long long)i, want->name, got, right);
    }
}

/* What was not written has not changed. */
static void check_untouched(const struct mirror *m, const struct written *w,
                            int n_written)
{
    for (int t = 0; t < m->image.n_tensors; t++) {
        bool written = m->image.tensors[t].scratch;

        for (int i = 0; i < n_written; i++)
            written = written || w[i].data == m->source[t];
        if (!written)
            image_check_bits(&m->image, &m->image.tensors[t], m->image.before,
                             m->what, "input changed");
    }
}

/* Runs `phases` twice on the device, once on the host. */
static void check_phases(struct mirror *m, unsigned phases)
{
    struct written w[MAX_WRITTEN];
    int n_written = written_by(m->host, phases, w);

    mirror_run(m, phases, m->image.after);
    mirror_run(m, phases, m->image.again);
    image_check_guards(&m->image, m->what);
    image_check_same(&m->image, m->image.again, m->what, "two runs differ");
    check_untouched(m, w, n_written);
    for (int phase = 0; phase < VP_PHASE_COUNT; phase++)
        if (has_phase(m->host, phases, phase))
            one_op_run(m->host, (enum vp_phase)phase);
    for (int i = 0; i < n_written; i++)
        compare_tensor(m, &w[i]);
}

static void check_op(const struct op_spec *spec, enum vp_dtype dtype,
                     const struct vp_cpu_kernels *kernels, int mode)
{
    size_t real = kernels == &vp_cpu_ref_f64 ? sizeof(double) : sizeof(float);
    struct op_spec typed = *spec;
    struct one_op host;
    struct mirror m;

    typed.dtype = dtype;
    one_op_init(&host, &typed, kernels, real, 3, pool);
    prepare(&host, &modes[mode]);
    mirror_init(&m, &host, mode);
    check_phases(&m, PHASE_BIT(VP_PHASE_F));
    mirror_take_forward(&m);
    check_phases(&m, PHASE_BIT(VP_PHASE_B) | PHASE_BIT(VP_PHASE_W));
    image_free(&m.image);
    one_op_release(&host);
}

/* VP_TINY=1: small sizes only, enough under a sanitizer. VP_TINY=2: and every
 * operator in one mode, not the same for all, under a slow one. */
static int tiny(void)
{
    const char *text = getenv("VP_TINY");

    return text ? (int)strtol(text, NULL, 10) : 0;
}

static void check_small(const struct op_spec *specs, size_t n,
                        enum vp_dtype dtype)
{
    for (size_t i = 0; i < n; i++)
        for (size_t mode = 0; mode < VP_COUNT_OF(modes); mode++)
            if (specs[i].kind != VP_OP_CACHED_CROSS_ATTENTION && /* CPU only */
                (tiny() < 2 || mode == i % VP_COUNT_OF(modes)))
                check_op(&specs[i], dtype, &vp_cpu_ref_f64, (int)mode);
}

static void test_small_fp32(void **state)
{
    (void)state;
    check_small(op_cases, VP_COUNT_OF(op_cases), VP_DTYPE_F32);
    check_small(forward_cases, VP_COUNT_OF(forward_cases), VP_DTYPE_F32);
}

static void test_small_bf16(void **state)
{
    (void)state;
    check_small(op_cases, VP_COUNT_OF(op_cases), VP_DTYPE_BF16);
    check_small(forward_cases, VP_COUNT_OF(forward_cases), VP_DTYPE_BF16);
}

static void test_small_fp16(void **state)
{
    (void)state;
    check_small(op_cases, VP_COUNT_OF(op_cases), VP_DTYPE_F16);
    check_small(forward_cases, VP_COUNT_OF(forward_cases), VP_DTYPE_F16);
}

/* ---- Tiles -------------------------------------------------------------- */

/* The kernels for wide rows and for heads of 64 and 80 columns, at sizes that
 * even a sanitizer gets through. The product has 5 columns: in one of cuBLASLt
 * with 64, racecheck ended with an internal error, though it was to leave that
 * kernel out. */
static const struct op_spec tile_cases[] = {
    { "embed 64", .kind = VP_OP_EMBED, .batch = 2, .q_len = 9, .cols = 64,
      .n_out = 6, .scale = 1.0f, .positions = true, .types = true },
    { "linear 70x5x136 gelu", .kind = VP_OP_LINEAR, .batch = 2, .q_len = 35,
      .cols = 5, .n_out = 136, .bias = true, .act = VP_ACT_GELU_ERF },
    { "layernorm 9x768", .kind = VP_OP_LAYERNORM, .batch = 3, .q_len = 3,
      .cols = 768 },
    { "attention 70 mask dropout", .kind = VP_OP_ATTENTION, .batch = 2,
      .q_len = 70, .cols = 128, .heads = 2, .mask = true, .p = 0.1f },
    { "attention causal 128", .kind = VP_OP_ATTENTION, .batch = 1, .q_len = 128,
      .cols = 64, .heads = 1, .causal = true },
    { "attention causal 200 mask", .kind = VP_OP_ATTENTION, .batch = 1,
      .q_len = 200, .cols = 64, .heads = 1, .causal = true, .mask = true },
    { "attention cross 9x130 mask dropout", .kind = VP_OP_ATTENTION, .batch = 2,
      .q_len = 9, .k_len = 130, .cols = 64, .heads = 1, .mask = true,
      .p = 0.1f },
    { "attention cross 130x9 dropout", .kind = VP_OP_ATTENTION, .batch = 1,
      .q_len = 130, .k_len = 9, .cols = 128, .heads = 2, .p = 0.6f },
    /* Several heads to a block. */
    { "attention 3 mask dropout", .kind = VP_OP_ATTENTION, .batch = 100,
      .q_len = 3, .cols = 512, .heads = 8, .mask = true, .p = 0.1f },
    { "attention cross 3x130 mask dropout", .kind = VP_OP_ATTENTION,
      .batch = 34, .q_len = 3, .k_len = 130, .cols = 512, .heads = 8,
      .mask = true, .p = 0.1f },
    { "attention causal 520", .kind = VP_OP_ATTENTION, .batch = 1, .q_len = 520,
      .cols = 64, .heads = 1, .causal = true },
    { "attention 50 of 80 mask dropout", .kind = VP_OP_ATTENTION, .batch = 2,
      .q_len = 50, .cols = 80, .heads = 1, .mask = true, .p = 0.1f },
    { "cached attention 9x1 of 300", .kind = VP_OP_CACHED_ATTENTION, .batch = 9,
      .q_len = 1, .k_len = 300, .n_lines = 10, .cols = 128, .heads = 2,
      .cache = true },
    { "cached attention 2x40 of 300", .kind = VP_OP_CACHED_ATTENTION,
      .batch = 2, .q_len = 40, .k_len = 300, .n_lines = 3, .cols = 80,
      .heads = 1, .cache = true },
    { "linear 8x264x70 cache", .kind = VP_OP_LINEAR, .batch = 8, .q_len = 1,
      .cols = 264, .n_out = 70, .bias = true, .act = VP_ACT_GELU_TANH,
      .cache = true },
    { "dropout 6x256", .kind = VP_OP_DROPOUT, .batch = 2, .q_len = 3,
      .cols = 256, .p = 0.1f },
    { "add 6x256", .kind = VP_OP_ADD, .batch = 2, .q_len = 3, .cols = 256 },
    { "gather 4 of 14x64", .kind = VP_OP_GATHER, .batch = 2, .q_len = 7,
      .cols = 64, .n_out = 4 },
    { "cross entropy 6x1032", .kind = VP_OP_CROSS_ENTROPY, .batch = 2,
      .q_len = 3, .cols = 1032 },
};

static void test_tiles(void **state)
{
    (void)state;
    check_small(tile_cases, VP_COUNT_OF(tile_cases), VP_DTYPE_BF16);
    if (tiny() < 2)
        check_small(tile_cases, VP_COUNT_OF(tile_cases), VP_DTYPE_F16);
}

/* ---- Real sizes --------------------------------------------------------- */

static const struct op_spec real_cases[] = {
    { "embed bert", .kind = VP_OP_EMBED, .batch = 4, .q_len = 512, .cols = 768,
      .n_out = 30528, .scale = 1.0f, .positions = true, .types = true },
    { "embed gpt2", .kind = VP_OP_EMBED, .batch = 2, .q_len = 1024, .cols = 768,
      .n_out = 50257, .scale = 1.0f, .positions = true },
    { "embed translation", .kind = VP_OP_EMBED, .batch = 16, .q_len = 64,
      .cols = 1024, .n_out = 8192, .scale = 32.0f, .positions = true,
      .constant = true, .pad = true },

    { "linear 2048x768x2304", .kind = VP_OP_LINEAR, .batch = 4, .q_len = 512,
      .cols = 768, .n_out = 2304, .bias = true },
    { "linear 1024x768x3072 gelu", .kind = VP_OP_LINEAR, .batch = 8,
      .q_len = 128, .cols = 768, .n_out = 3072, .bias = true,
      .act = VP_ACT_GELU_ERF },
    { "linear 4099x72x1288 gelu", .kind = VP_OP_LINEAR, .batch = 1,
      .q_len = 4099, .cols = 72, .n_out = 1288, .bias = true,
      .act = VP_ACT_GELU_ERF },
    { "linear 512x1024x4096 gelu tanh", .kind = VP_OP_LINEAR, .batch = 1,
      .q_len = 512, .cols = 1024, .n_out = 4096, .bias = true,
      .act = VP_ACT_GELU_TANH },
    { "linear 1024x3072x768", .kind = VP_OP_LINEAR, .batch = 8, .q_len = 128,
      .cols = 3072, .n_out = 768, .bias = true },
    { "linear 1000x1600x1600 relu", .kind = VP_OP_LINEAR, .batch = 1,
      .q_len = 1000, .cols = 1600, .n_out = 1600, .bias = true,
      .act = VP_ACT_RELU },
    { "linear 320x768x30528", .kind = VP_OP_LINEAR, .batch = 4, .q_len = 80,
      .cols = 768, .n_out = 30528, .bias = true },
    { "linear 256x768x50257", .kind = VP_OP_LINEAR, .batch = 1, .q_len = 256,
      .cols = 768, .n_out = 50257 },

    { "linear 1x768x50257 cache", .kind = VP_OP_LINEAR, .batch = 1, .q_len = 1,
      .cols = 768, .n_out = 50257, .cache = true },
    { "linear 8x768x3072 cache", .kind = VP_OP_LINEAR, .batch = 8, .q_len = 1,
      .cols = 768, .n_out = 3072, .bias = true, .act = VP_ACT_GELU_TANH,
      .cache = true },
    { "linear 64x3072x768 cache", .kind = VP_OP_LINEAR, .batch = 64, .q_len = 1,
      .cols = 3072, .n_out = 768, .bias = true, .cache = true },
    { "cached attention 64x1 of 1024", .kind = VP_OP_CACHED_ATTENTION,
      .batch = 64, .q_len = 1, .k_len = 1024, .n_lines = 64, .cols = 768,
      .heads = 12, .cache = true },
    { "cached attention 1x256 of 1024", .kind = VP_OP_CACHED_ATTENTION,
      .batch = 1, .q_len = 256, .k_len = 1024, .n_lines = 2, .cols = 768,
      .heads = 12, .cache = true },

    { "layernorm 2048x768", .kind = VP_OP_LAYERNORM, .batch = 4, .q_len = 512,
      .cols = 768 },
    { "layernorm 2048x1024", .kind = VP_OP_LAYERNORM, .batch = 16, .q_len = 128,
      .cols = 1024 },
    { "layernorm 515x1600", .kind = VP_OP_LAYERNORM, .batch = 5, .q_len = 103,
      .cols = 1600 },
    { "layernorm 512x770", .kind = VP_OP_LAYERNORM, .batch = 4, .q_len = 128,
      .cols = 770 },

    { "attention 128 mask dropout", .kind = VP_OP_ATTENTION, .batch = 24,
      .q_len = 128, .cols = 768, .heads = 12, .mask = true, .p = 0.1f },
    { "attention causal 128 mask", .kind = VP_OP_ATTENTION, .batch = 9,
      .q_len = 128, .cols = 1024, .heads = 16, .causal = true, .mask = true },
    { "attention causal 100 dropout", .kind = VP_OP_ATTENTION, .batch = 3,
      .q_len = 100, .cols = 256, .heads = 4, .causal = true, .p = 0.1f },
    { "attention 50 mask", .kind = VP_OP_ATTENTION, .batch = 40, .q_len = 50,
      .cols = 512, .heads = 8, .mask = true },
    /* More than two heads to each block of the kernels for short ones. */
    { "attention 70 mask dropout", .kind = VP_OP_ATTENTION, .batch = 50,
      .q_len = 70, .cols = 768, .heads = 12, .mask = true, .p = 0.1f },
    { "attention 64 dropout", .kind = VP_OP_ATTENTION, .batch = 5, .q_len = 64,
      .cols = 256, .heads = 4, .p = 0.1f },
    { "attention causal 7 dropout", .kind = VP_OP_ATTENTION, .batch = 6,
      .q_len = 7, .cols = 192, .heads = 3, .causal = true, .p = 0.6f },
    { "attention cross 60x128 mask dropout", .kind = VP_OP_ATTENTION,
      .batch = 8, .q_len = 60, .k_len = 128, .cols = 1024, .heads = 16,
      .mask = true, .p = 0.1f },
    { "attention cross 128x30 dropout", .kind = VP_OP_ATTENTION, .batch = 8,
      .q_len = 128, .k_len = 30, .cols = 1024, .heads = 16, .p = 0.1f },
    { "attention 512 mask dropout", .kind = VP_OP_ATTENTION, .batch = 2,
      .q_len = 512, .cols = 1024, .heads = 16, .mask = true, .p = 0.1f },
    { "attention 512", .kind = VP_OP_ATTENTION, .batch = 2, .q_len = 512,
      .cols = 768, .heads = 12 },
    { "attention causal 1024 dropout", .kind = VP_OP_ATTENTION, .batch = 1,
      .q_len = 1024, .cols = 768, .heads = 12, .causal = true, .p = 0.1f },
    { "attention causal 1000", .kind = VP_OP_ATTENTION, .batch = 1,
      .q_len = 1000, .cols = 768, .heads = 12, .causal = true },
    { "attention causal 1024", .kind = VP_OP_ATTENTION, .batch = 2,
      .q_len = 1024, .cols = 256, .heads = 4, .causal = true },
    { "attention 640 mask dropout", .kind = VP_OP_ATTENTION, .batch = 4,
      .q_len = 640, .cols = 256, .heads = 4, .mask = true, .p = 0.1f },
    { "attention causal 700 mask", .kind = VP_OP_ATTENTION, .batch = 4,
      .q_len = 700, .cols = 256, .heads = 4, .causal = true, .mask = true },
    { "attention cross 96x80 mask dropout", .kind = VP_OP_ATTENTION, .batch = 8,
      .q_len = 96, .k_len = 80, .cols = 1024, .heads = 16, .mask = true,
      .p = 0.1f },
    { "attention cross 100x250 mask dropout", .kind = VP_OP_ATTENTION,
      .batch = 4, .q_len = 100, .k_len = 250, .cols = 512, .heads = 8,
      .mask = true, .p = 0.1f },
    { "attention cross 250x300 dropout", .kind = VP_OP_ATTENTION, .batch = 2,
      .q_len = 250, .k_len = 300, .cols = 512, .heads = 8, .p = 0.6f },
    { "attention cross 40x600 mask dropout", .kind = VP_OP_ATTENTION,
      .batch = 36, .q_len = 40, .k_len = 600, .cols = 512, .heads = 8,
      .mask = true, .p = 0.3f },
    { "attention cross 600x40 dropout", .kind = VP_OP_ATTENTION, .batch = 20,
      .q_len = 600, .k_len = 40, .cols = 512, .heads = 8, .p = 0.1f },

    { "dropout 2048x768", .kind = VP_OP_DROPOUT, .batch = 4, .q_len = 512,
      .cols = 768, .p = 0.1f },
    { "add 2048x768", .kind = VP_OP_ADD, .batch = 4, .q_len = 512,
      .cols = 768 },
    { "scale 2048x1024", .kind = VP_OP_SCALE, .batch = 4, .q_len = 512,
      .cols = 1024, .scale = 0.125f },
    { "copy 2048x768", .kind = VP_OP_COPY, .batch = 4, .q_len = 512,
      .cols = 768 },
    { "gather 320 of 2048x768", .kind = VP_OP_GATHER, .batch = 4, .q_len = 512,
      .cols = 768, .n_out = 320 },

    { "cross entropy 320x30528", .kind = VP_OP_CROSS_ENTROPY, .batch = 4,
      .q_len = 80, .cols = 30528 },
    { "cross entropy 256x50257", .kind = VP_OP_CROSS_ENTROPY, .batch = 1,
      .q_len = 256, .cols = 50257 },
    { "cross entropy 1024x8192 smoothed", .kind = VP_OP_CROSS_ENTROPY,
      .batch = 16, .q_len = 64, .cols = 8192, .weights = true,
      .smoothing = 0.1f },
};

/* Against the fast kernels, for the twins would take minutes. */
static void test_real_fp32(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(real_cases); i++)
        check_op(&real_cases[i], VP_DTYPE_F32, &vp_cpu_fast, 0);
}

/* Evaluation: ranks of labels. Numbers of two bytes are often equal. */
static void test_real_ranks(void **state)
{
    static const enum vp_dtype dtypes[] = { VP_DTYPE_F32, VP_DTYPE_BF16,
                                            VP_DTYPE_F16 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(real_cases); i++)
        for (size_t k = 0; k < VP_COUNT_OF(dtypes); k++)
            if (real_cases[i].kind == VP_OP_CROSS_ENTROPY)
                check_op(&real_cases[i], dtypes[k], &vp_cpu_fast, 2);
}

/* Mode 1: gradients are added, as in every minibatch but the first. */
static void test_real_bf16(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(real_cases); i++)
        check_op(&real_cases[i], VP_DTYPE_BF16, &vp_cpu_fast, 1);
}

/* ---- Fused calls -------------------------------------------------------- */

/* The end of a branch: out = layernorm(dropout(x) + trunk), x = linear(few), of
 * which nothing but the gradient of the bias is run. */
enum { LINEAR, DROPOUT, ADD, LAYERNORM, N_CHAIN };

struct chain {
    char what[160];
    struct vp_graph graph;
    struct vp_mb mb;
    struct image image;
    struct vp_kargs args[N_CHAIN];
    struct tensor *dropped, *out, *again;
};

/* How a chain is called. */
struct chain_mode {
    bool add;       /* gradients are added to what is there, ... */
    bool drop_adds; /* ... and that of what is dropped */
    bool eval;
    bool plain; /* nothing is dropped */
};

static void chain_build(struct chain *c, int64_t rows, int64_t cols,
                        enum vp_dtype dtype, bool plain)
{
    struct vp_graph *g = &c->graph;
    vp_val few, x, trunk, sum;
    vp_par weight, bias, gamma, beta;

    vp_graph_init(g, rows % 2 ? 1 : 2);
    g->dtype = dtype;
    vp_graph_block(g, "block");
    vp_graph_line(g);
    trunk = test_matrix(g, "trunk", rows, cols);
    few = test_matrix(g, "few", rows, 4);
    weight = test_param(g, "weight", cols, 4);
    bias = test_param(g, "bias", 1, cols);
    gamma = test_param(g, "gamma", 1, cols);
    beta = test_param(g, "beta", 1, cols);
    x = vp_linear(g, few, weight, bias, VP_ACT_NONE);
    sum = vp_add(g, vp_dropout(g, x, plain ? 0.0f : 0.1f), trunk);
    vp_layernorm(g, sum, gamma, beta, 1e-5f);
    assert_int_equal(g->status, VP_OK);
    assert_int_equal(g->n_ops, N_CHAIN - plain);
}

static const struct vp_op *chain_op(const struct chain *c, int i)
{
    bool plain = c->graph.n_ops < N_CHAIN;

    return &c->graph.ops[plain && i >= DROPOUT ? i - 1 : i];
}

/* A random tensor of the image, which is not made yet: numbers come later. */
static struct tensor *chain_matrix(struct chain *c, const char *name)
{
    const struct vp_value *x = &c->graph.values[0];

    return image_add(&c->image, name, x->rows * x->cols, c->graph.dtype);
}

/* Forward writes over random numbers, too: a call that is left out shows. */
static void chain_make(struct chain *c)
{
    const struct vp_value *value = &c->graph.values[0];
    enum vp_dtype dtype = c->graph.dtype;
    struct image *im = &c->image;
    struct vp_kargs *drop = &c->args[DROPOUT], *sum = &c->args[ADD];
    struct vp_kargs *norm = &c->args[LAYERNORM], *linear = &c->args[LINEAR];
    struct tensor *x = chain_matrix(c, "x"), *trunk = chain_matrix(c, "trunk");
    struct tensor *dropped = chain_matrix(c, "dropped");
    struct tensor *added = chain_matrix(c, "added");
    struct tensor *out = chain_matrix(c, "out"),
                  *dout = chain_matrix(c, "dout");
    struct tensor *dadded = chain_matrix(c, "dadded");
    struct tensor *dx = chain_matrix(c, "dx");
    struct tensor *again = chain_matrix(c, "again");
    struct tensor *stat = image_add(im, "stat", 2 * value->rows, VP_DTYPE_F32);
    struct tensor *gamma = image_add(im, "gamma", value->cols, dtype);
    struct tensor *beta = image_add(im, "beta", value->cols, dtype);
    struct tensor *dgamma = image_add(im, "dgamma", value->cols, VP_DTYPE_F32);
    struct tensor *dbeta = image_add(im, "dbeta", value->cols, VP_DTYPE_F32);
    struct tensor *dbias = image_add(im, "dbias", value->cols, VP_DTYPE_F32);
    struct tensor *scratch[N_CHAIN];

    for (int i = 0; i < N_CHAIN; i++)
        scratch[i] = image_add_scratch(im,
                                       most_scratch(&c->graph, chain_op(c, i)));
    image_make(im);
    for (int i = 0; i < N_CHAIN; i++)
        c->args[i] = (struct vp_kargs){ .graph = &c->graph,
                                        .op = chain_op(c, i),
                                        .mb = &c->mb,
                                        .scratch = image_address(im,
                                                                 scratch[i]) };
    linear->dout = image_address(im, dx);
    linear->dpar[1] = image_address(im, dbias);
    drop->in[0] = image_address(im, x);
    drop->out = image_address(im, dropped);
    c->dropped = dropped;
    sum->in[0] = drop->out;
    sum->in[1] = image_address(im, trunk);
    sum->out = image_address(im, added);
    norm->in[0] = sum->out;
    norm->out = image_address(im, out);
    norm->aux[0] = image_address(im, stat);
    norm->par[0] = image_address(im, gamma);
    norm->par[1] = image_address(im, beta);
    norm->dout = image_address(im, dout);
    norm->din[0] = image_address(im, dadded);
    norm->recomputed_out = image_address(im, again);
    c->out = out;
    c->again = again;
    norm->dpar[0] = image_address(im, dgamma);
    norm->dpar[1] = image_address(im, dbeta);
    drop->dout = norm->din[0];
    drop->din[0] = image_address(im, dx);
}

static void chain_init(struct chain *c, int64_t rows, int64_t cols,
                       enum vp_dtype dtype, struct chain_mode mode)
{
    *c = (struct chain){ 0 };
    c->mb = (struct vp_mb){ .seed = 77,
                            .first_sample = 1000,
                            .loss_grad = 1.0f,
                            .accumulate = mode.add,
                            .train = !mode.eval };
    chain_build(c, rows, cols, dtype, mode.plain);
    chain_make(c);
    if (mode.plain)
        c->args[LINEAR].dout = c->args[LAYERNORM].din[0];
    c->args[LAYERNORM].din_add[0] = mode.add;
    c->args[DROPOUT].din_add[0] = mode.drop_adds;
    for (int i = 0; i < c->image.n_tensors; i++)
        image_fill(&c->image, &c->image.tensors[i], (uint32_t)i);
}

static void chain_release(struct chain *c)
{
    image_free(&c->image);
    vp_graph_release(&c->graph);
}

struct chain_run {
    const char *name;
    int n;
    int op[N_CHAIN];
    enum vp_phase phase[N_CHAIN];
};

static const struct chain_run chain_runs[] = {
    { "dropout, add, layernorm",
      3,
      { DROPOUT, ADD, LAYERNORM },
      { VP_PHASE_F, VP_PHASE_F, VP_PHASE_F } },
    { "dropout, add", 2, { DROPOUT, ADD }, { VP_PHASE_F, VP_PHASE_F } },
    { "add, layernorm", 2, { ADD, LAYERNORM }, { VP_PHASE_F, VP_PHASE_F } },
    { "layernorm B, W",
      2,
      { LAYERNORM, LAYERNORM },
      { VP_PHASE_B, VP_PHASE_W } },
    { "layernorm B, W, dropout B",
      3,
      { LAYERNORM, LAYERNORM, DROPOUT },
      { VP_PHASE_B, VP_PHASE_W, VP_PHASE_B } },
};

/* The sums for the bias come with the rest, which leaves W without them. */
static const struct chain_run bias_run = {
    "layernorm B, W, dropout B, linear W",
    4,
    { LAYERNORM, LAYERNORM, DROPOUT, LINEAR },
    { VP_PHASE_B, VP_PHASE_W, VP_PHASE_B, VP_PHASE_W }
};

static const struct chain_run plain_bias_run = {
    "layernorm B, W, linear W",
    3,
    { LAYERNORM, LAYERNORM, LINEAR },
    { VP_PHASE_B, VP_PHASE_W, VP_PHASE_W }
};

/* Calls [first, n) of the run, one by one. */
static void run_calls(const struct vp_kargs *args, const struct chain_run *run,
                      int first)
{
    for (int i = first; i < run->n; i++)
        assert_int_equal(gpu.try_call(gpu.backend, &args[i], run->phase[i]),
                         VP_OK);
}

static void chain_args(const struct chain *c, const struct chain_run *run,
                       struct vp_kargs *args_out)
{
    for (int i = 0; i < run->n; i++)
        args_out[i] = c->args[run->op[i]];
}

/* Returns how many calls were done together. `args` are those of the run. */
static int check_chain(struct chain *c, const struct chain_run *run,
                       struct vp_kargs *args)
{
    int n_done;

    chain_args(c, run, args);
    image_send(&c->image);
    run_calls(args, run, 0);
    image_fetch(&c->image, c->image.again);
    image_send(&c->image);
    n_done = gpu.try_fused(gpu.backend, args, run->phase, run->n);
    assert_in_range(n_done, 0, run->n);
    run_calls(args, run, n_done);
    image_fetch(&c->image, c->image.after);
    image_check_guards(&c->image, c->what);
    /* What only the next call of a run reads need not be written. */
    c->dropped->scratch = run->op[0] == DROPOUT && n_done > 1;
    image_check_same(&c->image, c->image.again, c->what,
                     "differs from the calls one by one");
    c->dropped->scratch = false;
    return n_done;
}

static void name_chain(struct chain *c, const struct chain_run *run,
                       struct chain_mode mode)
{
    const struct vp_value *value = &c->graph.values[0];

    snprintf(c->what, sizeof(c->what), "%s (%s, %dx%d%s%s)", run->name,
             dtype_names[c->graph.dtype], (int)value->rows, (int)value->cols,
             mode.add || mode.drop_adds ? ", added" : "",
             mode.eval ? ", eval" : "");
}

/* Rows that are not longer have the order of vp_cuda_column_sums(). */
static void check_bias(struct chain *c, struct chain_mode mode)
{
    const struct vp_value *value = &c->graph.values[0];
    bool must = !mode.eval && !mode.drop_adds && value->cols % 64 == 0 &&
                value->cols * vp_dtype_bytes(c->graph.dtype) <= 2048;
    const struct chain_run *run = mode.plain ? &plain_bias_run : &bias_run;
    struct vp_kargs args[N_CHAIN];

    name_chain(c, run, mode);
    check_chain(c, run, args);
    if (must && args[run->n - 1].dpar[1])
        fail_msg("%s: the bias was left alone", c->what);
}

static void check_chains(int64_t rows, int64_t cols, enum vp_dtype dtype,
                         struct chain_mode mode)
{
    bool must_fuse = cols >= 768 && cols % 64 == 0 && !mode.eval;
    struct chain c;

    chain_init(&c, rows, cols, dtype, mode);
    for (size_t i = 0; i < VP_COUNT_OF(chain_runs) && !mode.plain; i++) {
        const struct chain_run *run = &chain_runs[i];
        /* A dropout that adds to a gradient stays alone. */
        bool alone = mode.drop_adds && run->op[run->n - 1] == DROPOUT;
        struct vp_kargs args[N_CHAIN];
        int n_done;

        name_chain(&c, run, mode);
        n_done = check_chain(&c, run, args);
        if (must_fuse && n_done < run->n - alone)
            fail_msg("%s: only %d of %d calls were fused", c.what, n_done,
                     run->n);
    }
    check_bias(&c, mode);
    chain_release(&c);
}

/* Backward makes the output of layer norm again, bit for bit. */
static void check_again(int64_t rows, int64_t cols, enum vp_dtype dtype)
{
    static const struct chain_run run = { "layernorm F, B",
                                          2,
                                          { LAYERNORM, LAYERNORM },
                                          { VP_PHASE_F, VP_PHASE_B } };
    struct vp_kargs args[N_CHAIN];
    struct chain c;

    chain_init(&c, rows, cols, dtype, (struct chain_mode){ 0 });
    chain_args(&c, &run, args);
    image_send(&c.image);
    run_calls(args, &run, 0);
    image_fetch(&c.image, c.image.after);
    assert_memory_equal(c.image.after + c.out->begin,
                        c.image.after + c.again->begin, c.out->n_bytes);
    chain_release(&c);
}

static void test_fused(void **state)
{
    static const int64_t sizes[][2] = {
        { 1, 1 },   { 3, 5 },    { 7, 37 },    { 33, 64 },   { 9, 770 },
        { 5, 768 }, { 64, 768 }, { 50, 1024 }, { 17, 1600 }, { 2048, 768 },
    };
    static const struct chain_mode chain_modes[] = {
        { 0 },
        { .add = true },
        { .drop_adds = true },
        { .eval = true },
        { .plain = true },
        { .plain = true, .add = true },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
        if (tiny() && sizes[i][0] * sizes[i][1] > 9 * 770)
            continue;
        for (size_t k = 0; k < VP_COUNT_OF(chain_modes); k++) {
            if (tiny() > 1 && k != i % VP_COUNT_OF(chain_modes))
                continue;
            check_chains(sizes[i][0], sizes[i][1], VP_DTYPE_F32,
                         chain_modes[k]);
            check_chains(sizes[i][0], sizes[i][1], VP_DTYPE_BF16,
                         chain_modes[k]);
        }
        check_again(sizes[i][0], sizes[i][1], VP_DTYPE_F32);
        check_again(sizes[i][0], sizes[i][1], VP_DTYPE_BF16);
    }
}

/* ---- Two layers --------------------------------------------------------- */

/* linear(gelu(linear(x))), of which backward is run: B of the second and of the
 * first, and W of the first for its bias. */
enum { FIRST, SECOND, N_LAYERS, N_PAIR_CALLS = 3 };

struct pair {
    char what[80];
    struct vp_graph graph;
    struct vp_mb mb;
    struct image image;
    struct vp_kargs args[N_LAYERS];
    struct tensor *dact;
};

static void pair_build(struct pair *p, int64_t rows, int64_t cols, int64_t wide,
                       enum vp_dtype dtype)
{
    struct vp_graph *g = &p->graph;
    vp_par weight[N_LAYERS], bias[N_LAYERS];
    vp_val x, act;

    vp_graph_init(g, 1);
    g->dtype = dtype;
    vp_graph_block(g, "block");
    vp_graph_line(g);
    x = test_matrix(g, "x", rows, cols);
    weight[FIRST] = test_param(g, "first", wide, cols);
    bias[FIRST] = test_param(g, "first bias", 1, wide);
    weight[SECOND] = test_param(g, "second", cols, wide);
    bias[SECOND] = test_param(g, "second bias", 1, cols);
    act = vp_linear(g, x, weight[FIRST], bias[FIRST], VP_ACT_GELU_ERF);
    vp_linear(g, act, weight[SECOND], bias[SECOND], VP_ACT_NONE);
    assert_int_equal(g->status, VP_OK);
    assert_int_equal(g->n_ops, N_LAYERS);
}

static void pair_make(struct pair *p, int64_t rows, int64_t cols, int64_t wide)
{
    enum vp_dtype dtype = p->graph.dtype;
    struct image *im = &p->image;
    struct vp_kargs *first = &p->args[FIRST], *second = &p->args[SECOND];
    struct tensor *x = image_add(im, "x", rows * cols, dtype);
    struct tensor *z = image_add(im, "z", rows * wide, dtype);
    struct tensor *dy = image_add(im, "dy", rows * cols, dtype);
    struct tensor *dact = image_add(im, "dact", rows * wide, dtype);
    struct tensor *dz = image_add(im, "dz", rows * wide, dtype);
    struct tensor *again = image_add(im, "again", rows * wide, dtype);
    struct tensor *dx = image_add(im, "dx", rows * cols, dtype);
    struct tensor *w1 = image_add(im, "first", wide * cols, dtype);
    struct tensor *w2 = image_add(im, "second", wide * cols, dtype);
    struct tensor *dw1 = image_add(im, "dfirst", wide * cols, VP_DTYPE_F32);
    struct tensor *db1 = image_add(im, "first dbias", wide, VP_DTYPE_F32);
    struct tensor *scratch[N_LAYERS];

    for (int i = 0; i < N_LAYERS; i++)
        scratch[i] = image_add_scratch(
            im, most_scratch(&p->graph, &p->graph.ops[i]));
    image_make(im);
    for (int i = 0; i < N_LAYERS; i++)
        p->args[i] = (struct vp_kargs){ .graph = &p->graph,
                                        .op = &p->graph.ops[i],
                                        .mb = &p->mb,
                                        .scratch = image_address(im,
                                                                 scratch[i]) };
    second->par[0] = image_address(im, w2);
    second->dout = image_address(im, dy);
    second->din[0] = image_address(im, dact);
    first->in[0] = image_address(im, x);
    first->par[0] = image_address(im, w1);
    first->aux[0] = image_address(im, z);
    first->dout = second->din[0];
    first->dz = image_address(im, dz);
    first->recomputed_out = image_address(im, again);
    first->din[0] = image_address(im, dx);
    first->dpar[0] = image_address(im, dw1);
    first->dpar[1] = image_address(im, db1);
    p->dact = dact;
}

static void check_pair(int64_t rows, int64_t cols, int64_t wide,
                       enum vp_dtype dtype, bool add)
{
    static const struct chain_run run = { "linear B, linear B, W",
                                          N_PAIR_CALLS,
                                          { SECOND, FIRST, FIRST },
                                          { VP_PHASE_B, VP_PHASE_B,
                                            VP_PHASE_W } };
    struct vp_kargs args[N_PAIR_CALLS];
    struct pair p = {
        .mb = { .loss_grad = 1.0f, .accumulate = add, .train = true }
    };
    int n_done;

    snprintf(p.what, sizeof(p.what), "%s (%s, %dx%dx%d%s)", run.name,
             dtype_names[dtype], (int)rows, (int)cols, (int)wide,
             add ? ", added" : "");
    pair_build(&p, rows, cols, wide, dtype);
    pair_make(&p, rows, cols, wide);
    for (int i = 0; i < p.image.n_tensors; i++)
        image_fill(&p.image, &p.image.tensors[i], (uint32_t)i);
    for (int i = 0; i < run.n; i++)
        args[i] = p.args[run.op[i]];
    image_send(&p.image);
    run_calls(args, &run, 0);
    image_fetch(&p.image, p.image.again);
    image_send(&p.image);
    n_done = gpu.try_fused(gpu.backend, args, run.phase, run.n);
    assert_in_range(n_done, 0, run.n);
    run_calls(args, &run, n_done);
    image_fetch(&p.image, p.image.after);
    image_check_guards(&p.image, p.what);
    p.dact->scratch = n_done > 0; /* nobody reads it */
    image_check_same(&p.image, p.image.again, p.what,
                     "differs from the calls one by one");
    image_free(&p.image);
    vp_graph_release(&p.graph);
}

static void test_two_layers(void **state)
{
    static const int64_t sizes[][3] = {
        { 3, 5, 7 },
        { 4099, 72, 1288 },
        { 4096, 256, 1280 },
    };
    static const enum vp_dtype dtypes[] = { VP_DTYPE_F32, VP_DTYPE_BF16,
                                            VP_DTYPE_F16 };

    (void)state;
    if (tiny() > 1) {
        print_message("skipped: too large for VP_TINY=2\n");
        skip();
    }
    for (size_t i = 0; i < VP_COUNT_OF(sizes); i++)
        for (size_t k = 0; k < VP_COUNT_OF(dtypes); k++)
            for (int add = 0; add < 2; add++)
                check_pair(sizes[i][0], sizes[i][1], sizes[i][2], dtypes[k],
                           add);
}

/* ---- Attention with the sums for a bias --------------------------------- */

struct bias_case {
    int batch, len, heads;
    bool causal, add;
    float p;
};

/* A linear whose output attention reads. */
static void bias_build(struct vp_graph *g, const struct bias_case *c,
                       enum vp_dtype dtype)
{
    int64_t rows = (int64_t)c->batch * c->len, cols = 3 * 64 * c->heads;
    vp_val few, x;
    vp_par weight, bias;

    vp_graph_init(g, c->batch);
    g->dtype = dtype;
    vp_graph_block(g, "block");
    vp_graph_line(g);
    few = test_matrix(g, "few", rows, 4);
    weight = test_param(g, "weight", cols, 4);
    bias = test_param(g, "bias", 1, cols);
    x = vp_linear(g, few, weight, bias, VP_ACT_NONE);
    vp_attention(g, x, VP_NONE, VP_NONE, c->heads, c->causal, c->p);
    assert_int_equal(g->status, VP_OK);
}

/* Attention, linear: of the latter nothing but the gradient of the bias. */
static void bias_make(struct image *im, const struct vp_graph *g,
                      const struct vp_mb *mb, struct vp_kargs *args)
{
    const struct vp_op *linear = &g->ops[0], *attention = &g->ops[1];
    const struct vp_value *in = &g->values[linear->out];
    const struct vp_value *value = &g->values[attention->out];
    int64_t n = value->rows * value->cols;
    struct tensor *qkv = image_add(im, "qkv", 3 * n, g->dtype);
    struct tensor *out = image_add(im, "out", n, g->dtype);
    struct tensor *lse = image_add(
        im, "lse", value->rows * attention->attr.heads, VP_DTYPE_F32);
    struct tensor *dout = image_add(im, "dout", n, g->dtype);
    struct tensor *dqkv = image_add(im, "dqkv", 3 * n, g->dtype);
    struct tensor *dbias = image_add(im, "dbias", in->cols, VP_DTYPE_F32);
    struct tensor *scratch[2] = {
        image_add_scratch(im, most_scratch(g, attention)),
        image_add_scratch(im, most_scratch(g, linear)),
    };

    image_make(im);
    for (int i = 0; i < im->n_tensors; i++)
        image_fill(im, &im->tensors[i], (uint32_t)i);
    for (int i = 0; i < 2; i++)
        args[i] = (struct vp_kargs){ .graph = g,
                                     .op = i ? linear : attention,
                                     .mb = mb,
                                     .scratch = image_address(im, scratch[i]) };
    args[0].in[0] = image_address(im, qkv);
    args[0].out = image_address(im, out);
    args[0].aux[0] = image_address(im, lse);
    args[0].dout = image_address(im, dout);
    args[0].din[0] = image_address(im, dqkv);
    args[1].dout = args[0].din[0];
    args[1].dpar[1] = image_address(im, dbias);
}

/* The sums come with the gradient, with the bits that W would find. */
static void check_attention_bias(const struct bias_case *c, enum vp_dtype dtype)
{
    static const enum vp_phase phases[] = { VP_PHASE_B, VP_PHASE_W };
    struct vp_mb mb = { .seed = 77, .accumulate = c->add, .train = true };
    struct image im = { 0 };
    struct vp_graph graph;
    struct vp_kargs args[2];
    char what[80];

    snprintf(what, sizeof(what), "attention and bias (%s, %dx%dx%d)",
             dtype_names[dtype], c->batch, c->len, c->heads);
    bias_build(&graph, c, dtype);
    bias_make(&im, &graph, &mb, args);
    image_send(&im);
    assert_int_equal(gpu.try_call(gpu.backend, &args[0], VP_PHASE_F), VP_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(gpu.try_call(gpu.backend, &args[i], phases[i]), VP_OK);
    image_fetch(&im, im.again);
    image_send(&im);
    assert_int_equal(gpu.try_call(gpu.backend, &args[0], VP_PHASE_F), VP_OK);
    if (gpu.try_fused(gpu.backend, args, phases, 2) != 1 || args[1].dpar[1])
        fail_msg("%s: the bias was left alone", what);
    image_fetch(&im, im.after);
    image_check_guards(&im, what);
    image_check_same(&im, im.again, what, "differs from the calls one by one");
    image_free(&im);
    vp_graph_release(&graph);
}

static void test_attention_bias(void **state)
{
    static const struct bias_case cases[] = {
        { .batch = 1, .len = 64, .heads = 1 },
        { .batch = 1, .len = 128, .heads = 3, .p = 0.1f },
        { .batch = 3, .len = 128, .heads = 2, .p = 0.1f },
        { .batch = 5, .len = 128, .heads = 3, .causal = true },
        { .batch = 40, .len = 128, .heads = 16, .add = true, .p = 0.1f },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        if (tiny() > 1 && cases[i].batch > 1)
            continue;
        check_attention_bias(&cases[i], VP_DTYPE_BF16);
        check_attention_bias(&cases[i], VP_DTYPE_F16);
    }
}

/* ---- Optimizer ---------------------------------------------------------- */

enum { MAX_TENSORS = 16, MAX_ARRAYS = 6 };
enum { W0, W1, GRAD, MOMENT0, MOMENT1, MASTER };

static const int64_t optim_sizes[] = { 1,    3,     17, 4096, 4097,  16384,
                                       8191, 40000, 0,  300,  100001 };

/* The same arrays on both sides, but that the host has floats, and the device
 * weights in `dtype` with their master. Tensors lie in them with gaps between,
 * and in the gradients from the last to the first. */
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
            dtype = VP_DTYPE_BF16; /* of as many bytes */
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
    /* Finite, though infinite in 16 bits. */
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

/* Is element `i` that of a tensor, and not in a gap? */
static bool bed_owns(const struct bed *bed, int64_t i)
{
    for (int t = 0; t < bed->n_tensors; t++) {
        const struct vp_optim_tensor *tensor = &bed->tensors[t];

        if (i >= tensor->offset && i < tensor->offset + tensor->n)
            return true;
    }
    return false;
}

/* What the device should have of a float. */
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

/* The device should have the host's arrays, with the master of weights
 * `newest`; in gaps, which nobody touches, that of the first ones. */
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

/* Weights go from w[(t - 1) % 2] to w[t % 2], or stay in w[0]. */
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
        vp_optim_step_host(&step, pool, bed.scratch);
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

/* After an update of all tensors, updates of two parts of them, whose blocks have
 * had different numbers of updates. */
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
            vp_optim_step_host(&step, pool, bed.scratch);
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
                              pool, bed.scratch);
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

/* From even and odd places: pieces of 16 bytes may not be assumed. */
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

/* Every sign and exponent, with all ways to round; the bits of the host. */
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

/* Searches n elements from `from`; a NaN lies before and behind them. */
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

/* The device reached the event between two looks at the host's clock, give or
 * take what calibration may be off. */
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

/* Also after a while: clocks drift, and are set again. */
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

/* ------------------------------------------------------------------------- */

static void setup_thread(void *ctx, int thread)
{
    (void)ctx;
    vp_cpu_thread_setup(thread);
}

static int start(void **state)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    (void)state;
    if (!gpu_start()) {
        print_error("the plugin has no functions for tests\n");
        return -1;
    }
    n = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
    vp_cpu_thread_setup(0);
    return vp_pool_create((int)n, setup_thread, NULL, &pool) == VP_OK ? 0 : -1;
}

static int stop_pool(void **state)
{
    (void)state;
    vp_pool_free(pool);
    gpu_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_fp32),
        cmocka_unit_test(test_small_bf16),
        cmocka_unit_test(test_small_fp16),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_updates_of_parts),
        cmocka_unit_test(test_sum_squares),
        cmocka_unit_test(test_add_floats),
        cmocka_unit_test(test_shorten),
        cmocka_unit_test(test_nonfinite),
    };
    const struct CMUnitTest large[] = {
        cmocka_unit_test(test_event_times),
        cmocka_unit_test(test_real_fp32),
        cmocka_unit_test(test_real_bf16),
        cmocka_unit_test(test_real_ranks),
    };
    const struct CMUnitTest together[] = {
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_attention_bias),
        cmocka_unit_test(test_two_layers),
    };
    struct vp_err err = { .text = "" };
    int n_failed;

    if (gpu_open(&err) != VP_OK) {
        print_message("skipped: %s\n", err.text);
        return 0;
    }
    n_failed = cmocka_run_group_tests(tests, start, stop_pool);
    if (tiny() == 0)
        n_failed += cmocka_run_group_tests(large, start, stop_pool);
    n_failed += cmocka_run_group_tests(together, start, stop_pool);
    gpu_close();
    return n_failed;
}
