/* The dashboard of a run: a web page that follows it, and its numbers for
 * Prometheus.
 *
 *   GET /            the page; /?token=T sets a cookie and leads here
 *   GET /events      server-sent events: lines of metrics.jsonl, and "status"
 *   GET /metrics     numbers in Prometheus's text format
 *   GET /healthz     200 if the run wrote its state in the last ten seconds
 *
 * There is nothing else, and nothing can be changed. All but /healthz need the
 * token of the run: a random number in the file dashboard.token of its folder,
 * which only its owner can read. It is given once in the URL, then in a cookie
 * (HttpOnly, SameSite=Strict), or as "Authorization: Bearer". The Host header
 * must be an address, localhost, the name of this machine or that of the option:
 * pages of other sites cannot use the name of theirs. Connections, memory, time
 * and requests per second have limits (http/http.c). */
#ifndef VP_MONITOR_DASHBOARD_H
#define VP_MONITOR_DASHBOARD_H

#include "base/strbuf.h"
#include "monitor/live.h"

#define VP_DASHBOARD_TOKEN_FILE "dashboard.token"

/* Appends the page about the run in `folder`. `script` belongs in it: it calls
 * vpipe.add(line) for lines of metrics.jsonl that are new. Called by the server's
 * thread. */
typedef enum vp_status (*vp_dashboard_page_fn)(const char *folder,
                                               const char *script,
                                               struct vp_strbuf *out,
                                               struct vp_err *err);

struct vp_dashboard;

/* `place` is [HOST:]PORT, loopback if there is no HOST, a free port if PORT is 0.
 * Loads the plugin and listens; nothing is answered yet. `page` NULL: a plain page
 * of its own. VP_ERR_UNSUPPORTED without the plugin. */
enum vp_status vp_dashboard_open(const char *place, vp_dashboard_page_fn page,
                                 struct vp_dashboard **out, struct vp_err *err);
/* VP_ERR_INVALID or VP_ERR_UNSUPPORTED if the above would fail for `place`
 * itself or for the plugin; does not listen. */
enum vp_status vp_dashboard_check(const char *place, struct vp_err *err);

enum { VP_DASHBOARD_URL = 320 };

/* Writes the token file and answers from now on. `url_out` has the token. */
enum vp_status vp_dashboard_start(struct vp_dashboard *dashboard,
                                  const char *folder,
                                  char url_out[VP_DASHBOARD_URL],
                                  struct vp_err *err);
/* Takes a new state of the run. Any one thread. */
void vp_dashboard_show(struct vp_dashboard *dashboard,
                       const struct vp_live *live);
/* NULL is fine. */
void vp_dashboard_close(struct vp_dashboard *dashboard);

#endif
