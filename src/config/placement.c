/* Reads placement files. Every rank and every stage must be there once,
 * numbered from 0 without gaps. */
#include "config/placement.h"

#include "base/value.h"
#include "config/json_file.h"
#include "config/key.h"
#include "runtime/trainer/trainer.h"

#include <string.h>

enum { MAX_RANKS = 1024, MAX_DEPTH = 1000 };

/* A placement file while it is read. */
struct reader {
    const char *path, *via;
    struct vp_config *config;
    struct vp_err *err;
    struct vp_placement *out;
    int mp_size; /* from the file; 1 if it has none */
};

#define PLACE "%s:%d: "

static enum vp_status no_memory(const struct reader *r)
{
    return vp_err_set(r->err, VP_ERR_NOMEM,
                      "%s: out of memory; close other programs", r->path);
}

static bool read_int(const struct vp_yaml_node *node, int max, int *out)
{
    int64_t value;

    if (node->kind != VP_YAML_SCALAR || node->quoted ||
        !vp_text_to_i64(node->text, &value) || value < 0 || value > max)
        return false;
    *out = (int)value;
    return true;
}

/* The value of a node, for messages. */
struct shown {
    char text[VP_SHOWN_BYTES];
};

static struct shown show(const struct vp_yaml_node *node)
{
    struct vp_entry entry = { .kind = node->kind,
                              .text = node->text,
                              .quoted = node->quoted,
                              .items = node->child };
    struct shown shown;

    vp_entry_show(&entry, shown.text);
    return shown;
}

static int *alloc_ints(const struct reader *r, int n)
{
    return vp_arena_alloc(&r->config->arena, (size_t)n * sizeof(int));
}

static int count(const struct vp_yaml_node *node)
{
    int n = 0;

    for (node = node->child; node; node = node->next)
        n++;
    return n;
}

/* Records the file as the origin of a key of the configuration. */
static enum vp_status give(const struct reader *r, const char *key,
                           const struct vp_yaml_node *node)
{
    const struct vp_origin origin = {
        .key = key,
        .place = vp_arena_printf(&r->config->arena, "%s:%d", r->path,
                                 node->key_line),
        .written = node->key,
        .via = r->via,
    };

    if (!origin.place)
        return no_memory(r);
    vp_origin_give(r->config, &origin);
    return VP_OK;
}

/* ---- Modules ------------------------------------------------------------ */

static enum vp_status read_modules(const struct reader *r,
                                   const struct vp_yaml_node *map)
{
    static const char example[] = "\"module_to_stage_map\": [0, 1, 2, 2]";
    const struct vp_yaml_node *item = map->child;
    int n = 0, last = 0;
    int *stages = alloc_ints(r, count(map));

    if (!stages)
        return no_memory(r);
    if (map->kind != VP_YAML_LIST || !item)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "key '%s' must be a list of stages, not %s; "
                                "write for example '%s'",
                          r->path, map->key_line, map->key, show(map).text,
                          example);
    for (; item; item = item->next, n++) {
        int stage;

        if (!read_int(item, VP_MAX_STAGES - 1, &stage))
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "key '%s' has %s as entry %d; write stages "
                                    "from 0 to %d, for example '%s'",
                              r->path, item->line, map->key, show(item).text,
                              n + 1, VP_MAX_STAGES - 1, example);
        if (n == 0 && stage != 0)
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "key '%s' begins with stage %d; begin with "
                                    "0, as in '%s'",
                              r->path, item->line, map->key, stage, example);
        if (stage < last)
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "key '%s' goes back from stage %d to %d at "
                                    "entry %d; order it, as in '%s'",
                              r->path, item->line, map->key, last, stage, n + 1,
                              example);
        if (stage > last + 1)
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "key '%s' jumps from stage %d to %d at "
                                    "entry %d; leave out no stage, as in '%s'",
                              r->path, item->line, map->key, last, stage, n + 1,
                              example);
        stages[n] = last = stage;
    }
    r->out->modules = (struct vp_int_list){ stages, n };
    r->out->modules_place = vp_arena_printf(&r->config->arena, "%s:%d", r->path,
                                            map->key_line);
    return r->out->modules_place ? VP_OK : no_memory(r);
}

/* ---- Maps from stages --------------------------------------------------- */

