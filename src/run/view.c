#include "run/view.h"

#include "job/blackbox_file.h"

#include <stdlib.h>

enum vp_status vp_view_open(struct vp_view *view,
                            const struct vp_config *config,
                            const struct vp_world *world,
                            struct vp_heartbeat *heartbeat, struct vp_err *err)
{
    size_t n = (size_t)vp_config_n_ranks(config);

    *view = (struct vp_view){ .blackboxes = calloc(
                                  n, sizeof(struct vp_blackbox *)),
                              .heartbeat = heartbeat };
    while (world && !vp_world_is_mine(world, view->rank))
        view->rank++;
    if (view->blackboxes)
        view->blackboxes[view->rank] = vp_blackbox_map();
    if (!view->blackboxes || !view->blackboxes[view->rank])
        return vp_err_set(err, VP_ERR_NOMEM, "starting a rank: out of memory");
    vp_heartbeat_show(heartbeat, view->blackboxes[view->rank]);
    return VP_OK;
}

enum vp_status vp_view_keep(struct vp_view *view,
                            const struct vp_config *config, const char *folder,
                            struct vp_err *err)
{
    VP_TRY(vp_blackbox_file_keep(view->blackboxes[view->rank], folder,
                                 vp_config_rank_number(config, view->rank),
                                 err));
    vp_heartbeat_set_folder(view->heartbeat, folder);
    return VP_OK;
}

void vp_view_close(struct vp_view *view)
{
    free(view->blackboxes);
    *view = (struct vp_view){ .blackboxes = NULL };
}
