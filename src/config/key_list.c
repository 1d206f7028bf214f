/* Sets keys whose values are lists of numbers, words or machines. */
#include "config/key.h"

#include "base/nearest.h"
#include "base/value.h"

#include <stdio.h>
#include <string.h>

enum { MAX_HOST = 253, MAX_DEVICE = 1023, MAX_WORDS = 32 };

bool vp_key_is_list(const struct vp_key *key)
{
    return key->type == VP_KEY_INTS || key->type == VP_KEY_REALS ||
           key->type == VP_KEY_PLAN || key->type == VP_KEY_MACHINES ||
           key->type == VP_KEY_WORDS;
}

/* ---- One item ----------------------------------------------------------- */

static bool is_host_char(char c)
{
    return c == '.' || c == '-' || c == '_' || (c >= '0' && c <= '9') ||
           (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Reads "host:device". A name that begins with a dash is refused: programs that
 * get it as an argument would take it for an option. */
static bool read_machine(const char *text, struct vp_arena *arena,
                         struct vp_machine *out)
{
    size_t n = strcspn(text, ":");
    int64_t device;
    char *host;

    if (text[n] != ':' || n == 0 || n > MAX_HOST || text[0] == '-' ||
        !vp_text_to_i64(text + n + 1, &device) || device < 0 ||
        device > MAX_DEVICE)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_host_char(text[i]))
            return false;
    host = vp_arena_printf(arena, "%.*s", (int)n, text);
    *out = (struct vp_machine){ host, (int)device };
    return host;
}

static bool set_item(const struct vp_key *key, const struct vp_yaml_node *item,
                     void *array, size_t i, struct vp_config *config)
{
    int word;

    if (item->kind != VP_YAML_SCALAR)
        return false;
    switch (key->type) {
    case VP_KEY_MACHINES:
        return read_machine(item->text, &config->arena,
                            (struct vp_machine *)array + i);
    case VP_KEY_WORDS:
        word = vp_key_find_word(key, item->text);
        if (word >= 0)
            *(unsigned *)array |= 1u << word;
        return word >= 0;
    case VP_KEY_REALS:
        return !item->quoted &&
               vp_key_set_real(key, item->text, (double *)array + i);
    default:
        return !item->quoted &&
               vp_key_set_number(key, item->text, (int *)array + i);
    }
}

/* Writes the remedy for a wrong item: "write whole numbers from 1 to 9". */
static void item_remedy(const struct vp_key *key, char *out, size_t n_bytes)
{
    switch (key->type) {
    case VP_KEY_MACHINES:
        snprintf(out, n_bytes, "write host:device");
        break;
    case VP_KEY_WORDS:
        snprintf(out, n_bytes, "write ");
        vp_key_expects(key, NULL, out + strlen(out), n_bytes - strlen(out));
        break;
    default:
        snprintf(out, n_bytes, "write %snumbers from %g to %g",
                 key->type == VP_KEY_REALS ? "" : "whole ", key->min, key->max);
    }
}

static const char *nearest_word(const struct vp_key *key, const char *text)
{
    const char *words[MAX_WORDS];
    int n = 0, best;

    while (n < MAX_WORDS && (words[n] = key->word(n)))
        n++;
    best = vp_nearest(text, words, n);
    return best < 0 ? NULL : words[best];
}

static enum vp_status refuse_item(const struct vp_key *key,
                                  const struct vp_entry *entry,
                                  const struct vp_yaml_node *item, size_t i,
                                  struct vp_err *err)
{
    struct vp_entry one = { .kind = item->kind,
                            .text = item->text,
                            .quoted = item->quoted,
                            .items = item->child };
    char shown[VP_SHOWN_BYTES], example[VP_EXAMPLE_BYTES], remedy[128];
    const char *meant = NULL;

    vp_entry_show(&one, shown);
    if (key->type == VP_KEY_WORDS && item->kind == VP_YAML_SCALAR)
        meant = nearest_word(key, item->text);
    if (meant)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' has %s as entry %zu; did you mean "
                          "'%s'?",
                          entry->place, entry->key, shown, i + 1, meant);
    vp_entry_example(entry, key, example);
    item_remedy(key, remedy, sizeof(remedy));
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key '%s' has %s as entry %zu; %s, for example '%s'",
                      entry->place, entry->key, shown, i + 1, remedy, example);
}

/* ---- All items ---------------------------------------------------------- */

