/* Prints details of a run (key `verbose`) as lines of ranks, every
 * verbose_frequency steps. Each rank records its actions in a ring of its own;
 * the thread that reports steps prints the lines, in the order of ranks. */
#ifndef VP_RUN_VERBOSE_H
#define VP_RUN_VERBOSE_H

#include "config/config.h"
#include "run/summary.h"
#include "runtime/report.h"
#include "runtime/trainer/trainer.h"

/* Prints a line of rank `rank` of the schedule. */
typedef enum vp_status (*vp_verbose_fn)(void *ctx, int rank, const char *line,
                                        struct vp_err *err);

struct vp_verbose_log;

/* Borrows `config`. */
enum vp_status vp_verbose_create(const struct vp_config *config,
                                 vp_verbose_fn print, void *ctx,
                                 struct vp_verbose_log **out,
                                 struct vp_err *err);
void vp_verbose_free(struct vp_verbose_log *log);

/* Returns the function for vp_train_config.observe, whose context is the log;
 * NULL if `verbose` has neither tensors nor versions. */
vp_observe_fn vp_verbose_observer(const struct vp_verbose_log *log);

/* Prints `stages`: the stages of every rank. */
enum vp_status vp_verbose_start(struct vp_verbose_log *log,
                                const struct vp_run_summary *summary,
                                struct vp_err *err);
/* Prints the other details if they are due. */
enum vp_status vp_verbose_step(struct vp_verbose_log *log,
                               const struct vp_trainer *trainer,
                               const struct vp_step_report *report,
                               struct vp_err *err);

#endif
