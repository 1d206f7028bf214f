/* The first half of the proof: checks each list for itself. Walks a rank's list
 * with one counter per stage and kind. No other state is needed, because the
 * actions of a kind must come in minibatch order. */
#include "sched/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 1 << 26 };

/* State of one stage of the rank. */
struct state {
    const struct vp_node *node;
    int next[VP_ACTION_KIND_COUNT]; /* own index or round of the next action */
    int *holder;                    /* per slot: own index, or -1 */
    int newest;                     /* weight version */
};

struct walk {
    const struct vp_schedule *schedule;
    const struct vp_nodes *nodes;
    struct state *states; /* one per stage; those of the rank are in use */
    int *holders;         /* slots of all stages */
    int rank, position;
    struct vp_err *err;
};

/* ---- Messages ----------------------------------------------------------- */

struct vp_place vp_place_of(const struct vp_schedule *schedule, int rank,
                            int position)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    struct vp_place place;
    char action[32] = "";

    if (position >= list->n_actions) {
        snprintf(place.text, sizeof(place.text), "rank %d, end of the list",
                 rank);
        return place;
    }
    vp_action_print(&list->actions[position], action, sizeof(action));
    snprintf(place.text, sizeof(place.text), "rank %d, action %d (%s)", rank,
             position, action);
    return place;
}

static enum vp_status refuse(const struct walk *walk, const char *fmt, ...)
    VP_PRINTF(2, 3);

