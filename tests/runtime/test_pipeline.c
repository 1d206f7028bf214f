/* Pipelines give the bits of one stage (synchronous), or of a literal reading
 * of the version rule (asynchronous), however the model is cut. */
#include "lib/halfdevice.h"

#include "base/rng.h"
#include "lib/literal.h"
#include "lib/recompute_sets.h"
#include "run/forecast.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    !defined(__OPTIMIZE__)
#define SLOW 1 /* sweeps are thinner: the optimised build makes them whole */
#else
#define SLOW 0
#endif

/* ---- Cuts --------------------------------------------------------------- */

static uint32_t rand_count;

static int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(5, VP_RNG_TEST, 1, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

/* For random_sets(). */
static uint64_t rand_bits(void)
{
    struct vp_rng4 r = vp_rng(5, VP_RNG_TEST, 2, rand_count++, 0, 0);

    return (uint64_t)r.v[0] << 32 | r.v[1];
}

static void random_partition(int *partition, int n_stages, int n_blocks)
{
    for (int s = 0; s < n_stages; s++) {
        int most = n_blocks - (n_stages - 1 - s);

        partition[s] = s == n_stages - 1 ? n_blocks : 1 + rand_below(most);
        if (s < n_stages - 1 && partition[s] > 2 * n_blocks / (n_stages - s))
            partition[s] = 2 * n_blocks / (n_stages - s);
        n_blocks -= partition[s];
    }
}

static int n_blocks_of(const struct setup *setup)
{
    struct vp_model_config sizes = small_sizes(setup);

    return (int)vp_model_find(setup->model)->n_blocks(&sizes);
}

/* ---- Swap --------------------------------------------------------------- */

/* Which stages swap how much, and how late copies are made. */
struct swap {
    double ratios[VP_MAX_STAGES];
    int buffers[VP_MAX_STAGES];
};

static void random_swap(struct setup *setup, struct swap *swap)
{
    static const double ratios[] = { 0.0, 0.4, 1.0, 1.0 };

    for (int s = 0; s < VP_MAX_STAGES; s++) {
        swap->ratios[s] = ratios[rand_below(4)];
        swap->buffers[s] = 1 + rand_below(5);
    }
    setup->swap_ratios = swap->ratios;
    setup->swap_buffers = rand_below(3) ? swap->buffers : NULL;
    setup->swap_delay_us = 1 + 400 * rand_below(2);
}

/* ---- Synchronous -------------------------------------------------------- */

struct sync_case {
    const char *schedule;
    int n_stages, n_chunks, memory;
};

static void check_sync(const struct setup *base, const struct run *want,
                       const struct sync_case *c)
{
    static const double ratios[] = { 0.0, 0.3, 0.5, 1.0 };
    struct setup setup = *base;
    int partition[VP_MAX_STAGES];
    double stage_ratios[VP_MAX_STAGES];
    int n = c->n_stages * (c->n_chunks ? c->n_chunks : 1);
    struct swap swap;
    struct run got;

    random_partition(partition, n, n_blocks_of(base));
    for (int s = 0; s < n; s++)
        stage_ratios[s] = ratios[rand_below(4)];
    setup.schedule = c->schedule;
    setup.n_stages = c->n_stages;
    setup.n_chunks = c->n_chunks;
    setup.schedule_memory = c->memory;
    setup.partition = partition;
    setup.ratios = stage_ratios;
    setup.early = rand_below(2);
    setup.threads = 1 + rand_below(2);
    setup.prefetch = rand_below(3);
    setup.w_recomputed = rand_below(2);
    if (rand_below(3) > 0)
        random_swap(&setup, &swap);
    train(&got, &setup);
    assert_same(want, &got, setup.n_steps);
}

static void every_cut_gives_the_same_bits(void **state)
{
    static const struct sync_case cases[] = {
        { "1f1b", 1, 0, 0 },        { "1f1b", 2, 0, 0 },
        { "1f1b", 3, 0, 0 },        { "1f1b", 4, 0, 0 },
        { "1f1b", 8, 0, 0 },        { "gpipe", 2, 0, 0 },
        { "gpipe", 4, 0, 0 },       { "gpipe", 8, 0, 0 },
        { "interleaved", 2, 2, 0 }, { "interleaved", 2, 3, 0 },
        { "interleaved", 4, 2, 0 }, { "zb-h1", 2, 0, 0 },
        { "zb-h1", 3, 0, 0 },       { "zb-h1", 4, 0, 0 },
        { "zb-h1", 8, 0, 0 },       { "zb-h2", 2, 0, 0 },
        { "zb-h2", 3, 0, 0 },       { "zb-h2", 8, 0, 0 },
        { "zb-v", 2, 2, 0 },        { "zb-v", 4, 2, 0 },
        { "v-half", 3, 2, 0 },      { "v-half", 4, 2, 0 },
        { "v-min", 2, 2, 0 },       { "v-min", 4, 2, 0 },
        { "v-auto", 3, 2, 0 },      { "v-auto", 3, 2, 5 },
        { "v-auto", 4, 2, 3 },      { "dualpipe-v", 2, 2, 0 },
        { "dualpipe-v", 4, 2, 0 },
    };

    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int tied = 0; tied < 2; tied++) {
            struct setup setup = usual;
            struct run want;

            if (SLOW && tied != (int)m % 2)
                continue;
            set_type(&setup, *state);
            setup.model = models[m];
            setup.tied = tied;
            setup.layers = 4;
            setup.accumulation = 5;
            setup.n_steps = 3;
            setup.grad_clip = 0.5f;
            setup.eval = true;
            train(&want, &setup);
            assert_true(want.losses[0] != want.losses[1]);
            for (size_t c = 0; c < VP_COUNT_OF(cases); c++)
                check_sync(&setup, &want, &cases[c]);
        }
}

