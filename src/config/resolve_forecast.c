/* Reads the forecast of time, bubble and memory from a plan file. */
#include "base/json.h"
#include "base/value.h"
#include "config/plan_file.h"
#include "config/resolve.h"

static bool read_real(const struct vp_yaml_node *map, const char *key,
                      double *out)
{
    const struct vp_yaml_node *node = vp_json_find(map, key);

    return node && node->kind == VP_YAML_SCALAR && !node->quoted &&
           vp_text_to_real(node->text, out);
}

static int read_bytes(const struct vp_yaml_node *list,
                      int64_t out[VP_MAX_STAGES])
{
    int n = 0;

    if (!list || list->kind != VP_YAML_LIST)
        return 0;
    for (const struct vp_yaml_node *at = list->child; at; at = at->next)
        if (n == VP_MAX_STAGES || at->kind != VP_YAML_SCALAR || at->quoted ||
            !vp_text_to_i64(at->text, &out[n++]))
            return 0;
    return n;
}

bool vp_resolve_forecast(const struct vp_config *config,
                         struct vp_planned_forecast *out)
{
    const struct vp_yaml_node *root = config->plan_file
                                          ? config->plan_file->root
                                          : NULL;
    const struct vp_yaml_node *map = root ? vp_json_find(root, "forecast")
                                          : NULL;
    double seconds = 0.0, bubble = 0.0;

    if (!map || map->kind != VP_YAML_MAP ||
        !read_real(map, "step_seconds", &seconds) || !(seconds > 0.0) ||
        !read_real(map, "bubble", &bubble))
        return false;
    *out = (struct vp_planned_forecast){ .step_seconds = seconds,
                                         .bubble = bubble };
    out->n_memory = read_bytes(vp_json_find(map, "memory"), out->memory);
    return true;
}
