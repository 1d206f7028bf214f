/* embed: out = scale * table[id] + positions[p] + types[t], and gather, its
 * kin: rows picked from a matrix. */
#include "backend/cpu/chunk.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/scatter.h"
#include "backend/cpu/simd.h"
#include "graph/slice.h"

#include <string.h>

struct embed {
    const struct vp_kargs *args;
    const struct vp_simd *simd;
    int64_t rows, H;
    int64_t n_rows[VP_MAX_PARAM]; /* of the tables */
    const int32_t *ids, *types;   /* [rows]; types may be NULL */
    const int32_t *at;            /* [rows]: given positions, or NULL */
    int64_t n_ids,
        first_id; /* of the whole table, and of this member's slice */
    bool leads;   /* this member adds positions and types */
    struct vp_chunks chunks;
};

static struct embed embed_of(const struct vp_kargs *args)
{
    const struct vp_value *out = vp_arg_value(args, args->op->out);
    struct embed e = { .args = args,
                       .simd = vp_simd(args->graph->dtype),
                       .rows = out->rows,
                       .H = out->cols,
                       .ids = args->in[0],
                       .types = args->in[1],
                       .at = args->in[2],
                       .leads = !args->members || args->members->me == 0,
                       .chunks = vp_chunks_rows(out->rows, out->cols) };
    const struct vp_param *table = &args->graph->params[args->op->par[0]];

    e.n_ids = vp_param_whole(table, 0).rows;
    if (args->members)
        e.first_id = vp_slice_first(table, args->members->me);
    for (int k = 0; k < VP_MAX_PARAM; k++)
        if (args->op->par[k] != VP_NONE)
            e.n_rows[k] = args->graph->params[args->op->par[k]].rows;
    return e;
}

static bool is_pad(const struct embed *e, int64_t row)
{
    return e->args->op->attr.pad >= 0 && e->ids[row] == e->args->op->attr.pad;
}

/* Rows before `row` in its sample that count as positions. */
static int64_t position_of(const struct embed *e, int64_t row)
{
    int64_t t = row % e->args->op->attr.q_len, n = 0;

    if (e->at)
        return e->at[row];
    if (e->args->op->attr.pad < 0)
        return t;
    for (int64_t i = row - t; i < row; i++)
        n += !is_pad(e, i);
    return n;
}

/* The position of `row`, given that of the row before it. */
static int64_t next_position(const struct embed *e, int64_t row, int64_t last)
{
    if (e->at)
        return e->at[row];
    if (row % e->args->op->attr.q_len == 0)
        return 0;
    return last + !is_pad(e, row - 1);
}

/* The row of this member's slice of the table that has `id`; -1: another member
 * has it. */
static int32_t own_id(const struct embed *e, int32_t id)
{
    int64_t row = id - e->first_id;

    return row >= 0 && row < e->n_rows[0] ? (int32_t)row : -1;
}

/* Row `row` of a table of embeddings; NULL if there is no such table. */
static const void *table_row(const struct embed *e, int table, int64_t row)
{
    const void *at = e->args->par[table];

    return at ? vp_elem_of(e->simd, at, row * e->H) : NULL;
}

static void clear_row(const struct embed *e, void *out)
{
    memset(out, 0, (size_t)(e->H * vp_dtype_bytes(e->simd->dtype)));
}

/* What a member of a group adds to a row. */
static void forward_part(const struct embed *e, void *out, const void *token,
                         const void *position, const void *type)
{
    float scale = e->args->op->attr.scale;

    if (!e->leads)
        position = type = NULL;
    if (!token && position) { /* terms move up */
        token = position;
        position = NULL;
        scale = 1.0f;
    } else if (!token && type) {
        token = type;
        type = NULL;
        scale = 1.0f;
    }
    if (token)
        e->simd->embed(out, token, scale, position, type, e->H);
    else
        clear_row(e, out);
}

static void forward_row(const struct embed *e, int64_t row, int64_t position)
{
    bool typed = e->args->par[2] != NULL;
    int32_t id = e->ids[row], type = typed ? e->types[row] : 0;
    int32_t own = own_id(e, id);
    void *out = vp_elem(e->simd, e->args->out, row * e->H);

    VP_BUG_ON(id < 0 || id >= e->n_ids);
    VP_BUG_ON(typed && (type < 0 || type >= e->n_rows[2]));
    VP_BUG_ON(e->args->par[1] && position >= e->n_rows[1]);
    if (is_pad(e, row) || position < 0)
        clear_row(e, out);
    else
        forward_part(e, out, own < 0 ? NULL : table_row(e, 0, own),
                     table_row(e, 1, position), table_row(e, 2, type));
}

static void forward_task(void *ctx, int task, int thread)
{
    const struct embed *e = ctx;
    struct vp_range r = vp_chunk(&e->chunks, task);
    int64_t position = position_of(e, r.begin);

    (void)thread;
    for (int64_t row = r.begin; row < r.end; row++) {
        if (row > r.begin)
            position = next_position(e, row, position);
        forward_row(e, row, position);
    }
}

void vp_cpu_embed_f(const struct vp_kargs *args)
{
    struct embed e = embed_of(args);

    vp_pool_run(args->pool, e.chunks.n, forward_task, &e);
}

/* index[i]: the row of table k that row i was made of, or -1. */
static void set_index(const struct embed *e, int k, int32_t *index)
{
    int64_t position = 0;

    for (int64_t i = 0; i < e->rows; i++) {
        position = next_position(e, i, position);
        if (is_pad(e, i))
            index[i] = -1;
        else if (k == 0)
            index[i] = own_id(e, e->ids[i]);
        else
            index[i] = k == 1 ? (int32_t)position : e->types[i];
    }
}

