/* Writes the files of an export: tensors, index, tokenizer, configuration. */
#include "hf/write.h"

#include "base/dtype.h"
#include "ckpt/store.h"
#include "hf/json.h"
#include "hf/tokenizer_files.h"
#include "hf/write_plan.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "export: out of memory");
}

static enum vp_status write_text(const char *folder, const char *name,
                                 const char *text, struct vp_err *err)
{
    char path[PATH_MAX];
    FILE *file;
    bool ok;

    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= PATH_MAX)
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          folder);
    file = fopen(path, "wb");
    ok = file && fputs(text, file) >= 0 && fputc('\n', file) != EOF;
    if (file && fclose(file) != 0)
        ok = false;
    return ok ? VP_OK : vp_err_write(err, path, errno);
}

/* ---- Tensors ------------------------------------------------------------ */

/* A file being written, and buffers for one tensor. */
struct stream {
    const struct vp_hf_write *with;
    const struct vp_hf_file *file;
    float *values;
    void *bytes; /* 16-bit values, or a carried tensor as it is stored */
};

static enum vp_dtype dtype_of(enum vp_st_type type)
{
    return type == VP_ST_F16 ? VP_DTYPE_F16 : VP_DTYPE_BF16;
}

/* Converts floats to the 16-bit type of the tensor. Refuses weights beyond the
 * range of F16, which would become infinite. */
static enum vp_status round_values(const struct stream *s,
                                   const struct vp_st_tensor *tensor, int64_t n,
                                   struct vp_err *err)
{
    const float most = tensor->type == VP_ST_F16 ? 65504.0f : INFINITY;

    for (int64_t i = 0; i < n; i++)
        if (fabsf(s->values[i]) > most)
            return vp_err_set(err, VP_ERR_INVALID,
                              "tensor %.200s holds %g, which is beyond the "
                              "range of F16; use --dtype bf16 or f32",
                              tensor->name, (double)s->values[i]);
    vp_dtype_round(dtype_of(tensor->type), s->bytes, s->values, n);
    return VP_OK;
}

/* Reads a carried tensor to s->bytes if its type stays the same, otherwise as
 * floats to s->values. */
static enum vp_status load_carried(const struct stream *s,
                                   const struct vp_st_tensor *carried,
                                   const struct vp_st_tensor *tensor, int64_t n,
                                   struct vp_err *err)
{
    const struct vp_st_file *file = s->with->origin->carried;

    if (carried->type == tensor->type)
        return vp_st_read(file, carried, s->bytes, err);
    if (carried->type == VP_ST_F32)
        return vp_st_read(file, carried, s->values, err);
    VP_TRY(vp_st_read(file, carried, s->bytes, err));
    vp_dtype_expand(dtype_of(carried->type), s->values, s->bytes, n);
    return VP_OK;
}

/* vp_st_data_fn: makes the bytes of tensor `i` of the file. */
static enum vp_status make_tensor(void *ctx, int i, const void **data_out,
                                  struct vp_err *err)
{
    const struct stream *s = ctx;
    const struct vp_hf_item *item = &s->file->items[i];
    const struct vp_st_tensor *tensor = &s->file->tensors[i];
    int64_t n = tensor->n_bytes / vp_st_type_bytes(tensor->type);
    bool same = item->carried && item->carried->type == tensor->type;

    if (item->param)
        VP_TRY(s->with->read(s->with->read_ctx, item->param, s->values, err));
    else if (item->carried)
        VP_TRY(load_carried(s, item->carried, tensor, n, err));
    else
        memset(s->values, 0, (size_t)n * sizeof(*s->values));
    *data_out = s->bytes;
    if (same)
        return VP_OK;
    if (tensor->type != VP_ST_F32)
        return round_values(s, tensor, n, err);
    *data_out = s->values;
    return VP_OK;
}

/* Allocates buffers for the largest tensor, as floats and as it is written. */
static enum vp_status make_buffers(const struct vp_hf_plan *plan,
                                   struct stream *s, struct vp_err *err)
{
    int64_t n_values = 1, n_bytes = 1;

