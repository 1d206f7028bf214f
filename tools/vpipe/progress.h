/* How a run looks on the screen. On a terminal: a row per stage and a line of
 * the whole run, redrawn in place; the line alone where there is no room for
 * rows or nothing to compare. Elsewhere: a plain line now and then. */
#ifndef VP_TOOLS_PROGRESS_H
#define VP_TOOLS_PROGRESS_H

#include "run/run.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { PROGRESS_MAX_ROWS = 16 };

/* A stage, as its row shows it. */
struct progress_stage {
    int first_rank, n_ranks;
    int64_t n_bytes; /* memory */
    int64_t n_forward, n_backward;
    int64_t busy_ns; /* computing, in the run so far */
    double busy;     /* seconds; a decaying sum, as below */
};

struct progress {
    FILE *out;
    int64_t every; /* plain: steps between lines */
    bool terminal, utf8;
    bool details;      /* print what `verbose` asks for on a terminal, too */
    int width, height; /* of a terminal that does not say */
    bool shown;        /* a line is on the screen, not yet ended */
    int n_rows;        /* above it */
    int64_t drawn_ns;  /* when */
    char frame[8192];  /* what is drawn at once */
    struct progress_stage stages[VP_MAX_STAGES];
    /* Decaying sums over recent steps: their quotients are the rates. */
    double steps, seconds, tokens, flops, waited;
    /* Of the run, for its last lines. */
    bool asp, pipeline;
    int n_stages;
    const char *config;  /* as the user named it; NULL: that in the folder */
    const char *output;  /* the run folder */
    int64_t n_steps;     /* where it ends */
    int n_busy, n_cores; /* compute threads that share so many cores */
    double bubble_simulated, bubble_theory;
    double unigram_loss; /* best guess without context; NaN before the start */
    double eval_loss;    /* of the last evaluation; NaN before it */
};

/* `every` is print_frequency. Looks at `out` and the locale. */
void progress_init(struct progress *progress, FILE *out, int64_t every);

void progress_start(struct progress *progress,
                    const struct vp_run_summary *summary);
/* The stages are those of `summary` from now on. */
void progress_plan(struct progress *progress,
                   const struct vp_run_summary *summary);
/* Before the step they belong to. */
void progress_stages(struct progress *progress,
                     const struct vp_stage_stats *stats);
void progress_step(struct progress *progress,
                   const struct vp_step_report *report);
void progress_detail(struct progress *progress, int rank, const char *line);
void progress_eval(struct progress *progress, int64_t step, int64_t n_batches,
                   double loss);
void progress_notice(struct progress *progress, const char *line);
/* On standard error: work may be lost. */
void progress_warning(struct progress *progress, const char *line);
void progress_end(struct progress *progress,
                  const struct vp_run_result *result);

/* Ends an open line, so that other text can follow. */
void progress_break(struct progress *progress);
/* The same for a signal handler that ends the program: shows the cursor. */
void progress_abandon(void);
/* For a signal handler of a program that goes on: `line` stands below what is
 * on the screen, and more comes below it. */
void progress_interject(const char *line);

#endif
