/* A small model and small data for tests of libvpipe. Uses nothing but the public
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

/* ---- Calls --------------------------------------------------------------- */

/* The call must return VPIPE_OK; shows its message if not. */
#define assert_ok(call)                                    \
    do {                                                   \
        if ((call) != VPIPE_OK)                            \
            fail_msg("%s: %s", #call, last_error.message); \
    } while (0)

/* The call must return the status with a message of one line that has the text. */
#define assert_refused(expected, text, call)                 \
    do {                                                     \
        assert_int_equal(call, expected);                    \
        assert_int_equal(last_error.status, expected);       \
        if (!strstr(last_error.message, text) ||             \
            strchr(last_error.message, '\n'))                \
            fail_msg("%s: '%s'", #call, last_error.message); \
    } while (0)

extern struct vpipe_error last_error; /* of the last call */

/* ---- A GPT-2 of operators ------------------------------------------------ */

int normed(struct vpipe_graph *g, int x, const char *prefix);

/* As src/model/gpt2.c builds it, without dropout: names decide the first weights,
 * so losses must be those of model_type gpt2. */
int build_gpt2(void *ctx, struct vpipe_graph *g);

/* ---- Data ---------------------------------------------------------------- */

/* The next number of a sequence with a fixed step; evaluation has others. */
int fill_counting(void *ctx, struct vpipe_batch *batch);

/* ---- Configurations ------------------------------------------------------ */

void set(struct vpipe_config *config, const char *key, const char *value);

/* Keys of a short training in `stages` stages; NULL: a plan says it. */
struct vpipe_config *new_config(const char *stages);

struct vpipe_config *custom_config(const char *stages);

/* model_type gpt2 of the same size. */
struct vpipe_config *named_config(const char *stages);

struct vpipe_trainer *start(const struct vpipe_config *config,
                            const char *output, const char *resume);

/* Losses of the first `n` steps of a configuration, which is freed. */
void losses_of(struct vpipe_config *config, int n, double *out);

void assert_same_losses(const double *a, const double *b, int n);

/* ---- Folders ------------------------------------------------------------- */

extern char root[64];

int make_root(void **state);

int remove_root(void **state);

const char *below_root(const char *name);

#endif
