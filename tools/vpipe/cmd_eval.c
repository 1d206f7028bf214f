/* vpipe eval: computes loss, perplexity and accuracy of a trained model on a
 * data set. */
#include "base/memory.h"
#include "data.h"
#include "model.h"
#include "run/evaluate.h"
#include "signals.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum flag { FLAG_DATA, FLAG_HELD_OUT, FLAG_SET, FLAG_JSON, FLAG_HELP };
static const struct tool_flag flags[] = {
    [FLAG_DATA] = { "--data", "PATH",
                    "data to evaluate on: its validation files, else all "
                    "files [the held-out part of the run's own data]" },
    [FLAG_HELD_OUT] = { "--held-out", NULL,
                        "evaluate only the tenth of --data that training would "
                        "hold out" },
    [FLAG_SET] = { "--set", "KEY=VALUE",
                   "a key of the configuration: stages=4, batch_size=8, "
                   "distributed_backend=mpi for stages that are processes; see "
                   "'vpipe train --help'" },
    [FLAG_JSON] = { "--json", NULL, "print one JSON object" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_eval_options = { flags, N_FLAGS };

struct options {
    struct model model;
    const char *data;
    bool held_out, json, help;
    struct data_progress progress;
};

/* ---- The command line --------------------------------------------------- */

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        if (out->model.path)
            return tool_usage_error("vpipe eval: two models, '%.48s' and "
                                    "'%.48s'; give one, and data by '--data "
                                    "PATH'",
                                    out->model.path, value);
        return model_set_path(&out->model, value);
    case FLAG_DATA:
        out->data = value;
        break;
    case FLAG_HELD_OUT:
        out->held_out = true;
        break;
    case FLAG_SET:
        out->model.sets[out->model.n_sets++] = value;
        break;
    case FLAG_JSON:
        out->json = true;
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
        "Evaluates a trained model, the folder of a run, one of its "
        "checkpoints or a Hugging Face folder: loss, perplexity and accuracy "
        "over a whole data set, without dropout and label smoothing. The "
        "results are the "
        "same bit for bit for any number of stages.\n\n"
        "usage: vpipe eval MODEL [--data PATH] [option...]\n\n");
    help_flags(flags, N_FLAGS);
}

/* ---- Printing ----------------------------------------------------------- */

static const char *prediction_of(const struct vp_config *config)
{
    return config->model->task == VP_TASK_MASKED_LM ? "masked tokens"
                                                    : "next tokens";
}

static double percent(double part, double all)
{
    return all > 0.0 ? 100.0 * part / all : (double)NAN;
}

static void print_table(const struct options *options,
                        const struct vp_evaluation *found)
{
    const struct vp_config *config = &options->model.config;
    const struct vp_score *score = &found->score;
    const char *unit = prediction_of(config);
    double loss = vp_score_loss(score);

    tool_print(stdout, 0, 12, "model       %s, %s\n", config->model->name,
               vp_model_source_what(options->model.source));
    tool_print(stdout, 0, 12, "data        %s\n", found->data);
    tool_print(stdout, 0, 12,
               "            %" PRId64 " samples in %" PRId64
               " batches of seq_length %" PRId64 ", %.0f %s\n",
               found->n_samples, found->n_batches, config->seq_length,
               score->n_labels, unit);
    tool_print(stdout, 0, 12, "loss        %.4f nats per token\n", loss);
    tool_print(stdout, 0, 12, "perplexity  %.2f\n", exp(loss));
    tool_print(stdout, 0, 12,
               "accuracy    %.2f %% of the %s, %.2f %% among the first five "
               "guesses\n",
               percent(score->top1, score->n_labels), unit,
               percent(score->top5, score->n_labels));
    if (found->n_questions > 0)
        tool_print(stdout, 0, 12,
                   "answers     %.2f %% right, %" PRId64 " of %" PRId64
                   " questions\n",
                   percent((double)found->n_right, (double)found->n_questions),
                   found->n_right, found->n_questions);
}

