/* Export: finds the checkpoint, its model and its tokenizer, and writes them in
 * the format of Hugging Face. */
#include "run/export.h"

#include "base/yaml.h"
#include "ckpt/search.h"
#include "config/load.h"
#include "hf/folder.h"
#include "hf/origin.h"
#include "hf/write.h"
#include "run/checkpoint_facts.h"
#include "run/first_weights.h"
#include "run/folder.h"
#include "run/translation_search.h"
#include "text/tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* State of an export. */
struct export
{
    const struct vp_export_config *with;
    struct vp_ckpt *ckpt;
    struct vp_config config;
    struct vp_hf_origin *origin; /* NULL: the weights were not imported */
    char tokenizer[PATH_MAX];    /* folder of the tokenizer; "": none */
};

/* ---- Places ------------------------------------------------------------- */

enum vp_status vp_export_check_place(const char *path, struct vp_err *err)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    bool empty = true;

    if (!folder && errno == ENOENT)
        return VP_OK;
    if (!folder)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.3000s: cannot be written to (%s); name a new "
                          "folder",
                          path, strerror(errno));
    while (empty && (entry = readdir(folder)))
        empty = strcmp(entry->d_name, ".") == 0 ||
                strcmp(entry->d_name, "..") == 0;
    closedir(folder);
    if (empty)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%.3000s: is not empty; name a new folder", path);
}

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/%s", folder, name) < PATH_MAX &&
           access(path, F_OK) == 0;
}

static enum vp_status open_ckpt(struct export *export, struct vp_err *err)
{
    const char *from = export->with->from;
    char folder[PATH_MAX];
    enum vp_status st;

    if (vp_hf_is_folder(from))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.3000s: is a Hugging Face folder already; give a "
                          "run or a checkpoint",
                          from);
    if (exists(from, "manifest.json"))
        return vp_ckpt_open(from, &export->ckpt, err);
    snprintf(folder, sizeof(folder), "%.3000s%s", from,
             exists(from, "checkpoints") ? "/checkpoints" : "");
    st = vp_ckpt_open_newest(folder, export->with->note, export->with->ctx,
                             &export->ckpt, err);
    if (st == VP_ERR_END)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.3000s: holds no checkpoint; give a run, a "
                          "checkpoint, or what 'vpipe import' made",
                          from);
    return st;
}

/* ---- The model ---------------------------------------------------------- */

static enum vp_status read_model(struct export *export, struct vp_err *err)
{
    char *yaml = NULL;
    enum vp_status st;

    VP_TRY(vp_checkpoint_facts_model(vp_ckpt_facts(export->ckpt), &yaml, err));
    st = vp_config_parse(vp_ckpt_path(export->ckpt), yaml ? yaml : "",
                         yaml ? strlen(yaml) : 0, NULL, 0, &export->config,
                         err);
    free(yaml);
    return st;
}

/* Reads key `tokenizer` of the run that wrote the checkpoint, if there is
 * one. */
static void find_tokenizer(struct export *export)
{
    struct vp_arena arena = { NULL };
    const struct vp_yaml_node *root, *node;
    struct stat info;
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/../../config.yml",
                 vp_ckpt_path(export->ckpt)) < PATH_MAX &&
        vp_yaml_read(path, &arena, &root, NULL) == VP_OK)
        for (node = root->kind == VP_YAML_MAP ? root->child : NULL; node;
             node = node->next)
            if (strcmp(node->key, "tokenizer") == 0 &&
                node->kind == VP_YAML_SCALAR)
                snprintf(export->tokenizer, sizeof(export->tokenizer), "%s",
                         node->text);
    vp_arena_release(&arena);
    if (export->tokenizer[0] && stat(export->tokenizer, &info) == 0 &&
        !S_ISDIR(info.st_mode) && strrchr(export->tokenizer, '/'))
        *strrchr(export->tokenizer, '/') = '\0'; /* a file: take its folder */
}

/* Returns begin and end ids of the data that the model was trained with. */
static struct vp_model_ids ids_of(const struct export *export)
{
    const struct vp_model_config *sizes = &export->config.sizes;
    struct vp_model_ids ids = { -1, -1, -1 };
    struct vp_tokenizer *tokenizer;

    if (export->config.model->task == VP_TASK_TRANSLATION)
        return vp_translation_ids(sizes);
    if (sizes->vocab == 50257)
        ids.begin = ids.end = 50256;
    if (export->tokenizer[0] &&
        vp_tokenizer_open(export->tokenizer, &tokenizer, NULL) == VP_OK) {
        ids.begin = vp_tokenizer_special(tokenizer, VP_SPECIAL_BEGIN);
        ids.end = vp_tokenizer_special(tokenizer, VP_SPECIAL_END);
        vp_tokenizer_free(tokenizer);
    }
    return ids;
}

/* ---- Tensors ------------------------------------------------------------ */

/* Reads a parameter in its own shape: a checkpoint stores a table of one row as
 * a vector. */
static enum vp_status read_param(void *ctx, const struct vp_hf_param *param,
                                 float *out, struct vp_err *err)
{
    const struct export *export = ctx;
    const struct vp_st_tensor *stored = vp_ckpt_find(export->ckpt, param->name);
    struct vp_st_tensor want = vp_hf_param_tensor(param, VP_ST_F32);

    if (stored && stored->n_dims == 1 && want.n_dims == 2 &&
        want.dims[0] == 1) {
        want.n_dims = 1;
        want.dims[0] = want.dims[1];
    }
    return vp_ckpt_read(export->ckpt, param->name, &want, out, err);
}

/* ---- All of it ---------------------------------------------------------- */

static enum vp_status open_origin(struct export *export, struct vp_err *err)
{
    char path[PATH_MAX];

    if (!vp_first_weights_origin(vp_ckpt_path(export->ckpt), path,
                                 sizeof(path)))
        return VP_OK;
    return vp_hf_origin_open(path, &export->origin, err);
}

static enum vp_status write_folder(struct export *export, struct vp_err *err)
{
    const struct vp_export_config *with = export->with;
    const struct vp_hf_write write = {
        .model = export->config.model,
        .config = &export->config.sizes,
        .ids = ids_of(export),
        .origin = export->origin,
        .tokenizer = export->tokenizer[0] ? export->tokenizer : NULL,
        .type = with->type,
        .shard_bytes = with->shard_bytes,
        .trained = vp_ckpt_step(export->ckpt) > 0,
        .read = read_param,
        .read_ctx = export,
        .note = with->note,
        .note_ctx = with->ctx,
    };

    if (!with->replace)
        VP_TRY(vp_export_check_place(with->to, err));
    VP_TRY(vp_folder_make(with->to, err));
    return vp_hf_write(with->to, &write, err);
}

static enum vp_status run(struct export *export, struct vp_err *err)
{
    VP_TRY(open_ckpt(export, err));
    VP_TRY(read_model(export, err));
    VP_TRY(open_origin(export, err));
    find_tokenizer(export);
    return write_folder(export, err);
}

enum vp_status vp_export(const struct vp_export_config *config,
                         struct vp_export_result *out, struct vp_err *err)
{
    struct export export = { .with = config };
    enum vp_status st = run(&export, err);

    if (st == VP_OK)
        *out = (struct vp_export_result){
            .step = vp_ckpt_step(export.ckpt),
            .architecture = vp_hf_arch_name(
                export.origin ? vp_hf_arch_find(export.origin->arch)
                              : vp_hf_arch_of(export.config.model)),
        };
    vp_hf_origin_close(export.origin);
    vp_config_release(&export.config);
    vp_ckpt_close(export.ckpt);
    return st;
}
