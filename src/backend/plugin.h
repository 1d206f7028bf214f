/* Backends that are not linked in: shared libraries beside the program. */
#ifndef VP_BACKEND_PLUGIN_H
#define VP_BACKEND_PLUGIN_H

#include "backend/backend.h"

/* Loads libvpipe_<name>.so, with the libraries it needs, and returns its table;
 * a second call returns the same one. Places that are looked at, in order: the
 * folders of VPIPE_PLUGINS (and for libraries VPIPE_LIBRARIES), the program's
 * own, ../lib/vpipe, what the system's loader knows, toolkits' folders and
 * Python's packages. VP_ERR_UNSUPPORTED, with what is missing and where to get
 * it, if it is not there. */
enum vp_status vp_backend_load(const char *name,
                               const struct vp_backend_ops **out,
                               struct vp_err *err);

/* Another library of the toolkit, from the same places; NULL if it is nowhere.
 * It stays loaded. For benchmarks. */
void *vp_backend_library(const char *file);

/* A function that a loaded plugin exports besides its table; for tests. NULL
 * if there is none. */
void *vp_backend_symbol(const char *name, const char *symbol);

/* What a plugin exports: its table, and the VP_BACKEND_ABI it was built with. */
#define VP_PLUGIN_BACKEND "vp_plugin_backend"
#define VP_PLUGIN_ABI "vp_plugin_abi"

#endif
