#include "lib/checked_executor.h"

#include <math.h>
#include <stdlib.h>

enum cx_state { CX_EMPTY, CX_WRITTEN, CX_FULL, CX_RECEIVED };

/* Place of the swapped values of a minibatch. */
enum cx_swap {
    CX_SWAP_HERE, /* in the buffer that F wrote */
    CX_SWAP_LEAVING,
    CX_SWAP_AWAY,
    CX_SWAP_COMING,
    CX_SWAP_BACK, /* in the buffer that backward reads */
};

struct cx_buffer {
    enum cx_state state;
    int expects; /* number of the message that is here, or comes next */
    int mb, from;
};

struct cx_ring {
    struct cx_buffer *at;
    int n, next_receive, next_release;
};

/* Progress of a minibatch at a stage. */
struct cx_mb {
    bool f, r, b, w, added;
    int slot, version;
    enum cx_swap swap;
};

/* A stage on a rank. */
struct cx_node {
    bool used;
    int stage, rank, replica;
    int *slots;    /* minibatch in each slot, or -1 */
    int *versions; /* version in each place of the ring, or -1 */
    int newest;
    struct cx_ring act, grad;
    struct cx_mb *mbs;
    int last[VP_ACTION_KIND_COUNT]; /* last minibatch of each kind, or -1 */
    int n_updates, n_reduced, n_arrived;
    /* Minibatches whose values are in these buffers, or -1. */
    int *redo, *swap_out, *swap_in;
};

struct cx {
    const struct vp_schedule *schedule;
    struct cx_node *nodes; /* [rank * n_stages + stage] */
    int *position;         /* next action of each rank */
    const char *why;       /* reason of a failure */
};

/* ---- Helpers ------------------------------------------------------------ */

static void *cx_alloc(int n, size_t n_bytes)
{
    void *at = calloc((size_t)n + 1, n_bytes);

    if (!at)
        abort();
    return at;
}

static struct cx_node *cx_node(const struct cx *cx, int rank, int stage)
{
    struct cx_node *node;

    if (rank < 0 || rank >= cx->schedule->n_ranks || stage < 0 ||
        stage >= cx->schedule->n_stages)
        return NULL;
    node = &cx->nodes[rank * cx->schedule->n_stages + stage];
    return node->used ? node : NULL;
}

static int cx_rank_of(const struct cx *cx, int stage, int mb)
{
    const struct vp_schedule_stage *s = &cx->schedule->stages[stage];

    return s->first_rank + mb % s->n_replicas;
}

static int cx_round(const struct cx *cx, int stage, int mb)
{
    return (mb - cx->schedule->segment_begin) /
           cx->schedule->stages[stage].update_every;
}

/* Weight versions, as in DESIGN 6: round r runs on v_b + max(0, r - lag),
 * counted from the start of the segment, which may lie up to `past` rounds
 * before the list. */
static int cx_version(const struct cx *cx, int stage, int mb)
{
    const struct vp_schedule_stage *s = &cx->schedule->stages[stage];
    int r = s->update_every > 0 ? cx_round(cx, stage, mb) : 0;

    if (r + s->version_past < s->version_lag)
        return s->version_begin - s->version_past;
    return s->version_begin + r - s->version_lag;
}

static enum cx_result cx_fail(struct cx *cx, const char *why)
{
    cx->why = why;
    return CX_FAIL;
}

static struct cx_mb *cx_mb(const struct cx *cx, struct cx_node *node, int mb)
{
    return &node->mbs[mb - cx->schedule->segment_begin];
}

/* ---- Rings -------------------------------------------------------------- */

static struct cx_buffer *cx_find(struct cx_ring *ring, int mb)
{
    for (int i = 0; i < ring->n; i++)
        if (ring->at[i].state == CX_RECEIVED && ring->at[i].mb == mb)
            return &ring->at[i];
    return NULL;
}

/* Finds the buffer that F or B of `a` writes. Returns CX_WAIT without a
 * credit. */
