#include "run/auto_plan.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "job/job_phase.h"
#include "plan/plan_json.h"
#include "run/plan_history.h"
#include "run/plan_numbers.h"
#include "run/planning.h"
#include "run/resume.h"
#include "run/share_text.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the lead has decided. */
struct decision {
    char *line, *plan; /* to be freed */
    struct vp_plan_numbers numbers;
};

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "auto_plan: out of memory; close other programs");
}

/* ---- The plan of a run that goes on ------------------------------------- */

/* The folder of the run that goes on. */
struct old_run {
    char plan[PATH_MAX]; /* plan.json; "": there is no folder */
    struct vp_config config;
    bool loaded; /* config.yml was good */
};

/* What is wrong with the folder is said when it is opened. */
static void open_old(const char *resume, struct old_run *out)
{
    char folder[PATH_MAX - 16], path[PATH_MAX];
    struct vp_err why;

    *out = (struct old_run){ .loaded = false };
    if (!resume ||
        vp_resume_folder(resume, folder, sizeof(folder), NULL) != VP_OK)
        return;
    snprintf(out->plan, sizeof(out->plan), "%s/plan.json", folder);
    snprintf(path, sizeof(path), "%s/config.yml", folder);
    out->loaded = vp_config_load(path, NULL, 0, &out->config, &why) == VP_OK;
    if (!out->loaded)
        vp_config_release(&out->config);
}

static void close_old(struct old_run *old)
{
    if (old->loaded)
        vp_config_release(&old->config);
}

/* Without auto_plan only a plan that the run moved to is kept. */
static bool is_wanted(const struct vp_config *config, const char *text)
{
    int64_t step;

    return config->auto_plan == VP_AUTO_PLAN_ON ||
           vp_plan_history_moved(text, &step);
}

static void tell_kept(const char *path, const char *text,
                      struct vp_strbuf *line)
{
    int64_t step;

    vp_strbuf_addf(line, "plan: %s is kept", path);
    if (vp_plan_history_moved(text, &step))
        vp_strbuf_addf(line, ", which the run moved to after step %lld",
                       (long long)step);
}

/* Keeps the plan of the run that goes on, if it is for as many ranks. */
static enum vp_status keep_stored(const struct vp_config *config,
                                  const struct old_run *old,
                                  struct decision *out, struct vp_strbuf *line,
                                  struct vp_err *err)
{
    struct vp_arena arena = { NULL };
    const char *path = old->plan;
    struct vp_plan plan;
    size_t n_bytes;
    enum vp_status st;
    char *text;

    if (!path[0] || access(path, F_OK) != 0)
        return VP_OK;
    VP_TRY(vp_file_read(path, "JSON", &text, &n_bytes, err));
    if (!is_wanted(config, text)) {
        free(text);
        return VP_OK;
    }
    st = vp_plan_parse(text, strlen(text), path, &arena, &plan, err);
    if (st != VP_OK) {
        vp_err_suffix(err, ", or plan again with --set auto_plan=again");
    } else if (config->auto_plan == VP_AUTO_PLAN_OFF &&
               vp_plan_n_ranks(&plan) != vp_config_n_ranks(config)) {
        st = VP_OK; /* the plan of the configuration, then */
    } else if (vp_plan_n_ranks(&plan) != vp_config_n_ranks(config)) {
        vp_strbuf_addf(line,
                       "plan: %s is for %d ranks, this run has %d and is "
                       "planned again: ",
                       path, vp_plan_n_ranks(&plan), vp_config_n_ranks(config));
    } else {
        tell_kept(path, text, line);
        if (old->loaded)
            vp_plan_numbers_keep_ranks(config, &old->config, &out->numbers);
        out->plan = text;
        text = NULL;
    }
    free(text);
    vp_arena_release(&arena);
    return st;
}

/* ---- A new plan --------------------------------------------------------- */

static void add_partition(struct vp_strbuf *line, const struct vp_plan *plan)
{
    vp_strbuf_adds(line, ", partition [");
    for (int s = 0; s < vp_plan_n_stages(plan); s++)
        vp_strbuf_addf(line, "%s%d", s ? ", " : "", plan->partition[s]);
    vp_strbuf_adds(line, "]");
}

static void add_memory(struct vp_strbuf *line,
                       const struct vp_planning *planning,
                       const struct vp_search_result *result)
{
    char most_text[VP_BYTES_TEXT], limit_text[VP_BYTES_TEXT];
    int64_t limit = vp_planning_memory(planning);

    vp_bytes_text(vp_search_largest_rank(result), most_text, sizeof(most_text));
    vp_bytes_text(limit, limit_text, sizeof(limit_text));
    vp_strbuf_addf(line, ", at most %s of memory", most_text);
    if (limit > 0)
        vp_strbuf_addf(line, " of %s", limit_text);
}

