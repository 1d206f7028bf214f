/* vpipe data convert: copies the ids of a token file to one of llm.c. */
#include "data.h"

#include "data/data_detect.h"
#include "data/tokens/reader.h"
#include "data/tokens/write.h"
#include "signals.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { FLAG_FORMAT, FLAG_END, FLAG_HELP };

static const char command[] = "vpipe data convert";

static const struct tool_flag flags[] = {
    [FLAG_FORMAT] = { "--format", "NAME",
                      "format of IN: llmc, nanogpt, megatron or fairseq "
                      "[found out; never nanogpt]" },
    [FLAG_END] = { "--end-of-text", "ID",
                   "id before every document of files with an index [none]" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]), CHUNK = 1 << 16 };

struct options {
    const char *in, *out;
    enum vp_data_format format;
    int64_t end; /* -1: none */
    bool help;
};

int data_format(const char *name_of_command, const char *value,
                enum vp_data_format *out)
{
    static const enum vp_data_format formats[] = {
        VP_FORMAT_LLMC, VP_FORMAT_NANOGPT, VP_FORMAT_MEGATRON, VP_FORMAT_FAIRSEQ
    };

    for (size_t i = 0; i < VP_COUNT_OF(formats); i++)
        if (strcmp(value, vp_data_format_name((int)formats[i])) == 0) {
            *out = formats[i];
            return TOOL_OK;
        }
    return tool_usage_error("%s: unknown format '%.48s'; write '--format "
                            "llmc', 'nanogpt', 'megatron' or 'fairseq'",
                            name_of_command, value);
}

static int take(struct options *out, int flag, const char *value)
{
    switch (flag) {
    case ARGS_PLAIN:
        if (out->out)
            return tool_usage_error("%s: three files; give IN and OUT",
                                    command);
        if (out->in)
            out->out = value;
        else
            out->in = value;
        return TOOL_OK;
    case FLAG_FORMAT:
        return data_format(command, value, &out->format);
    case FLAG_END:
        return data_number(command, flags[flag].name, value, 0, INT32_MAX,
                           &out->end);
    case FLAG_HELP:
        out->help = true;
        return TOOL_OK;
    default:
        return TOOL_USAGE;
    }
}

static int read_args(int argc, char **argv, struct options *out)
{
    struct tool_args args = { .command = command,
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    const char *value;
    int flag, status;
    size_t n;

    while ((flag = args_next(&args, &value)) != ARGS_END) {
        status = take(out, flag, value);
        if (status != TOOL_OK || out->help)
            return status;
    }
    if (!out->out)
        return tool_usage_error("%s: no files; give IN and OUT", command);
    n = strlen(out->out);
    if (n < 5 || strcmp(out->out + n - 4, ".bin") != 0)
        return tool_usage_error("%s: '%.200s' does not end in .bin, as token "
                                "files of llm.c do; name it so",
                                command, out->out);
    if (access(out->out, F_OK) == 0)
        return tool_usage_error("%s: %.200s: is there already; remove it, or "
                                "name another file",
                                command, out->out);
    return TOOL_OK;
}

/* ---- Copying ------------------------------------------------------------ */

struct copy {
    const struct options *options;
    struct vp_token_reader *reader;
    struct vp_token_writer *writer; /* NULL: only looks for the largest id */
    struct data_progress progress;
    int64_t n_written;
    int32_t largest;
};

static enum vp_status copy_range(struct copy *copy, int64_t first, int64_t end,
                                 struct vp_err *err)
{
    int64_t n_tokens = vp_token_reader_info(copy->reader)->n_tokens;
    static int32_t ids[CHUNK];

    while (first < end) {
        int64_t n = end - first < CHUNK ? end - first : CHUNK;

        VP_TRY(vp_token_reader_read(copy->reader, first, n, ids, err));
        for (int64_t i = 0; i < n; i++)
            copy->largest = ids[i] > copy->largest ? ids[i] : copy->largest;
        if (copy->writer)
            VP_TRY(vp_token_writer_add(copy->writer, ids, n, err));
        copy->n_written += n;
        first += n;
        if (!data_progress_show(&copy->progress,
                                (double)first / (double)n_tokens, first))
            return vp_err_set(err, VP_ERR_INTERRUPTED,
                              "stopped by a signal; nothing was written");
    }
    return VP_OK;
}

/* Document by document, with an id before each. */
static enum vp_status copy_documents(struct copy *copy, struct vp_err *err)
{
    const struct vp_token_info *info = vp_token_reader_info(copy->reader);
    int32_t begin_id = (int32_t)copy->options->end;
    int64_t begin, end;

    VP_TRY(vp_token_reader_document(copy->reader, 0, &begin, err));
    for (int64_t i = 0; i < info->n_documents; i++, begin = end) {
        VP_TRY(vp_token_reader_document(copy->reader, i + 1, &end, err));
        if (end < begin || end > info->n_tokens)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: document %" PRId64 " ends before it begins; "
                              "copy or write the files anew",
                              copy->options->in, i);
        VP_TRY(vp_token_writer_add(copy->writer, &begin_id, 1, err));
        copy->n_written++;
        VP_TRY(copy_range(copy, begin, end, err));
    }
    return VP_OK;
}

