/* Saves, copies and opens the origin of an imported model. */
#include "hf/origin.h"

#include "base/path.h"
#include "hf/json.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAYOUT_FILE "layout.json"
#define CARRIED_FILE "carried.safetensors"

enum { LAYOUT_VERSION = 1, MAX_LAYOUT_BYTES = 64 << 20 };

static const char *const config_files[] = { "config.json",
                                            "generation_config.json" };

/* All files from which tokenizers of the supported models are loaded. */
static const char *const tokenizer_files[] = {
    "tokenizer.json",    "tokenizer_config.json",
    "added_tokens.json", "special_tokens_map.json",
    "vocab.txt",         "vocab.json",
    "merges.txt",        "sentencepiece.bpe.model",
    "spiece.model",      "chat_template.jinja",
};

static const char *const own_files[] = { LAYOUT_FILE, CARRIED_FILE };

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "Hugging Face folder: out of memory");
}

static enum vp_status join(const char *folder, const char *name,
                           char out[PATH_MAX], struct vp_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                      folder);
}

/* ---- Copying files ------------------------------------------------------ */

static enum vp_status copy_stream(FILE *in, FILE *out, const char *from,
                                  const char *to, struct vp_err *err)
{
    char buffer[1 << 16];
    size_t n;

    while ((n = fread(buffer, 1, sizeof(buffer), in)) > 0)
        if (fwrite(buffer, 1, n, out) != n)
            return vp_err_write(err, to, errno);
    if (ferror(in))
        return vp_err_set(err, VP_ERR_IO, "%.3000s: cannot be read", from);
    return VP_OK;
}

static enum vp_status copy_file(const char *from, const char *to,
                                struct vp_err *err)
{
    FILE *in = vp_path_is_special(from) ? NULL : fopen(from, "rb");
    FILE *out;
    enum vp_status st;

    if (!in)
        return vp_err_set(err, VP_ERR_IO, "%.3000s: cannot be opened (%s)",
                          from, strerror(errno));
    out = vp_path_create(to, false);
    if (!out) {
        int error = errno;

        fclose(in);
        return vp_err_write(err, to, error);
    }
    st = copy_stream(in, out, from, to, err);
    fclose(in);
    if (fclose(out) != 0 && st == VP_OK)
        st = vp_err_write(err, to, errno);
    return st;
}

