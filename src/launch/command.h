/* command_history.log: exact commands, one per line, quoted for a shell. Private
 * to launch. */
#ifndef VP_LAUNCH_COMMAND_H
#define VP_LAUNCH_COMMAND_H

#include "base/status.h"

/* `argv` are the arguments after the program. */
enum vp_status vp_command_record(const char *folder, const char *program,
                                 char *const *argv, int argc,
                                 struct vp_err *err);

#endif
