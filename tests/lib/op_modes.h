/* The modes in which kernels are called, and the tensors that they write, for
 * tests of kernels. */
#ifndef VP_TESTS_LIB_OP_MODES_H
#define VP_TESTS_LIB_OP_MODES_H

#include "lib/one_op.h"

#include <stdint.h>

/* How a kernel is called. */
struct mode {
    bool add;        /* gradients are added to their old values */
    bool eval;       /* not training: no dropout */
    bool in_place;   /* dz over dout, dlogits over logits */
    unsigned no_din; /* bit k: input k gets no gradient */
};

extern const struct mode modes[6];

void prepare(struct one_op *t, const struct mode *mode);

/* A tensor that kernels write. */
struct written {
    const char *name;
    const void *data;
    int64_t n;
    bool apart; /* errors are relative to each element, not the largest */
};

enum { MAX_WRITTEN = 3 + VP_MAX_AUX + VP_MAX_IN + VP_MAX_PARAM };

#define PHASE_BIT(phase) (1u << (phase))

#define ALL_PHASES 7u

/* Lists the tensors that the kernels of `phases` (bits) write. Returns their
 * number. */
int written_by(const struct one_op *t, unsigned phases, struct written *w);

#endif
