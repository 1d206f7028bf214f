/* Sets up a run from its configuration (graphs, data, trainer, run folder), and
 * tears it down. */
#include "run/run.h"

#include "config/buckets.h"
#include "config/hosts.h"
#include "config/resolve.h"
#include "config/schedule_auto.h"
#include "config/schedule_file.h"
#include "job/job_phase.h"
#include "job/processes.h"
#include "run/advice.h"
#include "run/blackboxes.h"
#include "run/checkpoint.h"
#include "run/devices.h"
#include "run/disk_space.h"
#include "run/dry_run.h"
#include "run/first_weights.h"
#include "run/folder.h"
#include "run/forecast.h"
#include "run/log.h"
#include "run/missing.h"
#include "run/plan_agree.h"
#include "run/rebalance_request.h"
#include "run/resume.h"
#include "run/run_loop.h"
#include "run/run_state.h"
#include "run/samples.h"
#include "run/verbose.h"
#include "run/warm_up.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STREAM = 1 << 28 }; /* minibatches of a run in sync_mode asp */

static int64_t at_least_1(int64_t n)
{
    return n < 1 ? 1 : n;
}

/* With several processes only the lead calls back and writes files. */
static bool is_lead(const struct vp_run_state *run)
{
    return !run->world ||
           vp_world_is_mine(run->world, vp_world_lead(run->world));
}

/* NULL: missing resources are errors. */
static struct vp_missing *missing_of(struct vp_run_state *run)
{
    return run->options->elsewhere ? &run->missing : NULL;
}

/* ---- Trainer ------------------------------------------------------------ */

/* Returns the number of updates; in sync_mode asp, of minibatches. */
static int64_t steps_per_epoch(const struct vp_run_state *run)
{
    return at_least_1(vp_data_info(run->samples.train)->n_batches /
                      run->config->accumulation_steps);
}

static void set_steps(struct vp_run_state *run)
{
    const struct vp_config *config = run->config;
    struct vp_lr_config *lr = &run->train.lr;

    lr->steps_per_epoch = steps_per_epoch(run);
    lr->epochs = (int)config->epochs;
    lr->total_steps = config->total_steps > 0
                          ? config->total_steps
                          : config->epochs * lr->steps_per_epoch;
}

/* Schedules number the minibatches of a stream from the start of the run, in an
 * int. */
static enum vp_status check_steps(const struct vp_run_state *run,
                                  struct vp_err *err)
{
    const struct vp_config *config = run->config;
    int64_t n = run->train.lr.total_steps;

    if (config->sync_mode == VP_SYNC_BSP || n <= MAX_STREAM)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: the run has %lld minibatches, but asp counts to "
                      "%d; lower %s",
                      vp_config_blame(config, "total_steps epochs"),
                      (long long)n, MAX_STREAM,
                      config->total_steps > 0 ? "total_steps" : "epochs");
}

static void notice(void *ctx, const char *line)
{
    const struct vp_run_state *run = ctx;

    if (is_lead(run) && run->events->on_notice)
        run->events->on_notice(run->events->ctx, line);
}

/* For lines about work that may be lost: shown at once, and kept for the log,
 * which may not be open yet. */
static void show_warning(void *ctx, const char *line)
{
    struct vp_run_state *run = ctx;

    if (!is_lead(run))
        return;
    if (run->events->on_warning)
        run->events->on_warning(run->events->ctx, line);
    if (run->n_warnings < VP_RUN_MAX_WARNINGS)
        run->warnings[run->n_warnings] = strdup(line);
    if (run->n_warnings < VP_RUN_MAX_WARNINGS && run->warnings[run->n_warnings])
        run->n_warnings++;
}

static enum vp_status plan_trainer(struct vp_run_state *run, struct vp_err *err)
{
    const struct vp_config *config = run->config;
    struct vp_train_config *train = &run->train;
    const struct vp_devices_config devices = {
        .config = config,
        .world = run->world,
        .dry_run = run->options->dry_run,
        .missing = missing_of(run),
        .ctx = run,
        .notice = notice,
    };

