/* Costs of a plan's stages: computing, sums over groups and replicas, messages,
 * swap, shared devices; and the forecast from their simulation. */
#include "plan/costs.h"

#include "graph/opdef.h"
#include "graph/recompute.h"

#include <stdlib.h>
#include <string.h>

/* ---- Blocks ------------------------------------------------------------- */

enum vp_status vp_cost_table_init(struct vp_cost_table *table,
                                  const struct vp_workload *work,
                                  const struct vp_device_profile *profile)
{
    const struct vp_graph *graph = &work->graphs[0];
    size_t n = (size_t)graph->n_blocks;
    struct vp_block_key *keys = calloc(n, sizeof(*keys));
    int n_moments = vp_optim_n_moments(work->optim.kind);

    *table = (struct vp_cost_table){
        .work = work,
        .profile = profile,
        .n_blocks = graph->n_blocks,
        .blocks = calloc(n, sizeof(*table->blocks)),
    };
    if (!keys || !table->blocks || vp_profile_keys(graph, keys) != VP_OK) {
        free(keys);
        vp_cost_table_release(table);
        return VP_ERR_NOMEM;
    }
    for (int b = 0; b < graph->n_blocks; b++) {
        const struct vp_profile_block *known = vp_profile_find(profile,
                                                               keys[b]);

        if (known)
            table->blocks[b] = *known;
        else
            vp_profile_estimate(profile, graph, b, n_moments,
                                &table->blocks[b]);
        table->n_estimated += !known;
    }
    free(keys);
    return VP_OK;
}

void vp_cost_table_release(struct vp_cost_table *table)
{
    free(table->blocks);
    table->blocks = NULL;
}

/* A set that was not measured costs its share of the forward, by the rates. */
double vp_cost_recompute(const struct vp_cost_table *table, int block,
                         uint64_t ops)
{
    const struct vp_graph *graph = &table->work->graphs[0];
    const struct vp_profile_block *at = &table->blocks[block];
    double whole, part;

    if (ops == 0)
        return 0.0;
    for (int i = 0; i < at->n_sets; i++)
        if (at->sets[i].ops == ops)
            return at->sets[i].seconds;
    part = vp_profile_estimate_set(table->profile, graph, block, ops);
    whole = vp_profile_estimate_set(table->profile, graph, block, UINT64_MAX);
    return whole > 0.0 ? at->alone.f * part / whole : 0.0;
}

/* ---- Stages ------------------------------------------------------------- */

/* Weight gradients of operators whose inputs are recomputed run with B, where B
 * and W are apart: the list W then has fewer FLOPs than the blocks. */
static void move_weight_gradients(const struct vp_schedule *schedule,
                                  const struct vp_graph *graph, int first,
                                  int n, const struct vp_stage_price *price,
                                  struct vp_stage_costs *out)
{
    double all = vp_graph_phase_flops(graph, first, n, VP_PHASE_W), moved;

    if (!schedule->split || !(all > 0.0))
        return;
    moved = out->w * (1.0 - price->flops[VP_LIST_W] / all);
    moved = moved > 0.0 ? moved : 0.0;
    out->w -= moved;
    out->b += moved;
}

/* Returns the host of a rank; ranks beyond the list are on the last host. */
static int host_of(const struct vp_device_profile *profile, int rank)
{
    int host = 0;

    while (host + 1 < profile->n_hosts && rank >= profile->hosts[host])
        rank -= profile->hosts[host++];
    return host;
}

/* Returns the first rank of a group. The schedule counts a group as one
 * rank. */
static int rank_of(const struct vp_cost_table *table, int group)
{
    return group * table->work->graphs[0].n_members;
}

/* Returns the slowest link within the groups of a stage. */
static const struct vp_profile_link *group_link(
    const struct vp_cost_table *table, const struct vp_schedule_stage *stage)
{
    const struct vp_device_profile *profile = table->profile;

    for (int r = 0; r < stage->n_replicas; r++) {
        int first = rank_of(table, stage->first_rank + r);
        int last = rank_of(table, stage->first_rank + r + 1) - 1;

        if (host_of(profile, first) != host_of(profile, last))
            return &profile->between_hosts;
    }
    return &profile->same_host;
}

