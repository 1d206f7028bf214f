/* Memory of a stage: tables, buffers, compiled programs, events. stage_run.c
 * runs it. */
#include "runtime/stage/shard_table.h"
#include "runtime/stage/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_first(const struct vp_stage *stage)
{
    return stage->plan.spec.first_block == 0;
}

/* ---- Tables ------------------------------------------------------------- */

enum tie { FREE, OWNER, COPY };

static enum tie tie_of(const struct vp_param *param)
{
    return param->tied_to != VP_NONE ? COPY : param->has_copies ? OWNER : FREE;
}

/* Lists the tensors of those parameters stored here that are tied as `tie`
 * says. */
static void list_some(struct vp_stage *stage, enum tie tie)
{
    const struct vp_program *program = &stage->plan.train[0];
    const struct vp_layout *layout = &program->layout;
    const struct vp_graph *graph = program->graph;

    for (int i = 0; i < layout->n_entries; i++) {
        const struct vp_layout_entry *entry = &layout->entries[i];
        const struct vp_param *param = &graph->params[entry->par];

        if (param->constant || entry->storage != i || tie_of(param) != tie)
            continue;
        for (int j = 0; j < param->n_parts; j++) {
            stage->tensor_names[stage->n_tensors] = param->part[j].name;
            stage->tensor_params[stage->n_tensors] = param;
            stage->tensors[stage->n_tensors++] = (struct vp_optim_tensor){
                .offset = entry->offset / vp_dtype_bytes(graph->dtype) +
                          param->part[j].row * param->cols,
                .grad = entry->grad_offset / (int64_t)sizeof(float) +
                        param->part[j].row * param->cols,
                .n = param->part[j].rows * param->cols,
                .block = param->block,
                .decay = param->decay,
            };
        }
    }
}

/* Allocates the sums from which LAMB computes trust ratios. */
static enum vp_status make_squares(struct vp_stage *stage)
{
    size_t n = (size_t)stage->n_tensors + 1;
    size_t n_members = (size_t)stage->config.work.graphs[0].n_members;

    if (stage->config.work.optim.kind != VP_OPTIM_LAMB)
        return VP_OK;
    stage->squares = calloc(n, sizeof(*stage->squares));
    stage->all_squares = calloc(n * n_members, sizeof(*stage->all_squares));
    stage->ratios = calloc(n, sizeof(*stage->ratios));
    return stage->squares && stage->all_squares && stage->ratios ? VP_OK
                                                                 : VP_ERR_NOMEM;
}

static enum vp_status list_tensors(struct vp_stage *stage)
{
    size_t most = (size_t)stage->plan.train[0].layout.n_entries * VP_MAX_PART +
                  1;

    stage->tensors = calloc(most, sizeof(*stage->tensors));
    stage->tensor_names = calloc(most, sizeof(*stage->tensor_names));
    stage->tensor_params = calloc(most, sizeof(struct vp_param *));
    if (!stage->tensors || !stage->tensor_names || !stage->tensor_params)
        return VP_ERR_NOMEM;
    list_some(stage, FREE);
    stage->n_free_tensors = stage->n_tensors;
    list_some(stage, OWNER);
    stage->n_own_tensors = stage->n_tensors;
    list_some(stage, COPY);
    VP_BUG_ON(stage->n_tensors != stage->plan.sizes.n_tensors);
    return make_squares(stage);
}

static enum vp_status make_tables(struct vp_stage *stage)
{
    const struct vp_stage_shape *shape = &stage->plan.shape;

