/* The sections of the page; each appends its own to `out`. */
#ifndef VP_REPORT_SECTION_H
#define VP_REPORT_SECTION_H

#include "base/strbuf.h"
#include "draw/palette.h"
#include "report/limits.h"
#include "report/run_data.h"

struct vp_page_run {
    struct vp_run_data data;
    struct vp_limits limits;
    int number; /* on the page, from 0 */
};

/* Means over the steps after the first tenth; NAN: not known. */
struct vp_overview {
    double tokens_per_second, step_seconds, bubble;
    double loss; /* of the last tenth */
};
struct vp_overview vp_overview_of(const struct vp_run_data *run);

void vp_section_overview(struct vp_strbuf *out, const struct vp_page_run *runs,
                         int n);
void vp_section_limits(struct vp_strbuf *out, const struct vp_page_run *run);
void vp_section_curves(struct vp_strbuf *out, const struct vp_page_run *runs,
                       int n);
void vp_section_stages(struct vp_strbuf *out, const struct vp_page_run *run);
/* Cuts the trace of the run to what the picture shows: at most `most` events. */
void vp_section_timeline(struct vp_strbuf *out, struct vp_page_run *run,
                         int most);
void vp_section_plan(struct vp_strbuf *out, struct vp_page_run *run);
void vp_section_events(struct vp_strbuf *out, const struct vp_page_run *run);
void vp_section_config(struct vp_strbuf *out, struct vp_page_run *runs, int n);
/* The numbers of the curves, for the script. */
void vp_section_data(struct vp_strbuf *out, const struct vp_page_run *runs,
                     int n);

/* ---- Parts that sections share ------------------------------------------- */

/* The name of the run in its colour, where there are several. */
void vp_part_run_title(struct vp_strbuf *out, const struct vp_page_run *run,
                       bool several);
/* A cell of a table; numbers are aligned to the right. */
void vp_part_cell(struct vp_strbuf *out, const char *text);
void vp_part_number(struct vp_strbuf *out, const char *fmt, ...)
    VP_PRINTF(2, 3);
/* "-" for what is not finite. */
void vp_part_real(struct vp_strbuf *out, const char *fmt, double value);
void vp_part_bytes(struct vp_strbuf *out, double bytes);
/* One entry of a legend; `swatch` is a class. */
void vp_part_key(struct vp_strbuf *out, const char *swatch, const char *name);

#endif
