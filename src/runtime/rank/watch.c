/* Tracks the actions of ranks, and writes a report when one waits too long. */
#include "runtime/rank/watch.h"

#include "base/cores.h"
#include "base/strbuf.h"
#include "graph/opdef.h"
#include "runtime/rank/device_log.h"
#include "runtime/rank/internal.h"
#include "runtime/rank/watch_count.h"

#include <stdio.h>

/* Returns the number of an action's minibatch or round in the whole run. A
 * repeat of a synchronous list is a round; a stream counts rounds from its first
 * minibatch, after `version_begin` earlier rounds of the stage. */
static int32_t run_number(const struct vp_rank *rank,
                          const struct vp_action *action)
{
    const struct vp_job *job = rank->job;

    if (action->kind != VP_ACTION_REDUCE && action->kind != VP_ACTION_UPDATE)
        return (int32_t)run_minibatch(rank, action->mb);
    if (job->sync)
        return (int32_t)(job->first_mb / job->schedule->n_mb + rank->repeat);
    return sched_stage_of(rank, action->stage)->version_begin + action->mb;
}

void vp_watch_begin(struct vp_rank *rank, int action)
{
    const struct vp_action *at = &list_of(rank)->actions[action];
    struct vp_action shown = *at;

    if (at->peer >= 0)
        shown.peer = vp_rank_number(rank->pipeline, peer_of(rank, at));
    vp_blackbox_begin(rank->blackbox, &shown, run_number(rank, at),
                      rank->job->kind == VP_JOB_EVAL, vp_clock_ns());
    atomic_store_explicit(&rank->doing, action, memory_order_release);
    rank->waited_ns = 0;
    rank->summed_ns = 0;
    rank->action_flops = 0.0;
    vp_device_log_begin(rank, at);
}

void vp_watch_end(struct vp_rank *rank)
{
    const struct vp_action *action =
        &list_of(rank)->actions[atomic_load_explicit(&rank->doing,
                                                     memory_order_relaxed)];
    struct vp_trace_event event = {
        .start_ns = atomic_load_explicit(&rank->blackbox->since_ns,
                                         memory_order_relaxed),
        .end_ns = vp_clock_ns(),
        .wait_ns = rank->waited_ns,
        .mb = run_number(rank, action),
        .stage = (int16_t)action->stage,
        .kind = (uint8_t)action->kind,
        .eval = rank->job->kind == VP_JOB_EVAL,
    };

    vp_blackbox_end(rank->blackbox);
    if (rank->device_log) {
        vp_device_log_end(rank, action, &event);
        return;
    }
    vp_watch_count_work(rank, &event, rank->summed_ns);
    rank->flops += rank->action_flops;
    vp_recorder_add(rank->recorder, event);
}

void vp_watch_rest(struct vp_rank *rank)
{
    atomic_store(&rank->doing, -1);
    vp_blackbox_rest(rank->blackbox);
}

void vp_watch_begin_wait(struct vp_rank *rank)
{
    atomic_store_explicit(&rank->blackbox->waits_ns, vp_clock_ns(),
                          memory_order_relaxed);
}

int64_t vp_watch_end_wait(struct vp_rank *rank, enum vp_status st)
{
    int64_t ns = vp_clock_ns() - atomic_load_explicit(&rank->blackbox->waits_ns,
                                                      memory_order_relaxed);

    if (st != VP_OK)
        return ns;
    rank->waited_ns += ns;
    atomic_store_explicit(&rank->blackbox->waits_ns, 0, memory_order_relaxed);
    if (rank->device_log)
        return 0;
    rank->wait_ns += ns;
    return ns;
}

struct vp_mark vp_watch_mark(struct vp_rank *rank)
{
    int64_t ns = vp_device_log_catch_up(rank);

    if (ns == 0)
        ns = vp_clock_ns();
    return (struct vp_mark){ ns + rank->pipeline->behind_ns, rank->wait_ns,
                             rank->flops };
}

/* ---- The diagnosis ------------------------------------------------------ */

static const struct vp_action *doing(const struct vp_rank *rank)
{
    int i = atomic_load(&rank->doing);

    if (i < 0 || !rank->job || !rank->job->schedule)
        return NULL;
    return &list_of(rank)->actions[i];
}

bool vp_watch_is_waiting(const struct vp_rank *rank)
{
    return atomic_load(&rank->blackbox->waits_ns) != 0;
}

/* Returns true if the rank waits for a copy of its own swapped values, not for
 * another rank. */
static bool waits_for_copy(const struct vp_rank *rank)
{
    const struct vp_action *action = doing(rank);

    return action && vp_watch_is_waiting(rank) &&
           (action->kind == VP_ACTION_SWAP_FREE ||
            action->kind == VP_ACTION_SWAP_READY);
}

/* Returns the seconds since the action began, or since the process was last
 * frozen. */
