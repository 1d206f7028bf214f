/* Walks a folder and reads its text files into one buffer. */
#ifndef VP_DATA_WALK_H
#define VP_DATA_WALK_H

#include "data/names.h"
#include "data/text_file.h"

/* The extensions of files that are taken from a folder, separated by spaces. */
extern const char *const vp_text_extensions;
/* Returns true if `name`, without .gz or .zst at its end, ends in one of
 * `extensions`, a list like vp_text_extensions. */
bool vp_text_has_extension(const char *name, const char *extensions);

/* Reads the file or folder `path` into `text`. A single file is taken whatever
 * its name, except token files, which are refused (foreign.h). A folder is
 * walked in the byte order of names: files with a known extension are taken,
 * token files refused; other files, folders whose name begins with "build",
 * symbolic links and special files are counted in text->skipped. Hidden names
 * are ignored. `replace`: see text_file.h. Release with vp_text_release(), also
 * after an error. */
enum vp_status vp_text_read(const char *path, bool replace,
                            struct vp_text *text, struct vp_err *err);
/* Adds the paths of the files that vp_text_read() would take to `paths`, which
 * the caller releases, also after an error. Returns an error if there are
 * none. */
enum vp_status vp_text_list(const char *path, struct vp_names *paths,
                            struct vp_err *err);
/* Like vp_text_read(), with the key of the text in JSONL; NULL: "text". */
enum vp_status vp_text_read_key(const char *path, bool replace,
                                const char *json_key, struct vp_text *text,
                                struct vp_err *err);

#endif
