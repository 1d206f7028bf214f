/* Choices that were measured once, such as the fastest algorithm for a product,
 * kept in a file between processes. It only saves time: a choice that is lost or
 * damaged is measured again, and what is read must be checked before it is used. */
#ifndef VP_BACKEND_TUNED_H
#define VP_BACKEND_TUNED_H

#include <stdbool.h>
#include <stddef.h>

/* The path of file `name` in the user's cache. False: there is no such folder. */
bool vp_tuned_path(const char *name, char *out, size_t n_bytes);

/* The value that was added last for `key`; false if there is none, or it does not
 * fit. */
bool vp_tuned_find(const char *path, const char *key, char *value_out,
                   size_t n_bytes);

/* Adds a line, and makes the folders of `path`. `key` has no tab, neither has a
 * line break. Several processes may add at once; what cannot be written is left
 * out. A file that has grown long begins anew. */
void vp_tuned_add(const char *path, const char *key, const char *value);

#endif
