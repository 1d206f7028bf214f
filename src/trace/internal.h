/* What the files of this folder share. */
#ifndef VP_TRACE_INTERNAL_H
#define VP_TRACE_INTERNAL_H

#include "base/status.h"
#include "sched/look.h"

struct vp_trace;
struct vp_trace_event;

/* How an event is drawn. An evaluation's forward looks different. */
const struct vp_look *vp_event_look(const struct vp_trace_event *event);
/* What the name of an event begins with, in files. */
const char *vp_event_word(const struct vp_trace_event *event);

/* The looks of all events in a trace, in the order of a legend: those of actions,
 * then evaluation. Returns how many there are. */
enum { VP_MAX_LOOKS = VP_ACTION_KIND_COUNT + 1 };
int vp_trace_looks(const struct vp_trace *trace,
                   const struct vp_look *out[VP_MAX_LOOKS]);

/* Cuts between characters of UTF-8. */
void vp_trace_set_name(struct vp_trace *trace, const char *name);

/* Empty ranks and stages; VP_ERR_NOMEM leaves nothing behind. */
enum vp_status vp_trace_init(struct vp_trace *trace, int n_ranks, int n_stages);

#endif
