/* Transports: order, credits, timeouts, abort, exact sums.
 *
 *   test_comm                                ranks are threads
 *   mpirun -n 4 test_comm mpi                ranks are processes
 *   mpirun -n 4 test_comm nccl               likewise, whose devices reach each
 *                                            other; with fake_nccl.c: memory of
 *                                            the host plays the device
 *   mpirun -n 3 test_comm mpi abort          and one gives up
 *   mpirun -n 2 test_comm nccl broken        and transfers come to nothing
 *   mpirun -n 2 test_comm nccl why TEXT      MPI does it all, and this is why
 *   mpirun -n 2 test_comm mpi huge           messages of more than 2 GiB */
#include "base/clock.h"
#include "base/counter.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "device/driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* LONG_MS: no wait of a busy machine takes so long. */
enum { MAX_RANKS = 8, LONG_MS = 60 * 1000 };

static struct vp_limit in_ms(int64_t ms)
{
    return vp_limit_ms(ms);
}

/* ---- Worlds ------------------------------------------------------------- */

static struct vp_world *processes; /* NULL: ranks are threads */
static bool direct;                /* their devices reach each other */
static struct vp_event *mark;      /* of every message between devices */

/* A world with `n` ranks, or more: NULL if there are fewer. */
static struct vp_world *open_world(int n)
{
    struct vp_world *world;

    if (processes)
        return n <= vp_world_n_ranks(processes) ? processes : NULL;
    assert_int_equal(vp_world_create(n, &world), VP_OK);
    return world;
}

static void close_world(struct vp_world *world)
{
    if (!processes)
        vp_world_free(world);
}

static bool is_mine(int rank)
{
    return !processes || vp_world_is_mine(processes, rank);
}

static struct vp_group *make_group(struct vp_world *world, int n,
                                   size_t n_bytes)
{
    int ranks[MAX_RANKS];
    struct vp_group *group = NULL;

    for (int i = 0; i < n; i++)
        ranks[i] = i;
    assert_int_equal(vp_group_create(world, ranks, n, n_bytes, &group), VP_OK);
    return group;
}

static void add_terms(void *ctx, const struct vp_term *terms, int n_added,
                      int n_terms, int64_t begin, int64_t end)
{
    (void)ctx;
    for (int64_t i = begin; i < end; i++)
        for (int k = 1; k < n_added; k++)
            terms[0].data[i] += terms[k].data[i];
    for (int k = 1; k < n_terms; k++)
        memcpy(terms[k].data + begin, terms[0].data + begin,
               (size_t)(end - begin) * sizeof(float));
}

/* Where devices reach each other, they add. */
static struct vp_group *make_adding_group(struct vp_world *world, int n)
{
    int ranks[MAX_RANKS] = { 0 };
    struct vp_group *group = NULL;

    if (!direct)
        return make_group(world, n, 0);
    for (int i = 0; i < n; i++)
        ranks[i] = i;
    assert_int_equal(vp_direct_group_create(world, ranks, n, &group), VP_OK);
    for (int i = 0; group && i < n; i++)
        if (is_mine(i))
            vp_group_set_adder(group, i, add_terms, NULL);
    return group;
}

/* From ranks 1 .. n_senders to rank 0. */
static struct vp_channel *make_channel(struct vp_world *world, int n_senders,
                                       int n_buffers,
                                       const struct vp_buffer *buffers)
{
    static const int senders[] = { 1, 2, 3, 4, 5, 6, 7 };
    struct vp_channel *channel;
    struct vp_link link = { .receiver = 0,
                            .senders = senders,
                            .n_senders = n_senders,
                            .n_buffers = n_buffers,
                            .buffers = buffers,
                            .out = buffers,
                            .n_out = n_buffers,
                            .direct = direct };

    assert_int_equal(vp_channel_create(world, &link, &channel), VP_OK);
    return channel;
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
        if (!is_mine(i))
            continue;
        assert_int_equal(
            pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        if (!is_mine(i))
            continue;
        pthread_join(ranks[i].thread, NULL);
        n_errors += ranks[i].n_errors;
    }
    assert_int_equal(n_errors, 0);
}

/* ---- Channels ----------------------------------------------------------- */

/* A number, and numbers that it tells. */
struct letter {
    int number;
    int64_t body[3];
};