static enum cx_result cx_acquire(struct cx *cx, const struct vp_action *a,
                                 int to_stage, struct cx_buffer **out)
{
    struct cx_node *to = cx_node(cx, a->peer, to_stage);
    struct cx_ring *ring;

    *out = NULL;
    if (to_stage < 0 || to_stage >= cx->schedule->n_stages)
        return a->peer == -1 && a->msg == -1
                   ? CX_DONE
                   : cx_fail(cx, "a result for nobody");
    if (!to || a->peer != cx_rank_of(cx, to_stage, a->mb) || a->msg < 0)
        return cx_fail(cx, "a result for the wrong rank");
    ring = to_stage > a->stage ? &to->act : &to->grad;
    *out = &ring->at[a->msg % ring->n];
    if ((*out)->state != CX_EMPTY || (*out)->expects != a->msg)
        return CX_WAIT;
    return CX_DONE;
}

static void cx_write(struct cx_buffer *buffer, int rank, int mb)
{
    if (!buffer)
        return;
    buffer->state = CX_WRITTEN;
    buffer->mb = mb;
    buffer->from = rank;
}

static enum cx_result cx_send(struct cx *cx, int rank,
                              const struct vp_action *a, int to_stage,
                              bool done)
{
    struct cx_node *to = cx_node(cx, a->peer, to_stage);
    struct cx_ring *ring;
    struct cx_buffer *buffer;

    if (!done || !to || a->msg < 0)
        return cx_fail(cx, "nothing to send, or to nobody");
    ring = to_stage > a->stage ? &to->act : &to->grad;
    buffer = &ring->at[a->msg % ring->n];
    if (buffer->state != CX_WRITTEN || buffer->expects != a->msg ||
        buffer->mb != a->mb || buffer->from != rank)
        return cx_fail(cx, "sends what is not in the buffer");
    buffer->state = CX_FULL;
    return CX_DONE;
}

static enum cx_result cx_receive(struct cx *cx, struct cx_ring *ring,
                                 const struct vp_action *a)
{
    struct cx_buffer *buffer;

    if (ring->n == 0 || a->msg < 0 || a->msg != ring->next_receive)
        return cx_fail(cx, "receives out of order");
    buffer = &ring->at[a->msg % ring->n];
    if (buffer->state != CX_FULL || buffer->expects != a->msg)
        return CX_WAIT;
    if (buffer->mb != a->mb || buffer->from != a->peer)
        return cx_fail(cx, "receives something else");
    buffer->state = CX_RECEIVED;
    ring->next_receive++;
    return CX_DONE;
}

static enum cx_result cx_release(struct cx *cx, struct cx_ring *ring, int mb)
{
    struct cx_buffer *buffer = cx_find(ring, mb);

    if (!buffer || buffer->expects != ring->next_release)
        return cx_fail(cx, "releases out of order");
    ring->next_release++;
    buffer->state = CX_EMPTY;
    buffer->expects += ring->n;
    return CX_DONE;
}

/* ---- Compute ------------------------------------------------------------ */

static enum cx_result cx_weights(struct cx *cx, struct cx_node *node,
                                 const struct vp_action *a)
{
    int n = cx->schedule->stages[a->stage].n_versions;

    if (a->version < 0 || node->versions[a->version % n] != a->version)
        return cx_fail(cx, "the weights are not there");
    if (a->version != cx_version(cx, a->stage, a->mb))
        return cx_fail(cx, "wrong weights");
    return CX_DONE;
}

/* ---- Buffers of recomputed and swapped values --------------------------- */

/* Returns the buffer that the minibatch must use, NULL if the stage has
 * none. */
static int *cx_buffer_of(const struct cx *cx, const struct vp_action *a,
                         int *buffers, int n)
{
    int n_replicas = cx->schedule->stages[a->stage].n_replicas;
    int own = (a->mb - cx->schedule->segment_begin) / n_replicas;

    return n > 0 ? &buffers[own % n] : NULL;
}

