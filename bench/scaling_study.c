/* Simulates large models on many ranks. A rank is a host with one GPU and one
 * network port. The time of a block is its FLOPs divided by a rate that was
 * measured for the whole model on one GPU; a message takes a latency plus its
 * bytes divided by the bandwidth, and overlaps with computing. Replicas add
 * gradients by a ring all-reduce between backward and update, without
 * overlap. */
#include "scaling.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    N_MB = 256, /* minibatches per update, over all ranks */
    MAX_BLOCKS = 128,
};

static const double limit_bytes = 139.0 * 0x1p30; /* memory of an H200 */
static const double latency = 20e-6;
static const double gbits[] = { 10.0, 25.0, 100.0 };

struct blocks {
    struct vp_stage_costs costs[MAX_BLOCKS]; /* seconds; links: bytes */
    double grad_bytes[MAX_BLOCKS];
    int n;
};

/* `deeper`: factor of the warm-up depth. Twice the warm-up of 1f1b hides
 * messages: a rank has forwards to compute while it waits for a gradient. */
static const struct contestant {
    const char *name, *schedule;
    int deeper;
} contestants[] = {
    { "gpipe", "gpipe", 1 },         { "1f1b", "1f1b", 1 },
    { "1f1b deep", "1f1b", 2 },      { "interleaved", "interleaved", 1 },
    { "zb-h1", "zb-h1", 1 },         { "zb-v", "zb-v", 1 },
    { "pipedream", "pipedream", 1 }, { "macrobatch", "macrobatch", 1 },
};

struct mix {
    const char *name;
    const struct vp_generator *generator;
    struct lab_spec spec;
    int partition[VP_MAX_STAGES], depth[VP_MAX_STAGES];
    double gib; /* memory of the rank that needs most */
};

/* Time of one update, or of N_MB minibatches of a stream, and sum of the
 * computing times of all ranks. */
struct span {
    double seconds, busy;
};

/* ---- Blocks ------------------------------------------------------------- */

static void lower_block(const struct vp_graph *graph, int block,
                        struct blocks *out)
{
    struct vp_stage_spec spec = { .first_block = block, .n_blocks = 1 };
    struct vp_program program;
    struct vp_err err = { .text = "" };

    if (vp_program_lower(graph, &spec, NULL, NULL, &program, &err) != VP_OK)
        lab_die("block", &err);
    out->costs[block].act = (double)program.out.n_bytes;
    out->costs[block].grad = (double)program.din.n_bytes;
    out->grad_bytes[block] = (double)program.layout.train_bytes;
    vp_program_release(&program);
}

static void cost_block(const struct scaling_model *model,
                       const struct vp_graph *graph, int block,
                       struct blocks *out)
{
    const struct vp_block *b = &graph->blocks[block];
    struct vp_stage_costs *c = &out->costs[block];

    for (int i = b->first_op; i < b->first_op + b->n_ops; i++) {
        const struct vp_op *op = &graph->ops[i];

        c->f += vp_op_flops(graph, op, VP_PHASE_F) / model->flop_rate;
        c->b += vp_op_flops(graph, op, VP_PHASE_B) / model->flop_rate;
        c->w += vp_op_flops(graph, op, VP_PHASE_W) / model->flop_rate;
    }
    c->update = out->grad_bytes[block] / sizeof(float) / model->update_rate;
}

static void cost_blocks(const struct scaling_model *model, struct blocks *out)
{
    struct lab_spec spec = { .size = model->size,
                             .schedule = "1f1b",
                             .n_stages = 1,
                             .n_mb = 1,
                             .dry = true };
    struct lab *lab = lab_open(&spec);
    const struct vp_graph *graph = lab_graph(lab);

    *out = (struct blocks){ .n = graph->n_blocks };
    if (out->n > MAX_BLOCKS)
        lab_die("model", &(struct vp_err){ .text = "too many blocks" });
    for (int i = 0; i < out->n; i++) {
        lower_block(graph, i, out);
        cost_block(model, graph, i, out);
    }
    lab_close(lab);
}

/* ---- Time --------------------------------------------------------------- */

