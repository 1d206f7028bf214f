/* Adds up time and traffic per stage. */
#include "runtime/rank/watch_count.h"

#include "runtime/rank/internal.h"

static struct vp_stage_count *count_of(struct vp_rank *rank, int stage)
{
    int i = 0;

    while (rank->stages[i].index != stage)
        i++;
    return &rank->stages[i].count;
}

void vp_watch_count_work(struct vp_rank *rank,
                         const struct vp_trace_event *event, int64_t summed_ns)
{
    struct vp_stage_count *stage = count_of(rank, event->stage);
    int64_t ns = event->end_ns - event->start_ns - event->wait_ns - summed_ns;

    count(rank, &stage->reduce_ns, summed_ns);
    switch ((enum vp_action_kind)event->kind) {
    case VP_ACTION_F:
        count(rank, &stage->forward_ns, ns);
        count(rank, &stage->n_forward, 1);
        break;
    case VP_ACTION_B:
        count(rank, &stage->backward_ns, ns);
        count(rank, &stage->n_backward, 1);
        break;
    case VP_ACTION_R:
    case VP_ACTION_W:
        count(rank, &stage->backward_ns, ns);
        break;
    case VP_ACTION_REDUCE:
        count(rank, &stage->reduce_ns, ns);
        count(rank, &stage->wait_ns, event->wait_ns);
        break;
    case VP_ACTION_UPDATE:
        count(rank, &stage->update_ns, ns);
        count(rank, &stage->wait_ns, event->wait_ns);
        break;
    case VP_ACTION_SEND_ACT:
    case VP_ACTION_SEND_GRAD:
    case VP_ACTION_RECV_ACT:
    case VP_ACTION_RECV_GRAD:
        count(rank, &stage->message_ns, ns);
        break;
    case VP_ACTION_SWAP_FREE:
    case VP_ACTION_SWAP_READY:
        count(rank, &stage->wait_ns, event->wait_ns);
        break;
    default:
        break;
    }
}

void vp_watch_count_receive(struct vp_rank *rank,
                            const struct vp_trace_event *event)
{
    struct vp_way_count *way =
        &count_of(rank, event->stage)->way[event->kind != VP_ACTION_RECV_ACT];

    count(rank, &way->receive_ns, event->wait_ns);
}

static int64_t read_count(const atomic_llong *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void add_way(const struct vp_way_count *count, struct vp_way_stats *way,
                    struct vp_stage_stats *sum)
{
    way->receive_ns += read_count(&count->receive_ns);
    way->send_ns += read_count(&count->send_ns);
    way->bytes_sent += read_count(&count->bytes_sent);
    way->bytes_received += read_count(&count->bytes_received);
    way->n_sent += read_count(&count->n_sent);
    way->n_received += read_count(&count->n_received);
    sum->receive_ns += read_count(&count->receive_ns);
    sum->send_ns += read_count(&count->send_ns);
    sum->bytes_sent += read_count(&count->bytes_sent);
    sum->bytes_received += read_count(&count->bytes_received);
}

void vp_stage_stats_add(const struct vp_rank_stage *rs,
                        struct vp_stage_stats *sum)
{
    const struct vp_stage_count *count = &rs->count;

    sum->forward_ns += read_count(&count->forward_ns);
    sum->backward_ns += read_count(&count->backward_ns);
    sum->reduce_ns += read_count(&count->reduce_ns);
    sum->update_ns += read_count(&count->update_ns);
    sum->wait_ns += read_count(&count->wait_ns);
    sum->message_ns += read_count(&count->message_ns);
    sum->n_forward += read_count(&count->n_forward);
    sum->n_backward += read_count(&count->n_backward);
    sum->n_sums += read_count(&count->n_sums);
    sum->n_early_sums += read_count(&count->n_early_sums);
    add_way(&count->way[0], &sum->act, sum);
    add_way(&count->way[1], &sum->grad, sum);
}
