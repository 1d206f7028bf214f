/* From a file and --set to a checked configuration, and back to a file. */
#include "config/load.h"

#include "base/path.h"
#include "base/yaml.h"
#include "config/hosts.h"
#include "config/init_folder.h"
#include "config/key.h"
#include "config/key_file.h"
#include "config/keys.h"
#include "config/plan_file.h"
#include "config/planned_keys.h"
#include "config/precision.h"
#include "config/resolve.h"
#include "config/schedule_file.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

enum { MAX_KEYS = 128 };

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

/* The file gives a key once (its reader sees to that), but a row may have two
 * names; a later --set replaces what was there. */
static enum vp_status collect(const struct vp_entry *entry, bool replace,
                              struct given *given, struct vp_err *err)
{
    const struct vp_key *key = vp_key_find(entry->key);
    struct vp_entry *slot;

    if (!key)
        return vp_entry_unknown(entry, err);
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

static enum vp_status collect_file(const struct vp_yaml_node *root,
                                   struct vp_config *config,
                                   struct given *given, struct vp_err *err)
{
    const struct vp_yaml_node *node;
    const char *folder = config->piped
                             ? ""
                             : folder_of(config->path, &config->arena);

    if (!folder)
        return no_memory(err);
    if (root->kind != VP_YAML_MAP)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s:%d: a configuration is a list of 'key: value' "
                          "lines; write for example 'model_type: bert'",
                          config->path, root->line);
    for (node = root->child; node; node = node->next) {
        struct vp_entry entry = {
            .key = node->key,
            .folder = folder,
            .from_file = true,
            .assign = ": ",
            .kind = node->kind,
            .text = node->text,
            .quoted = node->quoted,
            .items = node->kind == VP_YAML_LIST ? node->child : NULL,
        };

        entry.place = vp_arena_printf(&config->arena, "%s:%d", config->path,
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

static enum vp_status keep_sets(const struct vp_config_source *from,
                                struct vp_config *config, struct vp_err *err)
{
    size_t n = (size_t)from->n_sets;
    const char **sets = vp_arena_alloc(&config->arena, (n + 1) * sizeof(*sets));

    if (!sets)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        sets[i] = vp_arena_strdup(&config->arena, from->sets[i]);
        if (!sets[i])
            return no_memory(err);
    }
    config->sets = sets;
    config->n_sets = from->n_sets;
    return VP_OK;
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

    if (!key->fallback || key->fallback[0] == '(' ||
        (key->applies && !key->applies(config)))
        return VP_OK;
    return vp_key_set(key, &entry, config, err);
}

/* At most one key may choose the sizes. */
static enum vp_status check_choosers(const struct given *given,
                                     struct vp_err *err)
{
    static const char *const keys[] = { "config", "size", "module" };
    const struct vp_entry *first = NULL;

    for (size_t i = 0; i < VP_COUNT_OF(keys); i++) {
        const struct vp_entry *entry = find_given(given, keys[i]);

        if (entry && first)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: key '%s' and key '%s' at %s both choose the "
                              "sizes; remove one",
                              first->place, first->key, entry->key,
                              entry->place);
        first = entry ? entry : first;
    }
    return VP_OK;
}

static void give(const struct vp_entry *entry, const struct vp_key *key,
                 struct vp_config *config)
{
    const struct vp_origin origin = {
        .key = key->name,
        .place = entry->place,
        .written = entry->key,
        .via = entry->via,
        .text = entry->kind == VP_YAML_SCALAR ? entry->text : NULL,
    };

    vp_origin_give(config, &origin);
}

/* The file takes the place of the entry that names it; a plan that was found
 * takes the place of all that it decides. */
static enum vp_status read_plan(struct given *given, const char *found,
                                struct vp_config *config, struct vp_err *err)
{
    const struct vp_key *key = vp_key_find("partition");
    struct vp_entry *entry = &given->entry[key - vp_keys];

    if (found)
        VP_TRY(vp_plan_file_take_found(found, config, err));
    else if (entry->key && vp_plan_file_is_named(entry))
        VP_TRY(vp_plan_file_read(entry, config, err));
    else
        return VP_OK;
    return vp_plan_file_entry(key, config, entry, err);
}

/* A key of the user's, else of the plan file, else the table's value. */
static enum vp_status apply_row(const struct vp_entry *entry,
                                const struct vp_key *key,
                                struct vp_config *config, struct vp_err *err)
{
    struct vp_entry planned;

