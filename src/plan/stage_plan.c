#include "plan/stage_plan.h"

#include <stdlib.h>

/* Gradients that replicas add at once: enough calls lie between two bundles of
 * an ordinary layer, and the last ones, final only when backward ends, leave
 * little to REDUCE. */
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
           schedule->stages[stage].n_replicas == 1;
}

static int first_block(const struct vp_plan *plan, int stage)
{
    int block = 0;

    for (int s = 0; plan->partition && s < stage; s++)
        block += plan->partition[s];
    return block;
}

struct vp_stage_spec vp_plan_stage_spec(const struct vp_plan *plan,
                                        const struct vp_workload *work,
                                        const struct vp_schedule *schedule,
                                        int stage)
{
    const struct vp_schedule_stage *has = &schedule->stages[stage];
    struct vp_stage_spec spec = {
        .first_block = first_block(plan, stage),
        .n_blocks = plan->partition ? plan->partition[stage]
                                    : work->graphs[0].n_blocks,
        .recompute_ratio = plan->recompute_ratio ? plan->recompute_ratio[stage]
                                                 : 0.0,
        .keep_all = plan->keep_all,
        .split_w = schedule->split,
        .one_slot = has->n_slots == 1,
        .w_linger = work->device.w_linger,
    };

    if (has->n_replicas > 1)
        spec.bundle_bytes = plan->bundle_bytes ? plan->bundle_bytes
                                               : BUNDLE_BYTES;
    if (has->update_every == 1 &&
        vp_workload_updates_early(work, schedule, stage))
        spec.grad_linger = work->device.grad_linger;
    return spec;
}

static int n_leaving(const struct vp_schedule *schedule, enum vp_edge_kind edge,
                     int to)
{
    return edge == VP_EDGE_LOCAL
               ? 0
               : VP_STAGE_LEAVING * schedule->stages[to].n_replicas;
}

struct vp_stage_shape vp_plan_stage_shape(const struct vp_plan *plan,
                                          const struct vp_schedule *schedule,
                                          int stage)
{
    const struct vp_schedule_stage *has = &schedule->stages[stage];
    struct vp_stage_shape shape = {
        .n_slots = has->n_slots,
        .n_versions = has->n_versions,
        .n_act_bufs = has->n_act_bufs,
        .n_grad_bufs = has->n_grad_bufs,
        .compress = plan->compress,
    };

    if (plan->edges && stage > 0)
        shape.edge[0] = plan->edges[stage - 1];
    if (plan->edges && stage + 1 < schedule->n_stages)
        shape.edge[1] = plan->edges[stage];
    shape.n_out_bufs = n_leaving(schedule, shape.edge[1], stage + 1);
    shape.n_din_bufs = n_leaving(schedule, shape.edge[0], stage - 1);
    return shape;
}

/* ---- Messages ----------------------------------------------------------- */

enum vp_edge_kind vp_stage_plan_edge(const struct vp_stage_plan *plan,
                                     enum vp_space space)
{
    bool next = space == VP_SPACE_OUT || space == VP_SPACE_DOUT;

    return plan->shape.edge[next];
}

/* Types of two bytes have nothing to spare. */
bool vp_stage_plan_compresses(const struct vp_stage_plan *plan)
{
    return plan->shape.compress && plan->train[0].graph->dtype == VP_DTYPE_F32;
}

/* Compressed entries follow each other without gaps. Devices round, but send
 * floats as floats. */
int64_t vp_stage_plan_message_bytes(const struct vp_stage_plan *plan,
                                    const struct vp_program *program,
                                    enum vp_space space)
{
    const struct vp_boundary *boundary = vp_program_boundary(program, space);
    int64_t n = 0;

    if (!vp_stage_plan_compresses(plan) ||
        vp_stage_plan_edge(plan, space) == VP_EDGE_DEVICE)
        return boundary->n_bytes;
    for (int i = 0; i < boundary->n_entries; i++) {
        const struct vp_boundary_value *entry = &boundary->entries[i];
        bool is_float = program->graph->values[entry->value].dtype ==
                        VP_DTYPE_F32;

        n += is_float ? entry->n_bytes / 2 : entry->n_bytes;
    }
    return n;
}

int64_t vp_stage_plan_wire_bytes(const struct vp_stage_plan *plan,
                                 enum vp_space space)
{
    int64_t most = 0;

    for (int i = 0; i < plan->n_buckets; i++) {
        int64_t n = vp_stage_plan_message_bytes(plan, &plan->train[i], space);

        most = n > most ? n : most;
    }
    return most;
}

/* Where the host carries messages, the compressed ones have memory of their
 * own. */
static int64_t compressed_bytes(const struct vp_stage_plan *plan)
{
    const struct vp_stage_shape *shape = &plan->shape;
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
        if (vp_stage_plan_edge(plan, rings[i].space) == VP_EDGE_HOST)
            sum += rings[i].n * vp_stage_plan_wire_bytes(plan, rings[i].space);
    return sum;
}

