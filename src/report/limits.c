/* Sums up the trace, simulates the schedule of the plan twice, and divides the
 * idle time among the causes. */
#include "report/limits.h"

#include <math.h>
#include <string.h>

enum {
    MOST_ACTIONS = 1 << 16, /* minibatches x stages that are simulated */
    MOST_MB = 4096,         /* largest accumulation_steps to recommend */
};

/* The bubble of a well-filled pipeline, for enough_mb. */
#define SMALL_BUBBLE 0.1

double vp_stage_work_seconds(const struct vp_stage_work *work)
{
    int n = work->n_replicas > 0 ? work->n_replicas : 1;

    return (work->f + work->r + work->b + work->w) / n;
}

/* ---- The trace ---------------------------------------------------------- */

struct sums {
    double busy[VP_ACTION_KIND_COUNT]; /* seconds */
    double wait[VP_ACTION_KIND_COUNT];
    int64_t n[VP_ACTION_KIND_COUNT];
};

static double mean(double sum, int64_t n)
{
    return n > 0 ? sum / (double)n : 0.0;
}

static void read_stage(const struct sums *sums, struct vp_stage_work *out)
{
    int64_t n = sums->n[VP_ACTION_F];

    out->n_mb = n;
    out->f = mean(sums->busy[VP_ACTION_F], n);
    out->r = mean(sums->busy[VP_ACTION_R], n);
    out->b = mean(sums->busy[VP_ACTION_B], n);
    out->w = mean(sums->busy[VP_ACTION_W], n);
    out->update = mean(sums->busy[VP_ACTION_UPDATE] +
                           sums->busy[VP_ACTION_REDUCE],
                       sums->n[VP_ACTION_UPDATE]);
    out->swap_wait = mean(
        sums->wait[VP_ACTION_SWAP_READY] + sums->wait[VP_ACTION_SWAP_FREE], n);
}

/* Adds the events of a rank to the sums of stages. Returns the seconds of its
 * evaluations. */
static double add_rank(const struct vp_trace_rank *rank, struct sums *sums,
                       int n_stages)
{
    double evaluation = 0.0;

    for (int i = 0; i < rank->n_events; i++) {
        const struct vp_trace_event *e = &rank->events[i];
        double busy = (double)(e->end_ns - e->start_ns - e->wait_ns) * 1e-9;

        if (e->stage >= n_stages || e->kind >= VP_ACTION_KIND_COUNT)
            continue;
        if (e->eval) {
            evaluation += busy;
            continue;
        }
        sums[e->stage].busy[e->kind] += busy;
        sums[e->stage].wait[e->kind] += (double)e->wait_ns * 1e-9;
        sums[e->stage].n[e->kind]++;
    }
    return evaluation;
}

/* Sets the work of stages and the shares of busy time; find_causes() divides
 * the idle time later. */
static void read_trace(const struct vp_trace *trace, struct vp_limits *out)
{
    static const struct sums zero;
    struct sums sums[VP_MAX_STAGES];
    double all = (double)(trace->end_ns - trace->begin_ns) * 1e-9 *
                 trace->n_ranks;
    double evaluation = 0.0, swap = 0.0;

    out->n_stages = trace->n_stages < VP_MAX_STAGES ? trace->n_stages
                                                    : VP_MAX_STAGES;
    for (int s = 0; s < out->n_stages; s++)
        sums[s] = zero;
    for (int r = 0; r < trace->n_ranks; r++)
        evaluation += add_rank(&trace->ranks[r], sums, out->n_stages);
    if (!(all > 0.0))
        return;
    for (int s = 0; s < out->n_stages; s++) {
        const double *busy = sums[s].busy;

        read_stage(&sums[s], &out->stages[s]);
        out->compute += (busy[VP_ACTION_F] + busy[VP_ACTION_B] +
                         busy[VP_ACTION_W]) /
                        all;
        out->recompute += busy[VP_ACTION_R] / all;
        out->update += (busy[VP_ACTION_UPDATE] + busy[VP_ACTION_REDUCE]) / all;
        swap += sums[s].wait[VP_ACTION_SWAP_READY] +
                sums[s].wait[VP_ACTION_SWAP_FREE];
        for (int r = 0; r < trace->n_ranks; r++)
            out->stages[s].n_replicas += vp_trace_has_stage(trace, r, s);
    }
    out->evaluation = evaluation / all;
    out->swap = swap / all;
    out->known = out->compute > 0.0;
}

/* Recomputation inside B is no event of its own: it is estimated as the plan's
 * recompute_ratio of F, and moved from B to R. */
