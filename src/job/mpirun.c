/* Builds the mpirun command of a job for Open MPI 4 or 5, and makes temporary
 * folders for Open MPI's files. */
#include "job/mpirun.h"

#include "config/hosts.h"
#include "job/container.h"
#include "job/process.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION_MS = 10000 }; /* limit for mpirun --version */

/* Options and parameters whose names differ between versions of Open MPI. */
struct names {
    const char *crowded[3]; /* options that allow more ranks than cores */
    const char *runtime;    /* option that sets a parameter of mpirun itself */
    const char *interface;  /* parameter: mpirun's network interface */
    const char *transports; /* value of btl for ranks on one machine */
    /* Environment variables: */
    const char *tmpdir;        /* folder for files of mpirun and its ranks */
    const char *memory_folder; /* folder for memory that ranks share */
};

static const struct names names_4 = {
    .crowded = { "--oversubscribe" },
    .runtime = "--mca",
    .interface = "oob_tcp_if_include",
    .transports = "self,vader",
    .tmpdir = "OMPI_MCA_orte_tmpdir_base",
    .memory_folder = "OMPI_MCA_btl_vader_backing_directory",
};

static const struct names names_5 = {
    .crowded = { "--map-by", ":OVERSUBSCRIBE" },
    .runtime = "--prtemca",
    .interface = "prte_if_include",
    .transports = "self,sm",
    .tmpdir = "PRTE_MCA_prte_tmpdir_base",
    .memory_folder = "OMPI_MCA_btl_sm_backing_directory",
};

static const struct names *names_of(const struct vp_mpirun *mpirun)
{
    return mpirun->version >= 5 ? &names_5 : &names_4;
}

/* ---- Before it starts --------------------------------------------------- */

/* Returns the major version in "mpirun (Open MPI) 4.1.4"; 0: not Open MPI. */
static int parse_version(const char *text)
{
    static const char name[] = "(Open MPI) ";
    const char *at = strstr(text, name);

    return at ? (int)strtol(at + sizeof(name) - 1, NULL, 10) : 0;
}

/* Unsets a variable that vp_mpirun_open() has set, and not the user. */
static void unset_variable(const char *name, const struct vp_scratch *scratch)
{
    const char *value = getenv(name);

    if (value && scratch->path[0] && strcmp(value, scratch->path) == 0)
        unsetenv(name);
}

enum vp_status vp_mpirun_find(const struct vp_config *config,
                              struct vp_err *err)
{
    char path[PATH_MAX];

    if (vp_program_find("mpirun", path, sizeof(path)))
        return VP_OK;
    return vp_err_set(
        err, VP_ERR_UNSUPPORTED,
        "mpirun: is not in PATH, and ranks that are processes "
        "need it; install Open MPI (Debian: openmpi-bin)%s",
        vp_hosts_are_here(config) ? ", or set distributed_backend: local" : "");
}

enum vp_status vp_mpirun_open(const struct vp_config *config,
                              struct vp_mpirun *out, struct vp_err *err)
{
    char *argv[] = { "mpirun", "--version", NULL };
    char text[256];
    enum vp_status st;

    *out = (struct vp_mpirun){ 0 };
    VP_TRY(vp_process_output(argv, VERSION_MS, text, sizeof(text), err));
    out->version = parse_version(text);
    /* A folder of this machine means nothing on other hosts. */
    if (out->version == 0 || !vp_hosts_are_here(config))
        return VP_OK;
    st = vp_scratch_make(VP_SCRATCH_FILES, &out->session, err);
    if (st == VP_OK)
        st = vp_scratch_make(VP_SCRATCH_MEMORY, &out->memory, err);
    if (st != VP_OK) {
        vp_mpirun_close(out);
        return st;
    }
    setenv(names_of(out)->tmpdir, out->session.path, 0);
    setenv(names_of(out)->memory_folder, out->memory.path, 0);
    return VP_OK;
}

