/* Lists of actions that are given as text become complete schedules: same
 * slots, same theoretical bubble as a generated schedule. Bad lists are
 * refused. */
#include "base/strbuf.h"
#include "lib/schedlib.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* ---- Lists given as text ------------------------------------------------ */

/* Prints a generated schedule and gives the text to vp_schedule_make(): the
 * result has the same actions and slots. With `more`, the passes also add
 * recomputation and a global norm, which the text does not have. */
static void check_by_hand(const struct vp_sched_config *config, bool more)
{
    static const bool all[8] = {
        true, true, true, true, true, true, true, true
    };
    struct vp_schedule schedule = make(config), again;
    struct vp_sched_config base, want = *config;
    int replicas[8];
    char *text = print(&schedule, 0), *before, *after;

    assert_true(vp_schedule_base(&schedule, replicas, &base));
    assert_int_equal(base.n_stages, config->n_stages);
    assert_int_equal(base.n_mb, config->n_mb);
    vp_schedule_release(&schedule);
    base.text = text;
    base.global_norm = want.global_norm = more;
    base.recompute = want.recompute = more ? all : NULL;
    schedule = make(&want);
    again = make(&base);
    assert_valid(&again);
    assert_int_equal(again.split, schedule.split);
    before = print(&schedule, VP_PRINT_COMPUTE);
    after = print(&again, VP_PRINT_COMPUTE);
    assert_string_equal(before, after);
    for (int s = 0; s < schedule.n_stages; s++)
        assert_int_equal(again.stages[s].n_slots, schedule.stages[s].n_slots);
    free(before);
    free(after);
    free(text);
    vp_schedule_release(&schedule);
    vp_schedule_release(&again);
}

static void generated_lists_by_hand(void **state)
{
    static const int mixed[] = { 2, 1, 3, 1 }, same[] = { 2, 2, 2, 2 };
    const struct vp_generator *generator;

    (void)state;
    for (int i = 0; (generator = vp_generator_at(i)); i++)
        for (int n = 0; n < 32; n++) {
            struct vp_sched_config config = { .name = generator->name,
                                              .n_stages = 1 + n % 4,
                                              .n_mb = 1 + n / 3 };

            if (generator->stream || generator->forward_only)
                continue;
            if (n % 3 == 0 && !generator->planned)
                config.replicas = generator->chunks ? same : mixed;
            /* auto writes different lists if it recomputes. */
            check_by_hand(&config, n % 2 && !generator->planned);
        }
}

