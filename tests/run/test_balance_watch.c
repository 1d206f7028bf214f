/* A run moves to another partition when that pays. The runs are simulated: the
 * test knows the true times of blocks and ranks, the watch sees only sums per
 * stage. */
#include "run/balance_watch.h"

#include "base/rng.h"
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    !defined(__OPTIMIZE__)
enum { N_SEEDS = 2 };
#else
enum { N_SEEDS = 10 };
#endif

enum { MAX_RANKS = 8, MAX_BLOCKS = 32, SOON = 50 };

/* A simulated run with its true times. */
struct world {
    struct vp_graph graph;
    struct vp_workload work;
    struct vp_device_profile profile;
    struct vp_cost_table costs;
    double blocks[MAX_BLOCKS]; /* seconds of F, B and W */
    double slow[MAX_RANKS];    /* factor on the time of each rank */
    double noise;              /* standard deviation of a minibatch's time */
    uint32_t seed, n_drawn;

    struct vp_plan plan;
    int partition[VP_MAX_STAGES];
    struct vp_schedule schedule;
    struct vp_stage_stats stats[VP_MAX_STAGES];
    struct vp_balance_watch watch;
    int64_t minibatch, step, last_step;
    int n_moves;
    int64_t moved_at; /* minibatch of the last move */
    bool deaf;        /* moves change no time */
    int frozen[VP_MAX_STAGES];
    double seconds; /* seconds of a step; 0: to be computed */
};

static void build_graph(struct world *w, int layers)
{
    const struct vp_model *model = vp_model_find("bert");
    struct vp_model_config config = vp_model_size_find(model, "base")->config;
    struct vp_dims dims = { .batch = 2, .seq = 16, .n_labels = 4 };
    struct vp_err err;

    config.layers = layers;
    config.hidden = 64;
    config.ffn = 256;
    config.heads = 2;
    config.vocab = 100;
    config.tie_embeddings = false;
    assert_int_equal(vp_model_build(model, &config, &dims, &w->graph, &err),
                     VP_OK);
    assert_true(w->graph.n_blocks <= MAX_BLOCKS);
}

static double cost_of(const struct world *w, int block)
{
    const struct vp_profile_block *at = &w->costs.blocks[block];

    return at->alone.f + at->alone.b + at->alone.w;
}

/* Returns the seconds of F and B of a stage under `partition`. */
static double stage_seconds(const struct world *w, const int *partition, int s)
{
    int first = 0;
    double sum = 0.0;

    for (int i = 0; i < s; i++)
        first += partition[i];
    for (int b = first; b < first + partition[s]; b++)
        sum += w->blocks[b];
    return sum * w->slow[w->schedule.stages[s].first_rank];
}

/* Returns the simulated seconds of a step under `partition`. */
static double step_seconds(const struct world *w, const int *partition)
{
    struct vp_plan_costs costs = { .device = NULL };
    struct vp_plan_forecast_time time;
    struct vp_err err;

    for (int s = 0; s < w->schedule.n_stages; s++) {
        double all = stage_seconds(w, partition, s);

        costs.stages[s] = (struct vp_stage_costs){ .f = all / 3.0,
                                                   .b = all * 2.0 / 3.0 };
    }
    costs.sched.stages = costs.stages;
    assert_int_equal(
        vp_plan_forecast_seconds(&w->schedule, &costs, &time, &err), VP_OK);
    return time.step;
}

struct best {
    double seconds;
    int partition[VP_MAX_STAGES];
};

/* Tries all partitions that begin with the first `s` parts. */
static void enumerate(const struct world *w, int *partition, int s, int left,
                      struct best *best)
{
    int n_after = w->schedule.n_stages - 1 - s;
    double seconds;

    for (int n = n_after > 0 ? 1 : left; n <= left - n_after; n++) {
        partition[s] = n;
        if (n_after > 0) {
            enumerate(w, partition, s + 1, left - n, best);
            continue;
        }
        seconds = step_seconds(w, partition);
        if (seconds < best->seconds) {
            best->seconds = seconds;
            memcpy(best->partition, partition, sizeof(best->partition));
        }
    }
}

static struct best find_best(const struct world *w)
{
    struct best best = { .seconds = 1e300 };
    int partition[VP_MAX_STAGES] = { 0 };

