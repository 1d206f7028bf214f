/* Copies between a device with its own memory and pinned host memory: their
 * rates, and a background load of copies beside which computing is measured. */
#ifndef VP_RUNTIME_PROFILE_COPIES_H
#define VP_RUNTIME_PROFILE_COPIES_H

#include "device/device.h"

/* Bytes per second: one way at a time, and both ways at once. */
struct vp_copy_rates {
    double out, in, out_both, in_both;
};

/* Measures rates of large copies; all 0 if the device uses host memory. */
enum vp_status vp_copies_measure(struct vp_device *device, int timeout_ms,
                                 struct vp_copy_rates *rates_out);

/* A thread that keeps the copy engines of a device busy in both directions. */
struct vp_copy_load;

enum vp_status vp_copy_load_start(struct vp_device *device,
                                  struct vp_copy_load **out);
/* Ends the thread and frees the load. Returns the first error of a copy. */
enum vp_status vp_copy_load_stop(struct vp_copy_load *load);

/* Returns the bytes per second of copies within host memory, as for messages
 * through the host. */
double vp_copies_host_rate(void);

#endif
