#include "lib/comm_suite.h"

#include "base/clock.h"
#include "base/rng.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

struct vp_limit in_ms(int64_t ms)
{
    return vp_limit_ms(ms);
}

/* ---- Worlds ------------------------------------------------------------- */

struct vp_world *comm_processes;

bool comm_direct; /* devices of processes reach each other */

struct vp_event *comm_mark; /* event of all messages between devices */

struct vp_world *open_world(int n)
{
    struct vp_world *world;

    if (comm_processes)
        return n <= vp_world_n_ranks(comm_processes) ? comm_processes : NULL;
    assert_int_equal(vp_world_create(n, &world), VP_OK);
    return world;
}

void close_world(struct vp_world *world)
{
    if (!comm_processes)
        vp_world_free(world);
}

bool is_mine(int rank)
{
    return !comm_processes || vp_world_is_mine(comm_processes, rank);
}

struct vp_group *make_group(struct vp_world *world, int n, size_t n_bytes)
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

struct vp_group *make_adding_group(struct vp_world *world, int n)
{
    int ranks[MAX_RANKS] = { 0 };
    struct vp_group *group = NULL;

    if (!comm_direct)
        return make_group(world, n, 0);
    for (int i = 0; i < n; i++)
        ranks[i] = i;
    assert_int_equal(vp_direct_group_create(world, ranks, n, &group), VP_OK);
    for (int i = 0; group && i < n; i++)
        if (is_mine(i))
            vp_group_set_adder(group, i, add_terms, NULL);
    return group;
}

struct vp_channel *make_channel(struct vp_world *world, int n_senders,
                                int n_buffers, const struct vp_buffer *buffers)
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
                            .direct = comm_direct };

    assert_int_equal(vp_channel_create(world, &link, &channel), VP_OK);
    return channel;
}

/* ---- Rank threads ------------------------------------------------------- */

static void *rank_main(void *arg)
{
    struct rank *rank = arg;

    rank->main(rank);
    return NULL;
}

void run_ranks(int n, void (*main)(struct rank *rank), void *job)
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

/* Rank 0 receives; sender k sends the messages of its residue class. */
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

void wrap_letters(struct letter *letters, int n, struct vp_buffer *buffers)
{
    for (int i = 0; i < n; i++)
        buffers[i] = (struct vp_buffer){ .self = &letters[i],
                                         .head = &letters[i].number,
                                         .n_head = sizeof(int),
                                         .body = letters[i].body,
                                         .n_body = sizeof(letters[i].body),
                                         .written = comm_mark,
                                         .read = comm_mark };
}

