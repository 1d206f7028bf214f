/* Schedules in a V that repeat a building block (Qi et al., Pipeline
 * Parallelism with Controllable Memory, NeurIPS 2024).
 *
 * Time is divided into slots of one action. A block gives the slots in which a
 * rank runs F of its first stage, F of its second, B of the second and B of the
 * first, for minibatch 0; minibatch j comes 6 j slots later, because a rank has
 * six actions per minibatch. W actions fill the idle slots of their rank in the
 * order of their B. The longer a block, the more minibatches are kept at once;
 * their greatest number is the limit for what follows.
 *
 * Such a grid has idle slots at its start and end. Two passes go through the
 * actions in the order of their slots and move each one to an earlier idle
 * slot, as far as its inputs and the limit allow:
 *
 *   1. all actions until the first gradient is back on rank 0, and all after
 *      the last F of rank 0; W moves like the others,
 *   2. F and B after the last F of rank 0; W fills the idle slots anew.
 *
 * The steady state between them stays as it is: without its slack, one action
 * that takes longer than a slot would delay all others. After each pass every
 * action starts as early as the order of its rank allows (squeeze()). */
#include "sched/internal.h"

#include <stdlib.h>
#include <string.h>

/* CELL_KINDS is at least N_KINDS, and a power of two, for fast division. */
enum { PERIOD = 6, EMPTY = -1, N_KINDS = 5, CELL_KINDS = 8 };

/* In the order in which a rank runs a minibatch. */
enum kind { F_FIRST, F_SECOND, B_SECOND, B_FIRST, W };

struct grid {
    int n_ranks, n_mb;
    int n_slots;          /* per rank; enough for all actions */
    int limit;            /* largest number of chunks that a rank keeps */
    int *cells;           /* [rank][slot]: cell_of(), or EMPTY */
    int *slots[N_KINDS];  /* [rank][index]; a W has the index of its backward,
                             those of both stages counted together */
    int *starts[N_KINDS]; /* the same: times from squeeze() */
    int *kept, *owed;     /* [rank][slot]: F without W, B without W after it */
    int *n_backward;      /* [rank]: seen by a pass */
    int *ready;           /* [rank]: for squeeze() */
    int *memory;          /* the allocation of all arrays above */
};

static int *row(const struct grid *grid, int *table, int rank)
{
    return table + (size_t)rank * (size_t)grid->n_slots;
}

static int *place(const struct grid *grid, int *const tables[N_KINDS],
                  enum kind kind, int rank, int i)
{
    return tables[kind] + (size_t)rank * 2 * (size_t)grid->n_mb + i;
}

static int cell_of(enum kind kind, int i)
{
    return CELL_KINDS * i + (int)kind;
}

static enum kind kind_of(int cell)
{
    return (enum kind)(cell % CELL_KINDS);
}

static int index_of(int cell)
{
    return cell / CELL_KINDS;
}

static bool is_forward(enum kind kind)
{
    return kind == F_FIRST || kind == F_SECOND;
}

static bool is_backward(enum kind kind)
{
    return kind == B_SECOND || kind == B_FIRST;
}

/* ---- Inputs of actions -------------------------------------------------- */

/* Finds the action of the same minibatch whose result is needed, on this rank
 * or on a neighbour. Returns false for the first F and for W, which always
 * comes after its B. */
static bool input_of(const struct grid *grid, enum kind kind, int rank,
                     enum kind *kind_out, int *rank_out)
{
    bool down = kind == F_FIRST || kind == B_SECOND; /* rank 0 first */
    int end = down ? 0 : grid->n_ranks - 1;

    if (kind == W || (kind == F_FIRST && rank == 0))
        return false;
    *kind_out = rank == end ? kind - 1 : kind;
    *rank_out = rank == end ? rank : down ? rank - 1 : rank + 1;
    return true;
}

/* Returns the first slot after the inputs of an action and after the previous
 * action of the same kind. */
static int first_slot(const struct grid *grid, enum kind kind, int rank, int i)
{
    int slot = i > 0 ? *place(grid, grid->slots, kind, rank, i - 1) + 1 : 0;
    enum kind before;
    int other;

    if (input_of(grid, kind, rank, &before, &other)) {
        int input = *place(grid, grid->slots, before, other, i) + 1;

        slot = input > slot ? input : slot;
    }
    return slot;
}

