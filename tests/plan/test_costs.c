/* The time of a plan is computed from a profile: sums over blocks,
 * recomputation by set, messages by link and host, sums over groups and
 * replicas, and devices that several ranks share. */
#include "plan/costs.h"

#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_BLOCKS = 5 };

struct setup {
    struct vp_graph graph;
    struct vp_workload work;
    struct vp_device_profile profile;
    struct vp_profile_block blocks[N_BLOCKS];
    struct vp_cost_table table;
    struct vp_pricer *pricer;
};

/* Block b takes 1, 10 and 100 times b + 1 seconds for F, B and W; its last
 * recompute set takes 7 seconds. */
static void make_slices(struct setup *setup, int n_members, bool slices)
{
    const struct vp_model *model = vp_model_find("bert");
    struct vp_model_config config = vp_model_size_find(model, "base")->config;
    struct vp_block_key keys[N_BLOCKS];
    struct vp_err err;

    memset(setup, 0, sizeof(*setup));
    config.layers = 2;
    config.hidden = 32;
    config.ffn = 64;
    config.heads = 2;
    config.vocab = 100;
    config.tie_embeddings = false;
    config.n_members = n_members;
    config.sequence_parallel = slices;
    assert_int_equal(vp_model_build(model, &config,
                                    &(struct vp_dims){
                                        .batch = 2, .seq = 16, .n_labels = 4 },
                                    &setup->graph, &err),
                     VP_OK);
    setup->work = (struct vp_workload){ .graphs = &setup->graph,
                                        .n_graphs = 1,
                                        .optim = { .kind = VP_OPTIM_SGD } };
    vp_profile_synthetic(false, VP_DTYPE_F32, &setup->profile);
    setup->profile.blocks = setup->blocks;
    assert_int_equal(vp_profile_keys(&setup->graph, keys), VP_OK);
    for (int b = 0; b < N_BLOCKS; b++) {
        uint64_t sets[VP_PROFILE_MAX_SETS];
        int n = vp_profile_candidates(&setup->graph, b, sets);

        if (vp_profile_find(&setup->profile, keys[b]))
            continue;
        setup->blocks[setup->profile.n_blocks++] = (struct vp_profile_block){
            .key = keys[b],
            .name = "",
            .alone = { b + 1, 10 * (b + 1), 100 * (b + 1) },
            .update = 1000,
            .sets = { { sets[n - 1], 7, 7 } },
            .n_sets = 1,
        };
    }
    assert_int_equal(
        vp_cost_table_init(&setup->table, &setup->work, &setup->profile),
        VP_OK);
    assert_int_equal(vp_pricer_create(&setup->work, &setup->pricer), VP_OK);
}

static void make_group(struct setup *setup, int n_members)
{
    make_slices(setup, n_members, false);
}

static void make(struct setup *setup)
{
    make_group(setup, 1);
}

static void release(struct setup *setup)
{
    vp_pricer_free(setup->pricer);
    vp_cost_table_release(&setup->table);
    vp_graph_release(&setup->graph);
}

static void price(struct setup *setup, const struct vp_plan *plan,
                  struct vp_schedule *schedule, struct vp_stage_price *prices,
                  struct vp_plan_costs *out)
{
    struct vp_err err;

    if (vp_plan_make_schedule(plan, &setup->graph, schedule, &err) != VP_OK ||
        vp_plan_bytes(setup->pricer, plan, schedule, prices, &err) != VP_OK ||
        vp_plan_costs_make(&setup->table, plan, schedule, prices, out, &err) !=
            VP_OK)
        fail_msg("%s", err.text);
}

static const int halves[] = { 2, 3 };

/* The time of sums over a tensor-parallel group is added to the time of the
 * blocks: a sum of 32 x 32 floats takes 1 second and twice the latency. */
