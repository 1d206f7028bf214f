/* Makes the plan of one stage: choices and shape from the plan and its
 * schedule, programs by lowering, and their memory. */
#include "plan/stage_plan.h"

#include "graph/recompute.h"
#include "graph/swap.h"
#include "plan/shard.h"

#include <stdlib.h>
#include <string.h>

/* Default size of a bundle: small enough that the last bundle, which is
 * complete only when backward ends, leaves little work to REDUCE; large enough
 * that an ordinary layer has several calls between two bundles. */
enum { BUNDLE_BYTES = 2 * 1024 * 1024 };

/* ---- Spec and shape ----------------------------------------------------- */

bool vp_workload_needs_norm(const struct vp_workload *work)
{
    return work->optim.grad_clip > 0.0f || work->scale.start > 0.0f;
}

bool vp_workload_updates_early(const struct vp_workload *work,
                               const struct vp_schedule *schedule, int stage)
{
    return work->device.updates_early && !schedule->split &&
           work->optim.kind != VP_OPTIM_LAMB && !vp_workload_needs_norm(work) &&
           !work->graphs[0].sequence_parallel && /* gradients lack a sum */
           schedule->stages[stage].n_replicas == 1;
}

static int first_block(const struct vp_plan *plan, int stage)
{
    int block = 0;

    for (int s = 0; plan->partition && s < stage; s++)
        block += plan->partition[s];
    return block;
}

const uint64_t *vp_plan_stage_sets(const struct vp_plan *plan,
                                   const struct vp_graph *graph, int stage,
                                   uint64_t *sets)
{
    int first = first_block(plan, stage);
    int n = plan->partition ? plan->partition[stage] : graph->n_blocks;
    struct vp_err err;

    if (plan->recompute_sets)
        return plan->recompute_sets + first;
    if (!plan->recompute_ratio)
        return NULL;
    if (vp_recompute_tail(graph, first, n, plan->recompute_ratio[stage], sets,
                          &err) != VP_OK)
        vp_bug(__FILE__, __LINE__, "a ratio that was not checked");
    if (plan->recompute_in_b)
        vp_recompute_keep_results(graph, first, n, sets);
    return sets;
}

const uint64_t *vp_plan_stage_swap(const struct vp_plan *plan,
                                   const struct vp_graph *graph, int stage,
                                   const uint64_t *recompute, uint64_t *sets)
{
    int first = first_block(plan, stage);
    struct vp_stage_spec spec = {
        .first_block = first,
        .n_blocks = plan->partition ? plan->partition[stage] : graph->n_blocks,
        .recompute = recompute,
        .keep_all = plan->keep_all,
        .keep_gathered = plan->keep_gathered,
    };

    if (plan->swap_sets)
        return plan->swap_sets + first;
    if (!plan->swap_ratio ||
        vp_swap_head(graph, &spec, plan->swap_ratio[stage], sets) != VP_OK)
        return NULL;
    return sets;
}

static struct vp_stage_spec stage_spec(const struct vp_plan *plan,
                                       const struct vp_workload *work,
                                       const struct vp_schedule *schedule,
                                       int stage, uint64_t *sets)
{
    const struct vp_schedule_stage *has = &schedule->stages[stage];
    struct vp_stage_spec spec = {
        .first_block = first_block(plan, stage),
        .n_blocks = plan->partition ? plan->partition[stage]
                                    : work->graphs[0].n_blocks,
        .recompute_in_b = plan->recompute_in_b,
        .w_recomputed = has->w_recomputed,
        .keep_all = plan->keep_all,
        .keep_gathered = plan->keep_gathered,
        .split_w = schedule->split,
        .forward_only = plan->forward_only,
        .one_slot = has->n_slots == 1,
        .w_linger = work->device.w_linger,
    };

    spec.recompute = vp_plan_stage_sets(plan, &work->graphs[0], stage, sets);
    if (has->n_swap_out > 0)
        spec.swap = vp_plan_stage_swap(plan, &work->graphs[0], stage,
                                       spec.recompute, sets + spec.n_blocks);
    if (plan->block_bases)
        spec.bases = plan->block_bases + spec.first_block;
    if (has->n_replicas > 1)
        spec.bundle_bytes = plan->bundle_bytes ? plan->bundle_bytes
                                               : BUNDLE_BYTES;
    if (has->update_every == 1 &&
        vp_workload_updates_early(work, schedule, stage))
        spec.grad_linger = work->device.grad_linger;
    return spec;
}

