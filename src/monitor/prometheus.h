/* Prints the metrics of a run in Prometheus's text format 0.0.4. */
#ifndef VP_MONITOR_PROMETHEUS_H
#define VP_MONITOR_PROMETHEUS_H

#include "base/strbuf.h"
#include "monitor/live.h"

#define VP_PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Appends all metric families that have a value. */
void vp_prometheus_print(const struct vp_live *live, struct vp_strbuf *out);

#endif
