/* Moves the state of a run from the stages of one trainer to those of another. */
#include "runtime/trainer/migrate.h"

#include "base/clock.h"
#include "runtime/stage/stage_state.h"
#include "runtime/trainer/internal.h"

#include <stdlib.h>

/* ---- What may change ---------------------------------------------------- */

/* The number of samples and updates must mean the same before and after. */
static enum vp_status check_plan(const struct vp_trainer *from,
                                 const struct vp_plan *plan, struct vp_err *err)
{
    const struct vp_plan *now = &from->config.plan;
    const struct vp_generator *next = vp_generator_find(
        plan->schedule ? plan->schedule : "1f1b");

    if (!next)
        return vp_err_set(err, VP_ERR_INVALID, "there is no schedule '%s'",
                          plan->schedule);
    if (next->stream != from->generator->stream)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s is %ssynchronous, the run is not; "
                          "stop the run and resume it with sync_mode",
                          next->name, next->stream ? "a" : "");
    if (plan->accumulation_steps != now->accumulation_steps)
        return vp_err_set(err, VP_ERR_INVALID,
                          "accumulation_steps: %d minibatches make an update "
                          "of this run, not %d; stop the run and resume it",
                          now->accumulation_steps, plan->accumulation_steps);
    return VP_OK;
}

enum vp_status vp_trainer_create_next(const struct vp_trainer *from,
                                      const struct vp_plan *plan,
                                      struct vp_trainer **out,
                                      struct vp_err *err)
{
    struct vp_train_config config = from->config;
    struct vp_trainer *next;

    VP_TRY(check_plan(from, plan, err));
    config.plan = *plan;
    config.plan.devices = from->config.plan.devices;
    config.loader = NULL;
    config.takes_over = true;
    VP_TRY(vp_trainer_create(&config, &next, err));
    if (next->pipeline.n_ranks != from->pipeline.n_ranks) {
        vp_err_set(err, VP_ERR_INVALID,
                   "the run has %d ranks, the plan %d; a run keeps its ranks",
                   from->pipeline.n_ranks, next->pipeline.n_ranks);
        vp_trainer_free(next);
        return VP_ERR_INVALID;
    }
    *out = next;
    return VP_OK;
}

/* ---- State -------------------------------------------------------------- */

/* A loader over the stages of an idle trainer. Several threads read. */
static enum vp_status load(void *ctx, const struct vp_state_item *item,
                           float *out, struct vp_err *err)
{
    struct vp_trainer *from = ctx;

    for (int r = 0; r < from->pipeline.n_ranks; r++)
        for (int i = 0; i < from->ranks[r].n_stages; i++) {
            struct vp_rank_stage *rs = &from->ranks[r].stages[i];
            enum vp_status st;

            if (rs->replica > 0)
                continue;
            st = vp_stage_read_item(&rs->stage, item, out);
            if (st == VP_OK)
                return VP_OK;
            if (st != VP_ERR_END)
                return vp_err_set(err, st, "moving '%s' failed", item->name);
        }
    return vp_err_set(err, VP_ERR_INVALID, "no stage has '%s'", item->name);
}

/* What every block brings with it. */
static void describe_blocks(const struct vp_trainer *from,
                            const struct vp_progress *progress,
                            const struct vp_block_count *counts,
                            struct vp_block_state *out)
{
    int block = 0;

    for (int s = 0; s < from->pipeline.n_stages; s++)
        for (int b = 0; b < vp_trainer_n_blocks(from, s); b++, block++) {
            out[block] = (struct vp_block_state){
                .updates = counts[block].updates,
                .scale = progress->scale[s],
                .past = progress->past[s],
                .full = progress->past[s] ==
                        from->schedule.stages[s].version_lag,
            };
            out[block].scale.n_skipped = counts[block].n_skipped;
        }
}

/* Where `next` begins. Returns false if versions are missing. */
static bool join(const struct vp_trainer *next,
                 const struct vp_block_state *blocks,
                 struct vp_progress *progress)
{
    int n_blocks[VP_MAX_STAGES], lags[VP_MAX_STAGES];