struct vp_stage_choices vp_plan_stage_choices(
    const struct vp_plan *plan, const struct vp_workload *work,
    const struct vp_schedule *schedule, int stage, uint64_t *sets)
{
    const struct vp_schedule_stage *has = &schedule->stages[stage];
    struct vp_stage_choices choices = {
        .spec = stage_spec(plan, work, schedule, stage, sets),
        .n_shards = plan->shard_optimizer && has->n_replicas > 1
                        ? has->n_replicas
                        : 0,
    };
    struct vp_stage_spec *spec = &choices.spec;
    int first = spec->first_block;
    const struct vp_plan_slot *slot = plan->slots;

    choices.n_first_slots = vp_plan_n_first_slots(plan, first, spec->n_blocks,
                                                  has->n_slots);
    if (choices.n_first_slots == 0)
        return choices;
    choices.first_recompute = slot->recompute_sets
                                  ? slot->recompute_sets + first
                                  : spec->recompute;
    choices.first_swap = spec->swap;
    if (has->n_swap_out > 0 && slot->swap_sets)
        choices.first_swap = slot->swap_sets + first;
    if (choices.n_first_slots < has->n_slots)
        return choices;
    spec->recompute = choices.first_recompute;
    spec->swap = choices.first_swap;
    return (struct vp_stage_choices){ .spec = *spec,
                                      .n_shards = choices.n_shards };
}

static int n_leaving(const struct vp_schedule *schedule, enum vp_edge_kind edge,
                     int to)
{
    return edge == VP_EDGE_LOCAL
               ? 0
               : VP_STAGE_LEAVING * schedule->stages[to].n_replicas;
}

/* ---- Tied weights ------------------------------------------------------- */

static int count_uses(const struct vp_plan *plan, const struct vp_graph *graph,
                      vp_par owner, int stage)
{
    int first = first_block(plan, stage);
    int end = plan->partition ? first + plan->partition[stage]
                              : graph->n_blocks;
    int n = 0;

    for (vp_par par = owner; par < graph->n_params; par++)
        if ((par == owner || graph->params[par].tied_to == owner) &&
            graph->params[par].block >= first && graph->params[par].block < end)
            n++;
    return n;
}

/* Returns the number of ranks that use a tied parameter. `own_out`: all uses
 * are on one rank that has a single stage. */
static int count_members(const struct vp_plan *plan,
                         const struct vp_graph *graph,
                         const struct vp_schedule *schedule, vp_par owner,
                         bool *own_out)
{
    int n = 0;

    *own_out = false;
    for (int r = 0; r < schedule->n_ranks; r++) {
        const struct vp_rank_list *list = &schedule->ranks[r];
        bool uses = false;

        for (int i = 0; i < list->n_stages; i++)
            uses |= count_uses(plan, graph, owner, list->stages[i]) > 0;
        n += uses;
        if (uses)
            *own_out = n == 1 && list->n_stages == 1;
    }
    return n;
}

/* Returns the bytes of tied gradients that this stage adds in host memory.
 * Devices that can access each other need none, except for uses on a single
 * rank with several stages. */
static int64_t tie_bytes(const struct vp_plan *plan,
                         const struct vp_graph *graph,
                         const struct vp_schedule *schedule, int stage)
{
    int64_t sum = 0;

    if (plan->tie_edge == VP_EDGE_LOCAL)
        return 0;
    for (vp_par par = 0; par < graph->n_params; par++) {
        const struct vp_param *param = &graph->params[par];
        bool own;

        if (!param->has_copies)
            continue;
        if (count_members(plan, graph, schedule, par, &own) > 1
                ? plan->tie_edge == VP_EDGE_DEVICE
                : own)
            continue;
        sum += count_uses(plan, graph, par, stage) * param->rows * param->cols *
               (int64_t)sizeof(float);
    }
    return sum;
}

