#include "config/planned_keys.h"

#include <string.h>

static struct vp_entry *entry_of(struct vp_entry *entries, const char *name)
{
    return &entries[vp_key_find(name) - vp_keys];
}

static bool is_set_option(const struct vp_entry *entry)
{
    return strcmp(entry->place, "--set") == 0;
}

enum vp_status vp_planned_keys_check(struct vp_entry *entries,
                                     struct vp_err *err)
{
    struct vp_entry *wish = entry_of(entries, "auto_plan");
    const struct vp_entry *cut = entry_of(entries, "partition");

    if (!wish->key || wish->kind != VP_YAML_SCALAR ||
        strcmp(wish->text, "false") == 0 || !cut->key || !is_set_option(cut))
        return VP_OK;
    if (is_set_option(wish))
        return vp_err_set(err, VP_ERR_INVALID,
                          "--set: key 'auto_plan' is %.16s, which chooses the "
                          "partition, and partition is set, too; remove one",
                          wish->text);
    wish->key = NULL;
    return VP_OK;
}

static const char *const auto_names[VP_AUTO_COUNT] = {
    [VP_AUTO_BATCH_SIZE] = "batch_size",
    [VP_AUTO_ACCUMULATION_STEPS] = "accumulation_steps",
    [VP_AUTO_REPLICAS] = "replicas",
    [VP_AUTO_MP_SIZE] = "mp_size",
};

enum vp_status vp_planned_keys_take_auto(struct vp_entry *entries,
                                         bool planning,
                                         struct vp_config *config,
                                         struct vp_err *err)
{
    const struct vp_entry *wish = entry_of(entries, "auto_plan");

    planning |= wish->key && wish->kind == VP_YAML_SCALAR &&
                strcmp(wish->text, "false") != 0;
    for (int i = 0; i < VP_AUTO_COUNT; i++) {
        struct vp_entry *entry = entry_of(entries, auto_names[i]);

        if (!entry->key || entry->kind != VP_YAML_SCALAR ||
            strcmp(entry->text, "auto") != 0)
            continue;
        if (!planning)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: key '%s' is auto, which needs a search for "
                              "a plan; set auto_plan: true, or the number that "
                              "'vpipe plan' finds",
                              entry->place, entry->key);
        config->auto_keys |= 1u << i;
        /* A good number, for what else is wrong with the key. */
        entry->text = vp_key_find(auto_names[i])->example;
        if (i == VP_AUTO_REPLICAS)
            entry->key = NULL;
        if (i == VP_AUTO_MP_SIZE) /* stages and replicas name the ranks */
            entry->text = vp_key_find(auto_names[i])->fallback;
    }
    return VP_OK;
}

bool vp_planned_keys_is_auto(const struct vp_config *config,
                             const struct vp_key *key)
{
    for (int i = 0; i < VP_AUTO_COUNT; i++)
        if (config->auto_keys >> i & 1 && strcmp(key->name, auto_names[i]) == 0)
            return true;
    return false;
}

const char *const vp_planned_keys[] = {
    "schedule",  "schedule_memory", "schedule_costs", "chunks",
    "partition", "recompute",       "swap_ratio",     "recompute_ratio",
    "auto_plan", "early_recompute", "profile",        "recompute_in_backward",
    NULL,
};

void vp_planned_keys_drop(struct vp_entry *entries, bool found)
{
    for (int i = 0; vp_planned_keys[i]; i++)
        if (found || strcmp(vp_planned_keys[i], "profile") != 0)
            entry_of(entries, vp_planned_keys[i])->key = NULL;
}
