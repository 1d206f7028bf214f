/* The schedule `auto`: a list of actions made for the costs of the stages. */
#ifndef VP_CONFIG_SCHEDULE_AUTO_H
#define VP_CONFIG_SCHEDULE_AUTO_H

#include "config/config.h"

/* Sets config->chunks for `auto`, from the length of the lists with an entry
 * per stage; without such lists, to the most that vp_schedule_auto_make() may
 * choose. config->stages must be known. Does nothing with other schedules. */
void vp_schedule_auto_chunks(struct vp_config *config);

/* Makes the lists of `auto` as config->schedule_text. Sets partition and
 * chunks, if the user gave none, and schedule_v. Costs are the FLOPs of each
 * stage's programs, scaled by schedule_costs, so that all processes of a job
 * make the same lists. */
enum vp_status vp_schedule_auto_make(struct vp_config *config,
                                     const struct vp_graph *graph,
                                     struct vp_err *err);

/* Writes a line about the placement of stages, costs and memory of `auto`;
 * `saved`: the lists are from a checkpoint. Leaves `text` unchanged with other
 * schedules. */
void vp_schedule_auto_describe(const struct vp_config *config, bool saved,
                               char *text, size_t n_bytes);

#endif
