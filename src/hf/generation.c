#include "hf/generation.h"

#include "hf/json.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20 };

static enum vp_status add(const char *path, const json_t *value,
                          struct vp_hf_end_ids *out, struct vp_err *err)
{
    json_int_t id = json_integer_value(value);

    if (!json_is_integer(value) || id < 0 || id > INT32_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: eos_token_id is neither an id nor a list of "
                          "ids; correct the file",
                          path);
    if (out->n == VP_HF_MAX_END_IDS)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s: eos_token_id has more than %d ids; remove some",
                          path, VP_HF_MAX_END_IDS);
    out->at[out->n++] = (int32_t)id;
    return VP_OK;
}

static enum vp_status read_value(const char *path, const json_t *value,
                                 struct vp_hf_end_ids *out, struct vp_err *err)
{
    if (!value || json_is_null(value))
        return VP_OK;
    if (!json_is_array(value))
        return add(path, value, out, err);
    for (size_t i = 0; i < json_array_size(value); i++)
        VP_TRY(add(path, json_array_get(value, i), out, err));
    return VP_OK;
}

enum vp_status vp_hf_read_end_ids(const char *path, struct vp_hf_end_ids *out,
                                  struct vp_err *err)
{
    static const char *const names[] = { "generation_config.json",
                                         "config.json" };
    struct vp_hf_end_ids found = { .n = 0 };
    enum vp_status st = VP_OK;

    for (size_t i = 0; i < VP_COUNT_OF(names) && st == VP_OK && found.n == 0;
         i++) {
        char file[PATH_MAX];
        json_t *root;

        if ((size_t)snprintf(file, sizeof(file), "%s/%s", path, names[i]) >=
                sizeof(file) ||
            access(file, F_OK) != 0)
            continue;
        VP_TRY(vp_hf_json_read(file, MAX_BYTES, &root, err));
        st = read_value(file, json_object_get(root, "eos_token_id"), &found,
                        err);
        json_decref(root);
    }
    if (st == VP_OK)
        *out = found;
    return st;
}
