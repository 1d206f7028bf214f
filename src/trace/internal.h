/* What the files of this folder share: how kinds are named and painted. */
#ifndef VP_TRACE_INTERNAL_H
#define VP_TRACE_INTERNAL_H

#include "trace/trace.h"

#include <stdio.h>

/* Rows of the look table: the kinds of actions, and evaluation. */
enum { VP_LOOK_EVAL = VP_ACTION_KIND_COUNT, VP_LOOK_COUNT };

/* Same colours as the drawings of schedules. */
struct vp_look {
    const char *word;    /* in files: the name of an event begins with it */
    const char *meaning; /* in legends; NULL: not drawn */
    char letter;         /* in the terminal */
    const char *fill[3]; /* one per stage of a rank, the last for the rest */
    short shade[2];      /* 256-colour background; even and odd minibatches */
};

extern const struct vp_look vp_looks[VP_LOOK_COUNT];

static inline int vp_look_of(const struct vp_trace_event *event)
{
    return event->eval && event->kind == VP_ACTION_F ? VP_LOOK_EVAL
                                                     : event->kind;
}

/* Cuts between characters of UTF-8. */
void vp_trace_set_name(struct vp_trace *trace, const char *name);

/* Empty ranks and stages; VP_ERR_NOMEM leaves nothing behind. */
enum vp_status vp_trace_init(struct vp_trace *trace, int n_ranks, int n_stages);

/* Ends a text written with open_memstream(): gives it away, or frees it. */
enum vp_status vp_trace_close_text(FILE *f, char **text, char **text_out);

#endif
