/* Stages recompute the operators of their sets, and the forecast of the run
 * shows it. */
#include "lib/pipelinelib.h"
#include "lib/run_part.h"
#include "run/forecast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Checks which of three stages recompute, and the number of their recomputed
 * lines. */
static void check_recomputing(const struct setup *setup, const int n_lines[3])
{
    struct vp_run_stage stages[VP_MAX_STAGES];
    struct vp_err err = { .text = "" };
    struct vp_run_summary summary;
    struct run run;

    assert_int_equal(run_create(&run, setup, 0, &err), VP_OK);
    assert_int_equal(vp_forecast_make(&run.config,
                                      vp_trainer_schedule(run.trainer),
                                      vp_trainer_prices(run.trainer), stages,
                                      &summary, &err),
                     VP_OK);
    for (int s = 0; s < 3; s++) {
        bool does = n_lines[s] > 0;

        assert_int_equal(vp_trainer_schedule(run.trainer)->stages[s].recompute,
                         does);
        assert_int_equal(
            vp_trainer_prices(run.trainer)[s].flops[VP_LIST_R] > 0.0, does);
        assert_int_equal(stages[s].n_recomputed_lines, n_lines[s]);
    }
    run_free(&run);
}

/* If there are sets, they decide; ratios are ignored. */
static void stages_recompute_by_their_sets(void **state)
{
    static const double ratios[] = { 1.0, 0.0, 1.0 };
    static const int partition[] = { 2, 2, 1 };
    static const int by_ratio[] = { 10, 0, 5 }, by_sets[] = { 0, 4, 0 };
    uint64_t sets[] = { 0, 0, 0, 0x1e, 0 };
    struct vp_err err = { .text = "" };
    struct setup setup = usual;
    struct run run;

    (void)state;
    setup.n_stages = 3;
    setup.partition = partition;
    setup.ratios = ratios;
    check_recomputing(&setup, by_ratio);
    setup.sets = sets;
    check_recomputing(&setup, by_sets);
    sets[4] = UINT64_C(1) << 40;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "recomputation of block 4: the set "));
    run_free(&run);
    setup.n_stages = 2; /* too few blocks */
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "have 4 blocks, the model has 5"));
    run_free(&run);
    setup.partition = NULL;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "need a partition"));
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_recompute_by_their_sets),
    };

    return run_part(tests, VP_COUNT_OF(tests));
}
