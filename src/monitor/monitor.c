/* The training thread updates `live` under the lock; the monitor's thread
 * copies it to `shown` once a second and writes the files from there. */
#include "monitor/monitor.h"

#include "base/clock.h"
#include "base/limit.h"
#include "base/machine.h"
#include "monitor/event_file.h"
#include "monitor/prometheus.h"
#include "monitor/publish.h"
#include "monitor/rank_actions.h"
#include "monitor/status_file.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD_MS = 1000, END_MS = 2000 };
/* Decay per step of the average time of a step: about the last ten count. */
#define MEMORY 0.9

struct vp_monitor {
    struct vp_monitor_config config;
    char status_path[PATH_MAX];
    pthread_t thread;
    pthread_mutex_t lock; /* guards the next ones, up to `events` */
    pthread_cond_t changed;
    struct vp_live live;             /* without ranks */
    double pace_steps, pace_seconds; /* decaying sums */
    double window_seconds;           /* time of steps since the last write */
    int n_plans;
    bool wanted; /* the files should be written now */
    bool quit, done;
    struct vp_event_file *events; /* NULL: not configured */

    /* Used by the monitor's thread only. */
    struct vp_live shown;
    int seen_plans;
    double busy[VP_MAX_STAGES]; /* busy_seconds() at the last write */
    struct vp_rank_actions *actions;
    struct vp_strbuf text;
    struct vp_err err; /* error of the first failure; empty: none */
};

static double wall_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- The thread --------------------------------------------------------- */

static void note_failure(struct vp_monitor *monitor, enum vp_status st,
                         const struct vp_err *err)
{
    if (st != VP_OK && !monitor->err.text[0])
        monitor->err = *err;
}

/* Returns the time that all replicas of a stage have computed. */
static double busy_seconds(const double *stage)
{
    return stage[VP_STAGE_METRIC_FORWARD_SECONDS] +
           stage[VP_STAGE_METRIC_BACKWARD_SECONDS] +
           stage[VP_STAGE_METRIC_UPDATE_SECONDS];
}

/* Sets the busy ratio of each stage over the `seconds` of steps since the last
 * write. Keeps the old ratio if no step ended. */
static void set_busy(struct vp_monitor *monitor, double seconds, bool same_plan)
{
    struct vp_live *shown = &monitor->shown;

    for (int s = 0; s < shown->metrics.n_stages; s++) {
        double *stage = shown->metrics.stages[s], busy = busy_seconds(stage);
        double share = (busy - monitor->busy[s]) / seconds /
                       shown->stages[s].n_ranks;

        if (!isfinite(busy))
            continue;
        if (same_plan && seconds > 0.0)
            stage[VP_STAGE_METRIC_BUSY] = share < 1.0 ? share : 1.0;
        if (seconds > 0.0 || !same_plan)
            monitor->busy[s] = busy;
    }
}

/* Copies the state to `shown` and adds the values that this thread computes:
 * busy ratios, the time and the actions of ranks. */
static void take_snapshot(struct vp_monitor *monitor)
{
    struct vp_live_rank *ranks = monitor->shown.ranks;
    double busy[VP_MAX_STAGES], seconds;
    bool same_plan;

    for (int s = 0; s < VP_MAX_STAGES; s++)
        busy[s] = monitor->shown.metrics.stages[s][VP_STAGE_METRIC_BUSY];
    pthread_mutex_lock(&monitor->lock);
    monitor->live.number++;
    monitor->shown = monitor->live;
    seconds = monitor->window_seconds;
    monitor->window_seconds = 0.0;
    same_plan = monitor->seen_plans == monitor->n_plans;
    monitor->seen_plans = monitor->n_plans;
    if (monitor->events)
        vp_event_file_take(monitor->events);
    pthread_mutex_unlock(&monitor->lock);
    for (int s = 0; s < VP_MAX_STAGES && same_plan; s++)
        monitor->shown.metrics.stages[s][VP_STAGE_METRIC_BUSY] = busy[s];
    set_busy(monitor, seconds, same_plan);
    monitor->shown.metrics.run[VP_RUN_METRIC_UPDATE_TIME] = wall_time();
    monitor->shown.ranks = ranks;
    monitor->shown.n_ranks = vp_rank_actions_read(monitor->actions, ranks);
}

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "status.json: out of memory; close other programs");
}

