/* Reads a plan in JSON and applies it to a configuration. */
#include "config/plan_file.h"

#include "base/value.h"
#include "config/json_file.h"
#include "config/key.h"
#include "config/key_file.h"
#include "config/placement.h"
#include "config/schedule_file.h"
#include "plan/plan_json.h"

#include <string.h>

static enum vp_status no_memory(const char *path, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "%s: out of memory; close other programs", path);
}

/* ---- Reading ------------------------------------------------------------ */

bool vp_plan_file_is_named(const struct vp_entry *entry)
{
    double number;

    return entry->kind == VP_YAML_SCALAR && !entry->quote && entry->text[0] &&
           entry->text[0] != '[' && !vp_text_to_real(entry->text, &number) &&
           (entry->quoted || !strchr(entry->text, ',') ||
            entry->text[0] < '0' || entry->text[0] > '9');
}

static enum vp_status take(const struct vp_plan_file *as,
                           struct vp_config *config, struct vp_err *err)
{
    struct vp_plan_file *file = vp_arena_alloc(&config->arena, sizeof(*file));

    if (!file)
        return no_memory(as->path, err);
    *file = *as;
    VP_TRY(vp_plan_from_json(as->root, as->path, &config->arena, &file->plan,
                             err));
    config->plan_file = file;
    return VP_OK;
}

enum vp_status vp_plan_file_take(const char *path,
                                 const struct vp_yaml_node *root,
                                 const char *via, struct vp_config *config,
                                 struct vp_err *err)
{
    const struct vp_plan_file as = { .path = path, .via = via, .root = root };

    return take(&as, config, err);
}

enum vp_status vp_plan_file_take_found(const char *text,
                                       struct vp_config *config,
                                       struct vp_err *err)
{
    struct vp_plan_file as = { .path = VP_PLAN_FILE_NAME,
                               .via = "auto_plan",
                               .found = true };

    VP_TRY(vp_json_parse(as.path, text, strlen(text), &config->arena, &as.root,
                         err));
    return take(&as, config, err);
}

enum vp_status vp_plan_file_read(const struct vp_entry *entry,
                                 struct vp_config *config, struct vp_err *err)
{
    const struct vp_yaml_node *root;
    const char *path;

    VP_TRY(vp_json_read(entry, config, &path, &root, err));
    return vp_plan_file_take(path, root, entry->place, config, err);
}

/* ---- Keys --------------------------------------------------------------- */

/* Returns the node of the plan that decides a key of the configuration; NULL if
 * there is none. */
static const struct vp_yaml_node *find_node(const struct vp_plan_file *file,
                                            const char *key)
{
    static const struct {
        const char *key, *planned;
    } names[] = {
        { "sync_mode", "schedule" },
        { "schedule", "schedule" },
        { "schedule_memory", "schedule_memory" },
        { "stages", "stages" },
        { "chunks", "chunks" },
        { "partition", "partition" },
        { "recompute", "keep_all" },
        { "recompute_ratio", "recompute_ratio" },
        { "early_recompute", "early_recompute" },
        { "recompute_in_backward", "recompute_in_backward" },
        { "swap_ratio", "swap_ratio" },
        { "mp_size", "tensor_parallel" },
        { "sequence_parallel", "sequence_parallel" },
        { "replicas", "replicas" },
        { "ranks", "ranks" },
        { "warmup_depths", "warmup_depths" },
        { "accumulation_steps", "accumulation_steps" },
        { "compress_activations", "compress_activations" },
        { "shard_optimizer", "shard_optimizer" },
    };

    for (size_t i = 0; i < VP_COUNT_OF(names); i++)
        if (strcmp(names[i].key, key) == 0)
            return vp_json_find(file->root, names[i].planned);
    return NULL;
}

enum vp_status vp_plan_file_entry(const struct vp_key *key,
                                  struct vp_config *config,
                                  struct vp_entry *out, struct vp_err *err)
{
    const struct vp_plan_file *file = config->plan_file;
    const struct vp_yaml_node *node = file ? find_node(file, key->name) : NULL;

    *out = (struct vp_entry){ .key = NULL };
    if (!node)
        return VP_OK;
    *out = vp_json_entry(file->path, node, &config->arena);
    if (!out->place)
        return no_memory(file->path, err);
    out->via = file->via;
    if (strcmp(key->name, "sync_mode") == 0)
        out->text = vp_generator_find(file->plan.schedule)->stream ? "asp"
                                                                   : "bsp";
    if (strcmp(key->name, "recompute") == 0)
        out->text = file->plan.keep_all ? "false" : "true";
    return VP_OK;
}

static const struct vp_real_list *reals_of(const struct vp_key *key,
                                           const struct vp_config *config)
{
    return (const void *)((const char *)config + key->offset);
}

/* Compares two lists; `a` may be one number for all stages. */
static bool same_reals(const struct vp_real_list *a,
                       const struct vp_real_list *b)
{
    if (!a->for_all && a->n != b->n)
        return false;
    for (int i = 0; i < b->n; i++)
        if (a->at[a->for_all ? 0 : i] != b->at[i])
            return false;
    return true;
}

enum vp_status vp_plan_file_compare(const struct vp_key *key,
                                    const struct vp_entry *planned,
                                    struct vp_config *config,
                                    struct vp_err *err)
{
    enum { VALUE_BYTES = 1024 };
    struct vp_config other = *config;
    char mine[VALUE_BYTES] = "", theirs[VALUE_BYTES] = "";
    enum vp_status st = vp_key_read(key, planned, &other, err);

