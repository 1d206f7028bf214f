/* Looking inside a run: what `verbose` asks for, as lines of ranks, every
 * verbose_frequency steps. Ranks write down what they do in rings of their own;
 * the lines are made by the thread that reports steps, in the order of ranks. */
#ifndef VP_RUN_VERBOSE_H
#define VP_RUN_VERBOSE_H

#include "config/config.h"
#include "run/summary.h"
#include "runtime/report.h"
#include "runtime/trainer/trainer.h"

/* A line of rank `rank` of the schedule. */
typedef enum vp_status (*vp_verbose_fn)(void *ctx, int rank, const char *line,
                                        struct vp_err *err);

struct vp_verbose_log;

/* `config` is borrowed. */
enum vp_status vp_verbose_create(const struct vp_config *config,
                                 vp_verbose_fn print, void *ctx,
                                 struct vp_verbose_log **out,
                                 struct vp_err *err);
void vp_verbose_free(struct vp_verbose_log *log);

/* For vp_train_config.observe, with the log as its context; NULL if nothing of
 * that kind was asked for. */
vp_observe_fn vp_verbose_observer(const struct vp_verbose_log *log);

/* `stages`: what every rank has. */
enum vp_status vp_verbose_start(struct vp_verbose_log *log,
                                const struct vp_run_summary *summary,
                                struct vp_err *err);
/* The rest, if it is due. */
enum vp_status vp_verbose_step(struct vp_verbose_log *log,
                               const struct vp_trainer *trainer,
                               const struct vp_step_report *report,
                               struct vp_err *err);

#endif
