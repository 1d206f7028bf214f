/* vpipe compare: compares several configurations or runs in one table and one
 * picture. */
#include "tool.h"

#include "base/memory.h"
#include "base/value.h"
#include "config/load.h"
#include "run/auto_plan.h"
#include "run/compare.h"
#include "run/folder.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FLAG_SET,
    FLAG_OUTPUT,
    FLAG_MAX_STEPS,
    FLAG_ROUNDS,
    FLAG_MEMORY_LIMIT,
    FLAG_SVG,
    FLAG_QUIET,
    FLAG_HELP
};

static const struct tool_flag flags[] = {
    [FLAG_SET] = { "--set", "KEY=VALUE",
                   "set a key of all configurations; may be repeated" },
    [FLAG_OUTPUT] = { "--output", "DIR",
                      "folder for the run folders "
                      "[log_directory/compare-time]" },
    [FLAG_MAX_STEPS] = { "--max-steps", "N",
                         "stop the first one after N steps, the others after "
                         "the same number of samples" },
    [FLAG_ROUNDS] = { "--rounds", "N",
                      "run each N times, in turn, and print median and spread "
                      "[1]" },
    [FLAG_MEMORY_LIMIT] = { "--memory-limit", "SIZE",
                            "do not train; print the largest batch_size of "
                            "each that fits SIZE per stage" },
    [FLAG_SVG] = { "--svg", "FILE", "file for the picture [DIR/compare.svg]" },
    [FLAG_QUIET] = { "--quiet", NULL, "print nothing but the table" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_compare_options = { flags, N_FLAGS };

struct options {
    const char **paths; /* configurations or run folders */
    int n;
    const char **sets;
    int n_sets;
    const char *svg;
    int64_t memory_limit; /* 0: not given */
    struct vp_compare_options run;
    bool quiet, help;
};

static volatile sig_atomic_t stop;

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

/* The first SIGINT or SIGTERM requests a clean stop; the second ends the
 * program. SIGPIPE and SIGXCPU (ulimit -t) request a clean stop, too. */
static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal,
                                .sa_flags = SA_RESETHAND };

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_flags = 0; /* these are sent repeatedly */
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXCPU, &action, NULL);
}

/* ---- The command line --------------------------------------------------- */

static int read_count(const char *flag, const char *value, int64_t most,
                      int64_t *out)
{
    if (vp_text_to_i64(value, out) && *out >= 1 && *out <= most)
        return TOOL_OK;
    return tool_usage_error("vpipe compare: option '%s' must be a whole number "
                            "from 1 to %lld, not '%.48s'; write for example "
                            "'%s 3'",
                            flag, (long long)most, value, flag);
}

