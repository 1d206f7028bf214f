/* The original's plan: {"partition": [...], "recompute_ratio": [...]}, the
 * blocks of every stage and the share of it that is recomputed. */
#ifndef VP_CONFIG_PLAN_FILE_H
#define VP_CONFIG_PLAN_FILE_H

#include "config/keys.h"

/* Reads the file that `entry` names and sets both keys. Without the second one
 * nothing is recomputed. */
enum vp_status vp_plan_read(const struct vp_entry *entry,
                            struct vp_config *config, struct vp_err *err);

/* The same for a file that was read; `via` is where it was named. */
enum vp_status vp_plan_take(const char *path, const struct vp_yaml_node *root,
                            const char *via, struct vp_config *config,
                            struct vp_err *err);

#endif
