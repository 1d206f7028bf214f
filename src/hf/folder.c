/* Opens a Hugging Face folder and checks its files against config.json. */
#include "hf/folder.h"

#include "hf/index.h"
#include "hf/internal.h"
#include "hf/json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_FILE "config.json"
#define MODEL_FILE "model.safetensors"
#define INDEX_FILE "model.safetensors.index.json"

enum { MAX_CONFIG_BYTES = 1 << 20 };

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "Hugging Face folder: out of memory");
}

static enum vp_status path_of(const struct vp_hf_folder *folder,
                              const char *name, char out[PATH_MAX],
                              struct vp_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", folder->path, name) < PATH_MAX)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                      folder->path);
}

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/%s", folder, name) < PATH_MAX &&
           access(path, F_OK) == 0;
}

bool vp_hf_is_folder(const char *path)
{
    return exists(path, CONFIG_FILE) &&
           (exists(path, MODEL_FILE) || exists(path, INDEX_FILE));
}

/* ---- config.json -------------------------------------------------------- */

/* Sets the class to the one that the file names, or else that of its
 * model_type. */
static enum vp_status find_arch(const json_t *root, struct vp_hf_folder *folder,
                                struct vp_err *err)
{
    const json_t *list = json_object_get(root, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));

    folder->arch = vp_hf_arch_of(folder->model);
    if (!list || json_is_null(list))
        return folder->arch
                   ? VP_OK
                   : vp_err_set(err, VP_ERR_UNSUPPORTED,
                                "model_type %.60s: Hugging Face has no class "
                                "for this model; use a folder of %s",
                                folder->model->name, vp_hf_arch_names());
    if (name)
        folder->arch = vp_hf_arch_find(name);
    if (!name || !folder->arch)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "architectures: %.60s is not supported; use a "
                          "folder of %s",
                          name ? name : "a value that is not a list of names",
                          vp_hf_arch_names());
    if (strcmp(vp_hf_arch_model(folder->arch), folder->model->name) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "architectures: %.60s does not belong to its "
                          "model_type",
                          name);
    return VP_OK;
}

static enum vp_status read_config(struct vp_hf_folder *folder,
                                  struct vp_err *err)
{
    char path[PATH_MAX];
    json_t *root = NULL;
    enum vp_status st;

    if (!exists(folder->path, CONFIG_FILE))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.3000s: holds no %s; give the folder of a model",
                          folder->path, CONFIG_FILE);
    VP_TRY(path_of(folder, CONFIG_FILE, path, err));
    VP_TRY(vp_hf_json_read(path, MAX_CONFIG_BYTES, &root, err));
    st = vp_model_read_json(path, &folder->model, &folder->config, err);
    if (st == VP_OK) {
        st = find_arch(root, folder, err);
        vp_hf_one_line(err);
        if (st != VP_OK)
            vp_err_prefix(err, "%.3000s", path);
    }
    json_decref(root);
    return st;
}

/* ---- Files -------------------------------------------------------------- */

/* Refuses links, because they can lead out of the folder. */
static enum vp_status open_shard(struct vp_hf_folder *folder, const char *name,
                                 struct vp_err *err)
{
    struct vp_hf_shard *shard = &folder->shards[folder->n_shards];
    char path[PATH_MAX];
    struct stat info;

    VP_TRY(path_of(folder, name, path, err));
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.3000s: is a symbolic link; copy the folder with "
                          "'cp -rL'",
                          path);
    shard->name = vp_arena_strdup(&folder->arena, name);
    if (!shard->name)
        return no_memory(err);
    VP_TRY(vp_st_open(path, NULL, &shard->file, err));
    folder->n_shards++;
    return VP_OK;
}

static enum vp_status make_shards(struct vp_hf_folder *folder, int n,
                                  struct vp_err *err)
{
    folder->shards = vp_arena_alloc(&folder->arena,
                                    (size_t)n * sizeof(*folder->shards));
    return folder->shards ? VP_OK : no_memory(err);
}

/* Checks that the index and the files name the same tensors, each in one
 * file. */
static enum vp_status check_index(const struct vp_hf_folder *folder,
                                  const struct vp_hf_index *index,
                                  struct vp_err *err)
{
    for (int i = 0; i < index->n_places; i++) {
        const struct vp_hf_place *place = &index->places[i];
        const struct vp_hf_shard *shard = &folder->shards[place->file];

        if (!vp_st_header_find(vp_st_header(shard->file), place->tensor))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%.2000s/%s: tensor %.200s is not in this file, "
                              "where %s places it; get the folder again",
                              folder->path, shard->name, place->tensor,
                              INDEX_FILE);
    }
    for (int s = 0; s < folder->n_shards; s++) {
        const struct vp_st_header *header = vp_st_header(
            folder->shards[s].file);

        for (int i = 0; i < header->n_tensors; i++) {
            const char *name = header->tensors[i].name;
            const struct vp_hf_place *place = vp_hf_index_find(index, name);

            if (!place || place->file != s)
                return vp_err_set(
                    err, VP_ERR_INVALID,
                    "%.2000s/%s: holds tensor %.200s, which %s "
                    "%s; get the folder again",
                    folder->path, folder->shards[s].name, name, INDEX_FILE,
                    place ? "places in another file" : "does not name");
        }
    }
    return VP_OK;
}

