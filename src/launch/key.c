/* What is done with one row of the table: set, print, describe. */
#include "launch/keys.h"
#include "launch/nearest.h"
#include "launch/value.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORDS = 32, LIST_BYTES = 256, SHOWN_BYTES = 48 };

_Static_assert(sizeof(enum vp_act) == sizeof(int) &&
                   sizeof(enum vp_optim_kind) == sizeof(int) &&
                   sizeof(enum vp_lr_policy) == sizeof(int) &&
                   sizeof(enum vp_device) == sizeof(int) &&
                   sizeof(enum vp_precision) == sizeof(int) &&
                   sizeof(enum vp_sync_mode) == sizeof(int),
               "VP_KEY_ENUM stores an int");

/* ---- Describing --------------------------------------------------------- */

static void append(char *out, size_t n_bytes, const char *text)
{
    size_t used = strlen(out);

    snprintf(out + used, n_bytes - used, "%s", text);
}

/* "a, b, c": every word a key accepts. */
static void list_words(const struct vp_key *key, const struct vp_config *config,
                       char *out, size_t n_bytes)
{
    out[0] = 0;
    if (key->type == VP_KEY_MODEL) {
        append(out, n_bytes, vp_model_names());
        return;
    }
    for (int i = 0;; i++) {
        const char *word;

        if (key->type == VP_KEY_SIZE)
            word = i < config->model->n_sizes ? config->model->sizes[i].name
                                              : NULL;
        else
            word = key->word(i);
        if (!word)
            return;
        if (word[0] && out[0])
            append(out, n_bytes, ", ");
        append(out, n_bytes, word);
    }
}

static bool has_words(const struct vp_key *key, const struct vp_config *config)
{
    return key->word || key->type == VP_KEY_MODEL ||
           (key->type == VP_KEY_SIZE && config && config->model);
}

void vp_key_expects(const struct vp_key *key, const struct vp_config *config,
                    char *out, size_t n_bytes)
{
    char list[LIST_BYTES];

    if (has_words(key, config)) {
        list_words(key, config, list, sizeof(list));
        snprintf(out, n_bytes, "%s%s", strchr(list, ',') ? "one of " : "",
                 list);
        return;
    }
    switch (key->type) {
    case VP_KEY_I64:
    case VP_KEY_INT:
    case VP_KEY_U64:
        snprintf(out, n_bytes, "a whole number from %lld to %lld",
                 (long long)key->min, (long long)key->max);
        break;
    case VP_KEY_F32:
        snprintf(out, n_bytes, "a number from %g to %g", key->min, key->max);
        break;
    case VP_KEY_WARMUP:
        snprintf(out, n_bytes, "true, false or a number from %g to %g",
                 key->min, key->max);
        break;
    case VP_KEY_INTS:
        snprintf(out, n_bytes, "a list of whole numbers from %lld to %lld",
                 (long long)key->min, (long long)key->max);
        break;
    case VP_KEY_REALS:
        snprintf(out, n_bytes, "a number from %g to %g, or a list of them",
                 key->min, key->max);
        break;
    case VP_KEY_BOOL:
        snprintf(out, n_bytes, "true or false");
        break;
    case VP_KEY_BYTES:
        snprintf(out, n_bytes, "a size such as 512M or 11G");
        break;
    case VP_KEY_PATH:
    case VP_KEY_JSON:
        snprintf(out, n_bytes, "a path");
        break;
    default:
        snprintf(out, n_bytes, "a name");
    }
}

/* ---- Refusing ----------------------------------------------------------- */

/* The value in quotes, shortened to what fits a line without cutting a UTF-8
 * character. */
static void show_value(const struct vp_entry *entry, char out[SHOWN_BYTES + 32])
{
    size_t n;

    if (entry->kind != VP_YAML_SCALAR) {
        snprintf(out, SHOWN_BYTES + 32, "%s",
                 entry->kind == VP_YAML_MAP ? "a map"
                 : entry->items             ? "a list"
                                            : "an empty list");
        return;
    }
    n = strnlen(entry->text, SHOWN_BYTES + 1);
    if (n > SHOWN_BYTES) {
        n = SHOWN_BYTES;
        while (n > 0 && ((unsigned char)entry->text[n] & 0xC0) == 0x80)
            n--;
    }
    snprintf(out, SHOWN_BYTES + 32, "%s'%.*s%s'",
             entry->quoted ? "the quoted text " : "", (int)n, entry->text,
             entry->text[n] ? "..." : "");
}

