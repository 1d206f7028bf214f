/* What the commands of the tool share: exit codes, options, help. Only the
 * tool prints and exits; the library does neither. */
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
    TOOL_INTERRUPTED = 3, /* a signal asked for a clean stop */
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

/* TOOL_USAGE for what the user gave, TOOL_FAILED for what the machine did. */
int tool_exit_status(enum vp_status status);

/* ---- Options ------------------------------------------------------------ */

struct tool_flag {
    const char *name;    /* "--output" */
    const char *value;   /* what it takes: "DIR", or NULL for nothing */
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

/* A walk over a command line. */
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
    ARGS_BAD = -3,   /* a line about it was printed */
};

/* The number of the next flag, its value in `*value_out`; or one of the
 * above. Takes "--flag value" and "--flag=value". */
int args_next(struct tool_args *args, const char **value_out);
/* Gives `take` what args_next() returns, one after the other, until its status is
 * not TOOL_OK or `*help` is true. Returns the last status. */
int args_read(struct tool_args *args,
              int (*take)(void *ctx, int flag, const char *value), void *ctx,
              const bool *help);

/* The program as it was called, for commands that are shown to be repeated. */
void tool_set_program(const char *path);
const char *tool_program(void);

/* ---- Files -------------------------------------------------------------- */

/* A place that cannot be written is bad usage, a full disk is not. */
int tool_write_file(const char *command, const char *path, const char *text);
/* The same answer before any work is done; the file is there then. */
int tool_check_place(const char *command, const char *path);

/* The path of a configuration that comes with vpipe, "bert_tiny.yml": below the
 * working directory, the source tree or PREFIX/share/vpipe that the program is
 * in. "CONFIG.yml" if it is in none of them. */
void tool_find_config(const char *name, char *out, size_t n_bytes);

/* ---- Printing ----------------------------------------------------------- */

/* Columns of the terminal behind `out`; `fallback` if there is none, or if the
 * environment has CI: then it is a log. */
int tool_width(FILE *out, int fallback);
/* A terminal where escape sequences work, and not a log. */
bool tool_draws(FILE *out);
/* ... whose user did not ask for plain text. */
bool tool_colour(FILE *out);
/* From now on no terminal is seen: it is not the user's. */
void tool_ignore_terminal(void);

/* The most characters of a line: one less than the terminal has columns;
 * without one there is no limit. */
int tool_line_width(FILE *out);
/* Prints lines. One that is longer than `width` (0: than tool_line_width() of
 * `out`) breaks between words and goes on after `indent` spaces. */
void tool_print(FILE *out, int width, int indent, const char *fmt, ...)
    VP_PRINTF(4, 5);
/* Prints lines of aligned columns. Those that do not fit `width` (0: as above)
 * follow below the others, after the first column again. */
void tool_table(FILE *out, int width, const char *text);
/* The same, for the terminal behind `out`, of a table that is printed to the file which the first returns, and
 * which the second closes. One table at a time. */
FILE *tool_table_begin(FILE *out);
void tool_table_end(FILE *table, FILE *out);

/* 950, 12.3k, 4.5M. */
void tool_count_text(double value, char *out, size_t n_bytes);
/* 0.5 GFLOP, 999.9 GFLOP, 1.0 TFLOP. */
void tool_flops_text(double flops, char *out, size_t n_bytes);
/* 0:07, 12:34, 1:02:03, 3d 04h. */
void tool_time_text(double seconds, char *out, size_t n_bytes);

/* fflush(), keeping the reason of the first failure for the next one. */
void tool_flush(FILE *out);
/* The errno of what could not be written to stdout; 0: all was written. */
int tool_output_error(void);

/* One line on stderr; returns TOOL_USAGE. */
int tool_usage_error(const char *fmt, ...) VP_PRINTF(1, 2);

/* tool_line_width() of a text: at most 79. */
int help_width(FILE *out);
/* The option table of a command. */
void help_flags(const struct tool_flag *flags, int n_flags);
/* Every key of a configuration. */
void help_keys(void);

#endif
