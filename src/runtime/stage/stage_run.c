/* Runs a stage: launches, updates, and the search for a non-finite value. */
#include "graph/opdef.h"
#include "runtime/stage/stage_kept.h"
#include "runtime/stage/stage_shard.h"

#include <math.h>
#include <string.h>

static void *tensors_of(const struct vp_stage_message *message)
{
    return message ? message->tensors : NULL;
}

/* The device copies a batch as a whole, in stream order. */
static enum vp_status put_batch(struct vp_stage *stage,
                                struct vp_stage_message *message,
                                const struct vp_program *program,
                                const struct vp_batch *batch)
{
    VP_TRY(vp_event_sync(message->read, stage->config.timeout_ms));
    for (int i = 0; i < program->in.n_entries; i++) {
        const struct vp_boundary_value *entry = &program->in.entries[i];
        enum vp_role role = program->graph->values[entry->value].role;

        memcpy((char *)message->host + entry->offset, batch->array[role],
               (size_t)entry->n_bytes);
    }
    if (message->host == message->tensors)
        return VP_OK;
    VP_TRY(vp_stream_copy(stage->stream, message->tensors, message->host,
                          (size_t)program->in.n_bytes));
    return vp_event_record(message->read, stage->stream);
}

enum vp_status vp_stage_load(struct vp_stage *stage,
                             struct vp_stage_message *message,
                             const struct vp_batch *batch, uint64_t minibatch)
{
    const struct vp_program *program = &stage->plan.train[batch->bucket];

    message->header = (struct vp_message_header){
        .minibatch = minibatch,
        .first_sample = batch->first_sample,
        .n_samples = batch->n_samples,
        .n_tokens = batch->n_tokens,
        .bucket = batch->bucket,
    };
    return put_batch(stage, message, program, batch);
}

float *vp_stage_grad(const struct vp_stage *stage, int entry)
{
    const struct vp_layout *layout = &stage->plan.train[0].layout;

    return stage->grads +
           layout->entries[entry].grad_offset / (int64_t)sizeof(float);
}

static enum vp_status put(struct vp_stage *stage, void *dst, const void *src,
                          int64_t n_bytes)
{
    return vp_stream_copy(stage->stream, dst, src, (size_t)n_bytes);
}

static int index_of(const struct vp_stage *stage, const struct vp_slot *slot)
{
    return (int)(slot - stage->slots);
}

/* Returns the base addresses of this launch for the values that `list` uses. */
static struct vp_launch bases(const struct vp_stage *stage,
                              const struct vp_slot *slot, enum vp_list list,
                              int64_t version,
                              const struct vp_launch_messages *messages)
{
    struct vp_launch launch = {
        .mb = &slot->mb,
        .slot = index_of(stage, slot),
        .version = (int)(version % stage->plan.shape.n_versions),
        .members = stage->members,
        .staging = stage->staging,
        .n_staging = (size_t)stage->plan.sizes.staging_bytes,
    };

    VP_BUG_ON(stage->shard && stage->shard->gathers); /* weights are missing */
    launch.base[VP_SPACE_PARAM] = vp_stage_weights(stage, version);
    launch.base[VP_SPACE_GRAD] = stage->grads;
    launch.base[VP_SPACE_SLOT] = slot->data;
    launch.base[VP_SPACE_WORK] = stage->work;
    launch.base[VP_SPACE_RECOMPUTED] = slot->recomputed;
    launch.base[VP_SPACE_SWAPPED] = list == VP_LIST_F ? slot->swap_out
                                                      : slot->swap_in;
    launch.base[VP_SPACE_CACHE] = stage->cache;
    launch.base[VP_SPACE_IN] = tensors_of(slot->message);
    launch.base[VP_SPACE_OUT] = tensors_of(messages->out);
    launch.base[VP_SPACE_DIN] = tensors_of(messages->din);
    launch.base[VP_SPACE_DOUT] = tensors_of(messages->dout);
    return launch;
}

/* Returns the compiled program of a slot's minibatch. A stage that never trains
 * evaluates with `train`. */
static struct vp_exe *exe_of(const struct vp_stage *stage,
                             const struct vp_slot *slot, bool eval)
{
    const struct vp_stage_bucket *bucket =
        &stage->buckets[slot->message->header.bucket];

    if (eval && bucket->eval)
        return bucket->eval;
    return bucket
        ->train[vp_stage_slot_kind(&stage->plan.shape, index_of(stage, slot))];
}

enum vp_status vp_stage_run(struct vp_stage *stage, const struct vp_slot *slot,
                            enum vp_list list, int64_t version, bool eval,
                            const struct vp_launch_messages *messages)
{
    struct vp_launch launch = bases(stage, slot, list, version, messages);

    return stage->ops->launch(exe_of(stage, slot, eval), list, &launch,
                              stage->stream);
}

