/* Writes lists by a greedy rule, for any costs, any limit of memory per rank
 * and any placement without replicas (after the heuristics of Qi et al., Zero
 * Bubble Pipeline Parallelism, ICLR 2024, for ZB-1p, ZB-2p and ZB-V).
 *
 * The pipeline is simulated. An idle rank takes, of the F and B whose input has
 * arrived and the W whose B has ended, the action that is due first:
 *
 *   F of stage k, minibatch m   m T + f of all stages before k
 *   B                           m T + f of all stages + hop x b of all behind k
 *   W                           delay x P T after B
 *
 * T is the work of the busiest rank per minibatch, P the number of ranks. W is
 * due late, so that it fills the waits. It comes early only if no F may start
 * because the rank's memory is full. A W that would end after the next input
 * arrives is taken if the wait for that input is longer than the difference
 * between the longest idle time of any rank so far and that of this rank
 * (`fill`: always). The best values of hop, delay and fill depend on the case:
 * all of a small table are tried, and the shortest lists are kept.
 *
 * Memory counts slots as the runtime allocates them: a stage owns the largest
 * number that it ever kept at once. An F leaves one slot for each later stage
 * of its rank that has none. So the oldest minibatch always finds a slot, and
 * the simulation ends for every limit that holds one slot of each stage. */
#include "sched/internal.h"

#include <math.h>
#include <stdlib.h>

struct policy {
    double hop, delay;
    bool fill;
};

static const struct policy policies[] = {
    { 2.0, 0.5, true },  { 2.0, 1.0, true },  { 2.0, 2.0, true },
    { 1.5, 0.5, true },  { 1.5, 1.0, true },  { 1.5, 2.0, true },
    { 1.0, 0.5, true },  { 1.0, 1.0, true },  { 1.0, 2.0, true },
    { 2.0, 0.5, false }, { 2.0, 1.0, false }, { 2.0, 2.0, false },
    { 1.5, 0.5, false }, { 1.5, 1.0, false }, { 1.5, 2.0, false },
    { 1.0, 0.5, false }, { 1.0, 1.0, false }, { 1.0, 2.0, false },
};

/* One stage. */
struct lane {
    struct vp_stage_costs cost;
    double size; /* memory of a slot */
    int n_f, n_b, n_w, n_slots;
    double due_f, due_b;   /* due times of minibatch 0 */
    double *f_end, *b_end; /* per minibatch */
};

/* One rank. */
struct seat {
    double begin, end; /* start of its first action, end of its last */
    double idle;       /* idle time between them */
    double used;       /* size of its slots */
    bool started;
};

struct run {
    const struct vp_greedy *in;
    const struct policy *policy;
    struct lane *lanes;
    struct seat *seats;
    double *times; /* f_end and b_end of all lanes */
    double round;  /* T */
    double delay;
    double now;
};

struct choice {
    enum vp_action_kind kind;
    int stage; /* -1: none */
    double due;
};

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- Actions that may start --------------------------------------------- */

static double latency(const struct run *run, int from, int to)
{
    const struct vp_schedule_stage *stages = run->in->schedule->stages;

    return stages[from].first_rank == stages[to].first_rank ? 0.0
                                                            : run->in->latency;
}

/* Returns true if stage `k` has a free slot, or if there is memory for another
 * one and for the first slots of the rank's later stages. */
static bool has_slot(const struct run *run, int rank, int k)
{
    const struct vp_rank_list *list = &run->in->schedule->ranks[rank];
    const struct lane *lane = &run->lanes[k];
    double used = run->seats[rank].used;

    if (lane->n_f - lane->n_w < lane->n_slots)
        return true;
    used += lane->size;
    for (int i = 0; i < list->n_stages; i++)
        if (list->stages[i] > k && run->lanes[list->stages[i]].n_slots == 0)
            used += run->lanes[list->stages[i]].size;
    return used <= run->in->limit[rank];
}

/* Returns the time at which the input of the stage's next F arrives; HUGE_VAL:
 * not known yet. */
static double f_arrives(const struct run *run, int rank, int k)
{
    const struct lane *lane = &run->lanes[k];

    if (lane->n_f == run->in->schedule->n_mb || !has_slot(run, rank, k))
        return HUGE_VAL;
    if (k == 0)
        return 0.0;
    return lane[-1].n_f > lane->n_f
               ? lane[-1].f_end[lane->n_f] + latency(run, k - 1, k)
               : HUGE_VAL;
}

/* Returns the same for the stage's next B. Its F has ended then, because the
 * gradient comes from a later stage. */
