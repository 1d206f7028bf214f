/* The suite of test_comm between processes, over MPI and between devices that
 * reach each other directly; also an abort, failed transfers and huge messages.
 *
 *   mpirun -n 4 test_comm_processes mpi             ranks are processes
 *   mpirun -n 4 test_comm_processes nccl            devices reach each other
 *                                                   (fake_nccl.c stands for
 *                                                   NCCL, host memory for a
 *                                                   device's memory)
 *   mpirun -n 3 test_comm_processes mpi abort       one rank aborts
 *   mpirun -n 2 test_comm_processes nccl broken     transfers fail
 *   mpirun -n 2 test_comm_processes nccl why TEXT   MPI carries all messages;
 *                                                   TEXT is the reason
 *   mpirun -n 2 test_comm_processes mpi huge        messages over 2 GiB */
#include "comm/comm.h"
#include "device/driver.h"
#include "lib/comm_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Processes ---------------------------------------------------------- */

static struct vp_processes find_self(void)
{
    const char *n = getenv("OMPI_COMM_WORLD_SIZE");
    const char *index = getenv("OMPI_COMM_WORLD_RANK");

    n = n ? n : getenv("PMI_SIZE");
    index = index ? index : getenv("PMI_RANK");
    if (!n || !index)
        return (struct vp_processes){ .n = 0 };
    return (struct vp_processes){ (int)strtol(n, NULL, 10),
                                  (int)strtol(index, NULL, 10) };
}

/* ---- A device whose memory is the host's -------------------------------- */

/* All work is done when a call returns, so events have nothing to do, and one
 * event serves all messages. */

static void host_attach(struct vp_device *device)
{
    (void)device;
}

static const char *host_error(const struct vp_device *device)
{
    (void)device;
    return "";
}

static enum vp_status host_alloc(struct vp_device *device, size_t n_bytes,
                                 void **out)
{
    (void)device;
    *out = calloc(1, n_bytes);
    return *out ? VP_OK : VP_ERR_NOMEM;
}

static void host_free(struct vp_device *device, void *buffer, size_t n_bytes)
{
    (void)device;
    (void)n_bytes;
    free(buffer);
}

static enum vp_status host_stream(struct vp_device *device,
                                  struct vp_stream **out)
{
    (void)device;
    *out = calloc(1, sizeof(**out));
    return *out ? VP_OK : VP_ERR_NOMEM;
}

static void host_stream_free(struct vp_stream *stream)
{
    free(stream);
}

static void *host_handle(struct vp_stream *stream)
{
    return stream;
}

static enum vp_status host_event(struct vp_device *device,
                                 struct vp_event **out)
{
    (void)device;
    *out = calloc(1, sizeof(**out));
    return *out ? VP_OK : VP_ERR_NOMEM;
}

static void host_event_free(struct vp_event *event)
{
    free(event);
}

static enum vp_status host_record(struct vp_event *event,
                                  struct vp_stream *stream)
{
    (void)event;
    (void)stream;
    return VP_OK;
}

static enum vp_status host_wait(struct vp_stream *stream,
                                struct vp_event *event)
{
    (void)event;
    (void)stream;
    return VP_OK;
}

static enum vp_status host_sync(struct vp_event *event, int timeout_ms)
{
    (void)event;
    (void)timeout_ms;
    return VP_OK;
}

static const struct vp_device_ops host_ops = {
    .attach = host_attach,
    .last_error = host_error,
    .alloc = host_alloc,
    .free = host_free,
    .stream_create = host_stream,
    .stream_free = host_stream_free,
    .stream_handle = host_handle,
    .event_create = host_event,
    .event_free = host_event_free,
    .event_record = host_record,
    .stream_wait = host_wait,
    .event_sync = host_sync,
};

static struct vp_device host_device = { .ops = &host_ops };

/* VP_TEST_GPU names the device of every process; without it, each has its
 * own. */