static enum vp_status copy_all(struct copy *copy, struct vp_err *err)
{
    const struct options *options = copy->options;
    const struct vp_token_info *info = vp_token_reader_info(copy->reader);
    enum vp_status st;
    int64_t vocab;

    if (options->end >= 0 && info->n_documents < 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: does not say where documents begin; leave "
                          "--end-of-text out",
                          options->in);
    /* The width of ids depends on the largest one. */
    data_progress_begin(&copy->progress, "checking");
    VP_TRY(copy_range(copy, 0, info->n_tokens, err));
    vocab = (copy->largest > options->end ? copy->largest : options->end) + 1;
    VP_TRY(vp_token_writer_open(options->out, vocab, info->n_tokens,
                                &copy->writer, err));
    copy->n_written = 0;
    data_progress_end(&copy->progress);
    data_progress_begin(&copy->progress, "writing");
    st = options->end >= 0 ? copy_documents(copy, err)
                           : copy_range(copy, 0, info->n_tokens, err);
    if (st == VP_OK)
        return vp_token_writer_close(copy->writer, err);
    vp_token_writer_abandon(copy->writer);
    return st;
}

static int convert(const struct options *options)
{
    struct copy copy = { .options = options };
    struct vp_err err = { .text = "" };
    const char *format;
    enum vp_status st = vp_token_reader_open(options->in, options->format,
                                             &copy.reader, &err);

    if (st != VP_OK)
        return data_fail(command, st, &err);
    signals_catch(SIGNALS_OF_ONE);
    st = copy_all(&copy, &err);
    data_progress_end(&copy.progress);
    format = vp_data_format_name(
        (int)vp_token_reader_info(copy.reader)->format);
    vp_token_reader_close(copy.reader);
    if (st != VP_OK)
        return data_fail(command, st, &err);
    printf("%s: %" PRId64 " tokens, from %s to llmc\n", options->out,
           copy.n_written, format);
    return TOOL_OK;
}

int data_convert(int argc, char **argv)
{
    struct options options = { .end = -1 };
    int status = read_args(argc, argv, &options);

    if (status != TOOL_OK)
        return status;
    if (options.help) {
        tool_print(stdout, help_width(stdout), 0,
                   "Copies the ids of a token file of llm.c, nanoGPT, "
                   "Megatron-LM or fairseq to a token file of llm.c: uint16 "
                   "ids, or uint32 if one is above 65535.\n\n"
                   "usage: vpipe data convert IN OUT.bin [--end-of-text "
                   "ID]\n\n");
        help_flags(flags, N_FLAGS);
        return TOOL_OK;
    }
    return convert(&options);
}
