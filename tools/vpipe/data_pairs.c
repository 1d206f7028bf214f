/* vpipe data pairs: makes a fairseq data folder from parallel text. */
#include "data.h"

#include "data/pairs/make.h"
#include "signals.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLAG_TOKENIZER,
    FLAG_TARGET_TOKENIZER,
    FLAG_SOURCE,
    FLAG_TARGET,
    FLAG_OUT,
    FLAG_SPLIT,
    FLAG_VALID,
    FLAG_REPLACE,
    FLAG_THREADS,
    FLAG_HELP
};

static const char command[] = "vpipe data pairs";

static const struct tool_flag flags[] = {
    [FLAG_TOKENIZER] = { "--tokenizer", "DIR",
                         "folder or file of the tokenizer, of both languages "
                         "or of the source" },
    [FLAG_TARGET_TOKENIZER] = { "--target-tokenizer", "DIR",
                                "tokenizer of the target [the same]" },
    [FLAG_SOURCE] = { "--source-lang", "NAME",
                      "language to translate from [the end of the first "
                      "file's name]" },
    [FLAG_TARGET] = { "--target-lang", "NAME",
                      "language to translate to [the end of the second file's "
                      "name]" },
    [FLAG_OUT] = { "--out", "FOLDER", "the folder for the files" },
    [FLAG_SPLIT] = { "--split", "NAME",
                     "names of files begin with it: train, valid or test "
                     "[train]" },
    [FLAG_VALID] = { "--valid", "SHARE",
                     "share of the pairs for split valid, 0.01 for example "
                     "[0: none]" },
    [FLAG_REPLACE] = { "--replace", NULL,
                       "replace NUL bytes and invalid UTF-8 by U+FFFD instead "
                       "of refusing such files" },
    [FLAG_THREADS] = { "--threads", "N", "threads [all cores]" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]), LANG_BYTES = 32 };
const struct tool_options data_pairs_options = { flags, N_FLAGS };

struct options {
    const char *tokenizer[2];
    struct vp_pairs_config pairs;
    const char *files[2];
    char lang[2][LANG_BYTES];
    struct data_progress progress;
    bool help;
};

/* ---- The command line --------------------------------------------------- */

static int take_file(struct options *out, const char *value)
{
    if (out->pairs.text.n_paths == 2)
        return tool_usage_error("%s: three files; give two with a sentence on "
                                "each line, or one .tsv or .jsonl",
                                command);
    out->files[out->pairs.text.n_paths++] = value;
    return TOOL_OK;
}

static int take_number(struct options *out, int flag, const char *value)
{
    double share = 0;
    int64_t n = 0;
    int status;

    if (flag == FLAG_VALID) {
        status = data_share(command, flags[flag].name, value, 0.5, &share);
        out->pairs.valid_parts = (int64_t)(share * VP_CORPUS_PARTS + 0.5);
    } else {
        status = data_number(command, flags[flag].name, value, 1,
                             DATA_MAX_THREADS, &n);
        out->pairs.n_threads = (int)n;
    }
    return status;
}

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        return take_file(out, value);
    case FLAG_TOKENIZER:
    case FLAG_TARGET_TOKENIZER:
        out->tokenizer[flag == FLAG_TARGET_TOKENIZER] = value;
        return TOOL_OK;
    case FLAG_SOURCE:
    case FLAG_TARGET:
        out->pairs.text.lang[flag == FLAG_TARGET] = value;
        return TOOL_OK;
    case FLAG_OUT:
        out->pairs.folder = value;
        return TOOL_OK;
    case FLAG_SPLIT:
        out->pairs.split = value;
        return TOOL_OK;
    case FLAG_VALID:
    case FLAG_THREADS:
        return take_number(out, flag, value);
    case FLAG_REPLACE:
        out->pairs.text.replace = true;
        return TOOL_OK;
    case FLAG_HELP:
        out->help = true;
        return TOOL_OK;
    default:
        return TOOL_USAGE;
    }
}

/* Sets the language from a file's name: "de" for "train.de.gz". */
static void language_by_name(struct options *out, int side)
{
    const char *path = out->files[side], *end = path + strlen(path), *dot;

    if (strlen(path) > 3 && strcmp(end - 3, ".gz") == 0)
        end -= 3;
    else if (strlen(path) > 4 && strcmp(end - 4, ".zst") == 0)
        end -= 4;
    for (dot = end; dot > path && dot[-1] != '.' && dot[-1] != '/'; dot--)
        ;
    if (dot == path || dot[-1] == '/' || end - dot >= LANG_BYTES)
        return;
    snprintf(out->lang[side], LANG_BYTES, "%.*s", (int)(end - dot), dot);
    out->pairs.text.lang[side] = out->lang[side];
}

