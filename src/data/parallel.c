/* Reads parallel text (two files, TSV or JSONL) into memory and serves its
 * pairs. */
#include "data/parallel.h"

#include "data/jsonl.h"
#include "data/languages.h"
#include "data/source.h"
#include "data/split_name.h"
#include "data/walk.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VOCAB = VP_TOKEN_FIRST + 256 };

/* Offset and length of one side of a pair in its text. */
struct span {
    int64_t at, n;
};

struct parallel_state {
    struct vp_text text[2];
    struct span *side[2]; /* [n_pairs] each; both refer to text[0] if a file
                             holds both languages */
    int64_t n_pairs, capacity;
    int64_t n_empty; /* pairs left out because one side is empty */
    int64_t longest; /* bytes of the longest side */
    struct vp_languages languages;
};

/* ---- Names -------------------------------------------------------------- */

static bool has_stem(const char *name, const char *stem)
{
    size_t n = strlen(stem);

    return strncmp(name, stem, n) == 0 && name[n] == '.';
}

/* Parses "<stem>.<language>" and writes the language: two or three letters,
 * optionally more after '_' or '-'. Returns false for other names and for
 * common file extensions. */
static bool cut_language(const char *name, const char *stem,
                         char out[VP_LANGUAGE_NAME])
{
    const char *lang = name + strlen(stem) + 1;
    size_t n = 0, n_lang;

    if (!has_stem(name, stem))
        return false;
    n_lang = vp_text_stem(name) - (size_t)(lang - name);
    while (n < n_lang && lang[n] >= 'a' && lang[n] <= 'z')
        n++;
    if (n < 2 || n > 3 || n_lang >= VP_LANGUAGE_NAME ||
        (n < n_lang && lang[n] != '_' && lang[n] != '-') ||
        memchr(lang, '.', n_lang) ||
        vp_text_has_extension(name, ".py .md .sh .txt .yml .bin .idx .csv .tsv "
                                    ".xml .log .pkl .pt .gz .zst .npy .png"))
        return false;
    snprintf(out, VP_LANGUAGE_NAME, "%.*s", (int)n_lang, lang);
    return true;
}

bool vp_parallel_is_file(const char *name)
{
    return vp_text_is_jsonl(name) || vp_text_has_extension(name, ".tsv");
}

bool vp_parallel_is_in(const struct vp_names *names)
{
    char lang[VP_LANGUAGE_NAME], first[VP_LANGUAGE_NAME] = "";

    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->name[i];

        if (vp_parallel_is_file(name) ||
            (has_stem(name, "train") && vp_languages_is_name(name, "")))
            return true;
        if (!cut_language(name, "train", lang))
            continue;
        if (first[0] && strcmp(first, lang) != 0)
            return true;
        snprintf(first, sizeof(first), "%s", lang);
    }
    return false;
}

/* ---- Pairs -------------------------------------------------------------- */

static enum vp_status add_pair(struct parallel_state *state, const char *path,
                               struct span source, struct span target,
                               struct vp_err *err)
{
    if (source.n == 0 || target.n == 0) {
        state->n_empty++;
        return VP_OK;
    }
    if (state->n_pairs == state->capacity) {
        int64_t capacity = state->capacity ? 2 * state->capacity : 1024;

        for (int side = 0; side < 2; side++) {
            struct span *grown = realloc(state->side[side],
                                         (size_t)capacity * sizeof(*grown));

            if (!grown)
                return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
            state->side[side] = grown;
        }
        state->capacity = capacity;
    }
    state->side[0][state->n_pairs] = source;
    state->side[1][state->n_pairs++] = target;
    if (source.n > state->longest)
        state->longest = source.n;
    if (target.n > state->longest)
        state->longest = target.n;
    return VP_OK;
}

/* Finds the line at *at, without its line end, and advances *at. Returns false
 * after the last line. */
static bool next_line(const struct vp_text *text, int64_t *at, struct span *out)
{
    const unsigned char *newline;

    if (*at >= text->n_bytes)
        return false;
    newline = memchr(text->bytes + *at, '\n', (size_t)(text->n_bytes - *at));
    *out = (struct span){ *at, newline - (text->bytes + *at) };
    *at += out->n + 1;
    if (out->n > 0 && text->bytes[out->at + out->n - 1] == '\r')
        out->n--;
    return true;
}

static enum vp_status read_text(const struct vp_data_config *config,
                                const char *path, struct vp_text *text,
                                struct vp_err *err)
{
    return vp_text_append(text, path, 0, config->replace_invalid, err);
}

static int64_t count_lines(const struct vp_text *text)
{
    int64_t n = 0;

    for (int64_t i = 0; i < text->n_bytes; i++)
        n += text->bytes[i] == '\n';
    return n;
}

