/* Overview section: a table of the runs; and the section about what limits each
 * run. */
#include "report/section.h"

#include "draw/html.h"

#include <math.h>
#include <stdio.h>

/* ---- Means -------------------------------------------------------------- */

static double mean_of(const struct vp_series *series, int first, int curve)
{
    double sum = 0.0;
    int64_t n = 0;

    for (int i = first; i < series->n; i++) {
        sum += series->buckets[i].at[curve].sum;
        n += series->buckets[i].at[curve].n;
    }
    return n > 0 ? sum / (double)n : (double)NAN;
}

struct vp_overview vp_overview_of(const struct vp_run_data *run)
{
    const struct vp_series *steps = &run->steps;
    int warm = steps->n / 10, last = steps->n - (steps->n + 9) / 10;
    struct vp_overview out = {
        .tokens_per_second = NAN,
        .step_seconds = mean_of(steps, warm, VP_CURVE_SECONDS),
        .bubble = mean_of(steps, warm, VP_CURVE_BUBBLE),
        .loss = mean_of(steps, last, VP_CURVE_LOSS),
    };
    double tokens = run->end.tokens, seconds = run->end.seconds;

    if (warm > 0) {
        tokens -= steps->buckets[warm - 1].x.tokens;
        seconds -= steps->buckets[warm - 1].x.seconds;
    }
    if (seconds > 0.0 && tokens > 0.0)
        out.tokens_per_second = tokens / seconds;
    return out;
}

/* ---- The table ---------------------------------------------------------- */

static double largest_stage(const struct vp_run_data *run)
{
    double most = NAN;

    for (int s = 0; s < run->last.memory.n; s++)
        most = fmax(most, run->last.memory.at[s]);
    return most;
}

static void put_row(struct vp_strbuf *out, const struct vp_page_run *run)
{
    const struct vp_run_data *data = &run->data;
    struct vp_overview o = vp_overview_of(data);

    vp_strbuf_addf(out,
                   "<tr><th scope=\"row\"><span class=\"swatch c%d\"></span>",
                   run->number % VP_N_RUN_COLOURS);
    vp_html_text(out, data->name);
    vp_strbuf_adds(out, "</th>");
    vp_part_number(out, "%lld", (long long)data->n_steps);
    vp_part_real(out, "%.4f", o.loss);
    vp_part_real(out, "%.4f", data->last_eval);
    vp_part_real(out, "%.0f", o.tokens_per_second);
    vp_part_real(out, "%.4g ms", 1e3 * o.step_seconds);
    vp_part_real(out, "%.1f %%", 100.0 * o.bubble);
    vp_part_bytes(out, largest_stage(data));
    vp_strbuf_adds(out, "</tr>\n");
}

void vp_section_overview(struct vp_strbuf *out, const struct vp_page_run *runs,
                         int n)
{
    vp_strbuf_adds(out, "<section id=\"overview\"><h2>Overview</h2>\n"
                        "<div class=\"scroll\"><table><thead><tr>"
                        "<th scope=\"col\">Run</th>"
                        "<th scope=\"col\" class=\"num\">Steps</th>"
                        "<th scope=\"col\" class=\"num\">Loss, last tenth</th>"
                        "<th scope=\"col\" class=\"num\">Held-out loss</th>"
                        "<th scope=\"col\" class=\"num\">Tokens/s</th>"
                        "<th scope=\"col\" class=\"num\">Step</th>"
                        "<th scope=\"col\" class=\"num\">Bubble</th>"
                        "<th scope=\"col\" class=\"num\">Largest stage</th>"
                        "</tr></thead><tbody>\n");
    for (int i = 0; i < n; i++)
        put_row(out, &runs[i]);
    vp_strbuf_adds(out,
                   "</tbody></table></div>\n<p class=\"hint\">Rates and "
                   "bubble are means without the first tenth of the steps. "
                   "Bubble: the share of the ranks' time without "
                   "work.</p></section>\n");
}