    VP_TRY(vp_plan_file_entry(key, config, &planned, err));
    if (entry->key || planned.key) {
        const struct vp_entry *first = entry->key ? entry : &planned;

        /* Again: a file of an earlier row may have set it. */
        give(first, key, config);
        VP_TRY(vp_key_read(key, first, config, err));
    } else if (!vp_config_given(config, key->name)) {
        VP_TRY(set_fallback(key, config, err));
    }
    if (entry->key && planned.key)
        VP_TRY(vp_plan_file_compare(key, &planned, config, err));
    if (key->type == VP_KEY_PLACEMENT)
        VP_TRY(vp_plan_file_place(config, err));
    if (key->after)
        key->after(config);
    return VP_OK;
}

/* Without model_type the folder of the first weights says what it is for. */
static enum vp_status name_model(struct given *given, struct vp_config *config,
                                 struct vp_err *err)
{
    const struct vp_key *directory = vp_key_find("directory");
    const struct vp_entry *init = find_given(given, "init");
    struct vp_entry *slot = &given->entry[vp_key_find("model_type") - vp_keys];
    const struct vp_model *model = config->custom;

    if (init && !slot->key && !model) {
        if (given->entry[directory - vp_keys].key)
            VP_TRY(vp_key_set(directory, &given->entry[directory - vp_keys],
                              config, err));
        VP_TRY(vp_init_folder_model(init, config, &model, err));
        if (!model)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: key 'init' names '%.400s', which has no "
                              "config.json; correct the path, or add "
                              "model_type and the sizes",
                              init->place, init->text);
    }
    if (model && !slot->key)
        *slot = (struct vp_entry){ .key = "model_type",
                                   .place = init ? init->place : "default",
                                   .folder = "",
                                   .assign = ": ",
                                   .kind = VP_YAML_SCALAR,
                                   .text = model->name };
    return VP_OK;
}

static enum vp_status apply(struct given *given, const char *plan,
                            struct vp_config *config, struct vp_err *err)
{
    /* Keys of later versions first: they explain more than what follows from
     * their absence. */
    for (int i = 0; i < vp_n_keys; i++)
        if (vp_keys[i].type == VP_KEY_LATER && given->entry[i].key)
            return vp_key_set(&vp_keys[i], &given->entry[i], config, err);
    VP_TRY(name_model(given, config, err));
    if (!find_given(given, "model_type"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'model_type' is missing; add one of %s, for "
                          "example 'model_type: bert'%s",
                          config->path, vp_model_names(),
                          find_given(given, "partition")
                              ? ", or give a plan by '--set partition=FILE'"
                              : "");
    VP_TRY(check_choosers(given, err));
    for (int i = 0; i < vp_n_keys; i++) {
        /* The first row that a plan decides; paths are known by now. */
        if (strcmp(vp_keys[i].name, "sync_mode") == 0)
            VP_TRY(read_plan(given, plan, config, err));
        VP_TRY(apply_row(&given->entry[i], &vp_keys[i], config, err));
    }
    return vp_plan_file_finish(config, err);
}

/* Defaults that follow from several keys. */
static void derive_model(const struct given *given, struct vp_config *config)
{
    struct vp_model_config *sizes = &config->sizes;

    if (find_given(given, "hidden") && !find_given(given, "ffn")) {
        sizes->ffn = 4 * sizes->hidden;
        vp_origin_derive(config, "ffn", "4 x hidden");
    }
    if (find_given(given, "layers") && !find_given(given, "decoder_layers") &&
        config->model->task == VP_TASK_TRANSLATION) {
        sizes->decoder_layers = sizes->layers;
        vp_origin_derive(config, "decoder_layers", "as layers");
    }
    if (find_given(given, "dropout") &&
        !find_given(given, "attention_dropout")) {
        sizes->attention_dropout = sizes->dropout;
        vp_origin_derive(config, "attention_dropout", "as dropout");
    }
}

static void derive_data(const struct given *given, struct vp_config *config)
{
    int64_t positions = config->sizes.positions;

    if (config->custom) {
        config->batch_size = config->custom->custom->dims.batch;
        config->seq_length = config->custom->custom->dims.seq;
    } else if (!find_given(given, "seq_length")) {
        config->seq_length = positions < 128 ? positions : 128;
        if (positions < 128)
            vp_origin_derive(config, "seq_length", "as positions");
    }
    if (!find_given(given, "max_pred") &&
        config->model->task == VP_TASK_MASKED_LM) {
        /* 20 of 128 and 80 of 512, as BERT was published. */
        config->max_pred = config->seq_length * 5 / 32;
        if (config->max_pred < 1)
            config->max_pred = 1;
        vp_origin_derive(config, "max_pred", "5/32 of seq_length");
    }
    if (config->no_input_pipelining && !find_given(given, "prefetch"))
        vp_origin_derive(config, "prefetch", "no_input_pipelining is true");
    if (!find_given(given, "synthetic_data")) {
        config->synthetic_data = !config->data_dir;
        vp_origin_derive(config, "synthetic_data",
                         config->data_dir ? "there is a data_dir"
                                          : "there is no data_dir");
    }
}

/* The vocabulary is the tokenizer's unless the user gave one, which may have
 * room to spare. */
static enum vp_status derive_vocab(const struct given *given,
                                   struct vp_config *config, struct vp_err *err)
{
    /* Ids of pairs are those of the tokenizer plus 4, see data/pairs/make.h. */
    int more = config->model->task == VP_TASK_TRANSLATION ? 4 : 0;
    struct vp_tokenizer *tokenizer;
    int64_t *vocab = &config->sizes.vocab;
    int n_ids;