static double b_arrives(const struct run *run, int k)
{
    const struct lane *lane = &run->lanes[k];

    if (k == run->in->schedule->n_stages - 1)
        return lane->n_f > lane->n_b ? lane->f_end[lane->n_b] : HUGE_VAL;
    return lane[1].n_b > lane->n_b
               ? lane[1].b_end[lane->n_b] + latency(run, k + 1, k)
               : HUGE_VAL;
}

/* ---- Taking an action --------------------------------------------------- */

static void offer(struct choice *best, enum vp_action_kind kind, int stage,
                  double due)
{
    if (best->stage < 0 || due < best->due)
        *best = (struct choice){ kind, stage, due };
}

/* Returns true if a rank takes a W although an input arrives before the W ends.
 * `wait`: time until that input arrives. */
static bool fills(const struct run *run, int rank, double wait)
{
    double most = 0.0;

    for (int r = 0; r < run->in->schedule->n_ranks; r++)
        most = larger(most, run->seats[r].idle);
    return run->policy->fill || wait > most - run->seats[rank].idle;
}

/* Chooses the rank's next action. Lowers *next to the arrival of the rank's
 * next input, if that is earlier. */
static struct choice choose(const struct run *run, int rank, double *next)
{
    const struct vp_rank_list *list = &run->in->schedule->ranks[rank];
    struct choice best = { VP_ACTION_F, -1, 0.0 };
    double wait = HUGE_VAL;
    bool ready;

    for (int i = list->n_stages - 1; i >= 0; i--) {
        int k = list->stages[i];
        const struct lane *lane = &run->lanes[k];
        double f = f_arrives(run, rank, k), b = b_arrives(run, k);

        if (f <= run->now)
            offer(&best, VP_ACTION_F, k, lane->n_f * run->round + lane->due_f);
        if (b <= run->now)
            offer(&best, VP_ACTION_B, k, lane->n_b * run->round + lane->due_b);
        wait = smaller(wait, f > run->now ? f : HUGE_VAL);
        wait = smaller(wait, b > run->now ? b : HUGE_VAL);
    }
    ready = best.stage >= 0;
    for (int i = list->n_stages - 1; i >= 0; i--) {
        const struct lane *lane = &run->lanes[list->stages[i]];

        if (lane->n_w < lane->n_b)
            offer(&best, VP_ACTION_W, list->stages[i],
                  lane->n_w * run->round + lane->due_b + run->delay);
    }
    if (!ready && best.stage >= 0 &&
        wait < run->now + run->lanes[best.stage].cost.w &&
        !fills(run, rank, wait - run->now))
        best.stage = -1;
    *next = smaller(*next, wait);
    return best;
}

static void take(struct run *run, int rank, const struct choice *choice,
                 struct vp_sched_list *list)
{
    struct lane *lane = &run->lanes[choice->stage];
    struct seat *seat = &run->seats[rank];
    bool f = choice->kind == VP_ACTION_F, b = choice->kind == VP_ACTION_B;
    int *n = f ? &lane->n_f : b ? &lane->n_b : &lane->n_w;

    vp_sched_list_put(list, choice->kind, choice->stage, *n);
    if (seat->started)
        seat->idle += run->now - seat->end;
    else
        seat->begin = run->now;
    seat->started = true;
    seat->end = run->now + (f ? lane->cost.f : b ? lane->cost.b : lane->cost.w);
    if (f)
        lane->f_end[*n] = seat->end;
    if (b)
        lane->b_end[*n] = seat->end;
    ++*n;
    if (f && lane->n_f - lane->n_w > lane->n_slots) {
        lane->n_slots++;
        seat->used += lane->size;
    }
}

/* ---- One run ------------------------------------------------------------ */

static void set_due(struct run *run)
{
    const struct vp_schedule *schedule = run->in->schedule;
    double f = 0.0, b;

    run->round = 0.0;
    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        const struct vp_rank_list *list = &schedule->ranks[rank];
        double work = 0.0;

        for (int i = 0; i < list->n_stages; i++) {
            const struct vp_stage_costs *c = &run->lanes[list->stages[i]].cost;

            work += c->f + c->b + c->w;
        }
        run->round = larger(run->round, work);
    }
    run->delay = run->policy->delay * schedule->n_ranks * run->round;
    for (int k = 0; k < schedule->n_stages; k++) {
        run->lanes[k].due_f = f;
        f += run->lanes[k].cost.f;
    }
    b = f;
    for (int k = schedule->n_stages - 1; k >= 0; k--) {
        run->lanes[k].due_b = b;
        b += run->policy->hop * run->lanes[k].cost.b;
    }
}