static enum vp_status refuse(const struct walk *walk, const char *fmt, ...)
{
    struct vp_place place = vp_place_of(walk->schedule, walk->rank,
                                        walk->position);
    char cause[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(cause, sizeof(cause), fmt, args);
    va_end(args);
    return vp_err_set(walk->err, VP_ERR_INVALID, "%s: %s", place.text, cause);
}

/* ---- One action --------------------------------------------------------- */

static bool is_round(enum vp_action_kind kind)
{
    return kind == VP_ACTION_REDUCE || kind == VP_ACTION_UPDATE;
}

/* Returns the minibatch or round of own index `own`. */
static int expected(const struct walk *walk, const struct state *state,
                    enum vp_action_kind kind, int own)
{
    if (is_round(kind))
        return own;
    return vp_node_mb(walk->schedule, state->node, own);
}

static enum vp_status check_order(const struct walk *walk,
                                  const struct state *state,
                                  const struct vp_action *a)
{
    int next = state->next[a->kind];
    struct vp_sched_range range = state->node->range[a->kind];
    const char *name = vp_action_kind_name(a->kind);

    if (next >= range.end && range.end == range.begin)
        return refuse(walk, "stage %d has no %s in this schedule; remove it",
                      a->stage, name);
    if (next >= range.end)
        return refuse(walk, "all %d %s of this stage came before; remove it",
                      range.end - range.begin, name);
    if (a->mb != expected(walk, state, a->kind, next))
        return refuse(walk, "out of order: %d%s%d comes next on this rank",
                      a->stage, name, expected(walk, state, a->kind, next));
    return VP_OK;
}

/* Checks that the action `before` of the same minibatch precedes `a`. */
static enum vp_status check_after(const struct walk *walk,
                                  const struct state *state,
                                  const struct vp_action *a,
                                  enum vp_action_kind before)
{
    if (state->next[before] > state->next[a->kind])
        return VP_OK;
    return refuse(walk, "%d%s%d must come before", a->stage,
                  vp_action_kind_name(before), a->mb);
}

/* Peers and message indices follow from the minibatch. */
static enum vp_status check_message(const struct walk *walk,
                                    const struct vp_action *a)
{
    struct vp_action want = *a;

    want.peer = want.msg = -1;
    vp_action_complete(walk->schedule, &want);
    if (a->peer != want.peer)
        return refuse(walk, "names rank %d, but the minibatch is on rank %d",
                      a->peer, want.peer);
    if (a->msg != want.msg)
        return refuse(walk, "is message %d of its ring, not %d", want.msg,
                      a->msg);
    return VP_OK;
}

/* Checks that the weights are in the ring, and that their version is that of
 * vp_schedule_version_of(). */
static enum vp_status check_version(const struct walk *walk,
                                    const struct state *state,
                                    const struct vp_action *a)
{
    int want = vp_schedule_version_of(walk->schedule, a->stage, a->mb);
    int n = walk->schedule->stages[a->stage].n_versions;

    if (a->version != want)
        return refuse(walk, "uses weight version %d instead of %d", a->version,
                      want);
    if (want > state->newest)
        return refuse(walk,
                      "weight version %d is not written yet, %d is the "
                      "newest; an UPDATE must come before",
                      want, state->newest);
    if (want <= state->newest - n)
        return refuse(walk,
                      "weight version %d was overwritten by %d; the "
                      "stage needs more than %d versions",
                      want, want + n, n);
    return VP_OK;
}

static enum vp_status check_slot(const struct walk *walk,
                                 const struct state *state,
                                 const struct vp_action *a)
{
    int n = walk->schedule->stages[a->stage].n_slots;
    int own = state->next[a->kind];
    int holder;

    if (a->slot < 0 || a->slot >= n)
        return refuse(walk, "slot %d of %d does not exist", a->slot, n);
    holder = state->holder[a->slot];
    if (a->kind == VP_ACTION_F && holder >= 0)
        return refuse(walk, "slot %d still holds minibatch %d", a->slot,
                      vp_node_mb(walk->schedule, state->node, holder));
    if (a->kind != VP_ACTION_F && holder != own)
        return refuse(walk, "slot %d does not hold the minibatch", a->slot);
    return VP_OK;
}

/* Gradients of a round must not mix with those of the next. */
static enum vp_status check_round(const struct walk *walk,
                                  const struct state *state,
                                  const struct vp_action *a)
{
    int own = state->next[a->kind];
    int round;

    if (walk->schedule->stages[a->stage].update_every == 0)
        return VP_OK;
    round = vp_node_rounds(walk->schedule, state->node, own);
    if (state->next[VP_ACTION_UPDATE] == round)
        return VP_OK;
    return refuse(walk, "adds to round %d, but %dUPDATE%d comes later", round,
                  a->stage, state->next[VP_ACTION_UPDATE]);
}

static enum vp_status check_compute(const struct walk *walk,
                                    struct state *state,
                                    const struct vp_action *a)
{
    enum vp_action_kind last = vp_schedule_last_kind(walk->schedule);

    VP_TRY(check_message(walk, a));
    VP_TRY(check_version(walk, state, a));
    VP_TRY(check_slot(walk, state, a));
    if (a->kind == last && last != VP_ACTION_F)
        VP_TRY(check_round(walk, state, a));
    if (a->kind == VP_ACTION_F)
        state->holder[a->slot] = state->next[a->kind];
    if (a->kind == last)
        state->holder[a->slot] = -1;
    return VP_OK;
}

/* Called for an action that writes a buffer of a ring of `n`. Checks that
 * `kind` of the minibatch that had the buffer before precedes `a`. */
static enum vp_status check_buffer(const struct walk *walk,
                                   const struct state *state,
                                   const struct vp_action *a, int n,
                                   enum vp_action_kind kind, const char *what)
{
    int before = state->next[a->kind] - n, mb;