static void cx_forget(int *buffers, int n, int mb)
{
    for (int i = 0; i < n; i++)
        if (buffers[i] == mb)
            buffers[i] = -1;
}

static bool cx_has(const int *buffers, int n, int mb)
{
    for (int i = 0; i < n; i++)
        if (buffers[i] == mb)
            return true;
    return false;
}

/* Returns true if backward may read the swapped values of the minibatch. */
static bool cx_is_back(const struct cx *cx, struct cx_node *node, int mb)
{
    int n = cx->schedule->stages[node->stage].n_swap_in;

    return n == 0 || (cx_mb(cx, node, mb)->swap == CX_SWAP_BACK &&
                      cx_has(node->swap_in, n, mb));
}

static enum cx_result cx_swap(struct cx *cx, struct cx_node *node,
                              const struct vp_action *a)
{
    const struct vp_schedule_stage *s = &cx->schedule->stages[a->stage];
    static const enum cx_swap from[VP_ACTION_KIND_COUNT] = {
        [VP_ACTION_SWAP_OUT] = CX_SWAP_HERE,
        [VP_ACTION_SWAP_FREE] = CX_SWAP_LEAVING,
        [VP_ACTION_SWAP_IN] = CX_SWAP_AWAY,
        [VP_ACTION_SWAP_READY] = CX_SWAP_COMING,
    };
    struct cx_mb *mb = cx_mb(cx, node, a->mb);
    int *buffer = cx_buffer_of(cx, a, node->swap_in, s->n_swap_in);

    if (!buffer || s->n_swap_out == 0 || !mb->f || mb->b)
        return cx_fail(cx, "swaps at the wrong time");
    if (mb->swap != from[a->kind])
        return cx_fail(cx, "swaps in the wrong order");
    if (a->slot < 0 || a->slot >= s->n_slots || node->slots[a->slot] != a->mb)
        return cx_fail(cx, "not in this slot");
    if (a->version != -1 || a->peer != -1 || a->msg != -1)
        return cx_fail(cx, "names a peer or a version");
    if (a->kind == VP_ACTION_SWAP_OUT &&
        !cx_has(node->swap_out, s->n_swap_out, a->mb))
        return cx_fail(cx, "swaps out what is not there");
    if (a->kind == VP_ACTION_SWAP_FREE)
        cx_forget(node->swap_out, s->n_swap_out, a->mb);
    if (a->kind == VP_ACTION_SWAP_IN && *buffer >= 0)
        return cx_fail(cx, "overwrites what was swapped in");
    if (a->kind == VP_ACTION_SWAP_IN)
        *buffer = a->mb;
    mb->swap++;
    return CX_DONE;
}

/* Takes the buffer that F writes its swapped values to. */
static enum cx_result cx_take_swap_out(struct cx *cx, struct cx_node *node,
                                       const struct vp_action *a)
{
    int *buffer = cx_buffer_of(cx, a, node->swap_out,
                               cx->schedule->stages[a->stage].n_swap_out);

    if (!buffer)
        return CX_DONE;
    if (*buffer >= 0)
        return cx_fail(cx, "overwrites what is not swapped out");
    *buffer = a->mb;
    return CX_DONE;
}

/* Finishes a minibatch: adds its gradient and frees its memory. */
static enum cx_result cx_finish(struct cx *cx, struct cx_node *node,
                                const struct vp_action *a)
{
    const struct vp_schedule *schedule = cx->schedule;
    struct cx_mb *mb = cx_mb(cx, node, a->mb);

    if (schedule->stages[a->stage].update_every > 0 &&
        !schedule->forward_only) {
        if (cx_round(cx, a->stage, a->mb) != node->n_updates)
            return cx_fail(cx, "mixes gradients of two rounds");
        mb->added = true;
    }
    node->slots[mb->slot] = -1;
    cx_forget(node->redo, schedule->stages[a->stage].n_recomputed, a->mb);
    cx_forget(node->swap_in, schedule->stages[a->stage].n_swap_in, a->mb);
    if (a->stage > 0 && cx_release(cx, &node->act, a->mb) == CX_FAIL)
        return CX_FAIL;
    if (a->stage < schedule->n_stages - 1 && !schedule->forward_only &&
        cx_release(cx, &node->grad, a->mb) == CX_FAIL)
        return CX_FAIL;
    return CX_DONE;
}

