/* Times in order of time, for ranks that share something.
 *
 * Ranks that share a device (or some cores) compute at equal shares of it: with
 * k of them at work and room for c, each goes at the speed min(1, c / k). That
 * is what the time slices of an operating system come to, and those of a GPU:
 * both are shorter than an action. An action's length is then known only at its
 * end, so the ranks take turns: all that may begin now does, then time goes on
 * to the next end, arrival or chance to begin.
 *
 * Computing is shared (F, R, B, W, UPDATE); sending and reducing are not. */
#include "sched/run.h"

#include <math.h>
#include <stdlib.h>

/* What a rank is doing. */
struct turn {
    bool busy;     /* with its next action */
    bool computes; /* it shares its device */
    double start;
    double until; /* busy: its end; else when it may begin */
};

/* A message between link and copy engine. */
struct message {
    double time;
    double copy;
    int device; /* that it enters */
    double *arrival;
};

struct turns {
    struct vp_run *run;
    struct turn *at; /* per rank */
    int *n_busy;     /* per device: ranks that compute */
    struct message *messages;
    int n_messages;
    double now;
    int n_done;
};

bool vp_turns_needed(const struct vp_run *run)
{
    const struct vp_sched_costs *costs = run->costs;

    for (int s = 0; s < run->schedule->n_stages; s++)
        if (costs->stages[s].act_copy > 0.0 || costs->stages[s].grad_copy > 0.0)
            return true;
    return costs->device || costs->capacity > 0.0;
}

/* ---- Sharing ------------------------------------------------------------ */

static bool computes(enum vp_action_kind kind)
{
    return kind == VP_ACTION_F || kind == VP_ACTION_R || kind == VP_ACTION_B ||
           kind == VP_ACTION_W || kind == VP_ACTION_UPDATE;
}

/* Speed of each of n ranks at work. */
static double speed(const struct turns *turns, int n)
{
    double capacity = turns->run->costs->capacity;

    capacity = capacity > 0.0 ? capacity : 1.0;
    return n > capacity ? capacity / n : 1.0;
}

/* One rank more or less computes on a device: the others' ends move. */
static void change_load(struct turns *turns, int device, int change)
{
    double before = speed(turns, turns->n_busy[device]), after;

    turns->n_busy[device] += change;
    after = speed(turns, turns->n_busy[device]);
    for (int r = 0; before != after && r < turns->run->schedule->n_ranks; r++) {
        struct turn *turn = &turns->at[r];

        if (turn->busy && turn->computes &&
            vp_clock_device(turns->run, r) == device)
            turn->until = turns->now +
                          (turn->until - turns->now) * (before / after);
    }
}

/* ---- Messages ----------------------------------------------------------- */

static void send_message(struct turns *turns, int rank,
                         const struct vp_action *a, struct vp_span *span)
{
    const struct vp_stage_costs *c = &turns->run->costs->stages[a->stage];
    double copy = a->kind == VP_ACTION_SEND_ACT ? c->act_copy : c->grad_copy;
    double *arrival = vp_clock_arrival(turns->run, rank, a);
    double time = vp_clock_send(turns->run, rank, a, span);

    *arrival = time;
    if (copy == 0.0 || a->peer == rank)
        return;
    *arrival = INFINITY; /* until the copy is made */
    turns->messages[turns->n_messages++] = (struct message){
        time, copy, vp_clock_device(turns->run, a->peer), arrival
    };
}

/* The message that reaches its device first; NULL: none is under way. */
static struct message *first_message(const struct turns *turns)
{
    struct message *first = NULL;

    for (int i = 0; i < turns->n_messages; i++)
        if (!first || turns->messages[i].time < first->time)
            first = &turns->messages[i];
    return first;
}

/* Engines take what has reached them, in that order. */
static void copy_in(struct turns *turns)
{
    struct message *p;

    while ((p = first_message(turns)) && p->time <= turns->now) {
        double *engine = &turns->run->clock->copy[VP_COPY_IN][p->device];

        *engine = (p->time > *engine ? p->time : *engine) + p->copy;
        *p->arrival = *engine;
        *p = turns->messages[--turns->n_messages];
    }
}

