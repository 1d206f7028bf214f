/* Chooses numbers that are auto: plans every combination of batch size,
 * accumulation and replicas that is worth trying. */
#include "run/plan_numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SAMPLES = 1024, MOST_PER_RANK = 8 };

/* Share that doubling a number must gain for larger numbers to be tried. */
#define WORTH_DOUBLING 0.01

/* One combination; 0: the configuration's own value. */
struct numbers {
    int64_t batch_size;
    int accumulation_steps, replicas;
};

struct choice {
    const struct vp_plan_numbers_config *with;
    int n_ranks;
    double best;            /* samples per second; 0: nothing fits yet */
    struct numbers numbers; /* combination with the rate `best` */
    int n_tried;
    struct vp_err why; /* reason why the first combination was refused */
    struct vp_search_result *result;
};

static bool is_auto(const struct choice *choice, enum vp_auto_key key)
{
    return choice->with->config->auto_keys >> key & 1;
}

/* ---- Sets --------------------------------------------------------------- */

/* Returns the buffer for another set. */
static char *add_set(struct vp_plan_numbers *out)
{
    return out->sets[out->n++];
}

static void add_replicas(int n_stages, int n_replicas,
                         struct vp_plan_numbers *out)
{
    char *text = add_set(out);
    size_t used;

    out->stages = true;
    snprintf(text, VP_PLAN_NUMBERS_BYTES, "stages=%d", n_stages);
    text = add_set(out);
    used = (size_t)snprintf(text, VP_PLAN_NUMBERS_BYTES, "replicas=[");
    for (int s = 0; s < n_stages && used < VP_PLAN_NUMBERS_BYTES; s++)
        used += (size_t)snprintf(text + used, VP_PLAN_NUMBERS_BYTES - used,
                                 "%d%s", n_replicas,
                                 s + 1 < n_stages ? "," : "]");
}

static void print_sets(const struct choice *choice,
                       const struct numbers *numbers,
                       struct vp_plan_numbers *out)
{
    *out = (struct vp_plan_numbers){ .n_tried = choice->n_tried };
    if (numbers->batch_size > 0)
        snprintf(add_set(out), VP_PLAN_NUMBERS_BYTES, "batch_size=%lld",
                 (long long)numbers->batch_size);
    if (numbers->accumulation_steps > 0)
        snprintf(add_set(out), VP_PLAN_NUMBERS_BYTES, "accumulation_steps=%d",
                 numbers->accumulation_steps);
    if (numbers->replicas > 0)
        add_replicas(choice->n_ranks / numbers->replicas, numbers->replicas,
                     out);
}

const char **vp_plan_numbers_add(const struct vp_plan_numbers *numbers,
                                 struct vp_config_source *source)
{
    size_t n = (size_t)(source->n_sets + numbers->n);
    const char **sets = calloc(n + 1, sizeof(*sets));

    if (!sets)
        return NULL;
    for (int i = 0; i < source->n_sets; i++)
        sets[i] = source->sets[i];
    for (int i = 0; i < numbers->n; i++)
        sets[source->n_sets + i] = numbers->sets[i];
    source->sets = sets;
    source->n_sets = (int)n;
    source->unplanned |= numbers->stages;
    return sets;
}

void vp_plan_numbers_keep(const struct vp_config *config,
                          const struct vp_config *run, bool replicas,
                          struct vp_plan_numbers *numbers)
{
    if (replicas && config->auto_keys >> VP_AUTO_REPLICAS & 1)
        add_replicas(run->stages, run->replicas.n ? run->replicas.at[0] : 1,
                     numbers);
    if (replicas)
        return;
    if (config->auto_keys >> VP_AUTO_BATCH_SIZE & 1)
        snprintf(add_set(numbers), VP_PLAN_NUMBERS_BYTES, "batch_size=%lld",
                 (long long)run->batch_size);
    if (config->auto_keys >> VP_AUTO_ACCUMULATION_STEPS & 1 &&
        run->sync_mode == VP_SYNC_BSP)
        snprintf(add_set(numbers), VP_PLAN_NUMBERS_BYTES,
                 "accumulation_steps=%d", run->accumulation_steps);
}

/* ---- One combination ---------------------------------------------------- */

static enum vp_status plan_one(struct choice *choice,
                               const struct vp_config *config, double *rate_out,
                               struct vp_err *err)
{
    struct vp_planning_options options = choice->with->planning;
    struct vp_planning *planning;
    enum vp_status st;

