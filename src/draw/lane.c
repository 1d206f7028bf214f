/* Rows of the terminal's timeline, in 256 ANSI colours or plain text. */
#include "draw/lane.h"

#include <stdio.h>
#include <stdlib.h>

enum { IDLE = 0, NONE = -1 };

enum vp_status vp_lane_init(struct vp_lane *lane, int n_cells)
{
    *lane = (struct vp_lane){ .n_cells = n_cells };
    lane->cells = calloc((size_t)n_cells, sizeof(*lane->cells));
    return lane->cells ? VP_OK : VP_ERR_NOMEM;
}

void vp_lane_release(struct vp_lane *lane)
{
    free(lane->cells);
    *lane = (struct vp_lane){ .cells = NULL };
}

void vp_lane_clear(struct vp_lane *lane)
{
    for (int i = 0; i < lane->n_cells; i++)
        lane->cells[i] = (struct vp_lane_cell){ '.', IDLE };
}

void vp_lane_box(struct vp_lane *lane, int begin, int end, short ansi,
                 char letter, int number)
{
    char label[16];
    int n;

    if (end > lane->n_cells)
        end = lane->n_cells;
    n = snprintf(label, sizeof(label), "%c%d", letter, number);
    if (n > end - begin)
        n = 1;
    for (int i = begin; i < end; i++)
        lane->cells[i] = (struct vp_lane_cell){
            .c = (char)(i - begin < n ? label[i - begin] : ' '),
            .ansi = ansi,
        };
}

void vp_lane_print(const struct vp_lane *lane, bool colour,
                   struct vp_strbuf *out)
{
    short ansi = NONE;

    for (int i = 0; i < lane->n_cells; i++) {
        const struct vp_lane_cell *cell = &lane->cells[i];

        if (colour && cell->ansi != ansi) {
            ansi = cell->ansi;
            if (ansi == IDLE)
                vp_strbuf_adds(out, "\x1b[0;38;5;244m");
            else
                vp_strbuf_addf(out, "\x1b[0;38;5;16;48;5;%dm", ansi);
        }
        vp_strbuf_add(out, &cell->c, 1);
    }
    if (colour)
        vp_strbuf_adds(out, "\x1b[0m");
}

void vp_lane_key(short ansi, char letter, const char *meaning, bool colour,
                 struct vp_strbuf *out)
{
    if (colour)
        vp_strbuf_addf(out, "\x1b[38;5;16;48;5;%dm%c\x1b[0m %s", ansi, letter,
                       meaning);
    else
        vp_strbuf_addf(out, "%c %s", letter, meaning);
}
