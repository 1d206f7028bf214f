/* Sums over a tensor-parallel group on the GPU have the bits of their
 * definition, although the parts of other members arrive through host memory in
 * pieces. A failed exchange ends the call with its error. Skipped where there
 * is no plugin or no device. */
#include "lib/gpulib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MAX_MEMBERS = 4 };

/* The parts of the other members, and how many bytes of them were given. */
struct others {
    struct vp_members members;
    unsigned char *parts[MAX_MEMBERS]; /* by member; not read for `me` */
    size_t n_bytes;
    size_t n_given;
    int n_exchanges;
    enum vp_status status;
};

static void give_parts(void *ctx, const struct vp_op *op, const void *mine,
                       size_t n_bytes, void *all)
{
    struct others *others = ctx;

    (void)op;
    assert_true(others->n_given + n_bytes <= others->n_bytes);
    for (int k = 0; k < others->members.n; k++)
        memcpy((char *)all + (size_t)k * n_bytes,
               k == others->members.me ? mine
                                       : others->parts[k] + others->n_given,
               n_bytes);
    others->n_given += n_bytes;
    others->n_exchanges++;
}

static enum vp_status say_status(void *ctx)
{
    return ((struct others *)ctx)->status;
}

struct sum_case {
    enum vp_op_kind kind;
    enum vp_dtype dtype;
    int64_t rows, cols;
    int n, me;
    bool bias, add, in_place;
};

/* A graph of one value, one bias and one operator. */
struct sum_graph {
    struct vp_graph graph;
    struct vp_value value;
    struct vp_param bias;
    struct vp_op op;
    struct vp_mb mb;
};

static void make_graph(struct sum_graph *g, const struct sum_case *c)
{
    *g = (struct sum_graph){
        .value = { .rows = c->rows, .cols = c->cols, .dtype = c->dtype },
        .bias = { .rows = 1, .cols = c->cols },
        .op = { .kind = c->kind,
                .in = { 0, VP_NONE, VP_NONE },
                .par = { c->bias ? 0 : VP_NONE, VP_NONE, VP_NONE },
                .out = 0,
                .aux = { VP_NONE, VP_NONE } },
        .mb = { .train = true },
    };
    g->graph.values = &g->value;
    g->graph.n_values = 1;
    g->graph.params = &g->bias;
    g->graph.n_params = 1;
    g->graph.n_members = c->n;
    g->graph.dtype = c->dtype;
}

static float part_of(const struct sum_case *c, int member, int64_t i)
{
    return (float)element_rounded(c->dtype,
                                  test_number(5, (uint32_t)(40 + member), i));
}

static float bias_of(const struct sum_case *c, int64_t i)
{
    return c->bias ? (float)element_rounded(c->dtype,
                                            test_number(5, 50, i % c->cols))
                   : 0.0f;
}

static float base_of(const struct sum_case *c, int64_t i)
{
    return (float)element_rounded(c->dtype, test_number(5, 51, i));
}

/* Parts are added as floats in member order, then the bias; rounded once. */
static double expected(const struct sum_case *c, int64_t i)
{
    float sum = part_of(c, 0, i);

    for (int k = 1; k < c->n; k++)
        sum += part_of(c, k, i);
    if (c->bias)
        sum += bias_of(c, i);
    if (c->add)
        sum = base_of(c, i) + sum;
    return element_rounded(c->dtype, (double)sum);
}

static void open_others(struct others *others, const struct sum_case *c)
{
    int64_t n = c->rows * c->cols;

    *others = (struct others){ .members = { .n = c->n,
                                            .me = c->me,
                                            .exchange = give_parts,
                                            .status = say_status } };
    others->members.ctx = others;
    others->n_bytes = (size_t)(n * vp_dtype_bytes(c->dtype));
    for (int k = 0; k < c->n; k++) {
        others->parts[k] = malloc(others->n_bytes);
        for (int64_t i = 0; i < n; i++)
            element_set(others->parts[k], c->dtype, i,
                        (double)part_of(c, k, i));
    }
}

static void close_others(struct others *others)
{
    for (int k = 0; k < others->members.n; k++)
        free(others->parts[k]);
}

static size_t scratch_of(const struct sum_graph *g, enum vp_phase phase)
{
    struct vp_backend_config config = { .device = 0 };

    return gpu.ops->scratch_bytes(&config, &g->graph, &g->op, phase);
}

