/* Plans are printed as literal JSON and parsed without loss, random plans too.
 * Each mistake in a plan is refused with its place. */
#include "plan/plan_json.h"

#include "base/rng.h"
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t rand_count;

static int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(31, VP_RNG_TEST, 3, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

static void parse_ok(const char *text, struct vp_arena *arena,
                     struct vp_plan *out)
{
    struct vp_err err = { .text = "" };

    if (vp_plan_parse(text, strlen(text), "p.json", arena, out, &err) != VP_OK)
        fail_msg("%s\n%s", err.text, text);
    assert_string_equal(err.text, "");
}

static char *print_ok(const struct vp_plan *plan, int n_blocks)
{
    char *text;

    assert_int_equal(vp_plan_print(plan, n_blocks, NULL, &text), VP_OK);
    return text;
}

/* ---- Text --------------------------------------------------------------- */

#define LINES "schedule=\"x\"\n0: 0F0\\\n"

static const struct vp_plan full = {
    .schedule = "interleaved",
    .schedule_memory = 6,
    .schedule_text = LINES,
    .schedule_v = true,
    .early_recompute = true,
    .accumulation_steps = 8,
    .n_stages = 2,
    .n_chunks = 2,
    .partition = (const int[]){ 1, 1, 2, 1 },
    .recompute_ratio = (const double[]){ 0.3, 0, 1, 1.0 / 3 },
    .recompute_sets = (const uint64_t[]){ 5, 0, 1, 0, UINT64_C(1) << 63 },
    .swap_sets = (const uint64_t[]){ 0, 2, 0, 0, 0 },
    .slots = (const struct vp_plan_slot[]){ { NULL, NULL },
                                            { (const uint64_t[]){ 0, 0, 0, 0,
                                                                  3 },
                                              (const uint64_t[]){ 1, 0, 0, 0,
                                                                  0 } } },
    .n_slots = 2,
    .recompute_in_b = true,
    .w_recomputed = true,
    .swap_ratio = (const double[]){ 0.5, 0, 0.25, 0 },
    .swap_buffers = (const int[]){ 3, 0, 2, 0 },
    .keep_all = true,
    .replicas = (const int[]){ 1, 2 },
    .depth = (const int[]){ 1, 0 },
    .ranks = (const int[]){ 2, 0, 1 },
    .devices = (const int[]){ 0, 1, 0, 1, 2, 2 },
    .tensor_parallel = 2,
    .sequence_parallel = true,
    .keep_gathered = true,
    .edges = (const enum vp_edge_kind[]){ VP_EDGE_LOCAL, VP_EDGE_HOST,
                                          VP_EDGE_DEVICE },
    .replica_edges = (const enum vp_edge_kind[]){ VP_EDGE_LOCAL, VP_EDGE_HOST,
                                                  VP_EDGE_LOCAL,
                                                  VP_EDGE_DEVICE },
    .tie_edge = VP_EDGE_HOST,
    .compress = true,
    .shard_optimizer = true,
    .bundle_bytes = 4096,
};

static const char full_text[] =
    "{\n"
    "    \"partition\": [1, 1, 2, 1],\n"
    "    \"recompute_ratio\": [0.3, 0, 1, 0.33333333333333331],\n"
    "    \"version\": 1,\n"
    "    \"recompute\": [[0, 2], [], [0], [], [63]],\n"
    "    \"swap_ratio\": [0.5, 0, 0.25, 0],\n"
    "    \"swap\": [[], [1], [], [], []],\n"
    "    \"swap_buffers\": [3, 0, 2, 0],\n"
    "    \"slots\": [{}, {\"recompute\": [[], [], [], [], [0, 1]], "
    "\"swap\": [[0], [], [], [], []]}],\n"
    "    \"recompute_in_backward\": true,\n"
    "    \"w_recomputed\": true,\n"
    "    \"keep_all\": true,\n"
    "    \"schedule\": \"interleaved\",\n"
    "    \"schedule_memory\": 6,\n"
    "    \"schedule_text\": [\n"
    "        \"schedule=\\\"x\\\"\",\n"
    "        \"0: 0F0\\\\\"\n"
    "    ],\n"
    "    \"schedule_v\": true,\n"
    "    \"early_recompute\": true,\n"
    "    \"accumulation_steps\": 8,\n"
    "    \"stages\": 2,\n"
    "    \"chunks\": 2,\n"
    "    \"replicas\": [1, 2],\n"
    "    \"warmup_depths\": [1, 0],\n"
    "    \"ranks\": [2, 0, 1],\n"
    "    \"devices\": [0, 1, 0, 1, 2, 2],\n"
    "    \"tensor_parallel\": 2,\n"
    "    \"sequence_parallel\": true,\n"
    "    \"keep_gathered\": true,\n"
    "    \"edges\": [\"local\", \"host\", \"device\"],\n"
    "    \"replica_edges\": [\"local\", \"host\", \"local\", \"device\"],\n"
    "    \"tie_edge\": \"host\",\n"
    "    \"compress_activations\": true,\n"
    "    \"shard_optimizer\": true,\n"
    "    \"bundle_bytes\": 4096,\n"
    "    \"forecast\": {\"memory\": [1, 2, 3, 4], \"bubble\": 0.125}\n"
    "}\n";

static void literal_text(void **state)
{
    struct vp_plan_forecast forecast = {
        .bytes = (const int64_t[]){ 1, 2, 3, 4 }, .bubble = 0.125
    };
    static const struct vp_memory kinds = { .weights = 10,
                                            .gradients = 20,
                                            .moments = 30,
                                            .activations = 40,
                                            .boundary = 50,
                                            .work = 60,
                                            .total = 210 };
    const struct vp_plan none = { .n_stages = 0 };
    struct vp_arena arena = { NULL };
    struct vp_plan plan;
    char *text;

    (void)state;
    assert_int_equal(vp_plan_print(&full, 5, &forecast, &text), VP_OK);
    assert_string_equal(text, full_text);
    parse_ok(text, &arena, &plan);
    assert_string_equal(plan.schedule_text, LINES);
    assert_true(plan.recompute_sets[4] == UINT64_C(1) << 63);
    assert_null(plan.slots[0].swap_sets);
    assert_int_equal(plan.edges[2], VP_EDGE_DEVICE);
    free(text);

    forecast.step_seconds = 0.0625;
    assert_int_equal(vp_plan_print(&full, 5, &forecast, &text), VP_OK);
    assert_non_null(strstr(text, "\"forecast\": {\"step_seconds\": 0.0625, "
                                 "\"memory\": [1, 2, 3, 4], \"bubble\": "
                                 "0.125}"));
    parse_ok(text, &arena, &plan);
    free(text);

    forecast.memory = (const struct vp_memory *const[]){ &kinds, &kinds, &kinds,
                                                         &kinds };
    assert_int_equal(vp_plan_print(&full, 5, &forecast, &text), VP_OK);
    assert_non_null(strstr(
        text, "[1, 2, 3, 4], \"memory_kinds\": {\"weights\": [10, 10, 10, 10], "
              "\"gradients\": [20, 20, 20, 20], \"moments\": [30, 30, 30, 30], "
              "\"activations\": [40, 40, 40, 40], "
              "\"boundary\": [50, 50, 50, 50], \"work\": [60, 60, 60, 60]}, "
              "\"bubble\": 0.125}"));
    parse_ok(text, &arena, &plan);
    free(text);

    text = print_ok(&none, 7);
    assert_string_equal(text, "{\n"
                              "    \"partition\": [7],\n"
                              "    \"recompute_ratio\": [0],\n"
                              "    \"version\": 1,\n"
                              "    \"schedule\": \"1f1b\",\n"
                              "    \"early_recompute\": false,\n"
                              "    \"stages\": 1,\n"
                              "    \"tensor_parallel\": 1,\n"
                              "    \"compress_activations\": false\n"
                              "}\n");
    free(text);
    vp_arena_release(&arena);
}

/* ---- Round trips -------------------------------------------------------- */

enum { MAX_STAGES = 8, MAX_BLOCKS = 40, MAX_RANKS = 40 };

struct drawn {
    struct vp_plan plan;
    int n_blocks, n_ranks;
    int partition[MAX_STAGES], replicas[MAX_STAGES], depth[MAX_STAGES];
    int ranks[MAX_RANKS], devices[2 * MAX_RANKS];
    double ratio[MAX_STAGES];
    uint64_t sets[MAX_BLOCKS], swap[MAX_BLOCKS];
    enum vp_edge_kind edges[MAX_STAGES], replica_edges[MAX_STAGES];
    struct vp_plan_slot slots[3];
};

static uint64_t draw_set(void)
{
    uint64_t set = 0;

    for (int i = rand_below(4); i > 0; i--)
        set |= UINT64_C(1) << rand_below(64);
    return set;
}

static void draw_arrays(struct drawn *d)
{
    struct vp_plan *plan = &d->plan;

    d->n_blocks = d->n_ranks = 0;
    for (int s = 0; s < vp_plan_n_stages(plan); s++) {
        d->partition[s] = 1 + rand_below(5);
        d->n_blocks += d->partition[s];
        d->ratio[s] = rand_below(3) ? rand_below(1000) / 999.0 : 1;
        d->edges[s] = (enum vp_edge_kind)rand_below(3);
        d->replica_edges[s] = (enum vp_edge_kind)rand_below(3);
    }
    for (int s = 0; s < plan->n_stages; s++) {
        d->replicas[s] = 1 + rand_below(5);
        d->depth[s] = rand_below(1001);
    }
    for (int i = 0; i < MAX_RANKS; i++) {
        d->ranks[i] = rand_below(1024);
        d->devices[i] = rand_below(8);
        d->devices[MAX_RANKS + i] = rand_below(8);
    }
    for (int b = 0; b < MAX_BLOCKS; b++) {
        d->sets[b] = draw_set();
        d->swap[b] = draw_set();
    }
    for (int i = 0; i < 3; i++)
        d->slots[i] = (struct vp_plan_slot){ rand_below(2) ? d->sets : NULL,
                                             rand_below(2) ? d->swap : NULL };
}

static void draw_plan(struct drawn *d)
{
    static const char *const names[] = { "1f1b", "gpipe", "zb-h1",
                                         "pipedream" };
    bool chunks = rand_below(3) == 0;

    d->plan = (struct vp_plan){
        .schedule = chunks ? "interleaved" : names[rand_below(4)],
        .schedule_memory = rand_below(2) ? 2 + rand_below(9) : 0,
        .schedule_text = rand_below(4) ? NULL : "a\n\nb c\n",
        .schedule_v = rand_below(2),
        .early_recompute = rand_below(2),
        .n_stages = 1 + rand_below(4),
        .n_chunks = chunks ? 2 : 1,
        .partition = d->partition,
        .recompute_ratio = d->ratio,
        .recompute_sets = rand_below(2) ? d->sets : NULL,
        .swap_sets = rand_below(4) ? NULL : d->swap,
        .recompute_in_b = rand_below(2),
        .w_recomputed = rand_below(2),
        .swap_ratio = rand_below(2) ? d->ratio : NULL,
        .swap_buffers = rand_below(2) ? d->partition : NULL,
        .keep_all = rand_below(2),
        .slots = d->slots,
        .n_slots = rand_below(4) ? 0 : 1 + rand_below(3),
        .replicas = rand_below(2) ? d->replicas : NULL,
        .depth = rand_below(2) ? d->depth : NULL,
        .ranks = rand_below(2) ? d->ranks : NULL,
        .devices = rand_below(2) ? d->devices : NULL,
        .tensor_parallel = 1 + rand_below(2),
        .sequence_parallel = rand_below(2),
        .keep_gathered = rand_below(2),
        .edges = rand_below(2) ? d->edges : NULL,
        .replica_edges = rand_below(2) ? d->replica_edges : NULL,
        .tie_edge = (enum vp_edge_kind)rand_below(3),
        .compress = rand_below(2),
        .shard_optimizer = rand_below(2),
        .bundle_bytes = rand_below(2) ? 1 + rand_below(1 << 30) : 0,
    };
    if (strcmp(d->plan.schedule, "pipedream") != 0)
        d->plan.accumulation_steps = 1 + rand_below(64);
    draw_arrays(d);
    if (vp_plan_n_stages(&d->plan) == 1)
        d->plan.edges = NULL;
    for (int s = 0; s < d->plan.n_stages; s++)
        d->n_ranks += d->plan.replicas ? d->replicas[s] : 1;
}

#define SAME(member) assert_true(a->member == b->member)
#define SAME_ARRAY(member, n)                                        \
    do {                                                             \
        assert_int_equal(!a->member, !b->member);                    \
        if (a->member)                                               \
            assert_memory_equal(a->member, b->member,                \
                                (size_t)(n) * sizeof(a->member[0])); \
    } while (0)

static void assert_same(const struct drawn *d, const struct vp_plan *b)
{
    const struct vp_plan *a = &d->plan;

    assert_string_equal(a->schedule, b->schedule);
    assert_string_equal(a->schedule_text ? a->schedule_text : "",
                        b->schedule_text ? b->schedule_text : "");
    SAME(schedule_memory);
    SAME(schedule_v);
    SAME(early_recompute);
    SAME(accumulation_steps);
    SAME(n_stages);
    SAME(n_chunks);
    SAME_ARRAY(partition, vp_plan_n_stages(a));
    SAME_ARRAY(recompute_ratio, vp_plan_n_stages(a));
    SAME_ARRAY(recompute_sets, d->n_blocks);
    SAME_ARRAY(swap_sets, d->n_blocks);
    SAME(recompute_in_b);
    SAME(w_recomputed);
    SAME_ARRAY(swap_ratio, vp_plan_n_stages(a));
    SAME_ARRAY(swap_buffers, vp_plan_n_stages(a));
    SAME(keep_all);
    SAME(n_slots);
    for (int i = 0; i < a->n_slots; i++) {
        SAME_ARRAY(slots[i].recompute_sets, d->n_blocks);
        SAME_ARRAY(slots[i].swap_sets, d->n_blocks);
    }
    SAME_ARRAY(replicas, a->n_stages);
    SAME_ARRAY(depth, a->n_stages);
    SAME_ARRAY(ranks, d->n_ranks);
    SAME_ARRAY(devices, d->n_ranks * a->tensor_parallel);
    SAME(tensor_parallel);
    SAME(sequence_parallel);
    SAME(keep_gathered);
    SAME_ARRAY(edges, vp_plan_n_stages(a) - 1);
    SAME_ARRAY(replica_edges, vp_plan_n_stages(a));
    SAME(tie_edge);
    SAME(compress);
    SAME(shard_optimizer);
    SAME(bundle_bytes);
}

static void there_and_back(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct vp_arena arena = { NULL };
        struct drawn drawn;
        struct vp_plan plan;
        char *text, *again;

        draw_plan(&drawn);
        text = print_ok(&drawn.plan, drawn.n_blocks);
        parse_ok(text, &arena, &plan);
        assert_same(&drawn, &plan);
        again = print_ok(&plan, drawn.n_blocks);
        assert_string_equal(text, again);
        free(text);
        free(again);
        vp_arena_release(&arena);
    }
}

