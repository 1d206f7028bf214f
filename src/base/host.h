/* Facts about the host and this process: memory that is left, the program. */
#ifndef VP_BASE_HOST_H
#define VP_BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes that the process may still take before something is killed: what the
 * kernel can give, swap included, and no more than its control groups allow.
 * SIZE_MAX where nothing says. Files are read below the folder `root`: "" but
 * for tests. */
size_t vp_host_memory(const char *root);

/* The absolute path of the running program: from /proc, or without that as the
 * kernel was given it. False if it is not known or does not fit. */
bool vp_program_path(char *out, size_t n_bytes);

#endif
