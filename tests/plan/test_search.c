/* The search for a plan: plans fit, a plan is found where one exists, none of
 * those that can be enumerated is more than 2 % faster, more memory is never
 * slower, the same question gives the same plan, and it is quick. */
#include "plan/planner.h"
#include "plan/trial.h"

#include "base/file.h"
#include "base/rng.h"
#include "model/model.h"
#include "plan/plan_json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    !defined(__OPTIMIZE__)
#define SLOW 1 /* sweeps are thinner: the optimised build makes them whole */
#else
#define SLOW 0
#endif

enum { MAX_RANKS = 8 };

static uint32_t rand_count;

static int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(77, VP_RNG_TEST, 4, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

static double rand_real(void)
{
    return (1 + rand_below(1 << 20)) / (double)(1 << 20);
}

/* ---- Workloads ---------------------------------------------------------- */

struct setup {
    struct vp_graph graph;
    struct vp_workload work;
    struct vp_device_profile profile;
    struct vp_profile_block blocks[16];
    struct vp_search *search;
    struct vp_pricer *pricer; /* of the enumeration */
};

static void build(struct vp_graph *graph, int64_t layers, int64_t hidden,
                  int64_t seq, int64_t batch)
{
    const struct vp_model *model = vp_model_find("bert");
    struct vp_model_config config = vp_model_size_find(model, "base")->config;
    struct vp_err err;

    config.layers = layers;
    config.hidden = hidden;
    config.ffn = hidden * (1 + rand_below(4));
    config.heads = 2;
    config.vocab = 64 + rand_below(2000);
    config.tie_embeddings = false;
    if (vp_model_build(
            model, &config,
            &(struct vp_dims){ .batch = batch, .seq = seq, .n_labels = batch },
            graph, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* Measured blocks with random seconds. */
static void random_blocks(struct setup *setup)
{
    struct vp_block_key keys[64];

    assert_int_equal(vp_profile_keys(&setup->graph, keys), VP_OK);
    setup->profile.blocks = setup->blocks;
    for (int b = 0; b < setup->graph.n_blocks; b++) {
        struct vp_profile_block block = {
            .key = keys[b],
            .name = "",
            .alone = { 0.5 + rand_real(), 0.5 + rand_real(),
                       0.3 + rand_real() },
            .update = 0.1 * rand_real(),
        };
        uint64_t sets[VP_PROFILE_MAX_SETS];

        if (vp_profile_find(&setup->profile, keys[b]))
            continue;
        block.n_sets = vp_profile_candidates(&setup->graph, b, sets);
        for (int i = 0; i < block.n_sets; i++) {
            double seconds = block.alone.f * (i + rand_real()) / block.n_sets;

            block.sets[i] = (struct vp_profile_set){ sets[i], seconds,
                                                     seconds };
        }
        setup->blocks[setup->profile.n_blocks++] = block;
    }
}

static void open_search(struct setup *setup)
{
    assert_int_equal(
        vp_search_create(&setup->work, &setup->profile, &setup->search), VP_OK);
    assert_int_equal(vp_pricer_create(&setup->work, &setup->pricer), VP_OK);
}

static void make_small(struct setup *setup)
{
    memset(setup, 0, sizeof(*setup));
    build(&setup->graph, 2, 32 * (1 + rand_below(3)), 16 + 16 * rand_below(6),
          1 + rand_below(6));
    setup->work = (struct vp_workload){ .graphs = &setup->graph,
                                        .n_graphs = 1,
                                        .optim = { .kind = VP_OPTIM_ADAM } };
    vp_profile_synthetic(true, VP_DTYPE_F32, &setup->profile);
    setup->profile.same_host.bytes_per_second = 1e6 + 1e7 * rand_real();
    random_blocks(setup);
    open_search(setup);
}

static void release(struct setup *setup)
{
    vp_search_free(setup->search);
    vp_pricer_free(setup->pricer);
    vp_graph_release(&setup->graph);
}

/* ---- Enumeration -------------------------------------------------------- */

/* Every combination of choices of a rank's blocks that is not worse than another
 * one in all costs. */
struct option {
    uint64_t sets[16];
    double cost[2 * VP_MAX_STAGES]; /* R and what moved to B, per stage */
};

enum { MAX_OPTIONS = 64 };

struct options {
    struct option at[MAX_OPTIONS];
    int n;
};

struct enumeration {
    struct setup *setup;
    struct vp_pricer *pricer;
    const struct vp_search_input *input;
    struct vp_variant variant;
    struct vp_plan plan;
    struct vp_schedule schedule;
    int partition[VP_MAX_STAGES];
    uint64_t sets[16];
    struct options ranks[MAX_RANKS];
    double best;   /* seconds per minibatch */
    int64_t least; /* bytes of the largest rank, at best */
};

static int rank_of(const struct enumeration *e, int s)
{
    return e->schedule.stages[s].first_rank;
}

/* The bytes of a rank with e->sets, and its costs. */
static int64_t price_rank(struct enumeration *e, int rank, double *cost)
{
    int64_t bytes = 0;
    int b = 0;

    for (int s = 0; s < e->schedule.n_stages; b += e->partition[s++]) {
        uint64_t room[32];
        struct vp_stage_choices choices;
        struct vp_stage_shape shape;
        struct vp_stage_sizes sizes;
        struct vp_err err;

        cost[2 * s] = cost[2 * s + 1] = 0.0;
        if (rank_of(e, s) != rank)
            continue;
        e->plan.recompute_sets = e->sets;
        choices = vp_plan_stage_choices(&e->plan, &e->setup->work, &e->schedule,
                                        s, room);
        shape = vp_plan_stage_shape(&e->plan, &e->setup->graph, &e->schedule,
                                    s);
        assert_int_equal(vp_pricer_sizes(e->pricer, &choices, &sizes, &err),
                         VP_OK);
        bytes += vp_stage_memory(&e->setup->work, &sizes, &shape, s == 0).total;
        for (int i = 0; i < e->partition[s]; i++)
            cost[2 * s] += vp_cost_recompute(vp_search_costs(e->setup->search),
                                             b + i, e->sets[b + i]);
        if (e->schedule.split)
            cost[2 * s + 1] = -sizes.flops[VP_SLOT_REST][VP_LIST_W];
    }
    return bytes;
}

static bool dominates(const double *a, const double *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i] > b[i])
            return false;
    return true;
}

static void keep_option(struct enumeration *e, struct options *to,
                        const double *cost)
{
    int n = 2 * e->schedule.n_stages, kept = 0;

    for (int i = 0; i < to->n; i++)
        if (dominates(to->at[i].cost, cost, n))
            return;
    for (int i = 0; i < to->n; i++)
        if (!dominates(cost, to->at[i].cost, n))
            to->at[kept++] = to->at[i];
    to->n = kept;
    assert_true(to->n < MAX_OPTIONS);
    memcpy(to->at[to->n].sets, e->sets, sizeof(e->sets));
    memcpy(to->at[to->n].cost, cost, (size_t)n * sizeof(*cost));
    to->n++;
}

/* Choices of block b and of all behind it that belong to the rank. */
static void choose_blocks(struct enumeration *e, int rank, const int *owner,
                          int b, int64_t *least)
{
    uint64_t sets[VP_PROFILE_MAX_SETS + 1] = { 0 };
    double cost[2 * VP_MAX_STAGES];
    int64_t bytes;
    int n;

    if (b == e->setup->graph.n_blocks) {
        bytes = price_rank(e, rank, cost);
        *least = bytes < *least ? bytes : *least;
        if (bytes <= e->input->limits[rank])
            keep_option(e, &e->ranks[rank], cost);
        return;
    }
    n = owner[b] == rank ? vp_profile_candidates(&e->setup->graph, b, sets + 1)
                         : 0;
    for (int i = 0; i <= n; i++) {
        e->sets[b] = sets[i];
        choose_blocks(e, rank, owner, b + 1, least);
    }
    e->sets[b] = 0;
}

/* Every combination of the ranks' options. */
static void simulate_all(struct enumeration *e, const int *owner, int rank)
{
    struct vp_search_result result;
    struct vp_err err;

    if (rank == e->plan.n_stages) {
        e->plan.recompute_sets = e->sets;
        if (vp_search_price(e->setup->search, &e->plan, &result, &err) != VP_OK)
            fail_msg("%s", err.text);
        if (vp_search_fits(&result, e->input->limits) &&
            result.time.per_mb < e->best)
            e->best = result.time.per_mb;
        vp_search_result_release(&result);
        return;
    }
    for (int i = 0; i < e->ranks[rank].n; i++) {
        for (int b = 0; b < e->setup->graph.n_blocks; b++)
            if (owner[b] == rank)
                e->sets[b] = e->ranks[rank].at[i].sets[b];
        simulate_all(e, owner, rank + 1);
    }
}

static void enumerate_cut(struct enumeration *e)
{
    int owner[16], b = 0;
    int64_t most = 0;

    for (int s = 0; s < e->schedule.n_stages; s++)
        for (int i = 0; i < e->partition[s]; i++)
            owner[b++] = rank_of(e, s);
    for (int r = 0; r < e->plan.n_stages; r++) {
        int64_t least = INT64_MAX;

        memset(e->sets, 0, sizeof(e->sets));
        e->ranks[r].n = 0;
        choose_blocks(e, r, owner, 0, &least);
        most = least > most ? least : most;
    }
    e->least = most < e->least ? most : e->least;
    simulate_all(e, owner, 0);
}

static void enumerate_cuts(struct enumeration *e, int s, int left)
{
    int n = e->schedule.n_stages;

    if (s == n - 1) {
        e->partition[s] = left;
        enumerate_cut(e);
        return;
    }
    for (int k = 1; k <= left - (n - 1 - s); k++) {
        e->partition[s] = k;
        enumerate_cuts(e, s + 1, left - k);
    }
}

/* The best of all plans, by brute force. */
static void enumerate(struct setup *setup, const struct vp_search_input *input,
                      struct enumeration *e)
{
    struct vp_variant variants[VP_SEARCH_MAX_VARIANTS];
    int n = vp_search_variants(setup->search, input, variants);

    *e = (struct enumeration){ .setup = setup,
                               .pricer = setup->pricer,
                               .input = input,
                               .best = INFINITY,
                               .least = INT64_MAX };
    for (int i = 0; i < n; i++) {
        struct vp_sched_config config;
        struct vp_plan_stages stages;
        struct vp_err err;

        e->variant = variants[i];
        e->plan = *input->base;
        e->plan.schedule = variants[i].generator->name;
        e->plan.n_chunks = variants[i].n_chunks;
        e->plan.schedule_memory = variants[i].memory;
        e->plan.recompute_in_b = variants[i].in_b;
        e->plan.early_recompute = !variants[i].in_b;
        config = vp_plan_sched_config(&e->plan, setup->graph.n_blocks, &stages);
        for (int s = 0; s < VP_MAX_STAGES; s++)
            stages.recompute[s] = !variants[i].in_b;
        if (vp_schedule_make(&config, &e->schedule, &err) != VP_OK)
            continue;
        e->plan.partition = e->partition;
        enumerate_cuts(e, 0, setup->graph.n_blocks);
        vp_schedule_release(&e->schedule);
    }
}

/* ---- Against enumeration ------------------------------------------------ */

static void check_fits(const struct vp_search_result *result,
                       const struct vp_search_input *input)
{
    int64_t sum[MAX_RANKS] = { 0 };

    for (int s = 0; s < result->n_stages; s++)
        sum[result->rank[s]] += result->prices[s].memory.total;
    for (int r = 0; r < input->base->n_stages; r++)
        if (sum[r] > input->limits[r])
            fail_msg("rank %d has %lld bytes of %lld", r, (long long)sum[r],
                     (long long)input->limits[r]);
    assert_true(vp_search_fits(result, input->limits));
}

/* Memory between the least and what keeping everything takes. */
static void random_limits(struct setup *setup, struct vp_search_input *input,
                          int64_t limits[MAX_RANKS])
{
    int64_t least, most = 0;
    struct vp_search_result result;
    struct vp_err err;
    double level = rand_real();

    for (int r = 0; r < MAX_RANKS; r++)
        limits[r] = INT64_MAX / 4;
    assert_int_equal(vp_search_run(setup->search, input, &result, &err), VP_OK);
    for (int r = 0; r < result.plan.n_stages; r++)
        most = result.rank_bytes[r] > most ? result.rank_bytes[r] : most;
    vp_search_result_release(&result);
    assert_int_equal(
        vp_search_least(setup->search, input, &least, &result, &err), VP_OK);
    vp_search_result_release(&result);
    for (int r = 0; r < MAX_RANKS; r++)
        limits[r] = least + (int64_t)(level * level * (double)(most - least)) +
                    rand_below((int)(1 + most / 16));
}

/* Whether the search finds a plan in `bytes` for every rank. */
static bool finds(struct setup *setup, const struct vp_search_input *input,
                  int64_t bytes)
{
    int64_t limits[MAX_RANKS];
    struct vp_search_input same = *input;
    struct vp_search_result result;
    struct vp_err err;

    for (int r = 0; r < MAX_RANKS; r++)
        limits[r] = bytes;
    same.limits = limits;
    if (vp_search_run(setup->search, &same, &result, &err) != VP_OK)
        return false;
    check_fits(&result, &same);
    vp_search_result_release(&result);
    return true;
}

/* What an instance showed. */
struct outcome {
    double ratio;  /* of the search to enumeration */
    bool at_least; /* found at the least memory of any plan */
};

static struct outcome check_instance(struct setup *setup, bool stream)
{
    const struct vp_plan base = { .n_stages = 2 + rand_below(2),
                                  .accumulation_steps = 3 + rand_below(4) };
    int64_t limits[MAX_RANKS];
    struct vp_search_input input = { .base = &base,
                                     .limits = limits,
                                     .stream = stream,
                                     .free_schedule = true,
                                     .free_partition = true,
                                     .free_recompute = true,
                                     .alike = true };
    struct vp_search_result result;
    struct enumeration e;
    struct outcome outcome;
    struct vp_err err;
    enum vp_status st;

    random_limits(setup, &input, limits);
    enumerate(setup, &input, &e);
    st = vp_search_run(setup->search, &input, &result, &err);
    if (e.best < (double)INFINITY && st != VP_OK)
        fail_msg("a plan exists: %s", err.text);
    if (st == VP_OK) {
        check_fits(&result, &input);
        outcome.ratio = result.time.per_mb / e.best;
        vp_search_result_release(&result);
    } else {
        outcome.ratio = 1.0;
    }
    outcome.at_least = finds(setup, &input, e.least);
    return outcome;
}

static void near_enumeration(void **state)
{
    enum { GRAPHS = SLOW ? 1 : 10, EACH = 20 };
    double worst = 0.0, sum = 0.0;
    int n_least = 0, n_above = 0;

    (void)state;
    rand_count = 0; /* the same instances, whatever ran before */
    for (int g = 0; g < GRAPHS; g++) {
        struct setup setup;

        make_small(&setup);
        for (int i = 0; i < EACH; i++) {
            struct outcome outcome = check_instance(&setup, i % 4 == 3);

            worst = outcome.ratio > worst ? outcome.ratio : worst;
            n_above += outcome.ratio > 1.02;
            sum += outcome.ratio;
            n_least += outcome.at_least;
        }
        release(&setup);
    }
    printf("search: %d instances, %.4f of enumeration on average, %.4f at "
           "worst, %d above 1.02; %d found at the least memory\n",
           GRAPHS * EACH, sum / (GRAPHS * EACH), worst, n_above, n_least);
    assert_true(worst <= 1.02);
    assert_int_equal(n_least, GRAPHS * EACH);
}

/* ---- A large model ------------------------------------------------------ */

/* BERT with 48 layers by the rates of an RTX 2080 Ti. */
static void make_large(struct setup *setup, struct vp_arena *arena)
{
    const struct vp_model *model = vp_model_find("bert");
    struct vp_model_config config = vp_model_size_find(model, "large")->config;
    struct vp_err err;
    size_t n_bytes;
    char *text;

    memset(setup, 0, sizeof(*setup));
    config.layers = 48;
    config.tie_embeddings = false;
    assert_int_equal(
        vp_model_build(
            model, &config,
            &(struct vp_dims){ .batch = 16, .seq = 128, .n_labels = 320 },
            &setup->graph, &err),
        VP_OK);
    assert_int_equal(vp_file_read(VP_SOURCE_DIR
                                  "/configs/profiles/rtx_2080ti.json",
                                  "JSON", &text, &n_bytes, &err),
                     VP_OK);
    assert_int_equal(vp_profile_parse(text, n_bytes, "profile", arena,
                                      &setup->profile, &err),
                     VP_OK);
    free(text);
    setup->work = (struct vp_workload){ .graphs = &setup->graph,
                                        .n_graphs = 1,
                                        .optim = { .kind = VP_OPTIM_ADAM } };
    open_search(setup);
}

static const enum vp_edge_kind host_edges[MAX_RANKS] = {
    VP_EDGE_HOST, VP_EDGE_HOST, VP_EDGE_HOST, VP_EDGE_HOST,
    VP_EDGE_HOST, VP_EDGE_HOST, VP_EDGE_HOST, VP_EDGE_HOST
};
static const struct vp_plan eight = { .n_stages = 8,
                                      .accumulation_steps = 32,
                                      .edges = host_edges };

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static char *print(const struct vp_search_result *result, int n_blocks)
{
    char *text;

    assert_int_equal(vp_plan_print(&result->plan, n_blocks, NULL, &text),
                     VP_OK);
    return text;
}

/* 97 blocks on 8 stages, all schedules: below a second, with little memory and
 * with much; the same plan each time. */
static void quick_and_the_same(void **state)
{
    static const double gigabytes[] = { 2.3, 4, 11.06 };
    struct vp_arena arena = { NULL };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(gigabytes); i++) {
        int64_t limits[MAX_RANKS];
        struct vp_search_input input = { .base = &eight,
                                         .limits = limits,
                                         .free_schedule = true,
                                         .free_partition = true,
                                         .free_recompute = true };
        char *texts[2];

        for (int r = 0; r < MAX_RANKS; r++)
            limits[r] = (int64_t)(gigabytes[i] * 1e9);
        for (int k = 0; k < 2; k++) {
            struct vp_search_result result;
            struct setup setup;
            struct vp_err err;
            double begin, seconds;

            make_large(&setup, &arena);
            assert_int_equal(setup.graph.n_blocks, 97);
            begin = cpu_seconds();
            if (vp_search_run(setup.search, &input, &result, &err) != VP_OK)
                fail_msg("%s", err.text);
            seconds = cpu_seconds() - begin;
            printf("search: 97 blocks, 8 ranks of %g GB: %s, %.1f ms per "
                   "minibatch, found in %.2f s of %d estimates\n",
                   gigabytes[i], result.plan.schedule, 1e3 * result.time.per_mb,
                   seconds, result.n_simulated);
            assert_true(SLOW || seconds < 1.0);
            check_fits(&result, &input);
            texts[k] = print(&result, 97);
            vp_search_result_release(&result);
            release(&setup);
        }
        assert_string_equal(texts[0], texts[1]);
        free(texts[0]);
        free(texts[1]);
    }
    vp_arena_release(&arena);
}

/* ---- Swap --------------------------------------------------------------- */

static bool swaps(const struct vp_search_result *result)
{
    for (int s = 0; s < result->n_stages; s++)
        if (result->prices[s].swap_bytes > 0)
            return true;
    return false;
}

/* Swap is never slower than no swap; where copies are fast it is taken. */
static void swapping(void **state)
{
    struct vp_arena arena = { NULL };
    struct setup setup;
    int n_swapping = 0;

    (void)state;
    make_large(&setup, &arena);
    vp_search_free(setup.search);
    setup.profile.copy_out = setup.profile.copy_in = 200e9;
    setup.profile.copy_out_both = setup.profile.copy_in_both = 200e9;
    assert_int_equal(
        vp_search_create(&setup.work, &setup.profile, &setup.search), VP_OK);
    for (int i = 0; i < 4; i++) {
        int64_t limits[MAX_RANKS];
        struct vp_search_input input = { .base = &eight,
                                         .limits = limits,
                                         .free_schedule = true,
                                         .free_partition = true,
                                         .free_recompute = true };
        struct vp_search_result without, with;
        struct vp_err err;

        for (int r = 0; r < MAX_RANKS; r++)
            limits[r] = INT64_C(2300000000) + i * INT64_C(700000000);
        assert_int_equal(vp_search_run(setup.search, &input, &without, &err),
                         VP_OK);
        assert_false(swaps(&without));
        input.allow_swap = true;
        assert_int_equal(vp_search_run(setup.search, &input, &with, &err),
                         VP_OK);
        check_fits(&with, &input);
        assert_true(with.time.per_mb <= without.time.per_mb);
        n_swapping += swaps(&with);
        printf("search: %.1f GB, %.1f ms per minibatch, with swap %.1f ms%s\n",
               1e-9 * (double)limits[0], 1e3 * without.time.per_mb,
               1e3 * with.time.per_mb, swaps(&with) ? "" : " (not taken)");
        vp_search_result_release(&without);
        vp_search_result_release(&with);
    }
    assert_true(n_swapping > 0);
    release(&setup);
    vp_arena_release(&arena);
}

/* ---- More memory -------------------------------------------------------- */

/* With the plans of smaller limits known, a larger limit is never slower. */
static void never_slower(struct setup *setup, const struct vp_plan *base,
                         bool stream, double step)
{
    int64_t limits[MAX_RANKS], bytes;
    const struct vp_plan *known;
    struct vp_search_input input = { .base = base,
                                     .limits = limits,
                                     .stream = stream,
                                     .free_schedule = true,
                                     .free_partition = true,
                                     .free_recompute = true,
                                     .known = &known };
    struct vp_search_result last, next;
    struct vp_err err;

    assert_int_equal(
        vp_search_least(setup->search, &input, &bytes, &last, &err), VP_OK);
    for (int i = 0; i < 12; i++) {
        for (int r = 0; r < MAX_RANKS; r++)
            limits[r] = bytes;
        known = &last.plan;
        input.n_known = 1;
        if (vp_search_run(setup->search, &input, &next, &err) != VP_OK)
            fail_msg("%s", err.text);
        check_fits(&next, &input);
        assert_true(next.time.per_mb <= last.time.per_mb);
        vp_search_result_release(&last);
        last = next;
        bytes = (int64_t)((double)bytes * step);
    }
    vp_search_result_release(&last);
}

static void monotone(void **state)
{
    struct vp_arena arena = { NULL };
    struct setup setup;

    (void)state;
    for (int i = 0; i < 6; i++) {
        const struct vp_plan base = { .n_stages = 2 + i % 2,
                                      .accumulation_steps = 4 };

        make_small(&setup);
        never_slower(&setup, &base, i % 3 == 2, 1.1);
        release(&setup);
    }
    make_large(&setup, &arena);
    never_slower(&setup, &eight, false, 1.25);
    never_slower(&setup, &eight, true, 1.25);
    release(&setup);
    vp_arena_release(&arena);
}

/* ---- Slots -------------------------------------------------------------- */

/* R takes what its slot recomputes, in every minibatch. */
static void slot_costs(void **state)
{
    static const int partition[] = { 3, 2 };
    static const uint64_t sets[] = { 1, 1, 0, 2, 0 },
                          kept[] = { 1, 0, 0, 0, 0 };
    const struct vp_plan_slot slots[] = { { kept, NULL }, { kept, NULL } };
    const struct vp_plan plan = { .schedule = "gpipe",
                                  .n_stages = 2,
                                  .accumulation_steps = 5,
                                  .partition = partition,
                                  .recompute_sets = sets,
                                  .slots = slots,
                                  .n_slots = 2 };
    struct vp_stage_price prices[2];
    struct vp_search_result result;
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct vp_timing timing;
    struct setup setup;
    struct vp_err err;
    double r[5], want[2] = { 0.0, 0.0 }, rest[2], first[2];

    (void)state;
    make_small(&setup);
    for (int b = 0; b < 5; b++)
        r[b] = vp_cost_recompute(vp_search_costs(setup.search), b, sets[b]);
    rest[0] = r[0] + r[1];
    rest[1] = r[3];
    first[0] = r[0];
    first[1] = 0.0;
    assert_int_equal(
        vp_plan_make_schedule(&plan, &setup.graph, &schedule, &err), VP_OK);
    assert_int_equal(
        vp_plan_bytes(setup.pricer, &plan, &schedule, prices, &err), VP_OK);
    assert_int_equal(vp_plan_costs_make(vp_search_costs(setup.search), &plan,
                                        &schedule, prices, &costs, &err),
                     VP_OK);
    assert_int_equal(vp_simulate(&schedule, &costs.sched, &timing, &err),
                     VP_OK);
    for (int i = 0; i < schedule.n_actions; i++) {
        const struct vp_action *a = &schedule.actions[i];
        double took = timing.spans[i].end - timing.spans[i].start;

        if (a->kind != VP_ACTION_R)
            continue;
        assert_float_equal(took, a->slot < 2 ? first[a->stage] : rest[a->stage],
                           1e-9);
        want[a->stage] += took / 5;
    }
    assert_int_equal(vp_search_price(setup.search, &plan, &result, &err),
                     VP_OK);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(schedule.stages[s].n_slots, 5);
        assert_float_equal(result.recomputed[s], want[s], 1e-9);
        assert_true(want[s] > first[s] && want[s] < rest[s]);
    }
    assert_float_equal(result.time.step, timing.makespan, 1e-9);
    assert_ptr_not_equal(result.plan.slots, slots); /* its own copies */
    assert_memory_equal(result.plan.slots[1].recompute_sets, kept,
                        sizeof(kept));
    vp_search_result_release(&result);
    vp_timing_release(&timing);
    vp_plan_costs_release(&costs);
    vp_schedule_release(&schedule);
    release(&setup);
}

