/* Runs steps, evaluations, checkpoints and moves from the first step of a run
 * to its end. */
#include "run/run_loop.h"

#include "base/clock.h"
#include "job/job_phase.h"
#include "run/export.h"
#include "run/forecast.h"
#include "run/plan_history.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Batches of an evaluation between two lines of the log and checks of
 * `stop`. */
enum { EVAL_PART = 64 };

static int64_t at_least_1(int64_t n)
{
    return n < 1 ? 1 : n;
}

static bool asked_to_stop(const struct vp_run_state *run)
{
    return (run->options->stop && *run->options->stop) ||
           vp_trainer_stopped(run->trainer);
}

static void note_loss(struct vp_run_state *run,
                      const struct vp_step_report *report)
{
    int64_t n = vp_run_last_step(run), tenth = at_least_1(n / 10);

    if (isfinite(report->loss) && report->step <= tenth) {
        run->losses[0] += report->loss;
        run->n_losses[0]++;
    }
    if (isfinite(report->loss) && report->step > n - tenth) {
        run->losses[1] += report->loss;
        run->n_losses[1]++;
    }
    run->tokens += (double)report->n_tokens;
    run->flops += report->flops;
    run->seconds += report->seconds;
    run->waited += report->bubble * report->seconds;
    run->n_done = report->step;
}

enum vp_status vp_run_evaluate(struct vp_run_state *run, int64_t n,
                               struct vp_err *err)
{
    int64_t n_all = vp_data_info(run->samples.eval)->n_batches;
    int64_t step = run->n_done;
    int64_t start_ns = vp_clock_ns();
    struct vp_score score = { .loss = 0.0 };

    if (n > n_all || run->config->forward_only)
        n = n_all;
    for (int64_t m = 0; m < n; m += EVAL_PART) {
        int64_t part = n - m < EVAL_PART ? n - m : EVAL_PART;

        if (run->config->forward_only && asked_to_stop(run))
            return VP_OK;
        VP_TRY(vp_trainer_eval_part(run->trainer, m, part, &score, err));
        VP_TRY(vp_log_eval(&run->log, m + part, n,
                           vp_clock_seconds(start_ns, vp_clock_ns()), &score,
                           err));
    }
    run->eval_loss = vp_score_loss(&score);
    if (run->folder.metrics)
        VP_TRY(vp_folder_write_eval(&run->folder, step, run->eval_loss, err));
    if (run->events->on_eval)
        run->events->on_eval(run->events->ctx, step, n, run->eval_loss);
    return VP_OK;
}

static bool eval_is_due(const struct vp_run_state *run, int64_t step)
{
    return step > 0 &&
           vp_trainer_is_due(run->trainer, run->config->eval_every, step);
}

static enum vp_status commit(struct vp_run_state *run, int64_t step,
                             double score, struct vp_err *err)
{
    VP_TRY(vp_checkpoints_commit(run->checkpoints, score, err));
    if (run->events->on_saved)
        run->events->on_saved(run->events->ctx, step);
    return VP_OK;
}

/* Exports the checkpoint of `step`, which is on disk, if an export is due. A
 * failure is a warning and does not end the run. */
static void export_saved(struct vp_run_state *run, int64_t step)
{
    int64_t every = run->config->export_every;
    char from[PATH_MAX], to[PATH_MAX];
    struct vp_export_config config = {
        .from = from, .to = to, .type = VP_ST_COUNT, .replace = true
    };
    struct vp_export_result result;
    struct vp_err err = { .text = "" };

    if (every == 0 || step / every == run->n_exported / every)
        return;
    run->n_exported = step;
    snprintf(from, sizeof(from), "%s/checkpoints/step-%lld", run->folder.path,
             (long long)step);
    snprintf(to, sizeof(to), "%s/export/step-%lld", run->folder.path,
             (long long)step);
    if (vp_export(&config, &result, &err) != VP_OK && run->events->on_warning) {
        vp_err_prefix(&err, "export of step %lld", (long long)step);
        run->events->on_warning(run->events->ctx, err.text);
    }
}

