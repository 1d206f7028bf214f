/* Times of work on a device, by its own clock where it lags behind its host. */
#ifndef VP_RUNTIME_PROFILE_STOPWATCH_H
#define VP_RUNTIME_PROFILE_STOPWATCH_H

#include "device/device.h"

enum { VP_STOPWATCH_LAPS = 128 };

struct vp_stopwatch {
    struct vp_event **events; /* NULL: the device does its work at once */
    int64_t ns[VP_STOPWATCH_LAPS + 1];
    int n;
};

enum vp_status vp_stopwatch_init(struct vp_stopwatch *watch,
                                 struct vp_device *device);
void vp_stopwatch_release(struct vp_stopwatch *watch);

/* Begins anew: forgets all laps and marks the start of the first. */
enum vp_status vp_stopwatch_start(struct vp_stopwatch *watch,
                                  struct vp_stream *stream);
/* Marks the end of a lap; at most VP_STOPWATCH_LAPS. */
enum vp_status vp_stopwatch_lap(struct vp_stopwatch *watch,
                                struct vp_stream *stream);
/* Waits for the last mark, up to `timeout_ms`. Afterwards ns[i] .. ns[i + 1] is
 * lap i. */
enum vp_status vp_stopwatch_read(struct vp_stopwatch *watch, int timeout_ms);

#endif
