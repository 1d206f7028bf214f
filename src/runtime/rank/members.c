/* Sums and exchanges over the members of a tensor-parallel group.
 *
 * A sum adds in member order and has the same bits on every transport. A group
 * of a transport adds arrays of one length and gives each member the same slice
 * every time, so there is one group for each length that the models' operators
 * have, created before the first step. */
#include "runtime/rank/members.h"

#include "graph/opdef.h"
#include "runtime/rank/internal.h"
#include "runtime/rank/watch.h"
#include "runtime/stage/stage_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- Calls of programs -------------------------------------------------- */

static struct vp_group *find_sum(const struct vp_rank *rank, int64_t n,
                                 int64_t slice)
{
    const struct vp_pipeline *pipeline = rank->pipeline;

    for (int i = 0; i < pipeline->n_sum_lengths; i++)
        if (pipeline->sum_lengths[i].n == n &&
            pipeline->sum_lengths[i].slice == slice)
            return pipeline->member_links[rank->group].sums[i];
    vp_bug(__FILE__, __LINE__, "a sum of a length that no operator has");
}

/* Marks the rank as waiting for the next member, for reports of other
 * processes. The marks of waiting members lead around the group to the one that
 * does not wait. Members may also meet within a longer wait, of replicas that
 * own shards: that wait continues. */
static int begin_wait(struct vp_rank *rank, const struct vp_op *op)
{
    int n = rank->pipeline->n_members;
    int next = rank->group * n + (rank->member + 1) % n;

    atomic_store(&rank->waits_in, (uintptr_t)op);
    rank->in_longer_wait = vp_watch_is_waiting(rank);
    if (!rank->in_longer_wait)
        vp_watch_begin_wait(rank);
    return vp_blackbox_set_peer(rank->blackbox,
                                vp_rank_number(rank->pipeline, next));
}

static void end_wait(struct vp_rank *rank, int peer, enum vp_status st)
{
    if (!rank->in_longer_wait)
        vp_watch_end_wait(rank, st);
    rank->team_status = st;
    if (st != VP_OK)
        return;
    vp_blackbox_set_peer(rank->blackbox, peer);
    atomic_store(&rank->waits_in, 0);
}

static void add_in(struct vp_rank *rank, struct vp_group *group,
                   const struct vp_op *op, float *data, int64_t n)
{
    int peer;

    if (rank->team_status != VP_OK)
        return;
    rank->sum_term = (struct vp_term){ data, rank->member, false };
    peer = begin_wait(rank, op);
    end_wait(rank, peer,
             vp_group_add(group, rank->member, &rank->sum_term, 1, n,
                          limit_of(rank)));
}

static void add(void *ctx, const struct vp_op *op, float *data, int64_t n)
{
    add_in(ctx, find_sum(ctx, n, 0), op, data, n);
}

static void reduce_scatter(void *ctx, const struct vp_op *op, float *data,
                           int64_t n, int64_t slice)
{
    add_in(ctx, find_sum(ctx, n, slice), op, data, n);
}

/* Returns the end of the slice of `member` in an array of n. */
static int64_t end_of_slice(int member, int64_t n, int64_t slice)
{
    int64_t end = (member + 1) * slice;

    return end < n ? end : n;
}

static void all_gather(void *ctx, const struct vp_op *op, const void *mine,
                       void *all, int64_t n, int64_t slice)
{
    struct vp_rank *rank = ctx;
    struct vp_group *group = rank->pipeline->member_links[rank->group].exchange;
    struct vp_gather gather = { .mine = mine,
                                .all = all,
                                .ends = rank->slice_ends,
                                .receiver = -1,
                                .taken = true };
    int peer;

    if (rank->team_status != VP_OK)
        return;
    for (int t = 0; t < rank->pipeline->n_members; t++)
        rank->slice_ends[t] = end_of_slice(t, n, slice);
    peer = begin_wait(rank, op);
    vp_group_gather(group, rank->member, &gather);
    end_wait(rank, peer,
             vp_group_end_gather(group, rank->member, limit_of(rank)));
}

