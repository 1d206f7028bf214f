/* vpipe data inspect: prints counts and the first documents of a file of tokens
 * or text. */
#include "inspect.h"

#include "base/nearest.h"
#include "data/corpus/corpus.h"
#include "data/corpus/documents.h"
#include "data/data_detect.h"
#include "data/tokens/reader.h"
#include "signals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FLAG_TOKENIZER,
    FLAG_N,
    FLAG_FORMAT,
    FLAG_KEY,
    FLAG_SOURCE,
    FLAG_TARGET,
    FLAG_HELP
};

static const char command[] = "vpipe data inspect";

static const struct tool_flag flags[] = {
    [FLAG_TOKENIZER] = { "--tokenizer", "DIR",
                         "folder or file of the tokenizer; without it ids are "
                         "shown as numbers" },
    [FLAG_N] = { "-n", "N", "documents to show [3]" },
    [FLAG_FORMAT] = { "--format", "llmc|nanogpt|megatron|fairseq",
                      "format of FILE [detected; nanogpt cannot be]" },
    [FLAG_KEY] = { "--text-key", "KEY",
                   "key of the text in lines of JSON [text]" },
    [FLAG_SOURCE] = { "--source-lang", "NAME",
                      "key of the source in lines of JSON that are pairs" },
    [FLAG_TARGET] = { "--target-lang", "NAME", "key of the target" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum {
    N_FLAGS = sizeof(flags) / sizeof(flags[0]),
    CHUNK = 1 << 16,
    MAX_VOCAB = 1 << 24,
};
const struct tool_options data_inspect_options = { flags, N_FLAGS };

/* ---- The command line --------------------------------------------------- */

static int take(void *ctx, int flag, const char *value)
{
    struct inspect_options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        if (out->target)
            return tool_usage_error("%s: three files; give one, or two of "
                                    "which line i is a pair",
                                    command);
        if (out->file)
            out->target = value;
        else
            out->file = value;
        return TOOL_OK;
    case FLAG_TOKENIZER:
        out->tokenizer_path = value;
        return TOOL_OK;
    case FLAG_N:
        return data_number(command, flags[flag].name, value, 0, 1000000,
                           &out->n_samples);
    case FLAG_FORMAT:
        return data_format(command, value, &out->format);
    case FLAG_KEY:
        out->text_key = value;
        return TOOL_OK;
    case FLAG_SOURCE:
    case FLAG_TARGET:
        out->lang[flag == FLAG_TARGET] = value;
        return TOOL_OK;
    case FLAG_HELP:
        out->help = true;
        return TOOL_OK;
    default:
        return TOOL_USAGE;
    }
}

static int read_args(int argc, char **argv, struct inspect_options *out)
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
    if (!out->file)
        return tool_usage_error("%s: no file; name one", command);
    if (!out->lang[0] != !out->lang[1])
        return tool_usage_error("%s: one language; write --source-lang and "
                                "--target-lang",
                                command);
    return TOOL_OK;
}

/* ---- Printing ----------------------------------------------------------- */

void inspect_print_text(const char *bytes, size_t n)
{
    bool cut = n > INSPECT_BYTES;

    if (cut)
        n = INSPECT_BYTES;
    while (cut && n > 0 && ((unsigned char)bytes[n] & 0xC0) == 0x80)
        n--;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        /* U+0080 to U+009F are controls, too: C2 80 to C2 9F. */
        bool is_c1 = byte == 0xC2 && i + 1 < n &&
                     (unsigned char)bytes[i + 1] < 0xA0;

        is_c1 = is_c1 ||
                (i > 0 && (unsigned char)bytes[i - 1] == 0xC2 && byte < 0xA0);
        if (byte == '\n')
            printf("\\n");
        else if (byte == '\t')
            printf("\\t");
        else if (byte < ' ' || byte == 0x7F || is_c1)
            printf("\\x%02X", byte);
        else
            putchar(byte);
    }
    printf("%s\n", cut ? " ..." : "");
}