static void sums_over_groups(void **state)
{
    struct vp_plan plan = { .n_stages = 2,
                            .accumulation_steps = 4,
                            .partition = halves,
                            .tensor_parallel = 2 };
    uint64_t sets[N_BLOCKS] = { 0 };
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;

    (void)state;
    make_group(&setup, 2);
    setup.profile.same_host = (struct vp_profile_link){
        .bytes_per_second = 4096.0, .seconds = 0.25
    };
    price(&setup, &plan, &schedule, prices, &costs);
    /* Sums of the embedding, attention and feed-forward. */
    assert_float_equal(costs.stages[0].f, 1 + 2 + 3 * 1.5, 1e-9);
    assert_float_equal(costs.stages[0].b, 10 + 20 + 2 * 1.5, 1e-9);
    /* The output layer sums 4 rows. */
    assert_float_equal(costs.stages[1].f, 3 + 2 + 5 + 2 * 1.5, 1e-9);
    assert_float_equal(costs.stages[1].b, 30 + 20 + 50 + 2 * 1.5 + 0.625, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    /* A sum in a recompute set runs again and takes its time, although it has
     * no FLOPs. It is the last operator but two of block 1. */
    sets[1] = UINT64_C(1) << (setup.graph.blocks[1].n_ops - 3);
    assert_int_equal(setup.graph
                         .ops[setup.graph.blocks[1].first_op +
                              setup.graph.blocks[1].n_ops - 3]
                         .kind,
                     VP_OP_GROUP_SUM);
    plan.recompute_sets = sets;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_true(costs.stages[0].r >= 1.5);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

/* Ranks of hosts, cores and loads are counted by members: two groups of two are
 * four ranks. */
static void groups_are_several_ranks(void **state)
{
    static const int together[] = { 0, 0, 0, 0 };
    struct vp_plan plan = { .n_stages = 2,
                            .accumulation_steps = 4,
                            .partition = halves,
                            .tensor_parallel = 2 };
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;

    (void)state;
    make_group(&setup, 2);
    setup.profile.same_host = (struct vp_profile_link){
        .bytes_per_second = 4096.0, .seconds = 0.25
    };
    setup.profile.between_hosts = (struct vp_profile_link){
        .bytes_per_second = 2048.0, .seconds = 1.0
    };
    /* Ranks 0 to 2 are on one host, so group 1 is on both hosts. */
    setup.profile.hosts[0] = 3;
    setup.profile.hosts[1] = 1;
    setup.profile.n_hosts = 2;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[0].f, 1 + 2 + 3 * 1.5, 1e-9);
    assert_float_equal(costs.stages[1].f, 3 + 2 + 5 + 2 * 4.0, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    /* With two ranks on each of two hosts, each group is on one host. */
    setup.profile.hosts[0] = 2;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[1].f, 3 + 2 + 5 + 2 * 1.5, 1e-9);
    assert_float_equal(costs.stages[0].act,
                       (double)prices[0].act_bytes / 2048.0 + 0.75, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    /* A device with capacity for three ranks has capacity for one and a half
     * groups. */
    setup.profile.n_hosts = 0;
    setup.profile.capacity = 3.0;
    plan.devices = together;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_non_null(costs.sched.device);
    assert_float_equal(costs.sched.capacity, 1.5, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    plan.devices = NULL;
    setup.work.device.host_memory = true;
    setup.profile.loads[0] = (struct vp_profile_load){ 2, 3.0, 1.0, 1.0 };
    setup.profile.loads[1] = (struct vp_profile_load){ 4, 5.0, 1.0, 1.0 };
    setup.profile.n_loads = 2;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[0].f, 3.0 * (1 + 2 + 3 * 1.5), 1e-9);
    assert_float_equal(costs.busy[0].f, 5.0 * (1 + 2 + 3 * 1.5), 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

/* An all-gather or a reduce-scatter takes half the time of a sum: 0.5 seconds
 * for 32 x 32 floats, and the latency. Gathered rows are gathered again for W
 * unless the plan keeps them. */
static void slices_of_groups(void **state)
{
    struct vp_plan plan = { .n_stages = 2,
                            .accumulation_steps = 4,
                            .partition = halves,
                            .tensor_parallel = 2,
                            .sequence_parallel = true };
    uint64_t sets[N_BLOCKS] = { 0 };
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;

    (void)state;
    make_slices(&setup, 2, true);
    setup.profile.same_host = (struct vp_profile_link){
        .bytes_per_second = 4096.0, .seconds = 0.25
    };
    price(&setup, &plan, &schedule, prices, &costs);
    /* The embedding has one reduce-scatter; attention and feed-forward have an
     * all-gather and a reduce-scatter each. */
    assert_float_equal(costs.stages[0].f, 1 + 2 + 5 * 0.75, 1e-9);
    assert_float_equal(costs.stages[0].b, 10 + 20 + 5 * 0.75, 1e-9);
    assert_float_equal(costs.stages[0].w, 100 + 200 + 2 * 0.75, 1e-9);
    /* The update sums the gradients of two layer norms and two biases: 192
     * floats, twice around the ring. */
    assert_float_equal(costs.stages[0].update, 2000 + 0.1875 + 0.5, 1e-9);
    /* The head scatters and gathers 4 rows. */
    assert_float_equal(costs.stages[1].f, 3 + 2 + 5 + 4 * 0.75 + 0.625, 1e-9);
    assert_float_equal(costs.stages[1].b, 30 + 20 + 50 + 4 * 0.75 + 0.625,
                       1e-9);
    assert_float_equal(costs.stages[1].w, 300 + 200 + 500 + 2 * 0.75 + 0.3125,
                       1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    plan.keep_gathered = true;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[0].w, 100 + 200, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    /* A reduce-scatter alone in a set does not run again, because its input is
     * not kept. With the matrix product before it, it does; the first product
     * of the block then gathers its rows again. */
    plan.keep_gathered = false;
    plan.recompute_sets = sets;
    sets[1] = UINT64_C(1) << (setup.graph.blocks[1].n_ops - 3);
    assert_int_equal(setup.graph
                         .ops[setup.graph.blocks[1].first_op +
                              setup.graph.blocks[1].n_ops - 3]
                         .kind,
                     VP_OP_REDUCE_SCATTER);
    price(&setup, &plan, &schedule, prices, &costs);
    assert_true(costs.stages[0].r < 0.75);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    sets[1] = UINT64_C(7) << (setup.graph.blocks[1].n_ops - 5);
    price(&setup, &plan, &schedule, prices, &costs);
    assert_true(costs.stages[0].r >= 1.5 && costs.stages[0].r < 3.5);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

/* Blocks 1 and 3 are equal and share one measurement, so forward times are 1 2
 * 3 2 5. */
static void sums(void **state)
{
    uint64_t all[VP_PROFILE_MAX_SETS], sets[N_BLOCKS] = { 0 };
    struct vp_plan plan = { .n_stages = 2,
                            .accumulation_steps = 4,
                            .partition = halves };
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;

    (void)state;
    make(&setup);
    assert_int_equal(setup.table.n_estimated, 0);
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[0].f, 1 + 2, 1e-9);
    assert_float_equal(costs.stages[1].f, 3 + 2 + 5, 1e-9);
    assert_float_equal(costs.stages[1].b, 100, 1e-9);
    assert_float_equal(costs.stages[1].w, 1000, 1e-9);
    assert_float_equal(costs.stages[1].update, 3000, 1e-9);
    assert_float_equal(costs.stages[0].r, 0, 0);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    sets[1] = all[vp_profile_candidates(&setup.graph, 1, all) - 1];
    plan.recompute_sets = sets;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[0].r, 7, 1e-9);
    assert_float_equal(costs.stages[0].b, 30, 1e-9);
    assert_float_equal(costs.stages[1].r, 0, 0);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    plan.recompute_in_b = true;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[0].r, 0, 0);
    assert_float_equal(costs.stages[0].b, 37, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

/* Gradients go twice around the ring of replicas. With a sharded optimizer they
 * go once around, and the updated weights once. */
static void replicas(void **state)
{
    static const int numbers[] = { 1, 4 };
    struct vp_plan plan = { .n_stages = 2,
                            .accumulation_steps = 8,
                            .partition = halves,
                            .replicas = numbers };
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs whole, sliced;
    struct setup setup;
    double around;

    (void)state;
    make(&setup);
    price(&setup, &plan, &schedule, prices, &whole);
    around = whole.stages[1].reduce / 2;
    assert_true(around > 0.0);
    assert_float_equal(whole.stages[1].update, 3000, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&whole);
    plan.shard_optimizer = true;
    price(&setup, &plan, &schedule, prices, &sliced);
    assert_float_equal(sliced.stages[1].reduce, around, 1e-12);
    assert_int_equal(prices[1].memory.weights, prices[1].memory.gradients);
    assert_float_equal(sliced.stages[1].update, 3000.0 / 4 + around, 1e-9);
    assert_float_equal(sliced.stages[0].update, 2000, 1e-9);
    assert_float_equal(sliced.stages[0].reduce, 0, 0);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&sliced);
    release(&setup);
}

/* Copies of a device with its own memory do not add to F and B; on the host a
 * thread copies, and the time is added. */
static void swapped(void **state)
{
    static const double ratios[] = { 1.0, 0.0 };
    struct vp_plan plan = { .n_stages = 2,
                            .accumulation_steps = 8,
                            .schedule = "gpipe",
                            .partition = halves,
                            .swap_ratio = ratios };
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;
    double bytes;

    (void)state;
    make(&setup);
    setup.profile.copy_out = setup.profile.copy_out_both = 1e6;
    setup.profile.copy_in = setup.profile.copy_in_both = 2e6;
    price(&setup, &plan, &schedule, prices, &costs);
    bytes = (double)prices[0].swap_bytes;
    assert_true(bytes > 0);
    assert_float_equal(costs.stages[0].swap_out, bytes / 1e6, 1e-9);
    assert_float_equal(costs.stages[0].swap_in, bytes / 2e6, 1e-9);
    assert_float_equal(costs.stages[0].f, 3, 1e-9);
    assert_float_equal(costs.stages[1].swap_out, 0, 0);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    setup.profile.copy_out = setup.profile.copy_in = 0.0;
    setup.profile.same_host.bytes_per_second = 4e6;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[0].swap_in, bytes / 4e6, 1e-9);
    assert_float_equal(costs.stages[0].f, 3 + bytes / 4e6, 1e-9);
    assert_float_equal(costs.stages[0].b, 30 + bytes / 4e6, 1e-9);
    assert_float_equal(costs.stages[1].f, 10, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

/* With a separate W, the weight gradients of recomputed operators still run in
 * B. */
static void moved_gradients(void **state)
{
    uint64_t all[VP_PROFILE_MAX_SETS], sets[N_BLOCKS] = { 0 };
    struct vp_plan plan = { .schedule = "zb-h1",
                            .n_stages = 2,
                            .accumulation_steps = 4,
                            .partition = halves };
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;

    (void)state;
    make(&setup);
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[0].w, 300, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    sets[1] = all[vp_profile_candidates(&setup.graph, 1, all) - 1];
    plan.recompute_sets = sets;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_true(costs.stages[0].w < 290);
    assert_float_equal(costs.stages[0].w + costs.stages[0].b, 330, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

static void messages(void **state)
{
    const enum vp_edge_kind host = VP_EDGE_HOST;
    struct vp_plan plan = { .n_stages = 2,
                            .accumulation_steps = 4,
                            .partition = halves };
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;
    double bytes;

    (void)state;
    make(&setup);
    price(&setup, &plan, &schedule, prices, &costs);
    bytes = (double)prices[0].act_bytes;
    assert_true(bytes > 0);
    assert_float_equal(costs.stages[0].act, bytes / 40e9, 1e-15);
    assert_float_equal(costs.stages[0].act_copy, 0, 0);
    assert_float_equal(costs.stages[1].act, 0, 0);
    assert_float_equal(costs.stages[1].grad, prices[1].grad_bytes / 40e9,
                       1e-15);
    assert_float_equal(costs.sched.latency, 5e-6, 1e-15);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    /* Staged through host memory, to another host. */
    plan.edges = &host;
    setup.profile.hosts[0] = setup.profile.hosts[1] = 1;
    setup.profile.n_hosts = 2;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[0].act, bytes / 1.1e9 + 15e-6, 1e-12);
    assert_float_equal(costs.stages[0].act_copy, bytes / 54e9, 1e-15);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

/* Two ranks on one device take twice as long when both compute. */
static void shared_device(void **state)
{
    const int same[] = { 3, 3 };
    struct vp_plan plan = { .n_stages = 2,
                            .accumulation_steps = 64,
                            .partition = halves };
    struct vp_plan_forecast_time apart, together;
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;
    struct vp_err err;

    (void)state;
    make(&setup);
    price(&setup, &plan, &schedule, prices, &costs);
    assert_int_equal(vp_plan_forecast_seconds(&schedule, &costs, &apart, &err),
                     VP_OK);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    plan.devices = same;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_float_equal(costs.stages[0].act, 0, 0);
    assert_int_equal(
        vp_plan_forecast_seconds(&schedule, &costs, &together, &err), VP_OK);
    /* All work runs one after the other: blocks worth 13 times 111 seconds. */
    assert_true(together.step >= 64 * 13 * 111.0);
    assert_true(together.step < 1.05 * 64 * 13 * 111.0 + 3000);
    assert_true(apart.step < 0.85 * together.step);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

/* Ranks with separate cores of one host take longer while others compute. */
static void load(void **state)
{
    const int apart[] = { 0, 1 }, same[] = { 3, 3 };
    struct vp_plan plan = { .n_stages = 2,
                            .accumulation_steps = 4,
                            .devices = apart,
                            .partition = halves };
    struct vp_plan_forecast_time time;
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;
    struct vp_err err;

    (void)state;
    make(&setup);
    setup.work.device.host_memory = true;
    setup.profile.loads[0] = (struct vp_profile_load){ 3, 2.0, 3.0, 5.0 };
    setup.profile.n_loads = 1;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_ptr_equal(costs.sched.busy, costs.busy);
    assert_float_equal(costs.stages[1].f, 10, 1e-9);
    assert_float_equal(costs.busy[1].f, 15, 1e-9);
    assert_float_equal(costs.busy[1].b, 200, 1e-9);
    assert_float_equal(costs.busy[1].w, 2000, 1e-9);
    assert_float_equal(costs.busy[1].update, 9000, 1e-9);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    /* In the middle of a stream the slower rank always computes; the other one
     * waits for it part of the time. */
    plan.schedule = "pipedream";
    price(&setup, &plan, &schedule, prices, &costs);
    assert_int_equal(vp_plan_forecast_seconds(&schedule, &costs, &time, &err),
                     VP_OK);
    assert_true(time.step > 4110 && time.step < 15 + 2200 + 9000);
    assert_true(time.bubble > 0.0 && time.bubble < 0.3);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);

    plan.devices = same; /* the device's capacity covers the slowdown */
    price(&setup, &plan, &schedule, prices, &costs);
    assert_null(costs.sched.busy);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    plan.devices = NULL;
    setup.profile.hosts[0] = setup.profile.hosts[1] = 1;
    setup.profile.n_hosts = 2;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_null(costs.sched.busy);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

/* A rank begins the next step while another one still runs its update:
 *   0: F 0-1                    B 1333-1443  UPDATE 1443-2443
 *   1:      F 1-13  B 13-1333                UPDATE 1443-5443
 * The second rank waits for the global norm, and its list takes longest. */
static void groups_follow_each_other(void **state)
{
    const int uneven[] = { 1, 4 };
    struct vp_plan plan = { .n_stages = 2,
                            .accumulation_steps = 1,
                            .partition = uneven };
    struct vp_plan_forecast_time time;
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;
    struct vp_err err;

    (void)state;
    make(&setup);
    setup.work.device.host_memory = true;
    price(&setup, &plan, &schedule, prices, &costs);
    assert_int_equal(vp_plan_forecast_seconds(&schedule, &costs, &time, &err),
                     VP_OK);
    assert_float_equal(time.step, 5442, 1e-3);
    assert_float_equal(time.per_mb, 5442, 1e-3);
    assert_float_equal(time.bubble,
                       1 - (111 + 12 * 111 + 1000 + 4000) / (2.0 * 5442), 1e-6);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

/* The time of a stream is that of one minibatch in the steady state, without
 * filling and draining the pipe. */
static void streams(void **state)
{
    struct vp_plan plan = { .schedule = "pipedream",
                            .n_stages = 2,
                            .partition = halves };
    struct vp_plan_forecast_time time;
    struct vp_stage_price prices[2];
    struct vp_schedule schedule;
    struct vp_plan_costs costs;
    struct setup setup;
    struct vp_err err;

    (void)state;
    make(&setup);
    price(&setup, &plan, &schedule, prices, &costs);
    assert_int_equal(vp_plan_forecast_seconds(&schedule, &costs, &time, &err),
                     VP_OK);
    /* The second stage is the slower one: 10 x 111 seconds, and its update. */
    assert_float_equal(time.step, 1110 + 3000, 1e-3);
    assert_float_equal(time.per_mb, time.step, 0);
    assert_float_equal(time.stage_busy[0], 333 + 2000, 1e-6);
    assert_float_equal(time.bubble,
                       1 - (333 + 2000 + 1110 + 3000) / (2.0 * 4110), 1e-6);
    vp_schedule_release(&schedule);
    vp_plan_costs_release(&costs);
    release(&setup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(replicas),
        cmocka_unit_test(sums_over_groups),
        cmocka_unit_test(slices_of_groups),
        cmocka_unit_test(groups_are_several_ranks),
        cmocka_unit_test(swapped),
        cmocka_unit_test(moved_gradients),
        cmocka_unit_test(messages),
        cmocka_unit_test(shared_device),
        cmocka_unit_test(streams),
        cmocka_unit_test(load),
        cmocka_unit_test(groups_follow_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
