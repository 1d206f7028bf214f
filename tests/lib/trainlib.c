#include "lib/trainlib.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Device memory ------------------------------------------------------ */

atomic_llong n_device_bytes;
/* The device of the newest run, whose allocations are counted. */
static const struct vp_device_ops *counted_device;

static enum vp_status counting_alloc(struct vp_device *device, size_t n,
                                     void **out)
{
    atomic_fetch_add(&n_device_bytes, (long long)n);
    return counted_device->alloc(device, n, out);
}

/* ---- A small run -------------------------------------------------------- */

const struct setup usual = {
    .model = "bert",
    .threads = 2,
    .prefetch = 2,
    .accumulation = 2,
    .dropout = 0.1f,
    .lr = 1e-3f,
    .tied = true,
    .seed = 3,
    .n_steps = 4,
    .optim = VP_OPTIM_ADAMW,
};

struct vp_model_config small_sizes(const struct setup *setup)
{
    struct vp_model_config sizes = vp_model_find(setup->model)->sizes[0].config;

    sizes.vocab = setup->vocab ? setup->vocab : 96;
    sizes.hidden = 32;
    sizes.layers = setup->layers ? setup->layers : 2;
    sizes.decoder_layers = sizes.layers;
    sizes.heads = 4;
    sizes.ffn = 64;
    sizes.positions = 32;
    sizes.dropout = setup->dropout;
    sizes.attention_dropout = setup->dropout;
    sizes.tie_embeddings = setup->tied;
    sizes.pad = VP_TOKEN_PAD;
    sizes.dtype = setup->dtype;
    sizes.n_members = setup->members;
    sizes.sequence_parallel = setup->sequence_parallel;
    return sizes;
}

void make_dims(struct run *run)
{
    switch (run->model->task) {
    case VP_TASK_MASKED_LM:
        run->dims[0] = (struct vp_dims){ 4, 20, 0, 4 * 4 };
        run->dims[1] = (struct vp_dims){ 4, 20, 0, 4 * 20 };
        run->n_dims = 2;
        break;
    case VP_TASK_CAUSAL_LM:
        run->dims[0] = (struct vp_dims){ 4, 20, 0, 0 };
        run->n_dims = 1;
        break;
    case VP_TASK_TRANSLATION:
        run->dims[0] = (struct vp_dims){ 6, 12, 12, 0 };
        run->dims[1] = (struct vp_dims){ 4, 20, 20, 0 };
        run->dims[2] = (struct vp_dims){ 2, 32, 32, 0 };
        run->n_dims = 3;
        break;
    case VP_TASK_CUSTOM: /* see tests/api/test_api.c */
        break;
    }
}

static void open_data(struct run *run, const struct setup *setup)
{
    static const enum vp_data_task tasks[] = {
        [VP_TASK_MASKED_LM] = VP_DATA_MASKED_LM,
        [VP_TASK_CAUSAL_LM] = VP_DATA_CAUSAL_LM,
        [VP_TASK_TRANSLATION] = VP_DATA_PAIRS,
    };
    struct vp_data_config config = { .source = VP_DATA_SYNTHETIC,
                                     .task = tasks[run->model->task],
                                     .vocab = run->sizes.vocab,
                                     .seed = setup->seed,
                                     .mask_prob = 0.15f,
                                     .dims = run->dims,
                                     .n_dims = run->n_dims };
    struct vp_err err = { .text = "" };

    if (vp_data_open(&config, &run->data, &err) != VP_OK)
        fail_msg("%s", err.text);
    config.split = VP_DATA_EVAL;
    if (setup->eval && vp_data_open(&config, &run->eval_data, &err) != VP_OK)
        fail_msg("%s", err.text);
}

struct vp_plan make_plan(const struct run *run, const struct setup *setup)
{
    return (struct vp_plan){
        .recompute_ratio = setup->ratios ? setup->ratios : run->same_ratio,
        .recompute_sets = setup->sets,
        .block_bases = setup->bases,
        .schedule = setup->schedule,
        .forward_only = setup->forward_only,
        .n_stages = setup->n_stages,
        .n_chunks = setup->n_chunks,
        .schedule_memory = setup->schedule_memory,
        .schedule_text = setup->schedule_text,
        .schedule_v = setup->schedule_v,
        .partition = setup->partition,
        .replicas = setup->replicas,
        .depth = setup->depth,
        .early_recompute = setup->early,
        .recompute_in_b = setup->in_backward,
        .w_recomputed = setup->w_recomputed,
        .swap_sets = setup->swap_sets,
        .swap_ratio = setup->swap_ratios,
        .swap_buffers = setup->swap_buffers,
        .slots = setup->slots,
        .n_slots = setup->n_slots,
        .accumulation_steps = setup->accumulation,
        .bundle_bytes = setup->bundle_bytes,
        .compress = setup->compress,
        .shard_optimizer = setup->shard,
        .tensor_parallel = setup->members,
        .sequence_parallel = setup->sequence_parallel,
        .keep_all = setup->keep_all,
        .keep_gathered = setup->keep_gathered,
    };
}

