/* The search finds plans that fit and are at most 2 % slower than the best plan
 * that enumeration finds. More memory is never slower, and the search is fast
 * and deterministic. */
#include "lib/searchlib.h"
#include "plan/plan_json.h"
#include "plan/search.h"
#include "plan/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

/* ---- Enumeration -------------------------------------------------------- */

/* One combination of recompute sets for the blocks of a rank. Only combinations
 * that no other one beats in all costs are kept. */
struct option {
    uint64_t sets[16];
    double cost[2 * VP_MAX_STAGES]; /* per stage: R, then the W moved into B */
};

enum { MAX_OPTIONS = 64 };

struct options {
    struct option at[MAX_OPTIONS];
    int n;
};

struct enumeration {
    struct setup *setup;
    struct vp_pricer *pricer;
    const struct vp_search_input *input;
    struct vp_variant variant;
    struct vp_plan plan;
    struct vp_schedule schedule;
    int partition[VP_MAX_STAGES];
    uint64_t sets[16];
    struct options ranks[MAX_RANKS];
    double best;   /* seconds per minibatch */
    int64_t least; /* bytes of the largest rank in the smallest plan */
};

static int rank_of(const struct enumeration *e, int s)
{
    return e->schedule.stages[s].first_rank;
}

/* Returns the memory of a rank with the sets of `e`, and writes its costs. */
static int64_t price_rank(struct enumeration *e, int rank, double *cost)
{
    int64_t bytes = 0;
    int b = 0;

    for (int s = 0; s < e->schedule.n_stages; b += e->partition[s++]) {
        uint64_t room[32];
        struct vp_stage_choices choices;
        struct vp_stage_shape shape;
        struct vp_stage_sizes sizes;
        struct vp_err err;

        cost[2 * s] = cost[2 * s + 1] = 0.0;
        if (rank_of(e, s) != rank)
            continue;
        e->plan.recompute_sets = e->sets;
        choices = vp_plan_stage_choices(&e->plan, &e->setup->work, &e->schedule,
                                        s, room);
        shape = vp_plan_stage_shape(&e->plan, &e->setup->graph, &e->schedule,
                                    s);
        assert_int_equal(vp_pricer_sizes(e->pricer, &choices, &sizes, &err),
                         VP_OK);
        bytes += vp_stage_memory(&e->setup->work, &sizes, &shape, s == 0).total;
        for (int i = 0; i < e->partition[s]; i++)
            cost[2 * s] += vp_cost_recompute(vp_search_costs(e->setup->search),
                                             b + i, e->sets[b + i]);
        if (e->schedule.split)
            cost[2 * s + 1] = -sizes.flops[VP_SLOT_REST][VP_LIST_W];
    }
    return bytes;
}

static bool dominates(const double *a, const double *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i] > b[i])
            return false;
    return true;
}

static void keep_option(struct enumeration *e, struct options *to,
                        const double *cost)
{
    int n = 2 * e->schedule.n_stages, kept = 0;

    for (int i = 0; i < to->n; i++)
        if (dominates(to->at[i].cost, cost, n))
            return;
    for (int i = 0; i < to->n; i++)
        if (!dominates(cost, to->at[i].cost, n))
            to->at[kept++] = to->at[i];
    to->n = kept;
    assert_true(to->n < MAX_OPTIONS);
    memcpy(to->at[to->n].sets, e->sets, sizeof(e->sets));
    memcpy(to->at[to->n].cost, cost, (size_t)n * sizeof(*cost));
    to->n++;
}

/* Tries all sets for block b and the later blocks of the rank. */
static void choose_blocks(struct enumeration *e, int rank, const int *owner,
                          int b, int64_t *least)
{
    uint64_t sets[VP_PROFILE_MAX_SETS + 1] = { 0 };
    double cost[2 * VP_MAX_STAGES];
    int64_t bytes;
    int n;

    if (b == e->setup->graph.n_blocks) {
        bytes = price_rank(e, rank, cost);
        *least = bytes < *least ? bytes : *least;
        if (bytes <= e->input->limits[rank])
            keep_option(e, &e->ranks[rank], cost);
        return;
    }
    n = owner[b] == rank ? vp_profile_candidates(&e->setup->graph, b, sets + 1)
                         : 0;
    for (int i = 0; i <= n; i++) {
        e->sets[b] = sets[i];
        choose_blocks(e, rank, owner, b + 1, least);
    }
    e->sets[b] = 0;
}

