/* Compares plan and keys of this process with those of the lead, as a text with
 * one line per value ("sheet"). */
#include "run/plan_agree.h"

#include "backend/facts.h"
#include "base/machine.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "config/key.h"
#include "config/keys.h"
#include "config/precision.h"
#include "config/resolve.h"
#include "plan/plan_json.h"
#include "run/share_text.h"
#include "runtime/train_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALUE_BYTES = 4096,
    SHOWN_BYTES = 64, /* longest value that a sheet has in full */
    CHECK_BYTES = 8,  /* bytes of a checksum in a sheet */
    NAME_BYTES = 80,
};

#define HOST "host"
#define NOT_SET "not set"

/* ---- The sheet ---------------------------------------------------------- */

struct text {
    const char *at;
    size_t n;
};

static struct text text_of(const char *at)
{
    return (struct text){ at, strlen(at) };
}

/* Adds a line "name\tvalue\n" to a sheet, the text with all values that are
 * compared. A long value becomes its first bytes and a checksum. */
static void add_line(struct vp_strbuf *sheet, const char *name,
                     struct text value)
{
    unsigned char code[VP_SHA256_BYTES];
    struct vp_sha256 sha;

    vp_strbuf_addf(sheet, "%s\t", name);
    for (size_t i = 0; i < value.n && i < SHOWN_BYTES; i++)
        vp_strbuf_add(sheet, value.at[i] == '\n' ? " " : &value.at[i], 1);
    if (value.n > SHOWN_BYTES) {
        vp_sha256_init(&sha);
        vp_sha256_update(&sha, value.at, value.n);
        vp_sha256_final(&sha, code);
        vp_strbuf_adds(sheet, "... (checksum ");
        for (int i = 0; i < CHECK_BYTES; i++)
            vp_strbuf_addf(sheet, "%02x", code[i]);
        vp_strbuf_adds(sheet, ")");
    }
    vp_strbuf_adds(sheet, "\n");
}

/* Returns true if processes may have different values of the key: paths, keys
 * of a host, keys that only change the output. Also for keys that determine the
 * plan, because the plan itself is compared. */
static bool is_free(const struct vp_key *key)
{
    static const char *const names[] = {
        "no_input_pipelining", "prefetch",
        "schedule_costs",      "device",
        "threads_per_stage",   "memory_limit",
        "rebalance_headroom",  "print_frequency",
        "verbose_frequency",   "watchdog_seconds",
    };

    switch (key->type) {
    case VP_KEY_TEXT: /* machine keys: a network interface, a container */
        return strcmp(key->group, "machine") == 0;
    case VP_KEY_PATH:
    case VP_KEY_FOLDER:
    case VP_KEY_SCHEDULE:
    case VP_KEY_SIZE:
    case VP_KEY_MODULE:
    case VP_KEY_JSON:
    case VP_KEY_INIT:
    case VP_KEY_PLAN:
    case VP_KEY_PLACEMENT:
    case VP_KEY_MACHINES:
    case VP_KEY_WORDS:
    case VP_KEY_LATER:
        return true;
    default:
        break;
    }
    for (size_t i = 0; i < VP_COUNT_OF(names); i++)
        if (strcmp(key->name, names[i]) == 0)
            return true;
    return false;
}

/* Adds the keys of group "pipeline", or those of all other groups. */
static void add_keys(const struct vp_config *config, bool pipeline,
                     struct vp_strbuf *sheet)
{
    char name[NAME_BYTES], value[VALUE_BYTES];

    for (int i = 0; i < vp_n_keys; i++) {
        const struct vp_key *key = &vp_keys[i];

        if (is_free(key) || (strcmp(key->group, "pipeline") == 0) != pipeline)
            continue;
        if (!vp_key_print(key, config, value, sizeof(value)))
            snprintf(value, sizeof(value), NOT_SET);
        snprintf(name, sizeof(name), "key '%s'", key->name);
        add_line(sheet, name, text_of(value));
    }
}

/* Adds the keys of the plan's JSON. A line that begins with four spaces and a
 * quote starts a key; other lines belong to the key before. */
static void add_plan(const char *text, struct vp_strbuf *sheet)
{
    static const char begin[] = "\n    \"";
    const char *at = strstr(text, begin);
    char name[NAME_BYTES];

    while (at) {
        const char *key = at + strlen(begin), *end = strchr(key, '"');
        const char *value = end + strlen("\": ");

        snprintf(name, sizeof(name), "key '%.*s' of the plan", (int)(end - key),
                 key);
        at = strstr(value, begin);
        end = at ? at - strlen(",") : value + strlen(value) - strlen("\n}\n");
        add_line(sheet, name, (struct text){ value, (size_t)(end - value) });
    }
}

/* Makes the sheet of this process: the host, for messages, and all values that
 * must be equal. The first difference is reported, so keys come before the plan
 * that follows from them. */
static enum vp_status make_sheet(const struct vp_config *config, bool resumes,
                                 struct vp_strbuf *sheet)
{
    int n_blocks = (int)config->model->n_blocks(&config->sizes);
    struct vp_train_config train = { .graphs = NULL };
    char *text, host[256] = "";

