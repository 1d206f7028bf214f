#include "run/inference.h"

#include "config/buckets.h"
#include "config/resolve.h"
#include "run/devices.h"
#include "runtime/trainer/trainer.h"

#include <stdlib.h>
#include <string.h>

struct vp_inference {
    struct vp_graph graphs[VP_MAX_BUCKETS];
    int n_graphs;
    int *devices;
    struct vp_feed feed;
    struct vp_sink sink;
    struct vp_trainer *trainer;
};

/* Weights are loaded: only constants need a value of their own. */
static void init_constant(const struct vp_graph *graph, vp_par par,
                          uint64_t seed, int64_t begin, int64_t n, float *out)
{
    if (graph->params[par].constant)
        vp_param_init_range(graph, par, seed, begin, n, out);
    else
        memset(out, 0, (size_t)n * sizeof(*out));
}

static enum vp_status check(const struct vp_config *config, struct vp_err *err)
{
    if (vp_config_is_distributed(config))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'distributed_backend': a trained model runs "
                          "in one process; leave it out",
                          vp_config_place(config, "distributed_backend"));
    for (int s = 0; s < config->replicas.n; s++)
        if (config->replicas.at[s] > 1)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: key 'replicas': a trained model has one "
                              "rank for each stage; leave it out",
                              vp_config_place(config, "replicas"));
    return VP_OK;
}

static enum vp_status build_one(const struct vp_inference_config *with, int i,
                                struct vp_graph *out, struct vp_err *err)
{
    if (with->cache.n_lines > 0)
        return vp_buckets_build_cached(with->config, &with->dims[i],
                                       &with->cache, with->outputs, out, err);
    return vp_buckets_build_outputs(with->config, &with->dims[i], with->outputs,
                                    out, err);
}

static enum vp_status build(const struct vp_inference_config *with,
                            struct vp_inference *inference, struct vp_err *err)
{
    VP_BUG_ON(with->n_dims > VP_MAX_BUCKETS);
    for (int i = 0; i < with->n_dims; i++) {
        VP_TRY(build_one(with, i, &inference->graphs[i], err));
        inference->n_graphs++;
    }
    return VP_OK;
}

/* How training recomputes, swaps and counts minibatches is not asked. */
static struct vp_plan forward_plan(const struct vp_plan *plan)
{
    return (struct vp_plan){
        .schedule = "eval",
        .forward_only = true,
        .accumulation_steps = 1,
        .schedule_v = plan->schedule_v,
        .n_stages = plan->n_stages,
        .n_chunks = plan->n_chunks,
        .partition = plan->partition,
        .ranks = plan->ranks,
        .compress = plan->compress,
    };
}

static enum vp_status create(const struct vp_inference_config *with,
                             struct vp_inference *inference, struct vp_err *err)
{
    const struct vp_config *config = with->config;
    const struct vp_devices_config devices = { .config = config,
                                               .ctx = with->ctx,
                                               .notice = with->notice };
    struct vp_train_config train = {
        .graphs = inference->graphs,
        .n_graphs = inference->n_graphs,
        .eval_data = with->data,
        .feed = with->feed.next ? &inference->feed : NULL,
        .sink = with->sink.take ? &inference->sink : NULL,
        .init = init_constant,
        .optim = config->optim,
        .seed = config->seed,
        .rank_numbers = config->ranks.n > 0 ? config->ranks.at : NULL,
        .memory_limit = config->memory_limit,
        .loader = vp_model_source_loader(with->source),
    };

    vp_resolve_train(config, &train);
    train.plan = forward_plan(&train.plan);
    VP_TRY(vp_devices_choose(&devices, &train, &inference->devices, err));
    return vp_trainer_create(&train, &inference->trainer, err);
}

enum vp_status vp_inference_open(const struct vp_inference_config *config,
                                 struct vp_inference **out, struct vp_err *err)
{
    struct vp_inference *inference;
    enum vp_status st;

    VP_TRY(check(config->config, err));
    inference = calloc(1, sizeof(*inference));
    if (!inference)
        return vp_err_set(err, VP_ERR_NOMEM, "opening a model: out of memory");
    inference->feed = config->feed;
    inference->sink = config->sink;
    st = build(config, inference, err);
    if (st == VP_OK)
        st = create(config, inference, err);
    if (st != VP_OK) {
        vp_inference_free(inference);
        return st;
    }
    *out = inference;
    return VP_OK;
}

bool vp_inference_free(struct vp_inference *inference)
{
    if (!inference)
        return true;
    if (!vp_trainer_free(inference->trainer))
        return false;
    for (int i = 0; i < inference->n_graphs; i++)
        vp_graph_release(&inference->graphs[i]);
    free(inference->devices);
    free(inference);
    return true;
}

enum vp_status vp_inference_run(struct vp_inference *inference, int64_t first,
                                int64_t n, struct vp_score *score,
                                struct vp_err *err)
{
    return vp_trainer_eval_part(inference->trainer, first, n, score, err);
}

enum vp_status vp_inference_once(const struct vp_inference_config *config,
                                 int64_t n, bool *lost_out, struct vp_err *err)
{
    struct vp_score score = { .loss = 0.0 };
    struct vp_inference *inference;
    enum vp_status st;

    VP_TRY(vp_inference_open(config, &inference, err));
    st = vp_inference_run(inference, 0, n, &score, err);
    *lost_out = !vp_inference_free(inference);
    return st;
}

void vp_logits_row(const struct vp_logits *logits, int64_t row, float *out)
{
    const char *at = logits->at;
    int64_t n_bytes = logits->cols * vp_dtype_bytes(logits->dtype);

    at += row * n_bytes;
    if (logits->dtype == VP_DTYPE_F32)
        memcpy(out, at, (size_t)n_bytes);
    else
        vp_dtype_expand(logits->dtype, out, (const uint16_t *)(const void *)at,
                        logits->cols);
}

const struct vp_stage_price *vp_inference_prices(
    const struct vp_inference *inference, int *n_stages_out)
{
    *n_stages_out = vp_trainer_n_stages(inference->trainer);
    return vp_trainer_prices(inference->trainer);
}
