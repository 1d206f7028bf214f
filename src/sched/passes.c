/* Turns compute-only lists into complete ones, pass by pass: updates, messages
 * and recomputation, sizes, slots, versions and peers. */
#include "sched/internal.h"

#include <stdlib.h>

struct pass {
    const struct vp_schedule *schedule;
    const struct vp_nodes *nodes;
    const struct vp_passes *wanted;
};

typedef void (*pass_fn)(const struct pass *pass, int rank,
                        const struct vp_sched_list *in,
                        struct vp_sched_list *out);

static const struct vp_node *node_at(const struct pass *pass, int rank,
                                     int stage)
{
    int first_rank = pass->schedule->stages[stage].first_rank;

    return &pass->nodes->at[pass->nodes->first[stage] + rank - first_rank];
}

/* ---- Reduction and update ----------------------------------------------- */

/* Called after a B of a stream: appends REDUCE and UPDATE if the round is
 * complete. */
static void put_round(const struct pass *pass, int rank,
                      const struct vp_action *action, struct vp_sched_list *out)
{
    const struct vp_schedule *schedule = pass->schedule;
    const struct vp_node *node = node_at(pass, rank, action->stage);
    int own = vp_schedule_own_index(schedule, action->stage, action->mb);
    int round = vp_node_rounds(schedule, node, own);

    if (vp_node_rounds(schedule, node, own + 1) == round ||
        round >= node->range[VP_ACTION_UPDATE].end)
        return;
    if (vp_schedule_reduces(schedule, action->stage))
        vp_sched_list_put(out, VP_ACTION_REDUCE, action->stage, round);
    vp_sched_list_put(out, VP_ACTION_UPDATE, action->stage, round);
}

/* Appends the reductions and updates at the end of a round. A rank reduces all
 * its stages before its first update, which may wait for the norm of all
 * stages. */
static void put_round_end(const struct pass *pass, int rank,
                          struct vp_sched_list *out)
{
    const struct vp_rank_list *list = &pass->schedule->ranks[rank];
    static const enum vp_action_kind kinds[] = { VP_ACTION_REDUCE,
                                                 VP_ACTION_UPDATE };

    for (size_t k = 0; k < VP_COUNT_OF(kinds); k++)
        for (int i = 0; i < list->n_stages; i++) {
            int stage = list->stages[i];
            const struct vp_node *node = node_at(pass, rank, stage);

            for (int r = 0; r < node->range[kinds[k]].end; r++)
                vp_sched_list_put(out, kinds[k], stage, r);
        }
}

static void add_updates(const struct pass *pass, int rank,
                        const struct vp_sched_list *in,
                        struct vp_sched_list *out)
{
    for (int i = 0; i < in->n; i++) {
        vp_sched_list_push(out, in->at[i]);
        if (pass->wanted->stream && in->at[i].kind == VP_ACTION_B)
            put_round(pass, rank, &in->at[i], out);
    }
    if (!pass->wanted->stream)
        put_round_end(pass, rank, out);
}

/* ---- Messages and recomputation ----------------------------------------- */

/* Returns true if the list already has the R of the B at position `at`, between
 * that B and its F. */
static bool has_redo(const struct vp_sched_list *list, int at)
{
    const struct vp_action *b = &list->at[at];

    for (int i = at - 1; i >= 0; i--) {
        const struct vp_action *a = &list->at[i];

        if (a->stage == b->stage && a->mb == b->mb)
            return a->kind == VP_ACTION_R;
    }
    return false;
}

/* Inserts RECV right before the action that reads the message, SEND right after
 * the action that wrote it, and R before each B of a stage that recomputes,
 * unless the list has it. R needs no gradient; with `early` it runs before
 * RECV_GRAD, while the rank would wait. */
static void add_messages(const struct pass *pass, int rank,
                         const struct vp_sched_list *in,
                         struct vp_sched_list *out)
{
    int last = pass->schedule->n_stages - 1;

    (void)rank;
    for (int i = 0; i < in->n; i++) {
        struct vp_action a = in->at[i];
        bool f = a.kind == VP_ACTION_F, b = a.kind == VP_ACTION_B;
        bool r = b && pass->schedule->stages[a.stage].recompute &&
                 !has_redo(in, i);

        if (f && a.stage > 0)
            vp_sched_list_put(out, VP_ACTION_RECV_ACT, a.stage, a.mb);
        if (r && pass->wanted->early)
            vp_sched_list_put(out, VP_ACTION_R, a.stage, a.mb);
        if (b && a.stage < last)
            vp_sched_list_put(out, VP_ACTION_RECV_GRAD, a.stage, a.mb);
        if (r && !pass->wanted->early)
            vp_sched_list_put(out, VP_ACTION_R, a.stage, a.mb);
        vp_sched_list_push(out, a);
        if (f && a.stage < last)
            vp_sched_list_put(out, VP_ACTION_SEND_ACT, a.stage, a.mb);
        if (b && a.stage > 0)
            vp_sched_list_put(out, VP_ACTION_SEND_GRAD, a.stage, a.mb);
    }
}

