/* vpipe data bert: makes HDF5 shards for BERT from text. */
#include "data.h"

#include "data/bert/make.h"
#include "signals.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLAG_TOKENIZER,
    FLAG_OUT,
    FLAG_NAME,
    FLAG_SEQ,
    FLAG_PRED,
    FLAG_MASK,
    FLAG_SHORT,
    FLAG_RANDOM,
    FLAG_DUPES,
    FLAG_SEED,
    FLAG_VALID,
    FLAG_SHARD,
    FLAG_SHARDS,
    FLAG_STYLE,
    FLAG_KEY,
    FLAG_REPLACE,
    FLAG_THREADS,
    FLAG_HELP
};

static const char command[] = "vpipe data bert";

static const struct tool_flag flags[] = {
    [FLAG_TOKENIZER] = { "--tokenizer", "DIR",
                         "folder or file of a WordPiece tokenizer" },
    [FLAG_OUT] = { "--out", "FOLDER", "the folder for the shards" },
    [FLAG_NAME] = { "--name", "NAME",
                    "names of shards begin with it [the folder's name]" },
    [FLAG_SEQ] = { "--seq-length", "N", "tokens of a sample [128]" },
    [FLAG_PRED] = { "--max-predictions", "N",
                    "hidden tokens of a sample at most [20 of 128, 80 of "
                    "512]" },
    [FLAG_MASK] = { "--mask-share", "SHARE", "tokens that are hidden [0.15]" },
    [FLAG_SHORT] = { "--short-share", "SHARE",
                     "documents whose samples are shorter, to be like real "
                     "input [0.1]" },
    [FLAG_RANDOM] = { "--random-next", "SHARE",
                      "samples whose second part is of another document "
                      "[0.5]" },
    [FLAG_DUPES] = { "--dupe-factor", "N",
                     "uses of the text, each with other masks [5]" },
    [FLAG_SEED] = { "--seed", "N", "seed of all choices [12345]" },
    [FLAG_VALID] = { "--valid", "SHARE",
                     "share of the documents for evaluation, 0.01 for example "
                     "[0: none]" },
    [FLAG_SHARD] = { "--shard-samples", "N", "samples of a shard [500000]" },
    [FLAG_SHARDS] = { "--shards", "N",
                      "number of shards instead; takes twice the time" },
    [FLAG_STYLE] = { "--sentences", "lines|prose",
                     "lines: each line is one sentence; prose: full stops end "
                     "sentences [detected for each file]" },
    [FLAG_KEY] = { "--text-key", "KEY",
                   "key of the text in lines of JSON [text]" },
    [FLAG_REPLACE] = { "--replace", NULL,
                       "replace NUL bytes and invalid UTF-8 by U+FFFD instead "
                       "of refusing such files" },
    [FLAG_THREADS] = { "--threads", "N", "threads [all cores]" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options data_bert_options = { flags, N_FLAGS };

/* Limits of flags that are whole numbers. */
static const struct {
    int flag;
    int64_t min, max;
} numbers[] = {
    { FLAG_SEQ, 8, 65536 },
    { FLAG_PRED, 1, 65536 },
    { FLAG_DUPES, 1, 65536 },
    { FLAG_SEED, 0, INT64_MAX },
    { FLAG_SHARD, 1, INT32_MAX },
    { FLAG_SHARDS, 1, 1000000 },
    { FLAG_THREADS, 1, DATA_MAX_THREADS },
};

struct options {
    const char *tokenizer;
    struct vp_bert_config bert;
    const char **files;
    char name[256];
    struct data_progress progress;
    bool writing; /* the second part of the work */
    bool help;
};

/* ---- The command line --------------------------------------------------- */

static int take_number(struct options *out, int flag, const char *value)
{
    struct vp_bert_config *bert = &out->bert;
    int64_t n = 0;
    int status = TOOL_OK;

    for (size_t i = 0; i < VP_COUNT_OF(numbers); i++)
        if (numbers[i].flag == flag)
            status = data_number(command, flags[flag].name, value,
                                 numbers[i].min, numbers[i].max, &n);
    if (flag == FLAG_SEQ)
        bert->options.seq = n;
    else if (flag == FLAG_PRED)
        bert->options.max_pred = n;
    else if (flag == FLAG_DUPES)
        bert->dupe_factor = n;
    else if (flag == FLAG_SEED)
        bert->options.seed = (uint64_t)n;
    else if (flag == FLAG_SHARD)
        bert->shard_samples = n;
    else if (flag == FLAG_SHARDS)
        bert->n_shards = n;
    else
        bert->text.n_threads = (int)n;
    return status;
}

static int take_share(struct options *out, int flag, const char *value)
{
    struct vp_bert_options *options = &out->bert.options;
    double share = 0;
    int status = data_share(command, flags[flag].name, value,
                            flag == FLAG_VALID ? 0.5 : 1, &share);

    if (flag == FLAG_MASK)
        options->mask_share = share;
    else if (flag == FLAG_SHORT)
        options->short_share = share;
    else if (flag == FLAG_RANDOM)
        options->random_next = share;
    else
        options->valid_parts = (int64_t)(share * VP_CORPUS_PARTS + 0.5);
    return status;
}

static int take_style(struct options *out, const char *value)
{
    if (strcmp(value, "lines") == 0)
        out->bert.text.style = VP_SENTENCES_LINES;
    else if (strcmp(value, "prose") == 0)
        out->bert.text.style = VP_SENTENCES_WRAPPED;
    else
        return tool_usage_error("%s: unknown style '%.48s'; write "
                                "'--sentences lines' or 'prose', or leave it "
                                "out",
                                command, value);
    return TOOL_OK;
}

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        out->files[out->bert.text.n_paths++] = value;
        return TOOL_OK;
    case FLAG_TOKENIZER:
        out->tokenizer = value;
        return TOOL_OK;
    case FLAG_OUT:
        out->bert.folder = value;
        return TOOL_OK;
    case FLAG_NAME:
        out->bert.name = value;
        return TOOL_OK;
    case FLAG_MASK:
    case FLAG_SHORT:
    case FLAG_RANDOM:
    case FLAG_VALID:
        return take_share(out, flag, value);
    case FLAG_STYLE:
        return take_style(out, value);
    case FLAG_KEY:
        out->bert.text.text_key = value;
        return TOOL_OK;
    case FLAG_REPLACE:
        out->bert.text.replace = true;
        return TOOL_OK;
    case FLAG_HELP:
        out->help = true;
        return TOOL_OK;
    case ARGS_BAD:
        return TOOL_USAGE;
    default:
        return take_number(out, flag, value);
    }
}

