/* A run that moves to random other plans at random steps gives the same bits as
 * a run that keeps its plan. */
#include "lib/halfdevice.h"

#include "base/rng.h"
#include "lib/joinlib.h"
#include "lib/literal.h"
#include "lib/recompute_sets.h"
#include "lib/run_part.h"
#include "lib/slow.h"
#include "runtime/trainer/migrate.h"
#include "runtime/trainer/older_versions.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- Random plans ------------------------------------------------------- */

/* Arrays that a plan points to. */
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

/* Chooses a random plan among those that change no bit of a synchronous run:
 * partition, schedule, recomputation and swapping. */
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

/* ---- Moves of synchronous runs ------------------------------------------ */

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

/* Trains `setup` and moves to a random plan after every one or two steps.
 * Returns the number of moves. */
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

/* ---- Moves of asynchronous runs ----------------------------------------- */

static struct setup stream_setup(void)
{
    struct setup setup = usual;

    setup.schedule = "pipedream";
    setup.n_stages = N_RANKS;
    setup.tied = false;
    setup.layers = 4;
    setup.threads = 1;
    setup.accumulation = 1;
    return setup;
}

/* Opens the literal interpreter with one block per stage: a move of a block is
 * then a change of its stage's lag. */
static void open_blocks(struct literal *lit, const struct run *run)
{
    struct async_case blocks = { .n_stages = run->graphs[0].n_blocks };
    int partition[MAX_LITERAL];

    assert_in_range(blocks.n_stages, N_RANKS, MAX_LITERAL);
    for (int b = 0; b < blocks.n_stages; b++)
        partition[b] = blocks.replicas[b] = blocks.every[b] = 1;
    literal_open(lit, run, &run->config, &blocks, partition);
}

/* Sets the lag of each block, in rounds: the number of ranks after its own.
 * Returns true if every block needs only older versions that its stage already
 * owns. */
static bool move_blocks(struct literal *lit, const int *partition, int round)
{
    bool owned = true;
    int block = 0;

    for (int s = 0; s < N_RANKS; s++)
        for (int b = 0; b < partition[s]; b++, block++) {
            struct literal_stage *ls = &lit->stages[block];
            int lag = N_RANKS - 1 - s;

            owned &= lag <= ls->lag || round - ls->begin < ls->lag;
            ls->lag = lag;
        }
    return owned;
}

static void start_segment(struct literal *lit, int round)
{
    for (int b = 0; b < lit->n_stages; b++)
        lit->stages[b].begin = round;
}

/* A run that trains until `next` can take over. */
struct waiting {
    struct run *run;
    struct vp_trainer *next;
    bool ready;
};

static bool wait_for_versions(void *ctx, const struct vp_step_report *report)
{
    struct waiting *waiting = ctx;

    keep_step(waiting->run, report);
    waiting->ready = vp_trainer_can_take_over(waiting->next);
    return !waiting->ready;
}

/* Prepares `setup`, trains until all versions are there (with `early` not at
 * all) and moves. Returns true if the move was exact. */
static bool migrate_stream(struct run *run, const struct setup *setup,
                           bool early)
{
    struct vp_plan plan = make_plan(run, setup);
    struct vp_err err = { .text = "" };
    struct waiting waiting = { .run = run, .ready = early };
    struct vp_migration migration;
    int before = run->n_steps;

    if (vp_trainer_create_next(run->trainer, &plan, &waiting.next, &err))
        fail_msg("%s", err.text);
    /* Stages begin to keep older versions before training goes on, or during
     * it. */
    if (!early && rand_below(2))
        waiting.ready = vp_trainer_can_take_over(waiting.next);
    while (!waiting.ready)
        if (vp_trainer_run(run->trainer, 1 + rand_below(3), wait_for_versions,
                           &waiting, &err) != VP_OK)
            fail_msg("%s", err.text);
    assert_in_range(run->n_steps - before, 0, 4 * N_RANKS);
    if (vp_trainer_take_over(waiting.next, run->trainer, &migration, &err))
        fail_msg("%s", err.text);
    assert_true(vp_trainer_free(run->trainer));
    run->trainer = waiting.next;
    return migration.exact;
}

