/* The schedule `eval`: forwards only. With one stage per rank they are in
 * minibatch order. With several, the lists come from a simulation in steps of
 * one time unit: of the forwards whose input has arrived, a rank takes that of
 * its latest stage, so that minibatches leave before others enter. The
 * simulation has rings of two buffers, the fewest of any schedule, so that the
 * lists work with the rings of training. */
#include "sched/internal.h"

#include <stdlib.h>

enum { RING = 2 };

/* One stage: forwards begun, and ended before this step. */
struct lane {
    int n_begun, n_ended;
};

static bool may_start(const struct vp_schedule *schedule,
                      const struct lane *lanes, int k)
{
    const struct lane *lane = &lanes[k];

    if (lane->n_begun == schedule->n_mb)
        return false;
    if (k > 0 && lane[-1].n_ended <= lane->n_begun)
        return false;
    return k == schedule->n_stages - 1 ||
           lane->n_begun - lane[1].n_ended < RING;
}

static int take_step(const struct vp_schedule *schedule, struct lane *lanes,
                     struct vp_sched_list *lists)
{
    int n_done = 0;

    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        const struct vp_rank_list *list = &schedule->ranks[rank];
        int i = list->n_stages - 1;

        while (i >= 0 && !may_start(schedule, lanes, list->stages[i]))
            i--;
        if (i < 0)
            continue;
        vp_sched_list_put(&lists[rank], VP_ACTION_F, list->stages[i],
                          lanes[list->stages[i]].n_begun++);
        n_done++;
    }
    for (int k = 0; k < schedule->n_stages; k++)
        lanes[k].n_ended = lanes[k].n_begun;
    return n_done;
}

static void generate_chunks(const struct vp_schedule *schedule,
                            struct vp_sched_list *lists)
{
    struct lane *lanes = calloc((size_t)schedule->n_stages, sizeof(*lanes));
    int64_t n_left = (int64_t)schedule->n_stages * schedule->n_mb;

    lists[0].failed = !lanes;
    while (lanes && n_left > 0)
        n_left -= take_step(schedule, lanes, lists);
    free(lanes);
}

void vp_generate_eval(const struct vp_schedule *schedule,
                      struct vp_sched_list *lists)
{
    if (schedule->n_stages > schedule->n_ranks) {
        generate_chunks(schedule, lists);
        return;
    }
    for (int s = 0; s < schedule->n_stages; s++)
        for (int mb = 0; mb < schedule->n_mb; mb++)
            vp_sched_list_put(&lists[vp_schedule_rank_of(schedule, s, mb)],
                              VP_ACTION_F, s, mb);
}