enum vp_status run_create(struct run *run, const struct setup *setup,
                          size_t memory_limit, struct vp_err *err)
{
    memset(run, 0, sizeof(*run));
    for (int s = 0; s < VP_MAX_STAGES; s++)
        run->same_ratio[s] = setup->recompute;
    run->backend = setup->device ? *setup->device : *test_device();
    counted_device = run->backend.device;
    run->device = *counted_device;
    run->device.alloc = counting_alloc;
    run->backend.device = &run->device;
    atomic_store(&n_device_bytes, 0);
    run->model = vp_model_find(setup->model);
    run->sizes = small_sizes(setup);
    make_dims(run);
    for (int i = 0; i < run->n_dims; i++) {
        struct vp_dims *dims = &run->dims[i];

        if (setup->batch > 0) {
            dims->n_labels = dims->n_labels / dims->batch * setup->batch;
            dims->batch = setup->batch;
        }
        dims->seq -= setup->shorter;
        dims->tgt_seq -= dims->tgt_seq > 0 ? setup->shorter : 0;
        if (dims->n_labels > dims->batch * dims->seq)
            dims->n_labels = dims->batch * dims->seq;
        if (setup->cache.n_lines > 0
                ? vp_model_build_cached(run->model, &run->sizes, dims,
                                        &setup->cache, setup->outputs,
                                        &run->graphs[i], err) != VP_OK
                : vp_model_build_outputs(run->model, &run->sizes, dims,
                                         setup->outputs ? setup->outputs
                                                        : VP_OUTPUT_LOSS,
                                         &run->graphs[i], err) != VP_OK)
            fail_msg("%s", err->text);
    }
    open_data(run, setup);
    run->config = (struct vp_train_config){
        .graphs = run->graphs,
        .n_graphs = run->n_dims,
        .data = run->data,
        .eval_data = run->eval_data,
        .feed = setup->feed,
        .sink = setup->sink,
        .backend = &run->backend,
        .backend_config = { .n_threads = setup->threads,
                            .reference = setup->reference },
        .init = setup->init ? setup->init : vp_param_init_range,
        .scale = setup->scale,
        .clip_per_stage = setup->clip_per_stage,
        .optim = vp_optim_defaults(setup->optim),
        .lr = { .policy = VP_LR_POLYNOMIAL,
                .base = setup->lr,
                .total_steps = MAX_STEPS },
        .plan = make_plan(run, setup),
        .rank_numbers = setup->rank_numbers,
        .blackboxes = setup->blackboxes,
        .swap_delay_us = setup->swap_delay_us,
        .seed = setup->seed,
        .prefetch = setup->prefetch,
        .memory_limit = memory_limit,
        .timeout_ms = setup->timeout_ms ? setup->timeout_ms : 20000,
        .fault = setup->fault,
        .fault_ctx = setup->fault_ctx,
        .saver = setup->saver,
        .loader = setup->loader,
        .world = setup->world,
    };
    run->config.optim.grad_clip = setup->grad_clip;
    /* A GPU without memory_limit has memory for a second plan only with a
     * headroom. */
    if (!run->device.host_memory && memory_limit == 0)
        run->config.rebalance_headroom = (size_t)1 << 30;
    if (setup->eps > 0.0f)
        run->config.optim.eps = setup->eps;
    return vp_trainer_create(&run->config, &run->trainer, err);
}

void run_free(struct run *run)
{
    vp_trainer_free(run->trainer);
    vp_data_close(run->data);
    vp_data_close(run->eval_data);
    for (int i = 0; i < run->n_dims; i++)
        vp_graph_release(&run->graphs[i]);
}

int64_t count_weights(const struct run *run, vp_par par)
{
    return vp_param_whole_count(&run->graphs[0].params[par]);
}

float *trainer_weights(const struct run *run, vp_par par, int replica)
{
    float *w = calloc((size_t)count_weights(run, par), sizeof(*w));

    assert_non_null(w);
    assert_int_equal(vp_trainer_get_weights(run->trainer, par, replica, w),
                     VP_OK);
    return w;
}

uint64_t hash_floats(uint64_t hash, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        hash = (hash ^ bits) * 1099511628211u;
    }
    return hash;
}

