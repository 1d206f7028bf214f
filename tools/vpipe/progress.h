/* Progress of a run on the screen. On a terminal: a row per stage and a line
 * for the whole run, redrawn in place; only the line if there is one stage or
 * no room for rows. Elsewhere: a plain line every print_frequency steps. */
#ifndef VP_TOOLS_PROGRESS_H
#define VP_TOOLS_PROGRESS_H

#include "run/run.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { PROGRESS_MAX_ROWS = 16 };

/* Numbers in the row of a stage. */
struct progress_stage {
    int first_rank, n_ranks;
    int64_t n_bytes;               /* memory */
    int64_t n_forward, n_backward; /* minibatches so far */
    int64_t busy_ns;               /* compute time in the run so far */
    double busy; /* seconds; a decaying sum, as in struct progress */
};

struct progress {
    FILE *out;
    int64_t every; /* steps between plain lines */
    bool terminal, utf8;
    bool details;      /* print lines of `verbose` on a terminal, too */
    int width, height; /* used if the terminal does not report its size */
    bool shown;        /* a line is on the screen, not yet ended */
    int n_rows;        /* rows above it */
    int64_t drawn_ns;  /* time at which it was drawn */
    char frame[8192];  /* text that is drawn at once */
    struct progress_stage stages[VP_MAX_STAGES];
    /* Decaying sums over recent steps: their quotients are the rates. */
    double steps, seconds, tokens, flops, waited;
    /* Facts about the run, for its last lines. */
    bool asp, pipeline;
    int n_stages;
    const char *config;  /* path that the user gave; NULL: that in `output` */
    const char *output;  /* the run folder */
    int64_t n_steps;     /* at which the run ends */
    int n_busy, n_cores; /* compute threads, and the cores that they share */
    double bubble_simulated, bubble_theory;
    double unigram_loss; /* best guess without context; NaN before the start */
    double eval_loss;    /* last held-out loss; NaN before the first */
};

/* `every`: the key print_frequency. Finds out from `out` and the locale how to
 * print. */
void progress_init(struct progress *progress, FILE *out, int64_t every);

/* Prints the first screen. */
void progress_start(struct progress *progress,
                    const struct vp_run_summary *summary);
/* Replaces the stages by those of `summary`, after the plan has changed. */
void progress_plan(struct progress *progress,
                   const struct vp_run_summary *summary);
/* Called before progress_step() with the counters of the same step. */
void progress_stages(struct progress *progress,
                     const struct vp_stage_stats *stats);
void progress_step(struct progress *progress,
                   const struct vp_step_report *report);
/* Prints a line of `verbose` from a rank. */
void progress_detail(struct progress *progress, int rank, const char *line);
void progress_eval(struct progress *progress, int64_t step, int64_t n_batches,
                   double loss);
void progress_notice(struct progress *progress, const char *line);
/* Prints a warning on standard error. */
void progress_warning(struct progress *progress, const char *line);
/* Prints the last screen. */
void progress_end(struct progress *progress,
                  const struct vp_run_result *result);

/* Ends an open line, so that other text can follow. */
void progress_break(struct progress *progress);
/* Shows the cursor again. For a signal handler that ends the program:
 * async-signal-safe. */
void progress_abandon(void);
/* Prints `line` below the screen; later output follows below it. For a signal
 * handler of a program that continues: async-signal-safe. */
void progress_interject(const char *line);

#endif