    enumerate(w, partition, 0, w->graph.n_blocks, &best);
    return best;
}

/* ---- Simulated runs ----------------------------------------------------- */

/* Creates a run with `layers` layers; plan->partition must fit its blocks. */
static struct world *world_create(int layers, const struct vp_plan *plan)
{
    struct world *w = calloc(1, sizeof(*w));
    int n_stages = vp_plan_n_stages(plan);
    struct vp_err err;

    assert_non_null(w);
    build_graph(w, layers);
    w->work = (struct vp_workload){ .graphs = &w->graph,
                                    .n_graphs = 1,
                                    .optim = { .kind = VP_OPTIM_SGD } };
    vp_profile_synthetic(true, VP_DTYPE_F32, &w->profile);
    assert_int_equal(vp_cost_table_init(&w->costs, &w->work, &w->profile),
                     VP_OK);
    for (int b = 0; b < w->graph.n_blocks; b++)
        w->blocks[b] = cost_of(w, b);
    for (int r = 0; r < MAX_RANKS; r++)
        w->slow[r] = 1.0;
    w->plan = *plan;
    w->plan.partition = w->partition;
    memcpy(w->partition, plan->partition, (size_t)n_stages * sizeof(int));
    w->last_step = 1000000;
    if (vp_plan_make_schedule(&w->plan, &w->graph, &w->schedule, &err) != VP_OK)
        fail_msg("%s", err.text);
    return w;
}

static void world_free(struct world *w)
{
    vp_schedule_release(&w->schedule);
    vp_cost_table_release(&w->costs);
    vp_graph_release(&w->graph);
    free(w);
}

/* Returns a random factor with mean 1. The sum of 12 uniform numbers is nearly
 * normal. */
static double draw(struct world *w)
{
    double sum = 0.0;

    if (w->noise == 0.0)
        return 1.0;
    for (int i = 0; i < 3; i++) {
        struct vp_rng4 r = vp_rng(w->seed, VP_RNG_TEST, 1, w->n_drawn++, 0, 0);

        for (int k = 0; k < 4; k++)
            sum += (double)r.v[k] / 4294967296.0;
    }
    return 1.0 + w->noise * (sum - 6.0);
}

/* Adds the times of `n_mb` minibatches to the statistics of every stage. */
static void count_work(struct world *w, int n_mb)
{
    const int *partition = w->deaf ? w->frozen : w->partition;

    for (int s = 0; s < w->schedule.n_stages; s++)
        for (int m = 0; m < n_mb; m++) {
            double ns = stage_seconds(w, partition, s) * 1e9 * draw(w);

            w->stats[s].forward_ns += (int64_t)(ns / 3.0);
            w->stats[s].backward_ns += (int64_t)(ns * 2.0 / 3.0);
            w->stats[s].n_forward++;
            w->stats[s].n_backward++;
        }
}

static void move(struct world *w, const struct vp_imbalance *found)
{
    memcpy(w->partition, found->partition,
           (size_t)w->schedule.n_stages * sizeof(int));
    memset(w->stats, 0, sizeof(w->stats));
    vp_balance_watch_moved(&w->watch, true);
    w->n_moves++;
    w->moved_at = w->minibatch;
    w->seconds = 0.0;
}

/* Makes steps until `minibatch` minibatches are done. */
static void run_until(struct world *w, int64_t minibatch)
{
    bool stream = vp_generator_find(w->schedule.name)->stream;
    int n_mb = stream ? 1 : w->schedule.n_mb;

    while (w->minibatch < minibatch) {
        struct vp_imbalance found;
        struct vp_step_report report;

        if (w->seconds == 0.0)
            w->seconds = step_seconds(w, w->deaf ? w->frozen : w->partition);
        count_work(w, n_mb);
        w->minibatch += n_mb;
        w->step++;
        report = (struct vp_step_report){
            .step = w->step,
            .minibatch = w->minibatch,
            .seconds = w->seconds,
        };
        if (vp_balance_watch_step(&w->watch, &w->costs, &w->plan, &w->schedule,
                                  w->stats, &report, w->last_step, &found))
            move(w, &found);
    }
}

/* ---- A rank that becomes slow ------------------------------------------- */

