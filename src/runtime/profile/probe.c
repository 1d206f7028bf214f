/* Builds a stage with random input, runs its lists and times them. */
#include "runtime/profile/probe.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { SEED = 1 };

/* ---- Numbers ------------------------------------------------------------ */

static uint32_t random_at(int value, int64_t i)
{
    return vp_rng(SEED, VP_RNG_LANGUAGE, (uint32_t)value, 0, 0, (uint64_t)i)
        .v[0];
}

/* Returns the number of ids that the operator which reads `value` accepts. */
static int64_t n_ids(const struct vp_graph *graph, vp_val value)
{
    for (int i = 0; i < graph->n_ops; i++) {
        const struct vp_op *op = &graph->ops[i];

        if (op->kind == VP_OP_EMBED && op->in[0] == value)
            return graph->params[op->par[0]].rows;
        if (op->kind == VP_OP_EMBED && op->in[1] == value)
            return graph->params[op->par[2]].rows;
        if (op->kind == VP_OP_CROSS_ENTROPY && op->in[1] == value)
            return graph->values[op->in[0]].cols;
        if (op->kind == VP_OP_GATHER && op->in[1] == value)
            return graph->values[op->in[0]].rows;
    }
    return 1;
}

/* Fills a model input with random ids; masks are all 1. */
static void fill_ids(const struct vp_graph *graph, vp_val value, int32_t *out)
{
    int64_t n = graph->values[value].rows * graph->values[value].cols;
    int64_t below = n_ids(graph, value);

    for (int64_t i = 0; i < n; i++)
        out[i] = graph->values[value].role == VP_ROLE_MASK
                     ? 1
                     : (int32_t)(random_at(value, i) % (uint64_t)below);
}

/* Fills a value with random numbers in [-scale, scale). */
static enum vp_status fill_reals(const struct vp_graph *graph, vp_val value,
                                 float scale, void *out)
{
    enum vp_dtype dtype = graph->values[value].dtype;
    int64_t n = graph->values[value].rows * graph->values[value].cols;
    float *numbers = malloc((size_t)n * sizeof(*numbers));

    if (!numbers)
        return VP_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = scale * ((float)random_at(value, i) / 2147483648.0f - 1);
    if (dtype == VP_DTYPE_F32)
        memcpy(out, numbers, (size_t)n * sizeof(*numbers));
    else
        vp_dtype_round(dtype, out, numbers, n);
    free(numbers);
    return VP_OK;
}

/* Fills the values of a boundary, in host memory. */
static enum vp_status fill_boundary(const struct vp_graph *graph,
                                    const struct vp_boundary *boundary,
                                    float scale, char *host)
{
    for (int i = 0; i < boundary->n_entries; i++) {
        const struct vp_boundary_value *entry = &boundary->entries[i];
        char *at = host + entry->offset;

        if (graph->values[entry->value].dtype == VP_DTYPE_I32)
            fill_ids(graph, entry->value, (int32_t *)at);
        else
            VP_TRY(fill_reals(graph, entry->value, scale, at));
    }
    return VP_OK;
}

static enum vp_status put_boundary(struct vp_probe *probe,
                                   const struct vp_boundary *boundary,
                                   float scale, void *const *to, int n)
{
    const struct vp_graph *graph = probe->stage.plan.train[0].graph;
    size_t n_bytes = (size_t)boundary->n_bytes;
    char *host = calloc(1, n_bytes + 1);
    enum vp_status st = host ? fill_boundary(graph, boundary, scale, host)
                             : VP_ERR_NOMEM;

    for (int i = 0; st == VP_OK && n_bytes > 0 && i < n; i++)
        st = vp_stream_copy(probe->stage.stream, to[i], host, n_bytes);
    if (st == VP_OK)
        st = vp_stage_wait(&probe->stage);
    free(host);
    return st;
}

static enum vp_status fill(struct vp_probe *probe)
{
    struct vp_stage *stage = &probe->stage;
    const struct vp_program *program = &stage->plan.train[0];
    void *in[VP_PROBE_SLOTS];

