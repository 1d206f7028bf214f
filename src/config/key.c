/* Operations on one row of the table of keys: describes the values, refuses a
 * wrong entry, sets the field. */
#include "config/key.h"

#include "base/nearest.h"
#include "base/value.h"
#include "config/hints.h"
#include "config/module.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_WORDS = 32, LIST_BYTES = 256, SHOWN_BYTES = VP_SHOWN_BYTES - 32 };

_Static_assert(sizeof(enum vp_act) == sizeof(int) &&
                   sizeof(enum vp_optim_kind) == sizeof(int) &&
                   sizeof(enum vp_lr_policy) == sizeof(int) &&
                   sizeof(enum vp_device_kind) == sizeof(int) &&
                   sizeof(enum vp_precision) == sizeof(int) &&
                   sizeof(enum vp_sync_mode) == sizeof(int) &&
                   sizeof(enum vp_transport) == sizeof(int),
               "VP_KEY_ENUM stores an int");

/* ---- Describing --------------------------------------------------------- */

static void append(char *out, size_t n_bytes, const char *text)
{
    size_t used = strlen(out);

    snprintf(out + used, n_bytes - used, "%s", text);
}

/* Returns word number `i` that a key takes; NULL past the last. */
static const char *word_at(const struct vp_key *key,
                           const struct vp_config *config, int i)
{
    const struct vp_module *module;

    switch (key->type) {
    case VP_KEY_SIZE:
        return i < config->model->n_sizes ? config->model->sizes[i].name : NULL;
    case VP_KEY_MODULE:
        module = vp_module_at(config->model, i);
        return module ? module->name : NULL;
    default:
        return key->word(i);
    }
}

/* Writes all words that a key takes: "a, b, c". */
static void list_words(const struct vp_key *key, const struct vp_config *config,
                       char *out, size_t n_bytes)
{
    const char *word;

    out[0] = 0;
    if (key->type == VP_KEY_MODEL) {
        append(out, n_bytes, vp_model_names());
        return;
    }
    for (int i = 0; (word = word_at(key, config, i)); i++) {
        if (word[0] && out[0])
            append(out, n_bytes, ", ");
        append(out, n_bytes, word);
    }
}

/* Returns true if the words depend on the model. */
static bool is_by_model(const struct vp_key *key)
{
    return key->type == VP_KEY_SIZE || key->type == VP_KEY_MODULE;
}

static bool has_words(const struct vp_key *key, const struct vp_config *config)
{
    return key->word || key->type == VP_KEY_MODEL ||
           (is_by_model(key) && config && config->model);
}

void vp_key_words(const struct vp_key *key, char *out, size_t n_bytes)
{
    out[0] = 0;
    if (has_words(key, NULL))
        list_words(key, NULL, out, n_bytes);
    else if (key->type == VP_KEY_BOOL || key->type == VP_KEY_WARMUP)
        append(out, n_bytes, "true, false");
    else if (key->type == VP_KEY_SCALE)
        append(out, n_bytes, "dynamic, off");
    else if (key->type == VP_KEY_EVERY)
        append(out, n_bytes, "epoch");
}

bool vp_key_takes_path(const struct vp_key *key)
{
    switch (key->type) {
    case VP_KEY_PATH:
    case VP_KEY_FOLDER:
    case VP_KEY_JSON:
    case VP_KEY_INIT:
    case VP_KEY_PLACEMENT:
    case VP_KEY_PLAN:
    case VP_KEY_SCHEDULE:
        return true;
    default:
        return false;
    }
}

