#include "launch/verdict.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

/* A beat comes several times a second. */
#define LONGEST_SILENCE (10 * SECOND)
/* Starting processes on far hosts takes its time. */
#define LEAST_START (60 * SECOND)
/* Ranks that end together are looked at together. */
#define SETTLE (SECOND * 3 / 10)
/* Ranks that wait complain first. */
#define GRACE (2 * SECOND)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What a rank says may be any number. */
static int64_t ns_of(int64_t ms)
{
    return ms < INT64_MAX / 1000000 ? ms * 1000000 : INT64_MAX;
}

/* ---- What is known ------------------------------------------------------ */

enum vp_status vp_roster_init(struct vp_roster *roster, int n_ranks,
                              int watchdog_seconds, int64_t now_ns)
{
    *roster = (struct vp_roster){
        .ranks = calloc((size_t)n_ranks, sizeof(*roster->ranks)),
        .n_ranks = n_ranks,
        .limit_ns = watchdog_seconds * SECOND,
        .start_ns = now_ns,
        .progress_ns = now_ns,
    };
    return roster->ranks ? VP_OK : VP_ERR_NOMEM;
}

void vp_roster_release(struct vp_roster *roster)
{
    free(roster->ranks);
    *roster = (struct vp_roster){ 0 };
}

static void note_end(struct vp_roster *roster, struct vp_watched *rank,
                     int64_t now_ns)
{
    if (rank->order > 0)
        return;
    rank->order = ++roster->n_ended;
    rank->end_ns = now_ns;
}

/* No rank beats, and all of them did until about the same time. */
static bool are_frozen(const struct vp_roster *roster, int64_t now_ns)
{
    int64_t first = INT64_MAX, last = INT64_MIN;

    for (int r = 0; r < roster->n_ranks; r++) {
        const struct vp_watched *it = &roster->ranks[r];

        if (!it->came || it->gone || it->final.word != VP_WORD_NONE)
            continue;
        first = least(first, it->heard_ns);
        last = most(last, it->heard_ns);
    }
    return roster->by_hand && first < INT64_MAX && now_ns - last > SECOND &&
           last - first < SECOND;
}

void vp_roster_restart(struct vp_roster *roster, int64_t now_ns)
{
    if (roster->start_ns != VP_ROSTER_ENDED)
        roster->start_ns = now_ns;
    roster->progress_ns = now_ns;
    for (int r = 0; r < roster->n_ranks; r++)
        roster->ranks[r].heard_ns = now_ns;
}

void vp_roster_hear(struct vp_roster *roster, int rank,
                    const struct vp_message *message, int64_t now_ns)
{
    struct vp_watched *it = &roster->ranks[rank];

    if (are_frozen(roster, now_ns))
        vp_roster_restart(roster, now_ns);
    it->heard_ns = now_ns;
    it->cut_off = false;
    switch (message->kind) {
    case VP_MESSAGE_HELLO:
        it->came = true;
        it->hello = message->hello;
        it->beat.idle = true;
        break;
    case VP_MESSAGE_BEAT:
        if (message->beat.n_actions != it->beat.n_actions ||
            message->beat.duty != it->beat.duty)
            roster->progress_ns = now_ns;
        it->beat = message->beat;
        break;
    case VP_MESSAGE_WORD:
        it->final = message->final;
        note_end(roster, it, now_ns);
        break;
    default:
        break;
    }
}

void vp_roster_lose(struct vp_roster *roster, int rank, int64_t now_ns)
{
    struct vp_watched *it = &roster->ranks[rank];

    it->gone = true;
    if (it->final.word != VP_WORD_FAILED)
        it->order = 0; /* it was done, but there: this is its end */
    note_end(roster, it, now_ns);
}

/* ---- Judging one rank --------------------------------------------------- */

static bool all_have_spoken(const struct vp_roster *roster)
{
    for (int r = 0; r < roster->n_ranks; r++)
        if (roster->ranks[r].final.word == VP_WORD_NONE)
            return false;
    return true;
}

