/* The CPU as a device and as a backend. A call runs on the rank's thread pool
 * and has finished when it returns, so streams and events do nothing. */
#include "backend/backend.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/rows.h"
#include "backend/cpu/simd.h"
#include "graph/opdef.h"

#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 1024 };

struct vp_backend {
    struct vp_device device;
    /* All work has finished when a call returns: one of each is enough. */
    struct vp_stream stream;
    struct vp_event event;
    struct vp_pool *pool;
    bool pinned;
    cpu_set_t cores[MAX_THREADS]; /* core of each thread, if pinned */
    bool reference;
    void *scratch; /* partial sums of the optimizer */
    size_t scratch_size;
    bool (*between)(void *ctx); /* see struct vp_backend_config */
    void *between_ctx;
};

struct vp_exe {
    struct vp_backend *backend;
    const struct vp_cpu_kernels *kernels;
    const struct vp_program *program;
    unsigned char *n_together[VP_LIST_COUNT]; /* see vp_cpu_find_runs() */
    unsigned char lengths[];
};

_Static_assert(offsetof(struct vp_backend, device) == 0, "see backend.h");

/* Assigns a core to each thread: of the cores that the process may use, those
 * from device * n_threads on. */
static enum vp_status choose_cores(struct vp_backend *backend,
                                   const struct vp_backend_config *config,
                                   struct vp_err *err)
{
    int first = config->device * config->n_threads;
    int last = first + config->n_threads - 1, n = 0;
    cpu_set_t all;

    /* Reads the affinity of the main thread: the calling one may be pinned
     * already. */
    if (sched_getaffinity(getpid(), sizeof(all), &all) != 0)
        return vp_err_set(err, VP_ERR_IO,
                          "cpu backend: cannot read the CPU affinity of the "
                          "process");
    for (int core = 0; core < CPU_SETSIZE; core++) {
        int thread = n - first;

        if (!CPU_ISSET(core, &all))
            continue;
        if (thread >= 0 && thread < config->n_threads) {
            CPU_ZERO(&backend->cores[thread]);
            CPU_SET(core, &backend->cores[thread]);
        }
        n++;
    }
    if (config->device < 0 || last >= n)
        return vp_err_refuse(
            err, "stages threads_per_stage",
            "cpu backend: cores %d to %d are needed, but the process may "
            "use %d; use fewer stages or threads_per_stage",
            first, last, n);
    backend->pinned = true;
    return VP_OK;
}

static void setup_thread(void *ctx, int thread)
{
    const struct vp_backend *backend = ctx;

    vp_cpu_thread_setup(thread);
    if (backend->pinned) /* a failure only makes the thread slower */
        sched_setaffinity(0, sizeof(cpu_set_t), &backend->cores[thread]);
}

static const struct vp_cpu_kernels *kernels_of(bool reference,
                                               const struct vp_graph *graph)
{
    if (!reference)
        return &vp_cpu_fast;
    return graph->dtype == VP_DTYPE_BF16 ? &vp_cpu_ref_bf16 : &vp_cpu_ref_f32;
}

static enum vp_status cpu_open(const struct vp_backend_config *config,
                               struct vp_backend **out, struct vp_err *err)
{
    struct vp_backend *backend;
    enum vp_status st;

    if (config->n_threads < 1 || config->n_threads > MAX_THREADS)
        return vp_err_refuse(err, "threads_per_stage",
                             "cpu backend: %d threads; use 1 to %d",
                             config->n_threads, MAX_THREADS);
    VP_TRY(vp_cpu_read_isa(err));
    backend = calloc(1, sizeof(*backend));
    if (!backend)
        return vp_err_set(err, VP_ERR_NOMEM, "cpu backend: out of memory");
    backend->between = config->between;
    backend->between_ctx = config->between_ctx;
    backend->reference = config->reference;
    st = config->pinned ? choose_cores(backend, config, err) : VP_OK;
    if (st != VP_OK) {
        free(backend);
        return st;
    }
    if (!config->plan_only)
        st = vp_pool_create(config->n_threads, setup_thread, backend,
                            &backend->pool);
    if (st != VP_OK) {
        free(backend);
        return st == VP_ERR_UNSUPPORTED
                   ? vp_err_thread(err, "a compute thread")
                   : vp_err_set(err, st, "cpu backend: out of memory");
    }
    *out = backend;
    return VP_OK;
}

static void cpu_close(struct vp_backend *backend)
{
    if (!backend)
        return;
    vp_pool_free(backend->pool);
    free(backend->scratch);
    free(backend);
}

struct vp_pool *vp_cpu_pool(const struct vp_backend *backend)
{
    return backend->pool;
}

static int cpu_n_devices(struct vp_err *why)
{
    (void)why;
    return 1;
}

/* ---- The device --------------------------------------------------------- */

