/* Runs lists of calls. When a list is run for the first time with given
 * addresses, its calls are launched one by one, which also lets libraries load
 * their kernels. The second time they are captured into a CUDA graph, which is
 * replayed from then on. Scalars of the minibatch are read from device memory.
 *
 * Where the members of a tensor-parallel group meet through host memory, a list
 * is cut into segments, each with its own graph:
 *
 *   list      | call 0 .. 5, step 0 of 6 |         | step 1 of 6, call 7 .. 9 |
 *   host                                 | meeting |
 * */
#include "backend/cuda/group/meeting.h"
#include "backend/cuda/optim/early_update.h"
#include "backend/cuda/profile/profile.h"
#include "backend/cuda/profile/traffic.h"
#include "graph/opdef.h"

#include <stdlib.h>
#include <string.h>

/* Everything that a captured graph depends on. */
struct key {
    enum vp_list list;
    int first, n;
    /* Steps of calls with meetings (group/meeting.h). begin_step: step at which
     * the first call continues; 0: the call runs from its start. end_step: last
     * step of the last call; -1: the call runs to its end. */
    int begin_step, end_step;
    bool accumulate, train;
    void *base[VP_SPACE_COUNT];
    const void *w_old, *w_new; /* weights of an update; NULL: no update */
};

struct replay {
    struct key key;
    cudaGraphExec_t graph; /* NULL: was only run call by call so far */
};

struct vp_exe {
    struct vp_backend *backend;
    const struct vp_program *program;
    struct vp_cuda_call *calls; /* room for the longest list */
    struct replay *replays;
    int n_replays, cap_replays;
    int next_replay; /* index after the last one used: likely the next */
};

static int longest_list(const struct vp_program *program)
{
    int n = 0;

    for (int list = 0; list < VP_LIST_COUNT; list++)
        if (program->n_calls[list] > n)
            n = program->n_calls[list];
    return n;
}

/* Returns the first operator for which there is no kernel, or NULL. */
static const struct vp_op *lacking(const struct vp_program *program)
{
    for (int list = 0; list < VP_LIST_COUNT; list++)
        for (int i = 0; i < program->n_calls[list]; i++) {
            const struct vp_call *call = &program->calls[list][i];

            if (!vp_cuda_ops[call->op->kind].fn[call->phase])
                return call->op;
        }
    return NULL;
}

enum vp_status vp_cuda_compile(struct vp_backend *backend,
                               const struct vp_program *program,
                               struct vp_exe **out, struct vp_err *err)
{
    const struct vp_op *op = lacking(program);
    struct vp_exe *exe;

    if (program->graph->sequence_parallel)
        return vp_err_refuse(
            err, "sequence_parallel",
            "cuda backend: sequence_parallel is not supported; "
            "set sequence_parallel: false or device: cpu");
    if (op)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "cuda backend: there is no kernel for %s; set "
                          "device: cpu",
                          vp_op_defs[op->kind].name);
    exe = calloc(1, sizeof(*exe));
    if (exe)
        exe->calls = calloc((size_t)longest_list(program) + 1,
                            sizeof(*exe->calls));
    if (!exe || !exe->calls) {
        free(exe);
        return vp_err_set(err, VP_ERR_NOMEM, "cuda backend: out of memory");
    }
    exe->backend = backend;
    exe->program = program;
    *out = exe;
    return VP_OK;
}

void vp_cuda_exe_free(struct vp_exe *exe)
{
    if (!exe)
        return;
    for (int i = 0; i < exe->n_replays; i++)
        if (exe->replays[i].graph)
            cudaGraphExecDestroy(exe->replays[i].graph);
    free(exe->replays);
    free(exe->calls);
    free(exe);
}

/* ---- Calls -------------------------------------------------------------- */

/* Fills exe->calls with the calls of a segment. `wgrad`: W calls go to its
 * stream; NULL: all calls go to `stream`. Returns the number of calls. */
