/* Shared by commands whose ranks may be processes: joining the others,
 * reporting to the supervisor, and printing. */
#ifndef VP_TOOLS_RANKS_H
#define VP_TOOLS_RANKS_H

#include "config/config.h"
#include "job/member.h"

/* Prints up to one screen of text about a failure on stderr. */
void ranks_print_screen(const char *screen);
/* For vp_watchdog_start(): prints the line and ends the process. */
void ranks_on_hang(const char *line);

/* Joins the other processes of the job. From then on this process is killed
 * when its parent exits, and exits when the supervisor requests it. */
enum vp_status ranks_join(const struct vp_config *config,
                          const struct vp_processes *self,
                          struct vp_member *out, struct vp_err *err);
/* Calls vp_member_report(). From then on, an exit that the supervisor requests
 * has the exit status of `status`. */
bool ranks_report(struct vp_member *member, enum vp_status status,
                  const struct vp_err *err);
/* Prints an error that occurs before the processes have joined, once for all of
 * them. Returns the exit status. */
int ranks_refuse(const struct vp_err *err);

/* mpirun gives its ranks a pseudo-terminal wherever their output goes. Called
 * in the launcher: passes on to ranks whether its own output is a terminal. */
void ranks_pass_terminal_on(bool terminal);
/* Called in a rank: unless the launcher's output is a terminal, ignores that of
 * this process, see tool_ignore_terminal(). */
void ranks_see_terminal(void);

#endif
