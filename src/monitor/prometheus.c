/* Families of the tables of metric.h, and labels about the run. */
#include "monitor/prometheus.h"

#include <math.h>
#include <string.h>

static bool is_counter(const char *name)
{
    static const char end[] = "_total";
    size_t n = strlen(name);

    return n > sizeof(end) - 1 && strcmp(name + n - sizeof(end) + 1, end) == 0;
}

/* Appends the HELP and TYPE lines of a family. */
static void add_head(struct vp_strbuf *out, const char *prefix,
                     const char *name, const char *help)
{
    vp_strbuf_addf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name, help,
                   prefix, name, is_counter(name) ? "counter" : "gauge");
}

/* Appends the text of a label, escaped for its quotes. */
static void add_label(struct vp_strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            vp_strbuf_adds(out, "\\n");
        else if (*text == '\\' || *text == '"')
            vp_strbuf_addf(out, "\\%c", *text);
        else
            vp_strbuf_add(out, text, 1);
    }
}

static void add_run(struct vp_strbuf *out, const struct vp_metric *metric,
                    double value)
{
    if (!isfinite(value))
        return;
    add_head(out, "vpipe_", metric->name, metric->help);
    vp_strbuf_addf(out, "vpipe_%s %.17g\n", metric->name, value);
}

static void add_stages(struct vp_strbuf *out, const struct vp_metrics *metrics,
                       int number)
{
    const struct vp_metric *metric = &vp_stage_metrics[number];
    bool begun = false;

    for (int s = 0; s < metrics->n_stages; s++) {
        double value = metrics->stages[s][number];

        if (!isfinite(value))
            continue;
        if (!begun)
            add_head(out, "vpipe_stage_", metric->name, metric->help);
        begun = true;
        vp_strbuf_addf(out, "vpipe_stage_%s{stage=\"%d\"} %.17g\n",
                       metric->name, s, value);
    }
}

static void add_info(struct vp_strbuf *out, const struct vp_live *live)
{
    add_head(out, "vpipe_", "build_info", "The version of vpipe.");
    vp_strbuf_adds(out, "vpipe_build_info{version=\"");
    add_label(out, live->version);
    vp_strbuf_adds(out, "\"} 1\n");
    add_head(out, "vpipe_", "run_info", "What is trained, and how.");
    vp_strbuf_adds(out, "vpipe_run_info{model=\"");
    add_label(out, live->model);
    vp_strbuf_adds(out, "\",schedule=\"");
    add_label(out, live->schedule);
    vp_strbuf_adds(out, "\",transport=\"");
    add_label(out, live->transport);
    vp_strbuf_adds(out, "\"} 1\n");
    add_head(out, "vpipe_", "run_state", "1 for the state of the run.");
    for (int i = 0; i < VP_LIVE_STATE_COUNT; i++)
        vp_strbuf_addf(out, "vpipe_run_state{state=\"%s\"} %d\n",
                       vp_live_state_name((enum vp_live_state)i),
                       (int)live->state == i);
}

void vp_prometheus_print(const struct vp_live *live, struct vp_strbuf *out)
{
    add_info(out, live);
    for (int i = 0; i < VP_RUN_METRIC_COUNT; i++)
        add_run(out, &vp_run_metrics[i], live->metrics.run[i]);
    for (int i = 0; i < VP_STAGE_METRIC_COUNT; i++)
        add_stages(out, &live->metrics, i);
}
