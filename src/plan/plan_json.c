/* Reads a plan from JSON: a table of keys, then a check that the lengths of
 * lists agree. */
#include "plan/plan_json.h"

#include "base/nearest.h"
#include "base/value.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_BLOCKS_OF_STAGE = 100000,
    MAX_RANKS = 1024,
    MAX_DEPTH = 1000,
    MAX_STEPS = 1000000,
    MAX_SLOTS = 1024,
    SHOWN_BYTES = 48,
};

struct list {
    const struct vp_yaml_node *node; /* NULL: not in the file */
    int n;
};

struct reader {
    const char *source;
    struct vp_arena *arena;
    struct vp_err *err;
    struct vp_plan plan;
    struct list partition, ratios, swap_ratios, swap_buffers, replicas, depths,
        ranks, devices, edges, replica_edges;
};

struct field {
    const char *name, *example;
    enum vp_status (*read)(struct reader *r, const struct field *field,
                           const struct vp_yaml_node *node);
    size_t offset; /* offset of the value in struct vp_plan */
    int64_t min, max;
    size_t list; /* lists only: offset of its entry in struct reader */
};

/* ---- Refusing ----------------------------------------------------------- */

struct shown {
    char text[SHOWN_BYTES + 32];
};

/* Returns the text of a node for a message, shortened without cutting a UTF-8
 * character. */
static struct shown show(const struct vp_yaml_node *node)
{
    struct shown out;
    size_t n;

    if (node->kind != VP_YAML_SCALAR) {
        snprintf(out.text, sizeof(out.text), "%s",
                 node->kind == VP_YAML_MAP ? "a map"
                 : node->child             ? "a list"
                                           : "an empty list");
        return out;
    }
    n = strnlen(node->text, SHOWN_BYTES + 1);
    if (n > SHOWN_BYTES) {
        n = SHOWN_BYTES;
        while (n > 0 && ((unsigned char)node->text[n] & 0xC0) == 0x80)
            n--;
    }
    snprintf(out.text, sizeof(out.text), "%s'%.*s%s'",
             node->quoted ? "the quoted text " : "", (int)n, node->text,
             node->text[n] ? "..." : "");
    return out;
}

#define PLACE "%s:%d:%d: "

static enum vp_status no_memory(const struct reader *r)
{
    return vp_err_set(r->err, VP_ERR_NOMEM,
                      "%s: out of memory; close other programs", r->source);
}

static enum vp_status refuse(const struct reader *r, const struct field *field,
                             const struct vp_yaml_node *node,
                             const char *expected)
{
    return vp_err_set(r->err, VP_ERR_INVALID,
                      PLACE "key '%s' must be %s, not %s; write for example "
                            "'\"%s\": %s'",
                      r->source, node->line, node->column, field->name,
                      expected, show(node).text, field->name, field->example);
}

static enum vp_status refuse_item(const struct reader *r,
                                  const struct field *field,
                                  const struct vp_yaml_node *item, int i,
                                  const char *remedy)
{
    return vp_err_set(r->err, VP_ERR_INVALID,
                      PLACE "key '%s' has %s as entry %d; write %s, for "
                            "example '\"%s\": %s'",
                      r->source, item->line, item->column, field->name,
                      show(item).text, i + 1, remedy, field->name,
                      field->example);
}

/* ---- Numbers and words -------------------------------------------------- */

static bool to_int(const struct vp_yaml_node *node, int64_t min, int64_t max,
                   int64_t *out)
{
    return node->kind == VP_YAML_SCALAR && !node->quoted &&
           vp_text_to_i64(node->text, out) && *out >= min && *out <= max;
}

static enum vp_status read_i64(struct reader *r, const struct field *field,
                               const struct vp_yaml_node *node, int64_t *out)
{
    char expected[80];

    snprintf(expected, sizeof(expected), "a whole number from %lld to %lld",
             (long long)field->min, (long long)field->max);
    return to_int(node, field->min, field->max, out)
               ? VP_OK
               : refuse(r, field, node, expected);
}

static enum vp_status read_int(struct reader *r, const struct field *field,
                               const struct vp_yaml_node *node)
{
    int64_t value;

    VP_TRY(read_i64(r, field, node, &value));
    *(int *)((char *)&r->plan + field->offset) = (int)value;
    return VP_OK;
}

