/* Shows a run while it trains: status.json in its folder, and where the
 * configuration asks for it TensorBoard's event file and a file for Prometheus.
 *
 * The thread that trains gives it numbers, which are copied under a lock that is
 * never held during a call on a file; a thread of its own writes the files once a
 * second. A file system that is full or does not answer costs the files, never a
 * step. Steps allocate nothing. */
#ifndef VP_MONITOR_MONITOR_H
#define VP_MONITOR_MONITOR_H

#include "config/config.h"
#include "monitor/live.h"
#include "run/summary.h"

struct vp_monitor_config {
    const struct vp_config *config;
    const char *version; /* of vpipe */
    void *ctx;
    /* Gets the state after every writing, on the monitor's thread; NULL: not
     * wanted. `live` is valid during the call. */
    void (*on_live)(void *ctx, const struct vp_live *live);
};

struct vp_monitor;

/* Starts the thread. `summary` is that of on_start in run/run_events.h, and has a
 * run folder. Borrows `config` and what it points to. */
enum vp_status vp_monitor_start(const struct vp_monitor_config *config,
                                const struct vp_run_summary *summary,
                                struct vp_monitor **out, struct vp_err *err);

/* The following take what the callbacks of the same name get; `monitor` may be
 * NULL. */

void vp_monitor_plan(struct vp_monitor *monitor,
                     const struct vp_run_summary *summary);
void vp_monitor_stages(struct vp_monitor *monitor,
                       const struct vp_stage_stats *stats);
void vp_monitor_step(struct vp_monitor *monitor,
                     const struct vp_step_report *report);
void vp_monitor_eval(struct vp_monitor *monitor, int64_t step, double loss);
void vp_monitor_saved(struct vp_monitor *monitor, int64_t step);

/* Writes the last state and ends the thread. `st`: how the run ended, `line` the
 * message of a failure. Waits two seconds; if a file system does not answer, the
 * thread is left behind. VP_ERR_IO: a file could not be written at some time, or
 * records were dropped; the first cause. */
enum vp_status vp_monitor_stop(struct vp_monitor *monitor, enum vp_status st,
                               const char *line, struct vp_err *err);

#endif
