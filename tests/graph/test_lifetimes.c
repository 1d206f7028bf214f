/* vp_lifetimes_place() finds the same offsets as a comparison of all pairs, in
 * time that grows linearly. */
#include "base/rng.h"
#include "graph/internal.h"
#include "lib/growth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct vp_lifetime *new_lives(int n)
{
    struct vp_lifetime *lives = calloc((size_t)n + 1, sizeof(*lives));

    if (!lives)
        abort();
    return lives;
}

static bool overlap(const struct vp_lifetime *a, const struct vp_lifetime *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static bool collide(const struct vp_lifetime *a, const struct vp_lifetime *b)
{
    return overlap(a, b) && a->offset < b->offset + b->n_bytes &&
           b->offset < a->offset + a->n_bytes;
}

/* Finds the lowest free offset of lives[i] beside the earlier ones: 0, or the
 * end of one of them. */
static int64_t lowest_place(const struct vp_lifetime *lives, int i)
{
    int64_t lowest = INT64_MAX;

    for (int k = -1; k < i; k++) {
        struct vp_lifetime life = lives[i];
        bool is_free = true;

        life.offset = k < 0 ? 0 : lives[k].offset + lives[k].n_bytes;
        for (int j = 0; is_free && j < i; j++)
            is_free = !collide(&life, &lives[j]);
        if (is_free && life.offset < lowest)
            lowest = life.offset;
    }
    return lowest;
}

static void check(struct vp_lifetime *lives, int n)
{
    int64_t n_bytes = -1, most = 0;

    assert_int_equal(vp_lifetimes_place(lives, n, &n_bytes), VP_OK);
    for (int i = 0; i < n; i++) {
        int64_t end = lives[i].offset + lives[i].n_bytes;

        if (i > 0)
            assert_true(lives[i].n_bytes < lives[i - 1].n_bytes ||
                        (lives[i].n_bytes == lives[i - 1].n_bytes &&
                         lives[i].id > lives[i - 1].id));
        assert_int_equal(lives[i].offset, lowest_place(lives, i));
        most = end > most ? end : most;
    }
    assert_int_equal(n_bytes, most);
}

/* Small ranges of times and sizes, so that lifetimes touch and gaps are filled
 * exactly. */
static void random_lives(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 1500; t++) {
        struct vp_rng4 dice = vp_rng(1, VP_RNG_TEST, 0, t, 0, 0);
        int n = (int)vp_rng_below(dice.v[0], t % 30 == 0 ? 120 : 40);
        uint32_t span = 1 + vp_rng_below(dice.v[1], 60);
        uint32_t sizes = 1 + vp_rng_below(dice.v[2], 12);
        uint32_t longest = 1 + vp_rng_below(dice.v[3], span);
        struct vp_lifetime *lives = new_lives(n);

        for (int i = 0; i < n; i++) {
            struct vp_rng4 r = vp_rng(1, VP_RNG_TEST, 1, t, (uint64_t)i, 0);

            lives[i].id = i;
            lives[i].first = (int64_t)vp_rng_below(r.v[0], span) - 3;
            lives[i].last = lives[i].first + vp_rng_below(r.v[1], longest);
            lives[i].n_bytes = 1 + vp_rng_below(r.v[2], sizes);
            if (r.v[3] % 17 == 0)
                lives[i].last = INT64_MAX;
        }
        check(lives, n);
        free(lives);
    }
}

static void no_lives(void **state)
{
    int64_t n_bytes = -1;

    (void)state;
    assert_int_equal(vp_lifetimes_place(NULL, 0, &n_bytes), VP_OK);
    assert_int_equal(n_bytes, 0);
}

/* ---- Time --------------------------------------------------------------- */

enum shape { NESTED, CHAIN, STAIRS, SHAPE_COUNT };

/* Lifetimes from forward to backward (NESTED), within a list (CHAIN), or of
 * values that linger (STAIRS). */
static struct vp_lifetime make_life(enum shape shape, int i, int n)
{
    static const int64_t sizes[] = { 4096, 1024, 3072, 256, 1024 };
    struct vp_lifetime life = { .id = i, .n_bytes = sizes[i % 5] };

    life.first = i;
    life.last = shape == NESTED  ? 2 * (int64_t)n - i
                : shape == CHAIN ? i + 3
                                 : i + n / 4;
    return life;
}

static void plan_many(void *ctx, int n)
{
    enum shape shape = *(enum shape *)ctx;
    struct vp_lifetime *lives = new_lives(n);
    int64_t n_bytes;

    for (int i = 0; i < n; i++)
        lives[i] = make_life(shape, i, n);
    assert_int_equal(vp_lifetimes_place(lives, n, &n_bytes), VP_OK);
    free(lives);
}

static void many_lives(void **state)
{
    (void)state;
    for (enum shape shape = 0; shape < SHAPE_COUNT; shape++)
        assert_grows_slowly("lives", plan_many, &shape, 40000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives),
        cmocka_unit_test(no_lives),
        cmocka_unit_test(many_lives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
