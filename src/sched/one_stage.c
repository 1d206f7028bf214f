/* Generators for one stage per rank, with any replicas and depths: 1f1b, gpipe,
 * zb-h1 and zb-h2. */
#include "sched/internal.h"

/* Forward i, then backward i - depth; the remaining backwards drain the
 * pipeline.
 *
 *   stage 0 of 3   F0 F1 F2 B0 F3 B1 F4 B2 B3 B4
 *   stage 1        F0 F1 B0 F2 B1 F3 B2 F4 B3 B4
 *   stage 2        F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
 */
void vp_generate_1f1b(const struct vp_schedule *schedule,
                      const struct vp_node *node, struct vp_sched_list *out)
{
    struct vp_sched_range f = node->range[VP_ACTION_F],
                          b = node->range[VP_ACTION_B];
    int depth = schedule->stages[node->stage].depth;

    for (int i = f.begin; i < f.end; i++) {
        vp_sched_list_put(out, VP_ACTION_F, node->stage,
                          vp_node_mb(schedule, node, i));
        if (i >= depth)
            vp_sched_list_put(out, VP_ACTION_B, node->stage,
                              vp_node_mb(schedule, node, b.begin++));
    }
    while (b.begin < b.end)
        vp_sched_list_put(out, VP_ACTION_B, node->stage,
                          vp_node_mb(schedule, node, b.begin++));
}

static void generate_all(const struct vp_schedule *schedule,
                         const struct vp_node *node, enum vp_action_kind kind,
                         struct vp_sched_list *out)
{
    for (int i = node->range[kind].begin; i < node->range[kind].end; i++)
        vp_sched_list_put(out, kind, node->stage,
                          vp_node_mb(schedule, node, i));
}

/* Backwards are in minibatch order, too, so that gradients are added in the
 * same order as in every schedule. */
void vp_generate_gpipe(const struct vp_schedule *schedule,
                       const struct vp_node *node, struct vp_sched_list *out)
{
    generate_all(schedule, node, VP_ACTION_F, out);
    generate_all(schedule, node, VP_ACTION_B, out);
}

/* ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024): 1f1b with W
 * split from B. Each stage defers its first W by the difference between the
 * depth of stage 0 and its own. The deferred W fill the wait for the last
 * backwards, and no rank keeps more minibatches than stage 0 does in 1f1b.
 *
 *   stage 0 of 2   F0 F1 B0 W0 F2 B1 W1 B2 W2
 *   stage 1        F0 B0 F1 B1 W0 F2 B2 W1 W2
 *
 * ZB-H2 is the same with twice the depths: every rank ends late by the same
 * time by which it starts late and never waits in between, with 2P - 1
 * minibatches in flight.
 *
 *   stage 0 of 2   F0 F1 F2 B0 W0 B1 W1 B2 W2
 *   stage 1        F0 B0 F1 B1 F2 B2 W0 W1 W2
 */
void vp_generate_zb_h(const struct vp_schedule *schedule,
                      const struct vp_node *node, struct vp_sched_list *out)
{
    int lag = schedule->stages[0].depth - schedule->stages[node->stage].depth;
    int n_b = 0, w = 0, n = node->range[VP_ACTION_W].end;
    struct vp_sched_list list = { .at = NULL };

    vp_generate_1f1b(schedule, node, &list);
    for (int i = 0; i < list.n; i++) {
        vp_sched_list_push(out, list.at[i]);
        if (list.at[i].kind == VP_ACTION_B && n_b++ >= lag)
            vp_sched_list_put(out, VP_ACTION_W, node->stage,
                              vp_node_mb(schedule, node, w++));
    }
    while (w < n)
        vp_sched_list_put(out, VP_ACTION_W, node->stage,
                          vp_node_mb(schedule, node, w++));
    out->failed = out->failed || list.failed;
    vp_sched_list_release(&list);
}