/* Scratch: the index of one table, then room to sort it. */
void vp_cpu_embed_w(const struct vp_kargs *args)
{
    struct embed e = embed_of(args);
    int32_t *index = args->scratch;
    struct vp_scatter scatter = {
        .dtype = VP_DTYPE_F32,
        .cols = e.H,
        .src_dtype = args->graph->dtype,
        .src = args->dout,
        .index = index,
        .n = e.rows,
        .add = args->mb->accumulate,
        .scratch = index + e.rows,
    };

    for (int k = 0; k < VP_MAX_PARAM; k++) {
        if (!args->dpar[k])
            continue;
        set_index(&e, k, index);
        scatter.dst = args->dpar[k];
        scatter.dst_rows = e.n_rows[k];
        scatter.scale = k == 0 ? args->op->attr.scale : 1.0f;
        vp_cpu_scatter(args->pool, &scatter);
    }
}

size_t vp_cpu_embed_scratch(const struct vp_graph *graph,
                            const struct vp_op *op, enum vp_phase phase)
{
    int64_t rows = graph->values[op->out].rows, most = 0;

    if (phase != VP_PHASE_W)
        return 0;
    for (int k = 0; k < VP_MAX_PARAM; k++)
        if (op->par[k] != VP_NONE && graph->params[op->par[k]].rows > most)
            most = graph->params[op->par[k]].rows;
    return (size_t)rows * sizeof(int32_t) + vp_scatter_bytes(most, rows);
}

/* ---- Gather ------------------------------------------------------------- */

struct gather {
    const struct vp_kargs *args;
    int64_t in_rows, cols;
    int64_t first, n_own; /* rows that this member has */
    struct vp_chunks chunks;
};

static struct gather gather_of(const struct vp_kargs *args)
{
    const struct vp_value *in = vp_arg_value(args, args->op->in[0]);
    int64_t rows = vp_arg_value(args, args->op->out)->rows;

    return (struct gather){ .args = args,
                            .in_rows = in->whole_rows,
                            .cols = in->cols,
                            .first = vp_arg_first_row(args, args->op->in[0]),
                            .n_own = vp_arg_n_rows(args, args->op->in[0]),
                            .chunks = vp_chunks_rows(rows, in->cols) };
}

/* The row of this member's slice that is row `pick` of the whole; -1: none is. */
static int32_t own_row(const struct gather *g, int32_t pick)
{
    int64_t row = pick - g->first;

    return pick >= 0 && row >= 0 && row < g->n_own ? (int32_t)row : -1;
}

static void gather_task(void *ctx, int task, int thread)
{
    const struct gather *g = ctx;
    struct vp_range r = vp_chunk(&g->chunks, task);
    const int32_t *pick = g->args->in[1];
    size_t n_bytes = (size_t)(g->cols * vp_dtype_bytes(g->args->graph->dtype));

    (void)thread;
    for (int64_t i = r.begin; i < r.end; i++) {
        char *out = (char *)g->args->out + (size_t)i * n_bytes;
        int32_t row = own_row(g, pick[i]);

        VP_BUG_ON(pick[i] >= g->in_rows);
        if (row < 0)
            memset(out, 0, n_bytes);
        else
            memcpy(out, (const char *)g->args->in[0] + (size_t)row * n_bytes,
                   n_bytes);
    }
}

void vp_cpu_gather_f(const struct vp_kargs *args)
{
    struct gather g = gather_of(args);

    vp_pool_run(args->pool, g.chunks.n, gather_task, &g);
}

static bool is_sliced(const struct vp_graph *graph, const struct vp_op *op)
{
    return graph->values[op->in[0]].spread == VP_SPREAD_ROWS;
}

/* The numbers of a slice's rows stand behind the rest of the scratch. */
static const int32_t *own_rows(const struct vp_kargs *args)
{
    const struct gather g = gather_of(args);
    int64_t n = g.chunks.total;
    size_t rest = vp_scatter_bytes(vp_arg_value(args, args->op->in[0])->rows,
                                   n);
    const int32_t *pick = args->in[1];
    int32_t *rows = (int32_t *)((char *)args->scratch +
                                vp_align_up(rest, sizeof(*rows)));

    if (!is_sliced(args->graph, args->op))
        return pick;
    for (int64_t i = 0; i < n; i++)
        rows[i] = own_row(&g, pick[i]);
    return rows;
}

void vp_cpu_gather_b(const struct vp_kargs *args)
{
    const struct vp_value *in = vp_arg_value(args, args->op->in[0]);
    struct vp_scatter scatter = {
        .dtype = args->graph->dtype,
        .dst = args->din[0],
        .dst_rows = in->rows,
        .cols = in->cols,
        .src_dtype = args->graph->dtype,
        .src = args->dout,
        .index = own_rows(args),
        .n = vp_arg_value(args, args->op->out)->rows,
        .scale = 1.0f,
        .add = args->din_add[0],
        .scratch = args->scratch,
    };

    if (args->din[0])
        vp_cpu_scatter(args->pool, &scatter);
}

size_t vp_cpu_gather_scratch(const struct vp_graph *graph,
                             const struct vp_op *op, enum vp_phase phase)
{
    int64_t n = graph->values[op->out].rows;
    size_t n_bytes = vp_scatter_bytes(graph->values[op->in[0]].rows, n);

    if (phase != VP_PHASE_B)
        return 0;
    if (!is_sliced(graph, op))
        return n_bytes;
    return vp_align_up(n_bytes, sizeof(int32_t)) + (size_t)n * sizeof(int32_t);
}
