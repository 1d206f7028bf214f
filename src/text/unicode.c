/* Lower case, NFD and NFC with the generated tables of unicode_tables.h. */
#include "text/unicode.h"

#include <stdbool.h>
#include <string.h>

/* Hangul syllables are computed (Unicode Standard, 3.12). */
enum {
    HANGUL_S = 0xAC00, /* syllables */
    HANGUL_L = 0x1100, /* leading consonants */
    HANGUL_V = 0x1161, /* vowels */
    HANGUL_T = 0x11A7, /* trailing consonants; index 0 means none */
    N_L = 19,
    N_V = 21,
    N_T = 28,
    N_S = N_L * N_V * N_T,
};

/* Runs of up to FEW_MARKS marks are sorted by insertion. */
enum { FEW_MARKS = 16, N_COMBINING = 256 };

/* Returns the first mapping whose range ends at or after `a`; with `pairs`, the
 * first mapping at or after (a, b). NULL if there is none. */
static const struct vp_unicode_mapping *find(
    const struct vp_unicode_mapping *list, int n, uint32_t a, uint32_t b,
    bool pairs)
{
    int low = 0, high = n;

    while (low < high) {
        int middle = low + (high - low) / 2;
        const uint32_t *from = list[middle].from;
        bool before = pairs ? from[0] < a || (from[0] == a && from[1] < b)
                            : from[1] < a;

        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n ? &list[low] : NULL;
}

int vp_unicode_to_lower(uint32_t c, uint32_t out[VP_UNICODE_SEQUENCE])
{
    const struct vp_unicode_mapping *mapping;

    if (!(vp_unicode_of(c) & VP_UNICODE_UPPER)) {
        out[0] = c;
        return 1;
    }
    mapping = find(vp_unicode_lower, vp_unicode_n_lower, c, 0, false);
    memcpy(out, mapping->to, sizeof(mapping->to));
    return mapping->n_to;
}

/* ---- NFD ---------------------------------------------------------------- */

static void add_hangul(struct vp_code_points *points, uint32_t c)
{
    uint32_t s = c - HANGUL_S;

    points->at[points->n++] = HANGUL_L + s / (N_V * N_T);
    points->at[points->n++] = HANGUL_V + s / N_T % N_V;
    if (s % N_T != 0)
        points->at[points->n++] = HANGUL_T + s % N_T;
}

enum vp_status vp_unicode_add_nfd(struct vp_code_points *points, uint32_t c)
{
    const struct vp_unicode_mapping *mapping;

    VP_TRY(vp_code_points_reserve(points, VP_UNICODE_SEQUENCE));
    if (c - HANGUL_S < N_S) {
        add_hangul(points, c);
    } else if (vp_unicode_of(c) & VP_UNICODE_COMPOSED) {
        mapping = find(vp_unicode_decompose, vp_unicode_n_decompose, c, 0,
                       false);
        for (int i = 0; i < mapping->n_to; i++)
            points->at[points->n++] = mapping->to[i];
    } else {
        points->at[points->n++] = c;
    }
    return VP_OK;
}

static unsigned combining_of(uint32_t c)
{
    const struct vp_unicode_mapping *range;

    if (!(vp_unicode_of(c) & VP_UNICODE_COMBINING))
        return 0;
    range = find(vp_unicode_combining, vp_unicode_n_combining, c, 0, false);
    return range->to[0];
}

static void sort_few(uint32_t *marks, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint32_t mark = marks[i];
        unsigned own = combining_of(mark);
        size_t k = i;

        for (; k > 0 && combining_of(marks[k - 1]) > own; k--)
            marks[k] = marks[k - 1];
        marks[k] = mark;
    }
}

/* Counting sort, so that sorting takes linear time for any text. */
static void sort_many(uint32_t *marks, size_t n, uint32_t *sorted)
{
    size_t start[N_COMBINING + 1] = { 0 };

    for (size_t i = 0; i < n; i++)
        start[combining_of(marks[i]) + 1]++;
    for (int k = 0; k < N_COMBINING; k++)
        start[k + 1] += start[k];
    for (size_t i = 0; i < n; i++)
        sorted[start[combining_of(marks[i])]++] = marks[i];
    memcpy(marks, sorted, n * sizeof(*marks));
}

enum vp_status vp_unicode_sort_marks(struct vp_code_points *points)
{
    size_t i = 0, end;

    while (i < points->n) {
        end = i;
        while (end < points->n &&
               vp_unicode_of(points->at[end]) & VP_UNICODE_COMBINING)
            end++;
        if (end - i > FEW_MARKS) {
            VP_TRY(vp_code_points_reserve(points, end - i));
            sort_many(points->at + i, end - i, points->at + points->n);
        } else if (end - i > 1) {
            sort_few(points->at + i, end - i);
        }
        i = end + 1;
    }
    return VP_OK;
}

/* ---- NFC ---------------------------------------------------------------- */

/* Returns the composition of a pair, or 0. */
static uint32_t compose_pair(uint32_t a, uint32_t b)
{
    const struct vp_unicode_mapping *pair;

    if (a - HANGUL_L < N_L && b - HANGUL_V < N_V)
        return HANGUL_S + ((a - HANGUL_L) * N_V + (b - HANGUL_V)) * N_T;
    if (a - HANGUL_S < N_S && (a - HANGUL_S) % N_T == 0 && b > HANGUL_T &&
        b < HANGUL_T + N_T)
        return a + (b - HANGUL_T);
    pair = find(vp_unicode_compose, vp_unicode_n_compose, a, b, true);
    if (pair && pair->from[0] == a && pair->from[1] == b)
        return pair->to[0];
    return 0;
}

void vp_unicode_compose_all(struct vp_code_points *points)
{
    uint32_t *at = points->at;
    size_t n = 0, starter = 0;
    bool has_starter = false;
    unsigned last = 0; /* combining class of the code point before */

    for (size_t i = 0; i < points->n; i++) {
        unsigned own = combining_of(at[i]);
        uint32_t composed = 0;

        /* A mark in between of the same or a higher class blocks
         * composition. */
        if (has_starter && (n == starter + 1 || last < own))
            composed = compose_pair(at[starter], at[i]);
        if (composed != 0) {
            at[starter] = composed;
            continue;
        }
        if (own == 0) {
            starter = n;
            has_starter = true;
        }
        last = own;
        at[n++] = at[i];
    }
    points->n = n;
}