/* ---- Memory ------------------------------------------------------------- */

int64_t vp_stage_plan_moment_bytes(const struct vp_stage_plan *plan)
{
    return plan->train[0].layout.train_bytes;
}

int64_t vp_stage_plan_master_bytes(const struct vp_stage_plan *plan)
{
    return vp_stage_plan_moment_bytes(plan) / (int64_t)sizeof(float) *
           vp_optim_master_bytes(plan->train[0].graph->dtype);
}

static void add_memory(const struct vp_workload *work,
                       struct vp_stage_plan *plan)
{
    const int64_t *n = plan->n_bytes;
    const struct vp_stage_shape *shape = &plan->shape;
    int n_in = plan->spec.first_block == 0 ? shape->n_slots : shape->n_act_bufs;
    struct vp_memory *memory = &plan->memory;

    memory->weights = n[VP_SPACE_PARAM] * shape->n_versions;
    memory->gradients = n[VP_SPACE_GRAD];
    memory->moments = vp_stage_plan_moment_bytes(plan) *
                          vp_optim_n_moments(work->optim.kind) +
                      vp_stage_plan_master_bytes(plan);
    memory->activations = n[VP_SPACE_SLOT] * shape->n_slots +
                          n[VP_SPACE_RECOMPUTED];
    memory->boundary = n[VP_SPACE_IN] * n_in +
                       n[VP_SPACE_DOUT] * shape->n_grad_bufs +
                       n[VP_SPACE_OUT] * shape->n_out_bufs +
                       n[VP_SPACE_DIN] * shape->n_din_bufs;
    if (work->device.host_memory && vp_stage_plan_compresses(plan))
        memory->boundary += compressed_bytes(plan);
    memory->work = n[VP_SPACE_WORK];
    memory->total = memory->weights + memory->gradients + memory->moments +
                    memory->activations + memory->boundary + memory->work;
}

/* ---- Programs ----------------------------------------------------------- */

static void widen(struct vp_stage_plan *plan, const struct vp_program *program)
{
    for (int space = 0; space < VP_SPACE_COUNT; space++)
        if (program->n_bytes[space] > plan->n_bytes[space])
            plan->n_bytes[space] = program->n_bytes[space];
}

/* Tensors are listed once, for all buckets. */
static bool has_places_of(const struct vp_program *a,
                          const struct vp_program *b)
{
    const struct vp_layout *x = &a->layout, *y = &b->layout;

    for (int i = 0; i < x->n_entries; i++)
        if (x->entries[i].offset != y->entries[i].offset ||
            x->entries[i].grad_offset != y->entries[i].grad_offset)
            return false;
    return x->n_entries == y->n_entries;
}

static enum vp_status lower_bucket(const struct vp_workload *work, int i,
                                   struct vp_stage_plan *plan,
                                   struct vp_err *err)
{
    const struct vp_graph *graph = &work->graphs[i];
    const struct vp_device_facts *device = &work->device;
    struct vp_stage_spec eval_spec = plan->spec;

    eval_spec.forward_only = true;
    VP_TRY(vp_program_lower(graph, &plan->spec, device->scratch,
                            device->scratch_ctx, &plan->train[i], err));
    VP_BUG_ON(!has_places_of(&plan->train[i], &plan->train[0]));
    widen(plan, &plan->train[i]);
    if (!work->has_eval)
        return VP_OK;
    VP_TRY(vp_program_lower(graph, &eval_spec, device->scratch,
                            device->scratch_ctx, &plan->eval[i], err));
    widen(plan, &plan->eval[i]);
    return VP_OK;
}

enum vp_status vp_stage_plan_make(const struct vp_workload *work,
                                  const struct vp_stage_spec *spec,
                                  const struct vp_stage_shape *shape,
                                  struct vp_stage_plan *out, struct vp_err *err)
{
    size_t n = (size_t)work->n_graphs;
    struct vp_stage_plan plan = {
        .spec = *spec,
        .shape = *shape,
        .train = calloc(n, sizeof(*plan.train)),
        .eval = calloc(n, sizeof(*plan.eval)),
        .n_buckets = work->n_graphs,
    };
    enum vp_status st = VP_OK;

    if (!plan.train || !plan.eval)
        st = vp_err_set(err, VP_ERR_NOMEM, "planning a stage: out of memory");
    for (int i = 0; i < work->n_graphs && st == VP_OK; i++)
        st = lower_bucket(work, i, &plan, err);
    if (st != VP_OK) {
        vp_stage_plan_release(&plan);
        return st;
    }
    add_memory(work, &plan);
    *out = plan;
    return VP_OK;
}

void vp_stage_plan_release(struct vp_stage_plan *plan)
{
    for (int i = 0; i < plan->n_buckets; i++) {
        if (plan->train)
            vp_program_release(&plan->train[i]);
        if (plan->eval)
            vp_program_release(&plan->eval[i]);
    }
    free(plan->train);
    free(plan->eval);
    *plan = (struct vp_stage_plan){ .n_buckets = 0 };
}
