/* Schedules: literal staircases, and invariants over a sweep. */
#include "sched/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void literal_staircases(void **state)
{
    static const struct {
        int stage, n_stages, n_mb, recompute;
        const char *want;
    } cases[] = {
        { 0, 1, 1, 0, "F0 B0 U" },
        { 0, 1, 3, 0, "F0 B0 F1 B1 F2 B2 U" },
        { 0, 1, 2, 1, "F0 R0 B0 F1 R1 B1 U" },
        { 0, 2, 3, 0, "F0 F1 B0 F2 B1 B2 U" },
        { 1, 2, 3, 0, "F0 B0 F1 B1 F2 B2 U" },
        { 0, 4, 2, 0, "F0 F1 B0 B1 U" },
        { 1, 4, 5, 0, "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4 U" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_schedule s;
        char text[256];

        assert_int_equal(vp_schedule_1f1b(cases[i].stage, cases[i].n_stages,
                                          cases[i].n_mb, cases[i].recompute,
                                          &s),
                         VP_OK);
        assert_int_equal(vp_schedule_print(&s, text, sizeof(text)),
                         strlen(cases[i].want));
        assert_string_equal(text, cases[i].want);
        vp_schedule_release(&s);
    }
}

/* Every minibatch once forward, once backward, in order, in a slot that no
 * other minibatch occupies; the update comes last. */
static void check_slots(const struct vp_schedule *s, int n_mb)
{
    int in_slot[64], n_f = 0, n_b = 0;

    for (int i = 0; i < s->n_slots; i++)
        in_slot[i] = -1;
    for (int i = 0; i < s->n_actions; i++) {
        const struct vp_action *a = &s->actions[i];

        if (a->kind == VP_ACTION_F) {
            assert_int_equal(a->mb, n_f++);
            assert_int_equal(in_slot[a->slot], -1);
            in_slot[a->slot] = a->mb;
        } else if (a->kind == VP_ACTION_B) {
            assert_int_equal(a->mb, n_b++);
            assert_int_equal(in_slot[a->slot], a->mb);
            in_slot[a->slot] = -1;
        } else {
            assert_int_equal(a->kind, VP_ACTION_UPDATE);
            assert_int_equal(i, s->n_actions - 1);
        }
    }
    assert_int_equal(n_f, n_mb);
    assert_int_equal(n_b, n_mb);
}

static void slots_over_a_sweep(void **state)
{
    (void)state;
    for (int n_stages = 1; n_stages <= 16; n_stages++)
        for (int stage = 0; stage < n_stages; stage++)
            for (int n_mb = 1; n_mb <= 40; n_mb++) {
                int depth = n_stages - stage;
                struct vp_schedule s;

                assert_int_equal(
                    vp_schedule_1f1b(stage, n_stages, n_mb, 0, &s), VP_OK);
                assert_int_equal(s.n_slots, n_mb < depth ? n_mb : depth);
                check_slots(&s, n_mb);
                vp_schedule_release(&s);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literal_staircases),
        cmocka_unit_test(slots_over_a_sweep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