/* Sorts the entries of {"0": ..., "1": ...} by stage; refuses gaps. */
static enum vp_status sort_stages(const struct reader *r,
                                  const struct vp_yaml_node *map,
                                  const char *example,
                                  const struct vp_yaml_node *by_stage[],
                                  int *n_out)
{
    const struct vp_yaml_node *node;
    int64_t stage;
    int n = count(map);

    if (map->kind != VP_YAML_MAP || n == 0)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "key '%s' must be an object with an entry per "
                                "stage, not %s; write for example '%s'",
                          r->path, map->key_line, map->key,
                          map->kind == VP_YAML_MAP ? "an empty one"
                                                   : show(map).text,
                          example);
    if (n > VP_MAX_STAGES)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "key '%s': %d stages are too many; use at most "
                                "%d",
                          r->path, map->key_line, map->key, n, VP_MAX_STAGES);
    for (int s = 0; s < n; s++)
        by_stage[s] = NULL;
    for (node = map->child; node; node = node->next) {
        if (node->key[0] < '0' || node->key[0] > '9' ||
            !vp_text_to_i64(node->key, &stage))
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "key '%s' has '%.48s' in place of a stage; "
                                    "write for example '%s'",
                              r->path, node->key_line, map->key, node->key,
                              example);
        if (stage < n)
            by_stage[stage] = node;
    }
    for (int s = 0; s < n; s++)
        if (!by_stage[s])
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "key '%s' has %d stage%s, but no stage %d; "
                                    "number them from 0, without a hole",
                              r->path, map->key_line, map->key, n,
                              n == 1 ? "" : "s", s);
    *n_out = n;
    return VP_OK;
}

/* ---- Ranks -------------------------------------------------------------- */

/* Appends the ranks of a stage to `ranks`. stage_of[rank] is -1 for a rank that
 * was not seen yet. */
static enum vp_status read_ranks(const struct reader *r,
                                 const struct vp_yaml_node *list, int stage,
                                 int stage_of[MAX_RANKS], int *ranks, int *n)
{
    const struct vp_yaml_node *item = list->child;
    int rank;

    if (list->kind != VP_YAML_LIST || !item)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "stage %d must have a list of ranks, not %s; "
                                "write for example '\"%d\": [%d]'",
                          r->path, list->key_line, stage, show(list).text,
                          stage, *n);
    for (; item; item = item->next) {
        if (!read_int(item, MAX_RANKS - 1, &rank))
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "stage %d has %s in place of a rank; write "
                                    "whole numbers from 0 to %d",
                              r->path, item->line, stage, show(item).text,
                              MAX_RANKS - 1);
        if (stage_of[rank] >= 0)
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "rank %d is on stage %d and again on stage "
                                    "%d; name every rank once",
                              r->path, item->line, rank, stage_of[rank], stage);
        stage_of[rank] = stage;
        ranks[(*n)++] = rank;
    }
    return VP_OK;
}

/* Returns the distance between the numbers of two entries. A file with mp_size
 * lists the first rank of each tensor-parallel group, so all numbers are
 * multiples of mp_size; otherwise it lists all ranks. */
static int rank_step(const struct reader *r, const int *ranks, int n)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] % r->mp_size != 0)
            return 1;
    return r->mp_size;
}

/* Keeps the list of ranks, unless it is 0, 1, ..., the default. */
static enum vp_status keep_ranks(const struct reader *r,
                                 const struct vp_yaml_node *map,
                                 const int *ranks, int n)
{
    int i = 0;

    while (i < n && ranks[i] == i)
        i++;
    if (i == n)
        return VP_OK;
    r->out->ranks = (struct vp_int_list){ ranks, n };
    r->config->ranks = r->out->ranks;
    return give(r, "ranks", map);
}

static enum vp_status read_rank_map(const struct reader *r,
                                    const struct vp_yaml_node *map)
{
    const struct vp_yaml_node *by_stage[VP_MAX_STAGES];
    int stage_of[MAX_RANKS], n = 0, step;
    int *replicas = alloc_ints(r, VP_MAX_STAGES);
    int *ranks = alloc_ints(r, MAX_RANKS);

    if (!replicas || !ranks)
        return no_memory(r);
    VP_TRY(sort_stages(r, map,
                       "\"stage_to_rank_map\": {\"0\": [0], \"1\": [1]}",
                       by_stage, &r->out->n_stages));
    for (int i = 0; i < MAX_RANKS; i++)
        stage_of[i] = -1;
    for (int s = 0; s < r->out->n_stages; s++) {
        int before = n;

        VP_TRY(read_ranks(r, by_stage[s], s, stage_of, ranks, &n));
        replicas[s] = n - before;
    }
    step = rank_step(r, ranks, n);
    for (int i = 0; i < n; i++)
        if (i * step >= MAX_RANKS || stage_of[i * step] < 0)
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "rank %d is missing in key '%s'; number "
                                    "the %d ranks from 0, without a hole",
                              r->path, map->key_line, i * step, map->key, n);
    for (int i = 0; i < n; i++)
        ranks[i] /= step;
    r->out->replicas = (struct vp_int_list){ replicas, r->out->n_stages };
    r->config->replicas = r->out->replicas;
    VP_TRY(give(r, "replicas", map));
    VP_TRY(keep_ranks(r, map, ranks, n));
    r->out->place = vp_arena_printf(&r->config->arena, "%s:%d", r->path,
                                    map->key_line);
    return r->out->place ? VP_OK : no_memory(r);
}

