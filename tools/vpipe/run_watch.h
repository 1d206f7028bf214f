/* The observers of a run of `vpipe train`: the screen, the monitor's files and
 * the dashboard. */
#ifndef VP_TOOLS_RUN_WATCH_H
#define VP_TOOLS_RUN_WATCH_H

#include "monitor/dashboard.h"
#include "monitor/monitor.h"
#include "progress.h"

struct run_watch {
    struct progress progress;
    bool quiet; /* only warnings are printed */
    const struct vp_config *config;
    struct vp_dashboard *dashboard; /* owned; NULL: no --dashboard */
    struct vp_monitor *monitor; /* NULL before the start, or without a folder */
};

/* Returns callbacks for the run. All fields of `watch` but `monitor` must be
 * set. */
struct vp_run_events run_watch_events(struct run_watch *watch);
/* A vp_dashboard_page_fn: writes the report about the run as a page that
 * `script` keeps up to date. */
enum vp_status run_watch_page(const char *folder, const char *script,
                              struct vp_strbuf *out, struct vp_err *err);
/* Called after the run, which ended with `st` and the line of `err`: stops the
 * monitor and the dashboard. */
void run_watch_end(struct run_watch *watch, enum vp_status st,
                   const struct vp_err *err);

#endif