enum vp_status inspect_print_ids(const struct vp_tokenizer *tokenizer,
                                 const int32_t *ids, int64_t n, bool cut,
                                 struct vp_err *err)
{
    struct vp_strbuf text = VP_STRBUF_INIT;
    enum vp_status st = VP_OK;

    for (int64_t i = 0; !tokenizer && i < n; i++)
        vp_strbuf_addf(&text, "%s%" PRId32, i ? " " : "", ids[i]);
    if (tokenizer)
        st = vp_tokenizer_decode(tokenizer, (const uint32_t *)ids, (size_t)n,
                                 false, &text, err);
    if (cut)
        vp_strbuf_addf(&text, " ...");
    if (st == VP_OK)
        inspect_print_text(vp_strbuf_text(&text), text.n_bytes);
    vp_strbuf_release(&text);
    return st;
}

/* ---- Token files -------------------------------------------------------- */

struct counts {
    unsigned char *used; /* [MAX_VOCAB] */
    int64_t n_used, n_begins;
    int32_t largest;
};

static void count(struct counts *counts, const int32_t *ids, int64_t n,
                  int32_t begin)
{
    for (int64_t i = 0; i < n; i++) {
        counts->n_used += !counts->used[ids[i]];
        counts->used[ids[i]] = 1;
        counts->n_begins += ids[i] == begin;
        counts->largest = ids[i] > counts->largest ? ids[i] : counts->largest;
    }
}

static enum vp_status count_file(const struct vp_token_reader *reader,
                                 int32_t begin, struct counts *counts,
                                 struct vp_err *err)
{
    int64_t n_tokens = vp_token_reader_info(reader)->n_tokens;
    struct data_progress progress;
    static int32_t ids[CHUNK];
    enum vp_status st = VP_OK;

    data_progress_begin(&progress, "reading");
    for (int64_t first = 0; st == VP_OK && first < n_tokens; first += CHUNK) {
        int64_t n = n_tokens - first < CHUNK ? n_tokens - first : CHUNK;

        st = vp_token_reader_read(reader, first, n, ids, err);
        if (st == VP_OK)
            count(counts, ids, n, begin);
        if (!data_progress_show(&progress, (double)first / (double)n_tokens,
                                first))
            st = vp_err_set(err, VP_ERR_INTERRUPTED, "stopped by a signal");
    }
    data_progress_end(&progress);
    return st;
}

/* Returns the length of the document at ids[0]: up to the next `begin`, at most
 * `n`. */
static int64_t end_of(const int32_t *ids, int64_t n, int32_t begin)
{
    for (int64_t i = 1; i < n; i++)
        if (ids[i] == begin)
            return i;
    return n;
}

/* Moves *at to the next id that begins a document. */
static enum vp_status skip_to_begin(const struct vp_token_reader *reader,
                                    int32_t begin, int64_t *at,
                                    struct vp_err *err)
{
    int64_t n_tokens = vp_token_reader_info(reader)->n_tokens;
    int32_t ids[256];

    while (*at < n_tokens) {
        int64_t n = n_tokens - *at < 256 ? n_tokens - *at : 256;

        VP_TRY(vp_token_reader_read(reader, *at, n, ids, err));
        for (int64_t i = 0; i < n; i++)
            if (ids[i] == begin) {
                *at += i;
                return VP_OK;
            }
        *at += n;
    }
    return VP_OK;
}

/* Prints sample `i`, which begins at *at, and moves *at to the next sample. */
static enum vp_status print_sample(const struct vp_tokenizer *tokenizer,
                                   const struct vp_token_reader *reader,
                                   int32_t begin, int64_t i, int64_t *at,
                                   struct vp_err *err)
{
    const struct vp_token_info *info = vp_token_reader_info(reader);
    int64_t end = *at + INSPECT_TOKENS + 1, n;
    int32_t ids[INSPECT_TOKENS + 1];

