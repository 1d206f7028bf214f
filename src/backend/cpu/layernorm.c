/* layernorm: out = xhat * gamma + beta, xhat = (x - mean) / std.
 * x, out: [rows, C]; gamma, beta: [C]; aux0: mean and 1 / std, [rows, 2]. */
#include "backend/cpu/chunk.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/simd.h"

#include <string.h>

void vp_cpu_layernorm_f(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    const struct vp_simd *simd = vp_simd(args->graph->dtype);
    int64_t C = vp_arg_value(args, args->op->out)->cols;
    float *stat = args->aux[0];

    for (int64_t i = begin; i < end; i++)
        simd->layernorm(vp_elem(simd, args->out, i * C), stat + 2 * i,
                        vp_elem_of(simd, args->in[0], i * C), args->par[0],
                        args->par[1], args->op->attr.eps, C);
}

void vp_cpu_layernorm_b(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    const struct vp_simd *simd = vp_simd(args->graph->dtype);
    int64_t C = vp_arg_value(args, args->op->out)->cols;
    const float *stat = args->aux[0];

    for (int64_t i = begin; args->din[0] && i < end; i++) {
        const void *x = vp_elem_of(simd, args->in[0], i * C);

        if (args->recomputed_out)
            simd->normalise(vp_elem(simd, args->recomputed_out, i * C), x,
                            stat + 2 * i, args->par[0], args->par[1], C);
        simd->layernorm_grad(vp_elem(simd, args->din[0], i * C),
                             vp_elem_of(simd, args->dout, i * C), x,
                             args->par[0], stat + 2 * i, args->din_add[0], C);
    }
}

/* Adds the rows to the partial sums of their chunk: dgamma and dbeta in scratch
 * [chunks, 2, C]. */
void vp_cpu_layernorm_w(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    const struct vp_simd *simd = vp_simd(args->graph->dtype);
    const struct vp_value *out = vp_arg_value(args, args->op->out);
    int64_t C = out->cols, size = vp_chunks_sums(out->rows).size;
    const float *stat = args->aux[0];
    float *sums = (float *)args->scratch + begin / size * 2 * C;

    if (begin % size == 0)
        memset(sums, 0, (size_t)(2 * C) * sizeof(*sums));
    for (int64_t i = begin; i < end; i++)
        simd->layernorm_sums(
            sums, sums + C, vp_elem_of(simd, args->dout, i * C),
            vp_elem_of(simd, args->in[0], i * C), stat + 2 * i, C);
}

void vp_cpu_layernorm_w_end(const struct vp_kargs *args)
{
    const struct vp_value *out = vp_arg_value(args, args->op->out);
    const float *sums = args->scratch;

    for (int i = 0; i < 2; i++)
        if (args->dpar[i])
            vp_simd(VP_DTYPE_F32)
                ->sum_rows(args->dpar[i], sums + i * out->cols,
                           vp_chunks_sums(out->rows).n, 2 * out->cols,
                           args->mb->accumulate, out->cols);
}

size_t vp_cpu_layernorm_scratch(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_value *out = &graph->values[op->out];

    if (phase != VP_PHASE_W)
        return 0;
    return (size_t)vp_chunks_sums(out->rows).n * 2 * (size_t)out->cols *
           sizeof(float);
}
