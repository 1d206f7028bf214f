/* The one who looks after the ranks of a job from outside: listens to their
 * beats, decides who holds everybody up, and ends what is left. One thread; no
 * call waits longer than it is told to. */
#ifndef VP_JOB_SUPERVISOR_H
#define VP_JOB_SUPERVISOR_H

#include "job/diagnosis.h"

/* The environment variable that tells a rank where its supervisor is. */
#define VP_SUPERVISOR_VARIABLE "VPIPE_SUPERVISOR"

struct vp_supervisor_config {
    int n_ranks;
    int watchdog_seconds;
    bool local;            /* all ranks are on this machine */
    bool contained;        /* ... in containers, which may not see its files */
    bool by_hand;          /* see vp_roster: mpirun was started by the user */
    const char *interface; /* of the network; NULL: all */
};

struct vp_supervisor;

/* Listens; ranks may come from now on. Borrows the configuration's strings. */
enum vp_status vp_supervisor_open(const struct vp_supervisor_config *config,
                                  struct vp_supervisor **out,
                                  struct vp_err *err);
void vp_supervisor_close(struct vp_supervisor *supervisor);
/* Frees it in this process, after fork(): the other one has it. */
void vp_supervisor_forget(struct vp_supervisor *supervisor);
/* For VP_SUPERVISOR_VARIABLE. */
const char *vp_supervisor_address(const struct vp_supervisor *supervisor);

/* Listens to the ranks for so long, or until the job is decided; what a rank
 * was asked by a signal, all are asked then. */
enum vp_outcome vp_supervisor_listen(struct vp_supervisor *supervisor,
                                     int timeout_ms);
/* Stays in touch with ranks that have said their last word, for so long. */
void vp_supervisor_rest(struct vp_supervisor *supervisor, int timeout_ms);
/* Asks all ranks to save at the next update and to end. */
void vp_supervisor_stop(struct vp_supervisor *supervisor);
/* Ends all ranks at once, those on this machine by force, and waits so long
 * until they are gone; not for those that cannot be reached. How many are
 * not gone. */
int vp_supervisor_end(struct vp_supervisor *supervisor, int timeout_ms);
/* Sends a signal to all ranks on this machine. */
void vp_supervisor_signal(const struct vp_supervisor *supervisor, int signal);
/* Ranks that have come; those whose connection stands. */
int vp_supervisor_n_came(const struct vp_supervisor *supervisor);
int vp_supervisor_n_connected(const struct vp_supervisor *supervisor);

/* Tells the supervisor that the launcher of the ranks has ended and no rank is
 * left: ranks that have not connected never will, connected ones are dead. */
void vp_supervisor_launcher_ended(struct vp_supervisor *supervisor);

/* After VP_OUTCOME_FAILED, also when all was ended since: one screen about how
 * it was then. `signal` that ended the culprit, if it died; 0: not known. */
const struct vp_diagnosis *vp_supervisor_diagnosis(
    const struct vp_supervisor *supervisor);
void vp_supervisor_report(const struct vp_supervisor *supervisor, int signal,
                          struct vp_err *out);
/* None of the ranks of this host can be used. */
bool vp_supervisor_has_lost(const struct vp_supervisor *supervisor,
                            const char *host);

#endif
