/* The local transport: order, credits, timeouts, abort, exact sums. */
#include "base/clock.h"
#include "base/counter.h"
#include "comm/comm.h"

#include <pthread.h>
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
        cmocka_unit_test(counters_wrap_and_time_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