    *train = (struct vp_train_config){
        .graphs = run->graphs,
        .n_graphs = run->n_buckets,
        .data = run->samples.train,
        .eval_data = run->samples.eval,
        .init = vp_param_init_range,
        .optim = config->optim,
        .lr = config->lr,
        .scale = config->loss_scale,
        .seed = config->seed,
        .rank_numbers = config->ranks.n > 0 ? config->ranks.at : NULL,
        .prefetch = config->prefetch,
        .world = run->world,
        .spread = run->options->elsewhere ||
                  (!run->world && vp_hosts_may_be_elsewhere(config)),
        .memory_limit = config->memory_limit,
        .rebalance_headroom = config->rebalance_headroom,
        .loader = run->resume  ? vp_resume_loader(run->resume)
                  : run->first ? vp_first_weights_loader(run->first)
                               : NULL,
        .saver = run->checkpoints ? vp_checkpoints_saver(run->checkpoints)
                                  : NULL,
        .observe = run->verbose ? vp_verbose_observer(run->verbose) : NULL,
        .observe_ctx = run->verbose,
    };
    vp_resolve_train(config, train);
    if (run->resume && vp_resume_schedule(run->resume, config))
        train->plan.schedule_text = vp_resume_schedule(run->resume, config);
    VP_TRY(vp_devices_choose(&devices, train, &run->devices, err));
    set_steps(run);
    if (!run->options->dry_run)
        VP_TRY(vp_blackboxes_open(&run->blackboxes, config, run->world,
                                  run->options->heartbeat, err));
    train->blackboxes = run->blackboxes.at;
    return check_steps(run, err);
}

static enum vp_status make_trainer(struct vp_run_state *run, struct vp_err *err)
{
    enum vp_status st = run->options->dry_run
                            ? vp_dry_run(&run->train, &run->priced, err)
                            : vp_trainer_create(&run->train, &run->trainer,
                                                err);

    if (st == VP_OK) {
        run->schedule = run->trainer ? vp_trainer_schedule(run->trainer)
                                     : &run->priced.schedule;
        run->prices = run->trainer ? vp_trainer_prices(run->trainer)
                                   : run->priced.stages;
    }
    return vp_advice_explain(run->config, &run->train, st, err);
}

/* ---- Summary ------------------------------------------------------------ */

static enum vp_status summarise(struct vp_run_state *run, struct vp_err *err)
{
    const struct vp_config *config = run->config;
    const struct vp_graph *graph = &run->graphs[0];
    const struct vp_dims *dims = &run->dims[run->n_buckets - 1];
    int64_t rows = dims->batch * (dims->seq + dims->tgt_seq);
    bool counted = vp_data_info(run->samples.train)->n_batches > 0;

    run->summary = (struct vp_run_summary){
        .model = config->model->name,
        .data = vp_data_info(run->samples.train)->what,
        .resumed = run->resume ? run->from.step : 0,
        .resumed_from = run->options->resume,
        .forward_only = config->forward_only,
        .n_blocks = graph->n_blocks,
        .n_params = vp_graph_param_count(graph),
        .batch = dims->batch,
        .seq = dims->seq,
        .tokens_per_step = rows * config->accumulation_steps,
        .n_steps = counted || config->total_steps > 0 ? vp_run_last_step(run)
                                                      : run->options->max_steps,
        .steps_per_epoch = counted ? run->train.lr.steps_per_epoch : 0,
        .unigram_loss = vp_data_info(run->samples.train)->unigram_loss,
        .n_threads = run->train.backend_config.n_threads,
        .n_cores = vp_devices_n_cores(),
        .transport = vp_config_transport(config, run->world),
    };
    run->summary.blackboxes = run->blackboxes.at;
    VP_TRY(vp_forecast_make(&run->train, run->schedule, run->prices,
                            run->stages, &run->summary, err));
    if (config->schedule_file)
        run->summary.schedule = config->schedule_file->path;
    vp_schedule_auto_describe(
        config, run->train.plan.schedule_text != config->schedule_text,
        run->summary.lists, sizeof(run->summary.lists));
    return VP_OK;
}

