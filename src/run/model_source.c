/* Opens trained models: decides what a path is, and gathers the keys of the
 * configuration that belong to the weights. */
#include "run/model_source.h"

#include "base/file.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "ckpt/search.h"
#include "config/init_folder.h"
#include "config/keys.h"
#include "config/load.h"
#include "hf/folder.h"
#include "run/checkpoint_facts.h"
#include "run/resume.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Exactly one of `ckpt`, `hf` and `run` is set. */
struct vp_model_source {
    struct vp_ckpt *ckpt;
    struct vp_hf_folder *hf;
    char run[PATH_MAX]; /* folder of a live run */
    struct vp_loader loader;
    char what[64];
    char place[PATH_MAX + 16]; /* file that `keys` come from, for messages */
    struct vp_strbuf keys;     /* keys of the configuration, as YAML */
};

/* ---- Opening ------------------------------------------------------------ */

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return (size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) <
               sizeof(path) &&
           access(path, F_OK) == 0;
}

/* Part of messages: the accepted kinds of paths. */
#define EXPECTED "the folder of a run, a checkpoint or a Hugging Face folder"

/* Says what `path` is, since it is not a model. */
static enum vp_status refuse(const char *path, struct vp_err *err)
{
    char remedy[VP_PATH_REMEDY_BYTES];
    struct stat info;

    if (stat(path, &info) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: there is no such folder; "
                          "%s",
                          path, vp_path_remedy(path, "name " EXPECTED, remedy));
    if (!S_ISDIR(info.st_mode))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is a file, not a model; name " EXPECTED, path);
    if (has_file(path, "config.yml"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is the folder of a run that saved no "
                          "checkpoint; train it again, with checkpoint_every "
                          "to save sooner",
                          path);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: is no model: it holds neither checkpoints nor "
                      "manifest.json nor config.json; name " EXPECTED,
                      path);
}

static enum vp_status open_ckpt(const char *path, vp_notice_fn warn, void *ctx,
                                struct vp_ckpt **out, struct vp_err *err)
{
    char folder[PATH_MAX];
    enum vp_status st;

    if (has_file(path, "manifest.json"))
        return vp_ckpt_open(path, out, err);
    if ((size_t)snprintf(folder, sizeof(folder), "%s%s", path,
                         has_file(path, "checkpoints") ? "/checkpoints" : "") >=
        sizeof(folder))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.80s...: path is too long; name " EXPECTED, path);
    st = vp_ckpt_open_newest(folder, warn, ctx, out, err);
    return st == VP_ERR_END ? refuse(path, err) : st;
}

static enum vp_status open_files(struct vp_model_source *source,
                                 const char *path, vp_notice_fn warn, void *ctx,
                                 struct vp_err *err)
{
    struct stat info;

    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return refuse(path, err);
    if (has_file(path, "config.json") && !has_file(path, "manifest.json")) {
        VP_TRY(vp_hf_open(path, &source->hf, err));
        return vp_hf_check_values(source->hf, err);
    }
    return open_ckpt(path, warn, ctx, &source->ckpt, err);
}

/* ---- Configuration ------------------------------------------------------ */

/* Returns true for keys that belong to the weights and their data. Keys about
 * how the weights were trained, or initialized, are left out. */
static bool is_wanted(const char *name)
{
    const struct vp_key *key = vp_key_find(name);

    return key && key->type != VP_KEY_INIT &&
           (strcmp(key->group, "model") == 0 ||
            strcmp(key->group, "data") == 0 ||
            strcmp(key->name, "precision") == 0);
}

/* Copies a configuration that vp_config_write() wrote, with one key per line.
 * Other lines become empty, so that line numbers stay the same. */
static void copy_keys(const char *text, struct vp_strbuf *out)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        char name[64];

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, ":\n"), text);
        if (is_wanted(name))
            vp_strbuf_add(out, text, n);
        vp_strbuf_add(out, "\n", 1);
        text += n + (text[n] == '\n');
    }
}

static enum vp_status read_config_file(struct vp_model_source *source,
                                       struct vp_err *err)
{
    size_t n_bytes;
    char *bytes;

    VP_TRY(vp_file_read(source->place, "YAML", &bytes, &n_bytes, err));
    copy_keys(bytes, &source->keys);
    free(bytes);
    return VP_OK;
}

static bool has_tokenizer(const char *folder)
{
    return has_file(folder, "tokenizer.json") ||
           has_file(folder, "vocab.txt") ||
           (has_file(folder, "vocab.json") && has_file(folder, "merges.txt"));
}

/* Takes the keys from the facts in the manifest. Imported weights may have
 * their tokenizer beside them. Paths are relative to the folder of the
 * manifest. */
static void read_facts(struct vp_model_source *source)
{
    char beside[PATH_MAX];
    json_t *config = json_object_get(
        vp_facts_object(vp_ckpt_facts(source->ckpt)), "config");
    const char *key;
    json_t *value;

    json_object_foreach(config, key,
                        value) if (is_wanted(key) && json_is_string(value))
        vp_strbuf_addf(&source->keys, "%s: %s\n", key,
                       json_string_value(value));
    snprintf(beside, sizeof(beside), "%s/../" VP_HUGGINGFACE_FOLDER,
             vp_ckpt_path(source->ckpt));
    if (has_tokenizer(beside))
        vp_strbuf_adds(&source->keys,
                       "tokenizer: ../" VP_HUGGINGFACE_FOLDER "\n");
}

