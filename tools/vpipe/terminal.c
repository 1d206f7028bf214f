/* Where the output goes: what kind of terminal, and errors of writing. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

int tool_width(FILE *out, int fallback)
{
    struct winsize size;

    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return fallback;
}

bool tool_colour(FILE *out)
{
    return isatty(fileno(out)) && !getenv("NO_COLOR");
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
    return flush_error == 0 && ferror(stdout) ? EIO : flush_error;
}
