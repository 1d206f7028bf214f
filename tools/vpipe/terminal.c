/* What kind of terminal the output goes to. */
#include "tool.h"

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