void vp_key_expects(const struct vp_key *key, const struct vp_config *config,
                    char *out, size_t n_bytes)
{
    char list[LIST_BYTES];

    if (has_words(key, config)) {
        list_words(key, config, list, sizeof(list));
        snprintf(out, n_bytes, "%s%s%s",
                 key->type == VP_KEY_WORDS ? "a list of some of "
                 : strchr(list, ',')       ? "one of "
                                           : "",
                 list, key->type == VP_KEY_SCHEDULE ? ", or a path" : "");
        return;
    }
    switch (key->type) {
    case VP_KEY_I64:
    case VP_KEY_INT:
    case VP_KEY_U64:
        snprintf(out, n_bytes, "a whole number from %lld to %lld",
                 (long long)key->min, (long long)key->max);
        break;
    case VP_KEY_EVERY:
        snprintf(out, n_bytes, "a whole number from %lld to %lld, or epoch",
                 (long long)key->min, (long long)key->max);
        break;
    case VP_KEY_F32:
        snprintf(out, n_bytes, "a number from %g to %g", key->min, key->max);
        break;
    case VP_KEY_WARMUP:
        snprintf(out, n_bytes, "true, false or a number from %g to %g",
                 key->min, key->max);
        break;
    case VP_KEY_SCALE:
        snprintf(out, n_bytes, "dynamic, off or a number from %g to %g",
                 key->min, key->max);
        break;
    case VP_KEY_INTS:
        snprintf(out, n_bytes, "a list of whole numbers from %lld to %lld",
                 (long long)key->min, (long long)key->max);
        break;
    case VP_KEY_PLAN:
        snprintf(out, n_bytes,
                 "a list of whole numbers from %lld to %lld, or the path of a "
                 "plan",
                 (long long)key->min, (long long)key->max);
        break;
    case VP_KEY_REALS:
        snprintf(out, n_bytes, "a number from %g to %g, or a list of them",
                 key->min, key->max);
        break;
    case VP_KEY_MACHINES:
        snprintf(out, n_bytes, "a list of host:device");
        break;
    case VP_KEY_BOOL:
        snprintf(out, n_bytes, "true or false");
        break;
    case VP_KEY_BYTES:
        snprintf(out, n_bytes, "a size such as 512M or 11G");
        break;
    case VP_KEY_PATH:
    case VP_KEY_FOLDER:
    case VP_KEY_JSON:
    case VP_KEY_INIT:
    case VP_KEY_PLACEMENT:
        snprintf(out, n_bytes, "a path");
        break;
    default:
        snprintf(out, n_bytes, "a name");
    }
}

enum vp_status vp_entry_no_memory(const struct vp_entry *entry,
                                  struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "%s: out of memory; close other programs", entry->place);
}

/* ---- Refusing ----------------------------------------------------------- */

