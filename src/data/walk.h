/* Reads the text files below a path into one buffer. */
#ifndef VP_DATA_WALK_H
#define VP_DATA_WALK_H

#include "base/status.h"

#include <stdint.h>

/* Text is held in memory; more than this is refused. */
#define VP_TEXT_MAX_BYTES (INT64_C(1) << 30)

struct vp_text {
    unsigned char *bytes;
    int64_t n_bytes;
    int64_t room;
    int n_files;
};

/* A file is taken whatever its name. A folder is walked in the byte order of
 * names; files with a known extension are taken; hidden names, folders whose
 * name begins with "build" and symbolic links are passed over. A file without
 * a final newline gets one. Release with vp_text_release(), also after an
 * error. */
enum vp_status vp_text_read(const char *path, struct vp_text *text,
                            struct vp_err *err);
void vp_text_release(struct vp_text *text);

#endif
