/* Counts the files that a reader skips, by the extension of their names, so
 * that a run can report them. */
#ifndef VP_DATA_SKIPPED_H
#define VP_DATA_SKIPPED_H

#include <stddef.h>
#include <stdint.h>

enum { VP_SKIPPED_KINDS = 32, VP_SKIPPED_NAME = 20 };

struct vp_skipped {
    struct {
        char name[VP_SKIPPED_NAME]; /* ".rst", "symbolic links" */
        int64_t n;
    } kind[VP_SKIPPED_KINDS];
    int n_kinds;
    int64_t n_files; /* files of all kinds, also beyond VP_SKIPPED_KINDS */
};

/* Counts a file by its extension if that is short and has only letters, digits
 * and "_+-"; otherwise as "no extension" or "other names". */
void vp_skipped_add(struct vp_skipped *skipped, const char *file_name);
/* Counts an entry that is not a regular file as `kind`, a name shorter than
 * VP_SKIPPED_NAME. */
void vp_skipped_add_kind(struct vp_skipped *skipped, const char *kind);
/* Returns the count of `kind`, 0 if there is none. */
int64_t vp_skipped_count(const struct vp_skipped *skipped, const char *kind);

/* Writes ".png 9, .rst 3": the most frequent kinds first, equal counts in the
 * byte order of their names; kinds after the tenth as "others 5". Cuts the text
 * to `n_bytes` including its NUL. */
void vp_skipped_print(const struct vp_skipped *skipped, char *out,
                      size_t n_bytes);

#endif
