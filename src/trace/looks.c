/* Names and colours of actions, and the text around them. */
#include "trace/internal.h"

#include <stdlib.h>

const struct vp_look vp_looks[VP_LOOK_COUNT] = {
    [VP_ACTION_F] = { "F",
                      "forward",
                      'F',
                      { "#3b82f6", "#7fb0fb", "#a9c9fd" },
                      { 75, 111 } },
    [VP_ACTION_R] = { "R",
                      "recompute",
                      'R',
                      { "#8b5cf6", "#b196fa", "#cbb9fc" },
                      { 140, 183 } },
    [VP_ACTION_B] = { "B",
                      "backward",
                      'B',
                      { "#10a37f", "#5cc3a9", "#8fd6c4" },
                      { 78, 115 } },
    [VP_ACTION_W] = { "W",
                      "weight gradient",
                      'W',
                      { "#f2a33a", "#f7c27c", "#fad5a5" },
                      { 179, 222 } },
    [VP_ACTION_SEND_ACT] = { .word = "SEND_ACT" },
    [VP_ACTION_RECV_ACT] = { .word = "RECV_ACT" },
    [VP_ACTION_SEND_GRAD] = { .word = "SEND_GRAD" },
    [VP_ACTION_RECV_GRAD] = { .word = "RECV_GRAD" },
    [VP_ACTION_REDUCE] = { "REDUCE",
                           "reduce",
                           '+',
                           { "#db5a8f", "#e891b5", "#f0b8cf" },
                           { 175, 218 } },
    [VP_ACTION_UPDATE] = { "UPDATE",
                           "update",
                           'U',
                           { "#475569", "#7b8797", "#a3acb9" },
                           { 247, 251 } },
    [VP_LOOK_EVAL] = { "E",
                       "evaluation",
                       'E',
                       { "#0e96ab", "#5fb9c7", "#93d0da" },
                       { 73, 116 } },
};

void vp_trace_list_stages(const struct vp_trace *trace, int rank, char *text,
                          size_t n_bytes)
{
    size_t n = 0;
    int n_found = 0;

    text[0] = '\0';
    for (int s = 0; s < trace->n_stages; s++)
        n_found += vp_trace_has_stage(trace, rank, s);
    for (int s = 0, i = 0; s < trace->n_stages && n < n_bytes; s++)
        if (vp_trace_has_stage(trace, rank, s))
            n += (size_t)snprintf(text + n, n_bytes - n, "%s%d",
                                  i++ > 0       ? ", "
                                  : n_found > 1 ? "stages "
                                                : "stage ",
                                  s);
}

enum vp_status vp_trace_close_text(FILE *f, char **text, char **text_out)
{
    bool bad = ferror(f) != 0;

    if (fclose(f) != 0 || bad) {
        free(*text);
        return VP_ERR_NOMEM;
    }
    *text_out = *text;
    return VP_OK;
}
