/* vpipe generate: continues texts with a causal model, or fills gaps in them
 * with a masked one. */
#include "answers.h"
#include "base/value.h"
#include "hf/generation.h"
#include "model.h"
#include "run/fill.h"
#include "run/generate.h"
#include "sequences.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum flag {
    FLAG_PROMPT,
    FLAG_PROMPTS,
    FLAG_IDS,
    FLAG_MAX_TOKENS,
    FLAG_TEMPERATURE,
    FLAG_TOP_K,
    FLAG_TOP_P,
    FLAG_PENALTY,
    FLAG_SEED,
    FLAG_STOP,
    FLAG_IGNORE_EOS,
    FLAG_PRINT_IDS,
    FLAG_NO_CACHE,
    FLAG_STATS,
    FLAG_SET,
    FLAG_HELP
};
static const struct tool_flag flags[] = {
    [FLAG_PROMPT] = { "--prompt", "TEXT",
                      "the text to continue; BERT: with [MASK] for each gap; "
                      "may be repeated" },
    [FLAG_PROMPTS] = { "--prompts", "FILE",
                       "a prompt on each line; '-': the standard input" },
    [FLAG_IDS] = { "--ids", "LIST",
                   "a prompt of token ids: '5,17,300'; may be repeated" },
    [FLAG_MAX_TOKENS] = { "--max-tokens", "N",
                          "new tokens of each text, at most [20]" },
    [FLAG_TEMPERATURE] = { "--temperature", "T",
                           "above 0: draw the next token; 0: take the most "
                           "likely one [0]" },
    [FLAG_TOP_K] = { "--top-k", "K",
                     "draw among the K most likely tokens; 0: all [0]" },
    [FLAG_TOP_P] = { "--top-p", "P",
                     "draw among the most likely tokens that have probability "
                     "P together [1]" },
    [FLAG_PENALTY] = { "--repetition-penalty", "R",
                       "above 1: tokens that were used become less likely "
                       "[1]" },
    [FLAG_SEED] = { "--seed", "N", "seed of all draws [0]" },
    [FLAG_STOP] = { "--stop", "TEXT", "end a text before TEXT" },
    [FLAG_IGNORE_EOS] = { "--ignore-eos", NULL,
                          "do not end a text at the model's end token" },
    [FLAG_PRINT_IDS] = { "--print-ids", NULL,
                         "print new ids, a line for each prompt" },
    [FLAG_NO_CACHE] = { "--no-cache", NULL,
                        "compute all positions again for each token" },
    [FLAG_STATS] = { "--stats", NULL,
                     "print speed and bytes of the cache on stderr" },
    [FLAG_SET] = { "--set", "KEY=VALUE",
                   "a key of the configuration: stages=4, batch_size=8, "
                   "distributed_backend=mpi for stages that are processes; see "
                   "'vpipe train --help'" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_generate_options = { flags, N_FLAGS };

struct options {
    struct model model;
    const char **prompts; /* has room for all arguments */
    int n_prompts;
    const char *file, *stop;
    struct sequences sequences;
    struct vp_tokenizer *tokenizer; /* NULL: the model has none */
    struct vp_hf_end_ids ends;
    struct answers answers;
    int64_t max_tokens, top_k, seed;
    struct vp_sample_options sampling;
    bool has_temperature, ignore_eos, print_ids, no_cache, print_stats, help;
};

/* ---- Command line ------------------------------------------------------- */

static int take_real(const char *name, const char *value, double *out)
{
    if (vp_text_to_real(value, out))
        return TOOL_OK;
    return tool_usage_error("vpipe generate: option '%s': '%.24s' is not a "
                            "number; write for example '%s 0.9'",
                            name, value, name);
}

static int take_number(struct options *out, int flag, const char *value)
{
    const char *name = flags[flag].name;

    switch (flag) {
    case FLAG_MAX_TOKENS:
        return model_take_count(&out->model, name, value, 1, INT32_MAX,
                                &out->max_tokens);
    case FLAG_TOP_K:
        return model_take_count(&out->model, name, value, 0, INT32_MAX,
                                &out->top_k);
    case FLAG_SEED:
        return model_take_count(&out->model, name, value, 0, INT64_MAX,
                                &out->seed);
    case FLAG_TOP_P:
        return take_real(name, value, &out->sampling.top_p);
    case FLAG_PENALTY:
        return take_real(name, value, &out->sampling.repetition_penalty);
    default:
        out->has_temperature = true;
        return take_real(name, value, &out->sampling.temperature);
    }
}

static int take_plain(struct options *out, const char *value)
{
    if (!out->model.path)
        return model_set_path(&out->model, value);
    return tool_usage_error("vpipe generate: unexpected argument '%.48s'; "
                            "write '--prompt TEXT'",
                            value);
}

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        return take_plain(out, value);
    case FLAG_PROMPT:
        out->prompts[out->n_prompts++] = value;
        break;
    case FLAG_PROMPTS:
        out->file = value;
        out->model.reads_stdin = strcmp(value, "-") == 0;
        break;
    case FLAG_IDS:
        return model_take_ids(&out->model, value, &out->sequences);
    case FLAG_STOP:
        out->stop = value;
        break;
    case FLAG_IGNORE_EOS:
        out->ignore_eos = true;
        break;
    case FLAG_PRINT_IDS:
        out->print_ids = true;
        break;
    case FLAG_NO_CACHE:
        out->no_cache = true;
        break;
    case FLAG_STATS:
        out->print_stats = true;
        break;
    case FLAG_SET:
        out->model.sets[out->model.n_sets++] = value;
        break;
    case FLAG_HELP:
        out->help = true;
        break;
    case ARGS_BAD:
        return TOOL_USAGE;
    default:
        return take_number(out, flag, value);
    }
    return TOOL_OK;
}