static enum cx_result cx_forward(struct cx *cx, struct cx_node *node,
                                 const struct vp_action *a)
{
    struct cx_mb *mb = cx_mb(cx, node, a->mb);
    struct cx_buffer *out;
    enum cx_result result;

    if (mb->f)
        return cx_fail(cx, "forward twice");
    if (a->stage > 0 && !cx_find(&node->act, a->mb))
        return cx_fail(cx, "no input");
    if (a->slot < 0 || a->slot >= cx->schedule->stages[a->stage].n_slots ||
        node->slots[a->slot] >= 0)
        return cx_fail(cx, "the slot is taken or does not exist");
    if (cx_weights(cx, node, a) == CX_FAIL)
        return CX_FAIL;
    result = cx_acquire(cx, a, a->stage + 1, &out);
    if (result != CX_DONE)
        return result;
    if (cx_take_swap_out(cx, node, a) == CX_FAIL)
        return CX_FAIL;
    cx_write(out, node->rank, a->mb);
    node->slots[a->slot] = a->mb;
    *mb = (struct cx_mb){ .f = true, .slot = a->slot, .version = a->version };
    return cx->schedule->forward_only ? cx_finish(cx, node, a) : CX_DONE;
}

/* For R, B and W: checks that the minibatch is in its slot and that the weights
 * are right. */
static enum cx_result cx_in_slot(struct cx *cx, struct cx_node *node,
                                 const struct vp_action *a)
{
    int n_slots = cx->schedule->stages[a->stage].n_slots;

    if (a->slot < 0 || a->slot >= n_slots || node->slots[a->slot] != a->mb)
        return cx_fail(cx, "not in this slot");
    return cx_weights(cx, node, a);
}

static enum cx_result cx_recompute(struct cx *cx, struct cx_node *node,
                                   const struct vp_action *a)
{
    struct cx_mb *mb = cx_mb(cx, node, a->mb);
    int *buffer = cx_buffer_of(cx, a, node->redo,
                               cx->schedule->stages[a->stage].n_recomputed);

    if (!cx->schedule->stages[a->stage].recompute || !mb->f || mb->r || mb->b)
        return cx_fail(cx, "recomputes at the wrong time");
    if (a->peer != -1 || a->msg != -1)
        return cx_fail(cx, "names a peer");
    if (!buffer || *buffer >= 0)
        return cx_fail(cx, "overwrites what was recomputed");
    if (!cx_is_back(cx, node, a->mb))
        return cx_fail(cx, "what is swapped is not back");
    *buffer = a->mb;
    mb->r = true;
    return cx_in_slot(cx, node, a);
}

static enum cx_result cx_backward(struct cx *cx, struct cx_node *node,
                                  const struct vp_action *a)
{
    struct cx_mb *mb = cx_mb(cx, node, a->mb);
    bool last = a->stage == cx->schedule->n_stages - 1;
    struct cx_buffer *out;
    enum cx_result result;

    if (!mb->f || mb->b || cx->schedule->forward_only)
        return cx_fail(cx, "backward at the wrong time");
    if (cx->schedule->stages[a->stage].recompute && !mb->r)
        return cx_fail(cx, "activations were not recomputed");
    if (!cx_is_back(cx, node, a->mb))
        return cx_fail(cx, "what is swapped is not back");
    if (!last && !cx_find(&node->grad, a->mb))
        return cx_fail(cx, "no gradient");
    if (cx_in_slot(cx, node, a) == CX_FAIL)
        return CX_FAIL;
    result = cx_acquire(cx, a, a->stage - 1, &out);
    if (result != CX_DONE)
        return result;
    cx_write(out, node->rank, a->mb);
    mb->b = true;
    if (!cx->schedule->stages[a->stage].w_recomputed)
        cx_forget(node->redo, cx->schedule->stages[a->stage].n_recomputed,
                  a->mb);
    return cx->schedule->split ? CX_DONE : cx_finish(cx, node, a);
}

