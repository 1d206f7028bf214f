/* A run reports its weight versions, boundary tensors and times as asked for by
 * `verbose`; num_minibatches limits epochs, forward_only evaluates without
 * training, and text that is not UTF-8 is reported. */
#include "lib/runlib.h"

#include <dirent.h>
#include <math.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Verbose reports ---------------------------------------------------- */

static int max0(int n)
{
    return n > 0 ? n : 0;
}

/* Every stage of an asynchronous pipeline uses version max(0, m - depth) in
 * forward and backward of minibatch m, and writes the next version. */
static void test_versions_asp(void **state)
{
    const char *const sets[] = {
        "stages=3",           "sync_mode=asp",       "total_steps=12",
        "verbose=[versions]", "verbose_frequency=1", NULL
    };
    int at = 0;

    (void)state;
    must_run_small(folder_of("versions"), NULL, sets);
    for (int m = 0; m < 12; m++)
        for (int s = 0; s < 3; s++) {
            int version = max0(m - (2 - s));
            char want[3][160];

            snprintf(want[0], sizeof(want[0]),
                     "versions: stage %d: F of minibatch %d uses version %d", s,
                     m, version);
            snprintf(want[1], sizeof(want[1]),
                     "versions: stage %d: B of minibatch %d uses version %d", s,
                     m, version);
            snprintf(want[2], sizeof(want[2]),
                     "versions: stage %d: update after minibatch %d writes "
                     "version %d",
                     s, m, m + 1);
            for (int i = 0; i < 3; i++, at++) {
                assert_true(at < heard.n_lines);
                assert_int_equal(heard.rank[at], s);
                assert_string_equal(heard.line[at], want[i]);
            }
        }
    assert_int_equal(at, heard.n_lines);
}

/* A synchronous pipeline uses one version for a whole step, with each of four
 * schedules. */
static void test_versions_bsp(void **state)
{
    static const char *const schedules[] = { "schedule=gpipe", "schedule=1f1b",
                                             "schedule=zb-h1",
                                             "schedule=interleaved" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        const char *const sets[] = { "stages=2",
                                     "sync_mode=bsp",
                                     "accumulation_steps=4",
                                     "total_steps=6",
                                     "verbose=[versions]",
                                     "verbose_frequency=3",
                                     schedules[i],
                                     NULL };
        char name[32];
        int n_updates = 0;

        snprintf(name, sizeof(name), "bsp%zu", i);
        must_run_small(folder_of(name), NULL, sets);
        assert_true(heard.n_lines > 0);
        for (int l = 0; l < heard.n_lines; l++) {
            int stage, m, version;
            char kind;

            if (sscanf(heard.line[l],
                       "versions: stage %d: update after minibatch %d writes "
                       "version %d",
                       &stage, &m, &version) == 3) {
                assert_true(m == 11 || m == 23);
                assert_int_equal(version, (m + 1) / 4);
                n_updates++;
                continue;
            }
            assert_int_equal(
                sscanf(heard.line[l],
                       "versions: stage %d: %c of minibatch %d uses version %d",
                       &stage, &kind, &m, &version),
                4);
            assert_true((m >= 8 && m < 12) || (m >= 20 && m < 24));
            assert_int_equal(version, m / 4);
        }
        assert_int_equal(n_updates, i == 3 ? 8 : 4);
    }
}

/* The sender of each boundary tensor reports it, forward and backward, with the
 * same norm in every run. */
