/* Attention over a cache equals attention over whole texts, however the texts
 * are cut and whichever cache lines hold them; a few rows of a linear layer
 * have the bits of each row alone. */
#define _POSIX_C_SOURCE 200809L
#include "backend/cpu/fast.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/simd.h"

#include "lib/one_op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct vp_pool *pool;

static int start_pool(void **state)
{
    (void)state;
    vp_cpu_thread_setup(0);
    return vp_pool_create(2, NULL, NULL, &pool) == VP_OK ? 0 : -1;
}

static int stop_pool(void **state)
{
    (void)state;
    vp_pool_free(pool);
    return 0;
}

enum { LENGTH = 23, HIDDEN = 24, HEADS = 3, N_LINES = 5, TEXTS = 4 };

/* Cached attention on `batch` texts with `q_len` new rows each. */
static struct op_spec cached(int64_t batch, int64_t q_len)
{
    return (struct op_spec){ .kind = VP_OP_CACHED_ATTENTION,
                             .batch = batch,
                             .q_len = q_len,
                             .k_len = LENGTH,
                             .n_lines = N_LINES,
                             .cols = HIDDEN,
                             .heads = HEADS,
                             .cache = true };
}

/* Sets sample `i` of a call to `n` rows of text `k` from position `begin` on.
 * Position j of the text is in cache line `line` + j / 4. */
static void put_rows(struct one_op *t, int64_t i, int k, int64_t begin,
                     int64_t n, int line)
{
    int64_t q_len = t->spec.q_len;
    int32_t *at = (int32_t *)t->args.in[1] + i * q_len;
    int32_t *lines = (int32_t *)t->args.in[2] + i * LENGTH;

    for (int64_t r = 0; r < q_len; r++) {
        at[r] = r < n ? (int32_t)(begin + r) : -1;
        for (int64_t c = 0; c < 3 * HIDDEN; c++)
            one_op_set(t, t->args.in[0], (i * q_len + r) * 3 * HIDDEN + c,
                       test_number(7, 100 + (uint32_t)k,
                                   (begin + r) * 3 * HIDDEN + c));
    }
    for (int64_t j = 0; j < LENGTH; j++)
        lines[j] = (int32_t)((line + j / 4) % N_LINES);
}

/* Computes whole texts with the reference kernel of plain attention, into out
 * [TEXTS * LENGTH, HIDDEN]. */
static void whole(double *out)
{
    struct op_spec spec = { .kind = VP_OP_ATTENTION,
                            .batch = TEXTS,
                            .q_len = LENGTH,
                            .cols = HIDDEN,
                            .heads = HEADS,
                            .causal = true };
    struct one_op t;

    one_op_init(&t, &spec, &vp_cpu_ref_f64, sizeof(double), 3, NULL);
    for (int k = 0; k < TEXTS; k++)
        for (int64_t i = 0; i < LENGTH * 3 * HIDDEN; i++)
            one_op_set(&t, t.args.in[0], k * LENGTH * 3 * HIDDEN + i,
                       test_number(7, 100 + (uint32_t)k, i));
    one_op_run(&t, VP_PHASE_F);
    memcpy(out, t.args.out, TEXTS * LENGTH * HIDDEN * sizeof(*out));
    one_op_release(&t);
}

/* Runs a call on the cache in `keep`, and keeps the new cache there. */
static void run_with(struct one_op *t, void *keep)
{
    size_t n_bytes = (size_t)t->n_aux[0] * t->real;

    memcpy(t->args.aux[0], keep, n_bytes);
    one_op_run(t, VP_PHASE_F);
    memcpy(keep, t->args.aux[0], n_bytes);
}

static void *new_cache(size_t real)
{
    size_t n_bytes = (size_t)N_LINES * LENGTH * 2 * HIDDEN * real;
    void *cache = malloc(n_bytes);

    assert_non_null(cache);
    memset(cache, 0xFF, n_bytes); /* NaN until it is written */
    return cache;
}

/* Computes text 0 in calls of `piece` rows each, into out [LENGTH, HIDDEN]. */
static void in_pieces(const struct vp_cpu_kernels *kernels, size_t real,
                      int64_t piece, int line, double *out)
{
    struct op_spec spec = cached(1, piece);
    void *cache = new_cache(real);

    for (int64_t begin = 0; begin < LENGTH; begin += piece) {
        int64_t n = LENGTH - begin < piece ? LENGTH - begin : piece;
        struct one_op t;

        one_op_init(&t, &spec, kernels, real, 3, pool);
        put_rows(&t, 0, 0, begin, n, line);
        run_with(&t, cache);
        for (int64_t i = 0; i < n * HIDDEN; i++)
            out[begin * HIDDEN + i] = one_op_get(&t, t.args.out, i);
        for (int64_t i = n * HIDDEN; i < piece * HIDDEN; i++)
            assert_true(one_op_get(&t, t.args.out, i) == 0.0);
        one_op_release(&t);
    }
    free(cache);
}