static void print_help(void)
{
    tool_print(
        stdout, help_width(stdout), 0,
        "Continues texts with a trained model, the folder of a run, one of "
        "its checkpoints or a Hugging Face folder; with a BERT model fills "
        "their gaps.\n\n"
        "usage: vpipe generate MODEL --prompt TEXT... [option...]\n"
        "       vpipe generate MODEL --prompts FILE [option...]\n"
        "       vpipe generate MODEL --ids LIST... [option...]\n\n"
        "Prints the continuation of each prompt while it is generated; ids, if "
        "the model has no tokenizer. BERT: the best fillings of each [MASK] "
        "and their probabilities.\n\n");
    help_flags(flags, N_FLAGS);
}

static int check_args(struct options *options)
{
    int n_kinds = (options->n_prompts > 0) + (options->file != NULL) +
                  (options->sequences.n > 0);
    struct vp_err err = { .text = "" };

    if (options->model.path && n_kinds == 0)
        return tool_usage_error("vpipe generate: no prompt; write '--prompt "
                                "TEXT' or '--ids 5,17,300'");
    if (n_kinds > 1)
        return tool_usage_error("vpipe generate: prompts of two kinds; give "
                                "one of '--prompt', '--prompts' and '--ids'");
    if (!options->has_temperature &&
        (options->top_k > 0 || options->sampling.top_p < 1.0))
        return tool_usage_error("vpipe generate: '%s' draws, but the "
                                "temperature is 0; write '--temperature 1'",
                                options->top_k > 0 ? "--top-k" : "--top-p");
    options->sampling.top_k = (int)options->top_k;
    if (vp_sample_check(&options->sampling, &err) != VP_OK)
        return tool_usage_error("vpipe generate: %s", err.text);
    return TOOL_OK;
}

/* ---- Model and prompts -------------------------------------------------- */

static enum vp_status need_tokenizer(const struct options *options,
                                     const char *name, const char *remedy,
                                     struct vp_err *err)
{
    if (options->tokenizer)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s has no tokenizer, which '%s' needs; %s",
                      options->model.path, name, remedy);
}

static enum vp_status read_prompts(struct options *options, struct vp_err *err)
{
    enum vp_task task = options->model.config.model->task;
    struct sequences *list = &options->sequences;