struct moves {
    int n, n_waited, n_segments;
};

static void stream_moving(const struct setup *start, struct moves *moves)
{
    struct setup setup = *start;
    struct room rooms[2];
    double losses[MAX_STEPS], norms[MAX_STEPS];
    struct vp_err err = { .text = "" };
    struct literal lit;
    struct run run;
    int done = 0;

    cut(rooms[1].partition, N_RANKS, n_blocks_of(&setup));
    setup.partition = rooms[1].partition;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    open_blocks(&lit, &run);
    move_blocks(&lit, setup.partition, 0);
    for (int k = 0; done < setup.n_steps; k++) {
        struct room *room = &rooms[k % 2];
        bool early = rand_below(4) == 0, owned, exact;
        int n = rand_below(5), before;

        if (n > 0)
            train_some(&run, n);
        before = run.n_steps;
        *room = rooms[1 - k % 2];
        if (rand_below(3))
            cut(room->partition, N_RANKS, run.graphs[0].n_blocks);
        for (int s = 0; s < N_RANKS; s++)
            room->ratios[s] = rand_below(3) / 2.0;
        setup.partition = room->partition;
        setup.ratios = room->ratios;
        exact = migrate_stream(&run, &setup, early);
        literal_run(&lit, done, run.n_steps - done, losses, norms);
        done = run.n_steps;
        owned = move_blocks(&lit, setup.partition, done);
        assert_int_equal(exact, !early || owned);
        if (!exact)
            start_segment(&lit, done);
        moves->n++;
        moves->n_waited += !owned && run.n_steps > before;
        moves->n_segments += !exact;
    }
    for (int m = 0; m < done; m++)
        if (run.losses[m] != losses[m])
            fail_msg("%s: loss %d is %.17g, not %.17g", setup.model, m,
                     run.losses[m], losses[m]);
    for (int b = 0; b < lit.n_stages; b++)
        assert_same_weights(&run, &lit.stages[b].stage, 0);
    literal_close(&lit);
    run_free(&run);
}

static void moves_of_streams(void **state)
{
    struct moves moves = { 0 };

    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int k = 0; k < (SLOW ? 2 : 4); k++) {
            struct setup setup = stream_setup();

            set_type(&setup, *state);
            setup.model = models[m];
            setup.n_steps = SLOW ? 20 : 40;
            stream_moving(&setup, &moves);
        }
    print_message("%d moves, %d waited for older versions, %d did not and "
                  "started a segment\n",
                  moves.n, moves.n_waited, moves.n_segments);
    assert_true(moves.n >= (SLOW ? 15 : 100));
    assert_true(moves.n_waited >= moves.n / 10 && moves.n_segments > 0);
}

/* A move to other depths starts a new segment, even if all versions are
 * there. */
static void other_depths(void **state)
{
    static const int less[] = { 3, 2, 1, 0 }, more[] = { 4, 2, 1, 0 };
    struct setup setup = stream_setup();
    struct vp_err err = { .text = "" };
    struct room room;
    struct run run;

    (void)state;
    cut(room.partition, N_RANKS, n_blocks_of(&setup));
    setup.partition = room.partition;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    train_some(&run, 6);
    setup.depth = less; /* the same depths as before */
    assert_true(migrate(&run, &setup).exact);
    train_some(&run, 6);
    setup.depth = more;
    assert_false(migrate(&run, &setup).exact);
    train_some(&run, 6);
    setup.depth = less;
    assert_false(migrate(&run, &setup).exact);
    train_some(&run, 2);
    run_free(&run);
}

/* A block cannot move between stages with different numbers of replicas,
 * because their rounds have different lengths. */