/* Names the stages whose recomputation saves no memory; skips the search if
 * notices are not shown. */
static void note_ratios(struct vp_run_state *run)
{
    struct vp_err line = { .text = "" };

    if (is_lead(run) && run->events->on_notice &&
        vp_advice_ratios(run->config, &run->train, run->stages, &line))
        notice(run, line.text);
}

/* ---- Setting up --------------------------------------------------------- */

/* Without --output a resumed run continues in its own folder. Locks that before
 * its checkpoints are read, so that no other run changes them meanwhile. */
static enum vp_status lock_home(struct vp_run_state *run, struct vp_err *err)
{
    const struct vp_run_options *options = run->options;

    if (options->output || options->driven || run->config->forward_only)
        return VP_OK;
    VP_TRY(
        vp_resume_folder(options->resume, run->home, sizeof(run->home), err));
    VP_TRY(options->dry_run ? vp_folder_check_live(run->home, err)
                            : vp_folder_lock(run->home, &run->folder, err));
    return vp_resume_check_newest(run->home, options->resume, err);
}

/* Returns the input for loading weights from `path`: of a run to resume, or
 * initial weights. */
static struct vp_resume_config weights_at(struct vp_run_state *run,
                                          const char *path)
{
    return (struct vp_resume_config){
        .path = path,
        .config = run->config,
        .world = run->world,
        .graph = &run->graphs[0],
        .data = run->samples.train,
        .ctx = run,
        .notice = notice,
        .warn = show_warning,
    };
}

static enum vp_status open_resume(struct vp_run_state *run, struct vp_err *err)
{
    struct vp_resume_config resume = weights_at(run, run->options->resume);
    enum vp_status st;

    if (!resume.path)
        return VP_OK;
    st = is_lead(run) ? lock_home(run, err) : VP_OK;
    if (run->world) {
        st = vp_world_agree(run->world, st, VP_LIMIT_NEVER, err);
        run->agreed = st != VP_OK;
    }
    VP_TRY(st);
    VP_TRY(vp_resume_open(&resume, &run->resume, &run->agreed, err));
    run->from = vp_resume_entry(run->resume);
    run->n_saved = run->n_done = run->n_exported = run->from.step;
    return VP_OK;
}

/* A resumed run has its weights already. */
static enum vp_status open_init(struct vp_run_state *run, struct vp_err *err)
{
    const struct vp_resume_config init = weights_at(run, run->config->init);

    if (!init.path || run->resume)
        return VP_OK;
    return vp_first_weights_open(&init, &run->first, &run->agreed, err);
}

/* Returns the path of the run folder, or the folder it will be created in. */
static const char *place_of(const struct vp_run_state *run)
{
    const char *output = run->options->output;

    if (run->home[0])
        return run->home;
    return output ? output : run->config->log_directory;
}

static void find_missing(struct vp_run_state *run)
{
    const struct vp_missing_config with = {
        .config = run->config,
        .train = &run->train,
        .summary = &run->summary,
        .host = vp_fit_host_need(&run->train, run->schedule, run->prices),
        .folder = run->config->forward_only ? NULL : place_of(run),
    };

    vp_missing_find(&with, &run->missing);
    if (run->missing.text[0])
        run->summary.missing = run->missing.text;
}

/* Returns true if the run writes a run folder. */
static bool has_folder(const struct vp_run_state *run)
{
    return run->options->output ||
           !(run->config->forward_only || run->options->driven);
}

static enum vp_status open_folder(struct vp_run_state *run, struct vp_err *err)
{
    const char *output = run->options->output;

    if (!has_folder(run))
        return VP_OK;
    if (!run->config->forward_only) /* before the folder is created */
        VP_TRY(vp_disk_space_check(run->config, &run->summary, place_of(run),
                                   err));
    if (run->home[0])
        return vp_folder_resume(&run->folder, run->config, run->n_done, err);
    VP_TRY(vp_folder_create(run->config, output, &run->folder, err));
    if (run->first)
        return vp_first_weights_keep(run->first, run->folder.path, err);
    return run->resume
               ? vp_first_weights_pass_on(vp_resume_ckpt_path(run->resume),
                                          run->folder.path, err)
               : VP_OK;
}

