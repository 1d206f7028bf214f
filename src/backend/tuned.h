/* A file in the user's cache for choices that were measured once, such as the
 * fastest algorithm for a matrix product. It only saves time: a lost or damaged
 * entry is measured again, and callers check what they read before they use
 * it. */
#ifndef VP_BACKEND_TUNED_H
#define VP_BACKEND_TUNED_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the path of file `name` in the user's cache to `out`, which has
 * `n_bytes`. Returns false if there is no cache folder or the path does not
 * fit. */
bool vp_tuned_path(const char *name, char *out, size_t n_bytes);

/* Finds the value that was added last for `key`. Returns false if there is none
 * or it does not fit `n_bytes`. */
bool vp_tuned_find(const char *path, const char *key, char *value_out,
                   size_t n_bytes);

/* Appends an entry and creates missing folders of `path`. `key` must not
 * contain a tab, and neither may contain a line break. Several processes may
 * append at once. An entry that cannot be written is dropped without an error.
 * A file of more than half of VP_FILE_MAX_BYTES is emptied first. */
void vp_tuned_add(const char *path, const char *key, const char *value);

#endif
