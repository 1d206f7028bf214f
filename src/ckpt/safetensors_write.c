/* Writing of safetensors files: order and offsets of tensors, header, atomic
 * replacement. */
#include "ckpt/io.h"
#include "ckpt/safetensors.h"
#include "ckpt/text.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors are stored as they are in memory");

/* The data starts at a multiple of this many bytes; as tensors are sorted by
 * size of their numbers, all are aligned. */
enum { HEAD_ALIGN = 8 };

/* ---- Layout ------------------------------------------------------------- */

static enum vp_status check_tensor(struct vp_st_tensor *tensor,
                                   struct vp_err *err)
{
    VP_BUG_ON((size_t)tensor->type >= VP_ST_COUNT);
    VP_BUG_ON(tensor->n_dims < 0 || tensor->n_dims > VP_ST_MAX_DIMS);
    if (!tensor->name[0] || strcmp(tensor->name, "__metadata__") == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "tensor \"%s\": is not a valid name for a tensor",
                          tensor->name);
    tensor->n_bytes = vp_st_type_bytes(tensor->type);
    for (int i = 0; i < tensor->n_dims; i++) {
        if (!vp_mul_i64(tensor->n_bytes, tensor->dims[i], &tensor->n_bytes))
            return vp_err_set(err, VP_ERR_INVALID,
                              "tensor %.200s: its shape is negative or needs "
                              "more than 2^63 bytes",
                              tensor->name);
    }
    return VP_OK;
}

/* Sorts by type in descending order, that is larger numbers first; then by
 * name. */
static int compare_order(const void *a, const void *b)
{
    const struct vp_st_tensor *const *x = a, *const *y = b;

    if ((*x)->type != (*y)->type)
        return (*x)->type > (*y)->type ? -1 : 1;
    return strcmp((*x)->name, (*y)->name);
}

/* Sets offsets from the start of the data. *end_out: size of the data. */
static enum vp_status place(struct vp_st_tensor **order, int n_tensors,
                            int64_t *end_out, struct vp_err *err)
{
    int64_t at = 0;

    for (int i = 0; i < n_tensors; i++) {
        if (order[i]->n_bytes > INT64_MAX / 2 - at)
            return vp_err_set(err, VP_ERR_INVALID,
                              "tensor %.200s: the file would be too large",
                              order[i]->name);
        order[i]->offset = at;
        at += order[i]->n_bytes;
    }
    *end_out = at;
    return VP_OK;
}

static json_t *describe(const struct vp_st_tensor *tensor)
{
    json_t *shape = json_array();

    for (int i = 0; i < tensor->n_dims; i++)
        json_array_append_new(shape, json_integer(tensor->dims[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                     vp_st_type_name(tensor->type), "shape", shape,
                     "data_offsets", (json_int_t)tensor->offset,
                     (json_int_t)(tensor->offset + tensor->n_bytes));
}

/* Adds all entries of the header to `root`. json_object_set_new() fails if a
 * key is not UTF-8. */
static enum vp_status describe_all(json_t *root, struct vp_st_tensor **order,
                                   int n_tensors, const struct vp_st_meta *meta,
                                   int n_meta, struct vp_err *err)
{
    json_t *object = n_meta > 0 ? json_object() : NULL;
    json_t *info;

    for (int i = 0; i < n_meta; i++) {
        if (json_object_set_new(object, meta[i].key,
                                json_string(meta[i].value)) != 0) {
            json_decref(object);
            return vp_err_set(err, VP_ERR_INVALID,
                              "metadata %.200s: is not valid UTF-8",
                              meta[i].key);
        }
    }
    if (n_meta > 0 && json_object_set_new(root, "__metadata__", object) != 0)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    for (int i = 0; i < n_tensors; i++) {
        if (json_object_get(root, order[i]->name))
            return vp_err_set(err, VP_ERR_INVALID,
                              "tensor %.200s: the name is used twice",
                              order[i]->name);
        info = describe(order[i]);
        if (!info)
            return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
        if (json_object_set_new(root, order[i]->name, info) != 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "tensor %.200s: the name is not valid UTF-8",
                              order[i]->name);
    }
    return VP_OK;
}

/* Makes the head: length, JSON, spaces up to the alignment. */
static enum vp_status make_head(const json_t *root, struct vp_st_head *out,
                                struct vp_err *err)
{
    size_t n_json = json_dumpb(root, NULL, 0, JSON_COMPACT);
    size_t n = vp_align_up(8 + n_json, HEAD_ALIGN);
    unsigned char *bytes = malloc(n);

    if (!bytes || n_json == 0) {
        free(bytes);
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    }
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)(n - 8) >> (8 * i));
    json_dumpb(root, (char *)bytes + 8, n_json, JSON_COMPACT);
    memset(bytes + 8 + n_json, ' ', n - 8 - n_json);
    out->bytes = bytes;
    out->n_bytes = n;
    return VP_OK;
}

static enum vp_status layout(struct vp_st_tensor **order, int n_tensors,
                             const struct vp_st_meta *meta, int n_meta,
                             struct vp_st_head *out, struct vp_err *err)
{
    struct vp_st_head head;
    enum vp_status st;
    int64_t end = 0, most = 0;
    json_t *root;

