/* Schedules whose lists are given as text: F, B, W and R keep their order and
 * message rings keep their lengths. Messages, reductions, updates and slots are
 * made anew, as for a generator. */
#include "sched/internal.h"

/* ---- Placement ---------------------------------------------------------- */

/* Returns true if all stages are on the ranks where `config` places them. */
static bool is_placed_as(const struct vp_schedule *schedule,
                         const struct vp_sched_config *config)
{
    for (int s = 0; s < schedule->n_stages; s++) {
        int first_rank, n_replicas;

        vp_sched_place(config, s, &first_rank, &n_replicas);
        if (schedule->stages[s].first_rank != first_rank ||
            schedule->stages[s].n_replicas != n_replicas)
            return false;
    }
    return true;
}

bool vp_schedule_base(const struct vp_schedule *schedule, int *replicas,
                      struct vp_sched_config *out)
{
    struct vp_sched_config config = {
        .name = schedule->split ? "zb-h1" : "1f1b",
        .n_chunks = schedule->ranks[0].n_stages,
        .n_mb = schedule->n_mb,
        .replicas = replicas,
    };

    if (config.n_chunks < 1 || schedule->n_stages % config.n_chunks != 0)
        return false;
    config.n_stages = schedule->n_stages / config.n_chunks;
    for (int s = 0; s < config.n_stages; s++)
        replicas[s] = schedule->stages[s].n_replicas;
    if (config.n_chunks > 1)
        config.name = "interleaved";
    if (config.n_chunks == 2 && !is_placed_as(schedule, &config))
        config.name = "zb-v";
    if (schedule->forward_only) {
        config.v_shape = vp_sched_is_v_shape(&config);
        config.name = "eval";
    }
    if (!is_placed_as(schedule, &config))
        return false;
    *out = config;
    return true;
}

/* ---- Lists -------------------------------------------------------------- */

static bool is_same_shape(const struct vp_sched_config *config,
                          const struct vp_schedule *schedule,
                          const struct vp_schedule *text)
{
    return text->n_stages == schedule->n_stages &&
           text->n_ranks == schedule->n_ranks && text->n_mb == schedule->n_mb &&
           text->segment_begin == 0 && text->first_mb == 0 && text->drain &&
           !text->forward_only && is_placed_as(text, config);
}

/* Drops the R of stages that do not recompute in this configuration. */
static bool is_kept(const struct vp_schedule *schedule,
                    const struct vp_action *a)
{
    return a->kind == VP_ACTION_F || a->kind == VP_ACTION_B ||
           a->kind == VP_ACTION_W ||
           (a->kind == VP_ACTION_R && schedule->stages[a->stage].recompute);
}

static void take_lists(const struct vp_schedule *text,
                       struct vp_schedule *schedule,
                       struct vp_sched_list *lists)
{
    schedule->split = text->split;
    for (int s = 0; s < text->n_stages; s++) {
        schedule->stages[s].n_act_bufs = text->stages[s].n_act_bufs;
        schedule->stages[s].n_grad_bufs = text->stages[s].n_grad_bufs;
    }
    for (int i = 0; i < text->n_ranks; i++)
        for (int k = 0; k < text->ranks[i].n_actions; k++) {
            const struct vp_action *a = &text->ranks[i].actions[k];

            if (is_kept(schedule, a))
                vp_sched_list_put(&lists[i], a->kind, a->stage, a->mb);
        }
}

/* Validates the text first: the passes assume lists that are complete and in
 * order. */
enum vp_status vp_lists_by_hand(const struct vp_sched_config *config,
                                struct vp_schedule *schedule,
                                struct vp_sched_list *lists, struct vp_err *err)
{
    struct vp_schedule text;
    enum vp_status st;

    VP_TRY(vp_schedule_parse(config->text, "lists by hand", &text, err));
    st = vp_schedule_validate(&text, err);
    if (st == VP_OK && !is_same_shape(config, schedule, &text))
        st = vp_err_set(err, VP_ERR_INVALID,
                        "the lists are not those of %d minibatches on %d "
                        "stages and %d ranks, from an empty pipeline to an "
                        "empty one; write them again with vpipe schedule",
                        schedule->n_mb, schedule->n_stages, schedule->n_ranks);
    if (st == VP_OK)
        take_lists(&text, schedule, lists);
    vp_schedule_release(&text);
    return st;
}
