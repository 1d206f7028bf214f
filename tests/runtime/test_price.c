/* A trainer allocates exactly the priced bytes of its plan. A pricer that
 * remembers stages gives the same prices as a new one, and is fast. */
#include "lib/halfdevice.h"

#include "base/clock.h"
#include "base/rng.h"
#include "runtime/fit.h"

#include <stdlib.h>

static uint32_t rand_count;

static int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(7, VP_RNG_TEST, 2, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

static void random_partition(int *partition, int n_stages, int n_blocks)
{
    for (int s = 0; s < n_stages; s++) {
        int left = n_stages - s, most = 2 * n_blocks / left;

        if (most > n_blocks - (left - 1))
            most = n_blocks - (left - 1);
        partition[s] = left == 1 ? n_blocks : 1 + rand_below(most);
        n_blocks -= partition[s];
    }
}

/* ---- Priced and allocated bytes ----------------------------------------- */

static int64_t sum_over_ranks(const struct vp_priced_plan *priced)
{
    int64_t sum = 0;

    for (int s = 0; s < priced->schedule.n_stages; s++)
        sum += priced->stages[s].memory.total *
               priced->schedule.stages[s].n_replicas;
    return sum;
}

/* Prices a plan without a device: a call of a NULL function would end the
 * test. */
static void price(const struct vp_train_config *config,
                  struct vp_priced_plan *out)
{
    struct vp_backend_ops none = *config->backend;
    struct vp_train_config dry = *config;
    struct vp_err err = { .text = "" };

    none.open = NULL;
    none.close = NULL;
    none.compile = NULL;
    dry.backend = &none;
    dry.backend_config.plan_only = true;
    if (vp_priced_plan_make(&dry, out, &err) != VP_OK)
        fail_msg("%s", err.text);
}

static void check_setup(const struct setup *setup)
{
    struct vp_priced_plan priced;
    struct vp_err err = { .text = "" };
    struct run run;

    if (run_create(&run, setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    price(&run.config, &priced);
    assert_int_equal(sum_over_ranks(&priced), atomic_load(&n_device_bytes));
    for (int s = 0; s < priced.schedule.n_stages; s++)
        assert_memory_equal(&priced.stages[s],
                            &vp_trainer_prices(run.trainer)[s],
                            sizeof(priced.stages[s]));
    vp_priced_plan_release(&priced);
    run_free(&run);
}

enum { MAX_BLOCKS = 64 };

/* Chooses random operators of each block. */
static const uint64_t *random_sets(const struct setup *setup,
                                   uint64_t sets[MAX_BLOCKS])
{
    struct vp_model_config sizes = small_sizes(setup);
    struct vp_dims dims = { .batch = 2, .seq = 8, .tgt_seq = 8, .n_labels = 4 };
    const struct vp_model *model = vp_model_find(setup->model);
    struct vp_graph graph = { 0 };
    struct vp_err err = { .text = "" };

    if (model->task != VP_TASK_TRANSLATION)
        dims.tgt_seq = 0;
    if (model->task != VP_TASK_MASKED_LM)
        dims.n_labels = 0;
    if (vp_model_build(model, &sizes, &dims, &graph, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_true(graph.n_blocks <= MAX_BLOCKS);
    for (int b = 0; b < graph.n_blocks; b++) {
        uint64_t all = (UINT64_C(1) << graph.blocks[b].n_ops) - 1;

        sets[b] = (uint64_t)rand_below(1 << 16) & all;
    }
    vp_graph_release(&graph);
    return sets;
}

struct plan_case {
    const char *schedule;
    int n_stages, n_chunks;
    bool replicas;
};

static void bytes_are_those_allocated(void **state)
{
    static const struct plan_case cases[] = {
        { "1f1b", 1, 0, false },        { "1f1b", 3, 0, false },
        { "1f1b", 2, 0, true },         { "gpipe", 4, 0, false },
        { "interleaved", 2, 2, false }, { "zb-h1", 3, 0, false },
        { "zb-h2", 3, 0, false },       { "zb-v", 2, 2, false },
        { "v-half", 3, 2, false },      { "v-min", 2, 2, false },
        { "v-auto", 3, 2, false },      { "dualpipe-v", 2, 2, false },
        { "pipedream", 4, 0, false },   { "pipedream", 2, 0, true },
        { "macrobatch", 3, 0, false },
    };
    static const enum vp_optim_kind kinds[] = { VP_OPTIM_SGD, VP_OPTIM_ADAMW,
                                                VP_OPTIM_LAMB };
    static const double ratios[] = { 0.0, 0.4, 1.0 };

    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
            const struct plan_case *c = &cases[i];
            struct setup setup = usual;
            struct vp_model_config sizes;
            int partition[VP_MAX_STAGES], replicas[VP_MAX_STAGES];
            double stage_ratios[VP_MAX_STAGES], swap_ratios[VP_MAX_STAGES];
            uint64_t sets[MAX_BLOCKS], swap_sets[MAX_BLOCKS];
            uint64_t first_sets[MAX_BLOCKS];
            struct vp_plan_slot slots[2];
            int n = c->n_stages * (c->n_chunks ? c->n_chunks : 1);

            setup.model = models[m];
            setup.layers = 4;
            setup.accumulation = 5;
            setup.tied = !vp_generator_find(c->schedule)->stream;
            setup.dtype = *(const enum vp_dtype *)*state;
            if (setup.dtype == VP_DTYPE_F16)
                setup.device = half_device();
            setup.optim = kinds[rand_below(3)];
            setup.eval = rand_below(2);
            setup.threads = 1 + rand_below(2);
            setup.compress = rand_below(2);
            setup.shard = rand_below(2) && can_shard();
            setup.schedule = c->schedule;
            setup.n_stages = c->n_stages;
            setup.n_chunks = c->n_chunks;
            sizes = small_sizes(&setup);
            random_partition(partition, n,
                             (int)vp_model_find(setup.model)->n_blocks(&sizes));
            for (int s = 0; s < n; s++) {
                stage_ratios[s] = ratios[rand_below(3)];
                swap_ratios[s] = ratios[rand_below(3)];
                replicas[s] = 1 + (s + 1) % 2;
            }
            setup.partition = partition;
            setup.ratios = stage_ratios;
            setup.replicas = c->replicas ? replicas : NULL;
            if (rand_below(2))
                setup.sets = random_sets(&setup, sets);
            setup.in_backward = rand_below(2);
            setup.w_recomputed = rand_below(2);
            setup.swap_ratios = swap_ratios;
            if (rand_below(2))
                setup.swap_sets = random_sets(&setup, swap_sets);
            slots[0] = slots[1] = (struct vp_plan_slot){
                random_sets(&setup, first_sets), NULL
            };
            setup.slots = slots;
            setup.n_slots = rand_below(3);
            check_setup(&setup);
        }
}

/* ---- Remembered stages -------------------------------------------------- */

enum { N_STAGES = 8, N_MB = 32 };

struct deep {
    struct vp_graph graph;
    struct vp_workload work;
    struct vp_backend_config backend;
    int partition[N_STAGES];
    double ratios[N_STAGES], swap_ratios[N_STAGES];
    struct vp_plan plan;
    struct vp_schedule schedule;
    struct vp_pricer *pricer;
};

/* With several members, the model uses slices of rows. */
static void open_deep(struct deep *deep, const char *model_name, int n_layers,
                      int n_members)
{
    const struct vp_model *model = vp_model_find(model_name);
    struct vp_model_config sizes = model->sizes[0].config;
    struct vp_dims dims = { .batch = 8, .seq = 128 };
    struct vp_err err = { .text = "" };

    *deep = (struct deep){ .backend = { .n_threads = 1 } };
    sizes.layers = sizes.decoder_layers = n_layers;
    sizes.tie_embeddings = true;
    sizes.n_members = n_members;
    sizes.sequence_parallel = n_members > 1;
    if (model->task == VP_TASK_MASKED_LM)
        dims.n_labels = 20;
    if (model->task == VP_TASK_TRANSLATION)
        dims.tgt_seq = 128;
    if (vp_model_build(model, &sizes, &dims, &deep->graph, &err) != VP_OK)
        fail_msg("%s", err.text);
    deep->work = (struct vp_workload){
        .graphs = &deep->graph,
        .n_graphs = 1,
        .has_eval = true,
        .optim = vp_optim_defaults(VP_OPTIM_ADAMW),
        .device = { .host_memory = true,
                    .scratch = vp_backend_cpu.scratch_bytes,
                    .scratch_ctx = &deep->backend },
    };
    deep->plan = (struct vp_plan){ .n_stages = N_STAGES,
                                   .accumulation_steps = N_MB,
                                   .partition = deep->partition,
                                   .recompute_ratio = deep->ratios,
                                   .swap_ratio = deep->swap_ratios,
                                   .tensor_parallel = n_members,
                                   .sequence_parallel = n_members > 1 };
    random_partition(deep->partition, N_STAGES, deep->graph.n_blocks);
    assert_int_equal(
        vp_plan_make_schedule(&deep->plan, &deep->graph, &deep->schedule, &err),
        VP_OK);
    assert_int_equal(vp_pricer_create(&deep->work, &deep->pricer), VP_OK);
}

static void close_deep(struct deep *deep)
{
    vp_pricer_free(deep->pricer);
    vp_schedule_release(&deep->schedule);
    vp_graph_release(&deep->graph);
}

static void price_deep(const struct deep *deep, struct vp_pricer *pricer,
                       struct vp_stage_price out[N_STAGES])
{
    struct vp_err err = { .text = "" };

    if (vp_plan_bytes(pricer, &deep->plan, &deep->schedule, out, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* A pricer that has seen many plans gives the same prices as a new one. */
static void remembered_stages_cost_the_same(void **state)
{
    enum { N_PLANS = 60 };

    (void)state;
    for (size_t m = 0; m <= VP_COUNT_OF(models); m++) {
        bool slices = m == VP_COUNT_OF(models);
        struct deep deep;
        int n_priced = 0;

        open_deep(&deep, slices ? "gpt2" : models[m], 12, slices ? 2 : 1);
        for (int k = 0; k < N_PLANS; k++) {
            struct vp_stage_price got[N_STAGES], want[N_STAGES];
            struct vp_pricer *fresh;

            random_partition(deep.partition, N_STAGES, deep.graph.n_blocks);
            for (int s = 0; s < N_STAGES; s++)
                deep.ratios[s] = rand_below(2);
            for (int s = 0; s < N_STAGES; s++)
                deep.swap_ratios[s] = rand_below(2);
            deep.plan.recompute_in_b = rand_below(2);
            deep.plan.keep_gathered = slices && rand_below(2);
            price_deep(&deep, deep.pricer, got);
            assert_int_equal(vp_pricer_create(&deep.work, &fresh), VP_OK);
            price_deep(&deep, fresh, want);
            vp_pricer_free(fresh);
            assert_memory_equal(got, want, sizeof(want));
            n_priced += N_STAGES;
        }
        /* Without remembered stages the comparison would prove nothing. */
        assert_true(vp_pricer_n_lowered(deep.pricer) < 3 * n_priced / 4);
        close_deep(&deep);
    }
}

/* One pricer serves plans with and without shards of the optimizer's state. */
static void slices_are_remembered_apart(void **state)
{
    int replicas[N_STAGES];
    struct deep deep;

    (void)state;
    open_deep(&deep, "gpt2", 12, 1);
    deep.plan.replicas = replicas;
    for (int k = 0; k < 6; k++) {
        struct vp_stage_price got[N_STAGES], want[N_STAGES];
        struct vp_err err = { .text = "" };
        struct vp_pricer *fresh;
        int64_t all;

        for (int s = 0; s < N_STAGES; s++)
            replicas[s] = 1 + k / 2;
        deep.plan.shard_optimizer = k % 2;
        vp_schedule_release(&deep.schedule);
        if (vp_plan_make_schedule(&deep.plan, &deep.graph, &deep.schedule,
                                  &err) != VP_OK)
            fail_msg("%s", err.text);
        price_deep(&deep, deep.pricer, got);
        assert_int_equal(vp_pricer_create(&deep.work, &fresh), VP_OK);
        price_deep(&deep, fresh, want);
        vp_pricer_free(fresh);
        assert_memory_equal(got, want, sizeof(want));
        all = 2 * got[0].memory.weights; /* two moments */
        assert_true(got[0].memory.moments >= all / (k % 2 ? 1 + k / 2 : 1));
        assert_true(got[0].memory.moments <=
                    all / (k % 2 ? 1 + k / 2 : 1) + 8 * 16384 + 1024);
        assert_int_equal(got[0].snapshot, got[0].memory.weights + all);
    }
    close_deep(&deep);
}

/* ---- Speed --------------------------------------------------------------- */

static void costs_of(const struct vp_stage_price prices[N_STAGES],
                     struct vp_stage_costs out[N_STAGES])
{
    for (int s = 0; s < N_STAGES; s++)
        out[s] = (struct vp_stage_costs){
            .f = prices[s].flops[VP_LIST_F],
            .b = prices[s].flops[VP_LIST_B] + prices[s].flops[VP_LIST_W],
            .r = prices[s].flops[VP_LIST_R],
            .act = (double)prices[s].act_bytes,
            .grad = (double)prices[s].grad_bytes,
        };
}

static void evaluate(const struct deep *deep, struct vp_plan_time *time_out)
{
    struct vp_stage_price prices[N_STAGES];
    struct vp_stage_costs costs[N_STAGES];
    struct vp_err err = { .text = "" };

    price_deep(deep, deep->pricer, prices);
    costs_of(prices, costs);
    if (vp_plan_seconds(&deep->schedule,
                        &(struct vp_sched_costs){ .stages = costs }, time_out,
                        &err) != VP_OK)
        fail_msg("%s", err.text);
}

static void move_a_block(struct deep *deep)
{
    int s = rand_below(N_STAGES - 1), by = rand_below(2) ? 1 : -1;

    if (deep->partition[s] - by >= 8 && deep->partition[s + 1] + by >= 8) {
        deep->partition[s] -= by;
        deep->partition[s + 1] += by;
    }
}

static double evaluation_ms(const struct deep *deep)
{
    struct vp_plan_time time;
    int64_t begin = vp_clock_ns();

    evaluate(deep, &time);
    return (double)(vp_clock_ns() - begin) * 1e-6;
}

static int by_time(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The limits hold for the fastest tenth of the evaluations, because a loaded
 * machine disturbs some of them. Sanitizers are too slow for limits. */
static void pricing_is_quick(void **state)
{
    enum { N_MOVES = 400, N_FIRST = 10 };
    struct deep deep;
    double first[N_FIRST], moves[N_MOVES];
    int n_quick = 0;

    (void)state;
    open_deep(&deep, "bert", 48, 1);
    for (int s = 0; s < N_STAGES; s++)
        deep.partition[s] = deep.graph.n_blocks / N_STAGES +
                            (s < deep.graph.n_blocks % N_STAGES);
    for (int k = 0; k < N_FIRST; k++) {
        vp_pricer_free(deep.pricer);
        assert_int_equal(vp_pricer_create(&deep.work, &deep.pricer), VP_OK);
        first[k] = evaluation_ms(&deep);
    }
    for (int k = 0; k < N_MOVES; k++) {
        move_a_block(&deep);
        moves[k] = evaluation_ms(&deep);
        n_quick += moves[k] < 0.1;
    }
    qsort(first, N_FIRST, sizeof(*first), by_time);
    qsort(moves, N_MOVES, sizeof(*moves), by_time);
    print_message("%d blocks on %d stages: the first evaluation takes %.2f ms "
                  "(median %.2f); after a move of one block %.3f ms (median "
                  "%.3f), %d of %d below 0.1; %d stages lowered\n",
                  deep.graph.n_blocks, N_STAGES, first[0], first[N_FIRST / 2],
                  moves[0], moves[N_MOVES / 2], n_quick, N_MOVES,
                  vp_pricer_n_lowered(deep.pricer));
#ifndef __SANITIZE_ADDRESS__
    assert_true(first[0] < 5.0);
    assert_true(moves[N_MOVES / 10] < 0.1);
#endif
    close_deep(&deep);
}

int main(void)
{
    static enum vp_dtype f32 = VP_DTYPE_F32, bf16 = VP_DTYPE_BF16;
    static enum vp_dtype f16 = VP_DTYPE_F16;
    const struct CMUnitTest tests[] = {
        { "bytes_are_those_allocated", bytes_are_those_allocated, NULL, NULL,
          &f32 },
        { "bytes_are_those_allocated, bf16", bytes_are_those_allocated, NULL,
          NULL, &bf16 },
        { "bytes_are_those_allocated, fp16", bytes_are_those_allocated, NULL,
          NULL, &f16 },
        cmocka_unit_test(remembered_stages_cost_the_same),
        cmocka_unit_test(slices_are_remembered_apart),
        cmocka_unit_test(pricing_is_quick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