static bool is_language(const char *name)
{
    return name && name[0] && strlen(name) < LANG_BYTES &&
           !strpbrk(name, "/.-") && name[0] != '#';
}

static int check(struct options *out)
{
    struct vp_pairs_config *pairs = &out->pairs;

    if (!out->tokenizer[0])
        return tool_usage_error("%s: no tokenizer; write '--tokenizer DIR'",
                                command);
    if (!pairs->folder || pairs->folder[0] == '\0')
        return tool_usage_error("%s: no folder for the files; write '--out "
                                "FOLDER'",
                                command);
    if (pairs->text.n_paths == 0)
        return tool_usage_error("%s: no text; name two files with a sentence "
                                "on each line, or one .tsv or .jsonl",
                                command);
    for (int side = 0; side < 2 && pairs->text.n_paths == 2; side++)
        if (!pairs->text.lang[side])
            language_by_name(out, side);
    if (!is_language(pairs->text.lang[0]) ||
        !is_language(pairs->text.lang[1]) ||
        strcmp(pairs->text.lang[0], pairs->text.lang[1]) == 0)
        return tool_usage_error("%s: no two languages; write for example "
                                "'--source-lang de --target-lang en'",
                                command);
    if (strcmp(pairs->split, "valid") == 0 && pairs->valid_parts > 0)
        return tool_usage_error("%s: --split valid and --valid write the same "
                                "files; leave one out",
                                command);
    if (pairs->split[0] == '\0' || strpbrk(pairs->split, "/.") ||
        strlen(pairs->split) > 64)
        return tool_usage_error("%s: '%.48s' cannot be the name of a split; "
                                "write train, valid or test",
                                command, pairs->split);
    return TOOL_OK;
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

/* ---- Making the files --------------------------------------------------- */

static bool show(void *ctx, const struct vp_corpus_progress *progress)
{
    struct options *options = ctx;
    double all = (double)progress->n_bytes_all;

    return data_progress_show(&options->progress,
                              all > 0 ? (double)progress->n_bytes / all : 1,
                              progress->n_tokens);
}

static void print_result(const struct options *options,
                         const struct vp_pairs_result *result)
{
    printf("%s: %" PRId64 " pairs, %" PRId64 " and %" PRId64
           " tokens, vocabulary %" PRId64,
           options->pairs.folder, result->n_pairs, result->n_tokens[0],
           result->n_tokens[1], result->vocab);
    if (result->n_valid_pairs > 0)
        printf("; %" PRId64 " of the pairs for evaluation",
               result->n_valid_pairs);
    if (result->n_empty > 0)
        printf("; %" PRId64 " with an empty side left out", result->n_empty);
    printf("\n");
}

static int make(struct options *options)
{
    struct vp_tokenizer *tokenizer[2] = { NULL, NULL };
    struct vp_err err = { .text = "" };
    struct vp_pairs_result result;
    enum vp_status st = VP_OK;

    for (int k = 0; st == VP_OK && k < 2; k++)
        if (options->tokenizer[k])
            st = vp_tokenizer_open(options->tokenizer[k], &tokenizer[k], &err);
    if (st == VP_OK) {
        options->pairs.tokenizer[0] = tokenizer[0];
        options->pairs.tokenizer[1] = tokenizer[1] ? tokenizer[1]
                                                   : tokenizer[0];
        signals_catch(SIGNALS_OF_ONE);
        data_progress_begin(&options->progress, "encoding");
        st = vp_pairs_write(&options->pairs, &result, &err);
        data_progress_end(&options->progress);
    }
    vp_tokenizer_free(tokenizer[0]);
    vp_tokenizer_free(tokenizer[1]);
    if (st != VP_OK)
        return data_fail(command, st, &err);
    print_result(options, &result);
    return TOOL_OK;
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 0,
               "Makes a fairseq data folder from parallel text: "
               "train.de-en.de.idx, .bin and the other language, dict.de.txt, "
               "dict.en.txt. The text is two files, of which line i is a pair, "
               "or one .tsv (source, tab, target) or .jsonl; also .gz and "
               ".zst.\n\n"
               "usage: vpipe data pairs --tokenizer DIR --out FOLDER train.de "
               "train.en\n"
               "       vpipe data pairs --tokenizer DIR --out FOLDER "
               "--source-lang de --target-lang en train.tsv\n\n");
    help_flags(flags, N_FLAGS);
}

int data_pairs(int argc, char **argv)
{
    struct options options = { .pairs = { .n_threads = data_cores(),
                                          .split = "train",
                                          .progress = show } };
    int status;

    options.pairs.text.paths = options.files;
    options.pairs.ctx = &options;
    status = read_args(argc, argv, &options);
    if (status == TOOL_OK && options.help)
        print_help();
    else if (status == TOOL_OK)
        status = make(&options);
    return status;
}