void messages_arrive_in_order(void **state)
{
    (void)state;
    for (int n_senders = 1; n_senders <= 3; n_senders++)
        for (int n_buffers = 1; n_buffers <= 4; n_buffers++) {
            struct relay relay = { .n_senders = n_senders,
                                   .n_messages = comm_direct ? 300 : 2000 };
            struct vp_world *world = open_world(n_senders + 1);
            /* Receives that were posted ahead use the buffers until the world
             * ends. */
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

void meet_all(const char *what)
{
    const char *job = getenv("PMIX_NAMESPACE");
    int n = vp_world_n_ranks(comm_processes);
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

/* Rank 1 aborts. Rank 0, and with threads the others too, wait for its
 * message. */
static void stuck_rank(struct rank *rank)
{
    struct stuck *stuck = rank->job;
    void *buffer;

    if (rank->index == 1) {
        vp_world_abort(stuck->world, VP_ERR_NONFINITE, "first words");
        vp_world_abort(stuck->world, VP_ERR_IO, "second words");
    } else if (rank->index == 0 || !comm_processes) {
        enum vp_status st = vp_channel_wait(stuck->channel, 0, in_ms(20000),
                                            &buffer);

        atomic_fetch_add(&stuck->n_aborted, st == VP_ERR_ABORTED);
    }
}

void abort_frees_everybody(void **state)
{
    struct stuck stuck = { .world = open_world(4), .n_aborted = 0 };
    static struct letter letter;
    struct vp_buffer buffer;
    int64_t start = vp_clock_ns();
    struct vp_err err = { .text = "none" };

    (void)state;
    if (!stuck.world)
        stuck.world = comm_processes;
    wrap_letters(&letter, 1, &buffer);
    assert_int_equal(vp_world_status(stuck.world, &err), VP_OK);
    stuck.channel = make_channel(stuck.world, 1, 1, &buffer);
    if (comm_processes)
        meet_all("channel"); /* an abort would also end channel creation */
    run_ranks(comm_processes ? 2 : 4, stuck_rank, &stuck);
    assert_int_equal(atomic_load(&stuck.n_aborted),
                     comm_processes ? is_mine(0) : 3);
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

float term(int member, int64_t i)
{
    /* Magnitudes differ: the sum depends on the order of additions. */
    static const float sizes[] = { 1e8f, 1.0f, -1e8f, 3.0f };

    return sizes[(member + (int)i) % 4] * (float)(i + 1);
}

static void sums_rank(struct rank *rank)
{
    struct sums *sums = rank->job;
    /* Members add in reverse order; the second array only receives the
     * result. */
    struct vp_term terms[] = {
        { sums->copies[rank->index], 0, true },
        { sums->data[rank->index], sums->n_members - rank->index, false },
    };
    int all[MAX_RANKS];
    int n_rounds = comm_direct || sums->n > 1000 ? 5 : 50;

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

void sums_are_exact_in_their_order(void **state)
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
            sums.group = comm_direct ? make_adding_group(world, n_members)
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

/* ---- Sums by pieces ----------------------------------------------------- */

static int draw(uint32_t member, uint32_t round, uint32_t *count, int n)
{
    struct vp_rng4 r = vp_rng(9, VP_RNG_TEST, member, round, (*count)++, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

/* Draws parts that one member needs, some of them empty, and parts that all
 * members need. */
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

/* Returns true if `member` needs element `i` of the sum. */
static bool needs(const struct pieces *p, int member, int64_t i)
{
    int k = 0;

    while (k < p->n_parts && i >= p->parts[k].end)
        k++;
    return p->n_parts == 0 || p->parts[k].owner < 0 ||
           p->parts[k].owner == member;
}

bool open_pieces(struct pieces *p, int n_members, int n_pieces, bool parts)
{
    uint32_t count = 0;
    int64_t end = 0;

    *p = (struct pieces){ .n_members = n_members,
                          .n_pieces = n_pieces,
                          .world = open_world(n_members) };
    if (!p->world)
        return false;
    for (int i = 0; i < n_pieces; i++) /* some empty, one long */
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

void close_pieces(struct pieces *p)
{
    for (int i = 0; i < p->n_members; i++)
        free(p->data[i]);
    close_world(p->world);
}

/* Returns true if the member adds nothing: member 1 of three or more, in odd
 * rounds. Between devices the terms must not change, so it never adds. */
static bool only_receives(const struct pieces *p, int member, int round)
{
    return p->n_members > 2 && member == 1 && (comm_direct || round % 2 == 1);
}

float sum_of(const struct pieces *p, int64_t i, int round)
{
    float sum = term(0, i + round);

    for (int k = 1; k < p->n_members; k++)
        if (!only_receives(p, k, round))
            sum += term(k, i + round);
    return sum;
}

void write_piece(struct pieces *p, int member, int piece, int round)
{
    for (int64_t i = piece ? p->ends[piece - 1] : 0; i < p->ends[piece]; i++)
        p->data[member][i] = term(member, i + round);
}

/* Writes and offers some of the pieces in random order, with pauses and
 * additions in between. Writes the other pieces before, without offering
 * them. */
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

    for (int round = 0; round < (comm_direct ? N_SUMS / 5 : N_SUMS); round++) {
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

void pieces_are_added_in_any_order(void **state)
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

void parts_go_to_their_owners(void **state)
{
    (void)state;
    for (int n_members = 1; n_members <= 5 && !comm_direct; n_members++)
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

/* Every member gives some bytes or none, to all members or to one. Its own
 * bytes lie in their place of the result, or elsewhere. */
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
                            ends, receiver, round % 3 == 0 });
        rank->n_errors += vp_group_end_gather(g->group, me, in_ms(LONG_MS)) !=
                          VP_OK;
        if (round % 3 == 0) /* own bytes may change at once */
            memset(own, 0x5a, MOST_EACH);
        else if (receiver < 0) /* or after this exchange */
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

void gathers_bring_all_bytes(void **state)
{
    (void)state;
    for (int n = 1; n <= 5 && !comm_direct; n++) {
        struct vp_world *world = open_world(n);
        struct gathers g = { .n_members = n };

        if (!world)
            continue;
        g.group = make_group(world, n, 0);
        run_ranks(n, gathers_rank, &g);
        close_world(world);
    }
}
