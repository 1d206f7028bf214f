/* jansson checks that the text is JSON, but does not report the lines of
 * values. Valid JSON is also YAML, and vpipe's YAML reader reports them. */
#include "base/json.h"

#include "base/nearest.h"

#include <jansson.h>
#include <string.h>

enum vp_status vp_json_parse(const char *name, const char *bytes,
                             size_t n_bytes, struct vp_arena *arena,
                             const struct vp_yaml_node **root_out,
                             struct vp_err *err)
{
    json_error_t error;
    json_t *json = json_loadb(bytes, n_bytes, JSON_REJECT_DUPLICATES, &error);
    const char *remedy = "check commas, quotes and brackets near this place";

    if (!json) {
        if (json_error_code(&error) == json_error_duplicate_key)
            remedy = "keep one";
        return vp_err_set(err, VP_ERR_INVALID, "%s:%d:%d: not JSON: %s; %s",
                          name, error.line, error.column, error.text, remedy);
    }
    json_decref(json);
    return vp_yaml_parse_checked(name, bytes, n_bytes, arena, root_out, err);
}

enum vp_status vp_json_check_keys(const char *path,
                                  const struct vp_yaml_node *root,
                                  const char *what, const char *const *known,
                                  int n_known, struct vp_err *err)
{
    const struct vp_yaml_node *node;

    if (root->kind != VP_YAML_MAP)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s:%d: %s is an object; write {\"%s\": ...}", path,
                          root->line, what, known[0]);
    for (node = root->child; node; node = node->next) {
        int i = 0, best;

        while (i < n_known && strcmp(known[i], node->key) != 0)
            i++;
        if (i < n_known)
            continue;
        best = vp_nearest(node->key, known, n_known);
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s:%d: unknown key '%.48s' in %s; %s%s%s", path,
                          node->key_line, node->key, what,
                          best < 0 ? "remove it" : "did you mean '",
                          best < 0 ? "" : known[best], best < 0 ? "" : "'?");
    }
    return VP_OK;
}

const struct vp_yaml_node *vp_json_find(const struct vp_yaml_node *root,
                                        const char *key)
{
    const struct vp_yaml_node *node = root->child;

    while (node && strcmp(node->key, key) != 0)
        node = node->next;
    return node;
}
