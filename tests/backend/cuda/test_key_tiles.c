/* For all shapes of attention's backward kernel, each tile of queries meets
 * each of its key tiles once and in order, no value is overwritten before it is
 * read, and each gradient is written once. */
#include "backend/cuda/attention/key_tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum {
    N_HEADS = 3,
    MAX_TILES = 16,
    MAX_KEY_TILES = 10,
    PLACES = 2 * VP_BAND_TILES,
    UNUSED = -1,
};

struct shape {
    int n_tiles, n_key_tiles;
    bool causal;
    int n_seen[N_HEADS];
};

/* Contents of the memory of a thread block. A tile of queries has the number
 * head * MAX_TILES + tile. */
struct block {
    struct vp_key_tiles w;
    struct vp_key_tile t;
    int stats[PLACES];
    int read_before; /* the place whose statistics the last step reads */
    /* Number of the tile whose dq each place holds. */
    int sums[VP_BAND_TILES];
    int n_added[N_HEADS * MAX_TILES]; /* key tiles added to a tile's dq */
    bool is_written[N_HEADS * MAX_TILES];
    /* dk and dv are kept for the next band. */
    bool waits[N_HEADS][MAX_KEY_TILES];
    int n_written[N_HEADS][MAX_KEY_TILES];
};

/* Number of key tiles that a query of the tile may see. */
static int key_tiles_seen(const struct shape *s, int head, int tile)
{
    int n = s->causal ? tile / VP_TILES_PER_KEY_TILE + 1 : s->n_key_tiles;

    return n < s->n_seen[head] ? n : s->n_seen[head];
}

/* The kernel may write the statistics of this step while the step before is
 * still reading, so they must lie in different places. */
static void check_stats(struct block *b, int tile, int number)
{
    int place = vp_key_tile_stats(&b->w, &b->t, tile) / VP_TILE_QUERIES;

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
    if (b->t.index + 1 < vp_key_tiles_seen(&b->w, &b->t, tile + 1))
        return;
    assert_int_equal(b->n_added[number],
                     key_tiles_seen(s, (int)b->t.number, tile));
    b->is_written[number] = true;
}

static void check_steps(struct block *b, const struct shape *s)
{
    int first = vp_key_tile_first_query_tile(&b->w, &b->t);
    int end = vp_key_tile_end_query_tile(&b->w, &b->t);

    assert_true(first < end);
    for (int tile = first; tile < end; tile++) {
        int number = (int)b->t.number * MAX_TILES + tile;

        check_stats(b, tile, number);
        check_dq(b, s, tile, number);
    }
}

/* dk and dv of a key tile are complete after the last band. */
static void check_keys(struct block *b)
{
    bool *waits = &b->waits[b->t.number][b->t.index];

    assert_int_equal(vp_key_tile_has_part(&b->w, &b->t), *waits);
    *waits = b->t.band + 1 < b->w.n_bands;
    if (*waits)
        assert_true(b->t.index < b->w.n_parts);
    else
        b->n_written[b->t.number][b->t.index]++;
}

static void check_walk(const struct shape *s)
{
    struct block b = {
        .w = vp_key_tiles_of(N_HEADS, s->n_tiles * VP_TILE_QUERIES,
                             s->n_key_tiles * VP_TILE_KEYS, s->causal),
        .read_before = UNUSED,
    };

    memset(b.stats, UNUSED, sizeof(b.stats));
    memset(b.sums, UNUSED, sizeof(b.sums));
    while (b.t.number < N_HEADS) {
        struct vp_key_tile last = b.t;

        if (vp_key_tile_is_first_of_head(&b.t))
            last.n_seen = b.t.n_seen = s->n_seen[b.t.number];
        check_steps(&b, s);
        check_keys(&b);
        if (vp_key_tile_advance(&b.w, &b.t, 1)) /* no query sees the rest */
            for (int i = last.index + 1; i < s->n_key_tiles; i++)
                b.n_written[last.number][i]++;
    }
    for (int head = 0; head < N_HEADS; head++) {
        for (int tile = 0; tile < s->n_tiles; tile++)
            assert_true(b.is_written[head * MAX_TILES + tile]);
        for (int i = 0; i < s->n_key_tiles; i++)
            assert_int_equal(b.n_written[head][i], 1);
    }
}

static void every_gradient_is_whole(void **state)
{
    struct shape s;

    (void)state;
    for (s.n_tiles = 1; s.n_tiles <= MAX_TILES; s.n_tiles++)
        for (s.n_key_tiles = 1; s.n_key_tiles <= MAX_KEY_TILES; s.n_key_tiles++)
            for (int seen = 1; seen <= s.n_key_tiles; seen++)
                for (int causal = 0; causal < 2; causal++) {
                    s.causal = causal;
                    s.n_seen[0] = seen;
                    s.n_seen[1] = s.n_key_tiles;
                    s.n_seen[2] = s.n_key_tiles - seen + 1;
                    check_walk(&s);
                }
}

/* Heads of one query tile and three key tiles, of which the second head sees
 * two. Checks the place of the statistics at every step. */
static void statistics_alternate(void **state)
{
    static const int seen[] = { 3, 2, 3 };
    static const int expected[][3] = { /* head, key tile, place */
                                       { 0, 0, 0 }, { 0, 1, 0 }, { 0, 2, 0 },
                                       { 1, 0, 8 }, { 1, 1, 8 }, { 2, 0, 0 },
                                       { 2, 1, 0 }, { 2, 2, 0 }
    };
    struct vp_key_tiles w = vp_key_tiles_of(3, 3, 300, false);
    struct vp_key_tile t = { 0 };

    (void)state;
    assert_int_equal(w.n_tiles, 1);
    assert_int_equal(w.n_key_tiles, 3);
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        if (vp_key_tile_is_first_of_head(&t))
            t.n_seen = seen[t.number];
        assert_int_equal(t.number, expected[i][0]);
        assert_int_equal(t.index, expected[i][1]);
        assert_int_equal(vp_key_tile_stats(&w, &t, 0),
                         expected[i][2] * VP_TILE_QUERIES);
        vp_key_tile_advance(&w, &t, 1);
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
