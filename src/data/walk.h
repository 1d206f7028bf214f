/* Reads the text files below a path into one buffer. */
#ifndef VP_DATA_WALK_H
#define VP_DATA_WALK_H

#include "data/names.h"
#include "data/text_file.h"

/* The extensions of the files that are taken from a folder, with a space
 * between them. */
extern const char *const vp_text_extensions;
/* Whether `name` ends in one of `extensions`, a list like the one above; .gz or
 * .zst may follow it. */
bool vp_text_has_extension(const char *name, const char *extensions);

/* A file is taken whatever its name, but for files of token ids, which are
 * refused (foreign.h). A folder is walked in the byte order of names; files with
 * a known extension are taken, files of token ids refused, others counted in
 * text->skipped, and so are folders whose name begins with "build", symbolic
 * links and special files. Hidden names are passed over. `replace`: see
 * text_file.h. Release with vp_text_release(), also after an error. */
enum vp_status vp_text_read(const char *path, bool replace,
                            struct vp_text *text, struct vp_err *err);
/* Adds the paths of these files to `paths`, which the caller releases, also after
 * an error. There is at least one. */
enum vp_status vp_text_list(const char *path, struct vp_names *paths,
                            struct vp_err *err);
/* The same as vp_text_read(), with the key of texts in lines of JSON; NULL: "text". */
enum vp_status vp_text_read_key(const char *path, bool replace,
                                const char *json_key, struct vp_text *text,
                                struct vp_err *err);

#endif