/* The nearest of the words in "a, b, c", in `list` itself; NULL if none. */
static const char *nearest_word(const char *word, char *list)
{
    const char *words[MAX_WORDS];
    char *rest = list;
    int n = 0, best;

    while (rest && n < MAX_WORDS) {
        char *comma = strstr(rest, ", ");

        words[n++] = rest;
        if (comma)
            *comma = 0;
        rest = comma ? comma + 2 : NULL;
    }
    best = vp_nearest(word, words, n);
    return best < 0 ? NULL : words[best];
}

static enum vp_status refuse(const struct vp_key *key,
                             const struct vp_entry *entry,
                             const struct vp_config *config, struct vp_err *err)
{
    char expects[LIST_BYTES + 32], shown[SHOWN_BYTES + 32], list[LIST_BYTES];
    const char *meant = NULL;

    vp_key_expects(key, config, expects, sizeof(expects));
    show_value(entry, shown);
    if (has_words(key, config) && entry->kind == VP_YAML_SCALAR) {
        list_words(key, config, list, sizeof(list));
        meant = nearest_word(entry->text, list);
    }
    if (meant)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' must be %s, not %s; did you mean '%s'?",
                          entry->place, entry->key, expects, shown, meant);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key '%s' must be %s, not %s; write for example "
                      "'%s%s%s'",
                      entry->place, entry->key, expects, shown, entry->key,
                      entry->assign, key->example);
}

/* "bf16" among "bf16, fp16". */
static bool is_listed(const char *word, const char *list)
{
    size_t n = strlen(word);

    while (list) {
        if (strncmp(list, word, n) == 0 && (!list[n] || list[n] == ','))
            return true;
        list = strchr(list, ' ');
        list += list != NULL;
    }
    return false;
}

/* ---- Setting ------------------------------------------------------------ */

static bool set_number(const struct vp_key *key, const char *text, void *field)
{
    int64_t value;

    if (!vp_text_to_i64(text, &value) || (double)value < key->min ||
        (double)value > key->max)
        return false;
    if (key->type == VP_KEY_INT || key->type == VP_KEY_INTS)
        *(int *)field = (int)value;
    else if (key->type == VP_KEY_U64)
        *(uint64_t *)field = (uint64_t)value;
    else
        *(int64_t *)field = value;
    return true;
}

static bool set_real(const struct vp_key *key, const char *text, void *field)
{
    double value;
    bool flag;

    if (key->type == VP_KEY_WARMUP && vp_text_to_bool(text, &flag)) {
        *(float *)field = flag ? 0.2f : 0.0f;
        return true;
    }
    if (!vp_text_to_real(text, &value) || value < key->min || value > key->max)
        return false;
    if (key->type == VP_KEY_REALS)
        *(double *)field = value;
    else
        *(float *)field = (float)value;
    return true;
}

static bool set_bytes(const struct vp_key *key, const char *text, void *field)
{
    int64_t value;

    if (!vp_text_to_bytes(text, &value) || (double)value < key->min)
        return false;
    *(size_t *)field = (size_t)value;
    return true;
}

/* The number of the word, or -1. */
static int find_word(const struct vp_key *key, const char *text)
{
    const char *word;

    for (int i = 0; (word = key->word(i)); i++)
        if (word[0] && strcmp(word, text) == 0)
            return i;
    return -1;
}

static bool set_bool(const struct vp_key *key, const char *text, void *field)
{
    int i;

    if (!key->word)
        return vp_text_to_bool(text, field);
    i = find_word(key, text);
    if (i >= 0)
        *(bool *)field = i;
    return i >= 0;
}

static bool set_enum(const struct vp_key *key, const char *text, void *field)
{
    int i = find_word(key, text);

    if (i >= 0)
        memcpy(field, &i, sizeof(i));
    return i >= 0;
}

