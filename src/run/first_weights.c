/* Loads initial weights from a Hugging Face folder or a checkpoint, and keeps
 * their origin for a later export. */
#include "run/first_weights.h"

#include "ckpt/ckpt.h"
#include "config/init_folder.h"
#include "hf/folder.h"
#include "hf/origin.h"
#include "run/checkpoint_facts.h"
#include "run/resume_choice.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Either `folder` or `ckpt` is open. */
struct vp_first_weights {
    struct vp_hf_folder *folder;
    struct vp_ckpt *ckpt;
    const char *path; /* value of key `init` */
    bool untied; /* tied in the source, but not here: copy one table twice */
    const struct vp_hf_arch *arch;
    struct vp_loader loader;
};

/* ---- Tensors ------------------------------------------------------------ */

static enum vp_status load(void *ctx, const struct vp_state_item *item,
                           float *out, struct vp_err *err)
{
    const struct vp_first_weights *first = ctx;
    struct vp_state_item stored = *item;

    if (item->kind != VP_STATE_WEIGHT) {
        memset(out, 0, (size_t)(item->rows * item->cols) * sizeof(*out));
        return VP_OK;
    }
    if (first->untied && first->arch &&
        vp_hf_name_tied(first->arch, item->name))
        stored.name = vp_hf_name_tied(first->arch, item->name);
    if (first->folder)
        return vp_hf_read(first->folder, stored.name, item->rows, item->cols,
                          item->transposed, out, err);
    return vp_checkpoint_load(first->ckpt, &stored, out, err);
}

/* ---- Opening ------------------------------------------------------------ */

/* Compares the model of the folder with that of the configuration. */
static enum vp_status check_folder(struct vp_first_weights *first,
                                   const struct vp_config *config,
                                   struct vp_err *err)
{
    struct vp_config other = *config;

    other.model = vp_hf_model(first->folder);
    other.sizes = *vp_hf_config(first->folder);
    if (other.model->task != config->model->task)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: model_type is %s, but %s holds a model of type "
                          "%s; make them agree",
                          vp_config_place(config, "model_type"),
                          config->model->name, first->path, other.model->name);
    return vp_checkpoint_shape_check(config, &other, NULL, first->path,
                                     &first->untied, err);
}

/* Compares fingerprints: a path may lead to different models on different
 * hosts. */
static enum vp_status compare_folders(const struct vp_first_weights *first,
                                      const struct vp_resume_config *with,
                                      bool *agreed_out, struct vp_err *err)
{
    uint64_t mine = 0, lead;
    enum vp_status st;

    if (!with->world)
        return VP_OK;
    st = vp_world_agree(with->world,
                        vp_hf_fingerprint(first->folder, &mine, err),
                        VP_LIMIT_NEVER, err);
    *agreed_out = st != VP_OK;
    VP_TRY(st);
    lead = mine;
    if (vp_world_share(with->world, &lead, sizeof(lead), VP_LIMIT_NEVER) !=
        VP_OK)
        return vp_err_set(err, VP_ERR_ABORTED,
                          "init: process 0 has ended; see its messages");
    if (lead == mine)
        return VP_OK;
    return vp_err_set(err, VP_ERR_IO,
                      "%s: holds other weights than on the host of process 0; "
                      "give all hosts the same folder",
                      first->path);
}

static enum vp_status open_folder(struct vp_first_weights *first,
                                  const struct vp_resume_config *with,
                                  bool *agreed_out, struct vp_err *err)
{
    enum vp_status st = vp_hf_open(first->path, &first->folder, err);

    if (st == VP_OK)
        st = check_folder(first, with->config, err);
    if (st == VP_OK)
        st = vp_hf_check_values(first->folder, err);
    if (with->world) {
        st = vp_world_agree(with->world, st, VP_LIMIT_NEVER, err);
        *agreed_out = st != VP_OK;
    }
    VP_TRY(st);
    return compare_folders(first, with, agreed_out, err);
}

/* Returns true if `path` is a checkpoint, or a folder with names of
 * checkpoints. */