/* ---- Any operators recomputed ------------------------------------------- */

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
    random_sets(&graph, rand_bits, sets);
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
        setup.early = rand_below(2);
        setup.in_backward = i % 2;
        setup.w_recomputed = rand_below(2);
        random_model_sets(&setup, swap_sets);
        random_swap(&setup, &swap);
        setup.swap_sets = i % 3 ? swap_sets : NULL;
        random_model_sets(&setup, first_sets);
        for (int k = 0; k < 3; k++)
            slots[k] = (struct vp_plan_slot){ first_sets,
                                              i % 2 ? first_sets : NULL };
        setup.slots = slots;
        setup.n_slots = rand_below(4);
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

/* Replicas add gradients up bundle by bundle, when the calls that make them are
 * done: of W in B or in a list of its own. */
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

/* Where gradients are used up within backward, too. */
static void any_set_gives_the_bits_of_early_updates(void **state)
{
    static const int partition[] = { 2, 3 };
    struct vp_backend_ops ops = *test_device();

    (void)state;
    ops.grad_linger = ops.grad_linger > 0; /* as soon as it can */
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

/* Which of three stages recompute, and how many of their lines. */
static void check_recomputing(const struct setup *setup, const int n_lines[3])
{
    struct vp_run_stage stages[VP_MAX_STAGES];
    struct vp_err err = { .text = "" };
    struct vp_run_summary summary;
    struct run run;

    assert_int_equal(run_create(&run, setup, 0, &err), VP_OK);
    assert_int_equal(vp_forecast_make(&run.config,
                                      vp_trainer_schedule(run.trainer),
                                      vp_trainer_prices(run.trainer), stages,
                                      &summary, &err),
                     VP_OK);
    for (int s = 0; s < 3; s++) {
        bool does = n_lines[s] > 0;

        assert_int_equal(vp_trainer_schedule(run.trainer)->stages[s].recompute,
                         does);
        assert_int_equal(
            vp_trainer_prices(run.trainer)[s].flops[VP_LIST_R] > 0.0, does);
        assert_int_equal(stages[s].n_recomputed_lines, n_lines[s]);
    }
    run_free(&run);
}

/* Sets count, if there are any, and ratios do not. */
static void stages_recompute_by_their_sets(void **state)
{
    static const double ratios[] = { 1.0, 0.0, 1.0 };
    static const int partition[] = { 2, 2, 1 };
    static const int by_ratio[] = { 10, 0, 5 }, by_sets[] = { 0, 4, 0 };
    uint64_t sets[] = { 0, 0, 0, 0x1e, 0 };
    struct vp_err err = { .text = "" };
    struct setup setup = usual;
    struct run run;

    (void)state;
    setup.n_stages = 3;
    setup.partition = partition;
    setup.ratios = ratios;
    check_recomputing(&setup, by_ratio);
    setup.sets = sets;
    check_recomputing(&setup, by_sets);
    sets[4] = UINT64_C(1) << 40;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "recomputation of block 4: the set "));
    run_free(&run);
    setup.n_stages = 2; /* too few blocks */
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "have 4 blocks, the model has 5"));
    run_free(&run);
    setup.partition = NULL;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "need a partition"));
    run_free(&run);
}