static void exchange(void *ctx, const struct vp_op *op, const void *mine,
                     size_t n_bytes, void *all)
{
    struct vp_rank *rank = ctx;
    int peer;

    if (rank->team_status != VP_OK)
        return;
    peer = begin_wait(rank, op);
    end_wait(
        rank, peer,
        vp_group_exchange(rank->pipeline->member_links[rank->group].exchange,
                          rank->member, mine, n_bytes, all, limit_of(rank)));
}

/* Gathers from device to device. The wait counts as waiting for the device. */
static enum vp_status gather(void *ctx, const struct vp_op *op,
                             const void *mine, size_t n_bytes, void *all,
                             void *stream)
{
    struct vp_rank *rank = ctx;

    (void)op;
    if (rank->team_status == VP_OK)
        rank->team_status = vp_group_gather_direct(
            rank->pipeline->member_links[rank->group].gather, mine, n_bytes,
            all, stream);
    return rank->team_status;
}

static enum vp_status status(void *ctx)
{
    const struct vp_rank *rank = ctx;

    return rank->team_status;
}

/* ---- Norms -------------------------------------------------------------- */

enum vp_status vp_members_add(struct vp_rank *rank, double *blocks, int n)
{
    const struct vp_members *members = &rank->members;

    if (members->n <= 1)
        return VP_OK;
    members->exchange(members->ctx, NULL, blocks, (size_t)n * sizeof(*blocks),
                      rank->all);
    VP_TRY(rank->team_status);
    for (int b = 0; b < n; b++) {
        blocks[b] = 0.0;
        for (int k = 0; k < members->n; k++)
            blocks[b] += rank->all[(size_t)k * (size_t)n + (size_t)b];
    }
    return VP_OK;
}

/* ---- Gradients ---------------------------------------------------------- */

/* Copies the gradients of which this member has a part to `packed`, or back. */
static void pack(const struct vp_stage *stage, float *packed, bool back)
{
    const struct vp_program *program = &stage->plan.train[0];

    for (int i = 0; i < program->layout.n_entries; i++) {
        vp_par par = program->layout.entries[i].par;
        const struct vp_param *param = &program->graph->params[par];
        size_t n = (size_t)(param->rows * param->cols);

        if (!param->partial_grad)
            continue;
        memcpy(back ? vp_stage_grad(stage, i) : packed,
               back ? packed : vp_stage_grad(stage, i), n * sizeof(*packed));
        packed += n;
    }
}

enum vp_status vp_members_add_grads(struct vp_rank *rank)
{
    struct vp_group **groups =
        rank->members.n > 1 ? rank->pipeline->member_links[rank->group].grads
                            : NULL;

    for (int s = 0; groups && s < rank->n_stages; s++) {
        const struct vp_stage *stage = &rank->stages[s].stage;
        int64_t n = stage->plan.train[0].layout.n_partial;

        if (n == 0)
            continue;
        pack(stage, stage->work, false);
        add_in(rank, groups[s], NULL, stage->work, n);
        VP_TRY(rank->team_status);
        pack(stage, stage->work, true);
    }
    return VP_OK;
}

/* ---- Links -------------------------------------------------------------- */

/* Adds the length of a sum over `value`, or of the slice that a member gets. */
static void note_length(struct vp_pipeline *pipeline,
                        const struct vp_value *value)
{
    struct vp_sum_length length = { .n = value->whole_rows * value->cols };

    if (value->spread == VP_SPREAD_ROWS)
        length.slice = value->rows * value->cols;
    for (int i = 0; i < pipeline->n_sum_lengths; i++)
        if (pipeline->sum_lengths[i].n == length.n &&
            pipeline->sum_lengths[i].slice == length.slice)
            return;
    pipeline->sum_lengths[pipeline->n_sum_lengths++] = length;
}

/* Finds the lengths of all sums in forward and backward programs. */
static enum vp_status find_lengths(struct vp_pipeline *pipeline)
{
    const struct vp_train_config *config = pipeline->config;
    size_t most = 1;

