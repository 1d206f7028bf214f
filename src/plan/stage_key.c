/* Hashes all that lowering reads, by distances in place of positions: an input
 * by the number of operators since it was computed, a parameter by its number
 * within its block. Values that are read far away are hashed by their
 * number. */
#include "plan/stage_key.h"

#include <stdlib.h>
#include <string.h>

/* Hashes per block, and per cut: before each block, and after the last. */
struct graph_keys {
    const struct vp_graph *graph;
    struct vp_stage_key *blocks, *cuts; /* cuts: n_blocks + 1 */
};

struct vp_stage_keys {
    struct graph_keys *graphs;
    int n_graphs;
};

/* ---- Hashing ------------------------------------------------------------ */

static uint64_t mix(uint64_t state, uint64_t word, uint64_t odd)
{
    state = (state ^ word) * odd;
    return state ^ (state >> 29);
}

static void add(struct vp_stage_key *key, uint64_t word)
{
    key->low = mix(key->low, word, UINT64_C(0x9e3779b97f4a7c15));
    key->high = mix(key->high + word, word >> 32 | word << 32,
                    UINT64_C(0xc2b2ae3d27d4eb4f));
}

static void add_int(struct vp_stage_key *key, int64_t n)
{
    add(key, (uint64_t)n);
}

static void add_real(struct vp_stage_key *key, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    add(key, bits);
}

static void add_key(struct vp_stage_key *key, struct vp_stage_key part)
{
    add(key, part.low);
    add(key, part.high);
}

static struct vp_stage_key start(void)
{
    return (struct vp_stage_key){ 1, 2 };
}

/* ---- Operators ---------------------------------------------------------- */

/* Returns true for model inputs and for values that many blocks read, like the
 * output of an encoder: their distance grows from block to block. */
static bool is_far(const struct vp_graph *graph, const struct vp_value *value)
{
    enum { NEAR = 2 }; /* blocks */

    return value->producer == VP_NONE ||
           (value->last_reader != VP_NONE &&
            graph->ops[value->last_reader].block -
                    graph->ops[value->producer].block >
                NEAR);
}

/* Adds a value as seen from operator or cut `at`. */
static void add_value(struct vp_stage_key *key, const struct vp_graph *graph,
                      vp_val v, int at)
{
    const struct vp_value *value;

    if (v == VP_NONE) {
        add_int(key, -1);
        return;
    }
    value = &graph->values[v];
    add_int(key, vp_value_bytes(graph, v));
    add_int(key, (int64_t)value->dtype * 128 + (int64_t)value->role * 4 +
                     value->persists * 2 + value->needs_grad);
    if (is_far(graph, value)) {
        add_int(key, v);
        return;
    }
    add_int(key, at - value->producer);
    add_int(key, v - graph->ops[value->producer].out);
    add_int(key, value->n_readers);
    add_int(key, value->last_reader == VP_NONE
                     ? -1
                     : value->last_reader - value->producer);
    add_int(key, vp_graph_is_output(graph, v) * 4 + (v == graph->loss) * 2 +
                     (v == graph->logits));
}

static void add_attr(struct vp_stage_key *key, const struct vp_attr *attr)
{
    add_real(key, (double)attr->scale);
    add_real(key, (double)attr->eps);
    add_real(key, (double)attr->p);
    add_real(key, (double)attr->smoothing);
    add_int(key, attr->act);
    add_int(key, attr->causal);
    add_int(key, attr->pad);
    add_int(key, attr->heads);
    add_int(key, attr->batch);
    add_int(key, attr->q_len);
    add_int(key, attr->k_len);
    add_int(key, attr->n_lines);
}

