/* What stages took: counted by their ranks, or told by those of other
 * processes; summed for who asks. */
#include "runtime/trainer/internal.h"

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

/* All its members are sums of one type. */
static void add_told(const struct vp_stage_stats *told,
                     struct vp_stage_stats *sum)
{
    const int64_t *from = (const int64_t *)told;
    int64_t *to = (int64_t *)sum;

    for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
        to[i] += from[i];
}

static void add_stats(const struct vp_rank *rank,
                      const struct vp_rank_stage *rs,
                      struct vp_stage_stats *sum)
{
    if (rank->is_here)
        vp_stage_stats_add(rs, sum);
    else
        add_told(&rs->told, sum);
}

const struct vp_stage_stats *vp_trainer_stats(struct vp_trainer *trainer)
{
    for (int s = 0; s < trainer->pipeline.n_stages; s++)
        trainer->stats[s] = (struct vp_stage_stats){ 0 };
    for (int r = 0; r < trainer->pipeline.n_ranks; r++)
        for (int i = 0; i < trainer->ranks[r].n_stages; i++) {
            const struct vp_rank_stage *rs = &trainer->ranks[r].stages[i];

            add_stats(&trainer->ranks[r], rs, &trainer->stats[rs->index]);
        }
    return trainer->stats;
}

bool vp_trainer_rank_stats(const struct vp_trainer *trainer, int rank, int i,
                           int *stage_out, struct vp_stage_stats *out)
{
    if (i >= trainer->ranks[rank].n_stages)
        return false;
    *stage_out = trainer->ranks[rank].stages[i].index;
    *out = (struct vp_stage_stats){ 0 };
    add_stats(&trainer->ranks[rank], &trainer->ranks[rank].stages[i], out);
    return true;
}
