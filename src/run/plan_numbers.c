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
    int accumulation_steps, replicas, mp_size;
    int n_groups; /* ranks of the schedule: of all ranks, one in mp_size */
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

static bool says_auto(const struct vp_config *config, enum vp_auto_key key)
{
    return config->auto_keys >> key & 1;
}

static bool is_auto(const struct choice *choice, enum vp_auto_key key)
{
    return says_auto(choice->with->config, key);
}

/* ---- Sets --------------------------------------------------------------- */

/* Returns the buffer for "key=...": that of an earlier set of the key, or another. */
static char *set_of(struct vp_plan_numbers *out, const char *key)
{
    size_t n = strcspn(key, "=");

    for (int i = 0; i < out->n; i++)
        if (strncmp(out->sets[i], key, n) == 0 && out->sets[i][n] == '=')
            return out->sets[i];
    VP_BUG_ON(out->n == VP_PLAN_NUMBERS_MAX);
    return out->sets[out->n++];
}

static void set_number(struct vp_plan_numbers *out, const char *key,
                       int64_t number)
{
    snprintf(set_of(out, key), VP_PLAN_NUMBERS_BYTES, "%s=%lld", key,
             (long long)number);
}

/* Lists by stage are not the user's any more. */
static void set_stages(struct vp_plan_numbers *out, int n_stages)
{
    out->stages = true;
    set_number(out, "stages", n_stages);
}

static void set_replicas(struct vp_plan_numbers *out, int n_stages,
                         int n_replicas)
{
    char *text = set_of(out, "replicas");
    size_t used;

    used = (size_t)snprintf(text, VP_PLAN_NUMBERS_BYTES, "replicas=[");
    for (int s = 0; s < n_stages && used < VP_PLAN_NUMBERS_BYTES; s++)
        used += (size_t)snprintf(text + used, VP_PLAN_NUMBERS_BYTES - used,
                                 "%d%s", n_replicas,
                                 s + 1 < n_stages ? "," : "]");
}

/* Returns the configured replicas of stage 0; 1 if none are configured. With
 * `mp_size: auto` all stages have the same number; see check_replicas(). */
static int replicas_of(const struct vp_config *config)
{
    return config->replicas.n > 0 ? config->replicas.at[0] : 1;
}

static void print_sets(const struct choice *choice,
                       const struct numbers *numbers,
                       struct vp_plan_numbers *out)
{
    int n_replicas = numbers->replicas > 0 ? numbers->replicas
                                           : replicas_of(choice->with->config);

    *out = (struct vp_plan_numbers){ .n_tried = choice->n_tried };
    if (numbers->batch_size > 0)
        set_number(out, "batch_size", numbers->batch_size);
    if (numbers->accumulation_steps > 0)
        set_number(out, "accumulation_steps", numbers->accumulation_steps);
    if (numbers->mp_size > 0)
        set_number(out, "mp_size", numbers->mp_size);
    if (numbers->mp_size > 0 || numbers->replicas > 0)
        set_stages(out, numbers->n_groups / n_replicas);
    if (numbers->replicas > 0 || (numbers->mp_size > 0 && n_replicas > 1))
        set_replicas(out, numbers->n_groups / n_replicas, n_replicas);
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
                          const struct vp_config *run,
                          struct vp_plan_numbers *numbers)
{
    if (says_auto(config, VP_AUTO_BATCH_SIZE))
        set_number(numbers, "batch_size", run->batch_size);
    if (says_auto(config, VP_AUTO_ACCUMULATION_STEPS) &&
        run->sync_mode == VP_SYNC_BSP)
        set_number(numbers, "accumulation_steps", run->accumulation_steps);
}

void vp_plan_numbers_keep_ranks(const struct vp_config *config,
                                const struct vp_config *run,
                                struct vp_plan_numbers *numbers)
{
    bool members = says_auto(config, VP_AUTO_MP_SIZE);

    if (!members && !says_auto(config, VP_AUTO_REPLICAS))
        return;
    set_stages(numbers, run->stages);
    if (!members || replicas_of(run) > 1)
        set_replicas(numbers, run->stages, replicas_of(run));
    if (members)
        set_number(numbers, "mp_size", run->mp_size);
}