static void publish_text(struct vp_monitor *monitor, const char *path)
{
    struct vp_err err = { .text = "" };
    enum vp_status st;

    if (monitor->text.failed)
        st = no_memory(&err);
    else
        st = vp_publish(path, vp_strbuf_text(&monitor->text),
                        monitor->text.n_bytes, &err);
    note_failure(monitor, st, &err);
    vp_strbuf_clear(&monitor->text);
}

static void write_files(struct vp_monitor *monitor)
{
    const char *prometheus = monitor->config.config->prometheus_file;
    struct vp_err err = { .text = "" };

    take_snapshot(monitor);
    if (monitor->events)
        note_failure(monitor, vp_event_file_write(monitor->events, &err), &err);
    vp_status_print(&monitor->shown, &monitor->text);
    publish_text(monitor, monitor->status_path);
    if (prometheus) {
        vp_prometheus_print(&monitor->shown, &monitor->text);
        publish_text(monitor, prometheus);
    }
    if (monitor->config.on_live)
        monitor->config.on_live(monitor->config.ctx, &monitor->shown);
}

/* Signals are handled by the other threads of the program. */
static void block_signals(void)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static void *thread_main(void *arg)
{
    struct vp_monitor *monitor = arg;
    bool last;

    block_signals();
    pthread_setname_np(pthread_self(), "vpipe-monitor");
    pthread_mutex_lock(&monitor->lock);
    do {
        struct timespec at = vp_clock_after(PERIOD_MS);

        last = monitor->quit;
        monitor->wanted = false;
        pthread_mutex_unlock(&monitor->lock);
        write_files(monitor);
        pthread_mutex_lock(&monitor->lock);
        while (!monitor->quit && !monitor->wanted &&
               pthread_cond_timedwait(&monitor->changed, &monitor->lock, &at) ==
                   0)
            ;
    } while (!last);
    monitor->done = true;
    pthread_cond_broadcast(&monitor->changed);
    pthread_mutex_unlock(&monitor->lock);
    return NULL;
}

/* ---- Start -------------------------------------------------------------- */

static void copy_plan(struct vp_live *live,
                      const struct vp_run_summary *summary)
{
    snprintf(live->schedule, sizeof(live->schedule), "%s", summary->schedule);
    live->metrics.n_stages = summary->n_stages;
    for (int s = 0; s < summary->n_stages; s++) {
        const struct vp_run_stage *stage = &summary->stages[s];

        live->stages[s] = (struct vp_live_stage){
            .first_rank = stage->first_rank,
            .n_ranks = stage->n_ranks,
            .first_block = stage->first_block,
            .n_blocks = stage->n_blocks,
        };
        live->metrics.stages[s][VP_STAGE_METRIC_MEMORY] =
            (double)stage->memory->total;
    }
}

static void describe(struct vp_monitor *monitor,
                     const struct vp_run_summary *summary)
{
    struct vp_live *live = &monitor->live;
    double *run = live->metrics.run;

    vp_metrics_init(&live->metrics, 0);
    live->state = summary->forward_only ? VP_LIVE_EVALUATING : VP_LIVE_TRAINING;
    snprintf(live->version, sizeof(live->version), "%s",
             monitor->config.version);
    vp_machine_name(live->host, sizeof(live->host));
    live->pid = getpid();
    snprintf(live->model, sizeof(live->model), "%s", summary->model);
    snprintf(live->transport, sizeof(live->transport), "%s",
             summary->transport);
    copy_plan(live, summary);
    run[VP_RUN_METRIC_STEPS] = (double)summary->resumed;
    if (summary->n_steps > 0)
        run[VP_RUN_METRIC_TARGET_STEPS] = (double)summary->n_steps;
    if (summary->resumed > 0)
        run[VP_RUN_METRIC_CHECKPOINT_STEP] = (double)summary->resumed;
    run[VP_RUN_METRIC_START_TIME] = wall_time();
    monitor->shown = *live;
}