static enum cx_result cx_weight_gradient(struct cx *cx, struct cx_node *node,
                                         const struct vp_action *a)
{
    struct cx_mb *mb = cx_mb(cx, node, a->mb);

    if (!cx->schedule->split || !mb->b || mb->w)
        return cx_fail(cx, "W at the wrong time");
    if (a->peer != -1 || a->msg != -1)
        return cx_fail(cx, "names a peer");
    if (cx_in_slot(cx, node, a) == CX_FAIL)
        return CX_FAIL;
    mb->w = true;
    return cx_finish(cx, node, a);
}

/* ---- Rounds ------------------------------------------------------------- */

static bool cx_round_added(const struct cx *cx, struct cx_node *node, int round)
{
    const struct vp_schedule *schedule = cx->schedule;
    const struct vp_schedule_stage *s = &schedule->stages[node->stage];

    for (int i = 0; i < schedule->n_mb; i++)
        if ((schedule->first_mb + i) % s->n_replicas == node->replica &&
            i / s->update_every == round && !node->mbs[i].added)
            return false;
    return (round + 1) * s->update_every <= schedule->n_mb;
}

static bool cx_reduces(const struct cx *cx, int stage)
{
    return cx->schedule->global_norm ||
           cx->schedule->stages[stage].n_replicas > 1;
}

static enum cx_result cx_reduce(struct cx *cx, struct cx_node *node,
                                const struct vp_action *a)
{
    const struct vp_schedule_stage *s = &cx->schedule->stages[a->stage];

    if (!cx_reduces(cx, a->stage) || a->mb != node->n_reduced ||
        s->update_every == 0 || !cx_round_added(cx, node, a->mb))
        return cx_fail(cx, "reduces at the wrong time");
    node->n_arrived = a->mb + 1;
    for (int r = 0; r < s->n_replicas; r++)
        if (cx_node(cx, s->first_rank + r, a->stage)->n_arrived <= a->mb)
            return CX_WAIT;
    node->n_reduced++;
    return CX_DONE;
}

static bool cx_all_reduced(const struct cx *cx, int round)
{
    int n = cx->schedule->n_ranks * cx->schedule->n_stages;

    for (int i = 0; i < n; i++)
        if (cx->nodes[i].used && cx->nodes[i].n_reduced <= round)
            return false;
    return true;
}

static enum cx_result cx_update(struct cx *cx, struct cx_node *node,
                                const struct vp_action *a)
{
    const struct vp_schedule_stage *s = &cx->schedule->stages[a->stage];
    int place, old;

    if (s->update_every == 0 || a->mb != node->n_updates ||
        !cx_round_added(cx, node, a->mb) ||
        (cx_reduces(cx, a->stage) && node->n_reduced <= a->mb))
        return cx_fail(cx, "updates at the wrong time");
    if (a->version != node->newest + 1)
        return cx_fail(cx, "writes the wrong version");
    place = a->version % s->n_versions;
    old = node->versions[place];
    for (int i = 0; i < s->n_slots; i++)
        if (node->slots[i] >= 0 &&
            cx_mb(cx, node, node->slots[i])->version == old)
            return cx_fail(cx, "overwrites weights in use");
    if (cx->schedule->global_norm && !cx_all_reduced(cx, a->mb))
        return CX_WAIT;
    node->versions[place] = ++node->newest;
    node->n_updates++;
    return CX_DONE;
}

/* ---- Steps -------------------------------------------------------------- */