    if (!config->tokenizer)
        return VP_OK;
    if (vp_tokenizer_open(config->tokenizer, &tokenizer, err) != VP_OK) {
        vp_err_prefix(err, "%s: key 'tokenizer'",
                      vp_config_place(config, "tokenizer"));
        return VP_ERR_INVALID;
    }
    n_ids = vp_tokenizer_size(tokenizer);
    vp_tokenizer_free(tokenizer);
    if (!find_given(given, "vocab") && !find_given(given, "config") &&
        !find_given(given, "init")) {
        *vocab = n_ids + more;
        vp_origin_derive(config, "vocab", "of the tokenizer");
        return VP_OK;
    }
    if (*vocab >= n_ids)
        return VP_OK;
    return vp_err_set(
        err, VP_ERR_INVALID,
        "%s: vocab is %lld, but the tokenizer at %s has %d ids; "
        "raise vocab to at least %d, or remove it",
        find_given(given, "vocab") ? vp_config_place(config, "vocab")
                                   : vp_config_place(config, "config"),
        (long long)*vocab, vp_config_place(config, "tokenizer"), n_ids, n_ids);
}

/* One without the other: the original printed times and traffic, and a wish
 * without a frequency should not remain one. */
static void derive_verbose(struct vp_config *config)
{
    if (config->verbose && config->verbose_frequency == 0) {
        config->verbose_frequency = config->print_frequency;
        vp_origin_derive(config, "verbose_frequency", "as print_frequency");
    }
    if (!config->verbose && config->verbose_frequency > 0) {
        config->verbose = 1u << VP_VERBOSE_COMMUNICATION |
                          1u << VP_VERBOSE_TIME;
        vp_origin_derive(config, "verbose", "verbose_frequency is not 0");
    }
}

/* An empty image is none; ranks on other hosts are processes. */
static void derive_launching(struct vp_config *config)
{
    if (config->container &&
        (!config->container[0] || strcmp(config->container, "none") == 0))
        config->container = NULL;
    if (!vp_config_given(config, "distributed_backend") &&
        !vp_hosts_are_here(config)) {
        config->distributed_backend = VP_TRANSPORT_MPI;
        vp_origin_derive(config, "distributed_backend",
                         "machines names other hosts");
    }
}

static enum vp_status check_interface(const struct vp_config *config,
                                      struct vp_err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-.:@";
    const char *name = config->network_interface;

    if (name && (!*name || *name == '-' || strlen(name) > 15 ||
                 name[strspn(name, letters)]))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'network_interface' must be the name of a "
                          "network interface, not '%.48s'; write for example "
                          "'network_interface: eth0'",
                          vp_config_place(config, "network_interface"), name);
    return VP_OK;
}

static enum vp_status keep_origins(const struct given *given,
                                   struct vp_config *config, struct vp_err *err)
{
    config->origins = vp_arena_alloc(
        &config->arena, (size_t)vp_n_keys * sizeof(*config->origins));
    if (!config->origins)
        return no_memory(err);
    config->n_origins = vp_n_keys;
    for (int i = 0; i < vp_n_keys; i++) {
        config->origins[i].key = vp_keys[i].name;
        if (given->entry[i].key)
            give(&given->entry[i], &vp_keys[i], config);
    }
    return VP_OK;
}

/* ---- Checking ----------------------------------------------------------- */

/* The longest bucket that training needs; translation counts tokens. */
static struct vp_dims longest_dims(const struct vp_config *config)
{
    struct vp_dims dims = {
        .batch = config->batch_size,
        .seq = config->seq_length,
    };

