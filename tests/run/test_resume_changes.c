/* A run may be resumed with other stages, depths and replicas. Changes are
 * reported, and forbidden ones are refused. */
#include "ckpt/search.h"
#include "lib/resumelib.h"
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Other pipelines ---------------------------------------------------- */

static void any_number_of_stages_goes_on(void **state)
{
    static const struct {
        const char *stages, *schedule;
    } others[] = {
        { "stages=1", "schedule=zb-h1" },
        { "stages=2", "schedule=gpipe" },
        { "stages=3", "schedule=zb-h1" },
        { "stages=8", "schedule=gpipe" },
        { "stages=2", "schedule=zb-h2" },
        { "stages=2", "schedule=zb-v" },
        { "stages=2", "schedule=v-half" },
        { "stages=2", "schedule=v-min" },
        { "stages=2", "schedule=v-auto" },
        { "stages=2", "schedule=dualpipe-v" },
        { "stages=2", "schedule=auto" },
    };
    struct job job = { .sets = { "stages=4", "layers=4",
                                 "accumulation_steps=2" },
                       .n_sets = 3,
                       .output = "run" };
    char *want;

    (void)state;
    must_run_job(&job);
    want = trace_of("run");
    forget("run");
    for (size_t i = 0; i < VP_COUNT_OF(others); i++) {
        struct job part = job, rest = job;

        part.max_steps = 5;
        must_run_job(&part);
        rest.sets[0] = others[i].stages;
        rest.sets[rest.n_sets++] = others[i].schedule;
        rest.resume = "run";
        rest.output = NULL;
        must_run_job(&rest);
        assert_int_equal(job_shared->resumed, 5);
        assert_same_trace("run", want);
        forget("run");
    }
    free(want);
}

/* ---- Facts of a checkpoint ---------------------------------------------- */

/* Checks the list `key` of the newest checkpoint, which has a value per
 * block. */
static void check_facts(const char *key, int a, int b, int c)
{
    char folder[300], text[64], *list = NULL;
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };

    snprintf(folder, sizeof(folder), "%s/checkpoints", path_in_root("run"));
    assert_int_equal(vp_ckpt_open_newest(folder, NULL, NULL, &ckpt, &err),
                     VP_OK);
    assert_int_equal(vp_facts_json(vp_ckpt_facts(ckpt), key, &list, &err),
                     VP_OK);
    snprintf(text, sizeof(text), "[%d,%d,%d]", a, b, c);
    assert_string_equal(list, text);
    free(list);
    vp_ckpt_close(ckpt);
}

static void check_fact(const char *key, int want)
{
    check_facts(key, want, want, want);
}

/* ---- Updates per block -------------------------------------------------- */

/* Blocks of two stages that have had different numbers of updates continue in
 * one stage, each with its own count. A further stop changes nothing. */
static void blocks_keep_their_counts(void **state)
{
    struct job part = { .sets = { "partition=[2, 1]", "sync_mode=asp",
                                  "replicas=[2, 1]" },
                        .n_sets = 3,
                        .output = "run",
                        .max_steps = 4 };
    struct job rest = { .sets = { "partition=[3]", "sync_mode=asp" },
                        .n_sets = 2,
                        .resume = "run" };
    char *want;

    (void)state;
    must_run_job(&part);
    check_facts("updates", 2, 2, 4);
    must_run_job(&rest);
    check_facts("updates", 6, 6, 8);
    want = trace_of("run");
    forget("run");

    must_run_job(&part);
    rest.max_steps = 6;
    must_run_job(&rest);
    check_facts("updates", 4, 4, 6);
    rest.max_steps = 0;
    must_run_job(&rest);
    check_facts("updates", 6, 6, 8);
    assert_same_trace("run", want);
    forget("run");
    free(want);
}

/* The number of updates since the last overflow is resumed, for any number of
 * stages. */
static void a_scale_goes_on(void **state)
{
    static const char *const rest_sets[] = { "stages=1", "stages=3" };
    struct job job = { .sets = { "stages=2", "accumulation_steps=2",
                                 "loss_scale=dynamic" },
                       .n_sets = 3,
                       .output = "run" };
    char *want;

    (void)state;
    must_run_job(&job);
    want = trace_of("run");
    assert_non_null(strstr(want, ", \"loss_scale\": 65536, \"skipped\": 0\n"));
    check_fact("in_a_row", 8);
    forget("run");
    for (size_t i = 0; i < VP_COUNT_OF(rest_sets); i++) {
        struct job part = job, rest = job;

        part.max_steps = 5;
        must_run_job(&part);
        check_fact("in_a_row", 5);
        rest.sets[0] = rest_sets[i];
        rest.resume = "run";
        rest.output = NULL;
        must_run_job(&rest);
        assert_same_trace("run", want);
        check_fact("in_a_row", 8);
        check_fact("skipped", 0);
        forget("run");
    }
    free(want);
}

/* ---- Tensors in files --------------------------------------------------- */

