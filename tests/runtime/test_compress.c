/* With compressed messages every schedule gives the same bits, and messages
 * take half the bytes. */
#include "lib/pipelinelib.h"
#include "lib/run_part.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void schedules_compress_alike(void **state)
{
    static const char *const schedules[] = { "1f1b", "gpipe", "zb-h1" };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        int cut[4] = { 2, 2, 1 };
        struct setup setup = usual;
        struct run plain, want, got;

        setup.model = models[m];
        setup.layers = 4;
        cut[3] = n_blocks_of(&setup) - 5;
        setup.schedule = "1f1b";
        setup.n_stages = 4;
        setup.partition = cut;
        setup.accumulation = 5;
        train(&plain, &setup);
        setup.compress = true;
        train(&want, &setup);
        assert_true(want.weights != plain.weights);
        for (int i = 0; i < setup.n_steps; i++)
            assert_true(fabs(want.losses[i] - plain.losses[i]) < 0.02);
        for (size_t s = 0; s < VP_COUNT_OF(schedules); s++) {
            setup.schedule = schedules[s];
            setup.recompute = 0.5 * (double)s;
            train(&got, &setup);
            assert_same(&want, &got, setup.n_steps);
        }
    }
}

static void count_bytes(bool compress, struct vp_stage_stats stats[2])
{
    int partition[2] = { 2 };
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    struct run run;

    setup.model = "gpt2";
    partition[1] = n_blocks_of(&setup) - 2;
    setup.schedule = "1f1b";
    setup.n_stages = 2;
    setup.partition = partition;
    setup.compress = compress;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    assert_int_equal(vp_trainer_run(run.trainer, 3, NULL, NULL, &err), VP_OK);
    memcpy(stats, vp_trainer_stats(run.trainer), 2 * sizeof(*stats));
    run_free(&run);
}

/* Messages have 4 samples of 20 tokens with 32 floats each. Floats are
 * compressed to two bytes; target ids are not compressed. */
static void compressed_floats_take_half(void **state)
{
    const int64_t n_mb = 3 * 2, ids = 4 * 20, floats = ids * 32;
    struct vp_stage_stats plain[2], packed[2];

    (void)state;
    count_bytes(false, plain);
    count_bytes(true, packed);
    assert_int_equal(plain[0].act.n_sent, n_mb);
    assert_int_equal(plain[1].grad.bytes_sent, n_mb * floats * 4);
    assert_int_equal(packed[1].grad.bytes_sent, n_mb * floats * 2);
    assert_true(plain[0].act.bytes_sent >= n_mb * (floats * 4 + ids * 4));
    assert_int_equal(packed[0].act.bytes_sent, n_mb * (floats * 2 + ids * 4));
    for (int way = 0; way < 2; way++) {
        const struct vp_stage_stats *s = way ? packed : plain;

        assert_int_equal(s[0].act.bytes_sent, s[1].act.bytes_received);
        assert_int_equal(s[1].grad.bytes_sent, s[0].grad.bytes_received);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_compress_alike),
        cmocka_unit_test(compressed_floats_take_half),
    };

    return run_part(tests, VP_COUNT_OF(tests));
}
