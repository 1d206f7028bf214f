/* Reads a schedule from a file, a plan or a checkpoint, and compares it with
 * the configuration. */
#include "config/schedule_file.h"

#include "base/file.h"
#include "config/key.h"
#include "sched/schedule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Reading ------------------------------------------------------------ */

enum origin { FROM_FILE, FROM_PLAN, FROM_CHECKPOINT };

/* Refuses a schedule that is not one training step: one group of minibatches
 * with an update at its end. */
static enum vp_status check(const struct vp_schedule *schedule,
                            struct vp_err *err)
{
    VP_TRY(vp_schedule_validate(schedule, err));
    if (schedule->forward_only)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the schedule has no backwards and trains nothing; "
                          "write another one with vpipe schedule");
    if (!schedule->drain || schedule->segment_begin > 0 ||
        schedule->first_mb > 0 ||
        schedule->stages[0].update_every != schedule->n_mb)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the schedule is not a group of minibatches with one "
                          "update at its end, as sync_mode bsp needs; write "
                          "another one with vpipe schedule");
    return VP_OK;
}

static enum vp_status keep(const struct vp_schedule *schedule, const char *path,
                           const char *text, enum origin origin,
                           struct vp_config *config, struct vp_err *err)
{
    struct vp_arena *arena = &config->arena;
    struct vp_schedule_file *file = vp_arena_alloc(arena, sizeof(*file));
    int *replicas = vp_arena_alloc(arena, (size_t)schedule->n_stages *
                                              sizeof(*replicas));
    char *copy = vp_arena_strdup(arena, text);
    struct vp_sched_config base;

    if (!file || !replicas || !copy)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "out of memory; close other programs");
    if (!vp_schedule_base(schedule, replicas, &base))
        return vp_err_set(err, VP_ERR_INVALID,
                          "the stages are on other ranks than those of any "
                          "schedule; place them in order, in turn (as "
                          "interleaved) or in a V (as zb-v)");
    *file = (struct vp_schedule_file){ .path = path,
                                       .n_stages = base.n_stages,
                                       .n_chunks = base.n_chunks,
                                       .n_mb = base.n_mb,
                                       .in_plan = origin == FROM_PLAN,
                                       .is_saved = origin == FROM_CHECKPOINT };
    for (int s = 0; s < base.n_stages; s++)
        if (replicas[s] > 1)
            file->replicas = (struct vp_int_list){ replicas, base.n_stages };
    config->schedule_file = file;
    config->schedule_text = copy;
    config->schedule = vp_generator_index(base.name);
    return VP_OK;
}

static enum vp_status take(const char *path, const char *text,
                           enum origin origin, struct vp_config *config,
                           struct vp_err *err)
{
    struct vp_schedule schedule;
    enum vp_status st;

    VP_TRY(vp_schedule_parse(text, path, &schedule, err));
    st = check(&schedule, err);
    if (st == VP_OK)
        st = keep(&schedule, path, text, origin, config, err);
    if (st != VP_OK)
        vp_err_prefix(err, "%s", path);
    vp_schedule_release(&schedule);
    return st;
}

static bool is_gone(const char *path)
{
    return access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

static enum vp_status take_file(const char *path, struct vp_config *config,
                                struct vp_err *err)
{
    enum vp_status st;
    char *text;
    size_t n;

    if (config->saved_schedule && is_gone(path))
        return take(path, config->saved_schedule, FROM_CHECKPOINT, config, err);
    VP_TRY(vp_file_read(path, "schedule", &text, &n, err));
    st = take(path, text, FROM_FILE, config, err);
    free(text);
    return st;
}

enum vp_status vp_schedule_file_read(const struct vp_entry *entry,
                                     struct vp_config *config,
                                     struct vp_err *err)
{
    const char *path;
    enum vp_status st;

    VP_TRY(vp_entry_path(entry, config, &path, err));
    st = take_file(path, config, err);
    if (st != VP_OK)
        vp_err_prefix(err, "%s: key '%s'", entry->place, entry->key);
    return st;
}

enum vp_status vp_schedule_file_take(const char *plan, const char *text,
                                     struct vp_config *config,
                                     struct vp_err *err)
{
    int schedule = config->schedule;
    enum vp_status st = take(plan, text, FROM_PLAN, config, err);

    /* Lists that were made for auto keep schedule auto. */
    if (st == VP_OK && vp_generator_at(schedule)->planned) {
        config->schedule_v = vp_generator_at(config->schedule)->v_shape;
        config->schedule = schedule;
        config->schedule_file = NULL;
    }
    if (st != VP_OK)
        vp_err_prefix(err, "%s: key 'schedule_text'", plan);
    return st;
}

/* ---- Fitting ------------------------------------------------------------ */

static enum vp_status fit(struct vp_config *config, const char *key, int *value,
                          int want, struct vp_err *err)
{
    if (!vp_config_given(config, key)) {
        *value = want;
        vp_origin_derive(config, key, "as the schedule's file");
    }
    if (*value == want)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key '%s' is %d, but the schedule in %s has %d; "
                      "remove the key, or write another schedule",
                      vp_config_place(config, key), key, *value,
                      config->schedule_file->path, want);
}

static enum vp_status fit_replicas(struct vp_config *config, struct vp_err *err)
{
    const struct vp_schedule_file *file = config->schedule_file;

    if (config->replicas.n == 0) {
        config->replicas = file->replicas;
        if (file->replicas.n > 0)
            vp_origin_derive(config, "replicas", "as the schedule's file");
    }
    for (int s = 0; s < file->n_stages; s++) {
        int want = file->replicas.n > 0 ? file->replicas.at[s] : 1;
        int have = s < config->replicas.n ? config->replicas.at[s] : 1;

        if (have != want)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: key '%s' has %d for stage %d, but the "
                              "schedule in %s has %d; remove the key, or write "
                              "another schedule",
                              vp_config_place(config, "replicas"),
                              vp_config_written(config, "replicas"), have, s,
                              file->path, want);
    }
    return VP_OK;
}

enum vp_status vp_schedule_file_resolve(struct vp_config *config,
                                        struct vp_err *err)
{
    const struct vp_schedule_file *file = config->schedule_file;

    if (!file)
        return VP_OK;
    if (config->warmup_depths.n > 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' has no effect with a schedule from a "
                          "file; remove it",
                          vp_config_place(config, "warmup_depths"),
                          vp_config_written(config, "warmup_depths"));
    VP_TRY(fit(config, "chunks", &config->chunks, file->n_chunks, err));
    VP_TRY(fit(config, "stages", &config->stages, file->n_stages, err));
    VP_TRY(fit(config, "accumulation_steps", &config->accumulation_steps,
               file->n_mb, err));
    return fit_replicas(config, err);
}
