/* Writes command_history.log: the exact commands, one per line, quoted for a
 * shell. */
#ifndef VP_RUN_COMMAND_H
#define VP_RUN_COMMAND_H

#include "base/status.h"

#include <stdio.h>

/* Writes `word` as one word for bash, on one line: unquoted where that is
 * possible, otherwise in '...', or in $'...' if it has control characters. */
void vp_command_write_word(FILE *f, const char *word);
/* Appends a line to command_history.log in `folder`. `argv` has the `argc`
 * arguments after the program's name. */
enum vp_status vp_command_record(const char *folder, const char *program,
                                 char *const *argv, int argc,
                                 struct vp_err *err);

#endif