    if (state->next[kind] > before)
        return VP_OK;
    mb = vp_node_mb(walk->schedule, state->node, before);
    return refuse(walk,
                  "overwrites values %s minibatch %d; %d%s%d must come "
                  "before",
                  what, mb, a->stage, vp_action_kind_name(kind), mb);
}

static enum vp_status check_redo(const struct walk *walk,
                                 const struct state *state,
                                 const struct vp_action *a)
{
    return check_buffer(walk, state, a,
                        walk->schedule->stages[a->stage].n_recomputed,
                        vp_schedule_recomputed_kind(walk->schedule, a->stage),
                        "recomputed for");
}

/* Checks that swapped values are back on the device. */
static enum vp_status check_ready(const struct walk *walk,
                                  const struct state *state,
                                  const struct vp_action *a)
{
    if (walk->schedule->stages[a->stage].n_swap_in == 0)
        return VP_OK;
    return check_after(walk, state, a, VP_ACTION_SWAP_READY);
}

static enum vp_status check_forward(const struct walk *walk,
                                    struct state *state,
                                    const struct vp_action *a)
{
    int n_swap_out = walk->schedule->stages[a->stage].n_swap_out;

    if (a->stage > 0)
        VP_TRY(check_after(walk, state, a, VP_ACTION_RECV_ACT));
    if (n_swap_out > 0)
        VP_TRY(check_buffer(walk, state, a, n_swap_out, VP_ACTION_SWAP_FREE,
                            "left by"));
    return check_compute(walk, state, a);
}

static enum vp_status check_swap(const struct walk *walk,
                                 const struct state *state,
                                 const struct vp_action *a)
{
    static const enum vp_action_kind before[VP_ACTION_KIND_COUNT] = {
        [VP_ACTION_SWAP_OUT] = VP_ACTION_F,
        [VP_ACTION_SWAP_FREE] = VP_ACTION_SWAP_OUT,
        [VP_ACTION_SWAP_IN] = VP_ACTION_SWAP_FREE,
        [VP_ACTION_SWAP_READY] = VP_ACTION_SWAP_IN,
    };

    VP_TRY(check_after(walk, state, a, before[a->kind]));
    if (a->kind == VP_ACTION_SWAP_IN)
        VP_TRY(check_buffer(
            walk, state, a, walk->schedule->stages[a->stage].n_swap_in,
            vp_schedule_last_kind(walk->schedule), "swapped in for"));
    if (a->version != -1)
        return refuse(walk, "uses no weights; remove their version");
    VP_TRY(check_message(walk, a));
    return check_slot(walk, state, a);
}

static enum vp_status check_backward(const struct walk *walk,
                                     struct state *state,
                                     const struct vp_action *a)
{
    bool last = a->stage == walk->schedule->n_stages - 1;

    VP_TRY(check_after(walk, state, a, VP_ACTION_F));
    VP_TRY(check_ready(walk, state, a));
    if (walk->schedule->stages[a->stage].recompute)
        VP_TRY(check_after(walk, state, a, VP_ACTION_R));
    if (!last)
        VP_TRY(check_after(walk, state, a, VP_ACTION_RECV_GRAD));
    return check_compute(walk, state, a);
}

/* Checks that the gradients of all own minibatches of the round precede `a`. */
static enum vp_status check_complete(const struct walk *walk,
                                     const struct state *state,
                                     const struct vp_action *a)
{
    enum vp_action_kind last = vp_schedule_last_kind(walk->schedule);
    int n_own = state->next[last];

    if (vp_node_rounds(walk->schedule, state->node, n_own) > a->mb)
        return VP_OK;
    return refuse(walk, "%d%s%d of its round comes later", a->stage,
                  vp_action_kind_name(last),
                  vp_node_mb(walk->schedule, state->node, n_own));
}

/* Checks also that no minibatch needs the version that is overwritten. */
static enum vp_status check_update(const struct walk *walk, struct state *state,
                                   const struct vp_action *a)
{
    const struct vp_schedule *schedule = walk->schedule;
    int want = schedule->stages[a->stage].version_begin + a->mb + 1;
    int n_versions = schedule->stages[a->stage].n_versions;
    int oldest = state->next[vp_schedule_last_kind(schedule)];

    VP_TRY(check_complete(walk, state, a));
    if (vp_schedule_reduces(schedule, a->stage))
        VP_TRY(check_after(walk, state, a, VP_ACTION_REDUCE));
    if (a->version != want)
        return refuse(walk, "writes weight version %d instead of %d",
                      a->version, want);
    if (oldest < state->next[VP_ACTION_F]) {
        int mb = vp_node_mb(schedule, state->node, oldest);
        int used = vp_schedule_version_of(schedule, a->stage, mb);

        if (used <= want - n_versions)
            return refuse(walk,
                          "overwrites weight version %d, which "
                          "minibatch %d in flight still needs; the stage "
                          "has only %d versions",
                          used, mb, n_versions);
    }
    state->newest = want;
    return VP_OK;
}

static enum vp_status check_kind(const struct walk *walk, struct state *state,
                                 const struct vp_action *a)
{
    switch (a->kind) {
    case VP_ACTION_F:
        return check_forward(walk, state, a);
    case VP_ACTION_R:
        VP_TRY(check_after(walk, state, a, VP_ACTION_F));
        VP_TRY(check_ready(walk, state, a));
        VP_TRY(check_redo(walk, state, a));
        return check_compute(walk, state, a);
    case VP_ACTION_B:
        return check_backward(walk, state, a);
    case VP_ACTION_W:
        VP_TRY(check_after(walk, state, a, VP_ACTION_B));
        return check_compute(walk, state, a);
    case VP_ACTION_SEND_ACT:
    case VP_ACTION_RECV_GRAD: /* before F it would deadlock */
        VP_TRY(check_after(walk, state, a, VP_ACTION_F));
        return check_message(walk, a);
    case VP_ACTION_SEND_GRAD:
        VP_TRY(check_after(walk, state, a, VP_ACTION_B));
        return check_message(walk, a);
    case VP_ACTION_RECV_ACT:
        return check_message(walk, a);
    case VP_ACTION_REDUCE:
        return check_complete(walk, state, a);
    case VP_ACTION_UPDATE:
        return check_update(walk, state, a);
    case VP_ACTION_SWAP_OUT:
    case VP_ACTION_SWAP_FREE:
    case VP_ACTION_SWAP_IN:
    case VP_ACTION_SWAP_READY:
        return check_swap(walk, state, a);
    case VP_ACTION_KIND_COUNT:
        break;
    }
    return refuse(walk, "is not an action");
}

/* ---- One list ----------------------------------------------------------- */

/* Sets the stage's state at the start of the list. A stream may begin with
 * minibatches in flight, which are in slot own index mod n_slots. */
static void enter(struct walk *walk, int stage)
{
    const struct vp_schedule_stage *s = &walk->schedule->stages[stage];
    struct state *state = &walk->states[stage];
    const struct vp_sched_range *range;

    state->node = &walk->nodes->at[walk->nodes->first[stage] + walk->rank -
                                   s->first_rank];
    range = state->node->range;
    for (int kind = 0; kind < VP_ACTION_KIND_COUNT; kind++)
        state->next[kind] = range[kind].begin;
    for (int i = 0; i < s->n_slots; i++)
        state->holder[i] = -1;
    if (!walk->schedule->forward_only)
        for (int i = range[VP_ACTION_B].begin; i < range[VP_ACTION_F].begin;
             i++)
            state->holder[i % s->n_slots] = i;
    state->newest = s->version_begin + range[VP_ACTION_UPDATE].begin;
}

static enum vp_status check_end(const struct walk *walk, int stage)
{
    const struct state *state = &walk->states[stage];

