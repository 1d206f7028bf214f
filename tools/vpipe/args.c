/* Parses the command line of one command. */
#include "tool.h"

#include "base/nearest.h"
#include "config/hints.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FLAGS = 32 };

int tool_usage_error(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return TOOL_USAGE;
}

int tool_exit_status(enum vp_status status)
{
    switch (status) {
    case VP_OK:
        return TOOL_OK;
    case VP_ERR_INVALID:
    case VP_ERR_UNSUPPORTED:
        return TOOL_USAGE;
    case VP_ERR_INTERRUPTED:
        return TOOL_INTERRUPTED;
    default:
        return TOOL_FAILED;
    }
}

static bool takes_keys(const struct tool_args *args)
{
    for (int i = 0; i < args->n_flags; i++)
        if (strcmp(args->flags[i].name, "--set") == 0)
            return true;
    return false;
}

static int unknown_flag(const struct tool_args *args, const char *word,
                        size_t n)
{
    const char *names[MAX_FLAGS];
    char copy[64], remedy[256];
    int best;

    for (int i = 0; i < args->n_flags; i++)
        names[i] = args->flags[i].name;
    snprintf(copy, sizeof(copy), "%.*s", (int)n, word);
    best = vp_nearest(copy, names, args->n_flags);
    if (takes_keys(args) && vp_hint(VP_HINT_FLAG, copy, remedy, sizeof(remedy)))
        tool_usage_error("%s: unknown option '%s'; %s", args->command, copy,
                         remedy);
    else if (best >= 0)
        tool_usage_error("%s: unknown option '%s'; did you mean '%s'?",
                         args->command, copy, names[best]);
    else
        tool_usage_error("%s: unknown option '%s'; '%s --help' lists the "
                         "options",
                         args->command, copy, args->command);
    return ARGS_BAD;
}

/* Returns true if the first `n` characters of `word` are the flag `name`. "_"
 * counts as "-": the original vPipe has both, and keys have "_". */
static bool is_flag(const char *word, size_t n, const char *name)
{
    if (strlen(name) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (word[i] != name[i] && (word[i] != '_' || name[i] != '-'))
            return false;
    return true;
}

/* Returns true for a word that begins with two dashes, known or not: it is not
 * taken as the value of the option before it. A value after '=' may begin
 * so. */
static bool is_option(const char *word)
{
    return strcmp(word, "-h") == 0 || (strncmp(word, "--", 2) == 0 && word[2]);
}

/* Takes the value after '=' or in the next argument. Returns `i`, or ARGS_BAD
 * after a line on stderr. */
static int take_value(struct tool_args *args, int i, const char *equals,
                      const char **value_out)
{
    const struct tool_flag *flag = &args->flags[i];
    const char *next = args->at < args->argc ? args->argv[args->at] : "";

    if (!flag->value && equals) {
        tool_usage_error("%s: option '%s' takes no value; remove '%s'",
                         args->command, flag->name, equals);
        return ARGS_BAD;
    }
    if (!flag->value)
        return i;
    if (!equals && is_option(next)) {
        tool_usage_error("%s: option '%s' needs a value, but '%.80s' follows; "
                         "write '%s %s'",
                         args->command, flag->name, next, flag->name,
                         flag->value);
        return ARGS_BAD;
    }
    *value_out = equals ? equals + 1 : next;
    args->at += !equals && args->at < args->argc;
    if (!(*value_out)[0]) {
        tool_usage_error("%s: option '%s' needs a value; write '%s %s'",
                         args->command, flag->name, flag->name, flag->value);
        return ARGS_BAD;
    }
    return i;
}

int args_next(struct tool_args *args, const char **value_out)
{
    const char *word, *equals;
    size_t n;

    *value_out = NULL;
    if (args->at >= args->argc)
        return ARGS_END;
    word = args->argv[args->at++];
    if (!args->only_plain && strcmp(word, "--") == 0) {
        args->only_plain = true;
        return args_next(args, value_out);
    }
    if (args->only_plain || word[0] != '-' || !word[1]) {
        *value_out = word;
        return ARGS_PLAIN;
    }
    if (strcmp(word, "-h") == 0)
        word = "--help";
    equals = strchr(word, '=');
    n = equals ? (size_t)(equals - word) : strlen(word);
    for (int i = 0; i < args->n_flags; i++)
        if (is_flag(word, n, args->flags[i].name))
            return take_value(args, i, equals, value_out);
    return unknown_flag(args, word, n);
}

/* ---- The program -------------------------------------------------------- */

static const char *program = "vpipe";

void tool_set_program(const char *path)
{
    if (path && path[0])
        program = path;
}

const char *tool_program(void)
{
    return program;
}

int args_read(struct tool_args *args,
              int (*take)(void *ctx, int flag, const char *value), void *ctx,
              const bool *help)
{
    int status = TOOL_OK, flag;
    const char *value;

    while (status == TOOL_OK && !*help &&
           (flag = args_next(args, &value)) != ARGS_END)
        status = take(ctx, flag, value);
    return status;
}
