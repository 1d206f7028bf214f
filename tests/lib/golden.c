#include "lib/golden.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "golden files are little endian"
#endif

char *golden_slurp(const char *path, const char *suffix, int64_t *n_bytes_out)
{
    char name[1024];
    char *text;
    FILE *file;
    long size;

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    file = fopen(name, "rb");
    if (!file)
        fail_msg("%s: cannot be read; run tests/golden/make_golden.py", name);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    text = malloc((size_t)size + 1);
    assert_non_null(text);
    if (fread(text, 1, (size_t)size, file) != (size_t)size)
        fail_msg("%s: cannot be read to its end", name);
    fclose(file);
    text[size] = 0;
    *n_bytes_out = size;
    return text;
}

struct golden *golden_open(const char *path)
{
    struct golden *gold = calloc(1, sizeof(*gold));
    int64_t n_index;
    char *index, *line;
    int n_lines = 0;

    assert_non_null(gold);
    index = golden_slurp(path, ".idx", &n_index);
    gold->data = golden_slurp(path, ".bin", &gold->n_bytes);
    for (const char *c = index; *c; c++)
        n_lines += *c == '\n';
    gold->tensors = calloc((size_t)n_lines + 1, sizeof(*gold->tensors));
    assert_non_null(gold->tensors);

    line = index;
    for (int i = 0; i < n_lines; i++, line = strchr(line, '\n') + 1) {
        struct golden_tensor *t = &gold->tensors[i];
        int n = sscanf(line, "%95s %3s %" SCNd64 " %" SCNd64 " %" SCNd64,
                       t->name, t->dtype, &t->rows, &t->cols, &t->offset);

        if (n != 5 || t->rows < 0 || t->cols < 0 || t->offset < 0 ||
            t->offset + t->rows * t->cols * 4 > gold->n_bytes)
            fail_msg("%s.idx:%d: bad line", path, i + 1);
    }
    gold->n_tensors = n_lines;
    free(index);
    return gold;
}

void golden_close(struct golden *gold)
{
    if (!gold)
        return;
    free(gold->tensors);
    free(gold->data);
    free(gold);
}

const struct golden_tensor *golden_find(const struct golden *gold,
                                        const char *name)
{
    for (int i = 0; i < gold->n_tensors; i++)
        if (strcmp(gold->tensors[i].name, name) == 0)
            return &gold->tensors[i];
    return NULL;
}

static const void *golden_get(const struct golden *gold, const char *name,
                              const char *dtype, int64_t *rows_out,
                              int64_t *cols_out)
{
    const struct golden_tensor *t = golden_find(gold, name);

    if (!t) {
        fail_msg("golden tensor %s is missing", name);
        abort(); /* not reached, but compilers do not know that */
    }
    if (strcmp(t->dtype, dtype) != 0)
        fail_msg("golden tensor %s is %s, not %s", name, t->dtype, dtype);
    if (rows_out)
        *rows_out = t->rows;
    if (cols_out)
        *cols_out = t->cols;
    return gold->data + t->offset;
}

const float *golden_f32(const struct golden *gold, const char *name,
                        int64_t *rows_out, int64_t *cols_out)
{
    return golden_get(gold, name, "f32", rows_out, cols_out);
}

const int32_t *golden_i32(const struct golden *gold, const char *name,
                          int64_t *rows_out, int64_t *cols_out)
{
    return golden_get(gold, name, "i32", rows_out, cols_out);
}