/* Logs a checkpoint once it is on disk, which may be several steps later. */
static enum vp_status log_saved(struct vp_run_state *run, struct vp_err *err)
{
    int64_t step = run->checkpoints ? vp_checkpoints_saved(run->checkpoints)
                                    : -1;

    if (step <= run->n_saved)
        return VP_OK;
    run->n_saved = step;
    export_saved(run, step);
    return vp_log_saved(&run->log, step, err);
}

static enum vp_status log_step(struct vp_run_state *run,
                               const struct vp_step_report *report,
                               struct vp_err *err)
{
    if (run->folder.metrics)
        VP_TRY(vp_folder_write_step(&run->folder, report, err));
    VP_TRY(vp_log_step(&run->log, report, err));
    VP_TRY(log_saved(run, err));
    if (run->verbose)
        VP_TRY(vp_verbose_step(run->verbose, run->trainer, report, err));
    return VP_OK;
}

/* Called after each step of the trainer. Returns false to stop it. If an
 * evaluation is due at a checkpoint, committing waits for its loss. */
static bool on_step(void *ctx, const struct vp_step_report *step)
{
    struct vp_run_state *run = ctx;
    struct vp_step_report report = *step;

    report.n_steps = vp_run_last_step(run);
    note_loss(run, &report);
    vp_forecast_check_step(&run->forecast, run->trainer, &report);
    run->status = log_step(run, &report, &run->err);
    run->uncommitted = report.saved;
    if (run->status == VP_OK && report.saved &&
        !eval_is_due(run, report.step)) {
        run->status = commit(run, report.step, NAN, &run->err);
        run->uncommitted = false;
    }
    if (run->events->on_stages)
        run->events->on_stages(run->events->ctx,
                               vp_trainer_stats(run->trainer));
    if (run->events->on_step)
        run->events->on_step(run->events->ctx, &report);
    return run->status == VP_OK && !asked_to_stop(run) &&
           !vp_timeline_is_due(&run->timeline, run->n_done) &&
           !(run->rebalance &&
             vp_rebalance_step(run->rebalance, run->trainer, &report));
}

/* Evaluates after step n_done if that is due, and commits a checkpoint that
 * waited for the loss. */
static enum vp_status evaluate_here(struct vp_run_state *run,
                                    struct vp_err *err)
{
    if (eval_is_due(run, run->n_done) && !asked_to_stop(run))
        VP_TRY(vp_run_evaluate(run, run->config->eval_batches, err));
    if (run->uncommitted)
        VP_TRY(commit(run, run->n_done, run->eval_loss, err));
    run->uncommitted = false;
    return VP_OK;
}

/* ---- Texts --------------------------------------------------------------- */

/* Writes a text to the log of the last stage and to metrics.jsonl. */
static enum vp_status write_text(void *ctx, const struct vp_run_text *text,
                                 struct vp_err *err)
{
    struct vp_run_state *run = ctx;
    int rank = run->stages[run->schedule->n_stages - 1].first_rank;
    json_t *fields = json_pack("{s:I, s:s, s:s}", "number",
                               (json_int_t)text->number, "prompt", text->prompt,
                               "text", text->text);
    char *object = fields ? json_dumps(fields, 0) : NULL;
    struct vp_strbuf line = VP_STRBUF_INIT;
    enum vp_status st;

    json_decref(fields);
    vp_strbuf_addf(&line, "Sample: [%lld][%lld]\t%s => %s",
                   (long long)run->n_done, (long long)text->number,
                   text->prompt, text->text);
    st = object && !line.failed
             ? vp_log_line(&run->log, rank, vp_strbuf_text(&line), err)
             : vp_err_set(err, VP_ERR_NOMEM, "texts of a run: out of memory");
    if (st == VP_OK) {
        /* Drop the braces around the fields. */
        object[strlen(object) - 1] = '\0';
        st = vp_folder_write_event(&run->folder, run->n_done, "sample",
                                   object + 1, err);
    }
    vp_strbuf_release(&line);
    free(object);
    return st;
}

