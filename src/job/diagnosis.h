/* Finds the rank that holds a job up, and the cause, from the state of each
 * rank as the supervisor has seen it. Pure: the caller passes in messages, lost
 * connections and the time, which is that of a job clock (base/limit.h).
 *
 *   dead      its connection broke without a last message; or it was done, but
 *             exited before all ranks were
 *   stopped   no heartbeat for a while, but its host acknowledges what is sent
 *   cut off   no heartbeat, and its host acknowledges nothing
 *   stuck     it sends heartbeats, others wait for it, and its action has
 *             lasted for most of the limit; or it starts or saves without
 *             progress, and waits for no rank
 *   slow      others wait for it, but its actions end
 *   starved   slow or silent because its process hardly got a core
 *   failed    its last message reported an error */
#ifndef VP_JOB_DIAGNOSIS_H
#define VP_JOB_DIAGNOSIS_H

#include "job/message.h"

enum { VP_LAST_ACTIONS = 4 };

/* Value of vp_roster.start_ns if no more ranks will connect. */
#define VP_ROSTER_ENDED (INT64_MIN / 2)

/* One rank as the supervisor has seen it. */
struct vp_watched {
    bool came, gone; /* it has connected; its connection is lost */
    struct vp_hello hello;
    struct vp_beat beat;       /* the last one received */
    struct vp_vitals vitals;   /* the last ones received */
    struct vp_vitals earlier;  /* the vitals at action_ns */
    int64_t action_ns;         /* time at which its last action ended */
    struct vp_pace pace;       /* its progress besides actions */
    int64_t called_ns;         /* time at which its last file operation ended */
    struct vp_last_word final; /* its last message; VP_WORD_NONE: not yet */
    int64_t heard_ns;          /* time of its last message */
    bool cut_off;  /* its host does not acknowledge the data sent to it */
    bool is_ready; /* it is silent, but one of its threads waits for a core */
    int order;     /* among ranks that ended: 1, 2, ...; 0: not ended */
    int64_t end_ns;
    /* Actions before the current one, newest first, as far as known. */
    struct vp_action last[VP_LAST_ACTIONS];
    int n_last;
};

struct vp_roster {
    struct vp_watched *ranks;
    int n_ranks, n_ended;
    int64_t limit_ns;                     /* watchdog_seconds */
    int64_t phase_ns[VP_JOB_PHASE_COUNT]; /* see vp_job_phase_limit_ns() */
    int64_t start_ns;    /* the job started; ranks have to connect after it */
    int64_t progress_ns; /* the last action or phase of any rank ended */
    bool by_hand; /* ranks that fall silent together were suspended by the user
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
    const char *host; /* set if all ranks of this host are gone or silent */
    int by;           /* the rank that waited for it; -1: none did */
    bool in_call;     /* stuck or slow in the file operation of its vitals */
    int signal; /* the signal that killed it; 0: unknown. Set by the caller */
    enum vp_status status; /* its own error, if it failed */
};

/* Fails with VP_ERR_NOMEM. Release with vp_roster_release(), also after a
 * failure. */
enum vp_status vp_roster_init(struct vp_roster *roster, int n_ranks,
                              int watchdog_seconds, int64_t now_ns);
void vp_roster_release(struct vp_roster *roster);

/* Records a message from `rank`. */
void vp_roster_hear(struct vp_roster *roster, int rank,
                    const struct vp_message *message, int64_t now_ns);
/* Records that the connection of `rank` has broken. */
void vp_roster_lose(struct vp_roster *roster, int rank, int64_t now_ns);
/* Restarts all time limits after the supervisor or all ranks were frozen. */
void vp_roster_restart(struct vp_roster *roster, int64_t now_ns);

/* Returns true if the rank's connection broke without a last message, or before
 * all ranks had sent theirs. */
bool vp_watched_is_dead(const struct vp_roster *roster,
                        const struct vp_watched *rank);
/* Returns true if the rank is in an action and waits in it. */
bool vp_watched_is_waiting(const struct vp_watched *rank);

enum vp_outcome {
    VP_OUTCOME_NONE,        /* the job runs */
    VP_OUTCOME_DONE,        /* every rank has reported that it is done */
    VP_OUTCOME_INTERRUPTED, /* all are done, at least one after a signal */
    VP_OUTCOME_FAILED,      /* see the diagnosis */
};
/* Returns the state of the job. `out` gets the diagnosis of a failure, and
 * VP_CAUSE_NONE otherwise. */
enum vp_outcome vp_roster_judge(const struct vp_roster *roster, int64_t now_ns,
                                struct vp_diagnosis *out);

/* Returns true if there are ranks of `host` and all of them are dead, silent or
 * cut off. */
bool vp_roster_has_lost(const struct vp_roster *roster, const char *host,
                        int64_t now_ns);

/* Writes one line about the rank to blame. Unless that rank failed by its own
 * error, adds a line about each rank, starting with that one. */
void vp_diagnosis_print(const struct vp_roster *roster,
                        const struct vp_diagnosis *diagnosis, int64_t now_ns,
                        struct vp_err *out);

/* Returns false after an error of the rank itself: a restart would fail too. */
bool vp_diagnosis_allows_restart(const struct vp_diagnosis *diagnosis);

#endif