/* Seconds to send `n_bytes` once around a ring of a group's members. */
static double once_seconds(const struct vp_cost_table *table,
                           const struct vp_profile_link *link, double n_bytes)
{
    double n = table->work->graphs[0].n_members;

    return (n - 1.0) / n * n_bytes / link->bytes_per_second + link->seconds;
}

/* A sum over the members (all-reduce) goes around the ring twice. */
static double sum_seconds(const struct vp_cost_table *table,
                          const struct vp_profile_link *link, vp_val value)
{
    const struct vp_graph *graph = &table->work->graphs[0];

    return 2.0 *
           once_seconds(table, link, (double)vp_value_bytes(graph, value));
}

/* An all-gather or reduce-scatter of rows goes around the ring once. */
static double slices_seconds(const struct vp_cost_table *table,
                             const struct vp_profile_link *link,
                             const struct vp_op *op)
{
    const struct vp_graph *graph = &table->work->graphs[0];
    const struct vp_value *value = &graph->values[op->out];

    return once_seconds(table, link,
                        (double)value->whole_rows * (double)value->cols *
                            (double)vp_dtype_bytes(value->dtype));
}

/* Returns true if R runs the reader of `op`'s result again. */
static bool is_read_again(const struct vp_graph *graph, int first,
                          const uint64_t *sets, const struct vp_op *op)
{
    const struct vp_op *reader = vp_graph_reader(graph, op->out);

    return reader && vp_recompute_has(graph, first, sets, reader);
}

/* Adds the time of an all-gather or reduce-scatter. Both take the same time,
 * and backward runs the other one. `keep`: gathered rows are kept; otherwise
 * they are gathered again for W, and for R if it runs their reader again. */
static void add_slices(const struct vp_cost_table *table,
                       const struct vp_profile_link *link, bool keep, int first,
                       const uint64_t *sets, const struct vp_op *op,
                       struct vp_stage_costs *out, double *r)
{
    const struct vp_graph *graph = &table->work->graphs[0];
    double seconds = slices_seconds(table, link, op);
    bool gathers = op->kind == VP_OP_ALL_GATHER;

    out->f += seconds;
    out->b += seconds;
    if (gathers && !keep)
        out->w += seconds;
    if (gathers && !keep ? is_read_again(graph, first, sets, op)
                         : vp_recompute_runs(graph, first, sets, keep, op))
        *r += seconds;
}

/* Gradients of which every member has a part are summed once per update. */
static double grads_seconds(const struct vp_cost_table *table,
                            const struct vp_profile_link *link, int first,
                            int n)
{
    const struct vp_graph *graph = &table->work->graphs[0];
    double n_bytes = 0.0;

    for (vp_par par = 0; par < graph->n_params; par++) {
        const struct vp_param *param = &graph->params[par];

        if (param->partial_grad && param->block >= first &&
            param->block < first + n)
            n_bytes += (double)(param->rows * param->cols) * sizeof(float);
    }
    return n_bytes > 0.0 ? 2.0 * once_seconds(table, link, n_bytes) : 0.0;
}

/* Adds the sums over a tensor-parallel group; profiles are measured on one
 * rank. `sets` as in compute_costs(), `keep` as in add_slices(). Adds to `r`
 * the seconds of sums that recomputation repeats. */
static void add_sums(const struct vp_cost_table *table,
                     const struct vp_profile_link *link, bool keep, int first,
                     int n, const uint64_t *sets, struct vp_stage_costs *out,
                     double *r)
{
    const struct vp_graph *graph = &table->work->graphs[0];
    const struct vp_block *blocks = &graph->blocks[first];
    int end = blocks[n - 1].first_op + blocks[n - 1].n_ops;

    for (int i = blocks->first_op; graph->n_members > 1 && i < end; i++) {
        const struct vp_op *op = &graph->ops[i];

        if (vp_op_sums_gradient(graph, op))
            out->b += sum_seconds(table, link, op->in[0]);
        if (op->kind == VP_OP_REDUCE_SCATTER || op->kind == VP_OP_ALL_GATHER)
            add_slices(table, link, keep, first, sets, op, out, r);
        if (op->kind != VP_OP_GROUP_SUM)
            continue;
        out->f += sum_seconds(table, link, op->out);
        if (sets && vp_recompute_has(graph, first, sets, op))
            *r += sum_seconds(table, link, op->out);
    }
    out->update += grads_seconds(table, link, first, n);
}