/* Prices every combination of the ranks' options. */
static void simulate_all(struct enumeration *e, const int *owner, int rank)
{
    struct vp_search_result result;
    struct vp_err err;

    if (rank == e->plan.n_stages) {
        e->plan.recompute_sets = e->sets;
        if (vp_search_price(e->setup->search, &e->plan, &result, &err) != VP_OK)
            fail_msg("%s", err.text);
        if (vp_search_fits(&result, e->input->limits) &&
            result.time.per_mb < e->best)
            e->best = result.time.per_mb;
        vp_search_result_release(&result);
        return;
    }
    for (int i = 0; i < e->ranks[rank].n; i++) {
        for (int b = 0; b < e->setup->graph.n_blocks; b++)
            if (owner[b] == rank)
                e->sets[b] = e->ranks[rank].at[i].sets[b];
        simulate_all(e, owner, rank + 1);
    }
}

static void enumerate_cut(struct enumeration *e)
{
    int owner[16], b = 0;
    int64_t most = 0;

    for (int s = 0; s < e->schedule.n_stages; s++)
        for (int i = 0; i < e->partition[s]; i++)
            owner[b++] = rank_of(e, s);
    for (int r = 0; r < e->plan.n_stages; r++) {
        int64_t least = INT64_MAX;

        memset(e->sets, 0, sizeof(e->sets));
        e->ranks[r].n = 0;
        choose_blocks(e, r, owner, 0, &least);
        most = least > most ? least : most;
    }
    e->least = most < e->least ? most : e->least;
    simulate_all(e, owner, 0);
}

static void enumerate_cuts(struct enumeration *e, int s, int left)
{
    int n = e->schedule.n_stages;

    if (s == n - 1) {
        e->partition[s] = left;
        enumerate_cut(e);
        return;
    }
    for (int k = 1; k <= left - (n - 1 - s); k++) {
        e->partition[s] = k;
        enumerate_cuts(e, s + 1, left - k);
    }
}

/* Finds the best of all plans by enumeration. */
static void enumerate(struct setup *setup, const struct vp_search_input *input,
                      struct enumeration *e)
{
    struct vp_variant variants[VP_SEARCH_MAX_VARIANTS];
    int n = vp_search_variants(setup->search, input, variants);

    *e = (struct enumeration){ .setup = setup,
                               .pricer = setup->pricer,
                               .input = input,
                               .best = INFINITY,
                               .least = INT64_MAX };
    for (int i = 0; i < n; i++) {
        struct vp_sched_config config;
        struct vp_plan_stages stages;
        struct vp_err err;

        e->variant = variants[i];
        e->plan = *input->base;
        e->plan.schedule = variants[i].generator->name;
        e->plan.n_chunks = variants[i].n_chunks;
        e->plan.schedule_memory = variants[i].memory;
        e->plan.recompute_in_b = variants[i].in_b;
        e->plan.early_recompute = !variants[i].in_b;
        config = vp_plan_sched_config(&e->plan, setup->graph.n_blocks, &stages);
        for (int s = 0; s < VP_MAX_STAGES; s++)
            stages.recompute[s] = !variants[i].in_b;
        if (vp_schedule_make(&config, &e->schedule, &err) != VP_OK)
            continue;
        e->plan.partition = e->partition;
        enumerate_cuts(e, 0, setup->graph.n_blocks);
        vp_schedule_release(&e->schedule);
    }
}

/* ---- Against enumeration ------------------------------------------------ */

/* Returns true if the search finds a plan with `bytes` of memory per rank. */
static bool finds(struct setup *setup, const struct vp_search_input *input,
                  int64_t bytes)
{
    int64_t limits[MAX_RANKS];
    struct vp_search_input same = *input;
    struct vp_search_result result;
    struct vp_err err;

    for (int r = 0; r < MAX_RANKS; r++)
        limits[r] = bytes;
    same.limits = limits;
    if (vp_search_run(setup->search, &same, &result, &err) != VP_OK)
        return false;
    check_fits(&result, &same);
    vp_search_result_release(&result);
    return true;
}

