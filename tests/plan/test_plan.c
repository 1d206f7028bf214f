/* vp_plan_balance() finds the best of all partitions; random cases are compared
 * with brute force, others with known answers. */
#include "plan/balance.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BLOCKS = 12 };

struct best {
    double max, squares;
    int partition[MAX_BLOCKS];
};

/* Computes the maximum and the sum of squares of the stage costs. Costs are
 * integers, so the sums are exact. */
static void judge(const double *costs, int n, int n_stages,
                  const int *partition, double *max, double *squares)
{
    int i = 0;

    *max = *squares = 0.0;
    for (int s = 0; s < n_stages; s++) {
        double sum = 0.0;

        for (int end = i + partition[s]; i < end; i++)
            sum += costs[s * n + i];
        *max = sum > *max ? sum : *max;
        *squares += sum * sum;
    }
}

/* Tries all partitions, early cuts first. Of equally good ones the first is
 * kept. */
static void try_all(const double *costs, int n, int n_stages, int stage,
                    int left, int *partition, struct best *best)
{
    double max, squares;

    if (stage == n_stages - 1) {
        partition[stage] = left;
        judge(costs, n, n_stages, partition, &max, &squares);
        if (max < best->max || (max == best->max && squares < best->squares)) {
            best->max = max;
            best->squares = squares;
            memcpy(best->partition, partition,
                   (size_t)n_stages * sizeof(*partition));
        }
        return;
    }
    for (int k = 1; k <= left - (n_stages - 1 - stage); k++) {
        partition[stage] = k;
        try_all(costs, n, n_stages, stage + 1, left - k, partition, best);
    }
}

static uint32_t draw(uint32_t round, uint32_t i, uint32_t n)
{
    return vp_rng_below(vp_rng(5, VP_RNG_TEST, 0, round, i, 0).v[0], n);
}

static void equals_brute_force(void **state)
{
    /* A small number of different costs gives many ties. */
    static const uint32_t kinds[] = { 2, 3, 10, 1000 };
    uint32_t round = 0;

    (void)state;
    for (int n = 1; n <= MAX_BLOCKS; n++)
        for (int n_stages = 1; n_stages <= n; n_stages++)
            for (int repeat = 0; repeat < 24; repeat++, round++) {
                double costs[MAX_BLOCKS * MAX_BLOCKS];
                int partition[MAX_BLOCKS], trial[MAX_BLOCKS];
                struct best best = { .max = INFINITY };

                /* Every other time the costs are the same on all stages. */
                for (int i = 0; i < n_stages * n; i++)
                    costs[i] = draw(round, (uint32_t)(repeat % 2 ? i % n : i),
                                    kinds[repeat / 2 % 4]);
                assert_int_equal(vp_plan_balance(costs, n, n_stages, partition),
                                 VP_OK);
                try_all(costs, n, n_stages, 0, n, trial, &best);
                for (int s = 0; s < n_stages; s++)
                    if (partition[s] != best.partition[s])
                        fail_msg("%d blocks, %d stages, round %u: stage %d has "
                                 "%d, not %d",
                                 n, n_stages, round, s, partition[s],
                                 best.partition[s]);
            }
}

static void known_answers(void **state)
{
    static const struct {
        int n, n_stages;
        double costs[9]; /* per block, on every stage */
        int want[4];
    } cases[] = {
        { 8, 4, { 1, 1, 1, 1, 1, 1, 1, 1 }, { 2, 2, 2, 2 } },
        { 9, 4, { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, { 2, 2, 2, 3 } },
        { 5, 2, { 0, 0, 0, 0, 0 }, { 1, 4 } },
        /* One large block sets the maximum; the others are still balanced. */
        { 7, 4, { 1, 1, 1, 1, 1, 1, 9 }, { 2, 2, 2, 1 } },
        { 5, 3, { 9, 1, 1, 1, 1 }, { 1, 2, 2 } },
        { 4, 1, { 4, 3, 2, 1 }, { 4 } },
        { 4, 4, { 4, 3, 2, 1 }, { 1, 1, 1, 1 } },
    };

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(cases); k++) {
        int n = cases[k].n, n_stages = cases[k].n_stages;
        double costs[4 * 9];
        int partition[4];

        for (int i = 0; i < n_stages * n; i++)
            costs[i] = cases[k].costs[i % n];
        assert_int_equal(vp_plan_balance(costs, n, n_stages, partition), VP_OK);
        for (int s = 0; s < n_stages; s++)
            assert_int_equal(partition[s], cases[k].want[s]);
    }
}