/* Called before a checkpoint gets its name, so that the metrics of its step are
 * on the disk, too. */
static enum vp_status sync_metrics(void *ctx, struct vp_err *err)
{
    const struct vp_run_state *run = ctx;

    return vp_folder_sync(&run->folder, err);
}

static enum vp_status arm_checkpoints(struct vp_run_state *run,
                                      struct vp_err *err)
{
    if (!run->checkpoints)
        return VP_OK;
    VP_TRY(vp_checkpoints_link(run->checkpoints, run->graphs[0].n_blocks, err));
    vp_checkpoints_before_publish(run->checkpoints, sync_metrics, run);
    VP_TRY(vp_checkpoints_arm(run->checkpoints, run->trainer,
                              run->samples.train, run->folder.path,
                              run->home[0] ? &run->from : NULL, err));
    if (!is_lead(run))
        return VP_OK;
    return vp_checkpoints_warn_aside(run->folder.path, show_warning, run, err);
}

/* Creates the folder and shares it. A failure of this process is reported to
 * the others. */
static enum vp_status open_run(struct vp_run_state *run, struct vp_err *err)
{
    enum vp_status st;

    vp_job_phase_set(VP_JOB_PHASE_FOLDER, run->options->output);
    st = is_lead(run) ? open_folder(run, err) : VP_OK;
    if (run->world) {
        st = vp_world_agree(run->world, st, VP_LIMIT_NEVER, err);
        run->agreed = st != VP_OK;
    }
    VP_TRY(st);
    if (run->world)
        VP_TRY(vp_folder_share(&run->folder, run->world, VP_LIMIT_NEVER, err));
    if (run->options->heartbeat && run->folder.path[0])
        VP_TRY(vp_blackboxes_keep(&run->blackboxes, run->config,
                                  run->folder.path, err));
    return arm_checkpoints(run, err);
}

/* Processes other than the lead report only that they refuse a plan. */
static void show_rebalance(void *ctx, const char *line)
{
    const struct vp_run_state *run = ctx;

    if (is_lead(run))
        notice(ctx, line);
    else if (run->events->on_warning)
        run->events->on_warning(run->events->ctx, line);
}

/* Only a run with a folder can receive requests for another plan. */
static enum vp_status open_rebalance(struct vp_run_state *run,
                                     struct vp_err *err)
{
    const struct vp_rebalance_config with = {
        .config = run->config,
        .train = &run->train,
        .world = run->world,
        .folder = run->folder.path,
        .last_step = vp_run_last_step(run),
        .notice = show_rebalance,
        .ctx = run,
    };

    if (!run->checkpoints || !run->folder.path[0])
        return VP_OK;
    if (is_lead(run))
        vp_rebalance_clear(run->folder.path);
    return vp_rebalance_create(&with, &run->rebalance, err);
}

/* Passes on a line of key `verbose` about a rank. */
static enum vp_status detail(void *ctx, int rank, const char *line,
                             struct vp_err *err)
{
    struct vp_run_state *run = ctx;

    if (run->events->on_detail)
        run->events->on_detail(run->events->ctx,
                               vp_config_rank_number(run->config, rank), line);
    return vp_log_line(&run->log, rank, line, err);
}

/* Writes and reports all that is known before the first step. */
static enum vp_status announce(struct vp_run_state *run, struct vp_err *err)
{
    const struct vp_run_options *options = run->options;