/* Copies those of `names` that are files in `from`. */
static enum vp_status copy_files(const char *from, const char *to,
                                 const char *const *names, size_t n_names,
                                 int *n_out, struct vp_err *err)
{
    char source[PATH_MAX], target[PATH_MAX];
    struct stat info;

    for (size_t i = 0; i < n_names; i++) {
        VP_TRY(join(from, names[i], source, err));
        VP_TRY(join(to, names[i], target, err));
        if (stat(source, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        VP_TRY(copy_file(source, target, err));
        if (n_out)
            ++*n_out;
    }
    return VP_OK;
}

enum vp_status vp_hf_copy_tokenizer(const char *from, const char *to,
                                    int *n_out, struct vp_err *err)
{
    *n_out = 0;
    return copy_files(from, to, tokenizer_files, VP_COUNT_OF(tokenizer_files),
                      n_out, err);
}

enum vp_status vp_hf_copy_config(const char *from, const char *to,
                                 struct vp_err *err)
{
    return copy_files(from, to, config_files, VP_COUNT_OF(config_files), NULL,
                      err);
}

static enum vp_status make_folder(const char *path, struct vp_err *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return VP_OK;
    return vp_err_write(err, path, errno);
}

enum vp_status vp_hf_origin_copy(const char *from, const char *to,
                                 struct vp_err *err)
{
    int n;

    VP_TRY(make_folder(to, err));
    VP_TRY(copy_files(from, to, own_files, VP_COUNT_OF(own_files), NULL, err));
    VP_TRY(vp_hf_copy_config(from, to, err));
    return vp_hf_copy_tokenizer(from, to, &n, err);
}

/* ---- Saving ------------------------------------------------------------- */

static bool is_kept(const struct vp_hf_tensor *tensor)
{
    return tensor->kind != VP_HF_BUFFER;
}

/* Returns true if tensor `i` is a further copy of a tied parameter, which an
 * export writes only once. The first copy stands for the parameter if the
 * folder does not have it under its own name. */
static bool is_double(const struct vp_hf_folder *folder, int i)
{
    const struct vp_hf_tensor *t = vp_hf_tensor(folder, i);

    return t->kind == VP_HF_TIED && i > 0 &&
           strcmp(vp_hf_tensor(folder, i - 1)->name, t->name) == 0;
}

static json_t *describe_shard(const struct vp_hf_folder *folder, int shard)
{
    const struct vp_st_header *header = vp_hf_shard_header(folder, shard);
    json_t *tensors = json_object(), *meta = json_object();

    for (int i = 0; i < vp_hf_n_tensors(folder); i++) {
        const struct vp_hf_tensor *t = vp_hf_tensor(folder, i);

        if (t->shard == shard && is_kept(t) && !is_double(folder, i))
            json_object_set_new(tensors, t->name,
                                json_string(vp_st_type_name(t->stored->type)));
    }
    for (int i = 0; i < header->n_meta; i++)
        json_object_set_new(meta, header->meta[i].key,
                            json_string(header->meta[i].value));
    return json_pack("{s:s, s:o, s:o}", "file", vp_hf_shard_name(folder, shard),
                     "metadata", meta, "tensors", tensors);
}

static enum vp_status save_layout(const struct vp_hf_folder *folder,
                                  const char *path, struct vp_err *err)
{
    char file[PATH_MAX];
    json_t *shards = json_array(), *root;
    int rc;

    VP_TRY(join(path, LAYOUT_FILE, file, err));
    for (int s = 0; s < vp_hf_n_shards(folder); s++)
        json_array_append_new(shards, describe_shard(folder, s));
    root = json_pack("{s:i, s:s, s:o}", "version", LAYOUT_VERSION,
                     "architecture", vp_hf_arch_name(vp_hf_arch(folder)),
                     "shards", shards);
    if (!root)
        return no_memory(err);
    rc = json_dump_file(root, file, JSON_INDENT(1));
    json_decref(root);
    return rc == 0 ? VP_OK : vp_err_write(err, file, errno);
}

struct carrying {
    const struct vp_hf_folder *folder;
    int *numbers; /* indices of the carried tensors in the folder */
    void *buffer;
};

/* vp_st_data_fn: reads carried tensor `i`. */
static enum vp_status read_carried(void *ctx, int i, const void **data_out,
                                   struct vp_err *err)
{
    struct carrying *c = ctx;

    *data_out = c->buffer;
    return vp_hf_read_raw(c->folder, vp_hf_tensor(c->folder, c->numbers[i]),
                          c->buffer, err);
}

static enum vp_status save_carried(const struct vp_hf_folder *folder,
                                   const char *path, struct vp_err *err)
{
    size_t n_all = (size_t)vp_hf_n_tensors(folder);
    struct vp_st_tensor *tensors = calloc(n_all, sizeof(*tensors));
    struct carrying c = { folder, calloc(n_all, sizeof(*c.numbers)), NULL };
    enum vp_status st = VP_OK;
    int64_t most = 1;
    char file[PATH_MAX];
    int n = 0;

    for (int i = 0; tensors && c.numbers && i < vp_hf_n_tensors(folder); i++) {
        const struct vp_hf_tensor *t = vp_hf_tensor(folder, i);

        if (t->kind != VP_HF_CARRIED)
            continue;
        tensors[n] = *t->stored;
        tensors[n].name = t->name;
        c.numbers[n++] = i;
        most = t->stored->n_bytes > most ? t->stored->n_bytes : most;
    }
    c.buffer = n > 0 ? malloc((size_t)most) : NULL;
    if (!tensors || !c.numbers || (n > 0 && !c.buffer))
        st = no_memory(err);
    if (st == VP_OK && n > 0)
        st = join(path, CARRIED_FILE, file, err);
    if (st == VP_OK && n > 0)
        st = vp_st_write_each(file, tensors, n, NULL, 0, read_carried, &c, err);
    free(c.buffer);
    free(c.numbers);
    free(tensors);
    return st;
}

enum vp_status vp_hf_origin_save(const struct vp_hf_folder *folder,
                                 const char *path, struct vp_err *err)
{
    int n;

    VP_TRY(make_folder(path, err));
    VP_TRY(save_carried(folder, path, err));
    VP_TRY(vp_hf_copy_config(vp_hf_path(folder), path, err));
    VP_TRY(vp_hf_copy_tokenizer(vp_hf_path(folder), path, &n, err));
    return save_layout(folder, path, err);
}

/* ---- Notes -------------------------------------------------------------- */

/* Number of tensors of a kind, and the first as an example. */
struct tally {
    int n;
    const struct vp_hf_tensor *first;
};

static void count(struct tally *tally, const struct vp_hf_tensor *tensor)
{
    if (tally->n++ == 0)
        tally->first = tensor;
}

void vp_hf_origin_tell(const struct vp_hf_folder *folder, vp_hf_note_fn note,
                       void *ctx)
{
    struct tally old = { 0 }, doubled = { 0 }, buffers = { 0 }, carried = { 0 };
    struct vp_err line;

    for (int i = 0; i < vp_hf_n_tensors(folder); i++) {
        const struct vp_hf_tensor *t = vp_hf_tensor(folder, i);

        if (is_double(folder, i))
            count(&doubled, t);
        else if (t->kind == VP_HF_BUFFER)
            count(&buffers, t);
        else if (strcmp(t->name, t->stored->name) != 0)
            count(&old, t);
        if (t->kind == VP_HF_CARRIED)
            count(&carried, t);
    }
    if (old.n > 0) {
        vp_err_set(&line, VP_OK,
                   "tensors with old names: %d; an export writes %.200s as "
                   "%.200s",
                   old.n, old.first->stored->name, old.first->name);
        note(ctx, line.text);
    }
    if (buffers.n > 0) {
        vp_err_set(
            &line, VP_OK,
            "buffers dropped: %d, such as %.200s; the configuration gives "
            "their values",
            buffers.n, buffers.first->stored->name);
        note(ctx, line.text);
    }
    if (doubled.n > 0) {
        vp_err_set(
            &line, VP_OK,
            "tied tensors written once: %d, such as %.200s, which equals "
            "%.200s",
            doubled.n, doubled.first->stored->name, doubled.first->name);
        note(ctx, line.text);
    }
    if (carried.n > 0) {
        vp_err_set(
            &line, VP_OK,
            "tensors that are not trained: %d, such as %.200s; an export "
            "writes them as they are",
            carried.n, carried.first->stored->name);
        note(ctx, line.text);
    }
}

/* ---- Opening ------------------------------------------------------------ */

static bool find_type(const char *name, enum vp_st_type *out)
{
    for (int i = 0; name && i < VP_ST_COUNT; i++) {
        *out = (enum vp_st_type)i;
        if (strcmp(vp_st_type_name(*out), name) == 0)
            return true;
    }
    return false;
}

static enum vp_status refuse_layout(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "is damaged; import the model again");
}

static enum vp_status read_shard(const json_t *from, struct vp_arena *arena,
                                 struct vp_hf_layout_shard *out,
                                 struct vp_err *err)
{
    json_t *tensors = json_object_get(from, "tensors");
    json_t *meta = json_object_get(from, "metadata");
    const char *file = json_string_value(json_object_get(from, "file"));
    const char *key;
    json_t *value;

    if (!file || !json_is_object(tensors) || !json_is_object(meta) ||
        strchr(file, '/') || file[0] == '.')
        return refuse_layout(err);
    out->file = vp_arena_strdup(arena, file);
    out->tensors = vp_arena_alloc(arena, (json_object_size(tensors) + 1) *
                                             sizeof(*out->tensors));
    out->meta = vp_arena_alloc(arena, (json_object_size(meta) + 1) *
                                          sizeof(*out->meta));
    if (!out->file || !out->tensors || !out->meta)
        return no_memory(err);
    json_object_foreach(tensors, key, value)
    {
        struct vp_hf_layout_tensor *t = &out->tensors[out->n_tensors++];

        if (!find_type(json_string_value(value), &t->type))
            return refuse_layout(err);
        t->name = vp_arena_strdup(arena, key);
        if (!t->name)
            return no_memory(err);
    }
    json_object_foreach(meta, key, value)
    {
        struct vp_st_meta *m = &out->meta[out->n_meta++];

        if (!json_is_string(value))
            return refuse_layout(err);
        m->key = vp_arena_strdup(arena, key);
        m->value = vp_arena_strdup(arena, json_string_value(value));
        if (!m->key || !m->value)
            return no_memory(err);
    }
    return VP_OK;
}

static enum vp_status read_layout(const json_t *root,
                                  struct vp_hf_origin *origin,
                                  struct vp_err *err)
{
    const json_t *shards = json_object_get(root, "shards");
    const char *arch = json_string_value(json_object_get(root, "architecture"));
    size_t n = json_array_size(shards);

    if (json_integer_value(json_object_get(root, "version")) != LAYOUT_VERSION)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "has another version; import the model again");
    if (!arch || n == 0)
        return refuse_layout(err);
    origin->arch = vp_arena_strdup(&origin->arena, arch);
    origin->shards = vp_arena_alloc(&origin->arena,
                                    n * sizeof(*origin->shards));
    if (!origin->arch || !origin->shards)
        return no_memory(err);
    for (; origin->n_shards < (int)n; origin->n_shards++)
        VP_TRY(read_shard(json_array_get(shards, (size_t)origin->n_shards),
                          &origin->arena, &origin->shards[origin->n_shards],
                          err));
    return VP_OK;
}

