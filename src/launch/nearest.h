/* Which known word was meant? */
#ifndef VP_LAUNCH_NEAREST_H
#define VP_LAUNCH_NEAREST_H

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b.
 * Words beyond 63 characters count as far from everything. */
int vp_edit_distance(const char *a, const char *b);

/* The index of the name that `word` was probably meant to be, or -1 when none
 * is near. Upper case and '-' for '_' do not count as differences; a whole
 * known name inside the word, or the word inside a name, is near. */
int vp_nearest(const char *word, const char *const *names, int n_names);

#endif
