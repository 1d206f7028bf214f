/* Puts the page together from its sections, with style, content security policy
 * and script. */
#include "report/page.h"

#include "base/value.h"
#include "draw/html.h"
#include "draw/palette.h"
#include "report/findings.h"
#include "report/page_files.h"
#include "report/section.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BUCKETS = 1024, /* buckets of each curve, if there is one run */
    LEAST_BUCKETS = 256,
    EVENTS = 6000, /* in all timelines together */
};

/* ---- Style and policy --------------------------------------------------- */

/* Appends CSS variables with the colours of draw/palette.h, then the style
 * sheet. Boxes of the timeline are light, so that dark text on them is
 * readable. */
static void make_style(struct vp_strbuf *style)
{
    static const struct {
        const char *name;
        enum vp_hue hue;
    } hues[] = {
        { "f", VP_HUE_FORWARD },  { "r", VP_HUE_RECOMPUTE },
        { "b", VP_HUE_BACKWARD }, { "w", VP_HUE_WEIGHT },
        { "g", VP_HUE_REDUCE },   { "u", VP_HUE_UPDATE },
        { "e", VP_HUE_EVAL },
    };

    vp_strbuf_adds(style, ":root{");
    for (size_t i = 0; i < VP_COUNT_OF(hues); i++)
        vp_strbuf_addf(style, "--%s:%s;", hues[i].name,
                       vp_palette[hues[i].hue].fill[1]);
    for (int i = 0; i < VP_N_RUN_COLOURS; i++)
        vp_strbuf_addf(style, "--c%d:%s;--d%d:%s;", i, vp_run_colours[i].light,
                       i, vp_run_colours[i].dark);
    vp_strbuf_adds(style, "}\n");
    vp_strbuf_add(style, vp_page_css, vp_page_css_bytes);
}

static void put_policy(struct vp_strbuf *out, const struct vp_strbuf *style,
                       const char *live_script)
{
    vp_strbuf_adds(out, "<meta http-equiv=\"Content-Security-Policy\" "
                        "content=\"default-src 'none'; base-uri 'none'; "
                        "form-action 'none'; style-src ");
    vp_html_hash(out, vp_strbuf_text(style), style->n_bytes);
    vp_strbuf_adds(out, "; script-src ");
    vp_html_hash(out, vp_page_js, vp_page_js_bytes);
    if (live_script) {
        vp_strbuf_adds(out, " ");
        vp_html_hash(out, live_script, strlen(live_script));
        vp_strbuf_adds(out, "; connect-src 'self'");
    }
    vp_strbuf_adds(out, "\">\n");
}

/* ---- Head --------------------------------------------------------------- */

static void put_title(struct vp_strbuf *out, const struct vp_page_run *runs,
                      int n)
{
    for (int i = 0; i < n; i++) {
        vp_strbuf_adds(out, i ? ", " : "");
        vp_html_text(out, runs[i].data.name);
    }
}

static void put_head(struct vp_strbuf *out, const struct vp_page_run *runs,
                     int n, const char *live_script)
{
    struct vp_strbuf style = VP_STRBUF_INIT;

    make_style(&style);
    vp_strbuf_adds(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n"
                        "<meta charset=\"utf-8\">\n");
    put_policy(out, &style, live_script);
    vp_strbuf_adds(out, "<meta name=\"viewport\" content=\"width=device-width, "
                        "initial-scale=1\">\n"
                        "<meta name=\"color-scheme\" content=\"light dark\">\n"
                        "<title>");
    put_title(out, runs, n);
    vp_strbuf_adds(out, " - vpipe report</title>\n<style>");
    vp_strbuf_add(out, vp_strbuf_text(&style), style.n_bytes);
    vp_strbuf_adds(out, "</style>\n</head>\n<body>\n");
    out->failed |= style.failed;
    vp_strbuf_release(&style);
}

/* Appends a line such as "bert, gpipe, fp32, cpu, 4 stages, 4 minibatches per
 * update". */
