#include "run/plan_history.h"

#include "run/folder.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>

/* The plans before, with the one in `path` as the last. */
static json_t *take_history(const char *path, int64_t step)
{
    json_t *before = json_load_file(path, 0, NULL), *history = NULL;

    if (!json_is_object(before)) { /* the file was removed */
        json_decref(before);
        return json_array();
    }
    history = json_object_get(before, "history");
    history = json_is_array(history) ? json_incref(history) : json_array();
    json_object_del(before, "history");
    json_object_set_new(before, "until_step", json_integer(step));
    json_array_append_new(history, before);
    return history;
}

static json_t *describe(const char *path, const struct vp_plan *plan,
                        int n_blocks, const struct vp_plan_forecast *forecast,
                        int64_t step)
{
    const struct vp_plan shared = vp_plan_portable(plan);
    json_t *root = NULL;
    char *text = NULL;

    if (vp_plan_print(&shared, n_blocks, forecast, &text) == VP_OK)
        root = json_loads(text, 0, NULL);
    free(text);
    if (root)
        json_object_set_new(root, "history", take_history(path, step));
    return root;
}

enum vp_status vp_plan_history_add(const char *folder,
                                   const struct vp_plan *plan, int n_blocks,
                                   const struct vp_plan_forecast *forecast,
                                   int64_t step, struct vp_err *err)
{
    char path[PATH_MAX], part[PATH_MAX];
    json_t *root;
    char *text;
    enum vp_status st;

    snprintf(path, sizeof(path), "%s/plan.json", folder);
    snprintf(part, sizeof(part), "%s/.plan.json.part", folder);
    root = describe(path, plan, n_blocks, forecast, step);
    text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    st = vp_folder_write_text(part, text, err);
    free(text);
    if (st == VP_OK && rename(part, path) != 0)
        st = vp_err_write(err, path, errno);
    return st;
}