static void test_tensors(void **state)
{
    const char *const sets[] = {
        "stages=3",          "sync_mode=asp",       "total_steps=10",
        "verbose=[tensors]", "verbose_frequency=5", NULL
    };
    static struct heard first;
    int n_ways[2] = { 0, 0 };

    (void)state;
    must_run_small(folder_of("tensors"), NULL, sets);
    first = heard;
    must_run_small(folder_of("tensors2"), NULL, sets);
    assert_int_equal(first.n_lines, heard.n_lines);
    for (int l = 0; l < first.n_lines; l++) {
        const char *tail = strstr(first.line[l], " [32 x 16] norm ");
        bool back = strstr(first.line[l], ": gradient of ");
        int m, from, to, message;
        double norm;

        assert_string_equal(first.line[l], heard.line[l]);
        assert_non_null(tail);
        assert_int_equal(sscanf(first.line[l], "tensors: minibatch %d: ", &m),
                         1);
        assert_int_equal(sscanf(tail,
                                " [32 x 16] norm %lf, rank %d -> rank %d, "
                                "message %d",
                                &norm, &from, &to, &message),
                         4);
        assert_true(m == 4 || m == 9);
        assert_int_equal(message, m);
        assert_true(isfinite(norm) && norm > 0.0);
        assert_int_equal(from, first.rank[l]);
        assert_int_equal(to, back ? from - 1 : from + 1);
        n_ways[back]++;
    }
    assert_int_equal(n_ways[0], 4);
    assert_int_equal(n_ways[1], 4);
}

/* Times are in the original's table, traffic is counted per link, and stages
 * are described once. */
static void test_time(void **state)
{
    const char *const sets[] = { "stages=2",
                                 "sync_mode=bsp",
                                 "accumulation_steps=3",
                                 "total_steps=4",
                                 "verbose=[stages, communication, time]",
                                 "verbose_frequency=4",
                                 NULL };
    static const char *const want[] = {
        "^Forward Stats:$",
        "^\t compute_time [0-9]+\\.[0-9]{3} seconds$",
        "^\t receive_tensors [0-9]+\\.[0-9]{3} seconds$",
        "^\t receive_tensors_size [0-9]+\\.000 bytes$",
        "^\t send_tensors [0-9]+\\.[0-9]{3} seconds$",
        "^\t send_tensors_size [0-9]+\\.000 bytes$",
        "^Backward Stats:$",
    };
    char *text;

    (void)state;
    must_run_small(folder_of("time"), NULL, sets);
    assert_int_equal(heard.n_lines, 2 + 2 * (1 + 13));
    for (int r = 0; r < 2; r++) {
        char name[32];

        assert_int_equal(heard.rank[r], r);
        assert_int_equal(
            count_lines(heard.line[r],
                        r == 0
                            ? "^stages: rank 0 has stage 0 of 2: blocks "
                              "0-[0-9], [0-9]+ parameters, depth 1, 2 slots, "
                              "1 versions, 0 of [0-9]+ lines"
                            : "^stages: rank 1 has stage 1 of 2: blocks "
                              "[0-9]-8, [0-9]+ parameters, depth 0, 1 slots, "
                              "1 versions, 0 of [0-9]+ lines"),
            1);
        /* Each of 12 minibatches has one message in each direction. */
        assert_int_equal(
            count_lines(heard.line[2 + 14 * r],
                        r == 0 ? "^communication: stage 0 -> stage 1: 12 "
                                 "messages, [1-9][0-9]+ bytes$"
                               : "^communication: stage 1 -> stage 0: 12 "
                                 "messages, [1-9][0-9]+ bytes$"),
            1);
        for (size_t i = 0; i < VP_COUNT_OF(want); i++)
            assert_int_equal(
                count_lines(heard.line[3 + 14 * r + (int)i], want[i]), 1);
        assert_int_equal(count_lines(heard.line[15 + 14 * r],
                                     "^Optimizer step took: "
                                     "[0-9]+\\.[0-9]{3}$"),
                         1);
        snprintf(name, sizeof(name), "output.log.%d", r);
        text = read_run_text(path_in_run_root("time", name));
        assert_int_equal(count_lines(text, "^\t "), 10);
        assert_int_equal(count_lines(text, "^stages: "), 1);
        free(text);
    }
    /* The bytes that one rank sends are received by the other. */
    assert_string_equal(heard.line[2 + 6] + 8, heard.line[2 + 14 + 4] + 11);
}