static size_t item_size(const struct vp_key *key)
{
    switch (key->type) {
    case VP_KEY_MACHINES:
        return sizeof(struct vp_machine);
    case VP_KEY_REALS:
        return sizeof(double);
    default:
        return sizeof(int);
    }
}

static void keep_list(const struct vp_key *key, void *array, int n,
                      struct vp_config *config)
{
    void *field = (char *)config + key->offset;

    switch (key->type) {
    case VP_KEY_MACHINES:
        *(struct vp_machine_list *)field = (struct vp_machine_list){ array, n };
        break;
    case VP_KEY_WORDS:
        *(unsigned *)field = *(unsigned *)array;
        break;
    case VP_KEY_REALS:
        *(struct vp_real_list *)field = (struct vp_real_list){ .at = array,
                                                               .n = n };
        break;
    default:
        *(struct vp_int_list *)field = (struct vp_int_list){ array, n };
    }
}

static enum vp_status set_items(const struct vp_key *key,
                                const struct vp_entry *entry,
                                struct vp_config *config, struct vp_err *err)
{
    const struct vp_yaml_node *item;
    size_t n = 0;
    void *array;

    for (item = entry->items; item; item = item->next)
        n++;
    if (n == 0)
        return vp_key_refuse(key, entry, config, err);
    array = vp_arena_alloc(&config->arena, n * item_size(key));
    if (!array)
        return vp_entry_no_memory(entry, err);
    n = 0;
    for (item = entry->items; item; item = item->next, n++)
        if (!set_item(key, item, array, n, config))
            return refuse_item(key, entry, item, n, err);
    keep_list(key, array, (int)n, config);
    return VP_OK;
}

/* ---- Without brackets --------------------------------------------------- */

/* Sets a list from one number, for all stages. */
static enum vp_status set_for_all(const struct vp_key *key,
                                  const struct vp_entry *entry,
                                  struct vp_config *config, struct vp_err *err)
{
    const struct vp_yaml_node item = { .text = entry->text };
    struct vp_entry list = *entry;
    double number;

    if (entry->quoted || !vp_key_set_real(key, entry->text, &number))
        return vp_key_refuse(key, entry, config, err);
    list.items = &item;
    VP_TRY(set_items(key, &list, config, err));
    ((struct vp_real_list *)((char *)config + key->offset))->for_all = true;
    return VP_OK;
}

/* Sets a list from text with commas: "a, b" or "a,b". */
static enum vp_status set_split(const struct vp_key *key,
                                const struct vp_entry *entry,
                                struct vp_config *config, struct vp_err *err)
{
    struct vp_entry list = *entry;
    struct vp_yaml_node *items = NULL, **tail = &items;
    const char *at = entry->text;

    for (;;) {
        struct vp_yaml_node *item = vp_arena_alloc(&config->arena,
                                                   sizeof(*item));
        size_t n = strcspn(at, ",");

        if (item)
            item->text = vp_arena_printf(&config->arena, "%.*s", (int)n, at);
        if (!item || !item->text)
            return vp_entry_no_memory(entry, err);
        *tail = item;
        tail = &item->next;
        if (!at[n])
            break;
        at += n + 1;
        at += strspn(at, " ");
    }
    list.items = items;
    return set_items(key, &list, config, err);
}

/* Returns true for a list without its brackets: "2,2,2,3". Text with a comma
 * that does not begin with a digit is the path of a plan, where the key takes
 * one. */
static bool is_split(const struct vp_key *key, const struct vp_entry *entry)
{
    const char *text = entry->text;

    if (key->type == VP_KEY_WORDS)
        return true;
    return !entry->quoted && text[0] != '[' && strchr(text, ',') &&
           (key->type != VP_KEY_PLAN || (text[0] >= '0' && text[0] <= '9'));
}

enum vp_status vp_key_set_list(const struct vp_key *key,
                               const struct vp_entry *entry,
                               struct vp_config *config, struct vp_err *err)
{
    if (entry->kind == VP_YAML_LIST)
        return set_items(key, entry, config, err);
    if (entry->kind == VP_YAML_SCALAR && is_split(key, entry))
        return set_split(key, entry, config, err);
    if (entry->kind == VP_YAML_SCALAR && key->type == VP_KEY_REALS)
        return set_for_all(key, entry, config, err);
    return vp_key_refuse(key, entry, config, err);
}