    if (!is_lead(run))
        return VP_OK;
    if (options->plan_line)
        notice(run, options->plan_line);
    if (run->folder.path[0]) {
        int lead = run->world ? vp_world_lead(run->world) : 0;

        VP_TRY(vp_folder_describe(&run->folder, run->config, &run->train.plan,
                                  &run->summary, options->argv, options->argc,
                                  err));
        VP_TRY(vp_log_open(&run->log, run->config, &run->summary,
                           run->folder.path, err));
        if (options->plan_line)
            VP_TRY(vp_log_line(&run->log, lead, options->plan_line, err));
        for (int i = 0; i < run->n_warnings; i++)
            VP_TRY(vp_log_line(&run->log, lead, run->warnings[i], err));
    }
    if (run->events->on_start)
        run->events->on_start(run->events->ctx, &run->summary);
    if (run->verbose)
        VP_TRY(vp_verbose_start(run->verbose, &run->summary, err));
    return VP_OK;
}

/* Opens the data while another thread makes the devices ready. Nothing here may
 * fork: that thread holds locks of libraries. */
static enum vp_status open_samples(struct vp_run_state *run,
                                   const struct vp_samples_config *samples,
                                   struct vp_err *err)
{
    struct vp_warm_up *warm_up = NULL;
    enum vp_status st;

    if (!run->options->dry_run)
        warm_up = vp_warm_up_begin(run->config, run->world);
    vp_job_phase_set(VP_JOB_PHASE_DATA, run->config->data_dir);
    st = vp_samples_open(samples, &run->samples, err);
    vp_warm_up_end(warm_up);
    return st;
}

/* Sets up what each process has of its own. */
static enum vp_status set_up_here(struct vp_run_state *run, struct vp_err *err)
{
    const unsigned notes = 1u << VP_VERBOSE_TENSORS | 1u << VP_VERBOSE_VERSIONS;
    bool trains = !run->options->dry_run && !run->config->forward_only;
    bool saves = trains && has_folder(run);
    struct vp_samples_config samples = {
        .config = run->config,
        .world = run->world,
        .dims = run->dims,
        .missing = missing_of(run),
        .no_data = run->options->no_data,
        .evaluates = run->options->driven,
        .train_maker = run->options->train_maker,
        .eval_maker = run->options->eval_maker,
        .stop = run->options->stop,
        .notice = notice,
        .ctx = run,
    };

    VP_TRY(vp_plan_agree(run->config, run->options->resume, run->world,
                         &run->agreed, err));
    samples.n_dims = run->n_buckets = vp_buckets_make(run->config, run->dims);
    VP_TRY(vp_buckets_build(run->config, run->dims, run->n_buckets, run->graphs,
                            err));
    VP_TRY(open_samples(run, &samples, err));
    vp_job_phase_set(VP_JOB_PHASE_RESUME, run->options->resume);
    VP_TRY(open_resume(run, err));
    VP_TRY(open_init(run, err));
    vp_job_phase_set(VP_JOB_PHASE_FOLDER, run->options->output);
    if (run->options->output && is_lead(run))
        VP_TRY(vp_folder_check(run->options->output, err));
    vp_job_phase_set(VP_JOB_PHASE_PLAN, run->options->resume);
    if (saves)
        VP_TRY(vp_checkpoints_create(
            run->config, vp_checkpoint_steps(run->config, steps_per_epoch(run)),
            run->world, &run->checkpoints, err));
    if (run->world && run->config->verbose & notes)
        notice(run, "verbose: tensors and versions of this process only; run "
                    "without mpirun to see those of all ranks");
    if (saves)
        VP_TRY(vp_run_texts_open(run->config, &run->texts, err));
    if (trains && is_lead(run) && run->config->verbose)
        VP_TRY(vp_verbose_create(run->config, detail, run, &run->verbose, err));
    return plan_trainer(run, err);
}

static enum vp_status set_up(struct vp_run_state *run, struct vp_err *err)
{
    enum vp_status st = set_up_here(run, err);

