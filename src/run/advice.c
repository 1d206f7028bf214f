/* Remedies for plans that do not fit: every candidate is planned and priced
 * again, without a device. */
#include "run/advice.h"

#include "base/host.h"
#include "base/strbuf.h"
#include "config/buckets.h"
#include "config/resolve.h"
#include "runtime/fit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Planning again ----------------------------------------------------- */

/* Returns a copy of `train` without the arrays that have one entry per rank of
 * this run, so that plans with other numbers of ranks can be made for the same
 * machine. */
static struct vp_train_config same_machine(const struct vp_train_config *train)
{
    struct vp_train_config like = *train;

    like.plan.devices = NULL;
    like.rank_numbers = NULL;
    like.blackboxes = NULL;
    return like;
}

/* Prices the plan of `train`. Returns false if no such plan can be made. */
static bool price(struct vp_train_config train, struct vp_priced_plan *out)
{
    struct vp_err err;

    train.backend_config.plan_only = true;
    return vp_priced_plan_make(&train, out, &err) == VP_OK;
}

struct outcome {
    enum vp_lack lack;
    int64_t peak;  /* bytes of the largest stage */
    int64_t saved; /* the same, with the snapshot that checkpoints need */
};

static struct outcome outcome_of(const struct vp_train_config *train,
                                 const struct vp_priced_plan *priced)
{
    struct vp_err err;
    struct outcome outcome = { .lack = vp_fit_lacks(train, &priced->schedule,
                                                    priced->stages, &err) };

    for (int s = 0; s < priced->schedule.n_stages; s++) {
        const struct vp_stage_price *stage = &priced->stages[s];
        int64_t saved = stage->memory.total + stage->snapshot;

        if (stage->memory.total > outcome.peak)
            outcome.peak = stage->memory.total;
        outcome.saved = saved > outcome.saved ? saved : outcome.saved;
    }
    return outcome;
}

/* Plans `config` for the machine of `like`. Returns false if no such plan can
 * be made. */
static bool try_plan(const struct vp_config *config,
                     const struct vp_train_config *like, struct outcome *out)
{
    struct vp_graph graphs[VP_MAX_BUCKETS] = { 0 };
    struct vp_dims dims[VP_MAX_BUCKETS];
    struct vp_train_config train = *like;
    struct vp_priced_plan priced;
    struct vp_err err;
    bool possible;

    train.graphs = graphs;
    train.n_graphs = vp_buckets_make(config, dims);
    vp_resolve_train(config, &train);
    train.backend_config.plan_only = true;
    possible = vp_buckets_build(config, dims, train.n_graphs, graphs, &err) ==
                   VP_OK &&
               price(train, &priced);
    if (possible) {
        *out = outcome_of(&train, &priced);
        vp_priced_plan_release(&priced);
    }
    for (int i = 0; i < train.n_graphs; i++)
        vp_graph_release(&graphs[i]);
    return possible;
}

static bool fits(const struct vp_config *config,
                 const struct vp_train_config *like)
{
    struct outcome outcome;

    return try_plan(config, like, &outcome) && outcome.lack == VP_LACK_NONE;
}

/* ---- One key ------------------------------------------------------------ */

/* Returns the largest of batch_size / 2, / 4, ... that fits; 0 if none does, or
 * if the run is resumed: a resumed run must keep its batch_size. */
static int64_t find_batch(const struct vp_config *config,
                          const struct vp_train_config *like)
{
    struct vp_config copy = *config;
    bool tokens = config->model->task == VP_TASK_TRANSLATION;
    int64_t least = tokens ? config->seq_length : 1;

    while (!like->loader && copy.batch_size / 2 >= least) {
        copy.batch_size /= 2;
        if (fits(&copy, like))
            return copy.batch_size;
    }
    return 0;
}

/* Returns a copy of `config` with `ratio` for all stages, in place of the
 * plan's recompute sets. `all` holds the list, and must live as long as the
 * copy. */
static struct vp_config with_ratio(const struct vp_config *config, double ratio,
                                   double all[VP_MAX_STAGES])
{
    struct vp_config copy = *config;
    int n = vp_config_n_stages(config);

    for (int s = 0; s < n; s++)
        all[s] = ratio;
    copy.recompute = true;
    copy.recompute_sets = NULL;
    copy.recompute_ratio = (struct vp_real_list){ .at = all, .n = n };
    return copy;
}

