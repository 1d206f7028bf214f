/* When the device did what its rank gave it. A rank runs ahead of a device that
 * lags, so its own times say nothing: events around every action are read when
 * the device has passed them, and only then the action is recorded. Nothing
 * waits for that, and nothing is allocated.
 *
 * An action begins where the device has all it needs: done with the one before,
 * and its messages there. What lies between two actions is waiting, and goes to
 * the receive that ended it. */
#ifndef VP_RUNTIME_RANK_DEVICE_LOG_H
#define VP_RUNTIME_RANK_DEVICE_LOG_H

#include "runtime/rank/rank_state.h"

/* `*out` stays NULL if the device is not asynchronous. */
enum vp_status vp_device_log_create(struct vp_device *device,
                                    struct vp_device_log **out);
void vp_device_log_free(struct vp_device_log *log);

/* All of these do nothing for a rank without a log (catch_up: returns 0). */

/* The rank begins an action; or goes on with it, after a wait of the host or of
 * the device: what it gives the device from here on is the action. */
void vp_device_log_begin(struct vp_rank *rank, const struct vp_action *action);
/* The action was given to the device. `event` is what the host knows of it. */
void vp_device_log_end(struct vp_rank *rank, const struct vp_action *action,
                       const struct vp_trace_event *event);
/* Records what the device has passed by now. Returns where the last recorded
 * action ended, by the host's clock; 0: none was, since the last flush. */
int64_t vp_device_log_catch_up(struct vp_rank *rank);
/* The device has done everything: all actions are recorded. */
void vp_device_log_flush(struct vp_rank *rank);

#endif