/* A list of actions may be longer than a line of a configuration. */
static void long_lines(void **state)
{
    enum { N = 20000 };
    struct vp_arena arena = { NULL };
    struct vp_plan plan = { .n_stages = 1 }, read;
    char *line = malloc(N + 2), *text;

    (void)state;
    memset(line, 'F', N);
    memcpy(line + N, "\n", 2);
    plan.schedule_text = line;
    text = print_ok(&plan, 3);
    parse_ok(text, &arena, &read);
    assert_string_equal(read.schedule_text, line);
    free(text);
    free(line);
    vp_arena_release(&arena);
}

static void too_many_stages(void **state)
{
    struct vp_arena arena = { NULL };
    struct vp_err err = { .text = "" };
    struct vp_plan plan;
    char text[512] = "{\"partition\": [1";

    (void)state;
    for (int s = 1; s <= VP_MAX_STAGES; s++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", 1");
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "]}");
    assert_int_equal(
        vp_plan_parse(text, strlen(text), "p.json", &arena, &plan, &err),
        VP_ERR_INVALID);
    assert_string_equal(err.text, "p.json:1:15: key 'partition' has 65 stages; "
                                  "use at most 64");
    vp_arena_release(&arena);
}

/* Plans in the format of the original vPipe: keys that the file does not have
 * get their defaults. */
