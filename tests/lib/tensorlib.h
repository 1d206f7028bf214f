/* Groups of tensor-parallel ranks for tests: their sizes and cuts. */
#ifndef VP_TESTS_LIB_TENSORLIB_H
#define VP_TESTS_LIB_TENSORLIB_H

#include "lib/trainlib.h"

extern const int members_of[2];

struct setup group_of(const char *model, int members);

/* Equal parts, the last one with the rest. */
void cut_evenly(struct setup *setup, int n_stages, int *partition);

#endif
