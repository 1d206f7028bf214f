/* Tables to plan with. Plans need no plugin: the facts about a GPU's memory are
 * linked into the program. */
#ifndef VP_BACKEND_PLANNED_H
#define VP_BACKEND_PLANNED_H

#include "backend/backend.h"

/* The table of the backend "cpu" or "cuda"; NULL: there is no such backend. That
 * of "cuda" has the facts of the plugin's, has no devices, opens for plan_only
 * alone and runs nothing: slots for programs and the optimizer are NULL. */
const struct vp_backend_ops *vp_backend_planned(const char *name);

#endif