/* ---- Depths ------------------------------------------------------------- */

static enum vp_status read_depth_map(const struct reader *r,
                                     const struct vp_yaml_node *map)
{
    const struct vp_yaml_node *by_stage[VP_MAX_STAGES];
    int *depths = alloc_ints(r, VP_MAX_STAGES);
    int n = 0;

    if (!depths)
        return no_memory(r);
    VP_TRY(sort_stages(r, map, "\"stage_to_depth_map\": {\"0\": 1, \"1\": 0}",
                       by_stage, &n));
    if (n != r->out->n_stages)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "key '%s' has %d stage%s, but "
                                "stage_to_rank_map has %d; give a depth each",
                          r->path, map->key_line, map->key, n,
                          n == 1 ? "" : "s", r->out->n_stages);
    for (int s = 0; s < n; s++)
        if (!read_int(by_stage[s], MAX_DEPTH, &depths[s]))
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "stage %d has depth %s; write a whole "
                                    "number from 0 to %d",
                              r->path, by_stage[s]->key_line, s,
                              show(by_stage[s]).text, MAX_DEPTH);
    r->config->warmup_depths = (struct vp_int_list){ depths, n };
    return give(r, "warmup_depths", map);
}

/* ---- The file ----------------------------------------------------------- */

/* Read before the ranks, whose numbers depend on mp_size. */
static enum vp_status read_mp_size(struct reader *r,
                                   const struct vp_yaml_node *node)
{
    struct vp_entry entry = vp_json_entry(r->path, node, &r->config->arena);

    if (!entry.place)
        return no_memory(r);
    VP_TRY(vp_key_set(vp_key_find("mp_size"), &entry, r->config, r->err));
    if (vp_config_given(r->config, "mp_size")) {
        r->mp_size = r->config->mp_size; /* the key wins: its row comes later */
        return VP_OK;
    }
    r->mp_size = r->config->mp_size;
    return give(r, "mp_size", node);
}

enum vp_status vp_placement_take(const char *path,
                                 const struct vp_yaml_node *root,
                                 const char *via, struct vp_config *config,
                                 struct vp_err *err)
{
    static const char *const keys[] = { "stage_to_rank_map",
                                        "module_to_stage_map",
                                        "stage_to_depth_map", "mp_size" };
    struct reader r = {
        .path = path, .via = via, .config = config, .err = err, .mp_size = 1
    };
    const struct vp_yaml_node *ranks, *modules, *depths, *mp_size;

    r.out = vp_arena_alloc(&config->arena, sizeof(*r.out));
    if (!r.out)
        return no_memory(&r);
    VP_TRY(vp_json_check_keys(path, root, "a placement", keys,
                              VP_COUNT_OF(keys), err));
    ranks = vp_json_find(root, keys[0]);
    modules = vp_json_find(root, keys[1]);
    depths = vp_json_find(root, keys[2]);
    mp_size = vp_json_find(root, keys[3]);
    if (!ranks)
        return vp_err_set(err, VP_ERR_INVALID,
                          PLACE "key '%s' is missing; add the ranks of every "
                                "stage, for example '\"%s\": {\"0\": [0], "
                                "\"1\": [1]}'",
                          path, root->line, keys[0], keys[0]);
    if (mp_size)
        VP_TRY(read_mp_size(&r, mp_size));
    VP_TRY(read_rank_map(&r, ranks));
    if (modules)
        VP_TRY(read_modules(&r, modules));
    if (depths)
        VP_TRY(read_depth_map(&r, depths));
    config->placement = r.out;
    return VP_OK;
}

enum vp_status vp_placement_read(const struct vp_entry *entry,
                                 struct vp_config *config, struct vp_err *err)
{
    const struct vp_yaml_node *root;
    const char *path;

    VP_TRY(vp_json_read(entry, config, &path, &root, err));
    return vp_placement_take(path, root, entry->place, config, err);
}
