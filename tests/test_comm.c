/* The local transport: order, credits, timeouts, abort, exact sums. */
#include "base/clock.h"
#include "base/counter.h"
#include "base/rng.h"
#include "comm/comm.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_RANKS = 8 };

static int64_t in_ms(int64_t ms)
{
    return vp_clock_ns() + ms * 1000000;
}

/* ---- Rank threads ------------------------------------------------------- */

struct rank {
    pthread_t thread;
    int index;
    void *job;
    void (*main)(struct rank *rank);
    int n_errors;
};

static void *rank_main(void *arg)
{
    struct rank *rank = arg;

    rank->main(rank);
    return NULL;
}

static void run_ranks(int n, void (*main)(struct rank *rank), void *job)
{
    struct rank ranks[MAX_RANKS];
    int n_errors = 0;

    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){ .index = i, .job = job, .main = main };
        assert_int_equal(
            pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(ranks[i].thread, NULL);
        n_errors += ranks[i].n_errors;
    }
    assert_int_equal(n_errors, 0);
}

/* ---- Channels ----------------------------------------------------------- */

struct relay {
    struct vp_channel *channel;
    int n_senders, n_messages;
};

/* Rank 0 receives; the others send messages of their residue class. */
static void relay_rank(struct rank *rank)
{
    struct relay *relay = rank->job;
    void *buffer;

    for (int j = 0; j < relay->n_messages; j++) {
        if (rank->index == 0) {
            rank->n_errors += vp_channel_wait(relay->channel, (uint64_t)j,
                                              in_ms(5000), &buffer) != VP_OK;
            rank->n_errors += *(int *)buffer != 7 * j;
            *(int *)buffer = -1;
            vp_channel_release(relay->channel, (uint64_t)j);
        } else if (j % relay->n_senders == rank->index - 1) {
            rank->n_errors += vp_channel_acquire(relay->channel, (uint64_t)j,
                                                 in_ms(5000), &buffer) != VP_OK;
            *(int *)buffer = 7 * j;
            vp_channel_post(relay->channel, (uint64_t)j);
        }
    }
}

static void messages_arrive_in_order(void **state)
{
    (void)state;
    for (int n_senders = 1; n_senders <= 3; n_senders++)
        for (int n_buffers = 1; n_buffers <= 4; n_buffers++) {
            struct relay relay = { .n_senders = n_senders, .n_messages = 2000 };
            int storage[4];
            void *buffers[4];
            struct vp_world *world;

            for (int i = 0; i < n_buffers; i++)
                buffers[i] = &storage[i];
            assert_int_equal(vp_world_create(n_senders + 1, &world), VP_OK);
            assert_int_equal(
                vp_channel_create(world, n_buffers, buffers, &relay.channel),
                VP_OK);
            run_ranks(n_senders + 1, relay_rank, &relay);
            vp_world_free(world);
        }
}

static void a_full_ring_gives_no_buffer(void **state)
{
    struct vp_channel *channel;
    struct vp_world *world;
    int storage[2];
    void *buffers[2] = { &storage[0], &storage[1] };
    void *buffer;

    (void)state;
    assert_int_equal(vp_world_create(2, &world), VP_OK);
    assert_int_equal(vp_channel_create(world, 2, buffers, &channel), VP_OK);
    for (uint64_t j = 0; j < 2; j++) {
        assert_int_equal(vp_channel_acquire(channel, j, in_ms(10), &buffer),
                         VP_OK);
        assert_ptr_equal(buffer, buffers[j]);
        vp_channel_post(channel, j);
    }
    assert_int_equal(vp_channel_acquire(channel, 2, in_ms(10), &buffer),
                     VP_ERR_TIMEOUT);
    assert_int_equal(vp_channel_wait(channel, 0, in_ms(10), &buffer), VP_OK);
    vp_channel_release(channel, 0);
    assert_int_equal(vp_channel_acquire(channel, 2, in_ms(10), &buffer), VP_OK);
    assert_ptr_equal(buffer, buffers[0]);
    assert_int_equal(vp_channel_wait(channel, 2, in_ms(10), &buffer),
                     VP_ERR_TIMEOUT);
    vp_world_free(world);
}

/* ---- Abort -------------------------------------------------------------- */

struct stuck {
    struct vp_world *world;
    struct vp_channel *channel;
    atomic_int n_aborted;
};

