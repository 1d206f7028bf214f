/* vpipe translate: translates sentences with a trained encoder-decoder
 * model. */
#include "base/value.h"
#include "decode/bleu.h"
#include "lines.h"
#include "model.h"
#include "run/model_text.h"
#include "run/translate.h"
#include "sequences.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum flag {
    FLAG_IDS,
    FLAG_BEAMS,
    FLAG_LENGTH_PENALTY,
    FLAG_MAX_TOKENS,
    FLAG_RULE,
    FLAG_FORCED_BOS,
    FLAG_REFERENCE,
    FLAG_PRINT_IDS,
    FLAG_NO_CACHE,
    FLAG_SET,
    FLAG_HELP
};
static const struct tool_flag flags[] = {
    [FLAG_IDS] = { "--ids", "LIST",
                   "a sentence of token ids, with its end: '5,17,2'; may be "
                   "repeated" },
    [FLAG_BEAMS] = { "--beams", "N",
                     "beams of the search; 1: greedy [num_beams of the model, "
                     "else 1]" },
    [FLAG_LENGTH_PENALTY] = { "--length-penalty", "P",
                              "scores are divided by length ^ P [that of the "
                              "model, else 1]" },
    [FLAG_MAX_TOKENS] = { "--max-tokens", "N",
                          "tokens of each translation, at most, its end "
                          "included [max_length of the model, else 201]" },
    [FLAG_RULE] = { "--rule", "hf|fairseq",
                    "rules of the beam search: those of transformers (hf) or "
                    "of fairseq [hf]" },
    [FLAG_FORCED_BOS] = { "--forced-bos", "ID",
                          "the first token of each translation, such as that "
                          "of a language; -1: none [forced_bos_token_id of the "
                          "model]" },
    [FLAG_REFERENCE] = { "--reference", "FILE",
                         "translations to compare with, a line for each "
                         "sentence: BLEU is printed on stderr" },
    [FLAG_PRINT_IDS] = { "--print-ids", NULL,
                         "print new ids, a line for each sentence" },
    [FLAG_NO_CACHE] = { "--no-cache", NULL,
                        "compute all positions again for each token" },
    [FLAG_SET] = { "--set", "KEY=VALUE",
                   "a key of the configuration: stages=4, batch_size=8192, "
                   "distributed_backend=mpi for stages that are processes; see "
                   "'vpipe train --help'" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_translate_options = { flags, N_FLAGS };

struct options {
    struct model model;
    const char *file, *reference;
    struct sequences sequences;
    enum vp_beam_rule rule;
    /* Values of options; n_beams and max_tokens 0, forced_bos -2: not given. */
    int64_t n_beams, max_tokens, forced_bos;
    bool has_length_penalty;
    double length_penalty;
    bool print_ids, no_cache, help;

    struct vp_translation_search search;
    struct vp_model_text *text; /* NULL: the model takes ids only */
    struct vp_strbuf line;      /* the current translation */
    char **references;          /* NULL: no --reference */
    int64_t n_references;
    struct vp_bleu_counts bleu;
    int64_t n_exact;
};

/* ---- Command line ------------------------------------------------------- */

static int take_penalty(struct options *out, const char *value)
{
    out->has_length_penalty = true;
    if (vp_text_to_real(value, &out->length_penalty))
        return TOOL_OK;
    return tool_usage_error("vpipe translate: option '--length-penalty': "
                            "'%.24s' is not a number; write for example "
                            "'--length-penalty 0.6'",
                            value);
}

static int take_rule(struct options *out, const char *value)
{
    out->rule = strcmp(value, "hf") == 0 ? VP_BEAM_HF : VP_BEAM_FAIRSEQ;
    if (out->rule == VP_BEAM_HF || strcmp(value, "fairseq") == 0)
        return TOOL_OK;
    return tool_usage_error("vpipe translate: option '--rule': '%.24s' is no "
                            "rule; write 'hf' or 'fairseq'",
                            value);
}

static int take_plain(struct options *out, const char *value)
{
    if (!out->model.path)
        return model_set_path(&out->model, value);
    if (out->file)
        return tool_usage_error("vpipe translate: two files, '%.48s' and "
                                "'%.48s'; give one",
                                out->file, value);
    out->file = value;
    return TOOL_OK;
}

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        return take_plain(out, value);
    case FLAG_IDS:
        return model_take_ids(&out->model, value, &out->sequences);
    case FLAG_BEAMS:
        return model_take_count(&out->model, "--beams", value, 1,
                                VP_BEAM_MAX_BEAMS, &out->n_beams);
    case FLAG_LENGTH_PENALTY:
        return take_penalty(out, value);
    case FLAG_MAX_TOKENS:
        return model_take_count(&out->model, "--max-tokens", value, 1,
                                INT32_MAX, &out->max_tokens);
    case FLAG_RULE:
        return take_rule(out, value);
    case FLAG_FORCED_BOS:
        return model_take_count(&out->model, "--forced-bos", value, -1,
                                INT32_MAX, &out->forced_bos);
    case FLAG_REFERENCE:
        out->reference = value;
        break;
    case FLAG_PRINT_IDS:
        out->print_ids = true;
        break;
    case FLAG_NO_CACHE:
        out->no_cache = true;
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
    tool_print(
        stdout, help_width(stdout), 0,
        "Translates sentences with a trained encoder-decoder model, the folder "
        "of a run, one of its checkpoints or a Hugging Face folder.\n\n"
        "usage: vpipe translate MODEL [FILE] [option...]\n"
        "       vpipe translate MODEL --ids LIST... [option...]\n\n"
        "Each line of FILE (none or '-': the standard input) is a sentence; "
        "token ids, if the model has neither a tokenizer nor bytes as its "
        "vocabulary. Prints a line for each, in their order, as soon as it is "
        "translated.\n\n");
    help_flags(flags, N_FLAGS);
}

static int check_args(const struct options *options)
{
    if (options->file && options->sequences.n > 0)
        return tool_usage_error("vpipe translate: both a file and '--ids'; "
                                "give one of them");
    return TOOL_OK;
}

/* ---- Model, sentences, references --------------------------------------- */

static enum vp_status choose_search(struct options *options, struct vp_err *err)
{
    const struct vp_config *config = &options->model.config;
    struct vp_translation_search *search = &options->search;
    char folder[PATH_MAX];
    bool has_folder = vp_model_source_origin(options->model.source, folder);

    VP_TRY(vp_translation_search_read(has_folder ? folder : NULL,
                                      &config->sizes, options->rule, search,
                                      err));
    if (options->n_beams > 0)
        search->beam.n_beams = (int)options->n_beams;
    if (options->has_length_penalty)
        search->beam.length_penalty = options->length_penalty;
    if (options->max_tokens > 0)
        search->max_tokens = options->max_tokens;
    if (options->forced_bos >= -1)
        search->beam.forced_bos = (int32_t)options->forced_bos;
    return VP_OK;
}

static enum vp_status add_line(struct options *options,
                               const struct vp_text_span *line,
                               struct vp_ids *ids, struct vp_err *err)
{
    size_t n = line->n_bytes;

    if (!options->text)
        return sequences_add_ids(&options->sequences, line->bytes, n, err);
    n -= n > 0 && line->bytes[n - 1] == '\r';
    if (vp_model_text_encode(options->text, line->bytes, n, ids) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "out of memory for sentences; close other programs");
    return sequences_add(&options->sequences, ids->at, ids->n, err);
}

static enum vp_status read_sentences(struct options *options,
                                     struct vp_err *err)
{
    const char *path = options->file ? options->file : "-";
    struct vp_ids ids = { .n = 0 };
    struct lines lines;
    enum vp_status st = lines_open(&lines, path, err);

    while (st == VP_OK && (st = lines_next(&lines, err)) == VP_OK)
        for (int i = 0; st == VP_OK && i < lines.n_spans; i++) {
            st = add_line(options, &lines.spans[i], &ids, err);
            if (st == VP_ERR_INVALID)
                vp_err_prefix(err, "%s:%" PRId64, path, lines.n_lines + i + 1);
        }
    lines_close(&lines);
    vp_ids_release(&ids);
    VP_TRY(st == VP_ERR_END ? VP_OK : st);
    return options->sequences.n > 0
               ? VP_OK
               : vp_err_set(err, VP_ERR_INVALID,
                            "%s: has no sentence; write one on each line",
                            path);
}

/* Keeps a copy of the next reference. */
static enum vp_status add_reference(struct options *options,
                                    const struct vp_text_span *line,
                                    struct vp_err *err)
{
    char *copy = strndup(line->bytes, line->n_bytes);

    if (!copy)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "out of memory for references; close other programs");
    options->references[options->n_references++] = copy;
    return VP_OK;
}