/* Without `verbose` there are no reports. */
static void test_silence(void **state)
{
    const char *const sets[] = { "stages=2", "total_steps=2", NULL };

    (void)state;
    must_run_small(folder_of("silent"), NULL, sets);
    assert_int_equal(heard.n_lines, 0);
    assert_int_equal(heard.n_steps, 2);
}

/* ---- num_minibatches and forward_only ----------------------------------- */

/* An epoch limited by num_minibatches is the beginning of the whole epoch. */
static void test_capped_data(void **state)
{
    struct vp_dims dims[2] = { { 4, 8, 0, 8 }, { 4, 8, 0, 32 } };
    struct vp_data_config config = {
        .source = VP_DATA_SYNTHETIC,
        .task = VP_DATA_MASKED_LM,
        .vocab = 64,
        .seed = 3,
        .mask_prob = 0.15f,
        .dims = dims,
        .n_dims = 2,
    };
    struct vp_data *whole, *capped;
    struct vp_batch *a, *b;
    struct vp_err err = { .text = "" };
    int64_t n;

    (void)state;
    assert_int_equal(vp_data_open(&config, &whole, &err), VP_OK);
    config.max_batches = 5;
    assert_int_equal(vp_data_open(&config, &capped, &err), VP_OK);
    n = vp_data_info(whole)->n_batches;
    assert_true(n > 5);
    assert_int_equal(vp_data_info(capped)->n_batches, 5);
    assert_int_equal(vp_batch_create(whole, &a), VP_OK);
    assert_int_equal(vp_batch_create(capped, &b), VP_OK);
    for (int64_t m = 0; m < 15; m++) {
        uint64_t same = (uint64_t)(m / 5 * n + m % 5);

        assert_int_equal(vp_data_fill(whole, same, a, &err), VP_OK);
        assert_int_equal(vp_data_fill(capped, (uint64_t)m, b, &err), VP_OK);
        assert_memory_equal(a->array[VP_ROLE_TOKENS], b->array[VP_ROLE_TOKENS],
                            4 * 8 * sizeof(int32_t));
        assert_int_equal(a->first_sample, b->first_sample);
    }
    vp_batch_free(a);
    vp_batch_free(b);
    vp_data_close(whole);
    vp_data_close(capped);
    config.max_batches = n + 1;
    assert_int_equal(vp_data_open(&config, &capped, &err), VP_OK);
    assert_int_equal(vp_data_info(capped)->n_batches, n);
    vp_data_close(capped);
}

static void write_lines(const char *path, const char *line, int n)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    for (int i = 0; i < n; i++)
        fputs(line, f);
    assert_int_equal(fclose(f), 0);
}

/* Bytes that are not UTF-8 end a run before it creates any file, unless they
 * are to be replaced. Replaced bytes and skipped text are reported once. */