    for (int i = 0; i < n_tensors; i++)
        VP_TRY(check_tensor(order[i], err));
    VP_TRY(place(order, n_tensors, &end, err));
    root = json_object();
    if (!root)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    st = describe_all(root, order, n_tensors, meta, n_meta, err);
    if (st == VP_OK)
        st = make_head(root, &head, err);
    json_decref(root);
    VP_TRY(st);
    /* Refuse a header that is too large for readers. */
    st = vp_st_head_bytes(head.bytes, INT64_MAX, &most, err);
    if (st != VP_OK) {
        free(head.bytes);
        return st;
    }
    for (int i = 0; i < n_tensors; i++)
        order[i]->offset += (int64_t)head.n_bytes;
    head.file_bytes = (int64_t)head.n_bytes + end;
    *out = head;
    return VP_OK;
}

/* Returns the tensors in the order of their data, or NULL if out of memory. */
static struct vp_st_tensor **sorted(struct vp_st_tensor *tensors, int n_tensors)
{
    struct vp_st_tensor **order;

    order = malloc(((size_t)n_tensors + 1) * sizeof(struct vp_st_tensor *));
    if (!order)
        return NULL;
    for (int i = 0; i < n_tensors; i++)
        order[i] = &tensors[i];
    qsort(order, (size_t)n_tensors, sizeof(struct vp_st_tensor *),
          compare_order);
    return order;
}

enum vp_status vp_st_layout(struct vp_st_tensor *tensors, int n_tensors,
                            const struct vp_st_meta *meta, int n_meta,
                            struct vp_st_head *out, struct vp_err *err)
{
    struct vp_st_tensor **order = sorted(tensors, n_tensors);
    enum vp_status st;

    if (!order)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    st = layout(order, n_tensors, meta, n_meta, out, err);
    free(order);
    if (st != VP_OK)
        vp_text_one_line(err);
    return st;
}

/* ---- A file ------------------------------------------------------------- */

/* A file being written. */
struct output {
    struct vp_st_tensor *tensors;
    int n_tensors;
    vp_st_data_fn data;
    void *ctx;
    enum vp_status failed; /* result of `data`; its message is in `err` */
    struct vp_err *err;
};

static int write_data(int fd, struct output *out)
{
    struct vp_st_tensor **order = sorted(out->tensors, out->n_tensors);
    int rc = order ? 0 : ENOMEM;

    for (int i = 0; i < out->n_tensors && rc == 0; i++) {
        const void *bytes = NULL;

        out->failed = out->data(out->ctx, (int)(order[i] - out->tensors),
                                &bytes, out->err);
        if (out->failed != VP_OK)
            break;
        rc = vp_io_write(fd, bytes, (size_t)order[i]->n_bytes);
    }
    free(order);
    return rc;
}

static int write_temporary(const char *path, const struct vp_st_head *head,
                           struct output *out)
{
    int fd = -1;
    int rc = vp_io_open(path, O_WRONLY | O_CREAT | O_TRUNC, &fd);
    int rc_close;

    if (rc != 0)
        return rc;
    rc = vp_io_write(fd, head->bytes, head->n_bytes);
    if (rc == 0)
        rc = write_data(fd, out);
    if (rc == 0 && out->failed == VP_OK)
        rc = vp_io_sync(fd);
    rc_close = vp_io_close(fd);
    return rc != 0 ? rc : rc_close;
}

enum vp_status vp_st_write_each(const char *path, struct vp_st_tensor *tensors,
                                int n_tensors, const struct vp_st_meta *meta,
                                int n_meta, vp_st_data_fn data, void *ctx,
                                struct vp_err *err)
{
    struct output out = { tensors, n_tensors, data, ctx, VP_OK, err };
    char temporary[VP_IO_PATH_MAX];
    struct vp_st_head head = { .bytes = NULL };
    enum vp_status st;
    int n, rc;

    n = snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    if (n < 0 || (size_t)n >= sizeof(temporary))
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          path);
    st = vp_st_layout(tensors, n_tensors, meta, n_meta, &head, err);
    if (!head.bytes)
        return vp_text_in_file(path, st, err);
    rc = write_temporary(temporary, &head, &out);
    free(head.bytes);
    if (rc == 0 && out.failed == VP_OK)
        rc = vp_io_rename(temporary, path);
    if (rc == 0 && out.failed == VP_OK)
        rc = vp_io_sync_parent(path);
    if (rc == 0 && out.failed == VP_OK)
        return VP_OK;
    vp_io_remove(temporary);
    if (out.failed != VP_OK)
        return out.failed;
    return vp_err_set(err, VP_ERR_IO, "%s: cannot be written (%s); %s", path,
                      vp_io_reason(rc), vp_write_remedy(rc));
}

/* vp_st_data_fn for tensors in memory; ctx: array of their addresses. */
static enum vp_status data_at(void *ctx, int i, const void **data_out,
                              struct vp_err *err)
{
    const void *const *data = ctx;

    (void)err;
    *data_out = data[i];
    return VP_OK;
}

enum vp_status vp_st_write(const char *path, struct vp_st_tensor *tensors,
                           const void *const *data, int n_tensors,
                           const struct vp_st_meta *meta, int n_meta,
                           struct vp_err *err)
{
    return vp_st_write_each(path, tensors, n_tensors, meta, n_meta, data_at,
                            (void *)(uintptr_t)data, err);
}
