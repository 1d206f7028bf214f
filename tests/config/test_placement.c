/* Placement files of the original vPipe set stages, replicas, rank numbers and
 * warm-up depths, within limits; 300 random placements are read back
 * exactly. */
#include "base/rng.h"
#include "config/config.h"
#include "lib/config_text.h"
#include "lib/configlib.h"
#include "lib/plan_filelib.h"
#include "lib/tempfolder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- Helpers; all files are in one temporary folder --------------------- */

static uint32_t draw(uint32_t round, uint32_t i, uint32_t n)
{
    return vp_rng_below(vp_rng(23, VP_RNG_TEST, 1, round, i, 0).v[0], n);
}

/* ---- Placements --------------------------------------------------------- */

static void test_placement(void **state)
{
    struct vp_config c;

    (void)state;
    write_text_file("m.json",
                    "{\n"
                    "  \"module_to_stage_map\": [0, 1, 2, 2],\n"
                    "  \"stage_to_rank_map\": {\"0\": [0], \"1\": [1],\n"
                    "                        \"2\": [2, 3]},\n"
                    "  \"mp_size\": 1\n"
                    "}\n");
    load_ok(NINE "partition: [3, 3, 3]\nconfig_file: m.json\n", NULL, &c);
    assert_ints(&c.replicas, INTS(1, 1, 2));
    assert_int_equal(vp_config_n_ranks(&c), 4);
    assert_int_equal(c.ranks.n, 0);
    assert_int_equal(c.warmup_depths.n, 0);
    assert_string_equal(vp_config_place(&c, "replicas"), "m.json:3");
    assert_string_equal(vp_config_written(&c, "replicas"), "stage_to_rank_map");
    vp_config_release(&c);

    /* The placement sets the number of stages; the partition is then balanced
     * by work. */
    load_ok(NINE "config_file: m.json\n", NULL, &c);
    assert_int_equal(c.stages, 3);
    assert_int_equal(c.partition.n, 3);
    vp_config_release(&c);

    /* A key has priority over the placement. */
    load_ok(NINE "config_file: m.json\nstages: 2\nreplicas: [2, 1]\n", NULL,
            &c);
    assert_ints(&c.replicas, INTS(2, 1));
    vp_config_release(&c);

    /* Stages and ranks may be in any order; the numbers of ranks are kept. */
    write_text_file("m.json",
                    "{\"stage_to_rank_map\": {\"1\": [3], \"0\": [2, 0],"
                    "\"2\": [1]}, \"stage_to_depth_map\": {\"2\": 0,"
                    "\"0\": 2, \"1\": 2}}");
    load_ok(NINE "sync_mode: asp\nconfig_file: m.json\n", NULL, &c);
    assert_ints(&c.replicas, INTS(2, 1, 1));
    assert_ints(&c.ranks, INTS(2, 0, 3, 1));
    assert_int_equal(vp_config_rank_number(&c, 2), 3);
    assert_ints(&c.warmup_depths, INTS(2, 2, 0));
    assert_string_equal(vp_config_written(&c, "warmup_depths"),
                        "stage_to_depth_map");
    vp_config_release(&c);
    load_ok(NINE "sync_mode: asp\nconfig_file: m.json\n"
                 "replicas: [1, 1, 1]\nwarmup_depths: [3, 1, 0]\n",
            NULL, &c);
    assert_int_equal(c.ranks.n, 0);
    assert_ints(&c.warmup_depths, INTS(3, 1, 0));
    vp_config_release(&c);

    /* With one rank per stage, a rank may own several stages. */
    write_text_file("m.json",
                    "{\"stage_to_rank_map\": {\"0\": [0], \"1\": [1]}}");
    load_ok(NINE "schedule: interleaved\nconfig_file: m.json\n", NULL, &c);
    assert_int_equal(vp_config_n_stages(&c), 4);
    vp_config_release(&c);
}

/* A placement with the largest number of stages of a schedule, and one more. */
static void test_placement_limit(void **state)
{
    static const char yaml[] = BERT "layers: 48\nconfig_file: m.json\n";
    struct vp_config c;

    (void)state;
    for (int n = 64; n <= 65; n++) {
        FILE *file = fopen("m.json", "w");

        assert_non_null(file);
        for (int s = 0; s < n; s++)
            fprintf(file, "%s\"%d\": [%d]",
                    s ? ", " : "{\"stage_to_rank_map\": {", s, s);
        fprintf(file, "}}\n");
        assert_int_equal(fclose(file), 0);
        if (n == 64) {
            load_ok(yaml, NULL, &c);
            assert_int_equal(vp_config_n_ranks(&c), 64);
            vp_config_release(&c);
        } else {
            assert_string_equal(refused_message(yaml),
                                "m.json:1: key 'stage_to_rank_map': 65 stages "
                                "are too many; use at most 64");
        }
    }
}

