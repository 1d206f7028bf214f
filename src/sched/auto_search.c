/* The search of `auto`: list schedules under many rules, then a local search
 * that moves actions of the critical path. */
#include "sched/auto.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum {
    BUDGET = 1 << 20, /* for the search; timing one letter costs 1 */
    WRITE_COST = 8,   /* cost of writing a letter by a rule */
    TRY_COST = 16,    /* cost of choosing a move */
    HISTORY = 32,     /* length of the first history of climb() */
    MAX_HISTORY = 1024,
    MAX_BLOCK = 3,
    MAX_IDLE = 30, /* histories without a better plan before climb() ends */
};

/* Share by which a plan may get worse when the search leaves a local
 * optimum. */
#define SHAKE 0.03
/* The largest random change of a rule's due times, in periods. */
#define NOISE 2.0

struct search {
    const struct vp_auto_problem *problem;
    struct vp_auto_board *board;
    struct vp_auto_times *times;
    struct vp_auto_best *best;
    vp_letter *letters; /* the plan under consideration */
    double *due;
    int *slots;
    int *path; /* positions, last first */
    int n_path;
    int *scratch;
    int64_t budget;
    uint32_t n_random;
};

void vp_auto_keep(const struct vp_auto_problem *problem,
                  const vp_letter *letters, const struct vp_auto_times *times,
                  struct vp_auto_best *best)
{
    if (best->found &&
        (times->makespan > best->makespan ||
         (times->makespan == best->makespan && times->score >= best->score)))
        return;
    memcpy(best->letters, letters,
           (size_t)problem->n_letters * sizeof(*letters));
    best->makespan = times->makespan;
    best->score = times->score;
    best->found = true;
}

static uint32_t random_below(struct search *search, int n)
{
    uint32_t bits = vp_rng(0, VP_RNG_SEARCH, 0, search->n_random++, 0, 0).v[0];

    return vp_rng_below(bits, (uint32_t)n);
}

static bool done(const struct search *search)
{
    return search->budget <= 0 ||
           (search->best->found &&
            search->best->makespan <= search->problem->bound * (1.0 + 1e-12));
}

/* Times search->letters and keeps them if they are the best so far. Returns
 * false if they deadlock. */
static bool consider(struct search *search)
{
    const struct vp_auto_problem *problem = search->problem;

    search->budget -= problem->n_letters;
    if (!vp_auto_time(problem, search->letters, search->times))
        return false;
    vp_auto_keep(problem, search->letters, search->times, search->best);
    return true;
}

/* ---- Rules -------------------------------------------------------------- */

/* Gives one more slot to the stage of a rank that has fewest for its need.
 * Returns false if no stage of the rank can have another one. */
static bool add_slot(const struct vp_auto_problem *problem, int rank,
                     bool by_life, int *slots)
{
    const struct vp_rank_list *list = &problem->schedule->ranks[rank];
    double most = 0.0;
    int chosen = -1;

    for (int i = 0; i < list->n_stages; i++) {
        int s = list->stages[i];
        const struct vp_auto_stage *stage = &problem->stages[s];
        double life = stage->b_head - stage->f_head + stage->cost[VP_AUTO_B] +
                      stage->cost[VP_AUTO_W];
        double claim = (by_life ? life : 1.0) / slots[s];
        bool fits;

        slots[s]++;
        fits = slots[s] <= problem->n_mb && vp_auto_fits(problem, rank, slots);
        slots[s]--;
        if (fits && (chosen < 0 || claim > most)) {
            chosen = s;
            most = claim;
        }
    }
    if (chosen >= 0)
        slots[chosen]++;
    return chosen >= 0;
}

/* Divides limited memory between the stages of a rank: in proportion to the
 * time that a lone minibatch spends between F and W of the stage (`by_life`),
 * or equally. */
static void share_slots(const struct vp_auto_problem *problem, bool by_life,
                        int *slots)
{
    for (int s = 0; s < problem->n_stages; s++)
        slots[s] = problem->limit ? 1 : problem->n_mb;
    for (int r = 0; problem->limit && r < problem->n_ranks; r++)
        while (add_slot(problem, r, by_life, slots))
            ;
}

