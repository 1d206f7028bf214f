/* Trained models from folders, for tests that run them. */
#ifndef VP_TESTS_LIB_MODELLIB_H
#define VP_TESTS_LIB_MODELLIB_H

#include "run/model_source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Returns a path below tests/golden; valid until the eighth call after it. */
const char *golden(const char *name);

/* A vp_notice_fn that does nothing. */
void ignore(void *ctx, const char *line);

struct model {
    struct vp_model_source *source;
    struct vp_config config;
};

/* `sets` ends with NULL. */
void open_model(const char *path, const char *const *sets, struct model *out);

void close_model(struct model *model);

#endif
