/* vpipe data encode, decode: convert lines of text to token ids and back. */
#include "data.h"
#include "lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FLAG_TOKENIZER, FLAG_ORDINARY, FLAG_HELP };

static const struct tool_flag flags[] = {
    [FLAG_TOKENIZER] = { "--tokenizer", "DIR",
                         "folder or file of the tokenizer: tokenizer.json, "
                         "vocab.txt, or vocab.json and merges.txt" },
    [FLAG_ORDINARY] = { "--ordinary", NULL,
                        "encode special tokens that are written in the text "
                        "as ordinary letters" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
/* decode has --skip-special in the place of --ordinary. */
static const struct tool_flag decode_flags[] = {
    [FLAG_TOKENIZER] = { "--tokenizer", "DIR",
                         "folder or file of the tokenizer" },
    [FLAG_ORDINARY] = { "--skip-special", NULL, "leave special tokens out" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options data_encode_options = { flags, N_FLAGS };
const struct tool_options data_decode_options = { decode_flags, N_FLAGS };

struct options {
    const char *command; /* "vpipe data encode" */
    const char *tokenizer, *file;
    bool flag; /* --ordinary or --skip-special */
    bool help;
};

/* ---- The command line --------------------------------------------------- */

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        if (out->file)
            return tool_usage_error("%s: two files, '%.48s' and '%.48s'; give "
                                    "one",
                                    out->command, out->file, value);
        out->file = value;
        break;
    case FLAG_TOKENIZER:
        out->tokenizer = value;
        break;
    case FLAG_ORDINARY:
        out->flag = true;
        break;
    case FLAG_HELP:
        out->help = true;
        break;
    default:
        return TOOL_USAGE;
    }
    return TOOL_OK;
}

static int read_args(int argc, char **argv, const struct tool_flag *table,
                     struct options *out)
{
    struct tool_args args = { .command = out->command,
                              .argc = argc,
                              .argv = argv,
                              .flags = table,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    int status = args_read(&args, take, out, &out->help);

    if (status != TOOL_OK || out->help)
        return status;
    if (!out->tokenizer)
        return tool_usage_error("%s: no tokenizer; write '--tokenizer DIR'",
                                out->command);
    if (!out->file)
        return tool_usage_error("%s: no file; name one, or '-' for the "
                                "standard input",
                                out->command);
    return TOOL_OK;
}

/* ---- Shared by both ----------------------------------------------------- */

/* Opens the tokenizer and the file and calls `work` with them. */
static int with_tokenizer(const struct options *options,
                          enum vp_status (*work)(const struct options *,
                                                 const struct vp_tokenizer *,
                                                 struct lines *,
                                                 struct vp_err *))
{
    struct vp_err err = { .text = "" };
    struct vp_tokenizer *tokenizer;
    struct lines lines;
    enum vp_status st = vp_tokenizer_open(options->tokenizer, &tokenizer, &err);

    if (st != VP_OK)
        return data_fail(options->command, st, &err);
    st = lines_open(&lines, options->file, &err);
    if (st == VP_OK)
        st = work(options, tokenizer, &lines, &err);
    lines_close(&lines);
    vp_tokenizer_free(tokenizer);
    return st == VP_OK ? TOOL_OK : data_fail(options->command, st, &err);
}

/* Returns true if stdout has an error, which main() reports at the end. */
static bool is_output_lost(void)
{
    return ferror(stdout) != 0;
}

/* ---- encode ------------------------------------------------------------- */

/* Appends "12 7 300\n". */
static void add_ids(struct vp_strbuf *out, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char digits[16], *at = digits + sizeof(digits);
        uint32_t left = ids[i];

        do
            *--at = (char)('0' + left % 10);
        while ((left /= 10) > 0);
        if (i > 0)
            *--at = ' ';
        vp_strbuf_add(out, at, (size_t)(digits + sizeof(digits) - at));
    }
    vp_strbuf_add(out, "\n", 1);
}

static enum vp_status print_block(struct vp_batch_encoder *batch, int n)
{
    struct vp_strbuf out = VP_STRBUF_INIT;
    enum vp_status st = VP_OK;

    for (int i = 0; i < n; i++) {
        size_t n_ids;
        const uint32_t *ids = vp_batch_encoder_ids(batch, i, &n_ids);

        add_ids(&out, ids, n_ids);
    }
    if (out.failed)
        st = VP_ERR_NOMEM;
    else
        fwrite(out.at, 1, out.n_bytes, stdout);
    vp_strbuf_release(&out);
    return st;
}

static enum vp_status encode(const struct options *options,
                             const struct vp_tokenizer *tokenizer,
                             struct lines *lines, struct vp_err *err)
{
    struct vp_batch_encoder *batch;
    enum vp_status st;

    VP_TRY(vp_batch_encoder_create(tokenizer, data_cores(), &batch));
    while ((st = lines_next(lines, err)) == VP_OK && !is_output_lost()) {
        st = vp_batch_encoder_run(batch, lines->spans, lines->n_spans,
                                  options->flag);
        if (st == VP_OK)
            st = print_block(batch, lines->n_spans);
        if (st != VP_OK)
            break;
    }
    vp_batch_encoder_free(batch);
    return st == VP_ERR_END ? VP_OK : st;
}

int data_encode(int argc, char **argv)
{
    struct options options = { .command = "vpipe data encode" };
    int status = read_args(argc, argv, flags, &options);

    if (status != TOOL_OK)
        return status;
    if (options.help) {
        tool_print(stdout, help_width(stdout), 0,
                   "Prints the token ids of every line of a file, separated by "
                   "spaces. Lines end at LF only; no ids are added.\n\n"
                   "usage: vpipe data encode --tokenizer DIR FILE "
                   "[--ordinary]\n\n");
        help_flags(flags, N_FLAGS);
        return TOOL_OK;
    }
    return with_tokenizer(&options, encode);
}

/* ---- decode ------------------------------------------------------------- */

static enum vp_status take_ids(const struct vp_text_span *line,
                               struct vp_ids *ids, struct vp_err *err)
{
    const char *at = line->bytes, *end = at + line->n_bytes;

    ids->n = 0;
    while (at < end) {
        uint64_t id = 0;
        const char *start = at;

        if (*at == ' ' || *at == '\r' || *at == '\t') {
            at++;
            continue;
        }
        while (at < end && *at >= '0' && *at <= '9' && id <= UINT32_MAX)
            id = id * 10 + (uint64_t)(*at++ - '0');
        if (at == start || id > UINT32_MAX ||
            (at < end && !strchr(" \r\t", *at)))
            return vp_err_set(err, VP_ERR_INVALID,
                              "'%.*s' is no token id; write numbers and spaces",
                              (int)(end - start < 24 ? end - start : 24),
                              start);
        VP_TRY(vp_ids_reserve(ids, 1));
        ids->at[ids->n++] = (uint32_t)id;
    }
    return VP_OK;
}

static enum vp_status decode_line(const struct options *options,
                                  const struct vp_tokenizer *tokenizer,
                                  const struct vp_text_span *line,
                                  struct vp_ids *ids, struct vp_strbuf *out,
                                  struct vp_err *err)
{
    VP_TRY(take_ids(line, ids, err));
    VP_TRY(vp_tokenizer_decode(tokenizer, ids->at, ids->n, options->flag, out,
                               err));
    vp_strbuf_add(out, "\n", 1);
    fwrite(vp_strbuf_text(out), 1, out->n_bytes, stdout);
    out->n_bytes = 0;
    return VP_OK;
}

static enum vp_status decode(const struct options *options,
                             const struct vp_tokenizer *tokenizer,
                             struct lines *lines, struct vp_err *err)
{
    struct vp_strbuf out = VP_STRBUF_INIT;
    struct vp_ids ids = { .n = 0 };
    enum vp_status st = VP_OK;

    while (st == VP_OK && !is_output_lost()) {
        st = lines_next(lines, err);
        for (int i = 0; st == VP_OK && i < lines->n_spans; i++) {
            st = decode_line(options, tokenizer, &lines->spans[i], &ids, &out,
                             err);
            if (st == VP_ERR_INVALID)
                vp_err_prefix(err, "%s:%" PRId64, lines->path,
                              lines->n_lines + i + 1);
        }
    }
    vp_ids_release(&ids);
    vp_strbuf_release(&out);
    return st == VP_ERR_END ? VP_OK : st;
}

int data_decode(int argc, char **argv)
{
    struct options options = { .command = "vpipe data decode" };
    int status = read_args(argc, argv, decode_flags, &options);

    if (status != TOOL_OK)
        return status;
    if (options.help) {
        tool_print(stdout, help_width(stdout), 0,
                   "Prints the text of every line of token ids.\n\n"
                   "usage: vpipe data decode --tokenizer DIR FILE "
                   "[--skip-special]\n\n");
        help_flags(decode_flags, N_FLAGS);
        return TOOL_OK;
    }
    return with_tokenizer(&options, decode);
}