static bool set_model(const char *text, struct vp_config *config)
{
    const struct vp_model *model = vp_model_find(text);

    if (model)
        config->model = model;
    return model;
}

static bool set_size(const char *text, struct vp_config *config)
{
    const struct vp_model_size *size = vp_model_size_find(config->model, text);

    if (size)
        config->sizes = size->config;
    return size;
}

static enum vp_status resolve_path(const struct vp_entry *entry,
                                   struct vp_config *config, const char **out,
                                   struct vp_err *err)
{
    bool relative = entry->text[0] != '/' && entry->folder[0];

    *out = vp_arena_printf(&config->arena, "%s%s%s",
                           relative ? entry->folder : "", relative ? "/" : "",
                           entry->text);
    if (!*out)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "%s: out of memory; close other programs",
                          entry->place);
    return VP_OK;
}

/* A file may name another kind of model, but not one for another task: CPM
 * is a GPT-2 with a Chinese vocabulary. */
static enum vp_status set_json(const struct vp_entry *entry,
                               struct vp_config *config, struct vp_err *err)
{
    const struct vp_model *model;
    struct vp_model_config sizes;
    const char *path;
    enum vp_status st;

    VP_TRY(resolve_path(entry, config, &path, err));
    st = vp_model_read_json(path, &model, &sizes, err);
    if (st != VP_OK) {
        vp_err_prefix(err, "%s: key 'config'", entry->place);
        return st;
    }
    if (model->task != config->model->task)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'config' names a file for model_type %s, "
                          "but model_type is %s; make them agree",
                          entry->place, model->name, config->model->name);
    config->sizes = sizes;
    return VP_OK;
}

/* ---- Lists -------------------------------------------------------------- */

bool vp_key_is_list(const struct vp_key *key)
{
    return key->type == VP_KEY_INTS || key->type == VP_KEY_REALS;
}

static enum vp_status refuse_item(const struct vp_key *key,
                                  const struct vp_entry *entry,
                                  const struct vp_yaml_node *item, int i,
                                  struct vp_err *err)
{
    struct vp_entry one = { .kind = item->kind,
                            .text = item->text,
                            .quoted = item->quoted,
                            .items = item->child };
    char shown[SHOWN_BYTES + 32];

    show_value(&one, shown);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key '%s' has %s as entry %d; write %snumbers from "
                      "%g to %g, for example '%s%s%s'",
                      entry->place, entry->key, shown, i + 1,
                      key->type == VP_KEY_INTS ? "whole " : "", key->min,
                      key->max, entry->key, entry->assign, key->example);
}

static bool set_item(const struct vp_key *key, const struct vp_yaml_node *item,
                     void *array, int i)
{
    if (item->kind != VP_YAML_SCALAR || item->quoted)
        return false;
    if (key->type == VP_KEY_INTS)
        return set_number(key, item->text, (int *)array + i);
    return set_real(key, item->text, (double *)array + i);
}

static void keep_list(const struct vp_key *key, void *array, int n,
                      struct vp_config *config)
{
    void *field = (char *)config + key->offset;

    if (key->type == VP_KEY_INTS)
        *(struct vp_int_list *)field = (struct vp_int_list){ array, n };
    else
        *(struct vp_real_list *)field = (struct vp_real_list){ .at = array,
                                                               .n = n };
}

static enum vp_status set_list(const struct vp_key *key,
                               const struct vp_entry *entry,
                               struct vp_config *config, struct vp_err *err)
{
    size_t size = key->type == VP_KEY_INTS ? sizeof(int) : sizeof(double);
    const struct vp_yaml_node *item;
    size_t n = 0;
    void *array;

    for (item = entry->items; item; item = item->next)
        n++;
    if (n == 0)
        return refuse(key, entry, config, err);
    array = vp_arena_alloc(&config->arena, n * size);
    if (!array)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "%s: out of memory; close other programs",
                          entry->place);
    n = 0;
    for (item = entry->items; item; item = item->next, n++)
        if (!set_item(key, item, array, (int)n))
            return refuse_item(key, entry, item, (int)n, err);
    keep_list(key, array, (int)n, config);
    return VP_OK;
}