static enum vp_status read_bytes(struct reader *r, const struct field *field,
                                 const struct vp_yaml_node *node)
{
    return read_i64(r, field, node, &r->plan.bundle_bytes);
}

static enum vp_status read_bool(struct reader *r, const struct field *field,
                                const struct vp_yaml_node *node)
{
    bool *out = (bool *)((char *)&r->plan + field->offset);

    if (node->kind != VP_YAML_SCALAR || node->quoted ||
        !vp_text_to_bool(node->text, out))
        return refuse(r, field, node, "true or false");
    return VP_OK;
}

static enum vp_status read_version(struct reader *r, const struct field *field,
                                   const struct vp_yaml_node *node)
{
    int64_t version;

    VP_TRY(read_i64(r, field, node, &version));
    if (version > VP_PLAN_VERSION)
        return vp_err_set(r->err, VP_ERR_UNSUPPORTED,
                          PLACE "plan version %lld; this vpipe reads %d; use a "
                                "newer one",
                          r->source, node->line, node->column,
                          (long long)version, VP_PLAN_VERSION);
    return VP_OK;
}

static enum vp_status read_schedule(struct reader *r, const struct field *field,
                                    const struct vp_yaml_node *node)
{
    const struct vp_generator *generator;
    const char *names[64];
    int n = 0, best;

    if (node->kind != VP_YAML_SCALAR || !node->quoted)
        return refuse(r, field, node, "the name of a schedule");
    while (n < 64 && (generator = vp_generator_at(n)))
        names[n++] = generator->name;
    generator = vp_generator_find(node->text);
    best = generator ? -1 : vp_nearest(node->text, names, n);
    if (best >= 0)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "key '%s' is %s, which is no schedule; did you "
                                "mean '%s'?",
                          r->source, node->line, node->column, field->name,
                          show(node).text, names[best]);
    if (!generator || generator->forward_only)
        return refuse(r, field, node, "the name of a schedule that trains");
    r->plan.schedule = generator->name;
    return VP_OK;
}

/* Joins a list of lines to one text. */
static enum vp_status read_lines(struct reader *r, const struct field *field,
                                 const struct vp_yaml_node *node)
{
    const struct vp_yaml_node *item;
    size_t n_bytes = 1;
    char *text;
    int i = 0;

    if (node->kind != VP_YAML_LIST || !node->child)
        return refuse(r, field, node, "a list of lines");
    for (item = node->child; item; item = item->next, i++) {
        if (item->kind != VP_YAML_SCALAR || !item->quoted)
            return refuse_item(r, field, item, i, "a line of text");
        n_bytes += strlen(item->text) + 1;
    }
    text = vp_arena_alloc(r->arena, n_bytes);
    if (!text)
        return no_memory(r);
    r->plan.schedule_text = text;
    for (item = node->child; item; item = item->next) {
        size_t n = strlen(item->text);

        memcpy(text, item->text, n);
        text[n] = '\n';
        text += n + 1;
    }
    return VP_OK;
}

/* ---- Lists -------------------------------------------------------------- */

static enum vp_status begin_list(struct reader *r, const struct field *field,
                                 const struct vp_yaml_node *node,
                                 const char *expected)
{
    struct list *list = (struct list *)((char *)r + field->list);

    if (node->kind != VP_YAML_LIST || !node->child)
        return refuse(r, field, node, expected);
    *list = (struct list){ .node = node };
    for (const struct vp_yaml_node *item = node->child; item; item = item->next)
        list->n++;
    return VP_OK;
}

static int list_length(const struct reader *r, const struct field *field)
{
    return ((const struct list *)((const char *)r + field->list))->n;
}

static enum vp_status read_ints(struct reader *r, const struct field *field,
                                const struct vp_yaml_node *node)
{
    const struct vp_yaml_node *item;
    char remedy[80];
    int64_t value;
    int i = 0, *at;

    VP_TRY(begin_list(r, field, node,
                      field->offset == offsetof(struct vp_plan, ranks) ||
                              field->offset == offsetof(struct vp_plan, devices)
                          ? "a list with an entry per rank"
                          : "a list with an entry per stage"));
    at = vp_arena_alloc(r->arena, (size_t)list_length(r, field) * sizeof(*at));
    if (!at)
        return no_memory(r);
    snprintf(remedy, sizeof(remedy), "whole numbers from %lld to %lld",
             (long long)field->min, (long long)field->max);
    for (item = node->child; item; item = item->next, i++) {
        if (!to_int(item, field->min, field->max, &value))
            return refuse_item(r, field, item, i, remedy);
        at[i] = (int)value;
    }
    *(const int **)((char *)&r->plan + field->offset) = at;
    return VP_OK;
}

