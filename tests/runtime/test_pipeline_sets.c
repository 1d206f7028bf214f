/* Pipelines that recompute or swap any set of operators give the same bits as
 * pipelines that recompute nothing, also with replicas and early updates. */
#include "base/rng.h"
#include "lib/halfdevice.h"
#include "lib/pipelinelib.h"
#include "lib/recompute_sets.h"
#include "lib/run_part.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ---- Random numbers ----------------------------------------------------- */

/* Returns 64 random bits; an argument of random_sets(). */
static uint64_t pipeline_draw_bits(void)
{
    struct vp_rng4 r = vp_rng(5, VP_RNG_TEST, 2, pipeline_draws++, 0, 0);

    return (uint64_t)r.v[0] << 32 | r.v[1];
}

/* ---- Cases -------------------------------------------------------------- */

struct sync_case {
    const char *schedule;
    int n_stages, n_chunks, memory;
};

/* ---- Random sets of operators ------------------------------------------- */

static void random_model_sets(const struct setup *setup,
                              uint64_t sets[MAX_SETS])
{
    struct run run = { .model = vp_model_find(setup->model),
                       .sizes = small_sizes(setup) };
    struct vp_graph graph;

    make_dims(&run);
    assert_int_equal(
        vp_model_build(run.model, &run.sizes, &run.dims[0], &graph, NULL),
        VP_OK);
    random_sets(&graph, pipeline_draw_bits, sets);
    vp_graph_release(&graph);
}

static void check_random_sets(struct setup setup, int n_trials)
{
    uint64_t sets[MAX_SETS], swap_sets[MAX_SETS], first_sets[MAX_SETS];
    struct vp_plan_slot slots[3];
    struct swap swap;
    struct run want, got;

    train(&want, &setup);
    assert_true(want.losses[0] != want.losses[1]);
    setup.sets = sets;
    for (int i = 0; i < n_trials; i++) {
        random_model_sets(&setup, sets);
        setup.early = pipeline_draw(2);
        setup.in_backward = i % 2;
        setup.w_recomputed = pipeline_draw(2);
        random_model_sets(&setup, swap_sets);
        random_swap(&setup, &swap);
        setup.swap_sets = i % 3 ? swap_sets : NULL;
        random_model_sets(&setup, first_sets);
        for (int k = 0; k < 3; k++)
            slots[k] = (struct vp_plan_slot){ first_sets,
                                              i % 2 ? first_sets : NULL };
        setup.slots = slots;
        setup.n_slots = pipeline_draw(4);
        train(&got, &setup);
        assert_same(&want, &got, setup.n_steps);
    }
}

static void any_set_gives_the_same_bits(void **state)
{
    static const struct sync_case cases[] = {
        { "1f1b", 1, 0, 0 },      { "1f1b", 3, 0, 0 },
        { "gpipe", 3, 0, 0 },     { "zb-h1", 2, 0, 0 },
        { "zb-h1", 4, 0, 0 },     { "zb-v", 2, 2, 0 },
        { "1f1b", 4, 0, 0 },      { "interleaved", 2, 2, 0 },
        { "pipedream", 1, 0, 0 }, { "pipedream", 4, 0, 0 },
    };

    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (size_t c = 0; c < VP_COUNT_OF(cases); c++) {
            int n = cases[c].n_stages *
                    (cases[c].n_chunks ? cases[c].n_chunks : 1);
            struct setup setup = usual;
            int partition[VP_MAX_STAGES];

            set_type(&setup, *state);
            setup.model = models[m];
            setup.layers = 3;
            setup.eval = true;
            random_partition(partition, n, n_blocks_of(&setup));
            setup.schedule = cases[c].schedule;
            setup.n_stages = cases[c].n_stages;
            setup.n_chunks = cases[c].n_chunks;
            setup.partition = partition;
            setup.tied = strcmp(setup.schedule, "pipedream") != 0;
            setup.accumulation = setup.tied ? 5 : 1;
            setup.grad_clip = setup.tied ? 0.5f : 0.0f;
            setup.threads = 1;
            check_random_sets(setup, SLOW ? 2 : 5);
        }
}

/* Replicas add a bundle of gradients when the calls that compute it are done,
 * in backward or in a separate W. */
static void any_set_gives_the_bits_of_replicas(void **state)
{
    static const int replicas[] = { 2, 1 }, partition[] = { 3, 2 };

    (void)state;
    for (int split = 0; split < 2; split++) {
        struct setup setup = usual;

        setup.schedule = split ? "zb-h1" : "1f1b";
        setup.n_stages = 2;
        setup.partition = partition;
        setup.replicas = replicas;
        setup.bundle_bytes = 4096;
        setup.accumulation = 4;
        check_random_sets(setup, 6);
    }
}

/* Gradients share memory during backward here: they are used for updates as
 * soon as they are final. */
static void any_set_gives_the_bits_of_early_updates(void **state)
{
    static const int partition[] = { 2, 3 };
    struct vp_backend_ops ops = *test_device();

    (void)state;
    ops.grad_linger = ops.grad_linger > 0; /* reuse memory at once */
    for (int stream = 0; stream < 2; stream++) {
        struct setup setup = usual;

        setup.schedule = stream ? "pipedream" : "1f1b";
        setup.n_stages = 2;
        setup.partition = partition;
        setup.tied = !stream;
        setup.accumulation = 1;
        setup.device = &ops;
        check_random_sets(setup, 6);
    }
}

int main(void)
{
    bool bf16 = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_set_gives_the_same_bits),
        cmocka_unit_test(any_set_gives_the_bits_of_replicas),
        cmocka_unit_test(any_set_gives_the_bits_of_early_updates),
        { "any_set in bf16", any_set_gives_the_same_bits, NULL, NULL, &bf16 },
    };

    return run_part(tests, VP_COUNT_OF(tests));
}
