/* Prints a diagnosis as text for users. */
#include "job/diagnosis.h"

#include "base/clock.h"

#include <string.h>

#define SECOND INT64_C(1000000000)

enum { MOST_LINES = 24 };

static void say_action(struct vp_strbuf *out, const struct vp_watched *rank)
{
    const struct vp_beat *beat = &rank->beat;
    char text[64];

    if (beat->idle) {
        vp_vitals_add(out, beat->phase, &rank->vitals);
        return;
    }
    vp_action_print(&beat->action, text, sizeof(text));
    vp_strbuf_addf(out, "%s, stage %d, minibatch %d%s", text,
                   beat->action.stage, beat->action.mb,
                   beat->eval ? " of an evaluation" : "");
}

/* "rank 2 on host n1" */
static void say_name(struct vp_strbuf *out, const struct vp_roster *roster,
                     int rank)
{
    vp_strbuf_addf(out, "rank %d", rank);
    if (roster->ranks[rank].came)
        vp_strbuf_addf(out, " on host %s", roster->ranks[rank].hello.host);
}

static void say_death(struct vp_strbuf *out,
                      const struct vp_diagnosis *diagnosis)
{
    if (diagnosis->signal > 0)
        vp_strbuf_addf(out, " is dead: ended by signal %d (%s)",
                       diagnosis->signal, strsignal(diagnosis->signal));
    else
        vp_strbuf_addf(out, " is dead: it exited without a last message");
}

static void say_host(struct vp_strbuf *out, const struct vp_roster *roster,
                     const struct vp_diagnosis *diagnosis)
{
    int n = 0;

    for (int r = 0; r < roster->n_ranks; r++)
        n += strcmp(roster->ranks[r].hello.host, diagnosis->host) == 0;
    vp_strbuf_addf(out, "host %s is %s: ", diagnosis->host,
                   diagnosis->cause == VP_CAUSE_CUT_OFF ? "cut off" : "lost");
    if (n == 1)
        vp_strbuf_addf(out, "nothing comes from it and nothing reaches it; ");
    else
        vp_strbuf_addf(out, "all its %d ranks are %s; ", n,
                       diagnosis->cause == VP_CAUSE_DEAD ? "gone" : "silent");
}

/* Describes a rank that is stuck or slow in an action, a phase or a file
 * operation. */
static void say_slow(struct vp_strbuf *out, const struct vp_watched *rank,
                     const struct vp_diagnosis *diagnosis, int64_t now_ns)
{
    const struct vp_vitals *vitals = &rank->vitals;
    double seconds = rank->beat.idle
                         ? vp_clock_seconds(rank->pace.moved_ns, now_ns)
                         : (double)rank->beat.busy_ms * 1e-3;

    if (diagnosis->cause == VP_CAUSE_STUCK && diagnosis->in_call)
        vp_strbuf_addf(out, " is stuck: %s for %.1f s", vitals->text,
                       (double)vitals->call_ms * 1e-3);
    else if (diagnosis->cause == VP_CAUSE_STUCK)
        vp_strbuf_addf(out, " is stuck for %.1f s", seconds);
    else if (diagnosis->in_call)
        vp_strbuf_addf(out, " is slow: it still reads or writes files (%s)",
                       vitals->text);
    else
        vp_strbuf_addf(out, " is slow: %.1f s so far", seconds);
}

static void say_starved(struct vp_strbuf *out, const struct vp_watched *rank,
                        int64_t now_ns)
{
    const struct vp_vitals *now = &rank->vitals, *then = &rank->earlier;

    if (rank->is_ready)
        vp_strbuf_addf(out,
                       " is starved: no heartbeat for %.1f s, and its threads "
                       "wait for a core",
                       vp_clock_seconds(rank->heard_ns, now_ns));
    else
        vp_strbuf_addf(out,
                       " is starved: in %.1f s its threads ran for %.1f s and "
                       "waited %.1f s for a core",
                       vp_clock_seconds(rank->action_ns, now_ns),
                       (double)(now->ran_ms - then->ran_ms) * 1e-3,
                       (double)(now->delayed_ms - then->delayed_ms) * 1e-3);
    vp_strbuf_addf(out, "; see what else its host runs");
}