/* A rank that is done stays until all others are, too. */
static bool is_dead(const struct vp_roster *roster,
                    const struct vp_watched *rank)
{
    return rank->gone && rank->final.word != VP_WORD_FAILED &&
           !all_have_spoken(roster);
}

/* By its own fault: others only say that they waited, or were told to end. */
static bool has_failed(const struct vp_watched *rank)
{
    return rank->final.word == VP_WORD_FAILED &&
           rank->final.status != VP_ERR_TIMEOUT &&
           rank->final.status != VP_ERR_ABORTED;
}

static bool complains(const struct vp_roster *roster,
                      const struct vp_watched *rank)
{
    if (rank->final.word == VP_WORD_FAILED)
        return rank->final.status == VP_ERR_TIMEOUT;
    return rank->came && !rank->gone && rank->final.word == VP_WORD_NONE &&
           ns_of(rank->beat.wait_ms) >= roster->limit_ns;
}

static bool is_silent(const struct vp_roster *roster,
                      const struct vp_watched *rank, int64_t now_ns)
{
    return rank->came && !rank->gone && rank->final.word == VP_WORD_NONE &&
           now_ns - rank->heard_ns >=
               least(roster->limit_ns / 2, LONGEST_SILENCE);
}

static bool is_waiting(const struct vp_watched *rank)
{
    return !rank->beat.idle && rank->beat.wait_ms > 0;
}

/* ---- Judging all -------------------------------------------------------- */

/* The first that never came, or has not yet; -1: none. */
static int first_missing(const struct vp_roster *roster)
{
    for (int r = 0; r < roster->n_ranks; r++)
        if (!roster->ranks[r].came)
            return r;
    return -1;
}

/* Whoever started the ranks asks all to end when one has died, and kills them a
 * moment later. If that was seen all at once, who was not asked died first. */
static bool ended_before(const struct vp_roster *roster,
                         const struct vp_watched *a, const struct vp_watched *b)
{
    if (is_dead(roster, a) && is_dead(roster, b) &&
        a->beat.stop != b->beat.stop)
        return b->beat.stop;
    return a->order < b->order;
}

/* The first that died or failed; -1: none. */
static int first_ended(const struct vp_roster *roster)
{
    int first = -1;

    for (int r = 0; r < roster->n_ranks; r++) {
        const struct vp_watched *it = &roster->ranks[r];

        if ((is_dead(roster, it) || has_failed(it)) &&
            (first < 0 || ended_before(roster, it, &roster->ranks[first])))
            first = r;
    }
    return first;
}

static int first_silent(const struct vp_roster *roster, int64_t now_ns)
{
    int first = -1;

    for (int r = 0; r < roster->n_ranks; r++)
        if (is_silent(roster, &roster->ranks[r], now_ns) &&
            (first < 0 ||
             roster->ranks[r].heard_ns < roster->ranks[first].heard_ns))
            first = r;
    return first;
}

/* The rank that complains first, by how long it has waited; -1: none. */
static int first_complaint(const struct vp_roster *roster)
{
    int first = -1;

    for (int r = 0; r < roster->n_ranks; r++)
        if (complains(roster, &roster->ranks[r]) &&
            (first < 0 ||
             roster->ranks[r].beat.wait_ms > roster->ranks[first].beat.wait_ms))
            first = r;
    return first;
}

/* A rank that computes comes before one that waits: follows the waits from
 * `rank`, or looks at all ranks where that goes round in circles. */
static int follow_waits(const struct vp_roster *roster, int rank)
{
    int at = rank < 0 ? 0 : rank;

    for (int hops = 0; hops <= roster->n_ranks; hops++) {
        int next = roster->ranks[at].beat.action.peer;

        if (!is_waiting(&roster->ranks[at]) || next < 0 || next == at ||
            next >= roster->n_ranks)
            break;
        at = next;
    }
    if (!is_waiting(&roster->ranks[at]) &&
        !complains(roster, &roster->ranks[at]))
        return at;
    for (int r = 0; r < roster->n_ranks; r++)
        if (!is_waiting(&roster->ranks[r]) && !roster->ranks[r].beat.idle)
            return r;
    for (int r = 0; r < roster->n_ranks; r++)
        if (roster->ranks[r].beat.idle &&
            roster->ranks[r].final.word == VP_WORD_NONE)
            return r;
    return at;
}

