/* Identity and name of the machine that this process runs on. */
#ifndef VP_BASE_MACHINE_H
#define VP_BASE_MACHINE_H

#include <stddef.h>

/* Writes one word that two processes share exactly if a pid names the same
 * process for both: boot id of the kernel and PID namespace. */
void vp_machine_id(char *out, size_t n_bytes);
/* Writes the host name, cut to `n_bytes`; "localhost" if there is none. */
void vp_machine_name(char *out, size_t n_bytes);

#endif