static enum vp_status open_origin(struct vp_hf_origin *origin,
                                  struct vp_err *err)
{
    const struct vp_model *model;
    struct vp_model_config config;
    char file[PATH_MAX];
    json_t *root = NULL;
    enum vp_status st;

    VP_TRY(join(origin->path, LAYOUT_FILE, file, err));
    if (access(file, F_OK) != 0)
        return VP_ERR_END;
    VP_TRY(vp_hf_json_read(file, MAX_LAYOUT_BYTES, &root, err));
    st = read_layout(root, origin, err);
    json_decref(root);
    if (st != VP_OK) {
        vp_err_prefix(err, "%.3000s", file);
        return st;
    }
    VP_TRY(join(origin->path, "config.json", file, err));
    VP_TRY(vp_model_read_json(file, &model, &config, err));
    origin->tied = config.tie_embeddings;
    VP_TRY(join(origin->path, CARRIED_FILE, file, err));
    if (access(file, F_OK) != 0)
        return VP_OK;
    return vp_st_open(file, NULL, &origin->carried, err);
}

enum vp_status vp_hf_origin_open(const char *path, struct vp_hf_origin **out,
                                 struct vp_err *err)
{
    struct vp_hf_origin *origin = calloc(1, sizeof(*origin));
    enum vp_status st;

    if (!origin)
        return no_memory(err);
    origin->path = vp_arena_strdup(&origin->arena, path);
    st = origin->path ? open_origin(origin, err) : no_memory(err);
    if (st != VP_OK) {
        vp_hf_origin_close(origin);
        return st;
    }
    *out = origin;
    return VP_OK;
}

void vp_hf_origin_close(struct vp_hf_origin *origin)
{
    if (!origin)
        return;
    vp_st_close(origin->carried);
    vp_arena_release(&origin->arena);
    free(origin);
}
