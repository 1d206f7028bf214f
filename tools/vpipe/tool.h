/* Shared by the commands of the tool: exit codes, options, help, printing. Only
 * the tool prints and exits; the library does neither. */
#ifndef VP_TOOLS_TOOL_H
#define VP_TOOLS_TOOL_H

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

/* The program's exit status. */
enum tool_exit {
    TOOL_OK = 0,
    TOOL_FAILED = 1,      /* the job failed */
    TOOL_USAGE = 2,       /* bad usage or configuration */
    TOOL_INTERRUPTED = 3, /* stopped cleanly after a signal */
};

/* ---- Commands: argv[0] is the command's name ----------------------------- */

int cmd_train(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_schedule(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_rebalance(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_translate(int argc, char **argv);
int cmd_completion(int argc, char **argv);

/* Returns the exit status for a status: TOOL_USAGE for errors in the user's
 * input, TOOL_FAILED for other errors. */
int tool_exit_status(enum vp_status status);

/* ---- Options ------------------------------------------------------------ */

struct tool_flag {
    const char *name;    /* "--output" */
    const char *value;   /* name of its value: "DIR"; NULL: it takes none */
    const char *meaning; /* NULL: not shown in the help */
};

/* All options of a command. */
struct tool_options {
    const struct tool_flag *flags;
    int n_flags;
};

extern const struct tool_options cmd_train_options, cmd_plan_options,
    cmd_compare_options, cmd_eval_options, cmd_logits_options,
    cmd_generate_options, cmd_translate_options, cmd_schedule_options,
    cmd_report_options, cmd_trace_options, cmd_top_options,
    cmd_rebalance_options, cmd_import_options, cmd_export_options,
    cmd_info_options, cmd_completion_options;

/* State of parsing a command line. */
struct tool_args {
    const char *command; /* for messages: "vpipe train" */
    int argc;
    char **argv;
    const struct tool_flag *flags;
    int n_flags;
    int at;          /* the next argument; starts at 1 */
    bool only_plain; /* "--" was seen */
};

enum {
    ARGS_END = -1,
    ARGS_PLAIN = -2, /* `*value_out` is an argument without dashes */
    ARGS_BAD = -3,   /* wrong usage; a line was printed on stderr */
};

/* Returns the index of the next flag and writes its value to *value_out, or
 * returns one of the above. Accepts "--flag value" and "--flag=value". */
int args_next(struct tool_args *args, const char **value_out);
/* Calls `take` with each result of args_next() until it returns a status other
 * than TOOL_OK or *help is true. Returns the last status. */
int args_read(struct tool_args *args,
              int (*take)(void *ctx, int flag, const char *value), void *ctx,
              const bool *help);

/* Set and return the path by which the program was called, for commands that
 * are printed for the user to type. */
void tool_set_program(const char *path);
const char *tool_program(void);

/* ---- Files -------------------------------------------------------------- */

/* Writes a file. Returns TOOL_USAGE if it cannot be created and TOOL_FAILED if
 * writing fails, for example because the disk is full, after a line on
 * stderr. */
int tool_write_file(const char *command, const char *path, const char *text);
/* Checks before any work is done that the file can be written; creates it.
 * Returns TOOL_USAGE after a line on stderr if it cannot. */
int tool_check_place(const char *command, const char *path);

/* Writes the path of a configuration that comes with vpipe, such as
 * "bert_tiny.yml": below the working directory, the source tree of the program
 * or its PREFIX/share/vpipe. Writes "CONFIG.yml" if it is in none of them. */
void tool_find_config(const char *name, char *out, size_t n_bytes);

/* ---- Printing ----------------------------------------------------------- */

/* Returns the columns of the terminal `out`; `fallback` if it is no terminal,
 * or if the environment variable CI marks it as a log. */
int tool_width(FILE *out, int fallback);
/* Returns true if `out` is a terminal with escape sequences, and not a log. */
bool tool_draws(FILE *out);
/* Returns true if tool_draws() and NO_COLOR is not set. */
bool tool_colour(FILE *out);
/* Makes the functions above treat all output as no terminal: the terminal of a
 * rank under mpirun is not the user's. */
void tool_ignore_terminal(void);

/* Returns the greatest length of a line: one less than the columns of the
 * terminal; INT_MAX - 1 if `out` is no terminal. */
int tool_line_width(FILE *out);
/* Prints lines. Lines longer than `width` (0: tool_line_width() of `out`) are
 * broken between words and continued after `indent` spaces. */
void tool_print(FILE *out, int width, int indent, const char *fmt, ...)
    VP_PRINTF(4, 5);
/* Prints lines of aligned columns. Columns that do not fit `width` (0: as
 * above) follow below the others, after a repeated first column. */
void tool_table(FILE *out, int width, const char *text);
/* tool_table_begin() returns a file for the text of a table; tool_table_end()
 * closes it and prints the table to `out` by tool_table(). One table at a
 * time. */
FILE *tool_table_begin(FILE *out);
void tool_table_end(FILE *table, FILE *out);

/* Writes a count: 950, 12.3k, 4.5M. */
void tool_count_text(double value, char *out, size_t n_bytes);
/* Writes a number of operations: 0.5 GFLOP, 999.9 GFLOP, 1.0 TFLOP. */
void tool_flops_text(double flops, char *out, size_t n_bytes);
/* Writes a duration: 0:07, 12:34, 1:02:03, 3d 04h. */
void tool_time_text(double seconds, char *out, size_t n_bytes);

/* Calls fflush() and keeps errno of the first failure for
 * tool_output_error(). */
void tool_flush(FILE *out);
/* Flushes stdout. Returns errno of the first write that failed; 0: all was
 * written. */
int tool_output_error(void);

/* Prints one line on stderr. Returns TOOL_USAGE. */
int tool_usage_error(const char *fmt, ...) VP_PRINTF(1, 2);

/* Returns tool_line_width(), but at most 79, for running text. */
int help_width(FILE *out);
/* Prints the option table of a command. */
void help_flags(const struct tool_flag *flags, int n_flags);
/* Prints every key of a configuration. */
void help_keys(void);

#endif
