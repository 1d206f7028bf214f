/* Reads a configuration: a strict YAML reader and one table of keys. */
#ifndef VP_CONFIG_LOAD_H
#define VP_CONFIG_LOAD_H

#include "base/status.h"
#include "config/config.h"

/* Reads `path`, then applies `sets` ("key=value"), then derives defaults and
 * checks what can be checked without data. Messages: "file:line: cause;
 * remedy". Relative paths of the file start at its key `directory`, else at
 * the folder of `path`; those of `sets` at the working directory. What a key
 * says wins over what a placement file says, and must be what a plan file says.
 * Release with
 * vp_config_release(), also after an error. */
enum vp_status vp_config_load(const char *path, const char *const *sets,
                              int n_sets, struct vp_config *out,
                              struct vp_err *err);
/* What a configuration is read from. All is borrowed. */
struct vp_config_source {
    const char *path;
    const char *bytes; /* in place of the file, or NULL */
    size_t n_bytes;
    const char *const *sets;
    int n_sets;
    /* A model that is not in the table: model_type need not be given, and keys
     * of sizes and of the length of samples must not be. NULL: none. */
    const struct vp_model *custom;
    /* Text of the schedule file that the checkpoint of a resumed run holds, in
     * place of a file that is not there any more; NULL: none. */
    const char *schedule;
    /* JSON of a plan that was found for this configuration; it replaces what the
     * configuration says about schedule, chunks, partition, recomputation and
     * swap. NULL: none. */
    const char *plan;
    /* What `precision: auto` becomes; NULL: what this process prefers. */
    const enum vp_precision *precision;
    bool planning;  /* numbers that say auto will be chosen; else they are taken
                      only where auto_plan chooses them */
    bool unplanned; /* what a plan would replace is left out */
};
enum vp_status vp_config_load_from(const struct vp_config_source *from,
                                   struct vp_config *out, struct vp_err *err);
/* The same for a file in memory; `path` need not exist. */
enum vp_status vp_config_parse(const char *path, const char *bytes,
                               size_t n_bytes, const char *const *sets,
                               int n_sets, struct vp_config *out,
                               struct vp_err *err);

/* True if --set gives a key that a plan which is found for it replaces. */
bool vp_config_sets_plan(const struct vp_config *config);

#endif
