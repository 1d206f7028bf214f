/* Schedules: literal staircases, and invariants over a sweep. */
#include "sched/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
        cmocka_unit_test(slots_over_a_sweep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
