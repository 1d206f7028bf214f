/* Reader of golden files: results of a reference implementation, stored by
 * tests/golden/writer.py, where the format is described. A test that cannot
 * read its golden file fails.
 *
 *     struct golden *gold = golden_open(VP_SOURCE_DIR "/tests/golden/optim");
 *     int64_t rows, cols;
 *     const float *w = golden_f32(gold, "w", &rows, &cols);
 */
#ifndef VP_TESTS_LIB_GOLDEN_H
#define VP_TESTS_LIB_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct golden_tensor {
    char name[96];
    char dtype[4]; /* "f32", "i32" */
    int64_t rows, cols, offset;
};

struct golden {
    struct golden_tensor *tensors;
    int n_tensors;
    char *data;
    int64_t n_bytes;
};

/* Returns the contents of the file, with a 0 behind them. The caller frees
 * them. */
char *golden_slurp(const char *path, const char *suffix, int64_t *n_bytes_out);

/* `path` has no suffix. */
struct golden *golden_open(const char *path);

void golden_close(struct golden *gold);

/* NULL if there is no such tensor. */
const struct golden_tensor *golden_find(const struct golden *gold,
                                        const char *name);

/* Returns the elements, owned by `gold`; rows_out and cols_out may be NULL. */
const float *golden_f32(const struct golden *gold, const char *name,
                        int64_t *rows_out, int64_t *cols_out);

const int32_t *golden_i32(const struct golden *gold, const char *name,
                          int64_t *rows_out, int64_t *cols_out);

#endif
