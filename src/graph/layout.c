/* Places of a stage's parameters and gradients, and the values that cross its
 * boundaries. */
#include "graph/internal.h"

#include <string.h>

static int64_t count(const struct vp_param *param)
{
    return param->rows * param->cols;
}

/* Returns the parameter that `par` is tied to, or `par`. */
static vp_par tie_group(const struct vp_graph *graph, vp_par par)
{
    vp_par owner = graph->params[par].tied_to;

    return owner == VP_NONE ? par : owner;
}

/* Reserves n_bytes at `*end`, which it moves on; returns their offset. */
static int64_t advance(int64_t *end, int64_t n_bytes)
{
    int64_t offset = *end;

    *end += (int64_t)vp_align_up((size_t)n_bytes, VP_TENSOR_ALIGN);
    return offset;
}

static bool in_stage(const struct vp_lowering *lowering, int block)
{
    return block >= lowering->spec->first_block &&
           block < lowering->spec->first_block + lowering->spec->n_blocks;
}

/* ---- Parameters --------------------------------------------------------- */

/* Adds an entry, with storage at `*end` unless it is tied to an earlier entry.
 * storage_of[p] is the first entry of the stage that uses the weights of
 * parameter p, or VP_NONE. */
static void place_param(struct vp_lowering *lowering, vp_par par,
                        int *storage_of, int64_t *end)
{
    const struct vp_graph *graph = lowering->graph;
    struct vp_layout *layout = &lowering->program->layout;
    int *storage = &storage_of[tie_group(graph, par)];
    int index = layout->n_entries++;
    struct vp_layout_entry *entry = &layout->entries[index];

    *entry = (struct vp_layout_entry){
        .par = par,
        .storage = *storage == VP_NONE ? index : *storage,
        .grad_offset = VP_NONE,
        .n_bytes = count(&graph->params[par]) * vp_dtype_bytes(graph->dtype),
    };
    entry->offset = *storage == VP_NONE ? advance(end, entry->n_bytes)
                                        : layout->entries[*storage].offset;
    *storage = entry->storage;
    lowering->entry_of[par] = index;
}

/* Adds the parameters of a block whose `constant` is as given, from offset
 * `begin` on. Returns their end. Parameters are sorted by block: `*par` is
 * where the search begins, and is moved to the next block. */
static int64_t place_block(struct vp_lowering *lowering, int block,
                           bool constant, int64_t begin, int *storage_of,
                           vp_par *par)
{
    const struct vp_graph *graph = lowering->graph;
    int64_t end = begin;

    for (; *par < graph->n_params && graph->params[*par].block <= block; ++*par)
        if (graph->params[*par].block == block &&
            graph->params[*par].constant == constant)
            place_param(lowering, *par, storage_of, &end);
    return end;
}

/* *most = max(*most, n) */
static void raise_to(int64_t *most, int64_t n)
{
    *most = n > *most ? n : *most;
}

/* Places the pieces of all blocks, then the constants of all blocks. */
static void place_params(struct vp_lowering *lowering, int *storage_of)
{
    const struct vp_stage_spec *spec = lowering->spec;
    struct vp_layout *layout = &lowering->program->layout;
    int64_t size = vp_dtype_bytes(lowering->graph->dtype);
    vp_par par = 0;

    for (int b = 0; b < spec->n_blocks; b++) {
        int64_t begin = spec->bases ? spec->bases[b] * size
                                    : layout->param_bytes;
        int64_t end = place_block(lowering, spec->first_block + b, false, begin,
                                  storage_of, &par);

        layout->blocks[b].base = begin / size;
        layout->blocks[b].n = (end - begin) / size;
        raise_to(&layout->param_bytes, end);
    }
    layout->train_bytes = layout->param_bytes / size * (int64_t)sizeof(float);
    par = 0;
    for (int b = 0; b < spec->n_blocks; b++) {
        int64_t begin = layout->param_bytes;

        layout->param_bytes = place_block(lowering, spec->first_block + b, true,
                                          begin, storage_of, &par);
        layout->blocks[b].constants = begin;
        layout->blocks[b].constant_bytes = layout->param_bytes - begin;
    }
}

