/* Logs of ranks in the format of the original vPipe; log.h lists its rules. */
#include "run/log.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Multiple of print_frequency that the original does not time in an epoch. */
enum { WARM_UP = 5 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double gigabytes(const struct vp_log *log, int stage)
{
    return (double)log->summary->stages[stage].memory->total * 1e-9;
}

/* ---- Files -------------------------------------------------------------- */

/* Flushes after every line, so that a killed run loses none. */
static enum vp_status flush(struct vp_log *log, int rank, struct vp_err *err)
{
    if (fflush(log->files[rank]) != 0)
        return vp_err_set(
            err, VP_ERR_IO, "%s: the log of rank %d cannot be written (%s); %s",
            log->folder, rank, strerror(errno), vp_write_remedy(errno));
    return VP_OK;
}

static enum vp_status flush_all(struct vp_log *log, struct vp_err *err)
{
    for (int r = 0; r < log->summary->n_ranks; r++)
        VP_TRY(flush(log, r, err));
    return VP_OK;
}

static enum vp_status open_files(struct vp_log *log,
                                 const struct vp_config *config,
                                 struct vp_err *err)
{
    char path[1024 + 32];

    for (int r = 0; r < log->summary->n_ranks; r++) {
        snprintf(path, sizeof(path), "%s/output.log.%d", log->folder,
                 vp_config_rank_number(config, r));
        log->files[r] = fopen(path, "ae");
        if (!log->files[r])
            return vp_err_write(err, path, errno);
    }
    return VP_OK;
}

/* ---- The first lines ---------------------------------------------------- */

static void print_resumed(FILE *out, const struct vp_log *log)
{
    long long step = log->summary->resumed;
    const char *from = log->summary->resumed_from;

    fprintf(out,
            "Resumed from checkpoint step %lld\n"
            "=> loading checkpoint '%s'\n"
            "=> loaded checkpoint '%s' (epoch %lld)\n",
            step, from, from, step / log->summary->steps_per_epoch);
}

static void print_stage(struct vp_log *log, const struct vp_config *config,
                        int s)
{
    const struct vp_run_stage *stage = &log->summary->stages[s];
    int n_replicas = stage->n_ranks / vp_summary_n_members(log->summary);

    for (int k = 0; k < stage->n_ranks; k++) {
        int rank = stage->first_rank + k;

        fprintf(log->files[rank], "[Rank %d] Stage: %d, Rank in stage: %d\n",
                vp_config_rank_number(config, rank), s, k);
        if (n_replicas > 1)
            fprintf(log->files[rank],
                    "Replicating stage: ranks=%d, module_size=%.3f\n",
                    n_replicas, 4.0 * (double)stage->n_params);
    }
}

static void print_start(struct vp_log *log, const struct vp_config *config)
{
    const struct vp_run_summary *summary = log->summary;

    for (int r = 0; r < summary->n_ranks; r++) {
        if (summary->resumed > 0)
            print_resumed(log->files[r], log);
        fprintf(log->files[r],
                "Finished initializing process group; backend: %s, rank: %d, "
                "world_size: %d\n",
                summary->transport, vp_config_rank_number(config, r),
                summary->n_ranks);
    }
    for (int s = 0; s < summary->n_stages; s++)
        print_stage(log, config, s);
    for (int r = 0; r < summary->n_ranks && !summary->forward_only; r++)
        fputs("Training...\n", log->files[r]);
}

enum vp_status vp_log_open(struct vp_log *log, const struct vp_config *config,
                           const struct vp_run_summary *summary,
                           const char *folder, struct vp_err *err)
{
    enum vp_status st;

    *log = (struct vp_log){
        .summary = summary,
        .folder = folder,
        .group = config->accumulation_steps,
        .step = summary->resumed,
        .epoch_start = now(),
    };
    log->every = config->print_frequency / log->group * log->group;
    log->every = log->every > 0 ? log->every : log->group;
    log->warm_up = WARM_UP * log->every;
    log->files = calloc((size_t)summary->n_ranks, sizeof(FILE *));
    if (!log->files)
        return vp_err_set(err, VP_ERR_NOMEM, "logs: out of memory");
    st = open_files(log, config, err);
    if (st != VP_OK) {
        vp_log_close(log);
        return st;
    }
    print_start(log, config);
    return flush_all(log, err);
}

void vp_log_close(struct vp_log *log)
{
    for (int r = 0; log->files && r < log->summary->n_ranks; r++)
        if (log->files[r])
            fclose(log->files[r]);
    free(log->files);
    log->files = NULL;
}

/* ---- Steps -------------------------------------------------------------- */

/* Prints "Loss: 2.5000 (2.7500)", with "-" for NAN. */
static void print_losses(FILE *out, double loss, double mean)
{
    fputs("Loss: ", out);
    if (isfinite(loss))
        fprintf(out, "%.4f ", loss);
    else
        fputs("- ", out);
    if (isfinite(mean))
        fprintf(out, "(%.4f)\t", mean);
    else
        fputs("(-)\t", out);
}

static void print_last(struct vp_log *log, FILE *out, int stage, int64_t at,
                       const struct vp_step_report *report)
{
    const struct vp_run_summary *summary = log->summary;
    int64_t n = summary->steps_per_epoch * log->group;
    double hours = log->measured / 3600.0;

    fprintf(out,
            "Stage: [%d] Epoch: [%lld][%lld/%lld]\tTime: %.3f (%.3f)\t"
            "Epoch time [hr]: %.3f (%.3f)\tMemory: %.3f (%.3f)\t",
            stage, (long long)((log->step - 1) / summary->steps_per_epoch),
            (long long)at, (long long)n,
            log->interval / (double)log->n_interval,
            log->time_sum / (double)log->n_times, hours,
            hours / (double)log->n_measured * (double)n, gigabytes(log, stage),
            gigabytes(log, stage));
    print_losses(out, report->loss,
                 log->n_losses > 0 ? log->loss_sum / (double)log->n_losses
                                   : (double)NAN);
    if (report->loss_scale > 0.0f)
        fprintf(out, "Loss scale: %.8g (%lld skipped)\t",
                (double)report->loss_scale, (long long)report->n_skipped);
    fputc('\n', out);
}

static void print_other(const struct vp_log *log, FILE *out, int stage,
                        int64_t at)
{
    const struct vp_run_summary *summary = log->summary;

    fprintf(out, "Stage: [%d] Epoch: [%lld][%lld/%lld]\tMemory: %.3f (%.3f)\n",
            stage, (long long)((log->step - 1) / summary->steps_per_epoch),
            (long long)at, (long long)(summary->steps_per_epoch * log->group),
            gigabytes(log, stage), gigabytes(log, stage));
}

/* `at` is the number of minibatches of the epoch so far. */
static void print_steps(struct vp_log *log, int64_t at,
                        const struct vp_step_report *report)
{
    const struct vp_run_summary *summary = log->summary;
    bool timed = at > log->warm_up;

    if (timed) {
        log->time_sum += log->interval / (double)log->n_interval;
        log->n_times++;
    }
    for (int s = 0; s < summary->n_stages; s++) {
        const struct vp_run_stage *stage = &summary->stages[s];

        for (int k = 0; k < stage->n_ranks; k++) {
            FILE *out = log->files[stage->first_rank + k];

            if (s < summary->n_stages - 1)
                print_other(log, out, s, at);
            else if (timed)
                print_last(log, out, s, at, report);
        }
    }
    log->interval = 0.0;
    log->n_interval = 0;
}

/* Prints to all logs, because guides to the original look for losses in the log
 * of rank 0. `at` is the number of minibatches of the epoch so far; the step
 * began `group` minibatches before. */
static void print_iteration(const struct vp_log *log, int64_t at,
                            const struct vp_step_report *report)
{
    for (int r = 0; r < log->summary->n_ranks; r++) {
        fprintf(log->files[r], "Epoch %lld, Iteration %lld, Loss: ",
                (long long)((log->step - 1) / log->summary->steps_per_epoch),
                (long long)(at - log->group));
        if (isfinite(report->loss))
            fprintf(log->files[r], "%.4f\n", report->loss);
        else
            fputs("-\n", log->files[r]);
    }
}

static void begin_epoch(struct vp_log *log)
{
    log->epoch_start = now();
    log->measured = log->interval = log->time_sum = log->loss_sum = 0.0;
    log->n_times = log->n_losses = log->n_measured = log->n_interval = 0;
}

static void print_epoch(const struct vp_log *log)
{
    long long epoch = (log->step - 1) / log->summary->steps_per_epoch;
    double end = now();

    for (int r = 0; r < log->summary->n_ranks; r++)
        fprintf(log->files[r],
                "Epoch %lld: %.3f seconds\n"
                "Epoch start time: %.3f, epoch end time: %.3f\n",
                epoch, end - log->epoch_start, log->epoch_start, end);
}

enum vp_status vp_log_step(struct vp_log *log,
                           const struct vp_step_report *report,
                           struct vp_err *err)
{
    int64_t per_epoch = log->files ? log->summary->steps_per_epoch : 0;
    bool ends_epoch, iteration;
    int64_t at;