    for (int i = 0; i < probe->n_slots; i++) {
        struct vp_slot *slot = &stage->slots[i];

        vp_stage_take_buffers(stage, slot, i);
        if (stage->plan.spec.first_block > 0)
            slot->message = &stage->act_bufs[i];
        slot->grad = &stage->grad_bufs[0];
        slot->mb = (struct vp_mb){
            .seed = SEED, .loss_grad = 1.0f, .accumulate = true, .train = true
        };
        in[i] = slot->message->tensors;
    }
    VP_TRY(put_boundary(probe, &program->in, 1.0f, in, probe->n_slots));
    if (program->dout.n_bytes == 0)
        return VP_OK;
    VP_TRY(vp_device_alloc(stage->device, (size_t)program->dout.n_bytes,
                           &probe->gradients));
    return put_boundary(probe, &program->dout, 1e-3f, &probe->gradients, 1);
}

/* ---- Parts -------------------------------------------------------------- */

static void find_parts(struct vp_probe *probe, enum vp_list list)
{
    const struct vp_program *program = &probe->stage.plan.train[0];
    struct vp_probe_part *parts = probe->parts[list];
    int n = 0;

    for (int i = 0; i < program->n_calls[list]; i++) {
        int block = program->calls[list][i].op->block -
                    program->spec.first_block;
        bool own = block >= 0 && block < program->spec.n_blocks;

        /* Calls that lowering adds count for the block before them. */
        if (n > 0 &&
            (!own || parts[n - 1].block == block || n == VP_STOPWATCH_LAPS))
            parts[n - 1].n++;
        else
            parts[n++] = (struct vp_probe_part){ i, 1, own ? block : 0 };
    }
    probe->n_parts[list] = n;
}

/* ---- Making one --------------------------------------------------------- */

static enum vp_status set_up(struct vp_probe *probe,
                             const struct vp_train_config *config, int rank,
                             const struct vp_stage_spec *spec,
                             struct vp_err *err)
{
    const struct vp_stage_shape shape = { .n_slots = probe->n_slots,
                                          .n_versions = 1,
                                          .n_recomputed = 1,
                                          .n_act_bufs = probe->n_slots,
                                          .n_grad_bufs = 1,
                                          .n_out_bufs = 1,
                                          .n_din_bufs = 1 };
    const struct vp_stage_choices choices = { .spec = *spec };
    struct vp_stage_config with;

    probe->backend_config = vp_train_backend_config(config, rank);
    VP_TRY(vp_backend_open(config->backend, &probe->backend_config,
                           &probe->backend, err));
    with = vp_train_stage_config(config, &probe->backend_config);
    with.work.n_graphs = 1;
    with.work.has_eval = false;
    vp_device_attach(vp_backend_device(probe->backend));
    VP_TRY(vp_stage_init(&probe->stage, &with, probe->backend, &choices, &shape,
                         err));
    return vp_stage_allocate(&probe->stage, err);
}

enum vp_status vp_probe_init(struct vp_probe *probe,
                             const struct vp_train_config *config, int rank,
                             const struct vp_stage_spec *spec, int n_slots,
                             struct vp_err *err)
{
    enum vp_status st;

    VP_BUG_ON(spec->n_blocks > VP_PROBE_BLOCKS || n_slots > VP_PROBE_SLOTS);
    *probe = (struct vp_probe){ .ops = config->backend, .n_slots = n_slots };
    VP_TRY(set_up(probe, config, rank, spec, err));
    for (int list = 0; list < VP_LIST_COUNT; list++)
        find_parts(probe, (enum vp_list)list);
    st = fill(probe);
    if (st == VP_OK)
        st = vp_stopwatch_init(&probe->watch, probe->stage.device);
    if (st != VP_OK)
        return vp_err_set(
            err, st, "measuring blocks %d..%d: %s: %s", spec->first_block,
            spec->first_block + spec->n_blocks - 1, vp_status_name(st),
            vp_device_last_error(probe->stage.device));
    return VP_OK;
}

void vp_probe_release(struct vp_probe *probe)
{
    if (!probe->backend)
        return;
    if (probe->stage.ops) {
        const struct vp_program *program = &probe->stage.plan.train[0];

        vp_stopwatch_release(&probe->watch);
        if (probe->gradients)
            vp_device_free(probe->stage.device, probe->gradients,
                           (size_t)program->dout.n_bytes);
        vp_stage_release(&probe->stage);
    }
    probe->ops->close(probe->backend);
    probe->backend = NULL;
}

/* ---- Running ------------------------------------------------------------ */