    if (options->n_prompts > 0)
        VP_TRY(need_tokenizer(options, "--prompt", "give ids by '--ids'", err));
    if (options->stop)
        VP_TRY(need_tokenizer(options, "--stop", "leave it out", err));
    for (int i = 0; i < options->n_prompts; i++)
        VP_TRY(sequences_add_text(list, options->prompts[i], options->tokenizer,
                                  task, err));
    if (options->file)
        VP_TRY(sequences_add_file(list, options->file, options->tokenizer, task,
                                  err));
    return list->n > 0 ? VP_OK
                       : vp_err_set(err, VP_ERR_INVALID,
                                    "%s: has no prompt; write one on each line",
                                    options->file);
}

/* Finds the ids that end a text: those of the Hugging Face folder that the
 * model is or comes from, otherwise the end token of the tokenizer. */
static enum vp_status find_ends(struct options *options, struct vp_err *err)
{
    struct vp_hf_end_ids *ends = &options->ends;
    char folder[PATH_MAX];
    int32_t end;

    if (options->ignore_eos)
        return VP_OK;
    if (vp_model_source_origin(options->model.source, folder))
        VP_TRY(vp_hf_read_end_ids(folder, ends, err));
    if (ends->n > 0 || !options->tokenizer)
        return VP_OK;
    end = vp_tokenizer_special(options->tokenizer, VP_SPECIAL_END);
    if (end >= 0)
        ends->at[ends->n++] = end;
    return VP_OK;
}

/* ---- Causal models ------------------------------------------------------ */

static enum vp_status take_token(void *ctx, int64_t k, int32_t id,
                                 bool *stop_out, struct vp_err *err)
{
    struct options *options = ctx;

    return answers_add(&options->answers, k, id, stop_out, err);
}

static enum vp_status take_end(void *ctx, int64_t k, enum vp_text_end why,
                               struct vp_err *err)
{
    struct options *options = ctx;

    (void)err;
    answers_end(&options->answers, k);
    if (why == VP_TEXT_END_POSITIONS)
        fprintf(stderr,
                "vpipe generate: text %" PRId64 " ends at the model's %" PRId64
                " positions\n",
                k + 1, options->model.config.sizes.positions);
    return VP_OK;
}

static void print_stats(const struct vp_generate_stats *stats)
{
    char size[VP_BYTES_TEXT];

    vp_bytes_text(stats->cache_bytes, size, sizeof(size));
    fprintf(
        stderr,
        "vpipe generate: prompts: %" PRId64 " ids in %.3f s, %.0f ids/s; "
        "then %" PRId64 " ids in %" PRId64 " steps, %.3f s, %.1f ids/s, "
        "%.3f ms a step; cache: %s (%" PRId64 " bytes)\n",
        stats->n_prompt_ids, stats->prompt_seconds,
        stats->prompt_seconds > 0.0
            ? (double)stats->n_prompt_ids / stats->prompt_seconds
            : 0.0,
        stats->n_new_ids, stats->n_steps, stats->new_seconds,
        stats->new_seconds > 0.0 ? (double)stats->n_new_ids / stats->new_seconds
                                 : 0.0,
        stats->n_steps > 0 ? 1e3 * stats->new_seconds / (double)stats->n_steps
                           : 0.0,
        size, stats->cache_bytes);
}

static enum vp_status generate(struct options *options, struct vp_err *err)
{
    struct vp_generate_stats stats = { .n_steps = 0 };
    struct vp_generate_config config = {
        .config = &options->model.config,
        .source = options->model.source,
        .job = options->model.job,
        .prompts = options->sequences.at,
        .n_prompts = options->sequences.n,
        .max_tokens = options->max_tokens,
        .sampling = options->sampling,
        .seed = (uint64_t)options->seed,
        .end_ids = options->ends.at,
        .no_cache = options->no_cache,
        .stats_out = &stats,
        .sink = { options, take_token, take_end },
        .ctx = &options->model,
        .notice = model_notice,
    };
    enum vp_status st;

