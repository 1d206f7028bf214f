/* Names of the states of a run. */
#include "monitor/live.h"

const char *vp_live_state_name(enum vp_live_state state)
{
    static const char *const names[VP_LIVE_STATE_COUNT] = {
        [VP_LIVE_TRAINING] = "training", [VP_LIVE_EVALUATING] = "evaluating",
        [VP_LIVE_DONE] = "done",         [VP_LIVE_INTERRUPTED] = "interrupted",
        [VP_LIVE_FAILED] = "failed",
    };

    return names[state];
}
