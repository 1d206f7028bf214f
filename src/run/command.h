/* command_history.log: exact commands, one per line, quoted for a shell. */
#ifndef VP_RUN_COMMAND_H
#define VP_RUN_COMMAND_H

#include "base/status.h"

#include <stdio.h>

/* Plain where a shell takes it so; on one line, whatever it holds. */
void vp_command_write_word(FILE *f, const char *word);
/* `argv` are the arguments after the program. */
enum vp_status vp_command_record(const char *folder, const char *program,
                                 char *const *argv, int argc,
                                 struct vp_err *err);

#endif