/* Places the gradients: each at the same element as its weights in PARAM, and
 * those of tied parameters after all others. */
static void place_grads(struct vp_lowering *lowering)
{
    const struct vp_graph *graph = lowering->graph;
    struct vp_layout *layout = &lowering->program->layout;
    int64_t size = vp_dtype_bytes(graph->dtype);

    layout->grad_bytes = layout->train_bytes;
    for (int i = 0; i < layout->n_entries; i++) {
        struct vp_layout_entry *entry = &layout->entries[i];
        const struct vp_param *param = &graph->params[entry->par];
        struct vp_layout_block *block =
            &layout->blocks[param->block - lowering->spec->first_block];

        if (param->constant)
            continue;
        if (param->partial_grad)
            layout->n_partial += count(param);
        if (entry->storage == i) {
            entry->grad_offset = entry->offset / size * (int64_t)sizeof(float);
            continue;
        }
        entry->grad_offset = advance(&layout->grad_bytes,
                                     count(param) * (int64_t)sizeof(float));
        if (block->tied_bytes == 0)
            block->tied = entry->grad_offset;
        block->tied_bytes = layout->grad_bytes - block->tied;
    }
}

enum vp_status vp_layout_make(struct vp_lowering *lowering)
{
    const struct vp_graph *graph = lowering->graph;
    struct vp_layout *layout = &lowering->program->layout;
    size_t n = (size_t)graph->n_params, n_here = 0;
    size_t n_blocks = (size_t)lowering->spec->n_blocks;
    int *storage_of = vp_lowering_work(lowering, n * sizeof(*storage_of));

    for (size_t par = 0; par < n; par++)
        n_here += in_stage(lowering, graph->params[par].block);
    layout->entries = vp_lowering_alloc(lowering,
                                        n_here * sizeof(*layout->entries));
    layout->blocks = vp_lowering_alloc(lowering,
                                       n_blocks * sizeof(*layout->blocks));
    lowering->entry_of = vp_lowering_work(lowering,
                                          n * sizeof(*lowering->entry_of));
    if (lowering->status != VP_OK)
        return lowering->status;
    for (size_t par = 0; par < n; par++)
        storage_of[par] = lowering->entry_of[par] = VP_NONE;
    place_params(lowering, storage_of);
    place_grads(lowering);
    return VP_OK;
}

/* Returns a block before `b` whose piece overlaps that of `b`, or -1. */
static int find_overlap(const struct vp_layout *layout, int b)
{
    const struct vp_layout_block *x = &layout->blocks[b];

    for (int i = 0; i < b; i++) {
        const struct vp_layout_block *y = &layout->blocks[i];

        if (x->base < y->base + y->n && y->base < x->base + x->n)
            return i;
    }
    return -1;
}

enum vp_status vp_layout_check(const struct vp_lowering *lowering,
                               struct vp_err *err)
{
    const struct vp_stage_spec *spec = lowering->spec;
    const struct vp_layout *layout = &lowering->program->layout;
    int64_t unit = VP_TENSOR_ALIGN / vp_dtype_bytes(lowering->graph->dtype);

    for (int b = 0; spec->bases && b < spec->n_blocks; b++) {
        int other = find_overlap(layout, b);

        if (spec->bases[b] < 0 || spec->bases[b] % unit != 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "state of block %d begins at element %lld; its "
                              "base must be a multiple of %lld",
                              spec->first_block + b, (long long)spec->bases[b],
                              (long long)unit);
        if (other >= 0)
            return vp_err_set(
                err, VP_ERR_INVALID,
                "state of block %d, elements %lld to %lld, "
                "overlaps that of block %d",
                spec->first_block + b, (long long)layout->blocks[b].base,
                (long long)(layout->blocks[b].base + layout->blocks[b].n - 1),
                spec->first_block + other);
    }
    return VP_OK;
}

