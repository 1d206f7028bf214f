/* Opens a checkpoint to resume from, maps its counters to the stages, and
 * decides which folder the run is continued in. */
#include "run/resume.h"

#include "ckpt/ckpt.h"
#include "run/checkpoint_facts.h"
#include "run/resume_choice.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct vp_resume {
    struct vp_ckpt *ckpt;
    struct vp_loader loader;
    struct vp_block_count *counts; /* per block */
};

/* ---- Tensors ------------------------------------------------------------ */

static enum vp_status load(void *ctx, const struct vp_state_item *item,
                           float *out, struct vp_err *err)
{
    const struct vp_resume *resume = ctx;

    /* Imported weights have no optimizer state. */
    if (item->kind != VP_STATE_WEIGHT &&
        vp_checkpoint_facts_imported(vp_ckpt_facts(resume->ckpt))) {
        memset(out, 0, (size_t)(item->rows * item->cols) * sizeof(*out));
        return VP_OK;
    }
    return vp_checkpoint_load(resume->ckpt, item, out, err);
}

/* ---- Stages ------------------------------------------------------------- */

/* Returns the number of older weight versions that stage `s` keeps. */
static int lag_of(const struct vp_config *config, int s)
{
    if (config->sync_mode == VP_SYNC_BSP)
        return 0;
    if (config->macrobatch)
        return 1;
    if (config->warmup_depths.n > 0)
        return config->warmup_depths.at[s];
    return vp_schedule_depth(config->replicas.n > 0 ? config->replicas.at
                                                    : NULL,
                             vp_config_n_stages(config), s);
}

static enum vp_status map_stages(struct vp_resume *resume,
                                 const struct vp_config *config,
                                 const struct vp_graph *graph,
                                 vp_notice_fn notice, void *ctx,
                                 struct vp_err *err)
{
    struct vp_block_state *blocks = calloc((size_t)graph->n_blocks,
                                           sizeof(*blocks));
    struct vp_progress *progress = &resume->loader.progress;
    const char *place = vp_ckpt_path(resume->ckpt);
    int n_stages = vp_config_n_stages(config);
    int n_of[VP_MAX_STAGES], lags[VP_MAX_STAGES];
    enum vp_status st;

    resume->counts = calloc((size_t)graph->n_blocks, sizeof(*resume->counts));
    resume->loader.blocks = resume->counts;
    if (!blocks || !resume->counts) {
        free(blocks);
        return vp_err_set(err, VP_ERR_NOMEM, "resuming: out of memory");
    }
    progress->step = vp_ckpt_step(resume->ckpt);
    st = vp_checkpoint_facts_progress(vp_ckpt_facts(resume->ckpt), place,
                                      graph->n_blocks, progress, blocks, err);
    for (int s = 0; s < n_stages; s++) {
        n_of[s] = config->partition.n > 0 ? config->partition.at[s]
                                          : graph->n_blocks;
        lags[s] = lag_of(config, s);
    }
    for (int b = 0; b < graph->n_blocks; b++)
        resume->counts[b] = (struct vp_block_count){
            blocks[b].updates, blocks[b].scale.n_skipped
        };
    if (st == VP_OK &&
        !vp_progress_join(blocks, n_of, lags, n_stages, progress))
        notice(ctx, "saved under other depths: minibatches start on the newest "
                    "weights, so results differ from those of an uninterrupted "
                    "run");
    free(blocks);
    return st;
}

/* ---- Folders ------------------------------------------------------------ */

static bool exists(const char *folder, const char *name, char *out, size_t n)
{
    return (size_t)snprintf(out, n, "%s/%s", folder, name) < n &&
           access(out, F_OK) == 0;
}

/* Cuts the last component off an absolute path. Returns that component. */
static const char *cut_name(char *path)
{
    char *slash = strrchr(path, '/');

    *slash = '\0';
    return slash + 1;
}

/* Returns true if the checkpoint can be opened, which verifies all its
 * bytes. */
static bool is_sound(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct vp_ckpt *ckpt = NULL;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >=
            sizeof(path) ||
        vp_ckpt_open(path, &ckpt, NULL) != VP_OK)
        return false;
    vp_ckpt_close(ckpt);
    return true;
}

enum vp_status vp_resume_check_newest(const char *run, const char *path,
                                      struct vp_err *err)
{
    char folder[PATH_MAX], file[PATH_MAX + 16];
    struct vp_ckpt_entry *list = NULL;
    int64_t newer = -1, step = -1;
    const char *name;
    int n = 0;

    if (!exists(path, "manifest.json", file, sizeof(file)) ||
        !realpath(path, folder))
        return VP_OK;
    name = cut_name(folder);
    VP_TRY(vp_ckpt_list(folder, &list, &n, err));
    for (int i = 0; i < n && step < 0; i++) {
        if (strcmp(list[i].name, name) == 0)
            step = list[i].step;
        else if (newer < 0 && is_sound(folder, list[i].name))
            newer = list[i].step;
    }
    free(list);
    if (step < 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s/%s does not have the name it was saved under; "
                          "name a folder for the run that goes on: --output "
                          "DIR",
                          folder, name);
    if (newer > step)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s went on to step %lld; to go on from step %lld, "
                          "name another folder: --output DIR",
                          run, (long long)newer, (long long)step);
    return VP_OK;
}

