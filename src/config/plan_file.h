/* A plan in JSON that the key `partition` names: see plan/plan_json.h. What it
 * says replaces defaults of the table of keys; a key that is also set elsewhere
 * must have the same value. */
#ifndef VP_CONFIG_PLAN_FILE_H
#define VP_CONFIG_PLAN_FILE_H

#include "config/keys.h"
#include "plan/plan.h"

/* The plan of a run, in its folder beside config.yml. */
#define VP_PLAN_FILE_NAME "plan.json"

struct vp_plan_file {
    const char *path, *via; /* the file, and the place that named it */
    bool found; /* by a search: it will be VP_PLAN_FILE_NAME of the run */
    const struct vp_yaml_node *root;
    struct vp_plan plan;
};

/* Text of `partition` that is neither a number nor a list. */
bool vp_plan_file_is_named(const struct vp_entry *entry);

/* Reads the file that `entry` names and keeps it as config->plan_file. */
enum vp_status vp_plan_file_read(const struct vp_entry *entry,
                                 struct vp_config *config, struct vp_err *err);
/* The same for a file that was read; `via` is where it was named. */
enum vp_status vp_plan_file_take(const char *path,
                                 const struct vp_yaml_node *root,
                                 const char *via, struct vp_config *config,
                                 struct vp_err *err);

/* The same for the text of a plan that was found. */
enum vp_status vp_plan_file_take_found(const char *text,
                                       struct vp_config *config,
                                       struct vp_err *err);

/* What the file says for a key, as if the user had written it. `out->key` is
 * NULL if it says nothing, or there is no file. */
enum vp_status vp_plan_file_entry(const struct vp_key *key,
                                  struct vp_config *config,
                                  struct vp_entry *out, struct vp_err *err);

/* Refuses a value of `key`, which is set, that differs from `planned`. */
enum vp_status vp_plan_file_compare(const struct vp_key *key,
                                    const struct vp_entry *planned,
                                    struct vp_config *config,
                                    struct vp_err *err);

/* The placement in the file, if there is one: as config_file. */
enum vp_status vp_plan_file_place(struct vp_config *config, struct vp_err *err);
/* What no key says: action lists; refuses what a key of the machine decides, and
 * a recompute_ratio beside sets of the plan. */
enum vp_status vp_plan_file_finish(struct vp_config *config,
                                   struct vp_err *err);

/* True if keys cannot say what the file says. */
bool vp_plan_file_is_needed(const struct vp_config *config);

#endif
