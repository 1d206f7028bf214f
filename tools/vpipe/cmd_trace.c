/* vpipe trace: shows the timeline of a run in the terminal and writes it to
 * files. */
#include "tool.h"

#include "base/value.h"
#include "trace/trace.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FLAG_SVG, FLAG_CHROME, FLAG_LAST, FLAG_HELP };

static const struct tool_flag flags[] = {
    [FLAG_SVG] = { "--svg", "FILE", "draw the timeline, with memory below" },
    [FLAG_CHROME] = { "--chrome", "FILE",
                      "write the timeline for ui.perfetto.dev or "
                      "chrome://tracing; all of it without --last" },
    [FLAG_LAST] = { "--last", "N",
                    "show the last N minibatches [a number that suits the "
                    "picture]" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_trace_options = { flags, N_FLAGS };

struct options {
    const char *run, *svg, *chrome;
    int last; /* 0: not given */
    bool help;
};

/* ---- The command line --------------------------------------------------- */

static int take_flag(struct options *out, int flag, const char *value)
{
    int64_t n;

    switch (flag) {
    case ARGS_PLAIN:
        if (out->run)
            return tool_usage_error("vpipe trace: two runs, '%.48s' and "
                                    "'%.48s'; give one",
                                    out->run, value);
        out->run = value;
        break;
    case FLAG_SVG:
        out->svg = value;
        break;
    case FLAG_CHROME:
        out->chrome = value;
        break;
    case FLAG_LAST:
        if (!vp_text_to_i64(value, &n) || n < 1 || n > INT_MAX)
            return tool_usage_error("vpipe trace: option '--last' must be a "
                                    "whole number from 1, not '%.48s'; write "
                                    "for example '--last 10'",
                                    value);
        out->last = (int)n;
        break;
    case FLAG_HELP:
        out->help = true;
        break;
    default:
        return TOOL_USAGE;
    }
    return TOOL_OK;
}

static int read_args(int argc, char **argv, struct options *out)
{
    struct tool_args args = { .command = "vpipe trace",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    const char *value;
    int flag, status;

    while ((flag = args_next(&args, &value)) != ARGS_END) {
        status = take_flag(out, flag, value);
        if (status != TOOL_OK || out->help)
            return status;
    }
    if (out->run)
        return TOOL_OK;
    tool_usage_error("vpipe trace: no run; give the folder that 'vpipe train' "
                     "wrote, for example 'vpipe trace runs/NAME'");
    return TOOL_USAGE;
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe trace RUN [option...]\n\n");
    tool_print(
        stdout, help_width(stdout), 0,
        "Shows what every rank did during the last minibatches of a run. "
        "RUN is a run folder, or its trace.json.\n\n"
        "Options:\n");
    help_flags(flags, N_FLAGS);
}

/* ---- Files -------------------------------------------------------------- */

static bool is_run(const char *folder)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/config.yml", folder) <
               (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

/* Writes the path of the trace file: `run`, or its trace.json if it is a
 * folder. */
static int find_file(const char *run, char *path, size_t n_bytes)
{
    struct stat info;
    int n;

    if (stat(run, &info) != 0)
        return tool_usage_error("vpipe trace: %.256s: %s; give a run folder or "
                                "its trace.json",
                                run, strerror(errno));
    n = snprintf(path, n_bytes, "%s%s", run,
                 S_ISDIR(info.st_mode) ? "/trace.json" : "");
    if (n < 0 || (size_t)n >= n_bytes)
        return tool_usage_error("vpipe trace: %.80s...: path is too long; go "
                                "to its folder first",
                                run);
    if (S_ISDIR(info.st_mode) && access(path, F_OK) != 0 && !is_run(run))
        return tool_usage_error("vpipe trace: %.256s is not the folder of a "
                                "run; give the folder that 'vpipe train' "
                                "wrote, for example 'vpipe trace runs/NAME'",
                                run);
    if (S_ISDIR(info.st_mode) && access(path, F_OK) != 0)
        return tool_usage_error("vpipe trace: %.256s holds no trace.json; wait "
                                "for the end of the run or, if it was resumed, "
                                "for its first minibatches",
                                run);
    return TOOL_OK;
}

static int load(const char *run, struct vp_trace *out)
{
    char path[PATH_MAX];
    struct vp_err err = { .text = "" };
    enum vp_status st;
    int status = find_file(run, path, sizeof(path));

    if (status != TOOL_OK)
        return status;
    st = vp_trace_read_chrome(path, out, &err);
    if (st == VP_OK)
        return TOOL_OK;
    fprintf(stderr, "vpipe trace: %s\n", err.text);
    return st == VP_ERR_NOMEM ? TOOL_FAILED : TOOL_USAGE;
}

static int out_of_memory(void)
{
    fputs("vpipe trace: out of memory; try a smaller --last\n", stderr);
    return TOOL_FAILED;
}

static int write_svg(const struct vp_trace *trace, const char *path)
{
    char *text;
    int status;

    if (vp_trace_svg(trace, NULL, &text) != VP_OK)
        return out_of_memory();
    status = tool_write_file("vpipe trace", path, text);
    free(text);
    return status;
}

static int write_chrome(const struct vp_trace *trace, const char *path)
{
    struct vp_err err = { .text = "" };

    if (vp_trace_write_chrome(trace, path, &err) == VP_OK)
        return TOOL_OK;
    fprintf(stderr, "vpipe trace: %s\n", err.text);
    return TOOL_FAILED;
}

static int print_chart(const struct vp_trace *trace)
{
    bool colour = tool_colour(stdout);
    struct vp_trace_range range = vp_trace_minibatches(trace);
    int n = vp_trace_n_minibatches(trace);
    char *text;

    if (vp_trace_terminal(trace, tool_width(stdout, 120), colour, &text) !=
        VP_OK)
        return out_of_memory();
    if (n > 1)
        printf("minibatches %d to %d", range.first, range.last);
    else if (n == 1)
        printf("minibatch %d", range.first);
    else
        fputs("no minibatch", stdout);
    printf(", on %d rank%s\n\n%s\n", trace->n_ranks,
           trace->n_ranks == 1 ? "" : "s", text);
    free(text);
    return TOOL_OK;
}

static int print_table(const struct vp_trace *trace)
{
    struct vp_trace_times *times = calloc((size_t)trace->n_ranks,
                                          sizeof(*times));
    FILE *table;
    double bubble;
    char stages[24];

    if (!times)
        return out_of_memory();
    table = tool_table_begin(stdout);
    bubble = vp_trace_sum(trace, times);
    fprintf(table, "%-5s %-20s %10s %10s %8s\n", "rank", "works for", "busy ms",
            "wait ms", "bubble");
    for (int r = 0; r < trace->n_ranks; r++) {
        vp_trace_list_stages(trace, r, stages, sizeof(stages));
        fprintf(table, "%-5d %-20s %10.2f %10.2f %6.1f %%\n",
                trace->ranks[r].number, stages, (double)times[r].busy_ns * 1e-6,
                (double)times[r].wait_ns * 1e-6, 100.0 * times[r].bubble);
    }
    fprintf(table, "all %49.1f %%  of %.2f ms\n", 100.0 * bubble,
            (double)(trace->end_ns - trace->begin_ns) * 1e-6);
    tool_table_end(table, stdout);
    free(times);
    return TOOL_OK;
}

/* ---- The command -------------------------------------------------------- */

static int show(const struct options *options, struct vp_trace *trace)
{
    int status = TOOL_OK;

    if (options->last > 0)
        vp_trace_keep_last(trace, options->last);
    if (options->chrome)
        status = write_chrome(trace, options->chrome);
    if (options->last == 0)
        vp_trace_keep_last(trace, vp_trace_some(trace));
    if (status == TOOL_OK && options->svg)
        status = write_svg(trace, options->svg);
    if (status == TOOL_OK)
        status = print_chart(trace);
    if (status == TOOL_OK)
        status = print_table(trace);
    return status;
}

int cmd_trace(int argc, char **argv)
{
    struct options options = { 0 };
    struct vp_trace trace;
    int status = read_args(argc, argv, &options);

    if (status != TOOL_OK)
        return status;
    if (options.help) {
        print_help();
        return TOOL_OK;
    }
    status = load(options.run, &trace);
    if (status != TOOL_OK)
        return status;
    status = show(&options, &trace);
    vp_trace_release(&trace);
    return status;
}
