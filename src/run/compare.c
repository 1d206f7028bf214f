/* Runs a comparison: checks the configurations, plans them, measures them in
 * turn, and simulates them. */
#include "run/compare.h"

#include "config/key.h"
#include "config/keys.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALUE_BYTES = 4096,
    ALONE_MB = 40,      /* minibatches that measure stages one at a time */
    SIMULATED_MB = 256, /* most simulated minibatches in sync_mode asp */
    MOST_BATCH = 1 << 20,
};

static void say(vp_notice_fn notice, void *ctx, const char *line)
{
    if (notice)
        notice(ctx, line);
}

/* ---- Checks ------------------------------------------------------------- */

/* Keys that must have the same value in all configurations. */
static const char *const same_keys[] = {
    "model_type",  "vocab",          "hidden",       "layers",
    "heads",       "decoder_layers", "ffn",          "positions",
    "types",       "activation",     "data_dir",     "synthetic_data",
    "seq_length",  "max_pred",       "seed",         "tie_embeddings",
    "data_format", "valid_split",    "document_end", "text_key",
    "source_lang", "target_lang",    "tokenizer",    "random_next",
};

/* Keys that may differ, with a notice. */
static const char *const noted_keys[] = {
    "batch_size",   "threads_per_stage", "dropout", "attention_dropout",
    "optimizer",    "learning_rate",     "kernels", "grad_clip",
    "weight_decay", "label_smoothing",
};

/* Writes the value of `key`, or "not set". */
static void print_value(const char *key, const struct vp_config *config,
                        char out[VALUE_BYTES])
{
    const struct vp_key *row = vp_key_find(key);

    VP_BUG_ON(!row);
    if (strcmp(key, "data_dir") == 0 && config->data_dir) {
        /* One folder can be written in several ways. */
        char *real = realpath(config->data_dir, NULL);

        snprintf(out, VALUE_BYTES, "%s", real ? real : config->data_dir);
        free(real);
    } else if (!vp_key_print(row, config, out, VALUE_BYTES)) {
        snprintf(out, VALUE_BYTES, "not set");
    }
}

struct difference {
    char a[VALUE_BYTES], b[VALUE_BYTES];
};

static bool differs(const char *key, const struct vp_config *a,
                    const struct vp_config *b, struct difference *out)
{
    print_value(key, a, out->a);
    print_value(key, b, out->b);
    return strcmp(out->a, out->b) != 0;
}

/* Returns the place of the key, or only its file if the key was not given. */
static const char *place_of(const struct vp_config *config, const char *key)
{
    return vp_config_given(config, key) ? vp_config_place(config, key)
                                        : config->path;
}

static enum vp_status check_pair(const struct vp_config *a,
                                 const struct vp_config *b, vp_notice_fn notice,
                                 void *ctx, struct vp_err *err)
{
    struct difference found;
    struct vp_err line;

    for (size_t i = 0; i < VP_COUNT_OF(same_keys); i++) {
        const char *key = same_keys[i];

        if (differs(key, a, b, &found))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: %s is %.200s, but %.200s in %s; compare "
                              "configurations with the same model and data",
                              place_of(b, key), key, found.b, found.a,
                              place_of(a, key));
    }
    for (size_t i = 0; i < VP_COUNT_OF(noted_keys); i++) {
        const char *key = noted_keys[i];

        if (!differs(key, a, b, &found))
            continue;
        vp_err_set(&line, VP_OK, "%s is %.200s in %s and %.200s in %s", key,
                   found.a, place_of(a, key), found.b, place_of(b, key));
        say(notice, ctx, line.text);
    }
    return VP_OK;
}

/* Stages cannot tie embeddings in sync_mode asp. If some configurations tie
 * them and others do not, unties them in all, unless the user asked for tied
 * ones. Returns the first configuration that had untied ones; NULL: nothing was
 * changed. */
