/* Finds and reads the config.json of the folder that key `init` names. */
#include "config/init_folder.h"

#include "config/key.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* Writes the path of the folder's config.json; returns false if it has none. */
static bool find_json(const char *folder, char out[PATH_MAX])
{
    static const char *const names[] = { "config.json",
                                         VP_HUGGINGFACE_FOLDER "/config.json" };

    for (size_t i = 0; i < VP_COUNT_OF(names); i++)
        if (snprintf(out, PATH_MAX, "%s/%s", folder, names[i]) < PATH_MAX &&
            access(out, F_OK) == 0)
            return true;
    return false;
}

/* *model_out is NULL if there is no config.json. */
static enum vp_status read_json(const struct vp_entry *entry,
                                struct vp_config *config, const char **path_out,
                                const struct vp_model **model_out,
                                struct vp_model_config *sizes_out,
                                struct vp_err *err)
{
    char json[PATH_MAX];
    enum vp_status st;

    VP_TRY(vp_entry_path(entry, config, path_out, err));
    *model_out = NULL;
    if (!find_json(*path_out, json))
        return VP_OK;
    st = vp_model_read_json(json, model_out, sizes_out, err);
    if (st != VP_OK)
        vp_err_prefix(err, "%s: key '%s'", entry->place, entry->key);
    return st;
}

static bool is_chosen(const struct vp_config *config)
{
    return vp_config_given(config, "config") ||
           vp_config_given(config, "size") || vp_config_given(config, "module");
}

enum vp_status vp_init_folder_read(const struct vp_entry *entry,
                                   struct vp_config *config, struct vp_err *err)
{
    const struct vp_model *model;
    struct vp_model_config sizes;
    const char *path;

    VP_TRY(read_json(entry, config, &path, &model, &sizes, err));
    config->init = path;
    if (!model)
        return VP_OK;
    if (model->task != config->model->task)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' names a folder for model_type %s, but "
                          "model_type is %s; make them agree",
                          entry->place, entry->key, model->name,
                          config->model->name);
    if (!is_chosen(config))
        config->sizes = sizes;
    return VP_OK;
}

enum vp_status vp_init_folder_model(const struct vp_entry *entry,
                                    struct vp_config *config,
                                    const struct vp_model **out,
                                    struct vp_err *err)
{
    struct vp_model_config sizes;
    const char *path;

    return read_json(entry, config, &path, out, &sizes, err);
}
