/* A small model and small data for tests of libvpipe. Uses only the public
 * header, so that it can be compiled against an installed library. */
#ifndef VP_TESTS_LIB_APILIB_H
#define VP_TESTS_LIB_APILIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <vpipe/vpipe.h>

#include <cmocka.h>

enum { BATCH = 4, SEQ = 8, VOCAB = 40, HIDDEN = 16, HEADS = 2, LAYERS = 2 };

/* ---- Checked calls ------------------------------------------------------- */

/* Fails with the message of the call if it does not return VPIPE_OK. */
#define assert_ok(call)                                    \
    do {                                                   \
        if ((call) != VPIPE_OK)                            \
            fail_msg("%s: %s", #call, last_error.message); \
    } while (0)

/* Checks that the call returns `expected` with a message of one line that
 * contains `text`. */
#define assert_refused(expected, text, call)                 \
    do {                                                     \
        assert_int_equal(call, expected);                    \
        assert_int_equal(last_error.status, expected);       \
        if (!strstr(last_error.message, text) ||             \
            strchr(last_error.message, '\n'))                \
            fail_msg("%s: '%s'", #call, last_error.message); \
    } while (0)

extern struct vpipe_error last_error; /* error of the last call */

/* ---- A GPT-2 built from operators ---------------------------------------- */

int normed(struct vpipe_graph *g, int x, const char *prefix);

/* Builds the model of src/model/gpt2.c without dropout. Initial weights depend
 * on the names, so losses must equal those of model_type gpt2. */
int build_gpt2(void *ctx, struct vpipe_graph *g);

/* ---- Data ---------------------------------------------------------------- */

/* Fills in sequences of numbers with a fixed step; the label is the next
 * number. Evaluation gets other sequences than training. */
int fill_counting(void *ctx, struct vpipe_batch *batch);

/* ---- Configurations ------------------------------------------------------ */

void set(struct vpipe_config *config, const char *key, const char *value);

/* Returns a configuration for a short training in `stages` stages. NULL: the
 * plan sets their number. */
struct vpipe_config *new_config(const char *stages);

/* Returns a configuration with build_gpt2() and fill_counting(). */
struct vpipe_config *custom_config(const char *stages);

/* Returns a configuration with model_type gpt2 of the same size. */
struct vpipe_config *named_config(const char *stages);

struct vpipe_trainer *start(const struct vpipe_config *config,
                            const char *output, const char *resume);

/* Writes the losses of the first `n` steps to `out`. Frees `config`. */
void losses_of(struct vpipe_config *config, int n, double *out);

void assert_same_losses(const double *a, const double *b, int n);

/* ---- Folders ------------------------------------------------------------- */

extern char root[64];

int make_root(void **state);

int remove_root(void **state);

const char *below_root(const char *name);

#endif