struct vp_stage_shape vp_plan_stage_shape(const struct vp_plan *plan,
                                          const struct vp_graph *graph,
                                          const struct vp_schedule *schedule,
                                          int stage)
{
    const struct vp_schedule_stage *has = &schedule->stages[stage];
    struct vp_stage_shape shape = {
        .n_slots = has->n_slots,
        .n_versions = has->n_versions,
        .n_first_slots = vp_plan_n_first_slots(
            plan, first_block(plan, stage),
            plan->partition ? plan->partition[stage] : graph->n_blocks,
            has->n_slots),
        .n_recomputed = has->n_recomputed,
        .n_swap_out = has->n_swap_out,
        .n_swap_in = has->n_swap_in,
        .n_act_bufs = has->n_act_bufs,
        .n_grad_bufs = has->n_grad_bufs,
        .compress = plan->compress,
        .mirrored = has->n_replicas > 1 && plan->replica_edges &&
                    plan->replica_edges[stage] == VP_EDGE_HOST,
        .tie_bytes = tie_bytes(plan, graph, schedule, stage),
    };

    if (shape.n_first_slots == shape.n_slots)
        shape.n_first_slots = 0; /* all slots are equal */
    if (plan->edges && stage > 0)
        shape.edge[0] = plan->edges[stage - 1];
    if (plan->edges && stage + 1 < schedule->n_stages)
        shape.edge[1] = plan->edges[stage];
    shape.n_out_bufs = n_leaving(schedule, shape.edge[1], stage + 1);
    shape.n_din_bufs = n_leaving(schedule, shape.edge[0], stage - 1);
    return shape;
}

/* ---- Messages ----------------------------------------------------------- */

enum vp_edge_kind vp_stage_edge(const struct vp_stage_shape *shape,
                                enum vp_space space)
{
    bool next = space == VP_SPACE_OUT || space == VP_SPACE_DOUT;

    return shape->edge[next];
}

/* From device to device, rounded values are sent as FP32. */
bool vp_stage_compresses(const struct vp_stage_sizes *sizes,
                         const struct vp_stage_shape *shape,
                         enum vp_space space)
{
    return shape->compress && sizes->has_floats &&
           vp_stage_edge(shape, space) != VP_EDGE_DEVICE;
}

int64_t vp_stage_wire_bytes(const struct vp_stage_sizes *sizes,
                            const struct vp_stage_shape *shape,
                            enum vp_space space)
{
    return vp_stage_compresses(sizes, shape, space) ? sizes->compressed[space]
                                                    : sizes->message[space];
}

/* Compressed entries are stored without gaps. */
int64_t vp_program_compressed_bytes(const struct vp_program *program,
                                    enum vp_space space)
{
    const struct vp_boundary *boundary = vp_program_boundary(program, space);
    int64_t n = 0;

    for (int i = 0; i < boundary->n_entries; i++) {
        const struct vp_boundary_value *entry = &boundary->entries[i];
        bool is_float = program->graph->values[entry->value].dtype ==
                        VP_DTYPE_F32;

        n += is_float ? entry->n_bytes / 2 : entry->n_bytes;
    }
    return n;
}

/* ---- Memory ------------------------------------------------------------- */

/* Compressed messages through the host have buffers of their own. */
static int64_t compressed_bytes(const struct vp_stage_sizes *sizes,
                                const struct vp_stage_shape *shape)
{
    const struct {
        enum vp_space space;
        int n;
    } rings[] = {
        { VP_SPACE_IN, shape->n_act_bufs },
        { VP_SPACE_DOUT, shape->n_grad_bufs },
        { VP_SPACE_OUT, shape->n_out_bufs },
        { VP_SPACE_DIN, shape->n_din_bufs },
    };
    int64_t sum = 0;

    for (size_t i = 0; i < VP_COUNT_OF(rings); i++)
        if (vp_stage_edge(shape, rings[i].space) == VP_EDGE_HOST &&
            vp_stage_compresses(sizes, shape, rings[i].space))
            sum += rings[i].n * sizes->compressed[rings[i].space];
    return sum;
}

struct vp_memory vp_stage_memory(const struct vp_workload *work,
                                 const struct vp_stage_sizes *sizes,
                                 const struct vp_stage_shape *shape, bool first)
{
    const int64_t *n = sizes->n_bytes;
    int n_in = first ? shape->n_slots : shape->n_act_bufs;
    struct vp_memory memory = {
        .weights = n[VP_SPACE_PARAM] * shape->n_versions,
        .gradients = n[VP_SPACE_GRAD],
        .moments = sizes->moment_bytes * vp_optim_n_moments(work->optim.kind) +
                   sizes->master_bytes,
        .activations = sizes->slot_bytes[VP_SLOT_REST] *
                           (shape->n_slots - shape->n_first_slots) +
                       sizes->slot_bytes[VP_SLOT_FIRST] * shape->n_first_slots +
                       n[VP_SPACE_RECOMPUTED] * shape->n_recomputed +
                       n[VP_SPACE_SWAPPED] *
                           (shape->n_swap_out + shape->n_swap_in),
        .cache = n[VP_SPACE_CACHE],
        .boundary = n[VP_SPACE_IN] * n_in +
                    n[VP_SPACE_DOUT] * shape->n_grad_bufs +
                    n[VP_SPACE_OUT] * shape->n_out_bufs +
                    n[VP_SPACE_DIN] * shape->n_din_bufs,
        .work = n[VP_SPACE_WORK],
    };

    if (work->device.host_memory)
        memory.boundary += compressed_bytes(sizes, shape);
    memory.total = memory.weights + memory.gradients + memory.moments +
                   memory.activations + memory.cache + memory.boundary +
                   memory.work;
    return memory;
}