/* Returns the smallest of the tried ratios that fits; 0 if none does. */
static double find_ratio(const struct vp_config *config,
                         const struct vp_train_config *like)
{
    static const double ratios[] = { 0.25, 0.5, 0.75, 1.0 };
    double all[VP_MAX_STAGES];

    for (size_t i = 0; i < VP_COUNT_OF(ratios); i++) {
        struct vp_config copy = with_ratio(config, ratios[i], all);

        if (fits(&copy, like))
            return ratios[i];
    }
    return 0.0;
}

/* Returns the largest of the tried ratios that fits and is below the largest
 * swap_ratio of `config`; -1 if there is none. */
static double find_swap(const struct vp_config *config,
                        const struct vp_train_config *like)
{
    static const double ratios[] = { 0.75, 0.5, 0.25, 0.0 };
    int n = vp_config_n_stages(config);
    double all[VP_MAX_STAGES], most = 0.0;
    struct vp_config copy = *config;

    for (int s = 0; s < config->swap_ratio.n; s++)
        most = config->swap_ratio.at[s] > most ? config->swap_ratio.at[s]
                                               : most;
    copy.swap_ratio = (struct vp_real_list){ .at = all, .n = n };
    for (size_t i = 0; i < VP_COUNT_OF(ratios); i++) {
        for (int s = 0; s < n; s++)
            all[s] = ratios[i];
        if (ratios[i] < most && fits(&copy, like))
            return ratios[i];
    }
    return -1.0;
}

/* Returns true if `stages` can be changed without changing any other key. */
static bool is_free_to_cut(const struct vp_config *config)
{
    static const char *const keys[] = { "partition",     "config_file",
                                        "replicas",      "ranks",
                                        "warmup_depths", "machines" };

    for (size_t i = 0; i < VP_COUNT_OF(keys); i++)
        if (vp_config_given(config, keys[i]))
            return false;
    return config->recompute_ratio.n == 0 || config->recompute_ratio.for_all;
}

/* Resolves `config` with `n` stages into `copy`. Returns false if that is not
 * possible. `copy` has an arena of its own, which the caller releases in both
 * cases. */
static bool cut_anew(const struct vp_config *config, int n,
                     struct vp_config *copy)
{
    struct vp_dims dims[VP_MAX_BUCKETS];
    size_t n_bytes = (size_t)config->n_origins * sizeof(*copy->origins);
    bool masked = config->model->task == VP_TASK_MASKED_LM;
    int n_dims = vp_buckets_make(config, dims);
    struct vp_err err;

    *copy = *config;
    copy->arena = (struct vp_arena){ NULL };
    if (!is_free_to_cut(config))
        return false;
    copy->origins = vp_arena_alloc(&copy->arena, n_bytes);
    if (!copy->origins)
        return false;
    memcpy(copy->origins, config->origins, n_bytes);
    copy->stages = n;
    copy->partition = (struct vp_int_list){ .n = 0 };
    return vp_resolve_pipeline(copy, &dims[masked ? 0 : n_dims - 1], &err) ==
           VP_OK;
}

/* Returns the smallest of 2, 4, 8, ... times the stages that fits; 0 if none
 * does. */
static int find_stages(const struct vp_config *config,
                       const struct vp_train_config *like)
{
    bool possible = true;
    int found = 0;

    for (int n = 2 * config->stages; possible && !found; n *= 2) {
        struct vp_config copy;

        possible = cut_anew(config, n, &copy);
        if (possible && fits(&copy, like))
            found = n;
        vp_arena_release(&copy.arena);
    }
    return found;
}

static bool is_one_thread_enough(const struct vp_config *config,
                                 const struct vp_train_config *like)
{
    struct vp_train_config train = *like;

    if (train.backend_config.n_threads == 1)
        return false;
    train.backend_config.n_threads = 1;
    return fits(config, &train);
}

/* ---- Remedies ----------------------------------------------------------- */

enum { MAX_REMEDIES = 6 };

struct remedies {
    char text[MAX_REMEDIES][64];
    int n;
};

static void add(struct remedies *out, const char *fmt, ...) VP_PRINTF(2, 3);

