/* The schedule `auto`: made for given costs and memory limits.
 *
 * Starting points are the lists of all other generators that have the same
 * placement and fit into memory (a backward that is not split becomes B and W,
 * which is never slower), and list schedules under many rules. A search moves
 * actions of the best one (auto_search.c). The result is the schedule with the
 * least simulated makespan: that of the search, or an unchanged one of another
 * generator. */
#include "sched/auto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Default costs ------------------------------------------------------ */

/* Returns costs of 1 for each of F, B, W and R. */
static struct vp_stage_costs *unit_costs(int n_stages)
{
    struct vp_stage_costs *costs = calloc((size_t)n_stages, sizeof(*costs));

    for (int s = 0; costs && s < n_stages; s++)
        costs[s] = (struct vp_stage_costs){
            .f = 1.0, .b = 1.0, .w = 1.0, .r = 1.0
        };
    return costs;
}

/* ---- From a plan to a schedule ------------------------------------------ */

/* Copies the parameters of a schedule, but not its lists. */
static enum vp_status copy_frame(const struct vp_schedule *from,
                                 struct vp_schedule *out)
{
    size_t n = (size_t)from->n_stages;

    *out = *from;
    out->ranks = NULL;
    out->actions = NULL;
    out->n_actions = 0;
    out->stages = calloc(n, sizeof(*out->stages));
    if (!out->stages)
        return VP_ERR_NOMEM;
    memcpy(out->stages, from->stages, n * sizeof(*out->stages));
    return vp_schedule_map_ranks(out);
}

static void put_letters(const struct vp_auto_problem *problem,
                        const vp_letter *letters, int *counts,
                        struct vp_sched_list *lists)
{
    static const enum vp_action_kind kinds[VP_AUTO_KINDS] = {
        [VP_AUTO_F] = VP_ACTION_F,
        [VP_AUTO_R] = VP_ACTION_R,
        [VP_AUTO_B] = VP_ACTION_B,
        [VP_AUTO_W] = VP_ACTION_W,
    };

    for (int r = 0; r < problem->n_ranks; r++)
        for (int at = problem->first[r]; at < problem->first[r + 1]; at++) {
            int kind = vp_letter_kind(letters[at]);

            if (kind == VP_AUTO_W && problem->fused)
                continue;
            vp_sched_list_put(&lists[r], kinds[kind],
                              vp_letter_stage(letters[at]),
                              counts[letters[at]]++);
        }
}

/* Builds the complete lists of a plan. Rings are long enough that no message
 * waits for a buffer under the problem's costs. */
static enum vp_status build(const struct vp_auto_problem *problem,
                            const vp_letter *letters, struct vp_schedule *out)
{
    size_t n_letters = VP_AUTO_KINDS * (size_t)problem->n_stages;
    struct vp_sched_list *lists = calloc((size_t)problem->n_ranks,
                                         sizeof(*lists));
    int *counts = calloc(n_letters, sizeof(*counts));
    struct vp_schedule schedule = { .actions = NULL };
    enum vp_status st = lists && counts
                            ? copy_frame(problem->schedule, &schedule)
                            : VP_ERR_NOMEM;

    if (st == VP_OK) {
        schedule.split = !problem->fused;
        put_letters(problem, letters, counts, lists);
        st = vp_passes_run(&schedule, lists,
                           &(struct vp_passes){ .swap = problem->swap });
    }
    if (st == VP_OK)
        st = vp_pass_rings(&schedule, problem->costs);
    for (int r = 0; lists && r < problem->n_ranks; r++)
        vp_sched_list_release(&lists[r]);
    free(lists);
    free(counts);
    if (st != VP_OK) {
        vp_schedule_release(&schedule);
        return st;
    }
    *out = schedule;
    return VP_OK;
}

/* ---- From a schedule to a plan ------------------------------------------ */

static int kind_of(enum vp_action_kind kind)
{
    switch (kind) {
    case VP_ACTION_F:
        return VP_AUTO_F;
    case VP_ACTION_R:
        return VP_AUTO_R;
    case VP_ACTION_B:
        return VP_AUTO_B;
    case VP_ACTION_W:
        return VP_AUTO_W;
    default:
        return -1;
    }
}

