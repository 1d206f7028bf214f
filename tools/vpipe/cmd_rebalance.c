/* vpipe rebalance: requests another plan of a live run and waits until the run
 * uses it. */
#include "tool.h"

#include "base/file.h"
#include "base/value.h"
#include "plan/plan_json.h"
#include "run/rebalance_request.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { FLAG_AUTO, FLAG_UNDO, FLAG_TIMEOUT, FLAG_HELP };

static const struct tool_flag flags[] = {
    [FLAG_AUTO] = { "--auto", NULL,
                    "cut the model by the times that the run has measured" },
    [FLAG_UNDO] = { "--undo", NULL, "go back to the previous plan" },
    [FLAG_TIMEOUT] = { "--timeout", "S",
                       "wait S seconds for the run's answer [600]" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_rebalance_options = { flags, N_FLAGS };

struct options {
    const char *run, *plan;
    bool automatic, undo, help;
    int seconds;
};

/* ---- The command line --------------------------------------------------- */

static int take_plain(struct options *out, const char *value)
{
    if (!out->run)
        out->run = value;
    else if (!out->plan)
        out->plan = value;
    else
        return tool_usage_error("vpipe rebalance: '%.48s' is one argument too "
                                "many; give a run and a plan",
                                value);
    return TOOL_OK;
}

static int take_flag(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;
    int64_t n;

    switch (flag) {
    case ARGS_PLAIN:
        return take_plain(out, value);
    case FLAG_AUTO:
        out->automatic = true;
        break;
    case FLAG_UNDO:
        out->undo = true;
        break;
    case FLAG_TIMEOUT:
        if (!vp_text_to_i64(value, &n) || n < 1 || n > INT_MAX / 1000)
            return tool_usage_error("vpipe rebalance: option '--timeout' must "
                                    "be a whole number of seconds from 1, not "
                                    "'%.48s'; write for example '--timeout 60'",
                                    value);
        out->seconds = (int)n;
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
    struct tool_args args = { .command = "vpipe rebalance",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    int status = args_read(&args, take_flag, out, &out->help);

    if (status != TOOL_OK || out->help)
        return status;
    if (!out->run)
        return tool_usage_error("vpipe rebalance: no run; give the folder of a "
                                "run that is under way");
    if ((out->plan != NULL) + out->automatic + out->undo != 1)
        return tool_usage_error("vpipe rebalance: give one of PLAN.json, "
                                "--auto and --undo");
    return TOOL_OK;
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe rebalance RUN PLAN.json | --auto | --undo "
               "[--timeout S]\n\n");
    tool_print(stdout, help_width(stdout), 0,
               "Changes the plan of a live run. Losses stay the same bit for "
               "bit; only the time of steps changes. PLAN.json is a file of "
               "'vpipe plan --out'; a file with only 'partition' and "
               "'recompute_ratio' leaves the rest of the plan as it is. "
               "Returns when the run uses the new plan; status 2 if the run "
               "refuses it.\n\n"
               "Options:\n");
    help_flags(flags, N_FLAGS);
}

/* ---- The plan ----------------------------------------------------------- */

/* Reads the file and checks that it is a plan. The caller frees *text_out, also
 * after a failure. */
static enum vp_status read_plan(const char *path, char **text_out,
                                struct vp_err *err)
{
    struct vp_arena arena = { NULL };
    struct vp_plan plan;
    enum vp_status st;
    size_t n;

    VP_TRY(vp_file_read(path, "JSON", text_out, &n, err));
    st = vp_plan_parse(*text_out, n, path, &arena, &plan, err);
    vp_arena_release(&arena);
    return st;
}

static enum vp_status ask(const struct options *options, struct vp_err *err)
{
    enum vp_rebalance_kind kind = options->plan        ? VP_REBALANCE_PLAN
                                  : options->automatic ? VP_REBALANCE_AUTO
                                                       : VP_REBALANCE_UNDO;
    char id[VP_REBALANCE_ID], answer[VP_REBALANCE_TEXT] = "", *plan = NULL;
    enum vp_status st = VP_OK;

    if (options->plan)
        st = read_plan(options->plan, &plan, err);
    if (st == VP_OK)
        st = vp_rebalance_ask(options->run, kind, plan, id, err);
    free(plan);
    VP_TRY(st);
    st = vp_rebalance_await(options->run, id,
                            vp_limit_ms(1000 * options->seconds), answer, err);
    if (st == VP_OK)
        puts(answer);
    else if (st == VP_ERR_INVALID)
        vp_err_set(err, st, "%s: refused: %s", options->run, answer);
    return st;
}

int cmd_rebalance(int argc, char **argv)
{
    struct options options = { .seconds = 600 };
    struct vp_err err = { .text = "" };
    int status = read_args(argc, argv, &options);
    enum vp_status st;

    if (status != TOOL_OK)
        return status;
    if (options.help) {
        print_help();
        return TOOL_OK;
    }
    st = ask(&options, &err);
    if (st == VP_OK)
        return TOOL_OK;
    fprintf(stderr, "vpipe rebalance: %s\n", err.text);
    return st == VP_ERR_INVALID ? TOOL_USAGE : TOOL_FAILED;
}
