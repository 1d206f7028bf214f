/* The report: one HTML page about one run, or about several side by side. The page
 * is complete in itself: style, script, pictures and data are inside, its content
 * security policy allows nothing else, and it can be read without the script. The
 * same folders give the same bytes. */
#ifndef VP_REPORT_PAGE_H
#define VP_REPORT_PAGE_H

#include "base/strbuf.h"

enum { VP_REPORT_MAX_RUNS = 16 };

struct vp_report_options {
    /* NULL: the page loads nothing. Else a script that follows the page's own,
     * may load from the server that the page came from (connect-src 'self'), and
     * hands lines of metrics.jsonl to vpipe.add(line, run). */
    const char *live_script;
};

/* Appends the page about the runs in `folders` to `out`. VP_ERR_INVALID for a
 * folder that is not of a run; files in it that are broken become notes on the
 * page. `options` may be NULL. */
enum vp_status vp_report_page(const char *const *folders, int n_folders,
                              const struct vp_report_options *options,
                              struct vp_strbuf *out, struct vp_err *err);

/* Writes the page to `path`, which is replaced as a whole. */
enum vp_status vp_report_write(const char *const *folders, int n_folders,
                               const char *path, struct vp_err *err);

#endif
