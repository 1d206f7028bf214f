/* The run folder: resolved configuration, plan, command line and metrics of a
 * run. */
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
    int lock; /* file descriptor that holds the lock against a second run */
};

/* Writes <log_directory>/<what><date>T<time>, a path that does not exist, to
 * `path`. */
void vp_folder_choose(const struct vp_config *config, const char *what,
                      char *path, size_t n);
/* Returns VP_ERR_INVALID if `path` is a file or cannot be written or, if it
 * does not exist, if the folder that it would be created in cannot be
 * written. */
enum vp_status vp_folder_check_place(const char *path, struct vp_err *err);
/* Creates the folder and its parents. */
enum vp_status vp_folder_make(const char *path, struct vp_err *err);
/* Checks that a new run may use `path`. VP_ERR_INVALID for a folder that cannot
 * be written, that a live run has locked, that holds a run with at least one
 * step, or that holds files that are not from a run (hidden files are ignored).
 * Files of a run that was stopped before its first step are no reason to
 * refuse. */
enum vp_status vp_folder_check(const char *path, struct vp_err *err);
/* Returns VP_ERR_INVALID if a run has locked the folder; does not lock it. */
enum vp_status vp_folder_check_live(const char *path, struct vp_err *err);
/* Returns true if metrics.jsonl there has a step or an evaluation. */
bool vp_folder_has_metrics(const char *path);
/* Creates `path`, or <log_directory>/<date>T<time> if NULL, locks it and writes
 * config.yml into it. Refuses the same folders as vp_folder_check(). */
enum vp_status vp_folder_create(const struct vp_config *config,
                                const char *path, struct vp_folder *out,
                                struct vp_err *err);
/* Locks the folder of the run in `path`; to be called before its checkpoints
 * are read. VP_ERR_INVALID if a live run, which may still write them, holds the
 * lock. */
enum vp_status vp_folder_lock(const char *path, struct vp_folder *out,
                              struct vp_err *err);
/* Continues a run in a locked folder from the checkpoint of `step`: removes
 * later steps from metrics.jsonl. */
enum vp_status vp_folder_resume(struct vp_folder *folder,
                                const struct vp_config *config, int64_t step,
                                struct vp_err *err);
/* Several processes: all get the path of the lead's folder (or none), and must
 * see the same folder: the lead writes a file there, and the others look for
 * it. */
enum vp_status vp_folder_share(struct vp_folder *folder, struct vp_world *world,
                               struct vp_limit limit, struct vp_err *err);
void vp_folder_close(struct vp_folder *folder);

/* Waits until metrics.jsonl is on the disk (fsync). May be called by any
 * thread. */
enum vp_status vp_folder_sync(const struct vp_folder *folder,
                              struct vp_err *err);
/* Returns VP_ERR_IO if the folder or its metrics.jsonl was removed or replaced
 * since it was opened: writing to a deleted file does not fail by itself. */
enum vp_status vp_folder_check_kept(const struct vp_folder *folder,
                                    struct vp_err *err);

/* Appends the command that resumes the run to the error of a run that was
 * saved; nothing if the folder is gone. */
void vp_folder_add_resume(const struct vp_folder *folder, struct vp_err *err);
/* Writes the line about a run that stopped because the reader of its standard
 * output has closed it. */
void vp_folder_unread(const char *path, struct vp_err *line);

/* Writes machinefile (see hosts.h), plan.json (the plan and its forecast, see
 * plan/plan_json.h; key `partition` accepts it) and a line of
 * command_history.log; no such line if `argc` is 0. */
enum vp_status vp_folder_describe(const struct vp_folder *folder,
                                  const struct vp_config *config,
                                  const struct vp_plan *plan,
                                  const struct vp_run_summary *summary,
                                  char *const *argv, int argc,
                                  struct vp_err *err);

/* Appends an object for a step to metrics.jsonl. Losses have 17 significant
 * digits, so that equal text means equal bits; the loss is null if no minibatch
 * of the step has labels. In sync_mode asp grad_norm is a list with a value per
 * stage. Under a loss scale grad_norm is null for a skipped update, and the
 * object also has loss_scale, the scale of the step, and skipped, the skipped
 * updates so far. */
enum vp_status vp_folder_write_step(struct vp_folder *folder,
                                    const struct vp_step_report *report,
                                    struct vp_err *err);
/* Appends an object with `event` for an evaluation; NAN is written as null. */
enum vp_status vp_folder_write_eval(struct vp_folder *folder, int64_t step,
                                    double loss, struct vp_err *err);
/* Appends an object with `event` that compares the forecast of the run with the
 * measurement up to `step`. It has neither loss nor seconds. */
struct vp_forecast_check; /* run/forecast_check.h */
enum vp_status vp_folder_write_forecast(struct vp_folder *folder, int64_t step,
                                        const struct vp_forecast_check *check,
                                        struct vp_err *err);

/* Appends an object for any other event. `fields` is the inside of a JSON
 * object, without loss and seconds. */
enum vp_status vp_folder_write_event(struct vp_folder *folder, int64_t step,
                                     const char *event, const char *fields,
                                     struct vp_err *err);

/* Writes `text` to the file `path`. */
enum vp_status vp_folder_write_text(const char *path, const char *text,
                                    struct vp_err *err);

#endif