/* Why this one: how the other schedules did. */
static void add_reason(struct vp_strbuf *line,
                       const struct vp_search_result *result)
{
    int n_slower = 0, n_memory = 0;

    for (int i = 0; i < result->n_refused; i++) {
        n_slower += result->refused[i].kind == VP_SEARCH_SLOWER;
        n_memory += result->refused[i].kind == VP_SEARCH_MEMORY;
    }
    if (n_slower == 1 && n_memory > 0)
        vp_strbuf_addf(line, "; the only one of %d schedules that fits",
                       n_slower + n_memory);
    else
        vp_strbuf_addf(line, "; the fastest of %d schedules that fit, of %d",
                       n_slower, n_slower + n_memory);
}

static void describe(const struct vp_planning *planning,
                     const struct vp_search_result *result,
                     const struct vp_plan_numbers *numbers,
                     struct vp_strbuf *line)
{
    char schedule[64];

    vp_planning_schedule_text(&result->plan, schedule, sizeof(schedule));
    vp_strbuf_adds(line, line->n_bytes ? "" : "plan: ");
    for (int i = 0; i < numbers->n; i++)
        vp_strbuf_addf(line, "%s, ", numbers->sets[i]);
    vp_strbuf_adds(line, schedule);
    add_partition(line, &result->plan);
    vp_strbuf_addf(line, ", %.3g %% recomputed",
                   100.0 * vp_search_recomputed(result));
    vp_strbuf_addf(line,
                   "; forecast %.4g ms per step, %.4g samples/s, "
                   "bubble %.1f %%",
                   1e3 * result->time.step,
                   (double)vp_planning_batch(planning) / result->time.per_mb,
                   100.0 * result->time.bubble);
    add_memory(line, planning, result);
    add_reason(line, result);
    vp_strbuf_addf(line, "; %s", vp_planning_note(planning));
}

static enum vp_status search(const struct vp_config *config, bool measure,
                             struct decision *out, struct vp_strbuf *line,
                             struct vp_err *err)
{
    const struct vp_planning_options options = { .measure = measure };
    struct vp_search_result *result = calloc(1, sizeof(*result));
    struct vp_planning *planning = NULL;
    enum vp_status st;

    if (!result)
        return no_memory(err);
    st = vp_planning_open(config, &options, &planning, err);
    if (st == VP_OK)
        st = vp_search_run(vp_planning_search(planning),
                           vp_planning_input(planning), result, err);
    if (st == VP_OK) {
        describe(planning, result, &out->numbers, line);
        if (vp_planning_print(planning, result, &out->plan) != VP_OK)
            st = no_memory(err);
        vp_search_result_release(result);
    } else if (st != VP_ERR_NOMEM) {
        st = st == VP_ERR_IO ? VP_ERR_INVALID : st; /* a profile not there */
        vp_err_prefix(err, "%s: key 'auto_plan'",
                      vp_config_place(config, "auto_plan"));
    }
    vp_planning_close(planning);
    free(result);
    return st;
}

/* Loads the configuration again, with numbers in place of auto and, if it is
 * there, a plan. Release `out` also after an error. */
static enum vp_status reload(const struct vp_config_source *source,
                             const struct vp_plan_numbers *numbers,
                             const char *plan, struct vp_config *out,
                             struct vp_err *err)
{
    struct vp_config_source from = *source;
    const char **sets = vp_plan_numbers_add(numbers, &from);
    enum vp_status st;

    *out = (struct vp_config){ .path = NULL };
    if (!sets)
        return no_memory(err);
    from.plan = plan;
    st = vp_config_load_from(&from, out, err);
    free(sets);
    return st;
}

/* Other processes wait for the lead as long as they hear of it. */
static void tell_alive(void *ctx)
{
    struct vp_world *world = ctx;
    char busy = 1;

    if (world)
        (void)!vp_world_share(world, &busy, 1, VP_LIMIT_NEVER);
}

/* Replaces the numbers that say auto, in `config`, too. */
static enum vp_status choose_numbers(const struct vp_auto_plan_options *options,
                                     struct vp_config *config,
                                     struct vp_plan_numbers *numbers,
                                     struct vp_err *err)
{
    struct vp_plan_numbers_config with = {
        .source = options->source,
        .config = config,
        .planning = { .measure = options->measure },
        .alive = tell_alive,
        .ctx = options->world,
    };
    struct vp_plan_numbers more;
    const char **sets;
    enum vp_status st;

    if (config->auto_keys == 0)
        return VP_OK;
    sets = vp_plan_numbers_add(numbers, &with.source);
    if (!sets)
        return no_memory(err);
    st = vp_plan_numbers_choose(&with, &more, err);
    free(sets);
    VP_TRY(st);
    vp_plan_numbers_join(numbers, &more);
    vp_config_release(config);
    return reload(&options->source, numbers, NULL, config, err);
}

/* Numbers, then the plan for them. */
static enum vp_status plan_anew(const struct vp_auto_plan_options *options,
                                struct decision *out, struct vp_strbuf *line,
                                struct vp_err *err)
{
    struct vp_config config;
    enum vp_status st = reload(&options->source, &out->numbers, NULL, &config,
                               err);