    /* A stored profile is for one batch size: comparing batch sizes needs the
     * same kind of profile for all of them. */
    if (is_auto(choice, VP_AUTO_BATCH_SIZE) && !options.profile &&
        !config->profile && !options.measure)
        options.profile = VP_PROFILE_SYNTHETIC;
    VP_TRY(vp_planning_open(config, &options, &planning, err));
    st = vp_search_run(vp_planning_search(planning),
                       vp_planning_input(planning), choice->result, err);
    if (st == VP_OK) {
        *rate_out = (double)vp_planning_batch(planning) /
                    choice->result->time.per_mb;
        vp_search_result_release(choice->result);
    }
    vp_planning_close(planning);
    return st;
}

/* Plans one combination. `*rate_out` is its samples per second; 0 if the
 * combination is refused or does not fit. */
static enum vp_status try_numbers(struct choice *choice,
                                  const struct numbers *numbers,
                                  double *rate_out, struct vp_err *err)
{
    struct vp_config_source source = choice->with->source;
    struct vp_plan_numbers sets;
    struct vp_config config;
    const char **list;
    enum vp_status st;

    *rate_out = 0.0;
    if (choice->with->alive)
        choice->with->alive(choice->with->ctx);
    print_sets(choice, numbers, &sets);
    list = vp_plan_numbers_add(&sets, &source);
    if (!list)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    source.planning = true;
    st = vp_config_load_from(&source, &config, err);
    if (st == VP_OK)
        st = plan_one(choice, &config, rate_out, err);
    vp_config_release(&config);
    free(list);
    if (st == VP_ERR_UNSUPPORTED || st == VP_ERR_INVALID) {
        if (!choice->why.text[0])
            choice->why = *err;
        return VP_OK;
    }
    VP_TRY(st);
    choice->n_tried++;
    if (*rate_out > choice->best) {
        choice->best = *rate_out;
        choice->numbers = *numbers;
    }
    return VP_OK;
}

/* ---- All ---------------------------------------------------------------- */

/* Finds the best rate of one batch size over accumulation_steps. */
static enum vp_status try_updates(struct choice *choice, struct numbers numbers,
                                  double *rate_out, struct vp_err *err)
{
    int most = MOST_PER_RANK * choice->n_ranks;
    double rate, before = 0.0;

    if (!is_auto(choice, VP_AUTO_ACCUMULATION_STEPS) ||
        choice->with->config->sync_mode == VP_SYNC_ASP)
        return try_numbers(choice, &numbers, rate_out, err);
    *rate_out = 0.0;
    for (int n = choice->n_ranks; n <= most; n *= 2) {
        numbers.accumulation_steps = n;
        VP_TRY(try_numbers(choice, &numbers, &rate, err));
        if (rate > *rate_out)
            *rate_out = rate;
        if (rate < before * (1.0 + WORTH_DOUBLING) || rate == 0.0)
            break;
        before = rate;
    }
    return VP_OK;
}

static enum vp_status try_batches(struct choice *choice, struct numbers numbers,
                                  struct vp_err *err)
{
    const struct vp_config *config = choice->with->config;
    int64_t unit = config->model->task == VP_TASK_TRANSLATION
                       ? config->seq_length
                       : 1;
    double rate, before = 0.0;

    if (!is_auto(choice, VP_AUTO_BATCH_SIZE))
        return try_updates(choice, numbers, &rate, err);
    for (int64_t n = 1; n <= MOST_SAMPLES; n *= 2) {
        numbers.batch_size = n * unit;
        VP_TRY(try_updates(choice, numbers, &rate, err));
        if (rate < before * (1.0 + WORTH_DOUBLING) || rate == 0.0)
            break;
        before = rate;
    }
    return VP_OK;
}

static enum vp_status try_all(struct choice *choice, struct vp_err *err)
{
    struct numbers numbers = { 0 };

    if (!is_auto(choice, VP_AUTO_REPLICAS))
        return try_batches(choice, numbers, err);
    for (int r = 1; r <= choice->n_ranks; r++) {
        if (choice->n_ranks % r != 0)
            continue;
        numbers.replicas = r;
        VP_TRY(try_batches(choice, numbers, err));
    }
    return VP_OK;
}

enum vp_status vp_plan_numbers_choose(const struct vp_plan_numbers_config *with,
                                      struct vp_plan_numbers *out,
                                      struct vp_err *err)
{
    struct choice choice = {
        .with = with,
        .n_ranks = vp_config_n_ranks(with->config),
        .result = calloc(1, sizeof(*choice.result)),
    };
    enum vp_status st = choice.result ? try_all(&choice, err) : VP_ERR_NOMEM;

    free(choice.result);
    if (st == VP_ERR_NOMEM)
        return vp_err_set(err, st, "planning: out of memory");
    VP_TRY(st);
    if (choice.n_tried == 0) {
        *err = choice.why;
        return VP_ERR_UNSUPPORTED;
    }
    print_sets(&choice, &choice.numbers, out);
    return VP_OK;
}
