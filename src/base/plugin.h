/* Finding shared libraries that a program may do without. */
#ifndef VP_BASE_PLUGIN_H
#define VP_BASE_PLUGIN_H

#include <stdbool.h>

/* All return a handle of dlopen(), its symbols visible to libraries that are
 * loaded later, or NULL; dlerror() then has the reason of the last try. */

/* A file in `folder`, taken literally, and `below` it: "" or a pattern of glob()
 * such as "/lib*". */
void *vp_library_in(const char *folder, const char *below, const char *file);
/* The same in every folder of a list like PATH (NULL: none); with `absolute`,
 * folders that start at the working directory are left out. */
void *vp_library_in_list(const char *list, bool absolute, const char *below,
                         const char *file);
/* Beside the program or the shared library that this code is linked into: in
 * its folder, vpipe, ../lib/vpipe, ../lib/<any>/vpipe or ../lib64/vpipe. NULL if
 * its path is not known. */
void *vp_library_beside(const char *file);
/* Of CUDA or what belongs to it: in the folders of VPIPE_LIBRARIES, beside
 * this code, where the system's loader looks, in toolkits' folders and in
 * Python's packages. */
void *vp_library_open(const char *file);
/* A part of vpipe: in the folders of VPIPE_PLUGINS, then beside this code. If
 * there is no such file at all, dlerror() returns NULL. */
void *vp_plugin_open(const char *file);

#endif