static int resolve(struct vp_exe *exe, const struct key *key,
                   const struct vp_launch *launch, struct vp_cuda_mb *mb,
                   cudaStream_t stream, struct vp_cuda_wgrad_stream *wgrad)
{
    struct vp_backend *backend = exe->backend;

    for (int i = 0; i < key->n; i++) {
        const struct vp_call *call =
            &exe->program->calls[key->list][key->first + i];

        exe->calls[i] = (struct vp_cuda_call){
            .phase = call->phase,
            .out_is_temporary = !call->out_stays,
            .mb = mb,
            .cuda = &backend->cuda,
            .stream = stream,
            .staging = launch->staging,
            .n_staging = launch->n_staging,
        };
        vp_kargs_resolve(exe->program->graph, call, launch,
                         &exe->calls[i].args);
        if (wgrad && call->phase == VP_PHASE_W) {
            exe->calls[i].wgrad = wgrad;
            exe->calls[i].stream = wgrad->stream;
        }
    }
    return key->n;
}

static enum vp_status run_call(const struct vp_cuda_call *call)
{
    vp_cuda_fn fn = vp_cuda_ops[call->args.op->kind].fn[call->phase];

    VP_BUG_ON(!fn);
    vp_cuda_wgrad_stream_fork(call);
    return fn(call);
}

/* Runs the first calls that one launch can do, at least one, and returns their
 * number in `n_done_out`. */
static enum vp_status run_some(struct vp_cuda_call *calls, int n,
                               int *n_done_out)
{
    int label = vp_cuda_profile_push(calls->cuda->profile);
    enum vp_status st = VP_OK;

    *n_done_out = vp_cuda_run_fused(calls, n);
    if (*n_done_out == 0)
        *n_done_out = vp_cuda_run_linear(calls, n, &st);
    if (*n_done_out == 0) {
        *n_done_out = 1;
        st = run_call(calls);
    }
    vp_cuda_profile_pop_calls(calls->cuda->profile, label, calls, *n_done_out);
    VP_TRY(st);
    return vp_cuda_check(calls->cuda, cudaPeekAtLastError(),
                         vp_op_defs[calls->args.op->kind].name);
}

/* Work that runs beside a list; both may be NULL. */
struct beside {
    struct vp_cuda_wgrad_stream *wgrad;
    struct vp_cuda_early_update *early;
};

/* Runs `n` calls; the first of them is number `first` of its list. */
static enum vp_status run_calls(struct vp_cuda_call *calls, int first, int n,
                                struct beside beside)
{
    int n_done;

    for (int i = 0; i < n; i += n_done) {
        vp_cuda_wgrad_stream_guard(beside.wgrad, &calls[i], n - i);
        if (beside.early)
            VP_TRY(vp_cuda_early_update_guard(beside.early, first + i,
                                              calls[i].stream));
        VP_TRY(run_some(&calls[i], n - i, &n_done));
        for (int k = i; k < i + n_done; k++)
            if (calls[k].wgrad)
                vp_cuda_wgrad_stream_note(beside.wgrad, &calls[k]);
        if (beside.early)
            VP_TRY(
                vp_cuda_early_update_advance(beside.early, first + i + n_done));
    }
    return VP_OK;
}

/* Number of calls of the segment that are complete when it ends, and number of
 * those that run within it from start to end. */
static int n_ended(const struct key *key)
{
    return key->n - (key->end_step >= 0);
}

static int n_whole(const struct key *key)
{
    return n_ended(key) - (key->begin_step > 0);
}

/* Launches the calls of a segment, which resolve() has filled in. */
static enum vp_status run_segment(struct vp_exe *exe, const struct key *key,
                                  struct beside beside)
{
    int first = key->begin_step > 0 ? 1 : 0;
    struct vp_cuda_call *last = &exe->calls[key->n - 1];

    if (key->begin_step > 0)
        VP_TRY(vp_cuda_run_step(&exe->calls[0], key->begin_step));
    VP_TRY(run_calls(exe->calls + first, key->first + first, n_whole(key),
                     beside));
    if (key->end_step != 0)
        return VP_OK;
    vp_cuda_wgrad_stream_guard(beside.wgrad, last, 1);
    return vp_cuda_run_step(last, 0);
}

/* Launches a segment and the update that belongs to it. While a profile is
 * taken, all calls run in one stream. */
static enum vp_status run_list(struct vp_exe *exe, const struct key *key,
                               const struct vp_launch *launch,
                               struct vp_cuda_stream *stream)
{
    bool alone = exe->backend->cuda.profile != NULL;
    struct beside beside = { alone ? NULL : stream->wgrad, NULL };
    struct vp_cuda_tensors *tensors;
    struct vp_cuda_early_update early;
    enum vp_status st, ended = VP_OK;

