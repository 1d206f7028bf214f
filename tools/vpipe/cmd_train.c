/* vpipe train: trains a configuration in this process, or starts its ranks by
 * mpirun. */
#include "tool.h"

#include "base/value.h"
#include "config/load.h"
#include "goal.h"
#include "job/member.h"
#include "job/processes.h"
#include "job/watchdog.h"
#include "monitor/dashboard.h"
#include "phase_note.h"
#include "progress.h"
#include "ranks.h"
#include "run/auto_plan.h"
#include "run/folder.h"
#include "run/launcher.h"
#include "run/precision_agree.h"
#include "run/resume.h"
#include "run/run.h"
#include "run_watch.h"
#include "signals.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FLAG_SET,
    FLAG_OUTPUT,
    FLAG_RESUME,
    FLAG_RESTARTS,
    FLAG_MAX_STEPS,
    FLAG_NUM_MINIBATCHES,
    FLAG_FORWARD_ONLY,
    FLAG_LOSS_BELOW,
    FLAG_VERBOSE,
    FLAG_DASHBOARD,
    FLAG_DRY_RUN,
    FLAG_EXPLAIN,
    FLAG_QUIET,
    FLAG_HELP,
    FLAG_CONFIG_FILE
};

static const struct tool_flag flags[] = {
    [FLAG_SET] = { "--set", "KEY=VALUE",
                   "set a key after the file was read; may be repeated" },
    [FLAG_OUTPUT] = { "--output", "DIR",
                      "the run folder [log_directory/time]" },
    [FLAG_RESUME] = { "--resume", "DIR",
                      "resume the run in DIR, in its folder or in --output; "
                      "DIR may also be one of its checkpoints: the newest, or "
                      "with --output any" },
    [FLAG_RESTARTS] = { "--restarts", "N",
                        "if vpipe starts mpirun: restart from the newest "
                        "checkpoint after a rank or host was lost, up to N "
                        "times" },
    [FLAG_MAX_STEPS] = { "--max-steps", "N",
                         "stop after N steps: updates, in asp minibatches" },
    [FLAG_NUM_MINIBATCHES] = { "--num-minibatches", "N",
                               "cut every epoch after N minibatches" },
    [FLAG_FORWARD_ONLY] = { "--forward-only", NULL,
                            "do not train: print the loss over the held-out "
                            "data, of --resume or of the first weights" },
    [FLAG_LOSS_BELOW] = { "--require-loss-below", "LOSS",
                          "end with status 1 unless the last held-out loss is "
                          "below LOSS: a number, or unigram for the best guess "
                          "without context" },
    [FLAG_VERBOSE] = { "--verbose", "LIST",
                       "print details of the run every verbose_frequency "
                       "steps; some of stages, tensors, versions, "
                       "communication, time, for example stages,time" },
    [FLAG_DASHBOARD] = { "--dashboard", "[HOST:]PORT",
                         "show the run on a web page, on this machine only "
                         "unless HOST is given; PORT 0 is a free one; "
                         "docs/monitoring.md" },
    [FLAG_DRY_RUN] = { "--dry-run", NULL,
                       "check everything, report stages, memory, schedule and "
                       "what this machine lacks to run it, do not train" },
    [FLAG_EXPLAIN] = { "--explain", NULL,
                       "print the configuration with the origin of every value, "
                       "do nothing else" },
    [FLAG_QUIET] = { "--quiet", NULL, "print nothing but errors" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
    [FLAG_CONFIG_FILE] = { "--config-file", "FILE",
                           "another way to name the configuration" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]), MAX_TEXTS = 8 };
const struct tool_options cmd_train_options = { flags, N_FLAGS };

struct train_args {
    const char *config;
    const char **sets;
    int n_sets;
    char texts[MAX_TEXTS][256]; /* KEY=VALUE of flags that set a key */
    int n_texts;
    struct vp_run_options options;
    int64_t restarts;
    struct goal goal;
    const char *dashboard; /* [HOST:]PORT; NULL: no dashboard */
    bool explain, quiet, verbose, help;
    char *schedule; /* text from the checkpoint to resume; NULL: not needed */
};

/* ---- The command line --------------------------------------------------- */