static void add_op(struct vp_stage_key *key, const struct vp_graph *graph,
                   int i, vp_par first_par)
{
    const struct vp_op *op = &graph->ops[i];

    add_int(key, op->kind);
    for (int k = 0; k < VP_MAX_IN; k++)
        add_value(key, graph, op->in[k], i);
    add_value(key, graph, op->out, i);
    for (int k = 0; k < VP_MAX_AUX; k++)
        add_value(key, graph, op->aux[k], i);
    for (int k = 0; k < VP_MAX_PARAM; k++)
        add_int(key, op->par[k] == VP_NONE ? -1 : op->par[k] - first_par);
    add_attr(key, &op->attr);
}

/* ---- Blocks and cuts ---------------------------------------------------- */

static void add_param(struct vp_stage_key *key, const struct vp_graph *graph,
                      vp_par par)
{
    const struct vp_param *param = &graph->params[par];

    add_int(key, param->rows);
    add_int(key, param->cols);
    add_int(key,
            param->partial_grad * 4 + param->constant * 2 + param->has_copies);
    add_int(key, param->n_parts);
    add_int(key, param->tied_to == VP_NONE ? 0 : par - param->tied_to);
}

/* The values that cross a cut, while the cut advances through the model. */
struct crossing {
    vp_val *at;
    int n;
};

static void add_crossing(struct crossing *crossing, vp_val v)
{
    if (v != VP_NONE)
        crossing->at[crossing->n++] = v;
}

/* Moves the cut from operator `first` to before operator `cut`. */
static void advance(struct crossing *crossing, const struct vp_graph *graph,
                    int first, int cut)
{
    int n = 0;

    for (int i = first; i < cut; i++) {
        add_crossing(crossing, graph->ops[i].out);
        for (int k = 0; k < VP_MAX_AUX; k++)
            add_crossing(crossing, graph->ops[i].aux[k]);
    }
    for (int i = 0; i < crossing->n; i++)
        if (graph->values[crossing->at[i]].last_reader >= cut)
            crossing->at[n++] = crossing->at[i];
    crossing->n = n;
}

static struct vp_stage_key cut_key(const struct vp_graph *graph,
                                   const struct crossing *crossing, int cut)
{
    struct vp_stage_key key = start();

    for (int i = 0; i < crossing->n; i++)
        add_value(&key, graph, crossing->at[i], cut);
    return key;
}

static struct vp_stage_key block_key(const struct vp_graph *graph, int b,
                                     vp_par first_par, vp_par end_par)
{
    const struct vp_block *block = &graph->blocks[b];
    struct vp_stage_key key = start();

    for (int i = 0; i < block->n_ops; i++)
        add_op(&key, graph, block->first_op + i, first_par);
    for (vp_par par = first_par; par < end_par; par++)
        add_param(&key, graph, par);
    return key;
}

/* Relies on the parameters of a block having consecutive numbers. */
static void fill(struct graph_keys *keys, struct crossing *crossing)
{
    const struct vp_graph *graph = keys->graph;
    vp_par par = 0;

    for (vp_val v = 0; v < graph->n_values; v++)
        if (graph->values[v].producer == VP_NONE)
            add_crossing(crossing, v);
    for (int b = 0; b < graph->n_blocks; b++) {
        const struct vp_block *block = &graph->blocks[b];
        int end_op = block->first_op + block->n_ops;
        vp_par first = par;

        if (b == 0) {
            advance(crossing, graph, 0, block->first_op);
            keys->cuts[0] = cut_key(graph, crossing, block->first_op);
        }
        while (par < graph->n_params && graph->params[par].block <= b)
            par++;
        keys->blocks[b] = block_key(graph, b, first, par);
        advance(crossing, graph, block->first_op, end_op);
        keys->cuts[b + 1] = cut_key(graph, crossing, end_op);
    }
}

static enum vp_status make_keys(struct graph_keys *keys)
{
    size_t n = (size_t)keys->graph->n_blocks + 1;
    struct crossing crossing = { .at = calloc((size_t)keys->graph->n_values + 1,
                                              sizeof(vp_val)) };

