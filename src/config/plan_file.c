#include "config/plan_file.h"

#include "config/json_file.h"
#include "config/key.h"

/* A key of the plan, checked like the same key of a configuration. */
static enum vp_status take(const char *path, const struct vp_yaml_node *node,
                           const char *via, struct vp_config *config,
                           struct vp_err *err)
{
    struct vp_entry entry = vp_json_entry(path, node, &config->arena);
    const struct vp_key *key = vp_key_find(node->key);
    const struct vp_origin origin = {
        .key = key->name, .place = entry.place, .written = key->name, .via = via
    };
    char shown[VP_SHOWN_BYTES], example[VP_EXAMPLE_BYTES];

    if (!entry.place)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "%s: out of memory; close other programs", path);
    entry.example = key->type == VP_KEY_REALS ? "[0.3, 0, 0, 0]" : key->example;
    if (!entry.items) {
        vp_entry_show(&entry, shown);
        vp_entry_example(&entry, key, example);
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' must be a list with an entry per "
                          "stage, not %s; write for example '%s'",
                          entry.place, entry.key, shown, example);
    }
    VP_TRY(vp_key_set(key, &entry, config, err));
    vp_origin_give(config, &origin);
    return VP_OK;
}

enum vp_status vp_plan_take(const char *path, const struct vp_yaml_node *root,
                            const char *via, struct vp_config *config,
                            struct vp_err *err)
{
    static const char *const keys[] = { "partition", "recompute_ratio" };
    const struct vp_yaml_node *node;

    VP_TRY(
        vp_json_check_keys(path, root, "a plan", keys, VP_COUNT_OF(keys), err));
    if (!vp_json_find(root, "partition"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s:%d: key 'partition' is missing; add the blocks "
                          "of every stage, for example '\"partition\": %s'",
                          path, root->line, vp_key_find("partition")->example);
    for (node = root->child; node; node = node->next)
        VP_TRY(take(path, node, via, config, err));
    return VP_OK;
}

enum vp_status vp_plan_read(const struct vp_entry *entry,
                            struct vp_config *config, struct vp_err *err)
{
    const struct vp_yaml_node *root;
    const char *path;

    VP_TRY(vp_json_read(entry, config, &path, &root, err));
    return vp_plan_take(path, root, entry->place, config, err);
}
