/* Counts the files that a reader does not take, by the extension of their
 * names, so that a run can say what it leaves out. */
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
    int64_t n_files; /* of all kinds */
};

/* Counts a file: by its extension, if that is short and plain, else as "other
 * names". */
void vp_skipped_add(struct vp_skipped *skipped, const char *file_name);
/* Counts something that is no regular file under a name of its own, shorter
 * than VP_SKIPPED_NAME. */
void vp_skipped_add_kind(struct vp_skipped *skipped, const char *kind);
int64_t vp_skipped_count(const struct vp_skipped *skipped, const char *kind);

/* ".png 9, .rst 3": the most frequent kinds first, equal ones in the byte order
 * of their names; the last ones together as "others 5" if there are many. Cut
 * to `n_bytes`. */
void vp_skipped_print(const struct vp_skipped *skipped, char *out,
                      size_t n_bytes);

#endif