static enum vp_status read_two(const struct vp_data_config *config,
                               const char *const path[2],
                               struct parallel_state *state, struct vp_err *err)
{
    int64_t at[2] = { 0, 0 };
    struct span span[2] = { { 0, 0 }, { 0, 0 } };

    for (int side = 0; side < 2; side++)
        VP_TRY(read_text(config, path[side], &state->text[side], err));
    if (count_lines(&state->text[0]) != count_lines(&state->text[1]))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: has %lld lines, but %s has %lld; line i of both "
                          "must be a pair; correct the files",
                          path[0], (long long)count_lines(&state->text[0]),
                          path[1], (long long)count_lines(&state->text[1]));
    while (next_line(&state->text[0], &at[0], &span[0]) &&
           next_line(&state->text[1], &at[1], &span[1]))
        VP_TRY(add_pair(state, path[0], span[0], span[1], err));
    return VP_OK;
}

static enum vp_status read_tsv(const char *path, struct parallel_state *state,
                               struct vp_err *err)
{
    struct vp_text *text = &state->text[0];
    struct span line;
    int64_t at = 0;

    for (long long number = 1; next_line(text, &at, &line); number++) {
        const unsigned char *bytes = text->bytes + line.at;
        const unsigned char *tab = memchr(bytes, '\t', (size_t)line.n);
        int64_t n = tab ? tab - bytes : 0;

        if (line.n == 0)
            continue;
        if (!tab || memchr(tab + 1, '\t', (size_t)(line.n - n - 1)))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: offset %lld (line %lld): does not hold two "
                              "columns with one tab between them; correct the "
                              "line",
                              path, (long long)line.at, number);
        VP_TRY(add_pair(state, path, (struct span){ line.at, n },
                        (struct span){ line.at + n + 1, line.n - n - 1 }, err));
    }
    return VP_OK;
}

static enum vp_status refuse_json(const char *path, const struct span *line,
                                  long long number, const char *lang,
                                  const struct vp_jsonl_fault *fault,
                                  struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: offset %lld (line %lld): %s ('%s'); correct the "
                      "line, or change source_lang and target_lang",
                      path, (long long)(line->at + (int64_t)fault->at), number,
                      fault->cause, lang);
}

/* Finds the strings of both languages in a line, then unescapes each in place:
 * escapes are never shorter than their characters. */
static enum vp_status take_line(const struct vp_data_config *config,
                                const char *path, struct vp_text *text,
                                const struct span *line, long long number,
                                struct span out[2], struct vp_err *err)
{
    const char *const langs[] = { config->source_lang, config->target_lang };
    unsigned char *bytes = text->bytes + line->at;
    struct vp_jsonl_fault fault, other;
    size_t at[2], n[2];

    for (int side = 0; side < 2; side++) {
        const char *const keys[] = { "translation", langs[side] };

        if (!vp_jsonl_find(bytes, (size_t)line->n, keys, 2, &at[side], &n[side],
                           &fault) &&
            !vp_jsonl_find(bytes, (size_t)line->n, keys + 1, 1, &at[side],
                           &n[side], &other))
            return refuse_json(path, line, number, langs[side], &fault, err);
    }
    for (int side = 0; side < 2; side++) {
        if (!vp_jsonl_unescape(bytes + at[side], n[side],
                               config->replace_invalid, bytes + at[side],
                               &n[side], &fault)) {
            fault.at += at[side];
            return refuse_json(path, line, number, langs[side], &fault, err);
        }
        out[side] = (struct span){ line->at + (int64_t)at[side],
                                   (int64_t)n[side] };
    }
    return VP_OK;
}

static enum vp_status read_jsonl(const struct vp_data_config *config,
                                 const char *path, struct parallel_state *state,
                                 struct vp_err *err)
{
    struct vp_text *text = &state->text[0];
    struct span line, side[2] = { { 0, 0 }, { 0, 0 } };
    int64_t at = 0;

    for (long long number = 1; next_line(text, &at, &line); number++) {
        if (line.n == 0)
            continue;
        VP_TRY(take_line(config, path, text, &line, number, side, err));
        VP_TRY(add_pair(state, path, side[0], side[1], err));
    }
    return VP_OK;
}

/* ---- Which files -------------------------------------------------------- */

static enum vp_status need_languages(const struct vp_data_config *config,
                                     const char *path, struct vp_err *err)
{
    bool both = config->source_lang && config->target_lang;

    /* A string cannot be both sides, because it is unescaped in place. */
    if (both && strcmp(config->source_lang, config->target_lang) == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: source_lang and target_lang are both '%s'; set "
                          "them to two languages",
                          path, config->source_lang);
    if (both)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: does not define the direction of the translation; "
                      "set source_lang and target_lang",
                      path);
}