static int take_flag(struct options *out, int flag, const char *value)
{
    int64_t n = 0;
    int status = TOOL_OK;

    switch (flag) {
    case ARGS_PLAIN:
        out->paths[out->n++] = value;
        break;
    case FLAG_SET:
        out->sets[out->n_sets++] = value;
        break;
    case FLAG_OUTPUT:
        out->run.output = value;
        break;
    case FLAG_MAX_STEPS:
        status = read_count("--max-steps", value, INT32_MAX,
                            &out->run.max_steps);
        break;
    case FLAG_ROUNDS:
        status = read_count("--rounds", value, VP_COMPARE_MAX_ROUNDS, &n);
        out->run.n_rounds = (int)n;
        break;
    case FLAG_MEMORY_LIMIT:
        if (!vp_text_to_bytes(value, &out->memory_limit) ||
            out->memory_limit < 1)
            return tool_usage_error("vpipe compare: option '--memory-limit' "
                                    "must be a size, not '%.48s'; write for "
                                    "example '--memory-limit 64M'",
                                    value);
        break;
    case FLAG_SVG:
        out->svg = value;
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
    return status;
}

static int no_config(void)
{
    char gpipe[PATH_MAX], vpipe[PATH_MAX];

    tool_find_config("compare/gpipe.yml", gpipe, sizeof(gpipe));
    tool_find_config("compare/vpipe.yml", vpipe, sizeof(vpipe));
    return tool_usage_error("vpipe compare: no configurations; write for "
                            "example 'vpipe compare %s %s'",
                            gpipe, vpipe);
}

/* The arrays of `out` have room for every argument. */
static int read_args(int argc, char **argv, struct options *out)
{
    struct tool_args args = { .command = "vpipe compare",
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
    return out->n > 0 ? TOOL_OK : no_config();
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe compare CONFIG.yml... [option...]\n"
               "       vpipe compare RUN... [--output DIR] [--svg FILE]\n\n");
    tool_print(
        stdout, help_width(stdout), 0,
        "Trains every configuration on the same data and prints one "
        "table: throughput, time per step, share of the ranks' time "
        "spent waiting for messages (comm.) and for anything (bubble), "
        "memory, loss; and the forecast of the simulator from the times of "
        "stages that run one at a time. Model, data and seed must be the "
        "same in all of them.\n\n"
        "Folders of runs are compared as they are: nothing is trained, and "
        "nothing is simulated. 'vpipe report RUN...' draws their curves.\n\n"
        "Options:\n");
    help_flags(flags, N_FLAGS);
}

/* ---- Names and folders -------------------------------------------------- */

/* Writes the file's name without .yml, with a number if another one has the
 * same name. */
static void name_one(const char *path, int i,
                     const struct vp_contestant *others, char *out, size_t n)
{
    const char *end = path + strlen(path), *base;
    size_t length;
    int copy = 1;

    while (end > path + 1 && end[-1] == '/')
        end--;
    for (base = end; base > path && base[-1] != '/';)
        base--;
    length = (size_t)(end - base);
    if (length > 4 && strcmp(base + length - 4, ".yml") == 0)
        length -= 4;
    snprintf(out, n, "%.*s", (int)length, base);
    for (int j = 0; j < i; j++)
        if (strcmp(others[j].name, out) == 0) {
            snprintf(out, n, "%.*s-%d", (int)length, base, ++copy);
            j = -1;
        }
}

/* ---- Running ------------------------------------------------------------ */

struct job {
    const struct options *options;
    struct vp_config *configs;
    struct vp_contestant *contestants;
    char (*names)[256];
    bool runs; /* the paths are run folders */
};

static int failed(enum vp_status st, const struct vp_err *err)
{
    if (st != VP_ERR_INTERRUPTED)
        fprintf(stderr, "%s\n", err->text);
    switch (st) {
    case VP_ERR_INVALID:
    case VP_ERR_UNSUPPORTED:
        return TOOL_USAGE;
    case VP_ERR_INTERRUPTED:
        return TOOL_INTERRUPTED;
    default:
        return TOOL_FAILED;
    }
}

static void on_notice(void *ctx, const char *line)
{
    const struct options *options = ctx;

    if (!options->quiet)
        printf("note: %s\n", line);
}

static void on_run(void *ctx, const char *name, int round, int64_t n_steps)
{
    const struct options *options = ctx;

    if (options->quiet)
        return;
    if (round == 0)
        printf("%s: stages one at a time\n", name);
    else if (options->run.n_rounds > 1)
        printf("%s: round %d of %d, %lld steps\n", name, round,
               options->run.n_rounds, (long long)n_steps);
    else
        printf("%s: %lld steps\n", name, (long long)n_steps);
    tool_flush(stdout);
}

/* Columns of the first part that do not fit the terminal follow below the
 * others. */
static void print_table(char *table)
{
    char *rest = strstr(table, "\n\n");
    char first = rest ? rest[1] : '\0';

    if (rest)
        rest[1] = '\0';
    tool_table(stdout, 0, table);
    if (!rest)
        return;
    rest[1] = first;
    tool_print(stdout, 0, 2, "%s", rest + 1);
}

/* Writes the table and the picture into `folder`; NULL: only the file of
 * --svg. */
static int write_files(const struct job *job, const char *folder,
                       const char *table, const char *svg)
{
    char path[1024 + 16];
    int status = TOOL_OK;

    if (folder) {
        snprintf(path, sizeof(path), "%s/compare.txt", folder);
        status = tool_write_file("vpipe compare", path, table);
        snprintf(path, sizeof(path), "%s/compare.svg", folder);
    }
    if (status == TOOL_OK && (folder || job->options->svg))
        status = tool_write_file(
            "vpipe compare", job->options->svg ? job->options->svg : path, svg);
    return status;
}

/* Prints the table, and writes it and the picture into `folder` if it is not
 * NULL. */
static int show(const struct job *job, const char *folder)
{
    char *table = NULL, *svg = NULL;
    int n = job->options->n, status = TOOL_FAILED;

    if (vp_compare_table(job->contestants, n, &table) == VP_OK &&
        vp_compare_svg(job->contestants, n, &svg) == VP_OK) {
        fputs(job->options->quiet ? "" : "\n", stdout);
        print_table(table);
        status = write_files(job, folder, table, svg);
        if (status == TOOL_OK && folder && !job->options->quiet)
            printf("\n%s: runs, table and picture\n", folder);
    } else {
        fputs("vpipe compare: out of memory; close other programs\n", stderr);
    }
    free(svg);
    free(table);
    return status;
}

static int run(const struct job *job)
{
    const struct options *options = job->options;
    struct vp_compare_options run = options->run;
    struct vp_compare_events events = { .ctx = (void *)(uintptr_t)options,
                                        .on_run = on_run,
                                        .on_notice = on_notice };
    struct vp_err err = { .text = "" };
    char folder[1024];
    enum vp_status st;

    if (options->svg && tool_check_place("vpipe compare", options->svg))
        return TOOL_USAGE;
    if (run.output)
        snprintf(folder, sizeof(folder), "%s", run.output);
    else
        vp_folder_choose(&job->configs[0], "compare-", folder, sizeof(folder));
    run.output = folder;
    run.stop = &stop;
    st = vp_folder_check_place(folder, &err);
    if (st != VP_OK)
        return failed(st, &err);
    catch_signals();
    st = vp_compare_run(job->configs, options->n, &run, &events,
                        job->contestants, &err);
    return st == VP_OK ? show(job, folder) : failed(st, &err);
}

/* ---- Run folders --------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Sets *out to true if all paths are folders. Refuses a mixture of folders and
 * files, and options of training for folders. */
static int choose_runs(const struct options *options, bool *out)
{
    int n = 0;

    for (int i = 0; i < options->n; i++)
        n += is_folder(options->paths[i]);
    *out = n > 0;
    if (n == 0)
        return TOOL_OK;
    for (int i = 0; i < options->n; i++)
        if (!is_folder(options->paths[i]))
            return tool_usage_error(
                "vpipe compare: '%.256s' is not a folder, but other arguments "
                "are; give configurations to train, or folders of runs",
                options->paths[i]);
    if (options->n_sets > 0 || options->run.max_steps > 0 ||
        options->run.n_rounds > 1 || options->memory_limit > 0)
        return tool_usage_error("vpipe compare: runs are compared as they are; "
                                "--set, --max-steps, --rounds and "
                                "--memory-limit need configurations");
    return TOOL_OK;
}

static int show_runs(const struct job *job)
{
    const struct options *options = job->options;
    struct vp_err err = { .text = "" };
    enum vp_status st = VP_OK;

    if (options->svg && tool_check_place("vpipe compare", options->svg))
        return TOOL_USAGE;
    for (int i = 0; i < options->n && st == VP_OK; i++)
        st = vp_compare_read(options->paths[i], &job->configs[i],
                             &job->contestants[i], &err);
    if (st == VP_OK && options->run.output)
        st = vp_folder_make(options->run.output, &err);
    return st == VP_OK ? show(job, options->run.output) : failed(st, &err);
}

/* ---- Memory limits ------------------------------------------------------- */

/* Prints the table. `missing` gets, for each row, the resources that this
 * machine lacks. */
static int print_limits(const struct job *job, char (*missing)[VP_MISSING_TEXT])
{
    const struct options *options = job->options;
    struct vp_err err = { .text = "" };
    char limit[VP_BYTES_TEXT];

    vp_bytes_text(options->memory_limit, limit, sizeof(limit));
    printf("%-20s %s\n", "name", "largest batch_size");
    for (int i = 0; i < options->n; i++) {
        int64_t batch;
        enum vp_status st = vp_compare_largest_batch(
            &job->configs[i], options->memory_limit, &batch, missing[i], &err);

        if (st != VP_OK)
            return failed(st, &err);
        if (batch > 0)
            printf("%-20s %lld\n", job->contestants[i].name, (long long)batch);
        else
            printf("%-20s none: the model does not fit\n",
                   job->contestants[i].name);
        tool_flush(stdout);
    }
    printf("with %s for each stage on a rank\n", limit);
    return TOOL_OK;
}

static int show_limits(const struct job *job)
{
    const struct options *options = job->options;
    char(*missing)[VP_MISSING_TEXT] = calloc((size_t)options->n,
                                             sizeof(*missing));
    int status;

    if (!missing) {
        fputs("vpipe compare: out of memory; close other programs\n", stderr);
        return TOOL_FAILED;
    }
    status = print_limits(job, missing);
    for (int i = 0; i < options->n && status == TOOL_OK && !options->quiet; i++)
        if (missing[i][0])
            printf("note: %s: for that batch this machine lacks: %s\n",
                   job->contestants[i].name, missing[i]);
    free(missing);
    return status;
}

/* Loads configuration `i`, and plans its pipeline if it has auto_plan. */
static enum vp_status load(const struct job *job, int i, struct vp_err *err)
{
    const struct options *options = job->options;
    char path[PATH_MAX];
    const struct vp_auto_plan_options plan = {
        .source = { .path = path,
                    .sets = options->sets,
                    .n_sets = options->n_sets },
        .measure = options->memory_limit == 0,
    };
    struct vp_config *config = &job->configs[i];
    char *line;

    snprintf(path, sizeof(path), "%s%s", options->paths[i],
             job->runs ? "/config.yml" : "");
    VP_TRY(vp_config_load_from(&plan.source, config, err));
    if (config->auto_plan == VP_AUTO_PLAN_OFF || job->runs)
        return VP_OK;
    VP_TRY(vp_auto_plan(config, &plan, &line, err));
    on_notice((void *)(uintptr_t)options, line);
    free(line);
    return VP_OK;
}

static enum vp_status check(const struct job *job, struct vp_err *err)
{
    void *ctx = (void *)(uintptr_t)job->options;

    return job->runs ? vp_compare_check_runs(job->configs, job->options->n,
                                             on_notice, ctx, err)
                     : vp_compare_check(job->configs, job->options->n,
                                        on_notice, ctx, err);
}

/* Loads all, checks them against each other, and runs the comparison. */
static int compare(struct job *job)
{
    const struct options *options = job->options;
    struct vp_err err = { .text = "" };
    int n_loaded = 0, status = choose_runs(options, &job->runs);

    while (n_loaded < options->n && status == TOOL_OK) {
        int i = n_loaded++;

        name_one(options->paths[i], i, job->contestants, job->names[i],
                 sizeof(job->names[i]));
        job->contestants[i].name = job->names[i];
        if (load(job, i, &err) != VP_OK)
            status = tool_usage_error("%s", err.text);
    }
    if (status == TOOL_OK && check(job, &err) != VP_OK)
        status = tool_usage_error("%s", err.text);
    if (status == TOOL_OK)
        status = job->runs                   ? show_runs(job)
                 : options->memory_limit > 0 ? show_limits(job)
                                             : run(job);
    for (int i = 0; i < n_loaded; i++)
        vp_config_release(&job->configs[i]);
    return status;
}

int cmd_compare(int argc, char **argv)
{
    size_t n = (size_t)argc;
    struct options options = { .paths = calloc(n, sizeof(char *)),
                               .sets = calloc(n, sizeof(char *)),
                               .run = { .n_rounds = 1 } };
    struct job job = { .options = &options,
                       .configs = calloc(n, sizeof(*job.configs)),
                       .contestants = calloc(n, sizeof(*job.contestants)),
                       .names = calloc(n, sizeof(*job.names)) };
    int status = TOOL_FAILED;

    if (!options.paths || !options.sets || !job.configs || !job.contestants ||
        !job.names) {
        fputs("vpipe compare: out of memory; close other programs\n", stderr);
    } else {
        status = read_args(argc, argv, &options);
        if (status == TOOL_OK && options.help)
            print_help();
        else if (status == TOOL_OK)
            status = compare(&job);
    }
    free(job.names);
    free(job.contestants);
    free(job.configs);
    free(options.sets);
    free(options.paths);
    return status;
}