static struct vp_backend *backend_of(struct vp_device *device)
{
    return (struct vp_backend *)device;
}

static void cpu_attach(struct vp_device *device)
{
    setup_thread(backend_of(device), 0);
}

static const char *cpu_last_error(const struct vp_device *device)
{
    (void)device;
    return "";
}

static enum vp_status cpu_alloc(struct vp_device *device, size_t n_bytes,
                                void **out)
{
    (void)device;
    return vp_pages_alloc(n_bytes, out);
}

static void cpu_free(struct vp_device *device, void *buffer, size_t n_bytes)
{
    (void)device;
    vp_pages_free(buffer, n_bytes);
}

static enum vp_status cpu_host_alloc(struct vp_device *device, size_t n_bytes,
                                     void **out)
{
    (void)device;
    *out = calloc(1, n_bytes);
    return *out ? VP_OK : VP_ERR_NOMEM;
}

static void cpu_host_free(struct vp_device *device, void *buffer)
{
    (void)device;
    free(buffer);
}

static enum vp_status cpu_stream_create(struct vp_device *device,
                                        struct vp_stream **out)
{
    *out = &backend_of(device)->stream;
    return VP_OK;
}

static void cpu_stream_free(struct vp_stream *stream)
{
    (void)stream;
}

static enum vp_status cpu_event_create(struct vp_device *device,
                                       struct vp_event **out)
{
    *out = &backend_of(device)->event;
    return VP_OK;
}

static void cpu_event_free(struct vp_event *event)
{
    (void)event;
}

static enum vp_status cpu_event_record(struct vp_event *event,
                                       struct vp_stream *stream)
{
    (void)event;
    (void)stream;
    return VP_OK;
}

static enum vp_status cpu_stream_wait(struct vp_stream *stream,
                                      struct vp_event *event)
{
    (void)stream;
    (void)event;
    return VP_OK;
}

static enum vp_status cpu_event_sync(struct vp_event *event, int timeout_ms)
{
    (void)event;
    (void)timeout_ms;
    return VP_OK;
}

static enum vp_status cpu_copy(struct vp_stream *stream, void *dst,
                               const void *src, size_t n_bytes)
{
    (void)stream;
    memcpy(dst, src, n_bytes);
    return VP_OK;
}

static const struct vp_device_ops cpu_device = {
    .host_memory = true,
    .attach = cpu_attach,
    .last_error = cpu_last_error,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .host_alloc = cpu_host_alloc,
    .host_free = cpu_host_free,
    .stream_create = cpu_stream_create,
    .stream_free = cpu_stream_free,
    .copy = cpu_copy,
    .stream_wait = cpu_stream_wait,
    .event_create = cpu_event_create,
    .event_free = cpu_event_free,
    .event_record = cpu_event_record,
    .event_sync = cpu_event_sync,
};

/* ---- Programs ----------------------------------------------------------- */

static size_t cpu_scratch_bytes(const void *ctx, const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_backend_config *config = ctx;
    const struct vp_cpu_kernels *kernels = kernels_of(config->reference, graph);

    return kernels->scratch_bytes
               ? kernels->scratch_bytes(graph, op, phase, config->n_threads)
               : 0;
}

static enum vp_status cpu_compile(struct vp_backend *backend,
                                  const struct vp_program *program,
                                  struct vp_exe **out, struct vp_err *err)
{
    const struct vp_cpu_kernels *kernels = kernels_of(backend->reference,
                                                      program->graph);
    size_t n_calls = 0;
    struct vp_exe *exe;

    if (program->graph->dtype == VP_DTYPE_F16)
        return vp_err_refuse(err, "precision",
                             "cpu backend: fp16 is not supported; set "
                             "precision: bf16 or use a GPU");
    for (int list = 0; list < VP_LIST_COUNT; list++) {
        n_calls += (size_t)program->n_calls[list];
        for (int i = 0; i < program->n_calls[list]; i++) {
            const struct vp_call *call = &program->calls[list][i];

            if (!kernels->fn[call->op->kind][call->phase])
                return vp_err_set(err, VP_ERR_UNSUPPORTED,
                                  "cpu backend: no kernel for %s, phase %c",
                                  vp_op_defs[call->op->kind].name,
                                  "FBW"[call->phase]);
        }
    }
    exe = calloc(1, sizeof(*exe) + n_calls);
    if (!exe)
        return vp_err_set(err, VP_ERR_NOMEM, "cpu backend: out of memory");
    exe->backend = backend;
    exe->kernels = kernels;
    exe->program = program;
    for (int list = VP_LIST_COUNT - 1; list >= 0; list--) {
        n_calls -= (size_t)program->n_calls[list];
        exe->n_together[list] = exe->lengths + n_calls;
        vp_cpu_find_runs(kernels, vp_pool_threads(backend->pool), program,
                         (enum vp_list)list, exe->n_together[list]);
    }
    *out = exe;
    return VP_OK;
}

