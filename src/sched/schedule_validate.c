/* Proves a schedule: checks each list for itself, then runs all together. */
#include "sched/internal.h"

enum vp_status vp_schedule_validate(const struct vp_schedule *schedule,
                                    struct vp_err *err)
{
    struct vp_nodes nodes = vp_nodes_make(schedule);
    enum vp_status st;

    if (!nodes.at)
        return vp_err_set(err, VP_ERR_NOMEM, "schedule: out of memory");
    st = vp_check_lists(schedule, &nodes, err);
    if (st == VP_OK)
        st = vp_run_lists(schedule, &nodes, NULL, NULL, err);
    vp_nodes_release(&nodes);
    return st;
}
