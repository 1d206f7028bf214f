/* Exact balancing in two steps: first the smallest maximum M of the stages'
 * costs, then the most even partition whose stages cost at most M.
 *
 * One pass over the blocks per stage tells if stages of cost at most L suffice;
 * bisection over all doubles finds the smallest such L. Then dynamic
 * programming finds the least sum of squares:
 *
 *   best(s, i)   least sum for blocks i.. on stages s..
 *   best(S, n)   = 0
 *   best(s, i)   = min over j > i of (cost of i .. j-1 on s)^2 + best(s+1, j)
 *
 * only for those i at which stage s can begin if no stage costs more than M,
 * and only for those j at which the next stage can begin. If costs are similar
 * these are few. */
#include "plan/balance.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct search {
    int n, n_stages;
    double limit;   /* the largest cost that a stage may have */
    double *prefix; /* [n_stages, n + 1]: cost of the blocks before i */
    /* [n_stages + 1, n + 1]: true if stage s can begin with block i */
    bool *begins;
    /* [n_stages + 1, n + 1]: least sum of squares from there on */
    double *best;
};

static size_t index_of(const struct search *search, int s, int i)
{
    return (size_t)s * ((size_t)search->n + 1) + (size_t)i;
}

static double stage_cost(const struct search *search, int s, int i, int j)
{
    const double *row = search->prefix + index_of(search, s, 0);

    return row[j] - row[i];
}

static void add_up(struct search *search, const double *costs)
{
    size_t n = (size_t)search->n;

    for (size_t s = 0; s < (size_t)search->n_stages; s++) {
        double *row = search->prefix + s * (n + 1);

        row[0] = 0.0;
        for (size_t i = 0; i < n; i++)
            row[i + 1] = row[i] + costs[s * n + i];
    }
}

/* ---- The limit ---------------------------------------------------------- */

/* Finds the blocks at which each stage can begin. Returns true if the last
 * stage can end with the last block. A stage costs least if it begins as late
 * as possible. */
static bool find_begins(struct search *search)
{
    int n = search->n, n_stages = search->n_stages;

    memset(search->begins, 0, (size_t)n + 1);
    search->begins[0] = true;
    for (int s = 0; s < n_stages; s++) {
        const bool *here = search->begins + index_of(search, s, 0);
        bool *next = search->begins + index_of(search, s + 1, 0);
        int latest = -1;

        for (int i = 0; i <= n; i++) {
            next[i] = latest >= 0 &&
                      stage_cost(search, s, latest, i) <= search->limit;
            if (here[i])
                latest = i;
        }
    }
    return search->begins[index_of(search, n_stages, n)];
}

/* Bisection on the bits: non-negative doubles are ordered like their bits. */
static void find_limit(struct search *search)
{
    double most = INFINITY;
    uint64_t low = 0, high;

    memcpy(&high, &most, sizeof(high));
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        memcpy(&search->limit, &middle, sizeof(middle));
        if (find_begins(search))
            high = middle;
        else
            low = middle + 1;
    }
    memcpy(&search->limit, &high, sizeof(high));
    find_begins(search);
}

/* ---- The partition ------------------------------------------------------ */

static double join(const struct search *search, int s, int i, int j)
{
    double cost = stage_cost(search, s, i, j);

    return cost * cost + search->best[index_of(search, s + 1, j)];
}

/* `low`: the first block at which the next stage can begin. */
static double find_best(const struct search *search, int s, int i, int low)
{
    double best = INFINITY;

    for (int j = low > i ? low : i + 1; j <= search->n; j++) {
        double cost = stage_cost(search, s, i, j), value;

        if (cost > search->limit || cost * cost >= best)
            break;
        value = join(search, s, i, j);
        best = value < best ? value : best;
    }
    return best;
}

static void fill(struct search *search)
{
    int n = search->n, low = n;

    for (int i = 0; i < n; i++)
        search->best[index_of(search, search->n_stages, i)] = INFINITY;
    search->best[index_of(search, search->n_stages, n)] = 0.0;
    for (int s = search->n_stages - 1; s >= 0; s--) {
        int lowest = n + 1;

        for (int i = n; i >= 0; i--) {
            size_t at = index_of(search, s, i);

            search->best[at] = search->begins[at] ? find_best(search, s, i, low)
                                                  : (double)INFINITY;
            if (search->best[at] < (double)INFINITY)
                lowest = i;
        }
        low = lowest;
    }
}

/* Follows the best values through the table. The same sums give the same bits,
 * so exact comparison is safe. */
static void read_cuts(const struct search *search, int *partition_out)
{
    int i = 0;

    for (int s = 0; s < search->n_stages; s++) {
        double want = search->best[index_of(search, s, i)];
        int j = i + 1;

        while (j < search->n && join(search, s, i, j) != want)
            j++;
        partition_out[s] = j - i;
        i = j;
    }
}

enum vp_status vp_plan_balance(const double *costs, int n, int n_stages,
                               int *partition_out)
{
    size_t row = (size_t)n + 1, rows = (size_t)n_stages;
    struct search search = {
        .n = n,
        .n_stages = n_stages,
        .prefix = calloc(rows * row, sizeof(double)),
        .begins = calloc((rows + 1) * row, sizeof(bool)),
        .best = calloc((rows + 1) * row, sizeof(double)),
    };
    bool ok = search.prefix && search.begins && search.best;

    VP_BUG_ON(n_stages < 1 || n < n_stages);
    if (ok) {
        add_up(&search, costs);
        find_limit(&search);
        fill(&search);
        read_cuts(&search, partition_out);
    }
    free(search.prefix);
    free(search.begins);
    free(search.best);
    return ok ? VP_OK : VP_ERR_NOMEM;
}
