/* From a file and --set to a checked configuration, and back to a file. */
#include "launch/config.h"
#include "launch/keys.h"
#include "launch/nearest.h"
#include "launch/pipeline.h"
#include "launch/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_KEYS = 128, MAX_VALUE = 16384 };

/* Entries by row of the table; `key` NULL where the user gave none. */
struct given {
    struct vp_entry entry[MAX_KEYS];
};

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "configuration: out of memory; close other programs");
}

/* ---- Collecting what the user wrote ------------------------------------- */

static enum vp_status unknown_key(const struct vp_entry *entry,
                                  struct vp_err *err)
{
    const char *names[2 * MAX_KEYS];
    int n = 0, best;

    /* What works first, so that it wins over what does not yet. */
    for (int i = 0; i < vp_n_keys; i++) {
        names[n++] = vp_keys[i].name;
        if (vp_keys[i].alias)
            names[n++] = vp_keys[i].alias;
    }
    best = vp_nearest(entry->key, names, n);
    if (best >= 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: unknown key '%.48s'; did you mean '%s'?",
                          entry->place, entry->key, names[best]);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: unknown key '%.48s'; 'vpipe train --help' lists the "
                      "keys",
                      entry->place, entry->key);
}

/* The file gives a key once (its reader sees to that), but a row may have two
 * names; a later --set replaces what was there. */
static enum vp_status collect(const struct vp_entry *entry, bool replace,
                              struct given *given, struct vp_err *err)
{
    const struct vp_key *key = vp_key_find(entry->key);
    struct vp_entry *slot;

    if (!key)
        return unknown_key(entry, err);
    slot = &given->entry[key - vp_keys];
    if (slot->key && !replace)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' is another name for '%s' at %s; keep "
                          "one",
                          entry->place, entry->key, slot->key, slot->place);
    *slot = *entry;
    return VP_OK;
}

/* The folder of a file: "" when it is the working directory. */
static const char *folder_of(const char *path, struct vp_arena *arena)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return vp_arena_strdup(arena, "");
    if (slash == path)
        return vp_arena_strdup(arena, "/");
    return vp_arena_printf(arena, "%.*s", (int)(slash - path), path);
}

static enum vp_status collect_file(const char *path, struct vp_config *config,
                                   struct given *given, struct vp_err *err)
{
    const struct vp_yaml_node *root, *node;
    const char *folder = folder_of(path, &config->arena);

    if (!folder)
        return no_memory(err);
    VP_TRY(vp_yaml_read(path, &config->arena, &root, err));
    if (root->kind != VP_YAML_MAP)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s:%d: a configuration is a list of 'key: value' "
                          "lines; write for example 'model_type: bert'",
                          path, root->line);
    for (node = root->child; node; node = node->next) {
        struct vp_entry entry = {
            .key = node->key,
            .folder = folder,
            .assign = ": ",
            .kind = node->kind,
            .text = node->text,
            .quoted = node->quoted,
            .items = node->kind == VP_YAML_LIST ? node->child : NULL,
        };

        entry.place = vp_arena_printf(&config->arena, "%s:%d", path,
                                      node->key_line);
        if (!entry.place)
            return no_memory(err);
        VP_TRY(collect(&entry, false, given, err));
    }
    return VP_OK;
}

/* "[1, 2]" where the key takes a list; what is none stays text, and is refused
 * as such. */
static void read_list(struct vp_entry *entry, struct vp_config *config)
{
    const struct vp_key *key = vp_key_find(entry->key);
    const struct vp_yaml_node *root;

    if (!key || !vp_key_is_list(key) || entry->text[0] != '[' ||
        vp_yaml_parse("--set", entry->text, strlen(entry->text), &config->arena,
                      &root, NULL) != VP_OK)
        return;
    entry->kind = root->kind;
    entry->items = root->child;
}

