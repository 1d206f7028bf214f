/* Where parameters sit in a stage, and which values cross its boundaries. */
#include "graph/lower.h"

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

/* The earlier entry of the layout with the same weights, or -1. */
static int find_storage(const struct vp_graph *graph,
                        const struct vp_layout *layout, vp_par par)
{
    for (int i = 0; i < layout->n_entries; i++)
        if (layout->entries[i].storage == i &&
            tie_group(graph, layout->entries[i].par) == tie_group(graph, par))
            return i;
    return -1;
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

/* Adds the stage's parameters that are (or are not) constant. */
static void place_params(struct vp_lowering *lowering, bool constant)
{
    const struct vp_graph *graph = lowering->graph;
    struct vp_layout *layout = &lowering->program->layout;

    for (vp_par par = 0; par < graph->n_params; par++) {
        const struct vp_param *param = &graph->params[par];
        int64_t n_bytes = count(param) * vp_dtype_bytes(graph->dtype);
        int index = layout->n_entries;
        int storage = find_storage(graph, layout, par);

        if (!in_stage(lowering, param->block) || param->constant != constant)
            continue;
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

    layout->entries = vp_lowering_alloc(
        lowering, (size_t)lowering->graph->n_params * sizeof(*layout->entries));
    if (!layout->entries)
        return VP_ERR_NOMEM;
    place_params(lowering, false);
    layout->train_bytes = as_floats(graph, layout->param_bytes);
    place_params(lowering, true);

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

const struct vp_layout_entry *vp_layout_find(const struct vp_program *program,
                                             vp_par par)
{
    for (int i = 0; i < program->layout.n_entries; i++)
        if (program->layout.entries[i].par == par)
            return &program->layout.entries[i];
    vp_bug(__FILE__, __LINE__, "parameter is not in its stage");
}

struct vp_ref vp_layout_param(const struct vp_program *program, vp_par par)
{
    if (par == VP_NONE)
        return (struct vp_ref){ VP_SPACE_NONE, 0 };
    return (struct vp_ref){ VP_SPACE_PARAM,
                            vp_layout_find(program, par)->offset };
}

struct vp_ref vp_layout_grad(const struct vp_program *program, vp_par par)
{
    const struct vp_layout_entry *entry;

    if (par == VP_NONE)
        return (struct vp_ref){ VP_SPACE_NONE, 0 };
    entry = vp_layout_find(program, par);
    if (entry->grad_offset == VP_NONE)
        return (struct vp_ref){ VP_SPACE_NONE, 0 };
    return (struct vp_ref){ VP_SPACE_GRAD, entry->grad_offset };
}

/* ---- Packets ------------------------------------------------------------ */

static int last_use(const struct vp_graph *graph, vp_val value)
{
    for (int i = graph->n_ops - 1; i >= 0; i--)
        for (int j = 0; j < VP_MAX_IN; j++)
            if (graph->ops[i].in[j] == value)
                return i;
    return -1;
}

/* The values alive between operators cut-1 and cut: made before, used after.
 * Both neighbours of a boundary derive the same packet from it. */
static void packet_at(const struct vp_lowering *lowering, int cut,
                      bool gradients, struct vp_packet *packet)
{
    const struct vp_graph *graph = lowering->graph;

    for (vp_val v = 0; v < graph->n_values; v++) {
        const struct vp_value *value = &graph->values[v];

        if (value->producer >= cut || (gradients && !value->needs_grad) ||
            last_use(graph, v) < cut)
            continue;
        packet->entries[packet->n_entries++] = (struct vp_packet_entry){
            .value = v,
            .n_bytes = vp_value_bytes(graph, v),
            .offset = advance(&packet->n_bytes, vp_value_bytes(graph, v)),
        };
    }
}

static void note_places(const struct vp_packet *packet, enum vp_space space,
                        struct vp_ref *places)
{
    for (int i = 0; i < packet->n_entries; i++)
        places[packet->entries[i].value] = (struct vp_ref){
            space, packet->entries[i].offset
        };
}

enum vp_status vp_packets_make(struct vp_lowering *lowering)
{
    struct vp_program *program = lowering->program;
    struct vp_packet *packets[] = { &program->in, &program->out, &program->din,
                                    &program->dout };

    for (size_t i = 0; i < VP_COUNT_OF(packets); i++) {
        packets[i]->entries = vp_lowering_alloc(
            lowering,
            (size_t)lowering->graph->n_values * sizeof(*packets[i]->entries));
        if (!packets[i]->entries)
            return VP_ERR_NOMEM;
    }
    packet_at(lowering, lowering->first_op, false, &program->in);
    packet_at(lowering, lowering->first_op, true, &program->din);
    packet_at(lowering, lowering->end_op, false, &program->out);
    packet_at(lowering, lowering->end_op, true, &program->dout);
    note_places(&program->in, VP_SPACE_IN, lowering->boundary_in);
    note_places(&program->out, VP_SPACE_OUT, lowering->boundary_out);
    return VP_OK;
}

int64_t vp_program_input_offset(const struct vp_program *program,
                                enum vp_role role)
{
    for (int i = 0; i < program->in.n_entries; i++) {
        const struct vp_packet_entry *entry = &program->in.entries[i];

        if (program->graph->values[entry->value].role == role)
            return entry->offset;
    }
    return VP_NONE;
}