    resolve(exe, key, launch, stream->mb, stream->stream, beside.wgrad);
    if (launch->update) {
        VP_TRY(vp_cuda_find_tensors(exe->backend, launch->update->tensors,
                                    launch->update->n_tensors, &tensors));
        VP_TRY(vp_cuda_early_update_begin(&early, exe->program, key->list,
                                          launch, tensors, alone, stream));
        if (key->begin_step > 0)
            vp_cuda_early_update_skip(&early, key->first);
        beside.early = &early;
    }
    vp_cuda_wgrad_stream_begin(stream->wgrad);
    st = run_segment(exe, key, beside);
    if (launch->update)
        ended = vp_cuda_early_update_end(&early, key->first + n_ended(key));
    vp_cuda_wgrad_stream_end(stream->wgrad);
    return st != VP_OK ? st : ended;
}

/* ---- Replays ------------------------------------------------------------ */

static bool same(const struct key *a, const struct key *b)
{
    return a->list == b->list && a->first == b->first && a->n == b->n &&
           a->begin_step == b->begin_step && a->end_step == b->end_step &&
           a->accumulate == b->accumulate && a->train == b->train &&
           a->w_old == b->w_old && a->w_new == b->w_new &&
           memcmp(a->base, b->base, sizeof(a->base)) == 0;
}

static struct replay *find(struct vp_exe *exe, const struct key *key)
{
    for (int i = 0; i < exe->n_replays; i++) {
        int at = (exe->next_replay + i) % exe->n_replays;

        if (same(&exe->replays[at].key, key)) {
            exe->next_replay = at + 1;
            return &exe->replays[at];
        }
    }
    return NULL;
}

static enum vp_status remember(struct vp_exe *exe, const struct key *key)
{
    if (exe->n_replays == exe->cap_replays) {
        int cap = exe->cap_replays ? 2 * exe->cap_replays : 16;
        struct replay *wider = realloc(exe->replays,
                                       (size_t)cap * sizeof(*wider));

        if (!wider)
            return VP_ERR_NOMEM;
        exe->replays = wider;
        exe->cap_replays = cap;
    }
    exe->replays[exe->n_replays++] = (struct replay){ .key = *key };
    return VP_OK;
}

static enum vp_status capture(struct vp_exe *exe, struct replay *replay,
                              const struct vp_launch *launch,
                              struct vp_cuda_stream *stream)
{
    struct vp_cuda *cuda = &exe->backend->cuda;
    cudaGraph_t graph = NULL;
    enum vp_status st;
    cudaError_t ended;

    VP_TRY(vp_cuda_check(cuda,
                         cudaStreamBeginCapture(
                             stream->stream, cudaStreamCaptureModeThreadLocal),
                         "capturing"));
    st = run_list(exe, &replay->key, launch, stream);
    ended = cudaStreamEndCapture(stream->stream, &graph);
    if (st == VP_OK)
        st = vp_cuda_check(cuda, ended, "capturing");
    if (st == VP_OK)
        st = vp_cuda_check(
            cuda,
            cudaGraphInstantiate(&replay->graph, graph,
                                 cudaGraphInstantiateFlagUseNodePriority),
            "capturing");
    if (graph)
        cudaGraphDestroy(graph);
    return st;
}

static void set_mb(struct vp_cuda_mb *dst, const struct vp_mb *mb,
                   cudaStream_t stream)
{
    vp_cuda_set_mb(
        dst, (struct vp_cuda_mb){ mb->seed, mb->first_sample, mb->loss_grad },
        stream);
}

/* Writes the values to device memory that a replayed graph reads there. */
static enum vp_status set_scalars(struct vp_backend *backend,
                                  const struct vp_launch *launch,
                                  struct vp_cuda_stream *stream)
{
    const struct vp_optim_step *update = launch->update;
    struct vp_cuda_tensors *tensors;

    set_mb(stream->mb, launch->mb, stream->stream);
    if (!update)
        return VP_OK;
    VP_TRY(vp_cuda_find_tensors(backend, update->tensors, update->n_tensors,
                                &tensors));
    vp_cuda_set_step(tensors, update, stream->stream);
    return VP_OK;
}

/* Only the addresses of spaces that the program uses are part of the key: those
 * of unused boundaries may differ from launch to launch. */