static double seconds_in(const struct vp_rank *rank)
{
    int64_t since = atomic_load(&rank->blackbox->since_ns);
    int64_t resumed = atomic_load(&rank->pipeline->resumed_ns);

    return vp_clock_seconds(since > resumed ? since : resumed, vp_clock_ns());
}

/* Returns true if the rank waits for other members of its tensor-parallel
 * group. */
static bool waits_for_members(const struct vp_rank *rank)
{
    return vp_watch_is_waiting(rank) && vp_rank_waits_in(rank);
}

/* Returns a member of the group that has not reached the same sum; -1: all
 * have. */
static int late_member(const struct vp_rank *ranks, const struct vp_rank *rank)
{
    int n = rank->pipeline->n_members, first = rank->group * n;

    for (int r = first; ranks && r < first + n; r++)
        if (r != rank->index && !waits_for_members(&ranks[r]))
            return r;
    return -1;
}

/* Returns the rank that this one waits for; -1: it computes, or waits for
 * several. `ranks` NULL: the state of other ranks is unknown. */
static int waits_for(const struct vp_rank *ranks, const struct vp_rank *rank)
{
    const struct vp_action *action = doing(rank);

    if (!action || !vp_watch_is_waiting(rank))
        return -1;
    if (waits_for_members(rank))
        return late_member(ranks, rank);
    return peer_of(rank, action);
}

static bool is_receive(const struct vp_action *action)
{
    return action && (action->kind == VP_ACTION_RECV_ACT ||
                      action->kind == VP_ACTION_RECV_GRAD);
}

/* Returns true if the action of this minibatch belongs to a piece of the stream
 * that `peer` has finished. */
static bool is_in_earlier_piece(const struct vp_rank *peer,
                                enum vp_action_kind kind, int stage, int mb)
{
    const struct vp_rank_list *list = list_of(peer);

    for (int i = 0; !peer->job->sync && i < list->n_actions; i++)
        if (list->actions[i].kind == kind && list->actions[i].stage == stage)
            /* The first has the smallest number. */
            return list->actions[i].mb > mb;
    return false;
}

/* Returns true if `rank` waits for a message that its sender has sent
 * already. */
static bool is_lost(const struct vp_rank *ranks, const struct vp_rank *rank)
{
    const struct vp_action *want = doing(rank);
    const struct vp_action *sent;
    const struct vp_rank *peer;
    enum vp_action_kind kind;
    int stage;

    if (!is_receive(want) || !vp_watch_is_waiting(rank) || want->peer < 0)
        return false;
    peer = &ranks[peer_of(rank, want)];
    kind = want->kind == VP_ACTION_RECV_ACT ? VP_ACTION_SEND_ACT
                                            : VP_ACTION_SEND_GRAD;
    stage = want->stage + (kind == VP_ACTION_SEND_ACT ? -1 : 1);
    if (peer->repeat != rank->repeat || !doing(peer))
        return false;
    sent = list_of(peer)->actions;
    for (int i = 0; i < atomic_load(&peer->doing); i++)
        if (sent[i].kind == kind && sent[i].stage == stage &&
            sent[i].mb == want->mb)
            return true;
    return is_in_earlier_piece(peer, kind, stage, want->mb);
}

/* Finds the rank that holds up the others: follows the waits from `rank`; if
 * they form a circle, looks for any rank that computes. */
static int find_culprit(const struct vp_rank *ranks, int n_ranks, int rank)
{
    int at = rank < 0 ? 0 : rank;

    for (int hops = 0; hops <= n_ranks; hops++) {
        int next = waits_for(ranks, &ranks[at]);

        if (next < 0 || next == at)
            break;
        at = next;
    }
    if (waits_for_copy(&ranks[at]))
        return at;
    for (int r = 0; vp_watch_is_waiting(&ranks[at]) && r < n_ranks; r++)
        if (doing(&ranks[r]) && !vp_watch_is_waiting(&ranks[r]))
            return r;
    return at;
}

static void describe_members(struct vp_strbuf *out, const struct vp_rank *rank)
{
    const struct vp_op *op = vp_rank_waits_in(rank);
    const struct vp_pipeline *pipeline = rank->pipeline;
    int first = rank->group * pipeline->n_members;

    vp_strbuf_addf(out, ", waits in %s of block %d for ranks %d to %d",
                   vp_op_defs[op->kind].name, op->block,
                   vp_rank_number(pipeline, first),
                   vp_rank_number(pipeline, first + pipeline->n_members - 1));
}

