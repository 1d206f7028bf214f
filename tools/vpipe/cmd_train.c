/* vpipe train: a configuration, a run, a progress line. */
#include "tool.h"

#include "launch/run.h"
#include "launch/value.h"
#include "progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLAG_SET,
    FLAG_OUTPUT,
    FLAG_MAX_STEPS,
    FLAG_DRY_RUN,
    FLAG_QUIET,
    FLAG_HELP,
    FLAG_CONFIG_FILE
};

static const struct tool_flag flags[] = {
    [FLAG_SET] = { "--set", "KEY=VALUE",
                   "set a key after the file was read; may be repeated" },
    [FLAG_OUTPUT] = { "--output", "DIR",
                      "the run folder [log_directory/time]" },
    [FLAG_MAX_STEPS] = { "--max-steps", "N",
                         "stop after N steps: updates, in asp minibatches" },
    [FLAG_DRY_RUN] = { "--dry-run", NULL,
                       "check everything, report stages, memory and schedule, "
                       "do not train" },
    [FLAG_QUIET] = { "--quiet", NULL, "print nothing but errors" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
    [FLAG_CONFIG_FILE] = { "--config_file", "FILE",
                           "another way to name the configuration" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };

struct train_args {
    const char *config;
    const char **sets;
    int n_sets;
    struct vp_run_options options;
    bool quiet, help;
};

static volatile sig_atomic_t stop;

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

/* The first signal asks for a clean stop after the update; the second one
 * ends the program. */
static void catch_signals(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal,
                                .sa_flags = SA_RESETHAND };

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < VP_COUNT_OF(signals); i++) {
        struct sigaction old;

        /* nohup and shells that ignore a signal mean it. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

/* ---- The command line --------------------------------------------------- */

static int set_config(struct train_args *out, const char *path)
{
    if (out->config)
        return tool_usage_error("vpipe train: two configurations, '%s' and "
                                "'%s'; give one",
                                out->config, path);
    out->config = path;
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
    case FLAG_MAX_STEPS:
        if (!vp_text_to_i64(value, &out->options.max_steps) ||
            out->options.max_steps < 1)
            return tool_usage_error("vpipe train: option '--max-steps' must be "
                                    "a whole number from 1, not '%.48s'; write "
                                    "for example '--max-steps 10'",
                                    value);
        break;
    case FLAG_DRY_RUN:
        out->options.dry_run = true;
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

/* `out->sets` has room for every argument. */
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
        return tool_usage_error("vpipe train: no configuration; write for "
                                "example 'vpipe train configs/bert_tiny.yml'");
    return TOOL_OK;
}

static void print_help(void)
{
    puts("usage: vpipe train CONFIG.yml [option...]\n\n"
         "Trains the model that CONFIG.yml describes. Results go to a run\n"
         "folder: config.yml as resolved, metrics.jsonl with one object per\n"
         "step, trace.json and timeline.svg of the last minibatches.\n\n"
         "Options:");
    help_flags(flags, N_FLAGS);
    puts("\nA configuration is YAML, one 'key: value' per line; only "
         "model_type is\nrequired. Relative paths start at the folder of the "
         "file, those of --set at\nthe working directory.");
    help_keys();
}

/* ---- The run ------------------------------------------------------------ */

static void on_start(void *ctx, const struct vp_run_summary *summary)
{
    progress_start(ctx, summary);
}

static void on_step(void *ctx, const struct vp_step_report *report)
{
    progress_step(ctx, report);
}

static void on_eval(void *ctx, int64_t step, double loss)
{
    progress_eval(ctx, step, loss);
}

static void on_notice(void *ctx, const char *line)
{
    progress_notice(ctx, line);
}

static void on_end(void *ctx, const struct vp_run_result *result)
{
    progress_end(ctx, result);
}

static int exit_status(enum vp_status st)
{
    switch (st) {
    case VP_OK:
        return TOOL_OK;
    case VP_ERR_INVALID:
    case VP_ERR_UNSUPPORTED:
        return TOOL_USAGE;
    case VP_ERR_INTERRUPTED:
        return TOOL_INTERRUPTED;
    default:
        return TOOL_FAILED;
    }
}

static int run(const struct train_args *args, const struct vp_config *config)
{
    struct vp_run_options options = args->options;
    struct vp_run_events events = { 0 };
    struct progress progress;
    struct vp_err err = { { 0 } };
    enum vp_status st;

    progress_init(&progress, stdout, config->print_frequency);
    if (!args->quiet)
        events = (struct vp_run_events){
            .ctx = &progress,
            .on_start = on_start,
            .on_step = on_step,
            .on_eval = on_eval,
            .on_notice = on_notice,
            .on_end = on_end,
        };
    catch_signals();
    options.stop = &stop;
    st = vp_run_train(config, &options, &events, &err);
    progress_break(&progress);
    if (st != VP_OK && st != VP_ERR_INTERRUPTED)
        fprintf(stderr, "%s\n", err.text);
    else if (options.dry_run && !args->quiet)
        puts("dry run: the configuration is good; nothing was trained");
    return exit_status(st);
}

int cmd_train(int argc, char **argv)
{
    struct train_args args = { 0 };
    struct vp_config config;
    struct vp_err err = { { 0 } };
    int status;

    args.sets = calloc((size_t)argc, sizeof(*args.sets));
    if (!args.sets) {
        fputs("vpipe train: out of memory; close other programs\n", stderr);
        return TOOL_FAILED;
    }
    status = read_args(argc, argv, &args);
    if (status == TOOL_OK && args.help) {
        print_help();
    } else if (status == TOOL_OK) {
        /* All that can go wrong here is the user's to mend. */
        if (vp_config_load(args.config, args.sets, args.n_sets, &config,
                           &err) == VP_OK)
            status = run(&args, &config);
        else
            status = tool_usage_error("%s", err.text);
        vp_config_release(&config);
    }
    free(args.sets);
    return status;
}
