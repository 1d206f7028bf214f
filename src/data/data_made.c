/* Data whose batches a callback of the library's user fills. */
#include "data/data.h"

#include "data/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum vp_status vp_data_open_made(const struct vp_data_config *config,
                                 const struct vp_data_maker *maker,
                                 struct vp_data **out, struct vp_err *err)
{
    const struct vp_dims *dims = &config->dims[config->n_dims - 1];
    struct vp_data *data = calloc(1, sizeof(*data));

    if (!data)
        return vp_err_set(err, VP_ERR_NOMEM, "data: out of memory");
    data->config = *config;
    data->maker = *maker;
    for (int role = 0; role < VP_ROLE_COUNT; role++)
        data->capacity[role] = vp_dims_role(dims, (enum vp_role)role);
    snprintf(data->what, sizeof(data->what), "batches by a callback");
    data->info = (struct vp_data_info){
        .n_samples = maker->n_batches * dims->batch,
        .n_batches = maker->n_batches,
        .unigram_loss = (double)NAN,
        .what = data->what,
    };
    *out = data;
    return VP_OK;
}

enum vp_status vp_data_make(const struct vp_data *data, uint64_t m,
                            struct vp_batch *batch, struct vp_err *err)
{
    const struct vp_dims *dims = &data->config.dims[data->config.n_dims - 1];

    batch->bucket = data->config.n_dims - 1;
    batch->first_sample = m * (uint64_t)dims->batch;
    batch->n_samples = dims->batch;
    batch->n_tokens = dims->batch * (dims->seq + dims->tgt_seq);
    return data->maker.fill(data->maker.ctx, m, batch, err);
}