    if (info->n_documents >= 0)
        VP_TRY(vp_token_reader_document(reader, i + 1, &end, err));
    if (end < *at || end > info->n_tokens)
        end = info->n_tokens;
    n = end - *at <= INSPECT_TOKENS ? end - *at : INSPECT_TOKENS + 1;
    VP_TRY(vp_token_reader_read(reader, *at, n, ids, err));
    if (info->n_documents < 0 && begin >= 0)
        n = end_of(ids, n, begin);
    printf("%-11s ", i == 0 ? "samples" : "");
    VP_TRY(inspect_print_ids(tokenizer, ids,
                             n < INSPECT_TOKENS ? n : INSPECT_TOKENS,
                             n > INSPECT_TOKENS, err));
    *at += n < INSPECT_TOKENS ? n : INSPECT_TOKENS;
    if (info->n_documents >= 0)
        *at = end;
    else if (begin >= 0)
        return skip_to_begin(reader, begin, at, err);
    return VP_OK;
}

static enum vp_status print_tokens(const struct inspect_options *options,
                                   const struct vp_tokenizer *tokenizer,
                                   const struct vp_token_reader *reader,
                                   struct counts *counts, struct vp_err *err)
{
    const struct vp_token_info *info = vp_token_reader_info(reader);
    int32_t begin = tokenizer ? vp_corpus_begin_of(tokenizer) : -1;
    int64_t n_documents = info->n_documents, at = 0;

    VP_TRY(count_file(reader, begin, counts, err));
    if (n_documents < 0 && begin >= 0)
        n_documents = counts->n_begins;
    printf("%-11s %s, token ids of %s\n", "format",
           vp_data_format_name((int)info->format), info->item);
    printf("%-11s %" PRId64 "\n", "tokens", info->n_tokens);
    if (n_documents >= 0)
        printf("%-11s %" PRId64 "\n", "documents", n_documents);
    printf("%-11s %" PRId64 " different ids, the largest is %" PRId32 "\n",
           "vocabulary", counts->n_used, counts->largest);
    if (tokenizer && counts->largest >= vp_tokenizer_size(tokenizer))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: holds id %" PRId32 ", but the tokenizer has %d "
                          "ids; give the one that the file was made with",
                          options->file, counts->largest,
                          vp_tokenizer_size(tokenizer));
    for (int64_t i = 0; i < options->n_samples && at < info->n_tokens; i++)
        VP_TRY(print_sample(tokenizer, reader, begin, i, &at, err));
    return VP_OK;
}

/* ---- Text --------------------------------------------------------------- */

static enum vp_status print_documents(const struct inspect_options *options,
                                      struct vp_document_reader *reader,
                                      struct vp_err *err)
{
    int64_t n_documents = 0, n_bytes = 0;
    const struct vp_document_block *block;
    enum vp_status st;

    printf("%-11s text\n", "format");
    while ((st = vp_document_reader_next(reader, &block, err)) == VP_OK) {
        for (int i = 0; i < block->n; i++) {
            n_bytes += (int64_t)block->spans[i].n_bytes;
            if (!block->begins[i])
                continue;
            if (n_documents < options->n_samples) {
                printf("%-11s ", n_documents == 0 ? "samples" : "");
                inspect_print_text(block->spans[i].bytes,
                                   block->spans[i].n_bytes);
            }
            n_documents++;
        }
        if (*signals_stop())
            return vp_err_set(err, VP_ERR_INTERRUPTED, "stopped by a signal");
    }
    if (st != VP_ERR_END)
        return st;
    printf("%-11s %" PRId64 "\n", "documents", n_documents);
    printf("%-11s %" PRId64 " in UTF-8\n", "bytes", n_bytes);
    return VP_OK;
}

