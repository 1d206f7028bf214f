/* The byte-level text source: each byte of UTF-8 text is a token.
 *
 * Windows are cut from the concatenated files. Pairs are made from lines: the
 * source side is the words of a line joined by single spaces, the target side
 * the same words in reverse order with a-z in upper case.
 *
 * The text is in memory, or is read from the file config->text_bytes. */
#include "data/file_set.h"
#include "data/source.h"
#include "data/walk.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    N_BYTES = 256,
    VOCAB = VP_TOKEN_FIRST + N_BYTES,
    SURVEY_BYTES = 64 << 20, /* bytes of text_bytes to count labels in */
    MAX_LINE = 1024,         /* longer lines are data rather than text */
    MIN_WORDS = 2,           /* shorter lines have no order to learn */
};

struct line {
    int64_t offset;
    int64_t n_bytes; /* with all its spaces */
};

struct text_state {
    struct vp_text text;
    struct vp_data_window window;
    struct line *lines;      /* pairs only */
    struct vp_file_set *set; /* its only file has the text; NULL: the text is
                                in text.bytes */
};

/* Not isspace() and toupper(), which depend on the locale. */
static bool is_space(unsigned char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static unsigned char upper(unsigned char byte)
{
    return byte >= 'a' && byte <= 'z' ? (unsigned char)(byte - 32) : byte;
}

static int count_words(const unsigned char *bytes, int64_t n)
{
    int n_words = 0;

    for (int64_t i = 0; i < n; i++)
        n_words += !is_space(bytes[i]) && (i == 0 || is_space(bytes[i - 1]));
    return n_words;
}

/* Returns the number of lines that can be pairs; stores them if `lines` is not
 * NULL. */
static int64_t find_lines(const struct vp_text *text, struct line *lines)
{
    int64_t n_lines = 0, start = 0;

    for (int64_t end = 0; end < text->n_bytes; end++) {
        if (text->bytes[end] != '\n')
            continue;
        if (end - start <= MAX_LINE &&
            count_words(text->bytes + start, end - start) >= MIN_WORDS) {
            if (lines)
                lines[n_lines] = (struct line){ start, end - start };
            n_lines++;
        }
        start = end + 1;
    }
    return n_lines;
}

static enum vp_status open_pairs(const char *path, struct text_state *state,
                                 struct vp_source *source, struct vp_err *err)
{
    int64_t n = find_lines(&state->text, NULL);

    if (n == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: no line has %d words and at most %d bytes; set "
                          "data_dir to text with such lines",
                          path, MIN_WORDS, MAX_LINE);
    state->lines = calloc((size_t)n, sizeof(*state->lines));
    if (!state->lines)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: no memory for %lld lines",
                          path, (long long)n);
    source->n_samples = find_lines(&state->text, state->lines);
    source->max_pair = MAX_LINE;
    return VP_OK;
}

static enum vp_status open_windows(const char *path, struct text_state *state,
                                   struct vp_source *source, struct vp_err *err)
{
    const struct vp_data_window *window = &state->window;
    int64_t n_bytes = state->text.n_bytes;

    if (n_bytes < window->length)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: %lld bytes of text do not fill one window of "
                          "%lld; add text or lower seq_length",
                          path, (long long)n_bytes, (long long)window->length);
    source->n_samples = (n_bytes - window->length) / window->stride + 1;
    return VP_OK;
}

static void text_close(struct vp_source *source)
{
    struct text_state *state = source->state;

    vp_text_release(&state->text);
    vp_file_set_free(state->set);
    free(state->lines);
    free(state);
}

static enum vp_status check_vocab(const struct vp_data_config *config,
                                  struct vp_err *err)
{
    if (config->vocab == 0 || config->vocab >= VOCAB)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: vocab is %lld, but text needs %d ids (256 bytes "
                      "and %d special ones); set vocab to %d or more",
                      config->vocab_place ? config->vocab_place : "data",
                      (long long)config->vocab, VOCAB, VP_TOKEN_FIRST, VOCAB);
}