    config->arena = other.arena; /* `other` has allocated in its copy */
    VP_TRY(st);
    if (strcmp(key->name, "recompute_ratio") == 0 && !config->recompute)
        return VP_OK; /* all ratios count as 0 */
    if (key->type == VP_KEY_REALS &&
        same_reals(reals_of(key, config), reals_of(key, &other)))
        return VP_OK;
    vp_key_print(key, config, mine, sizeof(mine));
    vp_key_print(key, &other, theirs, sizeof(theirs));
    if (key->type != VP_KEY_REALS && strcmp(mine, theirs) == 0)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key '%s' is %s, but by key '%s' of the plan at %s "
                      "it is %s; remove one, or make them equal",
                      vp_config_place(config, key->name),
                      vp_config_written(config, key->name), mine, planned->key,
                      planned->place, theirs);
}

/* ---- Placement ---------------------------------------------------------- */

/* Copies the keys of a placement into an object of their own. */
static enum vp_status cut_placement(const struct vp_plan_file *file,
                                    struct vp_arena *arena,
                                    struct vp_yaml_node *out,
                                    struct vp_err *err)
{
    static const char *const keys[] = { "stage_to_rank_map",
                                        "module_to_stage_map",
                                        "stage_to_depth_map", "mp_size" };
    struct vp_yaml_node **tail = &out->child;

    *out = *file->root;
    out->child = NULL;
    for (size_t i = 0; i < VP_COUNT_OF(keys); i++) {
        const struct vp_yaml_node *node = vp_json_find(file->root, keys[i]);

        if (!node)
            continue;
        *tail = vp_arena_alloc(arena, sizeof(**tail));
        if (!*tail)
            return no_memory(file->path, err);
        **tail = *node;
        (*tail)->next = NULL;
        tail = &(*tail)->next;
    }
    return VP_OK;
}

enum vp_status vp_plan_file_place(struct vp_config *config, struct vp_err *err)
{
    const struct vp_plan_file *file = config->plan_file;
    struct vp_yaml_node root;

    if (!file)
        return VP_OK;
    VP_TRY(cut_placement(file, &config->arena, &root, err));
    if (!root.child)
        return VP_OK;
    if (config->placement)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'config_file' names a placement, and the "
                          "plan at %s:%d has one, too; keep one",
                          vp_config_place(config, "config_file"), file->path,
                          root.child->key_line);
    return vp_placement_take(file->path, &root, file->via, config, err);
}

/* ---- Values without a key ----------------------------------------------- */

/* Refuses devices and edges: the configuration decides these. */
static enum vp_status refuse_machine(const struct vp_plan_file *file,
                                     struct vp_err *err)
{
    static const char *const edges[] = { "edges", "replica_edges", "tie_edge" };
    const struct vp_yaml_node *node = vp_json_find(file->root, "devices");

    if (node)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s:%d: key 'devices' cannot be read from a plan "
                          "yet; remove it, and write host:device of every rank "
                          "as key 'machines' of the configuration",
                          file->path, node->key_line);
    for (size_t i = 0; i < VP_COUNT_OF(edges); i++) {
        node = vp_json_find(file->root, edges[i]);
        if (node)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s:%d: key '%s' cannot be read from a plan yet; "
                              "remove it, and choose key 'distributed_backend' "
                              "of the configuration",
                              file->path, node->key_line, edges[i]);
    }
    return VP_OK;
}

/* Refuses a recompute_ratio of the user beside sets of the plan, which would
 * silently win. */
static enum vp_status refuse_ratio(const struct vp_config *config,
                                   struct vp_err *err)
{
    const struct vp_plan_file *file = config->plan_file;

    if (!file->plan.recompute_sets ||
        vp_json_find(file->root, "recompute_ratio") ||
        !vp_config_given(config, "recompute_ratio"))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key 'recompute_ratio' is set, but key 'recompute' "
                      "at %s:%d names what is recomputed; remove one",
                      vp_config_place(config, "recompute_ratio"), file->path,
                      vp_json_find(file->root, "recompute")->key_line);
}

/* The same for swap_ratio. */
static enum vp_status refuse_swap_ratio(const struct vp_config *config,
                                        struct vp_err *err)
{
    const struct vp_plan_file *file = config->plan_file;

    if (!file->plan.swap_sets || vp_json_find(file->root, "swap_ratio") ||
        !vp_config_given(config, "swap_ratio"))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key 'swap_ratio' is set, but key 'swap' at %s:%d "
                      "names what is swapped; remove one",
                      vp_config_place(config, "swap_ratio"), file->path,
                      vp_json_find(file->root, "swap")->key_line);
}

enum vp_status vp_plan_file_finish(struct vp_config *config, struct vp_err *err)
{
    const struct vp_plan_file *file = config->plan_file;

    if (!file)
        return VP_OK;
    VP_TRY(refuse_machine(file, err));
    VP_TRY(refuse_ratio(config, err));
    VP_TRY(refuse_swap_ratio(config, err));
    if (!file->plan.schedule_text)
        return VP_OK;
    return vp_schedule_file_take(file->path, file->plan.schedule_text, config,
                                 err);
}

bool vp_plan_file_is_needed(const struct vp_config *config)
{
    const struct vp_plan *plan = config->plan_file ? &config->plan_file->plan
                                                   : NULL;

    return plan &&
           (plan->schedule_text || plan->recompute_sets || plan->swap_sets ||
            plan->swap_buffers || plan->w_recomputed || plan->n_slots > 0 ||
            plan->bundle_bytes > 0);
}