static enum vp_status inspect_text(const struct inspect_options *options,
                                   struct vp_err *err)
{
    struct vp_document_options how = { .text_key = options->text_key,
                                       .replace = false };
    struct vp_document_reader *reader;
    enum vp_status st;

    VP_TRY(vp_document_reader_open(options->file, NULL, &how, &reader, err));
    st = print_documents(options, reader, err);
    vp_document_reader_close(reader);
    return st;
}

/* ---- Any file ----------------------------------------------------------- */

static enum vp_status inspect_tokens(const struct inspect_options *options,
                                     const struct vp_tokenizer *tokenizer,
                                     struct vp_err *err)
{
    struct counts counts = { .used = calloc(MAX_VOCAB, 1), .largest = -1 };
    struct vp_token_reader *reader;
    enum vp_status st = VP_ERR_NOMEM;

    if (counts.used)
        st = vp_token_reader_open(options->file, options->format, &reader, err);
    if (st == VP_OK) {
        st = print_tokens(options, tokenizer, reader, &counts, err);
        vp_token_reader_close(reader);
    }
    free(counts.used);
    return st;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);

    return n > n_end && strcmp(name + n - n_end, end) == 0;
}

static bool is_pairs(const struct inspect_options *options)
{
    return options->target || options->lang[0] ||
           ends_in(options->file, ".tsv") ||
           ends_in(options->file, ".tsv.gz") ||
           ends_in(options->file, ".tsv.zst");
}

static enum vp_status print_file(const struct inspect_options *options,
                                 enum vp_data_format format,
                                 const struct vp_tokenizer *tokenizer,
                                 struct vp_err *err)
{
    switch (format) {
    case VP_FORMAT_TEXT:
        return is_pairs(options) ? inspect_pairs(options, err)
                                 : inspect_text(options, err);
    case VP_FORMAT_HDF5:
        return inspect_shard(options, tokenizer, err);
    case VP_FORMAT_CHID:
        return inspect_chid(options, tokenizer, err);
    default:
        return inspect_tokens(options, tokenizer, err);
    }
}

static enum vp_status inspect(const struct inspect_options *options,
                              struct vp_err *err)
{
    enum vp_data_format format = options->format;
    struct vp_tokenizer *tokenizer = NULL;
    char remedy[VP_PATH_REMEDY_BYTES];
    enum vp_status st = VP_OK;

    if (access(options->file, R_OK) != 0)
        return vp_err_set(
            err, VP_ERR_IO, "%s: cannot be read: %s; %s", options->file,
            strerror(errno),
            vp_path_remedy(options->file, "check the path", remedy));
    if (options->tokenizer_path)
        VP_TRY(vp_tokenizer_open(options->tokenizer_path, &tokenizer, err));
    if (options->target)
        format = VP_FORMAT_TEXT;
    else if (format == VP_FORMAT_AUTO)
        st = vp_data_format_of(options->file, &format, err);
    if (st == VP_OK)
        st = print_file(options, format, tokenizer, err);
    vp_tokenizer_free(tokenizer);
    return st;
}

int data_inspect(int argc, char **argv)
{
    struct inspect_options options = { .n_samples = 3 };
    struct vp_err err = { .text = "" };
    int status = read_args(argc, argv, &options);
    enum vp_status st;

    if (status != TOOL_OK)
        return status;
    if (options.help) {
        tool_print(stdout, help_width(stdout), 0,
                   "Prints format, counts and the first documents or samples "
                   "of a file of tokens, text, pairs, BERT shards or CHID.\n\n"
                   "usage: vpipe data inspect FILE [--tokenizer DIR] [-n "
                   "N]\n"
                   "       vpipe data inspect train.de train.en\n\n");
        help_flags(flags, N_FLAGS);
        return TOOL_OK;
    }
    signals_catch(SIGNALS_OF_ONE);
    st = inspect(&options, &err);
    return st == VP_OK ? TOOL_OK : data_fail(command, st, &err);
}
