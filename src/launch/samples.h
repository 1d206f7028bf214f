/* The data of a run: read by the ranks of the first stage, known to all.
 * Private to launch. */
#ifndef VP_LAUNCH_SAMPLES_H
#define VP_LAUNCH_SAMPLES_H

#include "comm/comm.h"
#include "data/data.h"
#include "launch/checkpoint.h"
#include "launch/config.h"

struct vp_samples {
    struct vp_data *train;
    struct vp_data *eval; /* NULL: the run does not evaluate */
    bool agreed;          /* all processes know that opening failed */
};

/* All processes of the world come here; NULL: there is one. `dims` is borrowed.
 * To be closed after a failure, too. A process that reads files calls `notice`
 * with the lines of vp_data_notice(). */
enum vp_status vp_samples_open(const struct vp_config *config,
                               struct vp_world *world,
                               const struct vp_dims *dims, int n_dims,
                               vp_notice_fn notice, void *ctx,
                               struct vp_samples *out, struct vp_err *err);
void vp_samples_close(struct vp_samples *samples);

#endif
