/* The timeline in a run folder: trace.json, for Perfetto and Chrome, and
 * timeline.svg. It is written at the end of a run. A run that goes on in its
 * folder removes the one it finds there, and writes its own as soon as enough
 * minibatches are done: `vpipe trace` of a live run shows nothing older. */
#ifndef VP_RUN_TIMELINE_H
#define VP_RUN_TIMELINE_H

#include "config/config.h"
#include "run/summary.h"
#include "runtime/trainer/trainer.h"

/* Writes both files, and cuts `trace` to what the picture shows. Each file
 * replaces the one before as a whole: another process may read it meanwhile. */
enum vp_status vp_timeline_write(const char *folder, struct vp_trace *trace,
                                 struct vp_err *err);

/* The timeline of a live run. All zero: there will be none. */
struct vp_timeline {
    int64_t due; /* the first step after which it can be drawn; 0: never */
};

/* A run goes on in summary->output, with steps to do: removes both files, and
 * asks for new ones. */
void vp_timeline_renew(struct vp_timeline *timeline,
                       const struct vp_config *config,
                       const struct vp_run_summary *summary);
/* Whether the trainer should come to rest, to be drawn. */
bool vp_timeline_is_due(const struct vp_timeline *timeline, int64_t step);
/* Draws a trainer that is idle after `step`, once, if that is due. */
enum vp_status vp_timeline_draw(struct vp_timeline *timeline,
                                const struct vp_run_summary *summary,
                                struct vp_trainer *trainer, int64_t step,
                                struct vp_err *err);

#endif
