/* HTML parts that several sections use: cells, titles, legends. */
#include "report/section.h"

#include "base/memory.h"
#include "draw/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void vp_part_run_title(struct vp_strbuf *out, const struct vp_page_run *run,
                       bool several)
{
    if (!several)
        return;
    vp_strbuf_addf(out, "<h3 class=\"run\"><span class=\"swatch c%d\"></span>",
                   run->number % VP_N_RUN_COLOURS);
    vp_html_text(out, run->data.name);
    vp_strbuf_adds(out, "</h3>\n");
}

void vp_part_cell(struct vp_strbuf *out, const char *text)
{
    vp_strbuf_adds(out, "<td>");
    vp_html_text(out, text);
    vp_strbuf_adds(out, "</td>");
}

void vp_part_number(struct vp_strbuf *out, const char *fmt, ...)
{
    char text[128];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    vp_strbuf_adds(out, "<td class=\"num\">");
    vp_html_text(out, text);
    vp_strbuf_adds(out, "</td>");
}

void vp_part_real(struct vp_strbuf *out, const char *fmt, double value)
{
    if (isfinite(value))
        vp_part_number(out, fmt, value);
    else
        vp_part_number(out, "-");
}

void vp_part_bytes(struct vp_strbuf *out, double bytes)
{
    char text[VP_BYTES_TEXT];

    if (!(bytes >= 0.0 && bytes < 9e18)) {
        vp_part_number(out, "-");
        return;
    }
    vp_bytes_text((int64_t)bytes, text, sizeof(text));
    vp_part_number(out, "%s", text);
}

void vp_part_key(struct vp_strbuf *out, const char *swatch, const char *name)
{
    vp_strbuf_addf(out, "<span class=\"key\"><span class=\"swatch %s\"></span>",
                   swatch);
    vp_html_text(out, name);
    vp_strbuf_adds(out, "</span>");
}
