/* Replicas that own shards of the optimizer's state have, bit for bit, the same
 * losses, norms, weights, moments and saved state as replicas that have all of
 * it. */
#include "lib/vault.h"

#include "plan/price.h"
#include "plan/shard.h"
#include "runtime/fit.h"
#include "runtime/stage/shard_table.h"
#include "runtime/trainer/migrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_STEPS = 5, MAX_SHARDS = 9 };

static void set_bf16(struct setup *setup, bool bf16)
{
    if (bf16)
        setup->dtype = VP_DTYPE_BF16;
}

/* ---- The same bits as without shards ------------------------------------ */

static void check(struct setup setup, int64_t every)
{
    struct vault *whole = vault_new(), *sharded = vault_new();
    struct run want;

    train_shards(setup, every, &want, whole, sharded);
    vault_free(whole);
    vault_free(sharded);
}

struct shape {
    int n_stages;
    int partition[3], replicas[3];
};

static const struct shape shapes[] = {
    { 1, { 6 }, { 2 } },
    { 1, { 6 }, { 3 } },
    { 3, { 2, 2, 2 }, { 1, 2, 1 } },
    { 3, { 1, 3, 2 }, { 2, 1, 3 } },
};

static const enum vp_optim_kind kinds[] = { VP_OPTIM_SGD, VP_OPTIM_ADAM,
                                            VP_OPTIM_ADAMW, VP_OPTIM_LAMB };

static void groups_have_the_same_bits(void **state)
{
    static const char *const schedules[] = { "1f1b", "gpipe", "zb-h1" };
    static const double ratios[] = { 0.0, 1.0, 0.5 };
    static const int n_minibatches[] = { 4, 5, 1 };
    int n = 0;

    for (size_t h = 0; h < VP_COUNT_OF(shapes); h++)
        for (size_t k = 0; k < VP_COUNT_OF(kinds); k++, n++) {
            struct setup setup = usual;

            set_bf16(&setup, *state != NULL);
            setup.model = "gpt2";
            setup.optim = kinds[k];
            setup.vocab = n % 2 ? 2000 : 0;
            setup.schedule = schedules[n % 3];
            setup.n_stages = shapes[h].n_stages;
            setup.partition = shapes[h].partition;
            setup.replicas = shapes[h].replicas;
            setup.accumulation = n_minibatches[(n + (int)h) % 3];
            setup.tied = (n + (int)h) % 2;
            setup.recompute = ratios[n % 3];
            setup.bundle_bytes = n % 4 == 0 ? 4096 : n % 4 == 1 ? 1 : 0;
            setup.threads = 1 + n % 2;
            setup.grad_clip = n % 3 ? 0.5f : 0.0f;
            setup.clip_per_stage = n % 5 == 1 && !setup.tied;
            setup.n_steps = N_STEPS;
            check(setup, 2);
        }
}

/* Asynchronous schedules: the updated weights are gathered into the next
 * version. */
static void streams_have_the_same_bits(void **state)
{
    static const struct {
        const char *schedule;
        int replicas[3], depth[3];
        int n_steps;
    } cases[] = {
        { "pipedream", { 2, 1, 2 }, { 2, 3, 0 }, 20 },
        { "pipedream", { 1, 2, 3 }, { 3, 1, 0 }, 24 },
        { "macrobatch", { 2, 2, 2 }, { 2, 1, 0 }, 24 },
        { "pipedream", { 3, 2, 1 }, { 1, 1, 0 }, 24 },
    };
    static const int partition[] = { 2, 2, 2 };

    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct setup setup = usual;

        set_bf16(&setup, *state != NULL);
        setup.model = "gpt2";
        setup.schedule = cases[i].schedule;
        setup.n_stages = 3;
        setup.partition = partition;
        setup.replicas = cases[i].replicas;
        setup.depth = cases[i].depth;
        setup.vocab = i % 2 ? 2000 : 0;
        setup.optim = kinds[3 - i];
        setup.recompute = i % 2 ? 0.5 : 0.0;
        setup.grad_clip = i < 2 ? 0.5f : 0.0f;
        setup.tied = false;
        setup.threads = 1;
        setup.n_steps = cases[i].n_steps;
        check(setup, 6);
    }
}

