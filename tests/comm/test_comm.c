/* Transports between threads keep messages in order, obey credits and time
 * limits, end all waits on abort, and add exactly in a fixed order. */
#include "base/clock.h"
#include "base/counter.h"
#include "comm/comm.h"
#include "lib/comm_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ---- Channels ----------------------------------------------------------- */

/* One thread has both ends. A sender without a credit gets no buffer. */
static void a_full_ring_gives_no_buffer(void **state)
{
    struct vp_world *world = open_world(2);
    struct letter letters[2];
    struct vp_buffer buffers[2];
    struct vp_channel *channel;
    void *buffer;

    (void)state;
    wrap_letters(letters, 2, buffers);
    channel = make_channel(world, 1, 2, buffers);
    for (uint64_t j = 0; j < 2; j++) {
        assert_int_equal(vp_channel_acquire(channel, j, in_ms(10), &buffer),
                         VP_OK);
        assert_ptr_equal(buffer, &letters[j]);
        vp_channel_post(channel, j, 0);
    }
    assert_int_equal(vp_channel_acquire(channel, 2, in_ms(10), &buffer),
                     VP_ERR_TIMEOUT);
    assert_int_equal(vp_channel_wait(channel, 0, in_ms(10), &buffer), VP_OK);
    vp_channel_release(channel, 0);
    assert_int_equal(vp_channel_acquire(channel, 2, in_ms(10), &buffer), VP_OK);
    assert_ptr_equal(buffer, &letters[0]);
    assert_int_equal(vp_channel_wait(channel, 2, in_ms(10), &buffer),
                     VP_ERR_TIMEOUT);
    close_world(world);
}

/* ---- Gathers and sums --------------------------------------------------- */

/* The bytes of the other member never come: the wait ends at its time limit. */
static void a_gather_has_an_end(void **state)
{
    struct vp_world *world = open_world(2);
    struct vp_group *group = make_group(world, 2, 0);
    static const int64_t ends[] = { 1, 2 };
    char bytes[2] = "";

    (void)state;
    vp_group_gather(group, 0,
                    &(struct vp_gather){ bytes, bytes, ends, -1, false });
    assert_int_equal(vp_group_end_gather(group, 0, in_ms(20)), VP_ERR_TIMEOUT);
    close_world(world);
}

static void assert_piece(const struct pieces *p, int member, int piece,
                         bool summed)
{
    for (int64_t i = piece ? p->ends[piece - 1] : 0; i < p->ends[piece]; i++)
        assert_true(p->data[member][i] ==
                    (summed ? sum_of(p, i, 0) : term(member, i)));
}

/* One thread plays both members. A piece is added only after both have offered
 * it, one slice per call of vp_group_progress(). Pieces that were not offered
 * stay unchanged. */
static void a_piece_waits_for_all_members(void **state)
{
    struct vp_term terms[2];
    struct pieces p;
    bool done = false;

    (void)state;
    assert_true(open_pieces(&p, 2, 4, false));
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

    /* Member 0 waits for member 1: for its offer, then for its slices. */
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

/* Member 0 aborts the world. The others must not stay in a sum that it never
 * offered. */
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
    assert_true(open_pieces(&p, 3, 4, false));
    run_ranks(3, deserted_rank, &p);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 15.0);
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
        cmocka_unit_test(parts_go_to_their_owners),
        cmocka_unit_test(gathers_bring_all_bytes),
        cmocka_unit_test(a_piece_waits_for_all_members),
        cmocka_unit_test(a_gather_has_an_end),
        cmocka_unit_test(abort_ends_a_sum),
        cmocka_unit_test(counters_wrap_and_time_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
