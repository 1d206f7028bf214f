#include "runtime/watch.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>

void vp_watch_begin(struct vp_rank *rank, int action)
{
    atomic_store_explicit(&rank->since_ns, vp_clock_ns(),
                          memory_order_relaxed);
    atomic_store_explicit(&rank->doing, action, memory_order_release);
}

void vp_watch_end(struct vp_rank *rank)
{
    atomic_fetch_add_explicit(&rank->n_actions, 1, memory_order_relaxed);
}

void vp_watch_wait(struct vp_rank *rank, bool waiting)
{
    int64_t now = vp_clock_ns();

    if (waiting)
        rank->wait_start_ns = now;
    else
        atomic_fetch_add_explicit(&rank->wait_ns, now - rank->wait_start_ns,
                                  memory_order_relaxed);
    atomic_store_explicit(&rank->waiting, waiting, memory_order_relaxed);
}

/* ---- The verdict -------------------------------------------------------- */

struct screen {
    struct vp_err *err;
    size_t n;
};

static void say(struct screen *screen, const char *fmt, ...) VP_PRINTF(2, 3);

static void say(struct screen *screen, const char *fmt, ...)
{
    size_t room = sizeof(screen->err->text) - screen->n;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(screen->err->text + screen->n, room, fmt, args);
    va_end(args);
    if (n > 0)
        screen->n += (size_t)n < room ? (size_t)n : room - 1;
}

static const struct vp_action *doing(const struct vp_rank *rank)
{
    int i = atomic_load(&rank->doing);

    if (i < 0 || !rank->job || !rank->job->schedule)
        return NULL;
    return &rank->job->schedule->ranks[rank->index].actions[i];
}

static double seconds_in(const struct vp_rank *rank)
{
    return vp_clock_seconds(atomic_load(&rank->since_ns), vp_clock_ns());
}

/* The rank that this one waits for; -1: it computes, or waits for many. */
static int waits_for(const struct vp_rank *rank)
{
    const struct vp_action *action = doing(rank);

    if (!action || !atomic_load(&rank->waiting))
        return -1;
    return action->peer;
}

/* Follows the waits from `rank` to the one that everybody waits for. */
static int find_culprit(const struct vp_rank *ranks, int n_ranks, int rank)
{
    for (int hops = 0; hops < n_ranks; hops++) {
        int next = waits_for(&ranks[rank]);

        if (next < 0 || next == rank)
            return rank;
        rank = next;
    }
    return rank;
}

static void describe(struct screen *screen, const struct vp_rank *rank)
{
    const struct vp_action *action = doing(rank);
    char text[64];

    if (!action) {
        say(screen, "\n  rank %d: idle, %lld actions done", rank->index,
            (long long)atomic_load(&rank->n_actions));
        return;
    }
    vp_action_print(action, text, sizeof(text));
    say(screen, "\n  rank %d: stage %d, minibatch %d, %s for %.1f s",
        rank->index, action->stage, action->mb, text, seconds_in(rank));
    if (atomic_load(&rank->waiting) && action->peer >= 0)
        say(screen, ", waits for rank %d", action->peer);
    else if (atomic_load(&rank->waiting))
        say(screen, ", waits for the others");
    else
        say(screen, ", computes");
    say(screen, "; %lld actions done",
        (long long)atomic_load(&rank->n_actions));
}

void vp_watch_report(const struct vp_rank *rank, struct vp_err *err)
{
    const struct vp_rank *ranks = rank - rank->index;
    int n_ranks = rank->crew->n_ranks;
    const struct vp_rank *culprit =
        &ranks[find_culprit(ranks, n_ranks, rank->index)];
    const struct vp_action *action = doing(culprit);
    struct screen screen = { .err = err };
    char text[64] = "nothing";

    if (action)
        vp_action_print(action, text, sizeof(text));
    say(&screen,
        "rank %d waited %.1f s; rank %d holds everybody up: in %s for %.1f s",
        rank->index,
        (double)rank->crew->config->timeout_ms * 1e-3, culprit->index, text,
        seconds_in(culprit));
    for (int r = 0; r < n_ranks; r++)
        describe(&screen, &ranks[r]);
}