static const struct vp_layout_entry *find_entry(
    const struct vp_lowering *lowering, vp_par par)
{
    int i = lowering->entry_of[par];

    VP_BUG_ON(i == VP_NONE); /* the parameter is in another stage */
    return &lowering->program->layout.entries[i];
}

struct vp_ref vp_layout_param(const struct vp_lowering *lowering, vp_par par)
{
    if (par == VP_NONE)
        return (struct vp_ref){ VP_SPACE_NONE, 0 };
    return (struct vp_ref){ VP_SPACE_PARAM, find_entry(lowering, par)->offset };
}

struct vp_ref vp_layout_grad(const struct vp_lowering *lowering, vp_par par)
{
    const struct vp_layout_entry *entry;

    if (par == VP_NONE)
        return (struct vp_ref){ VP_SPACE_NONE, 0 };
    entry = find_entry(lowering, par);
    if (entry->grad_offset == VP_NONE)
        return (struct vp_ref){ VP_SPACE_NONE, 0 };
    return (struct vp_ref){ VP_SPACE_GRAD, entry->grad_offset };
}

/* ---- Boundaries --------------------------------------------------------- */

/* Returns true if a value (with `gradients`: its gradient) crosses the cut
 * before operator `cut`: computed before it, read after it. Both stages at a
 * cut derive the same boundary from this rule. */
static bool crosses(const struct vp_value *value, int cut, bool gradients)
{
    return value->producer < cut && value->last_reader >= cut &&
           (!gradients || value->needs_grad);
}

static enum vp_status boundary_at(struct vp_lowering *lowering, int cut,
                                  bool gradients, struct vp_boundary *boundary)
{
    const struct vp_graph *graph = lowering->graph;
    size_t n = 0;

    for (vp_val v = 0; v < graph->n_values; v++)
        n += crosses(&graph->values[v], cut, gradients);
    boundary->entries = vp_lowering_alloc(lowering,
                                          n * sizeof(*boundary->entries));
    if (!boundary->entries)
        return VP_ERR_NOMEM;
    for (vp_val v = 0; v < graph->n_values; v++) {
        if (!crosses(&graph->values[v], cut, gradients))
            continue;
        boundary->entries[boundary->n_entries++] = (struct vp_boundary_value){
            .value = v,
            .n_bytes = vp_value_bytes(graph, v),
            .offset = advance(&boundary->n_bytes, vp_value_bytes(graph, v)),
        };
    }
    return VP_OK;
}

static void note_places(const struct vp_boundary *boundary, enum vp_space space,
                        struct vp_ref *places)
{
    for (int i = 0; i < boundary->n_entries; i++)
        places[boundary->entries[i].value] = (struct vp_ref){
            space, boundary->entries[i].offset
        };
}

enum vp_status vp_boundaries_make(struct vp_lowering *lowering)
{
    struct vp_program *program = lowering->program;

    VP_TRY(boundary_at(lowering, lowering->first_op, false, &program->in));
    VP_TRY(boundary_at(lowering, lowering->first_op, true, &program->din));
    VP_TRY(boundary_at(lowering, lowering->end_op, false, &program->out));
    VP_TRY(boundary_at(lowering, lowering->end_op, true, &program->dout));
    note_places(&program->in, VP_SPACE_IN, lowering->boundary_in);
    note_places(&program->out, VP_SPACE_OUT, lowering->boundary_out);
    return VP_OK;
}

const struct vp_boundary *vp_program_boundary(const struct vp_program *program,
                                              enum vp_space space)
{
    switch (space) {
    case VP_SPACE_IN:
        return &program->in;
    case VP_SPACE_OUT:
        return &program->out;
    case VP_SPACE_DIN:
        return &program->din;
    default:
        return &program->dout;
    }
}

int64_t vp_program_input_offset(const struct vp_program *program,
                                enum vp_role role)
{
    for (int i = 0; i < program->in.n_entries; i++) {
        const struct vp_boundary_value *entry = &program->in.entries[i];

        if (program->graph->values[entry->value].role == role)
            return entry->offset;
    }
    return VP_NONE;
}