static void find_hidden_recompute(const struct vp_plan *plan,
                                  const struct vp_trace *trace,
                                  struct vp_limits *out)
{
    double all = (double)(trace->end_ns - trace->begin_ns) * 1e-9 *
                 trace->n_ranks;

    if (!plan || !plan->recompute_in_b || !plan->recompute_ratio ||
        vp_plan_n_stages(plan) != out->n_stages)
        return;
    for (int s = 0; s < out->n_stages; s++) {
        struct vp_stage_work *work = &out->stages[s];
        double r = fmin(plan->recompute_ratio[s] * work->f, work->b);
        double share = r * (double)work->n_mb / all;

        work->r += r;
        work->b -= r;
        out->recompute += share;
        out->compute -= share;
    }
}

/* ---- The schedule ------------------------------------------------------- */

static struct vp_sched_config config_of(const struct vp_plan *plan, int n_mb,
                                        const bool *recompute)
{
    return (struct vp_sched_config){
        .name = plan->schedule ? plan->schedule : "1f1b",
        .n_stages = plan->n_stages,
        .n_chunks = plan->n_chunks,
        .v_shape = plan->schedule_v,
        .memory = plan->schedule_text ? 0 : plan->schedule_memory,
        .text = plan->schedule_text,
        .n_mb = n_mb,
        .replicas = plan->replicas,
        .depth = plan->depth,
        .recompute = recompute,
        .w_recomputed = plan->w_recomputed,
        .early_recompute = plan->early_recompute,
    };
}

/* Returns the simulated time of a step under the plan's schedule; 0:
 * unknown. */
static double simulate(const struct vp_plan *plan,
                       const struct vp_stage_costs *costs, int n_stages)
{
    bool recompute[VP_MAX_STAGES];
    struct vp_sched_config config;
    const struct vp_sched_costs all = { .stages = costs };
    struct vp_schedule schedule;
    struct vp_timing timing;
    double seconds = 0.0;

    for (int s = 0; s < n_stages; s++)
        recompute[s] = costs[s].r > 0.0;
    config = config_of(plan, plan->accumulation_steps, recompute);
    if (vp_schedule_make(&config, &schedule, NULL) != VP_OK)
        return 0.0;
    if (schedule.n_stages == n_stages &&
        vp_simulate(&schedule, &all, &timing, NULL) == VP_OK) {
        seconds = timing.makespan;
        vp_timing_release(&timing);
    }
    vp_schedule_release(&schedule);
    return seconds;
}

/* Writes the measured costs of a minibatch in each stage. The schedule accounts
 * for replicas and for stages that share a rank. */
static void measured_costs(const struct vp_limits *limits,
                           struct vp_stage_costs *out)
{
    for (int s = 0; s < limits->n_stages; s++) {
        const struct vp_stage_work *work = &limits->stages[s];

        out[s] = (struct vp_stage_costs){ .f = work->f,
                                          .b = work->b,
                                          .w = work->w,
                                          .r = work->r,
                                          .update = work->update };
    }
}

/* Writes costs with the same total work, spread evenly over the ranks. */
static void even_costs(const struct vp_limits *limits,
                       struct vp_stage_costs *out)
{
    struct vp_stage_costs mean_costs = { .f = 0.0 };
    int n = limits->n_stages;
    double ranks = 0.0;

    for (int s = 0; s < n; s++)
        ranks += limits->stages[s].n_replicas;
    for (int s = 0; s < n; s++) {
        const struct vp_stage_work *work = &limits->stages[s];

        mean_costs.f += work->f / ranks;
        mean_costs.b += work->b / ranks;
        mean_costs.w += work->w / ranks;
        mean_costs.r += work->r / ranks;
        mean_costs.update += work->update / n;
    }
    for (int s = 0; s < n; s++) {
        double k = limits->stages[s].n_replicas;

        out[s] = mean_costs;
        out[s].f *= k;
        out[s].b *= k;
        out[s].w *= k;
        out[s].r *= k;
    }
}

/* Returns the time per minibatch of a stream in steady state, which is that of
 * the slowest stage; with `even`, that of equal stages. */
static double stream_seconds(const struct vp_limits *limits, bool even)
{
    double most = 0.0, sum = 0.0;

    for (int s = 0; s < limits->n_stages; s++) {
        double seconds = vp_stage_work_seconds(&limits->stages[s]) +
                         limits->stages[s].update;

        most = fmax(most, seconds);
        sum += seconds;
    }
    return even ? sum / limits->n_stages : most;
}

/* Returns the generator of the plan's schedule, or NULL if the plan does not
 * match the trace or is too large to simulate. */
