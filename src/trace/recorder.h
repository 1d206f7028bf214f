/* Records the last actions of a rank in a ring buffer, always on. Each rank has
 * one recorder: only its thread adds events, and other threads read them while
 * the rank is idle. */
#ifndef VP_TRACE_RECORDER_H
#define VP_TRACE_RECORDER_H

#include "base/status.h"
#include "sched/schedule.h"

#include <stdbool.h>
#include <stdint.h>

/* One executed action; 32 bytes. */
struct vp_trace_event {
    int64_t start_ns, end_ns; /* vp_clock_ns() */
    int64_t wait_ns;          /* part of it: waits for a credit, message,
                                 group */
    int32_t mb;               /* minibatch of the run; REDUCE, UPDATE: round */
    int16_t stage;
    uint8_t kind; /* enum vp_action_kind */
    bool eval;    /* part of an evaluation: no backward follows */
};

struct vp_recorder {
    struct vp_trace_event *events;
    uint64_t mask;   /* capacity - 1 */
    uint64_t n;      /* events added so far; the last mask + 1 are kept */
    int64_t plan_ns; /* time of the last move to another plan; 0: none */
};

/* `capacity`, 1 to 2^24 events, is rounded up to a power of two. */
enum vp_status vp_recorder_create(int64_t capacity, struct vp_recorder **out);
void vp_recorder_free(struct vp_recorder *recorder);

/* Adds an event without lock or allocation. `event` must not begin before the
 * last event ended. */
static inline void vp_recorder_add(struct vp_recorder *recorder,
                                   struct vp_trace_event event)
{
    recorder->events[recorder->n++ & recorder->mask] = event;
}

#endif