    stage->buckets = calloc((size_t)stage->plan.n_buckets,
                            sizeof(*stage->buckets));
    stage->slots = calloc((size_t)shape->n_slots, sizeof(*stage->slots));
    stage->batches = calloc((size_t)shape->n_slots, sizeof(*stage->batches));
    stage->act_bufs = calloc((size_t)shape->n_act_bufs + 1,
                             sizeof(*stage->act_bufs));
    stage->grad_bufs = calloc((size_t)shape->n_grad_bufs + 1,
                              sizeof(*stage->grad_bufs));
    stage->out_bufs = calloc((size_t)shape->n_out_bufs + 1,
                             sizeof(*stage->out_bufs));
    stage->din_bufs = calloc((size_t)shape->n_din_bufs + 1,
                             sizeof(*stage->din_bufs));
    stage->weights = calloc((size_t)shape->n_versions, sizeof(*stage->weights));
    stage->loss_read = calloc((size_t)shape->n_slots,
                              sizeof(struct vp_event *));
    stage->recomputed = calloc((size_t)shape->n_recomputed + 1,
                               sizeof(*stage->recomputed));
    stage->swap_out = calloc((size_t)shape->n_swap_out + 1,
                             sizeof(*stage->swap_out));
    stage->swap_in = calloc((size_t)shape->n_swap_in + 1,
                            sizeof(*stage->swap_in));
    stage->ahead = calloc((size_t)stage->plan.spec.n_blocks,
                          sizeof(*stage->ahead));
    if (!stage->buckets || !stage->slots || !stage->batches ||
        !stage->act_bufs || !stage->grad_bufs || !stage->out_bufs ||
        !stage->din_bufs || !stage->weights || !stage->loss_read ||
        !stage->recomputed || !stage->swap_out || !stage->swap_in ||
        !stage->ahead)
        return VP_ERR_NOMEM;
    return VP_OK;
}

enum vp_status vp_stage_init(struct vp_stage *stage,
                             const struct vp_stage_config *config,
                             struct vp_backend *backend,
                             const struct vp_stage_choices *choices,
                             const struct vp_stage_shape *shape,
                             struct vp_err *err)
{
    enum vp_status st;

    *stage = (struct vp_stage){ .config = *config,
                                .ops = config->backend,
                                .backend = backend,
                                .device = vp_backend_device(backend),
                                .scale = {
                                    .value = config->work.scale.start } };
    VP_TRY(
        vp_stage_plan_make(&config->work, choices, shape, &stage->plan, err));
    if (make_tables(stage) != VP_OK || list_tensors(stage) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "planning a stage: out of memory");
    st = vp_stream_create(stage->device, &stage->stream);
    if (st != VP_OK)
        return vp_err_set(err, st, "planning a stage: %s: %s",
                          vp_status_name(st),
                          vp_device_last_error(stage->device));
    return VP_OK;
}

/* ---- Memory ------------------------------------------------------------- */

/* Calls `fn` for every buffer of the stage, to allocate or to free it. */
static enum vp_status each_buffer(struct vp_stage *stage,
                                  enum vp_status (*fn)(struct vp_stage *stage,
                                                       void **buffer,
                                                       int64_t n_bytes))
{
    const struct vp_stage_shape *shape = &stage->plan.shape;
    const int64_t *n = stage->plan.sizes.n_bytes;

    for (int i = 0; i < shape->n_versions; i++)
        VP_TRY(fn(stage, &stage->weights[i], n[VP_SPACE_PARAM]));
    VP_TRY(fn(stage, &stage->master, stage->plan.sizes.master_bytes));
    VP_TRY(fn(stage, (void **)&stage->grads, n[VP_SPACE_GRAD]));
    for (int i = 0; i < vp_optim_n_moments(stage->config.work.optim.kind); i++)
        VP_TRY(fn(stage, (void **)&stage->moment[i],
                  stage->plan.sizes.moment_bytes));
    VP_TRY(fn(stage, &stage->work, n[VP_SPACE_WORK]));
    VP_TRY(fn(stage, &stage->cache, n[VP_SPACE_CACHE]));
    for (int i = 0; i < shape->n_recomputed; i++)
        VP_TRY(fn(stage, &stage->recomputed[i], n[VP_SPACE_RECOMPUTED]));
    for (int i = 0; i < shape->n_swap_out; i++)
        VP_TRY(fn(stage, &stage->swap_out[i], n[VP_SPACE_SWAPPED]));
    for (int i = 0; i < shape->n_swap_in; i++)
        VP_TRY(fn(stage, &stage->swap_in[i], n[VP_SPACE_SWAPPED]));
    for (int i = 0; i < shape->n_slots; i++) {
        enum vp_slot_kind kind = vp_stage_slot_kind(shape, i);

        VP_TRY(fn(stage, &stage->slots[i].data,
                  stage->plan.sizes.slot_bytes[kind]));
        if (is_first(stage))
            VP_TRY(fn(stage, &stage->batches[i].tensors, n[VP_SPACE_IN]));
    }
    for (int i = 0; !is_first(stage) && i < shape->n_act_bufs; i++)
        VP_TRY(fn(stage, &stage->act_bufs[i].tensors, n[VP_SPACE_IN]));
    for (int i = 0; i < shape->n_grad_bufs; i++)
        VP_TRY(fn(stage, &stage->grad_bufs[i].tensors, n[VP_SPACE_DOUT]));
    for (int i = 0; i < shape->n_out_bufs; i++)
        VP_TRY(fn(stage, &stage->out_bufs[i].tensors, n[VP_SPACE_OUT]));
    for (int i = 0; i < shape->n_din_bufs; i++)
        VP_TRY(fn(stage, &stage->din_bufs[i].tensors, n[VP_SPACE_DIN]));
    return VP_OK;
}

