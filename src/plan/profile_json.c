/* Reads a profile from JSON: a table of keys per object, then a check that the
 * required rates are present. */
#include "plan/profile.h"

#include "base/value.h"

#include <stdio.h>
#include <string.h>

#define PLACE "%s:%d:%d: "
#define MOST_SECONDS 1e6
#define MOST_SLOWDOWN 1e3
#define MOST_RATE 1e9 /* in units of the file: GB/s, TFLOP/s */

enum { MAX_TEXT = 256, MAX_RANKS = 1024, MAX_BLOCKS = 100000 };

struct reader {
    const char *source;
    struct vp_arena *arena;
    struct vp_err *err;
};

/* ---- Refusing ----------------------------------------------------------- */

static enum vp_status refuse(const struct reader *r,
                             const struct vp_yaml_node *node, const char *what,
                             const char *expected)
{
    bool scalar = node->kind == VP_YAML_SCALAR;

    return vp_err_set(r->err, VP_ERR_INVALID,
                      PLACE "%s is %s%.40s%s in a profile; write %s", r->source,
                      node->line, node->column, what, scalar ? "'" : "",
                      scalar                      ? node->text
                      : node->kind == VP_YAML_MAP ? "an object"
                                                  : "a list",
                      scalar ? "'" : "", expected);
}

static enum vp_status missing(const struct reader *r,
                              const struct vp_yaml_node *node, const char *what)
{
    return vp_err_set(r->err, VP_ERR_INVALID,
                      PLACE "%s is missing in a profile; add it", r->source,
                      node->line, node->column, what);
}

static enum vp_status no_memory(const struct reader *r)
{
    return vp_err_set(r->err, VP_ERR_NOMEM,
                      "%s: out of memory; close other programs", r->source);
}

/* ---- Values ------------------------------------------------------------- */

static enum vp_status to_real(const struct reader *r,
                              const struct vp_yaml_node *node, const char *what,
                              double most, double *out)
{
    char expected[64];
    double value;

    snprintf(expected, sizeof(expected), "a number from 0 to %g", most);
    if (node->kind != VP_YAML_SCALAR || node->quoted ||
        !vp_text_to_real(node->text, &value) ||
        !(value >= 0.0 && value <= most))
        return refuse(r, node, what, expected);
    *out = value;
    return VP_OK;
}

static enum vp_status to_int(const struct reader *r,
                             const struct vp_yaml_node *node, const char *what,
                             int64_t min, int64_t max, int64_t *out)
{
    char expected[80];

    snprintf(expected, sizeof(expected), "a whole number from %lld to %lld",
             (long long)min, (long long)max);
    if (node->kind != VP_YAML_SCALAR || node->quoted ||
        !vp_text_to_i64(node->text, out) || *out < min || *out > max)
        return refuse(r, node, what, expected);
    return VP_OK;
}

static enum vp_status to_text(const struct reader *r,
                              const struct vp_yaml_node *node, const char *what,
                              const char **out)
{
    if (node->kind != VP_YAML_SCALAR || !node->quoted ||
        strlen(node->text) > MAX_TEXT)
        return refuse(r, node, what, "a text of at most 256 bytes");
    *out = vp_arena_strdup(r->arena, node->text);
    return *out ? VP_OK : no_memory(r);
}

/* A key with a non-negative number. Its value times `unit` is stored at `to`; 0
 * if the key is missing. */
struct real_key {
    const char *name;
    double *to;
    double unit, most;
};

static enum vp_status read_reals(const struct reader *r,
                                 const struct vp_yaml_node *map,
                                 const char *what, const struct real_key *keys,
                                 int n)
{
    const char *names[16];

    for (int i = 0; i < n; i++)
        names[i] = keys[i].name;
    VP_TRY(vp_json_check_keys(r->source, map, what, names, n, r->err));
    for (int i = 0; i < n; i++) {
        const struct vp_yaml_node *node = vp_json_find(map, keys[i].name);

        if (!node)
            continue;
        VP_TRY(to_real(r, node, keys[i].name, keys[i].most, keys[i].to));
        *keys[i].to *= keys[i].unit;
    }
    return VP_OK;
}