static void bad_lists_by_hand(void **state)
{
    static const struct {
        const char *name;
        int n_stages, n_mb;
        const char *text, *want;
    } cases[] = {
        { "1f1b", 1, 2, "stages=1 minibatches=1\n0: 0F0 0B0 0UPDATE0\n",
          "the lists are not those of 2 minibatches on 1 stages" },
        { "1f1b", 2, 1, "stages=1 minibatches=1\n0: 0F0 0B0 0UPDATE0\n",
          "the lists are not those of 1 minibatches on 2 stages" },
        { "1f1b", 1, 1, "stages=1 minibatches=1\n0: 0F0 0UPDATE0\n",
          "rank 0, action 1 (0UPDATE0): 0B0 of its round comes later" },
        { "1f1b", 1, 1, "stages=1 minibatches=1\n0: 0F9\n",
          "rank 0, action 0 (0F9): out of order" },
        { "1f1b", 1, 1, "nonsense", "lists by hand:1:1: " },
        { "1f1b", 1, 1, "stages=1 minibatches=1 forward_only=1\n0: 0F0\n",
          "the lists are not those of 1 minibatches" },
        { "pipedream", 1, 1, "stages=1 minibatches=1\n0: 0F0 0B0 0UPDATE0\n",
          "schedule pipedream: lists by hand are for a whole group" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_sched_config config = { .name = cases[i].name,
                                          .n_stages = cases[i].n_stages,
                                          .n_mb = cases[i].n_mb,
                                          .text = cases[i].text };
        struct vp_schedule schedule;
        struct vp_err err = { .text = "" };

        assert_int_equal(vp_schedule_make(&config, &schedule, &err),
                         VP_ERR_INVALID);
        if (strncmp(err.text, cases[i].want, strlen(cases[i].want)) != 0)
            fail_msg("case %d: %s", (int)i, err.text);
    }
}

/* Stage 0 is on rank 1, stage 1 on rank 0: no generator writes that. */
static void odd_placement_has_no_base(void **state)
{
    static const char text[] = "stages=2 minibatches=1 rank=1,0\n"
                               "0: 1RECV_ACT0 1F0 1B0 1SEND_GRAD0 1UPDATE0\n"
                               "1: 0F0 0SEND_ACT0 0RECV_GRAD0 0B0 0UPDATE0\n";
    struct vp_schedule schedule;
    struct vp_sched_config base;
    struct vp_err err;
    int replicas[2];

    (void)state;
    assert_int_equal(vp_schedule_parse(text, "text", &schedule, &err), VP_OK);
    assert_valid(&schedule);
    assert_false(vp_schedule_base(&schedule, replicas, &base));
    vp_schedule_release(&schedule);
}

/* ---- Theory of parsed lists --------------------------------------------- */

/* Parses `text` with its schedule name replaced by `name`. */
static struct vp_schedule read_as(const char *name, const char *text)
{
    struct vp_strbuf all = VP_STRBUF_INIT;
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };

    vp_strbuf_addf(&all, "schedule=%s%s", name, strchr(text, ' '));
    if (vp_schedule_parse(vp_strbuf_text(&all), "text", &schedule, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
    vp_strbuf_release(&all);
    return schedule;
}

/* The theoretical bubble of parsed lists is a lower bound under any name. Under
 * its own name it equals the generator's if all stages cost the same
 * (`even`). */
static void check_read(const struct vp_sched_config *config,
                       struct vp_stage_costs cost, bool even)
{
    struct vp_schedule schedule = make(config);
    struct vp_timing timing = simulate(&schedule, cost);
    double theory = vp_schedule_theory(config, &cost);
    char *text = print(&schedule, 0);
    const char *names[] = { config->name, "mine", "1f1b" };

    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        struct vp_schedule again = read_as(names[i], text);
        double found = vp_schedule_list_theory(&again, &cost);

        if (found > timing.bubble + 1e-9)
            fail_msg("%s as %s, %d %d: theory %g above %g", config->name,
                     names[i], config->n_stages, config->n_mb, found,
                     timing.bubble);
        if (i == 0 && even && fabs(found - theory) > 1e-12)
            fail_msg("%s %d %d: theory %g, not %g", config->name,
                     config->n_stages, config->n_mb, found, theory);
        vp_schedule_release(&again);
    }
    free(text);
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
}

static void theory_of_read_lists(void **state)
{
    static const int mixed[] = { 2, 1, 3, 1, 2 }, depth[] = { 5, 3, 2, 1, 0 };
    bool recompute[20];
    uint32_t counter = 0;
    int n_names = 0;

    (void)state;
    while (vp_generator_at(n_names))
        n_names++;
    for (int n = 0; n < 3000; n++) {
        const struct vp_generator *generator = vp_generator_at(n % n_names);
        bool plain = !generator->chunks && !generator->forward_only;
        bool has_depth = plain && strcmp(generator->name, "gpipe") != 0;
        int how = n / n_names;
        struct vp_stage_costs cost = {
            .f = 1 + random_below(&counter, 5),
            .b = 1 + random_below(&counter, 5),
            .w = random_below(&counter, 5),
            .r = random_below(&counter, 5),
        };
        struct vp_sched_config config = {
            .name = generator->name,
            .n_stages = 1 + (int)random_below(&counter, 5),
            .n_chunks = generator->chunks && !generator->v_shape
                            ? 1 + (int)random_below(&counter, 4)
                            : 0,
            .memory = generator->memory && how % 2 ? 4 : 0,
            .n_mb = 1 + (int)random_below(&counter, 14),
            .replicas = plain && how % 5 == 1 ? mixed : NULL,
            .depth = has_depth && how % 5 == 2 ? depth : NULL,
            .recompute = recompute,
            .early_recompute = how % 2 == 0,
        };

        for (int s = 0; s < 20; s++)
            recompute[s] = how % 3 == 0 ? random_below(&counter, 2)
                                        : how % 3 == 1;
        check_read(&config, cost, how % 3 > 0 && !generator->planned);
    }
}

/* The text does not hold the memory limit of v-auto; the theory derives it from
 * the lists. */
static void theory_of_read_memory(void **state)
{
    (void)state;
    for (int p = 2; p <= 6; p++)
        for (int memory = 2; memory <= 2 * p + 2; memory++) {
            struct vp_sched_config config = { .name = "v-auto",
                                              .n_stages = p,
                                              .memory = memory,
                                              .n_mb = 2 * p + 1 };

            check_read(&config, unit_costs, true);
        }
}

/* Bounds counted by hand for lists that no generator writes: two stages, the
 * first on rank 1. Stage 0 recomputes after or before its gradient arrives. */
static void theory_of_an_odd_placement(void **state)
{
    static const struct {
        const char *list;
        double makespan; /* R takes 3, each other action 1 */
    } cases[] = {
        { "0F0 0SEND_ACT0 0RECV_GRAD0 0R0 0B0", 2 + 2 + 3 + 2 },
        { "0F0 0SEND_ACT0 0R0 0RECV_GRAD0 0B0", 2 + 2 + 2 },
    };
    struct vp_stage_costs cost = { .f = 1, .b = 1, .w = 1, .r = 3 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        double work = 3 + 6, want = 1 - work / (2 * cases[i].makespan);
        struct vp_schedule schedule;
        struct vp_timing timing;
        char text[256];
        struct vp_err err = { .text = "" };

        snprintf(text, sizeof(text),
                 "stages=2 minibatches=1 rank=1,0 recompute=1,0\n"
                 "0: 1RECV_ACT0 1F0 1B0 1SEND_GRAD0 1UPDATE0\n"
                 "1: %s 0UPDATE0\n",
                 cases[i].list);
        assert_int_equal(vp_schedule_parse(text, "text", &schedule, &err),
                         VP_OK);
        assert_valid(&schedule);
        timing = simulate(&schedule, cost);
        assert_true(fabs(timing.bubble - want) < 1e-12);
        assert_true(fabs(vp_schedule_list_theory(&schedule, &cost) - want) <
                    1e-12);
        vp_timing_release(&timing);
        vp_schedule_release(&schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_lists_by_hand),
        cmocka_unit_test(bad_lists_by_hand),
        cmocka_unit_test(odd_placement_has_no_base),
        cmocka_unit_test(theory_of_read_lists),
        cmocka_unit_test(theory_of_read_memory),
        cmocka_unit_test(theory_of_an_odd_placement),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
