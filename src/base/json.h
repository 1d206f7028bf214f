/* A strict JSON reader that returns nodes of the YAML reader, which have line
 * and column. No comments, no bare words, no duplicate keys. */
#ifndef VP_BASE_JSON_H
#define VP_BASE_JSON_H

#include "base/yaml.h"

/* Parses `bytes`. Messages begin with `name`. Nodes and texts are allocated in
 * `arena`. */
enum vp_status vp_json_parse(const char *name, const char *bytes,
                             size_t n_bytes, struct vp_arena *arena,
                             const struct vp_yaml_node **root_out,
                             struct vp_err *err);

/* Returns VP_ERR_INVALID if `root` is not an object or has a key that is not
 * among `known`. `what` describes the object in messages: "a plan". */
enum vp_status vp_json_check_keys(const char *path,
                                  const struct vp_yaml_node *root,
                                  const char *what, const char *const *known,
                                  int n_known, struct vp_err *err);

/* Returns the value of `key` in the object `root`, or NULL. */
const struct vp_yaml_node *vp_json_find(const struct vp_yaml_node *root,
                                        const char *key);

#endif