    for (int s = 0; s < next->pipeline.n_stages; s++) {
        n_blocks[s] = vp_trainer_n_blocks(next, s);
        lags[s] = next->schedule.stages[s].version_lag;
    }
    return vp_progress_join(blocks, n_blocks, lags, next->pipeline.n_stages,
                            progress);
}

/* ---- What was moved ----------------------------------------------------- */

static int rank_of_block(const struct vp_trainer *trainer, int block)
{
    for (int r = 0; r < trainer->pipeline.n_ranks; r++)
        for (int i = 0; i < trainer->ranks[r].n_stages; i++) {
            const struct vp_stage_spec *spec =
                &trainer->ranks[r].stages[i].stage.plan.spec;

            if (block >= spec->first_block &&
                block < spec->first_block + spec->n_blocks)
                return r;
        }
    vp_bug(__FILE__, __LINE__, "a block without a rank");
}

static void count_moved(const struct vp_trainer *next,
                        const struct vp_trainer *from, struct vp_migration *out)
{
    const struct vp_graph *graph = &from->config.graphs[0];
    int n_arrays = 1 + vp_optim_n_moments(from->config.optim.kind);

    for (int b = 0; b < graph->n_blocks; b++) {
        if (rank_of_block(next, b) == rank_of_block(from, b))
            continue;
        out->n_moved++;
        for (vp_par par = 0; par < graph->n_params; par++)
            if (graph->params[par].block == b && !graph->params[par].constant)
                out->n_bytes += graph->params[par].rows *
                                graph->params[par].cols * n_arrays *
                                (int64_t)sizeof(float);
    }
}

/* A trace shows what was done under both plans. */
static void hand_over_records(struct vp_trainer *next, struct vp_trainer *from)
{
    for (int r = 0; r < next->pipeline.n_ranks; r++) {
        struct vp_recorder *recorder = next->ranks[r].recorder;

        next->ranks[r].recorder = from->ranks[r].recorder;
        from->ranks[r].recorder = recorder;
    }
}

/* ---- The move ----------------------------------------------------------- */

static enum vp_status restore(struct vp_trainer *next, struct vp_err *err)
{
    vp_trainer_set_progress(next);
    vp_trainer_post(next, &(struct vp_job){ .kind = VP_JOB_RESTORE });
    vp_trainer_wait(next, next->n_jobs);
    VP_TRY(vp_world_status(next->pipeline.world, err));
    return vp_pipeline_open_readers(next->ranks, &next->schedule, err);
}

enum vp_status vp_trainer_take_over(struct vp_trainer *next,
                                    struct vp_trainer *from,
                                    struct vp_migration *out,
                                    struct vp_err *err)
{
    size_t n = (size_t)from->config.graphs[0].n_blocks;
    struct vp_block_count *counts = calloc(n, sizeof(*counts));
    struct vp_block_state *blocks = calloc(n, sizeof(*blocks));
    struct vp_loader loader = { .ctx = from,
                                .progress = vp_trainer_progress(from),
                                .blocks = counts,
                                .load = load };
    int64_t start_ns = vp_clock_ns();
    enum vp_status st = VP_ERR_NOMEM;

    *out = (struct vp_migration){ .exact = true };
    if (counts && blocks) {
        vp_trainer_block_counts(from, &loader.progress, counts);
        describe_blocks(from, &loader.progress, counts, blocks);
        out->exact = join(next, blocks, &loader.progress);
        next->config.loader = &loader;
        st = restore(next, err);
        next->config.loader = NULL;
        next->config.takes_over = false;
        count_moved(next, from, out);
        if (st == VP_OK)
            hand_over_records(next, from);
    } else {
        vp_err_set(err, st, "migration: out of memory");
    }
    free(counts);
    free(blocks);
    out->seconds = vp_clock_seconds(start_ns, vp_clock_ns());
    return st;
}
