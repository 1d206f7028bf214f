/* Generation is divided into steps. Each step has the expected pieces of
 * prompts, lines of the cache, and program lengths. */
#include "run/decode_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_TEXTS = 8 };

struct job {
    struct vp_config config;
    struct vp_decoded_text texts[MAX_TEXTS];
    struct vp_decode_steps steps;
};

/* Begins a job with texts of `n` ids that grow up to `most` ids. Both arrays
 * end with 0. */
static void start(struct job *job, int64_t batch, int stages, int64_t positions,
                  bool has_cache, const int64_t *n, const int64_t *most)
{
    struct vp_err err = { .text = "" };
    int n_texts = 0;

    memset(job, 0, sizeof(*job));
    job->config.batch_size = batch;
    job->config.stages = stages;
    job->config.chunks = 1;
    job->config.sizes.positions = positions;
    for (; n[n_texts] > 0; n_texts++) {
        job->texts[n_texts].n = n[n_texts];
        job->texts[n_texts].most = most[n_texts];
    }
    assert_int_equal(vp_decode_steps_init(&job->steps, &job->config, has_cache,
                                          job->texts, n_texts, &err),
                     VP_OK);
}

/* Returns the minibatches of the next step as text: "LENGTH: text[begin+n]
 * ...", with '!' where an id is drawn and '-' for padding. */
static const char *step_text(struct job *job)
{
    static char text[1024];
    size_t used = 0;

    text[0] = '\0';
    if (!vp_decode_steps_next(&job->steps))
        return "end";
    for (int64_t m = 0; m < job->steps.n_minibatches; m++) {
        const struct vp_dims *dims = &job->steps.dims[job->steps.buckets[m]];
        const struct vp_decode_row *rows = vp_decode_steps_rows(&job->steps,
                                                                (uint64_t)m);

        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "%s%d:", m > 0 ? "; " : "", (int)dims->seq);
        for (int64_t i = 0; i < dims->batch; i++)
            used += (size_t)(rows[i].text
                                 ? snprintf(text + used, sizeof(text) - used,
                                            " %d[%d+%d]%s",
                                            (int)(rows[i].text - job->texts),
                                            (int)rows[i].begin, (int)rows[i].n,
                                            vp_decode_row_draws(&rows[i]) ? "!"
                                                                          : "")
                                 : snprintf(text + used, sizeof(text) - used,
                                            " -"));
    }
    return text;
}

/* Adds an id to every active text, and ends the complete ones. */
static void grow(struct job *job)
{
    int64_t ended[MAX_TEXTS], n = 0;

    for (int64_t i = 0; i < job->steps.n_active; i++) {
        int64_t k = job->steps.active[i];

        if (++job->texts[k].n == job->texts[k].most)
            ended[n++] = k;
    }
    while (n > 0)
        vp_decode_steps_end(&job->steps, ended[--n]);
}

static void expect(struct job *job, const char *want)
{
    assert_string_equal(step_text(job), want);
    grow(job);
}

/* Two lines serve three texts: the third text takes the line of the first one
 * that ends. */
static void lines_are_used_again(void **state)
{
    static const int64_t n[] = { 5, 3, 20, 0 }, most[] = { 7, 6, 22, 0 };
    struct job job;

    (void)state;
    start(&job, 2, 1, 64, true, n, most);
    assert_int_equal(job.steps.cache.n_lines, 2);
    assert_int_equal(job.steps.cache.n_positions, 21);
    assert_int_equal(job.steps.n_dims, 3);
    expect(&job, "16: 0[0+5]!; 16: 1[0+3]!");
    expect(&job, "1: 0[5+1]! 1[3+1]!");
    expect(&job, "1: - 1[4+1]!; 32: 2[0+20]!");
    assert_int_equal(job.texts[2].line, 0);
    expect(&job, "1: 2[20+1]! -");
    assert_string_equal(step_text(&job), "end");
    vp_decode_steps_release(&job.steps);
}

/* Two stages have two minibatches; the cache has lines for both of them. */
static void stages_have_minibatches(void **state)
{
    static const int64_t n[] = { 1, 1, 1, 1, 1, 0 };
    static const int64_t most[] = { 3, 4, 4, 4, 4, 0 };
    struct job job;

    (void)state;
    start(&job, 2, 2, 64, true, n, most);
    assert_int_equal(job.steps.cache.n_lines, 4);
    expect(&job, "16: 0[0+1]!; 16: 1[0+1]!; 16: 2[0+1]!; 16: 3[0+1]!");
    expect(&job, "1: 0[1+1]! 1[1+1]!; 1: 2[1+1]! 3[1+1]!");
    expect(&job, "1: - 1[2+1]!; 1: 2[2+1]! 3[2+1]!; 16: 4[0+1]!");
    expect(&job, "1: 4[1+1]! -");
    expect(&job, "1: 4[2+1]! -");
    assert_string_equal(step_text(&job), "end");
    vp_decode_steps_release(&job.steps);
}

static void prompts_are_cut(void **state)
{
    static const int64_t n[] = { 700, 257, 256, 0 };
    static const int64_t most[] = { 701, 258, 257, 0 };
    static const int64_t few[] = { 90, 0 }, few_most[] = { 130, 0 };
    struct job job;

    (void)state;
    start(&job, 3, 1, 1024, true, n, most);
    expect(&job, "256: 0[0+256]; 256: 0[256+256]; 256: 0[512+188]!; "
                 "256: 1[0+256]; 16: 1[256+1]!; 256: 2[0+256]!");
    vp_decode_steps_release(&job.steps);
    /* A piece is not longer than the model's number of positions. */
    start(&job, 3, 1, 100, true, few, few_most);
    expect(&job, "100: 0[0+90]!");
    vp_decode_steps_release(&job.steps);
}

static void without_a_cache_all_is_computed(void **state)
{
    static const int64_t n[] = { 31, 3, 2, 0 }, most[] = { 34, 5, 4, 0 };
    struct job job;

    (void)state;
    start(&job, 2, 1, 64, false, n, most);
    assert_int_equal(job.steps.cache.n_lines, 0);
    expect(&job, "32: 0[0+31]! 1[0+3]!; 32: 2[0+2]! -");
    expect(&job, "32: 0[0+32]! 1[0+4]!; 32: 2[0+3]! -");
    expect(&job, "64: 0[0+33]! -");
    assert_string_equal(step_text(&job), "end");
    vp_decode_steps_release(&job.steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_used_again),
        cmocka_unit_test(stages_have_minibatches),
        cmocka_unit_test(prompts_are_cut),
        cmocka_unit_test(without_a_cache_all_is_computed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