static void stuck_rank(struct rank *rank)
{
    struct stuck *stuck = rank->job;
    void *buffer;

    if (rank->index == 0) {
        vp_world_abort(stuck->world, VP_ERR_NONFINITE, "first words");
        vp_world_abort(stuck->world, VP_ERR_IO, "second words");
    } else if (vp_channel_wait(stuck->channel, 0, in_ms(20000), &buffer) ==
               VP_ERR_ABORTED) {
        atomic_fetch_add(&stuck->n_aborted, 1);
    }
}

static void abort_frees_everybody(void **state)
{
    struct stuck stuck = { .n_aborted = 0 };
    int storage;
    void *buffers[1] = { &storage };
    int64_t start = vp_clock_ns();
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_world_create(4, &stuck.world), VP_OK);
    assert_int_equal(vp_world_status(stuck.world, &err), VP_OK);
    assert_int_equal(vp_channel_create(stuck.world, 1, buffers, &stuck.channel),
                     VP_OK);
    run_ranks(4, stuck_rank, &stuck);
    assert_int_equal(atomic_load(&stuck.n_aborted), 3);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 5.0);
    assert_int_equal(vp_world_status(stuck.world, &err), VP_ERR_NONFINITE);
    assert_string_equal(err.text, "first words");
    vp_world_free(stuck.world);
}

/* ---- Groups ------------------------------------------------------------- */

struct sums {
    struct vp_group *group;
    int n_members;
    int64_t n;
    float *data[MAX_RANKS], *copies[MAX_RANKS];
};

static float term(int member, int64_t i)
{
    /* Magnitudes differ so much that the order of additions shows. */
    static const float sizes[] = { 1e8f, 1.0f, -1e8f, 3.0f };

    return sizes[(member + (int)i) % 4] * (float)(i + 1);
}

static void sums_rank(struct rank *rank)
{
    struct sums *sums = rank->job;
    /* Members add in reverse order; a second array only gets the result. */
    struct vp_term terms[] = {
        { sums->copies[rank->index], 0, true },
        { sums->data[rank->index], sums->n_members - rank->index, false },
    };
    int all[MAX_RANKS];

    for (int round = 0; round < 50; round++) {
        int mine = round * 10 + rank->index;

        rank->n_errors += vp_group_exchange(sums->group, rank->index, &mine,
                                            sizeof(mine), all,
                                            in_ms(5000)) != VP_OK;
        for (int i = 0; i < sums->n_members; i++)
            rank->n_errors += all[i] != round * 10 + i;
        for (int64_t i = 0; i < sums->n; i++)
            sums->data[rank->index][i] = term(rank->index, i + round);
        rank->n_errors += vp_group_add(sums->group, rank->index, terms, 2,
                                       sums->n, in_ms(5000)) != VP_OK;
        for (int64_t i = 0; i < sums->n; i++) {
            float want = term(sums->n_members - 1, i + round);

            for (int k = sums->n_members - 2; k >= 0; k--)
                want += term(k, i + round);
            rank->n_errors += sums->data[rank->index][i] != want;
            rank->n_errors += sums->copies[rank->index][i] != want;
        }
    }
}

static void sums_are_exact_in_their_order(void **state)
{
    static const int64_t sizes[] = { 1, 2, 7, 1000 };

    (void)state;
    for (int n_members = 1; n_members <= 5; n_members++)
        for (size_t s = 0; s < VP_COUNT_OF(sizes); s++) {
            struct sums sums = { .n_members = n_members, .n = sizes[s] };
            struct vp_world *world;

            assert_int_equal(vp_world_create(n_members, &world), VP_OK);
            assert_int_equal(
                vp_group_create(world, n_members, sizeof(int), &sums.group),
                VP_OK);
            for (int i = 0; i < n_members; i++)
                sums.data[i] = calloc(2 * (size_t)sums.n, sizeof(float));
            for (int i = 0; i < n_members; i++)
                sums.copies[i] = sums.data[i] + sums.n;
            run_ranks(n_members, sums_rank, &sums);
            for (int i = 0; i < n_members; i++)
                free(sums.data[i]);
            vp_world_free(world);
        }
}

/* ---- Sums in pieces ----------------------------------------------------- */

enum { MAX_PIECES = 12, N_SUMS = 60 };

struct pieces {
    struct vp_world *world;
    struct vp_group *group;
    int n_members, n_pieces;
    int64_t ends[MAX_PIECES];
    float *data[MAX_RANKS];
};

