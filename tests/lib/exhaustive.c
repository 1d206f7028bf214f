#include "lib/exhaustive.h"

#include <string.h>

enum { EX_F, EX_R, EX_B, EX_W, EX_KINDS };

struct ex_state {
    int n[EX_STAGES][EX_KINDS];
    double clock[EX_RANKS], left[EX_RANKS];
    double link[EX_RANKS][EX_RANKS];
    double act[EX_STAGES][EX_MB], grad[EX_STAGES][EX_MB]; /* -1: not sent */
    int kept[EX_RANKS];
    bool waits[EX_RANKS];
    uint32_t old[EX_RANKS]; /* while it waits: actions that were possible */
};

struct ex_search {
    const struct ex_problem *problem;
    double best;
    int64_t n_nodes, most_nodes;
};

static double ex_cost(const struct ex_problem *p, int s, int kind)
{
    const struct vp_stage_costs *c = &p->cost[s];

    return kind == EX_F   ? c->f
           : kind == EX_R ? c->r
           : kind == EX_B ? c->b
                          : c->w;
}

/* Returns the time at which the input of the next action of a kind is there; -1
 * if it is not known yet, or other actions come first. */
static double ex_input(const struct ex_problem *p, const struct ex_state *state,
                       int s, int kind)
{
    const int *n = state->n[s];
    int mb = n[kind];

    if (mb == p->n_mb)
        return -1.0;
    switch (kind) {
    case EX_F:
        if (state->kept[p->rank[s]] + 1 > p->limit[p->rank[s]])
            return -1.0;
        return s == 0 ? 0.0 : state->act[s][mb];
    case EX_R:
        return p->recompute[s] && mb < n[EX_F] && mb == n[EX_B] ? 0.0 : -1.0;
    case EX_B:
        if (mb >= n[p->recompute[s] ? EX_R : EX_F])
            return -1.0;
        return s == p->n_stages - 1 ? 0.0 : state->grad[s][mb];
    default:
        return mb < n[EX_B] ? 0.0 : -1.0;
    }
}

static uint32_t ex_possible(const struct ex_problem *p,
                            const struct ex_state *state, int rank)
{
    uint32_t mask = 0;

    for (int s = 0; s < p->n_stages; s++)
        for (int kind = 0; p->rank[s] == rank && kind < EX_KINDS; kind++)
            if (ex_input(p, state, s, kind) >= 0.0)
                mask |= 1u << (EX_KINDS * s + kind);
    return mask;
}

static double ex_send(const struct ex_problem *p, struct ex_state *state,
                      int from, int to, double cost)
{
    double *link = &state->link[p->rank[from]][p->rank[to]];
    double now = state->clock[p->rank[from]];

    state->waits[p->rank[to]] = false;
    if (p->rank[from] == p->rank[to])
        return now;
    *link = (now > *link ? now : *link) + cost;
    return *link + p->latency;
}

static void ex_take(const struct ex_problem *p, struct ex_state *state, int s,
                    int kind)
{
    int rank = p->rank[s], mb = state->n[s][kind];
    double input = ex_input(p, state, s, kind);
    double *clock = &state->clock[rank];

    *clock = (input > *clock ? input : *clock) + ex_cost(p, s, kind);
    state->left[rank] -= ex_cost(p, s, kind);
    state->n[s][kind]++;
    state->kept[rank] += kind == EX_F ? 1 : kind == EX_W ? -1 : 0;
    state->old[rank] = 0;
    if (kind == EX_F && s + 1 < p->n_stages)
        state->act[s + 1][mb] = ex_send(p, state, s, s + 1, p->cost[s].act);
    if (kind == EX_B && s > 0)
        state->grad[s - 1][mb] = ex_send(p, state, s, s - 1, p->cost[s].grad);
}

/* Returns a lower bound of the end: a rank still has its work left, and after
 * the last B of a stage the gradient has to reach stage 0. */
static double ex_bound(const struct ex_problem *p, const struct ex_state *state)
{
    double bound = 0.0, back = p->cost[0].w;

    for (int r = 0; r < p->n_ranks; r++)
        if (state->clock[r] + state->left[r] > bound)
            bound = state->clock[r] + state->left[r];
    for (int s = 0; s < p->n_stages; s++) {
        const int *n = state->n[s];
        double end = state->clock[p->rank[s]] + back +
                     (p->n_mb - n[EX_F]) * p->cost[s].f +
                     (p->n_mb - n[EX_B]) * p->cost[s].b;

        if (n[EX_B] < p->n_mb && end > bound)
            bound = end;
        back += p->cost[s].b;
        if (s + 1 < p->n_stages && p->rank[s + 1] != p->rank[s])
            back += p->cost[s + 1].grad + p->latency;
    }
    return bound;
}

/* Returns the rank that decides next: of those that do not wait, the one with
 * the earliest clock; -1: none. */
static int ex_rank(const struct ex_problem *p, const struct ex_state *state)
{
    int best = -1;

    for (int r = 0; r < p->n_ranks; r++)
        if (!state->waits[r] && state->left[r] > 1e-9 &&
            (best < 0 || state->clock[r] < state->clock[best]))
            best = r;
    return best;
}

/* Tries every action whose time is known, and waiting for another one to become
 * known. After a wait, the actions that were possible before are left out:
 * taking them before the wait was tried already. */
static void ex_branch(struct ex_search *search, const struct ex_state *from)
{
    const struct ex_problem *p = search->problem;
    int rank = ex_rank(p, from);
    struct ex_state state;
    uint32_t mask;

    if (search->n_nodes++ > search->most_nodes ||
        ex_bound(p, from) >= search->best - 1e-9)
        return;
    if (rank < 0) {
        for (int r = 0; r < p->n_ranks; r++)
            if (from->left[r] > 1e-9)
                return;
        search->best = ex_bound(p, from);
        return;
    }
    mask = ex_possible(p, from, rank);
    for (int i = 0; i < EX_KINDS * p->n_stages; i++)
        if (mask & ~from->old[rank] & 1u << i) {
            state = *from;
            ex_take(p, &state, i / EX_KINDS, i % EX_KINDS);
            ex_branch(search, &state);
        }
    state = *from;
    state.waits[rank] = true;
    state.old[rank] = mask;
    ex_branch(search, &state);
}

double ex_shortest(const struct ex_problem *p, double known, int64_t most_nodes)
{
    struct ex_search search = { p, known, 0, most_nodes };
    struct ex_state state;

    memset(&state, 0, sizeof(state));
    for (int s = 0; s < p->n_stages; s++)
        for (int mb = 0; mb < p->n_mb; mb++) {
            state.act[s][mb] = state.grad[s][mb] = -1.0;
            for (int kind = 0; kind < EX_KINDS; kind++)
                if (kind != EX_R || p->recompute[s])
                    state.left[p->rank[s]] += ex_cost(p, s, kind);
        }
    ex_branch(&search, &state);
    return search.n_nodes > most_nodes ? -1.0 : search.best;
}
