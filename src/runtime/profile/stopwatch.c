/* Times laps of work with events of the device, or with the host's clock. */
#include "runtime/profile/stopwatch.h"

#include "base/clock.h"

#include <stdlib.h>

enum vp_status vp_stopwatch_init(struct vp_stopwatch *watch,
                                 struct vp_device *device)
{
    *watch = (struct vp_stopwatch){ .events = NULL };
    if (!vp_device_is_async(device))
        return VP_OK;
    watch->events = calloc(VP_STOPWATCH_LAPS + 1, sizeof(struct vp_event *));
    if (!watch->events)
        return VP_ERR_NOMEM;
    for (int i = 0; i <= VP_STOPWATCH_LAPS; i++)
        VP_TRY(vp_event_create_timed(device, &watch->events[i]));
    return VP_OK;
}

void vp_stopwatch_release(struct vp_stopwatch *watch)
{
    for (int i = 0; watch->events && i <= VP_STOPWATCH_LAPS; i++)
        vp_event_free(watch->events[i]);
    free(watch->events);
    watch->events = NULL;
}

static enum vp_status mark(struct vp_stopwatch *watch, struct vp_stream *stream)
{
    if (watch->events)
        return vp_event_record(watch->events[watch->n], stream);
    watch->ns[watch->n] = vp_clock_ns();
    return VP_OK;
}

enum vp_status vp_stopwatch_start(struct vp_stopwatch *watch,
                                  struct vp_stream *stream)
{
    watch->n = 0;
    return mark(watch, stream);
}

enum vp_status vp_stopwatch_lap(struct vp_stopwatch *watch,
                                struct vp_stream *stream)
{
    VP_BUG_ON(watch->n == VP_STOPWATCH_LAPS);
    watch->n++;
    return mark(watch, stream);
}

enum vp_status vp_stopwatch_read(struct vp_stopwatch *watch, int timeout_ms)
{
    if (!watch->events)
        return VP_OK;
    VP_TRY(vp_event_sync(watch->events[watch->n], timeout_ms));
    for (int i = 0; i <= watch->n; i++)
        if (!vp_event_time(watch->events[i], &watch->ns[i]))
            return VP_ERR_TIMEOUT;
    return VP_OK;
}
