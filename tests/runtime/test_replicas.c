/* Gradients of replicas that are added bundle by bundle during backward have
 * the same bits as a sum in replica order after backward. */
#include "lib/halfdevice.h"

#include "base/clock.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_PARTS = 3, MAX_REPLICAS = 3, N_STEPS = 3, MAX_RANKS = 8 };

static uint32_t rand_count;

static int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(6, VP_RNG_TEST, 3, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

static int n_blocks_of(const struct setup *setup)
{
    struct vp_model_config sizes = small_sizes(setup);

    return (int)vp_model_find(setup->model)->n_blocks(&sizes);
}

struct shape {
    int n_stages;
    int replicas[MAX_PARTS];
};

static const struct shape shapes[] = {
    { 1, { 2 } },
    { 1, { 3 } },
    { 3, { 1, 2, 1 } },
    { 3, { 2, 1, 3 } },
};

static void cut_at_random(const struct setup *setup, int *partition)
{
    int left = n_blocks_of(setup);

    for (int s = 0; s < setup->n_stages; s++) {
        int rest = setup->n_stages - 1 - s;

        partition[s] = rest ? 1 + rand_below(left - rest) : left;
        left -= partition[s];
    }
}

/* ---- The literal interpreter -------------------------------------------- */

struct part {
    struct vp_stage stage;
    int n_replicas;
    float *grads[MAX_REPLICAS];
    int64_t n_floats;
    struct vp_stage_message *out, *din; /* messages to the neighbours */
};

struct literal {
    const struct run *run;
    struct vp_backend *backend;
    struct vp_batch *batch;
    struct part parts[MAX_PARTS];
    int n_parts, n_mb;
};

static void open_part(struct literal *lit, struct part *part,
                      const struct vp_stage_spec *spec)
{
    struct vp_stage_shape shape = { .n_slots = 1, .n_versions = 1 };
    struct vp_stage_config config = vp_train_stage_config(
        &lit->run->config, &lit->run->config.backend_config);
    struct vp_err err = { .text = "" };

    if (vp_stage_init(&part->stage, &config, lit->backend,
                      &(struct vp_stage_choices){ .spec = *spec }, &shape,
                      &err) != VP_OK ||
        vp_stage_allocate(&part->stage, &err) != VP_OK)
        fail_msg("%s", err.text);
    part->n_floats = part->stage.plan.sizes.n_bytes[VP_SPACE_GRAD] / 4;
    for (int r = 0; r < part->n_replicas; r++)
        part->grads[r] = calloc((size_t)part->n_floats, sizeof(float));
    part->out = new_message(&part->stage,
                            part->stage.plan.sizes.n_bytes[VP_SPACE_OUT]);
    part->din = new_message(&part->stage,
                            part->stage.plan.sizes.n_bytes[VP_SPACE_DIN]);
}

static void literal_open(struct literal *lit, const struct run *run)
{
    const struct vp_train_config *config = &run->config;
    int first = 0;
    struct vp_err err;

    memset(lit, 0, sizeof(*lit));
    lit->run = run;
    lit->n_parts = config->plan.n_stages;
    lit->n_mb = config->plan.accumulation_steps;
    assert_int_equal(vp_backend_open(test_device(), &config->backend_config,
                                     &lit->backend, &err),
                     VP_OK);
    vp_device_attach(vp_backend_device(lit->backend));
    assert_int_equal(vp_batch_create(run->data, &lit->batch), VP_OK);
    for (int s = 0; s < lit->n_parts; s++) {
        lit->parts[s].n_replicas = config->plan.replicas[s];
        open_part(
            lit, &lit->parts[s],
            &(struct vp_stage_spec){ .first_block = first,
                                     .n_blocks = config->plan.partition[s] });
        first += config->plan.partition[s];
    }
}

static void literal_close(struct literal *lit)
{
    for (int s = 0; s < lit->n_parts; s++) {
        struct part *part = &lit->parts[s];

        free_message(&part->stage, part->out,
                     part->stage.plan.sizes.n_bytes[VP_SPACE_OUT]);
        free_message(&part->stage, part->din,
                     part->stage.plan.sizes.n_bytes[VP_SPACE_DIN]);
        vp_stage_release(&part->stage);
        for (int r = 0; r < part->n_replicas; r++)
            free(part->grads[r]);
    }
    vp_batch_free(lit->batch);
    test_device()->close(lit->backend);
}

/* Runs minibatch `m`, number `k` of its step, forward through all stages.
 * Returns its loss. */
static double forward(struct literal *lit, uint64_t m, int k)
{
    struct part *last = &lit->parts[lit->n_parts - 1];
    struct vp_err err;
    float loss[VP_LOSS_COLS];

    assert_int_equal(vp_data_fill(lit->run->data, m, lit->batch, &err), VP_OK);
    for (int s = 0; s < lit->n_parts; s++) {
        struct part *part = &lit->parts[s];
        struct vp_slot *slot = &part->stage.slots[0];
        struct vp_launch_messages messages = { .out = part->out };

        if (s == 0)
            vp_stage_load(&part->stage, slot->message, lit->batch, m);
        else
            slot->message = lit->parts[s - 1].out;
        slot->mb = (struct vp_mb){ .seed = lit->run->config.seed,
                                   .first_sample = lit->batch->first_sample,
                                   .loss_grad = 1.0f / (float)lit->n_mb,
                                   .accumulate = k >= part->n_replicas,
                                   .train = true };
        part->out->header = slot->message->header;
        vp_stage_run(&part->stage, slot, VP_LIST_F, part->stage.newest, false,
                     &messages);
        vp_stage_wait(&part->stage);
    }
    vp_stage_fetch_outputs(&last->stage, &last->stage.slots[0], false);
    vp_stage_take_loss(&last->stage, &last->stage.slots[0], loss);
    return (double)loss[VP_LOSS_MEAN];
}

static void backward(struct literal *lit, int k)
{
    for (int s = lit->n_parts - 1; s >= 0; s--) {
        struct part *part = &lit->parts[s];
        struct vp_launch_messages messages = {
            .din = part->din,
            .dout = s == lit->n_parts - 1 ? NULL : lit->parts[s + 1].din,
        };
        float *mine = part->grads[k % part->n_replicas];
        size_t n_bytes = (size_t)part->n_floats * sizeof(float);

        memcpy(part->stage.grads, mine, n_bytes);
        vp_stage_run(&part->stage, &part->stage.slots[0], VP_LIST_B,
                     part->stage.newest, false, &messages);
        vp_stage_wait(&part->stage);
        memcpy(mine, part->stage.grads, n_bytes);
    }
}

/* Adds the gradients of the replicas that had a minibatch, in order. */
static void add_replicas(const struct literal *lit, struct part *part)
{
    for (int64_t i = 0; i < part->n_floats; i++) {
        float sum = part->grads[0][i];

        for (int r = 1; r < part->n_replicas && r < lit->n_mb; r++)
            sum += part->grads[r][i];
        part->stage.grads[i] = sum;
    }
}

/* Adds the gradients of all uses of a tied parameter in the order of blocks,
 * which is the order of parameters. */
static void add_tied(struct literal *lit, vp_par owner)
{
    const struct vp_graph *graph = &lit->run->graphs[0];
    int64_t n = graph->params[owner].rows * graph->params[owner].cols;
    float *use[16];
    int n_uses = 0;

    for (vp_par par = owner; par < graph->n_params; par++)
        for (int s = 0; s < lit->n_parts; s++) {
            const struct vp_stage *stage = &lit->parts[s].stage;
            const struct vp_layout *layout = &stage->plan.train[0].layout;

            for (int e = 0; e < layout->n_entries; e++)
                if (layout->entries[e].par == par &&
                    (par == owner || graph->params[par].tied_to == owner))
                    use[n_uses++] = vp_stage_grad(stage, e);
        }
    for (int k = 1; k < n_uses; k++)
        for (int64_t i = 0; i < n; i++)
            use[0][i] += use[k][i];
    for (int k = 1; k < n_uses; k++)
        memcpy(use[k], use[0], (size_t)n * sizeof(float));
}

/* Adds gradients, computes the norm over all blocks and updates the weights.
 * Returns the norm. */
static double update(struct literal *lit)
{
    const struct vp_train_config *config = &lit->run->config;
    const struct vp_graph *graph = &lit->run->graphs[0];
    double *per_block = calloc((size_t)graph->n_blocks, sizeof(double));
    double total = 0.0;

    for (int s = 0; s < lit->n_parts; s++)
        add_replicas(lit, &lit->parts[s]);
    for (vp_par par = 0; par < graph->n_params; par++)
        if (graph->params[par].tied_to == VP_NONE)
            add_tied(lit, par);
    for (int s = 0; s < lit->n_parts; s++) {
        struct vp_stage *stage = &lit->parts[s].stage;

        vp_stage_sum_grads(stage);
        vp_stage_wait_sums(stage);
        for (int i = 0; i < stage->n_own_tensors; i++)
            per_block[stage->tensors[i].block] += stage->sums[i];
    }
    for (int b = 0; b < graph->n_blocks; b++)
        total += per_block[b];
    free(per_block);
    for (int s = 0; s < lit->n_parts; s++) {
        struct vp_stage *stage = &lit->parts[s].stage;

        vp_stage_update(
            stage, vp_lr_at(&config->lr, stage->newest + 1),
            vp_optim_clip_scale(sqrt(total), config->optim.grad_clip));
        vp_stage_wait(stage);
    }
    return sqrt(total);
}

static void compare_weights(const struct run *run, const struct literal *lit)
{
    for (int s = 0; s < lit->n_parts; s++)
        for (int r = 0; r < lit->parts[s].n_replicas; r++)
            assert_same_weights(run, &lit->parts[s].stage, r);
}

/* Trains with the trainer and with the literal interpreter, and compares. */
static void check(const struct setup *setup)
{
    struct vp_err err = { .text = "" };
    struct literal lit;
    struct run run;

    if (run_create(&run, setup, 0, &err) != VP_OK ||
        vp_trainer_run(run.trainer, setup->n_steps, keep_step, &run, &err))
        fail_msg("%s", err.text);
    literal_open(&lit, &run);
    for (int step = 0; step < setup->n_steps; step++) {
        double loss = 0.0, norm;

        for (int k = 0; k < lit.n_mb; k++) {
            loss += forward(&lit, (uint64_t)(step * lit.n_mb + k), k) /
                    lit.n_mb;
            backward(&lit, k);
        }
        norm = update(&lit);
        if (run.losses[step] != loss || run.norms[step] != norm)
            fail_msg("%s %s, %d minibatches, bundles of %d: step %d: loss "
                     "%.17g, norm %.17g; literally %.17g, %.17g",
                     setup->model, setup->schedule, lit.n_mb,
                     (int)setup->bundle_bytes, step, run.losses[step],
                     run.norms[step], loss, norm);
    }
    compare_weights(&run, &lit);
    literal_close(&lit);
    run_free(&run);
}

/* The minibatches divide evenly among the replicas, or unevenly, or some
 * replicas have none. */
static void sums_are_those_of_the_literal_program(void **state)
{
    static const char *const schedules[] = { "1f1b", "gpipe", "zb-h1" };
    static const int n_minibatches[] = { 1, 2, 5, 6 };
    static const int64_t bundles[] = { 1, 4096, 20000, 0 };
    static const double ratios[] = { 0.0, 0.5, 1.0 };
    int partition[MAX_PARTS], n = 0;

    for (size_t h = 0; h < VP_COUNT_OF(shapes); h++)
        for (size_t i = 0; i < VP_COUNT_OF(schedules); i++)
            for (size_t m = 0; m < VP_COUNT_OF(n_minibatches); m++) {
                struct setup setup = usual;

                set_type(&setup, *state);
                setup.model = models[n++ % 3];
                setup.schedule = schedules[i];
                setup.n_stages = shapes[h].n_stages;
                setup.replicas = shapes[h].replicas;
                setup.accumulation = n_minibatches[m];
                setup.n_steps = N_STEPS;
                setup.bundle_bytes = bundles[rand_below(4)];
                setup.recompute = ratios[rand_below(3)];
                setup.early = rand_below(2);
                setup.tied = rand_below(2);
                setup.threads = 1 + rand_below(2);
                setup.grad_clip = 0.5f;
                setup.partition = partition;
                cut_at_random(&setup, partition);
                check(&setup);
            }
}

/* If ranks have several stages, every replica is a copy of the whole pipeline.
 * The result depends on the number of replicas, not on the stages or the
 * schedule. */
static void chunks_have_the_bits_of_one_stage(void **state)
{
    static const int same[] = { 2, 2, 2 }, three[] = { 3, 3 };
    static const struct {
        const char *schedule;
        int n_stages, n_chunks;
        const int *replicas;
    } cases[] = {
        { "interleaved", 2, 2, same }, { "interleaved", 2, 3, three },
        { "zb-v", 2, 2, same },        { "zb-v", 2, 2, three },
        { "v-half", 3, 2, same },      { "dualpipe-v", 2, 2, same },
        { "v-auto", 2, 2, three },
    };
    static const int n_minibatches[] = { 1, 5, 8 };

    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        for (size_t m = 0; m < VP_COUNT_OF(n_minibatches); m++) {
            struct setup setup = usual;
            int partition[6] = { 1, 1, 1, 1, 1, 1 };
            int n = cases[i].n_stages * cases[i].n_chunks;
            struct run want, got;

            set_type(&setup, *state);
            setup.model = models[(i + m) % 3];
            setup.layers = 4;
            setup.tied = i % 2 == 0;
            setup.accumulation = n_minibatches[m];
            setup.n_steps = N_STEPS;
            setup.grad_clip = 0.5f;
            setup.replicas = cases[i].replicas;
            train(&want, &setup);
            partition[rand_below(n)] += n_blocks_of(&setup) - n;
            setup.partition = partition;
            setup.schedule = cases[i].schedule;
            setup.n_stages = cases[i].n_stages;
            setup.n_chunks = cases[i].n_chunks;
            setup.bundle_bytes = 4096;
            setup.recompute = rand_below(2) ? 0.5 : 0.0;
            setup.threads = 1 + rand_below(2);
            train(&got, &setup);
            assert_same(&want, &got, setup.n_steps);
        }
}

/* ---- Sums during backward ----------------------------------------------- */

/* Rank `first` waits before it offers bundle number N_HELD until rank `second`
 * has come to the same bundle. Both have then offered N_HELD - 1 bundles. */
enum { N_HELD = 5 };

struct gate {
    int first, second;
    enum vp_action_kind kind;
    const struct vp_action *now[MAX_RANKS];
    atomic_int n_offers[MAX_RANKS]; /* begun by each rank */
};

static enum vp_fault hold(void *ctx, int rank, const struct vp_action *action)
{
    struct gate *gate = ctx;
    const struct timespec pause = { .tv_nsec = 100000 };
    int64_t limit = vp_clock_ns() + 10000000000;

    if (action->kind != gate->kind)
        return VP_FAULT_NONE;
    if (gate->now[rank] != action) { /* not an offer: the action begins */
        gate->now[rank] = action;
        return VP_FAULT_NONE;
    }
    if (atomic_fetch_add(&gate->n_offers[rank], 1) + 1 == N_HELD &&
        rank == gate->first)
        while (atomic_load(&gate->n_offers[gate->second]) < N_HELD &&
               vp_clock_ns() < limit)
            nanosleep(&pause, NULL);
    return VP_FAULT_NONE;
}

static atomic_int n_parts_launched;

static enum vp_status counting_part(struct vp_exe *exe, enum vp_list list,
                                    int first, int n,
                                    const struct vp_launch *launch,
                                    struct vp_stream *stream)
{
    assert_true(n > 0);
    atomic_fetch_add(&n_parts_launched, 1);
    return test_device()->launch_part(exe, list, first, n, launch, stream);
}

/* Trains and returns the statistics of `stage`. */
static struct vp_stage_stats stats_of(const struct setup *setup, int stage,
                                      uint64_t *hash_out)
{
    struct vp_stage_stats stats;
    struct vp_err err = { .text = "" };
    struct run run;

    atomic_store(&n_parts_launched, 0);
    if (run_create(&run, setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    run.backend.launch_part = counting_part;
    if (vp_trainer_run(run.trainer, setup->n_steps, NULL, NULL, &err) != VP_OK)
        fail_msg("%s", err.text);
    stats = vp_trainer_stats(run.trainer)[stage];
    *hash_out = hash_weights(&run);
    run_free(&run);
    return stats;
}

/* Bundles are added during backward if no other rank waits for a message of it:
 * in the first stage, and in W. */
static void bundles_are_added_before_reduce(void **state)
{
    static const int partition[] = { 2, 1, 2 };
    static const struct {
        const char *schedule;
        struct shape shape;
        int stage, first_rank;
        enum vp_action_kind kind;
        bool early;
    } cases[] = {
        { "1f1b", { 1, { 2 } }, 0, 0, VP_ACTION_B, true },
        { "gpipe", { 1, { 2 } }, 0, 0, VP_ACTION_B, true },
        { "pipedream", { 1, { 2 } }, 0, 0, VP_ACTION_B, true },
        { "1f1b", { 3, { 2, 1, 1 } }, 0, 0, VP_ACTION_B, true },
        { "1f1b", { 3, { 1, 2, 1 } }, 1, 1, VP_ACTION_B, false },
        { "zb-h1", { 3, { 1, 2, 1 } }, 1, 1, VP_ACTION_W, true },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct gate gate = { .first = cases[i].first_rank,
                             .second = cases[i].first_rank + 1,
                             .kind = cases[i].kind };
        struct setup setup = usual;
        struct vp_stage_stats one, cut;
        uint64_t hash_one, hash_cut;

        setup.schedule = cases[i].schedule;
        setup.n_stages = cases[i].shape.n_stages;
        setup.partition = setup.n_stages > 1 ? partition : NULL;
        setup.replicas = cases[i].shape.replicas;
        setup.tied = false;
        setup.threads = 1;
        setup.accumulation = 4;
        one = stats_of(&setup, cases[i].stage, &hash_one);
        setup.bundle_bytes = 1;
        setup.fault = hold;
        setup.fault_ctx = &gate;
        cut = stats_of(&setup, cases[i].stage, &hash_cut);
        assert_true(hash_one == hash_cut);
        assert_true(cut.n_sums > 4 * one.n_sums);
        assert_true(atomic_load(&n_parts_launched) > 4);
        assert_true(one.reduce_ns > 0 && cut.reduce_ns > 0);
        if (cases[i].early)
            assert_true(cut.n_early_sums >= N_HELD - 1);
        else
            assert_int_equal(cut.n_early_sums, 0);
    }
}

static int64_t counted_ns(const struct vp_stage_stats *stats)
{
    return stats->forward_ns + stats->backward_ns + stats->reduce_ns +
           stats->update_ns + stats->wait_ns + stats->receive_ns +
           stats->send_ns + stats->message_ns;
}

/* The times of a stage cover all actions of its ranks, each of them once. */
static void times_add_up(void **state)
{
    static const int partition[] = { 2, 1, 2 }, replicas[] = { 2, 1, 3 };
    const char *const schedules[] = { "gpipe", "pipedream" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        struct setup setup = usual;
        struct vp_err err = { .text = "" };
        struct vp_stage_stats stats;
        struct vp_trace trace;
        struct run run;
        int64_t ns, wait_ns = 0;
        int stage;

        setup.schedule = schedules[i];
        setup.n_stages = 3;
        setup.partition = partition;
        setup.replicas = replicas;
        setup.tied = false;
        setup.accumulation = 6;
        assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
        assert_int_equal(
            vp_trainer_run(run.trainer, N_STEPS, keep_step, &run, &err), VP_OK);
        assert_int_equal(vp_trainer_trace(run.trainer, "", &trace, &err),
                         VP_OK);
        for (int r = 0; r < trace.n_ranks; r++) {
            ns = 0;
            for (int e = 0; e < trace.ranks[r].n_events; e++)
                ns += trace.ranks[r].events[e].end_ns -
                      trace.ranks[r].events[e].start_ns;
            assert_true(
                vp_trainer_rank_stats(run.trainer, r, 0, &stage, &stats));
            assert_int_equal(counted_ns(&stats), ns);
            wait_ns += stats.wait_ns;
        }
        assert_true(wait_ns > 0);
        vp_trace_release(&trace);
        run_free(&run);
    }
}

/* A stage without replicas launches whole lists and adds no gradients. */
static void one_replica_pays_nothing(void **state)
{
    static const int partition[] = { 2, 1, 2 };
    static const int replicas[] = { 1, 1, 1 };
    struct setup setup = usual;
    struct vp_stage_stats stats;
    uint64_t hash;

    (void)state;
    setup.n_stages = 3;
    setup.partition = partition;
    setup.replicas = replicas;
    setup.bundle_bytes = 1;
    for (int s = 0; s < 3; s++) {
        stats = stats_of(&setup, s, &hash);
        assert_int_equal(atomic_load(&n_parts_launched), 0);
        assert_int_equal(stats.n_sums, 0);
        assert_int_equal(stats.n_early_sums, 0);
    }
}

/* ---- Faults between two bundles ----------------------------------------- */

enum { N_STALLS = 12, N_ERRORS = 24, TIMEOUT_MS = 250 };

struct trap {
    enum vp_fault fault;
    int rank, countdown; /* offers before the fault */
    bool sprung;
    const struct vp_action *now; /* the rank's action */
    struct vp_action action;
};

static enum vp_fault spring(void *ctx, int rank, const struct vp_action *action)
{
    struct trap *trap = ctx;
    bool begins;

    if (rank != trap->rank || trap->sprung)
        return VP_FAULT_NONE;
    begins = trap->now != action;
    trap->now = action;
    if (begins || trap->countdown-- > 0)
        return VP_FAULT_NONE;
    trap->sprung = true;
    trap->action = *action;
    return trap->fault;
}

static enum vp_status run_into(struct trap *trap, int trial, struct vp_err *err)
{
    static const char *const schedules[] = { "1f1b", "pipedream", "zb-h1" };
    static const int partition[] = { 2, 1, 2 };
    const struct shape *shape = &shapes[trial % 4];
    int n_ranks = shape->replicas[0], first = 0;
    int64_t start = vp_clock_ns();
    struct setup setup = usual;
    enum vp_status st;
    struct run run;

    if (trial % 4 == 2) {
        first = 1;
        n_ranks = 2;
    }
    trap->rank = first + rand_below(n_ranks);
    trap->countdown = rand_below(20);
    setup.schedule = schedules[trial % 3];
    setup.n_stages = shape->n_stages;
    setup.replicas = shape->replicas;
    setup.partition = shape->n_stages > 1 ? partition : NULL;
    setup.tied = false;
    setup.threads = 1;
    setup.accumulation = 6;
    setup.bundle_bytes = 4096;
    setup.fault = spring;
    setup.fault_ctx = trap;
    setup.timeout_ms = TIMEOUT_MS;
    if (run_create(&run, &setup, 0, err) != VP_OK)
        fail_msg("%s", err->text);
    st = vp_trainer_run(run.trainer, 48, NULL, NULL, err);
    run_free(&run);
    assert_true(trap->sprung);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 10.0);
    return st;
}

/* Checks that the message names the rank, its action, stage and minibatch.
 * `verdict` is the expected text between rank and action; NULL: the action may
 * be anywhere. */
static void expect(const struct vp_err *err, const struct trap *trap,
                   const char *verdict)
{
    const struct vp_action *action = &trap->action;
    char text[64], want[160];

    vp_action_print(action, text, sizeof(text));
    snprintf(want, sizeof(want), "rank %d%s%s, stage %d, minibatch %d",
             trap->rank, verdict ? verdict : "", verdict ? text : "",
             action->stage, action->mb);
    if (!strstr(err->text, want) || !strstr(err->text, text))
        fail_msg("wanted '%s' and '%s' in:\n%s", want, text, err->text);
}

static void a_replica_that_stalls_is_named(void **state)
{
    (void)state;
    for (int trial = 0; trial < N_STALLS; trial++) {
        struct trap trap = { .fault = VP_FAULT_STALL };
        struct vp_err err = { .text = "" };

        assert_int_equal(run_into(&trap, trial, &err), VP_ERR_TIMEOUT);
        expect(&err, &trap, " is stuck: in ");
    }
}

static void a_replica_that_dies_stops_all(void **state)
{
    (void)state;
    for (int trial = 0; trial < N_ERRORS; trial++) {
        struct trap trap = { .fault = VP_FAULT_ERROR };
        struct vp_err err = { .text = "" };

        assert_int_equal(run_into(&trap, trial, &err), VP_ERR_IO);
        expect(&err, &trap, NULL);
    }
}

int main(void)
{
    bool bf16 = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_literal_program),
        cmocka_unit_test(chunks_have_the_bits_of_one_stage),
        cmocka_unit_test(bundles_are_added_before_reduce),
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(one_replica_pays_nothing),
        cmocka_unit_test(a_replica_that_stalls_is_named),
        cmocka_unit_test(a_replica_that_dies_stops_all),
        { "sums in bf16", sums_are_those_of_the_literal_program, NULL, NULL,
          &bf16 },
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