static int set_config(struct train_args *out, const char *path)
{
    if (!path[0])
        return tool_usage_error("vpipe train: the name of the configuration is "
                                "empty; give the path of a YAML file");
    if (out->config)
        return tool_usage_error("vpipe train: two configurations, '%s' and "
                                "'%s'; give one",
                                out->config, path);
    out->config = path;
    return TOOL_OK;
}

/* Appends KEY=VALUE of a flag that sets a key. */
static int set_key(struct train_args *out, const char *fmt, const char *value)
{
    char *text = out->texts[out->n_texts];

    if (out->n_texts == MAX_TEXTS)
        return tool_usage_error(
            "vpipe train: option '%.*s' is given too often; "
            "give it once",
            (int)strcspn(fmt, "="), fmt);
    if (snprintf(text, sizeof(out->texts[0]), fmt, value) >=
        (int)sizeof(out->texts[0]))
        return tool_usage_error(
            "vpipe train: the value '%.48s...' is too long; "
            "shorten it",
            value);
    out->sets[out->n_sets++] = text;
    out->n_texts++;
    return TOOL_OK;
}

static int take_flag(struct train_args *out, int flag, const char *value)
{
    switch (flag) {
    case ARGS_PLAIN:
    case FLAG_CONFIG_FILE:
        return set_config(out, value);
    case FLAG_SET:
        out->sets[out->n_sets++] = value;
        break;
    case FLAG_OUTPUT:
        out->options.output = value;
        break;
    case FLAG_RESUME:
        out->options.resume = value;
        break;
    case FLAG_MAX_STEPS:
        if (!vp_text_to_i64(value, &out->options.max_steps) ||
            out->options.max_steps < 1)
            return tool_usage_error("vpipe train: option '--max-steps' must be "
                                    "a whole number from 1, not '%.48s'; write "
                                    "for example '--max-steps 10'",
                                    value);
        break;
    case FLAG_RESTARTS:
        if (!vp_text_to_i64(value, &out->restarts) || out->restarts < 0 ||
            out->restarts > 1000)
            return tool_usage_error("vpipe train: option '--restarts' must be "
                                    "a whole number from 0 to 1000, not "
                                    "'%.48s'; write for example '--restarts 3'",
                                    value);
        break;
    case FLAG_NUM_MINIBATCHES:
        return set_key(out, "num_minibatches=%s", value);
    case FLAG_FORWARD_ONLY:
        return set_key(out, "forward_only=%s", "true");
    case FLAG_LOSS_BELOW:
        return goal_set(&out->goal, value);
    case FLAG_VERBOSE:
        if (strpbrk(value, "./")) /* the path of the configuration */
            return tool_usage_error("vpipe train: option '--verbose' needs a "
                                    "list, not '%.200s'; write for example "
                                    "'--verbose stages,time'",
                                    value);
        out->verbose = true;
        return set_key(out, "verbose=[%s]", value);
    case FLAG_DASHBOARD:
        out->dashboard = value;
        break;
    case FLAG_DRY_RUN:
        out->options.dry_run = true;
        break;
    case FLAG_EXPLAIN:
        out->explain = true;
        break;
    case FLAG_QUIET:
        out->quiet = true;
        break;
    case FLAG_HELP:
        out->help = true;
        break;
    default:
        return TOOL_USAGE;
    }
    return TOOL_OK;
}

static int no_config(void)
{
    char path[PATH_MAX];

    tool_find_config("bert_tiny.yml", path, sizeof(path));
    return tool_usage_error("vpipe train: no configuration; write for example "
                            "'vpipe train %s'",
                            path);
}

