/* Exact balancing by dynamic programming, twice over the same table: first for
 * the smallest maximum M, then for the most even partition below M.
 *
 *   best(s, i)   of blocks i.. on stages s..
 *   best(S, n)   = 0
 *   best(s, i)   = min over j > i of join(cost of i .. j-1 on s, best(s+1, j))
 *
 * where join takes the larger one, or adds a square. Costs are not negative, so
 * the search for j ends where the stage alone is no better than what is known:
 * about n^2 steps in all for stages of similar size. */
#include "plan/balance.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

struct search {
    int n, n_stages;
    double *prefix; /* [n_stages, n + 1]: cost of the blocks before i */
    double *best;   /* [n_stages + 1, n + 1] */
    double limit;   /* no stage may cost more */
    bool squares;   /* join adds squares */
};

static double stage_cost(const struct search *search, int s, int i, int j)
{
    const double *row = search->prefix + (size_t)s * ((size_t)search->n + 1);

    return row[j] - row[i];
}

static double *best_at(const struct search *search, int s, int i)
{
    return search->best + (size_t)s * ((size_t)search->n + 1) + i;
}

static double join(const struct search *search, double cost, double rest)
{
    if (search->squares)
        return cost * cost + rest;
    return cost > rest ? cost : rest;
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

static double find_best(const struct search *search, int s, int i)
{
    double best = INFINITY;

    for (int j = i + 1; j <= search->n; j++) {
        double cost = stage_cost(search, s, i, j), value;

        if (cost > search->limit || join(search, cost, 0.0) >= best)
            break;
        value = join(search, cost, *best_at(search, s + 1, j));
        best = value < best ? value : best;
    }
    return best;
}

static void fill(struct search *search)
{
    for (int i = 0; i < search->n; i++)
        *best_at(search, search->n_stages, i) = INFINITY;
    *best_at(search, search->n_stages, search->n) = 0.0;
    for (int s = search->n_stages - 1; s >= 0; s--)
        for (int i = search->n; i >= 0; i--)
            *best_at(search, s, i) = find_best(search, s, i);
}

/* Walks along the table; the same sums give the same bits. */
static void read_cuts(const struct search *search, int *partition_out)
{
    int i = 0;

    for (int s = 0; s < search->n_stages; s++) {
        double want = *best_at(search, s, i);
        int j = i + 1;

        while (j < search->n && join(search, stage_cost(search, s, i, j),
                                     *best_at(search, s + 1, j)) != want)
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
        .best = calloc((rows + 1) * row, sizeof(double)),
        .limit = INFINITY,
    };
    bool ok = search.prefix && search.best;

    VP_BUG_ON(n_stages < 1 || n < n_stages);
    if (ok) {
        add_up(&search, costs);
        fill(&search);
        search.limit = *best_at(&search, 0, 0);
        search.squares = true;
        fill(&search);
        read_cuts(&search, partition_out);
    }
    free(search.prefix);
    free(search.best);
    return ok ? VP_OK : VP_ERR_NOMEM;
}
