/* Sums and exchanges over the members of a tensor-parallel group.
 *
 * A sum has one order, that of the members, and the same bits on every transport. A
 * group of a transport adds arrays of one length: there is one for each length that
 * the operators of the models have, made before the first step. */
#include "runtime/rank/members.h"

#include "graph/opdef.h"
#include "runtime/rank/internal.h"
#include "runtime/rank/watch.h"
#include "runtime/stage/stage_state.h"

#include <stdlib.h>

/* ---- What programs call ------------------------------------------------- */

static struct vp_group *find_sum(const struct vp_rank *rank, int64_t n)
{
    const struct vp_pipeline *pipeline = rank->pipeline;

    for (int i = 0; i < pipeline->n_sum_lengths; i++)
        if (pipeline->sum_lengths[i] == n)
            return pipeline->teams[rank->group].sums[i];
    vp_bug(__FILE__, __LINE__, "a sum of a length that no operator has");
}

/* Other processes are told that the rank waits for the next member. Those that wait name
 * each other around the group, up to the one that does not. Members also meet within a
 * longer wait, for replicas that own shards: that one goes on. */
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

static void add(void *ctx, const struct vp_op *op, float *data, int64_t n)
{
    struct vp_rank *rank = ctx;
    int peer;

    if (rank->team_status != VP_OK)
        return;
    rank->sum_term = (struct vp_term){ data, rank->member, false };
    peer = begin_wait(rank, op);
    end_wait(rank, peer,
             vp_group_add(find_sum(rank, n), rank->member, &rank->sum_term, 1,
                          n, limit_of(rank)));
}

static void exchange(void *ctx, const struct vp_op *op, const void *mine,
                     size_t n_bytes, void *all)
{
    struct vp_rank *rank = ctx;
    int peer;

    if (rank->team_status != VP_OK)
        return;
    peer = begin_wait(rank, op);
    end_wait(rank, peer,
             vp_group_exchange(rank->pipeline->teams[rank->group].exchange,
                               rank->member, mine, n_bytes, all,
                               limit_of(rank)));
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

/* ---- Links -------------------------------------------------------------- */

static void note_length(struct vp_pipeline *pipeline,
                        const struct vp_value *value)
{
    int64_t n = value->rows * value->cols;

    for (int i = 0; i < pipeline->n_sum_lengths; i++)
        if (pipeline->sum_lengths[i] == n)
            return;
    pipeline->sum_lengths[pipeline->n_sum_lengths++] = n;
}

/* Of all sums in programs, of forward and of backward. */
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

            if (op->kind == VP_OP_GROUP_SUM)
                note_length(pipeline, &graph->values[op->out]);
            if (vp_op_sums_gradient(graph, op))
                note_length(pipeline, &graph->values[op->in[0]]);
        }
    }
    return VP_OK;
}

/* LAMB's sums of all tensors of a stage, at most. */
static size_t squares_bytes(const struct vp_graph *graph)
{
    size_t n = 0;

    for (vp_par par = 0; par < graph->n_params; par++)
        n += (size_t)graph->params[par].n_parts;
    return n * 2 * sizeof(double);
}

/* The most bytes that a member gives at once: four numbers of each row of logits,
 * sums of blocks or of tensors, a piece of a tensor that is saved. */
static size_t exchange_bytes(const struct vp_train_config *config)
{
    enum { ROW_BYTES = 64 };
    size_t most = VP_SAVE_PIECE * sizeof(float), n;

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

static enum vp_status connect_team(struct vp_pipeline *pipeline, int group)
{
    struct vp_member_links *team = &pipeline->teams[group];
    int n = pipeline->n_members;
    int *ranks = calloc((size_t)n, sizeof(*ranks));
    enum vp_status st = VP_ERR_NOMEM;

    team->sums = calloc((size_t)pipeline->n_sum_lengths + 1,
                        sizeof(struct vp_group *));
    for (int t = 0; ranks && t < n; t++)
        ranks[t] = group * n + t;
    if (ranks && team->sums)
        st = vp_group_create(pipeline->world, ranks, n,
                             exchange_bytes(pipeline->config), &team->exchange);
    for (int i = 0; i < pipeline->n_sum_lengths && st == VP_OK; i++)
        st = vp_group_create(pipeline->world, ranks, n, 0, &team->sums[i]);
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
    pipeline->teams = calloc((size_t)n_groups, sizeof(*pipeline->teams));
    if (!pipeline->teams)
        return VP_ERR_NOMEM;
    for (int g = 0; g < n_groups; g++)
        VP_TRY(connect_team(pipeline, g));
    for (int r = 0; r < pipeline->n_ranks; r++) {
        struct vp_rank *rank = &ranks[r];

        if (!rank->is_here)
            continue;
        rank->members = (struct vp_members){ .n = pipeline->n_members,
                                             .me = rank->member,
                                             .ctx = rank,
                                             .sum = add,
                                             .exchange = exchange,
                                             .status = status };
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

    for (int g = 0; pipeline->teams && g < n; g++)
        free(pipeline->teams[g].sums);
    free(pipeline->teams);
    free(pipeline->sum_lengths);
}
