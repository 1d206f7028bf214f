/* Inference: builds forward graphs, plans them on the stages of the
 * configuration, and runs them with a trainer that has no optimizer. */
#include "run/inference.h"

#include "config/buckets.h"
#include "config/resolve.h"
#include "job/job_phase.h"
#include "run/blackboxes.h"
#include "run/devices.h"
#include "runtime/trainer/trainer.h"

#include <stdlib.h>
#include <string.h>

enum { PART = 64 }; /* minibatches between two checks of `stop` */

struct vp_inference {
    struct vp_inference_job *job; /* several processes; NULL: one */
    struct vp_graph graphs[VP_MAX_BUCKETS];
    int n_graphs;
    int *devices;
    struct vp_blackboxes blackboxes;
    struct vp_feed feed;
    struct vp_sink sink;
    struct vp_trainer *trainer;
};

/* Weights are loaded later, so only constants get their values here. */
static void init_constant(const struct vp_graph *graph, vp_par par,
                          uint64_t seed, int64_t begin, int64_t n, float *out)
{
    if (graph->params[par].constant)
        vp_param_init_range(graph, par, seed, begin, n, out);
    else
        memset(out, 0, (size_t)n * sizeof(*out));
}

static enum vp_status check(const struct vp_inference_config *with,
                            struct vp_err *err)
{
    if (!with->job && vp_config_is_distributed(with->config))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'distributed_backend': a trained model runs "
                          "in one process; leave it out",
                          vp_config_place(with->config, "distributed_backend"));
    return vp_inference_check(with->config, err);
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

/* Returns the plan without the parts that only training uses: recomputation,
 * swapping and accumulation. */
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

static struct vp_world *world_of(const struct vp_inference_config *with)
{
    return with->job ? with->job->world : NULL;
}

/* Makes the plan of this process, without the others. `train` borrows from
 * `inference`. */
static enum vp_status plan(const struct vp_inference_config *with,
                           struct vp_inference *inference,
                           struct vp_train_config *train, struct vp_err *err)
{
    const struct vp_config *config = with->config;
    const struct vp_devices_config devices = { .config = config,
                                               .world = world_of(with),
                                               .ctx = with->ctx,
                                               .notice = with->notice };

    VP_TRY(build(with, inference, err));
    *train = (struct vp_train_config){
        .graphs = inference->graphs,
        .n_graphs = inference->n_graphs,
        .eval_data = with->data,
        .feed = with->feed.next ? &inference->feed : NULL,
        .sink = with->sink.take ? &inference->sink : NULL,
        .init = init_constant,
        .optim = config->optim,
        .seed = config->seed,
        .rank_numbers = config->ranks.n > 0 ? config->ranks.at : NULL,
        .world = world_of(with),
        .memory_limit = config->memory_limit,
        .loader = vp_model_source_loader(with->source),
    };
    vp_resolve_train(config, train);
    train->plan = forward_plan(&train->plan);
    VP_TRY(vp_devices_choose(&devices, train, &inference->devices, err));
    if (!with->job)
        return VP_OK;
    VP_TRY(vp_blackboxes_open(&inference->blackboxes, config, with->job->world,
                              with->job->heartbeat, err));
    train->blackboxes = inference->blackboxes.at;
    return VP_OK;
}

static enum vp_status create(const struct vp_inference_config *with,
                             struct vp_inference *inference, struct vp_err *err)
{
    struct vp_train_config train;
    enum vp_status st = plan(with, inference, &train, err);

    if (st == VP_OK) /* vp_trainer_create() agrees with the other processes */
        st = vp_trainer_create(&train, &inference->trainer, err);
    else if (world_of(with))
        st = vp_world_agree(world_of(with), st, VP_LIMIT_NEVER, err);
    if (with->job)
        with->job->agreed = st != VP_OK;
    return st;
}

/* Opens the model in this process; all processes of the job do the same. */
static enum vp_status open_here(const struct vp_inference_config *config,
                                struct vp_inference **out, struct vp_err *err)
{
    struct vp_inference *inference = calloc(1, sizeof(*inference));
    enum vp_status st;