static enum vp_status collect_set(const char *set, struct vp_config *config,
                                  struct given *given, struct vp_err *err)
{
    char *text = vp_arena_strdup(&config->arena, set);
    struct vp_entry entry = {
        .key = text,
        .place = "--set",
        .folder = "",
        .assign = "=",
        .kind = VP_YAML_SCALAR,
    };
    char *equals;

    if (!text)
        return no_memory(err);
    if (!vp_yaml_printable(text) || strlen(text) > VP_YAML_MAX_SCALAR)
        return vp_err_set(err, VP_ERR_INVALID,
                          "--set: the value is too long or holds a line break "
                          "or control character; write it without them");
    equals = strchr(text, '=');
    if (!equals || equals == text)
        return vp_err_set(err, VP_ERR_INVALID,
                          "--set: '%.48s' is not key=value; write for example "
                          "'--set batch_size=8'",
                          text);
    *equals = 0;
    entry.text = equals + 1;
    read_list(&entry, config);
    return collect(&entry, true, given, err);
}

/* ---- From entries to fields --------------------------------------------- */

static const struct vp_entry *find_given(const struct given *given,
                                         const char *name)
{
    const struct vp_entry *entry = &given->entry[vp_key_find(name) - vp_keys];

    return entry->key ? entry : NULL;
}

/* The table's own value, read like a user's. */
static enum vp_status set_fallback(const struct vp_key *key,
                                   struct vp_config *config, struct vp_err *err)
{
    struct vp_entry entry = {
        .key = key->name,
        .place = "default",
        .folder = "",
        .assign = ": ",
        .kind = VP_YAML_SCALAR,
        .text = key->fallback,
    };

    if (!key->fallback || key->fallback[0] == '(')
        return VP_OK;
    return vp_key_set(key, &entry, config, err);
}

static enum vp_status apply(const struct given *given, struct vp_config *config,
                            struct vp_err *err)
{
    const struct vp_entry *size = find_given(given, "size");
    const struct vp_entry *json = find_given(given, "config");

    /* Keys of later versions first: they explain more than what follows from
     * their absence. */
    for (int i = 0; i < vp_n_keys; i++)
        if (vp_keys[i].type == VP_KEY_LATER && given->entry[i].key)
            return vp_key_set(&vp_keys[i], &given->entry[i], config, err);
    if (!find_given(given, "model_type"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'model_type' is missing; add one of %s, for "
                          "example 'model_type: bert'",
                          config->path, vp_model_names());
    if (size && json)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'config' and key 'size' at %s both choose "
                          "the sizes; remove one",
                          json->place, size->place);
    for (int i = 0; i < vp_n_keys; i++) {
        const struct vp_key *key = &vp_keys[i];

        if (given->entry[i].key)
            VP_TRY(vp_key_set(key, &given->entry[i], config, err));
        else
            VP_TRY(set_fallback(key, config, err));
        if (key->after)
            key->after(config);
    }
    return VP_OK;
}

/* Defaults that follow from several keys. */
static void derive(const struct given *given, struct vp_config *config)
{
    struct vp_model_config *sizes = &config->sizes;

    if (find_given(given, "hidden") && !find_given(given, "ffn"))
        sizes->ffn = 4 * sizes->hidden;
    if (find_given(given, "layers") && !find_given(given, "decoder_layers") &&
        config->model->task == VP_TASK_TRANSLATION)
        sizes->decoder_layers = sizes->layers;
    if (find_given(given, "dropout") && !find_given(given, "attention_dropout"))
        sizes->attention_dropout = sizes->dropout;
    if (!find_given(given, "seq_length"))
        config->seq_length = sizes->positions < 128 ? sizes->positions : 128;
    if (!find_given(given, "max_pred") &&
        config->model->task == VP_TASK_MASKED_LM) {
        /* 20 of 128 and 80 of 512, as BERT was published. */
        config->max_pred = config->seq_length * 5 / 32;
        if (config->max_pred < 1)
            config->max_pred = 1;
    }
    if (!find_given(given, "synthetic_data"))
        config->synthetic_data = !config->data_dir;
}