/* ---- Memory ------------------------------------------------------------- */

/* Adds the effect of a cell to the number of chunks kept and of W owed (B is
 * done, W is not). With `refill`, W are not in the grid: an empty cell runs an
 * owed W. */
static void count_cell(int cell, bool refill, int *kept, int *owed)
{
    enum kind kind = cell == EMPTY ? W : kind_of(cell);

    if (is_forward(kind)) {
        ++*kept;
    } else if (is_backward(kind)) {
        ++*owed;
    } else if (cell != EMPTY || (refill && *owed > 0)) {
        --*kept;
        --*owed;
    }
}

static void count_from(struct grid *grid, int rank, int slot, bool refill)
{
    const int *cells = row(grid, grid->cells, rank);
    int *kept = row(grid, grid->kept, rank),
        *owed = row(grid, grid->owed, rank);
    int n_kept = slot > 0 ? kept[slot - 1] : 0;
    int n_owed = slot > 0 ? owed[slot - 1] : 0;

    for (int s = slot; s < grid->n_slots; s++) {
        count_cell(cells[s], refill, &n_kept, &n_owed);
        kept[s] = n_kept;
        owed[s] = n_owed;
    }
}

static int peak(const struct grid *grid)
{
    size_t n = (size_t)grid->n_ranks * (size_t)grid->n_slots;
    int most = 0;

    for (size_t i = 0; i < n; i++)
        most = grid->kept[i] > most ? grid->kept[i] : most;
    return most;
}

/* ---- Filling the grid --------------------------------------------------- */

static void put(struct grid *grid, enum kind kind, int rank, int i, int slot)
{
    *place(grid, grid->slots, kind, rank, i) = slot;
    row(grid, grid->cells, rank)[slot] = cell_of(kind, i);
}

static void clear(struct grid *grid)
{
    size_t n = (size_t)grid->n_ranks * (size_t)grid->n_slots;

    for (size_t i = 0; i < n; i++)
        grid->cells[i] = EMPTY;
}

static void put_block(struct grid *grid, const int (*block)[VP_V_BLOCK])
{
    clear(grid);
    for (int rank = 0; rank < grid->n_ranks; rank++)
        for (int kind = 0; kind < VP_V_BLOCK; kind++)
            for (int j = 0; j < grid->n_mb; j++)
                put(grid, (enum kind)kind, rank, j,
                    block[rank][kind] + PERIOD * j);
}

/* Puts W into the idle slots of all ranks, and counts the chunks kept. */
static void put_w(struct grid *grid)
{
    for (int rank = 0; rank < grid->n_ranks; rank++) {
        int *cells = row(grid, grid->cells, rank);
        int n_b = 0, n_w = 0;

        for (int s = 0; s < grid->n_slots; s++) {
            if (cells[s] != EMPTY)
                n_b += is_backward(kind_of(cells[s]));
            else if (n_w < n_b)
                put(grid, W, rank, n_w++, s);
        }
        VP_BUG_ON(n_w < 2 * grid->n_mb);
        count_from(grid, rank, 0, false);
    }
}

static void drop_w(struct grid *grid)
{
    for (int rank = 0; rank < grid->n_ranks; rank++) {
        for (int i = 0; i < 2 * grid->n_mb; i++)
            row(grid, grid->cells,
                rank)[*place(grid, grid->slots, W, rank, i)] = EMPTY;
        count_from(grid, rank, 0, true);
    }
}

/* ---- Moving actions into earlier idle slots ----------------------------- */

/* Returns the earliest slot for an action if W are in the grid: an F must not
 * exceed the limit in any slot up to its old one, and a W needs its B before
 * it. */
static int earliest_with_w(const struct grid *grid, int rank, int slot,
                           enum kind kind, int i)
{
    const int *cells = row(grid, grid->cells, rank);
    const int *kept = row(grid, grid->kept, rank);
    int first = first_slot(grid, kind, rank, i), best = slot;
    int n_before = grid->n_backward[rank];

