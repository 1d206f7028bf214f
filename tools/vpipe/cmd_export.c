/* vpipe export: writes a Hugging Face folder from a checkpoint. */
#include "tool.h"

#include "base/value.h"
#include "run/export.h"

#include <stdio.h>
#include <string.h>

enum { FLAG_DTYPE, FLAG_SHARD_SIZE, FLAG_HELP };

static const struct tool_flag flags[] = {
    [FLAG_DTYPE] = { "--dtype", "f32|f16|bf16",
                     "number type of the weights [that of the imported folder; "
                     "f32]" },
    [FLAG_SHARD_SIZE] = { "--shard-size", "SIZE",
                          "largest size of a file [that of the imported "
                          "folder; 5 GB]" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_export_options = { flags, N_FLAGS };

struct options {
    struct vp_export_config config;
    bool help;
};

static int take_type(const char *value, enum vp_st_type *out)
{
    static const struct {
        const char *name;
        enum vp_st_type type;
    } types[] = { { "f32", VP_ST_F32 },
                  { "f16", VP_ST_F16 },
                  { "bf16", VP_ST_BF16 } };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, value) == 0) {
            *out = types[i].type;
            return TOOL_OK;
        }
    }
    return tool_usage_error("vpipe export: option '--dtype' must be f32, f16 "
                            "or bf16, not '%.48s'; write for example '--dtype "
                            "bf16'",
                            value);
}

static int take_size(const char *value, int64_t *out)
{
    if (vp_text_to_bytes(value, out) && *out > 0)
        return TOOL_OK;
    return tool_usage_error("vpipe export: option '--shard-size' must be a "
                            "size, not '%.48s'; write for example "
                            "'--shard-size 5G'",
                            value);
}

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        if (out->config.to)
            return tool_usage_error("vpipe export: unexpected argument "
                                    "'%.48s'; name a run or checkpoint and a "
                                    "new folder",
                                    value);
        *(out->config.from ? &out->config.to : &out->config.from) = value;
        return TOOL_OK;
    case FLAG_DTYPE:
        return take_type(value, &out->config.type);
    case FLAG_SHARD_SIZE:
        return take_size(value, &out->config.shard_bytes);
    case FLAG_HELP:
        out->help = true;
        return TOOL_OK;
    default:
        return TOOL_USAGE;
    }
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe export RUN|CHECKPOINT DIR [option...]\n\n");
    tool_print(stdout, help_width(stdout), 0,
               "Writes the weights of a run's newest checkpoint, of one "
               "checkpoint, or of a folder of 'vpipe import', as a Hugging "
               "Face folder: config.json, model.safetensors or shards, and the "
               "files of the tokenizer.\n\n"
               "Options:\n");
    help_flags(flags, N_FLAGS);
}

static void print_note(void *ctx, const char *line)
{
    (void)ctx;
    printf("note: %s\n", line);
}

int cmd_export(int argc, char **argv)
{
    struct options options = { .config = { .type = VP_ST_COUNT,
                                           .note = print_note } };
    struct tool_args args = { .command = "vpipe export",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    struct vp_export_result result;
    struct vp_err err = { .text = "" };
    enum vp_status st;
    int status = args_read(&args, take, &options, &options.help);

    if (status != TOOL_OK)
        return status;
    if (options.help) {
        print_help();
        return TOOL_OK;
    }
    if (!options.config.to)
        return tool_usage_error("vpipe export: name a run or checkpoint and a "
                                "new folder, for example 'vpipe export "
                                "runs/NAME my-model'");
    st = vp_export(&options.config, &result, &err);
    if (st != VP_OK) {
        fprintf(stderr, "vpipe export: %s\n", err.text);
        return tool_exit_status(st);
    }
    printf("%s: %s of step %lld\n", options.config.to, result.architecture,
           (long long)result.step);
    return TOOL_OK;
}