struct relay {
    struct vp_channel *channel;
    int n_senders, n_messages;
};

static size_t body_bytes(int j)
{
    return (size_t)(j % 4) * sizeof(int64_t);
}

static int read_letter(const struct letter *letter, int j)
{
    int n_errors = letter->number != 7 * j;

    for (int i = 0; i < j % 4; i++)
        n_errors += letter->body[i] != 1000000007 * (int64_t)j + i;
    return n_errors;
}

static void write_letter(struct letter *letter, int j)
{
    letter->number = 7 * j;
    for (int i = 0; i < j % 4; i++)
        letter->body[i] = 1000000007 * (int64_t)j + i;
}

/* Rank 0 receives; the others send messages of their residue class. */
static void relay_rank(struct rank *rank)
{
    struct relay *relay = rank->job;
    void *buffer, *again;

    for (int j = 0; j < relay->n_messages; j++) {
        if (rank->index == 0) {
            if (vp_channel_wait(relay->channel, (uint64_t)j, in_ms(LONG_MS),
                                &buffer) != VP_OK) {
                rank->n_errors++;
                return;
            }
            rank->n_errors += read_letter(buffer, j);
            memset(buffer, -1, sizeof(struct letter));
            vp_channel_release(relay->channel, (uint64_t)j);
        } else if (j % relay->n_senders == rank->index - 1) {
            if (vp_channel_acquire(relay->channel, (uint64_t)j, in_ms(LONG_MS),
                                   &buffer) != VP_OK ||
                vp_channel_acquire(relay->channel, (uint64_t)j, in_ms(LONG_MS),
                                   &again) != VP_OK) {
                rank->n_errors++;
                return;
            }
            rank->n_errors += again != buffer;
            write_letter(buffer, j);
            vp_channel_post(relay->channel, (uint64_t)j, body_bytes(j));
        }
    }
}

static void wrap_letters(struct letter *letters, int n,
                         struct vp_buffer *buffers)
{
    for (int i = 0; i < n; i++)
        buffers[i] = (struct vp_buffer){ .self = &letters[i],
                                         .head = &letters[i].number,
                                         .n_head = sizeof(int),
                                         .body = letters[i].body,
                                         .n_body = sizeof(letters[i].body),
                                         .written = mark,
                                         .read = mark };
}

static void messages_arrive_in_order(void **state)
{
    (void)state;
    for (int n_senders = 1; n_senders <= 3; n_senders++)
        for (int n_buffers = 1; n_buffers <= 4; n_buffers++) {
            struct relay relay = { .n_senders = n_senders,
                                   .n_messages = direct ? 300 : 2000 };
            struct vp_world *world = open_world(n_senders + 1);
            /* Receives that are posted ahead stay until the world ends. */
            static struct letter letters[3][5][4];
            struct vp_buffer buffers[4];

            if (!world)
                continue;
            wrap_letters(letters[n_senders - 1][n_buffers], n_buffers, buffers);
            relay.channel = make_channel(world, n_senders, n_buffers, buffers);
            run_ranks(n_senders + 1, relay_rank, &relay);
            close_world(world);
        }
}

/* Both ends in one thread. */
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

/* Returns when all processes of the job have called it for `what`, at most a minute
 * later: a counter in shared memory that has the name of Open MPI's job. */
static void meet_all(const char *what)
{
    const char *job = getenv("PMIX_NAMESPACE");
    int n = vp_world_n_ranks(processes);
    char name[128];
    atomic_int *n_here;
    int fd;

    snprintf(name, sizeof(name), "/vpipe-%s-%s", what, job ? job : "");
    fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*n_here)) != 0)
        return;
    n_here = mmap(NULL, sizeof(*n_here), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                  0);
    close(fd);
    if (n_here == MAP_FAILED)
        return;
    atomic_fetch_add(n_here, 1);
    for (int i = 0; i < 6000 && atomic_load(n_here) < n; i++)
        usleep(10000);
    munmap(n_here, sizeof(*n_here));
    shm_unlink(name);
}

/* ---- Abort -------------------------------------------------------------- */

struct stuck {
    struct vp_world *world;
    struct vp_channel *channel;
    atomic_int n_aborted;
};

