/* Training with a schedule from a file that 'vpipe schedule --text' wrote. */
#ifndef VP_CONFIG_SCHEDULE_FILE_H
#define VP_CONFIG_SCHEDULE_FILE_H

#include "config/keys.h"

struct vp_schedule_file {
    const char *path;
    int n_stages, n_chunks, n_mb;
    struct vp_int_list replicas; /* one per stage; empty: one each */
    bool in_plan;                /* `path` is a plan file */
    bool is_saved;               /* `path` is gone: saved_schedule was used */
};

/* Reads the file that `entry` names (config->saved_schedule if the file is
 * gone), validates it, keeps it as config->schedule_file and its text as
 * config->schedule_text, and sets config->schedule to the generator that places
 * stages in the same way. */
enum vp_status vp_schedule_file_read(const struct vp_entry *entry,
                                     struct vp_config *config,
                                     struct vp_err *err);

/* The same for text of a plan file. */
enum vp_status vp_schedule_file_take(const char *plan, const char *text,
                                     struct vp_config *config,
                                     struct vp_err *err);

/* Sets stages, chunks, replicas and accumulation_steps from the file; refuses
 * other values of the user. Does nothing without a file. */
enum vp_status vp_schedule_file_resolve(struct vp_config *config,
                                        struct vp_err *err);

#endif