/* The lists of auto for random costs, as text. */
static char *auto_text(const struct setup *setup, int memory)
{
    struct vp_stage_costs stages[VP_MAX_STAGES];
    struct vp_sched_costs costs = { .stages = stages };
    double limits[VP_MAX_STAGES];
    struct vp_sched_limits most = { .rank = limits };
    bool recompute[VP_MAX_STAGES];
    struct vp_sched_config config = { .name = "auto",
                                      .n_stages = setup->n_stages,
                                      .n_chunks = setup->n_chunks,
                                      .v_shape = setup->schedule_v,
                                      .n_mb = setup->accumulation,
                                      .recompute = recompute,
                                      .global_norm = true,
                                      .costs = &costs,
                                      .limits = &most };
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };
    char *text = NULL;

    for (int s = 0; s < setup->n_stages * setup->n_chunks; s++) {
        stages[s] = (struct vp_stage_costs){ .f = 1 + rand_below(3),
                                             .b = 1 + rand_below(3),
                                             .w = 1 + rand_below(3),
                                             .r = 1 + rand_below(2) };
        recompute[s] = setup->ratios[s] > 0.0;
        limits[s] = memory;
    }
    if (vp_schedule_make(&config, &schedule, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(vp_schedule_print(&schedule, 0, &text), VP_OK);
    vp_schedule_release(&schedule);
    return text;
}

/* `auto` in all three placements, with R where it found it best. */
static void auto_gives_the_same_bits(void **state)
{
    static const struct {
        int n_stages, n_chunks, memory;
        bool v_shape;
    } cases[] = {
        { 1, 1, 2, false }, { 2, 1, 2, false }, { 4, 1, 3, false },
        { 2, 2, 3, false }, { 3, 2, 6, false }, { 2, 2, 4, true },
        { 4, 2, 5, true },  { 4, 2, 8, true },
    };

    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = usual;
        struct run want, got;

        set_type(&setup, *state);
        setup.model = models[m];
        setup.layers = 4;
        setup.accumulation = 5;
        setup.n_steps = 3;
        setup.grad_clip = 0.5f;
        train(&want, &setup);
        for (size_t c = 0; c < VP_COUNT_OF(cases); c++) {
            static const double ratios[] = { 0.0, 0.5, 1.0, 1.0 };
            double stage_ratios[VP_MAX_STAGES];
            int partition[VP_MAX_STAGES];
            struct setup pipe = setup;
            char *text;

            pipe.schedule = "auto";
            pipe.n_stages = cases[c].n_stages;
            pipe.n_chunks = cases[c].n_chunks;
            pipe.schedule_v = cases[c].v_shape;
            random_partition(partition, pipe.n_stages * pipe.n_chunks,
                             n_blocks_of(&setup));
            for (int s = 0; s < pipe.n_stages * pipe.n_chunks; s++)
                stage_ratios[s] = ratios[rand_below(4)];
            pipe.partition = partition;
            pipe.ratios = stage_ratios;
            text = auto_text(&pipe, cases[c].memory);
            pipe.schedule_text = text;
            train(&got, &pipe);
            assert_same(&want, &got, setup.n_steps);
            free(text);
        }
    }
}