/* ---- Parts of a profile ------------------------------------------------- */

static enum vp_status read_facts(const struct reader *r,
                                 const struct vp_yaml_node *node,
                                 struct vp_device_profile *out)
{
    static const char *const names[] = { "driver", "clocks", "build",
                                         "libraries" };
    const char **to[] = { &out->facts.driver, &out->facts.clocks,
                          &out->facts.build, &out->facts.libraries };

    VP_TRY(vp_json_check_keys(r->source, node, "made_with", names,
                              VP_COUNT_OF(names), r->err));
    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        const struct vp_yaml_node *fact = vp_json_find(node, names[i]);

        if (fact)
            VP_TRY(to_text(r, fact, names[i], to[i]));
    }
    return VP_OK;
}

static enum vp_status read_point(const struct reader *r,
                                 const struct vp_yaml_node *node,
                                 struct vp_profile_rates *rates)
{
    static const char name[] = "efficiency_of_products_by_rows";
    const struct vp_yaml_node *rows = node->child;
    int n = rates->n_efficiency;
    double x, y;

    if (node->kind != VP_YAML_LIST || !rows || !rows->next || rows->next->next)
        return refuse(r, node, name, "pairs like [128, 0.40]");
    if (n == VP_PROFILE_MAX_POINTS)
        return refuse(r, node, name, "at most 16 pairs");
    VP_TRY(to_real(r, rows, name, 1e12, &x));
    VP_TRY(to_real(r, rows->next, name, 1.0, &y));
    if (!(x > 0.0) || !(y > 0.0) ||
        (n > 0 && x <= rates->efficiency[n - 1].rows))
        return refuse(r, node, name,
                      "ascending rows, each with a share above 0");
    rates->efficiency[n].rows = x;
    rates->efficiency[n].share = y;
    rates->n_efficiency++;
    return VP_OK;
}

static enum vp_status read_points(const struct reader *r,
                                  const struct vp_yaml_node *node,
                                  struct vp_device_profile *out)
{
    const struct vp_yaml_node *pair;

    if (node->kind != VP_YAML_LIST)
        return refuse(r, node, "efficiency_of_products_by_rows",
                      "a list of pairs like [[128, 0.40]]");
    for (pair = node->child; pair; pair = pair->next)
        VP_TRY(read_point(r, pair, &out->rates));
    return VP_OK;
}

static enum vp_status read_host_link(const struct reader *r,
                                     const struct vp_yaml_node *node,
                                     struct vp_device_profile *out)
{
    double one_way = 0.0, both = 0.0;
    const struct real_key keys[] = {
        { "one_way", &one_way, 1e9, MOST_RATE },
        { "both_ways_each", &both, 1e9, MOST_RATE },
        { "out", &out->copy_out, 1e9, MOST_RATE },
        { "in", &out->copy_in, 1e9, MOST_RATE },
        { "both_out", &out->copy_out_both, 1e9, MOST_RATE },
        { "both_in", &out->copy_in_both, 1e9, MOST_RATE },
    };

    VP_TRY(read_reals(r, node, "host_link_gb_per_s", keys, VP_COUNT_OF(keys)));
    both = both > 0.0 ? both : one_way;
    out->copy_out = out->copy_out > 0.0 ? out->copy_out : one_way;
    out->copy_in = out->copy_in > 0.0 ? out->copy_in : one_way;
    out->copy_out_both = out->copy_out_both > 0.0 ? out->copy_out_both : both;
    out->copy_in_both = out->copy_in_both > 0.0 ? out->copy_in_both : both;
    if (!(out->copy_out > 0.0 && out->copy_in > 0.0 &&
          out->copy_out_both > 0.0 && out->copy_in_both > 0.0))
        return missing(r, node, "'one_way', or a rate above 0 for each way,");
    return VP_OK;
}