    if (config->custom)
        return config->custom->custom->dims;
    if (config->model->task == VP_TASK_MASKED_LM)
        dims.n_labels = config->batch_size * config->max_pred;
    if (config->model->task == VP_TASK_TRANSLATION) {
        dims.batch = config->batch_size / config->seq_length;
        dims.tgt_seq = config->seq_length;
    }
    return dims;
}

static enum vp_status check_data(const struct vp_config *config,
                                 struct vp_err *err)
{
    if (config->no_input_pipelining && config->prefetch > 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'prefetch' is %d, but no_input_pipelining "
                          "at %s is true; remove one",
                          vp_config_place(config, "prefetch"), config->prefetch,
                          vp_config_place(config, "no_input_pipelining"));
    if (config->synthetic_data)
        return VP_OK;
    if (!config->data_dir)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'synthetic_data' is false but there is no "
                          "data_dir; generate data with --set "
                          "synthetic_data=true, or add 'data_dir: FOLDER'",
                          vp_config_place(config, "synthetic_data"));
    if (config->model->task == VP_TASK_TRANSLATION && config->tokenizer &&
        config->sizes.pad == VP_TOKEN_PAD)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'tokenizer': pairs of text are read byte by "
                          "byte; make files of ids by 'vpipe data pairs' and "
                          "set pad_id to 1, or remove it",
                          vp_config_place(config, "tokenizer"));
    return VP_OK;
}

/* In asp a stage does not know in time that another one's overflowed. */
static enum vp_status check_scale(const struct vp_config *config,
                                  struct vp_err *err)
{
    bool given = vp_config_given(config, "loss_scale");

    if (config->sync_mode == VP_SYNC_BSP || !config->loss_scale.dynamic)
        return VP_OK;
    return vp_err_set(
        err, VP_ERR_INVALID,
        "%s: key 'loss_scale' is dynamic%s, but in sync_mode asp "
        "it must be a number; write for example 'loss_scale: "
        "1024'",
        vp_config_place(config, given ? "loss_scale" : "precision"),
        given ? "" : " with precision fp16");
}

/* Texts are made by a pipeline of threads, with one rank for each stage. */
static enum vp_status check_texts(const struct vp_config *config,
                                  struct vp_err *err)
{
    const char *key = config->generate_every > 0 ? "generate_every"
                                                 : "translate_every";
    bool replicated = false;

    if (config->generate_every == 0 && config->translate_every == 0)
        return VP_OK;
    if (!config->sample_prompts)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' needs prompts; add 'sample_prompts: "
                          "FILE', with one on each line",
                          vp_config_place(config, key), key);
    for (int s = 0; s < config->replicas.n; s++)
        replicated |= config->replicas.at[s] > 1;
    if (replicated || vp_config_is_distributed(config))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s' needs ranks that are threads of one "
                          "process, one for each stage; remove it or '%s'",
                          vp_config_place(config, key), key,
                          replicated ? "replicas" : "distributed_backend");
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
        place = vp_config_given(config, "batch_size") ? "batch_size"
                                                      : "seq_length";
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'batch_size' counts tokens here, and %lld "
                          "do not hold one sentence of seq_length %lld; raise "
                          "it",
                          vp_config_place(config, place),
                          (long long)config->batch_size,
                          (long long)config->seq_length);
    }
    VP_TRY(vp_resolve_check_model(config, &dims, err));
    VP_TRY(vp_resolve_pipeline(config, &dims, err));
    VP_TRY(check_scale(config, err));
    VP_TRY(check_texts(config, err));
    return check_data(config, err);
}

/* ---- Notices ------------------------------------------------------------ */

static enum vp_status notice(struct vp_config *config, const char *key,
                             const char *text, struct vp_err *err)
{
    char *line = vp_arena_printf(&config->arena, "%s: key '%s' %s",
                                 vp_config_place(config, key), key, text);

    if (!line)
        return no_memory(err);
    VP_BUG_ON(config->n_notices == VP_CONFIG_MAX_NOTICES);
    config->notices[config->n_notices++] = line;
    return VP_OK;
}

static bool has_two_bytes(const struct vp_config *config)
{
    return config->precision == VP_PRECISION_BF16 ||
           config->precision == VP_PRECISION_FP16;
}

/* What the original used, and a run in one process does not. */
static enum vp_status add_notices(struct vp_config *config, struct vp_err *err)
{
    bool alone = !vp_config_is_distributed(config);