static void release(struct vp_monitor *monitor)
{
    vp_event_file_close(monitor->events);
    vp_rank_actions_free(monitor->actions);
    vp_strbuf_release(&monitor->text);
    free(monitor->shown.ranks);
    pthread_mutex_destroy(&monitor->lock);
    pthread_cond_destroy(&monitor->changed);
    free(monitor);
}

static enum vp_status open_parts(struct vp_monitor *monitor,
                                 const struct vp_run_summary *summary,
                                 struct vp_err *err)
{
    if (snprintf(monitor->status_path, sizeof(monitor->status_path),
                 "%s/" VP_STATUS_FILE,
                 summary->output) >= (int)sizeof(monitor->status_path))
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          summary->output);
    describe(monitor, summary);
    monitor->shown.ranks = calloc(VP_LIVE_MAX_RANKS,
                                  sizeof(*monitor->shown.ranks));
    if (!monitor->shown.ranks)
        return no_memory(err);
    VP_TRY(vp_rank_actions_create(summary, &monitor->actions, err));
    if (monitor->config.config->tensorboard && !summary->forward_only)
        VP_TRY(vp_event_file_open(summary->output, summary->resumed,
                                  &monitor->events, err));
    return VP_OK;
}

enum vp_status vp_monitor_start(const struct vp_monitor_config *config,
                                const struct vp_run_summary *summary,
                                struct vp_monitor **out, struct vp_err *err)
{
    struct vp_monitor *monitor = calloc(1, sizeof(*monitor));
    enum vp_status st;

    if (!monitor || vp_limit_cond_init(&monitor->changed) != 0) {
        free(monitor);
        return no_memory(err);
    }
    pthread_mutex_init(&monitor->lock, NULL);
    monitor->config = *config;
    st = open_parts(monitor, summary, err);
    if (st == VP_OK &&
        pthread_create(&monitor->thread, NULL, thread_main, monitor) != 0)
        st = vp_err_thread(err, "status.json");
    if (st != VP_OK) {
        release(monitor);
        return st;
    }
    *out = monitor;
    return VP_OK;
}

/* ---- Numbers ------------------------------------------------------------ */

void vp_monitor_plan(struct vp_monitor *monitor,
                     const struct vp_run_summary *summary)
{
    if (!monitor)
        return;
    pthread_mutex_lock(&monitor->lock);
    copy_plan(&monitor->live, summary);
    monitor->n_plans++;
    pthread_mutex_unlock(&monitor->lock);
}

void vp_monitor_stages(struct vp_monitor *monitor,
                       const struct vp_stage_stats *stats)
{
    if (!monitor)
        return;
    pthread_mutex_lock(&monitor->lock);
    vp_metrics_stages(&monitor->live.metrics, stats);
    pthread_mutex_unlock(&monitor->lock);
}

/* Returns the seconds until the last step; NAN if the run has no last step. */
static double find_eta(struct vp_monitor *monitor,
                       const struct vp_step_report *report)
{
    monitor->pace_steps = MEMORY * monitor->pace_steps + 1.0;
    monitor->pace_seconds = MEMORY * monitor->pace_seconds + report->seconds;
    if (report->n_steps < report->step)
        return NAN;
    return (double)(report->n_steps - report->step) * monitor->pace_seconds /
           monitor->pace_steps;
}

/* Makes the monitor's thread write the files now. The caller holds the lock. */
static void wake(struct vp_monitor *monitor)
{
    monitor->wanted = true;
    pthread_cond_broadcast(&monitor->changed);
}

