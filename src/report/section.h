/* The sections of the page. Each function appends its section to `out`. */
#ifndef VP_REPORT_SECTION_H
#define VP_REPORT_SECTION_H

#include "base/strbuf.h"
#include "draw/palette.h"
#include "report/limits.h"
#include "report/run_data.h"

struct vp_page_run {
    struct vp_run_data data;
    struct vp_limits limits;
    int number; /* index of the run on the page */
};

/* Means over the steps without the first tenth; NAN: unknown. */
struct vp_overview {
    double tokens_per_second, step_seconds, bubble;
    double loss; /* mean of the last tenth of the steps */
};
struct vp_overview vp_overview_of(const struct vp_run_data *run);

void vp_section_overview(struct vp_strbuf *out, const struct vp_page_run *runs,
                         int n);
void vp_section_limits(struct vp_strbuf *out, const struct vp_page_run *run);
void vp_section_curves(struct vp_strbuf *out, const struct vp_page_run *runs,
                       int n);
void vp_section_stages(struct vp_strbuf *out, const struct vp_page_run *run);
/* Cuts the trace of the run to the minibatches that the picture shows, with at
 * most `most` events if possible. */
void vp_section_timeline(struct vp_strbuf *out, struct vp_page_run *run,
                         int most);
void vp_section_plan(struct vp_strbuf *out, struct vp_page_run *run);
void vp_section_events(struct vp_strbuf *out, const struct vp_page_run *run);
void vp_section_config(struct vp_strbuf *out, struct vp_page_run *runs, int n);
/* Appends the values of the curves as JSON, for the script. */
void vp_section_data(struct vp_strbuf *out, const struct vp_page_run *runs,
                     int n);

/* ---- Parts that sections share ------------------------------------------ */

/* Appends the name of the run with its colour, if `several` is true. */
void vp_part_run_title(struct vp_strbuf *out, const struct vp_page_run *run,
                       bool several);
/* Append a cell of a table; numbers are aligned to the right. */
void vp_part_cell(struct vp_strbuf *out, const char *text);
void vp_part_number(struct vp_strbuf *out, const char *fmt, ...)
    VP_PRINTF(2, 3);
/* The same, with "-" for a value that is not finite or, for bytes, negative.
 * `fmt` formats one double. */
void vp_part_real(struct vp_strbuf *out, const char *fmt, double value);
void vp_part_bytes(struct vp_strbuf *out, double bytes);
/* Appends an entry of a legend; `swatch` is the CSS class of its colour. */
void vp_part_key(struct vp_strbuf *out, const char *swatch, const char *name);

#endif
