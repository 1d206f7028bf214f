/* With precision: auto the ranks agree on one precision, and a resumed run
 * keeps its precision. */
#include "backend/facts.h"
#include "lib/tempfolder.h"
#include "run/precision_agree.h"
#include "run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL(precision)                                              \
    "model_type: bert\nlayers: 1\nhidden: 16\nheads: 2\nvocab: 264\n" \
    "seq_length: 16\nbatch_size: 2\naccumulation_steps: 1\n"          \
    "threads_per_stage: 1\ndevice: cpu\nprecision: " precision "\n"

/* ---- Several ranks ------------------------------------------------------ */

#define BF16(isa)              \
    {                          \
        VP_PRECISION_BF16, isa \
    }
#define FP32(isa)              \
    {                          \
        VP_PRECISION_FP32, isa \
    }

static void ranks_agree(void **state)
{
    static const struct {
        struct vp_precision_wish wishes[3];
        enum vp_precision want;
    } cases[] = {
        { { BF16("amx_bf16"), BF16("amx_bf16"), BF16("amx_bf16") },
          VP_PRECISION_BF16 },
        { { BF16("amx_bf16"), BF16("amx_bf16"), FP32("avx2") },
          VP_PRECISION_FP32 },
        { { FP32("avx2"), BF16("amx_bf16"), BF16("amx_bf16") },
          VP_PRECISION_FP32 },
        { { BF16("amx_bf16"), BF16("avx512_bf16"), BF16("amx_bf16") },
          VP_PRECISION_FP32 },
        { { BF16("amx_bf16"), BF16("amx_bf16"), BF16("avx512_bf16") },
          VP_PRECISION_FP32 },
        { { FP32("avx2"), FP32("avx2"), FP32("avx2") }, VP_PRECISION_FP32 },
        /* GPUs have no instruction set name. */
        { { BF16(""), BF16(""), BF16("") }, VP_PRECISION_BF16 },
        { { BF16(""), BF16("amx_bf16"), BF16("") }, VP_PRECISION_BF16 },
        { { BF16("amx_bf16"), BF16(""), BF16("avx512_bf16") },
          VP_PRECISION_FP32 },
        { { BF16(""), BF16(""), FP32("avx2") }, VP_PRECISION_FP32 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        if (vp_precision_choose(cases[i].wishes, 3) != cases[i].want)
            fail_msg("case %zu", i);
    assert_int_equal(vp_precision_choose(cases[1].wishes, 2),
                     VP_PRECISION_BF16);
}

/* The measured rates are far from the limit, so the choice does not change on a
 * busy machine. */
static void preference_is_stable(void **state)
{
    bool first = vp_cores_prefer_bf16();

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(vp_cores_prefer_bf16(), first);
    if (!vp_cores_multiply_bf16())
        assert_false(first);
    if (strcmp(vp_cores_isa(), "amx_bf16") == 0)
        assert_true(first);
}

/* ---- A resumed run ------------------------------------------------------ */

/* Trains one step in folder `run`. */
static void train_one_step(const char *text)
{
    const struct vp_run_options options = { .output = "run", .max_steps = 1 };
    const struct vp_run_events events = { 0 };
    const struct vp_config_source from = { .path = "a.yml",
                                           .bytes = text,
                                           .n_bytes = strlen(text) };
    struct vp_err err = { .text = "" };
    struct vp_config config;

    if (vp_config_load_from(&from, &config, &err) != VP_OK ||
        vp_run_train(&config, &options, &events, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_config_release(&config);
}

/* Returns the precision of `text` if `resume` is resumed. */
static enum vp_precision precision_of(const char *text, const char *resume)
{
    struct vp_config_source from = { .path = "a.yml",
                                     .bytes = text,
                                     .n_bytes = strlen(text) };
    struct vp_err err = { .text = "" };
    enum vp_precision agreed, got;
    struct vp_config config;

    if (vp_config_load_from(&from, &config, &err) != VP_OK ||
        vp_precision_agree(&config, &from, resume, NULL, &agreed, &err) !=
            VP_OK)
        fail_msg("%s", err.text);
    got = config.precision;
    assert_int_equal(agreed, got);
    assert_ptr_equal(from.precision, &agreed);
    vp_config_release(&config);
    return got;
}

/* A resumed run with `auto` keeps its precision, whatever this machine prefers.
 * A precision that the user names has priority. */
static void a_run_keeps_its_precision(void **state)
{
    static const char *const texts[] = { MODEL("fp32"), MODEL("bf16") };
    static const enum vp_precision want[] = { VP_PRECISION_FP32,
                                              VP_PRECISION_BF16 };
    static const char *const from[] = { "run", "run/checkpoints",
                                        "run/checkpoints/step-1" };

    (void)state;
    assert_int_equal(precision_of(MODEL("auto"), NULL),
                     vp_cores_prefer_bf16() ? VP_PRECISION_BF16
                                            : VP_PRECISION_FP32);
    for (int i = 0; i < 2; i++) {
        train_one_step(texts[i]);
        for (size_t j = 0; j < VP_COUNT_OF(from); j++) {
            assert_int_equal(precision_of(MODEL("auto"), from[j]), want[i]);
            assert_int_equal(precision_of(texts[1 - i], from[j]), want[1 - i]);
        }
        assert_int_equal(remove_tree("run"), 0);
    }
    /* A folder that cannot be read is ignored here: opening the checkpoint
     * reports it. */
    assert_int_equal(precision_of(MODEL("auto"), "run"),
                     vp_cores_prefer_bf16() ? VP_PRECISION_BF16
                                            : VP_PRECISION_FP32);
}

/* A configuration from a pipe cannot be read a second time with the agreed
 * precision. */
static void a_pipe_is_refused(void **state)
{
    static const char text[] = MODEL("auto");
    const enum vp_precision other = vp_cores_prefer_bf16() ? VP_PRECISION_FP32
                                                           : VP_PRECISION_BF16;
    struct vp_config_source from = { .path = "a.yml",
                                     .bytes = text,
                                     .n_bytes = strlen(text) };
    struct vp_err err = { .text = "" };
    enum vp_precision agreed;
    struct vp_config config;

    (void)state;
    train_one_step(other == VP_PRECISION_FP32 ? MODEL("fp32") : MODEL("bf16"));
    assert_int_equal(vp_config_load_from(&from, &config, &err), VP_OK);
    config.piped = true;
    assert_int_equal(
        vp_precision_agree(&config, &from, "run", NULL, &agreed, &err),
        VP_ERR_INVALID);
    assert_string_equal(err.text,
                        other == VP_PRECISION_FP32
                            ? "a.yml: precision auto became fp32, and a pipe "
                              "can be read once; use --set precision=fp32"
                            : "a.yml: precision auto became bf16, and a pipe "
                              "can be read once; use --set precision=bf16");
    vp_config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_agree),
        cmocka_unit_test(preference_is_stable),
        cmocka_unit_test(a_run_keeps_its_precision),
        cmocka_unit_test(a_pipe_is_refused),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