static enum vp_status read_ratios(struct reader *r, const struct field *field,
                                  const struct vp_yaml_node *node)
{
    const struct list *list = (const struct list *)(const void *)((char *)r +
                                                                  field->list);
    const struct vp_yaml_node *item;
    double *at;
    int i = 0;

    VP_TRY(begin_list(r, field, node, "a list with an entry per stage"));
    at = vp_arena_alloc(r->arena, (size_t)list->n * sizeof(*at));
    if (!at)
        return no_memory(r);
    for (item = node->child; item; item = item->next, i++)
        if (item->kind != VP_YAML_SCALAR || item->quoted ||
            !vp_text_to_real(item->text, &at[i]) || at[i] < 0.0 || at[i] > 1.0)
            return refuse_item(r, field, item, i, "numbers from 0 to 1");
    *(const double **)(void *)((char *)&r->plan + field->offset) = at;
    return VP_OK;
}

static bool to_edge(const struct vp_yaml_node *node, enum vp_edge_kind *out)
{
    static const char *const words[] = {
        [VP_EDGE_LOCAL] = "local",
        [VP_EDGE_HOST] = "host",
        [VP_EDGE_DEVICE] = "device",
    };

    for (size_t w = 0; w < VP_COUNT_OF(words); w++)
        if (node->kind == VP_YAML_SCALAR && strcmp(node->text, words[w]) == 0) {
            *out = (enum vp_edge_kind)w;
            return true;
        }
    return false;
}

static enum vp_status read_edge(struct reader *r, const struct field *field,
                                const struct vp_yaml_node *node)
{
    if (!to_edge(node, &r->plan.tie_edge))
        return refuse(r, field, node, "local, host or device");
    return VP_OK;
}

static enum vp_status read_edges(struct reader *r, const struct field *field,
                                 const struct vp_yaml_node *node)
{
    const struct vp_yaml_node *item;
    enum vp_edge_kind *at;
    int i = 0;

    VP_TRY(begin_list(r, field, node,
                      field->offset == offsetof(struct vp_plan, edges)
                          ? "a list with an entry per pair of neighbouring "
                            "stages"
                          : "a list with an entry per stage"));
    at = vp_arena_alloc(r->arena, (size_t)list_length(r, field) * sizeof(*at));
    if (!at)
        return no_memory(r);
    for (item = node->child; item; item = item->next, i++)
        if (!to_edge(item, &at[i]))
            return refuse_item(r, field, item, i, "local, host or device");
    *(const enum vp_edge_kind **)((char *)&r->plan + field->offset) = at;
    return VP_OK;
}

/* ---- Sets of operators -------------------------------------------------- */

static enum vp_status read_set(const struct reader *r,
                               const struct field *field,
                               const struct vp_yaml_node *list, int block,
                               uint64_t *out)
{
    int64_t op;

    if (list->kind != VP_YAML_LIST)
        return refuse_item(r, field, list, block, "a list of operators each");
    for (const struct vp_yaml_node *i = list->child; i; i = i->next) {
        if (!to_int(i, 0, VP_MAX_BLOCK_OPS - 1, &op))
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "key '%s' has %s for block %d; write "
                                    "numbers of operators from 0 to %d",
                              r->source, i->line, i->column, field->name,
                              show(i).text, block, VP_MAX_BLOCK_OPS - 1);
        if (*out >> op & 1)
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "key '%s' has operator %d of block %d "
                                    "twice; keep one",
                              r->source, i->line, i->column, field->name,
                              (int)op, block);
        *out |= UINT64_C(1) << op;
    }
    return VP_OK;
}

/* Reads one set per block. The partition has been read before and gives the
 * number of blocks. */