    /* vp_trainer_create() agrees with the other processes by itself. */
    if (st != VP_OK && run->world && !run->samples.agreed && !run->agreed)
        st = vp_world_agree(run->world, st, VP_LIMIT_NEVER, err);
    else if (st == VP_OK)
        st = make_trainer(run, err);
    run->agreed = st != VP_OK;
    VP_TRY(st);
    if (run->world && *vp_world_indirect_reason(run->world))
        notice(run, vp_world_indirect_reason(run->world));
    VP_TRY(summarise(run, err));
    if (run->options->elsewhere)
        find_missing(run);
    note_ratios(run);
    if (!run->options->dry_run)
        VP_TRY(open_run(run, err));
    VP_TRY(open_rebalance(run, err));
    if (run->folder.path[0])
        run->summary.output = run->folder.path;
    return announce(run, err);
}

/* Returns false, and leaks on purpose all that it may still use, if a rank
 * thread did not return. */
static bool tear_down(struct vp_run_state *run)
{
    vp_log_close(&run->log);
    vp_rebalance_free(run->rebalance);
    vp_folder_close(&run->folder);
    if (!vp_trainer_free(run->trainer))
        return false;
    vp_priced_plan_release(&run->priced);
    vp_verbose_free(run->verbose);
    vp_run_texts_close(run->texts);
    vp_blackboxes_close(&run->blackboxes);
    free(run->devices);
    vp_checkpoints_free(run->checkpoints);
    vp_resume_close(run->resume);
    vp_first_weights_close(run->first);
    vp_samples_close(&run->samples);
    for (int i = 0; i < run->n_buckets; i++)
        vp_graph_release(&run->graphs[i]);
    for (int i = 0; i < run->n_warnings; i++)
        free(run->warnings[i]);
    free(run);
    return true;
}

/* Returns true if --output and --resume name the same folder: the run then
 * continues in it, as without --output. Not for an evaluation, which would
 * overwrite that run's metrics. */
static bool is_own_folder(const struct vp_config *config,
                          const struct vp_run_options *options)
{
    return options->output && options->resume && !config->forward_only &&
           vp_resume_is_folder(options->resume, options->output);
}

static struct vp_run_state *create(const struct vp_config *config,
                                   const struct vp_run_options *options,
                                   const struct vp_run_events *events)
{
    struct vp_run_state *run = malloc(sizeof(*run));

    if (!run)
        return NULL;
    *run = (struct vp_run_state){
        .config = config,
        .given_options = *options,
        .options = &run->given_options,
        .events = events,
        .world = options->dry_run ? NULL : options->world,
        .eval_loss = NAN,
    };
    if (is_own_folder(config, options))
        run->given_options.output = NULL;
    return run;
}

enum vp_status vp_run_train(const struct vp_config *config,
                            const struct vp_run_options *options,
                            const struct vp_run_events *events,
                            struct vp_err *err)
{
    struct vp_run_state *run = create(config, options, events);
    enum vp_status st;

    if (!run)
        return vp_err_set(err, VP_ERR_NOMEM, "starting a run: out of memory");
    st = set_up(run, err);
    vp_job_phase_set(VP_JOB_PHASE_TRAIN, run->folder.path);
    if (st == VP_OK && !options->dry_run)
        st = is_lead(run) ? vp_run_lead(run, err) : vp_run_follow(run, err);
    if (st == VP_ERR_IO && is_lead(run) && run->checkpoints &&
        (run->home[0] || vp_checkpoints_saved(run->checkpoints) > 0))
        vp_folder_add_resume(&run->folder, err);
    if (st != VP_OK && st != VP_ERR_INTERRUPTED && run->world && !run->agreed)
        vp_world_abort(run->world, st, err->text);
    tear_down(run);
    return st;
}

enum vp_status vp_run_open(const struct vp_config *config,
                           const struct vp_run_options *options,
                           const struct vp_run_events *events,
                           struct vp_run_state **out, struct vp_err *err)
{
    struct vp_run_state *run = create(config, options, events);
    enum vp_status st;

    if (!run)
        return vp_err_set(err, VP_ERR_NOMEM, "starting a run: out of memory");
    st = set_up(run, err);
    if (st != VP_OK) {
        tear_down(run);
        return st;
    }
    *out = run;
    return VP_OK;
}

bool vp_run_close(struct vp_run_state *run)
{
    return tear_down(run);
}