void vp_mpirun_close(struct vp_mpirun *mpirun)
{
    const struct names *names = names_of(mpirun);

    unset_variable(names->tmpdir, &mpirun->session);
    unset_variable(names->memory_folder, &mpirun->memory);
    vp_scratch_remove(&mpirun->session);
    vp_scratch_remove(&mpirun->memory);
}

/* ---- The command line --------------------------------------------------- */

/* Returns true for variables that mpirun passes on to ranks on other hosts. */
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

/* Names the variables only: their values stay out of the command line. */
static void add_environment(struct vp_words *out)
{
    for (char **at = environ; *at; at++) {
        if (!is_passed_on(*at))
            continue;
        vp_words_add(out, "-x");
        vp_words_addf(out, "%.*s", (int)strcspn(*at, "="), *at);
    }
}

/* Returns true if the user's environment sets the parameter. */
static bool is_given(const char *parameter)
{
    static const char *const starts[] = { "OMPI_MCA_", "PRTE_MCA_" };
    char name[128];

    for (size_t i = 0; i < VP_COUNT_OF(starts); i++) {
        snprintf(name, sizeof(name), "%s%s", starts[i], parameter);
        if (getenv(name))
            return true;
    }
    return false;
}

static void add_parameter(struct vp_words *out, const char *option,
                          const char *parameter, const char *value)
{
    if (is_given(parameter))
        return;
    vp_words_add(out, option);
    vp_words_add(out, parameter);
    vp_words_add(out, value);
}

/* Restricts ranks on one machine to shared memory, so that they listen at no
 * network address. mpirun itself always listens at all addresses. */
static void add_network(const struct vp_mpirun *mpirun,
                        const struct vp_config *config, struct vp_words *out)
{
    const struct names *names = names_of(mpirun);

    if (vp_hosts_are_here(config) && mpirun->version > 0) {
        add_parameter(out, "--mca", "pml", "ob1");
        add_parameter(out, "--mca", "btl", names->transports);
    } else if (!vp_hosts_are_here(config) && config->network_interface) {
        add_parameter(out, "--mca", "btl_tcp_if_include",
                      config->network_interface);
        add_parameter(out, names->runtime, names->interface,
                      config->network_interface);
    }
}

/* Ranks bind their threads themselves. If a host has at least one rank per
 * core, mpi_yield_when_idle makes a waiting rank give up its core. */
static void add_options(const struct vp_mpirun *mpirun,
                        const struct vp_config *config, const char *folder,
                        struct vp_words *out)
{
    vp_words_add(out, "mpirun");
    if (mpirun->version < 5) /* version 5 has no such option and prints less */
        vp_words_add(out, "--quiet");
    vp_words_add(out, "--bind-to");
    vp_words_add(out, "none");
    if (geteuid() == 0)
        vp_words_add(out, "--allow-run-as-root");
    if (vp_hosts_crowd(config) >= sysconf(_SC_NPROCESSORS_ONLN)) {
        vp_words_add_all(out, names_of(mpirun)->crowded);
        add_parameter(out, "--mca", "mpi_yield_when_idle", "1");
    }
    add_network(mpirun, config, out);
    vp_words_add(out, "--hostfile");
    vp_words_addf(out, "%s/machinefile", folder);
}

/* Appends the part of the command that starts `n` ranks on one host. mpirun
 * numbers ranks in the order of these parts. */
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
    if (config->container) {
        enum vp_status st = vp_container_add(out, config->container, folder,
                                             err);

        if (st == VP_ERR_INVALID || st == VP_ERR_UNSUPPORTED)
            vp_err_prefix(err, "%s", vp_config_place(config, "container"));
        if (st != VP_OK)
            return st;
    }
    for (int i = 0; i < rank->n; i++)
        vp_words_add(out, rank->at[i]);
    return VP_OK;
}

enum vp_status vp_mpirun_make(const struct vp_mpirun *mpirun,
                              const struct vp_config *config,
                              const char *folder, const struct vp_words *rank,
                              struct vp_words *out, struct vp_err *err)
{
    int n = vp_config_n_ranks(config);

    add_options(mpirun, config, folder, out);
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