    if (st == VP_OK)
        st = choose_numbers(options, &config, &out->numbers, err);
    if (st == VP_OK)
        st = search(&config, options->measure, out, line, err);
    vp_config_release(&config);
    return st;
}

static enum vp_status decide(const struct vp_config *config,
                             const struct vp_auto_plan_options *options,
                             struct decision *out, struct vp_err *err)
{
    struct vp_strbuf line = VP_STRBUF_INIT;
    enum vp_status st = VP_OK;
    struct old_run old;

    open_old(options->resume, &old);
    if (old.loaded)
        vp_plan_numbers_keep(config, &old.config, &out->numbers);
    if (config->auto_plan != VP_AUTO_PLAN_AGAIN)
        st = keep_stored(config, &old, out, &line, err);
    if (old.loaded && !out->plan)
        vp_plan_numbers_keep_members(config, &old.config, &out->numbers);
    if (st == VP_OK && !out->plan && config->auto_plan != VP_AUTO_PLAN_OFF)
        st = plan_anew(options, out, &line, err);
    if (st == VP_OK && out->plan &&
        vp_strbuf_detach(&line, &out->line) != VP_OK)
        st = no_memory(err);
    vp_strbuf_release(&line);
    close_old(&old);
    return st;
}

/* ---- Several processes -------------------------------------------------- */

/* Gives all processes what the lead has decided. `st`: whether it could. */
static enum vp_status share(struct vp_world *world, enum vp_status st,
                            struct decision *decision, struct vp_err *err)
{
    bool is_lead = vp_world_is_mine(world, vp_world_lead(world));
    char *line = NULL, *plan = NULL, busy = 0, found = decision->plan != NULL;

    do {
        if (vp_world_share(world, &busy, 1, VP_LIMIT_NEVER) != VP_OK)
            return vp_err_set(err, VP_ERR_ABORTED, "plan: the lead is gone");
    } while (busy);
    VP_TRY(vp_world_agree(world, st, VP_LIMIT_NEVER, err));
    if (vp_world_share(world, &decision->numbers, sizeof(decision->numbers),
                       VP_LIMIT_NEVER) != VP_OK ||
        vp_world_share(world, &found, 1, VP_LIMIT_NEVER) != VP_OK)
        return vp_err_set(err, VP_ERR_ABORTED, "plan: the lead is gone");
    if (!found)
        return VP_OK;
    VP_TRY(vp_share_text(world, is_lead ? decision->line : NULL, &line, err));
    st = vp_share_text(world, is_lead ? decision->plan : NULL, &plan, err);
    if (st != VP_OK) {
        free(line);
        return st;
    }
    free(decision->line);
    free(decision->plan);
    decision->line = line;
    decision->plan = plan;
    return VP_OK;
}

/* Puts the configuration with the plan in the place of the one without. */
static enum vp_status apply(const struct vp_auto_plan_options *options,
                            const struct decision *decision,
                            struct vp_config *config, struct vp_err *err)
{
    struct vp_config planned;
    enum vp_status st = reload(&options->source, &decision->numbers,
                               decision->plan, &planned, err);

    if (st != VP_OK) {
        vp_config_release(&planned);
        return st;
    }
    vp_config_release(config);
    *config = planned;
    return VP_OK;
}

/* Processes may have been given different options, which is refused later: what
 * those of the lead say counts. */
static bool may_have_plan(const struct vp_config *config,
                          const struct vp_auto_plan_options *options)
{
    return config->auto_plan != VP_AUTO_PLAN_OFF ||
           (options->resume && !config->piped && !vp_config_sets_plan(config));
}

enum vp_status vp_auto_plan(struct vp_config *config,
                            const struct vp_auto_plan_options *options,
                            char **line_out, struct vp_err *err)
{
    struct vp_world *world = options->world;
    struct decision decision = { .line = NULL };
    enum vp_status st = VP_OK;

    *line_out = NULL;
    if (!world && !may_have_plan(config, options))
        return VP_OK;
    if (config->piped && config->auto_plan != VP_AUTO_PLAN_OFF)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: auto_plan reads the configuration again, and a "
                          "pipe can be read once; write it to a file",
                          config->path);
    vp_job_phase_set(VP_JOB_PHASE_PLAN, NULL);
    if ((!world || vp_world_is_mine(world, vp_world_lead(world))) &&
        may_have_plan(config, options))
        st = decide(config, options, &decision, err);
    if (world)
        st = share(world, st, &decision, err);
    if (st == VP_OK && decision.plan) {
        st = apply(options, &decision, config, err);
        if (world)
            st = vp_world_agree(world, st, VP_LIMIT_NEVER, err);
    }
    free(decision.plan);
    if (st == VP_OK)
        *line_out = decision.line;
    else
        free(decision.line);
    return st;
}