    if (alone && !vp_hosts_are_here(config))
        VP_TRY(notice(config, "machines",
                      "names other hosts, but all ranks run in this process",
                      err));
    if (alone && config->container)
        VP_TRY(notice(config, "container",
                      "is not used: all ranks run in this process", err));
    if (alone && config->network_interface)
        VP_TRY(notice(config, "network_interface",
                      "has no effect: all ranks run in this process", err));
    if (config->compress_activations &&
        (config->stages == 1 || has_two_bytes(config)))
        VP_TRY(notice(config, "compress_activations",
                      config->stages == 1
                          ? "has no effect: there is one stage"
                          : "has no effect: values have two bytes already",
                      err));
    if (config->shard_optimizer && !config->replicas.n && !config->auto_keys)
        VP_TRY(notice(config, "shard_optimizer",
                      "has no effect: no stage has replicas", err));
    if (config->compress_in_gpu)
        VP_TRY(notice(config, "compress_in_gpu",
                      "has no effect: see compress_activations", err));
    if (config->schedule_file && config->schedule_file->is_saved)
        VP_TRY(notice(config, "schedule",
                      "names a file that is not there: the run goes on with "
                      "the copy in its checkpoint",
                      err));
    return VP_OK;
}

/* ---- Whole configurations ----------------------------------------------- */

/* /dev/stdin may be a file of a name that is not known. */
static bool is_piped(const char *path)
{
    return vp_path_is_special(path) || strncmp(path, "/dev/", 5) == 0 ||
           strncmp(path, "/proc/", 6) == 0;
}

static enum vp_status load(const struct vp_config_source *from,
                           struct vp_config *out, struct vp_err *err)
{
    const struct vp_yaml_node *root;
    struct given given = { 0 };

    VP_BUG_ON(vp_n_keys > MAX_KEYS);
    *out = (struct vp_config){ .saved_schedule = from->schedule,
                               .custom = from->custom };
    if (!vp_yaml_printable(from->path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "the name of the configuration file holds a line "
                          "break or control character; rename the file");
    out->path = vp_arena_strdup(&out->arena, from->path);
    if (!out->path)
        return no_memory(err);
    out->piped = !from->bytes && is_piped(from->path);
    if (from->bytes)
        VP_TRY(vp_yaml_parse(from->path, from->bytes, from->n_bytes,
                             &out->arena, &root, err));
    else
        VP_TRY(vp_yaml_read(from->path, &out->arena, &root, err));
    VP_TRY(collect_file(root, out, &given, err));
    for (int i = 0; i < from->n_sets; i++)
        VP_TRY(collect_set(from->sets[i], out, &given, err));
    VP_TRY(keep_sets(from, out, err));
    VP_TRY(vp_planned_keys_check(given.entry, err));
    VP_TRY(vp_planned_keys_take_auto(given.entry, from->planning, out, err));
    if (from->plan || from->unplanned)
        vp_planned_keys_drop(given.entry, from->plan != NULL);
    VP_TRY(keep_origins(&given, out, err));
    VP_TRY(apply(&given, from->plan, out, err));
    vp_config_set_precision(out, from->precision);
    derive_model(&given, out);
    derive_data(&given, out);
    VP_TRY(derive_vocab(&given, out, err));
    derive_verbose(out);
    derive_launching(out);
    VP_TRY(check_interface(out, err));
    VP_TRY(check(out, err));
    return add_notices(out, err);
}

/* Messages of other readers may quote what they found in a file. */
static enum vp_status keep_one_line(enum vp_status st, struct vp_err *err)
{
    if (st != VP_OK && err)
        for (char *c = err->text; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7F)
                *c = '?';
    return st;
}

enum vp_status vp_config_load_from(const struct vp_config_source *from,
                                   struct vp_config *out, struct vp_err *err)
{
    enum vp_status st = keep_one_line(load(from, out, err), err);

    out->saved_schedule = NULL;
    return st;
}

enum vp_status vp_config_load(const char *path, const char *const *sets,
                              int n_sets, struct vp_config *out,
                              struct vp_err *err)
{
    const struct vp_config_source from = { .path = path,
                                           .sets = sets,
                                           .n_sets = n_sets };

    return vp_config_load_from(&from, out, err);
}

enum vp_status vp_config_parse(const char *path, const char *bytes,
                               size_t n_bytes, const char *const *sets,
                               int n_sets, struct vp_config *out,
                               struct vp_err *err)
{
    const struct vp_config_source from = { .path = path,
                                           .bytes = bytes,
                                           .n_bytes = n_bytes,
                                           .sets = sets,
                                           .n_sets = n_sets };

    return vp_config_load_from(&from, out, err);
}
