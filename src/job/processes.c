/* Finds out from the environment which process of a job this one is, and joins
 * the others. */
#include "job/processes.h"

#include "base/value.h"
#include "config/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool number_of(const char *name, int *out)
{
    const char *text = getenv(name);
    int64_t n;

    if (!text || !vp_text_to_i64(text, &n) || n < 0 || n > 1 << 20)
        return false;
    *out = (int)n;
    return true;
}

struct vp_processes vp_processes_find(void)
{
    static const struct {
        const char *n, *index;
    } names[] = {
        { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK" },
        { "PMI_SIZE", "PMI_RANK" },
        { "SLURM_STEP_NUM_TASKS", "SLURM_PROCID" },
    };

    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        struct vp_processes found;

        if (number_of(names[i].n, &found.n) &&
            number_of(names[i].index, &found.index) && found.n > 1 &&
            found.index < found.n)
            return found;
    }
    return (struct vp_processes){ .n = 1 };
}

/* Returns false in a container, which has a mount namespace of its own. */
static bool sees_files_of_parent(void)
{
    char path[64], own[64], other[64];
    ssize_t n = readlink("/proc/self/ns/mnt", own, sizeof(own)), n_other;

    snprintf(path, sizeof(path), "/proc/%ld/ns/mnt", (long)getppid());
    n_other = readlink(path, other, sizeof(other));
    return n > 0 && n == n_other && memcmp(own, other, (size_t)n) == 0;
}

bool vp_processes_are_here(void)
{
    static const struct {
        const char *local, *all; /* `all` NULL: `local` must be 1 */
    } names[] = {
        { "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE" },
        { "MPI_LOCALNRANKS", "PMI_SIZE" }, /* MPICH */
        { "SLURM_STEP_NUM_NODES", NULL },
    };

    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        int n_local, n_all = 1;

        if (number_of(names[i].local, &n_local) &&
            (!names[i].all || number_of(names[i].all, &n_all)))
            return n_local == n_all && sees_files_of_parent();
    }
    return false;
}

const char *vp_processes_transport(const struct vp_config *config)
{
    return vp_config_transport(config, true);
}

enum vp_status vp_processes_find_transport(const struct vp_config *config,
                                           struct vp_err *err)
{
    char text[256];
    enum vp_status st;

    if (config->container || !vp_hosts_are_here(config))
        return VP_OK;
    st = vp_transport_describe(vp_processes_transport(config), text,
                               sizeof(text), err);
    if (st != VP_OK)
        vp_err_prefix(err, "%s",
                      vp_config_place(config, "distributed_backend"));
    return st;
}

enum vp_status vp_processes_join(const struct vp_processes *self,
                                 const struct vp_config *config,
                                 struct vp_world **out, struct vp_err *err)
{
    int n = vp_config_n_ranks(config);
    enum vp_status st;
    int *processes;

    *out = NULL;
    if (self->n == 1)
        return VP_OK;
    if (self->n != n)
        return vp_err_set(
            err, VP_ERR_INVALID,
            "%s: %d processes were started, but the pipeline has "
            "%d rank%s; start %d, or set stages to %d%s",
            vp_config_blame(config, "stages partition"), self->n, n,
            n == 1 ? "" : "s", n, self->n,
            vp_config_given(config, "partition") ? " without partition" : "");
    processes = calloc((size_t)n, sizeof(*processes));
    if (!processes)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    for (int r = 0; r < n; r++)
        processes[r] = vp_config_rank_number(config, r);
    if (config->network_interface) /* mpirun's options set that of MPI */
        setenv("NCCL_SOCKET_IFNAME", config->network_interface, 0);
    st = vp_world_join(vp_processes_transport(config), self, n, processes, out,
                       err);
    free(processes);
    return st;
}
