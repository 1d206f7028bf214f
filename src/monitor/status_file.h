/* Writes and reads status.json: the state of a run, replaced about once a
 * second. */
#ifndef VP_MONITOR_STATUS_FILE_H
#define VP_MONITOR_STATUS_FILE_H

#include "base/strbuf.h"
#include "monitor/live.h"

#define VP_STATUS_FILE "status.json"

/* Appends the JSON object and a line feed. */
void vp_status_print(const struct vp_live *live, struct vp_strbuf *out);

/* Reads status.json of the run folder `folder`. Returns VP_ERR_IO if there is
 * none, VP_ERR_INVALID if it is incomplete or malformed. Ignores unknown keys,
 * and replaces control characters in texts by '?'. Release with
 * vp_status_release(). */
enum vp_status vp_status_read(const char *folder, struct vp_live *out,
                              struct vp_err *err);
/* The same for bytes in memory; messages begin with `name`. */
enum vp_status vp_status_parse(const char *name, const char *bytes,
                               size_t n_bytes, struct vp_live *out,
                               struct vp_err *err);
void vp_status_release(struct vp_live *live);

#endif