static void unequal_replicas(void **state)
{
    static const int replicas[] = { 2, 1, 1 };
    int before[] = { 3, 3, 3 }, others[] = { 3, 2, 4 }, first[] = { 4, 2, 3 };
    struct setup setup = stream_setup();
    struct vp_err err = { .text = "" };
    struct vp_trainer *next = NULL;
    struct vp_plan plan;
    struct run run;

    (void)state;
    setup.n_stages = 3;
    setup.replicas = replicas;
    setup.partition = before;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    train_some(&run, 8);
    setup.partition = first;
    plan = make_plan(&run, &setup);
    assert_int_equal(vp_trainer_create_next(run.trainer, &plan, &next, &err),
                     VP_ERR_INVALID);
    assert_string_equal(
        err.text,
        "block 3 would move from stage 1, which is updated every 1 "
        "minibatches, to stage 0, every 2; leave it where it is, or stop the "
        "run and resume it");
    setup.partition = others;
    assert_true(migrate(&run, &setup).exact);
    train_some(&run, 8);
    run_free(&run);
}

/* The older versions that a move needs are priced before anything is
 * allocated. */
static void memory_of_older_versions(void **state)
{
    int before[] = { 2, 2, 2, 3 }, after[] = { 3, 2, 2, 2 };
    struct setup setup = stream_setup();
    struct vp_older_needs needs;
    struct vp_err err = { .text = "" };
    struct run run;
    int64_t bytes = 0;

    (void)state;
    setup.partition = before;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_older_needs_find(run.trainer, &run.trainer->schedule, after, &needs);
    /* Each stage but the first gives a block to the stage before it. */
    for (int s = 0; s < N_RANKS; s++) {
        const struct vp_stage *stage = &run.trainer->ranks[s].stages[0].stage;

        assert_int_equal(needs.n_versions[s], s > 0);
        assert_int_equal(needs.n_blocks[s], s > 0);
        bytes = vp_older_needs_bytes(run.trainer, &needs, s);
        assert_int_equal(
            bytes, s == 0 ? 0 : stage->plan.train[0].layout.blocks[0].n * 4);
    }
    vp_older_needs_find(run.trainer, &run.trainer->schedule, before, &needs);
    for (int s = 0; s < N_RANKS; s++)
        assert_int_equal(needs.n_versions[s], 0);
    run_free(&run);
}

/* A trainer that was prepared for a plan and freed again does not change the
 * run. */
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

/* Under a memory limit both plans must fit together; this is checked before
 * anything is allocated. */
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
    /* The limit is used up by the present plan. The message says how much
     * headroom the second one needs. */
    run.trainer->config.memory_limit = (size_t)most;
    run.trainer->config.rebalance_headroom = 0;
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

/* ---- Moves in several processes ----------------------------------------- */

static struct vp_world *world; /* the processes of this program */

