/* Times work on a device, with the device's own clock if it is asynchronous. */
#ifndef VP_RUNTIME_PROFILE_STOPWATCH_H
#define VP_RUNTIME_PROFILE_STOPWATCH_H

#include "device/device.h"

enum { VP_STOPWATCH_LAPS = 128 };

struct vp_stopwatch {
    struct vp_event **events; /* NULL: the device is synchronous */
    int64_t ns[VP_STOPWATCH_LAPS + 1];
    int n;
};

enum vp_status vp_stopwatch_init(struct vp_stopwatch *watch,
                                 struct vp_device *device);
void vp_stopwatch_release(struct vp_stopwatch *watch);

/* Drops all laps and marks the start of the first. */
enum vp_status vp_stopwatch_start(struct vp_stopwatch *watch,
                                  struct vp_stream *stream);
/* Marks the end of a lap; at most VP_STOPWATCH_LAPS laps. */
enum vp_status vp_stopwatch_lap(struct vp_stopwatch *watch,
                                struct vp_stream *stream);
/* Waits up to `timeout_ms` for the last mark. Then lap i lasts from ns[i] to
 * ns[i + 1], in nanoseconds. */
enum vp_status vp_stopwatch_read(struct vp_stopwatch *watch, int timeout_ms);

#endif
