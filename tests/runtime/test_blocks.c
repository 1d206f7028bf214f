/* The weights, gradients and moments of a block are one piece of memory. The
 * position of the pieces changes no bit of training, and a block can be added
 * to a stage or removed from it while the others stay in place. */
#include "lib/halfdevice.h"

#include "base/rng.h"
#include "runtime/fit.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCKS = 64, UNIT = VP_TENSOR_ALIGN / sizeof(uint16_t) };

static uint32_t rand_count;

static int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(11, VP_RNG_TEST, 3, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

static void build(const char *name, bool tied, enum vp_dtype dtype,
                  struct vp_graph *out)
{
    struct setup setup = usual;
    struct vp_model_config sizes;
    struct vp_dims dims = { .batch = 2, .seq = 8 };
    const struct vp_model *model = vp_model_find(name);
    struct vp_err err = { .text = "" };

    setup.model = name;
    setup.layers = 4;
    setup.tied = tied;
    setup.dtype = dtype;
    sizes = small_sizes(&setup);
    if (model->task == VP_TASK_MASKED_LM)
        dims.n_labels = 4;
    if (model->task == VP_TASK_TRANSLATION)
        dims.tgt_seq = 8;
    if (vp_model_build(model, &sizes, &dims, out, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_true(out->n_blocks <= MAX_BLOCKS);
}

static void lower(const struct vp_graph *graph, int first, int n,
                  const int64_t *bases, struct vp_program *out)
{
    struct vp_stage_spec spec = { .first_block = first,
                                  .n_blocks = n,
                                  .bases = bases };
    struct vp_err err = { .text = "" };

    if (vp_program_lower(graph, &spec, NULL, NULL, out, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* ---- Layout of the pieces ----------------------------------------------- */

static int64_t aligned(int64_t n)
{
    return (int64_t)vp_align_up((size_t)n, VP_TENSOR_ALIGN);
}

/* Bytes of a block that were seen so far: weights, constants, gradients of tied
 * parameters. */
struct used {
    int64_t piece, constants, tied;
};

/* Checks that the entries of each block follow each other in the block's piece,
 * without a gap. */
static void check_entries(const struct vp_program *p, struct used *used)
{
    int64_t size = vp_dtype_bytes(p->graph->dtype);

    for (int i = 0; i < p->layout.n_entries; i++) {
        const struct vp_layout_entry *e = &p->layout.entries[i];
        const struct vp_param *param = &p->graph->params[e->par];
        int b = param->block - p->spec.first_block;
        const struct vp_layout_block *block = &p->layout.blocks[b];

        if (param->constant) {
            assert_int_equal(e->offset, block->constants + used[b].constants);
            used[b].constants += aligned(e->n_bytes);
        } else if (e->storage == i) {
            assert_int_equal(e->offset, block->base * size + used[b].piece);
            assert_int_equal(e->grad_offset / 4, e->offset / size);
            used[b].piece += aligned(e->n_bytes);
        } else {
            assert_int_equal(e->grad_offset, block->tied + used[b].tied);
            used[b].tied += aligned(e->n_bytes / size * 4);
        }
    }
}

static void check_pieces(const struct vp_program *p)
{
    struct used used[MAX_BLOCKS] = { { 0 } };
    int64_t size = vp_dtype_bytes(p->graph->dtype), end = 0, sum = 0;

    check_entries(p, used);
    for (int b = 0; b < p->spec.n_blocks; b++) {
        const struct vp_layout_block *block = &p->layout.blocks[b];

        assert_int_equal(block->n * size, used[b].piece);
        assert_int_equal(block->constant_bytes, used[b].constants);
        assert_int_equal(block->tied_bytes, used[b].tied);
        assert_int_equal(block->base * size % VP_TENSOR_ALIGN, 0);
        for (int i = 0; i < b; i++)
            assert_true(block->base >=
                            p->layout.blocks[i].base + p->layout.blocks[i].n ||
                        p->layout.blocks[i].base >= block->base + block->n);
        if (block->base + block->n > end)
            end = block->base + block->n;
        sum += block->n;
    }
    assert_int_equal(p->layout.train_bytes, end * 4);
    if (!p->spec.bases) /* there are no gaps between the pieces */
        assert_int_equal(sum, end);
}

static void pieces_hold_whole_blocks(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        struct vp_graph graph;
        struct vp_program program;
        int first, n;

        build(models[round % 3], rand_below(2),
              rand_below(2) ? VP_DTYPE_BF16 : VP_DTYPE_F32, &graph);
        first = rand_below(graph.n_blocks);
        n = 1 + rand_below(graph.n_blocks - first);
        lower(&graph, first, n, NULL, &program);
        check_pieces(&program);
        vp_program_release(&program);
        vp_graph_release(&graph);
    }
}

/* ---- Moving a block to another stage ------------------------------------ */

/* Checks that parameters which both stages have are at the same offsets. */
static void assert_unmoved(const struct vp_program *a,
                           const struct vp_program *b)
{
    int n = 0;

    for (int i = 0; i < a->layout.n_entries; i++)
        for (int j = 0; j < b->layout.n_entries; j++) {
            const struct vp_layout_entry *x = &a->layout.entries[i];
            const struct vp_layout_entry *y = &b->layout.entries[j];

            if (x->par != y->par || a->graph->params[x->par].constant)
                continue;
            assert_int_equal(x->offset, y->offset);
            assert_int_equal(x->grad_offset, y->grad_offset);
            n++;
        }
    assert_true(n > 0);
}

/* A stage gives away its first block and gets the block that follows its last
 * one. The new block is put into the free piece if it fits there, else behind
 * the others. */
static void a_block_moves_alone(void **state)
{
    int n_in_place = 0;

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct vp_graph graph;

        build(models[m], false, VP_DTYPE_F32, &graph);
        for (int first = 0; first + 4 < graph.n_blocks; first++) {
            struct vp_program before, after, alone;
            int64_t bases[4];
            bool fits;

            lower(&graph, first, 4, NULL, &before);
            lower(&graph, first + 4, 1, NULL, &alone);
            fits = alone.layout.blocks[0].n <= before.layout.blocks[0].n;
            for (int b = 0; b < 3; b++)
                bases[b] = before.layout.blocks[b + 1].base;
            bases[3] = fits ? before.layout.blocks[0].base
                            : before.layout.train_bytes / 4;
            lower(&graph, first + 1, 4, bases, &after);
            check_pieces(&after);
            assert_unmoved(&before, &after);
            if (fits)
                assert_int_equal(after.layout.train_bytes,
                                 before.layout.train_bytes);
            n_in_place += fits;
            vp_program_release(&before);
            vp_program_release(&after);
            vp_program_release(&alone);
        }
        vp_graph_release(&graph);
    }
    assert_true(n_in_place > 0);
}

static void bad_bases_are_refused(void **state)
{
    static const struct {
        int64_t bases[2];
        const char *want;
    } cases[] = {
        { { 0, 65 },
          "state of block 3 begins at element 65; its base must be a multiple "
          "of 64" },
        { { -64, 640000 },
          "state of block 2 begins at element -64; its base must be a multiple "
          "of 64" },
        { { 6400, 6400 }, "state of block 3, elements 6400 to " },
    };
    struct vp_graph graph;

    (void)state;
    build("bert", false, VP_DTYPE_F32, &graph);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_stage_spec spec = { .first_block = 2,
                                      .n_blocks = 2,
                                      .bases = cases[i].bases };
        struct vp_program program;
        struct vp_err err = { .text = "" };

        assert_int_equal(
            vp_program_lower(&graph, &spec, NULL, NULL, &program, &err),
            VP_ERR_INVALID);
        if (strncmp(err.text, cases[i].want, strlen(cases[i].want)) != 0)
            fail_msg("%s", err.text);
    }
    vp_graph_release(&graph);
}

/* ---- Training with scattered blocks ------------------------------------- */

/* Puts the blocks of a stage into a random order with holes between them.
 * Returns the number of elements in the holes. */
static int64_t scatter(const struct vp_graph *graph, int first, int n,
                       int64_t *bases)
{
    struct vp_program program;
    int order[MAX_BLOCKS];
    int64_t end = 0, holes = 0;

    lower(graph, first, n, NULL, &program);
    for (int b = 0; b < n; b++) {
        int at = rand_below(b + 1);

        order[b] = order[at];
        order[at] = b;
    }
    for (int i = 0; i < n; i++) {
        int64_t hole = rand_below(4) * UNIT;

        bases[order[i]] = end + hole;
        end += hole + program.layout.blocks[order[i]].n;
        holes += hole;
    }
    vp_program_release(&program);
    return holes;
}

static int64_t sum_moments(const struct vp_priced_plan *priced)
{
    int64_t sum = 0;

    for (int s = 0; s < priced->schedule.n_stages; s++)
        sum += priced->stages[s].memory.moments;
    return sum;
}

/* Checks that a trainer allocates the priced bytes, and that the price includes
 * the moments of the holes. */
static void check_price(const struct setup *setup, int64_t n_holes)
{
    struct vp_priced_plan with, without;
    struct vp_err err = { .text = "" };
    struct vp_train_config dry;
    int64_t sum = 0;
    struct run run;

    if (run_create(&run, setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    dry = run.config;
    dry.backend_config.plan_only = true;
    if (vp_priced_plan_make(&dry, &with, &err) != VP_OK)
        fail_msg("%s", err.text);
    dry.plan.block_bases = NULL;
    if (vp_priced_plan_make(&dry, &without, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int s = 0; s < with.schedule.n_stages; s++)
        sum += with.stages[s].memory.total * with.schedule.stages[s].n_replicas;
    assert_int_equal(atomic_load(&n_device_bytes), sum);
    assert_int_equal(sum_moments(&with) - sum_moments(&without),
                     n_holes * 4 * vp_optim_n_moments(setup->optim));
    vp_priced_plan_release(&with);
    vp_priced_plan_release(&without);
    run_free(&run);
}

/* The position of blocks changes no bit of training, because all sums follow
 * the order of blocks and tensors, not of addresses. */
static void any_place_trains_the_same(void **state)
{
    static const int three[] = { 3, 4, 2 }, four[] = { 2, 3, 2, 2 };
    static const int replicas[] = { 1, 2, 1 };
    static const struct {
        const char *schedule;
        int n_stages, n_chunks;
        const int *partition, *replicas;
        enum vp_optim_kind optim;
        bool tied;
    } cases[] = {
        { "1f1b", 3, 0, three, NULL, VP_OPTIM_ADAMW, true },
        { "1f1b", 3, 0, three, replicas, VP_OPTIM_LAMB, true },
        { "zb-h1", 3, 0, three, NULL, VP_OPTIM_SGD, true },
        { "interleaved", 2, 2, four, NULL, VP_OPTIM_LAMB, false },
        { "pipedream", 3, 0, three, NULL, VP_OPTIM_ADAM, false },
        { "1f1b", 1, 0, NULL, NULL, VP_OPTIM_ADAMW, true },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct setup setup = usual;
        struct run want, got;
        struct vp_graph graph;
        int64_t bases[MAX_BLOCKS], n_holes = 0;
        int n_stages = cases[i].n_stages *
                       (cases[i].n_chunks ? cases[i].n_chunks : 1);
        int first = 0;

        setup.layers = 4;
        setup.accumulation = 4;
        setup.grad_clip = 0.5f;
        setup.schedule = cases[i].schedule;
        setup.n_stages = cases[i].n_stages;
        setup.n_chunks = cases[i].n_chunks;
        setup.partition = cases[i].partition;
        setup.replicas = cases[i].replicas;
        setup.optim = cases[i].optim;
        setup.tied = cases[i].tied;
        setup.bundle_bytes = 4096;
        train(&want, &setup);
        build("bert", setup.tied, VP_DTYPE_F32, &graph);
        for (int s = 0; s < n_stages; s++) {
            int n = setup.partition ? setup.partition[s] : graph.n_blocks;

            n_holes += scatter(&graph, first, n, bases + first);
            first += n;
        }
        assert_int_equal(first, graph.n_blocks);
        vp_graph_release(&graph);
        setup.bases = bases;
        train(&got, &setup);
        assert_same(&got, &want, setup.n_steps);
        check_price(&setup, n_holes);
    }
}

/* ---- Updates counted per block ------------------------------------------ */

/* Loads small weights, and moments that are not 0. */
static enum vp_status load(void *ctx, const struct vp_state_item *item,
                           float *out, struct vp_err *err)
{
    const struct run *run = ctx;
    const struct vp_graph *graph = &run->graphs[0];

    (void)err;
    for (int64_t i = 0; i < item->rows * item->cols; i++)
        out[i] = item->kind == VP_STATE_WEIGHT ? 0.01f * (float)(i % 7 - 3)
                                               : 0.001f * (float)(1 + i % 5);
    assert_in_range(item->block, 0, graph->n_blocks - 1);
    return VP_OK;
}

static const struct vp_block_count few = { 5, 1 }, many = { 12, 3 };

/* Makes one update of a run whose blocks have had different numbers of updates:
 * `many` for block b if bit b of `with_many` is set, else `few`. */
static void update_once(struct setup setup, uint64_t with_many, struct run *run)
{
    struct vp_block_count blocks[MAX_BLOCKS], after[MAX_BLOCKS];
    struct vp_progress progress;
    struct vp_loader loader = { .ctx = run, .load = load, .blocks = blocks };
    struct vp_err err = { .text = "" };

    for (int b = 0; b < MAX_BLOCKS; b++)
        blocks[b] = with_many >> b & 1 ? many : few;
    loader.progress.step = loader.progress.minibatch = 20;
    for (int s = 0; s < VP_MAX_STAGES; s++) {
        loader.progress.updates[s] = few.updates;
        loader.progress.scale[s].n_skipped = few.n_skipped;
    }
    setup.loader = &loader;
    if (run_create(run, &setup, 0, &err) != VP_OK ||
        vp_trainer_run(run->trainer, 1, NULL, NULL, &err) != VP_OK)
        fail_msg("%s", err.text);
    progress = vp_trainer_progress(run->trainer);
    vp_trainer_block_counts(run->trainer, &progress, after);
    for (int b = 0; b < run->graphs[0].n_blocks; b++) {
        assert_int_equal(after[b].updates, blocks[b].updates + 1);
        assert_int_equal(after[b].n_skipped, blocks[b].n_skipped);
    }
}

/* The optimizer's step of a block depends on the number of updates of that
 * block, not on those of its stage or of other blocks. */
static void blocks_count_their_updates(void **state)
{
    static const int partition[] = { 4, 5 };
    static const enum vp_optim_kind kinds[] = { VP_OPTIM_ADAM, VP_OPTIM_ADAMW,
                                                VP_OPTIM_LAMB };
    const uint64_t mixed = 0x0b5;
    int n_differ = 0;

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct setup setup = usual;
        struct run a, b, c;

        setup.layers = 4;
        setup.schedule = "pipedream";
        setup.n_stages = i < 3 ? 2 : 1;
        setup.partition = i < 3 ? partition : NULL;
        setup.tied = false;
        setup.optim = kinds[i % 3];
        update_once(setup, 0, &a);
        update_once(setup, UINT64_MAX, &b);
        update_once(setup, mixed, &c);
        for (vp_par par = 0; par < c.graphs[0].n_params; par++) {
            const struct vp_param *param = &c.graphs[0].params[par];
            size_t n = (size_t)count_weights(&c, par) * sizeof(float);
            float *with_few = trainer_weights(&a, par, 0);
            float *with_many = trainer_weights(&b, par, 0);
            float *got = trainer_weights(&c, par, 0);

            assert_memory_equal(
                got, mixed >> param->block & 1 ? with_many : with_few, n);
            n_differ += memcmp(with_few, with_many, n) != 0;
            free(with_few);
            free(with_many);
            free(got);
        }
        run_free(&a);
        run_free(&b);
        run_free(&c);
    }
    assert_true(n_differ > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_hold_whole_blocks),
        cmocka_unit_test(a_block_moves_alone),
        cmocka_unit_test(bad_bases_are_refused),
        cmocka_unit_test(any_place_trains_the_same),
        cmocka_unit_test(blocks_count_their_updates),
    };

    return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}
