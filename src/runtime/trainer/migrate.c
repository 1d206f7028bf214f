/* Moves the state of a run from the stages of one trainer to those of another. */
#include "runtime/trainer/migrate.h"

#include "base/clock.h"
#include "runtime/fit.h"
#include "runtime/trainer/older_versions.h"
#include "runtime/trainer/transfer.h"

#include <stdlib.h>

/* ---- Checks ------------------------------------------------------------- */

/* Samples and updates must be counted in the same way before and after. */
static enum vp_status check_counts(const struct vp_trainer *from,
                                   const struct vp_plan *plan,
                                   struct vp_err *err)
{
    int now = from->config.plan.accumulation_steps;
    int n_ranks = vp_plan_n_ranks(plan);

    if (from->pipeline.n_members > 1)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "mp_size is %d: a run with tensor-parallel ranks "
                          "cannot be re-balanced; stop it and resume it with "
                          "another plan",
                          from->pipeline.n_members);
    if (plan->accumulation_steps != now)
        return vp_err_set(err, VP_ERR_INVALID,
                          "accumulation_steps: %d minibatches make an update "
                          "of this run, not %d; stop the run and resume it",
                          now, plan->accumulation_steps);
    if (n_ranks != from->pipeline.n_ranks)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the run has %d ranks, the plan %d; make them equal",
                          from->pipeline.n_ranks, n_ranks);
    return VP_OK;
}

static enum vp_status check_plan(const struct vp_trainer *from,
                                 const struct vp_plan *plan, struct vp_err *err)
{
    const char *name = plan->schedule ? plan->schedule : "1f1b";
    const struct vp_generator *next = vp_generator_find(name);

    if (!next)
        return vp_err_set(err, VP_ERR_INVALID, "there is no schedule '%s'",
                          name);
    if (next->stream != from->generator->stream)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s is %ssynchronous, the run is not; stop "
                          "the run and resume it with another sync_mode",
                          name, next->stream ? "a" : "");
    for (int s = 0; from->config.world && s < from->pipeline.n_stages; s++)
        if ((s > 0 && from->pipeline.edges[s - 1] == VP_EDGE_DEVICE) ||
            from->pipeline.replica_edges[s] == VP_EDGE_DEVICE)
            return vp_err_set(err, VP_ERR_UNSUPPORTED,
                              "GPUs of this run send to each other directly; "
                              "start it with 'transport: mpi' to move it");
    if (from->config.plan.shard_optimizer || plan->shard_optimizer)
        return vp_err_refuse(err, "shard_optimizer",
                             "replicas own shards of the optimizer's state, "
                             "which stay where they are; stop the run and "
                             "resume it with the plan");
    return check_counts(from, plan, err);
}

/* ---- Memory ------------------------------------------------------------- */

static int64_t rank_bytes(const struct vp_schedule *schedule,
                          const struct vp_stage_price *prices, int rank)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    int64_t sum = 0;

    for (int i = 0; i < list->n_stages; i++)
        sum += prices[list->stages[i]].memory.total;
    return sum;
}

/* Returns the bytes that a rank may allocate in addition to `has`. Without a
 * limit, allocations of host memory fail by themselves; for a device the
 * headroom is the limit. */
static int64_t rank_room(const struct vp_train_config *config, int n_stages,
                         int64_t has)
{
    int64_t headroom = (int64_t)config->rebalance_headroom * n_stages;

    if (config->memory_limit > 0)
        return (int64_t)config->memory_limit * n_stages + headroom - has;
    return config->backend->device->host_memory ? INT64_MAX : headroom;
}

