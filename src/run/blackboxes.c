/* Creates the blackboxes of this process's ranks, and connects them with the
 * heartbeat and the run folder. */
#include "run/blackboxes.h"

#include "job/blackbox_file.h"

#include <stdlib.h>

enum vp_status vp_blackboxes_open(struct vp_blackboxes *boxes,
                                  const struct vp_config *config,
                                  const struct vp_world *world,
                                  struct vp_heartbeat *heartbeat,
                                  struct vp_err *err)
{
    int n = vp_config_n_ranks(config);
    bool failed;

    *boxes = (struct vp_blackboxes){ .at = calloc((size_t)n,
                                                  sizeof(struct vp_blackbox *)),
                                     .heartbeat = heartbeat };
    while (world && !vp_world_is_mine(world, boxes->rank))
        boxes->rank++;
    failed = !boxes->at;
    for (int r = boxes->rank; r < n && !failed; r++) {
        if (world && !vp_world_is_mine(world, r))
            continue;
        boxes->at[r] = vp_blackbox_map();
        failed = !boxes->at[r];
    }
    if (failed)
        return vp_err_set(err, VP_ERR_NOMEM, "starting a rank: out of memory");
    vp_heartbeat_show(heartbeat, boxes->at[boxes->rank]);
    return VP_OK;
}

enum vp_status vp_blackboxes_keep(struct vp_blackboxes *boxes,
                                  const struct vp_config *config,
                                  const char *folder, struct vp_err *err)
{
    VP_TRY(vp_blackbox_file_keep(boxes->at[boxes->rank], folder,
                                 vp_config_rank_number(config, boxes->rank),
                                 err));
    vp_heartbeat_set_folder(boxes->heartbeat, folder);
    return VP_OK;
}

void vp_blackboxes_close(struct vp_blackboxes *boxes)
{
    free(boxes->at);
    *boxes = (struct vp_blackboxes){ .at = NULL };
}