    VP_TRY(find_ends(options, err));
    config.n_end_ids = options->ends.n;
    options->answers.tokenizer = options->tokenizer;
    options->answers.print_ids = options->print_ids || !options->tokenizer;
    options->answers.stop = options->stop;
    st = answers_init(&options->answers, options->sequences.n, err);
    if (st == VP_OK)
        st = vp_generate(&config, err);
    answers_release(&options->answers);
    if (st == VP_OK && options->print_stats)
        print_stats(&stats);
    return st;
}

/* ---- Masked models ------------------------------------------------------ */

/* Prints a line for each gap; with --print-ids the best ids, a line for each
 * prompt. */
static void print_filling(const struct options *options,
                          const struct vp_filling *filling, int64_t gap)
{
    if (options->print_ids) {
        printf("%s%" PRId32, gap > 1 ? " " : "", filling->best[0].id);
        return;
    }
    if (options->sequences.n > 1)
        printf("prompt %" PRId64 ", ", filling->sequence + 1);
    printf("gap %" PRId64 ":", gap);
    for (int i = 0; i < filling->n; i++) {
        const struct vp_sample_candidate *best = &filling->best[i];
        size_t n_bytes = 0;
        const char *token = vp_tokenizer_token(options->tokenizer,
                                               (uint32_t)best->id, &n_bytes);

        if (token)
            printf(" %.*s", (int)n_bytes, token);
        else
            printf(" %" PRId32, best->id);
        printf(" %.4f", best->probability);
    }
    putchar('\n');
}

static enum vp_status fill(struct options *options, struct vp_err *err)
{
    struct vp_fill_config config = {
        .config = &options->model.config,
        .source = options->model.source,
        .job = options->model.job,
        .sequences = options->sequences.at,
        .n_sequences = options->sequences.n,
        .ctx = &options->model,
        .notice = model_notice,
    };
    struct vp_filling *fillings;
    int64_t n, gap = 0;

    VP_TRY(need_tokenizer(options, "[MASK]", "put its files beside the model",
                          err));
    config.mask = vp_tokenizer_special(options->tokenizer, VP_SPECIAL_MASK);
    if (config.mask < 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the tokenizer of %s has no mask token; name one in "
                          "tokenizer_config.json",
                          options->model.path);
    VP_TRY(vp_fill(&config, &fillings, &n, err));
    for (int64_t i = 0; i < n; i++) {
        bool last = i + 1 == n ||
                    fillings[i + 1].sequence != fillings[i].sequence;

        print_filling(options, &fillings[i], ++gap);
        if (options->print_ids && last)
            putchar('\n');
        if (last)
            gap = 0;
    }
    free(fillings);
    return VP_OK;
}

/* ---- The command -------------------------------------------------------- */

static enum vp_status run(void *ctx, struct vp_err *err)
{
    struct options *options = ctx;
    const struct vp_config *config = &options->model.config;

    if (config->model->task == VP_TASK_TRANSLATION)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s is a translation model; use 'vpipe translate'",
                          options->model.path);
    if (config->tokenizer)
        VP_TRY(vp_tokenizer_open(config->tokenizer, &options->tokenizer, err));
    VP_TRY(read_prompts(options, err));
    return config->model->task == VP_TASK_MASKED_LM ? fill(options, err)
                                                    : generate(options, err);
}

int cmd_generate(int argc, char **argv)
{
    struct options options = { .max_tokens = 20, .sampling = VP_SAMPLE_GREEDY };
    struct tool_args args = { .command = "vpipe generate",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    int status = model_init(&options.model, args.command, argc, argv);

    options.prompts = calloc((size_t)argc, sizeof(*options.prompts));
    if (status == TOOL_OK && !options.prompts)
        status = model_fail(&options.model, VP_ERR_NOMEM,
                            &(struct vp_err){ .text = "" });
    if (status == TOOL_OK) {
        model_needs_no_data(&options.model);
        status = args_read(&args, take, &options, &options.help);
    }
    if (status == TOOL_OK && options.help) {
        print_help();
    } else if (status == TOOL_OK) {
        status = check_args(&options);
        if (status == TOOL_OK)
            status = model_run(&options.model, run, &options);
    }
    vp_tokenizer_free(options.tokenizer);
    model_release(&options.model);
    sequences_release(&options.sequences);
    free(options.prompts);
    return status;
}
