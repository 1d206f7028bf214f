/* JSON files as the YAML reader's nodes, which remember their places. Strictly
 * JSON: no comments, no bare words, no second value for a key. */
#ifndef VP_BASE_JSON_H
#define VP_BASE_JSON_H

#include "base/yaml.h"

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

#endif
