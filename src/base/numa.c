/* Memory policy of a thread. Uses the two system calls directly instead of
 * libnuma. */
#include "base/numa.h"

#include <ctype.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BITS = 8 * sizeof(unsigned long) };

int vp_numa_node_of_pci(const char *root, const char *address)
{
    char path[512], name[32];
    size_t n = 0;
    FILE *file;
    int node = -1;

    for (; address[n] != '\0' && n + 1 < sizeof(name); n++)
        name[n] = (char)tolower((unsigned char)address[n]);
    name[n] = '\0';
    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/numa_node", root,
             name);
    file = fopen(path, "r");
    if (!file)
        return -1;
    if (fscanf(file, "%d", &node) != 1 || node < 0 || node >= VP_NUMA_MAX_NODES)
        node = -1;
    fclose(file);
    return node;
}

void vp_numa_prefer(int node, struct vp_numa_policy *before_out)
{
    struct vp_numa_policy policy = { .mode = MPOL_PREFERRED };

    before_out->mode = -1;
    memset(before_out->nodes, 0, sizeof(before_out->nodes));
    if (node < 0 || node >= VP_NUMA_MAX_NODES ||
        syscall(SYS_get_mempolicy, &before_out->mode, before_out->nodes,
                (unsigned long)VP_NUMA_MAX_NODES, NULL, 0UL) != 0)
        return;
    policy.nodes[node / BITS] = 1UL << node % BITS;
    if (syscall(SYS_set_mempolicy, policy.mode, policy.nodes,
                (unsigned long)VP_NUMA_MAX_NODES + 1) != 0)
        before_out->mode = -1;
}

void vp_numa_restore(const struct vp_numa_policy *before)
{
    if (before->mode >= 0)
        syscall(SYS_set_mempolicy, before->mode, before->nodes,
                (unsigned long)VP_NUMA_MAX_NODES + 1);
}
