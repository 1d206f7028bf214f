/* Keeps the state of all ranks and finds the rank that holds a job up, and the
 * cause. */
#include "job/diagnosis.h"

#include "base/clock.h"
#include "base/cores.h"

#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

/* A rank without a heartbeat for this time is silent. Heartbeats come several
 * times a second. */
#define LONGEST_SILENCE (10 * SECOND)
/* Delay between the end of a rank and the diagnosis, so that ranks that end at
 * about the same time are compared. */
#define SETTLE (SECOND * 3 / 10)
/* Added to watchdog_seconds, so that ranks that wait report their timeout
 * before the supervisor judges by itself. */
#define GRACE (2 * SECOND)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Saturates: a rank may report any number. */
static int64_t ns_of(int64_t ms)
{
    return ms < INT64_MAX / 1000000 ? ms * 1000000 : INT64_MAX;
}

/* ---- State of the ranks ------------------------------------------------- */

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
    for (int d = 0; d < VP_JOB_PHASE_COUNT; d++)
        roster->phase_ns[d] = vp_job_phase_limit_ns((enum vp_job_phase)d,
                                                    roster->limit_ns);
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

/* Returns true if the heartbeats of all running ranks stopped within the same
 * second: the user has suspended the job. */
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
    for (int r = 0; r < roster->n_ranks; r++) {
        roster->ranks[r].heard_ns = now_ns;
        roster->ranks[r].pace.moved_ns = now_ns;
    }
}

static void hear_vitals(struct vp_watched *rank, const struct vp_vitals *vitals,
                        int64_t now_ns)
{
    if (vitals->n_calls != rank->vitals.n_calls)
        rank->called_ns = now_ns;
    rank->vitals = *vitals;
}

static void hear_beat(struct vp_roster *roster, struct vp_watched *rank,
                      const struct vp_beat *beat, int64_t now_ns)
{
    if (beat->n_actions != rank->beat.n_actions ||
        beat->phase != rank->beat.phase) {
        roster->progress_ns = now_ns;
        rank->earlier = rank->vitals;
        rank->action_ns = now_ns;
    }
    vp_pace_note(&rank->pace, beat->phase, &rank->vitals, now_ns);
    rank->beat = *beat;
}