/* ---- Sizes -------------------------------------------------------------- */

/* Returns the number of ranks of stage `from` that send to one rank of stage
 * `to`: R_from / gcd(R_from, R_to). */
static int n_senders(const struct vp_schedule *schedule, int from, int to)
{
    int a = schedule->stages[from].n_replicas, all = a;
    int b = schedule->stages[to].n_replicas;

    while (b != 0) {
        int rest = a % b;

        a = b;
        b = rest;
    }
    return all / a;
}

struct peaks {
    int slots;  /* most minibatches between F and the end of the last kind */
    int flight; /* most minibatches between F and the end of B */
    int grads;  /* most minibatches between B and the end of the last kind */
    int redone; /* most minibatches between R and the end of its last reader */
    int n[VP_ACTION_KIND_COUNT];
};

static void raise_to(int *peak, int n)
{
    *peak = n > *peak ? n : *peak;
}

static void count_peaks(const struct vp_schedule *schedule,
                        const struct vp_sched_list *list, struct peaks *peaks)
{
    enum vp_action_kind last = vp_schedule_last_kind(schedule);

    for (int i = 0; i < list->n; i++) {
        const struct vp_action *a = &list->at[i];
        struct peaks *p = &peaks[a->stage];

        p->n[a->kind]++;
        if (a->kind == VP_ACTION_F) {
            raise_to(&p->slots, p->n[VP_ACTION_F] - p->n[last]);
            raise_to(&p->flight, p->n[VP_ACTION_F] - p->n[VP_ACTION_B]);
        }
        if (a->kind == VP_ACTION_B)
            raise_to(&p->grads, p->n[VP_ACTION_B] - p->n[last]);
        if (a->kind == VP_ACTION_R)
            raise_to(&p->redone,
                     p->n[VP_ACTION_R] -
                         p->n[vp_schedule_recomputed_kind(schedule, a->stage)]);
    }
}

/* Activation buffers that stage s needs because a rank of stage s - 1 starts
 * `flight` forwards before its first backward. With fewer, the last of these
 * forwards waits for a buffer of stage s, stage s waits for a gradient buffer
 * of stage s - 1, and that one is only free after the backward. At default
 * depths the result is at most slots + senders. */
static int n_bufs_ahead(const struct vp_schedule *schedule, int s,
                        const struct peaks *sender,
                        const struct peaks *receiver)
{
    int n_receivers = n_senders(schedule, s, s - 1);
    int flight = schedule->split ? sender->flight
                                 : schedule->stages[s - 1].n_slots;
    int64_t n_each = (flight - 1 + n_receivers - 1) / n_receivers;
    int64_t n = n_senders(schedule, s - 1, s) * n_each + receiver->grads;
    /* Lists with split B and W hold a whole round; others may be a piece of a
     * stream. */
    int most = schedule->split ? receiver->n[VP_ACTION_F] : INT32_MAX;

    return n < most ? (int)n : most;
}

/* A ring gets one buffer for each message that is kept at the same time, and
 * one for each sender to fill. */
static void set_sizes(struct vp_schedule *schedule, int s,
                      const struct peaks *peaks)
{
    struct vp_schedule_stage *stage = &schedule->stages[s];
    const struct peaks *here = &peaks[s];
    bool one_stage_each = schedule->ranks[0].n_stages == 1;

    if (stage->n_slots == 0)
        stage->n_slots = here->slots;
    if (stage->n_recomputed == 0 && stage->recompute)
        stage->n_recomputed = here->redone;
    if (stage->n_act_bufs == 0 && s > 0) {
        stage->n_act_bufs = stage->n_slots + n_senders(schedule, s - 1, s);
        if (one_stage_each && !schedule->forward_only)
            raise_to(&stage->n_act_bufs,
                     n_bufs_ahead(schedule, s, here - 1, here));
    }
    if (stage->n_grad_bufs == 0 && s < schedule->n_stages - 1 &&
        !schedule->forward_only)
        stage->n_grad_bufs = here->grads + n_senders(schedule, s + 1, s);
}

enum vp_status vp_pass_sizes(struct vp_schedule *schedule,
                             const struct vp_sched_list *lists)
{
    size_t n = (size_t)schedule->n_stages;
    struct peaks *all = calloc(2 * n, sizeof(*all));
    struct peaks *here = all + n;

    if (!all)
        return VP_ERR_NOMEM;
    for (size_t s = 0; s < n; s++)
        all[s] = (struct peaks){
            .slots = 1, .flight = 1, .grads = 1, .redone = 1
        };
    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        const struct vp_rank_list *list = &schedule->ranks[rank];

        for (int i = 0; i < list->n_stages; i++)
            here[list->stages[i]] = (struct peaks){ .slots = 0 };
        count_peaks(schedule, &lists[rank], here);
        for (int i = 0; i < list->n_stages; i++) {
            int s = list->stages[i];

            raise_to(&all[s].slots, here[s].slots);
            raise_to(&all[s].flight, here[s].flight);
            raise_to(&all[s].grads, here[s].grads);
            raise_to(&all[s].redone, here[s].redone);
            raise_to(&all[s].n[VP_ACTION_F], here[s].n[VP_ACTION_F]);
        }
    }
    for (int s = 0; s < schedule->n_stages; s++)
        set_sizes(schedule, s, all);
    free(all);
    return VP_OK;
}