void vp_plan_numbers_keep_members(const struct vp_config *config,
                                  const struct vp_config *run,
                                  struct vp_plan_numbers *numbers)
{
    int n_stages = config->stages / run->mp_size;

    if (!says_auto(config, VP_AUTO_MP_SIZE) ||
        n_stages * run->mp_size != config->stages)
        return;
    set_number(numbers, "mp_size", run->mp_size);
    if (run->mp_size == 1)
        return;
    set_stages(numbers, n_stages);
    if (replicas_of(config) > 1)
        set_replicas(numbers, n_stages, replicas_of(config));
}

void vp_plan_numbers_join(struct vp_plan_numbers *numbers,
                          const struct vp_plan_numbers *more)
{
    for (int i = 0; i < more->n; i++)
        memcpy(set_of(numbers, more->sets[i]), more->sets[i],
               sizeof(more->sets[i]));
    numbers->stages |= more->stages;
}

/* ---- One combination ---------------------------------------------------- */

static enum vp_status plan_one(struct choice *choice,
                               const struct vp_config *config, double *rate_out,
                               struct vp_err *err)
{
    struct vp_planning_options options = choice->with->planning;
    struct vp_planning *planning;
    enum vp_status st;

    /* A stored profile is for one batch size and one mp_size: comparing them needs
     * the same kind of profile for all. */
    if ((is_auto(choice, VP_AUTO_BATCH_SIZE) ||
         is_auto(choice, VP_AUTO_MP_SIZE)) &&
        !options.profile && !config->profile && !options.measure)
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
    int most = MOST_PER_RANK * numbers.n_groups;
    double rate, before = 0.0;

    if (!is_auto(choice, VP_AUTO_ACCUMULATION_STEPS) ||
        choice->with->config->sync_mode == VP_SYNC_ASP)
        return try_numbers(choice, &numbers, rate_out, err);
    *rate_out = 0.0;
    for (int n = numbers.n_groups; n <= most; n *= 2) {
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

static enum vp_status try_replicas(struct choice *choice,
                                   struct numbers numbers, struct vp_err *err)
{
    if (!is_auto(choice, VP_AUTO_REPLICAS))
        return try_batches(choice, numbers, err);
    for (int r = 1; r <= numbers.n_groups; r++) {
        if (numbers.n_groups % r != 0)
            continue;
        numbers.replicas = r;
        VP_TRY(try_batches(choice, numbers, err));
    }
    return VP_OK;
}

/* Sizes that do not divide heads or ffn are refused when they are tried. */
static enum vp_status try_members(struct choice *choice, struct vp_err *err)
{
    const struct vp_config *config = choice->with->config;
    int n_replicas = is_auto(choice, VP_AUTO_REPLICAS) ? 1
                                                       : replicas_of(config);
    struct numbers numbers = { .n_groups = vp_config_n_groups(config) };

    if (!is_auto(choice, VP_AUTO_MP_SIZE))
        return try_replicas(choice, numbers, err);
    for (int m = 1; m <= choice->n_ranks; m++) {
        if (choice->n_ranks % (m * n_replicas) != 0)
            continue;
        numbers.mp_size = m;
        numbers.n_groups = choice->n_ranks / m;
        VP_TRY(try_replicas(choice, numbers, err));
    }
    return VP_OK;
}

/* Stages become fewer: only one number can be that of all of them. */
static enum vp_status check_replicas(const struct choice *choice,
                                     struct vp_err *err)
{
    const struct vp_config *config = choice->with->config;

    for (int s = 1; is_auto(choice, VP_AUTO_MP_SIZE) && s < config->replicas.n;
         s++)
        if (config->replicas.at[s] != config->replicas.at[0])
            return vp_err_set(
                err, VP_ERR_INVALID,
                "%s: key 'mp_size' is auto, but replicas (%s) differ, and the "
                "number of stages is not known yet; give all stages the same "
                "number, or set replicas: auto",
                vp_config_place(config, "mp_size"),
                vp_config_place(config, "replicas"));
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
    enum vp_status st = choice.result ? check_replicas(&choice, err)
                                      : VP_ERR_NOMEM;

    if (st == VP_OK)
        st = try_members(&choice, err);

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