static void check_as_published(const struct vp_ckpt *ckpt, const char *name,
                               const struct vp_graph *graph, vp_par par)
{
    const struct vp_param *param = &graph->params[par];
    int64_t rows = param->rows, cols = param->cols;
    struct vp_st_tensor shape = { .type = VP_ST_F32,
                                  .n_dims = 2,
                                  .dims = { cols, rows } };
    float want[48 * 64], got[48 * 64];
    struct vp_err err = { .text = "" };

    assert_in_range(rows * cols, 1, VP_COUNT_OF(want));
    vp_param_init(graph, par, 1, want);
    if (vp_ckpt_read(ckpt, name, &shape, got, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int64_t i = 0; i < rows * cols; i++)
        assert_true(got[i] == want[i % rows * cols + i / rows]);
}

/* Hugging Face's GPT-2 stores the weights of its layers as [in, out]. The
 * learning rate is nearly 0, so the files have the initial values. */
static void gpt2_is_saved_as_published(void **state)
{
    static const struct vp_dims dims = { 2, 16, 0, 0 };
    static const struct job job = {
        .sets = { "model_type=gpt2", "stages=2", "accumulation_steps=1",
                  "learning_rate=1e-30", "weight_decay=0" },
        .n_sets = 5,
        .output = "run",
        .max_steps = 2,
    };
    const struct vp_model *model = vp_model_find("gpt2");
    struct vp_model_config sizes = model->sizes[0].config;
    struct vp_graph graph;
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };
    char folder[300];
    int n = 0;

    (void)state;
    must_run_job(&job);
    snprintf(folder, sizeof(folder), "%s/checkpoints", path_in_root("run"));
    assert_int_equal(vp_ckpt_open_newest(folder, NULL, NULL, &ckpt, &err),
                     VP_OK);
    sizes.vocab = 64;
    sizes.hidden = 16;
    sizes.layers = 1;
    sizes.heads = 2;
    sizes.ffn = 64;
    sizes.positions = 16;
    sizes.tie_embeddings = false;
    if (vp_model_build(model, &sizes, &dims, &graph, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < graph.n_params; i++) {
        const char *name = graph.params[i].part[0].name;

        if (!strstr(name, ".c_") || !strstr(name, ".weight"))
            continue;
        check_as_published(ckpt, name, &graph, i);
        n++;
    }
    assert_int_equal(n, 4); /* attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj */
    vp_graph_release(&graph);
    vp_ckpt_close(ckpt);
    forget("run");
}

/* A resumed GPT-2 transposes its weights, moments and older versions back. */
static void gpt2_goes_on(void **state)
{
    static const char *const modes[] = { "sync_mode=bsp", "sync_mode=asp" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(modes); i++) {
        struct job job = { .sets = { "model_type=gpt2", "stages=3", modes[i] },
                           .n_sets = 3,
                           .output = "run" };
        struct job rest = job;
        char *want;

        must_run_job(&job);
        want = trace_of("run");
        forget("run");
        job.max_steps = 5;
        must_run_job(&job);
        rest.resume = "run";
        rest.output = NULL;
        must_run_job(&rest);
        assert_int_equal(job_shared->resumed, 5);
        assert_same_trace("run", want);
        forget("run");
        free(want);
    }
}

static void other_depths_are_said(void **state)
{
    struct job part = stream_job, rest = stream_job;

    (void)state;
    part.max_steps = 6;
    must_run_job(&part);
    rest.sets[rest.n_sets++] = "warmup_depths=[4, 3, 2]";
    rest.resume = "run";
    rest.output = "more";
    must_run_job(&rest);
    assert_non_null(strstr(job_shared->notices, "other depths"));
    forget("run");
    forget("more");
}

static void what_changes_is_said(void **state)
{
    struct job part = sync_job, rest = sync_job;

    (void)state;
    part.max_steps = 4;
    must_run_job(&part);
    rest.resume = "run";
    rest.output = "same";
    must_run_job(&rest);
    assert_string_equal(job_shared->notices, "");
    rest.sets[rest.n_sets++] = "learning_rate=0.5";
    rest.sets[rest.n_sets++] = "total_steps=6";
    rest.output = "more";
    must_run_job(&rest);
    assert_string_equal(job_shared->notices, "learning_rate is 0.5, was 0.01, "
                                             "total_steps is 6, was 8\n");
    forget("more");
    rest = sync_job;
    rest.resume = "run";
    rest.output = "more";
    rest.sets[rest.n_sets++] = "text_key=body";
    rest.sets[rest.n_sets++] = "document_end=7";
    must_run_job(&rest);
    assert_string_equal(job_shared->notices,
                        "document_end is 7, was -1, "
                        "text_key is \"body\", was \"text\"\n");
    forget("run");
    forget("same");
    forget("more");
}

static void what_must_not_change_is_refused(void **state)
{
    static const struct {
        const char *set, *message;
    } cases[] = {
        { "hidden=32", "hidden is 32" },
        { "batch_size=3", "batch_size is 3" },
        { "seed=2", "seed is 2" },
        { "optimizer=sgd", "optimizer is sgd" },
    };
    struct job part = sync_job;

    (void)state;
    part.max_steps = 4;
    must_run_job(&part);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct job rest = sync_job;

        rest.sets[rest.n_sets++] = cases[i].set;
        rest.resume = "run";
        rest.output = NULL;
        assert_int_equal(run_job(&rest), 1);
        if (!strstr(job_shared->error_text, cases[i].message))
            fail_msg("wanted '%s' in: %s", cases[i].message,
                     job_shared->error_text);
    }
    part = stream_job;
    part.resume = "run";
    part.output = NULL;
    assert_int_equal(run_job(&part), 1);
    assert_non_null(strstr(job_shared->error_text, "sync_mode is asp"));
    forget("run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_stages_goes_on),
        cmocka_unit_test(blocks_keep_their_counts),
        cmocka_unit_test(a_scale_goes_on),
        cmocka_unit_test(gpt2_is_saved_as_published),
        cmocka_unit_test(gpt2_goes_on),
        cmocka_unit_test(other_depths_are_said),
        cmocka_unit_test(what_changes_is_said),
        cmocka_unit_test(what_must_not_change_is_refused),
    };

    return cmocka_run_group_tests(tests, make_root_folder, remove_root_folder);
}
