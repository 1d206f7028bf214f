/* Balancing for ranks that own several stages: the busiest rank, not the
 * slowest stage, decides how long a minibatch takes. A local search starts from
 * the partition with balanced stages. A move takes a block from one stage,
 * gives one to another, and shifts the cuts between the two by one block. */
#include "plan/balance.h"

#include <stdbool.h>
#include <stdlib.h>

enum { MAX_PASSES = 1000 };

struct ranks {
    const double *prefix; /* [n_stages, n + 1]: cost of the blocks before i */
    const int *rank;      /* per stage: its rank */
    double *work;         /* per rank: seconds of its stages */
    int n, n_stages, n_ranks;
};

/* Compared in the order of the fields; less is better. */
struct value {
    double most;   /* work of the busiest rank */
    double ranks;  /* sum of squares over ranks */
    double stages; /* the same over stages */
};

static struct value judge(const struct ranks *ranks, const int *partition)
{
    struct value value = { 0.0, 0.0, 0.0 };
    int first = 0;

    for (int r = 0; r < ranks->n_ranks; r++)
        ranks->work[r] = 0.0;
    for (int s = 0; s < ranks->n_stages; s++) {
        const double *row = ranks->prefix + (size_t)s * ((size_t)ranks->n + 1);
        double cost = row[first + partition[s]] - row[first];

        ranks->work[ranks->rank[s]] += cost;
        value.stages += cost * cost;
        first += partition[s];
    }
    for (int r = 0; r < ranks->n_ranks; r++) {
        value.most = ranks->work[r] > value.most ? ranks->work[r] : value.most;
        value.ranks += ranks->work[r] * ranks->work[r];
    }
    return value;
}

/* Ignores differences in the last bits. */
static bool is_less(double a, double b)
{
    return a < b * (1.0 - 1e-9);
}

static bool is_better(const struct value *a, const struct value *b)
{
    if (is_less(a->most, b->most) || is_less(b->most, a->most))
        return a->most < b->most;
    if (is_less(a->ranks, b->ranks) || is_less(b->ranks, a->ranks))
        return a->ranks < b->ranks;
    return is_less(a->stages, b->stages);
}

/* Tries one move for each pair of stages and keeps every improvement. Returns
 * false if there was none. */
static bool improve(const struct ranks *ranks, int *partition,
                    struct value *value)
{
    bool better = false;

    for (int from = 0; from < ranks->n_stages; from++)
        for (int to = 0; to < ranks->n_stages; to++) {
            struct value next;

            if (from == to || partition[from] < 2)
                continue;
            partition[from]--;
            partition[to]++;
            next = judge(ranks, partition);
            if (is_better(&next, value)) {
                *value = next;
                better = true;
            } else {
                partition[from]++;
                partition[to]--;
            }
        }
    return better;
}

enum vp_status vp_plan_balance_ranks(const double *costs, int n, int n_stages,
                                     const int *rank, int n_ranks,
                                     int *partition_out)
{
    size_t row = (size_t)n + 1;
    double *prefix = calloc((size_t)n_stages * row, sizeof(*prefix));
    double *work = calloc((size_t)n_ranks, sizeof(*work));
    enum vp_status st = prefix && work
                            ? vp_plan_balance(costs, n, n_stages, partition_out)
                            : VP_ERR_NOMEM;
    struct ranks ranks = { prefix, rank, work, n, n_stages, n_ranks };

    if (st == VP_OK) {
        struct value value;
        int n_passes = 0;

        for (size_t s = 0; s < (size_t)n_stages; s++)
            for (size_t i = 0; i < (size_t)n; i++)
                prefix[s * row + i + 1] = prefix[s * row + i] +
                                          costs[s * (size_t)n + i];
        value = judge(&ranks, partition_out);
        while (n_passes++ < MAX_PASSES &&
               improve(&ranks, partition_out, &value))
            ;
    }
    free(prefix);
    free(work);
    return st;
}
