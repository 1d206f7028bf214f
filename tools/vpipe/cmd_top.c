/* vpipe top: shows the state of a run in the terminal, once a second. */
#include "tool.h"

#include "base/clock.h"
#include "base/machine.h"
#include "monitor/status_file.h"
#include "run/folder.h"
#include "top.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FLAG_ONCE, FLAG_HELP };

static const struct tool_flag flags[] = {
    [FLAG_ONCE] = { "--once", NULL,
                    "print the state once; default without a terminal" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_top_options = { flags, N_FLAGS };

struct options {
    const char *run;
    bool once, help;
};

/* Locks may not work across hosts: a run on another host counts as dead after
 * this time without news. */
#define DEAD_SECONDS 60.0

/* ---- The command line --------------------------------------------------- */

static int take_flag(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;

    switch (flag) {
    case ARGS_PLAIN:
        if (out->run)
            return tool_usage_error("vpipe top: '%.48s' is one argument too "
                                    "many; give one run",
                                    value);
        out->run = value;
        break;
    case FLAG_ONCE:
        out->once = true;
        break;
    case FLAG_HELP:
        out->help = true;
        break;
    default:
        return TOOL_USAGE;
    }
    return TOOL_OK;
}

static int read_args(int argc, char **argv, struct options *out)
{
    struct tool_args args = { .command = "vpipe top",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    int status = args_read(&args, take_flag, out, &out->help);

    if (status == TOOL_OK && !out->help && !out->run)
        return tool_usage_error("vpipe top: no run; give the folder of a run");
    return status;
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe top RUN [--once]\n\n");
    tool_print(stdout, help_width(stdout), 0,
               "Shows the state of the run in folder RUN, once a second until "
               "it ends: what every stage does, times, waiting, memory, losses "
               "and the time that is left. The run may be of another process, "
               "or of another host that shares the folder. Ctrl-C ends the "
               "view, not the run. Status 1 if the run failed or died.\n\n"
               "Options:\n");
    help_flags(flags, N_FLAGS);
}

/* ---- State of the run --------------------------------------------------- */

/* The last state that was read. */
struct seen {
    int64_t number;
    int64_t since_ns; /* time at which it was read first; 0: none was */
};

/* Returns the seconds since the state was written. The first state is compared
 * with the writer's time of day; later ones with the time of their first read
 * on this host, because clocks of hosts may differ. */
static double age_of(const struct vp_live *live, struct seen *seen)
{
    double written = live->metrics.run[VP_RUN_METRIC_UPDATE_TIME];
    double age = difftime(time(NULL), 0) - written;

    if (seen->since_ns != 0 && seen->number == live->number)
        return vp_clock_seconds(seen->since_ns, vp_clock_ns());
    age = isfinite(age) && age > 0.0 && seen->since_ns == 0 ? age : 0.0;
    *seen = (struct seen){ .number = live->number,
                           .since_ns = vp_clock_ns() - (int64_t)(age * 1e9) };
    return age;
}

static enum top_news news_of(const char *folder, const struct vp_live *live,
                             double age)
{
    char host[VP_LIVE_NAME];

    if (age < TOP_STALE_SECONDS || live->state >= VP_LIVE_DONE)
        return TOP_NEWS_FRESH;
    vp_machine_name(host, sizeof(host));
    if ((strcmp(host, live->host) == 0 || age > DEAD_SECONDS) &&
        vp_folder_check_live(folder, NULL) == VP_OK)
        return TOP_NEWS_DIED;
    return TOP_NEWS_STALE;
}

/* ---- The screen --------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal };

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static int exit_status(const struct top_view *view)
{
    return view->live->state == VP_LIVE_FAILED || view->news == TOP_NEWS_DIED
               ? TOOL_FAILED
               : TOOL_OK;
}

/* Reads the state and appends the screen. */
static enum vp_status look(const struct options *options, struct seen *seen,
                           bool terminal, struct vp_strbuf *out,
                           int *status_out, bool *ended_out, struct vp_err *err)
{
    struct vp_live live;
    struct top_view view = { .folder = options->run, .live = &live };

    VP_TRY(vp_status_read(options->run, &live, err));
    view.age = age_of(&live, seen);
    view.news = news_of(options->run, &live, view.age);
    if (terminal) {
        view.utf8 = setlocale(LC_CTYPE, "") &&
                    strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
        view.width = tool_line_width(stdout);
    }
    top_print(&view, out);
    *status_out = exit_status(&view);
    *ended_out = top_has_ended(&view);
    vp_status_release(&live);
    return VP_OK;
}

/* Redraws the screen in place; the last one stays when the view ends. */
static int watch(const struct options *options, struct seen *seen)
{
    static const char begin[] = "\x1b[?25l\x1b[H\x1b[2J";
    struct vp_strbuf text = VP_STRBUF_INIT;
    struct vp_err err = { .text = "" };
    bool ended = false;
    int status = TOOL_OK;

    catch_signals();
    fputs(begin, stdout);
    while (!stopped && !ended) {
        vp_strbuf_clear(&text);
        /* A state that cannot be read now may be readable later. */
        if (look(options, seen, true, &text, &status, &ended, &err) != VP_OK)
            vp_strbuf_addf(&text, "%s\n", err.text);
        fputs("\x1b[H", stdout);
        for (const char *at = vp_strbuf_text(&text); *at;) {
            int n = (int)strcspn(at, "\n");

            printf("%.*s\x1b[K\n", n, at);
            at += n + (at[n] == '\n');
        }
        fputs("\x1b[J", stdout);
        tool_flush(stdout);
        if (!ended && !stopped)
            sleep(1);
    }
    fputs("\x1b[?25h", stdout);
    tool_flush(stdout);
    vp_strbuf_release(&text);
    return status;
}

int cmd_top(int argc, char **argv)
{
    struct options options = { .run = NULL };
    struct seen seen = { .since_ns = 0 };
    struct vp_strbuf text = VP_STRBUF_INIT;
    struct vp_err err = { .text = "" };
    int status = read_args(argc, argv, &options);
    bool ended;

    if (status != TOOL_OK)
        return status;
    if (options.help) {
        print_help();
        return TOOL_OK;
    }
    if (look(&options, &seen, false, &text, &status, &ended, &err) != VP_OK) {
        vp_strbuf_release(&text);
        return tool_usage_error("vpipe top: %s", err.text);
    }
    if (tool_draws(stdout) && !options.once && !ended)
        status = watch(&options, &seen);
    else
        fputs(vp_strbuf_text(&text), stdout);
    vp_strbuf_release(&text);
    return status;
}