/* Computes the costs of the stages of a mix. `bandwidth` in bytes per second;
 * 0: transfers take no time. */
static void stage_costs(const struct mix *mix, const struct blocks *blocks,
                        double bandwidth, struct vp_stage_costs *out)
{
    int n_stages = mix->spec.n_stages * mix->spec.n_chunks;
    double share = 2.0 * (mix->spec.n_replicas - 1) / mix->spec.n_replicas;
    int block = 0;

    lab_join_blocks(blocks->costs, mix->partition, n_stages, out);
    for (int s = 0; s < n_stages; s++) {
        double grads = 0.0;

        for (int i = 0; i < mix->partition[s]; i++)
            grads += blocks->grad_bytes[block++];
        out[s].r = mix->spec.recompute > 0.0 ? out[s].f : 0.0;
        out[s].act *= bandwidth > 0.0 ? 1.0 / bandwidth : 0.0;
        out[s].grad *= bandwidth > 0.0 ? 1.0 / bandwidth : 0.0;
        if (bandwidth > 0.0 && mix->spec.n_replicas > 1)
            out[s].reduce = share * grads / bandwidth +
                            2.0 * (mix->spec.n_replicas - 1) * latency;
    }
}

static double computing(const struct vp_schedule *schedule,
                        const struct vp_timing *timing)
{
    double sum = 0.0;

    for (int i = 0; i < schedule->n_actions; i++)
        if (schedule->actions[i].kind != VP_ACTION_REDUCE)
            sum += timing->spans[i].end - timing->spans[i].start;
    return sum;
}

static struct span simulate(const struct mix *mix,
                            const struct vp_sched_costs *costs, int n_mb)
{
    int replicas[VP_MAX_STAGES];
    bool recompute[VP_MAX_STAGES];
    struct vp_sched_config config = {
        .name = mix->generator->name,
        .n_stages = mix->spec.n_stages,
        .n_chunks = mix->spec.n_chunks,
        .n_mb = n_mb,
        .replicas = mix->spec.n_replicas > 1 ? replicas : NULL,
        .depth = mix->spec.depth,
        .recompute = recompute,
        .global_norm = !mix->generator->stream,
    };
    struct vp_schedule schedule;
    struct vp_timing timing;
    struct vp_err err = { .text = "" };
    struct span span;

    for (int s = 0; s < VP_MAX_STAGES; s++) {
        replicas[s] = mix->spec.n_replicas;
        recompute[s] = mix->spec.recompute > 0.0;
    }
    if (vp_schedule_make(&config, &schedule, &err) != VP_OK ||
        vp_simulate(&schedule, costs, &timing, &err) != VP_OK)
        lab_die("simulation", &err);
    span = (struct span){ timing.makespan, computing(&schedule, &timing) };
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
    return span;
}

/* Simulates a mix: synchronous schedules from an empty pipe to an empty pipe;
 * streams without filling and draining, as the time of twice the minibatches
 * minus that of once. */
static struct span time_mix(const struct mix *mix, const struct blocks *blocks,
                            double bandwidth)
{
    struct vp_stage_costs costs[VP_MAX_STAGES];
    struct vp_sched_costs table = { .stages = costs,
                                    .latency = bandwidth > 0.0 ? latency : 0.0,
                                    .one_port = true };
    struct span once, twice;

    stage_costs(mix, blocks, bandwidth, costs);
    once = simulate(mix, &table, N_MB);
    if (!mix->generator->stream)
        return once;
    twice = simulate(mix, &table, 2 * N_MB);
    return (struct span){ twice.seconds - once.seconds,
                          twice.busy - once.busy };
}

/* ---- Rows --------------------------------------------------------------- */

/* Returns the seconds of one rank with all blocks and no messages. */
static double alone(const struct blocks *blocks)
{
    double seconds = 0.0;

    for (int i = 0; i < blocks->n; i++) {
        const struct vp_stage_costs *c = &blocks->costs[i];

        seconds += N_MB * (c->f + c->b + c->w) + c->update;
    }
    return seconds;
}

