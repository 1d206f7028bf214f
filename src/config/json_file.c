/* Reads a JSON file of the configuration, and turns its nodes into entries. */
#include "config/json_file.h"

#include "base/file.h"
#include "config/key.h"

#include <stdlib.h>
#include <sys/stat.h>

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
