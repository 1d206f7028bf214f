/* A plan in JSON that the key `partition` names: see plan/plan_json.h. Its
 * values replace defaults of the table of keys; a key that the user sets as
 * well must have the same value. */
#ifndef VP_CONFIG_PLAN_FILE_H
#define VP_CONFIG_PLAN_FILE_H

#include "config/keys.h"
#include "plan/plan.h"

/* The plan of a run, in its folder beside config.yml. */
#define VP_PLAN_FILE_NAME "plan.json"

struct vp_plan_file {
    const char *path, *via; /* the file, and the place that named it */
    bool found; /* found by a search: the run writes it as VP_PLAN_FILE_NAME */
    const struct vp_yaml_node *root;
    struct vp_plan plan;
};

/* Returns true if the value of `partition` is a path: neither a number nor a
 * list. */
bool vp_plan_file_is_named(const struct vp_entry *entry);

/* Reads the file that `entry` names and keeps it as config->plan_file. */
enum vp_status vp_plan_file_read(const struct vp_entry *entry,
                                 struct vp_config *config, struct vp_err *err);
/* The same for a file that was parsed; `via` is the place that named it. */
enum vp_status vp_plan_file_take(const char *path,
                                 const struct vp_yaml_node *root,
                                 const char *via, struct vp_config *config,
                                 struct vp_err *err);

/* The same for the text of a plan that a search has found. */
enum vp_status vp_plan_file_take_found(const char *text,
                                       struct vp_config *config,
                                       struct vp_err *err);

/* Writes the file's entry for a key, as if the user had written it. out->key is
 * NULL if the file has none, or there is no file. */
enum vp_status vp_plan_file_entry(const struct vp_key *key,
                                  struct vp_config *config,
                                  struct vp_entry *out, struct vp_err *err);

/* Refuses a value of `key`, which the user set, that differs from `planned`. */
enum vp_status vp_plan_file_compare(const struct vp_key *key,
                                    const struct vp_entry *planned,
                                    struct vp_config *config,
                                    struct vp_err *err);

/* Applies the placement in the file, if it has one, as that of config_file. */
enum vp_status vp_plan_file_place(struct vp_config *config, struct vp_err *err);
/* Takes the action lists, for which there is no key. Refuses devices and edges,
 * which the configuration decides, and a recompute_ratio or swap_ratio of the
 * user beside sets of operators in the plan. */
enum vp_status vp_plan_file_finish(struct vp_config *config,
                                   struct vp_err *err);

/* Returns true if the file has values that no key can hold. */
bool vp_plan_file_is_needed(const struct vp_config *config);

#endif