static struct key key_of(const struct vp_exe *exe, enum vp_list list, int first,
                         int n, const struct vp_launch *launch)
{
    struct key key = { .list = list,
                       .first = first,
                       .n = n,
                       .end_step = -1,
                       .accumulate = list >= VP_LIST_B &&
                                     launch->mb->accumulate,
                       .train = launch->mb->train };

    for (int space = 0; space < VP_SPACE_COUNT; space++)
        if (exe->program->n_bytes[space] > 0)
            key.base[space] = launch->base[space];
    if (launch->update) {
        key.w_old = launch->update->w_old;
        key.w_new = launch->update->w_new;
    }
    return key;
}

/* Outside of the graph, because the address of the sums differs from launch to
 * launch. */
static enum vp_status tell_squares(struct vp_backend *backend,
                                   const struct vp_launch *launch,
                                   struct vp_cuda_stream *stream)
{
    const struct vp_optim_step *update = launch->update;
    struct vp_cuda_tensors *tensors;

    if (!update)
        return VP_OK;
    VP_TRY(vp_cuda_find_tensors(backend, update->tensors, update->n_tensors,
                                &tensors));
    vp_cuda_add_squares(tensors, launch->squares, stream->stream);
    return vp_cuda_check(&backend->cuda, cudaPeekAtLastError(), "updating");
}

/* Runs a segment call by call the first time and while a profile is taken, else
 * by its graph, which is captured when it is missing. */
static enum vp_status run_or_replay(struct vp_exe *exe, const struct key *key,
                                    const struct vp_launch *launch,
                                    struct vp_cuda_stream *stream)
{
    struct vp_cuda *cuda = &exe->backend->cuda;
    struct replay *replay = find(exe, key);

    if (!replay)
        VP_TRY(remember(exe, key));
    if (!replay || cuda->profile)
        return run_list(exe, key, launch, stream);
    if (!replay->graph)
        VP_TRY(capture(exe, replay, launch, stream));
    return vp_cuda_check(cuda, cudaGraphLaunch(replay->graph, stream->stream),
                         "replaying");
}

/* ---- Segments ----------------------------------------------------------- */

/* Sets the end of the segment that begins at key->first and key->begin_step: at
 * the next meeting, or else at call `end` of the list. Returns true if it ends
 * at a meeting. */
static bool cut_segment(const struct vp_exe *exe, struct key *key, int end,
                        const struct vp_launch *launch)
{
    const struct vp_program *program = exe->program;

    for (int i = key->first; i < end; i++) {
        int step = i == key->first ? key->begin_step : 0;

        if (step < vp_cuda_call_meetings(
                       program->graph, &program->calls[key->list][i], launch)) {
            key->n = i + 1 - key->first;
            key->end_step = step;
            return true;
        }
    }
    key->n = end - key->first;
    key->end_step = -1;
    return false;
}

/* Runs the meeting at the end of a segment. */
static enum vp_status meet(struct vp_exe *exe, const struct key *key,
                           const struct vp_launch *launch,
                           struct vp_cuda_stream *stream)
{
    struct key last = *key;

    last.first += key->n - 1;
    last.n = 1;
    resolve(exe, &last, launch, stream->mb, stream->stream, NULL);
    return vp_cuda_meet(&exe->calls[0], key->end_step);
}

static bool has_work(const struct vp_exe *exe, const struct key *key,
                     const struct vp_launch *launch)
{
    const struct vp_call *last =
        &exe->program->calls[key->list][key->first + key->n - 1];

    return launch->update || n_whole(key) > 0 || key->begin_step > 0 ||
           vp_cuda_step_works(last->op->kind, 0);
}

static enum vp_status run_segments(struct vp_exe *exe, struct key *key,
                                   const struct vp_launch *launch,
                                   struct vp_cuda_stream *stream)
{
    int end = key->first + key->n;

    while (cut_segment(exe, key, end, launch)) {
        if (has_work(exe, key, launch))
            VP_TRY(run_or_replay(exe, key, launch, stream));
        VP_TRY(meet(exe, key, launch, stream));
        key->first += key->n - 1;
        key->begin_step = key->end_step + 1;
    }
    return run_or_replay(exe, key, launch, stream);
}

