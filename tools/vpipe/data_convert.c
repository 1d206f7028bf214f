/* vpipe data convert: copies the ids of a token file to another format. */
#include "data.h"

#include "data/data_detect.h"
#include "data/tokens/index_write.h"
#include "data/tokens/reader.h"
#include "data/tokens/write.h"
#include "signals.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { FLAG_FORMAT, FLAG_TO, FLAG_END, FLAG_HELP };

static const char command[] = "vpipe data convert";

static const struct tool_flag flags[] = {
    [FLAG_FORMAT] = { "--format", "llmc|nanogpt|megatron|fairseq",
                      "format of IN [detected; nanogpt cannot be]" },
    [FLAG_TO] = { "--to", "llmc|nanogpt|megatron|fairseq",
                  "format of OUT [llmc; megatron if OUT ends in .idx]" },
    [FLAG_END] = { "--end-of-text", "ID",
                   "id that separates documents in files without an index: "
                   "inserted before each document (nanogpt: after it) in OUT, "
                   "or removed from IN [none]" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]), CHUNK = 1 << 16 };
const struct tool_options data_convert_options = { flags, N_FLAGS };

struct options {
    const char *in, *out;
    enum vp_data_format format, to;
    int64_t end;       /* -1: none */
    char stem[4096];   /* OUT without .bin or .idx */
    char beside[4200]; /* path of the file beside OUT */
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

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

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
    case FLAG_TO:
        return data_format(command, value, &out->to);
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

static bool is_indexed(enum vp_data_format format)
{
    return format == VP_FORMAT_MEGATRON || format == VP_FORMAT_FAIRSEQ;
}

/* Checks that the name of OUT suits its format, and that no file exists
 * there. */
static int check_out(struct options *out)
{
    size_t n = strlen(out->out);
    const char *end = n > 4 ? out->out + n - 4 : "";
    const char *want;

    if (out->to == VP_FORMAT_AUTO)
        out->to = strcmp(end, ".idx") == 0 ? VP_FORMAT_MEGATRON
                                           : VP_FORMAT_LLMC;
    want = is_indexed(out->to) ? ".idx" : ".bin";
    if (strcmp(end, want) != 0)
        return tool_usage_error("%s: '%.200s' does not end in %s, as files of "
                                "the format %s do; name it so",
                                command, out->out, want,
                                vp_data_format_name((int)out->to));
    snprintf(out->stem, sizeof(out->stem), "%.*s", (int)n - 4, out->out);
    snprintf(out->beside, sizeof(out->beside), "%s%s", out->stem,
             is_indexed(out->to) ? ".bin" : ".idx");
    if (access(out->out, F_OK) == 0 ||
        (is_indexed(out->to) && access(out->beside, F_OK) == 0))
        return tool_usage_error(
            "%s: %.200s: is there already; remove it, or "
            "name another file",
            command, access(out->out, F_OK) == 0 ? out->out : out->beside);
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
    if (!out->out)
        return tool_usage_error("%s: no files; give IN and OUT", command);
    return check_out(out);
}

/* ---- Copying ------------------------------------------------------------ */

struct copy {
    const struct options *options;
    struct vp_token_reader *reader;
    /* Only one of the two is set; none in the pass that finds the largest
     * id. */
    struct vp_token_writer *writer;
    struct vp_index_writer *index;
    bool cuts; /* options->end separates documents of IN; OUT has an index */
    bool is_begun; /* a sequence of the index has begun */
    struct data_progress progress;
    int64_t n_written;
    int32_t largest;
};

static enum vp_status put(struct copy *copy, const int32_t *ids, int64_t n,
                          struct vp_err *err)
{
    copy->n_written += n;
    if (copy->writer)
        return vp_token_writer_add(copy->writer, ids, n, err);
    if (!copy->index || n == 0)
        return VP_OK;
    if (copy->is_begun)
        return vp_index_writer_extend(copy->index, ids, n, err);
    copy->is_begun = true;
    return vp_index_writer_add(copy->index, ids, n, err);
}

static enum vp_status end_document(struct copy *copy, struct vp_err *err)
{
    copy->is_begun = false;
    return copy->index ? vp_index_writer_end_document(copy->index, err) : VP_OK;
}

/* Writes ids without options->end, which separates documents. */
static enum vp_status put_cut(struct copy *copy, const int32_t *ids, int64_t n,
                              struct vp_err *err)
{
    int64_t first = 0;

    for (int64_t i = 0; i < n; i++) {
        if (ids[i] != copy->options->end)
            continue;
        VP_TRY(put(copy, ids + first, i - first, err));
        VP_TRY(end_document(copy, err));
        first = i + 1;
    }
    return put(copy, ids + first, n - first, err);
}

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
        VP_TRY(copy->cuts ? put_cut(copy, ids, n, err)
                          : put(copy, ids, n, err));
        first += n;
        if (!data_progress_show(&copy->progress,
                                (double)first / (double)n_tokens, first))
            return vp_err_set(err, VP_ERR_INTERRUPTED,
                              "stopped by a signal; nothing was written");
    }
    return VP_OK;
}