/* ---- Slots, versions, peers --------------------------------------------- */

static void complete_slot(const struct vp_schedule *schedule,
                          struct vp_action *a)
{
    if (a->slot < 0)
        a->slot = vp_schedule_own_index(schedule, a->stage, a->mb) %
                  schedule->stages[a->stage].n_slots;
}

static void complete_compute(const struct vp_schedule *schedule,
                             struct vp_action *a, int neighbour)
{
    complete_slot(schedule, a);
    if (a->version < 0)
        a->version = vp_schedule_version_of(schedule, a->stage, a->mb);
    if (neighbour < 0 || neighbour >= schedule->n_stages)
        return;
    a->peer = vp_schedule_rank_of(schedule, neighbour, a->mb);
    a->msg = vp_schedule_own_index(schedule, neighbour, a->mb);
}

/* `at`: the stage that receives. `other`: the stage at the other end. */
static void complete_message(const struct vp_schedule *schedule,
                             struct vp_action *a, int at, int other)
{
    if (other < 0 || other >= schedule->n_stages)
        return;
    a->peer = vp_schedule_rank_of(schedule, other, a->mb);
    a->msg = vp_schedule_own_index(schedule, at, a->mb);
}

void vp_action_complete(const struct vp_schedule *schedule, struct vp_action *a)
{
    int next = a->stage + 1, previous = a->stage - 1;

    switch (a->kind) {
    case VP_ACTION_F:
        complete_compute(schedule, a, next);
        break;
    case VP_ACTION_B:
        complete_compute(schedule, a, previous);
        break;
    case VP_ACTION_R:
    case VP_ACTION_W:
        complete_compute(schedule, a, -1);
        break;
    case VP_ACTION_SEND_ACT:
        complete_message(schedule, a, next, next);
        break;
    case VP_ACTION_RECV_ACT:
        complete_message(schedule, a, a->stage, previous);
        break;
    case VP_ACTION_SEND_GRAD:
        complete_message(schedule, a, previous, previous);
        break;
    case VP_ACTION_RECV_GRAD:
        complete_message(schedule, a, a->stage, next);
        break;
    case VP_ACTION_UPDATE:
        if (a->version < 0)
            a->version = schedule->stages[a->stage].version_begin + a->mb + 1;
        break;
    case VP_ACTION_SWAP_OUT:
    case VP_ACTION_SWAP_FREE:
    case VP_ACTION_SWAP_IN:
    case VP_ACTION_SWAP_READY:
        complete_slot(schedule, a);
        break;
    case VP_ACTION_REDUCE:
    case VP_ACTION_KIND_COUNT:
        break;
    }
}

/* ---- All passes --------------------------------------------------------- */

static enum vp_status rewrite(const struct pass *pass, pass_fn fn,
                              struct vp_sched_list *lists)
{
    for (int rank = 0; rank < pass->schedule->n_ranks; rank++) {
        struct vp_sched_list out = { .at = NULL };
        bool failed = lists[rank].failed;

        fn(pass, rank, &lists[rank], &out);
        vp_sched_list_release(&lists[rank]);
        lists[rank] = out;
        if (failed || out.failed)
            return VP_ERR_NOMEM;
    }
    return VP_OK;
}

enum vp_status vp_passes_run(struct vp_schedule *schedule,
                             struct vp_sched_list *lists,
                             const struct vp_passes *passes)
{
    struct vp_nodes nodes = vp_nodes_make(schedule);
    struct pass pass = { schedule, &nodes, passes };
    enum vp_status st = nodes.at ? VP_OK : VP_ERR_NOMEM;

    if (st == VP_OK)
        st = rewrite(&pass, add_updates, lists);
    if (st == VP_OK)
        st = rewrite(&pass, add_messages, lists);
    vp_nodes_release(&nodes);
    if (st == VP_OK)
        st = vp_pass_sizes(schedule, lists);
    if (st == VP_OK && passes->swap)
        st = vp_pass_swap(schedule, lists, passes->swap);
    if (st == VP_OK)
        st = vp_schedule_take(schedule, lists);
    for (int i = 0; st == VP_OK && i < schedule->n_actions; i++)
        vp_action_complete(schedule, &schedule->actions[i]);
    if (st == VP_OK && schedule->ranks[0].n_stages > 1 &&
        !schedule->forward_only)
        st = vp_pass_rings(schedule, NULL);
    return st;
}