/* Both plans are in memory at the same time until the run has moved. */
static enum vp_status check_room(const struct vp_trainer *from,
                                 const struct vp_priced_plan *next,
                                 const struct vp_older_needs *older,
                                 struct vp_err *err)
{
    for (int r = 0; r < from->pipeline.n_ranks; r++) {
        int64_t has = rank_bytes(&from->schedule, from->prices, r);
        int64_t needs = rank_bytes(&next->schedule, next->stages, r) +
                        vp_older_needs_bytes(from, older, r);
        int n = next->schedule.ranks[r].n_stages;
        int64_t room = rank_room(&from->config, n, has);
        int64_t more = (needs - room + n - 1) / n +
                       (int64_t)from->config.rebalance_headroom;
        char text[2][VP_BYTES_TEXT];

        if (needs <= room)
            continue;
        vp_bytes_texts(needs, room > 0 ? room : 0, text[0], text[1],
                       sizeof(text[0]));
        return vp_err_refuse(
            err, "rebalance_headroom",
            "rank %d needs %s for the next plan beside the one "
            "it has, and has room for %s; set "
            "rebalance_headroom to %lld",
            r, text[0], text[1], (long long)more);
    }
    return VP_OK;
}

/* A round must have the same length before and after the move of a block. */
static enum vp_status check_rounds(const struct vp_trainer *from,
                                   const struct vp_schedule *next,
                                   const int *partition, struct vp_err *err)
{
    int block = 0;

    for (int s = 0; partition && s < next->n_stages; s++)
        for (int b = 0; b < partition[s]; b++, block++) {
            int stage = vp_block_stage(from, block);

            if (next->stages[s].update_every !=
                from->schedule.stages[stage].update_every)
                return vp_err_set(
                    err, VP_ERR_INVALID,
                    "block %d would move from stage %d, which is updated every "
                    "%d minibatches, to stage %d, every %d; leave it where it "
                    "is, or stop the run and resume it",
                    block, stage, from->schedule.stages[stage].update_every, s,
                    next->stages[s].update_every);
        }
    return VP_OK;
}

/* Checks the plan of `config` before anything is allocated. */
static enum vp_status check_price(const struct vp_trainer *from,
                                  const struct vp_train_config *config,
                                  struct vp_older_needs *older_out,
                                  struct vp_err *err)
{
    struct vp_priced_plan next;
    enum vp_status st;

    VP_TRY(vp_priced_plan_make(config, &next, err));
    vp_older_needs_find(from, &next.schedule, config->plan.partition,
                        older_out);
    st = from->generator->stream
             ? check_rounds(from, &next.schedule, config->plan.partition, err)
             : VP_OK;
    if (st == VP_OK)
        st = check_room(from, &next, older_out, err);
    vp_priced_plan_release(&next);
    return st;
}

/* ---- Creating ----------------------------------------------------------- */

static enum vp_status keep_versions(struct vp_trainer *from,
                                    const struct vp_older_needs *needs,
                                    struct vp_trainer *next, struct vp_err *err)
{
    enum vp_status st = vp_older_versions_create(from, needs, &next->older);

    return st == VP_OK ? VP_OK
                       : vp_err_set(err, st, "older versions of weights: %s",
                                    vp_status_name(st));
}

enum vp_status vp_trainer_create_next(struct vp_trainer *from,
                                      const struct vp_plan *plan,
                                      struct vp_trainer **out,
                                      struct vp_err *err)
{
    struct vp_train_config config = from->config;
    enum vp_status st = check_plan(from, plan, err);
    struct vp_trainer *next = NULL;
    struct vp_older_needs older;

    config.plan = *plan;
    config.plan.devices = from->config.plan.devices;
    config.loader = NULL;
    config.takes_over = true;
    if (st == VP_OK)
        st = check_price(from, &config, &older, err);
    if (config.world) /* each process may have its own limits */
        st = vp_world_agree(config.world, st, VP_LIMIT_NEVER, err);
    VP_TRY(st);
    st = vp_trainer_create(&config, &next, err);
    if (st == VP_OK)
        st = keep_versions(from, &older, next, err);
    if (config.world)
        st = vp_world_agree(config.world, st, VP_LIMIT_NEVER, err);
    if (st != VP_OK)
        vp_trainer_free(next);
    else
        *out = next;
    return st;
}