static void describe(struct vp_strbuf *out, const struct vp_rank *rank)
{
    const struct vp_action *action = doing(rank);
    int number = vp_rank_number(rank->pipeline, rank->index);
    char text[64];

    if (!action) {
        vp_strbuf_addf(out, "\n  rank %d: idle, %lld actions done", number,
                       (long long)atomic_load(&rank->blackbox->n_actions));
        return;
    }
    vp_action_print(action, text, sizeof(text));
    vp_strbuf_addf(out, "\n  rank %d: stage %d, minibatch %d, %s for %.1f s",
                   number, action->stage, action->mb, text, seconds_in(rank));
    if (waits_for_members(rank))
        describe_members(out, rank);
    else if (vp_watch_is_waiting(rank) && action->peer >= 0)
        vp_strbuf_addf(out, ", waits for rank %d",
                       vp_rank_number(rank->pipeline, peer_of(rank, action)));
    else if (waits_for_copy(rank))
        vp_strbuf_addf(out, ", waits for a copy of swapped values");
    else if (vp_watch_is_waiting(rank))
        vp_strbuf_addf(out, ", waits for the others");
    else
        vp_strbuf_addf(out, ", computes");
    vp_strbuf_addf(out, "; %lld actions done",
                   (long long)atomic_load(&rank->blackbox->n_actions));
}

/* If this process hardly got CPU time, adds that to the report and returns
 * true. */
static bool say_starved(struct vp_strbuf *out,
                        const struct vp_pipeline *pipeline)
{
    const struct vp_cores before = { atomic_load(&pipeline->cores.ran_ns),
                                     atomic_load(&pipeline->cores.delayed_ns) };
    const struct vp_cores now = vp_cores_read();
    int64_t at = atomic_load(&pipeline->cores.at_ns), ns = vp_clock_ns() - at;

    if (at == 0 || !vp_cores_starved(&before, &now, ns))
        return false;
    vp_strbuf_addf(
        out,
        "starved: in %.1f s the threads of this process ran for %.1f s "
        "and waited %.1f s for a core; see what else runs here; it is ",
        (double)ns * 1e-9, (double)(now.ran_ns - before.ran_ns) * 1e-9,
        (double)(now.delayed_ns - before.delayed_ns) * 1e-9);
    return true;
}

static void accuse(struct vp_strbuf *out, const struct vp_rank *ranks,
                   int n_ranks, const struct vp_rank *culprit)
{
    double limit = (double)culprit->pipeline->config->timeout_ms * 1e-3;
    const struct vp_action *action = doing(culprit);
    char text[64] = "nothing";

    for (int r = 0; r < n_ranks; r++)
        if (is_lost(ranks, &ranks[r])) {
            action = doing(&ranks[r]);
            vp_action_print(action, text, sizeof(text));
            vp_strbuf_addf(
                out,
                "the message for %s, stage %d, minibatch %d was sent "
                "by rank %d and never reached rank %d",
                text, action->stage, action->mb,
                vp_rank_number(culprit->pipeline, peer_of(&ranks[r], action)),
                vp_rank_number(culprit->pipeline, r));
            return;
        }
    if (action)
        vp_action_print(action, text, sizeof(text));
    vp_strbuf_addf(out, "rank %d is ",
                   vp_rank_number(culprit->pipeline, culprit->index));
    if (!say_starved(out, culprit->pipeline))
        vp_strbuf_addf(
            out, "%s: ", seconds_in(culprit) < 0.8 * limit ? "slow" : "stuck");
    vp_strbuf_addf(out, "in %s, stage %d, minibatch %d for %.1f s", text,
                   action ? action->stage : -1, action ? action->mb : -1,
                   seconds_in(culprit));
}

/* Reports with the state of this process only: that of other processes is
 * unknown. */
static void report_here(struct vp_strbuf *out, const struct vp_rank *rank)
{
    const struct vp_action *action = doing(rank);
    int peer = waits_for(NULL, rank);
    char text[64];

    if (action && peer >= 0) {
        vp_action_print(action, text, sizeof(text));
        vp_strbuf_addf(out,
                       "rank %d, another process, did not do its part of %s",
                       vp_rank_number(rank->pipeline, peer), text);
    } else if (waits_for_members(rank)) {
        vp_strbuf_addf(out, "other members of its tensor-parallel group did "
                            "not do their part");
    } else if (waits_for_copy(rank)) {
        vp_strbuf_addf(out, "a copy of swapped values was not made");
    } else {
        vp_strbuf_addf(out, "other processes did not do their part");
    }
    describe(out, rank);
}

void vp_watch_report(const struct vp_rank *ranks, int n_ranks, int rank,
                     struct vp_err *err)
{
    const struct vp_pipeline *pipeline = ranks[0].pipeline;
    double limit = (double)pipeline->config->timeout_ms * 1e-3;
    struct vp_strbuf out = VP_STRBUF_INIT;

    if (rank < 0)
        vp_strbuf_addf(&out, "nothing happened for %.1f s; ", limit);
    else
        vp_strbuf_addf(&out, "rank %d waited %.1f s; ",
                       vp_rank_number(pipeline, rank), limit);
    if (pipeline->remote) {
        report_here(&out, &ranks[pipeline->me]);
    } else {
        accuse(&out, ranks, n_ranks,
               &ranks[find_culprit(ranks, n_ranks, rank)]);
        for (int r = 0; r < n_ranks; r++)
            describe(&out, &ranks[r]);
    }
    vp_err_set(err, VP_ERR_TIMEOUT, "%s", vp_strbuf_text(&out));
    vp_strbuf_release(&out);
}
