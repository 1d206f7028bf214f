/* Facts about the host and this process: available memory and address space,
 * the path of the program. */
#ifndef VP_BASE_HOST_H
#define VP_BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the bytes of memory that the process may still use: the smaller of
 * what the kernel has available, with swap, and memory.max of the process's
 * control groups. SIZE_MAX if the kernel does not report it. Tests pass the
 * folder below which /proc and /sys are read as `root`; others pass "". */
size_t vp_host_memory(const char *root);

/* Returns the bytes that the process may still map before it reaches its limits
 * of address space and data (ulimit -v, ulimit -d). SIZE_MAX without limits.
 * `root` as above. */
size_t vp_host_address_space(const char *root);
/* If the address space is limited, makes all threads share VP_HOST_ARENAS
 * arenas of malloc(): by default each thread reserves an arena of
 * VP_HOST_ARENA_BYTES. Call it before threads are started. */
#define VP_HOST_ARENA_BYTES ((size_t)64 << 20)
enum { VP_HOST_ARENAS = 2 };
void vp_host_share_arenas(void);

/* Writes the absolute path of the running program: from /proc, or without /proc
 * the path that was given to execve(). Returns false if it is unknown or longer
 * than `n_bytes`. */
bool vp_program_path(char *out, size_t n_bytes);

#endif
