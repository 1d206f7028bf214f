/* Runs commands on a trained model, in this process or in ranks that are
 * processes. */
#include "model.h"

#include "base/value.h"
#include "job/job_phase.h"
#include "job/watchdog.h"
#include "ranks.h"
#include "run/inference.h"
#include "run/launcher.h"
#include "signals.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int model_init(struct model *model, const char *command, int argc, char **argv)
{
    *model = (struct model){
        .command = command,
        .argv = argv,
        .argc = argc,
        .sets = calloc(2 * (size_t)argc + 2, sizeof(*model->sets)),
    };
    if (model->sets)
        return TOOL_OK;
    fprintf(stderr, "%s: out of memory; close other programs\n", command);
    return TOOL_FAILED;
}

int model_set_path(struct model *model, const char *path)
{
    if (!path[0])
        return tool_usage_error("%s: the name of the model is empty; name the "
                                "folder of a run",
                                model->command);
    model->path = path;
    return TOOL_OK;
}

void model_needs_no_data(struct model *model)
{
    model->sets[model->n_sets++] = "synthetic_data=true";
}

int model_take_count(const struct model *model, const char *option,
                     const char *value, int64_t least, int64_t most,
                     int64_t *out)
{
    if (vp_text_to_i64(value, out) && *out >= least && *out <= most)
        return TOOL_OK;
    return tool_usage_error("%s: option '%s': '%.24s' is not a whole number "
                            "from %" PRId64 " to %" PRId64,
                            model->command, option, value, least, most);
}

int model_take_ids(const struct model *model, const char *value,
                   struct sequences *list)
{
    struct vp_err err = { .text = "" };

    if (strchr(value, ':'))
        return tool_usage_error("%s: option '--ids': '%.24s' has a decoder "
                                "input; remove ':' and what follows",
                                model->command, value);
    if (sequences_add_ids(list, value, strlen(value), &err) == VP_OK)
        return TOOL_OK;
    return tool_usage_error("%s: option '--ids': %s", model->command, err.text);
}

int model_fail(const struct model *model, enum vp_status st,
               const struct vp_err *err)
{
    fprintf(stderr, "%s: %s\n", model->command,
            err->text[0] ? err->text : "out of memory; close other programs");
    return tool_exit_status(st);
}

/* Prints an error that occurs before the processes have joined, once for all of
 * them. */
static int model_refuse(const struct model *model, enum vp_status st,
                        struct vp_err *err)
{
    if (vp_processes_find().index == 0)
        return model_fail(model, st, err);
    vp_err_prefix(err, "%s", model->command);
    ranks_refuse(err);
    return tool_exit_status(st);
}

void model_notice(void *ctx, const char *line)
{
    const struct model *model = ctx;

    if (vp_processes_find().index == 0)
        fprintf(stderr, "%s: %s\n", model->command, line);
}

int model_open(struct model *model)
{
    struct vp_err err = { .text = "" };
    enum vp_status st;

    if (!model->path)
        return tool_usage_error("%s: no model; name the folder of a run, a "
                                "checkpoint or a Hugging Face folder",
                                model->command);
    st = vp_model_source_open(model->path, model_notice, model, &model->source,
                              &err);
    if (st == VP_OK)
        st = vp_model_source_config(model->source, model->sets, model->n_sets,
                                    &model->config, &err);
    return st == VP_OK ? TOOL_OK : model_refuse(model, st, &err);
}

/* ---- Ranks that are processes ------------------------------------------- */

static enum vp_status follow(const struct model *model, struct vp_err *err)
{
    const struct vp_inference_config config = {
        .config = &model->config,
        .source = model->source,
        .job = model->job,
        .notice = model_notice,
        .ctx = (void *)(uintptr_t)model,
    };

    return vp_inference_follow(&config, err);
}

/* Runs the part of this process in the job that it has joined. */
static enum vp_status run_rank(struct model *model, model_run_fn run, void *ctx,
                               struct vp_err *err)
{
    struct vp_inference_job *job = model->job;
    bool runs = model->all_run || vp_inference_job_is_lead(job);
    enum vp_status st;

    st = vp_inference_agree(&model->config, model->source, job, err);
    if (st == VP_OK && model->reads_stdin && runs)
        vp_job_phase_set(VP_JOB_PHASE_TRAIN, NULL); /* no limit for a user */
    if (st == VP_OK)
        st = runs ? run(ctx, err) : follow(model, err);
    if (st != VP_OK && (st != VP_ERR_INTERRUPTED || !job->told))
        vp_inference_give_up(job, st, err);
    return st;
}

