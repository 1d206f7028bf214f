/* Places memory that is needed for intervals of time: largest first, each
 * lifetime gets the lowest offset that is free during all of it.
 *
 * The number of lifetimes grows with the number of layers, and with one slot
 * most of them overlap in time, so comparing every pair takes too long.
 * Instead, the bytes taken are kept as sets of spans in two binary trees over
 * time. Time is counted in steps: the moments at which a lifetime begins.
 *
 *   covers   a node has the lifetimes that last during all of its steps and are in
 *            no node above it
 *   begins   a node has the lifetimes that begin in its steps
 *
 * The lifetimes that overlap [first, last] are those that cover step `first`,
 * found on the path from its leaf to the root, and those that begin later,
 * found in the few nodes that make up (first, last]. Adjacent spans are merged,
 * so a search skips many lifetimes at once. */
#include "graph/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sets of bytes ------------------------------------------------------ */

struct span {
    int64_t begin, end;
};

/* Spans in ascending order, with a gap between any two. */
struct set {
    struct span *at;
    int n, room;
};

/* Returns the index of the first span that ends after `offset`. */
static int find_span(const struct set *set, int64_t offset)
{
    int begin = 0, end = set->n;

    while (begin < end) {
        int middle = begin + (end - begin) / 2;

        if (set->at[middle].end > offset)
            end = middle;
        else
            begin = middle + 1;
    }
    return begin;
}

/* Makes memory for one more span. Returns false when out of memory. */
static bool make_room(struct set *set)
{
    int room = set->room > 0 ? 2 * set->room : 2;
    struct span *at;

    if (set->n < set->room)
        return true;
    at = realloc(set->at, (size_t)room * sizeof(*at));
    if (!at)
        return false;
    set->at = at;
    set->room = room;
    return true;
}

/* Adds the bytes of `span` to the set. Returns false when out of memory. */
static bool add_span(struct set *set, struct span span)
{
    int first = find_span(set, span.begin), last;

    if (first > 0 && set->at[first - 1].end == span.begin)
        first--;
    for (last = first; last < set->n && set->at[last].begin <= span.end; last++)
        if (set->at[last].end > span.end)
            span.end = set->at[last].end;
    if (first < last && set->at[first].begin < span.begin)
        span.begin = set->at[first].begin;
    if (first == last && !make_room(set))
        return false;
    /* One span replaces those in [first, last). */
    memmove(&set->at[first + 1], &set->at[last],
            (size_t)(set->n - last) * sizeof(*set->at));
    set->n += 1 - (last - first);
    set->at[first] = span;
    return true;
}

/* Returns the lowest offset, at least `offset`, where `n_bytes` are free. */
static int64_t find_gap(const struct set *set, int64_t offset, int64_t n_bytes)
{
    for (int i = find_span(set, offset);
         i < set->n && set->at[i].begin - offset < n_bytes; i++)
        offset = set->at[i].end;
    return offset;
}

/* ---- Steps -------------------------------------------------------------- */

struct board {
    int64_t *steps; /* moments at which lifetimes begin, ascending */
    int n_steps;
    int n_leaves;                /* a power of two */
    struct set *covers, *begins; /* node 1 is the root, 2 k and 2 k + 1 are the
                                    children of k, leaves come last */
};

enum { MAX_SETS = 128 }; /* most sets of a search: a few per tree level */

