/* Time that a backend spent per kind of call, and idle gaps; for benchmarks. */
#ifndef VP_BACKEND_PROFILE_H
#define VP_BACKEND_PROFILE_H

enum { VP_PROFILE_ROWS = 96, VP_PROFILE_GAPS = 4 };

enum vp_profile_kind {
    VP_PROFILE_PRODUCT, /* limited by arithmetic */
    VP_PROFILE_BOTH,    /* limited by arithmetic and memory bandwidth */
    VP_PROFILE_MEMORY,  /* limited by memory bandwidth */
    VP_PROFILE_OTHER,   /* outside of calls: copies from the host, scalars */
};

struct vp_profile_row {
    char name[96]; /* such as "dropout.B"; several names if calls were fused */
    enum vp_profile_kind kind;
    int count;      /* number of calls */
    double seconds; /* device time of all these calls */
    double flops;
    double bytes;     /* traffic if each tensor is read and written once */
    double alone;     /* seconds of `count` such products, each run alone: the
                         best time */
    double at_length; /* likewise, run back to back without a pause */
};

/* An interval in which the GPU was idle. */
struct vp_profile_gap {
    double seconds;
    char before[40], after[40]; /* names of the kernels around it */
};

struct vp_profile {
    /* Per kind of call. If only gaps were measured, rows[0] has the time of
     * all. */
    struct vp_profile_row rows[VP_PROFILE_ROWS];
    int n_rows;
    double window; /* seconds from the first kernel to the end of the last */
    double busy;   /* seconds in which at least one kernel was running */
    struct vp_profile_gap
        gaps[VP_PROFILE_GAPS]; /* the longest ones, in descending order */
    int n_gaps;                /* number of all gaps longer than 10 us */
    int n_kernels;
};

#endif
