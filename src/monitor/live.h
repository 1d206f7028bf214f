/* The state of a run while it trains, as plain data: the content of
 * status.json. */
#ifndef VP_MONITOR_LIVE_H
#define VP_MONITOR_LIVE_H

#include "monitor/loss_curve.h"
#include "monitor/metric.h"

enum vp_live_state {
    VP_LIVE_TRAINING,
    VP_LIVE_EVALUATING, /* forward_only */
    VP_LIVE_DONE,
    VP_LIVE_INTERRUPTED,
    VP_LIVE_FAILED,
    VP_LIVE_STATE_COUNT
};

/* Returns "training", "done", ... */
const char *vp_live_state_name(enum vp_live_state state);

enum { VP_LIVE_MAX_RANKS = 1024, VP_LIVE_NAME = 128, VP_LIVE_LINE = 512 };

struct vp_live_stage {
    int first_rank, n_ranks; /* ranks of the schedule */
    int first_block, n_blocks;
};

/* The current action of a rank. */
struct vp_live_rank {
    int number;     /* as the user counts ranks */
    char doing[16]; /* "forward", ...; "" if it is in no action */
    int stage;      /* stage of the action; -1: none */
    int64_t mb;     /* minibatch of the action; -1: none */
    bool eval;      /* part of an evaluation */
    bool waits;     /* waits for another rank */
    double seconds; /* since this process first saw the action */
};

struct vp_live {
    enum vp_live_state state;
    char line[VP_LIVE_LINE]; /* message of a failure */
    int64_t number;          /* counts the states written, from 1 */
    char version[32];        /* version of vpipe */
    char host[VP_LIVE_NAME];
    int64_t pid;
    char model[VP_LIVE_NAME], schedule[VP_LIVE_NAME], transport[VP_LIVE_NAME];
    struct vp_metrics metrics;
    struct vp_live_stage stages[VP_MAX_STAGES]; /* metrics.n_stages */
    struct vp_live_rank *ranks; /* in order of the schedule; at most
                                   VP_LIVE_MAX_RANKS */
    int n_ranks;
    struct vp_loss_curve losses;
};

#endif