static void put_about(struct vp_strbuf *out, const struct vp_page_run *run)
{
    static const char *const keys[] = { "model_type", "sync_mode", "schedule",
                                        "precision", "device" };
    const struct vp_plan *plan = &run->data.plan;
    const char *separator = "";

    vp_strbuf_adds(out, "<p class=\"about\">");
    for (size_t i = 0; i < VP_COUNT_OF(keys); i++) {
        const char *text = vp_run_data_config(&run->data, keys[i]);

        if (!text)
            continue;
        vp_strbuf_adds(out, separator);
        vp_html_text(out, text);
        separator = " &middot; ";
    }
    if (run->data.has_plan) {
        int n = vp_plan_n_stages(plan);

        vp_strbuf_addf(out, "%s%d stage%s", separator, n, n == 1 ? "" : "s");
        if (plan->accumulation_steps > 0)
            vp_strbuf_addf(out, " &middot; %d minibatch%s per update",
                           plan->accumulation_steps,
                           plan->accumulation_steps == 1 ? "" : "es");
    }
    vp_strbuf_adds(out, "</p>\n");
}

static void put_header(struct vp_strbuf *out, const struct vp_page_run *runs,
                       int n)
{
    static const struct {
        const char *id, *name;
    } links[] = {
        { "limits", "What limits it" }, { "overview", "Overview" },
        { "curves", "Curves" },         { "stages", "Stages" },
        { "timeline", "Timeline" },     { "plan", "Plan" },
        { "events", "Events" },         { "config", "Configuration" },
    };

    vp_strbuf_adds(out, "<header><p class=\"brand\">vpipe report</p><h1>");
    put_title(out, runs, n);
    vp_strbuf_adds(out, "</h1>\n");
    if (n == 1)
        put_about(out, runs);
    vp_strbuf_adds(out, "<nav aria-label=\"Sections\">");
    for (size_t i = 0; i < VP_COUNT_OF(links); i++)
        vp_strbuf_addf(out, "<a href=\"#%s\">%s</a>", links[i].id,
                       links[i].name);
    vp_strbuf_adds(out, "</nav></header>\n<main>\n");
}

/* ---- Body --------------------------------------------------------------- */

static void begin_section(struct vp_strbuf *out, const char *id,
                          const char *title)
{
    vp_strbuf_addf(out, "<section id=\"%s\"><h2>%s</h2>\n", id, title);
}

static void put_parts(struct vp_strbuf *out, struct vp_page_run *runs, int n)
{
    begin_section(out, "stages", "Stages");
    for (int i = 0; i < n; i++) {
        vp_part_run_title(out, &runs[i], n > 1);
        vp_section_stages(out, &runs[i]);
    }
    vp_strbuf_adds(out, "</section>\n");
    begin_section(out, "timeline", "Timeline of the last minibatches");
    for (int i = 0; i < n; i++) {
        vp_part_run_title(out, &runs[i], n > 1);
        vp_section_timeline(out, &runs[i], EVENTS / n);
    }
    vp_strbuf_adds(out, "</section>\n");
    begin_section(out, "plan", "Plan and forecast");
    for (int i = 0; i < n; i++) {
        vp_part_run_title(out, &runs[i], n > 1);
        vp_section_plan(out, &runs[i]);
    }
    vp_strbuf_adds(out, "</section>\n");
    begin_section(out, "events", "Events");
    for (int i = 0; i < n; i++) {
        vp_part_run_title(out, &runs[i], n > 1);
        vp_section_events(out, &runs[i]);
    }
    vp_strbuf_adds(out, "</section>\n");
}

static void put_script(struct vp_strbuf *out, const char *bytes, size_t n_bytes)
{
    vp_strbuf_adds(out, "<script>");
    vp_strbuf_add(out, bytes, n_bytes);
    vp_strbuf_adds(out, "</script>\n");
}

