#include "data/plan.h"

#include "data/data.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct vp_plan {
    uint64_t seed;
    int n_groups;
    struct vp_group *groups;
    int64_t n_samples;
    int64_t run;    /* 0: samples lie in no order that matters */
    int64_t n_full; /* full batches of all groups */
    int64_t n_batches;

    /* Batches of several sizes in a shuffled order have no closed form for the
     * samples before one, so the sums of the last epoch asked for are kept. */
    pthread_mutex_t lock;
    bool have_sums;
    uint64_t sums_epoch;
    int64_t *sums; /* [n_full] samples of the epoch before batch j */
};

/* Independent shuffles of one run; seeds are folded, so any bit will do. */
static uint64_t group_seed(const struct vp_plan *plan, int group)
{
    return plan->seed ^ (uint64_t)(group + 1) << 40;
}

/* Full batch `natural` in the order of groups. */
static void find_full(const struct vp_plan *plan, int64_t natural,
                      struct vp_slot *slot)
{
    for (int g = 0; g < plan->n_groups; g++) {
        const struct vp_group *group = &plan->groups[g];
        int64_t n_full = group->n_samples / group->batch;

        if (natural < n_full) {
            slot->group = g;
            slot->first = natural * group->batch;
            slot->count = group->batch;
            return;
        }
        natural -= n_full;
    }
    VP_BUG_ON(true);
}

/* Full batch `j` of an epoch, all but first_sample. With runs the samples
 * themselves are in the order to be read. */
static void find_shuffled(const struct vp_plan *plan, uint64_t epoch, int64_t j,
                          struct vp_slot *slot)
{
    uint64_t n = (uint64_t)plan->n_full, natural = (uint64_t)j;

    if (plan->run == 0)
        natural = vp_permute(plan->seed, epoch, n, (uint64_t)j);
    find_full(plan, (int64_t)natural, slot);
}

/* Left-over batch `j`, counted after the full ones. Also its first_sample
 * within the epoch, which no shuffle changes. */
static void find_short(const struct vp_plan *plan, int64_t j,
                       struct vp_slot *slot)
{
    int64_t before = 0;

    for (int g = 0; g < plan->n_groups; g++)
        before += plan->groups[g].n_samples / plan->groups[g].batch *
                  plan->groups[g].batch;
    for (int g = 0; g < plan->n_groups; g++) {
        const struct vp_group *group = &plan->groups[g];
        int64_t rest = group->n_samples % group->batch;

        if (rest > 0 && j-- == 0) {
            slot->group = g;
            slot->first = group->n_samples - rest;
            slot->count = rest;
            slot->first_sample = (uint64_t)before;
            return;
        }
        before += rest;
    }
    VP_BUG_ON(true);
}

static void make_sums(struct vp_plan *plan, uint64_t epoch)
{
    struct vp_slot slot;
    int64_t sum = 0;

    for (int64_t j = 0; j < plan->n_full; j++) {
        plan->sums[j] = sum;
        find_shuffled(plan, epoch, j, &slot);
        sum += slot.count;
    }
    plan->sums_epoch = epoch;
    plan->have_sums = true;
}

static int64_t samples_before(struct vp_plan *plan, uint64_t epoch, int64_t j)
{
    int64_t sum;

    if (plan->n_groups == 1)
        return j * plan->groups[0].batch;
    pthread_mutex_lock(&plan->lock);
    if (!plan->have_sums || plan->sums_epoch != epoch)
        make_sums(plan, epoch);
    sum = plan->sums[j];
    pthread_mutex_unlock(&plan->lock);
    return sum;
}

void vp_plan_slot(struct vp_plan *plan, uint64_t m, struct vp_slot *out)
{
    uint64_t epoch = m / (uint64_t)plan->n_batches;
    int64_t j = (int64_t)(m % (uint64_t)plan->n_batches);

    out->epoch = epoch;
    if (j < plan->n_full) {
        find_shuffled(plan, epoch, j, out);
        out->first_sample = (uint64_t)samples_before(plan, epoch, j);
    } else {
        find_short(plan, j - plan->n_full, out);
    }
    out->first_sample += epoch * (uint64_t)plan->n_samples;
}

