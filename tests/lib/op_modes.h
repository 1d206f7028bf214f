/* The ways in which a kernel may be called, and what it writes then: shared by
 * the tests of kernels. */
#ifndef VP_TESTS_LIB_OP_MODES_H
#define VP_TESTS_LIB_OP_MODES_H

#include "lib/one_op.h"

#include <stdint.h>

/* How a kernel is called. */
struct mode {
    bool add;        /* gradients are added to what is there */
    bool eval;       /* not training: no dropout */
    bool in_place;   /* dz over dout, dlogits over logits */
    unsigned no_din; /* bit k: input k gets no gradient */
};

extern const struct mode modes[6];

void prepare(struct one_op *t, const struct mode *mode);

/* A tensor that a kernel wrote. */
struct written {
    const char *name;
    const void *data;
    int64_t n;
    bool apart; /* errors are measured by each element, not by the largest */
};

enum { MAX_WRITTEN = 3 + VP_MAX_AUX + VP_MAX_IN + VP_MAX_PARAM };

#define PHASE_BIT(phase) (1u << (phase))

#define ALL_PHASES 7u

/* What the kernels of `phases` (bits) wrote. */
int written_by(const struct one_op *t, unsigned phases, struct written *w);

#endif