/* Result of one random instance. */
struct outcome {
    double ratio;  /* time of the search's plan / time of the best plan */
    bool at_least; /* the search finds a plan in the least memory of any plan */
};

static struct outcome check_instance(struct setup *setup, bool stream)
{
    const struct vp_plan base = { .n_stages = 2 + search_draw(2),
                                  .accumulation_steps = 3 + search_draw(4) };
    int64_t limits[MAX_RANKS];
    struct vp_search_input input = { .base = &base,
                                     .limits = limits,
                                     .stream = stream,
                                     .free_schedule = true,
                                     .free_partition = true,
                                     .free_recompute = true,
                                     .alike = true };
    struct vp_search_result result;
    struct enumeration e;
    struct outcome outcome;
    struct vp_err err;
    enum vp_status st;

    random_limits(setup, &input, limits);
    enumerate(setup, &input, &e);
    st = vp_search_run(setup->search, &input, &result, &err);
    if (e.best < (double)INFINITY && st != VP_OK)
        fail_msg("a plan exists: %s", err.text);
    if (st == VP_OK) {
        check_fits(&result, &input);
        outcome.ratio = result.time.per_mb / e.best;
        vp_search_result_release(&result);
    } else {
        outcome.ratio = 1.0;
    }
    outcome.at_least = finds(setup, &input, e.least);
    return outcome;
}

static void near_enumeration(void **state)
{
    enum { GRAPHS = SLOW ? 1 : 10, EACH = 20 };
    double worst = 0.0, sum = 0.0;
    int n_least = 0, n_above = 0;

    (void)state;
    search_draws = 0; /* independent of the tests before */
    for (int g = 0; g < GRAPHS; g++) {
        struct setup setup;

        make_small(&setup);
        for (int i = 0; i < EACH; i++) {
            struct outcome outcome = check_instance(&setup, i % 4 == 3);

            worst = outcome.ratio > worst ? outcome.ratio : worst;
            n_above += outcome.ratio > 1.02;
            sum += outcome.ratio;
            n_least += outcome.at_least;
        }
        release_setup(&setup);
    }
    printf("search: %d instances, %.4f of enumeration on average, %.4f at "
           "worst, %d above 1.02; %d found at the least memory\n",
           GRAPHS * EACH, sum / (GRAPHS * EACH), worst, n_above, n_least);
    assert_true(worst <= 1.02);
    assert_int_equal(n_least, GRAPHS * EACH);
}

/* ---- A large model ------------------------------------------------------ */

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static char *print(const struct vp_search_result *result, int n_blocks)
{
    char *text;

    assert_int_equal(vp_plan_print(&result->plan, n_blocks, NULL, &text),
                     VP_OK);
    return text;
}

/* 97 blocks on 8 stages, all schedules: the search takes less than a second
 * with little and with much memory, and finds the same plan each time. */
static void quick_and_the_same(void **state)
{
    static const double gigabytes[] = { 2.3, 4, 11.06 };
    struct vp_arena arena = { NULL };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(gigabytes); i++) {
        int64_t limits[MAX_RANKS];
        struct vp_search_input input = { .base = &eight,
                                         .limits = limits,
                                         .free_schedule = true,
                                         .free_partition = true,
                                         .free_recompute = true };
        char *texts[2];

        for (int r = 0; r < MAX_RANKS; r++)
            limits[r] = (int64_t)(gigabytes[i] * 1e9);
        for (int k = 0; k < 2; k++) {
            struct vp_search_result result;
            struct setup setup;
            struct vp_err err;
            double begin, seconds;

            make_large(&setup, &arena);
            assert_int_equal(setup.graph.n_blocks, 97);
            begin = cpu_seconds();
            if (vp_search_run(setup.search, &input, &result, &err) != VP_OK)
                fail_msg("%s", err.text);
            seconds = cpu_seconds() - begin;
            printf("search: 97 blocks, 8 ranks of %g GB: %s, %.1f ms per "
                   "minibatch, found in %.2f s of %d estimates\n",
                   gigabytes[i], result.plan.schedule, 1e3 * result.time.per_mb,
                   seconds, result.n_simulated);
            assert_true(SLOW || seconds < 1.0);
            check_fits(&result, &input);
            texts[k] = print(&result, 97);
            vp_search_result_release(&result);
            release_setup(&setup);
        }
        assert_string_equal(texts[0], texts[1]);
        free(texts[0]);
        free(texts[1]);
    }
    vp_arena_release(&arena);
}

