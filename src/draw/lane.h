/* One row of a timeline in the terminal: labelled boxes for actions, dots for
 * idle time. */
#ifndef VP_DRAW_LANE_H
#define VP_DRAW_LANE_H

#include "base/strbuf.h"

/* One column of the row. */
struct vp_lane_cell {
    char c;
    short ansi; /* background, one of 256 colours; 0: idle */
};

struct vp_lane {
    struct vp_lane_cell *cells;
    int n_cells;
};

/* Allocates the row; vp_lane_clear() must follow. Returns VP_ERR_NOMEM if
 * memory is exhausted. */
enum vp_status vp_lane_init(struct vp_lane *lane, int n_cells);
void vp_lane_release(struct vp_lane *lane);

/* Makes all columns idle. */
void vp_lane_clear(struct vp_lane *lane);
/* Draws a box over the columns [begin, end), with `letter` and, if it fits,
 * `number`. */
void vp_lane_box(struct vp_lane *lane, int begin, int end, short ansi,
                 char letter, int number);
/* Appends the row, with escape sequences for colours if `colour` is true. */
void vp_lane_print(const struct vp_lane *lane, bool colour,
                   struct vp_strbuf *out);
/* Appends an entry of a legend: "F forward". */
void vp_lane_key(short ansi, char letter, const char *meaning, bool colour,
                 struct vp_strbuf *out);

#endif