static void check_sum(const struct sum_case *c)
{
    enum vp_phase phase = c->kind == VP_OP_GROUP_SUM ? VP_PHASE_F : VP_PHASE_B;
    int64_t n = c->rows * c->cols;
    const struct tensor *part, *out, *bias, *scratch;
    struct image image = { .n_tensors = 0 };
    struct others others;
    struct sum_graph g;
    struct vp_kargs args;
    char what[96];

    make_graph(&g, c);
    open_others(&others, c);
    part = image_add(&image, "part", n, c->dtype);
    out = c->in_place ? part : image_add(&image, "out", n, c->dtype);
    bias = image_add(&image, "bias", c->cols, c->dtype);
    scratch = image_add_scratch(&image, scratch_of(&g, phase));
    image_make(&image);
    for (int64_t i = 0; i < n; i++) {
        if (c->add)
            image_put(&image, out, i, (double)base_of(c, i));
        image_put(&image, part, i, (double)part_of(c, c->me, i));
    }
    for (int64_t i = 0; i < c->cols; i++)
        image_put(&image, bias, i, (double)bias_of(c, i));
    args = (struct vp_kargs){ .graph = &g.graph,
                              .op = &g.op,
                              .mb = &g.mb,
                              .members = &others.members,
                              .scratch = image_address(&image, scratch) };
    if (phase == VP_PHASE_F) {
        args.in[0] = image_address(&image, part);
        args.out = image_address(&image, out);
        args.par[0] = c->bias ? image_address(&image, bias) : NULL;
    } else {
        args.dout = image_address(&image, part);
        args.din[0] = image_address(&image, out);
        args.din_add[0] = c->add;
    }
    snprintf(what, sizeof(what), "%s of %d x %d, %s, member %d of %d",
             c->kind == VP_OP_GROUP_SUM ? "group_sum" : "group_copy",
             (int)c->rows, (int)c->cols, dtype_names[c->dtype], c->me, c->n);
    image_send(&image);
    assert_int_equal(gpu.try_call(gpu.backend, &args, phase), VP_OK);
    image_fetch(&image, image.after);
    image_check_guards(&image, what);
    assert_true(others.n_given == others.n_bytes);
    for (int64_t i = 0; i < n; i++)
        if (image_get(&image, out, i) != expected(c, i))
            fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i,
                     image_get(&image, out, i), expected(c, i));
    image_free(&image);
    close_others(&others);
}

static void sums_have_the_bits_of_their_definition(void **state)
{
    static const enum vp_dtype dtypes[] = { VP_DTYPE_F32, VP_DTYPE_BF16,
                                            VP_DTYPE_F16 };
    /* The last shape is exchanged in several pieces. */
    static const int64_t shapes[][2] = {
        { 1, 1 }, { 3, 5 }, { 7, 8 }, { 5, 24 }, { 61, 1000 }, { 700, 512 },
    };

    (void)state;
    for (size_t s = 0; s < VP_COUNT_OF(shapes); s++)
        for (size_t d = 0; d < VP_COUNT_OF(dtypes); d++)
            for (int k = 0; k < 8; k++) {
                struct sum_case c = {
                    .kind = k % 2 ? VP_OP_GROUP_COPY : VP_OP_GROUP_SUM,
                    .dtype = dtypes[d],
                    .rows = shapes[s][0],
                    .cols = shapes[s][1],
                    .n = 2 + k % 3,
                    .me = k / 2 % (2 + k % 3),
                };

                c.bias = !(k % 2) && k < 6;
                c.add = k % 2 && k > 4;
                c.in_place = !c.add && k % 4 == 3;
                check_sum(&c);
            }
}

/* The call returns the error of its exchange. */
static void a_failed_exchange_ends_the_call(void **state)
{
    const struct sum_case c = { VP_OP_GROUP_SUM, VP_DTYPE_F32, 3,   8, 2, 0,
                                false,           false,        true };
    struct image image = { .n_tensors = 0 };
    const struct tensor *part, *scratch;
    struct others others;
    struct sum_graph g;
    struct vp_kargs args;

    (void)state;
    make_graph(&g, &c);
    open_others(&others, &c);
    others.status = VP_ERR_TIMEOUT;
    part = image_add(&image, "part", c.rows * c.cols, c.dtype);
    scratch = image_add_scratch(&image, scratch_of(&g, VP_PHASE_F));
    image_make(&image);
    args = (struct vp_kargs){ .graph = &g.graph,
                              .op = &g.op,
                              .mb = &g.mb,
                              .members = &others.members,
                              .out = image_address(&image, part),
                              .scratch = image_address(&image, scratch) };
    args.in[0] = args.out;
    image_send(&image);
    assert_int_equal(gpu.try_call(gpu.backend, &args, VP_PHASE_F),
                     VP_ERR_TIMEOUT);
    gpu_sync();
    image_free(&image);
    close_others(&others);
}

static int start(void **state)
{
    (void)state;
    return gpu_start() ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    gpu_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_have_the_bits_of_their_definition),
        cmocka_unit_test(a_failed_exchange_ends_the_call),
    };
    struct vp_err err = { .text = "" };
    int n_failed;

    if (gpu_open(&err) != VP_OK) {
        print_message("skipped: %s\n", err.text);
        return 0;
    }
    n_failed = cmocka_run_group_tests(tests, start, stop);
    gpu_close();
    return n_failed;
}
