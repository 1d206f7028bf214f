/* vpipe data gpt: makes token files for causal language models from text. */
#include "data.h"

#include "data/corpus/corpus.h"
#include "signals.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLAG_TOKENIZER,
    FLAG_OUT,
    FLAG_NAME,
    FLAG_VALID,
    FLAG_SHARD,
    FLAG_END,
    FLAG_KEY,
    FLAG_REPLACE,
    FLAG_THREADS,
    FLAG_HELP
};

static const char command[] = "vpipe data gpt";

static const struct tool_flag flags[] = {
    [FLAG_TOKENIZER] = { "--tokenizer", "DIR",
                         "folder or file of the tokenizer" },
    [FLAG_OUT] = { "--out", "FOLDER", "the folder for the shards" },
    [FLAG_NAME] = { "--name", "NAME",
                    "names of shards begin with it [the folder's name]" },
    [FLAG_VALID] = { "--valid", "SHARE",
                     "share of the documents for evaluation, 0.01 for example "
                     "[0: none]" },
    [FLAG_SHARD] = { "--shard-tokens", "N",
                     "tokens of a shard for training [100000000]" },
    [FLAG_END] = { "--end-of-text", "ID",
                   "id before every document [end token of the tokenizer]" },
    [FLAG_KEY] = { "--text-key", "KEY",
                   "key of the text in lines of JSON [text]" },
    [FLAG_REPLACE] = { "--replace", NULL,
                       "replace NUL bytes and invalid UTF-8 by U+FFFD instead "
                       "of refusing such files" },
    [FLAG_THREADS] = { "--threads", "N", "threads [all cores]" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options data_gpt_options = { flags, N_FLAGS };

struct options {
    const char *tokenizer;
    struct vp_corpus_config corpus;
    const char **files;
    char name[256];
    struct data_progress progress;
    bool help;
};

/* ---- The command line --------------------------------------------------- */

static int take_share(struct options *out, const char *value)
{
    double share = 0;
    int status = data_share(command, flags[FLAG_VALID].name, value, 0.5,
                            &share);

    out->corpus.valid_parts = (int64_t)(share * VP_CORPUS_PARTS + 0.5);
    return status;
}

static int take_count(struct options *out, int flag, const char *value)
{
    int64_t n = 0;
    int status = data_number(
        command, flags[flag].name, value, flag == FLAG_END ? 0 : 1,
        flag == FLAG_THREADS ? DATA_MAX_THREADS : INT32_MAX, &n);

    if (flag == FLAG_END)
        out->corpus.begin = (int32_t)n;
    else if (flag == FLAG_THREADS)
        out->corpus.n_threads = (int)n;
    else
        out->corpus.shard_tokens = n;
    return status;
}

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        out->files[out->corpus.n_paths++] = value;
        return TOOL_OK;
    case FLAG_TOKENIZER:
        out->tokenizer = value;
        return TOOL_OK;
    case FLAG_OUT:
        out->corpus.folder = value;
        return TOOL_OK;
    case FLAG_NAME:
        out->corpus.name = value;
        return TOOL_OK;
    case FLAG_VALID:
        return take_share(out, value);
    case FLAG_SHARD:
    case FLAG_END:
    case FLAG_THREADS:
        return take_count(out, flag, value);
    case FLAG_KEY:
        out->corpus.text_key = value;
        return TOOL_OK;
    case FLAG_REPLACE:
        out->corpus.replace = true;
        return TOOL_OK;
    case FLAG_HELP:
        out->help = true;
        return TOOL_OK;
    default:
        return TOOL_USAGE;
    }
}

static int check(struct options *out)
{
    if (!out->tokenizer)
        return tool_usage_error("%s: no tokenizer; write '--tokenizer DIR'",
                                command);
    if (!out->corpus.folder || out->corpus.folder[0] == '\0')
        return tool_usage_error("%s: no folder for the shards; write '--out "
                                "FOLDER'",
                                command);
    if (out->corpus.n_paths == 0)
        return tool_usage_error("%s: no text; name one or more files", command);
    return data_name(command, out->corpus.folder, &out->corpus.name, out->name,
                     sizeof(out->name));
}

