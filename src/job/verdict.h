/* Who holds a job up: what a supervisor knows of each rank, and what it makes
 * of that. Pure: the caller brings messages, lost connections and the time,
 * which is that of a job clock (base/limit.h).
 *
 *   dead      its connection is gone, and it said no last word; or it was done,
 *             but did not stay until all were
 *   stopped   no beat for a while, but its host takes what is sent to it
 *   cut off   no beat, and its host takes nothing either
 *   stuck     it beats, others wait for it, and it is in one action for long;
 *             or it starts or saves without progress, and waits for no rank
 *   slow      others wait for it, but it gets on
 *   starved   the same, or it is silent, but its process hardly got a core
 *   failed    its own last word */
#ifndef VP_JOB_VERDICT_H
#define VP_JOB_VERDICT_H

#include "job/message.h"

enum { VP_LAST_ACTIONS = 4 };

/* Instead of the start of a job: no more ranks will come. */
#define VP_ROSTER_ENDED (INT64_MIN / 2)

struct vp_watched {
    bool came, gone; /* said hello; its connection is lost */
    struct vp_hello hello;
    struct vp_beat beat;      /* the last one */
    struct vp_vitals vitals;  /* likewise */
    struct vp_vitals earlier; /* those when its last action ended */
    int64_t action_ns;        /* then */
    struct vp_pace pace;      /* its progress besides actions */
    int64_t called_ns;        /* a call on a file ended */
    struct vp_last_word final;
    int64_t heard_ns; /* the last beat */
    bool cut_off;     /* its host does not take what is sent */
    bool is_ready;    /* it is silent, but a thread of it waits for a core */
    int order;        /* of its end, among all: 1, 2, ...; 0: none */
    int64_t end_ns;
    /* What it did before its last action, if that is known; newest first. */
    struct vp_action last[VP_LAST_ACTIONS];
    int n_last;
};

struct vp_roster {
    struct vp_watched *ranks;
    int n_ranks, n_ended;
    int64_t limit_ns;               /* watchdog_seconds */
    int64_t duty_ns[VP_DUTY_COUNT]; /* see vp_duty_limit_ns() */
    int64_t start_ns;               /* of the job */
    int64_t progress_ns;            /* an action ended, or a duty */
    bool by_hand; /* ranks that fall silent together were stopped by the
                            user, who will continue them: no rank is named */
};

enum vp_cause {
    VP_CAUSE_NONE,
    VP_CAUSE_FAILED,
    VP_CAUSE_DEAD,
    VP_CAUSE_STOPPED,
    VP_CAUSE_CUT_OFF,
    VP_CAUSE_STUCK,
    VP_CAUSE_SLOW,
    VP_CAUSE_STARVED,
    VP_CAUSE_CIRCLE, /* every rank waits for another one */
    VP_CAUSE_ABSENT, /* it never came */
};

struct vp_verdict {
    enum vp_cause cause;
    int rank;
    const char *host; /* all its ranks are gone or silent; NULL: not so */
    int by;           /* who waited for it; -1: nobody complained */
    bool in_call;     /* stuck in its vitals' call; slow: in calls on files */
    int signal;       /* that ended it; 0: not known. The caller's to add */
    enum vp_status status; /* of its own error, if it failed */
};

enum vp_status vp_roster_init(struct vp_roster *roster, int n_ranks,
                              int watchdog_seconds, int64_t now_ns);
void vp_roster_release(struct vp_roster *roster);

void vp_roster_hear(struct vp_roster *roster, int rank,
                    const struct vp_message *message, int64_t now_ns);
void vp_roster_lose(struct vp_roster *roster, int rank, int64_t now_ns);
/* All limits start anew: the supervisor was frozen, or all ranks were. */
void vp_roster_restart(struct vp_roster *roster, int64_t now_ns);

/* How the job stands. */
enum vp_outcome {
    VP_OUTCOME_NONE,        /* it runs */
    VP_OUTCOME_DONE,        /* every rank has said so */
    VP_OUTCOME_INTERRUPTED, /* likewise */
    VP_OUTCOME_FAILED,      /* see the verdict */
};
enum vp_outcome vp_roster_judge(const struct vp_roster *roster, int64_t now_ns,
                                struct vp_verdict *out);

/* No rank of the host can be used. */
bool vp_roster_has_lost(const struct vp_roster *roster, const char *host,
                        int64_t now_ns);

/* The line about the culprit; unless that is an error of its own, also a line for
 * every rank, the culprit first. */
void vp_verdict_print(const struct vp_roster *roster,
                      const struct vp_verdict *verdict, int64_t now_ns,
                      struct vp_err *out);

/* May another attempt go better? Not after an error of the rank's own. */
bool vp_verdict_allows_restart(const struct vp_verdict *verdict);

#endif
