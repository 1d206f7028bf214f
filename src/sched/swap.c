/* Inserts the SWAP actions of stages that swap. Copies begin as early as
 * possible:
 *
 *   F3 SWAP_OUT3 B0 SWAP_FREE3 F4     the copy leaves while B0 runs; then F4
 *                                     writes to the buffer of F3 (n_swap_out 1)
 *   B0 SWAP_IN2 F4 SWAP_READY1 B1     B0 has read the buffer that B2 will read
 *                                     (n_swap_in 2): the copy arrives meanwhile
 *
 * The first values come back one action before the first backward. A stage
 * whose buffers would not be fewer than its slots swaps nothing. */
#include "sched/internal.h"

#include <stdlib.h>

/* State of the pass for one stage on one rank. */
struct writer {
    const struct vp_schedule *schedule;
    const struct vp_sched_list *in;
    struct vp_sched_list *out;
    int stage;
    int n_out, n_in;        /* numbers of buffers */
    int n_freed, n_fetched; /* next own index of SWAP_FREE and SWAP_IN */
    int n_forward, n_done;  /* next own index of F and of the last kind */
};

/* ---- Buffers ------------------------------------------------------------ */

/* Returns the largest number of minibatches of a stage that R or B have begun
 * to read and the last kind has not ended. */
static int count_read(const struct vp_schedule *schedule,
                      const struct vp_sched_list *list, int stage)
{
    enum vp_action_kind last = vp_schedule_last_kind(schedule);
    enum vp_action_kind first = schedule->stages[stage].recompute ? VP_ACTION_R
                                                                  : VP_ACTION_B;
    int n = 0, most = 1;

    for (int i = 0; i < list->n; i++) {
        const struct vp_action *a = &list->at[i];

        if (a->stage != stage)
            continue;
        n += a->kind == first;
        most = n > most ? n : most;
        n -= a->kind == last;
    }
    return most;
}

/* Divides `wanted` buffers: at least one for F, and one for each minibatch
 * whose backward has begun; then one to fetch the next minibatch ahead; then a
 * second for F. By default a stage fetches ahead if it has more than least_in +
 * 3 slots. */
static void set_buffers(struct vp_schedule *schedule,
                        const struct vp_sched_list *lists, int s, int wanted)
{
    struct vp_schedule_stage *stage = &schedule->stages[s];
    int least_in = 1;

    for (int r = 0; r < stage->n_replicas; r++) {
        int n = count_read(schedule, &lists[stage->first_rank + r], s);

        least_in = n > least_in ? n : least_in;
    }
    if (wanted == VP_SWAP_DEFAULT)
        wanted = least_in + (stage->n_slots > least_in + 3 ? 2 : 1);
    stage->n_swap_out = wanted > least_in + 2 ? 2 : 1;
    stage->n_swap_in = wanted > least_in + 1 ? least_in + 1 : least_in;
    if (stage->n_swap_out + stage->n_swap_in >= stage->n_slots)
        stage->n_swap_out = stage->n_swap_in = 0;
}

/* ---- Actions ------------------------------------------------------------ */

static int own_index(const struct writer *w, int mb)
{
    return vp_schedule_own_index(w->schedule, w->stage, mb);
}

static int mb_of(const struct writer *w, int own, const struct vp_action *like)
{
    int n_replicas = w->schedule->stages[w->stage].n_replicas;

    return like->mb + (own - own_index(w, like->mb)) * n_replicas;
}

static void put(struct writer *w, enum vp_action_kind kind, int own,
                const struct vp_action *like)
{
    vp_sched_list_put(w->out, kind, w->stage, mb_of(w, own, like));
}

static void free_up_to(struct writer *w, int own, const struct vp_action *like)
{
    for (; w->n_freed <= own; w->n_freed++)
        put(w, VP_ACTION_SWAP_FREE, w->n_freed, like);
}

/* Inserts SWAP_IN up to own index `own`, as far as F has run and there is a
 * free buffer. */
static void fetch_up_to(struct writer *w, int own, const struct vp_action *like)
{
    for (; w->n_fetched <= own && w->n_fetched < w->n_forward &&
           w->n_fetched < w->n_done + w->n_in;
         w->n_fetched++) {
        free_up_to(w, w->n_fetched, like);
        put(w, VP_ACTION_SWAP_IN, w->n_fetched, like);
    }
}

/* Returns the own index of the minibatch if the stage's next computation after
 * position `at` is a backward (R or B); -1: it is not. */
static int backward_after(const struct writer *w, int at)
{
    for (int i = at + 1; i < w->in->n; i++) {
        const struct vp_action *a = &w->in->at[i];

        if (a->stage == w->stage && vp_action_computes(a->kind))
            return a->kind == VP_ACTION_B || a->kind == VP_ACTION_R
                       ? own_index(w, a->mb)
                       : -1;
    }
    return -1;
}