/* Rank 1 gives up, rank 0 and, in threads, others wait for its message. */
static void stuck_rank(struct rank *rank)
{
    struct stuck *stuck = rank->job;
    void *buffer;

    if (rank->index == 1) {
        vp_world_abort(stuck->world, VP_ERR_NONFINITE, "first words");
        vp_world_abort(stuck->world, VP_ERR_IO, "second words");
    } else if (rank->index == 0 || !processes) {
        enum vp_status st = vp_channel_wait(stuck->channel, 0, in_ms(20000),
                                            &buffer);

        atomic_fetch_add(&stuck->n_aborted, st == VP_ERR_ABORTED);
    }
}

static void abort_frees_everybody(void **state)
{
    struct stuck stuck = { .world = open_world(4), .n_aborted = 0 };
    static struct letter letter;
    struct vp_buffer buffer;
    int64_t start = vp_clock_ns();
    struct vp_err err = { .text = "none" };

    (void)state;
    if (!stuck.world)
        stuck.world = processes;
    wrap_letters(&letter, 1, &buffer);
    assert_int_equal(vp_world_status(stuck.world, &err), VP_OK);
    stuck.channel = make_channel(stuck.world, 1, 1, &buffer);
    if (processes)
        meet_all("channel"); /* an abort also ends the making of channels */
    run_ranks(processes ? 2 : 4, stuck_rank, &stuck);
    assert_int_equal(atomic_load(&stuck.n_aborted), processes ? is_mine(0) : 3);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 15.0);
    while (vp_world_status(stuck.world, &err) == VP_OK)
        vp_world_poll(stuck.world);
    assert_int_equal(vp_world_status(stuck.world, &err), VP_ERR_NONFINITE);
    assert_string_equal(err.text, is_mine(1) ? "first words" : "");
    close_world(stuck.world);
}

/* ---- Groups ------------------------------------------------------------- */

struct sums {
    struct vp_group *group, *talk;
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
    int n_rounds = direct || sums->n > 1000 ? 5 : 50;

