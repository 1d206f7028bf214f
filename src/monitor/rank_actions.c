/* An action starts when its count is first seen to change. */
#include "monitor/rank_actions.h"

#include "base/clock.h"
#include "job/blackbox_file.h"

#include <stdio.h>
#include <stdlib.h>

/* The last observation of a rank. */
struct seen {
    int number;                         /* as the user counts ranks */
    const struct vp_blackbox *blackbox; /* NULL: in another process */
    int64_t n_actions;
    int64_t since_ns; /* when `n_actions` was seen first */
};

struct vp_rank_actions {
    char folder[1024];
    int n_ranks;
    struct seen ranks[];
};

enum vp_status vp_rank_actions_create(const struct vp_run_summary *summary,
                                      struct vp_rank_actions **out,
                                      struct vp_err *err)
{
    int n = summary->n_ranks < VP_LIVE_MAX_RANKS ? summary->n_ranks
                                                 : VP_LIVE_MAX_RANKS;
    struct vp_rank_actions *actions = calloc(
        1, sizeof(*actions) + (size_t)n * sizeof(actions->ranks[0]));

    if (!actions)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "status.json: out of memory; close other programs");
    snprintf(actions->folder, sizeof(actions->folder), "%s", summary->output);
    actions->n_ranks = n;
    for (int r = 0; r < n; r++)
        actions->ranks[r] = (struct seen){
            .number = vp_summary_rank_number(summary, r),
            .blackbox = summary->blackboxes ? summary->blackboxes[r] : NULL,
            .n_actions = -1,
        };
    *out = actions;
    return VP_OK;
}

void vp_rank_actions_free(struct vp_rank_actions *actions)
{
    free(actions);
}

/* Returns the word for an action: as in legends, or its own for actions that
 * are not drawn. */
static const char *word_of(enum vp_action_kind kind)
{
    static const char *const words[VP_ACTION_KIND_COUNT] = {
        [VP_ACTION_F] = "forward",
        [VP_ACTION_R] = "recompute",
        [VP_ACTION_B] = "backward",
        [VP_ACTION_W] = "weight gradient",
        [VP_ACTION_SEND_ACT] = "send",
        [VP_ACTION_RECV_ACT] = "receive",
        [VP_ACTION_SEND_GRAD] = "send gradient",
        [VP_ACTION_RECV_GRAD] = "recv gradient",
        [VP_ACTION_REDUCE] = "reduce",
        [VP_ACTION_UPDATE] = "update",
        [VP_ACTION_SWAP_OUT] = "swap out",
        [VP_ACTION_SWAP_FREE] = "swap out",
        [VP_ACTION_SWAP_IN] = "swap in",
        [VP_ACTION_SWAP_READY] = "swap in",
    };

    return (unsigned)kind < VP_ACTION_KIND_COUNT ? words[kind] : "";
}

static void read_rank(struct seen *rank, const char *folder, int64_t now_ns,
                      struct vp_live_rank *out)
{
    const struct vp_blackbox *blackbox = rank->blackbox;
    struct vp_blackbox file;
    struct vp_doing doing;

    *out = (struct vp_live_rank){ .number = rank->number,
                                  .stage = -1,
                                  .mb = -1 };
    if (!blackbox) {
        if (!vp_blackbox_file_read(folder, rank->number, &file))
            return;
        blackbox = &file;
    }
    doing = vp_blackbox_read(blackbox);
    if (doing.n_actions != rank->n_actions)
        rank->since_ns = now_ns;
    rank->n_actions = doing.n_actions;
    out->seconds = vp_clock_seconds(rank->since_ns, now_ns);
    if (doing.idle)
        return;
    snprintf(out->doing, sizeof(out->doing), "%s", word_of(doing.action.kind));
    out->stage = doing.action.stage;
    out->mb = doing.action.mb;
    out->eval = doing.eval;
    out->waits = doing.waits_ns != 0;
}

int vp_rank_actions_read(struct vp_rank_actions *actions,
                         struct vp_live_rank *out)
{
    int64_t now_ns = vp_clock_ns();

    for (int r = 0; r < actions->n_ranks; r++)
        read_rank(&actions->ranks[r], actions->folder, now_ns, &out[r]);
    return actions->n_ranks;
}
