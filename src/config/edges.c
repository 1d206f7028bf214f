/* Decides from host and device of the ranks which messages go from GPU to
 * GPU. */
#include "config/edges.h"

#include "sched/schedule.h"

#include <string.h>

/* The tensor-parallel groups that own a stage, numbered as in the schedule; a
 * group has mp_size ranks. */
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

/* Returns true if two ranks have the same GPU. Without machines every process
 * has a GPU of its own. */
static bool have_one_gpu(const struct vp_config *config, int a, int b)
{
    const struct vp_machine *x, *y;

    if (config->machines.n == 0)
        return false;
    x = &config->machines.at[vp_config_rank_number(config, a)];
    y = &config->machines.at[vp_config_rank_number(config, b)];
    return x->device == y->device && strcmp(x->host, y->host) == 0;
}

/* Returns true if some rank of group `a` has the GPU of the rank of group `b`
 * that it sends to, the one with the same number in its group. */
static bool share_a_gpu(const struct vp_config *config, int a, int b)
{
    for (int t = 0; t < config->mp_size; t++)
        if (have_one_gpu(config, a * config->mp_size + t,
                         b * config->mp_size + t))
            return true;
    return false;
}

/* Messages go from GPU to GPU if no pair of ranks shares a GPU. */
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

/* The ranks with tied weights are not known here, so tie_edge is that of all
 * ranks. */
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