static struct vp_verdict blame_waiting(const struct vp_roster *roster, int by)
{
    int rank = follow_waits(roster, by);
    const struct vp_watched *it = &roster->ranks[rank];
    struct vp_verdict verdict = { .rank = rank, .by = by };

    if (is_waiting(it))
        verdict.cause = VP_CAUSE_CIRCLE;
    else if (it->beat.idle ||
             ns_of(it->beat.busy_ms) >= roster->limit_ns / 5 * 4)
        verdict.cause = VP_CAUSE_STUCK;
    else
        verdict.cause = VP_CAUSE_SLOW;
    return verdict;
}

static int first_absent(const struct vp_roster *roster, int64_t now_ns)
{
    if (now_ns - roster->start_ns < most(roster->limit_ns, LEAST_START))
        return -1;
    return first_missing(roster);
}

static struct vp_verdict blame_absent(int rank)
{
    return (
        struct vp_verdict){ .cause = VP_CAUSE_ABSENT, .rank = rank, .by = -1 };
}

/* If even the first that died was asked to end before, it was one that had not
 * come yet. */
static struct vp_verdict blame_ended(const struct vp_roster *roster, int rank)
{
    const struct vp_watched *it = &roster->ranks[rank];
    int missing = first_missing(roster);

    if (!is_dead(roster, it))
        return (struct vp_verdict){ .cause = VP_CAUSE_FAILED,
                                    .rank = rank,
                                    .by = -1,
                                    .status = it->final.status };
    if (it->beat.stop && missing >= 0)
        return blame_absent(missing);
    return (
        struct vp_verdict){ .cause = VP_CAUSE_DEAD, .rank = rank, .by = -1 };
}

/* Ranks train, and for longer than any of them may wait nothing happens. */
static bool nothing_happens(const struct vp_roster *roster, int64_t now_ns)
{
    if (now_ns - roster->progress_ns < roster->limit_ns + GRACE)
        return false;
    for (int r = 0; r < roster->n_ranks; r++)
        if (roster->ranks[r].beat.duty != VP_DUTY_TRAIN ||
            roster->ranks[r].final.word != VP_WORD_NONE)
            return false;
    return true;
}

static struct vp_verdict find_cause(const struct vp_roster *roster,
                                    int64_t now_ns)
{
    struct vp_verdict none = { .rank = -1, .by = -1 };
    int rank = first_ended(roster);

    if (rank >= 0 && now_ns - roster->ranks[rank].end_ns < SETTLE)
        return none;
    if (rank >= 0)
        return blame_ended(roster, rank);
    rank = first_silent(roster, now_ns);
    if (rank >= 0 && are_frozen(roster, now_ns))
        return none;
    if (rank >= 0)
        return (struct vp_verdict){
            .cause = roster->ranks[rank].cut_off ? VP_CAUSE_CUT_OFF
                                                 : VP_CAUSE_STOPPED,
            .rank = rank,
            .by = -1,
        };
    rank = first_complaint(roster);
    if (rank >= 0 || nothing_happens(roster, now_ns))
        return blame_waiting(roster, rank);
    rank = first_absent(roster, now_ns);
    return rank >= 0 ? blame_absent(rank) : none;
}

