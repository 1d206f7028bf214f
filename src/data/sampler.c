/* The order of batches in an epoch: shuffled batches, runs of samples that are
 * read together, and short batches at the end. */
#include "data/sampler.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct vp_sampler {
    uint64_t seed;
    int n_groups;
    struct vp_sample_group *groups;
    int64_t n_samples;
    int64_t run; /* samples per run; 0: samples are not stored in runs */
    struct vp_sample_batch *batches; /* [n_full]; NULL: batches are cut from
                                        the groups */
    int64_t n_full;                  /* full batches of all groups */
    int64_t n_batches;

    /* If batches of several sizes are shuffled, no formula gives the number
     * of samples before a batch. The sums of the last used epoch are cached. */
    pthread_mutex_t lock;
    bool have_sums;
    uint64_t sums_epoch;
    int64_t *sums; /* [n_full] samples of the epoch before batch j */
};

/* Returns a seed for an independent shuffle of each group. Any bit may be
 * changed, because vp_rng() mixes all bits of a seed. */
static uint64_t group_seed(const struct vp_sampler *sampler, int group)
{
    return sampler->seed ^ (uint64_t)(group + 1) << 40;
}

/* Finds full batch `natural`, counted in the order of groups. */
static void find_full(const struct vp_sampler *sampler, int64_t natural,
                      struct vp_data_slot *slot)
{
    if (sampler->batches) {
        slot->group = sampler->batches[natural].group;
        slot->first = sampler->batches[natural].first;
        slot->count = sampler->batches[natural].count;
        return;
    }
    for (int g = 0; g < sampler->n_groups; g++) {
        const struct vp_sample_group *group = &sampler->groups[g];
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

/* Finds full batch `j` of an epoch; does not set first_sample. With runs the
 * batches are not shuffled, because find_in_runs() shuffles their samples. */
static void find_shuffled(const struct vp_sampler *sampler, uint64_t epoch,
                          int64_t j, struct vp_data_slot *slot)
{
    uint64_t n = (uint64_t)sampler->n_full, natural = (uint64_t)j;

    if (sampler->run == 0)
        natural = vp_permute(sampler->seed, epoch, n, (uint64_t)j);
    find_full(sampler, (int64_t)natural, slot);
}

/* Finds short batch `j`, counted after the full ones. Sets first_sample within
 * the epoch too, which does not depend on the shuffle. */
static void find_short(const struct vp_sampler *sampler, int64_t j,
                       struct vp_data_slot *slot)
{
    int64_t before = 0;

    for (int g = 0; g < sampler->n_groups; g++)
        before += sampler->groups[g].n_samples / sampler->groups[g].batch *
                  sampler->groups[g].batch;
    for (int g = 0; g < sampler->n_groups; g++) {
        const struct vp_sample_group *group = &sampler->groups[g];
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

static void make_sums(struct vp_sampler *sampler, uint64_t epoch)
{
    struct vp_data_slot slot;
    int64_t sum = 0;

    for (int64_t j = 0; j < sampler->n_full; j++) {
        sampler->sums[j] = sum;
        find_shuffled(sampler, epoch, j, &slot);
        sum += slot.count;
    }
    sampler->sums_epoch = epoch;
    sampler->have_sums = true;
}

static int64_t samples_before(struct vp_sampler *sampler, uint64_t epoch,
                              int64_t j)
{
    int64_t sum;

    if (sampler->n_groups == 1 && !sampler->batches)
        return j * sampler->groups[0].batch;
    pthread_mutex_lock(&sampler->lock);
    if (!sampler->have_sums || sampler->sums_epoch != epoch)
        make_sums(sampler, epoch);
    sum = sampler->sums[j];
    pthread_mutex_unlock(&sampler->lock);
    return sum;
}

void vp_sampler_slot(struct vp_sampler *sampler, uint64_t m,
                     struct vp_data_slot *out)
{
    uint64_t epoch = m / (uint64_t)sampler->n_batches;
    int64_t j = (int64_t)(m % (uint64_t)sampler->n_batches);

    out->epoch = epoch;
    if (j < sampler->n_full) {
        find_shuffled(sampler, epoch, j, out);
        out->first_sample = (uint64_t)samples_before(sampler, epoch, j);
    } else {
        find_short(sampler, j - sampler->n_full, out);
    }
    out->first_sample += epoch * (uint64_t)sampler->n_samples;
}

/* Returns the k-th run of an epoch; an incomplete run is last. */
static uint64_t find_run(const struct vp_sampler *sampler, uint64_t epoch,
                         uint64_t k)
{
    uint64_t n_runs = (uint64_t)(sampler->n_samples / sampler->run);

    return k < n_runs ? vp_permute(sampler->seed, epoch, n_runs, k) : k;
}

/* Returns the sample at position `p` of an epoch with runs: shuffles positions
 * within the set of VP_SAMPLER_MIX runs, then runs within the epoch. */
static uint64_t find_in_runs(const struct vp_sampler *sampler, uint64_t epoch,
                             uint64_t p)
{
    uint64_t n = (uint64_t)sampler->n_samples;
    uint64_t run = (uint64_t)sampler->run, set = VP_SAMPLER_MIX * run;
    uint64_t begin = p / set * set, n_sets = (n + set - 1) / set;
    uint64_t n_here = n - begin < set ? n - begin : set;
    uint64_t q = begin + vp_permute(group_seed(sampler, 0),
                                    epoch * n_sets + p / set, n_here,
                                    p - begin);

    return find_run(sampler, epoch, q / run) * run + q % run;
}

int64_t vp_sampler_ahead(const struct vp_sampler *sampler,
                         const struct vp_data_slot *slot)
{
    int64_t set = VP_SAMPLER_MIX * sampler->run, begin, due;
    uint64_t epoch = slot->epoch;

    if (sampler->run == 0)
        return -1;
    /* Run r of the next set is due after (2 r + 1) / (2 VP_SAMPLER_MIX) of the
     * current set: other threads may still read the previous set. */
    due = (slot->first % set * 2 / sampler->run + 1) / 2 - 1;
    begin = slot->first / set * set + set;
    if (begin >= sampler->n_samples) {
        begin = 0;
        epoch++;
    }
    if (due < 0 || begin + due * sampler->run >= sampler->n_samples)
        return -1;
    return (int64_t)find_run(sampler, epoch,
                             (uint64_t)(begin / sampler->run + due)) *
           sampler->run;
}

int64_t vp_sampler_sample(const struct vp_sampler *sampler,
                          const struct vp_data_slot *slot, int64_t row)
{
    uint64_t n = (uint64_t)sampler->groups[slot->group].n_samples;
    uint64_t p = (uint64_t)(slot->first + row);

    if (sampler->batches)
        return (int64_t)p;
    if (sampler->run > 0)
        return (int64_t)find_in_runs(sampler, slot->epoch, p);
    return (int64_t)vp_permute(group_seed(sampler, slot->group), slot->epoch, n,
                               p);
}

int64_t vp_sampler_batches(const struct vp_sampler *sampler)
{
    return sampler->n_batches;
}

int64_t vp_sampler_samples(const struct vp_sampler *sampler)
{
    return sampler->n_samples;
}

const struct vp_sample_group *vp_sampler_group(const struct vp_sampler *sampler,
                                               int group)
{
    return &sampler->groups[group];
}

/* Copies `groups`. Returns NULL if out of memory. */
static struct vp_sampler *create(uint64_t seed,
                                 const struct vp_sample_group *groups,
                                 int n_groups)
{
    struct vp_sampler *sampler = calloc(1, sizeof(*sampler));

    if (!sampler)
        return NULL;
    pthread_mutex_init(&sampler->lock, NULL);
    sampler->seed = seed;
    sampler->n_groups = n_groups;
    sampler->groups = calloc((size_t)n_groups, sizeof(*groups));
    if (!sampler->groups) {
        vp_sampler_free(sampler);
        return NULL;
    }
    for (int g = 0; g < n_groups; g++)
        sampler->groups[g] = groups[g];
    return sampler;
}

static enum vp_status add_sums(struct vp_sampler *sampler)
{
    sampler->sums = calloc((size_t)sampler->n_full + 1, sizeof(*sampler->sums));
    return sampler->sums ? VP_OK : VP_ERR_NOMEM;
}

enum vp_status vp_sampler_create(uint64_t seed,
                                 const struct vp_sample_group *groups,
                                 int n_groups, struct vp_sampler **out)
{
    struct vp_sampler *sampler = create(seed, groups, n_groups);

    if (!sampler)
        return VP_ERR_NOMEM;
    for (int g = 0; g < n_groups; g++) {
        sampler->n_samples += groups[g].n_samples;
        sampler->n_full += groups[g].n_samples / groups[g].batch;
        sampler->n_batches += groups[g].n_samples % groups[g].batch > 0;
    }
    sampler->n_batches += sampler->n_full;
    VP_BUG_ON(sampler->n_batches == 0);
    if (n_groups > 1 && add_sums(sampler) != VP_OK) {
        vp_sampler_free(sampler);
        return VP_ERR_NOMEM;
    }
    *out = sampler;
    return VP_OK;
}

enum vp_status vp_sampler_create_batches(uint64_t seed,
                                         const struct vp_sample_group *groups,
                                         int n_groups,
                                         const struct vp_sample_batch *batches,
                                         int64_t n_batches,
                                         struct vp_sampler **out)
{
    struct vp_sampler *sampler = create(seed, groups, n_groups);
    size_t n_bytes = (size_t)n_batches * sizeof(*batches);

    if (!sampler)
        return VP_ERR_NOMEM;
    VP_BUG_ON(n_batches == 0);
    sampler->n_full = sampler->n_batches = n_batches;
    sampler->batches = malloc(n_bytes);
    if (!sampler->batches || add_sums(sampler) != VP_OK) {
        vp_sampler_free(sampler);
        return VP_ERR_NOMEM;
    }
    memcpy(sampler->batches, batches, n_bytes);
    for (int64_t i = 0; i < n_batches; i++)
        sampler->n_samples += batches[i].count;
    *out = sampler;
    return VP_OK;
}

enum vp_status vp_sampler_create_runs(uint64_t seed,
                                      const struct vp_sample_group *group,
                                      int64_t run, struct vp_sampler **out)
{
    VP_TRY(vp_sampler_create(seed, group, 1, out));
    (*out)->run = run;
    return VP_OK;
}

void vp_sampler_free(struct vp_sampler *sampler)
{
    if (!sampler)
        return;
    pthread_mutex_destroy(&sampler->lock);
    free(sampler->batches);
    free(sampler->sums);
    free(sampler->groups);
    free(sampler);
}