static void pieces_are_the_whole(void **state)
{
    static const int64_t pieces[] = { 1, 2, 5, 16, LENGTH };
    double want[TEXTS * LENGTH * HIDDEN], got[LENGTH * HIDDEN];

    (void)state;
    whole(want);
    for (size_t p = 0; p < VP_COUNT_OF(pieces); p++) {
        in_pieces(&vp_cpu_ref_f64, sizeof(double), pieces[p], 1, got);
        for (int i = 0; i < LENGTH * HIDDEN; i++)
            assert_true(fabs(got[i] - want[i]) < 1e-12);
        in_pieces(&vp_cpu_fast, sizeof(float), pieces[p], 1, got);
        for (int i = 0; i < LENGTH * HIDDEN; i++)
            assert_true(fabs(got[i] - want[i]) < 2e-6);
    }
}

/* Neither the lengths of the pieces nor the cache lines change a bit. */
static void bits_are_those_of_the_positions(void **state)
{
    double first[LENGTH * HIDDEN], got[LENGTH * HIDDEN];

    (void)state;
    in_pieces(&vp_cpu_fast, sizeof(float), 1, 0, first);
    for (int line = 1; line < N_LINES; line++) {
        in_pieces(&vp_cpu_fast, sizeof(float), line * 3, line, got);
        assert_memory_equal(got, first, sizeof(first));
    }
}

/* A text in a batch with others, each at a different position, has the bits
 * that it has alone. */
static void samples_do_not_see_each_other(void **state)
{
    struct op_spec spec = cached(TEXTS, 1), one = cached(1, 1);
    void *together = new_cache(sizeof(float)), *alone = NULL;
    float want[HIDDEN];

    (void)state;
    for (int step = 0; step < LENGTH; step++) {
        struct one_op t;

        one_op_init(&t, &spec, &vp_cpu_fast, sizeof(float), 3, pool);
        for (int k = 0; k < TEXTS; k++)
            put_rows(&t, k, k, step - k, step >= k, k);
        run_with(&t, together);
        for (int k = 0; k < TEXTS && step == LENGTH - 1; k++) {
            alone = new_cache(sizeof(float));
            for (int64_t p = 0; p <= step - k; p++) {
                struct one_op u;

                one_op_init(&u, &one, &vp_cpu_fast, sizeof(float), 3, pool);
                put_rows(&u, 0, k, p, 1, 2);
                run_with(&u, alone);
                memcpy(want, u.args.out, sizeof(want));
                one_op_release(&u);
            }
            assert_memory_equal((float *)t.args.out + k * HIDDEN, want,
                                sizeof(want));
            free(alone);
        }
        one_op_release(&t);
    }
    free(together);
}

/* Row 0 has the same bits beside 0, 1, ... other rows, with all instruction
 * sets that fuse multiply-adds. */
