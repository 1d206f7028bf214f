/* The colours of all pictures. Each colour has one meaning, the same in
 * drawings and in the terminal. */
#ifndef VP_DRAW_PALETTE_H
#define VP_DRAW_PALETTE_H

enum vp_hue {
    VP_HUE_FORWARD,
    VP_HUE_RECOMPUTE,
    VP_HUE_BACKWARD,
    VP_HUE_WEIGHT, /* weight gradients */
    VP_HUE_REDUCE,
    VP_HUE_UPDATE,
    VP_HUE_EVAL,
    VP_HUE_COUNT
};

enum { VP_N_SHADES = 4 };

struct vp_colours {
    const char *fill[VP_N_SHADES]; /* in drawings, from dark to light */
    short ansi[2]; /* in the terminal: two of 256 colours, used in turn to
                      separate neighbouring boxes */
};

extern const struct vp_colours vp_palette[VP_HUE_COUNT];

/* Colours for the curves of several runs in one chart, on a light and on a dark
 * background. Based on the palette of Okabe and Ito for colour-blind readers,
 * with a contrast of at least 4.5:1. */
enum { VP_N_RUN_COLOURS = 8 };

struct vp_run_colour {
    const char *light, *dark;
};

extern const struct vp_run_colour vp_run_colours[VP_N_RUN_COLOURS];

#define VP_INK "#0f172a"       /* titles, marks */
#define VP_AXIS "#94a3b8"      /* lines */
#define VP_WAITING "#dde5f0"   /* a rank that waits inside an action */
#define VP_IDLE "url(#idle)"   /* hatched: see vp_svg_begin() */
#define VP_STATIC "#94a3b8"    /* memory that is always in use */
#define VP_IN_FLIGHT "#a9c9fd" /* memory of minibatches in flight */
#define VP_KEPT "#cbd5e1"      /* minibatches that a rank keeps */
#define VP_MEASURED "#2f6fde"
#define VP_SIMULATED "#d97706"
#define VP_MEMORY "#0f766e" /* in turn with the next, for neighbours */
#define VP_MEMORY_LIGHT "#5fb8ae"

#endif