/* Lists from a text instead of the generator that is named: here in an order
 * that no generator writes, two forwards and a backward first. */
static void lists_by_hand_give_the_same_bits(void **state)
{
    static const char text[] =
        "stages=2 minibatches=3 split=1\n"
        "0: 0F0 0SEND_ACT0 0F1 0SEND_ACT1 0F2 0SEND_ACT2 0RECV_GRAD0 0B0 "
        "0RECV_GRAD1 0B1 0W0 0RECV_GRAD2 0B2 0W1 0W2 0UPDATE0\n"
        "1: 1RECV_ACT0 1F0 1RECV_ACT1 1F1 1B0 1SEND_GRAD0 1W0 1RECV_ACT2 1F2 "
        "1B1 1SEND_GRAD1 1B2 1SEND_GRAD2 1W1 1W2 1UPDATE0\n";
    static const int partition[] = { 2, 3 };
    struct setup setup = usual;
    struct run want, got;

    (void)state;
    setup.accumulation = 3;
    setup.n_steps = 3;
    setup.grad_clip = 0.5f;
    train(&want, &setup);
    setup.schedule = "1f1b";
    setup.schedule_text = text;
    setup.n_stages = 2;
    setup.partition = partition;
    setup.recompute = 0.5;
    train(&got, &setup);
    assert_same(&want, &got, setup.n_steps);
}

/* Where nothing is clipped a device may update each tensor as soon as its
 * gradient is final, and with one backward per update give the gradient's place
 * to others; with a limit that is never reached it has to wait for the norm of
 * all. Both make the same weights and norms. */
static void early_updates_give_the_same_bits(void **state)
{
    static const struct {
        struct sync_case pipe;
        int accumulation;
    } cases[] = {
        { { "1f1b", 1, 0, 0 }, 3 },        { { "1f1b", 1, 0, 0 }, 1 },
        { { "1f1b", 3, 0, 0 }, 3 },        { { "1f1b", 3, 0, 0 }, 1 },
        { { "interleaved", 2, 2, 0 }, 3 }, { { "interleaved", 2, 2, 0 }, 1 },
        { { "zb-h1", 2, 0, 0 }, 3 },       { { "pipedream", 1, 0, 0 }, 1 },
        { { "pipedream", 3, 0, 0 }, 1 }
    };
    static const enum vp_optim_kind kinds[] = { VP_OPTIM_ADAMW, VP_OPTIM_SGD };
    struct vp_backend_ops ops = *test_device();

    ops.grad_linger = ops.grad_linger > 0; /* as soon as it can */
    for (size_t c = 0; c < VP_COUNT_OF(cases); c++)
        for (size_t k = 0; k < VP_COUNT_OF(kinds); k++) {
            bool stream = strcmp(cases[c].pipe.schedule, "pipedream") == 0;
            struct setup setup = usual;
            int partition[VP_MAX_STAGES];
            struct run early, late;

            set_type(&setup, *state);
            setup.schedule = cases[c].pipe.schedule;
            setup.n_stages = cases[c].pipe.n_stages;
            setup.n_chunks = cases[c].pipe.n_chunks;
            random_partition(partition,
                             setup.n_stages *
                                 (setup.n_chunks ? setup.n_chunks : 1),
                             n_blocks_of(&setup));
            setup.partition = partition;
            setup.tied = !stream;
            setup.accumulation = cases[c].accumulation;
            setup.n_steps = 6;
            setup.optim = kinds[k];
            setup.device = &ops;
            train(&early, &setup);
            setup.grad_clip = 1e9f;
            train(&late, &setup);
            assert_same(&late, &early, setup.n_steps);
        }
}

/* ---- Compressed messages ------------------------------------------------ */