static enum vp_status read_links(const struct reader *r,
                                 const struct vp_yaml_node *node,
                                 struct vp_device_profile *out)
{
    const struct real_key keys[] = {
        { "same_host", &out->same_host.bytes_per_second, 1e9, MOST_RATE },
        { "between_hosts", &out->between_hosts.bytes_per_second, 1e9,
          MOST_RATE },
    };

    return read_reals(r, node, "links_gb_per_s", keys, VP_COUNT_OF(keys));
}

static enum vp_status read_latencies(const struct reader *r,
                                     const struct vp_yaml_node *node,
                                     struct vp_device_profile *out)
{
    const struct real_key keys[] = {
        { "same_host", &out->same_host.seconds, 1e-6, MOST_SECONDS },
        { "between_hosts", &out->between_hosts.seconds, 1e-6, MOST_SECONDS },
    };

    return read_reals(r, node, "link_microseconds", keys, VP_COUNT_OF(keys));
}

static enum vp_status read_hosts(const struct reader *r,
                                 const struct vp_yaml_node *node,
                                 struct vp_device_profile *out)
{
    const struct vp_yaml_node *item;

    if (node->kind != VP_YAML_LIST)
        return refuse(r, node, "hosts", "ranks per host like [4, 4]");
    for (item = node->child; item; item = item->next) {
        int64_t n;

        if (out->n_hosts == VP_PROFILE_MAX_HOSTS)
            return refuse(r, node, "hosts", "at most 64 hosts");
        VP_TRY(to_int(r, item, "hosts", 1, MAX_RANKS, &n));
        out->hosts[out->n_hosts++] = (int)n;
    }
    return VP_OK;
}

static enum vp_status read_precision(const struct reader *r,
                                     const struct vp_yaml_node *node,
                                     struct vp_device_profile *out)
{
    static const struct {
        const char *name;
        enum vp_dtype dtype;
    } names[] = { { "fp32", VP_DTYPE_F32 },
                  { "bf16", VP_DTYPE_BF16 },
                  { "fp16", VP_DTYPE_F16 } };

    for (size_t i = 0; node->kind == VP_YAML_SCALAR && i < VP_COUNT_OF(names);
         i++)
        if (node->quoted && strcmp(node->text, names[i].name) == 0) {
            out->precision = names[i].dtype;
            return VP_OK;
        }
    return refuse(r, node, "precision", "\"fp32\", \"bf16\" or \"fp16\"");
}

/* ---- Blocks ------------------------------------------------------------- */

static bool hex_digits(const char *text, int n, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++) {
        const char digits[] = "0123456789abcdef";
        const char *at = text[i] ? strchr(digits, text[i]) : NULL;

        if (!at)
            return false;
        *out = *out << 4 | (uint64_t)(at - digits);
    }
    return true;
}

static enum vp_status read_key(const struct reader *r,
                               const struct vp_yaml_node *node,
                               struct vp_block_key *out)
{
    if (node->kind != VP_YAML_SCALAR || !node->quoted ||
        strlen(node->text) != 32 || !hex_digits(node->text, 16, &out->high) ||
        !hex_digits(node->text + 16, 16, &out->low))
        return refuse(r, node, "key", "32 hexadecimal digits");
    return VP_OK;
}

static enum vp_status read_set(const struct reader *r,
                               const struct vp_yaml_node *node,
                               struct vp_profile_set *out)
{
    static const char *const names[] = { "operators", "seconds",
                                         "beside_copies" };
    const struct vp_yaml_node *ops, *seconds, *beside, *item;

