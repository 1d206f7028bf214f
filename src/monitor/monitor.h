/* Publishes the state of a run while it trains: status.json in its folder and,
 * if configured, TensorBoard's event file and a file for Prometheus.
 *
 * The training thread passes numbers, which are copied under a lock that is
 * never held during a call on a file. The monitor's thread writes the files
 * once a second. If the file system is full or does not respond, the files are
 * missing, but no step is delayed. Steps allocate nothing. */
#ifndef VP_MONITOR_MONITOR_H
#define VP_MONITOR_MONITOR_H

#include "config/config.h"
#include "monitor/live.h"
#include "run/summary.h"

struct vp_monitor_config {
    const struct vp_config *config;
    const char *version; /* version of vpipe */
    void *ctx;
    /* Called on the monitor's thread after the files were written; may be NULL.
     * `live` is valid during the call. */
    void (*on_live)(void *ctx, const struct vp_live *live);
};

struct vp_monitor;

/* Starts the thread. `summary` is the argument of on_start in run/run_events.h,
 * and has a run folder. What `config` points to must outlive the monitor. */
enum vp_status vp_monitor_start(const struct vp_monitor_config *config,
                                const struct vp_run_summary *summary,
                                struct vp_monitor **out, struct vp_err *err);

/* The following have the arguments of the callbacks of the same name in
 * run/run_events.h. `monitor` may be NULL. */

void vp_monitor_plan(struct vp_monitor *monitor,
                     const struct vp_run_summary *summary);
void vp_monitor_stages(struct vp_monitor *monitor,
                       const struct vp_stage_stats *stats);
void vp_monitor_step(struct vp_monitor *monitor,
                     const struct vp_step_report *report);
void vp_monitor_eval(struct vp_monitor *monitor, int64_t step, double loss);
void vp_monitor_saved(struct vp_monitor *monitor, int64_t step);

/* Writes the last state, ends the thread and frees the monitor. `st` is the
 * result of the run, `line` the message of a failure. Waits up to two seconds;
 * if a file system does not respond, thread and monitor are leaked. Returns
 * VP_ERR_IO with the first cause if a file could not be written at any time or
 * if records were dropped. */
enum vp_status vp_monitor_stop(struct vp_monitor *monitor, enum vp_status st,
                               const char *line, struct vp_err *err);

#endif