static void schedules_compress_alike(void **state)
{
    static const char *const schedules[] = { "1f1b", "gpipe", "zb-h1" };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        int cut[4] = { 2, 2, 1 };
        struct setup setup = usual;
        struct run plain, want, got;

        setup.model = models[m];
        setup.layers = 4;
        cut[3] = n_blocks_of(&setup) - 5;
        setup.schedule = "1f1b";
        setup.n_stages = 4;
        setup.partition = cut;
        setup.accumulation = 5;
        train(&plain, &setup);
        setup.compress = true;
        train(&want, &setup);
        assert_true(want.weights != plain.weights);
        for (int i = 0; i < setup.n_steps; i++)
            assert_true(fabs(want.losses[i] - plain.losses[i]) < 0.02);
        for (size_t s = 0; s < VP_COUNT_OF(schedules); s++) {
            setup.schedule = schedules[s];
            setup.recompute = 0.5 * (double)s;
            train(&got, &setup);
            assert_same(&want, &got, setup.n_steps);
        }
    }
}

static void count_bytes(bool compress, struct vp_stage_stats stats[2])
{
    int partition[2] = { 2 };
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    struct run run;

    setup.model = "gpt2";
    partition[1] = n_blocks_of(&setup) - 2;
    setup.schedule = "1f1b";
    setup.n_stages = 2;
    setup.partition = partition;
    setup.compress = compress;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    assert_int_equal(vp_trainer_run(run.trainer, 3, NULL, NULL, &err), VP_OK);
    memcpy(stats, vp_trainer_stats(run.trainer), 2 * sizeof(*stats));
    run_free(&run);
}

/* Of 4 samples of 20 tokens and 32 floats; targets stay as they are. */
static void compressed_floats_take_half(void **state)
{
    const int64_t n_mb = 3 * 2, ids = 4 * 20, floats = ids * 32;
    struct vp_stage_stats plain[2], packed[2];

    (void)state;
    count_bytes(false, plain);
    count_bytes(true, packed);
    assert_int_equal(plain[0].act.n_sent, n_mb);
    assert_int_equal(plain[1].grad.bytes_sent, n_mb * floats * 4);
    assert_int_equal(packed[1].grad.bytes_sent, n_mb * floats * 2);
    assert_true(plain[0].act.bytes_sent >= n_mb * (floats * 4 + ids * 4));
    assert_int_equal(packed[0].act.bytes_sent, n_mb * (floats * 2 + ids * 4));
    for (int way = 0; way < 2; way++) {
        const struct vp_stage_stats *s = way ? packed : plain;

        assert_int_equal(s[0].act.bytes_sent, s[1].act.bytes_received);
        assert_int_equal(s[1].grad.bytes_sent, s[0].grad.bytes_received);
    }
}

/* A partition that is not the model's is refused, with the numbers. */
static void wrong_partitions_are_refused(void **state)
{
    static const int partition[] = { 2, 2 };
    struct setup setup = usual;
    struct vp_err err;
    struct run run;

    (void)state;
    setup.n_stages = 2;
    setup.partition = partition;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "have 4 blocks, the model has 5"));
    run_free(&run);
    setup.partition = NULL;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "need a partition"));
    run_free(&run);
}

/* ---- Asynchronous: the literal interpreter ------------------------------ */

/* Every stage's newest weights, both ways. */
static void compare_weights(const struct run *run, const struct literal *lit,
                            const struct async_case *c)
{
    for (int s = 0; s < lit->n_stages; s++)
        for (int r = 0; r < c->replicas[s]; r++)
            assert_same_weights(run, &lit->stages[s].stage, r);
}

/* Skipped updates must be the same, too; those of each stage are added. */
static void compare_skipped(const struct run *run, const struct literal *lit,
                            int64_t n_skipped[4])
{
    struct vp_progress progress = vp_trainer_progress(run->trainer);

    for (int s = 0; s < lit->n_stages; s++) {
        int64_t n = lit->stages[s].stage.scale.n_skipped;

        assert_int_equal(progress.scale[s].n_skipped, n);
        assert_int_equal(progress.updates[s], lit->stages[s].stage.newest);
        n_skipped[s] += n;
    }
}

