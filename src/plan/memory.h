/* The memory of one stage, by purpose. */
#ifndef VP_PLAN_MEMORY_H
#define VP_PLAN_MEMORY_H

#include <stdint.h>

/* Bytes of one stage. The runtime allocates exactly the planned bytes. */
struct vp_memory {
    int64_t weights; /* all versions */
    int64_t gradients;
    int64_t moments;     /* and the master of 16-bit weights, see optim.h */
    int64_t activations; /* slots, and the results that recomputation writes */
    int64_t cache;       /* keys and values of earlier positions */
    int64_t boundary;    /* buffers of arriving messages */
    int64_t work;        /* temporaries within a list of calls */
    int64_t total;
};

/* Writes the parts that are not 0, for example "weights 4 MiB, gradients 976
 * KiB". */
enum { VP_MEMORY_TEXT = 256 };
void vp_memory_text(const struct vp_memory *m, char out[VP_MEMORY_TEXT]);

#endif