    for (int g = 0; g < config->n_graphs; g++)
        most += 2 * (size_t)config->graphs[g].n_ops;
    pipeline->sum_lengths = calloc(most, sizeof(*pipeline->sum_lengths));
    if (!pipeline->sum_lengths)
        return VP_ERR_NOMEM;
    for (int g = 0; g < config->n_graphs; g++) {
        const struct vp_graph *graph = &config->graphs[g];

        for (int i = 0; i < graph->n_ops; i++) {
            const struct vp_op *op = &graph->ops[i];

            if (op->kind == VP_OP_GROUP_SUM || op->kind == VP_OP_REDUCE_SCATTER)
                note_length(pipeline, &graph->values[op->out]);
            if (op->kind == VP_OP_ALL_GATHER || vp_op_sums_gradient(graph, op))
                note_length(pipeline, &graph->values[op->in[0]]);
        }
    }
    return VP_OK;
}

/* Returns the maximum bytes of LAMB's sums for all tensors of a stage. */
static size_t squares_bytes(const struct vp_graph *graph)
{
    size_t n = 0;

    for (vp_par par = 0; par < graph->n_params; par++)
        n += (size_t)graph->params[par].n_parts;
    return n * 2 * sizeof(double);
}

/* Returns the maximum bytes that a member contributes to an exchange: four
 * numbers per row of logits, sums of blocks or of tensors, or a piece of a
 * tensor that is saved; for a device with its own memory also a piece of a
 * value. */
static size_t exchange_bytes(const struct vp_train_config *config)
{
    enum { ROW_BYTES = 64 };
    size_t most = VP_SAVE_PIECE * sizeof(float), n;

    if (!config->backend->device->host_memory && most < VP_EXCHANGE_BYTES)
        most = VP_EXCHANGE_BYTES;
    for (int g = 0; g < config->n_graphs; g++) {
        const struct vp_graph *graph = &config->graphs[g];

        n = (size_t)graph->values[graph->logits].rows * ROW_BYTES;
        most = n > most ? n : most;
        n = (size_t)graph->n_blocks * sizeof(double);
        most = n > most ? n : most;
        n = squares_bytes(graph);
        most = n > most ? n : most;
    }
    return most;
}

/* Each member gets its own slice of the sum. */
static enum vp_status set_slices(struct vp_group *group,
                                 const struct vp_sum_length *length,
                                 int n_members)
{
    struct vp_sum_part *parts = calloc((size_t)n_members, sizeof(*parts));
    enum vp_status st = VP_ERR_NOMEM;
    int n = 0;

    for (int t = 0; parts && t < n_members; t++) {
        int64_t end = end_of_slice(t, length->n, length->slice);

        if (n == 0 || end > parts[n - 1].end)
            parts[n++] = (struct vp_sum_part){ end, t };
    }
    if (parts)
        st = vp_group_set_parts(group, parts, n);
    free(parts);
    return st;
}

static enum vp_status connect_sums(struct vp_pipeline *pipeline,
                                   struct vp_member_links *links,
                                   const int *ranks)
{
    for (int i = 0; i < pipeline->n_sum_lengths; i++) {
        const struct vp_sum_length *length = &pipeline->sum_lengths[i];

        VP_TRY(vp_group_create(pipeline->world, ranks, pipeline->n_members, 0,
                               &links->sums[i]));
        if (length->slice > 0 && links->sums[i])
            VP_TRY(set_slices(links->sums[i], length, pipeline->n_members));
    }
    return VP_OK;
}

/* Creates one group for each stage of the ranks. */
static enum vp_status connect_grads(struct vp_pipeline *pipeline,
                                    struct vp_member_links *links,
                                    const int *ranks, int n_stages)
{
    if (!pipeline->config->graphs[0].sequence_parallel)
        return VP_OK;
    links->grads = calloc((size_t)n_stages + 1, sizeof(struct vp_group *));
    if (!links->grads)
        return VP_ERR_NOMEM;
    for (int s = 0; s < n_stages; s++)
        VP_TRY(vp_group_create(pipeline->world, ranks, pipeline->n_members, 0,
                               &links->grads[s]));
    return VP_OK;
}

