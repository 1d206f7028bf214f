/* Several configurations on the same data: what each one costs and yields,
 * measured and simulated. */
#ifndef VP_RUN_COMPARE_H
#define VP_RUN_COMPARE_H

#include "run/checkpoint.h"
#include "run/run.h"

enum { VP_COMPARE_MAX_ROUNDS = 100 };

/* One measured run. The first tenth of its steps warms up and does not count
 * for rates. */
struct vp_compare_round {
    double samples_per_second, tokens_per_second;
    double step_seconds;
    double waiting; /* for messages and room: share of the ranks' time; NAN:
                       not known */
    double bubble;  /* all waiting */
    double loss;    /* mean of the last tenth */
};

/* A configuration and what is known about it. */
struct vp_contestant {
    const char *name; /* borrowed */
    int n_stages, n_ranks;
    int64_t batch; /* samples of a minibatch */
    int group;     /* minibatches per step */
    int64_t n_steps;
    int64_t stage_bytes[VP_MAX_STAGES]; /* on each of its ranks */
    int stage_ranks[VP_MAX_STAGES];

    struct vp_compare_round median; /* over the rounds, number by number */
    double least, most;             /* samples_per_second */

    /* What the simulator says, from the times of stages that ran alone. NAN: they
     * did not run. */
    double simulated; /* samples per second */
    double bubble_simulated;
};

/* ---- May they be compared? ---------------------------------------------- */

/* Refuses configurations of different models, data or seeds, with one line;
 * what else differs and matters is a notice. Where only some tie embeddings,
 * and the user did not ask for it, none does from now on, with a notice. */
enum vp_status vp_compare_check(struct vp_config *configs, int n,
                                vp_notice_fn notice, void *ctx,
                                struct vp_err *err);

/* The same for runs that exist: nothing is changed, and weights that only some of
 * them tie are a reason to refuse. */
enum vp_status vp_compare_check_runs(const struct vp_config *configs, int n,
                                     vp_notice_fn notice, void *ctx,
                                     struct vp_err *err);

/* ---- Running ------------------------------------------------------------ */

struct vp_compare_options {
    const char *output; /* run folders go there; must be given */
    int64_t max_steps;  /* of the first configuration, the others take as many
                           samples; 0: each its own */
    int n_rounds;       /* from 1 to VP_COMPARE_MAX_ROUNDS, in turn */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
};

/* Optional. */
struct vp_compare_events {
    void *ctx;
    /* `round` 0: its stages one at a time, for the simulator. */
    void (*on_run)(void *ctx, const char *name, int round, int64_t n_steps);
    vp_notice_fn on_notice;
};

/* `out` has an entry per configuration, with its name filled in. Plans all of
 * them before the first one runs. */
enum vp_status vp_compare_run(const struct vp_config *configs, int n,
                              const struct vp_compare_options *options,
                              const struct vp_compare_events *events,
                              struct vp_contestant *out, struct vp_err *err);

/* The largest batch_size whose every stage fits into `limit` bytes, with
 * nothing run; 0: not even one sample does. What this machine lacks for that
 * batch is no error: see vp_run_summary.missing; "": nothing. */
enum vp_status vp_compare_largest_batch(const struct vp_config *config,
                                        int64_t limit, int64_t *batch_out,
                                        char missing_out[VP_MISSING_TEXT],
                                        struct vp_err *err);

/* Fills `median`, `least` and `most`. */
void vp_compare_sum_up(const struct vp_compare_round *rounds, int n,
                       struct vp_contestant *out);

/* The numbers of the run in `folder`, whose configuration is `config`; `out` has
 * its name. Nothing is simulated. VP_ERR_INVALID for a run without steps. */
enum vp_status vp_compare_read(const char *folder,
                               const struct vp_config *config,
                               struct vp_contestant *out, struct vp_err *err);

/* ---- Simulating --------------------------------------------------------- */

/* Lower quartiles over a trace without its first quarter of minibatches. A
 * backward that is not split counts half as b, half as w. */
enum vp_status vp_compare_costs(const struct vp_trace *trace,
                                struct vp_stage_costs *costs_out,
                                struct vp_err *err);

struct vp_shared_time {
    double seconds;
    double bubble; /* share of the ranks' time without work */
};

/* The configuration's schedule over `n_mb` minibatches (bsp: of one step) when
 * only `n_cores` ranks compute at full speed at once (not always a whole
 * number): where more of them do, each gets its share. */
enum vp_status vp_compare_simulate(const struct vp_config *config,
                                   const struct vp_stage_costs *costs, int n_mb,
                                   double n_cores, struct vp_shared_time *out,
                                   struct vp_err *err);

/* ---- Showing ------------------------------------------------------------ */

/* Indices from the largest value to the smallest; equal ones keep their
 * order. */
void vp_compare_order(const double *values, int n, int *order_out);

/* One row each, then the two orders and whether they agree. The caller frees
 * the text. VP_ERR_NOMEM. */
enum vp_status vp_compare_table(const struct vp_contestant *contestants, int n,
                                char **text_out);

/* Bars of throughput, measured and simulated, and of memory per stage. */
enum vp_status vp_compare_svg(const struct vp_contestant *contestants, int n,
                              char **text_out);

/* Of the largest stage. */
int64_t vp_compare_peak(const struct vp_contestant *contestant);

#endif
