/* Subcommands of `vpipe data` and their helpers. argv[0] is the subcommand's
 * name. Helpers that return int return TOOL_OK, or another exit status after a
 * line on stderr. */
#ifndef VP_TOOLS_DATA_H
#define VP_TOOLS_DATA_H

#include "data/data.h"
#include "tool.h"

#include <stdint.h>

enum { DATA_MAX_THREADS = 1024 };

int data_bert(int argc, char **argv);
int data_encode(int argc, char **argv);
int data_convert(int argc, char **argv);
int data_decode(int argc, char **argv);
int data_gpt(int argc, char **argv);
int data_inspect(int argc, char **argv);
int data_pairs(int argc, char **argv);
int data_vocab(int argc, char **argv);

extern const struct tool_options data_bert_options, data_convert_options,
    data_encode_options, data_decode_options, data_gpt_options,
    data_inspect_options, data_pairs_options, data_vocab_options;

/* Prints the message on stderr. Returns the exit status. */
int data_fail(const char *command, enum vp_status st, const struct vp_err *err);
/* Returns the number of cores that this process may use. */
int data_cores(void);
/* Reads a whole number from min to max. */
int data_number(const char *command, const char *flag, const char *value,
                int64_t min, int64_t max, int64_t *out);

/* Reads a number from 0 to max. */
int data_share(const char *command, const char *flag, const char *value,
               double max, double *out);
/* Checks the name of new files. If *name is NULL, sets it to the last part of
 * the folder's path, in buffer[n_bytes]. */
int data_name(const char *command, const char *folder, const char **name,
              char *buffer, size_t n_bytes);

/* Reads the name of a format of token files. */
int data_format(const char *command, const char *value,
                enum vp_data_format *out);

/* A progress line on stderr: redrawn in place on a terminal, printed every ten
 * seconds elsewhere. */
struct data_progress {
    const char *what; /* first word: "encoding" */
    const char *unit; /* noun that is counted: "tokens" */
    int64_t begin_ns, drawn_ns;
    bool terminal;
    bool shown; /* a line is on the screen, not yet ended */
};

void data_progress_begin(struct data_progress *progress, const char *what);
/* `done`: share of the work, 0 to 1; `n`: number of units so far. Returns false
 * if a signal has requested a stop. */
bool data_progress_show(struct data_progress *progress, double done, int64_t n);
/* Clears the line. */
void data_progress_end(struct data_progress *progress);

#endif