/* Returns true if all devices of the group can access each other. */
static bool are_direct(const struct vp_pipeline *pipeline, int group)
{
    int n = pipeline->n_members, first = group * n;

    for (int a = first; pipeline->config->world && a < first + n; a++)
        for (int b = first; b < a; b++)
            if (!vp_world_is_direct(pipeline->config->world, a, b))
                return false;
    return pipeline->config->world != NULL;
}

static enum vp_status connect_members(struct vp_pipeline *pipeline, int group,
                                      int n_stages)
{
    struct vp_member_links *links = &pipeline->member_links[group];
    int n = pipeline->n_members;
    int *ranks = calloc((size_t)n, sizeof(*ranks));
    enum vp_status st = VP_ERR_NOMEM;

    links->sums = calloc((size_t)pipeline->n_sum_lengths + 1,
                         sizeof(struct vp_group *));
    for (int t = 0; ranks && t < n; t++)
        ranks[t] = group * n + t;
    if (ranks && links->sums)
        st = vp_group_create(pipeline->world, ranks, n,
                             exchange_bytes(pipeline->config),
                             &links->exchange);
    if (st == VP_OK)
        st = connect_sums(pipeline, links, ranks);
    if (st == VP_OK)
        st = connect_grads(pipeline, links, ranks, n_stages);
    if (st == VP_OK && are_direct(pipeline, group))
        st = vp_direct_gather_create(pipeline->world, ranks, n, &links->gather);
    free(ranks);
    return st;
}

static bool are_apart(const struct vp_pipeline *pipeline, int group)
{
    int first = group * pipeline->n_members;

    return pipeline->config->world &&
           vp_world_is_apart(pipeline->config->world, first, first + 1);
}

enum vp_status vp_members_connect(struct vp_pipeline *pipeline,
                                  struct vp_rank *ranks)
{
    int n_groups = pipeline->n_ranks / pipeline->n_members;

    if (pipeline->n_members == 1)
        return VP_OK;
    VP_TRY(find_lengths(pipeline));
    pipeline->member_links = calloc((size_t)n_groups,
                                    sizeof(*pipeline->member_links));
    if (!pipeline->member_links)
        return VP_ERR_NOMEM;
    for (int g = 0; g < n_groups; g++)
        VP_TRY(connect_members(pipeline, g,
                               ranks[g * pipeline->n_members].n_stages));
    for (int r = 0; r < pipeline->n_ranks; r++) {
        struct vp_rank *rank = &ranks[r];

        if (!rank->is_here)
            continue;
        rank->slice_ends = calloc((size_t)pipeline->n_members,
                                  sizeof(*rank->slice_ends));
        if (!rank->slice_ends)
            return VP_ERR_NOMEM;
        rank->members = (struct vp_members){
            .n = pipeline->n_members,
            .me = rank->member,
            .ctx = rank,
            .sum = add,
            .exchange = exchange,
            .status = status,
            .reduce_scatter = reduce_scatter,
            .all_gather = all_gather,
            .gather = pipeline->member_links[rank->group].gather ? gather
                                                                 : NULL,
            .timeout_ms = pipeline->config->timeout_ms
        };
        for (int i = 0; i < rank->n_stages; i++) {
            rank->stages[i].stage.members = &rank->members;
            rank->stages[i].stage.members_apart = are_apart(pipeline,
                                                            rank->group);
        }
    }
    return VP_OK;
}

void vp_members_release(struct vp_pipeline *pipeline)
{
    int n = pipeline->n_members > 0 ? pipeline->n_ranks / pipeline->n_members
                                    : 0;

    for (int g = 0; pipeline->member_links && g < n; g++) {
        free(pipeline->member_links[g].sums);
        free(pipeline->member_links[g].grads);
    }
    free(pipeline->member_links);
    free(pipeline->sum_lengths);
}
