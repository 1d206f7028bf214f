/* Parser of safetensors headers; checks every rule of the format.
 * https://huggingface.co/docs/safetensors: "Format". */
#include "ckpt/safetensors.h"
#include "ckpt/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limit of the Python package. */
static const int64_t max_json_bytes = 100000000;

/* ---- Types -------------------------------------------------------------- */

static const struct {
    const char *name;
    int n_bytes;
} types[VP_ST_COUNT] = {
    [VP_ST_BOOL] = { "BOOL", 1 }, [VP_ST_U8] = { "U8", 1 },
    [VP_ST_I8] = { "I8", 1 },     [VP_ST_I16] = { "I16", 2 },
    [VP_ST_U16] = { "U16", 2 },   [VP_ST_F16] = { "F16", 2 },
    [VP_ST_BF16] = { "BF16", 2 }, [VP_ST_I32] = { "I32", 4 },
    [VP_ST_U32] = { "U32", 4 },   [VP_ST_F32] = { "F32", 4 },
    [VP_ST_F64] = { "F64", 8 },   [VP_ST_I64] = { "I64", 8 },
    [VP_ST_U64] = { "U64", 8 },
};

const char *vp_st_type_name(enum vp_st_type type)
{
    VP_BUG_ON((size_t)type >= VP_ST_COUNT);
    return types[type].name;
}

int vp_st_type_bytes(enum vp_st_type type)
{
    VP_BUG_ON((size_t)type >= VP_ST_COUNT);
    return types[type].n_bytes;
}

void vp_st_describe(const struct vp_st_tensor *tensor, char *text,
                    size_t n_text)
{
    size_t n = 0;

    n += (size_t)snprintf(text, n_text, "%s [", vp_st_type_name(tensor->type));
    for (int i = 0; i < tensor->n_dims && n < n_text; i++)
        n += (size_t)snprintf(text + n, n_text - n, "%s%lld", i ? ", " : "",
                              (long long)tensor->dims[i]);
    if (n < n_text)
        snprintf(text + n, n_text - n, "]");
}

/* ---- One tensor --------------------------------------------------------- */

static enum vp_status read_type(const json_t *info, struct vp_st_tensor *tensor,
                                struct vp_err *err)
{
    const char *name = json_string_value(json_object_get(info, "dtype"));

    if (!name)
        return vp_err_set(err, VP_ERR_INVALID,
                          "dtype is missing or not a string");
    for (int i = 0; i < VP_ST_COUNT; i++) {
        if (strcmp(types[i].name, name) == 0) {
            tensor->type = (enum vp_st_type)i;
            return VP_OK;
        }
    }
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "dtype %.20s is not supported; convert it to F32", name);
}

/* Sets dims and n_bytes. */
static enum vp_status read_shape(const json_t *info,
                                 struct vp_st_tensor *tensor,
                                 struct vp_err *err)
{
    const json_t *shape = json_object_get(info, "shape");
    size_t n = json_array_size(shape);

    if (!json_is_array(shape))
        return vp_err_set(err, VP_ERR_INVALID,
                          "shape is missing or not a list");
    if (n > VP_ST_MAX_DIMS)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "shape has %zu dimensions; at most %d are supported",
                          n, VP_ST_MAX_DIMS);
    tensor->n_dims = (int)n;
    tensor->n_bytes = types[tensor->type].n_bytes;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);

        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "shape holds values that are not sizes");
        tensor->dims[i] = json_integer_value(dim);
        if (!vp_mul_i64(tensor->n_bytes, tensor->dims[i], &tensor->n_bytes))
            return vp_err_set(err, VP_ERR_INVALID,
                              "shape needs more than 2^63 bytes");
    }
    return VP_OK;
}

static enum vp_status read_offsets(const json_t *info, int64_t data_start,
                                   int64_t file_bytes,
                                   struct vp_st_tensor *tensor,
                                   struct vp_err *err)
{
    const json_t *pair = json_object_get(info, "data_offsets");
    const json_t *first = json_array_get(pair, 0);
    const json_t *second = json_array_get(pair, 1);
    int64_t begin, end;