void vp_roster_hear(struct vp_roster *roster, int rank,
                    const struct vp_message *message, int64_t now_ns)
{
    struct vp_watched *it = &roster->ranks[rank];

    if (are_frozen(roster, now_ns))
        vp_roster_restart(roster, now_ns);
    it->heard_ns = now_ns;
    it->cut_off = it->is_ready = false;
    switch (message->kind) {
    case VP_MESSAGE_HELLO:
        it->came = true;
        it->hello = message->hello;
        it->beat.idle = true;
        it->pace.moved_ns = now_ns;
        break;
    case VP_MESSAGE_VITALS:
        hear_vitals(it, &message->vitals, now_ns);
        break;
    case VP_MESSAGE_BEAT:
        hear_beat(roster, it, &message->beat, now_ns);
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
        it->order = 0; /* its last message was no end: the process ends now */
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

/* A rank that is done keeps its connection until all ranks are done. */
bool vp_watched_is_dead(const struct vp_roster *roster,
                        const struct vp_watched *rank)
{
    return rank->gone && rank->final.word != VP_WORD_FAILED &&
           !all_have_spoken(roster);
}

/* Returns true if the rank failed by its own error. VP_ERR_TIMEOUT and
 * VP_ERR_ABORTED are consequences of another rank's failure. */
static bool has_failed(const struct vp_watched *rank)
{
    return rank->final.word == VP_WORD_FAILED &&
           rank->final.status != VP_ERR_TIMEOUT &&
           rank->final.status != VP_ERR_ABORTED;
}

/* Returns true if the rank is connected and has not sent its last message. */
static bool is_running(const struct vp_watched *rank)
{
    return rank->came && !rank->gone && rank->final.word == VP_WORD_NONE;
}

/* Returns true if the rank has waited for other ranks for limit_ns. */
static bool complains(const struct vp_roster *roster,
                      const struct vp_watched *rank)
{
    if (rank->final.word == VP_WORD_FAILED)
        return rank->final.status == VP_ERR_TIMEOUT;
    return is_running(rank) && ns_of(rank->beat.wait_ms) >= roster->limit_ns;
}

static bool is_silent(const struct vp_roster *roster,
                      const struct vp_watched *rank, int64_t now_ns)
{
    int64_t limit = rank->is_ready
                        ? roster->limit_ns
                        : least(roster->limit_ns / 2, LONGEST_SILENCE);

    return is_running(rank) && now_ns - rank->heard_ns >= limit;
}

bool vp_watched_is_waiting(const struct vp_watched *rank)
{
    return !rank->beat.idle && rank->beat.wait_ms > 0;
}

/* ---- Judging all -------------------------------------------------------- */

/* Returns the first rank that has not connected; -1: none. */
static int first_missing(const struct vp_roster *roster)
{
    for (int r = 0; r < roster->n_ranks; r++)
        if (!roster->ranks[r].came)
            return r;
    return -1;
}

/* Returns true if `a` ended before `b`. mpirun and srun send SIGTERM to all
 * ranks when one has died, and kill them a moment later. Of two dead ranks, the
 * one that had not received SIGTERM died first, in whatever order the
 * supervisor saw them end. */
static bool ended_before(const struct vp_roster *roster,
                         const struct vp_watched *a, const struct vp_watched *b)
{
    if (vp_watched_is_dead(roster, a) && vp_watched_is_dead(roster, b) &&
        a->beat.stop != b->beat.stop)
        return b->beat.stop;
    return a->order < b->order;
}

/* Returns the rank that died or failed first; -1: none. */
static int first_ended(const struct vp_roster *roster)
{
    int first = -1;

    for (int r = 0; r < roster->n_ranks; r++) {
        const struct vp_watched *it = &roster->ranks[r];

        if ((vp_watched_is_dead(roster, it) || has_failed(it)) &&
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

/* Returns the complaining rank that has waited longest; -1: none. */
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

/* Follows the waits from `rank` (-1: from rank 0) and returns the rank at their
 * end, which does not wait. If the waits form a circle or end at a rank that
 * complains, returns the first rank that computes, else the first that is
 * between actions, else the last one reached. */
static int follow_waits(const struct vp_roster *roster, int rank)
{
    int at = rank < 0 ? 0 : rank;

    for (int hops = 0; hops <= roster->n_ranks; hops++) {
        int next = roster->ranks[at].beat.action.peer;

        if (!vp_watched_is_waiting(&roster->ranks[at]) || next < 0 ||
            next == at || next >= roster->n_ranks)
            break;
        at = next;
    }
    if (!vp_watched_is_waiting(&roster->ranks[at]) &&
        !complains(roster, &roster->ranks[at]))
        return at;
    for (int r = 0; r < roster->n_ranks; r++)
        if (!vp_watched_is_waiting(&roster->ranks[r]) &&
            !roster->ranks[r].beat.idle)
            return r;
    for (int r = 0; r < roster->n_ranks; r++)
        if (roster->ranks[r].beat.idle &&
            roster->ranks[r].final.word == VP_WORD_NONE)
            return r;
    return at;
}

/* Returns true for 80 % of the limit or more. */
static bool is_long_ns(const struct vp_roster *roster, int64_t ns)
{
    return ns >= roster->limit_ns / 5 * 4;
}

static bool is_long(const struct vp_roster *roster, int64_t ms)
{
    return is_long_ns(roster, ns_of(ms));
}

/* Returns the rank that has been in one file operation for longest; -1: none
 * for 80 % of the limit. */
static int longest_call(const struct vp_roster *roster)
{
    int longest = -1;

    for (int r = 0; r < roster->n_ranks; r++)
        if (is_running(&roster->ranks[r]) &&
            is_long(roster, roster->ranks[r].vitals.call_ms) &&
            (longest < 0 || roster->ranks[r].vitals.call_ms >
                                roster->ranks[longest].vitals.call_ms))
            longest = r;
    return longest;
}

/* Returns the first rank that reads or writes files and whose operations end;
 * -1: none. */
static int first_caller(const struct vp_roster *roster, int64_t now_ns)
{
    for (int r = 0; r < roster->n_ranks; r++)
        if (is_running(&roster->ranks[r]) &&
            roster->ranks[r].vitals.call_ms > 0 &&
            !is_long_ns(roster, now_ns - roster->ranks[r].called_ns))
            return r;
    return -1;
}

static bool is_starved(const struct vp_watched *rank, int64_t now_ns)
{
    const struct vp_cores before = { ns_of(rank->earlier.ran_ms),
                                     ns_of(rank->earlier.delayed_ms) };
    const struct vp_cores now = { ns_of(rank->vitals.ran_ms),
                                  ns_of(rank->vitals.delayed_ms) };

    return vp_cores_starved(&before, &now, now_ns - rank->action_ns);
}

static int first_starved(const struct vp_roster *roster, int64_t now_ns)
{
    for (int r = 0; r < roster->n_ranks; r++)
        if (is_running(&roster->ranks[r]) &&
            is_starved(&roster->ranks[r], now_ns))
            return r;
    return -1;
}

static struct vp_diagnosis blame(enum vp_cause cause, int rank, int by,
                                 bool in_call)
{
    return (struct vp_diagnosis){
        .cause = cause, .rank = rank, .by = by, .in_call = in_call
    };
}

/* Called if all ranks wait. Blames a rank that hangs in a file operation, else
 * one with slow file operations, else one that gets no core, else a lost
 * message. */
static struct vp_diagnosis blame_circle(const struct vp_roster *roster,
                                        int rank, int by, int64_t now_ns)
{
    int other = longest_call(roster);

    if (other >= 0)
        return blame(VP_CAUSE_STUCK, other, by, true);
    other = first_caller(roster, now_ns);
    if (other >= 0)
        return blame(VP_CAUSE_SLOW, other, by, true);
    other = first_starved(roster, now_ns);
    if (other >= 0)
        return blame(VP_CAUSE_STARVED, other, by, false);
    return blame(VP_CAUSE_CIRCLE, rank, by, false);
}

static struct vp_diagnosis blame_waiting(const struct vp_roster *roster, int by,
                                         int64_t now_ns)
{
    int rank = follow_waits(roster, by);
    const struct vp_watched *it = &roster->ranks[rank];
    bool in_call = is_long(roster, it->vitals.call_ms);

    if (vp_watched_is_waiting(it))
        return blame_circle(roster, rank, by, now_ns);
    if (!it->beat.idle && !in_call && is_starved(it, now_ns))
        return blame(VP_CAUSE_STARVED, rank, by, false);
    if (it->beat.idle || is_long(roster, it->beat.busy_ms))
        return blame(VP_CAUSE_STUCK, rank, by, in_call);
    return blame(VP_CAUSE_SLOW, rank, by, false);
}

/* ---- Before the first step, and after the last -------------------------- */

/* Returns true if the rank has made no progress for longer than its phase
 * allows and waits for no other rank, or if one file operation has lasted
 * longer than the limit of the longest phase. */
static bool is_hung(const struct vp_roster *roster,
                    const struct vp_watched *rank, int64_t now_ns)
{
    if (!is_running(rank))
        return false;
    if (ns_of(rank->vitals.call_ms) >= roster->phase_ns[VP_JOB_PHASE_SAVE])
        return true;
    return rank->vitals.wait_ms == 0 &&
           now_ns - rank->pace.moved_ns >= roster->phase_ns[rank->beat.phase];
}

/* Returns the time at which the last rank ended; INT64_MIN: none has. */
static int64_t last_end_ns(const struct vp_roster *roster)
{
    int64_t last = INT64_MIN;

    for (int r = 0; r < roster->n_ranks; r++)
        if (roster->ranks[r].order > 0)
            last = most(last, roster->ranks[r].end_ns);
    return last;
}

/* Returns true if all running ranks have waited for each other for longer than
 * their phases allow. A rank may have ended another rank's wait just before it
 * exited, so only waits reported GRACE after the last end count. */
static bool all_wait(const struct vp_roster *roster)
{
    int64_t ended_ns = last_end_ns(roster);
    int n = 0;

    for (int r = 0; r < roster->n_ranks; r++) {
        const struct vp_watched *it = &roster->ranks[r];

        if (!it->came ||
            (is_running(it) &&
             (ns_of(it->vitals.wait_ms) < roster->phase_ns[it->beat.phase] ||
              it->heard_ns - GRACE < ended_ns)))
            return false;
        n += is_running(it);
    }
    return n > 0;
}

static struct vp_diagnosis find_hung(const struct vp_roster *roster,
                                     int64_t now_ns)
{
    struct vp_diagnosis diagnosis = { .rank = -1, .by = -1 };

    for (int r = 0; r < roster->n_ranks; r++) {
        const struct vp_watched *it = &roster->ranks[r];

        if (!is_hung(roster, it, now_ns) ||
            (diagnosis.rank >= 0 &&
             it->pace.moved_ns >= roster->ranks[diagnosis.rank].pace.moved_ns))
            continue;
        diagnosis.cause = VP_CAUSE_STUCK;
        diagnosis.rank = r;
        diagnosis.in_call = is_long(roster, it->vitals.call_ms);
    }
    if (diagnosis.rank < 0 && all_wait(roster))
        diagnosis = (struct vp_diagnosis){ .cause = VP_CAUSE_CIRCLE, .by = -1 };
    return diagnosis;
}

static int first_absent(const struct vp_roster *roster, int64_t now_ns)
{
    if (now_ns - roster->start_ns < roster->phase_ns[VP_JOB_PHASE_START])
        return -1;
    return first_missing(roster);
}

static struct vp_diagnosis blame_absent(int rank)
{
    return (struct vp_diagnosis){ .cause = VP_CAUSE_ABSENT,
                                  .rank = rank,
                                  .by = -1 };
}

/* If the rank that died first had received SIGTERM before, the launcher ended
 * the job because of a rank that has not connected. */
static struct vp_diagnosis blame_ended(const struct vp_roster *roster, int rank)
{
    const struct vp_watched *it = &roster->ranks[rank];
    int missing = first_missing(roster);

    if (!vp_watched_is_dead(roster, it))
        return (struct vp_diagnosis){ .cause = VP_CAUSE_FAILED,
                                      .rank = rank,
                                      .by = -1,
                                      .status = it->final.status };
    if (it->beat.stop && missing >= 0)
        return blame_absent(missing);
    return (
        struct vp_diagnosis){ .cause = VP_CAUSE_DEAD, .rank = rank, .by = -1 };
}

/* Returns true if all ranks train and none has made progress for longer than a
 * rank may wait. */
static bool nothing_happens(const struct vp_roster *roster, int64_t now_ns)
{
    if (now_ns - roster->progress_ns < roster->limit_ns + GRACE)
        return false;
    for (int r = 0; r < roster->n_ranks; r++)
        if (roster->ranks[r].beat.phase != VP_JOB_PHASE_TRAIN ||
            roster->ranks[r].final.word != VP_WORD_NONE)
            return false;
    return true;
}

static struct vp_diagnosis find_cause(const struct vp_roster *roster,
                                      int64_t now_ns)
{
    struct vp_diagnosis none = { .rank = -1, .by = -1 };
    int rank = first_ended(roster);

    if (rank >= 0 && now_ns - roster->ranks[rank].end_ns < SETTLE)
        return none;
    if (rank >= 0)
        return blame_ended(roster, rank);
    rank = first_silent(roster, now_ns);
    if (rank >= 0 && are_frozen(roster, now_ns))
        return none;
    if (rank >= 0)
        return (struct vp_diagnosis){
            .cause = roster->ranks[rank].cut_off    ? VP_CAUSE_CUT_OFF
                     : roster->ranks[rank].is_ready ? VP_CAUSE_STARVED
                                                    : VP_CAUSE_STOPPED,
            .rank = rank,
            .by = -1,
        };
    rank = first_complaint(roster);
    if (rank >= 0 || nothing_happens(roster, now_ns))
        return blame_waiting(roster, rank, now_ns);
    rank = first_absent(roster, now_ns);
    return rank >= 0 ? blame_absent(rank) : find_hung(roster, now_ns);
}

/* Returns the host of the diagnosed rank if all ranks of that host are lost and
 * there are other hosts; NULL otherwise. */
static const char *lost_host(const struct vp_roster *roster,
                             const struct vp_diagnosis *diagnosis,
                             int64_t now_ns)
{
    const char *host = roster->ranks[diagnosis->rank].hello.host;
    int n_here = 0;

    if (diagnosis->cause != VP_CAUSE_DEAD &&
        diagnosis->cause != VP_CAUSE_STOPPED &&
        diagnosis->cause != VP_CAUSE_CUT_OFF)
        return NULL;
    if (first_missing(roster) >= 0)
        return NULL; /* it may be on this host */
    for (int r = 0; r < roster->n_ranks; r++)
        n_here += strcmp(roster->ranks[r].hello.host, host) == 0;
    if (n_here == roster->n_ranks ||
        (n_here == 1 && diagnosis->cause != VP_CAUSE_CUT_OFF))
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
        /* A host's ranks become silent one after the other, because their last
         * heartbeats came at different times; cut_off is known earlier. */
        if (!vp_watched_is_dead(roster, it) && !is_silent(roster, it, now_ns) &&
            !it->cut_off)
            return false;
    }
    return found;
}

enum vp_outcome vp_roster_judge(const struct vp_roster *roster, int64_t now_ns,
                                struct vp_diagnosis *out)
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

bool vp_diagnosis_allows_restart(const struct vp_diagnosis *diagnosis)
{
    return diagnosis->cause != VP_CAUSE_NONE &&
           diagnosis->cause != VP_CAUSE_FAILED;
}