/* One number for all stages, or a word that may get a meaning. */
static enum vp_status set_no_list(const struct vp_key *key,
                                  const struct vp_entry *entry,
                                  struct vp_config *config, struct vp_err *err)
{
    const struct vp_yaml_node item = { .text = entry->text };
    struct vp_entry list = *entry;
    double number;

    if (key->later && entry->text[0] != '[' &&
        !vp_text_to_real(entry->text, &number))
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s: key '%s' is '%.200s', but %s is not supported "
                          "by this version yet; write for example '%s%s%s'",
                          entry->place, entry->key, entry->text, key->later,
                          entry->key, entry->assign, key->example);
    if (key->type != VP_KEY_REALS || entry->quoted ||
        !set_real(key, entry->text, &number))
        return refuse(key, entry, config, err);
    list.items = &item;
    VP_TRY(set_list(key, &list, config, err));
    ((struct vp_real_list *)((char *)config + key->offset))->for_all = true;
    return VP_OK;
}

/* ---- Setting, all types ------------------------------------------------- */

static bool is_null(const struct vp_entry *entry)
{
    const char *text = entry->text;

    if (entry->kind != VP_YAML_SCALAR || entry->quoted)
        return false;
    return !text[0] || strcmp(text, "~") == 0 || strcmp(text, "null") == 0 ||
           strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0;
}

/* What is wrong with the entry before its value is looked at. */
static enum vp_status check_entry(const struct vp_key *key,
                                  const struct vp_entry *entry,
                                  const struct vp_config *config,
                                  struct vp_err *err)
{
    char reason[LIST_BYTES];

    if (key->type == VP_KEY_LATER)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s: key '%s' is known but not supported by this "
                          "version yet; remove it",
                          entry->place, entry->key);
    if (key->applies && !key->applies(config)) {
        vp_key_print(vp_key_find(key->depends_on), config, reason,
                     sizeof(reason));
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' has no effect with %s %s; remove it",
                          entry->place, entry->key, key->depends_on, reason);
    }
    if (is_null(entry))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' has no value; write for example "
                          "'%s%s%s' or remove it",
                          entry->place, entry->key, entry->key, entry->assign,
                          key->example);
    if (entry->kind == VP_YAML_SCALAR && is_listed(entry->text, key->later)) {
        vp_key_expects(key, config, reason, sizeof(reason));
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s: key '%s' is '%s', which this version does not "
                          "support yet; use %s",
                          entry->place, entry->key, entry->text, reason);
    }
    return VP_OK;
}

enum vp_status vp_key_set(const struct vp_key *key,
                          const struct vp_entry *entry,
                          struct vp_config *config, struct vp_err *err)
{
    void *field = (char *)config + key->offset;
    bool is_path = key->type == VP_KEY_PATH || key->type == VP_KEY_JSON;
    const char *text = entry->text;
    bool ok = false;

    VP_TRY(check_entry(key, entry, config, err));
    if (vp_key_is_list(key) && entry->kind == VP_YAML_LIST)
        return set_list(key, entry, config, err);
    if (vp_key_is_list(key) && entry->kind == VP_YAML_SCALAR)
        return set_no_list(key, entry, config, err);
    /* In quotes 8 is text, and text is for paths and names. */
    if (entry->kind != VP_YAML_SCALAR || (is_path && !text[0]) ||
        (entry->quoted && !is_path && !has_words(key, config)))
        return refuse(key, entry, config, err);
    switch (key->type) {
    case VP_KEY_I64:
    case VP_KEY_INT:
    case VP_KEY_U64:
        ok = set_number(key, text, field);
        break;
    case VP_KEY_F32:
    case VP_KEY_WARMUP:
        ok = set_real(key, text, field);
        break;
    case VP_KEY_BOOL:
        ok = set_bool(key, text, field);
        break;
    case VP_KEY_BYTES:
        ok = set_bytes(key, text, field);
        break;
    case VP_KEY_ENUM:
        ok = set_enum(key, text, field);
        break;
    case VP_KEY_MODEL:
        ok = set_model(text, config);
        break;
    case VP_KEY_SIZE:
        ok = set_size(text, config);
        break;
    case VP_KEY_PATH:
        return resolve_path(entry, config, field, err);
    case VP_KEY_JSON:
        return set_json(entry, config, err);
    case VP_KEY_INTS:
    case VP_KEY_REALS:
    case VP_KEY_LATER:
        break;
    }
    return ok ? VP_OK : refuse(key, entry, config, err);
}