static void check_async(const char *model, const struct async_case *c,
                        void *bf16, float scale, bool compress,
                        int64_t n_skipped[4])
{
    struct setup setup = scale > 0.0f ? loud(NULL, 0, NULL) : usual;
    struct vp_train_config config;
    struct vp_err err = { .text = "" };
    struct literal lit;
    struct run run;
    double losses[MAX_STEPS], norms[MAX_STEPS], eval_loss;
    struct swap swap;
    int partition[4];
    int n = 24, cut = c->eval_after ? c->eval_after : n;

    set_type(&setup, bf16);
    setup.model = model;
    setup.schedule = c->schedule;
    setup.n_stages = c->n_stages;
    setup.replicas = c->replicas;
    setup.depth = c->give_depth ? c->depth : NULL;
    setup.partition = partition;
    setup.tied = false;
    setup.eval = true;
    setup.threads = 1;
    setup.grad_clip = scale > 0.0f ? setup.grad_clip : 0.5f;
    setup.scale.start = scale;
    setup.compress = compress;
    setup.bundle_bytes = 1 + rand_below(1 << rand_below(16));
    random_partition(partition, c->n_stages, n_blocks_of(&setup));
    random_swap(&setup, &swap);
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    config = run.config;
    literal_open(&lit, &run, &config, c, partition);
    literal_run(&lit, 0, n, losses, norms); /* knows of no evaluation */
    if (vp_trainer_run(run.trainer, cut, keep_step, &run, &err) != VP_OK)
        fail_msg("%s", err.text);
    if (cut < n) {
        assert_int_equal(vp_trainer_eval(run.trainer, 5, &eval_loss, &err),
                         VP_OK);
        assert_true(eval_loss == literal_eval(&lit, 5, cut));
        if (vp_trainer_run(run.trainer, n - cut, keep_step, &run, &err))
            fail_msg("%s", err.text);
    }
    for (int m = 0; m < n; m++)
        if (run.losses[m] != losses[m])
            fail_msg("%s %s: loss %d is %.17g, not %.17g", model, c->schedule,
                     m, run.losses[m], losses[m]);
    compare_weights(&run, &lit, c);
    compare_skipped(&run, &lit, n_skipped);
    literal_close(&lit);
    run_free(&run);
}

static const struct async_case async_cases[] = {
    { "pipedream", 1, { 1 }, { 0 }, { 0 }, { 1 }, false, 0 },
    { "pipedream", 2, { 1, 1 }, { 0 }, { 1, 0 }, { 1, 1 }, false, 0 },
    { "pipedream",
      4,
      { 1, 1, 1, 1 },
      { 0 },
      { 3, 2, 1, 0 },
      { 1, 1, 1, 1 },
      false,
      8 },
    { "pipedream",
      3,
      { 1, 1, 1 },
      { 4, 2, 1 },
      { 4, 2, 1 },
      { 1, 1, 1 },
      true,
      0 },
    { "pipedream", 3, { 1, 2, 1 }, { 0 }, { 3, 1, 0 }, { 1, 2, 1 }, false, 12 },
    { "pipedream", 3, { 2, 1, 3 }, { 0 }, { 2, 3, 0 }, { 2, 1, 3 }, false, 0 },
    { "pipedream", 3, { 2, 1, 3 }, { 0 }, { 2, 3, 0 }, { 2, 1, 3 }, false, 6 },
    { "pipedream", 1, { 2 }, { 0 }, { 0 }, { 2 }, false, 12 },
    { "pipedream", 1, { 3 }, { 0 }, { 0 }, { 3 }, false, 0 },
    { "macrobatch",
      3,
      { 1, 2, 1 },
      { 0 },
      { 1, 1, 1 },
      { 4, 4, 4 },
      false,
      12 },
    { "macrobatch",
      3,
      { 1, 1, 1 },
      { 0 },
      { 1, 1, 1 },
      { 3, 3, 3 },
      false,
      12 },
    /* Stages that are much deeper than the next one. */
    { "pipedream", 2, { 1, 1 }, { 4, 0 }, { 4, 0 }, { 1, 1 }, true, 10 },
    { "pipedream",
      3,
      { 1, 1, 1 },
      { 9, 9, 1 },
      { 9, 9, 1 },
      { 1, 1, 1 },
      true,
      0 },
    { "pipedream",
      3,
      { 2, 1, 2 },
      { 5, 5, 0 },
      { 5, 5, 0 },
      { 2, 1, 2 },
      true,
      12 },
    { "macrobatch", 2, { 1, 1 }, { 5, 0 }, { 1, 1 }, { 6, 6 }, true, 12 },
};

