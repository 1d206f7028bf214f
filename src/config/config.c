/* Origins of the values of a configuration, and the check for its data. */
#include "config/config.h"

#include "base/nearest.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Places ------------------------------------------------------------- */

static struct vp_origin *find_origin(const struct vp_config *config,
                                     const char *key)
{
    for (int i = 0; i < config->n_origins; i++)
        if (strcmp(config->origins[i].key, key) == 0)
            return &config->origins[i];
    return NULL;
}

void vp_origin_give(struct vp_config *config, const struct vp_origin *given)
{
    struct vp_origin *origin = find_origin(config, given->key);

    if (origin)
        *origin = *given;
}

void vp_origin_derive(struct vp_config *config, const char *key,
                      const char *why)
{
    struct vp_origin *origin = find_origin(config, key);

    if (origin)
        *origin = (struct vp_origin){ .key = origin->key, .why = why };
}

bool vp_config_given(const struct vp_config *config, const char *key)
{
    const struct vp_origin *origin = find_origin(config, key);

    return origin && origin->place;
}

const char *vp_config_place(const struct vp_config *config, const char *key)
{
    const struct vp_origin *origin = find_origin(config, key);

    return origin && origin->place ? origin->place : "default";
}

const char *vp_config_written(const struct vp_config *config, const char *key)
{
    const struct vp_origin *origin = find_origin(config, key);

    return origin && origin->written ? origin->written : key;
}

const char *vp_config_blame(const struct vp_config *config, const char *fields)
{
    static const char *const choosers[] = { "config", "size", "module", "init",
                                            "model_type" };

    while (fields && *fields) {
        size_t n = strcspn(fields, " ");

        for (int i = 0; i < config->n_origins; i++) {
            const struct vp_origin *origin = &config->origins[i];

            if (origin->place && strlen(origin->key) == n &&
                memcmp(origin->key, fields, n) == 0)
                return origin->place;
        }
        fields += n + strspn(fields + n, " ");
    }
    for (size_t i = 0; i < VP_COUNT_OF(choosers); i++)
        if (vp_config_given(config, choosers[i]))
            return vp_config_place(config, choosers[i]);
    return NULL;
}

/* ---- Data --------------------------------------------------------------- */

enum vp_status vp_config_find_data(const struct vp_config *config,
                                   struct vp_err *err)
{
    char remedy[VP_PATH_REMEDY_BYTES];
    struct stat info;
    int error;

    if (config->synthetic_data || stat(config->data_dir, &info) == 0)
        return VP_OK;
    error = errno;
    return vp_err_set(
        err, VP_ERR_INVALID,
        "%s: key 'data_dir' names '%.400s', which cannot be read: %s; generate "
        "data with --set synthetic_data=true, or %s",
        vp_config_place(config, "data_dir"), config->data_dir, strerror(error),
        vp_path_remedy(config->data_dir, "correct the path", remedy));
}

void vp_config_release(struct vp_config *config)
{
    vp_arena_release(&config->arena);
    *config = (struct vp_config){ 0 };
}
