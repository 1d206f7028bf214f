/* Sums gradients over replicas while backward continues.
 *
 * Gradients are cut into bundles, which comm.h calls the pieces of a sum. The
 * last backward before REDUCE runs in parts; after each one a bundle is final
 * and offered, and slices of bundles that all replicas have offered are added.
 * REDUCE does what is left:
 *
 *   replica 0   B ....|offer 0|.....|offer 1, add 0|.....|offer 2| REDUCE ...
 *   replica 1   B .......|offer 0, add 0|.....|offer 1, add 1|..|offer 2, ...
 *
 * The replica that adds a slice is fixed, and so is the order of replicas in a
 * sum: the bits do not depend on timing. */
#include "runtime/rank/internal.h"
#include "runtime/rank/watch.h"

/* Returns true if no other backward of this kind comes before the stage's
 * REDUCE. An incomplete round at the end of a stream has no REDUCE. */
static bool is_final(const struct vp_rank *rank, const struct vp_action *action)
{
    const struct vp_rank_list *list = list_of(rank);

    for (const struct vp_action *next = action + 1;
         next < list->actions + list->n_actions; next++) {
        if (next->stage != action->stage)
            continue;
        if (next->kind == VP_ACTION_REDUCE || next->kind == action->kind)
            return next->kind == VP_ACTION_REDUCE;
    }
    return false;
}

/* Adds all slices that are ready. Returns their number. */
static int add_slices(struct vp_rank *rank, struct vp_rank_stage *rs)
{
    int64_t start = vp_clock_ns();
    int n = 0;

    while (vp_group_progress(rs->replicas, rs->replica))
        n++;
    if (n > 0)
        rank->summed_ns += vp_clock_ns() - start;
    count(rank, &rs->count.n_sums, n);
    return n;
}

/* Offers a complete bundle to the other replicas. If the list also writes a
 * message for the previous stage, slices are not added yet: the previous stage
 * waits for that message, and no rank waits for the sum. */
static enum vp_status offer(struct vp_rank *rank,
                            const struct vp_action *action,
                            struct vp_rank_stage *rs, int bundle)
{
    bool skip;

    VP_TRY(vp_rank_inject(rank, action, &skip));
    VP_TRY(vp_stage_wait(&rs->stage));
    vp_group_offer(rs->replicas, rs->replica, bundle);
    if (action->kind == VP_ACTION_W || rs->index == 0)
        count(rank, &rs->count.n_early_sums, add_slices(rank, rs));
    return VP_OK;
}

enum vp_status vp_run_backward(struct vp_rank *rank,
                               const struct vp_action *action,
                               enum vp_list list,
                               const struct vp_launch_messages *messages)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    const struct vp_slot *slot = &rs->stage.slots[action->slot];
    int64_t version = version_of(rank, rs, action);
    const struct vp_program *program;
    struct vp_rate rate;
    int n_done = 0;

    VP_TRY(vp_update_end_gather(rank, rs));
    if (vp_update_is_early(rank, action, &rate))
        return vp_stage_run_and_update(&rs->stage, slot, version, messages,
                                       rate.lr, rate.grad_scale);
    VP_BUG_ON(rs->stage.plan.spec.grad_linger >
              0); /* gradients would be lost */
    if (!rs->replicas || rs->mirror || !is_final(rank, action))
        return vp_stage_run(&rs->stage, slot, list, version, false, messages);
    program = vp_stage_program(&rs->stage, slot);
    for (int i = 0; i < program->n_bundles; i++) {
        int index = program->bundle_order[i];
        const struct vp_bundle *bundle = &program->bundles[index];

        if (bundle->list != list)
            continue;
        if (bundle->n_calls > n_done)
            VP_TRY(vp_stage_run_part(&rs->stage, slot, list, n_done,
                                     bundle->n_calls - n_done, version,
                                     messages));
        n_done = bundle->n_calls;
        VP_TRY(offer(rank, action, rs, index));
    }
    if (program->n_calls[list] == n_done)
        return VP_OK;
    return vp_stage_run_part(&rs->stage, slot, list, n_done,
                             program->n_calls[list] - n_done, version,
                             messages);
}

/* Copies the gradients to the host mirror, or back. */
static enum vp_status copy_mirror(struct vp_rank_stage *rs, bool back)
{
    struct vp_stage *stage = &rs->stage;

    if (!rs->mirror)
        return VP_OK;
    return vp_stream_copy(stage->stream, back ? stage->grads : rs->mirror,
                          back ? rs->mirror : stage->grads,
                          (size_t)stage->plan.sizes.n_bytes[VP_SPACE_GRAD]);
}

enum vp_status vp_exec_reduce(struct vp_rank *rank,
                              const struct vp_action *action)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    bool done = false;
    enum vp_status st;

    if (!rs->replicas)
        return VP_OK;
    VP_TRY(vp_update_end_gather(rank, rs));
    VP_TRY(copy_mirror(rs, false));
    VP_TRY(vp_stage_wait(&rs->stage));
    vp_group_offer_rest(rs->replicas, rs->replica);
    while (!done) {
        add_slices(rank, rs);
        vp_watch_begin_wait(rank);
        st = vp_group_await(rs->replicas, rs->replica, limit_of(rank), &done);
        vp_watch_end_wait(rank, st);
        VP_TRY(st);
    }
    return copy_mirror(rs, true);
}
