/* One function for each cause: it adds a finding if the cause costs enough. */
#include "report/findings.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Smaller shares of the time, or ratios, are not reported. */
#define LEAST_IMBALANCE 0.04
#define LEAST_RATIO 1.15
#define LEAST_FILL 0.08
#define LEAST_RECOMPUTE 0.02
#define LEAST_REST 0.15
#define LEAST_EVALUATION 0.15

static struct vp_finding *add(struct vp_limits *limits, double share)
{
    struct vp_finding *finding = &limits->findings[limits->n_findings++];

    VP_BUG_ON(limits->n_findings > VP_MAX_FINDINGS);
    *finding = (struct vp_finding){ .share = share };
    return finding;
}

static int all_blocks(const struct vp_limits *limits)
{
    int n = 0;

    for (int s = 0; s < limits->n_stages; s++)
        n += limits->stages[s].n_blocks;
    return n;
}

/* ---- A slow stage ------------------------------------------------------- */

/* Appends the reason, as far as the plan shows it, at byte `n` of the text, and
 * sets the remedy. */
static void explain_slow(const struct vp_limits *limits,
                         struct vp_finding *finding, size_t n)
{
    const struct vp_stage_work *slow = &limits->stages[limits->slowest];
    int total = all_blocks(limits);
    double others = (double)(total - slow->n_blocks) / (limits->n_stages - 1);
    char *text = finding->text + n;
    size_t room = sizeof(finding->text) - n;

    if (slow->n_blocks == 0)
        return;
    if (slow->n_blocks > 1.2 * others) {
        snprintf(text, room,
                 " The cause is the partition: stage %d holds %d of the %d "
                 "blocks, the others have %.3g on average.",
                 limits->slowest, slow->n_blocks, total, others);
        snprintf(finding->remedy, sizeof(finding->remedy),
                 "Move blocks from stage %d to the others: let 'vpipe plan' or "
                 "auto_plan: true choose the partition, or give the live run "
                 "another with 'vpipe rebalance RUN --auto'.",
                 limits->slowest);
        return;
    }
    snprintf(text, room,
             " It holds %d of the %d blocks, no more than the others (%.3g on "
             "average), so the partition is not the cause: its blocks are "
             "more expensive, or its rank computes more slowly.",
             slow->n_blocks, total, others);
    snprintf(finding->remedy, sizeof(finding->remedy),
             "Look for other work on the cores or the device of stage %d and "
             "for lower clocks; if its blocks are more expensive, let 'vpipe "
             "plan' or rebalance: true move some to the others.",
             limits->slowest);
}

static void find_slow_stage(struct vp_limits *limits)
{
    const struct vp_stage_work *slow;
    struct vp_finding *finding;
    double seconds;
    int n;

    if (limits->slowest < 0 || limits->imbalance < LEAST_IMBALANCE ||
        limits->slowest_ratio < LEAST_RATIO)
        return;
    slow = &limits->stages[limits->slowest];
    seconds = vp_stage_work_seconds(slow);
    finding = add(limits, limits->imbalance);
    snprintf(finding->title, sizeof(finding->title),
             "Stage %d is slow: the other stages wait for it", limits->slowest);
    n = snprintf(finding->text, sizeof(finding->text),
                 "Stage %d computes %.3g ms on each minibatch, %.2g times as "
                 "long as the other stages on average (%.3g ms). Because "
                 "stages are unequal, %.0f %% of the ranks' time is lost.",
                 limits->slowest, 1e3 * seconds, limits->slowest_ratio,
                 1e3 * seconds / limits->slowest_ratio,
                 100.0 * limits->imbalance);
    explain_slow(limits, finding, (size_t)n);
}

/* ---- Too few minibatches ------------------------------------------------ */

static void find_few_minibatches(const struct vp_limit_facts *facts,
                                 struct vp_limits *limits)
{
    const struct vp_plan *plan = facts->plan;
    struct vp_finding *finding;

