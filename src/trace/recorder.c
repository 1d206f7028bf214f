/* Memory of a recorder's ring buffer. */
#include "trace/recorder.h"

#include <stdlib.h>

enum { MAX_CAPACITY = 1 << 24 };

enum vp_status vp_recorder_create(int64_t capacity, struct vp_recorder **out)
{
    struct vp_recorder *recorder;
    uint64_t n = 1;

    VP_BUG_ON(capacity < 1 || capacity > MAX_CAPACITY);
    while (n < (uint64_t)capacity)
        n *= 2;
    recorder = calloc(1, sizeof(*recorder));
    if (!recorder)
        return VP_ERR_NOMEM;
    recorder->events = calloc(n, sizeof(*recorder->events));
    if (!recorder->events) {
        free(recorder);
        return VP_ERR_NOMEM;
    }
    recorder->mask = n - 1;
    *out = recorder;
    return VP_OK;
}

void vp_recorder_free(struct vp_recorder *recorder)
{
    if (recorder)
        free(recorder->events);
    free(recorder);
}
