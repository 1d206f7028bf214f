/* Functions that the files of this folder share: looks of events, and setting
 * up a trace. */
#ifndef VP_TRACE_INTERNAL_H
#define VP_TRACE_INTERNAL_H

#include "base/status.h"
#include "sched/look.h"

struct vp_trace;
struct vp_trace_event;

/* Returns how an event is drawn. A forward of an evaluation has its own
 * look. */
const struct vp_look *vp_event_look(const struct vp_trace_event *event);
/* Returns the start of an event's name in files: "F", "SEND_ACT", ... */
const char *vp_event_word(const struct vp_trace_event *event);

/* Writes the looks of all events in a trace, in the order of a legend: actions,
 * then evaluation. Returns their number. */
enum { VP_MAX_LOOKS = VP_ACTION_KIND_COUNT + 1 };
int vp_trace_looks(const struct vp_trace *trace,
                   const struct vp_look *out[VP_MAX_LOOKS]);

/* Copies `name`, cut to fit at a character boundary of UTF-8. */
void vp_trace_set_name(struct vp_trace *trace, const char *name);

/* Initialises a trace with empty ranks and stages. Returns VP_OK, or
 * VP_ERR_NOMEM without leaking memory. */
enum vp_status vp_trace_init(struct vp_trace *trace, int n_ranks, int n_stages);

#endif
