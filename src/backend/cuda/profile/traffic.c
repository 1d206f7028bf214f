/* Computes the memory traffic that calls need, for rates in profiles. */
#include "backend/cuda/profile/traffic.h"

#include "graph/opdef.h"

#include <stdlib.h>

enum { MAX_TENSORS = 64 };

struct tensor {
    const void *data;
    double n_bytes;
    bool written;
    bool dead; /* used only between these calls: stays in registers */
};

struct traffic {
    struct tensor tensors[MAX_TENSORS];
    int n;
};

static struct tensor *find(struct traffic *traffic, const void *data,
                           bool written)
{
    for (int i = 0; i < traffic->n; i++)
        if (traffic->tensors[i].data == data &&
            traffic->tensors[i].written == written)
            return &traffic->tensors[i];
    return NULL;
}

static void add(struct traffic *traffic, const void *data, double n_bytes,
                bool written)
{
    if (data && n_bytes > 0.0 && traffic->n < MAX_TENSORS &&
        !find(traffic, data, written))
        traffic->tensors[traffic->n++] = (struct tensor){ data, n_bytes,
                                                          written, false };
}

static double bytes_of(const struct vp_kargs *args, vp_val v)
{
    return v == VP_NONE ? 0.0 : (double)vp_value_bytes(args->graph, v);
}

/* A tensor that an earlier one of the calls has written is not read from memory
 * again. */
static void reads(struct traffic *traffic, const void *data, double n_bytes)
{
    if (!find(traffic, data, true))
        add(traffic, data, n_bytes, false);
}

static void writes(struct traffic *traffic, const void *data, double n_bytes)
{
    add(traffic, data, n_bytes, true);
}

static bool is_read_by(const struct vp_cuda_call *call, const void *data)
{
    for (int i = 0; i < VP_MAX_IN; i++)
        if (call->args.in[i] == data)
            return true;
    return false;
}

/* True if the result of call `i` is read by the next of these calls, and by no
 * other list. */
static bool is_passed_on(const struct vp_cuda_call *calls, int n, int i)
{
    return calls[i].phase == VP_PHASE_F && calls[i].out_is_temporary &&
           i + 1 < n && is_read_by(&calls[i + 1], calls[i].args.out);
}

/* ---- Operators ---------------------------------------------------------- */

static void add_forward(struct traffic *traffic, const struct vp_kargs *args)
{
    for (int i = 0; i < VP_MAX_IN; i++)
        reads(traffic, args->in[i], bytes_of(args, args->op->in[i]));
    writes(traffic, args->out, bytes_of(args, args->op->out));
}

static void add_gradients(struct traffic *traffic, const struct vp_kargs *args,
                          enum vp_phase phase)
{
    const struct vp_op *op = args->op;
    const struct vp_op_def *def = &vp_op_defs[op->kind];
    unsigned needs = phase == VP_PHASE_B ? def->needs_b : def->needs_w;

    reads(traffic, args->dout, bytes_of(args, op->out));
    if (needs & VP_NEED_OUT)
        reads(traffic, args->out, bytes_of(args, op->out));
    for (int i = 0; i < VP_MAX_IN; i++) {
        if (needs & (VP_NEED_IN0 << i))
            reads(traffic, args->in[i], bytes_of(args, op->in[i]));
        if (phase == VP_PHASE_B && args->din_add[i])
            reads(traffic, args->din[i], bytes_of(args, op->in[i]));
        if (phase == VP_PHASE_B)
            writes(traffic, args->din[i], bytes_of(args, op->in[i]));
    }
    if (phase == VP_PHASE_B)
        writes(traffic, args->recomputed_out, bytes_of(args, op->out));
}

/* The activation, and the sums for the bias. The product itself is not
 * counted. */
static void add_linear(struct traffic *traffic, const struct vp_kargs *args,
                       enum vp_phase phase)
{
    double n_bytes = bytes_of(args, args->op->out);

    if (phase == VP_PHASE_F && args->aux[0]) {
        reads(traffic, args->aux[0], n_bytes);
        writes(traffic, args->out, n_bytes);
    }
    if (phase == VP_PHASE_B && args->dz) {
        reads(traffic, args->dout, n_bytes);
        reads(traffic, args->aux[0], n_bytes);
        writes(traffic, args->dz, n_bytes);
        writes(traffic, args->recomputed_out, n_bytes);
    }
    if (phase == VP_PHASE_W && args->dpar[1])
        reads(traffic, args->dz ? args->dz : args->dout, n_bytes);
}

/* One table row for each token. With accumulation the same rows of the gradient
 * are read and written; else the whole table is written. */
