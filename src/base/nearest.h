/* Which known word was meant, and which file? */
#ifndef VP_BASE_NEAREST_H
#define VP_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b.
 * Words beyond 63 characters count as far from everything. */
int vp_edit_distance(const char *a, const char *b);

/* The index of the name that `word` was probably meant to be, or -1 when none
 * is near. Upper case and '-' for '_' do not count as differences; a whole
 * known name inside the word, or the word inside a name, is near. */
int vp_nearest(const char *word, const char *const *names, int n_names);

/* The file or folder that `path` was probably meant to be: every part of it that
 * is missing is replaced by the nearest name in its folder. False when none is
 * near, none is missing, or it does not fit `out`. */
bool vp_nearest_path(const char *path, char *out, size_t n_bytes);

/* The end of a message about a path that cannot be used: "did you mean
 * 'configs/a.yml'?", or `otherwise`. Returns `out`. */
enum { VP_PATH_REMEDY_BYTES = 512 };
const char *vp_path_remedy(const char *path, const char *otherwise,
                           char out[VP_PATH_REMEDY_BYTES]);

#endif
