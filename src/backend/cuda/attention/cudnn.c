/* Attention as a graph of cuDNN operations, which an engine of cuDNN compiles
 * into a fused kernel (backward: a few). The library's own attention nodes have
 * no causal mask, so the graph is built from single operations: first a small
 * layer that makes tensors and operations, then the graphs of forward and
 * backward. */
#include "backend/cuda/attention/cudnn.h"

#include <float.h>
#include <stdlib.h>

/* Unique ids of the tensors whose addresses are given to a run. The last three
 * are scalars. */
enum id {
    ID_Q = 1,
    ID_K,
    ID_V,
    ID_OUT,
    ID_LSE,
    ID_DOUT,
    ID_DQ,
    ID_DK,
    ID_DV,
    ID_SCALE,
    ID_LOWEST,
    ID_ONE,
    ID_COUNT
};

enum { MAX_MADE = 192, MAX_OPS = 32, MAX_CONFIGS = 16, MAX_NOTES = 32 };

struct vp_cudnn_attention {
    enum vp_phase phase;
    float scale;
    size_t workspace;
    cudnnBackendDescriptor_t plan;
    int64_t id[ID_COUNT]; /* ids of the tensors in this graph */
    int n_ids;
    /* All descriptors. Each refers to earlier ones only. */
    cudnnBackendDescriptor_t made[MAX_MADE];
    int n_made;
};

/* ---- Tensors and operations --------------------------------------------- */

/* A matrix [rows, cols] for each head of each sample, and its strides. */
struct matrix {
    int64_t rows, cols;
    int64_t sample, head, row, col;
};

/* Keeps the first failure in `status`; later calls do nothing then. */
struct builder {
    struct vp_cudnn_attention *plan;
    cudnnStatus_t status;
    cudnnDataType_t dtype; /* type of q, k, v and out */
    int64_t batch, heads;
    struct matrix q, kv, out, lse, score;
    bool causal;
    cudnnBackendDescriptor_t op[MAX_OPS];
    int n_ops;
    int64_t next_id; /* id for the next tensor that is not in memory */
};

struct tensor {
    cudnnBackendDescriptor_t desc;
    cudnnDataType_t type;
    struct matrix matrix;
};

