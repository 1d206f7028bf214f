/* Computes ranks, indices, weight versions and required actions from the
 * parameters of a schedule, and manages its memory. */
#include "sched/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Questions ---------------------------------------------------------- */

int vp_schedule_rank_of(const struct vp_schedule *schedule, int stage, int mb)
{
    const struct vp_schedule_stage *s = &schedule->stages[stage];

    return s->first_rank + mb % s->n_replicas;
}

int vp_schedule_own_index(const struct vp_schedule *schedule, int stage, int mb)
{
    return (mb - schedule->segment_begin) / schedule->stages[stage].n_replicas;
}

int vp_schedule_version_of(const struct vp_schedule *schedule, int stage,
                           int mb)
{
    const struct vp_schedule_stage *s = &schedule->stages[stage];
    int ahead = 0;

    if (s->update_every > 0)
        ahead = (mb - schedule->segment_begin) / s->update_every -
                s->version_lag;
    return s->version_begin +
           (ahead > -s->version_past ? ahead : -s->version_past);
}

void vp_schedule_explain(const struct vp_schedule *schedule, char *text,
                         size_t n_bytes)
{
    const char *name = schedule->name;

    text[0] = '\0';
    if (schedule->fallback == VP_FALLBACK_FEW_MB)
        snprintf(text, n_bytes,
                 "by the greedy rule: those of %s need at least %d minibatches",
                 name, schedule->least_mb);
    if (schedule->fallback == VP_FALLBACK_MEMORY)
        snprintf(text, n_bytes,
                 "by the greedy rule: those of %s keep more than %d chunks",
                 name, schedule->keeps);
}

int vp_schedule_n_dropped(const struct vp_schedule *schedule, int stage)
{
    int every = schedule->stages[stage].update_every;

    if (every == 0 || !schedule->drain)
        return 0;
    return (schedule->first_mb + schedule->n_mb - schedule->segment_begin) %
           every;
}

int vp_schedule_depth(const int *replicas, int n_stages, int stage)
{
    int n_ranks = 0, before = 0;

    for (int s = 0; s < n_stages; s++) {
        n_ranks += replicas ? replicas[s] : 1;
        if (s < stage)
            before += replicas ? replicas[s] : 1;
    }
    return (n_ranks - 1 - before) / (replicas ? replicas[stage] : 1);
}

/* The first backward of a stage of depth W and R replicas waits for W R more
 * forwards, its update for the rest of the round, which has at most the largest
 * R (W + 1) minibatches. Later rounds repeat these waits. */
int64_t vp_schedule_proof_mb(const int *replicas, const int *depth,
                             int n_stages)
{
    int64_t most = 0;

    for (int s = 0; s < n_stages; s++) {
        int64_t n = (replicas ? replicas[s] : 1) * ((int64_t)depth[s] + 1);

        most = n > most ? n : most;
    }
    return 2 * most + 1;
}

/* ---- Nodes -------------------------------------------------------------- */

/* Returns the number of minibatches of the segment before `limit` that run on
 * the node. */
static int count_own(const struct vp_schedule *schedule,
                     const struct vp_node *node, int limit)
{
    int n_replicas = schedule->stages[node->stage].n_replicas;

    if (limit <= node->first_mb)
        return 0;
    return (limit - node->first_mb + n_replicas - 1) / n_replicas;
}

/* Forward i is followed by backward i - depth; draining runs the others. */
static struct vp_sched_range backward_range(const struct vp_schedule *schedule,
                                            const struct vp_node *node)
{
    struct vp_sched_range f = node->range[VP_ACTION_F], b;
    int depth = schedule->stages[node->stage].depth;

    b.begin = f.begin > depth ? f.begin - depth : 0;
    b.end = f.end > depth ? f.end - depth : 0;
    if (schedule->drain)
        b.end = f.end;
    return b;
}

/* Swapped values of F i are on the host before F i + n_swap_out; draining waits
 * for the others. B i is followed by the SWAP_IN of i + n_swap_in; earlier
 * indices are copied in before the first B. */