/* ---- Programs ----------------------------------------------------------- */

static void raise_to(int64_t *most, int64_t n)
{
    *most = n > *most ? n : *most;
}

static void widen(struct vp_stage_sizes *sizes,
                  const struct vp_device_facts *device,
                  const struct vp_program *program)
{
    const struct vp_graph *graph = program->graph;

    if (device->staging)
        raise_to(&sizes->staging_bytes, (int64_t)device->staging(program));
    if (program->logits.space != VP_SPACE_NONE)
        raise_to(&sizes->logits_bytes, vp_value_bytes(graph, graph->logits));
    for (int space = 0; space < VP_SPACE_COUNT; space++)
        raise_to(&sizes->n_bytes[space], program->n_bytes[space]);
}

/* Training programs only: evaluations send the same values. */
static void widen_messages(struct vp_stage_sizes *sizes,
                           const struct vp_program *program)
{
    for (enum vp_space space = VP_SPACE_IN; space <= VP_SPACE_DOUT; space++) {
        raise_to(&sizes->message[space],
                 vp_program_boundary(program, space)->n_bytes);
        raise_to(&sizes->compressed[space],
                 vp_program_compressed_bytes(program, space));
    }
}

static void size_state(struct vp_stage_sizes *sizes,
                       const struct vp_program *program, int n_shards)
{
    enum vp_dtype dtype = program->graph->dtype;
    int64_t n = vp_shard_room(program, n_shards);

    sizes->has_floats = dtype == VP_DTYPE_F32;
    if (program->spec.forward_only)
        return;
    sizes->train_bytes = program->layout.train_bytes;
    sizes->moment_bytes = n * (int64_t)sizeof(float);
    sizes->master_bytes = n * vp_optim_master_bytes(dtype);
}

static int count_tensors(const struct vp_program *program)
{
    const struct vp_layout *layout = &program->layout;
    int n = 0;

    for (int i = 0; i < layout->n_entries; i++) {
        const struct vp_param *param =
            &program->graph->params[layout->entries[i].par];

        if (!param->constant && layout->entries[i].storage == i)
            n += param->n_parts;
    }
    return n;
}

/* Tensors are listed once for all buckets, and all buckets share the cache, so
 * their layouts must agree. */
static bool has_places_of(const struct vp_program *a,
                          const struct vp_program *b)
{
    const struct vp_layout *x = &a->layout, *y = &b->layout;

    for (int i = 0; i < x->n_entries; i++)
        if (x->entries[i].offset != y->entries[i].offset ||
            x->entries[i].grad_offset != y->entries[i].grad_offset)
            return false;
    return x->n_entries == y->n_entries &&
           a->n_bytes[VP_SPACE_CACHE] == b->n_bytes[VP_SPACE_CACHE];
}

static void raise_slots(struct vp_stage_sizes *sizes, int n_kinds,
                        const struct vp_program *program)
{
    for (int kind = 0; kind < n_kinds; kind++)
        raise_to(&sizes->slot_bytes[kind], program->n_bytes[VP_SPACE_SLOT]);
}

/* Lowers the program of one kind of slots for bucket `i`. */
static enum vp_status lower_kind(const struct vp_workload *work, int i,
                                 const struct vp_stage_spec *spec,
                                 enum vp_slot_kind kind,
                                 struct vp_stage_plan *plan, struct vp_err *err)
{
    const struct vp_device_facts *device = &work->device;
    struct vp_program *program = &plan->train[kind * plan->n_buckets + i];