static int by_moment(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Returns the number of steps at or before `moment`. */
static int n_steps_until(const struct board *board, int64_t moment)
{
    int begin = 0, end = board->n_steps;

    while (begin < end) {
        int middle = begin + (end - begin) / 2;

        if (board->steps[middle] > moment)
            end = middle;
        else
            begin = middle + 1;
    }
    return begin;
}

static bool set_up(struct board *board, const struct vp_lifetime *lives, int n)
{
    size_t n_nodes;

    board->steps = malloc((size_t)n * sizeof(*board->steps));
    if (!board->steps)
        return false;
    for (int i = 0; i < n; i++)
        board->steps[i] = lives[i].first;
    qsort(board->steps, (size_t)n, sizeof(*board->steps), by_moment);
    for (int i = 0; i < n; i++)
        if (i == 0 || board->steps[i] > board->steps[board->n_steps - 1])
            board->steps[board->n_steps++] = board->steps[i];
    for (board->n_leaves = 1; board->n_leaves < board->n_steps;)
        board->n_leaves *= 2;
    n_nodes = 2 * (size_t)board->n_leaves;
    board->covers = calloc(n_nodes, sizeof(*board->covers));
    board->begins = calloc(n_nodes, sizeof(*board->begins));
    return board->covers && board->begins;
}

static void release(struct board *board)
{
    for (int k = 0; board->covers && board->begins && k < 2 * board->n_leaves;
         k++) {
        free(board->covers[k].at);
        free(board->begins[k].at);
    }
    free(board->covers);
    free(board->begins);
    free(board->steps);
}

/* ---- Placing ------------------------------------------------------------ */

/* Finds the nodes that together have exactly steps [first, end). Returns their
 * number. */
static int split_range(const struct board *board, int first, int end,
                       int nodes[MAX_SETS])
{
    int n = 0, low = first + board->n_leaves, high = end + board->n_leaves;

    for (; low < high; low /= 2, high /= 2) {
        if (low % 2 == 1)
            nodes[n++] = low++;
        if (high % 2 == 1)
            nodes[n++] = --high;
    }
    return n;
}

/* Finds the sets of all lifetimes that overlap steps [first, end). Returns
 * their number. */
static int find_sets(const struct board *board, int first, int end,
                     const struct set *sets[MAX_SETS])
{
    int nodes[MAX_SETS], n = 0;
    int n_nodes = split_range(board, first + 1, end, nodes);

    for (int k = first + board->n_leaves; k > 0; k /= 2)
        if (board->covers[k].n > 0)
            sets[n++] = &board->covers[k];
    for (int i = 0; i < n_nodes; i++)
        if (board->begins[nodes[i]].n > 0)
            sets[n++] = &board->begins[nodes[i]];
    return n;
}

/* Finds the offset of `life` and adds its bytes to both trees. Returns false
 * when out of memory. */
static bool place(struct board *board, struct vp_lifetime *life)
{
    int first = n_steps_until(board, life->first) - 1;
    int end = n_steps_until(board, life->last);
    const struct set *sets[MAX_SETS];
    int nodes[MAX_SETS];
    int n = find_sets(board, first, end, sets);
    struct span span;

    /* Goes around the sets until all of them are free at the same offset. */
    life->offset = 0;
    for (int i = 0, n_agree = 0; n_agree < n; i = (i + 1) % n) {
        int64_t offset = find_gap(sets[i], life->offset, life->n_bytes);

        n_agree = offset == life->offset ? n_agree + 1 : 1;
        life->offset = offset;
    }
    span = (struct span){ life->offset, life->offset + life->n_bytes };
    for (int k = first + board->n_leaves; k > 0; k /= 2)
        if (!add_span(&board->begins[k], span))
            return false;
    n = split_range(board, first, end, nodes);
    for (int i = 0; i < n; i++)
        if (!add_span(&board->covers[nodes[i]], span))
            return false;
    return true;
}

static int larger_first(const void *a, const void *b)
{
    const struct vp_lifetime *x = a, *y = b;

    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

enum vp_status vp_lifetimes_place(struct vp_lifetime *lives, int n,
                                  int64_t *n_bytes_out)
{
    struct board board = { .n_steps = 0 };
    int64_t n_bytes = 0;
    bool ok = n == 0 || set_up(&board, lives, n);

    if (n > 0)
        qsort(lives, (size_t)n, sizeof(*lives), larger_first);
    for (int i = 0; ok && i < n; i++) {
        ok = place(&board, &lives[i]);
        if (lives[i].offset + lives[i].n_bytes > n_bytes)
            n_bytes = lives[i].offset + lives[i].n_bytes;
    }
    release(&board);
    if (!ok)
        return VP_ERR_NOMEM;
    *n_bytes_out = n_bytes;
    return VP_OK;
}