static struct vp_stage_costs compute_costs(const struct vp_cost_table *table,
                                           const struct vp_plan *plan,
                                           const struct vp_schedule *schedule,
                                           const struct vp_stage_price *price,
                                           int s, int first, int n,
                                           const uint64_t *sets)
{
    struct vp_stage_costs out = { .f = 0.0 };
    double r = 0.0;

    for (int b = first; b < first + n; b++) {
        const struct vp_profile_block *block = &table->blocks[b];

        out.f += block->alone.f;
        out.b += block->alone.b;
        out.w += block->alone.w;
        out.update += block->update;
        if (sets)
            r += vp_cost_recompute(table, b, sets[b - first]);
    }
    add_sums(table, group_link(table, &schedule->stages[s]),
             plan->keep_all || plan->keep_gathered, first, n, sets, &out, &r);
    if (schedule->stages[s].recompute)
        out.r = r;
    else if (plan->recompute_in_b)
        out.b += r;
    move_weight_gradients(schedule, &table->work->graphs[0], first, n, price,
                          &out);
    return out;
}

/* ---- Messages ----------------------------------------------------------- */

/* Returns true if two ranks share memory, so that passing a message costs
 * nothing. */
static bool is_near(const struct vp_cost_table *table,
                    const struct vp_plan *plan, int a, int b, int edge)
{
    bool same_host = host_of(table->profile, a) == host_of(table->profile, b);

    if (a == b)
        return true;
    if (!same_host || (plan->edges && plan->edges[edge] != VP_EDGE_LOCAL))
        return false;
    return table->work->device.host_memory ||
           (plan->devices && plan->devices[a] == plan->devices[b]);
}

/* Returns the transfer time on the link between two ranks, plus the part of its
 * latency that exceeds the latency within a host. The simulator adds the latter
 * to all messages. */
static double message_seconds(const struct vp_device_profile *profile, int from,
                              int to, int64_t n_bytes)
{
    bool near = host_of(profile, from) == host_of(profile, to);
    const struct vp_profile_link *link = near ? &profile->same_host
                                              : &profile->between_hosts;
    double more = link->seconds - profile->same_host.seconds;

    return (double)n_bytes / link->bytes_per_second + (more > 0.0 ? more : 0.0);
}

static void add_messages(const struct vp_cost_table *table,
                         const struct vp_plan *plan,
                         const struct vp_schedule *schedule,
                         const struct vp_stage_price *prices, int s,
                         struct vp_stage_costs *out)
{
    const struct vp_device_profile *profile = table->profile;
    int here = rank_of(table, schedule->stages[s].first_rank);

    for (int side = 0; side < 2; side++) {
        int other = side == 0 ? s + 1 : s - 1, edge = side == 0 ? s : s - 1;
        int64_t n_bytes = side == 0 ? prices[s].act_bytes
                                    : prices[s].grad_bytes;
        double *link = side == 0 ? &out->act : &out->grad;
        double *copy = side == 0 ? &out->act_copy : &out->grad_copy;
        int there;

        if (other < 0 || other >= schedule->n_stages)
            continue;
        there = rank_of(table, schedule->stages[other].first_rank);
        if (is_near(table, plan, here, there, edge))
            continue;
        *link = message_seconds(profile, here, there, n_bytes);
        if (plan->edges && plan->edges[edge] == VP_EDGE_HOST &&
            profile->copy_out > 0.0)
            *copy = (double)n_bytes / profile->copy_out;
    }
}