/* Adds a notice about the files below `path` that were taken and skipped. */
static void note_files(const char *path, const struct vp_text *text,
                       struct vp_source *source)
{
    const struct vp_skipped *skipped = &text->skipped;
    char empty[48] = "", kinds[256];

    if (text->n_empty > 0)
        snprintf(empty, sizeof(empty), ", %d of them empty", text->n_empty);
    vp_skipped_print(skipped, kinds, sizeof(kinds));
    if (skipped->n_files > 0)
        vp_source_notice(source,
                         "%.400s: %d file%s taken as text%s; not taken: %s; "
                         "from a folder vpipe takes %s%s",
                         path, text->n_files, text->n_files == 1 ? "" : "s",
                         empty, kinds, vp_text_extensions,
                         vp_skipped_count(skipped, ".hdf5") +
                                     vp_skipped_count(skipped, ".h5") >
                                 0
                             ? ", or shards named *training*.hdf5 or "
                               "*training*.h5 directly in it"
                             : "");
    else if (text->n_empty > 0)
        vp_source_notice(source, "%.400s: %d file%s taken as text%s", path,
                         text->n_files, text->n_files == 1 ? "" : "s", empty);
}

static void add_notices(const struct vp_data_config *config,
                        const struct text_state *state,
                        struct vp_source *source)
{
    const struct vp_text *text = &state->text;

    note_files(config->path, text, source);
    if (text->n_files == 1 &&
        vp_text_has_extension(config->path, ".json .csv .tsv .html .xml"))
        vp_source_notice(source,
                         "%.400s: is read as plain text, its markup included; "
                         "vpipe has no reader for this format",
                         config->path);
    if (text->n_replaced > 0)
        vp_source_notice(
            source,
            "invalid_utf8 is replace: U+FFFD replaces "
            "%lld NUL byte%s or invalid UTF-8 sequence%s in %d "
            "file%s, the first in %s",
            (long long)text->n_replaced, text->n_replaced == 1 ? "" : "s",
            text->n_replaced == 1 ? "" : "s", text->n_replaced_files,
            text->n_replaced_files == 1 ? "" : "s", text->first_replaced);
    if (state->window.length == 0)
        vp_source_notice(source,
                         "%.400s: the target of each line is made up from it "
                         "(its words in reverse order, a-z in upper case): an "
                         "exercise, not a translation data set; lines with "
                         "fewer than %d words or more than %d bytes are left "
                         "out",
                         config->path, MIN_WORDS, MAX_LINE);
}

/* Opens windows of config->text_bytes. */
static enum vp_status open_bytes(const struct vp_data_config *config,
                                 struct text_state *state,
                                 struct vp_source *source, struct vp_err *err)
{
    int file;

    state->set = vp_file_set_create();
    if (!state->set)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", config->path);
    VP_TRY(vp_file_set_add(state->set, config->text_bytes, &file, err));
    state->text.n_bytes = vp_file_set_bytes(state->set, file);
    source->n_survey = SURVEY_BYTES / state->window.stride;
    VP_TRY(check_vocab(config, err));
    return open_windows(config->path, state, source, err);
}

static enum vp_status open_samples(const struct vp_data_config *config,
                                   struct text_state *state,
                                   struct vp_source *source, struct vp_err *err)
{
    char kinds[256];
    enum vp_status st;

    if (config->text_bytes && state->window.length > 0)
        return open_bytes(config, state, source, err);
    VP_TRY(vp_text_read_key(config->path, config->replace_invalid,
                            config->text_key, &state->text, err));
    VP_TRY(check_vocab(config, err));
    st = state->window.length == 0
             ? open_pairs(config->path, state, source, err)
             : open_windows(config->path, state, source, err);
    /* Too little text: the intended files may be among the skipped ones. */
    if (st == VP_ERR_INVALID && err && state->text.skipped.n_files > 0) {
        vp_skipped_print(&state->text.skipped, kinds, sizeof(kinds));
        vp_err_suffix(err, "; not taken: %s", kinds);
    }
    return st;
}

