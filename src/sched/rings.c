/* Sizes of message rings for ranks that own several stages. There a message may
 * have to wait while its receiver is busy with another chunk, so "slots + 1"
 * buffers would block the sender or deadlock the pipeline. Each ring gets the
 * largest number of messages that are under way at once in a simulation with
 * unlimited rings, at unit costs or at those that a schedule is made for. */
#include "sched/internal.h"

#include <stdlib.h>

/* Per stage and minibatch: start of F and of B, and the time at which all
 * buffers of the minibatch are free. */
struct clock {
    double *f, *b, *freed;
};

static void read_clock(const struct vp_schedule *schedule,
                       const struct vp_span *spans, struct clock *clock)
{
    for (int i = 0; i < schedule->n_actions; i++) {
        const struct vp_action *a = &schedule->actions[i];
        size_t at = (size_t)a->stage * (size_t)schedule->n_mb + (size_t)a->mb;

        if (a->kind == VP_ACTION_F)
            clock->f[at] = spans[i].start;
        if (a->kind == VP_ACTION_B)
            clock->b[at] = spans[i].start;
        if (a->kind == vp_schedule_last_kind(schedule))
            clock->freed[at] = spans[i].end;
    }
}

/* Minibatch m needs a buffer from made[m] to freed[m]. Returns the largest
 * number of buffers in use at once on one replica, which runs every
 * `n_replicas`-th minibatch. */
static int most_under_way(const double *made, const double *freed, int n_mb,
                          int n_replicas)
{
    int most = 0;

    for (int replica = 0; replica < n_replicas; replica++) {
        int n_made = 0, n_freed = 0;

        for (int m = replica; m < n_mb; m += n_replicas) {
            n_made++;
            while (n_freed < n_made - 1 &&
                   freed[n_freed * n_replicas + replica] <= made[m])
                n_freed++;
            if (n_made - n_freed > most)
                most = n_made - n_freed;
        }
    }
    return most;
}

static void widen(struct vp_schedule *schedule, const struct clock *clock,
                  const struct vp_schedule_stage *before)
{
    int n = schedule->n_mb;

    for (int s = 0; s < schedule->n_stages; s++) {
        struct vp_schedule_stage *stage = &schedule->stages[s];
        size_t at = (size_t)s * (size_t)n;

        *stage = before[s];
        if (s > 0) {
            int act = most_under_way(clock->f + at - n, clock->freed + at, n,
                                     stage->n_replicas);

            if (act > stage->n_act_bufs)
                stage->n_act_bufs = act;
        }
        if (s < schedule->n_stages - 1) {
            int grad = most_under_way(clock->b + at + n, clock->freed + at, n,
                                      stage->n_replicas);

            if (grad > stage->n_grad_bufs)
                stage->n_grad_bufs = grad;
        }
    }
}

static enum vp_status run_endless(struct vp_schedule *schedule,
                                  const struct vp_sched_costs *costs,
                                  struct vp_span *spans)
{
    size_t n = (size_t)schedule->n_stages;
    struct vp_stage_costs *unit = calloc(n, sizeof(*unit));
    struct vp_nodes nodes = vp_nodes_make(schedule);
    enum vp_status st = unit && nodes.at ? VP_OK : VP_ERR_NOMEM;

    for (size_t s = 0; st == VP_OK && s < n; s++) {
        unit[s] = (struct vp_stage_costs){ .f = 1.0, .b = 1.0, .w = 1.0 };
        schedule->stages[s].n_act_bufs = schedule->n_mb;
        schedule->stages[s].n_grad_bufs = schedule->n_mb;
    }
    if (st == VP_OK)
        st = vp_run_lists(schedule, &nodes,
                          costs ? costs
                                : &(struct vp_sched_costs){ .stages = unit },
                          spans, NULL);
    vp_nodes_release(&nodes);
    free(unit);
    return st;
}

enum vp_status vp_pass_rings(struct vp_schedule *schedule,
                             const struct vp_sched_costs *costs)
{
    size_t n_stages = (size_t)schedule->n_stages;
    size_t n = n_stages * (size_t)schedule->n_mb;
    size_t n_actions = (size_t)schedule->n_actions;
    struct vp_schedule_stage *before = calloc(n_stages, sizeof(*before));
    struct vp_span *spans = calloc(n_actions, sizeof(*spans));
    double *times = calloc(3 * n, sizeof(*times));
    enum vp_status st = VP_ERR_NOMEM;

    if (before && spans && times) {
        struct clock clock = { times, times + n, times + 2 * n };

        for (size_t s = 0; s < n_stages; s++)
            before[s] = schedule->stages[s];
        st = run_endless(schedule, costs, spans);
        if (st == VP_OK) {
            read_clock(schedule, spans, &clock);
            widen(schedule, &clock, before);
        }
    }
    free(before);
    free(spans);
    free(times);
    return st;
}