/* Reads the references: one line for each sentence. */
static enum vp_status read_references(struct options *options,
                                      struct vp_err *err)
{
    int64_t n = options->sequences.n, n_lines = 0;
    struct lines lines;
    enum vp_status st;

    options->references = calloc((size_t)n, sizeof(*options->references));
    if (!options->references)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "out of memory for references; close other programs");
    st = lines_open(&lines, options->reference, err);
    while (st == VP_OK && (st = lines_next(&lines, err)) == VP_OK) {
        n_lines += lines.n_spans;
        for (int i = 0; st == VP_OK && i < lines.n_spans; i++)
            if (options->n_references < n)
                st = add_reference(options, &lines.spans[i], err);
    }
    lines_close(&lines);
    VP_TRY(st == VP_ERR_END ? VP_OK : st);
    if (n_lines != n)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: has %" PRId64 " lines for %" PRId64
                          " sentences; write one line for each",
                          options->reference, n_lines, n);
    return VP_OK;
}

/* ---- Translating -------------------------------------------------------- */

static void print_numbers(const struct vp_translation *translation,
                          struct vp_strbuf *out)
{
    for (int i = 0; i < translation->n_ids; i++)
        vp_strbuf_addf(out, "%s%" PRId32, i > 0 ? " " : "",
                       translation->ids[i]);
}

