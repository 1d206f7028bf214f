/* Copies between a device with memory of its own and pinned memory of the host:
 * how fast they are, and a load of them that computing is measured beside. */
#ifndef VP_RUNTIME_PROFILE_COPIES_H
#define VP_RUNTIME_PROFILE_COPIES_H

#include "device/device.h"

/* Bytes per second: one way at a time, and both ways at once. */
struct vp_copy_rates {
    double out, in, out_both, in_both;
};

/* Rates of large copies; all 0 if the device uses memory of the host. */
enum vp_status vp_copies_measure(struct vp_device *device, int timeout_ms,
                                 struct vp_copy_rates *rates_out);

/* A thread that keeps the copy engines of a device busy, both ways. */
struct vp_copy_load;

enum vp_status vp_copy_load_start(struct vp_device *device,
                                  struct vp_copy_load **out);
/* Ends the thread and frees the load; the first error of a copy. */
enum vp_status vp_copy_load_stop(struct vp_copy_load *load);

/* Bytes per second of copies within memory of the host, as messages make them
 * that go through it. */
double vp_copies_host_rate(void);

#endif