/* Ranks with several stages, and evaluations between steps. */
static void chunks_and_evaluations_have_the_same_bits(void **state)
{
    static const int partition[] = { 2, 1, 2, 1 }, replicas[] = { 2, 2 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct setup setup = usual;
        struct run want, got;

        setup.model = "gpt2";
        setup.schedule = i ? "v-half" : "interleaved";
        setup.n_stages = 2;
        setup.n_chunks = 2;
        setup.partition = partition;
        setup.replicas = replicas;
        setup.optim = i ? VP_OPTIM_LAMB : VP_OPTIM_ADAMW;
        setup.grad_clip = 0.5f;
        setup.eval = true;
        setup.n_steps = N_STEPS;
        train(&want, &setup);
        setup.shard = true;
        train(&got, &setup);
        assert_same(&want, &got, setup.n_steps);
    }
}

/* The loss scale overflows at first: some updates are skipped, later ones are
 * made. */
static void skipped_updates_have_the_same_bits(void **state)
{
    static const int replicas[] = { 2, 3 }, partition[] = { 2, 3 };
    struct setup setup = loud("1f1b", 2, partition);
    struct run want, got;

    set_bf16(&setup, *state != NULL);
    setup.replicas = replicas;
    setup.accumulation = 6;
    setup.scale = (struct vp_scale_config){ 0x1p119f, true };
    setup.n_steps = *state ? 30 : 15; /* BF16 may overflow for longer */
    for (int k = 0; k < 2; k++) {
        struct run *run = k ? &got : &want;
        struct vp_err err = { .text = "" };

        setup.shard = k;
        if (run_create(run, &setup, 0, &err) != VP_OK ||
            vp_trainer_run(run->trainer, setup.n_steps, keep_step, run, &err))
            fail_msg("%s", err.text);
        run->weights = hash_weights(run);
        run_free(run);
    }
    assert_same(&want, &got, setup.n_steps);
    assert_in_range(want.skipped[setup.n_steps - 1], 1, setup.n_steps - 2);
    assert_int_equal(want.skipped[setup.n_steps - 1],
                     got.skipped[setup.n_steps - 1]);
}