/* The run that is k-th in an epoch; the incomplete one is last. */
static uint64_t find_run(const struct vp_plan *plan, uint64_t epoch, uint64_t k)
{
    uint64_t n_runs = (uint64_t)(plan->n_samples / plan->run);

    return k < n_runs ? vp_permute(plan->seed, epoch, n_runs, k) : k;
}

/* Position `p` of an epoch, where samples lie in runs: first a place among the
 * samples of its set of runs, then the run that stands there. */
static uint64_t find_in_runs(const struct vp_plan *plan, uint64_t epoch,
                             uint64_t p)
{
    uint64_t n = (uint64_t)plan->n_samples;
    uint64_t run = (uint64_t)plan->run, set = VP_PLAN_MIX * run;
    uint64_t begin = p / set * set, n_sets = (n + set - 1) / set;
    uint64_t n_here = n - begin < set ? n - begin : set;
    uint64_t q = begin + vp_permute(group_seed(plan, 0),
                                    epoch * n_sets + p / set, n_here,
                                    p - begin);

    return find_run(plan, epoch, q / run) * run + q % run;
}

int64_t vp_plan_ahead(const struct vp_plan *plan, const struct vp_slot *slot)
{
    int64_t set = VP_PLAN_MIX * plan->run, begin, due;
    uint64_t epoch = slot->epoch;

    if (plan->run == 0)
        return -1;
    /* Run r is due when (2 r + 1) / 2 VP_PLAN_MIX of this set is used: others
     * may still be busy with the set before. */
    due = (slot->first % set * 2 / plan->run + 1) / 2 - 1;
    begin = slot->first / set * set + set;
    if (begin >= plan->n_samples) {
        begin = 0;
        epoch++;
    }
    if (due < 0 || begin + due * plan->run >= plan->n_samples)
        return -1;
    return (int64_t)find_run(plan, epoch, (uint64_t)(begin / plan->run + due)) *
           plan->run;
}

int64_t vp_plan_sample(const struct vp_plan *plan, const struct vp_slot *slot,
                       int64_t row)
{
    uint64_t n = (uint64_t)plan->groups[slot->group].n_samples;
    uint64_t p = (uint64_t)(slot->first + row);

    if (plan->run > 0)
        return (int64_t)find_in_runs(plan, slot->epoch, p);
    return (int64_t)vp_permute(group_seed(plan, slot->group), slot->epoch, n,
                               p);
}

int64_t vp_plan_batches(const struct vp_plan *plan)
{
    return plan->n_batches;
}

int64_t vp_plan_samples(const struct vp_plan *plan)
{
    return plan->n_samples;
}

const struct vp_group *vp_plan_group(const struct vp_plan *plan, int group)
{
    return &plan->groups[group];
}

enum vp_status vp_plan_create(uint64_t seed, const struct vp_group *groups,
                              int n_groups, struct vp_plan **out)
{
    struct vp_plan *plan = calloc(1, sizeof(*plan));

    if (!plan)
        return VP_ERR_NOMEM;
    pthread_mutex_init(&plan->lock, NULL);
    plan->seed = seed;
    plan->n_groups = n_groups;
    plan->groups = calloc((size_t)n_groups, sizeof(*groups));
    if (!plan->groups)
        goto err_free_plan;
    for (int g = 0; g < n_groups; g++) {
        plan->groups[g] = groups[g];
        plan->n_samples += groups[g].n_samples;
        plan->n_full += groups[g].n_samples / groups[g].batch;
        plan->n_batches += groups[g].n_samples % groups[g].batch > 0;
    }
    plan->n_batches += plan->n_full;
    VP_BUG_ON(plan->n_batches == 0);
    if (n_groups > 1) {
        plan->sums = calloc((size_t)plan->n_full + 1, sizeof(*plan->sums));
        if (!plan->sums)
            goto err_free_plan;
    }
    *out = plan;
    return VP_OK;

err_free_plan:
    vp_plan_free(plan);
    return VP_ERR_NOMEM;
}

enum vp_status vp_plan_create_runs(uint64_t seed, const struct vp_group *group,
                                   int64_t run, struct vp_plan **out)
{
    VP_TRY(vp_plan_create(seed, group, 1, out));
    (*out)->run = run;
    return VP_OK;
}

void vp_plan_free(struct vp_plan *plan)
{
    if (!plan)
        return;
    pthread_mutex_destroy(&plan->lock);
    free(plan->sums);
    free(plan->groups);
    free(plan);
}