static enum vp_status read_file(const struct vp_data_config *config,
                                const char *path, struct parallel_state *state,
                                struct vp_err *err)
{
    struct vp_text *text = &state->text[0];

    if (!vp_text_is_jsonl(path)) {
        VP_TRY(read_text(config, path, text, err));
        return read_tsv(path, state, err);
    }
    VP_TRY(need_languages(config, path, err));
    text->keep_json = true;
    VP_TRY(read_text(config, path, text, err));
    return read_jsonl(config, path, state, err);
}

/* Finds the file whose name is `begin`, or `begin` with .gz or .zst; "" if
 * there is none. */
static void find_name(const struct vp_names *names, const char *begin,
                      char out[PATH_MAX])
{
    out[0] = '\0';
    for (size_t i = 0; i < names->n; i++)
        if (vp_text_stem(names->name[i]) == strlen(begin) &&
            strncmp(names->name[i], begin, strlen(begin)) == 0)
            snprintf(out, PATH_MAX, "%s", names->name[i]);
}

/* Finds the files of both languages with the stem `split`. Returns false if one
 * is missing. */
static bool find_two(const struct vp_names *names,
                     const struct vp_languages *languages, const char *split,
                     char out[2][PATH_MAX])
{
    for (int side = 0; side < 2; side++) {
        const char *lang = side == 0 ? languages->source : languages->target;
        char begin[PATH_MAX];

        snprintf(begin, sizeof(begin), "%.100s.%s", split, lang);
        find_name(names, begin, out[side]);
        snprintf(begin, sizeof(begin), "%.100s.%s.%s", split, languages->pair,
                 lang);
        if (!out[side][0])
            find_name(names, begin, out[side]);
    }
    return out[0][0] && out[1][0];
}

/* Finds the languages of files <split>.<a>-<b>.<language>, or else uses the
 * configured ones. */
static enum vp_status find_languages(const struct vp_data_config *config,
                                     const struct vp_names *names,
                                     struct vp_languages *out,
                                     struct vp_err *err)
{
    if (vp_languages_find(config, names, "", out, NULL) == VP_OK)
        return VP_OK;
    VP_TRY(need_languages(config, config->path, err));
    snprintf(out->source, sizeof(out->source), "%s", config->source_lang);
    snprintf(out->target, sizeof(out->target), "%s", config->target_lang);
    snprintf(out->pair, sizeof(out->pair), "%s-%s", out->source, out->target);
    return VP_OK;
}

/* Finds the file of `split` that holds both languages; "" if there is none. */
static enum vp_status find_both(const struct vp_data_config *config,
                                const struct vp_names *names,
                                enum vp_split_name split, char out[PATH_MAX],
                                struct vp_err *err)
{
    out[0] = '\0';
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->name[i];

        if (!vp_parallel_is_file(name) ||
            vp_split_by_name(name, config->valid_split) != split)
            continue;
        if (out[0])
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: %s and %s are both for %s; set data_dir to "
                              "one file, or valid_split",
                              config->path, out, name,
                              split == VP_NAME_VALID ? "evaluation"
                                                     : "training");
        snprintf(out, PATH_MAX, "%s", name);
    }
    return VP_OK;
}

static enum vp_status read_both(const struct vp_data_config *config,
                                const struct vp_names *names,
                                struct parallel_state *state, bool *is_split,
                                struct vp_err *err)
{
    char valid[PATH_MAX], train[PATH_MAX], path[2 * PATH_MAX];

    VP_TRY(find_both(config, names, VP_NAME_VALID, valid, err));
    VP_TRY(find_both(config, names, VP_NAME_TRAIN, train, err));
    *is_split = valid[0];
    if (!train[0])
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: no file for training among those with pairs; "
                          "name one train.*, or set data_dir to it",
                          config->path);
    snprintf(path, sizeof(path), "%s/%s", config->path,
             config->split == VP_DATA_EVAL && *is_split ? valid : train);
    return read_file(config, path, state, err);
}

static enum vp_status read_folder(const struct vp_data_config *config,
                                  const struct vp_names *names,
                                  struct parallel_state *state, bool *is_split,
                                  struct vp_err *err)
{
    static const char *const usual[] = { "valid", "val", "validation", "dev",
                                         NULL };
    const char *const given[] = { config->valid_split, NULL };
    const char *const *valid = config->valid_split ? given : usual;
    char found[2][PATH_MAX], path[2][2 * PATH_MAX];
    struct vp_languages *languages = &state->languages;
    bool any = false;