/* All replicas have all weights, not only the first one. */
static void every_replica_has_all_weights(void **state)
{
    static const int replicas[] = { 3 };
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    struct run run;

    set_bf16(&setup, *state != NULL);
    setup.model = "gpt2";
    setup.n_stages = 1;
    setup.replicas = replicas;
    setup.vocab = 2000;
    setup.shard = true;
    if (run_create(&run, &setup, 0, &err) != VP_OK ||
        vp_trainer_run(run.trainer, 3, NULL, NULL, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (vp_par par = 0; par < run.graphs[0].n_params; par++)
        for (int r = 1; r < 3; r++) {
            float *a = trainer_weights(&run, par, 0);
            float *b = trainer_weights(&run, par, r);

            assert_memory_equal(a, b,
                                (size_t)count_weights(&run, par) * sizeof(*a));
            free(a);
            free(b);
        }
    run_free(&run);
}

/* ---- Bounds of the shards ----------------------------------------------- */

static bool may_be_cut(const struct vp_program *program, int64_t at)
{
    int64_t size = vp_dtype_bytes(program->graph->dtype);

    for (int i = 0; i < program->layout.n_entries; i++) {
        const struct vp_layout_entry *entry = &program->layout.entries[i];
        const struct vp_param *param = &program->graph->params[entry->par];

        for (int j = 0; j < param->n_parts && !param->constant; j++) {
            int64_t begin = entry->offset / size +
                            param->part[j].row * param->cols;
            int64_t n = param->part[j].rows * param->cols;

            if (at >= begin && at < begin + n && (at - begin) % 16384 == 0)
                return true;
        }
    }
    return false;
}

/* Shards have about the same length, and chunks of the optimizer are not
 * cut. */
static void slices_are_even(void **state)
{
    static const char *const names[] = { "bert", "gpt2", "translation" };

    (void)state;
    for (int i = 0; i < 12; i++) {
        struct setup setup = usual;
        struct vp_err err = { .text = "" };
        struct vp_program program;
        struct vp_stage_spec spec = { .first_block = i % 2 };
        int64_t bounds[MAX_SHARDS + 1];
        struct run run;

        setup.model = names[i % 3];
        setup.vocab = i < 6 ? 0 : 5000;
        setup.dtype = i % 4 < 2 ? VP_DTYPE_F32 : VP_DTYPE_BF16;
        if (run_create(&run, &setup, 0, &err) != VP_OK)
            fail_msg("%s", err.text);
        spec.n_blocks = run.graphs[0].n_blocks - spec.first_block;
        assert_int_equal(
            vp_program_lower(&run.graphs[0], &spec, NULL, NULL, &program, &err),
            VP_OK);
        for (int n = 1; n <= MAX_SHARDS; n++) {
            int64_t all = program.layout.train_bytes / 4, most = 0;

            vp_shard_bounds(&program, n, bounds);
            assert_int_equal(bounds[0], 0);
            assert_int_equal(bounds[n], all);
            for (int k = 0; k < n; k++) {
                assert_true(bounds[k] <= bounds[k + 1]);
                assert_true(may_be_cut(&program, bounds[k]));
                assert_true(bounds[k + 1] - bounds[k] <= all / n + 16384 + 64);
                if (bounds[k + 1] - bounds[k] > most)
                    most = bounds[k + 1] - bounds[k];
            }
            assert_int_equal(vp_shard_room(&program, n),
                             n > 1 ? (most + 63) / 64 * 64 : all);
        }
        vp_program_release(&program);
        run_free(&run);
    }
}

static int owner_of(const struct vp_shard_table *table, int64_t element)
{
    int i = 0;

    while (element >= table->parts[i].end)
        i++;
    return table->parts[i].owner;
}

/* The sum of a gradient element goes to the replica that owns the element.
 * Gradients of tied weights, and of their other uses in the stage, go to all
 * replicas. */
static void sums_go_to_owners(void **state)
{
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    struct vp_stage_choices choices = { .n_shards = 3 };
    struct vp_stage_shape shape = { .n_slots = 1, .n_versions = 1 };
    struct vp_stage_plan plan;
    struct vp_shard_table *table;
    const struct vp_program *program;
    struct vp_stage_config config;
    struct run run;
    int n_tied = 0;

    (void)state;
    setup.vocab = 2000;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    config = vp_train_stage_config(&run.config, &run.config.backend_config);
    choices.spec.n_blocks = run.graphs[0].n_blocks;
    assert_int_equal(
        vp_stage_plan_make(&config.work, &choices, &shape, &plan, &err), VP_OK);
    assert_int_equal(vp_shard_table_create(&plan, NULL, 0, 1, &table), VP_OK);
    program = &plan.train[0];
    for (int i = 0; i < program->layout.n_entries; i++) {
        const struct vp_layout_entry *entry = &program->layout.entries[i];
        const struct vp_param *param = &program->graph->params[entry->par];
        bool tied = param->has_copies || param->tied_to != VP_NONE;
        int64_t begin = entry->grad_offset / 4;

        n_tied += tied;
        for (int64_t e = begin; e < begin + param->rows * param->cols; e++) {
            int owner = owner_of(table, e);

            assert_int_equal(owner < 0, tied);
            assert_true(tied || (e >= table->bounds[owner] &&
                                 e < table->bounds[owner + 1]));
        }
    }
    assert_int_equal(n_tied, 2);
    vp_shard_table_free(table);
    vp_stage_plan_release(&plan);
    run_free(&run);
}

/* ---- Memory per replica ------------------------------------------------- */

/* Moments per replica of a GPT-2 with an embedding of 8000 x 32 are divided
 * among the replicas; all else is not. The priced bytes are allocated. */
static void memory_is_shared_out(void **state)
{
    static const struct {
        int n;
        enum vp_dtype dtype;
        int64_t moments;
    } cases[] = {
        { 1, VP_DTYPE_F32, 2197504 },  { 2, VP_DTYPE_F32, 1148928 },
        { 3, VP_DTYPE_F32, 786432 },   { 4, VP_DTYPE_F32, 624640 },
        { 1, VP_DTYPE_BF16, 2757120 }, { 4, VP_DTYPE_BF16, 791040 },
    };
    struct vp_memory whole = { .total = 0 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        int n = cases[i].n;
        struct setup setup = usual;
        struct vp_err err = { .text = "" };
        struct vp_priced_plan priced;
        struct vp_memory memory;
        struct run run;

        setup.model = "gpt2";
        setup.n_stages = 1;
        setup.replicas = &n;
        setup.vocab = 8000;
        setup.dtype = cases[i].dtype;
        setup.shard = true;
        if (run_create(&run, &setup, 0, &err) != VP_OK ||
            vp_priced_plan_make(&run.config, &priced, &err) != VP_OK)
            fail_msg("%s", err.text);
        memory = priced.stages[0].memory;
        assert_int_equal(memory.total * n, atomic_load(&n_device_bytes));
        assert_int_equal(memory.moments, cases[i].moments);
        if (n == 1)
            whole = memory;
        assert_int_equal(memory.gradients, whole.gradients);
        assert_int_equal(memory.weights, whole.weights);
        assert_true(memory.moments - whole.moments / n <= 10 * 16384 + 1024);
        /* A checkpoint has the moments of all shards. */
        assert_int_equal(priced.stages[0].snapshot,
                         whole.weights + whole.moments);
        vp_priced_plan_release(&priced);
        run_free(&run);
    }
}

/* ---- Faults and refusals ------------------------------------------------ */

struct trap {
    int rank, countdown;
    enum vp_action_kind kind;
    bool sprung;
};

static enum vp_fault spring(void *ctx, int rank, const struct vp_action *action)
{
    struct trap *trap = ctx;

    if (rank != trap->rank || action->kind != trap->kind || trap->sprung ||
        trap->countdown-- > 0)
        return VP_FAULT_NONE;
    trap->sprung = true;
    return VP_FAULT_STALL;
}

/* The other replicas wait for the sums or the weights of the rank that
 * stalls. */
static void an_owner_that_stalls_is_named(void **state)
{
    static const int replicas[] = { 3 };
    static const enum vp_action_kind actions[] = { VP_ACTION_UPDATE,
                                                   VP_ACTION_F,
                                                   VP_ACTION_REDUCE };

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct trap trap = { .rank = i % 3,
                             .countdown = 1,
                             .kind = actions[i / 2] };
        struct setup setup = usual;
        struct vp_err err = { .text = "" };
        char want[64];
        struct run run;

        setup.n_stages = 1;
        setup.replicas = replicas;
        setup.accumulation = 3;
        setup.optim = i % 2 ? VP_OPTIM_LAMB : VP_OPTIM_ADAM;
        setup.shard = true;
        setup.timeout_ms = 250;
        setup.fault = spring;
        setup.fault_ctx = &trap;
        if (run_create(&run, &setup, 0, &err) != VP_OK)
            fail_msg("%s", err.text);
        assert_int_equal(vp_trainer_run(run.trainer, 8, NULL, NULL, &err),
                         VP_ERR_TIMEOUT);
        snprintf(want, sizeof(want), "rank %d is stuck", trap.rank);
        if (!strstr(err.text, want))
            fail_msg("wanted '%s' in: %s", want, err.text);
        run_free(&run);
    }
}

static void a_gpu_is_refused(void **state)
{
    static const int replicas[] = { 2 };
    struct vp_device_ops device = *vp_backend_cpu.device;
    struct vp_backend_ops backend = vp_backend_cpu;
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    struct run run;

    (void)state;
    device.host_memory = false;
    backend.device = &device;
    setup.device = &backend;
    setup.n_stages = 1;
    setup.replicas = replicas;
    setup.shard = true;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_string_equal(err.fields, "shard_optimizer");
    assert_string_equal(err.text, "shards of the optimizer's state are for "
                                  "'device: cpu'; remove shard_optimizer");
    run_free(&run);
}

static void a_move_is_refused(void **state)
{
    static const int replicas[] = { 2 };
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    struct vp_trainer *next = NULL;
    struct run run;

    (void)state;
    setup.n_stages = 1;
    setup.replicas = replicas;
    setup.shard = true;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(
        vp_trainer_create_next(run.trainer, &run.config.plan, &next, &err),
        VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "replicas own shards of the optimizer's state, which "
                        "stay where they are; stop the run and resume it with "
                        "the plan");
    run_free(&run);
}

int main(void)
{
    bool bf16 = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_have_the_same_bits),
        cmocka_unit_test(streams_have_the_same_bits),
        cmocka_unit_test(chunks_and_evaluations_have_the_same_bits),
        cmocka_unit_test(skipped_updates_have_the_same_bits),
        cmocka_unit_test(every_replica_has_all_weights),
        cmocka_unit_test(slices_are_even),
        cmocka_unit_test(sums_go_to_owners),
        cmocka_unit_test(memory_is_shared_out),
        cmocka_unit_test(an_owner_that_stalls_is_named),
        cmocka_unit_test(a_gpu_is_refused),
        cmocka_unit_test(a_move_is_refused),
        { "groups in bf16", groups_have_the_same_bits, NULL, NULL, &bf16 },
        { "streams in bf16", streams_have_the_same_bits, NULL, NULL, &bf16 },
        { "skipped in bf16", skipped_updates_have_the_same_bits, NULL, NULL,
          &bf16 },
        { "replicas in bf16", every_replica_has_all_weights, NULL, NULL,
          &bf16 },
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
