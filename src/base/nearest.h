/* Corrections of misspelt words and paths: the "did you mean" of messages. */
#ifndef VP_BASE_NEAREST_H
#define VP_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the number of edits (insert, delete, replace, swap of neighbours)
 * that turn `a` into `b`; INT_MAX if one of them has more than 63
 * characters. */
int vp_edit_distance(const char *a, const char *b);

/* Returns the index of the name nearest to `word`, or -1 if none is near. Case
 * and '-' for '_' are not differences. A name that contains `word`, or that is
 * contained in it, is near. */
int vp_nearest(const char *word, const char *const *names, int n_names);

/* Corrects `path`: every component that does not exist is replaced by the
 * nearest name in its folder. Returns false if `path` exists, if no name is
 * near, or if the result does not fit `out`. */
bool vp_nearest_path(const char *path, char *out, size_t n_bytes);

/* Writes the end of a message about an unusable path: "did you mean
 * 'configs/a.yml'?", or `otherwise` if nothing is near. Returns `out`. */
enum { VP_PATH_REMEDY_BYTES = 512 };
const char *vp_path_remedy(const char *path, const char *otherwise,
                           char out[VP_PATH_REMEDY_BYTES]);

#endif
