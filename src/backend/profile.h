/* What a backend tells of its time. */
#ifndef VP_BACKEND_PROFILE_H
#define VP_BACKEND_PROFILE_H

enum { VP_PROFILE_ROWS = 64 };

struct vp_profile_row {
    char name[96]; /* "linear.F", or of calls that ran together */
    int count;
    double seconds, flops;
    double bytes; /* every tensor once */
};

#endif
