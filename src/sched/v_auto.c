/* V-auto: the shortest building block that keeps at most a given number of
 * chunks (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS
 * 2024).
 *
 * Blocks of this form are tried. On rank 0, F of the first stage is in slot 0
 * of the period of six; the other three actions have any other remainders
 * modulo six. Passes away from rank 0 (F of the first stage, B of the second)
 * take `slow` slots per rank on the first ranks and `fast` on the others;
 * passes towards rank 0 take one. An action is in the first slot after its
 * input that has its remainder. Blocks in which two minibatches need the same
 * slot are skipped; about 60 P blocks remain for P ranks.
 *
 * Among equally short blocks, the one is taken that is shortest if backward
 * takes longer than forward, and weight gradients less. */
#include "sched/internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD = 6, F_FIRST = 0, F_SECOND, B_SECOND, B_FIRST };

struct search {
    int n_ranks, n_mb, keeps;
    int (*block)[VP_V_BLOCK]; /* under construction */
    int (*best)[VP_V_BLOCK];
    struct vp_v_time time[2]; /* times of `best` at the costs below */
};

/* Parameters of a block. */
struct shape {
    int at[VP_V_BLOCK]; /* remainders on rank 0 */
    int slow, fast, n_slow;
};

static const struct vp_v_costs costs[2] = { { 1, 1, 1 }, { 5, 6, 4 } };

/* Returns the first slot after `slot` with this remainder. */
static int next_slot(int slot, int remainder)
{
    int ahead = (remainder - slot - 1) % PERIOD;

    return slot + 1 + (ahead < 0 ? ahead + PERIOD : ahead);
}

static bool is_free_of_collisions(const int slots[VP_V_BLOCK])
{
    unsigned seen = 0;

    for (int i = 0; i < VP_V_BLOCK; i++) {
        unsigned bit = 1u << slots[i] % PERIOD;

        if (seen & bit)
            return false;
        seen |= bit;
    }
    return true;
}

static bool make_block(struct search *search, const struct shape *shape)
{
    int last = search->n_ranks - 1, away = 0;
    int(*block)[VP_V_BLOCK] = search->block;

    block[0][F_FIRST] = 0;
    for (int rank = 1; rank <= last; rank++) {
        away += rank <= shape->n_slow ? shape->slow : shape->fast;
        block[rank][F_FIRST] = away;
    }
    block[0][F_SECOND] = next_slot(away + last, shape->at[F_SECOND]);
    block[0][B_SECOND] = next_slot(block[0][F_SECOND], shape->at[B_SECOND]);
    block[0][B_FIRST] = next_slot(block[0][B_SECOND] + away + last,
                                  shape->at[B_FIRST]);
    for (int rank = 0; rank <= last; rank++) {
        block[rank][F_SECOND] = block[0][F_SECOND] - rank;
        block[rank][B_SECOND] = block[0][B_SECOND] + block[rank][F_FIRST];
        block[rank][B_FIRST] = block[0][B_FIRST] - rank;
        if (!is_free_of_collisions(block[rank]))
            return false;
    }
    return true;
}

/* Returns the number of chunks that a rank keeps when the block repeats. */
static int keeps(const int slots[VP_V_BLOCK])
{
    int n_kept = 0, n_owed = 0, most = 0;

    for (int s = 0; s < slots[B_FIRST] + 3 * PERIOD; s++) {
        int k = 0;

        while (k < VP_V_BLOCK && (s < slots[k] || (s - slots[k]) % PERIOD != 0))
            k++;
        if (k <= F_SECOND) {
            n_kept++;
        } else if (k < VP_V_BLOCK) {
            n_owed++;
        } else if (n_owed > 0) {
            n_owed--;
            n_kept--;
        }
        most = n_kept > most ? n_kept : most;
    }
    return most;
}

static bool is_shorter(const struct vp_v_time a[2], const struct vp_v_time b[2])
{
    for (int i = 0; i < 2; i++) {
        if (a[i].all != b[i].all)
            return a[i].all < b[i].all;
        if (a[i].span != b[i].span)
            return a[i].span < b[i].span;
    }
    return false;
}

/* Skips blocks that keep two chunks less than allowed: they are never the
 * shortest. */
static void try_shape(struct search *search, const struct shape *shape)
{
    const int(*block)[VP_V_BLOCK] = (const int(*)[VP_V_BLOCK])search->block;
    struct vp_v_time time[2];
    int most = 0;

    if (!make_block(search, shape))
        return;
    for (int rank = 0; rank < search->n_ranks; rank++) {
        int n = keeps(block[rank]);

        most = n > most ? n : most;
    }
    if (most > search->keeps || most < search->keeps - 1)
        return;
    if (vp_v_block_times(block, search->n_ranks, search->n_mb, costs, 2,
                         time) &&
        is_shorter(time, search->time)) {
        memcpy(search->time, time, sizeof(time));
        memcpy(search->best, search->block,
               (size_t)search->n_ranks * sizeof(*search->best));
    }
}

static void try_steps(struct search *search, const int at[VP_V_BLOCK])
{
    struct shape shape = { .slow = 1 };

    memcpy(shape.at, at, sizeof(shape.at));
    for (; shape.slow < PERIOD; shape.slow++)
        for (shape.fast = 1; shape.fast <= shape.slow; shape.fast++) {
            bool same = shape.fast == shape.slow;

            for (shape.n_slow = same ? 0 : 1;
                 shape.n_slow < (same ? 1 : search->n_ranks - 1);
                 shape.n_slow++)
                try_shape(search, &shape);
        }
}

static void try_all(struct search *search)
{
    for (int i = 0; i < PERIOD * PERIOD * PERIOD; i++) {
        int at[VP_V_BLOCK] = { 0, i % PERIOD, i / PERIOD % PERIOD,
                               i / PERIOD / PERIOD };

        if (is_free_of_collisions(at))
            try_steps(search, at);
    }
}

/* The search uses at most 2P minibatches: more only lengthen the steady
 * state. */
void vp_generate_v_auto(const struct vp_schedule *schedule,
                        struct vp_sched_list *lists)
{
    int n_ranks = schedule->n_ranks, most_mb = 2 * n_ranks;
    struct search search = {
        .n_ranks = n_ranks,
        .n_mb = schedule->n_mb < most_mb ? schedule->n_mb : most_mb,
        .keeps = schedule->keeps,
        .block = calloc((size_t)n_ranks, sizeof(*search.block)),
        .best = calloc((size_t)n_ranks, sizeof(*search.best)),
        .time = { { INT_MAX, INT_MAX }, { INT_MAX, INT_MAX } },
    };

    if (search.block && search.best)
        try_all(&search);
    lists[0].failed = search.time[0].all == INT_MAX;
    if (!lists[0].failed)
        vp_v_block_write((const int(*)[VP_V_BLOCK])search.best, schedule,
                         lists);
    free(search.block);
    free(search.best);
}
