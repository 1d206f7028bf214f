/* Keys that a search for a plan decides, see key `auto_plan`. `entries`: what the
 * user wrote, by row of the table of keys. */
#ifndef VP_CONFIG_PLANNED_KEYS_H
#define VP_CONFIG_PLANNED_KEYS_H

#include "config/keys.h"

/* A partition of --set turns an auto_plan of the file off; both in --set are
 * refused. */
enum vp_status vp_planned_keys_check(struct vp_entry *entries,
                                     struct vp_err *err);
/* Notes the keys that say auto, and replaces their entries by numbers that are
 * good, or none. Without `planning` and auto_plan they are refused. */
enum vp_status vp_planned_keys_take_auto(struct vp_entry *entries,
                                         bool planning,
                                         struct vp_config *config,
                                         struct vp_err *err);
/* True if the key says auto, and no number was chosen yet. */
bool vp_planned_keys_is_auto(const struct vp_config *config,
                             const struct vp_key *key);
/* What a plan that is found for a configuration replaces; ends with NULL. */
extern const char *const vp_planned_keys[];
/* Removes it; while the plan is not `found`, its search needs key `profile`. */
void vp_planned_keys_drop(struct vp_entry *entries, bool found);

#endif