static void fill_swap_ranges(const struct vp_schedule *schedule,
                             struct vp_node *node)
{
    const struct vp_schedule_stage *s = &schedule->stages[node->stage];
    struct vp_sched_range *range = node->range;
    struct vp_sched_range f = range[VP_ACTION_F], b = range[VP_ACTION_B];
    struct vp_sched_range freed = { f.begin - s->n_swap_out,
                                    f.end - s->n_swap_out };
    struct vp_sched_range in = { b.begin > 0 ? b.begin + s->n_swap_in : 0,
                                 b.end > 0 ? b.end + s->n_swap_in : 0 };

    range[VP_ACTION_SWAP_OUT] = f;
    range[VP_ACTION_SWAP_READY] = b;
    freed.begin = freed.begin > 0 ? freed.begin : 0;
    freed.end = schedule->drain ? f.end : freed.end > 0 ? freed.end : 0;
    range[VP_ACTION_SWAP_FREE] = freed;
    if (schedule->drain)
        in.end = f.end;
    in.begin = in.begin < in.end ? in.begin : in.end;
    range[VP_ACTION_SWAP_IN] = in;
}

/* One update for every round that has all its gradients. A round that is not
 * full at the end of the segment is dropped by all replicas. */
static struct vp_sched_range update_range(const struct vp_schedule *schedule,
                                          const struct vp_node *node)
{
    struct vp_sched_range b = node->range[VP_ACTION_B], update = { 0, 0 };
    int end = schedule->drain ? schedule->first_mb + schedule->n_mb
                              : schedule->segment_end;
    int every = schedule->stages[node->stage].update_every;

    if (schedule->first_mb > schedule->segment_begin)
        update.begin = vp_node_rounds(schedule, node, b.begin);
    update.end = vp_node_rounds(schedule, node, b.end);
    if (end > 0 && update.end > (end - schedule->segment_begin) / every)
        update.end = (end - schedule->segment_begin) / every;
    if (update.begin > update.end)
        update.begin = update.end;
    return update;
}

static void fill_ranges(const struct vp_schedule *schedule,
                        struct vp_node *node)
{
    const struct vp_schedule_stage *s = &schedule->stages[node->stage];
    bool first = node->stage == 0;
    bool last = node->stage == schedule->n_stages - 1;
    struct vp_sched_range *range = node->range;

    range[VP_ACTION_F].begin = count_own(schedule, node, schedule->first_mb);
    range[VP_ACTION_F].end = count_own(schedule, node,
                                       schedule->first_mb + schedule->n_mb);
    if (!first)
        range[VP_ACTION_RECV_ACT] = range[VP_ACTION_F];
    if (!last)
        range[VP_ACTION_SEND_ACT] = range[VP_ACTION_F];
    if (schedule->forward_only)
        return;
    range[VP_ACTION_B] = backward_range(schedule, node);
    if (s->recompute)
        range[VP_ACTION_R] = range[VP_ACTION_B];
    if (schedule->split)
        range[VP_ACTION_W] = range[VP_ACTION_B];
    if (s->n_swap_out > 0)
        fill_swap_ranges(schedule, node);
    if (!first)
        range[VP_ACTION_SEND_GRAD] = range[VP_ACTION_B];
    if (!last)
        range[VP_ACTION_RECV_GRAD] = range[VP_ACTION_B];
    if (s->update_every > 0)
        range[VP_ACTION_UPDATE] = update_range(schedule, node);
    if (vp_schedule_reduces(schedule, node->stage))
        range[VP_ACTION_REDUCE] = range[VP_ACTION_UPDATE];
}

struct vp_nodes vp_nodes_make(const struct vp_schedule *schedule)
{
    struct vp_nodes nodes = { .n = 0 };
    int begin = schedule->segment_begin;