/* Copies document by document, with the id of --end-of-text before or after
 * each if OUT has no index. */
static enum vp_status copy_documents(struct copy *copy, struct vp_err *err)
{
    const struct vp_token_info *info = vp_token_reader_info(copy->reader);
    const struct options *options = copy->options;
    bool marks = copy->writer && options->end >= 0;
    int32_t end_id = (int32_t)options->end;
    int64_t begin, end;

    VP_TRY(vp_token_reader_document(copy->reader, 0, &begin, err));
    for (int64_t i = 0; i < info->n_documents; i++, begin = end) {
        VP_TRY(vp_token_reader_document(copy->reader, i + 1, &end, err));
        if (end < begin || end > info->n_tokens)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: document %" PRId64 " ends before it begins; "
                              "copy or write the files anew",
                              options->in, i);
        if (marks && options->to != VP_FORMAT_NANOGPT)
            VP_TRY(put(copy, &end_id, 1, err));
        VP_TRY(copy_range(copy, begin, end, err));
        if (marks && options->to == VP_FORMAT_NANOGPT)
            VP_TRY(put(copy, &end_id, 1, err));
        VP_TRY(end_document(copy, err));
    }
    return VP_OK;
}

static enum vp_status open_out(struct copy *copy, struct vp_err *err)
{
    const struct options *options = copy->options;
    int64_t n = vp_token_reader_info(copy->reader)->n_tokens;
    int64_t vocab = (copy->largest > options->end ? copy->largest
                                                  : options->end) +
                    1;

    switch (options->to) {
    case VP_FORMAT_LLMC:
        return vp_token_writer_open(options->out, vocab, n, &copy->writer, err);
    case VP_FORMAT_NANOGPT:
        return vp_token_writer_open_plain(options->out, vocab, n, &copy->writer,
                                          err);
    default:
        return vp_index_writer_open(options->stem,
                                    options->to == VP_FORMAT_FAIRSEQ, vocab, n,
                                    &copy->index, err);
    }
}

static enum vp_status check_end(const struct copy *copy, struct vp_err *err)
{
    const struct options *options = copy->options;
    bool has_documents = vp_token_reader_info(copy->reader)->n_documents >= 0;

    if (options->end < 0 || has_documents != is_indexed(options->to))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      has_documents
                          ? "%s: both files have an index, which separates "
                            "documents; leave --end-of-text out"
                          : "%s: neither file has an index of documents; leave "
                            "--end-of-text out",
                      options->in);
}

static enum vp_status copy_all(struct copy *copy, struct vp_err *err)
{
    const struct options *options = copy->options;
    const struct vp_token_info *info = vp_token_reader_info(copy->reader);
    bool by_document = info->n_documents >= 0 &&
                       (options->end >= 0 || is_indexed(options->to));
    enum vp_status st;

    VP_TRY(check_end(copy, err));
    /* The width of ids depends on the largest one. */
    data_progress_begin(&copy->progress, "checking");
    VP_TRY(copy_range(copy, 0, info->n_tokens, err));
    VP_TRY(open_out(copy, err));
    copy->n_written = 0;
    copy->cuts = copy->index && options->end >= 0;
    data_progress_end(&copy->progress);
    data_progress_begin(&copy->progress, "writing");
    st = by_document ? copy_documents(copy, err)
                     : copy_range(copy, 0, info->n_tokens, err);
    if (st == VP_OK && copy->n_written == 0)
        st = vp_err_set(err, VP_ERR_INVALID,
                        "%s: holds nothing but the id between documents; give "
                        "another one",
                        options->in);
    if (st == VP_OK)
        return copy->writer ? vp_token_writer_close(copy->writer, err)
                            : vp_index_writer_close(copy->index, err);
    vp_token_writer_abandon(copy->writer);
    vp_index_writer_abandon(copy->index);
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
    printf("%s: %" PRId64 " tokens, from %s to %s\n", options->out,
           copy.n_written, format, vp_data_format_name((int)options->to));
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
                   "Megatron-LM or fairseq to one of these formats: uint16 "
                   "ids, or 32 bits if some are too large. Documents stay "
                   "documents.\n\n"
                   "usage: vpipe data convert IN OUT.bin [--to nanogpt] "
                   "[--end-of-text ID]\n"
                   "       vpipe data convert IN OUT.idx [--to fairseq] "
                   "[--end-of-text ID]\n\n");
        help_flags(flags, N_FLAGS);
        return TOOL_OK;
    }
    return convert(&options);
}