static const struct {
    const char *schedule;
    int n_stages, n_chunks, layers, n_mb;
    int replicas[4];
    int partition[8];
} kinds[] = {
    { "1f1b", 4, 1, 12, 4, { 0 }, { 6, 6, 6, 7 } },
    { "1f1b", 4, 1, 12, 8, { 0 }, { 6, 6, 6, 7 } },
    { "gpipe", 3, 1, 8, 8, { 0 }, { 6, 5, 6 } },
    { "zb-h1", 4, 1, 8, 8, { 0 }, { 4, 4, 4, 5 } },
    { "pipedream", 4, 1, 12, 1, { 0 }, { 6, 6, 6, 7 } },
    { "pipedream", 2, 1, 8, 1, { 2, 2 }, { 8, 9 } },
    { "1f1b", 2, 1, 8, 8, { 2, 1 }, { 11, 6 } },
    { "interleaved", 4, 2, 6, 8, { 0 }, { 2, 2, 2, 2, 2, 1, 1, 1 } },
    { "zb-v", 4, 2, 6, 8, { 0 }, { 2, 2, 2, 2, 2, 1, 1, 1 } },
};

/* Creates run `k`, which starts with the best partition. */
static struct world *create_kind(size_t k)
{
    static struct best best[VP_COUNT_OF(kinds)];
    const struct vp_plan plan = {
        .schedule = kinds[k].schedule,
        .n_stages = kinds[k].n_stages,
        .n_chunks = kinds[k].n_chunks,
        .accumulation_steps = kinds[k].n_mb,
        .replicas = kinds[k].replicas[0] ? kinds[k].replicas : NULL,
        .partition = kinds[k].partition,
    };
    struct world *w = world_create(kinds[k].layers, &plan);

    if (!best[k].seconds)
        best[k] = find_best(w);
    memcpy(w->partition, best[k].partition, sizeof(w->partition));
    return w;
}

/* Multiplies the times of all replicas of a stage, or of one rank with its
 * chunks, by `by`. */
static void slow_rank(struct world *w, int stage, double by)
{
    const struct vp_schedule_stage *at = &w->schedule.stages[stage];

    for (int r = at->first_rank; r < at->first_rank + at->n_replicas; r++)
        w->slow[r] *= by;
    w->seconds = 0.0;
}

/* Makes `stage` slow, and checks that the run moves to a partition within 5 %
 * of the best one, and does not move again. Returns the seconds of a step of
 * the best partition; they are computed if `best` is 0. */
static double repair(size_t k, int stage, int later, double best)
{
    struct world *w = create_kind(k);
    int n_before, n_moves;

    run_until(w, 96 + later);
    n_before = w->n_moves;
    slow_rank(w, stage, 2.0);
    run_until(w, w->minibatch + SOON);
    n_moves = w->n_moves - n_before;
    if (best == 0.0)
        best = find_best(w).seconds;
    if (best < 0.95 * step_seconds(w, w->partition))
        fail_msg("%s, stage %d, %d later: %.3f of the best after %d moves",
                 kinds[k].schedule, stage, later,
                 best / step_seconds(w, w->partition), n_moves);
    run_until(w, w->minibatch + 1000);
    if (w->n_moves != n_before + n_moves)
        fail_msg("%s, stage %d: %d moves afterwards", kinds[k].schedule, stage,
                 w->n_moves - n_before - n_moves);
    world_free(w);
    return best;
}

/* If ranks become slow in turns, the run does not follow every change. It moves
 * after a change that lasts; after 2000 quiet minibatches, the next move comes
 * as fast as the first. */
static void changing_speeds(void **state)
{
    struct world *w = create_kind(0);
    int n_before;

    (void)state;
    for (int i = 0; i < 100; i++) {
        slow_rank(w, i % 2 ? 3 : 0, 2.0);
        run_until(w, w->minibatch + 64);
        slow_rank(w, i % 2 ? 3 : 0, 0.5);
    }
    assert_in_range(w->n_moves, 1, 4);
    n_before = w->n_moves;
    slow_rank(w, 1, 2.0);
    run_until(w, w->minibatch + 600);
    assert_in_range(w->n_moves - n_before, 1, 2);
    run_until(w, w->minibatch + 2000);
    n_before = w->n_moves;
    slow_rank(w, 1, 0.5);
    run_until(w, w->minibatch + SOON);
    assert_int_equal(w->n_moves, n_before + 1);
    world_free(w);
}