/* Seconds to send `n_bytes` once around a ring of the replicas. */
static double ring_seconds(const struct vp_cost_table *table,
                           const struct vp_schedule *schedule, int s,
                           int64_t n_bytes)
{
    int n = schedule->stages[s].n_replicas;
    int first = schedule->stages[s].first_rank;

    if (n < 2)
        return 0.0;
    return (double)(n - 1) / n *
           message_seconds(table->profile, rank_of(table, first),
                           rank_of(table, first + n - 1), n_bytes);
}

/* Replicas sum their gradients with an all-reduce, which goes around the ring
 * twice. With shard_optimizer: a reduce-scatter of gradients, an update of the
 * own shard, and an all-gather of weights. */
static void add_replicas(const struct vp_cost_table *table,
                         const struct vp_plan *plan,
                         const struct vp_schedule *schedule,
                         const struct vp_stage_price *price, int s,
                         struct vp_stage_costs *out)
{
    const struct vp_schedule_stage *stage = &schedule->stages[s];
    double once = ring_seconds(table, schedule, s, price->memory.gradients);

    out->reduce = plan->shard_optimizer ? once : 2.0 * once;
    if (plan->shard_optimizer)
        out->update = out->update / stage->n_replicas +
                      ring_seconds(table, schedule, s,
                                   price->memory.weights / stage->n_versions);
}

/* ---- Swap --------------------------------------------------------------- */

/* A device with its own memory copies while it computes. On a device that uses
 * host memory a thread copies and takes a core from computing: copies to the
 * host delay forward, copies back delay backward. */
static void add_swap(const struct vp_device_profile *profile, int64_t n_bytes,
                     struct vp_stage_costs *out)
{
    double bytes = (double)n_bytes;

    if (profile->copy_out > 0.0) {
        out->swap_out = bytes / profile->copy_out_both;
        out->swap_in = bytes / profile->copy_in_both;
        return;
    }
    out->swap_out = bytes / profile->same_host.bytes_per_second;
    out->swap_in = out->swap_out;
    out->f += out->swap_out;
    out->b += out->swap_in;
}

/* Costs of the first slots, which recompute and swap according to plan->slots.
 * `sets`: operators that the other slots recompute. */
static struct vp_stage_costs first_costs(const struct vp_cost_table *table,
                                         const struct vp_plan *plan,
                                         const struct vp_schedule *schedule,
                                         const struct vp_stage_price *price,
                                         int s, int first, int n,
                                         const uint64_t *sets)
{
    const struct vp_plan_slot *slot = plan->slots;
    struct vp_stage_costs out = compute_costs(
        table, plan, schedule, price, s, first, n,
        slot->recompute_sets ? slot->recompute_sets + first : sets);

    if (price->swap_bytes > 0 &&
        (!slot->swap_sets || vp_recompute_any(slot->swap_sets + first, n)))
        add_swap(table->profile, price->swap_bytes, &out);
    return out;
}

/* ---- Devices ------------------------------------------------------------ */

/* Ranks that share a device get the number of the first of these ranks; so do
 * groups. If a group has several members on one device, the capacity of the
 * device is divided by their number. */
static enum vp_status share_devices(const struct vp_cost_table *table,
                                    const struct vp_plan *plan, int n_ranks,
                                    struct vp_plan_costs *out,
                                    struct vp_err *err)
{
    int n_members = table->work->graphs[0].n_members;
    bool shared = false, together;

    if (!plan->devices)
        return VP_OK;
    together = n_members > 1 && plan->devices[0] == plan->devices[1];
    out->device = calloc((size_t)n_ranks, sizeof(*out->device));
    if (!out->device)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    for (int r = 0; r < n_ranks; r++) {
        int first = 0, here = rank_of(table, r);

        while (plan->devices[rank_of(table, first)] != plan->devices[here] ||
               host_of(table->profile, rank_of(table, first)) !=
                   host_of(table->profile, here))
            first++;
        out->device[r] = first;
        shared |= first != r;
    }
    if (shared || together) {
        out->sched.device = out->device;
        out->sched.capacity = table->profile->capacity /
                              (together ? n_members : 1);
    }
    return VP_OK;
}

