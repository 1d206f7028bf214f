#include "lib/searchlib.h"

#include "base/file.h"
#include "model/model.h"
#include "plan/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

uint32_t search_draws;

int search_draw(int n)
{
    struct vp_rng4 r = vp_rng(77, VP_RNG_TEST, 4, search_draws++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

static double search_draw_real(void)
{
    return (1 + search_draw(1 << 20)) / (double)(1 << 20);
}

/* ---- Workloads ---------------------------------------------------------- */

static void build_model_of(struct vp_graph *graph, int64_t layers,
                           int64_t hidden, int64_t seq, int64_t batch)
{
    const struct vp_model *model = vp_model_find("bert");
    struct vp_model_config config = vp_model_size_find(model, "base")->config;
    struct vp_err err;

    config.layers = layers;
    config.hidden = hidden;
    config.ffn = hidden * (1 + search_draw(4));
    config.heads = 2;
    config.vocab = 64 + search_draw(2000);
    config.tie_embeddings = false;
    if (vp_model_build(
            model, &config,
            &(struct vp_dims){ .batch = batch, .seq = seq, .n_labels = batch },
            graph, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* Sets measured blocks with random times. */
static void random_blocks(struct setup *setup)
{
    struct vp_block_key keys[64];

    assert_int_equal(vp_profile_keys(&setup->graph, keys), VP_OK);
    setup->profile.blocks = setup->blocks;
    for (int b = 0; b < setup->graph.n_blocks; b++) {
        struct vp_profile_block block = {
            .key = keys[b],
            .name = "",
            .alone = { 0.5 + search_draw_real(), 0.5 + search_draw_real(),
                       0.3 + search_draw_real() },
            .update = 0.1 * search_draw_real(),
        };
        uint64_t sets[VP_PROFILE_MAX_SETS];

        if (vp_profile_find(&setup->profile, keys[b]))
            continue;
        block.n_sets = vp_profile_candidates(&setup->graph, b, sets);
        for (int i = 0; i < block.n_sets; i++) {
            double seconds = block.alone.f * (i + search_draw_real()) /
                             block.n_sets;

            block.sets[i] = (struct vp_profile_set){ sets[i], seconds,
                                                     seconds };
        }
        setup->blocks[setup->profile.n_blocks++] = block;
    }
}

static void open_search(struct setup *setup)
{
    assert_int_equal(
        vp_search_create(&setup->work, &setup->profile, &setup->search), VP_OK);
    assert_int_equal(vp_pricer_create(&setup->work, &setup->pricer), VP_OK);
}

void make_small(struct setup *setup)
{
    memset(setup, 0, sizeof(*setup));
    build_model_of(&setup->graph, 2, 32 * (1 + search_draw(3)),
                   16 + 16 * search_draw(6), 1 + search_draw(6));
    setup->work = (struct vp_workload){ .graphs = &setup->graph,
                                        .n_graphs = 1,
                                        .optim = { .kind = VP_OPTIM_ADAM } };
    vp_profile_synthetic(true, VP_DTYPE_F32, &setup->profile);
    setup->profile.same_host.bytes_per_second = 1e6 + 1e7 * search_draw_real();
    random_blocks(setup);
    open_search(setup);
}

void release_setup(struct setup *setup)
{
    vp_search_free(setup->search);
    vp_pricer_free(setup->pricer);
    vp_graph_release(&setup->graph);
}

/* ---- Limits of memory --------------------------------------------------- */

void check_fits(const struct vp_search_result *result,
                const struct vp_search_input *input)
{
    int64_t sum[MAX_RANKS] = { 0 };

    for (int s = 0; s < result->n_stages; s++)
        sum[result->rank[s]] += result->prices[s].memory.total;
    for (int r = 0; r < input->base->n_stages; r++)
        if (sum[r] > input->limits[r])
            fail_msg("rank %d has %lld bytes of %lld", r, (long long)sum[r],
                     (long long)input->limits[r]);
    assert_true(vp_search_fits(result, input->limits));
}

void random_limits(struct setup *setup, struct vp_search_input *input,
                   int64_t limits[MAX_RANKS])
{
    int64_t least, most = 0;
    struct vp_search_result result;
    struct vp_err err;
    double level = search_draw_real();

    for (int r = 0; r < MAX_RANKS; r++)
        limits[r] = INT64_MAX / 4;
    assert_int_equal(vp_search_run(setup->search, input, &result, &err), VP_OK);
    for (int r = 0; r < result.plan.n_stages; r++)
        most = result.rank_bytes[r] > most ? result.rank_bytes[r] : most;
    vp_search_result_release(&result);
    assert_int_equal(
        vp_search_least(setup->search, input, &least, &result, &err), VP_OK);
    vp_search_result_release(&result);
    for (int r = 0; r < MAX_RANKS; r++)
        limits[r] = least + (int64_t)(level * level * (double)(most - least)) +
                    search_draw((int)(1 + most / 16));
}

/* ---- A large model ------------------------------------------------------ */

void make_large(struct setup *setup, struct vp_arena *arena)
{
    const struct vp_model *model = vp_model_find("bert");
    struct vp_model_config config = vp_model_size_find(model, "large")->config;
    struct vp_err err;
    size_t n_bytes;
    char *text;

    memset(setup, 0, sizeof(*setup));
    config.layers = 48;
    config.tie_embeddings = false;
    assert_int_equal(
        vp_model_build(
            model, &config,
            &(struct vp_dims){ .batch = 16, .seq = 128, .n_labels = 320 },
            &setup->graph, &err),
        VP_OK);
    assert_int_equal(vp_file_read(VP_SOURCE_DIR
                                  "/configs/profiles/rtx_2080ti.json",
                                  "JSON", &text, &n_bytes, &err),
                     VP_OK);
    assert_int_equal(vp_profile_parse(text, n_bytes, "profile", arena,
                                      &setup->profile, &err),
                     VP_OK);
    free(text);
    setup->work = (struct vp_workload){ .graphs = &setup->graph,
                                        .n_graphs = 1,
                                        .optim = { .kind = VP_OPTIM_ADAM } };
    open_search(setup);
}

static const enum vp_edge_kind host_edges[MAX_RANKS] = {
    VP_EDGE_HOST, VP_EDGE_HOST, VP_EDGE_HOST, VP_EDGE_HOST,
    VP_EDGE_HOST, VP_EDGE_HOST, VP_EDGE_HOST, VP_EDGE_HOST
};

const struct vp_plan eight = { .n_stages = 8,
                               .accumulation_steps = 32,
                               .edges = host_edges };
