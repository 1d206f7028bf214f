/* Runs calls with meetings: the kernels of their steps, and the exchange
 * between the members, through the devices or through host memory. */
#include "backend/cuda/group/meeting.h"

#include "backend/cuda/device.h"
#include "backend/cuda/group/group_sum.h"
#include "backend/cuda/rows/cross_entropy.h"
#include "base/memory.h"
#include "graph/opdef.h"

enum { DEFAULT_MS = 60 * 1000 };

/* ---- Steps -------------------------------------------------------------- */

typedef void (*step_fn)(const struct vp_cuda_call *call);

/* Kernels by operator and step; NULL: the step has none. */
static const struct {
    step_fn step[VP_CUDA_MAX_MEETINGS + 1];
} steps[VP_OP_KIND_COUNT] = {
    [VP_OP_GROUP_SUM] = { { NULL, vp_cuda_group_sum_end } },
    [VP_OP_GROUP_COPY] = { { NULL, vp_cuda_group_copy_end } },
    [VP_OP_CROSS_ENTROPY] = { { vp_cuda_loss_begin, vp_cuda_loss_join,
                                vp_cuda_loss_end } },
};

/* Data of one meeting: `n_bytes` that this member gives, and device memory for
 * those of all members, in member order. */
struct meeting {
    const void *mine;
    void *all;
    size_t n_bytes;
    bool wants_own; /* `all` must include this member's bytes */
};

static struct meeting meeting_of(const struct vp_cuda_call *call, int number)
{
    const struct vp_kargs *args = &call->args;
    struct meeting m = { .n_bytes = vp_cuda_meeting_bytes(args->graph, args->op,
                                                          number) };
    struct vp_loss_scratch areas;
    char *scratch = args->scratch;

    if (args->op->kind != VP_OP_CROSS_ENTROPY) {
        m.mine = call->phase == VP_PHASE_F ? args->in[0] : args->dout;
        m.all = scratch;
        return m;
    }
    areas = vp_cuda_loss_areas(args->graph, args->op);
    if (number > 0)
        scratch += areas.mine + areas.all;
    m.mine = scratch;
    m.all = scratch + (number > 0 ? areas.mine_before : areas.mine);
    m.wants_own = true;
    return m;
}

static bool is_alone(const struct vp_members *members)
{
    return !members || members->n < 2;
}

static int n_meetings(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;

    return is_alone(args->members)
               ? 0
               : vp_cuda_n_meetings(args->graph, args->op, call->phase,
                                    args->mb->train);
}

int vp_cuda_call_meetings(const struct vp_graph *graph,
                          const struct vp_call *call,
                          const struct vp_launch *launch)
{
    return is_alone(launch->members)
               ? 0
               : vp_cuda_n_meetings(graph, call->op, call->phase,
                                    launch->mb->train);
}

bool vp_cuda_meets_on_host(const struct vp_members *members)
{
    return !is_alone(members) && !members->gather;
}

bool vp_cuda_step_works(enum vp_op_kind kind, int step)
{
    return steps[kind].step[step] != NULL;
}

enum vp_status vp_cuda_run_step(const struct vp_cuda_call *call, int step)
{
    step_fn fn = steps[call->args.op->kind].step[step];

    if (fn)
        fn(call);
    return vp_cuda_check(call->cuda, cudaPeekAtLastError(),
                         vp_op_defs[call->args.op->kind].name);
}

/* ---- Through memory of the host ----------------------------------------- */

/* An exchange through staging memory of the host, which is pinned. Data is cut
 * into pieces, which use the two halves of the staging in turn: while the
 * members exchange one piece, the device copies the next. In stream order, a
 * half is written again only after the copies out of it. */
struct passage {
    const struct vp_cuda_call *call;
    struct meeting meeting;
    size_t piece;  /* largest size in bytes */
    size_t stride; /* bytes between areas of the staging */
};

static char *mine_at(const struct passage *p, size_t piece)
{
    size_t half = (size_t)p->call->args.members->n + 1;

    return (char *)p->call->staging + piece % 2 * half * p->stride;
}

static size_t length_of(const struct passage *p, size_t piece)
{
    size_t left = p->meeting.n_bytes - piece * p->piece;

    return left < p->piece ? left : p->piece;
}

/* In tests both ends may be host memory. cudaMemcpyAsync() then copies at once,
 * without waiting for earlier work of the stream. */
static bool is_on_host(const void *data)
{
    struct cudaPointerAttributes at;

    return cudaPointerGetAttributes(&at, data) != cudaSuccess ||
           at.type != cudaMemoryTypeDevice;
}

static enum vp_status copy(const struct vp_cuda_call *call, void *dst,
                           const void *src, size_t n_bytes)
{
    enum { SMALL = 1 << 19 }; /* bytes; up to here a kernel is faster */

    if (n_bytes <= SMALL || (is_on_host(dst) && is_on_host(src))) {
        vp_cuda_carry(dst, src, n_bytes, call->stream);
        return vp_cuda_check(call->cuda, cudaPeekAtLastError(), "copying");
    }
    return vp_cuda_check(
        call->cuda,
        cudaMemcpyAsync(dst, src, n_bytes, cudaMemcpyDefault, call->stream),
        "copying");
}