bool vp_trainer_can_take_over(struct vp_trainer *next)
{
    return vp_older_versions_are_there(&next->older);
}

/* ---- Counts ------------------------------------------------------------- */

/* Sets the counts, loss scale and versions of every block. A block has the
 * versions of its stage and, if `next` needs them, the older ones that were
 * kept. */
static void describe_blocks(const struct vp_trainer *next,
                            const struct vp_trainer *from,
                            const struct vp_progress *progress,
                            const struct vp_block_count *counts,
                            struct vp_block_state *out)
{
    const struct vp_older_needs *needs = &next->older.needs;
    int block = 0;

    for (int s = 0; s < from->pipeline.n_stages; s++) {
        int n_kept = vp_older_versions_count(&next->older, s);
        int lag = from->schedule.stages[s].version_lag;

        for (int b = 0; b < vp_trainer_n_blocks(from, s); b++, block++) {
            bool kept = block >= needs->first[s] &&
                        block < needs->first[s] + needs->n_blocks[s];

            out[block] = (struct vp_block_state){
                .updates = counts[block].updates,
                .scale = progress->scale[s],
                .past = progress->past[s] + (kept ? n_kept : 0),
                .full = progress->past[s] == lag,
            };
            out[block].scale.n_skipped = counts[block].n_skipped;
        }
    }
}

/* Sets the start of `next`. Returns false if a new segment starts there,
 * because depths differ or versions are missing. */
static bool join(const struct vp_trainer *next, const struct vp_trainer *from,
                 const struct vp_block_state *blocks,
                 struct vp_progress *progress)
{
    int n_blocks[VP_MAX_STAGES], lags[VP_MAX_STAGES];
    bool exact;

    for (int s = 0; s < next->pipeline.n_stages; s++) {
        n_blocks[s] = vp_trainer_n_blocks(next, s);
        lags[s] = next->schedule.stages[s].version_lag;
    }
    exact = vp_progress_join(blocks, n_blocks, lags, next->pipeline.n_stages,
                             progress);
    if (from->generator->stream &&
        !vp_schedules_have_same_depths(&from->schedule, &next->schedule)) {
        exact = false;
        for (int s = 0; s < next->pipeline.n_stages; s++)
            progress->past[s] = 0;
    }
    return exact;
}

/* ---- Moved blocks ------------------------------------------------------- */

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

/* Passes the recorders on, so that a trace shows the actions under both
 * plans. */
static void hand_over_records(struct vp_trainer *next, struct vp_trainer *from)
{
    for (int r = 0; r < next->pipeline.n_ranks; r++) {
        struct vp_recorder *recorder = next->ranks[r].recorder;

        next->ranks[r].recorder = from->ranks[r].recorder;
        next->ranks[r].recorder->plan_ns = vp_clock_ns();
        from->ranks[r].recorder = recorder;
    }
}

/* ---- The move ----------------------------------------------------------- */

static enum vp_status order(struct vp_trainer *trainer, enum vp_order_kind kind,
                            struct vp_err *err)
{
    const struct vp_order order = { .kind = kind };
    enum vp_status st = vp_remote_send_order(&trainer->pipeline, &order);

    if (st == VP_ERR_ABORTED)
        return vp_world_status(trainer->pipeline.world, err);
    return st == VP_OK
               ? VP_OK
               : vp_err_set(err, st,
                            "another process does not respond; see its log");
}

enum vp_status vp_trainer_order_prepare(struct vp_trainer *trainer,
                                        struct vp_err *err)
{
    return order(trainer, VP_ORDER_PREPARE, err);
}

enum vp_status vp_trainer_order_move(struct vp_trainer *trainer,
                                     struct vp_err *err)
{
    return order(trainer, VP_ORDER_MOVE, err);
}

