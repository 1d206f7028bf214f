/* Reads a configuration from a YAML file and --set, by the table of keys. */
#ifndef VP_CONFIG_LOAD_H
#define VP_CONFIG_LOAD_H

#include "base/status.h"
#include "config/config.h"

/* Reads `path`, then applies `sets` ("key=value"), then derives defaults and
 * makes all checks that need no data. Messages: "file:line: cause; remedy".
 * Relative paths of the file start at its key `directory`, else at the folder
 * of `path`; those of `sets` at the working directory. A key wins over a
 * placement file; a key and a plan file must agree. Release with
 * vp_config_release(), also after an error. */
enum vp_status vp_config_load(const char *path, const char *const *sets,
                              int n_sets, struct vp_config *out,
                              struct vp_err *err);
/* The sources of a configuration; borrowed. */
struct vp_config_source {
    const char *path;
    const char *bytes; /* text in place of the file, or NULL */
    size_t n_bytes;
    const char *const *sets;
    int n_sets;
    /* A model that is not in the table: model_type need not be given, and keys
     * of sizes and of the length of samples must not be. NULL: none. */
    const struct vp_model *custom;
    /* Text of the schedule file from the checkpoint of a resumed run, used if
     * the file is no longer there; NULL: none. */
    const char *schedule;
    /* JSON of a plan that was found for this configuration. It replaces the
     * keys of vp_planned_keys: schedule, chunks, partition, recomputation,
     * swap, ... NULL: none. */
    const char *plan;
    /* The precision for `precision: auto`; NULL: this process chooses. */
    const enum vp_precision *precision;
    bool planning;  /* the caller will search for a plan: accepts batch_size,
                       accumulation_steps and replicas auto without auto_plan */
    bool unplanned; /* leaves out the keys of vp_planned_keys */
};
enum vp_status vp_config_load_from(const struct vp_config_source *from,
                                   struct vp_config *out, struct vp_err *err);
/* As vp_config_load(), for a file in memory; `path` need not exist. */
enum vp_status vp_config_parse(const char *path, const char *bytes,
                               size_t n_bytes, const char *const *sets,
                               int n_sets, struct vp_config *out,
                               struct vp_err *err);

/* Returns true if --set gives one of the keys that a search for a plan
 * decides. */
bool vp_config_sets_plan(const struct vp_config *config);

#endif
