/* What a rank did and when: a ring of the last actions, always on. One rank,
 * one recorder: only its thread adds; others read while it is idle. */
#ifndef VP_TRACE_RECORDER_H
#define VP_TRACE_RECORDER_H

#include "base/status.h"
#include "sched/schedule.h"

#include <stdbool.h>
#include <stdint.h>

/* One executed action; 32 bytes. */
struct vp_trace_event {
    int64_t start_ns, end_ns; /* vp_clock_ns() */
    int64_t wait_ns;          /* inside it: for a credit, a message, a group */
    int32_t mb;               /* of the run; REDUCE, UPDATE: round of the run */
    int16_t stage;
    uint8_t kind; /* enum vp_action_kind */
    bool eval;    /* of an evaluation: nothing is kept for a B */
};

struct vp_recorder {
    struct vp_trace_event *events;
    uint64_t mask;   /* capacity - 1 */
    uint64_t n;      /* added so far; the last `capacity` are kept */
    int64_t plan_ns; /* when the run got another plan; 0: it has its first */
};

/* `capacity` >= 1 events; rounded up to a power of two. */
enum vp_status vp_recorder_create(int64_t capacity, struct vp_recorder **out);
void vp_recorder_free(struct vp_recorder *recorder);

/* No lock, no allocation. Actions of a rank follow each other: `event` begins
 * no earlier than the one before it ended. */
static inline void vp_recorder_add(struct vp_recorder *recorder,
                                   struct vp_trace_event event)
{
    recorder->events[recorder->n++ & recorder->mask] = event;
}

#endif