/* Memory that is left lets the first slots keep more, which is faster. */
static void slots_are_filled(void **state)
{
    struct vp_arena arena = { NULL };
    struct setup setup;
    int n_slots = 0;

    (void)state;
    make_large(&setup, &arena);
    for (int i = 0; i < 3; i++) {
        int64_t limits[MAX_RANKS];
        struct vp_search_input input = { .base = &eight,
                                         .limits = limits,
                                         .stream = i == 2,
                                         .free_schedule = true,
                                         .free_partition = true,
                                         .free_recompute = true };
        struct vp_search_result result, plain;
        struct vp_plan without;
        struct vp_err err;

        for (int r = 0; r < MAX_RANKS; r++)
            limits[r] = INT64_C(2300000000) + i * INT64_C(1000000000);
        assert_int_equal(vp_search_run(setup.search, &input, &result, &err),
                         VP_OK);
        check_fits(&result, &input);
        without = result.plan;
        without.n_slots = 0;
        assert_int_equal(vp_search_price(setup.search, &without, &plain, &err),
                         VP_OK);
        n_slots += result.plan.n_slots > 0;
        assert_true(result.plan.n_slots == 0 ||
                    result.time.per_mb < plain.time.per_mb);
        printf("search: %.1f GB, %.2f ms per minibatch, first slots that keep "
               "more %.2f ms\n",
               1e-9 * (double)limits[0], 1e3 * plain.time.per_mb,
               1e3 * result.time.per_mb);
        vp_search_result_release(&plain);
        input.alike = true;
        assert_int_equal(vp_search_run(setup.search, &input, &plain, &err),
                         VP_OK);
        assert_int_equal(plain.plan.n_slots, 0);
        assert_true(result.time.per_mb <= plain.time.per_mb);
        vp_search_result_release(&plain);
        vp_search_result_release(&result);
    }
    assert_true(n_slots > 0);
    release(&setup);
    vp_arena_release(&arena);
}

