/* What sees a run of `vpipe train`: the screen, and the files and the server that
 * show it elsewhere. */
#ifndef VP_TOOLS_RUN_WATCH_H
#define VP_TOOLS_RUN_WATCH_H

#include "monitor/dashboard.h"
#include "monitor/monitor.h"
#include "progress.h"

struct run_watch {
    struct progress progress;
    bool quiet; /* nothing but warnings is printed */
    const struct vp_config *config;
    struct vp_dashboard *dashboard; /* NULL: not asked for; owned */
    struct vp_monitor *monitor; /* NULL before the start, or without a folder */
};

/* Callbacks for the run; `watch` is set up but for `monitor`. */
struct vp_run_events run_watch_events(struct run_watch *watch);
/* The page of a dashboard: the report about the run, which `script` keeps up to
 * date. See vp_dashboard_page_fn. */
enum vp_status run_watch_page(const char *folder, const char *script,
                              struct vp_strbuf *out, struct vp_err *err);
/* After the run, which ended with `st` and the line of `err`. */
void run_watch_end(struct run_watch *watch, enum vp_status st,
                   const struct vp_err *err);

#endif
