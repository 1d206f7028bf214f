/* Estimates the seconds of blocks from the rates of a device: matrix products
 * by FLOPs and rows, other operators by bytes, plus a constant per call. */
#include "plan/profile.h"

#include "graph/opdef.h"

#include <string.h>

/* ---- One call ----------------------------------------------------------- */

static double share_of_peak(const struct vp_profile_rates *rates, double rows)
{
    int n = rates->n_efficiency;

    if (n == 0)
        return 1.0;
    if (rows <= rates->efficiency[0].rows)
        return rates->efficiency[0].share;
    for (int i = 1; i < n; i++) {
        double x0 = rates->efficiency[i - 1].rows,
               x1 = rates->efficiency[i].rows;
        double y0 = rates->efficiency[i - 1].share;
        double y1 = rates->efficiency[i].share;

        if (rows <= x1)
            return y0 + (y1 - y0) * (rows - x0) / (x1 - x0);
    }
    return rates->efficiency[n - 1].share;
}

static double peak_of(const struct vp_profile_rates *rates, enum vp_dtype dtype)
{
    int i = dtype == VP_DTYPE_BF16 ? 1 : dtype == VP_DTYPE_F16 ? 2 : 0;

    return rates->flops[i] > 0.0 ? rates->flops[i] : rates->flops[0];
}

static double value_bytes(const struct vp_graph *graph, vp_val v)
{
    return v == VP_NONE ? 0.0 : (double)vp_value_bytes(graph, v);
}

/* Bytes that a call reads and writes: inputs and results of the operator.
 * Backward moves a gradient in place of each value, which is about the same. */
static double op_bytes(const struct vp_graph *graph, const struct vp_op *op)
{
    double sum = value_bytes(graph, op->out);

    for (int k = 0; k < VP_MAX_IN; k++)
        sum += value_bytes(graph, op->in[k]);
    for (int k = 0; k < VP_MAX_AUX; k++)
        sum += value_bytes(graph, op->aux[k]);
    return sum;
}

static double product_rows(const struct vp_graph *graph, const struct vp_op *op)
{
    return op->kind == VP_OP_ATTENTION ? (double)op->attr.q_len
                                       : (double)graph->values[op->in[0]].rows;
}

static bool has_kernel(const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_op_def *def = &vp_op_defs[op->kind];

    return phase == VP_PHASE_F ||
           (phase == VP_PHASE_B ? def->has_b : def->has_w);
}

static double op_seconds(const struct vp_device_profile *profile,
                         const struct vp_graph *graph, const struct vp_op *op,
                         enum vp_phase phase)
{
    const struct vp_profile_rates *rates = &profile->rates;
    double flops = vp_op_flops(graph, op, phase);
    double seconds = rates->kernel_seconds;

    if (!has_kernel(op, phase))
        return 0.0;
    if (flops > 0.0)
        seconds += flops / (peak_of(rates, graph->dtype) *
                            share_of_peak(rates, product_rows(graph, op)));
    else if (!vp_op_defs[op->kind].flops)
        seconds += op_bytes(graph, op) / rates->bytes_per_second;
    return seconds;
}

/* ---- A block ------------------------------------------------------------ */

/* Returns true if value `v` is one of the operator's tensors in the mask
 * `need`. */
static bool reads(const struct vp_op *op, unsigned need, vp_val v)
{
    for (int k = 0; k < VP_MAX_IN; k++)
        if (op->in[k] == v && (need & ((unsigned)VP_NEED_IN0 << k)))
            return true;
    for (int k = 0; k < VP_MAX_AUX; k++)
        if (op->aux[k] == v && (need & ((unsigned)VP_NEED_AUX0 << k)))
            return true;
    return op->out == v && (need & VP_NEED_OUT);
}

/* Returns true if backward of the block, or an operator of `again`, reads `v`.
 * Values that other blocks read count as read. */
static bool is_needed(const struct vp_graph *graph,
                      const struct vp_block *block, vp_val v, uint64_t again)
{
    int last = graph->values[v].last_reader;

    if (last >= block->first_op + block->n_ops)
        return true;
    for (int i = 0; i < block->n_ops; i++) {
        const struct vp_op *op = &graph->ops[block->first_op + i];
        const struct vp_op_def *def = &vp_op_defs[op->kind];

        if (reads(op, def->needs_b | def->needs_w, v))
            return true;
        for (int k = 0; k < VP_MAX_IN; k++)
            if (op->in[k] == v && (again >> i & 1))
                return true;
    }
    return false;
}

/* Returns the operators of `ops` that must run again: those whose results
 * backward needs. */
