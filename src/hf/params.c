/* Lists the parameters of a model from its graph. */
#include "hf/params.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct vp_hf_param *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Returns the shape in the file. One row is a vector (bias, layer norm) if its
 * initial value is constant; otherwise it is a table with one row, which files
 * store as a matrix. */
static struct vp_hf_param shape_of(const struct vp_param *param,
                                   const struct vp_part *part)
{
    struct vp_hf_param shape = { .block = param->block,
                                 .n_dims = 2,
                                 .dims = { part->rows, param->cols } };

    if (param->stored_transposed) {
        shape.dims[0] = param->cols;
        shape.dims[1] = part->rows;
    } else if (part->rows == 1 && param->init != VP_INIT_NORMAL) {
        shape.n_dims = 1;
        shape.dims[0] = param->cols;
        shape.dims[1] = 0;
    }
    return shape;
}

static enum vp_status list(const struct vp_graph *graph,
                           struct vp_hf_params *out)
{
    size_t most = (size_t)graph->n_params * VP_MAX_PART;

    out->n_blocks = graph->n_blocks;
    out->at = vp_arena_alloc(&out->arena, most * sizeof(*out->at));
    if (!out->at)
        return VP_ERR_NOMEM;
    for (int p = 0; p < graph->n_params; p++) {
        const struct vp_param *param = &graph->params[p];

        if (param->constant || param->tied_to != VP_NONE)
            continue;
        for (int i = 0; i < param->n_parts; i++) {
            struct vp_hf_param *at = &out->at[out->n++];

            *at = shape_of(param, &param->part[i]);
            at->name = vp_arena_strdup(&out->arena, param->part[i].name);
            if (!at->name)
                return VP_ERR_NOMEM;
        }
    }
    qsort(out->at, (size_t)out->n, sizeof(*out->at), compare);
    return VP_OK;
}

enum vp_status vp_hf_params_list(const struct vp_model *model,
                                 const struct vp_model_config *config,
                                 struct vp_hf_params *out, struct vp_err *err)
{
    struct vp_dims dims = { .batch = 1, .seq = 1 };
    struct vp_hf_params params = { .n = 0 };
    struct vp_graph graph;
    enum vp_status st;

    if (model->task == VP_TASK_TRANSLATION)
        dims.tgt_seq = 1;
    VP_TRY(vp_model_build(model, config, &dims, &graph, err));
    st = list(&graph, &params);
    vp_graph_release(&graph);
    if (st != VP_OK) {
        vp_hf_params_release(&params);
        return vp_err_set(err, st, "parameters: out of memory");
    }
    *out = params;
    return VP_OK;
}

void vp_hf_params_release(struct vp_hf_params *params)
{
    vp_arena_release(&params->arena);
    *params = (struct vp_hf_params){ .n = 0 };
}

const struct vp_hf_param *vp_hf_params_find(const struct vp_hf_params *params,
                                            const char *name)
{
    const struct vp_hf_param key = { .name = name };

    return bsearch(&key, params->at, (size_t)params->n, sizeof(*params->at),
                   compare);
}

struct vp_st_tensor vp_hf_param_tensor(const struct vp_hf_param *param,
                                       enum vp_st_type type)
{
    return (struct vp_st_tensor){ .name = param->name,
                                  .type = type,
                                  .n_dims = param->n_dims,
                                  .dims = { param->dims[0], param->dims[1] } };
}

int64_t vp_hf_param_elements(const struct vp_hf_param *param)
{
    return param->dims[0] * (param->n_dims == 2 ? param->dims[1] : 1);
}