static int read_args(int argc, char **argv, struct options *out)
{
    struct tool_args args = { .command = command,
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    int status = args_read(&args, take, out, &out->help);

    if (status != TOOL_OK || out->help)
        return status;
    return check(out);
}

/* ---- Making the shards -------------------------------------------------- */

static bool show(void *ctx, const struct vp_corpus_progress *progress)
{
    struct options *options = ctx;
    double all = (double)progress->n_bytes_all;

    return data_progress_show(&options->progress,
                              all > 0 ? (double)progress->n_bytes / all : 1,
                              progress->n_tokens);
}

/* Chooses the id before each document and checks that the tokenizer has it. */
static enum vp_status choose_begin(const struct vp_tokenizer *tokenizer,
                                   struct vp_corpus_config *corpus,
                                   struct vp_err *err)
{
    if (corpus->begin < 0)
        corpus->begin = vp_corpus_begin_of(tokenizer);
    if (corpus->begin >= 0 && corpus->begin < vp_tokenizer_size(tokenizer))
        return VP_OK;
    if (corpus->begin < 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the tokenizer has no token that begins or ends a "
                          "text; name one with '--end-of-text ID'");
    return vp_err_set(err, VP_ERR_INVALID,
                      "--end-of-text is %d, but the tokenizer has %d ids; "
                      "give a lower one",
                      corpus->begin, vp_tokenizer_size(tokenizer));
}

static void print_result(const struct options *options,
                         const struct vp_corpus_result *result)
{
    printf("%s: %" PRId64 " documents, %" PRId64 " tokens, %d shard%s for "
           "training",
           options->corpus.folder, result->n_documents, result->n_tokens,
           result->n_train_shards, result->n_train_shards == 1 ? "" : "s");
    if (result->n_valid_shards > 0)
        printf("; for evaluation %" PRId64 " documents, %" PRId64 " tokens",
               result->n_valid_documents, result->n_valid_tokens);
    printf("\n");
}

static int make(struct options *options)
{
    struct vp_err err = { .text = "" };
    struct vp_corpus_result result;
    struct vp_tokenizer *tokenizer;
    enum vp_status st = vp_tokenizer_open(options->tokenizer, &tokenizer, &err);

    if (st != VP_OK)
        return data_fail(command, st, &err);
    options->corpus.tokenizer = tokenizer;
    st = choose_begin(tokenizer, &options->corpus, &err);
    if (st == VP_OK) {
        signals_catch(SIGNALS_OF_ONE);
        data_progress_begin(&options->progress, "encoding");
        st = vp_corpus_write(&options->corpus, &result, &err);
        data_progress_end(&options->progress);
    }
    vp_tokenizer_free(tokenizer);
    if (st != VP_OK)
        return data_fail(command, st, &err);
    print_result(options, &result);
    return TOOL_OK;
}

static void print_help(void)
{
    tool_print(
        stdout, help_width(stdout), 0,
        "Makes token files of llm.c from text, on all cores: "
        "NAME_train_000000.bin, ... and NAME_val_000000.bin. Files are "
        "text, one document each, or .jsonl, one document a line; also "
        ".gz and .zst.\n\n"
        "usage: vpipe data gpt --tokenizer DIR --out FOLDER FILE...\n\n");
    help_flags(flags, N_FLAGS);
}

int data_gpt(int argc, char **argv)
{
    struct options options = { .corpus = {
                                   .begin = -1,
                                   .n_threads = data_cores(),
                                   .shard_tokens = VP_CORPUS_SHARD_TOKENS,
                                   .progress = show } };
    int status;

    options.files = calloc((size_t)argc, sizeof(*options.files));
    if (!options.files)
        return data_fail(command, VP_ERR_NOMEM, &(struct vp_err){ .text = "" });
    options.corpus.paths = options.files;
    options.corpus.ctx = &options;
    status = read_args(argc, argv, &options);
    if (status == TOOL_OK && options.help)
        print_help();
    else if (status == TOOL_OK)
        status = make(&options);
    free(options.files);
    return status;
}
