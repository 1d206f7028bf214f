/* The run folder: resolved configuration and plan, how it was called, metrics. */
#ifndef VP_LAUNCH_FOLDER_H
#define VP_LAUNCH_FOLDER_H

#include "comm/comm.h"
#include "launch/run.h"

#include <stdio.h>

struct vp_folder {
    char path[1024]; /* empty: not open */
    FILE *metrics;
    int lock; /* against a second run */
};

/* Creates `path`, or <log_directory>/<date>T<time> if NULL, and writes
 * config.yml into it. An existing folder that holds a run is refused. */
enum vp_status vp_folder_create(const struct vp_config *config,
                                const char *path, struct vp_folder *out,
                                struct vp_err *err);
/* Goes on in the folder of a run that was saved at `step`: what metrics.jsonl
 * says of later steps is cut off. */
enum vp_status vp_folder_resume(const struct vp_config *config,
                                const char *path, int64_t step,
                                struct vp_folder *out, struct vp_err *err);
/* Several processes: all get the path of the lead's folder (or none), and must
 * see it: the lead writes a file there, and they look for it. */
enum vp_status vp_folder_share(struct vp_folder *folder, struct vp_world *world,
                               int64_t deadline_ns, struct vp_err *err);
void vp_folder_close(struct vp_folder *folder);

/* machinefile: the hosts, once each; plan.json: the stages, in the original's
 * format; command_history.log: a line per run, quoted for a shell. Without
 * arguments there is no such line. */
enum vp_status vp_folder_describe(const struct vp_folder *folder,
                                  const struct vp_config *config,
                                  const struct vp_run_summary *summary,
                                  char *const *argv, int argc,
                                  struct vp_err *err);

/* metrics.jsonl: one object per step. Losses have 17 significant digits, so
 * that equal text means equal bits. In asp grad_norm is a list, by stage.
 * Under a loss scale it is null where an update was skipped, and there are
 * loss_scale, that the step was run with, and skipped, updates so far. */
enum vp_status vp_folder_write_step(struct vp_folder *folder,
                                    const struct vp_step_report *report,
                                    struct vp_err *err);
enum vp_status vp_folder_write_eval(struct vp_folder *folder, int64_t step,
                                    double loss, struct vp_err *err);

/* A whole text file. */
enum vp_status vp_folder_write_text(const char *path, const char *text,
                                    struct vp_err *err);

#endif