static int64_t ahead_of(const struct vp_stage *stage,
                        const struct vp_optim_tensor *tensor)
{
    return stage->ahead[tensor->block - stage->plan.spec.first_block];
}

/* Returns the optimizer step that makes version newest + 1 of `n` tensors,
 * whose blocks have had the same number of updates. */
static struct vp_optim_step next_step(const struct vp_stage *stage,
                                      const struct vp_optim_tensor *tensors,
                                      int n, float lr, float grad_scale)
{
    const struct vp_shard_table *shard = stage->shard;

    return (struct vp_optim_step){
        .config = stage->config.work.optim,
        .tensors = tensors,
        .n_tensors = n,
        .dtype = stage->config.work.graphs[0].dtype,
        .w_old = vp_stage_weights(stage, stage->newest),
        .w_new = vp_stage_weights(stage, stage->newest + 1),
        .master = stage->master,
        .grad = stage->grads,
        .moment = { stage->moment[0], stage->moment[1] },
        .lr = lr,
        .grad_scale = grad_scale,
        .t = stage->newest + 1 - stage->scale.n_skipped +
             (n > 0 ? ahead_of(stage, tensors) : 0),
        .first = shard ? shard->bounds[shard->index] : 0,
    };
}

enum vp_status vp_stage_run_and_update(
    struct vp_stage *stage, const struct vp_slot *slot, int64_t version,
    const struct vp_launch_messages *messages, float lr, float grad_scale)
{
    struct vp_launch launch = bases(stage, slot, VP_LIST_B, version, messages);
    struct vp_optim_step step = next_step(
        stage, stage->tensors, stage->n_free_tensors, lr, grad_scale);

    VP_TRY(vp_stage_keep_overwritten(stage));
    launch.update = &step;
    launch.squares = stage->next_sums;
    stage->updated = true;
    return stage->ops->launch(exe_of(stage, slot, false), VP_LIST_B, &launch,
                              stage->stream);
}

const struct vp_program *vp_stage_program(const struct vp_stage *stage,
                                          const struct vp_slot *slot)
{
    return vp_stage_plan_program(&stage->plan, index_of(stage, slot),
                                 slot->message->header.bucket);
}

enum vp_status vp_stage_run_part(struct vp_stage *stage,
                                 const struct vp_slot *slot, enum vp_list list,
                                 int first, int n, int64_t version,
                                 const struct vp_launch_messages *messages)
{
    struct vp_launch launch = bases(stage, slot, list, version, messages);

    return stage->ops->launch_part(exe_of(stage, slot, false), list, first, n,
                                   &launch, stage->stream);
}

/* ---- Outputs ------------------------------------------------------------ */

static const struct vp_program *program_of(const struct vp_stage *stage,
                                           const struct vp_slot *slot,
                                           bool eval)
{
    const struct vp_program *program =
        &stage->plan.eval[slot->message->header.bucket];

    return eval && program->graph ? program : vp_stage_program(stage, slot);
}

static bool is_there(struct vp_ref ref)
{
    return ref.space != VP_SPACE_NONE;
}

enum vp_status vp_stage_fetch_outputs(struct vp_stage *stage,
                                      const struct vp_slot *slot, bool eval)
{
    const struct vp_program *program = program_of(stage, slot, eval);
    const char *data = slot->data;
    int i = index_of(stage, slot);

    if (is_there(program->loss))
        VP_TRY(vp_stream_copy(stage->stream, stage->losses[i],
                              data + program->loss.offset,
                              sizeof(stage->losses[i])));
    if (is_there(program->logits) && stage->logits)
        VP_TRY(put(stage,
                   (char *)stage->logits + i * stage->plan.sizes.logits_bytes,
                   data + program->logits.offset,
                   vp_value_bytes(program->graph, program->graph->logits)));
    return vp_event_record(stage->loss_read[i], stage->stream);
}

const void *vp_stage_logits(const struct vp_stage *stage,
                            const struct vp_slot *slot, bool eval)
{
    struct vp_ref logits = program_of(stage, slot, eval)->logits;

    if (!is_there(logits))
        return NULL;
    if (stage->logits)
        return (char *)stage->logits +
               index_of(stage, slot) * stage->plan.sizes.logits_bytes;
    return (char *)slot->data + logits.offset;
}

enum vp_status vp_stage_take_loss(struct vp_stage *stage,
                                  const struct vp_slot *slot,
                                  float loss_out[VP_LOSS_COLS])
{
    int i = index_of(stage, slot);

    VP_TRY(vp_event_sync(stage->loss_read[i], stage->config.timeout_ms));
    memcpy(loss_out, stage->losses[i], sizeof(stage->losses[i]));
    return VP_OK;
}