/* Makes the keys for a Hugging Face folder. Paths are relative to the folder of
 * config.json. */
static void name_files(struct vp_model_source *source)
{
    const char *path = vp_hf_path(source->hf);

    snprintf(source->place, sizeof(source->place), "%s/config.json", path);
    vp_strbuf_addf(&source->keys, "model_type: %s\nconfig: config.json\n",
                   vp_hf_model(source->hf)->name);
    if (has_tokenizer(path))
        vp_strbuf_adds(&source->keys, "tokenizer: .\n");
}

static enum vp_status read_keys(struct vp_model_source *source,
                                struct vp_err *err)
{
    const char *path = vp_model_source_path(source);
    char run[PATH_MAX];

    if (source->hf) {
        name_files(source);
    } else if (vp_resume_folder(path, run, sizeof(run), NULL) == VP_OK) {
        snprintf(source->place, sizeof(source->place), "%s/config.yml", run);
        VP_TRY(read_config_file(source, err));
    } else {
        snprintf(source->place, sizeof(source->place), "%s/manifest.json",
                 path);
        read_facts(source);
    }
    return source->keys.failed
               ? vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path)
               : VP_OK;
}

enum vp_status vp_model_source_config(const struct vp_model_source *source,
                                      const char *const *sets, int n_sets,
                                      struct vp_config *out, struct vp_err *err)
{
    return vp_config_parse(source->place, vp_strbuf_text(&source->keys),
                           source->keys.n_bytes, sets, n_sets, out, err);
}

/* ---- All of it ---------------------------------------------------------- */

static enum vp_status load(void *ctx, const struct vp_state_item *item,
                           float *out, struct vp_err *err)
{
    const struct vp_model_source *source = ctx;

    if (source->hf)
        return vp_hf_read(source->hf, item->name, item->rows, item->cols,
                          item->transposed, out, err);
    return vp_checkpoint_load(source->ckpt, item, out, err);
}

enum vp_status vp_model_source_open(const char *path, vp_notice_fn warn,
                                    void *ctx, struct vp_model_source **out,
                                    struct vp_err *err)
{
    struct vp_model_source *source = calloc(1, sizeof(*source));
    enum vp_status st;

    if (!source)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    source->loader.ctx = source;
    source->loader.load = load;
    st = open_files(source, path, warn, ctx, err);
    if (st == VP_OK)
        st = read_keys(source, err);
    if (st != VP_OK) {
        vp_model_source_close(source);
        return st;
    }
    if (source->hf)
        snprintf(source->what, sizeof(source->what), "Hugging Face folder");
    else
        snprintf(source->what, sizeof(source->what), "checkpoint of step %lld",
                 (long long)vp_ckpt_step(source->ckpt));
    *out = source;
    return VP_OK;
}

enum vp_status vp_model_source_live(const char *run,
                                    const struct vp_loader *loader,
                                    struct vp_model_source **out,
                                    struct vp_err *err)
{
    struct vp_model_source *source = calloc(1, sizeof(*source));
    enum vp_status st;

    if (!source)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", run);
    source->loader = *loader;
    snprintf(source->run, sizeof(source->run), "%s", run);
    snprintf(source->what, sizeof(source->what), "run that trains");
    snprintf(source->place, sizeof(source->place), "%s/config.yml",
             source->run);
    st = read_config_file(source, err);
    if (st != VP_OK) {
        vp_model_source_close(source);
        return st;
    }
    *out = source;
    return VP_OK;
}

void vp_model_source_close(struct vp_model_source *source)
{
    if (!source)
        return;
    vp_ckpt_close(source->ckpt);
    vp_hf_close(source->hf);
    vp_strbuf_release(&source->keys);
    free(source);
}

const char *vp_model_source_what(const struct vp_model_source *source)
{
    return source->what;
}

uint64_t vp_model_source_checksum(const struct vp_model_source *source)
{
    struct vp_ckpt_id id = { .checksum = 0 };

    if (source->ckpt && vp_ckpt_identify(source->ckpt, &id, NULL) != VP_OK)
        return 0;
    return id.checksum;
}

const char *vp_model_source_path(const struct vp_model_source *source)
{
    if (source->run[0])
        return source->run;
    return source->hf ? vp_hf_path(source->hf) : vp_ckpt_path(source->ckpt);
}

/* The origin is in the run folder itself, beside an imported checkpoint, or in
 * the folder of the checkpoint's run. */
bool vp_model_source_origin(const struct vp_model_source *source, char *out)
{
    static const char *const places[] = { "/" VP_HUGGINGFACE_FOLDER,
                                          "/../" VP_HUGGINGFACE_FOLDER,
                                          "/../../" VP_HUGGINGFACE_FOLDER };
    const char *path = vp_model_source_path(source);

    if (source->hf)
        return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
    for (size_t i = 0; i < VP_COUNT_OF(places); i++)
        if (snprintf(out, PATH_MAX, "%s%s", path, places[i]) < PATH_MAX &&
            has_file(out, "config.json"))
            return true;
    return false;
}

const struct vp_loader *vp_model_source_loader(
    const struct vp_model_source *source)
{
    return &source->loader;
}