/* The partition is repaired for any stage and any position in the measuring
 * window. */
static void slow_ranks(void **state)
{
    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(kinds); k++)
        for (int stage = 0; stage < kinds[k].n_stages; stage++) {
            double best = 0.0;

            for (int later = 0; later < 16; later += 5)
                best = repair(k, stage, later, best);
        }
}

/* When the rank is fast again, the run is as fast as before. */
static void back_to_normal(void **state)
{
    struct world *w = create_kind(0);
    double before = step_seconds(w, w->partition);

    (void)state;
    slow_rank(w, 1, 2.0);
    run_until(w, w->minibatch + SOON);
    assert_true(step_seconds(w, w->partition) < 1.7 * before);
    slow_rank(w, 1, 0.5);
    run_until(w, w->minibatch + SOON);
    assert_true(step_seconds(w, w->partition) < before / 0.95);
    world_free(w);
}

/* ---- No reason to move -------------------------------------------------- */

static void noise(void **state)
{
    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(kinds); k++)
        for (uint32_t seed = 0; seed < (k % 4 ? 1 : N_SEEDS); seed++) {
            struct world *w = create_kind(k);
            int n_before = w->n_moves;

            w->noise = 0.1;
            w->seed = seed;
            run_until(w, w->minibatch + 2000 * kinds[k].n_mb);
            if (w->n_moves != n_before)
                fail_msg("%s, seed %u: %d moves", kinds[k].schedule, seed,
                         w->n_moves - n_before);
            world_free(w);
        }
}

/* One window that was disturbed by other work on the machine causes no move. */
static void one_bad_window(void **state)
{
    for (int n = 1; n <= 16; n++) {
        struct world *w = create_kind(0);
        int n_before = w->n_moves;

        (void)state;
        slow_rank(w, 2, 2.0);
        run_until(w, w->minibatch + n);
        slow_rank(w, 2, 0.5);
        run_until(w, w->minibatch + 200);
        assert_int_equal(w->n_moves, n_before);
        world_free(w);
    }
}

/* Moves without an effect become rare: after each one the required gain is
 * raised. */
static void unkept_forecasts(void **state)
{
    struct world *w = create_kind(0);
    int n_before = w->n_moves;

    (void)state;
    w->deaf = true;
    memcpy(w->frozen, w->partition, sizeof(w->frozen));
    slow_rank(w, 1, 2.0);
    run_until(w, w->minibatch + 20000);
    assert_in_range(w->n_moves - n_before, 1, 4);
    world_free(w);
}

/* If a block takes four times as long as the cost table says, the run makes few
 * moves and does not become slower. */
static void wrong_tables(void **state)
{
    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(kinds); k++)
        for (int b = 0; b < 3; b++) {
            struct world *w = create_kind(k);
            int n_before = w->n_moves;
            double before;

            w->blocks[b * (w->graph.n_blocks / 3)] *= 4.0;
            w->seconds = 0.0;
            before = step_seconds(w, w->partition);
            run_until(w, w->minibatch + 20000);
            assert_in_range(w->n_moves - n_before, 0, 6);
            /* The final partition is not slower than the first one. */
            if (step_seconds(w, w->partition) > before * 1.001)
                fail_msg("%s, block %d: %g s before, %g s now",
                         kinds[k].schedule, b, before,
                         step_seconds(w, w->partition));
            world_free(w);
        }
}

/* A run moves only if the remaining steps save more time than the move
 * costs. */
static void short_rests(void **state)
{
    (void)state;
    for (int n = 0; n <= 40; n++) {
        struct world *w = create_kind(0);
        int n_before = w->n_moves;
        int64_t left;

        slow_rank(w, 0, 2.0);
        w->last_step = w->step + n;
        run_until(w, w->minibatch + 4 * n);
        left = w->last_step - w->moved_at / kinds[0].n_mb;
        if (n < 10)
            assert_int_equal(w->n_moves, n_before);
        if (n >= 20)
            assert_int_equal(w->n_moves, n_before + 1);
        assert_true(w->n_moves == n_before || left > 4);
        world_free(w);
    }
}

