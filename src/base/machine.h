/* Which machine this is. */
#ifndef VP_BASE_MACHINE_H
#define VP_BASE_MACHINE_H

#include <stddef.h>

/* Equal where a pid means the same process: the same running kernel, the same
 * view of its processes. One word. */
void vp_machine_id(char *out, size_t n_bytes);
/* The host's own name for itself. */
void vp_machine_name(char *out, size_t n_bytes);

#endif
