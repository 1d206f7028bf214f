/* Names, letters and colours of events. */
#include "trace/trace.h"

#include "trace/internal.h"

#include <stdio.h>

static const struct vp_look eval_look = { "evaluation", 'E', VP_HUE_EVAL };

static bool is_eval(const struct vp_trace_event *event)
{
    return event->eval && event->kind == VP_ACTION_F;
}

const struct vp_look *vp_event_look(const struct vp_trace_event *event)
{
    return is_eval(event) ? &eval_look : vp_action_look(event->kind);
}

const char *vp_event_word(const struct vp_trace_event *event)
{
    return is_eval(event) ? "E" : vp_action_kind_name(event->kind);
}

int vp_trace_looks(const struct vp_trace *trace,
                   const struct vp_look *out[VP_MAX_LOOKS])
{
    bool used[VP_ACTION_KIND_COUNT] = { false }, has_eval = false;
    int n = 0;

    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; i < trace->ranks[r].n_events; i++) {
            const struct vp_trace_event *event = &trace->ranks[r].events[i];

            if (is_eval(event))
                has_eval = true;
            else
                used[event->kind] = true;
        }
    for (int k = 0; k < VP_ACTION_KIND_COUNT; k++) {
        const struct vp_look *look = vp_action_look((enum vp_action_kind)k);

        if (used[k] && look->meaning)
            out[n++] = look;
    }
    if (has_eval)
        out[n++] = &eval_look;
    return n;
}

void vp_trace_list_stages(const struct vp_trace *trace, int rank, char *text,
                          size_t n_bytes)
{
    size_t n = 0;
    int n_found = 0;

    text[0] = '\0';
    for (int s = 0; s < trace->n_stages; s++)
        n_found += vp_trace_has_stage(trace, rank, s);
    for (int s = 0, i = 0; s < trace->n_stages && n < n_bytes; s++)
        if (vp_trace_has_stage(trace, rank, s))
            n += (size_t)snprintf(text + n, n_bytes - n, "%s%d",
                                  i++ > 0       ? ", "
                                  : n_found > 1 ? "stages "
                                                : "stage ",
                                  s);
}