    for (int f = 0; f < plan->n_files; f++) {
        for (int i = 0; i < plan->files[f].n; i++) {
            const struct vp_st_tensor *t = &plan->files[f].tensors[i];
            const struct vp_st_tensor *c = plan->files[f].items[i].carried;
            int64_t n = t->n_bytes / vp_st_type_bytes(t->type);

            if ((!c || c->type != t->type) && n > n_values)
                n_values = n;
            if ((c || t->type != VP_ST_F32) && t->n_bytes > n_bytes)
                n_bytes = t->n_bytes;
            if (c && c->n_bytes > n_bytes)
                n_bytes = c->n_bytes;
        }
    }
    s->values = malloc((size_t)n_values * sizeof(*s->values));
    s->bytes = malloc((size_t)n_bytes);
    return s->values && s->bytes ? VP_OK : no_memory(err);
}

static enum vp_status write_file(const char *folder, struct stream *s,
                                 const struct vp_hf_file *file,
                                 struct vp_err *err)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", folder, file->name) >= PATH_MAX)
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          folder);
    s->file = file;
    return vp_st_write_each(path, file->tensors, file->n, file->meta,
                            file->n_meta, make_tensor, s, err);
}

static int64_t total_bytes(const struct vp_hf_plan *plan)
{
    int64_t sum = 0;

    for (int f = 0; f < plan->n_files; f++)
        for (int i = 0; i < plan->files[f].n; i++)
            sum += plan->files[f].tensors[i].n_bytes;
    return sum;
}

static enum vp_status write_tensors(const char *path,
                                    const struct vp_hf_plan *plan,
                                    const struct vp_hf_write *with,
                                    struct vp_err *err)
{
    struct stream s = { .with = with };
    enum vp_status st;

    VP_TRY(vp_ckpt_space(
        path, vp_ckpt_disk_bytes(total_bytes(plan), plan->n_files), err));
    st = make_buffers(plan, &s, err);
    for (int f = 0; f < plan->n_files && st == VP_OK; f++)
        st = write_file(path, &s, &plan->files[f], err);
    free(s.bytes);
    free(s.values);
    return st;
}

/* ---- JSON --------------------------------------------------------------- */

static enum vp_status write_json(const char *folder, const char *name,
                                 json_t *root, struct vp_err *err)
{
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    enum vp_status st = text ? write_text(folder, name, text, err)
                             : no_memory(err);

    free(text);
    return st;
}

static enum vp_status write_index(const char *path,
                                  const struct vp_hf_plan *plan,
                                  struct vp_err *err)
{
    json_t *map = json_object(), *root;
    json_int_t n_params = 0;
    enum vp_status st;
    char *text;

    for (int f = 0; f < plan->n_files; f++) {
        for (int i = 0; i < plan->files[f].n; i++) {
            const struct vp_st_tensor *t = &plan->files[f].tensors[i];

            n_params += t->n_bytes / vp_st_type_bytes(t->type);
            json_object_set_new(map, t->name, json_string(plan->files[f].name));
        }
    }
    root = json_pack("{s:{s:I, s:I}, s:o}", "metadata", "total_parameters",
                     n_params, "total_size", (json_int_t)total_bytes(plan),
                     "weight_map", map);
    text = root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    st = text ? write_text(path, "model.safetensors.index.json", text, err)
              : no_memory(err);
    free(text);
    json_decref(root);
    return st;
}

static const char *dtype_name(enum vp_st_type type)
{
    return type == VP_ST_F16    ? "float16"
           : type == VP_ST_BF16 ? "bfloat16"
                                : "float32";
}

/* Copies config.json of the origin; changes it only if another type is
 * requested or if tie_embeddings differs. */
static enum vp_status copy_config(const char *path,
                                  const struct vp_hf_write *with,
                                  struct vp_err *err)
{
    char file[PATH_MAX];
    json_t *root = NULL;
    enum vp_status st;

