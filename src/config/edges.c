#include "config/edges.h"

#include "sched/schedule.h"

#include <string.h>

/* The ranks that hold a stage. */
struct place {
    int first, n;
};

static struct place place_of(const struct vp_config *config, int stage)
{
    const struct vp_sched_config sched = {
        .name = vp_generator_at(config->schedule)->name,
        .n_stages = config->stages,
        .n_chunks = config->chunks,
        .replicas = config->replicas.n > 0 ? config->replicas.at : NULL,
    };
    struct place place;

    vp_sched_place(&sched, stage, &place.first, &place.n);
    return place;
}

/* Without machines every process has a GPU of its own. */
static bool have_one_gpu(const struct vp_config *config, int a, int b)
{
    const struct vp_machine *x, *y;

    if (config->machines.n == 0)
        return false;
    x = &config->machines.at[vp_config_rank_number(config, a)];
    y = &config->machines.at[vp_config_rank_number(config, b)];
    return x->device == y->device && strcmp(x->host, y->host) == 0;
}

/* GPUs reach each other directly if all pairs of two stages do. */
static bool are_direct(const struct vp_config *config, struct place a,
                       struct place b)
{
    for (int i = 0; i < a.n; i++)
        for (int j = 0; j < b.n; j++)
            if (have_one_gpu(config, a.first + i, b.first + j))
                return false;
    return config->distributed_backend == VP_TRANSPORT_NCCL;
}

enum vp_status vp_edges_resolve(struct vp_config *config, struct vp_err *err)
{
    int n = vp_config_n_stages(config);
    enum vp_edge_kind *edges;

    config->edges = NULL;
    if (!vp_config_is_distributed(config) || n == 1)
        return VP_OK;
    edges = vp_arena_alloc(&config->arena, (size_t)n * sizeof(*edges));
    if (!edges)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "%s: out of memory; close other programs",
                          config->path);
    for (int s = 0; s + 1 < n; s++) {
        struct place a = place_of(config, s), b = place_of(config, s + 1);

        if (a.first == b.first)
            edges[s] = VP_EDGE_LOCAL;
        else
            edges[s] = are_direct(config, a, b) ? VP_EDGE_DEVICE : VP_EDGE_HOST;
    }
    config->edges = edges;
    return VP_OK;
}