static void streams_follow_the_version_rule(void **state)
{
    int64_t n_skipped[4] = { 0 };

    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (size_t c = 0; c < VP_COUNT_OF(async_cases); c++)
            check_async(models[m], &async_cases[c], *state, 0.0f, false,
                        n_skipped);
    assert_int_equal(n_skipped[0], 0);
}

static void compressed_streams_too(void **state)
{
    int64_t n_skipped[4] = { 0 };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (size_t c = 1; c < VP_COUNT_OF(async_cases); c += 3)
            check_async(models[m], &async_cases[c], NULL, 0.0f, true,
                        n_skipped);
}

/* A stage whose gradients overflow keeps its weights, the others go on. */
static void stages_overflow_by_themselves(void **state)
{
    const struct async_case *four = &async_cases[2];
    int64_t n_skipped[4] = { 0 };

    (void)state;
    for (int e = 115; e < 118; e++)
        check_async("bert", four, NULL, ldexpf(1.0f, e), false, n_skipped);
    assert_in_range(n_skipped[0], 1, 3 * 24 - 1);
    assert_true(n_skipped[1] != n_skipped[0] || n_skipped[2] != n_skipped[0]);
    for (size_t c = 0; c < VP_COUNT_OF(async_cases); c++)
        for (int e = 115; e < 118; e++)
            check_async("bert", &async_cases[c], NULL, ldexpf(1.0f, e), false,
                        n_skipped);
}

/* ---- Stopping ----------------------------------------------------------- */

static bool stop_at_5(void *ctx, const struct vp_step_report *report)
{
    *(int64_t *)ctx = report->step;
    return report->step < 5;
}

