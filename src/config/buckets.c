/* Chooses the buckets of a run and builds their graphs. */
#include "config/buckets.h"

static int64_t at_least_1(int64_t n)
{
    return n < 1 ? 1 : n;
}

static int make_lengths(int64_t n_tokens, int64_t longest, struct vp_dims *dims)
{
    int n = 0;

    for (int i = 0; i < 4; i++) {
        int64_t len = at_least_1(longest * (i + 1) / 4);

        if (n == 0 || len != dims[n - 1].seq)
            dims[n++] = (struct vp_dims){ at_least_1(n_tokens / len), len, len,
                                          0 };
    }
    return n;
}

int vp_buckets_make(const struct vp_config *config,
                    struct vp_dims dims[VP_MAX_BUCKETS])
{
    int64_t batch = config->batch_size, seq = config->seq_length;

    switch (config->model->task) {
    case VP_TASK_MASKED_LM:
        dims[0] = (struct vp_dims){ batch, seq, 0, batch * config->max_pred };
        dims[1] = (struct vp_dims){ batch, seq, 0, batch * seq };
        return config->max_pred < seq ? 2 : 1;
    case VP_TASK_CAUSAL_LM:
        dims[0] = (struct vp_dims){ batch, seq, 0, 0 };
        return 1;
    case VP_TASK_CUSTOM:
        dims[0] = config->model->custom->dims;
        return 1;
    default:
        return make_lengths(batch, seq, dims);
    }
}

static struct vp_model_config sizes_of(const struct vp_config *config)
{
    struct vp_model_config sizes = config->sizes;

    if (config->precision == VP_PRECISION_BF16)
        sizes.dtype = VP_DTYPE_BF16;
    if (config->precision == VP_PRECISION_FP16)
        sizes.dtype = VP_DTYPE_F16;
    return sizes;
}

enum vp_status vp_buckets_build(const struct vp_config *config,
                                const struct vp_dims *dims, int n,
                                struct vp_graph *graphs, struct vp_err *err)
{
    struct vp_model_config sizes = sizes_of(config);

    sizes.n_members = config->mp_size;
    sizes.sequence_parallel = config->sequence_parallel;
    for (int i = 0; i < n; i++)
        VP_TRY(
            vp_model_build(config->model, &sizes, &dims[i], &graphs[i], err));
    return VP_OK;
}

static struct vp_model_config forward_sizes(const struct vp_config *config)
{
    struct vp_model_config sizes = sizes_of(config);

    sizes.dropout = sizes.attention_dropout = sizes.label_smoothing = 0.0f;
    return sizes;
}

enum vp_status vp_buckets_build_outputs(const struct vp_config *config,
                                        const struct vp_dims *dims,
                                        unsigned outputs,
                                        struct vp_graph *graph_out,
                                        struct vp_err *err)
{
    struct vp_model_config sizes = forward_sizes(config);

    return vp_model_build_outputs(config->model, &sizes, dims, outputs,
                                  graph_out, err);
}

enum vp_status vp_buckets_build_cached(const struct vp_config *config,
                                       const struct vp_dims *dims,
                                       const struct vp_cache_size *cache,
                                       unsigned outputs,
                                       struct vp_graph *graph_out,
                                       struct vp_err *err)
{
    struct vp_model_config sizes = forward_sizes(config);

    return vp_model_build_cached(config->model, &sizes, dims, cache, outputs,
                                 graph_out, err);
}