    for (int round = 0; round < n_rounds; round++) {
        int mine = round * 10 + rank->index;

        rank->n_errors += vp_group_exchange(sums->talk, rank->index, &mine,
                                            sizeof(mine), all,
                                            in_ms(LONG_MS)) != VP_OK;
        for (int i = 0; i < sums->n_members; i++)
            rank->n_errors += all[i] != round * 10 + i;
        for (int64_t i = 0; i < sums->n; i++)
            sums->data[rank->index][i] = term(rank->index, i + round);
        rank->n_errors += vp_group_add(sums->group, rank->index, terms, 2,
                                       sums->n, in_ms(LONG_MS)) != VP_OK;
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
    static const int64_t sizes[] = { 1, 2, 7, 1000, 300000 };

    (void)state;
    for (int n_members = 1; n_members <= 5; n_members++)
        for (size_t s = 0; s < VP_COUNT_OF(sizes); s++) {
            struct sums sums = { .n_members = n_members, .n = sizes[s] };
            struct vp_world *world = open_world(n_members);

            if (!world)
                continue;
            sums.talk = make_group(world, n_members, sizeof(int));
            sums.group = direct ? make_adding_group(world, n_members)
                                : sums.talk;
            for (int i = 0; i < n_members; i++)
                sums.data[i] = calloc(2 * (size_t)sums.n, sizeof(float));
            for (int i = 0; i < n_members; i++)
                sums.copies[i] = sums.data[i] + sums.n;
            run_ranks(n_members, sums_rank, &sums);
            for (int i = 0; i < n_members; i++)
                free(sums.data[i]);
            close_world(world);
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
    struct vp_sum_part parts[3 * MAX_RANKS]; /* none: all need all */
    int n_parts;
};

static int draw(uint32_t member, uint32_t round, uint32_t *count, int n)
{
    struct vp_rng4 r = vp_rng(9, VP_RNG_TEST, member, round, (*count)++, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

/* Parts of all members, some of them empty, and parts that all need. */
static void draw_parts(struct pieces *p, int64_t n)
{
    uint32_t count = 1000;
    int64_t end = 0;

    for (int k = 0; k < 2 * p->n_members; k++) {
        end += n > 0 ? draw(0, 0, &count, (int)(n / p->n_members) + 1) : 0;
        p->parts[p->n_parts++] = (struct vp_sum_part){
            end < n ? end : n, k % 3 == 2 ? -1 : k % p->n_members
        };
    }
    p->parts[p->n_parts++] = (struct vp_sum_part){ n, p->n_members - 1 };
    assert_int_equal(vp_group_set_parts(p->group, p->parts, p->n_parts), VP_OK);
}

/* Whether a member needs element i of the sum. */
static bool needs(const struct pieces *p, int member, int64_t i)
{
    int k = 0;

    while (k < p->n_parts && i >= p->parts[k].end)
        k++;
    return p->n_parts == 0 || p->parts[k].owner < 0 ||
           p->parts[k].owner == member;
}

/* False if there are fewer ranks. */
static bool open_pieces(struct pieces *p, int n_members, int n_pieces,
                        bool parts)
{
    uint32_t count = 0;
    int64_t end = 0;

    *p = (struct pieces){ .n_members = n_members,
                          .n_pieces = n_pieces,
                          .world = open_world(n_members) };
    if (!p->world)
        return false;
    for (int i = 0; i < n_pieces; i++) /* empty ones, and a long one */
        p->ends[i] = end += i == 2 ? 20000 : draw(0, 0, &count, 40);
    p->group = make_adding_group(p->world, n_members);
    if (p->group && parts)
        draw_parts(p, end);
    if (p->group)
        assert_int_equal(vp_group_cut(p->group, p->ends, n_pieces), VP_OK);
    for (int i = 0; i < n_members; i++)
        p->data[i] = calloc((size_t)end + 1, sizeof(float));
    return true;
}

static void close_pieces(struct pieces *p)
{
    for (int i = 0; i < p->n_members; i++)
        free(p->data[i]);
    close_world(p->world);
}

/* Member 1 of three or more has nothing to add in odd rounds; devices always
 * add the same. */
static bool only_receives(const struct pieces *p, int member, int round)
{
    return p->n_members > 2 && member == 1 && (direct || round % 2 == 1);
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

    for (int round = 0; round < (direct ? N_SUMS / 5 : N_SUMS); round++) {
        struct vp_term mine = { p->data[rank->index], rank->index,
                                only_receives(p, rank->index, round) };
        bool done = false;

        vp_group_set_terms(p->group, rank->index, &mine, 1);
        offer_some(rank, round);
        vp_group_offer_rest(p->group, rank->index);
        while (!done) {
            while (vp_group_progress(p->group, rank->index))
                ;
            if (vp_group_await(p->group, rank->index, in_ms(LONG_MS), &done)) {
                rank->n_errors++;
                return;
            }
        }
        for (int64_t i = 0; i < n; i++)
            rank->n_errors += needs(p, rank->index, i) &&
                              p->data[rank->index][i] != sum_of(p, i, round);
    }
}

static void pieces_are_added_in_any_order(void **state)
{
    (void)state;
    for (int n_members = 1; n_members <= 5; n_members++)
        for (int n_pieces = 1; n_pieces <= MAX_PIECES; n_pieces += 3) {
            struct pieces p;

            if (!open_pieces(&p, n_members, n_pieces, false))
                continue;
            run_ranks(n_members, pieces_rank, &p);
            close_pieces(&p);
        }
}

/* Members that do not need a part may have anything there. */
static void parts_go_to_their_owners(void **state)
{
    (void)state;
    for (int n_members = 1; n_members <= 5 && !direct; n_members++)
        for (int n_pieces = 1; n_pieces <= MAX_PIECES; n_pieces += 3) {
            struct pieces p;

            if (!open_pieces(&p, n_members, n_pieces, true))
                continue;
            run_ranks(n_members, pieces_rank, &p);
            close_pieces(&p);
        }
}

/* ---- Gathers ------------------------------------------------------------ */

enum { N_GATHERS = 40, MOST_EACH = 100000 };

struct gathers {
    struct vp_group *group;
    int n_members;
};

static unsigned char byte_of(int member, int round, int64_t i)
{
    return (unsigned char)(member * 61 + round * 7 + i % 251);
}

/* Of each member, some bytes or none, to all or to one of them; its own are in
 * their place, or elsewhere. */
static void gathers_rank(struct rank *rank)
{
    const struct gathers *g = rank->job;
    int me = rank->index, n = g->n_members;
    unsigned char *all = malloc((size_t)n * MOST_EACH), *mine;
    unsigned char *own = malloc(MOST_EACH);

    for (int round = 0; round < N_GATHERS; round++) {
        uint32_t count = 0;
        int64_t ends[MAX_RANKS], end = 0, begin;
        int receiver = round % (n + 1) - 1;

        for (int k = 0; k < n; k++)
            ends[k] = end += draw(50, (uint32_t)round, &count, 4) == 0
                                 ? 0
                                 : draw(50, (uint32_t)round, &count, MOST_EACH);
        begin = me > 0 ? ends[me - 1] : 0;
        memset(all, 0xa5, (size_t)n * MOST_EACH);
        mine = round % 2 ? own : all + begin;
        for (int64_t i = 0; i < ends[me] - begin; i++)
            mine[i] = byte_of(me, round, i);
        vp_group_gather(g->group, me,
                        &(struct vp_gather){
                            mine, receiver < 0 || receiver == me ? all : NULL,
                            ends, receiver });
        rank->n_errors += vp_group_end_gather(g->group, me, in_ms(LONG_MS)) !=
                          VP_OK;
        if (receiver < 0) /* own bytes change after the next line */
            rank->n_errors += vp_group_exchange(g->group, me, NULL, 0, NULL,
                                                in_ms(LONG_MS)) != VP_OK;
        for (int k = 0; k < n && (receiver < 0 || receiver == me); k++)
            for (int64_t i = k > 0 ? ends[k - 1] : 0, j = 0; i < ends[k];
                 i++, j++)
                rank->n_errors += all[i] != byte_of(k, round, j);
    }
    free(all);
    free(own);
}

static void gathers_bring_all_bytes(void **state)
{
    (void)state;
    for (int n = 1; n <= 5 && !direct; n++) {
        struct vp_world *world = open_world(n);
        struct gathers g = { .n_members = n };

        if (!world)
            continue;
        g.group = make_group(world, n, 0);
        run_ranks(n, gathers_rank, &g);
        close_world(world);
    }
}

/* One that waits for the bytes of another, which never come. */
static void a_gather_has_an_end(void **state)
{
    struct vp_world *world = open_world(2);
    struct vp_group *group = make_group(world, 2, 0);
    static const int64_t ends[] = { 1, 2 };
    char bytes[2] = "";

    (void)state;
    vp_group_gather(group, 0, &(struct vp_gather){ bytes, bytes, ends, -1 });
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

/* Both members by hand: a piece is added when both have offered it, one slice
 * per call, and no sooner; what was not offered is left alone. */
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

/* ---- A device that is the host ------------------------------------------ */

/* Work is done when the call returns, so that events have nothing to do: one
 * serves all messages. */

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

/* VP_TEST_GPU names the device of every process; else each has its own. */
static void meet_devices(int process)
{
    const char *given = getenv("VP_TEST_GPU");
    char address[16];

    snprintf(address, sizeof(address), "%d", process);
    assert_int_equal(vp_event_create(&host_device, &mark), VP_OK);
    vp_world_set_device(processes, &host_device);
    assert_int_equal(
        vp_world_meet(processes, given ? given : address, in_ms(LONG_MS)),
        VP_OK);
    direct = vp_world_is_direct(processes, 0, 1);
}

/* Processes are ranks the other way round: any order will do. */
static void join_processes(const char *transport,
                           const struct vp_processes *self)
{
    int order[MAX_RANKS];
    struct vp_err err = { .text = "" };

    for (int r = 0; r < self->n; r++)
        order[r] = self->n - 1 - r;
    if (vp_world_join(transport, self, self->n, order, &processes, &err) !=
        VP_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}

static void all_agree_on_the_first_failure(void **state)
{
    int n = vp_world_n_ranks(processes);
    struct vp_err err;
    char text[32];

    (void)state;
    for (int bad = 0; bad <= n; bad++) {
        bool mine = bad < n && is_mine(bad), last = is_mine(n - 1);
        enum vp_status st = mine || (last && bad < n) ? VP_ERR_IO : VP_OK;

        snprintf(err.text, sizeof(err.text), "%s", mine ? "first" : "late");
        st = vp_world_agree(processes, st, in_ms(LONG_MS), &err);
        assert_int_equal(st, bad < n ? VP_ERR_IO : VP_OK);
        assert_string_equal(err.text, bad == n ? "late" : mine ? "first" : "");
    }
    snprintf(text, sizeof(text), "%s",
             is_mine(vp_world_lead(processes)) ? "the lead's" : "another");
    assert_int_equal(
        vp_world_share(processes, text, sizeof(text), in_ms(LONG_MS)), VP_OK);
    assert_string_equal(text, "the lead's");
}

/* A message that nobody sends, and one that nobody takes yet. */
static void waits_have_an_end(void **state)
{
    static struct letter letters[2];
    struct vp_buffer buffers[2];
    struct vp_channel *silent, *full;
    struct vp_err err;
    void *buffer;

    (void)state;
    wrap_letters(letters, 2, buffers);
    silent = make_channel(processes, 1, 1, &buffers[0]);
    full = make_channel(processes, 1, 1, &buffers[1]);
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
    assert_int_equal(vp_world_agree(processes, VP_OK, in_ms(LONG_MS), &err),
                     VP_OK);
    if (is_mine(0)) {
        vp_channel_release(full, 0);
        assert_int_equal(vp_channel_wait(full, 1, in_ms(LONG_MS), &buffer),
                         VP_OK);
    }
}

/* ---- More than an int can count ----------------------------------------- */

enum { N_HUGE = 2 };

/* Message j has some words less. */
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
    run_ranks(2, huge_rank, make_channel(processes, 1, 1, &buffer));
    assert_int_equal(vp_world_agree(processes, VP_OK, in_ms(5 * LONG_MS), &err),
                     VP_OK);
}

/* ---- What NCCL does ----------------------------------------------------- */

static const char *wanted;

static void mpi_does_it_all(void **state)
{
    const char *why = vp_world_why_not(processes);

    (void)state;
    assert_non_null(strstr(why, wanted));
    assert_ptr_equal(strstr(why, "distributed_backend nccl: "), why);
    assert_non_null(strstr(why, "; messages go by MPI, through memory of the "
                                "host"));
    for (int r = 1; r < vp_world_n_ranks(processes); r++)
        assert_false(vp_world_is_direct(processes, 0, r));
}

/* NCCL says that a transfer failed; who waits for a message hears of it. */
static void a_broken_transfer_ends_the_world(void **state)
{
    static struct letter letter;
    struct vp_buffer buffer;
    struct vp_channel *channel;
    struct vp_err err = { .text = "" };
    void *arrived;

    (void)state;
    wrap_letters(&letter, 1, &buffer);
    channel = make_channel(processes, 1, 1, &buffer);
    if (is_mine(0))
        assert_int_equal(vp_channel_wait(channel, 0, in_ms(LONG_MS), &arrived),
                         VP_ERR_ABORTED);
    while (vp_world_status(processes, &err) == VP_OK)
        vp_world_poll(processes);
    assert_int_equal(vp_world_status(processes, &err), VP_ERR_IO);
    assert_true(!err.text[0] ||
                strcmp(err.text, "NCCL, a transfer: invalid usage") == 0);
}

/* Sums in NCCL's own order, of which floats that are whole numbers know
 * nothing; one member has nothing to add. */
static void fast_sums_add_up(void **state)
{
    int n = vp_world_n_ranks(processes);
    static const int64_t ends[] = { 3, 3, 5000000 };
    float *data = calloc((size_t)ends[2], sizeof(float));
    struct vp_group *group = make_adding_group(processes, n);

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

static int run_processes(int argc, char **argv)
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
    };
    int n_failed;

    if (self.n < 2 || self.n > MAX_RANKS) {
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
    if (direct && !*what)
        n_failed += cmocka_run_group_tests(fast, NULL, NULL);
    if ((give_up || broken) && n_failed == 0) {
        puts("all know");
        fflush(stdout);
        /* The end of an aborted world kills the processes that still run. */
        meet_all("said");
        sleep(1); /* mpirun passes their output on */
    }
    vp_world_set_device(processes, NULL);
    vp_world_free(processes);
    vp_event_free(mark);
    return n_failed;
}

int main(int argc, char **argv)
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

    if (argc > 1)
        return run_processes(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
