/* vpipe import: makes a checkpoint of step 0 from a Hugging Face folder. */
#include "tool.h"

#include "run/import.h"

#include <stdio.h>

enum { FLAG_HELP };

static const struct tool_flag flags[] = {
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_import_options = { flags, N_FLAGS };

struct options {
    const char *from, *to;
    bool help;
};

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    if (flag == FLAG_HELP) {
        out->help = true;
        return TOOL_OK;
    }
    if (flag != ARGS_PLAIN)
        return TOOL_USAGE;
    if (out->to)
        return tool_usage_error("vpipe import: unexpected argument '%.48s'; "
                                "name two folders",
                                value);
    *(out->from ? &out->to : &out->from) = value;
    return TOOL_OK;
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe import DIR OUT\n\n");
    tool_print(stdout, help_width(stdout), 0,
               "Makes a checkpoint from a Hugging Face folder: config.json and "
               "model.safetensors, or shards and their index, of "
               "BertForMaskedLM, BertForPreTraining, GPT2LMHeadModel or "
               "M2M100ForConditionalGeneration.\n\n"
               "Train from it with 'init: OUT' in a configuration, or with "
               "'vpipe train CONFIG --resume OUT --output RUN'; 'vpipe export "
               "OUT DIR' writes the folder again.\n\n"
               "Options:\n");
    help_flags(flags, N_FLAGS);
}

static void print_note(void *ctx, const char *line)
{
    (void)ctx;
    printf("note: %s\n", line);
}

int cmd_import(int argc, char **argv)
{
    struct options options = { .help = false };
    struct tool_args args = { .command = "vpipe import",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    struct vp_import_result result;
    struct vp_err err = { .text = "" };
    char n_params[32];
    enum vp_status st;
    int status = args_read(&args, take, &options, &options.help);

    if (status != TOOL_OK)
        return status;
    if (options.help) {
        print_help();
        return TOOL_OK;
    }
    if (!options.to)
        return tool_usage_error("vpipe import: name a Hugging Face folder and "
                                "a new one, for example 'vpipe import "
                                "models/gpt2 gpt2-start'");
    st = vp_import(options.from, options.to, print_note, NULL, &result, &err);
    if (st != VP_OK) {
        fprintf(stderr, "vpipe import: %s\n", err.text);
        return tool_exit_status(st);
    }
    tool_count_text((double)result.n_params, n_params, sizeof(n_params));
    printf("%s: %s (%s), %s parameters from %d file%s\n", options.to,
           result.architecture, result.model, n_params, result.n_files,
           result.n_files == 1 ? "" : "s");
    return TOOL_OK;
}