/* ---- Swap --------------------------------------------------------------- */

static bool swaps(const struct vp_search_result *result)
{
    for (int s = 0; s < result->n_stages; s++)
        if (result->prices[s].swap_bytes > 0)
            return true;
    return false;
}

/* A search that may swap is never slower than one that may not; with fast
 * copies it swaps. */
static void swapping(void **state)
{
    struct vp_arena arena = { NULL };
    struct setup setup;
    int n_swapping = 0;

    (void)state;
    make_large(&setup, &arena);
    vp_search_free(setup.search);
    setup.profile.copy_out = setup.profile.copy_in = 200e9;
    setup.profile.copy_out_both = setup.profile.copy_in_both = 200e9;
    assert_int_equal(
        vp_search_create(&setup.work, &setup.profile, &setup.search), VP_OK);
    for (int i = 0; i < 4; i++) {
        int64_t limits[MAX_RANKS];
        struct vp_search_input input = { .base = &eight,
                                         .limits = limits,
                                         .free_schedule = true,
                                         .free_partition = true,
                                         .free_recompute = true };
        struct vp_search_result without, with;
        struct vp_err err;

        for (int r = 0; r < MAX_RANKS; r++)
            limits[r] = INT64_C(2300000000) + i * INT64_C(700000000);
        assert_int_equal(vp_search_run(setup.search, &input, &without, &err),
                         VP_OK);
        assert_false(swaps(&without));
        input.allow_swap = true;
        assert_int_equal(vp_search_run(setup.search, &input, &with, &err),
                         VP_OK);
        check_fits(&with, &input);
        assert_true(with.time.per_mb <= without.time.per_mb);
        n_swapping += swaps(&with);
        printf("search: %.1f GB, %.1f ms per minibatch, with swap %.1f ms%s\n",
               1e-9 * (double)limits[0], 1e3 * without.time.per_mb,
               1e3 * with.time.per_mb, swaps(&with) ? "" : " (not taken)");
        vp_search_result_release(&without);
        vp_search_result_release(&with);
    }
    assert_true(n_swapping > 0);
    release_setup(&setup);
    vp_arena_release(&arena);
}

/* ---- Larger limits ------------------------------------------------------ */

/* A search that is given the plan of the smaller limit is never slower with a
 * larger limit. */
static void never_slower(struct setup *setup, const struct vp_plan *base,
                         bool stream, double step)
{
    int64_t limits[MAX_RANKS], bytes;
    const struct vp_plan *known;
    struct vp_search_input input = { .base = base,
                                     .limits = limits,
                                     .stream = stream,
                                     .free_schedule = true,
                                     .free_partition = true,
                                     .free_recompute = true,
                                     .known = &known };
    struct vp_search_result last, next;
    struct vp_err err;

    assert_int_equal(
        vp_search_least(setup->search, &input, &bytes, &last, &err), VP_OK);
    for (int i = 0; i < 12; i++) {
        for (int r = 0; r < MAX_RANKS; r++)
            limits[r] = bytes;
        known = &last.plan;
        input.n_known = 1;
        if (vp_search_run(setup->search, &input, &next, &err) != VP_OK)
            fail_msg("%s", err.text);
        check_fits(&next, &input);
        assert_true(next.time.per_mb <= last.time.per_mb);
        vp_search_result_release(&last);
        last = next;
        bytes = (int64_t)((double)bytes * step);
    }
    vp_search_result_release(&last);
}

static void monotone(void **state)
{
    struct vp_arena arena = { NULL };
    struct setup setup;

    (void)state;
    for (int i = 0; i < 6; i++) {
        const struct vp_plan base = { .n_stages = 2 + i % 2,
                                      .accumulation_steps = 4 };

        make_small(&setup);
        never_slower(&setup, &base, i % 3 == 2, 1.1);
        release_setup(&setup);
    }
    make_large(&setup, &arena);
    never_slower(&setup, &eight, false, 1.25);
    never_slower(&setup, &eight, true, 1.25);
    release_setup(&setup);
    vp_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_and_the_same),
        cmocka_unit_test(swapping),
        cmocka_unit_test(monotone),
        cmocka_unit_test(near_enumeration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
