/* Runs row-wise kernels in bands, and finds calls that may share a job without
 * changing results. */
#include "backend/cpu/rows.h"

#include "backend/cpu/chunk.h"

/* Elements of a band: the bands of the tensors of a run fit a core's cache
 * together. Also the least elements of a task. */
enum { BAND_ELEMENTS = 16384 };

/* ---- Running ------------------------------------------------------------ */

struct job {
    const struct vp_rows_call *calls;
    int n;
    int64_t chunk_rows, band_rows;
    struct vp_chunks tasks; /* rows: whole chunks of vp_chunks_sums() */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void run_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    struct vp_range r = vp_chunk(&job->tasks, task);
    int64_t begin, end;

    (void)thread;
    for (begin = r.begin; begin < r.end; begin = end) {
        int64_t chunk = begin / job->chunk_rows;

        end = least(r.end, (chunk + 1) * job->chunk_rows);
        end = least(end, begin + job->band_rows);
        for (int i = 0; i < job->n; i++)
            job->calls[i].kernel.fn(job->calls[i].args, begin, end);
    }
}

void vp_cpu_rows_run(const struct vp_rows_call *calls, int n)
{
    struct job job = { .calls = calls, .n = n };
    int64_t rows = 0, cols = 1, n_chunks;

    for (int i = 0; i < n; i++) {
        const struct vp_value *out = vp_arg_value(calls[i].args,
                                                  calls[i].args->op->out);

        rows = out->rows;
        if (out->cols > cols)
            cols = out->cols;
    }
    job.chunk_rows = vp_chunks_sums(rows).size;
    job.band_rows = BAND_ELEMENTS / cols / 4 * 4;
    if (job.band_rows < 4)
        job.band_rows = 4;
    n_chunks = BAND_ELEMENTS / (job.chunk_rows * cols);
    job.tasks = vp_chunks_of(rows, job.chunk_rows * (n_chunks ? n_chunks : 1));
    vp_pool_run(calls->args->pool, job.tasks.n, run_task, &job);
    for (int i = 0; i < n; i++)
        if (calls[i].kernel.end)
            calls[i].kernel.end(calls[i].args);
}

/* ---- Finding runs ------------------------------------------------------- */

/* A piece of memory that a call reads or writes. */
struct use {
    struct vp_ref ref;
    int64_t n_bytes;
    int64_t row_bytes; /* 0: the call does not use it row by row */
    bool written;
};

struct uses {
    struct use use[2 * VP_MAX_IN + VP_MAX_AUX + 2 * VP_MAX_PARAM + 5];
    int n;
};

static void use(struct uses *uses, struct vp_ref ref, int64_t n_bytes,
                int64_t row_bytes, bool written)
{
    if (ref.space != VP_SPACE_NONE)
        uses->use[uses->n++] = (struct use){ ref, n_bytes, row_bytes, written };
}

static void use_value(struct uses *uses, const struct vp_graph *graph,
                      struct vp_ref ref, vp_val value, bool written)
{
    int64_t n_bytes;

    if (value == VP_NONE)
        return;
    n_bytes = vp_value_bytes(graph, value);
    use(uses, ref, n_bytes, n_bytes / graph->values[value].rows, written);
}

/* A parameter that is read, or its gradient, in floats, that is written. */
static void use_param(struct uses *uses, const struct vp_graph *graph,
                      struct vp_ref ref, vp_par par, bool written)
{
    enum vp_dtype dtype = written ? VP_DTYPE_F32 : graph->dtype;

    if (par != VP_NONE)
        use(uses, ref,
            graph->params[par].rows * graph->params[par].cols *
                vp_dtype_bytes(dtype),
            0, written);
}

/* Returns all memory that a call refers to, even if its kernel does not use
 * it. */
static struct uses uses_of(const struct vp_cpu_kernels *kernels, int n_threads,
                           const struct vp_graph *graph,
                           const struct vp_call *call)
{
    const struct vp_op *op = call->op;
    bool f = call->phase == VP_PHASE_F, b = call->phase == VP_PHASE_B;
    struct uses uses = { .n = 0 };

    for (int i = 0; i < VP_MAX_IN; i++) {
        use_value(&uses, graph, call->in[i], op->in[i], false);
        use_value(&uses, graph, call->din[i], op->in[i], true);
    }
    use_value(&uses, graph, call->out, op->out, f);
    for (int i = 0; i < VP_MAX_AUX; i++)
        use_value(&uses, graph, call->aux[i], op->aux[i], f);
    use_value(&uses, graph, call->dout, op->out, false);
    use_value(&uses, graph, call->dz, op->out, b);
    use_value(&uses, graph, call->recomputed_out, op->out, true);
    for (int i = 0; i < VP_MAX_PARAM; i++) {
        use_param(&uses, graph, call->par[i], op->par[i], false);
        use_param(&uses, graph, call->dpar[i], op->par[i], true);
    }
    if (kernels->scratch_bytes)
        use(&uses, call->scratch,
            (int64_t)kernels->scratch_bytes(graph, op, call->phase, n_threads),
            0, true);
    return uses;
}

/* Returns true if running two calls band by band could change a result: they
 * share memory, at least one writes it, and the shared bytes are not the same
 * row of both. */
static bool conflict(const struct use *a, const struct use *b)
{
    int64_t a_begin = a->ref.offset, b_begin = b->ref.offset;

    if ((!a->written && !b->written) || a->ref.space != b->ref.space ||
        a_begin + a->n_bytes <= b_begin || b_begin + b->n_bytes <= a_begin)
        return false;
    return a_begin != b_begin || a->row_bytes != b->row_bytes ||
           a->row_bytes == 0;
}

static bool any_conflict(const struct uses *a, const struct uses *b)
{
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            if (conflict(&a->use[i], &b->use[j]))
                return true;
    return false;
}

/* Returns VP_NONE if the call has no row-wise kernel. */
static int64_t rows_of(const struct vp_cpu_kernels *kernels,
                       const struct vp_graph *graph, const struct vp_call *call)
{
    if (!kernels->rows[call->op->kind][call->phase].fn)
        return VP_NONE;
    return graph->values[call->op->out].rows;
}

void vp_cpu_find_runs(const struct vp_cpu_kernels *kernels, int n_threads,
                      const struct vp_program *program, enum vp_list list,
                      unsigned char *lengths_out)
{
    const struct vp_graph *graph = program->graph;
    struct uses uses[VP_MAX_RUN];
    int64_t rows = VP_NONE;
    int n = 0;

    for (int i = 0; i < program->n_calls[list]; i++) {
        const struct vp_call *call = &program->calls[list][i];
        struct uses now = uses_of(kernels, n_threads, graph, call);
        bool joins = n > 0 && n < VP_MAX_RUN && rows != VP_NONE &&
                     rows == rows_of(kernels, graph, call);

        for (int k = 0; k < n && joins; k++)
            joins = !any_conflict(&uses[k], &now);
        if (!joins)
            n = 0;
        rows = rows_of(kernels, graph, call);
        uses[n++] = now;
        for (int k = 0; k < n; k++)
            lengths_out[i - k] = (unsigned char)(k + 1);
    }
}