    if (json_array_size(pair) != 2 || !json_is_integer(first) ||
        !json_is_integer(second))
        return vp_err_set(err, VP_ERR_INVALID,
                          "data_offsets are not two whole numbers");
    begin = json_integer_value(first);
    end = json_integer_value(second);
    if (begin < 0 || end < begin || end > file_bytes - data_start)
        return vp_err_set(
            err, VP_ERR_INVALID,
            "data_offsets [%lld, %lld] are outside the %lld bytes "
            "of data; the file is cut short or damaged",
            (long long)begin, (long long)end,
            (long long)(file_bytes - data_start));
    if (end - begin != tensor->n_bytes)
        return vp_err_set(err, VP_ERR_INVALID,
                          "data_offsets [%lld, %lld] hold %lld bytes, but the "
                          "shape needs %lld",
                          (long long)begin, (long long)end,
                          (long long)(end - begin), (long long)tensor->n_bytes);
    tensor->offset = data_start + begin;
    if (tensor->offset % types[tensor->type].n_bytes != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "its data starts at byte %lld, which is not a "
                          "multiple of its number size %d",
                          (long long)tensor->offset,
                          types[tensor->type].n_bytes);
    return VP_OK;
}

static enum vp_status read_tensor(const char *name, const json_t *info,
                                  int64_t data_start, int64_t file_bytes,
                                  struct vp_st_header *header,
                                  struct vp_err *err)
{
    struct vp_st_tensor tensor = { .name = NULL };

    if (!name[0])
        return vp_err_set(err, VP_ERR_INVALID, "has no name");
    if (!json_is_object(info))
        return vp_err_set(err, VP_ERR_INVALID, "is not described by an object");
    VP_TRY(read_type(info, &tensor, err));
    VP_TRY(read_shape(info, &tensor, err));
    VP_TRY(read_offsets(info, data_start, file_bytes, &tensor, err));
    if (json_object_size(info) != 3)
        return vp_err_set(err, VP_ERR_INVALID,
                          "has keys besides dtype, shape and data_offsets");
    tensor.name = vp_arena_strdup(&header->arena, name);
    if (!tensor.name)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    header->tensors[header->n_tensors++] = tensor;
    return VP_OK;
}

/* ---- The whole ---------------------------------------------------------- */

static enum vp_status read_meta(const json_t *meta, struct vp_st_header *header,
                                struct vp_err *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(meta))
        return vp_err_set(err, VP_ERR_INVALID, "__metadata__ is not an object");
    header->meta = vp_arena_alloc(&header->arena, json_object_size(meta) *
                                                      sizeof(*header->meta));
    if (!header->meta)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    json_object_foreach((json_t *)meta, key, value)
    {
        struct vp_st_meta *m = &header->meta[header->n_meta];

        if (!json_is_string(value))
            return vp_err_set(err, VP_ERR_INVALID,
                              "__metadata__: %.200s is not a string", key);
        m->key = vp_arena_strdup(&header->arena, key);
        m->value = vp_arena_strdup(&header->arena, json_string_value(value));
        if (!m->key || !m->value)
            return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
        header->n_meta++;
    }
    return VP_OK;
}

