/* Loads backends that are plugins: shared libraries installed beside the
 * program. */
#ifndef VP_BACKEND_PLUGIN_H
#define VP_BACKEND_PLUGIN_H

#include "backend/backend.h"

/* Loads libvpipe_<name>.so and the libraries that it needs, and returns its
 * table in `*out`; later calls return the same table. Thread-safe. Folders are
 * searched in this order: those of VPIPE_PLUGINS (for libraries:
 * VPIPE_LIBRARIES), the program's own, ../lib/vpipe, those of the dynamic
 * loader, CUDA toolkits, Python packages. Returns VP_ERR_UNSUPPORTED if a file
 * is missing; `err` names it and the remedy, and `*out` is undefined. */
enum vp_status vp_backend_load(const char *name,
                               const struct vp_backend_ops **out,
                               struct vp_err *err);

/* Loads library `file` from the same folders and returns its dlopen() handle,
 * or NULL if it is not found. It is never unloaded. For benchmarks. */
void *vp_backend_library(const char *file);

/* Returns the address of a symbol that the loaded plugin `name` exports, or
 * NULL if the plugin is not loaded or has no such symbol. For tests. */
void *vp_backend_symbol(const char *name, const char *symbol);

/* Symbols that a plugin exports: a function that returns its table, and an int,
 * the VP_BACKEND_ABI it was built with. */
#define VP_PLUGIN_BACKEND "vp_plugin_backend"
#define VP_PLUGIN_ABI "vp_plugin_abi"

#endif
