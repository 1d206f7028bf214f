/* A small configuration, and a collector of notices, for tests of
 * comparisons. */
#ifndef VP_TESTS_LIB_COMPARELIB_H
#define VP_TESTS_LIB_COMPARELIB_H

#include "config/load.h"

extern const char small_text[];

void load_small(struct vp_config *out, const char *name, const char *more);

extern char notices[4096];

void keep_notice(void *ctx, const char *line);

#endif
