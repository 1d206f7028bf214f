/* Minibatches by callback: passes arrays to the caller's function and checks
 * the numbers that it writes. */
#include "api/internal.h"

#include "config/buckets.h"

#include <string.h>

/* ---- Inputs of the model ------------------------------------------------- */

static void find_inputs(const struct vp_graph *graph, struct vp_api_data *data)
{
    for (int i = 0; i < graph->n_values; i++)
        data->is_read[graph->values[i].role] = true;
    for (int role = 0; role < VP_ROLE_COUNT; role++)
        data->has_range[role] = vp_graph_input_range(graph, (enum vp_role)role,
                                                     &data->ranges[role]);
}

/* ---- A minibatch --------------------------------------------------------- */

static const char *role_name(int role)
{
    static const char *const names[VP_ROLE_COUNT] = {
        [VP_ROLE_TOKENS] = "ids",
        [VP_ROLE_TYPES] = "types",
        [VP_ROLE_MASK] = "mask",
        [VP_ROLE_TARGET_TOKENS] = "target_ids",
        [VP_ROLE_LABEL_ROWS] = "label_rows",
        [VP_ROLE_LABELS] = "labels",
    };

    return names[role];
}

static enum vp_status check_role(const struct vp_api_data *data, int role,
                                 const int32_t *at, struct vp_err *err)
{
    const struct vp_input_range *range = &data->ranges[role];
    int64_t n = vp_dims_role(&data->dims, (enum vp_role)role);

    for (int64_t i = 0; i < n; i++)
        if (at[i] < range->first || at[i] >= range->limit)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s[%lld] is %ld, but the model takes %d to "
                              "%lld; correct the data callback",
                              role_name(role), (long long)i, (long)at[i],
                              (int)range->first, (long long)range->limit - 1);
    return VP_OK;
}

/* Returns the arrays that the model reads, with their initial values. */
static struct vpipe_batch hand_out(const struct vp_api_data *data,
                                   const struct vp_batch *batch)
{
    const struct vp_dims *dims = &data->dims;
    int32_t *at[VP_ROLE_COUNT];

    for (int role = 0; role < VP_ROLE_COUNT; role++)
        at[role] = data->is_read[role] ? batch->array[role] : NULL;
    for (int64_t i = 0; at[VP_ROLE_MASK] && i < dims->batch * dims->seq; i++)
        at[VP_ROLE_MASK][i] = 1;
    return (struct vpipe_batch){
        .shape = { dims->batch, dims->seq, dims->tgt_seq, dims->n_labels },
        .ids = at[VP_ROLE_TOKENS],
        .types = at[VP_ROLE_TYPES],
        .mask = at[VP_ROLE_MASK],
        .target_ids = at[VP_ROLE_TARGET_TOKENS],
        .label_rows = at[VP_ROLE_LABEL_ROWS],
        .labels = at[VP_ROLE_LABELS],
    };
}

static enum vp_status fill(struct vp_api_data *data, enum vpipe_split split,
                           uint64_t m, struct vp_batch *batch,
                           struct vp_err *err)
{
    struct vpipe_batch given = hand_out(data, batch);
    enum vp_status st = VP_OK;
    int code;

    given.split = split;
    given.number = (int64_t)m;
    pthread_mutex_lock(&data->lock);
    code = data->fill(data->ctx, &given);
    if (code != 0)
        data->code = code;
    pthread_mutex_unlock(&data->lock);
    if (code != 0)
        st = vp_err_set(err, VP_ERR_INVALID, "the data callback returned %d",
                        code);
    for (int role = 0; role < VP_ROLE_COUNT && st == VP_OK; role++)
        if (data->has_range[role])
            st = check_role(data, role, batch->array[role], err);
    if (st != VP_OK)
        vp_err_prefix(err, "minibatch %llu", (unsigned long long)m);
    return st;
}

static enum vp_status fill_train(void *ctx, uint64_t m, struct vp_batch *batch,
                                 struct vp_err *err)
{
    return fill(ctx, VPIPE_TRAIN, m, batch, err);
}

static enum vp_status fill_eval(void *ctx, uint64_t m, struct vp_batch *batch,
                                struct vp_err *err)
{
    return fill(ctx, VPIPE_EVAL, m, batch, err);
}

/* ---- Setting up ---------------------------------------------------------- */

enum vp_status vp_api_data_init(struct vp_api_data *data,
                                const struct vp_config *config,
                                struct vp_err *err)
{
    struct vp_dims dims[VP_MAX_BUCKETS];
    int n = vp_buckets_make(config, dims);
    struct vp_graph graph;

    /* Every minibatch has the shape of the largest bucket. */
    data->dims = dims[n - 1];
    VP_TRY(vp_buckets_build(config, &data->dims, 1, &graph, err));
    find_inputs(&graph, data);
    vp_graph_release(&graph);
    pthread_mutex_init(&data->lock, NULL);
    data->train = (struct vp_data_maker){ data, data->n_train, fill_train };
    data->eval = (struct vp_data_maker){ data, data->n_eval, fill_eval };
    return VP_OK;
}

void vp_api_data_release(struct vp_api_data *data)
{
    if (data->train.fill)
        pthread_mutex_destroy(&data->lock);
}
