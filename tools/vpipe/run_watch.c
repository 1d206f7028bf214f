/* Connects the events of a run to the screen, the dashboard and the monitor. */
#include "run_watch.h"

#include "goal.h"
#include "report/page.h"
#include "run/folder.h"
#include "signals.h"

#include <limits.h>
#include <string.h>

static void on_warning(void *ctx, const char *line)
{
    struct run_watch *watch = ctx;

    progress_warning(&watch->progress, line);
}

static void on_live(void *ctx, const struct vp_live *live)
{
    vp_dashboard_show(ctx, live);
}

static void print_line(struct run_watch *watch, const char *line)
{
    if (!watch->quiet)
        progress_notice(&watch->progress, line);
}

/* Prints the token of the dashboard only on a terminal, not in a log. */
static void start_dashboard(struct run_watch *watch, const char *folder)
{
    char url[VP_DASHBOARD_URL], line[VP_DASHBOARD_URL + 128];
    struct vp_err err = { .text = "" };

    if (vp_dashboard_start(watch->dashboard, folder, url, &err) != VP_OK) {
        on_warning(watch, err.text);
        return;
    }
    if (watch->progress.terminal)
        snprintf(line, sizeof(line), "dashboard %s", url);
    else
        snprintf(line, sizeof(line),
                 "dashboard %.*s, with the token in " VP_DASHBOARD_TOKEN_FILE
                 " of the run folder",
                 (int)strcspn(url, "?"), url);
    print_line(watch, line);
}

/* If the dashboard or the monitor cannot be started, prints a warning and the
 * run continues. */
static void start_monitor(struct run_watch *watch,
                          const struct vp_run_summary *summary)
{
    const struct vp_monitor_config config = {
        .config = watch->config,
        .version = VP_VERSION,
        .ctx = watch->dashboard,
        .on_live = watch->dashboard ? on_live : NULL,
    };
    struct vp_err err = { .text = "" };

    if (summary->output && watch->dashboard)
        start_dashboard(watch, summary->output);
    if (summary->output &&
        vp_monitor_start(&config, summary, &watch->monitor, &err) != VP_OK)
        on_warning(watch, err.text);
}

static void on_start(void *ctx, const struct vp_run_summary *summary)
{
    struct run_watch *watch = ctx;

    goal_keep_start(&watch->progress, summary);
    watch->progress.output = summary->output;
    if (!watch->quiet)
        progress_start(&watch->progress, summary);
    start_monitor(watch, summary);
}

static void on_plan(void *ctx, const struct vp_run_summary *summary)
{
    struct run_watch *watch = ctx;

    if (!watch->quiet)
        progress_plan(&watch->progress, summary);
    vp_monitor_plan(watch->monitor, summary);
}

static void on_stages(void *ctx, const struct vp_stage_stats *stats)
{
    struct run_watch *watch = ctx;

    if (!watch->quiet && watch->progress.terminal)
        progress_stages(&watch->progress, stats);
    vp_monitor_stages(watch->monitor, stats);
}

static void on_step(void *ctx, const struct vp_step_report *report)
{
    struct run_watch *watch = ctx;

    if (!watch->quiet)
        progress_step(&watch->progress, report);
    vp_monitor_step(watch->monitor, report);
}

static void on_detail(void *ctx, int rank, const char *line)
{
    struct run_watch *watch = ctx;

    if (!watch->quiet)
        progress_detail(&watch->progress, rank, line);
}

static void on_saved(void *ctx, int64_t step)
{
    const struct run_watch *watch = ctx;

    vp_monitor_saved(watch->monitor, step);
}

static void on_eval(void *ctx, int64_t step, int64_t n_batches, double loss)
{
    struct run_watch *watch = ctx;

    goal_keep_eval(&watch->progress, step, n_batches, loss);
    if (!watch->quiet)
        progress_eval(&watch->progress, step, n_batches, loss);
    vp_monitor_eval(watch->monitor, step, loss);
}

static void on_notice(void *ctx, const char *line)
{
    struct run_watch *watch = ctx;

    progress_notice(&watch->progress, line);
}

/* Writes report.html. A failure is only a warning. */
static void leave_report(struct run_watch *watch)
{
    const char *const folder = watch->progress.output;
    struct vp_err err = { .text = "" };
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/report.html", folder);
    if (vp_report_write(&folder, 1, path, &err) != VP_OK)
        on_warning(watch, err.text);
}

static void on_end(void *ctx, const struct vp_run_result *result)
{
    struct run_watch *watch = ctx;
    struct vp_err line;

    leave_report(watch);
    if (watch->quiet)
        return;
    progress_end(&watch->progress, result);
    if (!result->interrupted || !signals_reader_has_gone())
        return;
    vp_folder_unread(watch->progress.output, &line);
    fprintf(stderr, "%s\n", line.text);
}

struct vp_run_events run_watch_events(struct run_watch *watch)
{
    return (struct vp_run_events){
        .ctx = watch,
        .on_start = on_start,
        .on_plan = on_plan,
        .on_step = on_step,
        .on_stages = on_stages,
        .on_detail = on_detail,
        .on_saved = on_saved,
        .on_eval = on_eval,
        .on_notice = watch->quiet ? NULL : on_notice,
        .on_warning = on_warning,
        .on_end = on_end,
    };
}

enum vp_status run_watch_page(const char *folder, const char *script,
                              struct vp_strbuf *out, struct vp_err *err)
{
    const struct vp_report_options options = { .live_script = script };

    return vp_report_page(&folder, 1, &options, out, err);
}

void run_watch_end(struct run_watch *watch, enum vp_status st,
                   const struct vp_err *err)
{
    struct vp_err line = { .text = "" };

    if (vp_monitor_stop(watch->monitor, st, err->text, &line) != VP_OK)
        on_warning(watch, line.text);
    vp_dashboard_close(watch->dashboard);
    watch->monitor = NULL;
    watch->dashboard = NULL;
}
