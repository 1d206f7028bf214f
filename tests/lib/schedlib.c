#include "lib/schedlib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

const struct vp_stage_costs unit_costs = { .f = 1, .b = 1, .w = 1 };

uint32_t random_below(uint32_t *counter, int n)
{
    uint32_t bits = vp_rng(7, VP_RNG_TEST, 0, (*counter)++, 0, 0).v[0];

    return vp_rng_below(bits, (uint32_t)n);
}

struct vp_schedule make(const struct vp_sched_config *config)
{
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };

    if (vp_schedule_make(config, &schedule, &err) != VP_OK)
        fail_msg("%s", err.text);
    return schedule;
}

void assert_valid(const struct vp_schedule *schedule)
{
    struct vp_err err = { .text = "" };

    if (vp_schedule_validate(schedule, &err) != VP_OK)
        fail_msg("%s, %d stages, %d minibatches: %s", schedule->name,
                 schedule->n_stages, schedule->n_mb, err.text);
}

struct vp_timing simulate(const struct vp_schedule *schedule,
                          struct vp_stage_costs cost)
{
    struct vp_stage_costs *costs = calloc((size_t)schedule->n_stages,
                                          sizeof(*costs));
    struct vp_timing timing;
    struct vp_err err = { .text = "" };

    for (int s = 0; s < schedule->n_stages; s++)
        costs[s] = cost;
    if (vp_simulate(schedule, &(struct vp_sched_costs){ .stages = costs },
                    &timing, &err) != VP_OK)
        fail_msg("%s", err.text);
    free(costs);
    return timing;
}

char *print(const struct vp_schedule *schedule, int flags)
{
    char *text = NULL;

    assert_int_equal(vp_schedule_print(schedule, flags, &text), VP_OK);
    return text;
}

int slots_of(const struct vp_schedule *schedule, int rank)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    int n = 0;

    for (int i = 0; i < list->n_stages; i++)
        n += schedule->stages[list->stages[i]].n_slots;
    return n;
}

void write_letters(const struct vp_schedule *schedule, char *out)
{
    static const char letters[2][VP_ACTION_KIND_COUNT + 1] = { "FRBW", "frbw" };

    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        const struct vp_rank_list *list = &schedule->ranks[rank];

        if (rank > 0)
            *out++ = ' ';
        for (int i = 0; i < list->n_actions; i++) {
            const struct vp_action *a = &list->actions[i];

            if (a->kind <= VP_ACTION_W)
                *out++ = letters[a->stage != list->stages[0]][a->kind];
        }
    }
    *out = '\0';
}