static const struct vp_config *untie(struct vp_config *configs, int n)
{
    static const char key[] = "tie_embeddings";
    const struct vp_config *untied = NULL;
    bool tied = false;

    for (int i = n - 1; i >= 0; i--) {
        if (!configs[i].sizes.tie_embeddings)
            untied = &configs[i];
        else if (vp_config_given(&configs[i], key))
            return NULL;
        else
            tied = true;
    }
    if (!tied || !untied)
        return NULL;
    for (int i = 0; i < n; i++) {
        if (configs[i].sizes.tie_embeddings)
            vp_origin_derive(&configs[i], key, "compared with untied ones");
        configs[i].sizes.tie_embeddings = false;
    }
    return untied;
}

enum vp_status vp_compare_check(struct vp_config *configs, int n,
                                vp_notice_fn notice, void *ctx,
                                struct vp_err *err)
{
    const struct vp_config *untied = untie(configs, n);
    struct vp_err line;

    for (int i = 0; i < n; i++) {
        if (configs[i].forward_only)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: key 'forward_only' is true, but only "
                              "training is compared; remove it",
                              place_of(&configs[i], "forward_only"));
        if (i > 0)
            VP_TRY(check_pair(&configs[0], &configs[i], notice, ctx, err));
    }
    if (!untied)
        return VP_OK;
    vp_err_set(&line, VP_OK,
               "tie_embeddings is set to false in all of them, as in %s%s",
               place_of(untied, "tie_embeddings"),
               vp_config_given(untied, "tie_embeddings")
                   ? ""
                   : ": stages cannot share weights in sync_mode asp");
    say(notice, ctx, line.text);
    return VP_OK;
}

enum vp_status vp_compare_check_runs(const struct vp_config *configs, int n,
                                     vp_notice_fn notice, void *ctx,
                                     struct vp_err *err)
{
    for (int i = 1; i < n; i++)
        VP_TRY(check_pair(&configs[0], &configs[i], notice, ctx, err));
    return VP_OK;
}

/* ---- Plans -------------------------------------------------------------- */

struct plan {
    int n_stages, n_ranks, n_threads, n_cores;
    int64_t batch, n_steps;
    int64_t bytes[VP_MAX_STAGES];
    int ranks[VP_MAX_STAGES];
    char missing[VP_MISSING_TEXT];
};

static void keep_plan(void *ctx, const struct vp_run_summary *summary)
{
    struct plan *plan = ctx;

    *plan = (struct plan){
        .n_stages = summary->n_stages,
        .n_ranks = summary->n_ranks,
        .n_threads = summary->n_threads,
        .n_cores = summary->n_cores,
        .batch = summary->batch,
        .n_steps = summary->n_steps,
    };
    if (summary->missing)
        snprintf(plan->missing, sizeof(plan->missing), "%s", summary->missing);
    for (int s = 0; s < summary->n_stages; s++) {
        plan->bytes[s] = summary->stages[s].memory->total;
        plan->ranks[s] = summary->stages[s].n_ranks;
    }
}

static enum vp_status make_plan(const struct vp_config *config,
                                struct vp_run_options options, struct plan *out,
                                struct vp_err *err)
{
    struct vp_run_events events = { .ctx = out, .on_start = keep_plan };

    options.dry_run = true;
    return vp_run_train(config, &options, &events, err);
}

static int64_t largest_stage(const int64_t *bytes, int n)
{
    int64_t most = 0;

    for (int s = 0; s < n; s++)
        most = bytes[s] > most ? bytes[s] : most;
    return most;
}

int64_t vp_compare_peak(const struct vp_contestant *contestant)
{
    return largest_stage(contestant->stage_bytes, contestant->n_stages);
}

/* Plans with `batch` and without data, on which memory does not depend. Sets
 * `*out` to true if each stage fits `limit` bytes. */
static enum vp_status fits(const struct vp_config *config, int64_t batch,
                           int64_t limit, char missing[VP_MISSING_TEXT],
                           bool *out, struct vp_err *err)
{
    const struct vp_run_options options = { .elsewhere = true,
                                            .no_data = true };
    struct vp_config copy = *config;
    struct plan plan;

    copy.batch_size = batch;
    copy.memory_limit = 0;
    copy.synthetic_data = true;
    copy.data_dir = NULL;
    copy.eval_every = 0;
    VP_TRY(make_plan(&copy, options, &plan, err));
    *out = largest_stage(plan.bytes, plan.n_stages) <= limit;
    if (*out)
        memcpy(missing, plan.missing, sizeof(plan.missing));
    return VP_OK;
}

