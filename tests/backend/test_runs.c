/* The CPU backend fuses the expected calls into runs, and a launch with fused
 * runs leaves the same bits in all memory as a launch call by call. */
#include "backend/backend.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/rows.h"
#include "base/rng.h"
#include "graph/opdef.h"
#include "graph/program.h"
#include "lib/recompute_sets.h"
#include "lib/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_THREADS = 3 };

static const struct vp_backend_ops *const ops = &vp_backend_cpu;
static struct vp_backend *backends[MAX_THREADS + 1];
static uint32_t rand_count;

static int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(9, VP_RNG_TEST, 0, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

/* Random bits for random_sets(). */
static uint64_t rand_bits(void)
{
    struct vp_rng4 r = vp_rng(9, VP_RNG_TEST, 1, rand_count++, 0, 0);

    return (uint64_t)r.v[0] << 32 | r.v[1];
}

/* ---- Memory of a launch ------------------------------------------------- */

struct memory {
    void *base[VP_SPACE_COUNT];
};

/* Writes numbers in (-0.5, 0.5), by a quick generator because there are
 * many. */
static void fill_floats(float *x, int64_t n, uint32_t bits)
{
    for (int64_t i = 0; i < n; i++) {
        bits = bits * 1664525u + 1013904223u;
        x[i] = (float)vp_rng_unit(bits) - 0.5f;
    }
}

/* Sets ids, labels and row numbers to small numbers that are not negative. */
static void fill_ints(const struct vp_program *p, void *in)
{
    for (int i = 0; i < p->in.n_entries; i++) {
        const struct vp_boundary_value *entry = &p->in.entries[i];
        int32_t *x = (void *)((char *)in + entry->offset);

        if (p->graph->values[entry->value].dtype != VP_DTYPE_I32)
            continue;
        for (int64_t k = 0; k < entry->n_bytes / 4; k++)
            x[k] = (int32_t)(k % 5);
    }
}

static void memory_init(struct memory *m, const struct vp_program *p)
{
    for (int space = 1; space < VP_SPACE_COUNT; space++) {
        size_t n = (size_t)p->n_bytes[space];

        m->base[space] = NULL;
        assert_int_equal(posix_memalign(&m->base[space], VP_TENSOR_ALIGN,
                                        n ? n : VP_TENSOR_ALIGN),
                         0);
        fill_floats(m->base[space], p->n_bytes[space] / 4, (uint32_t)space);
    }
    fill_ints(p, m->base[VP_SPACE_IN]);
}

static void memory_release(struct memory *m)
{
    for (int space = 1; space < VP_SPACE_COUNT; space++)
        free(m->base[space]);
}

static void run_list(struct vp_exe *exe, enum vp_list list, struct memory *m,
                     bool accumulate, bool checked)
{
    struct vp_mb mb = { .seed = 5,
                        .first_sample = 77,
                        .loss_grad = 1.0f,
                        .accumulate = accumulate,
                        .train = true };
    struct vp_launch launch = { .mb = &mb };
    struct vp_nonfinite found;

    memcpy(launch.base, m->base, sizeof(launch.base));
    if (!checked) {
        assert_int_equal(ops->launch(exe, list, &launch, NULL), VP_OK);
        return;
    }
    assert_int_equal(ops->launch_checked(exe, list, &launch, &found), VP_OK);
    assert_null(found.op);
}

/* Runs all lists fused and call by call, and compares all memory. */
static void compare_launches(struct vp_backend *backend,
                             const struct vp_program *p, bool accumulate)
{
    struct memory fused, single;
    struct vp_exe *exe;
    struct vp_err err = { .text = "" };

    memory_init(&fused, p);
    memory_init(&single, p);
    vp_device_attach(vp_backend_device(backend));
    if (ops->compile(backend, p, &exe, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int list = 0; list < VP_LIST_COUNT; list++) {
        run_list(exe, (enum vp_list)list, &fused, accumulate, false);
        run_list(exe, (enum vp_list)list, &single, accumulate, true);
        for (int space = 1; space < VP_SPACE_COUNT; space++)
            assert_memory_equal(fused.base[space], single.base[space],
                                (size_t)p->n_bytes[space]);
    }
    ops->exe_free(exe);
    memory_release(&fused);
    memory_release(&single);
}

static int n_fused(const struct vp_program *p)
{
    unsigned char lengths[1024];
    int n = 0;

    for (int list = 0; list < VP_LIST_COUNT; list++) {
        assert_true(p->n_calls[list] <= (int)sizeof(lengths));
        vp_cpu_find_runs(&vp_cpu_fast, 1, p, (enum vp_list)list, lengths);
        for (int i = 0; i < p->n_calls[list]; i += lengths[i])
            n += lengths[i] - 1;
    }
    return n;
}

/* ---- Lowered graphs ----------------------------------------------------- */

/* Rows are computed in bands of 32; with these sizes the last band is not
 * full. */
enum { BATCH = 3, LEN = 250, ROWS = BATCH * LEN, HIDDEN = 48, VOCAB = 40 };

static void lower(const struct vp_graph *g, const struct vp_stage_spec *spec,
                  struct vp_program *program)
{
    struct vp_backend_config config = { .n_threads = 1 };
    struct vp_err err = { .text = "" };

    if (vp_program_lower(g, spec, ops->scratch_bytes, &config, program, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
}

static vp_par weight(struct vp_graph *g, int64_t rows, int64_t cols)
{
    return vp_graph_param(g, "w", rows, cols, VP_INIT_NORMAL, 1.0f);
}

static vp_val random_op(struct vp_graph *g, vp_val x, vp_val old)
{
    vp_graph_line(g);
    switch (rand_below(6)) {
    case 0:
        return vp_linear(g, x, weight(g, HIDDEN, HIDDEN), weight(g, 1, HIDDEN),
                         rand_below(2) ? VP_ACT_GELU_TANH : VP_ACT_NONE);
    case 1:
        return vp_layernorm(g, x, weight(g, 1, HIDDEN), weight(g, 1, HIDDEN),
                            1e-5f);
    case 2:
        return vp_dropout(g, x, 0.2f);
    case 3:
        return vp_scale(g, x, 0.75f);
    default:
        return vp_add(g, x, old);
    }
}

static void random_graph(struct vp_graph *g, int n_blocks)
{
    vp_val trunk[16], x, ids, labels;

    vp_graph_init(g, BATCH);
    ids = vp_graph_input(g, VP_ROLE_TOKENS, "tokens", ROWS);
    labels = vp_graph_input(g, VP_ROLE_LABELS, "labels", ROWS);
    vp_graph_block(g, "embed");
    vp_graph_line(g);
    trunk[0] = vp_embed(g, ids, VP_NONE, weight(g, VOCAB, HIDDEN), VP_NONE,
                        VP_NONE, 1.0f, -1);
    for (int b = 1; b < n_blocks - 1; b++) {
        vp_graph_block(g, "middle");
        x = trunk[b - 1];
        for (int i = rand_below(5); i >= 0; i--)
            x = random_op(g, x, trunk[rand_below(b)]);
        vp_graph_line(g);
        trunk[b] = vp_add(g, x, trunk[b - 1]);
    }
    vp_graph_block(g, "head");
    vp_graph_line(g);
    x = vp_linear(g, trunk[n_blocks - 2], weight(g, VOCAB, HIDDEN), VP_NONE,
                  VP_ACT_NONE);
    vp_cross_entropy(g, x, labels, VP_NONE, 0.0f);
    assert_int_equal(vp_graph_finish(g, &(struct vp_err){ .text = "" }), VP_OK);
}

/* Random stages of random models. Their temporary values share memory. */
static void test_lowered(void **state)
{
    int total = 0;

    (void)state;
    for (int trial = 0; trial < 24; trial++) {
        int n_blocks = 4 + rand_below(5);
        struct vp_stage_spec spec = { .split_w = rand_below(2),
                                      .forward_only = trial % 8 == 7 };
        uint64_t sets[MAX_SETS];
        struct vp_graph g;
        struct vp_program p;

        vp_cpu_force_isa(trial % 2 ? VP_ISA_AVX2 : VP_ISA_BEST);
        random_graph(&g, n_blocks);
        spec.first_block = rand_below(n_blocks - 2);
        spec.n_blocks = 2 + rand_below(n_blocks - spec.first_block - 1);
        random_sets(&g, rand_bits, sets);
        if (trial % 3 == 0)
            spec.recompute = sets + spec.first_block;
        else
            set_tail(&g, rand_below(3) / 2.0, &spec, sets);
        lower(&g, &spec, &p);
        total += n_fused(&p);
        compare_launches(backends[1 + trial % MAX_THREADS], &p, trial % 3);
        vp_program_release(&p);
        vp_graph_release(&g);
    }
    vp_cpu_force_isa(VP_ISA_BEST);
    assert_true(total > 150);
}

/* ---- Runs in the models ------------------------------------------------- */

/* Writes a line such as "B layernorm.B layernorm.W" for every run that begins
 * in block `block`. */
static void runs_text(const struct vp_program *p, int block, char *text,
                      size_t size)
{
    unsigned char lengths[1024];
    size_t n = 0;

    text[0] = '\0';
    for (int list = 0; list < VP_LIST_COUNT; list++) {
        const struct vp_call *calls = p->calls[list];

        vp_cpu_find_runs(&vp_cpu_fast, 1, p, (enum vp_list)list, lengths);
        for (int i = 0; i < p->n_calls[list]; i += lengths[i]) {
            if (lengths[i] == 1 || calls[i].op->block != block)
                continue;
            n += (size_t)snprintf(text + n, size - n, "%c", "FRBW"[list]);
            for (int k = i; k < i + lengths[i]; k++)
                n += (size_t)snprintf(text + n, size - n, " %s.%c",
                                      vp_op_defs[calls[k].op->kind].name,
                                      "FBW"[calls[k].phase]);
            n += (size_t)snprintf(text + n, size - n, "\n");
            assert_true(n < size);
        }
    }
}

static void test_models(void **state)
{
    static const struct {
        const char *model;
        bool split_w;
        int block;
        const char *want;
    } cases[] = {
        { "bert", false, 1,
          "F dropout.F add.F layernorm.F\n"
          "B layernorm.B layernorm.W dropout.B\n" },
        { "bert", true, 1,
          "F dropout.F add.F layernorm.F\n"
          "B layernorm.B layernorm.W dropout.B\n" },
        { "gpt2", false, 2,
          "F dropout.F add.F layernorm.F\n"
          "B layernorm.B layernorm.W dropout.B\n" },
        { "translation", false, 6,
          "F dropout.F layernorm.F\n"
          "F dropout.F add.F layernorm.F\n"
          "B layernorm.B layernorm.W dropout.B\n" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_model_config config = tiny_config(cases[i].model, true);
        struct vp_dims dims = tiny_dims(cases[i].model);
        struct vp_stage_spec spec = { .split_w = cases[i].split_w };
        struct vp_graph g;
        struct vp_program p;
        char text[1024];

        config.dropout = 0.1f;
        build_model(cases[i].model, &config, &dims, &g);
        spec.n_blocks = g.n_blocks;
        lower(&g, &spec, &p);
        runs_text(&p, cases[i].block, text, sizeof(text));
        assert_string_equal(text, cases[i].want);
        vp_program_release(&p);
        vp_graph_release(&g);
    }
}

/* ---- Calls made by hand ------------------------------------------------- */

/* Operators for the calls. WIDE has rows of twice the size, FEW has fewer
 * rows. */
enum kind { ADD, SCALE, DROPOUT, NORM, WIDE, FEW, LINEAR, N_KINDS };
enum { MAX_CALLS = 20, ROW = HIDDEN * 4, TENSOR = ROWS * ROW };

struct by_hand {
    struct vp_graph graph;
    struct vp_program program;
    struct vp_call calls[MAX_CALLS];
};

static vp_val matrix(struct vp_graph *g, int64_t rows, int64_t cols)
{
    vp_val v = vp_graph_input(g, VP_ROLE_TOKENS, "x", rows);

    g->values[v].dtype = VP_DTYPE_F32;
    g->values[v].cols = cols;
    return v;
}

static void by_hand_init(struct by_hand *h)
{
    struct vp_graph *g = &h->graph;
    struct vp_program *p = &h->program;
    vp_val x, wide, few;

    memset(h, 0, sizeof(*h));
    vp_graph_init(g, BATCH);
    x = matrix(g, ROWS, HIDDEN);
    wide = matrix(g, ROWS, 2 * HIDDEN);
    few = matrix(g, LEN * 2, HIDDEN);
    vp_graph_block(g, "block");
    vp_graph_line(g);
    vp_add(g, x, x);
    vp_scale(g, x, 0.75f);
    vp_dropout(g, x, 0.2f);
    vp_layernorm(g, x, weight(g, 1, HIDDEN), weight(g, 1, HIDDEN), 1e-5f);
    vp_scale(g, wide, 0.75f);
    vp_scale(g, few, 0.75f);
    vp_linear(g, x, weight(g, HIDDEN, HIDDEN), VP_NONE, VP_ACT_NONE);
    assert_int_equal(g->status, VP_OK);
    assert_int_equal(g->n_ops, N_KINDS);
    p->graph = g;
    p->calls[VP_LIST_F] = h->calls;
    p->n_bytes[VP_SPACE_WORK] = 12 * TENSOR;
    p->n_bytes[VP_SPACE_SLOT] = 2 * TENSOR;
    p->n_bytes[VP_SPACE_GRAD] = 4096;
    p->n_bytes[VP_SPACE_PARAM] = 65536;
}

static void by_hand_release(struct by_hand *h)
{
    vp_graph_release(&h->graph);
}

static struct vp_ref work(int64_t offset)
{
    return (struct vp_ref){ VP_SPACE_WORK, offset };
}

static struct vp_call *hand_call(struct by_hand *h, enum kind kind,
                                 enum vp_phase phase)
{
    struct vp_call *call = &h->calls[h->program.n_calls[VP_LIST_F]++];

    assert_true(call < h->calls + MAX_CALLS);
    *call = (struct vp_call){ .op = &h->graph.ops[kind], .phase = phase };
    return call;
}

static void hand_forward(struct by_hand *h, enum kind kind, int64_t in,
                         int64_t out)
{
    struct vp_call *call = hand_call(h, kind, VP_PHASE_F);

    call->in[0] = work(in);
    call->in[1] = kind == ADD ? work(in) : (struct vp_ref){ 0 };
    call->out = work(out);
    if (kind == NORM || kind == LINEAR)
        call->par[0] = call->par[1] = (struct vp_ref){ VP_SPACE_PARAM, 0 };
    if (kind == NORM)
        call->aux[0] = (struct vp_ref){ VP_SPACE_SLOT, 0 };
}

static int first_run(const struct by_hand *h)
{
    unsigned char lengths[MAX_CALLS];

    vp_cpu_find_runs(&vp_cpu_fast, 1, &h->program, VP_LIST_F, lengths);
    return lengths[0];
}

/* A scale from one place to another, then a second call. `want`: calls in a
 * run. */
static void test_pairs(void **state)
{
    enum { A = 0, B = TENSOR, C = 2 * TENSOR, D = 3 * TENSOR };
    static const struct {
        int64_t in, out; /* first call */
        enum kind kind;  /* second call */
        int64_t in2, out2;
        int want;
    } cases[] = {
        { A, B, SCALE, B, C, 2 },       /* reads the first result */
        { A, B, SCALE, C, D, 2 },       /* nothing in common */
        { A, A, SCALE, A, A, 2 },       /* in place */
        { A, B, SCALE, B, A, 2 },       /* writes over the first input */
        { A, B, ADD, C, B, 2 },         /* writes over the first result */
        { A, C, SCALE, A + ROW, D, 2 }, /* shifted, but only read */
        { A, C, SCALE, B, A, 2 },       /* writes over the first input */
        { A + ROW, C, SCALE, D, A, 1 }, /* the same, off by a row */
        { A, C, SCALE, D, A + ROW, 1 },
        { A, C, SCALE, D, A + TENSOR - ROW, 1 }, /* by its last row */
        { A, C, SCALE, D, A + TENSOR, 2 },
        { A + TENSOR - ROW, C, SCALE, D, A, 1 }, /* by its first row */
        { A + TENSOR, C, SCALE, D, A, 2 },
        { D, B, SCALE, B + ROW, A + 4 * TENSOR, 1 }, /* reads shifted */
        { A, B, SCALE, D, B + ROW, 1 },   /* over the result, off by a row */
        { A, B, SCALE, D, B + 4, 1 },     /* off by an element */
        { A, B, WIDE, 8 * TENSOR, B, 1 }, /* rows of another size */
        { A, B, WIDE, 8 * TENSOR, C, 2 },
        { C, D, WIDE, 8 * TENSOR, B, 1 }, /* reaches the first's input */
        { A, B, FEW, B, C, 1 },           /* another number of rows */
        { A, B, FEW, C, D, 1 },
        { A, B, LINEAR, B, C, 1 }, /* not computed by rows */
        { A, B, DROPOUT, B, C, 2 },
        { A, B, NORM, B, A, 2 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct by_hand h;

        by_hand_init(&h);
        hand_forward(&h, SCALE, cases[i].in, cases[i].out);
        hand_forward(&h, cases[i].kind, cases[i].in2, cases[i].out2);
        if (first_run(&h) != cases[i].want)
            fail_msg("pair %d: %d calls together, not %d", (int)i,
                     first_run(&h), cases[i].want);
        for (int n = 1; n <= MAX_THREADS; n++)
            compare_launches(backends[n], &h.program, false);
        by_hand_release(&h);
    }
}

/* Equal offsets in different spaces are different memory. */
static void test_spaces(void **state)
{
    struct by_hand h;

    (void)state;
    by_hand_init(&h);
    hand_forward(&h, SCALE, 0, TENSOR);
    hand_forward(&h, SCALE, 2 * TENSOR, TENSOR + ROW);
    assert_int_equal(first_run(&h), 1);
    h.calls[1].out.space = VP_SPACE_OUT;
    assert_int_equal(first_run(&h), 2);
    by_hand_release(&h);
}

/* Length of the run from every call on. No run is longer than VP_MAX_RUN. */
static void test_lengths(void **state)
{
    static const unsigned char want[] = { 8, 7, 6, 5, 4, 3, 2, 1, 3, 2,
                                          1, 1, 2, 1, 1, 2, 1, 1, 1 };
    unsigned char lengths[VP_COUNT_OF(want)];
    struct by_hand h;

    (void)state;
    by_hand_init(&h);
    for (int i = 0; i < 11; i++)
        hand_forward(&h, SCALE, 0, 0);
    hand_forward(&h, LINEAR, 0, TENSOR);
    hand_forward(&h, ADD, 0, 0);
    hand_forward(&h, NORM, 0, 0);
    hand_forward(&h, FEW, 0, 0);
    hand_forward(&h, ADD, 0, TENSOR);
    hand_forward(&h, SCALE, TENSOR, 0);
    hand_forward(&h, SCALE, 0, TENSOR + ROW); /* overlaps both before */
    hand_forward(&h, LINEAR, 0, TENSOR);
    vp_cpu_find_runs(&vp_cpu_fast, 1, &h.program, VP_LIST_F, lengths);
    assert_int_equal(h.program.n_calls[VP_LIST_F], VP_COUNT_OF(want));
    assert_memory_equal(lengths, want, sizeof(want));
    vp_cpu_find_runs(&vp_cpu_ref_f32, 1, &h.program, VP_LIST_F, lengths);
    for (size_t i = 0; i < sizeof(lengths); i++)
        assert_int_equal(lengths[i], 1);
    by_hand_release(&h);
}

/* The weight gradient of a layer norm sums into scratch memory and adds these
 * sums after the run, so no call of the run may write there. The same holds for
 * the gradients. */
static void test_scratch(void **state)
{
    struct by_hand h;
    struct vp_call *call;
    int64_t n_bytes;

    (void)state;
    by_hand_init(&h);
    call = hand_call(&h, NORM, VP_PHASE_W);
    n_bytes = (int64_t)vp_cpu_fast.scratch_bytes(&h.graph, call->op, VP_PHASE_W,
                                                 1);
    call->in[0] = work(0);
    call->dout = work(TENSOR);
    call->aux[0] = (struct vp_ref){ VP_SPACE_SLOT, 0 };
    call->scratch = work(4 * TENSOR);
    call->dpar[0] = (struct vp_ref){ VP_SPACE_GRAD, 0 };
    call->dpar[1] = (struct vp_ref){ VP_SPACE_GRAD, 1024 };
    hand_forward(&h, SCALE, 0, 2 * TENSOR);
    assert_int_equal(first_run(&h), 2);
    h.calls[1].out = work(4 * TENSOR + n_bytes);
    assert_int_equal(first_run(&h), 2);
    h.calls[1].out = work(4 * TENSOR + n_bytes - 4);
    assert_int_equal(first_run(&h), 1);
    h.calls[1].out = work(4 * TENSOR);
    assert_int_equal(first_run(&h), 1);
    h.calls[1].out = (struct vp_ref){ VP_SPACE_GRAD, 1024 + ROW };
    assert_int_equal(first_run(&h), 2);
    h.calls[1].out = (struct vp_ref){ VP_SPACE_GRAD, 1024 };
    assert_int_equal(first_run(&h), 1);
    h.calls[1].out = (struct vp_ref){ VP_SPACE_SLOT, 0 }; /* the statistics */
    assert_int_equal(first_run(&h), 1);
    h.calls[1].out = work(2 * TENSOR);
    h.calls[1].in[0] = (struct vp_ref){ VP_SPACE_GRAD, 1024 };
    assert_int_equal(first_run(&h), 1);
    by_hand_release(&h);
}

/* ---- Random calls ------------------------------------------------------- */

/* Returns a place that is shifted by half a tensor, by a row, or not at all. */
static struct vp_ref random_place(void)
{
    static const int64_t shifts[] = { 0, 0, 0, ROW, TENSOR / 2, -ROW };

    return work((1 + rand_below(6)) * (int64_t)TENSOR +
                shifts[rand_below((int)VP_COUNT_OF(shifts))]);
}

static bool overlap(struct vp_ref a, struct vp_ref b, int64_t n_bytes)
{
    return a.space == b.space && a.offset != b.offset &&
           llabs(a.offset - b.offset) < n_bytes;
}

static void random_call(struct by_hand *h)
{
    static const struct {
        enum kind kind;
        enum vp_phase phase;
    } choices[] = { { ADD, VP_PHASE_F },     { SCALE, VP_PHASE_F },
                    { SCALE, VP_PHASE_B },   { DROPOUT, VP_PHASE_F },
                    { DROPOUT, VP_PHASE_B }, { NORM, VP_PHASE_F },
                    { NORM, VP_PHASE_B },    { NORM, VP_PHASE_W } };
    int i = rand_below((int)VP_COUNT_OF(choices));
    struct vp_call *call = hand_call(h, choices[i].kind, choices[i].phase);
    bool norm = choices[i].kind == NORM, w = choices[i].phase == VP_PHASE_W;

    do { /* input and output of a call do not overlap partly */
        call->in[0] = random_place();
        call->in[1] = random_place();
        call->out = random_place();
    } while (overlap(call->in[0], call->out, TENSOR) ||
             overlap(call->in[1], call->out, TENSOR) ||
             (w && (call->out.offset == call->in[0].offset ||
                    call->out.offset == call->in[1].offset)));
    if (norm)
        call->aux[0] = (struct vp_ref){ VP_SPACE_SLOT,
                                        rand_below(4) * 2 * (int64_t)ROW };
    if (norm)
        call->par[0] = call->par[1] = (struct vp_ref){ VP_SPACE_PARAM, 0 };
    if (choices[i].phase == VP_PHASE_F)
        return;
    call->dout = call->in[1];
    call->in[1] = (struct vp_ref){ 0 };
    call->din_add[0] = rand_below(2);
    if (!w) {
        call->din[0] = call->out;
    } else {
        call->scratch = call->out;
        call->dpar[0] = (struct vp_ref){ VP_SPACE_GRAD, 0 };
        call->dpar[1] = (struct vp_ref){ VP_SPACE_GRAD, 1024 };
    }
    call->out = (struct vp_ref){ 0 };
}

/* Random runs give the bits of one call after the other. */
static void test_random(void **state)
{
    int n = 0, all = 0;

    (void)state;
    for (int trial = 0; trial < 60; trial++) {
        struct by_hand h;

        by_hand_init(&h);
        for (int i = 0; i < MAX_CALLS; i++)
            random_call(&h);
        n += n_fused(&h.program);
        all += MAX_CALLS;
        compare_launches(backends[1 + trial % MAX_THREADS], &h.program,
                         trial % 2);
        by_hand_release(&h);
    }
    assert_true(n > all / 5 && n < all * 4 / 5);
}

static int open_backends(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++) {
        struct vp_backend_config config = { .n_threads = n };

        assert_int_equal(vp_backend_open(ops, &config, &backends[n], &err),
                         VP_OK);
    }
    return 0;
}

static int close_backends(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++)
        ops->close(backends[n]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowered), cmocka_unit_test(test_models),
        cmocka_unit_test(test_pairs),   cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_lengths), cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, open_backends, close_backends);
}