static enum cx_result cx_dispatch(struct cx *cx, struct cx_node *node,
                                  const struct vp_action *a)
{
    switch (a->kind) {
    case VP_ACTION_F:
        return cx_forward(cx, node, a);
    case VP_ACTION_R:
        return cx_recompute(cx, node, a);
    case VP_ACTION_B:
        return cx_backward(cx, node, a);
    case VP_ACTION_W:
        return cx_weight_gradient(cx, node, a);
    case VP_ACTION_SEND_ACT:
        return cx_send(cx, node->rank, a, a->stage + 1,
                       cx_mb(cx, node, a->mb)->f);
    case VP_ACTION_SEND_GRAD:
        return cx_send(cx, node->rank, a, a->stage - 1,
                       cx_mb(cx, node, a->mb)->b);
    case VP_ACTION_RECV_ACT:
        return cx_receive(cx, &node->act, a);
    case VP_ACTION_RECV_GRAD:
        return cx_receive(cx, &node->grad, a);
    case VP_ACTION_REDUCE:
        return cx_reduce(cx, node, a);
    case VP_ACTION_UPDATE:
        return cx_update(cx, node, a);
    case VP_ACTION_SWAP_OUT:
    case VP_ACTION_SWAP_FREE:
    case VP_ACTION_SWAP_IN:
    case VP_ACTION_SWAP_READY:
        return cx_swap(cx, node, a);
    default:
        return cx_fail(cx, "no such action");
    }
}

static enum cx_result cx_step(struct cx *cx, int rank)
{
    const struct vp_schedule *schedule = cx->schedule;
    const struct vp_action *a =
        &schedule->ranks[rank].actions[cx->position[rank]];
    struct cx_node *node = cx_node(cx, rank, a->stage);
    bool round = a->kind == VP_ACTION_REDUCE || a->kind == VP_ACTION_UPDATE;
    enum cx_result result;

    if (!node || (unsigned)a->kind >= VP_ACTION_KIND_COUNT)
        return cx_fail(cx, "not a stage of this rank");
    if (!round && (a->mb < schedule->first_mb ||
                   a->mb >= schedule->first_mb + schedule->n_mb ||
                   cx_rank_of(cx, a->stage, a->mb) != rank))
        return cx_fail(cx, "not a minibatch of this rank");
    if (a->mb <= node->last[a->kind])
        return cx_fail(cx, "out of order");
    result = cx_dispatch(cx, node, a);
    if (result == CX_DONE) {
        node->last[a->kind] = a->mb;
        cx->position[rank]++;
    }
    return result;
}

/* ---- Start and end ------------------------------------------------------ */

static void cx_ring_init(struct cx_ring *ring, int n)
{
    ring->n = n;
    ring->at = cx_alloc(n, sizeof(*ring->at));
    for (int i = 0; i < n; i++)
        ring->at[i].expects = i;
}

static int *cx_buffers(int n)
{
    int *buffers = cx_alloc(n, sizeof(int));

    for (int i = 0; i < n; i++)
        buffers[i] = -1;
    return buffers;
}

static void cx_node_init(const struct cx *cx, struct cx_node *node, int rank,
                         int stage)
{
    const struct vp_schedule_stage *s = &cx->schedule->stages[stage];

    node->used = true;
    node->stage = stage;
    node->rank = rank;
    node->replica = rank - s->first_rank;
    node->slots = cx_alloc(s->n_slots, sizeof(int));
    node->versions = cx_alloc(s->n_versions, sizeof(int));
    node->mbs = cx_alloc(cx->schedule->n_mb, sizeof(*node->mbs));
    for (int i = 0; i < s->n_slots; i++)
        node->slots[i] = -1;
    for (int i = 0; i < s->n_versions; i++)
        node->versions[i] = -1;
    for (int i = 0; i < VP_ACTION_KIND_COUNT; i++)
        node->last[i] = -1;
    node->newest = s->version_begin;
    node->redo = cx_buffers(s->n_recomputed);
    node->swap_out = cx_buffers(s->n_swap_out);
    node->swap_in = cx_buffers(s->n_swap_in);
    for (int v = node->newest - s->version_past; v <= node->newest; v++)
        node->versions[v % s->n_versions] = v;
    cx_ring_init(&node->act, stage > 0 ? s->n_act_bufs : 0);
    cx_ring_init(&node->grad, s->n_grad_bufs);
}