static void add_embed(struct traffic *traffic, const struct vp_kargs *args,
                      enum vp_phase phase)
{
    const struct vp_value *out = vp_arg_value(args, args->op->out);
    double n_rows = (double)out->rows * (double)out->cols;

    if (phase == VP_PHASE_F) {
        reads(traffic, args->par[0], bytes_of(args, args->op->out));
        writes(traffic, args->out, bytes_of(args, args->op->out));
        return;
    }
    reads(traffic, args->dout, bytes_of(args, args->op->out));
    for (int i = 0; i < VP_MAX_PARAM; i++) {
        vp_par par = args->op->par[i];

        if (par == VP_NONE)
            continue;
        if (args->mb->accumulate) {
            reads(traffic, args->dpar[i], n_rows * sizeof(float));
            writes(traffic, args->dpar[i], n_rows * sizeof(float));
        } else {
            writes(traffic, args->dpar[i],
                   (double)args->graph->params[par].rows *
                       (double)args->graph->params[par].cols * sizeof(float));
        }
    }
}

/* Share of rows that have a label: the kernels do not read the others. 1 if the
 * labels cannot be read. */
static double labelled_share(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    int64_t n = vp_arg_value(args, args->op->in[1])->rows, n_labelled = 0;
    int32_t *labels = malloc((size_t)n * sizeof(*labels));

    if (!labels || cudaStreamSynchronize(call->stream) != cudaSuccess ||
        cudaMemcpy(labels, args->in[1], (size_t)n * sizeof(*labels),
                   cudaMemcpyDeviceToHost) != cudaSuccess)
        n = 0;
    for (int64_t i = 0; i < n; i++)
        n_labelled += labels[i] >= 0;
    free(labels);
    return n > 0 ? (double)n_labelled / (double)n : 1.0;
}

static void add_cross_entropy(struct traffic *traffic,
                              const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    double n_bytes = bytes_of(args, args->op->in[0]);

    reads(traffic, args->in[0], n_bytes * labelled_share(call));
    if (call->phase == VP_PHASE_B)
        writes(traffic, args->din[0], n_bytes);
}

static void add_call(struct traffic *traffic, const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;

    if (args->op->kind == VP_OP_LINEAR) {
        add_linear(traffic, args, call->phase);
    } else if (args->op->kind == VP_OP_EMBED) {
        add_embed(traffic, args, call->phase);
    } else if (args->op->kind == VP_OP_CROSS_ENTROPY) {
        add_cross_entropy(traffic, call);
    } else if (args->op->kind == VP_OP_GATHER && call->phase == VP_PHASE_F) {
        reads(traffic, args->in[0], bytes_of(args, args->op->out));
        writes(traffic, args->out, bytes_of(args, args->op->out));
    } else if (call->phase == VP_PHASE_F) {
        add_forward(traffic, args);
    } else {
        add_gradients(traffic, args, call->phase);
    }
}

/* B of two linears in one product, which includes the activation. */
static bool is_product(const struct vp_cuda_call *calls, int n_calls)
{
    return n_calls == 2 && calls[0].args.op->kind == VP_OP_LINEAR &&
           calls[1].args.op->kind == VP_OP_LINEAR;
}

double vp_cuda_traffic(const struct vp_cuda_call *calls, int n_calls)
{
    struct traffic traffic = { .n = 0 };
    double sum = 0.0;

    if (is_product(calls, n_calls))
        return 0.0;
    for (int i = 0; i < n_calls; i++) {
        add_call(&traffic, &calls[i]);
        if (is_passed_on(calls, n_calls, i)) {
            struct tensor *out = find(&traffic, calls[i].args.out, true);

            if (out)
                out->dead = true;
        }
    }
    for (int i = 0; i < traffic.n; i++)
        sum += traffic.tensors[i].dead ? 0.0 : traffic.tensors[i].n_bytes;
    return sum;
}

/* ---- Optimizer ---------------------------------------------------------- */

double vp_cuda_squares_traffic(const struct vp_optim_tensor *tensors, int n)
{
    double n_floats = 0.0;

    for (int i = 0; i < n; i++)
        n_floats += (double)tensors[i].n;
    return n_floats * sizeof(float);
}

double vp_cuda_update_traffic(const struct vp_optim_step *step)
{
    double floats = vp_cuda_squares_traffic(step->tensors, step->n_tensors);
    int n_moments = vp_optim_n_moments(step->config.kind);
    double rounded = step->dtype == VP_DTYPE_F16 ? 0.5 : 0.0;

    /* Gradients are read. Weights and moments are read and written, as floats
     * or in two halves. F16 weights are also written in F16. */
    return floats * (1.0 + 2.0 + 2.0 * n_moments + rounded);
}