enum vp_status vp_stage_wait(struct vp_stage *stage)
{
    VP_TRY(vp_event_record(stage->idle, stage->stream));
    return vp_event_sync(stage->idle, stage->config.timeout_ms);
}

/* ---- Sums of gradients -------------------------------------------------- */

/* The first term becomes the sum. */
static enum vp_status add_up(struct vp_stage *stage,
                             const struct vp_term *terms, int n_added,
                             int64_t begin, int64_t n)
{
    for (int k = 1; k < n_added; k++)
        VP_TRY(stage->ops->add(stage->backend, stage->stream,
                               terms[0].data + begin, terms[k].data + begin,
                               n));
    return VP_OK;
}

static enum vp_status spread(struct vp_stage *stage,
                             const struct vp_term *terms, int n_terms,
                             int64_t begin, int64_t n)
{
    for (int k = 1; k < n_terms; k++)
        VP_TRY(put(stage, terms[k].data + begin, terms[0].data + begin,
                   n * (int64_t)sizeof(float)));
    return vp_stage_wait(stage);
}

static void abort_unless_ok(struct vp_stage *stage, enum vp_status st)
{
    if (st != VP_OK)
        vp_world_abort(stage->world, st, vp_device_last_error(stage->device));
}

void vp_stage_add_terms(void *ctx, const struct vp_term *terms, int n_added,
                        int n_terms, int64_t begin, int64_t end)
{
    struct vp_stage *stage = ctx;
    enum vp_status st = add_up(stage, terms, n_added, begin, end - begin);

    if (st == VP_OK)
        st = spread(stage, terms, n_terms, begin, end - begin);
    abort_unless_ok(stage, st);
}

enum vp_status vp_stage_add_uses(struct vp_stage *stage,
                                 const struct vp_term *terms, int n_terms,
                                 int64_t n)
{
    for (int k = 1; k < n_terms; k++)
        VP_BUG_ON(terms[k].order <= terms[k - 1].order);
    return add_up(stage, terms, n_terms, 0, n);
}

/* Returns the number of tensors, from the first on, that the backward has
 * updated. */
static int n_updated(const struct vp_stage *stage)
{
    return stage->updated ? stage->n_free_tensors : 0;
}

/* Computes the squares of the chunks of the own shard, then those of whole
 * tensors. */
static enum vp_status sum_chunks(struct vp_stage *stage, double *sums)
{
    const struct vp_shard_table *shard = stage->shard;

    VP_TRY(stage->ops->sum_squares(stage->backend, stage->stream, shard->chunks,
                                   shard->n_chunks, stage->grads, shard->mine));
    VP_TRY(vp_stage_shard_exchange(stage, 1));
    vp_stage_shard_add(stage, 1, 0, sums, 1);
    return VP_OK;
}

enum vp_status vp_stage_sum_grads(struct vp_stage *stage)
{
    int first = n_updated(stage);
    double *sums = stage->next_sums;

    if (stage->shard)
        VP_TRY(sum_chunks(stage, sums));
    else if (first < stage->n_tensors)
        VP_TRY(stage->ops->sum_squares(
            stage->backend, stage->stream, stage->tensors + first,
            stage->n_tensors - first, stage->grads, sums + first));
    stage->next_sums = stage->sums;
    stage->sums = sums;
    return vp_event_record(stage->summed, stage->stream);
}

enum vp_status vp_stage_wait_sums(struct vp_stage *stage)
{
    return vp_event_sync(stage->summed, stage->config.timeout_ms);
}

/* Updates `n` tensors. `squares` and `ratios` have an entry per tensor, see
 * struct vp_optim_step. */
static enum vp_status update_tensors(struct vp_stage *stage,
                                     const struct vp_optim_tensor *tensors,
                                     int n, float lr, float grad_scale,
                                     double (*squares)[2], const double *ratios)
{
    int end;

    for (int first = 0; first < n; first = end) {
        struct vp_optim_step step;

        for (end = first + 1; end < n; end++)
            if (ahead_of(stage, &tensors[end]) !=
                ahead_of(stage, &tensors[first]))
                break;
        step = next_step(stage, tensors + first, end - first, lr, grad_scale);
        step.squares_out = squares ? squares + first : NULL;
        step.ratios = ratios ? ratios + first : NULL;
        VP_TRY(stage->ops->update(stage->backend, stage->stream, &step));
    }
    return VP_OK;
}

