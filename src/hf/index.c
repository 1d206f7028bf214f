/* Parser of model.safetensors.index.json. */
#include "hf/index.h"

#include "hf/json.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_INDEX_BYTES = 64 << 20,
    MAX_FILE_NAME = 200,
};

static int compare_places(const void *a, const void *b)
{
    const struct vp_hf_place *x = a, *y = b;

    return strcmp(x->tensor, y->tensor);
}

static int compare_texts(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;

    return strcmp(*x, *y);
}

/* Checks that the value is the name of a file in the folder. A name with a
 * slash or one that starts with a dot could lead out of it. */
static enum vp_status check_file_name(const char *tensor, const json_t *value,
                                      struct vp_err *err)
{
    static const char end[] = ".safetensors";
    const char *name = json_string_value(value);
    size_t n = name ? strlen(name) : 0;

    if (!name || n <= strlen(end) || n > MAX_FILE_NAME || name[0] == '.' ||
        strchr(name, '/') || strchr(name, '\\') || strstr(name, "..") ||
        strcmp(name + n - strlen(end), end) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "weight_map: %.200s: \"%.80s\" is not the name of a "
                          "file in this folder; use names like "
                          "model-00001-of-00002.safetensors",
                          tensor, name ? name : "");
    return VP_OK;
}

/* Sorts the names and removes repetitions. Returns their number. */
static int keep_once(const char **files, int n)
{
    int n_kept = 0;

    qsort(files, (size_t)n, sizeof(*files), compare_texts);
    for (int i = 0; i < n; i++)
        if (n_kept == 0 || strcmp(files[n_kept - 1], files[i]) != 0)
            files[n_kept++] = files[i];
    return n_kept;
}

static enum vp_status read_map(const json_t *map, struct vp_hf_index *index,
                               struct vp_err *err)
{
    size_t n = json_object_size(map);
    const char *tensor;
    json_t *file;

    index->places = vp_arena_alloc(&index->arena, n * sizeof(*index->places));
    index->files = vp_arena_alloc(&index->arena, n * sizeof(*index->files));
    if (!index->places || !index->files)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    json_object_foreach((json_t *)map, tensor, file)
    {
        VP_TRY(check_file_name(tensor, file, err));
        index->files[index->n_files++] = vp_arena_strdup(
            &index->arena, json_string_value(file));
        if (!index->files[index->n_files - 1])
            return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    }
    index->n_files = keep_once(index->files, index->n_files);
    json_object_foreach((json_t *)map, tensor, file)
    {
        const char *name = json_string_value(file);
        const char **found = bsearch(&name, index->files,
                                     (size_t)index->n_files,
                                     sizeof(*index->files), compare_texts);
        struct vp_hf_place *place = &index->places[index->n_places++];

        place->tensor = vp_arena_strdup(&index->arena, tensor);
        if (!place->tensor)
            return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
        place->file = (int)(found - index->files);
    }
    qsort(index->places, (size_t)index->n_places, sizeof(*index->places),
          compare_places);
    return VP_OK;
}

static enum vp_status read_root(const json_t *root, struct vp_hf_index *out,
                                struct vp_err *err)
{
    const json_t *map = json_object_get(root, "weight_map");
    struct vp_hf_index index = { .n_places = 0 };
    enum vp_status st;

    if (!json_is_object(map) || json_object_size(map) == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "weight_map is missing, empty or not an object");
    if (json_object_size(map) > INT32_MAX / 2)
        return vp_err_set(err, VP_ERR_INVALID, "weight_map is too large");
    st = read_map(map, &index, err);
    vp_hf_one_line(err);
    if (st != VP_OK) {
        vp_hf_index_release(&index);
        return st;
    }
    *out = index;
    return VP_OK;
}

enum vp_status vp_hf_index_parse(const char *bytes, size_t n_bytes,
                                 struct vp_hf_index *out, struct vp_err *err)
{
    json_t *root = NULL;
    enum vp_status st;

    VP_TRY(vp_hf_json_parse(bytes, n_bytes, &root, err));
    st = read_root(root, out, err);
    json_decref(root);
    return st;
}

enum vp_status vp_hf_index_read(const char *path, struct vp_hf_index *out,
                                struct vp_err *err)
{
    json_t *root = NULL;
    enum vp_status st;

    VP_TRY(vp_hf_json_read(path, MAX_INDEX_BYTES, &root, err));
    st = read_root(root, out, err);
    json_decref(root);
    if (st != VP_OK)
        vp_err_prefix(err, "%.3000s", path);
    return st;
}

void vp_hf_index_release(struct vp_hf_index *index)
{
    vp_arena_release(&index->arena);
    *index = (struct vp_hf_index){ .n_places = 0 };
}

const struct vp_hf_place *vp_hf_index_find(const struct vp_hf_index *index,
                                           const char *tensor)
{
    const struct vp_hf_place key = { .tensor = tensor };

    return bsearch(&key, index->places, (size_t)index->n_places,
                   sizeof(*index->places), compare_places);
}
