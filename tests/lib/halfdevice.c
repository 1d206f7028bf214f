#include "lib/halfdevice.h"

#include <stdlib.h>
#include <string.h>

static size_t half_scratch_bytes(const void *ctx, const struct vp_graph *graph,
                                 const struct vp_op *op, enum vp_phase phase)
{
    (void)ctx;
    (void)graph;
    (void)op;
    (void)phase;
    return 0;
}

static enum vp_status half_compile(struct vp_backend *backend,
                                   const struct vp_program *program,
                                   struct vp_exe **out, struct vp_err *err)
{
    struct vp_exe *exe = malloc(sizeof(*exe));

    (void)backend;
    (void)err;
    if (!exe)
        return VP_ERR_NOMEM;
    exe->program = program;
    *out = exe;
    return VP_OK;
}

static void half_exe_free(struct vp_exe *exe)
{
    free(exe);
}

static float half_loss(const struct vp_mb *mb)
{
    return 1.0f / (float)(1 + mb->first_sample % 1000);
}

float half_gradient(const struct vp_mb *mb, uint16_t weight, int64_t i)
{
    float noise = (float)((mb->first_sample * 31 + (uint64_t)i * 17) % 64) /
                  64.0f;
    float size = mb->first_sample % 3 == 0 ? 4.0f : 1.0f, w;

    vp_dtype_expand(VP_DTYPE_BF16, &w, &weight, 1);
    return mb->loss_grad * size * (noise - 0.5f + w);
}

static void half_add_gradients(const struct vp_graph *graph,
                               const struct vp_call *call,
                               const struct vp_launch *launch)
{
    for (int k = 0; k < VP_MAX_PARAM; k++) {
        vp_par par = call->op->par[k];
        const uint16_t *w;
        float *g;

        if (par == VP_NONE || call->dpar[k].space != VP_SPACE_GRAD)
            continue;
        w = (const uint16_t *)launch->base[VP_SPACE_PARAM] +
            call->par[k].offset / (int64_t)sizeof(*w);
        g = (float *)launch->base[VP_SPACE_GRAD] +
            call->dpar[k].offset / (int64_t)sizeof(*g);
        for (int64_t i = 0;
             i < graph->params[par].rows * graph->params[par].cols; i++)
            g[i] = (launch->mb->accumulate ? g[i] : 0.0f) +
                   half_gradient(launch->mb, w[i], i);
    }
}

static enum vp_status half_launch_part(struct vp_exe *exe, enum vp_list list,
                                       int first, int n,
                                       const struct vp_launch *launch,
                                       struct vp_stream *stream)
{
    const struct vp_program *program = exe->program;

    (void)stream;
    if (list == VP_LIST_F && program->loss.space == VP_SPACE_SLOT) {
        char *slot = launch->base[VP_SPACE_SLOT];
        float loss[VP_LOSS_COLS] = {
            [VP_LOSS_MEAN] = half_loss(launch->mb), [VP_LOSS_WEIGHT] = 1.0f
        };

        memcpy(slot + program->loss.offset, loss, sizeof(loss));
    }
    for (int i = first; i < first + n; i++)
        if (program->calls[list][i].phase == VP_PHASE_W)
            half_add_gradients(program->graph, &program->calls[list][i],
                               launch);
    return VP_OK;
}

static enum vp_status half_launch(struct vp_exe *exe, enum vp_list list,
                                  const struct vp_launch *launch,
                                  struct vp_stream *stream)
{
    return half_launch_part(exe, list, 0, exe->program->n_calls[list], launch,
                            stream);
}

const struct vp_backend_ops *half_device(void)
{
    static struct vp_backend_ops half;

    if (getenv("VP_TEST_DEVICE"))
        return test_device();
    half = vp_backend_cpu;
    half.scratch_bytes = half_scratch_bytes;
    half.compile = half_compile;
    half.exe_free = half_exe_free;
    half.launch = half_launch;
    half.launch_part = half_launch_part;
    return &half;
}

void set_type(struct setup *setup, const void *bf16)
{
    if (!bf16)
        return;
    setup->dtype = VP_DTYPE_BF16;
    setup->device = test_device();
}