    VP_TRY(vp_program_lower(&work->graphs[i], spec, device->scratch,
                            device->scratch_ctx, program, err));
    VP_BUG_ON(!has_places_of(program, &plan->train[0]));
    widen(&plan->sizes, device, program);
    raise_to(&plan->sizes.slot_bytes[kind], program->n_bytes[VP_SPACE_SLOT]);
    if (i == 0)
        memcpy(plan->sizes.flops[kind], program->flops, sizeof(program->flops));
    return VP_OK;
}

static enum vp_status lower_bucket(const struct vp_workload *work, int i,
                                   const struct vp_stage_choices *choices,
                                   const uint64_t *any_recompute,
                                   struct vp_stage_plan *plan,
                                   struct vp_err *err)
{
    const struct vp_device_facts *device = &work->device;
    struct vp_stage_spec rest = choices->spec, first, eval = choices->spec;

    rest.any_recompute = any_recompute;
    first = rest;
    first.recompute = choices->first_recompute;
    first.swap = choices->first_swap;
    eval.forward_only = true;
    VP_TRY(lower_kind(work, i, &rest, VP_SLOT_REST, plan, err));
    widen_messages(&plan->sizes, &plan->train[i]);
    if (plan->n_kinds > 1)
        VP_TRY(lower_kind(work, i, &first, VP_SLOT_FIRST, plan, err));
    if (!work->has_eval || rest.forward_only)
        return VP_OK;
    VP_TRY(vp_program_lower(&work->graphs[i], &eval, device->scratch,
                            device->scratch_ctx, &plan->eval[i], err));
    widen(&plan->sizes, device, &plan->eval[i]);
    raise_slots(&plan->sizes, plan->n_kinds, &plan->eval[i]);
    return VP_OK;
}

/* Joins the sets that the two kinds of slots recompute. *out is NULL if there
 * is one kind, or nothing is recomputed. */
static enum vp_status join_sets(const struct vp_stage_choices *choices,
                                uint64_t **out)
{
    const uint64_t *a = choices->spec.recompute, *b = choices->first_recompute;
    size_t n = (size_t)choices->spec.n_blocks;

    *out = NULL;
    if (choices->n_first_slots == 0 || (!a && !b))
        return VP_OK;
    *out = calloc(n, sizeof(**out));
    for (size_t i = 0; *out && i < n; i++)
        (*out)[i] = (a ? a[i] : 0) | (b ? b[i] : 0);
    return *out ? VP_OK : VP_ERR_NOMEM;
}

enum vp_status vp_stage_plan_make(const struct vp_workload *work,
                                  const struct vp_stage_choices *choices,
                                  const struct vp_stage_shape *shape,
                                  struct vp_stage_plan *out, struct vp_err *err)
{
    size_t n = (size_t)work->n_graphs;
    int n_kinds = choices->n_first_slots > 0 ? VP_SLOT_KINDS : 1;
    struct vp_stage_plan plan = {
        .spec = choices->spec,
        .shape = *shape,
        .train = calloc((size_t)n_kinds * n, sizeof(*plan.train)),
        .eval = calloc(n, sizeof(*plan.eval)),
        .n_buckets = work->n_graphs,
        .n_kinds = n_kinds,
        .n_shards = choices->n_shards,
    };
    uint64_t *any_recompute = NULL;
    enum vp_status st = join_sets(choices, &any_recompute);

    if (!plan.train || !plan.eval || st != VP_OK)
        st = vp_err_set(err, VP_ERR_NOMEM, "planning a stage: out of memory");
    for (int i = 0; i < work->n_graphs && st == VP_OK; i++)
        st = lower_bucket(work, i, choices, any_recompute, &plan, err);
    free(any_recompute);
    if (st != VP_OK) {
        vp_stage_plan_release(&plan);
        return st;
    }
    plan.spec = plan.train[0].spec; /* with its own copy of the sets */
    size_state(&plan.sizes, &plan.train[0], choices->n_shards);
    plan.sizes.n_tensors = count_tensors(&plan.train[0]);
    plan.memory = vp_stage_memory(work, &plan.sizes, shape,
                                  plan.spec.first_block == 0);
    *out = plan;
    return VP_OK;
}

void vp_stage_plan_release(struct vp_stage_plan *plan)
{
    for (int i = 0; plan->train && i < plan->n_kinds * plan->n_buckets; i++)
        vp_program_release(&plan->train[i]);
    for (int i = 0; plan->eval && i < plan->n_buckets; i++)
        vp_program_release(&plan->eval[i]);
    free(plan->train);
    free(plan->eval);
    *plan = (struct vp_stage_plan){ .n_buckets = 0 };
}