static void accuse(struct vp_strbuf *out, const struct vp_roster *roster,
                   const struct vp_diagnosis *diagnosis, int64_t now_ns)
{
    const struct vp_watched *it = &roster->ranks[diagnosis->rank];
    double silent = vp_clock_seconds(it->heard_ns, now_ns);

    if (diagnosis->host)
        say_host(out, roster, diagnosis);
    say_name(out, roster, diagnosis->rank);
    switch (diagnosis->cause) {
    case VP_CAUSE_FAILED:
        vp_strbuf_addf(out, " failed: %s", it->final.line);
        return;
    case VP_CAUSE_DEAD:
        say_death(out, diagnosis);
        break;
    case VP_CAUSE_STOPPED:
        vp_strbuf_addf(out,
                       " is stopped: no heartbeat for %.1f s, but its host "
                       "answers",
                       silent);
        break;
    case VP_CAUSE_CUT_OFF:
        vp_strbuf_addf(out, " is cut off: no heartbeat for %.1f s", silent);
        break;
    case VP_CAUSE_STUCK:
    case VP_CAUSE_SLOW:
        say_slow(out, it, diagnosis, now_ns);
        break;
    case VP_CAUSE_STARVED:
        say_starved(out, it, now_ns);
        break;
    case VP_CAUSE_CIRCLE:
        vp_strbuf_addf(
            out, " waits, and so does every other rank: a message was lost");
        break;
    default:
        vp_strbuf_addf(out,
                       " never connected; check its host, and the messages of "
                       "mpirun or srun");
        return;
    }
    vp_strbuf_addf(out, "; last seen in ");
    if (diagnosis->in_call && it->beat.idle)
        vp_strbuf_addf(out, "%s", vp_job_phase_phrase(it->beat.phase));
    else
        say_action(out, it);
    for (int i = 0; i < it->n_last; i++) {
        char text[64];

        vp_action_print(&it->last[i], text, sizeof(text));
        vp_strbuf_addf(out, "%s%s", i ? ", " : "; before that ", text);
    }
}

static void describe(struct vp_strbuf *out, const struct vp_roster *roster,
                     int rank, int64_t now_ns)
{
    const struct vp_watched *it = &roster->ranks[rank];
    const struct vp_beat *beat = &it->beat;

    vp_strbuf_addf(out, "\n  rank %d", rank);
    if (!it->came) {
        vp_strbuf_addf(out, ": not connected");
        return;
    }
    vp_strbuf_addf(out, " (%s, pid %d): ", it->hello.host, it->hello.pid);
    say_action(out, it);
    if (!beat->idle)
        vp_strbuf_addf(out, " for %.1f s, ", (double)beat->busy_ms * 1e-3);
    if (vp_watched_is_waiting(it) && beat->action.peer >= 0)
        vp_strbuf_addf(out, "waits for rank %d", beat->action.peer);
    else if (vp_watched_is_waiting(it))
        vp_strbuf_addf(out, "waits for the others");
    else if (!beat->idle)
        vp_strbuf_addf(out, "computes");
    vp_strbuf_addf(out, "; %lld actions done", (long long)beat->n_actions);
    if (vp_watched_is_dead(roster, it))
        vp_strbuf_addf(out, "; dead");
    else if (it->final.word == VP_WORD_NONE &&
             now_ns - it->heard_ns > 2 * SECOND)
        vp_strbuf_addf(out, "; silent for %.1f s",
                       vp_clock_seconds(it->heard_ns, now_ns));
}

/* Prints a line for each rank, up to MOST_LINES, starting with the culprit. */
static void describe_all(struct vp_strbuf *out, const struct vp_roster *roster,
                         int culprit, int64_t now_ns)
{
    int n = 1;

    describe(out, roster, culprit, now_ns);
    for (int r = 0; r < roster->n_ranks && n < MOST_LINES; r++)
        if (r != culprit) {
            describe(out, roster, r, now_ns);
            n++;
        }
    if (n < roster->n_ranks)
        vp_strbuf_addf(out, "\n  and %d more", roster->n_ranks - n);
}

void vp_diagnosis_print(const struct vp_roster *roster,
                        const struct vp_diagnosis *diagnosis, int64_t now_ns,
                        struct vp_err *out)
{
    struct vp_strbuf text = VP_STRBUF_INIT;

    if (diagnosis->by >= 0 && diagnosis->by != diagnosis->rank)
        vp_strbuf_addf(&text, "rank %d waited %.1f s; ", diagnosis->by,
                       (double)roster->limit_ns * 1e-9);
    accuse(&text, roster, diagnosis, now_ns);
    if (diagnosis->cause != VP_CAUSE_FAILED) /* its own error is enough */
        describe_all(&text, roster, diagnosis->rank, now_ns);
    vp_err_set(out, VP_ERR_ABORTED, "%s", vp_strbuf_text(&text));
    vp_strbuf_release(&text);
}
