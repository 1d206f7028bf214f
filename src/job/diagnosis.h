/* Which rank holds a job up, and why: the state of each rank as the supervisor
 * knows it, and the diagnosis that follows. Pure: the caller brings messages,
 * lost connections and the time, which is that of a job clock (base/limit.h).
 *
 *   dead      its connection broke without a last message; or it was done, but
 *             exited before all ranks were
 *   stopped   no heartbeat for a while, but its host acknowledges what is sent
 *   cut off   no heartbeat, and its host acknowledges nothing
 *   stuck     its heartbeat comes, others wait for it, and its action has not
 *             ended for long; or it starts or saves without progress, and waits
 *             for no rank
 *   slow      others wait for it, but its actions end
 *   starved   slow or silent because its process hardly got a core
 *   failed    its last message reported an error */
#ifndef VP_JOB_DIAGNOSIS_H
#define VP_JOB_DIAGNOSIS_H

#include "job/message.h"

enum { VP_LAST_ACTIONS = 4 };

/* In place of vp_roster.start_ns: no more ranks will connect. */
#define VP_ROSTER_ENDED (INT64_MIN / 2)

struct vp_watched {
    bool came, gone; /* it has connected; its connection is lost */
    struct vp_hello hello;
    struct vp_beat beat;      /* the last one */
    struct vp_vitals vitals;  /* likewise */
    struct vp_vitals earlier; /* those at `action_ns` */
    int64_t action_ns;        /* its last action ended */
    struct vp_pace pace;      /* its progress besides actions */
    int64_t called_ns;        /* its last call on a file ended */
    struct vp_last_word final;
    int64_t heard_ns; /* the last beat */
    bool cut_off;     /* its host does not acknowledge what is sent */
    bool is_ready;    /* it is silent, but a thread of it waits for a core */
    int order;        /* of ranks that ended: 1, 2, ...; 0: not ended */
    int64_t end_ns;
    /* The actions before its last one, as far as known; newest first. */
    struct vp_action last[VP_LAST_ACTIONS];
    int n_last;
};

struct vp_roster {
    struct vp_watched *ranks;
    int n_ranks, n_ended;
    int64_t limit_ns;                     /* watchdog_seconds */
    int64_t phase_ns[VP_JOB_PHASE_COUNT]; /* see vp_job_phase_limit_ns() */
    int64_t start_ns;                     /* of the job */
    int64_t progress_ns;                  /* an action ended, or a phase */
    bool by_hand; /* ranks that fall silent together were stopped by the user
                     and will be continued: no rank is blamed */
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
    VP_CAUSE_CIRCLE, /* each rank waits for another one */
    VP_CAUSE_ABSENT, /* it never connected */
};

struct vp_diagnosis {
    enum vp_cause cause;
    int rank;
    const char *host; /* if all ranks of this host are gone or silent */
    int by;           /* the rank that waited for it; -1: none did */
    bool in_call; /* stuck in the call of its vitals; slow: in calls on files */
    int signal;   /* that ended it; 0: not known. Set by the caller */
    enum vp_status status; /* of its own error, if it failed */
};

enum vp_status vp_roster_init(struct vp_roster *roster, int n_ranks,
                              int watchdog_seconds, int64_t now_ns);
void vp_roster_release(struct vp_roster *roster);

void vp_roster_hear(struct vp_roster *roster, int rank,
                    const struct vp_message *message, int64_t now_ns);
void vp_roster_lose(struct vp_roster *roster, int rank, int64_t now_ns);
/* Restarts all limits: the supervisor was frozen, or all ranks were. */
void vp_roster_restart(struct vp_roster *roster, int64_t now_ns);

/* The rank's connection broke without a last message, or too early. */
bool vp_watched_is_dead(const struct vp_roster *roster,
                        const struct vp_watched *rank);
/* The rank is in an action, and waits in it. */
bool vp_watched_is_waiting(const struct vp_watched *rank);

/* The state of the job. */
enum vp_outcome {
    VP_OUTCOME_NONE,        /* it runs */
    VP_OUTCOME_DONE,        /* every rank has reported it */
    VP_OUTCOME_INTERRUPTED, /* likewise */
    VP_OUTCOME_FAILED,      /* see the diagnosis */
};
enum vp_outcome vp_roster_judge(const struct vp_roster *roster, int64_t now_ns,
                                struct vp_diagnosis *out);

/* True if every rank of `host` is gone, silent or ended. */
bool vp_roster_has_lost(const struct vp_roster *roster, const char *host,
                        int64_t now_ns);

/* Writes the line about the rank to blame; unless that rank failed by an error
 * of its own, also a line for each rank, that one first. */
void vp_diagnosis_print(const struct vp_roster *roster,
                        const struct vp_diagnosis *diagnosis, int64_t now_ns,
                        struct vp_err *out);

/* False after an error of the rank's own: another attempt would fail too. */
bool vp_diagnosis_allows_restart(const struct vp_diagnosis *diagnosis);

#endif