uint64_t hash_weights(const struct run *run)
{
    uint64_t hash = HASH_START;

    for (vp_par par = 0; par < run->graphs[0].n_params; par++) {
        float *w = trainer_weights(run, par, 0);

        hash = hash_floats(hash, w, count_weights(run, par));
        free(w);
    }
    return hash;
}

float *stage_weights(const struct run *run, const struct vp_stage *stage,
                     vp_par par)
{
    const struct vp_layout *layout = &stage->plan.train[0].layout;
    int64_t n = count_weights(run, par), at;
    float *w = calloc((size_t)n, sizeof(*w));
    int i = 0;

    assert_non_null(w);
    while (i < layout->n_entries && layout->entries[i].par != par)
        i++;
    assert_true(i < layout->n_entries);
    at = layout->entries[i].offset / vp_dtype_bytes(run->graphs[0].dtype);
    assert_int_equal(vp_stage_get_weights(stage, at, n, w), VP_OK);
    return w;
}

void assert_same_weights(const struct run *run, const struct vp_stage *stage,
                         int replica)
{
    const struct vp_layout *layout = &stage->plan.train[0].layout;

    for (int i = 0; i < layout->n_entries; i++) {
        vp_par par = layout->entries[i].par;
        float *got = trainer_weights(run, par, replica);
        float *want = stage_weights(run, stage, par);

        assert_memory_equal(got, want,
                            (size_t)count_weights(run, par) * sizeof(*want));
        free(got);
        free(want);
    }
}

bool keep_step(void *ctx, const struct vp_step_report *report)
{
    struct run *run = ctx;
    int64_t i = report->step - 1;

    assert_int_equal(i, run->n_steps);
    assert_true(i < MAX_STEPS);
    run->losses[i] = report->loss;
    run->norms[i] = report->grad_norm;
    run->scales[i] = report->loss_scale;
    run->skipped[i] = report->n_skipped;
    run->n_steps++;
    return true;
}

void train(struct run *run, const struct setup *setup)
{
    struct vp_err err = { .text = "" };
    int before = setup->eval ? setup->n_steps / 2 : 0;

    if (run_create(run, setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    if (before > 0 &&
        (vp_trainer_run(run->trainer, before, keep_step, run, &err) != VP_OK ||
         vp_trainer_eval(run->trainer, 3, &run->eval_loss, &err) != VP_OK))
        fail_msg("%s", err.text);
    if (vp_trainer_run(run->trainer, setup->n_steps - before, keep_step, run,
                       &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(run->n_steps, setup->n_steps);
    for (int i = 0; i < setup->n_steps; i++)
        assert_true(isfinite(run->losses[i]) && run->norms[i] > 0.0);
    run->weights = hash_weights(run);
    run_free(run);
}

void assert_same(const struct run *a, const struct run *b, int n_steps)
{
    for (int i = 0; i < n_steps; i++) {
        assert_memory_equal(&a->losses[i], &b->losses[i], sizeof(double));
        assert_memory_equal(&a->norms[i], &b->norms[i], sizeof(double));
    }
    assert_memory_equal(&a->eval_loss, &b->eval_loss, sizeof(double));
    assert_true(a->weights == b->weights);
}

void loud_init(const struct vp_graph *graph, vp_par par, uint64_t seed,
               int64_t begin, int64_t n, float *out)
{
    const struct vp_param *param = &graph->params[par];
    bool is_output = param->block > 0 && param->rows == 96;

    vp_param_init_range(graph, par, seed, begin, n, out);
    for (int64_t i = 0; is_output && i < n; i++)
        out[i] *= 0x1p14f;
}

struct setup loud(const char *schedule, int n_stages, const int *partition)
{
    struct setup setup = usual;

    setup.schedule = schedule;
    setup.n_stages = n_stages;
    setup.partition = partition;
    setup.tied = false;
    setup.threads = 1;
    setup.init = loud_init;
    setup.grad_clip = 2e4f;
    return setup;
}

const char *const models[] = { "bert", "gpt2", "translation" };

struct vp_stage_message *new_message(const struct vp_stage *stage,
                                     int64_t n_bytes)
{
    struct vp_stage_message *message = calloc(1, sizeof(*message));

    assert_non_null(message);
    assert_int_equal(
        vp_device_alloc(stage->device, (size_t)n_bytes + 1, &message->tensors),
        VP_OK);
    return message;
}

void free_message(const struct vp_stage *stage,
                  struct vp_stage_message *message, int64_t n_bytes)
{
    vp_device_free(stage->device, message->tensors, (size_t)n_bytes + 1);
    free(message);
}