/* out->sets has room for every argument. */
static int read_args(int argc, char **argv, struct train_args *out)
{
    struct tool_args args = { .command = "vpipe train",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    const char *value;
    int flag, status;

    while ((flag = args_next(&args, &value)) != ARGS_END) {
        status = take_flag(out, flag, value);
        if (status != TOOL_OK)
            return status;
        if (out->help)
            return TOOL_OK;
    }
    if (!out->config)
        return no_config();
    return TOOL_OK;
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe train CONFIG.yml [option...]\n\n");
    tool_print(stdout, help_width(stdout), 0,
               "Trains the model that CONFIG.yml describes. Results go to a "
               "run folder: config.yml and plan.json as resolved, "
               "metrics.jsonl with one object per step, output.log.<rank>, "
               "checkpoints, trace.json and timeline.svg of the last "
               "minibatches, and report.html, a page about all of it.\n\n"
               "Options:\n");
    help_flags(flags, N_FLAGS);
    tool_print(stdout, help_width(stdout), 0,
               "\nA configuration is YAML, one 'key: value' per line; only "
               "model_type is required. Relative paths start at the folder of "
               "the file, those of --set and of a pipe, such as <(sed ...), at "
               "the working directory.\n");
    help_keys();
}

/* ---- Explaining --------------------------------------------------------- */

static int explain(const struct vp_config *config)
{
    struct vp_err err = { .text = "" };
    char *text;

    if (vp_config_explain(config, &text, &err) != VP_OK) {
        fprintf(stderr, "%s\n", err.text);
        return TOOL_FAILED;
    }
    fputs(text, stdout);
    free(text);
    return TOOL_OK;
}

/* ---- Callbacks of the launcher ------------------------------------------ */

static void on_failed(void *ctx, const char *screen)
{
    (void)ctx;
    ranks_print_screen(screen);
}

static void on_notice(void *ctx, const char *line)
{
    progress_notice(ctx, line);
}

static void on_nothing(void *ctx, const char *line)
{
    (void)ctx;
    (void)line;
}

static void on_warning(void *ctx, const char *line)
{
    progress_warning(ctx, line);
}

/* Lets the first stop signal print a line. Only for a process that is alone:
 * the launcher of several prints when all ranks have received the request. */
static void answer_signals(const struct train_args *args,
                           const struct vp_config *config)
{
    if (args->quiet || args->options.dry_run || config->forward_only)
        return;
    signals_answer(config->sync_mode == VP_SYNC_ASP ? "minibatch" : "update");
}

/* ---- The run, in this process ------------------------------------------- */

static struct vp_config_source source_of(const struct train_args *args)
{
    return (struct vp_config_source){
        .path = args->config,
        .sets = args->sets,
        .n_sets = args->n_sets,
        .schedule = args->schedule,
    };
}

/* Chooses the precision and, with auto_plan, the plan. The caller frees
 * *line_out, which `options` borrows. */
static enum vp_status plan(const struct train_args *args,
                           struct vp_run_options *options,
                           struct vp_config *config, char **line_out,
                           struct vp_err *err)
{
    enum vp_precision precision;
    struct vp_auto_plan_options with = {
        .source = source_of(args),
        .resume = options->resume,
        .measure = !options->dry_run,
        .world = options->world,
    };

    VP_TRY(vp_precision_agree(config, &with.source, options->resume,
                              options->world, &precision, err));
    VP_TRY(vp_auto_plan(config, &with, line_out, err));
    options->plan_line = *line_out;
    return VP_OK;
}

/* Trains in this process, which may be one of several. Only the first process
 * prints progress, and the supervisor prints errors of ranks. */
static int run(const struct train_args *args, struct vp_config *config)
{
    struct vp_processes self = vp_processes_find();
    struct vp_run_options options = args->options;
    struct run_watch watch = { .config = config,
                               .quiet = args->quiet || self.index > 0 };
    struct progress *progress = &watch.progress;
    const struct vp_run_events events = run_watch_events(&watch);
    struct vp_member member = { .world = NULL };
    struct vp_watchdog *watchdog = NULL;
    struct phase_note *phase_note = NULL;
    struct vp_err err = { .text = "" };
    bool said;
    char *plan_line = NULL;
    enum vp_status st;

    if (vp_member_is_one(&self))
        ranks_see_terminal();
    progress_init(progress, stdout, config->print_frequency);
    progress->details = args->verbose;
    progress->config = args->n_sets == 0 && !config->piped ? args->config
                                                           : NULL;
    if (!vp_member_is_one(&self))
        answer_signals(args, config);
    for (int i = 0; i < config->n_notices && !watch.quiet; i++)
        progress_notice(progress, config->notices[i]);
    signals_catch(SIGNALS_OF_ONE);
    options.stop = signals_stop();
    st = vp_watchdog_start(config->watchdog_seconds, ranks_on_hang, &watchdog,
                           &err);
    if (st == VP_OK && !options.dry_run)
        st = ranks_join(config, &self, &member, &err);
    if (progress->terminal && !watch.quiet) /* ranks_join() may have forked */
        phase_note = phase_note_start(progress->out);
    options.elsewhere = options.dry_run;
    options.world = member.world;
    options.heartbeat = member.heartbeat;
    if (member.heartbeat) {
        vp_watchdog_stop(watchdog); /* the supervisor does its work now */
        watchdog = NULL;
    }
    if (st == VP_OK && args->dashboard && self.index == 0 && !options.dry_run)
        st = vp_dashboard_open(args->dashboard, run_watch_page,
                               &watch.dashboard, &err);
    if (st == VP_OK)
        st = plan(args, &options, config, &plan_line, &err);
    if (st == VP_OK)
        st = vp_run_train(config, &options, &events, &err);
    phase_note_stop(phase_note);
    run_watch_end(&watch, st, &err);
    vp_watchdog_stop(watchdog);
    free(plan_line);
    if (st == VP_OK && !options.dry_run)
        st = goal_check(&args->goal, progress, &err);
    progress_break(progress);
    tool_flush(stdout);
    said = ranks_report(&member, st, &err);
    if (st != VP_OK && !member.heartbeat && !options.world && self.index > 0)
        return ranks_refuse(&err);
    if (st != VP_OK && st != VP_ERR_INTERRUPTED && err.text[0] && !said)
        fprintf(stderr, "%s\n", err.text);
    else if (st == VP_OK && options.dry_run && !watch.quiet)
        tool_print(stdout, 0, 4,
                   "dry run: the configuration is good; nothing was trained\n");
    if (st == VP_ERR_TIMEOUT && self.n == 1) {
        /* Rank threads that never returned may still compute in libraries whose
         * exit handlers would crash under them. */
        fflush(NULL);
        _exit(tool_exit_status(st));
    }
    signals_work_is_over(tool_exit_status(st));
    vp_member_leave(&member);
    return tool_exit_status(st);
}

/* ---- Ranks that are processes ------------------------------------------- */

/* Does a dry run, so that mistakes in the configuration are reported before
 * ranks are started. */
static enum vp_status rehearse(const struct train_args *args,
                               const struct vp_config *config,
                               struct vp_err *err)
{
    struct vp_run_options options = args->options;
    const struct vp_run_events silent = { 0 };
    const struct vp_config_source from = source_of(args);
    struct vp_watchdog *watchdog;
    struct vp_config planned;
    char *plan_line = NULL;
    enum vp_status st;

    options.dry_run = true;
    VP_TRY(vp_watchdog_start(config->watchdog_seconds, ranks_on_hang, &watchdog,
                             err));
    st = vp_config_load_from(&from, &planned, err);
    if (st == VP_OK)
        st = plan(args, &options, &planned, &plan_line, err);
    if (st == VP_OK)
        st = vp_run_train(&planned, &options, &silent, err);
    vp_config_release(&planned);
    vp_watchdog_stop(watchdog);
    free(plan_line);
    return st == VP_OK ? vp_processes_find_transport(config, err) : st;
}

/* Writes the arguments of every rank to `out` and returns their number.
 * *n_kept_out gets the number of those after the keys, which a restart
 * keeps. */
static int rank_args(const struct train_args *args, const char **out,
                     char *steps, size_t n_bytes, int *n_kept_out)
{
    int n = 0;

    out[n++] = "train";
    out[n++] = args->config;
    for (int i = 0; i < args->n_sets; i++) {
        out[n++] = "--set";
        out[n++] = args->sets[i];
    }
    *n_kept_out = n;
    if (args->options.max_steps > 0) {
        snprintf(steps, n_bytes, "%lld", (long long)args->options.max_steps);
        out[n++] = "--max-steps";
        out[n++] = steps;
    }
    if (args->goal.text) {
        out[n++] = "--require-loss-below";
        out[n++] = args->goal.text;
    }
    if (args->dashboard) {
        out[n++] = "--dashboard";
        out[n++] = args->dashboard;
    }
    if (args->quiet)
        out[n++] = "--quiet";
    *n_kept_out = n - *n_kept_out;
    return n;
}

static int launch(const struct train_args *args, const struct vp_config *config)
{
    const char **words = calloc((size_t)(2 * args->n_sets + 10),
                                sizeof(*words));
    struct progress progress;
    struct vp_err err = { .text = "" };
    char steps[24];
    struct vp_launch_options options = {
        .args = words,
        .output = args->options.output,
        .resume = args->options.resume,
        .restarts = (int)args->restarts,
        .output_fd = STDOUT_FILENO,
        .stop = signals_stop(),
        .suspended = signals_suspended(),
        .suspend = signals_suspend,
        .ctx = &progress,
        .notice = args->quiet ? on_nothing : on_notice,
        .warning = on_warning,
        .failed = on_failed,
    };
    enum vp_status st = VP_ERR_NOMEM;

    progress_init(&progress, stdout, config->print_frequency);
    signals_catch(SIGNALS_OF_LAUNCHER);
    ranks_pass_terminal_on(progress.terminal);
    if (words) {
        options.n_args = rank_args(args, words, steps, sizeof(steps),
                                   &options.n_kept);
        st = rehearse(args, config, &err);
    }
    signals_catch_suspension(true);
    if (st == VP_OK)
        st = vp_launch(config, &options, &err);
    signals_catch_suspension(false);
    free(words);
    if (st != VP_OK && err.text[0])
        ranks_print_screen(err.text);
    return tool_exit_status(st);
}

static int choose_way(const struct train_args *args, struct vp_config *config)
{
    struct vp_processes self = vp_processes_find();
    struct vp_err err;
    bool processes = vp_config_is_distributed(config) &&
                     !args->options.dry_run && !vp_member_is_one(&self);

    if (args->restarts > 0 && !processes)
        return tool_usage_error("vpipe train: option '--restarts' works where "
                                "vpipe starts the ranks itself; set "
                                "distributed_backend: mpi");
    if (processes && config->piped)
        return tool_usage_error("%s: every rank reads the configuration, and a "
                                "pipe can be read once; write it to a file",
                                args->config);
    if (goal_check_config(&args->goal, config, &err) != VP_OK ||
        (args->dashboard && vp_dashboard_check(args->dashboard, &err) != VP_OK))
        return ranks_refuse(&err);
    return processes ? launch(args, config) : run(args, config);
}

/* Returns the text of the schedule in the checkpoint to resume, or NULL. If the
 * file system hangs, the watchdog ends the process. */
static char *read_saved_schedule(const char *resume)
{
    struct vp_watchdog *watchdog = NULL;
    char *text = NULL;

    vp_job_phase_set(VP_JOB_PHASE_RESUME, resume);
    if (vp_watchdog_start(0, ranks_on_hang, &watchdog, NULL) == VP_OK)
        text = vp_resume_read_schedule(resume);
    vp_watchdog_stop(watchdog);
    vp_job_phase_set(VP_JOB_PHASE_START, NULL);
    return text;
}

/* Loads the configuration. If that fails, retries with the copy of the schedule
 * in the checkpoint, because the schedule may be a file that is gone. */
static enum vp_status load(struct train_args *args, struct vp_config *config,
                           struct vp_err *err)
{
    struct vp_config_source from = source_of(args);
    enum vp_status st = vp_config_load_from(&from, config, err);

    if (st != VP_OK && args->options.resume)
        args->schedule = read_saved_schedule(args->options.resume);
    if (args->schedule) {
        from.schedule = args->schedule;
        vp_config_release(config);
        st = vp_config_load_from(&from, config, err);
    }
    return st;
}

int cmd_train(int argc, char **argv)
{
    struct train_args args = { 0 };
    struct vp_config config;
    struct vp_err err = { .text = "" };
    int status;

    args.sets = calloc((size_t)argc, sizeof(*args.sets));
    if (!args.sets) {
        fputs("vpipe train: out of memory; close other programs\n", stderr);
        return TOOL_FAILED;
    }
    args.options.argv = argv;
    args.options.argc = argc;
    status = read_args(argc, argv, &args);
    if (status == TOOL_OK && args.help) {
        print_help();
    } else if (status == TOOL_OK) {
        /* All errors here are mistakes of the user. */
        if (load(&args, &config, &err) == VP_OK)
            status = args.explain ? explain(&config)
                                  : choose_way(&args, &config);
        else
            status = ranks_refuse(&err);
        vp_config_release(&config);
    }
    free(args.schedule);
    free(args.sets);
    return status;
}
