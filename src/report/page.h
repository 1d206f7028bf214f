/* The report: an HTML page about one run, or about several side by side. The
 * page is self-contained: it has its style, script, pictures and data, and its
 * content security policy allows nothing else. It is readable without the
 * script. The same folders give the same bytes. */
#ifndef VP_REPORT_PAGE_H
#define VP_REPORT_PAGE_H

#include "base/strbuf.h"

enum { VP_REPORT_MAX_RUNS = 16 };

struct vp_report_options {
    /* A script that runs after the page's own, or NULL. It may load from the
     * server of the page (connect-src 'self') and passes lines of metrics.jsonl
     * to vpipe.add(line, run). Without it, the page loads nothing. */
    const char *live_script;
};

/* Appends the page about the runs in `folders` to `out`. Returns VP_ERR_INVALID
 * if a folder is not the folder of a run. Broken files in a folder become notes
 * on the page. `options` may be NULL. */
enum vp_status vp_report_page(const char *const *folders, int n_folders,
                              const struct vp_report_options *options,
                              struct vp_strbuf *out, struct vp_err *err);

/* Writes the page to `path`, which is replaced atomically. */
enum vp_status vp_report_write(const char *const *folders, int n_folders,
                               const char *path, struct vp_err *err);

#endif
