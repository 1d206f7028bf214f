/* The identity is the kernel's boot id and the PID namespace of this
 * process. */
#include "base/machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void vp_machine_id(char *out, size_t n_bytes)
{
    char boot[40] = "?", pid_ns[40] = "?";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    ssize_t n = readlink("/proc/self/ns/pid", pid_ns, sizeof(pid_ns) - 1);

    if (n > 0)
        pid_ns[n] = '\0';
    if (f) {
        if (!fgets(boot, sizeof(boot), f))
            boot[0] = '?';
        fclose(f);
    }
    boot[strcspn(boot, "\n ")] = '\0';
    snprintf(out, n_bytes, "%s/%s", boot, pid_ns);
}

void vp_machine_name(char *out, size_t n_bytes)
{
    if (gethostname(out, n_bytes) != 0 || out[0] == '\0')
        snprintf(out, n_bytes, "localhost");
    out[n_bytes - 1] = '\0';
}
