/* Shared by the tests of src/data: a temporary folder of files, and calls that
 * must succeed. */
#ifndef VP_TESTS_LIB_DATALIB_H
#define VP_TESTS_LIB_DATALIB_H

#include "base/rng.h"
#include "data/data.h"
#include "lib/removelib.h"
#include "lib/testfolder.h"

#include <stddef.h>
#include <stdint.h>

#define TEST_IN_FOLDER(test) \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

/* Writes a file in the folder of the test. */
void write_file(const char *name, const void *bytes, size_t n);

void write_text(const char *name, const char *text);

/* Writes random UTF-8 characters of one to four bytes, then a newline: no two
 * windows of the text are alike. */
unsigned char *write_noise(const char *name, size_t n);

struct vp_data *open_data(const struct vp_data_config *config);

struct vp_batch *make_batch(const struct vp_data *data);

void fill(const struct vp_data *data, uint64_t m, struct vp_batch *batch);

/* Checks that two batches agree in all that a model may read. */
void assert_same_batch(const struct vp_data_config *config,
                       const struct vp_batch *a, const struct vp_batch *b);

/* Checks that data that is opened again gives the same batch for every
 * `step`-th of the first `n` batches. */
void check_resuming(const struct vp_data_config *config, uint64_t n,
                    uint64_t step);

/* Checks that the data is refused with a message that contains `want`. */
void assert_line(const struct vp_data_config *config, const char *want);

double entropy_of(const double *count, int64_t n);

#endif