/* Does the same as run_create(), in world `in`; NULL means threads. */
static void open_run(struct run *run, struct setup *setup, struct vp_world *in)
{
    struct vp_err err = { .text = "" };

    setup->world = in;
    if (run_create(run, setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* The lead makes `n` steps and then orders `what`. The other processes follow
 * until that order. */
static void train_until(struct run *run, int n, enum vp_followed what)
{
    struct vp_err err = { .text = "" };
    enum vp_status st = VP_OK;
    enum vp_followed done;

    if (vp_trainer_is_lead(run->trainer)) {
        train_some(run, n);
        if (run->config.world)
            st = what == VP_FOLLOWED_PREPARE
                     ? vp_trainer_order_prepare(run->trainer, &err)
                     : vp_trainer_order_move(run->trainer, &err);
    } else {
        st = vp_trainer_follow(run->trainer, NULL, &done, &err);
        assert_int_equal(done, what);
    }
    if (st != VP_OK)
        fail_msg("%s", err.text);
}

struct preparing {
    struct vp_trainer *from, *next;
    struct vp_plan plan;
    struct vp_err err;
    enum vp_status st;
};

static void *prepare_next(void *arg)
{
    struct preparing *p = arg;

    p->st = vp_trainer_create_next(p->from, &p->plan, &p->next, &p->err);
    return NULL;
}

/* Moves at fixed steps. A thread prepares the next trainer during training; in
 * several processes these threads exchange messages, in any order. */
static void move_at_fixed_steps(struct run *run, struct setup *setup)
{
    enum { N_MOVES = 5, WAIT = 2 * N_RANKS + 1 };
    struct room rooms[2];

    for (int k = 0; k < N_MOVES; k++) {
        struct preparing p = { .from = run->trainer };
        struct vp_err err = { .text = "" };
        struct vp_migration migration;
        pthread_t thread;

        cut(rooms[k % 2].partition, N_RANKS, run->graphs[0].n_blocks);
        setup->partition = rooms[k % 2].partition;
        p.plan = make_plan(run, setup);
        train_until(run, 1, VP_FOLLOWED_PREPARE);
        assert_int_equal(pthread_create(&thread, NULL, prepare_next, &p), 0);
        /* The thread makes stages keep older versions from some step on, while
         * these steps run. */
        train_until(run, 2, VP_FOLLOWED_MOVE);
        pthread_join(thread, NULL);
        if (p.st != VP_OK)
            fail_msg("%s", p.err.text);
        train_until(run, WAIT - 2, VP_FOLLOWED_MOVE);
        if (vp_trainer_take_over(p.next, run->trainer, &migration, &err))
            fail_msg("%s", err.text);
        assert_true(migration.exact);
        assert_true(vp_trainer_free(run->trainer));
        run->trainer = p.next;
    }
    train_until(run, 2, VP_FOLLOWED_MOVE);
}

static void processes_move_as_threads(void **state)
{
    struct setup setup = stream_setup();
    struct run threads, processes;
    struct room room;
    uint32_t start = rand_count;
    enum vp_followed what;
    struct vp_err err;

    (void)state;
    setup.timeout_ms = 60000;
    cut(room.partition, N_RANKS, n_blocks_of(&setup));
    setup.partition = room.partition;
    open_run(&threads, &setup, NULL);
    move_at_fixed_steps(&threads, &setup);

    rand_count = start;
    cut(room.partition, N_RANKS, n_blocks_of(&setup));
    setup.partition = room.partition;
    open_run(&processes, &setup, world);
    move_at_fixed_steps(&processes, &setup);
    if (vp_trainer_is_lead(processes.trainer)) {
        assert_int_equal(threads.n_steps, processes.n_steps);
        for (int i = 0; i < threads.n_steps; i++)
            assert_memory_equal(&threads.losses[i], &processes.losses[i],
                                sizeof(double));
    } else {
        vp_trainer_follow(processes.trainer, NULL, &what, &err);
    }
    run_free(&processes);
    run_free(&threads);
}

/* Run by: mpirun -n 4 test_migrate mpi */
static int test_processes(const char *transport)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_move_as_threads),
    };
    struct vp_processes self = join_processes();
    int n_failed;

    if (self.n != N_RANKS || !(world = join_world(transport, &self)))
        return 1;
    n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    vp_world_free(world);
    return n_failed;
}

int main(int argc, char **argv)
{
    bool bf16 = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_change_no_bit),
        { "moves_change_no_bit in bf16", moves_change_no_bit, NULL, NULL,
          &bf16 },
        cmocka_unit_test(moves_of_streams),
        { "moves_of_streams in bf16", moves_of_streams, NULL, NULL, &bf16 },
        cmocka_unit_test(other_depths),
        cmocka_unit_test(unequal_replicas),
        cmocka_unit_test(memory_of_older_versions),
        cmocka_unit_test(plans_that_are_not_taken),
        cmocka_unit_test(memory_of_two_plans),
    };

    if (argc > 1)
        return test_processes(argv[1]);
    return run_part(tests, VP_COUNT_OF(tests));
}
