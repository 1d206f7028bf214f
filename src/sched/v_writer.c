/* Writes the lists of ranks with two stages from letters such as "FbwfBW". */
#include "sched/internal.h"

#include <string.h>

struct vp_v_writer vp_v_writer_of(const struct vp_schedule *schedule, int rank,
                                  struct vp_sched_list *lists)
{
    return (struct vp_v_writer){
        .list = &lists[rank],
        .stages = { rank, schedule->n_stages - 1 - rank },
        .n_mb = schedule->n_mb,
    };
}

static void put_letter(struct vp_v_writer *writer, char letter)
{
    static const char letters[] = "FBWfbw";
    static const enum vp_action_kind kinds[] = { VP_ACTION_F, VP_ACTION_B,
                                                 VP_ACTION_W };
    const char *found = strchr(letters, letter);
    int *n;

    VP_BUG_ON(!found);
    n = &writer->n[found - letters];
    if (*n < writer->n_mb)
        vp_sched_list_put(writer->list, kinds[(found - letters) % 3],
                          writer->stages[(found - letters) / 3], (*n)++);
}

void vp_v_write(struct vp_v_writer *writer, const char *word, int times)
{
    for (int i = 0; i < times; i++)
        for (const char *letter = word; *letter; letter++)
            put_letter(writer, *letter);
}

void vp_v_write_oldest_w(struct vp_v_writer *writer)
{
    const struct vp_sched_list *list = writer->list;
    int n_owed = writer->n[VP_V_B] - writer->n[VP_V_W] +
                 writer->n[VP_V_SECOND + VP_V_B] -
                 writer->n[VP_V_SECOND + VP_V_W];
    int i = list->n;

    if (list->failed)
        return;
    VP_BUG_ON(n_owed < 1);
    while (n_owed > 0)
        n_owed -= list->at[--i].kind == VP_ACTION_B;
    put_letter(writer, list->at[i].stage == writer->stages[0] ? 'W' : 'w');
}