static void add(struct remedies *out, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(out->text[out->n++], sizeof(out->text[0]), fmt, args);
    va_end(args);
}

/* Adds the list as "a, b or c". */
static void add_all(const struct remedies *remedies, struct vp_strbuf *out)
{
    for (int i = 0; i < remedies->n; i++) {
        const char *before = i < remedies->n - 1 ? ", " : " or ";

        vp_strbuf_addf(out, "%s%s", i == 0 ? "" : before, remedies->text[i]);
    }
}

static void add_to_message(struct vp_strbuf *remedy, struct vp_err *err)
{
    vp_err_suffix(err, "; %s", vp_strbuf_text(remedy));
    vp_strbuf_release(remedy);
}

/* Returns true if a machine like this one has memory for each stage alone, so
 * that more machines would help. */
static bool is_one_stage_enough(const struct vp_config *config,
                                const struct outcome *now)
{
    return now->lack == VP_LACK_MEMORY && config->stages > 1 &&
           config->chunks == 1 && (size_t)now->saved <= vp_host_memory("");
}

/* Recompute sets of a plan take precedence over a ratio, so the remedy says
 * that they must go. */
static const char *in_place(const struct vp_config *config)
{
    return config->recompute_sets ? " in place of the plan's recompute" : "";
}

static void find_remedies(const struct vp_config *config,
                          const struct vp_train_config *like,
                          const struct outcome *now, struct remedies *out)
{
    int64_t batch = find_batch(config, like);
    double ratio = find_ratio(config, like), swap = -1.0;
    int n = find_stages(config, like);

    if (now->lack == VP_LACK_MEMORY)
        swap = find_swap(config, like);
    if (swap >= 0.0)
        add(out, "swap_ratio %g", swap);
    if (batch > 0)
        add(out, "batch_size %lld", (long long)batch);
    if (ratio > 0.0)
        add(out, "%srecompute_ratio %g%s",
            config->recompute ? "" : "recompute true with ", ratio,
            in_place(config));
    if (n > 0)
        add(out, "stages %d", n);
    if (is_one_thread_enough(config, like))
        add(out, "threads_per_stage 1");
    if (is_one_stage_enough(config, now))
        add(out, "more machines");
}

/* For the case that no single key makes the plan fit. */
static void add_last_resort(const struct vp_config *config,
                            const struct vp_train_config *like,
                            enum vp_lack lack, struct vp_strbuf *out)
{
    double all[VP_MAX_STAGES];
    struct vp_config copy = with_ratio(config, 1.0, all);
    int64_t batch = find_batch(&copy, like);

    if (batch > 0)
        vp_strbuf_addf(out, "use batch_size %lld with recompute_ratio 1%s",
                       (long long)batch, in_place(config));
    else
        vp_strbuf_addf(out, "no batch_size or recompute_ratio makes it fit: %s",
                       lack == VP_LACK_LIMIT ? "raise memory_limit"
                       : lack == VP_LACK_MEMORY
                           ? "use a machine with more memory"
                           : "raise the limit");
}

void vp_advice_remedy(const struct vp_config *config,
                      const struct vp_train_config *train, struct vp_err *err)
{
    struct vp_train_config like = same_machine(train);
    struct remedies remedies = { .n = 0 };
    struct vp_strbuf text = VP_STRBUF_INIT;
    struct outcome now;

    if (!try_plan(config, &like, &now) || now.lack == VP_LACK_NONE)
        return;
    find_remedies(config, &like, &now, &remedies);
    if (remedies.n == 0) {
        add_last_resort(config, &like, now.lack, &text);
    } else {
        vp_strbuf_adds(&text, now.lack == VP_LACK_ADDRESSES
                                  ? "raise the limit, or use "
                                  : "use ");
        add_all(&remedies, &text);
    }
    add_to_message(&text, err);
}

/* ---- A device that is full ---------------------------------------------- */

/* Returns true if the largest stage of `config` is at least 5 % smaller than
 * `peak` bytes. */
static bool is_smaller(const struct vp_config *config,
                       const struct vp_train_config *like, int64_t peak)
{
    struct outcome outcome;

    return try_plan(config, like, &outcome) &&
           (double)outcome.peak < 0.95 * (double)peak;
}