/* A rule for due times. Times are in periods: the work of the busiest rank for
 * a minibatch. */
struct rule {
    bool by_life;    /* see share_slots(). If false and limits count slots in
                        use, the first stage that needs a slot gets it */
    double hop;      /* factor on the time of a gradient from stage to stage */
    double lead;     /* periods by which F is due before its earliest time */
    double lag;      /* periods by which W is due after B, times the ranks */
    double patience; /* see struct vp_auto_rule */
};

/* Chosen from 1260 rules over 168 random problems: on average the best of these
 * plans takes 0.4 % longer than the best of all. */
static const struct rule rules[] = {
    { true, 2.0, 0.0, 2.0, 0.0 },   { false, 3.0, 0.5, 1.0, 0.5 },
    { true, 1.5, -1.0, 0.25, 0.5 }, { true, 3.0, 0.0, 0.25, 0.5 },
    { true, 1.5, 0.5, 1.0, 0.0 },   { true, 0.7, -1.0, 0.5, 1.0 },
    { true, 1.0, 0.5, 1.0, 1.0 },   { true, 1.0, 0.0, 0.25, 0.5 },
    { true, 3.0, 2.0, 0.5, 0.0 },   { true, 1.5, 0.5, 0.125, 1.0 },
    { true, 0.7, 0.0, 1.0, 0.5 },   { true, 3.0, 0.5, 0.25, 0.0 },
    { true, 2.0, 0.5, 1.0, 0.5 },   { true, 3.0, 0.5, 0.0, 1.0 },
    { true, 0.7, 0.0, 0.25, 1.0 },  { true, 2.0, 0.0, 0.25, 0.5 },
    { false, 0.7, 0.0, 2.0, 0.5 },  { false, 3.0, 0.0, 1.0, 0.0 },
    { false, 2.0, 0.5, 1.0, 0.5 },  { false, 3.0, 0.5, 0.25, 0.5 },
};

static void set_due(const struct search *search, const struct rule *rule)
{
    const struct vp_auto_problem *problem = search->problem;
    int n_mb = problem->n_mb;
    double turn = problem->stages[problem->n_stages - 1].b_head;

    for (int s = 0; s < problem->n_stages; s++) {
        const struct vp_auto_stage *stage = &problem->stages[s];
        double *due = &search->due[VP_AUTO_KINDS * s * n_mb];
        double f = stage->f_head - rule->lead * problem->period;
        double b = turn + rule->hop * (stage->b_head - turn);
        double w = b + rule->lag * problem->period * problem->n_ranks;

        for (int i = 0; i < n_mb; i++) {
            double base = i * problem->period;

            due[VP_AUTO_F * n_mb + i] = base + f;
            due[VP_AUTO_R * n_mb + i] = base + b - stage->cost[VP_AUTO_R];
            due[VP_AUTO_B * n_mb + i] = base + b;
            due[VP_AUTO_W * n_mb + i] = base + w;
        }
    }
}

static void write_by(struct search *search, const struct rule *by)
{
    bool on_demand = search->problem->in_use && !by->by_life;
    struct vp_auto_rule rule = { search->due, on_demand ? NULL : search->slots,
                                 by->patience };

    vp_auto_write(search->problem, search->board, &rule, search->letters);
    search->budget -= WRITE_COST * search->problem->n_letters;
}

static void try_rules(struct search *search)
{
    for (size_t i = 0; i < VP_COUNT_OF(rules) && !done(search); i++) {
        share_slots(search->problem, rules[i].by_life, search->slots);
        set_due(search, &rules[i]);
        write_by(search, &rules[i]);
        consider(search);
    }
}

/* ---- Moves -------------------------------------------------------------- */

/* Exchanges two adjacent blocks of letters: [begin, middle) and [middle,
 * end). */
struct move {
    int begin, middle, end;
};

/* Applies a move. Returns the move that undoes it. */
static struct move apply(vp_letter *letters, struct move move)
{
    int n = move.middle - move.begin, n_rest = move.end - move.middle;
    vp_letter block[MAX_BLOCK];

