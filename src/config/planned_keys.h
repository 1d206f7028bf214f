/* Keys that a search for a plan decides, see key `auto_plan`. `entries` are
 * those of the user, by row of the table of keys. */
#ifndef VP_CONFIG_PLANNED_KEYS_H
#define VP_CONFIG_PLANNED_KEYS_H

#include "config/keys.h"

/* Removes auto_plan of the file if --set gives a partition. Refuses both in
 * --set. */
enum vp_status vp_planned_keys_check(struct vp_entry *entries,
                                     struct vp_err *err);
/* Adds the keys whose value is auto to config->auto_keys, and replaces the
 * value by a valid number, or removes the entry. Refuses auto without
 * `planning` and auto_plan. */
enum vp_status vp_planned_keys_take_auto(struct vp_entry *entries,
                                         bool planning,
                                         struct vp_config *config,
                                         struct vp_err *err);
/* Returns true if the value of the key is auto, and no number was chosen
 * yet. */
bool vp_planned_keys_is_auto(const struct vp_config *config,
                             const struct vp_key *key);
/* Keys that a plan replaces if it was found for the configuration; ends with
 * NULL. */
extern const char *const vp_planned_keys[];
/* Removes the entries of these keys; keeps `profile` while the plan is not
 * `found`, as the search needs it. */
void vp_planned_keys_drop(struct vp_entry *entries, bool found);

#endif