/* Adds the translation in options->line to the counts for BLEU. */
static enum vp_status compare(struct options *options, int64_t k,
                              struct vp_err *err)
{
    const char *line = vp_strbuf_text(&options->line);
    const char *reference = options->references[k];

    options->n_exact += strcmp(line, reference) == 0;
    if (vp_bleu_add(&options->bleu, line, &reference, 1) == VP_OK)
        return VP_OK;
    return vp_err_set(err, VP_ERR_NOMEM,
                      "out of memory for BLEU; close other programs");
}

static enum vp_status take_translation(void *ctx, int64_t k,
                                       const struct vp_translation *translation,
                                       struct vp_err *err)
{
    struct options *options = ctx;
    struct vp_strbuf *line = &options->line;

    vp_strbuf_release(line);
    if (options->text)
        VP_TRY(vp_model_text_decode(options->text, translation->ids,
                                    translation->n_ids, line, err));
    else
        print_numbers(translation, line);
    if (options->references)
        VP_TRY(compare(options, k, err));
    if (options->print_ids && options->text) {
        vp_strbuf_release(line);
        print_numbers(translation, line);
    }
    if (line->failed)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "out of memory for a line; close other programs");
    fwrite(vp_strbuf_text(line), 1, line->n_bytes, stdout);
    fputc('\n', stdout);
    tool_flush(stdout);
    return VP_OK;
}

static void print_bleu(const struct options *options)
{
    struct vp_bleu_result result;
    char text[VP_BLEU_TEXT];

    vp_bleu_score(&options->bleu, &result);
    vp_bleu_text(&result, text, sizeof(text));
    fprintf(stderr, "%s\n", text);
    fprintf(stderr, "exact match = %.2f (%" PRId64 " of %" PRId64 ")\n",
            100.0 * (double)options->n_exact / (double)options->n_references,
            options->n_exact, options->n_references);
}

static enum vp_status run(void *ctx, struct vp_err *err)
{
    struct options *options = ctx;
    const struct vp_config *config = &options->model.config;
    struct vp_translate_config translate = {
        .config = config,
        .source = options->model.source,
        .job = options->model.job,
        .sink = { options, take_translation },
        .ctx = &options->model,
        .notice = model_notice,
    };

    if (config->model->task != VP_TASK_TRANSLATION)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s is a %s model, which does not translate; use "
                          "'vpipe generate'",
                          options->model.path, config->model->name);
    VP_TRY(choose_search(options, err));
    VP_TRY(vp_model_text_open(config, options->search.beam.eos[0],
                              &options->text, err));
    if (options->sequences.n == 0)
        VP_TRY(read_sentences(options, err));
    if (options->reference)
        VP_TRY(read_references(options, err));
    translate.search = options->search;
    translate.no_cache = options->no_cache;
    translate.sentences = options->sequences.at;
    translate.n_sentences = options->sequences.n;
    VP_TRY(vp_translate(&translate, err));
    if (options->references)
        print_bleu(options);
    return VP_OK;
}

/* '-' means the standard input. */
static bool reads_stdin(const struct options *options)
{
    return (options->sequences.n == 0 &&
            (!options->file || strcmp(options->file, "-") == 0)) ||
           (options->reference && strcmp(options->reference, "-") == 0);
}

static void release(struct options *options)
{
    for (int64_t i = 0; i < options->n_references; i++)
        free(options->references[i]);
    free(options->references);
    vp_strbuf_release(&options->line);
    vp_model_text_free(options->text);
    model_release(&options->model);
    sequences_release(&options->sequences);
}

int cmd_translate(int argc, char **argv)
{
    struct options options = { .forced_bos = -2 };
    struct tool_args args = { .command = "vpipe translate",
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
        options.model.reads_stdin = reads_stdin(&options);
        if (status == TOOL_OK)
            status = model_run(&options.model, run, &options);
    }
    release(&options);
    return status;
}