static void read_letters(const struct vp_auto_problem *problem,
                         const struct vp_schedule *schedule, vp_letter *letters)
{
    for (int r = 0; r < problem->n_ranks; r++) {
        const struct vp_rank_list *list = &schedule->ranks[r];
        int at = problem->first[r];

        for (int i = 0; i < list->n_actions; i++) {
            const struct vp_action *a = &list->actions[i];
            int kind = kind_of(a->kind);

            if (kind < 0)
                continue;
            letters[at++] = (vp_letter)(VP_AUTO_KINDS * a->stage + kind);
            if (kind == VP_AUTO_B && !schedule->split)
                letters[at++] = (vp_letter)(VP_AUTO_KINDS * a->stage +
                                            VP_AUTO_W);
        }
        VP_BUG_ON(at != problem->first[r + 1]);
    }
}

/* ---- The fastest so far ------------------------------------------------- */

struct choice {
    const struct vp_auto_problem *problem;
    struct vp_schedule schedule;
    double makespan;
    bool found;
};

/* Takes ownership of `schedule`: keeps it if it is faster than the choice so
 * far, else releases it. */
static enum vp_status offer(struct choice *choice, struct vp_schedule *schedule,
                            struct vp_err *err)
{
    struct vp_timing timing;
    enum vp_status st = vp_simulate(schedule, choice->problem->costs, &timing,
                                    err);

    if (st != VP_OK) {
        vp_schedule_release(schedule);
        return st;
    }
    if (!choice->found || timing.makespan < choice->makespan) {
        vp_schedule_release(&choice->schedule);
        choice->schedule = *schedule;
        choice->makespan = timing.makespan;
        choice->found = true;
    } else {
        vp_schedule_release(schedule);
    }
    vp_timing_release(&timing);
    return VP_OK;
}

/* ---- Starting points ---------------------------------------------------- */

static bool same_place(const struct vp_sched_config *config,
                       const struct vp_auto_problem *problem)
{
    if (vp_sched_n_chunks(config) * config->n_stages != problem->n_stages)
        return false;
    for (int s = 0; s < problem->n_stages; s++) {
        int rank, n_replicas;

        vp_sched_place(config, s, &rank, &n_replicas);
        if (rank != problem->stages[s].rank)
            return false;
    }
    return true;
}

static bool is_legal(const struct vp_auto_problem *problem,
                     const vp_letter *letters, int *scratch)
{
    for (int r = 0; r < problem->n_ranks; r++)
        if (!vp_auto_is_legal(problem, letters, r, scratch))
            return false;
    return true;
}

/* The best starting point of the search so far, and scratch memory. */
struct start {
    struct vp_auto_best best;
    vp_letter *letters;
    int *scratch;
    struct vp_auto_times times;
};

/* Adds the lists of a generator if they have the problem's placement and fit
 * into memory. A generator that refuses the configuration is skipped. */
static enum vp_status try_generator(const struct vp_generator *generator,
                                    const struct vp_sched_config *config,
                                    struct choice *choice, struct start *start,
                                    struct vp_err *err)
{
    const struct vp_auto_problem *problem = choice->problem;
    struct vp_sched_config named = *config;
    struct vp_schedule schedule;
    enum vp_status st;

    named.name = generator->name;
    named.n_chunks = problem->n_stages / problem->n_ranks;
    if (!same_place(&named, problem))
        return VP_OK;
    st = vp_schedule_make(&named, &schedule, NULL);
    if (st != VP_OK)
        return st == VP_ERR_INVALID ? VP_OK : st;
    read_letters(problem, &schedule, start->letters);
    if (!is_legal(problem, start->letters, start->scratch)) {
        vp_schedule_release(&schedule);
        return VP_OK;
    }
    if (vp_auto_time(problem, start->letters, &start->times))
        vp_auto_keep(problem, start->letters, &start->times, &start->best);
    if (schedule.split && problem->fused) {
        vp_schedule_release(&schedule);
        return VP_OK; /* a starting point only: its W are apart */
    }
    return offer(choice, &schedule, err);
}

static enum vp_status try_generators(const struct vp_sched_config *config,
                                     struct choice *choice, struct start *start,
                                     struct vp_err *err)
{
    const struct vp_generator *generator;

    for (int i = 0; (generator = vp_generator_at(i)); i++)
        if (!generator->stream && !generator->forward_only &&
            !generator->planned)
            VP_TRY(try_generator(generator, config, choice, start, err));
    return VP_OK;
}

static enum vp_status start_init(struct start *start,
                                 const struct vp_auto_problem *problem)
{
    size_t n = (size_t)problem->n_letters;

    *start = (struct start){
        .best = { .letters = calloc(n, sizeof(vp_letter)) },
        .letters = calloc(n, sizeof(vp_letter)),
        .scratch = calloc(VP_AUTO_SCRATCH * (size_t)problem->n_stages,
                          sizeof(int)),
    };
    VP_TRY(vp_auto_times_init(&start->times, problem));
    return start->best.letters && start->letters && start->scratch
               ? VP_OK
               : VP_ERR_NOMEM;
}