static int draw(uint32_t member, uint32_t round, uint32_t *count, int n)
{
    struct vp_rng4 r = vp_rng(9, VP_RNG_TEST, member, round, (*count)++, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

static void open_pieces(struct pieces *p, int n_members, int n_pieces)
{
    uint32_t count = 0;
    int64_t end = 0;

    *p = (struct pieces){ .n_members = n_members, .n_pieces = n_pieces };
    for (int i = 0; i < n_pieces; i++) /* empty ones, and a long one */
        p->ends[i] = end += i == 2 ? 20000 : draw(0, 0, &count, 40);
    assert_int_equal(vp_world_create(n_members, &p->world), VP_OK);
    assert_int_equal(vp_group_create(p->world, n_members, 0, &p->group), VP_OK);
    assert_int_equal(vp_group_cut(p->group, p->ends, n_pieces), VP_OK);
    for (int i = 0; i < n_members; i++)
        p->data[i] = calloc((size_t)end + 1, sizeof(float));
}

static void close_pieces(struct pieces *p)
{
    for (int i = 0; i < p->n_members; i++)
        free(p->data[i]);
    vp_world_free(p->world);
}

/* Member 1 of three or more has nothing to add in odd rounds. */
static bool only_receives(const struct pieces *p, int member, int round)
{
    return p->n_members > 2 && member == 1 && round % 2 == 1;
}

static float sum_of(const struct pieces *p, int64_t i, int round)
{
    float sum = term(0, i + round);

    for (int k = 1; k < p->n_members; k++)
        if (!only_receives(p, k, round))
            sum += term(k, i + round);
    return sum;
}

static void write_piece(struct pieces *p, int member, int piece, int round)
{
    for (int64_t i = piece ? p->ends[piece - 1] : 0; i < p->ends[piece]; i++)
        p->data[member][i] = term(member, i + round);
}

/* Writes and offers some of the pieces in an order of its own, pausing and
 * adding in between; the others are written before, and left to the rest. */
static void offer_some(struct rank *rank, int round)
{
    struct pieces *p = rank->job;
    uint32_t me = (uint32_t)rank->index + 1, count = 0;
    int n = draw(me, (uint32_t)round, &count, p->n_pieces + 1);
    int order[MAX_PIECES] = { 0 };

    for (int i = 0; i < p->n_pieces; i++) {
        int j = draw(me, (uint32_t)round, &count, i + 1);

        order[i] = order[j];
        order[j] = i;
    }
    for (int i = n; i < p->n_pieces; i++)
        write_piece(p, rank->index, order[i], round);
    for (int i = 0; i < n; i++) {
        write_piece(p, rank->index, order[i], round);
        vp_group_offer(p->group, rank->index, order[i]);
        for (int k = draw(me, (uint32_t)round, &count, 3); k > 0; k--)
            vp_group_progress(p->group, rank->index);
        if (draw(me, (uint32_t)round, &count, 4) == 0)
            sched_yield();
    }
}

static void pieces_rank(struct rank *rank)
{
    struct pieces *p = rank->job;
    int64_t n = p->ends[p->n_pieces - 1];

    for (int round = 0; round < N_SUMS; round++) {
        struct vp_term mine = { p->data[rank->index], rank->index,
                                only_receives(p, rank->index, round) };
        bool done = false;

        vp_group_set_terms(p->group, rank->index, &mine, 1);
        offer_some(rank, round);
        vp_group_offer_rest(p->group, rank->index);
        while (!done) {
            while (vp_group_progress(p->group, rank->index))
                ;
            if (vp_group_await(p->group, rank->index, in_ms(5000), &done)) {
                rank->n_errors++;
                return;
            }
        }
        for (int64_t i = 0; i < n; i++)
            rank->n_errors += p->data[rank->index][i] != sum_of(p, i, round);
    }
}

static void pieces_are_added_in_any_order(void **state)
{
    (void)state;
    for (int n_members = 1; n_members <= 5; n_members++)
        for (int n_pieces = 1; n_pieces <= MAX_PIECES; n_pieces += 3) {
            struct pieces p;

            open_pieces(&p, n_members, n_pieces);
            run_ranks(n_members, pieces_rank, &p);
            close_pieces(&p);
        }
}

static void assert_piece(const struct pieces *p, int member, int piece,
                         bool summed)
{
    for (int64_t i = piece ? p->ends[piece - 1] : 0; i < p->ends[piece]; i++)
        assert_true(p->data[member][i] ==
                    (summed ? sum_of(p, i, 0) : term(member, i)));
}

/* Both members by hand: a piece is added when both have offered it, one slice
 * per call, and no sooner; what was not offered is left alone. */
static void a_piece_waits_for_all_members(void **state)
{
    struct vp_term terms[2];
    struct pieces p;
    bool done = false;

    (void)state;
    open_pieces(&p, 2, 4);
    for (int m = 0; m < 2; m++) {
        terms[m] = (struct vp_term){ p.data[m], m, false };
        for (int i = 0; i < 4; i++)
            write_piece(&p, m, i, 0);
        vp_group_set_terms(p.group, m, &terms[m], 1);
    }
    assert_false(vp_group_progress(p.group, 0));
    vp_group_offer(p.group, 0, 2);
    vp_group_offer(p.group, 0, 0);
    vp_group_offer(p.group, 1, 3);
    assert_false(vp_group_progress(p.group, 0));
    assert_false(vp_group_progress(p.group, 1));
    vp_group_offer(p.group, 1, 2);
    assert_true(vp_group_progress(p.group, 0));
    assert_false(vp_group_progress(p.group, 0));
    assert_true(vp_group_progress(p.group, 1));
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < 4; i++)
            assert_piece(&p, m, i, i == 2);

    /* Member 1 keeps member 0 waiting: for an offer, then for its slices. */
    vp_group_offer_rest(p.group, 0);
    assert_true(vp_group_progress(p.group, 0)); /* piece 3 */
    assert_int_equal(vp_group_await(p.group, 0, in_ms(10), &done),
                     VP_ERR_TIMEOUT);
    vp_group_offer_rest(p.group, 1);
    assert_int_equal(vp_group_await(p.group, 0, in_ms(10), &done), VP_OK);
    assert_false(done);
    for (int i = 0; i < 2; i++)
        assert_true(vp_group_progress(p.group, 0));
    assert_false(vp_group_progress(p.group, 0));
    assert_int_equal(vp_group_await(p.group, 0, in_ms(10), &done),
                     VP_ERR_TIMEOUT);
    assert_false(done);
    while (vp_group_progress(p.group, 1))
        ;
    for (int m = 0; m < 2; m++) {
        assert_int_equal(vp_group_await(p.group, m, in_ms(10), &done), VP_OK);
        assert_true(done);
        for (int i = 0; i < 4; i++)
            assert_piece(&p, m, i, true);
    }
    close_pieces(&p);
}

/* Member 0 ends the job; nobody stays in a sum it never offered. */
static void deserted_rank(struct rank *rank)
{
    struct pieces *p = rank->job;
    struct vp_term mine = { p->data[rank->index], rank->index, false };
    bool done = false;

    if (rank->index == 0) {
        vp_world_abort(p->world, VP_ERR_IO, "gone");
        return;
    }
    vp_group_set_terms(p->group, rank->index, &mine, 1);
    vp_group_offer_rest(p->group, rank->index);
    rank->n_errors += vp_group_progress(p->group, rank->index);
    rank->n_errors += vp_group_await(p->group, rank->index, in_ms(20000),
                                     &done) != VP_ERR_ABORTED;
}

static void abort_ends_a_sum(void **state)
{
    int64_t start = vp_clock_ns();
    struct pieces p;

    (void)state;
    open_pieces(&p, 3, 4);
    run_ranks(3, deserted_rank, &p);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 5.0);
    close_pieces(&p);
}

/* ---- Counter ------------------------------------------------------------ */

static void counters_wrap_and_time_out(void **state)
{
    struct vp_counter counter;
    int64_t start;

    (void)state;
    memset(&counter, 0, sizeof(counter));
    atomic_store(&counter.value, UINT32_MAX - 1);
    assert_true(vp_counter_reached(&counter, UINT32_MAX - 1));
    assert_false(vp_counter_reached(&counter, 1));
    for (int i = 0; i < 3; i++)
        vp_counter_add(&counter);
    assert_int_equal(vp_counter_wait(&counter, 1, in_ms(0), NULL), VP_OK);
    start = vp_clock_ns();
    assert_int_equal(vp_counter_wait(&counter, 2, in_ms(50), NULL),
                     VP_ERR_TIMEOUT);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) >= 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_in_order),
        cmocka_unit_test(a_full_ring_gives_no_buffer),
        cmocka_unit_test(abort_frees_everybody),
        cmocka_unit_test(sums_are_exact_in_their_order),
        cmocka_unit_test(pieces_are_added_in_any_order),
        cmocka_unit_test(a_piece_waits_for_all_members),
        cmocka_unit_test(abort_ends_a_sum),
        cmocka_unit_test(counters_wrap_and_time_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
