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

/* Bytes that the process may still map before its limits of address space and
 * data (ulimit -v, ulimit -d) are reached. SIZE_MAX without limits. `root` as
 * above. */
size_t vp_host_address_space(const char *root);
/* Where there is such a limit, threads share two arenas of malloc(): by default
 * each one reserves VP_HOST_ARENA_BYTES. Called before threads are started. */
#define VP_HOST_ARENA_BYTES ((size_t)64 << 20)
enum { VP_HOST_ARENAS = 2 };
void vp_host_share_arenas(void);

/* The absolute path of the running program: from /proc, or without that as the
 * kernel was given it. False if it is not known or does not fit. */
bool vp_program_path(char *out, size_t n_bytes);

#endif
