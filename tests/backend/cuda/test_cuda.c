/* Every operator of the CUDA plugin agrees with the CPU in every mode and type,
 * at small, odd and real sizes. Skipped where there is no plugin or no device.
 * The environment variable VP_TEST_FILTER selects tests by a name pattern. */
#include "base/halves.h"
#include "lib/cuda_setup.h"
#include "lib/gpulib.h"
#include "lib/one_op.h"
#include "lib/op_cases.h"
#include "lib/op_modes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- An operator on the host and on the device -------------------------- */

/* A copy of the operator `host` on the device: the same numbers, in the types
 * of the device. Tensors that share memory on the host share it on the
 * device. */
struct mirror {
    struct one_op *host;
    char what[160]; /* case, type and mode, for messages */
    struct image image;
    const void *source[MAX_IMAGE]; /* the array of `host` behind each tensor */
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

/* Rounds the host's numbers to the device's type and copies them into the
 * image, so that both sides start from equal numbers. */
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

/* Copies the results of the host's forward into the image. Backward then reads
 * the same saved values on both sides, and an error of the device's forward
 * does not affect it. */
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

/* ---- Tolerances --------------------------------------------------------- */

/* Promised accuracy of fp32 results, relative to the largest element. */
#define FP32_TOLERANCE 1e-5

/* Number of roundings to a 16-bit type between the inputs and the compared
 * result. Each may be off by 2^-8 (bf16) or 2^-11 (fp16) of the largest
 * element. All other arithmetic is float on both sides. */
static const struct {
    int values; /* activations and their gradients */
    int sums;   /* tensors that stay float: statistics, weight gradients */
} roundings[VP_OP_KIND_COUNT] = {
    [VP_OP_EMBED] = { 1, 0 },
    /* Forward rounds z and act(z), and the slope of act may be 1.13. Backward
     * rounds dz and its product with the weights. Weight gradients read the
     * rounded dz. */
    [VP_OP_LINEAR] = { 3, 1 },
    [VP_OP_LAYERNORM] = { 1, 0 },
    /* Rounded are probabilities and their gradients before each product, the
     * output that backward reads, and the result. */
    [VP_OP_ATTENTION] = { 4, 0 },
    /* Only the result is rounded; probabilities stay float. */
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

/* Returns a lower bound for the size that errors are relative to. The gradient
 * of a softmax over a single key is zero, so without this bound only rounding
 * noise would be compared. */
static double least_size(const struct one_op *t)
{
    if (t->spec.kind != VP_OP_ATTENTION)
        return 0;
    return 1.0 / (double)t->args.op->attr.k_len;
}

/* Returns true if tensor `name` shows the dropout mask: dropped elements are
 * exact zeros, at the same places on both sides. */
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

/* Checks that the tensors that are not in `w` have not changed. */
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

/* Runs `phases` twice on the device and once on the host, and compares the
 * results. */
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
    one_op_init(&host, &typed, kernels, real, 3, cuda_pool);
    prepare(&host, &modes[mode]);
    mirror_init(&m, &host, mode);
    check_phases(&m, PHASE_BIT(VP_PHASE_F));
    mirror_take_forward(&m);
    check_phases(&m, PHASE_BIT(VP_PHASE_B) | PHASE_BIT(VP_PHASE_W));
    image_free(&m.image);
    one_op_release(&host);
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

/* ---- Slices of a tensor-parallel group ---------------------------------- */

/* The exchange function of a group: returns the bytes of this member as the
 * bytes of every member. */
static void echo(void *ctx, const struct vp_op *op, const void *mine,
                 size_t n_bytes, void *all)
{
    const struct vp_members *members = ctx;

    (void)op;
    for (int k = 0; k < members->n; k++)
        memcpy((char *)all + (size_t)k * n_bytes, mine, n_bytes);
}

static enum vp_status echo_status(void *ctx)
{
    (void)ctx;
    return VP_OK;
}

static void slice_graph(struct vp_graph *graph, const struct vp_op *op, int n)
{
    struct vp_param *table;

    graph->n_members = n;
    switch (op->kind) {
    case VP_OP_DROPOUT:
    case VP_OP_ATTENTION:
        graph->values[op->in[0]].spread = VP_SPREAD_COLS;
        graph->values[op->out].spread = VP_SPREAD_COLS;
        break;
    case VP_OP_CROSS_ENTROPY:
        graph->values[op->in[0]].spread = VP_SPREAD_COLS;
        break;
    default:
        table = &graph->params[op->par[0]];
        table->slice.axis = VP_SLICE_ROWS;
        table->slice.n_sections = 1;
        table->slice.whole = n * table->rows;
        graph->values[op->out].spread = VP_SPREAD_PARTIAL;
    }
}

/* Moves every second id into the slice of this member. The others stay in the
 * slice of the first member. */
static void slice_ids(struct one_op *t, int32_t *ids, int64_t first,
                      int64_t n_ids)
{
    int64_t n = t->n_in[t->spec.kind == VP_OP_EMBED ? 0 : 1];

    for (int64_t i = 1; i < n; i += 2)
        if (ids[i] >= 0 && (!t->spec.pad || ids[i] != PAD_ID))
            ids[i] = (int32_t)(first + ids[i] < n_ids ? first + ids[i] : first);
}

/* Makes the operator one that `members` share. The last slice of ids is not
 * full. */
static void slice_op(struct one_op *t, const struct vp_members *members)
{
    struct vp_op *op = (struct vp_op *)t->args.op;
    int64_t cols = t->graph.values[op->in[0]].cols;

    slice_graph(&t->graph, op, members->n);
    slice_graph(&t->plain, op, members->n);
    t->args.members = members;
    if (op->kind == VP_OP_CROSS_ENTROPY) {
        op->attr.n_ids = members->n * cols - (cols > 2 ? 2 : 0);
        slice_ids(t, (int32_t *)t->args.in[1], members->me * cols,
                  op->attr.n_ids);
    } else if (op->kind == VP_OP_EMBED) {
        int64_t rows = t->graph.params[op->par[0]].rows;

        slice_ids(t, (int32_t *)t->args.in[0], members->me * rows,
                  members->n * rows);
    }
}

static void check_slice(const struct op_spec *spec, enum vp_dtype dtype, int me,
                        int mode)
{
    struct vp_members members = { .n = 3,
                                  .me = me,
                                  .ctx = &members,
                                  .exchange = echo,
                                  .status = echo_status };
    struct op_spec typed = *spec;
    struct one_op host;
    struct mirror m;

    typed.dtype = dtype;
    one_op_init(&host, &typed, &vp_cpu_ref_f64, sizeof(double), 3, cuda_pool);
    slice_op(&host, &members);
    prepare(&host, &modes[mode]);
    mirror_init(&m, &host, mode);
    check_phases(&m, PHASE_BIT(VP_PHASE_F));
    mirror_take_forward(&m);
    check_phases(&m, PHASE_BIT(VP_PHASE_B) | PHASE_BIT(VP_PHASE_W));
    image_free(&m.image);
    one_op_release(&host);
}

static bool can_slice(const struct op_spec *spec)
{
    return spec->kind == VP_OP_DROPOUT || spec->kind == VP_OP_EMBED ||
           spec->kind == VP_OP_CROSS_ENTROPY || spec->kind == VP_OP_ATTENTION;
}

static void check_slices(const struct op_spec *specs, size_t n)
{
    static const enum vp_dtype dtypes[] = { VP_DTYPE_F32, VP_DTYPE_BF16,
                                            VP_DTYPE_F16 };

    for (size_t i = 0; i < n; i++)
        for (size_t mode = 0; mode < VP_COUNT_OF(modes); mode++)
            for (int me = 0; can_slice(&specs[i]) && me < 3; me++)
                if (tiny() < 2 || (mode == i % VP_COUNT_OF(modes) && me == 1))
                    check_slice(
                        &specs[i],
                        dtypes[(i + mode + (size_t)me) % VP_COUNT_OF(dtypes)],
                        me, (int)mode);
}

/* Covers dropout masks of heads and columns that begin at any offset, ids in
 * the slice of another member, and rows of logits whose label is in another
 * slice, with the sums over all members' partial results. */
static void test_slices(void **state)
{
    static const struct op_spec more[] = {
        { "dropout 40", .kind = VP_OP_DROPOUT, .batch = 2, .q_len = 3,
          .cols = 40, .p = 0.3f },
        { "attention of 64 dropout", .kind = VP_OP_ATTENTION, .batch = 2,
          .q_len = 70, .cols = 128, .heads = 2, .mask = true, .p = 0.1f },
        { "attention of 64 long dropout", .kind = VP_OP_ATTENTION, .batch = 1,
          .q_len = 150, .cols = 128, .heads = 2, .causal = true, .p = 0.1f },
        { "attention of 80 dropout", .kind = VP_OP_ATTENTION, .batch = 2,
          .q_len = 50, .cols = 80, .heads = 1, .mask = true, .p = 0.1f },
        { "cross entropy 4000", .kind = VP_OP_CROSS_ENTROPY, .batch = 2,
          .q_len = 3, .cols = 4001, .smoothing = 0.1f },
    };

    (void)state;
    check_slices(op_cases, VP_COUNT_OF(op_cases));
    check_slices(more, VP_COUNT_OF(more));
}

/* ---- Tiles -------------------------------------------------------------- */

/* The kernels for wide rows and for heads of 64 and 80 columns, at sizes that
 * are small enough for a sanitizer. The linear layer has only 5 input columns:
 * with 64, racecheck stopped with an internal error in a kernel of cuBLASLt,
 * although that kernel was excluded. */
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
    /* Several heads per thread block. */
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
    /* More than two heads per thread block in the kernels for short
     * sequences. */
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

/* Compared with the fast CPU kernels: the reference kernels would take
 * minutes. */
static void test_real_fp32(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(real_cases); i++)
        check_op(&real_cases[i], VP_DTYPE_F32, &vp_cpu_fast, 0);
}

/* Mode 2 is evaluation, which computes the ranks of labels. Logits of 16 bits
 * are often equal. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_fp32),
        cmocka_unit_test(test_small_bf16),
        cmocka_unit_test(test_small_fp16),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_tiles),
    };
    const struct CMUnitTest large[] = {
        cmocka_unit_test(test_real_fp32),
        cmocka_unit_test(test_real_bf16),
        cmocka_unit_test(test_real_ranks),
    };
    struct vp_err err = { .text = "" };
    int n_failed;

    if (gpu_open(&err) != VP_OK) {
        print_message("skipped: %s\n", err.text);
        return 0;
    }
    cmocka_set_test_filter(getenv("VP_TEST_FILTER"));
    n_failed = cmocka_run_group_tests(tests, start_gpu, stop_gpu);
    if (tiny() == 0)
        n_failed += cmocka_run_group_tests(large, start_gpu, stop_gpu);
    gpu_close();
    return n_failed;
}
