/* The theoretical bubble: a lower bound for all orders of the work. Let a stage
 * cost f, b, w (and r), P ranks own v stages each, and M minibatches pass.
 *
 * A pass is f + r + b + w. A hop is the time of a gradient through one stage:
 * b + w, only b if B and W are split, and r in addition unless R starts early
 * (auto decides that for each action).
 * The makespan T is at least
 *
 * unsplit (1f1b, gpipe, pipedream, macrobatch, interleaved):
 *   (P-1) f + v M pass + (P-1) hop       the last rank starts late, ends early
 *   (vP-1) f + M pass + (vP-1) hop       so does the last stage
 * split (zb-h1, zb-h2, and those placed in a V):
 *   (P-1) f + v M pass                   the last rank starts late
 *   vP f + (P-1) hop + v M (b + w)       on a rank far from the last stage, all
 *                                        backwards follow the first gradient
 *   (vP-1) (f + hop) + M (pass - w) + w  the last stage, then the way back
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
 * The papers count the bubble of the longest rank between its own first and
 * last action (vp_timing_span()). That has closed forms, each where it is
 * exact. Where such a form is larger than the bounds above, it is used:
 *
 *   1f1b, gpipe   (P-1) (f + b + w)
 *   interleaved   the same                 M a multiple of P
 *   zb-h1         (P-1) (f + b - w)        w <= f, b; M >= P
 *   zb-h2         (P-1) (f + b - 2w)       w <= f, b; M >= 2P - 1
 *   zb-v          2 (P-1) (b - w)          w <= f <= b; M >= 2P - 1
 *   dualpipe-v    (P-1) (f + b - w)        w <= b <= f <= b + w; M >= 2P
 *   v-half        (6P - 1 - 3K) f          f = b = w; P >= 3, M >= 2P
 *   v-min         the same, and 4 f if P mod 3 is 2
 *   v-auto        max(0, the same)         f = b = w; K even, M >= 2P
 *
 * A rank of the last three keeps K chunks. Their makespan is that span, or
 * (3P - 1 - K) f more than the work if that is larger.
 *
 * With replicas (one chunk): stage s starts s f late, its busiest replica has
 * ceil(M / R_s) passes, and then s hops remain. That is a bound which is not
 * always reached; with depths given by hand it is a bound, too. Replicas of
 * ranks with several stages are copies of the pipeline: the one with most
 * minibatches is the longest. */
#include "sched/internal.h"

#include <string.h>

struct terms {
    double f, b, pass, hop, w, bw;
    int n_ranks, n_chunks, n_mb;
    int keeps; /* chunks on a rank; 0: no limit */
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
    double round = (double)t->n_chunks * t->n_ranks; /* forwards of one group */

    if (v_shape)
        return 2.0 * (t->n_ranks - 1 + t->n_mb) * t->f;
    if (t->n_chunks == 1 || rest == 0)
        return 0.0;
    return (round * n_groups + round - 1 + rest) * t->f;
}

/* Returns the largest bound over the stages. `tail`: s hops follow the last
 * pass of stage s. */
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

/* ---- The bubble of the longest rank ------------------------------------- */

/* Returns the idle time of the longest rank; negative: the form is not
 * exact. */
typedef double (*span_fn)(const struct terms *t);

static double span_1f1b(const struct terms *t)
{
    return (t->n_ranks - 1) * t->pass;
}

static double span_interleaved(const struct terms *t)
{
    return t->n_mb % t->n_ranks == 0 ? span_1f1b(t) : -1.0;
}

static bool has_short_w(const struct terms *t)
{
    return t->w <= t->f && t->w <= t->b;
}

static double span_zb_h1(const struct terms *t)
{
    bool exact = has_short_w(t) && t->n_mb >= t->n_ranks;

    return exact ? (t->n_ranks - 1) * (t->f + t->b - t->w) : -1.0;
}

static double span_zb_h2(const struct terms *t)
{
    bool exact = has_short_w(t) && t->n_mb >= 2 * t->n_ranks - 1;

    return exact ? (t->n_ranks - 1) * (t->f + t->b - 2 * t->w) : -1.0;
}

static double span_zb_v(const struct terms *t)
{
    bool exact = t->w <= t->f && t->f <= t->b && t->n_mb >= 2 * t->n_ranks - 1;

    return exact ? 2 * (t->n_ranks - 1) * (t->b - t->w) : -1.0;
}

/* For lists that are run one action after the other, not in pairs. */
static double span_dualpipe_v(const struct terms *t)
{
    bool exact = t->w <= t->b && t->b <= t->f && t->f <= t->b + t->w &&
                 t->n_mb >= 2 * t->n_ranks;

    return exact ? (t->n_ranks - 1) * (t->f + t->b - t->w) : -1.0;
}

static bool is_even(const struct terms *t)
{
    return t->f == t->b && t->f == t->w && t->n_mb >= 2 * t->n_ranks;
}

static double span_v(const struct terms *t)
{
    return (6 * t->n_ranks - 1 - 3 * t->keeps) * t->f;
}

static double span_v_half(const struct terms *t)
{
    return is_even(t) && t->n_ranks >= 3 ? span_v(t) : -1.0;
}