/* ---- Printing ----------------------------------------------------------- */

/* A relative path starts at the working directory now, but at the folder of
 * the new file once that is read: only absolute ones keep their meaning. */
static void print_quoted(const char *text, char **out, const char *end)
{
    for (; *text && *out + 3 < end; text++) {
        if (*text == '"' || *text == '\\')
            *(*out)++ = '\\';
        *(*out)++ = *text;
    }
}

static bool print_path(const char *path, char *out, size_t n_bytes)
{
    const char *end = out + n_bytes;
    char folder[4096];

    if (!path)
        return false;
    *out++ = '"';
    if (path[0] != '/' && getcwd(folder, sizeof(folder))) {
        print_quoted(folder, &out, end);
        *out++ = '/';
    }
    print_quoted(path, &out, end);
    *out++ = '"';
    *out = 0;
    return true;
}

/* 0 stands for "not set" where the table does not allow it. */
static bool print_number(const struct vp_key *key, long long value, char *out,
                         size_t n_bytes)
{
    if (value == 0 && key->min > 0)
        return false;
    snprintf(out, n_bytes, "%lld", value);
    return true;
}

static bool print_ints(const struct vp_int_list *list, char *out,
                       size_t n_bytes)
{
    size_t used = 0;

    for (int i = 0; i < list->n && used < n_bytes; i++)
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%d%s",
                                 i ? ", " : "[", list->at[i],
                                 i + 1 < list->n ? "" : "]");
    return list->n > 0;
}

static bool print_reals(const struct vp_real_list *list, char *out,
                        size_t n_bytes)
{
    size_t used = 0;
    char text[32];

    for (int i = 0; i < list->n && used < n_bytes; i++) {
        vp_real_to_text(list->at[i], text, sizeof(text));
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%s%s",
                                 i ? ", " : "[", text,
                                 i + 1 < list->n ? "" : "]");
    }
    return list->n > 0;
}

static bool print_word(const char *word, char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "%s", word);
    return true;
}

bool vp_key_print(const struct vp_key *key, const struct vp_config *config,
                  char *out, size_t n_bytes)
{
    const void *field = (const char *)config + key->offset;
    int i;

    if (key->applies && !key->applies(config))
        return false;
    switch (key->type) {
    case VP_KEY_I64:
        return print_number(key, *(const int64_t *)field, out, n_bytes);
    case VP_KEY_INT:
        return print_number(key, *(const int *)field, out, n_bytes);
    case VP_KEY_U64:
        return print_number(key, (long long)*(const uint64_t *)field, out,
                            n_bytes);
    case VP_KEY_BYTES:
        return print_number(key, (long long)*(const size_t *)field, out,
                            n_bytes);
    case VP_KEY_F32:
    case VP_KEY_WARMUP:
        vp_float_to_text(*(const float *)field, out, n_bytes);
        return true;
    case VP_KEY_BOOL:
        i = *(const bool *)field;
        return print_word(key->word ? key->word(i)
                          : i       ? "true"
                                    : "false",
                          out, n_bytes);
    case VP_KEY_ENUM:
        memcpy(&i, field, sizeof(i));
        return print_word(key->word(i), out, n_bytes);
    case VP_KEY_MODEL:
        return print_word(config->model->name, out, n_bytes);
    case VP_KEY_INTS:
        return print_ints(field, out, n_bytes);
    case VP_KEY_REALS:
        return print_reals(field, out, n_bytes);
    case VP_KEY_PATH:
        return print_path(*(const char *const *)field, out, n_bytes);
    default:
        return false;
    }
}