    for (size_t i = 0; i < names->n; i++)
        any = any || vp_parallel_is_file(names->name[i]);
    if (any)
        return read_both(config, names, state, is_split, err);
    VP_TRY(find_languages(config, names, languages, err));
    while (*valid && !find_two(names, languages, *valid, found))
        valid++;
    *is_split = *valid;
    if (!(config->split == VP_DATA_EVAL && *is_split) &&
        !find_two(names, languages, "train", found))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: train.%s or train.%s is missing; change "
                          "source_lang and target_lang, or add the file",
                          config->path, languages->source, languages->target);
    for (int side = 0; side < 2; side++)
        snprintf(path[side], sizeof(path[side]), "%s/%s", config->path,
                 found[side]);
    return read_two(config, (const char *const[]){ path[0], path[1] }, state,
                    err);
}

static enum vp_status read_all(const struct vp_data_config *config,
                               struct parallel_state *state, bool *is_split,
                               struct vp_err *err)
{
    struct vp_names names = { 0 };
    struct stat info;
    enum vp_status st;

    if (stat(config->path, &info) == 0 && !S_ISDIR(info.st_mode))
        return read_file(config, config->path, state, err);
    st = vp_names_read(config->path, &names, err);
    if (st == VP_OK)
        st = read_folder(config, &names, state, is_split, err);
    vp_names_release(&names);
    return st;
}

/* ---- The source --------------------------------------------------------- */

static void parallel_close(struct vp_source *source)
{
    struct parallel_state *state = source->state;

    for (int side = 0; side < 2; side++) {
        vp_text_release(&state->text[side]);
        free(state->side[side]);
    }
    free(state);
}

static enum vp_status check_use(const struct vp_data_config *config,
                                struct vp_err *err)
{
    if (!config->path || config->task != VP_DATA_PAIRS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: parallel text is for translation; set "
                          "model_type to translation, or data_dir to other "
                          "data",
                          config->path ? config->path : "data");
    if (config->vocab > 0 && config->vocab < VOCAB)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: vocab is %lld, but text needs %d ids (256 bytes "
                          "and %d special ones); set vocab to %d or more",
                          config->vocab_place ? config->vocab_place : "data",
                          (long long)config->vocab, VOCAB, VP_TOKEN_FIRST,
                          VOCAB);
    return VP_OK;
}

static enum vp_status parallel_open(const struct vp_data_config *config,
                                    const struct vp_data_window *window,
                                    struct vp_source *source,
                                    struct vp_err *err)
{
    struct parallel_state *state;
    enum vp_status st;

    (void)window;
    VP_TRY(check_use(config, err));
    state = calloc(1, sizeof(*state));
    if (!state)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", config->path);
    source->state = state;
    st = read_all(config, state, &source->is_split, err);
    if (st == VP_OK && state->n_pairs == 0)
        st = vp_err_set(err, VP_ERR_INVALID,
                        "%s: holds no pair; set data_dir to other files",
                        config->path);
    if (st != VP_OK) {
        parallel_close(source);
        return st;
    }
    source->n_samples = state->n_pairs;
    source->vocab = VOCAB;
    source->max_pair = state->longest;
    source->by_length = true;
    snprintf(source->what, sizeof(source->what),
             "parallel text: %lld pairs of lines", (long long)state->n_pairs);
    if (state->n_empty > 0)
        vp_source_notice(source,
                         "%.400s: %lld pairs with an empty side are left out",
                         config->path, (long long)state->n_empty);
    return VP_OK;
}

static enum vp_status parallel_pair(const struct vp_source *source, int64_t i,
                                    int32_t *src_out, int64_t *n_src_out,
                                    int32_t *tgt_out, int64_t *n_tgt_out,
                                    struct vp_err *err)
{
    const struct parallel_state *state = source->state;
    int32_t *out[2] = { src_out, tgt_out };

    (void)err; /* the text is in memory */
    for (int side = 0; side < 2; side++) {
        const struct span *span = &state->side[side][i];
        const struct vp_text *text =
            &state->text[state->text[1].bytes ? side : 0];

        for (int64_t t = 0; t < span->n; t++)
            out[side][t] = VP_TOKEN_FIRST + text->bytes[span->at + t];
    }
    *n_src_out = state->side[0][i].n;
    *n_tgt_out = state->side[1][i].n;
    return VP_OK;
}

static enum vp_status parallel_lengths(const struct vp_source *source,
                                       int64_t first, int64_t n,
                                       int64_t *n_src_out, int64_t *n_tgt_out,
                                       struct vp_err *err)
{
    const struct parallel_state *state = source->state;

    (void)err; /* the text is in memory */
    for (int64_t i = 0; i < n; i++) {
        n_src_out[i] = state->side[0][first + i].n;
        n_tgt_out[i] = state->side[1][first + i].n;
    }
    return VP_OK;
}

const struct vp_source_ops vp_source_parallel = {
    .name = "parallel text",
    .open = parallel_open,
    .close = parallel_close,
    .pair = parallel_pair,
    .lengths = parallel_lengths,
};