/* W of recomputed operators may run late, where that is faster and fits. */
static void late_weight_gradients(void **state)
{
    int n_late = 0, n = 0;

    (void)state;
    for (int i = 0; i < (SLOW ? 8 : 60); i++) {
        static const char *const names[] = { "zb-h1", "zb-h2", "zb-v" };
        const struct vp_plan base = { .schedule = names[i % 3],
                                      .n_stages = i % 3 == 2 ? 2 : 2 + i % 2,
                                      .n_chunks = i % 3 == 2 ? 2 : 1,
                                      .accumulation_steps = 6 };
        int64_t limits[MAX_RANKS];
        struct vp_search_input input = { .base = &base,
                                         .limits = limits,
                                         .free_partition = true,
                                         .free_recompute = true };
        struct vp_search_result result, plain;
        struct vp_plan without;
        struct setup setup;
        struct vp_err err;

        make_small(&setup);
        random_limits(&setup, &input, limits);
        if (vp_search_run(setup.search, &input, &result, &err) == VP_OK) {
            check_fits(&result, &input);
            n++;
            n_late += result.plan.w_recomputed;
            without = result.plan;
            without.w_recomputed = false;
            without.n_slots = 0;
            assert_int_equal(
                vp_search_price(setup.search, &without, &plain, &err), VP_OK);
            assert_true(!result.plan.w_recomputed ||
                        result.time.per_mb < plain.time.per_mb);
            vp_search_result_release(&plain);
            vp_search_result_release(&result);
        }
        release(&setup);
    }
    printf("search: W of recomputed operators is late in %d of %d plans\n",
           n_late, n);
    assert_true(SLOW || n_late > 0);
}

