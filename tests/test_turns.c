/* The way of a block through attention's backward, walked for all shapes that the
 * kernel takes: every tile of queries meets every turn of keys that it sees once
 * and in order, nothing is overwritten that is still to be read, and every
 * gradient is written once. */
#include "backend/cuda/attention/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum {
    N_HEADS = 3,
    MAX_TILES = 16,
    MAX_TURNS = 10,
    PLACES = 2 * VP_BAND_TILES,
    NOBODY = -1,
};

struct shape {
    int n_tiles, n_turns;
    bool causal;
    int n_seen[N_HEADS];
};

/* What is where, as the number of a head's tile: head * MAX_TILES + tile. */
struct block {
    struct vp_turns w;
    struct vp_turn t;
    int stats[PLACES];
    int read_before; /* the place whose statistics the last step reads */
    int sums[VP_BAND_TILES];          /* whose dq */
    int n_added[N_HEADS * MAX_TILES]; /* turns, to a tile's dq */
    bool is_written[N_HEADS * MAX_TILES];
    bool waits[N_HEADS][MAX_TURNS]; /* dk and dv, for the next band */
    int n_written[N_HEADS][MAX_TURNS];
};

/* The turns whose keys a query of the tile may see. */
static int turns_seen(const struct shape *s, int head, int tile)
{
    int n = s->causal ? tile / VP_TURN_TILES + 1 : s->n_turns;

    return n < s->n_seen[head] ? n : s->n_seen[head];
}

/* The statistics of this step may be written while the one before is read. */
static void check_stats(struct block *b, int tile, int number)
{
    int place = vp_turn_stats(&b->w, &b->t, tile) / VP_TILE_QUERIES;

    assert_in_range(place, 0, PLACES - 1);
    if (b->t.index == 0) {
        assert_int_not_equal(place, b->read_before);
        b->stats[place] = number;
    }
    assert_int_equal(b->stats[place], number);
    b->read_before = place;
}

static void check_dq(struct block *b, const struct shape *s, int tile,
                     int number)
{
    int *owner = &b->sums[tile % VP_BAND_TILES];

    if (b->t.index == 0)
        *owner = number;
    assert_int_equal(*owner, number);
    assert_false(b->is_written[number]);
    assert_int_equal(b->n_added[number]++, b->t.index);
    if (b->t.index + 1 < vp_turn_until(&b->w, &b->t, tile + 1))
        return;
    assert_int_equal(b->n_added[number], turns_seen(s, (int)b->t.number, tile));
    b->is_written[number] = true;
}

static void check_steps(struct block *b, const struct shape *s)
{
    int first = vp_turn_first_tile(&b->w, &b->t);
    int end = vp_turn_end_tile(&b->w, &b->t);

    assert_true(first < end);
    for (int tile = first; tile < end; tile++) {
        int number = (int)b->t.number * MAX_TILES + tile;

        check_stats(b, tile, number);
        check_dq(b, s, tile, number);
    }
}

/* The keys of a turn have their gradient after the last band. */
static void check_keys(struct block *b)
{
    bool *waits = &b->waits[b->t.number][b->t.index];

    assert_int_equal(vp_turn_has_part(&b->w, &b->t), *waits);
    *waits = b->t.band + 1 < b->w.n_bands;
    if (*waits)
        assert_true(b->t.index < b->w.n_parts);
    else
        b->n_written[b->t.number][b->t.index]++;
}

static void check_walk(const struct shape *s)
{
    struct block b = {
        .w = vp_turns_of(N_HEADS, s->n_tiles * VP_TILE_QUERIES,
                         s->n_turns * VP_TURN_KEYS, s->causal),
        .read_before = NOBODY,
    };

    memset(b.stats, NOBODY, sizeof(b.stats));
    memset(b.sums, NOBODY, sizeof(b.sums));
    while (b.t.number < N_HEADS) {
        struct vp_turn last = b.t;

        if (vp_turn_is_first_of_head(&b.t))
            last.n_seen = b.t.n_seen = s->n_seen[b.t.number];
        check_steps(&b, s);
        check_keys(&b);
        if (vp_turn_advance(&b.w, &b.t, 1)) /* the rest is seen by nobody */
            for (int i = last.index + 1; i < s->n_turns; i++)
                b.n_written[last.number][i]++;
    }
    for (int head = 0; head < N_HEADS; head++) {
        for (int tile = 0; tile < s->n_tiles; tile++)
            assert_true(b.is_written[head * MAX_TILES + tile]);
        for (int i = 0; i < s->n_turns; i++)
            assert_int_equal(b.n_written[head][i], 1);
    }
}

static void every_gradient_is_whole(void **state)
{
    struct shape s;

    (void)state;
    for (s.n_tiles = 1; s.n_tiles <= MAX_TILES; s.n_tiles++)
        for (s.n_turns = 1; s.n_turns <= MAX_TURNS; s.n_turns++)
            for (int seen = 1; seen <= s.n_turns; seen++)
                for (int causal = 0; causal < 2; causal++) {
                    s.causal = causal;
                    s.n_seen[0] = seen;
                    s.n_seen[1] = s.n_turns;
                    s.n_seen[2] = s.n_turns - seen + 1;
                    check_walk(&s);
                }
}

/* Heads of one tile and three turns, of which the second sees two: where
 * statistics lie, step by step. */
static void statistics_alternate(void **state)
{
    static const int seen[] = { 3, 2, 3 };
    static const int expected[][3] = { /* head, turn, place */
                                       { 0, 0, 0 }, { 0, 1, 0 }, { 0, 2, 0 },
                                       { 1, 0, 8 }, { 1, 1, 8 }, { 2, 0, 0 },
                                       { 2, 1, 0 }, { 2, 2, 0 }
    };
    struct vp_turns w = vp_turns_of(3, 3, 300, false);
    struct vp_turn t = { 0 };

    (void)state;
    assert_int_equal(w.n_tiles, 1);
    assert_int_equal(w.n_turns, 3);
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        if (vp_turn_is_first_of_head(&t))
            t.n_seen = seen[t.number];
        assert_int_equal(t.number, expected[i][0]);
        assert_int_equal(t.index, expected[i][1]);
        assert_int_equal(vp_turn_stats(&w, &t, 0),
                         expected[i][2] * VP_TILE_QUERIES);
        vp_turn_advance(&w, &t, 1);
    }
    assert_int_equal(t.number, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_is_whole),
        cmocka_unit_test(statistics_alternate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