static void begin(struct run *run)
{
    const struct vp_greedy *in = run->in;
    size_t n_mb = (size_t)in->schedule->n_mb;

    for (int rank = 0; rank < in->schedule->n_ranks; rank++)
        run->seats[rank] = (struct seat){ .started = false };
    for (int k = 0; k < in->schedule->n_stages; k++)
        run->lanes[k] = (struct lane){
            .cost = in->costs ? in->costs[k]
                              : (struct vp_stage_costs){ .f = 1.0,
                                                         .b = 1.0,
                                                         .w = 1.0 },
            .size = in->sizes ? in->sizes[k] : 1.0,
            .f_end = run->times + 2 * (size_t)k * n_mb,
            .b_end = run->times + (2 * (size_t)k + 1) * n_mb,
        };
    run->now = 0.0;
    set_due(run);
}

static void run_lists(struct run *run, struct vp_sched_list *lists)
{
    const struct vp_schedule *schedule = run->in->schedule;
    int64_t n_left = 3 * (int64_t)schedule->n_stages * schedule->n_mb;

    begin(run);
    while (n_left > 0) {
        double next = HUGE_VAL;

        for (int rank = 0; rank < schedule->n_ranks; rank++) {
            const struct seat *seat = &run->seats[rank];

            if (!seat->started || seat->end <= run->now) {
                struct choice choice = choose(run, rank, &next);

                if (choice.stage < 0)
                    continue;
                take(run, rank, &choice, &lists[rank]);
                n_left--;
            }
            next = smaller(next, seat->end);
        }
        VP_BUG_ON(n_left > 0 && next == HUGE_VAL);
        run->now = next;
    }
}

/* ---- The shortest lists ------------------------------------------------- */

/* The makespan, and the longest time between a rank's first and last action. */
struct length {
    double all, span;
};

static struct length length_of(const struct run *run)
{
    struct length length = { 0.0, 0.0 };

    for (int rank = 0; rank < run->in->schedule->n_ranks; rank++) {
        const struct seat *seat = &run->seats[rank];

        length.all = larger(length.all, seat->end);
        length.span = larger(length.span, seat->end - seat->begin);
    }
    return length;
}

static void swap_lists(struct vp_sched_list *a, struct vp_sched_list *b, int n)
{
    for (int i = 0; i < n; i++) {
        struct vp_sched_list list = a[i];

        a[i] = b[i];
        b[i] = list;
    }
}

static void try_all(struct run *run, struct vp_sched_list *lists,
                    struct vp_sched_list *attempt)
{
    int n_ranks = run->in->schedule->n_ranks;
    struct length best = { HUGE_VAL, HUGE_VAL };

    for (size_t i = 0; i < VP_COUNT_OF(policies); i++) {
        struct length length;

        run->policy = &policies[i];
        run_lists(run, attempt);
        length = length_of(run);
        if (length.all < best.all ||
            (length.all == best.all && length.span < best.span)) {
            best = length;
            swap_lists(lists, attempt, n_ranks);
        }
        for (int rank = 0; rank < n_ranks; rank++)
            vp_sched_list_release(&attempt[rank]);
    }
}

/* Returns true if every rank may keep one slot of each of its stages. */
static bool can_end(const struct vp_greedy *in)
{
    for (int rank = 0; rank < in->schedule->n_ranks; rank++) {
        const struct vp_rank_list *list = &in->schedule->ranks[rank];
        double least = 0.0;

        for (int i = 0; i < list->n_stages; i++)
            least += in->sizes ? in->sizes[list->stages[i]] : 1.0;
        if (least > in->limit[rank])
            return false;
    }
    return true;
}

enum vp_status vp_greedy_write(const struct vp_greedy *in,
                               struct vp_sched_list *lists)
{
    size_t n_stages = (size_t)in->schedule->n_stages;
    size_t n_ranks = (size_t)in->schedule->n_ranks;
    struct run run = { .in = in };
    struct vp_sched_list *attempt;

    if (!can_end(in))
        return VP_ERR_INVALID;
    run.times = calloc(2 * n_stages * (size_t)in->schedule->n_mb,
                       sizeof(*run.times));
    run.lanes = calloc(n_stages, sizeof(*run.lanes));
    run.seats = calloc(n_ranks, sizeof(*run.seats));
    attempt = calloc(n_ranks, sizeof(*attempt));
    lists[0].failed = !run.times || !run.lanes || !run.seats || !attempt;
    if (!lists[0].failed)
        try_all(&run, lists, attempt);
    free(run.times);
    free(run.lanes);
    free(run.seats);
    free(attempt);
    return VP_OK;
}