/* Stage 1 has two replicas, which halve its costs. */
static void stages_may_differ(void **state)
{
    double costs[3 * 8];
    int partition[3];

    (void)state;
    for (int i = 0; i < 3 * 8; i++)
        costs[i] = i / 8 == 1 ? 0.5 : 1.0;
    assert_int_equal(vp_plan_balance(costs, 8, 3, partition), VP_OK);
    assert_int_equal(partition[0], 2);
    assert_int_equal(partition[1], 4);
    assert_int_equal(partition[2], 2);
}

/* Real costs: sums are rounded, but every block is in exactly one stage, and no
 * stage exceeds the known bound, mean + largest block. */
static void many_blocks(void **state)
{
    enum { N = 1500, N_STAGES = 16 };
    static double costs[N_STAGES * N];
    int partition[N_STAGES];
    double total = 0.0, max, squares;
    int n = 0;

    (void)state;
    for (int i = 0; i < N_STAGES * N; i++)
        costs[i] = 1e9 *
                   vp_rng_unit(
                       vp_rng(9, VP_RNG_TEST, 0, 0, (uint32_t)(i % N), 0).v[0]);
    for (int i = 0; i < N; i++)
        total += costs[i];
    assert_int_equal(vp_plan_balance(costs, N, N_STAGES, partition), VP_OK);
    for (int s = 0; s < N_STAGES; s++) {
        assert_true(partition[s] >= 1);
        n += partition[s];
    }
    assert_int_equal(n, N);
    judge(costs, N, N_STAGES, partition, &max, &squares);
    assert_true(max >= total / N_STAGES * (1 - 1e-9));
    assert_true(max <= total / N_STAGES + 1e9);
}

/* Returns the work of the rank that has most. */
static double busiest(const double *costs, int n, int n_stages, const int *rank,
                      const int *partition)
{
    double work[MAX_BLOCKS] = { 0.0 }, most = 0.0;
    int i = 0;

    for (int s = 0; s < n_stages; s++)
        for (int end = i + partition[s]; i < end; i++)
            work[rank[s]] += costs[s * n + i];
    for (int r = 0; r < n_stages; r++)
        most = work[r] > most ? work[r] : most;
    return most;
}

static void try_ranks(const double *costs, int n, int n_stages, int stage,
                      int left, const int *rank, int *partition, double *best)
{
    if (stage == n_stages - 1) {
        double most;

        partition[stage] = left;
        most = busiest(costs, n, n_stages, rank, partition);
        *best = most < *best ? most : *best;
        return;
    }
    for (int k = 1; k <= left - (n_stages - 1 - stage); k++) {
        partition[stage] = k;
        try_ranks(costs, n, n_stages, stage + 1, left - k, rank, partition,
                  best);
    }
}

/* Ranks with two stages each, in turn or in a V: the busiest rank never has
 * more work than with stages that are balanced separately, and in 4 of 5 cases
 * the least possible. */
static void ranks_are_balanced(void **state)
{
    int n_cases = 0, n_best = 0, n_better = 0;

    (void)state;
    for (uint32_t round = 0; round < 400; round++) {
        int n_ranks = 2 + (int)(round % 2), n_stages = 2 * n_ranks;
        int n = n_stages + (int)draw(round, 1000, 5);
        int rank[MAX_BLOCKS], plain[MAX_BLOCKS], got[MAX_BLOCKS];
        int trial[MAX_BLOCKS], sum = 0;
        double costs[MAX_BLOCKS * MAX_BLOCKS], best = INFINITY, most, before;

        for (int s = 0; s < n_stages; s++)
            rank[s] = s < n_ranks     ? s
                      : round / 2 % 2 ? s - n_ranks
                                      : n_stages - 1 - s;
        for (int i = 0; i < n_stages * n; i++)
            costs[i] = 1 + draw(round, (uint32_t)(i % n), 9);
        assert_int_equal(vp_plan_balance(costs, n, n_stages, plain), VP_OK);
        assert_int_equal(
            vp_plan_balance_ranks(costs, n, n_stages, rank, n_ranks, got),
            VP_OK);
        for (int s = 0; s < n_stages; s++) {
            assert_true(got[s] >= 1);
            sum += got[s];
        }
        assert_int_equal(sum, n);
        try_ranks(costs, n, n_stages, 0, n, rank, trial, &best);
        most = busiest(costs, n, n_stages, rank, got);
        before = busiest(costs, n, n_stages, rank, plain);
        assert_true(most <= before);
        n_better += most < before;
        n_best += most == best;
        n_cases++;
    }
    print_message("busiest rank: %d of %d as fast as can be, %d better than "
                  "balanced stages\n",
                  n_best, n_cases, n_better);
    assert_true(n_best * 5 >= n_cases * 4);
    assert_true(n_better * 4 >= n_cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_brute_force), cmocka_unit_test(known_answers),
        cmocka_unit_test(stages_may_differ),  cmocka_unit_test(many_blocks),
        cmocka_unit_test(ranks_are_balanced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
