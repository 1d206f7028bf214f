/* Decides which weight versions stages keep for a move, and counts them. */
#include "runtime/trainer/older_versions.h"

/* ---- Stages ------------------------------------------------------------- */

/* Returns the first replica of a stage, from which versions are read, if it is
 * on `rank`; else NULL. */
static struct vp_stage *stage_of(const struct vp_trainer *from, int stage,
                                 int rank)
{
    for (int i = 0; i < from->ranks[rank].n_stages; i++)
        if (from->ranks[rank].stages[i].index == stage &&
            from->ranks[rank].stages[i].replica == 0)
            return &from->ranks[rank].stages[i].stage;
    return NULL;
}

int vp_block_stage(const struct vp_trainer *trainer, int block)
{
    for (int s = trainer->schedule.n_stages - 1; s > 0; s--) {
        int rank = trainer->schedule.stages[s].first_rank;

        if (block >= stage_of(trainer, s, rank)->plan.spec.first_block)
            return s;
    }
    return 0;
}

/* ---- Needs -------------------------------------------------------------- */

bool vp_schedules_have_same_depths(const struct vp_schedule *a,
                                   const struct vp_schedule *b)
{
    bool same = a->n_stages == b->n_stages;

    for (int s = 0; same && s < a->n_stages; s++)
        same = a->stages[s].version_lag == b->stages[s].version_lag &&
               a->stages[s].update_every == b->stages[s].update_every;
    return same;
}

static void add_need(struct vp_older_needs *needs, int stage, int block,
                     int n_versions)
{
    if (needs->n_versions[stage] == 0)
        needs->first[stage] = block;
    needs->n_blocks[stage] = block + 1 - needs->first[stage];
    if (n_versions > needs->n_versions[stage])
        needs->n_versions[stage] = n_versions;
}

void vp_older_needs_find(const struct vp_trainer *from,
                         const struct vp_schedule *next, const int *partition,
                         struct vp_older_needs *out)
{
    int block = 0;

    *out = (struct vp_older_needs){ .n_versions = { 0 } };
    if (!from->generator->stream || !partition ||
        !vp_schedules_have_same_depths(&from->schedule, next))
        return;
    for (int s = 0; s < next->n_stages; s++)
        for (int b = 0; b < partition[s]; b++, block++) {
            int stage = vp_block_stage(from, block);
            int lacks = next->stages[s].version_lag -
                        (from->schedule.stages[stage].n_versions - 1);

            if (lacks > 0)
                add_need(out, stage, block, lacks);
        }
}

int64_t vp_older_needs_bytes(const struct vp_trainer *from,
                             const struct vp_older_needs *needs, int rank)
{
    int64_t sum = 0;

    for (int s = 0; s < from->pipeline.n_stages; s++) {
        const struct vp_stage *stage = stage_of(from, s, rank);

        if (stage && needs->n_versions[s] > 0)
            sum += vp_kept_bytes(stage, needs->first[s], needs->n_blocks[s],
                                 needs->n_versions[s]);
    }
    return sum;
}

/* ---- Keeping ------------------------------------------------------------ */

/* Returns the stage if it is in this process, else NULL. */
static struct vp_stage *find_here(const struct vp_trainer *from, int stage)
{
    int rank = from->schedule.stages[stage].first_rank;

    return from->ranks[rank].is_here ? stage_of(from, stage, rank) : NULL;
}

enum vp_status vp_older_versions_create(struct vp_trainer *from,
                                        const struct vp_older_needs *needs,
                                        struct vp_older_versions *out)
{
    *out = (struct vp_older_versions){ .from = from,
                                       .needs = *needs,
                                       .asked_at = -1 };
    for (int s = 0; s < from->pipeline.n_stages; s++) {
        struct vp_stage *stage = find_here(from, s);

        if (!stage || needs->n_versions[s] == 0)
            continue;
        VP_TRY(vp_kept_create(stage, needs->first[s], needs->n_blocks[s],
                              needs->n_versions[s], &out->kept[s]));
        atomic_store(&stage->kept, out->kept[s]);
    }
    return VP_OK;
}

int vp_older_versions_count(const struct vp_older_versions *older, int stage)
{
    int most = older->needs.n_versions[stage], n = most;

    if (older->kept[stage])
        n = atomic_load(&older->kept[stage]->n_kept);
    return n < most ? n : most;
}

/* Returns the number of minibatches after which every stage has kept all
 * versions that it must keep. Includes one more round, because updates made
 * before the start are counted later. */
static int64_t minibatches_needed(const struct vp_older_versions *older)
{
    const struct vp_schedule *schedule = &older->from->schedule;
    int64_t most = 0;

    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_schedule_stage *stage = &schedule->stages[s];
        int n = older->needs.n_versions[s];
        int64_t rounds = n > 0 ? n + stage->n_versions + stage->depth + 1 : 0;

        if (rounds * stage->update_every > most)
            most = rounds * stage->update_every;
    }
    return most;
}

bool vp_older_versions_are_there(struct vp_older_versions *older)
{
    const struct vp_trainer *from = older->from;

    if (older->asked_at < 0)
        older->asked_at = from->n_minibatches;
    if (from->pipeline.remote && from->pipeline.is_lead &&
        from->n_minibatches - older->asked_at < minibatches_needed(older))
        return false;
    for (int s = 0; s < from->pipeline.n_stages; s++)
        if (vp_older_versions_count(older, s) < older->needs.n_versions[s])
            return false;
    return true;
}

void vp_older_versions_release(struct vp_older_versions *older)
{
    for (int s = 0; older->from && s < older->from->pipeline.n_stages; s++) {
        if (!older->kept[s] || older->from->lost)
            /* Leaked on purpose: a rank thread that never returned may still
             * use it. */
            continue;
        atomic_store(&find_here(older->from, s)->kept, NULL);
        vp_kept_free(older->kept[s]);
    }
    *older = (struct vp_older_versions){ .from = NULL };
}