    if (!plan || limits->fill < LEAST_FILL || !(limits->theory > 0.0))
        return;
    finding = add(limits, limits->fill);
    snprintf(finding->title, sizeof(finding->title),
             "Too few minibatches per update: %d for %d stages",
             plan->accumulation_steps, limits->n_stages);
    snprintf(finding->text, sizeof(finding->text),
             "At the start of every update the last stages have nothing to do "
             "yet, and at its end the first ones have nothing left. With %d "
             "minibatches per update on %d stages, schedule %s leaves %.0f %% "
             "of the ranks' time empty even if all stages are equal; that is "
             "%.0f %% of the time here.",
             plan->accumulation_steps, limits->n_stages,
             plan->schedule ? plan->schedule : "1f1b", 100.0 * limits->theory,
             100.0 * limits->fill);
    if (limits->enough_mb > 0)
        snprintf(finding->remedy, sizeof(finding->remedy),
                 "accumulation_steps: %d would leave 10 %% (a smaller "
                 "batch_size keeps the samples of an update); or take a "
                 "schedule with a smaller bubble, such as zb-h1.",
                 limits->enough_mb);
    else
        snprintf(finding->remedy, sizeof(finding->remedy),
                 "Raise accumulation_steps, use fewer stages, or take a "
                 "schedule with a smaller bubble, such as zb-h1.");
}

/* ---- Memory ------------------------------------------------------------- */

/* Returns the stage that uses the most memory; -1: unknown. */
static int fullest_stage(const struct vp_limit_facts *facts)
{
    int fullest = -1;

    for (int s = 0; s < facts->n_stage_bytes; s++)
        if (fullest < 0 || facts->stage_bytes[s] > facts->stage_bytes[fullest])
            fullest = s;
    return fullest;
}

static int costliest_recompute(const struct vp_limits *limits)
{
    int worst = 0;

    for (int s = 0; s < limits->n_stages; s++)
        if (limits->stages[s].r + limits->stages[s].swap_wait >
            limits->stages[worst].r + limits->stages[worst].swap_wait)
            worst = s;
    return worst;
}

/* Appends the memory use of the fullest stage at byte `n` of the text. */
static void explain_memory(const struct vp_limit_facts *facts,
                           struct vp_finding *finding, size_t n)
{
    int s = fullest_stage(facts);
    char used[VP_BYTES_TEXT], limit[VP_BYTES_TEXT];
    char *text = finding->text + n;
    size_t room = sizeof(finding->text) - n;

    if (s < 0)
        return;
    vp_bytes_text((int64_t)facts->stage_bytes[s], used, sizeof(used));
    if (facts->memory_limit <= 0) {
        snprintf(text, room,
                 " No memory_limit is set; stage %d, the largest, uses %s.", s,
                 used);
        return;
    }
    vp_bytes_text(facts->memory_limit, limit, sizeof(limit));
    snprintf(text, room,
             " Stage %d uses %s of its memory_limit of %s (%.0f %%).", s, used,
             limit,
             100.0 * facts->stage_bytes[s] / (double)facts->memory_limit);
}

static void find_memory(const struct vp_limit_facts *facts,
                        struct vp_limits *limits)
{
    double share = limits->recompute + limits->swap;
    bool limited = facts->memory_limit > 0;
    const struct vp_stage_work *stage;
    struct vp_finding *finding;
    char swapped[64] = "";
    int worst, n;

    if (share < LEAST_RECOMPUTE)
        return;
    worst = costliest_recompute(limits);
    stage = &limits->stages[worst];
    finding = add(limits, share);
    snprintf(finding->title, sizeof(finding->title),
             limited ? "Memory is the limit: stages %s to fit memory_limit"
                     : "Stages %s to save memory",
             limits->swap > limits->recompute ? "wait for swapped activations"
                                              : "recompute activations");
    if (limits->swap >= 0.005)
        snprintf(swapped, sizeof(swapped),
                 " and waiting for swapped ones %.0f %%", 100.0 * limits->swap);
    n = snprintf(
        finding->text, sizeof(finding->text),
        "Recomputing activations takes %.0f %% of the ranks' time%s; most of "
        "it in stage %d (%.3g of its %.3g ms per minibatch).",
        100.0 * limits->recompute, swapped, worst,
        1e3 * (stage->r + stage->swap_wait),
        1e3 * (stage->f + stage->r + stage->b + stage->w + stage->swap_wait));
    explain_memory(facts, finding, (size_t)n);
    snprintf(finding->remedy, sizeof(finding->remedy),
             limited ? "More memory per stage would save this time: raise "
                       "memory_limit, use more stages or a smaller batch_size; "
                       "'vpipe plan CONFIG --memory SIZE' says what it brings."
                     : "If the device has room, lower recompute_ratio or "
                       "swap_ratio; 'vpipe plan CONFIG --memory SIZE' finds "
                       "what fits.");
}