static cudnnBackendDescriptor_t make(struct builder *b,
                                     cudnnBackendDescriptorType_t type)
{
    struct vp_cudnn_attention *plan = b->plan;
    cudnnBackendDescriptor_t desc = NULL;

    if (b->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    VP_BUG_ON(plan->n_made == MAX_MADE);
    b->status = cudnnBackendCreateDescriptor(type, &desc);
    if (b->status == CUDNN_STATUS_SUCCESS)
        plan->made[plan->n_made++] = desc;
    return desc;
}

static void set(struct builder *b, cudnnBackendDescriptor_t desc,
                cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (b->status == CUDNN_STATUS_SUCCESS)
        b->status = cudnnBackendSetAttribute(desc, name, type, n, values);
}

static void set_desc(struct builder *b, cudnnBackendDescriptor_t desc,
                     cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptor_t value)
{
    set(b, desc, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_type(struct builder *b, cudnnBackendDescriptor_t desc,
                     cudnnBackendAttributeName_t name, cudnnDataType_t type)
{
    set(b, desc, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

static void finish(struct builder *b, cudnnBackendDescriptor_t desc)
{
    if (b->status == CUDNN_STATUS_SUCCESS)
        b->status = cudnnBackendFinalize(desc);
}

static void finish_op(struct builder *b, cudnnBackendDescriptor_t desc)
{
    VP_BUG_ON(b->n_ops == MAX_OPS);
    finish(b, desc);
    b->op[b->n_ops++] = desc;
}

static struct matrix dense(const struct builder *b, int64_t rows, int64_t cols)
{
    return (struct matrix){ rows,        cols, b->heads * rows * cols,
                            rows * cols, cols, 1 };
}

static struct matrix transposed(struct matrix m)
{
    return (struct matrix){ m.cols, m.rows, m.sample, m.head, m.col, m.row };
}

enum place { IN_MEMORY, ON_CHIP, BY_VALUE };

static struct tensor tensor(struct builder *b, int64_t id, enum place place,
                            cudnnDataType_t type, struct matrix m)
{
    struct tensor x = { make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR), type, m };
    bool is_virtual = place == ON_CHIP, by_value = place == BY_VALUE;
    int64_t dims[] = { by_value ? 1 : b->batch, by_value ? 1 : b->heads, m.rows,
                       m.cols };
    int64_t strides[] = { m.sample, m.head, m.row, m.col };
    int64_t alignment = by_value ? 4 : 16;

    set_type(b, x.desc, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    set(b, x.desc, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set(b, x.desc, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set(b, x.desc, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(b, x.desc, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
        &alignment);
    set(b, x.desc, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
        &is_virtual);
    set(b, x.desc, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1,
        &by_value);
    finish(b, x.desc);
    if (!is_virtual)
        b->plan->id[b->plan->n_ids++] = id;
    return x;
}

static struct tensor in_memory(struct builder *b, enum id id, struct matrix m)
{
    return tensor(b, id, IN_MEMORY, b->dtype, m);
}

static struct tensor scalar(struct builder *b, enum id id)
{
    return tensor(b, id, BY_VALUE, CUDNN_DATA_FLOAT,
                  (struct matrix){ 1, 1, 1, 1, 1, 1 });
}

static struct tensor on_chip(struct builder *b, cudnnDataType_t type,
                             struct matrix m)
{
    return tensor(b, b->next_id++, ON_CHIP, type, m);
}

static struct tensor floats(struct builder *b, struct matrix m)
{
    return on_chip(b, CUDNN_DATA_FLOAT, m);
}

/* out = x y */
static void matmul(struct builder *b, struct tensor x, struct tensor y,
                   struct tensor out)
{
    cudnnBackendDescriptor_t math = make(b, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    cudnnBackendDescriptor_t op = make(
        b, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);

    set_type(b, math, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    finish(b, math);
    set_desc(b, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, math);
    set_desc(b, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, x.desc);
    set_desc(b, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, y.desc);
    set_desc(b, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, out.desc);
    finish_op(b, op);
}

/* Reduces each row to one value. */
static struct tensor reduce(struct builder *b, cudnnReduceTensorOp_t mode,
                            struct tensor x)
{
    struct tensor out = floats(b, dense(b, x.matrix.rows, 1));
    cudnnBackendDescriptor_t math = make(b, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    cudnnBackendDescriptor_t op = make(
        b, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);

    set_type(b, math, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    set(b, math, CUDNN_ATTR_REDUCTION_OPERATOR,
        CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    finish(b, math);
    set_desc(b, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, math);
    set_desc(b, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.desc);
    set_desc(b, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, out.desc);
    finish_op(b, op);
    return out;
}

/* x^T, rounded to the type of q, k and v. */
static struct tensor transpose(struct builder *b, struct tensor x)
{
    struct tensor out = on_chip(b, b->dtype, transposed(x.matrix));
    cudnnBackendDescriptor_t op = make(
        b, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    set_desc(b, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.desc);
    set_desc(b, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, out.desc);
    finish_op(b, op);
    return out;
}

/* An operation by element. Only GEN_INDEX has an axis: 2 for the row, 3 for the
 * column. */
static struct tensor pointwise(struct builder *b, cudnnPointwiseMode_t mode,
                               int64_t axis, const struct tensor *in, int n_in,
                               struct tensor out)
{
    static const cudnnBackendAttributeName_t input[] = {
        CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_TDESC
    };
    cudnnBackendDescriptor_t math = make(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t op = make(
        b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);

    set(b, math, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
        &mode);
    set_type(b, math, CUDNN_ATTR_POINTWISE_MATH_PREC,
             out.type == b->dtype ? CUDNN_DATA_FLOAT : out.type);
    if (axis)
        set(b, math, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(b, math);
    set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, math);
    for (int i = 0; i < n_in; i++)
        set_desc(b, op, input[i], in[i].desc);
    set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out.desc);
    finish_op(b, op);
    return out;
}

static struct tensor unary(struct builder *b, cudnnPointwiseMode_t mode,
                           struct tensor x)
{
    return pointwise(b, mode, 0, &x, 1, floats(b, x.matrix));
}

static struct tensor binary_to(struct builder *b, cudnnPointwiseMode_t mode,
                               struct tensor x, struct tensor y,
                               struct tensor out)
{
    return pointwise(b, mode, 0, (struct tensor[]){ x, y }, 2, out);
}

/* y has the shape of x, or one column, or is a scalar. */
static struct tensor binary(struct builder *b, cudnnPointwiseMode_t mode,
                            struct tensor x, struct tensor y)
{
    return binary_to(b, mode, x, y, floats(b, x.matrix));
}

/* Index of each element along an axis, as in pointwise(). */
static struct tensor position(struct builder *b, int64_t axis, struct tensor x)
{
    return pointwise(b, CUDNN_POINTWISE_GEN_INDEX, axis, &x, 1,
                     on_chip(b, CUDNN_DATA_INT32, x.matrix));
}

/* ---- Forward and backward ----------------------------------------------- */

/* Gives keys after the query the lowest score. */
static struct tensor hide_future(struct builder *b, struct tensor score)
{
    struct tensor query = position(b, 2, score), key = position(b, 3, score);
    struct tensor past = on_chip(b, CUDNN_DATA_BOOLEAN, score.matrix);

    binary_to(b, CUDNN_POINTWISE_CMP_GE, query, key, past);
    return pointwise(b, CUDNN_POINTWISE_BINARY_SELECT, 0,
                     (struct tensor[]){ score, scalar(b, ID_LOWEST), past }, 3,
                     floats(b, score.matrix));
}

/* scale q k^T, masked: [Sq, Sk] */
static struct tensor scores(struct builder *b, struct tensor q,
                            struct tensor k_t, struct tensor scale)
{
    struct tensor product = floats(b, b->score);
    struct tensor score;

    matmul(b, q, k_t, product);
    score = binary(b, CUDNN_POINTWISE_MUL, product, scale);
    return b->causal ? hide_future(b, score) : score;
}

/* out = p v, p = softmax(scores); lse = log of the sum of exp(scores). */
static void describe_forward(struct builder *b)
{
    struct tensor q = in_memory(b, ID_Q, b->q);
    struct tensor k_t = in_memory(b, ID_K, transposed(b->kv));
    struct tensor v = in_memory(b, ID_V, b->kv);
    struct tensor out = in_memory(b, ID_OUT, b->out);
    struct tensor lse = tensor(b, ID_LSE, IN_MEMORY, CUDNN_DATA_FLOAT, b->lse);
    struct tensor p = on_chip(b, b->dtype, b->score);

    struct tensor score = scores(b, q, k_t, scalar(b, ID_SCALE));
    struct tensor most = reduce(b, CUDNN_REDUCE_TENSOR_MAX, score);
    struct tensor below = binary(b, CUDNN_POINTWISE_SUB, score, most);
    struct tensor power = unary(b, CUDNN_POINTWISE_EXP, below);
    struct tensor sum = reduce(b, CUDNN_REDUCE_TENSOR_ADD, power);
    struct tensor log_sum = unary(b, CUDNN_POINTWISE_LOG, sum);

    binary_to(b, CUDNN_POINTWISE_ADD, most, log_sum, lse);
    binary_to(b, CUDNN_POINTWISE_DIV, power, sum, p);
    matmul(b, p, v, out);
}

/* p = exp(score - lse), dp = dout v^T, dscore = scale p (dp - dout . out),
 * dv = p^T dout, dk = dscore^T q, dq = dscore k */
static void describe_backward(struct builder *b)
{
    struct tensor q = in_memory(b, ID_Q, b->q);
    struct tensor k_t = in_memory(b, ID_K, transposed(b->kv));
    struct tensor v_t = in_memory(b, ID_V, transposed(b->kv));
    struct tensor out = in_memory(b, ID_OUT, b->out);
    struct tensor lse = tensor(b, ID_LSE, IN_MEMORY, CUDNN_DATA_FLOAT, b->lse);
    struct tensor dout = in_memory(b, ID_DOUT, b->out);
    struct tensor scale = scalar(b, ID_SCALE);
    struct tensor dp = floats(b, b->score);

    struct tensor dout_out = binary(b, CUDNN_POINTWISE_MUL, dout, out);
    struct tensor sum = reduce(b, CUDNN_REDUCE_TENSOR_ADD, dout_out);
    /* A multiplication by one, in the place of dropout's factor. Without it the
     * engine spreads the sums over a matrix, which triples the workspace. */
    struct tensor sum_p_dp = binary(b, CUDNN_POINTWISE_MUL, sum,
                                    scalar(b, ID_ONE));
    struct tensor score = scores(b, q, k_t, scale);
    struct tensor log_p = binary(b, CUDNN_POINTWISE_SUB, score, lse);
    struct tensor p = unary(b, CUDNN_POINTWISE_EXP, log_p);
    struct tensor dscore;

    matmul(b, transpose(b, p), dout, in_memory(b, ID_DV, b->kv));
    matmul(b, dout, v_t, dp);
    dscore = binary(b, CUDNN_POINTWISE_SUB, dp, sum_p_dp);
    dscore = binary(b, CUDNN_POINTWISE_MUL, dscore, p);
    dscore = binary(b, CUDNN_POINTWISE_MUL, dscore, scale);
    matmul(b, transpose(b, dscore), q, in_memory(b, ID_DK, b->kv));
    /* The engine would need no workspace if this product went to floats before
     * dq, but would then add atomically, in no fixed order; its notes do not
     * say so. */
    matmul(b, dscore, transpose(b, k_t), in_memory(b, ID_DQ, b->q));
}

/* ---- The plan ------------------------------------------------------------ */

static bool has_note(cudnnBackendDescriptor_t engine,
                     cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int note)
{
    int notes[MAX_NOTES];
    int64_t n = 0;

    if (cudnnBackendGetAttribute(engine, name, type, MAX_NOTES, &n, notes) !=
        CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < n && i < MAX_NOTES; i++) {
        if (notes[i] == note)
            return true;
    }
    return false;
}

/* True if an engine gives the same bits in every run and can be captured into a
 * CUDA graph. */
static bool acceptable(struct builder *b, cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t engine = make(b, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t n = 0;

    return b->status == CUDNN_STATUS_SUCCESS &&
           cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                    &engine) == CUDNN_STATUS_SUCCESS &&
           !has_note(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                     CUDNN_TYPE_NUMERICAL_NOTE,
                     CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) &&
           has_note(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                    CUDNN_TYPE_BEHAVIOR_NOTE,
                    CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API);
}

static bool compile(struct builder *b, cudnnHandle_t handle,
                    cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t plan = make(
        b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t n = 0, bytes = 0;

    set(b, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
        &handle);
    set_desc(b, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (b->status != CUDNN_STATUS_SUCCESS ||
        cudnnBackendFinalize(plan) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                 CUDNN_TYPE_INT64, 1, &n,
                                 &bytes) != CUDNN_STATUS_SUCCESS)
        return false;
    b->plan->plan = plan;
    b->plan->workspace = (size_t)bytes;
    return true;
}

/* Takes the first acceptable engine of cuDNN's ranking, which depends on the
 * graph and the device and not on timing. */
static void choose_engine(struct builder *b, cudnnHandle_t handle)
{
    cudnnBackendDescriptor_t graph = make(
        b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnnBackendDescriptor_t ranking = make(
        b, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendDescriptor_t config[MAX_CONFIGS];
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t n = 0;

    set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
        &handle);
    set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        b->n_ops, b->op);
    finish(b, graph);
    set_desc(b, ranking, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(b, ranking, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(b, ranking);
    for (int i = 0; i < MAX_CONFIGS; i++)
        config[i] = make(b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (b->status == CUDNN_STATUS_SUCCESS)
        b->status = cudnnBackendGetAttribute(
            ranking, CUDNN_ATTR_ENGINEHEUR_RESULTS,
            CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CONFIGS, &n, config);
    for (int64_t i = 0; i < n; i++) {
        if (acceptable(b, config[i]) && compile(b, handle, config[i]))
            return;
    }
    if (b->status == CUDNN_STATUS_SUCCESS)
        b->status = CUDNN_STATUS_NOT_SUPPORTED;
}

/* Lengths must be multiples of 128: before 9.16, cuDNN's backward is wrong for
 * others. */
static bool supported(const struct vp_graph *graph, const struct vp_op *op,
                      enum vp_phase phase)
{
    const struct vp_attr *attr = &op->attr;
    enum vp_dtype dtype = graph->values[op->out].dtype;
    int64_t dim = graph->values[op->out].cols / attr->heads;

    for (int i = 0; phase == VP_PHASE_B && i < 2; i++) {
        if (op->in[i] != VP_NONE && !graph->values[op->in[i]].needs_grad)
            return false;
    }
    return phase != VP_PHASE_W && attr->p == 0 && op->in[2] == VP_NONE &&
           (dtype == VP_DTYPE_BF16 || dtype == VP_DTYPE_F16) && dim % 8 == 0 &&
           dim <= 128 && attr->q_len % 128 == 0 && attr->k_len % 128 == 0;
}

/* One head's `dim` columns of a value whose rows have `width` columns. */
static struct matrix part(int64_t rows, int64_t dim, int64_t width)
{
    return (struct matrix){ rows, dim, rows * width, dim, width, 1 };
}

static void describe(struct builder *b, const struct vp_graph *graph,
                     const struct vp_op *op)
{
    const struct vp_attr *attr = &op->attr;
    const struct vp_value *q = &graph->values[op->in[0]];
    const struct vp_value *kv = op->in[1] == VP_NONE
                                    ? q
                                    : &graph->values[op->in[1]];
    const struct vp_value *out = &graph->values[op->out];
    int64_t dim = out->cols / attr->heads, Sq = attr->q_len, Sk = attr->k_len;

    b->dtype = out->dtype == VP_DTYPE_BF16 ? CUDNN_DATA_BFLOAT16
                                           : CUDNN_DATA_HALF;
    b->batch = attr->batch;
    b->heads = attr->heads;
    b->causal = attr->causal;
    b->q = part(Sq, dim, q->cols);
    b->kv = part(Sk, dim, kv->cols);
    b->out = part(Sq, dim, out->cols);
    b->lse = part(Sq, 1, b->heads); /* [B*Sq, heads] */
    b->score = dense(b, Sq, Sk);
    b->next_id = ID_COUNT;
    if (b->plan->phase == VP_PHASE_F)
        describe_forward(b);
    else
        describe_backward(b);
}

enum vp_status vp_cudnn_attention_create(
    cudnnHandle_t handle, const struct vp_graph *graph, const struct vp_op *op,
    enum vp_phase phase, struct vp_cudnn_attention **out, struct vp_err *err)
{
    struct builder b = { .status = CUDNN_STATUS_NOT_SUPPORTED };

    b.plan = calloc(1, sizeof(*b.plan));
    if (!b.plan)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    b.plan->phase = phase;
    b.plan->scale = op->attr.scale;
    if (supported(graph, op, phase)) {
        b.status = CUDNN_STATUS_SUCCESS;
        describe(&b, graph, op);
        choose_engine(&b, handle);
    }
    if (b.status != CUDNN_STATUS_SUCCESS) {
        vp_cudnn_attention_free(b.plan);
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "cuDNN has no engine for this attention: %s",
                          cudnnGetErrorString(b.status));
    }
    *out = b.plan;
    return VP_OK;
}

void vp_cudnn_attention_free(struct vp_cudnn_attention *plan)
{
    if (!plan)
        return;
    while (plan->n_made)
        cudnnBackendDestroyDescriptor(plan->made[--plan->n_made]);
    free(plan);
}

size_t vp_cudnn_attention_workspace(const struct vp_cudnn_attention *plan)
{
    return plan->workspace;
}

/* ---- Running a plan ----------------------------------------------------- */

static bool writes_all_gradients(const struct vp_kargs *args)
{
    for (int i = 0; i < 2; i++) {
        if (args->op->in[i] != VP_NONE && (!args->din[i] || args->din_add[i]))
            return false;
    }
    return true;
}

/* Address of column `col` of a packed value. */
static const void *column(const void *value, int64_t col)
{
    return value ? (const uint16_t *)value + col : NULL; /* bf16 or fp16 */
}

/* Columns q, k, v of in0; or q of in0, and k, v of in1. */
static void find_addresses(const struct vp_cudnn_attention *plan,
                           const struct vp_kargs *args, const void **at)
{
    static const float lowest = -FLT_MAX, one = 1;
    int64_t H = vp_arg_value(args, args->op->out)->cols;
    int from = args->op->in[1] != VP_NONE ? 1 : 0; /* input with the keys */
    int64_t k = from ? 0 : H;

    at[ID_Q] = args->in[0];
    at[ID_K] = column(args->in[from], k);
    at[ID_V] = column(args->in[from], k + H);
    at[ID_OUT] = args->out;
    at[ID_LSE] = args->aux[0];
    at[ID_DOUT] = args->dout;
    at[ID_DQ] = args->din[0];
    at[ID_DK] = column(args->din[from], k);
    at[ID_DV] = column(args->din[from], k + H);
    at[ID_SCALE] = &plan->scale;
    at[ID_LOWEST] = &lowest;
    at[ID_ONE] = &one;
}

enum vp_status vp_cudnn_attention_run(struct vp_cudnn_attention *plan,
                                      cudnnHandle_t handle,
                                      const struct vp_kargs *args,
                                      void *workspace, cudaStream_t stream)
{
    const void *at[ID_COUNT], *address[ID_COUNT];
    cudnnBackendDescriptor_t pack = NULL;
    struct builder b = { .plan = plan };

    if (plan->phase == VP_PHASE_B && !writes_all_gradients(args))
        return VP_ERR_UNSUPPORTED;
    find_addresses(plan, args, at);
    for (int i = 0; i < plan->n_ids; i++)
        address[i] = at[plan->id[i]];
    b.status = cudnnSetStream(handle, stream);
    if (b.status == CUDNN_STATUS_SUCCESS)
        b.status = cudnnBackendCreateDescriptor(
            CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    set(&b, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
        plan->n_ids, plan->id);
    set(&b, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
        plan->n_ids, address);
    set(&b, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
        &workspace);
    finish(&b, pack);
    if (b.status == CUDNN_STATUS_SUCCESS)
        b.status = cudnnBackendExecute(handle, plan->plan, pack);
    if (pack)
        cudnnBackendDestroyDescriptor(pack);
    return b.status == CUDNN_STATUS_SUCCESS ? VP_OK : VP_ERR_IO;
}