static void original_plan(void **state)
{
    struct vp_arena arena = { NULL };
    struct vp_plan plan;

    (void)state;
    parse_ok("{\"partition\": [2, 3, 4]}", &arena, &plan);
    assert_int_equal(plan.n_stages, 3);
    assert_int_equal(plan.n_chunks, 1);
    assert_null(plan.recompute_ratio);
    assert_null(plan.schedule);
    parse_ok("{\"partition\": [2, 3, 4, 1], \"schedule\": \"zb-v\"}", &arena,
             &plan);
    assert_int_equal(plan.n_stages, 2);
    assert_int_equal(plan.n_chunks, 2);
    parse_ok("{\"stage_to_rank_map\": {\"0\": [0]}, \"mp_size\": 1}", &arena,
             &plan);
    assert_null(plan.partition);
    vp_arena_release(&arena);
}

/* ---- Mistakes in a file ------------------------------------------------- */

static void refused_files(void **state)
{
    static const char *const cases[][2] = {
        { "[1]", "p.json:1: a plan is an object; write {\"partition\": ...}" },
        { "{\"version\": 1}",
          "p.json:1: key 'partition' is missing; add the blocks of every "
          "stage, for example '\"partition\": [3, 2, 2, 2]'" },
        { "{\"partition\": [1], \"version\": 2, \"later\": {}}",
          "p.json:1:31: plan version 2; this vpipe reads 1; use a newer one" },
        { "{\"partition\": [1],\n \"version\": 0}",
          "p.json:2:13: key 'version' must be a whole number from 1 to "
          "2147483647, not '0'; write for example '\"version\": 1'" },
        { "{\"partition\": [1],\n \"recompute_rato\": [0]}",
          "p.json:2: unknown key 'recompute_rato' in a plan; did you mean "
          "'recompute_ratio'?" },
        { "{\"partition\": 9}",
          "p.json:1:15: key 'partition' must be a list with an entry per "
          "stage, not '9'; write for example '\"partition\": [3, 2, 2, 2]'" },
        { "{\"partition\": [1, 0]}",
          "p.json:1:19: key 'partition' has '0' as entry 2; write whole "
          "numbers from 1 to 100000, for example '\"partition\": "
          "[3, 2, 2, 2]'" },
        { "{\"partition\": [2], \"recompute_ratio\": [1.5]}",
          "p.json:1:40: key 'recompute_ratio' has '1.5' as entry 1; write "
          "numbers from 0 to 1, for example '\"recompute_ratio\": "
          "[0.3, 0, 0, 0]'" },
        { "{\"partition\": [2], \"recompute_ratio\": [1, 1]}",
          "p.json:1:39: key 'recompute_ratio' has 2 entries for 1 stage; give "
          "one each" },
        { "{\"partition\": [2], \"recompute\": [[0]]}",
          "p.json:1:33: key 'recompute' has 1 entry for the 2 blocks of "
          "partition; give one each" },
        { "{\"partition\": [2], \"recompute\": [[0], [], [1]]}",
          "p.json:1:33: key 'recompute' has 3 entries for the 2 blocks of "
          "partition; give one each" },
        { "{\"partition\": [2], \"recompute\": [[0], 1]}",
          "p.json:1:39: key 'recompute' has '1' as entry 2; write a list of "
          "operators each, for example '\"recompute\": [[0, 1], []]'" },
        { "{\"partition\": [2], \"recompute\": [[0], [64]]}",
          "p.json:1:40: key 'recompute' has '64' for block 1; write numbers of "
          "operators from 0 to 63" },
        { "{\"partition\": [1], \"recompute\": [[3, 3]]}",
          "p.json:1:38: key 'recompute' has operator 3 of block 0 twice; keep "
          "one" },
        { "{\"stage_to_rank_map\": {\"0\": [0]}, \"swap\": [[0]]}",
          "p.json:1:43: key 'swap' needs key 'partition'; add the blocks of "
          "every stage" },
        { "{\"partition\": [1], \"slots\": {}}",
          "p.json:1:29: key 'slots' must be a list with an entry per slot, not "
          "a map; write for example '\"slots\": [{\"recompute\": "
          "[[0, 1], []]}]'" },
        { "{\"partition\": [1], \"slots\": [{\"swop\": []}]}",
          "p.json:1: unknown key 'swop' in a slot; did you mean 'swap'?" },
        { "{\"partition\": [1], \"keep_all\": 1}",
          "p.json:1:32: key 'keep_all' must be true or false, not '1'; write "
          "for example '\"keep_all\": true'" },
        { "{\"partition\": [1], \"schedule\": \"1f2b\"}",
          "p.json:1:32: key 'schedule' is the quoted text '1f2b', which is no "
          "schedule; did you mean '1f1b'?" },
        { "{\"partition\": [1], \"schedule\": \"./own.txt\"}",
          "p.json:1:32: key 'schedule' must be the name of a schedule that "
          "trains, not the quoted text './own.txt'; write for example "
          "'\"schedule\": \"1f1b\"'" },
        { "{\"partition\": [1], \"schedule_memory\": 1}",
          "p.json:1:39: key 'schedule_memory' must be a whole number from 2 to "
          "128, not '1'; write for example '\"schedule_memory\": 6'" },
        { "{\"partition\": [1], \"schedule_text\": \"0: 0F0\"}",
          "p.json:1:37: key 'schedule_text' must be a list of lines, not the "
          "quoted text '0: 0F0'; write for example '\"schedule_text\": "
          "[\"schedule=1f1b ...\", \"0: 0F0 ...\"]'" },
        { "{\"partition\": [1], \"early_recompute\": \"true\"}",
          "p.json:1:39: key 'early_recompute' must be true or false, not the "
          "quoted text 'true'; write for example '\"early_recompute\": "
          "true'" },
        { "{\"partition\": [1, 1, 1], \"chunks\": 2}",
          "p.json:1:15: key 'partition' has 3 entries, which do not divide "
          "into 2 chunks; give chunks x stages of them" },
        { "{\"partition\": [1, 1, 1], \"stages\": 2}",
          "p.json:1:15: key 'partition' has 3 entries for 1 chunk of 2 stages; "
          "give chunks x stages of them" },
        { "{\"partition\": [1, 1], \"replicas\": [1]}",
          "p.json:1:35: key 'replicas' has 1 entry for 2 stages; give one "
          "each" },
        { "{\"partition\": [1, 1], \"warmup_depths\": [1, -1]}",
          "p.json:1:44: key 'warmup_depths' has '-1' as entry 2; write whole "
          "numbers from 0 to 1000, for example '\"warmup_depths\": "
          "[3, 2, 1, 0]'" },
        { "{\"partition\": [1, 1], \"replicas\": [1, 2], \"ranks\": [0, 1]}",
          "p.json:1:52: key 'ranks' has 2 entries for 3 ranks; give one each" },
        { "{\"partition\": [1, 1], \"devices\": 3}",
          "p.json:1:34: key 'devices' must be a list with an entry per rank, "
          "not '3'; write for example '\"devices\": [0, 1, 2, 3]'" },
        { "{\"partition\": [1, 1], \"edges\": [\"tcp\"]}",
          "p.json:1:33: key 'edges' has the quoted text 'tcp' as entry 1; "
          "write local, host or device, for example '\"edges\": [\"local\", "
          "\"host\"]'" },
        { "{\"partition\": [1, 1], \"replica_edges\": [\"local\"]}",
          "p.json:1:40: key 'replica_edges' has 1 entry for 2 stages; give one "
          "each" },
        { "{\"partition\": [1, 1], \"tie_edge\": \"mpi\"}",
          "p.json:1:35: key 'tie_edge' must be local, host or device, not the "
          "quoted text 'mpi'; write for example '\"tie_edge\": \"host\"'" },
        { "{\"partition\": [1, 1], \"edges\": [\"local\", \"local\"]}",
          "p.json:1:32: key 'edges' has 2 entries for 1 edge; give one each" },
        { "{\"partition\": [1], \"bundle_bytes\": \"2M\"}",
          "p.json:1:36: key 'bundle_bytes' must be a whole number from 1 to "
          "9223372036854775807, not the quoted text '2M'; write for example "
          "'\"bundle_bytes\": 2097152'" },
        { "{\"partition\": [1], \"mp_size\": 1,\n \"tensor_parallel\": 1}",
          "p.json:1:20: key 'mp_size' has the same meaning as 'tensor_parallel' "
          "on line 2; keep one" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_arena arena = { NULL };
        struct vp_err err = { .text = "" };
        struct vp_plan plan = { .n_stages = 77 };

        assert_true(vp_plan_parse(cases[i][0], strlen(cases[i][0]), "p.json",
                                  &arena, &plan, &err) != VP_OK);
        assert_string_equal(err.text, cases[i][1]);
        assert_int_equal(plan.n_stages, 77);
        vp_arena_release(&arena);
    }
}

static int count_blocks(const struct vp_plan *plan)
{
    int n = 0;

    for (int s = 0; s < vp_plan_n_stages(plan); s++)
        n += plan->partition[s];
    return n;
}

/* Plans with bytes replaced or removed are refused with a remedy, or parsed and
 * printable. */
static void mutations(void **state)
{
    int n_taken = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        static const char letters[] = "0123456789[]{},:\" \n-.eatx";
        size_t n = sizeof(full_text) - 1;
        struct vp_arena arena = { NULL };
        struct vp_err err = { .text = "" };
        struct vp_plan plan;
        char bytes[sizeof(full_text)];

        memcpy(bytes, full_text, n);
        for (int i = 1 + rand_below(3); i > 0; i--) {
            size_t at = (size_t)rand_below((int)n - 8);
            size_t n_out = (size_t)rand_below(8);

            if (rand_below(2)) {
                bytes[at] = letters[rand_below((int)sizeof(letters) - 1)];
                continue;
            }
            memmove(bytes + at, bytes + at + n_out, n - at - n_out);
            n -= n_out;
        }
        if (vp_plan_parse(bytes, n, "m.json", &arena, &plan, &err) == VP_OK) {
            char *text = print_ok(&plan, count_blocks(&plan));

            free(text);
            n_taken++;
        } else {
            assert_non_null(strstr(err.text, "; "));
        }
        vp_arena_release(&arena);
    }
    assert_in_range(n_taken, 500, 19000);
}