/* If the entries of module_to_stage_map are blocks, they set the partition. */
static void test_modules_are_blocks(void **state)
{
    static const char *const maps[] = { "[0, 0, 0, 0, 1, 1, 1, 2, 2]",
                                        "[0, 0, 0, 0, 1, 1, 1, 2, 2, 2]" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(maps); i++) {
        struct vp_config c;
        char json[256];

        snprintf(json, sizeof(json),
                 "{\"module_to_stage_map\": %s, \"stage_to_rank_map\": "
                 "{\"0\": [0], \"1\": [1], \"2\": [2]}}",
                 maps[i]);
        write_text_file("m.json", json);
        load_ok(NINE "config_file: m.json\n", NULL, &c);
        assert_ints(&c.partition, INTS(4, 3, 2));
        vp_config_release(&c);
        load_ok(NINE "config_file: m.json\npartition: [4, 3, 2]\n", NULL, &c);
        vp_config_release(&c);
        assert_string_equal(
            refused_message(NINE "config_file: m.json\npartition: [4, 2, 3]\n"),
            "m.json:1: key 'module_to_stage_map' has 3 blocks on stage 1, but "
            "partition at a.yml:4 has 2; make them agree");
    }
}

/* A random placement: stage s has the ranks from ranks[first[s]] up to, but
 * without, ranks[first[s + 1]]. */
struct sample {
    int n_stages, n_ranks;
    int replicas[8], first[9], ranks[24];
    int order[8]; /* order of the stages in the file */
};

static void shuffle(int *list, int n, uint32_t round, uint32_t key)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)draw(round, key + (uint32_t)i, (uint32_t)i + 1);
        int kept = list[i];

        list[i] = list[j];
        list[j] = kept;
    }
}

static void draw_sample(struct sample *sample, uint32_t round)
{
    *sample = (struct sample){ .n_stages = 1 + (int)draw(round, 0, 8) };
    for (int s = 0; s < sample->n_stages; s++) {
        sample->replicas[s] = 1 + (int)draw(round, 10 + (uint32_t)s, 3);
        sample->first[s + 1] = sample->first[s] + sample->replicas[s];
        sample->order[s] = s;
    }
    sample->n_ranks = sample->first[sample->n_stages];
    for (int i = 0; i < sample->n_ranks; i++)
        sample->ranks[i] = i;
    if (round % 3 != 0)
        shuffle(sample->ranks, sample->n_ranks, round, 100);
    shuffle(sample->order, sample->n_stages, round, 200);
}

static void write_sample(const struct sample *sample)
{
    FILE *file = fopen("m.json", "w");

    assert_non_null(file);
    fprintf(file, "{\"stage_to_rank_map\": {");
    for (int k = 0; k < sample->n_stages; k++) {
        int s = sample->order[k];

        fprintf(file, "%s\"%d\": [", k ? ", " : "", s);
        for (int i = sample->first[s]; i < sample->first[s + 1]; i++)
            fprintf(file, "%s%d", i > sample->first[s] ? "," : "",
                    sample->ranks[i]);
        fprintf(file, "]");
    }
    fprintf(file, "}}\n");
    assert_int_equal(fclose(file), 0);
}

/* Random placements are read as written, and one wrong rank is always found. */
static void test_placement_sweep(void **state)
{
    static const char yaml[] = BERT "layers: 8\nconfig_file: m.json\n";

    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        struct sample sample;
        struct vp_config c;

        draw_sample(&sample, round);
        write_sample(&sample);
        load_ok(yaml, NULL, &c);
        assert_int_equal(c.stages, sample.n_stages);
        assert_ints(&c.replicas, sample.n_stages, sample.replicas);
        assert_int_equal(vp_config_n_ranks(&c), sample.n_ranks);
        for (int i = 0; i < sample.n_ranks; i++)
            assert_int_equal(vp_config_rank_number(&c, i), sample.ranks[i]);
        vp_config_release(&c);

        /* The number is now used twice, or is larger than the last. */
        sample.ranks[draw(round, 99, (uint32_t)sample.n_ranks)]++;
        write_sample(&sample);
        assert_non_null(strstr(refused_message(yaml), "m.json:1: rank "));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_placement_limit),
        cmocka_unit_test(test_modules_are_blocks),
        cmocka_unit_test(test_placement_sweep),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
