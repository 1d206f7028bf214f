/* Synchronous pipelines give the same bits as one stage, for any partition and
 * any schedule. */
#include "lib/halfdevice.h"
#include "lib/pipelinelib.h"
#include "lib/run_part.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Generated schedules ------------------------------------------------ */

struct sync_case {
    const char *schedule;
    int n_stages, n_chunks, memory;
};

static void check_sync(const struct setup *base, const struct run *want,
                       const struct sync_case *c)
{
    static const double ratios[] = { 0.0, 0.3, 0.5, 1.0 };
    struct setup setup = *base;
    int partition[VP_MAX_STAGES];
    double stage_ratios[VP_MAX_STAGES];
    int n = c->n_stages * (c->n_chunks ? c->n_chunks : 1);
    struct swap swap;
    struct run got;

    random_partition(partition, n, n_blocks_of(base));
    for (int s = 0; s < n; s++)
        stage_ratios[s] = ratios[pipeline_draw(4)];
    setup.schedule = c->schedule;
    setup.n_stages = c->n_stages;
    setup.n_chunks = c->n_chunks;
    setup.schedule_memory = c->memory;
    setup.partition = partition;
    setup.ratios = stage_ratios;
    setup.early = pipeline_draw(2);
    setup.threads = 1 + pipeline_draw(2);
    setup.prefetch = pipeline_draw(3);
    setup.w_recomputed = pipeline_draw(2);
    if (pipeline_draw(3) > 0)
        random_swap(&setup, &swap);
    train(&got, &setup);
    assert_same(want, &got, setup.n_steps);
}

static void every_cut_gives_the_same_bits(void **state)
{
    static const struct sync_case cases[] = {
        { "1f1b", 1, 0, 0 },        { "1f1b", 2, 0, 0 },
        { "1f1b", 3, 0, 0 },        { "1f1b", 4, 0, 0 },
        { "1f1b", 8, 0, 0 },        { "gpipe", 2, 0, 0 },
        { "gpipe", 4, 0, 0 },       { "gpipe", 8, 0, 0 },
        { "interleaved", 2, 2, 0 }, { "interleaved", 2, 3, 0 },
        { "interleaved", 4, 2, 0 }, { "zb-h1", 2, 0, 0 },
        { "zb-h1", 3, 0, 0 },       { "zb-h1", 4, 0, 0 },
        { "zb-h1", 8, 0, 0 },       { "zb-h2", 2, 0, 0 },
        { "zb-h2", 3, 0, 0 },       { "zb-h2", 8, 0, 0 },
        { "zb-v", 2, 2, 0 },        { "zb-v", 4, 2, 0 },
        { "v-half", 3, 2, 0 },      { "v-half", 4, 2, 0 },
        { "v-min", 2, 2, 0 },       { "v-min", 4, 2, 0 },
        { "v-auto", 3, 2, 0 },      { "v-auto", 3, 2, 5 },
        { "v-auto", 4, 2, 3 },      { "dualpipe-v", 2, 2, 0 },
        { "dualpipe-v", 4, 2, 0 },
    };

    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (int tied = 0; tied < 2; tied++) {
            struct setup setup = usual;
            struct run want;

            if (SLOW && tied != (int)m % 2)
                continue;
            set_type(&setup, *state);
            setup.model = models[m];
            setup.tied = tied;
            setup.layers = 4;
            setup.accumulation = 5;
            setup.n_steps = 3;
            setup.grad_clip = 0.5f;
            setup.eval = true;
            train(&want, &setup);
            assert_true(want.losses[0] != want.losses[1]);
            for (size_t c = 0; c < VP_COUNT_OF(cases); c++)
                check_sync(&setup, &want, &cases[c]);
        }
}

/* ---- Other lists of actions --------------------------------------------- */