/* ---- Mistakes in a plan ------------------------------------------------- */

static void build(bool tied, struct vp_graph *out)
{
    const struct vp_model *model = vp_model_find("bert");
    struct vp_model_config sizes = model->sizes[0].config;
    const struct vp_dims dims = { .batch = 1, .seq = 8, .n_labels = 1 };
    struct vp_err err = { .text = "" };

    sizes.layers = 2;
    sizes.hidden = sizes.ffn = 16;
    sizes.heads = 2;
    sizes.vocab = 32;
    sizes.tie_embeddings = tied;
    if (vp_model_build(model, &sizes, &dims, out, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(out->n_blocks, 5);
}

struct heard {
    char text[4096];
};

static void hear(void *ctx, const struct vp_err *mistake)
{
    struct heard *heard = ctx;
    size_t n = strlen(heard->text);

    assert_non_null(mistake->fields);
    snprintf(heard->text + n, sizeof(heard->text) - n, "%s\n", mistake->text);
}

static void assert_mistakes(const struct vp_plan *plan,
                            const struct vp_graph *graph, int n,
                            const char *want)
{
    struct heard heard = { "" };
    struct vp_err err = { .text = "from before" };
    struct vp_schedule schedule;
    size_t n_first = strcspn(want, "\n");

    assert_int_equal(vp_plan_check(plan, graph, hear, &heard), n);
    assert_string_equal(heard.text, want);
    assert_int_equal(vp_plan_make_schedule(plan, graph, &schedule, &err),
                     n ? VP_ERR_INVALID : VP_OK);
    assert_int_equal(strlen(err.text), n_first);
    assert_memory_equal(err.text, want, n_first);
    if (n == 0)
        vp_schedule_release(&schedule);
}

static void all_mistakes(void **state)
{
    static const uint64_t sets[5] = { 1, UINT64_C(1) << 60, 0, 0, 2 };
    struct vp_graph graph;
    struct vp_plan plan = { .accumulation_steps = 2 };

    (void)state;
    build(true, &graph);
    assert_mistakes(&plan, &graph, 0, "");
    plan.n_stages = 3;
    assert_mistakes(&plan, &graph, 1,
                    "3 stages need a partition of the 5 blocks; add one\n");
    plan.partition = (const int[]){ 2, 2, 2 };
    plan.recompute_ratio = (const double[]){ -1, 0, 2 };
    plan.replicas = (const int[]){ 1, 0, 1 };
    plan.depth = (const int[]){ 2, -1, 0 };
    plan.tensor_parallel = 2;
    plan.swap_sets = sets;
    plan.swap_ratio = (const double[]){ 0, 3, 0 };
    plan.swap_buffers = (const int[]){ 0, 0, -1 };
    plan.slots = &(const struct vp_plan_slot){ NULL, NULL };
    plan.n_slots = 1;
    assert_mistakes(
        &plan, &graph, 9,
        "partition: the stages have 6 blocks, the model has 5; make them "
        "equal\n"
        "recompute_ratio -1 of stage 0 is outside 0..1; write a number from 0 "
        "to 1\n"
        "recompute_ratio 2 of stage 2 is outside 0..1; write a number from 0 "
        "to 1\n"
        "swap of block 1: the set 0x1000000000000000 has bits above 4; the "
        "block has 5 operators\n"
        "swap_ratio 3 of stage 1 is outside 0..1; write a number from 0 to 1\n"
        "swap_buffers -1 of stage 2; write 0 or more\n"
        "tensor_parallel is 2, but the model is cut for groups of 1; set "
        "mp_size to 2\n"
        "replicas: stage 1 has 0 ranks; give every stage at least 1\n"
        "warmup_depths: stage 1 has -1; write 0 or more\n");
    plan = (struct vp_plan){ .n_stages = 3,
                             .partition = (const int[]){ 2, 0, 4 },
                             .ranks = (const int[]){ 0, 0, 3 },
                             .schedule = "pipedream",
                             .recompute_sets = sets };
    assert_mistakes(
        &plan, &graph, 5,
        "partition: stage 1 has 0 blocks; give every stage at least 1\n"
        "recomputation of block 1: the set 0x1000000000000000 has bits above "
        "4; the block has 5 operators\n"
        "ranks: entry 2 is 0, which is there already; name every rank from 0 "
        "to 2 once\n"
        "ranks: entry 3 is 3, which is no rank; name every rank from 0 to 2 "
        "once\n"
        "tied embeddings in different stages need sync_mode bsp; set "
        "tie_embeddings: false\n");
    plan = (struct vp_plan){
        .n_stages = 2,
        .partition = (const int[]){ 2, 3 },
        .accumulation_steps = 2,
        .slots =
            (const struct vp_plan_slot[]){
                { (const uint64_t[]){ 1, 0, 0, 0, 0 }, NULL },
                { (const uint64_t[]){ 1, 0, 0, 0, 1 }, NULL } },
        .n_slots = 2
    };
    assert_mistakes(
        &plan, &graph, 1,
        "slots: entries 0 and 1 differ in stage 1; make all entries "
        "that differ from the plan equal\n");
    plan.recompute_sets = (const uint64_t[]){ 0, 0, 0, 0, 0 };
    assert_mistakes(
        &plan, &graph, 1,
        "slots: entry 1 differs from the plan in stage 1, but "
        "entry 0 before it does not; put those that differ first\n");
    plan = (struct vp_plan){ .n_stages = 2,
                             .n_chunks = 2,
                             .partition = (const int[]){ 1, 1, 1, 2 },
                             .replicas = (const int[]){ 1, 2 },
                             .accumulation_steps = 2,
                             .schedule = "nothing" };
    assert_mistakes(&plan, &graph, 2,
                    "schedule: unknown schedule 'nothing'; 'vpipe schedule "
                    "--help' lists them\n"
                    "replicas: stage 1 has 2 ranks, stage 0 has 1; with 2 "
                    "chunks make them equal\n");
    plan = (struct vp_plan){ .n_stages = 2,
                             .partition = (const int[]){ 2, 3 },
                             .swap_sets = (const uint64_t[5]){ 0 },
                             .tensor_parallel = 1,
                             .accumulation_steps = 2 };
    assert_mistakes(&plan, &graph, 0, "");
    plan.sequence_parallel = true;
    assert_mistakes(&plan, &graph, 1,
                    "sequence_parallel is true, but the model is built without "
                    "slices of rows; set sequence_parallel: false\n");
    vp_graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literal_text),    cmocka_unit_test(there_and_back),
        cmocka_unit_test(long_lines),      cmocka_unit_test(original_plan),
        cmocka_unit_test(too_many_stages), cmocka_unit_test(refused_files),
        cmocka_unit_test(mutations),       cmocka_unit_test(all_mistakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
