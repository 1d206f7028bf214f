/* A device with weights in BF16 for machines that have none: the CPU, but for
 * what it computes. Losses and gradients are formulas of samples and weights,
 * the same however a model is cut; weights, versions, the optimizer and all
 * that a trainer does with them are real. */
#ifndef VP_TESTS_HALFDEVICE_H
#define VP_TESTS_HALFDEVICE_H

#include "base/halves.h"
#include "trainlib.h"

struct vp_exe {
    const struct vp_program *program;
};

static inline size_t half_scratch_bytes(const void *ctx,
                                        const struct vp_graph *graph,
                                        const struct vp_op *op,
                                        enum vp_phase phase)
{
    (void)ctx;
    (void)graph;
    (void)op;
    (void)phase;
    return 0;
}

static inline enum vp_status half_compile(struct vp_backend *backend,
                                          const struct vp_program *program,
                                          struct vp_exe **out,
                                          struct vp_err *err)
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

static inline void half_exe_free(struct vp_exe *exe)
{
    free(exe);
}

static inline float half_loss(const struct vp_mb *mb)
{
    return 1.0f / (float)(1 + mb->first_sample % 1000);
}

/* Some minibatches have larger ones, which overflow sooner. */
static inline float half_gradient(const struct vp_mb *mb, uint16_t weight,
                                  int64_t i)
{
    float noise = (float)((mb->first_sample * 31 + (uint64_t)i * 17) % 64) /
                  64.0f;
    float size = mb->first_sample % 3 == 0 ? 4.0f : 1.0f, w;

    vp_dtype_expand(VP_DTYPE_BF16, &w, &weight, 1);
    return mb->loss_grad * size * (noise - 0.5f + w);
}

static inline void half_add_gradients(const struct vp_graph *graph,
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

static inline enum vp_status half_launch_part(struct vp_exe *exe,
                                              enum vp_list list, int first,
                                              int n,
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

static inline enum vp_status half_launch(struct vp_exe *exe, enum vp_list list,
                                         const struct vp_launch *launch,
                                         struct vp_stream *stream)
{
    return half_launch_part(exe, list, 0, exe->program->n_calls[list], launch,
                            stream);
}

static inline enum vp_status half_update_one(
    struct vp_backend *backend, struct vp_stream *stream,
    const struct vp_optim_step *step, const struct vp_optim_tensor *tensor)
{
    int64_t at = tensor->offset;
    const uint16_t *old = (const uint16_t *)step->w_old + at;
    uint16_t *next = (uint16_t *)step->w_new + at;
    uint16_t *low = (uint16_t *)step->master + at;
    float *w = malloc((size_t)tensor->n * sizeof(*w));
    struct vp_optim_tensor alone = *tensor;
    struct vp_optim_step floats = *step;
    enum vp_status st;

    if (!w)
        return VP_ERR_NOMEM;
    alone.offset = 0;
    floats.tensors = &alone;
    floats.n_tensors = 1;
    floats.dtype = VP_DTYPE_F32;
    floats.w_old = w;
    floats.w_new = w;
    for (int k = 0; k < vp_optim_n_moments(step->config.kind); k++)
        floats.moment[k] += at;
    vp_halves_join_all(w, old, low, tensor->n);
    st = vp_backend_cpu.update(backend, stream, &floats);
    vp_halves_split_all(next, low, w, tensor->n);
    free(w);
    return st;
}

static inline enum vp_status half_update(struct vp_backend *backend,
                                         struct vp_stream *stream,
                                         const struct vp_optim_step *step)
{
    VP_BUG_ON(step->dtype != VP_DTYPE_BF16);
    for (int i = 0; i < step->n_tensors; i++)
        VP_TRY(half_update_one(backend, stream, step, &step->tensors[i]));
    return VP_OK;
}

/* The real one, where there is one. */
static inline const struct vp_backend_ops *half_device(void)
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
    half.update = half_update;
    return &half;
}

/* `bf16` is the state of a test; NULL: weights are floats. */
static inline void set_type(struct setup *setup, const void *bf16)
{
    if (!bf16)
        return;
    setup->dtype = VP_DTYPE_BF16;
    setup->device = half_device();
}

#endif
