/* The bubble in theory: what no order of the work can avoid. Let a stage cost
 * f, b, w (and r), P ranks own v stages each, and M minibatches go through.
 *
 * A pass is f + r + b + w, a hop is what a gradient needs to get through one
 * stage: b + w, only b if W is apart, and r too unless R starts early.
 * The makespan T is at least
 *
 * unsplit (1f1b, gpipe, pipedream, macrobatch, interleaved):
 *   (P-1) f + v M pass + (P-1) hop       the last rank starts late, ends early
 *   (vP-1) f + M pass + (vP-1) hop       so does the last stage
 * split (zb-h1, zb-v):
 *   (P-1) f + v M pass                   the last rank starts late
 *   vP f + (P-1) hop + v M (b + w)       a rank far from the last stage has no
 *                                        backward before, and then all of them
 *   (vP-1) (f + hop) + M (pass - w) + w  the last stage, then a way back
 * forward only (eval):
 *   (P-1) f + v M f, and (vP-1) f + M f  as above, without a way back
 *   2 (P-1) f + 2 M f                    in a V the last rank's last forward
 *                                        still has to get to rank 0
 *   vP (M / P) f + (vP - 1 + M % P) f    interleaved, M no multiple of P: not
 *                                        a bound, but what rings of two allow
 *
 * and the bubble is 1 - v M pass / T. At unit costs (f = b = w = 1, no r) every
 * generator reaches its bound, for all M, also M < P; v = 1 gives the familiar
 * (P-1)/(M+P-1), interleaved (P-1)/(vM+P-1) if M >= P, zb-h1
 * (P-1)/(3M+P-1) if M >= P, zb-v (P-1)/(6M+P-1) if M >= P. A stream that does
 * not drain pays this once per segment; its steady state has no bubble.
 *
 * With replicas (one chunk): stage s starts s f late, its busiest replica has
 * ceil(M / R_s) passes, and then s hops remain. That is a bound which is not
 * always reached; with depths given by hand it is a bound, too. */
#include "sched/internal.h"

struct terms {
    double f, pass, hop, w, bw;
    int n_ranks, n_chunks, n_mb;
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double bound_unsplit(const struct terms *t)
{
    double p = t->n_ranks, v = t->n_chunks, m = t->n_mb;

    return larger((p - 1) * (t->f + t->hop) + v * m * t->pass,
                  (v * p - 1) * (t->f + t->hop) + m * t->pass);
}

static double bound_split(const struct terms *t)
{
    double p = t->n_ranks, v = t->n_chunks, m = t->n_mb;

    return larger(larger((p - 1) * t->f + v * m * t->pass,
                         v * p * t->f + (p - 1) * t->hop + v * m * t->bw),
                  (v * p - 1) * (t->f + t->hop) + m * (t->pass - t->w) + t->w);
}

static double eval_makespan(const struct terms *t, bool v_shape)
{
    int n_groups = t->n_mb / t->n_ranks, rest = t->n_mb % t->n_ranks;
    double round = (double)t->n_chunks * t->n_ranks; /* of one group */

    if (v_shape)
        return 2.0 * (t->n_ranks - 1 + t->n_mb) * t->f;
    if (t->n_chunks == 1 || rest == 0)
        return 0.0;
    return (round * n_groups + round - 1 + rest) * t->f;
}

/* Over the stages; `tail` hops remain after a stage's last pass. */
static double bound_replicas(const struct vp_sched_config *config,
                             const struct terms *t, bool tail)
{
    double bound = 0.0;

    for (int s = 0; s < config->n_stages; s++) {
        int n = config->replicas[s];
        double passes = (config->n_mb + n - 1) / n;

        bound = larger(bound,
                       s * (t->f + (tail ? t->hop : 0.0)) + passes * t->pass);
    }
    return bound;
}

static int total(const int *counts, int n)
{
    int sum = 0;

    for (int i = 0; i < n; i++)
        sum += counts ? counts[i] : 1;
    return sum;
}

double vp_schedule_theory(const struct vp_sched_config *config,
                          const struct vp_stage_costs *costs)
{
    const struct vp_generator *generator = vp_generator_find(config->name);
    bool recompute = config->recompute && config->recompute[0];
    double r = recompute ? costs->r : 0.0;
    double late = config->early_recompute ? 0.0 : r;
    struct terms t = { .f = costs->f,
                       .pass = costs->f + r + costs->b + costs->w,
                       .hop = costs->b + costs->w + late,
                       .w = costs->w,
                       .bw = costs->b + costs->w + late,
                       .n_ranks = config->n_stages,
                       .n_mb = config->n_mb };
    int n_ranks = total(config->replicas, config->n_stages);
    double work, bound;

    if (!generator)
        return 0.0;
    t.n_chunks = vp_sched_n_chunks(config);
    if (generator->forward_only) {
        t.pass = t.f;
        t.hop = 0.0;
    } else if (generator->split) {
        t.hop = costs->b + late;
    }
    bound = generator->split ? bound_split(&t) : bound_unsplit(&t);
    if (generator->forward_only)
        bound = larger(bound, eval_makespan(&t, vp_sched_is_v_shape(config)));
    if (n_ranks > config->n_stages)
        bound = bound_replicas(config, &t, !generator->split);
    work = t.n_chunks * (double)config->n_stages * t.n_mb * t.pass;
    return bound > 0.0 ? 1.0 - work / (n_ranks * bound) : 0.0;
}