    VP_TRY(vp_json_check_keys(r->source, node, "recompute", names,
                              VP_COUNT_OF(names), r->err));
    ops = vp_json_find(node, "operators");
    seconds = vp_json_find(node, "seconds");
    beside = vp_json_find(node, "beside_copies");
    if (!ops || !seconds)
        return missing(r, node, ops ? "'seconds'" : "'operators'");
    if (ops->kind != VP_YAML_LIST || !ops->child)
        return refuse(r, ops, "operators", "numbers of operators like [0, 2]");
    for (item = ops->child; item; item = item->next) {
        int64_t bit;

        VP_TRY(to_int(r, item, "operators", 0, 63, &bit));
        out->ops |= UINT64_C(1) << bit;
    }
    VP_TRY(to_real(r, seconds, "seconds", MOST_SECONDS, &out->seconds));
    out->beside_copies = out->seconds;
    return beside ? to_real(r, beside, "beside_copies", MOST_SECONDS,
                            &out->beside_copies)
                  : VP_OK;
}

static enum vp_status read_sets(const struct reader *r,
                                const struct vp_yaml_node *node,
                                struct vp_profile_block *out)
{
    const struct vp_yaml_node *item;

    if (node->kind != VP_YAML_LIST)
        return refuse(r, node, "recompute", "a list of objects");
    for (item = node->child; item; item = item->next) {
        if (out->n_sets == VP_PROFILE_MAX_SETS)
            return refuse(r, item, "recompute", "at most 8 sets per block");
        VP_TRY(read_set(r, item, &out->sets[out->n_sets++]));
    }
    return VP_OK;
}

/* Reads the seconds of the lists F, B and W. `required`: all must be
 * present. */
static enum vp_status read_lists(const struct reader *r,
                                 const struct vp_yaml_node *map, bool required,
                                 struct vp_block_seconds *out)
{
    const struct {
        const char *name;
        double *to;
    } keys[] = { { "f", &out->f }, { "b", &out->b }, { "w", &out->w } };

    for (size_t i = 0; i < VP_COUNT_OF(keys); i++) {
        const struct vp_yaml_node *node = vp_json_find(map, keys[i].name);

        if (node)
            VP_TRY(to_real(r, node, keys[i].name, MOST_SECONDS, keys[i].to));
        else if (required)
            return missing(r, map, keys[i].name);
    }
    return VP_OK;
}

static enum vp_status read_block(const struct reader *r,
                                 const struct vp_yaml_node *node,
                                 struct vp_profile_block *out)
{
    static const char *const names[] = {
        "key", "name", "f", "b", "w", "update", "beside_copies", "recompute"
    };
    static const char *const lists[] = { "f", "b", "w" };
    const struct vp_yaml_node *at;

    VP_TRY(vp_json_check_keys(r->source, node, "a block", names,
                              VP_COUNT_OF(names), r->err));
    at = vp_json_find(node, "key");
    if (!at)
        return missing(r, node, "'key'");
    VP_TRY(read_key(r, at, &out->key));
    out->name = "";
    at = vp_json_find(node, "name");
    if (at)
        VP_TRY(to_text(r, at, "name", &out->name));
    VP_TRY(read_lists(r, node, true, &out->alone));
    at = vp_json_find(node, "update");
    if (at)
        VP_TRY(to_real(r, at, "update", MOST_SECONDS, &out->update));
    out->beside_copies = out->alone;
    at = vp_json_find(node, "beside_copies");
    if (at) {
        VP_TRY(vp_json_check_keys(r->source, at, "beside_copies", lists,
                                  VP_COUNT_OF(lists), r->err));
        VP_TRY(read_lists(r, at, false, &out->beside_copies));
    }
    at = vp_json_find(node, "recompute");
    return at ? read_sets(r, at, out) : VP_OK;
}

static enum vp_status read_blocks(const struct reader *r,
                                  const struct vp_yaml_node *node,
                                  struct vp_device_profile *out)
{
    const struct vp_yaml_node *item;
    int n = 0;