/* ---- Refusals ----------------------------------------------------------- */

/* Slots that are kept and allow only cuts behind the first block: schedules whose
 * best cut is another one are refused, and passed over. */
static void refused_candidates(void **state)
{
    static const uint64_t one[] = { 1, 0, 0, 0, 0 }, two[] = { 1, 1, 0, 0, 0 };
    static const uint64_t none[] = { 0, 0, 0, 0, 0 };
    static const int partition[] = { 2, 3 };
    const struct vp_plan_slot slots[] = { { two, NULL }, { one, NULL } };
    struct vp_plan base = { .n_stages = 2,
                            .accumulation_steps = 6,
                            .recompute_sets = none,
                            .slots = slots,
                            .n_slots = 2 };
    const struct vp_search_input input = { .base = &base,
                                           .free_schedule = true,
                                           .free_partition = true };
    struct vp_search_result result;
    struct setup setup;
    struct vp_err err;
    int n_refused = 0;
    int64_t least;

    (void)state;
    make_small(&setup);
    vp_search_free(setup.search);
    for (int i = 0; i < setup.profile.n_blocks; i++) {
        double seconds = i == 0 ? 2.0 : 1.0; /* the embedding */

        setup.blocks[i].alone = (struct vp_block_seconds){ seconds, seconds,
                                                           seconds };
    }
    assert_int_equal(
        vp_search_create(&setup.work, &setup.profile, &setup.search), VP_OK);
    if (vp_search_run(setup.search, &input, &result, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(result.plan.partition[0], 1);
    for (int i = 0; i < result.n_refused; i++)
        if (result.refused[i].kind == VP_SEARCH_REFUSED &&
            strstr(result.refused[i].text, "slots: entr"))
            n_refused++;
    assert_true(n_refused > 0);
    vp_search_result_release(&result);
    if (vp_search_least(setup.search, &input, &least, &result, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(result.plan.partition[0], 1);
    vp_search_result_release(&result);
    /* Alone it is an error. */
    base.schedule = "1f1b";
    base.partition = partition;
    assert_int_equal(vp_search_price(setup.search, &base, &result, &err),
                     VP_ERR_INVALID);
    release(&setup);
}

/* ---- What is not free --------------------------------------------------- */

static void fixed_parts(void **state)
{
    static const int partition[] = { 3, 2 };
    static const uint64_t sets[] = { 1, 0, 0, 2, 0 };
    const struct vp_plan base = { .schedule = "zb-h1",
                                  .n_stages = 2,
                                  .n_chunks = 1,
                                  .accumulation_steps = 4,
                                  .partition = partition,
                                  .recompute_sets = sets };
    struct vp_search_input input = { .base = &base, .free_schedule = true };
    struct vp_search_result result;
    struct setup setup;
    struct vp_err err;

    (void)state;
    make_small(&setup);
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err), VP_OK);
    assert_memory_equal(result.plan.partition, partition, sizeof(partition));
    assert_memory_equal(result.plan.recompute_sets, sets, sizeof(sets));
    vp_search_result_release(&result);

    input.free_schedule = false;
    input.free_recompute = true;
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err), VP_OK);
    assert_string_equal(result.plan.schedule, "zb-h1");
    assert_memory_equal(result.plan.partition, partition, sizeof(partition));
    assert_null(result.plan.recompute_sets);
    vp_search_result_release(&result);

    input.free_recompute = false;
    input.free_partition = true;
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err), VP_OK);
    assert_string_equal(result.plan.schedule, "zb-h1");
    assert_memory_equal(result.plan.recompute_sets, sets, sizeof(sets));
    vp_search_result_release(&result);
    release(&setup);
}