    for (int s = 0; s < schedule->n_stages; s++)
        nodes.n += schedule->stages[s].n_replicas;
    nodes.at = calloc((size_t)nodes.n, sizeof(*nodes.at));
    nodes.first = calloc((size_t)schedule->n_stages, sizeof(*nodes.first));
    if (!nodes.at || !nodes.first) {
        vp_nodes_release(&nodes);
        return nodes;
    }
    nodes.n = 0;
    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_schedule_stage *stage = &schedule->stages[s];
        int n_replicas = stage->n_replicas;

        nodes.first[s] = nodes.n;
        for (int r = 0; r < n_replicas; r++) {
            struct vp_node *node = &nodes.at[nodes.n++];
            int ahead = (r - begin % n_replicas + n_replicas) % n_replicas;

            node->stage = s;
            node->replica = r;
            node->rank = stage->first_rank + r;
            node->first_mb = begin + ahead;
            fill_ranges(schedule, node);
        }
    }
    return nodes;
}

void vp_nodes_release(struct vp_nodes *nodes)
{
    free(nodes->at);
    free(nodes->first);
    *nodes = (struct vp_nodes){ .n = 0 };
}

/* ---- Memory ------------------------------------------------------------- */

enum vp_status vp_schedule_map_ranks(struct vp_schedule *schedule)
{
    int *stages, n = 0;

    for (int s = 0; s < schedule->n_stages; s++)
        n += schedule->stages[s].n_replicas;
    stages = calloc((size_t)n, sizeof(*stages));
    schedule->ranks = calloc((size_t)schedule->n_ranks,
                             sizeof(*schedule->ranks));
    if (!stages || !schedule->ranks) {
        free(stages);
        return VP_ERR_NOMEM;
    }
    n = 0;
    schedule->ranks[0].stages = stages; /* owns it; the others point into it */
    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        struct vp_rank_list *list = &schedule->ranks[rank];

        list->stages = &stages[n];
        for (int s = 0; s < schedule->n_stages; s++) {
            const struct vp_schedule_stage *stage = &schedule->stages[s];

            if (rank >= stage->first_rank &&
                rank < stage->first_rank + stage->n_replicas) {
                stages[n++] = s;
                list->n_stages++;
            }
        }
    }
    return VP_OK;
}

enum vp_status vp_schedule_take(struct vp_schedule *schedule,
                                struct vp_sched_list *lists)
{
    int64_t n = 0;
    int at = 0;

    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        if (lists[rank].failed)
            return VP_ERR_NOMEM;
        n += lists[rank].n;
    }
    if (n > INT32_MAX)
        return VP_ERR_NOMEM;
    schedule->actions = calloc(n > 0 ? (size_t)n : 1,
                               sizeof(*schedule->actions));
    if (!schedule->actions)
        return VP_ERR_NOMEM;
    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        struct vp_rank_list *list = &schedule->ranks[rank];

        list->actions = &schedule->actions[at];
        list->n_actions = lists[rank].n;
        if (list->n_actions > 0)
            memcpy(list->actions, lists[rank].at,
                   (size_t)list->n_actions * sizeof(*list->actions));
        at += list->n_actions;
        vp_sched_list_release(&lists[rank]);
    }
    schedule->n_actions = at;
    return VP_OK;
}

void vp_schedule_release(struct vp_schedule *schedule)
{
    if (schedule->ranks)
        free(schedule->ranks[0].stages);
    free(schedule->ranks);
    free(schedule->stages);
    free(schedule->actions);
    *schedule = (struct vp_schedule){ .actions = NULL };
}

/* ---- Lists -------------------------------------------------------------- */

void vp_sched_list_push(struct vp_sched_list *list, struct vp_action action)
{
    if (list->failed)
        return;
    if (list->n == list->capacity) {
        int capacity = list->capacity > 0 ? 2 * list->capacity : 64;
        struct vp_action *at = list->capacity <= INT32_MAX / 4
                                   ? realloc(list->at,
                                             (size_t)capacity * sizeof(*at))
                                   : NULL;

        if (!at) {
            list->failed = true;
            return;
        }
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->n++] = action;
}

void vp_sched_list_release(struct vp_sched_list *list)
{
    free(list->at);
    *list = (struct vp_sched_list){ .at = NULL };
}
