/* The memory of one stage, by what it is for. */
#ifndef VP_PLAN_MEMORY_H
#define VP_PLAN_MEMORY_H

#include <stdint.h>

/* Bytes of one stage: what was planned is what is allocated. */
struct vp_memory {
    int64_t weights; /* all versions */
    int64_t gradients;
    int64_t moments;     /* and the master beside weights of 16 bits */
    int64_t activations; /* slots, and the working set of recomputation */
    int64_t cache;       /* keys and values of earlier positions */
    int64_t boundary;    /* buffers for messages that arrive */
    int64_t work;        /* temporaries inside a list */
    int64_t total;
};

/* The parts that are not 0: "weights 4 MiB, gradients 976 KiB". */
enum { VP_MEMORY_TEXT = 256 };
void vp_memory_text(const struct vp_memory *m, char out[VP_MEMORY_TEXT]);

#endif