/* ---- The rest ----------------------------------------------------------- */

static void find_rest(struct vp_limits *limits)
{
    struct vp_finding *finding;

    if (!limits->known || limits->n_stages < 2 || limits->rest < LEAST_REST)
        return;
    finding = add(limits, limits->rest);
    snprintf(finding->title, sizeof(finding->title),
             "Time is lost outside the schedule");
    snprintf(finding->text, sizeof(finding->text),
             "%.0f %% of the ranks' time is neither work nor explained by the "
             "schedule and the stages' mean times: messages, ranks that share "
             "cores or a device, minibatches of unequal length, or other "
             "programs on the machine.",
             100.0 * limits->rest);
    snprintf(finding->remedy, sizeof(finding->remedy),
             "Compare ranks x threads_per_stage with the cores of the machine "
             "('vpipe info'); look at the timeline for waits between a send "
             "and its receive.");
}

static void find_evaluation(struct vp_limits *limits)
{
    struct vp_finding *finding;

    if (limits->evaluation < LEAST_EVALUATION)
        return;
    finding = add(limits, limits->evaluation);
    snprintf(finding->title, sizeof(finding->title),
             "Evaluations take much of the time");
    snprintf(finding->text, sizeof(finding->text),
             "Ranks spend %.0f %% of the time of the last minibatches on "
             "held-out batches.",
             100.0 * limits->evaluation);
    snprintf(finding->remedy, sizeof(finding->remedy),
             "Raise eval_every, or lower eval_batches.");
}

static void add_no_timeline(const struct vp_limit_facts *facts,
                            struct vp_limits *limits)
{
    struct vp_finding *finding = add(limits, 0.0);

    snprintf(finding->title, sizeof(finding->title),
             "The run folder has no timeline");
    snprintf(finding->text, sizeof(finding->text),
             "trace.json is written at the end of a run. %s",
             isfinite(facts->bubble)
                 ? "The share of the ranks' time without work is among the "
                   "curves."
                 : "There are no steps either.");
}

static void add_no_cause(struct vp_limits *limits)
{
    double busy = limits->compute + limits->recompute + limits->update +
                  limits->evaluation;
    struct vp_finding *finding = add(limits, 0.0);

    snprintf(finding->title, sizeof(finding->title),
             limits->n_stages > 1 ? "No single cause holds this run up"
                                  : "One stage: there is no pipeline to wait "
                                    "for");
    snprintf(finding->text, sizeof(finding->text),
             "Ranks compute %.0f %% of the time; no stage, schedule or memory "
             "limit costs much.",
             100.0 * busy);
    snprintf(finding->remedy, sizeof(finding->remedy),
             "Faster kernels, devices or a smaller model would help; the plan "
             "would not.");
}

static int by_share(const void *a, const void *b)
{
    double x = ((const struct vp_finding *)a)->share;
    double y = ((const struct vp_finding *)b)->share;

    return (x < y) - (x > y);
}

void vp_findings_make(const struct vp_limit_facts *facts,
                      struct vp_limits *limits)
{
    if (limits->known) {
        find_slow_stage(limits);
        find_few_minibatches(facts, limits);
        find_memory(facts, limits);
        find_evaluation(limits);
        qsort(limits->findings, (size_t)limits->n_findings,
              sizeof(limits->findings[0]), by_share);
        find_rest(limits);
    }
    if (!limits->known)
        add_no_timeline(facts, limits);
    else if (limits->n_findings == 0)
        add_no_cause(limits);
}