static void rows_of_a_linear_are_their_own(void **state)
{
    static const int64_t batches[] = { 1, 2, 3, 4, 5, 6, 7, 13, 64 };
    float want[70];

    (void)state;
    for (int isa = VP_ISA_AVX2; isa < VP_ISA_COUNT; isa++) {
        if (!vp_cpu_force_isa((enum vp_isa)isa))
            continue;
        for (size_t i = 0; i < VP_COUNT_OF(batches); i++) {
            struct op_spec spec = { .kind = VP_OP_LINEAR,
                                    .batch = batches[i],
                                    .q_len = 1,
                                    .cols = 331,
                                    .n_out = 70,
                                    .bias = true,
                                    .act = VP_ACT_GELU_TANH,
                                    .cache = true };
            struct one_op t;

            one_op_init(&t, &spec, &vp_cpu_fast, sizeof(float), 3, pool);
            one_op_run(&t, VP_PHASE_F);
            if (isa == VP_ISA_AVX2 && i == 0)
                memcpy(want, t.args.out, sizeof(want));
            assert_memory_equal(t.args.out, want, sizeof(want));
            one_op_release(&t);
        }
    }
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* Rows of every length from 1 to 69, with every instruction set. The largest
 * element occurs twice; one row has a NaN or an infinity, which gives -1. */
static void argmax_is_the_first_of_the_largest(void **state)
{
    const struct vp_cpu_kernels *const tables[] = { &vp_cpu_ref_f32,
                                                    &vp_cpu_fast };

    (void)state;
    for (int n = 1; n < 70; n++)
        for (int k = 0; k < 1 + VP_ISA_COUNT; k++) {
            struct op_spec spec = { .kind = VP_OP_ARGMAX,
                                    .batch = n,
                                    .q_len = 2,
                                    .cols = n,
                                    .cache = true };
            const struct vp_cpu_kernels *kernels = tables[k > 0];
            int32_t *out;
            struct one_op t;

            if (k > 0 && !vp_cpu_force_isa((enum vp_isa)(k - 1)))
                continue;
            one_op_init(&t, &spec, kernels, sizeof(float), 3, pool);
            for (int row = 0; row < 2 * n; row++)
                for (int c = 0; c < n; c++)
                    one_op_set(&t, t.args.in[0], row * n + c,
                               c == row % n || c == (row % n + n) / 2
                                   ? -1.0
                                   : -2.0 - c % 3);
            one_op_set(&t, t.args.in[0], n * n + n / 2,
                       n % 2 ? (double)NAN : -(double)INFINITY);
            one_op_run(&t, VP_PHASE_F);
            out = t.args.out;
            for (int row = 0; row < 2 * n; row++)
                assert_int_equal(out[row], row == n ? -1 : row % n);
            one_op_release(&t);
        }
    vp_cpu_force_isa(VP_ISA_BEST);
}

static void training_graphs_are_refused(void **state)
{
    struct vp_graph graph;
    struct vp_err err = { .text = "" };
    vp_val qkv;

    (void)state;
    vp_graph_init(&graph, 1);
    vp_graph_block(&graph, "block");
    vp_graph_line(&graph);
    qkv = test_matrix(&graph, "qkv", 1, 6);
    vp_cached_attention(&graph, qkv, test_ints(&graph, "at", 1),
                        test_ints(&graph, "lines", 4), 1, 2);
    assert_int_equal(vp_graph_finish(&graph, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "a cache is for inference only"));
    vp_graph_release(&graph);
}

/* Keys and values that one minibatch wrote to the cache serve the next one,
 * which writes none: the result has the same bits. */
static void a_source_is_kept(void **state)
{
    struct op_spec first = { .kind = VP_OP_CACHED_CROSS_ATTENTION,
                             .batch = 2,
                             .q_len = 3,
                             .k_len = 4,
                             .n_lines = 3,
                             .cols = 6,
                             .heads = 2,
                             .cache = true };
    const struct vp_cpu_kernels *const tables[] = { &vp_cpu_ref_f32,
                                                    &vp_cpu_fast };

    (void)state;
    for (int k = 0; k < 2; k++) {
        const int32_t written[] = { 2, 4, 4, 0, 3, 3 };
        const int32_t read[] = { 2, 4, 0, 0, 3, 0 };
        struct one_op t;
        float want[36];

        one_op_init(&t, &first, tables[k], sizeof(float), 3, pool);
        memcpy((void *)(uintptr_t)t.args.in[2], written, sizeof(written));
        one_op_run(&t, VP_PHASE_F);
        memcpy(want, t.args.out, sizeof(want));
        memset((void *)(uintptr_t)t.args.in[1], 0, 2 * 4 * 12 * sizeof(float));
        memcpy((void *)(uintptr_t)t.args.in[2], read, sizeof(read));
        memset(t.args.out, 0xFF, sizeof(want));
        one_op_run(&t, VP_PHASE_F);
        assert_memory_equal(t.args.out, want, sizeof(want));
        one_op_release(&t);
    }
}

static void bad_sources_are_refused(void **state)
{
    static const struct {
        int64_t q_cols, kv_rows, kv_cols, n_ints;
        int heads;
        const char *says;
    } cases[] = {
        { 6, 8, 6, 6, 2, "packed keys and values" },
        { 6, 8, 12, 6, 4, "heads do not divide" },
        { 6, 12, 12, 6, 2, "rows do not match the batch or the cache" },
        { 6, 8, 12, 4, 2, "sources do not match the batch" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_err err = { .text = "" };
        struct vp_graph graph;
        vp_val q, kv;

        vp_graph_init(&graph, 2);
        graph.outputs = VP_OUTPUT_LOGITS;
        vp_graph_block(&graph, "block");
        vp_graph_line(&graph);
        q = test_matrix(&graph, "q", 2, cases[i].q_cols);
        kv = test_matrix(&graph, "kv", cases[i].kv_rows, cases[i].kv_cols);
        vp_cached_cross_attention(&graph, q, kv,
                                  test_ints(&graph, "sources", cases[i].n_ints),
                                  cases[i].heads, 3, 4);
        assert_int_equal(vp_graph_finish(&graph, &err), VP_ERR_INVALID);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s", err.text);
        vp_graph_release(&graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_is_kept),
        cmocka_unit_test(bad_sources_are_refused),
        cmocka_unit_test(pieces_are_the_whole),
        cmocka_unit_test(bits_are_those_of_the_positions),
        cmocka_unit_test(samples_do_not_see_each_other),
        cmocka_unit_test(rows_of_a_linear_are_their_own),
        cmocka_unit_test(argmax_is_the_first_of_the_largest),
        cmocka_unit_test(training_graphs_are_refused),
    };

    return cmocka_run_group_tests(tests, start_pool, stop_pool);
}
