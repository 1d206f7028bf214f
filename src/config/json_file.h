/* Reads JSON files that a key of the configuration names. */
#ifndef VP_CONFIG_JSON_FILE_H
#define VP_CONFIG_JSON_FILE_H

#include "base/json.h"
#include "config/keys.h"

/* Reads the file that an entry names. Messages begin with "path:line:column: ",
 * or with the entry's place if the file cannot be read. */
enum vp_status vp_json_read(const struct vp_entry *entry,
                            struct vp_config *config, const char **path_out,
                            const struct vp_yaml_node **root_out,
                            struct vp_err *err);

/* Returns the entry for a node, as if the user had written its key and value.
 * Its `folder` is not used: these keys take no paths. `place` is NULL if memory
 * is short. */
struct vp_entry vp_json_entry(const char *path, const struct vp_yaml_node *node,
                              struct vp_arena *arena);

#endif