    for (int kind = 0; kind < VP_ACTION_KIND_COUNT; kind++)
        if (state->next[kind] < state->node->range[kind].end)
            return refuse(walk, "%d%s%d is missing", stage,
                          vp_action_kind_name(kind),
                          expected(walk, state, kind, state->next[kind]));
    return VP_OK;
}

static enum vp_status check_list(struct walk *walk)
{
    const struct vp_schedule *schedule = walk->schedule;
    const struct vp_rank_list *list = &schedule->ranks[walk->rank];

    for (int i = 0; i < list->n_stages; i++)
        enter(walk, list->stages[i]);
    for (walk->position = 0; walk->position < list->n_actions;
         walk->position++) {
        const struct vp_action *a = &list->actions[walk->position];
        const struct vp_schedule_stage *s;
        struct state *state;

        if ((unsigned)a->kind >= VP_ACTION_KIND_COUNT || a->stage < 0 ||
            a->stage >= schedule->n_stages)
            return refuse(walk, "there is no such kind or stage");
        s = &schedule->stages[a->stage];
        if (walk->rank < s->first_rank ||
            walk->rank >= s->first_rank + s->n_replicas)
            return refuse(walk, "stage %d is not on this rank", a->stage);
        state = &walk->states[a->stage];
        VP_BUG_ON(!state->node);
        VP_TRY(check_order(walk, state, a));
        VP_TRY(check_kind(walk, state, a));
        state->next[a->kind]++;
    }
    for (int i = 0; i < list->n_stages; i++)
        VP_TRY(check_end(walk, list->stages[i]));
    return VP_OK;
}

/* ---- All lists ---------------------------------------------------------- */

static enum vp_status check_sizes(const struct vp_schedule *schedule,
                                  struct vp_err *err)
{
    int64_t n_slots = 0;

    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_schedule_stage *stage = &schedule->stages[s];
        bool grads = s < schedule->n_stages - 1 && !schedule->forward_only;

