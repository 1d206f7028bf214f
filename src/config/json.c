/* jansson decides what is JSON, but does not say where a value stands. JSON
 * that passed is also YAML, whose reader does. */
#include "config/json.h"

#include "base/file.h"
#include "base/nearest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    return vp_yaml_parse(name, bytes, n_bytes, arena, root_out, err);
}

static enum vp_status read_file(const char *path, char **bytes_out,
                                size_t *n_bytes_out, struct vp_err *err)
{
    struct stat info;

    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return vp_err_set(err, VP_ERR_IO, "%s: is not a file; give a JSON file",
                          path);
    return vp_file_read(path, "JSON", bytes_out, n_bytes_out, err);
}

enum vp_status vp_json_read(const struct vp_entry *entry,
                            struct vp_config *config, const char **path_out,
                            const struct vp_yaml_node **root_out,
                            struct vp_err *err)
{
    enum vp_status st;
    char *bytes = NULL;
    size_t n = 0;

    VP_TRY(vp_entry_path(entry, config, path_out, err));
    st = read_file(*path_out, &bytes, &n, err);
    if (st != VP_OK) {
        vp_err_prefix(err, "%s: key '%s'", entry->place, entry->key);
        return st;
    }
    st = vp_json_parse(*path_out, bytes, n, &config->arena, root_out, err);
    free(bytes);
    return st;
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

struct vp_entry vp_json_entry(const char *path, const struct vp_yaml_node *node,
                              struct vp_arena *arena)
{
    return (struct vp_entry){
        .key = node->key,
        .place = vp_arena_printf(arena, "%s:%d", path, node->key_line),
        .folder = "",
        .quote = "\"",
        .assign = ": ",
        .kind = node->kind,
        .text = node->text,
        .quoted = node->quoted,
        .items = node->kind == VP_YAML_LIST ? node->child : NULL,
    };
}
