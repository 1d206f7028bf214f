/* Simulates ranks that share devices or copy engines, in order of time.
 *
 * Ranks that share a device (or some cores) compute at equal shares of it: if k
 * of them compute and the device carries c at full speed, each takes k / c
 * times as long (if k > c). This models the time slices of an operating system
 * or a GPU, which are shorter than an action. If costs for a full device are
 * given (`busy`), an action's slowdown grows linearly from none (k = 1) to that
 * of a full device. The length of an action is known only at its end, so the
 * ranks are simulated together: all actions that may begin now do, then time
 * advances to the next end of an action or arrival of a message.
 *
 * F, R, B, W and UPDATE share the device; SEND and REDUCE keep their times. */
#include "sched/run.h"

#include <math.h>
#include <stdlib.h>

/* State of a rank. */
struct turn {
    bool busy;       /* its next action has begun */
    bool computes;   /* the action shares its device */
    double slowdown; /* see vp_clock_slowdown() */
    double start;
    double until; /* busy: end of the action; else its earliest start */
};

/* A message between link and incoming copy engine. */
struct message {
    double time; /* at which it reaches the engine */
    double copy; /* time on the engine */
    int device;  /* the receiver's */
    double *arrival;
};

struct turns {
    struct vp_run *run;
    struct turn *at; /* per rank */
    int *n_busy;     /* per device: ranks that compute */
    int *n_on;       /* per device: its ranks */
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
    return costs->device || costs->capacity > 0.0 || costs->busy;
}

/* ---- Sharing ------------------------------------------------------------ */

static bool computes(enum vp_action_kind kind)
{
    return vp_action_computes(kind) || kind == VP_ACTION_UPDATE;
}

/* Returns the time of an action on a device where n ranks compute, relative to
 * its time alone. */
static double stretch(const struct turns *turns, int device, double slowdown,
                      int n)
{
    const struct vp_sched_costs *costs = turns->run->costs;
    double capacity = costs->capacity > 0.0 ? costs->capacity
                      : costs->device       ? 1.0
                                            : turns->run->schedule->n_ranks;
    double share = n > capacity ? n / capacity : 1.0;

    if (n > 1 && turns->n_on[device] > 1)
        share *= 1.0 + slowdown * (n - 1) / (turns->n_on[device] - 1);
    return share;
}

/* Changes the number of ranks that compute on a device, and moves the ends of
 * their actions. */
static void change_load(struct turns *turns, int device, int change)
{
    int before = turns->n_busy[device], after = before + change;

    turns->n_busy[device] = after;
    for (int r = 0; r < turns->run->schedule->n_ranks; r++) {
        struct turn *turn = &turns->at[r];
        double longer;

        if (!turn->busy || !turn->computes ||
            vp_clock_device(turns->run, r) != device)
            continue;
        longer = stretch(turns, device, turn->slowdown, after) /
                 stretch(turns, device, turn->slowdown, before);
        if (longer != 1.0)
            turn->until = turns->now + (turn->until - turns->now) * longer;
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

/* Returns the message that reaches its device first; NULL: none is under
 * way. */
static struct message *first_message(const struct turns *turns)
{
    struct message *first = NULL;

    for (int i = 0; i < turns->n_messages; i++)
        if (!first || turns->messages[i].time < first->time)
            first = &turns->messages[i];
    return first;
}

/* Gives the messages that have reached their engines to them, in that order. */
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
    double since = 0.0, cost, slowdown = 0.0;

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
    } else if (a->kind == VP_ACTION_SWAP_OUT || a->kind == VP_ACTION_SWAP_IN) {
        vp_clock_swap(turns->run, rank, a, turns->now);
    } else if (cost > 0.0 && computes(a->kind)) {
        int device = vp_clock_device(turns->run, rank);

        slowdown = vp_clock_slowdown(turns->run, a);
        change_load(turns, device, 1);
        span.end = turns->now + cost * stretch(turns, device, slowdown,
                                               turns->n_busy[device]);
    } else {
        span.end = turns->now + cost;
    }
    *turn = (struct turn){ .busy = span.end > turns->now,
                           .computes = cost > 0.0 && computes(a->kind),
                           .slowdown = slowdown,
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

/* Returns the time of the next event. A rank at the end of its list has
 * none. */
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
    turns.n_on = calloc(n, sizeof(*turns.n_on));
    turns.messages = calloc(n_actions > 0 ? n_actions : 1,
                            sizeof(*turns.messages));
    for (int r = 0; turns.n_on && r < run->schedule->n_ranks; r++)
        turns.n_on[vp_clock_device(run, r)]++;
    st = turns.at && turns.n_busy && turns.n_on && turns.messages
             ? take_turns(&turns, err)
             : vp_err_set(err, VP_ERR_NOMEM, "schedule: out of memory");
    free(turns.at);
    free(turns.n_busy);
    free(turns.n_on);
    free(turns.messages);
    return st;
}