static bool holds_checkpoint(const char *path)
{
    static const char *const places[] = { "", "/checkpoints" };
    struct vp_ckpt_entry *list;
    char folder[PATH_MAX];
    int n = 0;

    if (snprintf(folder, sizeof(folder), "%s/manifest.json", path) < PATH_MAX &&
        access(folder, F_OK) == 0)
        return true;
    for (size_t i = 0; i < VP_COUNT_OF(places) && n == 0; i++) {
        list = NULL;
        if (snprintf(folder, sizeof(folder), "%s%s", path, places[i]) <
                PATH_MAX &&
            vp_ckpt_list(folder, &list, &n, NULL) != VP_OK)
            n = 0;
        free(list);
    }
    return n > 0;
}

static enum vp_status open_ckpt(struct vp_first_weights *first,
                                const struct vp_resume_config *with,
                                bool *agreed_out, struct vp_err *err)
{
    if (!holds_checkpoint(first->path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s holds neither a Hugging Face model nor a "
                          "checkpoint; correct the path",
                          first->path);
    VP_TRY(vp_resume_choice_open(with, &first->ckpt, agreed_out, err));
    return vp_checkpoint_shape_check(with->config, NULL,
                                     vp_ckpt_facts(first->ckpt), first->path,
                                     &first->untied, err);
}

enum vp_status vp_first_weights_open(const struct vp_resume_config *with,
                                     struct vp_first_weights **out,
                                     bool *agreed_out, struct vp_err *err)
{
    struct vp_first_weights *first = calloc(1, sizeof(*first));
    enum vp_status st;

    if (!first)
        return vp_err_set(err, VP_ERR_NOMEM, "init: out of memory");
    first->path = with->path;
    first->arch = vp_hf_arch_of(with->config->model);
    first->loader.ctx = first;
    first->loader.load = load;
    st = vp_hf_is_folder(first->path)
             ? open_folder(first, with, agreed_out, err)
             : open_ckpt(first, with, agreed_out, err);
    if (st != VP_OK) {
        if (err->text[0])
            vp_err_prefix(err, "%s: key 'init'",
                          vp_config_place(with->config, "init"));
        vp_first_weights_close(first);
        return st;
    }
    if (first->untied)
        with->notice(with->ctx,
                     "the embeddings are tied in the folder of init, "
                     "but not here: the output layer starts as a "
                     "copy of the token table");
    *out = first;
    return VP_OK;
}

const struct vp_loader *vp_first_weights_loader(
    const struct vp_first_weights *first)
{
    return &first->loader;
}

void vp_first_weights_close(struct vp_first_weights *first)
{
    if (!first)
        return;
    vp_hf_close(first->folder);
    vp_ckpt_close(first->ckpt);
    free(first);
}

/* ---- Origin ------------------------------------------------------------- */

/* `ckpt` is <run>/checkpoints/step-<n>, or <out>/step-0 of an import. */
bool vp_first_weights_origin(const char *ckpt, char *out, size_t n)
{
    char folder[PATH_MAX], layout[PATH_MAX];
    char *slash;

    if (!realpath(ckpt, folder))
        return false;
    *strrchr(folder, '/') = '\0';
    slash = strrchr(folder, '/');
    if (slash && strcmp(slash, "/checkpoints") == 0)
        *slash = '\0';
    return (size_t)snprintf(out, n, "%s/" VP_HUGGINGFACE_FOLDER, folder) < n &&
           snprintf(layout, sizeof(layout), "%s/layout.json", out) < PATH_MAX &&
           access(layout, F_OK) == 0;
}

static enum vp_status place_in(const char *run, char out[PATH_MAX],
                               struct vp_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/" VP_HUGGINGFACE_FOLDER, run) < PATH_MAX)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%.80s...: path is too long; choose another --output",
                      run);
}

enum vp_status vp_first_weights_pass_on(const char *ckpt, const char *run,
                                        struct vp_err *err)
{
    char to[PATH_MAX], from[PATH_MAX];

    VP_TRY(place_in(run, to, err));
    return vp_first_weights_origin(ckpt, from, sizeof(from))
               ? vp_hf_origin_copy(from, to, err)
               : VP_OK;
}

enum vp_status vp_first_weights_keep(const struct vp_first_weights *first,
                                     const char *run, struct vp_err *err)
{
    char to[PATH_MAX];

    if (!first->folder)
        return vp_first_weights_pass_on(vp_ckpt_path(first->ckpt), run, err);
    VP_TRY(place_in(run, to, err));
    return vp_hf_origin_save(first->folder, to, err);
}