    if (node->kind != VP_YAML_LIST)
        return refuse(r, node, "blocks", "a list of objects");
    for (item = node->child; item && n < MAX_BLOCKS; item = item->next)
        n++;
    out->blocks = vp_arena_alloc(r->arena,
                                 (size_t)(n + 1) * sizeof(*out->blocks));
    if (!out->blocks)
        return no_memory(r);
    item = node->child;
    for (int i = 0; i < n; i++, item = item->next) {
        VP_TRY(read_block(r, item, &out->blocks[i]));
        if (vp_profile_find(out, out->blocks[i].key))
            return refuse(r, item, "a second block with the same key",
                          "every key once");
        out->n_blocks++;
    }
    return VP_OK;
}

/* ---- All ---------------------------------------------------------------- */

static enum vp_status read_version(const struct reader *r,
                                   const struct vp_yaml_node *node,
                                   struct vp_device_profile *out)
{
    int64_t version;

    (void)out;
    VP_TRY(to_int(r, node, "version", 1, INT32_MAX, &version));
    if (version > VP_PROFILE_VERSION)
        return vp_err_set(r->err, VP_ERR_UNSUPPORTED,
                          PLACE "profile version %lld; this vpipe reads %d; "
                                "use a newer one",
                          r->source, node->line, node->column,
                          (long long)version, VP_PROFILE_VERSION);
    return VP_OK;
}

static enum vp_status read_device(const struct reader *r,
                                  const struct vp_yaml_node *node,
                                  struct vp_device_profile *out)
{
    return to_text(r, node, "device", &out->facts.device);
}

static enum vp_status read_batch(const struct reader *r,
                                 const struct vp_yaml_node *node,
                                 struct vp_device_profile *out)
{
    return to_int(r, node, "batch_size", 0, INT32_MAX, &out->batch);
}

static enum vp_status read_load(const struct reader *r,
                                const struct vp_yaml_node *node,
                                struct vp_device_profile *out)
{
    static const char *const names[] = { "ranks", "f", "b", "update" };
    struct vp_profile_load *load = &out->loads[out->n_loads];
    double *const to[] = { NULL, &load->f, &load->b, &load->update };
    int64_t least = out->n_loads > 0 ? load[-1].n_ranks + 1 : 1, n_ranks;
    const struct vp_yaml_node *at[VP_COUNT_OF(names)];

    VP_TRY(vp_json_check_keys(r->source, node, "under_load", names,
                              VP_COUNT_OF(names), r->err));
    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        at[i] = vp_json_find(node, names[i]);
        if (!at[i])
            return missing(r, node, names[i]);
    }
    VP_TRY(to_int(r, at[0], "ranks", least, INT32_MAX, &n_ranks));
    load->n_ranks = (int)n_ranks;
    for (size_t i = 1; i < VP_COUNT_OF(names); i++) {
        VP_TRY(to_real(r, at[i], names[i], MOST_SLOWDOWN, to[i]));
        if (!(*to[i] > 0.0))
            return refuse(r, at[i], names[i], "a number above 0");
    }
    out->n_loads++;
    return VP_OK;
}

static enum vp_status read_loads(const struct reader *r,
                                 const struct vp_yaml_node *node,
                                 struct vp_device_profile *out)
{
    if (node->kind != VP_YAML_LIST)
        return refuse(r, node, "under_load", "a list of objects");
    for (const struct vp_yaml_node *item = node->child; item;
         item = item->next) {
        if (out->n_loads == VP_PROFILE_MAX_LOADS)
            return refuse(r, item, "under_load", "at most 8 loads");
        VP_TRY(read_load(r, item, out));
    }
    return VP_OK;
}

static enum vp_status read_memory(const struct reader *r,
                                  const struct vp_yaml_node *node,
                                  struct vp_device_profile *out)
{
    return to_int(r, node, "memory_bytes", 0, INT64_MAX, &out->memory_bytes);
}