static uint64_t rerun(const struct vp_graph *graph,
                      const struct vp_block *block, uint64_t ops)
{
    uint64_t again = 0;

    for (int i = (block->n_ops < 64 ? block->n_ops : 64) - 1; i >= 0; i--) {
        const struct vp_op *op = &graph->ops[block->first_op + i];
        bool needed = is_needed(graph, block, op->out, again);

        for (int k = 0; k < VP_MAX_AUX; k++)
            needed |= op->aux[k] != VP_NONE &&
                      is_needed(graph, block, op->aux[k], again);
        if ((ops >> i & 1) && needed)
            again |= UINT64_C(1) << i;
    }
    return again;
}

double vp_profile_estimate_set(const struct vp_device_profile *profile,
                               const struct vp_graph *graph, int block,
                               uint64_t ops)
{
    const struct vp_block *at = &graph->blocks[block];
    uint64_t again = rerun(graph, at, ops);
    double seconds = 0.0;

    for (int i = 0; i < at->n_ops && i < 64; i++)
        if (again >> i & 1)
            seconds += op_seconds(profile, graph, &graph->ops[at->first_op + i],
                                  VP_PHASE_F);
    return seconds;
}

/* An update reads weights, their copy in the compute precision, gradients and
 * moments, and writes all of these but the gradients. */
static double update_seconds(const struct vp_device_profile *profile,
                             const struct vp_graph *graph, int block,
                             int n_moments)
{
    double n = 0.0;

    for (vp_par par = 0; par < graph->n_params; par++) {
        const struct vp_param *param = &graph->params[par];

        if (param->block == block && !param->constant &&
            param->tied_to == VP_NONE)
            n += (double)param->rows * (double)param->cols;
    }
    return n > 0.0 ? profile->rates.kernel_seconds +
                         n * 4.0 * (3.0 + 2.0 * n_moments) /
                             profile->rates.bytes_per_second
                   : 0.0;
}

void vp_profile_estimate(const struct vp_device_profile *profile,
                         const struct vp_graph *graph, int block, int n_moments,
                         struct vp_profile_block *out)
{
    const struct vp_block *at = &graph->blocks[block];
    uint64_t sets[VP_PROFILE_MAX_SETS];
    struct vp_block_seconds *to = &out->alone;

    *out = (struct vp_profile_block){ .name = at->name };
    for (int i = at->first_op; i < at->first_op + at->n_ops; i++) {
        const struct vp_op *op = &graph->ops[i];
        /* Only products have weight gradients in the list W. */
        double *w = vp_op_defs[op->kind].flops ? &to->w : &to->b;

        to->f += op_seconds(profile, graph, op, VP_PHASE_F);
        to->b += op_seconds(profile, graph, op, VP_PHASE_B);
        *w += op_seconds(profile, graph, op, VP_PHASE_W);
    }
    out->beside_copies = *to;
    out->update = update_seconds(profile, graph, block, n_moments);
    out->n_sets = vp_profile_candidates(graph, block, sets);
    for (int i = 0; i < out->n_sets; i++) {
        double seconds = vp_profile_estimate_set(profile, graph, block,
                                                 sets[i]);

        out->sets[i] = (struct vp_profile_set){ sets[i], seconds, seconds };
    }
}

/* ---- Stated rates ------------------------------------------------------- */

void vp_profile_synthetic(bool host_memory, enum vp_dtype precision,
                          struct vp_device_profile *out)
{
    static const struct vp_profile_facts none = { "", "", "", "", "" };
    /* One core with AVX-512, and an accelerator of the class of an H200. */
    static const struct vp_profile_rates core = {
        .flops = { 120e9, 120e9, 60e9 },
        .bytes_per_second = 12e9,
        .kernel_seconds = 2e-6,
        .efficiency = { { 16, 0.3 }, { 128, 0.8 }, { 1024, 0.9 } },
        .n_efficiency = 3,
    };
    static const struct vp_profile_rates gpu = {
        .flops = { 60e12, 800e12, 800e12 },
        .bytes_per_second = 4e12,
        .kernel_seconds = 4e-6,
        .efficiency = { { 128, 0.3 }, { 1024, 0.6 }, { 8192, 0.8 } },
        .n_efficiency = 3,
    };

    *out = (struct vp_device_profile){
        .facts = none,
        .precision = precision,
        .rates = host_memory ? core : gpu,
        .same_host = { 5e-6, host_memory ? 8e9 : 40e9 },
        .between_hosts = { 20e-6, 1.1e9 },
        .capacity = 1.0,
    };
    out->facts.device = "synthetic";
    if (host_memory)
        return;
    out->copy_out = out->copy_in = 54e9;
    out->copy_out_both = out->copy_in_both = 43e9;
}