enum vp_status vp_compare_largest_batch(const struct vp_config *config,
                                        int64_t limit, int64_t *batch_out,
                                        char missing_out[VP_MISSING_TEXT],
                                        struct vp_err *err)
{
    int64_t good = 0, bad = 1;
    bool fit = true;

    missing_out[0] = '\0';
    while (bad <= MOST_BATCH) {
        VP_TRY(fits(config, bad, limit, missing_out, &fit, err));
        if (!fit)
            break;
        good = bad;
        bad *= 2;
    }
    while (bad - good > 1 && good > 0 && !fit) {
        int64_t middle = good + (bad - good) / 2;
        bool here;

        VP_TRY(fits(config, middle, limit, missing_out, &here, err));
        if (here)
            good = middle;
        else
            bad = middle;
    }
    *batch_out = good;
    return VP_OK;
}

/* ---- One run ------------------------------------------------------------ */

/* Sums over the step reports of a run. */
struct tally {
    int64_t n_warm_up; /* warm-up steps, which are not counted */
    int64_t n_steps, n_samples, n_tokens;
    double seconds;
    int64_t all_samples, n_minibatches; /* with warm-up */
    int n_ranks, n_stages;
    struct vp_compare_round round;
};

static void add_start(void *ctx, const struct vp_run_summary *summary)
{
    struct tally *tally = ctx;

    tally->n_warm_up = summary->n_steps / 10;
    tally->n_ranks = summary->n_ranks;
    tally->n_stages = summary->n_stages;
}

static void add_step(void *ctx, const struct vp_step_report *report)
{
    struct tally *tally = ctx;

    tally->all_samples += report->n_samples;
    tally->n_minibatches = report->minibatch;
    if (report->step <= tally->n_warm_up)
        return;
    tally->n_steps++;
    tally->n_samples += report->n_samples;
    tally->n_tokens += report->n_tokens;
    tally->seconds += report->seconds;
}

static void add_end(void *ctx, const struct vp_run_result *result)
{
    struct tally *tally = ctx;
    double seconds = tally->seconds > 0.0 ? tally->seconds : 1e-9;
    double ranks_ns = 1e9 * tally->n_ranks * result->seconds;
    int64_t wait_ns = 0;

    for (int s = 0; s < tally->n_stages; s++)
        wait_ns += result->stats[s].receive_ns + result->stats[s].send_ns;
    tally->round = (struct vp_compare_round){
        .samples_per_second = (double)tally->n_samples / seconds,
        .tokens_per_second = (double)tally->n_tokens / seconds,
        .step_seconds = tally->n_steps > 0 ? seconds / (double)tally->n_steps
                                           : 0.0,
        .waiting = ranks_ns > 0.0 ? (double)wait_ns / ranks_ns : 0.0,
        .bubble = result->bubble,
        .loss = result->last_loss,
    };
}

struct comparison {
    const struct vp_config *configs;
    int n;
    const struct vp_compare_options *options;
    const struct vp_compare_events *events;
    struct vp_contestant *out;
    struct plan *plans;
    struct vp_compare_round *rounds; /* [n, n_rounds] */
};

/* Runs into <output>/<name><suffix>. */
static enum vp_status run_one(const struct comparison *c,
                              const struct vp_config *config, const char *name,
                              const char *suffix, int64_t n_steps,
                              struct tally *out, struct vp_err *err)
{
    char folder[1024];
    struct vp_run_options options = { .output = folder,
                                      .max_steps = n_steps,
                                      .stop = c->options->stop };
    struct vp_run_events events = { .ctx = out,
                                    .on_start = add_start,
                                    .on_step = add_step,
                                    .on_end = add_end };

    *out = (struct tally){ .n_steps = 0 };
    if ((size_t)snprintf(folder, sizeof(folder), "%s/%s%s", c->options->output,
                         name, suffix) >= sizeof(folder))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.80s...: path is too long; choose another --output",
                          c->options->output);
    return vp_run_train(config, &options, &events, err);
}

