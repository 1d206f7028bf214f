/* The run folder: resolved configuration and plan, how it was called, metrics. */
#ifndef VP_RUN_FOLDER_H
#define VP_RUN_FOLDER_H

#include "comm/comm.h"
#include "config/config.h"
#include "run/summary.h"
#include "runtime/report.h"

#include <stdio.h>

struct vp_plan; /* plan/plan.h */

struct vp_folder {
    char path[1024]; /* empty: not open */
    FILE *metrics;
    int lock; /* against a second run */
};

/* <log_directory>/<what><date>T<time>, which does not exist. */
void vp_folder_choose(const struct vp_config *config, const char *what,
                      char *path, size_t n);
/* VP_ERR_INVALID if the folder that `path` is to be made in, or `path` itself if
 * it is there, cannot be written or is a file. */
enum vp_status vp_folder_check_place(const char *path, struct vp_err *err);
/* The folder and those it lies in. */
enum vp_status vp_folder_make(const char *path, struct vp_err *err);
/* Whether a new run may be put there: VP_ERR_INVALID for a folder that cannot be
 * written, that a live run has locked, or that holds a run that made a step or
 * files that are not of a run (hidden ones aside). What a run left that was
 * stopped before its first step is no reason. */
enum vp_status vp_folder_check(const char *path, struct vp_err *err);
/* VP_ERR_INVALID if a run has locked the folder; does not lock it. */
enum vp_status vp_folder_check_live(const char *path, struct vp_err *err);
/* Whether a step or an evaluation was written there. */
bool vp_folder_has_metrics(const char *path);
/* Creates `path`, or <log_directory>/<date>T<time> if NULL, and writes
 * config.yml into it. Refuses what vp_folder_check() does. */
enum vp_status vp_folder_create(const struct vp_config *config,
                                const char *path, struct vp_folder *out,
                                struct vp_err *err);
/* Takes the lock of the run in `path`, before its checkpoints are looked at: a
 * run that still writes them holds it. VP_ERR_INVALID if it does. */
enum vp_status vp_folder_lock(const char *path, struct vp_folder *out,
                              struct vp_err *err);
/* Goes on in a locked folder, whose run was saved at `step`: what metrics.jsonl
 * says of later steps is cut off. */
enum vp_status vp_folder_resume(struct vp_folder *folder,
                                const struct vp_config *config, int64_t step,
                                struct vp_err *err);
/* Several processes: all get the path of the lead's folder (or none), and must
 * see it: the lead writes a file there, and they look for it. */
enum vp_status vp_folder_share(struct vp_folder *folder, struct vp_world *world,
                               struct vp_limit limit, struct vp_err *err);
void vp_folder_close(struct vp_folder *folder);

/* Lets metrics.jsonl reach the disk. Any thread. */
enum vp_status vp_folder_sync(const struct vp_folder *folder,
                              struct vp_err *err);
/* VP_ERR_IO if the folder or its metrics.jsonl was removed or replaced since
 * they were opened: files that no name leads to can still be written. */
enum vp_status vp_folder_check_kept(const struct vp_folder *folder,
                                    struct vp_err *err);

/* Adds to an error of a run that was saved how to go on when it is mended; nothing
 * if the folder is gone. */
void vp_folder_add_resume(const struct vp_folder *folder, struct vp_err *err);
/* The line about a run that stopped because its output is not read any more. */
void vp_folder_unread(const char *path, struct vp_err *line);

/* machinefile: see hosts.h; plan.json: the plan and its forecast, see
 * plan/plan_json.h, which `partition` takes back;
 * command_history.log: a line per run. Without arguments there is no such
 * line. */
enum vp_status vp_folder_describe(const struct vp_folder *folder,
                                  const struct vp_config *config,
                                  const struct vp_plan *plan,
                                  const struct vp_run_summary *summary,
                                  char *const *argv, int argc,
                                  struct vp_err *err);

/* metrics.jsonl: one object per step. Losses have 17 significant digits, so
 * that equal text means equal bits; where no minibatch of the step has labels,
 * the loss is null. In asp grad_norm is a list, by stage.
 * Under a loss scale it is null where an update was skipped, and there are
 * loss_scale, that the step was run with, and skipped, updates so far. */
enum vp_status vp_folder_write_step(struct vp_folder *folder,
                                    const struct vp_step_report *report,
                                    struct vp_err *err);
/* An evaluation: an object with `event`; NAN is null. */
enum vp_status vp_folder_write_eval(struct vp_folder *folder, int64_t step,
                                    double loss, struct vp_err *err);
/* The forecast of the run beside what was measured up to `step`: likewise. It
 * has neither loss nor seconds. */
struct vp_forecast_check; /* run/forecast_check.h */
enum vp_status vp_folder_write_forecast(struct vp_folder *folder, int64_t step,
                                        const struct vp_forecast_check *check,
                                        struct vp_err *err);

/* Any other event; `fields` is the inside of a JSON object, without loss and
 * seconds. */
enum vp_status vp_folder_write_event(struct vp_folder *folder, int64_t step,
                                     const char *event, const char *fields,
                                     struct vp_err *err);

/* A whole text file. */
enum vp_status vp_folder_write_text(const char *path, const char *text,
                                    struct vp_err *err);

#endif