/* Generates texts after step n_done if that is due. */
static enum vp_status make_texts_here(struct vp_run_state *run,
                                      struct vp_err *err)
{
    const struct vp_run_text_sink sink = { run, write_text };

    if (!run->texts || run->n_done == 0 || asked_to_stop(run) ||
        !vp_trainer_is_due(run->trainer, vp_run_texts_every(run->texts),
                           run->n_done))
        return VP_OK;
    return vp_run_texts_make(run->texts, run->trainer, &run->graphs[0],
                             run->folder.path, &sink, err);
}

/* Returns the next step at which the pipeline must drain for an evaluation or
 * for texts. */
static int64_t next_stop(const struct vp_run_state *run, int64_t end)
{
    int64_t every[] = { run->config->eval_every,
                        run->texts ? vp_run_texts_every(run->texts) : 0 };

    for (size_t i = 0; i < VP_COUNT_OF(every); i++) {
        int64_t due = every[i] > 0 ? vp_trainer_next_due(run->trainer, every[i])
                                   : end;

        end = due < end ? due : end;
    }
    return end;
}

/* ---- Moving to another plan --------------------------------------------- */

static enum vp_status write_move(struct vp_run_state *run,
                                 const struct vp_rebalance_move *move,
                                 struct vp_err *err)
{
    const struct vp_migration *migration = &move->migration;
    char fields[256 + 12 * VP_MAX_STAGES];
    size_t n = (size_t)snprintf(
        fields, sizeof(fields),
        "\"why\": \"%s\", \"blocks_moved\": %d, \"bytes_moved\": %lld, "
        "\"move_seconds\": %.6g, \"exact\": %s, \"partition\": [",
        move->why, migration->n_moved, (long long)migration->n_bytes,
        migration->seconds, migration->exact ? "true" : "false");

    for (int s = 0; s < run->schedule->n_stages; s++)
        n += (size_t)snprintf(fields + n, sizeof(fields) - n, "%s%d",
                              s ? ", " : "", run->stages[s].n_blocks);
    snprintf(fields + n, sizeof(fields) - n, "]");
    return vp_folder_write_event(&run->folder, run->n_done, "rebalance", fields,
                                 err);
}

/* Writes the move to plan.json and metrics.jsonl; only in the lead. */
static enum vp_status record_move(struct vp_run_state *run,
                                  const struct vp_rebalance_move *move,
                                  struct vp_err *err)
{
    int64_t bytes[VP_MAX_STAGES];
    const struct vp_memory *memory[VP_MAX_STAGES];
    struct vp_plan_forecast forecast = {
        .bytes = bytes,
        .memory = memory,
        .bubble = run->summary.bubble_simulated
    };
    const struct vp_plan_record record = { .plan = move->plan,
                                           .n_blocks = run->graphs[0].n_blocks,
                                           .forecast = &forecast,
                                           .step = run->n_done,
                                           .moved = true };

    for (int s = 0; s < run->schedule->n_stages; s++) {
        memory[s] = &run->prices[s].memory;
        bytes[s] = memory[s]->total;
    }
    VP_TRY(vp_plan_history_write(run->folder.path, &record, err));
    return write_move(run, move, err);
}

/* Points checkpoints, forecast and schedule to the new trainer, and frees the
 * previous one. */
static enum vp_status follow_move(struct vp_run_state *run,
                                  const struct vp_rebalance_move *move,
                                  struct vp_err *err)
{
    enum vp_status st = vp_checkpoints_follow(run->checkpoints, run->trainer,
                                              err);

    run->train.plan = *move->plan;
    run->schedule = vp_trainer_schedule(run->trainer);
    run->prices = vp_trainer_prices(run->trainer);
    if (!vp_trainer_free(move->left) && st == VP_OK)
        st = vp_err_set(err, VP_ERR_TIMEOUT,
                        "rebalance: a rank of the old plan did not end");
    VP_TRY(st);
    VP_TRY(vp_forecast_make(&run->train, run->schedule, run->prices,
                            run->stages, &run->summary, err));
    vp_forecast_check_begin(&run->forecast, NULL, &run->train, run->schedule,
                            run->prices);
    return VP_OK;
}

