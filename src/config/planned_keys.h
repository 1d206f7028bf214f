/* Keys that a search for a plan decides, see key `auto_plan`. `entries`: what the
 * user wrote, by row of the table of keys. */
#ifndef VP_CONFIG_PLANNED_KEYS_H
#define VP_CONFIG_PLANNED_KEYS_H

#include "config/keys.h"

/* A partition of --set turns an auto_plan of the file off; both in --set are
 * refused. */
enum vp_status vp_planned_keys_check(struct vp_entry *entries,
                                     struct vp_err *err);
/* Removes what the plan that was found replaces. */
void vp_planned_keys_drop(struct vp_entry *entries);

#endif
