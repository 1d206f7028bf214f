#include "launch/mpirun.h"

#include "launch/container.h"
#include "launch/hosts.h"

#include <string.h>
#include <unistd.h>

/* Ranks on other hosts get the variables that may matter to them. */
static bool is_passed_on(const char *variable)
{
    static const char *const starts[] = {
        "VPIPE_", "OMP_", "CUDA_", "NCCL_", "UCX_", "LD_LIBRARY_PATH=", "PATH=",
    };

    for (size_t i = 0; i < VP_COUNT_OF(starts); i++)
        if (strncmp(variable, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* By name: their values stay out of the command line. */
static void add_environment(struct vp_words *out)
{
    for (char **at = environ; *at; at++) {
        if (!is_passed_on(*at))
            continue;
        vp_words_add(out, "-x");
        vp_words_addf(out, "%.*s", (int)strcspn(*at, "="), *at);
    }
}

/* Ranks bind their own threads; where every core has a rank, one that waits
 * must leave it to the others. */
static void add_options(const struct vp_config *config, const char *folder,
                        struct vp_words *out)
{
    static const char *const always[] = { "mpirun", "--quiet", "--bind-to",
                                          "none", NULL };
    static const char *const crowded[] = { "--oversubscribe", "--mca",
                                           "mpi_yield_when_idle", "1", NULL };

    vp_words_add_all(out, always);
    if (geteuid() == 0)
        vp_words_add(out, "--allow-run-as-root");
    if (vp_hosts_crowd(config) >= sysconf(_SC_NPROCESSORS_ONLN))
        vp_words_add_all(out, crowded);
    if (config->network_interface) {
        vp_words_add(out, "--mca");
        vp_words_add(out, "btl_tcp_if_include");
        vp_words_add(out, config->network_interface);
        vp_words_add(out, "--mca");
        vp_words_add(out, "oob_tcp_if_include");
        vp_words_add(out, config->network_interface);
    }
    vp_words_add(out, "--hostfile");
    vp_words_addf(out, "%s/machinefile", folder);
}

/* mpirun numbers ranks in the order of these parts. */
static enum vp_status add_ranks(const struct vp_config *config,
                                const char *folder, int first, int n,
                                const struct vp_words *rank,
                                struct vp_words *out, struct vp_err *err)
{
    const char *host = vp_host_of(config, first);

    add_environment(out);
    vp_words_add(out, "-n");
    vp_words_addf(out, "%d", n);
    if (host && n < vp_config_n_ranks(config)) {
        vp_words_add(out, "--host");
        vp_words_addf(out, "%s:%d", host, n);
    }
    if (config->container)
        VP_TRY(vp_container_add(out, config->container, folder, err));
    for (int i = 0; i < rank->n; i++)
        vp_words_add(out, rank->at[i]);
    return VP_OK;
}

enum vp_status vp_mpirun_make(const struct vp_config *config,
                              const char *folder, const struct vp_words *rank,
                              struct vp_words *out, struct vp_err *err)
{
    int n = vp_config_n_ranks(config);

    add_options(config, folder, out);
    for (int i = 0; i < n; i += vp_hosts_run(config, i)) {
        if (i > 0)
            vp_words_add(out, ":");
        VP_TRY(add_ranks(config, folder, i, vp_hosts_run(config, i), rank, out,
                         err));
    }
    if (out->failed)
        return vp_err_set(err, VP_ERR_NOMEM, "starting ranks: out of memory");
    return VP_OK;
}