static enum vp_status keep_origins(const struct given *given,
                                   struct vp_config *config, struct vp_err *err)
{
    config->origins = vp_arena_alloc(
        &config->arena, (size_t)vp_n_keys * sizeof(*config->origins));
    if (!config->origins)
        return no_memory(err);
    for (int i = 0; i < vp_n_keys; i++) {
        if (!given->entry[i].key)
            continue;
        config->origins[config->n_origins++] = (struct vp_origin){
            .key = vp_keys[i].name,
            .place = given->entry[i].place,
        };
    }
    return VP_OK;
}

/* ---- Places ------------------------------------------------------------- */

static const struct vp_origin *find_origin(const struct vp_config *config,
                                           const char *key)
{
    for (int i = 0; i < config->n_origins; i++)
        if (strcmp(config->origins[i].key, key) == 0)
            return &config->origins[i];
    return NULL;
}

const char *vp_config_place(const struct vp_config *config, const char *key)
{
    const struct vp_origin *origin = find_origin(config, key);

    return origin ? origin->place : "default";
}

bool vp_config_given(const struct vp_config *config, const char *key)
{
    return find_origin(config, key);
}

static bool is_word_char(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* The first place where `word` stands by itself in `text`, or NULL. */
static const char *find_word(const char *text, const char *word)
{
    const char *found = text;

    while ((found = strstr(found, word))) {
        if ((found == text || !is_word_char(found[-1])) &&
            !is_word_char(found[strlen(word)]))
            return found;
        found++;
    }
    return NULL;
}

const char *vp_config_blame(const struct vp_config *config, const char *message)
{
    static const char *const choosers[] = { "config", "size", "model_type" };
    const char *where = NULL, *first = NULL;

    for (int i = 0; i < config->n_origins; i++) {
        const char *found = find_word(message, config->origins[i].key);

        if (found && (!first || found < first)) {
            first = found;
            where = config->origins[i].place;
        }
    }
    for (size_t i = 0; !where && i < VP_COUNT_OF(choosers); i++) {
        const struct vp_origin *origin = find_origin(config, choosers[i]);

        where = origin ? origin->place : NULL;
    }
    return where;
}

/* ---- Checking ----------------------------------------------------------- */

/* The longest bucket that training needs; translation counts tokens. */
static struct vp_dims longest_dims(const struct vp_config *config)
{
    struct vp_dims dims = {
        .batch = config->batch_size,
        .seq = config->seq_length,
    };

    if (config->model->task == VP_TASK_MASKED_LM)
        dims.n_labels = config->batch_size * config->max_pred;
    if (config->model->task == VP_TASK_TRANSLATION) {
        dims.batch = config->batch_size / config->seq_length;
        dims.tgt_seq = config->seq_length;
    }
    return dims;
}

/* The model says "key: cause; remedy" and knows no files. */
static enum vp_status check_model(const struct vp_config *config,
                                  const struct vp_dims *dims,
                                  struct vp_err *err)
{
    struct vp_err model_err = { { 0 } };
    enum vp_status st = vp_model_check(config->model, &config->sizes, dims,
                                       &model_err);
    const char *text = model_err.text;
    size_t n_key = strcspn(text, ":");

    if (st == VP_OK)
        return VP_OK;
    return vp_err_set(err, st, "%s: key '%.*s'%s",
                      vp_config_blame(config, text), (int)n_key, text,
                      text + n_key);
}

static enum vp_status check_data(const struct vp_config *config,
                                 struct vp_err *err)
{
    struct stat info;

    if (config->synthetic_data)
        return VP_OK;
    if (!config->data_dir)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'synthetic_data' is false but there is no "
                          "data_dir; add 'data_dir: FOLDER' or remove it",
                          vp_config_place(config, "synthetic_data"));
    if (stat(config->data_dir, &info) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'data_dir' names '%.400s', which cannot be "
                          "read: %s; correct the path",
                          vp_config_place(config, "data_dir"), config->data_dir,
                          strerror(errno));
    return VP_OK;
}