        if (stage->n_slots < 1 || stage->n_versions < 1 ||
            (s > 0 && stage->n_act_bufs < 1) ||
            (grads && stage->n_grad_bufs < 1) ||
            (stage->recompute && !schedule->forward_only &&
             stage->n_recomputed < 1) ||
            (stage->n_swap_out > 0) != (stage->n_swap_in > 0))
            return vp_err_set(err, VP_ERR_INVALID,
                              "stage %d has %d slots, %d versions, %d "
                              "activation and %d gradient buffers, %d for "
                              "recomputed and %d + %d for swapped values; give "
                              "at least 1 of each kind in use",
                              s, stage->n_slots, stage->n_versions,
                              stage->n_act_bufs, stage->n_grad_bufs,
                              stage->n_recomputed, stage->n_swap_out,
                              stage->n_swap_in);
    }
    for (int s = 0; s < schedule->n_stages; s++)
        n_slots += schedule->stages[s].n_slots;
    if (n_slots > MAX_SLOTS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the stages have %lld slots in all; more than %d "
                          "cannot be checked",
                          (long long)n_slots, MAX_SLOTS);
    return VP_OK;
}

static enum vp_status allocate(struct walk *walk)
{
    const struct vp_schedule *schedule = walk->schedule;
    size_t n_holders = 0;

    VP_BUG_ON(schedule->n_stages < 1);
    for (int s = 0; s < schedule->n_stages; s++)
        n_holders += (size_t)schedule->stages[s].n_slots;
    walk->states = calloc((size_t)schedule->n_stages, sizeof(*walk->states));
    walk->holders = calloc(n_holders, sizeof(*walk->holders));
    if (!walk->states || !walk->holders)
        return vp_err_set(walk->err, VP_ERR_NOMEM, "schedule: out of memory");
    n_holders = 0;
    for (int s = 0; s < schedule->n_stages; s++) {
        walk->states[s].holder = walk->holders + n_holders;
        n_holders += (size_t)schedule->stages[s].n_slots;
    }
    return VP_OK;
}

enum vp_status vp_check_lists(const struct vp_schedule *schedule,
                              const struct vp_nodes *nodes, struct vp_err *err)
{
    struct walk walk = { .schedule = schedule, .nodes = nodes, .err = err };
    enum vp_status st;

    VP_TRY(check_sizes(schedule, err));
    st = allocate(&walk);
    for (walk.rank = 0; st == VP_OK && walk.rank < schedule->n_ranks;
         walk.rank++)
        st = check_list(&walk);
    free(walk.states);
    free(walk.holders);
    return st;
}
