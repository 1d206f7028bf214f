/* The plain page of a dashboard: the state of the run as text and the last
 * lines of metrics.jsonl. */
#ifndef VP_MONITOR_PAGE_H
#define VP_MONITOR_PAGE_H

#include "base/strbuf.h"

/* See vp_dashboard_page_fn. */
enum vp_status vp_page_plain(const char *folder, const char *script,
                             struct vp_strbuf *out, struct vp_err *err);

#endif