/* A step with a checkpoint is written at once, so that the event file has all
 * steps up to the checkpoint from which a killed run resumes. */
void vp_monitor_step(struct vp_monitor *monitor,
                     const struct vp_step_report *report)
{
    bool full = false;

    if (!monitor)
        return;
    pthread_mutex_lock(&monitor->lock);
    vp_metrics_step(&monitor->live.metrics, report);
    monitor->live.metrics.run[VP_RUN_METRIC_ETA_SECONDS] = find_eta(monitor,
                                                                    report);
    vp_loss_curve_add(&monitor->live.losses, report->loss);
    monitor->window_seconds += report->seconds;
    if (monitor->events)
        full = vp_event_file_step(monitor->events, &monitor->live.metrics,
                                  wall_time());
    if (full || report->saved)
        wake(monitor);
    pthread_mutex_unlock(&monitor->lock);
}

void vp_monitor_eval(struct vp_monitor *monitor, int64_t step, double loss)
{
    if (!monitor)
        return;
    pthread_mutex_lock(&monitor->lock);
    monitor->live.metrics.run[VP_RUN_METRIC_EVAL_LOSS] = loss;
    if (monitor->events)
        vp_event_file_eval(monitor->events, step, loss, wall_time());
    pthread_mutex_unlock(&monitor->lock);
}

void vp_monitor_saved(struct vp_monitor *monitor, int64_t step)
{
    if (!monitor)
        return;
    pthread_mutex_lock(&monitor->lock);
    monitor->live.metrics.run[VP_RUN_METRIC_CHECKPOINT_STEP] = (double)step;
    wake(monitor);
    pthread_mutex_unlock(&monitor->lock);
}

/* ---- Stop --------------------------------------------------------------- */

static enum vp_live_state last_state(enum vp_status st)
{
    if (st == VP_ERR_INTERRUPTED)
        return VP_LIVE_INTERRUPTED;
    return st == VP_OK ? VP_LIVE_DONE : VP_LIVE_FAILED;
}

/* Returns false if the thread did not end in time. */
static bool end_thread(struct vp_monitor *monitor, enum vp_status st,
                       const char *line)
{
    struct timespec at = vp_clock_after(END_MS);
    bool done;

    pthread_mutex_lock(&monitor->lock);
    monitor->live.state = last_state(st);
    if (monitor->live.state == VP_LIVE_FAILED)
        snprintf(monitor->live.line, sizeof(monitor->live.line), "%s", line);
    monitor->quit = true;
    pthread_cond_broadcast(&monitor->changed);
    while (!monitor->done &&
           pthread_cond_timedwait(&monitor->changed, &monitor->lock, &at) == 0)
        ;
    done = monitor->done;
    pthread_mutex_unlock(&monitor->lock);
    return done;
}

/* Leaked on purpose if the thread did not end: it still uses the monitor. */
enum vp_status vp_monitor_stop(struct vp_monitor *monitor, enum vp_status st,
                               const char *line, struct vp_err *err)
{
    int64_t n_dropped;

    if (!monitor)
        return VP_OK;
    if (!end_thread(monitor, st, line)) {
        pthread_detach(monitor->thread);
        return vp_err_set(err, VP_ERR_IO,
                          "%s: the file system does not answer; the last "
                          "state of the run is not in it",
                          monitor->status_path);
    }
    pthread_join(monitor->thread, NULL);
    n_dropped = monitor->events ? vp_event_file_n_dropped(monitor->events) : 0;
    st = VP_OK;
    if (monitor->err.text[0])
        st = vp_err_set(err, VP_ERR_IO, "%s", monitor->err.text);
    else if (n_dropped > 0)
        st = vp_err_set(err, VP_ERR_IO,
                        "tensorboard: %lld records were dropped because the "
                        "disk was slow; they are in metrics.jsonl",
                        (long long)n_dropped);
    release(monitor);
    return st;
}