static enum vp_status alloc_buffer(struct vp_stage *stage, void **buffer,
                                   int64_t n_bytes)
{
    if (n_bytes == 0)
        return VP_OK;
    return vp_device_alloc(stage->device, (size_t)n_bytes, buffer);
}

static enum vp_status free_buffer(struct vp_stage *stage, void **buffer,
                                  int64_t n_bytes)
{
    vp_device_free(stage->device, *buffer, (size_t)n_bytes);
    *buffer = NULL;
    return VP_OK;
}

/* ---- Programs ----------------------------------------------------------- */

static enum vp_status compile_bucket(struct vp_stage *stage, int i,
                                     struct vp_err *err)
{
    struct vp_stage_bucket *bucket = &stage->buckets[i];

    for (int kind = 0; kind < stage->plan.n_kinds; kind++)
        VP_TRY(stage->ops->compile(
            stage->backend,
            &stage->plan.train[kind * stage->plan.n_buckets + i],
            &bucket->train[kind], err));
    if (!stage->plan.eval[i].graph)
        return VP_OK;
    return stage->ops->compile(stage->backend, &stage->plan.eval[i],
                               &bucket->eval, err);
}

/* ---- Events ------------------------------------------------------------- */

typedef enum vp_status (*event_fn)(struct vp_stage *stage,
                                   struct vp_event **event);

static enum vp_status each_of(struct vp_stage *stage,
                              struct vp_stage_message *messages, int n,
                              enum vp_space space, event_fn fn)
{
    for (int i = 0; i < n; i++) {
        VP_TRY(fn(stage, &messages[i].read));
        if (vp_stage_edge(&stage->plan.shape, space) == VP_EDGE_DEVICE)
            VP_TRY(fn(stage, &messages[i].written));
    }
    return VP_OK;
}

/* Calls `fn` for every event of the stage. */
static enum vp_status each_event(struct vp_stage *stage, event_fn fn)
{
    const struct vp_stage_shape *shape = &stage->plan.shape;

    VP_TRY(fn(stage, &stage->idle));
    VP_TRY(fn(stage, &stage->summed));
    for (int i = 0; i < shape->n_slots; i++)
        VP_TRY(fn(stage, &stage->loss_read[i]));
    for (int i = 0; is_first(stage) && i < shape->n_slots; i++)
        VP_TRY(fn(stage, &stage->batches[i].read));
    VP_TRY(each_of(stage, stage->act_bufs, shape->n_act_bufs, VP_SPACE_IN, fn));
    VP_TRY(each_of(stage, stage->grad_bufs, shape->n_grad_bufs, VP_SPACE_DOUT,
                   fn));
    VP_TRY(
        each_of(stage, stage->out_bufs, shape->n_out_bufs, VP_SPACE_OUT, fn));
    return each_of(stage, stage->din_bufs, shape->n_din_bufs, VP_SPACE_DIN, fn);
}

static enum vp_status create_event(struct vp_stage *stage,
                                   struct vp_event **event)
{
    return vp_event_create(stage->device, event);
}

static enum vp_status free_event(struct vp_stage *stage,
                                 struct vp_event **event)
{
    (void)stage;
    vp_event_free(*event);
    *event = NULL;
    return VP_OK;
}

/* ---- The whole ---------------------------------------------------------- */

/* Batches are written to memory from which the device can copy. */
static enum vp_status allocate_batches(struct vp_stage *stage)
{
    size_t n_bytes = (size_t)stage->plan.sizes.n_bytes[VP_SPACE_IN];

    for (int i = 0; is_first(stage) && i < stage->plan.shape.n_slots; i++) {
        struct vp_stage_message *batch = &stage->batches[i];

        if (vp_device_has_host_memory(stage->device))
            batch->host = batch->tensors;
        else
            VP_TRY(vp_device_host_alloc(stage->device, n_bytes, &batch->host));
    }
    return VP_OK;
}