static void start_release(struct start *start)
{
    free(start->best.letters);
    free(start->letters);
    free(start->scratch);
    vp_auto_times_release(&start->times);
}

/* ---- Solving ------------------------------------------------------------ */

static enum vp_status solve(const struct vp_auto_problem *problem,
                            const struct vp_sched_config *config,
                            struct choice *choice, struct vp_err *err)
{
    struct vp_schedule schedule;
    struct start start;
    enum vp_status st = start_init(&start, problem);

    if (st == VP_OK)
        st = try_generators(config, choice, &start, err);
    if (st == VP_OK)
        st = vp_auto_search(problem, &start.best);
    if (st == VP_OK)
        st = build(problem, start.best.letters, &schedule);
    if (st == VP_OK)
        st = offer(choice, &schedule, err);
    start_release(&start);
    if (st == VP_ERR_NOMEM)
        vp_err_set(err, st, "schedule auto: out of memory");
    return st;
}

enum vp_status vp_auto_fill(const struct vp_sched_config *config,
                            struct vp_schedule *schedule, struct vp_err *err)
{
    struct vp_sched_config with_costs = *config;
    struct vp_stage_costs *unit = NULL;
    struct vp_sched_costs costs;
    struct vp_auto_problem problem;
    struct choice choice = { .problem = &problem };
    enum vp_status st;

    if (!config->costs) {
        unit = unit_costs(schedule->n_stages);
        if (!unit)
            return vp_err_set(err, VP_ERR_NOMEM,
                              "schedule auto: out of memory");
        costs = (struct vp_sched_costs){ .stages = unit };
        with_costs.costs = &costs;
    }
    st = vp_auto_problem_init(&problem, &with_costs, schedule, err);
    if (st == VP_OK)
        st = solve(&problem, &with_costs, &choice, err);
    vp_auto_problem_release(&problem);
    free(unit);
    if (st != VP_OK) {
        vp_schedule_release(&choice.schedule);
        return st;
    }
    memcpy(choice.schedule.name, schedule->name, sizeof(schedule->name));
    vp_schedule_release(schedule);
    *schedule = choice.schedule;
    return VP_OK;
}

/* ---- Choosing between configurations ------------------------------------ */

/* Makes a schedule and computes its makespan under config->costs, or at unit
 * costs if that is NULL. */
static enum vp_status make_timed(const struct vp_sched_config *config,
                                 struct vp_schedule *out, double *makespan_out,
                                 struct vp_err *err)
{
    struct vp_stage_costs *unit;
    struct vp_sched_costs costs;
    struct vp_timing timing = { .makespan = 0.0 };
    enum vp_status st;

    VP_TRY(vp_schedule_make(config, out, err));
    unit = unit_costs(out->n_stages);
    costs = (struct vp_sched_costs){ .stages = unit };
    st = unit ? vp_simulate(out, config->costs ? config->costs : &costs,
                            &timing, err)
              : vp_err_set(err, VP_ERR_NOMEM, "schedule: out of memory");
    free(unit);
    if (st != VP_OK) {
        vp_schedule_release(out);
        return st;
    }
    *makespan_out = timing.makespan;
    vp_timing_release(&timing);
    return VP_OK;
}

enum vp_status vp_schedule_make_best(const struct vp_sched_config *configs,
                                     int n, struct vp_schedule *out,
                                     int *best_out, struct vp_err *err)
{
    struct vp_schedule best = { .actions = NULL }, schedule;
    double least = INFINITY, makespan;
    enum vp_status first = VP_OK;
    int at = -1;

    for (int i = 0; i < n; i++) {
        struct vp_err why = { .text = "" };
        enum vp_status st = make_timed(&configs[i], &schedule, &makespan, &why);

        if (i == 0 && st != VP_OK) {
            first = st;
            vp_err_set(err, st, "%s", why.text);
        }
        if (st == VP_OK && makespan < least) {
            vp_schedule_release(&best);
            best = schedule;
            least = makespan;
            at = i;
        } else if (st == VP_OK) {
            vp_schedule_release(&schedule);
        }
    }
    if (at < 0)
        return first;
    *out = best;
    if (best_out)
        *best_out = at;
    return VP_OK;
}