/* Other hosts are there, and none of this one's ranks can be used. */
static const char *lost_host(const struct vp_roster *roster,
                             const struct vp_verdict *verdict, int64_t now_ns)
{
    const char *host = roster->ranks[verdict->rank].hello.host;
    int n_here = 0;

    if (verdict->cause != VP_CAUSE_DEAD && verdict->cause != VP_CAUSE_STOPPED &&
        verdict->cause != VP_CAUSE_CUT_OFF)
        return NULL;
    if (first_missing(roster) >= 0)
        return NULL; /* it may be on this host */
    for (int r = 0; r < roster->n_ranks; r++)
        n_here += strcmp(roster->ranks[r].hello.host, host) == 0;
    if (n_here == roster->n_ranks ||
        (n_here == 1 && verdict->cause != VP_CAUSE_CUT_OFF))
        return NULL;
    return vp_roster_has_lost(roster, host, now_ns) ? host : NULL;
}

bool vp_roster_has_lost(const struct vp_roster *roster, const char *host,
                        int64_t now_ns)
{
    bool found = false;

    for (int r = 0; r < roster->n_ranks; r++) {
        const struct vp_watched *it = &roster->ranks[r];

        if (strcmp(it->hello.host, host) != 0)
            continue;
        found = true;
        /* Last beats of ranks that are cut off together come apart. */
        if (!is_dead(roster, it) && !is_silent(roster, it, now_ns) &&
            !it->cut_off)
            return false;
    }
    return found;
}

enum vp_outcome vp_roster_judge(const struct vp_roster *roster, int64_t now_ns,
                                struct vp_verdict *out)
{
    int n[VP_WORD_COUNT] = { 0 };

    *out = find_cause(roster, now_ns);
    if (out->cause != VP_CAUSE_NONE) {
        out->host = lost_host(roster, out, now_ns);
        return VP_OUTCOME_FAILED;
    }
    for (int r = 0; r < roster->n_ranks; r++)
        n[roster->ranks[r].final.word]++;
    if (n[VP_WORD_DONE] + n[VP_WORD_INTERRUPTED] < roster->n_ranks)
        return VP_OUTCOME_NONE;
    return n[VP_WORD_INTERRUPTED] > 0 ? VP_OUTCOME_INTERRUPTED
                                      : VP_OUTCOME_DONE;
}

bool vp_verdict_allows_restart(const struct vp_verdict *verdict)
{
    return verdict->cause != VP_CAUSE_NONE && verdict->cause != VP_CAUSE_FAILED;
}

/* ---- Printing ----------------------------------------------------------- */

enum { MOST_LINES = 24 };

static void say_action(struct vp_err *err, const struct vp_beat *beat)
{
    char text[64];

    if (beat->idle) {
        vp_err_add(err, "%s",
                   beat->duty == VP_DUTY_START   ? "starting"
                   : beat->duty == VP_DUTY_TRAIN ? "between two actions"
                                                 : "saving");
        return;
    }
    vp_action_print(&beat->action, text, sizeof(text));
    vp_err_add(err, "%s, stage %d, minibatch %d%s", text, beat->action.stage,
               beat->action.mb, beat->eval ? " of an evaluation" : "");
}

/* "rank 2 on host n1" */
static void say_name(struct vp_err *err, const struct vp_roster *roster,
                     int rank)
{
    vp_err_add(err, "rank %d", rank);
    if (roster->ranks[rank].came)
        vp_err_add(err, " on host %s", roster->ranks[rank].hello.host);
}

static void say_death(struct vp_err *err, const struct vp_verdict *verdict)
{
    if (verdict->signal > 0)
        vp_err_add(err, " is dead: ended by signal %d (%s)", verdict->signal,
                   strsignal(verdict->signal));
    else
        vp_err_add(err, " is dead: it ended without a word");
}

static void say_host(struct vp_err *err, const struct vp_roster *roster,
                     const struct vp_verdict *verdict)
{
    int n = 0;

    for (int r = 0; r < roster->n_ranks; r++)
        n += strcmp(roster->ranks[r].hello.host, verdict->host) == 0;
    vp_err_add(err, "host %s is %s: ", verdict->host,
               verdict->cause == VP_CAUSE_CUT_OFF ? "cut off" : "lost");
    if (n == 1)
        vp_err_add(err, "nothing comes from it and nothing reaches it; ");
    else
        vp_err_add(err, "all its %d ranks are %s; ", n,
                   verdict->cause == VP_CAUSE_DEAD ? "gone" : "silent");
}