static void cpu_exe_free(struct vp_exe *exe)
{
    free(exe);
}

static void resolve(const struct vp_exe *exe, const struct vp_call *call,
                    const struct vp_launch *launch, struct vp_kargs *args)
{
    vp_kargs_resolve(exe->program->graph, call, launch, args);
    args->pool = exe->backend->pool;
}

static enum vp_cpu_part part_of(const struct vp_op *op)
{
    return op->kind == VP_OP_ATTENTION || op->kind == VP_OP_CACHED_ATTENTION ||
                   op->kind == VP_OP_CACHED_CROSS_ATTENTION
               ? VP_CPU_ATTENTION
               : VP_CPU_ELEMENTWISE;
}

/* Runs `n` consecutive calls, as one pool job if there are several. */
static void run_calls(const struct vp_exe *exe, const struct vp_call *calls,
                      int n, const struct vp_launch *launch)
{
    const struct vp_cpu_kernels *kernels = exe->kernels;
    struct vp_kargs args[VP_MAX_RUN];
    struct vp_rows_call run[VP_MAX_RUN];

    for (int i = 0; i < n; i++) {
        resolve(exe, &calls[i], launch, &args[i]);
        run[i].kernel = kernels->rows[calls[i].op->kind][calls[i].phase];
        run[i].args = &args[i];
    }
    if (n == 1)
        kernels->fn[calls->op->kind][calls->phase](args);
    else
        vp_cpu_rows_run(run, n);
}

/* Returns the error of a call that waited for other members; kernels return
 * nothing. */
static enum vp_status members_status(const struct vp_launch *launch)
{
    return launch->members ? launch->members->status(launch->members->ctx)
                           : VP_OK;
}

static enum vp_status cpu_launch_part(struct vp_exe *exe, enum vp_list list,
                                      int first, int n,
                                      const struct vp_launch *launch,
                                      struct vp_stream *stream)
{
    const struct vp_program *program = exe->program;
    struct vp_pool *pool = exe->backend->pool;
    enum vp_status st = VP_OK;
    int n_run;

    (void)stream;
    for (int i = first; i < first + n; i += n_run) {
        const struct vp_call *call = &program->calls[list][i];

        n_run = exe->n_together[list][i];
        if (n_run > first + n - i)
            n_run = first + n - i;
        vp_pool_note(pool, 0, part_of(call->op));
        run_calls(exe, call, n_run, launch);
        if (exe->backend->between)
            exe->backend->between(exe->backend->between_ctx);
        st = members_status(launch);
        if (st != VP_OK)
            break;
    }
    vp_pool_note(pool, 0, VP_CPU_IDLE);
    return st;
}

static enum vp_status cpu_launch(struct vp_exe *exe, enum vp_list list,
                                 const struct vp_launch *launch,
                                 struct vp_stream *stream)
{
    return cpu_launch_part(exe, list, 0, exe->program->n_calls[list], launch,
                           stream);
}

static bool all_finite(const void *data, enum vp_dtype dtype, int64_t n)
{
    const struct vp_simd *simd = vp_simd(dtype);

    for (int64_t i = 0; data && i < n; i++)
        if (!isfinite(vp_elem_get(simd, data, i)))
            return false;
    return true;
}

static bool value_is_finite(const struct vp_graph *graph, vp_val v,
                            const void *data)
{
    const struct vp_value *value = &graph->values[v == VP_NONE ? 0 : v];

    return v == VP_NONE || value->dtype == VP_DTYPE_I32 ||
           all_finite(data, value->dtype, value->rows * value->cols);
}

static int64_t param_size(const struct vp_graph *graph, vp_par par)
{
    return par == VP_NONE ? 0
                          : graph->params[par].rows * graph->params[par].cols;
}

static bool call_is_finite(const struct vp_kargs *args, enum vp_phase phase)
{
    const struct vp_graph *graph = args->graph;
    const struct vp_op *op = args->op;
    bool finite = true;

    if (phase == VP_PHASE_F)
        return value_is_finite(graph, op->out, args->out);
    if (phase == VP_PHASE_B) {
        for (int i = 0; i < VP_MAX_IN; i++)
            finite &= value_is_finite(graph, op->in[i], args->din[i]);
        return finite && value_is_finite(graph, op->out, args->dz);
    }
    for (int i = 0; i < VP_MAX_PARAM; i++)
        finite &= all_finite(args->dpar[i], VP_DTYPE_F32,
                             param_size(graph, op->par[i]));
    return finite;
}

static enum vp_status cpu_launch_checked(struct vp_exe *exe, enum vp_list list,
                                         const struct vp_launch *launch,
                                         struct vp_nonfinite *found_out)
{
    const struct vp_program *program = exe->program;
    struct vp_kargs args;