/* Prints time and memory of the evaluation. */
static void print_cost(const struct vp_evaluation *found)
{
    char memory[VP_BYTES_TEXT], seconds[32];

    vp_bytes_text(found->memory, memory, sizeof(memory));
    tool_time_text(found->seconds, seconds, sizeof(seconds));
    tool_print(stdout, 0, 12, "took        %s, %s%s\n", seconds, memory,
               found->n_stages > 1 ? " on the largest stage" : "");
}

static enum vp_status print_json(const struct options *options,
                                 const struct vp_evaluation *found,
                                 struct vp_err *err)
{
    char *text;

    if (vp_evaluation_json(found, &options->model.config, options->model.source,
                           &text) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "out of memory; close other programs");
    puts(text);
    free(text);
    return VP_OK;
}

/* ---- Running ------------------------------------------------------------ */

/* Notices go to stderr, so that a pipe gets only the results. */
static void notice(void *ctx, const char *line)
{
    struct options *options = ctx;

    data_progress_end(&options->progress);
    model_notice(&options->model, line);
}

static void progress(void *ctx, int64_t n_done, int64_t n_batches)
{
    struct options *options = ctx;

    data_progress_show(&options->progress, (double)n_done / (double)n_batches,
                       n_done);
}

/* Runs in each process of a job; only the lead gets the result and prints
 * it. */
static enum vp_status evaluate(void *ctx, struct vp_err *err)
{
    struct options *options = ctx;
    struct model *model = &options->model;
    bool is_lead = vp_inference_job_is_lead(model->job);
    const struct vp_evaluate_config config = {
        .config = &model->config,
        .source = model->source,
        .job = model->job,
        .whole = options->data && !options->held_out,
        .stop = signals_stop(),
        .ctx = options,
        .notice = notice,
        .progress = progress,
    };
    struct vp_evaluation found;
    enum vp_status st;

    if (!model->config.data_dir &&
        !vp_config_given(&model->config, "synthetic_data"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s does not name the data it was trained on; write "
                          "'--data PATH'",
                          model->path);
    signals_catch(SIGNALS_OF_ONE);
    data_progress_begin(&options->progress, "evaluating");
    options->progress.unit = "batches";
    st = vp_evaluate(&config, &found, err);
    data_progress_end(&options->progress);
    if (st != VP_OK || !is_lead)
        return st;
    if (options->json)
        return print_json(options, &found, err);
    print_table(options, &found);
    print_cost(&found);
    return VP_OK;
}

/* Puts --data before the keys of --set, so that these override it. */
static int set_data(struct options *options, char **data_key)
{
    struct model *model = &options->model;
    size_t n = options->data ? strlen(options->data) + 16 : 0;

    if (options->held_out && !options->data)
        return tool_usage_error("vpipe eval: '--held-out' needs '--data PATH'; "
                                "leave it out: held-out data is the default");
    if (options->data) {
        *data_key = malloc(n);
        if (!*data_key)
            return tool_usage_error("vpipe eval: out of memory");
        snprintf(*data_key, n, "data_dir=%s", options->data);
        memmove(model->sets + 2, model->sets,
                (size_t)model->n_sets * sizeof(*model->sets));
        model->sets[0] = *data_key;
        model->sets[1] = "synthetic_data=false";
        model->n_sets += 2;
    }
    return TOOL_OK;
}

int cmd_eval(int argc, char **argv)
{
    struct options options = { .data = NULL };
    struct tool_args args = { .command = "vpipe eval",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    char *data_key = NULL;
    int status = model_init(&options.model, args.command, argc, argv);

    if (status == TOOL_OK)
        status = args_read(&args, take, &options, &options.help);
    if (status == TOOL_OK && options.help) {
        print_help();
    } else if (status == TOOL_OK) {
        options.model.all_run = true;
        status = set_data(&options, &data_key);
        if (status == TOOL_OK)
            status = model_run(&options.model, evaluate, &options);
    }
    model_release(&options.model);
    free(data_key);
    return status;
}