/* Returns the lists that `auto` makes for random costs, as text. */
static char *auto_text(const struct setup *setup, int memory)
{
    struct vp_stage_costs stages[VP_MAX_STAGES];
    struct vp_sched_costs costs = { .stages = stages };
    double limits[VP_MAX_STAGES];
    struct vp_sched_limits most = { .rank = limits };
    bool recompute[VP_MAX_STAGES];
    struct vp_sched_config config = { .name = "auto",
                                      .n_stages = setup->n_stages,
                                      .n_chunks = setup->n_chunks,
                                      .v_shape = setup->schedule_v,
                                      .n_mb = setup->accumulation,
                                      .recompute = recompute,
                                      .global_norm = true,
                                      .costs = &costs,
                                      .limits = &most };
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };
    char *text = NULL;

    for (int s = 0; s < setup->n_stages * setup->n_chunks; s++) {
        stages[s] = (struct vp_stage_costs){ .f = 1 + pipeline_draw(3),
                                             .b = 1 + pipeline_draw(3),
                                             .w = 1 + pipeline_draw(3),
                                             .r = 1 + pipeline_draw(2) };
        recompute[s] = setup->ratios[s] > 0.0;
        limits[s] = memory;
    }
    if (vp_schedule_make(&config, &schedule, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(vp_schedule_print(&schedule, 0, &text), VP_OK);
    vp_schedule_release(&schedule);
    return text;
}

/* Schedule `auto` gives the same bits in all three placements, with R at the
 * places that it chooses. */
static void auto_gives_the_same_bits(void **state)
{
    static const struct {
        int n_stages, n_chunks, memory;
        bool v_shape;
    } cases[] = {
        { 1, 1, 2, false }, { 2, 1, 2, false }, { 4, 1, 3, false },
        { 2, 2, 3, false }, { 3, 2, 6, false }, { 2, 2, 4, true },
        { 4, 2, 5, true },  { 4, 2, 8, true },
    };

    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = usual;
        struct run want, got;

        set_type(&setup, *state);
        setup.model = models[m];
        setup.layers = 4;
        setup.accumulation = 5;
        setup.n_steps = 3;
        setup.grad_clip = 0.5f;
        train(&want, &setup);
        for (size_t c = 0; c < VP_COUNT_OF(cases); c++) {
            static const double ratios[] = { 0.0, 0.5, 1.0, 1.0 };
            double stage_ratios[VP_MAX_STAGES];
            int partition[VP_MAX_STAGES];
            struct setup pipe = setup;
            char *text;

            pipe.schedule = "auto";
            pipe.n_stages = cases[c].n_stages;
            pipe.n_chunks = cases[c].n_chunks;
            pipe.schedule_v = cases[c].v_shape;
            random_partition(partition, pipe.n_stages * pipe.n_chunks,
                             n_blocks_of(&setup));
            for (int s = 0; s < pipe.n_stages * pipe.n_chunks; s++)
                stage_ratios[s] = ratios[pipeline_draw(4)];
            pipe.partition = partition;
            pipe.ratios = stage_ratios;
            text = auto_text(&pipe, cases[c].memory);
            pipe.schedule_text = text;
            train(&got, &pipe);
            assert_same(&want, &got, setup.n_steps);
            free(text);
        }
    }
}

/* Lists from a text replace those of the named generator. This order, with two
 * forwards before the first backward of stage 1, is made by no generator. */
static void lists_by_hand_give_the_same_bits(void **state)
{
    static const char text[] =
        "stages=2 minibatches=3 split=1\n"
        "0: 0F0 0SEND_ACT0 0F1 0SEND_ACT1 0F2 0SEND_ACT2 0RECV_GRAD0 0B0 "
        "0RECV_GRAD1 0B1 0W0 0RECV_GRAD2 0B2 0W1 0W2 0UPDATE0\n"
        "1: 1RECV_ACT0 1F0 1RECV_ACT1 1F1 1B0 1SEND_GRAD0 1W0 1RECV_ACT2 1F2 "
        "1B1 1SEND_GRAD1 1B2 1SEND_GRAD2 1W1 1W2 1UPDATE0\n";
    static const int partition[] = { 2, 3 };
    struct setup setup = usual;
    struct run want, got;

    (void)state;
    setup.accumulation = 3;
    setup.n_steps = 3;
    setup.grad_clip = 0.5f;
    train(&want, &setup);
    setup.schedule = "1f1b";
    setup.schedule_text = text;
    setup.n_stages = 2;
    setup.partition = partition;
    setup.recompute = 0.5;
    train(&got, &setup);
    assert_same(&want, &got, setup.n_steps);
}

/* Without clipping a device may update each tensor as soon as its gradient is
 * final, and with one backward per update reuse the gradient's memory. With a
 * clipping limit, even one that is never reached, it has to wait for the norm
 * of all gradients. Both give the same weights and norms. */