/* Runs a list as one lap, or with one lap per part. */
static enum vp_status run_list(struct vp_probe *probe, struct vp_slot *slot,
                               enum vp_list list, bool in_parts)
{
    struct vp_stage *stage = &probe->stage;
    const struct vp_launch_messages messages = { .out = &stage->out_bufs[0],
                                                 .din = &stage->din_bufs[0],
                                                 .dout = slot->grad };

    if (!in_parts) {
        VP_TRY(
            vp_stage_run(stage, slot, list, stage->newest, false, &messages));
        return vp_stopwatch_lap(&probe->watch, stage->stream);
    }
    for (int i = 0; i < probe->n_parts[list]; i++) {
        const struct vp_probe_part *part = &probe->parts[list][i];

        VP_TRY(vp_stage_run_part(stage, slot, list, part->first, part->n,
                                 stage->newest, &messages));
        VP_TRY(vp_stopwatch_lap(&probe->watch, stage->stream));
    }
    return VP_OK;
}

static double lap_seconds(const struct vp_stopwatch *watch, int i)
{
    return 1e-9 * (double)(watch->ns[i + 1] - watch->ns[i]);
}

/* Stores the laps of a list, the first of which has the number `at`. */
static void note_list(const struct vp_probe *probe, enum vp_list list,
                      bool in_parts, int at, struct vp_probe_times *out)
{
    if (!in_parts) {
        out->list[list] = lap_seconds(&probe->watch, at);
        return;
    }
    for (int b = 0; b < VP_PROBE_BLOCKS; b++)
        out->blocks[list][b] = 0.0;
    for (int i = 0; i < probe->n_parts[list]; i++)
        out->blocks[list][probe->parts[list][i].block] += lap_seconds(
            &probe->watch, at + i);
}

/* Returns the slot that a list uses for run number `n_run`. Backward runs
 * n_slots - 1 minibatches behind forward, at first with minibatch 0. */
static struct vp_slot *slot_of(struct vp_probe *probe, enum vp_list list)
{
    int64_t n = probe->n_run, behind = probe->n_slots - 1;

    if (list != VP_LIST_F)
        n = n >= behind ? n - behind : 0;
    return &probe->stage.slots[n % probe->n_slots];
}

/* Times are read at the end of the minibatch: until then the host runs ahead of
 * an asynchronous device, as in training. */
enum vp_status vp_probe_run(struct vp_probe *probe, bool in_parts,
                            struct vp_probe_times *out)
{
    struct vp_stage *stage = &probe->stage;
    const struct vp_program *program = &stage->plan.train[0];
    int first[VP_LIST_COUNT]; /* number of the first lap */

    VP_TRY(vp_stopwatch_start(&probe->watch, stage->stream));
    for (int list = 0; list < VP_LIST_COUNT; list++) {
        struct vp_slot *slot = slot_of(probe, (enum vp_list)list);

        if (list == VP_LIST_B && probe->gradients) {
            VP_TRY(vp_stream_copy(stage->stream, slot->grad->tensors,
                                  probe->gradients,
                                  (size_t)program->dout.n_bytes));
            VP_TRY(vp_stopwatch_lap(&probe->watch, stage->stream));
        }
        first[list] = probe->watch.n;
        if (program->n_calls[list] > 0)
            VP_TRY(run_list(probe, slot, (enum vp_list)list, in_parts));
    }
    VP_TRY(vp_stopwatch_read(&probe->watch, stage->config.timeout_ms));
    probe->n_run++;
    for (int list = 0; list < VP_LIST_COUNT; list++)
        if (program->n_calls[list] > 0)
            note_list(probe, (enum vp_list)list, in_parts, first[list], out);
    return VP_OK;
}

enum vp_status vp_probe_update(struct vp_probe *probe,
                               struct vp_probe_times *out)
{
    struct vp_stage *stage = &probe->stage;

    VP_TRY(vp_stopwatch_start(&probe->watch, stage->stream));
    VP_TRY(vp_stage_sum_grads(stage));
    VP_TRY(vp_stage_wait_sums(stage));
    VP_TRY(vp_stage_update(stage, 0.0f, 1.0f));
    VP_TRY(vp_stopwatch_lap(&probe->watch, stage->stream));
    VP_TRY(vp_stopwatch_read(&probe->watch, stage->config.timeout_ms));
    out->update = lap_seconds(&probe->watch, 0);
    return VP_OK;
}
