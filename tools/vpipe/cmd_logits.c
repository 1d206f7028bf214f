/* vpipe logits: writes the logits of a trained model at each token of given
 * texts. */
#include "model.h"
#include "run/logits.h"
#include "sequences.h"

#include <inttypes.h>
#include <string.h>

enum flag { FLAG_IDS, FLAG_OUT, FLAG_SET, FLAG_HELP };
static const struct tool_flag flags[] = {
    [FLAG_IDS] = { "--ids", "LIST",
                   "a sequence of token ids: '5,6,7'; translation: source and "
                   "decoder input, '5,6,2:2,7'; may be repeated" },
    [FLAG_OUT] = { "--out", "FILE", "the safetensors file to write" },
    [FLAG_SET] = { "--set", "KEY=VALUE",
                   "a key of the configuration: stages=4, batch_size=8, "
                   "distributed_backend=mpi for stages that are processes; see "
                   "'vpipe train --help'" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_logits_options = { flags, N_FLAGS };

struct options {
    struct model model;
    const char *file, *out;
    struct sequences sequences;
    bool help;
};

static int take_plain(struct options *out, const char *value)
{
    if (!out->model.path)
        return model_set_path(&out->model, value);
    if (out->file)
        return tool_usage_error("vpipe logits: two files, '%.48s' and "
                                "'%.48s'; give one",
                                out->file, value);
    out->file = value;
    out->model.reads_stdin = strcmp(value, "-") == 0;
    return TOOL_OK;
}

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;
    struct vp_err err = { .text = "" };
    enum vp_status st;

    switch (flag) {
    case ARGS_PLAIN:
        return take_plain(out, value);
    case FLAG_IDS:
        st = sequences_add_ids(&out->sequences, value, strlen(value), &err);
        if (st == VP_OK)
            break;
        return tool_usage_error("vpipe logits: option '--ids': %s", err.text);
    case FLAG_OUT:
        out->out = value;
        break;
    case FLAG_SET:
        out->model.sets[out->model.n_sets++] = value;
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
    tool_print(stdout, help_width(stdout), 0,
               "Writes the logits of a trained model, the folder of a run, "
               "one of its checkpoints or a Hugging Face folder, for given "
               "sequences.\n\n"
               "usage: vpipe logits MODEL FILE --out FILE [option...]\n"
               "       vpipe logits MODEL --ids LIST... --out FILE "
               "[option...]\n\n"
               "Each line of FILE ('-': the standard input) is a sequence: "
               "text, if the model has a tokenizer, else token ids. Text for "
               "BERT is put between [CLS] and [SEP].\n\n"
               "The file has 'logits', F32 [sequences, longest, vocabulary], "
               "with zeros behind the end of a sequence, and 'lengths', I64 "
               "[sequences].\n\n");
    help_flags(flags, N_FLAGS);
}

static int check_args(const struct options *options)
{
    if (!options->out)
        return tool_usage_error("vpipe logits: no file to write; write '--out "
                                "FILE.safetensors'");
    if (options->model.path && !options->file && options->sequences.n == 0)
        return tool_usage_error("vpipe logits: no sequence; name a file, or "
                                "write for example '--ids 5,6,7'");
    return TOOL_OK;
}

static enum vp_status read_file(struct options *options, struct vp_err *err)
{
    const struct vp_config *config = &options->model.config;
    struct vp_tokenizer *tokenizer = NULL;
    enum vp_status st = VP_OK;

    if (!options->file)
        return VP_OK;
    if (config->tokenizer)
        VP_TRY(vp_tokenizer_open(config->tokenizer, &tokenizer, err));
    st = sequences_add_file(&options->sequences, options->file, tokenizer,
                            config->model->task, err);
    vp_tokenizer_free(tokenizer);
    return st;
}

static enum vp_status write_logits(void *ctx, struct vp_err *err)
{
    struct options *options = ctx;
    struct vp_logits_config config = {
        .config = &options->model.config,
        .source = options->model.source,
        .job = options->model.job,
        .ctx = &options->model,
        .notice = model_notice,
    };
    struct vp_logits_shape shape;

    VP_TRY(read_file(options, err));
    config.sequences = options->sequences.at;
    config.n_sequences = options->sequences.n;
    VP_TRY(vp_logits_write(&config, options->out, &shape, err));
    tool_print(stdout, 0, 8,
               "wrote   %s: logits [%" PRId64 ", %" PRId64 ", %" PRId64
               "], lengths [%" PRId64 "]\n",
               options->out, shape.n, shape.seq, shape.vocab, shape.n);
    return VP_OK;
}

int cmd_logits(int argc, char **argv)
{
    struct options options = { .file = NULL };
    struct tool_args args = { .command = "vpipe logits",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    int status = model_init(&options.model, args.command, argc, argv);

    if (status == TOOL_OK) {
        model_needs_no_data(&options.model);
        status = args_read(&args, take, &options, &options.help);
    }
    if (status == TOOL_OK && options.help) {
        print_help();
    } else if (status == TOOL_OK) {
        status = check_args(&options);
        if (status == TOOL_OK)
            status = model_run(&options.model, write_logits, &options);
    }
    model_release(&options.model);
    sequences_release(&options.sequences);
    return status;
}