static void accuse(struct vp_err *err, const struct vp_roster *roster,
                   const struct vp_verdict *verdict, int64_t now_ns)
{
    const struct vp_watched *it = &roster->ranks[verdict->rank];
    double silent = vp_clock_seconds(it->heard_ns, now_ns);
    double busy = (double)it->beat.busy_ms * 1e-3;

    if (verdict->host)
        say_host(err, roster, verdict);
    say_name(err, roster, verdict->rank);
    switch (verdict->cause) {
    case VP_CAUSE_FAILED:
        vp_err_add(err, " failed: %s", it->final.line);
        return;
    case VP_CAUSE_DEAD:
        say_death(err, verdict);
        break;
    case VP_CAUSE_STOPPED:
        vp_err_add(err,
                   " is stopped: no sign of life for %.1f s, but its host "
                   "answers",
                   silent);
        break;
    case VP_CAUSE_CUT_OFF:
        vp_err_add(err, " is cut off: no sign of life for %.1f s", silent);
        break;
    case VP_CAUSE_STUCK:
        vp_err_add(err, " is stuck for %.1f s", busy);
        break;
    case VP_CAUSE_SLOW:
        vp_err_add(err, " is slow: %.1f s so far", busy);
        break;
    case VP_CAUSE_CIRCLE:
        vp_err_add(err,
                   " waits, and so does every other rank: a message was lost");
        break;
    default:
        vp_err_add(err,
                   " never came; see what its host says about starting it");
        return;
    }
    vp_err_add(err, "; last seen in ");
    say_action(err, &it->beat);
    for (int i = 0; i < it->n_last; i++) {
        char text[64];

        vp_action_print(&it->last[i], text, sizeof(text));
        vp_err_add(err, "%s%s", i ? ", " : "; before that ", text);
    }
}

static void describe(struct vp_err *err, const struct vp_roster *roster,
                     int rank, int64_t now_ns)
{
    const struct vp_watched *it = &roster->ranks[rank];
    const struct vp_beat *beat = &it->beat;

    vp_err_add(err, "\n  rank %d", rank);
    if (!it->came) {
        vp_err_add(err, ": not there yet");
        return;
    }
    vp_err_add(err, " (%s, pid %d): ", it->hello.host, it->hello.pid);
    say_action(err, beat);
    if (!beat->idle)
        vp_err_add(err, " for %.1f s, ", (double)beat->busy_ms * 1e-3);
    if (is_waiting(it) && beat->action.peer >= 0)
        vp_err_add(err, "waits for rank %d", beat->action.peer);
    else if (is_waiting(it))
        vp_err_add(err, "waits for the others");
    else if (!beat->idle)
        vp_err_add(err, "computes");
    vp_err_add(err, "; %lld actions done", (long long)beat->n_actions);
    if (is_dead(roster, it))
        vp_err_add(err, "; dead");
    else if (it->final.word == VP_WORD_NONE &&
             now_ns - it->heard_ns > 2 * SECOND)
        vp_err_add(err, "; silent for %.1f s",
                   vp_clock_seconds(it->heard_ns, now_ns));
}

void vp_verdict_print(const struct vp_roster *roster,
                      const struct vp_verdict *verdict, int64_t now_ns,
                      struct vp_err *out)
{
    int n = 1;

    out->text[0] = '\0';
    if (verdict->by >= 0 && verdict->by != verdict->rank)
        vp_err_add(out, "rank %d waited %.1f s; ", verdict->by,
                   (double)roster->limit_ns * 1e-9);
    accuse(out, roster, verdict, now_ns);
    describe(out, roster, verdict->rank, now_ns);
    for (int r = 0; r < roster->n_ranks && n < MOST_LINES; r++)
        if (r != verdict->rank) {
            describe(out, roster, r, now_ns);
            n++;
        }
    if (n < roster->n_ranks)
        vp_err_add(out, "\n  and %d more", roster->n_ranks - n);
}
