/* Time and traffic per stage, from ranks of this process and from reports of
 * other processes. */
#include "runtime/trainer/trainer.h"

#include "runtime/rank/watch_count.h"
#include "runtime/trainer/internal.h"

/* All members of the struct are int64_t sums. */
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
