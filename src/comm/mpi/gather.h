/* Gathers of a group by MPI, as described in comm.h. */
#ifndef VP_COMM_MPI_GATHER_H
#define VP_COMM_MPI_GATHER_H

#include "comm/mpi/mpi.h"

void vp_mpi_gather(struct vp_group *base, int member,
                   const struct vp_gather *gather);
enum vp_status vp_mpi_end_gather(struct vp_group *base, int member,
                                 struct vp_limit limit);
void vp_mpi_gather_free(struct vp_mpi_group *group);

#endif
