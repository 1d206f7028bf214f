/* Counts the stages and ranks of a configuration. */
#include "config/config.h"

#include "config/hosts.h"

int vp_config_n_stages(const struct vp_config *config)
{
    return config->stages * config->chunks;
}

/* mp_size is 0 in a configuration that was not loaded. */
static int n_members(const struct vp_config *config)
{
    return config->mp_size > 0 ? config->mp_size : 1;
}

int vp_config_n_groups(const struct vp_config *config)
{
    int n = 0;

    for (int s = 0; s < config->stages; s++)
        n += config->replicas.n > 0 ? config->replicas.at[s] : 1;
    return n;
}

int vp_config_n_ranks(const struct vp_config *config)
{
    return vp_config_n_groups(config) * n_members(config);
}

int vp_config_rank_number(const struct vp_config *config, int i)
{
    int n = n_members(config), group = i / n;

    if (config->ranks.n > 0)
        group = config->ranks.at[group];
    return group * n + i % n;
}

bool vp_config_is_distributed(const struct vp_config *config)
{
    if (config->distributed_backend == VP_TRANSPORT_GLOO)
        return !vp_hosts_are_here(config);
    return config->distributed_backend == VP_TRANSPORT_MPI ||
           config->distributed_backend == VP_TRANSPORT_NCCL;
}

const char *vp_config_transport(const struct vp_config *config, bool processes)
{
    if (processes)
        return config->distributed_backend == VP_TRANSPORT_NCCL ? "nccl"
                                                                : "mpi";
    return config->distributed_backend == VP_TRANSPORT_GLOO ? "gloo" : "local";
}
