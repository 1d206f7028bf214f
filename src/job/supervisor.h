/* The supervisor of a job: a process that receives the heartbeats of all ranks,
 * finds the rank that holds the job up, and ends the others. Single-threaded;
 * each call blocks for at most its `timeout_ms`. */
#ifndef VP_JOB_SUPERVISOR_H
#define VP_JOB_SUPERVISOR_H

#include "job/diagnosis.h"

/* Environment variable with the supervisor's address, for ranks. */
#define VP_SUPERVISOR_VARIABLE "VPIPE_SUPERVISOR"

struct vp_supervisor_config {
    int n_ranks;
    int watchdog_seconds;
    bool local;            /* all ranks are on this machine */
    bool contained;        /* ... in containers that may not see its files */
    bool by_hand;          /* see vp_roster: the user started mpirun */
    const char *interface; /* network interface; NULL: all */
};

struct vp_supervisor;

/* Starts to listen for ranks. Copies `config` and borrows its strings. */
enum vp_status vp_supervisor_open(const struct vp_supervisor_config *config,
                                  struct vp_supervisor **out,
                                  struct vp_err *err);
void vp_supervisor_close(struct vp_supervisor *supervisor);
/* Called after fork() in the process that does not supervise: frees all without
 * removing the socket. */
void vp_supervisor_forget(struct vp_supervisor *supervisor);
/* Returns the value for VP_SUPERVISOR_VARIABLE. */
const char *vp_supervisor_address(const struct vp_supervisor *supervisor);

/* Polls for up to `timeout_ms` or until the outcome is known. Relays a stop
 * signal reported by one rank to all others. */
enum vp_outcome vp_supervisor_listen(struct vp_supervisor *supervisor,
                                     int timeout_ms);
/* Polls once, for up to `timeout_ms`, after the outcome is known: acknowledges
 * last messages and notes ranks that disconnect. */
void vp_supervisor_rest(struct vp_supervisor *supervisor, int timeout_ms);
/* Requests from all ranks a checkpoint at the next update and the end of the
 * run. */
void vp_supervisor_stop(struct vp_supervisor *supervisor);
/* Requests the end of all ranks and waits for a quarter of `timeout_ms`, then
 * sends SIGKILL to those on this machine and waits for the rest. Does not wait
 * for ranks on hosts that are cut off. Returns the number of ranks that are
 * still connected. */
int vp_supervisor_end(struct vp_supervisor *supervisor, int timeout_ms);
/* Sends a signal to all ranks on this machine. */
void vp_supervisor_signal(const struct vp_supervisor *supervisor, int signal);
/* Return the number of ranks that have connected so far, and of those that are
 * connected now. */
int vp_supervisor_n_came(const struct vp_supervisor *supervisor);
int vp_supervisor_n_connected(const struct vp_supervisor *supervisor);

/* Called when the launcher of the ranks has exited and no rank is left: ranks
 * that have not connected count as absent from now on. */
void vp_supervisor_launcher_ended(struct vp_supervisor *supervisor);

/* The diagnosis after VP_OUTCOME_FAILED, and its text of up to one screen. Both
 * describe the moment of the diagnosis, also after vp_supervisor_end().
 * `signal`: the signal that killed the rank to blame; 0: unknown. */
const struct vp_diagnosis *vp_supervisor_diagnosis(
    const struct vp_supervisor *supervisor);
void vp_supervisor_report(const struct vp_supervisor *supervisor, int signal,
                          struct vp_err *out);
/* Returns true if all ranks of `host` were lost at the moment of the
 * diagnosis. */
bool vp_supervisor_has_lost(const struct vp_supervisor *supervisor,
                            const char *host);

#endif