static void test_text_notices(void **state)
{
    char data_dir[300];
    const char *sets[] = { data_dir,
                           "synthetic_data=false",
                           "vocab=260",
                           "total_steps=2",
                           "eval_every=1",
                           "device=cpu",
                           "invalid_utf8=refuse",
                           NULL };
    struct stat info;

    (void)state;
    snprintf(data_dir, sizeof(data_dir), "data_dir=%s", folder_of("texts"));
    mkdir(folder_of("texts"), 0777);
    write_lines(path_in_run_root("texts", "a.txt"), "caf\xE9 au lait\n", 100);
    write_lines(path_in_run_root("texts", "b.rst"), "not taken\n", 1);
    assert_int_equal(run_small(folder_of("text_run"), NULL, sets),
                     VP_ERR_INVALID);
    assert_non_null(strstr(heard.error, "/texts/a.txt: offset 3 (line 1): not "
                                        "UTF-8: E9; convert the file"));
    assert_string_equal(heard.notices, "");
    assert_int_equal(stat(folder_of("text_run"), &info), -1);
    sets[6] = "invalid_utf8=replace";
    must_run_small(folder_of("text_run"), NULL, sets);
    assert_int_equal(count_lines(heard.notices, "."), 2);
    assert_int_equal(count_lines(heard.notices,
                                 "/texts: 1 file taken as text; not taken: "
                                 "[.]rst 1; "),
                     1);
    assert_int_equal(count_lines(heard.notices,
                                 "replaces 100 NUL bytes or invalid UTF-8 "
                                 "sequences in 1 file, the first in .*/a.txt, "
                                 "offset 3$"),
                     1);
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

/* forward_only gives the loss of the run's own evaluation of the same batches,
 * and changes nothing in the run's folder. */
static void test_forward_only(void **state)
{
    const char *const sets[] = { "total_steps=6", "eval_every=6",
                                 "eval_batches=1000000", NULL };
    const char *const look[] = { "total_steps=6", "forward_only=true", NULL };
    const char *const look3[] = { "total_steps=6", "forward_only=true",
                                  "stages=3", "accumulation_steps=1", NULL };
    const char *const capped[] = { "forward_only=true", "num_minibatches=3",
                                   NULL };
    int n = 0, n_runs;
    double loss;
    char *before, *text;

    (void)state;
    must_run_small(folder_of("trained"), NULL, sets);
    loss = heard.eval_loss;
    n = count_entries(folder_of("trained"));
    before = read_run_text(path_in_run_root("trained", "metrics.jsonl"));
    n_runs = count_entries(run_root);
    must_run_small(NULL, folder_of("trained"), look);
    assert_int_equal(heard.n_evals, 1);
    assert_int_equal(heard.n_steps, 0);
    assert_int_equal(heard.eval_step, 6);
    assert_true(heard.n_batches > 3);
    assert_true(heard.eval_loss == loss);
    must_run_small(NULL, folder_of("trained"), look3);
    assert_true(heard.eval_loss == loss);
    assert_int_equal(count_entries(folder_of("trained")), n);
    assert_int_equal(count_entries(run_root), n_runs);
    assert_file(path_in_run_root("trained", "metrics.jsonl"), before);
    free(before);

    must_run_small(folder_of("looked"), NULL, capped);
    assert_true(heard.eval_loss != loss);
    assert_int_equal(heard.eval_step, 0);
    assert_int_equal(heard.n_batches, 3);
    text = read_run_text(path_in_run_root("looked", "metrics.jsonl"));
    assert_int_equal(count_lines(text, "."), 1);
    assert_int_equal(count_lines(text, "^\\{\"step\": 0, \"eval_loss\": "), 1);
    free(text);
    text = read_run_text(path_in_run_root("looked", "output.log.0"));
    assert_int_equal(count_lines(text, "^Test: \\[0\\]\\[3/3\\]\t"), 1);
    free(text);
    assert_int_not_equal(
        access(path_in_run_root("looked", "checkpoints"), F_OK), 0);
}

/* Events and trace of a run use the user's numbers of ranks. */
static void test_ranks_have_user_numbers(void **state)
{
    static const char *const sets[] = { "stages=3", "ranks=[2, 0, 1]",
                                        "total_steps=2", NULL };
    char *text;

    (void)state;
    must_run_small(folder_of("placed"), NULL, sets);
    assert_int_equal(heard.ranks[0], 2);
    assert_int_equal(heard.ranks[1], 0);
    assert_int_equal(heard.ranks[2], 1);
    text = read_run_text(path_in_run_root("placed", "output.log.2"));
    assert_non_null(strstr(text, "\n[Rank 2] Stage: 0, Rank in stage: 0\n"));
    free(text);
    text = read_run_text(path_in_run_root("placed", "trace.json"));
    assert_non_null(strstr(text, "\"rank_numbers\":[2,0,1]"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions_asp),
        cmocka_unit_test(test_versions_bsp),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_capped_data),
        cmocka_unit_test(test_text_notices),
        cmocka_unit_test(test_forward_only),
        cmocka_unit_test(test_ranks_have_user_numbers),
    };

    return cmocka_run_group_tests(tests, make_run_root, remove_run_root);
}