static enum vp_status read_set_list(const struct reader *r,
                                    const struct field *field,
                                    const struct vp_yaml_node *node,
                                    const uint64_t **out)
{
    const struct vp_yaml_node *item;
    int64_t n_blocks = 0;
    int n = 0, i = 0;
    uint64_t *sets;

    if (node->kind != VP_YAML_LIST || !node->child)
        return refuse(r, field, node, "a list with an entry per block");
    if (!r->plan.partition)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "key '%s' needs key 'partition'; add the "
                                "blocks of every stage",
                          r->source, node->line, node->column, field->name);
    for (int s = 0; s < r->partition.n; s++)
        n_blocks += r->plan.partition[s];
    for (item = node->child; item; item = item->next)
        n++;
    if (n != n_blocks)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "key '%s' has %d %s for the %lld blocks of "
                                "partition; give one each",
                          r->source, node->line, node->column, field->name, n,
                          n == 1 ? "entry" : "entries", (long long)n_blocks);
    sets = vp_arena_alloc(r->arena, (size_t)n * sizeof(*sets));
    if (!sets)
        return no_memory(r);
    for (item = node->child; item; item = item->next, i++)
        VP_TRY(read_set(r, field, item, i, &sets[i]));
    *out = sets;
    return VP_OK;
}

static enum vp_status read_sets(struct reader *r, const struct field *field,
                                const struct vp_yaml_node *node)
{
    return read_set_list(
        r, field, node,
        (const uint64_t **)(void *)((char *)&r->plan + field->offset));
}

static enum vp_status read_slots(struct reader *r, const struct field *field,
                                 const struct vp_yaml_node *node)
{
    static const char *const known[] = { "recompute", "swap" };
    const struct vp_yaml_node *item, *sets;
    struct vp_plan_slot *slots;
    int n = 0;

    for (item = node->child; item; item = item->next)
        n++;
    if (node->kind != VP_YAML_LIST || n == 0 || n > MAX_SLOTS)
        return refuse(r, field, node, "a list with an entry per slot");
    slots = vp_arena_alloc(r->arena, (size_t)n * sizeof(*slots));
    if (!slots)
        return no_memory(r);
    n = 0;
    for (item = node->child; item; item = item->next, n++) {
        VP_TRY(vp_json_check_keys(r->source, item, "a slot", known,
                                  VP_COUNT_OF(known), r->err));
        sets = vp_json_find(item, "recompute");
        if (sets)
            VP_TRY(read_set_list(r, field, sets, &slots[n].recompute_sets));
        sets = vp_json_find(item, "swap");
        if (sets)
            VP_TRY(read_set_list(r, field, sets, &slots[n].swap_sets));
    }
    r->plan.slots = slots;
    r->plan.n_slots = n;
    return VP_OK;
}

static enum vp_status read_over(struct reader *r, const struct field *field,
                                const struct vp_yaml_node *node)
{
    (void)r;
    (void)field;
    (void)node;
    return VP_OK;
}

/* ---- The table ---------------------------------------------------------- */

#define AT(member) .offset = offsetof(struct vp_plan, member)
#define LIST(member) .list = offsetof(struct reader, member)

