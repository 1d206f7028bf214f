/* The message for a file or folder that cannot be read. */
#ifndef VP_DATA_UNREADABLE_H
#define VP_DATA_UNREADABLE_H

#include "base/status.h"

/* Sets an error with the reason from errno. Returns VP_ERR_IO. */
enum vp_status vp_text_fail_errno(const char *path, struct vp_err *err);

#endif
