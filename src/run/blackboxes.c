#include "run/blackboxes.h"

#include "job/blackbox_file.h"

#include <stdlib.h>

enum vp_status vp_blackboxes_open(struct vp_blackboxes *boxes,
                                  const struct vp_config *config,
                                  const struct vp_world *world,
                                  struct vp_heartbeat *heartbeat,
                                  struct vp_err *err)
{
    size_t n = (size_t)vp_config_n_ranks(config);

    *boxes = (struct vp_blackboxes){
        .at = calloc(n, sizeof(struct vp_blackbox *)), .heartbeat = heartbeat
    };
    while (world && !vp_world_is_mine(world, boxes->rank))
        boxes->rank++;
    if (boxes->at)
        boxes->at[boxes->rank] = vp_blackbox_map();
    if (!boxes->at || !boxes->at[boxes->rank])
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
