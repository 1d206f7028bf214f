/* The timeline in a run folder: trace.json, for Perfetto and Chrome, and
 * timeline.svg. Written at the end of a run. A resumed run removes the old
 * files from its folder, and writes new ones as soon as enough minibatches are
 * done, so that `vpipe trace` never shows an old timeline for a live run. */
#ifndef VP_RUN_TIMELINE_H
#define VP_RUN_TIMELINE_H

#include "config/config.h"
#include "run/summary.h"
#include "runtime/trainer/trainer.h"

/* Writes both files, and cuts `trace` to the part that the picture shows. Each
 * file is replaced by a rename, because another process may read it at the same
 * time. */
enum vp_status vp_timeline_write(const char *folder, struct vp_trace *trace,
                                 struct vp_err *err);

/* When to draw the timeline of a live run. All zero: never. */
struct vp_timeline {
    int64_t due; /* first step after which it can be drawn; 0: never */
};

/* For a run that is resumed in summary->output and has steps left: removes both
 * files, and schedules new ones. */
void vp_timeline_renew(struct vp_timeline *timeline,
                       const struct vp_config *config,
                       const struct vp_run_summary *summary);
/* Returns true if the trainer should become idle to be drawn. */
bool vp_timeline_is_due(const struct vp_timeline *timeline, int64_t step);
/* Draws the timeline of a trainer that is idle after `step`, if that is due;
 * only once. */
enum vp_status vp_timeline_draw(struct vp_timeline *timeline,
                                const struct vp_run_summary *summary,
                                struct vp_trainer *trainer, int64_t step,
                                struct vp_err *err);

#endif
