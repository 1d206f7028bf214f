/* Small text files that readers see whole: written beside, then renamed. */
#ifndef VP_MONITOR_PUBLISH_H
#define VP_MONITOR_PUBLISH_H

#include "base/status.h"

/* Replaces the file `path` by these bytes; what is there stays if it fails. A
 * device, a socket or a FIFO is not replaced. Not
 * synced: after a crash of the machine the text may be that of a while ago. Calls
 * are not reported to base/blocking.h, where they would count as progress of the
 * run. */
enum vp_status vp_publish(const char *path, const char *bytes, size_t n_bytes,
                          struct vp_err *err);

#endif