void vp_entry_show(const struct vp_entry *entry, char out[VP_SHOWN_BYTES])
{
    size_t n;

    if (entry->kind != VP_YAML_SCALAR) {
        snprintf(out, VP_SHOWN_BYTES, "%s",
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
    snprintf(out, VP_SHOWN_BYTES, "%s'%.*s%s'",
             entry->quoted ? "the quoted text " : "", (int)n, entry->text,
             entry->text[n] ? "..." : "");
}

/* Returns the word of "a, b, c" nearest to `word`, or NULL. Cuts `list` at its
 * commas; the result points into it. */
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

void vp_entry_example(const struct vp_entry *entry, const struct vp_key *key,
                      char out[VP_EXAMPLE_BYTES])
{
    const char *quote = entry->quote ? entry->quote : "";

    snprintf(out, VP_EXAMPLE_BYTES, "%s%s%s%s%s", quote, entry->key, quote,
             entry->assign, entry->example ? entry->example : key->example);
}

/* Returns true for a word with a number: "cuda:1", "gpu:1". */
static bool is_word_with_number(const struct vp_key *key,
                                const struct vp_entry *entry)
{
    char word[LIST_BYTES], remedy[LIST_BYTES];

    if (!strchr(entry->text, ':'))
        return false;
    snprintf(word, sizeof(word), "%.*s", (int)strcspn(entry->text, ":"),
             entry->text);
    return vp_key_find_word(key, word) >= 0 ||
           vp_hint_word(key->name, word, remedy, sizeof(remedy));
}

/* Writes the remedy for a word that another program takes. Returns false if
 * there is none. */
static bool find_remedy(const struct vp_key *key, const struct vp_entry *entry,
                        char *out, size_t n_bytes)
{
    if (entry->kind != VP_YAML_SCALAR)
        return false;
    if (key->numbers && is_word_with_number(key, entry)) {
        snprintf(out, n_bytes, "%s", key->numbers);
        return true;
    }
    return vp_hint_word(key->name, entry->text, out, n_bytes);
}

enum vp_status vp_key_refuse(const struct vp_key *key,
                             const struct vp_entry *entry,
                             const struct vp_config *config, struct vp_err *err)
{
    char expects[LIST_BYTES + 32], shown[VP_SHOWN_BYTES], list[LIST_BYTES];
    char example[VP_EXAMPLE_BYTES], remedy[LIST_BYTES];
    struct vp_entry good = *entry;
    const char *meant = NULL;

    vp_key_expects(key, config, expects, sizeof(expects));
    vp_entry_show(entry, shown);
    if (find_remedy(key, entry, remedy, sizeof(remedy)))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' must be %s, not %s; %s", entry->place,
                          entry->key, expects, shown, remedy);
    /* Modules differ by their numbers: the nearest name is not a good guess. */
    if (has_words(key, config) && entry->kind == VP_YAML_SCALAR &&
        key->type != VP_KEY_MODULE) {
        list_words(key, config, list, sizeof(list));
        meant = nearest_word(entry->text, list);
    }
    if (meant)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' must be %s, not %s; did you mean '%s'?",
                          entry->place, entry->key, expects, shown, meant);
    if (is_by_model(key) && config->model)
        good.example = word_at(key, config, 0);
    vp_entry_example(&good, key, example);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key '%s' must be %s, not %s; write for example '%s'",
                      entry->place, entry->key, expects, shown, example);
}

/* ---- Setting ------------------------------------------------------------ */

bool vp_key_set_number(const struct vp_key *key, const char *text, void *field)
{
    int64_t value;

    /* Compared as whole numbers: 2^53 + 1 as a double is 2^53. */
    if (!vp_text_to_i64(text, &value) || value < (int64_t)key->min ||
        value > (int64_t)key->max)
        return false;
    if (key->type == VP_KEY_I64 || key->type == VP_KEY_EVERY)
        *(int64_t *)field = value;
    else if (key->type == VP_KEY_U64)
        *(uint64_t *)field = (uint64_t)value;
    else
        *(int *)field = (int)value;
    return true;
}

static bool set_every(const struct vp_key *key, const char *text,
                      int64_t *field)
{
    if (strcmp(text, "epoch") != 0)
        return vp_key_set_number(key, text, field);
    *field = VP_EVERY_EPOCH;
    return true;
}

bool vp_key_set_real(const struct vp_key *key, const char *text, void *field)
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

/* Returns true if the text is a word of a key that takes words and numbers:
 * "dynamic" may be quoted, a quoted number is refused. */
static bool is_quoted_word(const struct vp_key *key,
                           const struct vp_entry *entry)
{
    double number;

    return (key->type == VP_KEY_SCALE || key->type == VP_KEY_EVERY) &&
           !vp_text_to_real(entry->text, &number);
}

/* "off" and the other words for false mean 0, no scale. */
static bool set_scale(const struct vp_key *key, const char *text,
                      struct vp_scale_config *field)
{
    bool on, dynamic = strcmp(text, "dynamic") == 0;
    bool off = vp_text_to_bool(text, &on) && !on;
    double value = dynamic ? VP_SCALE_START : 0.0;

    if (!dynamic && !off && !vp_text_to_real(text, &value))
        return false;
    if (value != 0.0 && (value < key->min || value > key->max))
        return false;
    *field = (struct vp_scale_config){ (float)value, dynamic };
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

int vp_key_find_word(const struct vp_key *key, const char *text)
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
    i = vp_key_find_word(key, text);
    if (i >= 0)
        *(bool *)field = i;
    return i >= 0;
}