    if (!log->files)
        return VP_OK;
    log->step = report->step;
    at = ((report->step - 1) % per_epoch + 1) * log->group;
    ends_epoch = report->step % per_epoch == 0;
    iteration = (at - log->group) % log->every == 0 || ends_epoch ||
                report->step == report->n_steps;
    if (isfinite(report->loss)) {
        log->loss_sum += report->loss;
        log->n_losses++;
    }
    if (at > log->warm_up) {
        log->measured += report->seconds;
        log->interval += report->seconds;
        log->n_measured += log->group;
        log->n_interval += log->group;
    }
    if (at % log->every != 0 && !iteration)
        return VP_OK;
    if (iteration)
        print_iteration(log, at, report);
    if (at % log->every == 0)
        print_steps(log, at, report);
    if (ends_epoch) {
        print_epoch(log);
        begin_epoch(log);
    }
    return flush_all(log, err);
}

/* ---- Checkpoints, evaluations, the rest --------------------------------- */

enum vp_status vp_log_saved(struct vp_log *log, int64_t step,
                            struct vp_err *err)
{
    if (!log->files)
        return VP_OK;
    for (int s = 0; s < log->summary->n_stages; s++)
        fprintf(log->files[log->summary->stages[s].first_rank],
                "Saved checkpoint to %s/checkpoints/step-%lld\n", log->folder,
                (long long)step);
    return flush_all(log, err);
}

enum vp_status vp_log_eval(struct vp_log *log, int64_t i, int64_t n,
                           double seconds, const struct vp_score *score,
                           struct vp_err *err)
{
    int last = log->files ? log->summary->n_stages - 1 : 0;
    const struct vp_run_stage *stage;
    int64_t epoch;

    if (!log->files)
        return VP_OK;
    stage = &log->summary->stages[last];
    epoch = log->step > 0 ? (log->step - 1) / log->summary->steps_per_epoch : 0;
    for (int k = 0; k < stage->n_ranks; k++) {
        FILE *out = log->files[stage->first_rank + k];
        double each = seconds / (double)i;

        fprintf(out,
                "Test: [%lld][%lld/%lld]\tTime: %.3f (%.3f)\t"
                "Memory: %.3f (%.3f)\t",
                (long long)epoch, (long long)i, (long long)n, each, each,
                gigabytes(log, last), gigabytes(log, last));
        print_losses(out, vp_score_loss(score), vp_score_loss(score));
        fputc('\n', out);
        if (i == n && score->n_labels > 0.0)
            fprintf(out, " * Prec@1 %.3f Prec@5 %.3f\n",
                    100.0 * score->top1 / score->n_labels,
                    100.0 * score->top5 / score->n_labels);
    }
    return flush_all(log, err);
}

enum vp_status vp_log_line(struct vp_log *log, int rank, const char *line,
                           struct vp_err *err)
{
    if (!log->files)
        return VP_OK;
    fprintf(log->files[rank], "%s\n", line);
    return flush(log, rank, err);
}