static void tell_run(const struct comparison *c, int i, int round,
                     int64_t n_steps)
{
    if (c->events->on_run)
        c->events->on_run(c->events->ctx, c->out[i].name, round, n_steps);
}

/* ---- The simulated side ------------------------------------------------- */

/* Returns the configuration with the same stages and one minibatch in flight:
 * stages hardly ever compute at the same time, so their times are undisturbed.
 * B and W are separate actions if the schedule splits them. `zeros` is
 * borrowed. */
static struct vp_config alone(const struct vp_config *config,
                              const struct plan *plan, const int *zeros)
{
    bool split = vp_generator_at(config->schedule)->split;
    struct vp_config copy = *config;

    copy.sync_mode = split ? VP_SYNC_BSP : VP_SYNC_ASP;
    copy.macrobatch = false;
    copy.schedule = vp_generator_index(split ? "zb-h1" : "pipedream");
    copy.stages = plan->n_stages;
    copy.chunks = 1;
    copy.schedule_memory = 0;
    copy.schedule_file = NULL;
    copy.schedule_text = NULL;
    copy.schedule_v = false;
    copy.accumulation_steps = 1;
    copy.replicas = (struct vp_int_list){ .n = 0 };
    copy.ranks = (struct vp_int_list){ .n = 0 };
    copy.machines = (struct vp_machine_list){ .n = 0 };
    copy.placement = NULL;
    copy.warmup_depths = (struct vp_int_list){ 0 };
    if (!split)
        copy.warmup_depths = (struct vp_int_list){ zeros, plan->n_stages };
    copy.threads_per_stage = plan->n_threads;
    copy.total_steps = ALONE_MB;
    copy.eval_every = 0;
    copy.checkpoint_every = 0;
    if (plan->n_stages > 1)
        copy.sizes.tie_embeddings = false;
    copy.loss_scale.dynamic = false;
    copy.memory_limit = 0;
    return copy;
}

static enum vp_status read_costs(const struct comparison *c, const char *name,
                                 struct vp_stage_costs *costs,
                                 struct vp_err *err)
{
    char path[1024 + 32];
    struct vp_trace trace;
    enum vp_status st;

    snprintf(path, sizeof(path), "%s/%s.alone/trace.json", c->options->output,
             name);
    VP_TRY(vp_trace_read_chrome(path, &trace, err));
    st = vp_compare_costs(&trace, costs, err);
    vp_trace_release(&trace);
    return st;
}

static enum vp_status simulate(const struct comparison *c, int i,
                               struct vp_err *err)
{
    static const int zeros[VP_MAX_STAGES];
    const struct vp_config *config = &c->configs[i];
    const struct plan *plan = &c->plans[i];
    struct vp_contestant *out = &c->out[i];
    struct vp_config copy = alone(config, plan, zeros);
    bool asp = config->sync_mode == VP_SYNC_ASP;
    int64_t n_mb = asp ? out->n_steps : config->accumulation_steps;
    struct vp_stage_costs costs[VP_MAX_STAGES];
    struct vp_shared_time shared;
    struct tally tally;

    if (asp && n_mb > SIMULATED_MB)
        n_mb = SIMULATED_MB;
    tell_run(c, i, 0, ALONE_MB);
    VP_TRY(run_one(c, &copy, out->name, ".alone", ALONE_MB, &tally, err));
    VP_TRY(read_costs(c, out->name, costs, err));
    VP_TRY(vp_compare_simulate(config, costs, (int)n_mb,
                               (double)plan->n_cores / plan->n_threads, &shared,
                               err));
    out->bubble_simulated = shared.bubble;
    if (shared.seconds > 0.0 && tally.n_minibatches > 0)
        out->simulated = (double)n_mb / shared.seconds *
                         (double)tally.all_samples /
                         (double)tally.n_minibatches;
    return VP_OK;
}

/* ---- All of them -------------------------------------------------------- */

static int64_t samples_per_step(const struct vp_contestant *contestant)
{
    return contestant->batch * contestant->group;
}

