/* The NUMA node that new pages of a thread are taken from. */
#ifndef VP_BASE_NUMA_H
#define VP_BASE_NUMA_H

enum { VP_NUMA_MAX_NODES = 1024 };

/* The memory policy of a thread before vp_numa_prefer(). */
struct vp_numa_policy {
    int mode; /* -1: nothing was changed */
    unsigned long nodes[VP_NUMA_MAX_NODES / (8 * sizeof(unsigned long))];
};

/* Returns the node of the PCI device `address` ("0000:41:00.0", in either
 * case); -1 if the kernel does not report it. Tests pass the folder below which
 * /sys is read as `root`; others pass "". */
int vp_numa_node_of_pci(const char *root, const char *address);

/* Makes the calling thread take new pages from `node` while that node has free
 * ones. Does nothing if `node` is -1 or the kernel has no NUMA support.
 * vp_numa_restore() undoes it. */
void vp_numa_prefer(int node, struct vp_numa_policy *before_out);
void vp_numa_restore(const struct vp_numa_policy *before);

#endif
