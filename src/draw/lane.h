/* One row of a timeline in the terminal: boxes with labels, dots where nothing
 * is done. */
#ifndef VP_DRAW_LANE_H
#define VP_DRAW_LANE_H

#include "base/strbuf.h"

/* One column. */
struct vp_lane_cell {
    char c;
    short ansi; /* background, 0: nothing is done */
};

struct vp_lane {
    struct vp_lane_cell *cells;
    int n_cells;
};

enum vp_status vp_lane_init(struct vp_lane *lane, int n_cells);
void vp_lane_release(struct vp_lane *lane);

/* Nothing is done anywhere. */
void vp_lane_clear(struct vp_lane *lane);
/* A box over the columns [begin, end): `letter` and, where there is room,
 * `number`. */
void vp_lane_box(struct vp_lane *lane, int begin, int end, short ansi,
                 char letter, int number);
void vp_lane_print(const struct vp_lane *lane, bool colour,
                   struct vp_strbuf *out);
/* An entry of a legend: "F forward". */
void vp_lane_key(short ansi, char letter, const char *meaning, bool colour,
                 struct vp_strbuf *out);

#endif