static enum vp_status move_if_ready(struct vp_run_state *run,
                                    struct vp_err *err)
{
    struct vp_rebalance_move move;
    char line[512], bytes[VP_BYTES_TEXT];

    if (!run->rebalance ||
        !vp_rebalance_move(run->rebalance, &run->trainer, &move))
        return VP_OK;
    VP_TRY(follow_move(run, &move, err));
    VP_TRY(record_move(run, &move, err));
    if (run->events->on_plan)
        run->events->on_plan(run->events->ctx, &run->summary);
    vp_bytes_text(move.migration.n_bytes, bytes, sizeof(bytes));
    snprintf(line, sizeof(line),
             "rebalance: new plan after step %lld (%s): %d blocks changed "
             "their rank, %s in %.3g s%s",
             (long long)run->n_done, move.why, move.migration.n_moved, bytes,
             move.migration.seconds,
             move.migration.exact
                 ? ""
                 : "; depths differ: minibatches start on the newest weights");
    vp_rebalance_tell(run->rebalance, line);
    return vp_log_line(&run->log, 0, line, err);
}

enum vp_status vp_run_begin(struct vp_run_state *run, struct vp_err *err)
{
    vp_forecast_check_begin(&run->forecast, run->config, &run->train,
                            run->schedule, run->prices);
    VP_TRY(evaluate_here(run, err)); /* a resumed step may have one due */
    if (run->home[0] && run->n_done < vp_run_last_step(run))
        vp_timeline_renew(&run->timeline, run->config, &run->summary);
    return VP_OK;
}

/* The pipeline drains only for an evaluation or texts, for a move to another
 * plan, and for the timeline of a resumed run. */
enum vp_status vp_run_to(struct vp_run_state *run, int64_t end,
                         struct vp_err *err)
{
    while (run->n_done < end && !asked_to_stop(run)) {
        VP_TRY(vp_trainer_run(run->trainer, next_stop(run, end) - run->n_done,
                              on_step, run, err));
        if (run->status != VP_OK)
            return vp_err_set(err, run->status, "%s", run->err.text);
        VP_TRY(vp_timeline_draw(&run->timeline, &run->summary, run->trainer,
                                run->n_done, err));
        VP_TRY(evaluate_here(run, err));
        VP_TRY(make_texts_here(run, err));
        VP_TRY(move_if_ready(run, err));
    }
    return VP_OK;
}

/* Returns NAN if `n` is 0. */
static double mean(double sum, int64_t n)
{
    return n > 0 ? sum / (double)n : NAN;
}

/* Returns the key or option to raise for more steps. */
static const char *limit_of(const struct vp_run_state *run)
{
    if (vp_run_last_step(run) < run->train.lr.total_steps)
        return "--max-steps";
    return run->config->total_steps > 0 ? "total_steps" : "epochs";
}

/* Writes the comparison of forecast and measurement. Returns its line, which is
 * in `text`, or NULL if there is none. */
static const char *report_forecast(struct vp_run_state *run,
                                   char text[VP_FORECAST_CHECK_TEXT])
{
    struct vp_err err;

    vp_forecast_check_end(&run->forecast, run->trainer);
    if (!run->forecast.ready)
        return NULL;
    vp_forecast_check_text(&run->forecast, text);
    /* The state is saved by now, so a full disk loses only this record. */
    if (vp_folder_write_forecast(&run->folder, run->n_done, &run->forecast,
                                 &err) != VP_OK &&
        run->events->on_warning)
        run->events->on_warning(run->events->ctx, err.text);
    return text;
}