/* In reading order: sets need the partition. */
static const struct field fields[] = {
    { "partition", "[3, 2, 2, 2]", read_ints, AT(partition), 1,
      MAX_BLOCKS_OF_STAGE, LIST(partition) },
    { "version", "1", read_version, .min = 1, .max = INT32_MAX },
    { "recompute_ratio", "[0.3, 0, 0, 0]", read_ratios, AT(recompute_ratio),
      LIST(ratios) },
    { "recompute", "[[0, 1], []]", read_sets, AT(recompute_sets) },
    { "swap_ratio", "[0.5, 0.5, 0, 0]", read_ratios, AT(swap_ratio),
      LIST(swap_ratios) },
    { "swap", "[[0, 1], []]", read_sets, AT(swap_sets) },
    { "swap_buffers", "[3, 3, 0, 0]", read_ints, AT(swap_buffers), 0, MAX_SLOTS,
      LIST(swap_buffers) },
    { "slots", "[{\"recompute\": [[0, 1], []]}]", .read = read_slots },
    { "recompute_in_backward", "true", read_bool, AT(recompute_in_b) },
    { "w_recomputed", "true", read_bool, AT(w_recomputed) },
    { "keep_all", "true", read_bool, AT(keep_all) },
    { "schedule", "\"1f1b\"", .read = read_schedule },
    { "schedule_memory", "6", read_int, AT(schedule_memory), 2,
      2 * VP_MAX_STAGES },
    { "schedule_text", "[\"schedule=1f1b ...\", \"0: 0F0 ...\"]",
      .read = read_lines },
    { "schedule_v", "true", read_bool, AT(schedule_v) },
    { "early_recompute", "true", read_bool, AT(early_recompute) },
    { "accumulation_steps", "4", read_int, AT(accumulation_steps), 1,
      MAX_STEPS },
    { "stages", "4", read_int, AT(n_stages), 1, VP_MAX_STAGES },
    { "chunks", "2", read_int, AT(n_chunks), 1, VP_MAX_STAGES },
    { "replicas", "[1, 2, 1]", read_ints, AT(replicas), 1, VP_MAX_STAGES,
      LIST(replicas) },
    { "warmup_depths", "[3, 2, 1, 0]", read_ints, AT(depth), 0, MAX_DEPTH,
      LIST(depths) },
    { "ranks", "[0, 2, 1, 3]", read_ints, AT(ranks), 0, MAX_RANKS - 1,
      LIST(ranks) },
    { "devices", "[0, 1, 2, 3]", read_ints, AT(devices), 0, MAX_RANKS - 1,
      LIST(devices) },
    { "tensor_parallel", "1", read_int, AT(tensor_parallel), 1, MAX_RANKS },
    { "sequence_parallel", "true", read_bool, AT(sequence_parallel) },
    { "keep_gathered", "true", read_bool, AT(keep_gathered) },
    { "edges", "[\"local\", \"host\"]", read_edges, AT(edges), LIST(edges) },
    { "replica_edges", "[\"local\", \"host\"]", read_edges, AT(replica_edges),
      LIST(replica_edges) },
    { "tie_edge", "\"host\"", .read = read_edge },
    { "compress_activations", "false", read_bool, AT(compress) },
    { "shard_optimizer", "true", read_bool, AT(shard_optimizer) },
    { "bundle_bytes", "2097152", read_bytes, .min = 1, .max = INT64_MAX },
    { "forecast", "{}", .read = read_over },
    { "history", "[]", .read = read_over },
    { "until_step", "100", .read = read_over },
    { "moved_at", "100", .read = read_over },
    { "module_to_stage_map", "[0, 1, 1]", .read = read_over },
    { "stage_to_rank_map", "{\"0\": [0], \"1\": [1]}", .read = read_over },
    { "stage_to_depth_map", "{\"0\": 1, \"1\": 0}", .read = read_over },
    { "mp_size", "1", .read = read_over },
};

/* ---- Lengths ------------------------------------------------------------ */

static enum vp_status check_length(const struct reader *r,
                                   const struct list *list, int want,
                                   const char *of)
{
    if (!list->node || list->n == want)
        return VP_OK;
    return vp_err_set(
        r->err, VP_ERR_INVALID,
        PLACE "key '%s' has %d %s for %d %s%s; give one each", r->source,
        list->node->line, list->node->column, list->node->key, list->n,
        list->n == 1 ? "entry" : "entries", want, of, want == 1 ? "" : "s");
}

/* Sets n_stages and n_chunks from the partition, as far as the file does not
 * name them. */
static enum vp_status count_stages(struct reader *r)
{
    struct vp_plan *plan = &r->plan;
    const struct vp_generator *generator = plan->schedule ? vp_generator_find(
                                                                plan->schedule)
                                                          : NULL;
    int n = r->partition.n;

    if (n > VP_MAX_STAGES)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "key 'partition' has %d stages; use at most %d",
                          r->source, r->partition.node->line,
                          r->partition.node->column, n, VP_MAX_STAGES);
    if (plan->n_chunks == 0)
        plan->n_chunks = generator && generator->chunks && !generator->planned
                             ? 2
                             : 1;
    if (plan->n_stages == 0 && n % plan->n_chunks != 0)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "key 'partition' has %d entries, which do not "
                                "divide into %d chunks; give chunks x stages "
                                "of them",
                          r->source, r->partition.node->line,
                          r->partition.node->column, n, plan->n_chunks);
    if (plan->n_stages == 0)
        plan->n_stages = n / plan->n_chunks;
    if (plan->n_stages * plan->n_chunks != n)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          PLACE "key 'partition' has %d entries for %d chunk%s "
                                "of %d stage%s; give chunks x stages of them",
                          r->source, r->partition.node->line,
                          r->partition.node->column, n, plan->n_chunks,
                          plan->n_chunks == 1 ? "" : "s", plan->n_stages,
                          plan->n_stages == 1 ? "" : "s");
    return VP_OK;
}