static int check(struct options *out)
{
    struct vp_bert_config *bert = &out->bert;

    if (!out->tokenizer)
        return tool_usage_error("%s: no tokenizer; write '--tokenizer DIR'",
                                command);
    if (!bert->folder || bert->folder[0] == '\0')
        return tool_usage_error("%s: no folder for the shards; write '--out "
                                "FOLDER'",
                                command);
    if (bert->text.n_paths == 0)
        return tool_usage_error("%s: no text; name one or more files", command);
    if (bert->options.max_pred == 0)
        bert->options.max_pred = (bert->options.seq * 5 + 31) / 32;
    if (bert->options.max_pred > bert->options.seq)
        return tool_usage_error("%s: --max-predictions is above --seq-length; "
                                "lower it",
                                command);
    if (bert->options.mask_share <= 0)
        return tool_usage_error("%s: --mask-share is 0, but BERT learns from "
                                "hidden tokens only; write '--mask-share "
                                "0.15'",
                                command);
    return data_name(command, bert->folder, &bert->name, out->name,
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

static bool show(void *ctx, const struct vp_bert_progress *progress)
{
    struct options *options = ctx;

    if (progress->writes && !options->writing) {
        data_progress_end(&options->progress);
        data_progress_begin(&options->progress, "writing");
        options->progress.unit = "samples";
        options->writing = true;
    }
    return data_progress_show(&options->progress, progress->done, progress->n);
}

static void print_result(const struct options *options,
                         const struct vp_bert_result *result)
{
    const int *styles = result->text.n_styles;
    double n = (double)result->n_samples;

    printf("%s: %" PRId64 " documents, %" PRId64 " sentences, %" PRId64
           " tokens\n",
           options->bert.folder, result->text.n_documents,
           result->text.n_sentences, result->text.n_tokens);
    if (styles[VP_SENTENCES_PARAGRAPHS] + styles[VP_SENTENCES_WRAPPED] > 0)
        printf("sentences: %d file%s of one on each line, %d of prose, in "
               "which full stops end them\n",
               styles[VP_SENTENCES_LINES],
               styles[VP_SENTENCES_LINES] == 1 ? "" : "s",
               styles[VP_SENTENCES_PARAGRAPHS] + styles[VP_SENTENCES_WRAPPED]);
    printf("training: %" PRId64 " samples in %d shard%s, %.0f tokens and "
           "%.1f hidden each, %.0f %% with a random second part\n",
           result->n_samples, result->n_train_shards,
           result->n_train_shards == 1 ? "" : "s", (double)result->n_tokens / n,
           (double)result->n_labels / n, 100 * (double)result->n_random / n);
    if (result->n_valid_shards > 0)
        printf("evaluation: %" PRId64 " samples\n", result->n_valid_samples);
}

static int make(struct options *options)
{
    struct vp_err err = { .text = "" };
    struct vp_bert_result result;
    struct vp_tokenizer *tokenizer;
    enum vp_status st = vp_tokenizer_open(options->tokenizer, &tokenizer, &err);

    if (st != VP_OK)
        return data_fail(command, st, &err);
    options->bert.text.tokenizer = tokenizer;
    signals_catch(SIGNALS_OF_ONE);
    data_progress_begin(&options->progress, "encoding");
    st = vp_bert_write(&options->bert, &result, &err);
    data_progress_end(&options->progress);
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
        "Makes HDF5 shards for BERT from text, on all cores: "
        "NAME_training_000000.hdf5, ... and NAME_test_000000.hdf5, with pairs "
        "of sentences and hidden tokens as Google's and NVIDIA's scripts make "
        "them. Files are text, in which blank lines separate documents, or "
        ".jsonl, one document a line; also .gz and .zst.\n\n"
        "usage: vpipe data bert --tokenizer DIR --out FOLDER FILE...\n\n");
    help_flags(flags, N_FLAGS);
}

int data_bert(int argc, char **argv)
{
    struct options options = {
        .bert = { .text = { .n_threads = data_cores() },
                  .options = { .seq = 128,
                               .mask_share = 0.15,
                               .short_share = 0.1,
                               .random_next = 0.5,
                               .seed = 12345 },
                  .dupe_factor = 5,
                  .shard_samples = 500000,
                  .progress = show },
    };
    int status;

    options.files = calloc((size_t)argc, sizeof(*options.files));
    if (!options.files)
        return data_fail(command, VP_ERR_NOMEM, &(struct vp_err){ .text = "" });
    options.bert.text.paths = options.files;
    options.bert.ctx = &options;
    status = read_args(argc, argv, &options);
    if (status == TOOL_OK && options.help)
        print_help();
    else if (status == TOOL_OK)
        status = make(&options);
    free(options.files);
    return status;
}
