/* Answers questions about key `machines`, and writes it for mpirun. */
#include "config/hosts.h"

#include "base/file.h"
#include "base/machine.h"

#include <string.h>

const char *vp_host_of(const struct vp_config *config, int i)
{
    return i < config->machines.n ? config->machines.at[i].host : NULL;
}

static bool is_here(const char *host)
{
    char name[256];

    vp_machine_name(name, sizeof(name));
    return strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
           strcmp(host, name) == 0;
}

bool vp_hosts_are_here(const struct vp_config *config)
{
    for (int i = 0; i < config->machines.n; i++)
        if (!is_here(config->machines.at[i].host))
            return false;
    return true;
}

bool vp_hosts_may_be_elsewhere(const struct vp_config *config)
{
    bool named = config->machines.n >= vp_config_n_ranks(config);

    return vp_config_is_distributed(config) &&
           !(named && vp_hosts_are_here(config));
}

int vp_hosts_run(const struct vp_config *config, int i)
{
    const char *host = vp_host_of(config, i);
    int n = 1;

    if (!host)
        return vp_config_n_ranks(config) - i;
    while (i + n < config->machines.n &&
           strcmp(config->machines.at[i + n].host, host) == 0)
        n++;
    return n;
}

/* Returns the number of ranks on the host of rank `i`; 0 if a lower rank is on
 * the same host. */
static int count_ranks(const struct vp_config *config, int i)
{
    const char *host = config->machines.at[i].host;
    int n = 0;

    for (int r = 0; r < config->machines.n; r++) {
        if (strcmp(config->machines.at[r].host, host) != 0)
            continue;
        if (r < i)
            return 0;
        n++;
    }
    return n;
}

int vp_hosts_crowd(const struct vp_config *config)
{
    int most = 0;

    if (config->machines.n == 0)
        return vp_config_n_ranks(config);
    for (int i = 0; i < config->machines.n; i++) {
        int n = count_ranks(config, i);

        most = n > most ? n : most;
    }
    return most;
}

static void write_host(FILE *f, const char *host, int n_ranks)
{
    if (n_ranks > 1)
        fprintf(f, "%s slots=%d\n", host, n_ranks);
    else
        fprintf(f, "%s\n", host);
}

enum vp_status vp_hosts_write(const struct vp_config *config,
                              const char *folder, struct vp_err *err)
{
    FILE *f = vp_file_open(folder, "machinefile", "we", err);

    if (!f)
        return VP_ERR_IO;
    if (config->machines.n == 0)
        write_host(f, "localhost", vp_config_n_ranks(config));
    for (int i = 0; i < config->machines.n; i++) {
        int n = count_ranks(config, i);

        if (n > 0)
            write_host(f, config->machines.at[i].host, n);
    }
    return vp_file_close(folder, "machinefile", f, err);
}