/* Swapping that is kept: lists with an entry per stage allow no other number of
 * stages, and sets are read by the partition alone. The arrays are on the heap,
 * where AddressSanitizer sees reads beyond them. */
static void fixed_swapping(void **state)
{
    static const double ratios[] = { 0.5, 0.0 };
    static const uint64_t sets[] = { 1, 1, 0, 1, 0 };
    double *ratio = malloc(sizeof(ratios));
    uint64_t *swap = malloc(sizeof(sets));
    struct vp_plan base = { .schedule = "1f1b",
                            .n_stages = 2,
                            .n_chunks = 1,
                            .accumulation_steps = 8,
                            .swap_ratio = ratio };
    const struct vp_search_input input = { .base = &base,
                                           .free_schedule = true,
                                           .free_partition = true };
    struct vp_variant variants[VP_SEARCH_MAX_VARIANTS];
    struct vp_search_result result;
    struct setup setup;
    struct vp_err err;

    (void)state;
    assert_true(ratio && swap);
    memcpy(ratio, ratios, sizeof(ratios));
    memcpy(swap, sets, sizeof(sets));
    make_small(&setup);
    for (int i = vp_search_variants(setup.search, &input, variants); i > 0; i--)
        assert_int_equal(variants[i - 1].n_chunks, 1);
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err), VP_OK);
    assert_memory_equal(result.plan.swap_ratio, ratios, sizeof(ratios));
    vp_search_result_release(&result);

    base.swap_ratio = NULL;
    base.swap_sets = swap;
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err), VP_OK);
    assert_memory_equal(result.plan.swap_sets, sets, sizeof(sets));
    vp_search_result_release(&result);
    release(&setup);
    free(ratio);
    free(swap);
}

