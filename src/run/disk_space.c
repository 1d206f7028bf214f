/* Estimates the bytes and the number of checkpoints of a run, and compares them
 * with the free disk space. */
#include "run/disk_space.h"

#include "ckpt/store.h"
#include "optim/optim.h"
#include "run/checkpoint.h"
#include "run/folder.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Judging ------------------------------------------------------------ */

int64_t vp_disk_space_need(const struct vp_disk_space *disk)
{
    int64_t most = (int64_t)disk->keep + (disk->keeps_best ? 1 : 0) + 1;
    int64_t n = most - disk->n_there;

    n = n < 1 ? 1 : n;
    return n < disk->n_saves ? n : disk->n_saves;
}

static bool fits(const struct vp_disk_space *disk)
{
    return vp_disk_space_need(disk) <= disk->n_free / disk->n_bytes;
}

/* Returns the largest keep_checkpoints that fits; 0: not even one
 * checkpoint. */
static int keep_that_fits(struct vp_disk_space disk)
{
    while (disk.keep > 0 && !fits(&disk))
        disk.keep--;
    return disk.keep;
}

enum vp_status vp_disk_space_judge(const struct vp_disk_space *disk,
                                   const char *folder, struct vp_err *err)
{
    int64_t n = vp_disk_space_need(disk), needed = n * disk->n_bytes;
    int keep = keep_that_fits(*disk);
    char lower[64] = "", aside[sizeof(disk->aside) + 64] = "";

    if (fits(disk))
        return VP_OK;
    if (disk->aside[0])
        snprintf(aside, sizeof(aside), "remove checkpoints/%s, ", disk->aside);
    if (keep > 0)
        snprintf(lower, sizeof(lower), "set keep_checkpoints: %d, ", keep);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: not enough space: %lld %scheckpoint%s of %lld bytes "
                      "must fit, %lld bytes are free; %s%sfree %lld bytes, or "
                      "choose another --output or log_directory",
                      folder, (long long)n, disk->n_there > 0 ? "more " : "",
                      n == 1 ? "" : "s", (long long)disk->n_bytes,
                      (long long)disk->n_free, aside, lower,
                      (long long)(needed - disk->n_free));
}

/* ---- A run -------------------------------------------------------------- */

/* Returns the disk space of one checkpoint: weights of all stages, moments and
 * older versions. */
static int64_t checkpoint_bytes(const struct vp_config *config,
                                const struct vp_run_summary *summary)
{
    int64_t n_bytes = 0;

    for (int s = 0; s < summary->n_stages; s++) {
        const struct vp_run_stage *stage = &summary->stages[s];

        n_bytes += stage->n_params * (int64_t)sizeof(float) *
                   (vp_optim_n_moments(config->optim.kind) + stage->n_versions);
    }
    return vp_ckpt_disk_bytes(n_bytes, (int)summary->n_blocks);
}

static int64_t count_saves(const struct vp_config *config,
                           const struct vp_run_summary *summary)
{
    int64_t every = vp_checkpoint_steps(config, summary->steps_per_epoch);
    int64_t from = summary->resumed, to = summary->n_steps;

    if (from >= to)
        return 0;
    return every > 0 ? to / every - from / every + (to % every ? 1 : 0) : 1;
}

/* Counts checkpoints up to `step`. Later ones are set aside and stay until this
 * run has written a checkpoint, so they do not free space for it. */
static enum vp_status count_there(const char *checkpoints, int64_t step,
                                  int64_t *n_out, struct vp_err *err)
{
    struct vp_ckpt_entry *list = NULL;
    int n = 0;

    VP_TRY(vp_ckpt_list(checkpoints, &list, &n, err));
    for (int i = 0; i < n; i++)
        *n_out += list[i].step <= step;
    free(list);
    return VP_OK;
}

/* Writes "step-75.aside-1, checkpoints/step-50": the checkpoints that this run
 * has set aside or will set aside. */
static enum vp_status name_aside(const char *checkpoints, int64_t step,
                                 struct vp_disk_space *disk, struct vp_err *err)
{
    size_t used = 0, n_bytes = sizeof(disk->aside);

    for (int aside = 0; aside < 2; aside++) {
        struct vp_ckpt_entry *list = NULL;
        int n = 0;

        VP_TRY(aside ? vp_ckpt_list_aside(checkpoints, &list, &n, err)
                     : vp_ckpt_list(checkpoints, &list, &n, err));
        for (int i = 0; i < n && used < n_bytes; i++)
            if (aside || list[i].step > step)
                used += (size_t)snprintf(disk->aside + used, n_bytes - used,
                                         "%s%s", used ? ", checkpoints/" : "",
                                         list[i].name);
        free(list);
    }
    return VP_OK;
}

enum vp_status vp_disk_space_measure(const struct vp_config *config,
                                     const struct vp_run_summary *summary,
                                     const char *folder,
                                     struct vp_disk_space *out,
                                     struct vp_err *err)
{
    char checkpoints[1024 + 16];

    *out = (struct vp_disk_space){
        .n_bytes = checkpoint_bytes(config, summary),
        .n_saves = count_saves(config, summary),
        .keep = config->keep_checkpoints,
        .keeps_best = config->eval_every > 0,
    };

    VP_TRY(vp_folder_check_place(folder, err));
    snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", folder);
    VP_TRY(count_there(checkpoints, summary->resumed, &out->n_there, err));
    VP_TRY(name_aside(checkpoints, summary->resumed, out, err));
    return vp_ckpt_free_bytes(checkpoints, &out->n_free, err);
}

enum vp_status vp_disk_space_check(const struct vp_config *config,
                                   const struct vp_run_summary *summary,
                                   const char *folder, struct vp_err *err)
{
    struct vp_disk_space disk;

    VP_TRY(vp_disk_space_measure(config, summary, folder, &disk, err));
    return vp_disk_space_judge(&disk, folder, err);
}
