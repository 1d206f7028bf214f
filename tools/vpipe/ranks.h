/* What commands share whose ranks may be processes: joining the others, reporting to
 * the supervisor, and what is printed where. */
#ifndef VP_TOOLS_RANKS_H
#define VP_TOOLS_RANKS_H

#include "config/config.h"
#include "job/member.h"

/* A screen of text about a failure, on stderr. */
void ranks_print_screen(const char *screen);
/* For vp_watchdog_start(): prints the line and ends the process. */
void ranks_on_hang(const char *line);

/* Joins the other processes of the job. The process ends when the one that
 * started it does, and when the supervisor asks for it. */
enum vp_status ranks_join(const struct vp_config *config,
                          const struct vp_processes *self,
                          struct vp_member *out, struct vp_err *err);
/* vp_member_report(); an end that the supervisor asks for has the exit status of
 * `status` from now on. */
bool ranks_report(struct vp_member *member, enum vp_status status,
                  const struct vp_err *err);
/* Prints what is wrong before the processes have met, once for all of them.
 * Returns the exit status. */
int ranks_refuse(const struct vp_err *err);

/* mpirun gives its ranks a terminal wherever their output goes. In the launcher:
 * tells the ranks whether it is one. */
void ranks_pass_terminal_on(bool terminal);
/* In a rank: without that word tool_draws() and tool_width() know of no
 * terminal. */
void ranks_see_terminal(void);

#endif