static void scale_costs(struct vp_stage_costs *costs,
                        const struct vp_profile_load *load)
{
    costs->f *= load->f;
    costs->r *= load->f;
    costs->b *= load->b;
    costs->w *= load->b;
    costs->update *= load->update;
}

/* Applies the measured slowdowns: a stage takes longer than its blocks alone,
 * which ran from the caches; and ranks on different cores slow each other down.
 * Applied only to plans on a single host, where the ranks that compete are
 * known. */
static void add_load(const struct vp_cost_table *table,
                     const struct vp_schedule *schedule,
                     struct vp_plan_costs *out)
{
    const struct vp_device_profile *profile = table->profile;
    struct vp_profile_load alone = vp_profile_load_of(profile,
                                                      rank_of(table, 1));
    struct vp_profile_load load = vp_profile_load_of(
        profile, rank_of(table, schedule->n_ranks));

    if (profile->n_loads == 0 || profile->n_hosts > 1 || out->sched.device ||
        !table->work->device.host_memory)
        return;
    for (int s = 0; s < schedule->n_stages; s++) {
        out->busy[s] = out->stages[s];
        scale_costs(&out->busy[s], &load);
        scale_costs(&out->stages[s], &alone);
    }
    if (schedule->n_ranks > 1)
        out->sched.busy = out->busy;
}

enum vp_status vp_plan_costs_make(const struct vp_cost_table *table,
                                  const struct vp_plan *plan,
                                  const struct vp_schedule *schedule,
                                  const struct vp_stage_price *prices,
                                  struct vp_plan_costs *out, struct vp_err *err)
{
    const struct vp_graph *graph = &table->work->graphs[0];
    uint64_t *room = calloc((size_t)graph->n_blocks, sizeof(*room));
    bool kinds = false;
    int first = 0;

    *out = (struct vp_plan_costs){ .device = NULL };
    if (!room)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    for (int s = 0; s < schedule->n_stages; s++) {
        int n = plan->partition ? plan->partition[s] : graph->n_blocks;
        const uint64_t *sets = vp_plan_stage_sets(plan, graph, s, room);
        int k = vp_plan_n_first_slots(plan, first, n,
                                      schedule->stages[s].n_slots);

        out->stages[s] = compute_costs(table, plan, schedule, &prices[s], s,
                                       first, n, sets);
        if (prices[s].swap_bytes > 0)
            add_swap(table->profile, prices[s].swap_bytes, &out->stages[s]);
        out->n_first_slots[s] = k;
        kinds |= k > 0;
        if (k > 0)
            out->first_slots[s] = first_costs(table, plan, schedule, &prices[s],
                                              s, first, n, sets);
        add_replicas(table, plan, schedule, &prices[s], s, &out->stages[s]);
        add_messages(table, plan, schedule, prices, s, &out->stages[s]);
        first += n;
    }
    free(room);
    out->sched.stages = out->stages;
    if (kinds) {
        out->sched.first_slots = out->first_slots;
        out->sched.n_first_slots = out->n_first_slots;
    }
    out->sched.latency = table->profile->same_host.seconds;
    VP_TRY(share_devices(table, plan, schedule->n_ranks, out, err));
    add_load(table, schedule, out);
    return VP_OK;
}

void vp_plan_costs_release(struct vp_plan_costs *costs)
{
    free(costs->device);
    costs->device = NULL;
}

/* ---- Forecast ----------------------------------------------------------- */

/* The middle of a stream, when the pipeline is full: from the end of one
 * backward of stage 0 to the end of a later one. */
struct middle {
    double begin, end;
    int n_mb;
};