static const struct {
    const char *name;
    enum vp_status (*read)(const struct reader *r,
                           const struct vp_yaml_node *node,
                           struct vp_device_profile *out);
} parts[] = {
    { "version", read_version },
    { "device", read_device },
    { "precision", read_precision },
    { "batch_size", read_batch },
    { "made_with", read_facts },
    { "memory_bytes", read_memory },
    { "efficiency_of_products_by_rows", read_points },
    { "host_link_gb_per_s", read_host_link },
    { "links_gb_per_s", read_links },
    { "link_microseconds", read_latencies },
    { "hosts", read_hosts },
    { "under_load", read_loads },
    { "blocks", read_blocks },
};

static enum vp_status read_rates(const struct reader *r,
                                 const struct vp_yaml_node *root,
                                 struct vp_device_profile *out)
{
    const struct real_key keys[] = {
        { "peak_tflops_fp32", &out->rates.flops[0], 1e12, MOST_RATE },
        { "peak_tflops_bf16", &out->rates.flops[1], 1e12, MOST_RATE },
        { "peak_tflops_fp16", &out->rates.flops[2], 1e12, MOST_RATE },
        { "copy_gb_per_s", &out->rates.bytes_per_second, 1e9, MOST_RATE },
        { "microseconds_per_kernel", &out->rates.kernel_seconds, 1e-6, 1e6 },
        { "capacity", &out->capacity, 1.0, 1024.0 },
    };
    const char *names[VP_COUNT_OF(parts) + VP_COUNT_OF(keys)];
    int n = 0;

    for (size_t i = 0; i < VP_COUNT_OF(parts); i++)
        names[n++] = parts[i].name;
    for (size_t i = 0; i < VP_COUNT_OF(keys); i++)
        names[n++] = keys[i].name;
    VP_TRY(vp_json_check_keys(r->source, root, "a profile", names, n, r->err));
    for (size_t i = 0; i < VP_COUNT_OF(keys); i++) {
        const struct vp_yaml_node *node = vp_json_find(root, keys[i].name);

        if (!node)
            continue;
        VP_TRY(to_real(r, node, keys[i].name, keys[i].most, keys[i].to));
        *keys[i].to *= keys[i].unit;
    }
    return VP_OK;
}

/* Checks the rates that are needed to estimate blocks, and sets defaults. */
static enum vp_status check_rates(const struct reader *r,
                                  const struct vp_yaml_node *root,
                                  struct vp_device_profile *out)
{
    if (!(out->rates.flops[0] > 0.0))
        return missing(r, root, "'peak_tflops_fp32', a number above 0,");
    if (!(out->rates.bytes_per_second > 0.0))
        return missing(r, root, "'copy_gb_per_s', a number above 0,");
    if (!(out->same_host.bytes_per_second > 0.0))
        return missing(r, root,
                       "'same_host' of 'links_gb_per_s', a number above 0,");
    if (!(out->between_hosts.bytes_per_second > 0.0))
        out->between_hosts = out->same_host;
    if (!(out->capacity > 0.0))
        out->capacity = 1.0;
    return VP_OK;
}

enum vp_status vp_profile_parse(const char *text, size_t n_bytes,
                                const char *source, struct vp_arena *arena,
                                struct vp_device_profile *out,
                                struct vp_err *err)
{
    const struct reader r = { source, arena, err };
    struct vp_device_profile profile = { .facts = { "", "", "", "", "" } };
    const struct vp_yaml_node *root;

    VP_TRY(vp_json_parse(source, text, n_bytes, arena, &root, err));
    VP_TRY(read_rates(&r, root, &profile));
    for (size_t i = 0; i < VP_COUNT_OF(parts); i++) {
        const struct vp_yaml_node *node = vp_json_find(root, parts[i].name);

        if (node)
            VP_TRY(parts[i].read(&r, node, &profile));
    }
    VP_TRY(check_rates(&r, root, &profile));
    *out = profile;
    return VP_OK;
}
