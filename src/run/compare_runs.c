/* Comparison of runs that exist: reads their results from their folders. */
#include "run/compare.h"

#include "config/resolve.h"
#include "run/metrics.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Sums over the steps of a run, from which struct vp_compare_round is made. */
struct sums {
    int64_t n_all; /* all steps of the run, counted in a first pass */
    int64_t n_seen, n_warm_up, n_counted, n_losses;
    double seconds, samples, tokens; /* over steps after the warm-up */
    double all_seconds, waited;
    double loss; /* sum over the last tenth of the steps */
    struct vp_metrics_list memory;
};

static void count_step(void *ctx, const struct vp_metrics_record *record)
{
    ((struct sums *)ctx)->n_all += !record->event[0];
}

static void add_step(void *ctx, const struct vp_metrics_record *record)
{
    struct sums *sums = ctx;
    int64_t tenth = sums->n_all / 10 > 0 ? sums->n_all / 10 : 1;
    double seconds = record->seconds;

    if (record->event[0])
        return;
    sums->n_seen++;
    if (record->memory.n > 0)
        sums->memory = record->memory;
    if (sums->n_seen > sums->n_all - tenth && isfinite(record->loss)) {
        sums->loss += record->loss;
        sums->n_losses++;
    }
    if (!(seconds > 0.0) || !isfinite(record->samples_per_second) ||
        !isfinite(record->tokens_per_second) || !isfinite(record->bubble))
        return;
    sums->all_seconds += seconds;
    sums->waited += seconds * record->bubble;
    if (sums->n_seen <= sums->n_all / 10)
        return;
    sums->n_counted++;
    sums->seconds += seconds;
    sums->samples += seconds * record->samples_per_second;
    sums->tokens += seconds * record->tokens_per_second;
}

static enum vp_status add_steps(const char *folder, struct sums *sums,
                                struct vp_err *err)
{
    struct vp_metrics_faults faults;

    VP_TRY(vp_metrics_read(folder, count_step, sums, &faults, err));
    VP_TRY(vp_metrics_read(folder, add_step, sums, &faults, err));
    if (sums->n_counted == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.256s: the run has made no step; give the folder "
                          "of a run that has",
                          folder);
    return VP_OK;
}

/* Returns the share of the ranks' time in the trace that was spent waiting for
 * messages and for free buffers at the receiver; NAN: there is no trace. */
static double waiting_in_trace(const char *folder)
{
    char path[PATH_MAX];
    struct vp_trace trace;
    double wait = 0.0, all;

    snprintf(path, sizeof(path), "%s/trace.json", folder);
    if (access(path, F_OK) != 0 ||
        vp_trace_read_chrome(path, &trace, NULL) != VP_OK)
        return NAN;
    for (int r = 0; r < trace.n_ranks; r++)
        for (int i = 0; i < trace.ranks[r].n_events; i++) {
            const struct vp_trace_event *e = &trace.ranks[r].events[i];

            if (e->kind != VP_ACTION_REDUCE && e->kind != VP_ACTION_UPDATE)
                wait += (double)e->wait_ns;
        }
    all = (double)(trace.end_ns - trace.begin_ns) * trace.n_ranks;
    vp_trace_release(&trace);
    return all > 0.0 ? wait / all : (double)NAN;
}

static void describe(const struct vp_config *config, const struct sums *sums,
                     struct vp_contestant *out)
{
    struct vp_train_config train = { .graphs = NULL };
    int n_chunks;

    vp_resolve_train(config, &train);
    n_chunks = train.plan.n_chunks > 0 ? train.plan.n_chunks : 1;
    *out = (struct vp_contestant){
        .name = out->name,
        .n_stages = sums->memory.n < VP_MAX_STAGES ? sums->memory.n
                                                   : VP_MAX_STAGES,
        .n_ranks = vp_plan_n_ranks(&train.plan),
        .batch = config->batch_size,
        .group = config->accumulation_steps,
        .n_steps = sums->n_all,
        .simulated = NAN,
        .bubble_simulated = NAN,
    };
    for (int s = 0; s < out->n_stages; s++) {
        int place = out->n_stages > n_chunks ? s % (out->n_stages / n_chunks)
                                             : 0;

        out->stage_bytes[s] = (int64_t)sums->memory.at[s];
        out->stage_ranks[s] = train.plan.replicas ? train.plan.replicas[place]
                                                  : 1;
    }
}

enum vp_status vp_compare_read(const char *folder,
                               const struct vp_config *config,
                               struct vp_contestant *out, struct vp_err *err)
{
    struct sums sums = { .n_all = 0 };
    struct vp_compare_round round;

    VP_TRY(add_steps(folder, &sums, err));
    describe(config, &sums, out);
    round = (struct vp_compare_round){
        .samples_per_second = sums.samples / sums.seconds,
        .tokens_per_second = sums.tokens / sums.seconds,
        .step_seconds = sums.seconds / (double)sums.n_counted,
        .waiting = waiting_in_trace(folder),
        .bubble = sums.waited / sums.all_seconds,
        .loss = sums.n_losses > 0 ? sums.loss / (double)sums.n_losses
                                  : (double)NAN,
    };
    vp_compare_sum_up(&round, 1, out);
    return VP_OK;
}