/* ---- Beginning and ending ----------------------------------------------- */

static void end_action(struct turns *turns, int rank, struct vp_span span)
{
    struct turn *turn = &turns->at[rank];

    vp_clock_note(turns->run, rank, vp_run_next(turns->run, rank), span);
    vp_run_advance(turns->run, rank);
    turns->n_done++;
    turn->busy = false;
}

/* Begins the next action of a rank if it may begin now; one that takes no time
 * ends at once. Returns true if something changed. */
static bool begin_action(struct turns *turns, int rank)
{
    const struct vp_action *a = vp_run_next(turns->run, rank);
    struct turn *turn = &turns->at[rank];
    struct vp_span span = { turns->now, turns->now };
    double since = 0.0, cost;

    if (turn->busy || !a)
        return false;
    vp_run_reach(turns->run, rank, a);
    turn->until = INFINITY;
    if (vp_run_blocker(turns->run, a, &since) >= 0)
        return false;
    turn->until = since;
    if (since > turns->now)
        return false;
    cost = vp_clock_duration(turns->run, a);
    if (a->kind == VP_ACTION_SEND_ACT || a->kind == VP_ACTION_SEND_GRAD) {
        send_message(turns, rank, a, &span);
    } else if (cost > 0.0 && computes(a->kind)) {
        int device = vp_clock_device(turns->run, rank);

        change_load(turns, device, 1);
        span.end = turns->now + cost / speed(turns, turns->n_busy[device]);
    } else {
        span.end = turns->now + cost;
    }
    *turn = (struct turn){ .busy = span.end > turns->now,
                           .computes = cost > 0.0 && computes(a->kind),
                           .start = span.start,
                           .until = span.end };
    if (!turn->busy)
        end_action(turns, rank, span);
    return true;
}

static void begin_all(struct turns *turns)
{
    bool again = true;

    while (again) {
        again = false;
        for (int r = 0; r < turns->run->schedule->n_ranks; r++)
            while (begin_action(turns, r))
                again = true;
    }
}

static void end_all(struct turns *turns)
{
    for (int r = 0; r < turns->run->schedule->n_ranks; r++) {
        struct turn *turn = &turns->at[r];

        if (!turn->busy || turn->until > turns->now)
            continue;
        end_action(turns, r, (struct vp_span){ turn->start, turn->until });
        if (turn->computes)
            change_load(turns, vp_clock_device(turns->run, r), -1);
    }
}

/* Of what is to come. A rank at its end has nothing to come. */
static double next_time(const struct turns *turns)
{
    const struct message *message = first_message(turns);
    double next = message ? message->time : INFINITY;

    for (int r = 0; r < turns->run->schedule->n_ranks; r++)
        if (vp_run_next(turns->run, r) && turns->at[r].until < next)
            next = turns->at[r].until;
    return next;
}

/* ---- All of it ---------------------------------------------------------- */

static enum vp_status take_turns(struct turns *turns, struct vp_err *err)
{
    for (;;) {
        begin_all(turns);
        if (turns->n_done == turns->run->schedule->n_actions)
            return VP_OK;
        turns->now = next_time(turns);
        if (turns->now == INFINITY)
            return vp_run_stuck(turns->run, err);
        copy_in(turns);
        end_all(turns);
    }
}

enum vp_status vp_turns_run(struct vp_run *run, struct vp_err *err)
{
    size_t n = (size_t)run->schedule->n_ranks;
    size_t n_actions = (size_t)run->schedule->n_actions;
    struct turns turns = { .run = run };
    enum vp_status st;

    turns.at = calloc(n, sizeof(*turns.at));
    turns.n_busy = calloc(n, sizeof(*turns.n_busy));
    turns.messages = calloc(n_actions > 0 ? n_actions : 1,
                            sizeof(*turns.messages));
    st = turns.at && turns.n_busy && turns.messages
             ? take_turns(&turns, err)
             : vp_err_set(err, VP_ERR_NOMEM, "schedule: out of memory");
    free(turns.at);
    free(turns.n_busy);
    free(turns.messages);
    return st;
}