static void put_page(struct vp_strbuf *out, struct vp_page_run *runs, int n,
                     const char *live_script)
{
    put_head(out, runs, n, live_script);
    put_header(out, runs, n);
    begin_section(out, "limits",
                  n == 1 ? "What limits this run" : "What limits these runs");
    for (int i = 0; i < n; i++) {
        vp_part_run_title(out, &runs[i], n > 1);
        vp_section_limits(out, &runs[i]);
    }
    vp_strbuf_adds(out, "</section>\n");
    vp_section_overview(out, runs, n);
    vp_section_curves(out, runs, n);
    put_parts(out, runs, n);
    vp_section_config(out, runs, n);
    vp_strbuf_adds(out, "</main>\n");
    vp_section_data(out, runs, n);
    put_script(out, vp_page_js, vp_page_js_bytes);
    if (live_script)
        put_script(out, live_script, strlen(live_script));
    vp_strbuf_adds(out, "</body>\n</html>\n");
}

/* ---- Runs --------------------------------------------------------------- */

static void find_limits(struct vp_page_run *run)
{
    const struct vp_run_data *data = &run->data;
    const char *limit = vp_run_data_config(data, "memory_limit");
    struct vp_limit_facts facts = {
        .plan = data->has_plan ? &data->plan : NULL,
        .trace = data->has_trace ? &data->trace : NULL,
        .stage_bytes = data->last.memory.at,
        .n_stage_bytes = data->last.memory.n,
        .bubble = vp_overview_of(data).bubble,
    };

    if (!limit || !vp_text_to_bytes(limit, &facts.memory_limit))
        facts.memory_limit = 0;
    vp_limits_find(&facts, &run->limits);
    vp_findings_make(&facts, &run->limits);
}

/* Returns the number of buckets per curve: fewer if there are several runs. */
static int buckets_of(int n_runs)
{
    int n = BUCKETS;

    for (int k = n_runs; k > 1 && n > LEAST_BUCKETS; k /= 2)
        n /= 2;
    return n;
}

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "report: out of memory; close other programs");
}

enum vp_status vp_report_page(const char *const *folders, int n_folders,
                              const struct vp_report_options *options,
                              struct vp_strbuf *out, struct vp_err *err)
{
    struct vp_page_run *runs;
    enum vp_status st = VP_OK;
    int n = 0;

    if (n_folders < 1 || n_folders > VP_REPORT_MAX_RUNS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "a report shows 1 to %d runs, not %d; give fewer",
                          VP_REPORT_MAX_RUNS, n_folders);
    runs = calloc((size_t)n_folders, sizeof(*runs));
    if (!runs)
        return no_memory(err);
    for (; n < n_folders && st == VP_OK; n++) {
        runs[n].number = n;
        st = vp_run_data_read(folders[n], buckets_of(n_folders), &runs[n].data,
                              err);
        if (st == VP_OK)
            find_limits(&runs[n]);
    }
    if (st == VP_OK) {
        put_page(out, runs, n, options ? options->live_script : NULL);
        if (out->failed)
            st = no_memory(err);
    }
    for (int i = 0; i < n; i++)
        vp_run_data_release(&runs[i].data);
    free(runs);
    return st;
}

/* ---- The file ----------------------------------------------------------- */

enum vp_status vp_report_write(const char *const *folders, int n_folders,
                               const char *path, struct vp_err *err)
{
    struct vp_strbuf page = VP_STRBUF_INIT;
    char part[PATH_MAX];
    bool failed;
    FILE *file;

    if (snprintf(part, sizeof(part), "%s.tmp", path) >= (int)sizeof(part))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.80s...: path is too long; choose another", path);
    VP_TRY(vp_report_page(folders, n_folders, NULL, &page, err));
    file = fopen(part, "we");
    if (!file) {
        vp_strbuf_release(&page);
        return vp_err_write(err, path, errno);
    }
    failed = fwrite(page.at, 1, page.n_bytes, file) != page.n_bytes;
    failed |= fclose(file) != 0;
    vp_strbuf_release(&page);
    if (!failed && rename(part, path) == 0)
        return VP_OK;
    vp_err_write(err, path, errno);
    unlink(part);
    return VP_ERR_IO;
}