    if (n <= n_rest) {
        memcpy(block, &letters[move.begin], (size_t)n * sizeof(*block));
        memmove(&letters[move.begin], &letters[move.middle],
                (size_t)n_rest * sizeof(*block));
        memcpy(&letters[move.begin + n_rest], block,
               (size_t)n * sizeof(*block));
    } else {
        memcpy(block, &letters[move.middle], (size_t)n_rest * sizeof(*block));
        memmove(&letters[move.begin + n_rest], &letters[move.begin],
                (size_t)n * sizeof(*block));
        memcpy(&letters[move.begin], block, (size_t)n_rest * sizeof(*block));
    }
    return (struct move){ move.begin, move.begin + n_rest, move.end };
}

static int rank_at(const struct search *search, int at)
{
    return search->problem->stages[vp_letter_stage(search->letters[at])].rank;
}

/* Finds the critical path, from the last action backwards: each action is the
 * reason for which the one after it does not start earlier. */
static void find_path(struct search *search)
{
    const struct vp_auto_problem *problem = search->problem;
    const struct vp_auto_times *times = search->times;
    int last = 0, at;

    for (int r = 1; r < problem->n_ranks; r++)
        if (times->clock[r] + problem->tail[r] >
            times->clock[last] + problem->tail[last])
            last = r;
    at = problem->first[last + 1] - 1;
    search->n_path = 0;
    for (;;) {
        vp_letter letter = search->letters[at];
        int s = vp_letter_stage(letter), kind = vp_letter_kind(letter);
        int mb = times->mb[at];
        bool first = at == problem->first[problem->stages[s].rank];

        search->path[search->n_path++] = at;
        if (!first && times->end[at - 1] >= times->start[at])
            at--;
        else if (kind == VP_AUTO_F && s > 0)
            at = times->where[(letter - VP_AUTO_KINDS) * problem->n_mb + mb];
        else if (kind == VP_AUTO_B && s + 1 < problem->n_stages)
            at = times->where[(letter + VP_AUTO_KINDS) * problem->n_mb + mb];
        else if (!first)
            at--;
        else
            return;
    }
}

/* The critical path is a chain of blocks: letters that follow each other on a
 * rank, with a message from one block to the next. It may get shorter if the
 * last letter of a block moves to the front, the first one to the back, or a W
 * out of the block. Other moves are tried at random. Returns the direction of
 * the move of path position `i`, or 0: choose another position. */
static int direction(struct search *search, int i)
{
    const int *path = search->path;
    bool first = i + 1 == search->n_path || path[i + 1] != path[i] - 1;
    bool last = i == 0 || path[i - 1] != path[i] + 1;
    int any = random_below(search, 2) ? 1 : -1;

    if (vp_letter_kind(search->letters[path[i]]) == VP_AUTO_W)
        return random_below(search, 4) ? 1 : any;
    if (random_below(search, 8) == 0)
        return any;
    return last && !first ? -1 : first && !last ? 1 : 0;
}

/* Chooses a random move of a letter on the path, sometimes together with its
 * neighbours. Returns false if the move would change nothing. */
static bool choose_move(struct search *search, struct move *move)
{
    const struct vp_auto_problem *problem = search->problem;
    int i = (int)random_below(search, search->n_path);
    int at = search->path[i], rank = rank_at(search, at);
    int distance = 1 + (int)random_below(search, 1 << random_below(search, 4));
    int n = 1;
    int way = direction(search, i);

    if (way == 0)
        return false;
    if (random_below(search, 4) == 0)
        n = 2 + (int)random_below(search, MAX_BLOCK - 1);
    *move = way > 0
                ? (struct move){ at, at + n, at + n + distance }
                : (struct move){ at + 1 - n - distance, at + 1 - n, at + 1 };
    if (move->begin < problem->first[rank])
        move->begin = problem->first[rank];
    if (move->end > problem->first[rank + 1])
        move->end = problem->first[rank + 1];
    return move->begin < move->middle && move->middle < move->end &&
           search->letters[move->begin] != search->letters[move->middle];
}

/* Late acceptance hill climbing (Burke and Bykov, 2017): a move is accepted if
 * the plan is not worse than the current one, or than the one `n` moves ago.
 * During the first `n` moves it may be worse than the start by the share
 * `shake`. Ends after MAX_IDLE * n moves without a better plan. */
