/* For test programs that mpirun starts, with one rank per process. */
#ifndef VP_TESTS_LIB_JOINLIB_H
#define VP_TESTS_LIB_JOINLIB_H

#include "comm/comm.h"

/* Returns the number of processes and the index of this one; -1 without
 * mpirun. */
struct vp_processes join_processes(void);

/* Joins up to four processes with one rank each. Returns NULL, with a message
 * on stderr, if they cannot join. */
struct vp_world *join_world(const char *transport,
                            const struct vp_processes *self);

#endif