/* A rank with little memory gets what fits there. */
static void different_memory(void **state)
{
    const struct vp_plan base = { .n_stages = 2, .accumulation_steps = 6 };
    int64_t limits[MAX_RANKS], least;
    struct vp_search_input input = { .base = &base,
                                     .limits = limits,
                                     .free_schedule = true,
                                     .free_partition = true,
                                     .free_recompute = true };
    struct vp_search_result result;
    struct setup setup;
    struct vp_err err;

    (void)state;
    make_small(&setup);
    assert_int_equal(
        vp_search_least(setup.search, &input, &least, &result, &err), VP_OK);
    vp_search_result_release(&result);
    for (int small = 0; small < 2; small++) {
        limits[small] = least;
        limits[1 - small] = 4 * least;
        assert_int_equal(vp_search_run(setup.search, &input, &result, &err),
                         VP_OK);
        check_fits(&result, &input);
        vp_search_result_release(&result);
    }
    limits[0] = limits[1] = least / 2;
    assert_int_equal(vp_search_run(setup.search, &input, &result, &err),
                     VP_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no plan fits"));
    release(&setup);
}

/* Where replicas own slices of the optimizer's state, plans are found in less
 * memory: by what a rank does not keep of it. */
static void slices_need_less(void **state)
{
    static const int replicas[] = { 2, 2, 2, 2 };
    struct vp_plan base = { .schedule = "1f1b",
                            .n_stages = 4,
                            .accumulation_steps = 8,
                            .replicas = replicas };
    struct vp_search_input input = { .base = &base,
                                     .free_partition = true,
                                     .free_recompute = true,
                                     .alike = true };
    struct vp_arena arena = { NULL };
    struct vp_search_result result;
    int64_t least[2], moments = 0;
    struct setup setup;
    struct vp_err err;

    (void)state;
    make_large(&setup, &arena);
    for (int k = 0; k < 2; k++) {
        base.shard_optimizer = k;
        assert_int_equal(
            vp_search_least(setup.search, &input, &least[k], &result, &err),
            VP_OK);
        assert_int_equal(result.plan.shard_optimizer, k);
        for (int s = 0; s < result.n_stages && k == 0; s++)
            if (result.prices[s].memory.total > least[0] * 255 / 256)
                moments = result.prices[s].memory.moments;
        vp_search_result_release(&result);
    }
    assert_true(moments > 0);
    assert_true(least[0] - least[1] > moments / 2 * 9 / 10);
    release(&setup);
    vp_arena_release(&arena);
}

/* ---- Planners of others ------------------------------------------------- */

static double slowest(const struct setup *setup, const int *partition, int n)
{
    double most = 0.0;
    int b = 0;

    for (int s = 0; s < n; s++) {
        double sum = 0.0;

        for (int i = 0; i < partition[s]; i++, b++) {
            const struct vp_block_seconds *block =
                &vp_search_costs(setup->search)->blocks[b].alone;

            sum += block->f + block->b + block->w;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* The slowest stage of PipeDream's plan is as fast as that of any cut. */
static void pipedream_cuts(void **state)
{
    const struct vp_plan base = { .n_stages = 3, .accumulation_steps = 4 };
    const struct vp_search_input input = { .base = &base, .stream = true };
    struct setup setup;

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct vp_search_result result;
        double best = INFINITY;
        struct vp_err err;

        make_small(&setup);
        assert_int_equal(vp_planner_find("pipedream")
                             ->make(setup.search, &input, &result, &err),
                         VP_OK);
        for (int a = 1; a <= 3; a++)
            for (int b = 1; a + b <= 4; b++) {
                const int cut[] = { a, b, 5 - a - b };
                double most = slowest(&setup, cut, 3);

                best = most < best ? most : best;
            }
        assert_float_equal(slowest(&setup, result.plan.partition, 3), best,
                           1e-9);
        assert_string_equal(result.plan.schedule, "pipedream");
        assert_null(result.plan.recompute_ratio);
        vp_search_result_release(&result);
        release(&setup);
    }
}

static void baselines(void **state)
{
    const struct vp_plan base = { .n_stages = 2, .accumulation_steps = 4 };
    const struct vp_search_input input = { .base = &base,
                                           .free_schedule = true,
                                           .free_partition = true,
                                           .free_recompute = true };
    struct vp_search_result result;
    struct setup setup;
    struct vp_err err;
    double best = 0.0;

    (void)state;
    make_small(&setup);
    for (int i = 0; vp_planner_at(i); i++) {
        const struct vp_planner *planner = vp_planner_at(i);

        if (strcmp(planner->name, "given") == 0)
            continue;
        assert_int_equal(planner->make(setup.search, &input, &result, &err),
                         VP_OK);
        if (i == 0)
            best = result.time.per_mb;
        assert_true(best <= result.time.per_mb);
        if (strcmp(planner->name, "gpipe") == 0) {
            assert_string_equal(result.plan.schedule, "gpipe");
            assert_true(result.plan.recompute_ratio[1] == 1.0);
            assert_int_equal(result.n_slots[0], 4);
        }
        if (strcmp(planner->name, "even") == 0)
            assert_in_range(result.plan.partition[0], 2, 3);
        vp_search_result_release(&result);
    }
    assert_null(vp_planner_find("nothing"));
    release(&setup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slot_costs),
        cmocka_unit_test(slots_are_filled),
        cmocka_unit_test(late_weight_gradients),
        cmocka_unit_test(refused_candidates),
        cmocka_unit_test(fixed_parts),
        cmocka_unit_test(fixed_swapping),
        cmocka_unit_test(different_memory),
        cmocka_unit_test(slices_need_less),
        cmocka_unit_test(pipedream_cuts),
        cmocka_unit_test(baselines),
        cmocka_unit_test(quick_and_the_same),
        cmocka_unit_test(swapping),
        cmocka_unit_test(monotone),
        cmocka_unit_test(near_enumeration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
