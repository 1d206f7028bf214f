#include "config/edges.h"

#include "sched/schedule.h"

#include <string.h>

/* The groups that hold a stage: ranks, or with mp_size as many each. */
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

/* Each member of a group sends to the member with its number of the other. */
static bool share_a_gpu(const struct vp_config *config, int a, int b)
{
    for (int t = 0; t < config->mp_size; t++)
        if (have_one_gpu(config, a * config->mp_size + t,
                         b * config->mp_size + t))
            return true;
    return false;
}

/* GPUs reach each other directly if all pairs of different ranks do. */
static enum vp_edge_kind edge_of(const struct vp_config *config, struct place a,
                                 struct place b)
{
    for (int i = a.first; i < a.first + a.n; i++)
        for (int j = b.first; j < b.first + b.n; j++)
            if (i != j && share_a_gpu(config, i, j))
                return VP_EDGE_HOST;
    return config->distributed_backend == VP_TRANSPORT_NCCL ? VP_EDGE_DEVICE
                                                            : VP_EDGE_HOST;
}

/* Which ranks have tied weights is not known here: all of them are looked at. */
static void resolve_sums(struct vp_config *config,
                         enum vp_edge_kind *replica_edges)
{
    struct place all = { 0, vp_config_n_groups(config) };

    for (int s = 0; s < vp_config_n_stages(config); s++) {
        struct place ranks = place_of(config, s);

        if (ranks.n > 1)
            replica_edges[s] = edge_of(config, ranks, ranks);
    }
    config->replica_edges = replica_edges;
    config->tie_edge = edge_of(config, all, all);
}

enum vp_status vp_edges_resolve(struct vp_config *config, struct vp_err *err)
{
    int n = vp_config_n_stages(config);
    enum vp_edge_kind *edges;

    config->edges = config->replica_edges = NULL;
    config->tie_edge = VP_EDGE_LOCAL;
    if (!vp_config_is_distributed(config))
        return VP_OK;
    edges = vp_arena_alloc(&config->arena, 2 * (size_t)n * sizeof(*edges));
    if (!edges)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "%s: out of memory; close other programs",
                          config->path);
    resolve_sums(config, edges + n);
    for (int s = 0; s + 1 < n; s++) {
        struct place a = place_of(config, s), b = place_of(config, s + 1);

        edges[s] = a.first == b.first ? VP_EDGE_LOCAL : edge_of(config, a, b);
    }
    if (n > 1)
        config->edges = edges;
    return VP_OK;
}