    keys->blocks = calloc(n, sizeof(*keys->blocks));
    keys->cuts = calloc(n, sizeof(*keys->cuts));
    if (!keys->blocks || !keys->cuts || !crossing.at) {
        free(crossing.at);
        return VP_ERR_NOMEM;
    }
    fill(keys, &crossing);
    free(crossing.at);
    return VP_OK;
}

enum vp_status vp_stage_keys_create(const struct vp_workload *work,
                                    struct vp_stage_keys **out)
{
    struct vp_stage_keys *keys = calloc(1, sizeof(*keys));
    enum vp_status st = VP_OK;

    if (!keys)
        return VP_ERR_NOMEM;
    keys->n_graphs = work->n_graphs;
    keys->graphs = calloc((size_t)work->n_graphs, sizeof(*keys->graphs));
    for (int g = 0; keys->graphs && g < work->n_graphs && st == VP_OK; g++) {
        keys->graphs[g].graph = &work->graphs[g];
        st = make_keys(&keys->graphs[g]);
    }
    if (!keys->graphs || st != VP_OK) {
        vp_stage_keys_free(keys);
        return VP_ERR_NOMEM;
    }
    *out = keys;
    return VP_OK;
}

void vp_stage_keys_free(struct vp_stage_keys *keys)
{
    if (!keys)
        return;
    for (int g = 0; keys->graphs && g < keys->n_graphs; g++) {
        free(keys->graphs[g].blocks);
        free(keys->graphs[g].cuts);
    }
    free(keys->graphs);
    free(keys);
}

/* ---- Stages ------------------------------------------------------------- */

/* Adds all choices but the numbers of the blocks. */
static void add_choices(struct vp_stage_key *key,
                        const struct vp_stage_choices *choices)
{
    const struct vp_stage_spec *spec = &choices->spec;

    add_int(key, spec->n_blocks);
    add_int(key, choices->n_first_slots > 0);
    for (int b = 0; b < spec->n_blocks && choices->n_first_slots > 0; b++) {
        add(key, choices->first_recompute ? choices->first_recompute[b] : 0);
        add(key, choices->first_swap ? choices->first_swap[b] : 0);
    }
    for (int b = 0; b < spec->n_blocks; b++)
        add(key, spec->recompute ? spec->recompute[b] : 0);
    for (int b = 0; b < spec->n_blocks && spec->swap; b++)
        add(key, spec->swap[b]);
    for (int b = 0; b < spec->n_blocks && spec->bases; b++)
        add_int(key, spec->bases[b]);
    add_int(key, spec->keep_gathered * 128 + spec->forward_only * 64 +
                     (spec->swap != NULL) * 32 + spec->w_recomputed * 16 +
                     spec->recompute_in_b * 8 + spec->keep_all * 4 +
                     spec->split_w * 2 + spec->one_slot);
    add_int(key, spec->bundle_bytes);
    add_int(key, spec->w_linger);
    add_int(key, spec->grad_linger);
    add_int(key, choices->n_shards);
}

struct vp_stage_key vp_stage_key_block(const struct vp_stage_keys *keys,
                                       int block)
{
    return keys->graphs[0].blocks[block];
}

struct vp_stage_key vp_stage_key_place(const struct vp_stage_choices *choices)
{
    struct vp_stage_key key = start();

    add_int(&key, choices->spec.first_block);
    add_choices(&key, choices);
    return key;
}

struct vp_stage_key vp_stage_key_content(const struct vp_stage_keys *keys,
                                         const struct vp_stage_choices *choices)
{
    const struct vp_stage_spec *spec = &choices->spec;
    struct vp_stage_key key = start();
    int end = spec->first_block + spec->n_blocks;

    add_int(&key, spec->first_block == 0);
    add_choices(&key, choices);
    for (int g = 0; g < keys->n_graphs; g++) {
        const struct graph_keys *of = &keys->graphs[g];

        add_key(&key, of->cuts[spec->first_block]);
        for (int b = spec->first_block; b < end; b++)
            add_key(&key, of->blocks[b]);
        add_key(&key, of->cuts[end]);
    }
    return key;
}
