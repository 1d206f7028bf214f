/* What a backend tells of its time; for benchmarks. */
#ifndef VP_BACKEND_PROFILE_H
#define VP_BACKEND_PROFILE_H

enum { VP_PROFILE_ROWS = 96, VP_PROFILE_GAPS = 4 };

enum vp_profile_kind {
    VP_PROFILE_PRODUCT, /* limited by arithmetic */
    VP_PROFILE_BOTH,    /* by both */
    VP_PROFILE_MEMORY,  /* by bytes */
    VP_PROFILE_OTHER,   /* outside of calls: copies from the host, scalars */
};

struct vp_profile_row {
    char name[96]; /* "dropout.B", or of calls that ran together */
    enum vp_profile_kind kind;
    int count;
    double seconds; /* on the device, of all of them */
    double flops;
    double bytes;     /* each tensor read once and written once */
    double alone;     /* seconds of as many products, each alone, at best */
    double at_length; /* likewise, one after the other without a pause */
};

/* The GPU had nothing to do. */
struct vp_profile_gap {
    double seconds;
    char before[40], after[40]; /* kernels */
};

struct vp_profile {
    struct vp_profile_row rows[VP_PROFILE_ROWS]; /* by call only */
    int n_rows;
    double window; /* seconds from the first kernel to the last */
    double busy;   /* of them: at least one was running */
    struct vp_profile_gap
        gaps[VP_PROFILE_GAPS]; /* the longest, longest first */
    int n_gaps;                /* longer than 10 us, in all */
    int n_kernels;
};

#endif