/* ---- Limits of a run ---------------------------------------------------- */

static const struct {
    const char *name, *class;
    size_t offset;
} shares[] = {
#define SHARE(name, class, field)                      \
    {                                                  \
        name, class, offsetof(struct vp_limits, field) \
    }
    SHARE("computing", "t-compute", compute),
    SHARE("recomputing", "t-recompute", recompute),
    SHARE("update and sums of gradients", "t-update", update),
    SHARE("evaluation", "t-eval", evaluation),
    SHARE("waiting: unequal stages", "t-imbalance", imbalance),
    SHARE("waiting: filling and draining the pipeline", "t-fill", fill),
    SHARE("waiting: swapped activations", "t-swap", swap),
    SHARE("waiting: the rest (messages, shared cores)", "t-rest", rest),
#undef SHARE
};

static double share_at(const struct vp_limits *limits, size_t i)
{
    return *(const double *)(const void *)((const char *)limits +
                                           shares[i].offset);
}

static void put_bar(struct vp_strbuf *out, const struct vp_limits *limits)
{
    double x = 0.0;

    vp_strbuf_adds(out,
                   "<svg class=\"bar\" viewBox=\"0 0 1000 26\" role=\"img\" "
                   "aria-label=\"Where the time of the ranks goes\" "
                   "preserveAspectRatio=\"none\">");
    for (size_t i = 0; i < VP_COUNT_OF(shares); i++) {
        double width = 1000.0 * share_at(limits, i);

        vp_strbuf_addf(out,
                       "<rect class=\"%s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" "
                       "height=\"26\"/>",
                       shares[i].class, x, width);
        x += width;
    }
    vp_strbuf_adds(out, "</svg>\n<p class=\"legend\">");
    for (size_t i = 0; i < VP_COUNT_OF(shares); i++) {
        char name[96];

        if (share_at(limits, i) < 0.0005)
            continue;
        snprintf(name, sizeof(name), "%s %.1f %%", shares[i].name,
                 100.0 * share_at(limits, i));
        vp_part_key(out, shares[i].class, name);
    }
    vp_strbuf_adds(out, "</p>\n");
}

static void put_finding(struct vp_strbuf *out, const struct vp_finding *finding)
{
    vp_strbuf_adds(out, "<li><strong>");
    vp_html_text(out, finding->title);
    vp_strbuf_adds(out, "</strong>");
    if (finding->share > 0.0)
        vp_strbuf_addf(out, " <span class=\"cost\">%.0f %% of the time</span>",
                       100.0 * finding->share);
    vp_strbuf_adds(out, "<p>");
    vp_html_text(out, finding->text);
    vp_strbuf_adds(out, "</p>");
    if (finding->remedy[0]) {
        vp_strbuf_adds(out, "<p class=\"remedy\"><span>What to do:</span> ");
        vp_html_text(out, finding->remedy);
        vp_strbuf_adds(out, "</p>");
    }
    vp_strbuf_adds(out, "</li>\n");
}

void vp_section_limits(struct vp_strbuf *out, const struct vp_page_run *run)
{
    vp_strbuf_adds(out, "<ol class=\"findings\">\n");
    for (int i = 0; i < run->limits.n_findings; i++)
        put_finding(out, &run->limits.findings[i]);
    vp_strbuf_adds(out, "</ol>\n");
    if (run->limits.known) {
        vp_strbuf_adds(out, "<h4>Where the time of the ranks goes</h4>\n");
        put_bar(out, &run->limits);
    }
    if (run->data.n_notes > 0)
        vp_strbuf_adds(out,
                       "<p class=\"notes\"><strong>Not everything could be "
                       "read.</strong> ");
    for (int i = 0; i < run->data.n_notes; i++) {
        vp_html_text(out, run->data.notes[i]);
        vp_strbuf_adds(out, i + 1 < run->data.n_notes ? "; " : ".</p>\n");
    }
}
