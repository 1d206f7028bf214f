#include "lib/sched_mutants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *alloc(size_t n, size_t n_bytes)
{
    void *at = calloc(n, n_bytes);

    if (!at)
        abort();
    return at;
}

struct mutant mutant_copy(const struct vp_schedule *from)
{
    struct mutant m = { .schedule = *from, .capacity = from->n_actions + 8 };
    struct vp_schedule *to = &m.schedule;
    size_t n_ranks = (size_t)from->n_ranks, n_stages = (size_t)from->n_stages;

    to->ranks = alloc(n_ranks, sizeof(*to->ranks));
    to->stages = alloc(n_stages, sizeof(*to->stages));
    memcpy(to->stages, from->stages, n_stages * sizeof(*to->stages));
    for (int rank = 0; rank < from->n_ranks; rank++) {
        const struct vp_rank_list *list = &from->ranks[rank];

        to->ranks[rank] = *list;
        to->ranks[rank].actions = calloc((size_t)m.capacity,
                                         sizeof(*list->actions));
        memcpy(to->ranks[rank].actions, list->actions,
               (size_t)list->n_actions * sizeof(*list->actions));
    }
    return m;
}

void mutant_release(struct mutant *m)
{
    for (int rank = 0; rank < m->schedule.n_ranks; rank++)
        free(m->schedule.ranks[rank].actions);
    free(m->schedule.ranks);
    free(m->schedule.stages);
}

/* Returns a rank's list. */
static struct vp_rank_list *mutant_list(const struct mutant *m, int rank)
{
    struct vp_rank_list *list = &m->schedule.ranks[rank];

    if (!list->actions)
        abort();
    return list;
}

static void mutant_insert(struct mutant *m, int rank, int at,
                          struct vp_action a)
{
    struct vp_rank_list *list = mutant_list(m, rank);

    assert_true(list->n_actions < m->capacity);
    memmove(&list->actions[at + 1], &list->actions[at],
            (size_t)(list->n_actions - at) * sizeof(a));
    list->actions[at] = a;
    list->n_actions++;
    m->schedule.n_actions++;
}

static struct vp_action mutant_take(struct mutant *m, int rank, int at)
{
    struct vp_rank_list *list = mutant_list(m, rank);
    struct vp_action a = list->actions[at];

    list->n_actions--;
    memmove(&list->actions[at], &list->actions[at + 1],
            (size_t)(list->n_actions - at) * sizeof(a));
    m->schedule.n_actions--;
    return a;
}

void mutate_order(struct mutant *m, uint32_t *counter)
{
    int rank = (int)random_below(counter, m->schedule.n_ranks), other;
    struct vp_rank_list *list = mutant_list(m, rank);
    int i = (int)random_below(counter, list->n_actions);
    struct vp_action a;

    if (list->n_actions == 0)
        return;
    switch (random_below(counter, 6)) {
    case 0:
    case 1: /* neighbours: often legal */
        if (i + 1 < list->n_actions)
            mutant_insert(m, rank, i + 1, mutant_take(m, rank, i));
        break;
    case 2:
        a = mutant_take(m, rank, i);
        mutant_insert(m, rank, (int)random_below(counter, list->n_actions + 1),
                      a);
        break;
    case 3:
        mutant_take(m, rank, i);
        break;
    case 4:
        mutant_insert(m, rank, (int)random_below(counter, list->n_actions + 1),
                      list->actions[i]);
        break;
    default:
        other = (int)random_below(counter, m->schedule.n_ranks);
        a = mutant_take(m, rank, i);
        mutant_insert(
            m, other,
            (int)random_below(counter, m->schedule.ranks[other].n_actions + 1),
            a);
        break;
    }
}

void mutate_field(struct mutant *m, uint32_t *counter)
{
    int rank = (int)random_below(counter, m->schedule.n_ranks);
    struct vp_rank_list *list = mutant_list(m, rank);
    struct vp_action *a =
        &list->actions[random_below(counter, list->n_actions)];
    int step = random_below(counter, 2) ? 1 : -1;

    if (list->n_actions == 0)
        return;
    switch (random_below(counter, 7)) {
    case 0:
        a->mb += step;
        break;
    case 1:
        a->stage += step;
        break;
    case 2:
        a->kind = random_below(counter, VP_ACTION_KIND_COUNT);
        break;
    case 3:
        a->slot += step;
        break;
    case 4:
        a->version += step;
        break;
    case 5:
        a->peer = (int)random_below(counter, m->schedule.n_ranks + 1) - 1;
        break;
    default:
        a->msg += step;
        break;
    }
}

void mutate_size(struct mutant *m, uint32_t *counter)
{
    struct vp_schedule_stage *stage =
        &m->schedule.stages[random_below(counter, m->schedule.n_stages)];
    int *sizes[] = { &stage->n_slots,      &stage->n_act_bufs,
                     &stage->n_grad_bufs,  &stage->n_versions,
                     &stage->n_recomputed, &stage->n_swap_out,
                     &stage->n_swap_in };
    int *size = sizes[random_below(counter, 7)];
    int step = (int)random_below(counter, 4) - 2;

    if (random_below(counter, 8) == 0)
        stage->recompute = !stage->recompute;
    else if (random_below(counter, 8) == 0)
        stage->w_recomputed = !stage->w_recomputed;
    else if (*size > 0 && *size + step > 0)
        *size += step;
}