    *found_out = (struct vp_nonfinite){ NULL, VP_PHASE_F };
    for (int i = 0; i < program->n_calls[list]; i++) {
        const struct vp_call *call = &program->calls[list][i];

        resolve(exe, call, launch, &args);
        exe->kernels->fn[call->op->kind][call->phase](&args);
        VP_TRY(members_status(launch));
        if (!call_is_finite(&args, call->phase)) {
            *found_out = (struct vp_nonfinite){ call->op, call->phase };
            return VP_OK;
        }
    }
    return VP_OK;
}

/* ---- Optimizer ---------------------------------------------------------- */

/* Makes sure that scratch is large enough for `tensors`; it grows only in the
 * first step. */
static enum vp_status reserve_scratch(struct vp_backend *backend,
                                      const struct vp_optim_tensor *tensors,
                                      int n_tensors)
{
    size_t need = vp_optim_scratch_bytes(tensors, n_tensors);
    void *scratch;

    if (need <= backend->scratch_size)
        return VP_OK;
    scratch = realloc(backend->scratch, need);
    if (!scratch)
        return VP_ERR_NOMEM;
    backend->scratch = scratch;
    backend->scratch_size = need;
    return VP_OK;
}

enum { CHUNK_FLOATS = 65536 };

struct floats_job {
    float *dst;
    const float *src;
    int64_t n;
};

static void add_chunk(void *ctx, int task, int thread)
{
    const struct floats_job *job = ctx;
    int64_t begin = (int64_t)task * CHUNK_FLOATS;
    int64_t end = begin + CHUNK_FLOATS < job->n ? begin + CHUNK_FLOATS : job->n;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        job->dst[i] += job->src[i];
}

static enum vp_status cpu_add(struct vp_backend *backend,
                              struct vp_stream *stream, float *dst,
                              const float *src, int64_t n)
{
    struct floats_job job = { dst, src, n };

    (void)stream;
    vp_pool_run(backend->pool, (int)((n + CHUNK_FLOATS - 1) / CHUNK_FLOATS),
                add_chunk, &job);
    return VP_OK;
}

static void shorten_chunk(void *ctx, int task, int thread)
{
    const struct floats_job *job = ctx;
    int64_t begin = (int64_t)task * CHUNK_FLOATS;
    int64_t end = begin + CHUNK_FLOATS < job->n ? begin + CHUNK_FLOATS : job->n;

    (void)thread;
    vp_dtype_shorten(VP_DTYPE_BF16, job->dst + begin, end - begin);
}

static enum vp_status cpu_shorten(struct vp_backend *backend,
                                  struct vp_stream *stream, float *data,
                                  int64_t n)
{
    struct floats_job job = { data, NULL, n };

    (void)stream;
    vp_pool_run(backend->pool, (int)((n + CHUNK_FLOATS - 1) / CHUNK_FLOATS),
                shorten_chunk, &job);
    return VP_OK;
}

static enum vp_status cpu_sum_squares(struct vp_backend *backend,
                                      struct vp_stream *stream,
                                      const struct vp_optim_tensor *tensors,
                                      int n_tensors, const float *data,
                                      double *sums_out)
{
    (void)stream;
    VP_TRY(reserve_scratch(backend, tensors, n_tensors));
    vp_pool_note(backend->pool, 0, VP_CPU_OPTIMIZER);
    vp_optim_sum_squares_host(tensors, n_tensors, data, sums_out, backend->pool,
                              backend->scratch);
    vp_pool_note(backend->pool, 0, VP_CPU_IDLE);
    return VP_OK;
}

static enum vp_status cpu_update(struct vp_backend *backend,
                                 struct vp_stream *stream,
                                 const struct vp_optim_step *step)
{
    (void)stream;
    VP_TRY(reserve_scratch(backend, step->tensors, step->n_tensors));
    vp_pool_note(backend->pool, 0, VP_CPU_OPTIMIZER);
    vp_optim_step_host(step, backend->pool, backend->scratch);
    vp_pool_note(backend->pool, 0, VP_CPU_IDLE);
    return VP_OK;
}

const struct vp_backend_ops vp_backend_cpu = {
    .name = "cpu",
    .device = &cpu_device,
    .n_devices = cpu_n_devices,
    .open = cpu_open,
    .close = cpu_close,
    .scratch_bytes = cpu_scratch_bytes,
    .compile = cpu_compile,
    .exe_free = cpu_exe_free,
    .launch = cpu_launch,
    .launch_part = cpu_launch_part,
    .launch_checked = cpu_launch_checked,
    .add = cpu_add,
    .shorten = cpu_shorten,
    .sum_squares = cpu_sum_squares,
    .update = cpu_update,
};