/* Runs one of several processes. The supervisor prints errors that it has
 * acknowledged. */
static int run_member(struct model *model, const struct vp_processes *self,
                      model_run_fn run, void *ctx)
{
    struct vp_inference_job job = { .stop = signals_stop() };
    struct vp_member member = { .world = NULL };
    struct vp_watchdog *watchdog = NULL;
    struct vp_err err = { .text = "" };
    enum vp_status st;
    bool said;

    ranks_see_terminal();
    signals_catch(SIGNALS_OF_ONE);
    st = vp_watchdog_start(model->config.watchdog_seconds, ranks_on_hang,
                           &watchdog, &err);
    if (st == VP_OK)
        st = ranks_join(&model->config, self, &member, &err);
    if (member.heartbeat) {
        vp_watchdog_stop(watchdog); /* the supervisor does its work now */
        watchdog = NULL;
    }
    job.world = member.world;
    job.heartbeat = member.heartbeat;
    model->job = &job;
    if (st == VP_OK)
        st = run_rank(model, run, ctx, &err);
    model->job = NULL;
    vp_watchdog_stop(watchdog);
    tool_flush(stdout);
    said = ranks_report(&member, st, &err);
    if (st != VP_OK && !member.heartbeat && !member.world)
        return model_refuse(model, st, &err);
    if (st != VP_OK && !said && (err.text[0] || !member.heartbeat))
        model_fail(model, st, &err);
    signals_work_is_over(tool_exit_status(st));
    vp_member_leave(&member);
    return tool_exit_status(st);
}

static void on_warning(void *ctx, const char *line)
{
    model_notice(ctx, line);
}

static void on_failed(void *ctx, const char *screen)
{
    (void)ctx;
    ranks_print_screen(screen);
}

/* mpirun forwards its standard input to the first rank, unless it is a
 * terminal. If the command does not read it, /dev/null replaces it, so that
 * mpirun does not consume input of another program. */
static enum vp_status choose_input(const struct model *model,
                                   struct vp_err *err)
{
    if (model->reads_stdin && isatty(STDIN_FILENO))
        return vp_err_set(err, VP_ERR_INVALID,
                          "the standard input is a terminal, which mpirun does "
                          "not pass on to ranks; name a file");
    if (model->reads_stdin || freopen("/dev/null", "r", stdin))
        return VP_OK;
    return vp_err_set(err, VP_ERR_IO, "/dev/null: cannot be read");
}

/* Starts the ranks by mpirun and waits for their end. */
static int launch(struct model *model)
{
    struct vp_err err = { .text = "" };
    const struct vp_launch_options options = {
        .args = (const char *const *)model->argv,
        .n_args = model->argc,
        .no_folder = true,
        .output_fd = STDOUT_FILENO,
        .stop = signals_stop(),
        .suspended = signals_suspended(),
        .suspend = signals_suspend,
        .ctx = model,
        .notice = on_warning,
        .warning = on_warning,
        .failed = on_failed,
    };
    enum vp_status st = vp_processes_find_transport(&model->config, &err);

    if (st == VP_OK)
        st = choose_input(model, &err);
    if (st != VP_OK)
        return model_fail(model, st, &err);
    signals_catch(SIGNALS_OF_LAUNCHER);
    ranks_pass_terminal_on(tool_draws(stdout));
    signals_catch_suspension(true);
    st = vp_launch(&model->config, &options, &err);
    signals_catch_suspension(false);
    if (st != VP_OK && err.text[0])
        ranks_print_screen(err.text);
    return tool_exit_status(st);
}

/* ---- Running ------------------------------------------------------------ */

int model_run(struct model *model, model_run_fn run, void *ctx)
{
    struct vp_processes self = vp_processes_find();
    bool is_member = vp_member_is_one(&self);
    bool launches = !is_member;
    struct vp_err err = { .text = "" };
    int status = model_open(model);
    enum vp_status st = VP_OK;

    if (status != TOOL_OK)
        return status;
    launches &= vp_config_is_distributed(&model->config);
    if (is_member || launches)
        st = vp_inference_check(&model->config, &err);
    if (st != VP_OK)
        return model_refuse(model, st, &err);
    if (launches)
        return launch(model);
    if (is_member)
        return run_member(model, &self, run, ctx);
    st = run(ctx, &err);
    return st == VP_OK ? TOOL_OK : model_fail(model, st, &err);
}

void model_release(struct model *model)
{
    vp_config_release(&model->config);
    vp_model_source_close(model->source);
    free(model->sets);
}
