/* Where parameters sit in a stage, and which values cross its boundaries. */
#include "graph/internal.h"

#include <string.h>

static int64_t count(const struct vp_param *param)
{
    return param->rows * param->cols;
}

static vp_par tie_group(const struct vp_graph *graph, vp_par par)
{
    vp_par owner = graph->params[par].tied_to;

    return owner == VP_NONE ? par : owner;
}

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

/* Adds the stage's parameters that are (or are not) constant. `storage_of` has,
 * per owner of weights, the first entry of the stage that uses them, or -1. */
static void place_params(struct vp_lowering *lowering, bool constant,
                         int *storage_of)
{
    const struct vp_graph *graph = lowering->graph;
    struct vp_layout *layout = &lowering->program->layout;

    for (vp_par par = 0; par < graph->n_params; par++) {
        const struct vp_param *param = &graph->params[par];
        int64_t n_bytes = count(param) * vp_dtype_bytes(graph->dtype);
        int index = layout->n_entries;
        int storage = storage_of[tie_group(graph, par)];

        if (!in_stage(lowering, param->block) || param->constant != constant)
            continue;
        if (storage < 0)
            storage_of[tie_group(graph, par)] = index;
        lowering->entry_of[par] = index;
        layout->entries[index] = (struct vp_layout_entry){
            .par = par,
            .storage = storage < 0 ? index : storage,
            .grad_offset = VP_NONE,
            .n_bytes = n_bytes,
        };
        layout->entries[index].offset = storage < 0
                                            ? advance(&layout->param_bytes,
                                                      n_bytes)
                                            : layout->entries[storage].offset;
        layout->n_entries++;
    }
}

/* A trained tensor begins at the same element in PARAM and in GRAD. */
static int64_t as_floats(const struct vp_graph *graph, int64_t param_bytes)
{
    return param_bytes / vp_dtype_bytes(graph->dtype) * (int64_t)sizeof(float);
}

enum vp_status vp_layout_make(struct vp_lowering *lowering)
{
    const struct vp_graph *graph = lowering->graph;
    struct vp_layout *layout = &lowering->program->layout;
    size_t n = (size_t)graph->n_params, n_here = 0;
    int *storage_of = vp_lowering_work(lowering, n * sizeof(*storage_of));

    for (size_t par = 0; par < n; par++)
        n_here += in_stage(lowering, graph->params[par].block);
    layout->entries = vp_lowering_alloc(lowering,
                                        n_here * sizeof(*layout->entries));
    lowering->entry_of = vp_lowering_work(lowering,
                                          n * sizeof(*lowering->entry_of));
    if (lowering->status != VP_OK)
        return lowering->status;
    for (size_t par = 0; par < n; par++)
        storage_of[par] = lowering->entry_of[par] = VP_NONE;
    place_params(lowering, false, storage_of);
    layout->train_bytes = as_floats(graph, layout->param_bytes);
    place_params(lowering, true, storage_of);

    layout->grad_bytes = layout->train_bytes;
    for (int i = 0; i < layout->n_entries; i++) {
        struct vp_layout_entry *entry = &layout->entries[i];
        const struct vp_param *param = &graph->params[entry->par];

        if (param->constant)
            continue;
        entry->grad_offset = entry->storage == i
                                 ? as_floats(graph, entry->offset)
                                 : advance(&layout->grad_bytes,
                                           count(param) *
                                               (int64_t)sizeof(float));
    }
    return VP_OK;
}

static const struct vp_layout_entry *find_entry(
    const struct vp_lowering *lowering, vp_par par)
{
    int i = lowering->entry_of[par];

    VP_BUG_ON(i == VP_NONE); /* it is in another stage */
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

/* ---- Packets ------------------------------------------------------------ */

/* Is a value alive between operators cut-1 and cut: made before, used after?
 * Both neighbours of a cut derive the same boundary from it. */
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
