/* Replaces small text files atomically: writes a temporary file, then renames
 * it. */
#ifndef VP_MONITOR_PUBLISH_H
#define VP_MONITOR_PUBLISH_H

#include "base/status.h"

/* Replaces the file `path` by `bytes`; on failure the old file stays. Refuses
 * to replace a device, socket or FIFO. Does not sync: after a crash of the
 * machine the file may have an older text. Does not register its calls in
 * base/blocking.h, where they would count as progress of the run. */
enum vp_status vp_publish(const char *path, const char *bytes, size_t n_bytes,
                          struct vp_err *err);

#endif