/* Starts to copy a piece of this member's data to the staging. */
static enum vp_status fetch(const struct passage *p, size_t piece)
{
    const struct vp_cuda_call *call = p->call;

    VP_TRY(copy(call, mine_at(p, piece),
                (const char *)p->meeting.mine + piece * p->piece,
                length_of(p, piece)));
    return vp_cuda_check(
        call->cuda,
        cudaEventRecord(call->cuda->fetched[piece % 2], call->stream),
        "recording an event");
}

/* Waits until fetch() of a piece has ended. */
static enum vp_status wait_for(const struct passage *p, size_t piece)
{
    const struct vp_cuda_call *call = p->call;
    const struct vp_op *op = call->args.op;
    int timeout_ms = call->args.members->timeout_ms;
    enum vp_status st;

    if (timeout_ms <= 0)
        timeout_ms = DEFAULT_MS;
    st = vp_cuda_wait(call->cuda, call->cuda->fetched[piece % 2], timeout_ms);
    if (st == VP_OK || st == VP_ERR_ABORTED)
        return st;
    return vp_err_set(&call->cuda->err, st,
                      "GPU %d: the work before %s of block %d %s",
                      call->cuda->device, vp_op_defs[op->kind].name, op->block,
                      st == VP_ERR_TIMEOUT ? "did not end in time" : "failed");
}

/* Starts to copy a piece of all members' data from the staging to the
 * device. */
static enum vp_status deliver(const struct passage *p, size_t piece,
                              const char *all)
{
    const struct vp_members *members = p->call->args.members;
    size_t n = length_of(p, piece);

    for (int k = 0; k < members->n; k++)
        if (k != members->me || p->meeting.wants_own)
            VP_TRY(copy(p->call,
                        (char *)p->meeting.all +
                            (size_t)k * p->meeting.n_bytes + piece * p->piece,
                        all + (size_t)k * n, n));
    return VP_OK;
}

static enum vp_status meet_on_host(const struct vp_cuda_call *call,
                                   struct meeting meeting)
{
    const struct vp_members *members = call->args.members;
    size_t areas = 2 * ((size_t)members->n + 1), n_pieces;
    struct passage p = { .call = call, .meeting = meeting };

    p.stride = call->n_staging / areas / VP_TENSOR_ALIGN * VP_TENSOR_ALIGN;
    p.piece = p.stride < VP_EXCHANGE_BYTES ? p.stride : VP_EXCHANGE_BYTES;
    VP_BUG_ON(!call->staging || p.piece == 0);
    n_pieces = (meeting.n_bytes + p.piece - 1) / p.piece;
    VP_TRY(fetch(&p, 0));
    for (size_t i = 0; i < n_pieces; i++) {
        char *all = mine_at(&p, i) + p.stride;

        if (i + 1 < n_pieces)
            VP_TRY(fetch(&p, i + 1));
        VP_TRY(wait_for(&p, i));
        members->exchange(members->ctx, call->args.op, mine_at(&p, i),
                          length_of(&p, i), all);
        VP_TRY(members->status(members->ctx));
        VP_TRY(deliver(&p, i, all));
    }
    return VP_OK;
}

enum vp_status vp_cuda_meet(const struct vp_cuda_call *call, int meeting)
{
    const struct vp_members *members = call->args.members;
    struct meeting m = meeting_of(call, meeting);

    if (members->gather)
        return members->gather(members->ctx, call->args.op, m.mine, m.n_bytes,
                               m.all, call->stream);
    return meet_on_host(call, m);
}

/* ---- Whole calls -------------------------------------------------------- */

static enum vp_status run_steps(const struct vp_cuda_call *call, int n)
{
    for (int i = 0; i < n; i++) {
        VP_TRY(vp_cuda_run_step(call, i));
        VP_TRY(vp_cuda_meet(call, i));
    }
    return vp_cuda_run_step(call, n);
}

enum vp_status vp_cuda_group_sum_f(const struct vp_cuda_call *call)
{
    if (n_meetings(call) > 0)
        return run_steps(call, n_meetings(call));
    vp_cuda_group_sum_end(call);
    return VP_OK;
}

enum vp_status vp_cuda_group_copy_b(const struct vp_cuda_call *call)
{
    if (n_meetings(call) > 0)
        return run_steps(call, n_meetings(call));
    vp_cuda_group_copy_end(call);
    return VP_OK;
}

enum vp_status vp_cuda_loss_f(const struct vp_cuda_call *call)
{
    if (n_meetings(call) > 0)
        return run_steps(call, n_meetings(call));
    return vp_cuda_cross_entropy_f(call);
}
