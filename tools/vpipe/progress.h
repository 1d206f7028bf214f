/* How a run looks on the screen: one updating line on a terminal, or a plain
 * line now and then elsewhere. */
#ifndef VP_TOOLS_PROGRESS_H
#define VP_TOOLS_PROGRESS_H

#include "launch/run.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
    FILE *out;
    int64_t every; /* plain: steps between lines */
    bool terminal, utf8;
    bool shown;       /* a line is on the screen, not yet ended */
    int64_t drawn_ns; /* when */
    /* Decaying sums over recent steps: their quotients are the rates. */
    double steps, seconds, tokens, flops, waited;
    /* Of the run, for its last lines. */
    bool asp, pipeline;
    int n_stages;
    const char *output;  /* the run folder */
    int n_busy, n_cores; /* compute threads that share so many cores */
    double bubble_simulated, bubble_theory;
};

/* `every` is print_frequency. Looks at `out` and the locale. */
void progress_init(struct progress *progress, FILE *out, int64_t every);

void progress_start(struct progress *progress,
                    const struct vp_run_summary *summary);
void progress_step(struct progress *progress,
                   const struct vp_step_report *report);
void progress_eval(struct progress *progress, int64_t step, double loss);
void progress_notice(struct progress *progress, const char *line);
void progress_end(struct progress *progress,
                  const struct vp_run_result *result);

/* Ends an open line, so that other text can follow. */
void progress_break(struct progress *progress);

#endif
