/* vpipe report: writes one HTML page about one run or several. */
#include "tool.h"

#include "report/page.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { FLAG_OUT, FLAG_HELP };

static const struct tool_flag flags[] = {
    [FLAG_OUT] = { "--out", "FILE",
                   "file for the page [report.html in the folder of the run; "
                   "for several runs, in the working directory]" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_report_options = { flags, N_FLAGS };

struct options {
    const char **runs; /* has room for every argument */
    int n_runs;
    const char *out;
    bool help;
};

static int take_flag(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        out->runs[out->n_runs++] = value;
        break;
    case FLAG_OUT:
        out->out = value;
        break;
    case FLAG_HELP:
        out->help = true;
        break;
    default:
        return TOOL_USAGE;
    }
    return TOOL_OK;
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe report RUN... [--out FILE]\n\n");
    tool_print(stdout, help_width(stdout), 0,
               "Writes one HTML page about a run, or about several side by "
               "side: its bottleneck, curves, stages, memory, timeline, plan, "
               "events, configuration. The page needs no other files; open it "
               "with any browser. RUN is the folder of a run, live or "
               "finished. 'vpipe train' writes the page of its run as "
               "report.html.\n\n"
               "Options:\n");
    help_flags(flags, N_FLAGS);
}

static int write_page(const struct options *options)
{
    struct vp_err err = { .text = "" };
    char path[PATH_MAX];
    enum vp_status st;

    if (options->out)
        snprintf(path, sizeof(path), "%s", options->out);
    else if (options->n_runs == 1)
        snprintf(path, sizeof(path), "%s/report.html", options->runs[0]);
    else
        snprintf(path, sizeof(path), "report.html");
    st = vp_report_write(options->runs, options->n_runs, path, &err);
    if (st != VP_OK) {
        fprintf(stderr, "vpipe report: %s\n", err.text);
        return tool_exit_status(st);
    }
    printf("%s\n", path);
    return TOOL_OK;
}

int cmd_report(int argc, char **argv)
{
    struct options options = { .runs = calloc((size_t)argc, sizeof(char *)) };
    struct tool_args args = { .command = "vpipe report",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    int status = TOOL_FAILED;

    if (options.runs)
        status = args_read(&args, take_flag, &options, &options.help);
    else
        fputs("vpipe report: out of memory; close other programs\n", stderr);
    if (status == TOOL_OK && options.help)
        print_help();
    else if (status == TOOL_OK && options.n_runs == 0)
        status = tool_usage_error("vpipe report: no run; give the folder that "
                                  "'vpipe train' wrote, for example 'vpipe "
                                  "report runs/NAME'");
    else if (status == TOOL_OK)
        status = write_page(&options);
    free(options.runs);
    return status;
}