/* After a refused move the run goes on, and proposes moves only a few times. */
static void refused_moves(void **state)
{
    struct world *w = create_kind(0);
    struct vp_imbalance found;
    int n = 0;

    (void)state;
    slow_rank(w, 0, 2.0);
    for (int i = 0; i < 100; i++) {
        struct vp_step_report report;

        count_work(w, 4);
        w->minibatch += 4;
        report = (struct vp_step_report){ .step = ++w->step,
                                          .minibatch = w->minibatch,
                                          .seconds = 1.0 };
        if (vp_balance_watch_step(&w->watch, &w->costs, &w->plan, &w->schedule,
                                  w->stats, &report, w->last_step, &found)) {
            vp_balance_watch_refused(&w->watch);
            n++;
        }
    }
    assert_in_range(n, 2, 4);
    assert_true(found.then < 0.8 * found.now);
    world_free(w);
}

/* The watch needs less than 50 ns of CPU time per action of the run. */
static void cost(void **state)
{
    double least = 1e300;

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct world *w = create_kind(0);
        struct vp_imbalance found;
        struct timespec begin, end;
        int64_t ns = 0, n_actions = 0;

        w->noise = 0.02;
        for (int step = 1; step <= 4000; step++) {
            struct vp_step_report report = { .step = step,
                                             .minibatch = 4 * step,
                                             .seconds = 1.0 };

            count_work(w, 4);
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
            vp_balance_watch_step(&w->watch, &w->costs, &w->plan, &w->schedule,
                                  w->stats, &report, w->last_step, &found);
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
            ns += (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec -
                  begin.tv_nsec;
            n_actions += w->schedule.n_actions;
        }
        if ((double)ns / (double)n_actions < least)
            least = (double)ns / (double)n_actions;
        world_free(w);
    }
    print_message("%.1f ns per action\n", least);
    assert_true(N_SEEDS < 10 || least < 50.0);
}

/* ---- Measurements ------------------------------------------------------- */

static void measures(void **state)
{
    const struct vp_stage_stats begin = { .forward_ns = 1000000000,
                                          .backward_ns = 2000000000,
                                          .update_ns = 500000000,
                                          .n_forward = 10,
                                          .n_backward = 10 };
    const struct vp_stage_stats end = { .forward_ns = 3000000000,
                                        .backward_ns = 8000000000,
                                        .update_ns = 900000000,
                                        .n_forward = 20,
                                        .n_backward = 20 };
    struct vp_stage_seconds got = vp_imbalance_measure(&begin, &end, 1);

    (void)state;
    assert_float_equal(got.f, 0.2, 1e-12);
    assert_float_equal(got.b, 0.6, 1e-12);
    assert_float_equal(got.update, 0.04, 1e-12);
    got = vp_imbalance_measure(&begin, &end, 2); /* two replicas */
    assert_float_equal(got.f, 0.2, 1e-12);
    assert_float_equal(got.update, 0.08, 1e-12);
    got = vp_imbalance_measure(&end, &end, 1);
    assert_true(got.f == 0.0 && got.b == 0.0 && got.update == 0.0);
}

static void refusals(void **state)
{
    struct world *w = create_kind(0);
    struct vp_balance_watch watch = { .n_steps = 0 };
    struct vp_stage_stats none[VP_MAX_STAGES] = { { 0 } };
    struct vp_plan whole = w->plan;
    struct vp_imbalance found;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_balance_watch_find(&watch, &w->costs, &w->plan,
                                           &w->schedule, none, &found, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "stage 0 was not measured yet; ask again later");
    whole.partition = NULL;
    assert_int_equal(vp_balance_watch_find(&watch, &w->costs, &whole,
                                           &w->schedule, w->stats, &found,
                                           &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "one stage has the whole model"));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_ranks),     cmocka_unit_test(changing_speeds),
        cmocka_unit_test(back_to_normal), cmocka_unit_test(noise),
        cmocka_unit_test(one_bad_window), cmocka_unit_test(unkept_forecasts),
        cmocka_unit_test(wrong_tables),   cmocka_unit_test(short_rests),
        cmocka_unit_test(refused_moves),  cmocka_unit_test(cost),
        cmocka_unit_test(measures),       cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
