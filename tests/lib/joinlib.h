/* Test programs whose ranks are processes that mpirun has started. */
#ifndef VP_TESTS_LIB_JOINLIB_H
#define VP_TESTS_LIB_JOINLIB_H

#include "comm/comm.h"

/* The number of processes, and of this one; -1 without mpirun. */
struct vp_processes join_processes(void);

/* Up to four processes with a rank each; NULL, and a line on stderr, if they
 * cannot join. */
struct vp_world *join_world(const char *transport,
                            const struct vp_processes *self);

#endif