static enum vp_status check_lengths(struct reader *r)
{
    int n_ranks = 0;

    if (!r->partition.node)
        return VP_OK;
    VP_TRY(count_stages(r));
    VP_TRY(check_length(r, &r->ratios, r->partition.n, "stage"));
    VP_TRY(check_length(r, &r->swap_ratios, r->partition.n, "stage"));
    VP_TRY(check_length(r, &r->swap_buffers, r->partition.n, "stage"));
    VP_TRY(check_length(r, &r->replicas, r->plan.n_stages, "stage"));
    VP_TRY(check_length(r, &r->depths, r->plan.n_stages, "stage"));
    for (int s = 0; s < r->plan.n_stages; s++)
        n_ranks += r->plan.replicas ? r->plan.replicas[s] : 1;
    VP_TRY(check_length(r, &r->ranks, n_ranks, "rank"));
    n_ranks *= r->plan.tensor_parallel > 0 ? r->plan.tensor_parallel : 1;
    VP_TRY(check_length(r, &r->devices, n_ranks, "rank"));
    VP_TRY(check_length(r, &r->replica_edges, r->partition.n, "stage"));
    return check_length(r, &r->edges, r->partition.n - 1, "edge");
}

/* Refuses a file with two keys for the same setting. */
static enum vp_status check_twins(const struct reader *r,
                                  const struct vp_yaml_node *root)
{
    static const char *const twins[][2] = {
        { "stage_to_rank_map", "replicas" },
        { "stage_to_rank_map", "ranks" },
        { "stage_to_depth_map", "warmup_depths" },
        { "mp_size", "tensor_parallel" },
    };

    for (size_t i = 0; i < VP_COUNT_OF(twins); i++) {
        const struct vp_yaml_node *a = vp_json_find(root, twins[i][0]);
        const struct vp_yaml_node *b = vp_json_find(root, twins[i][1]);

        if (a && b)
            return vp_err_set(r->err, VP_ERR_INVALID,
                              PLACE "key '%s' has the same meaning as '%s' "
                                    "on line %d; keep one",
                              r->source, a->key_line, a->key_column, a->key,
                              b->key, b->key_line);
    }
    return VP_OK;
}

/* ---- The file ----------------------------------------------------------- */

/* Checks the version before the keys: a file of a later version may have keys
 * that are unknown here. */
static enum vp_status check_version(struct reader *r,
                                    const struct vp_yaml_node *root)
{
    const struct vp_yaml_node *node = root->kind == VP_YAML_MAP
                                          ? vp_json_find(root, "version")
                                          : NULL;

    for (size_t i = 0; node && i < VP_COUNT_OF(fields); i++)
        if (fields[i].read == read_version)
            return read_version(r, &fields[i], node);
    return VP_OK;
}

enum vp_status vp_plan_from_json(const struct vp_yaml_node *root,
                                 const char *source, struct vp_arena *arena,
                                 struct vp_plan *out, struct vp_err *err)
{
    struct reader r = { .source = source, .arena = arena, .err = err };
    const char *known[VP_COUNT_OF(fields)];

    for (size_t i = 0; i < VP_COUNT_OF(fields); i++)
        known[i] = fields[i].name;
    VP_TRY(check_version(&r, root));
    VP_TRY(vp_json_check_keys(source, root, "a plan", known, VP_COUNT_OF(known),
                              err));
    if (!vp_json_find(root, "partition") &&
        !vp_json_find(root, "stage_to_rank_map"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s:%d: key 'partition' is missing; add the blocks "
                          "of every stage, for example '\"partition\": %s'",
                          source, root->line, fields[0].example);
    VP_TRY(check_twins(&r, root));
    for (size_t i = 0; i < VP_COUNT_OF(fields); i++) {
        const struct vp_yaml_node *node = vp_json_find(root, fields[i].name);

        if (node)
            VP_TRY(fields[i].read(&r, &fields[i], node));
    }
    VP_TRY(check_lengths(&r));
    *out = r.plan;
    return VP_OK;
}

enum vp_status vp_plan_parse(const char *text, size_t n_bytes,
                             const char *source, struct vp_arena *arena,
                             struct vp_plan *out, struct vp_err *err)
{
    const struct vp_yaml_node *root;

    VP_TRY(vp_json_parse(source, text, n_bytes, arena, &root, err));
    return vp_plan_from_json(root, source, arena, out, err);
}