static double span_v_min(const struct terms *t)
{
    double gap = t->n_ranks % 3 == 2 ? 4 * t->f : 0.0;

    return is_even(t) && t->n_ranks >= 2 ? span_v(t) + gap : -1.0;
}

static double span_v_auto(const struct terms *t)
{
    bool exact = is_even(t) && t->keeps % 2 == 0 &&
                 t->keeps >= vp_v_min_keeps(t->n_ranks);

    return exact ? larger(0.0, span_v(t)) : -1.0;
}

/* Returns the makespan of a schedule in a V with limited memory; 0: not
 * known. */
static double makespan_v(const struct terms *t, double work, double span)
{
    bool few = t->keeps > 0 && t->n_chunks == 2 && t->keeps <= 2 * t->n_ranks;

    if (span < 0.0 || !few || !is_even(t))
        return 0.0;
    return work + (3 * t->n_ranks - 1 - t->keeps) * t->f;
}

static const struct {
    const char *name;
    span_fn span;
} spans[] = {
    { "1f1b", span_1f1b },
    { "gpipe", span_1f1b },
    { "zb-h1", span_zb_h1 },
    { "interleaved", span_interleaved },
    { "zb-h2", span_zb_h2 },
    { "zb-v", span_zb_v },
    { "dualpipe-v", span_dualpipe_v },
    { "v-half", span_v_half },
    { "v-min", span_v_min },
    { "v-auto", span_v_auto },
};

/* ---- Makespan and span -------------------------------------------------- */

static int total(const int *counts, int n)
{
    int sum = 0;

    for (int i = 0; i < n; i++)
        sum += counts ? counts[i] : 1;
    return sum;
}

static struct terms terms_of(const struct vp_sched_config *config,
                             const struct vp_generator *generator,
                             const struct vp_stage_costs *costs)
{
    double r = config->recompute && config->recompute[0] ? costs->r : 0.0;
    bool early = config->early_recompute || generator->planned;
    double late = early ? 0.0 : r;
    struct terms t = { .f = costs->f,
                       .b = costs->b,
                       .w = costs->w,
                       .pass = costs->f + r + costs->b + costs->w,
                       .hop = costs->b + costs->w + late,
                       .bw = costs->b + costs->w + late,
                       .n_ranks = config->n_stages,
                       .n_chunks = vp_sched_n_chunks(config),
                       .n_mb = config->n_mb,
                       .keeps = vp_sched_keeps(config) };

    if (generator->forward_only) {
        t.pass = t.f;
        t.hop = 0.0;
    } else if (generator->split) {
        t.hop = costs->b + late;
    }
    return t;
}

/* Returns the idle time of the longest rank; negative: no closed form holds. */
static double span_of(const struct vp_sched_config *config,
                      const struct terms *t)
{
    bool recompute = t->pass > t->f + t->b + t->w;
    bool replicas = total(config->replicas, config->n_stages) > t->n_ranks;

    for (size_t i = 0; i < VP_COUNT_OF(spans); i++)
        if (strcmp(spans[i].name, config->name) == 0 && !config->depth &&
            !recompute && !replicas)
            return spans[i].span(t);
    return -1.0;
}

bool vp_schedule_span_theory(const struct vp_sched_config *config,
                             const struct vp_stage_costs *costs,
                             double *bubble_out)
{
    const struct vp_generator *generator = vp_generator_find(config->name);
    struct terms t;
    double bubble, work;

    if (!generator || generator->forward_only)
        return false;
    t = terms_of(config, generator, costs);
    bubble = span_of(config, &t);
    work = (double)t.n_chunks * t.n_mb * t.pass;
    if (bubble < 0.0 || work <= 0.0)
        return false;
    *bubble_out = bubble / (work + bubble);
    return true;
}

double vp_schedule_theory(const struct vp_sched_config *config,
                          const struct vp_stage_costs *costs)
{
    const struct vp_generator *generator = vp_generator_find(config->name);
    int n_ranks = total(config->replicas, config->n_stages), n_copies;
    double work, bound, span;
    struct terms t;

    if (!generator)
        return 0.0;
    t = terms_of(config, generator, costs);
    n_copies = t.n_chunks > 1 && config->replicas ? config->replicas[0] : 1;
    if (n_copies > 1)
        t.n_mb = (t.n_mb + n_copies - 1) / n_copies;
    work = t.n_chunks * (double)t.n_mb * t.pass;
    span = generator->forward_only ? -1.0 : span_of(config, &t);
    bound = generator->split ? bound_split(&t) : bound_unsplit(&t);
    if (generator->forward_only)
        bound = larger(bound, eval_makespan(&t, vp_sched_is_v_shape(config)));
    bound = larger(bound, larger(work + span, makespan_v(&t, work, span)));
    if (n_ranks > config->n_stages && n_copies == 1)
        bound = bound_replicas(config, &t, !generator->split);
    work = t.n_chunks * (double)config->n_stages * config->n_mb * t.pass;
    return bound > 0.0 ? 1.0 - work / (n_ranks * bound) : 0.0;
}