static bool set_enum(const struct vp_key *key, const char *text, void *field)
{
    int i = vp_key_find_word(key, text);

    if (i >= 0)
        memcpy(field, &i, sizeof(i));
    return i >= 0;
}

static bool set_model(const char *text, struct vp_config *config)
{
    const struct vp_model *model = config->custom ? config->custom
                                                  : vp_model_find(text);

    if (!model || strcmp(model->name, text) != 0)
        return false;
    config->model = model;
    return true;
}

static bool set_size(const char *text, struct vp_config *config)
{
    const struct vp_model_size *size = vp_model_size_find(config->model, text);

    if (size)
        config->sizes = size->config;
    return size;
}

static bool set_module(const char *text, struct vp_config *config)
{
    const struct vp_module *module = vp_module_find(config->model, text);

    if (!module)
        return false;
    config->module = module->name;
    config->sizes = vp_model_size_find(config->model, module->size)->config;
    return true;
}

enum vp_status vp_entry_path(const struct vp_entry *entry,
                             struct vp_config *config, const char **out,
                             struct vp_err *err)
{
    const char *folder = entry->from_file && config->directory
                             ? config->directory
                             : entry->folder;
    bool relative = entry->text[0] != '/' && folder[0];

    *out = vp_arena_printf(&config->arena, "%s%s%s", relative ? folder : "",
                           relative ? "/" : "", entry->text);
    return *out ? VP_OK : vp_entry_no_memory(entry, err);
}

static bool is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Sets key `directory`. vPipe looks for this folder in the working directory. A
 * folder beside the file is preferred here, so that the file works from every
 * working directory. */
static enum vp_status set_folder(const struct vp_entry *entry,
                                 struct vp_config *config, struct vp_err *err)
{
    bool relative = entry->from_file && entry->text[0] != '/';
    const char *path;

    VP_TRY(vp_entry_path(entry, config, &path, err));
    if (!is_folder(path) && relative)
        path = entry->text;
    if (!is_folder(path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' names '%.400s', which is not a folder "
                          "%s; correct the path, or remove the key",
                          entry->place, entry->key, entry->text,
                          relative ? "beside this file or in the working "
                                     "directory"
                                   : "here");
    config->directory = path;
    return VP_OK;
}

/* Refuses a file that is not there, with a remedy that vp_model_read_json()
 * does not have: the nearest path. */
static enum vp_status check_there(const char *path, struct vp_err *err)
{
    int error = access(path, F_OK) == 0 ? 0 : errno;
    char remedy[VP_PATH_REMEDY_BYTES];

    if (error == 0)
        return VP_OK;
    return vp_err_set(err, VP_ERR_IO, "%s: cannot be opened: %s; %s", path,
                      strerror(error),
                      vp_path_remedy(path, "check the path", remedy));
}

/* The file may be of another model_type with the same task: CPM is a GPT-2 with
 * a Chinese vocabulary. */
static enum vp_status set_json(const struct vp_entry *entry,
                               struct vp_config *config, struct vp_err *err)
{
    const struct vp_model *model;
    struct vp_model_config sizes;
    const char *path;
    enum vp_status st;

    VP_TRY(vp_entry_path(entry, config, &path, err));
    st = check_there(path, err);
    if (st == VP_OK)
        st = vp_model_read_json(path, &model, &sizes, err);
    if (st != VP_OK) {
        vp_err_prefix(err, "%s: key '%s'", entry->place, entry->key);
        return st;
    }
    if (model->task != config->model->task)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' names a file for model_type %s, "
                          "but model_type is %s; make them agree",
                          entry->place, entry->key, model->name,
                          config->model->name);
    config->sizes = sizes;
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

/* Refuses an entry that is wrong whatever its value is. */
static enum vp_status check_entry(const struct vp_key *key,
                                  const struct vp_entry *entry,
                                  const struct vp_config *config,
                                  struct vp_err *err)
{
    char reason[LIST_BYTES], example[VP_EXAMPLE_BYTES];

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
    if (is_null(entry)) {
        vp_entry_example(entry, key, example);
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' has no value; write for example '%s' "
                          "or remove it",
                          entry->place, entry->key, example);
    }
    return VP_OK;
}