static struct middle middle_of(const struct vp_schedule *schedule,
                               const struct vp_timing *timing)
{
    int from = schedule->first_mb + schedule->n_mb / 4;
    int to = schedule->first_mb + 3 * schedule->n_mb / 4;
    struct middle middle = { 0.0, timing->makespan, schedule->n_mb };

    for (int i = 0; to > from && i < schedule->n_actions; i++) {
        const struct vp_action *action = &schedule->actions[i];

        if (action->kind != VP_ACTION_B || action->stage != 0)
            continue;
        middle.n_mb = to - from;
        if (action->mb == from)
            middle.begin = timing->spans[i].end;
        if (action->mb == to)
            middle.end = timing->spans[i].end;
    }
    return middle;
}

/* Returns the time from the start of a rank's first action to the end of its
 * last. */
static double span_of_rank(const struct vp_schedule *schedule,
                           const struct vp_timing *timing, int r)
{
    const struct vp_rank_list *list = &schedule->ranks[r];
    const struct vp_span *spans = timing->spans +
                                  (list->actions - schedule->actions);

    return list->n_actions > 0 ? spans[list->n_actions - 1].end - spans[0].start
                               : 0.0;
}

/* Steps overlap: a rank that has finished one begins the next while other ranks
 * still run their updates. The longest span decides. */
static double group_seconds(const struct vp_schedule *schedule,
                            const struct vp_timing *timing)
{
    double longest = 0.0;

    for (int r = 0; r < schedule->n_ranks; r++) {
        double span = span_of_rank(schedule, timing, r);

        longest = span > longest ? span : longest;
    }
    return longest;
}

double vp_plan_step_seconds(const struct vp_schedule *schedule,
                            const struct vp_timing *timing)
{
    struct middle middle;

    if (!vp_generator_find(schedule->name)->stream)
        return group_seconds(schedule, timing);
    middle = middle_of(schedule, timing);
    return (middle.end - middle.begin) / middle.n_mb;
}

/* Idle fraction of the time of all ranks in the middle of a stream. */
static double stream_bubble(const struct vp_schedule *schedule,
                            const struct vp_timing *timing)
{
    struct middle middle = middle_of(schedule, timing);
    double busy = 0.0;

    for (int i = 0; i < schedule->n_actions; i++) {
        const struct vp_span *span = &timing->spans[i];
        double from = span->start > middle.begin ? span->start : middle.begin;
        double to = span->end < middle.end ? span->end : middle.end;

        busy += to > from ? to - from : 0.0;
    }
    return 1.0 - busy / (schedule->n_ranks * (middle.end - middle.begin));
}

static double computing(const struct vp_stage_costs *costs)
{
    return costs->f + costs->r + costs->b + costs->w;
}

/* Seconds that a stage computes for one minibatch, averaged over its slots. */
static double stage_work(const struct vp_schedule_stage *stage,
                         const struct vp_plan_costs *costs, int s, int n_mb,
                         bool stream)
{
    double update = costs->stages[s].update;
    double share = (double)costs->n_first_slots[s] / stage->n_slots;

    if (!stream)
        update /= n_mb;
    else if (stage->update_every > 1)
        update /= stage->update_every;
    return (1.0 - share) * computing(&costs->stages[s]) +
           share * computing(&costs->first_slots[s]) + update;
}

enum vp_status vp_plan_forecast_seconds(const struct vp_schedule *schedule,
                                        const struct vp_plan_costs *costs,
                                        struct vp_plan_forecast_time *out,
                                        struct vp_err *err)
{
    bool stream = vp_generator_find(schedule->name)->stream;
    struct vp_timing timing;
    double busy;

    VP_TRY(vp_simulate(schedule, &costs->sched, &timing, err));
    for (int s = 0; s < schedule->n_stages; s++)
        out->stage_busy[s] = stage_work(&schedule->stages[s], costs, s,
                                        schedule->n_mb, stream);
    busy = (1.0 - timing.bubble) * timing.makespan;
    out->step = vp_plan_step_seconds(schedule, &timing);
    out->per_mb = stream ? out->step : out->step / schedule->n_mb;
    out->bubble = stream            ? stream_bubble(schedule, &timing)
                  : out->step > 0.0 ? 1.0 - busy / out->step
                                    : 0.0;
    vp_timing_release(&timing);
    return VP_OK;
}