static void free_batches(struct vp_stage *stage)
{
    for (int i = 0; i < stage->plan.shape.n_slots; i++)
        if (!vp_device_has_host_memory(stage->device))
            vp_device_host_free(stage->device, stage->batches[i].host);
}

static enum vp_status allocate_sums(struct vp_stage *stage, double **out)
{
    return vp_device_host_alloc(
        stage->device, (size_t)stage->n_tensors * sizeof(double), (void **)out);
}

/* Memory from which the host reads losses and logits. */
static enum vp_status allocate_outputs(struct vp_stage *stage)
{
    size_t n_slots = (size_t)stage->plan.shape.n_slots;
    size_t n_logits = n_slots * (size_t)stage->plan.sizes.logits_bytes;

    VP_TRY(vp_device_host_alloc(stage->device, n_slots * VP_STAGE_LOSS_BYTES,
                                (void **)&stage->losses));
    memset(stage->losses, 0, n_slots * VP_STAGE_LOSS_BYTES);
    if (n_logits == 0 || vp_device_has_host_memory(stage->device))
        return VP_OK;
    return vp_device_host_alloc(stage->device, n_logits, &stage->logits);
}

static enum vp_status allocate(struct vp_stage *stage)
{
    VP_TRY(each_buffer(stage, alloc_buffer));
    VP_TRY(allocate_batches(stage));
    VP_TRY(vp_wires_allocate(stage));
    VP_TRY(vp_stage_swap_allocate(stage));
    VP_TRY(each_event(stage, create_event));
    VP_TRY(allocate_outputs(stage));
    if (stage->plan.sizes.staging_bytes > 0)
        VP_TRY(vp_device_host_alloc(stage->device,
                                    (size_t)stage->plan.sizes.staging_bytes,
                                    &stage->staging));
    VP_TRY(allocate_sums(stage, &stage->sums));
    VP_TRY(allocate_sums(stage, &stage->next_sums));
    return vp_stage_init_weights(stage);
}

enum vp_status vp_stage_allocate(struct vp_stage *stage, struct vp_err *err)
{
    if (allocate(stage) != VP_OK) {
        const char *why = vp_device_last_error(stage->device);
        char size[VP_BYTES_TEXT];

        vp_bytes_text(stage->plan.memory.total, size, sizeof(size));
        return vp_err_set(
            err, VP_ERR_NOMEM, "stage of blocks %d..%d: cannot allocate %s%s%s",
            stage->plan.spec.first_block,
            stage->plan.spec.first_block + stage->plan.spec.n_blocks - 1, size,
            *why ? ": " : "", why);
    }
    for (int i = 0; i < stage->plan.shape.n_slots; i++)
        stage->slots[i].message = &stage->batches[i];
    for (int i = 0; i < stage->plan.n_buckets; i++)
        VP_TRY(compile_bucket(stage, i, err));
    return VP_OK;
}

void vp_stage_release(struct vp_stage *stage)
{
    if (!stage->ops)
        return;
    if (stage->tensors) {
        vp_stage_swap_release(stage);
        vp_wires_free(stage);
        free_batches(stage);
        each_buffer(stage, free_buffer);
        each_event(stage, free_event);
        vp_device_host_free(stage->device, stage->losses);
        vp_device_host_free(stage->device, stage->logits);
        vp_device_host_free(stage->device, stage->sums);
        vp_device_host_free(stage->device, stage->next_sums);
        vp_device_host_free(stage->device, stage->staging);
    }
    for (int i = 0; stage->buckets && i < stage->plan.n_buckets; i++) {
        for (int kind = 0; kind < VP_SLOT_KINDS; kind++)
            stage->ops->exe_free(stage->buckets[i].train[kind]);
        stage->ops->exe_free(stage->buckets[i].eval);
    }
    vp_stage_plan_release(&stage->plan);
    free(stage->buckets);
    free(stage->slots);
    free(stage->batches);
    free(stage->act_bufs);
    free(stage->grad_bufs);
    free(stage->out_bufs);
    free(stage->din_bufs);
    free(stage->weights);
    free(stage->recomputed);
    free(stage->swap_out);
    free(stage->swap_in);
    free(stage->loss_read);
    free(stage->ahead);
    free(stage->tensors);
    free(stage->tensor_names);
    free(stage->tensor_params);
    free(stage->squares);
    free(stage->all_squares);
    free(stage->ratios);
    vp_shard_table_free(stage->shard);
    vp_stream_free(stage->stream);
    *stage = (struct vp_stage){ .ops = NULL };
}
