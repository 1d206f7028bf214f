/* Finds out whether the output is a terminal, and keeps write errors of
 * stdout. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Returns true in CI services, which keep a log of the output even if it is a
 * terminal. */
static bool is_logged(void)
{
    const char *ci = getenv("CI");

    return ci && ci[0] && strcmp(ci, "false") != 0 && strcmp(ci, "0") != 0;
}

static bool ignored;

void tool_ignore_terminal(void)
{
    ignored = true;
}

int tool_width(FILE *out, int fallback)
{
    struct winsize size;

    if (!ignored && !is_logged() &&
        ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return fallback;
}

bool tool_draws(FILE *out)
{
    const char *term = getenv("TERM");

    return !ignored && isatty(fileno(out)) && term && term[0] &&
           strcmp(term, "dumb") != 0 && !is_logged();
}

bool tool_colour(FILE *out)
{
    return tool_draws(out) && !getenv("NO_COLOR");
}

static int flush_error; /* errno of the first failure */

void tool_flush(FILE *out)
{
    if (fflush(out) != 0 && flush_error == 0)
        flush_error = errno;
}

int tool_output_error(void)
{
    tool_flush(stdout);
    /* stdio does not keep errno of an earlier failure; writing another byte
     * fails with the same one. */
    if (flush_error == 0 && ferror(stdout))
        flush_error = write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
    return flush_error;
}