static void print_row(const struct scaling_model *model, const struct mix *mix,
                      const struct blocks *blocks, double gbit)
{
    int n_ranks = mix->spec.n_stages * mix->spec.n_replicas;
    struct span free = time_mix(mix, blocks, 0.0);
    struct span span = time_mix(mix, blocks, gbit * 1e9 / 8.0);

    printf("{\"model\": \"%s\", \"ranks\": %d, \"gbit\": %g, \"schedule\": "
           "\"%s\", \"stages\": %d, \"replicas\": %d, \"chunks\": %d, "
           "\"recompute\": %g, \"samples_per_second\": %.6g, \"efficiency\": "
           "%.4f, \"computing\": %.4f, \"bubble\": %.4f, \"communication\": "
           "%.4f, \"gib\": %.3f}\n",
           model->name, n_ranks, gbit, mix->name, mix->spec.n_stages,
           mix->spec.n_replicas, mix->spec.n_chunks, mix->spec.recompute,
           N_MB * model->size.batch / span.seconds,
           alone(blocks) / (n_ranks * span.seconds),
           span.busy / (n_ranks * span.seconds),
           (free.seconds - span.busy / n_ranks) / span.seconds,
           (span.seconds - free.seconds) / span.seconds, mix->gib);
}

/* Returns the memory of the rank that needs most, in GiB. */
static double gib_of(const struct lab_spec *spec)
{
    struct lab_spec dry = *spec;
    const struct vp_schedule *schedule;
    const struct vp_stage_price *prices;
    struct lab *lab;
    double most = 0.0;

    dry.dry = true;
    lab = lab_open(&dry);
    schedule = lab_schedule(lab);
    prices = lab_prices(lab);
    for (int r = 0; r < schedule->n_ranks; r++) {
        const struct vp_rank_list *list = &schedule->ranks[r];
        double n_bytes = 0.0;

        for (int i = 0; i < list->n_stages; i++)
            n_bytes += (double)prices[list->stages[i]].memory.total;
        most = n_bytes > most ? n_bytes : most;
    }
    lab_close(lab);
    return most / 0x1p30;
}

/* Plans the mix; recomputes everything if the activations do not fit. */
static bool plan_mix(struct mix *mix, const struct blocks *blocks)
{
    lab_cut_by(&mix->spec, blocks->costs, mix->partition);
    mix->spec.partition = mix->partition;
    mix->gib = gib_of(&mix->spec);
    if (mix->gib * 0x1p30 <= limit_bytes)
        return true;
    mix->spec.recompute = 1.0;
    mix->gib = gib_of(&mix->spec);
    return mix->gib * 0x1p30 <= limit_bytes;
}

static void study_mix(const struct scaling_model *model,
                      const struct blocks *blocks,
                      const struct contestant *contestant, int n_stages,
                      int n_replicas)
{
    const struct vp_generator *generator = vp_generator_find(
        contestant->schedule);
    struct mix mix = { .name = contestant->name,
                       .generator = generator,
                       .spec = { .size = model->size,
                                 .schedule = contestant->schedule,
                                 .n_stages = n_stages,
                                 .n_chunks = generator->chunks ? 2 : 1,
                                 .n_replicas = n_replicas,
                                 .n_mb = N_MB } };
    int n = n_stages * mix.spec.n_chunks;

    if (n > VP_MAX_STAGES || n > blocks->n ||
        (n_replicas > 1 && generator->chunks))
        return;
    for (int s = 0; s < n_stages; s++)
        mix.depth[s] = contestant->deeper * (n_stages - 1 - s);
    mix.spec.depth = contestant->deeper > 1 ? mix.depth : NULL;
    if (!plan_mix(&mix, blocks))
        return;
    for (size_t i = 0; i < VP_COUNT_OF(gbits); i++)
        print_row(model, &mix, blocks, gbits[i]);
    fflush(stdout);
}

void scaling_study(const struct scaling_model *model, int n_ranks)
{
    static struct blocks blocks;

    cost_blocks(model, &blocks);
    for (size_t i = 0; i < VP_COUNT_OF(contestants); i++)
        for (int s = 2; s <= n_ranks; s *= 2)
            study_mix(model, &blocks, &contestants[i], s, n_ranks / s);
}