    for (int s = slot - 1; s >= first; s--) {
        if (is_forward(kind) && kept[s] >= grid->limit)
            break;
        n_before -= cells[s] != EMPTY && is_backward(kind_of(cells[s]));
        if (kind == W && n_before <= i)
            break;
        if (cells[s] == EMPTY)
            best = s;
    }
    return best;
}

/* Returns true if the rank stays within the limit when the cell moves from slot
 * `from` to the earlier slot `to`, with W in all idle slots. */
static bool fits(const struct grid *grid, int rank, int from, int to)
{
    const int *cells = row(grid, grid->cells, rank);
    const int *kept = row(grid, grid->kept, rank);
    const int *owed = row(grid, grid->owed, rank);
    int n_kept = to > 0 ? kept[to - 1] : 0, n_owed = to > 0 ? owed[to - 1] : 0;

    for (int s = to; s < grid->n_slots; s++) {
        int cell = s == to ? cells[from] : s == from ? EMPTY : cells[s];

        count_cell(cell, true, &n_kept, &n_owed);
        if (n_kept > grid->limit)
            return false;
        if (s >= from && n_kept == kept[s] && n_owed == owed[s])
            return true; /* as before from here on */
    }
    return true;
}

static int earliest_refilled(const struct grid *grid, int rank, int slot,
                             enum kind kind, int i)
{
    const int *cells = row(grid, grid->cells, rank);

    for (int s = first_slot(grid, kind, rank, i); s < slot; s++)
        if (cells[s] == EMPTY && fits(grid, rank, slot, s))
            return s;
    return slot;
}

static void move(struct grid *grid, int rank, int slot, enum kind kind, int i,
                 bool with_w)
{
    int to = with_w ? earliest_with_w(grid, rank, slot, kind, i)
                    : earliest_refilled(grid, rank, slot, kind, i);

    if (to == slot)
        return;
    put(grid, kind, rank, i, to);
    row(grid, grid->cells, rank)[slot] = EMPTY;
    if (!with_w)
        count_from(grid, rank, to, true);
    for (int s = to; with_w && !is_backward(kind) && s < slot; s++)
        row(grid, grid->kept, rank)[s] += kind == W ? -1 : 1;
}

/* FILLING ends with the first B of rank 0's first stage, STEADY with that
 * stage's last F. */
enum phase { FILLING, STEADY, DRAINING };

static void move_all(struct grid *grid, bool with_w)
{
    enum phase phase = FILLING;

    memset(grid->n_backward, 0,
           (size_t)grid->n_ranks * sizeof(*grid->n_backward));
    for (int slot = 0; slot < grid->n_slots; slot++)
        for (int rank = 0; rank < grid->n_ranks; rank++) {
            int cell = row(grid, grid->cells, rank)[slot], i;
            enum kind kind;

            if (cell == EMPTY)
                continue;
            kind = kind_of(cell);
            i = index_of(cell);
            if (phase == FILLING && kind == B_FIRST && rank == 0)
                phase = STEADY;
            if (phase == DRAINING || (phase == FILLING && with_w))
                move(grid, rank, slot, kind, i, with_w);
            if (phase == STEADY && kind == F_FIRST && i == grid->n_mb - 1)
                phase = DRAINING;
            grid->n_backward[rank] += is_backward(kind);
        }
}

/* ---- Squeezing ---------------------------------------------------------- */

/* Sets the start of every action, as early as its inputs and the order of its
 * rank allow. Returns the makespan and the longest span. */
static struct vp_v_time squeeze(struct grid *grid,
                                const struct vp_v_costs *costs)
{
    const int cost[N_KINDS] = { costs->f, costs->f, costs->b, costs->b,
                                costs->w };
    struct vp_v_time time = { 0, 0 };

    memset(grid->ready, 0, (size_t)grid->n_ranks * sizeof(*grid->ready));
    for (int slot = 0; slot < grid->n_slots; slot++)
        for (int rank = 0; rank < grid->n_ranks; rank++) {
            int cell = row(grid, grid->cells, rank)[slot];
            int start = grid->ready[rank], i, other;
            enum kind kind, before;

            if (cell == EMPTY)
                continue;
            kind = kind_of(cell);
            i = index_of(cell);
            if (input_of(grid, kind, rank, &before, &other)) {
                int input = *place(grid, grid->starts, before, other, i) +
                            cost[before];

                start = input > start ? input : start;
            }
            *place(grid, grid->starts, kind, rank, i) = start;
            grid->ready[rank] = start + cost[kind];
        }
    for (int rank = 0; rank < grid->n_ranks; rank++) {
        int end = grid->ready[rank];
        int span = end - *place(grid, grid->starts, F_FIRST, rank, 0);

        time.all = end > time.all ? end : time.all;
        time.span = span > time.span ? span : time.span;
    }
    return time;
}

