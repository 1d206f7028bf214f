/* The message for a file or folder that cannot be read. */
#include "data/unreadable.h"

#include <errno.h>
#include <string.h>

enum vp_status vp_text_fail_errno(const char *path, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_IO,
                      "%s: cannot be read: %s; change its permissions or set "
                      "data_dir to a readable file or folder",
                      path, strerror(errno));
}