    if (!inference)
        return vp_err_set(err, VP_ERR_NOMEM, "opening a model: out of memory");
    inference->job = config->job;
    inference->feed = config->feed;
    inference->sink = config->sink;
    if (config->job)
        vp_job_phase_set(VP_JOB_PHASE_PLAN,
                         vp_model_source_path(config->source));
    st = create(config, inference, err);
    if (st != VP_OK) {
        vp_inference_free(inference);
        return st;
    }
    if (config->job)
        vp_job_phase_set(VP_JOB_PHASE_TRAIN, NULL);
    *out = inference;
    return VP_OK;
}

/* ---- Several processes -------------------------------------------------- */

/* Request of the lead: the parts of its configuration that others need. */
struct request {
    unsigned outputs;
    int n_dims;
    struct vp_dims dims[VP_MAX_BUCKETS];
    struct vp_cache_size cache;
    bool has_sink;
};

/* Called by all processes; `request` becomes that of the lead. */
static enum vp_status share(struct vp_inference_job *job,
                            struct request *request, struct vp_err *err)
{
    enum vp_status st = vp_world_agree(job->world, VP_OK, VP_LIMIT_NEVER, err);

    job->agreed = st != VP_OK;
    VP_TRY(st);
    job->told = true;
    st = vp_world_share(job->world, request, sizeof(*request), VP_LIMIT_NEVER);
    return st == VP_OK
               ? VP_OK
               : vp_err_set(err, st,
                            "inference: process 0 sent no request; see its "
                            "messages");
}

static enum vp_status send_request(const struct vp_inference_config *with,
                                   struct vp_err *err)
{
    struct request request = { .outputs = with->outputs,
                               .n_dims = with->n_dims,
                               .cache = with->cache,
                               .has_sink = with->sink.take != NULL };

    VP_BUG_ON(with->n_dims > VP_MAX_BUCKETS);
    memcpy(request.dims, with->dims,
           (size_t)with->n_dims * sizeof(*with->dims));
    return share(with->job, &request, err);
}

/* Never called: logits go to the sink of the lead. */
static enum vp_status take_nothing(void *ctx, const struct vp_logits *logits,
                                   struct vp_err *err)
{
    (void)ctx;
    (void)logits;
    return vp_err_set(err, VP_ERR_INVALID,
                      "logits in a process that is not the lead");
}

enum vp_status vp_inference_follow(const struct vp_inference_config *config,
                                   struct vp_err *err)
{
    struct vp_inference_config with = *config;
    struct request request = { .n_dims = 0 };
    struct vp_inference *inference;
    enum vp_followed what;
    enum vp_status st;

    VP_TRY(check(config, err));
    VP_TRY(share(with.job, &request, err));
    with.outputs = request.outputs;
    with.dims = request.dims;
    with.n_dims = request.n_dims;
    with.cache = request.cache;
    with.data = NULL;
    with.feed = (struct vp_feed){ NULL, NULL };
    with.sink = (struct vp_sink){ NULL,
                                  request.has_sink ? take_nothing : NULL };
    VP_TRY(open_here(&with, &inference, err));
    st = vp_trainer_follow(inference->trainer, with.job->stop, &what, err);
    vp_inference_free(inference);
    return st;
}

/* ---- Running ------------------------------------------------------------ */

enum vp_status vp_inference_open(const struct vp_inference_config *config,
                                 struct vp_inference **out, struct vp_err *err)
{
    VP_TRY(check(config, err));
    if (world_of(config))
        VP_TRY(send_request(config, err));
    return open_here(config, out, err);
}

bool vp_inference_free(struct vp_inference *inference)
{
    if (!inference)
        return true;
    if (!vp_trainer_free(inference->trainer))
        return false;
    vp_blackboxes_close(&inference->blackboxes);
    for (int i = 0; i < inference->n_graphs; i++)
        vp_graph_release(&inference->graphs[i]);
    free(inference->devices);
    free(inference);
    return true;
}

static bool asked_to_stop(const struct vp_inference *inference)
{
    const struct vp_inference_job *job = inference->job;

    return job && ((job->stop && *job->stop) ||
                   vp_trainer_stopped(inference->trainer));
}

enum vp_status vp_inference_run(struct vp_inference *inference, int64_t first,
                                int64_t n, struct vp_score *score,
                                struct vp_err *err)
{
    for (int64_t m = 0; m < n; m += PART) {
        if (asked_to_stop(inference))
            return vp_err_set(err, VP_ERR_INTERRUPTED, "interrupted");
        VP_TRY(vp_trainer_eval_part(inference->trainer, first + m,
                                    n - m < PART ? n - m : PART, score, err));
    }
    return VP_OK;
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