enum vp_status vp_stage_measure(struct vp_stage *stage, float lr,
                                float grad_scale)
{
    struct vp_shard_table *shard = stage->shard;

    if (!vp_stage_is_measured(stage))
        return VP_OK;
    if (!shard)
        return update_tensors(stage, stage->tensors, stage->n_tensors, lr,
                              grad_scale, stage->squares, NULL);
    VP_TRY(update_tensors(stage, shard->chunks, shard->n_chunks, lr, grad_scale,
                          (double(*)[2])shard->mine, NULL));
    VP_TRY(vp_stage_shard_exchange(stage, 2));
    for (int which = 0; which < 2; which++)
        vp_stage_shard_add(stage, 2, which, &stage->squares[0][which], 2);
    return VP_OK;
}

enum vp_status vp_stage_update(struct vp_stage *stage, float lr,
                               float grad_scale)
{
    struct vp_shard_table *shard = stage->shard;
    bool measured = vp_stage_is_measured(stage);
    int first = n_updated(stage);

    if (!stage->updated)
        VP_TRY(vp_stage_keep_overwritten(stage));
    if (shard)
        VP_TRY(update_tensors(stage, shard->chunks, shard->n_chunks, lr,
                              grad_scale, NULL,
                              measured ? shard->ratios : NULL));
    else
        VP_TRY(update_tensors(stage, stage->tensors + first,
                              stage->n_tensors - first, lr, grad_scale, NULL,
                              measured ? stage->ratios + first : NULL));
    stage->updated = false;
    stage->newest++;
    if (shard)
        vp_stage_shard_gather(stage);
    return VP_OK;
}

enum vp_status vp_stage_skip(struct vp_stage *stage)
{
    void *next = vp_stage_weights(stage, stage->newest + 1);
    const void *newest = vp_stage_weights(stage, stage->newest);

    VP_TRY(vp_stage_keep_overwritten(stage));
    if (next != newest)
        VP_TRY(put(stage, next, newest,
                   stage->plan.sizes.n_bytes[VP_SPACE_PARAM]));
    stage->newest++;
    return VP_OK;
}

/* ---- Non-finite values -------------------------------------------------- */

enum vp_status vp_stage_blame_forward(struct vp_stage *stage, int index,
                                      const struct vp_slot *slot,
                                      struct vp_err *err)
{
    const struct vp_launch_messages nowhere = { NULL, NULL, NULL };
    struct vp_launch launch = bases(stage, slot, VP_LIST_F, slot->version,
                                    &nowhere);
    const struct vp_graph *graph = &stage->config.work.graphs[0];
    size_t n_out = (size_t)stage->plan.sizes.n_bytes[VP_SPACE_OUT];
    struct vp_nonfinite found = { NULL, VP_PHASE_F };
    enum vp_status st;

    /* Training has ended: memory may be allocated, and the outgoing message is
     * not sent. */
    VP_TRY(vp_device_alloc(stage->device, n_out, &launch.base[VP_SPACE_OUT]));
    st = stage->ops->launch_checked(exe_of(stage, slot, false), VP_LIST_F,
                                    &launch, &found);
    vp_device_free(stage->device, launch.base[VP_SPACE_OUT], n_out);
    if (st != VP_OK || !found.op)
        return st;
    return vp_err_set(
        err, VP_ERR_NONFINITE,
        "non-finite output of operator %s in stage %d, block %d (%s), "
        "minibatch %llu; lower learning_rate or set grad_clip",
        vp_op_defs[found.op->kind].name, index, found.op->block,
        graph->blocks[found.op->block].name,
        (unsigned long long)slot->message->header.minibatch);
}

/* Returns the operator that has the parameter `name`, or NULL. */
static const struct vp_op *find_op(const struct vp_graph *graph,
                                   const char *name)
{
    for (int i = 0; i < graph->n_ops; i++)
        for (int j = 0; j < VP_MAX_PARAM; j++) {
            vp_par par = graph->ops[i].par[j];

            for (int k = 0; par != VP_NONE && k < graph->params[par].n_parts;
                 k++)
                if (graph->params[par].part[k].name == name)
                    return &graph->ops[i];
        }
    return NULL;
}

enum vp_status vp_stage_blame_grads(const struct vp_stage *stage, int index,
                                    uint64_t minibatch, struct vp_err *err)
{
    const struct vp_graph *graph = &stage->config.work.graphs[0];

    /* Gradients flow backward: the last bad tensor was computed first. */
    for (int i = stage->n_tensors - 1; i >= 0; i--) {
        const struct vp_op *op = find_op(graph, stage->tensor_names[i]);

        if (isfinite(stage->sums[i]) || !op)
            continue;
        return vp_err_set(
            err, VP_ERR_NONFINITE,
            "non-finite gradient of %s, operator %s in stage %d, block %d "
            "(%s), minibatch %llu; lower learning_rate or set grad_clip",
            stage->tensor_names[i], vp_op_defs[op->kind].name, index, op->block,
            graph->blocks[op->block].name, (unsigned long long)minibatch);
    }
    return VP_OK;
}
