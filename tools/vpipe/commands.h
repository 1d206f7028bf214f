/* The tables of commands: for dispatch, help, completion and manual pages. */
#ifndef VP_TOOLS_COMMANDS_H
#define VP_TOOLS_COMMANDS_H

#include "tool.h"

struct tool_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const struct tool_options *options; /* NULL: it has subcommands */
    /* The kind of its arguments without dashes, for completion: "config",
     * "file", "folder", "word a b c", "key NAME" (values of that key, or
     * files), or "-" for none. */
    const char *operand;
    const char *meaning;
};

/* Both tables end with a row without a name. */
extern const struct tool_command tool_commands[];
extern const struct tool_command
    data_commands[]; /* subcommands of `vpipe data` */

/* Returns the number of rows. */
int tool_n_commands(const struct tool_command *table);
/* Returns the row of this name; NULL: there is none. */
const struct tool_command *tool_find_command(const struct tool_command *table,
                                             const char *name);
/* Returns the most similar name in the table; NULL: none is similar. */
const char *tool_nearest_command(const struct tool_command *table,
                                 const char *word);
/* Prints a line for each row. */
void tool_print_commands(FILE *out, const struct tool_command *table);

#endif
