/* The dashboard of a run: a read-only web server with a live page and metrics
 * for Prometheus.
 *
 *   GET /            the page; /?token=T sets a cookie and redirects here
 *   GET /events      server-sent events: lines of metrics.jsonl, and "status"
 *   GET /metrics     metrics in Prometheus's text format
 *   GET /healthz     200 if the run wrote its state in the last ten seconds
 *
 * All paths but /healthz need the token of the run: a random number in the file
 * dashboard.token of its folder, which only its owner can read. A browser sends
 * it once in the URL, then in a cookie (HttpOnly, SameSite=Strict); other
 * clients send "Authorization: Bearer". The Host header must be an address,
 * localhost, the name of this machine or HOST of the option, which prevents DNS
 * rebinding by other sites. Connections, memory, time and requests per second
 * are limited (http/http.c). */
#ifndef VP_MONITOR_DASHBOARD_H
#define VP_MONITOR_DASHBOARD_H

#include "base/strbuf.h"
#include "monitor/live.h"

#define VP_DASHBOARD_TOKEN_FILE "dashboard.token"

/* Appends the page of the run in `folder`. The page must contain `script`,
 * which calls vpipe.add(line) for each new line of metrics.jsonl. Called on the
 * server's thread. */
typedef enum vp_status (*vp_dashboard_page_fn)(const char *folder,
                                               const char *script,
                                               struct vp_strbuf *out,
                                               struct vp_err *err);

struct vp_dashboard;

/* Loads the plugin and listens on `place`, [HOST:]PORT: on loopback without
 * HOST, on a free port if PORT is 0. Answers no request yet. `page` may be
 * NULL: a plain page. Returns VP_ERR_UNSUPPORTED without the plugin. */
enum vp_status vp_dashboard_open(const char *place, vp_dashboard_page_fn page,
                                 struct vp_dashboard **out, struct vp_err *err);
/* Checks `place` and the plugin without listening. Returns VP_ERR_INVALID or
 * VP_ERR_UNSUPPORTED as vp_dashboard_open() would. */
enum vp_status vp_dashboard_check(const char *place, struct vp_err *err);

enum { VP_DASHBOARD_URL = 320 };

/* Writes the token file and starts to answer requests. Writes the URL of the
 * page, which contains the token. */
enum vp_status vp_dashboard_start(struct vp_dashboard *dashboard,
                                  const char *folder,
                                  char url_out[VP_DASHBOARD_URL],
                                  struct vp_err *err);
/* Copies a new state of the run. May be called from any thread, but only one at
 * a time. */
void vp_dashboard_show(struct vp_dashboard *dashboard,
                       const struct vp_live *live);
/* Stops the server and removes the token file. `dashboard` may be NULL. */
void vp_dashboard_close(struct vp_dashboard *dashboard);

#endif
