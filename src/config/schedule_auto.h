/* The schedule `auto` of a configuration: made for the FLOPs of its stages. */
#ifndef VP_CONFIG_SCHEDULE_AUTO_H
#define VP_CONFIG_SCHEDULE_AUTO_H

#include "config/config.h"

/* The chunks of `auto` that follow from the lists with an entry per stage;
 * where they are open, the most that vp_schedule_auto_make() may choose.
 * `stages` must be known. Other schedules: nothing. */
void vp_schedule_auto_chunks(struct vp_config *config);

/* Makes the lists of `auto`, as config->schedule_text; sets partition, chunks
 * and schedule_v where the user left them open. Costs are the FLOPs of each
 * stage's programs, so that all processes of a job make the same lists. */
enum vp_status vp_schedule_auto_make(struct vp_config *config,
                                     const struct vp_graph *graph,
                                     struct vp_err *err);

/* Writes how auto placed the stages, and for what costs and memory; `saved`:
 * the lists are those of a checkpoint. Other schedules leave `text` as it
 * is. */
void vp_schedule_auto_describe(const struct vp_config *config, bool saved,
                               char *text, size_t n_bytes);

#endif