static enum vp_status open_index(struct vp_hf_folder *folder,
                                 struct vp_err *err)
{
    char path[PATH_MAX];
    struct vp_hf_index index;
    enum vp_status st;

    VP_TRY(path_of(folder, INDEX_FILE, path, err));
    VP_TRY(vp_hf_index_read(path, &index, err));
    st = make_shards(folder, index.n_files, err);
    for (int i = 0; i < index.n_files && st == VP_OK; i++)
        st = open_shard(folder, index.files[i], err);
    if (st == VP_OK)
        st = check_index(folder, &index, err);
    vp_hf_index_release(&index);
    return st;
}

static enum vp_status open_files(struct vp_hf_folder *folder,
                                 struct vp_err *err)
{
    if (exists(folder->path, MODEL_FILE)) {
        VP_TRY(make_shards(folder, 1, err));
        return open_shard(folder, MODEL_FILE, err);
    }
    if (exists(folder->path, INDEX_FILE))
        return open_index(folder, err);
    if (exists(folder->path, "pytorch_model.bin") ||
        exists(folder->path, "pytorch_model.bin.index.json"))
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%.3000s: holds pytorch_model.bin, which is not "
                          "read; save the model as safetensors",
                          folder->path);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%.3000s: holds neither %s nor %s; give the folder of a "
                      "model",
                      folder->path, MODEL_FILE, INDEX_FILE);
}

/* ---- Tensors ------------------------------------------------------------ */

static int compare_tensors(const void *a, const void *b)
{
    const struct vp_hf_tensor *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order != 0 ? order : (int)x->kind - (int)y->kind;
}

static enum vp_status list_tensors(struct vp_hf_folder *folder,
                                   struct vp_err *err)
{
    char name[VP_HF_NAME_BYTES];
    size_t n = 0;

    for (int s = 0; s < folder->n_shards; s++)
        n += (size_t)vp_st_header(folder->shards[s].file)->n_tensors;
    folder->tensors = vp_arena_alloc(&folder->arena,
                                     (n + 1) * sizeof(*folder->tensors));
    if (!folder->tensors)
        return no_memory(err);
    for (int s = 0; s < folder->n_shards; s++) {
        const struct vp_st_header *header = vp_st_header(
            folder->shards[s].file);

        for (int i = 0; i < header->n_tensors; i++) {
            struct vp_hf_tensor *at = &folder->tensors[folder->n_tensors++];

            at->shard = s;
            at->stored = &header->tensors[i];
            VP_TRY(vp_hf_name(folder->arch, &folder->config, at->stored->name,
                              &at->kind, name, err));
            at->name = vp_arena_strdup(&folder->arena, name);
            if (!at->name)
                return no_memory(err);
        }
    }
    qsort(folder->tensors, (size_t)folder->n_tensors, sizeof(*folder->tensors),
          compare_tensors);
    return VP_OK;
}

const struct vp_hf_tensor *vp_hf_holder(const struct vp_hf_folder *folder,
                                        const char *name)
{
    int low = 0, high = folder->n_tensors;

    while (low < high) {
        int middle = low + (high - low) / 2;

        if (strcmp(folder->tensors[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == folder->n_tensors ||
        strcmp(folder->tensors[low].name, name) != 0 ||
        folder->tensors[low].kind > VP_HF_TIED)
        return NULL;
    return &folder->tensors[low];
}

/* Refuses two tensors with the same current name, such as LayerNorm.gamma and
 * LayerNorm.weight. */
static enum vp_status check_doubles(const struct vp_hf_folder *folder,
                                    struct vp_err *err)
{
    for (int i = 1; i < folder->n_tensors; i++) {
        const struct vp_hf_tensor *t = &folder->tensors[i];

        if (t->kind == VP_HF_WEIGHT && t[-1].kind == VP_HF_WEIGHT &&
            strcmp(t->name, t[-1].name) == 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%.3000s: tensor %.200s occurs twice, also as "
                              "%.200s; remove one",
                              folder->path, t->stored->name,
                              t[-1].stored->name);
    }
    return VP_OK;
}

/* Marks weights that are not parameters of the model as carried. */
static void mark_carried(struct vp_hf_folder *folder)
{
    for (int i = 0; i < folder->n_tensors; i++) {
        struct vp_hf_tensor *t = &folder->tensors[i];

        if (t->kind == VP_HF_WEIGHT &&
            !vp_hf_params_find(&folder->params, t->name))
            t->kind = VP_HF_CARRIED;
    }
}

static bool is_float(enum vp_st_type type)
{
    return type == VP_ST_F32 || type == VP_ST_F16 || type == VP_ST_BF16;
}

static enum vp_status check_shape(const struct vp_hf_folder *folder,
                                  const struct vp_hf_param *param,
                                  const struct vp_hf_tensor *tensor,
                                  struct vp_err *err)
{
    const struct vp_st_tensor *stored = tensor->stored;
    struct vp_st_tensor want = vp_hf_param_tensor(param, stored->type);
    const char *file = folder->shards[tensor->shard].name;
    char have_text[128], want_text[128];
    bool same = stored->n_dims == want.n_dims;

    for (int i = 0; i < want.n_dims && same; i++)
        same = stored->dims[i] == want.dims[i];
    vp_st_describe(stored, have_text, sizeof(have_text));
    vp_st_describe(&want, want_text, sizeof(want_text));
    if (!same)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.2000s/%s: tensor %.200s is %s, but config.json "
                          "requires %s",
                          folder->path, file, stored->name, have_text,
                          want_text);
    if (!is_float(stored->type))
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%.2000s/%s: tensor %.200s is %s; weights must be "
                          "F32, F16 or BF16",
                          folder->path, file, stored->name, have_text);
    return VP_OK;
}

/* Checks that the folder has each parameter, under one or several names, with
 * the right shape. */
static enum vp_status check_params(const struct vp_hf_folder *folder,
                                   struct vp_err *err)
{
    for (int i = 0; i < folder->params.n; i++) {
        const struct vp_hf_param *param = &folder->params.at[i];
        const struct vp_hf_tensor *t = vp_hf_holder(folder, param->name);
        const struct vp_hf_tensor *end = folder->tensors + folder->n_tensors;

        if (!t)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%.3000s: tensor %.200s is missing; this is not "
                              "a complete %s",
                              folder->path, param->name,
                              vp_hf_arch_name(folder->arch));
        for (; t < end && strcmp(t->name, param->name) == 0; t++)
            if (t->kind <= VP_HF_TIED)
                VP_TRY(check_shape(folder, param, t, err));
    }
    return VP_OK;
}