static void climb(struct search *search, int n, double shake)
{
    double history[MAX_HISTORY], score, best;
    int last = 0;

    if (!consider(search))
        return;
    score = best = search->times->score;
    for (int i = 0; i < n; i++)
        history[i] = score * (1.0 + shake);
    find_path(search);
    for (int i = 0; i - last < MAX_IDLE * n && !done(search); i++) {
        double *past = &history[i % n];
        struct move move;
        int rank;

        search->budget -= TRY_COST;
        if (!choose_move(search, &move))
            continue;
        rank = rank_at(search, move.begin);
        move = apply(search->letters, move);
        if (vp_auto_is_legal(search->problem, search->letters, rank,
                             search->scratch) &&
            consider(search) &&
            (search->times->score <= score || search->times->score <= *past)) {
            score = search->times->score;
            find_path(search);
        } else {
            apply(search->letters, move);
        }
        if (score < *past)
            *past = score;
        if (score < best) {
            best = score;
            last = i;
        }
    }
}

/* Writes a list schedule by a random rule, with random changes of the due times
 * of each stage. */
static void write_random(struct search *search)
{
    const struct vp_auto_problem *problem = search->problem;
    const struct rule *rule =
        &rules[random_below(search, (int)VP_COUNT_OF(rules))];

    share_slots(problem, rule->by_life, search->slots);
    set_due(search, rule);
    for (int letter = 0; letter < VP_AUTO_KINDS * problem->n_stages; letter++) {
        double change = NOISE * problem->period *
                        (random_below(search, 2001) / 1000.0 - 1.0);

        for (int i = 0; i < problem->n_mb; i++)
            search->due[letter * problem->n_mb + i] += change;
    }
    write_by(search, rule);
}

/* Climbs from the best plan, then in turn from a random list schedule and from
 * the best plan made slightly worse, with longer and longer histories. */
static void improve(struct search *search)
{
    size_t n_bytes = (size_t)search->problem->n_letters *
                     sizeof(*search->letters);
    int n = HISTORY;
    int most = search->problem->n_letters < MAX_HISTORY
                   ? search->problem->n_letters
                   : MAX_HISTORY;

    for (int i = 0; !done(search); i++) {
        if (i % 2 == 1)
            write_random(search);
        else
            memcpy(search->letters, search->best->letters, n_bytes);
        climb(search, n, i > 0 ? SHAKE : 0.0);
        if (i % 2 == 1 && 2 * n <= most)
            n *= 2;
    }
}

/* ---- Setting up --------------------------------------------------------- */

static enum vp_status allocate(struct search *search)
{
    const struct vp_auto_problem *problem = search->problem;
    size_t n = (size_t)problem->n_letters, n_stages = (size_t)problem->n_stages;
    size_t n_actions = VP_AUTO_KINDS * n_stages * (size_t)problem->n_mb;

    VP_TRY(vp_auto_times_init(search->times, problem));
    VP_TRY(vp_auto_board_create(problem, &search->board));
    search->letters = calloc(n, sizeof(*search->letters));
    search->due = calloc(n_actions, sizeof(*search->due));
    search->slots = calloc(n_stages, sizeof(*search->slots));
    search->path = calloc(n, sizeof(*search->path));
    search->scratch = calloc(VP_AUTO_SCRATCH * n_stages,
                             sizeof(*search->scratch));
    return search->letters && search->due && search->slots && search->path &&
                   search->scratch
               ? VP_OK
               : VP_ERR_NOMEM;
}

static void release(struct search *search)
{
    vp_auto_times_release(search->times);
    vp_auto_board_free(search->board);
    free(search->letters);
    free(search->due);
    free(search->slots);
    free(search->path);
    free(search->scratch);
}

enum vp_status vp_auto_search(const struct vp_auto_problem *problem,
                              struct vp_auto_best *best)
{
    struct vp_auto_times times;
    struct search search = {
        .problem = problem, .times = &times, .best = best, .budget = BUDGET
    };
    enum vp_status st = allocate(&search);

    if (st == VP_OK) {
        try_rules(&search);
        improve(&search);
    }
    release(&search);
    return st;
}