static void early_updates_give_the_same_bits(void **state)
{
    static const struct {
        struct sync_case pipe;
        int accumulation;
    } cases[] = {
        { { "1f1b", 1, 0, 0 }, 3 },        { { "1f1b", 1, 0, 0 }, 1 },
        { { "1f1b", 3, 0, 0 }, 3 },        { { "1f1b", 3, 0, 0 }, 1 },
        { { "interleaved", 2, 2, 0 }, 3 }, { { "interleaved", 2, 2, 0 }, 1 },
        { { "zb-h1", 2, 0, 0 }, 3 },       { { "pipedream", 1, 0, 0 }, 1 },
        { { "pipedream", 3, 0, 0 }, 1 }
    };
    static const enum vp_optim_kind kinds[] = { VP_OPTIM_ADAMW, VP_OPTIM_SGD };
    struct vp_backend_ops ops = *test_device();

    ops.grad_linger = ops.grad_linger > 0; /* reuse memory at once */
    for (size_t c = 0; c < VP_COUNT_OF(cases); c++)
        for (size_t k = 0; k < VP_COUNT_OF(kinds); k++) {
            bool stream = strcmp(cases[c].pipe.schedule, "pipedream") == 0;
            struct setup setup = usual;
            int partition[VP_MAX_STAGES];
            struct run early, late;

            set_type(&setup, *state);
            setup.schedule = cases[c].pipe.schedule;
            setup.n_stages = cases[c].pipe.n_stages;
            setup.n_chunks = cases[c].pipe.n_chunks;
            random_partition(partition,
                             setup.n_stages *
                                 (setup.n_chunks ? setup.n_chunks : 1),
                             n_blocks_of(&setup));
            setup.partition = partition;
            setup.tied = !stream;
            setup.accumulation = cases[c].accumulation;
            setup.n_steps = 6;
            setup.optim = kinds[k];
            setup.device = &ops;
            train(&early, &setup);
            setup.grad_clip = 1e9f;
            train(&late, &setup);
            assert_same(&late, &early, setup.n_steps);
        }
}

/* ---- Wrong partitions --------------------------------------------------- */

/* A partition that does not fit the model is refused; the message has both
 * numbers. */
static void wrong_partitions_are_refused(void **state)
{
    static const int partition[] = { 2, 2 };
    struct setup setup = usual;
    struct vp_err err;
    struct run run;

    (void)state;
    setup.n_stages = 2;
    setup.partition = partition;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "have 4 blocks, the model has 5"));
    run_free(&run);
    setup.partition = NULL;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "need a partition"));
    run_free(&run);
}

/* ---- Stopping ----------------------------------------------------------- */

static bool stop_at_5(void *ctx, const struct vp_step_report *report)
{
    *(int64_t *)ctx = report->step;
    return report->step < 5;
}

/* A run that is asked to stop ends within 300 steps, and its weights are those
 * of a run of that many steps. */
static void a_run_stops_when_asked(void **state)
{
    static const char *const schedules[] = { "1f1b", "pipedream" };
    static const int partition[] = { 2, 1, 2 };
    static const int replicas[] = { 1, 3, 1 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        struct setup setup = usual;
        int64_t n_done = 0;
        uint64_t hash;

        setup.schedule = schedules[i];
        setup.n_stages = 3;
        setup.partition = partition;
        setup.replicas = i ? replicas : NULL;
        setup.tied = false;
        setup.threads = 1;
        hash = train_until(&setup, 2000, stop_at_5, &n_done);
        assert_in_range(n_done, 5, 300);
        assert_true(hash == train_until(&setup, n_done, NULL, NULL));
    }
}

/* ---- Replicas in synchronous training ----------------------------------- */

/* Replicas share the minibatches of a step. Sums over replicas have another
 * order than sums over minibatches, so only runs with equal numbers of replicas
 * have equal bits: here with and without recomputation. */
static void replicas_train(void **state)
{
    static const int replicas[] = { 2, 1, 3 };
    static const int partition[] = { 2, 1, 2 };
    struct setup setup = usual;
    struct run one, two;

    (void)state;
    setup.n_stages = 3;
    setup.partition = partition;
    setup.replicas = replicas;
    setup.accumulation = 7;
    setup.threads = 1;
    train(&one, &setup);
    setup.recompute = 0.5;
    setup.threads = 2;
    train(&two, &setup);
    assert_same(&one, &two, setup.n_steps);
}

int main(void)
{
    bool bf16 = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same_bits),
        cmocka_unit_test(auto_gives_the_same_bits),
        cmocka_unit_test(lists_by_hand_give_the_same_bits),
        cmocka_unit_test(early_updates_give_the_same_bits),
        cmocka_unit_test(wrong_partitions_are_refused),
        cmocka_unit_test(a_run_stops_when_asked),
        cmocka_unit_test(replicas_train),
        { "every_cut in bf16", every_cut_gives_the_same_bits, NULL, NULL,
          &bf16 },
        { "early_updates in bf16", early_updates_give_the_same_bits, NULL, NULL,
          &bf16 },
    };

    return run_part(tests, VP_COUNT_OF(tests));
}