enum vp_status vp_run_save(struct vp_run_state *run, struct vp_err *err)
{
    vp_job_phase_set(VP_JOB_PHASE_SAVE, run->folder.path);
    VP_TRY(vp_checkpoints_finish(run->checkpoints, NAN, err));
    VP_TRY(vp_folder_check_kept(&run->folder, err));
    return log_saved(run, err);
}

static enum vp_status report_end(struct vp_run_state *run, bool interrupted,
                                 struct vp_err *err)
{
    char forecast[VP_FORECAST_CHECK_TEXT];
    int64_t n_all = run->train.lr.total_steps;
    struct vp_trace trace;
    struct vp_run_result result = {
        .n_steps = run->n_done,
        .n_trained = run->n_done - run->summary.resumed,
        .n_left = run->n_saved > 0 && run->n_saved < n_all
                      ? n_all - run->n_saved
                      : 0,
        .limit = limit_of(run),
        .first_loss = mean(run->losses[0], run->n_losses[0]),
        .last_loss = mean(run->losses[1], run->n_losses[1]),
        .eval_loss = run->eval_loss,
        .seconds = run->seconds,
        .tokens_per_second = run->seconds > 0 ? run->tokens / run->seconds : 0,
        .gflops_per_second = run->seconds > 0 ? run->flops / run->seconds * 1e-9
                                              : 0,
        .bubble = run->seconds > 0 ? run->waited / run->seconds : 0,
        .forecast = report_forecast(run, forecast),
        .interrupted = interrupted,
        .trace = &trace,
        .stats = vp_trainer_stats(run->trainer),
    };
    enum vp_status st;

    VP_TRY(vp_trainer_trace(run->trainer, run->summary.schedule, &trace, err));
    /* A run that had no step left to do keeps its trace. */
    st = run->seconds > 0 ? vp_timeline_write(run->folder.path, &trace, err)
                          : VP_OK;
    if (st == VP_OK && run->events->on_end)
        run->events->on_end(run->events->ctx, &result);
    vp_trace_release(&trace);
    return st;
}

enum vp_status vp_run_finish(struct vp_run_state *run, struct vp_err *err)
{
    bool interrupted;

    vp_rebalance_give_up(run->rebalance);
    VP_TRY(vp_run_save(run, err));
    interrupted = asked_to_stop(run); /* printing may set the flag */
    VP_TRY(report_end(run, interrupted, err));
    return interrupted ? VP_ERR_INTERRUPTED : VP_OK;
}

enum vp_status vp_run_lead(struct vp_run_state *run, struct vp_err *err)
{
    if (run->config->forward_only) {
        VP_TRY(vp_run_evaluate(run, run->config->eval_batches, err));
        return asked_to_stop(run) ? VP_ERR_INTERRUPTED : VP_OK;
    }
    VP_TRY(vp_run_begin(run, err));
    VP_TRY(vp_run_to(run, vp_run_last_step(run), err));
    return vp_run_finish(run, err);
}

/* Executes the orders of the lead until it ends the run. */
static enum vp_status follow(struct vp_run_state *run, struct vp_err *err)
{
    struct vp_rebalance_move move;
    enum vp_followed what;

    for (;;) {
        VP_TRY(vp_trainer_follow(run->trainer, run->options->stop, &what, err));
        if (what == VP_FOLLOWED_END)
            return VP_OK;
        if (what == VP_FOLLOWED_PREPARE)
            vp_rebalance_prepare(run->rebalance, run->trainer);
        else if (vp_rebalance_follow(run->rebalance, &run->trainer, &move))
            VP_TRY(follow_move(run, &move, err));
    }
}

enum vp_status vp_run_follow(struct vp_run_state *run, struct vp_err *err)
{
    enum vp_status st = follow(run, err);
    struct vp_err own = { .text = "" };

    vp_job_phase_set(VP_JOB_PHASE_SAVE, run->folder.path);
    if (!run->checkpoints ||
        vp_checkpoints_finish(run->checkpoints, NAN, &own) == VP_OK)
        return st;
    /* This failure is the cause, whatever the lead reports. */
    return vp_err_set(err, VP_ERR_IO, "%s", own.text);
}