/* Trains `n` steps or until asked to stop; the hash of the weights. */
static uint64_t train_until(const struct setup *setup, int64_t n, vp_step_fn fn,
                            int64_t *n_done)
{
    struct vp_err err = { .text = "" };
    struct run run;
    uint64_t hash;

    if (run_create(&run, setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    if (vp_trainer_run(run.trainer, n, fn, n_done, &err) != VP_OK)
        fail_msg("%s", err.text);
    hash = hash_weights(&run);
    run_free(&run);
    return hash;
}

/* A run that is asked to stop ends soon, and equals one of that length. */
static void a_run_stops_when_asked(void **state)
{
    static const char *const schedules[] = { "1f1b", "pipedream" };
    static const int partition[] = { 2, 1, 2 };
    static const int replicas[] = { 1, 3, 1 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        struct setup setup = usual;
        int64_t n_done = 0;
        uint64_t hash;

        setup.schedule = schedules[i];
        setup.n_stages = 3;
        setup.partition = partition;
        setup.replicas = i ? replicas : NULL;
        setup.tied = false;
        setup.threads = 1;
        hash = train_until(&setup, 2000, stop_at_5, &n_done);
        assert_in_range(n_done, 5, 300);
        assert_true(hash == train_until(&setup, n_done, NULL, NULL));
    }
}

/* ---- Waiting ------------------------------------------------------------ */

static atomic_int n_syncs;

static enum vp_status counting_sync(struct vp_event *event, int timeout_ms)
{
    atomic_fetch_add(&n_syncs, 1);
    return test_device()->device->event_sync(event, timeout_ms);
}

static int count_syncs(const struct setup *setup, int n_minibatches)
{
    struct vp_backend_ops backend = *test_device();
    struct vp_device_ops device = *backend.device;
    struct setup counted = *setup;

    device.event_sync = counting_sync;
    backend.device = &device;
    counted.device = &backend;
    atomic_store(&n_syncs, 0);
    train_until(&counted, n_minibatches, NULL, NULL);
    return atomic_load(&n_syncs);
}

/* Ranks wait for a minibatch's loss, for the room of a new one and for a norm;
 * for the device to be idle they wait at the end, not after every piece. */
static void a_stream_does_not_pause(void **state)
{
    static const int partition[] = { 2, 3 };
    struct setup setup = usual;
    int n[3];

    (void)state;
    setup.schedule = "pipedream";
    setup.n_stages = 2;
    setup.partition = partition;
    setup.tied = false;
    for (int i = 0; i < 3; i++)
        n[i] = count_syncs(&setup, 100 * (i + 1));
    assert_int_equal(n[1] - n[0], 100 * (1 + 1 + setup.n_stages));
    assert_int_equal(n[2] - n[1], n[1] - n[0]);
}

/* ---- Replicas in synchronous training ----------------------------------- */

/* Replicas split a group; the sum over replicas is not the sum over
 * minibatches in order, so the bits are those of the same replica counts: two
 * cuts with the same replicas agree. */
static void replicas_train(void **state)
{
    static const int replicas[] = { 2, 1, 3 };
    static const int partition[] = { 2, 1, 2 };
    struct setup setup = usual;
    struct run one, two;

    (void)state;
    setup.n_stages = 3;
    setup.partition = partition;
    setup.replicas = replicas;
    setup.accumulation = 7;
    setup.threads = 1;
    train(&one, &setup);
    setup.recompute = 0.5;
    setup.threads = 2;
    train(&two, &setup);
    assert_same(&one, &two, setup.n_steps);
}

/* With VP_TEST_PART=2/5 every fifth case from the second on, so that several
 * processes share the work; with VP_TEST_FILTER the cases of a pattern. */
static int run_part(const struct CMUnitTest *tests, size_t n)
{
    const char *text = getenv("VP_TEST_PART");
    struct CMUnitTest part[64];
    unsigned which = 1, n_parts = 1;
    size_t n_part = 0;

    if (text && sscanf(text, "%u/%u", &which, &n_parts) != 2)
        return 1;
    for (size_t i = which - 1; i < n && n_part < VP_COUNT_OF(part);
         i += n_parts)
        part[n_part++] = tests[i];
    cmocka_set_test_filter(getenv("VP_TEST_FILTER"));
    return _cmocka_run_group_tests("tests", part, n_part, NULL, NULL);
}

int main(void)
{
    bool bf16 = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same_bits),
        cmocka_unit_test(any_set_gives_the_same_bits),
        cmocka_unit_test(any_set_gives_the_bits_of_replicas),
        cmocka_unit_test(any_set_gives_the_bits_of_early_updates),
        cmocka_unit_test(stages_recompute_by_their_sets),
        cmocka_unit_test(auto_gives_the_same_bits),
        cmocka_unit_test(lists_by_hand_give_the_same_bits),
        cmocka_unit_test(early_updates_give_the_same_bits),
        cmocka_unit_test(wrong_partitions_are_refused),
        cmocka_unit_test(streams_follow_the_version_rule),
        cmocka_unit_test(compressed_streams_too),
        cmocka_unit_test(schedules_compress_alike),
        cmocka_unit_test(compressed_floats_take_half),
        cmocka_unit_test(stages_overflow_by_themselves),
        cmocka_unit_test(a_run_stops_when_asked),
        cmocka_unit_test(a_stream_does_not_pause),
        cmocka_unit_test(replicas_train),
        { "every_cut in bf16", every_cut_gives_the_same_bits, NULL, NULL,
          &bf16 },
        { "any_set in bf16", any_set_gives_the_same_bits, NULL, NULL, &bf16 },
        { "streams in bf16", streams_follow_the_version_rule, NULL, NULL,
          &bf16 },
        { "early_updates in bf16", early_updates_give_the_same_bits, NULL, NULL,
          &bf16 },
    };

    return run_part(tests, VP_COUNT_OF(tests));
}