static bool takes_text(const struct vp_key *key)
{
    return key->type == VP_KEY_TEXT || key->type == VP_KEY_PATH ||
           key->type == VP_KEY_FOLDER || key->type == VP_KEY_JSON ||
           key->type == VP_KEY_INIT || key->type == VP_KEY_PLACEMENT;
}

/* Sets a key whose value is text or a path. */
static enum vp_status set_text(const struct vp_key *key,
                               const struct vp_entry *entry,
                               struct vp_config *config, struct vp_err *err)
{
    const char **field = (const char **)((char *)config + key->offset);

    switch (key->type) {
    case VP_KEY_PATH:
        return vp_entry_path(entry, config, field, err);
    case VP_KEY_FOLDER:
        return set_folder(entry, config, err);
    case VP_KEY_JSON:
        return set_json(entry, config, err);
    default:
        *field = vp_arena_strdup(&config->arena, entry->text);
        return *field ? VP_OK : vp_entry_no_memory(entry, err);
    }
}

bool vp_key_names_file(const struct vp_key *key, const struct vp_entry *entry)
{
    if (key->type == VP_KEY_SCHEDULE && entry->kind == VP_YAML_SCALAR)
        return strchr(entry->text, '/') || strchr(entry->text, '.');
    return key->type == VP_KEY_PLACEMENT || key->type == VP_KEY_INIT;
}

enum vp_status vp_key_set(const struct vp_key *key,
                          const struct vp_entry *entry,
                          struct vp_config *config, struct vp_err *err)
{
    void *field = (char *)config + key->offset;
    const char *text = entry->text;
    bool ok = false;

    VP_TRY(check_entry(key, entry, config, err));
    if (vp_key_is_list(key))
        return vp_key_set_list(key, entry, config, err);
    /* A quoted value is text, which only paths, names and words may be. */
    if (entry->kind != VP_YAML_SCALAR || (takes_text(key) && !text[0]) ||
        (entry->quoted && !takes_text(key) && !has_words(key, config) &&
         !is_quoted_word(key, entry)))
        return vp_key_refuse(key, entry, config, err);
    if (vp_key_names_file(key, entry))
        return VP_OK;
    if (takes_text(key))
        return set_text(key, entry, config, err);
    switch (key->type) {
    case VP_KEY_I64:
    case VP_KEY_INT:
    case VP_KEY_U64:
        ok = vp_key_set_number(key, text, field);
        break;
    case VP_KEY_EVERY:
        ok = set_every(key, text, field);
        break;
    case VP_KEY_F32:
    case VP_KEY_WARMUP:
        ok = vp_key_set_real(key, text, field);
        break;
    case VP_KEY_SCALE:
        ok = set_scale(key, text, field);
        break;
    case VP_KEY_BOOL:
        ok = set_bool(key, text, field);
        break;
    case VP_KEY_BYTES:
        ok = set_bytes(key, text, field);
        break;
    case VP_KEY_ENUM:
    case VP_KEY_SCHEDULE:
        ok = set_enum(key, text, field);
        break;
    case VP_KEY_MODEL:
        ok = set_model(text, config);
        break;
    case VP_KEY_SIZE:
        ok = set_size(text, config);
        break;
    case VP_KEY_MODULE:
        ok = set_module(text, config);
        break;
    default: /* text and lists, above */
        break;
    }
    if (!ok && key->type == VP_KEY_MODEL && strcmp(text, VP_MODEL_CUSTOM) == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: model_type custom is a model from operators of "
                          "a program that uses libvpipe; train and evaluate "
                          "it there",
                          entry->place);
    return ok ? VP_OK : vp_key_refuse(key, entry, config, err);
}
