/* Records when the device ran the actions of its rank. A rank runs ahead of an
 * asynchronous device, so the host's times are not those of the work: events
 * are recorded around every action and read after the device has passed them;
 * only then is the action added to the trace. Nothing waits for that, and
 * nothing is allocated.
 *
 * An action begins when the device has finished the one before and the messages
 * of the action have arrived. The time between two actions is waiting, and
 * counts for the receive that ended it. */
#ifndef VP_RUNTIME_RANK_DEVICE_LOG_H
#define VP_RUNTIME_RANK_DEVICE_LOG_H

#include "runtime/rank/rank_state.h"

/* Leaves `*out` unchanged if the device is not asynchronous. */
enum vp_status vp_device_log_create(struct vp_device *device,
                                    struct vp_device_log **out);
void vp_device_log_free(struct vp_device_log *log);

/* The following functions do nothing for a rank without a log (catch_up returns
 * 0). */

/* Starts an action; or continues it after a wait of the host or of the device.
 * Work given to the device from here on belongs to the action. */
void vp_device_log_begin(struct vp_rank *rank, const struct vp_action *action);
/* All work of the action has been given to the device. `event` has the host's
 * times. */
void vp_device_log_end(struct vp_rank *rank, const struct vp_action *action,
                       const struct vp_trace_event *event);
/* Records the actions that the device has finished. Returns the end of the last
 * recorded action by the host's clock; 0: none since the last flush. */
int64_t vp_device_log_catch_up(struct vp_rank *rank);
/* Records all remaining actions. The device must be idle. */
void vp_device_log_flush(struct vp_rank *rank);

#endif