static void meet_devices(int process)
{
    const char *given = getenv("VP_TEST_GPU");
    char address[16];

    snprintf(address, sizeof(address), "%d", process);
    assert_int_equal(vp_event_create(&host_device, &comm_mark), VP_OK);
    vp_world_set_device(comm_processes, &host_device);
    assert_int_equal(
        vp_world_meet(comm_processes, given ? given : address, in_ms(LONG_MS)),
        VP_OK);
    comm_direct = vp_world_is_direct(comm_processes, 0, 1);
}

/* Gives process p rank n - 1 - p: ranks may be in any order. */
static void join_processes(const char *transport,
                           const struct vp_processes *self)
{
    int order[MAX_RANKS];
    struct vp_err err = { .text = "" };

    for (int r = 0; r < self->n; r++)
        order[r] = self->n - 1 - r;
    if (vp_world_join(transport, self, self->n, order, &comm_processes, &err) !=
        VP_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}

static void all_agree_on_the_first_failure(void **state)
{
    int n = vp_world_n_ranks(comm_processes);
    struct vp_err err;
    char text[32];

    (void)state;
    for (int bad = 0; bad <= n; bad++) {
        bool mine = bad < n && is_mine(bad), last = is_mine(n - 1);
        enum vp_status st = mine || (last && bad < n) ? VP_ERR_IO : VP_OK;

        snprintf(err.text, sizeof(err.text), "%s", mine ? "first" : "late");
        st = vp_world_agree(comm_processes, st, in_ms(LONG_MS), &err);
        assert_int_equal(st, bad < n ? VP_ERR_IO : VP_OK);
        assert_string_equal(err.text, bad == n ? "late" : mine ? "first" : "");
    }
    snprintf(text, sizeof(text), "%s",
             is_mine(vp_world_lead(comm_processes)) ? "the lead's" : "another");
    assert_int_equal(
        vp_world_share(comm_processes, text, sizeof(text), in_ms(LONG_MS)),
        VP_OK);
    assert_string_equal(text, "the lead's");
}

/* A wait for a message that is never sent, and one for a buffer that is still
 * in use, end at their time limits. */
static void waits_have_an_end(void **state)
{
    static struct letter letters[2];
    struct vp_buffer buffers[2];
    struct vp_channel *silent, *full;
    struct vp_err err;
    void *buffer;

    (void)state;
    wrap_letters(letters, 2, buffers);
    silent = make_channel(comm_processes, 1, 1, &buffers[0]);
    full = make_channel(comm_processes, 1, 1, &buffers[1]);
    for (uint64_t j = 0; is_mine(1) && j < 2; j++) {
        assert_int_equal(vp_channel_acquire(full, j, in_ms(LONG_MS), &buffer),
                         VP_OK);
        vp_channel_post(full, j, 0);
    }
    if (is_mine(1))
        assert_int_equal(vp_channel_acquire(full, 2, in_ms(50), &buffer),
                         VP_ERR_TIMEOUT);
    if (is_mine(0)) {
        assert_int_equal(vp_channel_wait(full, 0, in_ms(LONG_MS), &buffer),
                         VP_OK);
        assert_int_equal(vp_channel_wait(silent, 0, in_ms(50), &buffer),
                         VP_ERR_TIMEOUT);
    }
    assert_int_equal(
        vp_world_agree(comm_processes, VP_OK, in_ms(LONG_MS), &err), VP_OK);
    if (is_mine(0)) {
        vp_channel_release(full, 0);
        assert_int_equal(vp_channel_wait(full, 1, in_ms(LONG_MS), &buffer),
                         VP_OK);
    }
}

/* ---- Messages of more than 2 GiB ---------------------------------------- */

enum { N_HUGE = 2 };

/* Number of words of message j; the second one is shorter. */
static size_t huge_words(int j)
{
    return ((size_t)9 << 25) + 5 - (size_t)j * 1000; /* 2.25 GiB and a bit */
}

static uint64_t huge_word(int j, size_t i)
{
    return (i + (size_t)j) * 0x9E3779B97F4A7C15u;
}

static void huge_rank(struct rank *rank)
{
    struct vp_channel *channel = rank->job;
    void *buffer;

    for (int j = 0; j < N_HUGE; j++) {
        if ((rank->index ? vp_channel_acquire : vp_channel_wait)(
                channel, (uint64_t)j, in_ms(5 * LONG_MS), &buffer) != VP_OK) {
            rank->n_errors++;
            return;
        }
        for (size_t i = 0; i < huge_words(j); i++)
            if (rank->index)
                ((uint64_t *)buffer)[i] = huge_word(j, i);
            else
                rank->n_errors += ((uint64_t *)buffer)[i] != huge_word(j, i);
        if (rank->index)
            vp_channel_post(channel, (uint64_t)j, huge_words(j) * 8);
        else
            vp_channel_release(channel, (uint64_t)j);
    }
}

static void a_message_may_be_huge(void **state)
{
    static char head;
    struct vp_buffer buffer = { .head = &head,
                                .n_head = sizeof(head),
                                .n_body = huge_words(0) * 8 };
    struct vp_err err = { .text = "" };

    (void)state;
    buffer.body = buffer.self = malloc(buffer.n_body);
    assert_non_null(buffer.body);
    run_ranks(2, huge_rank, make_channel(comm_processes, 1, 1, &buffer));
    assert_int_equal(
        vp_world_agree(comm_processes, VP_OK, in_ms(5 * LONG_MS), &err), VP_OK);
}

/* ---- NCCL --------------------------------------------------------------- */

static const char *wanted;

static void mpi_does_it_all(void **state)
{
    const char *why = vp_world_indirect_reason(comm_processes);

    (void)state;
    assert_non_null(strstr(why, wanted));
    assert_ptr_equal(strstr(why, "distributed_backend nccl: "), why);
    assert_non_null(strstr(why, "; messages go by MPI, through memory of the "
                                "host"));
    for (int r = 1; r < vp_world_n_ranks(comm_processes); r++)
        assert_false(vp_world_is_direct(comm_processes, 0, r));
}

/* NCCL reports a failed transfer: a rank that waits for a message gets an
 * error. */
static void a_broken_transfer_ends_the_world(void **state)
{
    static struct letter letter;
    struct vp_buffer buffer;
    struct vp_channel *channel;
    struct vp_err err = { .text = "" };
    void *arrived;

    (void)state;
    wrap_letters(&letter, 1, &buffer);
    channel = make_channel(comm_processes, 1, 1, &buffer);
    if (is_mine(0))
        assert_int_equal(vp_channel_wait(channel, 0, in_ms(LONG_MS), &arrived),
                         VP_ERR_ABORTED);
    while (vp_world_status(comm_processes, &err) == VP_OK)
        vp_world_poll(comm_processes);
    assert_int_equal(vp_world_status(comm_processes, &err), VP_ERR_IO);
    assert_true(!err.text[0] ||
                strcmp(err.text, "NCCL, a transfer: invalid usage") == 0);
}

/* NCCL adds in an order of its own. The terms are whole numbers, whose float
 * sum is the same in any order. Member 1 adds nothing. */
static void fast_sums_add_up(void **state)
{
    int n = vp_world_n_ranks(comm_processes);
    static const int64_t ends[] = { 3, 3, 5000000 };
    float *data = calloc((size_t)ends[2], sizeof(float));
    struct vp_group *group = make_adding_group(comm_processes, n);

    (void)state;
    vp_group_set_fast(group);
    assert_int_equal(vp_group_cut(group, ends, 3), VP_OK);
    for (int me = 0; me < n; me++) {
        struct vp_term term_of_mine = { data, me, me == 1 };
        bool done = false;

        if (!is_mine(me))
            continue;
        vp_group_set_terms(group, me, &term_of_mine, 1);
        for (int round = 0; round < 2; round++) {
            for (int64_t i = 0; i < ends[2]; i++)
                data[i] = (float)(me + round + i % 7);
            vp_group_offer_rest(group, me);
            while (!done)
                assert_int_equal(
                    vp_group_await(group, me, in_ms(LONG_MS), &done), VP_OK);
            done = false;
            for (int64_t i = 0; i < ends[2]; i++) {
                float want = 0.0f;

                for (int k = 0; k < n; k++)
                    want += k == 1 ? 0.0f : (float)(k + round + i % 7);
                if (data[i] != want)
                    fail_msg("element %lld", (long long)i);
            }
        }
    }
    free(data);
}

/* Bytes of devices are gathered in member order. The members are not all
 * ranks. */
static void devices_gather_in_member_order(void **state)
{
    enum { N_BYTES = 100003, N_ROUNDS = 3 };
    static unsigned char mine[N_BYTES], all[MAX_RANKS][N_BYTES];
    int ranks[] = { 0, vp_world_n_ranks(comm_processes) - 1 };
    struct vp_group *group;

    (void)state;
    assert_int_equal(vp_direct_gather_create(comm_processes, ranks, 2, &group),
                     VP_OK);
    for (int me = 0; me < 2; me++) {
        unsigned char *at = all[0];

        if (!is_mine(ranks[me]))
            continue;
        for (int round = 0; round < N_ROUNDS; round++) {
            size_t n = round == 1 ? N_BYTES : 16;

            for (size_t i = 0; i < n; i++)
                mine[i] = (unsigned char)(i * 7 + (size_t)(me + 2 * round));
            assert_int_equal(vp_group_gather_direct(group, mine, n, at, NULL),
                             VP_OK);
            for (size_t i = 0; i < 2 * n; i++)
                if (at[i] !=
                    (unsigned char)(i % n * 7 + i / n + 2 * (size_t)round))
                    fail_msg("round %d, byte %d", round, (int)i);
        }
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";
    bool give_up = strcmp(what, "abort") == 0;
    bool broken = strcmp(what, "broken") == 0;
    struct vp_processes self = find_self();
    const struct CMUnitTest huge[] = {
        cmocka_unit_test(a_message_may_be_huge),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_in_order),
        cmocka_unit_test(sums_are_exact_in_their_order),
        cmocka_unit_test(pieces_are_added_in_any_order),
        cmocka_unit_test(parts_go_to_their_owners),
        cmocka_unit_test(gathers_bring_all_bytes),
        cmocka_unit_test(all_agree_on_the_first_failure),
        cmocka_unit_test(waits_have_an_end),
    };
    const struct CMUnitTest last[] = {
        cmocka_unit_test(abort_frees_everybody),
    };
    const struct CMUnitTest bad[] = {
        cmocka_unit_test(a_broken_transfer_ends_the_world),
    };
    const struct CMUnitTest why[] = {
        cmocka_unit_test(mpi_does_it_all),
        cmocka_unit_test(messages_arrive_in_order),
    };
    const struct CMUnitTest fast[] = {
        cmocka_unit_test(fast_sums_add_up),
        cmocka_unit_test(devices_gather_in_member_order),
    };
    int n_failed;

    if (argc < 2 || self.n < 2 || self.n > MAX_RANKS) {
        fputs("start with mpirun -n 2 to 8\n", stderr);
        return 2;
    }
    join_processes(argv[1], &self);
    if (strcmp(argv[1], "nccl") == 0)
        meet_devices(self.index);
    wanted = argc > 3 ? argv[3] : NULL;
    if (give_up)
        n_failed = cmocka_run_group_tests(last, NULL, NULL);
    else if (broken)
        n_failed = cmocka_run_group_tests(bad, NULL, NULL);
    else if (strcmp(what, "huge") == 0)
        n_failed = cmocka_run_group_tests(huge, NULL, NULL);
    else if (wanted)
        n_failed = cmocka_run_group_tests(why, NULL, NULL);
    else
        n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (comm_direct && !*what)
        n_failed += cmocka_run_group_tests(fast, NULL, NULL);
    if ((give_up || broken) && n_failed == 0) {
        puts("all know");
        fflush(stdout);
        /* Freeing an aborted world kills the processes that still run. */
        meet_all("said");
        sleep(1); /* mpirun still forwards their output */
    }
    vp_world_set_device(comm_processes, NULL);
    vp_world_free(comm_processes);
    vp_event_free(comm_mark);
    return n_failed;
}