    vp_resolve_train(config, &train);
    if (vp_plan_print(&train.plan, n_blocks, NULL, &text) != VP_OK)
        return VP_ERR_NOMEM;
    vp_machine_name(host, sizeof(host));
    add_line(sheet, HOST, text_of(host));
    add_line(sheet, "--resume", text_of(resumes ? "given" : NOT_SET));
    add_keys(config, false, sheet);
    /* bf16 products have different bits with another instruction set. */
    if (config->precision == VP_PRECISION_BF16 && vp_config_uses_cpu(config))
        add_line(sheet, "the instruction set (see VPIPE_ISA)",
                 text_of(vp_cores_isa()));
    add_plan(text, sheet);
    add_keys(config, true, sheet);
    free(text);
    return sheet->failed ? VP_ERR_NOMEM : VP_OK;
}

/* ---- Comparing ---------------------------------------------------------- */

/* Returns the value of a name; NOT_SET if the sheet does not have it. */
static struct text find_value(const char *sheet, struct text name)
{
    for (const char *line = sheet; *line; line = strchr(line, '\n') + 1) {
        const char *value = strchr(line, '\t');

        if ((size_t)(value - line) == name.n &&
            memcmp(line, name.at, name.n) == 0)
            return (struct text){ value + 1, strcspn(value + 1, "\n") };
    }
    return text_of(NOT_SET);
}

/* Finds the first name in `names` whose values in `a` and `b` differ. Returns
 * false if there is none. */
static bool find_difference(const char *names, const char *a, const char *b,
                            struct text *name_out)
{
    for (const char *line = names; *line; line = strchr(line, '\n') + 1) {
        struct text name = { line, strcspn(line, "\t") }, x, y;

        x = find_value(a, name);
        y = find_value(b, name);
        if (strncmp(line, HOST "\t", strlen(HOST "\t")) != 0 &&
            (x.n != y.n || memcmp(x.at, y.at, x.n) != 0)) {
            *name_out = name;
            return true;
        }
    }
    return false;
}

/* Returns the place where the key in `name` was set, or the configuration
 * file. */
static const char *place_of(const struct vp_config *config, struct text name)
{
    char key[NAME_BYTES] = "";
    const char *quote = memchr(name.at, '\'', name.n);

    if (quote)
        snprintf(key, sizeof(key), "%.*s", (int)strcspn(quote + 1, "'"),
                 quote + 1);
    return vp_config_given(config, key) ? vp_config_place(config, key)
                                        : config->path;
}

static enum vp_status compare(const struct vp_config *config,
                              const struct vp_world *world, const char *mine,
                              const char *leads, struct vp_err *err)
{
    struct text name, here, there, host, other;
    int me = 0;

    if (!find_difference(mine, mine, leads, &name) &&
        !find_difference(leads, mine, leads, &name))
        return VP_OK;
    while (!vp_world_is_mine(world, me))
        me++;
    here = find_value(mine, name);
    there = find_value(leads, name);
    host = find_value(mine, text_of(HOST));
    other = find_value(leads, text_of(HOST));
    return vp_err_set(
        err, VP_ERR_INVALID,
        "%s: %.*s is %.*s on rank %d (host %.*s), but %.*s on rank %d (host "
        "%.*s); start all ranks with the same configuration and plan",
        place_of(config, name), (int)name.n, name.at, (int)here.n, here.at,
        vp_config_rank_number(config, me), (int)host.n, host.at, (int)there.n,
        there.at, vp_config_rank_number(config, vp_world_lead(world)),
        (int)other.n, other.at);
}

/* ---- Several processes -------------------------------------------------- */

static enum vp_status agree(const struct vp_config *config, bool resumes,
                            struct vp_world *world, struct vp_err *err)
{
    bool is_lead = vp_world_is_mine(world, vp_world_lead(world));
    struct vp_strbuf sheet = VP_STRBUF_INIT;
    char *leads = NULL;
    enum vp_status st = make_sheet(config, resumes, &sheet);

    if (st != VP_OK)
        vp_err_set(err, st, "plan: out of memory");
    st = vp_world_agree(world, st, VP_LIMIT_NEVER, err);
    if (st == VP_OK)
        st = vp_share_text(world, is_lead ? vp_strbuf_text(&sheet) : NULL,
                           &leads, err);
    if (st == VP_OK) {
        st = is_lead
                 ? VP_OK
                 : compare(config, world, vp_strbuf_text(&sheet), leads, err);
        st = vp_world_agree(world, st, VP_LIMIT_NEVER, err);
    }
    free(leads);
    vp_strbuf_release(&sheet);
    return st;
}

enum vp_status vp_plan_agree(const struct vp_config *config, bool resumes,
                             struct vp_world *world, bool *agreed_out,
                             struct vp_err *err)
{
    enum vp_status st = world ? agree(config, resumes, world, err) : VP_OK;

    *agreed_out = st != VP_OK;
    return st;
}