/* Returns the position of the action that reads the message received at `at`,
 * or `at` if that action is no receive. */
static int reader_of(const struct writer *w, int at)
{
    enum vp_action_kind kind = w->in->at[at].kind;

    if (kind != VP_ACTION_RECV_ACT && kind != VP_ACTION_RECV_GRAD)
        return at;
    while (w->in->at[at].stage != w->stage ||
           !vp_action_computes(w->in->at[at].kind))
        at++;
    return at;
}

static void put_before(struct writer *w, int at)
{
    int reader = reader_of(w, at), next = backward_after(w, reader);
    const struct vp_action *a = &w->in->at[at], *b = &w->in->at[reader];
    int own = own_index(w, b->mb);
    bool recompute = w->schedule->stages[w->stage].recompute;

    if (!vp_action_computes(b->kind))
        return;
    if (next >= 0)
        fetch_up_to(w, next, b);
    if (b->kind == VP_ACTION_R || b->kind == VP_ACTION_B)
        fetch_up_to(w, own + w->n_in - 1, b);
    if (a->kind == VP_ACTION_F)
        free_up_to(w, own - w->n_out, a);
    if (a->kind == (recompute ? VP_ACTION_R : VP_ACTION_B))
        put(w, VP_ACTION_SWAP_READY, own, a);
}

/* Copies begin after the messages of the action were sent, which have
 * priority. */
static void put_after(struct writer *w, const struct vp_action *a)
{
    enum vp_action_kind last = vp_schedule_last_kind(w->schedule);
    bool is_first = w->stage == 0;
    bool is_last = w->stage == w->schedule->n_stages - 1;

    if (a->kind == VP_ACTION_F)
        w->n_forward = own_index(w, a->mb) + 1;
    if (a->kind == (is_last ? VP_ACTION_F : VP_ACTION_SEND_ACT))
        put(w, VP_ACTION_SWAP_OUT, own_index(w, a->mb), a);
    if (a->kind == last)
        w->n_done = own_index(w, a->mb) + 1;
    if (a->kind ==
        (last == VP_ACTION_B && !is_first ? VP_ACTION_SEND_GRAD : last))
        fetch_up_to(w, w->n_done + w->n_in - 1, a);
}

/* ---- The pass ----------------------------------------------------------- */

static struct writer writer_of(const struct vp_schedule *schedule,
                               const struct vp_node *node,
                               const struct vp_sched_list *in,
                               struct vp_sched_list *out)
{
    const struct vp_schedule_stage *stage = &schedule->stages[node->stage];
    const struct vp_sched_range *range = node->range;

    return (struct writer){
        .schedule = schedule,
        .in = in,
        .out = out,
        .stage = node->stage,
        .n_out = stage->n_swap_out,
        .n_in = stage->n_swap_in,
        .n_freed = range[VP_ACTION_SWAP_FREE].begin,
        .n_fetched = range[VP_ACTION_SWAP_IN].begin,
        .n_forward = range[VP_ACTION_F].begin,
        .n_done = range[vp_schedule_last_kind(schedule)].begin,
    };
}

static enum vp_status write_node(const struct vp_schedule *schedule,
                                 const struct vp_node *node,
                                 struct vp_sched_list *list)
{
    struct vp_sched_list out = { .at = NULL };
    struct writer w = writer_of(schedule, node, list, &out);
    bool failed;

    for (int i = 0; i < list->n; i++) {
        const struct vp_action *a = &list->at[i];

        if (a->stage == node->stage)
            put_before(&w, i);
        vp_sched_list_push(&out, *a);
        if (a->stage == node->stage)
            put_after(&w, a);
    }
    failed = list->failed || out.failed;
    vp_sched_list_release(list);
    *list = out;
    return failed ? VP_ERR_NOMEM : VP_OK;
}

enum vp_status vp_pass_swap(struct vp_schedule *schedule,
                            struct vp_sched_list *lists, const int *swap)
{
    enum vp_status st = VP_OK;
    struct vp_nodes nodes;

    for (int s = 0; s < schedule->n_stages; s++)
        if (swap[s] != 0)
            set_buffers(schedule, lists, s, swap[s]);
    nodes = vp_nodes_make(schedule);
    if (!nodes.at)
        return VP_ERR_NOMEM;
    for (int i = 0; st == VP_OK && i < nodes.n; i++)
        if (schedule->stages[nodes.at[i].stage].n_swap_out > 0)
            st = write_node(schedule, &nodes.at[i], &lists[nodes.at[i].rank]);
    vp_nodes_release(&nodes);
    return st;
}