static const struct vp_generator *generator_of(const struct vp_plan *plan,
                                               int n_stages)
{
    const struct vp_generator *generator =
        plan ? vp_generator_find(plan->schedule ? plan->schedule : "1f1b")
             : NULL;

    if (!generator || vp_plan_n_stages(plan) != n_stages || n_stages < 2)
        return NULL;
    if (!generator->stream &&
        (plan->accumulation_steps < 1 ||
         plan->accumulation_steps > MOST_ACTIONS / n_stages))
        return NULL;
    return generator;
}

/* ---- Causes ------------------------------------------------------------- */

/* Divides the idle time among the causes. `even` and `real` are the times of a
 * step with equal and with measured stages, `work` the time that a rank
 * computes in it; 0: unknown. */
static void split_waiting(struct vp_limits *out, double even, double real,
                          double work)
{
    double busy = out->compute + out->recompute + out->update + out->evaluation;
    double idle = fmax(0.0, 1.0 - busy), left;
    double step = work > 0.0 ? work / (1.0 - idle) : 0.0;

    out->swap = fmin(out->swap, idle);
    left = idle - out->swap;
    if (step > 0.0 && even > 0.0 && real > 0.0) {
        double fill = fmax(0.0, even - work) / step;
        double imbalance = fmax(0.0, real - fmax(even, work)) / step;
        double scale = fill + imbalance > left ? left / (fill + imbalance)
                                               : 1.0;

        out->fill = fill * scale;
        out->imbalance = imbalance * scale;
    }
    out->rest = fmax(0.0, left - out->fill - out->imbalance);
}

static void find_slowest(struct vp_limits *out)
{
    double sum = 0.0, most = 0.0;

    out->slowest = -1;
    for (int s = 0; s < out->n_stages; s++) {
        double seconds = vp_stage_work_seconds(&out->stages[s]);

        sum += seconds;
        if (seconds > most) {
            most = seconds;
            out->slowest = s;
        }
    }
    if (out->n_stages > 1 && sum > most && most > 0.0)
        out->slowest_ratio = most * (out->n_stages - 1) / (sum - most);
    else
        out->slowest = -1;
}

/* Sets the theoretical bubble of the schedule, and the smallest number of
 * minibatches whose bubble is SMALL_BUBBLE. */
static void find_theory(const struct vp_plan *plan, struct vp_limits *out)
{
    struct vp_stage_costs costs[VP_MAX_STAGES];
    struct vp_sched_config config = config_of(plan, plan->accumulation_steps,
                                              NULL);

    even_costs(out, costs);
    config.text = NULL;
    out->theory = vp_schedule_theory(&config, &costs[0]);
    if (!isfinite(out->theory))
        return;
    for (int n = plan->accumulation_steps; n <= MOST_MB; n++) {
        config.n_mb = n;
        if (vp_schedule_theory(&config, &costs[0]) <= SMALL_BUBBLE + 1e-9) {
            out->enough_mb = n;
            return;
        }
    }
}

static void find_causes(const struct vp_plan *plan, struct vp_limits *out)
{
    const struct vp_generator *generator = generator_of(plan, out->n_stages);
    struct vp_stage_costs even[VP_MAX_STAGES], real[VP_MAX_STAGES];
    double work = 0.0, ranks = 0.0;

    if (!generator) {
        split_waiting(out, 0.0, 0.0, 0.0);
        return;
    }
    if (generator->stream) {
        split_waiting(out, stream_seconds(out, true),
                      stream_seconds(out, false), stream_seconds(out, true));
        return;
    }
    find_theory(plan, out);
    even_costs(out, even);
    measured_costs(out, real);
    for (int s = 0; s < out->n_stages; s++) {
        const struct vp_stage_work *stage = &out->stages[s];

        work += plan->accumulation_steps *
                    (stage->f + stage->r + stage->b + stage->w) +
                stage->update * stage->n_replicas;
        ranks += stage->n_replicas;
    }
    ranks /= plan->n_chunks > 0 ? plan->n_chunks : 1;
    split_waiting(out, simulate(plan, even, out->n_stages),
                  simulate(plan, real, out->n_stages), work / ranks);
}

void vp_limits_find(const struct vp_limit_facts *facts, struct vp_limits *out)
{
    *out = (struct vp_limits){ .slowest = -1, .theory = NAN };
    if (facts->trace) {
        read_trace(facts->trace, out);
        find_hidden_recompute(facts->plan, facts->trace, out);
    }
    if (facts->plan && vp_plan_n_stages(facts->plan) == out->n_stages)
        for (int s = 0; s < out->n_stages; s++)
            out->stages[s].n_blocks = facts->plan->partition[s];
    if (out->known) {
        find_slowest(out);
        find_causes(facts->plan, out);
    }
}