static enum vp_status check(struct vp_config *config, struct vp_err *err)
{
    struct vp_dims dims = longest_dims(config);
    const char *place;

    if (config->model->task == VP_TASK_MASKED_LM &&
        config->max_pred > config->seq_length)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'max_pred' is %lld, more than seq_length "
                          "%lld; lower it",
                          vp_config_place(config, "max_pred"),
                          (long long)config->max_pred,
                          (long long)config->seq_length);
    if (dims.batch < 1) {
        place = find_origin(config, "batch_size") ? "batch_size" : "seq_length";
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'batch_size' counts tokens here, and %lld "
                          "do not hold one sentence of seq_length %lld; raise "
                          "it",
                          vp_config_place(config, place),
                          (long long)config->batch_size,
                          (long long)config->seq_length);
    }
    VP_TRY(check_model(config, &dims, err));
    VP_TRY(vp_pipeline_resolve(config, &dims, err));
    return check_data(config, err);
}

/* ---- Whole configurations ----------------------------------------------- */

static enum vp_status load(const char *path, const char *const *sets,
                           int n_sets, struct vp_config *out,
                           struct vp_err *err)
{
    struct given given = { 0 };

    VP_BUG_ON(vp_n_keys > MAX_KEYS);
    *out = (struct vp_config){ 0 };
    if (!vp_yaml_printable(path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "the name of the configuration file holds a line "
                          "break or control character; rename the file");
    out->path = vp_arena_strdup(&out->arena, path);
    if (!out->path)
        return no_memory(err);
    VP_TRY(collect_file(out->path, out, &given, err));
    for (int i = 0; i < n_sets; i++)
        VP_TRY(collect_set(sets[i], out, &given, err));
    VP_TRY(keep_origins(&given, out, err));
    VP_TRY(apply(&given, out, err));
    derive(&given, out);
    return check(out, err);
}

enum vp_status vp_config_load(const char *path, const char *const *sets,
                              int n_sets, struct vp_config *out,
                              struct vp_err *err)
{
    enum vp_status st = load(path, sets, n_sets, out, err);

    /* Messages of other readers may quote what they found in a file. */
    if (st != VP_OK && err)
        for (char *c = err->text; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7F)
                *c = '?';
    return st;
}

void vp_config_release(struct vp_config *config)
{
    vp_arena_release(&config->arena);
    *config = (struct vp_config){ 0 };
}

enum vp_status vp_config_write(const struct vp_config *config, const char *path,
                               struct vp_err *err)
{
    const char *group = "";
    char value[MAX_VALUE];
    FILE *file = fopen(path, "w");
    bool failed;

    if (!file)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be written: %s; choose "
                          "another folder",
                          path, strerror(errno));
    for (int i = 0; i < vp_n_keys; i++) {
        const struct vp_key *key = &vp_keys[i];

        if (key->group && strcmp(key->group, group) != 0) {
            group = key->group;
            fprintf(file, "%s# %s\n", i > 0 ? "\n" : "", group);
        }
        if (vp_key_print(key, config, value, sizeof(value)))
            fprintf(file, "%s: %s\n", key->name, value);
    }
    failed = ferror(file);
    if (fclose(file) != 0 || failed)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be written: %s; free "
                          "some space",
                          path, strerror(errno));
    return VP_OK;
}

bool vp_config_key_help(int i, struct vp_key_help *out)
{
    const struct vp_key *key;

    if (i < 0 || i >= vp_n_keys || vp_keys[i].type == VP_KEY_LATER)
        return false;
    key = &vp_keys[i];
    *out = (struct vp_key_help){
        .group = key->group,
        .name = key->name,
        .fallback = key->fallback,
        .meaning = key->meaning,
    };
    vp_key_expects(key, NULL, out->type, sizeof(out->type));
    return true;
}
