/* Where new pages of a thread go on machines with several NUMA nodes. */
#ifndef VP_BASE_NUMA_H
#define VP_BASE_NUMA_H

enum { VP_NUMA_MAX_NODES = 1024 };

/* What a thread preferred before vp_numa_prefer(). */
struct vp_numa_policy {
    int mode; /* -1: nothing was changed */
    unsigned long nodes[VP_NUMA_MAX_NODES / (8 * sizeof(unsigned long))];
};

/* The node that a PCI device ("0000:41:00.0", capital letters too) is attached
 * to; -1 if the kernel does not say. Reads below the folder `root`: "" but for
 * tests. */
int vp_numa_node_of_pci(const char *root, const char *address);

/* The calling thread takes new pages from `node` while that has some; -1, or a
 * kernel without NUMA, changes nothing. Undo with vp_numa_restore(). */
void vp_numa_prefer(int node, struct vp_numa_policy *before_out);
void vp_numa_restore(const struct vp_numa_policy *before);

#endif