void vp_advice_less(const struct vp_config *config,
                    const struct vp_train_config *train, struct vp_err *err)
{
    struct vp_train_config like = same_machine(train);
    struct remedies remedies = { .n = 0 };
    struct vp_strbuf text = VP_STRBUF_INIT;
    struct vp_config batch = *config, ratio, stages;
    double all[VP_MAX_STAGES];
    struct outcome now;

    if (!try_plan(config, &like, &now))
        return;
    batch.batch_size = (config->batch_size + 1) / 2;
    if (!like.loader && is_smaller(&batch, &like, now.peak))
        add(&remedies, "a smaller batch_size");
    ratio = with_ratio(config, 1.0, all);
    if (is_smaller(&ratio, &like, now.peak))
        add(&remedies, "a larger recompute_ratio%s", in_place(config));
    if (cut_anew(config, 2 * config->stages, &stages) &&
        is_smaller(&stages, &like, now.peak))
        add(&remedies, "more stages");
    vp_arena_release(&stages.arena);
    vp_strbuf_addf(&text, "use %s",
                   remedies.n == 0 ? "a device with more memory" : "");
    add_all(&remedies, &text);
    add_to_message(&text, err);
}

enum vp_status vp_advice_explain(const struct vp_config *config,
                                 const struct vp_train_config *train,
                                 enum vp_status st, struct vp_err *err)
{
    if (st != VP_OK && !err->text[0])
        return st; /* the process that failed has the message */
    if (st == VP_ERR_INVALID) {
        vp_advice_remedy(config, train, err);
        vp_advice_plan(config, train, err);
    }
    if (st == VP_ERR_NOMEM)
        vp_advice_less(config, train, err);
    /* No field: the message names an environment variable, not a key. */
    if ((st == VP_ERR_INVALID || st == VP_ERR_UNSUPPORTED) &&
        (!err->fields || err->fields[0]))
        vp_err_prefix(err, "%s", vp_config_blame(config, err->fields));
    /* Nothing was begun, so this is a refusal, as with memory_limit. */
    return st == VP_ERR_NOMEM ? VP_ERR_UNSUPPORTED : st;
}

/* ---- Recomputation ------------------------------------------------------ */

static bool has_ratio(const struct vp_config *config)
{
    for (int s = 0; s < config->recompute_ratio.n; s++)
        if (config->recompute_ratio.at[s] > 0.0)
            return true;
    return false;
}

/* Adds "stage 3 (one minibatch in flight)": the reason why a ratio saves
 * nothing there. */
static void add_stage(const struct vp_run_stage *stage, int s, bool first,
                      struct vp_strbuf *line)
{
    vp_strbuf_addf(line, "%sstage %d (", first ? "" : ", ", s);
    if (stage->n_slots == 1)
        vp_strbuf_addf(line, "one minibatch in flight)");
    else
        vp_strbuf_addf(line, "%d of %d lines)", stage->n_recomputed_lines,
                       stage->n_lines);
}

bool vp_advice_ratios(const struct vp_config *config,
                      const struct vp_train_config *train,
                      const struct vp_run_stage *stages, struct vp_err *line)
{
    struct vp_train_config like = same_machine(train);
    struct vp_priced_plan with, without;
    struct vp_strbuf text = VP_STRBUF_INIT;
    int n = 0;

    if (!has_ratio(config) || config->recompute_sets)
        return false;
    if (!price(like, &with))
        return false;
    like.plan.recompute_ratio = NULL;
    if (!price(like, &without)) {
        vp_priced_plan_release(&with);
        return false;
    }
    for (int s = 0; s < config->recompute_ratio.n; s++)
        if (config->recompute_ratio.at[s] > 0.0 &&
            with.stages[s].memory.total >= without.stages[s].memory.total)
            add_stage(&stages[s], s, n++ == 0, &text);
    vp_err_set(line, VP_OK,
               "%s: key 'recompute_ratio' saves no memory on %.2000s; set it "
               "to 0 there",
               vp_config_place(config, "recompute_ratio"),
               vp_strbuf_text(&text));
    vp_strbuf_release(&text);
    vp_priced_plan_release(&with);
    vp_priced_plan_release(&without);
    return n > 0;
}
