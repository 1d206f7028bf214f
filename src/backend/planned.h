/* Backend tables for planning. Planning for a GPU needs no plugin: the facts
 * about its kernels' memory are linked into the program. */
#ifndef VP_BACKEND_PLANNED_H
#define VP_BACKEND_PLANNED_H

#include "backend/backend.h"

/* Returns the table of the backend "cpu" or "cuda", or NULL for other names.
 * The table of "cuda" has the constants and scratch sizes of the plugin's
 * table. It has no devices, opens only with plan_only, and its functions for
 * programs and the optimizer are NULL. */
const struct vp_backend_ops *vp_backend_planned(const char *name);

#endif