/* Makes the times of squeeze() the slots. */
static void take_starts(struct grid *grid)
{
    clear(grid);
    for (int rank = 0; rank < grid->n_ranks; rank++)
        for (int kind = 0; kind < N_KINDS; kind++)
            for (int i = 0; i < (kind == W ? 2 : 1) * grid->n_mb; i++)
                put(grid, (enum kind)kind, rank, i,
                    *place(grid, grid->starts, (enum kind)kind, rank, i));
}

/* ---- Building ----------------------------------------------------------- */

static const struct vp_v_costs unit = { 1, 1, 1 };

static bool allocate(struct grid *grid, const int (*block)[VP_V_BLOCK])
{
    size_t n_ranks = (size_t)grid->n_ranks, n_mb = (size_t)grid->n_mb;
    size_t n_cells, n_places = 2 * n_ranks * n_mb;
    int last = 0;

    for (int rank = 0; rank < grid->n_ranks; rank++)
        for (int kind = 0; kind < VP_V_BLOCK; kind++)
            if (block[rank][kind] > last)
                last = block[rank][kind];
    grid->n_slots = last + (PERIOD + 2) * grid->n_mb; /* all W at the end */
    n_cells = n_ranks * (size_t)grid->n_slots;
    grid->memory = calloc(3 * n_cells + 2 * N_KINDS * n_places + 2 * n_ranks,
                          sizeof(*grid->memory));
    if (!grid->memory)
        return false;
    grid->cells = grid->memory;
    grid->kept = grid->cells + n_cells;
    grid->owed = grid->kept + n_cells;
    for (size_t kind = 0; kind < N_KINDS; kind++) {
        grid->slots[kind] = grid->owed + n_cells + kind * n_places;
        grid->starts[kind] = grid->slots[kind] + N_KINDS * n_places;
    }
    grid->n_backward = grid->starts[0] + N_KINDS * n_places;
    grid->ready = grid->n_backward + n_ranks;
    return true;
}

static bool build(struct grid *grid, const int (*block)[VP_V_BLOCK])
{
    if (!allocate(grid, block))
        return false;
    put_block(grid, block);
    put_w(grid);
    grid->limit = peak(grid);
    move_all(grid, true);
    squeeze(grid, &unit);
    take_starts(grid);
    drop_w(grid);
    move_all(grid, false);
    put_w(grid);
    return true;
}

bool vp_v_block_times(const int (*block)[VP_V_BLOCK], int n_ranks, int n_mb,
                      const struct vp_v_costs *costs, int n,
                      struct vp_v_time *out)
{
    struct grid grid = { .n_ranks = n_ranks, .n_mb = n_mb };
    bool built = build(&grid, block);

    for (int i = 0; built && i < n; i++)
        out[i] = squeeze(&grid, &costs[i]);
    free(grid.memory);
    return built;
}

void vp_v_block_write(const int (*block)[VP_V_BLOCK],
                      const struct vp_schedule *schedule,
                      struct vp_sched_list *lists)
{
    static const char *const words[] = { "F", "f", "b", "B" };
    struct grid grid = { .n_ranks = schedule->n_ranks, .n_mb = schedule->n_mb };

    lists[0].failed = !build(&grid, block);
    for (int rank = 0; !lists[0].failed && rank < grid.n_ranks; rank++) {
        struct vp_v_writer writer = vp_v_writer_of(schedule, rank, lists);
        const int *cells = row(&grid, grid.cells, rank);

        for (int s = 0; s < grid.n_slots; s++) {
            enum kind kind = cells[s] == EMPTY ? W : kind_of(cells[s]);

            if (kind != W)
                vp_v_write(&writer, words[kind], 1);
            else if (cells[s] != EMPTY)
                vp_v_write_oldest_w(&writer);
        }
    }
    free(grid.memory);
}