static void set_steps(const struct comparison *c, int i)
{
    const struct vp_contestant *first = &c->out[0];
    struct vp_contestant *own = &c->out[i];
    int64_t n_samples, step = samples_per_step(own);

    if (c->options->max_steps == 0)
        return;
    n_samples = samples_per_step(first) * c->options->max_steps;
    own->n_steps = (n_samples + step / 2) / step;
    if (own->n_steps < 1)
        own->n_steps = 1;
    if (own->n_steps > c->plans[i].n_steps)
        own->n_steps = c->plans[i].n_steps;
}

static void compare_samples(const struct comparison *c, int i)
{
    int64_t a = samples_per_step(&c->out[0]) * c->out[0].n_steps;
    int64_t b = samples_per_step(&c->out[i]) * c->out[i].n_steps;
    struct vp_err line;

    if (a == b)
        return;
    vp_err_set(&line, VP_OK, "%s trains on %lld samples, %s on %lld",
               c->out[0].name, (long long)a, c->out[i].name, (long long)b);
    say(c->events->on_notice, c->events->ctx, line.text);
}

static enum vp_status plan_all(const struct comparison *c, struct vp_err *err)
{
    for (int i = 0; i < c->n; i++) {
        const struct plan *plan = &c->plans[i];
        struct vp_contestant *out = &c->out[i];

        VP_TRY(make_plan(&c->configs[i], (struct vp_run_options){ 0 },
                         &c->plans[i], err));
        *out = (struct vp_contestant){
            .name = out->name,
            .n_stages = plan->n_stages,
            .n_ranks = plan->n_ranks,
            .batch = plan->batch,
            .group = c->configs[i].accumulation_steps,
            .n_steps = plan->n_steps,
        };
        memcpy(out->stage_bytes, plan->bytes, sizeof(out->stage_bytes));
        memcpy(out->stage_ranks, plan->ranks, sizeof(out->stage_ranks));
        set_steps(c, i);
        compare_samples(c, i);
    }
    return VP_OK;
}

/* Runs the configurations in turn, so that a slow period of the machine affects
 * all of them. */
static enum vp_status measure_all(const struct comparison *c,
                                  struct vp_err *err)
{
    int n_rounds = c->options->n_rounds;

    for (int round = 1; round <= n_rounds; round++)
        for (int i = 0; i < c->n; i++) {
            char suffix[16] = "";
            struct tally tally;

            if (n_rounds > 1)
                snprintf(suffix, sizeof(suffix), ".%d", round);
            tell_run(c, i, round, c->out[i].n_steps);
            VP_TRY(run_one(c, &c->configs[i], c->out[i].name, suffix,
                           c->out[i].n_steps, &tally, err));
            c->rounds[i * n_rounds + round - 1] = tally.round;
        }
    return VP_OK;
}

static enum vp_status compare(const struct comparison *c, struct vp_err *err)
{
    int n_rounds = c->options->n_rounds;

    if (!c->plans || !c->rounds)
        return vp_err_set(err, VP_ERR_NOMEM, "comparison: out of memory");
    VP_TRY(plan_all(c, err));
    for (int i = 0; i < c->n; i++)
        VP_TRY(simulate(c, i, err));
    VP_TRY(measure_all(c, err));
    for (int i = 0; i < c->n; i++)
        vp_compare_sum_up(&c->rounds[i * n_rounds], n_rounds, &c->out[i]);
    return VP_OK;
}

enum vp_status vp_compare_run(const struct vp_config *configs, int n,
                              const struct vp_compare_options *options,
                              const struct vp_compare_events *events,
                              struct vp_contestant *out, struct vp_err *err)
{
    struct comparison c = {
        .configs = configs,
        .n = n,
        .options = options,
        .events = events,
        .out = out,
        .plans = calloc((size_t)n, sizeof(*c.plans)),
        .rounds = calloc((size_t)n * (size_t)options->n_rounds,
                         sizeof(*c.rounds)),
    };
    enum vp_status st = compare(&c, err);

    free(c.rounds);
    free(c.plans);
    return st;
}
