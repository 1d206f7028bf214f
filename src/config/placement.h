/* Placement files: vPipe's format for the placement of stages on ranks:
 *
 *   {"module_to_stage_map": [0, 1, 2, 2],
 *    "stage_to_rank_map": {"0": [0], "1": [1], "2": [2, 3]},
 *    "stage_to_depth_map": {"0": 3, "1": 2, "2": 0},
 *    "mp_size": 1}
 *
 * Only stage_to_rank_map is required. module_to_stage_map has an entry per
 * stage and one for the loss, or an entry per block, with or without one for
 * the loss. */
#ifndef VP_CONFIG_PLACEMENT_H
#define VP_CONFIG_PLACEMENT_H

#include "config/keys.h"

struct vp_placement {
    const char *place; /* place of stage_to_rank_map: "mp_conf.json:3" */
    int n_stages;
    struct vp_int_list replicas; /* as read; a key may have replaced it */
    struct vp_int_list ranks;
    const char *modules_place;  /* place of module_to_stage_map */
    struct vp_int_list modules; /* stage of each module; may be empty */
};

/* Reads the file that `entry` names, sets replicas, ranks, warmup_depths and
 * mp_size, and keeps the rest as config->placement. */
enum vp_status vp_placement_read(const struct vp_entry *entry,
                                 struct vp_config *config, struct vp_err *err);

/* The same for a file that was parsed; `via` is the place that named it. */
enum vp_status vp_placement_take(const char *path,
                                 const struct vp_yaml_node *root,
                                 const char *via, struct vp_config *config,
                                 struct vp_err *err);

#endif
