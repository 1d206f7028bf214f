/* How much memory the host has left for a process. */
#ifndef VP_BASE_HOST_H
#define VP_BASE_HOST_H

#include <stddef.h>

/* Bytes that the process may still take before something is killed: what the
 * kernel can give, swap included, and no more than its control groups allow.
 * SIZE_MAX where nothing says. Files are read below the folder `root`: "" but
 * for tests. */
size_t vp_host_memory(const char *root);

#endif
