/* The values of the colours. */
#include "draw/palette.h"

const struct vp_colours vp_palette[VP_HUE_COUNT] = {
    [VP_HUE_FORWARD] = { { "#3b82f6", "#7fb0fb", "#a9c9fd", "#cbdffe" },
                         { 75, 111 } },
    [VP_HUE_RECOMPUTE] = { { "#8b5cf6", "#b196fa", "#cbb9fc", "#dfd5fd" },
                           { 140, 183 } },
    [VP_HUE_BACKWARD] = { { "#10a37f", "#5cc3a9", "#8fd6c4", "#bce7dc" },
                          { 78, 115 } },
    [VP_HUE_WEIGHT] = { { "#f2a33a", "#f7c27c", "#fad5a5", "#fce6c9" },
                        { 179, 222 } },
    [VP_HUE_REDUCE] = { { "#db5a8f", "#e891b5", "#f0b8cf", "#f6d5e2" },
                        { 175, 218 } },
    [VP_HUE_UPDATE] = { { "#475569", "#7b8797", "#a3acb9", "#c5cbd3" },
                        { 247, 251 } },
    [VP_HUE_EVAL] = { { "#0e96ab", "#5fb9c7", "#93d0da", "#bee3e9" },
                      { 73, 116 } },
};

const struct vp_run_colour vp_run_colours[VP_N_RUN_COLOURS] = {
    { "#0072b2", "#56b4e9" }, { "#b84800", "#ff9e4a" },
    { "#007a5a", "#2fc99b" }, { "#b5428a", "#e79cc8" },
    { "#8a6000", "#f0c040" }, { "#3c3c9c", "#a9b4ff" },
    { "#5c6b00", "#cdd35a" }, { "#555555", "#bbbbbb" },
};