/* All processes start with the counts of the lead. */
static enum vp_status share_progress(const struct vp_trainer *from,
                                     struct vp_progress *progress)
{
    *progress = vp_trainer_progress(from);
    return from->pipeline.remote
               ? vp_world_share(from->pipeline.world, progress,
                                sizeof(*progress),
                                vp_limit_ms(from->config.timeout_ms))
               : VP_OK;
}

/* Every rank of `next` loads its state; this thread sends what other processes
 * load. */
static enum vp_status load_all(struct vp_trainer *next,
                               struct vp_transfer *transfer, struct vp_err *err)
{
    enum vp_status st;

    vp_trainer_set_progress(next);
    vp_trainer_post(next, &(struct vp_job){ .kind = VP_JOB_RESTORE });
    for (int r = 0; r < next->pipeline.n_ranks; r++)
        if (!next->ranks[r].is_here)
            vp_counter_add(&next->pipeline.n_done[r]);
    st = vp_transfer_send(transfer, err);
    if (st != VP_OK) /* also ends the waits of the ranks */
        vp_world_abort(next->pipeline.world, st, err->text);
    vp_trainer_wait(next, next->n_jobs);
    return vp_world_status(next->pipeline.world, err);
}

static enum vp_status move_state(struct vp_trainer *next,
                                 struct vp_trainer *from,
                                 struct vp_loader *loader, struct vp_err *err)
{
    struct vp_transfer *transfer = NULL;
    enum vp_status st = vp_transfer_create(next, from, &loader->progress,
                                           &transfer);

    if (st != VP_OK)
        vp_err_set(err, st, "preparing to move arrays: %s", vp_status_name(st));
    if (from->config.world)
        st = vp_world_agree(from->config.world, st, VP_LIMIT_NEVER, err);
    if (st != VP_OK) {
        vp_transfer_free(transfer);
        return st;
    }
    loader->ctx = transfer;
    next->config.loader = loader;
    st = load_all(next, transfer, err);
    if (st == VP_OK)
        st = vp_pipeline_open_readers(next->ranks, &next->schedule, err);
    next->config.loader = NULL;
    /* After this agreement no message is under way. */
    if (from->config.world)
        st = vp_world_agree(from->config.world, st, VP_LIMIT_NEVER, err);
    vp_transfer_free(transfer);
    return st;
}

enum vp_status vp_trainer_take_over(struct vp_trainer *next,
                                    struct vp_trainer *from,
                                    struct vp_migration *out,
                                    struct vp_err *err)
{
    size_t n = (size_t)from->config.graphs[0].n_blocks;
    struct vp_block_count *counts = calloc(n, sizeof(*counts));
    struct vp_block_state *blocks = calloc(n, sizeof(*blocks));
    struct vp_loader loader = { .blocks = counts, .load = vp_transfer_load };
    int64_t start_ns = vp_clock_ns();
    enum vp_status st = counts && blocks
                            ? share_progress(from, &loader.progress)
                            : VP_ERR_NOMEM;

    *out = (struct vp_migration){ .exact = true };
    if (st == VP_OK) {
        vp_trainer_block_counts(from, &loader.progress, counts);
        describe_blocks(next, from, &loader.progress, counts, blocks);
        out->exact = join(next, from, blocks, &loader.progress);
        st = move_state(next, from, &loader, err);
    } else {
        vp_err_set(err, st, "moving to another plan: %s", vp_status_name(st));
    }
    if (st == VP_OK) {
        next->config.takes_over = false;
        vp_older_versions_release(&next->older);
        count_moved(next, from, out);
        hand_over_records(next, from);
    }
    if (st == VP_OK) { /* see vp_trainer_create() */
        next->pipeline.is_left = false;
        from->pipeline.is_left = from->config.world != NULL;
    }
    free(counts);
    free(blocks);
    out->seconds = vp_clock_seconds(start_ns, vp_clock_ns());
    return st;
}