enum vp_status vp_cuda_launch_part(struct vp_exe *exe, enum vp_list list,
                                   int first, int n,
                                   const struct vp_launch *launch,
                                   struct vp_stream *base)
{
    struct vp_cuda_stream *stream = vp_cuda_stream_of(base);
    struct key key = key_of(exe, list, first, n, launch);

    if (n == 0)
        return VP_OK;
    VP_TRY(set_scalars(exe->backend, launch, stream));
    if (vp_cuda_meets_on_host(launch->members))
        VP_TRY(run_segments(exe, &key, launch, stream));
    else
        VP_TRY(run_or_replay(exe, &key, launch, stream));
    return tell_squares(exe->backend, launch, stream);
}

enum vp_status vp_cuda_launch(struct vp_exe *exe, enum vp_list list,
                              const struct vp_launch *launch,
                              struct vp_stream *stream)
{
    return vp_cuda_launch_part(exe, list, 0, exe->program->n_calls[list],
                               launch, stream);
}

/* ---- Checks for NaN and infinity ---------------------------------------- */

/* Sets backend->flag if an element of `data` is not finite. */
static void look(struct vp_backend *backend, const void *data, int64_t n,
                 enum vp_dtype dtype)
{
    if (data && n > 0 && dtype != VP_DTYPE_I32)
        vp_cuda_find_nonfinite(data, n, dtype, backend->flag,
                               cudaStreamPerThread);
}

static void look_at_value(struct vp_backend *backend,
                          const struct vp_graph *graph, vp_val v,
                          const void *data)
{
    if (v != VP_NONE)
        look(backend, data, graph->values[v].rows * graph->values[v].cols,
             graph->values[v].dtype);
}

static enum vp_status is_finite(struct vp_backend *backend,
                                const struct vp_cuda_call *call, bool *out)
{
    const struct vp_kargs *args = &call->args;
    const struct vp_graph *graph = args->graph;
    const struct vp_op *op = args->op;
    int flag = 0;

    if (call->phase == VP_PHASE_F)
        look_at_value(backend, graph, op->out, args->out);
    for (int i = 0; call->phase == VP_PHASE_B && i < VP_MAX_IN; i++)
        look_at_value(backend, graph, op->in[i], args->din[i]);
    if (call->phase == VP_PHASE_B)
        look_at_value(backend, graph, op->out, args->dz);
    for (int i = 0; call->phase == VP_PHASE_W && i < VP_MAX_PARAM; i++)
        if (op->par[i] != VP_NONE)
            look(backend, args->dpar[i],
                 graph->params[op->par[i]].rows *
                     graph->params[op->par[i]].cols,
                 VP_DTYPE_F32);
    VP_TRY(vp_cuda_check(&backend->cuda,
                         cudaMemcpyAsync(&flag, backend->flag, sizeof(flag),
                                         cudaMemcpyDeviceToHost,
                                         cudaStreamPerThread),
                         "reading"));
    *out = flag == 0;
    return vp_cuda_check(&backend->cuda,
                         cudaStreamSynchronize(cudaStreamPerThread), "reading");
}

enum vp_status vp_cuda_launch_checked(struct vp_exe *exe, enum vp_list list,
                                      const struct vp_launch *launch,
                                      struct vp_nonfinite *found_out)
{
    struct vp_backend *backend = exe->backend;
    struct key key = key_of(exe, list, 0, exe->program->n_calls[list], launch);
    cudaStream_t stream = cudaStreamPerThread;
    int n = resolve(exe, &key, launch, backend->mb, stream, NULL);

    *found_out = (struct vp_nonfinite){ NULL, VP_PHASE_F };
    /* The calls use buffers that earlier work may still use. */
    VP_TRY(vp_cuda_check(&backend->cuda, cudaDeviceSynchronize(), "waiting"));
    set_mb(backend->mb, launch->mb, stream);
    VP_TRY(vp_cuda_check(&backend->cuda,
                         cudaMemsetAsync(backend->flag, 0, sizeof(int), stream),
                         "clearing"));
    for (int i = 0; i < n; i++) {
        bool finite = true;

        VP_TRY(run_call(&exe->calls[i]));
        VP_TRY(is_finite(backend, &exe->calls[i], &finite));
        if (!finite) {
            *found_out = (struct vp_nonfinite){ exe->calls[i].args.op,
                                                exe->calls[i].phase };
            return VP_OK;
        }
    }
    return VP_OK;
}
