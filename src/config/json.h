/* JSON files as the YAML reader's nodes, which remember their places. Strictly
 * JSON: no comments, no bare words, no second value for a key. */
#ifndef VP_CONFIG_JSON_H
#define VP_CONFIG_JSON_H

#include "config/keys.h"
#include "config/yaml.h"

/* The file that an entry names. Messages begin with "path:line:column: ", or
 * with the entry's place if the file cannot be read. */
enum vp_status vp_json_read(const struct vp_entry *entry,
                            struct vp_config *config, const char **path_out,
                            const struct vp_yaml_node **root_out,
                            struct vp_err *err);

/* Bytes in memory; `name` stands in messages. Nodes and texts live in
 * `arena`. */
enum vp_status vp_json_parse(const char *name, const char *bytes,
                             size_t n_bytes, struct vp_arena *arena,
                             const struct vp_yaml_node **root_out,
                             struct vp_err *err);

/* Refuses what is not an object, and keys that are not known. `what` it is:
 * "a plan". */
enum vp_status vp_json_check_keys(const char *path,
                                  const struct vp_yaml_node *root,
                                  const char *what, const char *const *known,
                                  int n_known, struct vp_err *err);

/* The value of a key, or NULL. */
const struct vp_yaml_node *vp_json_find(const struct vp_yaml_node *root,
                                        const char *key);

/* The node as what the user wrote for its key; `folder` and paths have no
 * meaning. NULL place: out of memory. */
struct vp_entry vp_json_entry(const char *path, const struct vp_yaml_node *node,
                              struct vp_arena *arena);

#endif
