/* Migration: a run that changes its plan at random steps gives the bits of one
 * that does not. */
#include "halfdevice.h"

#include "base/rng.h"
#include "literal.h"
#include "recompute_sets.h"
#include "runtime/trainer/internal.h"
#include "runtime/trainer/migrate.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    !defined(__OPTIMIZE__)
#define SLOW 1
#else
#define SLOW 0
#endif

enum { N_RANKS = 4, N_STEPS = 40 };

static uint32_t rand_count;

static int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(7, VP_RNG_TEST, 3, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

static uint64_t rand_bits(void)
{
    struct vp_rng4 r = vp_rng(7, VP_RNG_TEST, 4, rand_count++, 0, 0);

    return (uint64_t)r.v[0] << 32 | r.v[1];
}

/* ---- Plans -------------------------------------------------------------- */

/* What a plan borrows. */
struct room {
    int partition[VP_MAX_STAGES];
    double ratios[VP_MAX_STAGES], swap_ratios[VP_MAX_STAGES];
    uint64_t sets[MAX_SETS];
};

static int n_blocks_of(const struct setup *setup)
{
    struct vp_model_config sizes = small_sizes(setup);

    return (int)vp_model_find(setup->model)->n_blocks(&sizes);
}

static void cut(int *partition, int n_stages, int n_blocks)
{
    for (int s = 0; s < n_stages; s++)
        partition[s] = 1;
    for (int b = n_stages; b < n_blocks; b++)
        partition[rand_below(n_stages)]++;
}

/* What changes no bit: how a synchronous run is cut, scheduled and what it
 * recomputes and swaps. */
static void random_plan(const struct run *run, struct setup *setup,
                        struct room *room)
{
    static const struct {
        const char *schedule;
        int n_chunks;
    } kinds[] = { { "1f1b", 0 },  { "gpipe", 0 },       { "zb-h1", 0 },
                  { "zb-h2", 0 }, { "interleaved", 2 }, { "zb-v", 2 },
                  { "v-min", 2 }, { "dualpipe-v", 2 } };
    int kind = rand_below((int)VP_COUNT_OF(kinds));
    int n = N_RANKS * (kinds[kind].n_chunks ? kinds[kind].n_chunks : 1);

    setup->schedule = kinds[kind].schedule;
    setup->n_chunks = kinds[kind].n_chunks;
    cut(room->partition, n, run->graphs[0].n_blocks);
    for (int s = 0; s < n; s++) {
        room->ratios[s] = rand_below(3) / 2.0;
        room->swap_ratios[s] = rand_below(3) / 2.0;
    }
    random_sets(&run->graphs[0], rand_bits, room->sets);
    setup->partition = room->partition;
    setup->ratios = room->ratios;
    setup->sets = rand_below(2) ? room->sets : NULL;
    setup->swap_ratios = rand_below(2) ? room->swap_ratios : NULL;
    setup->early = rand_below(2);
    setup->in_backward = rand_below(2);
}

/* ---- Moves -------------------------------------------------------------- */

static struct vp_migration migrate(struct run *run, const struct setup *setup)
{
    struct vp_plan plan = make_plan(run, setup);
    struct vp_err err = { .text = "" };
    struct vp_migration migration;
    struct vp_trainer *next;

    if (vp_trainer_create_next(run->trainer, &plan, &next, &err) != VP_OK ||
        vp_trainer_take_over(next, run->trainer, &migration, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_true(vp_trainer_free(run->trainer));
    run->trainer = next;
    return migration;
}

static void train_some(struct run *run, int n)
{
    struct vp_err err = { .text = "" };

    if (vp_trainer_run(run->trainer, n, keep_step, run, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* Trains `setup` with moves after random steps; returns their number. */
static int train_moving(struct run *run, struct setup setup)
{
    struct room rooms[2];
    struct vp_err err = { .text = "" };
    int n_moves = 0;

    if (run_create(run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    while (run->n_steps < setup.n_steps) {
        int n = 1 + rand_below(2);

        if (setup.eval && run->n_steps < setup.n_steps / 2 &&
            run->n_steps + n >= setup.n_steps / 2)
            n = setup.n_steps / 2 - run->n_steps;
        if (n > setup.n_steps - run->n_steps)
            n = setup.n_steps - run->n_steps;
        train_some(run, n);
        if (setup.eval && run->n_steps == setup.n_steps / 2 &&
            vp_trainer_eval(run->trainer, 3, &run->eval_loss, &err) != VP_OK)
            fail_msg("%s", err.text);
        random_plan(run, &setup, &rooms[n_moves % 2]);
        assert_true(migrate(run, &setup).exact);
        n_moves++;
    }
    run->weights = hash_weights(run);
    run_free(run);
    return n_moves;
}

static void moves_change_no_bit(void **state)
{
    int n_moves = 0;

    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int tied = 0; tied < 2; tied++) {
            struct setup setup = usual;
            struct room room;
            struct run want, got;

            if (SLOW && tied != (int)m % 2)
                continue;
            set_type(&setup, *state);
            setup.model = models[m];
            setup.tied = tied;
            setup.layers = 4;
            setup.accumulation = 5;
            setup.n_steps = SLOW ? 12 : N_STEPS;
            setup.grad_clip = 0.5f;
            setup.eval = true;
            setup.threads = 1;
            setup.n_stages = N_RANKS;
            setup.swap_delay_us = 50;
            cut(room.partition, N_RANKS, n_blocks_of(&setup));
            setup.partition = room.partition;
            train(&want, &setup);
            n_moves += train_moving(&got, setup);
            assert_same(&want, &got, setup.n_steps);
        }
    print_message("%d moves\n", n_moves);
    assert_true(n_moves >= (SLOW ? 20 : *state ? 100 : 150));
}

/* ---- Asynchronous ------------------------------------------------------- */

/* Stages of one block each: to move a block is to change its lag. */
static void open_blocks(struct literal *lit, const struct run *run)
{
    struct async_case blocks = { .n_stages = run->graphs[0].n_blocks };
    int partition[MAX_LITERAL];

    assert_in_range(blocks.n_stages, N_RANKS, MAX_LITERAL);
    for (int b = 0; b < blocks.n_stages; b++)
        partition[b] = blocks.replicas[b] = blocks.every[b] = 1;
    literal_open(lit, run, &run->config, &blocks, partition);
}

/* Blocks run on weights of as many rounds ago as ranks follow theirs. Returns
 * false, and a segment starts with `round`, if a block needs a version that its
 * stage did not keep: a stage has as many older ones as it lags behind. */
static bool move_blocks(struct literal *lit, const int *partition, int round)
{
    bool exact = true;
    int block = 0;

    for (int s = 0; s < N_RANKS; s++)
        for (int b = 0; b < partition[s]; b++, block++) {
            struct literal_stage *ls = &lit->stages[block];
            int lag = N_RANKS - 1 - s;

            exact &= lag <= ls->lag || round - ls->begin < ls->lag;
            ls->lag = lag;
        }
    for (block = 0; !exact && block < lit->n_stages; block++)
        lit->stages[block].begin = round;
    return exact;
}

/* Some moves change the schedule of work only, some are to stages that lag less:
 * both keep every version. */
static int stream_moving(const struct setup *start, int *n_exact)
{
    struct setup setup = *start;
    struct room rooms[2];
    double losses[MAX_STEPS], norms[MAX_STEPS];
    struct vp_err err = { .text = "" };
    int n_moves = 0, done = 0;
    struct literal lit;
    struct run run;

    cut(rooms[1].partition, N_RANKS, n_blocks_of(&setup));
    setup.partition = rooms[1].partition;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    open_blocks(&lit, &run);
    move_blocks(&lit, setup.partition, 0);
    while (done < setup.n_steps) {
        struct room *room = &rooms[n_moves % 2];
        int n = 1 + rand_below(5);
        bool exact;

        n = n < setup.n_steps - done ? n : setup.n_steps - done;
        train_some(&run, n);
        literal_run(&lit, done, n, losses, norms);
        done += n;
        *room = rooms[1 - n_moves % 2];
        if (rand_below(3))
            cut(room->partition, N_RANKS, run.graphs[0].n_blocks);
        for (int s = 0; s < N_RANKS; s++)
            room->ratios[s] = rand_below(3) / 2.0;
        setup.partition = room->partition;
        setup.ratios = room->ratios;
        exact = move_blocks(&lit, setup.partition, done);
        assert_int_equal(migrate(&run, &setup).exact, exact);
        *n_exact += exact;
        n_moves++;
    }
    for (int m = 0; m < done; m++)
        if (run.losses[m] != losses[m])
            fail_msg("%s: loss %d is %.17g, not %.17g", setup.model, m,
                     run.losses[m], losses[m]);
    for (int b = 0; b < lit.n_stages; b++)
        assert_same_weights(&run, &lit.stages[b].stage, 0);
    literal_close(&lit);
    run_free(&run);
    return n_moves;
}

static void moves_of_streams(void **state)
{
    int n_moves = 0, n_exact = 0;

    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < (SLOW ? 1 : 2); k++) {
            struct setup setup = usual;

            set_type(&setup, *state);
            setup.model = models[m];
            setup.schedule = "pipedream";
            setup.n_stages = N_RANKS;
            setup.tied = false;
            setup.layers = 4;
            setup.threads = 1;
            setup.accumulation = 1;
            setup.n_steps = SLOW ? 20 : 60;
            n_moves += stream_moving(&setup, &n_exact);
        }
    print_message("%d moves, %d of them without a new segment\n", n_moves,
                  n_exact);
    assert_true(n_moves >= (SLOW ? 15 : 100));
    assert_in_range(n_exact, n_moves / 10, n_moves - 1);
}

/* A plan that was prepared and is not taken leaves nothing behind. */
static void plans_that_are_not_taken(void **state)
{
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    struct room room;
    struct run want, run;

    (void)state;
    setup.layers = 4;
    setup.accumulation = 5;
    setup.n_steps = 6;
    setup.threads = 1;
    setup.n_stages = N_RANKS;
    cut(room.partition, N_RANKS, n_blocks_of(&setup));
    setup.partition = room.partition;
    train(&want, &setup);
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    while (run.n_steps < setup.n_steps) {
        struct setup other = setup;
        struct room room2;
        struct vp_trainer *next;
        struct vp_plan plan;

        train_some(&run, 1);
        random_plan(&run, &other, &room2);
        plan = make_plan(&run, &other);
        if (vp_trainer_create_next(run.trainer, &plan, &next, &err) != VP_OK)
            fail_msg("%s", err.text);
        assert_true(vp_trainer_free(next));
    }
    run.weights = hash_weights(&run);
    run_free(&run);
    assert_same(&want, &run, setup.n_steps);
}

/* With a memory limit both plans must fit, before anything is allocated. */
static void memory_of_two_plans(void **state)
{
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    int64_t most = 0, headroom;
    struct vp_trainer *next = NULL;
    struct room room;
    struct run run;
    struct vp_plan plan;

    (void)state;
    setup.layers = 4;
    setup.accumulation = 5;
    setup.threads = 1;
    setup.n_stages = N_RANKS;
    cut(room.partition, N_RANKS, n_blocks_of(&setup));
    setup.partition = room.partition;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    train_some(&run, 1);
    plan = make_plan(&run, &setup);
    for (int s = 0; s < N_RANKS; s++)
        if (vp_trainer_prices(run.trainer)[s].memory.total > most)
            most = vp_trainer_prices(run.trainer)[s].memory.total;
    /* As much again is missing, and the message says how much. */
    run.trainer->config.memory_limit = (size_t)most;
    assert_int_equal(vp_trainer_create_next(run.trainer, &plan, &next, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "beside the one it has"));
    assert_non_null(strstr(err.text, "set rebalance_headroom to "));
    headroom = most;
    run.trainer->config.rebalance_headroom = (size_t)headroom - 1;
    assert_int_equal(vp_trainer_create_next(run.trainer, &plan, &next, &err),
                     VP_ERR_INVALID);
    assert_int_equal(strtoll(strstr(err.text, "headroom to ") + 12, NULL, 10),
                     headroom);
    run.trainer->config.rebalance_headroom = (size_t)headroom;
    if (vp_trainer_create_next(run.trainer, &plan, &next, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_true(vp_trainer_free(next));
    run_free(&run);
}

int main(void)
{
    bool bf16 = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_change_no_bit),
        { "moves_change_no_bit in bf16", moves_change_no_bit, NULL, NULL,
          &bf16 },
        cmocka_unit_test(moves_of_streams),
        { "moves_of_streams in bf16", moves_of_streams, NULL, NULL, &bf16 },
        cmocka_unit_test(plans_that_are_not_taken),
        cmocka_unit_test(memory_of_two_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