static int compare_place(const void *a, const void *b)
{
    const struct vp_st_tensor *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

static int compare_name(const void *a, const void *b)
{
    const struct vp_st_tensor *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* Checks that the tensors cover every byte of the data exactly once. */
static enum vp_status check_cover(const struct vp_st_header *header,
                                  int64_t data_start, int64_t file_bytes,
                                  struct vp_err *err)
{
    int64_t at = data_start;

    for (int i = 0; i < header->n_tensors; i++) {
        const struct vp_st_tensor *t = &header->tensors[i];

        if (t->offset < at)
            return vp_err_set(err, VP_ERR_INVALID,
                              "tensor %.200s: its data overlaps that of %.200s",
                              t->name, t[-1].name);
        if (t->offset > at)
            return vp_err_set(err, VP_ERR_INVALID,
                              "tensor %.200s: a gap of %lld bytes before it",
                              t->name, (long long)(t->offset - at));
        at += t->n_bytes;
    }
    if (at != file_bytes)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%lld bytes after the last tensor belong to no "
                          "tensor",
                          (long long)(file_bytes - at));
    return VP_OK;
}

static enum vp_status read_all(const json_t *root, int64_t data_start,
                               int64_t file_bytes, struct vp_st_header *header,
                               struct vp_err *err)
{
    size_t n = json_object_size(root);
    const char *name;
    json_t *info;

    header->tensors = vp_arena_alloc(&header->arena,
                                     n * sizeof(*header->tensors));
    header->by_name = vp_arena_alloc(&header->arena,
                                     n * sizeof(struct vp_st_tensor *));
    if (!header->tensors || !header->by_name)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    json_object_foreach((json_t *)root, name, info)
    {
        enum vp_status st;

        if (strcmp(name, "__metadata__") == 0) {
            VP_TRY(read_meta(info, header, err));
            continue;
        }
        st = read_tensor(name, info, data_start, file_bytes, header, err);
        if (st != VP_OK) {
            vp_err_prefix(err, "tensor %.200s", name);
            return st;
        }
    }
    qsort(header->tensors, (size_t)header->n_tensors, sizeof(*header->tensors),
          compare_place);
    VP_TRY(check_cover(header, data_start, file_bytes, err));
    for (int i = 0; i < header->n_tensors; i++)
        header->by_name[i] = &header->tensors[i];
    qsort(header->by_name, (size_t)header->n_tensors,
          sizeof(struct vp_st_tensor *), compare_name);
    return VP_OK;
}

enum vp_status vp_st_head_bytes(const unsigned char first[8],
                                int64_t file_bytes, int64_t *out,
                                struct vp_err *err)
{
    uint64_t n = 0;

    for (int i = 7; i >= 0; i--)
        n = n << 8 | first[i];
    if (n > (uint64_t)max_json_bytes)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the header has %llu bytes, at most %lld are "
                          "possible; this is not a safetensors file",
                          (unsigned long long)n, (long long)max_json_bytes);
    if ((int64_t)n > file_bytes - 8)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the header has %llu bytes, the file only %lld; it "
                          "is cut short or not a safetensors file",
                          (unsigned long long)n, (long long)file_bytes);
    *out = 8 + (int64_t)n;
    return VP_OK;
}

enum vp_status vp_st_parse(const unsigned char *head, size_t n_head,
                           int64_t file_bytes, struct vp_st_header *out,
                           struct vp_err *err)
{
    struct vp_st_header header = { .n_tensors = 0 };
    json_error_t error;
    enum vp_status st;
    int64_t data_start = 0;
    json_t *root;

    if (n_head < 8)
        return vp_err_set(err, VP_ERR_INVALID,
                          "has %zu bytes; this is not a safetensors file",
                          n_head);
    VP_TRY(vp_st_head_bytes(head, file_bytes, &data_start, err));
    if ((int64_t)n_head != data_start)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the header ends at byte %lld, not at %zu",
                          (long long)data_start, n_head);
    if (n_head == 8 || head[8] != '{')
        return vp_err_set(err, VP_ERR_INVALID,
                          "the header does not start with {; this is not a "
                          "safetensors file");
    root = json_loadb((const char *)head + 8, n_head - 8,
                      JSON_REJECT_DUPLICATES, &error);
    if (root) {
        st = read_all(root, data_start, file_bytes, &header, err);
        json_decref(root);
    } else if (json_error_code(&error) == json_error_out_of_memory) {
        st = vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    } else {
        st = vp_err_set(err, VP_ERR_INVALID, "header, byte %d: %s",
                        8 + error.position, error.text);
    }
    if (st != VP_OK) {
        vp_text_one_line(err);
        vp_st_header_release(&header);
        return st;
    }
    *out = header;
    return VP_OK;
}

void vp_st_header_release(struct vp_st_header *header)
{
    vp_arena_release(&header->arena);
    *header = (struct vp_st_header){ .n_tensors = 0 };
}

const struct vp_st_tensor *vp_st_header_find(const struct vp_st_header *header,
                                             const char *name)
{
    const struct vp_st_tensor key = { .name = name }, *at = &key;
    const struct vp_st_tensor **found;

    if (header->n_tensors == 0)
        return NULL;
    found = bsearch(&at, header->by_name, (size_t)header->n_tensors,
                    sizeof(struct vp_st_tensor *), compare_name);
    return found ? *found : NULL;
}