/* Refuses a config.json with more layers than the files have tensors, before
 * memory is allocated for them: each layer has several tensors. */
static enum vp_status check_layers(const struct vp_hf_folder *folder,
                                   struct vp_err *err)
{
    int64_t layers = folder->config.layers;

    if (folder->model->task == VP_TASK_TRANSLATION)
        layers += folder->config.decoder_layers;
    if (layers <= folder->n_tensors)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%.3000s: config.json requires %lld layers, but the "
                      "files hold %d tensors",
                      folder->path, (long long)layers, folder->n_tensors);
}

/* ---- All of it ---------------------------------------------------------- */

static enum vp_status open_folder(struct vp_hf_folder *folder,
                                  struct vp_err *err)
{
    VP_TRY(read_config(folder, err));
    VP_TRY(open_files(folder, err));
    VP_TRY(list_tensors(folder, err));
    VP_TRY(check_layers(folder, err));
    VP_TRY(vp_hf_params_list(folder->model, &folder->config, &folder->params,
                             err));
    VP_TRY(check_doubles(folder, err));
    mark_carried(folder);
    return check_params(folder, err);
}

enum vp_status vp_hf_open(const char *path, struct vp_hf_folder **out,
                          struct vp_err *err)
{
    struct vp_hf_folder *folder = calloc(1, sizeof(*folder));
    enum vp_status st = VP_ERR_NOMEM;

    if (folder)
        folder->path = vp_arena_strdup(&folder->arena, path);
    if (folder && folder->path)
        st = open_folder(folder, err);
    else
        no_memory(err);
    if (st != VP_OK) {
        vp_hf_one_line(err);
        vp_hf_close(folder);
        return st;
    }
    *out = folder;
    return VP_OK;
}

void vp_hf_close(struct vp_hf_folder *folder)
{
    if (!folder)
        return;
    for (int i = 0; i < folder->n_shards; i++)
        vp_st_close(folder->shards[i].file);
    vp_hf_params_release(&folder->params);
    vp_arena_release(&folder->arena);
    free(folder);
}

const char *vp_hf_path(const struct vp_hf_folder *folder)
{
    return folder->path;
}

const struct vp_hf_arch *vp_hf_arch(const struct vp_hf_folder *folder)
{
    return folder->arch;
}

const struct vp_model *vp_hf_model(const struct vp_hf_folder *folder)
{
    return folder->model;
}

const struct vp_model_config *vp_hf_config(const struct vp_hf_folder *folder)
{
    return &folder->config;
}

const struct vp_hf_params *vp_hf_params(const struct vp_hf_folder *folder)
{
    return &folder->params;
}

int vp_hf_n_shards(const struct vp_hf_folder *folder)
{
    return folder->n_shards;
}

const char *vp_hf_shard_name(const struct vp_hf_folder *folder, int shard)
{
    return folder->shards[shard].name;
}

const struct vp_st_header *vp_hf_shard_header(const struct vp_hf_folder *folder,
                                              int shard)
{
    return vp_st_header(folder->shards[shard].file);
}

int vp_hf_n_tensors(const struct vp_hf_folder *folder)
{
    return folder->n_tensors;
}

const struct vp_hf_tensor *vp_hf_tensor(const struct vp_hf_folder *folder,
                                        int i)
{
    return &folder->tensors[i];
}
