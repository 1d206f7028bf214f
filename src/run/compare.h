/* Compares several configurations on the same data: throughput, memory and
 * loss, measured and simulated. */
#ifndef VP_RUN_COMPARE_H
#define VP_RUN_COMPARE_H

#include "run/checkpoint.h"
#include "run/run.h"

enum { VP_COMPARE_MAX_ROUNDS = 100 };

/* Results of one measured run. The first tenth of its steps is warm-up and not
 * counted in rates. */
struct vp_compare_round {
    double samples_per_second, tokens_per_second;
    double step_seconds;
    /* Share of the ranks' time spent waiting for messages and free buffers;
     * NAN: not known. */
    double waiting;
    double bubble; /* share of the ranks' time without work */
    double loss;   /* mean over the last tenth of the steps */
};

/* One configuration and its results. */
struct vp_contestant {
    const char *name; /* borrowed */
    int n_stages, n_ranks;
    int64_t batch; /* samples of a minibatch */
    int group;     /* minibatches per step */
    int64_t n_steps;
    int64_t stage_bytes[VP_MAX_STAGES]; /* memory of each rank of the stage */
    int stage_ranks[VP_MAX_STAGES];     /* number of ranks of the stage */

    struct vp_compare_round median; /* median of each number over the rounds */
    double least, most;             /* samples_per_second over the rounds */

    /* Simulated from the times of stages that ran alone. NAN: not simulated. */
    double simulated; /* samples per second */
    double bubble_simulated;
};

/* ---- Checks ------------------------------------------------------------- */

/* Refuses configurations with different models, data or seeds. Calls `notice`
 * with a line for each other difference that matters. If only some of them tie
 * embeddings, and no user asked for it, sets tie_embeddings to false in all,
 * with a notice. */
enum vp_status vp_compare_check(struct vp_config *configs, int n,
                                vp_notice_fn notice, void *ctx,
                                struct vp_err *err);

/* Makes the same checks for runs that exist. Changes nothing; refuses runs of
 * which only some tie embeddings. */
enum vp_status vp_compare_check_runs(const struct vp_config *configs, int n,
                                     vp_notice_fn notice, void *ctx,
                                     struct vp_err *err);

/* ---- Running ------------------------------------------------------------ */

struct vp_compare_options {
    const char *output; /* parent of the run folders; must be given */
    int64_t max_steps;  /* steps of the first configuration; the others train on
                           the same number of samples; 0: the whole runs */
    int n_rounds;       /* from 1 to VP_COMPARE_MAX_ROUNDS */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
};

/* Callbacks, each of which may be NULL. */
struct vp_compare_events {
    void *ctx;
    /* A run begins. `round` 0: the run that measures stages one at a time for
     * the simulator. */
    void (*on_run)(void *ctx, const char *name, int round, int64_t n_steps);
    vp_notice_fn on_notice;
};

/* Plans all configurations, then runs them in turn. `out` has an entry per
 * configuration with its name filled in. */
enum vp_status vp_compare_run(const struct vp_config *configs, int n,
                              const struct vp_compare_options *options,
                              const struct vp_compare_events *events,
                              struct vp_contestant *out, struct vp_err *err);

/* Finds the largest batch_size with which every stage fits into `limit` bytes;
 * runs nothing. `*batch_out` 0: not even one sample fits. `missing_out` names
 * resources of this machine that are too small for that batch
 * (vp_run_summary.missing), which is no error; "": none. */
enum vp_status vp_compare_largest_batch(const struct vp_config *config,
                                        int64_t limit, int64_t *batch_out,
                                        char missing_out[VP_MISSING_TEXT],
                                        struct vp_err *err);

/* Fills `median`, `least` and `most` of `out`. `n` is from 1 to
 * VP_COMPARE_MAX_ROUNDS. */
void vp_compare_sum_up(const struct vp_compare_round *rounds, int n,
                       struct vp_contestant *out);

/* Reads the results of the run in `folder`, whose configuration is `config`.
 * `out` has its name filled in. Simulates nothing. VP_ERR_INVALID for a run
 * without steps. */
enum vp_status vp_compare_read(const char *folder,
                               const struct vp_config *config,
                               struct vp_contestant *out, struct vp_err *err);

/* ---- Simulating --------------------------------------------------------- */

/* Computes the costs of each stage as lower quartiles over a trace, without the
 * first quarter of its minibatches. The time of a backward that is not split is
 * divided equally between b and w. */
enum vp_status vp_compare_costs(const struct vp_trace *trace,
                                struct vp_stage_costs *costs_out,
                                struct vp_err *err);

struct vp_shared_time {
    double seconds;
    double bubble; /* share of the ranks' time without work */
};

/* Simulates the configuration's schedule over `n_mb` minibatches (bsp: those of
 * one step) on `n_cores` cores, in units of one rank; may be a fraction. If
 * more ranks compute at once, they share the cores equally. */
enum vp_status vp_compare_simulate(const struct vp_config *config,
                                   const struct vp_stage_costs *costs, int n_mb,
                                   double n_cores, struct vp_shared_time *out,
                                   struct vp_err *err);

/* ---- Showing ------------------------------------------------------------ */

/* Writes the indices of `values` from the largest to the smallest; equal values
 * keep their order. */
void vp_compare_order(const double *values, int n, int *order_out);

/* Makes the table: one row per configuration, then the measured and the
 * simulated order and a line on whether they agree. The caller frees the text.
 * Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_compare_table(const struct vp_contestant *contestants, int n,
                                char **text_out);

/* Draws bars of throughput, measured and simulated, and of memory per stage.
 * The caller frees the text. */
enum vp_status vp_compare_svg(const struct vp_contestant *contestants, int n,
                              char **text_out);

/* Returns the bytes of the largest stage. */
int64_t vp_compare_peak(const struct vp_contestant *contestant);

#endif
