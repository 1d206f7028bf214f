/* The original's placement of stages on ranks:
 *
 *   {"module_to_stage_map": [0, 1, 2, 2],
 *    "stage_to_rank_map": {"0": [0], "1": [1], "2": [2, 3]},
 *    "stage_to_depth_map": {"0": 3, "1": 2, "2": 0},
 *    "mp_size": 1}
 *
 * Only the second one is needed. Modules are the stages and, on the last one,
 * the loss; or the blocks, with or without the loss. */
#ifndef VP_CONFIG_PLACEMENT_H
#define VP_CONFIG_PLACEMENT_H

#include "config/keys.h"

struct vp_placement {
    const char *place; /* of stage_to_rank_map: "mp_conf.json:3" */
    int n_stages;
    struct vp_int_list replicas; /* as it set them: other keys may have won */
    struct vp_int_list ranks;
    const char *modules_place;
    struct vp_int_list modules; /* their stages; may be empty */
};

/* Reads the file that `entry` names, sets replicas, ranks, warmup_depths and
 * mp_size, and keeps the rest as config->placement. */
enum vp_status vp_placement_read(const struct vp_entry *entry,
                                 struct vp_config *config, struct vp_err *err);

/* The same for a file that was read; `via` is where it was named. */
enum vp_status vp_placement_take(const char *path,
                                 const struct vp_yaml_node *root,
                                 const char *via, struct vp_config *config,
                                 struct vp_err *err);

#endif