enum vp_status vp_resume_folder(const char *path, char *out, size_t n,
                                struct vp_err *err)
{
    char run[PATH_MAX], file[PATH_MAX + 16];
    bool is_one = exists(path, "manifest.json", file, sizeof(file));

    if (is_one || !exists(path, "checkpoints", file, sizeof(file))) {
        if (!realpath(path, run))
            return vp_resume_choice_none(path, err);
        if (is_one)
            cut_name(run);
        if (strcmp(cut_name(run), "checkpoints") != 0 && !is_one)
            return vp_resume_choice_none(path, err);
        if (!exists(run, "checkpoints", file, sizeof(file)) ||
            !exists(run, "config.yml", file, sizeof(file)))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s is not in the folder of a run; name a folder "
                              "for the run that goes on: --output DIR",
                              path);
        path = run;
    }
    if ((size_t)snprintf(out, n, "%s", path) >= n)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.80s...: path is too long; choose another --output",
                          path);
    return VP_OK;
}

bool vp_resume_is_folder(const char *path, const char *folder)
{
    char run[PATH_MAX];
    struct stat own, named;

    return vp_resume_folder(path, run, sizeof(run), NULL) == VP_OK &&
           stat(run, &own) == 0 && stat(folder, &named) == 0 &&
           own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

/* ---- Facts of the newest checkpoint ------------------------------------- */

/* Reads the facts of the newest checkpoint whose manifest can be read. `path`
 * is as for vp_resume_open(). Returns NULL if there is none. */
static struct vp_facts *read_newest_facts(const char *path)
{
    char folder[PATH_MAX], file[2 * PATH_MAX];
    struct vp_ckpt_entry *list = NULL;
    struct vp_facts *facts = NULL;
    int n = 0;

    if (exists(path, "manifest.json", file, sizeof(file)))
        return vp_ckpt_read_facts(path, &facts, NULL) == VP_OK ? facts : NULL;
    if (!exists(path, "checkpoints", folder, sizeof(folder)))
        snprintf(folder, sizeof(folder), "%s", path);
    if (vp_ckpt_list(folder, &list, &n, NULL) != VP_OK)
        return NULL;
    for (int i = 0; i < n && !facts; i++)
        if (exists(folder, list[i].name, file, sizeof(file)) &&
            vp_ckpt_read_facts(file, &facts, NULL) != VP_OK)
            facts = NULL;
    free(list);
    return facts;
}

char *vp_resume_read_schedule(const char *path)
{
    struct vp_facts *facts = read_newest_facts(path);
    const char *text = facts ? vp_checkpoint_facts_schedule_file(facts) : NULL;
    char *copy = text ? strdup(text) : NULL;

    if (facts)
        vp_facts_free(facts);
    return copy;
}

bool vp_resume_read_value(const char *path, const char *key, char *out,
                          size_t n_bytes)
{
    struct vp_facts *facts = read_newest_facts(path);
    const char *value = facts ? vp_checkpoint_facts_value(facts, key) : NULL;

    if (value)
        snprintf(out, n_bytes, "%s", value);
    if (facts)
        vp_facts_free(facts);
    return value != NULL;
}

/* ---- All of it ---------------------------------------------------------- */

/* Gives the same result in every process, because all have the same
 * manifest. */
static enum vp_status check(struct vp_resume *resume,
                            const struct vp_resume_config *with,
                            struct vp_err *err)
{
    const struct vp_facts *facts = vp_ckpt_facts(resume->ckpt);
    const char *place = vp_ckpt_path(resume->ckpt);

    VP_TRY(
        vp_checkpoint_facts_check(facts, with->config, with->data, place, err));
    vp_checkpoint_facts_compare(facts, with->config, with->notice, with->ctx);
    return map_stages(resume, with->config, with->graph, with->notice,
                      with->ctx, err);
}

enum vp_status vp_resume_open(const struct vp_resume_config *config,
                              struct vp_resume **out, bool *agreed_out,
                              struct vp_err *err)
{
    struct vp_resume *resume = calloc(1, sizeof(*resume));
    enum vp_status st;

    if (!resume)
        return vp_err_set(err, VP_ERR_NOMEM, "resuming: out of memory");
    resume->loader.ctx = resume;
    resume->loader.load = load;
    st = vp_resume_choice_open(config, &resume->ckpt, agreed_out, err);
    if (st == VP_OK)
        st = check(resume, config, err);
    if (st != VP_OK) {
        vp_resume_close(resume);
        return st;
    }
    *out = resume;
    return VP_OK;
}

const struct vp_loader *vp_resume_loader(const struct vp_resume *resume)
{
    return &resume->loader;
}

const char *vp_resume_schedule(const struct vp_resume *resume,
                               const struct vp_config *config)
{
    return vp_checkpoint_facts_schedule(vp_ckpt_facts(resume->ckpt), config);
}

const char *vp_resume_ckpt_path(const struct vp_resume *resume)
{
    return vp_ckpt_path(resume->ckpt);
}

struct vp_ckpt_entry vp_resume_entry(const struct vp_resume *resume)
{
    struct vp_ckpt_entry entry = { .step = vp_ckpt_step(resume->ckpt) };
    char path[PATH_MAX];

    if (realpath(vp_ckpt_path(resume->ckpt), path))
        snprintf(entry.name, sizeof(entry.name), "%.47s", cut_name(path));
    return entry;
}

void vp_resume_close(struct vp_resume *resume)
{
    if (!resume)
        return;
    vp_ckpt_close(resume->ckpt);
    free(resume->counts);
    free(resume);
}