    VP_TRY(vp_hf_copy_config(with->origin->path, path, err));
    if (with->type == VP_ST_COUNT &&
        with->origin->tied == with->config->tie_embeddings)
        return VP_OK;
    if (snprintf(file, sizeof(file), "%s/config.json", with->origin->path) >=
        PATH_MAX)
        return vp_err_set(err, VP_ERR_INVALID, "path is too long");
    VP_TRY(vp_hf_json_read(file, 1 << 20, &root, err));
    if (with->type != VP_ST_COUNT) {
        json_object_del(root, "torch_dtype");
        json_object_set_new(root, "dtype", json_string(dtype_name(with->type)));
    }
    json_object_set_new(root, "tie_word_embeddings",
                        json_boolean(with->config->tie_embeddings));
    st = write_json(path, "config.json", root, err);
    json_decref(root);
    return st;
}

static json_t *id_value(int32_t id)
{
    return id >= 0 ? json_integer(id) : json_null();
}

static enum vp_status make_generation(const char *path,
                                      const struct vp_hf_write *with,
                                      struct vp_err *err)
{
    json_t *root;
    enum vp_status st;

    if (with->model->task == VP_TASK_MASKED_LM)
        return VP_OK;
    root = json_pack("{s:b, s:o, s:o}", "_from_model_config", 1, "bos_token_id",
                     id_value(with->ids.begin), "eos_token_id",
                     id_value(with->ids.end));
    if (with->model->task == VP_TASK_TRANSLATION) {
        json_object_set_new(root, "pad_token_id",
                            json_integer(with->config->pad));
        json_object_set_new(root, "decoder_start_token_id",
                            id_value(with->ids.start));
    }
    st = root ? write_json(path, "generation_config.json", root, err)
              : no_memory(err);
    json_decref(root);
    return st;
}

static enum vp_status make_config(const char *path,
                                  const struct vp_hf_plan *plan,
                                  const struct vp_hf_write *with,
                                  struct vp_err *err)
{
    enum vp_status st;
    char *text = NULL;

    VP_TRY(make_generation(path, with, err));
    if (vp_model_format_json(with->model, with->config, &with->ids,
                             vp_hf_arch_name(plan->arch),
                             dtype_name(with->type), &text) != VP_OK)
        return no_memory(err);
    st = write_text(path, "config.json", text, err);
    free(text);
    return st;
}

/* ---- All of it ---------------------------------------------------------- */

static void note(const struct vp_hf_write *with, const char *line)
{
    if (with->note)
        with->note(with->note_ctx, line);
}

/* Refuses another epsilon than 1e-5 for M2M100, which has no key for it. */
static enum vp_status check_model(const struct vp_hf_write *with,
                                  struct vp_err *err)
{
    if (with->model->task != VP_TASK_TRANSLATION || with->config->eps == 1e-5f)
        return VP_OK;
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "norm_eps is %g; M2M100ForConditionalGeneration has "
                      "1e-05",
                      (double)with->config->eps);
}

static enum vp_status write_tokenizer(const char *path,
                                      const struct vp_hf_write *with,
                                      struct vp_err *err)
{
    int n = 0;

    VP_TRY(vp_hf_tokenizer_files(path, with, &n, err));
    if (n == 0)
        note(with, "no tokenizer is written: the model has no Hugging Face "
                   "tokenizer files to copy");
    return VP_OK;
}

static void note_stale(const struct vp_hf_write *with)
{
    const struct vp_st_header *header;
    struct vp_err line;

    if (!with->trained || !with->origin || !with->origin->carried)
        return;
    header = vp_st_header(with->origin->carried);
    vp_err_set(
        &line, VP_OK,
        "stale tensors: %d, such as %.200s; they are those of the imported "
        "folder, and were not trained with the others",
        header->n_tensors, header->by_name[0]->name);
    note(with, line.text);
}

enum vp_status vp_hf_write(const char *path, const struct vp_hf_write *with,
                           struct vp_err *err)
{
    struct vp_hf_plan plan;
    enum vp_status st;

    VP_TRY(check_model(with, err));
    VP_TRY(vp_hf_plan_make(with, &plan, err));
    st = write_tensors(path, &plan, with, err);
    if (st == VP_OK && plan.n_files > 1)
        st = write_index(path, &plan, err);
    if (st == VP_OK)
        st = write_tokenizer(path, with, err);
    if (st == VP_OK)
        st = with->origin ? copy_config(path, with, err)
                          : make_config(path, &plan, with, err);
    vp_hf_plan_release(&plan);
    if (st == VP_OK)
        note_stale(with);
    return st;
}
