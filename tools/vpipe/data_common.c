/* Helpers of the subcommands of `vpipe data`: options, errors, progress. */
#include "data.h"

#include "base/clock.h"
#include "base/value.h"
#include "signals.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>

int data_fail(const char *command, enum vp_status st, const struct vp_err *err)
{
    fprintf(stderr, "%s: %s\n", command,
            err->text[0] ? err->text : "out of memory; close other programs");
    if (st == VP_ERR_INTERRUPTED)
        return TOOL_INTERRUPTED;
    return st == VP_ERR_INVALID || st == VP_ERR_IO ? TOOL_USAGE : TOOL_FAILED;
}

int data_cores(void)
{
    cpu_set_t usable;

    if (sched_getaffinity(0, sizeof(usable), &usable) != 0)
        return 1;
    return CPU_COUNT(&usable);
}

int data_number(const char *command, const char *flag, const char *value,
                int64_t min, int64_t max, int64_t *out)
{
    if (vp_text_to_i64(value, out) && *out >= min && *out <= max)
        return TOOL_OK;
    return tool_usage_error("%s: option '%s' must be a whole number from "
                            "%" PRId64 " to %" PRId64 ", not '%.48s'",
                            command, flag, min, max, value);
}

int data_share(const char *command, const char *flag, const char *value,
               double max, double *out)
{
    if (vp_text_to_real(value, out) && *out >= 0 && *out <= max)
        return TOOL_OK;
    return tool_usage_error("%s: option '%s' must be a number from 0 to %g, "
                            "not '%.48s'; write for example '%s 0.01'",
                            command, flag, max, value, flag);
}

int data_name(const char *command, const char *folder, const char **name,
              char *buffer, size_t n_bytes)
{
    size_t end = strlen(folder), start;

    if (!*name) {
        while (end > 1 && folder[end - 1] == '/')
            end--;
        for (start = end; start > 0 && folder[start - 1] != '/'; start--)
            ;
        snprintf(buffer, n_bytes, "%.*s", (int)(end - start), folder + start);
        if (buffer[0] == '.' || buffer[0] == '\0')
            snprintf(buffer, n_bytes, "data");
        *name = buffer;
    }
    if ((*name)[0] != '.' && (*name)[0] != '\0' && !strchr(*name, '/') &&
        strlen(*name) <= 200)
        return TOOL_OK;
    return tool_usage_error("%s: '%.48s' cannot be the name of shards; write "
                            "letters, for example '--name wiki'",
                            command, *name);
}

/* ---- Progress ----------------------------------------------------------- */

enum { BAR_CELLS = 20 };
/* Time between two drawings on a terminal, and between two lines of a log. */
#define DRAW_NS INT64_C(50000000)
#define LOG_NS INT64_C(10000000000)

void data_progress_begin(struct data_progress *progress, const char *what)
{
    *progress = (struct data_progress){ .what = what,
                                        .unit = "tokens",
                                        .begin_ns = vp_clock_ns(),
                                        .terminal = tool_draws(stderr) };
    progress->drawn_ns = progress->begin_ns;
}

bool data_progress_show(struct data_progress *progress, double done, int64_t n)
{
    int64_t now = vp_clock_ns();
    double seconds = (double)(now - progress->begin_ns) / 1e9;
    char bar[BAR_CELLS + 1], count[16], rate[16], left[16];

    if (now - progress->drawn_ns < (progress->terminal ? DRAW_NS : LOG_NS))
        return *signals_stop() == 0;
    progress->drawn_ns = now;
    progress->shown = progress->terminal;
    done = done < 1e-6 ? 1e-6 : done > 1 ? 1 : done;
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < (int)(done * BAR_CELLS + 0.5) ? '#' : '-';
    bar[BAR_CELLS] = 0;
    tool_count_text((double)n, count, sizeof(count));
    tool_count_text((double)n / seconds, rate, sizeof(rate));
    tool_time_text(seconds / done - seconds, left, sizeof(left));
    fprintf(stderr, "%s%s [%s] %3.0f %%  %s %s  %s/s  %s left%s",
            progress->terminal ? "\r" : "", progress->what, bar, 100 * done,
            count, progress->unit, rate, left,
            progress->terminal ? "\x1b[K" : "\n");
    tool_flush(stderr);
    return *signals_stop() == 0;
}

void data_progress_end(struct data_progress *progress)
{
    if (progress->shown)
        fputs("\r\x1b[K", stderr);
    progress->shown = false;
}