static enum vp_status text_open(const struct vp_data_config *config,
                                const struct vp_data_window *window,
                                struct vp_source *source, struct vp_err *err)
{
    struct text_state *state;
    enum vp_status st;

    if (!config->path)
        return vp_err_set(err, VP_ERR_INVALID,
                          "no text is given; set data_dir to a file or folder, "
                          "or synthetic_data to true");
    state = calloc(1, sizeof(*state));
    if (!state)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", config->path);
    state->window = *window;
    source->state = state;
    st = open_samples(config, state, source, err);
    if (st != VP_OK) {
        text_close(source);
        return st;
    }
    source->vocab = VOCAB;
    if (state->set) {
        snprintf(source->what, sizeof(source->what), "text: %lld kB",
                 (long long)((state->text.n_bytes + 999) / 1000));
        return VP_OK;
    }
    snprintf(source->what, sizeof(source->what), "text: %d file%s, %lld kB",
             state->text.n_files, state->text.n_files == 1 ? "" : "s",
             (long long)((state->text.n_bytes + 999) / 1000));
    add_notices(config, state, source);
    return VP_OK;
}

static enum vp_status text_window(const struct vp_source *source, int64_t i,
                                  int32_t *ids_out, struct vp_err *err)
{
    const struct text_state *state = source->state;
    const unsigned char *bytes = state->text.bytes + i * state->window.stride;
    int64_t n = state->window.length;

    if (state->set) {
        /* Read to the end of ids_out: the loop below reads byte t before an id
         * overwrites it. */
        unsigned char *end = (unsigned char *)ids_out + 3 * n;

        VP_TRY(vp_file_set_read(state->set, 0, i * state->window.stride, n, end,
                                err));
        bytes = end;
    }
    for (int64_t t = 0; t < n; t++)
        ids_out[t] = VP_TOKEN_FIRST + bytes[t];
    return VP_OK;
}

/* Writes the words of a line joined by single spaces. Returns the length. */
static int64_t join_words(const unsigned char *bytes, int64_t n, int32_t *out)
{
    int64_t n_out = 0;

    for (int64_t i = 0; i < n; i++) {
        if (is_space(bytes[i]))
            continue;
        if (n_out > 0 && is_space(bytes[i - 1]))
            out[n_out++] = VP_TOKEN_FIRST + ' ';
        out[n_out++] = VP_TOKEN_FIRST + bytes[i];
    }
    return n_out;
}

/* Writes the joined words `src` in reverse order and upper case, `n` ids. */
static void reverse_words(const int32_t *src, int64_t n, int32_t *out)
{
    int64_t begin = 0;

    while (begin < n) {
        int64_t end = begin;
        int32_t *to;

        while (end < n && src[end] != VP_TOKEN_FIRST + ' ')
            end++;
        /* The words before this one come after it. */
        to = out + n - end;
        for (int64_t i = begin; i < end; i++)
            *to++ = VP_TOKEN_FIRST +
                    upper((unsigned char)(src[i] - VP_TOKEN_FIRST));
        if (begin > 0)
            *to = VP_TOKEN_FIRST + ' ';
        begin = end + 1;
    }
}

static enum vp_status text_pair(const struct vp_source *source, int64_t i,
                                int32_t *src_out, int64_t *n_src_out,
                                int32_t *tgt_out, int64_t *n_tgt_out,
                                struct vp_err *err)
{
    const struct text_state *state = source->state;
    const struct line *line = &state->lines[i];
    int64_t n;

    (void)err; /* the text is in memory */
    n = join_words(state->text.bytes + line->offset, line->n_bytes, src_out);
    reverse_words(src_out, n, tgt_out);
    *n_src_out = n;
    *n_tgt_out = n;
    return VP_OK;
}

const struct vp_source_ops vp_source_text = {
    .name = "text",
    .open = text_open,
    .close = text_close,
    .window = text_window,
    .pair = text_pair,
};
