/* Finds and loads optional shared libraries: CUDA's and vpipe's own plugins. */
#ifndef VP_BASE_PLUGIN_H
#define VP_BASE_PLUGIN_H

#include <stdbool.h>

/* All functions return a handle of dlopen() with RTLD_GLOBAL, or NULL;
 * dlerror() then returns the reason of the last attempt. */

/* Opens <folder><below>/<file>. `folder` is taken literally; `below` is "" or a
 * glob() pattern such as "/lib*". */
void *vp_library_in(const char *folder, const char *below, const char *file);
/* The same for each folder of `list`, separated by colons as in PATH, until one
 * succeeds. `list` may be NULL. `absolute` skips relative folders. */
void *vp_library_in_list(const char *list, bool absolute, const char *below,
                         const char *file);
/* Searches relative to the folder of the program or shared library that this
 * code is linked into: ., vpipe, ../lib/vpipe, ../lib/<any>/vpipe and
 * ../lib64/vpipe. */
void *vp_library_beside(const char *file);
/* Opens a library of CUDA. Searches the folders of VPIPE_LIBRARIES, those of
 * vp_library_beside(), the system's library path, CUDA toolkits and Python
 * packages. */
void *vp_library_open(const char *file);
/* Opens a plugin of vpipe. Searches the folders of VPIPE_PLUGINS, then those of
 * vp_library_beside(). If no such file exists, dlerror() returns NULL. */
void *vp_plugin_open(const char *file);

#endif