static void cx_init(struct cx *cx, const struct vp_schedule *schedule)
{
    int n = schedule->n_ranks * schedule->n_stages;

    *cx = (struct cx){ .schedule = schedule };
    cx->nodes = cx_alloc(n, sizeof(*cx->nodes));
    cx->position = cx_alloc(schedule->n_ranks, sizeof(*cx->position));
    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_schedule_stage *stage = &schedule->stages[s];

        for (int r = 0; r < stage->n_replicas; r++) {
            int rank = stage->first_rank + r;

            cx_node_init(cx, &cx->nodes[rank * schedule->n_stages + s], rank,
                         s);
        }
    }
}

static void cx_release_all(struct cx *cx)
{
    int n = cx->schedule->n_ranks * cx->schedule->n_stages;

    for (int i = 0; i < n; i++) {
        struct cx_node *node = &cx->nodes[i];

        free(node->slots);
        free(node->versions);
        free(node->redo);
        free(node->swap_out);
        free(node->swap_in);
        free(node->mbs);
        free(node->act.at);
        free(node->grad.at);
    }
    free(cx->nodes);
    free(cx->position);
}

static bool cx_ring_empty(const struct cx_ring *ring)
{
    for (int i = 0; i < ring->n; i++)
        if (ring->at[i].state != CX_EMPTY)
            return false;
    return true;
}

/* Checks that every action was done and no message is left. */
static enum cx_result cx_check_end(struct cx *cx)
{
    const struct vp_schedule *schedule = cx->schedule;
    int n = schedule->n_ranks * schedule->n_stages;

    for (int i = 0; i < n; i++) {
        struct cx_node *node = &cx->nodes[i];
        const struct vp_schedule_stage *s;

        if (!node->used)
            continue;
        s = &schedule->stages[node->stage];
        if (!cx_ring_empty(&node->act) || !cx_ring_empty(&node->grad))
            return cx_fail(cx, "a message is left");
        for (int m = 0; m < schedule->n_mb; m++) {
            const struct cx_mb *mb = &node->mbs[m];

            if ((schedule->first_mb + m) % s->n_replicas != node->replica)
                continue;
            if (!mb->f || (!schedule->forward_only && !mb->b) ||
                (schedule->split && !mb->w))
                return cx_fail(cx, "a minibatch is not finished");
        }
        if (s->update_every > 0 && !schedule->forward_only &&
            node->n_updates != schedule->n_mb / s->update_every)
            return cx_fail(cx, "an update is missing");
    }
    return CX_DONE;
}

enum cx_result cx_run(const struct vp_schedule *schedule, uint32_t seed,
                      const char **why)
{
    struct cx cx;
    enum cx_result result = CX_DONE;
    int n_done = 0, n_waits = 0;
    uint32_t c = 0;

    cx_init(&cx, schedule);
    while (n_done < schedule->n_actions && result != CX_FAIL) {
        uint32_t bits = vp_rng(seed, VP_RNG_TEST, 1, c++, 0, 0).v[0];
        int rank = (int)vp_rng_below(bits, (uint32_t)schedule->n_ranks);

        /* After many waits, try the ranks one by one, to tell a hang from bad
         * luck. */
        if (n_waits >= schedule->n_ranks)
            rank = n_waits % schedule->n_ranks;
        if (cx.position[rank] == schedule->ranks[rank].n_actions) {
            n_waits++;
        } else {
            result = cx_step(&cx, rank);
            n_done += result == CX_DONE;
            n_waits = result == CX_WAIT ? n_waits + 1 : 0;
        }
        if (n_waits > 2 * schedule->n_ranks)
            result = CX_HANG;
        if (result == CX_HANG)
            break;
    }
    if (result == CX_WAIT || result == CX_DONE)
        result = cx_check_end(&cx);
    *why = result == CX_HANG ? "hang" : cx.why;
    cx_release_all(&cx);
    return result;
}
